#!/usr/bin/env python3
"""The expert of inputs/tasks/push_t.yaml, and pictures of the demonstrations of it and of policies.

    push_t.py record FILE [--episodes 400] [--seed 0]      demonstrations in the layout of robomimic
    push_t.py draw PICTURE NAME=FILE ...                   where blocks begin and end, in robomimic files

The expert knows what straight pushes against each place of the outline do to the block: all of them are simulated once, in one
batch. It looks for the three pushes that bring the block to the goal in the shortest time, drives around the block to where the
first of them begins, pushes, and looks again.
"""

import argparse
import json

import h5py
import numpy as np
from maniple import Simulation, make_vec
from maniple.decks import inputs
from maniple.results import open_file, refuse

# All lengths are in m. The frame of the block is in its centre of mass.
OUTLINE = np.array([[-60, -45], [60, -45], [60, -15], [15, -15], [15, 75], [-15, 75], [-15, -15], [-60, -15]]) * 1e-3
BOXES = np.array([[[0, -30], [60, 15]], [[0, 30], [15, 45]]]) * 1e-3  # centres and half sizes: bar, stem
TO_CENTRE = np.array([0, 0.045])  # from the position that the task observes
GOAL, GOAL_ANGLE = 0.256, np.pi / 4
TABLE, RADIUS = 0.512, 0.015
CLEARANCE = 0.015  # between pusher and block where a push begins
SPACING = 0.015  # of the places against which the pushes go
LEAD, LEAD_OF_PUSH = 0.06, 0.04  # the target is this far ahead of the pusher, which moves 0.4 of it in a control step
SPEED, SPEED_OF_PUSH = 0.22, 0.15  # m/s, to compare plans
TRAVEL = np.arange(0, 0.1401, 0.002)  # of the pusher from contact on, of the pushes that are compared
SCALE = 0.055  # m per rad: what a turn weighs against a distance
RANGES = [slice(0, 5), slice(5, 15), slice(15, None)]  # of lengths of pushes, which are looked at on their own
NOISE = 0.008  # standard deviation of what disturbs the actions that are executed; those that are written lack it
DONE = 0.955  # coverage at which a plan ends; the task ends above 0.95


def turned(vectors, angle):
    c, s = np.cos(angle), np.sin(angle)
    return np.stack([c * vectors[..., 0] - s * vectors[..., 1], s * vectors[..., 0] + c * vectors[..., 1]], axis=-1)


def distance(points):
    """From the T, of points in its frame; negative inside."""
    beyond = np.abs(points[..., None, :] - BOXES[:, 0]) - BOXES[:, 1]
    return (np.linalg.norm(np.maximum(beyond, 0), axis=-1) + np.minimum(beyond.max(axis=-1), 0)).min(axis=-1)


def coverage(x, y, angle):
    """Share of the goal under a T whose centre is at x, y from the goal's, turned by an angle; as in the task's deck."""
    corners = turned(OUTLINE, np.asarray(angle)[..., None]) + np.stack([x, y], axis=-1)[..., None, :]
    area = 0
    for centre, half in BOXES:
        low, high = centre - half, centre + half
        start, end = corners, np.roll(corners, -1, axis=-2)
        width = end[..., 0] - start[..., 0]
        slope = np.divide(end[..., 1] - start[..., 1], width, out=np.zeros_like(width), where=width != 0)
        between = [np.clip(point[..., 0], low[0], high[0]) for point in (start, end)]
        heights = [start[..., 1] + (at - start[..., 0]) * slope for at in between]
        lower, upper = np.minimum(*heights), np.maximum(*heights)
        begin, stop = np.clip(lower, low[1], high[1]), np.clip(upper, low[1], high[1])
        total = ((np.minimum(upper, low[1]) - np.minimum(lower, low[1])) * low[1]
                 + (np.maximum(upper, high[1]) - np.maximum(lower, high[1])) * high[1] + (stop - begin) * (begin + stop) / 2)
        mean = np.divide(total, upper - lower, out=begin.copy(), where=upper != lower)
        area = area + ((between[0] - between[1]) * mean).sum(axis=-1)
    return area / (7 * 0.03**2)


