"""inputs/tasks/mjlab/lift_cube_yam.yaml against mjlab itself: its models, and its own term functions and command with its own
configuration, applied to the states and contacts of MuJoCo's physics steps from recorded states with recorded actions.
numpy stands in for torch."""
# ctest: PROCESSORS 1 COST 10

import copy
import re
import types

import h5py
import mujoco
import numpy as np
import pytest
import torch_in_numpy
from conftest import ROOT

torch_in_numpy.install()
from mjlab.entity import Entity  # noqa: E402
from mjlab.entity import data as entity_data  # noqa: E402
from mjlab.envs.mdp.curriculums import reward_curriculum  # noqa: E402
from mjlab.tasks.manipulation.config.yam.env_cfgs import yam_lift_cube_env_cfg  # noqa: E402
from mjlab.tasks.manipulation.config.yam.rl_cfg import yam_lift_cube_ppo_runner_cfg  # noqa: E402
from mjlab.tasks.manipulation.mdp import commands  # noqa: E402
from mjlab.tasks.velocity.config.go1.rl_cfg import unitree_go1_ppo_runner_cfg  # noqa: E402
from mjlab_originals import Contacts, assert_same_models, model_of  # noqa: E402

DECK = ROOT / "inputs/tasks/mjlab/lift_cube_yam.yaml"
tensor = torch_in_numpy.tensor
ENVS, STEPS = 30, 50
FINGERTIPS = re.compile("[lr]f_down(6|7|8|9|10|11)_collision")


@pytest.fixture(scope="module")
def config():
    return yam_lift_cube_env_cfg()


def read(file):
    recorded = {field: values[()] for field, values in file["trajectory"].items() if field != "variables"}
    for field in ("due", "left"):
        recorded[field] = file[f"trajectory/variables/{field}"][()][..., 0]
    if "episode_metric" in recorded:
        names = file["trajectory/episode_metric"].attrs["names"].split("\n")
        recorded["episode_metric"] = recorded["episode_metric"][..., [names.index(f"metric_{name}") for name in METRICS]]
    return model_of(file), recorded


FIELDS = "qpos, qvel, mocap_pos, qacc_warmstart, model_values, variables/due, variables/left, action, observation, " \
         "critic_observation, reward_term, episode_metric, terminated, truncated"
METRICS = ["object_height", "position_error", "at_goal", "episode_success"]


@pytest.fixture(scope="module")
def rollout(maniple, tmp_path_factory):
    """Arms that move far, some of them down to the floor; some of the cubes begin between the fingers, and goals, near
    which they are, are drawn again soon."""
    directory = tmp_path_factory.mktemp("lift_cube_yam")
    random = np.random.default_rng(5)
    action = random.normal(0, 4, (ENVS, 1, 7)) + random.uniform(-1, 1, (ENVS, STEPS, 7))
    action[1::3, :, 1] += 6
    action[::3] *= 0.2
    action[::3, :, 6] = -1
    with h5py.File(directory / "given.h5", "w") as file:
        file["action"] = action
    maniple("rollout", DECK, "simulation.precision=double", "simulation.tolerance=1e-15", f"batch.num_envs={ENVS}", f"simulation.steps={STEPS}",
            "initial_state.source=task", "control.source=file", f"control.file={directory}/given.h5",
            "task.variables.left.reset=uniform(0.1, 0.8)",
            "task.resets.1.expression=uniform(0, 1) < 0.6 ? [0.2553, 0, 0.2018, 1, 0, 0, 0] : new_pose",
            "task.definitions.new_goal=[uniform(0.22, 0.34), uniform(-0.05, 0.05), uniform(0.16, 0.26)]",
            *(f"task.observations.{i}.noise=~" for i in range(4)), "output.trajectory.every=1",
            f"output.trajectory.fields=[{FIELDS}]", f"output.directory={directory}/run", ranks=2)
    with h5py.File(directory / "run/results.h5") as file:
        return read(file)


