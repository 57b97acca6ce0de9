"""A policy leaves the program as ONNX: onnxruntime's actions are the program's own for every kind of network, and
the function of tools/README.md drives Gymnasium's environment to the return that `evaluate` finds."""
# ctest: PROCESSORS 1 COST 20

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from conftest import of_the_day, start_tool
from maniple.results import Run
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator
from test_tools import check_refusals
from trainings import PRESETS

INVERTED_PENDULUM = """
model: {file: "package:gymnasium/envs/mujoco/assets/inverted_pendulum.xml"}
batch: {num_envs: 256}
simulation: {decimation: 2}
task:
  name: InvertedPendulum-v5
  episode_length: 40
  actions: [{term: joint_effort, joints: [slider], scale: 100}]
  observations: [{expression: "qpos[slider]"}, {expression: "qpos[hinge]"}, {expression: "qvel[slider]"}, {expression: "qvel[hinge]"}]
  reward_times_dt: false
  rewards: {upright: {expression: "abs(qpos[hinge]) > 0.2 ? 0 : 1"}}
  terminations: {time_out: {term: time_out}, fallen: {expression: "abs(qpos[hinge]) > 0.2"}}
  resets:
    - {set: "qpos[slider]", expression: "uniform(-0.01, 0.01)"}
    - {set: "qpos[hinge]", expression: "uniform(-0.01, 0.01)"}
    - {set: "qvel[slider]", expression: "uniform(-0.01, 0.01)"}
    - {set: "qvel[hinge]", expression: "uniform(-0.01, 0.01)"}
policy: {hidden: [32, 32], activation: tanh, shared: false, fixed_std: false, normalize_observations: true}
learning: {iterations: 60, horizon: 32, epochs: 5, minibatches: 4, learning_rate: 1.0e-3, normalize_advantage: true}
"""


def export(run, *more, exit_code=0):
    result = start_tool("export_onnx.py", run, *more)
    assert result.returncode == exit_code, result.stdout + result.stderr
    return result.stdout + result.stderr


def deck(folder, text=INVERTED_PENDULUM):
    file = folder / "deck.yaml"
    file.write_text(text)
    return file


NETWORKS = {
    "tanh": ["policy.activation=tanh", "policy.shared=false", "policy.normalize_observations=true", "policy.hidden=[64,64]"],
    "elu": ["policy.activation=elu", "policy.shared=true", "policy.clip_observations=0.5", "policy.clip_actions=0.3"],
    "relu": ["policy.activation=relu", "policy.hidden=[300,20]", "learning.blas_width=256"],
    "one-layer": ["policy.hidden=[16]", "policy.shared=true", "policy.normalize_observations=true", "policy.clip_observations=0.1"],
    "brax-like": ["policy.activation=silu", "policy.layer_norm=true", "policy.critic_hidden=[8]", "policy.squash_actions=true",
                  "policy.state_dependent_std=true", "policy.std_transform=softplus", "policy.min_std=0.001"],
    "gelu": ["policy.activation=gelu", "policy.shared=true", "policy.state_dependent_std=true", "policy.max_std=2"],
    "leaky-relu": ["policy.activation=leaky_relu", "policy.layer_norm=true"],
    # a critic with observations of its own, which the policy does not take
    "asymmetric": ["task.critic_observations=[{expression: \"qvel\"}, {expression: \"3 + qpos\"}, {expression: \"qvel[hinge]^2\"}]",
                   "policy.normalize_observations=true", "policy.clip_observations=0.5"],
    **{preset: ["policy=~", "learning=~", f"learning.preset={preset}", "learning.epochs=2"] for preset in PRESETS},
}