class Pushes:
    """What straight pushes do to the block, in its frame: where they begin, and how it moves with the travel of the pusher."""

    def __init__(self):
        places, normals = [], []
        for start, end in zip(OUTLINE, np.roll(OUTLINE, -1, axis=0)):
            along = end - start
            length = np.linalg.norm(along)
            count = round(length / SPACING)
            places.append(start + along * ((np.arange(count) + 0.5) / count)[:, None])
            normals.append(np.tile([along[1], -along[0]] / length, (count, 1)))
        places, normals = np.concatenate(places), np.concatenate(normals)
        begins = places + normals * (RADIUS + CLEARANCE)
        reachable = distance(begins) > RADIUS + 0.8 * CLEARANCE
        self.begin, self.direction = begins[reachable], -normals[reachable]
        self.simulate()
        self.ring()

    def simulate(self):
        middle = np.full(2, GOAL)
        simulation = Simulation(inputs() / "models/push_t.xml", len(self.begin))
        simulation["qpos"] = np.column_stack([np.tile([*middle, 0], (len(self.begin), 1)), self.begin + middle])
        travels, moves = [np.zeros(len(self.begin))], [np.zeros((len(self.begin), 3))]
        while travels[-1].min() < TRAVEL[-1] + CLEARANCE:
            target = self.begin + middle + self.direction * (travels[-1] + LEAD_OF_PUSH)[:, None]
            simulation.step(20, ctrl=target)
            qpos = simulation["qpos"]
            travels.append(((qpos[:, 3:] - middle - self.begin) * self.direction).sum(axis=1))
            moves.append(qpos[:, :3] - [*middle, 0])
        travels, moves = np.array(travels), np.array(moves)
        self.move = np.array([[np.interp(TRAVEL + CLEARANCE, travels[:, push], moves[:, push, part]) for part in range(3)]
                              for push in range(len(self.begin))]).transpose(0, 2, 1)  # [push, travel, (x, y, angle)]
        ends = self.begin[:, None] + self.direction[:, None] * (TRAVEL + CLEARANCE)[:, None]
        self.end = turned(ends - self.move[..., :2], -self.move[..., 2])  # of the pusher, in the frame of the moved block

    def ring(self):
        """A way around the block, at the distance at which pushes begin, as points; and of each push the nearest of them."""
        angles = np.linspace(-np.pi, np.pi, 721)[:-1]
        around = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        reach = np.linspace(0.02, 0.12, 401)
        near = distance(around[:, None] * reach[:, None]) < RADIUS + CLEARANCE
        outer = around * reach[near.shape[1] - 1 - near[:, ::-1].argmax(axis=1)][:, None]
        length = np.concatenate([[0], np.cumsum(np.linalg.norm(np.roll(outer, -1, axis=0) - outer, axis=1))])
        self.length = length[-1]
        at = np.arange(96) / 96 * self.length
        closed = np.concatenate([outer, outer[:1]])
        self.way = np.stack([np.interp(at, length, closed[:, part]) for part in range(2)], axis=1)
        self.at_begin, self.to_begin = self.nearest(self.begin)
        self.at_end, self.to_end = self.nearest(self.end)

    def nearest(self, points):
        apart = np.linalg.norm(points[..., None, :] - self.way, axis=-1)
        return apart.argmin(axis=-1), apart.min(axis=-1)

    def way_to(self, at, apart):
        """Length of the way from a place on the ring, at this distance from it, to where each push begins."""
        steps = np.abs(np.asarray(at)[..., None] - self.at_begin)
        return np.asarray(apart)[..., None] + np.minimum(steps, 96 - steps) * self.length / 96 + self.to_begin


