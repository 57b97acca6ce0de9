"""Inputs and outputs of maniple.replay: demonstrations, images, films, pages that follow a run in progress; and its
messages about recordings that it cannot show."""
# ctest: PROCESSORS 1 COST 60

import json
import os
import signal
import subprocess
import sys
import time

import av
import gymnasium
import h5py
import matplotlib.image
import mujoco
import numpy as np
import pytest
from conftest import ENVIRONMENT, ROOT
from demonstrations import episodes, write_minari, write_robomimic
from maniple.browser import Browser
from maniple.results import Run
from test_replay import PENDULUM, description, replay, share
from test_replay_marks import BALL

PUSHER = """
<mujoco model="pusher">
  <option timestep="0.01"/>
  <worldbody>
    <geom name="floor" type="plane" size="0 0 1"/>
    <body name="pusher" pos="0 0 .2"><joint name="x" type="slide" axis="1 0 0"/><joint name="y" type="slide" axis="0 1 0"/>
      <geom size=".1" rgba="1 0 0 1"/></body>
  </worldbody>
</mujoco>"""


def paths(count):
    """Of a pusher, of different lengths: [frame, 2]."""
    return [np.column_stack([np.linspace(0, 1 + i, 20 + 10 * i), np.full(20 + 10 * i, -0.5 * i)]) for i in range(count)]


def robosuite_file(path, model=PUSHER):
    """As robosuite collects demonstrations: states of time, qpos and qvel, with the model in each; the first one succeeds."""
    with h5py.File(path, "w") as file:
        file.create_group("data").attrs["env_args"] = json.dumps({"env_name": "Push", "env_kwargs": {"control_freq": 20}})
        for i, places in enumerate(paths(3)):
            demo = file.create_group(f"data/demo_{i}")
            demo.attrs["num_samples"] = len(places)
            if model:
                demo.attrs["model_file"] = model
            demo["states"] = np.column_stack([np.arange(len(places)) * 0.05, places, np.zeros((len(places), 2))])
            demo["actions"] = np.full((len(places), 2), i)
            demo["obs/place"] = places
        file["mask/success"] = np.array(["demo_0"], dtype="S")
    return path


def places_on(page, folder, times, envs):
    """Of the heaviest body, by time and environment."""
    with Browser(folder, 720, 450) as browser:
        browser.open(page)
        browser.wait_for("Boolean(window.replay)")
        found = []
        for moment in times:
            browser.evaluate(f"replay.seek({moment})")
            found.append([browser.evaluate(f"replay.place({env})") for env in range(envs)])
        assert share(browser.picture(), lambda r, g, b: np.ptp([r, g, b], axis=0) > 0.3) > 0.0005  # a robot with its colour
        tags, title = browser.evaluate("replay.tags()"), browser.evaluate("document.getElementById('title').textContent")
        assert browser.problems == []
    return np.array(found), tags, title


def test_demonstrations_of_robomimic(tmp_path):
    """Each is where its states are; the shorter ones stay where they end, and the time is that of the states."""
    file = robosuite_file(tmp_path / "demos.hdf5")
    assert str(tmp_path / "demos.html") in replay(file, "--fps", 20)
    facts = description(tmp_path / "demos.html")
    assert facts["times"] == pytest.approx(np.arange(40) * 0.05) and facts["kind"] == "demonstration"
    found, tags, title = places_on(tmp_path / "demos.html", tmp_path, (0.5, 1.95), 3)
    for i, places in enumerate(paths(3)):
        for k, frame in enumerate((10, 39)):
            np.testing.assert_allclose(found[k, i, :2], places[min(frame, len(places) - 1)], atol=1e-5)
    assert tags == ["", "ended", "ended"] and "1 succeeded" in title and "3 of 3 demonstrations" in title
    assert [curve["title"] for curve in facts["curves"]] == ["Action"]


def test_demonstrations_with_a_model_of_their_own(tmp_path):
    """Where the file names no model, --model does; other keys than states are named."""
    file = robosuite_file(tmp_path / "demos.hdf5", model=None)
    (tmp_path / "pusher.xml").write_text(PUSHER)
    assert "names no model: --model" in replay(file, exit_code=2)
    replay(file, "--model", tmp_path / "pusher.xml", "--qpos", "obs/place", "--envs", 2)
    assert description(tmp_path / "demos.html")["times"][1] == pytest.approx(0.05)  # of control_freq
    found, _, _ = places_on(tmp_path / "demos.html", tmp_path, (0.5,), 2)
    np.testing.assert_allclose(found[0, 1, :2], paths(2)[1][10], atol=1e-5)
    assert "found 2 numbers a frame; allowed: a dataset, or columns of one (KEY[0:7]), with the 1 of" in replay(
        file, "--model", "inputs/models/pendulum.xml", "--qpos", "obs/place", exit_code=2)
    # LeRobot's have one vector with all
    with h5py.File(file, "r+") as opened:
        for demo in opened["data"].values():
            demo["obs/state"] = np.column_stack([np.ones(len(demo["obs/place"])), demo["obs/place"], demo["obs/place"]])
    shown = description(tmp_path / "demos.html")
    replay(file, "--model", tmp_path / "pusher.xml", "--qpos", "obs/state[1:-2]", "--envs", 2)
    assert description(tmp_path / "demos.html") == shown
    assert "--qpos obs/state[1:]: found 4 numbers a frame" in replay(
        file, "--model", tmp_path / "pusher.xml", "--qpos", "obs/state[1:]", exit_code=2)
    assert "is not there" in replay(file, "--model", tmp_path / "none.xml", exit_code=2)
    assert "1 + nq + nv" in replay(file, "--model", "package:gymnasium/envs/mujoco/assets/ant.xml", exit_code=2)


