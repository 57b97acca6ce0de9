"""Mixtures and recurrent policies from demonstrations: loss by loss what torch's LSTM, GRU and MixtureSameFamily make of
them in robomimic's BC_GMM, BC_RNN and BC_RNN_GMM; the same bits on any number of ranks and over a kill; evaluated as
robomimic evaluates them; and as ONNX."""
# ctest: PROCESSORS 1 COST 50

import re
import subprocess
import sys

import h5py
import numpy as np
import onnxruntime
import pytest

import tape
from conftest import of_the_day
from demonstrations import episodes, permutation, write_robomimic
from trainings import check_kills, check_ranks, digests, metric

NIGHTLY = pytest.mark.nightly
KEYS = "data.observations=[position, velocity]"
MIXTURE = ["learning.loss=gmm", "policy.modes=3"]
LSTM = ["policy.recurrent=lstm", "policy.recurrent_units=12", "policy.recurrent_horizon=5"]


@pytest.fixture(scope="module")
def demos(tmp_path_factory):
    return write_robomimic(tmp_path_factory.mktemp("data") / "demos.hdf5", episodes(12))


def arguments(data, *keys):
    return ("imitate", f"data.file={data}", KEYS, "policy.hidden=[24]", *keys)


def run(maniple, data, directory, *keys, ranks=1):
    return maniple(*arguments(data, *keys), f"output.directory={directory}", ranks=ranks)


