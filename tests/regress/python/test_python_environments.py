"""`import maniple`: the environments of a deck in Python, against the program's own rollouts, bit for bit, and against
Gymnasium's rules for vector environments."""
# ctest: PROCESSORS 1 COST 20

import gc
import os
import re
import resource
import signal
import subprocess
import sys
import time
import weakref

import gymnasium
import h5py
import numpy as np
import pytest
from gymnasium.utils import env_checker
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from conftest import ENVIRONMENT, ROOT

pytest.importorskip("maniple.native", reason="MANIPLE_PYTHON_PACKAGE is off", exc_type=ImportError)
import maniple  # noqa: E402
from maniple.decks import deck_file  # noqa: E402

HOPPER = "gymnasium/hopper_v5"
# A pendulum whose critic sees more than its policy, and whose episodes may end well.
PENDULUM = {
    "model": {"file": str(ROOT / "inputs/models/pendulum.xml")},
    "batch": {"num_envs": 40},
    "task": {
        "name": "Pendulum",
        "episode_steps": 6,
        "actions": [{"term": "joint_effort", "joints": ["hinge"], "scale": 2}],
        "observations": [{"expression": "qpos[hinge]"}, {"expression": "uniform(0, 1)"}],
        "critic_observations": [{"expression": "qpos[hinge]"}, {"expression": "qvel[hinge]"}, {"expression": "action"}],
        "rewards": {"upright": {"expression": "cos(qpos[hinge])", "weight": 1}},
        "terminations": {"time_out": {"term": "time_out"}, "success": {"expression": "abs(qpos[hinge]) > 3"}},
        "resets": [{"set": "qpos[hinge]", "expression": "uniform(-pi, pi)"}],
    },
}


def draws(envs, steps, seed=0):
    """Actions [steps, num_envs, size] within the space."""
    space = envs.single_action_space
    return np.random.default_rng(seed).uniform(space.low, space.high, (steps, envs.num_envs, *space.shape)).astype(space.dtype)


def steps_of(envs, actions):
    """Every array of these steps, in one list."""
    return [part for action in actions for part in envs.step(action)[:4]]


def assert_same(one, other):
    assert len(one) == len(other)
    for left, right in zip(one, other, strict=True):
        np.testing.assert_array_equal(left, right)


# ---- bad actions ----

def test_actions_that_are_no_numbers_are_refused():
    envs = maniple.make_vec("inputs/tasks/pendulum_swingup.yaml", 5)
    envs.reset(seed=1)
    actions = np.zeros(envs.action_space.shape, np.float32)
    actions[3] = np.nan
    with pytest.raises(ValueError, match="actions: found nan in component 0 of environment 3; allowed: finite numbers"):
        envs.step(actions)
    envs.close()


# ---- the program's bits ----

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


@pytest.fixture
def maniple_program():
    from conftest import Maniple

    return Maniple()


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


class OneOf:
    """Stands for a communicator: this rank of `size`, all of which say the same."""

    def __init__(self, rank, size, others=None):
        self.rank, self.size, self.others = rank, size, others

    def Get_rank(self):
        return self.rank

    def Get_size(self):
        return self.size

    def allgather(self, told):
        return [told, *(self.others or [told] * (self.size - 1))]


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_have_parts_of_the_batch(ranks):
    overrides = {"task.episode_steps": 9}
    whole = maniple.make_vec(HOPPER, 100, seed=1, overrides=overrides)
    actions = draws(whole, 15)
    want = [whole.reset()[0], *steps_of(whole, actions)]
    parts = [maniple.make_vec(HOPPER, 100, seed=1, overrides=overrides, comm=OneOf(rank, ranks)) for rank in range(ranks)]
    assert sum(part.num_envs for part in parts) == 100 and parts[0].global_num_envs == 100
    got = []
    for part in parts:
        own = slice(part.first_env, part.first_env + part.num_envs)
        got.append([part.reset()[0], *steps_of(part, actions[:, own])])
    assert_same([np.concatenate(arrays) for arrays in zip(*got, strict=True)], want)