class Planner:
    """Looks for the pushes that bring a block to the goal. Poses are x and y from the goal's, on the table, and the angle."""

    goal = GOAL + turned(TO_CENTRE, GOAL_ANGLE)

    def __init__(self):
        self.pushes = pushes = Pushes()
        self.lengths = np.arange(2, len(TRAVEL), 2)  # numbers of the travels that are compared
        self.move = pushes.move[:, self.lengths]
        self.time = (TRAVEL[self.lengths] + CLEARANCE) / SPEED_OF_PUSH + 0.4
        ends = pushes.at_end[:, self.lengths], pushes.to_end[:, self.lengths]
        self.between = pushes.way_to(*ends) / SPEED  # s; [push, length, next push]

    def coverage(self, x, y, angle):
        place = turned(np.stack([x, y], axis=-1), -GOAL_ANGLE)
        return coverage(place[..., 0], place[..., 1], angle - GOAL_ANGLE)

    def to_go(self, x, y, angle):
        """A guess of the time from poses to the goal; 0 where they are there. It has to be a slow one: what a plan itself
        moves must seem worth its time, or small pushes come first for ever."""
        apart = np.sqrt(x**2 + y**2 + 2 * (1 - np.cos(angle - GOAL_ANGLE)) * SCALE**2)
        time = 1.5 + apart / 0.02
        near = apart < 0.006
        time[near] = np.where(self.coverage(x[near], y[near], angle[near]) > DONE, 0, time[near])
        return time

    def after(self, x, y, angle):
        """Poses [plan, push, length] after each push of each length, and whether they are away from the limits."""
        x, y, angle = (np.asarray(part)[:, None, None] for part in (x, y, angle))
        c, s = np.cos(angle), np.sin(angle)
        x, y = x + c * self.move[..., 0] - s * self.move[..., 1], y + s * self.move[..., 0] + c * self.move[..., 1]
        middle = self.goal - TABLE / 2
        return (x, y, angle + self.move[..., 2]), np.maximum(np.abs(x + middle[0]), np.abs(y + middle[1])) < 0.165

    def plan(self, block, angle, pusher):
        """The next push, its number and its travel, of a block in this pose, with the pusher at a place in the block's frame."""
        pushes = self.pushes
        begin, direction = turned(pushes.begin, angle) + block, turned(pushes.direction, angle)
        end = begin[:, None] + direction[:, None] * (TRAVEL[self.lengths] + CLEARANCE)[:, None]
        possible = np.abs(begin - TABLE / 2).max(axis=-1)[:, None] < TABLE / 2 - 0.005
        possible = possible & (np.abs(end - TABLE / 2).max(axis=-1) < TABLE / 2)
        spent = np.where(possible, pushes.way_to(*pushes.nearest(pusher))[:, None] / SPEED + self.time, np.inf)
        poses, inside = self.after(*([part] for part in (*(block - self.goal), angle)))
        # of all plans, [plan, push, length]; first: the push and the length with which each plan begins
        first, best, best_time = None, (0, 0), np.inf
        for more in (2, 1, 0):  # pushes after this one
            spent = np.where(inside, spent, np.inf)
            total = spent + self.to_go(*poses)
            plan, push, length = np.unravel_index(total.argmin(), total.shape)
            if total[plan, push, length] < best_time:
                best_time = total[plan, push, length]
                best = (push, length) if first is None else first[:, plan]
                if first is None and best_time == spent[0, push, length]:  # there with one push: as near as it gets
                    best = push, self.coverage(*(part[0, push] for part in poses)).argmax()
                    break
            if not more:
                break
            # the plans that go on: those with the best length of each push, at first of each range of lengths
            ranges, beam = (RANGES, 200) if first is None else ([slice(0, None)], 60)
            lengths = np.stack([part.start + total[..., part].argmin(axis=-1) for part in ranges], axis=-1)
            plans = np.stack([*(part.ravel() for part in np.indices(lengths.shape)[:2]), lengths.ravel()])
            time = total[tuple(plans)]
            open_ones = np.flatnonzero(np.isfinite(time) & (time > spent[tuple(plans)]))
            plans = plans[:, open_ones[np.argsort(time[open_ones])[:beam]]]
            if not plans.size:
                break
            first = plans[1:] if first is None else first[:, plans[0]]
            spent = spent[tuple(plans)][:, None, None] + self.between[plans[1], plans[2]][:, :, None] + self.time
            poses, inside = self.after(*(part[tuple(plans)] for part in poses))
        return best[0], TRAVEL[self.lengths[best[1]]]


