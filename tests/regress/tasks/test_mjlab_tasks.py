"""The decks of inputs/tasks/mjlab against mjlab itself: its models, and its own term functions with its own
configuration, applied to the states, contacts and actions of recorded rollouts. numpy stands in for torch."""
# ctest: PROCESSORS 1 COST 30

import ast
import copy
import math
import re
import types

import h5py
import mujoco
import numpy as np
import pytest
import torch_in_numpy
from conftest import ROOT, of_the_day

torch_in_numpy.install()
from mjlab.entity import Entity  # noqa: E402
from mjlab.entity.data import EntityData  # noqa: E402
from mjlab.envs.mdp.actions.actions import JointPositionAction  # noqa: E402
from mjlab.sensor import BuiltinSensor, TerrainHeightSensor  # noqa: E402
from mjlab.tasks.cartpole.cartpole_env_cfg import cartpole_balance_env_cfg, cartpole_swingup_env_cfg  # noqa: E402
from mjlab.tasks.velocity.config.g1.env_cfgs import unitree_g1_flat_env_cfg, unitree_g1_rough_env_cfg  # noqa: E402
from mjlab.tasks.velocity.config.go1.env_cfgs import unitree_go1_flat_env_cfg, unitree_go1_rough_env_cfg  # noqa: E402
from mjlab_originals import Contacts, assert_same_models, model_of  # noqa: E402

tensor = torch_in_numpy.tensor
ENVS, STEPS = 24, 30
ROBOTS = {
    "g1_flat": {"config": unitree_g1_flat_env_cfg, "root": "pelvis", "feet": ["left_foot", "right_foot"],
                "primary": [("xbody", "left_ankle_roll_link"), ("xbody", "right_ankle_roll_link")]},
    "go1_flat": {"config": unitree_go1_flat_env_cfg, "root": "trunk", "feet": ["FR", "FL", "RR", "RL"],
                 "primary": [("geom", f"{leg}_foot_collision") for leg in ("FR", "FL", "RR", "RL")]},
}


def own_numbers(model, recorded):
    """body_ipos and geom_friction of each environment, by the names that the model has for them; they lie in front of
    what follows from them."""
    values = recorded["model_values"][:, 0]
    bodies, geoms = 3 * model.nbody, model.ngeom
    return {"body_ipos": values[:, :bodies].reshape(ENVS, -1, 3), "geom_friction": values[:, bodies:bodies + geoms]}


def original_spec(name, config):
    """mjlab's robot on its ground."""
    spec = Entity(config.scene.entities["robot"]).spec
    ground = spec.worldbody.add_body(name="terrain")
    ground.add_geom(name="terrain", type=mujoco.mjtGeom.mjGEOM_PLANE, size=(0, 0, 0.01))
    if name == "go1_flat":  # what the deck says of its contacts
        for geom in spec.geoms:
            if geom.name.endswith("_foot_collision"):
                geom.condim, geom.friction[:] = 3, [1, 0.005, 0.0001]
        spec.geom("trunk_collision").contype, spec.geom("trunk_collision").conaffinity = 2, 0
        spec.geom("terrain").conaffinity = 3
    return spec


def original_model(name, config, spec=None):
    model = (spec or original_spec(name, config)).compile()
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    model.opt.timestep, model.opt.impratio = config.sim.mujoco.timestep, config.sim.mujoco.impratio
    assert config.sim.mujoco.integrator == "implicitfast" and config.sim.mujoco.solver == "newton"
    return model


@pytest.fixture(scope="module", params=of_the_day(ROBOTS, "g1_flat"))
def name(request):
    return request.param


@pytest.fixture(scope="module")
def config(name):
    return ROBOTS[name]["config"]()


