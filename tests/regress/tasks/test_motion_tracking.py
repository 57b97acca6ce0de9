"""Reference motions: the deck of mjlab's tracking task against mjlab's own term functions, applied to MuJoCo's physics steps
from the recorded states; the states after resets and after the end of a motion; where episodes begin; files that are none."""
# ctest: PROCESSORS 2 COST 30

import copy
import types
import zipfile

import h5py
import mujoco
import numpy as np
import pytest
import torch_in_numpy
from scipy.spatial.transform import Rotation
from conftest import start_tool
from trainings import digests

torch_in_numpy.install()
from mjlab.tasks.tracking import mdp  # noqa: E402
from mjlab.tasks.tracking.config.g1.env_cfgs import unitree_g1_flat_tracking_env_cfg  # noqa: E402
from mjlab.tasks.tracking.mdp.commands import MotionCommand  # noqa: E402

tensor = torch_in_numpy.tensor
DECK, MOTION = "inputs/tasks/mjlab/g1_tracking.yaml", "inputs/motions/g1_squat.npz"
ENVS, STEPS = 24, 70
OFFSETS = "x y z roll pitch yaw vx vy vz wx wy wz joint_position_range".split()
EXACT = [f"task.commands.motion.{name}=[0, 0]" for name in OFFSETS]
# by name: mjlab's function, the deck's term, and a threshold that random actions pass, but not soon
ENDS = {"anchor_pos": (mdp.bad_anchor_pos_z_only, "bad_anchor_pos_z_only", 0.12), "anchor_ori": (mdp.bad_anchor_ori, "bad_anchor_ori", 0.12),
        "ee_body_pos": (mdp.bad_motion_body_pos_z_only, "bad_motion_body_pos_z_only", 0.12),
        "far": (mdp.bad_anchor_pos, "bad_anchor_pos", 0.4), "off": (mdp.bad_motion_body_pos, "bad_motion_body_pos", 0.4)}

# rewards of some of the tracked bodies, in another order than the command's
OF_BODIES = (mdp.motion_relative_body_position_error_exp, mdp.motion_relative_body_orientation_error_exp, mdp.motion_global_body_angular_velocity_error_exp)
SOME = ("right_knee_link", "torso_link", "left_elbow_link")


@pytest.fixture(scope="module")
def motion(maniple):
    """The file's arrays; quaternions are brought to unit length in double precision."""
    with np.load(maniple.root / MOTION) as file:
        arrays = {name: file[name] for name in file.files}
    quaternions = arrays["body_quat_w"].astype(float)
    return {**arrays, "body_quat_w": quaternions / np.linalg.norm(quaternions, axis=-1, keepdims=True)}


def rolled_out(maniple, directory, *settings, ranks=1, steps=STEPS, envs=ENVS):
    fields = ("qpos, qvel, ctrl, action, qacc_warmstart, motion_frame, commands/motion, variables/motion_body_pos_relative_w, "
              "variables/motion_body_quat_relative_w, variables/encoder_bias, observation, critic_observation, reward_term, terminated, truncated")
    maniple("rollout", maniple.root / DECK, "simulation.precision=double", f"batch.num_envs={envs}", f"simulation.steps={steps}",
            "initial_state.source=task", "output.trajectory.every=1", f"output.trajectory.fields=[{fields}]",
            f"output.directory={directory}", *settings, ranks=ranks)
    with h5py.File(directory / "results.h5") as file:
        recorded = {}
        file["trajectory"].visititems(lambda name, item: recorded.__setitem__(name, item[()]) if isinstance(item, h5py.Dataset) else None)
        model = mujoco.MjModel.from_binary_path("model.mjb", {"model.mjb": file["run/model_mjb"][()].tobytes()})
    return model, recorded


class Command(MotionCommand):
    """mjlab's command over given poses of the motion and of the robot."""

    def __init__(self, config, motion, names, frames):
        self.cfg = config
        self.body_indexes = np.array([names.index(name) for name in config.body_names])
        self.robot_anchor_body_index = names.index(config.anchor_body_name)
        self.motion_anchor_body_index = config.body_names.index(config.anchor_body_name)
        arrays = {name: tensor(motion[name]) for name in ("joint_pos", "joint_vel")}
        for name in ("body_pos_w", "body_quat_w", "body_lin_vel_w", "body_ang_vel_w"):
            arrays[name] = tensor(motion[name][:, self.body_indexes])
        self.motion = types.SimpleNamespace(**arrays, time_step_total=len(motion["joint_pos"]))
        self.time_steps = frames.astype(int)
        self._env = types.SimpleNamespace(scene=types.SimpleNamespace(env_origins=tensor(np.zeros((ENVS, 3)))))

    def __getattribute__(self, name):
        if name in ("num_envs", "device"):
            return {"num_envs": ENVS, "device": "cpu"}[name]
        return super().__getattribute__(name)


