"""Curricula: values that follow what a training measures, in expressions, weights and ranges; the same on any number of ranks,
over a restart and for who goes on with a policy; and refusals."""
# ctest: PROCESSORS 1 COST 10

import h5py
import numpy as np
import pytest
from walker import deck, rollout  # noqa: F401

LEVEL = """{}
  curricula:
    level: {reset: "0.25", update: "iteration >= 2 ? level + 0.5 : level"}
    slow: {reset: "1", update: "mean_episode_steps > 20 && reward_up < 1e9 ? slow / 2 : slow"}
"""


def metrics(directory):
    with h5py.File(directory / "results.h5") as file:
        return {name: values[()] for name, values in file["metrics"].items()}


def test_curricula(maniple, deck, tmp_path):
    """Values change after an iteration, reach expressions and weights, and are the same on any number of ranks and over
    a restart."""
    path = deck(events=LEVEL, observed=["level", "slow"], precision="single", num_envs=100, reward="0 * level")
    path.write_text(path.read_text().replace("weight: 1}", "weight: 1}\n    one: {expression: \"1\", weight: 2, curriculum: level}"))
    digests = set()
    for ranks in (1, 3):
        directory = tmp_path / str(ranks)
        maniple("train", path, "learning.iterations=6", "learning.random_initial_episode_length=false",
                f"output.directory={directory}", ranks=ranks)
        digests.add(maniple.digest(maniple.checkpoints(directory)[-1]))
    directory = tmp_path / "resumed"
    for iterations, ranks in ((3, 2), (6, 1)):
        maniple("train", path, f"learning.iterations={iterations}", "learning.resume=auto",
                "learning.random_initial_episode_length=false", f"output.directory={directory}", ranks=ranks)
    digests.add(maniple.digest(maniple.checkpoints(directory)[-1]))
    assert len(digests) == 1
    run = metrics(tmp_path / "1")
    np.testing.assert_array_equal(run["curriculum_level"], [.25, .25, .75, 1.25, 1.75, 2.25])
    # episodes of 25 steps end in iterations 4 and 7 of 8 steps each; in others the update waits
    np.testing.assert_array_equal(run["curriculum_slow"], [1, 1, 1, 1, .5, .5])
    # weight 2, times the control step of 0.02 s, times the levels of the steps of an episode
    expected = 2 * .02 * (16 * .25 + 8 * .75 + 1 * 1.25)
    np.testing.assert_allclose(run["reward_one"][3], expected, rtol=1e-5)
    with h5py.File(maniple.checkpoints(tmp_path / "1")[-1]) as file:
        assert file["curricula/level"][()] == 2.75
        np.testing.assert_array_equal(np.unique(file["task/observation"][:, 0]), [2.25])


def test_policies_meet_the_curricula_of_their_checkpoint(maniple, deck, tmp_path):
    """evaluate and rollout see the values that the checkpoint holds, evaluations within the training those of the next
    iteration; without a checkpoint they are the first ones."""
    path = deck(events=LEVEL, observed=["level"], precision="single", num_envs=32, reward="0 * level")
    path.write_text(path.read_text().replace("weight: 1}", "weight: 0}\n    one: {expression: \"1\", weight: 2, curriculum: level}"))
    maniple("train", path, "learning.iterations=5", "evaluation.every=2", "evaluation.episodes=32",
            f"output.directory={tmp_path / 'run'}", ranks=2)
    full = 2 * .02 * 25  # the return of an episode where level is 1
    found = metrics(tmp_path / "run")["evaluation_return"]
    assert np.isnan(found[0])
    np.testing.assert_allclose(found[1:], full * np.array([.75, .75, 1.75, 1.75]), rtol=1e-5)
    for policy, level in (("run", 2.25), ("run/best", 1.75)):
        run = tmp_path / policy
        maniple("evaluate", path, f"control.checkpoint={run}", "evaluation.episodes=64", "batch.num_envs=64",
                f"output.directory={tmp_path / 'evaluated'}", "output.overwrite=true", ranks=2)
        with h5py.File(tmp_path / "evaluated" / "evaluation.h5") as file:
            np.testing.assert_allclose(file["evaluation/episode_return"][()], full * level, rtol=1e-5)
        for source, seen in (("policy", level), ("zero", .25)):
            directory = tmp_path / f"{source}_{level}"
            maniple("rollout", path, "simulation.steps=5", "initial_state.source=task", f"control.source={source}",
                    *([f"control.checkpoint={run}"] if source == "policy" else []), "output.trajectory.every=1",
                    "output.trajectory.fields=[observation]", f"output.directory={directory}")
            with h5py.File(directory / "results.h5") as file:
                np.testing.assert_array_equal(np.unique(file["trajectory/observation"][()]), [seen])
    # one that nothing updates is the deck's own
    maniple("evaluate", path, f"control.checkpoint={tmp_path / 'run'}", "task.curricula.level.update=~", "task.curricula.level.reset=0.5",
            "batch.num_envs=32", f"output.directory={tmp_path / 'evaluated'}", "output.overwrite=true", ranks=2)
    with h5py.File(tmp_path / "evaluated" / "evaluation.h5") as file:
        np.testing.assert_allclose(file["evaluation/episode_return"][()], full * .5, rtol=1e-5)


