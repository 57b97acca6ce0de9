"""A run's directory keeps its contents unless the user says otherwise:
results of an earlier run, and a run that is still going on."""
# ctest: PROCESSORS 1 COST 30

import json
import os
import re
import shutil
import signal
import socket
import subprocess

import h5py
import pytest
from conftest import ENVIRONMENT, of_the_day
from test_damaged_files import flip

CARTPOLE = "inputs/train/isaac_cartpole.yaml"
SMALL = [CARTPOLE, "batch.num_envs=70", "learning.horizon=8", "learning.checkpoint_every=1", "run.progress=none"]
ARM = ["model.file=inputs/models/arm6.xml", "batch.num_envs=40", "simulation.steps=3", "run.progress=none"]
OVERWRITE = "output.overwrite=true"


def start(maniple, verb, *arguments, **environment):
    """The program as it is, on one rank."""
    return subprocess.run([str(maniple.program), verb, *map(str, arguments)], cwd=maniple.root, capture_output=True,
                          text=True, timeout=60, env={**os.environ, "OMP_NUM_THREADS": "1", **environment})


def refusal(maniple, verb, *arguments, **environment):
    result = start(maniple, verb, *arguments, **environment)
    assert result.returncode == 2, result.stdout + result.stderr
    return re.search(r"^maniple: error: (.*)", result.stderr, re.M).group(1)


def done(maniple, verb, *arguments, **environment):
    result = start(maniple, verb, *arguments, **environment)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


@pytest.fixture(scope="module")
def training(maniple, tmp_path_factory):
    directory = tmp_path_factory.mktemp("training") / "run"
    done(maniple, "train", *SMALL, "learning.iterations=3", f"output.directory={directory}")
    return directory


@pytest.fixture
def trained(training, tmp_path):
    """A copy of it."""
    return shutil.copytree(training, tmp_path / "run")


def digests(maniple, directory):
    return {file.name: maniple.digest(file) for file in [directory / "results.h5", *maniple.checkpoints(directory)]}


def test_evaluation_has_its_own_file(maniple, trained):
    before = digests(maniple, trained)
    arguments = ["evaluate", *SMALL, f"control.checkpoint={trained}", f"output.directory={trained}"]
    done(maniple, *arguments)
    assert digests(maniple, trained) == before
    with h5py.File(trained / "evaluation.h5") as file:
        assert file["evaluation/episode_return"].shape == (70,)
    message = refusal(maniple, *arguments)
    assert re.match(rf"command line: output\.directory: found {trained}/evaluation\.h5 of evaluate \(20[\d:TZ-]+\); "
                    "allowed: another directory, or output.overwrite=true to replace it", message)
    done(maniple, *arguments, OVERWRITE)


def test_a_training_is_not_replaced(maniple, trained):
    before = digests(maniple, trained)
    again = ["train", *SMALL, "learning.iterations=2", f"output.directory={trained}"]
    message = refusal(maniple, *again)
    assert re.match(rf"command line: output\.directory: found {trained}/results\.h5 of train \(20[\d:TZ-]+\) and 3 checkpoints"
                    rf" in {trained}/checkpoints, the newest of iteration 3; allowed: another directory, "
                    "learning.resume=auto to continue that run, or output.overwrite=true to replace it", message)
    (trained / "results.h5").rename(trained / "kept.h5")
    assert "found 3 checkpoints in " in refusal(maniple, *again)
    (trained / "kept.h5").rename(trained / "results.h5")
    # who may replace it and then has nothing to replace it with leaves it
    assert "for 1000000000000 environments" in refusal(maniple, *again, OVERWRITE, "batch.num_envs=1000000000000")
    assert digests(maniple, trained) == before
    (trained / "best/checkpoints").mkdir(parents=True)
    shutil.copy(maniple.checkpoints(trained)[0], trained / "best/checkpoints/9.h5")  # as of evaluation.every
    done(maniple, *again, OVERWRITE, "batch.seed=7")
    assert not list(trained.glob("best/checkpoints/*.h5*"))
    assert [file.stem for file in maniple.checkpoints(trained)] == ["1", "2"]
    assert not list(trained.glob("checkpoints/*.superseded"))
    assert "resumed" in done(maniple, *again, "batch.seed=7", "learning.resume=auto", "learning.iterations=3")


