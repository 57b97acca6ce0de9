"""Batches of MuJoCo models without a task: Simulation steps them, rollout() is mujoco.rollout.rollout of all at once.

Fields have MuJoCo's names (mjData), and arrays one row for each environment.
"""

import os
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

from maniple.decks import Deck, sources
from maniple.native import ModelSimulation
from maniple.process import packages_of_this_python, threads_of, warn_of_dropped

MODEL_FILES = (".xml", ".mjcf", ".urdf", ".mjb")
# Numbers in a row of a model's field that environments may have for themselves, where MuJoCo has more of them: friction of
# sliding, and the parameters that affine gains and biases use.
VARYING = {"geom_friction": (), "geom_rgba": (3,), "pair_friction": (2,), "actuator_gainprm": (3,), "actuator_biasprm": (3,)}


@contextmanager
def _deck_of(model: mujoco.MjModel | Deck) -> Iterator[Deck]:
    """The deck of a model; a model in memory goes through a temporary file."""
    if isinstance(model, mujoco.MjModel):
        with tempfile.TemporaryDirectory(prefix="maniple") as folder:
            file = Path(folder) / "model.mjb"
            mujoco.mj_saveModel(model, str(file), None)
            yield {"model": {"file": str(file)}}
    elif isinstance(model, (str, os.PathLike)) and Path(model).suffix.lower() in MODEL_FILES:
        yield {"model": {"file": os.fspath(model)}}
    else:
        yield model


