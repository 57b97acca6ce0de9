"""learning.resume=auto with other settings: one line names those that may change, and a refusal those that may not."""
# ctest: PROCESSORS 1

import h5py
import numpy as np
import pytest

DECK = "inputs/train/isaac_cartpole.yaml"


@pytest.fixture
def run(maniple, tmp_path):
    arguments = ["train", DECK, "batch.num_envs=64", "learning.schedule=fixed", "learning.learning_rate=1e-3",
                 f"output.directory={tmp_path}"]
    maniple(*arguments, "learning.iterations=2")

    def go_on(*keys, **more):
        return maniple(*arguments, "learning.resume=auto", *keys, **more)
    return go_on


def test_what_differs_is_named(maniple, run, tmp_path):
    result = run("learning.iterations=3", "learning.gamma=0.98", "learning.learning_rate=2e-3", ranks=2)
    line, = [line for line in result.stdout.splitlines() if "changed settings" in line]
    assert line.endswith(f"{tmp_path} resumes with changed settings: learning.iterations: the checkpoint has 2, this run 3; "
                         "other differences: learning.gamma, learning.learning_rate")
    with h5py.File(tmp_path / "results.h5") as file:
        assert file["metrics/learning_rate"][()].tolist() == [1e-3, 1e-3, 2e-3]
    # of what only says where and how often, and of nothing at all, no line
    result = run("learning.iterations=3", "learning.gamma=0.98", "learning.learning_rate=2e-3", "learning.keep_checkpoints=2")
    assert "changed settings" not in result.stdout


@pytest.mark.parametrize("key, stored", [
    ("learning.horizon=32", "16"), ("learning.normalize_value=true", "false"), ("policy.init_std=0.5", "1"),
    ("learning.random_initial_episode_length=false", "true"), ("policy.actor_gain=2", "0.01")])
def test_what_cannot_change_is_refused(run, key, stored):
    message = run(key, "learning.iterations=3", exit_code=2).stderr
    name, value = key.split("=")
    assert f".h5: {name}: the checkpoint has {stored}, this run {value}; allowed: the value that the run began with, or " in message


def test_an_adaptive_learning_rate_goes_on_from_where_it_is(maniple, tmp_path):
    arguments = ["train", DECK, "batch.num_envs=64", "learning.schedule=adaptive", f"output.directory={tmp_path}"]
    maniple(*arguments, "learning.iterations=2")
    result = maniple(*arguments, "learning.resume=auto", "learning.learning_rate=0.005", "learning.iterations=3", exit_code=2)
    assert "learning.learning_rate: the checkpoint has 0.001, this run 0.005; allowed: " in result.stderr


def test_evaluations_can_begin_and_end_later(maniple, run, tmp_path):
    def evaluated():
        with h5py.File(tmp_path / "results.h5") as file:
            return file["metrics/evaluation_return"][()]

    run("learning.iterations=4", "evaluation.every=1", ranks=2)
    returns = evaluated()
    assert np.isnan(returns[:2]).all() and np.isfinite(returns[2:]).all() and len(returns) == 4
    # those of before stay, and the latest stands for all that follow
    manifest = tmp_path / "best/checkpoints/manifest.json"
    listed = manifest.read_text()
    manifest.unlink()  # as after a kill before it was written
    run("learning.iterations=6", ranks=2)
    assert manifest.read_text() == listed
    np.testing.assert_array_equal(evaluated(), [*returns, returns[3], returns[3]])
    run("learning.iterations=7", "evaluation.every=1", ranks=2)
    np.testing.assert_array_equal(evaluated()[:6], [*returns, returns[3], returns[3]])


def test_the_best_policy_is_one_of_the_run(maniple, run, tmp_path):
    """Not of a part of its history that it has left, when the newest checkpoint was lost, and which had other rewards."""
    every = ["evaluation.every=10", "evaluation.episodes=64", "learning.checkpoint_every=8"]
    run("learning.iterations=11", *every)
    assert [path.stem for path in maniple.checkpoints(tmp_path / "best")] == ["10"]
    maniple.checkpoints(tmp_path)[-1].unlink()
    result = run("learning.iterations=12", *every, "learning.reward_scale=-10", ranks=2)
    assert "best/checkpoints/10.h5: belongs to an earlier run" in result.stdout + result.stderr
    assert "iteration 10: evaluated return" in result.stdout
    best, = maniple.checkpoints(tmp_path / "best")
    with h5py.File(tmp_path / "results.h5") as file:
        evaluated = file["metrics/evaluation_return"][()]
    maniple("evaluate", DECK, "batch.num_envs=64", f"control.checkpoint={best}", f"output.directory={tmp_path / 'tried'}")
    with h5py.File(tmp_path / "tried/evaluation.h5") as file:
        assert file["evaluation/mean_return"][0] == pytest.approx(evaluated[int(best.stem) - 1], rel=1e-12)
