"""Checkpoints that are damaged, or of another model, task or policy: passed over where an older one is good, refused in one
message where a run would misread them."""
# ctest: PROCESSORS 1 COST 10

import os
import re
import shutil

import pytest
from conftest import of_the_day
from damages import flip_bit_of_number, truncate
from refusals import CARTPOLE, deck, refusing, short  # noqa: F401

refused = refusing(of_the_day([1, 2], 1))

SMALL = [CARTPOLE, "batch.num_envs=70", "learning.checkpoint_every=1", "run.progress=none"]


@pytest.fixture(scope="module")
def trained(maniple, tmp_path_factory):
    directory = tmp_path_factory.mktemp("trained")
    maniple("train", *SMALL, "learning.iterations=3", f"output.directory={directory}", ranks=2)
    assert len(maniple.checkpoints(directory)) == 3
    return directory


@pytest.fixture
def run_directory(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "resumed")


def resume(directory):
    return ["train", *SMALL, "learning.iterations=4", "learning.resume=auto", f"output.directory={directory}"]


def cut_last_byte(path):
    os.truncate(path, path.stat().st_size - 1)


def empty(path):
    os.truncate(path, 0)


DAMAGES = [truncate, cut_last_byte, flip_bit_of_number, empty]


@pytest.mark.parametrize("damage", of_the_day(DAMAGES, flip_bit_of_number))
def test_bad_checkpoint_falls_back_and_says_so(maniple, run_directory, damage):
    older, bad = maniple.checkpoints(run_directory)[-2:]
    damage(bad)
    result = maniple(*resume(run_directory), ranks=2, timeout=60)
    output = result.stdout + result.stderr
    assert re.search(rf"warning: .*bad checkpoint.*{re.escape(bad.name)}", output)
    assert re.search(r"resumed .* at iteration 2\b", output), f"{older} is good"


@pytest.mark.parametrize("damage", of_the_day(DAMAGES, truncate))
def test_no_good_checkpoint_is_refused(maniple, refused, run_directory, damage):
    for file in maniple.checkpoints(run_directory):
        damage(file)
    message = refused(*resume(run_directory), ranks=2)
    assert "learning.resume" in message and "no good checkpoint" in message
    assert all(file.name in message for file in maniple.checkpoints(run_directory))


def test_checkpoint_of_another_model(maniple, refused, deck, run_directory, tmp_path):
    text = (maniple.root / "inputs/models/cartpole.xml").read_text()
    (tmp_path / "other.xml").write_text(text.replace('mass="1"', 'mass="1.01"', 1))
    path = deck("model: {file: other.xml}\n")
    message = refused(*resume(run_directory), path)
    assert "model.file" in message and ".h5" in message
    # evaluation needs a model of this name and these sizes
    (tmp_path / "cartpole.xml").write_text(text.replace('mass="1"', 'mass="1.01"', 1))
    arguments = ["batch.num_envs=64", f"control.checkpoint={run_directory}", *short(tmp_path)]
    assert "model.file" in refused("evaluate", path, *arguments)
    result = maniple("evaluate", deck(f"model: {{file: {tmp_path}/cartpole.xml}}\n"), *arguments)
    assert "warning: " in result.stderr and "trained with other values of the model, cartpole.xml (nq 2" in result.stderr
    assert "different: " not in result.stderr


def test_a_directory_among_the_checkpoints_is_passed_over(maniple, run_directory):
    (run_directory / "checkpoints/999.h5").mkdir()
    assert re.search(r"resumed \S+ at iteration \d\b", maniple(*resume(run_directory)).stdout)


def test_a_results_file_in_place_of_a_checkpoint(refused, run_directory, tmp_path):
    message = refused("train", CARTPOLE, f"learning.warm_start={run_directory}/results.h5", *short(tmp_path))
    assert "results.h5: checkpoint: cannot be used; not a checkpoint but another file of this program" in message


def test_checkpoint_of_another_task(refused, deck, run_directory, tmp_path):
    change = "task.rewards.pole_pos.weight=-2"
    message = refused(*resume(run_directory), change)
    assert re.search(r"\.h5: task\.rewards\.pole_pos: the checkpoint has \{.*weight: -1.*\}, this run \{.*weight: -2.*\}; "
                     r"allowed: .*learning\.warm_start", message)
    # a policy is for what it has been trained to see, even where the sizes are the same
    path = deck("task:\n  observations:\n    - {term: joint_vel_rel}\n    - {term: joint_pos_rel}\n")
    message = refused("evaluate", path, "batch.num_envs=64", f"control.checkpoint={run_directory}", *short(tmp_path))
    assert re.search(r"\.h5: task\.observations: in another order in this run; allowed: the value of the training", message)
    # whatever else differs
    message = refused("evaluate", path, "batch.num_envs=64", f"control.checkpoint={run_directory}", *short(tmp_path), change)
    assert re.search(r"\.h5: task\.observations: in another order in this run; allowed: the value of the training", message)
    for key in ("batch.num_envs=71", "batch.seed=43", "simulation.precision=double"):
        assert key.split("=")[0] in refused(*resume(run_directory), key)


