"""A policy with a memory (policy.recurrent): it learns a task that needs more than the current observation, with the
same bits on any number of ranks and over a kill, and keeps its memory where it is evaluated."""
# ctest: PROCESSORS 1

import h5py
import numpy as np
import pytest

# Isaac-Cartpole-v0 without velocities: who does not remember where the pole was cannot hold it.
DECK = """
include: {root}/inputs/tasks/isaac_cartpole.yaml
batch: {{num_envs: 256, seed: 1}}
task:
  observations:
    - term: joint_pos_rel
policy: {{hidden: [16], recurrent: gru, recurrent_units: 16}}
learning: {{iterations: 100, horizon: 48, minibatches: 8, learning_rate: 3.0e-3, schedule: fixed, checkpoint_every: 2}}
run: {{progress: plain}}
"""
BITS = ["batch.num_envs=230", "learning.horizon=20", "policy.recurrent_units=7", "learning.iterations=6",
        "learning.normalize_advantage_per_minibatch=true", "policy.state_dependent_std=true", "policy.squash_actions=true",
        "learning.random_initial_episode_length=true", "learning.resume=auto"]


@pytest.fixture
def deck(maniple, tmp_path):
    file = tmp_path / "deck.yaml"
    file.write_text(DECK.format(root=maniple.root))
    return file


def digests(maniple, directory):
    return maniple.digest(maniple.checkpoints(directory)[-1]), maniple.digest(directory / "results.h5")


@pytest.mark.nightly
def test_remembers_what_it_does_not_see(maniple, deck, tmp_path):
    returns = {}
    for recurrent, iterations in (("gru", 80), ("none", 60)):
        run = tmp_path / recurrent
        maniple("train", deck, f"policy.recurrent={recurrent}", f"learning.iterations={iterations}",
                "learning.checkpoint_every=0", f"output.directory={run}", ranks=2)
        with h5py.File(run / "results.h5") as file:
            returns[recurrent] = file["metrics/episode_return"][-10:].mean()
    assert returns["none"] < -0.2 and returns["gru"] > 0.5  # of at most 5; without memory it stays at -0.45
    # without noise it is no worse, on any number of ranks
    evaluated = []
    for ranks in (1, 3):
        maniple("evaluate", deck, f"control.checkpoint={tmp_path / 'gru'}", "output.overwrite=true",
                f"output.directory={tmp_path / 'evaluation'}", ranks=ranks)
        with h5py.File(tmp_path / "evaluation/evaluation.h5") as file:
            evaluated.append(file["evaluation/episode_return"][()])
    np.testing.assert_array_equal(*evaluated)
    assert evaluated[0].mean() > returns["gru"] - 0.5
    # nor does it matter in how many parts it would learn
    maniple("evaluate", deck, f"control.checkpoint={tmp_path / 'gru'}", "batch.num_envs=4", "learning.minibatches=2",
            f"output.directory={tmp_path / 'few'}")


@pytest.mark.parametrize("cells, units, counts", [
    pytest.param([], 7, (1, 2, 3, 7), id="gru", marks=pytest.mark.nightly),
    pytest.param(["policy.recurrent=lstm", "policy.recurrent_layers=2", "policy.hidden=[]"], 28, (1, 3), id="lstm")])
def test_bits_do_not_depend_on_ranks_or_a_kill(maniple, deck, tmp_path, cells, units, counts):
    found, bits = set(), [*BITS, *cells]
    for ranks in counts:
        run = tmp_path / str(ranks)
        maniple("train", deck, *bits, f"output.directory={run}", ranks=ranks)
        found.add(digests(maniple, run))
    run = tmp_path / "killed"
    process = maniple.start("train", deck, *bits, f"output.directory={run}", ranks=2, log=tmp_path / "log")
    maniple.wait_for(lambda: maniple.checkpoints(run), "a first checkpoint", process=process)
    maniple.kill_all(process)
    maniple("train", deck, *bits, f"output.directory={run}", ranks=3)
    found.add(digests(maniple, run))
    assert len(found) == 1
    with h5py.File(maniple.checkpoints(run)[-1]) as file:
        assert np.abs(file["ppo/recurrent_state"][()]).max() > 0.01  # of policy and critic
        assert file["ppo/recurrent_state"].shape == (230, 2 * units)
