"""Isaac Lab's locomotion tasks written out in numpy on MuJoCo, for the models of inputs/models: observations, rewards
and ends of episodes from the poses, velocities and forces that libmujoco computes. Sources: isaaclab_tasks,
manager_based/classic/humanoid/mdp (Isaac-Ant-v0, Isaac-Humanoid-v0) and direct/locomotion (their direct variants)."""

import mujoco
import numpy as np
from conftest import ROOT

MODELS = ROOT / "inputs/models"
TARGET = np.array([1000.0, 0.0, 0.0])

ANT = {
    "model": "isaac_ant.xml",
    "joints": [f"{leg}_{part}" for part in ("leg", "foot")
               for leg in ("front_left", "front_right", "left_back", "right_back")],
    "efforts": [7.5] * 8, "feet": ["front_left_foot", "front_right_foot", "left_back_foot", "right_back_foot"],
    "wrench_scale": 0.1, "velocity_scale": 0.2, "spin_scale": 1.0, "alive": 0.5, "action": 0.005, "low": 0.31,
    # of the two variants
    "energy": 0.05, "limit": (0.1, 0.99), "electricity": 0.05, "death": -2.0}
_HUMANOID_JOINTS = {
    "lower_waist:0": 67.5, "lower_waist:1": 67.5, "right_upper_arm:0": 67.5, "right_upper_arm:2": 67.5,
    "left_upper_arm:0": 67.5, "left_upper_arm:2": 67.5, "pelvis": 67.5, "right_lower_arm": 45, "left_lower_arm": 45,
    "right_thigh:0": 45, "right_thigh:1": 135, "right_thigh:2": 45, "left_thigh:0": 45, "left_thigh:1": 135,
    "left_thigh:2": 45, "right_shin": 90, "left_shin": 90, "right_foot:0": 22.5, "right_foot:1": 22.5,
    "left_foot:0": 22.5, "left_foot:1": 22.5}
HUMANOID = {
    "model": "isaac_humanoid.xml", "joints": list(_HUMANOID_JOINTS), "efforts": list(_HUMANOID_JOINTS.values()),
    "feet": ["left_foot", "right_foot"], "wrench_scale": 0.01, "velocity_scale": 0.1, "spin_scale": 0.25, "alive": 2.0,
    "action": 0.01, "low": 0.8, "energy": 0.005, "limit": (0.25, 0.98), "electricity": 0.05, "death": -1.0}


def angle(x):
    return np.arctan2(np.sin(x), np.cos(x))


