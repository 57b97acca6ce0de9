"""A job in which a rank stops or hangs ends with a message that names it; pauses and suspensions do no harm."""
# ctest: PROCESSORS 1 COST 45

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import of_the_day

TRAIN = ["train", "inputs/train/isaac_cartpole.yaml", "batch.num_envs=192", "learning.iterations=1000000",
         "learning.checkpoint_every=0"]


class Run:
    """A training in the background with its log."""

    def __init__(self, maniple, tmp_path, *arguments, ranks=3, environment=None):
        self.maniple, self.log = maniple, tmp_path / "log"
        self.process = maniple.start(*TRAIN, f"output.directory={tmp_path / 'run'}", "run.progress=plain", *arguments,
                                     ranks=ranks, log=self.log, environment=environment)

    def text(self):
        return self.log.read_text()

    def wait_for_iterations(self, directory):
        """Returns when the ranks have told each other of some: they do so ten times a second."""
        events = directory / "run" / "log.jsonl"
        self.maniple.wait_for(lambda: events.exists() and events.read_text().count('"iteration"') > 5, "iterations",
                              process=self.process)
        time.sleep(1)

    def wait_for_end(self, timeout=60):
        try:
            return self.process.wait(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.maniple.kill_all(self.process)
            pytest.fail("it hangs: " + self.text()[-2000:])


def rank_number(pid):
    variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return next(int(v.split(b"=")[1]) for v in variables if v.startswith(b"OMPI_COMM_WORLD_RANK="))


@pytest.mark.parametrize("which", of_the_day([0, 2], 2))
def test_a_stopped_rank_is_named_and_ends_the_job(maniple, tmp_path, which):
    run = Run(maniple, tmp_path, "run.hang_timeout=2")
    try:
        run.wait_for_iterations(tmp_path)
        pid = next(p for p in maniple.ranks_of(run.process) if rank_number(p) == which)
        os.kill(pid, signal.SIGSTOP)
        assert run.wait_for_end() == 1
    finally:
        maniple.kill_all(run.process)
    assert re.search(rf"maniple: error: run\.hang_timeout: no rank moved for 2\.0 s: rank {which} \(host \S+, pid {pid}, "
                     r"stopped\) is silent, last heard \d+\.\d s ago in stage '\w+' after iteration \d+; "
                     r"ranks \d, \d waiting for others in stage '\w+' after iteration \d+", run.text()), run.text()
    assert run.text().count("maniple: error") == 1
    maniple.wait_for(lambda: not Path(f"/proc/{pid}").exists(), "the end of the stopped rank", timeout=20)


@pytest.mark.parametrize("ranks", of_the_day([1, 3], 3))
def test_pauses_do_no_harm(maniple, preload, tmp_path, ranks):
    """One rank for a moment; then the whole job for longer than the time-out, while nothing in it moves: the time in
    which a process was suspended is none in which it hung."""
    held = tmp_path / "held"
    fault = {"HANG_RANK": "0", "HANG_CALL": "rename", "HANG_AFTER": "1", "HANG_WHILE": str(held), "LD_PRELOAD": preload("hang")}
    run = Run(maniple, tmp_path, "run.hang_timeout=4", ranks=ranks, environment=fault)
    try:
        run.wait_for_iterations(tmp_path)
        pids = maniple.ranks_of(run.process)
        os.kill(pids[-1], signal.SIGSTOP)
        time.sleep(1.5)
        os.kill(pids[-1], signal.SIGCONT)
        (tmp_path / "run" / "checkpoint_now").touch()
        maniple.wait_for(held.exists, "a call that takes its time", process=run.process)
        time.sleep(1)  # the watchdog looks every 0.3 s
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(6)
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        time.sleep(2)
        held.unlink()
        (tmp_path / "run" / "stop_now").touch()
        assert run.wait_for_end() == 75, run.text()
    finally:
        maniple.kill_all(run.process)


@pytest.mark.parametrize("which, call, after, stage, keys", [
    (1, "cblas_sgemm", 300, "update|policy", ["policy.hidden=[256,256]", "batch.num_envs=256"]),
    (0, "rename", 2, "output", ["learning.checkpoint_every=3"]),
])
def test_a_rank_that_hangs_is_named(maniple, preload, tmp_path, which, call, after, stage, keys):
    fault = {"HANG_RANK": which, "HANG_CALL": call, "HANG_AFTER": after, "LD_PRELOAD": preload("hang")}
    result = maniple(*TRAIN, "run.hang_timeout=2", *keys, f"output.directory={tmp_path / 'run'}", ranks=3, exit_code=1,
                     environment=fault, timeout=60)
    assert re.search(rf"maniple: error: run\.hang_timeout: no rank moved for \d\.0 s: rank {which} \(host \S+, pid \d+\) "
                     rf"has been in stage '({stage})'[^;]* for \d+\.\d s; ranks \d, \d waiting for others", result.stderr), result.stderr
    assert result.stderr.count("maniple: error") == 1


def test_a_single_rank_watches_itself_unless_told_otherwise(maniple, preload, tmp_path):
    fault = {"HANG_RANK": 0, "HANG_CALL": "rename", "HANG_AFTER": 1, "LD_PRELOAD": preload("hang")}
    keys = ["learning.checkpoint_every=1", f"output.directory={tmp_path / 'run'}", "output.overwrite=true"]
    result = maniple(*TRAIN, "run.hang_timeout=1", *keys, exit_code=1, environment=fault, timeout=60)
    assert re.search(r"no rank moved for 1\.0 s: rank 0 \(host \S+, pid \d+\) has been in stage 'output' after iteration 1",
                     result.stderr)
    with pytest.raises(subprocess.TimeoutExpired):
        maniple(*TRAIN, "run.hang_timeout=0", *keys, ranks=0, environment=fault, timeout=4)
