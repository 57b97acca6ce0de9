"""Mocap bodies and equality constraints that a task sets: poses drawn at resets, a weld that an event lets go, and the
states of keyframes, against libmujoco from the states that were recorded."""
# ctest: PROCESSORS 1 COST 5

import re

import h5py
import mujoco
import numpy as np
import pytest

from maniple.results import Run

MODEL = """<mujoco>
  <option timestep="0.002" tolerance="1e-14"/>
  <worldbody>
    <body name="target" mocap="true" pos="0 0 1"><geom size=".02" contype="0" conaffinity="0"/></body>
    <body name="ball" pos="0 0 1"><freejoint/><geom size=".05" mass=".3"/></body>
    <body name="arm" pos="1 0 1"><joint name="hinge" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 .3 0 0" size=".02"/></body>
  </worldbody>
  <equality>
    <weld name="grasp" body1="ball" body2="target" solref=".01 1"/>
    <connect name="rope" body1="arm" body2="ball" anchor=".3 0 0" active="false"/>
  </equality>
  <actuator><motor joint="hinge"/></actuator>
  <keyframe><key name="far" mpos="0 .2 1.1" mquat=".8 .6 0 0" qpos="0 .2 1.1 .8 .6 0 0 .1"/></keyframe>
</mujoco>
"""
TASK = """model: {file: robot.xml}
simulation: {decimation: 5, precision: double}
task:
  actions: [{term: joint_effort, joints: [hinge]}]
  observations: [{expression: "qpos"}]
  rewards: {alive: {expression: "1"}}
  resets:
    - {set: "mocap_pos[target]", expression: "[uniform(-0.1, 0.1), 0, 1]"}
  events:
    let_go: {set: "eq_active[grasp]", expression: "0", mode: interval, every: [0.2, 0.4]}
"""


@pytest.fixture
def deck(tmp_path):
    (tmp_path / "robot.xml").write_text(MODEL)
    (tmp_path / "task.yaml").write_text(TASK)
    return tmp_path / "task.yaml"


def recorded(maniple, deck, *keys):
    out = deck.parent / "run"
    maniple("rollout", str(deck), "batch.num_envs=40", "simulation.steps=60", "output.trajectory.every=1",
            "output.trajectory.fields=[qpos, qvel, mocap_pos, mocap_quat, eq_active, qacc_warmstart]", *keys,
            f"output.directory={out}", ranks=0)
    return {name: np.asarray(rows) for name, rows in Run(out).trajectories.items()}


def assert_mujoco_steps(deck, rows):
    """Control steps of some environments are those of MuJoCo from the same states."""
    model = mujoco.MjModel.from_xml_path(str(deck.parent / "robot.xml"))
    data = mujoco.MjData(model)
    for env in range(0, 40, 7):
        for step in range(0, 59, 5):
            for name in ("qpos", "qvel", "qacc_warmstart"):
                getattr(data, name)[:] = rows[name][env, step]
            data.mocap_pos[0] = rows["mocap_pos"][env, step]
            data.mocap_quat[0] = rows["mocap_quat"][env, step]
            data.eq_active[:] = rows["eq_active"][env, step]
            mujoco.mj_step(model, data, 5)
            np.testing.assert_allclose(rows["qpos"][env, step + 1], data.qpos, atol=1e-10)


def test_a_task_sets_them(maniple, deck):
    rows = recorded(maniple, deck, "initial_state.source=task")
    x = rows["mocap_pos"][:, 0, 0]
    assert x.min() > -0.1 and x.max() < 0.1 and x.std() > 0.03
    np.testing.assert_array_equal(rows["mocap_pos"][:, :, 0], np.repeat(x[:, None], rows["mocap_pos"].shape[1], 1))
    held = rows["eq_active"][:, :, 0]
    assert held[:, 0].all() and not held[:, -1].any() and not rows["eq_active"][:, :, 1].any()
    assert len(set(held.sum(1))) > 5                    # each environment lets go at a time of its own
    # while it holds the ball follows the marker, then it falls
    for env in range(40):
        let_go = int(held[env].sum())
        assert abs(rows["qpos"][env, let_go - 1, 2] - 1) < 0.02 and rows["qpos"][env, -1, 2] < 0.9

    assert_mujoco_steps(deck, rows)