def robot_of(seen):
    return types.SimpleNamespace(data=types.SimpleNamespace(
        gravity_vec_w=tensor(np.tile([0.0, 0.0, -1.0], (ENVS, 1))), joint_pos=tensor(seen["qpos"][:, 7:]),
        body_link_pos_w=tensor(seen["xpos"][:, 1:]), body_link_quat_w=tensor(seen["xquat"][:, 1:]),
        body_link_lin_vel_w=tensor(seen["velocity"][:, 1:, 3:]), body_link_ang_vel_w=tensor(seen["velocity"][:, 1:, :3])))


def state_in(model, data):
    velocity = np.zeros((model.nbody, 6))
    for body in range(model.nbody):
        mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_XBODY, body, velocity[body], 0)
    return {"qpos": data.qpos.copy(), "xpos": data.xpos.copy(), "xquat": data.xquat.copy(), "velocity": velocity}


def controls_of(recorded, ended):
    """The controls of each step; those that are recorded where an episode ended belong to the next one."""
    action, bias = recorded["action"], recorded["variables/encoder_bias"]
    alive = ~ended[:, 1:]
    result = np.zeros_like(action)
    for k in range(action.shape[-1]):
        shown = (recorded["ctrl"][:, 1:, k] + bias[:, 1:, k])[alive]
        line, *_ = np.linalg.lstsq(np.stack([action[:, 1:, k][alive], np.ones(alive.sum())], axis=1), shown, rcond=None)
        result[..., k] = line[0] * action[..., k] + line[1] - bias[..., k]
    np.testing.assert_allclose(result[:, 1:][alive], recorded["ctrl"][:, 1:][alive], atol=1e-12)
    return result


def test_terms_are_those_of_mjlab(maniple, motion, tmp_path):
    """Rewards, ends and observations of 70 control steps: 24 environments that fall over, with random offsets."""
    quiet = [f"task.observations.{i}.noise=~" for i in (1, 2, 3, 4, 5, 6)] + [f"task.events.{event}=~" for event in
                                                                             ("foot_friction", "base_com", "push_robot")]
    model, recorded = rolled_out(maniple, tmp_path / "run", "control.source=random", "task.commands.motion.sampling_mode=uniform", *quiet,
                                 *(f"task.rewards.{name}.bodies=[{', '.join(SOME)}]" for name in ("motion_body_pos", "motion_body_ori", "motion_body_ang_vel")),
                                 *(f"task.terminations.{name}={{term: {term}, threshold: {threshold}}}" for name, (_, term, threshold) in ENDS.items()))
    config = copy.deepcopy(unitree_g1_flat_tracking_env_cfg())
    names = [model.body(i).name for i in range(1, model.nbody)]
    for term in config.rewards.values():
        if term.func in OF_BODIES:
            term.params["body_names"] = SOME
    rewards = [(i, term) for i, (name, term) in enumerate(config.rewards.items()) if name.startswith("motion_")]
    assert len(rewards) == 6
    model.opt.tolerance, data = 1e-15, mujoco.MjData(model)
    frames, ended = recorded["motion_frame"][..., 0], (recorded["terminated"] + recorded["truncated"])[..., 0] > 0
    command_config = config.commands["motion"]
    control = controls_of(recorded, ended)
    terms = {name: (function, {"command_name": "motion", "threshold": threshold}) for name, (function, _, threshold) in ENDS.items()}
    terms["anchor_ori"][1]["asset_cfg"] = types.SimpleNamespace(name="robot")
    terms["ee_body_pos"][1]["body_names"] = config.terminations["ee_body_pos"].params["body_names"]  # as the deck has
    seen = dict.fromkeys(terms, 0)
    for step in range(STEPS + 1):
        stepped, fresh = [], []
        for env in range(ENVS):
            def start(at):
                mujoco.mj_resetData(model, data)
                for field in ("qpos", "qvel", "qacc_warmstart"):
                    getattr(data, field)[:] = recorded[field][env, at]
            if step > 0:
                start(step - 1)
                data.ctrl[:] = control[env, step]
                for _ in range(config.decimation):
                    mujoco.mj_step(model, data)
                stepped.append(state_in(model, data))
            start(step)
            mujoco.mj_forward(model, data)
            fresh.append(state_in(model, data))
        stack = lambda seen: {name: np.stack([one[name] for one in seen]) for name in seen[0]}
        environment = types.SimpleNamespace(num_envs=ENVS, command_manager=types.SimpleNamespace(get_term=lambda _: command))
        if step > 0:
            command = Command(command_config, motion, names, frames[:, step - 1])
            command.robot = before
            command.update_relative_body_poses()  # as of the last observation
            np.testing.assert_allclose(recorded["variables/motion_body_pos_relative_w"][:, step - 1].reshape(ENVS, -1, 3),
                                       command.body_pos_relative_w, atol=1e-12)
            np.testing.assert_allclose(recorded["variables/motion_body_quat_relative_w"][:, step - 1].reshape(ENVS, -1, 4),
                                       command.body_quat_relative_w, atol=1e-12)
            command.robot = robot_of(stack(stepped))
            environment.scene = {"robot": command.robot}
            for i, term in rewards:
                value = np.asarray(term.func(environment, **term.params)) * term.weight * 0.02
                np.testing.assert_allclose(recorded["reward_term"][:, step, i], value, atol=1e-9, err_msg=f"reward {i} at {step}")
            failed = np.zeros(ENVS, bool)
            for name, (function, params) in terms.items():
                value = np.asarray(function(environment, **params)) > 0
                failed |= value
                seen[name] += value.sum()
            np.testing.assert_array_equal(recorded["terminated"][:, step, 0] > 0, failed, err_msg=f"ends at {step}")
        command = Command(command_config, motion, names, frames[:, step])
        before = command.robot = robot_of(stack(fresh))
        observed = [mdp.motion_anchor_pos_b(environment, "motion"), mdp.motion_anchor_ori_b(environment, "motion")]
        np.testing.assert_allclose(recorded["observation"][:, step, :58], np.asarray(command.command), atol=1e-12)
        np.testing.assert_allclose(recorded["observation"][:, step, 58:67], np.concatenate(observed, axis=1), atol=1e-12)
        observed += [mdp.robot_body_pos_b(environment, "motion"), mdp.robot_body_ori_b(environment, "motion")]
        np.testing.assert_allclose(recorded["critic_observation"][:, step, 58:193], np.concatenate(observed, axis=1), atol=1e-12)
    assert min(seen.values()) > 0, seen


