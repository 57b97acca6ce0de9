"""The decks of inputs/tasks against the environments that they are named after, as the installed packages have them:
every observation, reward and end of control steps from the same states with the same actions, the length of episodes,
and the states that they begin with, by their moments and bounds."""
# ctest: PROCESSORS 1 COST 30

import itertools
import re
import sys
import types

import gymnasium
import h5py
import isaac_lab
import mujoco
import numpy as np
import pytest
from conftest import ROOT, of_the_day
from dm_control import suite
from gymnasium_robotics_envs import make_adroit, make_fetch

# Gymnasium imports it for films, of which there are none here.
sys.modules.setdefault("imageio", types.ModuleType("imageio"))

# Steps in a row from a state in which both begin; such states are recorded along episodes with random actions. In
# longer rows contacts make more of roundings than the tolerance, in MuJoCo from one machine to the next, too.
WINDOW, EPISODES, STEPS = 4, 4, 160
TOLERANCE = 1e-10  # of the largest number of its kind, at least 1
COPIES = 32  # of states with other roundings
RESETS = 2000  # of a deck, and a quarter of that of the original


class Original:
    settings = []  # of the deck, for what is drawn and cannot be seen, and for tolerances
    placed = ""  # an expression of the deck's: what it draws of its model
    angles = []  # observations that are equal where they differ by full turns

    def state(self):
        """Fields of a state by the names that the decks give them."""
        fields = {"qpos": self.data.qpos.copy(), "qvel": self.data.qvel.copy()}
        return fields | ({"act": self.data.act.copy()} if self.model.na else {})

    def aim(self, state, seen):
        """Gives a random target the place that an observation of the state, or `placed`, tells of."""

    def action_range(self):
        """Bounds of the actions that act differently: those of the controls."""
        return np.where(self.model.actuator_ctrllimited[:, None], self.model.actuator_ctrlrange, [-1, 1]).T

    def near_an_end(self, state):
        """The state, changed such that an episode may soon end by itself, where random actions hardly do that."""
        return state


class GymnasiumTask(Original):
    """An environment of Gymnasium, put into states from outside."""

    def __init__(self, name):
        environment = gymnasium.make(name)
        self.max_steps = environment.spec.max_episode_steps
        self.environment = environment.unwrapped
        self.model, self.data = self.environment.model, self.environment.data

    def reset(self, seed=None):
        self.environment.reset(seed=seed)

    def put(self, state):
        """As if an episode began with the state; its observation."""
        mujoco.mj_resetData(self.model, self.data)
        self.environment.set_state(state["qpos"], state["qvel"])
        return self.observation()

    def observation(self):
        return self.environment._get_obs()

    def step(self, action):
        """Observation, reward, whether the episode has ended by failure or success."""
        return self.environment.step(action)[:3]


class ControlTask(Original):
    """The same of dm_control."""

    def __init__(self, name):
        self.domain, task = name.split(" ")
        self.environment = suite.load(self.domain, task, task_kwargs={"random": 0})
        self.max_steps = self.environment._step_limit
        self.physics, self.task = self.environment.physics, self.environment.task
        self.model, self.data = self.physics.model.ptr, self.physics.data.ptr

    def reset(self, seed=None):
        if seed is not None:
            self.task.random.seed(seed)
        self.environment.reset()

    def observation(self):
        return np.concatenate([np.ravel(part) for part in self.task.get_observation(self.physics).values()])

    def aim(self, state, observation):
        parts = self.task.get_observation(self.physics)
        name = next((name for name in ("to_target", "target") if name in parts), None)
        if name is None:
            return
        self.put(state | {"qvel": 0 * state["qvel"]})
        first = sum(np.size(parts[other]) for other in itertools.takewhile(lambda other: other != name, parts))
        seen = observation[first : first + len(parts[name])]
        # from where, and in which axes
        data, known = self.physics.named.data, slice(0, len(seen))
        eye, axes = {"reacher": lambda: (data.geom_xpos["finger"], np.eye(3)),
                     "fish": lambda: (data.geom_xpos["mouth"], data.geom_xmat["mouth"]),
                     "swimmer": lambda: (data.geom_xpos["nose"], data.xmat["head"])}[self.domain]()
        place = eye[known] + np.reshape(axes, (3, 3))[known, known] @ seen
        self.model.geom_pos[self.model.geom("target").id, known] = place

    def put(self, state):
        with self.physics.reset_context():
            for field in ("qpos", "qvel", "act"):
                if field in state:
                    getattr(self.physics.data, field)[:] = state[field]
        return self.observation()

    def step(self, action):
        self.task.before_step(action, self.physics)
        self.physics.step(self.environment._n_sub_steps)
        self.task.after_step(self.physics)
        ended = self.task.get_termination(self.physics) is not None
        return self.observation(), self.task.get_reward(self.physics), ended


