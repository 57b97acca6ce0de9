"""The job scripts without a cluster: small scripts play srun, scontrol, mpirun, qsub and qstat and show the reactions
of a job to the run's exit code: back into the queue, and on from the checkpoint with other ranks. tests/cluster runs
the SLURM script under SLURM."""
# ctest: PROCESSORS 1 COST 45

import os
import re
import shutil
import subprocess

import pytest
from conftest import BUILD, ROOT

# what qstat -f prints, long attributes broken as PBS does
QSTAT = """Job Id: 17.pbs
    Job_Name = long_run
    Job_Owner = user@login1
    resources_used.walltime = 00:00:01
    queue = small
    Account_Name = project
    Resource_List.ncpus = 8
    Resource_List.nodect = 2
    Resource_List.place = scatter
    Resource_List.select = 2:ncpus=4:mpiprocs=4:mem=20gb:this_is_a_very_long_resou
\trce=true
    Resource_List.walltime = {walltime}
"""
FAKES = {
    # as srun -K1: ranks differ from start to start
    "srun": 'echo "srun $*" >> "$LOG"; echo "cpus $SRUN_CPUS_PER_TASK" >> "$LOG"; while [[ $1 == -* ]]; do shift; done\n'
            'exec "$REAL_MPIRUN" --oversubscribe --bind-to none -n $((2 + ${SLURM_RESTART_COUNT:-0})) "$@"\n',
    "scontrol": 'if [ "$1" = show ]; then tr , "\\n" <<< "$3"; else echo "scontrol $*" >> "$LOG"; fi\n',
    # its ssh passes on only what -x names
    "mpirun": 'echo "mpirun $*" >> "$LOG"; passed=(LOG="$LOG"); n=1\n'
              'while [[ $1 == -* ]]; do case $1 in -x) passed+=("$2=${!2}"); shift;; -n) n=$2; shift;;\n'
              ' --hostfile|--bind-to) shift;; esac; shift; done\n'
              'exec "$REAL_MPIRUN" --allow-run-as-root --oversubscribe --bind-to none -n "$n" env -u HOME -u OMP_NUM_THREADS'
              ' -u HDF5_USE_FILE_LOCKING "${passed[@]}" "$@"\n',
    "qsub": 'echo "qsub $*" >> "$LOG"; for v in DECK DIRECTORY OVERRIDES MARGIN MANIPLE_MACHINE MANIPLE_PROGRAM MANIPLE_RESTARTS; do\n'
            ' echo "$v=${!v}" >> "$LOG"; done; echo 18.pbs; exit ${QSUB_CODE:-0}\n',
    "qstat": 'cat "$QSTAT"\n',
}
SETTINGS = ["batch.num_envs=256", "learning.horizon=8"]
SLURM = ["bash", "jobs/slurm/run.sbatch", "train", "inputs/train/isaac_cartpole.yaml", *SETTINGS]


def fake(folder, name, text):
    (folder / name).write_text("#!/usr/bin/env bash\n" + text)
    (folder / name).chmod(0o755)


@pytest.fixture
def cluster(tmp_path):
    for name, text in FAKES.items():
        fake(tmp_path, name, text)
    (tmp_path / "nodes").write_text("localhost\nlocalhost\n")
    (tmp_path / "qstat.txt").write_text(QSTAT.format(walltime="00:02:03"))
    environment = {
        **os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "LOG": str(tmp_path / "log"), "SLURM_JOB_ID": "17",
        "SLURM_JOB_NODELIST": "n1", "PBS_O_WORKDIR": str(ROOT), "PBS_JOBID": "17.pbs", "PBS_O_QUEUE": "prod",
        "QSTAT": str(tmp_path / "qstat.txt"), "PBS_NODEFILE": str(tmp_path / "nodes"), "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "OMPI_MCA_hwloc_base_binding_policy": "none", "OMPI_MCA_odls_base_sigkill_timeout": "0", "REAL_MPIRUN": shutil.which("mpirun"),
        "MANIPLE_PROGRAM": str(BUILD / "maniple"),
    }
    return tmp_path, environment


def run(command, environment):
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)


def log(folder):
    file = folder / "log"
    return file.read_text() if file.exists() else ""