def original_model(config):
    """mjlab's robot, whose base is a mocap body, and cube on its ground."""
    spec = Entity(config.scene.entities["robot"]).spec
    cube = Entity(config.scene.entities["cube"]).spec
    for key in cube.keys:
        cube.delete(key)
    spec.attach(cube, frame=spec.worldbody.add_frame(), prefix="")
    ground = spec.worldbody.add_body(name="terrain")
    ground.add_geom(name="terrain", type=mujoco.mjtGeom.mjGEOM_PLANE, size=(0, 0, 0.01))
    sensor = config.scene.sensors[0]
    assert sensor.primary.mode == "subtree" and sensor.primary.pattern == "link_6" and sensor.history_length == 4
    assert sensor.secondary.pattern == "terrain" and sensor.fields == ("found", "force") and sensor.num_slots == 1
    body = mujoco.mjtObj.mjOBJ_XBODY
    # the original's reduction is none: any contact; here the strongest one
    for bits, name in ((1, "found"), (2, "force")):
        spec.add_sensor(name=name, type=mujoco.mjtSensor.mjSENS_CONTACT, objtype=body, objname="link_6", reftype=body,
                        refname="terrain", intprm=[bits, 2, 1])
    spec.add_sensor(name="held", type=mujoco.mjtSensor.mjSENS_CONTACT, objtype=body, objname="link_6", reftype=body, refname="cube",
                    intprm=[1, 2, 1])
    model = spec.compile()
    options = config.sim.mujoco
    model.opt.integrator, model.opt.cone = mujoco.mjtIntegrator.mjINT_IMPLICITFAST, mujoco.mjtCone.mjCONE_ELLIPTIC
    model.opt.timestep, model.opt.impratio = options.timestep, options.impratio
    assert (options.integrator, options.cone, options.solver) == ("implicitfast", "elliptic", "newton")
    return model


def test_model_is_that_of_mjlab(config, rollout):
    ours, theirs = rollout[0], original_model(config)
    fields = {"body": "body_mass body_inertia body_ipos body_iquat body_quat",
              "geom": "geom_type geom_size geom_pos geom_quat geom_contype geom_conaffinity geom_condim geom_priority "
                      "geom_friction geom_solref geom_solimp geom_margin geom_gap",
              "site": "site_pos site_quat"}
    arrays = ("jnt_type jnt_range jnt_axis jnt_pos jnt_stiffness jnt_limited jnt_solref jnt_solimp dof_armature dof_damping "
              "dof_frictionloss jnt_qposadr actuator_gainprm actuator_biasprm actuator_forcerange "
              "actuator_forcelimited actuator_ctrllimited actuator_gear actuator_dyntype actuator_gaintype actuator_biastype "
              "actuator_trnid eq_type eq_data eq_solref eq_solimp eq_obj1id eq_obj2id eq_active0")
    assert_same_models(ours, theirs, "nq nv nu njnt nsite neq", fields, arrays, left_out=("goal", "world"), atol=1e-15)
    for model in (ours, theirs):  # nothing else touches anything
        assert not any(model.geom_contype[i] or model.geom_conaffinity[i] for i in range(model.ngeom) if not model.geom(i).name)
    assert ours.key_qpos[0][:8] == pytest.approx([config.scene.entities["robot"].init_state.joint_pos.get(ours.joint(i).name, 0)
                                                  for i in range(8)])
    np.testing.assert_allclose(ours.body("arm").pos, config.scene.entities["robot"].init_state.pos)


