"""Promises 6 and 7: bad input ends with exit code 2 on every rank and one message that says where (file, line, key),
what was found and what is allowed; a NaN in one environment touches no other, is counted and named."""
# ctest: PROCESSORS 1 COST 60

import os
import re
import shutil
import subprocess

import h5py
import numpy as np
import pytest
from conftest import ENVIRONMENT, of_the_day
from damages import flip_bit_of_number, truncate

CARTPOLE = "inputs/train/isaac_cartpole.yaml"
GUARD = 20  # s; only against hanging ranks, refusals take a fraction of a second
# Each rank leaves its own exit code in a file, and waits for the others: the launcher ends the rest of a job as soon
# as the first process leaves with an error.
EACH_RANK = """
program=$1; shift
"$program" "$@"; code=$?
echo $code > "$EXIT_CODES/${OMPI_COMM_WORLD_RANK:-0}"
while [ "$(ls "$EXIT_CODES" | wc -l)" -lt "${OMPI_COMM_WORLD_SIZE:-1}" ]; do sleep 0.02; done
exit $code
"""


@pytest.fixture(params=of_the_day([1, 2], 1))
def refused(maniple, tmp_path, request):
    """Runs the program on bad input; returns its one message. One rank starts without the launcher, which is faster:
    enough by day where all ranks look at the same deck in the same way."""

    def run(*arguments, ranks=request.param):
        codes = tmp_path / "exit_codes"
        shutil.rmtree(codes, ignore_errors=True)
        codes.mkdir()
        launcher = ["mpirun", "--oversubscribe", "--allow-run-as-root", "--bind-to", "none", "-n",
                    str(ranks)] if ranks > 1 else []
        command = [*launcher, "sh", "-c", EACH_RANK, "sh", str(maniple.program), *map(str, arguments)]
        result = subprocess.run(command, cwd=maniple.root, env={**ENVIRONMENT, "EXIT_CODES": str(codes)}, capture_output=True,
                                text=True, timeout=GUARD)
        output = result.stdout + result.stderr
        assert result.returncode == 2, output
        assert sorted(path.name for path in codes.iterdir()) == [str(rank) for rank in range(ranks)], output
        assert {path.read_text().strip() for path in codes.iterdir()} == {"2"}, output
        assert output.count("maniple: error: ") == 1, output
        # the launcher's own remarks come after a line of dashes
        return re.split(r"^-{20,}$", output.split("maniple: error: ")[1], flags=re.MULTILINE)[0].rstrip()

    return run


@pytest.fixture
def deck(maniple, tmp_path):
    """Writes a deck that changes the cartpole's; line 1 is the include."""

    def write(text, name="bad.yaml"):
        path = tmp_path / name
        path.write_text(f"include: {maniple.root / CARTPOLE}\n{text}")
        return path

    return write


def short(directory):
    """Keys that keep a run short, should the program fail to refuse it."""
    return ["learning.iterations=1", "run.progress=none", f"output.directory={directory / 'run'}"]


# ---- decks ----
@pytest.mark.parametrize("text, message", [
    ("batch:\n  num_env: 64\n",
     r"bad\.yaml:3: batch\.num_env: found an unknown key; nearest known key: batch\.num_envs; .*schema"),
    ("simulaton:\n  steps: 64\n", r"bad\.yaml:2: simulaton: found an unknown key; nearest known key: simulation;"),
    ("batch:\n  num_envs: many\n", r"bad\.yaml:3: batch\.num_envs: found 'many'; allowed: integer, 1 to \d+"),
    ("policy: {shared: 1}\n", r"bad\.yaml:2: policy\.shared: found '1'; allowed: true or false"),
    ("learning:\n  gamma: 1.5\n", r"bad\.yaml:3: learning\.gamma: found '1\.5'; allowed: number, 0 to 1"),
    ("batch:\n\n  num_envs: 0\n", r"bad\.yaml:4: batch\.num_envs: found '0'; allowed: integer, 1 to \d+"),
    ("simulation: {precision: half}\n",
     r"bad\.yaml:2: simulation\.precision: found 'half'; allowed: single \| double"),
    ("batch: {num_envs: 64}\nlearning:\n  minibatches: 33\n",
     r"bad\.yaml:4: learning\.minibatches: found 33 with learning\.horizon 16 and batch\.num_envs 64; allowed: integer, 1 to 32,"),
    (f"policy:\n  shared: true\n  hidden: {[4] * 64}\n",
     r"bad\.yaml:4: policy\.hidden: found 64 layers; allowed: at most 63"),
    ("batch:\n  seed: 1\n  seed: 2\n", r"bad\.yaml:4: batch\.seed: found the key a second time \(first on line 3\); "),
    ("batch: [1\n", r"bad\.yaml:\d+: found text that is not YAML"),
    ("task: {rewards: {extra: {term: is_aliv}}}\n", r"bad\.yaml:2: task\.rewards\.extra.*is_aliv.*is_alive"),
    ("task: {rewards: {alive: {wieght: 2}}}\n", r"bad\.yaml:2: task\.rewards\.alive\.wieght: .*did you mean 'weight'"),
    ("task: {rewards: {alvie: {weight: 2}}}\n",
     r"task\.rewards\.alvie: found neither term nor expression; .*; other rewards: alive, terminating, "),
    ("task: {rewards: {near: {function: cos(1)}}}\n", r"rewards\.near: found neither term nor expression; "),
    ("task: {variables: {goal: 'uniform(0, 1)'}}\n", r"variables\.goal: found the text .*; allowed: a mapping with 'reset: "),
    ("task: {commands: {goal: {expression: '1', every: [2, 1]}}}\n", r"goal\.every: found \[2, 1\]; allowed: .* with low <= high"),
    ("policy: {shared: true}\nmodel: {file: none.xml}\n", r"bad\.yaml:3: .*none\.xml, .*; allowed: .*, relative to the deck$"),
], ids=["unknown-key", "unknown-section", "wrong-type", "wrong-type-bool", "out-of-range", "zero", "choice", "two-keys", "too-deep",
        "duplicate", "not-yaml", "unknown-term", "unknown-parameter", "unknown-reward", "unknown-key-of-reward", "variable", "range", "path"])
