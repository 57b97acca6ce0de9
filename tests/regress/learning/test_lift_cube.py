"""Grasping at night: PPO lifts the cube in nearly all episodes, and so does a clone of its episodes."""
# ctest: PROCESSORS 2 COST 1

import h5py
import pytest

pytestmark = pytest.mark.nightly
DECK = "inputs/train/lift_cube.yaml"


def success(maniple, run):
    maniple("evaluate", run, "evaluation.episodes=256", "batch.seed=7", "output.overwrite=true")
    with h5py.File(run / "evaluation.h5") as file:
        return file["evaluation/metric_success"][()].mean()


def test_a_cube_is_lifted(maniple, tmp_path):
    expert, episodes, clone = (tmp_path / name for name in ("expert", "episodes", "clone"))
    maniple("train", DECK, f"output.directory={expert}", ranks=2)
    assert success(maniple, expert) > 0.95
    maniple("rollout", expert, "initial_state.source=task", "batch.num_envs=64", "simulation.steps=250", "output.dataset=robomimic",
            f"output.directory={episodes}")
    maniple("imitate", "inputs/tasks/lift_cube.yaml", "learning.preset=robomimic", f"data.file={episodes / 'demonstrations.hdf5'}",
            "data.normalize_observations=mean_std", "policy.hidden=[128, 128]", "policy.squash_actions=false", "policy.clip_actions=1",
            "batch.num_envs=64", "learning.steps=20000", "learning.learning_rate=1e-3", "learning.schedule=linear",
            f"output.directory={clone}", ranks=2)
    assert success(maniple, clone) > 0.9
