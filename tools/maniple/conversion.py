"""Data sets of others as robomimic's layout, which maniple imitate reads: the replay buffers of diffusion_policy (Zarr),
ALOHA's HDF5 files, RLDS as TFRecords (without TensorFlow). Each reader yields episodes; `convert` writes them."""

import io
import json
import re
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from maniple.results import Unreadable, new_file, open_file

RLDS_MARKS = {"steps/reward", "steps/discount", "steps/is_first", "steps/is_last", "steps/is_terminal"}
# observations by key, actions, rewards where there are any, and the tasks in words
Episode = tuple[dict[str, np.ndarray], np.ndarray, np.ndarray | None, list[str]]
MOST_MASKS = 100  # more tasks than that are each of few episodes, and robomimic's lists of no use
KNOWN = ("a Zarr replay buffer of diffusion_policy (data/ and meta/episode_ends), HDF5 of ALOHA (/action, /observations/qpos), or a "
         "folder of RLDS (features.json, *.tfrecord*)")


def listed(names: Iterable[str]) -> str:
    """The first of some names."""
    first = list(names)
    return ", ".join(first[:8]) + " ..." * (len(first) > 8) or "nothing"


def convert(path: Path, target: Path) -> str:
    """Writes the episodes of `path`; returns a line that summarizes them, and what was left out."""
    if not path.exists():
        raise Unreadable(f"{path} is not there")
    if (path / "meta/info.json").is_file():
        raise Unreadable(f"{path}: found a data set of LeRobot, which another tool converts: python -m maniple.from_lerobot {path} {target}")
    left_out: dict[str, None] = {}  # (in order)
    layout, episodes = reader_of(path, left_out)
    number = steps = 0
    keys: set[str] = set()
    flat: dict[str, str] = {}  # arrays of numbers that became vectors: how
    tasks: dict[str, list[str]] = {}
    without = 0
    with new_file(target) as file:
        data = file.create_group("data")
        data.attrs["env_args"] = json.dumps({"env_name": path.name, "type": 2, "env_kwargs": {}})
        for observations, actions, rewards, texts in episodes:
            demo = data.create_group(f"demo_{number}")
            demo.attrs["num_samples"] = len(actions)
            for key, values in [*observations.items(), ("reward", rewards)]:
                if values is not None and len(values) != len(actions):
                    raise Unreadable(f"{path}: episode {number}: {key} has {len(values)} frames, action {len(actions)}")
            demo["actions"] = flattened("action", actions, flat)
            for key, values in observations.items():
                values = flattened(key, values, flat)
                demo.create_dataset(f"obs/{key}", data=values, compression="gzip" if values.ndim == 4 else None)
            if rewards is not None:
                demo["rewards"] = rewards
            without += rewards is None
            note_tasks(demo, texts, tasks)
            demo["dones"] = (np.arange(len(actions)) == len(actions) - 1).astype(np.int64)
            number, steps, keys = number + 1, steps + len(actions), keys | set(observations)
        if number == 0:
            raise Unreadable(f"{path}: found no episode")
        data.attrs["total"] = steps
        said = write_masks(file, tasks)
    return (f"{target}: {number} demonstrations, {steps} samples from {layout}; observations {', '.join(sorted(keys))}{said}"
            + (f"; flattened: {', '.join(flat.values())}" if flat else "")
            + (f"; without rewards: {without} of {number}, which have none there" if without else "")
            + (f"; left out: {', '.join(left_out)}" if left_out else ""))


def flattened(key: str, values: np.ndarray, flat: dict[str, str]) -> np.ndarray:
    """Numbers as a vector for each frame, as imitate takes them: of keypoints, for instance. Pictures stay."""
    if values.ndim != 3 or values.dtype == np.uint8:
        return values
    size = values.shape[1] * values.shape[2]
    flat[key] = f"{key} {list(values.shape[1:])} to [{size}]"
    return values.reshape(len(values), size)