def test_deck(refused, deck, tmp_path, text, message):
    assert re.search(message, refused("train", deck(text), *short(tmp_path), ranks=1))


def test_override(refused, tmp_path):
    assert re.match(r"command line: batch\.num_env: found an unknown key; nearest known key: batch\.num_envs; ",
                    refused("train", CARTPOLE, "batch.num_env=3", *short(tmp_path)))
    assert re.match(r"command line: batch\.seed: found '-1'; allowed: integer, 0 to 4294967295",
                    refused("validate", CARTPOLE, "batch.seed=-1"))


def test_every_rank_refuses(refused, deck, tmp_path):
    assert re.search(r"bad\.yaml:3: batch\.num_env: found an unknown key",
                     refused("train", deck("batch:\n  num_env: 64\n"), *short(tmp_path), ranks=4))


def test_missing_deck(refused, tmp_path):
    assert re.match(r"command line: found no file '.*none\.yaml'; allowed: an existing deck",
                    refused("train", tmp_path / "none.yaml"))
    # a member of an ensemble, by another name
    assert re.match(r"command line: found no file '.*/batch\.seed=9', .*; allowed: an existing deck, the directory of a run",
                    refused("evaluate", tmp_path / "batch.seed=9"))
    assert re.match(r"command line: learning\.iterations: found no value; allowed: learning\.iterations=<value>",
                    refused("train", CARTPOLE, "learning.iterations", "3"))
    assert re.search(r"none', which does not exist; allowed: .*, relative to the working directory$",
                     refused("evaluate", CARTPOLE, f"control.checkpoint={tmp_path}/none"))


# ---- models ----
def test_missing_model(refused, deck, tmp_path):
    message = refused("train", deck("model:\n  file: none.xml\n"), *short(tmp_path), ranks=2)
    assert re.search(r"bad\.yaml:3: model\.file: found 'none\.xml', that is .*/none\.xml, which does not exist; allowed: ",
                     message)
    assert re.search(r"bad\.yaml:2: model\.file: found no Python package 'no_such_package'; allowed: ",
                     refused("train", deck("model: {file: package:no_such_package/robot.xml}\n"), *short(tmp_path)))


def test_broken_model(refused, deck, tmp_path):
    model = tmp_path / "broken.xml"
    model.write_text("<mujoco>\n  <worldbody>\n    <body>\n      <joint type='hinge' axs='0 0 1'/>\n    </body>\n"
                     "  </worldbody>\n</mujoco>\n")
    message = refused("train", deck("model:\n  file: broken.xml\n"), *short(tmp_path), ranks=2)
    assert "broken.xml" in message and "axs" in message and "4" in message
    model.write_text("<mujoco>\n  <worldbody>\n")
    assert "broken.xml" in refused("rollout", f"model.file={model}", "batch.num_envs=64", *short(tmp_path))


def test_unsupported_model(refused, tmp_path):
    (tmp_path / "ball.xml").write_text("""<mujoco>
  <option solver="PGS"/>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 1"/>
    <body name="ball" pos="0 0 1">
      <freejoint/>
      <geom name="ball" size="0.1" condim="6"/>
    </body>
  </worldbody>
</mujoco>
""")
    message = refused("rollout", f"model.file={tmp_path / 'ball.xml'}", "batch.num_envs=64", *short(tmp_path))
    assert "ball.xml:4: geom \"floor\" may touch geom \"ball\": contacts with condim 6" in message


