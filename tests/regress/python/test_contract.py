"""The contract of a policy with its robot: observations rebuilt from the JSON in its ONNX metadata alone, and actions that
become controls as it says, drive MuJoCo through what the program itself did with the policy."""
# ctest: PROCESSORS 1

import json
import subprocess
import sys

import h5py
import mujoco
import numpy as np
import onnx
import onnxruntime

LEG = """<body name="{side}_thigh" pos="0 {y} 0"><joint name="{side}_hip" axis="0 1 0" range="-1.5 1.5" damping=".3" armature=".02"/>
  <geom type="capsule" fromto="0 0 0 0 0 -.2" size=".03" mass=".8"/>
  <body name="{side}_shin" pos="0 0 -.2"><joint name="{side}_knee" axis="0 1 0" range="-1.5 1.5" damping=".3" armature=".02"
    actuatorfrcrange="-{limit} {limit}"/><geom type="capsule" fromto="-.05 0 -.2 .1 0 -.2" size=".03" mass=".4"/></body></body>"""
MODEL = f"""<mujoco>
  <option timestep="0.005" integrator="implicitfast"/>
  <worldbody><geom type="plane" size="5 5 .1"/>
    <body name="torso" pos="0 0 .42"><freejoint name="root"/><geom type="box" size=".2 .1 .05" mass="4" contype="0" conaffinity="0"/>
      {LEG.format(side="left", y=.15, limit=12)}{LEG.format(side="right", y=-.15, limit=15)}
      <body name="tail" pos="-.2 0 0"><joint name="tail" axis="0 0 1" damping=".1"/><geom type="capsule" fromto="0 0 0 -.2 0 0" size=".02"/>
        <site name="tip" pos="-.2 0 0"/></body>
      <body name="head" pos=".2 0 0"><joint name="neck" axis="0 1 0" damping=".1"/><geom size=".05" mass=".3"/></body></body>
  </worldbody>
  <actuator>
    <position name="lh" joint="left_hip" kp="30" kv="1" forcerange="-8 9"/><position name="lk" joint="left_knee" kp="25" kv="1"/>
    <position name="neck" joint="neck" kp="5" kv=".2"/>
    <position name="rh" joint="right_hip" kp="30" kv="1"/><position name="rk" joint="right_knee" kp="25" kv="1" gear="2"/>
    <position name="wag" joint="tail" kp="3" kv=".1"/>
  </actuator>
  <sensor><gyro name="gyro" site="tip"/></sensor>
  <keyframe><key name="stand" qpos="0 0 .43 1 0 0 0  .3 -.6 .3 -.6 .1 .2" ctrl="0 0 .25 0 0 0"/></keyframe>
</mujoco>"""
DECK = """model: {file: robot.xml}
batch: {num_envs: 32, seed: 1}
simulation: {precision: double, decimation: 4}
task:
  name: contract
  keyframe: stand
  episode_steps: 200
  definitions: {speed: "norm(body_lin_vel_b['torso'])"}
  commands: {go: {term: uniform_velocity_command, lin_vel_x: [0.2, 1], lin_vel_y: [0, 0], ang_vel_z: [-1, "1 + wish"], every: [5, 8]}, wish_for: {expression: "uniform(0, wish, 2)", every: 3}}
  variables: {gait: {reset: "uniform(1, 2)", every: [4, 5]}}
  curricula: {wish: {reset: "0"}}
  actions:
    - {term: joint_position, joints: [right_hip, right_knee, left_hip], scale: {right_hip: 0.3, "left_.*": 0.5}, delay: 2}
    - {term: joint_position, joints: [left_knee], scale: 0.2, offset: 0.05, use_default_offset: 0, clip: [-0.7, 0.7]}
    - {term: relative_joint_position, joints: [tail], scale: 0.1}
  observations:
    - {term: base_ang_vel, scale: 0.25}
    - {term: projected_gravity, delay: 1}
    - {term: generated_commands, command: go}
    - {term: joint_pos_rel, joints: ["right_.*", tail], history: 3, scale: {tail: 2}}
    - {term: joint_vel_rel, clip: [-1, 1], scale: 0.5, history: 2, delay: 1}
    - {term: sensor, sensors: [gyro]}
    - {name: speed, expression: "speed"}
    - {term: last_action}
  resets: [{term: reset_joints_by_offset, position_range: [-0.1, 0.1], velocity_range: [-0.2, 0.2]}]
  rewards: {up: {expression: "1"}}
  terminations: {time_out: {term: time_out}}
policy: {hidden: [16], init_std: 0.5, actor_gain: 1, normalize_observations: true}
learning: {iterations: 2, horizon: 16}
"""
STEPS = 30


