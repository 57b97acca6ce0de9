"""Decks and steps of batches of environments, for the tests of maniple.make_vec()."""

import numpy as np
import pytest
from conftest import ROOT, Maniple

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
CURRICULA = {"task.curricula": {"level": {"reset": "0.5", "update": "level + 1"}, "fixed": {"reset": "2"}},
             "task.critic_observations": [{"expression": "[level, fixed]"}],
             "task.resets": [{"term": "reset_joints_by_offset", "position_range": [0, "level"], "velocity_range": [0, 0]}],
             "task.episode_steps": 3}


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


@pytest.fixture
def maniple_program():
    """conftest's `maniple`, where that is the package."""
    return Maniple()