# ---- SLURM ----
def test_slurm_requeues_and_continues(maniple, cluster):
    folder, environment = cluster
    command = [*SLURM, f"output.directory={folder}/run"]
    environment["SLURM_CPUS_PER_TASK"] = "3"
    first = run([*command, "learning.iterations=100000", "run.wall_time=3"], environment)
    assert first.returncode == 75, first.stdout + first.stderr
    assert "scontrol requeue 17" in log(folder)
    assert "srun -K1 --mpi=pmix" in log(folder)
    assert "cpus 3" in log(folder), "srun takes no --cpus-per-task from the job"
    reached = int(maniple.checkpoints(folder / "run")[-1].stem)
    (folder / "log").unlink()
    environment["SLURM_RESTART_COUNT"] = "1"
    second = run([*command, f"learning.iterations={reached + 2}"], environment)
    assert second.returncode == 0, second.stdout + second.stderr
    assert "scontrol" not in log(folder)
    assert int(maniple.checkpoints(folder / "run")[-1].stem) == reached + 2


def test_a_task_of_an_array_is_asked_for_as_such(cluster):
    """The last task has the number of the array, by which scontrol would mean all tasks."""
    folder, environment = cluster
    fake(folder, "scontrol", FAKES["scontrol"] + '[ "$2" != job ] || echo "show job $3" >> "$LOG"\n')
    environment |= {"SLURM_ARRAY_JOB_ID": "17", "SLURM_ARRAY_TASK_ID": "3"}
    result = run([*SLURM, "output.directory={}/run_{{task}}".format(folder), "learning.iterations=100000", "run.wall_time=3"],
                 environment)
    assert result.returncode == 75, result.stdout + result.stderr
    assert "show job 17_3\n" in log(folder) and "scontrol requeue 17_3\n" in log(folder)
    assert (folder / "run_3").is_dir()


def test_what_does_not_continue_is_not_started_again(cluster):
    folder, environment = cluster
    fake(folder, "srun", 'echo started >> "$LOG"; exit 138\n')
    result = run(["bash", "jobs/slurm/run.sbatch", "evaluate", "runs/none"], environment)
    assert result.returncode == 138 and log(folder).count("started") == 1, result.stdout + result.stderr


def test_a_step_that_never_ran_is_no_success(cluster):
    folder, environment = cluster
    fake(folder, "srun", "echo 'srun: error: Task launch for StepId=17.0 failed on node n1: Invalid job credential' >&2\n")
    result = run([*SLURM, f"output.directory={folder}/run"], environment)
    assert result.returncode == 1
    assert "srun reports success, but the run did not come to its end" in result.stderr


def test_a_launcher_that_loses_the_exit_code(cluster):
    # what the run says counts: the launcher was told to stop, too, and says so in its own way
    folder, environment = cluster
    fake(folder, "srun", FAKES["srun"].replace("exec ", "") + "exit 143\n")
    command = [*SLURM, f"output.directory={folder}/run"]
    assert run([*command, "learning.iterations=100000", "run.wall_time=3"], environment).returncode == 75
    assert "scontrol requeue 17" in log(folder)


def test_no_way_back_into_the_queue(cluster):
    folder, environment = cluster
    fake(folder, "scontrol", "echo 'Requested operation is presently disabled' >&2; exit 1\n")
    result = run([*SLURM, f"output.directory={folder}/run", "learning.iterations=100000", "run.wall_time=3"], environment)
    assert result.returncode == 1 and "submit the job again, it continues" in result.stderr


def test_bad_input_is_not_requeued(cluster):
    folder, environment = cluster
    result = run([*SLURM, "learning.iteratons=3"], environment)
    assert result.returncode == 2
    assert "maniple: error: " in result.stderr and "Primary job" not in result.stderr, "mpirun's words below the message are left out"
    assert "scontrol" not in log(folder)


# ---- PBS ----
@pytest.fixture
def long_run(cluster):
    folder, environment = cluster
    deck = folder / "long.yaml"
    deck.write_text(f"include: {ROOT}/inputs/train/isaac_cartpole.yaml\nbatch: {{num_envs: 256}}\n"
                    "learning: {iterations: 100000, horizon: 8}\n")
    environment |= {"DECK": str(deck), "DIRECTORY": str(folder / "run"), "OVERRIDES": "batch.seed=7 policy.hidden=[8,8]"}
    return folder, environment


PBS = ["bash", "jobs/pbs/run.pbs"]