class SpringTask(ControlTask):
    """dm_control's lqr with the stiffness of the decks in place of one that it draws."""

    def __init__(self, name):
        super().__init__(name)
        self.model.jnt_stiffness[:] = 20


class DirectionsTask(ControlTask):
    """dm_control's point_mass hard with directions of the controls that stay, in the original and in the deck."""

    first, turn = np.array([-0.6, 0.8]), -1.2
    settings = ['task.variables.first.reset="[-0.6, 0.8]"', "task.variables.turn.reset=-1.2"]

    def reset(self, seed=None):
        super().reset(seed)
        sine, cosine = np.sin(self.turn), np.cos(self.turn)
        self.model.wrap_prm[:] = np.concatenate([self.first, [[cosine, -sine], [sine, cosine]] @ self.first])


class FingerTask(ControlTask):
    """dm_control's finger, whose target is a site."""

    def aim(self, state, observation):
        parts = self.task.get_observation(self.physics)
        if "target_position" in parts:
            self.physics.named.model.site_pos["target", ["x", "z"]] = observation[-3:-1] + [0.2, 0.4]


class HeldTask(ControlTask):
    """dm_control's tasks that give bodies another pose in each episode, which the decks hold as mocap bodies."""

    def __init__(self, name):
        super().__init__(name)
        names = [self.model.body(i).name for i in range(self.model.nbody)]
        self.held = [i for i, body in enumerate(names) if re.fullmatch("target.*|slot|cup", body)]

    def state(self):
        return super().state() | {"mocap_pos": self.model.body_pos[self.held].ravel(),
                                  "mocap_quat": self.model.body_quat[self.held].ravel()}

    def put(self, state):
        self.model.body_pos[self.held] = state["mocap_pos"].reshape(-1, 3)
        self.model.body_quat[self.held] = state["mocap_quat"].reshape(-1, 4)
        return super().put(state)


class IsaacTask(isaac_lab.LocomotionTask, Original):
    """Isaac Lab's formulas on our models: its simulator needs a graphics card."""

    def __init__(self, name):
        machine, workflow = name.split(" ")
        super().__init__({"ant": isaac_lab.ANT, "humanoid": isaac_lab.HUMANOID}[machine], workflow == "direct")

    def near_an_end(self, state):
        """Upside down, so that no foot holds it up."""
        state["qpos"][2:7], state["qvel"][2] = [self.machine["low"] + 0.02, 0, 1, 0, 0], -2
        return state


class FetchTask(Original):
    """Gymnasium-Robotics' tasks of a Fetch; the goal is the end of its observation."""

    max_steps = 50  # of its registry, which the package's start fills

    def __init__(self, name):
        self.environment = make_fetch(name)
        self.angles = range(11, 14) if self.environment.has_object else []
        self.model, self.data = self.environment.model, self.environment.data

    def action_range(self):
        return np.array([[-1.0] * 4, [1.0] * 4])

    def reset(self, seed=None):
        self.environment.reset(seed=seed)

    def aim(self, state, observation):
        self.environment.goal = observation[-3:]

    def put(self, state):
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:], self.data.qvel[:] = state["qpos"], state["qvel"]
        mujoco.mj_forward(self.model, self.data)
        return self.observation()

    def observation(self):
        parts = self.environment._get_obs()
        return np.concatenate([parts[name] for name in ("observation", "achieved_goal", "desired_goal")])

    def step(self, action):
        _, reward, terminated, _, _ = self.environment.step(action)
        return self.observation(), reward, terminated


