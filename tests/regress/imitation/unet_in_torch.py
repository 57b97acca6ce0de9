"""The denoising network of the diffusion_policy reference, its layers, and policies' networks with the losses of
robomimic's behaviour cloning in torch, as the answers that a test compares with. Runs in whatever Python has torch
(Debian's python3-torch belongs to the system's); see test_conditional_unet.py.

    python unet_in_torch.py REQUEST.json ANSWER.npz
    python unet_in_torch.py time CASE

A request is a list of cases, each {"kind": ..., "seed": ..., sizes ...}, with "rounded": true where factors of products
are rounded to bfloat16. The answer has for case i the arrays i.in.NAME
and i.out.NAME in double precision: inputs are whole in single precision, outputs were computed in double. The second form takes forward and backward of one network
in single precision on one core, once for each line of its standard input, and prints their seconds of processor time.
"""

import json
import math
import sys
import time
from functools import partial

import numpy as np
import torch
from torch import distributions, nn
from torch.nn import functional


class ConvBlock(nn.Module):
    def __init__(self, inputs, outputs, kernel_size, groups):
        super().__init__()
        self.block = nn.Sequential(nn.Conv1d(inputs, outputs, kernel_size, padding=kernel_size // 2),
                                   nn.GroupNorm(groups, outputs), nn.Mish())

    def forward(self, x):
        return self.block(x)


class ResidualBlock(nn.Module):
    def __init__(self, inputs, outputs, condition, kernel_size, groups, predict_scale):
        super().__init__()
        self.blocks = nn.ModuleList([ConvBlock(inputs, outputs, kernel_size, groups),
                                     ConvBlock(outputs, outputs, kernel_size, groups)])
        self.cond_encoder = nn.Sequential(nn.Mish(), nn.Linear(condition, outputs * (2 if predict_scale else 1)))
        self.residual_conv = nn.Identity() if inputs == outputs else nn.Conv1d(inputs, outputs, 1)
        self.predict_scale = predict_scale

    def forward(self, x, condition):
        film = self.cond_encoder(condition)[..., None]
        y = self.blocks[0](x)
        if self.predict_scale:
            scale, shift = film.chunk(2, dim=1)
            y = scale * y + shift
        else:
            y = y + film
        return self.blocks[1](y) + self.residual_conv(x)


class Sampling(nn.Module):
    def __init__(self, conv):
        super().__init__()
        self.conv = conv

    def forward(self, x):
        return self.conv(x)


class StepEmbedding(nn.Module):
    def __init__(self, units):
        super().__init__()
        self.half = units // 2

    def forward(self, step):
        frequencies = torch.exp(-math.log(10000) / (self.half - 1) * torch.arange(self.half, dtype=step.dtype))
        angles = step[:, None] * frequencies
        return torch.cat([angles.sin(), angles.cos()], dim=-1)


class Unet(nn.Module):
    """Modules are made in the reference's order, which is that of its state dict."""

    def __init__(self, actions, condition, step_embedding, widths, kernel_size, groups, predict_scale):
        super().__init__()
        everything = step_embedding + condition

        def residual(inputs, outputs):
            return ResidualBlock(inputs, outputs, everything, kernel_size, groups, predict_scale)

        self.mid_modules = nn.ModuleList([residual(widths[-1], widths[-1]) for _ in range(2)])
        self.diffusion_step_encoder = nn.Sequential(
            StepEmbedding(step_embedding), nn.Linear(step_embedding, 4 * step_embedding), nn.Mish(),
            nn.Linear(4 * step_embedding, step_embedding))
        pairs = list(zip([actions, *widths[:-1]], widths))
        self.up_modules = nn.ModuleList([
            nn.ModuleList([residual(2 * wide, narrow), residual(narrow, narrow),
                           Sampling(nn.ConvTranspose1d(narrow, narrow, 4, 2, 1))])
            for narrow, wide in reversed(pairs[1:])])
        self.down_modules = nn.ModuleList([
            nn.ModuleList([residual(before, width), residual(width, width),
                           Sampling(nn.Conv1d(width, width, 3, 2, 1)) if width_number + 1 < len(widths)
                           else nn.Identity()])
            for width_number, (before, width) in enumerate(pairs)])
        self.final_conv = nn.Sequential(ConvBlock(widths[0], widths[0], kernel_size, 8),
                                        nn.Conv1d(widths[0], actions, 1))

    def forward(self, noisy, step, condition):
        seen = torch.cat([self.diffusion_step_encoder(step), condition], dim=-1)
        x, kept = noisy.transpose(1, 2), []
        for first, second, down in self.down_modules:
            x = second(first(x, seen), seen)
            kept.append(x)
            x = down(x)
        for block in self.mid_modules:
            x = block(x, seen)
        for first, second, up in self.up_modules:
            x = up(second(first(torch.cat([x, kept.pop()], dim=1), seen), seen))
        return self.final_conv(x).transpose(1, 2)


def random(*shape):
    """Numbers that single precision holds."""
    return torch.randn(*shape).double()


def gradients(output, delta, *inputs):
    return torch.autograd.grad(output, inputs, delta)


def flat(tensors):
    return torch.cat([tensor.reshape(-1) for tensor in tensors])


def asked(*tensors):
    return [tensor.requires_grad_() for tensor in tensors]


def net_of(case):
    return Unet(*(case[key] for key in ("actions", "condition", "step_embedding", "widths", "kernel_size", "groups",
                                        "predict_scale")))


def unet(case):
    net = net_of(case)
    with torch.no_grad():
        for parameter in net.parameters():
            if parameter.dim() == 1:
                parameter += 0.2 * torch.randn_like(parameter)
    net.double()
    samples = case["samples"]
    noisy, condition = random(samples, case["horizon"], case["actions"]), random(samples, case["condition"])
    step, delta = torch.randint(100, (samples,)).double(), random(*noisy.shape) / samples
    delta = delta.float().double()
    prediction = net(noisy, step, condition)
    named = dict(net.named_parameters())
    found = gradients(prediction, delta, *named.values())
    # (a state dict may name tensors in another order than they are made)
    return ({"parameters": flat(named.values()), "noisy": noisy, "step": step, "condition": condition, "delta": delta},
            {"prediction": prediction, **{f"gradient of {name}": g for name, g in zip(named, found)}})


class Rounded(torch.autograd.Function):
    """To bfloat16: a factor on its way forward, or derivatives on their way back."""

    @staticmethod
    def forward(context, tensor, forward):
        context.forward = forward
        return tensor.bfloat16().double() if forward else tensor.clone()

    @staticmethod
    def backward(context, delta):
        return delta if context.forward else delta.bfloat16().double(), None


def of_rounded_factors(operation):
    """Such a layer with what mixed precision makes of it: the bias is no factor."""
    def rounded(x, weight, bias=None, *rest, **more):
        y = Rounded.apply(operation(Rounded.apply(x, True), Rounded.apply(weight, True), None, *rest, **more), False)
        return y if bias is None else y + bias.reshape(-1, *[1] * (0 if operation is LAYERS["linear"] else y.dim() - 2))
    return rounded


LAYERS = {name: getattr(functional, name) for name in ("conv1d", "conv2d", "conv_transpose1d", "linear")}


def product(operation, *tensors):
    """A layer, operation(x, weight, bias), forward and backward for weight, bias and x."""
    weight, bias, x = asked(*tensors)
    y = operation(x, weight, bias)
    delta = random(*y.shape)
    x_delta, weight_delta, bias_delta = gradients(y, delta, x, weight, bias)
    return ({"weight": weight, "bias": bias, "x": x, "delta": delta},
            {"y": y, "x_delta": x_delta, "weight_delta": weight_delta, "bias_delta": bias_delta})


def conv(case):
    inputs, outputs, taps = case["inputs"], case["outputs"], case["taps"]
    weight = random(inputs, outputs, taps) if case["transposed"] else random(outputs, inputs, taps)
    operation = partial(functional.conv_transpose1d if case["transposed"] else functional.conv1d, stride=case["stride"],
                        padding=case["padding"])
    return product(operation, weight, random(outputs), random(case["samples"], inputs, case["frames"]))


def dense(case):
    inputs, outputs = case["inputs"], case["outputs"]
    return product(functional.linear, random(outputs, inputs), random(outputs), random(case["samples"], inputs))


def norm(case):
    samples, channels, frames, film = (case[key] for key in ("samples", "channels", "frames", "film"))
    weight, bias, y, modulation = asked(random(channels), random(channels), 3 * random(samples, channels, frames) + 1,
                                        random(samples, film * channels, 1))
    z = functional.mish(functional.group_norm(y, case["groups"], weight, bias))
    if film == 2:
        z = z * modulation[:, :channels] + modulation[:, channels:]
    elif film == 1:
        z = z + modulation
    else:
        z = z + 0 * modulation.sum()
    inputs = {"weight": weight, "bias": bias, "y": y, "film": modulation}
    if case["residual"]:
        inputs["residual"] = random(*y.shape)
        z = z + inputs["residual"]
    inputs["delta"] = random(*z.shape)
    y_delta, weight_delta, bias_delta, film_delta = gradients(z, inputs["delta"], y, weight, bias, modulation)
    return inputs, {"z": z, "y_delta": y_delta, "weight_delta": weight_delta, "bias_delta": bias_delta,
                    "film_delta": film_delta}


def embedding(case):
    step = torch.randint(100, (case["samples"],)).double()
    embedded = StepEmbedding(case["units"])(step).requires_grad_()
    mish = functional.mish(embedded)
    return {"step": step}, {"embedded": embedded, "mish": mish,
                            "slope": gradients(mish, torch.ones_like(mish), embedded)[0]}


ACTIVATIONS = {"elu": functional.elu, "relu": functional.relu, "tanh": torch.tanh, "leaky_relu": functional.leaky_relu,
               "silu": functional.silu, "gelu": functional.gelu, "identity": lambda x: x}


def policy(case):
    """robomimic's networks: recurrent layers, dense layers with an activation each and, on request, a layer norm, then a
    dense layer that gives means [mode][action], what standard deviations are of, and logits."""
    samples, steps, actions, modes = (case[key] for key in ("samples", "steps", "actions", "modes"))
    kinds = {"gru": nn.GRU, "lstm": nn.LSTM}
    cells, layers, width = [], [], case["observations"]
    for _ in range(case["cells"] if case["recurrent"] != "none" else 0):
        cells.append(kinds[case["recurrent"]](width, case["units"], batch_first=True))
        width = case["units"]
    for units in case["widths"]:
        layers.append((nn.Linear(width, units), nn.LayerNorm(units) if case["layer_norm"] else None))
        width = units
    outputs = (2 * actions + 1) * modes if modes else 2 * actions if case["own_deviations"] else actions
    last = nn.Linear(width, outputs)
    log_std = nn.Parameter(0.3 * torch.randn(0 if modes or case["own_deviations"] else actions))
    named = {}
    for number, cell in enumerate(cells):
        for of, name in (("ih", "input"), ("hh", "state")):
            for part in ("weight", "bias"):
                named[f"{name} {part} of cell {number}"] = getattr(cell, f"{part}_{of}_l0")
    for number, (linear, layer_norm) in enumerate([*layers, (last, None)]):
        for name, module in (("layer", linear), ("norm", layer_norm)):
            if module:
                named |= {f"{name} {number} {part}": getattr(module, part) for part in ("weight", "bias")}
    named["log_std"] = log_std
    with torch.no_grad():
        for name, parameter in named.items():
            parameter.mul_(1.5)
            if "norm" in name:
                parameter.add_(0.3 * torch.randn_like(parameter))
            parameter.data = parameter.data.double()
    seen, done = random(samples, steps, case["observations"]), (0.9 * random(samples, steps, actions)).clamp(-0.95, 0.95)
    done = done.float().double()
    x = seen
    for cell in cells:
        x = cell.double()(x)[0]
    for linear, layer_norm in layers:
        x = ACTIVATIONS[case["activation"]](linear(x))
        x = layer_norm(x) if layer_norm else x
    y = last(x)
    minimum = 0.01 if case["softplus"] else 0
    std_of = lambda raw: (functional.softplus(raw) if case["softplus"] else raw.exp()) + minimum
    squash = torch.tanh if case["squash"] else lambda x: x
    if modes:
        mean, raw = (y[..., part * modes * actions:(part + 1) * modes * actions].reshape(samples, steps, modes, actions)
                     for part in (0, 1))
        heads = distributions.Independent(distributions.Normal(squash(mean), std_of(raw)), 1)
        mixture = distributions.MixtureSameFamily(distributions.Categorical(logits=y[..., 2 * modes * actions:]), heads)
        loss = -mixture.log_prob(done).mean()
    else:
        mean = squash(y[..., :actions])
        std = std_of(y[..., actions:]) if case["own_deviations"] else log_std.exp().expand_as(mean)
        gaussian = distributions.Independent(distributions.Normal(mean, std), 1)
        losses = {"l2": lambda: functional.mse_loss(mean, done), "l1": lambda: functional.l1_loss(mean, done),
                  "smooth_l1": lambda: functional.smooth_l1_loss(mean, done),
                  "gaussian": lambda: -gaussian.log_prob(done).mean()}
        loss = losses[case["loss"]]() + 0 * std.sum()
    loss = loss + 0 * log_std.sum()
    found = gradients(loss, None, *named.values())
    return ({"parameters": torch.cat([tensor.reshape(-1) for tensor in named.values()]), "observation": seen, "action": done},
            {"outputs": y, "loss": loss, **{f"gradient of {name}": g for name, g in zip(named, found)}})


def step(case):
    """Forward and backward of one network in single precision."""
    net, samples = net_of(case), case["samples"]
    noisy, condition = torch.randn(samples, case["horizon"], case["actions"]), torch.randn(samples, case["condition"])
    number, delta = torch.randint(100, (samples,)).float(), torch.randn(*noisy.shape) / noisy.numel()

    def take():
        net.zero_grad(set_to_none=True)
        net(noisy, number, condition).backward(delta)

    return take


def names(case):
    return [(name, tensor.shape) for name, tensor in net_of(case).state_dict().items()]


def take_times(take):
    torch.set_num_threads(1)
    for _ in sys.stdin:
        start = time.process_time()
        take()
        print(time.process_time() - start, flush=True)


def run(kinds, names_of, step_of):
    """The command, of functions that answer a case: by its kind; the tensors of a network; a step to take the time of."""
    if sys.argv[1] == "time":
        take_times(step_of(json.loads(sys.argv[2])))
        return
    with open(sys.argv[1]) as file:
        cases = json.load(file)
    answer = {}
    for number, case in enumerate(cases):
        torch.manual_seed(case["seed"])
        for name, operation in LAYERS.items():
            setattr(functional, name, of_rounded_factors(operation) if case.get("rounded") else operation)
        for side, tensors in zip(("in", "out"), kinds[case["kind"]](case)):
            for name, tensor in tensors.items():
                answer[f"{number}.{side}.{name}"] = np.array(tensor.detach().reshape(-1).tolist())
        if case["kind"] in ("unet", "encoder"):
            answer[f"{number}.names"] = np.array([" ".join([name, *map(str, shape)]) for name, shape in names_of(case)])
    np.savez(sys.argv[2], **answer)


if __name__ == "__main__":
    run({kind.__name__: kind for kind in (unet, conv, dense, norm, embedding, policy)}, names, step)