def test_curricula_by_means_of_variables(maniple, deck, tmp_path):
    """A metric is the mean of a variable, or of its component, over the environments of all ranks."""
    path = deck(events="""{}
  variables: {pair: {reset: "uniform(0, [1, 20])"}, one: {reset: "uniform(2, 3)"}, huge: {reset: "1e30 * uniform(-1, 1)"},
              none: {reset: "uniform(0, 1) > 2"}}
  curricula:
    of_one: {reset: "7", update: "mean_one"}
    of_pair: {reset: "0", update: "mean_pair_1"}
    of_all: {reset: "0", update: "mean_huge + mean_none"}
""", observed=["one", "pair[1]", "huge / 1e30", "none"], num_envs=100)
    digests = set()
    for ranks in (1, 3):
        directory = tmp_path / str(ranks)
        maniple("train", path, "learning.iterations=1", f"output.directory={directory}", ranks=ranks)
        digests.add(maniple.digest(maniple.checkpoints(directory)[-1]))
    assert len(digests) == 1
    with h5py.File(maniple.checkpoints(tmp_path / "1")[-1]) as file:
        one, pair, huge, none = file["task/observation"][()].astype(float).T
        assert np.ptp(one) > .9 and np.ptp(pair) > 18 and np.ptp(huge) > 1.8 and (none == 0).all()
        for name, mean in (("of_one", one.mean()), ("of_pair", pair.mean()), ("of_all", 1e30 * huge.mean())):
            np.testing.assert_allclose(file[f"curricula/{name}"][()], mean, rtol=1e-6)


RANGED = """
    friction: {{field: geom_friction, geoms: [".*_foot"], mode: reset, operation: abs, ranges: {friction}, distribution: log_uniform, shared_random: true}}
    mass: {{field: body_mass, bodies: [".*"], mode: reset, operation: scale, ranges: {{".*": {mass}}}}}
    damping: {{field: dof_damping, joints: [".*_hip"], mode: reset, operation: add, ranges: {damping}, distribution: gaussian}}
    push: {{term: push_by_setting_velocity, vx: {push}, every: .1}}
  curricula:
    level: {{reset: "0.25", update: "iteration >= 2 ? level + 0.5 : level"}}
  commands:
    twist: {{term: uniform_velocity_command, lin_vel_x: {push}, lin_vel_y: [0, 1], ang_vel_z: [-1, 1], rel_standing_envs: {standing}, every: .2}}
"""


def test_ranges_by_curricula(maniple, deck, tmp_path):
    """Ranges and numbers of terms as expressions: what they stand for, and changes that reach the draws."""
    given = {"numbers": {"friction": "[0.25, 0.5]", "mass": "[0.875, 1.25]", "damping": "[0.25, 0.0625]", "push": "[-0.25, 0.5]",
                         "standing": "0.25"},
             "expressions": {"friction": '[level, "2 * level"]', "mass": '["1 - level / 2", "1 + level"]', "standing": "level",
                             "damping": '["level", "level / 4"]', "push": '["-level", "2 * level"]'}}
    observed = ["twist", "geom_friction", "body_mass", "dof_damping"]
    runs = []
    for name, numbers in given.items():
        path = deck(events=RANGED.format(**numbers), observed=observed, name=f"{name}.yaml", num_envs=64)
        runs.append(rollout(maniple, path, tmp_path / name, fields=("qpos", "qvel", "observation")))
    for field, values in runs[0].items():
        np.testing.assert_allclose(runs[1][field], values, rtol=0, atol=1e-9, err_msg=field)
    assert np.ptp(runs[0]["observation"][:, -1], axis=0)[:2].min() > .2
    # episodes of 25 steps begin in iterations 1 and 4 of 8 steps each, where level is 0.25 and 1.25
    event = '\n    damping: {field: dof_damping, joints: [left_hip], mode: reset, operation: abs, ranges: ["level", "level"]}'
    path = deck(events=event + LEVEL.replace("{}", "", 1), observed=["dof_damping[left_hip]"])
    for iterations, level in ((3, .25), (4, 1.25)):
        maniple("train", path, f"learning.iterations={iterations}", "learning.random_initial_episode_length=false",
                f"output.directory={tmp_path / str(iterations)}")
        with h5py.File(maniple.checkpoints(tmp_path / str(iterations))[-1]) as file:
            np.testing.assert_array_equal(file["task/observation"][()], level)