def test_ranks_refuse_together():
    with pytest.raises(ValueError, match="comm: found different decks"):
        maniple.make_vec(HOPPER, 64, comm=OneOf(0, 2, [(False, "", "another deck")]))
    with pytest.raises(ValueError, match="no such file over there"):
        maniple.make_vec(HOPPER, 64, comm=OneOf(0, 2, [("ValueError", "no such file over there", None)]))
    with pytest.raises(RuntimeError, match="a disk failed"):
        maniple.make_vec(HOPPER, 64, comm=OneOf(0, 2, [("RuntimeError", "a disk failed", None)]))
    with pytest.raises(ValueError, match="batch.num_envs: 4 environments on 3 ranks; at least 2"):
        maniple.make_vec(HOPPER, 4, comm=OneOf(0, 3))


def test_ranks_of_mpi(tmp_path):
    pytest.importorskip("mpi4py", reason="not installed")
    script = tmp_path / "ranks.py"
    script.write_text(f"""
import sys
sys.path.insert(0, {str(ROOT / "tools")!r})
import numpy as np
from mpi4py import MPI
import maniple
comm = MPI.COMM_WORLD
envs = maniple.make_vec("{HOPPER}", 70, seed=1, comm=comm)
whole = maniple.make_vec("{HOPPER}", 70, seed=1)
own = slice(envs.first_env, envs.first_env + envs.num_envs)
np.testing.assert_array_equal(envs.reset()[0], whole.reset()[0][own])
for action in np.random.default_rng(0).uniform(-1, 1, (9, 70, 3)).astype(np.float32):
    for mine, all_of_it in zip(envs.step(action[own])[:4], whole.step(action)[:4]):
        np.testing.assert_array_equal(mine, all_of_it[own])
try:
    maniple.make_vec("{HOPPER}" if comm.rank else "no such deck", 70, comm=comm)
except ValueError as error:
    assert "no such deck" in str(error)
else:
    raise SystemExit("not refused")
open(f"rank_{{comm.rank}}", "w").write(str(envs.num_envs))
""")
    result = subprocess.run(["mpirun", "--oversubscribe", "--bind-to", "none", "-n", "2", sys.executable, str(script)],
                            cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=200)
    assert result.returncode == 0, result.stdout + result.stderr
    # (a file for each: mpirun may mix what ranks print)
    assert [(tmp_path / f"rank_{rank}").read_text() for rank in (0, 1)] == ["32", "38"]


# ---- Gymnasium's rules ----

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


# ---- curricula ----

CURRICULA = {"task.curricula": {"level": {"reset": "0.5", "update": "level + 1"}, "fixed": {"reset": "2"}},
             "task.critic_observations": [{"expression": "[level, fixed]"}],
             "task.resets": [{"term": "reset_joints_by_offset", "position_range": [0, "level"], "velocity_range": [0, 0]}],
             "task.episode_steps": 3}


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


def test_ranks_set_the_same_value():
    with pytest.warns(UserWarning):
        envs = maniple.make_vec(PENDULUM, 64, overrides=CURRICULA, comm=OneOf(0, 2))
    envs.set_curriculum("level", 0.75)
    assert envs.curricula["level"] == 0.75
    for told, message in (((False, "", "level = 2"), "comm: found different values of a curriculum on its ranks"),
                          (("ValueError", "curriculum: found 'x'", "x = 1"), "curriculum: found 'x'")):
        envs._comm.others = [told]
        with pytest.raises(ValueError, match=message):
            envs.set_curriculum("level", 1)
        assert envs.curricula["level"] == 0.75


# ---- arrays ----

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


# ---- errors ----

