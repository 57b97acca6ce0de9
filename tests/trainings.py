"""Helpers of the tests of trainings: their presets, and their files, equal on any number of ranks and over kills."""

import random
import time

import h5py

# of learning.preset; the policies of imitate have tests of their own
PRESETS = ["maniple", "locomotion", "cleanrl", "sb3_zoo", "rl_games_locomotion", "rl_games_cartpole",
           "rsl_rl_locomotion", "rsl_rl_cartpole", "brax"]


def digests(maniple, directory):
    """Of the numbers of everything that is left of a training."""
    return [maniple.digest(directory / "results.h5"), *map(maniple.digest, maniple.checkpoints(directory))]


def metric(directory, name):
    with h5py.File(directory / "results.h5") as file:
        return file[f"metrics/{name}"][()]


def check_ranks(maniple, folder, *arguments, counts=(1, 2, 3)):
    """A training has the same bits on any number of ranks; its digests."""
    found = {}
    for ranks in counts:
        maniple(*arguments, f"output.directory={folder / str(ranks)}", ranks=ranks)
        found[ranks] = digests(maniple, folder / str(ranks))
        assert len(found[ranks]) > 1 and found[ranks] == found[counts[0]], f"{counts[0]} and {ranks} ranks"
    return found[counts[0]]


def check_kills(maniple, folder, *arguments, counts=(2, 3, 1), most=9):
    """A training that is killed at random, after some more of its checkpoints, and continued on other numbers of ranks, at
    last on 3, has the bits of one that is left alone."""
    arguments += ("learning.resume=auto", "learning.checkpoint_every=1", "learning.keep_checkpoints=2", "run.progress=plain")
    maniple(*arguments, f"output.directory={folder / 'whole'}", ranks=2)
    cut, chance, kills = folder / "cut", random.Random(1), 0

    def newest():
        return max((int(checkpoint.stem) for checkpoint in maniple.checkpoints(cut)), default=0)

    for attempt, ranks in enumerate(counts):
        wanted = newest() + chance.randrange(2, most)
        log = folder / f"log{attempt}"
        process = maniple.start(*arguments, f"output.directory={cut}", ranks=ranks, log=log)
        maniple.wait_for(lambda: newest() >= wanted or process.poll() is not None, "a checkpoint")
        time.sleep(chance.uniform(0, 0.03))
        kills += process.poll() is None
        assert process.poll() in (None, 0), log.read_text()
        maniple.kill_all(process)
    maniple(*arguments, f"output.directory={cut}", ranks=3)
    assert kills > 0  # (a fast machine may have been done before some of them)
    assert digests(maniple, cut) == digests(maniple, folder / "whole")