def note_tasks(demo: h5py.Group, texts: list[str], tasks: dict[str, list[str]]) -> None:
    """The tasks of a demonstration in words, as its attribute `task`; `tasks` gets its name below each of them."""
    if texts:
        demo.attrs["task"] = "; ".join(texts)
    for text in texts:
        tasks.setdefault(text, []).append(demo.name.rpartition("/")[2])


def write_masks(file: h5py.File, tasks: dict[str, list[str]]) -> str:
    """A list of robomimic's for each task, /mask/<its text>, in which / becomes _. What was done, to follow other words."""
    if not tasks:
        return ""
    said = f"; {len(tasks)} task{'s' * (len(tasks) > 1)}"
    if len(tasks) > MOST_MASKS:
        return f"{said}, of which each demonstration's attribute has the text; lists in /mask are written of {MOST_MASKS} at most"
    lists: dict[str, list[str]] = {}
    for text, names in tasks.items():
        name = text.replace("/", "_")
        lists.setdefault("task " + name if name == "." or f"mask/{name}" in file else name, []).extend(names)
    for name, names in lists.items():
        file[f"mask/{name}"] = np.array(names, dtype="S")
    return f"{said}, a list in /mask of each"


def reader_of(path: Path, left_out: dict[str, None]) -> tuple[str, Iterator[Episode]]:
    """The layout's name and its episodes. They add what they do not yield to `left_out`."""
    if path.is_dir():
        if (path / ".zgroup").is_file() or (path / "zarr.json").is_file() or (path / "meta/episode_ends").is_dir():
            return "Zarr", zarr_episodes(path, left_out)
        aloha = sorted(path.glob("episode_*.hdf5"), key=lambda file: int(re.sub(r"\D", "", file.stem) or 0))
        if aloha:
            others = {*path.glob("*.hdf5"), *path.glob("*.h5")} - {*aloha}
            left_out |= dict.fromkeys(sorted(file.name for file in others))
            return "ALOHA", (episode for file in aloha for episode in aloha_episodes(file, left_out))
        records = sorted(path.glob("*.tfrecord*"))
        if records:
            left_out |= dict.fromkeys(missing_of(records))
            return "RLDS", (episode for file in records for episode in rlds_episodes(file, left_out))
    elif path.name.endswith(".zarr.zip"):
        return "Zarr", zarr_episodes(path, left_out)
    elif ".tfrecord" in path.name:
        return "RLDS", rlds_episodes(path, left_out)
    elif h5py.is_hdf5(path):
        return "ALOHA", aloha_episodes(path, left_out)
    raise Unreadable(f"{path}: found no layout that is known; allowed: {KNOWN}")


def picture(encoded: bytes) -> np.ndarray:
    """uint8 [height, width, 3] of the bytes of an image file."""
    import PIL.Image

    return np.asarray(PIL.Image.open(io.BytesIO(encoded)).convert("RGB"))


def bytes_of_pictures(key: str, values: np.ndarray) -> np.ndarray:
    """Images as uint8; diffusion_policy stores some as float32 of 0 to 255."""
    if values.ndim != 4 or values.dtype == np.uint8:
        return values
    if values.size and (values.min() < 0 or values.max() > 255 or (values != np.rint(values)).any()):
        raise Unreadable(f"{key}: found images of {values.dtype} from {values.min():g} to {values.max():g}; allowed: whole numbers "
                         "from 0 to 255")
    return values.astype(np.uint8)