@pytest.fixture(scope="module")
def rollout(maniple, name, tmp_path_factory):
    directory = tmp_path_factory.mktemp(name)
    size = {"g1_flat": 29, "go1_flat": 12}[name]
    with h5py.File(directory / "given.h5", "w") as file:
        file["action"] = np.random.default_rng(5).uniform(-2.5, 2.5, (ENVS, STEPS, size))
    fields = ("qpos, qvel, ctrl, qacc_warmstart, model_values, variables/encoder_bias, action, observation, critic_observation, final_observation, reward_term, "
              "terminated, truncated")
    maniple("rollout", ROOT / f"inputs/tasks/mjlab/{name}.yaml", "simulation.precision=double", f"batch.num_envs={ENVS}",
            f"simulation.steps={STEPS}", "initial_state.source=task", "control.source=file",
            f"control.file={directory}/given.h5",
            # without noise
            *(f"task.observations.{i}.noise=~" for i in range(5)), "output.trajectory.every=1",
            f"output.trajectory.fields=[{fields}]", f"output.directory={directory}/run", ranks=2)
    with h5py.File(directory / "run/results.h5") as file:
        recorded = {field: values[()] for field, values in file["trajectory"].items() if field != "variables"}
        recorded["encoder_bias"] = file["trajectory/variables/encoder_bias"][()]
        return model_of(file), recorded


def test_model_is_that_of_mjlab(name, config, rollout):
    ours, theirs = rollout[0], original_model(name, config)
    fields = {"body": "body_mass body_inertia body_ipos body_iquat body_pos body_quat",
              "joint": "jnt_type jnt_range jnt_axis jnt_pos jnt_stiffness jnt_limited jnt_solref jnt_solimp",
              "geom": "geom_type geom_size geom_pos geom_quat geom_contype geom_conaffinity geom_condim geom_priority "
                      "geom_friction geom_solref geom_solimp geom_margin",
              "actuator": "actuator_gainprm actuator_biasprm actuator_forcerange actuator_forcelimited actuator_ctrllimited "
                          "actuator_gear actuator_dyntype actuator_gaintype actuator_biastype",
              "sensor": "sensor_type sensor_dim", "site": "site_pos site_quat"}
    assert_same_models(ours, theirs, "nq nv nu njnt nsite nsensor", fields,
                       "dof_armature dof_damping dof_frictionloss qpos0 jnt_qposadr key_qpos")


class Heights(TerrainHeightSensor):
    """On flat ground every ray of a foot finds the height of its site, and none from below or from too high above."""

    data = num_frames = None

    def __init__(self, frames):
        self.num_frames = frames


class Sensor(BuiltinSensor):
    data = None

    def __init__(self):
        pass