def test_pbs_submits_the_same_job_again(maniple, long_run):
    # two minutes of margin out of 00:02:03 leave three seconds
    folder, environment = long_run
    result = run(PBS, environment | {"MANIPLE_RESTARTS": "1"})
    assert result.returncode == 75, result.stdout + result.stderr
    assert "job 18.pbs continues" in result.stdout
    lines = log(folder).splitlines()
    submitted = next(line for line in lines if line.startswith("qsub ")).split()
    for words in ("-q prod", "-N long_run", "-A project", "-l place=scatter", "-l walltime=00:02:03",
                  "-l select=2:ncpus=4:mpiprocs=4:mem=20gb:this_is_a_very_long_resource=true"):
        assert words in " ".join(submitted)
    passed = submitted[submitted.index("-v") + 1].split(",")
    for name, value in {"DECK": environment["DECK"], "DIRECTORY": environment["DIRECTORY"], "MARGIN": "120",
                        "OVERRIDES": environment["OVERRIDES"], "MANIPLE_PROGRAM": environment["MANIPLE_PROGRAM"],
                        "MANIPLE_RESTARTS": "1"}.items():
        assert name in passed and f"{name}={value}" in lines
    # the overrides were this run's, too
    assert re.search(r"^ *seed +7$", maniple.inspect(maniple.checkpoints(folder / "run")[-1]), re.M)


def test_pbs_passes_variables_to_other_nodes(long_run):
    folder, environment = long_run
    environment |= {"MANIPLE_PROGRAM": str(folder / "program"), "OMP_PROC_BIND": "false", "SECRET": "stays"}
    del environment["OMPI_MCA_odls_base_sigkill_timeout"]
    fake(folder, "program", 'env > "$(dirname "$LOG")/environment"\n')
    result = run(PBS, environment)
    assert result.returncode == 1 and "mpirun reports success, but the run did not come to its end" in result.stderr
    started = (folder / "environment").read_text().splitlines()
    for line in ("HDF5_USE_FILE_LOCKING=FALSE", "OMP_NUM_THREADS=1", "OMP_PROC_BIND=false", "PBS_JOBID=17.pbs"):
        assert line in started
    assert not any("sigkill_timeout" in line for line in started), "mpirun would wait for so long after every crash"
    launched = log(folder)
    assert "-x LD_LIBRARY_PATH" in launched or "LD_LIBRARY_PATH" not in environment
    assert "-x PATH" in launched and "SECRET" not in launched


@pytest.mark.parametrize("walltime, code, message", [
    ("00:02:00", 2, "a walltime of 00:02:00 leaves nothing before a margin of 120 s"),
    ("", 1, "qstat -f 17.pbs does not tell the walltime of this job"),
])
def test_pbs_needs_a_walltime(long_run, walltime, code, message):
    folder, environment = long_run
    (folder / "qstat.txt").write_text(QSTAT.format(walltime=walltime))
    result = run(PBS, environment)
    assert result.returncode == code and message in result.stderr
    assert not (folder / "run").exists()


def test_pbs_says_when_it_cannot_submit(long_run):
    folder, environment = long_run
    result = run(PBS, environment | {"QSUB_CODE": "1"})
    assert result.returncode == 1
    assert "but qsub refuses the next job; this continues:" in result.stderr
    assert f"env VERB=train DECK={environment['DECK']} DIRECTORY={folder}/run OVERRIDES=batch.seed=7\\ policy.hidden=\\[8\\,8\\]" in result.stderr


