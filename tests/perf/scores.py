"""Trains decks of inputs/train, evaluates what they learned, and writes the table of scores.

    python tests/perf/scores.py --ranks 2 --seeds 1 2 3 --output runs/scores
    python tests/perf/scores.py gymnasium/half_cheetah_v5 dm_control/walker_walk --seeds 1

A score is the mean, over the seeds, of the undiscounted return of the deterministic policy at the end of training,
over 100 episodes; +- is the standard deviation over the seeds. Times are those of one training; CPU time is that of all
ranks together, and says more on a machine that does other work. Runs that are there already are not repeated, so that
the script can be stopped and started again.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

import h5py

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("MANIPLE_BUILD_DIR", ROOT / "build"))
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "VIRTUAL_ENV": str(ROOT / ".venv")}
# the best scores of PPO that are published, as far as we know, and where; "goal" where none was found
PUBLISHED = {
    "gymnasium/half_cheetah_v5": (6300, "Sample Factory"),
    "gymnasium/ant_v5": (5900, "Sample Factory"),
    "gymnasium/hopper_v5": (3100, "Tianshou"),                  # examples/mujoco/README.md, 3 M steps
    "gymnasium/walker2d_v5": (5500, "Sample Factory"),
    "gymnasium/humanoid_v5": (5400, "Sample Factory"),          # its MuJoCo benchmark, 10 M steps
    "gymnasium/inverted_pendulum_v5": (889, "CleanRL"),         # docs/rl-algorithms/rpo.md, 8 M steps
    "gymnasium/inverted_double_pendulum_v5": (9300, "goal"),
    "gymnasium/swimmer_v5": (282, "SB3 zoo"),                   # its model ppo-Swimmer-v3
    "gymnasium/reacher_v5": (-5, "goal"),
    # rl_games: docs/DEEPMIND_ENVPOOL.md, 32 M steps; CleanRL: docs/rl-algorithms/rpo.md, its column of PPO, 8 M steps
    "dm_control/cartpole_swingup": (590, "CleanRL"),
    "dm_control/walker_walk": (917, "rl_games"),
    "dm_control/cheetah_run": (685, "rl_games"),
    "dm_control/hopper_hop": (6.5, "CleanRL"),
    "dm_control/humanoid_stand": (653, "rl_games"),
}
EPISODES = 100


def run(ranks, *arguments):
    line = ["mpirun", "--oversubscribe", *(["--bind-to", "core"] if 1 < ranks <= os.cpu_count() else []), "-n",
            str(ranks), str(BUILD / "maniple"), *map(str, arguments)]
    result = subprocess.run(line, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(line)}\n{result.stdout}{result.stderr}")


def score(task, seed, arguments):
    """Mean return, and control steps, seconds of wall time and of CPU time of one training."""
    directory = (arguments.output / task / str(seed)).resolve()
    deck = f"inputs/train/{task}.yaml"
    if not (directory / "evaluation.h5").exists():
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run(arguments.ranks, "train", deck, f"batch.seed={seed}", f"output.directory={directory}",
            "output.overwrite=true", "run.progress=none", *arguments.keys)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        (directory / "cpu_seconds").write_text(f"{cpu_seconds}\n")
        run(arguments.ranks, "evaluate", deck, f"batch.seed={1000 + seed}", f"batch.num_envs={EPISODES}",
            f"control.checkpoint={directory}", f"output.directory={directory}", *arguments.keys)
    with h5py.File(directory / "evaluation.h5") as file:
        mean = float(file["evaluation/mean_return"][0])
    with h5py.File(directory / "results.h5") as file:
        return (mean, float(file["metrics/env_steps"][-1]), float(file["metrics/wall_seconds"][-1]),
                float((directory / "cpu_seconds").read_text()))


def minutes(seconds):
    """The mean of times, rounded."""
    rounded = round(statistics.mean(seconds))
    return f"{rounded // 60} min {rounded % 60} s" if rounded >= 60 else f"{rounded} s"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", default=list(PUBLISHED), metavar="task",
                        help="decks of inputs/train, without .yaml; default: those with a published score")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--keys", nargs="*", default=[], help="key.path=value, for every run")
    parser.add_argument("--output", type=Path, default=ROOT / "runs" / "scores", help="runs and scores.md go here")
    arguments = parser.parse_args()
    arguments.output = arguments.output.resolve()

    table = [f"| task | published PPO | score | of each seed | control steps | wall time, ranks: {arguments.ranks} "
             "| CPU time |", "|---|---|---|---|---|---|---|"]
    for task in arguments.tasks:
        means, steps, wall, cpu = zip(*(score(task, seed, arguments) for seed in arguments.seeds))
        digits = 0 if abs(statistics.mean(means)) >= 100 else 1
        spread = f" ± {statistics.stdev(means):.{digits}f}" if len(means) > 1 else ""
        each = ", ".join(f"{mean:.{digits}f}" for mean in means)
        published = "{} ({})".format(*PUBLISHED[task]) if task in PUBLISHED else ""
        table.append(f"| {task} | {published} | {statistics.mean(means):.{digits}f}{spread} | {each} | "
                     f"{steps[0] / 1e6:.1f} M | {minutes(wall)} | {minutes(cpu)} |")
        print(table[-1], flush=True)
        (arguments.output / "scores.md").write_text("\n".join(table) + "\n")
    print(f"written: {arguments.output / 'scores.md'}")


if __name__ == "__main__":
    main()
