"""Ensembles: runs of one deck with several values of its keys, in one job. Each member equals a run by itself, whatever
happens to the others."""
# ctest: PROCESSORS 1 COST 50

import csv
import re
import signal
import subprocess

import h5py
import numpy as np
import pytest
from conftest import of_the_day
from demonstrations import episodes, write_robomimic

DECK = "inputs/train/isaac_cartpole.yaml"
SMALL = [DECK, "batch.num_envs=70", "learning.horizon=24", "learning.iterations=4", "learning.checkpoint_every=2",
         "task.episode_length=0.5", "run.progress=none"]
SEEDS = "ensemble={batch.seed: [1, 2, 3]}"


def summary(directory, name="results"):
    with open(directory / f"ensemble_{name}.csv", newline="") as file:
        return {row["member"]: row for row in csv.DictReader(file)}


def same_bits(one, other, maniple):
    """Of all results and checkpoints but for where and when they were made."""
    files = sorted(path.relative_to(one) for path in one.rglob("*.h5"))
    assert files and files == sorted(path.relative_to(other) for path in other.rglob("*.h5"))
    for file in files:
        assert maniple.digest(one / file) == maniple.digest(other / file), file
        apart = [f"--exclude-path=/{path}" for path in ("run", "ranks", "metrics/wall_seconds", "metrics/loader_wait")]
        result = subprocess.run(["h5diff", *apart, one / file, other / file], capture_output=True, text=True)
        assert result.returncode == 0, result.stdout + result.stderr


@pytest.fixture(scope="module")
def alone(maniple, tmp_path_factory):
    """The members as runs of their own."""
    directory = tmp_path_factory.mktemp("alone")
    for seed in (1, 2, 3):
        maniple("train", *SMALL, f"batch.seed={seed}", f"output.directory={directory}/batch.seed={seed}")
    return directory


WAYS = {1: "one after the other", 2: "2 at a time, each on a rank of its own",
        3: "all at the same time, each on a rank of its own", 7: "all at the same time, each on 2 or 3 of 7 ranks"}


@pytest.mark.parametrize("ranks", of_the_day(WAYS, 2, 7))
def test_members_have_the_bits_of_runs_alone(maniple, tmp_path, alone, ranks):
    out = maniple("train", *SMALL, SEEDS, f"output.directory={tmp_path}", ranks=ranks).stdout
    assert f"ensemble of 3 members over batch.seed: {WAYS[ranks]}" in out
    rows = summary(tmp_path)
    assert list(rows) == ["batch.seed=1", "batch.seed=2", "batch.seed=3"]
    returns = []
    for name, row in rows.items():
        same_bits(tmp_path / name, alone / name, maniple)
        with h5py.File(tmp_path / name / "results.h5") as file:
            for metric, values in file["metrics"].items():
                np.testing.assert_equal(float(row[metric]), values[-1])
            returns.append(file["metrics/episode_return_100"][-1])
            # itself a deck, of this member alone
            resolved = file["run/resolved"][()].decode()
        assert f"  seed: {name[-1]}\n" in resolved and "ensemble" not in resolved
        assert (row["ending"], row["batch.seed"]) == ("done", name[-1])
        assert (tmp_path / name / "log.jsonl").read_text().count('"event": "iteration"') == 4
        assert not (tmp_path / name / "run.lock").is_symlink()
        assert re.search(rf"^{name}: results: ", out, re.M), "lines of members begin with their names"
    mean = re.search(r"^episode_return_100 (\S+) \+- \S+ \(95 %, 3 seeds\)$", out, re.M)
    assert float(mean[1]) == pytest.approx(np.mean(returns), rel=1e-3)



@pytest.mark.parametrize("ranks", of_the_day([1, 3, 5], 5))
def test_imitation(maniple, tmp_path, ranks):
    """Members share no numbers, and each is the run that it would be alone, on however many ranks."""
    data = write_robomimic(tmp_path / "demos.hdf5", episodes(6))
    keys = [f"data.file={data}", "policy.hidden=[16]", "learning.batch_size=50", "learning.steps=12",
            "learning.report_every=4", "run.progress=none"]
    members = {"batch.seed=1,learning.loss=l2": ["batch.seed=1", "learning.loss=l2"],
               "batch.seed=1,learning.loss=gmm": ["batch.seed=1", "learning.loss=gmm"],
               "batch.seed=2,learning.loss=l2": ["batch.seed=2", "learning.loss=l2"],
               "batch.seed=2,learning.loss=gmm": ["batch.seed=2", "learning.loss=gmm"]}
    for name, own in members.items():
        maniple("imitate", *keys, *own, f"output.directory={tmp_path / 'alone' / name}")
    root = tmp_path / "together"
    maniple("imitate", *keys, "ensemble={batch.seed: [1, 2], learning.loss: [l2, gmm]}", f"output.directory={root}", ranks=ranks)
    rows = summary(root)
    assert set(rows) == set(members) and all(row["ending"] == "done" for row in rows.values())
    for name in members:
        same_bits(tmp_path / "alone" / name, root / name, maniple)
        with h5py.File(root / name / "results.h5") as file:
            assert float(rows[name]["loss"]) == file["metrics/loss"][-1]


