"""Terrain from a deck: heights against Isaac Lab's generators, written again here in numpy; the cell of each
environment; spawns on the ground; rays onto it; levels by the distance that robots walk; the same bits on any number of
ranks and over a restart; and refusals."""
# ctest: PROCESSORS 2 COST 60

import h5py
import mujoco
import numpy as np
import pytest
from maniple.results import Run

MODEL = """
<mujoco>
  <option timestep="0.01" integrator="implicitfast"/>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 .1" pos="0 0 .5" friction=".7" condim="1" conaffinity="1"/>
    <body name="base" pos="0 0 1">
      <freejoint name="root"/>
      <geom name="hull" type="box" size=".3 .2 .1" mass="2" condim="1"/>
      <body name="arm" pos="0 0 .1">
        <joint name="elbow" axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 0 0 .2" size=".03" mass=".1" contype="0" conaffinity="0"/>
      </body>
    </body>
  </worldbody>
  <actuator><motor joint="elbow" ctrlrange="-1 1"/></actuator>
</mujoco>
"""
STAIRS = "{type: pyramid_stairs, step_height_range: [0.05, 0.23], step_width: 0.3, platform_width: 3, border_width: 1}"
DECK = """
model: {{file: {model}}}
terrain:
  size: {size}
  num_rows: {rows}
  num_cols: {columns}
  sub_terrains: {sub_terrains}
batch: {{num_envs: {num_envs}}}
simulation: {{precision: double, decimation: 2}}
task:
  name: terrain
  episode_steps: {episode}
  reward_times_dt: false
  commands:
    twist: {{expression: "[1, 0, 0]"}}
  actions:
    - {{term: actuator_control, actuators: [".*"]}}
  observations:
    - {{expression: "[terrain_level, terrain_type, terrain_origin, xpos[base]]"}}
    - {{term: root_pos_w}}
    - {{term: height_scan, length: 1.6, width: 1, resolution: 0.1, max_distance: 5}}
  rewards:
    ahead: {{expression: "xpos[base][0] - terrain_origin[0]", weight: 1}}
  terminations:
    time_out: {{term: time_out}}
    away: {{term: terrain_out_of_bounds, distance_buffer: 0.3, time_out: true}}
  resets:
    - {{term: reset_root_state_uniform, x: [-0.5, 0.5], y: [-0.5, 0.5], yaw: [-3.14, 3.14], vx: [{vx}]}}
  curricula:
    levels: {{term: terrain_levels_vel}}
learning: {{iterations: 4, horizon: 8, checkpoint_every: 2}}
policy: {{hidden: [16]}}
"""


@pytest.fixture
def deck(tmp_path):
    """Writes the deck and its model; returns the deck's path."""

    def write(sub_terrains=f"{{stairs: {STAIRS}, ground: {{type: flat}}}}", rows=4, columns=4, size="[8, 8]", num_envs=24,
              episode=40, vx="-1, 1", model=MODEL):
        (tmp_path / "robot.xml").write_text(model)
        path = tmp_path / "task.yaml"
        path.write_text(DECK.format(model=tmp_path / "robot.xml", size=size, rows=rows, columns=columns, vx=vx,
                                    sub_terrains=sub_terrains, num_envs=num_envs, episode=episode))
        return path

    return write


def model_of(maniple, deck, directory, *settings):
    """The model of a run, as libmujoco has it."""
    maniple("rollout", deck, "simulation.steps=0", f"output.directory={directory}", "output.overwrite=true", *settings)
    with Run(directory / "results.h5") as run:
        return run.model


def heights_of(model):
    """Heights above the plane that the terrain replaced, [along x][along y]."""
    rows, columns = model.hfield_nrow[0], model.hfield_ncol[0]
    geom = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_GEOM, "floor")
    assert model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_HFIELD
    shares = model.hfield_data[:rows * columns].reshape(rows, columns).T.astype(float)
    return shares * model.hfield_size[0, 2] + model.geom_pos[geom, 2] - 0.5