class Environment:
    """What mjlab's terms see of their environment, for the states of one control step of all environments."""

    def __init__(self, config, ours, recorded):
        self.config, self.num_envs, self.device = config, ENVS, "cpu"
        self.step_dt = config.sim.mujoco.timestep * config.decimation
        self.model = model = original_model(config)
        model.opt.tolerance, model.opt.ls_tolerance, model.opt.iterations = 0, 1e-8, 60
        self.mujoco = mujoco.MjData(model)
        self.base = config.scene.entities["robot"].init_state.pos
        # their own friction
        self.own = []
        for env in range(ENVS):
            own = copy.copy(model)
            for i in range(ours.ngeom):
                if FINGERTIPS.fullmatch(ours.geom(i).name):
                    own.geom_friction[own.geom(ours.geom(i).name).id, 0] = recorded["model_values"][env, 0, i]
            self.own.append(own)
        self.entities = {}
        self.home = home = ours.key_qpos[0][:8]
        low, high = model.jnt_range[:8].T
        share = config.scene.entities["robot"].articulation.soft_joint_pos_limit_factor
        soft = [(low + high) / 2 - (high - low) / 2 * share, (low + high) / 2 + (high - low) / 2 * share]
        repeat = lambda values: tensor(np.broadcast_to(values, (ENVS, *np.shape(values))).copy())
        for name, root, joints in (("robot", "arm", np.arange(8)), ("cube", "cube", np.arange(0))):
            data = entity_data.EntityData.__new__(entity_data.EntityData)
            data.model = types.SimpleNamespace(site_bodyid=np.array(model.site_bodyid))
            data.indexing = types.SimpleNamespace(root_body_id=model.body(root).id, site_ids=np.arange(model.nsite),
                                                  joint_q_adr=joints, joint_v_adr=joints)
            data.default_joint_pos, data.default_joint_vel = repeat(home), repeat(0 * home)
            data.soft_joint_pos_limits = repeat(np.stack(soft, axis=-1))
            data.encoder_bias = repeat(0 * home)
            self.entities[name] = types.SimpleNamespace(data=data)
        self.contacts = Contacts(config.scene.sensors[0], ENVS, 1)
        self.scene = {**self.entities, "ee_ground_collision": self.contacts}
        self.command = commands.LiftingCommand.__new__(commands.LiftingCommand)
        self.command.cfg, self.command.object, self.command.metrics = config.commands["lift_height"], self.entities["cube"], {}
        self.command.episode_success = tensor(np.zeros(ENVS))
        self.command_manager = types.SimpleNamespace(get_term=lambda _: self.command)
        self.action_manager = types.SimpleNamespace(action=None, prev_action=None)
        for term in [*config.rewards.values(), *(t for g in config.observations.values() for t in g.terms.values())]:
            cfg = term.params.get("asset_cfg")
            if cfg is not None and cfg.site_names:
                cfg.site_ids = [model.site(site).id for site in cfg.site_names]

    def targets(self, action):
        """Of the servos, by mjlab's scales."""
        names = [self.model.actuator(i).name for i in range(self.model.nu)]
        home = [self.home[self.model.joint(name).id] for name in names]
        return home + action * [self.config.actions["joint_pos"].scale[name] for name in names]

    def set_state(self, env, recorded, step):
        d = self.mujoco
        mujoco.mj_resetData(self.own[env], d)
        d.mocap_pos[0] = self.base
        for field in ("qpos", "qvel", "qacc_warmstart"):
            getattr(d, field)[:] = recorded[field][env, step]

    def derived(self):
        return {n: getattr(self.mujoco, n).copy() for n in ("qpos", "qvel", "xpos", "xquat", "site_xpos", "site_xmat", "sensordata")}

    def step(self, recorded, step):
        """The physics steps of a control step, after which poses and sensors are one physics step old; mjlab's contact
        sensors follow each of them."""
        d, seen = self.mujoco, [[] for _ in range(self.config.decimation)]
        for env in range(ENVS):
            self.set_state(env, recorded, step - 1)
            d.ctrl[:] = self.targets(recorded["action"][env, step])
            for physics_step in seen:
                mujoco.mj_step(self.own[env], d)
                physics_step.append(self.derived())
        for physics_step in seen:
            self.show({n: np.stack([one[n] for one in physics_step]) for n in physics_step[0]}, recorded, step)
            self.contacts.update(self.config.sim.mujoco.timestep)

    def changes_by_roundings(self, env, recorded, step, amount):
        """Whether roundings of the state change the positions after a control step by an amount. Few of them may."""
        d, found, random = self.mujoco, [], np.random.default_rng(step)
        for _ in range(200):
            self.set_state(env, recorded, step - 1)
            d.qpos[:] *= 1 + 1e-14 * random.uniform(-1, 1, len(d.qpos))
            d.ctrl[:] = self.targets(recorded["action"][env, step])
            mujoco.mj_step(self.own[env], d, self.config.decimation)
            found.append(d.qpos.copy())
            if np.ptp(found, axis=0).max() > amount:
                return True
        return False

    def look(self, recorded, step):
        """All that belongs to the recorded states after a control step."""
        seen = []
        for env in range(ENVS):
            self.set_state(env, recorded, step)
            mujoco.mj_forward(self.own[env], self.mujoco)
            seen.append(self.derived())
        self.show({n: np.stack([one[n] for one in seen]) for n in seen[0]}, recorded, step)

    def show(self, seen, recorded, step):
        """To the terms: `seen`, with the recorded positions and velocities after the control step."""
        self.seen = seen
        given = {n: recorded[n][:, step] for n in ("qpos", "qvel")}
        state = types.SimpleNamespace(**{n: tensor(v) for n, v in {**seen, **given}.items()}, root=None)
        for entity in self.entities.values():
            entity.data.data = state
        self.contacts.see(seen["sensordata"][:, :1], seen["sensordata"][:, None, 1:4])

    def cube_touched(self):
        return self.seen["sensordata"][:, 4]

    def value(self, term):
        return np.asarray(term.func(self, **term.params), dtype=float)

    def observation(self, group):
        return np.concatenate([self.value(t).reshape(ENVS, -1) for t in self.config.observations[group].terms.values()], axis=1)


