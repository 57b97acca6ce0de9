"""Processor time of a training step of a network, forward and backward, over that of torch, or with --mixed what its
mixed precision (learning.mixed_precision: bf16) takes over its single precision.

    ninja -C build maniple_unet_tool maniple_encoder_tool
    python tests/perf/network_rate.py unet [--samples 256 --widths 256 512 1024]         # of the denoising network
    python tests/perf/network_rate.py --mixed unet
    python tests/perf/network_rate.py encoder [--samples 64 --height 76 --width 76]      # of the image encoder

Both have the same shape and batch, single precision and one thread on the same core, and take turns. The figures are
medians; the first step of each is left out. torch is that of this Python or of the system's
(tests/regress/imitation/beside_torch.py), and its version makes a difference.
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
sys.path.insert(0, str(ROOT / "tests/regress/imitation"))
import test_conditional_unet as unet  # noqa: E402
import test_image_encoder as encoder  # noqa: E402
from beside_torch import python_with_torch  # noqa: E402


def start(command):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    core = min(os.sched_getaffinity(0))
    return subprocess.Popen(list(map(str, command)), env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                            preexec_fn=lambda: os.sched_setaffinity(0, {core}))


def step(process):
    process.stdin.write("\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def compare(steps, name, process, other_name, other):
    times = [(step(process), step(other)) for _ in range(steps + 1)][1:]
    for each in (process, other):
        each.stdin.close()
        each.wait()
    print(f"{name} {statistics.median(a for a, _ in times):.2f} s, {other_name} {statistics.median(b for _, b in times):.2f} s, "
          f"ratio {statistics.median(a / b for a, b in times):.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--mixed", action="store_true")
    networks = parser.add_subparsers(dest="kind", required=True)
    of_unet, of_encoder = networks.add_parser("unet"), networks.add_parser("encoder")
    of_unet.add_argument("--samples", type=int, default=256)
    of_unet.add_argument("--widths", type=int, nargs="+", default=[256, 512, 1024])
    of_unet.add_argument("--horizon", type=int, default=16)
    of_unet.add_argument("--kernel-size", type=int, default=5)
    of_encoder.add_argument("--samples", type=int, default=64)
    of_encoder.add_argument("--height", type=int, default=76)
    of_encoder.add_argument("--width", type=int, default=76)
    of_encoder.add_argument("--base-width", type=int, default=64)
    arguments = parser.parse_args()
    case = {key: value for key, value in vars(arguments).items() if key not in ("steps", "mixed")}
    if arguments.kind == "unet":
        module, script = unet, "unet_in_torch.py"
        case.update(actions=2, condition=40, step_embedding=256, groups=8, predict_scale=True)
    else:
        module, script = encoder, "encoder_in_torch.py"
        case.update(channels=3, keypoints=32, features=64)
    if arguments.mixed:
        mixed, single = (start([module.TOOL, "time", precision, *module.sizes_of(case)]) for precision in ("bf16", "float"))
        compare(arguments.steps, "mixed", mixed, "single precision", single)
        return
    python = python_with_torch()
    version = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True).stdout
    own = start([module.TOOL, "time", "float", *module.sizes_of(case)])
    torch = start([python, ROOT / "tests/regress/imitation" / script, "time", json.dumps(case)])
    compare(arguments.steps, "own", own, f"torch {version.strip()}", torch)


if __name__ == "__main__":
    main()