def test_too_much_of_everything(refused, tmp_path):
    """Few words that ask for more than any memory holds."""
    bomb = ["a0: &a0 [x, x, x, x, x, x, x, x, x]\n"]
    bomb += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 9)]
    (tmp_path / "bomb.yaml").write_text("".join(bomb))
    assert re.search(r"bomb\.yaml:\d+: .*found more than 100000 values; allowed: ",
                     refused("validate", tmp_path / "bomb.yaml", ranks=1))
    (tmp_path / "keys.yaml").write_text("".join(f"key{i}: {i}\n" for i in range(50000)))
    assert "keys.yaml:1: key0: found an unknown key" in refused("validate", tmp_path / "keys.yaml", ranks=1)
    definitions = "".join(f"    d{i}: '{i}'\n" for i in range(50000))
    (tmp_path / "definitions.yaml").write_text(f"batch: {{num_env: 1}}\ntask:\n  definitions:\n{definitions}")
    twice = tmp_path / "definitions.yaml"
    assert "batch.num_env: " in refused("validate", twice, twice, ranks=1)


@pytest.mark.parametrize("element, found", [
    ('<composite type="cable" count="100000 1 1" size="1"><geom size="0.1"/></composite>',
     r'found <composite count="100000 1 1">, 100000 copies in all; allowed: at most 4096'),
    ('<replicate count="100"><replicate count="100"><geom size="0.1"/></replicate></replicate>',
     r'found <replicate count="100"> in <replicate>, 10000 copies in all; allowed: at most 4096'),
], ids=["composite", "replicate"])
def test_too_many_copies(refused, tmp_path, element, found):
    (tmp_path / "many.xml").write_text(f"<mujoco>\n  <worldbody>\n    {element}\n  </worldbody>\n</mujoco>\n")
    message = refused("validate", f"model.file={tmp_path / 'many.xml'}", ranks=1)
    assert re.search(r"many\.xml:3: " + found, message), message


def test_a_folder_is_not_included(refused, tmp_path):
    (tmp_path / "folder.xml").write_text('<mujoco>\n  <include file="."/>\n</mujoco>\n')
    message = refused("validate", f"model.file={tmp_path / 'folder.xml'}", ranks=1)
    assert "folder.xml" in message and "model.file" in message and "underflow" not in message, message


# ---- tasks ----
def caret_column(message, expression):
    """Where the caret stands below the expression, counted from its first character."""
    lines = message.splitlines()
    at = next(i for i, line in enumerate(lines) if expression in line and i > 0)
    return lines[at + 1].index("^") - lines[at].index(expression)


@pytest.mark.parametrize("expression, wrong, found", [
    ("joint_pos[cart_to_pole]^2 + * 3", "* 3", r""),
    ("2 * (joint_pos[cart_to_pole] + 1", "", r""),
    ("1 - 0.5 * qpso[cart_to_pole]", "qpso", r"qpso.*qpos"),
    ("cos(joint_pos[cart_to_pol])", "cart_to_pol", r"cart_to_pol.*cart_to_pole"),
], ids=["syntax", "unclosed", "unknown-name", "unknown-joint"])
def test_expression(refused, deck, tmp_path, expression, wrong, found):
    path = deck(f'task:\n  rewards:\n    extra:\n      expression: "{expression}"\n      weight: 2\n')
    message = refused("train", path, *short(tmp_path), ranks=1 if wrong else 2)
    assert re.match(r".*bad\.yaml:5: task\.rewards\.extra", message)
    assert re.search(found, message, re.DOTALL)
    column = caret_column(message, expression)
    assert column == expression.index(wrong) if wrong else 0 <= column <= len(expression)


@pytest.mark.parametrize("definitions, expression, found", [
    ({}, "+".join(["1"] * 20000), "an expression of more than 10000 names"),
    ({}, "joint_pos" + "[0]" * 20000, "an expression of more than 10000 names"),
    ({f"a{i}": f"a{i + 1} + 1" for i in range(3000)} | {"a3000": "1"}, "a0", "definitions nested too deeply"),
    ({f"a{i}": f"[a{i + 1}, a{i + 1}]" for i in range(40)} | {"a40": "1"}, "a0", "a vector of more than 65536 components"),
], ids=["sum", "indices", "chain", "doubled"])
def test_expressions_without_end(refused, deck, tmp_path, definitions, expression, found):
    """... are refused before they exhaust the stack, the memory or anyone's patience."""
    lines = "".join(f'    {name}: "{text}"\n' for name, text in definitions.items())
    path = deck(f"task:\n  definitions:\n{lines or '    one: 1'}\n  rewards:\n    extra: {{expression: \"{expression}\"}}\n")
    assert found in refused("train", path, *short(tmp_path), ranks=1)


def test_a_model_whose_time_does_not_pass(refused, deck, tmp_path):
    for step in ("-0.01", "0", "nan"):
        (tmp_path / "overlay.xml").write_text(f'<mujoco><option timestep="{step}"/></mujoco>')
        message = refused("validate", deck(f"model:\n  overlay: {tmp_path}/overlay.xml\nsimulation: {{timestep: ~}}\n"), ranks=1)
        assert re.search(r"model\.file: the timestep \S+ of the model's <option>; allowed: more than 0 seconds", message)


