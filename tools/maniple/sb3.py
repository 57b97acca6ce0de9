"""Tasks for Stable-Baselines3: its VecEnv around a vector environment of Maniple.

    from stable_baselines3 import PPO
    from maniple.sb3 import make_vec_env

    PPO("MlpPolicy", make_vec_env("gymnasium/half_cheetah_v5", 64, seed=1)).learn(1_000_000)

Where an episode ends, the environment's info has "episode" (as Monitor's), "terminal_observation" and
"TimeLimit.truncated". Tasks whose critic observes more give dictionaries, for "MultiInputPolicy".
"""

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from stable_baselines3.common.vec_env import VecEnv

from maniple.decks import Deck
from maniple.vector_env import make_vec


def make_vec_env(deck: Deck, n_envs: int | None = None, seed: int | None = None, **options: Any) -> "ManipleVecEnv":
    """The environments of a deck's task; options: those of maniple.make_vec(), except autoreset_mode."""
    return ManipleVecEnv(deck, n_envs, seed, **options)


class ManipleVecEnv(VecEnv):
    """`envs` is the vector environment of maniple.make_vec()."""

    def __init__(self, deck: Deck, n_envs: int | None = None, seed: int | None = None, **options: Any) -> None:
        self.envs = make_vec(deck, n_envs, seed, autoreset_mode=AutoresetMode.SAME_STEP, **options)
        self.render_mode = None
        self._actions: Any = None
        super().__init__(self.envs.num_envs, self.envs.single_observation_space, self.envs.single_action_space)

    def reset(self) -> Any:
        observations, _ = self.envs.reset(seed=self._seeds[0])
        self._reset_seeds()
        return observations

    def step_async(self, actions: np.ndarray) -> None:
        self._actions = actions

    def step_wait(self) -> tuple[Any, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        observations, rewards, terminated, truncated, more = self.envs.step(self._actions)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for env in np.flatnonzero(terminated | truncated):
            infos[env] = {"episode": {name: more["episode"][name][env].item() for name in ("r", "l", "t")},
                          "terminal_observation": more["final_obs"][env],
                          "TimeLimit.truncated": bool(truncated[env] and not terminated[env])}
            if "success" in more:
                infos[env]["is_success"] = bool(more["success"][env])
        return observations, rewards, terminated | truncated, infos

    def close(self) -> None:
        self.envs.close()

    # (one batch stands for all environments, and has the attributes of each)
    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        value = getattr(self if attr_name == "render_mode" else self.envs, attr_name)
        return [value for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise ValueError(f"{attr_name}: environments of a batch have no attributes of their own; allowed: deck keys of make_vec_env()")

    def env_method(self, method_name: str, *arguments: Any, indices: Any = None, **named: Any) -> list[Any]:
        raise ValueError(f"{method_name}: environments of a batch have no methods of their own; allowed: those of the VecEnv")

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        from stable_baselines3.common.monitor import Monitor

        return [wrapper_class is Monitor for _ in self._get_indices(indices)]  # (its infos are there)
