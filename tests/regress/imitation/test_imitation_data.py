"""The data of a policy that imitates: normalization as the deck asks, the samples of each batch, learning rates, their
reports, and the parameters from which another run begins."""
# ctest: PROCESSORS 1

import h5py
import numpy as np
import pytest

from demonstrations import episodes, permutation, write_robomimic
from trainings import metric


def imitate(maniple, data, directory, *keys, ranks=1):
    return maniple("imitate", "inputs/imitate/bc.yaml", f"data.file={data}", "data.observations=[position, velocity]",
                   "policy.hidden=[32, 32]", f"output.directory={directory}", *keys, ranks=ranks)


@pytest.fixture(scope="module")
def demos(tmp_path_factory):
    return write_robomimic(tmp_path_factory.mktemp("data") / "demos.hdf5", episodes(12))


def frames_of(path):
    """(position, velocity, action) of each demonstration."""
    with h5py.File(path) as file:
        demos = [file[f"data/demo_{number}"] for number in range(len(file["data"]))]
        return [tuple(demo[key][()].astype(float) for key in ("obs/position", "obs/velocity", "actions")) for demo in demos]


@pytest.mark.parametrize("left", [[], ["data.not_normalized=[velocity]", "data.actions_not_normalized=[0]"]])
@pytest.mark.parametrize("kind", ["min_max", "mean_std"])
def test_numbers_are_normalized(maniple, tmp_path, kind, left):
    """As by the normalizers of diffusion_policy and robomimic, also where a number never changes or hardly does; what is to
    be left alone is."""
    made = episodes(6)
    for position, velocity, action in made:
        position[:, 1], action[:, 1] = 0.7, 0.25
        velocity[:, 0] = 3 + 2e-5 * np.sign(velocity[:, 1])
    path = write_robomimic(tmp_path / "demos.hdf5", made)
    imitate(maniple, path, tmp_path / "run", f"data.normalize_observations={kind}", f"data.normalize_actions={kind}",
            "data.frame_stack=2", "policy.squash_actions=false", "learning.steps=1", "learning.batch_size=50", *left)
    x = np.concatenate([np.concatenate(demo, axis=1) for demo in frames_of(path)])
    low, high = x.min(axis=0), x.max(axis=0)
    assert high[1] == low[1] and 0 < high[3] - low[3] < 1e-4
    if kind == "min_max":
        mean, scale = (low + high) / 2, np.where(high - low < 1e-4, 1, 2 / np.maximum(high - low, 1e-9))
    else:
        mean, scale = x.mean(axis=0), 1 / (x.std(axis=0) + 1e-3)
    if left:
        mean[3:6], scale[3:6] = 0, 1
    stack = [0, 1, 2, 0, 1, 2, 3, 4, 3, 4]
    expected = {"observation_mean": mean[stack], "observation_scale": scale[stack], "action_mean": mean[5:],
                "action_scale": 1 / scale[5:]}
    with h5py.File(maniple.checkpoints(tmp_path / "run")[-1]) as file:
        for name, values in expected.items():
            np.testing.assert_allclose(file[f"policy/{name}"][()], values, rtol=1e-5, atol=1e-6, err_msg=name)


def outputs_of(checkpoint, x):
    with h5py.File(checkpoint) as file:
        for layer in range(3):
            bias, weight = (file[f"policy/layer{layer}/{name}"][()].astype(float) for name in ("bias", "weight"))
            x = x @ weight.reshape(len(bias), -1)[:, :x.shape[1]].T + bias
            x = np.maximum(x, 0) if layer < 2 else np.tanh(x)
    return x


@pytest.mark.parametrize("keys", [["data.drop_last=true"], ["data.frame_stack=3"],
                                  ["data.frame_stack=3", "data.pad_frame_stack=false"]])
def test_batches_have_the_samples_that_are_asked_for(maniple, tmp_path, demos, keys):
    """By the losses of a network that does not learn, over two epochs."""
    stack = 3 if "data.frame_stack=3" in keys else 1
    begin = stack - 1 if "data.pad_frame_stack=false" in keys else 0
    x, y = [], []
    for position, velocity, action in frames_of(demos):
        rows = np.maximum(np.arange(begin, len(action))[:, None] + np.arange(1 - stack, 1), 0)
        x.append(np.concatenate([part[rows].reshape(len(rows), -1) for part in (position, velocity)], axis=1))
        y.append(action[begin:])
    x, y = np.concatenate(x), np.concatenate(y)
    assert len(x) % 40 != 0
    batches = len(x) // 40 + ("data.drop_last=true" not in keys)
    imitate(maniple, demos, tmp_path / "run", "learning.learning_rate=1e-30", "learning.report_every=1", "batch.seed=3",
            "learning.batch_size=40", f"learning.steps={2 * batches}", *keys)
    errors = (outputs_of(maniple.checkpoints(tmp_path / "run")[-1], x) - y) ** 2
    expected = [errors[permutation(len(x), 3, epoch)[batch * 40:][:40]].mean() for epoch in (0, 1) for batch in range(batches)]
    np.testing.assert_allclose(metric(tmp_path / "run", "loss"), expected, rtol=1e-4)