def test_terms_are_those_of_mjlab(config, rollout, monkeypatch):
    """Each state, reward, end and observation of 50 control steps, as long as an environment's first episode lasts."""
    # of poses of sites the terms read the positions alone
    monkeypatch.setattr(entity_data, "quat_from_matrix", lambda matrix: matrix[..., :4])
    ours, recorded = rollout
    environment = Environment(copy.deepcopy(config), ours, recorded)
    rewards = environment.config.rewards
    assert recorded["reward_term"].shape[-1] == len(rewards)
    assert list(config.terminations) == ["time_out", "ee_ground_collision"]
    alive = np.ones(ENVS, bool)
    compared, ends, drawn, rounded, held, largest, reached = 0, 0, 0, 0, 0, np.zeros(len(rewards)), []
    environment.action_manager.action = tensor(np.zeros_like(recorded["action"][:, 0]))
    goal = lambda step: tensor(recorded["mocap_pos"][:, step, :3])
    for step in range(STEPS + 1):
        if step > 0:
            environment.step(recorded, step)
            ended = (recorded["terminated"] + recorded["truncated"])[:, step, 0] > 0
            due = recorded["due"][:, step] > 0
            # the physics is MuJoCo's, and the cube is elsewhere where a goal has been drawn. Between shut fingers, whose
            # faces lie in a plane, a rounding decides how many points touch.
            apart = np.abs(recorded["qpos"][:, step] - environment.seen["qpos"])
            apart[due, 8:] = 0
            apart = apart.max(axis=1)
            same = alive & ((apart < 1e-9) | ended)
            for env in np.flatnonzero(alive & ~same):
                assert environment.changes_by_roundings(env, recorded, step, apart[env] / 10), (env, step)
            rounded += (alive & ~same).sum()
            value = environment.value(environment.config.terminations["ee_ground_collision"])
            np.testing.assert_array_equal(ended[same], value[same] > 0, err_msg=f"ends at {step}")
            ends += (ended & alive).sum()
            environment.action_manager.prev_action = environment.action_manager.action
            environment.action_manager.action = tensor(recorded["action"][:, step])
            environment.command.target_pos = goal(step - 1)  # as the policy saw it
            # the command's metrics; where a goal was drawn after the step before, none has been reached
            if step > 1:
                environment.command.episode_success[recorded["due"][:, step - 1] > 0] = 0
            environment.command._update_metrics()
            assert list(environment.command.metrics) == METRICS
            for i, metric in enumerate(METRICS):
                value = np.asarray(environment.command.metrics[metric], dtype=float)
                np.testing.assert_allclose(recorded["episode_metric"][same, step, i], value[same], rtol=1e-8, atol=1e-10,
                                           err_msg=f"{metric} at {step}")
            reached.append((recorded["episode_metric"][same, step, 2:] * [2, 1]).sum(axis=1))
            same &= ~ended  # the state is that of the next episode
            for i, (title, term) in enumerate(rewards.items()):
                value = environment.value(term) * term.weight * environment.step_dt
                np.testing.assert_allclose(recorded["reward_term"][same, step, i], value[same], rtol=1e-8, atol=1e-10,
                                           err_msg=f"{title} at {step}")
                largest[i] = max(largest[i], np.ptp(value[same]))
            compared += same.sum()
            alive &= ~ended
            moved = alive & due
            np.testing.assert_array_equal(recorded["qvel"][moved, step, 8:], 0)
            at_goal = np.all(recorded["mocap_pos"][:, step] == recorded["mocap_pos"][:, step - 1], axis=1)
            np.testing.assert_array_equal(at_goal[alive], ~due[alive])
            np.testing.assert_array_equal(due[alive], recorded["left"][alive, step - 1] <= environment.step_dt)
            assert np.all((recorded["left"][moved, step] > 8) & (recorded["left"][moved, step] < 12))
            drawn += moved.sum()
        environment.look(recorded, step)
        environment.command.target_pos = goal(step)
        for group, field in (("actor", "observation"), ("critic", "critic_observation")):
            np.testing.assert_allclose(recorded[field][alive, step], environment.observation(group)[alive], rtol=1e-9,
                                       atol=1e-10, err_msg=f"{group} at {step}")
        held += (alive & (environment.cube_touched() > 0)).sum()
    assert compared > 0.5 * ENVS * STEPS and ends > 3 and drawn > ENVS / 2 and rounded < 0.1 * compared and held > ENVS
    assert (largest > 1e-6).all(), dict(zip(rewards, largest))
    # never at the goal, there before but no more, there now
    assert {0, 1, 3} == set(np.concatenate(reached)) and min(counts := [np.sum(np.concatenate(reached) == k) for k in (0, 1, 3)]) > 10, counts
    assert config.episode_length_s / environment.step_dt == pytest.approx(1000)


