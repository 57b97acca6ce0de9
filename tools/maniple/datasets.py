"""Cuts, joins and converts data sets of demonstrations, for maniple imitate. IN stays as it is; what goes into
OUT and what does not add up to IN, and the last line says both.

    python -m maniple.datasets trim IN OUT --from 10 --to -5             steps of each episode, as Python slices
    python -m maniple.datasets merge OUT IN IN ...
    python -m maniple.datasets split IN train.hdf5=0.9 valid.hdf5=0.1 --seed 0
    python -m maniple.datasets split IN OUT --mask 0.1 --seed 0          all episodes, with lists /mask/train and /mask/valid
    python -m maniple.datasets filter IN OUT --min-return 100 --min-length 20 --mask success --episodes 0,3,7-12
    python -m maniple.datasets convert IN OUT                            Zarr of diffusion_policy, ALOHA, RLDS: robomimic's layout

IN and OUT are HDF5 files in the layout of robomimic or Minari, which OUT has from IN; IN may be a folder of Minari's.
maniple inspect says what is in one. Episodes are numbered anew, in lists, too: without demo_0 and demo_2, demo_3 is
demo_1. Where trim cuts an end, dones (robomimic) or truncations (Minari) are 1 in the last step that is left, because
the episode ends there. A file that is there already is replaced with --overwrite only.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from maniple.conversion import convert, listed
from maniple.results import Unreadable, check_outputs, new_file, open_file, refuse

# group that has the episodes, prefix of their names, attribute with their steps, flags of their ends
LAYOUTS = {"robomimic": ("data", "demo_", "num_samples", ("dones",)),
           "minari": ("/", "episode_", "total_steps", ("truncations",))}
MINARI_FILE = Path("data") / "main_data.hdf5"  # below the directory of a data set


def layout_of(file: h5py.File) -> str | None:
    for layout, (group, prefix, _, _) in LAYOUTS.items():
        if isinstance(file.get(group), h5py.Group) and any(re.fullmatch(rf"{prefix}\d+", name) for name in file[group]):
            return layout
    return None


class DataSet:
    """The episodes of an open file, in the order of their numbers."""

    def __init__(self, path: Path, file: h5py.File) -> None:
        self.path, self.file, self.layout = path, file, layout_of(file)
        if self.layout is None:
            raise Unreadable(f"{path}: found neither /data/demo_0 (robomimic) nor /episode_0 (Minari); datasets.py "
                             "convert reads other layouts")
        group, self.prefix, self.length, self.ends = LAYOUTS[self.layout]
        self.group = file[group]
        self.names = sorted((name for name in self.group if re.fullmatch(rf"{self.prefix}\d+", name)), key=self.number)

    def number(self, name: str) -> int:
        return int(name.removeprefix(self.prefix))

    def steps(self, name: str) -> int:
        episode = self.group[name]
        if "actions" not in episode:
            raise Unreadable(f"{self.path}: /{episode.name.strip('/')} has no actions")
        actions = episode["actions"]
        return len(actions) if isinstance(actions, h5py.Dataset) else min(map(len, datasets_in(actions).values()))

    def masks(self) -> dict[str, list[str]]:
        return {name: [entry.decode() for entry in values[()]] for name, values in self.file.get("mask", {}).items()}

    def total(self, names: list[str] | None = None) -> tuple[int, int]:
        names = self.names if names is None else names
        return len(names), sum(map(self.steps, names))


def datasets_in(group: h5py.Group) -> dict[str, h5py.Dataset]:
    """The datasets of a group, by their paths below it."""
    found: dict[str, h5py.Dataset] = {}
    group.visititems(lambda name, item: found.update({name: item}) if isinstance(item, h5py.Dataset) else None)
    return found


def count(episodes: int, steps: int) -> str:
    return f"{episodes} episode{'s' * (episodes != 1)}, {steps} step{'s' * (steps != 1)}"


@contextmanager
def reading(*paths: Path) -> Iterator[list[DataSet]]:
    with ExitStack() as opened:
        yield [DataSet(path, opened.enter_context(open_file(path))) for path in paths]


@contextmanager
def writing(path: Path, like: DataSet) -> Iterator[h5py.File]:
    """A new file with the attributes of another; it appears when it is complete."""
    with new_file(path) as file:
        group = file.require_group(like.group.name)
        group.attrs.update(like.group.attrs.items())
        yield file


def finish(file: h5py.File, like: DataSet, masks: dict[str, list[str]]) -> None:
    """Writes totals and lists of the episodes of the file."""
    group = file[like.group.name]
    steps = sum(int(group[name].attrs[like.length]) for name in group if name.startswith(like.prefix))
    if like.layout == "robomimic":
        group.attrs["total"] = steps
    else:
        group.attrs["total_episodes"], group.attrs["total_steps"] = sum(name.startswith(like.prefix) for name in group), steps
    for name, episodes in masks.items():
        file[f"mask/{name}"] = np.array(episodes, dtype="S") if episodes else np.zeros(0, "S1")


def write(path: Path, sources: list[tuple[DataSet, list[str]]], lists: dict[str, list[str]] | None = None) -> tuple[int, int]:
    """A file of these episodes, renumbered; returns their number and steps. `lists`: masks in place of those of that name."""
    first = sources[0][0]
    masks: dict[str, list[str]] = {}
    with writing(path, first) as file:
        number = 0
        for source, names in sources:
            new = {}
            for name in names:
                new[name] = f"{first.prefix}{number}"
                source.file.copy(source.group[name], file[first.group.name], new[name])
                target = file[first.group.name][new[name]]
                target.attrs[first.length] = source.steps(name)
                if first.layout == "minari":
                    target.attrs["id"] = number
                number += 1
            for mask, members in (source.masks() | (lists or {})).items():
                masks.setdefault(mask, []).extend(new[name] for name in members if name in new)
        finish(file, first, masks)
    return number, sum(source.total(names)[1] for source, names in sources)


# ---- trim, merge, split, filter ----
def trim(path: Path, target: Path, first: int | None, last: int | None) -> None:
    with reading(path) as (data,), writing(target, data) as file:
        kept: dict[str, str] = {}
        gone, steps = [], 0
        for name in data.names:
            length = data.steps(name)
            a, b, _ = slice(first, last).indices(length)
            if a >= b:
                gone.append(name)
                continue
            kept[name] = f"{data.prefix}{len(kept)}"
            source, episode = data.group[name], file[data.group.name].create_group(kept[name])
            episode.attrs.update(source.attrs.items())
            episode.attrs[data.length] = b - a
            if data.layout == "minari":
                episode.attrs["id"] = len(kept) - 1
            for key, values in datasets_in(source).items():
                frames = len(values) if values.ndim else 0
                if frames not in (length, length + 1):
                    raise Unreadable(f"{path}: /{values.name.strip('/')} has {frames} frames; allowed: {length}, or {length + 1} with "
                                     "the last observation")
                part = values[a:b + frames - length]
                if key in data.ends and b < length:
                    part[-1] = 1
                # (what HDF5 itself does not read, as lzf of h5py, becomes what it does)
                compression = "gzip" if values.compression == "lzf" else values.compression
                episode.create_dataset(key, data=part, compression=compression)
                episode[key].attrs.update(values.attrs.items())
            steps += b - a
        if not kept:
            asked = f"at or behind --from {first}" * (first is not None) + " and " * (None not in (first, last)) + \
                f"before --to {last}" * (last is not None)
            raise Unreadable(f"{path}: no episode has a step {asked}; the longest has "
                             f"{max(map(data.steps, data.names))}")
        finish(file, data, {mask: [kept[name] for name in members if name in kept] for mask, members in data.masks().items()})
        episodes, before = data.total()
        print(f"{path}: {count(episodes, before)}; {target}: {count(len(kept), steps)}; left out: "
              f"{count(len(gone), before - steps)}{named(gone)}")


def named(names: list[str]) -> str:
    return f" ({listed(names)})" if names else ""


def check_alike(sources: list[DataSet]) -> None:
    def frames(data: DataSet) -> dict[str, Any]:
        return {key: (values.shape[1:], values.dtype.kind) for key, values in datasets_in(data.group[data.names[0]]).items()}

    wanted = frames(sources[0])
    for other in sources[1:]:
        if other.layout != sources[0].layout:
            raise Unreadable(f"{other.path}: found {other.layout}'s layout; allowed: that of {sources[0].path}, {sources[0].layout}'s")
        found = frames(other)
        if missing := sorted(set(wanted) ^ set(found)):
            without, having = (other, sources[0]) if missing[0] in wanted else (sources[0], other)
            raise Unreadable(f"{without.path}: {missing[0]} is missing; allowed: the keys of {having.path}. imitate "
                             f"reads both without merging: data.file=[{sources[0].path}, {other.path}], with "
                             "data.observations that both have")
        for key in sorted(wanted):
            if wanted[key] != found[key]:
                said = [f"{entry[key][0]} of kind {entry[key][1]}" for entry in (found, wanted)]
                raise Unreadable(f"{other.path}: {key}: found frames {said[0]}; allowed: as in {sources[0].path}, {said[1]}")


def merge(target: Path, paths: list[Path]) -> None:
    with reading(*paths) as sources:
        check_alike(sources)
        written = write(target, [(source, source.names) for source in sources])
        for source in sources:
            print(f"{source.path}: {count(*source.total())}")
        print(f"{target}: {count(*written)}; left out: {count(0, 0)}")


def split(path: Path, parts: list[str], seed: int) -> None:
    shares = []
    for part in parts:
        name, _, share = part.rpartition("=")
        try:
            shares.append((Path(name), float(share)))
        except ValueError:
            raise Unreadable(f"{part}: found no share; allowed: FILE=SHARE, for instance valid.hdf5=0.1") from None
    if not all(0 < share <= 1 for _, share in shares) or sum(share for _, share in shares) > 1 + 1e-9:
        raise Unreadable(f"{' '.join(parts)}: found shares that add up to {sum(share for _, share in shares):g}; allowed: each above "
                         "0, and 1 at most together")
    with reading(path) as (data,):
        order = np.random.default_rng(seed).permutation(len(data.names))
        bounds = np.rint(np.cumsum([0, *(share for _, share in shares)]) * len(order)).astype(int)
        said = []
        for (target, share), a, b in zip(shares, bounds, bounds[1:]):
            if a == b:
                raise Unreadable(f"{target}: a share of {share:g} of {len(order)} episodes is none")
            said.append(f"{target}: {count(*write(target, [(data, [data.names[i] for i in sorted(order[a:b])])]))}")
        rest = [data.names[i] for i in sorted(order[bounds[-1]:])]
        print(f"{path}: {count(*data.total())}; {'; '.join(said)}; left out: {count(*data.total(rest))}{named(rest)}")


def split_lists(path: Path, parts: list[str], share: float, seed: int) -> None:
    """A copy whose lists /mask/train and /mask/valid data.filter_key and data.validation_filter take, as robomimic's."""
    if len(parts) != 1 or "=" in parts[0]:
        raise Unreadable(f"{' '.join(parts)}: found {len(parts)} part{'s' * (len(parts) != 1)}; allowed with --mask: the name of one "
                         "file, which has all episodes")
    with reading(path) as (data,):
        if data.layout != "robomimic":
            raise Unreadable(f"{path}: found {data.layout}'s layout; allowed with --mask: robomimic's, which has lists of episodes")
        held_out = round(share * len(data.names))
        if not 0 < held_out < len(data.names):
            raise Unreadable(f"--mask {share:g}: found {held_out} of {len(data.names)} episodes to hold out; allowed: a share that takes "
                             "one at least and leaves one")
        chosen = set(np.random.default_rng(seed).permutation(len(data.names))[:held_out].tolist())
        lists = {mask: [name for i, name in enumerate(data.names) if (i in chosen) == (mask == "valid")] for mask in ("train", "valid")}
        replaced = [f"mask/{mask} of {len(names)} episode{'s' * (len(names) != 1)}"
                    for mask, names in data.masks().items() if mask in lists]
        written = write(Path(parts[0]), [(data, data.names)], lists)
        print(f"{path}: {count(*data.total())}; {parts[0]}: {count(*written)}; left out: {count(0, 0)}; mask/train: "
              f"{count(*data.total(lists['train']))}; mask/valid: {count(*data.total(lists['valid']))}"
              + (f"; in place of those of {path}: {', '.join(replaced)}" if replaced else ""))