def test_other_verbs_do_not_replace_a_training(maniple, trained, tmp_path):
    before = digests(maniple, trained)
    assert f"{trained}/results.h5 of train" in refusal(maniple, "rollout", *ARM, f"output.directory={trained}")
    assert digests(maniple, trained) == before
    # nor the other way round, not even a training that would continue
    rollout = tmp_path / "rollout"
    done(maniple, "rollout", *ARM, f"output.directory={rollout}")
    message = refusal(maniple, "train", *SMALL, "learning.iterations=1", f"output.directory={rollout}",
                      "learning.resume=auto")
    assert f"{rollout}/results.h5 of rollout" in message and "continue" not in message
    assert f"{rollout}/results.h5 of rollout" in refusal(maniple, "rollout", *ARM, f"output.directory={rollout}")
    done(maniple, "rollout", *ARM, f"output.directory={rollout}", OVERWRITE)


def test_the_log_is_of_one_run(maniple, tmp_path):
    """A run that replaces another one begins its log anew, a run that goes on continues it, and one that is refused, or evaluates,
    takes nothing away."""
    def iterations():
        rows = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
        assert len({row.get("text") for row in rows}) > 1
        return [row["iteration"] for row in rows if row.get("event") == "iteration"]

    def train(*more):
        done(maniple, "train", *SMALL, f"output.directory={tmp_path}", *more)

    train("learning.iterations=3")
    assert iterations() == [1, 2, 3]
    train("learning.iterations=4", "learning.resume=auto")
    assert iterations() == [1, 2, 3, 4]
    done(maniple, "evaluate", *SMALL, f"control.checkpoint={tmp_path}", f"output.directory={tmp_path}", "evaluation.episodes=2", OVERWRITE)
    refusal(maniple, "train", *SMALL, f"output.directory={tmp_path}", "task.rewards.broken={expression: nobody}", OVERWRITE)
    assert iterations() == [1, 2, 3, 4]
    train("learning.iterations=2", OVERWRITE)
    assert iterations() == [1, 2]
    train("learning.iterations=3", OVERWRITE, "learning.resume=auto")
    assert iterations() == [1, 2, 3]
    done(maniple, "rollout", *ARM, f"output.directory={tmp_path}", OVERWRITE)
    assert iterations() == []


def test_a_benchmark_is_not_replaced(maniple, tmp_path):
    arguments = ["bench", "inputs/bench/cartpole.yaml", "batch.num_envs=32", "bench.steps=1", "bench.repeats=1",
                 f"output.directory={tmp_path}"]
    done(maniple, *arguments)
    before = (tmp_path / "bench.json").read_bytes()
    assert refusal(maniple, *arguments) == (
        f"command line: output.directory: found {tmp_path}/bench.json; allowed: another directory, or output.overwrite=true"
        " to replace it")
    assert (tmp_path / "bench.json").read_bytes() == before
    done(maniple, *arguments, OVERWRITE)
    assert (tmp_path / "bench.json").read_bytes() != before


@pytest.mark.parametrize("arguments", [
    ["rollout", *ARM, "output.trajectory.every=1", "output.trajectory.fields=[nothing]"],
    ["rollout", "model.file=tests/reference/models/none.xml", "batch.num_envs=4"],
    ["train", *SMALL, "task.rewards.broken={expression: nobody}"],
    ["train", *SMALL, "batch.num_envs=1000000000000"],
    ["evaluate", *SMALL, "control.checkpoint=inputs"],
], ids=["field", "model", "task", "memory", "checkpoint"])
@pytest.mark.parametrize("ranks", of_the_day([0, 2], 2))
def test_a_refused_run_leaves_nothing(maniple, tmp_path, arguments, ranks):
    maniple(*arguments, f"output.directory={tmp_path / 'a/b/run'}", ranks=ranks, exit_code=2)
    assert not list(tmp_path.iterdir())
    # nor in a directory that is there; what is in it stays
    (tmp_path / "mine").write_text("mine")
    maniple(*arguments, f"output.directory={tmp_path}", ranks=ranks, exit_code=2)
    assert [path.name for path in tmp_path.iterdir() if path.name != "log.jsonl"] == ["mine"]


