"""Every command, deck and Python snippet that README.md shows is run here, in the order in which it is shown; then the
commands that the decks of inputs/ show in their comments. By day trainings are cut short, at night they are what is shown.

They run in a folder that looks like the repository (links to its folders) but keeps its own runs/. Left out is only
what would run this test again. SLURM's sbatch is played by a shell that starts the script right away.
"""
# ctest: PROCESSORS 1 COST 100

import os
import re
import subprocess
from pathlib import Path

import h5py
import pytest
from conftest import ENVIRONMENT

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"(?:<!-- file: (?P<file>\S+) -->\n)?```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S)
# commands that are not run as they stand, and what runs instead
REPLACED = {
    "bash tools/test.sh": "true",
    # the speed comparisons take minutes; here only that they work
    "tests/perf/physics_vs_mujoco_batch.py cartpole": "tests/perf/physics_vs_mujoco_batch.py cartpole"
    " --envs 256 --steps 20 --alternations 1",
    "tests/perf/training_rate.py": "tests/perf/training_rate.py --iterations 8 --alternations 1 batch.num_envs=512",
    "tests/perf/network_rate.py encoder": "tests/perf/network_rate.py --steps 1 encoder --samples 4 --height 40 --base-width 16",
}

# trainings, by day
SHORTER = {
    "bash tools/run.sh": "bash tools/run.sh learning.iterations=3",
    "train pendulum.yaml output": "train pendulum.yaml learning.iterations=20 output",
    "train robust_ant.yaml learning.iterations=20": "train robust_ant.yaml learning.iterations=2",
    "learning.steps=20000": "learning.steps=500",
    "learning.iterations=20 output.directory=runs/gammas": "learning.iterations=4 output.directory=runs/gammas",
    "jobs/slurm/train.sbatch inputs/train/isaac_cartpole.yaml": "jobs/slurm/train.sbatch inputs/train/isaac_cartpole.yaml"
    " learning.iterations=3",
    "inputs/train/isaac_cartpole.yaml output.directory=runs/scaling": "inputs/train/isaac_cartpole.yaml batch.num_envs=256"
    " bench.iterations=2 output.directory=runs/scaling",
    "tests/perf/dense_layers.py ": "tests/perf/dense_layers.py --widths 64 --pairs 1 --num-envs 64 --iterations 1 ",
    "--steps 1 encoder --samples 4": "--steps 1 encoder --samples 2",
}

# decks ask for runs of minutes; here only that their commands work
SMALLER = {
    "train": "learning.iterations=2 batch.num_envs=64",
    "rollout": "simulation.steps=100",
    "imitate": "learning.steps=20",
    "bench": "batch.num_envs=64 bench.steps=2 bench.repeats=1",
    "validate": "",
}
SMALLER_DECKS = {"inputs/imitate/diffusion.yaml": "diffusion.down_dims=[32,64]",
                 "inputs/imitate/bc_image.yaml": "image.base_width=8"}
SHOWN = re.compile(r"^# +((?:mpirun -n \d+ )?build/maniple (\w+) .*)$", re.M)


def blocks():
    text = (ROOT / "README.md").read_text()
    return [(m["language"], m["file"], m["text"]) for m in BLOCK.finditer(text)]


def folder_of_the_repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("readme")
    for name in ("build", "inputs", "jobs", "tests", "tools", ".venv", "CMakeLists.txt", "src", "kernels"):
        (folder / name).symlink_to(ROOT / name)
    tools = folder / "bin"
    tools.mkdir()
    fakes = {
        "sbatch": 'while [[ $1 == --* ]]; do shift; done; exec bash "$@"\n',
        "srun": 'while [[ $1 == -* ]]; do shift; done; exec mpirun --oversubscribe --bind-to none -n 3 "$@"\n',
    }
    for name, text in fakes.items():
        (tools / name).write_text("#!/usr/bin/env bash\n" + text)
        (tools / name).chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return folder_of_the_repository(tmp_path_factory)