def test_a_grid(maniple, tmp_path):
    deck = tmp_path / "deck.yaml"
    deck.write_text(f"include: {maniple.root / DECK}\nensemble:\n  learning: {{gamma: [0.9, 0.99]}}\n"
                    "  policy.hidden: [[8, 8], [16]]\n  batch.seed: [5, 6]\n")
    out = maniple("train", deck, *SMALL[1:], f"output.directory={tmp_path / 'run'}", ranks=4).stdout
    rows = summary(tmp_path / "run")
    assert list(rows) == [f"learning.gamma={gamma},policy.hidden={hidden},batch.seed={seed}"
                          for gamma in ("0.9", "0.99") for hidden in ("8_8", "16") for seed in (5, 6)]
    for name, row in rows.items():
        with h5py.File(tmp_path / "run" / name / "results.h5") as file:
            resolved = file["run/resolved"][()].decode()
        assert f"gamma: {row['learning.gamma']}\n" in resolved and f"hidden: {row['policy.hidden']}\n" in resolved
    assert len(re.findall(r"^learning.gamma=\S+, policy.hidden=\[.*\]: episode_return_100 .* 2 seeds\)$", out, re.M)) == 4
    # without it the deck is one run
    maniple("train", deck, *SMALL[1:], "learning.iterations=1", "ensemble=~", f"output.directory={tmp_path / 'one'}")
    assert (tmp_path / "one/results.h5").exists()


def test_evaluate_and_rollout(maniple, tmp_path, alone):
    policies = tmp_path / "policies"
    maniple("train", *SMALL, SEEDS, f"output.directory={policies}", ranks=3)
    maniple("evaluate", *SMALL, SEEDS, f"control.checkpoint={policies}", f"output.directory={policies}", ranks=2)
    rows = summary(policies, "evaluation")
    for name in rows:
        maniple("evaluate", *SMALL, name, f"control.checkpoint={alone / name}", f"output.directory={tmp_path / name}")
        same_bits(tmp_path / name, policies_of(policies / name, tmp_path / "copy" / name), maniple)
    # of one policy: another key
    out = maniple("evaluate", *SMALL, "ensemble={evaluation.deterministic: [true, false]}",
                  f"control.checkpoint={policies}/batch.seed=1", f"output.directory={tmp_path / 'both'}", ranks=2).stdout
    assert out.count("policy of iteration 4") == 2
    both = summary(tmp_path / "both", "evaluation")
    assert len({row["mean_return"] for row in both.values()}) == 2
    maniple("rollout", DECK, "batch.num_envs=40", "simulation.steps=20", "control.source=random", "output.trajectory.every=2",
            "initial_state.source=task", SEEDS, f"output.directory={tmp_path / 'rollout'}", ranks=2)
    maniple("rollout", DECK, "batch.num_envs=40", "simulation.steps=20", "control.source=random", "output.trajectory.every=2",
            "initial_state.source=task", "batch.seed=2", f"output.directory={tmp_path / 'r2'}")
    same_bits(tmp_path / "rollout/batch.seed=2", tmp_path / "r2", maniple)


def policies_of(directory, copy):
    """The evaluation alone, in a directory of its own."""
    copy.mkdir(parents=True)
    (copy / "evaluation.h5").write_bytes((directory / "evaluation.h5").read_bytes())
    return copy


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.nightly
def test_killed_and_resumed(maniple, tmp_path, alone, ranks):
    arguments = ["train", *SMALL, SEEDS, f"output.directory={tmp_path}", "learning.resume=auto"]
    process = maniple.start(*arguments, ranks=ranks)
    maniple.wait_for(lambda: list(tmp_path.glob("*/checkpoints/2.h5")), "a checkpoint", process=process)
    maniple.kill_all(process)
    maniple(*arguments, ranks=3)
    for name, row in summary(tmp_path).items():
        assert row["ending"] == "done"
        assert maniple.digest(tmp_path / name / "results.h5") == maniple.digest(alone / name / "results.h5")
        assert maniple.digest(tmp_path / name / "checkpoints/4.h5") == maniple.digest(alone / name / "checkpoints/4.h5")


