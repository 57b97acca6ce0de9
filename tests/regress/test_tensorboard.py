"""Event files of a training, which the tensorboard package reads while the run goes on, after kills and beside other
runs: they say what the results say, each row once."""
# ctest: PROCESSORS 1

import numpy as np
from maniple.results import Run
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader

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
    return f"{'Episode' if name.startswith('episode_') else 'Loss' if name.endswith('_loss') else 'Learning'}/{name}"


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
    assert len(list(RawEventFileLoader(str(file)).Load())) == 3
    damaged = bytearray(file.read_bytes())
    damaged[20] ^= 4
    file.write_bytes(damaged)
    assert len(list(RawEventFileLoader(str(file)).Load())) == 0


def test_none_unless_asked_for(maniple, tmp_path):
    train(maniple, tmp_path, 1, "output.tensorboard=false")
    assert event_files(tmp_path) == []
