"""The interface for scripts: the printed lines of the verbs, their files beside numbers, and their refusals."""
# ctest: PROCESSORS 1 COST 30

import json
import os
import re
import resource
import subprocess

import h5py
import numpy as np
import pytest
from demonstrations import episodes, write_robomimic

CARTPOLE = "inputs/train/isaac_cartpole.yaml"
ARM = ["model.file=inputs/models/arm6.xml", "batch.num_envs=40"]
# a clip that random policies reach, and an observation that is not finite for positions below 0
LOSSES = ["task.actions=[{term: joint_effort, joints: [slider_to_cart], scale: 100, clip: [-10, 10]}]",
          'task.observations=[{expression: "1 / max(0, joint_pos[slider_to_cart])"}]']


def refusal(maniple, *arguments):
    """The message of a refused run of one rank, started without the launcher, which takes 2 s to end a failed job."""
    result = subprocess.run([str(maniple.program), *map(str, arguments)], cwd=maniple.root, capture_output=True, text=True,
                            timeout=60)
    assert result.returncode == 2, result.stdout + result.stderr
    return re.search(r"^maniple: error: (.*)", result.stderr, re.M).group(1)


@pytest.mark.parametrize("deck", ["inputs/bench/cartpole.yaml", "inputs/bench/arm6.yaml"])
def test_bench(maniple, tmp_path, deck):
    maniple("bench", deck, "batch.num_envs=64", "bench.steps=3", "bench.repeats=3", f"output.directory={tmp_path}",
            ranks=2)
    result = json.loads((tmp_path / "bench.json").read_text())
    for rate in ("physics_steps_per_second", "env_steps_per_second"):
        assert 0 < result[rate]["min"] <= result[rate]["median"] <= result[rate]["max"]
    assert result["num_envs"] == 64 and result["ranks"] == 2 and result["precision"] == "single"
    assert result["lane_width"] >= 1 and result["backend"]
    assert result["seconds_per_stage"]["physics"] > 0
    shares = result["share_per_physics_stage"]
    assert sum(shares.values()) == pytest.approx(1, abs=1e-5) and all(0 <= share < 1 for share in shares.values())
    assert shares["kinematics"] > 0 and shares["solver"] > 0
    if "cartpole" in deck:  # a task
        shares = result["share_per_stage_of_environment_steps"]
        assert sum(shares.values()) == pytest.approx(1, abs=1e-5) and shares["physics"] > 0 and shares["task"] > 0


def test_bench_tells_the_task_from_the_physics_that_it_asks_for(maniple, tmp_path):
    """Forces of a new state take a whole forward pass, those of the last step none."""
    for derived, asks in (("fresh", True), ("as_stepped", False)):
        maniple("bench", CARTPOLE, "bench.steps=5", "bench.repeats=1", "batch.num_envs=64", f"simulation.derived={derived}",
                "task.rewards={pull: {expression: 'qfrc_passive[slider_to_cart]'}}", "task.terminations={time_out: {term: time_out, time_out: true}}",
                f"output.directory={tmp_path / derived}")
        result = json.loads((tmp_path / derived / "bench.json").read_text())
        shares = result["share_per_stage_of_environment_steps"]
        assert sum(shares.values()) == pytest.approx(1, abs=1e-5) and min(shares.values()) >= 0
        assert ("forward" in shares) == asks and (result["share_per_physics_stage"]["forward"] > 0) == asks


def test_bench_acts_at_random(maniple, tmp_path):
    """A reward that is no number for any action but zero."""
    for actions, warns in (("random", True), ("zero", False)):
        result = maniple("bench", "inputs/bench/cartpole.yaml", "task.rewards={r: {expression: 'sqrt(-abs(action[0]))'}}",
                         "batch.num_envs=32", "bench.steps=2", "bench.repeats=1",
                         *([] if warns else ["bench.actions=zero"]), f"output.directory={tmp_path / actions}")
        assert ("rewards or observations were not finite" in result.stdout + result.stderr) == warns


