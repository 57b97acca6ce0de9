"""A deck's task as a gymnasium.vector.VectorEnv: all environments in one batch, stepped by the threads of this process.

Observations and rewards arrive in new numpy arrays, or with copy=False in two sets of arrays in turn, into which the
program writes rows out of its own layout; nothing is copied after that. Actions that are C-contiguous and of the dtype
of `action_space` are read where they lie; others are converted first. What has __dlpack__ (PyTorch, JAX, CuPy) is taken
as an action, too, and every array that comes back gives its memory by numpy's __dlpack__.
"""

import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.utils.seeding import np_random
from gymnasium.vector import AutoresetMode
from gymnasium.vector import VectorEnv as GymnasiumVectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from maniple.arrays import check_finite, real_array
from maniple.decks import Deck, sources
from maniple.native import VectorEnvironment
from maniple.process import packages_of_this_python, threads_of, warn_of_dropped

RENDER_MODES = ("rgb_array",)
Observations = NDArray[Any] | dict[str, NDArray[Any]]


def make_vec(deck: Deck, num_envs: int | None = None, seed: int | None = None, precision: str | None = None,
             overrides: Mapping[str, Any] | None = None, comm: Any = None,
             autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP, threads: int | None = None,
             copy: bool = True, render_mode: str | None = None, width: int = 480, height: int = 480,
             camera: str | int | None = None) -> "VectorEnv":
    """The environments of a deck's task.

    deck: a file, the name of a deck that comes with Maniple ("gymnasium/half_cheetah_v5"), a run (its directory, or the Run
        of it), whose task and model are taken, or a dictionary with the sections of a deck.
    num_envs: of the whole batch (batch.num_envs). seed: of all its random numbers, 0 to 2^32 - 1 (batch.seed).
        precision: "single" or "double" (simulation.precision): of the physics, and float32 or float64 of observations,
        rewards and actions. None: as in the deck.
    overrides: deck keys by their paths, {"simulation.decimation": 4}, which override all of the above; None or "~" removes one.
    comm: an mpi4py communicator, or anything with Get_rank(), Get_size() and allgather(): each of its ranks gets its part
        of the batch, whole tiles of 32 environments, with the bits that one process would give them. Collective.
    autoreset_mode: when environments begin the next episode, as in Gymnasium's vector environments.
    threads: number of threads that step the batch; None: one for each core that this process may use, divided by OMP_NUM_THREADS' rule
        where that is set. The bits do not depend on it.
    copy: False: observations, rewards and flags are overwritten by the step after the next one.
    render_mode: "rgb_array": render() gives a picture of each environment of this process, by MuJoCo's renderer, of width x height
        pixels. It takes milliseconds for each: as many environments as are to be seen. camera: as of maniple.pictures.Pictures.

    Raises ValueError for refusals of the program, on every rank of `comm` alike, and RuntimeError for other failures.
    """
    return VectorEnv(deck, num_envs, seed, precision, overrides, comm, autoreset_mode, threads, copy, render_mode, width, height,
                     camera)


