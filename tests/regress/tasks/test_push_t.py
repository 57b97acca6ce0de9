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
            f"initial_state.file={tmp_path / 'starts.h5'}", "output.trajectory.every=1",
            "output.trajectory.fields=[observation]", f"output.directory={tmp_path}")
    with h5py.File(tmp_path / "results.h5") as file:
        found = file["trajectory/observation"][:, 0, 0]
    expected = np.array([coverage(pose) for pose in given])
    assert expected[0] == pytest.approx(1) and (expected == 0).sum() > 500 and ((0.3 < expected) & (expected < 0.95)).sum() > 500
    assert np.abs(found - expected).max() < error, given[np.abs(found - expected).argmax()]


def test_reward_score_and_end(maniple, tmp_path):
    """Nothing touches the block in the first step, so that it stays where it is, and the coverage follows from its pose."""
    rng = np.random.default_rng(1)
    given = np.concatenate([[GOAL], GOAL + rng.normal(size=(255, 3)) * [0.003, 0.003, 0.03] * rng.uniform(0, 3, (255, 1))])
    with h5py.File(tmp_path / "starts.h5", "w") as file:
        file["qpos"], file["qvel"] = qpos_at(given), np.zeros((len(given), 5))
    maniple("rollout", TASK, "simulation.precision=double", f"batch.num_envs={len(given)}", "simulation.steps=1",
            "initial_state.source=file", f"initial_state.file={tmp_path / 'starts.h5'}", "output.trajectory.every=1",
            "output.trajectory.fields=[qpos,reward,terminated,episode_metric]", f"output.directory={tmp_path}")
    with h5py.File(tmp_path / "results.h5") as file:
        qpos, reward, terminated, metrics = (file[f"trajectory/{name}"][:, 1]
                                             for name in ("qpos", "reward", "terminated", "episode_metric"))
    covered = np.array([coverage(pose) for pose in given])
    assert 20 < (covered > 0.95).sum() < 230
    assert np.abs(reward.ravel() - np.clip(covered / 0.95, 0, 1)).max() < 1e-12
    assert (terminated.ravel() == (covered > 0.95)).all()
    assert np.array_equal(qpos[covered <= 0.95, :3], qpos_at(given)[covered <= 0.95, :3])
    assert np.abs(metrics[:, -1] - reward.ravel()).max() < 1e-12  # success, time_out, score


def test_pusher_and_block(maniple):
    """The pusher follows the law of the original, whatever it pushes; the block moves with it and stops at once."""
    from maniple import Simulation

    simulation = Simulation(maniple.root / "inputs/models/push_t.xml", 2)
    push = GOAL * [1, 1, 0]  # upright, the bar's far side downwards
    simulation["qpos"] = qpos_at(push, (0.256, 0.2)) + [[0, 0, 0, 0, 0], [0, 0.1, 0, 0, 0]]  # 41 mm above the pusher, and 141 mm
    position, velocity, way = np.array([0.256, 0.2]), np.zeros(2), []
    for _ in range(10):
        simulation.step(20, ctrl=[0.256, 0.28])
        for _ in range(20):
            velocity = (velocity + 0.005 * 100 * ([0.256, 0.28] - position)) / (1 + 0.005 * 20)  # damping is implicit
            position += 0.005 * velocity
        way.append(simulation["qpos"])
        assert np.abs(way[-1][:, 3:] - position).max() < 0.002 and np.abs(way[-1][1, 3:] - position).max() < 1e-4
    way, still = np.array(way), simulation["qpos"]
    assert np.array_equal(way[:, 1, :3], np.tile(qpos_at(push)[:, :3] + [0, 0.1, 0], (10, 1)))  # nothing moves the other block
    assert abs(still[0, 1] - 0.045 - (still[0, 4] + 0.015)) < 0.001 and abs(still[0, 2]) < 1e-6
    simulation.step(100, ctrl=[0.256, 0.2])
    assert np.abs(simulation["qpos"] - still)[0, :3].max() < 5e-4
    # pushed off the middle it turns
    simulation["qpos"] = qpos_at(push, (0.216, 0.235))
    simulation["qvel"] = np.zeros((2, 5))
    simulation.step(100, ctrl=[0.216, 0.3])
    assert simulation["qpos"][0, 2] < -0.3


