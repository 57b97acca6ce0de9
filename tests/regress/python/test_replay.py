"""The page of maniple.replay in a real browser: robots are where MuJoCo says, they move, contacts appear, the page
makes no network requests, and the console stays empty."""
# ctest: PROCESSORS 1

import json
import re

import mujoco
import numpy as np
import pytest
from conftest import start_tool
from maniple.browser import Browser
from maniple.results import Run
from test_tools import check_refusals

ANT = "package:gymnasium/envs/mujoco/assets/ant.xml"
PENDULUM = "inputs/tasks/pendulum_swingup.yaml"


def replay(*arguments, exit_code=0):
    result = start_tool("replay.py", *arguments)
    assert result.returncode == exit_code, result.stdout + result.stderr
    return result.stdout + result.stderr


def description(page):
    text = re.search(r'<script id="description" type="application/json">(.*?)</script>', page.read_text(), re.S)[1]
    return json.loads(text)


@pytest.fixture(scope="module")
def ants(maniple, tmp_path_factory):
    directory = tmp_path_factory.mktemp("replay") / "ants"
    maniple("rollout", f"model.file={ANT}", "batch.num_envs=3", "control.source=random", "simulation.steps=60",
            "simulation.decimation=5", "output.trajectory.every=1", "output.trajectory.fields=[qpos,qvel,ctrl]",
            f"output.directory={directory}")
    replay(directory)
    return directory


def share(picture, condition):
    return condition(*np.moveaxis(picture, -1, 0)).mean()


def test_robots_move(ants, tmp_path):
    with Run(ants / "results.h5") as run, Browser(tmp_path, 720, 450) as browser:
        browser.open(ants / "replay.html")
        browser.wait_for("Boolean(window.replay) && replay.time() > 0")  # it plays by itself
        facts = description(ants / "replay.html")
        qpos, qvel, ctrl = (run.trajectories[name][()].astype(float) for name in ("qpos", "qvel", "ctrl"))

        pictures = []
        for k in (2, 20, len(facts["times"]) - 1):
            sample = round(facts["times"][k] / run.control_timestep())
            browser.evaluate(f"replay.seek({facts['times'][k]})")
            for env in range(3):
                np.testing.assert_allclose(browser.evaluate(f"replay.place({env})"), qpos[env, sample, :3], atol=1e-5)
            pictures.append(browser.picture())
        copper = lambda r, g, b: (r > b + 0.15) & (r > 0.25)  # what the model's geoms are coloured
        for picture in pictures:
            assert picture.std() > 0.05 and 0.002 < share(picture, copper) < 0.4
        moved = [np.abs(a - b).max(axis=2) > 0.1 for a, b in zip(pictures, pictures[1:])]
        assert min(m.mean() for m in moved) > 0.002

        # a frame in which somebody touches the ground: as many marks as libmujoco has contacts, and they are seen
        model, counts = run.model, []
        data = mujoco.MjData(model)
        for time in facts["times"]:
            sample, count = round(time / run.control_timestep()), 0
            for env in range(3):
                data.qpos[:], data.qvel[:], data.ctrl[:] = qpos[env, sample], qvel[env, sample], ctrl[env, sample]
                mujoco.mj_forward(model, data)
                count += data.ncon
            counts.append(count)
        touching = int(np.argmax(counts))
        assert counts[touching] > 0
        browser.evaluate(f"replay.seek({facts['times'][touching]})")
        assert browser.evaluate("replay.contacts(false)") == 0
        without = browser.picture()
        assert browser.evaluate("replay.contacts(true)") == counts[touching]
        shown = browser.picture()
        assert (np.abs(shown - without).max(axis=2) > 0.1).sum() > 10

        # one robot, closer: more of the picture is robot
        browser.evaluate("replay.camera('1')")
        assert share(browser.picture(), copper) > 1.2 * share(shown, copper)

        # time runs when it plays, and stands when it does not
        browser.evaluate("replay.seek(0), replay.setPlaying(true)")
        browser.wait_for("replay.time() > 0.2")
        browser.evaluate("replay.setPlaying(false)")
        stands = browser.evaluate("replay.time()")
        assert browser.evaluate("new Promise((done) => setTimeout(() => done(replay.time()), 300))") == stands
        assert browser.problems == []
        assert {url.split(":")[0] for url in browser.requests} <= {"file", "data", "blob"}


def test_policy_of_a_training(maniple, tmp_path):
    """A training recorded no poses: its newest policy is rolled out, and what its task says is drawn. (The directory has
    the name of an ensemble's member, which looks like a key with its value.)"""
    run = tmp_path / "learning.gamma=0.98"
    maniple("train", PENDULUM, "batch.num_envs=64", "learning.iterations=2", "task.episode_length=1", f"output.directory={run}")
    replay(run, "--envs", 2, "--seconds", 3)
    facts = description(run / "replay.html")
    with Run(run / "rollout/results.h5") as rollout:
        terms = rollout.names("reward_term")
        np.testing.assert_allclose(rollout.trajectories["reward_term"][()].sum(axis=2), rollout.trajectories["reward"][..., 0],
                                   rtol=1e-5, atol=1e-5)
    assert len(terms) >= 2
    assert [curve["names"] for curve in facts["curves"]] == [["0"], terms, ["joint_effort/hinge"]]
    assert facts["times"][-1] == pytest.approx(3, abs=0.05) and facts["envs"] == [0, 1]
    with Browser(tmp_path, 720, 450) as browser:
        browser.open(run / "replay.html")
        browser.wait_for("Boolean(window.replay)")
        browser.evaluate("replay.seek(1.5)")
        legend = browser.evaluate("[...document.querySelectorAll('.legend em')].map((e) => e.textContent).join(' ')")
        assert legend.split() == terms
        # numbers beside the curves are seen whole, and lines are told apart
        assert all(widest <= left - 8 for left, widest in browser.evaluate("replay.margins()"))
        assert len(set(browser.evaluate("replay.colours(40)"))) == 40
        assert browser.problems == []


