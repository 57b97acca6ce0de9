"""The image encoder and its layers in torch, as the answers that a test compares with: ResNet-18 (He et al. 2016) with
group normalization, robomimic's SpatialSoftmax and a linear layer. Requests, answers and the second form of the command
are those of unet_in_torch.py; see test_image_encoder.py.
"""

from functools import partial

import torch
from torch import nn
from torch.nn import functional
from unet_in_torch import asked, flat, gradients, product, random, run


class BasicBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = normalization(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = normalization(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), normalization(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
        return functional.relu(y + (x if self.downsample is None else self.downsample(x)))


def normalization(channels):
    return nn.GroupNorm(max(channels // 16, 1), channels)


class Backbone(nn.Module):
    def __init__(self, channels, width):
        super().__init__()
        stages = []
        for stage in range(4):
            wide, before = width << stage, width << max(stage - 1, 0)
            stages.append(nn.Sequential(BasicBlock(before, wide, 2 if stage else 1), BasicBlock(wide, wide, 1)))
        self.nets = nn.Sequential(nn.Conv2d(channels, width, 7, 2, 3, bias=False), normalization(width), nn.ReLU(),
                                  nn.MaxPool2d(3, 2, 1), *stages)

    def forward(self, x):
        return self.nets(x)


def spatial_softmax(maps):
    """Expected x and y of each map, [samples, maps, 2]."""
    height, width = maps.shape[2:]
    probability = maps.flatten(2).softmax(-1).reshape(maps.shape)
    x, y = (torch.linspace(-1, 1, places, dtype=maps.dtype) for places in (width, height))
    return torch.stack([(probability.sum(2) * x).sum(-1), (probability.sum(3) * y).sum(-1)], -1)


class Pool(nn.Module):
    def __init__(self, channels, keypoints):
        super().__init__()
        self.nets = nn.Conv2d(channels, keypoints, 1)

    def forward(self, x):
        return spatial_softmax(self.nets(x))


class Encoder(nn.Module):
    def __init__(self, channels, base_width, keypoints, features):
        super().__init__()
        self.backbone, self.pool = Backbone(channels, base_width), Pool(base_width << 3, keypoints)
        self.nets = nn.Sequential(self.backbone, self.pool, nn.Flatten(), nn.Linear(2 * keypoints, features))

    def forward(self, pixels):
        return self.nets(pixels / 255 * 2 - 1)


def net_of(case):
    return Encoder(*(case[key] for key in ("channels", "base_width", "keypoints", "features")))


def names(case):
    """A state dict without the second names of backbone and pool."""
    return [(name, tensor.shape) for name, tensor in net_of(case).named_parameters()]


def images(case):
    return torch.randint(256, (case["samples"], case["channels"], case["height"], case["width"]))


def encoder(case):
    net = net_of(case)
    with torch.no_grad():
        for parameter in net.parameters():
            if parameter.dim() == 1:
                parameter += 0.2 * torch.randn_like(parameter)
        net.pool.nets.weight *= 5  # points that are not in the middle
    net.double()
    pixels, delta = images(case).double(), random(case["samples"], case["features"]).float().double() / case["samples"]
    delta = delta.float().double()
    features = net(pixels)
    named = dict(net.named_parameters())
    found = gradients(features, delta, *named.values())
    return ({"parameters": flat(named.values()), "pixels": pixels, "delta": delta},
            {"features": features, **{f"gradient of {name}": g for name, g in zip(named, found)}})


def conv(case):
    inputs, outputs, taps = case["inputs"], case["outputs"], case["taps"]
    operation = partial(functional.conv2d, stride=case["stride"], padding=case["padding"])
    return product(operation, random(outputs, inputs, taps, taps), random(outputs),
                   random(case["samples"], inputs, case["height"], case["width"]))


def norm(case):
    samples, channels, frames = (case[key] for key in ("samples", "channels", "frames"))
    weight, bias, y = asked(random(channels), random(channels), 3 * random(samples, channels, frames) + 1)
    z = functional.group_norm(y, case["groups"], weight, bias)
    inputs = {"weight": weight, "bias": bias, "y": y}
    if case["residual"]:
        inputs["residual"] = random(*y.shape)
        z = z + inputs["residual"]
    z = functional.relu(z)
    inputs["delta"] = random(*z.shape)
    y_delta, weight_delta, bias_delta = gradients(z, inputs["delta"], y, weight, bias)
    return inputs, {"z": z, "y_delta": y_delta, "weight_delta": weight_delta, "bias_delta": bias_delta}


def pool(case):
    # (of rounded numbers several are the largest of a window)
    x, = asked((random(case["samples"], case["channels"], case["height"], case["width"]) * 2).round())
    y = functional.max_pool2d(x, 3, 2, 1)
    delta = random(*y.shape)
    return {"x": x, "delta": delta}, {"y": y, "x_delta": gradients(y, delta, x)[0]}


def softmax(case):
    # (exact in single precision, in which none of them has an exponential)
    x, = asked((192 * random(case["samples"], case["maps"], case["height"], case["width"])).round() / 64 + 100)
    points = spatial_softmax(x)
    delta = random(*points.shape)
    return {"x": x, "delta": delta}, {"points": points, "x_delta": gradients(points, delta, x)[0]}


def step(case):
    """Forward and backward of one network in single precision."""
    net, pixels = net_of(case), images(case).float()
    delta = torch.randn(case["samples"], case["features"]) / case["samples"]

    def take():
        net.zero_grad(set_to_none=True)
        net(pixels).backward(delta)

    return take


if __name__ == "__main__":
    run({kind.__name__: kind for kind in (encoder, conv, norm, pool, softmax)}, names, step)
