"""A task that nobody compiled in: a pendulum swing-up, model and deck written here, runs with the program as built,
and its rewards are those that its expressions say."""

import re

import h5py
import numpy as np
import pytest

MODEL = """
<mujoco model="pendulum">
  <option timestep="0.01"><flag contact="disable"/></option>
  <worldbody>
    <body name="rod" pos="0 0 1">
      <joint name="hinge" type="hinge" axis="0 1 0" damping="0.1"/>
      <geom name="bob" type="capsule" fromto="0 0 0 0 0 -0.6" size="0.04" mass="1"/>
      <site name="tip" pos="0 0 -0.6"/>
    </body>
  </worldbody>
  <actuator><motor name="torque" joint="hinge" ctrlrange="-2 2" ctrllimited="true"/></actuator>
</mujoco>
"""

DECK = """
model:
  file: pendulum.xml
batch:
  num_envs: 512
simulation:
  decimation: 2
task:
  name: Pendulum swing-up
  episode_length: 2
  definitions:
    height: "-cos(qpos[hinge])"
  actions:
    - term: joint_effort
      joints: [hinge]
      scale: 2
  observations:
    - expression: "sin(qpos[hinge])"
    - expression: "cos(qpos[hinge])"
    - expression: "0.1 * qvel[hinge]"
  rewards:
    upright:
      expression: "height"
      weight: 1
    effort:
      expression: "sum(action^2)"
      weight: -0.01
  terminations:
    time_out:
      term: time_out
    too_fast:
      expression: "abs(qvel[hinge]) > 40"
  resets:
    - set: qpos[hinge]
      expression: "uniform(-0.3, 0.3)"
    - set: qvel[hinge]
      expression: "uniform(-0.1, 0.1)"
policy:
  hidden: [32, 32]
  fixed_std: false
  shared: false
learning:
  iterations: 30
  horizon: 24
  epochs: 4
  minibatches: 4
  learning_rate: 1e-3
  desired_kl: 0.01
  value_coef: 1
  normalize_advantage: true
"""


@pytest.fixture
def deck(tmp_path):
    (tmp_path / "pendulum.xml").write_text(MODEL)
    (tmp_path / "swing_up.yaml").write_text(DECK)
    return tmp_path / "swing_up.yaml"


def test_trains_without_a_rebuild(maniple, deck, tmp_path):
    before = maniple.program.stat().st_mtime_ns
    maniple("validate", deck)
    maniple("train", deck, f"output.directory={tmp_path / 'run'}", ranks=2)
    assert maniple.program.stat().st_mtime_ns == before
    with h5py.File(tmp_path / "run/results.h5") as file:
        returns = file["metrics/episode_return"][()]
        names = list(file["metrics"])
    assert any("upright" in name for name in names) and any("effort" in name for name in names)
    finite = returns[np.isfinite(returns) & (returns != 0)]
    assert finite[-5:].mean() > finite[:5].mean() + 0.1, finite


def test_rewards_are_what_the_expressions_say(maniple, deck, tmp_path):
    run, rollout = tmp_path / "run", tmp_path / "rollout"
    maniple("train", deck, "learning.iterations=2", f"output.directory={run}")
    maniple("rollout", deck, "batch.num_envs=33", "simulation.steps=30", "simulation.precision=double",
            "control.source=policy", f"control.checkpoint={run}", "initial_state.source=task",
            "learning.iterations=2", "output.trajectory.every=1",
            "output.trajectory.fields=[qpos, qvel, action, observation, reward]", f"output.directory={rollout}", ranks=2)
    with h5py.File(rollout / "results.h5") as file:
        t = {k: v[()] for k, v in file["trajectory"].items()}
    dt = 0.02
    angle, action = t["qpos"][:, 1:, 0], t["action"][:, 1:, 0]
    expected = dt * (-np.cos(angle) - 0.01 * action**2)
    np.testing.assert_allclose(t["reward"][:, 1:, 0], expected, atol=2e-6)
    angle, speed = t["qpos"][..., 0], t["qvel"][..., 0]
    observation = np.stack([np.sin(angle), np.cos(angle), 0.1 * speed], -1)
    np.testing.assert_allclose(t["observation"], observation, atol=2e-6)
    assert np.all(np.abs(t["qpos"][:, 0, 0]) <= 0.3) and np.ptp(t["qpos"][:, 0, 0]) > 0.3


def test_a_misspelt_name_shows_a_caret(maniple, deck, tmp_path):
    deck.write_text(deck.read_text().replace('"-cos(qpos[hinge])"', '"-cos(qpso[hinge])"'))
    result = maniple("validate", deck, exit_code=2)
    message = result.stdout + result.stderr
    assert "swing_up.yaml:" in message and "qpos" in message
    lines = message.splitlines()
    caret = next(i for i, line in enumerate(lines) if re.fullmatch(r"\s*\^\s*", line))
    assert lines[caret - 1][lines[caret].index("^"):].startswith("qpso")
