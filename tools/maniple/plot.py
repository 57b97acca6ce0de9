"""Draws the curves of a training run from its results.h5: return, length, reward terms, KL and learning rate, speed, how
episodes end, and the task's metrics; for one on demonstrations losses, results of its evaluations, gradient norm and
learning rate, speed. What is lighter is of iterations before as many episodes have ended as there are environments: the
first to end are short ones. Of several runs it draws the returns (or losses) in one picture. Of an ensemble it draws for each
setting the mean over its seeds, in a band from the lowest to the highest.

    python -m maniple.plot runs/cartpole --output curve.png --ceiling 5
    python -m maniple.plot runs/ensemble --metric episode_return_100
    python -m maniple.plot runs/ppo runs/ppo_wide runs/ensemble --metric kl --output kl.png
"""

import argparse
import csv
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import ScaledTranslation
from numpy.typing import NDArray

from maniple.results import OF_TASK, Run, refuse, results_path

OF_EPISODES = ("episode_", "reward_", "termination_", OF_TASK)  # before the names of means over the episodes that ended
CURRICULUM = "curriculum_"  # before the names of task.curricula in files
Array = NDArray[np.float64]
Metrics = Mapping[str, Array]
Settings = dict[str, tuple[Array, Array, int]]  # by name: steps [row], values [seed, row], and how many rows are early ones
Curves = tuple[str | None, str | None, Settings]  # with what they go over and the metric; None where no run has rows

EARLY = "lighter: fewer episodes have ended than there are environments,\nand the first to end are short"
LETTERS, HEADING = 42, 30  # that fit into a row of a legend, and into the heading of a small panel
LEGEND_ROW = 0.17  # inches

INK, GREY, GRID = "#1f2430", "#7b8394", "#e6e8ee"
BLUE, ORANGE, GREEN, RED, PURPLE, TEAL = "#2f6fde", "#e8862e", "#2f9e6e", "#d1495b", "#7d5ba6", "#1b9aaa"
LINES = (BLUE, ORANGE, GREEN, RED, PURPLE, TEAL, "#a0712f", "#5c6b8a")


def line_style(number: int) -> tuple[str, str]:
    """(colour, dashes) of line `number` of a panel; no two of 24 are alike."""
    return LINES[number % len(LINES)], ("-", "--", ":")[number // len(LINES) % 3]


def style() -> None:
    plt.rcParams.update({
        "font.size": 9, "axes.edgecolor": GREY, "axes.labelcolor": INK, "axes.titlesize": 10,
        "axes.titleweight": "bold", "axes.titlelocation": "left", "axes.titlecolor": INK, "text.color": INK,
        "xtick.color": GREY, "ytick.color": GREY, "axes.grid": True, "grid.color": GRID, "grid.linewidth": 0.8,
        "axes.axisbelow": True, "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False,
        "legend.fontsize": 8,
    })


def human(value: float) -> str:
    for limit, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g} {suffix}"
    return f"{value:.3g}"


