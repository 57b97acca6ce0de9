"""dm_control's quadruped escape: bowls against the original's own code with the program's noise; steps on a bowl of the deck put
into the original, from places all over it; fresh states on all of them; and the cells that episodes draw."""
# ctest: PROCESSORS 1 COST 60

import h5py
import numpy as np
import pytest
from beside_originals import (TOLERANCE, WINDOW, assert_close, collect, deck_of, replay, rollout_of, rounded_otherwise,
                              write_given)
from demonstrations import philox
from dm_control.rl import control
from dm_control.suite import common, quadruped
from maniple.results import Run
from originals import ControlTask

NAME = "dm_control/quadruped_escape"
POINTS, BORDER, CELL = 201, 33, 266  # of a bowl along one side, of its border, from cell to cell
SIZE = 79.8  # m, of a cell
SEED, TERRAIN = 42, 17  # the default of batch.seed; the stream of kernels/base/philox.hpp
ONE = ["terrain.num_rows=1", "terrain.num_cols=1"]  # its middle is the world's


def model_of(maniple, directory, *settings):
    """The model of a run of the deck, as libmujoco has it."""
    maniple("rollout", deck_of(NAME), "simulation.steps=0", "batch.num_envs=1", f"output.directory={directory}", *settings)
    with Run(directory / "results.h5") as run:
        return run.model


def shares_of(model, row, column):
    """Heights of the bowl in a cell, [along y][along x], as shares of the largest of the terrain."""
    shares = model.hfield_data.reshape(model.hfield_nrow[0], model.hfield_ncol[0])
    x, y = row * CELL + BORDER, column * CELL + BORDER
    return shares[y:y + POINTS, x:x + POINTS]


class Physics(quadruped.Physics):
    contexts = None  # without a screen, to which the original shows its terrain


class EscapeTask(ControlTask):
    """The original with bowls of a model of the deck in place of its own."""

    settings = ONE
    angles = []

    def __init__(self, model):
        self.ours = model
        text = quadruped.make_model(floor_size=40, terrain=True, rangefinders=True).decode()
        highest, base, height = map(float, [*model.hfield_size[0, 2:], model.geom("terrain").pos[2]])
        assert text.count('size="30 30 5 .1"') == 1 and text.count('pos="0 0 -.01"') == 1
        text = text.replace('size="30 30 5 .1"', f'size="30 30 {highest!r} {base!r}"').replace(
            'pos="0 0 -.01"', f'pos="0 0 {height!r}"')
        physics = Physics.from_xml_string(text, common.ASSETS)
        self.task = quadruped.Escape(random=0)
        self.environment = control.Environment(physics, self.task, time_limit=20, control_timestep=0.02)
        self.max_steps = self.environment._step_limit
        self.physics, self.model, self.data = physics, physics.model.ptr, physics.data.ptr
        self.model.opt.tolerance = 1e-15  # at its own MuJoCo ends Newton's method before it has converged
        self.lay(0, 0)

    def lay(self, row, column):
        self.model.hfield_data[:] = shares_of(self.ours, row, column).ravel()

    def reset(self, seed=None):
        """Turned at random on a random place of the bowl, as low as nothing touches."""
        super().reset(seed)
        self.lay(0, 0)
        orientation, azimuth = self.task.random.randn(4), self.task.random.uniform(0, 2 * np.pi)
        radius = 25 * np.sqrt(self.task.random.uniform())
        quadruped._find_non_contacting_height(self.physics, orientation / np.linalg.norm(orientation),
                                              radius * np.cos(azimuth), radius * np.sin(azimuth))


