"""Metrics of episodes beside rewards: the statistics of task.metrics and the shares of terminations, against numpy over
recorded steps, in trajectories, evaluations and trainings."""
# ctest: PROCESSORS 1

import h5py
import numpy as np
import pytest

DECK = "inputs/tasks/pendulum_swingup.yaml"
VALUE = "abs(qvel[hinge]) - 1"
STATISTICS = {"mean": np.mean, "sum": np.sum, "last": lambda values: values[-1], "min": np.min, "max": np.max}
METRICS = [f'task.metrics.m_{name}={{expression: "{VALUE}", statistic: {name}}}' for name in STATISTICS]
ENDS = ["task.episode_length=0.6", 'task.terminations.fast={expression: "abs(qvel[hinge]) > 2.5"}']


@pytest.fixture(scope="module")
def recorded(maniple, tmp_path_factory):
    """Steps of 70 environments whose episodes end in time or early, {field: [env, step, n]}, and the names of metrics."""
    directory = tmp_path_factory.mktemp("rollout")
    maniple("rollout", DECK, "batch.num_envs=70", "simulation.steps=90", "simulation.precision=double", "control.source=random",
            "initial_state.source=task", f"output.directory={directory}", "output.trajectory.every=1",
            "output.trajectory.fields=[episode_metric, terminated, truncated, variables/value]",
            f'task.variables.value={{reset: "0", update: "{VALUE}"}}', *METRICS, *ENDS)
    with h5py.File(directory / "results.h5") as file:
        trajectory = file["trajectory"]
        fields = ["episode_metric", "terminated", "truncated", "variables/value"]
        # (the first row is the state before the first step)
        return {name: trajectory[name][:, 1:] for name in fields}, trajectory["episode_metric"].attrs["names"].split("\n")


def test_statistics_are_those_of_the_steps(recorded):
    fields, names = recorded
    told = fields["episode_metric"]
    ended = (fields["terminated"] + fields["truncated"])[:, :, 0] > 0
    assert 20 < ended.sum() and 0 < fields["terminated"].sum() < ended.sum()
    checked = 0
    for env in range(told.shape[0]):
        first = 0
        for step in np.flatnonzero(ended[env]):
            of_step = dict(zip(names, told[env, step]))
            # (where an episode ends, the variable has been reset when it is recorded)
            values = np.append(fields["variables/value"][env, first:step, 0], of_step["metric_m_last"])
            for name, statistic in STATISTICS.items():
                np.testing.assert_allclose(of_step[f"metric_m_{name}"], statistic(values), rtol=1e-12, err_msg=name)
            assert of_step["termination_time_out"] == fields["truncated"][env, step, 0]
            assert of_step["termination_fast"] == fields["terminated"][env, step, 0] == (abs(values[-1] + 1) > 2.5)
            first = step + 1
            checked += 1
    assert checked == ended.sum()


@pytest.fixture(scope="module")
def trained(maniple, tmp_path_factory):
    directory = tmp_path_factory.mktemp("train")
    result = maniple("train", DECK, "batch.num_envs=64", "learning.iterations=4", *METRICS, *ENDS, f"output.directory={directory}")
    return directory, result.stdout


def test_evaluations_tell_of_each_episode(maniple, trained, tmp_path):
    directory, _ = trained
    result = maniple("evaluate", directory, "evaluation.episodes=70", f"output.directory={tmp_path}")
    with h5py.File(tmp_path / "evaluation.h5") as file:
        told = {name: values[()] for name, values in file["evaluation"].items()}
    assert all(told[f"metric_m_{name}"].shape == (70,) for name in STATISTICS)
    np.testing.assert_allclose(told["metric_m_sum"] / told["episode_length"], told["metric_m_mean"], rtol=1e-5, atol=1e-6)
    assert (told["metric_m_min"] <= told["metric_m_last"]).all() and (told["metric_m_last"] <= told["metric_m_max"]).all()
    assert set(told["termination_fast"]) <= {0, 1}
    assert ((told["metric_m_last"] + 1 > 2.5) == (told["termination_fast"] == 1)).all()
    assert (told["termination_fast"] + told["termination_time_out"] >= 1).all()
    assert f"fast {100 * told['termination_fast'].mean():.0f}%" in result.stdout
    assert f"m_max {told['metric_m_max'].mean():.4g}" in result.stdout


