"""Two evaluations compared episode by episode (maniple.comparison): against the definition of the interval, and against
the recorded starts of the episodes."""
# ctest: PROCESSORS 1 COST 30

import shutil
import subprocess
import sys
import warnings

import h5py
import numpy as np
import pytest

import maniple
from conftest import ENVIRONMENT, ROOT
from maniple.comparison import compare, half_width, student_quantile

PENDULUM = ["inputs/tasks/gymnasium/inverted_pendulum_v5.yaml", "batch.num_envs=64", "learning.iterations=2", "policy.hidden=[16]"]
# 97.5 % quantiles of Student's t, from tables
TABLE = {1: 12.7062, 2: 4.30265, 3: 3.18245, 9: 2.26216, 30: 2.04227, 120: 1.97993, 299: 1.96793, 10**6: 1.95997}


@pytest.fixture(scope="module")
def runs(maniple, tmp_path_factory):
    """Two trainings, evaluated with 100 episodes in 40 environments."""
    folder = tmp_path_factory.mktemp("runs")
    for seed in (1, 2):
        maniple("train", *PENDULUM, f"batch.seed={seed}", f"output.directory={folder / str(seed)}")
        evaluate(maniple, folder / str(seed))
    return folder


def evaluate(maniple, run, *keys):
    maniple("evaluate", run, "batch.num_envs=40", "batch.seed=7", "evaluation.episodes=100", "output.dataset=robomimic",
            "output.overwrite=true", "task.metrics.speed=abs(qvel[slider])", *keys)


@pytest.mark.parametrize("freedom", TABLE)
def test_quantiles(freedom):
    assert student_quantile(freedom) == pytest.approx(TABLE[freedom], rel=2e-5)


def test_pairs_begin_alike(runs):
    """All episodes of an environment do, however long another policy made those before; what follows differs."""
    starts, lengths = [], []
    for run in ("1", "2"):
        with h5py.File(runs / run / "demonstrations.hdf5") as file:
            demos = [file[f"data/demo_{number}"] for number in range(len(file["data"]))]
            lengths.append([len(demo["actions"]) for demo in demos])
            starts.append(np.array([next(iter(demo["obs"].values()))[0] for demo in demos]))
    np.testing.assert_array_equal(*starts)
    assert len(np.unique(starts[0], axis=0)) == len(starts[0]) == 100 and np.not_equal(*lengths).sum() > 50


def test_an_evaluation_of_an_earlier_policy_is_told(maniple, runs, tmp_path):
    run = tmp_path / "longer"
    shutil.copytree(runs / "1", run)
    with h5py.File(run / "evaluation.h5") as file:
        assert file["evaluation/iteration"][0] == 2
    maniple("train", *PENDULUM, "batch.seed=1", "learning.iterations=3", "learning.resume=auto", f"output.directory={run}")
    told = f"{run}: the evaluation is of the policy of iteration 2, the newest is of iteration 3: maniple evaluate {run}"
    with pytest.warns(UserWarning, match=f"^{told}$"):
        compare(run, runs / "2")
    shown = subprocess.run([sys.executable, "-m", "maniple.results", run], capture_output=True, text=True, env=ENVIRONMENT)
    assert shown.stderr == f"warning: {told}\n"
    evaluate(maniple, run)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compare(run, runs / "1")


def test_differences_are_of_pairs(runs, tmp_path):
    returns = [maniple.Run(runs / run).evaluation["episode_return"] for run in ("1", "2")]
    found = compare(runs / "1", maniple.Run(runs / "2" / "evaluation.h5"))
    # a directory in which nothing else is
    shutil.copy(runs / "2" / "evaluation.h5", tmp_path)
    assert compare(runs / "1", tmp_path) == found
    differences = returns[1] - returns[0]
    assert found.pairs == 100 and found.means == tuple(rows.mean() for rows in returns)
    assert found.difference == pytest.approx(differences.mean())
    assert found.confidence == pytest.approx(1.984217 * differences.std(ddof=1) / 10, rel=1e-5)
    assert found.unpaired_confidence == pytest.approx(np.hypot(*(1.984217 * rows.std(ddof=1) / 10 for rows in returns)), rel=1e-5)
    assert found.correlation == pytest.approx(np.corrcoef(*returns)[0, 1])
    assert np.isnan(half_width(differences[:1]))
    same = compare(runs / "1", runs / "1", "episode_length")
    assert same.difference == same.confidence == 0 and same.unpaired_confidence > 0 and same.correlation == pytest.approx(1)
    with h5py.File(runs / "1/evaluation.h5") as file:  # as the program has it
        whole = file["evaluation/episode_return"][:]
        assert half_width(whole) == pytest.approx(file["evaluation/mean_return_confidence"][0], rel=1e-4)


def test_intervals_hold_what_they_say():
    """Of 2000 sets of 5 correlated pairs, 95 % of the intervals hold the true difference."""
    random = np.random.default_rng(0)
    differences = random.normal(0.3, 1, (2000, 5))
    held = np.mean([abs(rows.mean() - 0.3) < half_width(rows) for rows in differences])
    assert abs(held - 0.95) < 3 * (0.95 * 0.05 / 2000) ** 0.5