def test_refusals_are_those_of_the_program(maniple_program, tmp_path):
    deck = tmp_path / "deck.yaml"
    deck.write_text(f"include: {ROOT}/inputs/tasks/gymnasium/hopper_v5.yaml\nsimulation:\n  decimations: 4\n")
    result = maniple_program("validate", deck, exit_code=2)
    message = re.search(r"maniple: error: (.*)", result.stderr).group(1)
    with pytest.raises(ValueError) as caught:
        maniple.make_vec(deck)
    assert str(caught.value) == message and "simulation.decimations: found an unknown key" in message
    for key, value, text in [("batch.num_envs", 0, "batch.num_envs: found '0'"), ("simulation.precision", "half", 'found the text "half"'),
                             ("batch.num_envs", 10**11, "MB are available"), ("model.file", "nowhere.xml", "nowhere.xml")]:
        with pytest.raises(ValueError, match=text):
            maniple.make_vec(HOPPER, overrides={key: value})
    with pytest.raises(ValueError, match="gymnasium/hopper_v5"):
        maniple.make_vec("gymnasium/hoper_v5")
    with pytest.raises(ValueError, match="found a deck without a task"):
        maniple.make_vec({"model": {"file": str(ROOT / "inputs/models/arm6.xml")}})
    with pytest.raises(ValueError, match="autoreset_mode: found 'next_step'; allowed: 'NextStep', 'SameStep', 'Disabled'"):
        maniple.make_vec(HOPPER, 4, autoreset_mode="next_step")
    for threads in (0, 1.5):
        with pytest.raises(ValueError, match=f"threads: found {threads}; allowed: an integer of at least 1"):
            maniple.make_vec(HOPPER, 4, threads=threads)
    with pytest.raises(ValueError, match="comm: found 3; allowed: None, or a communicator of mpi4py"):
        maniple.make_vec(HOPPER, 4, comm=3)
    with pytest.raises(ValueError, match="^batch.num_envs: found"):  # there is no command line
        maniple.make_vec(HOPPER, 0)
    for name, near in (("Hopper-v5", HOPPER), ("HalfCheetah-v5", "gymnasium/half_cheetah_v5"), ("inverted_pendulum_v5", "gymnasium/inverted_pendulum_v5")):
        with pytest.raises(ValueError, match=f"nearest: {near}$"):
            maniple.make_vec(name)
    for section in ({"tsk": {"name": "x"}}, {"tsk": {}}):
        with pytest.raises(ValueError, match="tsk: found an unknown key; nearest known key: task"):
            maniple.make_vec({"model": {"file": str(ROOT / "inputs/models/arm6.xml")}, **section})
    with pytest.raises(ValueError, match="deck: found a deck's text; allowed: yaml.safe_load") as caught:
        maniple.make_vec(maniple.make_vec(HOPPER, 4).deck)
    assert len(str(caught.value)) < 200
    with pytest.raises(TypeError, match="not object"):
        maniple.make_vec(HOPPER, overrides={"batch.num_envs": object()})


def test_decks_have_the_names_of_the_command_line(maniple_program, tmp_path):
    """Of a name that is both a task and a training of it, the training."""
    for name, file in ((HOPPER, "train/gymnasium/hopper_v5.yaml"), ("bc", "imitate/bc.yaml")):
        assert deck_file(name) == str(ROOT / "inputs" / file)
    maniple_program("rollout", HOPPER, "simulation.steps=1", f"output.directory={tmp_path}")
    assert maniple.make_vec(HOPPER).num_envs == maniple.Run(tmp_path).setting("batch.num_envs") == 256


def test_misuse_is_refused():
    envs = maniple.make_vec(HOPPER, 4)
    action = np.zeros((4, 3), np.float32)
    with pytest.raises(RuntimeError, match="reset\\(\\) comes before"):
        envs.step(action)
    with pytest.raises(RuntimeError, match="first reset resets all"):
        envs.reset(options={"reset_mask": np.array([True, False, False, False])})
    envs.reset()
    with pytest.raises(ValueError, match=r"found the shape \(3, 3\); allowed: \(4, 3\)"):
        envs.step(action[:3])
    with pytest.raises(ValueError, match="actions: found complex numbers; allowed: real numbers"):
        envs.step(action + 1j)
    with pytest.raises(ValueError, match="found the shape \\(4,\\) with 0"):
        envs.reset(options={"reset_mask": np.zeros(4, bool)})
    with pytest.raises(TypeError, match="found an array of int64"):
        envs.reset(options={"reset_mask": np.ones(4, int)})
    with pytest.raises(TypeError, match="found list"):
        envs.reset(options={"reset_mask": [True] * 4})
    with pytest.raises(ValueError, match="found 'mask'"):
        envs.reset(options={"mask": np.ones(4, bool)})
    for seed in ([1, 2, 3, 5], [1, 2, 3], [], np.array([4, 3, 2, 1])):
        with pytest.raises(ValueError if len(seed) else TypeError, match="seed: found .* allowed: one integer for the whole batch"):
            envs.reset(seed=seed)
    with pytest.raises(TypeError, match="one integer for the whole batch"):
        envs.reset(seed=1.5)
    np.testing.assert_array_equal(envs.reset(seed=[7, 8, 9, 10])[0], envs.reset(seed=7)[0])  # as in a SyncVectorEnv
    with pytest.raises(ValueError, match=r"actions: found None; allowed: an array of the shape \(4, 3\)"):
        envs.step(None)
    with pytest.raises(ValueError, match="together with a reset_mask"):
        envs.reset(seed=1, options={"reset_mask": np.ones(4, bool)})
    envs.close()
    with pytest.raises(RuntimeError, match="were closed"):
        envs.step(action)
    envs.close()