# ---- any verb, from any directory ----
def test_other_verbs_from_another_directory(maniple, cluster):
    """Tasks of an array, then an evaluation; the script runs as a copy in a spool directory, as SLURM has it."""
    folder, environment = cluster
    (folder / "work").mkdir()
    (folder / "spool").mkdir()
    script = shutil.copy(ROOT / "jobs/slurm/run.sbatch", folder / "spool/slurm_script")
    fake(folder, "scontrol", FAKES["scontrol"] + f'[ "$2" != job ] || echo "   Command={ROOT}/jobs/slurm/run.sbatch"\n')
    del environment["MANIPLE_PROGRAM"]
    environment["PATH"] = f"{folder}:{maniple.program.parent}:{os.environ['PATH']}"

    def job(*arguments):
        result = subprocess.run(["bash", script, *arguments], cwd=folder / "work", env=environment, capture_output=True, text=True,
                                timeout=120)
        assert result.returncode == 0, result.stdout + result.stderr

    for task in ("3", "4"):
        environment["SLURM_ARRAY_TASK_ID"] = task
        job("train", "isaac_cartpole", *SETTINGS, "learning.iterations=2", "batch.seed={task}", "output.directory=runs/seed_{task}")
    for task in ("3", "4"):
        checkpoint = maniple.checkpoints(folder / f"work/runs/seed_{task}")[-1]
        assert re.search(rf"^ *seed +{task}$", maniple.inspect(checkpoint), re.M)
    job("evaluate", "runs/seed_4", "evaluation.episodes=4")
    assert (folder / "work/runs/seed_4/evaluation.h5").exists()
    launched = [line for line in log(folder).splitlines() if line.startswith("srun")]
    assert "learning.resume=auto" in launched[0] and "learning.resume" not in launched[-1] and " evaluate " in launched[-1]


def test_the_names_of_before_train(cluster):
    folder, environment = cluster
    fake(folder, "program", 'echo "program $*" >> "$LOG"\n')
    environment |= {"MANIPLE_PROGRAM": str(folder / "program"), "DECK": "deck.yaml", "DIRECTORY": "runs/{task}", "PBS_ARRAY_INDEX": "5",
                    "MANIPLE_RESTARTS": "0"}
    run(["bash", "jobs/slurm/train.sbatch", "deck.yaml"], environment)
    run(["bash", "jobs/pbs/train.pbs"], environment)
    started = [line for line in log(folder).splitlines() if line.startswith("program")]
    assert all(line.startswith("program train deck.yaml ") for line in started) and len(started) >= 2
    assert "output.directory=runs/5" in started[-1]
    assert "run.wall_time=" in started[-1]
    run(["bash", "jobs/pbs/run.pbs"], environment | {"VERB": "evaluate"})
    evaluated = [line for line in log(folder).splitlines() if line.startswith("program evaluate")]
    assert evaluated and "run.wall_time=" in evaluated[0]
    result = run(["bash", "jobs/pbs/run.pbs"], environment | {"VERB": "trian"})
    assert result.returncode == 2 and "VERB is trian; allowed: train" in result.stderr


@pytest.mark.parametrize("verb, words, answer", [("schema", ["learning.gamma"], "Discount factor"), ("tasks", ["cartpole"], "isaac_cartpole"),
                                                 ("inspect", ["inputs/train/isaac_cartpole.yaml"], "pole_pos")])
def test_verbs_that_are_no_runs(cluster, verb, words, answer):
    """One process answers, without the keys of a run; a job for each rank of it would answer as often."""
    folder, environment = cluster
    for command in (["bash", "jobs/slurm/run.sbatch", verb, *words], ["env", f"VERB={verb}", f"DECK={words[0]}", "bash", "jobs/pbs/run.pbs"]):
        result = run(command, environment)
        assert result.returncode == 0 and result.stdout.count(answer) == run([environment["MANIPLE_PROGRAM"], verb, *words],
                                                                             environment).stdout.count(answer), result
        assert "srun" not in log(folder) and "mpirun" not in log(folder)


def test_words_that_are_no_verbs(cluster):
    """A mistyped verb is no deck of a training; names of decks, decks and keys are."""
    folder, environment = cluster
    result = run(["bash", "jobs/slurm/run.sbatch", "trian", "isaac_cartpole"], environment)
    assert result.returncode == 2 and "found 'trian'; allowed: a verb (train " in result.stderr and "srun" not in log(folder)
    for first in ("isaac_cartpole", "inputs/train/isaac_cartpole.yaml", "model.file=nothing.xml"):
        result = run(["bash", "jobs/slurm/run.sbatch", first, "learning.iteratons=3"], environment)
        assert result.returncode == 2 and f"train {first} learning.iteratons=3 learning.resume=auto" in log(folder), result


BAD_SETTINGS = [
    ({"MANIPLE_RESTARTS": "none"}, "MANIPLE_RESTARTS: found 'none'; allowed: a whole number"),
    ({"MARGIN": "2m"}, "MARGIN: found '2m'; allowed: a whole number"),
    ({"MANIPLE_PROGRAM": "/nope/maniple"}, "MANIPLE_PROGRAM: found '/nope/maniple', which is no program"),
    ({"MANIPLE_MACHINE": "nosite"}, f"MANIPLE_MACHINE: found 'nosite'; allowed, of {ROOT}/jobs/machines: example"),
    ({"DECK": "inputs/train/{task}.yaml"}, "found {task} in 'inputs/train/{task}.yaml"),
    ({"DECK": ""}, "DECK: found nothing; allowed: a deck"),
]


