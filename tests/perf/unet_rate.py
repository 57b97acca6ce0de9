"""Processor time of a training step of the denoising network, forward and backward, over that of torch.

    ninja -C build maniple_unet_tool
    python tests/perf/unet_rate.py [--widths 256 512 1024] [--samples 256]

Both have the same shape and batch, single precision and one thread on the same core, and take turns. The figures are
medians; the first step of each is left out. torch is that of this Python or of the system's (tests/regress/
test_conditional_unet.py), and its version makes a difference.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT / "tests/regress"))
from test_conditional_unet import TOOL, python_with_torch, sizes_of  # noqa: E402


def start(command):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    core = min(os.sched_getaffinity(0))
    return subprocess.Popen(list(map(str, command)), env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                            preexec_fn=lambda: os.sched_setaffinity(0, {core}))


def step(process):
    process.stdin.write("\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--widths", type=int, nargs="+", default=[256, 512, 1024])
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--horizon", type=int, default=16)
    parser.add_argument("--kernel-size", type=int, default=5)
    parser.add_argument("--steps", type=int, default=5)
    arguments = parser.parse_args()
    case = dict(kind="unet", samples=arguments.samples, actions=2, horizon=arguments.horizon, condition=40,
                step_embedding=256, widths=arguments.widths, kernel_size=arguments.kernel_size, groups=8, predict_scale=True)
    python = python_with_torch()
    version = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True).stdout
    own = start([TOOL, "time", "float", *sizes_of(case)])
    torch = start([python, ROOT / "tests/regress/unet_in_torch.py", "time", json.dumps(case)])
    times = [(step(own), step(torch)) for _ in range(arguments.steps + 1)][1:]
    for process in (own, torch):
        process.stdin.close()
        process.wait()
    print(f"own {statistics.median(a for a, _ in times):.2f} s, torch {version.strip()} "
          f"{statistics.median(b for _, b in times):.2f} s, own / torch {statistics.median(a / b for a, b in times):.2f}")


if __name__ == "__main__":
    main()
