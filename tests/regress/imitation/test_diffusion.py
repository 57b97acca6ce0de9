"""Diffusion policies: the windows, the noise, the loss and the action sequences of the published implementation,
written out in numpy; the same bits on any number of ranks, continued anywhere; and refusals of unsuitable settings."""
# ctest: PROCESSORS 1 COST 60

import subprocess
import sys

import h5py
import numpy as np
import onnxruntime
import pytest

from conftest import BUILD, ENVIRONMENT, of_the_day
from demonstrations import episodes, normal, permutation, philox, write_robomimic
from trainings import check_kills, check_ranks, digests, metric
from unet_in_numpy import backward, unet

KEYS = ["data.observations=[position, velocity]", "diffusion.down_dims=[16, 32]", "diffusion.groups=4",
        "diffusion.kernel_size=3", "diffusion.step_embedding=16", "learning.warmup_steps=20", "learning.learning_rate=3e-4"]
DECK = "inputs/imitate/diffusion.yaml"
STEPS, NOISE, PLANS = 12, 13, 14  # streams of kernels/base/philox.hpp


@pytest.fixture(scope="module")
def demos(tmp_path_factory):
    return write_robomimic(tmp_path_factory.mktemp("data") / "demos.hdf5", episodes(12, shortest=9))


def arguments(data, *keys):
    return ("imitate", DECK, f"data.file={data}", *KEYS, *keys)


def run(maniple, data, directory, *keys, ranks=1, **rest):
    return maniple(*arguments(data, *keys), f"output.directory={directory}", ranks=ranks, **rest)


def tensors(checkpoint):
    """The network's parameters by torch's names, and the units of the data."""
    with h5py.File(checkpoint) as file:
        policy = file["policy"]
        units = {name: policy[name][()].astype(float) for name in policy if name.endswith(("_mean", "_scale"))}
        shapes = {name: eval(policy[name].attrs["description"].split(", as torch")[0]) for name in policy if name not in units}
        return {name: policy[name][()].astype(float).reshape(shape) for name, shape in shapes.items()}, units


def remaining(steps):
    """alphas_cumprod of squaredcos_cap_v2."""
    def bar(t):
        return np.cos((t + 0.008) / 1.008 * np.pi / 2) ** 2

    beta = np.float32([min(1 - bar((i + 1) / steps) / bar(i / steps), 0.999) for i in range(steps)])
    return np.cumprod((np.float32(1) - beta).astype(float))


def windows(lengths, horizon, before, after):
    """diffusion_policy's common/sampler.py, create_indices: frames of each sample, the ends repeated."""
    found, offset = [], 0
    for length in lengths:
        for start in range(-before, length - horizon + after + 1):
            found.append(offset + np.clip(np.arange(start, start + horizon), 0, length - 1))
        offset += length
    return np.array(found)


def frames_of(demos):
    """Observations and actions of all frames, and the lengths of the demonstrations."""
    with h5py.File(demos) as file:
        names = sorted(file["data"], key=lambda name: int(name[5:]))
        seen = [np.concatenate([file[f"data/{n}/obs/{k}"] for k in ("position", "velocity")], axis=1) for n in names]
        done = [file[f"data/{n}/actions"][()] for n in names]
    return np.concatenate(seen).astype(float), np.concatenate(done).astype(float), [len(a) for a in done]


def min_max(x):
    return min_max_of(x, x)


def min_max_of(x, known):
    low, high = known.min(axis=0), known.max(axis=0)
    return (x - (low + high) / 2) * 2 / (high - low)


# (200 samples are more tiles than the network takes at a time, and those of several ranks are not)
@pytest.mark.parametrize("keys", [pytest.param(["learning.batch_size=200"], marks=pytest.mark.nightly),
                                  ["learning.batch_size=97", "learning.accumulate=2", "data.drop_last=true",
                                   "diffusion.prediction=sample", "diffusion.film_scale=false", "learning.ema=false"]])