class Environment:
    """What mjlab's terms see of their environment, for the states of one control step of all environments."""

    def __init__(self, name, config):
        robot = ROBOTS[name]
        self.config, self.feet = config, len(robot["feet"])
        spec = original_spec(name, config)
        kinds = {"xbody": mujoco.mjtObj.mjOBJ_XBODY, "geom": mujoco.mjtObj.mjOBJ_GEOM}
        add = lambda title, kind, primary, secondary, bits, reduce: spec.add_sensor(
            name=title, type=mujoco.mjtSensor.mjSENS_CONTACT, objtype=kinds[kind], objname=primary,
            reftype=kinds["xbody"], refname=secondary, intprm=[bits, reduce, 1])
        for i, (kind, primary) in enumerate(robot["primary"]):
            add(f"found{i}", kind, primary, "terrain", 1, 3)
            add(f"force{i}", kind, primary, "terrain", 2, 3)
        # the original's reduction is none: any contact of the robot with itself; here the strongest one
        add("found_self", "xbody", robot["root"], robot["root"], 1, 2)
        add("force_self", "xbody", robot["root"], robot["root"], 2, 2)
        self.model = original_model(name, config, spec)
        self.model.opt.tolerance = 1e-15
        self.mujoco = mujoco.MjData(self.model)
        self.num_envs, self.device, self.extras = ENVS, "cpu", {"log": {}}
        self.step_dt = config.sim.mujoco.timestep * config.decimation
        data = EntityData.__new__(EntityData)
        model = self.model
        free = model.joint("floating_base_joint")
        scalar = [i for i in range(model.njnt) if model.jnt_type[i] != mujoco.mjtJoint.mjJNT_FREE]
        data.model = types.SimpleNamespace(site_bodyid=np.array(model.site_bodyid))
        data.indexing = types.SimpleNamespace(
            root_body_id=model.body(robot["root"]).id, body_ids=np.arange(model.nbody), site_ids=np.arange(model.nsite),
            joint_q_adr=np.array([model.jnt_qposadr[i] for i in scalar]), joint_v_adr=np.array([model.jnt_dofadr[i] for i in scalar]),
            free_joint_q_adr=free.qposadr, free_joint_v_adr=free.dofadr)
        home = model.key_qpos[0][data.indexing.joint_q_adr]
        low, high = model.jnt_range[scalar].T
        share = config.scene.entities["robot"].articulation.soft_joint_pos_limit_factor
        soft = [(low + high) / 2 - (high - low) / 2 * share, (low + high) / 2 + (high - low) / 2 * share]
        repeat = lambda values: tensor(np.broadcast_to(values, (ENVS, *np.shape(values))).copy())
        data.default_joint_pos, data.default_joint_vel = repeat(home), repeat(0 * home)
        data.soft_joint_pos_limits = repeat(np.stack(soft, axis=-1))
        data.gravity_vec_w, data.forward_vec_b = repeat([0.0, 0.0, -1.0]), repeat([1.0, 0.0, 0.0])
        data.encoder_bias = repeat(0 * home)
        joints = [model.joint(i).name for i in scalar]
        self.controls = [model.actuator(joint).id for joint in joints]  # in the order of the deck's
        self.robot = types.SimpleNamespace(data=data, find_joints=lambda names: (list(range(len(joints))), joints))
        sensors = {sensor.name: sensor for sensor in config.scene.sensors}
        self.scene = {"robot": self.robot, "foot_height_scan": Heights(self.feet),
                      "feet_ground_contact": Contacts(sensors["feet_ground_contact"], ENVS, self.feet),
                      **{f"robot/{s}": Sensor() for s in ("imu_lin_vel", "imu_ang_vel", "root_angmom")}}
        if "self_collision" in sensors:
            self.scene["self_collision"] = Contacts(sensors["self_collision"], ENVS, 1)
        self.action_manager = types.SimpleNamespace(action=None, prev_action=None)
        self.command_manager = types.SimpleNamespace(get_command=lambda _: self.command)
        self.sites = [model.site(site).id for site in robot["feet"]]
        terms = [*config.rewards.values(), *(t for g in config.observations.values() for t in g.terms.values()),
                 *config.terminations.values()]
        for term in terms:
            cfg = term.params.get("asset_cfg")
            if cfg is not None and cfg.body_names:
                cfg.body_ids = [model.body(body).id for body in cfg.body_names]
            if cfg is not None and cfg.site_names:
                cfg.site_ids = [model.site(site).id for site in cfg.site_names]
        # terms with a memory
        self.functions = {id(t): t.func(t, self) if isinstance(t.func, type) else t.func for t in terms}

    def use(self, ours, own):
        """Gives the environments their own models, of which ours has the numbers; they are the same elements."""
        self.own = []
        for env in range(ENVS):
            model = copy.copy(self.model)
            for kind, field, count in (("body", "body_ipos", ours.nbody), ("geom", "geom_friction", ours.ngeom)):
                for i in range(count):
                    if title := getattr(ours, kind)(i).name:
                        title = {"floor": "terrain"}.get(title, title)
                        place = getattr(model, field)[getattr(model, kind)(title).id]
                        place[:3 if kind == "body" else 1] = own[field][env, i]
            mujoco.mj_setConst(model, mujoco.MjData(model))
            self.own.append(model)

    def set_state(self, env, recorded, step):
        d = self.mujoco
        mujoco.mj_resetData(self.own[env], d)
        for field in ("qpos", "qvel", "qacc_warmstart"):
            getattr(d, field)[:] = recorded[field][env, step]

    def step(self, recorded, step):
        """The physics steps of a control step, after which poses and sensors are one physics step old; mjlab's contact
        sensors follow each of them."""
        d, seen = self.mujoco, [[] for _ in range(self.config.decimation)]
        for env in range(ENVS):
            self.set_state(env, recorded, step - 1)
            d.ctrl[self.controls] = recorded["ctrl"][env, step]
            for physics_step in seen:
                mujoco.mj_step(self.own[env], d)
                physics_step.append(self.derived())
        for physics_step in seen:
            self.show({n: np.stack([one[n] for one in physics_step]) for n in physics_step[0]}, recorded, step)
            for sensor in self.contacts():
                sensor.update(self.config.sim.mujoco.timestep)

    def look(self, recorded, step):
        """All that belongs to the recorded states after a control step, and what rays measure there."""
        seen = []
        for env in range(ENVS):
            self.set_state(env, recorded, step)
            self.mujoco.ctrl[self.controls] = recorded["ctrl"][env, step]
            mujoco.mj_forward(self.own[env], self.mujoco)
            seen.append(self.derived())
        seen = {n: np.stack([one[n] for one in seen]) for n in seen[0]}
        self.show(seen, recorded, step)
        self.scene["foot_height_scan"].data = types.SimpleNamespace(heights=tensor(np.clip(seen["site_xpos"][:, self.sites, 2], 0, 1)))

    def derived(self):
        return {n: getattr(self.mujoco, n).copy() for n in ("xpos", "xquat", "cvel", "subtree_com", "site_xpos", "sensordata")}

    def contacts(self):
        return [sensor for sensor in self.scene.values() if isinstance(sensor, Contacts)]

    def show(self, seen, recorded, step):
        """To the terms: `seen`, with the positions and velocities after the control step."""
        state = {n: tensor(v) for n, v in seen.items()}
        self.robot.data.encoder_bias = tensor(recorded["encoder_bias"][:, step])
        self.robot.data.data = types.SimpleNamespace(
            qpos=tensor(recorded["qpos"][:, step]), qvel=tensor(recorded["qvel"][:, step]),
            root=None, **state)
        of = lambda sensor: state["sensordata"][:, self.model.sensor(sensor).adr[0]:][:, :self.model.sensor(sensor).dim[0]]
        for sensor in ("imu_lin_vel", "imu_ang_vel", "root_angmom"):
            self.scene[f"robot/{sensor}"].data = of(sensor)
        feet = range(self.feet)
        self.scene["feet_ground_contact"].see(np.concatenate([of(f"found{i}") for i in feet], axis=1),
                                              np.stack([of(f"force{i}") for i in feet], axis=1))
        if "self_collision" in self.scene:
            self.scene["self_collision"].see(of("found_self"), of("force_self")[:, None])

    def value(self, term):
        params = {k: v for k, v in term.params.items()}
        return np.asarray(self.functions[id(term)](self, **params), dtype=float)

    def observation(self, group):
        return np.concatenate([self.value(t).reshape(ENVS, -1) for t in self.config.observations[group].terms.values()], axis=1)


