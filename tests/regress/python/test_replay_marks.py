"""Marks of the page of maniple.replay beside moving geoms, in a real browser: commands, ends of episodes, tendons,
height fields, meshes, colours, and arrows that fit small robots."""
# ctest: PROCESSORS 1 COST 60

import base64
import re
import zlib

import mujoco
import numpy as np
import pytest
from maniple.browser import Browser
from maniple.replay_scene import height_field
from maniple.results import Run
from test_replay import description, replay, share

FIELDS = "output.trajectory.every=1"


def arrays(page):
    """Those of the page, by name."""
    index = description(page)["arrays"]
    packed = re.search(r'<script id="arrays" type="text/plain">(.*?)</script>', page.read_text(), re.S)[1]
    blob = zlib.decompress(base64.b64decode(packed))
    return {name: np.frombuffer(blob, entry["type"], int(np.prod(entry["shape"])), entry["at"]).reshape(entry["shape"])
            for name, entry in index.items()}


@pytest.fixture
def shown(tmp_path):
    """A page in a browser that stands still."""
    with Browser(tmp_path, 720, 450) as browser:
        def show(page):
            browser.open(page)
            browser.wait_for("Boolean(window.replay)")
            browser.evaluate("replay.bare(true), replay.seek(0)")
            return browser
        yield show
        assert browser.problems == []


def colour_at(browser, picture, point, env=0):
    x, y = browser.evaluate(f"replay.pixel({env}, {list(map(float, point))})")
    return picture[round(y), round(x)]


def is_red(rgb):
    return rgb[0] > 1.5 * max(rgb[1], rgb[2])


def is_green(rgb):
    return rgb[1] > 1.3 * max(rgb[0], rgb[2])


COURSE = """
<mujoco model="course">
  <asset>
    <hfield name="hill" nrow="3" ncol="5" elevation="0 0 0 .5 0  0 0 1 0 0  0 .2 0 0 0" size="1 1 .8 .1"/>
    <mesh name="roof" vertex="-.3 -.3 0  .3 -.3 0  .3 .3 0  -.3 .3 0  0 0 .5" face="0 1 4  1 2 4  2 3 4  3 0 4  0 2 1  0 3 2"/>
    <texture name="sand" type="2d" builtin="checker" rgb1="1 0 0" rgb2="1 0 0" width="8" height="8"/>
    <material name="sand" texture="sand"/>
  </asset>
  <worldbody>
    <geom type="hfield" hfield="hill" rgba="0 .7 0 1" pos="0 0 0"/>
    <geom name="wall" type="box" size=".1 .3 .3" pos="2 0 .3"/>
    <body name="roof" pos="0 2 0"><geom type="mesh" mesh="roof" material="sand"/></body>
    <site name="above" pos="0 -2 2"/>
    <body name="bob" pos="0 -2 1">
      <joint name="slide" type="slide" axis="0 0 1"/><geom size=".15" mass="1"/><site name="bob"/>
    </body>
  </worldbody>
  <tendon><spatial name="rope" width=".03" rgba="0 0 1 1" stiffness="20" springlength="1"><site site="above"/><site site="bob"/></spatial></tendon>
</mujoco>"""


