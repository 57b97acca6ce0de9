"""Sources of the recording on a page of maniple.replay: the trajectory of a run, a policy that is rolled out for it, or
a file of demonstrations in the layout of robomimic or Minari."""

import importlib.util
import json
import re
import subprocess
from contextlib import ExitStack
from pathlib import Path

import h5py
import mujoco
import numpy as np

from maniple.datasets import MINARI_FILE, DataSet
from maniple.process import program
from maniple.replay_scene import ENDED, SUCCEEDED, TERMINATED, TIMED_OUT, Curve, Recording, at_frames
from maniple.results import Run, Unreadable, results_path, text_of, what_is_missing

FIELDS = ("qpos", "qvel", "act", "ctrl", "action", "reward", "reward_term", "terminated", "truncated", "success", "mocap_pos",
          "mocap_quat")
STATES = ("qpos", "qvel", "act", "ctrl", "mocap_pos", "mocap_quat")


def recording_of(path, given):
    """The recording of a run's directory, one of its files, or a file of demonstrations. `given`: the command line's arguments."""
    file = results_path(path)
    if not file.is_file() and (path / MINARI_FILE).is_file():
        file = path / MINARI_FILE
    if not file.is_file():
        raise Unreadable(what_is_missing(path))
    with Run(file) as run:
        return of_run(run, file, given) if run.record or run.trajectories else of_demonstrations(file, run.file, given)


def frames_of(times, fps):
    """The numbers of the samples that become frames."""
    every = float(np.diff(times).min()) if len(times) > 1 else 1 / fps
    return np.arange(0, len(times), max(1, round(1 / (fps * every))))


# ---- runs ----
def of_run(run, file, given):
    for option in ("model", "qpos", "timestep"):
        if getattr(given, option) is not None:
            raise Unreadable(f"found --{option} with {file}, the results of a run; allowed: with a file of demonstrations")
    with ExitStack() as opened:
        verb, note = run.record.get("verb"), ""
        if verb == "imitate" and run.file["run/model_mjb"].size == 0:
            raise Unreadable(f"{file} is of a training without a task, so that there is nothing to move: name a task's deck to "
                             "imitate, too")
        if verb == "evaluate":
            raise Unreadable(f"{file} is of an evaluation, which records no motion; allowed: the directory of the training, whose policy is "
                             f"rolled out{f', here {run.evaluated}' if run.evaluated else ''}, or a rollout that recorded qpos")
        if "qpos" not in run.trajectories and verb in ("train", "imitate"):
            newest = run.checkpoints
            note = f"policy of {newest[-1].stem}" if newest else ""
            run = opened.enter_context(Run(roll_out(file.parent, run, given.envs, given.seconds)))
        if "qpos" not in run.trajectories:
            raise Unreadable(f"{file} has no /trajectory/qpos: record it with output.trajectory.every=1 "
                             "output.trajectory.fields=[qpos,qvel,ctrl]")
        return of_trajectory(run, file.parent.resolve().name, note, given)


def of_trajectory(run, title, note, given):
    step_seconds = run.control_timestep()
    times = run.trajectories["step"][()] * step_seconds
    samples = frames_of(times, given.fps)
    chosen = np.arange(min(given.envs, run.trajectories["qpos"].shape[0]))

    def numbers(name):
        return run.trajectories[name][chosen, :, :].astype(float)

    def has(name):
        return name in run.trajectories and run.trajectories[name].shape[2] > 0

    ends = None
    if has("terminated") and has("truncated"):
        codes = np.where(numbers("truncated") > 0, TIMED_OUT, 0)
        codes = np.where(numbers("terminated") > 0, TERMINATED, codes)
        if has("success"):
            codes = np.where((numbers("success") > 0) & (codes > 0), SUCCEEDED, codes)
        ends = at_frames(codes[..., 0], samples)
    curves = []
    for name, heading in (("reward", "Reward"), ("reward_term", "Reward terms"), ("action", "Action"), ("ctrl", "Control")):
        if has(name) and not (name == "ctrl" and has("action")):
            values = numbers(name)[:, samples]
            names = run.names(name) or [""] * values.shape[2]
            curves.append(Curve(heading, [text or str(i) for i, text in enumerate(names)], values))
    command = None
    for name in (name for name in run.trajectories if name.startswith("commands/") and has(name)):
        values, short = numbers(name)[:, samples], name.removeprefix("commands/")
        names = [str(i) for i in range(values.shape[2])]
        if is_velocity(run, short) and values.shape[2] == 3:
            names = ["forward [m/s]", "left [m/s]", "turn [rad/s]"]
            command = values if command is None else command
        curves.insert(0, Curve(f"Command {short}", names, values))
    return Recording(title, run.model, chosen.tolist(), times[samples], {
        name: numbers(name)[:, samples] for name in STATES if has(name)}, ends, curves, command, note,
        re.search(r"^  sub_terrains:$", run.deck, re.M) is not None)