def in_columns(names: Sequence[str]) -> int:
    """Of a legend below a small panel: two columns, where the names are short enough."""
    left, right = (max(map(len, part), default=0) for part in (names[:-(len(names) // 2) or None], names[-(len(names) // 2):]))
    return 2 if len(names) < 2 or left + right <= LETTERS else 1


def legend_rows(names: Sequence[str]) -> int:
    return -(-len(names) // in_columns(names))


def legend_below(axis: Axes, points: float, **how: Any) -> None:
    """Puts a legend that many points below the axis, where it hides no curve."""
    below = axis.transAxes + ScaledTranslation(0, -points / 72, axis.figure.dpi_scale_trans)
    names = [line.get_label() for line in how.get("handles", axis.lines) if not str(line.get_label()).startswith("_")]
    axis.legend(loc="upper left", bbox_to_anchor=(0, 0), bbox_transform=below, ncols=in_columns(names), borderpad=0, borderaxespad=0,
                columnspacing=1, **how)


def shortened(name: str) -> str:
    """A name that fits below a small panel."""
    return name if len(name) <= LETTERS else f"{name[:LETTERS // 2 - 1]}…{name[-(LETTERS // 2):]}"


def in_lines(name: str) -> str:
    """A name as the heading of a small panel, in lines that end at its underscores."""
    lines = [""]
    for part in re.findall(r"[^_ ]*[_ ]?", shortened(name) if len(name) > 2 * HEADING else name):
        if lines[-1] and len(lines[-1]) + len(part) > HEADING:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def early_rows(results: Run) -> int:
    """In how many rows, from the first, fewer episodes have ended in all than there are environments. Those that end first are
    short, so that means over them are of failures, or of what comes to its goal at once."""
    episodes = results.metrics.get("episodes")
    if episodes is None or "resolved" not in results.record:
        return 0
    return int(np.searchsorted(np.cumsum(np.nan_to_num(episodes)), results.setting("batch.num_envs", 0)))


def fade(axis: Axes, steps: Array, early: int) -> None:
    """Makes what is drawn of the early rows lighter."""
    if early:
        axis.axvspan(0, steps[min(early, len(steps) - 1)], color="white", alpha=0.65, linewidth=0, zorder=3)


def find(metrics: Metrics, *names: str) -> Array | None:
    """The first of the metrics that exists and has a finite value."""
    for name in names:
        if name in metrics and np.isfinite(metrics[name]).any():
            return metrics[name]
    return None


def steps_of(metrics: Metrics) -> tuple[Array, str] | None:
    """The horizontal axis of the curves as (values, name); None: no training."""
    for name, label in (("env_steps", "environment steps"), ("updates", "updates")):
        if len(metrics.get(name, [])):
            return np.asarray(metrics[name], dtype=float), label
    return None


def over_steps(axis: Axes, heading: str, steps: Array) -> None:
    axis.set_title(heading)
    axis.set_xlim(0, steps[-1])
    axis.xaxis.set_major_formatter(lambda x, _: human(x) if x else "0")


def panels(legend: int = 0, more: Sequence[int] = ()) -> tuple[Figure, Axes, Any, list[Axes]]:
    """A figure, its large panel, the four small ones beside it, and more below, four in a row. `legend`: the rows of the legend
    that stands between the small ones; `more`: those of the legend, for each panel below."""
    style()
    high = 5.4 + LEGEND_ROW * max(0, legend - 4)
    heights = [2.3 + LEGEND_ROW * max(more[i:i + 4]) for i in range(0, len(more), 4)]
    figure = plt.figure(figsize=(11, high + sum(heights)), layout="constrained")
    above, *below = figure.subfigures(2, 1, height_ratios=(high, sum(heights))) if heights else (figure,)
    axes = above.subplots(2, 3, width_ratios=(1.7, 1, 1))
    grid = axes[0, 0].get_gridspec()
    for axis in axes[:, 0]:
        axis.remove()
    others = list(below[0].subplots(len(heights), 4, squeeze=False, height_ratios=heights).flat) if heights else []
    for axis in others[len(more):]:
        axis.remove()
    return figure, above.add_subplot(grid[:, 0]), axes[:, 1:], others[:len(more)]


def ends_of(metrics: Metrics) -> dict[str, Array]:
    """How episodes end: shares by the name of the termination."""
    return {name.removeprefix("termination_"): values for name, values in metrics.items() if name.startswith("termination_")}


def rewards_of(metrics: Metrics) -> dict[str, Array]:
    """The terms of the reward by their names."""
    return {name.removeprefix("reward_"): values for name, values in metrics.items() if name.startswith("reward_")}


def draw_task(axes: Sequence[Axes], steps: Array, metrics: Metrics, early: int) -> None:
    """How episodes end, in one panel, and a panel for each of the task's metrics and curricula."""
    places = iter(axes)
    ends = ends_of(metrics)
    if ends:
        axis = next(places)
        for i, (name, values) in enumerate(ends.items()):
            colour, dashes = line_style(i)
            axis.plot(steps, values, color=colour, linestyle=dashes, linewidth=1.4, label=shortened(name))
        over_steps(axis, "Ends of episodes (share)", steps)
        fade(axis, steps, early)
        axis.set_ylim(0, 1.05)
        legend_below(axis, 22, fontsize=7)
    # (in this order: zip takes no panel for a name that is not there)
    for name, axis in zip((name for name in metrics if name.startswith(OF_TASK)), places):
        axis.plot(steps, metrics[name], color=TEAL, linewidth=1.5)
        over_steps(axis, in_lines(name.removeprefix(OF_TASK)), steps)
        fade(axis, steps, early)
    for (name, parts), axis in zip(curricula_of(metrics).items(), places):
        for i, part in enumerate(parts):
            colour, dashes = line_style(i)
            axis.plot(steps, metrics[part], color=colour, linestyle=dashes, linewidth=1.2, label=shortened(part.removeprefix(f"{name}_")))
        axis.plot(steps, metrics[name], color=ORANGE, linewidth=1.8)
        over_steps(axis, in_lines(f"Curriculum {name.removeprefix(CURRICULUM)}"), steps)
        if parts:
            legend_below(axis, 22, fontsize=7)


def curricula_of(metrics: Metrics) -> dict[str, list[str]]:
    """The curricula, and those that are the parts of each: the mean level, and that of each kind of ground."""
    names = [name for name in metrics if name.startswith(CURRICULUM)]
    parts = {name: [other for other in names if other.startswith(f"{name}_")] for name in names}
    return {name: parts[name] for name in names if not any(name in others for others in parts.values())}


def mark_last(axis: Axes, steps: Array, values: Array, colour: str, text: str) -> None:
    finite = np.flatnonzero(np.isfinite(values))
    if finite.size:
        last = finite[-1]
        axis.plot(steps[last], values[last], "o", color=colour, markersize=6)
        axis.annotate(format(values[last], text), (steps[last], values[last]), xytext=(-4, -16),
                      textcoords="offset points", ha="right", fontweight="bold", color=colour, fontsize=12)


def draw_speed(axis: Axes, heading: str, steps: Array, wall: Array) -> None:
    speed = np.diff(steps, prepend=0.0) / np.maximum(np.diff(wall, prepend=0.0), 1e-9)
    axis.plot(steps, speed, color=TEAL, linewidth=1.5)
    over_steps(axis, heading, steps)
    middle = np.nanmedian(speed)  # (of two rows that end at nearly the same time it may be anything)
    axis.set_ylim(0, min(max(1.25 * middle, 1.05 * np.nanmax(speed)), 3 * middle) if middle > 0 else 1)
    axis.yaxis.set_major_formatter(lambda y, _: human(y) if y else "0")


def draw_imitation(results: Run, ceiling: float | None, title: str) -> Figure:
    metrics = results.metrics
    steps, label = steps_of(metrics)
    wall = np.asarray(metrics["wall_seconds"])
    figure, main, axes, _ = panels()
    losses = [(name, metrics[name], colour) for name, colour in (("loss", BLUE), ("validation_loss", ORANGE))
              if find(metrics, name) is not None]
    for name, values, colour in losses:
        some = np.isfinite(values)  # (a validation comes after an epoch)
        main.plot(steps[some], values[some], color=colour, linewidth=2.2, label=name.replace("_", " "))
        mark_last(main, steps, values, colour, ".4g")
    if losses:
        main.legend(loc="best")
        lowest, highest = (edge([edge(values) for _, values, _ in losses]) for edge in (np.nanmin, np.nanmax))
        if 0 < 10 * lowest < highest:  # (a likelihood may have either sign)
            main.set_yscale("log")
    over_steps(main, "Loss", steps)
    main.set_xlim(0, steps[-1] * 1.02)

    def evaluated(axis: Axes, heading: str, name: str, colour: str) -> None:
        values = find(metrics, name)
        over_steps(axis, heading, steps)
        if values is None:
            axis.text(0.5, 0.5, "not evaluated", color=GREY, ha="center", va="center", transform=axis.transAxes)
            return
        some = np.isfinite(values)  # (a row has the latest evaluation)
        axis.plot(steps[some], values[some], color=colour, linewidth=1.5, drawstyle="steps-post", marker="o",
                  markevery=[-1])

    if find(metrics, "evaluation_success_rate") is not None:
        evaluated(axes[0, 0], "Success of evaluations", "evaluation_success_rate", GREEN)
        axes[0, 0].set_ylim(0, 1.05)
    else:
        axes[0, 0].plot(steps, metrics["gradient_norm"], color=PURPLE, linewidth=1.2)
        over_steps(axes[0, 0], "Gradient norm", steps)
    evaluated(axes[0, 1], "Return of evaluations", "evaluation_return", RED)
    if ceiling:
        axes[0, 1].axhline(ceiling, color=GREY, linestyle=(0, (4, 3)), linewidth=1.2)
    axes[1, 0].plot(steps, metrics["learning_rate"], color=ORANGE, linewidth=1.6)
    over_steps(axes[1, 0], "Learning rate", steps)
    axes[1, 0].set_ylim(bottom=0)
    draw_speed(axes[1, 1], "Updates per second", steps, wall)
    for axis in (main, *axes[1]):
        axis.set_xlabel(label)
    figure.suptitle(f"{title}   {human(steps[-1])} updates in {wall[-1]:.1f} s", x=0.01, ha="left", fontsize=11)
    return figure


def draw(results: Run, ceiling: float | None, title: str) -> Figure:
    metrics = results.metrics
    if "env_steps" not in metrics:
        return draw_imitation(results, ceiling, title)
    steps, label = steps_of(metrics)
    returns, lengths = np.asarray(metrics["episode_return"]), np.asarray(metrics["episode_length"])
    wall = np.asarray(metrics["wall_seconds"])
    terms, ends, early = rewards_of(metrics), ends_of(metrics), early_rows(results)
    legends = [legend_rows([*map(shortened, ends)])] if ends else []
    legends += [0 for name in metrics if name.startswith(OF_TASK)]
    legends += [legend_rows([shortened(part.removeprefix(f"{name}_")) for part in parts]) for name, parts in curricula_of(metrics).items()]
    figure, main, axes, others = panels(legend_rows([*map(shortened, terms)]), legends)
    draw_task(others, steps, metrics, early)

    main.plot(steps, returns, color=BLUE, linewidth=2.2)
    if ceiling:
        main.axhline(ceiling, color=GREY, linestyle=(0, (4, 3)), linewidth=1.2)
        main.annotate(f"ceiling {ceiling:g}", (steps[0], ceiling), xytext=(4, 4), textcoords="offset points",
                      color=GREY, va="bottom")
        main.set_ylim(top=ceiling + 0.09 * max(ceiling - np.nanmin(np.append(returns, 0)), 1e-9))
    mark_last(main, steps, returns, BLUE, ".2f")
    over_steps(main, "Mean episode return", steps)
    main.set_xlim(0, steps[-1] * 1.02)

    axes[0, 0].plot(steps, lengths, color=GREEN, linewidth=1.5)
    over_steps(axes[0, 0], "Episode length (control steps)", steps)
    axes[0, 0].set_ylim(bottom=0)

    axis = axes[0, 1]
    for i, (name, values) in enumerate(terms.items()):
        colour, dashes = line_style(i)
        axis.plot(steps, values, color=colour, linestyle=dashes, linewidth=1.4, label=shortened(name))
    over_steps(axis, "Reward terms per episode", steps)
    if terms:
        legend_below(axis, 22, fontsize=7)

    axis = axes[1, 0]
    kl = find(metrics, "kl", "approx_kl", "mean_kl", "kl_divergence")
    rate = find(metrics, "learning_rate", "lr")
    handles = []
    if kl is not None:
        handles += axis.plot(steps, np.maximum(kl, 1e-8), color=PURPLE, linewidth=1.2, label="KL")
    if rate is not None:
        handles += axis.plot(steps, rate, color=ORANGE, linewidth=1.6, label="learning rate")
    axis.set_yscale("log")
    over_steps(axis, "KL divergence and learning rate", steps)
    legend_below(axis, 36, handles=handles)

    draw_speed(axes[1, 1], "Environment steps per second", steps, wall)
    for axis in (main, *axes[1]):
        axis.set_xlabel(label)
    for axis in (main, *axes[0]):
        fade(axis, steps, early)
    if early:
        main.set_xlabel(f"{label}\n{EARLY}")

    figure.suptitle(f"{title}   {human(steps[-1])} steps in {wall[-1]:.1f} s", x=0.01, ha="left", fontsize=11)
    return figure


class Problem(ValueError):
    """Runs that cannot be drawn as requested; the message gives the reason."""


class NoRows(Problem):
    """A run that is not a training, or has only begun."""


def without_rows(results: Run) -> str:
    of_training = f": for instance {results.evaluated}, whose policy was evaluated here" if results.evaluated else ""
    return f"{results.path} has no rows in /metrics; only training runs have a learning curve{of_training}"


def curve_of(path: Path, metric: str | None) -> tuple[str, str, Array, Array, int]:
    """The curve of a run's results: name of the horizontal axis, metric (None: return or loss), steps, [row] of the metric, and how
    many of the rows are early ones of a mean over episodes."""
    with Run(path) as results:
        over = steps_of(results.metrics)
        if over is None:
            raise NoRows(without_rows(results))
        steps, label = over
        metric = metric or ("episode_return_100" if label == "environment steps" else "loss")
        try:
            values = np.asarray(results.metrics[metric])
            by_episode = metric.startswith(OF_EPISODES) or metric not in results.metrics
            return label, results.metrics.told(metric), steps, values, early_rows(results) if by_episode else 0
        except KeyError:
            raise Problem(f"{path} has no metric {metric}: {', '.join(map(results.metrics.told, results.metrics))}") from None


def settings_of_ensemble(directory: Path, metric: str | None = None) -> Curves:
    """The curves of an ensemble: name of the horizontal axis, metric (None: return or loss), and by setting, "learning.gamma=0.99: 2 seeds": steps,
    [seed, row] of the metric, up to the last row that all seeds have, and how many rows are early ones of a mean over episodes."""
    with open(directory / "ensemble_results.csv", newline="") as file:
        members = list(csv.DictReader(file))
    columns = list(members[0])
    keys = [key for key in columns[1:columns.index("ending")] if key != "batch.seed"]
    curves, label = {}, None
    for member in members:
        path = results_path(directory / member["member"])
        if not path.is_file():
            continue
        try:
            label, metric, *curve = curve_of(path, metric)
        except NoRows:
            continue
        curves.setdefault(", ".join(f"{key}={member[key]}" for key in keys), []).append(curve)
    settings = {}
    for name, seeds in curves.items():
        rows = min(len(steps) for steps, _, _ in seeds)
        name = f"{name + ': ' if name else ''}{len(seeds)} seed{'s' if len(seeds) > 1 else ''}"
        settings[name] = seeds[0][0][:rows], np.array([values[:rows] for _, values, _ in seeds]), max(early for _, _, early in seeds)
    return label, metric, settings


def settings_of_runs(paths: Sequence[Path], metric: str | None = None) -> Curves:
    """The same of runs and ensembles, each by its name: that of its directory, or the path where two have the same."""
    folders = [path if path.is_dir() else path.parent for path in paths]
    names = Counter(folder.resolve().name for folder in folders)
    settings, labels = {}, {}
    for path, folder in zip(paths, folders):
        name = folder.resolve().name if names[folder.resolve().name] == 1 else str(path)
        if (path / "ensemble_results.csv").is_file():
            label, metric, members = settings_of_ensemble(path, metric)
            if not members:
                raise Problem(f"{path}: no member has rows in /metrics")
            found = {f"{name}: {setting}": curves for setting, curves in members.items()}
        else:
            label, metric, steps, values, early = curve_of(existing(results_path(path)), metric)
            found = {name: (steps, values[None], early)}
        labels.setdefault(label, path)
        if len(labels) > 1:
            raise Problem("curves over one axis are asked for: " + ", ".join(f"{run} goes over {over}" for over, run in labels.items()))
        settings |= found
    return label, metric, settings


def existing(path: Path) -> Path:
    if not path.is_file():
        raise Problem(f"{path}: no such file")
    return path


def draw_settings(settings: Settings, metric: str | None, label: str | None, ceiling: float | None,
                  title: str) -> Figure:
    """A line for each setting, its mean over the seeds where it has several, in a band of their range; of early rows a lighter one."""
    style()
    figure, axis = plt.subplots(figsize=(8, 4.5), layout="constrained")
    for i, (name, (steps, values, early)) in enumerate(settings.items()):
        colour, dashes = line_style(i)
        some = np.isfinite(values).any(axis=0)
        seen = values[:, some]
        begun, mean = int(np.count_nonzero(some[:early])), np.nanmean(seen, axis=0)
        axis.plot(steps[some][begun:], mean[begun:], color=colour, linestyle=dashes, linewidth=2, label=name)
        if begun:
            axis.plot(steps[some][:begun + 1], mean[:begun + 1], color=colour, linestyle=dashes, linewidth=2, alpha=0.35)
        if len(values) > 1:
            axis.fill_between(steps[some], np.nanmin(seen, axis=0), np.nanmax(seen, axis=0), color=colour, alpha=0.18,
                              linewidth=0)
    if ceiling:
        axis.axhline(ceiling, color=GREY, linestyle=(0, (4, 3)), linewidth=1.2)
    several = any(len(values) > 1 for _, values, _ in settings.values())
    axis.set_title(f"{title + ': ' if title else ''}{metric}{', mean and range' if several else ''}")
    lighter = any(early and np.isfinite(values[:, :early]).any() for _, values, early in settings.values())
    axis.set_xlabel(f"{label}\n{EARLY}" if lighter else label)
    axis.xaxis.set_major_formatter(lambda x, _: human(x) if x else "0")
    axis.legend(loc="best")
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="+", help="directories of training runs or ensembles, or a results.h5 of each")
    parser.add_argument("--output", type=Path, help="picture to write; default: learning_curve.png beside the results, of several "
                        "runs learning_curves.png here")
    parser.add_argument("--ceiling", type=float, help="largest return that the task allows, drawn as a line")
    parser.add_argument("--metric", help="metric to draw; default: all panels for one run, for several runs or an ensemble "
                        "episode_return_100, or the loss on demonstrations")
    parser.add_argument("--title", help="title; default: name of the run's directory, none for several runs")
    parser.add_argument("--dpi", type=float, default=110)
    arguments = parser.parse_args()
    try:
        plot(arguments)
    except Problem as error:
        parser.error(error.args[0])
    except OSError as error:
        refuse(error)


def plot(arguments: argparse.Namespace) -> None:
    first, *others = arguments.results
    ensemble = (first / "ensemble_results.csv").is_file()
    folder = first if ensemble else results_path(first).parent
    title = arguments.title or ("" if others else folder.resolve().name)
    several = bool(ensemble or others or arguments.metric)
    if several:
        label, metric, settings = settings_of_runs(arguments.results, arguments.metric)
        if not others:  # (the title has the name)
            settings = {name.removeprefix(f"{folder.resolve().name}: "): curves for name, curves in settings.items()}
        figure = draw_settings(settings, metric, label, arguments.ceiling, title)
    else:
        with Run(existing(results_path(first))) as results:
            if steps_of(results.metrics) is None:
                raise NoRows(without_rows(results))
            figure = draw(results, arguments.ceiling, title)
    output = arguments.output or (Path("learning_curves.png") if others else folder / "learning_curve.png")
    figure.savefig(output, dpi=arguments.dpi, bbox_inches="tight", pad_inches=0.12)
    print(f"learning curve{'s' if several else ''}: {output}")


if __name__ == "__main__":
    main()
