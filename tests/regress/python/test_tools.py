"""Messages and helps of the scripts of tools/."""
# ctest: PROCESSORS 1

import fcntl
import itertools
import os
import pty
import re
import shutil
import subprocess
import sys
import termios
from pathlib import Path

import h5py
import numpy as np
import pytest

from conftest import ENVIRONMENT, of_the_day, start_tool
from damages import flip_bit_of_number, truncate
from demonstrations import episodes, write_robomimic
from maniple.results import BLOCK_BYTES, SEAL_BYTES, Run, check_seal

CARTPOLE = "inputs/train/isaac_cartpole.yaml"


@pytest.fixture(scope="module")
def trained(maniple, tmp_path_factory):
    directory = tmp_path_factory.mktemp("run")
    maniple("train", CARTPOLE, "batch.num_envs=64", "learning.iterations=3", f"output.directory={directory}", ranks=0)
    return directory


def plot(*arguments):
    return start_tool("plot_learning_curve.py", *arguments)


def text(path):
    path.write_text("text")


def truncate_unsealed(path):
    path.write_bytes(bytes(SEAL_BYTES) + path.read_bytes()[SEAL_BYTES:])
    truncate(path)


def check_refusals(tool, file, *arguments):
    """A tool that is given a damaged file says so in one line and does nothing else. The file is whole again afterwards."""
    good = file.read_bytes()
    for damage, reason in ((flip_bit_of_number, "is damaged"), (truncate, "is damaged"), (truncate_unsealed, "truncated"),
                           (text, "cannot be read as HDF5")):
        damage(file)
        result = start_tool(tool, *arguments)
        file.write_bytes(good)
        assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1), (damage, result)
        assert result.stderr.startswith(f"{Path(tool).name}: error: {file}") and reason in result.stderr, (damage, result)


def test_learning_curve(maniple, trained, tmp_path):
    """Of a directory or a file; no whole episode has ended here."""
    for run in (trained, trained / "results.h5"):
        result = plot(run)
        assert (result.returncode, result.stdout) == (0, f"learning curve: {trained}/learning_curve.png\n"), result
        (trained / "learning_curve.png").unlink()
    picture = tmp_path / "curve.png"
    assert plot(trained, "--output", picture).stdout == f"learning curve: {picture}\n" and picture.exists()


def test_learning_curve_of_a_task_with_metrics(maniple, tmp_path):
    """A panel for each metric, by its name in the deck, one of how episodes end, and one for each curriculum. Lines of the
    training have them, too."""
    from maniple import plot as curves

    metrics = ["speed", "kl", *(f"m{i}" for i in range(4))]
    curricula = {"level": "level + 0.5", "level_of_one": "3 * iteration", "speed_level": "iteration"}
    told = maniple("train", CARTPOLE, "batch.num_envs=64", "learning.iterations=3", "task.episode_length=0.2",
                   *(f"task.metrics.{name}=norm(qvel)" for name in metrics), 'task.curricula.fixed={reset: "7"}',
                   *(f"task.curricula.{name}={{reset: '0', update: '{update}'}}" for name, update in curricula.items()),
                   f"output.directory={tmp_path}", ranks=0).stdout
    assert "  level 1  level_of_one 6  speed_level 2" in told and "fixed" not in told
    assert plot(tmp_path).stdout == f"learning curve: {tmp_path}/learning_curve.png\n"
    with Run(tmp_path) as run:
        panels = curves_of(curves.draw(run, None, "title"))
        for name in metrics:
            np.testing.assert_array_equal(panels[name], [[run.metrics["env_steps"], run.metrics[f"metric_{name}"]]])
        ends = [name for name in run.metrics if name.startswith("termination_")]
        assert len(panels["Ends of episodes (share)"]) == len(ends) > 1 and len(panels) == 5 + 1 + len(metrics) + 3
        steps, values = run.metrics["env_steps"], run.metrics
        np.testing.assert_array_equal(panels["Curriculum speed_level"], [[steps, [0, 1, 2]]])
        # (as the level of one kind of ground is)
        np.testing.assert_array_equal(panels["Curriculum level"],
                                      [[steps, values["curriculum_level_of_one"]], [steps, values["curriculum_level"]]])
        for (_, values), name in zip(panels["Ends of episodes (share)"], ends):
            np.testing.assert_array_equal(values, run.metrics[name])
        # a number of the learner has the name for itself
        np.testing.assert_array_equal(run.metrics["speed"], run.metrics["metric_speed"])
        assert (run.metrics["kl"] != run.metrics["metric_kl"]).all()
        assert (run.metrics.told("metric_speed"), run.metrics.told("metric_kl")) == ("speed", "metric_kl")
    assert plot(tmp_path, "--metric", "speed").returncode == 0
    assert curves.settings_of_runs([tmp_path], "metric_speed")[1] == "speed"


