"""Writes the policy of a training as ONNX: observation in, action out, with all that stands between the two in the run.

    python tools/export_onnx.py runs/pendulum                 # the newest checkpoint, as runs/pendulum/policy.onnx

Input `observation` [batch, observations] is the task's observation as recorded, output `action` [batch, actions] the
mean action. Clipping and normalisation of observations, the network and the clipping of actions are inside, in single
precision as in the program; what the task makes of an action (scale, clip) belongs to the environment.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import onnx
from maniple_results import Results
from onnx import TensorProto, helper, numpy_helper

PROGRAM = Path(__file__).resolve().parents[1] / "build/maniple"
VARIANCE_FLOOR = 1e-5  # of the program's normalizer, in src/learning/policy.cpp
ACTIVATIONS = {"elu": "Elu", "relu": "Relu", "tanh": "Tanh"}
OPSET = 17


def newest_checkpoint(run):
    """The checkpoint file of most iterations in the directory of a run."""
    files = sorted((run / "checkpoints").glob("*.h5"), key=lambda path: int(re.sub(r"\D", "", path.stem) or 0))
    if not files:
        sys.exit(f"{run} has no checkpoints: a training leaves them, and the best policy where evaluation.every is set")
    return files[-1]


def check(file):
    """A damaged checkpoint would still give a policy: the program knows the checksum of its files."""
    if PROGRAM.is_file():
        result = subprocess.run([PROGRAM, "inspect", file], capture_output=True, text=True)
        if result.returncode != 0:
            sys.exit(f"{file}: {result.stderr.strip() or result.stdout.strip()}")


class Graph:
    """Nodes one after the other, from the observation on."""

    def __init__(self):
        self.nodes, self.constants, self.value = [], [], "observation"

    def constant(self, values):
        self.constants.append(numpy_helper.from_array(np.asarray(values, np.float32), f"constant{len(self.constants)}"))
        return self.constants[-1].name

    def add(self, operator, *constants, output=None, **attributes):
        inputs = [self.value, *map(self.constant, constants)]
        self.value = output or f"{operator.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [self.value], **attributes))

    def clip(self, bound):
        if bound > 0:
            self.add("Clip", -bound, bound)


def weights(policy, layer):
    """The matrix [outputs, inputs] of a layer, whose rows are padded in the file, and its biases."""
    stored = policy[f"layer{layer}/weight"]
    inputs = int(re.search(r"the first (\d+) of each used", stored.attrs["description"])[1])
    bias = policy[f"layer{layer}/bias"][()]
    return stored[()].reshape(len(bias), -1)[:, :inputs], bias


def model_of(run, checkpoint):
    """The ONNX model of the policy in an open checkpoint, with the settings of the run that wrote it."""
    policy, graph = checkpoint["policy"], Graph()
    observations, actions = weights(policy, 0)[0].shape[1], len(policy["log_std"])
    graph.clip(run.setting("policy.clip_observations"))
    if run.setting("policy.normalize_observations"):
        # (those of a critic with observations of its own come behind)
        scale = 1 / np.sqrt(policy["observation_variance"][:observations] + VARIANCE_FLOOR)
        graph.add("Sub", policy["observation_mean"][:observations])
        graph.add("Mul", scale)
        graph.clip(run.setting("policy.clip_normalized", 5))
    hidden = len(run.setting("policy.hidden"))
    for layer in range(hidden + 1):
        matrix, bias = weights(policy, layer)
        if layer == hidden:  # of a shared network the last output is the value
            matrix, bias = matrix[:actions], bias[:actions]
        graph.add("Gemm", matrix, bias, transB=1)
        if layer < hidden:
            graph.add(ACTIVATIONS[run.setting("policy.activation")])
    graph.clip(run.setting("policy.clip_actions"))
    graph.add("Identity", output="action")
    description = helper.make_graph(
        graph.nodes, "policy", [helper.make_tensor_value_info("observation", TensorProto.FLOAT, ["batch", observations])],
        [helper.make_tensor_value_info("action", TensorProto.FLOAT, ["batch", actions])], graph.constants)
    model = helper.make_model(description, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="maniple",
                              producer_version=str(run.run["version"]))
    model.ir_version = 8  # of the runtimes that know the opset
    helper.set_model_props(model, {"checkpoint": Path(checkpoint.filename).name, "deck": run.run["resolved"]})
    onnx.checker.check_model(model, full_check=True)
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="directory of a training")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--checkpoint", type=Path, help="one of its checkpoints; default: the newest")
    which.add_argument("--best", action="store_true", help="the policy with the best evaluation (evaluation.every)")
    parser.add_argument("--output", type=Path, help="file to write; default: policy.onnx in the run's directory")
    arguments = parser.parse_args()
    if not (arguments.run / "results.h5").is_file():
        parser.error(f"{arguments.run} is not the directory of a training: it has no results.h5")
    file = arguments.checkpoint or newest_checkpoint(arguments.run / "best" if arguments.best else arguments.run)
    if not file.is_file():
        parser.error(f"{file} is not there")
    check(file)
    with Results(arguments.run) as run, h5py.File(file) as checkpoint:
        model = model_of(run, checkpoint)
    output = arguments.output or arguments.run / "policy.onnx"
    onnx.save(model, output)
    print(f"policy of {file}: {output}")


if __name__ == "__main__":
    main()
