"""A policy leaves the program as ONNX: onnxruntime's actions are the program's own for every kind of network, and
README.md's function drives Gymnasium's environment to the return that `evaluate` finds."""

import re
import shutil
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from test_presets import PRESETS
from maniple_results import Results
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator
from test_tools import check_refusals

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


def export(maniple, run, *more, exit_code=0):
    result = subprocess.run([sys.executable, maniple.root / "tools/export_onnx.py", run, *more], capture_output=True, text=True)
    assert result.returncode == exit_code, result.stdout + result.stderr
    return result.stdout + result.stderr


def deck(folder, text=INVERTED_PENDULUM):
    file = folder / "deck.yaml"
    file.write_text(text)
    return file


@pytest.mark.parametrize("settings", [
    ["policy.activation=tanh", "policy.shared=false", "policy.normalize_observations=true", "policy.hidden=[64,64]"],
    ["policy.activation=elu", "policy.shared=true", "policy.clip_observations=0.5", "policy.clip_actions=0.3"],
    ["policy.activation=relu", "policy.hidden=[300,20]", "learning.blas_width=256"],
    ["policy.hidden=[16]", "policy.shared=true", "policy.normalize_observations=true", "policy.clip_observations=0.1"],
    ["policy.activation=silu", "policy.layer_norm=true", "policy.critic_hidden=[8]", "policy.squash_actions=true",
     "policy.state_dependent_std=true", "policy.std_transform=softplus", "policy.min_std=0.001"],
    ["policy.activation=gelu", "policy.shared=true", "policy.state_dependent_std=true", "policy.max_std=2"],
    ["policy.activation=leaky_relu", "policy.layer_norm=true"],
    # a critic with observations of its own, which the policy does not take
    ["task.critic_observations=[{expression: \"qvel\"}, {expression: \"3 + qpos\"}, {expression: \"qvel[hinge]^2\"}]",
     "policy.normalize_observations=true", "policy.clip_observations=0.5"],
    *(["policy=~", "learning=~", f"learning.preset={preset}", "learning.epochs=2"] for preset in PRESETS),
], ids=["tanh", "elu", "relu", "one-layer", "brax-like", "gelu", "leaky-relu", "asymmetric", *PRESETS])
def test_actions_are_the_programs(maniple, tmp_path, settings):
    run, file = tmp_path / "run", deck(tmp_path)
    maniple("train", file, *settings, "learning.iterations=3", f"output.directory={run}")
    export(maniple, run)
    maniple("rollout", file, *settings, "control.source=policy", f"control.checkpoint={run}", "initial_state.source=task",
            "batch.num_envs=1000", "simulation.steps=101", "output.trajectory.every=1",
            "output.trajectory.fields=[observation,action]", f"output.directory={tmp_path / 'rollout'}")
    with Results(tmp_path / "rollout") as rollout:
        observation = rollout.trajectory["observation"][:, :-1].reshape(-1, 4)
        action = rollout.trajectory["action"][:, 1:].reshape(-1, 1)
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
    export(maniple, run)
    metadata = {entry.key: entry.value for entry in onnx.load(run / "policy.onnx").metadata_props}
    assert metadata["task"] == maniple("inspect", file, ranks=0).stdout
    assert "joint_effort/slider" in metadata["task"]


def in_double_precision(policy, observation):
    model = onnx.load(policy)
    for tensor in model.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    observation = observation.astype(np.float32).astype(np.float64)
    return ReferenceEvaluator(model).run(["action"], {"observation": observation})[0]


@pytest.mark.parametrize("cells, units", [(["policy.recurrent=gru"], 12), (["policy.recurrent=lstm", "policy.recurrent_layers=2"], 48)],
                         ids=["gru", "lstm"])
def test_recurrent_actions_are_the_programs(maniple, tmp_path, cells, units):
    """Step by step with the state that goes out and in; zeros when an episode begins."""
    run, file = tmp_path / "run", deck(tmp_path)
    settings = [*cells, "policy.recurrent_units=12", "policy.squash_actions=true", "task.episode_length=0.8"]
    maniple("train", file, *settings, "learning.iterations=3", f"output.directory={run}")
    export(maniple, run)
    maniple("rollout", file, *settings, "control.source=policy", f"control.checkpoint={run}", "initial_state.source=task",
            "batch.num_envs=100", "simulation.steps=101", "output.trajectory.every=1",
            "output.trajectory.fields=[observation,action,terminated,truncated]", f"output.directory={tmp_path / 'rollout'}")
    with Results(tmp_path / "rollout") as rollout:
        observation, action, terminated, truncated = (
            rollout.trajectory[name][:] for name in ("observation", "action", "terminated", "truncated"))
    ended = (terminated + truncated).reshape(100, -1) > 0
    assert ended.sum() >= 200 and action.std() > 1e-3
    session, state = onnxruntime.InferenceSession(run / "policy.onnx"), np.zeros((100, units), np.float32)
    for step in range(101):
        state[ended[:, step]] = 0
        found, state = session.run(["action", "next_state"], {"observation": observation[:, step].astype(np.float32), "state": state})
        np.testing.assert_allclose(found, action[:, step + 1], rtol=0, atol=1e-6)


def test_drives_gymnasium(maniple, tmp_path):
    run, file = tmp_path / "run", deck(tmp_path)
    maniple("train", file, "evaluation.every=20", f"output.directory={run}")
    export(maniple, run, "--best")
    maniple("evaluate", file, f"control.checkpoint={run / 'best'}", "evaluation.episodes=64", f"output.directory={run}")
    with Results(run / "evaluation.h5") as results:
        expected = results.evaluation["episode_return"]
    blocks = re.findall(r"^```python\n(.*?)^```", (maniple.root / "README.md").read_text(), re.M | re.S)
    names = {}
    exec(next(block for block in blocks if "onnxruntime" in block), names)
    found = [names["episode_return"](run / "policy.onnx", "InvertedPendulum-v5", seed) for seed in range(4)]
    assert expected.mean() > 900  # of at most 1000; it has learned
    assert np.mean(found) == pytest.approx(expected.mean(), abs=50)


def test_refusals(maniple, tmp_path):
    def refusal(*arguments):
        message = export(maniple, *arguments, exit_code=2)
        assert message.count("error: ") >= 1 and "Traceback" not in message, message
        return message

    assert "no results.h5" in refusal(tmp_path)
    run, whole = tmp_path / "run", tmp_path / "whole"
    maniple("train", deck(tmp_path), "learning.iterations=1", f"output.directory={run}")
    shutil.copytree(run, whole)
    policy = maniple.checkpoints(whole)[-1]
    for file in (policy, whole / "results.h5"):
        check_refusals(maniple, "export_onnx.py", file, whole)
    assert not (whole / "policy.onnx").exists()
    newest = maniple.checkpoints(run)[-1]
    bytes_ = bytearray(newest.read_bytes())
    bytes_[len(bytes_) // 2] ^= 1
    newest.write_bytes(bytes_)
    assert str(newest) in refusal(run)
    assert not (run / "policy.onnx").exists()
    assert "has no checkpoints" in refusal(run, "--best")
    assert "does not hold the policy of" in refusal(run, "--checkpoint", run / "results.h5")
    assert "cannot be" in refusal(run, "--checkpoint", maniple.root / "README.md")
    newest.unlink()
    assert "has no checkpoints" in refusal(run)
    (run / "results.h5").write_text("no HDF5")
    assert "results.h5" in refusal(run, "--checkpoint", policy)
    assert "nowhere" in refusal(whole, "--output", tmp_path / "nowhere/policy.onnx")