def first_frames(recorded):
    """Where episodes begin: environment, recorded step, and the frame that the state is of, one before that of the step."""
    frames = recorded["motion_frame"][..., 0].astype(int)
    fresh = (recorded["terminated"] + recorded["truncated"])[..., 0] > 0
    fresh[:, 0] = True
    return [(env, step, frames[env, step] - 1) for env, step in np.argwhere(fresh)]


def test_states_are_those_of_the_motion(maniple, motion, tmp_path):
    """After resets, and after the last frame, where the episode goes on."""
    model, recorded = rolled_out(maniple, tmp_path / "run", "control.source=zero", "task.commands.motion.sampling_mode=uniform", *EXACT,
                                 "task.terminations.anchor_pos=~", "task.events.push_robot=~", steps=200, envs=64, ranks=2)
    frames, last = recorded["motion_frame"][..., 0].astype(int), len(motion["joint_pos"]) - 1
    begun = first_frames(recorded)
    wrapped = [(env, step + 1, frames[env, step + 1]) for env, step in np.argwhere(np.diff(frames, axis=1) < 0)]
    wrapped = [(env, step, frame) for env, step, frame in wrapped if (env, step) not in {(e, s) for e, s, _ in begun}]
    assert len(begun) > 100 and len(wrapped) > 10
    assert frames.max() == last and len(np.unique([frame for *_, frame in begun])) > 50
    low, high = model.jnt_range[1:].T
    middle, half = (low + high) / 2, 0.9 * (high - low) / 2
    for env, step, frame in begun + wrapped:
        if frame < 0:  # the reset drew the last frame, behind which there is another draw
            frame = frames[env, step]
        qpos, qvel = recorded["qpos"][env, step], recorded["qvel"][env, step]
        np.testing.assert_allclose(qpos[:3], motion["body_pos_w"][frame, 0], atol=1e-12)
        np.testing.assert_allclose(qpos[3:7], motion["body_quat_w"][frame, 0], atol=1e-12)
        np.testing.assert_allclose(qpos[7:], np.clip(motion["joint_pos"][frame], middle - half, middle + half), atol=1e-12)
        np.testing.assert_allclose(qvel[:3], motion["body_lin_vel_w"][frame, 0], atol=1e-12)
        rate = np.zeros(3)
        mujoco.mju_rotVecQuat(rate, motion["body_ang_vel_w"][frame, 0].astype(float), qpos[3:7] * [1, -1, -1, -1])
        np.testing.assert_allclose(qvel[3:6], rate, atol=1e-12)
        np.testing.assert_allclose(qvel[6:], motion["joint_vel"][frame], atol=1e-12)
    goes_on = np.ones(frames.shape, bool)
    for env, step, _ in begun + wrapped:
        goes_on[env, step] = False
    assert (np.diff(frames, axis=1)[goes_on[:, 1:]] == 1).all()