class ByName:
    """A quantity by the names of its elements, as expressions write it: joint_pos['a', 'b']."""

    def __init__(self, of_one):
        self.of_one = of_one

    def __getitem__(self, names):
        names = names if isinstance(names, tuple) else (names,)
        return np.concatenate([np.atleast_1d(self.of_one(name)) for name in names])


class Driver:
    """A policy on a robot, from what the ONNX file says and the model."""

    def __init__(self, policy, model, command):
        metadata = {entry.key: entry.value for entry in onnx.load(policy).metadata_props}
        self.contract = json.loads(metadata["task"])
        self.session, self.model, self.command = onnxruntime.InferenceSession(policy), model, command
        self.model.opt.timestep = self.contract["physics_step"]
        self.pose = {row["joint"]: row for row in self.contract["default_pose"]}
        self.observations, self.actions = [], []
        self.action = np.zeros(len(self.contract["actions"]))

    def quantities(self, data):
        model = self.model

        def velocity(name, part):
            result = np.zeros(6)
            mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_XBODY, model.body(name).id, result, 1)
            return result[part]

        names = {
            "joint_pos": ByName(lambda name: data.qpos[model.joint(name).qposadr[0]]),
            "joint_vel": ByName(lambda name: data.qvel[model.joint(name).dofadr[0]]),
            "default_joint_pos": ByName(lambda name: self.pose[name]["qpos"]),
            "default_joint_vel": ByName(lambda name: self.pose[name]["qvel"]),
            "projected_gravity": ByName(lambda name: data.body(name).xmat.reshape(3, 3).T @ [0, 0, -1]),
            "body_ang_vel_b": ByName(lambda name: velocity(name, slice(0, 3))),
            "body_lin_vel_b": ByName(lambda name: velocity(name, slice(3, 6))),
            "sensordata": ByName(lambda name: data.sensor(name).data),
            "action": self.action, "norm": np.linalg.norm, **self.command}
        for name, text in self.contract["definitions"].items():
            names[name] = eval(text, {}, names)
        return names

    def observe(self, data):
        mujoco.mj_forward(self.model, data)
        names, now = self.quantities(data), []
        for row in self.contract["observations"]:
            value = np.atleast_1d(eval(row["expression"], {}, names))[row["component"]]
            low, high = row["clip"] or (-np.inf, np.inf)
            now.append(np.clip(value, low, high) * row["scale"] + row["offset"])
        self.observations.append(now)
        late = [row["delay"][0] + row["age"] for row in self.contract["observations"]]
        return np.array([self.observations[max(0, len(self.observations) - 1 - steps)][k] for k, steps in enumerate(late)])

    def step(self, data):
        """One control step; the observation before it."""
        observation = self.observe(data)
        self.action = self.session.run(["action"], {"observation": observation.astype(np.float32)[None]})[0][0]
        self.actions.append(self.action)
        for name, control in self.contract["held_controls"].items():
            data.ctrl[self.model.actuator(name).id] = control
        for k, row in enumerate(self.contract["actions"]):
            given = self.actions[max(0, len(self.actions) - 1 - row["delay"][0])][k]
            control = row["scale"] * given + row["offset"]
            if row["relative_to"]:
                control += row["per_unit"] * data.qpos[self.model.joint(row["relative_to"]).qposadr[0]]
            low, high = row["clip"] or (-np.inf, np.inf)
            data.ctrl[self.model.actuator(row["actuator"]).id] = np.clip(control, low, high)
        for _ in range(self.contract["decimation"]):
            mujoco.mj_step(self.model, data)
        return observation