def test_shapes_and_tendons(maniple, shown, tmp_path):
    """Hill, roof and rope are where the model has them, and what is grey in the model has a colour."""
    (tmp_path / "course.xml").write_text(COURSE)
    run = tmp_path / "run"
    maniple("rollout", f"model.file={tmp_path / 'course.xml'}", "batch.num_envs=1", "simulation.steps=100", FIELDS,
            "output.trajectory.fields=[qpos,qvel]", f"output.directory={run}")
    replay(run)
    browser = shown(run / "replay.html")
    facts = description(run / "replay.html")
    browser.evaluate("replay.look([7, -5, 3], [0, 0, 0.5])")

    # the hill: below its top and on its slopes is green, above them is air
    picture = browser.picture(tmp_path / "course.png")
    assert is_green(colour_at(browser, picture, (0, 0, 0.74))) and not is_green(colour_at(browser, picture, (0, 0, 0.95)))
    assert is_green(colour_at(browser, picture, (0.5, 0, 0.38))) and not is_green(colour_at(browser, picture, (-0.5, -1, 0.4)))
    # the roof has the colour of its texture, and comes to a point
    assert is_red(colour_at(browser, picture, (0, 2, 0.4))) and not is_red(colour_at(browser, picture, (0.25, 2, 0.45)))

    # the hill has the heights that a ray of MuJoCo's finds
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "course.xml"))
    data, geom = mujoco.MjData(model), np.zeros(1, np.int32)
    mujoco.mj_forward(model, data)
    vertices = arrays(run / "replay.html")[f"mesh {int(mujoco.mjtGeom.mjGEOM_HFIELD)} 0"]
    assert len(vertices) == 15 and np.ptp(vertices[:, 2]) == pytest.approx(0.8, rel=1e-6)
    for x, y, z in vertices:
        distance = mujoco.mj_ray(model, data, [0.999 * x, 0.999 * y, 3], [0, 0, -1], None, 1, -1, geom)
        assert geom[0] == 0 and 3 - distance == pytest.approx(z, abs=5e-3)

    # the rope is drawn from the fixed point to the bob, wherever that is
    is_blue = lambda rgb: rgb[2] > 1.5 * max(rgb[0], rgb[1])
    assert browser.evaluate("replay.tendons()") == [1]
    heights = []
    with Run(run) as results:
        qpos, step = results.trajectories["qpos"][0, :, 0], results.control_timestep()
    for time in (0, facts["times"][-1]):
        browser.evaluate(f"replay.seek({time})")
        heights.append(1 + qpos[round(time / step)])
        picture = browser.picture()
        assert is_blue(colour_at(browser, picture, (0, -2, 1.8))) and is_blue(colour_at(browser, picture, (0, -2, heights[-1] + 0.25)))
        assert not is_blue(colour_at(browser, picture, (0.1, -2, 1.8)))
    parts = arrays(run / "replay.html")["tendon_parts"]
    np.testing.assert_allclose(parts[-1], [0, -2, 2, 0, -2, heights[-1]], atol=1e-3)

    # neither wall nor bob is grey
    for entry in facts["geoms"]:
        assert np.ptp(entry["rgba"][:3]) > 0.1


BALL = """
<mujoco model="ball">
  <worldbody>
    <geom name="floor" type="plane" size="0 0 1"/>
    <body name="table" pos="5 0 .5"><geom type="box" size=".1 .1 .5" mass="1000"/></body>
    <body name="ball" pos="0 0 {radius}"><freejoint/><geom size="{radius}" mass="{mass}"/></body>
  </worldbody>
</mujoco>"""


def test_arrows_fit_the_robot(maniple, shown, tmp_path):
    """A force like the weight is an arrow of 0.7 of a robot's size, of a ball of metres as of millimetres, beside a table of a
    tonne; --force-scale makes it longer."""
    for radius, mass, scale in ((0.5, 3, 1), (0.005, 3e-6, 1), (0.005, 3e-6, 2)):
        (tmp_path / "ball.xml").write_text(BALL.format(radius=radius, mass=mass))
        run = tmp_path / f"run_{radius}"
        maniple("rollout", f"model.file={tmp_path / 'ball.xml'}", "batch.num_envs=1", "simulation.steps=400", FIELDS,
                "output.trajectory.fields=[qpos,qvel]", "simulation.precision=double", f"output.directory={run}",
                "output.overwrite=true")
        replay(run, "--force-scale", scale)
        browser = shown(run / "replay.html")
        assert browser.evaluate("replay.size") == pytest.approx(2 * radius, rel=1e-3)
        browser.evaluate("replay.seek(replay.duration), replay.contacts(true)")
        count, longest = browser.evaluate("replay.arrows()")[0]
        assert count == 1 and longest == pytest.approx(0.7 * scale * 2 * radius, rel=0.05)
        without = browser.picture()
        browser.evaluate("replay.contacts(false)")
        assert (np.abs(browser.picture() - without).max(axis=2) > 0.1).sum() > 50


