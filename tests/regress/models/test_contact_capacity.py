"""Contacts beyond simulation.max_contacts: dropped, counted and reported; other environments do not notice."""
# ctest: PROCESSORS 1

import re

import h5py
import mujoco
import numpy as np

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


# twelve bricks that just touch the floor and nothing else, and nine balls
BRICKS = """<mujoco><option timestep="0.004"/><worldbody><geom type="plane" size="0 0 1" conaffinity="3"/>
  <replicate count="12" offset=".5 0 0">
    <body pos="0 0 .0499"><freejoint/><geom type="box" size=".1 .08 .05" contype="2" conaffinity="0"/></body>
  </replicate>{}</worldbody></mujoco>"""
MORE = """<replicate count="9" offset=".5 0 0">
    <body pos="0 2 .0999"><freejoint/><geom size=".1"/></body></replicate>"""


def bricks(directory, more=""):
    """The keys of a run of them."""
    model = directory / "bricks.xml"
    model.write_text(BRICKS.format(more))
    return [f"model.file={model}", "batch.num_envs=32", "simulation.precision=double"]


def test_bricks_at_rest_stay_on_the_floor(maniple, tmp_path):
    keys = bricks(tmp_path)
    assert "contact capacity 48 " in (text := maniple("validate", *keys).stdout)
    assert "left out" not in text
    result = maniple("rollout", *keys, "simulation.steps=250", "output.trajectory.every=50",
                     "output.trajectory.fields=[qpos, ncon]", f"output.directory={tmp_path / 'out'}")
    assert "capacity" not in result.stdout + result.stderr
    with h5py.File(tmp_path / "out" / "results.h5") as results:
        assert (results["trajectory/ncon"][:] == 48).all()
        heights = results["trajectory/qpos"][:].reshape(32, -1, 12, 7)[..., 2]
        assert (np.abs(heights - 0.05) < 2e-3).all()


def test_validate_says_what_could_overflow_and_what_it_costs_to_cover_it(maniple, tmp_path):
    few = maniple("validate", *bricks(tmp_path), "simulation.max_contacts=40").stdout
    found = re.search(r"contact capacity 40 .* and (\d+) B of", few)
    more = re.search(r"at most 48 contacts are possible; simulation.max_contacts=48 never drops one and takes (\d+) B more", few)
    all_of_them = maniple("validate", *bricks(tmp_path), "simulation.max_contacts=48").stdout
    bytes_of_48 = int(re.search(r"contact capacity 48 .* and (\d+) B of", all_of_them)[1])
    assert int(found[1]) + int(more[1]) == bytes_of_48
    # the default holds what lies on the floor and a dense packing of the balls, of which each could touch each
    text = maniple("validate", *bricks(tmp_path, MORE)).stdout
    assert int(re.search(r"contact capacity (\d+) of", text)[1]) == 48 + 9 + 36
    assert "left out" not in text


def test_shapes_that_overlap_where_the_model_starts(maniple, tmp_path):
    """Links of one robot are expected to touch rarely; these all do in the reference pose, or in a keyframe."""
    links = "".join(f'<body><joint type="slide" axis="1 {i} 0"/><geom type="box" size=".1 .1 .1"/></body>' for i in range(8))
    model = tmp_path / "heap.xml"
    model.write_text(f'<mujoco><worldbody><body><freejoint/><geom type="box" size=".1 .1 .1"/>{links}</body></worldbody></mujoco>')
    touching = mujoco.MjModel.from_xml_path(str(model))
    data = mujoco.MjData(touching)
    mujoco.mj_forward(touching, data)
    assert data.ncon > 100
    text = maniple("validate", f"model.file={model}").stdout
    assert f"contact capacity {data.ncon * 3 // 2 + 8} " in text, text
