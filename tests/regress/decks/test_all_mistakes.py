"""One message reports every mistake of a deck: a line for each, in file order, none that follows from another."""
# ctest: PROCESSORS 1

import re

import pytest

MODEL = """<mujoco>
  <worldbody>
    <body name="pole" pos="0 0 1"><joint name="hinge" axis="0 1 0"/><geom name="pole" size="0.1"/></body>
  </worldbody>
  <actuator> <motor name="motor" joint="hinge" ctrlrange="-1 1"/> </actuator>
</mujoco>
"""
DECK = """model: {file: pole.xml}
batch: {num_envs: 64}
learning:
  horizon: 16
  gamma: 0.9
policy: {hidden: [16]}
task:
  episode_length: 5
  definitions: {angle: qpos, half: angle / 2}
  actions:
    - {term: joint_effort, joints: [hinge]}
  observations:
    - {expression: angle}
    - {term: joint_vel_rel}
  rewards:
    upright: {expression: cos(half), weight: 1}
    effort: {expression: sum(square(action)), weight: -0.1}
  terminations:
    time_out: {term: time_out}
    fallen: {expression: "abs(angle) > 1"}
  resets:
    - {term: reset_joints_by_offset, position_range: [-0.1, 0.1], velocity_range: [0, 0]}
"""


@pytest.fixture
def mistakes(maniple, tmp_path):
    """What is wrong with the deck after replacements, as (line or None, text)."""
    (tmp_path / "pole.xml").write_text(MODEL)

    def tell(*changes, arguments=(), verb="validate", exit_code=2):
        deck = DECK
        for old, new in changes:
            assert deck.count(old) == 1, old
            deck = deck.replace(old, new)
        (tmp_path / "deck.yaml").write_text(deck)
        directory = [] if verb == "validate" else [f"output.directory={tmp_path}/run"]
        result = maniple(verb, tmp_path / "deck.yaml", *directory, *arguments, ranks=0, exit_code=exit_code)
        if exit_code == 0:
            return []
        lines = result.stderr.split("maniple: error: ")[1].rstrip("\n").split("\n")
        if len(lines) > 1 and re.fullmatch(r"\d+ mistakes:", lines[0]):
            assert int(lines[0].split()[0]) == len([line for line in lines[1:] if re.match(r"(command line|\S+): ", line)]) or \
                lines[-1].startswith("and ")
            lines = lines[1:]
        found = []
        for line in lines:
            match = re.match(r"(?:\S*deck\.yaml:(\d+)|command line): (.*)", line)
            if match:
                found.append((int(match[1]) if match[1] else None, match[2]))
            elif line.startswith("and "):
                found.append((None, line))
        return found
    return tell


def test_none(mistakes):
    assert mistakes(exit_code=0) == []


@pytest.mark.parametrize("verb", ["validate", "train"])
def test_all_kinds_in_the_order_of_the_file(mistakes, verb):
    found = mistakes(("num_envs: 64", "num_env: 64"), ("horizon: 16", "horizon: many"), ("gamma: 0.9", "gamma: 1.5"),
                     ("cos(half)", "cos(haf)"), ("{expression: sum", "{expresion: sum"),
                     arguments=["control.source=file", "output.trajectory.every=x"], verb=verb)
    assert [line for line, _ in found] == [2, 4, 5, 16, 17, None, None], found
    for (_, text), start in zip(found, ["batch.num_env: ", "learning.horizon: found 'many'", "learning.gamma: found '1.5'",
                                        "task.rewards.upright", "task.rewards.effort", "output.trajectory.every",
                                        "control.source: found 'file' without control.file"]):
        assert any(other.startswith(start) for _, other in found), (start, found)


def test_names_in_all_terms(mistakes):
    found = mistakes(("- {expression: angle}", "- {expression: angel}"), ("joint_vel_rel", "joint_velocity"),
                     ("sum(square(action))", "sum(square(acton))"), ("abs(angle) > 1", "abs(qpos[hing]) > 1"),
                     ("reset_joints_by_offset", "reset_joints"))
    assert [line for line, _ in found] == [13, 14, 17, 20, 22], found


def test_no_echo(mistakes):
    """What needs something that is wrong is not said to be wrong, too."""
    for change, line in [(("half: angle / 2", "half: angel / 2"), 9),  # used by a reward
                         (("joints: [hinge]", "joints: [hing]"), 11),  # how many actions there are
                         (("episode_length: 5", "episode_lenth: 5"), 8),  # what time_out needs
                         (("{file: pole.xml}", "{fil: pole.xml}"), 1),
                         (("model: {", "modl: {"), 1),
                         (("time_out: {term: time_out}", "time_out: {trm: time_out}"), 19),
                         (("task:", "tasks:"), 7),
                         (("policy: {hidden: [16]}", "policy: [16]"), 6)]:
        found = mistakes(change)
        assert [at for at, _ in found] == [line], (change, found)
    assert len(mistakes(arguments=["initial_state.source=tsk"], verb="rollout")) == 1


def test_twenty_are_told(mistakes):
    found = mistakes(arguments=[f"batch.key{i}=1" for i in range(25)])
    assert len(found) == 21 and found[-1][1] == "and 5 more"


def test_unknown_keys_of_terms(mistakes):
    """Keys that a term does not take, an event on a field that cannot vary and what else is wrong, at once."""
    found = mistakes(("weight: 1}", "weigth: 1}"), ("{expression: angle}", "{expression: angl}"),
                     ("  resets:\n", "  events:\n"
                      "    heavy: {field: body_mass, bodies: [pole], mode: startup, opration: scale, range: [1, 2]}\n"
                      "    light: {field: body_masss, bodies: [pole], mode: startup, operation: scale, ranges: [1, 2]}\n"
                      "  metrics: {lean: {expression: angle, statstic: max, avg: 1}}\n"
                      "  resets:\n"))
    said = "\n".join(text for _, text in found)
    assert len(found) == 7, said
    for text in ("rewards.upright.weigth: found an unknown key; .*nearest: weight;", "'angl'",
                 "heavy.opration: found 'scale' .*nearest to it: operation", "heavy.range: found an unknown key; .*nearest: ranges;",
                 "light.field: .*did you mean 'body_mass'", "lean.statstic: found an unknown key; .*nearest: statistic",
                 "lean.avg: found an unknown key"):
        assert re.search(text, said), (text, said)
