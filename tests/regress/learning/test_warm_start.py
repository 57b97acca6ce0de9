"""A training that begins with the parameters of another one, evaluates while it trains and keeps the best policy, all
with the same bits on any number of ranks."""
# ctest: PROCESSORS 1 COST 20

import re

import h5py
import numpy as np
import pytest

DECK = "inputs/train/isaac_cartpole.yaml"


@pytest.fixture(scope="module")
def trained(maniple, tmp_path_factory):
    """A run that has learned, with its policy's evaluations."""
    directory = tmp_path_factory.mktemp("trained")
    maniple("train", DECK, "batch.num_envs=1024", "learning.iterations=60", "evaluation.every=20",
            "evaluation.episodes=50", "learning.normalize_value=true", f"output.directory={directory}", ranks=2)
    return directory


def returns_of(directory, name="episode_return"):
    with h5py.File(directory / "results.h5") as file:
        return file[f"metrics/{name}"][()]


def test_evaluations_are_recorded_and_the_best_policy_kept(maniple, trained, tmp_path):
    evaluated = returns_of(trained, "evaluation_return")
    assert np.isnan(evaluated[:19]).all() and np.isfinite(evaluated[19:]).all()
    assert evaluated[19] == evaluated[38] != evaluated[39]
    # the best one gives in `evaluate` what it gave in training: the same episodes
    best = 1 + int(np.nanargmax(evaluated))
    assert [path.name for path in maniple.checkpoints(trained / "best")] == [f"{best}.h5"]
    result = maniple("evaluate", DECK, "batch.num_envs=50", f"control.checkpoint={trained}/best",
                     f"output.directory={tmp_path}")
    with h5py.File(tmp_path / "evaluation.h5") as file:
        group = file["evaluation"]
        returns = group["episode_return"][()]
        assert group["mean_return"][0] == pytest.approx(np.nanmax(evaluated), rel=1e-12)
        error = returns.std(ddof=1) / np.sqrt(50)
        assert group["mean_return_error"][0] == pytest.approx(error, rel=1e-6)
        # the quantile of Student's t for 49 degrees of freedom is 2.0096
        assert group["mean_return_confidence"][0] == pytest.approx(2.0096 * error, rel=1e-3)
    assert "+-" in result.stdout + result.stderr
    # (one episode says nothing of the others)
    one = maniple("evaluate", DECK, "batch.num_envs=50", "evaluation.episodes=1", f"control.checkpoint={trained}/best",
                  f"output.directory={tmp_path}/one")
    assert "+-" not in one.stdout + one.stderr
    with h5py.File(tmp_path / "one/evaluation.h5") as file:
        assert file["evaluation/mean_return"][0] == returns[0] and np.isnan(file["evaluation/mean_return_confidence"][0])
    # (more than any memory holds)
    result = maniple("evaluate", DECK, "evaluation.episodes=1000000000000", f"control.checkpoint={trained}/best",
                     f"output.directory={tmp_path}/many", exit_code=2)
    assert "evaluation.episodes: 24000000.0 MB for 1000000000000 episodes" in result.stderr
    # and so is the last, without the states of the environments
    assert [path.name for path in maniple.checkpoints(trained / "last")] == ["60.h5"]
    maniple("evaluate", DECK, "batch.num_envs=50", f"control.checkpoint={trained}/last", f"output.directory={tmp_path}/last")
    with h5py.File(tmp_path / "last/evaluation.h5") as file:
        assert file["evaluation/mean_return"][0] == pytest.approx(evaluated[-1], rel=1e-12)
    with h5py.File(maniple.checkpoints(trained / "last")[0]) as file, h5py.File(maniple.checkpoints(trained)[-1]) as whole:
        assert "policy" in file and "simulation" in whole and "simulation" not in file
        np.testing.assert_array_equal(file["policy/layer0/weight"], whole["policy/layer0/weight"])