def test_data_sets_of_minari(maniple, tmp_path):
    """Gymnasium's own environment says where its robot was; the data set has what it observed, without that."""
    environment = gymnasium.make("HalfCheetah-v5")
    environment.reset(seed=1)
    rng, observations, places = np.random.default_rng(0), [], []
    environment.unwrapped.set_state(environment.unwrapped.init_qpos, environment.unwrapped.init_qvel)
    for _ in range(40):
        observations.append(environment.unwrapped._get_obs())
        places.append(environment.unwrapped.data.qpos.copy())
        environment.step(rng.uniform(-1, 1, 6))
    data = tmp_path / "cheetah-v0" / "data"
    data.mkdir(parents=True)
    with h5py.File(data / "main_data.hdf5", "w") as file:
        episode = file.create_group("episode_0")
        episode["observations"], episode["actions"] = np.array(observations), np.zeros((39, 6))
        episode["rewards"], episode["terminations"] = np.ones(39), np.zeros(39, bool)
        episode["truncations"] = np.arange(39) == 38
    (data / "metadata.json").write_text(json.dumps({"env_spec": json.dumps({"id": "HalfCheetah-v5"})}))
    replay(tmp_path / "cheetah-v0")
    page = tmp_path / "cheetah-v0/replay.html"
    assert description(page)["times"][1] == pytest.approx(0.05)
    found, tags, title = places_on(page, tmp_path, (1.0, 1.95), 1)
    torso = [mujoco.MjData(environment.unwrapped.model) for _ in range(2)]
    for k, frame in enumerate((20, 39)):
        torso[k].qpos[:] = places[frame]
        mujoco.mj_kinematics(environment.unwrapped.model, torso[k])
        np.testing.assert_allclose(found[k, 0, 2], torso[k].xpos[1, 2], atol=1e-4)
        assert abs(found[k, 0, 0] - torso[k].xpos[1, 0]) < 0.05  # by its velocities
    assert tags == ["timed out"] and "1 timed out" in title
    # another one says no positions, which is named with what there is
    write_minari(tmp_path / "other.hdf5", episodes(2))
    said = replay(tmp_path / "other.hdf5", "--model", "inputs/models/pendulum.xml", "--timestep", 0.1, exit_code=2)
    assert "has no positions" in said and "observations/position" in said and said.count("\n") == 1


@pytest.fixture(scope="module")
def dropped(maniple, tmp_path_factory):
    folder = tmp_path_factory.mktemp("dropped")
    (folder / "ball.xml").write_text(BALL.format(radius=0.2, mass=1).replace('pos="0 0 0.2"', 'pos="0 0 2"'))
    maniple("rollout", f"model.file={folder / 'ball.xml'}", "batch.num_envs=1", "simulation.steps=300", "output.trajectory.every=1",
            "output.trajectory.fields=[qpos,qvel]", f"output.directory={folder / 'run'}")
    return folder / "run"


def coloured(picture):
    """Rows of the pixels that have a colour, as the ball has and the ground has not."""
    return np.argwhere(np.ptp(picture, axis=2) > 0.25)


