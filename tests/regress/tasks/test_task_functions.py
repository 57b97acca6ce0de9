"""Functions of expressions against their originals: tolerance() of dm_control, contacts and rays of MuJoCo."""
# ctest: PROCESSORS 1 COST 20

import copy
import functools
import types

import h5py
import mujoco
import numpy as np
import pytest
import torch_in_numpy
from conftest import of_the_day
from dm_control.utils import rewards

torch_in_numpy.install()
from mjlab.envs.mdp.observations import height_scan  # noqa: E402
from mjlab.sensor import RayCastSensor  # noqa: E402

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
    "contact_force('left|right', floor)": (["left", "right"], ["floor"]),
    "contact_force('.*ball?', ['.*ght', floor])": (["ball_geom"], ["right", "floor"]),
    "in_contact(left, floor)": (["left"], ["floor"]),
    "in_contact(ball)": (["ball_geom"], None),
    "in_contact('subtree:dumbbell', floor)": (["left", "right", "arm"], ["floor"]),
    "strongest_contact('subtree:dumbbell', floor)": (["left", "right", "arm"], ["floor"]),
}


@functools.cache
def geoms_of_queries():
    """expression -> geoms of a, geoms of b."""
    model = mujoco.MjModel.from_xml_string(CONTACT_MODEL)
    number = lambda name: int(model.body("arm").geomadr[0]) if name == "arm" else model.geom(name).id
    found = {}
    for expression, (first, second) in QUERIES.items():
        a = {number(name) for name in first}
        found[expression] = a, set(range(model.ngeom)) - a if second is None else {number(name) for name in second}
    return found


def answers(model, data):
    """What MuJoCo's contacts say to the queries."""
    contacts, wrench = [], np.zeros(6)
    for i, contact in enumerate(data.contact):
        mujoco.mj_contactForce(model, data, i, wrench)
        contacts.append((*map(int, contact.geom), contact.frame.reshape(3, 3).T @ wrench[:3], np.linalg.norm(wrench[:3])))
    result = []
    for expression, (a, b) in geoms_of_queries().items():
        force, found, strongest = np.zeros(3), 0, 0
        for one, two, of_contact, size in contacts:
            for mine, other, sign in ((one, two, -1), (two, one, 1)):
                if mine in a and other in b:
                    force += sign * of_contact
                    found, strongest = 1, max(strongest, size)
        result += [found] if expression.startswith("in_contact") else [strongest] if expression.startswith("strongest") else list(force)
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
    seen = np.zeros(fields["observation"].shape[-1])
    for env in range(0, 40, 4):
        for sample in range(151):
            data.qpos, data.qvel = fields["qpos"][env, sample], fields["qvel"][env, sample]
            data.ctrl, data.qacc_warmstart = fields["ctrl"][env, sample], fields["qacc_warmstart"][env, sample]
            mujoco.mj_forward(model, data)
            expected = np.array(answers(model, data))
            observed = fields["observation"][env, sample]
            np.testing.assert_allclose(observed, expected, rtol=1e-5, atol=1e-4, err_msg=f"{env} {sample}")
            seen = np.maximum(seen, np.abs(expected))
    assert (seen > 0.5).all(), seen


@pytest.mark.parametrize("derived", of_the_day(["fresh", "as_stepped", "stepped_forces", "stepped_rewards"],
                                               "stepped_forces", "stepped_rewards"))