def test_bench_of_learning(maniple, tmp_path):
    arguments = ["batch.num_envs=128", "learning.horizon=8", "learning.epochs=3", "bench.steps=2", "bench.repeats=1", "bench.iterations=3"]
    said = maniple("bench", CARTPOLE, *arguments, f"output.directory={tmp_path}", ranks=2).stdout
    learning = json.loads((tmp_path / "bench.json").read_text())["learning"]
    assert 0 < learning["rate"]["min"] <= learning["rate"]["median"] <= learning["rate"]["max"]
    assert learning["unit"] == "env-steps/s"
    stages = learning["seconds_per_stage_of_an_iteration"]
    assert {"task", "physics", "policy", "update", "communication"} == set(stages)
    assert all(seconds > 0 for seconds in stages.values())
    assert learning["update_seconds_per_sample_and_epoch"] == pytest.approx(
        stages["update"] * 2 / (128 * 8 * 3), rel=1e-4)
    assert "us of a rank per sample and epoch" in said
    model = ["model.file=package:gymnasium/envs/mujoco/assets/ant.xml", "bench.iterations=1", "batch.num_envs=1"]
    assert "bench.iterations: 1 iterations of learning without a task; a deck with a task" in refusal(maniple, "bench", *model)


def test_facts_of_a_run(maniple, tmp_path):
    result = maniple("train", CARTPOLE, "batch.num_envs=64", "learning.iterations=2", f"output.directory={tmp_path}", ranks=2)
    assert re.search(r"^memory: \d+ B per environment, \S+ MB per rank$", result.stdout, re.M)
    shares = re.search(r"^share of the time: (.*)$", result.stdout, re.M).group(1)
    assert [share.split()[0] for share in shares.split(",")] == [
        "task", "physics", "policy", "update", "communication", "output", "rest"]
    assert sum(float(share) for share in re.findall(r"([\d.]+)%", shares)) == pytest.approx(100, abs=0.5)
    # nobody looks: mpirun's own terminal gets no bar
    assert "\033" not in result.stdout and "\r" not in result.stdout
    with h5py.File(tmp_path / "results.h5") as file:
        file.visititems(lambda name, item: {"unit", "description"} <= set(item.attrs) or pytest.fail(name)
                        if isinstance(item, h5py.Dataset) else None)
        assert {"verb", "version", "build", "host", "ranks", "date"} <= set(file["run"].attrs)
        assert {"deck", "resolved", "task", "task_table", "model_xml", "model_mjb"} == set(file["run"])
        assert file["run/task_table"][()].decode() == maniple("inspect", CARTPOLE, ranks=0).stdout
        assert {"iteration", "env_steps", "wall_seconds", "episode_return", "episode_length",
                "reward_alive"} <= set(file["metrics"])


def test_a_fixed_deviation_stays(maniple, tmp_path):
    """Whatever would move it: decay, or the moments of a run in which it was learned."""
    def deviations(run, *arguments):
        maniple("train", CARTPOLE, "batch.num_envs=64", f"output.directory={tmp_path / run}", *arguments)
        with h5py.File(tmp_path / run / "results.h5") as file:
            return file["metrics/action_std"][()]

    learned = deviations("learned", "learning.iterations=3", "policy.init_std=0.3")
    assert learned[-1] != pytest.approx(0.3, rel=1e-4)
    kept = deviations("kept", "learning.iterations=3", "policy.fixed_std=true", f"learning.warm_start={tmp_path / 'learned'}")
    np.testing.assert_allclose(kept, learned[-1], rtol=1e-6)
    decayed = deviations("decayed", "learning.iterations=3", "policy.fixed_std=true", "policy.init_std=0.3",
                         "learning.weight_decay=1")
    np.testing.assert_allclose(decayed, 0.3, rtol=1e-6)


def test_gradients_that_are_large_are_learned_from(maniple, tmp_path):
    """Values of thousands that nothing normalizes: the first minibatches find out how small sums must be."""
    maniple("train", "inputs/tasks/gymnasium/inverted_double_pendulum_v5.yaml", "learning.preset=brax", "batch.num_envs=64",
            "learning.iterations=6", "learning.minibatches=2", "learning.horizon=16", "learning.epochs=1",
            f"output.directory={tmp_path}", ranks=2)
    with h5py.File(tmp_path / "results.h5") as file:
        skipped, norms = file["metrics/skipped_minibatches"][()], file["metrics/gradient_norm"][()]
    assert skipped[0] > 0 and not skipped[2:].any() and (norms[2:] > 0).all()


