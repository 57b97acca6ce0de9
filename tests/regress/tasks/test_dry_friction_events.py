"""Events on the dry friction of one joint: other joints have no rows for it, as in MuJoCo, so that solvers which stop early
stop where MuJoCo's do."""
# ctest: PROCESSORS 1

import mujoco
import numpy as np
import pytest

from maniple.results import Run

MODEL = """<mujoco>
  <option timestep="0.004" {option} density="1.2" viscosity="0.1"/>
  <worldbody>
    <geom type="plane" size="5 5 1"/>
    <body name="box" pos="0 0 0.195"><freejoint/><geom type="box" size=".1 .1 .1" mass="1"/>
      <body pos="0.1 0 0.1"><joint name="arm" axis="0 1 0" frictionloss="0.3"/><geom type="capsule" size=".03 .1" pos=".1 0 0" mass=".3"/></body>
      <body pos="-0.1 0 -0.15"><joint name="leg" axis="0 1 0"/><geom size=".05" mass=".3" pos="-.1 0 0"/></body>
    </body>
    <body name="falling" pos="3 0 5"><freejoint/><geom type="box" size=".2 .1 .1" mass=".2"/></body>
  </worldbody>
  <actuator><motor joint="arm"/></actuator>
</mujoco>
"""
DECK = """model: {file: model.xml}
batch: {num_envs: 6}
simulation: {precision: double, steps: 30}
initial_state: {source: task}
control: {source: random}
task:
  episode_steps: 100
  actions: [{term: actuator_control, actuators: [".*"]}]
  observations: [{expression: "qvel"}]
  rewards: {alive: {expression: "1"}}
  terminations: {time_out: {term: time_out}}
  resets: [{set: "qvel", expression: "qvel + normal(0, 0.4, 14)"}]
  events: {friction: {field: dof_frictionloss, joints: [arm], mode: startup, operation: scale, ranges: [0.5, 2]}}
  variables: {loss: {reset: "dof_frictionloss[arm]", update: "prev(loss)"}}
"""


@pytest.mark.parametrize("option", ['solver="PGS" iterations="5" tolerance="0"', 'solver="CG" iterations="4" tolerance="1e-3"'],
                         ids=["PGS", "CG"])
def test_joints_without_friction_have_no_rows(maniple, tmp_path, option):
    (tmp_path / "model.xml").write_text(MODEL.format(option=option))
    (tmp_path / "deck.yaml").write_text(DECK)
    out = tmp_path / "run"
    maniple("rollout", tmp_path / "deck.yaml", f"output.directory={out}", "output.trajectory.every=1",
            "output.trajectory.fields=[qpos, qvel, ctrl, qacc, nefc, qacc_warmstart, variables/loss]", ranks=0)
    rows = {name: np.asarray(values) for name, values in Run(out).trajectories.items()}
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "model.xml"))
    dof, touched = model.joint("arm").dofadr[0], 0
    for env in range(6):
        model.dof_frictionloss[dof] = rows["variables/loss"][env, 1, 0]
        for step in range(30):
            data = mujoco.MjData(model)
            for name in ("qpos", "qvel", "qacc_warmstart"):
                getattr(data, name)[:] = rows[name][env, step]
            data.ctrl[:] = rows["ctrl"][env, step + 1]
            mujoco.mj_forward(model, data)
            touched += data.ncon > 0
            assert rows["nefc"][env, step + 1, 0] == data.nefc
            np.testing.assert_allclose(rows["qacc"][env, step + 1], data.qacc, rtol=1e-9, atol=1e-9, err_msg=f"{env}, {step}")
    assert 60 < touched
    assert len(np.unique(rows["variables/loss"][:, 1])) == 6
