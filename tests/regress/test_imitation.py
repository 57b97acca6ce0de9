"""maniple imitate: the same bits on any number of ranks, continued anywhere; loss by loss what robomimic's BC computes;
and a clone of a policy that does its task as well."""

import errno
import re
import subprocess
import sys

import h5py
import numpy as np
import onnxruntime
import pytest

from demonstrations import episodes, permutation, write_minari, write_robomimic
from trainings import check_kills, check_ranks, digests, metric

KEYS = "data.observations=[position, velocity]"
DECK = "inputs/imitate/bc.yaml"


@pytest.fixture(scope="module")
def demos(tmp_path_factory):
    return write_robomimic(tmp_path_factory.mktemp("data") / "demos.hdf5", episodes(12), {"valid": [3]})


def arguments(data, *keys):
    return ("imitate", DECK, f"data.file={data}", KEYS, "policy.hidden=[32, 32]", *keys)


def run(maniple, data, directory, *keys, ranks=1, **rest):
    return maniple(*arguments(data, *keys), f"output.directory={directory}", ranks=ranks, **rest)


@pytest.mark.parametrize("keys", [["learning.batch_size=100", "data.normalize_observations=mean_std"],
                                  ["learning.batch_size=97", "data.frame_stack=3", "data.drop_last=true",
                                   "learning.loss=gaussian", "policy.squash_actions=false"]])
def test_any_number_of_ranks(maniple, tmp_path, demos, keys):
    check_ranks(maniple, tmp_path, *arguments(demos, "learning.steps=40", "learning.report_every=10",
                                              "learning.checkpoint_every=2", *keys))
    loss = metric(tmp_path / "1", "loss")
    assert len(loss) == 4 and loss[-1] < loss[0]


def test_killed_and_continued_on_other_ranks(maniple, tmp_path, demos):
    check_kills(maniple, tmp_path, *arguments(demos, "learning.steps=300", "learning.report_every=7", "learning.schedule=linear",
                                              "learning.weight_decay=0.01"))


def test_other_data_are_not_continued_with(maniple, tmp_path, demos):
    keys = ["learning.steps=4", "learning.report_every=2", "learning.resume=auto"]
    run(maniple, demos, tmp_path / "run", *keys)
    other = write_robomimic(tmp_path / "other.hdf5", episodes(12, seed=1))
    result = run(maniple, other, tmp_path / "run", *keys, ranks=2, exit_code=2, timeout=60)
    assert "data.file: demonstrations with the checksum" in result.stderr
    assert "the checkpoint to continue from has" in result.stderr
    # the same frames, of other demonstrations
    made = episodes(12)
    made[3:5] = [tuple(np.concatenate([a[:-1] if len(a) > len(made[3][2]) else a, b]) for a, b in zip(made[3], made[4]))]
    result = run(maniple, write_robomimic(tmp_path / "joined.hdf5", made), tmp_path / "run", *keys, exit_code=2)
    assert "data.file: demonstrations with the checksum" in result.stderr
    result = run(maniple, demos, tmp_path / "run", *keys, "learning.batch_size=50", exit_code=2)
    assert "learning.batch_size: found 50; the checkpoint to continue from has 100" in result.stderr


@pytest.mark.parametrize("key, found", [
    ("learning.report_every=3", "has 2, this run 3"),
    ("data.drop_last=true", "has false, this run true"),
    ("data.normalize_observations=min_max", 'has "none", this run "min_max"'),
    ("data.not_normalized=[position]", 'this run ["position"]'),
    ("data.validation_filter=valid", 'has "", this run "valid"')])
def test_other_samples_are_not_continued_with(maniple, tmp_path, demos, key, found):
    """Settings that the order of samples, their numbers or the counts depend on, without a task, too."""
    keys = ["learning.report_every=2", "learning.resume=auto"]
    run(maniple, demos, tmp_path / "run", *keys, "learning.steps=4")
    before = digests(maniple, tmp_path / "run")
    result = run(maniple, demos, tmp_path / "run", *keys, "learning.steps=9", key, exit_code=2, timeout=60)
    assert f"{key.split('=')[0]}: the checkpoint " in result.stderr and found in result.stderr
    assert digests(maniple, tmp_path / "run") == before
    # what only says where data come from may change
    text = run(maniple, demos, tmp_path / "run", *keys, "learning.steps=6", "data.prefetch=1", "data.cache=file").stdout
    assert "at iteration 2" in text


