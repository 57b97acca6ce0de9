"""Two roads (inputs/tasks/two_roads.yaml): what a policy makes of demonstrations that give two answers to one question."""
# ctest: PROCESSORS 1

import subprocess
import sys

import h5py
import numpy as np
import pytest
from conftest import of_the_day

TASK = "inputs/tasks/two_roads.yaml"


@pytest.fixture(scope="module")
def demonstrations(maniple, tmp_path_factory):
    folder = tmp_path_factory.mktemp("roads")
    subprocess.run([sys.executable, maniple.root / "tools/two_roads.py", "expert", folder / "expert.h5"], check=True)
    maniple("rollout", TASK, "batch.num_envs=200", "simulation.steps=100", "initial_state.source=file",
            f"initial_state.file={folder / 'expert.h5'}", "control.source=file", f"control.file={folder / 'expert.h5'}",
            "output.dataset=robomimic", "output.dataset_success=true", f"output.directory={folder}", ranks=2)
    return folder / "demonstrations.hdf5"


def test_the_expert_takes_both_roads(demonstrations, tmp_path):
    with h5py.File(demonstrations) as file:
        sides = [np.sign(demo["obs/position"][np.abs(demo["obs/position"][:, 0]).argmin(), 1])
                 for demo in file["data"].values()]
    assert len(sides) == 200 and 70 < sides.count(1) < 130 and sides.count(1) + sides.count(-1) == 200


@pytest.mark.parametrize("loss, passes", of_the_day([("l2", False), ("gmm", True)], ("gmm", True)))
def test_only_a_mixture_passes(maniple, demonstrations, tmp_path, loss, passes):
    policy = ["learning.preset=robomimic", f"learning.loss={loss}", "policy.hidden=[64, 64]",
              "data.normalize_observations=min_max", "batch.num_envs=200"]
    maniple("imitate", TASK, *policy, f"data.file={demonstrations}", "learning.steps=20000",
            "learning.learning_rate=1e-3", "learning.report_every=5000", "evaluation.every=20000",
            f"output.directory={tmp_path}", ranks=2)
    text = maniple("evaluate", TASK, *policy, f"control.checkpoint={tmp_path}", "batch.seed=1",
                   "output.dataset=robomimic", f"output.directory={tmp_path}").stdout
    with h5py.File(tmp_path / "results.h5") as file, h5py.File(tmp_path / "evaluation.h5") as evaluation:
        during = file["metrics/evaluation_success_rate"][:]
        rates = during[3], evaluation["evaluation/success_rate"][0]
    assert np.isnan(during[:3]).all()
    assert all(0.95 < rate <= 1 if passes else 0 <= rate < 0.2 for rate in rates), text
    if passes:
        with h5py.File(tmp_path / "demonstrations.hdf5") as file:
            left = [demo["obs/position"][np.abs(demo["obs/position"][:, 0]).argmin(), 1] > 0
                    for demo in file["data"].values()]
        assert 0.2 < np.mean(left) < 0.8
    picture = tmp_path / "roads.png"
    subprocess.run([sys.executable, maniple.root / "tools/two_roads.py", "draw", picture, f"expert={demonstrations}",
                    f"{loss}={tmp_path / 'demonstrations.hdf5'}"], check=True)
    assert picture.read_bytes().startswith(b"\x89PNG")