@pytest.mark.parametrize("network", of_the_day(NETWORKS, "elu", "brax-like", "asymmetric"))
def test_actions_are_the_programs(maniple, tmp_path, network):
    settings = NETWORKS[network]
    run, file = tmp_path / "run", deck(tmp_path)
    maniple("train", file, *settings, "learning.iterations=3", f"output.directory={run}")
    export(run)
    maniple("rollout", file, *settings, "control.source=policy", f"control.checkpoint={run}", "initial_state.source=task",
            "batch.num_envs=1000", "simulation.steps=101", "output.trajectory.every=1",
            "output.trajectory.fields=[observation,action]", f"output.directory={tmp_path / 'rollout'}")
    with Run(tmp_path / "rollout") as rollout:
        observation = rollout.trajectories["observation"][:, :-1].reshape(-1, 4)
        action = rollout.trajectories["action"][:, 1:].reshape(-1, 1)
    assert len(observation) >= 100_000 and action.std() > 1e-3
    found = onnxruntime.InferenceSession(run / "policy.onnx").run(["action"], {"observation": observation.astype(np.float32)})[0]
    bound = 1e-6 * max(1, np.abs(action).max())
    apart = (np.abs(found - action) > bound)[:, 0]
    assert apart.mean() < 0.005
    if apart.any():  # deep networks: single precision itself is no better, as double precision shows
        exact = in_double_precision(run / "policy.onnx", observation[apart])
        allowed = max(bound, np.abs(found[apart] - exact).max())
        np.testing.assert_allclose(action[apart], exact, rtol=0, atol=min(allowed, 3 * bound))


def test_metadata_have_the_task(maniple, tmp_path):
    run, file = tmp_path / "run", deck(tmp_path)
    maniple("train", file, "learning.iterations=1", f"output.directory={run}")
    export(run)
    metadata = {entry.key: entry.value for entry in onnx.load(run / "policy.onnx").metadata_props}
    assert metadata["task_table"] == maniple("inspect", file, ranks=0).stdout
    assert "joint_effort/slider" in metadata["task_table"]
    with Run(run) as results:
        assert metadata["task"] == results.record["task"]
    contract = json.loads(metadata["task"])
    assert [row["name"] for row in contract["actions"]] == ["joint_effort/slider"] and contract["control_step"] == 0.04
    # no word of where things are on this machine
    for folder in {str(tmp_path), str(maniple.root), str(Path.home())} - {"/"}:
        assert not [key for key, value in metadata.items() if folder in value], folder


def in_double_precision(policy, observation):
    model = onnx.load(policy)
    for tensor in model.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    observation = observation.astype(np.float32).astype(np.float64)
    return ReferenceEvaluator(model).run(["action"], {"observation": observation})[0]


@pytest.mark.parametrize("cells, units", [
    pytest.param(["policy.recurrent=gru"], 12, id="gru", marks=pytest.mark.nightly),
    pytest.param(["policy.recurrent=lstm", "policy.recurrent_layers=2"], 48, id="lstm")])
def test_recurrent_actions_are_the_programs(maniple, tmp_path, cells, units):
    """Step by step with the state that goes out and in; zeros when an episode begins."""
    run, file = tmp_path / "run", deck(tmp_path)
    settings = [*cells, "policy.recurrent_units=12", "policy.squash_actions=true", "task.episode_length=0.8"]
    maniple("train", file, *settings, "learning.iterations=3", f"output.directory={run}")
    export(run)
    maniple("rollout", file, *settings, "control.source=policy", f"control.checkpoint={run}", "initial_state.source=task",
            "batch.num_envs=100", "simulation.steps=101", "output.trajectory.every=1",
            "output.trajectory.fields=[observation,action,terminated,truncated]", f"output.directory={tmp_path / 'rollout'}")
    with Run(tmp_path / "rollout") as rollout:
        observation, action, terminated, truncated = (
            rollout.trajectories[name][:] for name in ("observation", "action", "terminated", "truncated"))
    ended = (terminated + truncated).reshape(100, -1) > 0
    assert ended.sum() >= 200 and action.std() > 1e-3
    session, state = onnxruntime.InferenceSession(run / "policy.onnx"), np.zeros((100, units), np.float32)
    for step in range(101):
        state[ended[:, step]] = 0
        found, state = session.run(["action", "next_state"], {"observation": observation[:, step].astype(np.float32), "state": state})
        np.testing.assert_allclose(found, action[:, step + 1], rtol=0, atol=1e-6)


