"""The parts of torch that mjlab's term functions use, in numpy and in double precision, so that the functions run
without it: the wheel of torch is larger than everything else that the tests install. Other missing modules that mjlab
imports become empty stand-ins."""

import abc
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types

import numpy as np


class Tensor(np.ndarray):
    """An array with the methods of a tensor."""

    def float(self):
        return self.astype(np.float64)

    def squeeze(self, dim):
        return self.reshape([size for i, size in enumerate(self.shape) if i != dim % self.ndim]) if self.shape[dim] == 1 else self

    def unsqueeze(self, dim):
        return np.expand_dims(self, dim)

    def clip(self, min=None, max=None):
        return np.clip(self, min, max)

    def clamp(self, min=None, max=None):
        return np.clip(self, min, max)

    def clamp_min(self, low):
        return np.maximum(self, low)

    def norm(self, p=2, dim=None):
        return np.sqrt(np.square(self).sum(dim))

    def clone(self):
        return self.copy()

    def flatten(self, start_dim=0):
        return self.reshape(*self.shape[:start_dim], -1)

    def expand(self, *shape):
        return np.broadcast_to(self, shape).view(Tensor)

    def expand_as(self, other):
        return np.broadcast_to(self, other.shape)

    def view(self, *shape):
        return super().view(*shape) if isinstance(shape[0], type) else self.reshape(*shape)

    def cross(self, other, dim=-1):
        return np.cross(self, other, axis=dim)

    def abs(self):
        return np.abs(self)

    def pow(self, exponent):
        return self**exponent

    def repeat(self, *counts):
        return np.tile(np.asarray(self), counts).view(Tensor)

    def unbind(self, dim):
        return tuple(np.moveaxis(self, dim, 0))

    def mean(self, dim=None, **rest):
        return np.asarray(np.mean(np.asarray(self), axis=rest.get("axis", dim))).view(Tensor)

    def to(self, *_):
        return self

    def any(self, dim=None, keepdim=False):
        return np.asarray(np.any(np.asarray(self), axis=dim, keepdims=keepdim)).view(Tensor)

    def all(self, dim=None, keepdim=False):
        return np.asarray(np.all(np.asarray(self), axis=dim, keepdims=keepdim)).view(Tensor)

    def roll(self, shift, dims):
        return np.roll(self, shift, dims)

    def sum(self, dim=None, keepdim=False, **rest):
        return np.asarray(np.sum(np.asarray(self), axis=rest.get("axis", dim), keepdims=keepdim)).view(Tensor)


def tensor(values, **_):
    return np.asarray(values, dtype=np.float64).view(Tensor)


def of(function, **renamed):
    """A function of numpy whose axes are called dim and whose arrays are tensors."""
    def call(*arguments, **named):
        named = {renamed.get(name, {"dim": "axis", "keepdim": "keepdims"}.get(name, name)): value
                 for name, value in named.items() if name not in ("device", "dtype")}
        return np.asarray(function(*(np.asarray(a) if isinstance(a, np.ndarray) else a for a in arguments), **named)).view(Tensor)
    return call


class _Empty(abc.ABCMeta):
    """A class of which every name is another such class, and which can be called, indexed and inherited from."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Empty(name, (), {"is_empty": True})

    def __getitem__(cls, item):
        return cls

    def __or__(cls, other):
        return cls

    __ror__ = __or__

    def __call__(cls, *arguments, **named):
        return cls if "is_empty" in vars(cls) else super().__call__(*arguments, **named)


class _Standin(types.ModuleType):
    """A module of such classes."""

    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        setattr(self, name, _Empty(name, (), {"is_empty": True}))
        return getattr(self, name)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Comes last: for packages that are not installed."""

    packages = set("warp mujoco_warp torch prettytable tyro rsl_rl viser trimesh moviepy wandb tqdm tensordict torchrunx mjviser imageio_ffmpeg mediapy".split())

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.packages:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return _Standin(spec.name)

    def exec_module(self, module):
        pass


def install():
    sys.meta_path.append(_Finder())
    import torch
    same = "square exp sqrt abs sum mean maximum sign log1p cos sin atan2 where zeros_like full_like cross any".split()
    for name in same:
        setattr(torch, name, of(getattr(np, {"atan2": "arctan2"}.get(name, name))))
    torch.acos, torch.clamp, torch.cat, torch.stack = of(np.arccos), of(np.clip), of(np.concatenate), of(np.stack)
    torch.clip, torch.norm = torch.clamp, of(np.linalg.norm)
    torch.linalg = types.SimpleNamespace(norm=torch.norm)
    torch.zeros = lambda *shape, **_: np.zeros(shape[0] if isinstance(shape[0], tuple) else shape).view(Tensor)
    torch.tensor, torch.Tensor, torch.float32, torch.pi = tensor, Tensor, np.float64, np.pi
    torch.unbind = lambda values, dim: values.unbind(dim)
    torch.bool, torch.long, torch.float = bool, int, np.float64
    torch.jit = types.SimpleNamespace(script=lambda function: function)
    torch.no_grad = lambda: (lambda f: f)
