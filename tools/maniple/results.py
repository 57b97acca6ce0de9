"""The results of a run. Everything is plain HDF5, so this is a convenience and not a format.

    import maniple

    run = maniple.Run("runs/cartpole")
    run.metrics["episode_return"]          # one number per iteration
    run.trajectories["qpos"]               # [env, sample, size], read when sliced
    run.model                              # mujoco.MjModel, meshes included; no other file is needed

From a shell: python -m maniple.results runs/cartpole, python -m maniple.results compare RUN_A RUN_B --metric success
"""

import argparse
import difflib
import json
import os
import re
import signal
import sys
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import h5py
import numpy as np

SEAL_BYTES, SEAL_MARK = 4096, b"maniple seal 1\n"  # of HDF5's user block, as src/io/seal.cpp writes it
SEAL = re.compile(SEAL_MARK + rb"bytes (\d{20})\nchecksum ([0-9a-f]{16})\n\0+")
BLOCK_BYTES = 1 << 20  # stays in the cache between read and sum
OF_EVALUATIONS = ("evaluation_return", "evaluation_success_rate")  # of iterations after which there was one
STRIDE, FACTORS = 0x9E3779B97F4A7C15, (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)  # of src/io/checksum.hpp


class Unreadable(OSError):
    """A file that is damaged, or not HDF5; the message names file and reason."""


# of an evaluation as a whole: all others have a number for each episode
OF_ALL_EPISODES = re.compile(r"iteration|mean_return.*|success_rate|level(_episodes|_mean_return|_success_rate)?")


OF_TASK = "metric_"  # before the names of task.metrics in files


class NamedArrays(dict):
    """Arrays by name; those of task.metrics by the deck's names, too. A KeyError names the nearest names."""

    def __missing__(self, name):
        if f"{OF_TASK}{name}" in self:
            return self[f"{OF_TASK}{name}"]
        raise KeyError(unknown(name, map(self.told, self)))

    def told(self, name):
        """How people call it: a metric of the task as its deck and the terminal do, unless another number has that name."""
        short = str(name).removeprefix(OF_TASK)
        return name if short in self else short


def unknown(name, known):
    """The part of a message that suggests names near an unknown one."""
    known = list(known)
    near = difflib.get_close_matches(str(name), known, 3, 0.5)
    more = f" and {len(known) - 20} more" if len(known) > 20 else ""
    return f"found '{name}'; " + (f"nearest: {', '.join(near)}" if near else f"allowed: {', '.join(known[:20]) or 'none, it is empty'}{more}")


