"""Physics steps per second of `maniple bench` on one rank against MuJoCo's batch API (mujoco.batch) on one thread.

Both step the same model with its own integrator and solver, from the same states, which 500 steps with random
controls have spread, under random controls, turn by turn on the same core, so that what else happens on the machine
meets both. Printed is a table with the ratios of the medians and their range, and how the stages of a step share
Maniple's time.

    python tests/perf/physics_vs_mujoco_batch.py cartpole
    python tests/perf/physics_vs_mujoco_batch.py half_cheetah ant --precision double --output ratios.json
    python tests/perf/physics_vs_mujoco_batch.py all
    python tests/perf/physics_vs_mujoco_batch.py package:dm_control/suite/dog.xml robots/go2.xml --envs 512
"""

import argparse
import importlib.util
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("MANIPLE_BUILD_DIR", ROOT / "build"))
GYMNASIUM = "package:gymnasium/envs/mujoco/assets/"
DM_CONTROL = "package:dm_control/suite/"
# model: file, and whether contacts and limits are left out of both sides
MODELS = {
    "cartpole": (str(ROOT / "inputs/models/cartpole.xml"), True),
    "arm6": (str(ROOT / "inputs/models/arm6.xml"), True),
    "half_cheetah": (GYMNASIUM + "half_cheetah.xml", False),
    "hopper": (GYMNASIUM + "hopper.xml", False),
    "walker2d": (GYMNASIUM + "walker2d.xml", False),
    "dm_walker": (DM_CONTROL + "walker.xml", False),
    "dm_cheetah": (DM_CONTROL + "cheetah.xml", False),
    "ant": (GYMNASIUM + "ant.xml", False),
    "dm_humanoid": (DM_CONTROL + "humanoid.xml", False),
    "humanoid": (GYMNASIUM + "humanoid.xml", False),
    # heaps of boxes, and of cylinders and ellipsoids, which GJK and EPA compute
    "boxes": (str(ROOT / "tests/reference/models/boxes.xml"), False),
    "solids": (str(ROOT / "tests/reference/models/solids.xml"), False),
    # on a floor that only the capsules of its feet touch, with motors; written by file_of
    "g1_feet": ("g1_feet.xml", False),
}
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def is_smooth(name):
    """Whether contacts and limits are left out; not of a model that is given by its file."""
    return name in MODELS and MODELS[name][1]


def file_of(name, directory):
    """The model's file; g1's is written into the directory, as mjlab composes it (FEET_ONLY_COLLISION)."""
    file = MODELS[name][0] if name in MODELS else name
    if name != "g1_feet":
        return file
    source = package_file("mjlab/asset_zoo/robots/unitree_g1/xmls/g1.xml")
    text = source.read_text()
    text = text.replace('meshdir="', f'meshdir="{source.parent}/')
    text = text.replace('contype="1" conaffinity="1"', 'contype="0" conaffinity="0"')
    text = text.replace('type="capsule" size="0.01"',
                        'type="capsule" size="0.01" conaffinity="1" condim="3" priority="1" friction="0.6"')
    text = text.replace("<worldbody>", '<worldbody><geom type="plane" size="0 0 1"/>')
    motors = "".join(f'<motor gear="3" joint="{joint}"/>' for joint in re.findall(r'<joint name="([^"]+)"', text))
    text = text.replace("</mujoco>", f"<actuator>{motors}</actuator></mujoco>")
    path = Path(directory) / file
    path.write_text(text)
    return str(path)


def package_file(path):
    """A file inside an installed Python package."""
    package, _, inside = path.partition("/")
    return Path(importlib.util.find_spec(package).submodule_search_locations[0]) / inside


def maniple(verb, name, core, envs, directory, *keys):
    """Runs one verb of the program on one rank of one core."""
    file, smooth = file_of(name, directory), is_smooth(name)
    off = ["model.contacts=false", "model.limits=false"] if smooth else []
    command = ["taskset", "-c", str(core), "mpirun", "-n", "1", "--bind-to", "none", str(BUILD / "maniple"), verb,
               f"model.file={file}", *off, f"batch.num_envs={envs}", f"output.directory={directory}", *keys]
    result = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(result.stdout + result.stderr)


def spread_states(name, arguments, directory):
    """Writes the states after 500 steps with random controls, from which both sides start."""
    maniple("rollout", name, arguments.core, arguments.envs, directory, "control.source=random",
            "simulation.precision=double", "simulation.steps=500", "output.trajectory.every=500",
            "output.trajectory.fields=[qpos, qvel]")
    path = Path(directory) / "spread.h5"
    with h5py.File(Path(directory) / "results.h5") as results, h5py.File(path, "w") as states:
        for field in ("qpos", "qvel"):
            states[field] = results[f"trajectory/{field}"][:, -1].astype("f8")
    return path