def test_reports_are_means_over_their_updates(maniple, tmp_path, demos):
    """Also of the last iteration, which has fewer; the norm is that of the gradient, which Adam's first moment is a tenth of
    after an update."""
    for name, keys in (("each", ["learning.steps=7", "learning.report_every=1"]),
                       ("three", ["learning.steps=7", "learning.report_every=3"]),
                       ("first", ["learning.steps=1", "learning.max_grad_norm=0"])):
        imitate(maniple, demos, tmp_path / name, *keys)
    for name in ("loss", "squared_error", "gradient_norm"):
        each = metric(tmp_path / "each", name)
        np.testing.assert_allclose(metric(tmp_path / "three", name), [each[:3].mean(), each[3:6].mean(), each[6]], rtol=1e-12)
    np.testing.assert_array_equal(metric(tmp_path / "three", "updates"), [3, 6, 7])
    with h5py.File(maniple.checkpoints(tmp_path / "first")[-1]) as file:
        moment = file["imitation/adam_moment1"][()].astype(float)
    assert metric(tmp_path / "first", "gradient_norm")[0] == pytest.approx(10 * np.linalg.norm(moment), rel=1e-5)


def test_gradients_are_clipped_as_by_torch(maniple, tmp_path):
    """Whose clip_grad_norm_ adds 1e-6 to the norm: of a gradient as small as that, what is left of it is half the limit."""
    made = [tuple(np.float32(1e-6) * part for part in episode) for episode in episodes(6)]
    data = write_robomimic(tmp_path / "demos.hdf5", made)
    limit = 5e-7
    imitate(maniple, data, tmp_path / "run", "policy.squash_actions=false", "learning.batch_size=50", "learning.steps=1",
            f"learning.max_grad_norm={limit}")
    norm = metric(tmp_path / "run", "gradient_norm")[0]
    assert limit < norm < 1e-5
    with h5py.File(maniple.checkpoints(tmp_path / "run")[-1]) as file:
        moment = file["imitation/adam_moment1"][()].astype(float)
    assert 10 * np.linalg.norm(moment) == pytest.approx(limit * norm / (norm + 1e-6), rel=1e-4)


def test_a_linear_schedule_goes_down_to_zero(maniple, tmp_path, demos):
    imitate(maniple, demos, tmp_path, "learning.schedule=linear", "learning.learning_rate=1e-3", "learning.steps=7",
            "learning.report_every=2")
    np.testing.assert_allclose(metric(tmp_path, "learning_rate"), 1e-3 * (1 - np.arange(4) / 4), rtol=1e-12)


def test_updates_whose_sums_are_too_large_make_no_step(maniple, tmp_path):
    made = [(1e25 * position, velocity, action) for position, velocity, action in episodes(6)]
    data = write_robomimic(tmp_path / "demos.hdf5", made)
    policies = []
    for steps in (1, 3):
        directory = tmp_path / str(steps)
        text = imitate(maniple, data, directory, "policy.squash_actions=false", "learning.batch_size=50", f"learning.steps={steps}",
                       "learning.report_every=3", ranks=2)
        assert f"{steps} of {steps} updates of iteration 1 made no step" in text.stdout + text.stderr
        assert metric(directory, "skipped_minibatches")[-1] == steps
        with h5py.File(maniple.checkpoints(directory)[-1]) as file:
            policies.append(file["policy/layer0/weight"][()])
    np.testing.assert_array_equal(*policies)


def test_a_warm_start_goes_on_with_parameters_and_moments(maniple, tmp_path, demos):
    """One batch has all samples, so that their order says nothing: ten updates after a warm start are those after the first
    twenty of a longer run."""
    keys = ["learning.report_every=1", "learning.learning_rate=1e-3",
            f"learning.batch_size={sum(len(action) for _, _, action in frames_of(demos))}"]
    imitate(maniple, demos, tmp_path / "whole", "learning.steps=30", *keys)
    imitate(maniple, demos, tmp_path / "first", "learning.steps=20", *keys)
    imitate(maniple, demos, tmp_path / "warm", "learning.steps=10", f"learning.warm_start={tmp_path / 'first'}", *keys, ranks=2)
    np.testing.assert_array_equal(metric(tmp_path / "warm", "updates"), np.arange(1, 11))
    whole = metric(tmp_path / "whole", "loss")
    assert np.abs(np.diff(whole[20:])).min() > 1e-3 * whole[20]
    np.testing.assert_allclose(metric(tmp_path / "warm", "loss"), whole[20:], rtol=1e-5)
