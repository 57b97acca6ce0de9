"""Trains the decks of inputs/train/gymnasium, evaluates what they learned, and writes the table of scores.

    python tests/perf/scores.py --ranks 2 --seeds 1 2 3 --output runs/scores
    python tests/perf/scores.py half_cheetah_v5 ant_v5 --seeds 1

A score is the mean, over the seeds, of the undiscounted return of the deterministic policy at the end of training,
over 100 episodes. Runs that are there already are not repeated, so that the script can be stopped and started again.
"""

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

import h5py

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("MANIPLE_BUILD_DIR", ROOT / "build"))
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "VIRTUAL_ENV": str(ROOT / ".venv")}
# the best published scores of PPO: Sample Factory's benchmark and Tianshou's (examples/mujoco/README.md)
PUBLISHED = {"half_cheetah_v5": 6300, "ant_v5": 5900, "hopper_v5": 3100, "walker2d_v5": 5500, "humanoid_v5": 5400}
EPISODES = 100


def run(ranks, *arguments):
    line = ["mpirun", "--oversubscribe", *(["--bind-to", "core"] if 1 < ranks <= os.cpu_count() else []), "-n",
            str(ranks), str(BUILD / "maniple"), *map(str, arguments)]
    result = subprocess.run(line, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(line)}\n{result.stdout}{result.stderr}")


def score(task, seed, arguments):
    """Mean return with the half width of its 95 % interval, control steps and seconds of one training."""
    directory = (arguments.output / task / str(seed)).resolve()
    deck = f"inputs/train/gymnasium/{task}.yaml"
    if not (directory / "evaluation.h5").exists():
        run(arguments.ranks, "train", deck, f"batch.seed={seed}", f"output.directory={directory}",
            "output.overwrite=true", "run.progress=none", *arguments.keys)
        run(arguments.ranks, "evaluate", deck, f"batch.seed={1000 + seed}", f"batch.num_envs={EPISODES}",
            f"control.checkpoint={directory}", f"output.directory={directory}", *arguments.keys)
    with h5py.File(directory / "evaluation.h5") as file:
        mean = float(file["evaluation/mean_return"][0])
        confidence = float(file["evaluation/mean_return_confidence"][0])
    with h5py.File(directory / "results.h5") as file:
        return mean, confidence, float(file["metrics/env_steps"][-1]), float(file["metrics/wall_seconds"][-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", default=[], help="decks of inputs/train/gymnasium; default: all")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--keys", nargs="*", default=[], help="key.path=value, for every run")
    parser.add_argument("--output", type=Path, default=ROOT / "runs" / "scores", help="runs and scores.md go here")
    arguments = parser.parse_args()
    arguments.output = arguments.output.resolve()
    tasks = arguments.tasks or sorted(path.stem for path in (ROOT / "inputs/train/gymnasium").glob("*.yaml"))

    table = [f"| task | score ({len(arguments.seeds)} seeds) | of each seed | best published PPO | control steps | "
             f"wall time on {arguments.ranks} cores |", "|---|---|---|---|---|---|"]
    for task in tasks:
        results = [score(task, seed, arguments) for seed in arguments.seeds]
        means = [mean for mean, *_ in results]
        each = ", ".join(f"{mean:.0f} ± {confidence:.0f}" for mean, confidence, *_ in results)
        seconds = statistics.mean(seconds for *_, seconds in results)
        table.append(f"| {task} | {statistics.mean(means):.0f} | {each} | {PUBLISHED.get(task, '')} | "
                     f"{results[0][2] / 1e6:.0f} M | {int(seconds) // 60} min {int(seconds) % 60} s |")
        print(table[-1], flush=True)
        (arguments.output / "scores.md").write_text("\n".join(table) + "\n")
    print(f"written: {arguments.output / 'scores.md'}")


if __name__ == "__main__":
    main()
