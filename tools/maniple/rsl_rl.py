"""Tasks for rsl_rl: its VecEnv around a vector environment of Maniple.

    from rsl_rl.runners import OnPolicyRunner
    from maniple.rsl_rl import ManipleVecEnv

    OnPolicyRunner(ManipleVecEnv("gymnasium/half_cheetah_v5", 1024, seed=1), settings, device="cpu").learn(100)

Observations come in the groups "policy" and, where the task gives its critic more, "critic".
"""

from typing import Any

import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from rsl_rl.env import VecEnv
from tensordict import TensorDict

from maniple.decks import Deck
from maniple.vector_env import make_vec

# what rsl_rl's logger shows of a kind of number of an episode
GROUPS = {"reward": "Episode_Reward", "termination": "Episode_Termination", "metric": "Metrics"}


class Observations(TensorDict):
    """Groups by name that also answer `name in observations`, which tensordict 0.1, the one for torch 1.13, leaves out."""

    def __contains__(self, name: object) -> bool:
        return name in self.keys()


class ManipleVecEnv(VecEnv):
    """`envs` is the vector environment of maniple.make_vec(), whose options these are, except autoreset_mode. `device`:
    that of the tensors. The first episodes have begun."""

    def __init__(self, deck: Deck, num_envs: int | None = None, seed: int | None = None, device: str = "cpu",
                 **options: Any) -> None:
        self.envs = make_vec(deck, num_envs, seed, autoreset_mode=AutoresetMode.SAME_STEP, **options)
        self.num_envs: int = self.envs.num_envs
        (self.num_actions,) = self.envs.single_action_space.shape
        self.max_episode_length: int = self.envs.max_episode_steps
        self.device = device
        self.cfg = {"deck": self.envs.deck}
        self._lengths = torch.zeros(self.num_envs, dtype=torch.long, device=device)
        self._observations = self._groups(self.envs.reset()[0])

    @property
    def episode_length_buf(self) -> torch.Tensor:
        """Control steps of each running episode."""
        return self._lengths

    @episode_length_buf.setter
    def episode_length_buf(self, _: torch.Tensor) -> None:
        raise ValueError("episode_length_buf: episodes are the task's; allowed: learn(..., init_at_random_ep_len=False)")

    def get_observations(self) -> TensorDict:
        return self._observations

    def reset(self) -> tuple[TensorDict, dict[str, Any]]:
        self._lengths.zero_()
        self._observations = self._groups(self.envs.reset()[0])
        return self._observations, {}

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict[str, Any]]:
        observations, rewards, terminated, truncated, infos = self.envs.step(actions.detach().cpu().numpy())
        ended = self._tensor(terminated | truncated)
        self._lengths += 1
        self._lengths[ended] = 0
        self._observations = self._groups(observations)
        extras: dict[str, Any] = {"time_outs": self._tensor(truncated & ~terminated)}
        if "episode" in infos:
            extras["log"] = self._log(infos)
        return self._observations, self._tensor(rewards), ended, extras

    def set_curriculum(self, name: str, value: float) -> None:
        self.envs.set_curriculum(name, value)

    def _log(self, infos: dict[str, Any]) -> dict[str, float]:
        """Means over the episodes that ended in this step, under the names of Isaac Lab and mjlab. As there, rewards are divided by
        the duration of the longest episode [s], where there is one."""
        own = infos["_episode"]
        log = {f"episode/{name}": float(np.mean(infos["episode"][key][own])) for name, key in (("return", "r"), ("length", "l"))}
        seconds = self.envs.max_episode_steps * self.envs.step_dt or 1.0
        for name, values in infos.get("metrics", {}).items():
            kind, _, short = name.partition("_")
            if kind in GROUPS:
                mean = float(np.mean(values[own]))
                log[f"{GROUPS[kind]}/{short}"] = mean / seconds if kind == "reward" else mean
        return log | {f"Curriculum/{name}": value for name, value in self.envs.curricula.items()}

    def _tensor(self, array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(array).to(self.device)

    def _groups(self, observations: Any) -> TensorDict:
        groups = observations if isinstance(observations, dict) else {"policy": observations}
        return Observations({name: self._tensor(array) for name, array in groups.items()}, batch_size=[self.num_envs],
                            device=self.device)
