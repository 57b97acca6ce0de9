"""A keyframe is a state: all that mj_resetDataKeyframe sets comes back at every reset, and controls that no action
sets stay at it. Steps and resets against MuJoCo's own."""
# ctest: PROCESSORS 1

import re

import h5py
import mujoco
import numpy as np
import pytest

MODEL = """<mujoco>
  <option timestep="0.01" integrator="implicitfast"/>
  <worldbody>
    <body name="base"><joint name="rail" type="slide" axis="1 0 0" damping="1"/><geom size="0.1" mass="2"/>
      <body name="arm"><joint name="lift" axis="0 1 0" damping="0.2"/><geom type="capsule" fromto="0 0 0 0 0 -.4" size=".03"/>
        <body name="hand" pos="0 0 -.4"><joint name="wrist" axis="0 1 0" damping="0.1"/>
          <geom type="capsule" fromto="0 0 0 0 0 -.2" size=".02"/></body></body></body>
    <body name="ball" pos="0 3 0"><freejoint name="root"/><geom size="0.1" mass="1" contype="0" conaffinity="0"/></body>
  </worldbody>
  <actuator>
    <motor name="push" joint="rail"/>
    <position name="hold" joint="lift" kp="20"/>
    <general name="lag" joint="wrist" dyntype="filter" dynprm="0.2" gainprm="3" biastype="affine" biasprm="0 -3 0"/>
  </actuator>
  <keyframe>
    <key name="rest" qpos="0 0 0  0 3 0 1 0 0 0"/>
    <key name="busy" time="2.5" qpos="0.3 0.5 -0.4  0 3 1 0.6 0 0.8 0" qvel="0.2 -0.1 0.3  1 2 3 0.1 0.2 0.3" act="0.7"
         ctrl="0.4 0.6 -0.5"/>
  </keyframe>
</mujoco>
"""
DECK = """model: {file: model.xml}
batch: {num_envs: 3}
simulation: {precision: double, steps: 12, decimation: 2}
initial_state: {source: task}
task:
  keyframe: busy
  episode_steps: 5
  actions: [{term: joint_effort, joints: [rail], scale: 2}]
  observations: [{term: joint_vel_rel}]
  terminations: {time_out: {term: time_out}}
output: {trajectory: {every: 1, fields: [time, qpos, qvel, act, ctrl, observation]}}
"""
FIELDS = ["time", "qpos", "qvel", "act", "ctrl"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "model.xml").write_text(MODEL)
    (tmp_path / "deck.yaml").write_text(DECK)
    with h5py.File(tmp_path / "actions.h5", "w") as file:
        file["action"] = np.random.default_rng(1).uniform(-1, 1, (1, 12, 1))
    return tmp_path


def keyframe(folder, name="busy"):
    model = mujoco.MjModel.from_xml_path(str(folder / "model.xml"))
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, model.key(name).id)
    return model, data


def check(folder, sample, data):
    with h5py.File(folder / "run/results.h5") as file:
        for field in FIELDS:
            for env in range(file[f"trajectory/{field}"].shape[0]):
                np.testing.assert_allclose(file[f"trajectory/{field}"][env, sample], np.atleast_1d(getattr(data, field)),
                                           rtol=0, atol=1e-11, err_msg=f"{field} of sample {sample}")


@pytest.mark.parametrize("settle", [0, 7])
def test_every_reset_restores_all_of_it(maniple, folder, settle):
    maniple("rollout", folder / "deck.yaml", "control.source=file", f"control.file={folder}/actions.h5",
            f"task.settle_steps={settle}", f"output.directory={folder}/run")
    model, data = keyframe(folder)

    def settled():
        mujoco.mj_resetDataKeyframe(model, data, model.key("busy").id)
        mujoco.mj_step(model, data, settle)
        data.time = 2.5
        data.qacc_warmstart[:] = 0

    settled()
    check(folder, 0, data)
    with h5py.File(folder / "actions.h5") as file:
        actions = file["action"][0, :, 0]
    for step, action in enumerate(actions, 1):
        data.ctrl[0] = 2 * action
        mujoco.mj_step(model, data, 2)
        if step % 5 == 0:
            settled()
        check(folder, step, data)
    with h5py.File(folder / "run/results.h5") as file:
        assert settle or np.all(file["trajectory/observation"][:, [0, 5, 10]] == 0)  # default velocities
        assert re.search(r"actuators without an action \(2\), controls of task.keyframe busy\n +hold +holds 0\.6\n +lag +holds -0\.5",
                         file["run/task_table"].asstr()[()])


