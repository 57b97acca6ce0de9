"""Quality of walking of a policy of mjlab's velocity tasks: falls, and the error of its velocity against the command.

    python tests/perf/velocity_tracking.py inputs/train/mjlab/g1_flat_cpu.yaml runs/mjlab_g1_flat_cpu

64 robots act for 20 s each by the mean action, with the curricula where the training has left them. Errors are root
mean squares over all steps but the first second of the rollout, the turns from one command to the next included, in the
frame of the pelvis or trunk; beside them those of a robot that stands still.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import h5py
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("MANIPLE_BUILD_DIR", ROOT / "build"))
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "VIRTUAL_ENV": str(ROOT / ".venv")}
ROBOTS, STEPS, SKIPPED = 64, 1000, 50


def rollout(deck, run, keys, directory):
    """qpos, qvel, command and falls, [robot, step, size], of the policy of a run."""
    line = [str(BUILD / "maniple"), "rollout", deck, "control.source=policy", f"control.checkpoint={run}",
            "initial_state.source=task", f"batch.num_envs={ROBOTS}", f"simulation.steps={STEPS}", "output.trajectory.every=1",
            "output.trajectory.fields=[qpos,qvel,commands/twist,terminated]", f"output.directory={directory}", *keys]
    result = subprocess.run(line, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(result.stdout + result.stderr)
    with h5py.File(Path(directory) / "results.h5") as file:
        return [file["trajectory"][name][()].astype(float) for name in ("qpos", "qvel", "commands/twist", "terminated")]


def in_body_axes(quaternion, vector):
    """Vectors of the world in the axes of bodies with these quaternions, w first."""
    w, axis = quaternion[..., :1], -quaternion[..., 1:]
    across = 2 * np.cross(axis, vector)
    return vector + w * across + np.cross(axis, across)


def rms(errors):
    return float(np.sqrt(np.mean(np.sum(np.square(errors), axis=-1))))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("deck", help="the deck that the policy was trained with")
    parser.add_argument("run", help="directory of the training, or a checkpoint")
    parser.add_argument("keys", nargs="*", help="key.path=value")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        qpos, qvel, command, terminated = rollout(arguments.deck, arguments.run, arguments.keys, directory)
    linear = in_body_axes(qpos[..., 3:7], qvel[..., 0:3])[:, SKIPPED:, 0:2]
    turning = qvel[:, SKIPPED:, 5:6]  # of free joints in the body's axes
    asked = command[:, SKIPPED:]
    speed = np.linalg.norm(asked[..., 0:2], axis=-1)
    along = np.sum(linear * asked[..., 0:2], axis=-1)[speed > 0.3] / speed[speed > 0.3] ** 2
    print(f"falls: {int(terminated.sum())} in {ROBOTS * STEPS * 0.02 / 60:.0f} minutes of robots")
    print(f"velocity: {rms(linear - asked[..., 0:2]):.2f} m/s from the command (standing still: {rms(asked[..., 0:2]):.2f})")
    print(f"turning: {rms(turning - asked[..., 2:3]):.2f} rad/s from the command (standing still: {rms(asked[..., 2:3]):.2f})")
    print(f"speed along commands of more than 0.3 m/s: {np.median(along):.2f} of what is asked (median)")


if __name__ == "__main__":
    main()