@pytest.fixture(scope="module")
def environment(name, config):
    return Environment(name, copy.deepcopy(config))


def test_terms_are_those_of_mjlab(name, config, rollout, environment):
    """Each reward and observation of 30 control steps, as long as an environment's first episode lasts."""
    recorded = rollout[1]
    environment.use(rollout[0], own_numbers(*rollout))
    rewards = {n: t for n, t in environment.config.rewards.items() if t.weight != 0}
    assert recorded["reward_term"].shape[-1] == len(rewards)
    alive = np.ones(ENVS, bool)
    zero = tensor(np.zeros_like(recorded["action"][:, 0]))
    environment.action_manager.action, environment.command = zero, tensor(recorded["observation"][:, 0, -3:])
    compared, falls, largest = 0, 0, np.zeros(len(rewards))
    environment.look(recorded, 0)
    for step in range(STEPS + 1):
        if step > 0:
            environment.step(recorded, step)
            ended = (recorded["terminated"] + recorded["truncated"])[:, step, 0] > 0
            value = environment.value(environment.config.terminations["fell_over"])
            np.testing.assert_array_equal(ended[alive], value[alive] > 0, err_msg=f"ends at {step}")
            falls += (ended & alive).sum()
            alive &= ~ended
            environment.action_manager.prev_action = environment.action_manager.action
            environment.action_manager.action = tensor(recorded["action"][:, step])
            # rewards see the command that the policy saw
            for i, (title, term) in enumerate(rewards.items()):
                value = environment.value(term) * term.weight * environment.step_dt
                ours = recorded["reward_term"][:, step, i]
                forces = title == "soft_landing"
                np.testing.assert_allclose(ours[alive], value[alive], rtol=1e-6 if forces else 1e-9, atol=1e-9 if forces else 1e-10,
                                           err_msg=f"{title} at {step}")
                largest[i] = max(largest[i], np.ptp(value[alive]))
            compared += alive.sum()
        environment.look(recorded, step)
        environment.command = tensor(recorded["observation"][:, step, -3:])
        for group, field in (("actor", "observation"), ("critic", "critic_observation")):
            np.testing.assert_allclose(recorded[field][:, step][alive], environment.observation(group)[alive], rtol=1e-6,
                                       atol=1e-6 if group == "critic" else 1e-10, err_msg=f"{group} at {step}")
    assert compared > 0.4 * ENVS * STEPS and (falls > 0 or name == "go1_flat")  # a dog keeps on its feet
    assert environment.config.episode_length_s / environment.step_dt == pytest.approx(1000)
    assert (largest > 0).all(), [n for n, x in zip(rewards, largest) if x == 0]