def test_others_touch_them_where_they_are(maniple, deck, tmp_path):
    """In every environment and from a file, too: a ball rolls off a large one that is held elsewhere in each of them."""
    large = MODEL.replace('size=".02" contype="0" conaffinity="0"', 'size=".3"')
    (tmp_path / "robot.xml").write_text(large.replace('name="grasp"', 'name="grasp" active="false"'))
    deck.write_text(TASK.replace("uniform(-0.1, 0.1), 0, 1]", "uniform(-0.2, 0.2), uniform(-0.2, 0.2), 0.66]")
                    .replace("every: [0.2, 0.4]", "every: 1"))
    rows = recorded(maniple, deck, "initial_state.source=task")
    assert (rows["qpos"][:, -1, 2] > 0.5).any() and np.ptp(rows["qpos"][:, -1, 2]) > 0.1
    assert_mujoco_steps(deck, rows)
    with h5py.File(tmp_path / "states.h5", "w") as file:
        for name in ("qpos", "qvel", "mocap_pos", "mocap_quat"):
            file[name] = rows[name][:, 0]
    again = recorded(maniple, deck, "initial_state.source=file", f"initial_state.file={tmp_path}/states.h5", "output.overwrite=true")
    for name in ("qpos", "mocap_pos", "mocap_quat"):
        np.testing.assert_array_equal(again[name], rows[name])


def test_a_keyframe_has_them(maniple, deck):
    rows = recorded(maniple, deck, "initial_state.source=keyframe", "initial_state.keyframe=far")
    np.testing.assert_array_equal(rows["mocap_pos"][:, 0], np.tile([0, 0.2, 1.1], (40, 1)))
    np.testing.assert_array_equal(rows["mocap_quat"][:, 0], np.tile([0.8, 0.6, 0, 0], (40, 1)))
    rows = recorded(maniple, deck, "initial_state.source=task", "task.keyframe=far", "task.resets=[]",
                    "output.overwrite=true")
    np.testing.assert_array_equal(rows["mocap_pos"][:, 0], np.tile([0, 0.2, 1.1], (40, 1)))


@pytest.mark.parametrize("target, allowed", [("ctrl[0]", "mocap_pos, mocap_quat, eq_active, xfrc_applied or qfrc_applied"), ("mocap_pos[goal]", "target"),
                                             ("eq_active[hold]", "grasp")])
def test_others_are_refused(maniple, deck, target, allowed):
    deck.write_text(TASK.replace('mocap_pos[target]", expression: "[uniform(-0.1, 0.1), 0, 1]"', f'{target}", expression: "1"'))
    said = maniple("validate", str(deck), ranks=0, exit_code=2).stderr
    assert allowed in said


ASSIGNED = """model: {file: robot.xml}
simulation: {decimation: 5, precision: double}
task:
  variables:
    ball: {reset: "xpos[ball]", update: "xpos[ball]"}
  actions:
    - {components: [x, y, z, let_go]}
    - {set: "mocap_pos[target]", expression: "ball + 0.02 * action[0:3]"}
    - {set: "eq_active[grasp]", expression: "action[3] < 0.5"}
    - {set: "ctrl", expression: "qpos[hinge] + action[3]"}
  observations: [{expression: "qpos"}]
  rewards: {alive: {expression: "1"}}
"""


def test_actions_lead_a_mocap_body(maniple, deck):
    """What actions assign is there before the physics of their control step, whose result is MuJoCo's."""
    deck.write_text(ASSIGNED)
    out = deck.parent / "run"
    result = maniple("validate", deck, ranks=0)
    assert "4 actions, " in result.stdout and "actuators without an action" not in result.stdout
    maniple("rollout", deck, "batch.num_envs=24", "simulation.steps=40", "control.source=random", "output.trajectory.every=1",
            "output.trajectory.fields=[qpos, qvel, ctrl, mocap_pos, eq_active, action, qacc_warmstart]",
            f"output.directory={out}", ranks=2)
    rows = {name: np.asarray(values) for name, values in Run(out).trajectories.items()}
    model = mujoco.MjModel.from_xml_path(str(deck.parent / "robot.xml"))
    data = mujoco.MjData(model)
    for env in range(0, 24, 5):
        for step in range(40):
            mujoco.mj_resetData(model, data)
            for field in ("qpos", "qvel", "qacc_warmstart"):
                getattr(data, field)[:] = rows[field][env, step]
            action = rows["action"][env, step + 1]
            np.testing.assert_array_equal(rows["eq_active"][env, step + 1], [action[3] < 0.5, 0])
            np.testing.assert_allclose(rows["ctrl"][env, step + 1], rows["qpos"][env, step, 7] + action[3], atol=1e-15)
            data.eq_active[:] = rows["eq_active"][env, step + 1]
            data.ctrl[:], data.mocap_pos[:] = rows["ctrl"][env, step + 1], rows["mocap_pos"][env, step + 1].reshape(1, 3)
            mujoco.mj_step(model, data, 5)
            mujoco.mj_kinematics(model, data)  # simulation.derived: fresh
            np.testing.assert_allclose(data.qpos, rows["qpos"][env, step + 1], atol=1e-9)
            if step < 39:
                expected = data.xpos[model.body("ball").id] + 0.02 * rows["action"][env, step + 2, :3]
                np.testing.assert_allclose(rows["mocap_pos"][env, step + 2], expected, atol=1e-9)