class Expert:
    """Drives one pusher: around the block to where the next push begins, and along that push."""

    def __init__(self, planner):
        self.planner, self.pushes = planner, planner.pushes
        self.push, self.pushing = None, False

    def act(self, pusher, block, angle):
        """The target of the pusher, for these places on the table; that of the block is its centre of mass."""
        seen = turned(pusher - block, -angle)
        if self.pushing and (pusher - self.begin) @ self.direction > self.travel - 0.002:
            self.push, self.pushing = None, False
        if self.push is None:
            self.push, travel = self.planner.plan(block, angle, seen)
            self.travel = travel + CLEARANCE
        away, direction = self.pushes.begin[self.push] - seen, self.pushes.direction[self.push]
        before = away @ direction
        if not self.pushing and -0.02 < before < 0.012 and np.linalg.norm(away - before * direction) < 0.008:
            self.pushing = True
            self.begin = turned(self.pushes.begin[self.push], angle) + block
            self.direction = turned(direction, angle)
        if self.pushing:
            travel = (pusher - self.begin) @ self.direction
            ahead = self.begin + self.direction * min(travel + LEAD_OF_PUSH, self.travel + 0.01) - pusher
        else:
            ahead = self.next_on_the_way(seen, block, angle) - seen
            if np.array_equal(ahead, away) and before > 0:  # on towards the push, so that it does not stop there
                ahead = ahead + direction * max(0, LEAD_OF_PUSH - np.linalg.norm(away))
            ahead = turned(ahead, angle)
        lead = LEAD_OF_PUSH if self.pushing else LEAD
        return np.clip(pusher + ahead * min(1, lead / max(np.linalg.norm(ahead), 1e-9)), 0, TABLE)

    def next_on_the_way(self, seen, block, angle):
        """The farthest point in sight of the way to the push, in the frame of the block."""
        goal = self.pushes.begin[self.push]
        if self.free(seen, goal[None])[0]:
            return goal
        here, there = self.pushes.nearest(seen)[0], self.pushes.at_begin[self.push]
        ways = []
        for step in (1, -1):
            numbers = (here + step * np.arange((step * (there - here)) % 96 + 1)) % 96
            points = self.pushes.way[numbers]
            outside = np.abs(turned(points, angle) + block - TABLE / 2).max(axis=1) > TABLE / 2
            ways.append((outside.any(), len(points), points))
        points = min(ways, key=lambda way: way[:2])[2]
        visible = np.flatnonzero(self.free(seen, points))
        return points[visible[-1]] if len(visible) else points[min(1, len(points) - 1)]

    def free(self, start, ends):
        """Whether the pusher may go straight to these places."""
        length = np.linalg.norm(ends - start, axis=1)
        share = np.linspace(0, 1, 40)
        room = distance(start + (ends - start)[:, None] * share[:, None])
        needed = np.minimum(RADIUS + 0.6 * CLEARANCE, room[:, :1] - 5e-4 + 0.5 * length[:, None] * share)
        return (room >= needed).all(axis=1)