def test_which_program_rolls_out(maniple, tmp_path, monkeypatch):
    """The one that MANIPLE_PROGRAM names, before that of the build folder; one that is not there is no reason to take another."""
    maniple("train", PENDULUM, "batch.num_envs=64", "learning.iterations=1", "task.episode_length=1", f"output.directory={tmp_path / 'run'}")
    program = tmp_path / "my program"
    program.write_text(f'#!/bin/sh\necho "$1" >> "{tmp_path}/started"\nexec "{maniple.program}" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("MANIPLE_PROGRAM", str(program))
    replay(tmp_path / "run", "--envs", 1, "--seconds", 0.1)
    assert (tmp_path / "started").read_text() == "rollout\n" and (tmp_path / "run/replay.html").is_file()
    (tmp_path / "run/replay.html").unlink()
    program.chmod(0o644)
    for wrong in (program, tmp_path / "none", "no-program"):
        monkeypatch.setenv("MANIPLE_PROGRAM", str(wrong))
        said = replay(tmp_path / "run", "--envs", 1, exit_code=2)
        assert said.startswith(f"replay.py: error: MANIPLE_PROGRAM: found '{wrong}', which is no program") and said.count("\n") == 1, said
    monkeypatch.delenv("MANIPLE_PROGRAM")
    monkeypatch.setenv("MANIPLE_BUILD_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    said = replay(tmp_path / "run", "--envs", 1, exit_code=2)
    assert f"neither {tmp_path}/maniple nor in PATH: MANIPLE_PROGRAM names it" in said and said.count("\n") == 1
    assert not (tmp_path / "run/replay.html").exists()


def test_policy_of_an_imitation(maniple, tmp_path):
    """As of a training; one without a task has no robot."""
    maniple("rollout", PENDULUM, "batch.num_envs=4", "simulation.steps=50", "task.episode_length=1", "initial_state.source=task",
            "control.source=random", "output.dataset=robomimic", f"output.directory={tmp_path / 'random'}")
    learn = ["learning.preset=robomimic", "policy.hidden=[8, 8]", "learning.steps=5", "data.normalize_actions=mean_std",
             "policy.squash_actions=false", f"data.file={tmp_path / 'random/demonstrations.hdf5'}"]
    maniple("imitate", PENDULUM, *learn, f"output.directory={tmp_path / 'clone'}")
    (tmp_path / "random").rename(tmp_path / "elsewhere")
    replay(tmp_path / "clone", "--envs", 2, "--seconds", 0.5)
    (tmp_path / "elsewhere").rename(tmp_path / "random")
    facts = description(tmp_path / "clone/replay.html")
    assert facts["times"][-1] == pytest.approx(0.5, abs=0.05) and facts["envs"] == [0, 1]
    with Run(tmp_path / "clone/rollout") as rollout:
        assert rollout.trajectories["action"].shape == (2, 26, 1) and np.abs(rollout.trajectories["action"][()]).max() > 0
    maniple("imitate", *learn, f"output.directory={tmp_path / 'pure'}")
    assert "of a training without a task" in replay(tmp_path / "pure", exit_code=2)


def test_nothing_to_show(maniple, tmp_path):
    maniple("rollout", "model.file=inputs/models/pendulum.xml", "batch.num_envs=1", "simulation.steps=2",
            f"output.directory={tmp_path / 'run'}")
    assert "output.trajectory.fields=[qpos,qvel,ctrl]" in replay(tmp_path / "run", exit_code=2)
    assert "is not there" in replay(tmp_path / "nowhere", exit_code=2)
    assert "--envs 0; allowed: 1 to 1000" in replay(tmp_path / "run", "--envs", 0, exit_code=2)
    assert "those of 1 run, for instance" in replay(tmp_path, exit_code=2)


def test_damaged_results(maniple, ants):
    for given in (ants, ants / "results.h5"):
        check_refusals("replay.py", ants / "results.h5", given)
    assert "/dev/null/replay.html" in replay(ants, "--output", "/dev/null/replay.html", exit_code=2)


def test_page_reads_what_it_is_given(maniple, ants):
    """Every name in the description of a page is one that its script asks for."""
    facts = description(ants / "replay.html")
    script = "".join(file.read_text() for file in (maniple.root / "tools/maniple/replay_page").glob("*.js"))
    for owner, entry in (("run", facts), ("curve", facts["curves"][0])):
        assert [name for name in entry if f"{owner}.{name}" not in script] == []
