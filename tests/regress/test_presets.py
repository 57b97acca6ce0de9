"""Settings of learning by name: each preset trains, `validate` shows what it comes to, and the defaults learn."""

import re

import h5py
import pytest

TASK = "inputs/tasks/isaac_cartpole.yaml"
# of train; the policies of imitate have tests of their own
PRESETS = ["maniple", "locomotion", "cleanrl", "sb3_zoo", "rl_games", "rsl_rl", "brax"]


def test_schema_lists_presets_with_their_sources(maniple):
    listed = maniple("schema", "presets").stdout
    assert re.findall(r"^(\w+)  +\S", listed, re.M) == [*PRESETS, "robomimic"]
    assert "learning.learning_rate=2.0633e-5" in listed


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_trains(maniple, tmp_path, preset):
    maniple("train", TASK, f"learning.preset={preset}", "batch.num_envs=64", "learning.iterations=1",
            f"output.directory={tmp_path}")
    with h5py.File(tmp_path / "results.h5") as file:
        assert file["metrics/updates"][0] > 0 and file["metrics/skipped_minibatches"][0] == 0


def test_validate_shows_what_a_preset_comes_to(maniple):
    text = maniple("validate", TASK, "learning.preset=cleanrl", "learning.gamma=0.9").stdout
    assert "preset cleanrl: CleanRL, ppo_continuous_action.py" in text
    assert "learning.gamma=0.9 " in text and "learning.epochs=10" in text and "environments 32 on" in text


@pytest.mark.parametrize("preset", ["locomotion", "rl_games"])
def test_a_critic_with_its_own_observations_has_its_own_layers(maniple, preset):
    critic = "task.critic_observations=[{expression: qpos}, {expression: qvel}]"
    assert "policy.shared=true" in maniple("validate", TASK, f"learning.preset={preset}").stdout
    text = maniple("validate", TASK, f"learning.preset={preset}", critic).stdout
    assert "policy.shared=false" in text and "policy.initialization" in text


def test_an_unknown_preset_is_answered_with_the_nearest(maniple):
    result = maniple("validate", TASK, "learning.preset=clean_rl", exit_code=2)
    assert "command line: learning.preset: found 'clean_rl'; nearest: cleanrl; allowed: maniple | " in result.stderr


def test_the_defaults_learn(maniple, tmp_path):
    maniple("train", TASK, "batch.num_envs=512", "learning.iterations=40", "batch.seed=1",
            f"output.directory={tmp_path}", ranks=2)
    with h5py.File(tmp_path / "results.h5") as file:
        assert file["metrics/episode_return"][-5:].mean() > 4.5  # of at most 5
