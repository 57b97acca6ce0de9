"""Results of `cmake --install` run wherever they are moved to: program, decks, models, job scripts and tools find each
other, and nothing in them points to the checkout or its build folder."""
# ctest: PROCESSORS 1

import json
import os
import subprocess
import sys

import h5py
import pytest
from conftest import BUILD, ENVIRONMENT, ROOT

# without what a checkout or an active environment offers
OUTSIDE = {name: value for name, value in ENVIRONMENT.items() if not name.startswith(("MANIPLE_", "VIRTUAL_ENV", "PYTHON"))}


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run(["cmake", "--install", BUILD, "--prefix", folder / "first"], check=True, capture_output=True)
    (folder / "first").rename(folder / "moved here")
    return folder / "moved here"


def run(*command, cwd, exit_code=0, **variables):
    result = subprocess.run([*map(str, command)], cwd=cwd, env={**OUTSIDE, **variables}, capture_output=True, text=True, timeout=120)
    assert result.returncode == exit_code, result.stdout + result.stderr
    return result.stdout


def test_nothing_points_into_the_checkout(installed):
    program = installed / "bin/maniple"
    libraries = run("ldd", program, cwd="/")
    assert f"libmujoco.so.3.17.0 => {installed}/bin/../lib/maniple/libmujoco.so.3.17.0" in libraries and "not found" not in libraries
    places = libraries + "".join(line for line in run("readelf", "-d", program, cwd="/").splitlines() if "PATH" in line)
    for folder in (ROOT, BUILD, (ROOT / ".venv").resolve()):
        assert str(folder) not in places
    everything = list(installed.rglob("*"))
    assert not [path for path in everything if "__pycache__" in path.parts]
    assert not [path for path in everything if path.is_symlink() and not path.resolve(strict=True).is_relative_to(installed)]
    assert sorted(path.name for path in (installed / "share/maniple").iterdir()) == ["LICENSE", "inputs", "jobs", "tools"]
    for name in ("jobs/slurm/run.sbatch", "tools/maniple/replay_page/replay.js", "tools/requirements.txt", "inputs/models/pendulum.xml"):
        assert (installed / "share/maniple" / name).read_bytes() == (ROOT / name).read_bytes()


def test_named_decks_from_any_directory(installed, tmp_path):
    program = installed / "bin/maniple"
    decks = run(program, "tasks", cwd=tmp_path)
    assert "isaac_cartpole" in decks and "gymnasium/ant_v5" in decks
    assert "all good" in run(program, "validate", "isaac_cartpole", cwd="/")
    # by way of PATH and of a link
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/maniple").symlink_to(program)
    run("maniple", "rollout", "pendulum_swingup", "initial_state.source=task", "batch.num_envs=2", "simulation.steps=2",
        "output.trajectory.every=1", "output.directory=run", cwd=tmp_path, PATH=f"{tmp_path}/bin:{os.environ['PATH']}")
    with h5py.File(tmp_path / "run/results.h5") as results:
        assert results["trajectory/qpos"].shape == (2, 3, 1)


def test_job_scripts_and_tools_find_the_program(installed, tmp_path):
    share = installed / "share/maniple"
    (tmp_path / "srun").write_text("#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\necho \"started $1\"\nexec \"$@\"\n")
    (tmp_path / "scontrol").write_text("#!/bin/sh\n[ \"$2\" = hostnames ] && echo n1\n")
    for name in ("srun", "scontrol"):
        (tmp_path / name).chmod(0o755)
    text = run("bash", share / "jobs/slurm/run.sbatch", "train", "pendulum_swingup", "batch.num_envs=32", "learning.iterations=1",
               "output.directory=run", cwd=tmp_path, PATH=f"{tmp_path}:{os.environ['PATH']}", SLURM_JOB_ID="1", SLURM_JOB_NODELIST="n1")
    started = next(line.split(" ", 1)[1] for line in text.splitlines() if line.startswith("started "))
    assert os.path.samefile(started, installed / "bin/maniple")
    # the policy is rolled out by the installed program
    run(sys.executable, share / "tools/replay.py", "run", "--seconds", 0.1, "--envs", 1, cwd=tmp_path)
    page = (tmp_path / "run/replay.html").read_text()
    assert json.loads(page.split('id="description" type="application/json">')[1].split("</script>")[0])["envs"] == [0]


MODULE_COMMANDS = r"""
set ModulesCurrentModulefile [lindex $argv 0]
proc note {name args} { puts "$name [join $args]" }
foreach name {conflict setenv prepend-path} { interp alias {} $name {} note $name }
proc module-whatis {text} { puts "whatis $text" }
source $ModulesCurrentModulefile
"""


def test_module_file(installed, tmp_path):
    """What `module load` does with it, by an interpreter that prints the commands of module files. (`module` itself comes with
    two programs, of which no machine has both.)"""
    module, = (installed / "share/modulefiles").rglob("*.*")
    version = run(installed / "bin/maniple", "--version", cwd="/").strip()
    assert module.relative_to(installed / "share/modulefiles").as_posix() == f"maniple/{version}"
    (tmp_path / "commands.tcl").write_text(MODULE_COMMANDS)
    lines = run("tclsh", tmp_path / "commands.tcl", module, cwd="/").splitlines()
    assert lines == [f"whatis Maniple {version}: batched robot simulation and policy training as an MPI program", "conflict maniple",
                     f"setenv MANIPLE_PROGRAM {installed}/bin/maniple", f"setenv MANIPLE_JOBS {installed}/share/maniple/jobs",
                     f"prepend-path PATH {installed}/bin", f"prepend-path PYTHONPATH {installed}/share/maniple/tools"]
    # with the environment that tools/setup.sh --prefix makes
    (installed / ".venv").mkdir()
    try:
        more = run("tclsh", tmp_path / "commands.tcl", module, cwd="/").splitlines()
    finally:
        (installed / ".venv").rmdir()
    assert more[-2:] == [f"setenv VIRTUAL_ENV {installed}/.venv", f"prepend-path PATH {installed}/.venv/bin"]


def test_the_python_package(installed, tmp_path):
    """`import maniple` with its decks, where the build has its compiled part."""
    package = installed / "share/maniple/tools/maniple"
    if not list((BUILD / "python").glob("_maniple.*.so")):
        pytest.skip("this build has no Python package")
    code = ("import maniple; envs = maniple.make_vec('pendulum_swingup', num_envs=2); print(envs.reset()[0].shape, maniple.__file__, "
            "envs.deck)")
    text = run(sys.executable, "-c", code, cwd=tmp_path, PYTHONPATH=str(package.parent))
    assert text.startswith(f"(2, 4) {package}/__init__.py") and f"{installed}/share/maniple/inputs/models/pendulum.xml" in text
