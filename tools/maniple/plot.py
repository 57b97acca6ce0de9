"""Draws the curves of a training run from its results.h5: return, length, reward terms, KL and learning rate, speed, how
episodes end, and the task's metrics; for one on demonstrations losses, results of its evaluations, gradient norm and
learning rate, speed. Of several runs it draws the returns (or losses) in one picture. Of an ensemble it draws for each
setting the mean over its seeds, in a band from the lowest to the highest.

    python -m maniple.plot runs/cartpole --output curve.png --ceiling 5
    python -m maniple.plot runs/ensemble --metric episode_return_100
    python -m maniple.plot runs/ppo runs/ppo_wide runs/ensemble --metric kl --output kl.png
"""

import argparse
import csv
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

CURRICULUM = "curriculum_"  # before the names of task.curricula in files
Array = NDArray[np.float64]
Metrics = Mapping[str, Array]
Settings = dict[str, tuple[Array, Array]]  # by name: steps [row], and values [seed, row]
Curves = tuple[str | None, str | None, Settings]  # with what they go over and the metric; None where no run has rows

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


def legend_below(axis: Axes, points: float, **how: Any) -> None:
    """Puts a legend that many points below the axis, where it hides no curve."""
    below = axis.transAxes + ScaledTranslation(0, -points / 72, axis.figure.dpi_scale_trans)
    axis.legend(loc="upper left", bbox_to_anchor=(0, 0), bbox_transform=below, ncols=2, borderpad=0, borderaxespad=0,
                columnspacing=1, **how)


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