def test_a_status_file_that_is_none(refused, deck, tmp_path):
    assert "run.status_file: found '/dev/null', which is not a file" in refused("train", deck(""), "run.status_file=/dev/null",
                                                                              *short(tmp_path))


def test_action_on_a_missing_joint(refused, deck, tmp_path):
    path = deck("task:\n  actions:\n    - term: joint_effort\n      joints: [slider]\n")
    message = refused("train", path, *short(tmp_path))
    assert re.search(r"bad\.yaml:5: task\.actions\[0\]\.joints: .*slider", message)
    assert "slider_to_cart" in message and "cart_to_pole" in message


# ---- launch ----
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


# ---- datasets ----
def write(path, **datasets):
    with h5py.File(path, "w") as file:
        for name, shape in datasets.items():
            file[name] = np.zeros(shape)
    return path


ARM = ["rollout", "model.file=inputs/models/arm6.xml", "batch.num_envs=40", "simulation.steps=10"]


@pytest.mark.parametrize("datasets, found", [
    ({"ctrl": (1, 10, 5)}, r"/?ctrl.*\[?1.*10.*5\]?.*6"),        # five controls for six actuators
    ({"ctrl": (3, 10, 6)}, r"3.*40"),                            # neither one environment nor all
    ({"ctrl": (1, 9, 6)}, r"9.*10"),                             # too few steps
    ({"ctrl": (10, 6)}, r"10.*6"),                               # an axis is missing
    ({"control": (1, 10, 6)}, r"ctrl"),                          # another name
], ids=["nu", "env", "step", "rank", "name"])
def test_control_of_the_wrong_shape(refused, tmp_path, datasets, found):
    ranks = 2 if datasets.get("ctrl") == (3, 10, 6) else 1
    write(tmp_path / "data.h5", **datasets)
    bad = tmp_path / "bad.yaml"
    bad.write_text("control:\n  source: file\n  file: data.h5\n")
    message = refused(*ARM, bad, *short(tmp_path), ranks=ranks)
    assert re.search(r"bad\.yaml:3: control\.file: ", message) and "data.h5" in message and "ctrl" in message
    assert re.search(found, message, re.DOTALL)


@pytest.mark.parametrize("datasets", [
    {"qpos": (1, 5), "qvel": (1, 6)}, {"qpos": (7, 6), "qvel": (1, 6)}, {"qpos": (1, 6), "qvel": (40, 7)},
    {"qpos": (6,), "qvel": (1, 6)}, {"qpos": (1, 6)},
], ids=["nq", "env", "nv", "rank", "no-qvel"])
def test_initial_state_of_the_wrong_shape(refused, tmp_path, datasets):
    ranks = 2 if datasets["qpos"] == (7, 6) else 1
    write(tmp_path / "data.h5", **datasets)
    bad = tmp_path / "bad.yaml"
    bad.write_text("initial_state:\n  file: data.h5\n  source: file\n")
    message = refused(*ARM, bad, *short(tmp_path), ranks=ranks)
    assert re.search(r"bad\.yaml:2: initial_state\.file: ", message) and "data.h5" in message and re.search("qpos|qvel", message)


def test_an_initial_state_without_an_orientation(refused, tmp_path):
    with h5py.File(tmp_path / "data.h5", "w") as file:
        qpos = np.tile([0, 0, 1, 1, 0, 0, 0] + [0] * 8, (7, 1)).astype(float)
        qpos[5, 3] = 0
        file["qpos"], file["qvel"] = qpos, np.zeros((7, 14))
    message = refused("rollout", "model.file=inputs/models/isaac_ant.xml", "batch.num_envs=7", "initial_state.source=file",
                      f"initial_state.file={tmp_path / 'data.h5'}", *short(tmp_path), ranks=2)
    assert "data.h5: /qpos: a quaternion of zeros in columns 3 to 6; allowed: orientations" in message, message


def test_data_that_are_no_hdf5(refused, tmp_path):
    (tmp_path / "data.h5").write_text("no HDF5")
    message = refused(*ARM, "control.source=file", f"control.file={tmp_path / 'data.h5'}", *short(tmp_path), ranks=2)
    assert message.startswith("command line: control.file: ") and "data.h5" in message


# ---- checkpoints ----
SMALL = [CARTPOLE, "batch.num_envs=70", "learning.checkpoint_every=1", "run.progress=none"]


@pytest.fixture(scope="module")
def trained(maniple, tmp_path_factory):
    directory = tmp_path_factory.mktemp("trained")
    maniple("train", *SMALL, "learning.iterations=3", f"output.directory={directory}", ranks=2)
    assert len(maniple.checkpoints(directory)) == 3
    return directory


@pytest.fixture
def run_directory(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "resumed")


