"""Physics steps per second of `maniple bench` on one rank against MuJoCo's batch API (mujoco.batch) on one thread.

Both step the same model with the same integrator and time step under random controls, turn by turn on the same
core, so that what else happens on the machine meets both. The ratio of the medians is printed and written as JSON.

    python tests/perf/physics_vs_mujoco_batch.py cartpole
    python tests/perf/physics_vs_mujoco_batch.py arm6 --precision double --output arm6.json
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("MANIPLE_BUILD_DIR", ROOT / "build"))
MODELS = {"cartpole": "inputs/models/cartpole.xml", "arm6": "inputs/models/arm6.xml"}
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def maniple_rate(model, arguments, directory):
    """Median physics steps per second of one bench on one rank."""
    command = ["taskset", "-c", str(arguments.core), "mpirun", "-n", "1", "--bind-to", "none", str(BUILD / "maniple"),
               "bench", f"model.file={ROOT / model}", "model.contacts=false", "model.limits=false",
               f"batch.num_envs={arguments.envs}", f"simulation.precision={arguments.precision}",
               f"bench.steps={arguments.steps}", "bench.repeats=3", f"output.directory={directory}"]
    result = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(result.stdout + result.stderr)
    report = json.loads((Path(directory) / "bench.json").read_text())
    return report["physics_steps_per_second"]["median"], report


def mujoco_rate(model, arguments):
    """The same with mujoco.batch on one thread of the same core; runs in a process of its own."""
    command = ["taskset", "-c", str(arguments.core), sys.executable, __file__, arguments.model, "--mujoco-only",
               "--envs", str(arguments.envs), "--steps", str(arguments.steps)]
    result = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    return float(re.search(r"rate (\S+)", result.stdout).group(1))


def time_mujoco(path, envs, steps):
    import mujoco
    import numpy as np
    from mujoco.batch import Batch

    model = mujoco.MjModel.from_xml_path(str(path))
    # as in the deck of the bench: neither contacts nor limits, which spares MuJoCo the search for them
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_LIMIT
    batch = Batch(model, nsim=envs, nthread=1)
    low, high = model.actuator_ctrlrange.T
    # drawn before the clock starts: the random numbers are not what is compared
    controls = np.random.default_rng(0).uniform(low, high, (16, envs, model.nu))
    control = batch.bind("ctrl")

    # a chunk of about half a second per repeat
    for step in range(8):
        control[:] = controls[step % 16]
        batch.step()
    rates = []
    for _ in range(3):
        done, begun = 0, time.perf_counter()
        while done < min(steps, 20) or time.perf_counter() - begun < 0.5:
            control[:] = controls[done % 16]
            batch.step()
            done += 1
        rates.append(envs * done / (time.perf_counter() - begun))
    return statistics.median(rates)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=sorted(MODELS))
    parser.add_argument("--envs", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=200, help="control steps per repeat of the bench")
    parser.add_argument("--precision", choices=("single", "double"), default="single")
    parser.add_argument("--alternations", type=int, default=5)
    parser.add_argument("--core", type=int, default=min(os.sched_getaffinity(0)))
    parser.add_argument("--output", type=Path, help="JSON file to write")
    parser.add_argument("--mujoco-only", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    model = MODELS[arguments.model]
    if arguments.mujoco_only:
        print(f"rate {time_mujoco(ROOT / model, arguments.envs, arguments.steps)}")
        return

    ours, theirs, report = [], [], {}
    with tempfile.TemporaryDirectory() as directory:
        for turn in range(arguments.alternations):
            rate, report = maniple_rate(model, arguments, directory)
            ours.append(rate)
            theirs.append(mujoco_rate(model, arguments))
            print(f"turn {turn + 1}: maniple {ours[-1]:.4g}/s, mujoco.batch {theirs[-1]:.4g}/s, "
                  f"ratio {ours[-1] / theirs[-1]:.1f}", flush=True)
    ratio = statistics.median(ours) / statistics.median(theirs)
    print(f"{arguments.model}, {arguments.precision}, {arguments.envs} environments, one core: "
          f"median {statistics.median(ours):.4g}/s against {statistics.median(theirs):.4g}/s = {ratio:.1f}x")
    if arguments.output:
        arguments.output.write_text(json.dumps(
            {"model": arguments.model, "precision": arguments.precision, "num_envs": arguments.envs, "ratio": ratio,
             "lane_width": report.get("lane_width"), "maniple": ours, "mujoco_batch": theirs}, indent=2) + "\n")


if __name__ == "__main__":
    main()