def test_stopped_by_a_signal_and_resumed(maniple, tmp_path):
    # one rank for three members: those that have not begun do not begin
    arguments = ["train", *SMALL, SEEDS, f"output.directory={tmp_path}", "learning.resume=auto",
                 f"run.status_file={tmp_path / 'status'}"]
    process = maniple.start(*arguments, "learning.iterations=100000", ranks=1, log=tmp_path / "log")
    maniple.wait_for(lambda: list(tmp_path.glob("batch.seed=1/checkpoints/*.h5")), "a checkpoint", process=process)
    process.send_signal(signal.SIGUSR1)
    assert process.wait(timeout=60) == 75, (tmp_path / "log").read_text()
    assert (tmp_path / "status").read_text() == "75\n"
    assert [row["ending"] for row in summary(tmp_path).values()] == ["stopped early", "not started", "not started"]
    assert not (tmp_path / "batch.seed=2").exists()
    stopped = maniple.checkpoints(tmp_path / "batch.seed=1")[-1].stem
    maniple(*arguments, f"learning.iterations={int(stopped) + 2}", ranks=3)
    assert {row["ending"] for row in summary(tmp_path).values()} == {"done"}
    assert (tmp_path / "status").read_text() == "0\n"


def test_a_stopped_member_stops_no_other(maniple, tmp_path):
    arguments = ["train", *SMALL, SEEDS, f"output.directory={tmp_path}"]
    (tmp_path / "batch.seed=1").mkdir()
    (tmp_path / "batch.seed=1/stop_now").touch()
    maniple(*arguments, ranks=1, exit_code=75)
    assert [row["ending"] for row in summary(tmp_path).values()] == ["stopped early", "done", "done"]


@pytest.mark.parametrize("ranks", of_the_day([1, 2, 6], 6))
def test_a_failing_member_is_named_and_the_others_finish(maniple, tmp_path, ranks):
    # a directory where a file shall be: checkpoints of this member cannot be written
    broken = tmp_path / "run/batch.seed=2/checkpoints"
    broken.parent.mkdir(parents=True)
    broken.write_text("in the way")
    result = maniple("train", *SMALL, SEEDS, f"output.directory={tmp_path / 'run'}", ranks=ranks, exit_code=1)
    assert re.search(r"^warning: batch.seed=2: failed: .*checkpoints", result.stderr, re.M)
    message = re.search(r"^maniple: error: (.*)$", result.stderr, re.M)[1]
    assert message.startswith("1 of 3 members of the ensemble failed: batch.seed=2: ")
    rows = summary(tmp_path / "run")
    assert [row["ending"] for row in rows.values()] == ["done", "failed", "done"]
    assert rows["batch.seed=2"]["message"] in message and rows["batch.seed=2"]["episode_return_100"] == ""
    for seed in (1, 3):
        assert len(maniple.checkpoints(tmp_path / f"run/batch.seed={seed}")) == 2
    # what was in its way gone, it continues; the others have nothing left to do
    broken.unlink()
    maniple("train", *SMALL, SEEDS, f"output.directory={tmp_path / 'run'}", "learning.resume=auto", ranks=ranks)
    assert {row["ending"] for row in summary(tmp_path / "run").values()} == {"done"}


def refused(maniple, *arguments, ranks=2):
    result = maniple(*arguments, ranks=ranks, exit_code=2)
    messages = re.findall(r"^maniple: error: (.*)$", result.stderr, re.M)
    assert len(messages) == 1, result.stderr
    return messages[0]