class AdroitTask(Original):
    """Gymnasium-Robotics' tasks of the Adroit hand, whose resets give bodies another pose in the model."""

    max_steps = 200  # of its registry, which the package's start fills
    settings = ["simulation.tolerance=1e-15"]  # noslip iterations make more of what Newton's method leaves

    def __init__(self, name):
        self.name = name
        self.environment = make_adroit(name)
        self.angles = range(39, 42) if name == "hammer" else []
        self.model, self.data = self.environment.model, self.environment.data
        body = self.model.body
        self.placed, self.drawn = {
            "door": lambda: ("body_pos[frame]", [body("frame").pos]),
            "hammer": lambda: ("body_pos[nail_board]", [body("nail_board").pos]),
            "pen": lambda: ("body_quat[target]", [body("target").quat]),
            "relocate": lambda: ("[body_pos[Object], goal]", [body("Object").pos, self.model.site("target").pos]),
        }[name]()
        self.environment.reset(seed=0)  # (measures the pens)

    def action_range(self):
        return np.array([[-1.0] * self.model.nu, [1.0] * self.model.nu])

    def reset(self, seed=None):
        self.environment.reset(seed=seed)

    def aim(self, state, seen):
        first = 0
        for field in self.drawn:
            field[:] = seen[first : first + len(field)]
            first += len(field)

    def places(self):
        """What `placed` is in the deck."""
        return np.concatenate(self.drawn)

    def put(self, state):
        mujoco.mj_resetData(self.model, self.data)
        self.environment.set_state(state["qpos"], state["qvel"])
        self.data.qacc_warmstart[:] = state.get("qacc_warmstart", 0)
        return self.observation()

    def observation(self):
        return self.environment._get_obs()

    def step(self, action):
        observation, reward, terminated, _, info = self.environment.step(action)
        self.success = info["success"]
        return observation, reward, terminated