def test_the_contract_alone_drives_mujoco(maniple, tmp_path):
    (tmp_path / "robot.xml").write_text(MODEL)
    deck, run = tmp_path / "deck.yaml", tmp_path / "run"
    deck.write_text(DECK)
    maniple("train", deck, f"output.directory={run}")
    subprocess.run([sys.executable, maniple.root / "tools/export_onnx.py", run], check=True)
    maniple("rollout", deck, "control.source=policy", f"control.checkpoint={run}", "initial_state.source=task", "batch.num_envs=3",
            f"simulation.steps={STEPS}", "output.trajectory.every=1", "output.trajectory.fields=[qpos,qvel,ctrl,observation,action,commands/go]",
            f"output.directory={tmp_path / 'rollout'}")
    with h5py.File(tmp_path / "rollout/results.h5") as file:
        ours = {name: file[f"trajectory/{name}"][()] for name in ("qpos", "qvel", "ctrl", "observation", "action", "commands/go")}
        recorded = file["run/task"].asstr()[()]
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "robot.xml"))
    assert ours["action"].std() > 0.1
    for env in range(3):
        driver = Driver(run / "policy.onnx", model, {"go": ours["commands/go"][env, 0]})
        assert json.loads(recorded) == driver.contract and driver.contract["commands"] == {"go": 3, "wish_for": 2}
        data = mujoco.MjData(model)
        data.qpos[:], data.qvel[:] = ours["qpos"][env, 0], ours["qvel"][env, 0]
        for step in range(STEPS):
            observation = driver.step(data)
            message = f"environment {env}, step {step}"
            np.testing.assert_allclose(observation, ours["observation"][env, step], rtol=0, atol=2e-4, err_msg=message)
            np.testing.assert_allclose(driver.action, ours["action"][env, step + 1], rtol=0, atol=2e-4, err_msg=message)
            np.testing.assert_allclose(data.ctrl, ours["ctrl"][env, step + 1], rtol=0, atol=2e-4, err_msg=message)
            np.testing.assert_allclose(data.qpos, ours["qpos"][env, step + 1], rtol=0, atol=2e-4, err_msg=message)
    # the law of each servo, and its limits
    data.ctrl[:] += 0.2
    mujoco.mj_forward(model, data)
    limits = {}
    for row in driver.contract["actions"]:
        i, servo = model.actuator(row["actuator"]).id, row["servo"]
        force = servo["gain"] * data.ctrl[i] + np.dot(servo["bias"], [1, data.actuator_length[i], data.actuator_velocity[i]])
        limits[row["joint"]] = (servo["force_range"], servo["joint_force_range"])
        assert servo["force_limited"] == (servo["force_range"] is not None)
        force = np.clip(force, *(servo["force_range"] or (-np.inf, np.inf)))
        np.testing.assert_allclose(force, data.actuator_force[i], rtol=1e-12)
        on_joint = np.clip(servo["gear"] * force, *(servo["joint_force_range"] or (-np.inf, np.inf)))
        np.testing.assert_allclose(on_joint, data.joint(row["joint"]).qfrc_actuator[0], rtol=1e-12)
        assert servo["affine"] and data.actuator_length[i] == servo["gear"] * data.joint(row["joint"]).qpos[0]
    assert limits == {"right_hip": (None, None), "right_knee": (None, [-15, 15]), "left_hip": ([-8, 9], None),
                      "left_knee": (None, [-12, 12]), "tail": (None, None)}
    assert driver.contract["held_controls"] == {"neck": 0.25}
    # what may be asked for
    go = driver.contract["command_terms"]["go"]
    assert (go["term"], go["expression"], go["every"]) == ("uniform_velocity_command", None, [5, 8])
    assert [(part["name"], part["unit"], part["range"]) for part in go["components"]] == [
        ("lin_vel_x", "m/s", [0.2, 1]), ("lin_vel_y", "m/s", [0, 0]), ("ang_vel_z", "rad/s", [-1, "1 + wish"])]
    assert go["components"][0]["meaning"] == "forward velocity"
    assert driver.contract["command_terms"]["wish_for"] == {
        "term": None, "expression": "uniform(0, wish, 2)", "every": [3, 3], "components": []}
    assert driver.contract["variables"] == {"gait": {"reset": "uniform(1, 2)", "update": "", "every": [4, 5], "once": False}}
    assert driver.contract["curricula"] == {"wish": {"term": None, "reset": "0", "update": ""}}
    metadata = {entry.key: entry.value for entry in onnx.load(run / "policy.onnx").metadata_props}
    assert json.loads(metadata["curricula"]) == {"wish": 0}
    names = [row["name"] for row in driver.contract["observations"]]
    with h5py.File(run / "results.h5") as file:
        assert len(names) == ours["observation"].shape[2] and str(tmp_path) not in file["run/task"].asstr()[()]
    tail = [row for row in driver.contract["observations"] if row["name"].startswith("joint_pos_rel") and row["element"] == "tail"]
    assert [(row["scale"], row["age"]) for row in tail] == [(2, 2), (2, 1), (2, 0)]