def test_no_panel_is_cut_off(maniple, tmp_path):
    """With many metrics, terms and ends, and with long names: all of it is inside the picture, beside one another, and no panel
    gives its room to a legend."""
    from maniple import plot as curves

    long = [f"a_rather_long_name_of_something_that_somebody_measures_{i}" for i in range(3)]
    maniple("train", CARTPOLE, "batch.num_envs=64", "learning.iterations=3", "task.episode_length=0.2",
            *(f"task.metrics.{name}=norm(qvel)" for name in [*long, *(f"m{i}" for i in range(20))]),
            *(f"task.rewards.{name}={{expression: 'norm(qvel)', weight: 0.01}}" for name in [*long, *(f"term_{i}" for i in range(30))]),
            *(f"task.terminations.{name}={{expression: 'norm(qvel) > 1000'}}" for name in [*long, *(f"end_{i}" for i in range(12))]),
            f"output.directory={tmp_path}", ranks=0)
    assert plot(tmp_path).returncode == 0
    with Run(tmp_path) as run:
        figure = curves.draw(run, None, "title")
        figure.canvas.draw()
        whole = figure.bbox
        boxes = {axis.get_title(loc="left"): axis.get_tightbbox() for axis in figure.axes}
        names = {text.get_text() for axis in figure.axes if axis.get_legend() for text in axis.get_legend().get_texts()}
        assert {"term_7", "end_7", "alive"} <= names
        assert len(boxes) == 5 + 1 + 23
        for heading, box in boxes.items():
            assert whole.x0 <= box.x0 and box.x1 <= whole.x1 and whole.y0 <= box.y0 and box.y1 <= whole.y1, (heading, box, whole)
        for (heading, box), (other, beside) in itertools.combinations(boxes.items(), 2):
            shared = min(box.x1, beside.x1) - max(box.x0, beside.x0), min(box.y1, beside.y1) - max(box.y0, beside.y0)
            assert min(shared) < 1, (heading, other, shared)
        for axis in figure.axes:
            assert axis.bbox.height / figure.dpi > 0.9 and axis.bbox.width / figure.dpi > 1.6, axis.get_title(loc="left")
        # speed is seen whole, where it is not three times its median
        (speed,) = (axis for axis in figure.axes if axis.get_title(loc="left") == "Environment steps per second")
        values = speed.lines[0].get_ydata()
        assert speed.get_ylim()[1] >= min(values.max(), 3 * np.median(values))