@pytest.mark.parametrize("job, variables, message", [
    *(("pbs/run.pbs", *bad) for bad in BAD_SETTINGS),
    # (the command line of SLURM's script is the program's)
    *(("slurm/run.sbatch", *bad) for bad in BAD_SETTINGS if bad[0] != {"DECK": ""}),
])
def test_bad_settings_of_a_job(cluster, job, variables, message):
    folder, environment = cluster
    environment |= {"DECK": "isaac_cartpole"} | variables
    arguments = ["train", environment["DECK"]] if "slurm" in job else []
    result = run(["bash", f"jobs/{job}", *arguments], environment)
    assert result.returncode == 2 and message in result.stderr and len(result.stderr.splitlines()) == 1, result
    assert "srun" not in log(folder) and "mpirun" not in log(folder) and not list(ROOT.glob("maniple-*.nodes"))


@pytest.mark.parametrize("job", ["slurm/run.sbatch", "pbs/run.pbs"])
def test_a_copy_of_the_script_alone(cluster, job):
    folder, environment = cluster
    (folder / "alone").mkdir()
    script = shutil.copy(ROOT / "jobs" / job, folder / "alone")
    result = subprocess.run(["bash", script, "train", "isaac_cartpole"], cwd=folder / "alone", capture_output=True, text=True,
                            env=environment | {"DECK": "isaac_cartpole", "PBS_O_WORKDIR": str(folder / "alone")}, timeout=60)
    assert result.returncode == 2 and len(result.stderr.splitlines()) == 1, result
    assert "the variable MANIPLE_JOBS names it" in result.stderr


def test_what_a_task_of_an_array_is_given(cluster):
    folder, environment = cluster
    fake(folder, "program", 'echo "program $*" >> "$LOG"; exit 2\n')
    environment |= {"MANIPLE_PROGRAM": str(folder / "program"), "DECK": "deck_{task}.yaml", "PBS_ARRAY_INDEX": "5"}
    run(PBS, environment)
    assert "program train deck_5.yaml " in log(folder)
    environment |= {"SLURM_ARRAY_JOB_ID": "4", "SLURM_ARRAY_TASK_ID": "1"}
    assert " job 4_1 start 0 on " in run(SLURM, environment).stdout.splitlines()[0]


def test_verbs_of_two_words(cluster):
    folder, environment = cluster
    fake(folder, "program", 'echo "program $*" >> "$LOG"; exit 2\n')
    environment |= {"MANIPLE_PROGRAM": str(folder / "program"), "DECK": "deck.yaml", "VERB": "bench scaling"}
    for command in (PBS, ["bash", "jobs/slurm/run.sbatch", "bench", "scaling", "deck.yaml"]):
        run(command, environment)
        assert "program bench scaling deck.yaml run.status_file" in log(folder), command
        (folder / "log").unlink()


# ---- a node is lost ----
# says what it was started with, crashes as CRASHES says (a line for each start), and reports its end as the program does
CRASHING = """start=$(grep -c '^started' "$LOG"); echo "started $LAUNCH" >> "$LOG"; echo "given $*" >> "$LOG"
line=$(sed -n "$((start + 1))p" <<< "$CRASHES"); read -r code words <<< "$line"
[ -z "$words" ] || echo "$words" >&2
for argument; do case $argument in run.status_file=*) file=${argument#*=};; run.wall_time=*) echo "$argument" >> "$LOG";; esac; done
case ${code:=0} in 0|75) echo "$code" > "$file";; esac
exit "$code"
"""
HANG = ("maniple: error: run.hang_timeout: no rank moved for 600 s: rank 2 (host n2.cluster.org, pid 17, stopped) is silent, "
        "last heard 601 s ago in stage 'physics' after iteration 7; ranks 0, 1 waiting for others in stage 'communication' "
        "after iteration 7")