CART = """
<mujoco model="cart">
  <worldbody>
    <geom name="floor" type="plane" size="0 0 1"/>
    <body name="cart" pos="0 0 .2"><freejoint/><geom type="box" size=".4 .2 .1" mass="1" rgba=".1 .1 .1 1"/></body>
  </worldbody>
  <actuator><general name="none" site="here"/></actuator>
</mujoco>""".replace('<geom type="box"', '<site name="here"/><geom type="box"')
COMMANDED = """
model: {file: cart.xml}
task:
  name: cart
  actions: [{term: actuator_control, actuators: [none], clip: [0, 0]}]
  observations: [{term: generated_commands}]
  rewards: {alive: {term: is_alive, weight: 1}}
  commands: {twist: {term: uniform_velocity_command, lin_vel_x: [1, 1], lin_vel_y: [0.5, 0.5], ang_vel_z: [0.25, 0.25]}}
  resets: [{term: reset_root_state_uniform, yaw: [1.5707963, 1.5707963], vx: [0, 0], vy: [-2, -2]}]
"""


def test_commands(maniple, shown, tmp_path):
    """The arrow of a command points where it does from the robot, whose heading is the y axis here; its own velocity is
    another arrow; numbers are beside it."""
    (tmp_path / "cart.xml").write_text(CART)
    (tmp_path / "cart.yaml").write_text(COMMANDED)
    run = tmp_path / "run"
    maniple("rollout", tmp_path / "cart.yaml", "batch.num_envs=2", "initial_state.source=task", "simulation.steps=100", FIELDS,
            "output.trajectory.fields=[qpos,qvel,reward,commands/twist]", f"output.directory={run}")
    replay(run)
    page = run / "replay.html"
    found = arrays(page)
    np.testing.assert_allclose(found["command"][0], [[1, 0.5, 0.25]] * 2, atol=1e-6)
    np.testing.assert_allclose(found["command_arrows"][0], [[-0.5, 1, 0]] * 2, atol=1e-3)
    with Run(run) as results:
        np.testing.assert_allclose(found["velocity_arrows"][0], results.trajectories["qvel"][:2, 0, :3], atol=1e-5)
        place = results.trajectories["qpos"][0, 0, :3]
    assert description(page)["curves"][0]["names"] == ["forward [m/s]", "left [m/s]", "turn [rad/s]"]

    browser = shown(page)
    assert browser.evaluate("replay.tags()") == ["1.00, 0.50 m/s  0.25 rad/s"] * 2
    (_, _), (commands, length), (velocities, own) = browser.evaluate("replay.arrows()")
    size, lift = browser.evaluate("replay.size"), browser.evaluate("replay.lift")
    assert (commands, velocities) == (2, 2) and length == pytest.approx(0.8 * size, rel=1e-3)
    assert own == pytest.approx(length * 2 / np.hypot(1, 0.5), rel=1e-2)
    way = np.array([-0.5, 1, 0]) / np.hypot(1, 0.5)
    middle = place + [0, 0, lift] + 0.5 * length * way
    assert is_green(colour_at(browser, browser.picture(tmp_path / "cart.png"), middle))
    browser.evaluate("replay.commands(false)")
    assert not is_green(colour_at(browser, browser.picture(), middle)) and browser.evaluate("replay.tags()") == ["", ""]


RUNNER = """
<mujoco model="runner">
  <worldbody><body name="runner"><joint name="x" type="slide" axis="1 0 0"/><geom size=".05"/></body></worldbody>
  <actuator><motor name="push" joint="x" ctrlrange="-1 1"/></actuator>
</mujoco>"""
RACE = """
model: {file: runner.xml}
simulation: {decimation: 5}
task:
  name: race
  episode_length: 0.5
  actions: [{term: actuator_control, actuators: [push], scale: 0}]
  observations: [{name: x, expression: qpos}]
  rewards: {alive: {term: is_alive, weight: 1}}
  terminations: {success: {expression: "qpos[x] > 0.2"}, lost: {expression: "qpos[x] < -0.2"}, time_out: {term: time_out}}
  resets: [{set: "qvel[x]", expression: "uniform(-1.5, 1.5)"}]
"""


