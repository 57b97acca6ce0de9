"""Environment steps per second over the whole training loop, and what exact reductions cost against fast ones.

    python tests/perf/training_rate.py --ranks 2 --output training.json

Runs with exact and with fast reductions alternate; rates come from the metrics of each run, without the first
iterations. The share of each stage is printed by the program itself and repeated here.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import h5py

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("MANIPLE_BUILD_DIR", ROOT / "build"))
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
WARM_UP = 5  # iterations left out


def train(arguments, reduction, directory):
    """Environment steps per second, and the program's own line about the stages."""
    command = ["mpirun", "--oversubscribe", *(["--bind-to", "core"] if arguments.ranks <= os.cpu_count() else []),
               "-n", str(arguments.ranks), str(BUILD / "maniple"), "train", arguments.deck,
               f"learning.iterations={arguments.iterations}", f"learning.reduction={reduction}",
               "learning.checkpoint_every=0", f"output.directory={directory}", *arguments.overrides]
    result = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(result.stdout + result.stderr)
    with h5py.File(Path(directory) / "results.h5") as file:
        steps, seconds = file["metrics/env_steps"][()], file["metrics/wall_seconds"][()]
    rate = (steps[-1] - steps[WARM_UP]) / (seconds[-1] - seconds[WARM_UP])
    shares = [line for line in (result.stdout + result.stderr).splitlines() if "share of the time" in line]
    return float(rate), shares[-1] if shares else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("overrides", nargs="*", help="key.path=value")
    parser.add_argument("--deck", default="inputs/train/isaac_cartpole.yaml")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=40)
    parser.add_argument("--alternations", type=int, default=3)
    parser.add_argument("--output", type=Path, help="JSON file to write")
    arguments = parser.parse_args()

    rates = {"exact": [], "fast": []}
    with tempfile.TemporaryDirectory() as directory:
        for turn in range(arguments.alternations):
            for reduction in rates:
                rate, shares = train(arguments, reduction, f"{directory}/{turn}-{reduction}")
                rates[reduction].append(rate)
                print(f"turn {turn + 1}, {reduction}: {rate:.4g} env-steps/s; {shares}", flush=True)
    exact, fast = (statistics.median(rates[r]) for r in ("exact", "fast"))
    print(f"{arguments.ranks} ranks: exact {exact:.4g} env-steps/s, fast {fast:.4g} env-steps/s: "
          f"exact reductions cost {100 * (1 - exact / fast):.1f}% of an iteration")
    if arguments.output:
        arguments.output.write_text(json.dumps({"ranks": arguments.ranks, "deck": arguments.deck, **rates}, indent=2) + "\n")


if __name__ == "__main__":
    main()