@pytest.fixture
def lossy(cluster):
    """A job on n1, n2 and n3 of two ranks each; nodes in DEAD start nothing."""
    folder, environment = cluster
    fake(folder, "program", CRASHING)
    fake(folder, "srun", 'if [[ " $* " == *" --overlap "* ]]; then for n in $DEAD; do [[ $* != *"--nodelist=$n "* ]] || exit 1; done\n'
         'exit 0; fi\nLAUNCH=; while [[ $1 == -* ]]; do LAUNCH+=" $1"; shift; done; LAUNCH=$LAUNCH exec "$@"\n')
    fake(folder, "mpirun", 'LAUNCH=; while [[ $1 == -* ]]; do case $1 in -x) shift 2; continue;; --hostfile) LAUNCH+=" $(tr "\\n" , < "$2")";;\n'
         ' --host) for n in $DEAD; do [ "$2" != "$n" ] || exit 1; done; LAUNCH+=" host $2";; esac; LAUNCH+=" $1 $2"; shift 2; done\n'
         'LAUNCH=$LAUNCH exec "$@"\n')
    (folder / "nodes").write_text("n1\nn1\nn2\nn2\nn3\nn3\n")
    (folder / "qstat.txt").write_text(QSTAT.format(walltime="01:00:00"))
    environment |= {"MANIPLE_PROGRAM": str(folder / "program"), "SLURM_JOB_NODELIST": "n1,n2,n3", "SLURM_NTASKS": "6",
                    "DEAD": "", "DECK": "deck.yaml", "DIRECTORY": "runs/x"}
    return folder, environment


def starts(folder):
    return [line for line in log(folder).splitlines() if line.startswith("started")]


@pytest.mark.parametrize("crash, dead", [("137", "n2"), ("1 " + HANG, "")], ids=["lost", "hung"])
@pytest.mark.parametrize("job, three_nodes, two_nodes", [
    (SLURM, "-K1", "--nodes=2 --nodelist=n1,n3 --ntasks=4"),
    (PBS, "-n 6 n1,n1,n2,n2,n3,n3,", "-n 4 n1,n1,n3,n3,"),
], ids=["slurm", "pbs"])
def test_a_run_starts_again_on_the_nodes_that_are_left(lossy, job, three_nodes, two_nodes, crash, dead):
    folder, environment = lossy
    result = run(job, environment | {"CRASHES": crash, "DEAD": dead})
    assert result.returncode == 0, result.stderr
    first, second = starts(folder)
    assert three_nodes in first and "--nodelist" not in first
    assert two_nodes in second and ("-K1" in second) == (job is SLURM)
    assert ("node n2 does not start a process" if dead else "a rank on node n2 hung") in result.stderr
    assert "the run ended with" in result.stderr and "on n1 n3" in result.stderr
    walls = [int(line.split("=")[1]) for line in log(folder).splitlines() if line.startswith("run.wall_time=")]
    if job is PBS:
        assert walls[1] < walls[0] <= 3480, "what the first start took is gone"
    assert not list(ROOT.glob("maniple-*.nodes"))


def test_slurm_keeps_its_nodes_after_a_crash_of_the_program(lossy):
    folder, environment = lossy
    result = run(SLURM, environment | {"CRASHES": "139\n75"})
    assert result.returncode == 75
    assert len(starts(folder)) == 2 and "--nodelist" not in starts(folder)[1]
    assert "scontrol requeue 17" in log(folder)


def test_restarts_come_to_an_end(lossy):
    folder, environment = lossy
    assert run(SLURM, environment | {"CRASHES": "137\n" * 9}).returncode == 137
    assert len(starts(folder)) == 4
    (folder / "log").unlink()
    result = run(SLURM, environment | {"CRASHES": "137\n" * 9, "DEAD": "n1 n2 n3"})
    assert result.returncode == 137 and len(starts(folder)) == 1 and "no node is left" in result.stderr
    (folder / "log").unlink()
    assert run(SLURM, environment | {"CRASHES": "2"}).returncode == 2
    assert len(starts(folder)) == 1, "bad input stays bad"


# ---- the time limit, and beginning anew ----
def given(folder):
    return [line for line in log(folder).splitlines() if line.startswith("given")]


