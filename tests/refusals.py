"""Helpers of the tests of bad input: the program ends on every rank with exit code 2 and one message."""

import re
import shutil
import subprocess

import pytest
from conftest import ENVIRONMENT

CARTPOLE = "inputs/train/isaac_cartpole.yaml"
GUARD = 20  # s; only against hanging ranks, refusals take a fraction of a second
# Each rank leaves its own exit code in a file, and waits for the others: the launcher ends the rest of a job as soon
# as the first process leaves with an error.
EACH_RANK = """
program=$1; shift
"$program" "$@"; code=$?
echo $code > "$EXIT_CODES/${OMPI_COMM_WORLD_RANK:-0}"
while [ "$(ls "$EXIT_CODES" | wc -l)" -lt "${OMPI_COMM_WORLD_SIZE:-1}" ]; do sleep 0.02; done
exit $code
"""


def refusing(counts):
    """A fixture for these numbers of ranks, parameters of a test (conftest.of_the_day): it runs the program on bad input and
    returns its one message. One rank starts without the launcher, which is faster: enough by day where all ranks look at
    the same deck in the same way."""

    @pytest.fixture(params=counts)
    def refused(maniple, tmp_path, request):
        def run(*arguments, ranks=request.param):
            codes = tmp_path / "exit_codes"
            shutil.rmtree(codes, ignore_errors=True)
            codes.mkdir()
            launcher = ["mpirun", "--oversubscribe", "--allow-run-as-root", "--bind-to", "none", "-n",
                        str(ranks)] if ranks > 1 else []
            command = [*launcher, "sh", "-c", EACH_RANK, "sh", str(maniple.program), *map(str, arguments)]
            result = subprocess.run(command, cwd=maniple.root, env={**ENVIRONMENT, "EXIT_CODES": str(codes)}, capture_output=True,
                                    text=True, timeout=GUARD)
            output = result.stdout + result.stderr
            assert result.returncode == 2, output
            assert sorted(path.name for path in codes.iterdir()) == [str(rank) for rank in range(ranks)], output
            assert {path.read_text().strip() for path in codes.iterdir()} == {"2"}, output
            assert output.count("maniple: error: ") == 1, output
            # the launcher's own remarks come after a line of dashes
            return re.split(r"^-{20,}$", output.split("maniple: error: ")[1], flags=re.MULTILINE)[0].rstrip()

        return run

    return refused


@pytest.fixture
def deck(maniple, tmp_path):
    """Writes a deck that changes the cartpole's; line 1 is the include."""

    def write(text, name="bad.yaml"):
        path = tmp_path / name
        path.write_text(f"include: {maniple.root / CARTPOLE}\n{text}")
        return path

    return write


def short(directory):
    """Keys that keep a run short, should the program fail to refuse it."""
    return ["learning.iterations=1", "run.progress=none", f"output.directory={directory / 'run'}"]
