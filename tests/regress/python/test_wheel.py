"""The Python package as `pip install .` makes it: by day that it asks for what it imports, at night the wheel itself, in an
environment of its own, with the build requirements that pip fetches."""
# ctest: PROCESSORS 2

import ast
import json
import re
import subprocess
import sys
import tomllib

import pytest
from conftest import ENVIRONMENT, ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# modules that need more than the package's own requirements, and what installs that
MORE = {"plot.py": "tools", "export.py": "tools", "onnx_encoder.py": "tools", "from_lerobot.py": "datasets",
        "sb3.py": "stable_baselines3", "rsl_rl.py": "rsl_rl"}
OF_OTHERS = {"sb3.py": {"stable_baselines3"}, "rsl_rl.py": {"rsl_rl", "tensordict", "torch"}}


def names(requirements):
    return {re.match(r"[\w-]+", text)[0].replace("-", "_") for text in requirements}


def imported(file):
    """Packages that a module imports when it is imported itself."""
    found = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add(node.module.split(".")[0])
    return found - set(sys.stdlib_module_names) - {"maniple"}


@pytest.mark.parametrize("file", sorted((ROOT / "tools/maniple").glob("*.py")), ids=lambda file: file.name)
def test_what_is_imported_is_asked_for(file):
    allowed = names(PROJECT["dependencies"]) | OF_OTHERS.get(file.name, set())
    if MORE.get(file.name) in PROJECT["optional-dependencies"]:
        allowed |= names(PROJECT["optional-dependencies"][MORE[file.name]])
    assert imported(file) <= allowed


@pytest.mark.parametrize("file", ["checkpoints.py", "export.py", "plot.py", "replay.py"])
def test_functions_have_types(file):
    """Those of modules and classes say what they take and give; py.typed promises it."""
    tree = ast.parse((ROOT / "tools/maniple" / file).read_text())
    owners = [tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))]
    for function in (node for owner in owners for node in owner.body if isinstance(node, ast.FunctionDef)):
        given = function.args
        taken = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))]
        untyped = [argument.arg for argument in taken if argument.annotation is None and argument.arg != "self"]
        assert not untyped and function.returns is not None, f"{file}:{function.lineno}: {function.name}: {untyped or 'what it gives'}"


@pytest.mark.parametrize("script", ["datasets", "export_csv", "export_onnx", "from_lerobot", "plot_learning_curve", "replay"])
def test_scripts_are_names_of_the_packages_commands(script):
    """What a checkout has as tools/NAME.py, an installation starts as python -m maniple.MODULE."""
    text = (ROOT / "tools" / f"{script}.py").read_text()
    module = re.search(r"^from maniple\.(\w+) import main$", text, re.M)[1]
    assert f"`python -m maniple.{module}`" in text and len(text.splitlines()) < 8
    result = subprocess.run([sys.executable, "-m", f"maniple.{module}", "--help"], env={**ENVIRONMENT, "PYTHONPATH": ROOT / "tools"}, cwd="/",
                            capture_output=True, text=True, timeout=60)
    assert result.returncode == 0 and f"maniple.{module} " in result.stdout, result


TRY = """
import json, sys, warnings
warnings.simplefilter("ignore")
import maniple
envs = maniple.make_vec("gymnasium/half_cheetah_v5", num_envs=4, seed=1)
observations, _ = envs.reset()
rewards = envs.step(envs.action_space.sample())[1]
simulation = maniple.Simulation(sys.argv[1], 2)
simulation.step(3)
print(json.dumps({"file": maniple.__file__, "shape": observations.shape, "rewards": len(rewards), "version": maniple.__version__,
                  "qpos": simulation["qpos"].shape, "readers": [maniple.Run.__name__, maniple.load_policy.__name__]}))
"""


@pytest.mark.nightly
def test_wheel_in_an_environment_of_its_own(tmp_path):
    """Compiled by pip, from a copy of the sources without the checkout's build folder and environment."""
    tracked = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True,
                             capture_output=True).stdout
    (tmp_path / "source").mkdir()
    archive = subprocess.run(["tar", "c", "--null", "--ignore-failed-read", "-T", "-"], cwd=ROOT, input=tracked, check=True,
                             capture_output=True).stdout
    subprocess.run(["tar", "x", "-C", tmp_path / "source"], input=archive, check=True)
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "own"], check=True)
    environment = {name: value for name, value in ENVIRONMENT.items() if name != "VIRTUAL_ENV"}
    result = subprocess.run([tmp_path / "own/bin/pip", "install", "--quiet", tmp_path / "source"], env=environment, cwd="/",
                            capture_output=True, text=True, timeout=3000)
    assert result.returncode == 0, result.stdout + result.stderr
    model = ROOT / "inputs/models/pendulum.xml"
    result = subprocess.run([tmp_path / "own/bin/python", "-c", TRY, model], env=environment, cwd="/", capture_output=True,
                            text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    said = json.loads(result.stdout)
    assert said.pop("file").startswith(str(tmp_path / "own/lib"))
    assert said == {"shape": [4, 17], "rewards": 4, "version": PROJECT["version"], "qpos": [2, 1], "readers": ["Run", "load_policy"]}