@pytest.mark.parametrize("key", ["output.overwrite=true", "learning.resume=never"])
@pytest.mark.parametrize("job", [SLURM, PBS], ids=["slurm", "pbs"])
def test_a_job_begins_as_it_is_told_and_then_continues(lossy, job, key):
    folder, environment = lossy
    old = folder / "run/checkpoints/9.h5"
    old.parent.mkdir(parents=True)  # (without one, what is there is this job's)
    environment |= {"DIRECTORY": str(folder / "run"), "OVERRIDES": f"batch.seed=2 {key}"}
    command = [*job, key, f"output.directory={folder}/run"] if job is SLURM else job
    run(command, environment | {"CRASHES": "137\n75"})
    first, second = given(folder)
    assert key in first and "learning.resume=auto" not in first
    assert key not in second and "learning.resume=auto" in second
    if job is PBS:
        assert "OVERRIDES=batch.seed=2\n" in log(folder), "for the job that continues"
    # a later start of the job
    (folder / "log").unlink()
    if job is PBS:
        (folder / "qstat.txt").write_text(QSTAT.format(walltime="01:00:00") + "    run_count = 2\n")
    run(command, environment | {"SLURM_RESTART_COUNT": "1"})
    assert key not in given(folder)[0] and "learning.resume=auto" in given(folder)[0]
    # a start that did not come to replace the run that is there: its checkpoints are nothing to continue
    (folder / "log").unlink()
    old.touch()
    (folder / "qstat.txt").write_text(QSTAT.format(walltime="01:00:00"))
    run(command, environment | {"CRASHES": "137"})
    assert all(key in line and "learning.resume=auto" not in line for line in given(folder)) and len(given(folder)) == 2


LIMITED = FAKES["scontrol"] + '[ "$2" != job ] || echo "   RunTime=00:00:01 TimeLimit=$LIMIT TimeMin=N/A"\n'


@pytest.mark.parametrize("limit, margin, enough", [("00:02:00", "", False), ("00:03:00", "", True), ("00:03:00", "300", False),
                                                   ("1-00:00:00", "", True), ("UNLIMITED", "", True)])
def test_slurm_needs_more_time_than_the_margin(lossy, limit, margin, enough):
    folder, environment = lossy
    fake(folder, "scontrol", LIMITED)
    result = run(SLURM, environment | {"LIMIT": limit, "MARGIN": margin})
    assert (result.returncode, len(starts(folder))) == ((0, 1) if enough else (2, 0)), result
    assert enough or f"a time limit of {limit} leaves nothing before a margin of {margin or 120} s" in result.stderr


def test_slurm_does_not_requeue_for_ever(lossy):
    folder, environment = lossy
    checkpoint = folder / "run/checkpoints/1.h5"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.touch()
    command = [*SLURM, f"output.directory={folder}/run"]
    codes = []
    for start in range(3):
        result = run(command, environment | {"CRASHES": "75\n" * 9, "SLURM_RESTART_COUNT": str(start)})
        codes.append(result.returncode)
        if start == 0:
            assert (ROOT / ".maniple-17.stalled").exists()
    assert codes == [75, 1, 75] and log(folder).count("scontrol requeue") == 2
    fake(folder, "program", f'touch {folder}/run/checkpoints/2.h5\n' + CRASHING)
    assert run(command, environment | {"CRASHES": "75\n" * 9}).returncode == 75
    assert not (ROOT / ".maniple-17.stalled").exists()


def test_a_signal_before_the_program_can_take_it(lossy):
    """SIGUSR1 ends a rank that has not come far: a stop, no crash; but one that was to replace a run has not begun."""
    folder, environment = lossy
    result = run(SLURM, environment | {"CRASHES": "138\n" * 9})
    assert result.returncode == 75 and len(starts(folder)) == 1 and "scontrol requeue 17" in log(folder), result
    (folder / "log").unlink()
    (folder / "run/checkpoints").mkdir(parents=True)
    (folder / "run/checkpoints/9.h5").touch()
    result = run([*SLURM, f"output.directory={folder}/run", "output.overwrite=true"], environment | {"CRASHES": "138\n" * 9})
    assert result.returncode == 1 and "stopped before it replaced the run that is there" in result.stderr and "requeue" not in log(folder)


@pytest.mark.parametrize("script, words", [("slurm/run.sbatch", "sbatch"), ("pbs/run.pbs", "qsub")])
def test_scripts_of_jobs_say_what_they_are(script, words):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "PBS_"))}
    result = subprocess.run(["bash", ROOT / "jobs" / script, "train"], env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 2 and f"this is the script of a job: {words}" in result.stderr and "unbound" not in result.stderr