def test_losses_are_told(maniple, tmp_path):
    result = maniple("train", CARTPOLE, *LOSSES, "batch.num_envs=70", "learning.iterations=2", f"output.directory={tmp_path}",
                     ranks=2)
    assert re.search(r"^warning: \d+ rewards or observations were not finite or beyond 1e10 and became 0: \d+ in environment \d+, "
                     r".*, and others; first observation observations\[0\]$",
                     result.stdout + result.stderr, re.M)
    assert re.search(r"^\d+ components of actions clipped \(task\.actions\[\]\.clip\): \d+ in environment 0, .*, and others$",
                     result.stdout, re.M)
    with h5py.File(maniple.checkpoints(tmp_path)[-1]) as file:
        counted = file["task/clipped_actions"][()].sum()
    assert f"{counted} components of actions" in result.stdout


@pytest.mark.parametrize("arguments", [
    ["output.trajectory.every=1", "output.trajectory.fields=[qpos,qposs]"],
    ["output.trajectory.every=1", "output.trajectory.fields=[act]"],
    ["output.trajectory.every=1", "output.trajectory.fields=[qpos,qvel,qpos]"],
    ["initial_state.source=keyframe", "initial_state.keyframe=nowhere"],
    ["initial_state.source=file", "initial_state.file={states}"],
    ["control.source=file", "control.file={states}"],
], ids=["field", "empty-field", "twice", "keyframe", "states", "controls"])
def test_validate_refuses_what_rollout_refuses(maniple, tmp_path, arguments):
    with h5py.File(tmp_path / "states.h5", "w") as file:
        file["qpos"] = [[0.0] * 5]
    arguments = [argument.format(states=tmp_path / "states.h5") for argument in arguments]
    messages = [refusal(maniple, verb, *ARM, *arguments, f"output.directory={tmp_path}") for verb in ("validate", "rollout")]
    assert messages[0] == messages[1]
    assert arguments[-1].split("=")[0] in messages[0] and "; " in messages[0]


@pytest.mark.parametrize("verb", ["train", "evaluate"])
def test_trajectories_belong_to_rollout(maniple, tmp_path, verb):
    message = refusal(maniple, verb, CARTPOLE, "output.trajectory.every=1", "batch.num_envs=64",
                      f"control.checkpoint={tmp_path}", f"output.directory={tmp_path}")
    assert f"output.trajectory.every: trajectories requested from {verb}; rollout records trajectories" in message


def test_a_batch_that_cannot_fit(maniple, tmp_path):
    result = maniple("rollout", *ARM, "batch.num_envs=1000000000000", f"output.directory={tmp_path}", ranks=2, exit_code=2)
    assert re.search(r"batch\.num_envs: \S+ MB for 1000000000000 environments, \S+ MB in all on a rank, \S+ MB for the 2 ranks of "
                     r"host \S+; \S+ MB are available",
                     result.stderr)


@pytest.mark.parametrize("hidden", ["[50000,50000]", "[65536,65536,65536]"])
@pytest.mark.parametrize("verb", ["train", "evaluate"])
def test_a_network_that_cannot_fit(maniple, tmp_path, verb, hidden):
    source = [f"control.checkpoint={tmp_path}"] if verb == "evaluate" else []
    result = maniple(verb, CARTPOLE, "batch.num_envs=64", f"policy.hidden={hidden}", *source, f"output.directory={tmp_path}",
                     ranks=2, exit_code=2)
    assert re.search(r"policy\.hidden: \d+\.\d MB for the policy, \S+ MB in all on a rank, "
                     r"\d+\.\d MB for the 2 ranks of host \S+; \S+ MB are available", result.stderr)
    assert result.stderr.count("maniple: error") == 1


