"""Events that give each environment a model of its own: steps of a deck against
libmujoco's, with one mjModel for each environment; draws at start-up, resets and
intervals; the same bits on any number of ranks and over a restart; and refusals."""
# ctest: PROCESSORS 1 COST 30

import subprocess

import h5py
import mujoco
import numpy as np
import pytest
from walker import EVENTS, FIELDS, MODEL, deck, rollout  # noqa: F401

# Few fields, so that each is seen to be at hand wherever contacts are looked for.
HIPS = """
    hips: {field: body_pos, bodies: [".*_thigh"], mode: startup, operation: add, ranges: [-.02, .02]}
"""
SHAPES = """
    shapes: {field: geom_size, geoms: [".*_foot"], mode: reset, operation: scale, ranges: [.8, 1.2]}
"""
PLACES = """
    places: {field: geom_pos, geoms: [".*_foot", floor], mode: reset, operation: add, ranges: {0: [-.02, .02], 2: [-.01, .01]}}
"""


def of_model(observation, model):
    """The fields of an observation by name."""
    sizes = {"gravity": (3,), "qpos0": (model.nq,), "body_pos": (model.nbody, 3), "body_quat": (model.nbody, 4),
             "body_mass": (model.nbody,), "body_ipos": (model.nbody, 3),
             "dof_damping": (model.nv,), "dof_armature": (model.nv,), "dof_frictionloss": (model.nv,),
             "jnt_range": (model.njnt, 2), "jnt_stiffness": (model.njnt,), "actuator_forcerange": (model.nu, 2),
             "geom_pos": (model.ngeom, 3), "geom_quat": (model.ngeom, 4), "geom_size": (model.ngeom, 3),
             "geom_friction": (model.ngeom,), "actuator_gainprm": (model.nu, 3), "actuator_biasprm": (model.nu, 3)}
    fields, at = {}, 0
    for name in FIELDS:
        count = int(np.prod(sizes[name]))
        fields[name] = observation[..., at:at + count].reshape(*observation.shape[:-1], *sizes[name])
        at += count
    assert at == observation.shape[-1]
    return fields


def own_model(fields):
    """An mjModel with these fields, and what follows from them."""
    model = mujoco.MjModel.from_xml_string(MODEL)
    model.opt.tolerance, model.opt.ls_tolerance = 1e-15, 1e-10
    model.opt.gravity[:] = fields["gravity"]
    model.geom_friction[:, 0] = fields["geom_friction"]
    for name in ("body_quat", "geom_quat"):
        getattr(model, name)[:] = fields[name] / np.linalg.norm(fields[name], axis=1, keepdims=True)
    for name in ("qpos0", "body_pos", "geom_pos", "geom_size", "body_mass", "body_ipos", "dof_damping", "dof_armature", "dof_frictionloss", "jnt_range",
                 "jnt_stiffness", "actuator_forcerange"):
        getattr(model, name)[:] = fields[name]
    for name in ("actuator_gainprm", "actuator_biasprm"):
        getattr(model, name)[:, :3] = fields[name]
    # what mj_setConst leaves as it is: the spheres, and the boxes, here large ones, by which pairs are found
    model.geom_sameframe[:] = mujoco.mjtSameFrame.mjSAMEFRAME_NONE
    capsules = model.geom_type == mujoco.mjtGeom.mjGEOM_CAPSULE
    model.geom_rbound[capsules] = model.geom_size[capsules, :2].sum(axis=1)
    model.geom_aabb[:, 3:] += 1
    model.bvh_aabb[:, 3:] += 1
    mujoco.mj_setConst(model, mujoco.MjData(model))
    return model


