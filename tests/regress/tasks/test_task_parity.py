"""The decks of inputs/tasks against the environments that they are named after, as the installed packages have them:
every observation, reward and end of control steps from the same states with the same actions, the length of episodes,
and the states that they begin with, by their moments and bounds."""
# ctest: PROCESSORS 1 COST 30

import re

import gymnasium
import h5py
import numpy as np
import pytest
from beside_originals import WINDOW, assert_close, collect, deck_of, replay, rollout_of, rounded_otherwise, without_turns, write_given
from conftest import of_the_day
from dm_control import suite
from originals import ENDED_EARLY, SENSITIVE, TASKS, ControlTask, GymnasiumTask

RESETS = 2000  # of a deck, and a quarter of that of the original
# one of each suite with all that it has: ends by failure, contact forces, a target that is aimed at, directions that are drawn,
# bodies that are held elsewhere in each episode, activations, both workflows, actions that lead a mocap body, bodies that are
# elsewhere in the model of each episode
QUICK = ["gymnasium/hopper_v5", "gymnasium/humanoid_v5", "dm_control/fish_swim", "dm_control/manipulator_insert_ball",
         "dm_control/point_mass_hard", "dm_control/quadruped_walk", "isaac/ant_direct", "isaac/humanoid",
         "gymnasium_robotics/fetch_pick_and_place", "gymnasium_robotics/adroit_hammer"]


@pytest.fixture(params=of_the_day(TASKS, *QUICK))
def name(request):
    return request.param


@pytest.fixture
def original(name):
    kind, title = TASKS[name]
    task = kind(title)
    if name in ENDED_EARLY:
        task.model.opt.tolerance = 1e-15
    return task


def test_steps_are_those_of_the_original(maniple, tmp_path, name, original):
    states, actions = collect(original, seed=1)
    write_given(tmp_path / "given.h5", states, actions)
    fields = ["observation", "final_observation", "reward", "terminated", "truncated", "action"]
    ours = rollout_of(maniple, name, original, tmp_path, states, WINDOW, fields)
    seen, size = ours["variables/placed" if original.placed else "observation"][:, 0], ours["observation"].shape[2]

    def answers(states, windows):
        observations, rewards, ends = replay(original, states, actions[windows], seen[windows], size)
        return without_turns(observations, ours["final_observation"][windows], original.angles), rewards, ends

    def again(windows, seed):
        return answers(rounded_otherwise([states[window] for window in windows], seed), windows)

    observations, rewards, ends = answers(states, np.arange(len(states)))
    np.testing.assert_array_equal(ours["action"][:, 1:], actions)
    np.testing.assert_array_equal(ours["observation"][:, 0], ours["final_observation"][:, 0])
    assert_close({"observation": (ours["final_observation"], observations), "reward": (ours["reward"][:, 1:], rewards)},
                 again if name in SENSITIVE else None)
    known = np.isfinite(rewards)
    np.testing.assert_array_equal(ours["terminated"][:, 1:][known], ends[known])
    assert not ours["truncated"].any()


def test_episodes_are_as_long(maniple, tmp_path, name, original):
    endings = re.search(r"^  terminations:\n((?:    .*\n)*)", deck_of(name).read_text(), re.M)
    failures = re.findall(r"^    (\w+):", endings.group(1), re.M) if endings else []
    endless = not np.isfinite(original.max_steps)
    steps = 50 if endless else int(original.max_steps)
    maniple("rollout", deck_of(name), "simulation.precision=double", "control.source=zero", "initial_state.source=task",
            *(f"task.terminations.{failure}=~" for failure in failures if failure != "time_out"),
            "simulation.decimation=1", f"simulation.steps={steps + 1}", "output.trajectory.every=1",
            "output.trajectory.fields=[terminated,truncated]", f"output.directory={tmp_path}/run")
    with h5py.File(tmp_path / "run/results.h5") as file:
        truncated = np.flatnonzero(file["trajectory/truncated"][0, :, 0])
        assert not file["trajectory/terminated"][()].any()
    np.testing.assert_array_equal(truncated, [] if endless else [steps])