def test_trainings_tell_of_the_episodes_that_ended(maniple, trained, tmp_path):
    directory, output = trained
    with h5py.File(directory / "results.h5") as file:
        told = {name: values[()] for name, values in file["metrics"].items()}
    np.testing.assert_allclose(told["metric_m_sum"][-1] / told["metric_m_mean"][-1], told["episode_length"][-1], rtol=0.2)
    assert (told["termination_fast"] + told["termination_time_out"] >= 1).all()
    assert f"fast {100 * told['termination_fast'][-1]:.0f}%" in output and f"m_max {told['metric_m_max'][-1]:.4g}" in output
    maniple("train", DECK, "batch.num_envs=64", "learning.iterations=4", *METRICS, *ENDS, f"output.directory={tmp_path}", ranks=2)
    assert maniple.digest(tmp_path / "results.h5") == maniple.digest(directory / "results.h5")


def test_numbers_of_any_size(maniple, tmp_path):
    """Means of metrics and rewards, and the normalization of observations, from the first iteration on: no unit is too small."""
    stds = np.array([1e-6, 1e-3, 0.02, 0.05, 1, 1e3])
    maniple("train", DECK, "batch.num_envs=1024", "learning.iterations=1", "learning.horizon=24", "learning.epochs=1",
            "policy.hidden=[8]", "policy.normalize_observations=true", *ENDS, f"output.directory={tmp_path}", "task.rewards.climb=~",
            'task.rewards.small={expression: "1", weight: 1e-10}', 'task.rewards.large={expression: "1", weight: 1e5}',
            'task.metrics.small={expression: "1e-9"}', 'task.metrics.large={expression: "1e7"}', "task.reward_times_dt=false",
            "task.observations=[%s]" % ", ".join(f'{{expression: "normal(0, {std})"}}' for std in stds))
    with h5py.File(tmp_path / "results.h5") as file:
        told = {name: values[0] for name, values in file["metrics"].items()}
    np.testing.assert_allclose([told["metric_small"], told["metric_large"]], [1e-9, 1e7], rtol=1e-5)
    np.testing.assert_allclose([told["reward_small"] / 1e-10, told["reward_large"] / 1e5], told["episode_length"], rtol=1e-5)
    with h5py.File(maniple.checkpoints(tmp_path)[0]) as file:
        policy = {name: values[()] for name, values in file["policy"].items() if name.startswith("observation_")}
    # (merged with one sample of mean 0 and variance 1 that it begins with)
    count = policy["observation_count"][0]
    assert count == 24 * 1024 + 1
    np.testing.assert_allclose(policy["observation_variance"] * count - 1, stds**2 * (count - 1), rtol=0.05, atol=1e-9)


def test_curricula_follow_them(maniple, tmp_path):
    maniple("train", DECK, "batch.num_envs=64", "learning.iterations=3", *METRICS, *ENDS, f"output.directory={tmp_path}",
            'task.curricula.level={reset: "0", update: "metric_m_max + 10 * termination_fast"}')
    with h5py.File(tmp_path / "results.h5") as file:
        told = {name: values[()] for name, values in file["metrics"].items()}
    np.testing.assert_allclose(told["curriculum_level"][1:], (told["metric_m_max"] + 10 * told["termination_fast"])[:-1], rtol=1e-12)