def environment(folder):
    return {**ENVIRONMENT, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "SLURM_JOB_ID": "1",
            "SLURM_JOB_NODELIST": "localhost", "OMPI_MCA_rmaps_base_oversubscribe": "1"}


def test_there_are_blocks():
    languages = [language for language, _, _ in blocks()]
    assert {"bash", "yaml", "python"} <= set(languages)
    assert set(languages) <= {"bash", "yaml", "python"}, "a block that no test runs"


def run_everything(folder, replaced):
    """What is shown, with replacements; each of them must be of something."""
    met = set()
    for language, file, text in blocks():
        if language == "yaml":
            assert file, "a deck that is shown has a name to be run by"
            (folder / file).write_text(text)
            continue
        if language == "python":
            command = [str(ROOT / ".venv/bin/python"), "-c", text]
        else:
            for shown, run in replaced.items():
                met |= {shown} if shown in text else set()
                text = text.replace(shown, run)
            command = ["bash", "-euo", "pipefail", "-c", text]
        result = subprocess.run(command, cwd=folder, env=environment(folder), capture_output=True, text=True, timeout=600)
        assert result.returncode == 0, f"{text}\n{result.stdout[-3000:]}\n{result.stderr[-3000:]}"
    assert met == set(replaced)
    check_first_command(folder)


def check_first_command(folder):
    """It leaves what it says."""
    runs = sorted((folder / "runs").glob("isaac_cartpole-*"))
    assert runs
    for name in ("results.h5", "learning_curve.png", "checkpoints"):
        assert (runs[0] / name).exists(), name


def test_everything_shown_works(folder):
    run_everything(folder, {**REPLACED, **SHORTER})


@pytest.mark.nightly
def test_everything_shown_works_as_it_is_shown(tmp_path_factory):
    """And the pendulum learns what is said of it."""
    folder = folder_of_the_repository(tmp_path_factory)
    run_everything(folder, REPLACED)
    shown = re.search(r"`evaluate` says a mean return of (\d\.\d)", (ROOT / "README.md").read_text())
    with h5py.File(folder / "runs/pendulum/evaluation.h5") as file:
        returns = file["evaluation/episode_return"][()]
    assert abs(returns.mean() - float(shown[1])) < 0.7
    # from whichever angle
    assert returns.min() > 0


@pytest.fixture(scope="module")
def commands_run():
    return set()


DECKS = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "inputs").rglob("*.yaml"))


# (test_train_decks.py trains with each of inputs/train)
@pytest.mark.parametrize("deck", [
    pytest.param(deck, marks=pytest.mark.nightly if deck.startswith("inputs/train/") else []) for deck in DECKS])
def test_commands_in_decks(folder, commands_run, deck):
    text = (ROOT / deck).read_text()
    run = {"cwd": folder, "env": environment(folder), "capture_output": True, "text": True, "timeout": 120}
    shown = SHOWN.findall(text)
    assert len(shown) == text.count("build/maniple"), "a command that no test runs"
    assert shown or "/tasks/" in deck
    # a deck without a file of its own says how to make one, in indented Python
    snippet = "\n".join(line[4:] for line in re.findall(r"^(?:#   .*|#)$", text, re.M) if "build/maniple" not in line)
    if "import" in snippet:
        result = subprocess.run([str(ROOT / ".venv/bin/python"), "-c", snippet], **run)
        assert result.returncode == 0, f"{snippet}\n{result.stderr}"
    for command, verb in shown:
        # a deck that begins with what another one leaves shows the other one's command, too
        if command in commands_run:
            continue
        commands_run.add(command)
        result = subprocess.run(["bash", "-c", f"{command} {SMALLER[verb]} {SMALLER_DECKS.get(deck, '')}"], **run)
        assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"


def test_links_and_pictures_exist():
    text = (ROOT / "README.md").read_text()
    for path in re.findall(r'\]\(([^)#:]+)\)|src="([^"]+)"', text):
        assert (ROOT / (path[0] or path[1])).exists(), path
    for path in set(re.findall(r"`((?:tools|jobs|inputs|tests)/[\w./-]+)`", text)):
        assert (ROOT / path).exists(), path