class LocomotionTask:
    """One environment; `direct`: of the direct workflow."""

    def __init__(self, machine, direct):
        self.machine, self.direct = machine, direct
        self.model = mujoco.MjModel.from_xml_path(str(MODELS / machine["model"]))
        self.data, self.seen, self.felt = (mujoco.MjData(self.model) for _ in range(3))
        self.max_steps = 15 * 60 - 1 if direct else 16 * 60
        joints = [self.model.joint(name) for name in machine["joints"]]
        self.q, self.v = ([int(getattr(joint, place)[0]) for joint in joints] for place in ("qposadr", "dofadr"))
        self.low, self.high = np.array([joint.range for joint in joints]).T
        self.efforts = np.array(machine["efforts"])
        self.controls = [self.model.actuator(name).id for name in machine["joints"]]
        self.random = np.random.default_rng(0)

    def action_range(self):
        return -np.ones(len(self.q)), np.ones(len(self.q))

    def reset(self, seed=None):
        if seed is not None:
            self.random = np.random.default_rng(seed)
        qpos, qvel = self.model.qpos0.copy(), np.zeros(self.model.nv)
        if not self.direct:
            draws = qpos[self.q] + self.random.uniform(-0.2, 0.2, len(self.q))
            qpos[self.q] = np.clip(draws, self.low, self.high)
            qvel[self.v] = self.random.uniform(-0.1, 0.1, len(self.v))
        self.put({"qpos": qpos, "qvel": qvel})

    def put(self, state):
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos, self.data.qvel = state["qpos"], state["qvel"]
        self.action = np.zeros(len(self.q))
        self.feel()
        self.look()
        self.potential = self.distance_potential(at_reset=True)
        return self.observation()

    def feel(self):
        """The forces of the step that begins now, without a trace in the simulation's data."""
        mujoco.mj_copyData(self.felt, self.model, self.data)
        mujoco.mj_forward(self.model, self.felt)
        mujoco.mj_rnePostConstraint(self.model, self.felt)

    def look(self):
        """What belongs to the present state."""
        mujoco.mj_copyData(self.seen, self.model, self.data)
        mujoco.mj_kinematics(self.model, self.seen)
        mujoco.mj_comPos(self.model, self.seen)
        mujoco.mj_comVel(self.model, self.seen)
        w, x, y, z = self.quaternion = self.data.qpos[3:7] / np.linalg.norm(self.data.qpos[3:7])
        self.roll = np.arctan2(2 * (w * x + y * z), w * w - x * x - y * y + z * z)
        self.yaw = np.arctan2(2 * (w * z + x * y), w * w + x * x - y * y - z * z)
        self.up = w * w - x * x - y * y + z * z
        heading = np.array([w * w + x * x - y * y - z * z, 2 * (x * y + w * z), 2 * (x * z - w * y)])
        there = TARGET - self.data.qpos[:3]
        there[2] = 0
        self.heading = heading @ there / np.linalg.norm(there)
        self.scaled = (2 * self.data.qpos[self.q] - self.low - self.high) / (self.high - self.low)

    def distance_potential(self, at_reset=False):
        there = TARGET - self.data.qpos[:3]
        if not (at_reset and not self.direct):
            there[2] = 0
        return -np.linalg.norm(there) / (self.model.opt.timestep if self.direct else 2 * self.model.opt.timestep)

    def in_torso(self, vector):
        turned = np.zeros(3)
        mujoco.mju_rotVecQuat(turned, vector, self.quaternion * [1, -1, -1, -1])
        return turned

    def wrench(self, foot):
        """What a foot's parent exerted on it in the last step, at its origin and in its axes as they were when the step
        began: force, torque."""
        body = self.felt.body(foot)
        torque, force = body.cfrc_int[:3], body.cfrc_int[3:]
        arm = self.felt.subtree_com[self.model.body_rootid[body.id]] - body.xpos
        axes = body.xmat.reshape(3, 3)
        return np.concatenate([axes.T @ force, axes.T @ (torque + np.cross(arm, force))])

    def observation(self):
        velocity = np.zeros(6)  # of the torso's center of mass
        mujoco.mj_objectVelocity(self.model, self.seen, mujoco.mjtObj.mjOBJ_BODY, self.model.body("torso").id, velocity, 0)
        there = TARGET - self.data.qpos[:3]
        # the direct variant takes the height for y
        bearing = np.arctan2(there[2] if self.direct else there[1], there[0])
        parts = [[self.data.qpos[2]], self.in_torso(velocity[3:]), self.machine["spin_scale"] * self.data.qvel[3:6],
                 [angle(self.yaw), angle(self.roll), angle(bearing - self.yaw), self.up, self.heading], self.scaled,
                 self.machine["velocity_scale"] * self.data.qvel[self.v]]
        if not self.direct:
            parts += [self.machine["wrench_scale"] * self.wrench(foot) for foot in self.machine["feet"]]
        return np.concatenate([*parts, self.action])

    def step(self, action):
        self.action = np.array(action)
        self.data.ctrl[self.controls] = self.efforts * action
        for _ in range(2):
            self.feel()
            mujoco.mj_step(self.model, self.data)
        self.look()
        before, self.potential = self.potential, self.distance_potential()
        fallen = self.data.qpos[2] < self.machine["low"]
        heading = 1 if self.heading > 0.8 else self.heading / 0.8
        reward = self.potential - before + 0.5 * heading + 0.1 * (self.up > 0.93) - self.machine["action"] * (action @ action)
        power = np.abs(action * self.data.qvel[self.v])
        if self.direct:
            reward += self.machine["alive"] - np.sum(self.scaled > 0.98)
            reward -= self.machine["electricity"] * self.machine["velocity_scale"] * power.sum()
            reward = self.machine["death"] if fallen else reward
        else:
            gears = self.efforts / self.efforts.max()
            weight, threshold = self.machine["limit"]
            beyond = np.abs(self.scaled) > threshold
            reward += self.machine["alive"] * (not fallen) - self.machine["energy"] * (power @ gears)
            reward -= weight * np.sum(beyond * (np.abs(self.scaled) - threshold) / (1 - threshold) * gears)
            reward *= 2 * self.model.opt.timestep
        return self.observation(), reward, fallen