def test_data_in_a_file(maniple, preload, tmp_path, demos):
    """The same bits from memory and from a file, which leaves nothing behind."""
    keys = ["learning.steps=30", "learning.report_every=10", "data.frame_stack=2", "data.normalize_observations=min_max"]
    out = run(maniple, demos, tmp_path / "auto", *keys).stdout
    assert "in a file" not in out
    place = tmp_path / "scratch"
    place.mkdir()
    for ranks in (1, 2):
        out = run(maniple, demos, tmp_path / str(ranks), *keys, "data.cache=file", ranks=ranks,
                  environment={"TMPDIR": place}).stdout
        assert f"MB for each rank in a file in {place}" in out and not list(place.iterdir())
        assert digests(maniple, tmp_path / str(ranks)) == digests(maniple, tmp_path / "auto")
    result = run(maniple, demos, tmp_path / "no", *keys, "data.cache=file", ranks=2, exit_code=1, timeout=60,
                 environment={"TMPDIR": tmp_path / "missing"})
    assert result.stderr.count("maniple: error:") == 1 and "No such file or directory" in result.stderr
    full = run(maniple, demos, tmp_path / "full", *keys, "data.cache=file", ranks=2, exit_code=1, timeout=60,
               environment={"TMPDIR": place, "LD_PRELOAD": preload("flaky"), "FLAKY_RANK": 1, "FLAKY_CALL": "fallocate",
                            "FLAKY_PATH": place, "FLAKY_AFTER": 1, "FLAKY_TIMES": 1, "FLAKY_ERRNO": errno.ENOSPC})
    assert full.stderr.count("maniple: error:") == 1 and "No space left on device" in full.stderr
    assert not list(place.iterdir())


def test_data_in_a_file_take_no_memory(maniple, tmp_path):
    """Of 40 MB, a rank that has them in a file holds none that the system could not take back; one that has them in
    memory holds them all. The parameters come out the same."""
    rng = np.random.default_rng(0)
    frames, width = 5000, 200
    with h5py.File(tmp_path / "wide.hdf5", "w") as file:
        for number in range(10):
            demo = file.create_group(f"data/demo_{number}")
            demo["obs/x"] = rng.normal(size=(frames, width)).astype(np.float32)
            demo["actions"] = np.tanh(demo["obs/x"][:, :1])
            demo.attrs["num_samples"] = frames
    data = 10 * frames * (width + 1) * 4
    held = {}
    for cache in ("memory", "file"):
        arguments = ("imitate", DECK, f"data.file={tmp_path}/wide.hdf5", "data.observations=[x]", "policy.hidden=[16]",
                     f"data.cache={cache}", "learning.report_every=50", "learning.batch_size=1000")
        directory = tmp_path / cache
        process = maniple.start(*arguments, "learning.steps=1000000", "learning.checkpoint_every=1",
                                f"output.directory={directory}", log=tmp_path / "log", environment={"TMPDIR": str(tmp_path)})
        # (an iteration is an epoch, after which every row has been read)
        maniple.wait_for(lambda: maniple.checkpoints(directory), "a checkpoint", process=process)
        (rank,) = maniple.ranks_of(process)
        with open(f"/proc/{rank}/status") as status:
            numbers = dict(line.split(":", 1) for line in status)
        held[cache] = 1024 * sum(int(numbers[kind].split()[0]) for kind in ("RssAnon", "RssShmem"))
        maniple.kill_all(process)
        maniple(*arguments, "learning.steps=60", f"output.directory={directory}_short", environment={"TMPDIR": tmp_path})
    assert 0.9 * data < held["memory"] - held["file"] < 1.1 * data + 4e6
    assert maniple.digest(tmp_path / "memory_short/results.h5") == maniple.digest(tmp_path / "file_short/results.h5")


