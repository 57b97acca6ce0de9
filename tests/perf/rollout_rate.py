"""Physics steps per second of maniple.rollout() beside MuJoCo's own rollouts, mujoco.rollout and mujoco.batch, as
sampling-based control calls them: from one state, many sequences of controls, over and over.

    python tests/perf/rollout_rate.py
    python tests/perf/rollout_rate.py ant --rollouts 1024 --horizon 32 --threads 1 --output rollout_rate.json

They take turns in one process, on the same cores, with the same model, state and controls, in double precision. Thread
pools of MuJoCo are kept between calls, as maniple.rollout() keeps what it has made of a model. Maniple needs a build
(tools/run.sh).
"""

import argparse
import json
import os
import statistics
import sys
import time
import warnings
from pathlib import Path

import mujoco
import numpy as np
from mujoco import rollout

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
MODELS = ("hopper", "ant", "humanoid")
CONTROLS = 4  # sets of random controls, used over and over


def model_of(name):
    """A model of Gymnasium, or of a file."""
    import gymnasium.envs.mujoco

    file = Path(gymnasium.envs.mujoco.__file__).parent / "assets" / f"{name}.xml" if name in MODELS else Path(name)
    return mujoco.MjModel.from_xml_path(str(file))


def seconds_of(call, seconds):
    """Median time of a call, which gets its number, over that many seconds; after a first call."""
    call(0)
    times, begun = [], time.perf_counter()
    while len(times) < 3 or time.perf_counter() - begun < seconds:
        started = time.perf_counter()
        call(len(times))
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def programs(model, threads, arguments):
    """By name: what rolls out controls number `k` and gives the states."""
    import maniple

    data = mujoco.MjData(model)
    mujoco.mj_resetData(model, data)
    state = np.empty(mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS))
    mujoco.mj_getState(model, data, state, mujoco.mjtState.mjSTATE_FULLPHYSICS)
    limited = model.actuator_ctrllimited.astype(bool)
    low, high = (np.where(limited, model.actuator_ctrlrange[:, side], end) for side, end in ((0, -1), (1, 1)))
    controls = np.random.default_rng(0).uniform(low, high, (CONTROLS, arguments.rollouts, arguments.horizon, model.nu))
    pool = rollout.Rollout(nthread=threads)
    datas = [mujoco.MjData(model) for _ in range(threads)]
    found = {
        "maniple": lambda k: maniple.rollout(model, state, controls[k % CONTROLS], threads=threads)[0],
        "mujoco.rollout": lambda k: pool.rollout(model, datas, state, controls[k % CONTROLS])[0],
    }
    try:
        from mujoco.batch import Batch
    except ImportError:  # (MuJoCo before 3.17)
        pass
    else:
        batch = Batch(model, nsim=arguments.rollouts, nthread=threads)
        full = int(mujoco.mjtState.mjSTATE_FULLPHYSICS)

        def of_batch(k):
            batch.reset()
            return batch.rollout(arguments.horizon, controls[k % CONTROLS], record=[full, "sensordata"])[full]

        found["mujoco.batch"] = of_batch
    return found


def measured(name, threads, arguments):
    """Steps per second of each, turn by turn; the first steps must agree."""
    model = model_of(name)
    found = programs(model, threads, arguments)
    first = {program: call(0)[:, :3] for program, call in found.items()}
    for program, states in first.items():
        if not np.allclose(states, first["mujoco.rollout"], rtol=1e-6, atol=1e-6):
            sys.exit(f"{name}: {program} does not give the states of mujoco.rollout")
    steps = arguments.rollouts * arguments.horizon
    turns = [{program: steps / seconds_of(call, arguments.seconds) for program, call in found.items()}
             for _ in range(arguments.alternations)]
    rates = {program: statistics.median(turn[program] for turn in turns) for program in found}
    return {"model": name, "threads": threads, "steps_per_second": rates, "call_seconds": steps / rates["maniple"],
            "ratio": {program: statistics.median(turn["maniple"] / turn[program] for turn in turns)
                      for program in found if program != "maniple"}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help=f"of {', '.join(MODELS)}, or files; default: those")
    parser.add_argument("--rollouts", type=int, default=256)
    parser.add_argument("--horizon", type=int, default=64, help="steps of each rollout")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--alternations", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2, help="of each turn")
    parser.add_argument("--output", type=Path, help="JSON file to write")
    arguments = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    if max(arguments.threads) > len(cores):
        parser.error(f"{len(cores)} cores are there")
    warnings.simplefilter("ignore")
    rows = []
    print(f"{'model':10} {'threads':>7} {'Maniple':>10} {'mujoco.rollout':>15} {'mujoco.batch':>13} {'ratios':>13} {'call':>9}"
          f"   steps/s, {arguments.rollouts} rollouts of {arguments.horizon} steps")
    for name in arguments.models or MODELS:
        for threads in arguments.threads:
            os.sched_setaffinity(0, cores[:threads])
            row = measured(name, threads, arguments)
            rows.append(row)
            rates, ratios = row["steps_per_second"], row["ratio"]
            print(f"{Path(name).stem:10} {threads:7} {rates['maniple']:10.4g} {rates['mujoco.rollout']:15.4g} "
                  f"{rates.get('mujoco.batch', float('nan')):13.4g} {' '.join(f'{ratio:5.1f}x' for ratio in ratios.values()):>13} "
                  f"{1e3 * row['call_seconds']:6.1f} ms", flush=True)
    if arguments.output:
        arguments.output.write_text(json.dumps({"rollouts": arguments.rollouts, "horizon": arguments.horizon, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