# ---- diffusion_policy: all episodes one after another ----
def zarr_episodes(path: Path, left_out: dict[str, None]) -> Iterator[Episode]:
    try:
        import zarr
    except ImportError:
        raise Unreadable(f"{path}: Zarr is read by its Python package: pip install zarr") from None
    store = zarr.storage.ZipStore(path, mode="r") if path.is_file() else path
    group = zarr.open_group(store, mode="r")
    if "meta/episode_ends" not in group or "data/action" not in group:
        raise Unreadable(f"{path}: found {listed(sorted(group))}; allowed: meta/episode_ends and data/action")
    ends, data = group["meta/episode_ends"][:], dict(sorted(group["data"].arrays()))
    frames = data["action"].shape[0]
    left_out |= dict.fromkeys(f"data/{key}, which is a group" for key in group["data"].group_keys())
    for key, values in data.items():
        if values.shape[:1] != (frames,):
            raise Unreadable(f"{path}: data/{key}: found the shape {list(values.shape)}; allowed: {frames} frames, as "
                             "data/action has")
    if len(ends) and (ends[-1] > frames or (np.diff(ends, prepend=0) <= 0).any()):
        raise Unreadable(f"{path}: meta/episode_ends: found {ends.tolist()[:8]} with {frames} frames; allowed: numbers that grow, to "
                         f"{frames} at most")
    if len(ends) and ends[-1] < frames:
        rest = frames - ends[-1]
        left_out[f"{rest} of {frames} frames, behind the last of meta/episode_ends ({ends[-1]})"] = None
    for first, end in zip([0, *ends[:-1]], ends):
        values = {key: data[key][first:end] for key in data}
        yield ({key: bytes_of_pictures(f"{path}: data/{key}", part) for key, part in values.items() if key != "action"},
               values["action"], None, [])


# ---- ALOHA: a file for each episode ----
def aloha_episodes(path: Path, left_out: dict[str, None]) -> Iterator[Episode]:
    with open_file(path) as file:
        if "action" not in file or "observations" not in file or "observations/qpos" not in file:
            raise Unreadable(f"{path}: found {listed(sorted(file))}; allowed: {KNOWN}")
        left_out |= dict.fromkeys(f"/{key}" for key in sorted(file) if key not in ("action", "observations"))
        left_out |= dict.fromkeys(f"/observations/{key}" for key, item in file["observations"].items()
                                  if isinstance(item, h5py.Group) and key != "images")
        observations = {key: values[()] for key, values in file["observations"].items() if isinstance(values, h5py.Dataset)}
        for camera, stored in file.get("observations/images", {}).items():
            if stored.ndim == 4:
                observations[camera] = stored[()]
            else:  # (JPEG, padded with zeros to the longest)
                observations[camera] = np.stack([picture(row.tobytes()) for row in stored[()].astype(np.uint8)])
        yield observations, file["action"][()], None, []


# ---- RLDS: a record for each episode, a tf.train.Example of all its steps (tensorflow/core/example/feature.proto) ----
def missing_of(files: list[Path]) -> list[str]:
    """What to say of files of a data set that are not there: each name has its number and how many there are."""
    found: dict[tuple[str, int], int] = {}
    for file in files:
        if match := re.fullmatch(r"(.*)-\d+-of-(\d+)", file.name):
            found[match[1], int(match[2])] = found.get((match[1], int(match[2])), 0) + 1
    return [f"{of - count} of {of} files of {name}, which are not there"
            for (name, of), count in found.items() if count < of]


def records(path: Path) -> Iterator[bytes]:
    """The records of a TFRecord file: length, its checksum, bytes, their checksum. Missing bytes are reported."""
    with open(path, "rb") as file:
        while header := file.read(12):
            length = struct.unpack("<Q", header[:8])[0] if len(header) == 12 else 0
            record = file.read(length)
            if len(header) < 12 or len(record) < length or len(file.read(4)) < 4:
                raise Unreadable(f"{path}: the file ends within a record")
            yield record


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Number and value of each field of a protocol buffer: bytes, or an integer."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        kind = key & 7
        if kind == 0:
            yield key >> 3, varint()
            continue
        size = varint() if kind == 2 else {1: 8, 5: 4}[kind]
        yield key >> 3, data[at:at + size]
        at += size


