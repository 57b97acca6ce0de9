"""Every deck of inputs/train: it validates, says its own name, and trains for two iterations of a small batch."""
# ctest: PROCESSORS 1

import re

import h5py
import numpy as np
import pytest
from conftest import ROOT

FOLDER = ROOT / "inputs/train"
DECKS = sorted(FOLDER.rglob("*.yaml"))
# one of each suite, with what the others of it have; the rest is for the night
QUICK = {"isaac_cartpole", "isaac/humanoid", "gymnasium/humanoid_v5", "dm_control/swimmer_swimmer6", "mjlab/g1_flat_cpu_pushed"}
SMALL = ["batch.num_envs=16", "learning.iterations=2", "learning.horizon=4", "learning.epochs=1", "learning.minibatches=2",
         "evaluation.every=0"]


def name_of(deck):
    return str(deck.relative_to(FOLDER).with_suffix(""))


def test_the_decks_of_the_day_are_there():
    assert QUICK <= set(map(name_of, DECKS))


@pytest.mark.parametrize("deck", [
    pytest.param(deck, id=name_of(deck), marks=[] if name_of(deck) in QUICK else pytest.mark.nightly) for deck in DECKS])
def test_deck_trains(maniple, tmp_path, deck):
    said = maniple("validate", deck, ranks=0).stdout
    assert re.search(r"^task ", said, re.M), said
    text = deck.read_text()
    assert f"inputs/train/{deck.relative_to(FOLDER)}" in text, "the command of its comment runs another deck"
    maniple("train", deck, *SMALL, f"output.directory={tmp_path}/run")
    with h5py.File(tmp_path / "run/results.h5") as file:
        np.testing.assert_array_equal(file["metrics/iteration"], [1, 2])
        assert np.isfinite(file["metrics/policy_loss"]).all()
        invalid = [name for name in file["metrics"] if "invalid" in name]
        assert not any(file["metrics"][name][()].any() for name in invalid), invalid
