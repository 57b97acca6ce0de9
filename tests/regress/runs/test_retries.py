"""A file system that fails briefly only delays a run; one that goes on failing ends the run with its error."""
# ctest: PROCESSORS 1 COST 25

import errno
import os
import re

import pytest
from conftest import of_the_day

TRAIN = ["train", "inputs/train/isaac_cartpole.yaml", "batch.num_envs=64", "learning.horizon=4", "learning.epochs=1",
         "learning.minibatches=1", "learning.checkpoint_every=1", "batch.seed=3"]


@pytest.fixture(scope="module")
def undisturbed(maniple, tmp_path_factory):
    directory = tmp_path_factory.mktemp("undisturbed")
    maniple(*TRAIN, "learning.iterations=3", f"output.directory={directory}", ranks=2)
    return maniple.digest(directory / "checkpoints" / "3.h5")


@pytest.fixture
def fault(preload):
    def fault(rank, call, path, after=1, times=1, number=errno.EIO):
        return {"LD_PRELOAD": preload("flaky"), "FLAKY_RANK": rank, "FLAKY_CALL": call, "FLAKY_PATH": path,
                "FLAKY_AFTER": after, "FLAKY_TIMES": times, "FLAKY_ERRNO": number}

    return fault


MOMENTS = {
    "first": (0, "write", "checkpoints/2.h5", 1, 1),  # HDF5's own
    "fourth": (0, "write", "checkpoints/2.h5", 4, 1),
    "twentieth": (0, "write", "checkpoints/2.h5", 20, 1),
    "rows": (1, "write", "checkpoints/2.h5", 1, 1),   # of a rank
    "fsync of rows": (1, "fsync", "checkpoints/2.h5", 1, 1),
    "fsync": (0, "fsync", "checkpoints/2.h5", 2, 1),
    "read": (0, "read", "checkpoints/2.h5.tmp", 3, 1),
    "rename": (0, "rename", "checkpoints/2.h5", 1, 2),
    "results": (0, "write", "results.h5", 2, 1),
}


@pytest.mark.parametrize("moment", of_the_day(MOMENTS, "fourth", "fsync of rows", "rename", "results"))
def test_a_write_that_fails_for_a_moment(maniple, tmp_path, fault, undisturbed, moment):
    rank, call, path, after, times = MOMENTS[moment]
    result = maniple(*TRAIN, "learning.iterations=3", f"output.directory={tmp_path}", ranks=2,
                     environment=fault(rank, call, path, after, times))
    attempts = re.findall(r"warning: writing (?:a checkpoint|results): attempt (\d) of 5 failed \(.*Input/output error.*\); "
                          r"the next one in (\d) s", result.stderr)
    assert attempts == [("1", "1"), ("2", "2")][:times]
    assert maniple.digest(tmp_path / "checkpoints" / "3.h5") == undisturbed
    assert [p.name for p in sorted(tmp_path.rglob("*.tmp.*"))] == []


def test_a_checkpoint_that_cannot_be_read_for_a_moment_is_not_passed_over(maniple, tmp_path, fault, undisturbed):
    maniple(*TRAIN, "learning.iterations=2", f"output.directory={tmp_path}", ranks=2)
    result = maniple(*TRAIN, "learning.iterations=3", "learning.resume=auto", f"output.directory={tmp_path}", ranks=2,
                     environment=fault(0, "read", "checkpoints/2.h5", number=errno.ESTALE))
    assert "warning: reading a checkpoint: attempt 1 of 5 failed" in result.stderr
    assert "resumed" in result.stdout and "at iteration 2" in result.stdout
    assert maniple.digest(tmp_path / "checkpoints" / "3.h5") == undisturbed


@pytest.mark.parametrize("number, attempts", of_the_day([(errno.EIO, 1), (errno.EACCES, 0)], (errno.EIO, 1)))
def test_a_checkpoint_that_cannot_be_read_ends_the_start(maniple, tmp_path, fault, undisturbed, number, attempts):
    """Unlike a damaged one, it may be good: nothing goes on from the one before."""
    maniple(*TRAIN, "learning.iterations=2", f"output.directory={tmp_path}", ranks=2)
    again = [*TRAIN, "learning.iterations=3", "learning.resume=auto", "run.retries=1", f"output.directory={tmp_path}"]
    result = maniple(*again, ranks=2, exit_code=1,
                     environment=fault(1, "open", "checkpoints/2.h5", times=1000, number=number))
    assert re.search(rf"maniple: error: \S*checkpoints/2\.h5: .*{os.strerror(number)}", result.stderr)
    assert result.stderr.count("attempt 1 of 2") == attempts
    assert sorted(p.name for p in (tmp_path / "checkpoints").glob("*.h5*")) == ["1.h5", "2.h5"]
    maniple(*again, ranks=2)
    assert maniple.digest(tmp_path / "checkpoints" / "3.h5") == undisturbed