def test_episodes_begin_apart_and_within_limits():
    import push_t
    from maniple import make_vec

    pusher, block, turn, at_block = np.split(make_vec("push_t", 512, seed=3).reset()[0].astype(float), 4, axis=1)
    angle = np.arctan2(turn[:, 1], turn[:, 0])
    centre = block + push_t.turned(push_t.TO_CENTRE, angle)
    assert 0.0799 < centre.min() < 0.09 and 0.42 < centre.max() < 0.4321
    assert 0.05 <= pusher.min() < 0.06 and 0.44 < pusher.max() < 0.45
    seen = push_t.turned(pusher - centre, -angle)
    assert np.abs(seen - at_block).max() < 1e-6
    apart = push_t.distance(seen[:, None])[:, 0] - push_t.RADIUS
    assert 0 <= apart.min() < 0.01 and np.abs(np.mean(angle)) < 0.3 and angle.min() < -3 and angle.max() > 3


def record(root, file, *options):
    return subprocess.run([sys.executable, root / "tools/push_t.py", "record", file, *options], check=True, capture_output=True,
                          text=True).stdout


@pytest.fixture(scope="module")
def demonstrations(maniple, tmp_path_factory):
    file = tmp_path_factory.mktemp("pushes") / "push_t.h5"
    return file, record(maniple.root, file, "--episodes", "12", "--seed", "1")


def test_the_expert_reaches_the_goal(maniple, demonstrations, tmp_path):
    path, said = demonstrations
    with h5py.File(path) as file:
        names = "actions", "rewards", "dones", "obs/pusher", "obs/block", "next_obs/block", "next_obs/block_turn"
        demos = [{name: demo[name][:] for name in names} for demo in file["data"].values()]
    assert len(demos) >= 11 and f"{len(demos)} of 12 episodes reached the goal" in said
    for demo in demos:
        assert 10 < len(demo["actions"]) < 300 and np.abs(demo["actions"]).max() <= 1
        assert demo["dones"][-1] == 1 and demo["dones"].sum() == 1 and demo["rewards"][-1] == 1 > demo["rewards"][:-1].max()
        (x, y), (cosine, sine) = demo["next_obs/block"][-1], demo["next_obs/block_turn"][-1]
        assert coverage([x, y, np.arctan2(sine, cosine)]) > 0.95
        assert np.array_equal(demo["obs/block"][1:], demo["next_obs/block"][:-1])
        # targets are near the pusher, so that actions tell a direction at a bounded speed
        assert np.linalg.norm((demo["actions"] + 1) * 0.256 - demo["obs/pusher"], axis=1).max() < 0.061
    picture = tmp_path / "push_t.png"
    subprocess.run([sys.executable, maniple.root / "tools/push_t.py", "draw", picture, f"expert={path}"], check=True)
    assert picture.read_bytes().startswith(b"\x89PNG")


def score(maniple, run, *options):
    text = maniple("evaluate", run, *options).stdout
    with h5py.File(run / "evaluation.h5") as file:
        scores = file["evaluation/metric_score"][()]
    return scores, text


def test_a_policy_learns_from_the_demonstrations(maniple, demonstrations, tmp_path):
    maniple("imitate", DECK, f"data.file={demonstrations[0]}", "learning.steps=20", "learning.report_every=10",
            "evaluation.every=0", f"output.directory={tmp_path}", ranks=2)
    with h5py.File(tmp_path / "results.h5") as file:
        losses = file["metrics/loss"][:]
    assert losses[-1] < losses[0]
    scores, text = score(maniple, tmp_path, "batch.num_envs=64", "task.episode_steps=40", "output.dataset=robomimic")
    with h5py.File(tmp_path / "demonstrations.hdf5") as file:
        rewards = [file[f"data/demo_{env}/rewards"][:] for env in range(64)]
    # the score of an episode is the largest of its rewards
    assert np.abs(scores - [of_one.max() for of_one in rewards]).max() < 1e-6, text
    assert 0 <= scores.min() and scores.max() <= 1 and np.abs(scores - [of_one[-1] for of_one in rewards]).max() > 0.01


@pytest.mark.nightly
def test_a_diffusion_policy_reaches_the_goal(maniple, tmp_path):
    record(maniple.root, tmp_path / "push_t.h5")
    maniple("imitate", DECK, f"data.file={tmp_path / 'push_t.h5'}", f"output.directory={tmp_path / 'run'}", ranks=2,
            timeout=3000)
    scores, text = score(maniple, tmp_path / "run", "evaluation.episodes=100", "batch.seed=7")
    assert scores.mean() > 0.9, text
