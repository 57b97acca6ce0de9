"""Update time per sample and epoch with this program's own dense layers, over that with OpenBLAS, by width.

    python tests/perf/dense_layers.py --widths 64 128 256 512

Both run the same deck on one rank and one core, in turn; the figures are medians over the pairs of runs. Layers at
least learning.blas_width wide go through OpenBLAS: its default should be the width from which that pays.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("MANIPLE_BUILD_DIR", ROOT / "build"))
ENVIRONMENT = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}


def update_seconds(arguments, width, blas_width):
    """Seconds per sample and epoch."""
    with tempfile.TemporaryDirectory() as directory:
        command = [str(BUILD / "maniple"), "bench", arguments.deck, f"policy.hidden=[{width},{width}]",
                   f"learning.blas_width={blas_width}", f"batch.num_envs={arguments.num_envs}", "learning.horizon=16",
                   "learning.epochs=4", "learning.minibatches=4", "bench.steps=1", "bench.repeats=1",
                   f"bench.iterations={arguments.iterations}", f"output.directory={directory}"]
        result = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True)
        if result.returncode != 0:
            sys.exit(result.stdout + result.stderr)
        written = json.loads((Path(directory) / "bench.json").read_text())
    return written["learning"]["update_seconds_per_sample_and_epoch"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deck", default="inputs/train/gymnasium/half_cheetah_v5.yaml")
    parser.add_argument("--widths", type=int, nargs="+", default=[64, 128, 256, 512])
    parser.add_argument("--num-envs", type=int, default=256)
    parser.add_argument("--iterations", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=5)
    arguments = parser.parse_args()
    print(f"{'width':>6} {'own, us':>9} {'OpenBLAS, us':>13} {'own / OpenBLAS':>15}")
    for width in arguments.widths:
        own, library = [], []
        for _ in range(arguments.pairs):
            own.append(update_seconds(arguments, width, 1 << 20))
            library.append(update_seconds(arguments, width, 1))
        ratio = statistics.median(a / b for a, b in zip(own, library))
        print(f"{width:>6} {1e6 * statistics.median(own):>9.3g} {1e6 * statistics.median(library):>13.3g} {ratio:>15.2f}")


if __name__ == "__main__":
    main()
