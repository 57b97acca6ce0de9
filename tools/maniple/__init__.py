"""Maniple from Python: a deck's task as one of Gymnasium's vector environments, stepped in this process.

    import maniple
    envs = maniple.make_vec("gymnasium/half_cheetah_v5", num_envs=1024, seed=1)
    observations, infos = envs.reset()                       # [1024, 17], float32
    observations, rewards, terminations, truncations, infos = envs.step(envs.action_space.sample())

What the program refuses is a ValueError here, and what fails for other reasons a RuntimeError, with the same text.
"""

from maniple.native import version as __version__
from maniple.vector_env import VectorEnv, make_vec

__all__ = ["VectorEnv", "make_vec", "__version__"]