def is_velocity(run, command):
    """Whether a command of the task is a velocity of its robot, by the deck with every key."""
    return re.search(rf'^  commands:\n(?:    .*\n)*?    {re.escape(command)}: {{term: "uniform_velocity_command"', run.deck,
                     re.M) is not None


def roll_out(directory, run, envs, seconds):
    """Records the newest policy of a training run, in RUN/rollout, and returns the results."""
    directory = directory.resolve()
    target, deck = directory / "rollout", directory / "rollout.yaml"
    deck.write_text(run.deck)
    steps = max(1, round(seconds / run.control_timestep()))
    model = run.model
    empty = {"act": model.na, "ctrl": model.nu, "mocap_pos": model.nmocap, "mocap_quat": model.nmocap}
    fields = [name for name in FIELDS if empty.get(name, 1) > 0]
    fields += [f"commands/{name}" for name in json.loads(run.record.get("task", "{}")).get("commands", ())]
    result = subprocess.run(
        [program("a policy is rolled out"), "rollout", deck, "control.source=policy", f"control.checkpoint={directory}",
         "initial_state.source=task", f"batch.num_envs={envs}", f"simulation.steps={steps}", "output.trajectory.every=1",
         "data.file=[]", "data.weights=1",  # (demonstrations may be gone)
         f"output.trajectory.fields=[{','.join(fields)}]", f"output.directory={target}", "output.overwrite=true",
         "run.wall_time=0"],
        capture_output=True, text=True)
    if result.returncode != 0:
        said = " ".join((result.stderr or result.stdout).split())
        raise Unreadable(f"the policy of {directory} could not be rolled out: {said}")
    return target / "results.h5"


# ---- demonstrations ----
class Origin:
    """The origin of demonstrations: the model, the seconds between two frames (None: not known), and how Gymnasium's
    observations have the state, as its environments say it."""

    def __init__(self, model, timestep=None, observed=None):
        self.model, self.timestep, self.observed = model, timestep, observed


def load_model(name):
    """The model of a file, or of one inside a Python package (package:...)."""
    path = Path(name)
    if name.startswith("package:"):
        package, _, inside = name.removeprefix("package:").partition("/")
        found = importlib.util.find_spec(package)
        if found is None:
            raise Unreadable(f"--model {name}: there is no Python package {package}")
        path = Path(found.submodule_search_locations[0]) / inside
    if not path.is_file():
        raise Unreadable(f"--model {name}: {path} is not there")
    try:
        load = mujoco.MjModel.from_binary_path if path.suffix == ".mjb" else mujoco.MjModel.from_xml_path
        return load(str(path))
    except (ValueError, mujoco.FatalError) as error:
        raise Unreadable(f"--model {name}: {error}") from error