def test_offsets_are_within_their_ranges(maniple, motion, tmp_path):
    _, recorded = rolled_out(maniple, tmp_path / "run", "control.source=zero", "task.commands.motion.sampling_mode=start", steps=1, envs=512)
    qpos, qvel = recorded["qpos"][:, 0], recorded["qvel"][:, 0]
    assert (recorded["motion_frame"][:, 0, 0] == 1).all()
    turned = [Rotation.from_quat(np.roll(q, -1)) * Rotation.from_quat(np.roll(motion["body_quat_w"][0, 0], -1)).inv() for q in qpos[:, 3:7]]
    rates = np.array([Rotation.from_quat(np.roll(q, -1)).apply(v) for q, v in zip(qpos[:, 3:7], qvel[:, 3:6])])
    away = np.concatenate([qpos[:, :3] - motion["body_pos_w"][0, 0], [turn.as_euler("xyz") for turn in turned],
                           qvel[:, :3] - motion["body_lin_vel_w"][0, 0], rates - motion["body_ang_vel_w"][0, 0]], axis=1)
    most = np.array([0.05, 0.05, 0.01, 0.1, 0.1, 0.2, 0.5, 0.5, 0.2, 0.52, 0.52, 0.78])
    np.testing.assert_allclose(away.max(axis=0), most, rtol=0.04)
    np.testing.assert_allclose(away.min(axis=0), -most, rtol=0.04)
    joints = qpos[:, 7:] - motion["joint_pos"][0]
    np.testing.assert_allclose(np.abs(joints).max(), 0.1, rtol=0.03)
    assert (np.abs(joints).max(axis=0) > 0.09).sum() > 25  # (others are at the end of their range)


def test_sampling_follows_failures_on_any_ranks(maniple, tmp_path):
    """Trainings on one and two ranks, and one that was resumed, have the same bits; parts of the motion that failed more
    begin more episodes, by the formula of mjlab."""
    settings = [maniple.root / DECK, "batch.num_envs=64", "learning.horizon=8", "learning.checkpoint_every=2", "learning.keep_checkpoints=9",
                "policy.hidden=[16]", "task.commands.motion.adaptive_alpha=0.2", "task.commands.motion.adaptive_kernel_size=2"]
    maniple("train", *settings, "learning.iterations=8", f"output.directory={tmp_path}/one")
    maniple("train", *settings, "learning.iterations=8", f"output.directory={tmp_path}/two", ranks=2)
    maniple("train", *settings, "learning.iterations=4", f"output.directory={tmp_path}/parts", ranks=2)
    maniple("train", *settings, "learning.iterations=8", "learning.resume=auto", f"output.directory={tmp_path}/parts")
    assert digests(maniple, tmp_path / "one") == digests(maniple, tmp_path / "two")
    assert digests(maniple, tmp_path / "one")[1:] == digests(maniple, tmp_path / "parts")[1:]
    saved = []
    for path in maniple.checkpoints(tmp_path / "one"):
        with h5py.File(path) as file:
            saved.append({name: file[f"motion/{name}"][()] for name in ("failed", "counted", "control_step")})
    bins = 161 // 50 + 1
    assert [one["control_step"][()].item() for one in saved] == [16, 32, 48, 64] and saved[-1]["counted"].sum() > 20
    assert all(one["failed"].shape == (bins,) for one in saved) and (np.diff([one["counted"] for one in saved], axis=0) >= 0).all()
    assert saved[-1]["failed"].std() > 0


@pytest.mark.parametrize("compressed", [False, True])
def test_files_of_numpy(maniple, motion, tmp_path, compressed):
    arrays = dict(motion)
    arrays["joint_pos"], arrays["joint_vel"] = np.asfortranarray(arrays["joint_pos"]), arrays["joint_vel"].astype(float)  # as indexing leaves them
    arrays["body_pos_w"] = np.asfortranarray(arrays["body_pos_w"])
    (np.savez_compressed if compressed else np.savez)(tmp_path / "copy.npz", **arrays, note=np.array("a text"), half=np.zeros(3, np.float16))
    with zipfile.ZipFile(tmp_path / "copy.npz", "a") as file:
        file.comment = b"whose comment has the mark of an end PK\x05\x06 in it"
    for i, file in enumerate([MOTION, tmp_path / "copy.npz"]):
        maniple("rollout", maniple.root / DECK, "batch.num_envs=8", "simulation.steps=5", "initial_state.source=task",
                f"task.commands.motion.file={file}", f"output.directory={tmp_path}/{i}")
    assert maniple.digest(tmp_path / "0/results.h5") == maniple.digest(tmp_path / "1/results.h5")


