"""Promises 4 and 5: a run that is killed at any instant continues on any number of ranks and ends with the bits
of the undisturbed one; a polite stop leaves a checkpoint and exit code 75."""
# ctest: COST 60

import fcntl
import os
import pty
import random
import re
import signal
import socket
import subprocess
import termios
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
from conftest import of_the_day

DECK = "inputs/train/isaac_cartpole.yaml"
ITERATIONS = 12
SETTINGS = [DECK, "batch.num_envs=515", f"learning.iterations={ITERATIONS}", "learning.checkpoint_every=2",
            "run.progress=plain"]


def arguments(directory, *more):
    return ["train", *SETTINGS, f"output.directory={directory}", "learning.resume=auto", *more]


@pytest.fixture(scope="module")
def undisturbed(maniple, tmp_path_factory):
    """Digests of the run that nothing disturbs."""
    directory = tmp_path_factory.mktemp("undisturbed")
    maniple(*arguments(directory), ranks=2)
    return final_digests(maniple, directory)


def final_digests(maniple, directory):
    return maniple.digest(maniple.checkpoints(directory)[-1]), maniple.digest(directory / "results.h5")


def iterations_logged(directory):
    events = directory / "log.jsonl"
    return events.read_text().count('"event": "iteration"') if events.exists() else 0


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.nightly
def test_killed_at_random_times(maniple, tmp_path, undisturbed, seed):
    chance = random.Random(seed)
    kills = 0
    for attempt, ranks in enumerate((2, 3, 1, 4)):
        before = iterations_logged(tmp_path)
        process = maniple.start(*arguments(tmp_path), ranks=ranks, log=tmp_path / f"log{attempt}")
        wanted = before + chance.randrange(ITERATIONS // 2)
        while process.poll() is None and iterations_logged(tmp_path) < wanted:
            time.sleep(0.001)
        time.sleep(chance.uniform(0, 0.05))
        if process.poll() is None:
            kills += 1
        maniple.kill_all(process)
    maniple(*arguments(tmp_path), ranks=3)
    assert kills > 0
    assert final_digests(maniple, tmp_path) == undisturbed
    leftovers = [p.name for p in (tmp_path / "checkpoints").iterdir() if p.suffix == ".h5"]
    assert 1 <= len(leftovers) <= 3, "older checkpoints are pruned"


def test_killed_while_a_checkpoint_is_written(maniple, tmp_path, undisturbed):
    # a checkpoint each iteration, killed in the moment the first one appears: most of the time is spent writing
    process = maniple.start(*arguments(tmp_path, "learning.checkpoint_every=1"), ranks=2, log=tmp_path / "log")
    maniple.wait_for(lambda: maniple.checkpoints(tmp_path), "a first checkpoint", process=process)
    maniple.kill_all(process)
    maniple(*arguments(tmp_path), ranks=1)
    assert final_digests(maniple, tmp_path) == undisturbed


def test_a_finished_run_stays_as_it_is(maniple, tmp_path):
    maniple(*arguments(tmp_path, "learning.iterations=2"))
    before = final_digests(maniple, tmp_path)
    maniple(*arguments(tmp_path, "learning.iterations=2"), ranks=2)
    assert final_digests(maniple, tmp_path) == before


def has_row(directory):
    return maniple_checkpoint_count(directory) > 0


def maniple_checkpoint_count(directory):
    folder = directory / "checkpoints"
    return len(list(folder.glob("*.h5"))) if folder.is_dir() else 0


@pytest.mark.parametrize("how", of_the_day(["rank", "mpirun"], "mpirun"))
def test_sigterm_saves_and_exits_75(maniple, tmp_path, how):
    # a scheduler signals every rank; a person stops mpirun, which passes the signal on
    process = maniple.start(*arguments(tmp_path, "learning.iterations=100000"), ranks=2, log=tmp_path / "log")
    maniple.wait_for(lambda: has_row(tmp_path), "a first checkpoint", process=process)
    if how == "rank":
        os.kill(maniple.ranks_of(process)[1], signal.SIGTERM)
    else:
        process.send_signal(signal.SIGUSR1)
    assert process.wait(timeout=60) == 75, (tmp_path / "log").read_text()
    check_metrics_end_with_the_checkpoint(maniple, tmp_path)


def test_an_evaluation_that_a_signal_ends_says_so(maniple, tmp_path):
    maniple(*arguments(tmp_path, "learning.iterations=1"), ranks=1)
    process = maniple.start("evaluate", tmp_path, "evaluation.episodes=10000000", ranks=2, log=tmp_path / "log")
    maniple.wait_for(lambda: "policy of iteration" in (tmp_path / "log").read_text(), "the begin of the episodes", process=process)
    time.sleep(1)
    process.send_signal(signal.SIGUSR1)
    assert process.wait(timeout=60) == 1
    said = re.findall(r"^warning: stopped early after \d+ of 10000000 episodes \(SIGUSR1\): no results are written, nor a data set$",
                      (tmp_path / "log").read_text(), re.M)
    assert len(said) == 1, (tmp_path / "log").read_text()
    assert not (tmp_path / "evaluation.h5").exists()
    # the wall time of the evaluation, which it leaves time for
    result = maniple("evaluate", tmp_path, "evaluation.episodes=10000000", "run.wall_time=4", ranks=1, exit_code=1)
    assert "episodes (run.wall_time): no results" in result.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_measurement_that_a_signal_ends_says_so(maniple, tmp_path, number):
    """bench has no end in order: one line, and the end that the signal asks for."""
    process = maniple.start("bench", "isaac_cartpole", "bench.repeats=10000", f"output.directory={tmp_path / 'run'}", ranks=2,
                            log=tmp_path / "log")
    maniple.wait_for((tmp_path / "run").is_dir, "the run's directory", process=process)
    for rank in maniple.ranks_of(process):
        os.kill(rank, number)
    assert process.wait(timeout=60) != 0
    text = (tmp_path / "log").read_text()
    assert text.count(f"maniple: error: bench was ended by {number.name}, before it was done\n") == 1, text


def test_wall_time_saves_and_exits_75(maniple, tmp_path):
    begun = time.monotonic()
    maniple(*arguments(tmp_path, "learning.iterations=100000", "run.wall_time=3"), ranks=2, exit_code=75)
    assert time.monotonic() - begun < 20
    check_metrics_end_with_the_checkpoint(maniple, tmp_path)


def test_trigger_files(maniple, tmp_path):
    process = maniple.start(*arguments(tmp_path, "learning.iterations=100000", "learning.checkpoint_every=0"), ranks=2,
                            log=tmp_path / "log")
    maniple.wait_for(tmp_path.is_dir, "the run's directory", process=process)
    (tmp_path / "checkpoint_now").touch()
    maniple.wait_for(lambda: has_row(tmp_path), "a checkpoint on request", process=process)
    (tmp_path / "stop_now").touch()
    assert process.wait(timeout=60) == 75, (tmp_path / "log").read_text()
    assert not (tmp_path / "stop_now").exists(), "a request that was met must not stop the next start too"
    check_metrics_end_with_the_checkpoint(maniple, tmp_path)


def check_metrics_end_with_the_checkpoint(maniple, directory):
    with h5py.File(directory / "results.h5") as file:
        iterations = file["metrics/iteration"][()]
    newest = maniple.checkpoints(directory)[-1]
    np.testing.assert_array_equal(iterations, np.arange(1, len(iterations) + 1))
    assert int("".join(c for c in newest.stem if c.isdigit())) == len(iterations)


# one iteration takes seconds, so that each has its line; without the kept state nothing could be saved before its end
LONG = [DECK, "batch.num_envs=2048", "learning.horizon=3000", "learning.minibatches=4", "learning.epochs=1",
        "learning.iterations=2", "learning.checkpoint_every=0", "learning.resume=auto", "run.progress=plain"]


@pytest.fixture(scope="module")
def undisturbed_long(maniple, tmp_path_factory):
    directory = tmp_path_factory.mktemp("long")
    maniple("train", *LONG, f"output.directory={directory}", ranks=2)
    return final_digests(maniple, directory)


@pytest.mark.parametrize("number,how", of_the_day([(signal.SIGTERM, "rank"), (signal.SIGHUP, "rank"), (signal.SIGINT, "mpirun")],
                                                  (signal.SIGTERM, "rank"), (signal.SIGINT, "mpirun")))
def test_stop_within_an_iteration_keeps_the_last_one(maniple, tmp_path, undisturbed_long, number, how):
    log = tmp_path / "log"
    process = maniple.start("train", *LONG, f"output.directory={tmp_path}", ranks=2, log=log,
                            environment={"OMPI_MCA_odls_base_sigkill_timeout": "3"})
    first = number == signal.SIGHUP  # before or in the first iteration; the others in the second
    maniple.wait_for(lambda: ("memory:" if first else "1/2") in log.read_text(), "the iteration", process=process)
    if how == "rank":
        os.kill(maniple.ranks_of(process)[1], number)
    else:
        process.send_signal(number)  # mpirun passes its own end on, and never returns the ranks' exit code
    code = process.wait(timeout=120)
    assert code == (75 if how == "rank" else 1), log.read_text()
    if how == "rank":
        assert [p.name for p in maniple.checkpoints(tmp_path)] == ["0.h5" if first else "1.h5"], log.read_text()
    assert maniple.checkpoints(tmp_path), log.read_text()
    maniple("train", *LONG, f"output.directory={tmp_path}", ranks=3)
    assert final_digests(maniple, tmp_path) == undisturbed_long


def test_a_signal_while_mpi_starts(maniple, preload, tmp_path):
    maniple(*arguments(tmp_path), exit_code=75, environment={"LD_PRELOAD": preload("early_signal")})
    assert [p.name for p in maniple.checkpoints(tmp_path)] == ["0.h5"]


def test_shared_memory_of_killed_runs_goes(maniple, tmp_path):
    host = socket.gethostname().split(".")[0]
    left = Path(f"/dev/shm/vader_segment.{host}.{os.geteuid()}.{os.getpid():x}.7")
    left.write_bytes(b"left by a run that was killed")
    try:
        os.utime(left, (1, 1))
        maniple("rollout", "model.file=inputs/models/arm6.xml", "batch.num_envs=32", "simulation.steps=1",
                f"output.directory={tmp_path}", ranks=0)
        assert not left.exists()
    finally:
        left.unlink(missing_ok=True)


def test_what_mpirun_says_of_errors(maniple, tmp_path):
    """Below a message of the run nothing; but it stays what only mpirun knows."""
    kill = 'if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then kill -KILL $$; fi; exec sleep 9'
    for launched, code, wanted in (
        (["-n", "2", maniple.program, "train", "nothing.yaml"], 2, ["maniple: error: command line: found no file 'nothing.yaml'"]),
        (["-n", "2", "bash", "-c", kill], 137, ["-----", "mpirun noticed that process rank 1 ", "-----"]),
        (["-n", "2", tmp_path / "nothing"], None, ["-----", "mpirun was unable to launch"]),
    ):
        result = subprocess.run(["bash", "-c", '. tools/common.sh; stoppable mpirun --oversubscribe "$@"', "bash", *launched], cwd=maniple.root,
                                capture_output=True, text=True, timeout=60)
        assert result.returncode == code or (code is None and result.returncode > 0), result
        lines = result.stderr.splitlines()
        if lines == ["mpirun: a process was ended by SIGKILL"]:  # where mpirun does not say which one
            continue
        assert all(line.startswith(start) for line, start in zip(lines, wanted)) and len(lines) >= len(wanted), result.stderr
        assert len(lines) == len(wanted) or code is None, result.stderr


def test_stoppable_in_the_background(maniple, tmp_path):
    """The signal goes to what `$!` names."""
    script = ('. tools/common.sh; stoppable bash -c "trap \'exit 75\' USR1; touch $0/ready; while :; do sleep 0.1; done" & p=$!\n'
              'until [ -e "$0/ready" ]; do sleep 0.1; done; kill -TERM $p; wait $p')
    result = subprocess.run(["bash", "-c", script, tmp_path], cwd=maniple.root, timeout=20)
    assert result.returncode == 75


def test_ctrl_c_in_a_terminal_waits_for_a_slow_checkpoint(maniple, preload, tmp_path):
    """`stoppable` of tools/common.sh; mpirun by itself kills its ranks after two seconds."""
    log = tmp_path / "log"
    script = '. tools/common.sh; stoppable mpirun --oversubscribe --bind-to none -n 2 env LD_PRELOAD="$0" "$@"'
    keyboard, terminal = pty.openpty()

    def at_the_terminal():
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # of a background job it would be ignored
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    with open(log, "w") as output:
        process = subprocess.Popen(
            ["bash", "-c", script, preload("slow_fsync"), maniple.program, "train", *LONG,
             f"output.directory={tmp_path}"],
            cwd=maniple.root, stdin=terminal, stdout=output, stderr=output, start_new_session=True, preexec_fn=at_the_terminal)
    maniple.wait_for(lambda: "1/2" in log.read_text(), "the second iteration", process=process)
    os.write(keyboard, b"\x03")
    assert process.wait(timeout=120) == 75, log.read_text()
    assert [p.name for p in maniple.checkpoints(tmp_path)] == ["1.h5"], log.read_text()
    os.close(keyboard)
    os.close(terminal)


@pytest.fixture
def slow_clock(preload):
    return {"LD_PRELOAD": preload("slow_clock"), "SLOW_FSYNC": "1000"}


def test_results_between_checkpoints(maniple, slow_clock, tmp_path):
    """They are no older than half a minute, of a clock on which files are slow; the state waits for its checkpoint."""
    process = maniple.start(*arguments(tmp_path, "learning.iterations=100000", "learning.checkpoint_every=0"), ranks=2,
                            environment=slow_clock | {"SLOW_FSYNC": "20"}, log=tmp_path / "log")
    seen, deadline = set(), time.monotonic() + 60
    while process.poll() is None and len(seen) < 2 and time.monotonic() < deadline:
        if (tmp_path / "results.h5").exists():
            with h5py.File(tmp_path / "results.h5") as file:
                seen.add(len(file["metrics/iteration"]))
        time.sleep(0.02)
    maniple.kill_all(process)
    assert len(seen) == 2 and not list(tmp_path.glob("checkpoints/*.h5"))
    result = maniple(*arguments(tmp_path, "learning.iterations=3"), ranks=3)
    assert "resumed" not in result.stderr
    with h5py.File(tmp_path / "results.h5") as file:
        np.testing.assert_array_equal(file["metrics/iteration"], [1, 2, 3])


# an output is five times fsync, and the one before may have taken half as long as the last one will; the second run
# makes some on its way
@pytest.mark.parametrize("every, limit", [(0, 12000), (1, 60000)])
def test_wall_time_leaves_room_for_output_on_slow_storage(maniple, slow_clock, tmp_path, every, limit):
    maniple(*arguments(tmp_path, "learning.iterations=100000", f"learning.checkpoint_every={every}",
                       f"run.wall_time={limit}"), ranks=2, exit_code=75, environment=slow_clock, timeout=100)
    check_metrics_end_with_the_checkpoint(maniple, tmp_path)
    with h5py.File(tmp_path / "results.h5") as file:
        wall = file["metrics/wall_seconds"][()]
    assert len(wall) == 0 if every == 0 else wall[-1] + 5000 < limit, wall


def test_wall_time_of_a_rollout_leaves_room_for_its_trajectory(maniple, slow_clock, tmp_path):
    result = maniple("rollout", "model.file=inputs/models/arm6.xml", "batch.num_envs=40", "simulation.steps=1000000000",
                     "output.trajectory.every=1000000", "output.trajectory.fields=[qpos]",
                     f"output.directory={tmp_path}", "run.wall_time=6500", ranks=2, exit_code=1,
                     environment=slow_clock, timeout=60)
    assert "control steps (run.wall_time)" in result.stderr
    with h5py.File(tmp_path / "results.h5") as file:
        assert file["trajectory/qpos"].shape[:2] == (40, len(file["trajectory/step"]))
