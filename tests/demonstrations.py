"""Files of demonstrations for the tests, in robomimic's and in Minari's layout, written as those packages describe
them; robomimic's own reader; and the order of samples, by the formulas that the program states."""

import importlib
import sys
import types

import h5py
import numpy as np
import pytest


@pytest.fixture(scope="module")
def sequence_dataset():
    """robomimic's SequenceDataset; it needs torch for nothing but the name of its base class."""

    def stand_in(name, **members):
        module = types.ModuleType(name)
        module.__dict__.update(members)
        return module

    names = ["torch", "torch.utils", "torch.utils.data", "torch.nn", "torch.nn.functional", "tqdm", "termcolor"]
    saved = {name: sys.modules.get(name) for name in names}
    data = stand_in("torch.utils.data", Dataset=object)
    utils = stand_in("torch.utils", data=data)
    functional = stand_in("torch.nn.functional")
    nn = stand_in("torch.nn", functional=functional, Module=object)
    torch = stand_in("torch", utils=utils, nn=nn, Tensor=type("Tensor", (), {}))
    parts = [torch, utils, data, nn, functional, stand_in("tqdm", tqdm=object), stand_in("termcolor", colored=str)]
    sys.modules.update(zip(names, parts))
    try:
        yield importlib.import_module("robomimic.utils.dataset").SequenceDataset
    finally:
        for name, module in saved.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module


def episodes(count=12, seed=0, shortest=5, longest=40):
    """Observations of T + 1 frames and actions of T, which follow from them: [(position, velocity, action)]."""
    rng = np.random.default_rng(seed)
    mixing = np.random.default_rng(99).normal(size=(5, 2)) * 0.4
    made = []
    for _ in range(count):
        frames = int(rng.integers(shortest, longest))
        position = rng.normal(size=(frames + 1, 3)).cumsum(axis=0) * 0.3
        velocity = rng.normal(size=(frames + 1, 2)) * 5 + 2
        action = np.tanh(np.concatenate([position, velocity / 5], axis=1)[:-1] @ mixing)
        made.append((position.astype(np.float32), velocity.astype(np.float32), action.astype(np.float32)))
    return made


def pictures(made, cameras, seed=7):
    """Of each episode, by camera: {name: (height, width, channels)} -> {name: uint8 [T + 1, height, width, channels]}."""
    rng = np.random.default_rng(seed)
    return [{name: rng.integers(0, 256, (len(position), *size), np.uint8) for name, size in cameras.items()}
            for position, _, _ in made]


def write_robomimic(path, made, masks=(), images=None):
    with h5py.File(path, "w") as file:
        data = file.create_group("data")
        data.attrs["total"] = sum(len(action) for _, _, action in made)
        data.attrs["env_args"] = "{}"
        for number, (position, velocity, action) in enumerate(made):
            demo = data.create_group(f"demo_{number}")
            demo.attrs["num_samples"] = len(action)
            demo["actions"] = action.astype(np.float64)  # as robosuite collects them
            demo.create_dataset("obs/position", data=position[:-1], compression="gzip")
            demo["obs/velocity"] = velocity[:-1]
            demo["obs/image"] = np.zeros((len(action), 4, 4, 3), np.uint8)
            for name, frames in images[number].items() if images else ():
                demo.create_dataset(f"obs/{name}", data=frames[:-1], chunks=(2, *frames.shape[1:]), compression="gzip")
        for name, numbers in dict(masks).items():
            file[f"mask/{name}"] = np.array([f"demo_{number}" for number in numbers], dtype="S8")
    return path


def write_minari(path, made, box=False, images=None):
    """`box`: observations of one array instead of a dictionary."""
    with h5py.File(path, "w") as file:
        file.attrs["total_episodes"] = len(made)
        for number, (position, velocity, action) in enumerate(made):
            episode = file.create_group(f"episode_{number}")
            episode.attrs["id"] = number
            episode.attrs["total_steps"] = len(action)
            if box:
                episode["observations"] = np.concatenate([position, velocity], axis=1)
            else:
                episode["observations/position"] = position
                episode["observations/velocity"] = velocity
                for name, frames in images[number].items() if images else ():
                    episode[f"observations/{name}"] = frames
            episode["actions"] = action
            episode["rewards"] = np.zeros(len(action))
            for name in ("terminations", "truncations"):
                episode[name] = np.zeros(len(action), bool)
    return path


def philox(counter, key):
    """Philox4x32-10 (Salmon et al. 2011) of four arrays of words."""
    c = [np.asarray(word, np.uint64) for word in counter]
    k = [np.uint64(word) for word in key]
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    for _ in range(10):
        first, second = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [(second >> half) ^ c[1] ^ k[0], second & mask, (first >> half) ^ c[3] ^ k[1], first & mask]
        k = [(k[0] + np.uint64(0x9E3779B9)) & mask, (k[1] + np.uint64(0xBB67AE85)) & mask]
    return c


def normal(purpose, seed, index, step, count, first=0):
    """[index, count] normal numbers of the program's streams, from the first-th on."""
    index = np.asarray(index, np.uint64)[:, None]
    e = np.arange(first, first + count, dtype=np.uint64)
    zero = np.zeros((len(index), count), np.uint64)
    words = np.stack(philox([zero + index, zero, zero + np.uint64(step), zero + e // np.uint64(4)], [seed, purpose]))
    at = (e // np.uint64(2) % np.uint64(2) * np.uint64(2)).astype(int)
    u, v = (words[at + which, :, np.arange(count)].T.astype(np.uint64) >> np.uint64(8) for which in (0, 1))
    radius, angle = np.sqrt(-2 * np.log((u.astype(float) + 1) / 2**24)), 2 * np.pi * v.astype(float) / 2**24
    return radius * np.where(e % np.uint64(2) == 0, np.cos(angle), np.sin(angle))


def permutation(count, seed, which):
    """kernels/base/permutation.hpp of 0 ... count - 1: a Feistel network with cycle walking."""
    bits = max(1, (count - 1).bit_length())
    low_bits = bits // 2
    low_mask, high_mask = np.uint64(2**low_bits - 1), np.uint64(2 ** (bits - low_bits) - 1)
    zero = np.zeros(count, np.uint64)

    def mixed(half, part):
        words = philox([half & np.uint64(0xFFFFFFFF), half >> np.uint64(32), zero[: len(half)] + np.uint64(which),
                        zero[: len(half)] + np.uint64(part)], [seed, 4])
        return words[0] | words[1] << np.uint64(32)

    place = np.arange(count, dtype=np.uint64)
    outside = np.ones(count, bool)
    while outside.any():
        low, high = place[outside] & low_mask, place[outside] >> np.uint64(low_bits)
        for part in range(4):
            high = high ^ (mixed(low, 2 * part) & high_mask)
            low = low ^ (mixed(high, 2 * part + 1) & low_mask)
        place[outside] = high << np.uint64(low_bits) | low
        outside = place >= count
    return place.astype(np.int64)