def test_early_episodes_are_lighter(maniple, tmp_path):
    """Up to the iteration in which as many episodes had ended as there are environments, in panels of means over episodes and in
    curves of several runs, with words that say so; not where all end at once."""
    from maniple import plot as curves

    maniple("train", CARTPOLE, "batch.num_envs=256", "learning.iterations=10", "task.metrics.speed=norm(qvel)",
            f"output.directory={tmp_path / 'early'}", ranks=0)
    maniple("train", CARTPOLE, "batch.num_envs=64", "learning.iterations=3", "learning.horizon=32", "task.episode_length=0.2",
            f"output.directory={tmp_path / 'short'}", ranks=0)
    with Run(tmp_path / "early") as run, Run(tmp_path / "short") as other:
        count, steps, returns = run.metrics["episodes"], run.metrics["env_steps"], run.metrics["episode_return"]
        early = curves.early_rows(run)
        assert 0 < early < 10 and count[:early].sum() < 256 <= count[:early + 1].sum()
        assert curves.early_rows(other) == 0
        figure = curves.draw(run, None, "")
        for axis in figure.axes:
            spans = [patch.get_extents().transformed(axis.transData.inverted()) for patch in axis.patches]
            heading = axis.get_title(loc="left")
            of_episodes = heading.startswith(("Mean", "Episode", "Reward", "Ends", "speed"))
            assert [span.intervalx for span in spans] == ([pytest.approx([0, steps[early]], abs=0.1)] if of_episodes else []), heading
        labels = [axis.get_xlabel() for axis in figure.axes]
        assert sum("lighter: fewer episodes have ended than there are environments" in label for label in labels) == 1
        assert not any("lighter" in axis.get_xlabel() or axis.patches for axis in curves.draw(other, None, "").axes)
    for metric, lighter in (("episode_return", True), ("speed", True), ("kl", False)):
        label, told, settings = curves.settings_of_runs([tmp_path / "early"], metric)
        (axis,) = curves.draw_settings(settings, told, label, None, "").axes
        assert ("lighter" in axis.get_xlabel()) == lighter and len(axis.lines) == 1 + lighter
        if metric == "episode_return":
            full, light = (line.get_xydata().T for line in axis.lines)
            np.testing.assert_array_equal(full, [steps[early:], returns[early:]])
            np.testing.assert_array_equal(light[0][[0, -1]], [steps[np.isfinite(returns)][0], steps[early]])
            assert axis.lines[1].get_alpha() < 0.5 and len(axis.get_legend().get_texts()) == 1


def test_learning_curves_of_an_ensemble(maniple, trained, tmp_path):
    """A line of its own for each setting, in a band that holds the curves of its seeds."""
    from maniple import plot as curves

    maniple("train", CARTPOLE, "batch.num_envs=64", "learning.iterations=4", "learning.horizon=32", "task.episode_length=0.2",
            "ensemble={learning.gamma: [0.9, 0.99], batch.seed: [1, 2]}", f"output.directory={tmp_path}", ranks=2)
    assert plot(tmp_path).stdout == f"learning curves: {tmp_path}/learning_curve.png\n"
    label, metric, settings = curves.settings_of_ensemble(tmp_path, "episode_return")
    figure = curves.draw_settings(settings, metric, label, None, "title")
    (axis,) = figure.axes
    assert [line.get_label() for line in axis.lines] == ["learning.gamma=0.9: 2 seeds", "learning.gamma=0.99: 2 seeds"]
    for gamma, line, band in zip(("0.9", "0.99"), axis.lines, axis.collections):
        files = [tmp_path / f"learning.gamma={gamma},batch.seed={seed}/results.h5" for seed in (1, 2)]
        values = []
        for file in files:
            with h5py.File(file) as results:
                values.append(results["metrics/episode_return"][()])
        np.testing.assert_allclose(line.get_ydata(), np.mean(values, axis=0))
        corners = band.get_paths()[0].vertices[:, 1]
        assert (corners.min(), corners.max()) == (np.min(values), np.max(values))
    result = plot(tmp_path, "--metric", "none")
    assert result.returncode == 2 and "has no metric none: " in result.stderr and "Traceback" not in result.stderr


def test_learning_curves_of_several_runs(maniple, trained, demos, tmp_path):
    """A line for each, by the name of its directory; of an ensemble's settings as well."""
    from maniple import plot as curves

    maniple("train", CARTPOLE, "batch.num_envs=128", "learning.iterations=2", f"output.directory={tmp_path / 'large'}", ranks=0)
    ensemble = tmp_path / "seeds"
    maniple("train", CARTPOLE, "batch.num_envs=64", "learning.iterations=2", "ensemble={batch.seed: [1, 2]}",
            f"output.directory={ensemble}", ranks=2)
    picture = tmp_path / "all.png"
    result = plot(trained, tmp_path / "large/results.h5", ensemble, "--metric", "kl", "--output", picture)
    assert (result.returncode, result.stdout) == (0, f"learning curves: {picture}\n") and picture.exists(), result
    label, metric, settings = curves.settings_of_runs([trained, tmp_path / "large/results.h5", ensemble], "kl")
    (axis,) = curves.draw_settings(settings, metric, label, None, "").axes
    assert [line.get_label() for line in axis.lines] == [trained.name, "large", "seeds: 2 seeds"]
    assert (axis.get_title(loc="left"), axis.get_xlabel()) == ("kl, mean and range", "environment steps")
    for line, directory in zip(axis.lines, (trained, tmp_path / "large")):
        with Run(directory) as run:
            np.testing.assert_array_equal(line.get_xydata().T, [run.metrics["env_steps"], run.metrics["kl"]])
    copy = shutil.copytree(trained, tmp_path / "other" / trained.name)
    assert list(curves.settings_of_runs([trained, copy])[2]) == [str(trained), str(copy)]
    assert plot(trained, "--metric", "kl").stdout == f"learning curves: {trained}/learning_curve.png\n"

    imitation(maniple, demos, tmp_path / "clone")
    for runs, reason in (((trained, tmp_path / "clone"), f"{tmp_path}/clone/results.h5 has no metric episode_return_100"),
                         ((trained, tmp_path / "clone", "--metric", "learning_rate"), f"{tmp_path}/clone goes over updates"),
                         ((trained, tmp_path / "none"), f"{tmp_path}/none: no such file")):
        result = plot(*runs)
        assert result.returncode == 2 and reason in result.stderr and "Traceback" not in result.stderr, result