def test_contacts_of_physics_steps_are_those_of_mujoco(maniple, tmp_path, derived):
    """Three physics steps in a control step, each answered, the last one first; where an episode begins, all are of its
    state. Times count them. Other contacts are those of the last physics step, or fresh, as `derived` says, and so are
    positions of geoms, of which stepped_forces keeps nothing."""
    (tmp_path / "pile.xml").write_text(CONTACT_MODEL)
    model = mujoco.MjModel.from_xml_string(CONTACT_MODEL)
    data = mujoco.MjData(model)
    model.opt.tolerance = 1e-15
    histories = [f"{name}_history('subtree:dumbbell', floor)" for name in ("in_contact", "strongest_contact")]
    times = [f"{name}('subtree:dumbbell', floor)" for name in ("air_time", "contact_time", "last_air_time", "last_contact_time")]
    observations = "".join(f'  - {{expression: "{expression}"}}\n' for expression in [*QUERIES, *histories, *times, "geom_xpos[left]"])
    deck = tmp_path / "deck.yaml"
    deck.write_text(
        f"""model: {{file: pile.xml}}
batch: {{num_envs: 40}}
simulation: {{precision: double, steps: 60, decimation: 3, derived: {derived}}}
initial_state: {{source: task}}
control: {{source: random}}
task:
 episode_steps: 25
 reward_times_dt: false
 actions: [{{term: joint_effort, joints: [shoulder]}}]
 observations:
{observations}
 rewards:
  strength: {{expression: "strongest_contact('subtree:dumbbell', floor)"}}
 terminations: {{time_out: {{term: time_out}}}}
 resets:
  - {{set: "qpos[2]", expression: "uniform(0.07, 0.3)"}}
  - {{set: "qvel[0:6]", expression: "normal(0, 0.5, 6)"}}
output: {{directory: {tmp_path / "run"}, trajectory: {{every: 1, fields: [qpos, qvel, ctrl, qacc_warmstart, action, observation, reward_term, truncated]}}}}
"""
    )
    maniple("rollout", deck, ranks=2)
    with h5py.File(tmp_path / "run/results.h5") as results:
        fields = {name: results["trajectory"][name][:] for name in results["trajectory"]}
    dt, seen, touched_at_resets = model.opt.timestep, np.zeros(6), 0
    for env in range(40):
        for sample in range(61):
            begins = sample == 0 or fields["truncated"][env, sample, 0] > 0

            def use(at, controls):
                mujoco.mj_resetData(model, data)
                data.qpos, data.qvel = fields["qpos"][env, at], fields["qvel"][env, at]
                data.qacc_warmstart, data.ctrl = fields["qacc_warmstart"][env, at], fields[controls][env, sample]

            steps = []
            if sample > 0:
                use(sample - 1, "action")
                for _ in range(3):
                    mujoco.mj_step(model, data)
                    steps.insert(0, answers(model, data))
                position = np.array(data.geom("left").xpos)
                strength = (steps[0] if derived != "fresh" else fresh_after(model, data))[-1]
                np.testing.assert_allclose(fields["reward_term"][env, sample, 0], strength, rtol=1e-5, atol=1e-4)
            use(sample, "ctrl")
            mujoco.mj_forward(model, data)
            fresh = answers(model, data)
            if begins or derived != "as_stepped":
                position = np.array(data.geom("left").xpos)
            if begins:
                steps, times = [fresh] * 3, np.zeros(4)
                touched_at_resets += fresh[-1] > 0
            else:
                times = times_after(times, [step[-2] for step in reversed(steps)], dt)
            observed = fields["observation"][env, sample]
            expected = [*(steps[0] if derived in ("as_stepped", "stepped_forces") else fresh), *(step[-2] for step in steps),
                        *(step[-1] for step in steps), *times, *position]
            np.testing.assert_allclose(observed, expected, rtol=1e-5, atol=1e-4, err_msg=f"{env} {sample}")
            seen += [len({step[-2] for step in steps}) > 1, not np.allclose(steps[0], fresh), *(times > 0)]
    assert (seen > 20).all() and touched_at_resets > 5, (seen, touched_at_resets)


def test_fresh_states_are_judged_by_their_own_contacts(maniple, tmp_path):
    """Histories in task.reset_until are those of the state that was drawn, not of the episode before."""
    (tmp_path / "pile.xml").write_text(CONTACT_MODEL)
    deck = tmp_path / "deck.yaml"
    deck.write_text(
        f"""model: {{file: pile.xml}}
batch: {{num_envs: 40}}
simulation: {{steps: 60, decimation: 3}}
initial_state: {{source: task}}
control: {{source: random}}
task:
 episode_steps: 20
 actions: [{{term: joint_effort, joints: [shoulder]}}]
 observations: [{{expression: "in_contact('subtree:dumbbell', floor)"}}]
 terminations: {{time_out: {{term: time_out}}}}
 resets: [{{set: "qpos[2]", expression: "uniform(0.05, 0.15)"}}]
 reset_until: "sum(in_contact_history('subtree:dumbbell', floor)) == 0"
output: {{directory: {tmp_path / "run"}, trajectory: {{every: 1, fields: [observation, truncated]}}}}
"""
    )
    assert "reset_until" not in maniple("rollout", deck).stderr
    with h5py.File(tmp_path / "run/results.h5") as results:
        touches, ended = results["trajectory/observation"][..., 0], results["trajectory/truncated"][..., 0] > 0
    ended[:, 0] = True
    assert (touches[ended] == 0).all() and ended.sum() == 160 and touches[~ended].mean() > 0.5


def fresh_after(model, data):
    """The answers of the state that a step has led to."""
    mujoco.mj_forward(model, data)
    return answers(model, data)


def times_after(times, touches, dt):
    """Air and contact time, now and last, after physics steps."""
    air, contact, last_air, last_contact = times
    for touch in touches:
        if touch:
            last_air = air + dt if air > 0 else last_air
            air, contact = 0, contact + dt
        else:
            last_contact = contact + dt if contact > 0 else last_contact
            air, contact = air + dt, 0
    return np.array([air, contact, last_air, last_contact])