def test_first_episodes_that_no_reset_begins(maniple, folder):
    maniple("rollout", folder / "deck.yaml", "initial_state.source=default", "simulation.steps=2", f"output.directory={folder}/run")
    model, data = keyframe(folder)
    check(folder, 0, data)
    data.ctrl[0] = 0
    mujoco.mj_step(model, data, 4)
    check(folder, 2, data)


def test_drawn_velocities_are_added_to_its_own(maniple, folder):
    maniple("rollout", folder / "deck.yaml", "simulation.steps=0", f"output.directory={folder}/run",
            "task.resets=[{term: reset_joints_by_offset, joints: [rail, lift], position_range: [0, 0], velocity_range: [0.5, 0.5]},"
            " {term: reset_joints_by_scale, joints: [wrist], position_range: [1, 1], velocity_range: [2, 2]},"
            " {term: reset_root_state_uniform, yaw: [0.3, 0.3], vx: [0.1, 0.1], wz: [0.4, 0.4]}]")
    model, data = keyframe(folder)
    start, world = data.qpos[6:10].copy(), np.zeros(3)
    mujoco.mju_rotVecQuat(world, data.qvel[6:], start)
    turn = np.zeros(4)
    mujoco.mju_mulQuat(turn, start, [np.cos(0.15), 0, 0, np.sin(0.15)])
    back = np.zeros(4)
    mujoco.mju_negQuat(back, turn)
    rates = np.zeros(3)
    mujoco.mju_rotVecQuat(rates, world + [0, 0, 0.4], back)
    with h5py.File(folder / "run/results.h5") as file:
        qvel = file["trajectory/qvel"][0, 0]
    np.testing.assert_allclose(qvel, [0.7, 0.4, 0.6, 1.1, 2, 3, *rates], atol=1e-12)


@pytest.mark.parametrize("source", ["", "keyframe", "zero"])
def test_rollouts_without_a_task_keep_its_controls(maniple, folder, source):
    maniple("rollout", f"model.file={folder}/model.xml", "initial_state.source=keyframe", "initial_state.keyframe=busy",
            *([f"control.source={source}"] if source else []), "batch.num_envs=2", "simulation.precision=double",
            "simulation.steps=6", "output.trajectory.every=3", f"output.trajectory.fields=[{','.join(FIELDS)}]",
            f"output.directory={folder}/run")
    model, data = keyframe(folder)
    check(folder, 0, data)
    if source == "zero":
        data.ctrl[:] = 0
    for sample in (1, 2):
        mujoco.mj_step(model, data, 3)
        check(folder, sample, data)


def test_what_validate_says(maniple, folder):
    text = maniple("validate", folder / "deck.yaml", ranks=0).stdout
    assert re.search(r"actuators without an action \(2\), controls of task.keyframe busy\n +hold +holds 0\.6\n", text), text
    result = maniple("validate", folder / "deck.yaml", "control.source=keyframe", ranks=0, exit_code=2)
    assert "control.source: found 'keyframe' with a task, whose actions set the controls" in result.stderr
    result = maniple("validate", f"model.file={folder}/model.xml", "control.source=keyframe", "initial_state.keyframe=idle",
                     ranks=0, exit_code=2)
    assert 'initial_state.keyframe: no keyframe "idle"; an index below 2 or one of rest busy' in result.stderr


def test_joints_beyond_their_ranges_are_named(maniple, folder):
    """Degrees in place of radians; a model that is within its ranges has no warning."""
    text = MODEL.replace('name="lift"', 'name="lift" range="-90 90"').replace('name="wrist"', 'name="wrist" range="-30 30"')
    (folder / "model.xml").write_text(text)
    assert "beyond the ranges" not in maniple("validate", folder / "deck.yaml").stdout
    (folder / "model.xml").write_text(text.replace("0.3 0.5 -0.4", "0.3 45 -0.4"))
    said = maniple("validate", folder / "deck.yaml").stdout
    assert "warning: the keyframe busy is beyond the ranges of 1 joint (in radians or metres): lift at 45, range [-1.571, 1.571]" in said
    assert "beyond the ranges" not in maniple("validate", folder / "deck.yaml", "task.keyframe=rest").stdout