@pytest.mark.parametrize("events", [EVENTS, HIPS, SHAPES, PLACES], ids=["all", "hips", "shapes", "places"])
def test_steps_are_those_of_an_own_model(maniple, deck, tmp_path, events):
    run = rollout(maniple, deck(events=events), tmp_path / "run")
    plain = mujoco.MjModel.from_xml_string(MODEL)
    fields = of_model(run["observation"], plain)
    compared = touched = 0
    for env in range(0, 40, 3):
        for step in range(1, 60):
            before, after = step - 1, step
            if run["truncated"][env, after]:
                continue  # the next sample is of the next episode
            # (an interval's draw is seen before the step that it is for)
            model = own_model({name: values[env, before] for name, values in fields.items()})
            data = mujoco.MjData(model)
            data.qpos[:], data.qvel[:] = run["qpos"][env, before], run["qvel"][env, before]
            data.qacc_warmstart[:], data.ctrl[:] = run["qacc_warmstart"][env, before], run["ctrl"][env, after]
            for _ in range(4):
                mujoco.mj_step(model, data)
            np.testing.assert_allclose(run["qvel"][env, after], data.qvel, rtol=0, atol=2e-8, err_msg=f"{env} {step}")
            np.testing.assert_allclose(run["qpos"][env, after], data.qpos, rtol=0, atol=1e-9)
            compared, touched = compared + 1, touched + (data.ncon > 0)
    assert compared > 700 and touched > 100


def test_observations_show_what_an_interval_did(maniple, deck, tmp_path):
    """An event comes after a control step and before its observations, and what is derived from the state follows it."""
    path = deck(events='\n    lift: {set: "qpos[root][2]", expression: "2 + uniform(0, 1)", mode: interval, every: .1}',
                observed=["qpos[root][2]", "xpos[torso].z"])
    run = rollout(maniple, path, tmp_path / "run", steps=24)
    height = run["qpos"][..., 2]
    np.testing.assert_array_equal(run["observation"][..., 0], height)
    np.testing.assert_allclose(run["observation"][..., 1], height, rtol=0, atol=1e-12)
    lifted = np.diff(height, axis=1) > .5
    assert lifted[:, 4].all() and not lifted[:, :4].any()  # after 5 steps of 0.02 s


def test_sites_are_where_each_environment_has_them(maniple, deck, tmp_path):
    model = MODEL.replace('<body name="left_shin" pos="0 0 -.2">', '<body name="left_shin" pos="0 0 -.2"><site name="tip" pos=".1 0 -.2"/>')
    model = model.replace("  <actuator>", '  <sensor><framepos objtype="site" objname="tip"/></sensor>\n  <actuator>')
    path = deck(events='\n    tips: {field: site_pos, sites: [tip], mode: reset, operation: add, ranges: [-.05, .05]}', model=model,
                observed=["site_pos", "site_xpos[tip]", "sensordata"])
    run = rollout(maniple, path, tmp_path / "run")
    own = mujoco.MjModel.from_xml_string(model)
    own.site_sameframe[:] = mujoco.mjtSameFrame.mjSAMEFRAME_NONE
    data = mujoco.MjData(own)
    for env in range(0, 40, 3):
        for step in range(0, 60, 7):
            observed, data.qpos[:] = run["observation"][env, step], run["qpos"][env, step]
            own.site_pos[0] = observed[:3]
            mujoco.mj_forward(own, data)
            np.testing.assert_allclose(observed[3:6], data.site_xpos[0], rtol=0, atol=1e-12)
            np.testing.assert_allclose(observed[6:], data.sensordata, rtol=0, atol=1e-12)
    assert len(np.unique(run["observation"][:, 0, 0])) == 40


