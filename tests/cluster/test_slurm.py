"""jobs/slurm/train.sbatch under SLURM itself, two nodes on this machine: steps that cannot start, jobs that go back
into the queue, and jobs whose node dies."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from slurm import Cluster  # noqa: E402

SETTINGS = ["batch.num_envs=256", "learning.horizon=8", "run.progress=none"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("slurm")
    cluster = Cluster(folder)
    yield cluster
    cluster.stop()


@pytest.fixture
def submit(maniple, cluster, tmp_path):
    """Submits the script from a folder that looks like the repository; returns the job's number and the file of its
    output."""
    for name in ("inputs", "jobs"):
        (tmp_path / name).symlink_to(maniple.root / name)

    def submit(*keys, program=maniple.program):
        cluster.environment |= {"MANIPLE_PROGRAM": str(program), "VIRTUAL_ENV": str(maniple.root / ".venv")}
        number = cluster.submit("--nodes=2", "--ntasks-per-node=2", "--output", tmp_path / "out", "jobs/slurm/train.sbatch",
                                "inputs/train/isaac_cartpole.yaml", *SETTINGS, f"output.directory={tmp_path / 'run'}", *keys,
                                cwd=tmp_path)
        return number, tmp_path / "out"

    return submit


def test_a_job_that_runs(maniple, cluster, submit, tmp_path):
    number, out = submit("learning.iterations=3")
    job = cluster.wait_for_end(number)
    assert (job["JobState"], job["ExitCode"]) == ("COMPLETED", "0:0"), out.read_text()
    assert "on n[1-2]" in out.read_text() and "4 ranks" in out.read_text()
    assert maniple.checkpoints(tmp_path / "run")[-1].stem == "3"


def test_a_step_that_cannot_start_is_a_failure(cluster, submit, tmp_path):
    # without its folder for temporary files, slurmstepd cannot set up PMIx; srun 22.05 then returns 0
    folder = cluster.folder / "tmp"
    folder.rename(cluster.folder / "gone")
    try:
        number, out = submit("learning.iterations=3")
        job = cluster.wait_for_end(number)
    finally:
        (cluster.folder / "gone").rename(folder)
    assert (job["JobState"], job["ExitCode"]) == ("FAILED", "1:0"), out.read_text()
    assert "srun reports success, but the run did not come to its end" in out.read_text()
    assert not (tmp_path / "run").exists()


def test_back_into_the_queue_and_on(maniple, cluster, submit, tmp_path):
    # (the permission to replace a run is for the first start)
    number, out = submit("learning.iterations=100000", "output.overwrite=true")
    cluster.wait(lambda: (tmp_path / "run/results.h5").exists() or (tmp_path / "run/log.jsonl").exists(), "the run's start")
    (tmp_path / "run/stop_now").touch()
    cluster.wait(lambda: cluster.job(number)["Restarts"] == "1", "the way back into the queue")
    assert "back into the queue" in out.read_text()
    reached = int(maniple.checkpoints(tmp_path / "run")[-1].stem)
    cluster.start_again(number)
    cluster.wait(lambda: f"resumed {tmp_path / 'run'} at iteration {reached}" in out.read_text(), "the second start")
    cluster.run("scancel", number)
    assert cluster.wait_for_end(number)["JobState"] == "CANCELLED"


def test_a_time_limit_within_the_margin(cluster, submit, tmp_path):
    # SLURM would signal such a job at once, time and again
    cluster.environment["SBATCH_TIMELIMIT"] = "2"
    try:
        number, out = submit("learning.iterations=3")
    finally:
        del cluster.environment["SBATCH_TIMELIMIT"]
    job = cluster.wait_for_end(number)
    assert (job["JobState"], job["ExitCode"]) == ("FAILED", "2:0"), out.read_text()
    assert "a time limit of 00:02:00 leaves nothing before a margin of 120 s" in out.read_text()
    assert not (tmp_path / "run").exists()


def test_a_signal_before_the_program_begins(maniple, cluster, submit, tmp_path):
    # ended by it, as a process is that has no handler yet: a stop, no crash
    late = tmp_path / "late"
    late.write_text(f'#!/bin/bash\n[ "$1" != train ] || touch {tmp_path}/started\nsleep 60\nexec {maniple.program} "$@"\n')
    late.chmod(0o755)
    number, out = submit("learning.iterations=3", program=late)
    cluster.wait((tmp_path / "started").exists, "the ranks")
    cluster.run("scancel", "--signal=USR1", number)
    cluster.wait(lambda: cluster.job(number)["Restarts"] == "1", "the way back into the queue")
    assert "the signal to stop came before the program could take it" in out.read_text() and "start 1 of" not in out.read_text()
    cluster.run("scancel", number)
    cluster.wait_for_end(number)


def test_tasks_of_an_array(maniple, cluster, tmp_path):
    """The last task has the number of the whole array, by which scontrol means all tasks; submitted from a folder that has
    nothing of the repository."""
    cluster.environment |= {"MANIPLE_PROGRAM": str(maniple.program), "VIRTUAL_ENV": str(maniple.root / ".venv")}
    cluster.submit("--array=1-2", "--nodes=1", "--ntasks-per-node=1", "--output", tmp_path / "out_%a",
                   maniple.root / "jobs/slurm/run.sbatch", "train", "isaac_cartpole", *SETTINGS, "batch.seed={task}",
                   "learning.iterations=100000", f"output.directory={tmp_path}/run_{{task}}", cwd=tmp_path)
    runs = [tmp_path / f"run_{task}" for task in (1, 2)]
    outs = [tmp_path / f"out_{task}" for task in (1, 2)]
    cluster.wait(lambda: all((run / "log.jsonl").exists() for run in runs), "the start of all tasks")
    (runs[1] / "stop_now").touch()
    cluster.wait(lambda: "back into the queue" in outs[1].read_text(), "the last task's way back into the queue")
    assert "cannot go back" not in outs[1].read_text()
    lines = [(run / "log.jsonl").read_text().count("\n") for run in runs[:1]]
    cluster.wait(lambda: all((run / "log.jsonl").read_text().count("\n") > before for run, before in zip(runs, lines)),
                 "iterations of the other, which goes on")
    assert not any("back into the queue" in out.read_text() for out in outs[:1])
    cluster.run("scancel", "--user=root")


def test_a_node_dies(maniple, cluster, submit, tmp_path):
    number, out = submit("learning.iterations=100000", "learning.checkpoint_every=1")
    cluster.wait(lambda: maniple.checkpoints(tmp_path / "run"), "a first checkpoint")
    cluster.run("scontrol", "update", "NodeName=n2", "State=DOWN", "Reason=test")
    try:
        # the allocation stays, and the run goes on with half of its ranks
        cluster.wait(lambda: "resumed" in out.read_text(), "the second start")
        text = out.read_text()
        assert "node n2 does not start a process: left out" in text and "start 1 of 3 more, on n1" in text
        assert "\n2 ranks" in text and cluster.job(number)["Restarts"] == "0"
    finally:
        cluster.run("scontrol", "update", "NodeName=n2", "State=RESUME")
        cluster.run("scancel", number)
    cluster.wait_for_end(number)
