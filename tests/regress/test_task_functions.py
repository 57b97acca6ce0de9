"""Functions of expressions against what they are named after: tolerance() of dm_control, contacts of MuJoCo."""

import h5py
import mujoco
import numpy as np
import pytest
from dm_control.utils import rewards

SIGMOIDS = ["gaussian", "hyperbolic", "long_tail", "reciprocal", "cosine", "linear", "quadratic", "tanh_squared"]
# lower, upper, margin, value at the margin
SHAPES = [(-0.3, 0.4, 0.7, 0.1), (0.25, float("inf"), 1.3, 0.5), (float("-inf"), -0.5, 0.6, 0.01), (0.2, 0.2, 2.0, 0.9)]
ZERO_AT_MARGIN = ["cosine", "linear", "quadratic"]


def cases():
    for sigmoid in SIGMOIDS:
        for lower, upper, margin, value in SHAPES:
            yield lower, upper, margin, sigmoid, value
    for sigmoid in ZERO_AT_MARGIN:
        yield -0.1, 0.1, 1.0, sigmoid, 0.0
    yield -0.5, 0.5, 0.0, "gaussian", 0.1


def test_tolerance_is_that_of_dm_control(maniple, tmp_path):
    """Every sigmoid over a grid of values, in double precision: the first slide holds x, each other one a tolerance."""
    table = list(cases())
    slides = "".join(
        f'<body><joint name="s{i}" type="slide" axis="1 0 0"/><geom size="0.1" mass="1" contype="0"/></body>'
        for i in range(len(table) + 1)
    )
    (tmp_path / "slides.xml").write_text(
        f"""<mujoco><option gravity="0 0 0" timestep="0.01"/>
        <worldbody>{slides}</worldbody>
        <actuator><motor joint="s0"/></actuator></mujoco>"""
    )
    resets = ["  - {set: 'qpos[s0]', expression: 'uniform(-3, 3)'}"]
    for i, (lower, upper, margin, sigmoid, value) in enumerate(table):
        call = f"tolerance(qpos[s0], {lower}, {upper}, margin = {margin}, sigmoid = {sigmoid}, value_at_margin = {value})"
        resets.append(f"  - {{set: 'qpos[s{i + 1}]', expression: '{call}'}}")
    deck = tmp_path / "deck.yaml"
    deck.write_text(
        f"""model: {{file: slides.xml}}
batch: {{num_envs: 700}}
simulation: {{precision: double, steps: 1}}
task:
 actions: [{{term: joint_effort, joints: [s0]}}]
 observations: [{{expression: "qpos"}}]
 resets:
"""
        + "\n".join(resets)
        + f"""
initial_state: {{source: task}}
output: {{directory: {tmp_path / "run"}, trajectory: {{every: 1, fields: [qpos]}}}}
"""
    )
    maniple("rollout", deck)
    with h5py.File(tmp_path / "run" / "results.h5") as results:
        qpos = results["trajectory/qpos"][:, 0]
    x = qpos[:, 0]
    assert x.min() < -2.5 and x.max() > 2.5
    for i, (lower, upper, margin, sigmoid, value) in enumerate(table):
        expected = rewards.tolerance(x, (lower, upper), margin, sigmoid, value)
        np.testing.assert_allclose(qpos[:, i + 1], expected, rtol=0, atol=1e-12, err_msg=str(table[i]))
    with pytest.raises(ValueError):  # what dm_control refuses, the program does (ExpressionErrors.PointAtTheColumn)
        rewards.tolerance(x, (1, 0))