def feature(data: bytes) -> Any:
    """The value of a feature. bytes_list: a list; float_list, int64_list: an array."""
    for number, entries in fields(data):
        if number == 1:
            return [value for _, value in fields(entries)]
        if number == 2:
            return np.concatenate([np.zeros(0, "<f4"), *(np.frombuffer(value, "<f4") for _, value in fields(entries))])
        whole = []
        for _, value in fields(entries):
            whole += [value] if isinstance(value, int) else [entry for _, entry in fields(b"".join(
                b"\x08" + piece for piece in re.findall(rb"[\x80-\xff]*[\x00-\x7f]", value, re.S)))]
        return np.array([value - (1 << 64 if value >> 63 else 0) for value in whole], np.int64)
    return np.zeros(0)


def shapes_of(folder: Path) -> dict[str, list[int]]:
    """Shapes of features by their names in records, from features.json of TensorFlow Datasets."""
    found: dict[str, list[int]] = {}

    def visit(node: Any, name: str) -> None:
        if not isinstance(node, dict):
            return
        if "tensor" in node or "image" in node:
            shape = (node.get("tensor") or node.get("image")).get("shape", {})
            found[name] = [int(size) for size in shape.get("dimensions", [])]
        for key, below in node.get("featuresDict", {}).get("features", {}).items():
            visit(below, f"{name}/{key}" if name else key)
        visit(node.get("sequence", {}).get("feature"), name)

    if (folder / "features.json").is_file():
        visit(json.loads((folder / "features.json").read_text()), "")
    return found


def rlds_episodes(path: Path, left_out: dict[str, None]) -> Iterator[Episode]:
    shapes = shapes_of(path.parent)
    for record in records(path):
        try:
            values: dict[str, Any] = {}
            for _, features in fields(record):
                for _, entry in fields(features):
                    parts = dict(fields(entry))
                    values[parts[1].decode()] = feature(parts[2])
        except (IndexError, KeyError, ValueError) as error:
            raise Unreadable(f"{path}: a record is no tf.train.Example: {error!r}") from error
        steps = next((len(values[name]) for name in ("steps/is_first", "steps/is_last", "steps/reward") if name in values), 0)
        actions = {name: value for name, value in values.items() if re.fullmatch(r"steps/action(/.*)?", name)}
        if not steps or not actions:
            raise Unreadable(f"{path}: found {listed(sorted(values))}; allowed: episodes of RLDS, with steps/action "
                             "and steps/is_first")
        numbers = {name: array(path, name, value, steps, shapes.get(name)) for name, value in sorted(actions.items())}
        observations, words = {}, []
        for name, value in sorted(values.items()):
            if re.fullmatch(r"steps/(observation/)?(natural_)?language_instruction(_\d+)?", name) and isinstance(value, list):
                words += [text for text in dict.fromkeys(entry.decode(errors="replace").strip() for entry in value) if text]
            elif name.startswith("steps/observation/"):
                key = name.removeprefix("steps/observation/").replace("/", "_")
                if isinstance(value, list) and not is_picture(value):
                    left_out[f"{name}, which is text"] = None
                    continue
                observations[key] = (np.stack(list(map(picture, value))) if isinstance(value, list)
                                     else array(path, name, value, steps, shapes.get(name)))
            elif name not in actions and name not in RLDS_MARKS:
                left_out[name] = None
        rewards = values.get("steps/reward")
        yield (observations, np.concatenate([part.reshape(steps, -1) for part in numbers.values()], axis=1), rewards,
               list(dict.fromkeys(words)))


def is_picture(value: list[bytes]) -> bool:
    return bool(value) and value[0][:4] in (b"\x89PNG", b"\xff\xd8\xff\xe0", b"\xff\xd8\xff\xe1", b"\xff\xd8\xff\xdb")


def array(path: Path, name: str, value: Any, steps: int, shape: list[int] | None) -> np.ndarray:
    if isinstance(value, list) or len(value) % steps:
        raise Unreadable(f"{path}: {name}: found {len(value)} values of {steps} steps; allowed: as many for each step")
    size = len(value) // steps
    if shape and int(np.prod(shape)) == size and len(shape) == 3:
        return value.reshape(steps, *shape)
    return value.reshape(steps, size)
