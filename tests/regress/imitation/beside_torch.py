"""Comparisons of networks and their layers with torch on the same numbers: helpers that several tests share."""

import json
import subprocess
import sys
from functools import cache

import numpy as np
from conftest import ENVIRONMENT, ROOT


@cache
def python_with_torch():
    """torch is Debian's python3-torch, for the system's own Python, where this one has none."""
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import torch"], env=ENVIRONMENT, capture_output=True).returncode == 0:
            return python
    raise RuntimeError("neither this Python nor /usr/bin/python3 has torch: tools/setup.sh --tests installs it")


def answers_of(script, cases, folder):
    """What a script of this directory makes of cases (see unet_in_torch.py), by the names of the arrays."""
    (folder / "request.json").write_text(json.dumps(cases))
    command = [python_with_torch(), ROOT / "tests/regress/imitation" / script, folder / "request.json", folder / "answer.npz"]
    result = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    with np.load(folder / "answer.npz") as file:
        return dict(file)


def run_tool(tool, mode, precision, sizes, data=b""):
    result = subprocess.run([tool, mode, precision, *sizes], input=data, env=ENVIRONMENT, capture_output=True)
    assert result.returncode == 0, result.stderr.decode()
    return result.stdout


def values_of(answers, number, role):
    """Arrays of a case by name; role: "in" or "out"."""
    prefix = f"{number}.{role}."
    return {key.removeprefix(prefix): values for key, values in answers.items() if key.startswith(prefix)}


def results_of(tool, precision, cases, answers):
    """What the program makes of the inputs of cases, {number: (mode, sizes)}, in one start: {number: values}."""
    kind = np.float64 if precision == "double" else np.float32
    arguments, data = [], []
    for number, (mode, sizes) in cases.items():
        arguments += [",", mode, precision, *sizes]
        data += [values.astype(kind).tobytes() for values in values_of(answers, number, "in").values()]
    _, *first = arguments
    output = np.frombuffer(run_tool(tool, *first[:2], first[2:], b"".join(data)), dtype=kind).astype(np.float64)
    ends = np.cumsum([sum(values.size for values in values_of(answers, number, "out").values()) for number in cases])
    assert output.size == ends[-1]
    return dict(zip(cases, np.split(output, ends[:-1])))


def check_against_torch(answers, number, found, precision, like=None):
    """found: what the program made of the inputs of a case. like: arrays that are zero but for rounding, each with one whose
    size says what it is to be compared with."""
    expected = values_of(answers, number, "out")
    assert found.size == sum(values.size for values in expected.values())
    tolerance = 1e-9 if precision == "double" else 1e-5
    first = 0
    for name, values in expected.items():
        part = found[first:first + values.size]
        first += values.size
        # relative to the largest number of the array: others are sums of terms that nearly cancel
        size = np.abs(expected[(like or {}).get(name, name)]).max(initial=0)
        error = np.abs(part - values).max(initial=0) / max(size, 1e-30)
        assert error < tolerance, f"{name}: {error}"
