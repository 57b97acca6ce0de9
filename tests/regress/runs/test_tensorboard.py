"""Event files of a training, which the tensorboard package reads while the run goes on, after kills and beside other
runs: they say what the results say, each row once."""
# ctest: PROCESSORS 1

import shlex
import subprocess

import numpy as np
import pytest
from maniple.results import Run
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.plugins.hparams import api_pb2
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

DECK = "inputs/tasks/pendulum_swingup.yaml"


def train(maniple, directory, iterations, *settings, **more):
    maniple("train", DECK, "batch.num_envs=64", f"learning.iterations={iterations}", "task.episode_length=0.5",
            "learning.checkpoint_every=2", "output.tensorboard=true", *settings, f"output.directory={directory}", **more)


GROUPS = {"reward_": "Reward", "termination_": "Termination", "metric_": "Metrics"}


def tag_of(name):
    """By their prefixes, and some that the tests look for by name."""
    for prefix, group in GROUPS.items():
        if name.startswith(prefix):
            return f"{group}/{name.removeprefix(prefix)}"
    if name in ("iteration", "env_steps", "wall_seconds", "updates"):
        return f"Progress/{name}"
    return f"{'Episode' if name.startswith('episode') else 'Loss' if name.endswith('_loss') else 'Learning'}/{name}"


def event_files(directory):
    return sorted(directory.glob("events.out.tfevents.*"))


def scalars(directory):
    """{tag: [(step, value) ...]}"""
    events = EventAccumulator(str(directory), size_guidance={"scalars": 0}).Reload()
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def assert_as_in_results(directory):
    found = scalars(directory)
    with Run(directory) as run:
        steps = run.metrics["env_steps"]
        assert set(found) == {tag_of(name) for name, values in run.metrics.items() if np.isfinite(values).any()}
        for name in run.metrics:
            events = found.get(tag_of(name), [])
            real = ~np.isnan(run.metrics[name])
            assert [step for step, _ in events] == steps[real].tolist(), name
            np.testing.assert_array_equal([value for _, value in events], run.metrics[name][real].astype(np.float32), name)


def test_metrics_in_tensorboard(maniple, tmp_path):
    train(maniple, tmp_path, 5, ranks=2)
    assert len(event_files(tmp_path)) == 1
    assert_as_in_results(tmp_path)


def test_a_killed_run_says_nothing_twice(maniple, tmp_path):
    """Iterations after the last checkpoint are done again: readers see the second time only. Rows come at once."""
    process = maniple.start("train", DECK, "batch.num_envs=64", "learning.iterations=100000", "task.episode_length=0.5",
                            "learning.checkpoint_every=3", "output.tensorboard=true", f"output.directory={tmp_path}")
    try:
        maniple.wait_for(lambda: event_files(tmp_path) and len(scalars(tmp_path).get("Progress/iteration", [])) >= 5, "five rows",
                         process=process)
    finally:
        maniple.kill_all(process)
    reached = int(scalars(tmp_path)["Progress/iteration"][-1][1])
    at = int(maniple.checkpoints(tmp_path)[-1].stem)
    # whatever the kill left behind the last whole record
    last = event_files(tmp_path)[-1]
    last.write_bytes(last.read_bytes() + b"\x10\0\0")
    train(maniple, tmp_path, reached + 4, "learning.checkpoint_every=3", "learning.resume=auto")
    assert len(event_files(tmp_path)) == 2 and at <= reached
    assert_as_in_results(tmp_path)


def test_a_replaced_run_is_gone(maniple, tmp_path):
    train(maniple, tmp_path, 4)
    train(maniple, tmp_path, 2, "output.overwrite=true")
    assert len(event_files(tmp_path)) == 1
    assert_as_in_results(tmp_path)


def test_records_carry_their_checksums(maniple, tmp_path):
    """The reader checks CRC-32C; a flipped bit is found where ours was right before."""
    train(maniple, tmp_path, 1)
    file = event_files(tmp_path)[0]
    assert len(list(RawEventFileLoader(str(file)).Load())) == 5
    damaged = bytearray(file.read_bytes())
    damaged[20] ^= 4
    file.write_bytes(damaged)
    assert len(list(RawEventFileLoader(str(file)).Load())) == 0


def test_none_unless_asked_for(maniple, tmp_path):
    train(maniple, tmp_path, 1, "output.tensorboard=false")
    assert event_files(tmp_path) == []


def session(directory, part):
    """One part of what the table of hyperparameters shows of a run."""
    metadata = EventAccumulator(str(directory)).Reload().SummaryMetadata(f"_hparams_/{part}")
    assert metadata.plugin_data.plugin_name == "hparams"
    return getattr(HParamsPluginData.FromString(metadata.plugin_data.content), part)


def test_hyperparameters(maniple, tmp_path):
    """Keys that were given, in a deck or on the command line, with their kinds; of an ensemble each member's own."""
    train(maniple, tmp_path, 3, "learning.gamma=0.9", "policy.hidden=[8, 8]", "policy.activation=elu", "policy.layer_norm=true")
    start, end = session(tmp_path, "session_start_info"), session(tmp_path, "session_end_info")
    given = {name: getattr(value, value.WhichOneof("kind")) for name, value in start.hparams.items()}
    assert given["learning.gamma"] == 0.9 and given["learning.iterations"] == 3 and given["policy.hidden"] == "[8, 8]"
    assert given["policy.activation"] == "elu" and given["policy.layer_norm"] is True
    assert given["simulation.decimation"] == 2  # of the deck
    assert "learning.lambda" not in given and not [name for name in given if name.startswith(("output.", "run."))]
    assert end.status == api_pb2.STATUS_SUCCESS and end.end_time_secs >= start.start_time_secs > 1e9
    assert "Episode/episode_return" in scalars(tmp_path)
    train(maniple, tmp_path / "early", 10**6, "run.wall_time=1", exit_code=75)
    session(tmp_path / "early", "session_start_info")
    with pytest.raises(KeyError):  # it goes on some day
        session(tmp_path / "early", "session_end_info")


def test_members_of_an_ensemble_need_no_quotes(maniple, tmp_path):
    """A shell takes the directory of each member as one word, whatever its values are."""
    train(maniple, tmp_path, 1, "ensemble={policy.hidden: [[8, 8], [4]], policy.activation: ['elu', \"tanh\"], "
          "task.name: ['a b; $HOME', \"it's (one) & *two* [~] <x> | `y` #!\"]}")
    members = sorted(path.parent.name for path in tmp_path.glob("*/results.h5"))
    assert len(members) == 8 and all(shlex.quote(name.replace(",", "").replace("=", "")) == name.replace(",", "").replace("=", "")
                                     for name in members), members
    echoed = subprocess.run(["bash", "-c", f"printf '%s\\n' {' '.join(members)}"], capture_output=True, text=True, check=True)
    assert echoed.stdout.splitlines() == members
    start = session(tmp_path / "policy.hidden=8_8,policy.activation=elu,task.name=a_b_HOME", "session_start_info")
    assert start.hparams["policy.hidden"].string_value == "[8, 8]" and start.hparams["task.name"].string_value == "a b; $HOME"