def origin_of(path, file, data, given):
    """The model that --model names, that lies in the file, that of the run beside it, or Gymnasium's."""
    if given.model is not None:
        return Origin(load_model(given.model), control_period(data))
    stored = text_of(data.group[data.names[0]].attrs.get("model_file", ""))
    if stored:
        try:
            return Origin(mujoco.MjModel.from_xml_string(stored), control_period(data))
        except ValueError as error:
            raise Unreadable(f"{path}: the model in /{data.group[data.names[0]].name.strip('/')} cannot be loaded: {error}; --model "
                             "names one that can") from error
    for folder in (path.parent, *path.parents[2:4]):  # (of Minari's: RUN/minari/NAME/data)
        if (folder / "results.h5").is_file():
            with Run(folder / "results.h5") as run:
                if "run/model_mjb" in run.file and run.file["run/model_mjb"].size:
                    return Origin(run.model, run.control_timestep())
    name = gymnasium_task(path, file)
    if name:
        try:
            environment = importlib.import_module("gymnasium").make(name).unwrapped
            return Origin(environment.model, environment.dt, getattr(environment, "observation_structure", None))
        except Exception as error:  # (Gymnasium's own kinds are only known where it is installed)
            raise Unreadable(f"{path} is of Gymnasium's {name}, which cannot be made here: {error}; --model names a model") from error
    raise Unreadable(f"{path} names no model: --model MODEL.xml does")


def control_period(data):
    """Seconds between two frames, of robosuite's environments and of LeRobot's data sets."""
    try:
        said = json.loads(text_of(data.group.attrs.get("env_args", "{}")))
        return 1 / float(said["env_kwargs"]["control_freq"])
    except (ValueError, KeyError, TypeError, ZeroDivisionError):
        return None


def gymnasium_task(path, file):
    """The name of the environment of a data set of Minari's, where it is one of Gymnasium's with MuJoCo."""
    metadata = path.parent / "metadata.json"
    try:
        said = json.loads(metadata.read_text()) if metadata.is_file() else dict(file.attrs)
        name = json.loads(text_of(said.get("env_spec") or "{}")).get("id", "")
    except ValueError:
        return ""
    # (its class is not imported from what the file says)
    return name if re.fullmatch(r"[A-Za-z0-9]+-v[45]", name) else ""


def columns(episode, key):
    """A dataset of an episode as rows, or None."""
    found = episode.get(key)
    if not isinstance(found, h5py.Dataset) or found.ndim not in (1, 2) or found.dtype.kind not in "fiu":
        return None
    return found[()].astype(float).reshape(len(found), -1)


def states_of(path, episode, origin, key):
    """(qpos, qvel or None, times or None) of the frames of a demonstration."""
    model, where = origin.model, f"{path}: {episode.name}"
    sizes = f"nq = {model.nq}, nv = {model.nv}"
    if key is not None:
        name, _, part = key.partition("[")
        cut = re.fullmatch(r"(-?\d*):(-?\d*)\]", part)  # obs/state[0:7]
        rows = columns(episode, name if cut else key)
        if rows is not None and cut:
            rows = rows[:, slice(*(int(bound) if bound else None for bound in cut.groups()))]
        if rows is None or rows.shape[1] != model.nq:
            found = "no such numbers" if rows is None else f"{rows.shape[1]} numbers a frame"
            raise Unreadable(f"{where}: --qpos {key}: found {found}; allowed: a dataset, or columns of one (KEY[0:7]), "
                             f"with the {model.nq} of the model's qpos; there are: {', '.join(names_in(episode))}")
        return rows, None, None
    rows = columns(episode, "states")
    if rows is not None:  # robosuite's: time, qpos, qvel, and more where it has them
        if rows.shape[1] < 1 + model.nq + model.nv:
            raise Unreadable(f"{where}/states has {rows.shape[1]} numbers a frame, fewer than 1 + nq + nv of the model ({sizes})")
        return rows[:, 1:1 + model.nq], rows[:, 1 + model.nq:][:, :model.nv], rows[:, 0]
    for group in ("infos", "obs", "observations", "infos/state"):
        rows = columns(episode, f"{group}/qpos")
        if rows is not None and rows.shape[1] == model.nq:
            speeds = columns(episode, f"{group}/qvel")
            return rows, speeds if speeds is not None and speeds.shape == (len(rows), model.nv) else None, None
    rows = columns(episode, "observations")
    observed = origin.observed or {"qpos": model.nq, "qvel": model.nv}
    places, speeds = observed.get("qpos", 0), observed.get("qvel", 0)
    left_out = model.nq - places
    if rows is not None and speeds == model.nv and left_out in (0, observed.get("skipped_qpos", 0)) and (
            rows.shape[1] >= places + speeds if origin.observed else rows.shape[1] == places + speeds):
        qvel = rows[:, places:places + speeds]
        # the places that are left out are the first ones, and follow from their velocities
        moved = np.cumsum(qvel[:, :left_out], axis=0) * (origin.timestep or 0)
        return np.concatenate([moved, rows[:, :places]], axis=1), qvel, None
    raise Unreadable(f"{where} has no positions of the model ({sizes}): found {', '.join(names_in(episode))}; allowed: states, "
                     "qpos among infos or observations, or a dataset that --qpos names")


