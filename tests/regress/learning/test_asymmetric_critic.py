"""A critic that sees what the policy does not (task.critic_observations): it learns better values, with the same bits
on any number of ranks and over a restart, and the policy alone is evaluated."""
# ctest: PROCESSORS 1

import h5py
import pytest

DECK = """
include: {root}/inputs/train/isaac_cartpole.yaml
batch: {{num_envs: 203}}
task:
  observations:
    - expression: "qpos"
  critic_observations:
    - expression: "qpos"
    - expression: "qvel"
policy: {{normalize_observations: true}}
learning: {{iterations: 4, value_bootstrap: final_observation, checkpoint_every: 2}}
"""


@pytest.fixture
def deck(maniple, tmp_path):
    file = tmp_path / "deck.yaml"
    file.write_text(DECK.format(root=maniple.root))
    return file


@pytest.mark.parametrize("counts", [(1, 3), pytest.param((1, 2, 3), marks=pytest.mark.nightly)])
def test_bits_do_not_depend_on_ranks_or_a_restart(maniple, deck, tmp_path, counts):
    digests = set()
    for ranks in counts:
        directory = tmp_path / str(ranks)
        maniple("train", deck, "learning.iterations=2", f"output.directory={directory}", ranks=ranks)
        maniple("train", deck, "learning.resume=auto", f"output.directory={directory}", ranks=4 - ranks)
        digests.add((maniple.digest(directory / "results.h5"), maniple.digest(maniple.checkpoints(directory)[-1])))
    assert len(digests) == 1
    with h5py.File(maniple.checkpoints(directory)[-1]) as file:
        # actor: qpos alone; critic: qpos and qvel; the normalizer has both
        assert "the first 2 of each used" in file["policy/layer0/weight"].attrs["description"]
        assert "the first 4 of each used" in file["policy/layer3/weight"].attrs["description"]
        assert file["policy/observation_mean"].shape == (6,)
    maniple("evaluate", deck, f"control.checkpoint={directory}", f"output.directory={tmp_path / 'evaluation'}")


def test_shared_layers_are_refused(maniple, deck, tmp_path):
    result = maniple("train", deck, "policy.shared=true", f"output.directory={tmp_path / 'run'}", exit_code=2)
    assert "policy.shared: found true with task.critic_observations" in result.stderr
