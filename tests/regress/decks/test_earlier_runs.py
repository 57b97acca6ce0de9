"""A run in place of a deck: `maniple VERB RUN key=value` does the same as the deck of the run, from any directory, with
decks and keys on the command line taking precedence. And decks by their names."""
# ctest: PROCESSORS 1 COST 20

import shutil

import h5py
import numpy as np
import pytest

from trainings import metric

TRAINING = ["batch.num_envs=32", "learning.horizon=8", "learning.iterations=3", "policy.hidden=[12]", "learning.checkpoint_every=3",
            "policy.normalize_observations=true", "batch.seed=5"]
DECK = "inputs/train/isaac_cartpole.yaml"


@pytest.fixture(scope="module")
def trained(maniple, tmp_path_factory):
    directory = tmp_path_factory.mktemp("runs") / "trained"
    maniple("train", DECK, *TRAINING, f"output.directory={directory}")
    return directory


@pytest.fixture
def run(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "run")


def returns(directory):
    with h5py.File(directory / "evaluation.h5") as file:
        return file["evaluation/episode_return"][()]


def test_evaluate_takes_policy_and_task_from_the_run(maniple, run, tmp_path):
    """Every key of policy and task is the training's, in a directory where its deck is not."""
    maniple("evaluate", run, cwd=tmp_path)
    maniple("evaluate", DECK, *TRAINING, f"control.checkpoint={run}", f"output.directory={tmp_path / 'by_deck'}")
    np.testing.assert_array_equal(returns(run), returns(tmp_path / "by_deck"))


def test_an_evaluation_names_the_run_that_has_its_policy(maniple, run, tmp_path):
    maniple("evaluate", run, f"output.directory={tmp_path}", "evaluation.episodes=2")
    for given in (tmp_path, tmp_path / "evaluation.h5"):
        said = maniple("evaluate", given, f"output.directory={tmp_path / 'again'}", exit_code=2).stderr
        assert f"{tmp_path}/evaluation.h5: an evaluation, which has no policy of its own; the run that it is of, {run}" in said
    assert "task" in maniple("validate", tmp_path).stdout


def test_keys_and_decks_come_over_the_run(maniple, run, tmp_path):
    """Also fewer environments than the training's minibatches need, which nobody asked for now."""
    (tmp_path / "short.yaml").write_text("task: {episode_length: 1}\n")
    maniple("evaluate", run, tmp_path / "short.yaml", "batch.num_envs=3", "evaluation.episodes=6",
            f"output.directory={tmp_path / 'short'}")
    with h5py.File(tmp_path / "short/evaluation.h5") as file:
        lengths = file["evaluation/episode_length"][()]
        assert len(lengths) == 6 and lengths.max() <= 60
        assert "episode_length: 1\n" in file["run/resolved"][()].decode()


def test_rollout_acts_by_the_policy_of_the_run(maniple, run):
    maniple("rollout", run, "simulation.steps=20", "output.trajectory.every=1", "output.trajectory.fields=[action]", ranks=2)
    with h5py.File(run / "rollout/results.h5") as file:
        assert np.abs(file["trajectory/action"][()]).max() > 0
        assert file["trajectory/action"].shape[:2] == (32, 21)


def test_train_goes_on(maniple, run, tmp_path):
    maniple("train", run, "learning.iterations=6", ranks=2)
    maniple("train", DECK, *TRAINING, "learning.iterations=6", f"output.directory={tmp_path / 'whole'}")
    np.testing.assert_array_equal(metric(run, "episode_return"), metric(tmp_path / "whole", "episode_return"))


def test_what_was_of_one_start_is_not_taken_over(maniple, run):
    """A run that replaced another one is itself not replaced by its evaluation."""
    maniple("train", DECK, *TRAINING, f"output.directory={run}", "output.overwrite=true")
    maniple("evaluate", run)
    refused = maniple("evaluate", run, exit_code=2)
    assert "output.overwrite" in refused.stderr
    maniple("evaluate", run, "output.overwrite=true")


def test_other_verbs_take_runs(maniple, run):
    assert "all good" in maniple("validate", run, "batch.num_envs=7").stdout
    assert "rank" in maniple("doctor", run).stdout
    maniple("doctor", run, "batch.num_envs=64")
    said = maniple("bench", run, "bench.steps=2", "bench.repeats=1", "run.wall_time=1000").stderr
    assert "run.wall_time has no effect on bench: train, imitate, rollout and evaluate stop in time" in said
    assert (run / "bench.json").exists()


def test_members_of_an_ensemble_are_runs(maniple, tmp_path):
    """Also by their names, which have '=' in them."""
    maniple("train", DECK, *TRAINING, "ensemble={batch.seed: [1, 2]}", f"output.directory={tmp_path}")
    maniple("evaluate", tmp_path / "batch.seed=2", "evaluation.episodes=4")
    assert len(returns(tmp_path / "batch.seed=2")) == 4
    refused = maniple("evaluate", tmp_path, exit_code=2).stderr
    assert "the directory of 2 runs" in refused and "batch.seed=1" in refused


def test_what_is_no_run_is_refused(maniple, run, tmp_path):
    for arguments, words in (
        (["evaluate", tmp_path / "missing"], ["missing", "no deck of that name"]),
        (["evaluate", tmp_path], [str(run), "the directory of 1 run"]),
        (["evaluate", tmp_path / "run/checkpoints"], ["results.h5", "no such file"]),
        (["evaluate", run, run], ["found the runs"]),
        (["evaluate", run, "batch.num_envz=3"], ["batch.num_envs"]),
    ):
        message = maniple(*arguments, exit_code=2).stderr
        assert all(word in message for word in words), message
        assert message.count("maniple: error:") == 1
    with open(run / "results.h5", "r+b") as file:
        file.seek(5000)
        file.write(b"damaged")
    assert "cannot be read" in maniple("evaluate", run, exit_code=2).stderr


def test_decks_by_their_names(maniple, tmp_path):
    listed = maniple("tasks").stdout
    for name in ("gymnasium/half_cheetah_v5", "dm_control/humanoid_walk", "isaac_cartpole", "two_roads", "bc_rnn"):
        assert listed.count(f"  {name} ") == 1
    assert maniple("tasks", "cheetah_v5").stdout.count("\n  ") == 1
    assert "found no deck" in maniple("tasks", "no_such_task", exit_code=2).stderr
    named = maniple("validate", "gymnasium/ant_v5", "batch.num_envs=64", cwd=tmp_path)
    assert named.stdout == maniple("validate", "inputs/train/gymnasium/ant_v5.yaml", "batch.num_envs=64").stdout
    assert "nearest: gymnasium/ant_v5" in maniple("validate", "gymnasium/ant_v4", exit_code=2).stderr
