"""The environments of `import maniple` in a process of Python: several batches, memory, threads, signals and fork()."""
# ctest: PROCESSORS 1

import gc
import os
import resource
import signal
import subprocess
import sys
import time
import weakref

import numpy as np
import pytest
from batches import HOPPER, assert_same, draws, steps_of
from conftest import ENVIRONMENT, ROOT

pytest.importorskip("maniple.native", reason="MANIPLE_PYTHON_PACKAGE is off", exc_type=ImportError)
import maniple  # noqa: E402


def test_batches_live_beside_each_other():
    alone = []
    for seed in (1, 2):
        envs = maniple.make_vec(HOPPER, 40, seed=seed)
        alone.append([envs.reset()[0], *steps_of(envs, draws(envs, 8))])
    both = [maniple.make_vec(HOPPER, 40, seed=seed) for seed in (1, 2)]
    results = [[envs.reset()[0]] for envs in both]
    for action in draws(both[0], 8):
        for envs, result in zip(both, results, strict=True):
            result += steps_of(envs, [action])
    for want, got in zip(alone, results, strict=True):
        assert_same(got, want)
    assert not np.array_equal(alone[0][0], alone[1][0])


def test_memory_is_given_back():
    def once():
        envs = maniple.make_vec(HOPPER, 4096)
        envs.reset()
        envs.step(np.zeros(envs.action_space.shape, np.float32))
        return weakref.ref(envs)

    def resident():
        gc.collect()
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    assert [once()() for _ in range(5)] == [None] * 5
    before, threads = resident(), len(os.listdir("/proc/self/task"))
    for _ in range(30):
        once()
    assert resident() - before < 20e6
    assert len(os.listdir("/proc/self/task")) == threads


def in_python(code, **options):
    return subprocess.Popen([sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT / 'tools')!r})\n{code}"],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT, **options)


def test_ctrl_c_interrupts():
    process = in_python(f"""
import numpy as np, maniple
envs = maniple.make_vec("{HOPPER}", 64)
envs.reset()
action = np.zeros((64, 3), np.float32)
print("stepping", flush=True)
while True:
    envs.step(action)
""")
    assert process.stdout.readline() == "stepping\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert "KeyboardInterrupt" in errors and process.returncode == -signal.SIGINT


def test_one_process_needs_no_mpi_and_ends_quietly():
    process = in_python(f"""
import ctypes, maniple
envs = maniple.make_vec("{HOPPER}", 64)
envs.reset()
started = ctypes.c_int(7)
assert ctypes.CDLL("libmpi.so.40").MPI_Initialized(ctypes.byref(started)) == 0
print(started.value, maniple.__version__)
""")
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0 and errors == ""
    assert output.split()[0] == "0"


def test_threads_do_not_survive_fork():
    """An environment of several threads says so in a process that fork() made; one of a single thread works there."""
    script = """
import os, sys
import numpy as np
import maniple

for threads, expected in ((2, 3), (1, 0)):
    envs = maniple.make_vec("isaac_cartpole", 64, threads=threads)
    envs.reset(seed=1)
    envs.step(np.zeros((64, 1), np.float32))
    child = os.fork()
    if child == 0:
        try:
            envs.step(np.zeros((64, 1), np.float32))
        except RuntimeError as error:
            os._exit(3 if "fork() made" in str(error) else 1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == expected
    envs.step(np.zeros((64, 1), np.float32))
"""
    subprocess.run([sys.executable, "-c", script], env={**ENVIRONMENT, "PYTHONPATH": str(ROOT / "tools")}, check=True, timeout=120)
