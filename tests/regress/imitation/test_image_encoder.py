"""The image encoder and each of its layers, forward and backward, against torch on the same weights and inputs;
and as ONNX."""
# ctest: PROCESSORS 1

import sys

import numpy as np
import onnxruntime
import pytest
from beside_torch import answers_of, check_against_torch, results_of, run_tool
from conftest import BUILD, ROOT
from onnx import TensorProto, helper

sys.path.insert(0, str(ROOT / "tools"))
from maniple.export import OPSET, Graph  # noqa: E402
from maniple.onnx_encoder import encode_images  # noqa: E402

TOOL = BUILD / "maniple_encoder_tool"

LAYERS = [
    # windows of all sizes, that go over the edge and that do not; images smaller than they; channels that fill no block
    *[dict(kind="conv", samples=s, inputs=i, outputs=o, taps=k, stride=stride, padding=p, height=h, width=w)
      for s, i, o, k, stride, p, h, w in [
          (33, 3, 8, 7, 2, 3, 11, 14), (32, 16, 24, 3, 1, 1, 5, 7), (40, 7, 130, 3, 2, 1, 6, 9), (5, 140, 3, 1, 1, 0, 3, 4),
          (35, 10, 20, 1, 2, 0, 7, 5), (32, 9, 17, 3, 2, 1, 1, 1), (34, 20, 12, 3, 1, 1, 1, 6), (2, 4, 8, 5, 1, 0, 5, 9),
          (33, 2, 8, 3, 1, 1, 13, 17)]],
    *[dict(kind="norm", samples=37, channels=c, groups=g, frames=f, residual=residual)
      for c, g, f, residual in [(16, 1, 1, 0), (32, 2, 16, 1), (48, 3, 17, 0), (8, 1, 150, 1)]],
    *[dict(kind="pool", samples=s, channels=c, height=h, width=w)
      for s, c, h, w in [(33, 8, 9, 6), (5, 3, 1, 1), (32, 17, 2, 7), (40, 4, 8, 8)]],
    *[dict(kind="softmax", samples=s, maps=m, height=h, width=w)
      for s, m, h, w in [(33, 8, 3, 4), (5, 3, 1, 1), (32, 7, 1, 6), (40, 32, 5, 1)]],
]
ENCODERS = [
    dict(kind="encoder", samples=33, height=37, width=53, channels=3, base_width=8, keypoints=32, features=64),
    dict(kind="encoder", samples=4, height=76, width=76, channels=3, base_width=16, keypoints=16, features=24),
    dict(kind="encoder", samples=40, height=1, width=70, channels=1, base_width=16, keypoints=5, features=3),
    dict(kind="encoder", samples=70, height=44, width=20, channels=4, base_width=16, keypoints=8, features=10),
]
CASES = [{**case, "seed": seed} for seed, case in enumerate(LAYERS + ENCODERS)]


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    return answers_of("encoder_in_torch.py", CASES, tmp_path_factory.mktemp("torch"))


def sizes_of(case):
    keys = {"conv": ["samples", "inputs", "outputs", "taps", "stride", "padding", "height", "width"],
            "norm": ["samples", "channels", "groups", "frames", "residual"],
            "pool": ["samples", "channels", "height", "width"],
            "softmax": ["samples", "maps", "height", "width"],
            "encoder": ["samples", "height", "width", "channels", "base_width", "keypoints", "features"]}[case["kind"]]
    return [str(case[key]) for key in keys]


# (a GPU takes samples one by one, and so does the second program)
@pytest.fixture(scope="module", params=[(TOOL, "float"), (TOOL, "double"), (BUILD / "maniple_encoder_tool_scalar", "float")],
                ids=["single", "double", "scalar"])
def found(request, answers):
    tool, precision = request.param
    cases = {number: (case["kind"], sizes_of(case)) for number, case in enumerate(CASES)}
    return results_of(tool, precision, cases, answers), precision


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda number: f"{CASES[number]['kind']}{number}")
def test_follows_torch(answers, found, number):
    results, precision = found
    # (a softmax does not care about what all pixels of a map share)
    check_against_torch(answers, number, results[number], precision,
                        like={"gradient of pool.nets.bias": "gradient of pool.nets.weight"})


@pytest.mark.parametrize("number", [i for i, case in enumerate(CASES) if case["kind"] == "encoder"])
def test_parameters_are_those_of_the_state_dict(answers, number):
    found = run_tool(TOOL, "tensors", "float", sizes_of(CASES[number])).decode().splitlines()
    assert found == answers[f"{number}.names"].tolist()


def test_published_network_has_its_number_of_parameters():
    """torchvision's ResNet-18 has 11689512, of which 513000 belong to its last layer."""
    case = dict(kind="encoder", samples=1, height=76, width=76, channels=3, base_width=64, keypoints=32, features=64)
    tensors = run_tool(TOOL, "tensors", "float", sizes_of(case)).decode().splitlines()
    counted = sum(int(np.prod([int(axis) for axis in line.split()[1:]])) for line in tensors)
    assert counted == 11689512 - 513000 + (512 * 32 + 32) + (64 * 64 + 64)


def test_points_are_expected_coordinates():
    """One bright pixel is where the point is; two of them share it; none: the middle."""
    maps = np.zeros((3, 1, 5, 9))
    maps[0, 0, 1, 6] = 100
    maps[1, 0, 4, 0] = maps[1, 0, 0, 4] = 100
    data = maps.tobytes() + np.zeros((3, 2)).tobytes()
    found = np.frombuffer(run_tool(TOOL, "softmax", "double", ["3", "1", "5", "9"], data=data))[:6].reshape(3, 2)
    np.testing.assert_allclose(found, [[0.5, -0.5], [-0.5, 0], [0, 0]], atol=1e-12)


@pytest.mark.parametrize("number", [i for i, case in enumerate(CASES) if case["kind"] == "encoder"])
def test_features_are_those_of_the_onnx(answers, number):
    case, place, tensors = CASES[number], 0, {}
    for line in answers[f"{number}.names"].tolist():
        name, shape = line.split()[0], [int(axis) for axis in line.split()[1:]]
        tensors[name] = answers[f"{number}.in.parameters"][place:place + np.prod(shape)].reshape(shape)
        place += np.prod(shape)
    graph, size = Graph(), [case["height"], case["width"], case["channels"]]
    features = encode_images(graph, tensors.__getitem__, "pixels", *size[:2])
    model = helper.make_model(
        helper.make_graph(graph.nodes, "encoder", [helper.make_tensor_value_info("pixels", TensorProto.UINT8, ["batch", *size])],
                          [helper.make_tensor_value_info(features, TensorProto.FLOAT, ["batch", case["features"]])],
                          graph.constants), opset_imports=[helper.make_opsetid("", OPSET)])
    model.ir_version = 8
    pixels = answers[f"{number}.in.pixels"].reshape(-1, size[2], *size[:2]).transpose(0, 2, 3, 1).astype(np.uint8)
    found = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"pixels": pixels})[0].reshape(-1)
    inputs = [answers[f"{number}.in.{name}"].astype(np.float32) for name in ("parameters", "pixels", "delta")]
    own = np.frombuffer(run_tool(TOOL, "encoder", "float", sizes_of(case), b"".join(map(np.ndarray.tobytes, inputs))), np.float32)
    assert np.abs(found - own[:found.size]).max() < 1e-5 * np.abs(found).max()
