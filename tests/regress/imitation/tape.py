"""Reverse-mode differentiation of numpy arrays in double precision, for losses that tests write down as their papers
do: a stand-in for torch's autograd, whose wheel is larger than all else that the tests install."""

import numpy as np


class Value:
    """An array and how it came about; `gradient` is filled by backward()."""

    __array_priority__ = 1000  # array - value is a value

    def __init__(self, data, parents=()):
        self.data, self.parents = np.asarray(data, np.float64), parents  # parents: (value, derivative -> its share)
        self.gradient = np.zeros_like(self.data)

    def backward(self):
        order, seen = [], set()

        def visit(value):
            if id(value) not in seen:
                seen.add(id(value))
                for parent, _ in value.parents:
                    visit(parent)
                order.append(value)

        visit(self)
        self.gradient = np.ones_like(self.data)
        for value in reversed(order):
            for parent, share in value.parents:
                parent.gradient = parent.gradient + unbroadcast(share(value.gradient), parent.data.shape)

    def __add__(self, other):
        other = of(other)
        return Value(self.data + other.data, [(self, lambda d: d), (other, lambda d: d)])

    def __mul__(self, other):
        other = of(other)
        return Value(self.data * other.data, [(self, lambda d: d * other.data), (other, lambda d: d * self.data)])

    def __matmul__(self, other):
        other = of(other)
        return Value(self.data @ other.data, [(self, lambda d: d @ other.data.T), (other, lambda d: self.data.T @ d)])

    def __getitem__(self, index):
        def share(d):
            whole = np.zeros_like(self.data)
            whole[index] = d
            return whole

        return Value(self.data[index], [(self, share)])

    def __neg__(self):
        return self * -1.0

    def __sub__(self, other):
        return self + of(other) * -1.0

    def __rsub__(self, other):
        return of(other) + self * -1.0

    __radd__, __rmul__ = __add__, __mul__

    @property
    def T(self):
        return Value(self.data.T, [(self, lambda d: d.T)])

    def reshape(self, *shape):
        return Value(self.data.reshape(*shape), [(self, lambda d: d.reshape(self.data.shape))])

    def sum(self, axis=None):
        def share(d):
            return np.broadcast_to(d if axis is None else np.expand_dims(d, axis), self.data.shape)

        return Value(self.data.sum(axis=axis), [(self, share)])

    def mean(self):
        return self.sum() * (1 / self.data.size)


def of(value):
    return value if isinstance(value, Value) else Value(value)


def unbroadcast(array, shape):
    array = array.sum(axis=tuple(range(array.ndim - len(shape))))
    return array.sum(axis=tuple(i for i, n in enumerate(shape) if n == 1 and array.shape[i] > 1), keepdims=True)


def elementwise(function, derivative):
    """derivative: of the argument and the result."""

    def call(x):
        y = function(x.data)
        return Value(y, [(x, lambda d: d * derivative(x.data, y))])

    return call


tanh = elementwise(np.tanh, lambda x, y: 1 - y * y)
sigmoid = elementwise(lambda x: 1 / (1 + np.exp(-x)), lambda x, y: y * (1 - y))
relu = elementwise(lambda x: np.maximum(x, 0), lambda x, y: x > 0)
exp = elementwise(np.exp, lambda x, y: y)
log = elementwise(np.log, lambda x, y: 1 / x)
softplus = elementwise(lambda x: np.logaddexp(0, x), lambda x, y: 1 / (1 + np.exp(-x)))


def logsumexp(x):
    """Over the last axis."""
    most = x.data.max(axis=-1, keepdims=True)
    return log(exp(x - most).sum(axis=-1)) + most[..., 0]
