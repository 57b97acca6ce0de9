"""The scene of a page of maniple.replay: geometry, poses, contacts, tendons and curves of a recording, as the text of a JSON
object and a block of arrays that replay_page/replay.js draws.

Poses come from qpos by MuJoCo's kinematics. Contacts and their forces are MuJoCo's for the recorded state (forces need
qvel; ctrl and act where the model has them).
"""

import base64
import json
import zlib
from dataclasses import dataclass, field

import mujoco
import numpy as np

SHAPES = {int(getattr(mujoco.mjtGeom, "mjGEOM_" + kind.upper())): shape for kind, shape in (
    ("plane", "plane"), ("hfield", "mesh"), ("sphere", "sphere"), ("capsule", "capsule"), ("ellipsoid", "ellipsoid"),
    ("cylinder", "cylinder"), ("box", "box"), ("mesh", "mesh"))}
TERRAIN = "terrain"  # the height field of a deck's terrain
NEAR = (5, 3)  # m: how far around a robot a terrain is drawn in detail, and where the rest of it begins
FIRST_HIDDEN_GROUP = 3  # of geoms and tendons, as in MuJoCo's viewer
DEFAULT_COLOUR = np.array([0.5, 0.5, 0.5, 1], np.float32)
TREE_COLOURS = np.array([[0.33, 0.52, 0.80], [0.86, 0.55, 0.29], [0.36, 0.66, 0.48], [0.78, 0.38, 0.42], [0.55, 0.45, 0.72],
                         [0.28, 0.64, 0.68]])
FIXED_COLOURS = np.array([[0.72, 0.66, 0.55], [0.56, 0.63, 0.69], [0.62, 0.68, 0.57], [0.71, 0.59, 0.57]])  # of what stands
# How an episode ends, in the order in which one hides another between two frames.
ENDED, TIMED_OUT, TERMINATED, SUCCEEDED = 1, 2, 3, 4


@dataclass
class Curve:
    """Curves next to the scene: [env, frame, line]; names of the lines."""

    title: str
    names: list[str]
    values: np.ndarray


@dataclass
class Recording:
    """A recording at the frames of a page. `states`: fields of mjData, [env, frame, size]. `ends`: how episodes end
    at a frame, [env, frame], or None where that was not recorded. `command`: commanded velocities, [env, frame,
    3]: forward and to the left of the heaviest robot [m/s], and its turn to the left [rad/s]."""

    title: str
    model: mujoco.MjModel
    envs: list[int]
    times: np.ndarray
    states: dict[str, np.ndarray]
    ends: np.ndarray | None
    curves: list[Curve] = field(default_factory=list)
    command: np.ndarray | None = None
    note: str = ""
    terrain: bool = False  # of the deck: all environments stand on the same one, each at its place
    kind: str = "environment"  # what the numbers of `envs` count


def at_frames(codes, samples):
    """Of how episodes end at each sample, [env, sample], the same at the frames: what lies between two counts as well."""
    if len(samples) < 2:
        return codes[:, samples]
    between = np.maximum.reduceat(codes[:, :samples[-1] + 1], samples[:-1] + 1, axis=1)
    return np.concatenate([codes[:, :1], between], axis=1)


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


def near_places(recording, vertices, faces, place, reach):
    """Whether each face of a terrain, whose geom is at `place`, is within about `reach` metres of where a free body passes."""
    model = recording.model
    free = model.jnt_qposadr[model.jnt_type == mujoco.mjtJoint.mjJNT_FREE]
    passed = np.concatenate([recording.states["qpos"][..., at:at + 2].reshape(-1, 2) for at in free] or [np.zeros((1, 2))])
    passed = np.floor(passed[np.isfinite(passed).all(axis=1)] - place[:2]).astype(np.int64)  # cells of a metre
    of_face = np.floor(vertices[faces[:, 0], :2]).astype(np.int64)
    lowest = of_face.min(0)
    sides = of_face.max(0) - lowest + 1
    near = np.zeros(sides, bool)
    for x, y in np.unique(passed, axis=0) - lowest:
        near[max(0, x - reach):max(0, x + reach + 1), max(0, y - reach):max(0, y + reach + 1)] = True
    return near[tuple((of_face - lowest).T)]


def of_faces(vertices, faces):
    """A mesh without the vertices that none of its faces has."""
    used, numbers = np.unique(faces, return_inverse=True)
    return vertices[used], numbers.reshape(faces.shape)


def mesh_of(model, geom):
    k = model.geom_dataid[geom]
    if model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_HFIELD:
        return height_field(model, k)
    vertices = model.mesh_vert[model.mesh_vertadr[k]:][: model.mesh_vertnum[k]]
    return vertices.astype(float), model.mesh_face[model.mesh_faceadr[k]:][: model.mesh_facenum[k]]