@pytest.mark.nightly
def test_drives_gymnasium(maniple, tmp_path):
    run, file = tmp_path / "run", deck(tmp_path)
    maniple("train", file, "evaluation.every=20", f"output.directory={run}")
    export(run, "--best")
    maniple("evaluate", file, f"control.checkpoint={run / 'best'}", "evaluation.episodes=64", f"output.directory={run}")
    with Run(run / "evaluation.h5") as results:
        expected = results.evaluation["episode_return"]
    blocks = re.findall(r"^```python\n(.*?)^```", (maniple.root / "tools/README.md").read_text(), re.M | re.S)
    names = {}
    exec(next(block for block in blocks if "onnxruntime" in block), names)
    found = [names["episode_return"](run / "policy.onnx", "InvertedPendulum-v5", seed) for seed in range(4)]
    assert expected.mean() > 900  # of at most 1000; it has learned
    assert np.mean(found) == pytest.approx(expected.mean(), abs=50)


def test_refusals(maniple, tmp_path):
    def refusal(*arguments):
        message = export(*arguments, exit_code=2)
        assert message.count("error: ") >= 1 and "Traceback" not in message, message
        return message

    assert "no results.h5" in refusal(tmp_path)
    run, whole = tmp_path / "run", tmp_path / "whole"
    maniple("train", deck(tmp_path), "learning.iterations=1", f"output.directory={run}")
    shutil.copytree(run, whole)
    policy = maniple.checkpoints(whole)[-1]
    for file in (policy, whole / "results.h5"):
        check_refusals("export_onnx.py", file, whole)
    assert not (whole / "policy.onnx").exists()
    newest = maniple.checkpoints(run)[-1]
    bytes_ = bytearray(newest.read_bytes())
    bytes_[len(bytes_) // 2] ^= 1
    newest.write_bytes(bytes_)
    assert re.search(f"{newest} is damaged.*; --checkpoint takes another", refusal(run))
    assert "takes another" not in refusal(run, "--checkpoint", newest)
    export(run, "--checkpoint", policy, "--output", tmp_path / "policy.onnx")
    assert not (run / "policy.onnx").exists()
    assert "has no checkpoints" in refusal(run, "--best")
    assert "does not hold the policy of" in refusal(run, "--checkpoint", run / "results.h5")
    assert "cannot be" in refusal(run, "--checkpoint", maniple.root / "README.md")
    newest.unlink()
    assert "has no checkpoints" in refusal(run)
    (run / "results.h5").write_text("no HDF5")
    assert "results.h5" in refusal(run, "--checkpoint", policy)
    assert "nowhere" in refusal(whole, "--output", tmp_path / "nowhere/policy.onnx")


def mismatch(run, *arguments):
    """The message about results that are not of the run that wrote the checkpoint; there is no policy then."""
    message = export(run, *arguments, exit_code=2)
    assert message.count("\n") == 1 and f"{run / 'results.h5'} has " in message, message
    assert "; allowed: the results of the run that wrote the checkpoint" in message, message
    assert not list(run.glob("*.onnx"))
    return message


# settings, and what differs then from a run without them
OTHERS = {
    "gru": (["policy.recurrent=gru", "policy.recurrent_layers=2"], "policy.recurrent: the checkpoint has gru, .* has none;"),
    # its shapes fit
    "gru-of-one": (["policy.recurrent=gru"], "policy.recurrent: the checkpoint has gru, .* has none;"),
    "relu": (["policy.activation=relu"], "policy.activation: the checkpoint has relu, .* has tanh;"),
    "clipped": (["policy.clip_actions=0.1"], "policy.clip_actions: the checkpoint has 0.1, .* has 0;"),
    "no-normalizer": (["policy.normalize_observations=false"],
                      "policy.normalize_observations: the checkpoint has false, .* has true;"),
    "scaled": (["task.actions=[{term: joint_effort, joints: [slider], scale: 50}]"],
               "task.actions: the checkpoint has {.*scale: 50}, .* has {.*scale: 100};"),
}


@pytest.fixture(scope="module")
def mlp(maniple, tmp_path_factory):
    """A training, and what its settings are."""
    folder = tmp_path_factory.mktemp("mlp")
    settings = [deck(folder), "policy.hidden=[8]", "learning.iterations=1"]
    maniple("train", *settings, f"output.directory={folder / 'run'}")
    return folder / "run", settings


@pytest.mark.parametrize("other", of_the_day(OTHERS, "gru-of-one", "scaled"))
def test_a_checkpoint_of_another_run_is_refused(maniple, mlp, tmp_path, other):
    """A network takes its settings from the results: they must be those of the run that wrote its weights."""
    (mine, settings), (changed, difference) = mlp, OTHERS[other]
    maniple("train", *settings, *changed, f"output.directory={tmp_path}")
    checkpoint = maniple.checkpoints(tmp_path)[-1]
    message = mismatch(mine, "--checkpoint", checkpoint)
    assert message.startswith(f"export_onnx.py: error: {checkpoint}: ") and re.search(difference, message), message
    if other == "gru":
        assert "policy.recurrent: the checkpoint has none, " in mismatch(tmp_path, "--checkpoint", maniple.checkpoints(mine)[-1])
    export(tmp_path)


def test_results_of_a_rollout_are_refused(maniple, tmp_path):
    """They may have replaced those of the training, whether with its settings or with others."""
    file, tanh, relu = deck(tmp_path), tmp_path / "tanh", tmp_path / "relu"
    for run in (tanh, relu):
        maniple("train", file, f"policy.activation={run.name}", "learning.iterations=1", f"output.directory={run}")
    for run in (tanh, relu):
        maniple("rollout", file, "control.source=policy", f"control.checkpoint={tanh}", "initial_state.source=task",
                "batch.num_envs=2", "simulation.steps=2", "output.overwrite=true", f"output.directory={run}")
        assert re.search("kind of run: the checkpoint has train, .* has rollout;", mismatch(run))


def test_a_run_that_went_on_is_exported(maniple, tmp_path):
    """What may change when a training goes on is no difference, but for what makes a checkpoint's policy another."""
    run, file = tmp_path / "run", deck(tmp_path)
    keys = ["policy.hidden=[8]", "policy.state_dependent_std=true", f"output.directory={run}", "learning.resume=auto"]
    maniple("train", file, *keys, "learning.iterations=1")
    first = tmp_path / "first.h5"
    shutil.copy(maniple.checkpoints(run)[-1], first)
    maniple("train", file, *keys, "learning.iterations=2", "learning.gamma=0.9", "policy.max_std=2")
    for checkpoint in (first, maniple.checkpoints(run)[-1]):
        export(run, "--checkpoint", checkpoint)
    maniple("train", file, *keys, "learning.iterations=3", "policy.max_std=2", "policy.clip_actions=0.2")
    export(run)
    assert "policy.clip_actions: the checkpoint has 0," in export(run, "--checkpoint", first, exit_code=2)


def test_a_full_disk_leaves_what_was_there(maniple, tmp_path):
    """The policy that was there, or none."""
    run, policy = tmp_path / "run", tmp_path / "run/policy.onnx"
    maniple("train", deck(tmp_path), "learning.iterations=1", f"output.directory={run}")

    def refused():
        result = subprocess.run(["bash", "-c", 'ulimit -f 1; exec "$@"', "bash", sys.executable,
                                 maniple.root / "tools/export_onnx.py", run], capture_output=True, text=True)
        message = f"export_onnx.py: error: {policy} cannot be written: File too large\n"
        assert (result.returncode, result.stderr) == (2, message), result

    before = sorted(run.iterdir())
    refused()
    assert sorted(run.iterdir()) == before
    export(run)
    whole = policy.read_bytes()
    assert len(whole) > 1024  # of ulimit -f 1
    refused()
    assert policy.read_bytes() == whole and sorted(run.iterdir()) == sorted([*before, policy])
