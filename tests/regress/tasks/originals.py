"""The environments that the decks of inputs/tasks are named after, as the installed packages have them, put into states from
outside; and by the names of the decks, which they are."""

import itertools
import re
import sys
import types

import gymnasium
import isaac_lab
import mujoco
import numpy as np
from dm_control import suite
from gymnasium_robotics_envs import make_adroit, make_fetch

# Gymnasium imports it for films, of which there are none here.
sys.modules.setdefault("imageio", types.ModuleType("imageio"))


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