@pytest.fixture(scope="module")
def demos(tmp_path_factory):
    return write_robomimic(tmp_path_factory.mktemp("data") / "demos.hdf5", episodes(6), {"held": [4, 5]})


def imitation(maniple, demos, directory, *keys):
    """12 updates on demonstrations of a task of its own, whose policy is tried after 6 and 12."""
    maniple("imitate", *keys, "learning.preset=robomimic", "policy.hidden=[8, 8]", "learning.steps=12", "learning.report_every=3",
            "learning.batch_size=16", f"data.file={demos}", "data.observations=[position, velocity]",
            "data.normalize_actions=mean_std", "policy.squash_actions=false", f"output.directory={directory}", ranks=2)


def curves_of(figure):
    """By heading of the panel, its lines: [(x, y)] of those that have more than one point."""
    return {axis.get_title(loc="left"): [line.get_xydata().T for line in axis.lines if len(line.get_xydata()) > 1]
            for axis in figure.axes}


@pytest.mark.parametrize("loss", of_the_day(["l2", "gmm"], "gmm"))  # squares, and a likelihood, which may be negative
def test_learning_curve_of_imitation(maniple, demos, tmp_path, loss):
    """Losses over updates; those over the demonstrations that are held out begin after the first epoch."""
    from maniple import plot as curves

    imitation(maniple, demos, tmp_path, "data.validation_filter=held", f"learning.loss={loss}")
    assert plot(tmp_path).stdout == f"learning curve: {tmp_path}/learning_curve.png\n"
    with Run(tmp_path) as run:
        panels = curves_of(curves.draw(run, None, "title"))
        held = run.metrics["validation_loss"]
        assert len(panels["Loss"]) == 2 and 0 < np.isfinite(held).sum()
        np.testing.assert_array_equal(panels["Loss"][0], [[3, 6, 9, 12], run.metrics["loss"]])
        np.testing.assert_array_equal(panels["Loss"][1][1], held[np.isfinite(held)])
        np.testing.assert_array_equal(panels["Gradient norm"][0][1], run.metrics["gradient_norm"])
    assert panels["Return of evaluations"] == []


def test_learning_curve_of_an_evaluated_imitation(maniple, tmp_path):
    """Success and return where the policy was tried."""
    from maniple import plot as curves

    task = ["inputs/tasks/two_roads.yaml"]
    maniple("rollout", *task, "batch.num_envs=4", "simulation.steps=100", "initial_state.source=task", "control.source=random",
            "output.dataset=robomimic", f"output.directory={tmp_path / 'random'}")
    maniple("imitate", *task, "learning.preset=robomimic", "policy.hidden=[8, 8]", "learning.steps=12", "learning.report_every=3",
            f"data.file={tmp_path / 'random/demonstrations.hdf5'}", "evaluation.every=6", "evaluation.episodes=3",
            f"output.directory={tmp_path / 'run'}")
    assert plot(tmp_path / "run", "--ceiling", 1).stdout == f"learning curve: {tmp_path}/run/learning_curve.png\n"
    with Run(tmp_path / "run") as run:
        panels = curves_of(curves.draw(run, None, "title"))
        for heading, name in (("Success of evaluations", "evaluation_success_rate"), ("Return of evaluations", "evaluation_return")):
            np.testing.assert_array_equal(panels[heading][0], [[6, 9, 12], run.metrics[name][1:]])