def test_encoders_are_biased_as_by_mjlab(name, config, rollout, environment):
    """Drawn for each joint once and for all, seen by the policy, and missed by the servos."""
    recorded = rollout[1]
    bias = recorded["encoder_bias"]
    np.testing.assert_array_equal(bias, np.tile(bias[:, :1], (1, STEPS + 1, 1)))
    event = config.events["encoder_bias"]
    low, high = event.params["bias_range"]
    assert event.mode == "startup" and bias.shape[-1] == len(environment.controls)
    assert low <= bias.min() < 0.9 * low and 0.9 * high < bias.max() <= high
    assert abs(bias[:, 0].mean()) < 0.2 * high and len(np.unique(bias)) > 0.98 * bias[:, 0].size
    assert config.observations["actor"].terms["joint_pos"].params == {"biased": True}
    assert config.observations["critic"].terms["joint_pos"].params == {}
    # its own action, whose target is what the servo gets
    targets = []
    data = environment.robot.data
    action = JointPositionAction.__new__(JointPositionAction)
    scales = config.actions["joint_pos"].scale
    names = environment.robot.find_joints(None)[1]
    scale = np.array([next(x for pattern, x in scales.items() if re.fullmatch(pattern, joint)) for joint in names])
    action._entity = types.SimpleNamespace(data=data, set_joint_position_target=lambda target, joint_ids: targets.append(target))
    action._target_ids = slice(None)
    for step in range(1, STEPS + 1):
        data.encoder_bias = tensor(bias[:, step])
        action._processed_actions = tensor(recorded["action"][:, step] * scale + data.default_joint_pos)
        action.apply_actions()
        running = (recorded["terminated"] + recorded["truncated"])[:, step, 0] == 0
        np.testing.assert_allclose(recorded["ctrl"][running, step], np.asarray(targets[-1])[running], rtol=0, atol=1e-12)


