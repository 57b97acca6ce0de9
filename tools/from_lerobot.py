"""Writes a LeRobot data set (parquet, layouts v2 and v3) as demonstrations in robomimic's layout, which imitate reads.

    python tools/from_lerobot.py DATASET DEMONSTRATIONS.hdf5

DATASET is the folder with meta/info.json and data/. Its vectors `observation.<name>` become obs/<name> (dots become _),
`action` becomes actions; rewards and ends come along where there are any. Videos and images are left out and named.
"""

import argparse
import json
import os
import sys
from pathlib import Path

import h5py
import numpy as np
import pyarrow.parquet

NUMBERS = {"float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool"}
INDEX = ["episode_index", "frame_index"]


def fail(text):
    sys.exit(f"from_lerobot: error: {text}")


def column(table, name):
    """[frame, size], or [frame] of plain numbers."""
    return np.stack([np.asarray(value) for value in table[name].to_pylist()]) if len(table) else np.zeros(0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("demonstrations", type=Path)
    given = parser.parse_args()

    info_path = given.dataset / "meta/info.json"
    if not info_path.is_file():
        fail(f"{info_path} does not exist; a LeRobot data set has meta/info.json and data/*/*.parquet")
    info = json.loads(info_path.read_text())
    version = str(info.get("codebase_version", "")).lstrip("v")
    if version.split(".")[0] not in ("2", "3"):
        fail(f"{info_path}: codebase_version is {info.get('codebase_version')!r}; known: v2.x, v3.x")
    features = info["features"]
    observations = {name: name.removeprefix("observation.").replace(".", "_") for name, feature in features.items()
                    if name.startswith("observation.") and feature["dtype"] in NUMBERS}
    if "action" not in features or not observations:
        fail(f"{info_path}: no action or no vector observation.<name> among the features {', '.join(features)}")
    rest = [name for name, feature in features.items() if feature["dtype"] in ("video", "image")]
    if rest:
        print(f"left out: {', '.join(rest)}")
    extras = [name for name in ("next.reward", "next.done", "next.success") if name in features]

    files = sorted((given.dataset / "data").glob("*/*.parquet"))
    if not files:
        fail(f"{given.dataset / 'data'} has no */*.parquet")
    temporary = given.demonstrations.with_name(f"{given.demonstrations.name}.tmp.{os.getpid()}")
    total = number = 0
    succeeded = []
    try:
        with h5py.File(temporary, "w") as output:
            data = output.create_group("data")
            data.attrs["env_args"] = json.dumps(
                {"env_name": info.get("robot_type") or given.dataset.name, "type": 2, "env_kwargs": {}})
            for file in files:
                table = pyarrow.parquet.read_table(file, columns=[*INDEX, *observations, "action", *extras])
                episode, frame = (column(table, name).reshape(-1) for name in INDEX)
                values = {name: column(table, name) for name in (*observations, "action", *extras)}
                for which in np.unique(episode):
                    rows = np.flatnonzero(episode == which)
                    rows = rows[np.argsort(frame[rows], kind="stable")]
                    if not np.array_equal(frame[rows], np.arange(len(rows))):
                        fail(f"{file}: the frames of episode {which} are not 0 to {len(rows) - 1}, each once")
                    if which != number:
                        fail(f"{file}: episode {which} where {number} is due")
                    demo = data.create_group(f"demo_{number}")
                    demo.attrs["num_samples"] = len(rows)
                    demo["actions"] = values["action"][rows]
                    for name, key in observations.items():
                        demo[f"obs/{key}"] = values[name][rows]
                    last = np.arange(len(rows)) == len(rows) - 1
                    demo["rewards"] = values["next.reward"][rows].reshape(-1) if "next.reward" in values else np.zeros(len(rows))
                    demo["dones"] = (values["next.done"][rows].reshape(-1) if "next.done" in values else last).astype(np.int64)
                    if "next.success" in values and values["next.success"][rows].any():
                        succeeded.append(f"demo_{number}")
                    number, total = number + 1, total + len(rows)
            for name, count in (("total_episodes", number), ("total_frames", total)):
                if info.get(name, count) != count:
                    fail(f"{info_path}: {name} is {info[name]}, found {count}: files are missing")
            data.attrs["total"] = total
            if "next.success" in extras:
                output["mask/success"] = np.array(succeeded, dtype="S") if succeeded else np.zeros(0, "S1")
        os.replace(temporary, given.demonstrations)
    finally:
        temporary.unlink(missing_ok=True)
    print(f"{given.demonstrations}: {number} demonstrations, {total} samples; observations "
          f"{', '.join(sorted(observations.values()))}")


if __name__ == "__main__":
    main()
