"""tools/from_lerobot.py: data sets in LeRobot's parquet layouts, written here as its documentation describes them (v2: a
file for each episode; v3: many episodes in a file), become the same demonstrations."""

import json
import subprocess
import sys

import h5py
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from conftest import ROOT
from demonstrations import episodes

CONVERTER = ROOT / "tools/from_lerobot.py"


def write(folder, made, version):
    features = {
        "observation.state": {"dtype": "float32", "shape": [3], "names": ["x", "y", "z"]},
        "observation.environment.velocity": {"dtype": "float32", "shape": [2], "names": None},
        "observation.images.top": {"dtype": "video", "shape": [96, 96, 3], "names": ["height", "width", "channels"]},
        "action": {"dtype": "float32", "shape": [2], "names": ["a", "b"]},
        "next.reward": {"dtype": "float32", "shape": [1], "names": None},
        "next.done": {"dtype": "bool", "shape": [1], "names": None},
        "timestamp": {"dtype": "float32", "shape": [1], "names": None},
        **{name: {"dtype": "int64", "shape": [1], "names": None}
           for name in ("frame_index", "episode_index", "index", "task_index")},
    }
    (folder / "meta").mkdir(parents=True)
    (folder / "data/chunk-000").mkdir(parents=True)
    info = {"codebase_version": version, "robot_type": "unknown", "total_episodes": len(made), "fps": 10,
            "total_frames": sum(len(action) for _, _, action in made), "features": features}
    (folder / "meta/info.json").write_text(json.dumps(info))
    tables, index = [], 0
    for number, (position, velocity, action) in enumerate(made):
        frames = len(action)
        vector = lambda values: pyarrow.array([row.tolist() for row in values], pyarrow.list_(pyarrow.float32(), values.shape[1]))  # noqa: E731
        tables.append(pyarrow.table({
            "observation.state": vector(position[:-1]), "observation.environment.velocity": vector(velocity[:-1]),
            "action": vector(action), "next.reward": pyarrow.array(np.arange(frames, dtype=np.float32)),
            "next.done": pyarrow.array(np.arange(frames) == frames - 1),
            "timestamp": pyarrow.array(np.arange(frames, dtype=np.float32) / 10),
            "frame_index": pyarrow.array(np.arange(frames)), "episode_index": pyarrow.array(np.full(frames, number)),
            "index": pyarrow.array(index + np.arange(frames)), "task_index": pyarrow.array(np.zeros(frames, np.int64))}))
        index += frames
    if version.startswith("v2"):
        files = {f"episode_{number:06d}": [table] for number, table in enumerate(tables)}
    else:
        files = {"file-000": tables[:4], "file-001": tables[4:]}
    for name, parts in files.items():
        pyarrow.parquet.write_table(pyarrow.concat_tables(parts), folder / f"data/chunk-000/{name}.parquet")
    return folder


def convert(source, target):
    return subprocess.run([sys.executable, CONVERTER, source, target], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_converted(maniple, tmp_path, version):
    made = episodes(12)
    result = convert(write(tmp_path / "set", made, version), tmp_path / "demos.hdf5")
    assert result.returncode == 0, result.stderr
    assert "left out: observation.images.top" in result.stdout and "12 demonstrations" in result.stdout
    with h5py.File(tmp_path / "demos.hdf5") as file:
        assert file["data"].attrs["total"] == sum(len(action) for _, _, action in made)
        for number, (position, velocity, action) in enumerate(made):
            demo = file[f"data/demo_{number}"]
            for name, expected in (("obs/state", position[:-1]), ("obs/environment_velocity", velocity[:-1]),
                                   ("actions", action), ("rewards", np.arange(len(action))),
                                   ("dones", np.arange(len(action)) == len(action) - 1)):
                np.testing.assert_array_equal(demo[name], expected, err_msg=name)
    text = maniple("imitate", "learning.preset=robomimic", f"data.file={tmp_path / 'demos.hdf5'}", "learning.steps=2",
                   "policy.hidden=[8]", "data.observations=[state, environment_velocity]",
                   f"output.directory={tmp_path / 'run'}").stdout
    assert "12 demonstrations" in text


def test_what_is_wrong_is_named(tmp_path):
    assert "meta/info.json does not exist" in convert(tmp_path, tmp_path / "a.hdf5").stderr
    folder = write(tmp_path / "set", episodes(6), "v2.1")
    (folder / "data/chunk-000/episode_000005.parquet").unlink()
    result = convert(folder, tmp_path / "a.hdf5")
    assert result.returncode == 1 and "total_episodes is 6, found 5" in result.stderr
    (folder / "data/chunk-000/episode_000002.parquet").unlink()
    assert "episode 3 where 2 is due" in convert(folder, tmp_path / "a.hdf5").stderr
    info = json.loads((folder / "meta/info.json").read_text())
    (folder / "meta/info.json").write_text(json.dumps({**info, "codebase_version": "v1.6"}))
    assert "codebase_version is 'v1.6'; known: v2.x, v3.x" in convert(folder, tmp_path / "a.hdf5").stderr
    assert not list(tmp_path.glob("*.hdf5*"))