class VectorEnv(GymnasiumVectorEnv):
    """The environments of a deck's task; make_vec() documents the arguments.

    Beyond Gymnasium's: `num_envs` are those of this process, from `first_env` on, of `global_num_envs`; `step_dt` [s] is
    the duration of a control step, `max_episode_steps` the longest episode (0: endless); `observation_names` and
    `action_names` say what the components are; `deck` is the deck with every key, as YAML.

    `action_space` has the ranges of controls where the model or the task limits them, else [-1, 1]; actions outside are
    taken as they are, and limited where the model or the task says so. Tasks whose critic has observations of its own
    give dictionaries: {"policy": [num_envs, n], "critic": [num_envs, m]}.

    Where episodes end, `infos` has "episode" {"r": return, "l": control steps, "t": seconds since its begin}, "success"
    where the task has one, "invalid" (the state or a reward was not finite or too large), and "metrics" with what trainings
    and evaluations report of it, `metric_names`: {"reward_<name>": part of the return, "termination_<name>": 1 if it held in
    the last step, "metric_<name>"}, with the masks "_episode" and so on; with AutoresetMode.SAME_STEP also "final_obs" and
    "final_info".
    """

    def __init__(self, deck: Deck, num_envs: int | None = None, seed: int | None = None, precision: str | None = None,
                 overrides: Mapping[str, Any] | None = None, comm: Any = None,
                 autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP, threads: int | None = None,
                 copy: bool = True, render_mode: str | None = None, width: int = 480, height: int = 480,
                 camera: str | int | None = None) -> None:
        if render_mode is not None and render_mode not in RENDER_MODES:
            raise ValueError(f"render_mode: found {render_mode!r}; allowed: None, {', '.join(map(repr, RENDER_MODES))}")
        if comm is not None and not hasattr(comm, "allgather"):
            raise ValueError(f"comm: found {comm!r}; allowed: None, or a communicator of mpi4py")
        rank, ranks = (0, 1) if comm is None else (comm.Get_rank(), comm.Get_size())
        modes = [mode.value for mode in AutoresetMode]
        if not isinstance(autoreset_mode, AutoresetMode) and autoreset_mode not in modes:
            raise ValueError(f"autoreset_mode: found {autoreset_mode!r}; allowed: {', '.join(map(repr, modes))}")
        mode = AutoresetMode(autoreset_mode)
        keys = {"batch.num_envs": num_envs, "batch.seed": seed, "simulation.precision": precision}
        given = {key: value for key, value in keys.items() if value is not None} | dict(overrides or {})
        # (a failure may be one rank's alone, where a file is missing)
        failure: BaseException | None = None
        try:
            files, assignments, run = sources(deck, given)
            with packages_of_this_python():
                self._core = VectorEnvironment(files, assignments, run, mode.value, rank, ranks, threads_of(threads),
                                                render_mode is not None)
        except (ValueError, RuntimeError) as error:
            failure = error
        if comm is not None:
            _agree(comm, failure, None if failure else self._core.deck)
        if failure is not None:
            raise failure
        core = self._core
        for text in core.warnings:
            warnings.warn(text, stacklevel=3)
        if core.updated_curricula:
            warnings.warn(f"task.curricula: {', '.join(core.updated_curricula)}: updates run in trainings of the program alone. Here "
                          "values stay as they begin, or as envs.set_curriculum(name, value) sets them", stacklevel=3)

        self.num_envs: int = core.envs
        self.global_num_envs: int = core.num_envs
        self.first_env: int = core.first_env
        self.step_dt: float = core.step_dt
        self.max_episode_steps: int = core.max_episode_steps
        self.observation_names: list[str] = core.observation_names
        self.action_names: list[str] = core.action_names
        self.deck: str = core.deck
        self.metric_names: list[str] = [f"reward_{name}" for name in core.reward_terms] + core.metrics
        self.copy = copy
        self.autoreset_mode = mode
        self._comm = comm
        self.metadata = {"autoreset_mode": mode, "render_modes": list(RENDER_MODES), "render_fps": round(1 / core.step_dt)}
        self.render_mode = render_mode
        self._pictures = None
        if render_mode is not None:
            from maniple.pictures import Pictures  # (mujoco is not needed without pictures)

            self._pictures = Pictures(core.mjb, width, height, camera)
        self._dtype = np.dtype(np.float64 if core.is_double else np.float32)
        low, high = (np.array(side, self._dtype) for side in (core.action_low, core.action_high))
        self.single_action_space = spaces.Box(low, high, dtype=self._dtype.type)
        policy = self._unlimited(core.num_observations)
        self._has_critic = core.num_critic_observations > 0
        self.single_observation_space = spaces.Dict(
            {"policy": policy, "critic": self._unlimited(core.num_critic_observations)}) if self._has_critic else policy
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self._sets = [self._new_arrays() for _ in range(0 if copy else 2)]
        # (for who draws beside the environments, which have random numbers of their own)
        self._np_random, self._np_random_seed = np_random(core.seed)
        self._started = np.zeros(self.num_envs)
        self._ended = np.zeros(self.num_envs, bool)
        self._told_of_dropped = False

    def reset(self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None) -> tuple[Observations, dict[str, Any]]:
        """New episodes, and their first observations.

        seed: all random numbers from their beginning, as a batch that is made with this seed (one number for the whole
        batch: environments differ by it and their own number; the list [seed, seed + 1, ...], a number for each environment,
        is that seed, as for Gymnasium's vector environments). options {"reset_mask": [num_envs] of bool}: only there;
        other environments return their last observations again.

        Raises TypeError and ValueError for a seed or mask of another kind.
        """
        self._check_open()
        mask = None
        for key in options or {}:
            if key != "reset_mask":
                raise ValueError(f"options: found '{key}'; allowed: reset_mask")
        if options:
            mask = options["reset_mask"]
            if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
                kind = f"an array of {mask.dtype}" if isinstance(mask, np.ndarray) else type(mask).__name__
                raise TypeError(f"options['reset_mask']: found {kind}; allowed: a numpy array of bool")
            if mask.shape != (self.num_envs,) or not mask.any():
                raise ValueError(f"options['reset_mask']: found the shape {mask.shape} with {int(mask.sum())} environments; "
                                 f"allowed: the shape ({self.num_envs},) with one environment at least")
            mask = np.ascontiguousarray(mask)
        if seed is not None:
            seed = self._seed_of(seed)
            if not 0 <= seed < 2**32:
                raise ValueError(f"seed: found {seed}; allowed: 0 to 4294967295")
            if mask is not None:
                raise ValueError("seed: found together with a reset_mask; allowed: seeds of resets of all environments")
            self._core.reseed(int(seed))
            self._np_random, self._np_random_seed = np_random(int(seed))
        arrays = self._arrays()
        self._core.reset(mask, arrays["policy"], arrays["critic"])
        chosen = slice(None) if mask is None else mask
        self._started[chosen] = time.perf_counter()
        self._ended[chosen] = False
        return self._observations(arrays), {}

    def step(self, actions: Any) -> tuple[Observations, NDArray[Any], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """One control step of every environment with `actions` [num_envs, number of actions].

        Returns observations, rewards [num_envs], terminations and truncations [num_envs] of bool, and infos. Raises
        ValueError for actions of another shape and for what is not finite, RuntimeError before the first reset(), and with AutoresetMode.DISABLED
        where an episode has ended and was not reset.
        """
        self._check_open()
        actions = self._rows_of(actions)
        arrays = self._arrays()
        reward, terminated, truncated = arrays["reward"], arrays["terminated"], arrays["truncated"]
        any_ended = self._core.step(actions, arrays["policy"], arrays["critic"], reward, terminated, truncated)
        self._told_of_dropped = warn_of_dropped(self._core, self._told_of_dropped, 3)
        if self.autoreset_mode == AutoresetMode.NEXT_STEP and self._ended.any():
            self._started[self._ended] = time.perf_counter()
            self._ended[:] = False
        infos = self._episode_infos(terminated | truncated) if any_ended else {}
        return self._observations(arrays), reward, terminated, truncated, infos

    @property
    def dropped_contacts(self) -> int:
        """Contacts left out so far because an environment had more than simulation.max_contacts. The first are warned of."""
        self._check_open()
        return self._core.dropped_contacts

    @property
    def curricula(self) -> dict[str, float]:
        """The values of the task's curricula, by name; without those that are terms (terrain_levels_vel), whose environments move by
        themselves."""
        self._check_open()
        return dict(self._core.curricula)

    def set_curriculum(self, name: str, value: float) -> None:
        """Sets a curriculum, for the steps and resets that follow; resets and seeds keep it. Collective over `comm`.

        Raises ValueError for an unknown name, for what is not finite, for numbers that the task refuses (a range upside down),
        and where ranks give different values.
        """
        before, failure = self.curricula, None
        try:
            self._core.set_curriculum(name, float(value))
        except (TypeError, ValueError) as error:
            failure = ValueError(str(error))
        try:
            if self._comm is not None:
                _agree(self._comm, failure, f"{name} = {value}", "values of a curriculum", "the same")
            if failure is not None:
                raise failure
        except Exception:
            if name in before:
                self._core.set_curriculum(name, before[name])
            raise

    def render(self) -> tuple[NDArray[np.uint8], ...] | None:
        """A picture [height, width, 3] of each environment as it is now; None where render_mode is. RuntimeError before the first
        reset()."""
        self._check_open()
        if self._pictures is None:
            return None
        fields = {}
        for name, size in self._core.picture_fields:
            fields[name] = np.empty((self.num_envs, size), self._dtype)
            self._core.read_state(name, fields[name])
        return tuple(self._pictures.of({name: rows[env] for name, rows in fields.items()}) for env in range(self.num_envs))

    def close_extras(self, **kwargs: Any) -> None:
        """Frees the memory of the environments."""
        self._core = None
        if self._pictures is not None:
            self._pictures.close()

    # ---- parts ----

    def _check_open(self) -> None:
        if self._core is None:
            raise RuntimeError("these environments were closed")

    def _seed_of(self, seed: Any) -> int:
        """The seed of the whole batch: the first of [seed, seed + 1, ...], as in Gymnasium."""
        numbers = np.asarray(seed)
        if isinstance(seed, int) and not isinstance(seed, bool):
            return seed
        if isinstance(seed, bool) or numbers.ndim > 1 or not np.issubdtype(numbers.dtype, np.integer):
            raise TypeError(f"seed: found {type(seed).__name__}; allowed: one integer for the whole batch, or its list [seed, seed + 1, ...]")
        if numbers.ndim == 0:
            return int(seed)
        first = int(numbers[0]) - self.first_env if numbers.size else 0
        if numbers.shape != (self.num_envs,) or (numbers != first + self.first_env + np.arange(self.num_envs)).any():
            raise ValueError(f"seed: found a list of {numbers.size} numbers that are not {self.num_envs} consecutive ones; allowed: one integer "
                             "for the whole batch, from which each environment has random numbers of its own, or [seed, seed + 1, ...]")
        return first

    def _unlimited(self, size: int) -> spaces.Box:
        return spaces.Box(-np.inf, np.inf, (size,), self._dtype.type)

    def _new_arrays(self) -> dict[str, Any]:
        """The arrays that a step fills."""
        envs, core = self.num_envs, self._core
        return {"policy": np.empty((envs, core.num_observations), self._dtype),
                "critic": np.empty((envs, core.num_critic_observations), self._dtype) if self._has_critic else None,
                "reward": np.empty(envs, self._dtype), "terminated": np.empty(envs, bool), "truncated": np.empty(envs, bool)}

    def _arrays(self) -> dict[str, Any]:
        if self.copy:
            return self._new_arrays()
        self._sets.reverse()
        return self._sets[0]

    def _observations(self, arrays: dict[str, Any]) -> Observations:
        return {"critic": arrays["critic"], "policy": arrays["policy"]} if self._has_critic else arrays["policy"]

    def _rows_of(self, actions: Any) -> NDArray[Any]:
        if actions is None:
            raise ValueError(f"actions: found None; allowed: an array of the shape {self.action_space.shape}")
        rows = real_array(actions, self._dtype, "actions")
        if rows.shape != self.action_space.shape:
            raise ValueError(f"actions: found the shape {rows.shape}; allowed: {self.action_space.shape}")
        check_finite(rows, "actions")
        return rows

    def _episode_infos(self, ended: NDArray[np.bool_]) -> dict[str, Any]:
        """The infos of the episodes that ended in this step."""
        arrays, now, core = self._new_arrays(), time.perf_counter(), self._core
        returns, invalid = arrays["reward"], arrays["terminated"]
        success = np.empty(self.num_envs, bool) if core.has_success else None
        lengths = np.empty(self.num_envs, np.int64)
        names = self.metric_names
        parts = [np.empty((self.num_envs, len(of)), self._dtype) if of else None for of in (core.reward_terms, core.metrics)]
        core.episodes(arrays["policy"], arrays["critic"], returns, lengths, success, invalid, *parts)
        episode = {"r": np.where(ended, returns, 0), "l": np.where(ended, lengths, 0),
                   "t": np.where(ended, now - self._started, 0.0)}
        for name in ("r", "l", "t"):
            episode[f"_{name}"] = ended.copy()
        infos: dict[str, Any] = {"episode": episode, "_episode": ended.copy(), "invalid": invalid & ended, "_invalid": ended.copy()}
        if names:
            columns = np.where(ended, np.concatenate([part.T for part in parts if part is not None]), 0)
            infos |= {"metrics": dict(zip(names, columns)) | {f"_{name}": ended.copy() for name in names}, "_metrics": ended.copy()}
        if success is not None:
            infos |= {"success": success & ended, "_success": ended.copy()}
        if self.autoreset_mode != AutoresetMode.SAME_STEP:
            self._ended = ended.copy()
            return infos
        self._started[ended] = now
        final = np.full(self.num_envs, None, object)
        finals = self._observations(arrays)
        for env in np.flatnonzero(ended):
            final[env] = {name: rows[env] for name, rows in finals.items()} if isinstance(finals, dict) else finals[env]
        return infos | {"final_obs": final, "_final_obs": ended.copy(), "final_info": dict(infos), "_final_info": ended.copy()}


def _agree(comm: Any, failure: BaseException | None, given: str | None, what: str = "decks",
           allowed: str = "the same deck, seed and overrides") -> None:
    """Raises the message of the first rank that failed on every rank; ValueError where ranks were given different ones."""
    told = comm.allgather((failure is not None and type(failure).__name__, str(failure or ""), given))
    for kind, text, _ in told:
        if kind:
            raise (ValueError if kind == "ValueError" else RuntimeError)(text) from failure
    if any(other != told[0][2] for _, _, other in told):
        raise ValueError(f"comm: found different {what} on its ranks; allowed: {allowed} on all of them")
