"""Tests that are left out fail a run in CI (MANIPLE_FORBID_SKIPS), those of GoogleTest as those of pytest."""
# ctest: PROCESSORS 1

import shutil
import subprocess
import sys

import pytest
from conftest import BUILD, ENVIRONMENT, ROOT

WITHOUT = {name: value for name, value in ENVIRONMENT.items() if name != "MANIPLE_FORBID_SKIPS"}
WITH = {**WITHOUT, "MANIPLE_FORBID_SKIPS": "1"}


def run(command, environment):
    return subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, timeout=120)


def test_a_skip_of_googletest_fails_the_run():
    # nobody may mount a file system without this capability, which these tests need
    command = ["setpriv", "--bounding-set=-sys_admin", BUILD / "maniple_unit_tests", "--gtest_filter=FullDiskMpi.*"]
    assert run(command, WITHOUT).returncode == 0
    refused = run(command, WITH)
    assert refused.returncode == 1
    assert "skipped: FullDiskMpi.DoctorSaysSo" in refused.stderr


def test_a_filter_without_tests_fails_the_run():
    assert run([BUILD / "maniple_unit_tests", "--gtest_filter=NoSuch.Test"], WITHOUT).returncode == 1


@pytest.mark.parametrize(
    "body, kind",
    [
        ("pytest.skip('no reason')", "skipped"),
        ("pytest.importorskip('no_such_module')", "skipped"),
        ("pytest.xfail('known')", "xfailed"),
    ],
)
def test_a_skip_of_pytest_fails_the_run(tmp_path, body, kind):
    shutil.copy(ROOT / "tests/conftest.py", tmp_path)
    (tmp_path / "test_sample.py").write_text(
        f"import pytest\n\n\ndef test_passes():\n    pass\n\n\ndef test_left_out():\n    {body}\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", tmp_path, tmp_path]
    assert run(command, WITHOUT).returncode == 0
    refused = run(command, WITH)
    assert refused.returncode == 1
    assert f"{kind}: test_sample.py::test_left_out" in refused.stdout
