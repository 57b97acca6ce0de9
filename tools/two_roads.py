#!/usr/bin/env python3
"""The expert of inputs/tasks/two_roads.yaml, and pictures of the paths of its demonstrations and policies.

    two_roads.py expert FILE [--episodes 200] [--seed 0]    HDF5 with starts and actions, for rollout
    two_roads.py draw PICTURE NAME=FILE ...                 paths of the demonstrations in robomimic files

The expert drives straight on, and 0.55 m before the post it turns to one side, by the toss of a coin.
"""

import argparse

import h5py
import numpy as np
from maniple.results import open_file, refuse

TIMESTEP, DECIMATION, STEPS = 0.01, 5, 100  # as in the deck
GAIN = 20.0  # of the actuators over the robot's mass, 1/s
TURN, ASIDE, BACK = -0.55, 0.45, 0.35  # m: where it leaves the middle, how far, where it comes back


def expert(position, side, rng):
    """Velocities commanded by the expert at [n, 2] positions."""
    target = np.where((position[:, 0] > TURN) & (position[:, 0] < BACK), side * ASIDE, 0.0)
    sideways = np.clip((target - position[:, 1]) / 0.1, -1, 1)
    forward = np.where(np.abs(sideways) < 0.9, 1.0, 0.5)
    noise = rng.normal(scale=0.03, size=position.shape)
    return np.clip(np.stack([forward, sideways], axis=1) + noise, -1, 1)


def record(path, episodes, seed):
    """Its actions from given starts. The robot follows as MuJoCo's Euler steps let it: u - v decays, no contacts."""
    rng = np.random.default_rng(seed)
    start = np.stack([rng.uniform(-1.1, -0.9, episodes), rng.uniform(-0.02, 0.02, episodes)], axis=1)
    side = rng.choice([-1.0, 1.0], episodes)
    position, velocity = start.copy(), np.zeros_like(start)
    actions = np.zeros((episodes, STEPS, 2))
    for step in range(STEPS):
        actions[:, step] = expert(position, side, rng)
        for _ in range(DECIMATION):
            velocity += TIMESTEP * GAIN * (actions[:, step] - velocity)
            position += TIMESTEP * velocity
    with h5py.File(path, "w") as file:
        file["qpos"], file["qvel"], file["action"] = start, np.zeros_like(start), actions


def draw(path, files):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(files), figsize=(3.2 * len(files), 2.4), sharey=True, squeeze=False)
    for axis, (name, file) in zip(axes[0], files):
        with open_file(file) as opened:
            demos = opened["data"]
            good = {demo.decode() for demo in opened["mask/success"]} if "mask/success" in opened else set()
            for number, demo in enumerate(demos):
                way = np.concatenate([demos[demo]["obs/position"][:], demos[demo]["next_obs/position"][-1:]])
                axis.plot(*way.T, color="tab:blue" if demo in good else "tab:red", linewidth=0.5, alpha=0.6)
            axis.set_title(f"{name}: {100 * len(good) / len(demos):.0f} % pass", fontsize=9)
        axis.add_patch(pyplot.Circle((0, 0), 0.3, color="0.4"))
        axis.set_aspect("equal")
        axis.set_xlim(-1.2, 1.0)
        axis.set_ylim(-0.75, 0.75)
        axis.tick_params(labelsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=100, metadata={"Software": None})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    one = verbs.add_parser("expert")
    one.add_argument("file")
    one.add_argument("--episodes", type=int, default=200)
    one.add_argument("--seed", type=int, default=0)
    two = verbs.add_parser("draw")
    two.add_argument("picture")
    two.add_argument("runs", nargs="+", metavar="NAME=FILE")
    given = parser.parse_args()
    try:
        if given.verb == "expert":
            record(given.file, given.episodes, given.seed)
        else:
            draw(given.picture, [run.split("=", 1) for run in given.runs])
    except OSError as error:
        refuse(error)