def test_goals_and_cubes_are_drawn_as_by_mjlab(maniple, config, tmp_path, monkeypatch):
    """At resets, by its own command."""
    maniple("rollout", DECK, "batch.num_envs=4000", "simulation.steps=1", "initial_state.source=task", "control.source=zero",
            "output.trajectory.every=1", f"output.trajectory.fields=[{FIELDS}]", f"output.directory={tmp_path}/run")
    with h5py.File(tmp_path / "run/results.h5") as file:
        model, recorded = read(file)
    count, random = 100000, np.random.default_rng(1)
    monkeypatch.setattr(commands, "sample_uniform", lambda low, high, size, device: tensor(random.uniform(low, high, size)))
    poses, command = [], commands.LiftingCommand.__new__(commands.LiftingCommand)
    command.cfg, command.target_pos, command.episode_success = config.commands["lift_height"], tensor(np.zeros((count, 3))), tensor(np.zeros(count))
    command._env = types.SimpleNamespace(scene=types.SimpleNamespace(env_origins=tensor(np.zeros((count, 3)))), device="cpu")
    command.object = types.SimpleNamespace(write_root_link_pose_to_sim=lambda pose, env_ids: poses.append(pose),
                                           write_root_link_velocity_to_sim=lambda velocity, env_ids: poses.append(velocity))
    command._resample_command(np.arange(count))
    assert not np.asarray(poses[1]).any()
    theirs = np.concatenate([np.asarray(command.target_pos), np.asarray(poses[0])], axis=1)
    ours = np.concatenate([recorded["mocap_pos"][:, 0, :3], recorded["qpos"][:, 0, 8:]], axis=1)
    for i in range(10):
        spread = np.ptp(theirs[:, i])
        for share in (0, 0.25, 0.5, 0.75, 1):
            assert np.quantile(ours[:, i], share) == pytest.approx(np.quantile(theirs[:, i], share), abs=0.05 * spread + 1e-6), (i, share)
    np.testing.assert_allclose(np.linalg.norm(ours[:, 6:], axis=1), 1, atol=1e-6)
    # independent of each other, but for the parts of a quaternion
    apart = np.abs(np.corrcoef(ours[:, [0, 1, 2, 3, 4, 5, 6, 9]].T) - np.eye(8))
    assert apart.max() < 0.08
    # the robot is at home, and at rest
    np.testing.assert_allclose(recorded["qpos"][:, 0, :8], np.tile(model.key_qpos[0][:8], (4000, 1)), atol=1e-6)
    assert not recorded["qvel"][:, 0].any()
    low, high = command.cfg.resampling_time_range
    left = recorded["left"][:, 0]
    assert low <= left.min() < low + 0.02 and high - 0.02 < left.max() <= high
    # friction of each fingertip by itself
    event = config.events["fingertip_friction_slide"].params
    tips = [i for i in range(model.ngeom) if FINGERTIPS.fullmatch(model.geom(i).name)]
    assert event["asset_cfg"].geom_names == FINGERTIPS.pattern
    friction = recorded["model_values"][:, 0, :model.ngeom]
    low, high = event["ranges"]
    assert low <= friction[:, tips].min() < low + 0.01 and high - 0.01 < friction[:, tips].max() <= high and len(tips) == 12
    assert np.abs(np.corrcoef(friction[:, tips].T) - np.eye(12)).max() < 0.08 and event["operation"] == "abs"
    others = np.setdiff1d(np.arange(model.ngeom), tips)
    np.testing.assert_allclose(friction[:, others], np.tile(model.geom_friction[others, 0], (4000, 1)), rtol=1e-6)
    for name in ("reset_base", "reset_robot_joints"):
        assert all(not values or values == (0, 0) for key, values in config.events[name].params.items() if key != "asset_cfg")
    assert set(config.events) == {"reset_base", "reset_robot_joints", "fingertip_friction_slide", "fingertip_friction_spin", "fingertip_friction_roll"}