def test_models_are_drawn_as_by_mjlab(name, config, rollout):
    """Sliding friction of the feet, the same for all feet of a robot, and centers of mass; once and for all."""
    model, recorded = rollout
    own = own_numbers(model, recorded)
    np.testing.assert_array_equal(np.ptp(recorded["model_values"], axis=1), 0)
    friction = config.events["foot_friction" if name == "g1_flat" else "foot_friction_slide"].params
    feet = [model.geom(geom).id for geom in friction["asset_cfg"].geom_names]
    low, high = friction["ranges"]
    drawn = own["geom_friction"][:, feet]
    assert low <= drawn.min() < low + .2 * (high - low) and high - .2 * (high - low) < drawn.max() <= high
    assert friction["shared_random"] and friction["operation"] == "abs"
    np.testing.assert_array_equal(np.ptp(drawn, axis=1), 0)
    assert len(set(drawn[:, 0])) == ENVS
    others = np.setdiff1d(np.arange(model.ngeom), feet)
    np.testing.assert_array_equal(own["geom_friction"][:, others], np.tile(model.geom_friction[others, 0], (ENVS, 1)))
    center = config.events["base_com"].params
    bodies = [model.body(body).id for body in center["asset_cfg"].body_names]
    assert center["operation"] == "add" and len(bodies) == 1
    moved = own["body_ipos"] - model.body_ipos
    for axis, (low, high) in center["ranges"].items():
        offsets = moved[:, bodies[0], axis]
        assert low <= offsets.min() < .6 * low and .6 * high < offsets.max() <= high
    np.testing.assert_array_equal(np.delete(moved, bodies, axis=1), 0)
    # all events of mjlab that the deck has
    told = {"reset_base", "reset_robot_joints", "push_robot", "base_com", "encoder_bias", "foot_friction",
            "foot_friction_slide", "foot_friction_spin", "foot_friction_roll"}
    assert set(config.events) <= told and all(config.events[e].mode == "startup" for e in told & set(config.events) - {
        "reset_base", "reset_robot_joints", "push_robot"})


def shown(low, high):
    return f"[{low:g}, {high:g}]"


def test_numbers_are_those_of_the_configuration(name, config):
    """Of commands, resets, pushes and noise."""
    deck = (ROOT / f"inputs/tasks/mjlab/{name}.yaml").read_text()
    twist = config.commands["twist"]
    assert f"lin_vel_y: {shown(*twist.ranges.lin_vel_y)}" in deck
    # stages of the command's ranges, which keep what a stage does not say
    curriculum = config.curriculum["command_vel"].params
    given = lambda key: ast.literal_eval(re.search(rf"\b{key}: (\[[^]]*\]|\"[^\"]*\")", deck)[1])
    ranges = {axis: getattr(twist.ranges, axis) for axis in ("lin_vel_x", "ang_vel_z")}
    steps = [stage["step"] for stage in curriculum["velocity_stages"]]
    assert set(config.curriculum) == {"command_vel"} and curriculum["command_name"] == "twist" and steps[0] == 0
    assert {key for stage in curriculum["velocity_stages"] for key in stage} == {"step", *ranges}
    update = given("update")
    for number, stage in enumerate(curriculum["velocity_stages"]):
        for at in (steps[number], steps[number + 1] - 1 if number + 1 < len(steps) else 10**9):
            assert eval(update, {"control_steps": at}) == number
        ranges.update({axis: stage[axis] for axis in ranges if axis in stage})
        for axis, bounds in ranges.items():
            ours = [eval(end, {"stage": number, "min": min}) for end in given(axis)]
            np.testing.assert_allclose(ours, bounds, rtol=1e-12)
    for number in ("heading_control_stiffness", "rel_heading_envs", "rel_standing_envs", "rel_forward_envs"):
        assert f"{number}: {getattr(twist, number):g}\n" in deck
    assert f"every: {shown(*twist.resampling_time_range)} " in deck and twist.ranges.heading == (-math.pi, math.pi)
    assert twist.rel_world_envs == twist.init_velocity_prob == 0
    base = config.events["reset_base"].params
    for axis, bounds in base["pose_range"].items():
        assert f"{axis}: {shown(*bounds)}" in deck
    assert not base["velocity_range"]
    joints = config.events["reset_robot_joints"].params
    assert joints["position_range"] == joints["velocity_range"] == (0, 0)
    push = config.events["push_robot"]
    for axis, ours in zip("x y z roll pitch yaw".split(), "vx vy vz wx wy wz".split()):
        assert f"{ours}: {shown(*push.params['velocity_range'][axis])}" in deck
    assert f"every: {shown(*push.interval_range_s)} " in deck
    for title, term in config.observations["actor"].terms.items():
        if term.noise:
            line = next(line for line in deck.splitlines() if f"name: {title}," in line or f"term: {title}," in line)
            assert term.noise.n_min == -term.noise.n_max and f"noise: {term.noise.n_max:g}}}" in line
    scale = config.actions["joint_pos"].scale
    assert config.actions["joint_pos"].use_default_offset and set(config.actions["joint_pos"].actuator_names) == {".*"}
    for number in scale.values():
        assert repr(number) in deck