@pytest.mark.parametrize("model", [None, "<mujoco/>"], ids=["missing", "another"])
def test_a_run_that_one_rank_refuses_leaves_nothing(maniple, tmp_path, model):
    """Rank 0 has its model, rank 1 has none, or one of another kind: the other host of a job."""
    for rank in (0, 1):
        (tmp_path / f"host{rank}").mkdir()
    (tmp_path / "host0/robot.xml").write_text((maniple.root / "inputs/models/arm6.xml").read_text())
    if model:
        (tmp_path / "host1/robot.xml").write_text("<mujoco><worldbody><nonsense/></worldbody></mujoco>")
    run = [str(maniple.program), "rollout", "model.file=robot.xml", "batch.num_envs=64", "simulation.steps=3",
           f"output.directory={tmp_path / 'a/b/run'}"]
    result = subprocess.run(["mpirun", "--oversubscribe", "-n", "1", "-wdir", tmp_path / "host0", *run, ":",
                             "-n", "1", "-wdir", tmp_path / "host1", *run], env=ENVIRONMENT, capture_output=True, text=True,
                            timeout=120)
    assert result.returncode == 2, result.stdout + result.stderr
    assert len(re.findall("^maniple: error: .*robot.xml", result.stderr, re.M)) == 1, result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["host0", "host1"]


@pytest.mark.parametrize("ranks", of_the_day([0, 2], 2))
@pytest.mark.parametrize("place, reason", [
    ("file/run", "Not a directory"),
    ("new/deep/" + 300 * "x", "File name too long"),
    ("dangling/run", "File exists|No such file or directory|Not a directory"),
], ids=["file", "long", "link"])
def test_a_directory_that_cannot_be_made(maniple, tmp_path, place, reason, ranks):
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    result = maniple("rollout", *ARM, f"output.directory={tmp_path / place}", ranks=ranks, exit_code=2)
    (message,) = re.findall("^maniple: error: (.*)$", result.stderr, re.M)
    assert re.fullmatch(rf"command line: output.directory: found {tmp_path / place}, which cannot be made: ({reason}); allowed: a "
                        "directory that can be made and written to", message)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dangling", "file"]


def test_results_that_cannot_be_read_are_results(maniple, tmp_path):
    (tmp_path / "results.h5").write_text("no HDF5")
    assert "results.h5, which cannot be read" in refusal(maniple, "rollout", *ARM, f"output.directory={tmp_path}")
    assert (tmp_path / "results.h5").read_text() == "no HDF5"


def test_damaged_results_are_results(maniple, tmp_path):
    """Also where the damage is in what says whose they are, which HDF5 does not always survive."""
    arguments = ["rollout", *ARM, f"output.directory={tmp_path}"]
    done(maniple, *arguments)
    path = tmp_path / "results.h5"
    good = path.read_bytes()
    flip(path, good, good.index(b"GCOL") + 25, 3)  # the length of a text in the heap of texts
    assert f"found {path}, which cannot be read (the checksum does not match: " in refusal(maniple, *arguments)


def test_a_resume_names_damaged_results(maniple, trained):
    """... and writes them again, from the rows that the checkpoint has."""
    path = trained / "results.h5"
    good, digest = path.read_bytes(), maniple.digest(path)
    resume = ["train", *SMALL, f"output.directory={trained}", "learning.resume=auto"]
    for name, damage in (("bit", lambda: flip(path, good, len(good) - 8, 1)),
                         ("heap", lambda: flip(path, good, good.index(b"GCOL") + 25, 3)),
                         ("text", lambda: path.write_text("no HDF5"))):
        damage()
        output = done(maniple, *resume, "learning.iterations=3")
        assert re.search(rf"^warning: {path}: .*; this run writes it again$", output, re.M), (name, output)
        assert output.count(str(path) + ":") == 1, output
        assert maniple.digest(path) == digest, name
    flip(path, good, len(good) - 8, 1)
    assert f"warning: {path}: " in done(maniple, *resume, "learning.iterations=4")
    with h5py.File(path) as file:
        assert len(file["metrics/iteration"]) == 4
    assert "warning" not in done(maniple, *resume, "learning.iterations=5")