def names_in(episode):
    found = []
    episode.visititems(lambda name, item: found.append(name) if isinstance(item, h5py.Dataset) else None)
    return found[:30] + ["..."] * (len(found) > 30)


def end_of(episode, name, masks):
    """The kind of end of a demonstration."""
    def holds(key):
        rows = columns(episode, key) if key in episode and episode[key].dtype != bool else None
        rows = episode[key][()] if rows is None and key in episode else rows
        return rows is not None and bool(np.any(rows))

    if name in masks.get("success", ()) or holds("infos/success"):
        return SUCCEEDED
    return TERMINATED if holds("terminations") else TIMED_OUT if holds("truncations") else ENDED


def padded(rows, length, by=None):
    """As many rows as the longest demonstration has; the last one stays, or they are `by`."""
    rest = max(0, length - len(rows))
    last = rows[-1:] if by is None else np.full((1, rows.shape[1]), by)
    return np.concatenate([rows[:length], np.repeat(last, rest, axis=0)])


def of_demonstrations(path, file, given):
    data = DataSet(path, file)
    origin = origin_of(path, file, data, given)
    names = data.names[:given.envs]
    found = [states_of(path, data.group[name], origin, given.qpos) for name in names]
    steps = max(len(qpos) for qpos, _, _ in found)
    stamps = next((times for _, _, times in found if times is not None and len(times) > 1), None)
    period = given.timestep or (float(np.median(np.diff(stamps))) if stamps is not None else None) or origin.timestep
    if not period or period <= 0:
        raise Unreadable(f"{path} does not say how many seconds lie between two frames: --timestep does")
    times = np.arange(steps) * period
    samples = frames_of(times, given.fps)
    states = {"qpos": np.stack([padded(qpos, steps) for qpos, _, _ in found])[:, samples]}
    if all(qvel is not None for _, qvel, _ in found):
        states["qvel"] = np.stack([padded(qvel, steps) for _, qvel, _ in found])[:, samples]
    masks, codes = data.masks(), np.zeros((len(names), steps), int)
    for i, name in enumerate(names):
        codes[i, len(found[i][0]) - 1] = end_of(data.group[name], name, masks)
    curves = []
    for key, heading in (("rewards", "Reward"), ("actions", "Action")):
        rows = [columns(data.group[name], key) for name in names]
        if any(part is None or part.shape[1] != rows[0].shape[1] or len(part) == 0 for part in rows):
            continue
        # a frame is the state before its action; curves begin behind the first frame, as those of runs do
        values = np.stack([padded(np.concatenate([part[:1], part]), steps, np.nan) for part in rows])
        curves.append(Curve(heading, [str(i) for i in range(values.shape[2])], values[:, samples]))
    numbers = [int(re.sub(r"\D", "", name)) for name in names]
    return Recording(path.stem, origin.model, numbers, times[samples], states, at_frames(codes, samples), curves,
                     note=f"{len(names)} of {len(data.names)} demonstrations", kind="demonstration")