def resume(directory):
    return ["train", *SMALL, "learning.iterations=4", "learning.resume=auto", f"output.directory={directory}"]


def cut_last_byte(path):
    os.truncate(path, path.stat().st_size - 1)


def empty(path):
    os.truncate(path, 0)


DAMAGES = [truncate, cut_last_byte, flip_bit_of_number, empty]


@pytest.mark.parametrize("damage", of_the_day(DAMAGES, flip_bit_of_number))
def test_bad_checkpoint_falls_back_and_says_so(maniple, run_directory, damage):
    older, bad = maniple.checkpoints(run_directory)[-2:]
    damage(bad)
    result = maniple(*resume(run_directory), ranks=2, timeout=60)
    output = result.stdout + result.stderr
    assert re.search(rf"warning: .*bad checkpoint.*{re.escape(bad.name)}", output)
    assert re.search(r"resumed .* at iteration 2\b", output), f"{older} is good"


@pytest.mark.parametrize("damage", of_the_day(DAMAGES, truncate))
def test_no_good_checkpoint_is_refused(maniple, refused, run_directory, damage):
    for file in maniple.checkpoints(run_directory):
        damage(file)
    message = refused(*resume(run_directory), ranks=2)
    assert "learning.resume" in message and "no good checkpoint" in message
    assert all(file.name in message for file in maniple.checkpoints(run_directory))


def test_checkpoint_of_another_model(maniple, refused, deck, run_directory, tmp_path):
    text = (maniple.root / "inputs/models/cartpole.xml").read_text()
    (tmp_path / "other.xml").write_text(text.replace('mass="1"', 'mass="1.01"', 1))
    path = deck("model: {file: other.xml}\n")
    message = refused(*resume(run_directory), path)
    assert "model.file" in message and ".h5" in message
    # evaluation needs a model of this name and these sizes
    (tmp_path / "cartpole.xml").write_text(text.replace('mass="1"', 'mass="1.01"', 1))
    arguments = ["batch.num_envs=64", f"control.checkpoint={run_directory}", *short(tmp_path)]
    assert "model.file" in refused("evaluate", path, *arguments)
    result = maniple("evaluate", deck(f"model: {{file: {tmp_path}/cartpole.xml}}\n"), *arguments)
    assert "warning: " in result.stderr and "trained with other values of the model, cartpole.xml (nq 2" in result.stderr
    assert "different: " not in result.stderr


def test_a_directory_among_the_checkpoints_is_passed_over(maniple, run_directory):
    (run_directory / "checkpoints/999.h5").mkdir()
    assert re.search(r"resumed \S+ at iteration \d\b", maniple(*resume(run_directory)).stdout)


def test_a_results_file_in_place_of_a_checkpoint(refused, run_directory, tmp_path):
    message = refused("train", CARTPOLE, f"learning.warm_start={run_directory}/results.h5", *short(tmp_path))
    assert "results.h5: checkpoint: cannot be used; not a checkpoint but another file of this program" in message


def test_checkpoint_of_another_task(refused, deck, run_directory, tmp_path):
    change = "task.rewards.pole_pos.weight=-2"
    message = refused(*resume(run_directory), change)
    assert re.search(r"\.h5: task\.rewards\.pole_pos: the checkpoint has \{.*weight: -1.*\}, this run \{.*weight: -2.*\}; "
                     r"allowed: .*learning\.warm_start", message)
    # a policy is for what it has been trained to see, even where the sizes are the same
    path = deck("task:\n  observations:\n    - {term: joint_vel_rel}\n    - {term: joint_pos_rel}\n")
    message = refused("evaluate", path, "batch.num_envs=64", f"control.checkpoint={run_directory}", *short(tmp_path))
    assert re.search(r"\.h5: task\.observations: in another order in this run; allowed: the value of the training", message)
    # whatever else differs
    message = refused("evaluate", path, "batch.num_envs=64", f"control.checkpoint={run_directory}", *short(tmp_path), change)
    assert re.search(r"\.h5: task\.observations: in another order in this run; allowed: the value of the training", message)
    for key in ("batch.num_envs=71", "batch.seed=43", "simulation.precision=double"):
        assert key.split("=")[0] in refused(*resume(run_directory), key)