def bad_file(name, arrays, path):
    """Writes a file that is no motion of this robot; returns what the message says."""
    if name == "cut off":
        np.savez(path, **arrays)
        path.write_bytes(path.read_bytes()[:-40])
        return "is no ZIP archive, or is cut off"
    if name == "damaged":
        np.savez(path, **arrays)
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
        return "is damaged"
    if name == "text":
        path.write_text("joint_pos" * 100)
        return "is no ZIP archive"
    if name == "empty":
        path.write_bytes(b"")
        return "is no ZIP archive"
    if name == "other robot":
        arrays["joint_pos"] = arrays["joint_pos"][:, :12]
        said = "has joint_pos [161, 12]; [161, 29] for this robot"
    elif name == "other bodies":
        arrays["body_pos_w"] = arrays["body_pos_w"][:, :14]
        said = "has body_pos_w [161, 14, 3]; [161, 30, 3]"
    elif name == "lacks":
        del arrays["body_quat_w"]
        said = "lacks body_quat_w"
    elif name == "other order":  # Isaac Lab's: breadth first
        order = np.argsort([0, 6, 12, 1, 7, 13, 2, 8, 14, 3, 9, 15, 22, 4, 10, 16, 23, 5, 11, 17, 24, 18, 25, 19, 26, 20, 27, 21, 28])
        arrays |= {key: arrays[key][:, order] for key in ("joint_pos", "joint_vel")}
        said = "m from where the joint positions put it, in frame 0; joints and bodies of this robot in the order of MuJoCo's model"
    elif name == "half precision":
        arrays["joint_pos"] = arrays["joint_pos"].astype(np.float16)
        said = "has joint_pos of NumPy's type '<f2'; float32 or float64"
    elif name == "rates":
        arrays["fps"] = np.array([50, 50])
        said = "has fps that are not a number"
    elif name == "huge":
        np.savez(path, **arrays)
        with zipfile.ZipFile(path) as file:
            members = {entry: file.read(entry) for entry in file.namelist()}
        header = members["joint_pos.npy"]
        members["joint_pos.npy"] = header.replace(b"(161, 29), }", b"(99999999999999999999, 29), }")[:len(header)]
        with zipfile.ZipFile(path, "w") as file:
            for entry, content in members.items():
                file.writestr(entry, content)
        return "has an array that is cut off"
    elif name == "rate":
        arrays["fps"] = np.array([30])
        said = "has 30 frames per second, and the task 50 control steps"
    elif name == "not finite":
        arrays["joint_vel"] = arrays["joint_vel"].copy()
        arrays["joint_vel"][7, 3] = np.nan
        said = "has a joint_vel that is not finite, in frame 7"
    elif name == "quaternion":
        arrays["body_quat_w"] = 2 * arrays["body_quat_w"]
        said = "has a quaternion of length 2, in frame 0"
    else:
        arrays = {key: value[:1] if np.ndim(value) > 1 else value for key, value in arrays.items()}
        said = "has 1 frames"
    np.savez(path, **arrays)
    return said


@pytest.mark.parametrize("name", ["cut off", "damaged", "text", "empty", "other robot", "other bodies", "other order", "half precision", "huge", "rates", "lacks", "rate", "not finite", "quaternion", "short"])
def test_what_is_no_motion_is_refused(maniple, motion, tmp_path, name):
    said = bad_file(name, dict(motion), tmp_path / "bad.npz")
    refused = maniple("validate", maniple.root / DECK, f"task.commands.motion.file={tmp_path}/bad.npz", exit_code=2)
    assert said in refused.stderr and "task.commands.motion.file" in refused.stderr, refused.stderr


