"""`import maniple`: the environments of a deck in Python, against the program's own rollouts, bit for bit; their observations,
curricula and arrays."""
# ctest: PROCESSORS 1

import h5py
import numpy as np
import pytest
from batches import CURRICULA, HOPPER, PENDULUM, assert_same, draws, maniple_program, steps_of  # noqa: F401
from conftest import ROOT
from gymnasium.vector import AutoresetMode

pytest.importorskip("maniple.native", reason="MANIPLE_PYTHON_PACKAGE is off", exc_type=ImportError)
import maniple  # noqa: E402
from maniple.decks import deck_file  # noqa: E402


@pytest.mark.parametrize("precision", ["single", "double"])
def test_steps_are_those_of_a_rollout(maniple_program, tmp_path, precision):
    steps, count = 12, 70
    overrides = {"task.episode_steps": 5, "task.metrics.speed.expression": "qvel[0]"}
    envs = maniple.make_vec(HOPPER, count, seed=7, precision=precision, overrides=overrides, autoreset_mode="SameStep")
    actions = draws(envs, steps)
    with h5py.File(tmp_path / "actions.h5", "w") as file:
        file["action"] = actions.swapaxes(0, 1).astype(np.float64)
    fields = ["observation", "final_observation", "reward", "terminated", "truncated", "episode_return", "episode_length", "episode_reward_term",
              "episode_metric"]
    maniple_program("rollout", "inputs/tasks/gymnasium/hopper_v5.yaml", f"batch.num_envs={count}", "batch.seed=7",
                    f"simulation.precision={precision}", "task.episode_steps=5", "task.metrics.speed.expression=qvel[0]",
                    "initial_state.source=task", "control.source=file", f"control.file={tmp_path}/actions.h5", f"simulation.steps={steps}",
                    "output.trajectory.every=1", f"output.trajectory.fields=[{','.join(fields)}]", f"output.directory={tmp_path}/run")
    with h5py.File(tmp_path / "run/results.h5") as file:
        want = {name: file["trajectory"][name][:] for name in fields}  # [env, sample, size]
    assert {"reward_forward", "termination_time_out", "metric_speed"} <= set(envs.metric_names)
    want_metrics = np.concatenate([want["episode_reward_term"], want["episode_metric"]], axis=2)

    observation, _ = envs.reset()
    np.testing.assert_array_equal(observation, want["observation"][:, 0])
    assert observation.dtype == want["observation"].dtype
    ends = 0
    for step, action in enumerate(actions, 1):
        observation, reward, terminated, truncated, infos = envs.step(action)
        np.testing.assert_array_equal(observation, want["observation"][:, step])
        np.testing.assert_array_equal(reward, want["reward"][:, step, 0])
        np.testing.assert_array_equal(terminated, want["terminated"][:, step, 0] != 0)
        np.testing.assert_array_equal(truncated, want["truncated"][:, step, 0] != 0)
        ended = terminated | truncated
        ends += ended.sum()
        assert ("episode" in infos) == ended.any()
        if ended.any():
            np.testing.assert_array_equal(infos["_episode"], ended)
            np.testing.assert_array_equal(infos["episode"]["r"][ended], want["episode_return"][ended, step, 0])
            np.testing.assert_array_equal(infos["episode"]["l"][ended], want["episode_length"][ended, step, 0])
            for name, column in zip(envs.metric_names, want_metrics[:, step].T, strict=True):
                np.testing.assert_array_equal(infos["metrics"][name], np.where(ended, column, 0))
                np.testing.assert_array_equal(infos["metrics"][f"_{name}"], ended)
            assert not infos["episode"]["r"][~ended].any() and (infos["episode"]["t"][ended] > 0).all()
            for env in np.flatnonzero(ended):
                np.testing.assert_array_equal(infos["final_obs"][env], want["final_observation"][env, step])
            assert all(infos["final_obs"][env] is None for env in np.flatnonzero(~ended))
    assert ends > count  # (each has ended more than once)


@pytest.mark.parametrize("mode", list(AutoresetMode)[:2])
def test_threads_change_no_bit(mode):
    results = []
    for threads in (1, 2, 3, 64):
        envs = maniple.make_vec(HOPPER, 100, seed=1, threads=threads, overrides={"task.episode_steps": 9}, autoreset_mode=mode)
        assert envs._core.threads == min(threads, 13)  # of thirteen blocks
        first, _ = envs.reset()
        results.append([first, *steps_of(envs, draws(envs, 20))])
    for other in results[1:]:
        assert_same(results[0], other)


def test_critics_have_observations_of_their_own():
    envs = maniple.make_vec(PENDULUM, autoreset_mode="SameStep")
    observation, _ = envs.reset()
    assert {name: array.shape for name, array in observation.items()} == {"critic": (40, 3), "policy": (40, 2)}
    assert observation in envs.observation_space
    successes = 0
    for action in draws(envs, 12):
        observation, _, terminated, truncated, infos = envs.step(action)
        np.testing.assert_array_equal(observation["policy"][:, 0], observation["critic"][:, 0])
        if terminated.any():
            np.testing.assert_array_equal(infos["success"], terminated)
            env = np.flatnonzero(terminated)[0]
            assert abs(infos["final_obs"][env]["critic"][0]) > 3
            np.testing.assert_array_equal(infos["final_obs"][env]["critic"][2], action[env])
        successes += terminated.sum()
    assert successes > 0


