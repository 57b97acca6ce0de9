"""The policies of a run: the file that holds one, and whether it belongs to the run whose settings it is read with."""

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py

from maniple.results import Run, checkpoints_in, open_file, text_of

# what the mean action does not depend on
OF_NO_MEAN = ("policy.critic_hidden", "policy.std_transform", "policy.min_std", "policy.max_std")


class BadInput(ValueError):
    """An input without a policy of a run; the message gives the reason."""


def check_trained(run: Run) -> None:
    """BadInput for the results of an evaluation, which has no policy of its own."""
    if run.record.get("verb") == "evaluate":
        raise BadInput(f"{run.path} is of an evaluation; allowed: the directory of the training"
                       + (f", here {run.evaluated}" if run.evaluated else ""))


def newest_checkpoint(run: str | Path) -> Path:
    """The checkpoint file with the most iterations in the directory of a run."""
    files = checkpoints_in(Path(run) / "checkpoints")
    if not files:
        raise BadInput(f"{run} has no checkpoints: a training leaves them, and the best policy where evaluation.every is set")
    return files[-1]


def lines_of(checkpoint: h5py.File, name: str) -> list[str]:
    """The lines of a text in a checkpoint; none if a checkpoint of an earlier version lacks it."""
    return text_of(checkpoint[name][()]).splitlines() if name in checkpoint else []


def mixes(run: Run) -> bool:
    return run.setting("learning.algorithm", None) == "bc" and run.setting("learning.loss", None) == "gmm"


def compared(run: Run, checkpoint: h5py.File) -> Iterator[tuple[str, Any, Any]]:
    """Values that must agree in a checkpoint and the results of its run: the key, and the value in each of them."""
    yield "kind of run", text_of(checkpoint.attrs["kind"]), run.record.get("verb", "none")
    for line in lines_of(checkpoint, "run/settings"):
        key, found = line.split(": ", 1)
        if key in ("learning.algorithm", "data.frame_stack"):
            yield key, json.loads(found), run.setting(key, "none")
    stated = dict(line.split("=", 1) for line in text_of(checkpoint.attrs["policy"]).splitlines())
    # of a policy that does not use them the checkpoint has defaults, whatever the run's deck said
    unused = OF_NO_MEAN
    if stated.get("policy.recurrent") == '"none"':
        unused += ("policy.recurrent_units", "policy.recurrent_layers", "policy.recurrent_horizon")
    if stated.get("policy.normalize_observations") == "false":
        unused += ("policy.clip_normalized",)
    for key, found in stated.items():
        if key.startswith(("policy.", "image.", "diffusion.")) and key not in unused:
            wanted = 0 if key == "policy.modes" and not mixes(run) else run.setting(key, "none")
            yield key, json.loads(found), wanted
    # terms of the same sizes leave the network as it is, but the task in the metadata would be another
    for section in ("actions", "observations"):
        start = f"task.{section}: "
        found = [line[len(start):] for line in lines_of(checkpoint, "run/task") if line.startswith(start)]
        wanted = re.search(rf"^  {section}:\n((?:    - .*\n)*)", run.record["resolved"], re.M)
        # (where a deck has 1.0e-06, for all readers of YAML, the checkpoint has 1e-06)
        wanted = [line.replace(".0e", "e") for line in re.findall(r"^    - (.*)$", wanted[1], re.M)] if wanted else []
        found = [line.replace(".0e", "e") for line in found]
        for pair in itertools.zip_longest(found, wanted, fillvalue="none") if found else []:
            yield f"task.{section}", *pair


def check_run(run: Run, checkpoint: h5py.File) -> None:
    """BadInput where the results are not those of the run that wrote the checkpoint: settings are taken from them, and
    with those of another run the weights make another policy."""
    for key, found, wanted in compared(run, checkpoint):
        if found != wanted:
            found, wanted = (value if isinstance(value, str) else json.dumps(value) for value in (found, wanted))
            raise BadInput(f"{checkpoint.filename}: {key}: the checkpoint has {found}, "
                           f"{run.file.filename} has {wanted}; allowed: the results of the run that wrote the "
                           "checkpoint, with the settings it had then")


def opened(file: Path, chosen: Any) -> h5py.File:
    """A checkpoint, opened for reading. If the user did not choose it, a message about damage says how to choose another one."""
    try:
        return open_file(file)
    except OSError as error:
        raise BadInput(str(error) + ("" if chosen else "; --checkpoint takes another one")) from error