def maniple_rate(name, precision, states, arguments, directory):
    """Median physics steps per second of one bench, with its report."""
    maniple("bench", name, arguments.core, arguments.envs, directory, f"simulation.precision={precision}",
            f"bench.steps={arguments.steps}", "bench.repeats=3", "initial_state.source=file",
            f"initial_state.file={states}", "output.overwrite=true")
    report = json.loads((Path(directory) / "bench.json").read_text())
    return report["physics_steps_per_second"]["median"], report


def mujoco_rate(name, states, arguments):
    """The same with mujoco.batch on one thread of the same core; runs in a process of its own."""
    command = ["taskset", "-c", str(arguments.core), sys.executable, __file__, name, "--mujoco-from", str(states)]
    result = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    return float(re.search(r"rate (\S+)", result.stdout).group(1))


def time_mujoco(name, states):
    import mujoco
    from mujoco.batch import Batch

    file, smooth = file_of(name, Path(states).parent), is_smooth(name)
    if file.startswith("package:"):
        file = package_file(file.removeprefix("package:"))
    model = mujoco.MjModel.from_xml_path(str(file))
    if smooth:  # which spares MuJoCo the search for contacts
        model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_LIMIT
    with h5py.File(states) as start:
        qpos, qvel = start["qpos"][:], start["qvel"][:]
    envs = len(qpos)
    batch = Batch(model, nsim=envs, nthread=1)
    batch.bind("qpos")[:] = qpos
    batch.bind("qvel")[:] = qvel
    limited = model.actuator_ctrllimited.astype(bool)
    low = np.where(limited, model.actuator_ctrlrange[:, 0], -1)
    high = np.where(limited, model.actuator_ctrlrange[:, 1], 1)
    # drawn before the clock starts: the random numbers are not what is compared
    controls = np.random.default_rng(0).uniform(low, high, (16, envs, model.nu))
    control = batch.bind("ctrl")
    for step in range(3):
        control[:] = controls[step % 16]
        batch.step()
    rates = []
    for _ in range(3):
        done, begun = 0, time.perf_counter()
        while done < 3 or time.perf_counter() - begun < 0.5:
            control[:] = controls[done % 16]
            batch.step()
            done += 1
        rates.append(envs * done / (time.perf_counter() - begun))
    return statistics.median(rates)


def compare(name, arguments):
    """Rows of the table: one per precision."""
    rates = {precision: [] for precision in arguments.precision}
    theirs, reports = [], {}
    with tempfile.TemporaryDirectory() as directory:
        states = spread_states(name, arguments, directory)
        for _ in range(arguments.alternations):
            theirs.append(mujoco_rate(name, states, arguments))
            for precision in arguments.precision:
                rate, reports[precision] = maniple_rate(name, precision, states, arguments, directory)
                rates[precision].append(rate)
    rows = []
    for precision in arguments.precision:
        ratio = statistics.median(rates[precision]) / statistics.median(theirs)
        rows.append({"model": name, "precision": precision, "num_envs": arguments.envs, "ratio": ratio,
                     "lane_width": reports[precision]["lane_width"], "maniple": rates[precision],
                     "mujoco_batch": theirs, "share_per_stage": reports[precision]["share_per_physics_stage"]})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="model",
                        help="all, a model file, or some of " + ", ".join(MODELS))
    parser.add_argument("--envs", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=50, help="control steps per repeat of the bench")
    parser.add_argument("--precision", nargs="+", choices=("single", "double"), default=["single", "double"])
    parser.add_argument("--alternations", type=int, default=3)
    parser.add_argument("--core", type=int, default=min(os.sched_getaffinity(0)))
    parser.add_argument("--output", type=Path, help="JSON file to write")
    parser.add_argument("--mujoco-from", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.mujoco_from:
        print(f"rate {time_mujoco(arguments.models[0], arguments.mujoco_from)}")
        return

    unknown = [name for name in arguments.models if name not in (*MODELS, "all") and not name.endswith(".xml")]
    if unknown:
        parser.error(f"{', '.join(unknown)}: no such model; allowed: all, a file that ends with .xml, {', '.join(MODELS)}")
    rows = []
    print(f"{'model':14} {'precision':9} {'lanes':>5} {'maniple/s':>11} {'mujoco.batch/s':>14} {'ratio':>7}  {'(range)':11} "
          "share of each stage")
    for name in MODELS if "all" in arguments.models else arguments.models:
        for row in compare(name, arguments):
            rows.append(row)
            ratios = [ours / theirs for ours, theirs in zip(row["maniple"], row["mujoco_batch"])]
            print(f"{Path(name).stem:14} {row['precision']:9} {row['lane_width']:5} {statistics.median(row['maniple']):11.4g} "
                  f"{statistics.median(row['mujoco_batch']):14.4g} {row['ratio']:6.1f}x  "
                  f"{f'({min(ratios):.1f}-{max(ratios):.1f})':11} "
                  + ", ".join(f"{stage} {100 * share:.0f}%" for stage, share in row["share_per_stage"].items()),
                  flush=True)
    if arguments.output:
        arguments.output.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
