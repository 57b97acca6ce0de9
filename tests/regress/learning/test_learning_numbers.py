"""Numbers of learning that follow what a training measures, and bounds on the deviation of every head."""
# ctest: PROCESSORS 1

import h5py
import numpy as np
import pytest

DECK = "inputs/train/isaac_cartpole.yaml"
SHORT = ["batch.num_envs=64", "learning.horizon=8", "learning.iterations=6", "learning.schedule=fixed", "learning.checkpoint_every=3"]


def metrics(directory):
    with h5py.File(directory / "results.h5") as file:
        return {name: values[()] for name, values in file["metrics"].items()}


def parameters(maniple, directory, iteration):
    with h5py.File(directory / f"checkpoints/{iteration}.h5") as file:
        return {name: values[()] for name, values in file["policy"].items() if isinstance(values, h5py.Dataset)}


def test_they_follow_the_iteration_and_metrics(maniple, tmp_path):
    keys = ["learning.curricula.learning_rate=1e-3 * 0.5^iteration", "learning.curricula.clip_ratio='iteration < 2 ? 0.3 : 0.1'",
            "learning.curricula.entropy_coef=mean_episode_steps * dt + level", "task.curricula.level={reset: '0.5', update: 'level / 2'}",
            "task.episode_length=0.2", "learning.random_initial_episode_length=false", "learning.entropy_coef=0.125"]
    digests = set()
    for ranks in (1, 2):
        maniple("train", DECK, *SHORT, *keys, f"output.directory={tmp_path / str(ranks)}", ranks=ranks)
        digests.add(maniple.digest(maniple.checkpoints(tmp_path / str(ranks))[-1]))
    for iterations in (4, 6):
        maniple("train", DECK, *SHORT, *keys, f"learning.iterations={iterations}", "learning.resume=auto",
                f"output.directory={tmp_path / 'resumed'}")
    digests.add(maniple.digest(maniple.checkpoints(tmp_path / "resumed")[-1]))
    assert len(digests) == 1
    run = metrics(tmp_path / "1")
    np.testing.assert_allclose(run["learning_rate"], 1e-3 * 0.5 ** np.arange(6), rtol=1e-12)
    np.testing.assert_allclose(run["learning_clip_ratio"], [0.3, 0.3, 0.1, 0.1, 0.1, 0.1])
    # the lengths of iteration k, and the level after it, are the next one's; before the first whole episode it is the key's own
    lengths, level = run["episode_length"], 0.5 ** np.arange(1, 8)
    expected = [0.125] + [np.nan] * 5
    for k in range(1, 6):
        known = np.isfinite(lengths[k - 1])
        expected[k] = lengths[k - 1] / 60 + level[k] if known else expected[k - 1]
    np.testing.assert_allclose(run["learning_entropy_coef"], expected, rtol=1e-9)
    assert np.isfinite(lengths[1])


def test_a_number_that_does_not_change_is_the_key_itself(maniple, tmp_path):
    """Same bits, whether a number stands in its key or comes of an expression; other ones with another number."""
    found = []
    for name, keys in {"key": ["learning.entropy_coef=0.01"], "expression": ["learning.curricula.entropy_coef=0.005 * 2"], "none": []}.items():
        maniple("train", DECK, *SHORT, *keys, f"output.directory={tmp_path / name}")
        found.append(parameters(maniple, tmp_path / name, 6)["log_std"])
    np.testing.assert_array_equal(found[0], found[1])
    assert np.any(found[0] != found[2])


@pytest.mark.parametrize("key, expected", [
    ("learning.curricula.gamma=1", "learning.curricula.gamma: found a number that cannot have a curriculum; allowed: learning_rate, clip_ratio"),
    ("learning.curricula.entropy_coef=iteratoin", "learning.curricula.entropy_coef: unknown metric 'iteratoin', did you mean 'iteration'?"),
    ("learning.curricula.entropy_coef=qpos[0]", "learning.curricula.entropy_coef: unknown metric 'qpos'"),
    ("learning.curricula=[1]", "learning.curricula: found a list of 1; allowed: a mapping from names to expressions"),
])
def test_refused(maniple, key, expected):
    assert expected in maniple("validate", DECK, key, ranks=0, exit_code=2).stderr


def test_a_number_out_of_its_range_ends_the_run(maniple, tmp_path):
    result = maniple("train", DECK, *SHORT, "learning.curricula.clip_ratio=1 - iteration", f"output.directory={tmp_path}", exit_code=2, ranks=2)
    assert "learning.curricula.clip_ratio: has become 0 in iteration 1; allowed: number, above 0" in result.stderr


def test_bounds_on_the_deviation_of_a_head_of_its_own(maniple, tmp_path):
    """One deviation for all observations stays within policy.min_std and policy.max_std, where it would leave them."""
    grow = ["learning.entropy_coef=1", "learning.learning_rate=0.02", "policy.init_std=1"]
    for name, keys in {"free": grow, "above": [*grow, "policy.max_std=1.25"],
                       "below": ["learning.entropy_coef=0", "learning.learning_rate=0.02", "policy.init_std=0.3", "policy.min_std=0.29",
                                 "learning.curricula.entropy_coef=-0 * iteration"]}.items():
        maniple("train", DECK, *SHORT, *keys, f"output.directory={tmp_path / name}", ranks=2)
    std = {name: np.exp(parameters(maniple, tmp_path / name, 6)["log_std"].astype(float)) for name in ("free", "above", "below")}
    assert std["free"].min() > 1.4
    np.testing.assert_allclose(std["above"], 1.25, rtol=1e-6)
    assert std["below"].min() >= 0.29 * (1 - 1e-6)
    # a run goes on with tighter ones, though the first deviation, which nobody gave, is beyond them
    maniple("train", DECK, *SHORT, "learning.learning_rate=1e-4", f"output.directory={tmp_path / 'tight'}")
    text = maniple("train", DECK, *SHORT, "learning.learning_rate=1e-4", "policy.max_std=0.5", "learning.resume=auto", "learning.iterations=7",
                   f"output.directory={tmp_path / 'tight'}").stdout
    assert "policy.init_std: using 0.5 instead of the default 1, because policy.min_std is 0, policy.max_std 0.5" in text
    np.testing.assert_allclose(np.exp(parameters(maniple, tmp_path / "tight", 7)["log_std"]), 0.5, rtol=1e-6)


@pytest.mark.parametrize("expression, names", [("log(-1 - iteration)", True), ("log(iteration - 3)", False)])
def test_a_number_that_never_follows_is_named_once(maniple, tmp_path, expression, names):
    """The second one, -inf at iteration 3, is: there, and nowhere before it is known to be no number for good."""
    result = maniple("train", DECK, *SHORT, f"learning.curricula.entropy_coef={expression}", "task.episode_length=0.1",
                     f"output.directory={tmp_path / 'run'}")
    told = "learning.curricula.entropy_coef: no finite number in iteration"
    assert (result.stdout + result.stderr).count(told) == 1