# ---- the process ----

def test_batches_live_beside_each_other():
    alone = []
    for seed in (1, 2):
        envs = maniple.make_vec(HOPPER, 40, seed=seed)
        alone.append([envs.reset()[0], *steps_of(envs, draws(envs, 8))])
    both = [maniple.make_vec(HOPPER, 40, seed=seed) for seed in (1, 2)]
    results = [[envs.reset()[0]] for envs in both]
    for action in draws(both[0], 8):
        for envs, result in zip(both, results, strict=True):
            result += steps_of(envs, [action])
    for want, got in zip(alone, results, strict=True):
        assert_same(got, want)
    assert not np.array_equal(alone[0][0], alone[1][0])


def test_memory_is_given_back():
    def once():
        envs = maniple.make_vec(HOPPER, 4096)
        envs.reset()
        envs.step(np.zeros(envs.action_space.shape, np.float32))
        return weakref.ref(envs)

    def resident():
        gc.collect()
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    assert [once()() for _ in range(5)] == [None] * 5
    before, threads = resident(), len(os.listdir("/proc/self/task"))
    for _ in range(30):
        once()
    assert resident() - before < 20e6
    assert len(os.listdir("/proc/self/task")) == threads


def in_python(code, **options):
    return subprocess.Popen([sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT / 'tools')!r})\n{code}"],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT, **options)


def test_ctrl_c_interrupts():
    process = in_python(f"""
import numpy as np, maniple
envs = maniple.make_vec("{HOPPER}", 64)
envs.reset()
action = np.zeros((64, 3), np.float32)
print("stepping", flush=True)
while True:
    envs.step(action)
""")
    assert process.stdout.readline() == "stepping\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert "KeyboardInterrupt" in errors and process.returncode == -signal.SIGINT


def test_one_process_needs_no_mpi_and_ends_quietly():
    process = in_python(f"""
import ctypes, maniple
envs = maniple.make_vec("{HOPPER}", 64)
envs.reset()
started = ctypes.c_int(7)
assert ctypes.CDLL("libmpi.so.40").MPI_Initialized(ctypes.byref(started)) == 0
print(started.value, maniple.__version__)
""")
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0 and errors == ""
    assert output.split()[0] == "0"


def test_threads_do_not_survive_fork():
    """An environment of several threads says so in a process that fork() made; one of a single thread works there."""
    script = """
import os, sys
import numpy as np
import maniple

for threads, expected in ((2, 3), (1, 0)):
    envs = maniple.make_vec("isaac_cartpole", 64, threads=threads)
    envs.reset(seed=1)
    envs.step(np.zeros((64, 1), np.float32))
    child = os.fork()
    if child == 0:
        try:
            envs.step(np.zeros((64, 1), np.float32))
        except RuntimeError as error:
            os._exit(3 if "fork() made" in str(error) else 1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == expected
    envs.step(np.zeros((64, 1), np.float32))
"""
    subprocess.run([sys.executable, "-c", script], env={**ENVIRONMENT, "PYTHONPATH": str(ROOT / "tools")}, check=True, timeout=120)