def mean_colour(model, material):
    """The colour of a material: its own times the mean of its texture."""
    rgba = model.mat_rgba[material].astype(float)
    texture = model.mat_texid[material, mujoco.mjtTextureRole.mjTEXROLE_RGB]
    if texture < 0 or model.tex_nchannel[texture] < 3:
        return rgba
    channels, at = model.tex_nchannel[texture], model.tex_adr[texture]
    texels = model.tex_data[at:at + model.tex_height[texture] * model.tex_width[texture] * channels].reshape(-1, channels)
    return rgba * np.append(texels[:, :3].mean(axis=0) / 255, 1)


def colour(model, geom):
    """The colour of a geom: the model's; geoms of MuJoCo's default grey get one by their tree and body, fixed ones by their body."""
    material = model.geom_matid[geom]
    if material >= 0:
        return mean_colour(model, material).round(4).tolist()
    rgba, body = model.geom_rgba[geom], model.geom_bodyid[geom]
    if (rgba == DEFAULT_COLOUR).all():
        root = model.body_rootid[body]
        if model.body_weldid[body] == 0:
            shade, found = 1.0, FIXED_COLOURS[(body if body > 0 else geom) % len(FIXED_COLOURS)]
        else:
            tree = int(np.unique(model.body_rootid[1:]).searchsorted(root))
            shade = 1 - 0.22 * ((model.body_weldid[body] - root) % 2)  # neighbours are told apart
            found = TREE_COLOURS[tree % len(TREE_COLOURS)]
        rgba = np.array([*(shade * found), 1])
    return rgba.round(4).tolist()


def geometry(recording, blob, most_faces):
    """The geoms, each in the frame of the body that it moves with, and the bodies that move. A terrain is in two parts, of which
    the one around the robots has most of the triangles, and beside those of the other meshes."""
    model = recording.model
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    moving = [b for b in range(1, model.nbody) if model.body_weldid[b] == b]
    place = {body: i for i, body in enumerate(moving)}
    shown = [g for g in range(model.ngeom) if int(model.geom_type[g]) in SHAPES]
    terrain = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_HFIELD, TERRAIN) if recording.terrain else -1
    of_terrain = [g for g in shown if model.geom_type[g] == mujoco.mjtGeom.mjGEOM_HFIELD and model.geom_dataid[g] == terrain]
    in_meshes = sum(len(mesh_of(model, g)[1]) for g in shown if SHAPES[int(model.geom_type[g])] == "mesh"
                    and model.geom_group[g] < FIRST_HIDDEN_GROUP and g not in of_terrain)
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
        if g in of_terrain:
            vertices, faces = height_field(model, terrain)
            # (the parts overlap, because each is cut at triangles of its own size)
            near, far = (near_places(recording, vertices, faces, data.geom_xpos[g], reach) for reach in NEAR)
            for is_far, part, share_of_faces in ((False, near, 0.8), (True, ~far, 0.2)):
                if not part.any():
                    continue
                name = f"terrain {len(geoms)}"
                part_vertices, part_faces = simplified(*of_faces(vertices, faces[part]), max(200, int(share_of_faces * most_faces)))
                blob.add(name, part_vertices, np.float32)
                blob.add(name + " faces", part_faces, np.uint32)
                geoms.append({**entry, "mesh": name, "shared": True, "far": is_far})
            continue
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


def spatial_tendons(model):
    """The spatial tendons that have a path to draw and are not hidden."""
    of_joints = int(mujoco.mjtWrap.mjWRAP_JOINT)
    return [t for t in range(model.ntendon) if model.tendon_group[t] < FIRST_HIDDEN_GROUP
            and model.wrap_type[model.tendon_adr[t]] != of_joints]


def segments(data, tendon):
    """The straight parts of a tendon's path: [part, 6], without the gaps at pulleys."""
    first, count = data.ten_wrapadr[tendon], data.ten_wrapnum[tendon]
    points, objects = data.wrap_xpos.reshape(-1, 3)[first:first + count], data.wrap_obj.reshape(-1)[first:first + count]
    parts = np.concatenate([points[:-1], points[1:]], axis=1)
    return parts[(objects[:-1] != -2) & (objects[1:] != -2)]


def contacts_of(model, data, has_forces):
    """The position of each contact, and its force on the robot, not on the ground: [contact, 6]."""
    found, force = [], np.zeros(6)
    for i in range(data.ncon):
        contact = data.contact[i]
        if contact.exclude:
            continue
        if has_forces:
            mujoco.mj_contactForce(model, data, i, force)
        on_second = model.body_weldid[model.geom_bodyid[contact.geom[1]]] != 0
        found.append([*contact.pos, *(contact.frame.reshape(3, 3).T @ force[:3] * (1 if on_second else -1))])
    return found


