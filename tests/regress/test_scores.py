"""The script that writes the table of scores, on a short training: 0.4 million steps of HalfCheetah."""
# ctest: PROCESSORS 1

import subprocess
import sys

from conftest import BUILD, ENVIRONMENT, ROOT


def test_half_cheetah_learns_to_run(tmp_path):
    subprocess.run([sys.executable, "tests/perf/scores.py", "gymnasium/half_cheetah_v5", "--seeds", "1", "--output",
                    tmp_path, "--keys", "learning.iterations=100"], cwd=ROOT, check=True, timeout=280,
                   env={**ENVIRONMENT, "MANIPLE_BUILD_DIR": str(BUILD)})
    row = (tmp_path / "scores.md").read_text().splitlines()[-1].split("|")
    assert row[1].strip() == "gymnasium/half_cheetah_v5" and row[2].split()[0] == "6300"
    assert float(row[3]) > 800  # CleanRL has 1443 after a million steps, a policy that has learned nothing 0
