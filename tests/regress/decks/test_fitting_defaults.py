"""Default values that do not fit shrink with a notice; values of the deck that do not fit are refused."""
# ctest: PROCESSORS 1

import re

import h5py
import numpy as np
import pytest
from demonstrations import episodes, write_robomimic

DECK = "inputs/train/isaac_cartpole.yaml"


@pytest.mark.parametrize("envs, ranks", [(32, 1), (64, 2)])
def test_minibatches_of_a_recurrent_policy(maniple, tmp_path, envs, ranks):
    keys = [f"batch.num_envs={envs}", "policy.recurrent=gru", "policy.recurrent_units=8", "learning.iterations=1", "learning.horizon=8"]
    note = (f"learning.minibatches: using {envs // 32} instead of the default 4, because batch.num_envs {envs} with policy.recurrent gru "
            "cannot be divided further")
    assert note in maniple("train", DECK, *keys, "learning.minibatches=~", f"output.directory={tmp_path / 'run'}", ranks=ranks).stdout
    with h5py.File(tmp_path / "run/results.h5") as file:
        assert f"minibatches: {envs // 32}\n" in file["run/resolved"].asstr()[()]
    assert note in maniple("validate", DECK, *keys, "learning.minibatches=~").stdout
    text = maniple("train", DECK, *keys, "learning.minibatches=4", f"output.directory={tmp_path / 'no'}", exit_code=2).stderr
    assert "learning.minibatches: found 4 with policy.recurrent gru" in text


def test_the_batch_of_a_preset_with_few_samples(maniple, tmp_path):
    made = episodes(3, shortest=5, longest=12)
    samples = sum(len(action) for _, _, action in made)
    assert samples < 100
    write_robomimic(tmp_path / "demos.hdf5", made)
    keys = [f"data.file={tmp_path / 'demos.hdf5'}", "learning.steps=3", "policy.hidden=[8]"]
    note = f"learning.batch_size: using {samples} instead of the default 100, because an epoch has {samples} samples"
    assert note in maniple("validate", *keys).stdout
    text = maniple("imitate", *keys, f"output.directory={tmp_path / 'run'}", ranks=2).stdout
    assert note in text and f"1 batch of {samples} per epoch" in text
    half = maniple("imitate", *keys, "learning.accumulate=2", f"output.directory={tmp_path / 'half'}").stdout
    assert f"learning.batch_size: using {samples // 2} instead of the default 100, because an epoch has {samples} samples for 2 such batches" in half
    text = maniple("validate", *keys, f"learning.batch_size={samples - 3}", "data.drop_last=true").stdout
    assert "; 3 samples of each epoch fill no batch and are left out (data.drop_last)" in text
    text = maniple("imitate", *keys, "learning.batch_size=100", f"output.directory={tmp_path / 'no'}", exit_code=2).stderr
    assert f"learning.batch_size: found 100; allowed: at most {samples}" in text


def test_short_demonstrations_under_diffusion(maniple, tmp_path):
    """Skipped, as diffusion_policy's SequenceSampler does, and counted; where none is left, refused."""
    made = episodes(6, shortest=20, longest=30)
    for number, frames in ((1, 3), (4, 5)):
        made[number] = tuple(part[:frames + (index < 2)] for index, part in enumerate(made[number]))
    write_robomimic(tmp_path / "demos.hdf5", made)
    keys = ["learning.preset=diffusion_policy", "diffusion.down_dims=[16, 32]", "diffusion.step_embedding=16", "diffusion.groups=4",
            "learning.steps=2", "data.normalize_actions=min_max"]
    horizon, before, after = 16, 1, 7
    lengths = [len(action) for _, _, action in made]
    samples = sum(max(0, length - horizon + before + after + 1) for length in lengths)
    text = maniple("imitate", f"data.file={tmp_path / 'demos.hdf5'}", *keys, f"output.directory={tmp_path / 'run'}").stdout
    assert f"6 demonstrations, {samples} samples" in text
    assert re.search(r"; 2 demonstrations \(8 frames\) of these too short, left out", text), text
    write_robomimic(tmp_path / "short.hdf5", [made[1], made[4]])
    text = maniple("imitate", f"data.file={tmp_path / 'short.hdf5'}", *keys, f"output.directory={tmp_path / 'no'}", exit_code=2).stderr
    assert "has 3 frames; allowed: at least 8 without padding, or less with a larger diffusion.pad_after" in text
    # a file of nothing but short ones beside another
    text = maniple("imitate", f"data.file=[{tmp_path / 'short.hdf5'}, {tmp_path / 'demos.hdf5'}]", *keys, "data.weights=[2, 1]",
                   f"output.directory={tmp_path / 'both'}").stdout
    assert f"8 demonstrations, {samples} samples" in text and "; 4 demonstrations (16 frames) of these too short" in text


def test_what_a_policy_began_with_is_the_checkpoints(maniple, tmp_path):
    """Keys of the first policy that nobody gives when a run goes on, under another preset, are no difference."""
    keys = [DECK, "policy=~", "learning=~", "batch.num_envs=32", "learning.horizon=8", "policy.hidden=[8]", "policy.activation=tanh",
            "policy.shared=false", "learning.normalize_value=true", "learning.random_initial_episode_length=false",
            f"output.directory={tmp_path}"]
    maniple("train", *keys, "learning.iterations=1", "policy.init_std=0.3")
    maniple("train", *keys, "learning.iterations=2", "learning.resume=auto")
    with h5py.File(maniple.checkpoints(tmp_path)[-1]) as file:
        assert np.all(np.abs(np.exp(file["policy/log_std"][()]) - 0.3) < 0.05)
    text = maniple("train", *keys, "learning.iterations=3", "learning.resume=auto", "policy.init_std=0.5", exit_code=2).stderr
    assert "policy.init_std: the checkpoint has" in text