def checksum(file):
    """Of what is left of an open file, as src/io/checksum.hpp has it: 64-bit numbers that wrap around."""
    first = file.tell() // 8
    numbers = np.arange(1, BLOCK_BYTES // 8 + 1, dtype=np.uint64) * np.uint64(STRIDE)
    total = 0
    while block := file.read(BLOCK_BYTES):
        words = np.frombuffer(block + bytes(-len(block) % 8), "<u8")
        words = words + numbers[:len(words)] + np.uint64(first * STRIDE % 2**64)
        for shift, factor in zip((30, 27), FACTORS):
            words ^= words >> np.uint64(shift)
            words *= np.uint64(factor)
        words ^= words >> np.uint64(31)
        total += int(words.sum())
        first += len(words)
    return total % 2**64


def check_seal(path):
    """Unreadable where a file is not as the program wrote it. One that was not finished, or comes from another program,
    has no seal and passes."""
    with open(path, "rb") as file:
        length = os.fstat(file.fileno()).st_size
        block = file.read(SEAL_BYTES)
        if not block.startswith(SEAL_MARK):
            return
        seal = SEAL.fullmatch(block)
        if not seal or len(block) < SEAL_BYTES:
            raise Unreadable(f"{path} is damaged: its first bytes are not as they were written")
        if length != int(seal[1]):
            raise Unreadable(f"{path} is damaged: {length} bytes long, and was written with {int(seal[1])}")
        if checksum(file) != int(seal[2], 16):
            raise Unreadable(f"{path} is damaged, or was changed after it had been written: its checksum does not match")


def open_file(path):
    """An HDF5 file, opened for reading. Its seal is checked first, because HDF5 does not detect wrong numbers."""
    if not os.path.isfile(path):
        if not os.path.isdir(path):
            raise Unreadable(f"{path} is not there")
        of_others = data_of_others(path)
        raise Unreadable(f"{path}: found {of_others or 'a folder'}; allowed: an HDF5 file")
    check_seal(path)
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise Unreadable(f"{path}: cannot be read as HDF5: {error}") from error


def check_outputs(outputs, inputs, overwrite):
    """Unreadable where a file cannot be written, or would replace one that --overwrite does not give up."""
    sources = [path.resolve() for path in inputs]
    for number, path in enumerate(outputs):
        target = path.resolve()
        if target in sources:
            raise Unreadable(f"{path}: found the same file as input and output; allowed: another name for the output")
        if target in [other.resolve() for other in outputs[:number]]:
            raise Unreadable(f"{path}: found the same file as output twice; allowed: a file for each")
        if path.is_dir() or not target.parent.is_dir():
            found = "a folder" if path.is_dir() else f"no folder {path.parent}"
            raise Unreadable(f"{path}: found {found}; allowed: a file to write, in a folder that is there")
        if path.exists() and not overwrite:
            raise Unreadable(f"{path}: found a file already; allowed: another name, or --overwrite, which replaces it")
        if path.exists() and any(source in target.parents for source in sources):
            raise Unreadable(f"{path}: found a file of the input, which stays; allowed: another name")


@contextmanager
def new_file(path):
    """An HDF5 file to write; it appears when it is complete."""
    temporary = path.with_name(f"{path.name}.tmp.{os.getpid()}")
    try:
        created = h5py.File(temporary, "w")
    except OSError as error:  # (HDF5's text is long, and has the temporary name)
        raise Unreadable(f"{path} cannot be written: {os.strerror(error.errno) if error.errno else error}") from error
    try:
        with created as file:
            yield file
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def refuse(error):
    """Ends a tool with one line, argparse's without the usage: with files, that would not help."""
    reason = f"{error.filename}: {error.strerror}" if getattr(error, "filename", None) else str(error)
    reason = reason.replace("\n", " ")  # (HDF5 puts asctime's line into some)
    print(f"{Path(sys.argv[0]).name}: error: {reason}", file=sys.stderr)
    sys.exit(2)


class Run:
    """The results of a run, given by its directory or by one of its files; those of `maniple evaluate` are a run's, too.

    metrics: numbers per iteration, by name; for a training in progress up to the last iteration of its log.jsonl, which
    results.h5 gets with the next checkpoint. trajectories: by field, [env, sample, size], read when sliced. evaluation: numbers
    per episode, those of `maniple evaluate` where a directory is given, be it a training's or the evaluation's own. record: settings and circumstances of the run, by name. OSError where
    a file is damaged, as `maniple inspect` finds it: every byte is read for that; and where there are no results.
    """

    def __init__(self, path):
        path = Path(path)
        self.directory = path if path.is_dir() else path.parent
        self.path = results_path(path)
        if not self.path.exists():
            raise FileNotFoundError(what_is_missing(path))
        check_kind(path)
        self.file = open_file(self.path)
        try:
            self._read(path.is_dir())
        except Unreadable:
            self.file.close()
            raise
        except Exception as error:  # (without a seal, damage can come to light as any kind of it)
            self.file.close()
            raise Unreadable(f"{self.path} is damaged, or no results file: {error}") from error

    def _read(self, of_directory):
        self.metrics = numbers_in(self.file, "metrics")
        log = self.directory / "log.jsonl"
        if self.path.name == "results.h5" and "iteration" in self.metrics and log.is_file():
            self.metrics = with_rows_of_log(self.metrics, log)
        self.trajectories = NamedArrays()  # by name: "qpos", "variables/air_time"
        if "trajectory" in self.file:
            self.file["trajectory"].visititems(
                lambda name, item: self.trajectories.update({name: item}) if isinstance(item, h5py.Dataset) else None)
        self.evaluation = numbers_in(self.file, "evaluation")
        self.evaluation_deck = text_of(self.file["run/resolved"][()]) if "run/resolved" in self.file else ""
        evaluation = self.directory / "evaluation.h5"
        if of_directory and not self.evaluation and evaluation.is_file():
            with open_file(evaluation) as file:
                self.evaluation = numbers_in(file, "evaluation")
                self.evaluation_deck = text_of(file["run/resolved"][()])
        self.record = {}
        if "run" in self.file:
            group = self.file["run"]
            self.record.update({k: text_of(v) for k, v in group.attrs.items()})
            self.record.update({k: text_of(v[()]) for k, v in group.items() if v.dtype.kind in "SO"})

    @property
    def deck(self):
        """The deck with every key, as YAML; record["deck"] is the one that was given."""
        if "resolved" not in self.record:
            raise Unreadable(f"{self.path} holds no deck; allowed: {WITH_DECK}")
        return self.record["resolved"]

    @cached_property
    def model(self):
        """The model as the run stepped it (mujoco.MjModel), for MuJoCo of the release that the program was built with."""
        import mujoco

        if "run/model_mjb" not in self.file:
            raise Unreadable(f"{self.path} holds no model; allowed: {WITH_DECK}")
        stored = self.file["run/model_mjb"][()].tobytes()
        if not stored:
            raise Unreadable(f"{self.path} holds no model: it is of a training on demonstrations alone; with a task's deck before data.file "
                             "imitate has one")
        return mujoco.MjModel.from_binary_path("model.mjb", {"model.mjb": stored})

    @property
    def checkpoints(self):
        """The files of its checkpoints, the newest last."""
        return checkpoints_in(self.directory / "checkpoints")

    def evaluated_earlier(self) -> str:
        """Says so where the evaluation is of an earlier policy than the newest one; "": it is not, or nothing tells."""
        done, rows = self.evaluation.get("iteration"), self.metrics.get("iteration")
        if done is None or rows is None or not len(rows) or done[0] >= rows[-1] or re.search(r"^\s*checkpoint: .*/best", self.evaluation_deck, re.M):
            return ""
        return (f"{self.directory}: the evaluation is of the policy of iteration {int(done[0])}, the newest is of iteration "
                f"{int(rows[-1])}: maniple evaluate {self.directory}")

    @property
    def evaluated(self) -> str:
        """Of an evaluation, the run or checkpoint whose policy acted, as its deck names it; "" of other runs."""
        return self.setting("control.checkpoint", "") or "" if self.record.get("verb") == "evaluate" else ""

    @property
    def best(self):
        """The checkpoint with the best evaluation (evaluation.every), or None."""
        return next(iter(checkpoints_in(self.directory / "best" / "checkpoints")), None)

    def unit(self, path):
        """The unit of a dataset, e.g. unit("metrics/wall_seconds")."""
        return text_of(self.file[path].attrs.get("unit", ""))

    def control_timestep(self):
        """Seconds of simulated time between two control steps."""
        return float(self.model.opt.timestep) * self.setting("simulation.decimation")

    @cached_property
    def _settings(self):
        """The values of the deck's keys, by their paths: as JSON, without the terms of a task."""
        found, path = {}, []
        for line in self.deck.splitlines():
            indent, name, value = re.fullmatch(r"( *)([^:]*):? ?(.*)", line).groups()
            path = [*path[:len(indent) // 2], name]
            if value and not value.startswith("{") and not name.startswith("- "):
                found[".".join(path)] = "null" if value == "~" else value
        return found

    def setting(self, key, *default):
        """The value of a deck key, such as "batch.num_envs" or "output.trajectory.every".

        default: value if the run had no such key; without one, a KeyError names the nearest keys.
        """
        if key not in self._settings and not default:
            raise KeyError(unknown(key, self._settings))
        return json.loads(self._settings[key]) if key in self._settings else default[0]

    def names(self, field):
        """The names of the elements of a trajectory field; empty if they have only numbers."""
        names = text_of(self.file[f"trajectory/{field}"].attrs.get("names", ""))
        return names.split("\n") if names else []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()


def numbers_in(file, group):
    """The arrays of a group by name; none where there is no such group."""
    return NamedArrays({name: values[()] for name, values in file.get(group, {}).items()})


def by_episode(evaluation):
    """Of the numbers of an evaluation, those that have one for each episode."""
    return NamedArrays({name: values for name, values in evaluation.items() if not OF_ALL_EPISODES.fullmatch(name)})


def with_rows_of_log(metrics, log):
    """Metrics, and below them the rows of later iterations, which a run's log has immediately. Where a run continued from a
    checkpoint, its log has some iterations again: what it had of them before is dropped."""
    rows = []
    with open(log, "rb") as file:
        for line in file:
            if b'"event": "iteration"' not in line:
                continue
            try:
                row = json.loads(line)
            except ValueError:  # (a line that is being written, or that a power cut broke)
                continue
            while rows and rows[-1]["iteration"] >= row["iteration"]:
                rows.pop()
            rows.append(row)
    columns = {name: values.tolist() for name, values in metrics.items()}
    done = max(columns["iteration"], default=0)
    for row in rows:
        if row["iteration"] > done:
            for name, column in columns.items():
                latest = column[-1] if name in OF_EVALUATIONS and column else "nan"
                column.append(float(row.get(name, latest)))
    return NamedArrays({name: np.array(column) for name, column in columns.items()})


def checkpoints_in(folder):
    """The checkpoints by iteration, the newest last."""
    return sorted(folder.glob("*.h5"), key=lambda path: int(re.sub(r"\D", "", path.stem) or 0))


def results_path(path):
    """The results file of a run's directory, or that of an evaluation where it has no other; any other path unchanged."""
    path = Path(path)
    if not path.is_dir():
        return path
    results, evaluation = path / "results.h5", path / "evaluation.h5"
    return evaluation if evaluation.is_file() and not results.exists() else results


def what_is_missing(path):
    """The part of a message that describes a path without results."""
    members = sorted({file.parent.name for name in ("results.h5", "evaluation.h5") for file in Path(path).glob(f"*/{name}")})
    if members:
        return f"{path} has no results of its own; it has those of {len(members)} run{'s' if len(members) > 1 else ''}, for instance {path}/{members[0]}"
    if not Path(path).is_dir():
        return f"{path} is not there"
    if of_others := data_of_others(path):
        return f"{path} is no run: found {of_others}"
    others = sorted(file.name for file in Path(path).glob("*.h5"))
    return f"{path} has no results.h5 or evaluation.h5" + (f"; it has {', '.join(f'{path}/{name}' for name in others)}" if others else "")


def data_of_others(path):
    """Of a folder with demonstrations in another layout than robomimic's, what it is and which tool reads it; "": of another one."""
    path = Path(path)
    if (path / "meta/info.json").is_file():
        return f"a data set of LeRobot, which another tool converts: python -m maniple.from_lerobot {path} OUT.hdf5"
    kind = ("Zarr" if any((path / mark).exists() for mark in (".zgroup", "zarr.json", "meta/episode_ends")) else
            "ALOHA" if any(path.glob("episode_*.hdf5")) else "RLDS" if any(path.glob("*.tfrecord*")) else "")
    if kind:
        return f"a data set of {kind}, which another tool converts: python -m maniple.datasets convert {path} OUT.hdf5"
    minari = next((file for file in (path / "data/main_data.hdf5", path / "main_data.hdf5") if file.is_file()), None)
    return f"a data set of Minari, whose file is {minari}" if minari else ""


WITH_DECK = "results of train, imitate, rollout or evaluate, which contain deck and model"

# what somebody may take for a run
OTHER_KINDS = {".yaml": "a deck, which maniple.make_vec() takes", ".yml": "a deck, which maniple.make_vec() takes",
               ".onnx": "a policy for other programs, which onnxruntime.InferenceSession() takes",
               ".xml": "a model, which maniple.Simulation() takes"}


def check_kind(path):
    """Raises Unreadable, with the kind of the file, for a file that does not belong to a run."""
    kind = OTHER_KINDS.get(Path(path).suffix.lower())
    if kind and Path(path).is_file():
        raise Unreadable(f"{path} is {kind}; allowed: the directory of a run, or its results.h5, evaluation.h5 or a checkpoint")


def text_of(value):
    """An attribute or text of a file as Python has it."""
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(-1)[0]
    return value.decode() if isinstance(value, bytes) else value


def main():
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # (who reads has had enough)
    try:
        if sys.argv[1:2] == ["compare"]:
            show_comparison(sys.argv[2:])
        else:
            parser = argparse.ArgumentParser(description="Prints what the results of a run hold. `results.py compare RUN_A RUN_B` compares "
                                             "two evaluations.")
            parser.add_argument("run", metavar="RUN", help="directory of a run, or one of its files")
            show(parser.parse_args().run)
    except (OSError, ValueError) as error:
        refuse(error)
    except KeyError as error:
        refuse(error.args[0])


def show_comparison(arguments):
    from maniple.comparison import compare, text_of as told
    from maniple.results import Run as Opened  # (of the module that compare() knows: this one is __main__)

    parser = argparse.ArgumentParser(prog=f"{Path(sys.argv[0]).name} compare", description="Compares two evaluations (maniple evaluate) "
                                     "episode by episode, each pair from the same start.")
    parser.add_argument("one", metavar="RUN_A", help="directory of an evaluated run or of an evaluation, or its evaluation.h5")
    parser.add_argument("other", metavar="RUN_B", help="the same of the second one")
    parser.add_argument("--metric", metavar="METRIC", nargs="+", default=["episode_return"], help="numbers by episode: episode_return (the default), episode_length, "
                        "success where the task has it, termination_<name>, names of task.metrics; a wrong name lists those that there are")
    given = parser.parse_args(arguments)
    with Opened(given.one) as one, Opened(given.other) as other:
        for metric in given.metric:
            print(told(compare(one, other, metric), (given.one, given.other), metric.removeprefix(OF_TASK)))


def show(path):
    with Run(path) as run:
        for name, values in run.metrics.items():
            if len(values):
                print(f"{run.metrics.told(name):32s} {len(values):6d} rows   last {values[-1]:.6g} {run.unit('metrics/' + name)}")
        for name, data in run.trajectories.items():
            print(f"{name:32s} {data.shape} {data.dtype} {run.unit('trajectory/' + name)}")
        if earlier := run.evaluated_earlier():
            print(f"warning: {earlier}", file=sys.stderr)
        for name, values in by_episode(run.evaluation).items():
            half_width = run.evaluation.get("mean_return_confidence") if name == "episode_return" else None
            print(f"{run.evaluation.told(name):32s} {len(values):6d} episodes   mean {np.mean(values):.6g}"
                  + ("" if half_width is None else f" +- {half_width[0]:.3g} (95 %)"))
        for name in (name for name in run.evaluation if name.startswith("level")):
            print(f"{name:32s} {len(run.evaluation[name]):6d} levels     {' '.join(f'{value:.6g}' for value in run.evaluation[name])}")


if __name__ == "__main__":
    main()
