"""Reference motions for motion_command in mjlab's format (.npz): from a table of poses, or from a recorded run.

    python -m maniple.motion dance.csv dance.npz --model package:mjlab/asset_zoo/robots/unitree_g1/xmls/g1.xml --input-fps 30
    python -m maniple.motion runs/walk walk.npz --env 3

A table has a row of numbers for each frame: position of the root (x, y, z), its orientation (x, y, z, w) and the joint
positions in the model's order, as the files of LAFAN1 retargeted by Unitree have; a robot without a free joint has the
joint positions alone. A run has /trajectory/qpos. Poses are interpolated to --fps frames per second, and velocities are
differences of neighbouring frames, as mjlab's csv_to_npz computes them.
"""

import argparse
from pathlib import Path

import mujoco
import numpy as np

from maniple.replay_sources import load_model
from maniple.results import Run, Unreadable, check_outputs, refuse


def product(a, b):
    """Products of quaternions (w, x, y, z), [..., 4]."""
    w, x = a[..., :1], a[..., 1:]
    v, y = b[..., :1], b[..., 1:]
    return np.concatenate([w * v - np.sum(x * y, axis=-1, keepdims=True), w * y + v * x + np.cross(x, y)], axis=-1)


def conjugate(q):
    return q * [1, -1, -1, -1]


def rotation_vector(q):
    """Axis times angle [rad], the short way round."""
    q = np.where(q[..., :1] < 0, -q, q)
    size = np.linalg.norm(q[..., 1:], axis=-1, keepdims=True)
    angle = 2 * np.arctan2(size, q[..., :1])
    return np.where(size > 1e-12, angle / np.maximum(size, 1e-12), 2.0) * q[..., 1:]


def resampled(poses, input_fps, fps, free):
    """Poses [frame, nq] at another rate: linear, of the root's orientation along the shortest arc."""
    count = int(np.floor((len(poses) - 1) / input_fps * fps + 1e-9)) + 1
    place = np.minimum(np.arange(count) * (input_fps / fps), len(poses) - 1)
    first = np.minimum(place.astype(int), len(poses) - 2)
    share = (place - first)[:, None]
    result = (1 - share) * poses[first] + share * poses[first + 1]
    if free:
        a, b = poses[first, 3:7], poses[first + 1, 3:7]
        turn = share * rotation_vector(product(b, conjugate(a)))
        half = np.linalg.norm(turn, axis=1, keepdims=True) / 2
        step = np.concatenate([np.cos(half), turn * np.where(half > 1e-12, np.sin(half) / np.maximum(2 * half, 1e-12), 0.5)], axis=1)
        result[:, 3:7] = product(step, a)
        result[:, 3:7] /= np.linalg.norm(result[:, 3:7], axis=1, keepdims=True)
    return result


def motion_of(model, poses, fps):
    """The arrays of a motion, of poses [frame, nq] at `fps` frames per second."""
    free = has_free_root(model)
    dt = 1 / fps
    velocities = np.zeros((len(poses), model.nv))
    joints = poses[:, 7:] if free else poses
    velocities[:, 6 if free else 0:] = np.gradient(joints, dt, axis=0)
    if free:
        velocities[:, :3] = np.gradient(poses[:, :3], dt, axis=0)
        q = poses[:, 3:7]
        rates = rotation_vector(product(q[2:], conjugate(q[:-2]))) / (2 * dt)  # world axes
        rates = np.concatenate([rates[:1], rates, rates[-1:]])
        for frame, rate in enumerate(rates):
            mujoco.mju_rotVecQuat(velocities[frame, 3:6], rate, q[frame] * [1, -1, -1, -1])
    data, velocity = mujoco.MjData(model), np.zeros(6)
    bodies = range(1, model.nbody)
    motion = {name: np.zeros((len(poses), len(bodies), size), np.float32)
              for name, size in (("body_pos_w", 3), ("body_quat_w", 4), ("body_lin_vel_w", 3), ("body_ang_vel_w", 3))}
    for frame, pose in enumerate(poses):
        data.qpos[:], data.qvel[:] = pose, velocities[frame]
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_comVel(model, data)
        motion["body_pos_w"][frame], motion["body_quat_w"][frame] = data.xpos[1:], data.xquat[1:]
        for body in bodies:
            mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_XBODY, body, velocity, 0)
            motion["body_ang_vel_w"][frame, body - 1], motion["body_lin_vel_w"][frame, body - 1] = velocity[:3], velocity[3:]
    return {"fps": np.array([fps]), "joint_pos": joints.astype(np.float32),
            "joint_vel": velocities[:, 6 if free else 0:].astype(np.float32), **motion}


def has_free_root(model):
    """Whether the first joint is free; the others must be hinges and slides."""
    kinds = [mujoco.mjtJoint(kind) for kind in model.jnt_type]
    scalar = (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)
    free = kinds[:1] == [mujoco.mjtJoint.mjJNT_FREE]
    if not kinds or any(kind not in scalar for kind in kinds[int(free):]):
        raise Unreadable("found a model with other joints; allowed: one robot, with a free joint or none, then hinges and slides")
    return free


