"""maniple imitate: the same bits on any number of ranks, continued anywhere; loss by loss what robomimic's BC computes;
and a clone of a policy that does its task as well."""
# ctest: PROCESSORS 1 COST 60

import errno
import re
import shutil
import subprocess
import sys
import tempfile

import h5py
import numpy as np
import onnxruntime
import pytest

from demonstrations import episodes, permutation, write_minari, write_robomimic
from trainings import check_kills, check_ranks, digests, metric

NIGHTLY = pytest.mark.nightly
KEYS = "data.observations=[position, velocity]"
DECK = "inputs/imitate/bc.yaml"


@pytest.fixture(scope="module")
def demos(tmp_path_factory):
    return write_robomimic(tmp_path_factory.mktemp("data") / "demos.hdf5", episodes(12), {"valid": [3]})


def arguments(data, *keys):
    return ("imitate", DECK, f"data.file={data}", KEYS, "policy.hidden=[32, 32]", *keys)


def run(maniple, data, directory, *keys, ranks=1, **rest):
    return maniple(*arguments(data, *keys), f"output.directory={directory}", ranks=ranks, **rest)


def test_intervals_count_updates(maniple, tmp_path, demos):
    """A checkpoint comes with the first report after its interval; an interval that no update of the run ends is refused."""
    keys = ["learning.steps=25", "learning.report_every=4", "learning.keep_checkpoints=9"]
    run(maniple, demos, tmp_path / "run", *keys, "learning.checkpoint_every=10")
    # after 12 and 20 updates, and at the end, which is iteration 7
    assert [int(file.stem) for file in maniple.checkpoints(tmp_path / "run")] == [3, 5, 7]
    for key in ("learning.checkpoint_every", "evaluation.every"):
        result = run(maniple, demos, tmp_path / "never", "learning.steps=25", f"{key}=26", exit_code=2)
        assert f"command line: {key}: found 26 with learning.steps 25; allowed: at most 25, updates of the whole run" in \
            result.stderr


@pytest.mark.parametrize("keys", [pytest.param(["learning.batch_size=100", "data.normalize_observations=mean_std"], marks=NIGHTLY),
                                  ["learning.batch_size=97", "data.frame_stack=3", "data.drop_last=true",
                                   "learning.loss=gaussian", "policy.squash_actions=false"]])
def test_any_number_of_ranks(maniple, tmp_path, demos, keys):
    check_ranks(maniple, tmp_path, *arguments(demos, "learning.steps=40", "learning.report_every=10",
                                              "learning.checkpoint_every=20", *keys))
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


@pytest.fixture(scope="module")
def begun(maniple, tmp_path_factory, demos):
    """A run of two reports that goes on."""
    directory = tmp_path_factory.mktemp("begun")
    run(maniple, demos, directory, "learning.report_every=2", "learning.resume=auto", "learning.steps=4")
    return directory


@pytest.mark.parametrize("key, found", [
    ("learning.report_every=3", "has 2, this run 3"),
    ("data.drop_last=true", "has false, this run true"),
    ("data.normalize_observations=min_max", 'has "none", this run "min_max"'),
    ("data.not_normalized=[position]", 'this run ["position"]'),
    ("data.validation_filter=valid", 'has "", this run "valid"')])
def test_other_samples_are_not_continued_with(maniple, begun, demos, key, found):
    """Settings that the order of samples, their numbers or the counts depend on, without a task, too."""
    before = digests(maniple, begun)
    result = run(maniple, demos, begun, "learning.report_every=2", "learning.resume=auto", "learning.steps=9", key, ranks=0,
                 exit_code=2, timeout=60)
    assert f"{key.split('=')[0]}: the checkpoint " in result.stderr and found in result.stderr
    assert digests(maniple, begun) == before


def test_data_may_come_from_elsewhere_when_a_run_goes_on(maniple, begun, tmp_path, demos):
    shutil.copytree(begun, tmp_path / "run")
    text = run(maniple, demos, tmp_path / "run", "learning.report_every=2", "learning.resume=auto", "learning.steps=6",
               "data.prefetch=1", "data.cache=file").stdout
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