def _row_shapes(sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """The shapes of fields of these sizes in one environment: those of MuJoCo, whose arrays have rows of the same length in
    every model, [nbody, 3] and so on; flat where it has no such field."""
    model = mujoco.MjModel.from_xml_string("<mujoco/>")
    data, shapes = mujoco.MjData(model), {}
    for name, size in sizes.items():
        row = VARYING.get(name, np.shape(getattr(data, name, getattr(model, name, None)))[1:])
        width = int(np.prod(row))
        shapes[name] = (size // width, *row) if width else (size,)
    return shapes


class Simulation:
    """A batch of environments of one model, stepped by MuJoCo's rules.

    model: a mujoco.MjModel, a file (MJCF, URDF, MJB), or a deck as make_vec() takes it, whose task does not act here; its
        events give environments models of their own.
    num_envs, seed, precision, overrides, threads: as of make_vec(). precision is "double" where None: MuJoCo's own.
    fields: of mjData, that follow from the state and are kept after steps, as mj_step leaves them, and after forward():
        "sensordata", "xpos", "qfrc_constraint", "ncon" and so on.
    model_fields: of mjModel, that each environment has for itself: "geom_friction", "actuator_gainprm" and so on.

    simulation["qpos"] is a copy [num_envs, nq] that cannot be written to, and simulation["qpos"] = array sets the state; so with
    qvel, act, ctrl, time and qacc_warmstart. What follows from them is of the new state after step() or forward(). In each
    environment arrays have MuJoCo's shape, [num_envs, nbody, 3] for xpos; a single number is [num_envs, 1]. Of four model
    fields only the numbers that may vary are there, the first of each row: geom_friction [num_envs, ngeom] and pair_friction
    [num_envs, npair, 2], for sliding; actuator_gainprm and actuator_biasprm [num_envs, nactuator, 3]. What is set may be flat, too,
    [num_envs, nu * 3]. `fields` and `model_fields` say by name (size, unit, description) what there is.

    Raises ValueError if the program refuses it.
    """

    def __init__(self, model: mujoco.MjModel | Deck, num_envs: int | None = None, *, fields: Sequence[str] = (),
                 model_fields: Sequence[str] = (), seed: int | None = None, precision: str | None = None,
                 overrides: Mapping[str, Any] | None = None, threads: int | None = None) -> None:
        keys = {"batch.num_envs": num_envs, "batch.seed": seed, "simulation.precision": precision or "double"}
        given = {key: value for key, value in keys.items() if value is not None} | dict(overrides or {})
        with _deck_of(model) as deck, packages_of_this_python():
            files, assignments, run = sources(deck, given)
            self._core = ModelSimulation(files, assignments, run, list(fields), list(model_fields), threads_of(threads))
        for text in self._core.warnings:
            warnings.warn(text, stacklevel=2)
        self.num_envs: int = self._core.envs
        self.step_dt: float = self._core.step_dt
        self.deck: str = self._core.deck
        self.dtype = np.dtype(np.float64 if self._core.is_double else np.float32)
        described = self._core.fields()
        self._sizes = {name: size for name, size, *_ in described}
        self._states = {name for name, _, is_state, *_ in described if is_state and name != "model_values"}
        self._told_of_dropped = False
        self.fields = {name: (size, unit, text) for name, size, _, unit, text in described if size and name != "model_values"}
        self._model_places = {name: (first, size, may_be_set) for name, size, first, may_be_set, *_ in self._core.model_fields()}
        self._shapes = _row_shapes(self._sizes | {name: size for name, (_, size, _) in self._model_places.items()})
        self.model_fields = {name: (size, unit, text) for name, size, _, _, unit, text in self._core.model_fields()}

    @property
    def bad_states(self) -> int:
        """Environments put back so far because their state was not finite or too large."""
        return self._core.bad_states

    @property
    def dropped_contacts(self) -> int:
        """Contacts left out so far because an environment had more than simulation.max_contacts. The first are warned of."""
        return self._core.dropped_contacts

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name in self._model_places:
            first, size, _ = self._model_places[name]
            return self._shaped(name, self._rows("model_values")[:, first:first + size].copy())
        if name not in self._sizes or name == "model_values":
            raise KeyError(f"'{name}' is not kept; allowed: {', '.join([*self.fields, *self.model_fields])}, and what "
                           "Simulation(..., fields=[...]) names")
        return self._shaped(name, self._rows(name))

    def __setitem__(self, name: str, values: ArrayLike) -> None:
        self.set(name, values)

    def set(self, name: str, values: ArrayLike, mask: NDArray[np.bool_] | None = None) -> None:
        """Sets a state or a model field of all environments, or of those in `mask` [num_envs]; values: [num_envs, size], the
        shape in which it is read, or what becomes one of them by numpy's rules, the first before the second. ValueError for
        what cannot be set."""
        place = self._model_places.get(name)
        if place is not None and not place[2]:
            raise ValueError(f"{name}: other numbers of the model follow from it; allowed: a task's events set it")
        if place is None and name not in self._states:
            raise ValueError(f"{name}: found no state; allowed: {', '.join(sorted(self._states | set(self._model_places)))}")
        size = self._sizes[name] if place is None else place[1]
        flat, shaped = (self.num_envs, size), (self.num_envs, *self._shapes[name])
        array = np.asarray(values, self.dtype)
        for shape in (flat, shaped):
            try:
                rows = np.ascontiguousarray(np.broadcast_to(array, shape)).reshape(flat)
                break
            except ValueError:
                continue
        else:
            allowed = f"{shaped}" if shaped == flat else f"{shaped} or {flat}"
            raise ValueError(f"{name}: found the shape {array.shape}; allowed: {allowed}")
        if place is not None:
            whole = self._rows("model_values")
            whole[:, place[0]:place[0] + size] = rows
            name, rows = "model_values", whole
        self._core.set(name, rows, self._mask(mask))

    def reset(self, mask: NDArray[np.bool_] | None = None) -> None:
        """The initial state of the deck, of a model alone its qpos0: in all environments, or in those of `mask` [num_envs]."""
        self._core.reset(self._mask(mask))

    def forward(self) -> None:
        """Fields of the state as it is, as mj_forward computes them."""
        self._core.forward()
        self._tell_of_dropped()

    def inverse(self, qacc: ArrayLike) -> NDArray[Any]:
        """Inverse dynamics: which forces from outside, of actuators or applied, give the state these accelerations; qacc and
        the result: [num_envs, nv], qfrc_inverse as mj_inverse computes it. `fields` are those of forward() but for qacc and
        qfrc_inverse. ValueError where qfrc_inverse is not among them."""
        if "qfrc_inverse" not in self._sizes:
            raise ValueError("inverse(): qfrc_inverse is not kept; allowed: after Simulation(..., fields=[\"qfrc_inverse\"])")
        warmstart = self["qacc_warmstart"]
        self.set("qacc_warmstart", qacc)
        self._core.forward(inverse=True)
        self.set("qacc_warmstart", warmstart)
        return self["qfrc_inverse"]

    def step(self, steps: int = 1, ctrl: ArrayLike | None = None) -> None:
        """Steps of the model's timestep, or of a deck's simulation.decimation of them; ctrl: as simulation["ctrl"] = ctrl
        before."""
        if isinstance(steps, bool) or not isinstance(steps, (int, np.integer)) or steps < 0:
            raise ValueError(f"steps: found {steps!r}; allowed: an integer, at least 0")
        if ctrl is not None:
            self.set("ctrl", ctrl)
        self._core.step(int(steps))
        self._tell_of_dropped()

    def rollout(self, control: NDArray[np.float64] | None, state: NDArray[np.float64],
                sensordata: NDArray[np.float64]) -> None:
        """Steps from the present state into state [num_envs, steps, 1 + nq + nv + na] and sensordata [num_envs, steps,
        nsensordata], with control [num_envs, steps, nu] or none. All in C's order; of precision "double"."""
        self._core.rollout(control, state.shape[1], state, sensordata)
        self._tell_of_dropped()

    def _tell_of_dropped(self) -> None:
        self._told_of_dropped = warn_of_dropped(self._core, self._told_of_dropped, 4)

    def _shaped(self, name: str, rows: NDArray[Any]) -> NDArray[Any]:
        """A read-only copy in MuJoCo's shape: writing to it would not change the batch."""
        rows = rows.reshape(self.num_envs, *self._shapes[name])
        rows.flags.writeable = False
        return rows

    def _rows(self, name: str) -> NDArray[Any]:
        rows = np.empty((self.num_envs, self._sizes[name]), self.dtype)
        self._core.get(name, rows)
        return rows

    def _mask(self, mask: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
        if mask is None:
            return None
        if np.asarray(mask).dtype != np.bool_:
            raise ValueError(f"mask: found an array of {np.asarray(mask).dtype}; allowed: bool")
        return np.ascontiguousarray(mask)


def rollout(model: mujoco.MjModel | Sequence[mujoco.MjModel], initial_state: ArrayLike, control: ArrayLike | None = None, *,
            control_spec: int = int(mujoco.mjtState.mjSTATE_CTRL), nstep: int | None = None,
            initial_warmstart: ArrayLike | None = None, state: NDArray[np.float64] | None = None,
            sensordata: NDArray[np.float64] | None = None, overrides: Mapping[str, Any] | None = None,
            threads: int | None = None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Open-loop rollouts, with the arguments and results of mujoco.rollout.rollout, except mjData.

    model: one, or one for each rollout. initial_state: [nbatch or 1, nstate], of mjSTATE_FULLPHYSICS. control: [nbatch or 1,
        nstep or 1, nu]. control_spec: mjSTATE_CTRL alone. nstep: needed if no array gives it. initial_warmstart: [nbatch or
        1, nv]. state, sensordata: output arrays.
    overrides: deck keys by their paths, {"simulation.solver": "Newton"}. threads: as of make_vec().

    Returns state [nbatch, nstep, nstate] and sensordata [nbatch, nstep, nsensordata]. Raises ValueError for shapes that do not
    fit each other, and for models with features that the program does not support.
    """
    if control_spec != int(mujoco.mjtState.mjSTATE_CTRL):
        raise ValueError(f"control_spec: found {control_spec}; allowed: {int(mujoco.mjtState.mjSTATE_CTRL)}, mjSTATE_CTRL")
    models = [model] if isinstance(model, mujoco.MjModel) else list(model)
    if not models:
        raise ValueError("model: found none; allowed: at least one")
    sizes = {(_state_size(one), one.nu, one.nv, one.nsensordata) for one in models}
    if len(sizes) > 1:
        raise ValueError(f"model: found models of other sizes (nstate, nu, nv, nsensordata): {sorted(sizes)}; allowed: equal ones")
    if any(one.nhistory for one in models):
        raise ValueError("model: found a history of controls or readings (nsample), which is in mjSTATE_FULLPHYSICS; allowed: "
                         "models without; Simulation steps them")
    nstate, nu, nv, nsensordata = sizes.pop()
    arrays = {"initial_state": _array("initial_state", initial_state, 2, nstate), "control": _array("control", control, 3, nu),
              "initial_warmstart": _array("initial_warmstart", initial_warmstart, 2, nv),
              "state": _array("state", state, 3, nstate), "sensordata": _array("sensordata", sensordata, 3, nsensordata)}
    if arrays["initial_state"] is None:
        raise ValueError("initial_state: found nothing; allowed: [nbatch or 1, nstate]")
    batch = _common("nbatch", {name: array.shape[0] for name, array in arrays.items() if array is not None} | {"model": len(models)})
    steps = _common("nstep", {name: array.shape[1] for name, array in arrays.items() if array is not None and array.ndim == 3}
                    | ({} if nstep is None else {"nstep": nstep}))
    for name, given in (("state", state), ("sensordata", sensordata)):
        size = arrays[name].shape[2] if given is not None else 0
        if given is not None and (not isinstance(given, np.ndarray) or given.shape != (batch, steps, size)
                                  or given.dtype != np.float64 or not given.flags.c_contiguous or not given.flags.writeable):
            raise ValueError(f"{name}: allowed: an array of float64 in C's order, of the shape {(batch, steps, size)}")
    found = (np.empty((batch, steps, nstate)) if state is None else state,
             np.empty((batch, steps, nsensordata)) if sensordata is None else sensordata)
    starts, warm = (np.broadcast_to(rows, (batch, rows.shape[1])) if rows is not None else None
                    for rows in (arrays["initial_state"], arrays["initial_warmstart"]))
    controls = None if arrays["control"] is None else np.broadcast_to(arrays["control"], (batch, steps, nu))
    alike: dict[int, list[int]] = {}  # rollouts of the same model, by its identity
    for number, one in enumerate(models):
        alike.setdefault(id(one), []).append(number)
    for numbers in alike.values():
        rows = slice(None) if len(alike) == 1 else numbers
        count = batch if len(alike) == 1 else len(numbers)
        of_these = found if len(alike) == 1 else (np.empty((count, steps, nstate)), np.empty((count, steps, nsensordata)))
        with _kept_simulation(models[numbers[0]], count, overrides, threads) as simulation:
            _set_state(simulation, models[numbers[0]], starts[rows])
            simulation["qacc_warmstart"] = 0 if warm is None else warm[rows]
            simulation.rollout(None if controls is None else np.ascontiguousarray(controls[rows]), *of_these)
        if len(alike) > 1:
            found[0][rows], found[1][rows] = of_these
    return found


_kept: dict[tuple[Any, ...], Simulation] = {}  # of the last calls of rollout(), by what they were made of
MOST_KEPT = 4


@contextmanager
def _kept_simulation(model: mujoco.MjModel, count: int, overrides: Mapping[str, Any] | None,
                     threads: int | None) -> Iterator[Simulation]:
    """Control by sampling asks for the same model over and over, whose import takes longer than short rollouts. Every number
    of the model is compared, as any may have changed since; rollouts set whatever others change of a state."""
    stored = np.empty(mujoco.mj_sizeModel(model), np.uint8)
    mujoco.mj_saveModel(model, None, stored)
    key = (stored.tobytes(), count, repr(sorted((overrides or {}).items())), threads)
    simulation = _kept.pop(key, None)  # nobody else has it while it is used
    if simulation is None:
        simulation = Simulation(model, count, fields=["sensordata"] if model.nsensordata else [], overrides=overrides,
                                threads=threads)
    yield simulation
    _kept[key] = simulation
    while len(_kept) > MOST_KEPT:
        _kept.pop(next(iter(_kept)), None)


def _state_size(model: mujoco.MjModel) -> int:
    return mujoco.mj_stateSize(model, int(mujoco.mjtState.mjSTATE_FULLPHYSICS))


def _set_state(simulation: Simulation, model: mujoco.MjModel, rows: NDArray[np.float64]) -> None:
    """Sets the state from rows of mjSTATE_FULLPHYSICS."""
    first = 0
    for name, size in (("time", 1), ("qpos", model.nq), ("qvel", model.nv), ("act", model.na)):
        if size:
            simulation[name] = rows[:, first:first + size]
        first += size


def _array(name: str, values: ArrayLike | None, dimensions: int, size: int) -> NDArray[np.float64] | None:
    """An array of this many dimensions; missing leading ones become 1."""
    if values is None:
        return None
    try:
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: allowed: numbers ({error})") from None
    if array.ndim > dimensions:
        raise ValueError(f"{name}: found {array.ndim} dimensions; allowed: at most {dimensions}")
    array = array.reshape((1,) * (dimensions - array.ndim) + array.shape)
    if array.shape[-1] != size:
        raise ValueError(f"{name}: found rows of {array.shape[-1]} numbers; allowed: {size}")
    return array


def _common(what: str, counts: dict[str, int]) -> int:
    """The common size of several arrays, apart from those of size 1."""
    others = {count for count in counts.values() if count != 1}
    if len(others) > 1 or 0 in others:
        raise ValueError(f"{what}: found {', '.join(f'{count} of {name}' for name, count in counts.items())}; "
                         "allowed: the same of all, or 1")
    return others.pop() if others else 1