def names_of(text: str, data: DataSet) -> set[str]:
    """The episodes that --episodes names; each has to be there."""
    there = {data.number(name): name for name in data.names}
    found: set[str] = set()
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        if not match:
            raise Unreadable(f"--episodes {text}: found '{part}'; allowed: numbers and ranges, for instance 0,3,7-12")
        first, last = int(match[1]), int(match[2] or match[1])
        if first > last:
            raise Unreadable(f"--episodes {text}: found {part}, which runs backwards; allowed: {last}-{first}")
        for number in range(first, last + 1):
            if number not in there:
                raise Unreadable(f"{data.path}: --episodes {text}: found {number}; allowed: the file's {len(there)} "
                                 f"episodes, from {min(there)} to {max(there)}")
            found.add(there[number])
    return found


def filtered(path: Path, target: Path, given: argparse.Namespace) -> None:
    with reading(path) as (data,):
        masks = data.masks()
        if given.mask and given.mask not in masks:
            raise Unreadable(f"{path}: found no list /mask/{given.mask}; there are: {', '.join(masks) or 'none'}")
        wanted = names_of(given.episodes, data) if given.episodes is not None else None
        kept, reasons = [], {}
        for name in data.names:
            steps, why = data.steps(name), ""
            if wanted is not None and name not in wanted:
                why = "not named"
            elif given.mask and name not in masks[given.mask]:
                why = f"not in {given.mask}"
            elif steps < given.min_length or (given.max_length is not None and steps > given.max_length):
                why = f"{steps} steps"
            elif given.min_return is not None:
                if "rewards" not in data.group[name]:
                    raise Unreadable(f"{path}: {name} has no rewards, for --min-return")
                value = float(data.group[name]["rewards"][()].sum())
                why = "" if value >= given.min_return else f"return {value:.4g}"
            if why:
                reasons[name] = why
            else:
                kept.append(name)
        if not kept:
            raise Unreadable(f"{path}: no episode of {len(data.names)} passes")
        written = write(target, [(data, kept)])
        print(f"{path}: {count(*data.total())}; {target}: {count(*written)}; left out: {count(*data.total(list(reasons)))}"
              f"{named([f'{name}: {why}' for name, why in reasons.items()])}")