def test_a_read_back_that_fails_for_a_moment(maniple, tmp_path, fault, undisturbed):
    result = maniple(*TRAIN, "learning.iterations=3", f"output.directory={tmp_path}", ranks=2,
                     environment=fault(0, "read", "checkpoints/2.h5$"))
    assert re.search(r"warning: reading \S*checkpoints/2\.h5 back: attempt 1 of 5 failed", result.stderr)
    assert maniple.digest(tmp_path / "checkpoints" / "3.h5") == undisturbed


@pytest.mark.parametrize("step", of_the_day([2, 3], 3))
def test_storage_that_loses_a_bit_ends_the_run_and_keeps_the_checkpoint_before(maniple, tmp_path, fault, undisturbed,
                                                                               step):
    """Found by reading back, at the latest when the run ends."""
    result = maniple(*TRAIN, "learning.iterations=3", "learning.keep_checkpoints=1", f"output.directory={tmp_path}",
                     ranks=2, exit_code=1, environment=fault(1, "corrupt", f"checkpoints/{step}.h5"))
    assert re.search(rf"maniple: error: .*checkpoints/{step}\.h5: the checksum does not match", result.stderr)
    assert (tmp_path / "checkpoints" / f"{step - 1}.h5").exists()
    result = maniple(*TRAIN, "learning.iterations=3", "learning.resume=auto", f"output.directory={tmp_path}", ranks=2)
    assert f"at iteration {step - 1}" in result.stdout
    assert maniple.digest(tmp_path / "checkpoints" / "3.h5") == undisturbed


def test_an_error_that_stays_ends_the_run(maniple, tmp_path, fault):
    result = maniple(*TRAIN, "learning.iterations=3", "run.retries=1", f"output.directory={tmp_path}", ranks=2,
                     exit_code=1, environment=fault(1, "write", "checkpoints/2.h5", times=1000000))
    assert result.stderr.count("attempt 1 of 2 failed") == 1
    assert re.search(r"maniple: error: .*checkpoints/2\.h5\S*: write: Input/output error", result.stderr)
    assert (tmp_path / "checkpoints" / "1.h5").exists()


def test_an_error_that_hdf5_does_not_survive_ends_the_run(maniple, tmp_path, fault, undisturbed):
    """Closing the file fails, too, which leaves the library in disorder: only another start helps."""
    result = maniple(*TRAIN, "learning.iterations=3", f"output.directory={tmp_path}", ranks=2, exit_code=1,
                     environment=fault(0, "write", "checkpoints/2.h5", after=4, times=1000))
    assert re.search(r"maniple: error: .*checkpoints/2\.h5.*: file write failed: Input/output error; the newest good checkpoint "
                     r"is .*/checkpoints/1\.h5: learning\.resume=auto continues from it$", result.stderr, re.MULTILINE)
    maniple(*TRAIN, "learning.iterations=3", "learning.resume=auto", f"output.directory={tmp_path}", ranks=2)
    assert maniple.digest(tmp_path / "checkpoints" / "3.h5") == undisturbed


def test_a_full_disk_is_not_tried_again(maniple, tmp_path, fault):
    result = maniple(*TRAIN, "learning.iterations=3", f"output.directory={tmp_path}", ranks=2, exit_code=1,
                     environment=fault(1, "write", "checkpoints/2.h5", times=1000000, number=errno.ENOSPC))
    assert "attempt" not in result.stderr
    assert "No space left on device" in result.stderr


def test_a_trajectory_goes_on_after_a_failed_write(maniple, tmp_path, fault):
    rollout = ["rollout", "model.file=inputs/models/arm6.xml", "batch.num_envs=128", "control.source=random",
               "simulation.steps=40", "output.trajectory.every=1", "output.trajectory.fields=[qpos]"]
    maniple(*rollout, f"output.directory={tmp_path / 'a'}", ranks=2)
    result = maniple(*rollout, f"output.directory={tmp_path / 'b'}", ranks=2,
                     environment=fault(1, "write", "results.h5"))
    assert "warning: writing a trajectory: attempt 1 of 5 failed" in result.stderr
    assert maniple.digest(tmp_path / "a" / "results.h5") == maniple.digest(tmp_path / "b" / "results.h5")
