"""How a program was started: ranks that are too many, and processes that are no ranks of each other."""
# ctest: PROCESSORS 1 COST 15

import os
import re
import subprocess

import pytest
from conftest import of_the_day
from refusals import CARTPOLE, GUARD, deck, refusing, short  # noqa: F401

refused = refusing(of_the_day([1, 2], 1))


def test_more_ranks_than_environments(refused, deck, tmp_path):
    path = deck("batch:\n  num_envs: 2\n")
    for verb in ("train", "validate"):
        message = refused(verb, path, *short(tmp_path), ranks=3)
        assert re.search(r"bad\.yaml:3: batch\.num_envs: .*2.*3 ranks", message)


@pytest.mark.parametrize("variables, message", [
    ({"SLURM_STEP_NUM_TASKS": "4"}, "SLURM_STEP_NUM_TASKS says that 4 processes were started, but MPI sees one rank: .*; "
                                    "start them with srun --mpi=pmix .*, or with mpirun"),
    ({"PMI_SIZE": "3", "SLURM_STEP_NUM_TASKS": "1"}, "PMI_SIZE says that 3 processes .*; start them with the mpirun of the MPI "
                                                     "that this program was built with: Open MPI v"),
])
def test_processes_that_are_no_ranks_of_each_other(maniple, tmp_path, variables, message):
    """srun with a plugin that the MPI library does not speak, or the mpirun of another MPI."""
    for verb in (["doctor"], ["train", CARTPOLE, *short(tmp_path)]):
        result = subprocess.run([maniple.program, *verb], cwd=maniple.root, env={**os.environ, **variables},
                                capture_output=True, text=True, timeout=GUARD)
        assert result.returncode == 2 and re.search(f"maniple: error: launch: {message}", result.stderr), result.stderr
    assert not (tmp_path / "run").exists()
    # daemons of mpirun within a job are one task on each node
    assert maniple("doctor", ranks=2, environment={"SLURM_STEP_NUM_TASKS": "1"}).returncode == 0


@pytest.mark.parametrize("tasks, plugin, started", [("4", None, "4 processes with --mpi=none"), ("1", "cray_shasta", "1 process with --mpi=cray_shasta")])
def test_srun_without_pmix_is_told_once(maniple, tasks, plugin, started):
    """As srun starts its tasks: without this check each of them shows Open MPI's page about building it anew."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PMI", "OMPI_COMM"))}
    environment |= {"SLURM_STEP_NUM_TASKS": tasks} | ({"SLURM_MPI_TYPE": plugin} if plugin else {})
    results = [subprocess.run([maniple.program, "doctor"], cwd=maniple.root, env=environment | {"SLURM_PROCID": str(rank)},
                              capture_output=True, text=True, timeout=GUARD, check=False) for rank in range(2)]
    assert [result.returncode for result in results] == [2, 2]
    assert results[0].stderr == (f"maniple: error: launch: srun started {started}, which tells Open MPI nothing of them; start them with "
                                 "srun --mpi=pmix (srun --mpi=list shows what there is), or with mpirun\n")
    assert results[1].stderr == ""


def test_one_rank_in_a_job_of_many_tasks(maniple, tmp_path):
    """A program that is started without srun in a job of SLURM; told, since the job may be meant for several such runs."""
    def lines(**variables):
        result = subprocess.run([maniple.program, "rollout", "model.file=inputs/models/arm6.xml", "simulation.steps=1",
                                 f"output.directory={tmp_path}/run", "output.overwrite=true"], cwd=maniple.root, text=True,
                                env={**os.environ, **variables}, capture_output=True, timeout=GUARD)
        assert result.returncode == 0, result.stderr
        return [line for line in result.stderr.splitlines() if "launch: " in line]

    assert lines(SLURM_NTASKS="4") == ["warning: launch: SLURM gave this job 4 tasks, and one rank was started; "
                                       "srun --mpi=pmix or mpirun in front of the command starts one for each task"]
    assert not lines(SLURM_NTASKS="1") and not lines(SLURM_NTASKS="4", SLURM_STEP_NUM_TASKS="1")
