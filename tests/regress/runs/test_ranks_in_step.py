"""Ranks that have diverged are named with what differs, and
the run ends on all ranks; files written before stay good."""
# ctest: PROCESSORS 1 COST 25

import re
import shutil
import subprocess

import h5py
import numpy as np
import pytest

from conftest import ENVIRONMENT, of_the_day
from demonstrations import episodes, write_robomimic

CARTPOLE = ["inputs/train/isaac_cartpole.yaml", "batch.num_envs=256", "learning.iterations=40", "learning.horizon=8"]


@pytest.fixture(scope="module")
def demos(tmp_path_factory):
    return write_robomimic(tmp_path_factory.mktemp("data") / "demos.hdf5", episodes(24))


def cloning(demos):
    return ["inputs/imitate/bc.yaml", f"data.file={demos}", "data.observations=[position, velocity]",
            "policy.hidden=[32, 32]", "learning.steps=400", "learning.report_every=40", "learning.batch_size=96"]


LARGE = ["learning.batch_size=256"]


def different_ranks(maniple, ranks, line, odd=1, timeout=60):
    """A launch in which `{}` of a shell line is another word on one rank."""
    script = f'case $OMPI_COMM_WORLD_RANK in {odd}) w=odd;; *) w=usual;; esac; ' + line.replace("{}", "$w")
    return subprocess.run(["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(ranks), "sh", "-c", script],
                          cwd=maniple.root, env=ENVIRONMENT, capture_output=True, text=True, timeout=timeout)


def error_of(result, code=1):
    assert result.returncode == code, result.stdout + result.stderr
    assert result.stderr.count("maniple: error:") == 1, result.stderr
    return re.search("maniple: error: (.*)", result.stderr).group(1)


@pytest.mark.parametrize("verb, ranks, odd", of_the_day([("imitate", 3, 2), ("imitate", 3, 0), ("train", 2, 1)],
                                                        ("imitate", 3, 2), ("train", 2, 1)))
def test_a_flipped_bit_is_found_within_an_interval(maniple, preload, tmp_path, demos, verb, ranks, odd):
    """Every rank makes two products by BLAS an update and block of 32, which a large batch has; the fault comes in the
    second iteration, behind a checkpoint."""
    deck = [*cloning(demos), *LARGE] if verb == "imitate" else [*CARTPOLE, "learning.epochs=4", "learning.minibatches=4"]
    keys = [*deck, "learning.blas_width=1", "learning.check_ranks_every=10", "learning.checkpoint_every=1",
            f"output.directory={tmp_path / 'run'}"]
    fault = {"LD_PRELOAD": preload("flip"), "FLIP_RANK": str(odd), "FLIP_AFTER": "300" if verb == "imitate" else "1500"}
    message = error_of(maniple(verb, *keys, ranks=ranks, environment=fault, exit_code=1, timeout=60))
    found = re.fullmatch(r"ranks out of step in iteration (\d+): rank (\d) \(host \S+, pid \d+\) differs in (.*); from "
                         r"rank (\d) \(host \S+, pid \d+\)(.*)", message)
    assert found, message
    within, rank, names, other, rest = found.groups()
    iteration = int(within) - 1
    assert int(rank) == odd and int(other) == (0 if odd else 1)
    assert rest == (" and 1 more, which are equal" if ranks == 3 else "")
    assert "policy/layer" in names
    # what was written is of before, and goes on
    checkpoints = maniple.checkpoints(tmp_path / "run")
    assert checkpoints and int(checkpoints[-1].stem) == iteration > 0
    more = ["learning.resume=auto",
            f"learning.iterations={iteration + 1}" if verb == "train" else f"learning.steps={40 * (iteration + 1)}"]
    digests = set()
    for directory in ("run", "whole"):
        maniple(verb, *keys, *more, f"output.directory={tmp_path / directory}", ranks=ranks)
        digests.add(maniple.digest(tmp_path / directory / "results.h5"))
    assert len(digests) == 1


def test_a_checkpoint_is_never_written_of_ranks_out_of_step(maniple, preload, tmp_path, demos):
    fault = {"LD_PRELOAD": preload("flip"), "FLIP_RANK": "1", "FLIP_AFTER": "300"}
    message = error_of(maniple("imitate", *cloning(demos), *LARGE, "learning.blas_width=1", "learning.check_ranks_every=0",
                               f"output.directory={tmp_path / 'run'}", ranks=2, environment=fault, exit_code=1))
    assert "ranks out of step at a checkpoint: rank 1 " in message
    assert not maniple.checkpoints(tmp_path / "run")


def test_other_demonstrations_under_the_same_name(maniple, tmp_path, demos):
    """As on a node whose copy of the file is older: one number differs."""
    for name in ("usual", "odd"):
        (tmp_path / name).mkdir()
        shutil.copy(demos, tmp_path / name / "demos.hdf5")
    with h5py.File(tmp_path / "odd/demos.hdf5", "r+") as file:
        file["data/demo_3/obs/velocity"][2, 1] += 1e-3
    deck = cloning("/proc/self/cwd/demos.hdf5")
    keys = " ".join(f"'{key}'" for key in [maniple.root / deck[0], *deck[1:], f"output.directory={tmp_path / 'run'}"])
    result = different_ranks(maniple, 3, f"cd {tmp_path}/{{}} && exec {maniple.program} imitate {keys}")
    assert re.match(r"ranks out of step at the start: rank 1 \(host \S+, pid \d+\) differs in the demonstrations; from rank 0"
                    r" \(host \S+, pid \d+\) and 1 more, which are equal$", error_of(result))


@pytest.mark.parametrize("key", of_the_day(["learning.steps=7", "learning.batch_size=95", "batch.seed=3"], "learning.steps=7"))
def test_another_deck(maniple, tmp_path, demos, key):
    """Such as one that makes another number of batches: the ranks would wait for each other for ever."""
    (tmp_path / "usual.yaml").write_text("{}\n")
    (tmp_path / "odd.yaml").write_text(re.sub(r"^(\w+)\.(\w+)=(.*)$", r"\1: {\2: \3}\n", key))
    keys = " ".join(f"'{k}'" for k in [*cloning(demos), f"output.directory={tmp_path / 'run'}"] if "steps" not in k)
    keys = keys.replace("'learning.batch_size=96'", "")
    result = different_ranks(maniple, 2, f"exec {maniple.program} imitate {keys.split()[0]} {tmp_path}/{{}}.yaml "
                             + " ".join(keys.split(" ")[1:]))
    assert "ranks out of step at the start: rank 1 " in (message := error_of(result)) and "differs in the deck;" in message
    assert not (tmp_path / "run").exists()


def test_another_program(maniple, tmp_path):
    """One byte of a constant differs."""
    program = bytearray(maniple.program.read_bytes())
    at = program.index(b"an iteration is a batch of steps and the updates on it")
    (tmp_path / "usual").symlink_to(maniple.program)
    program[at] ^= 1
    (tmp_path / "odd").write_bytes(program)
    (tmp_path / "odd").chmod(0o755)
    result = different_ranks(maniple, 3, f"exec {tmp_path}/{{}} validate {CARTPOLE[0]}", odd=2)
    assert re.match(r"ranks out of step at the start: rank 2 \(host \S+, pid \d+\) differs in the program; ", error_of(result))


def test_held_out_samples_are_worked_off_in_parts(maniple, tmp_path, demos):
    """The run may be stopped, and is compared, between any two of them, on every rank as often."""
    compared = {}
    for held_out in ("none", "all"):
        with h5py.File(demos) as source, h5py.File(tmp_path / f"{held_out}.hdf5", "w") as file:
            source.copy("data", file)
            names = sorted(file["data"])
            file["mask/train"] = np.array(names[:1], dtype="S")
            file["mask/valid"] = np.array(names[1:], dtype="S")
            held_out_samples = sum(len(file[f"data/{name}/actions"]) for name in names[1:])
        keys = ["data.filter_key=train", *(["data.validation_filter=valid"] if held_out == "all" else [])]
        text = maniple("imitate", *cloning(tmp_path / f"{held_out}.hdf5"), *keys, "learning.check_ranks_every=1", "learning.steps=4",
                       "learning.batch_size=32", "learning.report_every=4", "learning.checkpoint_every=0",
                       f"output.directory={tmp_path / held_out}", ranks=2).stdout
        compared[held_out] = int(re.search(r"compared (\d+) times?, always equal", text)[1])
    # 16 of the 32 samples of a batch are a tile of a rank; so are parts of those that are held out
    parts = -(-held_out_samples // 32 // 2)
    assert compared["all"] - compared["none"] >= parts > 1


def test_the_report_at_the_end(maniple, tmp_path, demos):
    """In the log, in the results, and by doctor; 96 samples are 12 blocks of 8."""
    for verb, deck, shares in (("imitate", [*cloning(demos), "learning.check_ranks_every=90"], [48, 48]),
                               ("train", [*CARTPOLE, "learning.check_ranks_every=7"], [128, 128])):
        directory = tmp_path / verb
        text = maniple(verb, *deck, f"output.directory={directory}", ranks=2).stdout
        report = maniple("doctor", directory, ranks=0).stdout
        assert report and report in text
        head, titles, *rows = report.splitlines()
        assert re.match(r"2 ranks on 1 host, \d+ (samples of an update|environments), [\d.]+ s:", head)
        assert titles.split()[:5] == ["rank", "host", "cores", "device", "share"] and titles.split()[-1] == "busy"
        assert [int(row.split()[4]) for row in rows[:2]] == shares
        for row in rows[:2]:
            stages = [float(part) for part in re.findall(r"([\d.]+)%", row)]
            assert sum(stages[:-1]) == pytest.approx(100, abs=0.5)
        compared = re.match(r"in step: .* compared (\d+) times?, always equal \([\d.e-]+% of the time\)", rows[2])
        assert int(compared[1]) >= (5 if verb == "imitate" else 40 * 24 // 7)
        assert rows[3].startswith("communication: ")
        with h5py.File(directory / "results.h5") as file:
            ranks = file["ranks"]
            assert list(ranks["share"]) == shares
            stages = set(ranks) - {"share", "total", "running", "report"}
            assert {"update", "communication", "waiting", "rest"} < stages
            for rank in range(2):
                assert sum(ranks[name][rank] for name in stages) == pytest.approx(ranks["total"][rank], rel=0.01)
                assert 0 < ranks["running"][rank] <= 1.01 * ranks["total"][rank]


def test_doctor_says_what_it_lacks(maniple, tmp_path):
    result = maniple("doctor", tmp_path, ranks=2, exit_code=2)
    assert "results.h5: no such file" in result.stderr
    maniple("rollout", "inputs/tasks/isaac_cartpole.yaml", "batch.num_envs=32", "simulation.steps=2", "output.overwrite=true",
            "ensemble={batch.seed: [1, 2]}", f"output.directory={tmp_path / 'seeds'}")
    message = maniple("doctor", tmp_path / "seeds", ranks=2, exit_code=2).stderr
    assert f"{tmp_path}/seeds: the directory of 2 runs, without results of its own; the directory of one of them: " \
        f"{tmp_path}/seeds/batch.seed=1, {tmp_path}/seeds/batch.seed=2" in message
    maniple("rollout", "inputs/tasks/isaac_cartpole.yaml", "batch.num_envs=32", "simulation.steps=2",
            f"output.directory={tmp_path}")
    assert "results.h5: no report on its ranks" in maniple("doctor", tmp_path, exit_code=2).stderr
