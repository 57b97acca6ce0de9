"""Push-T (inputs/tasks/push_t.yaml): its coverage against polygons that are clipped here, its block and its pusher, the
scripted pusher of tools/push_t.py, and at night a diffusion policy that learns from it."""
# ctest: PROCESSORS 1 COST 30

import subprocess
import sys

import h5py
import numpy as np
import pytest

TASK, DECK = "inputs/tasks/push_t.yaml", "inputs/imitate/push_t_diffusion.yaml"
BAR = np.array([[-60, 0], [60, 0], [60, 30], [-60, 30]]) * 1e-3  # m, in the frame of the goal pose
STEM = np.array([[-15, 30], [15, 30], [15, 120], [-15, 120]]) * 1e-3
GOAL = np.array([0.256, 0.256, np.pi / 4])


def placed(corners, pose):
    x, y, angle = pose
    return corners @ np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]) + [x, y]


def clipped(polygon, by):
    """What of a convex polygon is inside another one, both counter-clockwise (Sutherland and Hodgman 1974)."""
    for start, end in zip(by, np.roll(by, -1, axis=0)):
        heights = [(end[0] - start[0]) * (y - start[1]) - (end[1] - start[1]) * (x - start[0]) for x, y in polygon]
        kept = []
        for number, (point, height) in enumerate(zip(polygon, heights)):
            before, height_before = polygon[number - 1], heights[number - 1]
            if (height_before >= 0) != (height >= 0):
                kept.append(before + (point - before) * height_before / (height_before - height))
            if height >= 0:
                kept.append(point)
        polygon = kept
    return polygon


def area(polygon):
    return sum(a[0] * b[1] - a[1] * b[0] for a, b in zip(polygon, [*polygon[1:], *polygon[:1]])) / 2


def coverage(pose):
    goal, block = ([placed(part, where) for part in (BAR, STEM)] for where in (GOAL, pose))
    return sum(area(clipped(a, b)) for a in block for b in goal) / sum(map(area, goal))


def poses(rng):
    """Poses of the middle of the bar's far side: anywhere, near the goal at many scales, and with edges on edges."""
    anywhere = np.concatenate([rng.uniform(0.05, 0.46, (1500, 2)), rng.uniform(-7, 7, (1500, 1))], axis=1)
    overlapping = GOAL + rng.normal(scale=[0.04, 0.04, 1], size=(1500, 3))
    near = GOAL + rng.normal(size=(1500, 3)) * [0.03, 0.03, 1] * 10.0 ** rng.uniform(-8, 0, (1500, 1))
    turned, along = GOAL[2] + rng.integers(-4, 5, 500) * np.pi / 2, rng.integers(-4, 5, (500, 2)) * 0.015
    turned += rng.choice([0, 0, 1e-7, -1e-5, 1e-3], 500)
    on_edges = np.column_stack([placed(along, GOAL), turned])
    return np.concatenate([[GOAL], anywhere, overlapping, near, on_edges])


def qpos_at(pose, pusher=(0.5, 0.5)):
    """The state of the model, whose block has its joints in the centre of mass, 45 mm from that point."""
    pose = np.atleast_2d(pose)
    across = 0.045 * np.stack([-np.sin(pose[:, 2]), np.cos(pose[:, 2])], axis=1)
    return np.column_stack([pose[:, :2] + across, pose[:, 2], np.broadcast_to(pusher, (len(pose), 2))])


@pytest.mark.parametrize("precision, error", [("double", 1e-12), ("single", 1e-5)])
def test_coverage_is_the_area_of_clipped_polygons(maniple, tmp_path, precision, error):
    given = poses(np.random.default_rng(0))
    with h5py.File(tmp_path / "starts.h5", "w") as file:
        file["qpos"], file["qvel"] = qpos_at(given), np.zeros((len(given), 5))
    maniple("rollout", TASK, "task.observations=[{expression: coverage}]", f"simulation.precision={precision}",
            f"batch.num_envs={len(given)}", "simulation.steps=1", "initial_state.source=file",
            f"initial_state.file={tmp_path / 'starts.h5'}", "output.trajectory.every=1", "output.trajectory.fields=[observation]",
            f"output.directory={tmp_path}")
    with h5py.File(tmp_path / "results.h5") as file:
        found = file["trajectory/observation"][:, 0, 0]
    expected = np.array([coverage(pose) for pose in given])
    assert expected[0] == pytest.approx(1) and (expected == 0).sum() > 500 and ((0.3 < expected) & (expected < 0.95)).sum() > 500
    assert np.abs(found - expected).max() < error, given[np.abs(found - expected).argmax()]
