"""Makes a page of a run on which its robots move: RUN/replay.html, one file that any browser opens, without a server.

    python -m maniple.replay runs/arm                    # a rollout that recorded qpos
    python -m maniple.replay runs/pendulum               # a training: its newest policy is rolled out first, for seconds

Everything comes from results.h5: the geometry from the model in it, poses from qpos by MuJoCo's kinematics. Contacts
and their forces are MuJoCo's for the recorded state (forces need qvel; ctrl and act where the model has them); the
curves beside the scene are reward, reward_term and action (or ctrl), as far as they were recorded.
"""

import argparse
import base64
import json
import re
import subprocess
import sys
import zlib
from contextlib import ExitStack
from pathlib import Path

import mujoco
import numpy as np

from maniple.process import program
from maniple.results import Run, refuse, what_is_missing

PAGE = Path(__file__).resolve().parent / "replay_page"
THREE = Path("/usr/share/javascript/three")  # Debian's libjs-three
MOST_ENVS = 1000  # that a browser still draws
FIELDS = ("qpos", "qvel", "act", "ctrl", "action", "reward", "reward_term", "terminated", "truncated")
SHAPES = {int(getattr(mujoco.mjtGeom, "mjGEOM_" + kind.upper())): shape for kind, shape in (
    ("plane", "plane"), ("hfield", "mesh"), ("sphere", "sphere"), ("capsule", "capsule"), ("ellipsoid", "ellipsoid"),
    ("cylinder", "cylinder"), ("box", "box"), ("mesh", "mesh"))}
FIRST_HIDDEN_GROUP = 3  # of geoms, as in MuJoCo's viewer
DEFAULT_COLOUR = np.array([0.5, 0.5, 0.5, 1], np.float32)
TREE_COLOURS = np.array([[0.33, 0.52, 0.80], [0.86, 0.55, 0.29], [0.36, 0.66, 0.48], [0.78, 0.38, 0.42], [0.55, 0.45, 0.72],
                         [0.28, 0.64, 0.68]])


class Blob:
    """Arrays end to end; the page finds them by place, shape and type."""

    def __init__(self):
        self.parts, self.size, self.index = [], 0, {}

    def add(self, name, values, dtype):
        values = np.ascontiguousarray(values, dtype=dtype)
        self.index[name] = {"at": self.size, "type": values.dtype.name, "shape": values.shape}
        padded = values.tobytes() + bytes(-values.nbytes % 8)
        self.parts.append(padded)
        self.size += len(padded)
        return name

    def text(self):
        return base64.b64encode(zlib.compress(b"".join(self.parts), 9)).decode()


def simplified(vertices, faces, most):
    """The mesh with at most this many faces: vertices of a cell of a grid become their mean (Rossignac and Borrel 1993)."""
    if len(faces) <= most:
        return vertices, faces
    lowest, extent = vertices.min(0), max(np.ptp(vertices, axis=0).max(), 1e-9)

    def clustered(cells):
        cell = np.floor((vertices - lowest) / extent * cells).astype(np.int64)
        _, of_vertex = np.unique(cell @ np.array([1, 1 << 20, 1 << 40]), return_inverse=True)
        counts = np.bincount(of_vertex)
        means = np.stack([np.bincount(of_vertex, vertices[:, i]) / counts for i in range(3)], axis=1)
        kept = of_vertex[faces]
        kept = kept[(kept[:, 0] != kept[:, 1]) & (kept[:, 1] != kept[:, 2]) & (kept[:, 2] != kept[:, 0])]
        first = kept.argmin(axis=1)[:, None]
        turned = np.take_along_axis(kept, (first + np.arange(3)) % 3, axis=1)
        return means, np.unique(turned, axis=0)

    cells = 2 * np.sqrt(most)  # faces go with the square of the cells
    while True:
        means, kept = clustered(cells)
        if len(kept) <= most:
            return means, kept
        cells *= 0.97 * np.sqrt(most / len(kept))