def test_draws(maniple, deck, tmp_path):
    run = rollout(maniple, deck(num_envs=320, precision="single"), tmp_path / "run")
    plain = mujoco.MjModel.from_xml_string(MODEL)
    fields = of_model(run["observation"].astype(float), plain)
    ends = run["truncated"][0, :, 0].astype(bool)
    assert ends.sum() == 2  # all episodes are equally long

    def body(name):
        return plain.body(name).id

    first = {name: values[:, 0] for name, values in fields.items()}
    for name in ("body_mass", "body_ipos", "geom_friction", "actuator_gainprm", "actuator_biasprm", "qpos0"):
        np.testing.assert_array_equal(fields[name], np.repeat(fields[name][:, :1], 61, axis=1), err_msg=name)
    scale = first["body_mass"] / np.where(plain.body_mass > 0, plain.body_mass, 1)
    for name, low, high in (("torso", .8, 1.5), ("left_shin", 1, 2), ("right_shin", 1, 2)):
        drawn = scale[:, body(name)]
        assert drawn.min() >= low - 1e-6 and drawn.max() <= high + 1e-6 and len(np.unique(drawn)) > 300
        assert abs(drawn.mean() - (low + high) / 2) < 4 * (high - low) / np.sqrt(12 * 320)
    assert abs(np.corrcoef(scale[:, body("left_shin")], scale[:, body("right_shin")])[0, 1]) < .2
    assert np.abs(scale[:, body("left_thigh")] - 1).max() < 1e-6  # no range is for it
    com = first["body_ipos"] - plain.body_ipos
    assert np.abs(np.delete(com, body("torso"), axis=1)).max() < 1e-6 and np.abs(com[:, body("torso"), 1]).max() < 1e-6
    assert np.abs(com[:, body("torso"), 0]).max() > .045 and com[:, body("torso"), 2].min() >= -1e-6
    feet = first["geom_friction"][:, [plain.geom(name).id for name in ("floor", "left_foot", "right_foot")]]
    assert (feet == feet[:, :1]).all() and feet.min() >= .3 - 1e-6 and feet.max() > 1.1
    bones = first["geom_friction"][:, [plain.geom(name).id for name in ("left_bone", "right_bone")]]
    assert abs(bones.mean() - 1) < .01 and abs(bones.std() - .05) < .006 and bones.max() > 1.1
    gain, bias = first["actuator_gainprm"], first["actuator_biasprm"]
    np.testing.assert_array_equal(gain[:, :, 0], -bias[:, :, 1])
    assert len(np.unique(gain[:, 0, 0])) > 300 and (bias[:, :, 2] == bias[:, :1, 2]).all()
    # at resets, and not in between
    damping = fields["dof_damping"]
    changes = (damping[:, 1:] != damping[:, :-1]).any(axis=2)
    np.testing.assert_array_equal(changes, np.repeat(ends[None, 1:], 320, axis=0))
    logs = np.log(damping[:, 0, 6:] / plain.dof_damping[6:])
    assert np.abs(logs).max() <= np.log(2) + 1e-6 and abs(logs.mean()) < .05
    assert (damping[:, :, :6] == 0).all()
    knees = [plain.joint(name).id for name in ("left_knee", "right_knee")]
    low, high = np.moveaxis(fields["jnt_range"][:, 0][:, knees], -1, 0)
    assert -.6 <= low.min() < -.58 and -.12 < low.max() <= -.1 and .1 <= high.min() < .12 and .38 < high.max() <= .4
    assert ((fields["jnt_range"][:, 1:] != fields["jnt_range"][:, :-1]).any(axis=(2, 3)) == ends[1:]).all()
    assert len(np.unique(first["jnt_stiffness"])) > 600 and first["jnt_stiffness"].max() <= 9
    np.testing.assert_array_equal(np.ptp(fields["jnt_stiffness"], axis=1), 0)
    force = first["actuator_forcerange"][:, [0, 2]] / [-9, 7]
    assert .5 <= force.min() < .51 and .99 < force.max() <= 1 + 1e-6
    # each 5 control steps
    gravity = fields["gravity"]
    changes = (gravity[:, 1:] != gravity[:, :-1]).any(axis=2)
    assert (changes.sum(axis=1) == changes[0].sum()).all() and 9 <= changes[0].sum() <= 12
    assert (gravity[:, :, 1] == 0).all() and np.abs(gravity[:, :, 0]).max() <= 1


