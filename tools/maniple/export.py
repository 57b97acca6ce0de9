"""Writes the policy of a training as ONNX: observation in, action out, with normalization and clipping as in the run.

    python -m maniple.export runs/pendulum                    # the newest checkpoint, as runs/pendulum/policy.onnx

Input `observation` [batch, observations] is the task's observation as recorded, output `action` [batch, actions] the
deterministic action: the mean, through tanh where the run squashes actions. A recurrent policy has another input `state`
[batch, units], zeros when an episode begins (one that imitates: also after each policy.recurrent_horizon steps), and
another output `next_state`, the input of the next step: of each layer the hidden state, of an LSTM with the cell's behind
it. A mixture (learning.loss: gmm) gives the mean of its likeliest mode, and for draws `mode_actions` [batch, modes,
actions] and `mode_probabilities` [batch, modes]. Clipping and normalization of observations, the network and the clipping
of actions are inside, in single precision as in the program; what the task makes of an action (scale, clip) belongs to the
environment. The model's metadata have it, as `task`: JSON with each component of observations and actions, in order, with
name, expression, scale, offset, clip, delay and age, the servos, the default pose and the duration of steps; as `task_table`
what `maniple inspect` prints, for people; as `deck`, every key of the run, with file names but no folders.

A policy with image inputs has an input for each camera, by the name of its key, with raw images: uint8 [batch, height,
width, channels], with data.frame_stack [batch, frames, height, width, channels], the oldest first. Center crop and
encoder are inside. `observation` then has only the vectors; without vectors the model has no such input.

For a diffusion policy the model is the denoising network: inputs `noisy` [batch, prediction horizon, actions], `step` [batch] (int64)
and `observation` [batch, observation horizon, observations], the task's, and images [batch, observation horizon, height, width,
channels]; output `prediction`. The model's metadata have the settings of a scheduler: alphas_cumprod, prediction_type,
clip_sample. Of a denoised sequence x, the k-th of action_horizon control steps takes the action
action_mean + action_scale * x[observation_horizon - 1 + k].
"""

import argparse
import contextlib
import itertools
import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from maniple.checkpoints import BadInput, check_run, check_trained, mixes, newest_checkpoint, opened
from maniple.onnx_encoder import encode_images
from maniple.results import Run, refuse, results_path, text_of, what_is_missing

Array = NDArray[Any]

VARIANCE_FLOOR = 1e-5  # of the program's normalizer, in src/learning/policy.cpp
ACTIVATIONS = {"elu": "Elu", "relu": "Relu", "tanh": "Tanh", "leaky_relu": "LeakyRelu", "identity": "Identity"}
LAYER_NORM_EPSILON = 1e-5  # in kernels/nn/layers.hpp
OPSET = 17