def height_field(model, k):
    rows, columns = model.hfield_nrow[k], model.hfield_ncol[k]
    x, y, top, _ = model.hfield_size[k]
    data = model.hfield_data[model.hfield_adr[k]:][: rows * columns]
    grid = np.stack(np.meshgrid(np.linspace(-x, x, columns), np.linspace(-y, y, rows)), axis=-1).reshape(-1, 2)
    corner = (np.arange(rows - 1)[:, None] * columns + np.arange(columns - 1)).ravel()
    faces = np.concatenate([np.stack([corner, corner + 1, corner + columns + 1], axis=1),
                            np.stack([corner, corner + columns + 1, corner + columns], axis=1)])
    return np.column_stack([grid, data * top]), faces


def mesh_of(model, geom):
    k = model.geom_dataid[geom]
    if model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_HFIELD:
        return height_field(model, k)
    vertices = model.mesh_vert[model.mesh_vertadr[k]:][: model.mesh_vertnum[k]]
    return vertices.astype(float), model.mesh_face[model.mesh_faceadr[k]:][: model.mesh_facenum[k]]


def colour(model, geom):
    """That of the model; geoms of moving bodies that have MuJoCo's default grey get a colour of their tree and body."""
    material = model.geom_matid[geom]
    rgba = model.mat_rgba[material] if material >= 0 else model.geom_rgba[geom]
    body = model.geom_bodyid[geom]
    if material < 0 and (rgba == DEFAULT_COLOUR).all() and model.body_weldid[body] != 0:
        root = model.body_rootid[body]
        tree = int(np.unique(model.body_rootid[1:]).searchsorted(root))
        shade = 1 - 0.22 * ((model.body_weldid[body] - root) % 2)  # neighbours are told apart
        rgba = np.array([*(shade * TREE_COLOURS[tree % len(TREE_COLOURS)]), 1])
    return rgba.round(4).tolist()


def geometry(model, blob, most_faces):
    """The geoms, each in the frame of the body that it moves with, and the bodies that move."""
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    moving = [b for b in range(1, model.nbody) if model.body_weldid[b] == b]
    place = {body: i for i, body in enumerate(moving)}
    shown = [g for g in range(model.ngeom) if int(model.geom_type[g]) in SHAPES]
    in_meshes = sum(len(mesh_of(model, g)[1]) for g in shown if SHAPES[int(model.geom_type[g])] == "mesh"
                    and model.geom_group[g] < FIRST_HIDDEN_GROUP)
    share = min(1.0, most_faces / max(1, in_meshes))
    geoms = []
    for g in shown:
        body = model.body_weldid[model.geom_bodyid[g]]
        inverse, turn, offset, quat = np.zeros(4), np.zeros(4), np.zeros(3), np.zeros(4)
        mujoco.mju_negQuat(inverse, data.xquat[body])
        mujoco.mju_mat2Quat(quat, data.geom_xmat[g])
        mujoco.mju_mulQuat(turn, inverse, quat)
        mujoco.mju_rotVecQuat(offset, data.geom_xpos[g] - data.xpos[body], inverse)
        shape = SHAPES[int(model.geom_type[g])]
        entry = {"shape": shape, "size": model.geom_size[g].round(6).tolist(), "pos": offset.round(6).tolist(),
                 "quat": turn.round(6).tolist(), "rgba": colour(model, g), "group": int(model.geom_group[g]),
                 "body": place.get(body, -1)}
        if shape == "mesh":
            name = f"mesh {model.geom_type[g]} {model.geom_dataid[g]}"
            if name not in blob.index:
                vertices, faces = mesh_of(model, g)
                vertices, faces = simplified(vertices, faces, max(200, int(share * len(faces))))
                blob.add(name, vertices, np.float32)
                blob.add(name + " faces", faces, np.uint32)
            entry["mesh"] = name
        geoms.append(entry)
    return geoms, moving


