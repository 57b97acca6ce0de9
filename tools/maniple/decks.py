"""Decks as Python users give them: a file, the name of a deck that comes with Maniple, a run, or a dictionary.

Here they become what the program reads, deck files and assignments `key.path=value`, and nothing is checked twice.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from maniple import native

if TYPE_CHECKING:
    from maniple.results import Run

Deck = Union[str, os.PathLike[str], "Run", Mapping[str, Any]]


def inputs() -> Path:
    """The folder of the decks that come with Maniple: the package's own, or that of the checkout."""
    own = native.PACKAGE / "inputs"
    return own if own.is_dir() else native.PACKAGE.parents[1] / "inputs"


def deck_file(name: str | os.PathLike[str]) -> str:
    """The file of a deck that is given by its file or its name; of a name that is both a task and a training of it, the
    training, as on a command line.

    Raises ValueError, with the nearest name, for what is neither.
    """
    if "\n" in os.fspath(name):
        raise ValueError("deck: found a deck's text; allowed: yaml.safe_load(text), a file or the name of a deck, the directory of a run")
    return native.deck_file(os.fspath(name), str(inputs()))


def _plain(value: Any) -> Any:
    """A value that JSON lacks, as one that it has."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a deck's values are numbers, texts, lists and mappings, not {type(value).__name__}")


def _without_tildes(value: Any) -> Any:
    """With None for "~", by which YAML and the command line write it."""
    if isinstance(value, Mapping):
        return {key: _without_tildes(entry) for key, entry in value.items()}
    return None if isinstance(value, str) and value == "~" else value


def assignment(key: str, value: Any) -> str:
    """`key.path=value`, with the value as YAML; None and "~" take a key out. (JSON is YAML.)"""
    value = _without_tildes(value)
    return f"{key}=~" if value is None else f"{key}={json.dumps(value, default=_plain)}"


def _run_of(deck: Union[str, os.PathLike[str], "Run"]) -> "Run | None":
    """The run that is given in place of a deck, as to the program: a Run, a directory, or the file of its results."""
    is_path = isinstance(deck, (str, os.PathLike))
    if is_path and not (os.path.isdir(deck) or os.fspath(deck).endswith(".h5")):
        return None
    from maniple.results import Run, results_path, what_is_missing  # (which needs h5py, as environments do not)

    if isinstance(deck, Run):
        return deck
    if not is_path:
        raise TypeError(f"deck: found {type(deck).__name__}; allowed: a file, the name of a deck, a run, or a dictionary")
    if not results_path(deck).is_file():
        raise ValueError(f"deck: {what_is_missing(deck)}; allowed: a deck, or the directory of a run with results")
    try:
        with Run(deck) as run:
            return run
    except OSError as error:
        raise ValueError(str(error)) from error


def sources(deck: Deck, overrides: Mapping[str, Any]) -> tuple[list[str], list[str], tuple[str, str] | None]:
    """The deck files and assignments that make up a deck, later ones taking precedence, and before them the run
    that stands in place of a deck: the file of its results and every key of its deck.

    A dictionary has the sections of a deck; its paths are relative to the working directory, and "include" names a deck
    or several as `deck` does.
    """
    sections = dict(deck) if isinstance(deck, Mapping) else {"include": deck}
    included = sections.pop("include", [])
    files, runs, lines = [], [], []
    for name in included if isinstance(included, (list, tuple)) else [included]:
        run = _run_of(name)
        if run is None:
            files.append(deck_file(name))
        elif "resolved" not in run.record:
            raise ValueError(f"deck: {run.path} holds no deck; allowed: results of train, imitate, rollout or evaluate, which contain the deck")
        else:
            runs.append((str(run.path), run.deck))
    if len(runs) > 1:
        raise ValueError(f"include: found the runs {runs[0][0]} and {runs[1][0]}; allowed: one run, and decks over it")
    for section, value in sections.items():
        if isinstance(value, Mapping) and value:
            lines += [assignment(f"{section}.{key}", entry) for key, entry in value.items()]
        else:
            lines.append(assignment(section, value))
    lines += [assignment(key, value) for key, value in overrides.items()]
    return files, lines, runs[0] if runs else None