TASKS = {
    "gymnasium/half_cheetah_v5": (GymnasiumTask, "HalfCheetah-v5"),
    "gymnasium/ant_v5": (GymnasiumTask, "Ant-v5"),
    "gymnasium/hopper_v5": (GymnasiumTask, "Hopper-v5"),
    "gymnasium/walker2d_v5": (GymnasiumTask, "Walker2d-v5"),
    "gymnasium/humanoid_v5": (GymnasiumTask, "Humanoid-v5"),
    "gymnasium/humanoidstandup_v5": (GymnasiumTask, "HumanoidStandup-v5"),
    "gymnasium/inverted_pendulum_v5": (GymnasiumTask, "InvertedPendulum-v5"),
    "gymnasium/inverted_double_pendulum_v5": (GymnasiumTask, "InvertedDoublePendulum-v5"),
    "gymnasium/reacher_v5": (GymnasiumTask, "Reacher-v5"),
    "gymnasium/swimmer_v5": (GymnasiumTask, "Swimmer-v5"),
    "gymnasium/pusher_v5": (GymnasiumTask, "Pusher-v5"),
    "dm_control/acrobot_swingup": (ControlTask, "acrobot swingup"),
    "dm_control/acrobot_swingup_sparse": (ControlTask, "acrobot swingup_sparse"),
    "dm_control/ball_in_cup_catch": (ControlTask, "ball_in_cup catch"),
    "dm_control/cartpole_balance": (ControlTask, "cartpole balance"),
    "dm_control/cartpole_balance_sparse": (ControlTask, "cartpole balance_sparse"),
    "dm_control/cartpole_swingup": (ControlTask, "cartpole swingup"),
    "dm_control/cartpole_swingup_sparse": (ControlTask, "cartpole swingup_sparse"),
    "dm_control/cartpole_two_poles": (ControlTask, "cartpole two_poles"),
    "dm_control/cartpole_three_poles": (ControlTask, "cartpole three_poles"),
    "dm_control/cheetah_run": (ControlTask, "cheetah run"),
    "dm_control/dog_stand": (ControlTask, "dog stand"),
    "dm_control/dog_walk": (ControlTask, "dog walk"),
    "dm_control/dog_trot": (ControlTask, "dog trot"),
    "dm_control/dog_run": (ControlTask, "dog run"),
    "dm_control/dog_fetch": (ControlTask, "dog fetch"),
    "dm_control/finger_spin": (FingerTask, "finger spin"),
    "dm_control/finger_turn_easy": (FingerTask, "finger turn_easy"),
    "dm_control/finger_turn_hard": (FingerTask, "finger turn_hard"),
    "dm_control/fish_upright": (ControlTask, "fish upright"),
    "dm_control/fish_swim": (ControlTask, "fish swim"),
    "dm_control/hopper_stand": (ControlTask, "hopper stand"),
    "dm_control/hopper_hop": (ControlTask, "hopper hop"),
    "dm_control/humanoid_stand": (ControlTask, "humanoid stand"),
    "dm_control/humanoid_walk": (ControlTask, "humanoid walk"),
    "dm_control/humanoid_run": (ControlTask, "humanoid run"),
    "dm_control/humanoid_run_pure_state": (ControlTask, "humanoid run_pure_state"),
    "dm_control/humanoid_CMU_stand": (ControlTask, "humanoid_CMU stand"),
    "dm_control/humanoid_CMU_walk": (ControlTask, "humanoid_CMU walk"),
    "dm_control/humanoid_CMU_run": (ControlTask, "humanoid_CMU run"),
    "dm_control/lqr_2_1": (SpringTask, "lqr lqr_2_1"),
    "dm_control/lqr_6_2": (SpringTask, "lqr lqr_6_2"),
    "dm_control/manipulator_bring_ball": (HeldTask, "manipulator bring_ball"),
    "dm_control/manipulator_bring_peg": (HeldTask, "manipulator bring_peg"),
    "dm_control/manipulator_insert_ball": (HeldTask, "manipulator insert_ball"),
    "dm_control/manipulator_insert_peg": (HeldTask, "manipulator insert_peg"),
    "dm_control/pendulum_swingup": (ControlTask, "pendulum swingup"),
    "dm_control/point_mass_easy": (ControlTask, "point_mass easy"),
    "dm_control/point_mass_hard": (DirectionsTask, "point_mass hard"),
    "dm_control/quadruped_walk": (ControlTask, "quadruped walk"),
    "dm_control/quadruped_run": (ControlTask, "quadruped run"),
    "dm_control/quadruped_fetch": (ControlTask, "quadruped fetch"),
    "dm_control/reacher_easy": (ControlTask, "reacher easy"),
    "dm_control/reacher_hard": (ControlTask, "reacher hard"),
    "dm_control/stacker_stack_2": (HeldTask, "stacker stack_2"),
    "dm_control/stacker_stack_4": (HeldTask, "stacker stack_4"),
    "dm_control/swimmer_swimmer6": (ControlTask, "swimmer swimmer6"),
    "dm_control/swimmer_swimmer15": (ControlTask, "swimmer swimmer15"),
    "dm_control/walker_stand": (ControlTask, "walker stand"),
    "dm_control/walker_walk": (ControlTask, "walker walk"),
    "dm_control/walker_run": (ControlTask, "walker run"),
    "gymnasium_robotics/fetch_reach": (FetchTask, "reach"),
    "gymnasium_robotics/fetch_push": (FetchTask, "push"),
    "gymnasium_robotics/fetch_slide": (FetchTask, "slide"),
    "gymnasium_robotics/fetch_pick_and_place": (FetchTask, "pick_and_place"),
    "gymnasium_robotics/adroit_door": (AdroitTask, "door"),
    "gymnasium_robotics/adroit_hammer": (AdroitTask, "hammer"),
    "gymnasium_robotics/adroit_pen": (AdroitTask, "pen"),
    "gymnasium_robotics/adroit_relocate": (AdroitTask, "relocate"),
    "isaac/ant": (IsaacTask, "ant managed"),
    "isaac/ant_direct": (IsaacTask, "ant direct"),
    "isaac/humanoid": (IsaacTask, "humanoid managed"),
    "isaac/humanoid_direct": (IsaacTask, "humanoid direct"),
}
# Where MuJoCo ends Newton's method before it has converged: its tolerance is set to 1e-15.
ENDED_EARLY = {"gymnasium/pusher_v5", "gymnasium/reacher_v5", "dm_control/humanoid_stand", "dm_control/humanoid_walk",
               "dm_control/humanoid_run", "dm_control/humanoid_run_pure_state", "dm_control/humanoid_CMU_stand",
               "dm_control/humanoid_CMU_walk", "dm_control/humanoid_CMU_run", "dm_control/stacker_stack_2",
               "dm_control/stacker_stack_4", "dm_control/swimmer_swimmer6", "dm_control/swimmer_swimmer15",
               *(f"dm_control/dog_{task}" for task in ("stand", "walk", "trot", "run", "fetch")),
               *(f"gymnasium_robotics/fetch_{task}" for task in ("reach", "push", "slide", "pick_and_place")),
               *(f"gymnasium_robotics/adroit_{task}" for task in ("door", "hammer", "pen", "relocate"))}