def test_a_policy_is_tried_in_changed_tasks(maniple, refused, run_directory, tmp_path):
    """Other rewards, resets and curricula are a warning; what it would misread or do otherwise is refused."""
    arguments = [CARTPOLE, "batch.num_envs=64", f"control.checkpoint={run_directory}", *short(tmp_path)]
    for key, found in (("task.observations=[{term: joint_pos_rel}]", r"task\.observations: the checkpoint has 4; this run has 2"),
                       ("policy.activation=relu", r"policy\.activation: the checkpoint has \"elu\"; this run has \"relu\""),
                       ("policy.clip_actions=0.1", r"policy\.clip_actions: the checkpoint has 0; this run has 0\.1")):
        assert re.search(r"\.h5: " + found, refused("evaluate", *arguments, key))
    for verb, key in (("evaluate", "task.rewards.pole_pos.weight=-2"), ("rollout", "task.rewards.upright={expression: '1'}")):
        result = maniple(verb, *arguments, key, "control.source=policy", "simulation.steps=2")
        assert "warning: " in result.stderr and "trained with other values of the task" in result.stderr
        assert f"; different: {key.split('=')[0].removesuffix('.weight')}\n" in result.stderr
    # observations may be disturbed otherwise, with one name for all that differs in a list, but say the same
    disturbed = "task.observations=[{term: joint_pos_rel, noise: 0.01, delay: 1}, {term: joint_vel_rel, bias: [-0.1, 0.2]}]"
    result = maniple("evaluate", *arguments, disturbed, "task.rewards.pole_pos.weight=-2", "output.overwrite=true")
    assert re.search(r"; different: task\.observations, task\.rewards\.pole_pos\n|"
                     r"; different: task\.rewards\.pole_pos, task\.observations\n", result.stderr)
    for changed in ("{term: joint_pos_rel, scale: 2}, {term: joint_vel_rel}", "{term: joint_pos_rel, clip: [-1, 1]}, {term: joint_vel_rel}",
                    "{term: joint_pos_rel, joints: [cart_to_pole, slider_to_cart]}, {term: joint_vel_rel}"):
        message = refused("evaluate", *arguments, f"task.observations=[{changed}]", "output.overwrite=true")
        assert re.search(r"\.h5: task\.observations: the checkpoint has \{.*\}, this run \{.*\}; allowed: the value of the training", message)
    assert re.search(r"\.h5: task\.actions: the checkpoint has \{.*\}, this run \{.*scale: 2.*\}; allowed: ",
                     refused("evaluate", *arguments, "output.overwrite=true", "task.actions=[{term: joint_effort, joints: [slider_to_cart], scale: 2}]"))
    # a warm start learns on, also with other terms of the same sizes, which it names
    warm = ["train", CARTPOLE, f"learning.warm_start={run_directory}", *short(tmp_path), "output.overwrite=true"]
    for key, what in (("task.observations=[{term: joint_pos_rel, scale: 2}, {term: joint_vel_rel}]", "scale: 2"),
                      ("task.observations=[{term: joint_vel_rel}, {term: joint_pos_rel}]", "another order"),
                      ("task.actions=[{term: joint_effort, joints: [slider_to_cart], scale: 2}]", "scale: 2")):
        result = maniple(*warm, key, "learning.iterations=1", timeout=60)
        assert re.search(rf"warning: .*: the policy learned with other observations or actions of the same sizes; "
                         rf"{key.split('=')[0]}: .*{what}", result.stderr)
    assert re.search(r'policy\.activation: the checkpoint has "elu"; this run has "relu"', refused(*warm, "policy.activation=relu"))
    result = maniple(*warm, disturbed, "learning.iterations=1", timeout=60)
    assert "warm start from" in result.stdout and "of the same sizes" not in result.stderr
    more = "task.observations=[{term: joint_pos_rel}, {term: joint_vel_rel}, {expression: '1'}]"
    assert re.search(r"task\.observations: the checkpoint has 4; this run has 5; task\.observations: the checkpoint has none, "
                     r"this run \{.*expression: \"1\"\}", refused(*warm, more))


def test_a_policy_that_does_not_act(refused, run_directory, tmp_path):
    for source in ([], ["control.source=random"]):
        message = refused("rollout", CARTPOLE, "batch.num_envs=64", f"control.checkpoint={run_directory}", *source, *short(tmp_path))
        name = "random" if source else "zero"
        assert message == (f"command line: control.checkpoint: found a policy that is not used with control.source: {name}; "
                           "allowed: with control.source: policy; control.checkpoint=~ leaves it out")


def test_a_training_begins_with_no_checkpoint(refused, run_directory, tmp_path):
    assert refused("train", CARTPOLE, "batch.num_envs=64", f"control.checkpoint={run_directory}", *short(tmp_path)) == (
        "command line: control.checkpoint: found a checkpoint, which trainings do not read here; allowed: with rollout and "
        "evaluate; learning.warm_start starts a training from one")


def test_policy_from_nowhere(refused, run_directory, tmp_path):
    assert "control.checkpoint" in refused("evaluate", CARTPOLE, *short(tmp_path))
    (tmp_path / "nothing").mkdir()
    message = refused("evaluate", CARTPOLE, f"control.checkpoint={tmp_path / 'nothing'}", *short(tmp_path), ranks=2)
    assert "nothing" in message and "checkpoint" in message