RAY_MODEL = """
<mujoco>
  <option timestep="0.004" gravity="0 0 0"/>
  <default><geom contype="0" conaffinity="0"/></default>
  <worldbody>
    <geom name="floor" type="plane" size="1.8 0 1" pos="0 0 -1.5"/>
    <geom type="box" size="0.5 0.7 0.2" pos="0.4 -0.3 -1.1" euler="20 -10 30"/>
    <geom type="cylinder" size="0.4 0.3" pos="-0.9 0.5 -1" euler="70 10 0"/>
    <geom type="ellipsoid" size="0.3 0.6 0.2" pos="0.9 0.9 -0.9" euler="0 25 0"/>
    <geom type="capsule" size="0.2 0.5" pos="-0.7 -0.9 -1.1" euler="0 80 15"/>
    <geom name="glass" type="box" size="2 2 0.05" pos="0 0 -0.5" rgba="1 1 1 0"/>
    <body name="post" pos="0 1.2 -1.2"><geom type="sphere" size="0.5"/></body>
    <body name="robot" pos="0 0 0.5"><freejoint/>
      <geom name="trunk" type="box" size="0.2 0.1 0.05"/><site name="eye" pos="0.2 0 0.1" euler="0 40 0"/>
      <body name="arm" pos="0 0 0.1"><joint name="shoulder" axis="0 1 0"/>
        <geom name="club" type="capsule" size="0.08" fromto="0 0 0 0.3 0.1 0.4"/></body>
    </body>
    <body name="ball" pos="0.3 0 -0.2"><joint name="rail" type="slide" axis="1 0.4 0"/><geom type="sphere" size="0.25"/></body>
  </worldbody>
  <actuator><motor joint="shoulder"/></actuator>
</mujoco>
"""
GRID = [(x, y, 0) for y in (-0.2, 0, 0.2) for x in (-0.4, -0.2, 0, 0.2, 0.4)]


def yaw_by_mjlab(mat):
    """What mjlab's RayCastSensor turns its pattern by; and by Isaac Lab's yaw_quat where the two agree."""
    sensor = RayCastSensor.__new__(RayCastSensor)
    ours = np.asarray(sensor._extract_yaw_rotation(torch_in_numpy.tensor(mat[None])))[0]
    quat = np.zeros(4)
    mujoco.mju_mat2Quat(quat, mat.ravel())
    w, x, y, z = quat
    yaw = np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
    if np.hypot(mat[0, 0], mat[1, 0]) > 0.1:
        np.testing.assert_allclose(ours, [[np.cos(yaw), -np.sin(yaw), 0], [np.sin(yaw), np.cos(yaw), 0], [0, 0, 1]], atol=1e-12)
    return ours


@functools.cache
def with_hidden_geoms(model, moving, only):
    """A model in which nobody sees the moving geoms, or any but one."""
    hidden = copy.copy(model)
    for geom in range(model.ngeom):
        if (not moving and model.body_weldid[model.geom_bodyid[geom]] != 0) or (only and model.geom(geom).name != only):
            hidden.geom_rgba[geom, 3] = 0
        elif only:
            hidden.geom_rgba[geom, 3] = 1
    return hidden


def distances(model, data, frame, points, directions, alignment, far=np.inf, moving=True, only=None):
    """mj_ray's answers; without the moving geoms, or with one geom alone."""
    turned = {"base": lambda m: m, "yaw": yaw_by_mjlab, "world": lambda m: np.eye(3)}[alignment](frame.xmat.reshape(3, 3))
    hidden = with_hidden_geoms(model, moving, only)
    result = []
    for point, direction in zip(points, directions):
        along = turned @ direction / np.linalg.norm(direction)
        distance = mujoco.mj_ray(hidden, data, frame.xpos + turned @ np.array(point, float), along, None, True, -1, None)
        result.append(distance if distance <= far else -1)
    return np.array(result)