def cells_of(heights, rows, columns):
    """Heights of each cell with its edges, [row][column]."""
    nx, ny = (heights.shape[0] - 1) // rows, (heights.shape[1] - 1) // columns
    return [[heights[r * nx:(r + 1) * nx + 1, c * ny:(c + 1) * ny + 1] for c in range(columns)] for r in range(rows)]


# ---- Isaac Lab's generators, by what their documentation and code say, for 8 x 8 m at 0.1 m and 0.005 m ----

def bordered(inner, border):
    """What height_field_to_mesh() does with the points within the border."""
    whole = np.zeros((81, 81))
    b = int(border / 0.1) + 1
    whole[b:-b, b:-b] = np.rint(inner) * 0.005
    return whole


def inner_points(border):
    return 81 - 2 * (int(border / 0.1) + 1)


def sloped(difficulty, low, high, platform, border, sign):
    n = inner_points(border)
    top = int(sign * (low + difficulty * (high - low)) * n * 0.1 / 2 / 0.005)
    center = n // 2
    ramp = (center - np.abs(center - np.arange(n))) / center
    inner = top * ramp[:, None] * ramp[None, :]
    corner = center - int(platform / 0.1 / 2)
    return bordered(np.clip(inner, min(0, inner[corner, corner]), max(0, inner[corner, corner])), border)


def waves(difficulty, low, high, count, border):
    n = inner_points(border)
    amplitude = int(0.5 * (low + difficulty * (high - low)) / 0.005)
    number = 2 * np.pi / (n / count)
    i = np.arange(n)
    return bordered(amplitude * (np.cos(i * number)[None, :] + np.sin(i * number)[:, None]), border)


def stairs(difficulty, low, high, width, platform, border, sign):
    """The tops of the boxes of mesh_terrains.pyramid_stairs_terrain(), those that come last on top."""
    step = low + difficulty * (high - low)
    steps = int((8 - 2 * border - platform) / (2 * width) + 1e-9) + 1
    whole = np.zeros((81, 81))
    x = np.abs(np.arange(81) * 0.1 - 4)
    away = np.maximum(x[:, None], x[None, :])  # from the middle
    for k in range(steps + 1):
        whole[away < 4 - border - k * width + 1e-9] = sign * (k + 1) * step
    return whole


DETERMINISTIC = {
    "slope": ("{type: pyramid_sloped, slope_range: [0, 0.4], platform_width: 2, border_width: 0.25}",
              lambda d: sloped(d, 0, 0.4, 2, 0.25, 1)),
    "slope_inverted": ("{type: inverted_pyramid_sloped, slope_range: [0.1, 0.7], platform_width: 1.5}",
                       lambda d: sloped(d, 0.1, 0.7, 1.5, 0, -1)),
    "wave": ("{type: wave, amplitude_range: [0.05, 0.2], num_waves: 4, border_width: 0.25}",
             lambda d: waves(d, 0.05, 0.2, 4, 0.25)),
    "stairs": (STAIRS, lambda d: stairs(d, 0.05, 0.23, 0.3, 3, 1, 1)),
    "stairs_inverted": (STAIRS.replace("pyramid", "inverted_pyramid"), lambda d: stairs(d, 0.05, 0.23, 0.3, 3, 1, -1)),
    "flat": ("{type: flat}", lambda d: np.zeros((81, 81))),
}


@pytest.mark.parametrize("name", DETERMINISTIC)
def test_heights_are_isaac_labs(maniple, deck, tmp_path, name):
    text, expected = DETERMINISTIC[name]
    model = model_of(maniple, deck(f"{{{name}: {text}}}", rows=1, columns=2), tmp_path / "run",
                     "terrain.difficulty_range=[0.5, 0.5]", "terrain.border_width=0.4")
    heights = heights_of(model)
    assert heights.shape == (81 + 8, 161 + 8)
    np.testing.assert_allclose(model.hfield_size[0, :2], [4.4, 8.4])
    border = heights.copy()
    border[4:-4, 4:-4] = 0
    np.testing.assert_allclose(border, 0, atol=1e-6)
    for cell in cells_of(heights[4:-4, 4:-4], 1, 2)[0]:
        np.testing.assert_allclose(cell, expected(0.5), atol=2e-6)