@pytest.mark.parametrize("verb", [["validate"], ["bench", "scaling", "bench.iterations=1"]])
def test_every_verb_keeps_the_data_where_imitate_does(maniple, tmp_path, demos, verb):
    def run_verb(*keys, **rest):
        return maniple(*verb, DECK, f"data.file={demos}", KEYS, "learning.report_every=2", "policy.hidden=[8]",
                       f"output.directory={tmp_path / 'run'}", "output.overwrite=true", *keys, **rest)

    place = tmp_path / "scratch"
    place.mkdir()
    text = run_verb("data.cache=file", ranks=2, environment={"TMPDIR": place}).stdout
    assert f"MB for each rank in a file in {place}" in text and not list(place.iterdir())
    result = run_verb("data.cache=file", ranks=2, exit_code=1, environment={"TMPDIR": tmp_path / "missing"})
    assert result.stderr.count("maniple: error:") == 1 and "No such file or directory" in result.stderr
    result = run_verb("policy.hidden=[65536,65536,65536]", ranks=2, exit_code=2)
    assert re.search(r"policy\.hidden: \S+ MB for the policy, .* MB are available", result.stderr)


def test_a_file_in_memory_is_none(maniple, tmp_path, demos):
    """Of a TMPDIR that is tmpfs: the run's directory takes its place; where that is tmpfs, too, the data count."""
    keys = ["learning.steps=1", "data.cache=file"]
    out = run(maniple, demos, tmp_path / "run", *keys, environment={"TMPDIR": "/dev/shm"})
    assert f"in a file in {tmp_path / 'run'}" in out.stdout and "tmpfs" not in out.stdout + out.stderr
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        out = run(maniple, demos, f"{directory}/run", *keys, environment={"TMPDIR": directory})
    assert f"warning: data.cache: a file in {directory} takes memory, since that is tmpfs" in out.stdout + out.stderr


def data_of_cartpole(path):
    rng = np.random.default_rng(5)
    with h5py.File(path, "w") as file:
        for number in range(4):
            file[f"data/demo_{number}/obs/state"] = rng.normal(size=(30, 4))
            file[f"data/demo_{number}/actions"] = rng.uniform(-1, 1, (30, 1))
    return path


def test_observations_are_matched_by_name(maniple, tmp_path):
    """What task and data call alike is at the same place, or is refused; where they have other names, place decides, and a
    line says so."""
    deck = ["inputs/tasks/isaac_cartpole.yaml", "inputs/imitate/bc.yaml", "learning.batch_size=32", "learning.steps=1"]
    rng = np.random.default_rng(5)

    def told(*keys, names=("joint_pos_rel", "joint_vel_rel"), widths=(2, 2), exit_code=0):
        path = tmp_path / "demos.hdf5"
        with h5py.File(path, "w") as file:
            for number in range(4):
                for name, width in zip(names, widths):
                    file[f"data/demo_{number}/obs/{name}"] = rng.normal(size=(30, width))
                file[f"data/demo_{number}/actions"] = rng.uniform(-1, 1, (30, 1))
        results = [maniple(verb, *deck, *keys, f"data.file={path}", f"output.directory={tmp_path / 'run'}", "output.overwrite=true",
                           exit_code=exit_code) for verb in ("validate", "imitate")]
        assert ("demonstrations (" in results[0].stdout) == ("demonstrations (" in results[1].stdout)
        return results[1].stderr if exit_code else results[1].stdout

    assert "by their order" not in told()
    task = "while the task observes joint_pos_rel 2, joint_vel_rel 2; "
    assert f"found joint_vel_rel 2, joint_pos_rel 2, {task}" in told("data.observations=[joint_vel_rel, joint_pos_rel]", exit_code=2)
    assert f"found joint_pos_rel 1, joint_vel_rel 3, {task}" in told(widths=(1, 3), exit_code=2)
    assert f"found a_vel 2, joint_pos_rel 2, {task}" in told(names=("a_vel", "joint_pos_rel"), exit_code=2)
    assert ("observations of the demonstrations (joint_pos_rel 2, vel 2) are those of the task (joint_pos_rel 2, joint_vel_rel 2) by "
            "their order") in told("data.observations=[joint_pos_rel, vel]", names=("vel", "joint_pos_rel"))