def test_ranks_and_restarts(maniple, deck, tmp_path):
    path = deck(precision="single", num_envs=230)
    digests = {}
    for ranks in (1, 3):
        directory = tmp_path / str(ranks)
        maniple("train", path, f"output.directory={directory}", ranks=ranks)
        digests[ranks] = maniple.digest(maniple.checkpoints(directory)[-1])
    assert len(set(digests.values())) == 1, digests
    directory = tmp_path / "resumed"
    maniple("train", path, "learning.iterations=2", f"output.directory={directory}", ranks=2)
    with h5py.File(maniple.checkpoints(directory)[-1]) as file:
        before = file["state/model_values"][()]
    maniple("train", path, "learning.resume=auto", f"output.directory={directory}", ranks=7)
    assert maniple.digest(maniple.checkpoints(directory)[-1]) == digests[1]
    with h5py.File(maniple.checkpoints(directory)[-1]) as file:
        after = file["state/model_values"][()]
    torso = 3 + 11 + 7 * 6  # gravity, qpos0, poses of bodies, then masses: those of the world and the torso
    np.testing.assert_array_equal(after[:, torso], before[:, torso])
    assert len(np.unique(before[:, torso + 1])) == 230


def test_fields_are_recorded_by_name(maniple, deck, tmp_path):
    path = deck(events=SHAPES, observed=["geom_size"])
    run = rollout(maniple, path, tmp_path / "run", steps=5, fields=("geom_size", "observation"))
    assert run["geom_size"].shape == run["observation"].shape == (40, 6, 3 * mujoco.MjModel.from_xml_string(MODEL).ngeom)
    np.testing.assert_array_equal(run["geom_size"], run["observation"])
    assert len(np.unique(run["geom_size"][:, 0], axis=0)) == 40
    said = maniple("rollout", path, "output.trajectory.every=1", "output.trajectory.fields=[body_mass]", exit_code=2).stderr
    assert 'fields: "body_mass" is the same in all environments, as no event of the task sets it; fields of the model that' in said, said


def test_nothing_is_kept_of_a_model_that_does_not_vary(maniple, deck, tmp_path):
    maniple("train", deck(events="{}", observed=["qpos"], precision="single"), "learning.iterations=1",
            f"output.directory={tmp_path / 'run'}")
    with h5py.File(maniple.checkpoints(tmp_path / "run")[-1]) as file:
        assert "model_values" not in file["state"]


