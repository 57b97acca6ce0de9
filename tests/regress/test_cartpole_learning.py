"""The tasks that ship with the program are learned, with the published settings and several seeds.

The ceiling of Isaac-Cartpole-v0 is 5.0 per episode and of its Direct variant 300: one per second, or per control
step, that the episode lasts. Isaac Lab's own test asks 280 of 300 of the Direct variant.
"""

import h5py
import numpy as np
import pytest


def final_return(directory):
    with h5py.File(directory / "results.h5") as file:
        returns, lengths = file["metrics/episode_return"][()], file["metrics/episode_length"][()]
    assert np.isfinite(returns[-1])
    return returns[-1], lengths[-1]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_isaac_cartpole_with_the_settings_of_rl_games(maniple, tmp_path, seed):
    maniple("train", "inputs/train/isaac_cartpole.yaml", f"batch.seed={seed}", f"output.directory={tmp_path}", ranks=2)
    episode_return, length = final_return(tmp_path)
    assert 4.5 <= episode_return <= 5.0
    assert length > 290


def test_isaac_cartpole_with_the_settings_of_rsl_rl(maniple, tmp_path):
    maniple("train", "inputs/train/isaac_cartpole_rsl_rl.yaml", "batch.seed=1", f"output.directory={tmp_path}", ranks=2)
    episode_return, length = final_return(tmp_path)
    assert 4.5 <= episode_return <= 5.0
    assert length > 290


def test_isaac_cartpole_direct(maniple, tmp_path):
    maniple("train", "inputs/train/isaac_cartpole_direct.yaml", "batch.seed=1", f"output.directory={tmp_path}", ranks=2)
    episode_return, length = final_return(tmp_path)
    assert 280 <= episode_return <= 300
    assert length > 280


def test_a_trained_policy_is_evaluated(maniple, tmp_path):
    deck = "inputs/train/isaac_cartpole.yaml"
    run, evaluation = tmp_path / "run", tmp_path / "evaluation"
    maniple("train", deck, "batch.num_envs=1024", "learning.iterations=120", f"output.directory={run}", ranks=2)
    maniple("evaluate", deck, "batch.num_envs=200", f"control.checkpoint={run}", f"output.directory={evaluation}")
    with h5py.File(evaluation / "results.h5") as file:
        returns, lengths = file["evaluation/episode_return"][()], file["evaluation/episode_length"][()]
    assert returns.shape == lengths.shape == (200,)
    # the mean action does at least as well as the noisy one that learned
    assert returns.mean() > 4.3
    assert lengths.max() <= 300