@pytest.mark.parametrize("events, expected", [
    ("{push: {term: push_by_setting_velocity, vx: [0, levle], every: 1}}",
     ["events.push.vx", "unknown curriculum 'levle'", "did you mean 'level'"]),
    ("{push: {term: push_by_setting_velocity, vx: [1, \"2 * level\"], every: 1}}",
     ["events.push.vx", "begins as [1, 0.5]", "low <= high"]),
    ("{m: {field: body_mass, bodies: [torso], mode: reset, operation: scale, ranges: [1, \"1 + qpos[0]\"]}}",
     ["events.m.ranges", "unknown curriculum 'qpos'"]),
    ("{m: {field: body_mass, bodies: [torso], mode: reset, operation: scale, ranges: [level, 0.1]}}",
     ["events.m.ranges", "begins as [0.25, 0.1]"]),
    ("{m: {field: dof_damping, joints: [left_hip], mode: reset, operation: add, distribution: gaussian, ranges: [0, \"-level\"]}}",
     ["events.m.ranges", "[mean, deviation] that begins as [0, -0.25]", "at least 0"]),
])
def test_refused_ranges(maniple, deck, events, expected):
    path = deck(events=events + LEVEL.replace("{}", "", 1), observed=["qpos"])
    message = maniple("validate", path, ranks=0, exit_code=2).stderr
    assert message.count("maniple: error: ") == 1, message
    for part in [str(path), *expected]:
        assert part in message, message


@pytest.mark.parametrize("curriculum, expected", [
    ("{reset: \"0\", update: \"episode_retrun > 1 ? 1 : 0\"}",
     ["curricula.level.update", "unknown metric 'episode_retrun'", "did you mean 'episode_return'", "reward_up", "iteration"]),
    ("{reset: \"0\", update: \"qpos[root][0]\"}", ["unknown metric 'qpos'"]),
    ("{reset: \"0\", update: \"mean_stepz\"}\n  variables: {steps: {reset: 0}}",
     ["curricula.level.update", "unknown metric 'mean_stepz'", "did you mean 'mean_steps'"]),
    ("{reset: \"[0, 1]\"}", ["curricula.level.reset", "must be a number"]),
    ("{update: \"1\"}", ["found no reset"]),
    ("{reset: \"0\", every: 2}", ["curricula.level.every", "that curricula do not take"]),
    ("{reset: \"0\", update: \"uniform(0, 1)\"}", ["curricula.level.update"]),
])
def test_refused_curricula(maniple, deck, curriculum, expected):
    path = deck(events=f"{{}}\n  curricula:\n    level: {curriculum}\n", observed=["qpos"])
    message = maniple("validate", path, ranks=0, exit_code=2).stderr
    assert message.count("maniple: error: ") == 1, message
    for part in [str(path), *expected]:
        assert part in message, message


def test_curricula_that_go_wrong_in_a_training(maniple, deck, tmp_path):
    """A range that they turn upside down ends it; one that has no number any more is said to stay as it is."""
    events = """
    mass: {field: body_mass, bodies: [torso], mode: reset, operation: scale, ranges: ["level", 1]}
  curricula:
    level: {reset: "0.25", update: "level + 0.5"}
    still: {reset: "2", update: "1 / (level - level)"}
    waits: {reset: "3", update: "episode_return"}
"""
    result = maniple("train", deck(events=events, observed=["qpos"]), "learning.iterations=9", "learning.horizon=2",
                     "learning.minibatches=1", f"output.directory={tmp_path / 'run'}", exit_code=2)
    assert "task.events.mass.ranges: a range that has become, by curricula in iteration 2, [1.25, 1]; " in result.stderr
    assert result.stderr.count("task.curricula.still.update: no finite number in iteration 1: the curriculum stays 2") == 1
    assert "task.curricula.waits" not in result.stderr


def test_a_weight_by_an_unknown_curriculum(maniple, deck):
    path = deck(events=LEVEL, observed=["qpos"])
    path.write_text(path.read_text().replace("weight: 1}", "weight: 1, curriculum: levle}"))
    message = maniple("validate", path, ranks=0, exit_code=2).stderr
    assert "no curriculum 'levle', did you mean 'level'" in message, message