def test_other_starts_are_refused(runs, maniple, tmp_path):
    for number, (key, message) in enumerate({
            "batch.seed=8": "batch.seed: .* was evaluated with 7, .* with 8; allowed: evaluations of the same task",
            "batch.num_envs=50": "batch.num_envs: .* with 40, .* with 50",
            "task.episode_steps=9": "task.episode_steps: ",
            "simulation.decimation=3": "simulation.decimation: ",
            "task.resets=[{set: qvel, expression: 'uniform(-1, 1)'}]": "task.resets: ",
            "task.rewards.more={expression: 'qpos[slider]', weight: 1}": "task.rewards.more: "}.items()):
        evaluate(maniple, runs / "2", key, f"output.directory={tmp_path / str(number)}")
        with pytest.raises(ValueError, match=message):
            compare(runs / "1", tmp_path / str(number) / "evaluation.h5")
    evaluate(maniple, runs / "2", "evaluation.episodes=30", f"output.directory={tmp_path / 'fewer'}")
    assert compare(runs / "1", tmp_path / "fewer/evaluation.h5").pairs == 30
    with pytest.raises(KeyError, match="found 'episode_retrun', near episode_return; allowed: episode_length, "):
        compare(runs / "1", runs / "2", "episode_retrun")
    maniple("train", *PENDULUM, f"output.directory={tmp_path / 'none'}")
    with pytest.raises(ValueError, match="none has no evaluation; allowed: runs after `maniple evaluate`"):
        compare(runs / "1", tmp_path / "none")


def in_shell(*arguments):
    return subprocess.run([sys.executable, "-m", "maniple.results", "compare", *arguments], capture_output=True, text=True,
                          env={**ENVIRONMENT, "PYTHONPATH": str(ROOT / "tools")}, timeout=60)


def test_metrics_by_name(runs, maniple, tmp_path):
    """Success where the task has it, and others by their names, also several; numbers of all episodes together are none of them."""
    for run in ("1", "2"):
        evaluate(maniple, runs / run, "task.terminations.success={expression: 'qpos[slider] > 0.05'}", f"output.directory={tmp_path / run}")
    shares = []
    for run in ("1", "2"):
        with h5py.File(tmp_path / run / "evaluation.h5") as file:
            shares.append(file["evaluation/success"][:].astype(float))
            assert file["evaluation/success_rate"][0] == pytest.approx(shares[-1].mean()) and 0 < shares[-1].mean() < 1
    found = compare(tmp_path / "1", tmp_path / "2", metric="success")
    assert found.pairs == 100 and found.means == tuple(share.mean() for share in shares)
    assert found.confidence == pytest.approx(1.984217 * (shares[1] - shares[0]).std(ddof=1) / 10, rel=1e-5)
    told = in_shell(tmp_path / "1", tmp_path / "2", "--metric", "success", "termination_fallen")
    first, second = (line for line in told.stdout.splitlines() if "same starts" in line)
    assert first.startswith(f"success of 100 episodes with the same starts: {tmp_path / '1'} {found.means[0]:.6g}, "), told
    assert second.startswith("termination_fallen of 100 episodes") and in_shell(tmp_path / "1", tmp_path / "2", "success").stdout in told.stdout
    names = "episode_length, episode_return, speed, success, termination_fallen, termination_success, termination_time_out"
    for name in ("mean_return", "success_rate", "iteration"):
        refused = in_shell(tmp_path / "1", tmp_path / "2", "--metric", name)
        assert refused.returncode == 2 and f"metric: found '{name}'" in refused.stderr, refused
        assert f"; allowed: {names}, the numbers by episode of {tmp_path}/1/evaluation.h5\n" in refused.stderr
    assert "termination_<name>" in in_shell("--help").stdout


def test_command(runs, tmp_path):
    told = in_shell(runs / "1", runs / "2")
    found = compare(runs / "1", runs / "2")
    assert told.returncode == 0 and f"difference, second less first: {found.difference:.6g} +- {found.confidence:.3g} (95 %)" in told.stdout
    assert f"episode_return of 100 episodes with the same starts: {runs / '1'} {found.means[0]:.6g}" in told.stdout
    # a metric of the task by the name that the terminal has
    for name in ("speed", "metric_speed"):
        told, found = in_shell(runs / "1", runs / "2", "--metric", name), compare(runs / "1", runs / "2", name)
        assert told.stdout.startswith(f"speed of 100 episodes with the same starts: {runs / '1'} {found.means[0]:.6g}"), told
        with h5py.File(runs / "1/evaluation.h5") as file:
            assert found.means[0] == pytest.approx(file["evaluation/metric_speed"][:].mean(dtype=float))
    for arguments, message in (((runs / "1", tmp_path), "has no results.h5"), ((runs / "1",), "usage: "),
                               ((runs / "1", runs / "2", "--metric", "lenght"), "error: metric: found 'lenght', near episode_length; allowed: episode_length, "),
                               ((runs / "1", runs / "2", "--metric", "sped"), "error: metric: found 'sped', near speed; ")):
        refused = in_shell(*arguments)
        assert refused.returncode != 0 and message in refused.stderr and "Traceback" not in refused.stderr