def test_a_limit_of_address_space_counts(maniple, tmp_path):
    """A network that fits into any host, but not into what the shell lets a process have."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (3 << 30, before[1]))
    try:
        result = maniple("train", CARTPOLE, "batch.num_envs=64", "policy.hidden=[8000,8000]",
                         f"output.directory={tmp_path}", ranks=2, exit_code=2)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert re.search(r"policy\.hidden: .* for the 1 rank of host \S+; \S+ MB are available "
                     r"\(limit of ulimit -v of rank [01]\)", result.stderr)


def test_policy_of_another_size(maniple, tmp_path):
    maniple("train", CARTPOLE, "batch.num_envs=64", "learning.iterations=1", f"output.directory={tmp_path}")
    message = refusal(maniple, "evaluate", CARTPOLE, "batch.num_envs=64", "policy.hidden=[16]",
                      f"control.checkpoint={tmp_path}", f"output.directory={tmp_path}")
    assert re.search(r"1\.h5: policy\.(critic_)?hidden: the checkpoint has \[32, 32\]; this run has \[16\]", message)
    # machines read it too
    last = json.loads((tmp_path / "log.jsonl").read_text().splitlines()[-1])
    assert (last["event"], last["text"]) == ("error", message)


@pytest.mark.parametrize("arguments, message", [
    ([], r"command line: found no verb; allowed: train imitate rollout "),
    (["tran", CARTPOLE], r"command line: found no verb 'tran'; nearest verb: train; allowed: train imitate rollout "),
    (["inspect", "none.h5"], r"none\.h5: no such file"),
], ids=["none", "unknown", "file"])
def test_usage_is_refused_once(maniple, arguments, message):
    result = maniple(*arguments, ranks=2, exit_code=2)
    assert len(re.findall("maniple: error: " + message, result.stderr)) == 1, result.stderr


@pytest.mark.parametrize("arguments, message", [
    (["train"], r"command line: found no deck; allowed: decks, .*"),
    (["rollout", "inputs/models/arm6.xml"],
     r"command line: found the model 'inputs/models/arm6\.xml' in place of a deck; allowed: a deck \(YAML\), which names its"
     r" model, or model\.file=inputs/models/arm6\.xml"),
    (["schema", "learnin"], r"command line: schema: found 'learnin'; nearest: learning; allowed: nothing, a key or section of"
     r" decks, presets, terms, functions, metrics, quantities with"),
    (["inspect"], r"command line: inspect: FILE.*required; allowed: FILE \[key\.path=value \.\.\.\], an HDF5 file, the directory of a run, or a deck"),
    (["inspect", "inputs"], r"inputs: found a folder without results\.h5 or evaluation\.h5; allowed: the directory of a run, or an HDF5 file"),
    (["inspect", "README.md"], r"README\.md: cannot be read; (?!README)"),
    (["rollout", *ARM, "control.source=file", "control.file=README.md"],
     r"command line: control\.file: \S+/README\.md: cannot be read as HDF5; (?!/)"),
    (["train", "--resume"], r"command line: train: .*: --resume; allowed: decks and key\.path=value"),
    (["rollout", *ARM, "output.trajectory.every=1", "output.trajectory.fields=[qpos,qvels]"],
     r"command line: output\.trajectory\.fields: no field \"qvels\"; nearest field: qvel; one of "),
    # a name that would only be looked for later
    (["train", CARTPOLE, "output.trajectory.fields=[rewards]"],
     r"command line: output\.trajectory\.fields: no field \"rewards\"; nearest field: reward; one of "),
], ids=["no deck", "model", "schema", "inspect", "no results", "no HDF5", "controls", "option", "field", "field of a training"])
def test_refusals_say_what_to_do(maniple, tmp_path, arguments, message):
    if "=" in "".join(arguments):
        arguments = [*arguments, f"output.directory={tmp_path / 'run'}"]
    result = subprocess.run([str(maniple.program), *arguments], cwd=maniple.root, capture_output=True, text=True, timeout=60)
    assert result.returncode == 2, result
    assert re.fullmatch(f"maniple: error: {message}.*\n", result.stderr), result.stderr


def test_a_wrong_field_is_found_before_anything_is_made(maniple, tmp_path):
    """Before the batch, which here would not fit."""
    message = refusal(maniple, "rollout", *ARM, "batch.num_envs=1000000000000", "output.trajectory.every=1",
                      "output.trajectory.fields=[qqpos]", f"output.directory={tmp_path / 'run'}")
    assert 'no field "qqpos"; nearest field: qpos; ' in message


def test_inspect_of_a_run(maniple, tmp_path):
    maniple("rollout", *ARM, "simulation.steps=2", f"output.directory={tmp_path}", ranks=0)
    assert maniple.inspect(tmp_path) == maniple.inspect(tmp_path / "results.h5")


def test_inspect_of_a_deck(maniple):
    """Its task, as validate prints it."""
    text = maniple("inspect", CARTPOLE, ranks=0).stdout
    assert text.startswith("task isaac_cartpole\n")
    for part in ("actions (1)", "observations (4)", "joint_pos_rel", "rewards", "pole_pos", "truncation: time_out", "resets"):
        assert part in text, part
    assert text in maniple("validate", CARTPOLE, ranks=0).stdout
    assert re.search(r" x joint_pos_target_l2 \(joints \[\"cart_to_pole\"\](, |\))", text)
    assert " 9 x is_alive\n" in maniple("inspect", CARTPOLE, "task.rewards.alive.weight=9", ranks=0).stdout
    assert "found 'batch.num_envs=2' after a file that is not a deck" in refusal(maniple, "inspect", "README.md", "batch.num_envs=2")
    assert "found none; a deck with a task" in refusal(maniple, "inspect", "inputs/bench/arm6.yaml")


def test_metrics_of_curricula_are_listed(maniple):
    text = maniple("schema", "metrics", ranks=0).stdout
    listed = re.findall(r"^(\S+)  +", text, re.M)
    assert listed == ["iteration", "env_steps", "control_steps", "episodes", "episode_return", "mean_episode_steps", "episode_return_100",
                      "dt", "max_episode_steps", "<definition>", "reward_<name>", "termination_<name>",
                      "metric_<name>", "mean_<variable>"]
    assert "waits\n# where no episode ended in an iteration" in text


def test_terms_say_their_components(maniple):
    text = maniple("schema", "terms", ranks=0).stdout
    for term, components in {"joint_position": "1 per joint", "base_lin_vel": "3", "root_quat_w": "4", "body_pos_w": "3 per body",
                             "joint_pos_rel": "1 per joint", "last_action": "those of the actions", "sensor": "those of the sensors",
                             "generated_commands": "those of the command", "feet_contact_forces": "3 per body"}.items():
        row = next(row for row in re.split(r"\n  (?=\w)", text) if row.startswith(term + "\n"))
        assert f"\n    components: {components}\n" in row, row


def test_schema_shows_what_is_listed_under_a_name(maniple):
    def shown(name):
        return maniple("schema", name, ranks=0).stdout

    lists = {what: maniple("schema", what, ranks=0).stdout for what in ("terms", "functions", "quantities")}
    # an entry whole and alone; of a term that two sections have both, each under its section
    assert shown("air_time") == lists["functions"][lists["functions"].index("air_time("):lists["functions"].index("all(")]
    assert shown("xpos") == next(line for line in lists["quantities"].splitlines(True) if line.startswith("xpos "))
    assert re.findall(r"^(\S.*?):|^  (\w+)$", shown("feet_air_time"), re.M) == [
        ("task.observations", ""), ("", "feet_air_time"), ("task.rewards", ""), ("", "feet_air_time")]
    # a section of tasks, with its key and its terms
    assert shown("commands") == shown("task.commands")
    assert "task.commands.<name> " in shown("commands") and "\n  uniform_velocity_command\n" in shown("commands")


def test_a_rollout_says_how_to_record(maniple, tmp_path):
    arguments = ["rollout", *ARM, "simulation.steps=2", f"output.directory={tmp_path}", "output.overwrite=true"]
    hint = "no trajectory is recorded: output.trajectory.every=1 "
    assert maniple(*arguments, ranks=0).stdout.count(hint) == 1
    assert hint not in maniple(*arguments, "output.trajectory.every=2", ranks=0).stdout


def test_validate_says_the_memory_of_the_runs(maniple, tmp_path):
    """... to the byte as they say it themselves."""
    deck = [CARTPOLE, "batch.num_envs=64", "learning.iterations=1", "simulation.steps=2"]
    validated = maniple("validate", *deck, ranks=0).stdout
    runs = [("train", []), ("rollout", []),
            ("evaluate", ["evaluation.episodes=1", f"control.checkpoint={tmp_path / 'train'}"])]
    for verb, more in runs:
        output = maniple(verb, *deck, *more, f"output.directory={tmp_path / verb}", ranks=0).stdout
        memory = re.search(r"^memory: \d+ B per environment, \S+ MB per rank$", output, re.M).group(0)
        assert f"  {memory} ({verb})\n" in validated, (verb, memory, validated)
    output = maniple("rollout", *ARM, "simulation.steps=2", f"output.directory={tmp_path / 'arm'}", ranks=0).stdout
    memory = re.search(r"^memory: .*$", output, re.M).group(0)
    assert f"  {memory}\n" in maniple("validate", *ARM, ranks=0).stdout


def test_a_checkpoint_of_another_model(maniple, tmp_path):
    """What differs is said in names and sizes."""
    small = ["batch.num_envs=64", "learning.iterations=1", "learning.horizon=4"]
    maniple("train", CARTPOLE, *small, f"output.directory={tmp_path / 'cartpole'}", ranks=0)
    cartpole = r"cartpole\.xml \(nq 2, nv 2, nu 1, na 0, 3 bodies\)"
    place = re.escape(f"{tmp_path}/cartpole/checkpoints/1.h5: ")
    resume = ["learning.resume=auto", f"output.directory={tmp_path / 'cartpole'}"]
    message = refusal(maniple, "train", "inputs/train/pendulum_swingup.yaml", *small, *resume)
    assert re.fullmatch(place + rf"model\.file: the checkpoint is of {cartpole}; "
                        r"this run has pendulum\.xml \(nq 1, nv 1, nu 1, na 0, 2 bodies\)", message), message
    # the same names and sizes
    model = (maniple.root / "inputs/models/cartpole.xml").read_text()
    (tmp_path / "cartpole.xml").write_text(model.replace("-9.81", "-9.8", 1))
    message = refusal(maniple, "train", CARTPOLE, f"model.file={tmp_path}/cartpole.xml", *small, *resume)
    assert re.fullmatch(place + rf"model\.file: the checkpoint is of {cartpole} with other values; .*digest.*", message), message
    message = refusal(maniple, "train", CARTPOLE, "task.rewards.more={expression: '1'}", *small, *resume)
    assert re.fullmatch(place + r'task\.rewards\.more: the checkpoint has none, this run \{expression: "1"\}; allowed: the same task, or '
                        r"learning\.warm_start for .*", message), message


def test_schema_of_some_keys(maniple):
    """A section, a key, or what a key of a term is called."""
    def keys(what):
        return [line.split()[0] for line in maniple("schema", what, ranks=0).stdout.splitlines()[1:]]

    assert keys("learning.gamma") == ["learning.gamma"]
    assert keys("noise") == ["task.<term>.noise"]
    assert keys("evaluation") == ["evaluation.episodes", "evaluation.deterministic", "evaluation.every"]
    assert keys("task.rewards")[:2] == ["task.rewards.<name>", "task.rewards:"]  # and the terms
    for what in ("terms", "functions", "presets", "learning"):
        assert refusal(maniple, "schema", what, CARTPOLE) == (
            f"command line: schema: found '{CARTPOLE}' after '{what}'; allowed: '{what}' alone; decks and key.path=value with quantities")


def test_schema_as_markdown(maniple):
    """A table for each section; the page of all keys is inputs/KEYS.md (test_readme.py)."""
    def keys(*arguments):
        return re.findall(r"^\| `([^`]+)` \|", maniple("schema", *arguments, "--markdown", ranks=0).stdout, re.M)

    assert keys("evaluation") == ["evaluation.episodes", "evaluation.deterministic", "evaluation.every"]
    assert keys() == sorted(keys(), key=keys().index) and len(keys()) == len(maniple("schema", ranks=0).stdout.splitlines()) - 1
    page = maniple("schema", "policy", "--markdown", ranks=0).stdout
    assert "\n## policy\n" in page and all(len(re.findall(r"(?<!\\)\|", row)) == 6 for row in page.splitlines() if row.startswith("|"))
    for what in (["terms"], ["policy", CARTPOLE]):
        assert re.fullmatch(rf"command line: schema: found '{what[-1]}' with --markdown; allowed: nothing, or a key or section of decks",
                            refusal(maniple, "schema", *what, "--markdown"))


def test_validate_says_what_is_done_to_observations(maniple):
    output = maniple("validate", CARTPOLE, "task.actions.0.delay=[0,2]",
                     "task.observations=[{expression: 'sin(qpos[0])', noise: 0.1, history: 2}, {expression: time}, "
                     "{term: joint_vel_rel, delay: 1}]", ranks=0).stdout
    assert re.search(r"^    sin\(qpos\[0\]\) +0 to 1, noise 0\.1, history 2, the oldest step first\n    time +2\n"
                     r"    joint_vel_rel +3 to 4, delay 1\n", output, re.M), output
    assert re.search(r"joint_effort/slider_to_cart .*, delay 0 to 2", output)


def test_answers_come_once(maniple):
    once, twice = (maniple("schema", ranks=ranks).stdout for ranks in (1, 2))
    assert once == twice and once.count("batch.num_envs ") == 1


def test_a_terminal_gets_a_bar(maniple, tmp_path):
    """`script` plays the terminal; the program sees one, and so does its parent."""
    command = f"{maniple.program} rollout {' '.join(ARM)} simulation.steps=5 output.directory={tmp_path / 'run'}; true"
    result = subprocess.run(["script", "-qec", command, "/dev/null"], cwd=maniple.root, capture_output=True, text=True,
                            env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=60, stdin=subprocess.DEVNULL)
    assert "█" in result.stdout and "\033[K" in result.stdout, result.stdout


def test_help_of_a_verb_has_an_example_and_the_keys_of_its_deck(maniple):
    verbs = re.findall(r"^  ([a-z]+) ", maniple("--help").stdout.split("Subcommands:")[1], re.M)
    assert {"train", "evaluate", "tasks"} <= set(verbs)
    keys = {}
    for key in re.findall(r"^([a-z_]+\.[^ ]+) ", maniple("schema").stdout, re.M):
        section, name = key.split(".", 1)
        if name[0] != "<":  # (within what has a name of the deck's own)
            keys.setdefault(section, []).append(re.split(r"\[\]|\.<", name)[0])
    for verb in verbs:
        text = maniple(verb, "--help").stdout
        assert f"Example: maniple {verb} " in text
        listed = text.split("'maniple schema KEY' or SECTION says type, default, unit and meaning:\n")
        if len(listed) == 1:
            continue
        assert max(map(len, listed[1].splitlines())) <= 110
        shown = {section: names.split() for section, names in re.findall(r"^  ([a-z]+):(.*(?:\n    .*)*)", listed[1], re.M)}
        assert shown and set(shown) <= set(keys), verb
        for section, names in shown.items():
            assert set(names) <= set(keys[section]), (verb, section)
            if verb == "imitate":
                assert set(names) == set(keys[section]), section
    assert "drop_last" not in maniple("train", "--help").stdout and "gamma" in maniple("train", "--help").stdout


def test_examples_of_the_help_run(maniple, tmp_path):
    """One after the other, as they are written, but with less to do."""
    (tmp_path / "robot.xml").write_bytes((maniple.root / "inputs/models/arm6.xml").read_bytes())
    write_robomimic(tmp_path / "demonstrations.hdf5", episodes(3))
    less = {"train": ["learning.iterations=1", "batch.num_envs=32"], "imitate": ["learning.steps=2"],
            "evaluate": ["evaluation.episodes=2"], "bench": ["bench.steps=2", "bench.repeats=1"], "doctor": ["batch.num_envs=32"]}
    for verb in re.findall(r"^  ([a-z]+) ", maniple("--help").stdout.split("Subcommands:")[1], re.M):
        example = re.search(r"^Example: maniple (.*)$", maniple(verb, "--help").stdout, re.M)[1]
        result = subprocess.run([maniple.program, *example.split(), *less.get(verb, [])], cwd=tmp_path, capture_output=True, text=True,
                                env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=120, check=False)
        assert result.returncode == 0, f"{example}\n{result.stderr}"
