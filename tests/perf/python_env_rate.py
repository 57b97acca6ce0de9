"""Environment steps per second of a training loop in Python, measured in turn with EnvPool on the same cores: with
observations, rewards, episodes and infos as numpy arrays, and actions handed over in each step.

    .venv/bin/pip install -r tools/requirements-perf.txt
    python tests/perf/python_env_rate.py --cores 2 --output python_env_rate.json
    python tests/perf/python_env_rate.py half_cheetah_v5 --envs 1024 --alternations 3 --seconds 2

Both take turns, each in a process of its own: maniple.make_vec() and envpool.make(env_type="gymnasium"), both stepped
synchronously with the same number of environments, the same random actions and a thread on each core. EnvPool also
runs with half of its environments in flight, and the better of both counts. Maniple needs a build (tools/run.sh).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
NAMES = {"ant_v5": "Ant-v5", "half_cheetah_v5": "HalfCheetah-v5", "hopper_v5": "Hopper-v5", "humanoid_v5": "Humanoid-v5",
         "swimmer_v5": "Swimmer-v5", "walker2d_v5": "Walker2d-v5"}
WARM_UP = 20   # steps
ACTIONS = 64   # sets of random actions, used over and over


def rate_of(step, envs, seconds):
    """Environment steps per second of step(number), which steps `envs` environments."""
    for number in range(WARM_UP):
        step(number)
    done, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        step(done)
        done += 1
    return done * envs / (time.perf_counter() - started)


def of_maniple(task, arguments, threads):
    sys.path.insert(0, str(ROOT / "tools"))
    import warnings

    import maniple

    warnings.simplefilter("ignore")
    envs = maniple.make_vec(f"gymnasium/{task}", arguments.envs, seed=1, precision=arguments.precision, threads=threads,
                            autoreset_mode=arguments.autoreset_mode)
    space = envs.single_action_space
    actions = np.random.default_rng(1).uniform(space.low, space.high, (ACTIONS, *envs.action_space.shape)).astype(space.dtype)
    envs.reset()
    return rate_of(lambda number: envs.step(actions[number % ACTIONS]), arguments.envs, arguments.seconds)


def of_envpool(task, arguments, threads):
    import envpool

    rates = []
    for share in (1, 2):
        batch = arguments.envs // share
        pool = envpool.make(NAMES[task], env_type="gymnasium", num_envs=arguments.envs, batch_size=batch, num_threads=threads,
                            seed=1)
        space = pool.action_space
        actions = np.random.default_rng(1).uniform(space.low, space.high, (ACTIONS, batch, *space.shape)).astype(space.dtype)
        if share == 1:
            pool.reset()
            rates.append(rate_of(lambda number: pool.step(actions[number % ACTIONS]), batch, arguments.seconds))
            continue
        pool.async_reset()

        def step(number):
            *_, info = pool.recv()
            pool.send(actions[number % ACTIONS], info["env_id"])

        rates.append(rate_of(step, batch, arguments.seconds))
    return max(rates)


def measured(program, task, arguments):
    """The rate of one of both in a process of its own."""
    line = [sys.executable, __file__, task, "--only", program]
    for name in ("envs", "seconds", "precision", "autoreset_mode", "cores"):
        line += [f"--{name.replace('_', '-')}", str(getattr(arguments, name))]
    result = subprocess.run(line, capture_output=True, text=True, env={**os.environ, "VIRTUAL_ENV": str(ROOT / ".venv")})
    if result.returncode != 0:
        sys.exit(result.stdout + result.stderr)
    return float(result.stdout.split()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", help="tasks of inputs/tasks/gymnasium; default: half_cheetah_v5 ant_v5")
    parser.add_argument("--cores", type=int, default=2, help="number of cores, of those that this process may use")
    parser.add_argument("--envs", type=int, default=1024, help="total number of environments, for both")
    parser.add_argument("--alternations", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3, help="of each turn")
    parser.add_argument("--precision", choices=("single", "double"), default="single")
    parser.add_argument("--autoreset-mode", choices=("NextStep", "SameStep"), default="NextStep", help="EnvPool has NextStep")
    parser.add_argument("--output", type=Path, help="JSON file to write")
    parser.add_argument("--only", choices=("maniple", "envpool"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))[:arguments.cores]
    if len(cores) < arguments.cores:
        parser.error(f"{len(cores)} cores are there")
    os.sched_setaffinity(0, cores)
    if arguments.only:
        rate = {"maniple": of_maniple, "envpool": of_envpool}[arguments.only](arguments.tasks[0], arguments, len(cores))
        print(rate)
        return
    try:
        import envpool  # noqa: F401
    except ImportError as error:
        sys.exit(f"{error}: .venv/bin/pip install -r tools/requirements-perf.txt")

    table = {}
    print(f"{'task':20} {'Maniple':>10} {'EnvPool':>10} {'ratio':>7} {'range':>15}   env-steps/s through Python, "
          f"{arguments.envs} environments, {len(cores)} cores")
    for task in arguments.tasks or ["half_cheetah_v5", "ant_v5"]:
        turns = []
        for _ in range(arguments.alternations):
            pair = measured("maniple", task, arguments), measured("envpool", task, arguments)
            turns.append((*pair, pair[0] / pair[1]))
        rate, peer, ratio = (statistics.median(column) for column in zip(*turns))
        ratios = [turn[2] for turn in turns]
        table[task] = {"maniple": rate, "envpool": peer, "ratio": ratio, "ratio_min": min(ratios), "ratio_max": max(ratios)}
        print(f"{task:20} {rate:10.4g} {peer:10.4g} {ratio:6.1f}x {min(ratios):6.1f} - {max(ratios):5.1f}", flush=True)
    if arguments.output:
        arguments.output.write_text(json.dumps({"cores": len(cores), "envs": arguments.envs, "precision": arguments.precision,
                                                "tasks": table}, indent=1))


if __name__ == "__main__":
    main()
