"""Maniple from Python: Gymnasium's vector environments, batches of MuJoCo models, results of runs, trained policies.

    import maniple
    envs = maniple.make_vec("gymnasium/half_cheetah_v5", num_envs=1024, seed=1)
    observations, infos = envs.reset()                       # [1024, 17], float32
    observations, rewards, terminations, truncations, infos = envs.step(envs.action_space.sample())

    run = maniple.Run("runs/cheetah")                        # run.metrics["episode_return"], run.model
    policy = maniple.load_policy("runs/cheetah")             # policy(observations): actions

    simulation = maniple.Simulation("robot.xml", 1000)       # simulation["qpos"], simulation.step(10, ctrl)
    state, sensordata = maniple.rollout(model, initial_state, control)   # as mujoco.rollout.rollout

What the program refuses is a ValueError here, and what fails for other reasons a RuntimeError, with the same text.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maniple.native import version as __version__
    from maniple.policy import Policy, load_policy
    from maniple.results import Run
    from maniple.simulation import Simulation, rollout
    from maniple.vector_env import VectorEnv, make_vec

# Where each name comes from: what reads results works without the compiled part, as in a build for GPUs.
_PLACES = {"VectorEnv": "vector_env", "make_vec": "vector_env", "Run": "results", "Policy": "policy", "load_policy": "policy",
           "Simulation": "simulation", "rollout": "simulation"}

__all__ = ["Policy", "Run", "Simulation", "VectorEnv", "load_policy", "make_vec", "rollout", "__version__"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.import_module("maniple.native").version
    if name not in _PLACES:
        raise AttributeError(f"module 'maniple' has no attribute '{name}'")
    return getattr(importlib.import_module(f"maniple.{_PLACES[name]}"), name)