@pytest.mark.parametrize("setting, said", [
    ("task.commands.motion.anchor_body=head", "'head' is no tracked body"),
    ("task.commands.motion.bodies=[torso_link, pelvis]", "'torso_link' comes first and is not the root of the robot; 'pelvis' first"),
    ("task.commands.motion.file=~", "found no file"),
    ("task.commands.second={term: motion_command, bodies: [pelvis], file: " + MOTION + "}", "found a second motion"),
    ("task.commands.other={expression: \"1\", sampling_mode: start}", "sampling_mode: set without a motion"),
    ("task.rewards.motion_body_pos.bodies=[left_toe_link]", "left_toe_link"),
    ("task.rewards.motion_body_pos.bodies=[waist_yaw_link]", "'waist_yaw_link' is no tracked body"),
    ("task.variables.motion_body_pos_relative_w={reset: \"1\"}", "is the name of a variable, too"),
    ("task.commands.motion.every=3", "every: set for a motion"),
    ("task.commands.motion.adaptive_kernel_size=2.5", "adaptive_kernel_size: found 2.5; allowed: whole numbers"),
    ("task.settle_steps=5", "task.settle_steps: found 5 with a motion"),
    ("task.commands.motion=~", "without a motion; a command with term: motion_command"),
])
def test_mistakes_are_named(maniple, setting, said):
    refused = maniple("validate", maniple.root / DECK, setting, exit_code=2, cwd=maniple.root)
    assert said in refused.stderr, refused.stderr


LEG = """<body name="robot" pos="0 0 1"><freejoint name="base"/><geom size=".1" mass="3" contype="0" conaffinity="0"/>
      <body name="leg" pos="0 0 -.1"><joint name="hip" axis="0 1 0" range="-90 90"/><geom type="capsule" fromto="0 0 0 0 0 -.3" size=".03" contype="0" conaffinity="0"/></body></body>"""
AROUND = {  # other bodies before and behind the robot, of which the file has nothing
    "alone": ("", ""),
    "ball first": ('<body name="ball" pos="3 0 1"><freejoint name="ball"/><geom size=".1" contype="0" conaffinity="0"/></body>', ""),
    "table first": ('<body name="table" pos="2 0 0"><geom type="box" size=".3 .3 .3"/></body>', ""),
    "door behind": ("", '<body name="door" pos="0 4 0"><joint name="hinge" axis="0 0 1"/><geom type="box" size=".3 .02 .5" contype="0" conaffinity="0"/></body>'),
}
SMALL = """
model: {{file: small.xml}}
batch: {{num_envs: 64}}
simulation: {{decimation: 5, precision: double}}
task:
  name: small
  episode_steps: 30
  commands: {{ramp: {{term: motion_command, file: ramp.npz, bodies: [robot, leg], {keys}}}}}
  actions: [{{term: actuator_control, actuators: [".*"]}}]
  observations: [{{expression: "[ramp_frame, ramp_joint_pos]"}}]
  rewards: {{near: {{term: motion_global_anchor_position_error_exp, std: 1, weight: 1}}}}
  terminations: {{time_out: {{term: time_out}}{terminations}}}
  {curricula}
"""


def small(folder, around="alone", frames=120, keys="sampling_mode: uniform, joint_position_range: [0, 0]", terminations="", curricula=""):
    """A small robot, maybe among others, and a motion that rises steadily; the deck of both."""
    before, behind = AROUND[around]
    (folder / "small.xml").write_text(f"""<mujoco><option timestep="0.004" gravity="0 0 0"/><worldbody>{before}{LEG}{behind}</worldbody>
      <actuator><motor joint="hip"/></actuator></mujoco>""")
    robot = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{LEG}</worldbody></mujoco>")
    from maniple.motion import motion_of
    poses = np.tile(robot.qpos0, (frames, 1))
    poses[:, 2], poses[:, 7] = 5 + 0.01 * np.arange(frames), np.linspace(0, 1, frames)
    np.savez(folder / "ramp.npz", **motion_of(robot, poses, 50))
    (folder / "small.yaml").write_text(SMALL.format(keys=keys, terminations=terminations, curricula=curricula))
    return folder / "small.yaml", poses


@pytest.mark.parametrize("around", AROUND)
def test_robots_among_others(maniple, tmp_path, around):
    """The robot is that of the tracked bodies, wherever it stands in the model; others stay where they are."""
    deck, poses = small(tmp_path, around)
    maniple("rollout", deck, "simulation.steps=1", "initial_state.source=task", "control.source=zero", "output.trajectory.every=1",
            "output.trajectory.fields=[qpos, motion_frame]", f"output.directory={tmp_path}/run")
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "small.xml"))
    base, hip = model.joint("base").qposadr[0], model.joint("hip").qposadr[0]
    with h5py.File(tmp_path / "run/results.h5") as file:
        qpos, frames = file["trajectory/qpos"][:, 0], file["trajectory/motion_frame"][:, 0, 0].astype(int)
    own = [*range(base, base + 7), hip]
    for row, frame in zip(qpos, frames):
        first = frame - 1 if frame > 0 else frame
        assert any(np.allclose(row[own], poses[k], atol=1e-6) for k in {first, frame})
    others = [k for k in range(model.nq) if k not in own]
    np.testing.assert_allclose(qpos[:, others], np.tile(model.qpos0[others], (len(qpos), 1)), atol=1e-12)