def test_a_policy_is_tried_in_changed_tasks(maniple, refused, run_directory, tmp_path):
    """Other rewards, resets and curricula are a warning; what it would misread or do otherwise is refused."""
    arguments = [CARTPOLE, "batch.num_envs=64", f"control.checkpoint={run_directory}", *short(tmp_path)]
    for key, found in (("task.observations=[{term: joint_pos_rel}]", r"task\.observations: the checkpoint has 4; this run has 2"),
                       ("policy.activation=relu", r"policy\.activation: the checkpoint has \"elu\"; this run has \"relu\""),
                       ("policy.clip_actions=0.1", r"policy\.clip_actions: the checkpoint has 0; this run has 0\.1")):
        assert re.search(r"\.h5: " + found, refused("evaluate", *arguments, key))
    for verb, key in (("evaluate", "task.rewards.pole_pos.weight=-2"), ("rollout", "task.rewards.upright={expression: '1'}")):
        result = maniple(verb, *arguments, key, "control.source=policy", "simulation.steps=2")
        assert "warning: " in result.stderr and "trained with other values of the task" in result.stderr
        assert f"; different: {key.split('=')[0].removesuffix('.weight')}\n" in result.stderr
    # observations may be disturbed otherwise, with one name for all that differs in a list, but say the same
    disturbed = "task.observations=[{term: joint_pos_rel, noise: 0.01, delay: 1}, {term: joint_vel_rel, bias: [-0.1, 0.2]}]"
    result = maniple("evaluate", *arguments, disturbed, "task.rewards.pole_pos.weight=-2", "output.overwrite=true")
    assert re.search(r"; different: task\.observations, task\.rewards\.pole_pos\n|"
                     r"; different: task\.rewards\.pole_pos, task\.observations\n", result.stderr)
    for changed in ("{term: joint_pos_rel, scale: 2}, {term: joint_vel_rel}", "{term: joint_pos_rel, clip: [-1, 1]}, {term: joint_vel_rel}",
                    "{term: joint_pos_rel, joints: [cart_to_pole, slider_to_cart]}, {term: joint_vel_rel}"):
        message = refused("evaluate", *arguments, f"task.observations=[{changed}]", "output.overwrite=true")
        assert re.search(r"\.h5: task\.observations: the checkpoint has \{.*\}, this run \{.*\}; allowed: the value of the training", message)
    assert re.search(r"\.h5: task\.actions: the checkpoint has \{.*\}, this run \{.*scale: 2.*\}; allowed: ",
                     refused("evaluate", *arguments, "output.overwrite=true", "task.actions=[{term: joint_effort, joints: [slider_to_cart], scale: 2}]"))
    # a warm start learns on, also with other terms of the same sizes, which it names
    warm = ["train", CARTPOLE, f"learning.warm_start={run_directory}", *short(tmp_path), "output.overwrite=true"]
    for key, what in (("task.observations=[{term: joint_pos_rel, scale: 2}, {term: joint_vel_rel}]", "scale: 2"),
                      ("task.observations=[{term: joint_vel_rel}, {term: joint_pos_rel}]", "another order"),
                      ("task.actions=[{term: joint_effort, joints: [slider_to_cart], scale: 2}]", "scale: 2")):
        result = maniple(*warm, key, "learning.iterations=1", timeout=60)
        assert re.search(rf"warning: .*: the policy learned with other observations or actions of the same sizes; "
                         rf"{key.split('=')[0]}: .*{what}", result.stderr)
    assert re.search(r'policy\.activation: the checkpoint has "elu"; this run has "relu"', refused(*warm, "policy.activation=relu"))
    result = maniple(*warm, disturbed, "learning.iterations=1", timeout=60)
    assert "warm start from" in result.stdout and "of the same sizes" not in result.stderr
    more = "task.observations=[{term: joint_pos_rel}, {term: joint_vel_rel}, {expression: '1'}]"
    assert re.search(r"task\.observations: the checkpoint has 4; this run has 5; task\.observations: the checkpoint has none, "
                     r"this run \{.*expression: \"1\"\}", refused(*warm, more))


def test_a_policy_that_does_not_act(refused, run_directory, tmp_path):
    for source in ([], ["control.source=random"]):
        message = refused("rollout", CARTPOLE, "batch.num_envs=64", f"control.checkpoint={run_directory}", *source, *short(tmp_path))
        name = "random" if source else "zero"
        assert message == (f"command line: control.checkpoint: found a policy that is not used with control.source: {name}; "
                           "allowed: with control.source: policy; control.checkpoint=~ leaves it out")


def test_a_training_begins_with_no_checkpoint(refused, run_directory, tmp_path):
    assert refused("train", CARTPOLE, "batch.num_envs=64", f"control.checkpoint={run_directory}", *short(tmp_path)) == (
        "command line: control.checkpoint: found a checkpoint, which trainings do not read here; allowed: with rollout and "
        "evaluate; learning.warm_start starts a training from one")


def test_policy_from_nowhere(refused, run_directory, tmp_path):
    assert "control.checkpoint" in refused("evaluate", CARTPOLE, *short(tmp_path))
    (tmp_path / "nothing").mkdir()
    message = refused("evaluate", CARTPOLE, f"control.checkpoint={tmp_path / 'nothing'}", *short(tmp_path), ranks=2)
    assert "nothing" in message and "checkpoint" in message


def test_a_training_without_rewards(maniple, refused, tmp_path):
    message = refused("train", CARTPOLE, "task.rewards=~", "batch.num_envs=64", *short(tmp_path))
    assert message.startswith("command line: task.rewards: found no rewards; allowed: at least one")
    maniple("rollout", CARTPOLE, "task.rewards=~", "batch.num_envs=64", *short(tmp_path), timeout=GUARD)


