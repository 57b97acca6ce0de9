"""Presets of learning: each preset trains, `validate` shows the resulting values, and the defaults learn."""
# ctest: PROCESSORS 1

import re

import h5py
import pytest
from demonstrations import episodes, write_robomimic
from trainings import PRESETS

TASK = "inputs/tasks/isaac_cartpole.yaml"
OF_IMITATE = ["robomimic", "robomimic_rnn", "diffusion_policy"]


def test_schema_lists_presets_with_their_sources(maniple):
    listed = maniple("schema", "presets").stdout
    assert re.findall(r"^(\w+)  +\S", listed, re.M) == PRESETS + OF_IMITATE
    assert "learning.learning_rate=2.0633e-5" in listed


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_trains(maniple, tmp_path, preset):
    maniple("train", TASK, f"learning.preset={preset}", "batch.num_envs=64", "learning.iterations=1",
            f"output.directory={tmp_path}")
    with h5py.File(tmp_path / "results.h5") as file:
        assert file["metrics/updates"][0] > 0 and file["metrics/skipped_minibatches"][0] == 0


@pytest.mark.parametrize("preset, deck", [("robomimic", "bc"), ("robomimic_rnn", "bc_rnn")])
def test_presets_of_imitate(maniple, tmp_path, preset, deck):
    """The deck of a preset has its network: hidden layers of 1024 units, or an LSTM alone, and a mixture."""
    data = write_robomimic(tmp_path / "demos.hdf5", episodes(4))
    maniple("imitate", f"inputs/imitate/{deck}.yaml", f"data.file={data}", "data.observations=[position]",
            "learning.batch_size=8", "learning.steps=2", f"output.directory={tmp_path / 'run'}")
    with h5py.File(maniple.checkpoints(tmp_path / "run")[-1]) as file:
        sizes = {name: file[f"policy/{name}/bias"].size for name in file["policy"] if name.startswith("layer")}
        assert ("lstm1" in file["policy"]) == (preset == "robomimic_rnn")
        if preset == "robomimic_rnn":
            assert file["policy/lstm1/state/bias"].size == 4 * 400
    assert sizes == ({"layer0": 5 * (2 + 2 + 1)} if preset == "robomimic_rnn" else {"layer0": 1024, "layer1": 1024, "layer2": 2})
    assert f"preset {preset}: robomimic" in maniple("validate", f"inputs/imitate/{deck}.yaml", f"data.file={data}").stdout


def test_validate_shows_what_a_preset_comes_to(maniple):
    text = maniple("validate", TASK, "learning.preset=cleanrl", "learning.gamma=0.9").stdout
    assert "preset cleanrl: CleanRL, ppo_continuous_action.py" in text
    assert "learning.gamma=0.9 " in text and "learning.epochs=10" in text and "environments 32 on" in text
    assert re.search(r"policy\.clip_actions=1\s", text)  # as its ClipAction


@pytest.mark.parametrize("preset", ["locomotion", "rl_games_locomotion"])
def test_a_critic_with_its_own_observations_has_its_own_layers(maniple, preset):
    critic = "task.critic_observations=[{expression: qpos}, {expression: qvel}]"
    assert "policy.shared=true" in maniple("validate", TASK, f"learning.preset={preset}").stdout
    text = maniple("validate", TASK, f"learning.preset={preset}", critic).stdout
    assert "policy.shared=false" in text and "policy.initialization" in text


def test_an_unknown_preset_is_answered_with_the_nearest(maniple):
    result = maniple("validate", TASK, "learning.preset=clean_rl", exit_code=2)
    assert "command line: learning.preset: found 'clean_rl'; nearest: cleanrl; allowed: maniple | " in result.stderr


def test_a_preset_of_imitate_is_named_to_who_trains(maniple, tmp_path):
    result = maniple("train", TASK, "learning.preset=robomimic", f"output.directory={tmp_path}", exit_code=2)
    assert "learning.algorithm: found bc with learning.preset: robomimic; train learns from environments" in result.stderr


def test_the_defaults_learn(maniple, tmp_path):
    maniple("train", TASK, "batch.num_envs=512", "learning.iterations=40", "batch.seed=1",
            f"output.directory={tmp_path}", ranks=2)
    with h5py.File(tmp_path / "results.h5") as file:
        assert file["metrics/episode_return"][-5:].mean() > 4.5  # of at most 5
