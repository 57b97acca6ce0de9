"""Writes a LeRobot data set (parquet, layouts v2 and v3) as demonstrations in robomimic's layout, which imitate reads.

    python -m maniple.from_lerobot DATASET DEMONSTRATIONS.hdf5 [--task TASK] [--overwrite]

DATASET is the folder with meta/info.json, data/ and, where cameras were filmed, videos/. Its `observation.<name>` become
obs/<name> (dots become _), images and frames of videos as uint8 [frame, height, width, 3]; `action` becomes actions;
rewards and ends come along where there are any, and fps as control_freq. With several tasks --task names those to
write, by their text or number, and each is a list /mask/<text> of demonstrations; all of what is left out is said.
Needs pyarrow, for videos PyAV and for images Pillow: pip install pyarrow av pillow
"""

import argparse
import contextlib
import io
import json
from pathlib import Path

import numpy as np

from maniple.conversion import note_tasks, write_masks
from maniple.results import check_outputs, new_file
from maniple.results import refuse as fail

try:
    import pyarrow.parquet
except ImportError:
    pyarrow = None  # main() says so
try:
    import av
except ImportError:
    av = None  # only videos need it

NUMBERS = {"float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool"}
INDEX = ["episode_index", "frame_index"]


@contextlib.contextmanager
def reading(path):
    """Errors of a file are reported with its name."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, ValueError, OSError, pyarrow.ArrowException) as error:
        reason = str(error).splitlines()[0]
        fail(f"{path}: damaged, or not as in a LeRobot data set: {type(error).__name__}: {reason}")


def column(table, name):
    """A column as an array: [frame, size], or [frame] for single numbers."""
    values = [np.asarray(value) for value in table[name].to_pylist()]
    for row, value in enumerate(values):
        if value.dtype == object:
            raise ValueError(f"{name} of row {row} is {value.tolist()}, and no number")
        if value.shape != values[0].shape:
            raise ValueError(f"{name} of row {row} is {value.tolist()}, that of row 0 {values[0].tolist()}")
    return np.stack(values) if values else np.zeros(0)


def warn_of_not_finite(file, name, values):
    """Warns of numbers that are not finite. They are written, and imitate refuses them."""
    rows = np.flatnonzero(~np.isfinite(values.reshape(len(values), -1).astype(float)).all(axis=1))
    if len(rows):
        print(f"warning: {file}: {name} is not finite in {len(rows)} rows, first in row {rows[0]}; imitate refuses such numbers")


class Video:
    """The frames of one camera's video file; reading in order is fastest."""

    def __init__(self, path, fps):
        self.path, self.fps, self.index, self.decoded = path, fps, -1, None

    def frame(self, wanted):
        """Frame number `wanted` of the file, uint8 [height, width, 3]."""
        if self.decoded is None or wanted < self.index:
            self.decoded, self.index = self.decode(), -1
        while self.index < wanted:
            self.index, self.picture = next(self.decoded, (None, None))
            if self.index is None:
                fail(f"{self.path} ends before its frame {wanted}")
        if self.index != wanted:
            fail(f"{self.path} has no frame {wanted}")
        return self.picture.to_ndarray(format="rgb24")

    def decode(self):
        try:
            with av.open(self.path) as container:
                for picture in container.decode(video=0):
                    yield round(picture.time * self.fps), picture
        except (OSError, IndexError, av.FFmpegError) as error:
            fail(f"{self.path}: {error}")


