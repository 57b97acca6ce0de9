"""tools/from_lerobot.py: data sets in LeRobot's parquet layouts, written here as its documentation describes them (v2: a
file for each episode; v3: many episodes in a file), become the same demonstrations, pictures and videos included."""
# ctest: PROCESSORS 1

import io
import json

import av
import h5py
import numpy as np
import PIL.Image
import pyarrow
import pyarrow.parquet
import pytest

from conftest import of_the_day, start_tool
from demonstrations import episodes, pictures

FPS = 10
CAMERAS = {"top": (40, 48, 3), "wrist": (8, 10, 3)}


VIDEO_PATHS = {"v2": "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4",
               "v3": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"}


def seen(made):
    """What the cameras saw with each action: [{camera: uint8 [frame, height, width, 3]}]."""
    return [{camera: frames[:-1] for camera, frames in each.items()} for each in pictures(made, CAMERAS)]


def png(picture):
    file = io.BytesIO()
    PIL.Image.fromarray(picture).save(file, "png")
    return {"bytes": file.getvalue(), "path": "frame.png"}


def film(path, frames):
    """A video without loss, as LeRobot writes it: a key frame now and then, and those between told by their neighbours."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(path, "w") as container:
        stream = container.add_stream("libx264rgb", rate=FPS, options={"qp": "0", "g": "5", "bf": "2"})
        stream.height, stream.width = frames.shape[1:3]
        stream.pix_fmt = "rgb24"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())


def write(folder, made, version, tasks=lambda number, frames: np.zeros(frames, np.int64)):
    """`tasks`: the task of each frame of an episode."""
    features = {
        "observation.state": {"dtype": "float32", "shape": [3], "names": ["x", "y", "z"]},
        "observation.environment.velocity": {"dtype": "float32", "shape": [2], "names": None},
        "observation.images.top": {"dtype": "video", "shape": [40, 48, 3], "names": ["height", "width", "channels"]},
        "observation.images.depth": {"dtype": "video", "shape": [40, 48, 1], "info": {"video.is_depth_map": True}},
        "observation.wrist": {"dtype": "image", "shape": [3, 8, 10], "names": ["channels", "height", "width"]},
        "action": {"dtype": "float32", "shape": [2], "names": ["a", "b"]},
        "next.reward": {"dtype": "float32", "shape": [1], "names": None},
        "next.done": {"dtype": "bool", "shape": [1], "names": None},
        "timestamp": {"dtype": "float32", "shape": [1], "names": None},
        **{name: {"dtype": "int64", "shape": [1], "names": None}
           for name in ("frame_index", "episode_index", "index", "task_index")},
    }
    (folder / "meta").mkdir(parents=True)
    (folder / "data/chunk-000").mkdir(parents=True)
    info = {"codebase_version": version, "robot_type": "unknown", "total_episodes": len(made), "fps": FPS,
            "chunks_size": 5, "video_path": VIDEO_PATHS[version[:2]],
            "total_frames": sum(len(action) for _, _, action in made), "features": features}
    (folder / "meta/info.json").write_text(json.dumps(info))
    tables, index, filmed = [], 0, seen(made)
    for number, (position, velocity, action) in enumerate(made):
        frames = len(action)
        vector = lambda values: pyarrow.array([row.tolist() for row in values], pyarrow.list_(pyarrow.float32(), values.shape[1]))  # noqa: E731
        tables.append(pyarrow.table({
            "observation.state": vector(position[:-1]), "observation.environment.velocity": vector(velocity[:-1]),
            "action": vector(action), "next.reward": pyarrow.array(np.arange(frames, dtype=np.float32)),
            "next.done": pyarrow.array(np.arange(frames) == frames - 1),
            "observation.wrist": pyarrow.array([png(picture) for picture in filmed[number]["wrist"]]),
            "timestamp": pyarrow.array(np.arange(frames, dtype=np.float32) / FPS),
            "frame_index": pyarrow.array(np.arange(frames)), "episode_index": pyarrow.array(np.full(frames, number)),
            "index": pyarrow.array(index + np.arange(frames)), "task_index": pyarrow.array(tasks(number, frames))}))
        index += frames
    if version.startswith("v2"):
        files = {f"episode_{number:06d}": [table] for number, table in enumerate(tables)}
    else:
        files = {"file-000": tables[:4], "file-001": tables[4:]}
        rows, frames_before = [], {0: 0, 1: 0}
        for number, (_, _, action) in enumerate(made):
            where = {"chunk_index": 0, "file_index": int(number >= 7), "from_timestamp": frames_before[number >= 7] / FPS}
            rows.append({"episode_index": number, "length": len(action),
                         **{f"videos/observation.images.top/{name}": value for name, value in where.items()}})
            frames_before[number >= 7] += len(action)
        (folder / "meta/episodes/chunk-000").mkdir(parents=True)
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "meta/episodes/chunk-000/file-000.parquet")
    top = [each["top"] for each in filmed]
    videos = [(f"chunk-{number // 5:03d}/observation.images.top/episode_{number:06d}", [frames])
              for number, frames in enumerate(top)]
    if version.startswith("v3"):
        videos = [(f"observation.images.top/chunk-000/file-{file:03d}", part) for file, part in enumerate((top[:7], top[7:]))]
    for name, parts in videos:
        if parts:
            film(folder / f"videos/{name}.mp4", np.concatenate(parts))
    for name, parts in files.items():
        pyarrow.parquet.write_table(pyarrow.concat_tables(parts), folder / f"data/chunk-000/{name}.parquet")
    return folder


def convert(source, target, *arguments):
    return start_tool("from_lerobot.py", source, target, *arguments)


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_converted(maniple, tmp_path, version):
    made = episodes(12)
    filmed = seen(made)
    result = convert(write(tmp_path / "set", made, version), tmp_path / "demos.hdf5")
    assert result.returncode == 0, result.stderr
    assert "left out: observation.images.depth\n" in result.stdout and "12 demonstrations" in result.stdout
    with h5py.File(tmp_path / "demos.hdf5") as file:
        assert file["data"].attrs["total"] == sum(len(action) for _, _, action in made)
        assert json.loads(file["data"].attrs["env_args"])["env_kwargs"] == {"control_freq": FPS}  # which replays take
        for number, (position, velocity, action) in enumerate(made):
            demo = file[f"data/demo_{number}"]
            for name, expected in (("obs/state", position[:-1]), ("obs/environment_velocity", velocity[:-1]),
                                   ("actions", action), ("rewards", np.arange(len(action))),
                                   ("dones", np.arange(len(action)) == len(action) - 1),
                                   ("obs/images_top", filmed[number]["top"]),
                                   ("obs/wrist", filmed[number]["wrist"])):
                np.testing.assert_array_equal(demo[name], expected, err_msg=name)
    text = maniple("imitate", "learning.preset=robomimic", f"data.file={tmp_path / 'demos.hdf5'}", "learning.steps=2",
                   "policy.hidden=[8]", "data.observations=[state, environment_velocity]",
                   f"output.directory={tmp_path / 'run'}").stdout
    assert "12 demonstrations" in text
    text = maniple("validate", "inputs/imitate/bc_image.yaml", f"data.file={tmp_path / 'demos.hdf5'}", "image.crop=[36, 44]",
                   "data.observations=[state, images_top]").stdout
    assert "images_top 40x48x3" in text


def test_pictures_are_left_out_where_asked(tmp_path):
    folder = write(tmp_path / "set", episodes(2), "v2.1")
    result = convert(folder, tmp_path / "demos.hdf5", "--without-images")
    assert result.returncode == 0, result.stderr
    assert "left out: observation.images.top, observation.images.depth, observation.wrist\n" in result.stdout
    with h5py.File(tmp_path / "demos.hdf5") as file:
        assert sorted(file["data/demo_0/obs"]) == ["environment_velocity", "state"]
    before = (tmp_path / "demos.hdf5").read_bytes()
    result = convert(folder, tmp_path / "demos.hdf5", "--without-images")
    assert result.returncode == 2 and "demos.hdf5: found a file already; allowed: another name, or --" in result.stderr
    assert (tmp_path / "demos.hdf5").read_bytes() == before


@pytest.mark.parametrize("version", of_the_day(["v2.1", "v3.0"], "v3.0"))
def test_tasks_are_not_mixed(tmp_path, version):
    """Of several tasks one says which are wanted, by text or number; what is left out is counted. Episode 4 changes its task."""
    made = episodes(9)
    folder = write(tmp_path / "set", made, version,
                   lambda number, frames: np.where((np.arange(frames) > 0) & (number == 4), 2, number % 3))
    texts = ["open the door", "close the door", "wait"]
    if version.startswith("v2"):
        (folder / "meta/tasks.jsonl").write_text("".join(json.dumps({"task_index": n, "task": text}) + "\n" for n, text in enumerate(texts)))
    else:
        pyarrow.parquet.write_table(pyarrow.table({"task_index": [0, 1, 2], "__index_level_0__": texts}), folder / "meta/tasks.parquet")
    result = convert(folder, tmp_path / "demos.hdf5", "--without-images")
    assert result.returncode == 2 and not (tmp_path / "demos.hdf5").exists()
    assert ("has 3 tasks, and --task does not say which are wanted (--task all: together): 0: 'open the door' (3 episodes); "
            "1: 'close the door' (3 episodes); 2: 'wait' (4 episodes)") in result.stderr
    lengths = [len(action) for _, _, action in made]
    for arguments, kept in ((["--task", "open the door"], [0, 3, 6]), (["--task", "1"], [1, 7]),
                            (["--task", "wait", "--task", "1"], [1, 2, 4, 5, 7, 8]), (["--task", "all"], list(range(9)))):
        result = convert(folder, tmp_path / "demos.hdf5", "--without-images", "--overwrite", *arguments)
        assert result.returncode == 0, result.stderr
        taken, left = sum(lengths[number] for number in kept), 9 - len(kept)
        assert f"{len(kept)} demonstrations, {taken} samples" in result.stdout
        assert (f"left out: {left} episodes, {sum(lengths) - taken} samples, with frames of other tasks" in result.stdout) == (left > 0)
        with h5py.File(tmp_path / "demos.hdf5") as file:
            assert len(file["data"]) == len(kept)
            for demo, number in enumerate(kept):
                np.testing.assert_array_equal(file[f"data/demo_{demo}/actions"], made[number][2])
                assert file[f"data/demo_{demo}"].attrs["task"] == (texts[number % 3] if number != 4 else "close the door; wait")
                for text in texts:
                    listed = file[f"mask/{text}"].asstr()[()].tolist() if text in file["mask"] else []
                    assert (f"demo_{demo}" in listed) == (text == texts[number % 3] or (number == 4 and text != "open the door"))
    assert "no task 'jump'; there are 0: 'open the door'" in convert(folder, tmp_path / "a.hdf5", "--task", "jump").stderr


def test_videos_that_are_damaged_are_named(tmp_path):
    folder = write(tmp_path / "set", episodes(3), "v2.1")
    video = folder / "videos/chunk-000/observation.images.top/episode_000001.mp4"
    whole = video.read_bytes()
    film(video, seen(episodes(3))[1]["top"][:2])
    assert f"{video} ends before its frame 2" in convert(folder, tmp_path / "a.hdf5").stderr
    video.write_bytes(whole[:len(whole) // 2])
    assert f"from_lerobot.py: error: {video}: " in convert(folder, tmp_path / "a.hdf5").stderr
    video.unlink()
    assert f"from_lerobot.py: error: {video}: " in convert(folder, tmp_path / "a.hdf5").stderr
    assert not list(tmp_path.glob("*.hdf5*"))


def test_what_is_wrong_is_named(tmp_path):
    assert "meta/info.json does not exist" in convert(tmp_path, tmp_path / "a.hdf5").stderr
    folder = write(tmp_path / "set", episodes(6), "v2.1")
    (folder / "data/chunk-000/episode_000005.parquet").unlink()
    result = convert(folder, tmp_path / "a.hdf5")
    assert result.returncode == 2 and "total_episodes is 6, found 5" in result.stderr
    (folder / "data/chunk-000/episode_000002.parquet").unlink()
    assert "episode 3 where 2 is due" in convert(folder, tmp_path / "a.hdf5").stderr
    info = json.loads((folder / "meta/info.json").read_text())
    (folder / "meta/info.json").write_text(json.dumps({**info, "codebase_version": "v1.6"}))
    assert "codebase_version is 'v1.6'; known: v2.x, v3.x" in convert(folder, tmp_path / "a.hdf5").stderr
    assert not list(tmp_path.glob("*.hdf5*"))


@pytest.mark.parametrize("file, damage, expected", [
    ("meta/info.json", lambda path: path.write_text('{"codebase'), "JSONDecodeError"),
    ("meta/info.json", lambda path: path.write_text('{"codebase_version": "v3.0", "features": [1]}'), "no attribute 'items'"),
    ("meta/tasks.jsonl", lambda path: path.write_text("no json\n"), "JSONDecodeError"),
    ("data/chunk-000/file-000.parquet", lambda path: path.write_bytes(path.read_bytes()[:200]), "ArrowInvalid"),
    ("data/chunk-000/file-000.parquet", lambda path: without(path, "action", [None]), "action of row 0 is None, and no number"),
    ("data/chunk-000/file-000.parquet", lambda path: without(path, "action", [[1.0]]), "action of row 1 is"),
])
def test_damaged_files_are_named(tmp_path, file, damage, expected):
    write(tmp_path / "set", episodes(6), "v3.0")
    damage(tmp_path / "set" / file)
    result = convert(tmp_path / "set", tmp_path / "demos.hdf5", "--without-images")
    assert result.returncode == 2 and "Traceback" not in result.stderr
    assert f"from_lerobot.py: error: {tmp_path / 'set' / file}: " in result.stderr, result.stderr
    assert expected in result.stderr, result.stderr
    assert not (tmp_path / "demos.hdf5").exists()


def without(path, name, first):
    """Writes a table whose column begins with other values."""
    table = pyarrow.parquet.read_table(path)
    values = table[name].to_pylist()
    pyarrow.parquet.write_table(table.set_column(table.column_names.index(name), name, pyarrow.array([*first, *values[1:]])), path)


def test_numbers_that_are_not_finite_are_named(tmp_path):
    write(tmp_path / "set", episodes(6), "v3.0")
    without(tmp_path / "set/data/chunk-000/file-000.parquet", "action", [[float("nan"), 0.0]])
    result = convert(tmp_path / "set", tmp_path / "demos.hdf5", "--without-images")
    assert result.returncode == 0 and "action is not finite in 1 rows, first in row 0" in result.stdout