def test_ball_joints_are_refused(maniple, tmp_path):
    deck, _ = small(tmp_path)
    text = (tmp_path / "small.xml").read_text().replace("</body></body>", '<body><joint name="wrist" type="ball"/><geom size=".02"/></body></body></body>', 1)
    (tmp_path / "small.xml").write_text(text)
    assert "the robot has the ball joint 'wrist'" in maniple("validate", deck, exit_code=2).stderr


def test_episodes_begin_where_they_fail(maniple, tmp_path):
    """Failures from frame 90 of 120 on, in the last of three parts: they are counted there, and nearly all episodes begin there
    in the end; with curricula, whose numbers lie before those of the sampling. Final observations are of the frame that would
    have been next, at the end of the motion of the last one."""
    deck, _ = small(tmp_path, keys="adaptive_alpha: 0.3, joint_position_range: [0, 0]", terminations=', late: {expression: "ramp_frame > 90"}',
                    curricula='curricula: {one: {reset: "1", update: "one + 1"}, two: {reset: "2"}}')
    maniple("train", deck, "learning.horizon=20", "learning.iterations=12", "policy.hidden=[8]", "learning.checkpoint_every=1", "learning.keep_checkpoints=20",
            f"output.directory={tmp_path}/run")
    with h5py.File(maniple.checkpoints(tmp_path / "run")[-1]) as file:
        counted, failed = file["motion/counted"][()], file["motion/failed"][()]
        kept = file["task/motion_frame"][()].reshape(-1)
    assert counted[:2].sum() == 0 and counted[2] > 100 and failed[:2].sum() == 0 and failed[2] > 1
    assert (kept > 75).mean() > 0.9, kept
    with h5py.File(tmp_path / "run/results.h5") as file:
        entropy = file["metrics/motion_sampling_entropy"][()]
    assert entropy[0] > entropy[-1] > 0 and entropy[-1] < 0.2
    maniple("rollout", deck, "simulation.steps=60", "initial_state.source=task", "control.source=zero", "task.commands.ramp.sampling_mode=uniform",
            "output.trajectory.every=1", "output.trajectory.fields=[motion_frame, observation, final_observation, terminated, truncated]",
            f"output.directory={tmp_path}/rolled", "task.terminations.late=~")
    with h5py.File(tmp_path / "rolled/results.h5") as file:
        frames, final = file["trajectory/motion_frame"][..., 0], file["trajectory/final_observation"][()]
        observed, ended = file["trajectory/observation"][()], file["trajectory/truncated"][..., 0] > 0
    assert ended.sum() > 60
    np.testing.assert_array_equal(observed[..., 0], frames)
    np.testing.assert_array_equal(final[:, 1:, 0][ended[:, 1:]], frames[:, :-1][ended[:, 1:]] + 1)
    np.testing.assert_allclose(final[:, 1:, 1], np.minimum(final[:, 1:, 0], 119) / 119, atol=1e-6)


ROBOT = "package:mjlab/asset_zoo/robots/unitree_g1/xmls/g1.xml"


def made(source, target, *arguments, exit_code=0):
    result = start_tool("motion.py", source, target, *arguments)
    assert result.returncode == exit_code, result.stderr
    return result.stderr if exit_code else np.load(target)


def test_tool_makes_the_motion_of_the_deck(maniple, motion, tmp_path):
    """From its table; velocities are those of the poses, by differences of the bodies themselves."""
    found = made(maniple.root / "inputs/motions/g1_squat.csv", tmp_path / "squat.npz", "--model", ROBOT, "--input-fps", 10)
    assert set(found.files) == set(motion)
    for name in motion:
        np.testing.assert_allclose(found[name], motion[name], atol=2e-6, err_msg=name)
    moved = np.gradient(found["body_pos_w"].astype(float), 0.02, axis=0)
    assert np.abs(found["body_lin_vel_w"] - moved)[1:-1].max() < 0.005 and np.abs(moved).max() > 0.4
    q = found["body_quat_w"].astype(float)
    turned = 2 * (q[2:] - q[:-2]) / 0.04
    w, v = q[1:-1, :, :1], q[1:-1, :, 1:]
    rate = turned[..., 1:] * w - turned[..., :1] * v + np.cross(v, turned[..., 1:])  # 2 dq/dt q*, its vector
    assert np.abs(found["body_ang_vel_w"][1:-1] - rate).max() < 0.05 and np.abs(rate).max() > 1
    half = made(maniple.root / "inputs/motions/g1_squat.csv", tmp_path / "part.npz", "--model", ROBOT, "--input-fps", 10, "--fps", 20,
                "--frames", "1:17")
    assert half["joint_pos"].shape == (33, 29) and half["fps"][0] == 20
    np.testing.assert_allclose(half["joint_pos"][::2], np.loadtxt(maniple.root / "inputs/motions/g1_squat.csv", delimiter=",")[:17, 7:], atol=1e-6)