# Where roundings of a state come to more than the tolerance in MuJoCo itself, by light bodies between contacts that its
# convex collision finds to 1e-6 m: there differences may be ten times as large as those of the original's own answers
# from states with other roundings, window by window.
SENSITIVE = {"gymnasium/pusher_v5", "gymnasium_robotics/fetch_slide",
             *(f"gymnasium_robotics/adroit_{task}" for task in ("door", "hammer", "pen")),
             *(f"dm_control/humanoid_CMU_{task}" for task in ("stand", "walk", "run")),
             *(f"dm_control/dog_{task}" for task in ("stand", "walk", "trot", "run", "fetch"))}


# one of each suite with all that it has: ends by failure, contact forces, a target that is aimed at, directions that are drawn,
# bodies that are held elsewhere in each episode, activations, both workflows, actions that lead a mocap body, bodies that are
# elsewhere in the model of each episode
QUICK = ["gymnasium/hopper_v5", "gymnasium/humanoid_v5", "dm_control/fish_swim", "dm_control/manipulator_insert_ball",
         "dm_control/point_mass_hard", "dm_control/quadruped_walk", "isaac/ant_direct", "isaac/humanoid",
         "gymnasium_robotics/fetch_pick_and_place", "gymnasium_robotics/adroit_hammer"]


@pytest.fixture(params=of_the_day(TASKS, *QUICK))
def name(request):
    return request.param


@pytest.fixture
def original(name):
    kind, title = TASKS[name]
    task = kind(title)
    if name in ENDED_EARLY:
        task.model.opt.tolerance = 1e-15
    return task


def deck_of(name):
    return ROOT / f"inputs/tasks/{name}.yaml"


