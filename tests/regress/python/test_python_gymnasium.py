"""The environments of `import maniple` by Gymnasium's rules for vector environments: its checks, its wrappers, and its
SyncVectorEnv of the same environments one by one."""
# ctest: PROCESSORS 1

import gymnasium
import numpy as np
import pytest
from batches import HOPPER, PENDULUM, assert_same, draws
from gymnasium.utils import env_checker
from gymnasium.vector import AutoresetMode, SyncVectorEnv

pytest.importorskip("maniple.native", reason="MANIPLE_PYTHON_PACKAGE is off", exc_type=ImportError)
import maniple  # noqa: E402


class OneEnvironment(gymnasium.Env):
    """Environment `number` of a batch by itself: what SyncVectorEnv makes a vector of by Gymnasium's own rules."""

    def __init__(self, deck, count, number, **options):
        self.batch = maniple.make_vec(deck, count, autoreset_mode="Disabled", **options)
        self.number = number
        self.observation_space, self.action_space = self.batch.single_observation_space, self.batch.single_action_space
        self.begun = False

    def own(self, rows):
        return {name: array[self.number] for name, array in rows.items()} if isinstance(rows, dict) else rows[self.number]

    def reset(self, *, seed=None, options=None):
        if not self.begun or seed is not None:
            self.begun = True
            return self.own(self.batch.reset(seed=None if seed is None else seed - self.number)[0]), {}
        return self.own(self.batch.reset(options={"reset_mask": np.arange(self.batch.num_envs) == self.number})[0]), {}

    def step(self, action):
        actions = np.zeros(self.batch.action_space.shape, action.dtype)
        actions[self.number] = action
        observation, reward, terminated, truncated, _ = self.batch.step(actions)
        others = (terminated | truncated) & (np.arange(self.batch.num_envs) != self.number)
        if others.any():
            self.batch.reset(options={"reset_mask": others})
        return (self.own(observation), *(part[self.number] for part in (reward, terminated, truncated)), {})


def assert_same_observations(got, want):
    if not isinstance(got, dict):
        got, want = {"": got}, {"": want}
    assert list(got) == list(want)
    for name in got:
        np.testing.assert_array_equal(got[name], want[name], err_msg=name)


@pytest.mark.parametrize("deck, overrides", [(HOPPER, {"task.episode_steps": 13}), (PENDULUM, {})], ids=["hopper", "pendulum"])
@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_episodes_begin_as_in_a_sync_vector_env(mode, precision, deck, overrides):
    count, options = 5, {"overrides": overrides, "precision": precision}
    ours = maniple.make_vec(deck, count, autoreset_mode=mode, **options)
    theirs = SyncVectorEnv([lambda i=i: OneEnvironment(deck, count, i, **options) for i in range(count)], autoreset_mode=mode)
    assert ours.metadata["autoreset_mode"] == theirs.metadata["autoreset_mode"] == mode
    assert ours.single_observation_space == theirs.single_observation_space and ours.action_space == theirs.action_space
    assert_same_observations(ours.reset(seed=3)[0], theirs.reset(seed=3)[0])
    ends = 0
    for number, action in enumerate(draws(ours, 40)):
        got, want = ours.step(action), theirs.step(action)
        assert_same_observations(got[0], want[0])
        assert_same(got[1:4], want[1:4])
        ended = got[2] | got[3]
        ends += ended.sum()
        if mode == AutoresetMode.SAME_STEP and ended.any():
            np.testing.assert_array_equal(got[4]["_final_obs"], want[4]["_final_obs"])
            for env in np.flatnonzero(ended):
                assert_same_observations(got[4]["final_obs"][env], want[4]["final_obs"][env])
        mask = None
        if mode == AutoresetMode.DISABLED and ended.any():
            with pytest.raises(RuntimeError, match=f"environment {np.flatnonzero(ended)[0]} has ended"):
                ours.step(action)
            mask = ended
            if number % 3 == 0:  # also one that goes on
                mask = ended | (np.arange(count) == number % count)
        elif number in (5, 17):  # in every mode
            mask = np.arange(count) % 2 == 1
        if mask is not None:
            assert_same_observations(ours.reset(options={"reset_mask": mask.copy()})[0],
                                     theirs.reset(options={"reset_mask": mask.copy()})[0])
        if number == 30:
            assert_same_observations(ours.reset()[0], theirs.reset()[0])
    assert ends > count


def test_it_is_a_vector_env_of_gymnasium():
    envs = maniple.make_vec(HOPPER, 6, seed=1, overrides={"task.episode_steps": 5})
    assert isinstance(envs, gymnasium.vector.VectorEnv) and envs.unwrapped is envs
    assert envs.observation_space.shape == (6, 11) and envs.single_action_space.shape == (3,)
    assert len(envs.observation_names) == 11 and len(envs.action_names) == 3
    for check in (env_checker.check_reset_seed_determinism, env_checker.check_reset_options, env_checker.check_reset_return_type,
                  env_checker.check_reset_return_info_deprecation, env_checker.check_seed_deprecation):
        check(envs)
    # the others are of a gymnasium.Env, with the flags of a single environment
    for check, problem in ((env_checker.check_env, TypeError), (env_checker.check_step_determinism, AssertionError),
                           (env_checker.check_returned_data_not_reused, ValueError)):
        with pytest.raises(problem):
            check(envs)
    runs = []
    for _ in range(2):
        first = envs.reset(seed=123)
        runs.append([first, *(envs.step(action)[:4] for action in draws(envs, 7))])
    assert env_checker.data_equivalence(*runs, exact=True)
    assert not env_checker.data_equivalence(runs[0][0], envs.reset(seed=124))
    observation, _ = envs.reset()
    for action in draws(envs, 12):
        assert observation in envs.observation_space
        observation, reward, terminated, truncated, _ = envs.step(action)
        assert reward.shape == terminated.shape == truncated.shape == (6,)
        assert terminated.dtype == truncated.dtype == np.bool_
    with pytest.raises(ValueError, match="allowed: 0 to 4294967295"):
        envs.reset(seed=-1)
    assert envs.reset(seed=9) and envs.np_random_seed == 9


def test_wrappers_of_gymnasium_agree_with_our_statistics():
    bare = maniple.make_vec(HOPPER, 6, seed=1, overrides={"task.episode_steps": 5})
    envs = gymnasium.wrappers.vector.NormalizeObservation(bare)
    mine = maniple.make_vec(HOPPER, 6, seed=1, overrides={"task.episode_steps": 5})
    returns, lengths = np.zeros(6), np.zeros(6, int)
    envs.reset(), mine.reset()
    waiting = np.zeros(6, bool)
    for action in draws(mine, 20):
        envs.step(action)
        _, reward, terminated, truncated, infos = mine.step(action)
        returns, lengths = np.where(waiting, 0, returns + reward), np.where(waiting, 0, lengths + 1)
        waiting = terminated | truncated
        if waiting.any():
            np.testing.assert_allclose(infos["episode"]["r"][waiting], returns[waiting], rtol=1e-5)
            np.testing.assert_array_equal(infos["episode"]["l"][waiting], lengths[waiting])