def test_any_number_of_ranks(maniple, tmp_path, demos, keys):
    check_ranks(maniple, tmp_path, *arguments(demos, "learning.steps=20", "learning.report_every=5",
                                              "learning.checkpoint_every=10", *keys))
    loss = metric(tmp_path / "1", "loss")
    assert len(loss) == 4 and loss[-1] < loss[0]


@pytest.mark.nightly
def test_killed_and_continued_on_other_ranks(maniple, tmp_path, demos):
    check_kills(maniple, tmp_path, *arguments(demos, "learning.steps=150", "learning.report_every=5", "learning.batch_size=64"),
                counts=(2, 1), most=6)


@pytest.mark.parametrize("prediction", of_the_day(["epsilon", "sample"], "epsilon"))
def test_every_loss_is_the_references(maniple, tmp_path, demos, prediction):
    """200 updates from the first weights on: windows, noise, forward and backward pass, AdamW, cosine and averages, in
    double precision."""
    keys = ["learning.report_every=1", "batch.seed=3", "learning.batch_size=32", "diffusion.prediction_horizon=8",
            "diffusion.action_horizon=4", "diffusion.pad_after=3", f"diffusion.prediction={prediction}",
            "learning.weight_decay=1e-2"]
    steps, seed, warmup = 200, 3, 20
    run(maniple, demos, tmp_path / "first", "learning.steps=1", *keys)  # (the first learning rate is 0)
    run(maniple, demos, tmp_path / "all", f"learning.steps={steps}", "learning.checkpoint_every=40",
        "learning.keep_checkpoints=9", *keys, ranks=2)
    own, _ = tensors(maniple.checkpoints(tmp_path / "first")[-1])
    seen, done, lengths = frames_of(demos)
    seen, done = min_max(seen), min_max(done)
    rows = windows(lengths, 8, 1, 3)
    schedule = remaining(100)
    average = {name: x.copy() for name, x in own.items()}
    first, second = ({name: np.zeros_like(x) for name, x in own.items()} for _ in range(2))
    batches, expected = -(-len(rows) // 32), []
    for update in range(steps):
        if update % batches == 0:
            order = permutation(len(rows), seed, update // batches)
        taken = rows[order[update % batches * 32:][:32]]
        place = np.arange(len(taken), dtype=np.uint64)
        zero = np.zeros_like(place)
        step = (philox([place, zero, zero + np.uint64(update), zero], [seed, STEPS])[0] * np.uint64(100)
                >> np.uint64(32)).astype(int)
        clean = done[taken]
        z = normal(NOISE, seed, place, update, clean[0].size).reshape(clean.shape)
        share = schedule[step][:, None, None]
        noisy = np.sqrt(share) * clean + np.sqrt(1 - share) * z
        predicted, values = unet(own, noisy, step, seen[taken[:, :2]].reshape(len(taken), -1), groups=4)
        error = predicted.array - (z if prediction == "epsilon" else clean)
        expected.append((error**2).mean())
        backward(predicted, 2 * error / error.size)
        progress = (update - warmup) / (steps - warmup)
        rate = 3e-4 * (update / warmup if update < warmup else 0.5 * (1 + np.cos(np.pi * progress)))
        decay = 0 if update < 2 else min(1 - update**-0.75, 0.9999)
        for name, value in values.items():
            first[name] = 0.95 * first[name] + 0.05 * value.grad
            second[name] = 0.999 * second[name] + 0.001 * value.grad**2
            own[name] = own[name] * (1 - rate * 1e-2) - rate * (first[name] / (1 - 0.95 ** (update + 1))) / (
                np.sqrt(second[name] / (1 - 0.999 ** (update + 1))) + 1e-8)
            average[name] = decay * average[name] + (1 - decay) * own[name]
        if update == 39:  # (before the two precisions have gone apart)
            found, _ = tensors(maniple.checkpoints(tmp_path / "all")[0])
            for name in average:
                np.testing.assert_allclose(found[name], average[name], atol=2e-4, err_msg=name)
    np.testing.assert_allclose(metric(tmp_path / "all", "loss"), expected, rtol=1e-3)
    assert expected[-1] < 0.7 * expected[0]


def test_losses_of_held_out_demonstrations(maniple, tmp_path):
    """Of the parameters that learn, not of their averages, with the same noise after each epoch."""
    held_out, rest = [9, 2, 11, 5, 0], [1, 3, 4, 6, 7, 8, 10]
    data = write_robomimic(tmp_path / "demos.hdf5", episodes(12, shortest=9), {"valid": held_out, "rest": rest})
    seen, done, lengths = frames_of(data)
    of_demo = np.repeat(np.arange(12), lengths)
    seen, done = (min_max_of(x, x[np.isin(of_demo, rest)]) for x in (seen, done))
    epoch = -(-len(windows([lengths[n] for n in rest], 8, 1, 3)) // 32)
    keys = ["batch.seed=3", "learning.batch_size=32", "diffusion.prediction_horizon=8", "diffusion.action_horizon=4",
            "diffusion.pad_after=3", "learning.checkpoint_every=1", "learning.keep_checkpoints=9", f"learning.steps={2 * epoch}",
            "data.validation_filter=valid", f"learning.report_every={epoch}"]
    for name, ema, ranks in (("1", "false", 1), ("3", "false", 3), ("averages", "true", 2)):
        run(maniple, data, tmp_path / name, *keys, f"learning.ema={ema}", ranks=ranks)
    assert digests(maniple, tmp_path / "1") == digests(maniple, tmp_path / "3")
    losses = metric(tmp_path / "1", "validation_loss")
    np.testing.assert_array_equal(metric(tmp_path / "averages", "validation_loss"), losses)
    first = np.concatenate([[0], np.cumsum(lengths)])
    rows = np.concatenate([first[n] + windows([lengths[n]], 8, 1, 3) for n in sorted(held_out)])
    rows = rows[permutation(len(rows), 3, 0)]
    place, update = np.arange(len(rows), dtype=np.uint64), 2**32 - 1
    zero = np.zeros_like(place)
    step = (philox([place, zero, zero + np.uint64(update), zero], [3, STEPS])[0] * np.uint64(100) >> np.uint64(32)).astype(int)
    clean, share = done[rows], remaining(100)[step][:, None, None]
    z = normal(NOISE, 3, place, update, clean[0].size).reshape(clean.shape)
    noisy = np.sqrt(share) * clean + np.sqrt(1 - share) * z
    for checkpoint, loss in zip(maniple.checkpoints(tmp_path / "1"), losses, strict=True):
        predicted, _ = unet(tensors(checkpoint)[0], noisy, step, seen[rows[:, :2]].reshape(len(rows), -1), groups=4)
        assert loss == pytest.approx(((predicted.array - z) ** 2).mean(), rel=1e-4)


def test_a_warm_start_begins_with_the_averages(maniple, tmp_path, demos):
    keys = ["learning.batch_size=64", "learning.report_every=1"]
    run(maniple, demos, tmp_path / "first", "learning.steps=30", *keys)
    run(maniple, demos, tmp_path / "warm", f"learning.warm_start={tmp_path / 'first'}", "learning.steps=2", *keys,
        "learning.learning_rate=1e-30", "learning.warmup_steps=0", ranks=2)
    first, warm = (tensors(maniple.checkpoints(tmp_path / name)[-1])[0] for name in ("first", "warm"))
    for name in first:  # (the first averages are what learns)
        np.testing.assert_allclose(warm[name], first[name], rtol=1e-6, atol=1e-9, err_msg=name)


def plan(parameters, seen, seed, env, control_step, steps, sampler):
    """Normalized actions [horizon, actions] that diffusers' schedulers make of noise, of observations [2, n]."""
    schedule, horizon = remaining(100), 8
    stride = 100 // steps
    x = normal(PLANS, seed, [env], control_step, horizon).reshape(1, horizon, 1)
    for number, t in enumerate(range((steps - 1) * stride, -1, -stride), start=1):
        now, before = schedule[t], schedule[t - stride] if t >= stride else 1.0
        epsilon = unet(parameters, x, [t], seen.reshape(1, -1), groups=4)[0].array
        clean = np.clip((x - np.sqrt(1 - now) * epsilon) / np.sqrt(now), -1, 1)
        if sampler == "ddim":
            x = np.sqrt(before) * clean + np.sqrt(1 - before) * epsilon
            continue
        beta = 1 - now / before
        x = np.sqrt(before) * beta / (1 - now) * clean + np.sqrt(now / before) * (1 - before) / (1 - now) * x
        if t > 0:
            z = normal(PLANS, seed, [env], control_step, horizon, number * horizon).reshape(1, horizon, 1)
            x = x + np.sqrt((1 - before) / (1 - now) * beta) * z
    return x[0]


@pytest.fixture(scope="module")
def cartpole(maniple, tmp_path_factory):
    """A diffusion policy of little use for the cart pole, and what its runs are given."""
    folder = tmp_path_factory.mktemp("cartpole")
    rng = np.random.default_rng(5)
    with h5py.File(folder / "demos.hdf5", "w") as file:
        for number in range(8):
            state = rng.normal(size=(40, 4)).cumsum(axis=0) * 0.2
            file[f"data/demo_{number}/obs/state"] = state
            file[f"data/demo_{number}/actions"] = 30 * np.sin(state[:, :1]) + state[:, 1:2]
            file[f"data/demo_{number}"].attrs["num_samples"] = 40
    task = ["inputs/tasks/isaac_cartpole.yaml", "learning.preset=diffusion_policy", *KEYS[1:],
            "diffusion.prediction_horizon=8", "diffusion.action_horizon=4", "diffusion.pad_after=3"]
    result = maniple("imitate", *task, f"data.file={folder / 'demos.hdf5'}", "learning.steps=60", "learning.batch_size=32",
                     "learning.report_every=30", "diffusion.inference_steps=5", "evaluation.every=30", "evaluation.episodes=3",
                     "batch.num_envs=3", "task.episode_length=0.5", f"output.directory={folder / 'run'}", ranks=2)
    assert "best policy so far" in result.stdout
    return folder / "run", task


@pytest.mark.parametrize("sampler, steps, envs", of_the_day([("ddpm", 100, 70), ("ddpm", 20, 70), ("ddim", 10, 300)],
                                                            ("ddpm", 20, 70), ("ddim", 10, 300)))
def test_plans_are_the_references(maniple, tmp_path, cartpole, sampler, steps, envs):
    """Each environment plans again after 4 actions, from its last two observations, and when an episode begins; also where
    more of them plan than the network takes at a time."""
    directory, task = cartpole
    record = ["rollout", *task, "control.source=policy", f"control.checkpoint={directory}", "initial_state.source=task",
              f"diffusion.sampler={sampler}", f"diffusion.inference_steps={steps}", "simulation.steps=26",
              f"batch.num_envs={envs}", "batch.seed=9", "output.trajectory.every=1", "task.episode_length=0.24",
              "output.trajectory.fields=[observation, action, terminated, truncated]"]
    for ranks in (1, 3):
        maniple(*record, f"output.directory={tmp_path / str(ranks)}", ranks=ranks)
    assert maniple.digest(tmp_path / "1/results.h5") == maniple.digest(tmp_path / "3/results.h5")
    parameters, units = tensors(maniple.checkpoints(directory)[-1])
    with h5py.File(tmp_path / "1/results.h5") as file:
        seen, done = file["trajectory/observation"][()], file["trajectory/action"][()]
        ended = (file["trajectory/terminated"][()] + file["trajectory/truncated"][()])[:, :, 0] > 0
    assert ended[:, :20].any(axis=1).all()  # so that plans end within
    for env in (0, 33, envs - 1):
        begun, left = 0, 0
        for step in range(26):
            if step > 0 and ended[env, step]:
                begun, left = step, 0
            if left == 0:
                now = (seen[env, [max(begun, step - 1), step]] - units["observation_mean"]) * units["observation_scale"]
                actions = plan(parameters, now, 9, env, step, steps, sampler)[1:5]
                left = 4
            wanted = units["action_mean"] + units["action_scale"] * actions[4 - left]
            np.testing.assert_allclose(done[env, step + 1], wanted, atol=2e-3 * units["action_scale"].max(), err_msg=f"{env} {step}")
            left -= 1


def test_evaluations_are_the_same_on_any_ranks(maniple, tmp_path, cartpole):
    directory, task = cartpole
    returns = []
    for ranks in (1, 3):
        maniple("evaluate", *task, f"control.checkpoint={directory}", "diffusion.sampler=ddim", "diffusion.inference_steps=2",
                "batch.num_envs=70", "task.episode_length=0.5", f"output.directory={tmp_path / str(ranks)}", ranks=ranks)
        with h5py.File(tmp_path / str(ranks) / "evaluation.h5") as file:
            returns.append(file["evaluation/episode_return"][()])
    assert len(returns[0]) == 70 and np.array_equal(*returns)


def test_a_policy_of_another_shape_is_refused(maniple, tmp_path, cartpole):
    directory, task = cartpole
    result = maniple("evaluate", *task, f"control.checkpoint={directory}", "diffusion.observation_horizon=3",
                     f"output.directory={tmp_path}", exit_code=2)
    assert "diffusion.observation_horizon" in result.stderr


def test_the_algorithm_of_a_checkpoint_is_named(maniple, tmp_path, cartpole, demos):
    directory, _ = cartpole
    result = maniple("evaluate", "inputs/tasks/isaac_cartpole.yaml", f"control.checkpoint={directory}",
                     f"output.directory={tmp_path}", exit_code=2)
    assert "learning.algorithm: the checkpoint has a diffusion policy" in result.stderr
    other = ["inputs/imitate/bc.yaml", f"data.file={demos}", KEYS[0], "policy.hidden=[8]", "learning.steps=1"]
    result = maniple("imitate", *other, f"learning.warm_start={directory}", f"output.directory={tmp_path}", exit_code=2)
    assert "learning.algorithm: the checkpoint has a diffusion policy" in result.stderr
    maniple("imitate", *other, f"output.directory={tmp_path / 'bc'}")
    result = run(maniple, demos, tmp_path / "warm", "learning.batch_size=32", f"learning.warm_start={tmp_path / 'bc'}", exit_code=2)
    assert "learning.algorithm: the checkpoint has none; this run has diffusion" in result.stderr


@pytest.mark.parametrize("key", ["learning.ema=false", "diffusion.pad_after=8"])
def test_other_averages_and_samples_are_not_continued_with(maniple, tmp_path, demos, key):
    keys = ["learning.batch_size=32", "learning.report_every=1", "learning.resume=auto"]
    run(maniple, demos, tmp_path, *keys, "learning.steps=2")
    result = run(maniple, demos, tmp_path, *keys, "learning.steps=3", key, exit_code=2)
    assert f"{key.split('=')[0]}: the checkpoint has" in result.stderr


def test_windows_are_those_of_the_references(demos):
    """Sample by sample: those of diffusion_policy, and with other padding of robomimic (frame_stack 2, seq_length 16, whose
    17th frame nobody learns from)."""
    _, done, lengths = frames_of(demos)
    width = 7  # 3 + 2 observations, 2 actions
    for after, before in ((7, 1), (14, 1), (0, 1), (7, 0), (0, 0)):
        result = subprocess.run([BUILD / "maniple_window_tool", "2", "15", str(before), "1", f"data.file={demos}", KEYS[0],
                                 "learning.algorithm=diffusion", f"diffusion.pad_after={after}"], capture_output=True,
                                env=ENVIRONMENT)
        assert result.returncode == 0, result.stderr.decode()
        found = np.frombuffer(result.stdout, np.float32).reshape(-1, 16, width)[:, :, 5:]
        expected = done[windows(lengths, 16, before, after)]
        assert found.shape == expected.shape
        np.testing.assert_array_equal(found, expected.astype(np.float32))


@pytest.mark.parametrize("keys, message", [
    (["diffusion.action_horizon=16"], "diffusion.action_horizon: found 16; allowed: at most 15, diffusion.prediction_horizon - "
                                      "diffusion.observation_horizon + 1"),
    (["diffusion.observation_horizon=17"], "diffusion.observation_horizon: found 17; allowed: at most diffusion.prediction_horizon (16)"),
    (["diffusion.inference_steps=101"], "diffusion.inference_steps: found 101; allowed: at most diffusion.train_steps (100)"),
    (["diffusion.prediction_horizon=15"], "diffusion.prediction_horizon: found 15"),
    (["diffusion.kernel_size=4"], "diffusion.kernel_size: found 4"),
    (["diffusion.groups=5"], "diffusion.down_dims: found 16; allowed: multiples of the 5 groups"),
    (["data.frame_stack=2"], "data.frame_stack: found 2 with learning.algorithm: diffusion; allowed: 1"),
    (["learning.ema_min=1"], "learning.ema_min: found 1; allowed: at most learning.ema_max (0.9999)"),
    (["learning.batch_size=100000"], "learning.batch_size: found 100000; allowed: at most"),
    (["learning.algorithm=bc"], "learning.ema: found true with learning.algorithm: bc"),
])
def test_what_does_not_fit_is_refused(maniple, tmp_path, demos, keys, message):
    result = run(maniple, demos, tmp_path / "run", "learning.batch_size=32", *keys, ranks=0, exit_code=2, timeout=60)
    assert message in result.stderr
    assert result.stderr.count("allowed: ") == 1


def test_the_denoising_network_as_onnx(maniple, tmp_path, cartpole):
    """With the schedule beside it: onnxruntime makes the plans of the program."""
    directory, _ = cartpole
    subprocess.run([sys.executable, maniple.root / "tools/export_onnx.py", directory, "--output", tmp_path / "policy.onnx"],
                   check=True)
    session = onnxruntime.InferenceSession(tmp_path / "policy.onnx")
    properties = session.get_modelmeta().custom_metadata_map
    parameters, units = tensors(maniple.checkpoints(directory)[-1])
    rng = np.random.default_rng(2)
    observation = rng.normal(size=(5, 2, 4)).astype(np.float32)
    noisy, step = rng.normal(size=(5, 8, 1)).astype(np.float32), np.array([0, 3, 50, 98, 99], np.int64)
    given = session.run(None, {"noisy": noisy, "step": step, "observation": observation})[0]
    condition = (observation - units["observation_mean"]) * units["observation_scale"]
    expected = unet(parameters, noisy, step, condition.reshape(5, -1), groups=4)[0].array
    np.testing.assert_allclose(given, expected, atol=1e-4)
    np.testing.assert_allclose(np.fromstring(properties["alphas_cumprod"], sep=","), remaining(100), rtol=1e-6)
    np.testing.assert_allclose(np.fromstring(properties["action_scale"], sep=","), units["action_scale"], rtol=1e-6)
    assert properties["prediction_type"] == "epsilon" and properties["clip_sample"] == "true"
    assert properties["observation_horizon"] == "2" and properties["action_horizon"] == "4"