def shown(envs, observation):
    """Both curricula, as every environment observes them."""
    values = {tuple(row.tolist()) for row in observation["critic"]}
    assert len(values) == 1
    (value,) = values
    return value


def test_curricula_are_set_by_hand():
    with pytest.warns(UserWarning, match=r"task.curricula: level: updates run in trainings .* envs.set_curriculum\(name, value\)") as told:
        envs = maniple.make_vec(PENDULUM, 70, seed=1, overrides=CURRICULA, threads=2)
    assert len(told) == 1 and told[0].filename == __file__
    assert envs.curricula == {"level": 0.5, "fixed": 2}
    actions = draws(envs, 10)
    assert shown(envs, envs.reset()[0]) == (0.5, 2)
    for action in actions:
        observation, *_ = envs.step(action)
    assert shown(envs, observation) == (0.5, 2)
    envs.set_curriculum("level", 0.25)
    assert envs.curricula == {"level": 0.25, "fixed": 2}
    assert shown(envs, envs.step(actions[0])[0]) == (0.25, 2)
    # seeds keep it, and resets draw by it
    observation, _ = envs.reset(seed=4)
    assert shown(envs, observation) == (0.25, 2)
    assert 0.2 < np.ptp(observation["policy"][:, 0]) <= 0.25
    envs.set_curriculum("fixed", np.float32(3))
    assert shown(envs, envs.step(actions[0])[0]) == (0.25, 3)
    # the bits of a deck that begins with these values
    with pytest.warns(UserWarning):
        begun = maniple.make_vec(PENDULUM, 70, seed=1, overrides=CURRICULA | {"task.curricula.level.reset": "0.25",
                                                                              "task.curricula.fixed.reset": "3"})
    for one, other in zip(envs.reset(seed=9)[0].values(), begun.reset(seed=9)[0].values(), strict=True):
        np.testing.assert_array_equal(one, other)
    for name, value, message in (("levle", 1, "found 'levle', did you mean 'level'.*; allowed: level, fixed"),
                                 ("level", np.nan, "curriculum level: found nan; allowed: a finite number"),
                                 ("level", "much", "could not convert"),
                                 ("level", -1, r"a range that has become, by level = -1, \[0, -1\]")):
        with pytest.raises(ValueError, match=message):
            envs.set_curriculum(name, value)
        assert envs.curricula == {"level": 0.25, "fixed": 3}


def test_contacts_that_are_left_out_are_warned_of_once():
    envs = maniple.make_vec("gymnasium/ant_v5", 4, overrides={"simulation.max_contacts": 1})
    envs.reset()
    with pytest.warns(UserWarning, match=r"contacts beyond the 1 that an environment has room for .*simulation\.max_contacts") as told:
        for _ in range(60):
            envs.step(np.zeros(envs.action_space.shape, np.float32))
    assert len(told) == 1 and told[0].filename == __file__ and envs.dropped_contacts > 0
    envs.close()


def test_arrays_stay_unless_they_may_be_written_again():
    for copy in (True, False):
        envs = maniple.make_vec(HOPPER, 40, copy=copy)
        envs.reset()
        action = draws(envs, 1)[0]
        results = [envs.step(action)[0] for _ in range(3)]
        assert np.shares_memory(results[0], results[2]) == (not copy)
        assert not np.shares_memory(results[0], results[1])


def test_arrays_travel_by_dlpack():
    class Tensor:  # of another library
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    one, other, third = (maniple.make_vec(HOPPER, 40, seed=1) for _ in range(3))
    action = draws(one, 1)[0]
    one.reset(), other.reset(), third.reset()
    want = one.step(action)[0]
    np.testing.assert_array_equal(other.step(Tensor(action))[0], want)
    np.testing.assert_array_equal(third.step(np.asfortranarray(action.astype(np.float64)))[0], want)
    assert np.shares_memory(np.from_dlpack(want), want)


def test_keys_are_taken_out_as_on_a_command_line(maniple_program):
    """By None and by ~, alone and within a section."""
    settled = maniple.make_vec(HOPPER, 4).observation_names
    for given in ({"overrides": {"task.rewards.more": "~", "task.metrics": {"speed": "~"}}},
                  {"overrides": {"task.rewards.more": None, "task.metrics": {"speed": None}}}):
        deck = {"include": HOPPER, "task": {"rewards": {"more": {"expression": "1"}}, "metrics": {"speed": "norm(qvel)", "kept": "1"}}}
        whole, less = maniple.make_vec(deck, 4).deck, maniple.make_vec(deck, 4, **given)
        assert "more: {" in whole and "speed: {" in whole
        assert "more: {" not in less.deck and "speed: {" not in less.deck and "kept: {" in less.deck
        assert less.observation_names == settled


def test_decks_have_the_names_of_the_command_line(maniple_program, tmp_path):
    """Of a name that is both a task and a training of it, the training."""
    for name, file in ((HOPPER, "train/gymnasium/hopper_v5.yaml"), ("bc", "imitate/bc.yaml")):
        assert deck_file(name) == str(ROOT / "inputs" / file)
    maniple_program("rollout", HOPPER, "simulation.steps=1", f"output.directory={tmp_path}")
    assert maniple.make_vec(HOPPER).num_envs == maniple.Run(tmp_path).setting("batch.num_envs") == 256