def test_ends_of_episodes(maniple, shown, tmp_path):
    """Who succeeded, failed or ran out of time is marked at that time, counted, and said at the robot."""
    (tmp_path / "runner.xml").write_text(RUNNER)
    (tmp_path / "race.yaml").write_text(RACE)
    run = tmp_path / "run"
    maniple("rollout", tmp_path / "race.yaml", "batch.num_envs=6", "initial_state.source=task", "simulation.steps=100", FIELDS,
            "output.trajectory.fields=[qpos,qvel,terminated,truncated,success]", f"output.directory={run}")
    replay(run, "--fps", 25)
    with Run(run) as results:
        speed = results.trajectories["qvel"][:, :, 0]
        over = (results.trajectories["terminated"][..., 0] + results.trajectories["truncated"][..., 0]) > 0
        step = results.control_timestep()
    # by the speed of each episode: who passes 0.2 m within half a second
    codes = np.where(speed > 0.4, 4, np.where(speed < -0.4, 3, 2))
    expected = sorted((env, sample, codes[env, sample - 1]) for env, sample in np.argwhere(over))
    found = arrays(run / "replay.html")["ends"]
    times = description(run / "replay.html")["times"]
    shown_ends = sorted((env, round(times[frame] / step), found[frame, env]) for frame, env in np.argwhere(found))
    assert len(shown_ends) == len(expected) > 8 and {code for _, _, code in expected} == {2, 3, 4}
    stride = round(times[1] / step)
    assert stride > 1
    for (env, sample, code), (shown_env, shown_sample, shown_code) in zip(expected, shown_ends):
        assert (env, code) == (shown_env, shown_code) and 0 <= shown_sample - sample < stride

    browser = shown(run / "replay.html")
    names = {4: "succeeded", 3: "terminated", 2: "timed out"}
    said = browser.evaluate("document.getElementById('title').textContent")
    for code, name in names.items():
        assert f"{(found == code).sum()} {name}" in said
    # at the robot, while the time line shows its colour where the episode ended
    for code, name in names.items():
        frame, env = np.argwhere(found == code)[0]
        browser.evaluate(f"document.body.className = '', replay.choose({env}), replay.seek({times[frame]})")
        assert browser.evaluate("replay.tags()")[env] == name
        x, y, width = browser.evaluate("(({ x, y, width }) => [x, y, width])(document.getElementById('marks').getBoundingClientRect())")
        # (the thumb of a slider is 16 pixels wide)
        colour = browser.picture()[round(y) + 2, round(x + 8 + (width - 16) * times[frame] / times[-1])]
        assert np.ptp(colour) > 0.3 and np.argmax(colour) == {4: 1, 3: 0, 2: 2}[code], colour


HIKER = """
<mujoco model="hiker">
  <worldbody>
    <geom name="floor" type="plane" size="0 0 1"/>
    <body name="hull" pos="0 0 .3"><freejoint name="root"/><geom type="box" size=".2 .1 .05" mass="1" rgba=".8 .1 .1 1"/></body>
  </worldbody>
  <actuator><general name="none" site="here"/></actuator>
</mujoco>""".replace('<geom type="box"', '<site name="here"/><geom type="box"')
HIKE = """
model: {file: hiker.xml}
terrain:
  size: [8, 8]
  num_rows: 3
  num_cols: 3
  border_width: 2
  horizontal_scale: 0.2
  sub_terrains: {stairs: {type: pyramid_stairs, step_height_range: [0.05, 0.2], step_width: 0.3, platform_width: 2, border_width: 1}}
task:
  name: hike
  episode_length: 20
  actions: [{term: actuator_control, actuators: [none], clip: [0, 0]}]
  observations: [{term: root_pos_w}]
  rewards: {alive: {term: is_alive, weight: 1}}
  terminations: {time_out: {term: time_out}}
  resets: [{term: reset_root_state_uniform, yaw: [-3, 3], vx: [0, 1]}]
"""