def collect(task, seed):
    """States along episodes with random actions, and actions to go on with, [WINDOW, num_actions] of each."""
    random = np.random.default_rng(seed)
    low, high = task.action_range()
    states, windows = [], []
    for episode in range(EPISODES):
        task.reset(seed=seed + episode)
        ended = False
        for _ in range(STEPS // WINDOW):
            # beyond the range of the controls, too
            actions = (low + high) / 2 + 0.6 * (high - low) * random.uniform(-1, 1, (WINDOW, len(low)))
            states.append(task.near_an_end(task.state()) if len(windows) % 8 == 7 else task.state())
            windows.append(actions)
            for action in actions:
                ended = ended or task.step(action)[2]
            if ended:
                break
    return states, np.array(windows)


def write_given(path, states, actions):
    """States and actions as initial_state.file and control.file."""
    with h5py.File(path, "w") as file:
        for field in states[0]:
            file[field] = np.array([state[field] for state in states])
        file["action"] = actions


def rollout_of(maniple, name, original, folder, states, steps, fields, settings=()):
    """What the deck does from the states of given.h5 with its actions."""
    fields, settings = list(fields), [*original.settings, *settings]
    if original.placed:
        fields.append("variables/placed")
        settings.append(f'task.variables.placed.reset="{original.placed}"')
    maniple("rollout", deck_of(name), "simulation.precision=double", f"batch.num_envs={len(states)}",
            f"simulation.steps={steps}", "initial_state.source=file", f"initial_state.file={folder}/given.h5",
            "control.source=file", f"control.file={folder}/given.h5", "output.trajectory.every=1",
            f"output.trajectory.fields=[{','.join(fields)}]", f"output.directory={folder}/run", *settings,
            ranks=2)
    with h5py.File(folder / "run/results.h5") as file:
        return {field: file[f"trajectory/{field}"][()] for field in fields}


def replay(task, states, actions, seen, size):
    """What the original answers in each window: observations of this size, rewards, ends; NaN after an end."""
    observations = np.full((len(states), WINDOW + 1, size), np.nan)
    rewards, ends = np.full((len(states), WINDOW, 1), np.nan), np.zeros((len(states), WINDOW, 1), bool)
    for window, state in enumerate(states):
        task.aim(state, seen[window])
        observations[window, 0] = task.put(state)
        for step, action in enumerate(actions[window]):
            observations[window, step + 1], rewards[window, step], ends[window, step] = task.step(action)
            if ends[window, step]:
                break
    return observations, rewards, ends


def rounded_otherwise(states, seed):
    """The same states with other roundings of qpos, small numbers with those of 1: poses are sums of them and lengths."""
    random = np.random.default_rng(seed)
    return [state | {"qpos": qpos + np.maximum(1, np.abs(qpos)) * 2.0**-52 * random.integers(-1, 2, len(qpos))}
            for state in states for qpos in [state["qpos"]]]


def assert_close(pairs, again=None):
    """`pairs`: ours and theirs by name, [window, step, ...], equal to rounding wherever the original has a number. Windows that
    are not are compared with answers of the original from states with other roundings, `again(windows, seed)`, if given."""
    scales = [np.maximum(1, np.nanmax(np.abs(theirs), axis=tuple(range(theirs.ndim - 1)))) for _, theirs in pairs.values()]
    apart = [np.where(np.isfinite(theirs), np.abs(ours - theirs), 0) / scale
             for (ours, theirs), scale in zip(pairs.values(), scales)]
    windows = np.flatnonzero(np.any([np.any(differences > TOLERANCE, axis=(1, 2)) for differences in apart], axis=0))
    others = [again(windows, seed) for seed in range(COPIES)] if again and len(windows) else []
    for part, (what, (ours, theirs)) in enumerate(pairs.items()):
        allowed = np.full(theirs.shape, TOLERANCE)
        for other in others:
            moved = np.nan_to_num(np.abs(other[part] - theirs[windows])) / scales[part]
            spread = np.maximum.accumulate(moved.max(axis=2, keepdims=True), axis=1)
            allowed[windows] = np.maximum(allowed[windows], 10 * spread)
        excess = apart[part] - allowed
        worst = np.unravel_index(np.argmax(excess), excess.shape)
        assert excess.max() <= 0, f"{what}: {apart[part][worst]:.2g} at {worst}: {ours[worst]}, not {theirs[worst]}"


def without_turns(theirs, ours, angles):
    """The observations with full turns added to their angles such that they are near ours."""
    for angle in angles:
        turns = np.nan_to_num(np.round((ours[..., angle] - theirs[..., angle]) / (2 * np.pi)))
        theirs[..., angle] += 2 * np.pi * turns
    return theirs


def test_steps_are_those_of_the_original(maniple, tmp_path, name, original):
    states, actions = collect(original, seed=1)
    write_given(tmp_path / "given.h5", states, actions)
    fields = ["observation", "final_observation", "reward", "terminated", "truncated", "action"]
    ours = rollout_of(maniple, name, original, tmp_path, states, WINDOW, fields)
    seen, size = ours["variables/placed" if original.placed else "observation"][:, 0], ours["observation"].shape[2]

    def answers(states, windows):
        observations, rewards, ends = replay(original, states, actions[windows], seen[windows], size)
        return without_turns(observations, ours["final_observation"][windows], original.angles), rewards, ends

    def again(windows, seed):
        return answers(rounded_otherwise([states[window] for window in windows], seed), windows)

    observations, rewards, ends = answers(states, np.arange(len(states)))
    np.testing.assert_array_equal(ours["action"][:, 1:], actions)
    np.testing.assert_array_equal(ours["observation"][:, 0], ours["final_observation"][:, 0])
    assert_close({"observation": (ours["final_observation"], observations), "reward": (ours["reward"][:, 1:], rewards)},
                 again if name in SENSITIVE else None)
    known = np.isfinite(rewards)
    np.testing.assert_array_equal(ours["terminated"][:, 1:][known], ends[known])
    assert not ours["truncated"].any()


def test_episodes_are_as_long(maniple, tmp_path, name, original):
    endings = re.search(r"^  terminations:\n((?:    .*\n)*)", deck_of(name).read_text(), re.M)
    failures = re.findall(r"^    (\w+):", endings.group(1), re.M) if endings else []
    endless = not np.isfinite(original.max_steps)
    steps = 50 if endless else int(original.max_steps)
    maniple("rollout", deck_of(name), "simulation.precision=double", "control.source=zero", "initial_state.source=task",
            *(f"task.terminations.{failure}=~" for failure in failures if failure != "time_out"),
            "simulation.decimation=1", f"simulation.steps={steps + 1}", "output.trajectory.every=1",
            "output.trajectory.fields=[terminated,truncated]", f"output.directory={tmp_path}/run")
    with h5py.File(tmp_path / "run/results.h5") as file:
        truncated = np.flatnonzero(file["trajectory/truncated"][0, :, 0])
        assert not file["trajectory/terminated"][()].any()
    np.testing.assert_array_equal(truncated, [] if endless else [steps])


def test_episodes_begin_as_those_of_the_original(maniple, tmp_path, name, original):
    maniple("rollout", deck_of(name), "simulation.precision=double", f"batch.num_envs={RESETS}", "simulation.steps=0",
            "control.source=zero", "initial_state.source=task", "output.trajectory.every=1",
            "output.trajectory.fields=[qpos,qvel,observation]", f"output.directory={tmp_path}/run")
    with h5py.File(tmp_path / "run/results.h5") as file:
        ours = np.concatenate([file["trajectory"][field][:, 0] for field in ("qpos", "qvel", "observation")], axis=1)
    original.reset(seed=7)
    theirs = []
    for _ in range(RESETS // 4):
        original.reset()
        theirs.append(np.concatenate([original.data.qpos, original.data.qvel, original.observation()]))
    theirs = np.array(theirs)
    # Means, deviations and products of pairs within five standard errors.
    for power in (lambda x: x, lambda x: (x - theirs.mean(axis=0)) ** 2,
                  lambda x: (x - theirs.mean(axis=0)) * np.roll(x - theirs.mean(axis=0), 1, axis=1)):
        a, b = power(ours), power(theirs)
        error = np.sqrt(a.var(axis=0) / len(a) + b.var(axis=0) / len(b))
        np.testing.assert_array_less(np.abs(a.mean(axis=0) - b.mean(axis=0)), 5 * error + 1e-12)
    # Bounds of the state: the largest of many differ by little, those of normal distributions by more.
    size = original.model.nq + original.model.nv
    ours, theirs = ours[:, :size], theirs[:, :size]
    span = np.ptp(theirs, axis=0)
    np.testing.assert_array_less(np.abs(ours.max(axis=0) - theirs.max(axis=0)), 0.5 * span + 1e-12)
    np.testing.assert_array_less(np.abs(ours.min(axis=0) - theirs.min(axis=0)), 0.5 * span + 1e-12)


def test_directions_of_point_mass_hard(maniple, tmp_path):
    """Those of its controls: by the original's moments, and by the angle that it draws again below."""
    maniple("rollout", deck_of("dm_control/point_mass_hard"), "simulation.precision=double", f"batch.num_envs={RESETS}",
            "task.observations=[{expression: \"[first, second]\"}]", "simulation.steps=0", "control.source=zero",
            "initial_state.source=task", "output.trajectory.every=1", "output.trajectory.fields=[observation]",
            f"output.directory={tmp_path}/run")
    with h5py.File(tmp_path / "run/results.h5") as file:
        ours = file["trajectory/observation"][:, 0]
    original = ControlTask("point_mass hard")
    original.reset(seed=3)
    theirs = []
    for _ in range(RESETS // 4):
        original.reset()
        theirs.append(original.model.wrap_prm.copy())
    theirs = np.array(theirs)
    for both in (ours, theirs):
        np.testing.assert_allclose(np.hypot(both[:, ::2], both[:, 1::2]), 1, atol=1e-12)
    cosine = [np.sum(both[:, :2] * both[:, 2:], axis=1) for both in (ours, theirs)]
    side = [both[:, 0] * both[:, 3] - both[:, 1] * both[:, 2] for both in (ours, theirs)]
    assert np.abs(cosine[0]).max() <= 0.9 + 1e-12 and np.abs(cosine[0]).max() > 0.89
    for a, b in (cosine, side, (cosine[0] ** 2, cosine[1] ** 2), (ours[:, 0], theirs[:, 0]), (ours[:, 3], theirs[:, 3]),
                 (ours[:, 0] * ours[:, 2], theirs[:, 0] * theirs[:, 2])):
        error = np.sqrt(a.var() / len(a) + b.var() / len(b))
        assert abs(a.mean() - b.mean()) < 5 * error


def test_an_episode_may_fail_when_its_time_is_over(maniple, tmp_path):
    """Both flags are set, as in Gymnasium's TimeLimit."""
    original = GymnasiumTask("Hopper-v5")
    states, actions = collect(original, seed=3)
    for state in states[::3]:
        state["qpos"][1] = 0.6  # lower than what is healthy
    write_given(tmp_path / "given.h5", states, actions)
    maniple("rollout", deck_of("gymnasium/hopper_v5"), "simulation.precision=double", f"batch.num_envs={len(states)}",
            "simulation.steps=1", "task.episode_steps=1", "initial_state.source=file",
            f"initial_state.file={tmp_path}/given.h5", "control.source=file", f"control.file={tmp_path}/given.h5",
            "output.trajectory.every=1", "output.trajectory.fields=[terminated,truncated]", f"output.directory={tmp_path}/run")
    limited = gymnasium.wrappers.TimeLimit(original.environment, 1)
    flags = []
    for state, action in zip(states, actions[:, 0]):
        limited.reset()
        original.put(state)
        flags.append(limited.step(action)[2:4])
    flags = np.array(flags)
    with h5py.File(tmp_path / "run/results.h5") as file:
        ours = np.hstack([file["trajectory/terminated"][:, 1], file["trajectory/truncated"][:, 1]])
    np.testing.assert_array_equal(ours, flags)
    assert flags[:, 1].all() and flags[:, 0].any() and not flags[:, 0].all()


def test_cheetahs_settle_as_the_original(maniple, tmp_path):
    """dm_control's own reset, given the joints that the deck draws, ends in the deck's states: the first of its settling
    steps, too, which goes by the pose before the draw."""
    drawn = {}
    for name, resets in {"drawn": ["task.settle_steps=0"], "settled": []}.items():
        maniple("rollout", deck_of("dm_control/cheetah_run"), "simulation.precision=double", "batch.num_envs=50",
                "simulation.steps=0", "initial_state.source=task", "control.source=zero", "output.trajectory.every=1",
                "output.trajectory.fields=[qpos,qvel]", f"output.directory={tmp_path}/{name}", *resets)
        with h5py.File(tmp_path / name / "results.h5") as file:
            drawn[name] = file["trajectory/qpos"][:, 0], file["trajectory/qvel"][:, 0]
    environment = suite.load("cheetah", "run")
    environment.physics.model.opt.tolerance = 1e-15
    data, limited = environment.physics.data, environment.physics.model.jnt_limited == 1

    class Draws:
        def uniform(self, low, high):
            assert (low < self.joints).all() and (self.joints < high).all()
            return self.joints

    environment.task._random = draws = Draws()
    for env in range(50):
        draws.joints = drawn["drawn"][0][env][limited]
        environment.reset()
        np.testing.assert_allclose(drawn["settled"][0][env], data.qpos, atol=1e-10)
        np.testing.assert_allclose(drawn["settled"][1][env], data.qvel, atol=1e-9)