def poses_of_table(path, model):
    try:
        table = np.loadtxt(path, delimiter=",", ndmin=2, comments="#")
    except (OSError, ValueError) as error:
        raise Unreadable(f"{path}: no table of numbers: {error}") from None
    if table.shape[1] != model.nq or len(table) < 2:
        raise Unreadable(f"{path}: found {len(table)} rows of {table.shape[1]} numbers; allowed: at least 2 rows of {model.nq} for this model")
    if not np.isfinite(table).all():
        raise Unreadable(f"{path}: row {1 + int(np.argmin(np.isfinite(table).all(axis=1)))} has a number that is not finite")
    if has_free_root(model):
        table[:, 3:7] = table[:, [6, 3, 4, 5]]
        size = np.linalg.norm(table[:, 3:7], axis=1, keepdims=True)
        if (np.abs(size - 1) > 0.01).any():
            raise Unreadable(f"{path}: row {1 + int(np.argmax(np.abs(size - 1)))} has no unit quaternion (x, y, z, w) in columns 4 to 7")
        table[:, 3:7] /= size
    return table


def poses_of_run(path, env):
    """Poses of an environment, up to the end of its first episode where the run recorded `time`; their rate, and the model."""
    with Run(path) as run:
        if "qpos" not in run.trajectories:
            raise Unreadable(f"{path}: no /trajectory/qpos; record it with output.trajectory.fields=[qpos, time] and output.trajectory.every=1")
        qpos, steps = run.trajectories["qpos"], run.trajectories["step"][()]
        if not 0 <= env < qpos.shape[0]:
            raise Unreadable(f"{path}: no environment {env}; allowed: 0 to {qpos.shape[0] - 1}")
        count = len(steps)
        if "time" in run.trajectories:
            ends = np.flatnonzero(np.diff(run.trajectories["time"][env, :, 0]) <= 0)
            count = int(ends[0]) + 1 if len(ends) else count
        if count < 2:
            raise Unreadable(f"{path}: found {count} recorded states in the first episode; allowed: at least 2")
        return qpos[env, :count].astype(float), 1 / (run.control_timestep() * float(steps[1] - steps[0])), run.model


def frames_of(text, poses):
    """The rows FIRST:LAST, from 1, both included."""
    first, separator, last = text.partition(":")
    if not (separator and first.isdigit() and last.isdigit() and 1 <= int(first) < int(last) <= len(poses)):
        raise Unreadable(f"--frames {text}: allowed: FIRST:LAST, two of the rows 1 to {len(poses)}")
    return poses[int(first) - 1:int(last)]


def write(given):
    """Returns a line that summarizes the motion."""
    check_outputs([given.motion], [given.source], given.overwrite)
    if given.motion.suffix != ".npz":
        raise Unreadable(f"{given.motion}: allowed: a name that ends with .npz")
    for name in ("input_fps", "fps"):
        if not 0 < getattr(given, name) < 1e6:
            raise Unreadable(f"--{name.replace('_', '-')} {getattr(given, name)}: allowed: above 0")
    if given.source.suffix == ".csv":
        if given.model is None:
            raise Unreadable(f"{given.source}: a table needs --model, the robot whose poses it has")
        model = load_model(given.model)
        has_free_root(model)  # or is refused
        poses, rate = poses_of_table(given.source, model), given.input_fps
    else:
        poses, rate, model = poses_of_run(given.source, given.env)
    free = has_free_root(model)
    poses = resampled(frames_of(given.frames, poses) if given.frames else poses, rate, given.fps, free)
    if len(poses) < 3:
        raise Unreadable(f"{given.source}: found {len(poses)} frames at {given.fps:g} per second; allowed: at least 3")
    np.savez_compressed(given.motion, **motion_of(model, poses, given.fps))
    return f"{given.motion}: {len(poses)} frames, {len(poses) / given.fps:.2f} s, {model.nbody - 1} bodies"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="CSV file of poses, or a run with /trajectory/qpos")
    parser.add_argument("motion", type=Path, help="file to write (.npz)")
    parser.add_argument("--model", help="MJCF, URDF, MJB, or package:<package>/<path>; needed for a table")
    parser.add_argument("--input-fps", type=float, default=30, help="frames per second of the table (default: 30)")
    parser.add_argument("--fps", type=float, default=50, help="frames per second of the motion, control steps of the task (default: 50)")
    parser.add_argument("--frames", metavar="FIRST:LAST", help="rows of the source to take, from 1, both included")
    parser.add_argument("--env", type=int, default=0, help="environment of the run (default: 0)")
    parser.add_argument("--overwrite", action="store_true", help="replace a file that is there already")
    try:
        print(write(parser.parse_args()))
    except OSError as error:
        refuse(error)


if __name__ == "__main__":
    main()