@pytest.mark.parametrize("event, expected", [
    ("{field: geom_margin, geoms: [floor], mode: startup, operation: scale, ranges: [1, 2]}",
     ["geom_margin", "cannot vary", "allowed:", "geom_friction", "body_mass"]),
    ("{field: geom_size, geoms: [floor], mode: startup, operation: scale, ranges: [1, 2]}",
     ["without effect", "geom_size of 'floor' does not count: it is a plane", "spheres, capsules"]),
    ("{field: geom_size, geoms: [left_foot], mode: startup, operation: add, ranges: [-1, 0]}", ["push.ranges", "[-1, 0]", "leaves 0 of 'left_foot'"]),
    ("{field: site_pos, sites: [tip], mode: startup, operation: add, ranges: [0, 1]}", ["'site_pos' in a model without sites"]),
    ("{field: body_mas, bodies: [torso], mode: startup, operation: scale, ranges: [1, 2]}", ["did you mean 'body_mass'"]),
    ("{field: body_mass, bodies: [torso], mode: startup, operation: scale, ranges: [2, 1]}",
     ["push.ranges", "[2, 1]", "low <= high"]),
    ("{field: geom_size, geoms: [left_foot], mode: startup, operation: scale, ranges: [0, 1]}", ["[0, 1]", "above 0 for geom_size of 'left_foot'"]),
    ("{field: body_mass, bodies: [left_shin], mode: startup, operation: scale, ranges: [0, 1]}", ["[0, 1]", "above 0 for body_mass of 'left_shin'"]),
    ("{field: body_mass, bodies: [torso], mode: startup, operation: scale, ranges: [-1, 1]}", ["[-1, 1]", "above 0"]),
    ("{field: body_mass, bodies: [torso], mode: startup, operation: scale, ranges: [1, inf]}", ["draws with the parameter inf", "finite numbers"]),
    ("{field: body_mass, bodies: [torso], mode: startup, operation: scale, ranges: [1, NaN]}", ["push.ranges", "'NaN'", "[low, high]"]),
    ("{field: body_mass, bodies: [torso], mode: startup, operation: add, ranges: [-100, 1]}",
     ["push.ranges", "[-100, 1]", "above -", "'torso'"]),
    ("{set: \"body_mass[torso]\", expression: \"-1\", mode: startup}", ["-1 for body_mass", "at least 0"]),
    ("{set: \"gravity[2]\", expression: \"1 / 0\", mode: startup}", ["inf for gravity", "finite"]),
    ("{set: \"body_mass[torso]\", expression: \"uniform(3, 1)\", mode: startup}", ["the range from 3 to 1", "lower end first"]),
    ("{field: body_mass, bodies: [torso], mode: startup, ranges: [1, 2]}", ["push.operation", "scale | add | abs"]),
    ("{field: body_mass, bodies: [torso], mode: startup, operation: scale}", ["push.ranges", "[low, high]"]),
    ("{field: body_mass, bodies: [torse], mode: startup, operation: scale, ranges: [1, 2]}",
     ["push.bodies", "'torse'", "did you mean 'torso'"]),
    ("{field: body_mass, joints: [left_hip], mode: startup, operation: scale, ranges: [1, 2]}", ["it takes bodies"]),
    ("{field: body_mass, mode: startup, operation: scale, ranges: [1, 2]}", ["without bodies", "left_thigh"]),
    ("{field: body_ipos, bodies: [torso], mode: startup, operation: add, ranges: {3: [0, 1]}}", ["component 3", "0 to 2"]),
    ("{field: body_ipos, bodies: [torso], mode: startup, operation: add, ranges: [0, 1], every: 2}",
     ["push.every", "mode is startup"]),
    ("{field: dof_damping, joints: [left_hip], mode: reset, operation: scale, distribution: log_uniform, ranges: [0, 1]}",
     ["[0, 1]", "above 0", "log_uniform"]),
    ("{field: dof_damping, joints: [left_hip], mode: reset, operation: times, ranges: [0, 1]}", ["times", "scale | add | abs"]),
    ("{term: reset_scene_to_default, mode: startup, ranges: [0, 1]}", ["push.ranges", "without field"]),
    ("{field: dof_damping, expression: \"1\", joints: [left_hip], mode: reset, operation: scale, ranges: [0, 1]}",
     ["field together with term or expression"]),
    ("{field: actuator_forcerange, actuators: [actuator1, actuator3], mode: reset, operation: scale, ranges: [.5, 1]}",
     ["without effect", "actuator_forcerange of 'actuator1' does not hold", "actuators whose forces are limited"]),
    ("{field: jnt_range, joints: [root], mode: reset, operation: abs, ranges: {0: [-.6, -.1]}}",
     ["without effect", "jnt_range of 'root' does not hold"]),
    ("{field: jnt_stiffness, joints: [\".*_hip\"], mode: startup, operation: scale, ranges: [0, 9]}",
     ["without effect", "jnt_stiffness of 'left_hip' is 0 in the model", "add | abs"]),
    ("{field: body_pos, bodies: [torso], mode: startup, operation: add, ranges: [0, 1]}",
     ["without effect", "body_pos of 'torso' does not count", "qpos['root']"]),
    ("{set: \"qpos[left_hip]\", expression: \"1\", mode: startup}", ["fields of the model"]),
    ("{set: \"geom_size[floor]\", expression: \"1\", mode: startup}", ["without effect", "'geom_size[floor]' does not count: it is a plane"]),
    ("{set: \"geom_margin[floor]\", expression: \"1\", mode: startup}", ["unknown name 'geom_margin'"]),
])
def test_refused(maniple, deck, tmp_path, event, expected):
    path = deck(events=f"\n    push: {event}", observed=["qpos"])
    line = next(i for i, text in enumerate(path.read_text().splitlines(), 1) if "push:" in text)
    result = maniple("validate", path, ranks=0, exit_code=2)
    message = result.stderr
    assert message.count("maniple: error: ") == 1, message
    for part in [f"{path}:{line}", "task.events.push", *expected]:
        assert part in message, message