def test_memory_of_evaluations(maniple, tmp_path):
    """Environments are there for evaluations alone: as many as those have, and none where there are none."""
    data = data_of_cartpole(tmp_path / "demos.hdf5")

    def megabytes(*keys, verb="validate"):
        text = maniple(verb, "inputs/tasks/isaac_cartpole.yaml", "inputs/imitate/bc.yaml", f"data.file={data}", "learning.batch_size=32",
                       "policy.hidden=[8]", "learning.steps=1", f"output.directory={tmp_path / 'run'}", *keys,
                       "output.overwrite=true" if verb == "imitate" else "learning.keep_checkpoints=3").stdout
        found = re.search(r"memory: \S+ MB of data, (\S+) MB of the policy(?:, (\S+) MB of environments)? per rank", text)
        return [float(number or 0) for number in found.groups()]

    # (more environments than any machine has room for)
    many = ["batch.num_envs=100000000"]
    for keys in (many, [*many, "evaluation.every=1"], [*many, "evaluation.every=1", "evaluation.episodes=3200"]):
        found = [megabytes(*keys, verb=verb) for verb in ("imitate", "validate")]
        assert found[0] == found[1]
    assert megabytes(*many)[1] <= megabytes(*many, "evaluation.every=1")[1] < found[0][1] / 2
    result = maniple("validate", "inputs/tasks/isaac_cartpole.yaml", "inputs/imitate/bc.yaml", f"data.file={data}",
                     "learning.batch_size=32", "batch.num_envs=1000000000000", "evaluation.every=1",
                     "evaluation.episodes=1000000000000", exit_code=2)
    assert re.search(r"evaluation\.episodes: \S+ MB for 1000000000000 environments of evaluations, ", result.stderr)


def test_evaluations_need_rewards(maniple, tmp_path):
    data = data_of_cartpole(tmp_path / "demos.hdf5")
    result = maniple("imitate", "inputs/tasks/isaac_cartpole.yaml", "inputs/imitate/bc.yaml", f"data.file={data}", "learning.steps=1",
                     "learning.batch_size=32", "task.rewards=~", "evaluation.every=1", f"output.directory={tmp_path / 'run'}", exit_code=2)
    assert "command line: evaluation.every: evaluations of a task without rewards; " in result.stderr


def test_memory_of_policies_that_remember(maniple):
    """Depends on the sequences that they learn from, not on rollouts that there are none of."""
    def line(*keys):
        text = maniple("validate", "inputs/tasks/isaac_cartpole.yaml", "learning.preset=robomimic_rnn", *keys).stdout
        return re.search(r"memory: (.*) \(evaluate\)", text)[1]

    assert line("learning.horizon=1") == line("learning.horizon=1000")
    assert line("policy.recurrent_horizon=10") != line("policy.recurrent_horizon=1000")


@pytest.mark.parametrize("deck, keys, found", [
    ("bc", ["data.weights=1e9", "learning.batch_size=1000000000"], r"learning\.batch_size: \S+ MB for batches of 1000000000 samples"),
    ("bc_rnn", ["policy.recurrent_units=65536"], r"policy\.recurrent_units: \S+ MB for the policy"),
    ("diffusion", ["diffusion.down_dims=[65536, 65536, 65536]", "learning.batch_size=32"], r"diffusion\.down_dims: \S+ MB for the policy"),
])
def test_memory_is_refused_by_the_key_that_asks_for_it(maniple, demos, deck, keys, found):
    result = maniple("validate", f"inputs/imitate/{deck}.yaml", f"data.file={demos}", KEYS, *keys, ranks=2, exit_code=2)
    assert re.search(found + r", \S+ MB in all on a rank, \S+ MB for the 2 ranks of host \S+; \S+ MB are available", result.stderr)


def test_a_run_that_learns_nothing_ends(maniple, tmp_path):
    """Sums of such numbers are never finite."""
    made = [(position * np.float32(1e37), velocity, action) for position, velocity, action in episodes(3)]
    data = write_robomimic(tmp_path / "demos.hdf5", made)
    for steps, updates in ((20, 20), (1000, 100)):
        result = run(maniple, data, tmp_path / str(steps), f"learning.steps={steps}", "learning.batch_size=32",
                     "policy.squash_actions=false", ranks=2, exit_code=1, timeout=60)
        assert result.stderr.count("maniple: error:") == 1
        assert f"none of the last {updates} updates made a step" in result.stderr


def test_nothing_left_names_the_steps(maniple, tmp_path, demos):
    keys = ["learning.steps=4", "learning.report_every=2", "learning.resume=auto"]
    run(maniple, demos, tmp_path, *keys)
    assert "nothing left to do: iteration 2 of learning.steps=4 is done" in run(maniple, demos, tmp_path, *keys).stdout


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


def test_one_is_not_many(maniple, tmp_path):
    """In what is told of data, at the least that there can be."""
    made = [tuple(part[:count] for part, count in zip(episodes(1)[0], (2, 2, 1)))]
    path = write_robomimic(tmp_path / "demos.hdf5", [(position, velocity[:, :1], action) for position, velocity, action in made])
    text = run(maniple, path, tmp_path / "run", "learning.steps=1", "learning.batch_size=1").stdout
    assert "\n1 demonstration, 1 sample, 1 batch of 1 per epoch\n" in text


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


@pytest.mark.nightly
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
                     "learning.learning_rate=1e-3", "data.normalize_actions=mean_std", "evaluation.every=500",
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