def test_a_terrain_is_drawn_once(maniple, shown, tmp_path):
    """Robots are where they are on it; all of them are in the picture, and one by itself is seen from near. The ground around them
    has MuJoCo's heights, however few triangles the rest has."""
    (tmp_path / "hiker.xml").write_text(HIKER)
    (tmp_path / "hike.yaml").write_text(HIKE)
    run = tmp_path / "run"
    maniple("rollout", tmp_path / "hike.yaml", "batch.num_envs=3", "terrain.max_init_terrain_level=-1", "initial_state.source=task",
            "simulation.steps=100", FIELDS, "output.trajectory.fields=[qpos,qvel]", f"output.directory={run}")
    replay(run, "--faces", 35000)
    page, browser = run / "replay.html", shown(run / "replay.html")
    with Run(run) as results:
        model, places = results.model, results.trajectories["qpos"][:3, :, :3].astype(float)
    size = browser.evaluate("replay.size")
    assert size < 0.6 and np.ptp(places[:, 0, :2], axis=0).max() > 7
    parts = [geom for geom in description(page)["geoms"] if geom.get("shared")]
    copies = browser.evaluate("replay.copies()")
    assert len(parts) == 2 and sorted(copies) == [1] * len(parts) + [3]

    # the part around the robots is the height field, point by point
    found, whole = arrays(page), height_field(model, 0)
    near, faces = found[parts[0]["mesh"]], found[parts[0]["mesh"] + " faces"]
    points = {tuple(point) for point in whole[0].astype(np.float32).round(4).tolist()}
    assert {tuple(point) for point in near.round(4).tolist()} <= points and len(faces) < len(whole[1])
    assert len(found[parts[1]["mesh"] + " faces"]) <= 0.2 * 35000
    for place in places.reshape(-1, 3):
        assert np.linalg.norm(near[:, :2] - place[:2], axis=1).min() < 0.2

    # where they are, and all in the picture
    browser.evaluate("replay.camera('all'), replay.seek(0)")
    for env in range(3):
        np.testing.assert_allclose(browser.evaluate(f"replay.place({env})"), places[env, 0], atol=1e-4)
        x, y = browser.evaluate(f"replay.pixel({env}, {places[env, 0].tolist()})")
        width, height = browser.evaluate("(({ clientWidth, clientHeight }) => [clientWidth, clientHeight])(document.getElementById('view'))")
        assert 0 < x < width and 0 < y < height
    _, far = browser.evaluate("replay.view()")
    assert far > 7
    # one of them
    browser.evaluate("replay.camera('2'), replay.seek(0)")
    target, distance = browser.evaluate("replay.view()")
    np.testing.assert_allclose(target, places[2, 0], atol=0.1)
    assert distance < 10 * size
    assert (np.ptp(browser.picture(), axis=2) > 0.4).mean() > 0.005  # red


def test_who_starts_at_one_place_of_a_terrain_stands_beside_it(maniple, shown, tmp_path):
    """Five in the only cell: each has a copy of the ground around it, as far from the next one as that reaches."""
    (tmp_path / "hiker.xml").write_text(HIKER)
    (tmp_path / "hike.yaml").write_text(HIKE)
    run = tmp_path / "run"
    maniple("rollout", tmp_path / "hike.yaml", "batch.num_envs=5", "terrain.num_rows=1", "terrain.num_cols=1", "terrain.border_width=40",
            "initial_state.source=task", "simulation.steps=50", FIELDS, "output.trajectory.fields=[qpos,qvel]", f"output.directory={run}")
    replay(run)
    page, browser = run / "replay.html", shown(run / "replay.html")
    with Run(run) as results:
        places = results.trajectories["qpos"][:, 0, :3].astype(float)
    assert np.ptp(places, axis=0).max() < 0.2
    near, far = (geom for geom in description(page)["geoms"] if geom.get("shared"))
    reach = np.ptp(arrays(page)[near["mesh"]], axis=0)[:2]
    assert far["far"] and not near["far"] and (reach < 20).all() and browser.evaluate("replay.copies()") == [5, 5]
    offsets = np.array(browser.evaluate("replay.offsets"))
    apart = np.abs(offsets[:, None] - offsets) - reach
    assert (apart.max(axis=2) + 100 * np.eye(5) > 0).all() and np.ptp(offsets, axis=0).max() < 4 * reach.max()
    browser.evaluate("replay.camera('all'), replay.seek(0)")
    width, height = browser.evaluate("(({ clientWidth, clientHeight }) => [clientWidth, clientHeight])(document.getElementById('view'))")
    pixels = np.array([browser.evaluate(f"replay.pixel({env}, {places[env].tolist()})") for env in range(5)])
    assert (pixels > 0).all() and (pixels < [width, height]).all()
    for env in range(5):
        np.testing.assert_allclose(browser.evaluate(f"replay.place({env})"), places[env], atol=1e-4)
    assert (np.linalg.norm(pixels[:, None] - pixels, axis=2) + 100 * np.eye(5)).min() > 30
    # on ground of its own: red above, and the colour of the ground beside it
    for env in range(5):
        browser.evaluate(f"replay.camera('{env}'), replay.seek(0)")
        assert is_red(colour_at(browser, browser.picture(), places[env], env))