def test_a_training_in_which_nothing_is_valid(maniple, tmp_path):
    """It has nothing to learn from; one with valid samples learns from those."""
    arguments = ["train", CARTPOLE, "batch.num_envs=64", *short(tmp_path), "learning.iterations=3", "output.overwrite=true"]
    worse = "log(-1 - abs(qpos[slider_to_cart]))"
    result = maniple(*arguments, f"task.rewards={{worse: {{expression: '{worse}'}}}}", exit_code=1, ranks=2, timeout=60)
    assert re.findall("maniple: error: (.*)", result.stdout + result.stderr) == [
        "iteration 1: all 1024 control steps left out of learning (not finite or beyond 1e10: reward worse): nothing is left to "
        "learn from"]
    result = maniple(*arguments, f"task.rewards.worse={{expression: 'qpos[slider_to_cart] > 0 ? {worse} : 0'}}", timeout=60)
    assert re.search(r"iteration 3: \d+ control steps left out of learning", result.stdout + result.stderr)
    # observations that are no numbers become 0, which is said at once and at the end
    result = maniple(*arguments, f"task.observations=[{{expression: '{worse}'}}]", timeout=60)
    counts = [int(count) for count in re.findall(r"warning: (\d+) rewards or observations were not finite", result.stderr)]
    assert len(counts) == 2 and counts[0] < counts[1] / 2, result.stderr


LINK = '<link name="{}"><inertial><mass value="1"/><inertia ixx=".1" ixy="0" ixz="0" iyy=".1" iyz="0" izz=".1"/></inertial></link>'
HINGE = '<joint name="{0}" type="continuous"><parent link="{1}"/><child link="{2}"/><axis xyz="0 1 0"/></joint>'
FLOATING = '<link name="world"/><joint name="root" type="floating"><parent link="world"/><child link="base"/></joint>'
BASE_TERMS = {
    "observations": ["base_pos_z", "base_lin_vel", "base_ang_vel", "projected_gravity", "root_pos_w", "root_quat_w", "root_lin_vel_w",
                     "root_ang_vel_w"],
    "rewards": ["lin_vel_z_l2", "ang_vel_xy_l2", "flat_orientation_l2", "track_lin_vel_xy_exp, std: 1", "track_ang_vel_z_exp, std: 1",
                "base_height_l2, target_height: 1"],
    "terminations": ["bad_orientation, limit_angle: 1", "root_height_below_minimum, minimum_height: 1"],
    "commands": ["uniform_velocity_command, lin_vel_x: [0, 1], lin_vel_y: [0, 0], ang_vel_z: [0, 0]"]}


def test_terms_of_a_free_base(maniple, tmp_path):
    """Terms of the base are refused where the first link of a URDF is fixed to the world, each by its line and with what settles
    it; with a floating joint, or with the body that is meant, they are not."""
    for name, root in (("fixed", ""), ("free", FLOATING)):
        links = LINK.format("base") + LINK.format("thigh") + LINK.format("shin")
        (tmp_path / f"{name}.urdf").write_text(
            f'<robot name="leg">{root}{links}{HINGE.format("hip", "base", "thigh")}{HINGE.format("knee", "thigh", "shin")}</robot>')

    def told(model, bodies="", of_command="", exit_code=0):
        rows = ["model: {file: " + model + "}", "task:", "  name: leg", "  actions: [{components: [a]}]"]
        names = {}
        for section, terms in BASE_TERMS.items():
            rows.append(f"  {section}:")
            for i, term in enumerate(terms):
                command = ", command: c0" if "track" in term else ""
                named = of_command if section == "commands" else bodies
                rows.append(f"    {'- ' if section == 'observations' else section[0] + str(i) + ': '}"
                            f"{{term: {term}{command}{named}{', weight: 1' if section == 'rewards' else ''}}}")
                if not named:
                    names[len(rows)] = term.split(",")[0]
        (tmp_path / "leg.yaml").write_text("\n".join(rows))
        result = maniple("validate", tmp_path / "leg.yaml", ranks=0, exit_code=exit_code)
        return names, result.stderr

    shin = ", bodies: [shin]"
    for bodies, of_command in (("", shin), (shin, "")):  # (a command is compiled before what may name it)
        names, said = told("fixed.urdf", bodies, of_command, exit_code=2)
        assert len(names) == 1 or f"{len(names)} mistakes:" in said, said
        for line, name in names.items():
            assert re.search(
                rf"leg\.yaml:{line}: task\.\S+: '{name}' of the root body 'thigh', which has no free joint; a <freejoint/> in the "
                r'base, or in a URDF, whose first link is fixed to the world, a root element <link name="world"/> with a joint of '
                r"type floating to that link; or bodies: \[name\], which may be any of world, thigh, shin", said), (name, said)
    told("free.urdf")
    told("fixed.urdf", shin, shin)