CONTACT_MODEL = """
<mujoco>
  <option timestep="0.004"/>
  <worldbody>
    <geom name="floor" type="plane" size="0 0 1"/>
    <body name="dumbbell" pos="0 0 0.3"><freejoint/>
      <geom name="left" type="sphere" size="0.1" pos="-0.3 0 0"/>
      <geom name="right" type="sphere" size="0.1" pos="0.3 0 0"/>
      <body name="arm" pos="0 0 0.1"><joint name="shoulder" axis="0 1 0"/>
        <geom type="capsule" size="0.05" fromto="0 0 0 0 0 0.4"/></body>
    </body>
    <body name="ball" pos="0 0 0.7"><freejoint/><geom name="ball_geom" type="sphere" size="0.12"/></body>
  </worldbody>
  <actuator><motor joint="shoulder"/></actuator>
</mujoco>
"""
QUERIES = {  # expression -> names of the geoms of a, names of those of b, or None for all the others
    "contact_force(dumbbell)": (["left", "right"], None),
    "contact_force(floor)": (["floor"], None),
    "contact_force('subtree:dumbbell', floor)": (["left", "right", "arm"], ["floor"]),
    "contact_force(ball, [arm, right])": (["ball_geom"], ["arm", "right"]),
    "in_contact(left, floor)": (["left"], ["floor"]),
    "in_contact(ball)": (["ball_geom"], None),
}


def answers(model, data):
    """What mj_forward says to the queries."""
    mujoco.mj_forward(model, data)
    unnamed = model.body("arm").geomadr[0]
    number = lambda name: unnamed if name == "arm" else model.geom(name).id
    result = []
    for expression, (first, second) in QUERIES.items():
        a = {number(name) for name in first}
        b = set(range(model.ngeom)) - a if second is None else {number(name) for name in second}
        force, found = np.zeros(3), 0
        for i, contact in enumerate(data.contact):
            for mine, other, sign in ((*contact.geom, -1), (*contact.geom[::-1], 1)):
                if mine in a and other in b:
                    wrench = np.zeros(6)
                    mujoco.mj_contactForce(model, data, i, wrench)
                    force += sign * contact.frame.reshape(3, 3).T @ wrench[:3]
                    found = 1
        result += [found] if expression.startswith("in_contact") else list(force)
    return result


def test_contact_queries_are_those_of_mujoco(maniple, tmp_path):
    """Forces and findings between geoms and bodies, of 40 piles over 150 steps, against mj_contactForce."""
    (tmp_path / "pile.xml").write_text(CONTACT_MODEL)
    model = mujoco.MjModel.from_xml_string(CONTACT_MODEL)
    data = mujoco.MjData(model)
    rng = np.random.default_rng(3)
    qpos = np.tile(model.qpos0, (40, 1)) + rng.uniform(-0.08, 0.08, (40, model.nq))
    qpos[:, 3:7] /= np.linalg.norm(qpos[:, 3:7], axis=1)[:, None]
    with h5py.File(tmp_path / "states.h5", "w") as file:
        file["qpos"], file["qvel"] = qpos, rng.normal(0, 0.3, (40, model.nv))
    observations = "".join(f'  - {{expression: "{expression}"}}\n' for expression in QUERIES)
    deck = tmp_path / "deck.yaml"
    deck.write_text(
        f"""model: {{file: pile.xml}}
batch: {{num_envs: 40}}
simulation: {{precision: double, steps: 150}}
initial_state: {{source: file, file: states.h5}}
control: {{source: random}}
task:
 actions: [{{term: joint_effort, joints: [shoulder]}}]
 observations:
{observations}
 rewards:
  touching: {{expression: "in_contact(left, floor)"}}
output: {{directory: {tmp_path / "run"}, trajectory: {{every: 1, fields: [qpos, qvel, ctrl, qacc_warmstart, observation]}}}}
"""
    )
    maniple("rollout", deck)
    with h5py.File(tmp_path / "run/results.h5") as results:
        fields = {name: results["trajectory"][name][:] for name in results["trajectory"]}
    seen = np.zeros(14)
    for env in range(0, 40, 4):
        for sample in range(151):
            data.qpos, data.qvel = fields["qpos"][env, sample], fields["qvel"][env, sample]
            data.ctrl, data.qacc_warmstart = fields["ctrl"][env, sample], fields["qacc_warmstart"][env, sample]
            expected = np.array(answers(model, data))
            observed = fields["observation"][env, sample]
            np.testing.assert_allclose(observed, expected, rtol=1e-5, atol=1e-4, err_msg=f"{env} {sample}")
            seen = np.maximum(seen, np.abs(expected))
    assert (seen > 0.5).all(), seen