def motion(model, moving, states, ends, blob):
    """Poses of the moving bodies, and the contacts, for each frame and environment."""
    qpos = states["qpos"]
    envs, frames = qpos.shape[:2]
    data = mujoco.MjData(model)
    positions = np.zeros((frames, envs, len(moving), 3), np.float32)
    turns = np.zeros((frames, envs, len(moving), 4))
    has_forces = "qvel" in states and (model.na == 0 or "act" in states) and (model.nu == 0 or "ctrl" in states)
    contacts, counts = [], np.zeros((frames, envs), np.uint32)
    for frame in range(frames):
        for env in range(envs):
            mujoco.mj_resetData(model, data)
            for name, values in states.items():
                getattr(data, name)[:] = values[env, frame]
            if not np.isfinite(qpos[env, frame]).all():
                continue
            (mujoco.mj_forward if has_forces else mujoco.mj_fwdPosition)(model, data)
            positions[frame, env], turns[frame, env] = data.xpos[moving], data.xquat[moving]
            for i in range(data.ncon):
                contact, force = data.contact[i], np.zeros(6)
                if contact.exclude:
                    continue
                if has_forces:
                    mujoco.mj_contactForce(model, data, i, force)
                # the force on the robot, not on what it stands on
                on_second = model.body_weldid[model.geom_bodyid[contact.geom[1]]] != 0
                world = contact.frame.reshape(3, 3).T @ force[:3] * (1 if on_second else -1)
                contacts.append([*contact.pos, *world])
                counts[frame, env] += 1
    blob.add("positions", positions, np.float32)
    blob.add("turns", np.round(turns * 32767), np.int16)
    blob.add("contacts", np.array(contacts).reshape(-1, 6), np.float32)
    blob.add("contact_counts", counts, np.uint32)
    if ends is None:  # not recorded: who is suddenly far away has been reset
        jump = np.zeros((frames, envs))
        jump[1:] = np.abs(np.diff(positions, axis=0)).max(axis=(2, 3)) if moving else 0
        ends = jump > max(0.3 * model.stat.extent, 10 * np.median(jump)) if frames > 1 else jump > 0
        ends = ends.T
    blob.add("ends", ends.T, np.uint8)


def curves(run, chosen, samples, blob):
    """What is drawn beside the scene: (title, names of lines, array [env, frame, line])."""
    found = []
    for field, title in (("reward", "Reward"), ("reward_term", "Reward terms"), ("action", "Action"), ("ctrl", "Control")):
        if field not in run.trajectories or run.trajectories[field].shape[2] == 0 or (field == "ctrl" and "action" in run.trajectories):
            continue
        values = run.trajectories[field][chosen, :, :][:, samples]
        names = run.names(field) or [""] * values.shape[2]
        names = [name or str(i) for i, name in enumerate(names)]
        found.append({"title": title, "names": names, "values": blob.add(field, values, np.float32)})
    return found


def scene(run, title, envs, fps, most_faces):
    """Everything the page shows, as the text of a JSON object and the base64 of the arrays."""
    model, blob = run.model, Blob()
    step_seconds = run.control_timestep()
    steps = run.trajectories["step"][()]
    every = float(np.diff(steps).min()) * step_seconds if len(steps) > 1 else step_seconds
    stride = max(1, round(1 / (fps * every)))
    samples = np.arange(0, len(steps), stride)
    chosen = np.arange(min(envs, run.trajectories["qpos"].shape[0]))

    states = {name: run.trajectories[name][chosen, :, :][:, samples].astype(float)
              for name in ("qpos", "qvel", "act", "ctrl") if name in run.trajectories}
    ends = None
    if "terminated" in run.trajectories and "truncated" in run.trajectories:
        over = (run.trajectories["terminated"][chosen, :, 0] + run.trajectories["truncated"][chosen, :, 0]) > 0
        over = np.cumsum(over, axis=1)[:, samples]  # ends between two frames count as well
        ends = np.diff(over, axis=1, prepend=over[:, :1]) > 0
    geoms, moving = geometry(model, blob, most_faces)
    motion(model, moving, states, ends, blob)
    trees = [b for b in moving if model.body_weldid[model.body_parentid[b]] == 0]
    heaviest = max(trees, key=lambda b: model.body_subtreemass[b], default=None)
    return json.dumps({
        "title": title, "model": model.names.split(b"\0")[0].decode() or "model", "envs": chosen.tolist(),
        "times": (steps[samples] * step_seconds).round(6).tolist(), "geoms": geoms,
        "root": moving.index(heaviest) if heaviest is not None else -1,
        "weight": float(model.body_subtreemass[0] * np.linalg.norm(model.opt.gravity)) or 1.0,
        "hiddenGroup": FIRST_HIDDEN_GROUP, "curves": curves(run, chosen, samples, blob), "arrays": blob.index,
    }), blob.text()


