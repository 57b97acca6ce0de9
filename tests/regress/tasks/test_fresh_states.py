"""The states with which episodes begin after their reset terms: physics steps for settling, and conditions until which
states are drawn again; against MuJoCo's own steps and contacts, beside environments whose episodes go on."""
# ctest: PROCESSORS 1

import h5py
import mujoco
import numpy as np
import pytest

MODEL = """
<mujoco model="ball">
  <option timestep="0.005"/>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 1"/>
    <body name="ball">
      <joint name="x" type="slide" axis="1 0 0"/>
      <joint name="z" type="slide" axis="0 0 1"/>
      <geom name="ball" type="sphere" size="0.1" mass="1"/>
    </body>
  </worldbody>
  <actuator><motor name="push" joint="x"/></actuator>
</mujoco>
"""
DECK = """
model: {file: ball.xml}
simulation: {decimation: 2, precision: double}
task:
  name: ball
  actions: [{term: actuator_control, actuators: [push]}]
  observations: [{expression: "[qpos, qvel, prev(qpos[z]), time]"}]
  rewards: {none: {expression: "0", weight: 1}}
  terminations: {late: {expression: "time > 0.1 + 0.3 * abs(qpos[x])"}}   # s; at different times
  resets:
    - {set: "qpos[x]", expression: "uniform(-0.9, 0.9)"}
    - {set: "qpos[z]", expression: "uniform(-0.1, 0.6)"}
    - {set: "qvel[x]", expression: "uniform(-2, 2)"}
"""
ENVS, STEPS = 45, 60


@pytest.fixture
def run(maniple, tmp_path):
    (tmp_path / "ball.xml").write_text(MODEL)
    (tmp_path / "ball.yaml").write_text(DECK)

    def run(name, *keys, ranks=1):
        result = maniple("rollout", tmp_path / "ball.yaml", f"batch.num_envs={ENVS}", f"simulation.steps={STEPS}",
                         "control.source=random", "initial_state.source=task", "output.trajectory.every=1",
                         "output.trajectory.fields=[qpos,qvel,ctrl,observation,final_observation,terminated]",
                         f"output.directory={tmp_path / name}", *keys, ranks=ranks)
        with h5py.File(tmp_path / name / "results.h5") as file:
            return {field: values[()] for field, values in file["trajectory"].items()}, result.stdout + result.stderr

    run.model = mujoco.MjModel.from_xml_string(MODEL)
    return run


def state_after(model, qpos, qvel, steps, ctrl=0):
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:], data.ctrl[:] = qpos, qvel, ctrl
    mujoco.mj_step(model, data, steps)
    return np.concatenate([data.qpos, data.qvel])


def test_a_fresh_state_settles(run):
    drawn, _ = run("drawn", "simulation.steps=0")
    settled, _ = run("settled", "task.settle_steps=200")
    on_two, _ = run("on_two", "task.settle_steps=200", ranks=2)
    for field, values in settled.items():
        np.testing.assert_array_equal(values, on_two[field], err_msg=field)
    for env in range(ENVS):
        expected = state_after(run.model, drawn["qpos"][env, 0], drawn["qvel"][env, 0], 200)
        np.testing.assert_allclose(settled["observation"][env, 0, :4], expected, atol=1e-9)
    # it lies on the ground, and its clock stands at 0
    assert np.all(np.abs(settled["qpos"][:, 0, 1] - 0.1) < 0.01) and not settled["observation"][:, 0, 5].any()
    # others go on meanwhile, one control step after the other
    ended = settled["terminated"][:, 1:, 0] > 0
    assert 0.02 < ended.mean() < 0.5
    for env, step in zip(*np.nonzero(~ended)):
        expected = state_after(run.model, settled["qpos"][env, step], settled["qvel"][env, step], 2,
                               settled["ctrl"][env, step + 1])
        np.testing.assert_allclose(settled["final_observation"][env, step + 1, :4], expected, atol=1e-6)
        np.testing.assert_array_equal(settled["observation"][env, step + 1, 4], settled["qpos"][env, step, 1])
    # and what begins then has settled, too
    fresh = settled["observation"][:, 1:][ended]
    assert np.all(np.abs(fresh[:, 1] - 0.1) < 0.01) and not fresh[:, 5].any()
    np.testing.assert_array_equal(fresh[:, 4], fresh[:, 1])


def test_a_fresh_state_is_drawn_until_it_is_accepted(run):
    drawn, _ = run("drawn")
    accepted, output = run("accepted", "task.reset_until=ncon == 0")
    on_three, _ = run("on_three", "task.reset_until=ncon == 0", ranks=3)
    for field, values in accepted.items():
        np.testing.assert_array_equal(values, on_three[field], err_msg=field)
    first = drawn["qpos"][:, 0]
    free = first[:, 1] > 0.1  # above the ground
    assert 0.4 < free.mean() < 0.9
    np.testing.assert_array_equal(accepted["qpos"][free, 0], first[free])
    assert np.all(accepted["qpos"][~free, 0, 1] > 0.1) and np.all(accepted["qpos"][~free, 0] != first[~free])
    ended = accepted["terminated"][..., 0] > 0
    assert ended.any() and np.all(accepted["qpos"][ended][:, 1] > 0.1)
    assert "reset_until" not in output


def test_conditions_that_nothing_meets_are_counted(run):
    _, output = run("never", "task.reset_until=ncon > 7", "simulation.steps=0", "batch.num_envs=3")
    assert "3 episodes began with a state that task.reset_until refuses" in output, output


@pytest.mark.parametrize("condition, found", [("ncon == ", "task.reset_until"), ("qpos > 0", "a vector of 2"),
                                              ("uniform(0, 1) > 0.5", "random numbers"), ("conn == 0", "did you mean 'ncon'")])
def test_conditions_that_are_none(maniple, run, tmp_path, condition, found):
    result = maniple("validate", tmp_path / "ball.yaml", f"task.reset_until={condition}", exit_code=2)
    assert "task.reset_until" in result.stderr and found in result.stderr, result.stderr
