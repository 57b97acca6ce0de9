"""Reads what Maniple writes; everything is plain HDF5, so this is a convenience and not a format.

    from maniple_results import Results
    run = Results("runs/cartpole/results.h5")
    run.metrics["episode_return"]          # one number per iteration
    run.trajectory["qpos"]                 # [env, sample, size], read when sliced
    run.model()                            # mujoco.MjModel, meshes included; no other file is needed

From a shell: python tools/maniple_results.py runs/cartpole/results.h5
"""

import json
import re
import sys
from pathlib import Path

import h5py
import numpy as np


class Results:
    """A results.h5 (or that of a run's directory): .metrics, .trajectory and .evaluation by name, and .run (what the run was)."""

    def __init__(self, path):
        self.file = h5py.File(results_path(path), "r")
        self.metrics = {k: v[()] for k, v in self.file.get("metrics", {}).items()}
        self.trajectory = {}  # by name: "qpos", "variables/air_time"
        if "trajectory" in self.file:
            self.file["trajectory"].visititems(
                lambda name, item: self.trajectory.update({name: item}) if isinstance(item, h5py.Dataset) else None)
        self.evaluation = {k: v[()] for k, v in self.file.get("evaluation", {}).items()}
        self.run = {}
        if "run" in self.file:
            group = self.file["run"]
            self.run.update({k: _text(v) for k, v in group.attrs.items()})
            self.run.update({k: _text(v[()]) for k, v in group.items() if v.dtype.kind in "SO"})

    def unit(self, path):
        """The unit of a dataset, e.g. unit("metrics/wall_seconds")."""
        return _text(self.file[path].attrs.get("unit", ""))

    def model(self):
        """The model as the run stepped it, for MuJoCo of the release that the program was built with."""
        import mujoco

        stored = self.file["run/model_mjb"][()].tobytes()
        return mujoco.MjModel.from_binary_path("model.mjb", {"model.mjb": stored})

    def control_timestep(self):
        """Seconds of simulated time between two control steps."""
        return float(self.model().opt.timestep) * self.setting("simulation.decimation")

    def setting(self, key, default=None):
        """The value of a deck key of two parts, such as "batch.num_envs"; `default` where the run knew no such key."""
        section, name = key.split(".")
        found = re.search(rf"^{section}:(?:\n +.*)*?\n  {name}: (.*)$", self.run["resolved"], re.M)
        return json.loads("null" if found[1] == "~" else found[1]) if found else default

    def names(self, field):
        """What the elements of a trajectory field are called; empty where they have only numbers."""
        names = _text(self.file[f"trajectory/{field}"].attrs.get("names", ""))
        return names.split("\n") if names else []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()


def results_path(path):
    """Of a run's directory its results; any other path as it is."""
    path = Path(path)
    return path / "results.h5" if path.is_dir() else path


def what_is_missing(path):
    """For a message: what a path is that has no results."""
    members = sorted(file.parent.name for file in Path(path).glob("*/results.h5"))
    if members:
        return f"{path} has no results of its own; it has those of {len(members)} run{'s' if len(members) > 1 else ''}, for instance {path}/{members[0]}"
    return f"{path} has no results.h5" if Path(path).is_dir() else f"{path} is not there"


def _text(value):
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(-1)[0]
    return value.decode() if isinstance(value, bytes) else value


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: maniple_results.py RESULTS.h5 or DIRECTORY")
    with Results(sys.argv[1]) as run:
        for name, values in run.metrics.items():
            if len(values):
                print(f"{name:32s} {len(values):6d} rows   last {values[-1]:.6g} {run.unit('metrics/' + name)}")
        for name, data in run.trajectory.items():
            print(f"{name:32s} {data.shape} {data.dtype} {run.unit('trajectory/' + name)}")
        for name, values in run.evaluation.items():
            print(f"{name:32s} {len(values):6d} episodes   mean {np.mean(values):.6g}")


if __name__ == "__main__":
    main()
