"""A walker on two legs whose deck varies its model, and rollouts of it."""

import h5py
import pytest

MODEL = """
<mujoco>
  <option timestep="0.005" integrator="implicitfast"/>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 .1" friction=".4"/>
    <body name="torso" pos="0 0 .42">
      <freejoint name="root"/>
      <geom name="trunk" type="box" size=".2 .1 .05" mass="4" contype="0" conaffinity="0"/>
      <body name="left_thigh" pos="0 .15 0">
        <joint name="left_hip" axis="0 1 0" range="-1.5 1.5" damping=".3" armature=".02" frictionloss=".1"/>
        <geom name="left_bone" type="capsule" fromto="0 0 0 0 0 -.2" size=".03" mass=".8"/>
        <body name="left_shin" pos="0 0 -.2">
          <joint name="left_knee" axis="0 1 0" range="-1.5 1.5" damping=".3" armature=".02"/>
          <geom name="left_foot" type="capsule" fromto="-.05 0 -.2 .1 0 -.2" size=".03" mass=".4"/>
        </body>
      </body>
      <body name="right_thigh" pos="0 -.15 0">
        <joint name="right_hip" axis="0 1 0" range="-1.5 1.5" damping=".3" armature=".02" frictionloss=".1"/>
        <geom name="right_bone" type="capsule" fromto="0 0 0 0 0 -.2" size=".03" mass=".8"/>
        <body name="right_shin" pos="0 0 -.2">
          <joint name="right_knee" axis="0 1 0" range="-1.5 1.5" damping=".3" armature=".02"/>
          <geom name="right_foot" type="capsule" fromto="-.05 0 -.2 .1 0 -.2" size=".03" mass=".4"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <position joint="left_hip" kp="30" kv="1" forcerange="-9 7"/>
    <position joint="left_knee" kp="30" kv="1"/>
    <position joint="right_hip" kp="30" kv="1" forcerange="-9 7"/>
    <position joint="right_knee" kp="30" kv="1"/>
  </actuator>
</mujoco>
"""
FIELDS = ["gravity", "qpos0", "body_pos", "body_quat", "body_mass", "body_ipos", "dof_damping", "dof_armature",
          "dof_frictionloss", "geom_pos", "geom_quat", "geom_size", "geom_friction", "actuator_gainprm", "actuator_biasprm", "jnt_range", "jnt_stiffness", "actuator_forcerange"]
EVENTS = """
    feet: {field: geom_friction, geoms: [".*_foot", floor], mode: startup, operation: abs, ranges: [.3, 1.2],
           shared_random: true}
    bones: {field: geom_friction, geoms: [".*_bone"], mode: startup, operation: scale, distribution: gaussian,
            ranges: [1, .05]}
    mass: {field: body_mass, bodies: [".*"], mode: startup, operation: scale, ranges: {torso: [.8, 1.5], ".*_shin": [1, 2]}}
    com: {field: body_ipos, bodies: [torso], mode: startup, operation: add, ranges: {0: [-.05, .05], 2: [0, .02]}}
    kp: {field: actuator_kp, actuators: [".*"], mode: startup, operation: scale, ranges: [.7, 1.3]}
    kd: {field: actuator_kd, actuators: [".*"], mode: startup, operation: scale, ranges: [.5, 2], shared_random: true}
    hips: {field: body_pos, bodies: [".*_thigh"], mode: startup, operation: add, ranges: [-.02, .02]}
    bent: {set: "body_quat[left_shin]", mode: reset, expression: "3 * quat_from_euler(uniform(-.2, .2), 0, .1)"}
    shapes: {field: geom_size, geoms: [".*_foot", trunk], mode: reset, operation: scale, ranges: [.8, 1.2]}
    places: {field: geom_pos, geoms: [".*_foot", floor], mode: startup, operation: add, ranges: {0: [-.02, .02], 2: [-.01, .01]}}
    turned: {set: "geom_quat[right_foot]", mode: reset,
             expression: "2 * quat_mul(quat_from_euler(0, uniform(-.2, .2), .1), default_geom_quat[right_foot])"}
    zero: {field: qpos0, joints: [".*_knee"], mode: startup, operation: add, ranges: [-.1, .1]}
    damping: {field: dof_damping, joints: [".*_(hip|knee)"], mode: reset, operation: scale,
              distribution: log_uniform, ranges: [.5, 2]}
    armature: {set: "dof_armature[left_hip]", mode: reset, expression: "default_dof_armature[left_hip] + uniform(0, .01)"}
    friction: {field: dof_frictionloss, joints: [".*_hip"], mode: reset, operation: add, ranges: [0, .2]}
    ends: {field: jnt_range, joints: [".*_knee"], mode: reset, operation: abs, ranges: {0: [-.6, -.1], 1: [.1, .4]}}
    springs: {field: jnt_stiffness, joints: [".*_hip"], mode: startup, operation: abs, ranges: [0, 9]}
    motors: {field: actuator_forcerange, actuators: [".*"], mode: reset, operation: scale, ranges: [.5, 1]}
    tilt: {field: gravity, mode: interval, every: .1, operation: add, ranges: {0: [-1, 1]}}
"""
TASK = """
model: {{file: {model}}}
batch: {{num_envs: {num_envs}}}
simulation: {{precision: {precision}, decimation: 4, timestep: .005}}
task:
  name: varied
  episode_steps: 25
  actions:
    - {{term: actuator_control, actuators: [".*"]}}
  observations:
    - {{expression: "[{observed}]"}}
  rewards:
    up: {{expression: "xpos[torso].z + {reward}", weight: 1}}
  terminations:
    time_out: {{term: time_out}}
  resets:
    - {{set: "qvel[root]", expression: "uniform(-.3, .3, 6)"}}
  events: {events}
learning: {{iterations: 4, horizon: 8, checkpoint_every: 2}}
"""


@pytest.fixture
def deck(tmp_path):
    """Writes the deck and its model; returns the deck's path."""

    def write(events=EVENTS, precision="double", num_envs=40, observed=FIELDS, reward="0", model=MODEL, name="task.yaml"):
        (tmp_path / "robot.xml").write_text(model)
        path = tmp_path / name
        path.write_text(TASK.format(model=tmp_path / "robot.xml", events=events, precision=precision, reward=reward,
                                    num_envs=num_envs, observed=", ".join(observed)))
        return path

    return write


def rollout(maniple, deck, directory, steps=60, ranks=2, fields=("qpos", "qvel", "ctrl", "qacc_warmstart", "observation", "truncated")):
    maniple("rollout", deck, f"simulation.steps={steps}", "control.source=random", "initial_state.source=task",
            "output.trajectory.every=1", f"output.trajectory.fields=[{','.join(fields)}]",
            f"output.directory={directory}", ranks=ranks)
    with h5py.File(directory / "results.h5") as file:
        return {name: values[()] for name, values in file["trajectory"].items()}