CARTPOLES = {"cartpole": cartpole_balance_env_cfg, "cartpole_swingup": cartpole_swingup_env_cfg}


@pytest.mark.parametrize("task", of_the_day(CARTPOLES, "cartpole_swingup"))
def test_cartpole(maniple, tmp_path, task):
    config = CARTPOLES[task]()
    maniple("rollout", ROOT / f"inputs/tasks/mjlab/{task}.yaml", "simulation.precision=double", "batch.num_envs=600",
            "simulation.steps=6", "initial_state.source=task", "control.source=random", "output.trajectory.every=1",
            "output.trajectory.fields=[qpos,qvel,action,observation,reward]", f"output.directory={tmp_path}/run")
    with h5py.File(tmp_path / "run/results.h5") as file:
        model, recorded = model_of(file), {field: values[()] for field, values in file["trajectory"].items()}
    assert model.opt.timestep == config.sim.mujoco.timestep and model.opt.integrator == mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    # the physics is MuJoCo's
    data = mujoco.MjData(model)
    for env in range(0, 600, 50):
        mujoco.mj_resetData(model, data)
        data.qpos, data.qvel = recorded["qpos"][env, 0], recorded["qvel"][env, 0]
        for step in range(1, 7):
            data.ctrl = recorded["action"][env, step]
            mujoco.mj_step(model, data, config.decimation)
            np.testing.assert_allclose(data.qpos, recorded["qpos"][env, step], atol=1e-10)
    # observations and rewards are those of its functions
    joint = {"slider": 0, "hinge_1": 1}
    terms = [*config.observations["actor"].terms.values(), *config.rewards.values()]
    for term in terms:
        for cfg in term.params.values():
            cfg.joint_ids = [joint[name] for name in cfg.joint_names]
    for step in range(7):
        state = types.SimpleNamespace(
            joint_pos=tensor(recorded["qpos"][:, step]), joint_vel=tensor(recorded["qvel"][:, step]),
            default_joint_pos=tensor(np.zeros((600, 2))), default_joint_vel=tensor(np.zeros((600, 2))))
        environment = types.SimpleNamespace(
            scene={"cartpole": types.SimpleNamespace(data=state), "robot": types.SimpleNamespace(data=state)},
            action_manager=types.SimpleNamespace(action=tensor(recorded["action"][:, step])))
        for term in terms[:-1]:  # the pole's default angle is no part of what is seen
            for cfg in term.params.values():
                cfg.name = "cartpole"
        observation = np.concatenate([term.func(environment, **term.params) for term in terms[:-1]], axis=1)
        np.testing.assert_allclose(recorded["observation"][:, step], observation, atol=1e-12)
        if step > 0:
            value = terms[-1].func(environment, **terms[-1].params) * 0.05
            np.testing.assert_allclose(recorded["reward"][:, step, 0], value, atol=1e-12)
    # episodes begin uniformly within its ranges
    for title, index in joint.items():
        params = config.events[{"slider": "reset_slider", "hinge_1": "reset_hinge"}[title]].params
        middle = math.pi if task == "cartpole_swingup" and title == "hinge_1" else 0
        for values, (low, high) in ((recorded["qpos"][:, 0, index] - middle, params["position_range"]),
                                    (recorded["qvel"][:, 0, index], params["velocity_range"])):
            assert low - 1e-12 <= values.min() and values.max() <= high + 1e-12
            assert np.ptp(values) >= 0.97 * (high - low)
            assert values.mean() == pytest.approx((low + high) / 2, abs=0.07 * (high - low) + 1e-12)
    assert config.episode_length_s / (config.sim.mujoco.timestep * config.decimation) == pytest.approx(1000)


