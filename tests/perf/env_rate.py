"""Environment steps per second of Gymnasium's tasks, with observations, rewards, resets and random actions, measured in
turn with EnvPool on the same cores, and the share of a step that is not physics.

    .venv/bin/pip install -r tools/requirements-perf.txt
    python tests/perf/env_rate.py --cores 2 --output env_rate.json
    python tests/perf/env_rate.py half_cheetah_v5 humanoid_v5 --cores 1 --alternations 3

Both programs take turns. EnvPool runs as it is fastest here: synchronously, or with half of its environments in
flight. The deck's control step is the task's: frame skips count as one step on both sides.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("MANIPLE_BUILD_DIR", ROOT / "build"))
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "VIRTUAL_ENV": str(ROOT / ".venv")}
NAMES = {"ant_v5": "Ant-v5", "half_cheetah_v5": "HalfCheetah-v5", "hopper_v5": "Hopper-v5", "humanoid_v5": "Humanoid-v5",
         "humanoidstandup_v5": "HumanoidStandup-v5", "inverted_double_pendulum_v5": "InvertedDoublePendulum-v5",
         "inverted_pendulum_v5": "InvertedPendulum-v5", "pusher_v5": "Pusher-v5", "reacher_v5": "Reacher-v5",
         "swimmer_v5": "Swimmer-v5", "walker2d_v5": "Walker2d-v5"}


def of_maniple(task, arguments, directory):
    """Environment steps per second, and the share of the time that is not physics."""
    line = ["mpirun", "--oversubscribe", "-n", str(len(arguments.cores)), "--bind-to", "none", str(BUILD / "maniple"),
            "bench", f"inputs/tasks/gymnasium/{task}.yaml", f"batch.num_envs={arguments.envs * len(arguments.cores)}",
            f"bench.steps={arguments.steps}", "bench.repeats=1", f"output.directory={directory}",
            f"simulation.precision={arguments.precision}"]
    result = subprocess.run(line, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(result.stdout + result.stderr)
    measured = json.loads((Path(directory) / "bench.json").read_text())
    shares = measured["share_per_stage_of_environment_steps"]
    return measured["env_steps_per_second"]["median"], 1 - shares["physics"] - shares.get("forward", 0)


def of_envpool(task, in_flight, arguments, seconds):
    """Environment steps per second of EnvPool, a thread on each core."""
    import envpool

    count = 32 * len(arguments.cores)
    pool = envpool.make(NAMES[task], env_type="gymnasium", num_envs=count, batch_size=count if in_flight == 1 else count // 2,
                        num_threads=len(arguments.cores), seed=1)
    low, high = pool.action_space.low, pool.action_space.high
    batch = count if in_flight == 1 else count // 2
    actions = np.random.default_rng(1).uniform(low, high, (64, batch, *low.shape)).astype(low.dtype)
    pool.async_reset()
    done, started = 0, None
    while started is None or time.perf_counter() - started < seconds:
        *_, info = pool.recv()
        pool.send(actions[done % 64], info["env_id"])
        done += 1
        if started is None and done == 50:  # warm
            done, started = 0, time.perf_counter()
    return done * batch / (time.perf_counter() - started)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", help="decks of inputs/tasks/gymnasium; default: all")
    parser.add_argument("--cores", type=int, default=2, help="number of cores, of those that this process may use")
    parser.add_argument("--alternations", type=int, default=3)
    parser.add_argument("--envs", type=int, default=1024, help="environments of Maniple on each core")
    parser.add_argument("--steps", type=int, default=100, help="control steps of Maniple in each turn")
    parser.add_argument("--seconds", type=float, default=2, help="seconds of EnvPool in each turn and mode")
    parser.add_argument("--precision", choices=("single", "double"), default="single")
    parser.add_argument("--output", type=Path, help="JSON file to write")
    arguments = parser.parse_args()
    try:
        import envpool  # noqa: F401
    except ImportError as error:
        sys.exit(f"{error}: .venv/bin/pip install -r tools/requirements-perf.txt")
    cores = sorted(os.sched_getaffinity(0))[:arguments.cores]
    if len(cores) < arguments.cores:
        parser.error(f"{len(cores)} cores are there")
    arguments.cores = cores
    os.sched_setaffinity(0, cores)  # of the programs that it starts, too
    tasks = arguments.tasks or sorted(path.stem for path in (ROOT / "inputs/tasks/gymnasium").glob("*.yaml"))

    table = {}
    print(f"{'task':32} {'Maniple':>10} {'EnvPool':>10} {'ratio':>7} {'range':>15} {'not physics':>12}   env-steps/s, "
          f"{len(cores)} cores")
    for task in tasks:
        turns = []
        for _ in range(arguments.alternations):
            with tempfile.TemporaryDirectory() as directory:
                rate, overhead = of_maniple(task, arguments, directory)
            peer = max(of_envpool(task, in_flight, arguments, arguments.seconds) for in_flight in (1, 2))
            turns.append((rate, peer, rate / peer, overhead))
        rate, peer, ratio, overhead = (statistics.median(column) for column in zip(*turns))
        ratios = [turn[2] for turn in turns]
        table[task] = {"maniple": rate, "envpool": peer, "ratio": ratio, "ratio_min": min(ratios), "ratio_max": max(ratios),
                       "share_not_physics": overhead}
        print(f"{task:32} {rate:10.4g} {peer:10.4g} {ratio:6.1f}x {min(ratios):6.1f} - {max(ratios):5.1f} {overhead:11.1%}",
              flush=True)
    if arguments.output:
        arguments.output.write_text(json.dumps({"cores": len(cores), "precision": arguments.precision, "tasks": table}, indent=1))


if __name__ == "__main__":
    main()
