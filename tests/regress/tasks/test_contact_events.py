"""Events on the friction of contacts: the friction of explicit pairs against libmujoco's, refusals of events on geoms
without contacts, and a warning about draws that change nothing."""
# ctest: PROCESSORS 1

import re

import h5py
import mujoco
import numpy as np
import pytest

MODEL = """<mujoco>
  <option timestep="0.005" gravity="3 1 -9.8" tolerance="1e-15"/>
  <default><geom contype="0" conaffinity="0"/></default>
  <worldbody>
    <geom name="ice" type="plane" size="9 9 0.1"/>
    <geom name="mat" type="plane" size="9 9 0.1" contype="2" conaffinity="2" friction="0.9" pos="0 0 -.01"/>
    <geom name="wall" type="capsule" fromto="-8 -9 .1 -8 9 .1" size=".1" contype="2" conaffinity="2"/>
    <body name="sled" pos="0 0 0.1"><freejoint name="root"/>
      <geom name="runner" type="capsule" fromto="-0.2 0 0 0.2 0 0" size="0.1" mass="2"/>
      <geom name="runner2" type="capsule" fromto="-0.2 0.3 0 0.2 0.3 0" size="0.1" mass="2"/></body>
    <body name="puck" pos="2 0 0.09"><freejoint/><geom name="puck" size="0.1" contype="2" conaffinity="2" priority="1"/></body>
    <body name="stone" pos="4 0 0.09"><freejoint/><geom name="stone" size="0.1" contype="2" conaffinity="2" friction="0.3"/></body>
    <body name="drop" pos="6 0 0.09"><freejoint/><geom name="drop" size="0.1"/></body>
  </worldbody>
  <contact>
    <pair name="left" geom1="ice" geom2="runner" friction="0.2 0.3"/>
    <pair geom1="ice" geom2="runner2" friction="0.2 0.2"/>
    <pair name="slick" geom1="ice" geom2="drop" condim="1"/>
  </contact>
  <actuator><motor name="m" joint="root" gear="0 1 0 0 0 0"/></actuator>
</mujoco>
"""
DECK = """model: {{file: model.xml}}
batch: {{num_envs: 40}}
simulation: {{precision: {precision}, steps: 40}}
initial_state: {{source: task}}
control: {{source: random}}
task:
  episode_steps: 1000
  actions: [{{term: actuator_control, actuators: [m]}}]
  observations: [{{expression: "pair_friction"}}, {{expression: "geom_friction"}}]
  rewards: {{r: {{expression: "1"}}}}
  terminations: {{time_out: {{term: time_out}}}}
  events:
    {events}
output: {{trajectory: {{every: 1, fields: [qpos, qvel, qacc_warmstart, ctrl, observation]}}}}
"""
PAIRS = "fr: {field: pair_friction, pairs: [left, pair1], mode: startup, operation: abs, ranges: {0: [0.1, 2], 1: [0.2, 0.4]}}"


@pytest.fixture
def deck(tmp_path):
    def write(*events, precision="double", model=MODEL):
        (tmp_path / "model.xml").write_text(model)
        (tmp_path / "deck.yaml").write_text(DECK.format(precision=precision, events="\n    ".join(events)))
        return tmp_path / "deck.yaml"

    return write


@pytest.mark.parametrize("precision, tolerance", [("double", 1e-8), ("single", 2e-3)])
def test_pairs_have_friction_of_their_own(maniple, deck, tmp_path, precision, tolerance):
    both = "floor: {field: geom_friction, geoms: [mat, stone], mode: startup, operation: abs, ranges: [0.2, 1.4], shared_random: true}"
    maniple("rollout", deck(PAIRS, both, precision=precision), f"output.directory={tmp_path}/run", ranks=2)
    with h5py.File(tmp_path / "run/results.h5") as file:
        run = {name: values[()].astype(float) for name, values in file["trajectory"].items()}
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "model.xml"))
    model.opt.ls_tolerance = 1e-10
    data = mujoco.MjData(model)
    own = run["observation"][:, 0, :6].reshape(40, 3, 2)
    assert len(np.unique(own[:, :2])) == 160 and np.ptp(own[:, 0, 0]) > 1.5 and np.all(np.ptp(own[:, 2], axis=0) == 0)
    slid = 0
    for env in range(0, 40, 5):
        model.pair_friction[:, :2] = own[env]
        model.geom_friction[:, 0] = run["observation"][env, 0, 6:]
        for step in range(40):
            mujoco.mj_resetData(model, data)
            data.qpos[:], data.qvel[:] = run["qpos"][env, step], run["qvel"][env, step]
            data.qacc_warmstart[:], data.ctrl[:] = run["qacc_warmstart"][env, step], run["ctrl"][env, step + 1]
            mujoco.mj_step(model, data)
            np.testing.assert_allclose(run["qvel"][env, step + 1], data.qvel, rtol=0, atol=tolerance, err_msg=f"{env} {step}")
            slid += data.ncon
    assert slid > 1000
    assert np.ptp(run["qpos"][:, -1, 0]) > 0.004  # some sleds hold, others slide