def page(description, arrays, three):
    sources = [three / "three.min.js", three / "examples/js/controls/OrbitControls.js", PAGE / "replay.js"]
    for source in sources:
        if not source.is_file():
            sys.exit(f"{source} is not there: three.js comes with Debian's package libjs-three, or --three names the folder "
                     "that has three.min.js and examples/js of release 111")
    scripts = "\n".join(f"<script>{source.read_text().replace('</script', '<' + chr(92) + '/script')}</script>" for source in sources)
    template = (PAGE / "replay.html").read_text()
    parts = {"DESCRIPTION": description.replace("</", "<\\/"), "ARRAYS": arrays, "SCRIPTS": scripts}
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)


def roll_out(directory, run, envs, seconds):
    """Records the newest policy of a training run, in RUN/rollout, and returns the results."""
    directory = directory.resolve()
    target, deck = directory / "rollout", directory / "rollout.yaml"
    deck.write_text(run.deck)
    steps = max(1, round(seconds / run.control_timestep()))
    model = run.model
    fields = [name for name in FIELDS if not (name == "act" and model.na == 0 or name == "ctrl" and model.nu == 0)]
    result = subprocess.run(
        [program("a policy is rolled out"), "rollout", deck, "control.source=policy", f"control.checkpoint={directory}",
         "initial_state.source=task", f"batch.num_envs={envs}", f"simulation.steps={steps}", "output.trajectory.every=1",
         "data.file=[]", "data.weights=1",  # (demonstrations may be gone)
         f"output.trajectory.fields=[{','.join(fields)}]", f"output.directory={target}", "output.overwrite=true",
         "run.wall_time=0"],
        capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"the policy of {directory} could not be rolled out:\n{result.stdout}{result.stderr}")
    return target / "results.h5"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="directory of a run, or its results.h5")
    parser.add_argument("--output", type=Path, help="page to write; default: replay.html in the run's directory")
    parser.add_argument("--envs", type=int, default=16, help="environments to show, the first of the batch (default 16)")
    parser.add_argument("--fps", type=float, default=30, help="frames per second of simulated time (default 30)")
    parser.add_argument("--seconds", type=float, default=10, help="simulated time of a trained policy (default 10)")
    parser.add_argument("--faces", type=int, default=60000, help="most triangles of all meshes together (default 60000)")
    parser.add_argument("--three", type=Path, default=THREE, help=f"folder of three.js (default {THREE})")
    arguments = parser.parse_args()
    if not 1 <= arguments.envs <= MOST_ENVS:
        parser.error(f"--envs {arguments.envs}; allowed: 1 to {MOST_ENVS}")
    try:
        replay(parser, arguments)
    except OSError as error:
        refuse(error)


def replay(parser, arguments):
    file = arguments.run / "results.h5" if arguments.run.is_dir() else arguments.run
    if not file.is_file():
        parser.error(what_is_missing(arguments.run))
    directory = file.parent
    with ExitStack() as opened:
        run = opened.enter_context(Run(file))
        verb = run.record.get("verb")
        if verb == "imitate" and run.file["run/model_mjb"].size == 0:
            parser.error(f"{file} is of a training without a task, so that there is nothing to move: name a task's deck to "
                         "imitate, too")
        if "qpos" not in run.trajectories and verb in ("train", "imitate"):
            file = roll_out(directory, run, arguments.envs, arguments.seconds)
            run = opened.enter_context(Run(file))
        if "qpos" not in run.trajectories:
            parser.error(f"{file} has no /trajectory/qpos: record it with output.trajectory.every=1 "
                         "output.trajectory.fields=[qpos,qvel,ctrl]")
        description, arrays = scene(run, directory.resolve().name, arguments.envs, arguments.fps, arguments.faces)
    output = arguments.output or directory / "replay.html"
    output.write_text(page(description, arrays, arguments.three))
    print(f"replay: {output} ({output.stat().st_size / 1e6:.1f} MB)")


if __name__ == "__main__":
    main()
