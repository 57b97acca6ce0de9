"""Keys of a deck over the options of a model: the same bits as a model whose XML has them."""
# ctest: PROCESSORS 1 COST 25

import re

import h5py
import numpy as np
import pytest

MODEL = """<mujoco>
  <option {option}>{flags}</option>
  <worldbody><geom type="plane" size="5 5 .1"/>
    <body pos="0 0 .3"><freejoint/><geom type="capsule" size=".1 .1" mass="1"/><geom type="capsule" size=".05 .1" pos=".15 0 0" mass=".5"/>
      <body pos=".2 0 0"><joint name="arm" axis="0 1 0" damping=".1" range="-.5 .5" frictionloss=".05"/><geom size=".05" pos=".1 0 0" mass=".3"/></body>
    </body>
    <body pos=".05 0 .55"><freejoint/><geom type="capsule" size=".08 .08" mass="1" euler="90 0 0"/></body>
  </worldbody>
  <actuator><motor joint="arm" ctrlrange="-2 2"/></actuator>
</mujoco>"""
# key of the deck, attribute of <option> (or of <flag>), and the model's own beside it
OPTIONS = {
    "timestep": ("0.004", 'timestep="0.004"', ""),
    "integrator": ("implicitfast", 'integrator="implicitfast"', ""),
    "solver": ("PGS", 'solver="PGS"', ""),
    "solver_path": ("mujoco", 'solver="CG"', 'solver="CG"'),
    "iterations": ("2", 'iterations="2"', ""),
    "ls_iterations": ("1", 'ls_iterations="1"', ""),
    "tolerance": ("1e6", 'tolerance="1e6"', ""),
    "ls_tolerance": ("0.9", 'ls_tolerance="0.9"', ""),
    "impratio": ("10", 'impratio="10"', ""),
    "gravity": ("[1, 0, -3]", 'gravity="1 0 -3"', ""),
    "density": ("40", 'density="40"', ""),
    "viscosity": ("3", 'viscosity="3"', ""),
    "wind": ("[2, 0, 0]", 'wind="2 0 0" density="40"', 'density="40"'),
}
FLAGS = ["constraint", "frictionloss", "limit", "contact", "damper", "gravity", "warmstart", "eulerdamp"]


def run(maniple, tmp_path, name, option, *keys, flags=""):
    (tmp_path / f"{name}.xml").write_text(MODEL.format(option=option, flags=flags))
    maniple("rollout", f"model.file={tmp_path}/{name}.xml", "batch.num_envs=4", "control.source=random", "simulation.steps=150",
            "simulation.precision=double", "output.trajectory.every=10", "output.trajectory.fields=[qpos,qvel,time]", *keys,
            f"output.directory={tmp_path}/{name}")
    with h5py.File(tmp_path / name / "results.h5") as file:
        return np.concatenate([file[f"trajectory/{field}"][()] for field in ("qpos", "qvel", "time")], axis=2)


@pytest.fixture(scope="module")
def plain(maniple, tmp_path_factory):
    return run(maniple, tmp_path_factory.mktemp("plain"), "model", "")


@pytest.mark.parametrize("key", OPTIONS)
def test_options(maniple, tmp_path, plain, key):
    value, attribute, own = OPTIONS[key]
    xml = run(maniple, tmp_path, "xml", attribute)
    by_key = run(maniple, tmp_path, "key", own, f"simulation.{key}={value}")
    np.testing.assert_array_equal(by_key, xml)
    assert np.any(by_key != plain) or key == "ls_tolerance"  # the option does something here


def test_flags(maniple, tmp_path, plain):
    for flag in FLAGS:
        off = run(maniple, tmp_path, f"{flag}_xml", "", flags=f'<flag {flag}="disable"/>')
        np.testing.assert_array_equal(run(maniple, tmp_path, f"{flag}_off", "", f"simulation.disable=[{flag}]"), off, err_msg=flag)
        if flag in ("contact", "warmstart", "gravity"):
            assert np.any(off != plain), flag
    everything = " ".join(f'{flag}="disable"' for flag in FLAGS)
    on = run(maniple, tmp_path, "on", "", f"simulation.enable=[{','.join(FLAGS)}]", flags=f"<flag {everything}/>")
    np.testing.assert_array_equal(on, plain)


def test_what_is_not_supported_is_chosen_away(maniple, tmp_path, plain):
    option, flags = 'cone="elliptic" solver="PGS" noslip_iterations="3" integrator="implicit"', '<flag override="enable"/>'
    (tmp_path / "model.xml").write_text(MODEL.format(option=option, flags=flags))
    text = maniple("validate", f"model.file={tmp_path}/model.xml", ranks=0, exit_code=2).stderr
    keys = ["simulation.cone: pyramidal", "simulation.noslip_iterations: 0", "simulation.disable: [override]"]
    for key in keys:
        assert key in text, text
    chosen = run(maniple, tmp_path, "model", option, "simulation.integrator=Euler", "simulation.solver=Newton", *(re.sub(": ", "=", key) for key in keys), flags=flags)
    np.testing.assert_array_equal(chosen, plain)


@pytest.mark.parametrize("key, expected", [
    ("tolerance=-1", "simulation.tolerance: found '-1'; allowed: number, at least 0"),
    ("cone=round", "simulation.cone: found 'round'; allowed: \"\" | pyramidal | elliptic"),
    ("gravity=[0, 1]", "simulation.gravity: found [0, 1]; allowed: [x, y, z]"),
    ("impratio=0", "simulation.impratio: found '0'; allowed: number, above 0"),
    ("disable=[gravitation]", "simulation.disable: no flag 'gravitation'; allowed: constraint, equality,"),
])
def test_refused(maniple, tmp_path, key, expected):
    (tmp_path / "model.xml").write_text(MODEL.format(option="", flags=""))
    text = maniple("validate", f"model.file={tmp_path}/model.xml", f"simulation.{key}", ranks=0, exit_code=2).stderr
    assert expected in text, text
    both = maniple("validate", f"model.file={tmp_path}/model.xml", "simulation.disable=[limit]", "simulation.enable=[limit]", ranks=0,
                   exit_code=2).stderr
    assert "simulation.enable: found 'limit', which simulation.disable has, too" in both


def test_threads_that_a_cpu_has_not(maniple):
    said = maniple("validate", "model.file=package:gymnasium/envs/mujoco/assets/ant.xml", "simulation.threads_per_environment=32")
    assert "simulation.threads_per_environment: 32 has no effect on a CPU" in said.stdout + said.stderr