def test_another_task_batch_and_settings_begin_where_the_first_ended(maniple, trained, tmp_path):
    changed = ["batch.num_envs=300", "batch.seed=7", "task.rewards.pole_pos.weight=-2", "task.episode_length=4",
               "learning.epochs=2", "learning.iterations=2", "learning.random_initial_episode_length=false",
               "learning.horizon=300"]
    cold, warm = tmp_path / "cold", tmp_path / "warm"
    maniple("train", DECK, *changed, f"output.directory={cold}")
    result = maniple("train", DECK, *changed, f"learning.warm_start={trained}", f"output.directory={warm}")
    assert returns_of(cold)[0] < 0 < 2.5 < returns_of(warm)[0]  # the same, but for what it begins with
    assert "warm start" in result.stdout + result.stderr
    assert re.search(r"another task: .*task\.episode_length.*task\.rewards\.pole_pos", result.stdout + result.stderr)
    # what it would begin with has no effect, and is named
    assert "has no effect" not in result.stderr
    named = maniple("train", DECK, *changed, "learning.iterations=1", f"learning.warm_start={trained}", "policy.init_std=0.9",
                    "policy.actor_gain=0.5", f"output.directory={tmp_path / 'named'}").stderr
    for key in ("policy.init_std", "policy.actor_gain"):
        assert f"warning: {key} has no effect with learning.warm_start: " in named, named
    assert named.count("has no effect") == 2
    np.testing.assert_array_equal(returns_of(tmp_path / "named", "action_std")[0], returns_of(warm, "action_std")[0])
    # a warm start is a start: a run that continues does not go back to it
    maniple("train", DECK, *changed, "learning.iterations=3", f"learning.warm_start={trained}", "learning.resume=auto",
            f"output.directory={warm}")
    assert len(returns_of(warm)) == 3


def test_a_critic_keeps_its_values_without_their_normalization(maniple, trained, tmp_path):
    explained = {}
    for source in (trained, trained / "last"):
        for normalize in ("true", "false"):
            directory = tmp_path / source.name / normalize
            maniple("train", DECK, "learning.iterations=1", "batch.num_envs=1024", f"learning.normalize_value={normalize}",
                    f"learning.warm_start={source}", f"output.directory={directory}")
            explained[source, normalize] = returns_of(directory, "explained_variance")[0]
    first = explained[trained, "true"]
    assert first > 0.02
    assert list(explained.values()) == pytest.approx([first] * 4, abs=1e-3)


def test_other_shapes_are_refused_by_name(maniple, trained, tmp_path):
    result = maniple("train", DECK, "policy.hidden=[32,48]", f"learning.warm_start={trained}",
                     f"output.directory={tmp_path}", exit_code=2)
    assert "policy.hidden: the checkpoint has [32, 32]; this run has [32, 48]" in result.stderr
    result = maniple("train", DECK, f"learning.warm_start={tmp_path}/nothing", f"output.directory={tmp_path}",
                     exit_code=2)
    assert "learning.warm_start" in result.stderr and "does not exist" in result.stderr


@pytest.mark.parametrize("counts", [(1, 3), pytest.param((1, 2, 7), marks=pytest.mark.nightly)])
def test_bits_do_not_depend_on_ranks(maniple, trained, tmp_path, counts):
    digests = set()
    for ranks in counts:
        directory = tmp_path / str(ranks)
        maniple("train", DECK, "learning.preset=cleanrl", "batch.num_envs=203", "learning.iterations=2",
                "learning.minibatches=70", "learning.epochs=1", "policy.hidden=[32,32]", "policy.activation=elu",
                "policy.normalize_observations=false", "learning.normalize_value=true", "evaluation.every=1", f"learning.warm_start={trained}",
                "learning.target_kl=0.02", "learning.kl_reference=rollout", f"output.directory={directory}",
                ranks=ranks)
        best = maniple.checkpoints(directory / "best")
        digests.add((maniple.digest(directory / "results.h5"), maniple.digest(maniple.checkpoints(directory)[-1]),
                     *map(maniple.digest, best)))
    assert len(digests) == 1
