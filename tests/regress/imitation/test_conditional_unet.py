"""The denoising network, networks of policies with their losses, and each of their layers, forward and backward, against
torch on the same weights and inputs."""
# ctest: PROCESSORS 1


import numpy as np
import pytest
from beside_torch import answers_of, check_against_torch, results_of, run_tool
from conftest import BUILD

TOOL = BUILD / "maniple_unet_tool"

LAYERS = [
    # convolutions over frames that are fewer than taps, too, at both ends; channels that fill no block
    *[dict(kind="conv", samples=s, transposed=0, inputs=i, outputs=o, taps=k, stride=1, padding=k // 2, frames=f, result=f)
      for s, i, o, k, f in [(32, 16, 24, 3, 8), (33, 2, 8, 5, 16), (40, 7, 130, 5, 2), (5, 140, 3, 1, 4), (64, 96, 40, 7, 1)]],
    # down- and upsampling
    dict(kind="conv", samples=40, transposed=0, inputs=24, outputs=24, taps=3, stride=2, padding=1, frames=8, result=4),
    dict(kind="conv", samples=40, transposed=0, inputs=9, outputs=17, taps=3, stride=2, padding=1, frames=2, result=1),
    dict(kind="conv", samples=40, transposed=1, inputs=24, outputs=24, taps=4, stride=2, padding=1, frames=4, result=8),
    dict(kind="conv", samples=33, transposed=1, inputs=10, outputs=35, taps=4, stride=2, padding=1, frames=1, result=2),
    # dense layers, of widths that fill no block
    *[dict(kind="dense", samples=s, inputs=i, outputs=o) for s, i, o in [(33, 45, 150), (64, 300, 40), (5, 1, 3)]],
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
# in the order of the program's choices
ACTIVATIONS = ["elu", "relu", "tanh", "leaky_relu", "silu", "gelu", "identity"]
RECURRENCES = ["none", "gru", "lstm"]
LOSSES = ["l2", "l1", "smooth_l1", "gaussian", "gmm"]


def policy(**given):
    return dict(kind="policy", samples=45, observations=5, actions=3, steps=1, activation="relu", layer_norm=False,
                recurrent="none", cells=1, units=12, loss="l2", modes=0, squash=False, own_deviations=False, softplus=False,
                widths=[24, 17]) | given


POLICIES = [
    # dense layers with each activation, with and without layer norms
    *[policy(activation=activation, layer_norm=norm, samples=samples)
      for activation in ACTIVATIONS for norm, samples in ((False, 32), (True, 45))],
    # each loss, and what the standard deviation of a Gaussian comes from
    *[policy(loss=loss, squash=squash, activation="elu") for loss in LOSSES[:4] for squash in (False, True)],
    policy(loss="gaussian", own_deviations=True, softplus=True, activation="tanh"),
    policy(loss="gaussian", own_deviations=True, activation="silu"),
    # mixtures
    *[policy(loss="gmm", modes=modes, squash=squash, softplus=softplus, samples=70)
      for modes, squash, softplus in ((1, False, False), (5, True, True), (4, False, True))],
    # recurrent cells, through time
    *[policy(recurrent=recurrent, cells=cells, units=units, steps=steps, widths=widths, **more)
      for recurrent in RECURRENCES[1:]
      for cells, units, steps, widths, more in (
          (1, 12, 1, [], {}), (2, 20, 6, [16], {"activation": "gelu"}),
          (2, 40, 10, [], {"loss": "gmm", "modes": 5, "squash": True, "softplus": True}),
          (1, 9, 4, [], {"loss": "gaussian", "samples": 3}))],
]
CASES = [{**case, "seed": seed} for seed, case in enumerate(LAYERS + NETS + POLICIES)]


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    return answers_of("unet_in_torch.py", CASES, tmp_path_factory.mktemp("torch"))


def sizes_of(case):
    keys = {"conv": ["samples", "transposed", "inputs", "outputs", "taps", "stride", "padding", "frames", "result"],
            "dense": ["samples", "inputs", "outputs"],
            "norm": ["samples", "channels", "groups", "frames", "film", "residual"],
            "embedding": ["samples", "units"],
            "unet": ["samples", "actions", "horizon", "condition", "step_embedding", "kernel_size", "groups",
                     "predict_scale"],
            "policy": ["samples", "observations", "actions", "steps", "activation", "layer_norm", "recurrent", "cells", "units",
                       "loss", "modes", "squash", "own_deviations", "softplus"]}[case["kind"]]
    if case["kind"] == "policy":
        case = case | {name: choices.index(case[name]) for name, choices in
                       (("activation", ACTIVATIONS), ("recurrent", RECURRENCES), ("loss", LOSSES))}
    return [str(int(case[key])) for key in keys] + [str(width) for width in case.get("widths", [])]


# (a GPU takes samples one by one, and so does the second program)
@pytest.fixture(scope="module", params=[(TOOL, "float"), (TOOL, "double"), (BUILD / "maniple_unet_tool_scalar", "float")],
                ids=["single", "double", "scalar"])
def found(request, answers):
    tool, precision = request.param
    cases = {number: (case["kind"], sizes_of(case)) for number, case in enumerate(CASES)}
    return results_of(tool, precision, cases, answers), precision


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda number: f"{CASES[number]['kind']}{number}")
def test_follows_torch(answers, found, number):
    results, precision = found
    check_against_torch(answers, number, results[number], precision)


@pytest.mark.parametrize("number", [i for i, case in enumerate(CASES) if case["kind"] == "unet"])
def test_parameters_are_those_of_the_state_dict(answers, number):
    found = run_tool(TOOL, "tensors", "float", sizes_of(CASES[number])).decode().splitlines()
    assert found == answers[f"{number}.names"].tolist()


def test_published_network_has_its_number_of_parameters():
    """That of Push-T with low-dimensional observations: 40 numbers of condition, widths 256, 512, 1024."""
    case = dict(kind="unet", samples=1, actions=2, horizon=16, condition=40, step_embedding=256, widths=[256, 512, 1024],
                kernel_size=5, groups=8, predict_scale=True)
    tensors = run_tool(TOOL, "tensors", "float", sizes_of(case)).decode().splitlines()
    assert sum(int(np.prod([int(axis) for axis in line.split()[1:]])) for line in tensors) == 65783298
