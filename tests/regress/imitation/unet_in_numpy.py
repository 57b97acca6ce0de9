"""ConditionalUnet1D of diffusion_policy in double precision, forward and backward, by its description: parameters are a
dictionary of torch's names. A small tape does the derivatives."""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view


class Value:
    """An array, and how its derivative goes back to what it came from."""

    def __init__(self, array, back=None, parents=()):
        self.array, self.back, self.parents, self.grad = np.asarray(array, float), back, parents, 0.0

    def __add__(self, other):
        return Value(self.array + other.array, lambda g: (sum_to(g, self), sum_to(g, other)), (self, other))

    def __mul__(self, other):
        return Value(self.array * other.array, lambda g: (sum_to(g * other.array, self), sum_to(g * self.array, other)),
                     (self, other))


def sum_to(gradient, value):
    axes = tuple(i for i, (a, b) in enumerate(zip(gradient.shape, value.array.shape)) if a != b)
    return gradient.sum(axis=axes, keepdims=True)


def backward(value, gradient):
    order, seen = [], set()

    def visit(v):
        if id(v) not in seen:
            seen.add(id(v))
            for parent in v.parents:
                visit(parent)
            order.append(v)

    visit(value)
    value.grad = gradient
    for v in reversed(order):
        if v.back:
            for parent, g in zip(v.parents, v.back(v.grad)):
                parent.grad = parent.grad + g


def linear(x, w, b):
    return Value(x.array @ w.array.T + b.array,
                 lambda g: (g @ w.array, g.T @ x.array, g.sum(axis=0)), (x, w, b))


def mish(x):
    soft = np.logaddexp(0, x.array)
    slope = np.tanh(soft) + x.array / np.cosh(soft)**2 / (1 + np.exp(-x.array))
    return Value(x.array * np.tanh(soft), lambda g: (g * slope,), (x,))


def columns(x, kernel, stride, pad):
    """[batch, frames, channels x kernel] of a convolution's windows."""
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad)))
    windows = sliding_window_view(padded, kernel, axis=2)[:, :, ::stride]
    return windows.transpose(0, 2, 1, 3).reshape(len(x), windows.shape[2], -1)


def scattered(parts, channels, frames, kernel, stride, pad):
    """What columns() gathers, added to where it came from."""
    parts = parts.reshape(len(parts), -1, channels, kernel)
    whole = np.zeros((len(parts), channels, frames + 2 * pad))
    count = parts.shape[1]
    for k in range(kernel):
        whole[:, :, k:k + stride * (count - 1) + 1:stride] += parts[:, :, :, k].transpose(0, 2, 1)
    return whole[:, :, pad:pad + frames]


def conv(x, w, b, stride=1, pad=0):
    outputs, channels, kernel = w.array.shape
    flat, taken = w.array.reshape(outputs, -1), columns(x.array, kernel, stride, pad)

    def back(g):
        g = g.transpose(0, 2, 1)
        dx = scattered(g @ flat, channels, x.array.shape[2], kernel, stride, pad)
        return dx, np.tensordot(g, taken, ((0, 1), (0, 1))).reshape(w.array.shape), g.sum(axis=(0, 1))

    return Value((taken @ flat.T).transpose(0, 2, 1) + b.array[:, None], back, (x, w, b))


def conv_transposed(x, w, b):
    """Kernel 4, stride 2, padding 1: the way back of a convolution."""
    inputs, outputs, kernel = w.array.shape
    flat, given = w.array.reshape(inputs, -1), x.array.transpose(0, 2, 1)

    def back(g):
        taken = columns(g, kernel, 2, 1)
        return ((taken @ flat.T).transpose(0, 2, 1),
                np.tensordot(given, taken, ((0, 1), (0, 1))).reshape(w.array.shape), g.sum(axis=(0, 2)))

    made = scattered(given @ flat, outputs, 2 * x.array.shape[2], kernel, 2, 1)
    return Value(made + b.array[:, None], back, (x, w, b))


