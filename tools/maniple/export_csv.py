"""Writes what a results file holds as CSV, for spreadsheets: metrics.csv (a row per iteration), evaluation.csv (a row
per episode) and, for each asked-for field of a trajectory, <field>.csv (a row per environment and sample).

    python -m maniple.export_csv runs/pendulum
    python -m maniple.export_csv runs/arm qpos qvel --output tables
"""

import argparse
import csv
from pathlib import Path

from maniple.results import Run, by_episode, refuse, what_is_missing


def write(file, heads, rows):
    with open(file, "w", newline="") as target:
        writer = csv.writer(target)
        writer.writerow(heads)
        writer.writerows(rows)
    print(file)


def columns(file, series):
    """One column per series; numbers as Python writes them, so that they read back as they were."""
    write(file, series, zip(*(values.tolist() for values in series.values())))


def trajectory(file, run, field):
    values, steps = run.trajectories[field], run.trajectories["step"][()].tolist()
    names = run.names(field) or [""] * values.shape[2]
    heads = ["env", "step", *(name or f"{field}[{i}]" for i, name in enumerate(names))]
    write(file, heads, ((env, step, *row) for env in range(values.shape[0])
                        for step, row in zip(steps, values[env].tolist())))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="directory of a run, or its results file")
    parser.add_argument("fields", nargs="*", help="fields of the trajectory")
    parser.add_argument("--output", type=Path, help="folder for the tables; default: that of the results")
    arguments = parser.parse_args()
    try:
        export(parser, arguments)
    except OSError as error:
        refuse(error)


def export(parser, arguments):
    folder = arguments.output or (arguments.run if arguments.run.is_dir() else arguments.run.parent)
    files = [arguments.run]
    if arguments.run.is_dir():
        files = [file for file in (arguments.run / "results.h5", arguments.run / "evaluation.h5") if file.is_file()]
    if not files or not files[0].is_file():
        parser.error(what_is_missing(arguments.run))
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        with Run(file) as run:
            unknown = [field for field in arguments.fields if field not in run.trajectories]
            if unknown and file == files[0]:
                parser.error(f"{file} has no /trajectory/{unknown[0]}; it has: {' '.join(run.trajectories) or 'none'}")
            if not (run.metrics or run.evaluation or arguments.fields):
                parser.error(f"{file} has neither metrics nor episodes; name fields of its trajectory: "
                             f"{' '.join(run.trajectories) or 'none'}")
            if run.metrics:
                metrics = dict(run.metrics.items())
                columns(folder / "metrics.csv", {"iteration": metrics.pop("iteration"), **metrics})
            if run.evaluation:  # (not the means over all episodes)
                columns(folder / "evaluation.csv", by_episode(run.evaluation))
            for field in arguments.fields if file == files[0] else ():
                (folder / field).parent.mkdir(parents=True, exist_ok=True)  # of variables/air_time.csv
                trajectory(folder / f"{field}.csv", run, field)


if __name__ == "__main__":
    main()