@pytest.mark.parametrize("ensemble, words", [
    ("{batch.sed: [1, 2]}", "batch.sed: found an unknown key; nearest known key: batch.seed"),
    ("{batch.seed: []}", r"ensemble.batch.seed: found a list of 0; allowed: a list of values of batch.seed"),
    ("{batch.seed: 3}", r"ensemble.batch.seed: found '3'; allowed: a list of values"),
    ("{batch.seed: [1, two]}", "batch.seed: found 'two'; allowed: integer, 0 to"),
    ("{learning.minibatches: [1, 1000]}", "learning.minibatches: found 1000 with learning.horizon 24"),
    ("{batch.seed: [1, 2, 1]}", "ensemble.batch.seed: found '1' after '1', with the same directory batch.seed=1"),
    ("{learning.gamma: [0.9, 0.90]}", "ensemble: found the members learning.gamma=0.9 and learning.gamma=0.90, which are the same run"),
    ("{task.name: [a b, a_b]}", "found 'a_b' after 'a b', with the same directory task.name=a_b"),
    ("{output.directory: [a, b]}", "ensemble.output.directory: found a key that members have in common"),
    ("{batch.seed: [1, ]}", None),
    ("[1, 2]", "ensemble: found [1, 2]; allowed: a mapping from keys to lists of values"),
    ("{batch.seed: [" + ", ".join(map(str, range(50))) + "], learning.horizon: [" + ", ".join(map(str, range(1, 50))) + "]}",
     "found 2450 members; allowed: at most 1000"),
    ("{batch..seed: [1]}", "found the name 'batch..seed'"),
])
def test_bad_input(maniple, tmp_path, ensemble, words):
    run = tmp_path / "run"
    deck = tmp_path / "deck.yaml"
    deck.write_text(f"include: {maniple.root / DECK}\nensemble: {ensemble}\n")
    if words is None:  # a list of one is an ensemble of one
        maniple("train", deck, *SMALL[1:], f"output.directory={run}", ranks=2)
        return
    message = refused(maniple, "train", deck, *SMALL[1:], f"output.directory={run}", ranks=0)
    assert words in message and message.startswith(f"{deck}:2: "), message
    assert not run.exists()


def test_members_that_the_model_refuses(maniple, tmp_path):
    message = refused(maniple, "train", *SMALL, "ensemble={simulation.timestep: [0.001, 0.002]}",
                      "task.rewards.broken={expression: nobody}", f"output.directory={tmp_path / 'a/run'}")
    assert message.startswith("2 of 2 members of the ensemble failed: simulation.timestep=0.001, simulation.timestep=0.002: ")
    assert not list(tmp_path.iterdir())
    assert "ensemble: set, but the verb is bench; allowed: with train, imitate, rollout, evaluate, validate" in refused(
        maniple, "bench", *SMALL, SEEDS, f"output.directory={tmp_path / 'run'}")
    out = maniple("validate", *SMALL, SEEDS).stdout
    assert out.count("all good") == 3 and "member batch.seed=3" in out


def test_directories_of_members_belong_to_them(maniple, tmp_path):
    maniple("train", *SMALL, "batch.seed=2", f"output.directory={tmp_path}/batch.seed=2")
    before = maniple.digest(tmp_path / "batch.seed=2/results.h5")
    message = refused(maniple, "train", *SMALL, SEEDS, f"output.directory={tmp_path}")
    assert f"found {tmp_path}/batch.seed=2/results.h5 of train" in message
    assert not (tmp_path / "batch.seed=1").exists(), "nothing has begun"
    maniple("train", *SMALL, SEEDS, f"output.directory={tmp_path}", "learning.resume=auto")
    assert maniple.digest(tmp_path / "batch.seed=2/results.h5") == before
    # nor does another ensemble replace the table of this one
    message = refused(maniple, "train", *SMALL, "ensemble={batch.seed: [11]}", f"output.directory={tmp_path}")
    assert f"found {tmp_path}/ensemble_results.csv of an earlier ensemble" in message


@pytest.mark.parametrize("fault, words", [
    # in its second checkpoint, after more collective operations than the other member has ended with
    ({"HANG_RANK": 2, "HANG_CALL": "rename", "HANG_AFTER": 2, "preload": "hang"},
     r"run\.hang_timeout: no rank moved for \d\.0 s: rank 2 \(host .*; ranks 0, 1 waiting for others in stage 'waiting for members'"),
    ({"LONE_RANK": 3, "LONE_AFTER": 60, "preload": "lone"}, "learning.iterations=4: rank 1: MPI: MPI_Allreduce: "),
], ids=["hangs", "fails alone"])
def test_a_member_whose_ranks_do_not_agree(maniple, tmp_path, preload, alone, fault, words):
    """It cannot go on nor end; the others do, and then the job ends. What is left continues."""
    environment = {**fault, "LD_PRELOAD": preload(fault.pop("preload"))}
    arguments = ["train", *SMALL, "batch.seed=1", "ensemble={learning.iterations: [2, 4]}", f"output.directory={tmp_path}",
                 "learning.resume=auto"]
    result = maniple(*arguments, "run.hang_timeout=2", ranks=4, exit_code=1, environment=environment, timeout=120)
    assert re.search(f"^maniple: error: {words}", result.stderr, re.M), result.stderr
    assert (tmp_path / "learning.iterations=2/checkpoints/2.h5").exists()
    assert not (tmp_path / "learning.iterations=4/checkpoints/4.h5").exists()
    maniple(*arguments, ranks=2)
    same_bits(tmp_path / "learning.iterations=4", alone / "batch.seed=1", maniple)
