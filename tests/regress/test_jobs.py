"""The job scripts without a cluster: srun, scontrol and qsub are played by small scripts, so that what the jobs do
with exit code 75 is seen: back into the queue, and on from the checkpoint with other ranks."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FAKES = {
    # as srun -K1: ranks differ from start to start
    "srun": 'echo "srun $*" >> "$LOG"; while [[ $1 == -* ]]; do shift; done\n'
            'exec mpirun --oversubscribe --bind-to none -n $((2 + ${SLURM_RESTART_COUNT:-0})) "$@"\n',
    "scontrol": 'echo "scontrol $*" >> "$LOG"\n',
    "qsub": 'echo "qsub $*" >> "$LOG"\n',
}
SETTINGS = ["batch.num_envs=256", "learning.horizon=8"]


@pytest.fixture
def cluster(tmp_path):
    for name, text in FAKES.items():
        (tmp_path / name).write_text("#!/usr/bin/env bash\n" + text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "nodes").write_text("localhost\nlocalhost\n")
    environment = {
        **os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "LOG": str(tmp_path / "log"), "SLURM_JOB_ID": "17",
        "SLURM_JOB_NODELIST": "n1", "PBS_O_WORKDIR": str(ROOT), "PBS_JOBID": "17.pbs",
        "PBS_NODEFILE": str(tmp_path / "nodes"), "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
        "MANIPLE_PROGRAM": str(Path(os.environ.get("MANIPLE_BUILD_DIR", ROOT / "build")) / "maniple"),
    }
    return tmp_path, environment


def log(folder):
    file = folder / "log"
    return file.read_text() if file.exists() else ""


def test_slurm_requeues_and_continues(maniple, cluster):
    folder, environment = cluster
    command = ["bash", "jobs/slurm/train.sbatch", "inputs/train/isaac_cartpole.yaml",
               f"output.directory={folder}/run", *SETTINGS]
    first = subprocess.run([*command, "learning.iterations=100000", "run.wall_time=3"], cwd=ROOT, env=environment,
                           capture_output=True, text=True, timeout=120)
    assert first.returncode == 75, first.stdout + first.stderr
    assert "scontrol requeue 17" in log(folder)
    assert "srun -K1 --mpi=pmix" in log(folder)
    reached = int(maniple.checkpoints(folder / "run")[-1].stem.lstrip("0"))
    (folder / "log").unlink()
    environment["SLURM_RESTART_COUNT"] = "1"
    second = subprocess.run([*command, f"learning.iterations={reached + 2}"], cwd=ROOT, env=environment,
                            capture_output=True, text=True, timeout=120)
    assert second.returncode == 0, second.stdout + second.stderr
    assert "scontrol" not in log(folder)
    assert int(maniple.checkpoints(folder / "run")[-1].stem.lstrip("0")) == reached + 2


def test_pbs_submits_itself_again(cluster):
    folder, environment = cluster
    deck = folder / "long.yaml"
    deck.write_text(f"include: {ROOT}/inputs/train/isaac_cartpole.yaml\nbatch: {{num_envs: 256}}\n"
                    "learning: {iterations: 100000, horizon: 8}\n")
    environment |= {"DECK": str(deck), "DIRECTORY": str(folder / "run"), "WALL_TIME": "3"}
    result = subprocess.run(["bash", "jobs/pbs/train.pbs"], cwd=ROOT, env=environment, capture_output=True, text=True,
                            timeout=120)
    assert result.returncode == 75, result.stdout + result.stderr
    assert f"qsub -v DECK={deck}" in log(folder)


def test_bad_input_is_not_requeued(cluster):
    folder, environment = cluster
    result = subprocess.run(["bash", "jobs/slurm/train.sbatch", "inputs/train/isaac_cartpole.yaml",
                             "learning.iteratons=3"], cwd=ROOT, env=environment, capture_output=True, text=True,
                            timeout=60)
    assert result.returncode == 2
    assert "scontrol" not in log(folder)