@pytest.mark.parametrize("keys, message", [
    (["task.rewards={a: {term: flat_orientation_l2, bodies: [cart, pole]}}"],
     "task.rewards.a.bodies: 'flat_orientation_l2' of 2 bodies: cart, pole; one of them"),
    (["task.observations=[{term: projected_gravity, bodies: ['.*']}]"],
     "task.observations[0].bodies: 'projected_gravity' of 3 bodies: world, cart, pole; one of them"),
    (["task.terminations.down={term: bad_orientation, limit_angle: 60}"],
     "task.terminations.down.limit_angle: found 60; allowed: number, above 0, at most 3.141592653589793: largest tilt of the body's z axis "
     "against gravity [rad]"),
    (["task.rewards={a: {term: undesired_contacts, bodies: [pole], threshold: -1}}"],
     "task.rewards.a.threshold: found -1; allowed: number, at least 0: largest allowed force [N]"),
    (["task.rewards={a: {expression: 'clamp(time, 1, -1)'}}"], "task.rewards.a: clamp to [1, -1]; the lower end first"),
    (["learning.batch_size=4096"], "learning.batch_size: set, but learning.algorithm is ppo; allowed: with imitate; batch.num_envs, "
     "learning.horizon and learning.minibatches decide how many samples a minibatch has"),
    (["learning.steps=1000000"], "learning.steps: set, but learning.algorithm is ppo; allowed: with imitate; learning.iterations is "
     "the length of a training"),
    (["diffusion.train_steps=5"], "diffusion.train_steps: set, but learning.algorithm is ppo; allowed: with imitate"),
    (["task.actions[0].scale=[1, 2]"], "task.actions[0].scale: 2 numbers for 1 elements; a number, or 1 of them"),
])
def test_what_makes_no_sense_together(refused, tmp_path, keys, message):
    assert refused("train", CARTPOLE, *keys, *short(tmp_path)).splitlines()[0] == "command line: " + message


def test_a_deviation_that_runs_away_is_named_once(maniple, tmp_path):
    arguments = ["train", CARTPOLE, "batch.num_envs=64", *short(tmp_path), "learning.iterations=3", "output.overwrite=true",
                 "policy.state_dependent_std=true", "learning.entropy_coef=10", "learning.schedule=fixed", "learning.learning_rate=0.02"]
    said = lambda *keys: re.findall(r"warning: (iteration \d+: the standard deviation of the actions has grown to [\d.e+]+, from 1 "
                                    r"\(policy.init_std\): the actions are almost only noise; .* keeps it small)", maniple(*arguments, *keys, ranks=2, timeout=60).stderr)
    first, = said()
    assert first.endswith("; policy.max_std or a smaller learning.entropy_coef (it is 10) keeps it small")
    # no advice that is taken already
    assert said("policy.max_std=5") == []
    wide, = said("policy.max_std=1e9", "learning.curricula.entropy_coef=10")
    assert wide.endswith("; a smaller policy.max_std (it is 1e+09) or a smaller learning.curricula.entropy_coef keeps it small")


# ---- a NaN in one environment ----
@pytest.mark.parametrize("precision, environment", of_the_day([("single", 37), ("double", 0)], ("single", 37)))
def test_nan_touches_no_other_environment(maniple, tmp_path, precision, environment):
    arguments = ["rollout", "model.file=inputs/models/arm6.xml", "batch.num_envs=70", "simulation.steps=12",
                 "control.source=random", f"simulation.precision={precision}", "run.progress=none",
                 "output.trajectory.every=1", "output.trajectory.fields=[qpos,qvel,qacc]"]
    maniple(*arguments, f"output.directory={tmp_path / 'clean'}", ranks=2, timeout=60)
    result = maniple(*arguments, f"simulation.inject_nan_env={environment}", "simulation.inject_nan_step=5",
                     f"output.directory={tmp_path / 'nan'}", ranks=2, timeout=60)
    output = result.stdout + result.stderr
    assert re.search(rf"warning: 1 bad state.*environment {environment} at control step 5\b", output)

    with h5py.File(tmp_path / "clean/results.h5") as clean, h5py.File(tmp_path / "nan/results.h5") as nan:
        others = np.arange(70) != environment
        for field in ("qpos", "qvel", "qacc"):
            a, b = clean[f"trajectory/{field}"][()], nan[f"trajectory/{field}"][()]
            assert a.shape[:2] == (70, 13)
            assert a[others].tobytes() == b[others].tobytes(), field
            assert np.isfinite(b).all(), f"{field}: the bad state is reset before anybody sees it"
            # samples 0 to 5 come before the NaN
            assert a[environment, :6].tobytes() == b[environment, :6].tobytes()
        assert not np.array_equal(clean["trajectory/qpos"][environment, 6], nan["trajectory/qpos"][environment, 6])
