"""Helpers of every Python test: they start the program on a number of ranks, and read its digests."""

import importlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BUILD = Path(os.environ.get("MANIPLE_BUILD_DIR", ROOT / "build"))
PROGRAM = BUILD / "maniple"
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests")]

ENVIRONMENT = {
    **os.environ,
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    # more ranks than cores must wait politely for each other
    "OMPI_MCA_mpi_yield_when_idle": "1",
    # ranks of one machine need no network, whose libraries take 0.2 s to open
    "OMPI_MCA_pml": "ob1",
    # a rank that leaves with an error ends the job at once, its message being out; by itself mpirun waits two seconds
    "OMPI_MCA_odls_base_sigkill_timeout": "0",
    "VIRTUAL_ENV": str(ROOT / ".venv"),
}


def command(ranks, *arguments):
    """The command line of `maniple *arguments` on this many ranks; 0: as a program of its own, without mpirun."""
    if ranks == 0:
        return [str(PROGRAM), *map(str, arguments)]
    launcher = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(ranks)]
    return [*launcher, str(PROGRAM), *map(str, arguments)]


class Maniple:
    """Starts the program; every call has a time limit, and a result that was not expected shows its output."""

    root = ROOT
    program = PROGRAM

    def __call__(self, *arguments, ranks=1, exit_code=0, timeout=300, cwd=ROOT, environment=None):
        """`environment`: variables of the ranks (not of mpirun) beyond the usual ones. One rank without such starts as a
        program of its own, which takes half the time."""
        settings = [f"{name}={value}" for name, value in (environment or {}).items()]
        line = command(ranks if settings or ranks > 1 else 0, *arguments)
        at = line.index(str(PROGRAM))
        line[at:at] = ["env", *settings] if settings else []
        result = subprocess.run(line, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, timeout=timeout)
        if exit_code is not None and result.returncode != exit_code:
            raise AssertionError(
                f"maniple {' '.join(map(str, arguments))} on {ranks} ranks: exit code {result.returncode}, "
                f"expected {exit_code}\n{result.stdout[-4000:]}\n{result.stderr[-4000:]}")
        return result

    def start(self, *arguments, ranks=1, log=None, environment=None):
        """In the background, in a process group of its own. The log is a file, so that no pipe can fill up.
        `environment`: variables of mpirun and the ranks beyond the usual ones."""
        with open(log or os.devnull, "w") as output:
            return subprocess.Popen(command(ranks, *arguments), cwd=ROOT, env={**ENVIRONMENT, **(environment or {})},
                                    stdout=output, stderr=subprocess.STDOUT, start_new_session=True)

    def ranks_of(self, process):
        """Process ids of the ranks that an mpirun started."""
        try:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        except FileNotFoundError:
            return []  # it has ended
        found = []
        for child in children:
            try:
                if Path(f"/proc/{child}/exe").resolve() == PROGRAM.resolve():
                    found.append(int(child))
            except OSError:
                pass
        return found

    def kill_all(self, process):
        """kill -9 of all ranks and of mpirun, as a power cut would."""
        for pid in self.ranks_of(process):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait(timeout=30)

    def inspect(self, file):
        return subprocess.run([str(PROGRAM), "inspect", str(file)], cwd=ROOT, env=ENVIRONMENT, capture_output=True,
                              text=True, timeout=60, check=True).stdout

    def digest(self, file):
        """The checksum of the numbers in a file, as `maniple inspect` prints it."""
        text = self.inspect(file)
        match = re.search(r"^digest\s+([0-9a-f]{8,})$", text, re.M)
        assert match, text
        return match.group(1)

    def checkpoints(self, directory):
        """Checkpoint files of a run, oldest first."""
        return sorted((Path(directory) / "checkpoints").glob("*.h5"), key=lambda p: int(re.sub(r"\D", "", p.stem) or 0))

    def wait_for(self, condition, what, timeout=120, process=None):
        end = time.monotonic() + timeout
        while not condition():
            if process is not None and process.poll() is not None and not condition():
                raise AssertionError(f"the program ended with {process.returncode} before: {what}")
            if time.monotonic() > end:
                raise AssertionError(f"not within {timeout} s: {what}")
            time.sleep(0.02)


def start_tool(tool, *arguments):
    """A script of tools/ in a process of its own, which has what this one has imported: starting Python and importing all of
    it again takes a second. (test_readme.py starts the scripts as anyone does.)"""
    main = importlib.import_module(".".join(Path(tool).with_suffix("").parts)).main
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = os.fork()
        if process == 0:
            code = 1
            try:
                for number, file in ((1, output), (2, errors)):
                    os.dup2(file.fileno(), number)
                sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)
                sys.argv = [str(ROOT / "tools" / tool), *map(str, arguments)]
                main()
                code = 0
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
                if isinstance(end.code, str):
                    print(end.code, file=sys.stderr)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush(), sys.stderr.flush()
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        output.seek(0), errors.seek(0)
        return subprocess.CompletedProcess([tool, *arguments], code, output.read(), errors.read())


def of_the_day(cases, *quick):
    """All cases as parameters of a test, tuples for several; those that are not quick are for the night."""
    assert set(quick) <= set(cases)
    return [pytest.param(*(case if isinstance(case, tuple) else [case]), marks=[] if case in quick else pytest.mark.nightly)
            for case in cases]


@pytest.fixture(scope="session")
def preload(tmp_path_factory):
    """preload("hang"): the library of tests/faults/hang.c, a fault for LD_PRELOAD."""
    folder = tmp_path_factory.mktemp("preload")

    def build(name):
        library = folder / f"{name}.so"
        if not library.exists():
            subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, ROOT / "tests/faults" / f"{name}.c", "-ldl"],
                           check=True)
        return str(library)

    return build


@pytest.fixture(scope="session")
def maniple():
    assert PROGRAM.is_file(), f"{PROGRAM} is not built"
    return Maniple()


def pytest_configure(config):
    config.addinivalue_line("markers", "nightly: repeats with other sizes, decks or faults what a quicker test shows; "
                            "ctest runs it under the label nightly")


def pytest_sessionfinish(session):
    """Where MANIPLE_FORBID_SKIPS is set, as in CI, a test that was left out fails the run. Tests for the night, and the
    others at night, are in another entry of ctest."""
    if "MANIPLE_FORBID_SKIPS" not in os.environ:
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    at_night = session.config.option.markexpr == "nightly"
    for kind in ("skipped", "xfailed", "deselected"):
        for test in reporter.stats.get(kind, []):
            if kind == "deselected" and (test.get_closest_marker("nightly") is None) == at_night:
                continue
            reporter.write_line(f"\n{kind}: {test.nodeid}")
            if session.exitstatus == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
