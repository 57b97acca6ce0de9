"""The script that writes the table of scores, on short trainings of HalfCheetah; at night one that learns."""
# ctest: PROCESSORS 1

import re
import subprocess
import sys

import pytest
from conftest import BUILD, ENVIRONMENT, ROOT


def row_of_the_table(folder, iterations):
    subprocess.run([sys.executable, "tests/perf/scores.py", "gymnasium/half_cheetah_v5", "--seeds", "1", "--output",
                    folder, "--keys", f"learning.iterations={iterations}"], cwd=ROOT, check=True, timeout=280,
                   env={**ENVIRONMENT, "MANIPLE_BUILD_DIR": str(BUILD)})
    row = (folder / "scores.md").read_text().splitlines()[-1].split("|")
    assert row[1].strip() == "gymnasium/half_cheetah_v5" and row[2].split()[0] == "6300"
    return row


def test_the_table_has_what_was_trained(tmp_path):
    assert -2000 < float(row_of_the_table(tmp_path, 2)[3]) < 800


def test_decks_tell_their_scores(maniple):
    """`maniple tasks` has the scores and times of the table, by the first lines of the decks."""
    listed = maniple("tasks", ranks=0).stdout
    rows = [line.split(" | ") for line in (ROOT / "inputs/README.md").read_text().splitlines()
            if re.match(r"\| \w+/\w+ \| \S+ \(", line)]
    assert len(rows) == 14
    for name, goal, score, _, _, time, _ in rows:
        number, source = re.fullmatch(r"(\S+) \((.*)\)", goal).groups()
        published = f"goal {number}" if source == "goal" else f"published {number}, {source}"
        line = next(line for line in listed.splitlines() if line.split()[:1] == [name[2:]])
        assert line.endswith(f" with PPO: score {score.split()[0]} ({published}) after {time} on two cores"), line


@pytest.mark.nightly
def test_half_cheetah_learns_to_run(tmp_path):
    """0.4 million steps."""
    row = row_of_the_table(tmp_path, 100)
    assert float(row[3]) > 800  # CleanRL has 1443 after a million steps, a policy that has learned nothing 0