def test_random_heights(maniple, deck, tmp_path):
    kinds = ("{noise: {type: random_uniform, noise_range: [0.02, 0.10], noise_step: 0.02, border_width: 0.25}, "
             "smooth: {type: random_uniform, noise_range: [-0.1, 0.1], noise_step: 0.1, downsampled_scale: 0.4}, "
             "boxes: {type: random_grid, grid_width: 0.45, grid_height_range: [0.05, 0.2], platform_width: 2}, "
             "stones: {type: stepping_stones, stone_height_max: 0.05, stone_width_range: [0.3, 0.8], "
             "stone_distance_range: [0.1, 0.4], holes_depth: -2, platform_width: 1.5}, "
             "blocks: {type: discrete_obstacles, obstacle_width_range: [0.4, 1.2], obstacle_height_range: [0.1, 0.2], "
             "num_obstacles: 30, platform_width: 2}}")
    path = deck(kinds, rows=2, columns=5)
    heights = heights_of(model_of(maniple, path, tmp_path / "run", "terrain.difficulty_range=[0.5, 0.5]"))
    for row in cells_of(heights, 2, 5):
        noise, smooth, boxes, stones, blocks = row
        for cell in row:
            np.testing.assert_allclose([cell[0], cell[-1], cell[:, 0], cell[:, -1]], 0, atol=1e-6)

        drawn = np.unique(np.round(noise[3:-3, 3:-3], 5))
        np.testing.assert_allclose(drawn, [0.02, 0.04, 0.06, 0.08, 0.1], atol=1e-5)
        np.testing.assert_allclose(noise[:3], 0, atol=1e-6)

        assert -0.1 - 1e-6 <= smooth.min() < -0.05 and 0.05 < smooth.max() <= 0.1 + 1e-6
        assert np.abs(np.diff(smooth[1:-1, 1:-1], axis=0)).max() <= 0.2 / 4 + 0.01  # over 0.4 m

        np.testing.assert_allclose(boxes[30:51, 30:51], 0.125, atol=1e-6)  # the platform, at the difficulty's height
        assert np.abs(boxes).max() <= 0.125 + 1e-6 and len(np.unique(np.round(boxes, 5))) > 100
        # (8 - 17 x 0.45) / 2 = 0.175 m of border, then a square of 0.45 m
        square = boxes[2:6, 2:6]
        np.testing.assert_allclose(square, square[0, 0], atol=1e-6)
        assert abs(boxes[7, 3] - square[0, 0]) > 1e-4

        inner = stones[1:-1, 1:-1]
        hole = inner < -1
        np.testing.assert_allclose(inner[hole], -2, atol=1e-5)
        assert np.abs(inner[~hole]).max() <= 0.05 + 1e-5 and 0.1 < hole.mean() < 0.8
        np.testing.assert_allclose(stones[33:47, 33:47], 0, atol=1e-6)

        found = set(np.unique(np.round(blocks, 4)))
        assert found <= {-0.15, -0.075, 0.0, 0.075, 0.15} and len(found) == 5
        np.testing.assert_allclose(blocks[31:49, 31:49], 0, atol=1e-6)
    again = heights_of(model_of(maniple, path, tmp_path / "run", "terrain.difficulty_range=[0.5, 0.5]", "batch.num_envs=3"))
    np.testing.assert_array_equal(again, heights)
    other = heights_of(model_of(maniple, path, tmp_path / "run", "terrain.difficulty_range=[0.5, 0.5]", "batch.seed=7"))
    assert np.abs(other - heights).max() > 0.05
    seeded = heights_of(model_of(maniple, path, tmp_path / "run", "terrain.difficulty_range=[0.5, 0.5]", "batch.seed=7",
                                 "terrain.seed=42"))
    np.testing.assert_array_equal(seeded, heights)  # 42 is the default of batch.seed