def test_rays_are_those_of_mujoco(maniple, tmp_path):
    """From 300 random poses, with every type of geom; the grid as mjlab's term scales it, too. The same bits on any
    number of ranks, in single precision as well."""
    (tmp_path / "scene.xml").write_text(RAY_MODEL)
    model = mujoco.MjModel.from_xml_string(RAY_MODEL)
    data = mujoco.MjData(model)
    rng = np.random.default_rng(4)
    envs = 300
    qpos = np.zeros((envs, model.nq))
    qpos[:, :3] = rng.uniform([-2, -2, -1.2], [2, 2, 1.5], (envs, 3))
    qpos[:, 3:7] = rng.normal(size=(envs, 4))
    qpos[: envs // 2, 3:7] *= [1, 0.1, 0.1, 1]  # half of them upright
    qpos[:, 3:7] /= np.linalg.norm(qpos[:, 3:7], axis=1)[:, None]
    qpos[:, 7:] = rng.uniform(-1, 1, (envs, 2))
    with h5py.File(tmp_path / "states.h5", "w") as file:
        file["qpos"], file["qvel"] = qpos, np.zeros((envs, model.nv))
    down, fan = [(0, 0, -1)] * 15, rng.normal(size=(15, 3)).round(3)
    text = lambda numbers: "[" + ", ".join(f"{x:.17g}" for x in np.ravel(numbers)) + "]"
    grid = "grid_pattern(0.8, 0.4, 0.2)"
    body, site, geom = (lambda kind: lambda name: getattr(data, kind)(name))("body"), (lambda n: data.site(n)), (lambda n: data.geom(n))
    asked = [  # expression, and what mj_ray says
        (f"ray_distance(robot, {grid}, alignment = yaw)", lambda: distances(model, data, body("robot"), GRID, down, "yaw", moving=False)),
        (f"ray_distance(robot, {grid}, [0, 0, -2], yaw, 1.1)", lambda: distances(model, data, body("robot"), GRID, down, "yaw", 1.1, False)),
        (f"ray_distance('site:eye', {text(GRID)}, {text(fan)}, geoms = [world, post, 'subtree:robot', ball])",
         lambda: distances(seen, data, site("eye"), GRID, fan, "base")),
        (f"ray_distance('geom:club', repeat([0, 0.1, 0], 15), {text(fan)}, world, geoms = floor)",
         lambda: distances(model, data, geom("club"), [(0, 0.1, 0)] * 15, fan, "world", only="floor")),
        (f"ray_distance(arm, {grid}, {text(fan)}, alignment = base, geoms = trunk)",
         lambda: distances(model, data, body("arm"), GRID, fan, "base", only="trunk")),
    ]
    seen = copy.copy(model)  # what is named is met, visible or not
    seen.geom_rgba[:, 3] = 1
    observations = "".join(f' - {{expression: "{expression}"}}\n' for expression, _ in asked)
    deck = tmp_path / "deck.yaml"
    deck.write_text(
        f"""model: {{file: scene.xml}}
batch: {{num_envs: {envs}}}
simulation: {{precision: double, steps: 1}}
initial_state: {{source: file, file: states.h5}}
task:
 actions: [{{term: joint_effort, joints: [shoulder]}}]
 observations:
 - {{term: height_scan, bodies: [robot, arm], length: 0.8, width: 0.4, resolution: 0.2, max_distance: 1.5, height_offset: 0.25, scale: 0.5}}
{observations}
output: {{trajectory: {{every: 1, fields: [qpos, observation]}}}}
"""
    )
    observed = {}
    for precision in ("double", "single"):
        for ranks in (1, 3):
            run = tmp_path / f"{precision}{ranks}"
            maniple("rollout", deck, f"simulation.precision={precision}", f"output.directory={run}", ranks=ranks)
            with h5py.File(run / "results.h5") as results:
                observed[precision, ranks] = results["trajectory/observation"][:, 0]
        np.testing.assert_array_equal(observed[precision, 1], observed[precision, 3])
    hits = np.zeros((len(asked), 2))
    for env in range(envs):
        data.qpos = qpos[env]
        mujoco.mj_kinematics(model, data)
        found = observed["double", 1][env]
        scans = [distances(model, data, body(name), GRID, down, "yaw", 1.5, False) for name in ("robot", "arm")]
        # mjlab's own term, fed with what its sensor gives
        heights = np.concatenate(scans)
        sensor = types.SimpleNamespace(
            cfg=types.SimpleNamespace(max_distance=1.5), num_frames=2, num_rays_per_frame=15,
            data=types.SimpleNamespace(distances=torch_in_numpy.tensor(heights[None]),
                                       frame_pos_w=torch_in_numpy.tensor([[body("robot").xpos, body("arm").xpos]]),
                                       hit_pos_w=torch_in_numpy.tensor(
                                           [[[0, 0, body(("robot", "arm")[i // 15]).xpos[2] - max(heights[i], 0)] for i in range(30)]])))
        expected = np.asarray(height_scan(types.SimpleNamespace(scene={"scan": sensor}), "scan", offset=0.25))[0] * 0.5
        np.testing.assert_allclose(found[:30], expected, rtol=0, atol=1e-12, err_msg=str(env))
        for i, (expression, answer) in enumerate(asked):
            expected = answer()
            np.testing.assert_allclose(found[30 + 15 * i:45 + 15 * i], expected, rtol=1e-12, atol=1e-12, err_msg=f"{expression} {env}")
            hits[i] += [(expected >= 0).sum(), (expected < 0).sum()]
    assert (hits > 50).all(), hits
    same = np.isclose(observed["single", 1], observed["double", 1], rtol=1e-4, atol=1e-4)
    assert same.mean() > 0.995  # but for rays that pass an edge