def motion(recording, moving, root, blob):
    """Poses of the moving bodies, contacts, tendons and velocities, for each frame and environment; returns the tendons."""
    model, states = recording.model, recording.states
    qpos = states["qpos"]
    envs, frames = qpos.shape[:2]
    data = mujoco.MjData(model)
    positions = np.zeros((frames, envs, len(moving), 3), np.float32)
    turns = np.zeros((frames, envs, len(moving), 4))
    has_forces = "qvel" in states and (model.na == 0 or "act" in states) and (model.nu == 0 or "ctrl" in states)
    tendons = spatial_tendons(model)
    contacts, counts = [], np.zeros((frames, envs), np.uint32)
    parts, part_of, part_counts = [], [], np.zeros((frames, envs), np.uint32)
    command, velocity = np.zeros((frames, envs, 3), np.float32), np.zeros((frames, envs, 3), np.float32)
    joint = model.body_jntadr[moving[root]] if root >= 0 else -1
    free = joint >= 0 and model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE
    for frame in range(frames):
        for env in range(envs):
            mujoco.mj_resetData(model, data)
            for name, values in states.items():
                getattr(data, name).flat = values[env, frame]
            if not np.isfinite(qpos[env, frame]).all():
                continue
            (mujoco.mj_forward if has_forces else mujoco.mj_fwdPosition)(model, data)
            positions[frame, env], turns[frame, env] = data.xpos[moving], data.xquat[moving]
            found = contacts_of(model, data, has_forces)
            contacts += found
            counts[frame, env] = len(found)
            for number, tendon in enumerate(tendons):
                found = segments(data, tendon)
                parts.append(found)
                part_of += [number] * len(found)
                part_counts[frame, env] += len(found)
            if recording.command is not None and root >= 0:
                ahead, left, _ = recording.command[env, frame]
                forward = data.xmat[moving[root]].reshape(3, 3)[:2, 0]
                forward = forward / max(1e-9, np.linalg.norm(forward))
                command[frame, env, :2] = ahead * forward + left * np.array([-forward[1], forward[0]])
                if free and "qvel" in states:
                    velocity[frame, env] = data.qvel[model.jnt_dofadr[joint]:][:3]
    blob.add("positions", positions, np.float32)
    blob.add("turns", np.round(turns * 32767), np.int16)
    blob.add("contacts", np.array(contacts).reshape(-1, 6), np.float32)
    blob.add("contact_counts", counts, np.uint32)
    if tendons:
        blob.add("tendon_parts", np.concatenate(parts), np.float32)
        blob.add("tendon_of_part", part_of, np.uint32)
        blob.add("tendon_counts", part_counts, np.uint32)
    if recording.command is not None and root >= 0:
        blob.add("command", recording.command.transpose(1, 0, 2), np.float32)
        blob.add("command_arrows", command, np.float32)
        blob.add("velocity_arrows", velocity, np.float32)
    ends = recording.ends
    if ends is None:  # not recorded: who is suddenly far away has been reset
        jump = np.zeros((frames, envs))
        jump[1:] = np.abs(np.diff(positions, axis=0)).max(axis=(2, 3)) if moving else 0
        ends = ENDED * (jump > max(0.3 * model.stat.extent, 10 * np.median(jump)) if frames > 1 else jump > 0).T
    blob.add("ends", ends.T, np.uint8)
    return [{"width": round(float(model.tendon_width[t]), 6), "rgba": (
        mean_colour(model, model.tendon_matid[t]) if model.tendon_matid[t] >= 0 else model.tendon_rgba[t]).round(4).tolist()}
        for t in tendons]


def scene(recording, most_faces, force_scale, version, version_file):
    """Everything the page shows, as the text of a JSON object and the base64 of the arrays. `version`: of a page that looks
    whether `version_file` names another one, and then loads itself again; "": of one that does not."""
    model, blob = recording.model, Blob()
    geoms, moving = geometry(recording, blob, most_faces)
    trees = [b for b in moving if model.body_weldid[model.body_parentid[b]] == 0]
    heaviest = max(trees, key=lambda b: model.body_subtreemass[b], default=None)
    root = moving.index(heaviest) if heaviest is not None else -1
    tendons = motion(recording, moving, root, blob)
    mass = sum(model.body_mass[b] for b in range(model.nbody) if model.body_weldid[b] != 0)
    fastest = 0.0 if recording.command is None else float(np.linalg.norm(recording.command[..., :2], axis=2).max())
    return json.dumps({
        "title": recording.title, "model": model.names.split(b"\0")[0].decode() or "model", "note": recording.note,
        "envs": recording.envs, "kind": recording.kind, "times": recording.times.round(6).tolist(), "geoms": geoms, "root": root,
        "weight": float(mass * np.linalg.norm(model.opt.gravity)) or 1.0, "forceScale": force_scale,
        "hiddenGroup": FIRST_HIDDEN_GROUP, "tendons": tendons, "fastest": fastest,
        "curves": [{"title": curve.title, "names": curve.names, "values": blob.add(f"curve {i}", curve.values, np.float32)}
                   for i, curve in enumerate(recording.curves)],
        "version": version, "versionFile": version_file, "arrays": blob.index,
    }), blob.text()