def test_learning_curves_of_an_ensemble_of_imitations(maniple, demos, tmp_path):
    from maniple import plot as curves

    imitation(maniple, demos, tmp_path, "ensemble={learning.learning_rate: [1e-3, 1e-4], batch.seed: [1, 2]}")
    assert plot(tmp_path).stdout == f"learning curves: {tmp_path}/learning_curve.png\n"
    label, metric, settings = curves.settings_of_ensemble(tmp_path)
    assert (label, metric, len(settings)) == ("updates", "loss", 2)
    for steps, values, _ in settings.values():
        assert list(steps) == [3, 6, 9, 12] and values.shape == (2, 4)


@pytest.mark.parametrize("make, message", [
    (lambda path: None, "run: no such file"),
    (lambda path: path.mkdir(), "run/results.h5: no such file"),
    (lambda path: path.write_text("text"), "run: cannot be read as HDF5: "),
], ids=["nothing", "empty", "text"])
def test_learning_curve_of_nothing(maniple, tmp_path, make, message):
    make(tmp_path / "run")
    result = plot(tmp_path / "run")
    assert result.returncode == 2 and f"error: {tmp_path}/{message}" in result.stderr and "Traceback" not in result.stderr


def test_learning_curve_of_damaged_results(maniple, trained, tmp_path):
    """Also of those of an ensemble's member."""
    results = shutil.copytree(trained, tmp_path / "member") / "results.h5"
    check_refusals("plot_learning_curve.py", results, results.parent)
    check_refusals("maniple/results.py", results, results)
    (tmp_path / "ensemble_results.csv").write_text("member,batch.seed,ending\nmember,1,done\n")
    assert plot(tmp_path).returncode == 0
    check_refusals("plot_learning_curve.py", results, tmp_path)
    result = plot(trained, "--output", "/dev/null/curve.png")
    assert result.returncode == 2 and "/dev/null/curve.png" in result.stderr and result.stderr.count("\n") == 1, result


def test_seal(maniple, tmp_path):
    """A file of some blocks is as it was written, and with any bit of it changed it is not; neither is one that was edited."""
    maniple("rollout", "model.file=inputs/models/arm6.xml", "batch.num_envs=301", "simulation.steps=100",
            "output.trajectory.every=1", "output.trajectory.fields=[qpos,qvel,ctrl]", f"output.directory={tmp_path}")
    path, changed = tmp_path / "results.h5", tmp_path / "changed.h5"
    good = path.read_bytes()
    assert len(good) > SEAL_BYTES + 2 * BLOCK_BYTES
    check_seal(path)
    second = SEAL_BYTES + BLOCK_BYTES
    for place in (15, SEAL_BYTES - 1, SEAL_BYTES, second - 1, second, len(good) - 1):
        data = bytearray(good)
        data[place] ^= 0x80
        changed.write_bytes(data)
        with pytest.raises(OSError, match=f"{changed} is damaged"):
            Run(changed)
    changed.write_bytes(bytes(SEAL_BYTES) + good[SEAL_BYTES:])  # as it is before it is finished
    with Run(path) as sealed, Run(changed) as unsealed:
        np.testing.assert_array_equal(unsealed.trajectories["qpos"][()], sealed.trajectories["qpos"][()])
    with h5py.File(path, "r+") as file:
        file["trajectory/qpos"][0, 0, 0] += 1
    with pytest.raises(OSError, match=f"{path} is damaged, or was changed"):
        Run(path)


