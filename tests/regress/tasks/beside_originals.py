"""Steps of a deck beside those of its original (originals.py), from the same states with the same actions."""

import h5py
import numpy as np
from conftest import ROOT

# Steps in a row from a state in which both begin; such states are recorded along episodes with random actions. In
# longer rows contacts make more of roundings than the tolerance, in MuJoCo from one machine to the next, too.
WINDOW, EPISODES, STEPS = 4, 4, 160
TOLERANCE = 1e-10  # of the largest number of its kind, at least 1
COPIES = 32  # of states with other roundings


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
