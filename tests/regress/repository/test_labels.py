"""Every kernel and every allocation has a label that begins with the program's name, so that Kokkos' tools
(profilers, memory traces) say what they see."""
# ctest: PROCESSORS 1

import re
import subprocess

import pytest
from conftest import BUILD, ENVIRONMENT, ROOT, command

CARTPOLE = ["inputs/train/isaac_cartpole.yaml", "batch.num_envs=64"]
# Kokkos' own work on a view names the view; its tables of threads have no name of ours
OURS = re.compile(r"maniple(::[a-z0-9_]+)+(_mirror)?")
KOKKOS = re.compile(r"Kokkos::(?!.*\[)[\w:. \-]+|Kokkos::View::(initialization|destruction) \[(?P<view>.*)\]( via memset)?")


def is_labelled(label):
    theirs = KOKKOS.fullmatch(label)
    return bool(OURS.fullmatch(label)) or bool(theirs and (not theirs["view"] or is_labelled(theirs["view"])))


def labels_of(tmp_path, *arguments):
    """Lines "kernel label" and "allocation label" of a run of one rank."""
    tool = BUILD / "maniple_label_tool.so"
    environment = {**ENVIRONMENT, "MANIPLE_LABELS": str(tmp_path / "labels"),
                   "KOKKOS_PROFILE_LIBRARY": str(tool), "KOKKOS_TOOLS_LIBS": str(tool)}
    run = subprocess.run(command(0, *arguments, f"output.directory={tmp_path}/run"), cwd=ROOT, env=environment,
                         capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
    return (tmp_path / "labels").read_text().splitlines()


@pytest.mark.parametrize("kernel, arguments", [
    ("maniple::train_minibatch", ["train", *CARTPOLE, "learning.iterations=2"]),
    ("maniple::physics::step", ["rollout", "model.file=package:gymnasium/envs/mujoco/assets/humanoid.xml",
                                "batch.num_envs=64", "simulation.steps=2", "control.source=random",
                                "simulation.precision=double", "output.trajectory.every=1",
                                "output.trajectory.fields=[qpos, ncon]"]),
    ("maniple::physics::step", ["bench", "inputs/bench/arm6.yaml", "batch.num_envs=64", "bench.steps=2",
                                "bench.repeats=1"]),
])
def test_every_kernel_and_allocation_is_labelled(tmp_path, kernel, arguments):
    labels = labels_of(tmp_path, *arguments)
    assert f"kernel {kernel}" in labels and any(line.startswith("allocation maniple::") for line in labels), labels
    without = [line for line in labels if not is_labelled(line.split(" ", 1)[1])]
    assert not without, "\n".join(without)
