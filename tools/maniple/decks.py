"""Decks as Python users give them: a file, the name of a deck that comes with Maniple, or a dictionary.

Here they become what the program reads, deck files and assignments `key.path=value`, and nothing is checked twice.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from maniple import native

Deck = str | os.PathLike[str] | Mapping[str, Any]


def inputs() -> Path:
    """The folder of the decks that come with Maniple: the package's own, or that of the checkout."""
    own = native.PACKAGE / "inputs"
    return own if own.is_dir() else native.PACKAGE.parents[1] / "inputs"


def deck_file(name: str | os.PathLike[str]) -> str:
    """The file of a deck that is given by its file or its name; of a name that is both a task and a training of it, the
    training, as on a command line.

    Raises ValueError, with the nearest name, for what is neither.
    """
    return native.deck_file(os.fspath(name), str(inputs()))


def _plain(value: Any) -> Any:
    """What JSON does not know, as what it knows."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a deck's values are numbers, texts, lists and mappings, not {type(value).__name__}")


def assignment(key: str, value: Any) -> str:
    """`key.path=value`, with the value as YAML; None takes a key out. (JSON is YAML.)"""
    return f"{key}=~" if value is None else f"{key}={json.dumps(value, default=_plain)}"


def sources(deck: Deck, overrides: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The deck files and assignments that make up a deck, in the order in which later ones win.

    A dictionary has the sections of a deck; its paths are relative to the working directory, and "include" names a deck
    or several as `deck` does.
    """
    if not isinstance(deck, Mapping):
        return [deck_file(deck)], [assignment(key, value) for key, value in overrides.items()]
    sections = dict(deck)
    included = sections.pop("include", [])
    files = [deck_file(name) for name in ([included] if isinstance(included, (str, os.PathLike)) else included)]
    lines = []
    for section, value in sections.items():
        entries = value if isinstance(value, Mapping) else None
        if entries is None:
            lines.append(assignment(section, value))
        else:
            lines += [assignment(f"{section}.{key}", entry) for key, entry in entries.items()]
    return files, lines + [assignment(key, value) for key, value in overrides.items()]
