"""Models that ask for a solver that does not converge: validate and the header of a run say in one line that
results differ from MuJoCo's, and which keys settle it."""

import pytest

BODY = """<body pos="{x} 0 1"><freejoint/><geom size=".1"/></body>"""


@pytest.fixture
def notes(maniple, tmp_path):
    def notes(option, bodies, *keys, verb="validate"):
        """The warnings about a model of so many balls over a floor."""
        model = tmp_path / "model.xml"
        model.write_text(f"<mujoco><option {option}/><worldbody><geom type='plane' size='1 1 1'/>" +
                         "".join(BODY.format(x=x) for x in range(bodies)) + "</worldbody></mujoco>")
        result = maniple(verb, f"model.file={model}", "simulation.steps=2", f"output.directory={tmp_path}/run", *keys)
        return [line for line in (result.stdout + result.stderr).splitlines() if "MuJoCo" in line]

    return notes


@pytest.mark.parametrize("option, bodies, keys", [
    ('solver="CG"', 1, ["simulation.solver=Newton"]),
    ('iterations="3"', 2, ["simulation.iterations=100"]),
    ('ls_iterations="6"', 1, ["simulation.ls_iterations=50"]),
    ('iterations="3" ls_iterations="6"', 2, ["simulation.iterations=100", "simulation.ls_iterations=50"]),
])
def test_an_unconverged_solve_is_said_and_settled(notes, option, bodies, keys):
    (line,) = notes(option, bodies)
    assert line.startswith("warning: the model ") and line.endswith(f"({' '.join(keys)} settles it)")
    assert notes(option, bodies, *keys) == []


def test_the_header_of_a_run_says_it_too(notes):
    (line,) = notes('solver="CG"', 1, verb="rollout")
    assert line.startswith("warning: the model asks for the solver CG")


@pytest.mark.parametrize("option, bodies", [
    ("", 2),
    ('solver="PGS" iterations="3"', 2),    # followed sweep by sweep
    ('iterations="3"', 1),                 # MuJoCo's own iterates
    ('solver="CG"', 0),                    # nothing to solve
])
def test_nothing_is_said_where_results_are_mujocos(notes, option, bodies):
    assert notes(option, bodies) == []