class Network:
    """What a checkpoint holds of a policy, as robomimic's RNN_MIMO_MLP and its heads use it."""

    def __init__(self, checkpoint, recurrent, modes, minimum, transform):
        self.recurrent, self.modes, self.minimum, self.transform = recurrent, modes, minimum, transform
        with h5py.File(checkpoint) as file:
            policy = file["policy"]
            cells = sum(name.startswith(recurrent) for name in policy) if recurrent else 0
            names = [f"{recurrent}{cell}/{of}" for cell in range(cells) for of in ("input", "state")]
            names += [f"layer{l}" for l in range(sum(name.startswith("layer") for name in policy))]
            self.cells, flat, at = cells, [file[f"imitation/adam_moment{which}"][()] for which in (1, 2)], 0
            self.parameters, self.moments = [], []
            for name in names:
                bias = policy[f"{name}/bias"][()]
                stored = policy[f"{name}/weight"]
                used = int(re.search(r"the first (\d+) of each used", stored.attrs["description"])[1])
                stride = stored.size // len(bias)
                size = stored.size + -(-len(bias) // 16) * 16
                parts = [part[at:at + size].astype(float) for part in flat]
                at += size
                self.parameters += [stored[()].reshape(-1, stride)[:, :used].astype(float), bias.astype(float)]
                self.moments += [[part[:stored.size].reshape(-1, stride)[:, :used] for part in parts],
                                 [part[stored.size:][:len(bias)] for part in parts]]
            self.log_std = policy["log_std"][()].astype(float) if "log_std" in policy else None
            if self.log_std is not None:
                self.parameters.append(self.log_std)
                self.moments.append([part[at:at + len(self.log_std)].astype(float) for part in flat])

    def outputs(self, values, observations):
        """Of the last layer, for observations [sample, step, number]: [sample * step, number]."""
        values = list(values)
        steps = [tape.of(observations[:, t]) for t in range(observations.shape[1])]
        for _ in range(self.cells):
            wx, bx, wh, bh, *values = values
            n = wh.data.shape[1]
            h = c = tape.of(np.zeros((len(observations), n)))
            for t, x in enumerate(steps):
                a, b = x @ wx.T + bx, h @ wh.T + bh
                parts = [slice(k * n, (k + 1) * n) for k in range(4)]
                if self.recurrent == "lstm":
                    i, f, g, o = (a[:, part] + b[:, part] for part in parts)
                    c = tape.sigmoid(f) * c + tape.sigmoid(i) * tape.tanh(g)
                    h = tape.sigmoid(o) * tape.tanh(c)
                else:
                    r, z = (tape.sigmoid(a[:, part] + b[:, part]) for part in parts[:2])
                    new = tape.tanh(a[:, parts[2]] + r * b[:, parts[2]])
                    h = (1 - z) * new + z * h
                steps[t] = h
        outputs = []
        for x in steps:
            layers = list(zip(values[::2], values[1::2]))
            for number, (weight, bias) in enumerate(layers):
                x = x @ weight.T + bias
                x = tape.relu(x) if number + 1 < len(layers) else x
            outputs.append(x)
        return outputs

    def loss(self, values, observations, actions, kind):
        total, (samples, steps, width) = 0, actions.shape
        for t, y in enumerate(self.outputs(values, observations)):
            a = actions[:, t]
            if kind == "l2":
                error = tape.tanh(y) - a
                total += (error * error).mean() * (1 / steps)
                continue
            if kind == "gaussian":
                log_std = values[-1] if self.log_std is not None else y[:, width:]
                z = (y[:, :width] - a) * tape.exp(-log_std)
                total += (z * z * 0.5 + log_std + 0.5 * np.log(2 * np.pi)).sum() * (1 / (samples * steps))
                continue
            n = self.modes * width
            mean = tape.tanh(y[:, :n]).reshape(samples, self.modes, width)
            raw = y[:, n:2 * n].reshape(samples, self.modes, width)
            std = (tape.softplus(raw) if self.transform == "softplus" else tape.exp(raw)) + self.minimum
            z = (mean - a[:, None]) * tape.exp(-tape.log(std))
            of_modes = (z * z * -0.5 - tape.log(std) - 0.5 * np.log(2 * np.pi)).sum(axis=2)
            logits = y[:, 2 * n:]
            joint = logits + of_modes
            total += (tape.logsumexp(logits) - tape.logsumexp(joint)).sum() * (1 / (samples * steps))
        return total

    def squared_error(self, observations, actions, kind):
        """Of the actions that the network gives, of a mixture's modes by their weights."""
        total, width = 0, actions.shape[2]
        for t, y in enumerate(y.data for y in self.outputs([tape.Value(p) for p in self.parameters], observations)):
            a = actions[:, t]
            if kind == "gmm":
                n = self.modes * width
                mean, weight = np.tanh(y[:, :n]).reshape(len(y), self.modes, width), np.exp(y[:, 2 * n:])
                error = ((mean - a[:, None]) ** 2).mean(axis=2) * weight / weight.sum(axis=1, keepdims=True)
                total += error.sum(axis=1).mean()
            else:
                total += (((y[:, :width] if kind == "gaussian" else np.tanh(y)) - a) ** 2).mean()
        return total / actions.shape[1]

    def step(self, observations, actions, kind, count, rate):
        """An update of Adam with torch's formulas; the loss before it."""
        values = [tape.Value(p) for p in self.parameters]
        loss = self.loss(values, observations, actions, kind)
        loss.backward()
        for place, (value, moments) in enumerate(zip(values, self.moments)):
            gradient = value.gradient
            moments[0] = 0.9 * moments[0] + 0.1 * gradient
            moments[1] = 0.999 * moments[1] + 0.001 * gradient**2
            self.parameters[place] = self.parameters[place] - rate * (moments[0] / (1 - 0.9**count)) / (
                np.sqrt(moments[1] / (1 - 0.999**count)) + 1e-8)
        return float(loss.data)


def test_the_tape_differentiates():
    """Everything that the comparison below differentiates with, against differences."""
    rng = np.random.default_rng(0)
    network = object.__new__(Network)
    shapes = [(8, 3), (8,), (8, 2), (8,), (10, 2), (10,)]
    start = [0.5 * rng.normal(size=shape) for shape in shapes]
    network.cells, network.recurrent, network.modes, network.minimum, network.transform = 1, "lstm", 2, 0.1, "softplus"
    x, a = rng.normal(size=(4, 3, 3)), np.tanh(rng.normal(size=(4, 3, 2)))
    values = [tape.Value(p) for p in start]
    network.loss(values, x, a, "gmm").backward()
    for place, value in enumerate(values):
        direction = rng.normal(size=value.data.shape)

        def at(h):
            moved = [tape.Value(p + h * direction if i == place else p) for i, p in enumerate(start)]
            return float(network.loss(moved, x, a, "gmm").data)

        assert (value.gradient * direction).sum() == pytest.approx((at(1e-6) - at(-1e-6)) / 2e-6, rel=1e-6, abs=1e-9)


CASES = {
    "gmm": MIXTURE,
    "gmm exp": [*MIXTURE, "policy.std_transform=exp", "policy.min_std=0.01"],
    "lstm gmm": [*MIXTURE, *LSTM, "policy.recurrent_layers=2", "policy.hidden=[]"],
    "lstm l2": [*LSTM, "policy.recurrent_layers=1"],
    "lstm gaussian": ["learning.loss=gaussian", "policy.squash_actions=false", *LSTM, "policy.recurrent_layers=2"],
    "gaussian of its own": ["learning.loss=gaussian", "policy.squash_actions=false", "policy.state_dependent_std=true",
                            "policy.std_transform=exp", "policy.min_std=0"],
    "gru gmm": [*MIXTURE, "policy.recurrent=gru", "policy.recurrent_units=10", "policy.recurrent_horizon=4",
                "policy.recurrent_layers=2"],
}


@pytest.mark.parametrize("case", of_the_day(CASES, "gmm exp", "lstm gmm", "gaussian of its own"))
def test_losses_are_robomimics(maniple, tmp_path, demos, case):
    """From the first update's weights and moments on, 200 updates in double precision: sequences of robomimic's
    SequenceDataset in the stated order, padded frames included, the network, the loss and Adam."""
    keys = ["learning.report_every=1", "data.normalize_observations=mean_std", "batch.seed=3",
            "learning.learning_rate=1e-3", "learning.batch_size=40", *CASES[case]]
    setting = dict(key.split("=") for key in keys)
    run(maniple, demos, tmp_path / "first", "learning.steps=1", *keys)
    run(maniple, demos, tmp_path / "all", "learning.steps=200", "learning.checkpoint_every=0", *keys, ranks=2)
    kind, length = setting.get("learning.loss", "l2"), int(setting.get("policy.recurrent_horizon", 1))
    network = Network(maniple.checkpoints(tmp_path / "first")[-1], setting.get("policy.recurrent"), 3,
                      float(setting.get("policy.min_std", 1e-4)), setting.get("policy.std_transform", "softplus"))
    with h5py.File(demos) as file:
        names = sorted(file["data"], key=lambda name: int(name[5:]))
        x = [np.concatenate([file[f"data/{n}/obs/{k}"] for k in ("position", "velocity")], axis=1) for n in names]
        y = [file[f"data/{n}/actions"][()] for n in names]
    ends = np.cumsum([len(demo) for demo in x])
    end_of = np.repeat(ends, [len(demo) for demo in x])
    x, y = np.concatenate(x).astype(float), np.concatenate(y)
    x = (x - x.mean(axis=0)) / (x.std(axis=0) + 1e-3)
    batches, expected = -(-len(x) // 40), []
    squared_error = metric(tmp_path / "all", "squared_error")
    for step in range(1, 200):
        if step == 1 or step % batches == 0:
            order = permutation(len(x), 3, step // batches)
        taken = order[step % batches * 40:][:40]
        rows = np.minimum(taken[:, None] + np.arange(length), end_of[taken][:, None] - 1)
        if step < 5:
            assert squared_error[step] == pytest.approx(network.squared_error(x[rows], y[rows], kind), rel=1e-3)
        expected.append(network.step(x[rows], y[rows], kind, step + 1, 1e-3))
    np.testing.assert_allclose(metric(tmp_path / "all", "loss")[1:], expected, rtol=1e-3, atol=1e-3)
    assert expected[-1] < expected[0] - 0.05


@pytest.mark.parametrize("keys", [pytest.param(MIXTURE, marks=NIGHTLY),
                                  [*MIXTURE, *LSTM, "policy.recurrent_layers=2", "data.frame_stack=2"],
                                  pytest.param([*LSTM, "policy.recurrent=gru", "data.pad_sequence=false"], marks=NIGHTLY)])
def test_any_number_of_ranks(maniple, tmp_path, demos, keys):
    check_ranks(maniple, tmp_path, *arguments(
        demos, "learning.steps=20", "learning.report_every=5", "learning.batch_size=97", "learning.checkpoint_every=10",
        "learning.learning_rate=1e-3", "data.normalize_observations=mean_std", *keys))
    loss = metric(tmp_path / "1", "loss")
    assert loss[-1] < loss[0]


LARGE_GRADIENTS = [*MIXTURE, "learning.steps=600", "learning.report_every=50", "learning.batch_size=40",
                   "learning.learning_rate=3e-3", "policy.init_std=2e-4"]


def test_a_mixture_goes_on_where_its_gradients_are_large(maniple, tmp_path, demos):
    """A small deviation gives gradients of millions, too large to be summed exactly as they are: their scale follows, with
    the same bits on any number of ranks."""
    check_ranks(maniple, tmp_path, *arguments(demos, *LARGE_GRADIENTS), counts=(1, 3))
    run = tmp_path / "1"
    assert metric(run, "skipped_minibatches")[0] > 0 and metric(run, "skipped_minibatches")[1:].sum() == 0
    assert metric(run, "gradient_norm").max() > 1e5 and metric(run, "loss")[-1] < 1e-2 * metric(run, "loss")[0]


@pytest.mark.nightly
def test_killed_where_gradients_are_large(maniple, tmp_path, demos):
    check_kills(maniple, tmp_path, *arguments(demos, *LARGE_GRADIENTS))


@pytest.mark.parametrize("case", of_the_day(["gmm", "lstm l2"], "lstm l2"))
def test_losses_of_held_out_demonstrations(maniple, tmp_path, case):
    """After each epoch, with the parameters as they are then, over all of their samples, also where those fill more than
    a batch; what is learned is what is learned without them."""
    held_out, rest = [9, 2, 11, 5, 0], [1, 3, 4, 6, 7, 8, 10]
    made = episodes(12)
    data = write_robomimic(tmp_path / "demos.hdf5", made, {"valid": held_out, "rest": rest})
    epoch = -(-sum(len(made[n][2]) for n in rest) // 40)
    assert sum(len(made[n][2]) for n in held_out) > 64 and epoch > 3
    keys = ["data.normalize_observations=mean_std", "batch.seed=3", "learning.learning_rate=1e-3", "learning.batch_size=40",
            "learning.checkpoint_every=1", "learning.keep_checkpoints=9", *CASES[case]]
    valid, often = "data.validation_filter=valid", f"learning.report_every={epoch}"
    found = set()
    for ranks in (1, 2, 3):
        text = run(maniple, data, tmp_path / str(ranks), valid, often, f"learning.steps={3 * epoch}", *keys, "run.progress=plain",
                   ranks=ranks).stdout
        found.add(tuple(digests(maniple, tmp_path / str(ranks))))
    assert len(found) == 1
    losses = metric(tmp_path / "1", "validation_loss")
    assert f"7 demonstrations, {sum(len(made[n][2]) for n in rest)} samples, {epoch} batches of 40 per epoch; " \
        "5 demonstrations held out" in text and f"validation loss {losses[-1]:.5g}" in text
    # reports within an epoch have that of the epoch before, also where the run is continued there
    run(maniple, data, tmp_path / "cut", valid, "learning.report_every=2", f"learning.steps={3 * epoch}", *keys)
    for steps in (2 * (epoch // 2 + 1), 3 * epoch):
        run(maniple, data, tmp_path / "on", valid, "learning.report_every=2", f"learning.steps={steps}", "learning.resume=auto",
            *keys, ranks=2)
    epochs = metric(tmp_path / "cut", "updates").astype(int) // epoch
    expected = [losses[done - 1] if done > 0 else np.nan for done in epochs]
    np.testing.assert_array_equal(metric(tmp_path / "cut", "validation_loss"), expected)
    np.testing.assert_array_equal(metric(tmp_path / "on", "validation_loss"), expected)
    text = run(maniple, data, tmp_path / "alone", "data.filter_key=rest", often, f"learning.steps={3 * epoch}", *keys,
               "run.progress=plain").stdout
    assert "; 5 demonstrations of the files not in data.filter_key (rest), left out" in text
    np.testing.assert_array_equal(metric(tmp_path / "alone", "loss"), metric(tmp_path / "1", "loss"))
    with h5py.File(tmp_path / "alone/results.h5") as file:
        assert "validation_loss" not in file["metrics"]
    setting = dict(key.split("=") for key in keys)
    length = int(setting.get("policy.recurrent_horizon", 1))
    x = [np.concatenate([position[:-1], velocity[:-1]], axis=1).astype(float) for position, velocity, _ in made]
    seen = np.concatenate([x[n] for n in rest])
    x = [(demo - seen.mean(axis=0)) / (seen.std(axis=0) + 1e-3) for demo in x]
    rows = [(n, np.minimum(np.arange(first, first + length), len(x[n]) - 1)) for n in held_out for first in range(len(x[n]))]
    observations, actions = np.stack([x[n][row] for n, row in rows]), np.stack([made[n][2][row] for n, row in rows])
    for checkpoint, loss in zip(maniple.checkpoints(tmp_path / "1"), losses, strict=True):
        network = Network(checkpoint, setting.get("policy.recurrent"), 3, 1e-4, "softplus")
        values = [tape.Value(p) for p in network.parameters]
        expected = float(network.loss(values, observations, actions, setting.get("learning.loss", "l2")).data)
        assert loss == pytest.approx(expected, rel=1e-4, abs=1e-5)


@pytest.mark.nightly
def test_killed_and_continued_on_other_ranks(maniple, tmp_path, demos):
    check_kills(maniple, tmp_path, *arguments(demos, *MIXTURE, *LSTM, "learning.steps=120", "learning.report_every=3"))


# A point on a line whose velocity is the action. Where it stands is all that is seen, when it began is not.
TASK = """
model: {{file: {model}}}
batch: {{num_envs: 64, seed: 3}}
simulation: {{decimation: 5}}
task:
  name: point
  episode_steps: 14
  actions: [{{term: joint_velocity, joints: [slide]}}]
  observations: [{{expression: "qpos[slide]"}}]
  reward_times_dt: false
  rewards: {{at: {{expression: "abs(qpos[slide])"}}}}
  terminations: {{time_out: {{term: time_out}}}}
  resets: [{{set: "qpos[slide]", expression: "uniform(-0.1, 0.1)"}}]
"""
POINT = """
<mujoco>
  <option timestep="0.02" gravity="0 0 0"/>
  <worldbody><body><joint name="slide" type="slide" axis="1 0 0"/><geom size="0.1" mass="1"/></body></worldbody>
  <actuator><velocity name="slide" joint="slide" kv="50"/></actuator>
</mujoco>
"""


def go_left_or_right(path, steps=14, count=60):
    """Each demonstration goes to one side at full speed: an average would stay where it is."""
    rng = np.random.default_rng(5)
    with h5py.File(path, "w") as file:
        for number in range(count):
            side = 1 if number % 3 == 0 else -1
            x = rng.uniform(-0.1, 0.1) + side * 0.08 * np.arange(steps)
            file[f"data/demo_{number}/obs/x"] = x[:, None].astype(np.float32)
            file[f"data/demo_{number}/actions"] = np.clip(0.8 * side + 0.03 * rng.normal(size=(steps, 1)), -1, 1)
            file[f"data/demo_{number}"].attrs["num_samples"] = steps
    return path


@pytest.fixture
def point(tmp_path):
    (tmp_path / "point.xml").write_text(POINT)
    (tmp_path / "point.yaml").write_text(TASK.format(model=tmp_path / "point.xml"))
    return tmp_path / "point.yaml"


POLICY = ["learning.preset=robomimic", "policy.hidden=[32, 32]", "learning.learning_rate=1e-3",
          "data.normalize_observations=min_max"]


def train_point(maniple, point, directory, *keys):
    maniple("imitate", point, f"data.file={go_left_or_right(directory.parent / 'demos.hdf5')}", *POLICY,
            f"output.directory={directory}", *keys, ranks=2)


def record(maniple, point, run, directory, *keys, ranks=1):
    """Observations and the actions that answered them, [environment, step, number], and where episodes ended."""
    maniple("rollout", point, *POLICY, "control.source=policy", f"control.checkpoint={run}", "initial_state.source=task",
            "batch.num_envs=300", "output.trajectory.every=1", "output.trajectory.fields=[observation, action, truncated]",
            f"output.directory={directory}", *keys, ranks=ranks)
    with h5py.File(directory / "results.h5") as file:
        seen, done, ended = (file[f"trajectory/{name}"][()] for name in ("observation", "action", "truncated"))
    return seen[:, :-1], done[:, 1:], ended[:, 1:].reshape(len(ended), -1) > 0


def test_a_mixture_does_one_or_the_other(maniple, tmp_path, point):
    """A third of the demonstrations goes right and the others left: so does the mixture where nothing is decided yet,
    with hardly any noise; the squared error does neither."""
    keys = ["learning.loss=gmm", "policy.modes=2"]
    train_point(maniple, point, tmp_path / "gmm", *keys, "learning.steps=3000", "evaluation.every=1000")
    train_point(maniple, point, tmp_path / "l2", "learning.steps=500")
    found = {}
    for ranks in (1, 2, 3):
        found[ranks] = record(maniple, point, tmp_path / "gmm", tmp_path / f"rollout{ranks}", *keys, "simulation.steps=28",
                              ranks=ranks)
        np.testing.assert_array_equal(found[1][1], found[ranks][1])
    action = found[1][1][:, 0, 0]
    assert np.mean(action > 0) == pytest.approx(1 / 3, abs=0.15)
    assert np.abs(np.abs(action) - 0.8).max() < 0.1
    _, average, _ = record(maniple, point, tmp_path / "l2", tmp_path / "averaged", "simulation.steps=1")
    assert np.median(np.abs(average)) < 0.5
    # the likeliest mode alone, and draws with the mixture's own deviations
    seen, likeliest, _ = record(maniple, point, tmp_path / "gmm", tmp_path / "likeliest", *keys, "simulation.steps=1",
                             "evaluation.deterministic=true")
    assert likeliest[seen < 0.02].max() < -0.7
    _, drawn, _ = record(maniple, point, tmp_path / "gmm", tmp_path / "drawn", *keys, "simulation.steps=1",
                         "evaluation.deterministic=false")
    left, own = action[action < 0], drawn[drawn < 0]
    assert own.std() == pytest.approx(0.03, rel=0.5) and left.std() < 0.7 * own.std()
    assert np.mean(drawn > 0) == pytest.approx(1 / 3, abs=0.15)
    # evaluations: the same episodes on any number of ranks, within 0.2 of the return of the demonstrations
    returns = []
    for ranks in (1, 3):
        maniple("evaluate", point, *POLICY, *keys, f"control.checkpoint={tmp_path / 'gmm'}", "output.overwrite=true",
                f"output.directory={tmp_path / 'gmm'}", ranks=ranks)
        with h5py.File(tmp_path / "gmm/evaluation.h5") as file:
            returns.append(file["evaluation/episode_return"][()])
    np.testing.assert_array_equal(*returns)
    assert returns[0].mean() > 6 and np.nanmax(metric(tmp_path / "gmm", "evaluation_return")) > 6


ONNX = {
    "gmm": ["learning.loss=gmm", "policy.modes=3", "data.normalize_actions=mean_std", "policy.squash_actions=false"],
    "lstm gmm": ["learning.preset=robomimic_rnn", "policy.hidden=[]", "policy.recurrent_units=9",
                 "policy.recurrent_horizon=5"],
    "lstm": [*LSTM, "policy.recurrent_layers=1"],
    "gru": [*LSTM, "policy.recurrent=gru", "policy.recurrent_layers=3"],
}


@pytest.mark.parametrize("case", of_the_day(ONNX, "lstm gmm", "gru"))
def test_actions_are_those_of_the_onnx(maniple, tmp_path, point, case):
    """Step by step with the state that goes out and in: zeros when an episode begins, and after each
    policy.recurrent_horizon steps of it."""
    keys = [*ONNX[case], "evaluation.deterministic=true"]
    train_point(maniple, point, tmp_path / "run", *keys, "learning.steps=100")
    subprocess.run([sys.executable, maniple.root / "tools/export_onnx.py", tmp_path / "run"], check=True)
    seen, done, ended = record(maniple, point, tmp_path / "run", tmp_path / "rollout", *keys, "simulation.steps=33")
    assert done.std() > 1e-3 and ended.sum() == 600
    session = onnxruntime.InferenceSession(tmp_path / "run/policy.onnx")
    recurrent = any(value.name == "state" for value in session.get_inputs())
    assert recurrent == ("policy.recurrent_horizon=5" in keys)
    horizon = session.get_modelmeta().custom_metadata_map.get("recurrent_horizon")
    assert horizon == ("5" if recurrent else None)
    age, state = 0, None
    for step in range(33):
        if recurrent and age % int(horizon) == 0:
            state = np.zeros((300, session.get_inputs()[1].shape[1]), np.float32)
        given = {"observation": seen[:, step].astype(np.float32), **({"state": state} if recurrent else {})}
        found = dict(zip([value.name for value in session.get_outputs()], session.run(None, given)))
        np.testing.assert_allclose(found["action"], done[:, step], rtol=0, atol=2e-6)
        if "gmm" in case:
            modes = found["mode_probabilities"]
            np.testing.assert_allclose(modes.sum(axis=1), 1, atol=1e-6)
            likeliest = found["mode_actions"][np.arange(300), modes.argmax(axis=1)]
            np.testing.assert_array_equal(likeliest, found["action"])
        state = found.get("next_state")
        age = 0 if ended[0, step] else age + 1


@pytest.mark.parametrize("bound, value", [("policy.min_std", 0.5), ("policy.max_std", 0.05)])
def test_a_learned_deviation_stays_within_its_bounds(maniple, demos, tmp_path, bound, value):
    """That of these demonstrations goes from 0.3 to 0.08 by itself, and meets either bound."""
    keys = ["learning.loss=gaussian", "policy.squash_actions=false", "learning.steps=200", "learning.learning_rate=0.02"]
    run(maniple, demos, tmp_path / "free", *keys)
    run(maniple, demos, tmp_path / "bounded", *keys, f"{bound}={value}")

    def deviations(directory):
        with h5py.File(maniple.checkpoints(directory)[-1]) as file:
            return np.exp(file["policy/log_std"][()].astype(float))

    free, bounded = deviations(tmp_path / "free"), deviations(tmp_path / "bounded")
    beyond = free < value if bound == "policy.min_std" else free > value
    assert beyond.any(), free
    np.testing.assert_allclose(bounded[beyond], value, rtol=1e-6)
    assert (bounded >= value * (1 - 1e-6)).all() if bound == "policy.min_std" else (bounded <= value * (1 + 1e-6)).all()
