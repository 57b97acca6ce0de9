"""Promise 6: bad input ends with exit code 2 on every rank and one message that says where (file, line, key), what was found
and what is allowed. Here decks, command lines, tasks and data files; models, launches and checkpoints have tests of their
own."""
# ctest: PROCESSORS 1 COST 35

import re

import h5py
import numpy as np
import pytest
from conftest import of_the_day
from refusals import CARTPOLE, GUARD, deck, refusing, short  # noqa: F401

refused = refusing(of_the_day([1, 2], 1))


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
    ("task: {rewards: {near: {function: cos(1)}}}\n", r"rewards\.near\.function: found an unknown key; allowed: term, expression, "),
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


def test_a_status_file_that_is_none(refused, deck, tmp_path):
    assert "run.status_file: found '/dev/null', which is not a file" in refused("train", deck(""), "run.status_file=/dev/null",
                                                                              *short(tmp_path))


def test_a_training_without_rewards(maniple, refused, tmp_path):
    message = refused("train", CARTPOLE, "task.rewards=~", "batch.num_envs=64", *short(tmp_path))
    assert message.startswith("command line: task.rewards: found no rewards; allowed: at least one")
    maniple("rollout", CARTPOLE, "task.rewards=~", "batch.num_envs=64", *short(tmp_path), timeout=GUARD)


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


def test_action_on_a_missing_joint(refused, deck, tmp_path):
    path = deck("task:\n  actions:\n    - term: joint_effort\n      joints: [slider]\n")
    message = refused("train", path, *short(tmp_path))
    assert re.search(r"bad\.yaml:5: task\.actions\[0\]\.joints: .*slider", message)
    assert "slider_to_cart" in message and "cart_to_pole" in message


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


# ---- files of data ----
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
