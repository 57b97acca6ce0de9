"""A trained policy as a function: observations in, actions out, with the numbers of `maniple evaluate` and `rollout`.

Its parameters are read from a checkpoint of the run, its settings from the run's results; neither model nor task is
needed for that.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maniple.arrays import check_finite, real_array
from maniple.checkpoints import BadInput, check_run, check_trained, newest_checkpoint, opened
from maniple.process import packages_of_this_python
from maniple.results import Run, check_kind, results_path, text_of, what_is_missing


def load_policy(run: str | os.PathLike[str] | Run, *, best: bool = False, checkpoint: str | os.PathLike[str] | None = None,
                seed: int | None = None, deterministic: bool | None = None) -> "Policy":
    """The policy of a training (`maniple train`, `maniple imitate`).

    run: its directory, or the Run of it. best: the policy with the best evaluation (evaluation.every); checkpoint: one of
        its checkpoints; else the newest.
    seed: that of drawn actions; None: the run's batch.seed. deterministic: default for calls; None: as
        evaluation.deterministic of the run.

    Raises ValueError if there is no such policy or it was trained with other settings than the run's, OSError for damaged
    files.
    """
    if best and checkpoint is not None:
        raise ValueError("best and checkpoint: found both; allowed: one of them")
    if not isinstance(run, Run):
        try:
            check_kind(run)
        except OSError as error:
            raise ValueError(str(error)) from None
        if not results_path(run).is_file():
            raise ValueError(f"not the directory of a training: {what_is_missing(run)}")
        with Run(run) as results:
            return load_policy(results, best=best, checkpoint=checkpoint, seed=seed, deterministic=deterministic)
    check_trained(run)
    file = Path(checkpoint) if checkpoint is not None else newest_checkpoint(run.directory / "best" if best else run.directory)
    if not file.is_file():
        raise ValueError(f"{file} is not there")
    with opened(file, checkpoint is not None) as stored:
        try:
            check_run(run, stored)
            return Policy(run, stored, seed, deterministic)
        except KeyError as error:  # (h5py says what is missing)
            raise BadInput(f"{file} does not hold the policy of {run.directory}: {error.args[0]}") from error


class Policy:
    """policy(observations) gives actions: [n, observations] to [n, actions], float32.

    The n environments are the first n of a batch, in every call the same: recurrent cells and the predicted actions of a diffusion
    policy are kept for each from call to call, until reset() says that its episode has ended. `is_stateful` says whether
    there is such state; without it n may change from call to call. Observations of a critic are not needed; of a
    dictionary {"critic", "policy"} the latter are used.
    """

    def __init__(self, run: Run, stored: Any, seed: int | None, deterministic: bool | None = None) -> None:
        from maniple import native

        stated = dict(line.split("=", 1) for line in text_of(stored.attrs["policy"]).splitlines())
        if "data.cameras" in stated:
            raise BadInput(f"{stored.filename} needs images ({stated['data.cameras']}); allowed: policies without image inputs. "
                           "`python -m maniple.export` exports this one for use with cameras")
        sizes = [int(stated[f"task.{name}"]) for name in ("observations", "critic_observations", "actions")]
        with packages_of_this_python():
            self._core = native.CallablePolicy(str(run.path), run.deck, *sizes)
        for name, kind, count in self._core.entries():
            values = np.ascontiguousarray(stored[name][()], kind)
            if values.size != count:
                raise BadInput(f"{stored.filename}: {name}: found {values.size} numbers; allowed: {count}")
            self._core.load(name, np.atleast_1d(values))
        self._core.loaded()
        self.checkpoint = Path(stored.filename)
        self.iteration = int(stored.attrs["step"])
        self.num_observations, _, self.num_actions = sizes
        self.is_stateful: bool = self._core.is_stateful
        self.seed: int = self._core.seed if seed is None else seed
        self.deterministic = deterministic

    def reset(self, mask: NDArray[np.bool_] | None = None) -> None:
        """Episodes have ended: of all environments, or of those in `mask` [n]. Restarts the random numbers of all only
        without a mask."""
        if mask is None:
            self._core.begin(0)
        elif self._core.envs:
            self._core.forget(np.ascontiguousarray(mask, np.bool_))

    def __call__(self, observations: Any, deterministic: bool | None = None) -> NDArray[np.float32]:
        """The actions of one control step.

        deterministic: whether to take the mean action (of a mixture: the one of its likeliest mode) or to draw one; None: as
            load_policy() was told, else as evaluation.deterministic of the run says. Diffusion policies always draw.

        Raises ValueError for observations of another size and for what is not finite.
        """
        if isinstance(observations, dict):
            observations = observations["policy"]
        rows = real_array(observations, np.float32, "observations")
        if rows.ndim != 2 or rows.shape[1] != self.num_observations or len(rows) == 0:
            raise ValueError(f"observations: found the shape {rows.shape}; allowed: (n, {self.num_observations}), with n > 0")
        check_finite(rows, "observations")
        if len(rows) != self._core.envs:
            if self._core.envs and self.is_stateful:
                raise ValueError(f"observations: found {len(rows)} rows; allowed: {self._core.envs}, as before, or another number "
                                 "after reset()")
            self._core.begin(len(rows))
        actions = np.empty((len(rows), self.num_actions), np.float32)
        self._core.act(rows, actions, self.deterministic if deterministic is None else deterministic, self.seed)
        return actions