@pytest.mark.parametrize("name, config, feet", [
    ("g1_rough", unitree_g1_rough_env_cfg, ["left_foot", "right_foot"]),
    ("go1_rough", unitree_go1_rough_env_cfg, ["FR", "FL", "RR", "RL"]),
])
def test_feet_on_rough_ground(maniple, tmp_path, name, config, feet):
    """foot_height is the least clearance of the points that mjlab's own pattern has around each foot, and their names are
    those of its sensor."""
    (sensor,) = [sensor for sensor in config().scene.sensors if sensor.name == "foot_height_scan"]
    assert [frame.name for frame in sensor.frame] == feet and sensor.ray_alignment == "yaw" and sensor.reduction == "min"
    offsets = np.asarray(sensor.pattern.generate_rays(None, "cpu")[0])
    deck = tmp_path / "deck.yaml"
    deck.write_text(f"include: {ROOT}/inputs/tasks/mjlab/{name}.yaml\ntask:\n  observations:\n"
                    "    - {name: foot_height, expression: \"foot_height\"}\n  resets:\n"
                    "    - {term: reset_root_state_uniform, x: [-3.5, 3.5], y: [-3.5, 3.5], z: [0, 0.3], yaw: [-3.14, 3.14]}\n")
    maniple("rollout", deck, "batch.num_envs=200", "simulation.precision=double", "simulation.steps=20", "control.source=random",
            "initial_state.source=task", "output.trajectory.every=20", "output.trajectory.fields=[qpos, observation]",
            f"output.directory={tmp_path / 'run'}")
    with h5py.File(tmp_path / "run/results.h5") as file:
        model = model_of(file)
        qpos, heights = (file[f"trajectory/{field}"][()] for field in ("qpos", "observation"))
    data, down, normal = mujoco.MjData(model), np.array([0, 0, -1.0]), np.zeros(3)
    (ground,) = np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_HFIELD)
    uneven, middle, far = 0, 0, 0
    for env, sample in np.ndindex(200, 2):
        data.qpos[:] = qpos[env, sample]
        mujoco.mj_forward(model, data)
        for foot, height in zip(feet, heights[env, sample]):
            site = data.site(foot)
            turn = np.asarray(TerrainHeightSensor._extract_yaw_rotation(None, tensor(site.xmat.reshape(1, 3, 3))))[0]
            starts = site.xpos + [0, 0, 0.1] + offsets @ turn.T
            clear = [mujoco.mj_rayHfield(model, data, ground, start, down, normal) - 0.1 for start in starts]
            if min(clear) < 0:
                continue  # this one begins in the ground
            uneven += np.ptp(clear) > 1e-3
            middle += clear[0] < min(clear[1:]) - 1e-5
            # (TerrainHeightSensor: where no ray is shorter than 1 m)
            expected = site.xpos[2] if min(clear) > 1 else min(clear)
            far += min(clear) > 1
            assert height == pytest.approx(np.clip(expected, 0, 1), abs=1e-6), (env, sample, foot)
    assert uneven > 100 and middle > 0 and far > 10, (uneven, middle, far)