def converted(path: Path, target: Path) -> str:
    if path.is_file() and h5py.is_hdf5(path):
        with open_file(path) as file:
            if layout := layout_of(file):
                raise Unreadable(f"{path} is in {layout}'s layout already and needs no conversion: imitate, "
                                 "inspect and the other verbs here read it as it is")
    return convert(path, target)


def source(name: str) -> Path:
    """The file of a data set, which may be given by its folder where it is one of Minari's."""
    return Path(name) / MINARI_FILE if (Path(name) / MINARI_FILE).is_file() else Path(name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for name in ("trim", "filter", "convert"):
        verb = verbs.add_parser(name)
        verb.add_argument("path", type=source)
        verb.add_argument("target", type=Path)
        if name == "trim":
            verb.add_argument("--from", type=int, dest="first", help="first step, from the end where it is negative")
            verb.add_argument("--to", type=int, dest="last", help="the step after the last one")
        elif name == "filter":
            verb.add_argument("--min-return", type=float)
            verb.add_argument("--min-length", type=int, default=0)
            verb.add_argument("--max-length", type=int)
            verb.add_argument("--mask", help="a list of robomimic's, below /mask")
            verb.add_argument("--episodes", help="numbers and ranges: 0,3,7-12")
    verb = verbs.add_parser("merge")
    verb.add_argument("target", type=Path)
    verb.add_argument("paths", type=source, nargs="+")
    verb = verbs.add_parser("split")
    verb.add_argument("path", type=source)
    verb.add_argument("parts", nargs="+", metavar="FILE=SHARE")
    verb.add_argument("--mask", type=float, metavar="SHARE", help="write one file with lists for training and validation")
    verb.add_argument("--seed", type=int, default=0)
    for verb in verbs.choices.values():
        verb.add_argument("--overwrite", action="store_true", help="replace files that are there already")
    given = parser.parse_args()
    try:
        outputs = [given.target] if given.verb != "split" else [
            Path(part.rpartition("=")[0] or part) for part in given.parts]
        check_outputs(outputs, given.paths if given.verb == "merge" else [given.path], given.overwrite)
        match given.verb:
            case "trim": trim(given.path, given.target, given.first, given.last)
            case "merge": merge(given.target, given.paths)
            case "split" if given.mask is not None: split_lists(given.path, given.parts, given.mask, given.seed)
            case "split": split(given.path, given.parts, given.seed)
            case "filter": filtered(given.path, given.target, given)
            case "convert": print(converted(given.path, given.target))
    except OSError as error:
        refuse(error)


if __name__ == "__main__":
    sys.exit(main())
