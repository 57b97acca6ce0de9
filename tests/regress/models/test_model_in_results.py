"""The model in a results file is whole: libmujoco reads it where none of the model's files are, and it is the model
that ran, meshes and the deck's settings included."""
# ctest: PROCESSORS 1

import os
import subprocess
import sys

import mujoco
import numpy as np
import pytest
from maniple.results import Run

PACKAGE_G1 = "package:mjlab/asset_zoo/robots/unitree_g1/xmls/g1.xml"
PACKAGE_BALL_IN_CUP = "package:dm_control/suite/ball_in_cup.xml"


def record(maniple, directory, model, *settings, steps=20):
    maniple("rollout", f"model.file={model}", "batch.num_envs=2", "control.source=random", f"simulation.steps={steps}",
            "simulation.precision=double", f"output.trajectory.every={steps}", "output.trajectory.fields=[qpos]", *settings,
            f"output.directory={directory}", ranks=2)
    return directory / "results.h5"


def package_file(model):
    package, path = model.removeprefix("package:").split("/", 1)
    found = subprocess.run([sys.executable, "-c", f"import importlib.util as u; print(u.find_spec('{package}').origin)"],
                           capture_output=True, text=True, check=True).stdout
    return os.path.join(os.path.dirname(found.strip()), path)


def arrays(model):
    for name in dir(model):
        value = None if name.startswith("_") else getattr(model, name, None)
        if isinstance(value, np.ndarray):
            yield name, value


def test_g1_with_its_meshes(maniple, tmp_path, monkeypatch):
    results = record(maniple, tmp_path / "run", PACKAGE_G1, "simulation.timestep=0.003")
    monkeypatch.chdir(tmp_path)
    with Run(results) as run:
        stored = run.model
        with pytest.raises(ValueError, match="STL"):
            mujoco.MjModel.from_xml_string(run.record["model_xml"])
        model = run.file["run/model_mjb"]
        # 71 MB, more than half of it bounding volumes of its meshes
        assert model.id.get_storage_size() < 0.55 * model.size
    assert results.stat().st_size < 0.6 * mujoco.mj_sizeModel(stored)
    original = mujoco.MjModel.from_xml_path(package_file(PACKAGE_G1))
    assert stored.opt.timestep == 0.003
    original.opt.timestep = 0.003
    assert stored.nmesh == 35 and stored.nmeshface == original.nmeshface
    compared = 0
    for name, values in arrays(original):
        np.testing.assert_array_equal(getattr(stored, name), values, err_msg=name)
        compared += 1
    assert compared > 300


def test_as_it_ran(maniple, tmp_path):
    """What the deck switches off is off in the stored model, too: stepped by libmujoco it goes where the run went."""
    steps = 300  # the ball falls past the end of its string
    results = record(maniple, tmp_path / "run", PACKAGE_BALL_IN_CUP, "model.tendons=false", "control.source=zero", steps=steps)
    with Run(results) as run:
        model, qpos = run.model, run.trajectories["qpos"][0]
    data = mujoco.MjData(model)
    data.qpos[:] = qpos[0]
    for _ in range(steps):
        mujoco.mj_step(model, data)
    np.testing.assert_allclose(data.qpos, qpos[1], rtol=1e-9, atol=1e-12)
    model.tendon_limited[:] = True
    mujoco.mj_resetData(model, data)
    for _ in range(steps):
        mujoco.mj_step(model, data)
    assert abs(data.qpos - qpos[1]).max() > 1e-2  # the string would have held it


def test_any_viewer_can_open_it(maniple, tmp_path):
    """As tools/README.md says: bytes of a dataset, written to a file, opened by its path."""
    results = record(maniple, tmp_path / "run", "inputs/models/arm6.xml")
    with Run(results) as run:
        (tmp_path / "model.mjb").write_bytes(run.file["run/model_mjb"][()].tobytes())
        stored = mujoco.MjModel.from_binary_path(str(tmp_path / "model.mjb"))
        assert stored.nq == run.trajectories["qpos"].shape[2]