BLOCK = """
<mujoco model="block">
  <worldbody>
    {floor}
    <body name="block" pos="0 0 .1"><freejoint name="root"/><geom type="box" size=".2 .1 .1" mass="1" rgba=".8 .1 .1 1"/></body>
  </worldbody>
  <actuator><general name="none" site="here"/></actuator>
</mujoco>""".replace('<geom type="box" size=".2', '<site name="here"/><geom type="box" size=".2')
SCATTER = """
model: {file: block.xml}
task:
  name: scatter
  episode_length: 0.2
  actions: [{term: actuator_control, actuators: [none], clip: [0, 0]}]
  observations: [{term: root_pos_w}]
  rewards: {alive: {term: is_alive, weight: 1}}
  terminations: {time_out: {term: time_out}}
  resets: [{term: reset_root_state_uniform, x: [-9, 9], y: [-9, 9]}]
"""


def test_environments_stand_side_by_side(maniple, shown, tmp_path):
    """As far from one another as the robot is large: neither a floor of metres below it, nor places that resets draw, set them
    apart; who is drawn anew does not run away. Two that run along x have lanes."""
    floors = {"plane": '<geom type="plane" size="0 0 1"/>', "box": '<geom type="box" size="20 20 .5" pos="0 0 -.5"/>'}
    found = {}
    for name, floor in floors.items():
        (tmp_path / "block.xml").write_text(BLOCK.format(floor=floor))
        (tmp_path / "scatter.yaml").write_text(SCATTER)
        for source in ("task", "model"):
            run = tmp_path / f"{name}_{source}"
            what = [tmp_path / "scatter.yaml", "initial_state.source=task"] if source == "task" else [f"model.file={tmp_path / 'block.xml'}"]
            maniple("rollout", *what, "batch.num_envs=9", "simulation.steps=250", FIELDS,
                    "output.trajectory.fields=[qpos,qvel]" if source == "model" else
                    "output.trajectory.fields=[qpos,qvel,terminated,truncated]", f"output.directory={run}")
            replay(run)
            browser = shown(run / "replay.html")
            places = [browser.evaluate(f"replay.place({env})") for env in range(9)]
            found[name, source] = np.array(browser.evaluate("replay.offsets")) + np.array(places)[:, :2]
            if source == "task":
                assert np.ptp(places, axis=0).max() > 9
    for places in found.values():
        apart = np.linalg.norm(places[:, None] - places, axis=2) + 100 * np.eye(9)
        assert 0.2 < apart.min() and apart.min(axis=0).max() < 0.6, places
        assert np.ptp(places, axis=0).max() < 3 * 0.6


def test_a_height_field_of_the_model_is_drawn_for_each(maniple, shown, tmp_path):
    """Robots that begin at the same place on a ground of the model's own stand side by side."""
    (tmp_path / "hiker.xml").write_text(HIKER.replace('<geom name="floor" type="plane" size="0 0 1"/>', '<geom type="hfield" hfield="terrain"/>').replace(
        "<worldbody>", '<asset><hfield name="terrain" nrow="4" ncol="4" size="1 1 .1 .1"/></asset><worldbody>'))
    run = tmp_path / "run"
    maniple("rollout", f"model.file={tmp_path / 'hiker.xml'}", "batch.num_envs=3", "simulation.steps=20", FIELDS,
            "output.trajectory.fields=[qpos,qvel]", f"output.directory={run}")
    replay(run)
    assert shown(run / "replay.html").evaluate("replay.copies()") == [3, 3]