def test_columns_by_proportion_and_rows_by_difficulty(maniple, deck, tmp_path):
    kinds = (f"{{a: {STAIRS.replace('type', 'proportion: 0.2, type')}, b: {{proportion: 0.5, type: flat}}, "
             "c: {proportion: 0.3, type: pyramid_sloped, slope_range: [0, 0.4]}}")
    heights = heights_of(model_of(maniple, deck(kinds, rows=5, columns=10), tmp_path / "run"))
    cells = cells_of(heights, 5, 10)
    types = [int(np.min(np.where(i / 10 + 0.001 < np.cumsum([0.2, 0.5, 0.3]))[0])) for i in range(10)]
    assert types == [0, 0, 1, 1, 1, 1, 1, 2, 2, 2]
    for row in range(5):
        for column in range(10):
            cell = cells[row][column]
            if types[column] == 1:
                np.testing.assert_allclose(cell, 0, atol=1e-6)
            elif types[column] == 0:
                difficulty = (cell[11, 40] - 0.05) / 0.18
                assert row / 5 <= difficulty + 1e-5 and difficulty - 1e-5 <= (row + 1) / 5
                np.testing.assert_allclose(cell, stairs(difficulty, 0.05, 0.23, 0.3, 3, 1, 1), atol=1e-5)
    assert cells[4][7].max() > 3 * cells[0][7].max()
    assert abs(cells[2][0].max() - cells[2][1].max()) > 1e-3  # a little of chance
    drawn = cells_of(heights_of(model_of(maniple, deck(kinds, rows=5, columns=10), tmp_path / "run",
                                         "terrain.curriculum=false")), 5, 10)
    flat = np.array([[np.abs(cell).max() < 1e-6 for cell in row] for row in drawn])
    assert 10 < flat.sum() < 40 and len({tuple(row) for row in flat}) > 1


FIELDS = "[qpos,observation,final_observation,truncated]"


def rollout(maniple, deck, directory, *settings, steps=100, ranks=1):
    maniple("rollout", deck, f"simulation.steps={steps}", "control.source=random", "initial_state.source=task",
            "output.trajectory.every=1", f"output.trajectory.fields={FIELDS}", f"output.directory={directory}", *settings,
            ranks=ranks)
    with h5py.File(directory / "results.h5") as file:
        return {name: values[()] for name, values in file["trajectory"].items() if isinstance(values, h5py.Dataset)}


