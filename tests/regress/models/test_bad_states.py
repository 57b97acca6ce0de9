"""Promise 7: a NaN in one environment touches no other, is counted and named."""
# ctest: PROCESSORS 1

import re

import h5py
import numpy as np
import pytest
from conftest import of_the_day


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
