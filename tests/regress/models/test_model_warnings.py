"""Warnings of validate and of a run's header, a line each: decks that solve further than their model does, with
the key that settles it; tendons whose limits do not act as expected; libmujoco's own warnings."""
# ctest: PROCESSORS 1

import pytest

BODY = """<body pos="{x} 0 1"><freejoint/><geom size=".1"/></body>"""


@pytest.fixture
def warnings(maniple, tmp_path):
    def warnings(text, *keys, verb="validate"):
        """Those about a model."""
        model = tmp_path / "model.xml"
        model.write_text(text)
        result = maniple(verb, f"model.file={model}", "simulation.steps=2", f"output.directory={tmp_path}/run", *keys)
        lines = (result.stdout + result.stderr).splitlines()
        return [line for line in lines if line.startswith("warning: ")]

    return warnings


@pytest.fixture
def notes(warnings):
    def notes(option, bodies, *keys, verb="validate"):
        """The warnings about a model of this many balls over a floor."""
        return warnings(
            f"<mujoco><option {option}/><worldbody><geom type='plane' size='1 1 1'/>" +
            "".join(BODY.format(x=x) for x in range(bodies)) + "</worldbody></mujoco>", *keys, verb=verb)

    return notes


@pytest.mark.parametrize("option, bodies", [
    ('solver="CG"', 1),
    ('iterations="3"', 2),
    ('ls_iterations="6"', 1),
    ('iterations="3" ls_iterations="6"', 2),
])
def test_a_solve_beyond_the_models_is_said_and_settled(notes, option, bodies):
    (line,) = notes(option, bodies, "simulation.solver_path=converged")
    assert line.startswith("warning: the model stops its solver before it has converged: ")
    assert line.endswith("(simulation.solver_path=mujoco settles it)")
    assert notes(option, bodies, "simulation.solver_path=mujoco") == []
    assert notes(option, bodies) == []


def test_the_header_of_a_run_says_it_too(notes):
    (line,) = notes('solver="CG"', 1, "simulation.solver_path=converged", verb="rollout")
    assert line.startswith("warning: the model stops its solver")


@pytest.mark.parametrize("option, path, text", [
    ("", "", "solver Newton"),
    ('solver="PGS" iterations="3"', "", "solver PGS, at most 3 sweeps"),
    ('solver="CG" iterations="4"', "", "solver CG as MuJoCo's, at most 4 iterations and 50 evaluations of a line search"),
    ('solver="CG" iterations="4"', "converged", "solver Newton"),
    ("", "mujoco", "solver Newton as MuJoCo's, at most 100 iterations and 50 evaluations of a line search"),
])
def test_validate_says_how_far_the_solver_goes(maniple, tmp_path, option, path, text):
    (tmp_path / "model.xml").write_text(f"""<mujoco><option {option}/><worldbody><geom type="plane" size="1 1 1"/>
{BODY.format(x=0)}</worldbody></mujoco>""")
    keys = [f"simulation.solver_path={path}"] if path else []
    assert f", {text}\n" in maniple("validate", f"model.file={tmp_path}/model.xml", *keys).stdout


@pytest.mark.parametrize("path", ["converged", "mujoco"])
def test_a_path_that_has_no_effect_is_named(notes, path):
    (line,) = notes('solver="PGS" iterations="3"', 2, f"simulation.solver_path={path}")
    assert line.startswith(f"warning: simulation.solver_path: {path} has no effect with the solver PGS")


@pytest.mark.parametrize("option, bodies", [
    ("", 2),
    ('solver="PGS" iterations="3"', 2),    # followed sweep by sweep
    ('iterations="3"', 1),                 # MuJoCo's own iterates
    ('solver="CG"', 0),                    # nothing to solve
])
def test_nothing_is_said_where_results_are_mujocos(notes, option, bodies):
    assert notes(option, bodies, *(["simulation.solver_path=converged"] if "PGS" not in option else [])) == []


def arm(tendon, option=""):
    """A chain of hinges with a fixed tendon, in line 3."""
    body = """<body pos="0 .3 0"><joint name="{}"/><geom size=".1"/>"""
    return f"""<mujoco><option {option}/><worldbody>
{"".join(body.format(name) for name in "abcd")}</body></body></body></body></worldbody>
<tendon>{tendon}</tendon></mujoco>"""


LIMITED = 'limited="true" range="-.1 .1"'
TWICE = '<joint joint="a" coef="2"/><joint joint="b" coef=".1"/><joint joint="b" coef=".4"/>'


@pytest.mark.parametrize("option, effect", [
    ("", "leave it out"),
    ('jacobian="sparse"', "tendon_invweight0 leaves it out"),
])
@pytest.mark.parametrize("verb", ["validate", "rollout"])
def test_a_tendon_that_lists_a_joint_twice_is_named(warnings, tmp_path, option, effect, verb):
    (line,) = warnings(arm(f'<fixed name="t" {LIMITED}>{TWICE}</fixed>', option), verb=verb)
    assert line.startswith(f'warning: {tmp_path}/model.xml:3: tendon "t" lists joint "b" more than once: ')
    assert effect in line and line.endswith('; write it once, with coef="0.5"')


def test_a_tendon_without_rows_may_list_a_joint_twice(warnings):
    spring = f'<fixed name="t" stiffness="3">{TWICE}</fixed>'
    once = f'<fixed name="u" {LIMITED}><joint joint="a" coef="2"/><joint joint="b" coef=".5"/></fixed>'
    assert warnings(arm(spring + once, 'jacobian="sparse"')) == []
    twice = f'<fixed name="t" {LIMITED}>{TWICE}</fixed>'
    assert warnings(arm(twice), "model.limits=false") == []


def test_both_joints_are_named(warnings):
    joints = TWICE + '<joint joint="a" coef="-3"/>'
    (line,) = warnings(arm(f'<fixed frictionloss=".2">{joints}</fixed>', 'jacobian="sparse"'))
    assert 'tendon number 0 (no name) lists joint "a", joint "b" more than once: ' in line
    assert "tendon_invweight0 leaves them out and is 0, " in line
    assert line.endswith('; write each once, with coef="-1", coef="0.5"')