def test_tool_takes_a_run(maniple, tmp_path):
    """A robot without a free joint, whose motion the same robot can follow."""
    maniple("rollout", "model.file=inputs/models/arm6.xml", "batch.num_envs=3", "simulation.steps=40", "simulation.decimation=5", "control.source=random",
            "output.trajectory.every=1", "output.trajectory.fields=[qpos, qvel, time]", f"output.directory={tmp_path}/run")
    with h5py.File(tmp_path / "run/results.h5") as file:
        qpos = file["trajectory/qpos"][2]
        model = mujoco.MjModel.from_binary_path("model.mjb", {"model.mjb": file["run/model_mjb"][()].tobytes()})
    found = made(tmp_path / "run", tmp_path / "arm.npz", "--env", 2, "--fps", 1 / (5 * model.opt.timestep))
    np.testing.assert_allclose(found["joint_pos"], qpos, atol=1e-6)
    data = mujoco.MjData(model)
    for frame in range(41):
        data.qpos[:] = qpos[frame]
        mujoco.mj_kinematics(model, data)
        np.testing.assert_allclose(found["body_pos_w"][frame], data.xpos[1:], atol=1e-6)
    (tmp_path / "follow.yaml").write_text(f"""
model: {{file: {maniple.root}/inputs/models/arm6.xml}}
simulation: {{decimation: 5}}
task:
  name: follow
  episode_steps: 20
  commands: {{arm: {{term: motion_command, file: arm.npz, bodies: ["{model.body(1).name}", "{model.body(model.nbody - 1).name}"], sampling_mode: start, joint_position_range: [0, 0]}}}}
  actions: [{{term: actuator_control, actuators: [".*"]}}]
  observations: [{{term: generated_commands}}]
  rewards: {{near: {{expression: "exp(-sum(square(arm_joint_pos - joint_pos)))", weight: 1}}}}
  terminations: {{time_out: {{term: time_out}}}}
""")
    maniple("rollout", tmp_path / "follow.yaml", "batch.num_envs=4", "simulation.steps=2", "initial_state.source=task", "output.trajectory.every=1",
            "output.trajectory.fields=[qpos, motion_frame]", f"output.directory={tmp_path}/followed")
    with h5py.File(tmp_path / "followed/results.h5") as file:
        np.testing.assert_allclose(file["trajectory/qpos"][:, 0], np.tile(qpos[0], (4, 1)), atol=1e-6)
        assert (file["trajectory/motion_frame"][0, :, 0] == [1, 2, 3]).all()


def test_tool_refuses(maniple, tmp_path):
    csv = maniple.root / "inputs/motions/g1_squat.csv"
    (tmp_path / "bad.csv").write_text("1, 2, 3\n4, 5, 6\n")
    (tmp_path / "there.npz").write_text("")
    for arguments, said in [((csv, tmp_path / "a.npz"), "a table needs --model"),
                            ((tmp_path / "bad.csv", tmp_path / "a.npz", "--model", ROBOT), "found 2 rows of 3 numbers; allowed: at least 2 rows of 36"),
                            ((csv, tmp_path / "a.npz", "--model", maniple.root / "inputs/models/lift_cube.xml"), "found a model with other joints"),
                            ((csv, tmp_path / "a.npz", "--model", ROBOT, "--frames", "9:3"), "--frames 9:3: allowed: FIRST:LAST"),
                            ((csv, tmp_path / "a.npz", "--model", ROBOT, "--fps", 0), "--fps 0.0: allowed: above 0"),
                            ((csv, tmp_path / "a.csv", "--model", ROBOT), "a name that ends with .npz"),
                            ((csv, tmp_path / "there.npz", "--model", ROBOT), "--overwrite")]:
        assert said in made(*arguments, exit_code=2)
    assert not (tmp_path / "a.npz").exists()
