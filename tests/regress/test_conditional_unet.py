"""The denoising network and each of its layers, forward and backward, against torch on the same weights and inputs."""

import json
import subprocess
import sys
from functools import cache

import numpy as np
import pytest
from conftest import BUILD, ENVIRONMENT, ROOT

TOOL = BUILD / "maniple_unet_tool"


@cache
def python_with_torch():
    """torch is Debian's python3-torch, for the system's own Python, where this one has none."""
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import torch"], env=ENVIRONMENT, capture_output=True).returncode == 0:
            return python
    raise RuntimeError("neither this Python nor /usr/bin/python3 has torch: tools/setup.sh --tests installs it")


LAYERS = [
    # convolutions over frames that are fewer than taps, too, at both ends; channels that fill no block
    *[dict(kind="conv", samples=s, transposed=0, inputs=i, outputs=o, taps=k, stride=1, padding=k // 2, frames=f, result=f)
      for s, i, o, k, f in [(32, 16, 24, 3, 8), (33, 2, 8, 5, 16), (40, 7, 130, 5, 2), (5, 140, 3, 1, 4), (64, 96, 40, 7, 1)]],
    # down- and upsampling
    dict(kind="conv", samples=40, transposed=0, inputs=24, outputs=24, taps=3, stride=2, padding=1, frames=8, result=4),
    dict(kind="conv", samples=40, transposed=0, inputs=9, outputs=17, taps=3, stride=2, padding=1, frames=2, result=1),
    dict(kind="conv", samples=40, transposed=1, inputs=24, outputs=24, taps=4, stride=2, padding=1, frames=4, result=8),
    dict(kind="conv", samples=33, transposed=1, inputs=10, outputs=35, taps=4, stride=2, padding=1, frames=1, result=2),
    # a dense layer
    dict(kind="conv", samples=40, transposed=0, inputs=45, outputs=150, taps=1, stride=1, padding=0, frames=1, result=1),
    *[dict(kind="norm", samples=37, channels=c, groups=g, frames=f, film=film, residual=residual)
      for c, g, f, film, residual in [(24, 8, 4, 0, 0), (16, 2, 8, 1, 0), (24, 8, 4, 2, 0), (8, 1, 1, 0, 1), (40, 8, 16, 2, 1)]],
    dict(kind="embedding", samples=50, units=32),
]
NETS = [
    dict(kind="unet", samples=40, actions=3, horizon=8, condition=5, step_embedding=16, widths=[16, 24, 40],
         kernel_size=3, groups=8, predict_scale=True),
    dict(kind="unet", samples=32, actions=2, horizon=16, condition=40, step_embedding=32, widths=[32, 64, 64],
         kernel_size=5, groups=8, predict_scale=True),
    dict(kind="unet", samples=70, actions=7, horizon=4, condition=0, step_embedding=8, widths=[16, 12], kernel_size=5,
         groups=2, predict_scale=False),
    dict(kind="unet", samples=33, actions=1, horizon=5, condition=3, step_embedding=4, widths=[24], kernel_size=1,
         groups=4, predict_scale=True),
]
CASES = [{**case, "seed": seed} for seed, case in enumerate(LAYERS + NETS)]


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("torch")
    (folder / "request.json").write_text(json.dumps(CASES))
    command = [python_with_torch(), ROOT / "tests/regress/unet_in_torch.py", folder / "request.json", folder / "answer.npz"]
    result = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    with np.load(folder / "answer.npz") as file:
        return dict(file)


def sizes_of(case):
    keys = {"conv": ["samples", "transposed", "inputs", "outputs", "taps", "stride", "padding", "frames", "result"],
            "norm": ["samples", "channels", "groups", "frames", "film", "residual"],
            "embedding": ["samples", "units"],
            "unet": ["samples", "actions", "horizon", "condition", "step_embedding", "kernel_size", "groups",
                     "predict_scale"]}[case["kind"]]
    return [str(int(case[key])) for key in keys] + [str(width) for width in case.get("widths", [])]


def run_tool(mode, precision, case, data=b"", tool=TOOL):
    result = subprocess.run([tool, mode, precision, *sizes_of(case)], input=data, env=ENVIRONMENT, capture_output=True)
    assert result.returncode == 0, result.stderr.decode()
    return result.stdout


# (a GPU takes samples one by one, and so does the second program)
@pytest.mark.parametrize("tool, precision", [(TOOL, "float"), (TOOL, "double"), (BUILD / "maniple_unet_tool_scalar", "float")],
                         ids=["single", "double", "scalar"])
@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda number: f"{CASES[number]['kind']}{number}")
def test_follows_torch(answers, number, tool, precision):
    case = CASES[number]
    kind = np.float32 if precision == "float" else np.float64
    inputs = [answers[key] for key in answers if key.startswith(f"{number}.in.")]
    data = b"".join(values.astype(kind).tobytes() for values in inputs)
    found = np.frombuffer(run_tool(case["kind"], precision, case, data, tool), dtype=kind).astype(np.float64)
    expected = {key.removeprefix(f"{number}.out."): answers[key] for key in answers if key.startswith(f"{number}.out.")}
    assert found.size == sum(values.size for values in expected.values())
    tolerance = 1e-5 if precision == "float" else 1e-9
    first = 0
    for name, values in expected.items():
        part = found[first:first + values.size]
        first += values.size
        # relative to the largest number of the array: others are sums of terms that nearly cancel
        error = np.abs(part - values).max(initial=0) / max(np.abs(values).max(initial=0), 1e-30)
        assert error < tolerance, f"{name}: {error}"


@pytest.mark.parametrize("number", [i for i, case in enumerate(CASES) if case["kind"] == "unet"])
def test_parameters_are_those_of_the_state_dict(answers, number):
    assert run_tool("tensors", "float", CASES[number]).decode().splitlines() == answers[f"{number}.names"].tolist()


def test_published_network_has_its_number_of_parameters():
    """That of Push-T with low-dimensional observations: 40 numbers of condition, widths 256, 512, 1024."""
    case = dict(kind="unet", samples=1, actions=2, horizon=16, condition=40, step_embedding=256, widths=[256, 512, 1024],
                kernel_size=5, groups=8, predict_scale=True)
    shapes = [list(map(int, line.split()[1:])) for line in run_tool("tensors", "float", case).decode().splitlines()]
    assert sum(int(np.prod(shape)) for shape in shapes) == 65783298