class Graph:
    """The nodes of an ONNX graph, in order, from the observation on."""

    def __init__(self) -> None:
        self.nodes, self.constants, self.value = [], [], "observation"

    def constant(self, values: Any, kind: type = np.float32) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(values, kind), f"constant{len(self.constants)}"))
        return self.constants[-1].name

    def node(self, operator: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """Adds a node and returns the name of its output; inputs are names."""
        output = output or f"{operator.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [output], **attributes))
        return output

    def add(self, operator: str, *constants: Any, output: str | None = None, **attributes: Any) -> None:
        self.value = self.node(operator, self.value, *map(self.constant, constants), output=output, **attributes)

    def activate(self, name: str) -> None:
        before = self.value
        if name == "silu":
            self.value = self.node("Mul", before, self.node("Sigmoid", before))
        elif name == "gelu":
            self.add("Mul", np.sqrt(0.5))
            self.add("Erf")
            self.add("Add", 1)
            self.add("Mul", 0.5)
            self.value = self.node("Mul", before, self.value)
        else:
            self.add(ACTIVATIONS[name])

    def split(self, value: str, names: list[str]) -> list[str]:
        self.nodes.append(helper.make_node("Split", [value], names, axis=1))
        return names

    def gates(self, cell: h5py.Group, hidden: str, count: int) -> Iterator[tuple[str, ...]]:
        """The contributions of input and hidden state to a cell's gates."""
        found = []
        for of, value in (("input", self.value), ("state", hidden)):
            matrix, bias = weights(cell, of)
            gemm = self.node("Gemm", value, self.constant(matrix), self.constant(bias), transB=1)
            found.append(self.split(gemm, [f"{gemm}_{gate}" for gate in range(count)]))
        return zip(*found)

    def gru(self, cell: h5py.Group, hidden: str) -> list[str]:
        """A recurrent cell in torch's form; its state after the step."""
        reset, update, new = self.gates(cell, hidden, 3)
        reset, update = (self.node("Sigmoid", self.node("Add", *pair)) for pair in (reset, update))
        new = self.node("Tanh", self.node("Add", new[0], self.node("Mul", reset, new[1])))
        self.value = self.node("Add", new, self.node("Mul", update, self.node("Sub", hidden, new)))
        return [self.value]

    def lstm(self, cell: h5py.Group, hidden: str, kept: str) -> list[str]:
        """A long short-term memory in torch's form; its state after the step."""
        entered, forgotten, new, shown = (self.node("Add", *pair) for pair in self.gates(cell, hidden, 4))
        entered, forgotten, shown = (self.node("Sigmoid", value) for value in (entered, forgotten, shown))
        kept = self.node("Add", self.node("Mul", forgotten, kept),
                         self.node("Mul", entered, self.node("Tanh", new)))
        self.value = self.node("Mul", shown, self.node("Tanh", kept))
        return [self.value, kept]

    def recurrent(self, kind: str, cells: list[h5py.Group]) -> int:
        """Layers of cells, from `state` to `next_state`; the size of the state."""
        parts = {"gru": 1, "lstm": 2}[kind]
        names = [f"state_{place}" for place in range(parts * len(cells))]
        states = self.split("state", names) if len(names) > 1 else ["state"]
        after = []
        for place, cell in enumerate(cells):
            after += getattr(self, kind)(cell, *states[place * parts:][:parts])
        value = self.value
        self.node("Concat", *after, output="next_state", axis=1)
        self.value = value
        return weights(cells[0], "state")[0].shape[1] * len(names)

    def units(self, policy: h5py.Group, run: Run) -> None:
        """Converts the network's outputs to the units of actions, over the last axis."""
        if run.setting("policy.squash_actions", False):
            self.add("Tanh")
        if "action_scale" in policy:
            self.add("Mul", policy["action_scale"][()])
            self.add("Add", policy["action_mean"][()])
        self.clip(run.setting("policy.clip_actions", None))

    def mixture(self, policy: h5py.Group, run: Run, matrix: Array, bias: Array, modes: int, actions: int) -> None:
        """Modes with their probabilities, and the likeliest."""
        given, means = self.value, modes * actions
        logits = self.node("Gemm", given, self.constant(matrix[2 * means:]), self.constant(bias[2 * means:]), transB=1)
        self.node("Softmax", logits, output="mode_probabilities", axis=1)
        self.value = given
        self.add("Gemm", matrix[:means], bias[:means], transB=1)
        shape = self.constant([0, modes, actions], np.int64)
        self.value = self.node("Reshape", self.value, shape)
        self.units(policy, run)
        self.add("Identity", output="mode_actions")
        likeliest = self.node("ArgMax", logits, axis=1, keepdims=1)
        chosen = self.node("OneHot", likeliest, self.constant(modes, np.int64), self.constant([0, 1]))  # [batch, 1, modes]
        self.value = self.node("Squeeze", self.node("MatMul", chosen, "mode_actions"), self.constant([1], np.int64))

    def clip(self, bound: float) -> None:
        if bound > 0:
            self.add("Clip", -bound, bound)


def weights(group: h5py.Group, layer: str) -> tuple[Array, Array]:
    """The matrix [outputs, inputs] of a layer, whose rows are padded in the file, and its biases."""
    stored = group[f"{layer}/weight"]
    inputs = int(re.search(r"the first (\d+) of each used", stored.attrs["description"])[1])
    bias = group[f"{layer}/bias"][()]
    return stored[()].reshape(len(bias), -1)[:, :inputs], bias


class Camera:
    """The encoder of a camera, and its input in the ONNX model."""

    def __init__(self, run: Run, text: str, frames: list[int]) -> None:
        self.name, size = text.rsplit(" ", 1)
        self.size = [int(side) for side in size.split("x")]  # height, width, channels
        crop = run.setting("image.crop", None) or self.size[:2]
        self.first = [(whole - part) // 2 for whole, part in zip(self.size, crop)]
        self.crop = crop
        self.info = helper.make_tensor_value_info(self.name, TensorProto.UINT8, ["batch", *frames, *self.size])

    def features(self, graph: Graph, policy: h5py.Group) -> str:
        """Features of all frames, [image, features]."""
        pixels = graph.node("Reshape", self.name, graph.constant([-1, *self.size], np.int64))
        ends = (self.first, np.add(self.first, self.crop), [1, 2])
        pixels = graph.node("Slice", pixels, *(graph.constant(numbers, np.int64) for numbers in ends))
        group = policy[f"cameras/{self.name}"]
        return encode_images(graph, lambda name: tensor_of(group, name), pixels, *self.crop)


def tensor_of(group: h5py.Group, name: str) -> Array:
    """A parameter in torch's shape, which its description states."""
    shape = re.match(r"\[([\d, ]+)\]", group[name].attrs["description"])[1]
    return group[name][()].reshape([int(size) for size in shape.split(",")])


def cameras_of(run: Run, checkpoint: h5py.File, frames: list[int]) -> list[Camera]:
    """The cameras of a policy; `frames`: axes of their inputs before those of an image."""
    text = re.search("^data.cameras=(.*)$", text_of(checkpoint.attrs["policy"]), re.MULTILINE)
    return [Camera(run, camera, frames) for camera in text[1].split(", ")] if text else []


def without_folders(deck: str) -> str:
    """A resolved deck with the names of files and directories only: their places on this machine are of no use elsewhere."""
    def name(path: re.Match[str]) -> str:
        return path[0] if path[1].startswith("package:") else f'"{Path(path[1]).name}"'

    keys = r"^  (file|overlay|checkpoint|directory|warm_start|status_file): "
    return "\n".join(re.sub(r'"([^"]*)"', name, line) if re.match(keys, line) else line for line in deck.split("\n"))


def finished(run: Run, checkpoint: h5py.File, description: onnx.GraphProto, **properties: str) -> onnx.ModelProto:
    """The model of a graph, with its origin in the metadata."""
    model = helper.make_model(description, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="maniple",
                              producer_version=str(run.record["version"]))
    model.ir_version = 8  # of the runtimes that know the opset
    helper.set_model_props(model, {"checkpoint": Path(checkpoint.filename).name, "deck": without_folders(run.record["resolved"]),
                                  "task": run.record.get("task", ""), "task_table": run.record.get("task_table", ""),
                                  **curricula_of(checkpoint), **properties})
    onnx.checker.check_model(model, full_check=True)
    return model


def curricula_of(checkpoint: h5py.File) -> dict[str, str]:
    """The values of a task's curricula, which ranges of its contract may name."""
    values = {name: float(value[()].item()) for name, value in checkpoint.get("curricula", {}).items()}
    return {"curricula": json.dumps(values)} if values else {}


def model_of(run: Run, checkpoint: h5py.File) -> onnx.ModelProto:
    """The ONNX model of the policy in an open checkpoint, with the settings of the run that wrote it."""
    policy, graph = checkpoint["policy"], Graph()
    hidden = len(run.setting("policy.hidden"))
    recurrent = next((kind for kind in ("gru", "lstm") if f"{kind}0" in policy), None)
    imitates = "observation_scale" in policy  # it has no critic, and the units of its data
    modes = run.setting("policy.modes") if imitates and mixes(run) else 0
    observations = weights(policy, f"{recurrent}0/input" if recurrent else "layer0")[0].shape[1]
    outputs = len(policy[f"layer{hidden}/bias"]) - (bool(run.setting("policy.shared", None)) and not imitates)  # without the value
    stack = run.setting("data.frame_stack", 1) if imitates else 1
    cameras = cameras_of(run, checkpoint, [stack] if stack > 1 else [])
    if cameras:
        observations = len(policy["observation_mean"]) if "observation_mean" in policy else 0
    actions = len(policy["action_mean"]) if modes else len(policy["log_std"]) if "log_std" in policy else outputs // 2
    if observations:
        graph.clip(run.setting("policy.clip_observations", None))
    if not observations:
        graph.value = None
    elif imitates:
        graph.add("Sub", policy["observation_mean"][()])
        graph.add("Mul", policy["observation_scale"][()])
    elif run.setting("policy.normalize_observations", None):
        # (those of a critic with observations of its own come behind)
        scale = 1 / np.sqrt(policy["observation_variance"][:observations] + VARIANCE_FLOOR)
        graph.add("Sub", policy["observation_mean"][:observations])
        graph.add("Mul", scale)
        graph.clip(run.setting("policy.clip_normalized", 5))
    parts = [graph.value] if observations else []
    for camera in cameras:
        features = camera.features(graph, policy)
        size = len(policy[f"cameras/{camera.name}/nets.3.bias"])
        parts.append(graph.node("Reshape", features, graph.constant([-1, stack * size], np.int64)))
    graph.value = graph.node("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]
    units = 0
    if recurrent:  # (those of a critic come behind)
        layers = run.setting("policy.recurrent_layers", 1)
        units = graph.recurrent(recurrent, [policy[f"{recurrent}{cell}"] for cell in range(layers)])
    for layer in range(hidden):
        matrix, bias = weights(policy, f"layer{layer}")
        graph.add("Gemm", matrix, bias, transB=1)
        graph.activate(run.setting("policy.activation"))
        if run.setting("policy.layer_norm", False):
            norm = policy[f"norm{layer}"]
            graph.add("LayerNormalization", norm["weight"][()], norm["bias"][()], epsilon=LAYER_NORM_EPSILON)
    matrix, bias = weights(policy, f"layer{hidden}")
    if modes:
        graph.mixture(policy, run, matrix, bias, modes, actions)
    else:
        graph.add("Gemm", matrix[:actions], bias[:actions], transB=1)
        graph.units(policy, run)
    graph.add("Identity", output="action")

    def values(**sizes):
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", *size]) for name, size in sizes.items()]

    inputs, results = {"observation": [observations]} if observations else {}, {"action": [actions]}
    if recurrent:
        inputs["state"] = results["next_state"] = [units]
    if modes:
        results.update(mode_actions=[modes, actions], mode_probabilities=[modes])
    seen = values(**inputs) + [camera.info for camera in cameras]
    description = helper.make_graph(graph.nodes, "policy", seen, values(**results), graph.constants)
    horizon = run.setting("policy.recurrent_horizon", 0) if recurrent and imitates else 0
    return finished(run, checkpoint, description, **({"recurrent_horizon": str(horizon)} if horizon else {}))


def diffusion_model_of(run: Run, checkpoint: h5py.File) -> onnx.ModelProto:
    """The ONNX model of the denoising network, ConditionalUnet1D of diffusion_policy."""
    policy, graph = checkpoint["policy"], Graph()
    horizon, seen = run.setting("diffusion.prediction_horizon"), run.setting("diffusion.observation_horizon")
    widths, groups = run.setting("diffusion.down_dims"), run.setting("diffusion.groups")
    actions, observations = len(policy["action_mean"]), len(policy.get("observation_mean", []))
    cameras = cameras_of(run, checkpoint, [seen])

    def whole(*numbers):  # a constant of int64
        graph.constants.append(numpy_helper.from_array(np.array(numbers, np.int64), f"constant{len(graph.constants)}"))
        return graph.constants[-1].name

    def named(operator, value, name, **attributes):
        parts = [graph.constant(tensor_of(policy, f"{name}.{of}")) for of in ("weight", "bias")]
        return graph.node(operator, value, *parts, **attributes)

    def mish(value):
        return graph.node("Mul", value, graph.node("Tanh", graph.node("Softplus", value)))

    def block(value, name, channels, parts):
        kernel = policy[f"{name}.block.0.weight"].attrs["description"]
        pad = int(re.search(r"(\d+)\]", kernel)[1]) // 2
        value = named("Conv", value, f"{name}.block.0", pads=[pad, pad])
        flat = graph.node("Reshape", value, whole(0, parts, -1))
        normal = graph.node("InstanceNormalization", flat, graph.constant(np.ones(parts)), graph.constant(np.zeros(parts)),
                            epsilon=LAYER_NORM_EPSILON)
        value = graph.node("Reshape", normal, whole(0, channels, -1))
        for operator, of in (("Mul", "weight"), ("Add", "bias")):
            value = graph.node(operator, value, graph.constant(policy[f"{name}.block.1.{of}"][()][:, None]))
        return mish(value)

    def residual(value, name, channels):
        out = block(value, f"{name}.blocks.0", channels, groups)
        film = graph.node("Unsqueeze", named("Gemm", mish(feature), f"{name}.cond_encoder.1", transB=1), whole(2))
        if run.setting("diffusion.film_scale", None):
            scale, film = (graph.node("Slice", film, whole(i * channels), whole((i + 1) * channels), whole(1)) for i in (0, 1))
            out = graph.node("Mul", out, scale)
        out = block(graph.node("Add", out, film), f"{name}.blocks.1", channels, groups)
        return graph.node("Add", out, named("Conv", value, f"{name}.residual_conv")
                          if f"{name}.residual_conv.weight" in policy else value)

    half = run.setting("diffusion.step_embedding") // 2
    step = graph.node("Unsqueeze", graph.node("Cast", "step", to=TensorProto.FLOAT), whole(1))
    angles = graph.node("Mul", step, graph.constant(np.exp(-np.log(10000) / (half - 1) * np.arange(half))[None]))
    embedded = graph.node("Concat", graph.node("Sin", angles), graph.node("Cos", angles), axis=1)
    embedded = mish(named("Gemm", embedded, "diffusion_step_encoder.1", transB=1))
    embedded = named("Gemm", embedded, "diffusion_step_encoder.3", transB=1)
    parts = []
    if observations:
        condition = graph.node("Sub", "observation", graph.constant(policy["observation_mean"][()]))
        parts.append(graph.node("Mul", condition, graph.constant(policy["observation_scale"][()])))
    for camera in cameras:
        parts.append(graph.node("Reshape", camera.features(graph, policy),
                                whole(-1, seen, len(policy[f"cameras/{camera.name}/nets.3.bias"]))))
    condition = graph.node("Concat", *parts, axis=2) if len(parts) > 1 else parts[0]
    feature = graph.node("Concat", embedded, graph.node("Flatten", condition), axis=1)
    value, kept = graph.node("Transpose", "noisy", perm=[0, 2, 1]), []
    for level, channels in enumerate(widths):
        for number in (0, 1):
            value = residual(value, f"down_modules.{level}.{number}", channels)
        kept.append(value)
        if level + 1 < len(widths):
            value = named("Conv", value, f"down_modules.{level}.2.conv", strides=[2], pads=[1, 1])
    for number in (0, 1):
        value = residual(value, f"mid_modules.{number}", widths[-1])
    for level, channels in enumerate(reversed(widths[:-1])):
        value = graph.node("Concat", value, kept.pop(), axis=1)
        for number in (0, 1):
            value = residual(value, f"up_modules.{level}.{number}", channels)
        value = named("ConvTranspose", value, f"up_modules.{level}.2.conv", strides=[2], pads=[1, 1])
    value = named("Conv", block(value, "final_conv.0", widths[0], 8), "final_conv.1")
    graph.node("Transpose", value, output="prediction", perm=[0, 2, 1])

    def info(name, *shape, kind=TensorProto.FLOAT):
        return helper.make_tensor_value_info(name, kind, ["batch", *shape])

    description = helper.make_graph(
        graph.nodes, "denoising_network",
        [info("noisy", horizon, actions), info("step", kind=TensorProto.INT64),
         *([info("observation", seen, observations)] if observations else []), *(camera.info for camera in cameras)],
        [info("prediction", horizon, actions)], graph.constants)
    return finished(
        run, checkpoint, description,
        alphas_cumprod=listed(alphas_cumprod(run.setting("diffusion.train_steps"))),
        prediction_type=run.setting("diffusion.prediction"), clip_sample=str(run.setting("diffusion.clip_sample")).lower(),
        observation_horizon=str(seen), action_horizon=str(run.setting("diffusion.action_horizon")),
        action_mean=listed(policy["action_mean"][()]), action_scale=listed(policy["action_scale"][()]))


def listed(numbers: Iterable[float]) -> str:
    return ",".join(f"{number:.9g}" for number in numbers)


def alphas_cumprod(steps: int) -> Array:
    """The values of the schedule squaredcos_cap_v2 (Nichol and Dhariwal 2021): the share of the signal's variance that a step leaves."""
    left = np.cos((np.arange(steps + 1) / steps + 0.008) / 1.008 * np.pi / 2) ** 2
    beta = np.minimum(1 - left[1:] / left[:-1], 0.999).astype(np.float32)
    return np.cumprod((np.float32(1) - beta).astype(float))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="directory of a training")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--checkpoint", type=Path, help="one of its checkpoints; default: the newest")
    which.add_argument("--best", action="store_true", help="the policy with the best evaluation (evaluation.every)")
    parser.add_argument("--output", type=Path, help="file to write; default: policy.onnx in the run's directory")
    arguments = parser.parse_args()
    if arguments.run.is_file():
        parser.error(f"not the directory of a training: {arguments.run} is a file; RUN --checkpoint takes one of its checkpoints")
    if not results_path(arguments.run).is_file():
        parser.error(f"not the directory of a training: {what_is_missing(arguments.run)}")
    try:
        export(arguments)
    except (BadInput, OSError) as error:
        refuse(error)


def write(model: onnx.ModelProto, output: Path) -> None:
    """Writes a complete file or none: on a full disk the previous file stays, and no partial one."""
    try:
        if output.exists() and not output.is_file():  # (a device is not to be replaced)
            onnx.save(model, output)
            return
        place = Path(os.path.realpath(output))
        beside = place.with_name(f".{os.getpid()}.{place.name}")  # (its suffix is the format)
        try:
            onnx.save(model, beside)
            os.replace(beside, place)
        except BaseException:
            with contextlib.suppress(OSError):
                beside.unlink()
            raise
    except OSError as error:
        raise BadInput(f"{output} cannot be written: {error.strerror or error}") from error


def export(arguments: argparse.Namespace) -> None:
    with Run(arguments.run) as run:
        check_trained(run)
        file = arguments.checkpoint or newest_checkpoint(arguments.run / "best" if arguments.best else arguments.run)
        if not file.is_file():
            raise BadInput(f"{file} is not there")
        try:
            with opened(file, arguments.checkpoint) as checkpoint:
                diffuses = "diffusion_step_encoder.1.weight" in checkpoint["policy"]
                check_run(run, checkpoint)
                model = (diffusion_model_of if diffuses else model_of)(run, checkpoint)
        except KeyError as error:  # (h5py says what is missing)
            raise BadInput(f"{file} does not hold the policy of {arguments.run}: {error.args[0]}") from error
    output = arguments.output or arguments.run / "policy.onnx"
    write(model, output)
    print(f"policy of {file}: {output}")


if __name__ == "__main__":
    main()
