"""The image encoder of a policy as nodes of an ONNX graph, for maniple.export to put in front of the policy's own."""

import numpy as np
from onnx import TensorProto

GROUP_CHANNELS = 16  # of group normalization, where a map has as many
EPSILON = 1e-5  # of it, in kernels/nn/group_norm.hpp


def encode_images(graph, tensor, pixels, height, width):
    """The name of the features [batch, features] of `pixels`, the name of a uint8 value [batch, height, width, channels].

    graph: an export.Graph, or another object with node() and constant(); tensor: gives a tensor of the encoder's by its name
    (those of robomimic's VisualCore, as in a checkpoint), in torch's shape.
    """
    size = [height, width]

    def whole(*numbers):
        return graph.constant(numbers, np.int64)

    def conv(value, name, stride):
        weight = tensor(f"{name}.weight")
        pad = weight.shape[2] // 2
        size[:] = [(places + 2 * pad - weight.shape[2]) // stride + 1 for places in size]
        return graph.node("Conv", value, graph.constant(weight), pads=4 * [pad], strides=[stride, stride])

    def norm(value, name):
        scale, shift = (tensor(f"{name}.{part}") for part in ("weight", "bias"))
        groups = max(len(scale) // GROUP_CHANNELS, 1)
        flat = graph.node("Reshape", value, whole(0, groups, -1))
        normal = graph.node("InstanceNormalization", flat, graph.constant(np.ones(groups)), graph.constant(np.zeros(groups)),
                            epsilon=EPSILON)
        value = graph.node("Reshape", normal, whole(0, len(scale), *size))
        for operator, numbers in (("Mul", scale), ("Add", shift)):
            value = graph.node(operator, value, graph.constant(numbers[:, None, None]))
        return value

    def block(value, name, stride):
        before = list(size)
        y = graph.node("Relu", norm(conv(value, f"{name}.conv1", stride), f"{name}.bn1"))
        y = norm(conv(y, f"{name}.conv2", 1), f"{name}.bn2")
        if stride != 1:
            size[:] = before
            value = norm(conv(value, f"{name}.downsample.0", stride), f"{name}.downsample.1")
        return graph.node("Relu", graph.node("Add", y, value))

    value = graph.node("Cast", graph.node("Transpose", pixels, perm=[0, 3, 1, 2]), to=TensorProto.FLOAT)
    value = graph.node("Sub", graph.node("Mul", value, graph.constant(2 / 255)), graph.constant(1))
    value = graph.node("Relu", norm(conv(value, "backbone.nets.0", 2), "backbone.nets.1"))
    value = graph.node("MaxPool", value, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    size[:] = [(places + 1) // 2 for places in size]
    for stage in range(4):
        for number in range(2):
            value = block(value, f"backbone.nets.{4 + stage}.{number}", 2 if stage > 0 and number == 0 else 1)
    maps = graph.node("Conv", value, *(graph.constant(tensor(f"pool.nets.{part}")) for part in ("weight", "bias")))
    flat = graph.node("Softmax", graph.node("Reshape", maps, whole(0, 0, -1)), axis=2)
    x, y = (np.linspace(-1, 1, places) for places in reversed(size))
    places = np.stack([np.tile(x, len(y)), np.repeat(y, len(x))], axis=1)
    points = graph.node("Reshape", graph.node("MatMul", flat, graph.constant(places)), whole(0, -1))
    return graph.node("Gemm", points, *(graph.constant(tensor(f"nets.3.{part}")) for part in ("weight", "bias")), transB=1)