def record(path, episodes, seed, noise=NOISE):
    """One episode each of many environments, side by side. Those that reach the goal are written."""
    envs = make_vec("push_t", num_envs=episodes, seed=seed, autoreset_mode="SameStep")
    planner = Planner()
    experts = [Expert(planner) for _ in range(episodes)]
    samples = [[] for _ in range(episodes)]
    succeeded, running = np.zeros(episodes, bool), np.ones(episodes, bool)
    rng = np.random.default_rng(seed)
    observations, _ = envs.reset()
    while running.any():
        actions = np.zeros((episodes, 2), np.float32)
        for env in np.flatnonzero(running):
            seen = observations[env].astype(float)
            angle = np.arctan2(seen[5], seen[4])
            target = experts[env].act(seen[:2], seen[2:4] + turned(TO_CENTRE, angle), angle)
            actions[env] = target / (TABLE / 2) - 1
        disturbed = np.clip(actions + rng.normal(scale=noise / (TABLE / 2), size=actions.shape), -1, 1).astype(np.float32)
        following, rewards, terminated, truncated, infos = envs.step(disturbed)
        over = terminated | truncated
        for env in np.flatnonzero(running):
            after = infos["final_obs"][env] if over[env] else following[env]
            samples[env].append((observations[env], after, actions[env], rewards[env], terminated[env]))
        succeeded |= running & terminated
        running &= ~over
        observations = following
    write(path, [samples[env] for env in np.flatnonzero(succeeded)])
    steps = [len(samples[env]) for env in np.flatnonzero(succeeded)]
    print(f"{path}: {len(steps)} of {episodes} episodes reached the goal, after {np.mean(steps):.0f} control steps; "
          "the others are left out")


def write(path, demonstrations):
    parts = {"pusher": slice(0, 2), "block": slice(2, 4), "block_turn": slice(4, 6), "pusher_at_block": slice(6, 8)}
    with h5py.File(path, "w") as file:
        for number, samples in enumerate(demonstrations):
            before, after, actions, rewards, done = (np.array(part) for part in zip(*samples))
            group = file.create_group(f"data/demo_{number}")
            group.attrs["num_samples"] = len(actions)
            for name, columns in parts.items():
                group[f"obs/{name}"], group[f"next_obs/{name}"] = before[:, columns], after[:, columns]
            group["actions"], group["rewards"], group["dones"] = actions, rewards.astype(float), done.astype(int)
        file["data"].attrs["total"] = sum(map(len, demonstrations))
        file["data"].attrs["env_args"] = json.dumps({"env_name": "Push-T", "type": 2, "env_kwargs": {}})
        file["mask/success"] = np.array([f"demo_{number}" for number in range(len(demonstrations))], "S")


def draw(path, files):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(files), figsize=(2.6 * len(files), 2.8), squeeze=False)
    for axis, (name, file) in zip(axes[0], files):
        with open_file(file) as opened:
            demos, scores = opened["data"], []
            for demo in demos.values():
                scores.append(demo["rewards"][:].max())
                first, last = (np.concatenate([demo[f"{obs}/{part}"][at] for part in ("block", "block_turn")])
                               for obs, at in (("obs", 0), ("next_obs", -1)))
                for pose, colour in ((first, "0.8"), (last, "tab:blue" if scores[-1] == 1 else "tab:red")):
                    corners = turned(OUTLINE + TO_CENTRE, np.arctan2(pose[3], pose[2])) + pose[:2]
                    order = 1 if colour == "0.8" else 2
                    axis.add_patch(pyplot.Polygon(corners, fill=False, color=colour, linewidth=0.5, zorder=order))
        axis.add_patch(pyplot.Polygon(turned(OUTLINE + TO_CENTRE, GOAL_ANGLE) + GOAL, color="lightgreen", zorder=0))
        axis.set_title(f"{name}: mean score {np.mean(scores):.2f}", fontsize=9)
        axis.set_aspect("equal")
        axis.set_xlim(0, TABLE)
        axis.set_ylim(0, TABLE)
        axis.tick_params(labelsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=100, metadata={"Software": None})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    one = verbs.add_parser("record")
    one.add_argument("file")
    one.add_argument("--episodes", type=int, default=400)
    one.add_argument("--seed", type=int, default=0)
    two = verbs.add_parser("draw")
    two.add_argument("picture")
    two.add_argument("runs", nargs="+", metavar="NAME=FILE")
    given = parser.parse_args()
    try:
        if given.verb == "record":
            record(given.file, given.episodes, given.seed)
        else:
            draw(given.picture, [run.split("=", 1) for run in given.runs])
    except OSError as error:
        refuse(error)