def test_pictures(dropped, tmp_path):
    """The ball is seen, above the ground and where it has fallen to; curves are beside it where they are asked for."""
    pictures = []
    for moment in (0, 0.55):
        assert "image: " in replay(dropped, "--image", tmp_path / "ball.png", "--time", moment, "--size", "320x240")
        picture = matplotlib.image.imread(tmp_path / "ball.png")[..., :3]
        assert picture.shape == (240, 320, 3) and 0.005 < len(coloured(picture)) / picture[..., 0].size < 0.7
        pictures.append(picture)
    assert (np.abs(pictures[0] - pictures[1]).max(axis=2) > 0.05).mean() > 0.05
    replay(robosuite_file(tmp_path / "demos.hdf5"), "--image", tmp_path / "curves.png", "--curves", "--size", "1000x240")
    assert 0.8 < (matplotlib.image.imread(tmp_path / "curves.png")[:, -300:, :3].min(axis=2) > 0.98).mean() < 0.995  # paper
    assert not (dropped / "replay.html").exists()
    assert "--time 99; allowed: 0 to 0.5" in replay(dropped, "--image", tmp_path / "no.png", "--time", 99, exit_code=2)
    assert "--camera 5; allowed: 0, free" in replay(dropped, "--image", tmp_path / "no.png", "--camera", 5, exit_code=2)
    for wrong, said in ((("--size", "31x20"), "even numbers"), (("--follow",), "found --follow with --image"),
                        (("--curves", "--size", "800x600"), "--curves with --size 800x600"),
                        (("--curves",), "recorded none of"), (("--video", "film.gif"), ".mp4 or .mkv or .mov")):
        assert said in replay(dropped, "--image", tmp_path / "no.png", *wrong, exit_code=2)
    assert not (tmp_path / "no.png").exists()
    assert "found --time with a page" in replay(dropped, "--time", 1, exit_code=2)


def test_films(dropped, tmp_path):
    """As many frames as 0.6 s have, in which something moves."""
    replay(dropped, "--video", tmp_path / "ball.mp4", "--fps", 12.5, "--size", "160x120")
    with av.open(str(tmp_path / "ball.mp4")) as film:
        frames = [frame.to_ndarray(format="rgb24") / 255 for frame in film.decode(video=0)]
        assert film.streams.video[0].average_rate == 12.5
    assert len(frames) == 8 and frames[0].shape == (120, 160, 3)
    assert all(len(coloured(frame)) > 20 for frame in frames)
    assert np.abs(frames[0] - frames[4]).max(axis=2).max() > 0.2


def test_without_what_films_need(dropped, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    said = replay(dropped, "--image", tmp_path / "ball.png", exit_code=2)
    assert "chromium-headless-shell" in said and said.count("\n") == 1


def test_follows_a_training(maniple, tmp_path):
    """The page is written when the run has a policy, and again when it has a newer one; the open page shows it by itself,
    at the time that was looked at."""
    run = tmp_path / "run"
    learn = ["train", PENDULUM, "batch.num_envs=64", "task.episode_length=1", "learning.checkpoint_every=1", f"output.directory={run}"]
    maniple(*learn, "learning.iterations=1")
    follower = subprocess.Popen(
        [sys.executable, ROOT / "tools/replay.py", run, "--follow", "--every", "0.2", "--envs", "2", "--seconds", "0.5"],
        env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT)
    try:
        page = run / "replay.html"
        maniple.wait_for((run / "replay.version.js").exists, "a page", process=follower)
        with Browser(tmp_path, 720, 450) as browser:
            browser.open(page)
            browser.wait_for("Boolean(window.replay)")
            first = browser.evaluate("replay.note")
            browser.evaluate("replay.seek(0.3), replay.camera('1')")
            maniple(*learn, "learning.iterations=3", "learning.resume=auto")
            newest = maniple.checkpoints(run)[-1].stem
            browser.wait_for(f"Boolean(window.replay) && replay.note === 'policy of {newest}'")
            assert first != browser.evaluate("replay.note")
            assert browser.evaluate("replay.time()") == pytest.approx(0.3, abs=0.05)
            assert browser.evaluate("document.getElementById('camera').value") == "1"
            assert browser.picture().std() > 0.02 and browser.problems == []
    finally:
        follower.send_signal(signal.SIGINT)
        said = follower.communicate(timeout=60)[0]
    assert follower.returncode == 0 and said.count(str(page)) >= 2 and said.endswith("replay: stopped\n"), said


def test_refusals(maniple, dropped, tmp_path):
    """One line each, and no page."""
    (tmp_path / "text.hdf5").write_text("text")
    write_robomimic(tmp_path / "demos.hdf5", episodes(2))
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["numbers"] = np.zeros(3)
    (tmp_path / "broken.xml").write_text("<mujoco><worldbody><geom/></worldbody></mujoco>")
    for arguments, said in (([tmp_path / "none"], "is not there"), ([tmp_path / "text.hdf5"], "cannot be read as HDF5"),
                            ([tmp_path / "other.h5"], "/data/demo_0 (robomimic)"),
                            ([tmp_path / "demos.hdf5"], "names no model"),
                            ([tmp_path / "demos.hdf5", "--model", tmp_path / "broken.xml"], "broken.xml: "),
                            ([dropped, "--model", "x.xml"], "found --model with"), ([tmp_path / "none", "--follow"], "is not there")):
        answer = replay(*arguments, exit_code=2)
        assert said in answer and answer.count("\n") == 1, answer
    for option in ("--force-scale", "--fps", "--timestep"):
        assert f"{option} 0; allowed: a number above 0" in replay(dropped, option, 0, exit_code=2)
    assert not [file for file in os.listdir(tmp_path) if file.endswith(".html")]