@pytest.mark.parametrize("old, new, message", [
    ('"ctrl"', '"qpos[hinge]"', r"task\.actions\[3\]\.set: 'qpos\[hinge\]' cannot be assigned by an action; ctrl, mocap_pos, mocap_quat, eq_active, xfrc_applied, qfrc_applied, whole or"),
    ("{components: [x, y, z, let_go]}", "{components: [x, y, z, let_go], scale: 2}", r"actions\[0\]\.scale: set together with components; allowed: components and name"),
    ("{components: [x, y, z, let_go]}", "{components: [x, 2y, z, w]}", r"actions\[0\]\.components: found the name '2y'; allowed: letters"),
    ('{set: "ctrl", expression: "qpos[hinge] + action[3]"}', '{set: "ctrl"}', r"actions\[3\]\.set: set without an expression; allowed: with expression"),
    ('set: "eq_active[grasp]"', 'set: "ctrl"', r"actions\[3\]\.set: actuator '\w*' gets a second action; one action for each of them"),
    ("- {components: [x, y, z, let_go]}", "- {components: [x, y, z, let_go]}\n    - {term: joint_effort, joints: [hinge]}",
     r"actions\[4\]\.set: actuator '\w*' gets a second action"),
    ('set: "eq_active[grasp]"', 'delay: 1, set: "eq_active[grasp]"', r"actions\[2\]\.delay: set together with set; allowed: set, expression and name"),
])
def test_refusals_of_assigning_actions(maniple, deck, old, new, message):
    assert old in ASSIGNED
    deck.write_text(ASSIGNED.replace(old, new))
    result = maniple("validate", deck, exit_code=2, ranks=0)
    assert re.search(message, result.stderr), result.stderr


# A slide that a connect holds at a mocap body, which an action moves away, and whose model is drawn anew at each reset.
TIED = """model: {file: tied.xml}
simulation: {precision: double}
initial_state: {source: task}
task:
  actions: [{components: [x]}, {set: "mocap_pos[target]", expression: "[-1 - 0.01 * episode_step, 0, 0]"}]
  observations: [{expression: "qpos"}]
  rewards: {alive: {expression: "1"}}
  variables: {life: {reset: "floor(uniform(10, 40))", update: "prev(life)"}}
  terminations: {end: {expression: "episode_step >= life"}}
  events: {zero: {field: qpos0, joints: [slide], operation: abs, ranges: [0.2, 0.2], mode: reset}}
"""


def test_constants_of_a_model_do_not_depend_on_where_mocap_bodies_are(maniple, tmp_path):
    (tmp_path / "tied.xml").write_text("""<mujoco><option gravity="0 0 0"/><worldbody>
      <body name="a"><joint name="slide" type="slide" axis="1 0 0"/><geom size=".1" contype="0"/></body>
      <body name="target" mocap="true" pos="-1 0 0"/></worldbody>
      <equality><connect body1="a" body2="target" anchor="0 0 0"/></equality></mujoco>""")
    (tmp_path / "tied.yaml").write_text(TIED)
    found = {}
    for ranks in (1, 2):
        out = tmp_path / f"run{ranks}"
        maniple("rollout", tmp_path / "tied.yaml", "batch.num_envs=6", "simulation.steps=300", "output.trajectory.every=1",
                "output.trajectory.fields=[qpos, mocap_pos]", f"output.directory={out}", ranks=ranks)
        found[ranks] = {name: np.asarray(rows) for name, rows in Run(out).trajectories.items()}
    for name, rows in found[1].items():
        np.testing.assert_array_equal(rows, found[2][name], name)
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "tied.xml"))
    model.qpos0[0] = 0.2
    mujoco.mj_setConst(model, mujoco.MjData(model))
    position, target = found[1]["qpos"][..., 0], found[1]["mocap_pos"].reshape(6, -1, 3)[..., 0]
    episodes = 0
    for env in range(6):
        resets = [step for step in range(1, 290) if target[env, step] > target[env, step - 1]]
        for first, after in zip(resets, resets[1:]):
            episodes += 1
            data = mujoco.MjData(model)
            assert position[env, first] == data.qpos[0]
            for step in range(first + 1, after):
                data.mocap_pos[0, 0] = target[env, step]
                mujoco.mj_step(model, data)
                assert position[env, step] == pytest.approx(data.qpos[0], abs=1e-9), (env, step)
    assert episodes > 40