class Videos:
    """The videos of a data set's episodes: v2 a file for each, v3 many episodes in a file, one after another."""

    def __init__(self, dataset, info):
        self.dataset, self.info, self.episodes, self.open = dataset, info, {}, {}
        for file in sorted((dataset / "meta/episodes").glob("*/*.parquet")):
            columns = [name for name in pyarrow.parquet.read_schema(file).names
                       if name == "episode_index" or name.startswith("videos/")]
            for row in pyarrow.parquet.read_table(file, columns=columns).to_pylist():
                self.episodes[row["episode_index"]] = row

    def frames(self, camera, episode, count):
        """Each of the `count` frames of an episode."""
        first = 0
        place = {"video_key": camera, "episode_index": episode,
                 "episode_chunk": episode // self.info.get("chunks_size", 1000)}
        if self.episodes:
            row = self.episodes.get(episode, {})
            if f"videos/{camera}/from_timestamp" not in row:
                fail(f"{self.dataset / 'meta/episodes'} does not say where the video of {camera} for episode {episode} is")
            place |= {name: row[f"videos/{camera}/{name}"] for name in ("chunk_index", "file_index")}
            first = round(row[f"videos/{camera}/from_timestamp"] * self.info["fps"])
        path = self.dataset / self.info["video_path"].format(**place)
        if camera not in self.open or self.open[camera].path != path:
            self.open[camera] = Video(path, self.info["fps"])
        for index in range(first, first + count):
            yield self.open[camera].frame(index)


def tasks_of(dataset):
    """Task numbers with their texts: v2 has them in meta/tasks.jsonl, v3 in meta/tasks.parquet."""
    lines, table = dataset / "meta/tasks.jsonl", dataset / "meta/tasks.parquet"
    rows = []
    with reading(lines if lines.is_file() else table):
        if lines.is_file():
            rows = [json.loads(line) for line in lines.read_text().splitlines() if line.strip()]
        elif table.is_file():
            rows = pyarrow.parquet.read_table(table).to_pylist()
        # (pandas keeps the texts as the index of the table)
        return {row["task_index"]: str(row.get("task", row.get("__index_level_0__", row["task_index"]))) for row in rows}


def wanted_tasks(given, texts, found, info_path):
    """The numbers of the requested tasks; of a data set with one task, that one."""
    listed = "; ".join(f"{number}: {texts.get(number, 'no text')!r} ({count} episodes)" for number, count in sorted(found.items()))
    if given is None:
        if len(found) > 1:
            fail(f"{info_path.parent}: the data set has {len(found)} tasks, and --task does not say which are wanted "
                 f"(--task all: together): {listed}")
        return set(found)
    if given == ["all"]:
        return set(found)
    wanted = set()
    for entry in given:
        numbers = {number for number in found if entry in (str(number), texts.get(number))}
        if not numbers:
            fail(f"{info_path.parent}: no task {entry!r}; there are {listed}")
        wanted |= numbers
    return wanted


def write_pictures(group, key, pictures, count):
    """Writes `count` images, uint8 [height, width, 3] each, one after another: an episode of them may not fit into memory."""
    for index, picture in enumerate(pictures):
        if index == 0:
            group.create_dataset(key, (count, *picture.shape), np.uint8)
        elif picture.shape != group[key].shape[1:]:
            fail(f"{key}: a picture of {picture.shape} where those before are {group[key].shape[1:]}")
        group[key][index] = picture


def stored_picture(dataset, stored):
    """An image of a parquet file, which holds the bytes of an image file or the path of one: uint8 [height, width, 3]."""
    import PIL.Image

    source = io.BytesIO(stored["bytes"]) if stored["bytes"] else dataset / stored["path"]
    try:
        return np.asarray(PIL.Image.open(source).convert("RGB"))
    except OSError as error:
        fail(f"{stored['path']}: {error}")


def depth_map(feature):
    """Whether a video has distances, not colours."""
    about = feature.get("info") or feature.get("video_info") or {}
    return about.get("video.is_depth_map") or about.get("is_depth_map")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("demonstrations", type=Path)
    parser.add_argument("--without-images", "--without-pictures", action="store_true", help="leave out images and videos")
    parser.add_argument("--task", action="append", help="a task by its text or number, given once or several times; all: every one")
    parser.add_argument("--overwrite", action="store_true", help="replace a file that is there already")
    given = parser.parse_args()
    try:
        check_outputs([given.demonstrations], [given.dataset], given.overwrite)
        convert(given)
    except OSError as error:
        fail(error)


def convert(given):
    if pyarrow is None:
        fail("data sets are parquet files, which pyarrow reads: pip install pyarrow")
    info_path = given.dataset / "meta/info.json"
    if not info_path.is_file():
        fail(f"{info_path} does not exist; a LeRobot data set has meta/info.json and data/*/*.parquet")
    with reading(info_path):
        info = json.loads(info_path.read_text())
        version = str(info.get("codebase_version", "")).lstrip("v")
        if version.split(".")[0] not in ("2", "3"):
            fail(f"{info_path}: codebase_version is {info.get('codebase_version')!r}; known: v2.x, v3.x")
        features = info["features"]
        observed = {name: feature for name, feature in features.items() if name.startswith("observation.")}
        vectors = [name for name, feature in observed.items() if feature["dtype"] in NUMBERS]
        images = [name for name, feature in observed.items() if feature["dtype"] == "image"]
        videos = [name for name, feature in observed.items()
                  if feature["dtype"] == "video" and not depth_map(feature)]
    if given.without_images:
        images, videos = [], []
    observations = {name: name.removeprefix("observation.").replace(".", "_") for name in (*vectors, *images, *videos)}
    if "action" not in features or not observations:
        fail(f"{info_path}: no action or no observation.<name> of numbers or images among the features "
             f"{', '.join(features)}")
    known = {"action", "next.reward", "next.done", "next.success", "timestamp", "frame_index", "episode_index", "index",
             "task_index", *observations}
    rest = [name for name in features if name not in known]
    if rest:
        print(f"left out: {', '.join(rest)}")
    if videos and av is None:
        fail(f"{', '.join(videos)}: videos, which PyAV decodes: pip install av, or give --without-images")
    filmed = Videos(given.dataset, info) if videos else None
    extras = [name for name in ("next.reward", "next.done", "next.success") if name in features]

    files = sorted((given.dataset / "data").glob("*/*.parquet"))
    if not files:
        fail(f"{given.dataset / 'data'} has no */*.parquet")
    texts, of_episode = tasks_of(given.dataset), {}  # task numbers of each episode
    for file in files:
        names = ["episode_index"] + (["task_index"] if "task_index" in features else [])
        with reading(file):
            table = pyarrow.parquet.read_table(file, columns=names)
            episode = column(table, "episode_index").reshape(-1)
            task = column(table, "task_index").reshape(-1) if "task_index" in features else np.zeros(len(episode), int)
        for pair in np.unique(np.stack([episode, task]), axis=1).T:
            of_episode.setdefault(int(pair[0]), set()).add(int(pair[1]))
    found = {task: sum(task in tasks for tasks in of_episode.values()) for task in set().union(*of_episode.values())}
    wanted = wanted_tasks(given.task, texts, found, info_path)
    passed_over = {"episodes": 0, "frames": 0}

    total = number = due = 0
    succeeded, tasks = [], {}
    with new_file(given.demonstrations) as output:
        data = output.create_group("data")
        data.attrs["env_args"] = json.dumps(
            {"env_name": info.get("robot_type") or given.dataset.name, "type": 2,
             "env_kwargs": {"control_freq": info["fps"]} if "fps" in info else {}})
        for file in files:
            with reading(file):
                table = pyarrow.parquet.read_table(file, columns=[*INDEX, *vectors, *images, "action", *extras])
                episode, frame = (column(table, name).reshape(-1) for name in INDEX)
                values = {name: column(table, name) for name in (*vectors, "action", *extras)}
                for name, numbers in values.items():
                    warn_of_not_finite(file, name, numbers)
            for which in np.unique(episode):
                rows = np.flatnonzero(episode == which)
                rows = rows[np.argsort(frame[rows], kind="stable")]
                if not np.array_equal(frame[rows], np.arange(len(rows))):
                    fail(f"{file}: the frames of episode {which} are not 0 to {len(rows) - 1}, each once")
                if which != due:
                    fail(f"{file}: episode {which} where {due} is due")
                due += 1
                if not of_episode[int(which)] <= wanted:
                    passed_over["episodes"] += 1
                    passed_over["frames"] += len(rows)
                    continue
                demo = data.create_group(f"demo_{number}")
                demo.attrs["num_samples"] = len(rows)
                note_tasks(demo, [texts.get(task, str(task)) for task in sorted(of_episode[int(which)])], tasks)
                demo["actions"] = values["action"][rows]
                for name in vectors:
                    demo[f"obs/{observations[name]}"] = values[name][rows]
                for name in images:
                    write_pictures(demo, f"obs/{observations[name]}",
                                   (stored_picture(given.dataset, table[name][row].as_py()) for row in rows.tolist()), len(rows))
                for name in videos:
                    write_pictures(demo, f"obs/{observations[name]}", filmed.frames(name, int(which), len(rows)), len(rows))
                last = np.arange(len(rows)) == len(rows) - 1
                if "next.reward" in values:
                    demo["rewards"] = values["next.reward"][rows].reshape(-1)
                demo["dones"] = (values["next.done"][rows].reshape(-1) if "next.done" in values else last).astype(np.int64)
                if "next.success" in values and values["next.success"][rows].any():
                    succeeded.append(f"demo_{number}")
                number, total = number + 1, total + len(rows)
        for name, count in (("total_episodes", due), ("total_frames", total + passed_over["frames"])):
            if info.get(name, count) != count:
                fail(f"{info_path}: {name} is {info[name]}, found {count}: files are missing")
        if number == 0:
            fail(f"{given.dataset}: no episode is of the tasks asked for alone: each has frames of others, too")
        data.attrs["total"] = total
        if "next.success" in extras:
            output["mask/success"] = np.array(succeeded, dtype="S") if succeeded else np.zeros(0, "S1")
        said = write_masks(output, tasks)
    if passed_over["episodes"]:
        print(f"left out: {passed_over['episodes']} episodes, {passed_over['frames']} samples, with frames of other tasks")
    print(f"{given.demonstrations}: {number} demonstrations, {total} samples; observations "
          f"{', '.join(sorted(observations.values()))}{said}")


if __name__ == "__main__":
    main()