@pytest.mark.parametrize("event, expected", [
    ("{field: geom_friction, geoms: [\"runner.*\", ice], mode: startup, operation: abs, ranges: [0.1, 2], shared_random: true}",
     ["geom_friction of 'runner' is that of no contact", "in an explicit pair", "geoms whose friction counts: mat, wall, puck, stone;",
      "pair_friction is that of explicit pairs"]),
    ("{field: geom_friction, geoms: [stone, ice], mode: reset, operation: scale, ranges: [0.1, 2]}", ["geom_friction of 'ice'"]),
    ("{field: geom_friction, geoms: [drop], mode: interval, every: 1, operation: scale, ranges: [0.1, 2]}", ["geom_friction of 'drop'"]),
    ("{set: \"geom_friction[runner]\", expression: \"uniform(0, 1)\", mode: startup}", ["'geom_friction[runner]' is that of no contact"]),
    ("{set: \"[geom_friction[runner], geom_friction[ice]]\", expression: \"uniform(0, 1)\", mode: interval, every: 1}", ["is that of no contact"]),
    ("{field: pair_friction, pairs: [slick], mode: startup, operation: scale, ranges: [1, 2]}",
     ["pair_friction of 'slick' is that of no contact", "condim 1", "pairs whose friction counts: left, pair1"]),
    ("{field: pair_friction, pairs: [right], mode: startup, operation: scale, ranges: [1, 2]}", ["pairs", "'right'"]),
    ("{field: pair_friction, geoms: [ice], mode: startup, operation: scale, ranges: [1, 2]}", ["'pair_friction' has no geoms", "it takes pairs"]),
])
def test_events_without_effect_are_refused(maniple, deck, event, expected):
    text = maniple("validate", deck(f"fr: {event}"), ranks=0, exit_code=2).stderr
    assert text.count("maniple: error: ") == 1 and "task.events.fr" in text
    for part in ["deck.yaml:", *expected]:
        assert part in text, text


@pytest.mark.parametrize("change, event, expected", [
    # of a lower priority than all that touches it
    (("stone\" size=\"0.1\"", "stone\" priority=\"1\" size=\"0.1\""), "geoms: [mat]", "geom_friction of 'mat' is that of no contact"),
    # without friction
    (("<geom contype=\"0\" conaffinity=\"0\"/>", "<geom contype=\"0\" conaffinity=\"0\" condim=\"1\"/>"), "geoms: [mat]",
     "geom_friction of 'mat' is that of no contact"),
    # without contacts
    (("<default>", "<option><flag contact=\"disable\"/></option><default>"), "geoms: [stone]", "the model's flag contact is off"),
])
def test_which_contacts_there_are_is_read_off_the_compiled_model(maniple, deck, change, event, expected):
    assert change[0] in MODEL
    path = deck(f"fr: {{field: geom_friction, {event}, mode: startup, operation: scale, ranges: [0.5, 2]}}", model=MODEL.replace(*change))
    assert expected in maniple("validate", path, ranks=0, exit_code=2).stderr


@pytest.mark.parametrize("precision, mode", [("single", "startup"), ("double", "reset")])
def test_draws_that_change_nothing_are_named(maniple, deck, tmp_path, precision, mode):
    """A friction that stays below that of the other geom, and ranges of nothing; not those that change something."""
    path = deck("low: {field: geom_friction, geoms: [stone], mode: %s, operation: abs, ranges: [0.1, 0.8]}" % mode,
                "same: {field: body_mass, bodies: [puck], mode: startup, operation: scale, ranges: [1, 1]}",
                "mass: {field: body_inertia, bodies: [sled], mode: startup, operation: scale, ranges: [1, 2]}", PAIRS, precision=precision)
    result = maniple("rollout", path, "simulation.steps=1", f"output.directory={tmp_path}/run", ranks=2)
    said = re.findall(r"task\.events\.(\w+): randomizing (\w+) has no effect", result.stdout + result.stderr)
    assert sorted(said) == [("low", "geom_friction"), ("same", "body_mass")], result.stdout + result.stderr