def test_robots_begin_on_their_cells(maniple, deck, tmp_path):
    kinds = (f"{{stairs: {STAIRS}, pit: {STAIRS.replace('pyramid', 'inverted_pyramid')}, "
             "hill: {type: pyramid_sloped, slope_range: [0, 0.8], platform_width: 2}, "
             "boxes: {type: random_grid, grid_width: 0.45, grid_height_range: [0.05, 0.2], platform_width: 2}, "
             "noise: {type: random_uniform, noise_range: [0.02, 0.10], noise_step: 0.02}}")
    run = rollout(maniple, deck(kinds, rows=3, columns=5, num_envs=150), tmp_path / "run", steps=0)
    with Run(tmp_path / "run" / "results.h5") as results:
        model = results.model
    heights = heights_of(model)
    first, qpos = run["observation"][:, 0], run["qpos"][:, 0]
    level, kind, origin, position, from_origin = (first[:, 0], first[:, 1], first[:, 2:5], first[:, 5:8], first[:, 8:11])
    np.testing.assert_array_equal(kind, np.arange(150) * 5 // 150)
    assert set(level) == {0, 1, 2}
    np.testing.assert_allclose(origin[:, 0], (level + 0.5) * 8 - 12)
    np.testing.assert_allclose(origin[:, 1], (kind + 0.5) * 8 - 20)
    for row in range(3):
        for column in range(5):
            middle = cells_of(heights, 3, 5)[row][column][30:51, 30:51].max()
            mine = (level == row) & (kind == column)
            assert mine.any()
            np.testing.assert_allclose(origin[mine, 2], middle + 0.5, atol=1e-5)  # above the plane at 0.5 m
    np.testing.assert_allclose(position, qpos[:, :3])
    np.testing.assert_allclose(from_origin, position - origin, atol=1e-9)
    np.testing.assert_allclose(from_origin[:, 2], 1)
    assert np.abs(from_origin[:, :2]).max() <= 0.5 and np.abs(from_origin[:, :2]).max() > 0.3
    # lowered until the hull is 2 cm above the origin: nothing is deep in the ground
    data = mujoco.MjData(model)
    for env in range(150):
        data.qpos[:] = qpos[env]
        data.qpos[2] = origin[env, 2] + 0.12
        mujoco.mj_forward(model, data)
        assert data.ncon == 0 or data.contact.dist.min() > -0.03


def test_height_scan_sees_the_stairs(maniple, deck, tmp_path):
    run = rollout(maniple, deck(), tmp_path / "run", steps=30)
    with Run(tmp_path / "run" / "results.h5") as results:
        model = results.model
    heights = heights_of(model) + 0.5
    data = mujoco.MjData(model)
    grid = np.array([(x, y) for y in np.arange(-0.5, 0.51, 0.1) for x in np.arange(-0.8, 0.81, 0.1)])
    flat = 0
    for env in range(0, 24, 5):
        for sample in (0, 30):
            qpos, scan = run["qpos"][env, sample], run["observation"][env, sample, 11:]
            data.qpos[:] = qpos
            mujoco.mj_forward(model, data)
            w, x, y, z = qpos[3:7]
            forward = data.xmat[1].reshape(3, 3)[:, 0]
            yaw = np.arctan2(forward[1], forward[0])
            points = qpos[:2] + grid @ np.array([[np.cos(yaw), np.sin(yaw)], [-np.sin(yaw), np.cos(yaw)]])
            geom = np.zeros(1, np.int32)
            for point, seen in zip(points, scan):
                start = np.array([*point, qpos[2]])
                ray = mujoco.mj_rayHfield(model, data, 0, start, np.array([0.0, 0, -1]), None)
                assert seen == pytest.approx(ray, abs=1e-6)
                at = (point + np.array([16, 16])) / 0.1
                i, j = np.floor(at).astype(int)
                around = heights[i:i + 2, j:j + 2]
                if np.ptp(around) < 1e-9:
                    flat += 1
                    assert seen == pytest.approx(qpos[2] - around[0, 0], abs=1e-6)
    assert flat > 500


WALLED = """
<mujoco>
  <asset>
    <hfield name="ground" nrow="81" ncol="81" size="4 4 2 1" elevation="{elevation}"/>
  </asset>
  <worldbody>
    <geom name="floor" type="hfield" hfield="ground"/>
    <body name="base" pos="0 0 .5"><freejoint name="root"/><geom type="sphere" size=".1" mass="1"/></body>
  </worldbody>
</mujoco>
"""


def test_height_scan_sees_walls_from_above(maniple, tmp_path):
    """A wall of 2 m beside a body at 0.5 m: rays that start above it give the numbers of the height field; those that
    start at the body start inside the wall, and meet the base of the field, at its lowest height."""
    shares = np.zeros((81, 81))                                         # [y][x], 0.1 m apart, -4 to 4 m
    shares[:, 46:54] = 1                                                # 2 m, from x = 0.6 to 1.3
    shares[54:, :40] = 0.4                                              # 0.8 m, from y = 1.4
    shares[20:30, 20:30] = 0.1                                          # 0.2 m, lower than the body
    (tmp_path / "walled.xml").write_text(WALLED.format(elevation=" ".join(map(str, shares[::-1].ravel()))))
    deck = tmp_path / "walled.yaml"
    scan = "term: height_scan, length: 4, width: 4, resolution: 0.4, height_offset: 0.25"
    deck.write_text(f"""
model: {{file: {tmp_path}/walled.xml}}
batch: {{num_envs: 8}}
simulation: {{precision: double}}
task:
  name: walled
  actions: [{{components: [none]}}]
  observations:
    - {{{scan}, ray_offset: 20, max_distance: 40}}
    - {{{scan}, ray_offset: 20, max_distance: 20.4}}
    - {{{scan}}}
  resets: [{{set: "qpos[root][0:2]", expression: "[env_column, 0]"}}]
""".replace("env_column", "uniform(-0.02, 0.02)"))
    run = rollout(maniple, deck, tmp_path / "run", steps=0)
    grid = np.array([(x, y) for y in np.arange(-2, 2.01, 0.4) for x in np.arange(-2, 2.01, 0.4)])
    for env in range(8):
        x, y, z = run["qpos"][env, 0, :3]
        column, row = np.floor((grid + [x, y] + 4) / 0.1 + 1e-6).astype(int).T
        corners = np.stack([shares[row + i, column + j] for i in (0, 1) for j in (0, 1)])
        level = np.ptp(corners, axis=0) == 0                            # (not on the slope of an edge)
        heights = 2 * corners[0]
        assert level.sum() > 100 and (heights[level] > z).sum() > 25
        from_above, short, from_body = run["observation"][env, 0].reshape(3, -1)
        np.testing.assert_allclose(from_above[level], (z - heights - 0.25)[level], atol=1e-6)
        # beyond 20.4 m, which is 0.4 m below the body: the ray's end, without the offset
        missed = level & (heights < z - 0.4)
        np.testing.assert_allclose(short[missed], 0.4, atol=1e-6)
        np.testing.assert_allclose(short[level & ~missed], from_above[level & ~missed], atol=1e-6)
        lower = level & (heights < z)
        np.testing.assert_allclose(from_body[lower], from_above[lower], atol=1e-6)
        np.testing.assert_allclose(from_body[level & ~lower], z - 0.25, atol=1e-6)
    refused = maniple("rollout", deck, f"task.observations=[{{{scan}, ray_offset: 20}}]", exit_code=2)
    assert "max_distance: rays of 10 m that start 20 m above the body; above ray_offset, 20 m" in refused.stderr, refused.stderr


def test_levels_follow_how_far_robots_walk(maniple, deck, tmp_path):
    run = rollout(maniple, deck("{ground: {type: flat}}", rows=3, columns=2, num_envs=64, episode=50, vx="-9, 9"),
                  tmp_path / "run", "terrain.max_init_terrain_level=1", steps=600)
    level = run["observation"][..., 0]
    origin, last = run["observation"][..., 2:5], run["final_observation"][..., 5:8]
    over = run["truncated"][..., 0] > 0
    assert set(level[:, 0]) == {0, 1}
    seen = {"up": 0, "down": 0, "same": 0, "first": 0, "beyond": set()}
    for env in range(64):
        for step in range(1, 601):
            before, after = level[env, step - 1], level[env, step]
            if not over[env, step]:
                assert after == before
                continue
            walked = np.hypot(*(last[env, step, :2] - origin[env, step - 1, :2]))
            if walked > 4:
                if before == 2:
                    seen["beyond"].add(after)
                else:
                    seen["up"] += 1
                    assert after == before + 1
            elif walked < 1 * 50 * 0.02 * 0.5:  # half of 1 m/s for the episode
                seen["down" if before > 0 else "first"] += 1
                assert after == max(0, before - 1)
            else:
                seen["same"] += 1
                assert after == before
    assert min(seen["up"], seen["down"], seen["same"], seen["first"]) > 3 and seen["beyond"] == {0, 1, 2}, seen
    still = rollout(maniple, deck("{ground: {type: flat}}", rows=3, columns=2, num_envs=16, episode=50, vx="-9, 9"),
                    tmp_path / "still", "task.curricula.levels=~", "terrain.min_init_terrain_level=2", steps=120)
    assert set(still["observation"][..., 0].ravel()) == {2}


def test_bits_of_any_number_of_ranks_and_over_a_restart(maniple, deck, tmp_path):
    path = deck(num_envs=80, vx="-9, 9", episode=20)
    for ranks in (1, 2):
        rollout(maniple, path, tmp_path / f"rollout{ranks}", steps=50, ranks=ranks)
    assert len({maniple.digest(tmp_path / f"rollout{ranks}" / "results.h5") for ranks in (1, 2)}) == 1
    maniple("train", path, f"output.directory={tmp_path / 'whole'}")
    maniple("train", path, f"output.directory={tmp_path / 'parts'}", "learning.iterations=2", ranks=2)
    maniple("train", path, f"output.directory={tmp_path / 'parts'}", "learning.resume=auto", ranks=2)
    whole, parts = (maniple.checkpoints(tmp_path / name)[-1] for name in ("whole", "parts"))
    assert maniple.digest(whole) == maniple.digest(parts)
    with h5py.File(tmp_path / "whole" / "results.h5") as file:
        metrics = {name: values[()] for name, values in file["metrics"].items() if isinstance(values, h5py.Dataset)}
    # of 80 environments half are on each kind of ground
    mean = metrics["curriculum_levels"]
    np.testing.assert_allclose(mean, (metrics["curriculum_levels_stairs"] + metrics["curriculum_levels_ground"]) / 2)
    assert len(set(mean)) > 1 and np.all((mean >= 0) & (mean <= 3))
    assert np.nanmax(metrics["metric_terrain_level"]) <= 3
    easy = maniple("evaluate", tmp_path / "whole", "terrain.max_init_terrain_level=1", f"output.directory={tmp_path / 'easy'}")
    assert "warning" not in easy.stdout + easy.stderr  # the same task
    assert "level 1:" in easy.stdout and "level 2:" not in easy.stdout
    told = maniple("evaluate", tmp_path / "whole", "evaluation.episodes=160", ranks=2).stdout
    with h5py.File(tmp_path / "whole" / "evaluation.h5") as file:
        levels, returns, rows, means, counts = (
            file[f"evaluation/{name}"][()] for name in ("metric_terrain_level", "episode_return", "level", "level_mean_return",
                                                        "level_episodes"))
    np.testing.assert_array_equal(levels[:80], levels[80:])  # nobody moves in an evaluation
    assert set(levels) == {0, 1, 2, 3}
    for level in range(4):
        assert rows[level] == level and counts[level] == np.sum(levels == level)
        assert means[level] == pytest.approx(returns[levels == level].mean())
        assert f"level {level}: {counts[level]:.0f} episodes, mean return {means[level]:.4f}" in told


@pytest.mark.parametrize("change, words", [
    ("terrain.sub_terrains.stairs.type=pyramid_stair", ["terrain.sub_terrains.stairs.type", "pyramid_stairs"]),
    ("terrain.sub_terrains.stairs.platform_width=6", ["platform_width", "found 6", "less than 5.8"]),
    ("terrain.sub_terrains.stairs.border_width=-1", ["border_width", "at least 0|0 to"]),
    ("terrain.sub_terrains.stairs.step_width=~", ["without step_width"]),
    ("terrain.sub_terrains.stairs.slope_range=[0, 1]", ["pyramid_stairs does not take", "step_height_range"]),
    ("terrain.sub_terrains.stairs.stepwidth=1", ["unknown key", "step_width"]),
    ("terrain.sub_terrains.stairs.step_width=0.05", ["at least terrain.horizontal_scale"]),
    ("terrain.sub_terrains.stairs.step_height_range=[0.2, 0.1]", ["low <= high"]),
    ("terrain.border_width=-1", ["terrain.border_width", "0 to"]),
    ("terrain.size=[8, 8.05]", ["8.05", "multiples of terrain.horizontal_scale"]),
    ("terrain.size=[8, 0.2]", ["terrain.size", "found 0.2", "more than two of terrain.horizontal_scale"]),
    ("terrain.num_rows=5000", ["points", "MB"]),
    ("terrain.max_init_terrain_level=4", ["less than terrain.num_rows"]),
    ("terrain.min_init_terrain_level=4", ["at most the last row"]),
    ("terrain.geom=ground", ["no plane 'ground'", "floor"]),
    ("terrain.sub_terrains=~", ["without a terrain|unknown name 'terrain_level'"]),
    ("task.curricula.more={term: terrain_levels_vel}", ["second curriculum"]),
    ("task.curricula.levels.reset=1", ["together with reset"]),
    ("task.curricula.levels.term=terrain_level", ["terrain_levels_vel"]),
])
def test_refusals(maniple, deck, change, words):
    size = ["terrain.horizontal_scale=0.001"] if "num_rows" in change else []
    result = maniple("validate", deck(), change, *size, exit_code=2)
    message = result.stdout + result.stderr
    for word in words:
        assert any(part in message for part in word.split("|")), message


def test_refusals_of_models(maniple, deck):
    plane = '<geom name="floor" type="plane" size="5 5 .1" pos="0 0 .5" friction=".7" condim="1" conaffinity="1"/>'
    assert plane in MODEL
    for model, words in [
        (MODEL.replace(plane, ""), "without a plane"),
        (MODEL.replace(plane, plane + plane.replace('"floor"', '"wall"')), "2 planes in the model: floor, wall"),
        (MODEL.replace('pos="0 0 .5"', 'euler="0 5 0"'), "turned"),
    ]:
        result = maniple("validate", deck(model=model), exit_code=2)
        assert words in result.stdout + result.stderr
    two = deck(model=MODEL.replace(plane, plane + plane.replace('"floor"', '"wall"')))
    maniple("validate", two, "terrain.geom=floor")


SHAPES = {"capsule": ".1 .2", "sphere": ".15", "ellipsoid": ".3 .2 .1", "box": ".3 .2 .1", "cylinder": ".1 .2"}


@pytest.mark.parametrize("shape", SHAPES)
def test_steps_are_mujocos(maniple, deck, tmp_path, shape):
    """Robots that lie, slide and tumble on noise, boxes and stairs, low enough to touch them all the time. Flat faces and
    edges have ties in a prism, which MuJoCo settles to its tolerance of 1e-6 m."""
    kinds = (f"{{stairs: {STAIRS}, boxes: {{type: random_grid, grid_width: 0.45, grid_height_range: [0.05, 0.2]}}, "
             "noise: {type: random_uniform, noise_range: [0.02, 0.10], noise_step: 0.02}}")
    path = deck(kinds, rows=2, columns=3, num_envs=12, vx="-2, 2",
                model=MODEL.replace('type="box" size=".3 .2 .1"', f'type="{shape}" size="{SHAPES[shape]}"'))
    maniple("rollout", path, "simulation.steps=40", "control.source=random", "initial_state.source=task",
            "task.resets.0.z=[-0.75, -0.6]", "task.resets.0.vz=[-1, 0]", "simulation.max_contacts=100",
            "simulation.tolerance=1e-15", "simulation.ls_tolerance=1e-10", "output.trajectory.every=1",
            "output.trajectory.fields=[qpos,qvel,ctrl,qacc_warmstart,truncated,ncon]", f"output.directory={tmp_path / 'run'}")
    with Run(tmp_path / "run" / "results.h5") as results:
        model = results.model
    with h5py.File(tmp_path / "run" / "results.h5") as file:
        run = {name: values[()] for name, values in file["trajectory"].items()}
    data = mujoco.MjData(model)
    touched, errors = 0, []
    for env in range(12):
        for step in range(1, 40):
            if run["truncated"][env, step]:
                continue
            for name in ("qpos", "qvel", "qacc_warmstart"):
                getattr(data, name)[:] = run[name][env, step - 1]
            data.ctrl[:] = run["ctrl"][env, step]
            mujoco.mj_step(model, data, 2)
            assert data.ncon == run["ncon"][env, step, 0]
            touched += data.ncon > 0
            errors.append(np.abs(data.qpos - run["qpos"][env, step]).max())
    assert len(errors) > 400 and touched > 100
    assert np.median(errors) < 1e-12 and np.quantile(errors, 0.85) < 1e-6
    if shape in ("capsule", "sphere", "ellipsoid"):
        assert max(errors) < 1e-7