def group_norm(x, w, b, groups):
    grouped = x.array.reshape(len(x.array), groups, -1)
    scale = 1 / np.sqrt(grouped.var(axis=2, keepdims=True) + 1e-5)
    z = (grouped - grouped.mean(axis=2, keepdims=True)) * scale
    normal = z.reshape(x.array.shape)

    def back(g):
        d = (g * w.array[:, None]).reshape(grouped.shape)
        d = scale * (d - d.mean(axis=2, keepdims=True) - z * (d * z).mean(axis=2, keepdims=True))
        return d.reshape(x.array.shape), (g * normal).sum(axis=(0, 2)), g.sum(axis=(0, 2))

    return Value(normal * w.array[:, None] + b.array[:, None], back, (x, w, b))


def concatenated(a, b):
    n = a.array.shape[1]
    return Value(np.concatenate([a.array, b.array], axis=1), lambda g: (g[:, :n], g[:, n:]), (a, b))


def reshaped(x, *shape):
    return Value(x.array.reshape(shape), lambda g: (g.reshape(x.array.shape),), (x,))


def part(x, index):
    def back(g):
        d = np.zeros_like(x.array)
        d[:, index] = g
        return (d,)

    return Value(x.array[:, index], back, (x,))


def unet(parameters, noisy, step, condition, groups=8):
    """The prediction [batch, horizon, actions] as a Value, and the parameters as Values by name."""
    p = {name: Value(array) for name, array in parameters.items()}

    def named(name):
        return p[f"{name}.weight"], p[f"{name}.bias"]

    def block(x, name, groups):
        w, b = named(f"{name}.block.0")
        return mish(group_norm(conv(x, w, b, pad=w.array.shape[2] // 2), *named(f"{name}.block.1"), groups))

    def residual(x, name):
        out = block(x, f"{name}.blocks.0", groups)
        channels = out.array.shape[1]
        embedded = linear(mish(feature), *named(f"{name}.cond_encoder.1"))
        if embedded.array.shape[1] == 2 * channels:
            embedded = reshaped(embedded, len(noisy), 2, channels, 1)
            out = part(embedded, 0) * out + part(embedded, 1)
        else:
            out = out + reshaped(embedded, len(noisy), channels, 1)
        out = block(out, f"{name}.blocks.1", groups)
        shortcut = conv(x, *named(f"{name}.residual_conv")) if f"{name}.residual_conv.weight" in p else x
        return out + shortcut

    half = p["diffusion_step_encoder.1.weight"].array.shape[1] // 2
    angles = np.asarray(step, float)[:, None] * np.exp(-np.log(10000) / (half - 1) * np.arange(half))
    embedding = Value(np.concatenate([np.sin(angles), np.cos(angles)], axis=1))
    embedding = linear(mish(linear(embedding, *named("diffusion_step_encoder.1"))), *named("diffusion_step_encoder.3"))
    feature = concatenated(embedding, Value(condition))
    x = Value(np.asarray(noisy).transpose(0, 2, 1))
    levels = 1 + max(int(name.split(".")[1]) for name in p if name.startswith("down_modules"))
    kept = []
    for level in range(levels):
        x = residual(residual(x, f"down_modules.{level}.0"), f"down_modules.{level}.1")
        kept.append(x)
        if level + 1 < levels:
            x = conv(x, *named(f"down_modules.{level}.2.conv"), stride=2, pad=1)
    x = residual(residual(x, "mid_modules.0"), "mid_modules.1")
    for level in range(levels - 1):
        x = concatenated(x, kept.pop())
        x = residual(residual(x, f"up_modules.{level}.0"), f"up_modules.{level}.1")
        x = conv_transposed(x, *named(f"up_modules.{level}.2.conv"))
    x = conv(block(x, "final_conv.0", 8), *named("final_conv.1"))
    return Value(x.array.transpose(0, 2, 1), lambda g: (g.transpose(0, 2, 1),), (x,)), p