def test_bowls_are_those_of_the_original(maniple, tmp_path):
    model = model_of(maniple, tmp_path / "run", "terrain.num_rows=2", "terrain.num_cols=3")
    assert (model.hfield_nrow[0], model.hfield_ncol[0]) == (3 * CELL + 1, 2 * CELL + 1)
    np.testing.assert_allclose(model.hfield_size[0, :2], [SIZE, 1.5 * SIZE])
    np.testing.assert_allclose(model.hfield_size[0, 3], 0.1)
    lowest = model.geom("terrain").pos[2] + 0.01  # above the floor, less what the original lies lower
    heights = model.hfield_data.reshape(3 * CELL + 1, -1) * model.hfield_size[0, 2] + lowest
    task = quadruped.Escape()
    physics = Physics.from_xml_string(quadruped.make_model(floor_size=40, terrain=True, rangefinders=True), common.ASSETS)
    rest = np.ones_like(heights, bool)
    for row in range(2):
        for column in range(3):
            place = np.arange(1, 901, dtype=np.uint64)  # the first draw of a cell is its difficulty's
            zero = np.zeros_like(place)
            words = np.stack(philox([zero + np.uint64(row * 3 + column), zero, zero, place // np.uint64(4)], [SEED, TERRAIN]))
            noise = (words[(place % np.uint64(4)).astype(int), np.arange(900)] >> np.uint64(8)) / 2.0**24

            class Noise(np.random.RandomState):
                def uniform(self, low, high, shape):
                    assert shape == (30, 30)
                    return low + (high - low) * noise.reshape(shape)

            task._random = Noise(1)
            task.initialize_episode(physics)
            theirs = 5 * physics.model.hfield_data.reshape(POINTS, POINTS)
            x, y = row * CELL + BORDER, column * CELL + BORDER
            np.testing.assert_allclose(heights[y:y + POINTS, x:x + POINTS], theirs, atol=2e-6)
            assert theirs.max() > 3 and noise.min() < 0.01 and noise.max() > 0.99
            rest[y:y + POINTS, x:x + POINTS] = False
    np.testing.assert_allclose(heights[rest], 0, atol=1e-6)


def test_steps_are_those_of_the_original(maniple, tmp_path):
    original = EscapeTask(model_of(maniple, tmp_path / "model", *ONE))
    states, actions = collect(original, seed=1)
    write_given(tmp_path / "given.h5", states, actions)
    fields = ["observation", "final_observation", "reward", "terminated", "truncated", "action"]
    ours = rollout_of(maniple, NAME, original, tmp_path, states, WINDOW, fields)
    size = ours["observation"].shape[2]
    assert size == 44 + 3 + 1 + 6 + 24 + 3 + 20
    seen = np.zeros((len(states), 0))
    terrain, touched = original.model.geom("terrain").id, 0

    def answers(states, windows):
        return replay(original, states, actions[windows], seen[windows], size)

    for state in states:
        original.put(state)
        touched += np.any(original.data.contact.geom == terrain)
    assert touched > len(states) / 3
    observations, rewards, ends = answers(states, np.arange(len(states)))
    assert np.ptp(rewards) > 0.2 and np.ptp(observations[..., -20:]) > 0.5
    assert_close({"observation": (ours["final_observation"], observations), "reward": (ours["reward"][:, 1:], rewards)},
                 lambda windows, seed: answers(rounded_otherwise([states[window] for window in windows], seed), windows))
    np.testing.assert_array_equal(ours["terminated"][:, 1:], ends)
    assert not ours["truncated"].any()


def test_episodes_begin_as_those_of_the_original(maniple, tmp_path):
    """Turned as ours, the original's robot is put as high on each of the 16 bowls, and observes the same."""
    original = EscapeTask(model_of(maniple, tmp_path / "model"))
    maniple("rollout", deck_of(NAME), "simulation.precision=double", "batch.num_envs=160", "simulation.steps=2",
            "task.episode_steps=1", "control.source=zero", "initial_state.source=task", "output.trajectory.every=1",
            "output.trajectory.fields=[qpos,qvel,observation,variables/place]", f"output.directory={tmp_path}/run",
            'task.variables.place.reset="terrain_origin"', ranks=2)
    with h5py.File(tmp_path / "run/results.h5") as file:
        qpos, qvel, seen, place = (file[f"trajectory/{name}"][()] for name in ("qpos", "qvel", "observation", "variables/place"))
    np.testing.assert_array_equal(qvel, 0)
    np.testing.assert_array_equal(qpos[..., :2], place[..., :2])
    cells = place[..., :2] / SIZE + 1.5
    np.testing.assert_allclose(cells, np.round(cells), atol=1e-9)
    cells = np.round(cells).astype(int)
    for episode in range(3):
        drawn = {tuple(cell) for cell in cells[:, episode]}
        assert drawn == {(row, column) for row in range(4) for column in range(4)}
    moved = np.any(cells[:, 0] != cells[:, 1], axis=1)
    assert 0.8 < moved.mean() < 1  # 15 of 16
    pairs = []
    for env in range(len(qpos)):
        for episode in (0, 2):
            state = qpos[env, episode].copy()
            original.lay(*cells[env, episode])
            quadruped._find_non_contacting_height(original.physics, state[3:7])
            assert abs(original.data.qpos[2] - state[2]) < 1e-9
            assert original.data.ncon == 0
            state[:2] = 0
            pairs.append((seen[env, episode], original.put({"qpos": state, "qvel": qvel[env, episode]})))
    ours, theirs = np.array(pairs).transpose(1, 0, 2)
    scale = np.maximum(1, np.abs(theirs).max(axis=0))
    assert (np.abs(ours - theirs) / scale).max() < TOLERANCE
    # the bumps count: most begin higher than above the floor alone
    physics = Physics.from_xml_string(quadruped.make_model(floor_size=40), common.ASSETS)
    raised = []
    for state in qpos[:40, 0]:
        quadruped._find_non_contacting_height(physics, state[3:7])
        raised.append(state[2] - physics.data.qpos[2])
    assert min(raised) > -1e-9 and np.mean(np.array(raised) > 0.005) > 0.5


@pytest.mark.parametrize("settings, words", [
    (["terrain.sub_terrains.bowl.terrain_bump_scale=31"], ["terrain_bump_scale", "found 31", "at most 30"]),
    (["terrain.sub_terrains.bowl.terrain_bump_scale=1e-9"], ["terrain_bump_scale", "found 1e-9|found 1e-09", "at least terrain.horizontal_scale"]),
    (["terrain.sub_terrains.bowl.bowl_height_range=~"], ["without bowl_height_range"]),
    (["terrain.sub_terrains.bowl.step_width=1"], ["bowl does not take", "terrain_smoothness"]),
    (["terrain.geom=hills"], ["no plane 'hills'", "no height field", "floor, terrain"]),
    (["task.curricula.levels={term: terrain_levels_vel, bodies: [torso], command: aim}", 'task.commands.aim={expression: "[1, 0, 0]"}'],
     ["curriculum of levels with terrain.randomize"]),
    (["task.reset_until=~"], ["task.reset_raise", "without task.reset_until"]),
    (["task.reset_raise=-1"], ["task.reset_raise", "0 to 1000"]),
])
def test_refusals(maniple, settings, words):
    message = maniple("validate", deck_of(NAME), *settings, exit_code=2).stderr
    for word in words:
        assert any(part in message for part in word.split("|")), message
