"""Two evaluations episode by episode: whether a policy is better than another one from the same starts.

The difference of a pair has less noise than two means have: a task's resets draw by batch.seed and the number of the
episode in its environment alone, so both policies begin alike. From a shell:

    python -m maniple.results compare RUN_A RUN_B
    python -m maniple.results compare RUN_A RUN_B --metric episode_return success
"""

import difflib
import os
import re
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maniple.results import Run, by_episode

# of a deck: what the first episodes of a batch begin with, and what their numbers mean
SECTIONS = ("model", "terrain", "batch", "simulation", "initial_state", "task")


class Comparison(NamedTuple):
    """The comparison of `pairs` episodes: the means of both, the mean of their differences (the second less the first), the half width of
    its 95 % confidence interval (Student's t; NaN for one pair), that of the two means as if they were not paired, and the
    correlation of the pairs (NaN where one does not vary)."""

    pairs: int
    means: tuple[float, float]
    difference: float
    confidence: float
    unpaired_confidence: float
    correlation: float


def compare(one: str | os.PathLike[str] | Run, other: str | os.PathLike[str] | Run, metric: str = "episode_return") -> Comparison:
    """Compares two evaluations (`maniple evaluate`): runs, their directories, or files evaluation.h5.

    If their numbers of episodes differ, the first ones are compared. metric: any number by episode, as Run.evaluation names it:
    episode_return, episode_length, success where the task has it, termination_<name>, one of task.metrics.

    Raises ValueError for evaluations of other tasks, seeds or numbers of environments, whose starts differ, KeyError for a
    metric that there is not, with those that there are.
    """
    runs = [given if isinstance(given, Run) else Run(given) for given in (one, other)]
    decks = [_deck_of(run) for run in runs]
    for earlier in filter(None, (run.evaluated_earlier() for run in runs)):
        warnings.warn(earlier, stacklevel=2)
    lines = [_lines_of(deck) for deck in decks]
    for key in [*lines[0], *(key for key in lines[1] if key not in lines[0])]:
        found = [of_run.get(key, "none") for of_run in lines]
        if found[0] != found[1]:
            raise ValueError(f"{key}: {runs[0].directory} was evaluated with {found[0]}, {runs[1].directory} with {found[1]}; allowed: "
                             "evaluations of the same task, batch.seed and batch.num_envs, so with the same starts")
    values = [_numbers_of(run, metric) for run in runs]
    pairs = min(map(len, values))
    first, second = (np.asarray(numbers[:pairs], float) for numbers in values)
    correlation = float(np.corrcoef(first, second)[0, 1]) if pairs > 1 and np.ptp(first) > 0 and np.ptp(second) > 0 else np.nan
    confidence, *single = (half_width(numbers) for numbers in (second - first, first, second))
    return Comparison(pairs, (float(first.mean()), float(second.mean())), float((second - first).mean()), confidence,
                      float(np.hypot(*single)), correlation)


def _numbers_of(run: Run, metric: str) -> NDArray[Any]:
    """A number of each episode, [episode]."""
    there = by_episode(run.evaluation)
    try:
        return there[metric]
    except KeyError:
        known = [there.told(name) for name in there]
        near = difflib.get_close_matches(metric, known, 1, 0.5)
        raise KeyError(f"metric: found '{metric}'" + (f", near {near[0]}" if near else "")
                       + f"; allowed: {', '.join(known)}, the numbers by episode of {run.path}") from None


def half_width(values: NDArray[Any]) -> float:
    """Half the width of the 95 % confidence interval of a mean; NaN for one value."""
    count = len(values)
    if count < 2:
        return float("nan")
    return student_quantile(count - 1) * float(np.std(values, ddof=1)) / count**0.5


def student_quantile(freedom: int) -> float:
    """The 97.5 % quantile of Student's t: with t = sqrt(freedom) tan(a), the density of the angle a is as
    cos(a)^(freedom - 1)."""
    angles = np.linspace(0, min(np.pi / 2, 40 / freedom**0.5), 200_001)
    density = np.cos(angles) ** (freedom - 1)
    inside = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
    return float(freedom**0.5 * np.tan(np.interp(0.95, inside / inside[-1], angles)))


def text_of(compared: Comparison, names: tuple[str, str], metric: str) -> str:
    """A comparison as three lines of text."""
    return "\n".join([f"{metric} of {compared.pairs} episodes with the same starts: {names[0]} {compared.means[0]:.6g}, "
                      f"{names[1]} {compared.means[1]:.6g}",
                      f"difference, second less first: {compared.difference:.6g} +- {compared.confidence:.3g} (95 %)",
                      f"without pairs: +- {compared.unpaired_confidence:.3g}; correlation {compared.correlation:.2g}"])


def _deck_of(run: Run) -> str:
    """The deck of an evaluation."""
    if not run.evaluation:
        raise ValueError(f"{run.directory} has no evaluation; allowed: runs after `maniple evaluate`, or files evaluation.h5")
    return run.evaluation_deck


def _lines_of(deck: str) -> dict[str, str]:
    """The values that determine starts, by their keys; terms of lists by their places."""
    found: dict[str, str] = {}
    path: list[str] = []
    for line in deck.splitlines():
        indent, text = re.fullmatch(r"( *)(.*)", line).groups()  # type: ignore[union-attr]
        level = len(indent) // 2
        if text.startswith("- "):
            key, value = ".".join(path[:level]), text[2:]
            found[key] = f"{found[key]}, {value}" if key in found else value
            continue
        name, _, value = text.partition(":")
        path = [*path[:level], name]
        if value:
            found[".".join(path)] = value.strip()
    return {key: value for key, value in found.items() if key.split(".")[0] in SECTIONS and key != "task.name"}