def test_a_resume_with_nothing_left_completes_the_results(maniple, trained):
    path = trained / "results.h5"
    digest = maniple.digest(path)
    resume = ["train", *SMALL, "learning.iterations=3", f"output.directory={trained}", "learning.resume=auto"]
    path.unlink()
    output = done(maniple, *resume)
    assert "nothing left to do: iteration 3 of learning.iterations=3 is done" in output
    assert f"results: {path}" in output and maniple.digest(path) == digest
    # those of an earlier checkpoint, as a kill between two outputs leaves them
    shorter = trained.parent / "shorter"
    done(maniple, "train", *SMALL, "learning.iterations=2", f"output.directory={shorter}")
    path.write_bytes((shorter / "results.h5").read_bytes())
    done(maniple, *resume)
    assert maniple.digest(path) == digest
    # whole ones stay as they are, with the report of the ranks that came by them
    files = [path, trained / "checkpoints/3.h5", trained / "last/checkpoints/3.h5"]
    before = [file.read_bytes() for file in files]
    # nor do checkpoints tell of settings that trained nothing
    assert f"results: {path}" in done(maniple, *resume, "learning.gamma=0.5")
    assert [file.read_bytes() for file in files] == before
    before = before[0]
    # (but that of an earlier end is no last policy)
    files[2].rename(files[2].with_name("2.h5"))
    done(maniple, *resume)
    assert files[2].exists()
    assert f"results: {path}" in done(maniple, *resume)
    assert path.read_bytes() == before