def test_the_module_of_python_says_what_builds_it(maniple, tmp_path):
    """After a build by CMake alone: the target; of a build folder that has none, or none for this Python, how it gets one."""
    build = tmp_path / "build"

    def said():
        ended = subprocess.run([sys.executable, "-c", "import maniple; maniple.make_vec('isaac_cartpole')"], capture_output=True, text=True,
                               env={**ENVIRONMENT, "PYTHONPATH": str(maniple.root / "tools"), "MANIPLE_BUILD_DIR": str(build)}, cwd=tmp_path)
        assert ended.returncode == 1
        return ended.stderr.splitlines()[-1]

    missing = f"ImportError: found no module _maniple in {maniple.root}/tools/maniple or {build}/python; "
    assert said().startswith(f"{missing}{build} is no build folder of CMake; tools/run.sh builds program and module")
    build.mkdir()
    (build / "CMakeCache.txt").write_text("")
    (build / "build.ninja").write_text("build maniple: phony\n")
    assert said().startswith(f"{missing}{build} was configured without it; `cmake -S {maniple.root} -B {build} -DMANIPLE_PYTHON_PACKAGE=ON`")
    (build / "build.ninja").write_text("build maniple_python: phony python/_maniple.so\n")
    assert said().startswith(f"{missing}`cmake --build {build} --target maniple_python` builds it")
    (build / "python").mkdir()
    other = build / "python/_maniple.cpython-39-x86_64-linux-gnu.so"
    other.write_bytes(b"")
    assert said().startswith(f"ImportError: found {other}, of another Python than {sys.executable}") and "--target maniple_python" in said()


def test_a_build_says_what_it_does(maniple, tmp_path):
    """How long the first build takes, also where no terminal shows ninja's line."""
    (tmp_path / "build.ninja").write_text("rule make\n  command = touch $out\nbuild one: make\nbuild two: make one\n")
    command = ["bash", "-c", f". {maniple.root}/tools/common.sh; configure_build .; build_targets . two"]
    first, second = (subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout for _ in range(2))
    assert first.startswith("Building two in .: ten minutes or so on two cores (log: ./build.log)\n") and first.count("\n") == 1 and second == ""


def on_a_terminal(command, folder, environment):
    """What a terminal of 50 columns is told, and the exit code."""
    main, other = pty.openpty()
    termios.tcsetwinsize(other, (20, 50))
    started = subprocess.Popen(command, cwd=folder, env=environment, stdin=other, stdout=other, stderr=other, start_new_session=True,
                               preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    os.close(other)
    told = b""
    while True:
        try:
            told += os.read(main, 4096)
        except OSError:  # (the last one who writes has gone)
            break
    os.close(main)
    return told.decode(), started.wait(timeout=60)


def test_a_build_says_how_far_it_is(maniple, tmp_path):
    """In one moving line on a terminal, in a line now and then elsewhere; what compilers say is printed, all of it is in the log,
    and a build that fails fails."""
    (tmp_path / "build.ninja").write_text(
        "rule make\n  command = sleep $seconds && echo warning of $out && touch $out\n  description = Building $out, whose name is long, so long that it takes a second line\n"
        "rule bad\n  command = echo wrong && false\n"
        "build one: make\n  seconds = 0.1\nbuild two: make one\n  seconds = 2.5\nbuild three: make two\n  seconds = 0.1\nbuild four: bad three\n")
    script = f"set -euo pipefail; . {maniple.root}/tools/common.sh; configure_build .; build_targets . three; build_targets . four || exit 7"
    environment = {**ENVIRONMENT, "MANIPLE_PROGRESS_EVERY": "1"}
    elsewhere = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert elsewhere.returncode == 7 and elsewhere.stderr == "", elsewhere
    lines = elsewhere.stdout.splitlines()
    # (while `two` is being made, `one` was the last to be ready)
    assert any(re.fullmatch(r"\[1/3\] Building one, .* second line \([12] s\)", line) for line in lines), lines
    assert [line for line in lines if line.startswith("warning")] == [f"warning of {name}" for name in ("one", "two", "three")]
    assert "FAILED: four " in lines and lines[-1] == "ninja: build stopped: subcommand failed." and not any("\r" in line for line in lines)
    log = (tmp_path / "build.log").read_text()
    assert "[1/1] echo wrong && false\n" in log and "\nwrong\n" in log
    for name in ("one", "two", "three", ".ninja_log"):
        (tmp_path / name).unlink()
    told, code = on_a_terminal(["bash", "-c", script], tmp_path, environment)
    assert code == 7
    for number, name in enumerate(("one", "two", "three"), 1):
        # the line is as long as the terminal is wide, less one, and gives its place to what is printed
        line = f"[{number}/3] Building {name}, whose name is long, so long that it takes a second line"[:49]
        assert f"\r\x1b[K{line}\r\x1b[Kwarning of {name}\r\n" in told, told
    assert told.endswith("ninja: build stopped: subcommand failed.\r\n")