def test_episodes_begin_as_those_of_the_original(maniple, tmp_path, name, original):
    maniple("rollout", deck_of(name), "simulation.precision=double", f"batch.num_envs={RESETS}", "simulation.steps=0",
            "control.source=zero", "initial_state.source=task", "output.trajectory.every=1",
            "output.trajectory.fields=[qpos,qvel,observation]", f"output.directory={tmp_path}/run")
    with h5py.File(tmp_path / "run/results.h5") as file:
        ours = np.concatenate([file["trajectory"][field][:, 0] for field in ("qpos", "qvel", "observation")], axis=1)
    original.reset(seed=7)
    theirs = []
    for _ in range(RESETS // 4):
        original.reset()
        theirs.append(np.concatenate([original.data.qpos, original.data.qvel, original.observation()]))
    theirs = np.array(theirs)
    # Means, deviations and products of pairs within five standard errors.
    for power in (lambda x: x, lambda x: (x - theirs.mean(axis=0)) ** 2,
                  lambda x: (x - theirs.mean(axis=0)) * np.roll(x - theirs.mean(axis=0), 1, axis=1)):
        a, b = power(ours), power(theirs)
        error = np.sqrt(a.var(axis=0) / len(a) + b.var(axis=0) / len(b))
        np.testing.assert_array_less(np.abs(a.mean(axis=0) - b.mean(axis=0)), 5 * error + 1e-12)
    # Bounds of the state: the largest of many differ by little, those of normal distributions by more.
    size = original.model.nq + original.model.nv
    ours, theirs = ours[:, :size], theirs[:, :size]
    span = np.ptp(theirs, axis=0)
    np.testing.assert_array_less(np.abs(ours.max(axis=0) - theirs.max(axis=0)), 0.5 * span + 1e-12)
    np.testing.assert_array_less(np.abs(ours.min(axis=0) - theirs.min(axis=0)), 0.5 * span + 1e-12)


def test_directions_of_point_mass_hard(maniple, tmp_path):
    """Those of its controls: by the original's moments, and by the angle that it draws again below."""
    maniple("rollout", deck_of("dm_control/point_mass_hard"), "simulation.precision=double", f"batch.num_envs={RESETS}",
            "task.observations=[{expression: \"[first, second]\"}]", "simulation.steps=0", "control.source=zero",
            "initial_state.source=task", "output.trajectory.every=1", "output.trajectory.fields=[observation]",
            f"output.directory={tmp_path}/run")
    with h5py.File(tmp_path / "run/results.h5") as file:
        ours = file["trajectory/observation"][:, 0]
    original = ControlTask("point_mass hard")
    original.reset(seed=3)
    theirs = []
    for _ in range(RESETS // 4):
        original.reset()
        theirs.append(original.model.wrap_prm.copy())
    theirs = np.array(theirs)
    for both in (ours, theirs):
        np.testing.assert_allclose(np.hypot(both[:, ::2], both[:, 1::2]), 1, atol=1e-12)
    cosine = [np.sum(both[:, :2] * both[:, 2:], axis=1) for both in (ours, theirs)]
    side = [both[:, 0] * both[:, 3] - both[:, 1] * both[:, 2] for both in (ours, theirs)]
    assert np.abs(cosine[0]).max() <= 0.9 + 1e-12 and np.abs(cosine[0]).max() > 0.89
    for a, b in (cosine, side, (cosine[0] ** 2, cosine[1] ** 2), (ours[:, 0], theirs[:, 0]), (ours[:, 3], theirs[:, 3]),
                 (ours[:, 0] * ours[:, 2], theirs[:, 0] * theirs[:, 2])):
        error = np.sqrt(a.var() / len(a) + b.var() / len(b))
        assert abs(a.mean() - b.mean()) < 5 * error


def test_an_episode_may_fail_when_its_time_is_over(maniple, tmp_path):
    """Both flags are set, as in Gymnasium's TimeLimit."""
    original = GymnasiumTask("Hopper-v5")
    states, actions = collect(original, seed=3)
    for state in states[::3]:
        state["qpos"][1] = 0.6  # lower than what is healthy
    write_given(tmp_path / "given.h5", states, actions)
    maniple("rollout", deck_of("gymnasium/hopper_v5"), "simulation.precision=double", f"batch.num_envs={len(states)}",
            "simulation.steps=1", "task.episode_steps=1", "initial_state.source=file",
            f"initial_state.file={tmp_path}/given.h5", "control.source=file", f"control.file={tmp_path}/given.h5",
            "output.trajectory.every=1", "output.trajectory.fields=[terminated,truncated]", f"output.directory={tmp_path}/run")
    limited = gymnasium.wrappers.TimeLimit(original.environment, 1)
    flags = []
    for state, action in zip(states, actions[:, 0]):
        limited.reset()
        original.put(state)
        flags.append(limited.step(action)[2:4])
    flags = np.array(flags)
    with h5py.File(tmp_path / "run/results.h5") as file:
        ours = np.hstack([file["trajectory/terminated"][:, 1], file["trajectory/truncated"][:, 1]])
    np.testing.assert_array_equal(ours, flags)
    assert flags[:, 1].all() and flags[:, 0].any() and not flags[:, 0].all()


def test_cheetahs_settle_as_the_original(maniple, tmp_path):
    """dm_control's own reset, given the joints that the deck draws, ends in the deck's states: the first of its settling
    steps, too, which goes by the pose before the draw."""
    drawn = {}
    for name, resets in {"drawn": ["task.settle_steps=0"], "settled": []}.items():
        maniple("rollout", deck_of("dm_control/cheetah_run"), "simulation.precision=double", "batch.num_envs=50",
                "simulation.steps=0", "initial_state.source=task", "control.source=zero", "output.trajectory.every=1",
                "output.trajectory.fields=[qpos,qvel]", f"output.directory={tmp_path}/{name}", *resets)
        with h5py.File(tmp_path / name / "results.h5") as file:
            drawn[name] = file["trajectory/qpos"][:, 0], file["trajectory/qvel"][:, 0]
    environment = suite.load("cheetah", "run")
    environment.physics.model.opt.tolerance = 1e-15
    data, limited = environment.physics.data, environment.physics.model.jnt_limited == 1

    class Draws:
        def uniform(self, low, high):
            assert (low < self.joints).all() and (self.joints < high).all()
            return self.joints

    environment.task._random = draws = Draws()
    for env in range(50):
        draws.joints = drawn["drawn"][0][env][limited]
        environment.reset()
        np.testing.assert_allclose(drawn["settled"][0][env], data.qpos, atol=1e-10)
        np.testing.assert_allclose(drawn["settled"][1][env], data.qvel, atol=1e-9)