def test_one_run_at_a_time(maniple, tmp_path):
    directory = tmp_path / "run"
    arguments = ["train", *SMALL, "learning.iterations=100000", f"output.directory={directory}", "learning.resume=auto"]
    process = maniple.start(*arguments, ranks=2, log=tmp_path / "log")
    maniple.wait_for(lambda: maniple.checkpoints(directory), "a first checkpoint", process=process)
    ranks = maniple.ranks_of(process)
    for other in (["train", *SMALL, "batch.seed=3", "learning.resume=auto", f"output.directory={directory}"],
                  ["rollout", *ARM, f"output.directory={directory}", OVERWRITE]):
        message = refusal(maniple, *other)
        found = re.match(rf"command line: output\.directory: found {directory} in use: train since 20[\d:TZ-]+, process (\d+)"
                         rf" of host {re.escape(socket.gethostname())}; allowed: another directory, or this one when that run"
                         " has ended$", message)
        assert found and int(found.group(1)) in ranks, message
    maniple.kill_all(process)
    # the lock of the dead does not count
    assert os.path.islink(directory / "run.lock")
    process = maniple.start(*arguments, ranks=1, log=tmp_path / "log")
    maniple.wait_for(lambda: "resumed" in (tmp_path / "log").read_text(), "the next start", process=process)
    assert "run.lock: left by a run that has ended: verb=train host=" in (tmp_path / "log").read_text()
    os.kill(maniple.ranks_of(process)[0], signal.SIGTERM)
    assert process.wait(timeout=60) == 75
    assert not list(directory.glob("run.lock*"))
    assert not list(directory.glob("checkpoints/*.superseded"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_that_ends_a_bench_leaves_no_lock(maniple, tmp_path, number):
    directory, log = tmp_path / "run", tmp_path / "log"
    process = maniple.start("bench", *ARM[:2], "bench.steps=100000000", f"output.directory={directory}", ranks=0, log=log)
    maniple.wait_for(lambda: os.path.islink(directory / "run.lock"), "the lock", process=process)
    process.send_signal(number)
    assert process.wait(timeout=60) == -number
    assert not list(directory.glob("run.lock*"))
    assert f"bench was ended by {number.name}, before it was done" in log.read_text()


def test_one_start_at_a_time_decides_about_an_old_lock(maniple, preload, tmp_path):
    """The first is held between its look at the old lock and taking it over; the second must not take it meanwhile, or
    the first would take the lock of the second."""
    lock, held, log = tmp_path / "run.lock", tmp_path / "held", tmp_path / "log"
    done(maniple, "rollout", *ARM, f"output.directory={tmp_path}")
    process = maniple.start("train", *SMALL, f"output.directory={tmp_path / 'old'}", "learning.iterations=100000",
                            ranks=1)
    old = tmp_path / "old" / "run.lock"
    maniple.wait_for(lambda: os.path.islink(old), "a lock", process=process)
    lock.symlink_to(os.readlink(old))
    maniple.kill_all(process)
    arguments = ["rollout", *ARM, f"output.directory={tmp_path}", OVERWRITE]
    first = maniple.start(*arguments, log=log, environment={
        "LD_PRELOAD": preload("hang"), "HANG_RANK": "0", "HANG_CALL": "rename", "HANG_PATH": "run.lock", "HANG_AFTER": "1",
        "HANG_WHILE": str(held)})
    maniple.wait_for(held.exists, "the first at the lock", process=first)
    second = maniple.start(*arguments, log=tmp_path / "second")
    try:
        second.wait(timeout=4)
    except subprocess.TimeoutExpired:
        pass
    assert os.readlink(lock) == os.readlink(old), (tmp_path / "second").read_text()
    held.unlink()
    assert first.wait(timeout=60) == 0, log.read_text()
    assert second.wait(timeout=60) in (0, 2), (tmp_path / "second").read_text()  # afterwards, or refused meanwhile
    assert not list(tmp_path.glob("run.lock*"))


def test_the_lock_of_another_host(maniple, tmp_path):
    lock = tmp_path / "run.lock"
    lock.symlink_to("verb=train host=n7 pid=1 since=2026-01-02T03:04:05Z job=17 job_start=1 query=squeue -j 17"
                    " process_start=5 namespace=pid:[4026531836]")
    arguments = ["rollout", *ARM, f"output.directory={tmp_path}"]
    for environment in ({}, {"SLURM_JOB_ID": "18", "SLURM_RESTART_COUNT": "2"},
                        {"SLURM_JOB_ID": "17", "SLURM_RESTART_COUNT": "1"}):
        assert refusal(maniple, *arguments, **environment) == (
            f"command line: output.directory: found {tmp_path} in use: train since 2026-01-02T03:04:05Z, process 1 of host n7,"
            " job 17; allowed: another directory, or this one when that run has ended; whether it has, 'squeue -j 17' knows:"
            f" if so, remove {lock}")
        assert os.path.islink(lock) and not (tmp_path / "results.h5").exists()
    # a scheduler that starts the same job again has ended it before
    done(maniple, *arguments, SLURM_JOB_ID="17", SLURM_RESTART_COUNT="2")
    assert not list(tmp_path.glob("run.lock*"))


def test_somebody_elses_file(maniple, tmp_path):
    (tmp_path / "run.lock").write_text("mine")
    assert f"{tmp_path}/run.lock is not a lock of this program" in refusal(
        maniple, "rollout", *ARM, f"output.directory={tmp_path}")
    assert (tmp_path / "run.lock").read_text() == "mine"


@pytest.mark.parametrize("after, reason", of_the_day(
    [(-1, "Stale file handle"), (0, "Input/output error"), (3, "Input/output error")], (3, "Input/output error")))
def test_checkpoints_that_cannot_be_listed(maniple, preload, trained, after, reason):
    before = digests(maniple, trained)
    arguments = ["train", *SMALL, "learning.iterations=4", f"output.directory={trained}", "learning.resume=auto"]
    result = start(maniple, *arguments, LD_PRELOAD=preload("unlistable"), FAULT_FOLDER="/checkpoints",
                   FAULT_AFTER=str(after))
    assert result.returncode == 1, result.stdout + result.stderr
    assert f"maniple: error: {trained}/checkpoints: cannot be listed: {reason}" in result.stderr
    assert digests(maniple, trained) == before
    assert "resumed" in done(maniple, *arguments)