def panels(more: int = 0) -> tuple[Figure, Axes, Any, list[Axes]]:
    """A figure, its large panel, the four small ones beside it, and as many more below, four in a row."""
    style()
    rows = -(-more // 4)
    figure = plt.figure(figsize=(11, 5.4 + 2.3 * rows), layout="constrained")
    above, *below = figure.subfigures(2, 1, height_ratios=(5.4, 2.3 * rows)) if rows else (figure,)
    axes = above.subplots(2, 3, width_ratios=(1.7, 1, 1))
    grid = axes[0, 0].get_gridspec()
    for axis in axes[:, 0]:
        axis.remove()
    others = list(below[0].subplots(rows, 4, squeeze=False).flat) if rows else []
    for axis in others[more:]:
        axis.remove()
    return figure, above.add_subplot(grid[:, 0]), axes[:, 1:], others[:more]


def draw_task(axes: Sequence[Axes], steps: Array, metrics: Metrics) -> None:
    """How episodes end, in one panel, and a panel for each of the task's metrics and curricula."""
    places = iter(axes)
    ends = {name: values for name, values in metrics.items() if name.startswith("termination_")}
    if ends:
        axis = next(places)
        for i, (name, values) in enumerate(ends.items()):
            colour, dashes = line_style(i)
            axis.plot(steps, values, color=colour, linestyle=dashes, linewidth=1.4, label=name.removeprefix("termination_"))
        over_steps(axis, "Ends of episodes (share)", steps)
        axis.set_ylim(0, 1.05)
        legend_below(axis, 22, fontsize=7)
    # (in this order: zip takes no panel for a name that is not there)
    for name, axis in zip((name for name in metrics if name.startswith(OF_TASK)), places):
        axis.plot(steps, metrics[name], color=TEAL, linewidth=1.5)
        over_steps(axis, name.removeprefix(OF_TASK), steps)
    for (name, parts), axis in zip(curricula_of(metrics).items(), places):
        for i, part in enumerate(parts):
            colour, dashes = line_style(i)
            axis.plot(steps, metrics[part], color=colour, linestyle=dashes, linewidth=1.2, label=part.removeprefix(f"{name}_"))
        axis.plot(steps, metrics[name], color=ORANGE, linewidth=1.8)
        over_steps(axis, f"Curriculum {name.removeprefix(CURRICULUM)}", steps)
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
    axis.set_ylim(0, 1.25 * np.nanmedian(speed) if np.nanmedian(speed) > 0 else 1)
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
    of_task = (sum(name.startswith(OF_TASK) for name in metrics) + len(curricula_of(metrics)) +
               any(name.startswith("termination_") for name in metrics))
    figure, main, axes, others = panels(of_task)
    draw_task(others, steps, metrics)

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

    terms = {k: v for k, v in metrics.items() if k.startswith(("reward_term_", "reward/", "reward_", "episode_reward_"))}
    axis = axes[0, 1]
    prefix = ("episode_reward_", "reward_term_", "reward/", "reward_")
    for i, (name, values) in enumerate(terms.items()):
        short = next(name[len(p):] for p in prefix if name.startswith(p))
        colour, dashes = line_style(i)
        axis.plot(steps, values, color=colour, linestyle=dashes, linewidth=1.4, label=short)
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

    figure.suptitle(f"{title}   {human(steps[-1])} steps in {wall[-1]:.1f} s", x=0.01, ha="left", fontsize=11)
    return figure


class Problem(ValueError):
    """Runs that cannot be drawn as requested; the message gives the reason."""


class NoRows(Problem):
    """A run that is not a training, or has only begun."""


def without_rows(results: Run) -> str:
    of_training = f": for instance {results.evaluated}, whose policy was evaluated here" if results.evaluated else ""
    return f"{results.path} has no rows in /metrics; only training runs have a learning curve{of_training}"


def curve_of(path: Path, metric: str | None) -> tuple[str, str, Array, Array]:
    """The curve of a run's results: name of the horizontal axis, metric (None: return or loss), steps, and [row] of the metric."""
    with Run(path) as results:
        over = steps_of(results.metrics)
        if over is None:
            raise NoRows(without_rows(results))
        steps, label = over
        metric = metric or ("episode_return_100" if label == "environment steps" else "loss")
        try:
            return label, results.metrics.told(metric), steps, np.asarray(results.metrics[metric])
        except KeyError:
            raise Problem(f"{path} has no metric {metric}: {', '.join(map(results.metrics.told, results.metrics))}") from None


def settings_of_ensemble(directory: Path, metric: str | None = None) -> Curves:
    """The curves of an ensemble: name of the horizontal axis, metric (None: return or loss), and by setting, "learning.gamma=0.99: 2 seeds": steps and
    [seed, row] of the metric, up to the last row that all seeds have."""
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
            label, metric, steps, values = curve_of(path, metric)
        except NoRows:
            continue
        curves.setdefault(", ".join(f"{key}={member[key]}" for key in keys), []).append((steps, values))
    settings = {}
    for name, seeds in curves.items():
        rows = min(len(steps) for steps, _ in seeds)
        name = f"{name + ': ' if name else ''}{len(seeds)} seed{'s' if len(seeds) > 1 else ''}"
        settings[name] = seeds[0][0][:rows], np.array([values[:rows] for _, values in seeds])
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
            label, metric, steps, values = curve_of(existing(results_path(path)), metric)
            found = {name: (steps, values[None])}
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
    """A line for each setting, its mean over the seeds where it has several, in a band of their range."""
    style()
    figure, axis = plt.subplots(figsize=(8, 4.5), layout="constrained")
    for i, (name, (steps, values)) in enumerate(settings.items()):
        colour, dashes = line_style(i)
        some = np.isfinite(values).any(axis=0)
        seen = values[:, some]
        axis.plot(steps[some], np.nanmean(seen, axis=0), color=colour, linestyle=dashes, linewidth=2, label=name)
        if len(values) > 1:
            axis.fill_between(steps[some], np.nanmin(seen, axis=0), np.nanmax(seen, axis=0), color=colour, alpha=0.18,
                              linewidth=0)
    if ceiling:
        axis.axhline(ceiling, color=GREY, linestyle=(0, (4, 3)), linewidth=1.2)
    several = any(len(values) > 1 for _, values in settings.values())
    axis.set_title(f"{title + ': ' if title else ''}{metric}{', mean and range' if several else ''}")
    axis.set_xlabel(label)
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
    figure.savefig(output, dpi=arguments.dpi)
    print(f"learning curve{'s' if several else ''}: {output}")


if __name__ == "__main__":
    main()
