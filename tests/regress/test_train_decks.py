"""Every deck of inputs/train: it validates, says its own name, and trains for two iterations of a small batch."""

import re
from pathlib import Path

import h5py
import numpy as np
import pytest

DECKS = sorted((Path(__file__).resolve().parents[2] / "inputs/train").rglob("*.yaml"))
SMALL = ["batch.num_envs=16", "learning.iterations=2", "learning.horizon=4", "learning.epochs=1", "learning.minibatches=2",
         "evaluation.every=0"]


@pytest.mark.parametrize("deck", DECKS, ids=lambda deck: f"{deck.parent.name}/{deck.stem}")
def test_deck_trains(maniple, tmp_path, deck):
    said = maniple("validate", deck, ranks=0).stdout
    assert re.search(r"^task ", said, re.M), said
    text = deck.read_text()
    assert f"inputs/train/{deck.relative_to(DECKS[0].parents[1])}" in text, "the command of its comment runs another deck"
    maniple("train", deck, *SMALL, f"output.directory={tmp_path}/run")
    with h5py.File(tmp_path / "run/results.h5") as file:
        np.testing.assert_array_equal(file["metrics/iteration"], [1, 2])
        assert np.isfinite(file["metrics/policy_loss"]).all()
        invalid = [name for name in file["metrics"] if "invalid" in name]
        assert not any(file["metrics"][name][()].any() for name in invalid), invalid
