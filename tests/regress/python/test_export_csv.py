"""Tables of the contents of results files: they read back to the bits of the results."""
# ctest: PROCESSORS 1

import csv
import shutil

import numpy as np
from conftest import start_tool
from damages import flip_bit_of_number
from maniple.results import Run
from test_tools import check_refusals

DECK = "inputs/tasks/pendulum_swingup.yaml"


def tables(*arguments, exit_code=0):
    result = start_tool("export_csv.py", *arguments)
    assert result.returncode == exit_code, result.stdout + result.stderr
    return result.stdout + result.stderr


def read(file):
    with open(file, newline="") as source:
        heads, *rows = csv.reader(source)
    return {head: np.array([float(row[k]) for row in rows]) for k, head in enumerate(heads)}


def test_csv(maniple, tmp_path):
    run = tmp_path / "run"
    maniple("train", DECK, "batch.num_envs=64", "learning.iterations=3", "task.episode_length=0.5", f"output.directory={run}")
    maniple("evaluate", DECK, "task.episode_length=0.5", f"control.checkpoint={run}", "batch.num_envs=5", f"output.directory={run}")
    tables(run)
    with Run(run) as results:
        table = read(run / "metrics.csv")
        assert list(table)[0] == "iteration" and sorted(table) == sorted(results.metrics)
        for name, values in results.metrics.items():
            np.testing.assert_array_equal(table[name], values)
    with Run(run / "evaluation.h5") as results:
        np.testing.assert_array_equal(read(run / "evaluation.csv")["episode_return"], results.evaluation["episode_return"])

    maniple("rollout", DECK, "control.source=random", "batch.num_envs=3", "simulation.steps=4", "output.trajectory.every=2",
            "output.trajectory.fields=[qpos,reward_term]", f"output.directory={tmp_path / 'rollout'}")
    tables(tmp_path / "rollout", "qpos", "reward_term", "--output", tmp_path / "tables")
    with Run(tmp_path / "rollout") as results:
        table = read(tmp_path / "tables/qpos.csv")
        np.testing.assert_array_equal(table["qpos[0]"].reshape(3, 3), results.trajectories["qpos"][..., 0])
        np.testing.assert_array_equal(table["step"], [0, 2, 4] * 3)
        table = read(tmp_path / "tables/reward_term.csv")
        assert list(table) == ["env", "step", *results.names("reward_term")]
    assert "it has: " in tables(tmp_path / "rollout", "nothing", exit_code=2)
    assert "name fields of its trajectory: " in tables(tmp_path / "rollout", exit_code=2)
    assert "is not there" in tables(tmp_path / "nowhere", exit_code=2)


def test_no_tables(maniple, tmp_path):
    """Of damaged results, those behind others as well, and where there can be no folder."""
    run = tmp_path / "run"
    maniple("train", DECK, "batch.num_envs=64", "learning.iterations=2", "task.episode_length=0.5", f"output.directory={run}")
    check_refusals("export_csv.py", run / "results.h5", run)
    check_refusals("export_csv.py", run / "results.h5", run / "results.h5", "--output", tmp_path / "tables")
    assert not list(tmp_path.rglob("*.csv"))
    message = tables(run, "--output", "/dev/null/x", exit_code=2)
    assert message.startswith("export_csv.py: error: ") and "/dev/null/x" in message and message.count("\n") == 1, message
    shutil.copy(run / "results.h5", run / "evaluation.h5")
    flip_bit_of_number(run / "evaluation.h5")
    assert f"{run}/evaluation.h5 is damaged" in tables(run, exit_code=2)