@pytest.mark.parametrize("event", ["{field: geom_size, geoms: [left_bone, trunk], mode: startup, operation: scale, ranges: [1, 2]}",
                                   "{set: \"geom_size[left_bone]\", expression: \"1\", mode: startup}"])
def test_ellipsoids_in_a_fluid_keep_their_sizes(maniple, deck, event):
    model = MODEL.replace("<option", '<option density="1.2"').replace('"left_bone"', '"left_bone" fluidshape="ellipsoid"')
    path = deck(events=f"\n    push: {event}", observed=["qpos"], model=model)
    message = maniple("validate", path, ranks=0, exit_code=2).stderr
    assert "geom_size of 'left_bone' is one for the whole model: a fluid acts on the geom as an ellipsoid" in message, message
    maniple("validate", path, "simulation.density=0", ranks=0)


def test_a_reset_cannot_set_the_model(maniple, deck):
    path = deck(events="{}", observed=["qpos"])
    path.write_text(path.read_text().replace("  resets:\n", "  resets:\n    - {set: \"body_mass[torso]\", expression: \"1\"}\n"))
    assert "cannot be assigned" in maniple("validate", path, ranks=0, exit_code=2).stderr


def test_a_pattern_of_joints_leaves_the_base_alone(maniple, deck, tmp_path):
    """Damping of a free joint slows its fall. By its own name it can be set."""
    for name, joints, expected in (("pattern", '[".*"]', 6 * [0] + 4 * [2]), ("name", "[root]", 6 * [2] + 4 * [.3])):
        path = deck(events=f"{{damping: {{field: dof_damping, joints: {joints}, mode: startup, operation: abs, ranges: [2, 2]}}}}",
                    observed=["dof_damping"], num_envs=2)
        found = rollout(maniple, path, tmp_path / name, steps=1, ranks=1)["observation"]
        np.testing.assert_allclose(found, np.broadcast_to(expected, found.shape))
    for event in ("{field: dof_damping, joints: [\"r..t\"], mode: startup, operation: abs, ranges: [2, 2]}",):
        path = deck(events=f"{{damping: {event}}}", observed=["dof_damping"])
        assert "'r..t' matches free joints alone" in maniple("validate", path, ranks=0, exit_code=2).stderr
    path = deck(events="{}", observed=["qpos"])
    # terms take the joints that they are for
    path.write_text(path.read_text().replace("  rewards:\n", "  rewards:\n    still: {term: joint_vel_l2, joints: [\".*\"], weight: -1}\n"))
    told = maniple("validate", path, ranks=0).stdout
    assert "x joint_vel_l2 (joints [" in told and "root" not in told.split("joint_vel_l2 (joints [")[1].splitlines()[0]


def test_listed(maniple, deck):
    terms = subprocess.run([maniple.program, "schema", "quantities", deck()], capture_output=True, text=True, check=True).stdout
    for name in FIELDS:
        assert f"\n{name} " in terms, name
    assert "default_body_mass" in terms


def test_draws_that_cannot_be_negative(maniple, deck, tmp_path):
    """Gaussians, and what expressions of a deck draw, end at 0 where no model has negative numbers."""
    events = """
    damping: {field: dof_damping, joints: [left_hip], mode: reset, operation: abs, distribution: gaussian, ranges: [0.5, 1]}
    spring: {set: "jnt_stiffness[left_hip]", mode: reset, expression: "normal(0, 1)"}
    zero: {field: qpos0, joints: [left_knee], mode: reset, operation: add, distribution: gaussian, ranges: [0, .1]}
"""
    path = deck(events=events, observed=["dof_damping[left_hip]", "jnt_stiffness[left_hip]", "qpos0[left_knee]"], num_envs=256)
    damping, spring, zero = rollout(maniple, path, tmp_path, steps=2, fields=("observation",))["observation"][:, -1].T[-3:]
    assert damping.min() == 0 and .2 < (damping == 0).mean() < .42 and damping.max() > 2  # 31 % of them
    assert spring.min() == 0 and .4 < (spring == 0).mean() < .6
    assert zero.min() < 0
