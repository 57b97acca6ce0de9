"""Contacts beyond simulation.max_contacts: left out, counted and named; other environments do not notice."""

import re

import h5py

CHEETAH = ["model.file=package:gymnasium/envs/mujoco/assets/half_cheetah.xml", "batch.num_envs=64",
           "control.source=random", "simulation.steps=150", "output.trajectory.every=1",
           "output.trajectory.fields=[qpos, ncon, nefc]"]


def rollout(maniple, directory, *keys):
    result = maniple("rollout", *CHEETAH, f"output.directory={directory}", *keys, ranks=2)
    with h5py.File(directory / "results.h5") as results:
        return result.stdout + result.stderr, {name: field[:] for name, field in results["trajectory"].items()}


def test_overflow_is_counted_and_named_and_touches_no_neighbour(maniple, tmp_path):
    quiet, whole = rollout(maniple, tmp_path / "whole")
    assert "capacity" not in quiet
    most = whole["ncon"].max(axis=(1, 2))
    assert most.max() > 3, "nothing to overflow"
    # the capacity that some environments keep to and others do not
    capacity = int(sorted(most)[20])
    assert most.max() > capacity
    text, limited = rollout(maniple, tmp_path / "limited", f"simulation.max_contacts={capacity}")
    found = re.search(r"(\d+) contacts? beyond the capacity of (\d+) left out \(simulation.max_contacts\): (.*)", text)
    assert int(found[2]) == capacity
    named = re.findall(r"environment (\d+) at control step \d+", found[3])
    assert named and all(most[int(env)] > capacity for env in named)
    assert limited["ncon"].max() == capacity
    within = most <= capacity
    assert within.any()
    assert (limited["qpos"][within] == whole["qpos"][within]).all()
    assert (limited["qpos"][~within] != whole["qpos"][~within]).any()


def test_validate_prints_the_capacity(maniple):
    text = maniple("validate", *CHEETAH, "simulation.max_contacts=5").stdout
    assert "8 pairs of geoms (8 plane-capsule)" in text
    assert "contact capacity 5 of an environment, with at most 20 rows" in text
    assert "contact capacity 16" in maniple("validate", *CHEETAH, "simulation.max_contacts=0").stdout
