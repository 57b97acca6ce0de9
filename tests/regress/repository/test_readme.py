"""Every command, deck and Python snippet that the pages (README.md, */README.md) show is run here, each page in a folder of
its own, in the order in which it shows them; then the commands that the decks of inputs/ show in their comments. By day
trainings are cut short, at night they are what is shown. Links, anchors and lengths are looked at, too.

A folder looks like the repository (links to its folders) but keeps its own runs/. Left out is only what would run this test
again, or install. SLURM's sbatch is played by a shell that starts the script right away.
"""
# ctest: PROCESSORS 1 COST 100

import os
import re
import subprocess
from pathlib import Path

import h5py
import pytest
from conftest import ENVIRONMENT, ROOT

NAMED = r"(?:<!-- file: (?P<file>\S+) -->\n)?"
BLOCK = re.compile(NAMED + r"```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S)
CMAKE = "cmake -S . -B build -G Ninja"
CUDA = "-DMANIPLE_FETCH_KOKKOS=ON -DKokkos_ENABLE_CUDA=ON -DKokkos_ARCH_HOPPER90=ON"

# commands that are not run as they stand, and what runs instead, by page
REPLACED = {
    "README.md": {
        "bash tools/test.sh": "true",
        "python3 -m venv .venv && .venv/bin/pip install -r": ".venv/bin/python -m pip install --quiet --dry-run --no-index -r",
        # .ci/gpu builds with these options; a build for the CPU is only configured
        f"{CMAKE} {CUDA}": f"grep -F -e '({CUDA})' .ci/gpu",
        f"{CMAKE}\n": f"{CMAKE.replace('build', 'build-own')} -DMANIPLE_TESTS=OFF\n",
        "ninja -C build maniple": "test ! -d build-own || ninja -C build-own -n maniple",
    },
    "jobs/README.md": {
        # in a checkout it would write; .ci/gpu builds with these options
        "cp jobs/machines/example.sh jobs/machines/site.sh": "test -f jobs/machines/example.sh",
        ". jobs/machines/site.sh": ". jobs/machines/example.sh",
        "nvcc --version": "true",
        f'bash tools/setup.sh --prefix "$HOME/maniple" -- {CUDA}': f"grep -F -e '({CUDA})' .ci/gpu",
        "MANIPLE_PROGRAM=$HOME/maniple/bin/maniple MANIPLE_MACHINE=site": "MANIPLE_PROGRAM=build/maniple MANIPLE_MACHINE=example",
    },
    "tests/README.md": {
        "bash tools/test.sh ": "true ",
        "ctest --test-dir build": "ctest --test-dir build -N",
        # the speed comparisons take minutes; here only that they work
        "tests/perf/physics_vs_mujoco_batch.py cartpole": "tests/perf/physics_vs_mujoco_batch.py cartpole"
        " --envs 256 --steps 20 --alternations 1",
        "tests/perf/training_rate.py": "tests/perf/training_rate.py --iterations 8 --alternations 1 batch.num_envs=512",
        "tests/perf/network_rate.py encoder": "tests/perf/network_rate.py --steps 1 encoder --samples 4 --height 40"
        " --base-width 16",
    },
}

# trainings, by day
SHORTER = {
    "README.md": {
        "bash tools/run.sh": "bash tools/run.sh learning.iterations=3",
        # tools/test.sh configures the build of this test in the same way
        f"{CMAKE.replace('build', 'build-own')} -DMANIPLE_TESTS=OFF\n": "true\n",
        ".venv/bin/python -m pip install --quiet --dry-run --no-index -r tools/requirements.txt": "true",  # as tools/setup.sh does
        "train pendulum.yaml output": "train pendulum.yaml learning.iterations=5 output",
        "half_cheetah_v5 learning.iterations=5": "half_cheetah_v5 learning.iterations=1",
        # tools/run.sh starts both
        ".venv/bin/python tools/plot_learning_curve.py runs/pendulum": "true",
        ".venv/bin/python tools/replay.py runs/pendulum": "true",
    },
    "inputs/tasks/README.md": {
        "train reach.yaml learning.iterations=20": "train reach.yaml learning.iterations=3",
        "train robust_ant.yaml learning.iterations=20": "train robust_ant.yaml learning.iterations=2",
        "evaluate runs/robust_ant": "evaluate runs/robust_ant task.episode_steps=20",
    },
    "inputs/train/README.md": {
        "gymnasium/inverted_pendulum_v5.yaml": "gymnasium/inverted_pendulum_v5.yaml learning.iterations=10",
        "train my_training.yaml\n": "train my_training.yaml learning.iterations=5 evaluation.every=5\n",
        "learning.resume=auto learning.iterations=110": "learning.resume=auto learning.iterations=7 evaluation.every=5",
        "learning.warm_start=runs/my_training learning.iterations=10": "learning.warm_start=runs/my_training learning.iterations=2",
        "train my_training.yaml learning.iterations=10 output.tensorboard=true": "validate my_training.yaml output.tensorboard=true",
        ".venv/bin/python tools/plot_learning_curve.py": "true",  # tools/run.sh, on README.md, draws one
    },
    "inputs/imitate/README.md": {
        "train inputs/train/pendulum_swingup.yaml": "train inputs/train/pendulum_swingup.yaml learning.iterations=10",
        "learning.steps=20000": "learning.steps=200",
        "learning.iterations=50 output.directory=runs/tuned_clone": "learning.iterations=2 output.directory=runs/tuned_clone",
        ".venv/bin/python tools/plot_learning_curve.py": "true",  # test_tools.py draws runs of imitate ...
        ".venv/bin/python tools/two_roads.py draw": "true",  # ... and test_two_roads.py roads
        "record push_t.h5": "record push_t.h5 --episodes 4",
        "push_t_diffusion.yaml data": "push_t_diffusion.yaml learning.steps=20 evaluation.every=0 data",
        "evaluate runs/push_t_diffusion batch.seed=7 evaluation.episodes=100": "evaluate runs/push_t_diffusion task.episode_steps=20",
    },
    "jobs/README.md": {
        "run.sbatch train isaac_cartpole output": "run.sbatch train isaac_cartpole learning.iterations=3 output",
        "run.sbatch train isaac_cartpole batch": "run.sbatch train isaac_cartpole learning.iterations=2 batch",
        'run.sbatch train isaac_cartpole "ensemble={batch.seed: [0, 1, 2, 3]}"':
            'run.sbatch train isaac_cartpole "ensemble={batch.seed: [0, 1]}" learning.iterations=2',
        "learning.iterations=20 output.directory=runs/stoppable": "learning.iterations=3 output.directory=runs/stoppable",
        "learning.iterations=30": "learning.iterations=5",
        "learning.iterations=20 output.directory=runs/gammas": "learning.iterations=2 output.directory=runs/gammas",
        ".venv/bin/python tools/plot_learning_curve.py": "true",  # test_tools.py draws ensembles
        "inputs/train/isaac_cartpole.yaml output.directory=runs/scaling": "inputs/train/isaac_cartpole.yaml batch.num_envs=256"
        " bench.iterations=2 output.directory=runs/scaling",
        "bench inputs/bench/cartpole.yaml": "bench inputs/bench/cartpole.yaml batch.num_envs=64 bench.steps=2 bench.repeats=1",
    },
    "tools/README.md": {
        "train inputs/train/gymnasium/inverted_pendulum_v5.yaml":
            "train inputs/train/gymnasium/inverted_pendulum_v5.yaml learning.iterations=10",
        # test_replay.py makes pages of rollouts, test_export_csv.py tables of fields, test_lerobot.py starts the converter
        ".venv/bin/python tools/replay.py runs/arm_rollout": "true",
        "--image pendulum.png": "--seconds 3 --image pendulum.png",
        "--seconds 1 --fps 10 --video": "--seconds 0.3 --fps 10 --video",
        ".venv/bin/python tools/export_csv.py runs/arm_rollout": "true",
        ".venv/bin/python tools/from_lerobot.py": "true",
        ".venv/bin/python tools/plot_learning_curve.py": "true",  # tools/run.sh, on README.md, draws one
    },
    "tests/README.md": {
        "tests/perf/dense_layers.py ": "tests/perf/dense_layers.py --widths 64 --pairs 1 --num-envs 64 --iterations 1 ",
        "--steps 1 encoder --samples 4": "--steps 1 encoder --samples 2",
    },
}

# by day two ranks are started where pages are about them; a rank without mpirun begins in half of the time
LAUNCHED = re.compile(r"mpirun -n \d+ (?=build/maniple )")
ABOUT_RANKS = {"README.md", "jobs/README.md"}

# decks ask for runs of minutes; here only that their commands work
SMALLER = {
    "train": "learning.iterations=2 batch.num_envs=64",
    "rollout": "simulation.steps=100",
    "imitate": "learning.steps=20 evaluation.every=0",
    "bench": "batch.num_envs=64 bench.steps=2 bench.repeats=1",
    "validate": "",
}
SMALLER_DECKS = {"inputs/imitate/bc_rnn.yaml": "policy.recurrent_units=40",
                 "inputs/imitate/diffusion.yaml": "diffusion.down_dims=[32,64]",
                 "inputs/imitate/bc_image.yaml": "image.base_width=8"}
SHOWN = re.compile(r"^# +((?:mpirun -n \d+ )?build/maniple (\w+) .*)$", re.M)


def pages():
    """All pages of the repository, by their path."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return sorted(name for name in names if name and (ROOT / name).is_file())


def blocks(page):
    return [(m["language"], m["file"], m["text"]) for m in BLOCK.finditer((ROOT / page).read_text())]


PAGES = pages()
WITH_BLOCKS = [page for page in PAGES if blocks(page)]


def folder_of_the_repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    for name in (".ci", "build", "inputs", "jobs", "tests", "tools", ".venv", ".venv-torch", "CMakeLists.txt", "src", "kernels"):
        (folder / name).symlink_to(ROOT / name)
    tools = folder / "bin"
    tools.mkdir()
    fakes = {
        "sbatch": 'while [[ $1 == --* ]]; do [[ $1 != --array* ]] || export SLURM_ARRAY_TASK_ID=0; shift; done; exec bash "$@"\n',
        "srun": 'while [[ $1 == -* ]]; do shift; done; exec mpirun --oversubscribe --bind-to none -n 3 "$@"\n',
    }
    for name, text in fakes.items():
        (tools / name).write_text("#!/usr/bin/env bash\n" + text)
        (tools / name).chmod(0o755)
    return folder


def environment(folder):
    return {**ENVIRONMENT, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "SLURM_JOB_ID": "1",
            "SLURM_JOB_NODELIST": "localhost", "OMPI_MCA_rmaps_base_oversubscribe": "1"}


def run_in(folder, command, timeout=600):
    result = subprocess.run(command, cwd=folder, env=environment(folder), capture_output=True, text=True, timeout=timeout)
    assert result.returncode == 0, f"{command[-1]}\n{result.stdout[-3000:]}\n{result.stderr[-3000:]}"


def test_there_are_blocks():
    assert len(WITH_BLOCKS) >= 8
    assert set(REPLACED) | set(SHORTER) <= set(WITH_BLOCKS)
    for page in WITH_BLOCKS:
        languages = {language for language, _, _ in blocks(page)}
        assert languages <= {"bash", "yaml", "xml", "python"}, f"{page}: a block that no test runs"
        assert (ROOT / page).read_text().count("```") == 2 * len(blocks(page)), f"{page}: a block without a language"


def run_everything(page, folder, by_day):
    """What is shown, with replacements; each of them must be of something."""
    replaced = [*REPLACED.get(page, {}).items(), *(SHORTER.get(page, {}).items() if by_day else [])]
    met = set()
    for language, file, text in blocks(page):
        if language in ("yaml", "xml"):
            assert file, "a deck that is shown has a name to be run by"
            (folder / file).write_text(text)
            continue
        if language == "python":
            run_in(folder, [str(ROOT / ".venv/bin/python"), "-c", text])
            continue
        for shown, run in replaced:
            met |= {shown} if shown in text else set()
            text = text.replace(shown, run)
        if by_day and page not in ABOUT_RANKS:
            text = LAUNCHED.sub("", text)
        run_in(folder, ["bash", "-euo", "pipefail", "-c", text])
    assert met == {shown for shown, _ in replaced}


def check_first_command(folder):
    """It leaves what it says."""
    runs = sorted((folder / "runs").glob("isaac_cartpole-*"))
    assert runs
    for name in ("results.h5", "learning_curve.png", "checkpoints"):
        assert (runs[0] / name).exists(), name


@pytest.mark.parametrize("page", WITH_BLOCKS)
def test_everything_shown_works(tmp_path_factory, page):
    folder = folder_of_the_repository(tmp_path_factory)
    run_everything(page, folder, by_day=True)
    if page == "README.md":
        check_first_command(folder)


@pytest.mark.nightly
@pytest.mark.parametrize("page", WITH_BLOCKS)
def test_everything_shown_works_as_it_is_shown(tmp_path_factory, page):
    """And the pendulum of README.md learns what is said of it."""
    folder = folder_of_the_repository(tmp_path_factory)
    run_everything(page, folder, by_day=False)
    if page != "README.md":
        return
    check_first_command(folder)
    shown = re.search(r"`evaluate` prints a mean return of about (\d\.\d)", (ROOT / page).read_text())
    with h5py.File(folder / "runs/pendulum/evaluation.h5") as file:
        returns = file["evaluation/episode_return"][()]
    assert abs(returns.mean() - float(shown[1])) < 0.7
    # from whichever angle
    assert returns.min() > 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """With the demonstrations that decks name; inputs/imitate/README.md shows how people come to theirs."""
    folder = folder_of_the_repository(tmp_path_factory)
    rollout = "build/maniple rollout inputs/tasks/{} {} output.dataset=robomimic output.directory=runs/{}"
    for command in (
            rollout.format("pendulum_swingup.yaml", "batch.num_envs=8 simulation.steps=600 initial_state.source=task"
                           " control.source=random", "pendulum_expert"),
            ".venv/bin/python tools/push_t.py record push_t.h5 --episodes 4",
            ".venv/bin/python tools/two_roads.py expert expert.h5",
            rollout.format("two_roads.yaml", "batch.num_envs=200 simulation.steps=100 initial_state.source=file"
                           " initial_state.file=expert.h5 control.source=file control.file=expert.h5", "two_roads")):
        run_in(folder, ["bash", "-c", command])
    return folder


@pytest.fixture(scope="module")
def commands_run():
    return set()


DECKS = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "inputs").rglob("*.yaml"))


# By day those of many are validated: test_task_parity.py steps the suites in inputs/tasks, and what those of inputs/verify
# show, tests/verify computes. Those of inputs/train, of which some begin with what others leave, are for test_train_decks.py.
ONE_OF_MANY = re.compile(r"inputs/(verify/|tasks/.*/)")


@pytest.mark.parametrize("deck, as_shown", [
    *(pytest.param(deck, True, marks=pytest.mark.nightly if ONE_OF_MANY.match(deck) or deck.startswith("inputs/train/") else [])
      for deck in DECKS),
    *((deck, False) for deck in DECKS if ONE_OF_MANY.match(deck))])
def test_commands_in_decks(folder, commands_run, deck, as_shown):
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
        if not as_shown:
            command, verb = LAUNCHED.sub("", command).replace(f"maniple {verb}", "maniple validate"), "validate"
        result = subprocess.run(["bash", "-c", f"{command} {SMALLER[verb]} {SMALLER_DECKS.get(deck, '')}"], **run)
        assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"


def slug(heading):
    """The anchor that GitHub gives a heading."""
    text = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", lambda m: m[1] or "", heading.strip()).lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(page):
    prose = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text(), flags=re.M | re.S)
    return {slug(heading) for heading in re.findall(r"^#+ (.*)$", prose, re.M)}


@pytest.mark.parametrize("page", PAGES)
def test_links_anchors_and_pictures_exist(page):
    text = (ROOT / page).read_text()
    beside = (ROOT / page).parent
    for target in re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'src="([^"]+)"', text):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = (beside / path).resolve() if path else ROOT / page
        assert file.exists(), f"{page}: {target}"
        if anchor:
            assert file.suffix == ".md" and anchor in anchors(file.relative_to(ROOT)), f"{page}: {target}"
    # files by their path from the root
    for path in set(re.findall(r"`((?:tools|jobs|inputs|tests|src|kernels|\.ci)/[\w./-]+)`", text)):
        assert (ROOT / path).exists() or (beside / path).exists(), f"{page}: {path}"


def test_tests_and_their_folders_are_named_where_they_are():
    """Of the tables of tests/README.md: a name without a folder is in that of the name before it."""
    text = (ROOT / "tests/README.md").read_text()
    for row in re.findall(r"^\|.*", text, re.M):
        folder = ""
        for path, name in re.findall(r"`((?:\w+/)*)(test_\w+\.(?:py|cpp))`", row):
            folder = path or folder
            assert (ROOT / "tests" / folder / name).is_file(), row
    folders = {str(test.parent.relative_to(ROOT / "tests")) for test in (ROOT / "tests/regress").rglob("test_*.py")}
    assert folders == set(re.findall(r"^\| `(regress/\w+)` \|", text, re.M))


def test_every_page_is_linked():
    linked = set()
    for page in PAGES:
        for target in re.findall(r"\]\(([^)\s#]+)", (ROOT / page).read_text()):
            file = ((ROOT / page).parent / target).resolve()
            linked |= {str(file.relative_to(ROOT))} if "://" not in target else set()
    assert set(PAGES) - linked <= {"README.md"}


def test_readme_is_short():
    assert len((ROOT / "README.md").read_bytes()) <= 10_000


def texts(page):
    """What people read of a page: paragraphs, items of lists, cells of tables; links without their targets."""
    text = re.sub(r"^```.*?^```$|<!--.*?-->|<img[^>]*>", "", (ROOT / page).read_text(), flags=re.M | re.S)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    paragraphs, cells = [""], []
    for line in text.splitlines():
        if line.startswith("|"):
            cells += [cell.strip() for cell in re.split(r"(?<!\\)\|", line)]
        elif not line.strip() or line.startswith("#"):
            paragraphs.append("")
        else:
            paragraphs += [""] if re.match(r" *([-*]|\d+\.) ", line) else []
            paragraphs[-1] += " " + line.strip()
    return [paragraph.strip() for paragraph in paragraphs if paragraph], cells


@pytest.mark.parametrize("page", PAGES)
def test_sentences_and_paragraphs_are_short(page):
    paragraphs, cells = texts(page)
    long = [paragraph[:80] for paragraph in paragraphs if len(paragraph) > 1200]
    # (the cells of the keys are made from the table that `maniple schema` prints)
    for paragraph in paragraphs + (cells if page != "inputs/KEYS.md" else []):
        long += [part[:80] for part in re.split(r"(?<=[.!?])\s+| · ", paragraph) if len(part) > 400]
    assert not long, f"{page}: {long}"


LINES = re.compile(r"<!-- lines of: (?P<deck>\S+) -->\n\|.*\n\|[-| ]+\n(?P<rows>(?:\|.*\n)+)")
TRANSLATIONS = [(page, m["deck"], m["rows"]) for page in PAGES for m in LINES.finditer((ROOT / page).read_text())]


@pytest.mark.parametrize("page, deck, rows", TRANSLATIONS, ids=[deck for _, deck, _ in TRANSLATIONS])
def test_translations_are_lines_of_a_deck(maniple, page, deck, rows):
    """Of a table that translates a task, each piece of a deck stands in the deck that it names, which validates."""
    shown = {file: text for language, file, text in blocks(page) if language == "yaml"}
    if deck in shown:
        assert f"build/maniple validate {deck}\n" in (ROOT / page).read_text()  # a command that is run with the page
        text = shown[deck]
    else:
        path = (ROOT / page).parent / deck
        maniple("validate", path, ranks=0)
        text = path.read_text()
    lines = " ".join(re.sub(r"\s#.*", "", text).split()).replace(">- ", "")
    assert len(rows.splitlines()) >= 10
    for row in rows.splitlines():
        pieces = re.findall(r"`([^`]+)`", re.split(r"(?<!\\)\|", row)[2])
        assert pieces, row
        for piece in pieces:
            assert " ".join(piece.replace("\\|", "|").split()) in lines, f"{piece}: not in {deck}"


def test_keys(maniple):
    """inputs/KEYS.md is what the program says of its keys."""
    found = maniple("schema", "--markdown", ranks=0).stdout
    file = ROOT / "inputs/KEYS.md"
    if os.environ.get("MANIPLE_WRITE_TABLE"):
        file.write_text(found)
    assert file.read_text() == found, "MANIPLE_WRITE_TABLE=1 pytest tests/regress/repository/test_readme.py -k test_keys rewrites it"


def test_keys_on_pages_exist():
    """What stands as a deck key on a page is one."""
    known = set(re.findall(r"^\| `([\w.]+)", (ROOT / "inputs/KEYS.md").read_text(), re.M))
    sections = {key.split(".")[0] for key in known if "." in key}
    shown = re.compile(rf"(?<![\w./])((?:{'|'.join(sections)})(?:\.\w+)+)(?![\w/]|\.\w)")
    named = re.compile(r"task\.(actions|observations|rewards|terminations|events|curricula|definitions|variables|commands|metrics)\b"
                       r"|learning\.curricula\b|terrain\.sub_terrains\b")
    wrong = []
    for page in PAGES:
        text = re.sub(r"^```(?:python|xml).*?^```$", "", (ROOT / page).read_text(), flags=re.M | re.S)
        for span in re.findall(r"`([^`]+)`|^ *([^|`\n]*build/maniple[^|`\n]*)$", text, re.M):
            for key in shown.findall("".join(span)):
                if key not in known and not named.match(key) and not re.search(r"\.(cpp|hpp|py|sh|h5|yaml|csv|json)$", key):
                    wrong.append(f"{page}: {key}")
    assert not wrong
