"""Promises 3 and 4 for all state that a task can have: fields as the last physics step left them, settled and refused
fresh states, commands, pushes, models of their own, a curriculum, delays, histories, variables of one episode and of
all; and a policy with a memory of its own. A training has the same bits on 1, 2, 3 and 7 ranks, and over kills at
random instants with another number of ranks each time."""
# ctest: PROCESSORS 1

import random
import time

import h5py
import numpy as np
import pytest
from test_locomotion_task import DECK, MODEL

ITERATIONS = 8
SETTINGS = ["simulation.derived=as_stepped", "task.settle_steps=5", "task.reset_until=abs(qvel[0]) > 0.15 && ncon <= 4",
            f"learning.iterations={ITERATIONS}", "learning.checkpoint_every=1", "learning.keep_checkpoints=2",
            "task.episode_steps=40", "policy.recurrent=gru", "policy.recurrent_units=12", "evaluation.every=3", "evaluation.episodes=30", "learning.resume=auto", "run.progress=plain"]
# what as_stepped reads, what outlives episodes, and what goes up with the iterations
ADDED = """
    landings: {reset: "0", once: true, update: "prev(landings) + first_contact(left)"}
"""
OBSERVED = """
    - {expression: "[cfrc_ext[left], cvel[right], qacc]", name: stepped, scale: 0.001}
    - {expression: "landings", name: landings, scale: 0.01, delay: [1, 3]}
"""
EVENTS = """
    friction: {field: geom_friction, geoms: [floor], mode: startup, operation: abs, ranges: [0.3, 1.2]}
    load: {field: body_mass, bodies: [torso], mode: reset, operation: scale, ranges: [0.9, 1.1]}
    stiffness: {field: actuator_kp, actuators: [".*"], mode: interval, every: [0.1, 0.3], operation: scale, ranges: [0.8, 1.2]}
    harder: {set: "qvel[0:2]", expression: "qvel[0:2] + level * uniform(-1, 1, 2)", every: [0.2, 0.4]}
  curricula:
    level: {reset: "0", update: "mean_episode_steps > 5 ? min(1, level + 0.25) : level"}
"""


@pytest.fixture(scope="module")
def deck(tmp_path_factory):
    directory = tmp_path_factory.mktemp("task")
    (directory / "biped.xml").write_text(MODEL)
    text = DECK.replace("\n  observations:\n", ADDED + "  observations:\n").replace(
        "\n  critic_observations:\n", OBSERVED + "  critic_observations:\n")
    text = text.replace("\npolicy:", EVENTS + "policy:").replace("std: 0.5, weight: 1}", "std: 0.5, weight: 1, curriculum: level}")
    (directory / "deck.yaml").write_text(text)
    return directory / "deck.yaml"


def final_digests(maniple, directory):
    return [maniple.digest(file) for file in (directory / "results.h5", *maniple.checkpoints(directory))]


@pytest.fixture(scope="module")
def undisturbed(maniple, deck, tmp_path_factory):
    directory = tmp_path_factory.mktemp("undisturbed")
    maniple("train", deck, *SETTINGS, f"output.directory={directory}", ranks=2)
    with h5py.File(directory / "results.h5") as file:
        assert len(file["metrics/iteration"]) == ITERATIONS
        assert np.nansum(file["metrics/episode_length"]) > 0  # episodes end, and begin again
        assert len(set(file["metrics/curriculum_level"][:])) > 2
    return final_digests(maniple, directory)


@pytest.mark.parametrize("ranks", [pytest.param(1, marks=pytest.mark.nightly), pytest.param(3, marks=pytest.mark.nightly), 7])
def test_same_bits_on_any_number_of_ranks(maniple, deck, tmp_path, undisturbed, ranks):
    maniple("train", deck, *SETTINGS, f"output.directory={tmp_path}", ranks=ranks)
    assert final_digests(maniple, tmp_path) == undisturbed


def logged(directory):
    events = directory / "log.jsonl"
    return events.read_text().count('"event": "iteration"') if events.exists() else 0


def test_killed_at_random_times(maniple, deck, tmp_path, undisturbed):
    chance, kills = random.Random(3), 0
    for ranks in (7, 2, 1, 3):
        before = logged(tmp_path)
        process = maniple.start("train", deck, *SETTINGS, f"output.directory={tmp_path}", ranks=ranks,
                                log=tmp_path.with_name("log"))
        wanted = before + chance.randrange(1, 4)
        while process.poll() is None and logged(tmp_path) < wanted:
            time.sleep(0.001)
        time.sleep(chance.uniform(0, 0.03))
        kills += process.poll() is None
        maniple.kill_all(process)
    assert kills > 0
    maniple("train", deck, *SETTINGS, f"output.directory={tmp_path}", ranks=3)
    assert final_digests(maniple, tmp_path) == undisturbed