def test_numbers_are_those_of_the_configuration(config):
    """Of noise, actions, commands, the curriculum and the training."""
    deck = DECK.read_text()
    for title, term in config.observations["actor"].terms.items():
        line = next(line for line in deck.splitlines() if f"name: {title}," in line)
        assert ("noise:" in line) == (term.noise is not None)
        if term.noise:
            assert term.noise.n_min == -term.noise.n_max and f"noise: {term.noise.n_max:g}}}" in line
    action = config.actions["joint_pos"]
    assert action.use_default_offset and set(action.actuator_names) == {".*"} and len(action.scale) == 7
    for name, scale in action.scale.items():
        assert f"{name}: {scale!r}" in deck
    command = config.commands["lift_height"]
    low, high = command.resampling_time_range
    assert deck.count(f"uniform({low:g}, {high:g})") == 2 and command.success_threshold == 0.05
    # the curriculum's own weights
    curriculum = config.curriculum["joint_vel_hinge_weight"]
    reward = copy.deepcopy(config.rewards["joint_vel_hinge"])
    env = types.SimpleNamespace(common_step_counter=0, reward_manager=types.SimpleNamespace(get_term_cfg=lambda _: reward))
    function = reward_curriculum(types.SimpleNamespace(params=curriculum.params), env)
    assert set(config.curriculum) == {"joint_vel_hinge_weight"} and curriculum.func is reward_curriculum
    first, update = re.search(r'stage: \{reset: "(.*)", update: "(.*)"\}', deck).groups()
    last, earlier = update.split(" : ")[-1], [part.split(" ? ") for part in update.split(" : ")[:-1]]
    weight = float(re.search(r"joint_vel_hinge: .* weight: (-[\d.]+), curriculum: stage", deck)[1])
    for steps in (0, 1, 11999, 12000, 23999, 24000, 10**6):
        env.common_step_counter = steps
        function(env, None, **curriculum.params)
        factor = next((float(value) for when, value in earlier if eval(when, {"control_steps": steps})), float(last))
        assert factor * weight == pytest.approx(reward.weight), steps
    assert first == "1"
    # the training: what the preset has, which the walking robots share, but for these
    walking = unitree_go1_ppo_runner_cfg()
    learning, train = yam_lift_cube_ppo_runner_cfg(), (ROOT / "inputs/train/mjlab/lift_cube_yam.yaml").read_text()
    for key, value in {"iterations": learning.max_iterations, "checkpoint_every": learning.save_interval,
                       "entropy_coef": learning.algorithm.entropy_coef}.items():
        assert re.search(rf"\b{key}: {value:g} ", train), key
    walking.algorithm.entropy_coef = learning.algorithm.entropy_coef
    assert vars(learning.algorithm) == vars(walking.algorithm) and vars(learning.actor) == vars(walking.actor)
    assert vars(learning.critic) == vars(walking.critic) and learning.num_steps_per_env == walking.num_steps_per_env