def test_lengths_are_told(maniple, tmp_path, demos):
    with h5py.File(demos) as file:
        frames = file["data"].attrs["total"]
    text = run(maniple, demos, tmp_path / "a", "learning.steps=1").stdout
    assert f"12 demonstrations, {frames} samples, {-(-frames // 100)} batches of 100 per epoch" in text
    assert "observations position 3, velocity 2; actions 2" in text
    both = f"[{demos}, {write_minari(tmp_path / 'b.hdf5', episodes(4, seed=3))}]"
    more = sum(len(action) for _, _, action in episodes(4, seed=3))
    text = run(maniple, both, tmp_path / "b", "learning.steps=1", "data.weights=[1, 2]").stdout
    assert f"16 demonstrations, {frames + 2 * more} samples" in text


def layers_of(checkpoint):
    """Weights without padding, biases and Adam's moments of them, of a checkpoint: [(weight, bias)] three times."""
    with h5py.File(checkpoint) as file:
        names = [f"policy/layer{l}" for l in range(3)]
        shapes = [(file[f"{name}/bias"].size, file[f"{name}/weight"].size // file[f"{name}/bias"].size) for name in names]
        own = [(file[f"{n}/weight"][()].reshape(s).astype(float), file[f"{n}/bias"][()].astype(float))
               for n, s in zip(names, shapes)]
        moments = []
        for which in ("adam_moment1", "adam_moment2"):
            flat, at, pairs = file[f"imitation/{which}"][()].astype(float), 0, []
            for rows, columns in shapes:
                weight = flat[at:at + rows * columns].reshape(rows, columns)
                at += rows * columns
                pairs.append((weight, flat[at:at + rows]))
                at += -(-rows // 16) * 16
            moments.append(pairs)
        return own, *moments


@pytest.mark.parametrize("loss, decay", [("l2", 0), ("l1", 0), ("smooth_l1", 0), ("l2", 0.01)])
def test_every_loss_is_robomimics(maniple, tmp_path, demos, loss, decay):
    """From the first update's weights and moments on: batches of 100 in the stated order, the forward and backward
    pass of two layers of 32 units and tanh, and Adam with torch's formulas, in double precision."""
    keys = ["learning.report_every=1", "data.normalize_observations=mean_std", "batch.seed=3", f"learning.loss={loss}",
            "learning.learning_rate=1e-3", f"learning.weight_decay={decay}"]
    steps = 200
    run(maniple, demos, tmp_path / "first", "learning.steps=1", *keys)
    run(maniple, demos, tmp_path / "all", f"learning.steps={steps}", "learning.checkpoint_every=0", *keys, ranks=2)
    own, first, second = layers_of(maniple.checkpoints(tmp_path / "first")[-1])
    own, first, second = ([np.concatenate([w.ravel(), b]) for w, b in pairs] for pairs in (own, first, second))
    with h5py.File(demos) as file:
        names = sorted(file["data"], key=lambda name: int(name[5:]))
        x = np.concatenate([np.concatenate([file[f"data/{n}/obs/{k}"] for k in ("position", "velocity")], axis=1)
                            for n in names]).astype(float)
        y = np.concatenate([file[f"data/{n}/actions"] for n in names])
    x = (x - x.mean(axis=0)) / (x.std(axis=0) + 1e-3)
    inputs = [x.shape[1], 32, 32]
    batches = -(-len(x) // 100)
    expected = []
    for step in range(1, steps):
        if step == 1 or step % batches == 0:
            order = permutation(len(x), 3, step // batches)
        taken = order[step % batches * 100:][:100]
        activations, weights = [x[taken]], []
        for layer, flat in enumerate(own):
            rows = 32 if layer < 2 else y.shape[1]
            weight, bias = flat[:-rows].reshape(rows, -1)[:, :inputs[layer]], flat[-rows:]
            weights.append(weight)
            z = activations[-1] @ weight.T + bias
            activations.append(np.maximum(z, 0) if layer < 2 else np.tanh(z))
        error = activations[-1] - y[taken]
        size = np.abs(error)
        values = {"l2": error**2, "l1": size, "smooth_l1": np.where(size < 1, error**2 / 2, size - 0.5)}
        slopes = {"l2": 2 * error, "l1": np.sign(error), "smooth_l1": np.clip(error, -1, 1)}
        expected.append(values[loss].mean())
        delta = slopes[loss] / error.size * (1 - activations[-1] ** 2)
        for layer in (2, 1, 0):
            rows, columns = weights[layer].shape
            padded = np.zeros((rows, (len(own[layer]) - rows) // rows))
            padded[:, :columns] = delta.T @ activations[layer]
            gradient = np.concatenate([padded.ravel(), delta.sum(axis=0)]) + decay * own[layer]  # (torch's Adam, not AdamW)
            if layer > 0:
                delta = delta @ weights[layer] * (activations[layer] > 0)
            first[layer] = 0.9 * first[layer] + 0.1 * gradient
            second[layer] = 0.999 * second[layer] + 0.001 * gradient**2
            count = step + 1
            own[layer] = own[layer] - 1e-3 * (first[layer] / (1 - 0.9**count)) / (
                np.sqrt(second[layer] / (1 - 0.999**count)) + 1e-8)
    np.testing.assert_allclose(metric(tmp_path / "all", "loss")[1:], expected, rtol=2e-4)


def test_a_clone_of_a_trained_policy(maniple, tmp_path):
    """Actions in newtons, by a policy that sees what the task's observations are: min_max on both sides."""
    task = "inputs/tasks/isaac_cartpole.yaml"
    maniple("train", task, "batch.num_envs=512", "learning.iterations=40", f"output.directory={tmp_path / 'expert'}",
            ranks=2)
    common = ["control.source=policy", "batch.num_envs=32"]
    maniple("rollout", task, *common, f"control.checkpoint={tmp_path / 'expert'}", "initial_state.source=task",
            "simulation.steps=250", "output.trajectory.every=1", "output.trajectory.fields=[observation, action]",
            f"output.directory={tmp_path / 'record'}")
    with h5py.File(tmp_path / "record/results.h5") as file:
        observation, action = file["trajectory/observation"][()], file["trajectory/action"][()]
    with h5py.File(tmp_path / "demos.hdf5", "w") as file:
        for number in range(32):
            # (an action is recorded with the observation that it led to)
            file[f"data/demo_{number}/obs/state"] = observation[number, :-1]
            file[f"data/demo_{number}/actions"] = action[number, 1:]
            file[f"data/demo_{number}"].attrs["num_samples"] = len(action[number]) - 1
    policy = ["learning.preset=robomimic", "policy.hidden=[64, 64]", "policy.squash_actions=false"]
    result = maniple("imitate", task, *policy, f"data.file={tmp_path / 'demos.hdf5'}", "learning.steps=1500",
                     "learning.learning_rate=1e-3", "data.normalize_actions=mean_std", "evaluation.every=5",
                     "data.normalize_observations=min_max", "batch.num_envs=32", f"output.directory={tmp_path / 'clone'}",
                     ranks=2)
    assert re.search("best policy so far", result.stdout)
    returns = {}
    for name, keys in (("expert", []), ("clone", policy)):
        maniple("evaluate", task, "batch.num_envs=64", f"control.checkpoint={tmp_path / name}", *keys,
                f"output.directory={tmp_path / name}")
        with h5py.File(tmp_path / name / "evaluation.h5") as file:
            returns[name] = file["evaluation/episode_return"][()].mean()
    assert returns["expert"] > 4 and returns["clone"] > 0.95 * returns["expert"]
    # and as ONNX: the same actions
    subprocess.run([sys.executable, maniple.root / "tools/export_onnx.py", tmp_path / "clone"], check=True)
    maniple("rollout", task, *common, *policy, f"control.checkpoint={tmp_path / 'clone'}", "initial_state.source=task",
            "simulation.steps=5", "output.trajectory.every=1", "output.trajectory.fields=[observation, action]",
            f"output.directory={tmp_path / 'cloned'}")
    session = onnxruntime.InferenceSession(tmp_path / "clone/policy.onnx")
    with h5py.File(tmp_path / "cloned/results.h5") as file:
        seen, done = file["trajectory/observation"][:, :-1], file["trajectory/action"][:, 1:]
    given = session.run(None, {"observation": seen.reshape(-1, seen.shape[-1])})[0]
    np.testing.assert_allclose(given.reshape(done.shape), done, atol=1e-4 * np.abs(done).max())
    evaluated = metric(tmp_path / "clone", "evaluation_return")
    assert np.isnan(evaluated[:4]).all() and evaluated[-1] > 4