def test_curricula_wait_for_episodes(maniple, tmp_path):
    """Episodes of 40 steps in iterations of 16: in some none ends. An update that reads their metrics moves only where
    some did; so on any number of ranks, and when a training goes on from there."""
    keys = ["batch.num_envs=48", "learning.horizon=16", "task.episode_length=0", "task.episode_steps=40", *METRICS,
            "learning.random_initial_episode_length=false", "learning.checkpoint_every=1", "learning.keep_checkpoints=9",
            'task.curricula.level={reset: "0", update: "level + (metric_m_max > -100)"}',
            'task.curricula.ended={reset: "0", update: "ended + episodes"}', 'task.curricula.always={reset: "0", update: "always + 1"}']
    digests = set()
    for ranks, parts in ((1, (8,)), (2, (4, 8))):  # 4 ends with an iteration without episodes
        directory = tmp_path / str(ranks)
        for iterations in parts:
            maniple("train", DECK, *keys, f"learning.iterations={iterations}", "learning.resume=auto", f"output.directory={directory}",
                    ranks=ranks)
        with h5py.File(directory / "results.h5") as file:
            told = {name: values[()] for name, values in file["metrics"].items()}
        np.testing.assert_array_equal(told["episodes"], [0, 0, 48, 0, 48, 0, 0, 48])
        np.testing.assert_array_equal(told["curriculum_level"], [0, 0, 0, 1, 1, 2, 2, 2])
        np.testing.assert_array_equal(told["curriculum_ended"], [0, 0, 0, 48, 48, 96, 96, 96])
        np.testing.assert_array_equal(told["curriculum_always"], np.arange(8))
        digests.add((maniple.digest(directory / "results.h5"), maniple.digest(maniple.checkpoints(directory)[-1])))
    assert len(digests) == 1


@pytest.mark.parametrize("given, message", [
    ("task.metrics.a={statistic: max}", "task.metrics.a: found no expression; allowed: expression"),
    ('task.metrics.a={expression: "1", statistic: median}', "allowed: mean | sum | last | min | max"),
    ('task.metrics.a={expression: "1", weight: 2}', "task.metrics.a.weight: found a key that metrics do not take"),
    ('task.metrics.a={expression: "1", statistik: max}', "task.metrics.a.statistik: found an unknown key"),
    ("task.metrics.a=[1, 2]", "task.metrics.a: found [1, 2]; allowed: an expression, or a mapping"),
    ("task.metrics.a=qpos[nothing]", "nothing"),
    ("task.metrics.a='[1, 2]'", "a metric"),
    ('task.rewards.b={expression: "1", statistic: max}', "found a key that rewards do not take"),
])
def test_mistakes_are_named(maniple, given, message):
    result = maniple("validate", DECK, given, exit_code=2)
    assert message in result.stderr, result.stderr


def test_values_that_are_no_numbers_are_counted_by_name(maniple, tmp_path):
    result = maniple("rollout", DECK, "batch.num_envs=4", "simulation.steps=5", "task.metrics.broken=1 / (qpos[hinge] - qpos[hinge])",
                     "initial_state.source=task", f"output.directory={tmp_path}")
    assert "metric metric_broken" in result.stdout + result.stderr


@pytest.mark.parametrize("text", ["qvel[0] > 1 ? 1 : 0", "qvel[0] > 1 ? 1: 0", "(qvel[0] > 1 ? 1 : 0) ? 3 : qvel[0] < 0 ? 2 : 1"])
def test_choices_need_no_quotes_on_a_command_line(maniple, tmp_path, text):
    """a ? b : c is an expression there, as it is in quotes, and no mapping of YAML; keys that want something else refuse it."""
    for key in ("task.metrics.fast", "task.metrics.fast.expression"):
        found = [maniple("validate", DECK, f"{key}={value}", ranks=0).stdout for value in (text, f'"{text}"')]
        assert found[0] == found[1] and text in found[0]
    result = maniple("validate", DECK, f"batch.num_envs={text}", ranks=0, exit_code=2)
    assert f"batch.num_envs: found '{text}'" in result.stderr
    # a mapping stays one
    assert "fast" in maniple("validate", DECK, "task.metrics.fast=expression: qvel[0]", ranks=0).stdout
