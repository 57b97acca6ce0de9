"""Every verb of a CUDA build on the CUDA runtime without a device (fake_runtime.cpp), on one rank and on two: the host
never touches the device's memory, every launch is possible, and a step costs no more launches, waits and copies than it
may. `.ci/gpu` runs this file on its build; other builds have nothing for it to run.
"""

import collections
import json
import subprocess

import demonstrations
import pytest
from conftest import BUILD, PROGRAM, ROOT

CARTPOLE = "inputs/train/isaac_cartpole.yaml"
HUMANOID = "model.file=package:gymnasium/envs/mujoco/assets/humanoid.xml"
CLONE = ("imitate", "inputs/imitate/bc.yaml", "learning.steps=4", "learning.report_every=2", "learning.batch_size=64",
         "policy.hidden=[32]")


def fake(report=None, **settings):
    """Variables of the ranks."""
    environment = {"LD_PRELOAD": BUILD / "libmaniple_fake_device.so", "FAKE_DEVICE_COUNT": 2, **settings}
    return {**environment, **({"FAKE_DEVICE_REPORT": report} if report else {})}


@pytest.fixture
def maniple(maniple):
    """Runs without the self-tests of a new device, which find that no kernel runs."""
    def run(verb, *arguments, **settings):
        computes = verb in ("train", "imitate", "rollout", "evaluate", "bench")
        return maniple(verb, *arguments, *(["run.self_test=never"] if computes else []), **settings)
    return run


@pytest.fixture
def cost(maniple, tmp_path):
    """What a command asked of the device: calls by name, launches among them, and bytes by "... bytes"."""
    count = 0

    def run(*arguments):
        nonlocal count
        count += 1
        maniple(*arguments, f"output.directory={tmp_path / str(count)}", environment=fake(tmp_path / f"report{count}"))
        (path,) = tmp_path.glob(f"report{count}.*")
        found = collections.Counter()
        for name, calls in json.loads(path.read_text())["calls"].items():
            found[name] += calls["count"]
            found[f"{name} bytes"] += calls["bytes"]
            if name.startswith("synchronisation"):
                found["synchronisations"] += calls["count"]
        return found
    return run


@pytest.mark.parametrize("ranks", [1, 2])
def test_every_verb_runs(maniple, tmp_path, ranks):
    run = tmp_path / "run"

    def start(*arguments, code=0):
        return maniple(*arguments, ranks=ranks, environment=fake(), exit_code=code).stdout

    # (no kernel runs here, and doctor says so)
    start("doctor", f"output.directory={tmp_path}", code=1)
    few = ("batch.num_envs=128", "learning.checkpoint_every=1", f"output.directory={run}")
    start("train", CARTPOLE, *few, "learning.iterations=2")
    start("train", CARTPOLE, *few, "learning.iterations=3", "learning.resume=auto")
    start("train", CARTPOLE, "batch.num_envs=128", "learning.iterations=2", "evaluation.every=1", "evaluation.episodes=4",
          "task.episode_length=0.1", f"output.directory={tmp_path / 'evaluated'}", code=1)  # no episode ends
    start("rollout", HUMANOID, "batch.num_envs=70", "simulation.steps=3", "control.source=random",
          "output.trajectory.every=1", "output.trajectory.fields=[qpos, qvel, cfrc_ext]",
          f"output.directory={tmp_path / 'rollout'}")
    start("rollout", CARTPOLE, "batch.num_envs=64", "simulation.steps=3", "initial_state.source=task",
          "control.source=policy", f"control.checkpoint={run}", f"output.directory={tmp_path / 'played'}")
    start("bench", CARTPOLE, "batch.num_envs=128", "bench.steps=2", "bench.repeats=1",
          f"output.directory={tmp_path / 'bench'}")
    data = tmp_path / "data.hdf5"
    demonstrations.write_robomimic(data, demonstrations.episodes())
    start(*CLONE, f"data.file={data}", f"output.directory={tmp_path / 'clone'}")


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("model", sorted(file.stem for file in (ROOT / "tests/reference/models").glob("*.xml")))
def test_every_kind_of_model(maniple, tmp_path, model, ranks):
    """Those with which physics is compared: meshes, height fields, tendons, muscles, equality constraints, noslip ..."""
    maniple("rollout", f"model.file=tests/reference/models/{model}.xml", "batch.num_envs=70", "simulation.steps=2",
            f"simulation.precision={'single' if ranks == 1 else 'double'}", "control.source=random",
            "output.trajectory.every=1", "output.trajectory.fields=[qpos, qvel, xpos, ncon]",
            f"output.directory={tmp_path / 'run'}", ranks=ranks, environment=fake())


# terrain with curricula, events that vary the model, mocap bodies, states that settle, forces as stepped
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("task", [
    "dm_control/dog_fetch", "dm_control/manipulator_insert_peg", "dm_control/quadruped_walk", "dm_control/stacker_stack_4",
    "gymnasium/pusher_v5", "isaac/humanoid", "mjlab/g1_flat", "mjlab/go1_rough"])
def test_every_kind_of_task(maniple, tmp_path, task, ranks):
    deck = (f"inputs/train/{task}.yaml", "batch.num_envs=64", "policy.hidden=[16]")
    run = tmp_path / "run"
    maniple("train", *deck, "learning.iterations=2", "learning.horizon=4", "learning.minibatches=2", "learning.epochs=1",
            "evaluation.every=0", f"output.directory={run}", ranks=ranks, environment=fake())
    maniple("rollout", *deck, "simulation.steps=2", "initial_state.source=task", "control.source=policy",
            f"control.checkpoint={run}", "output.trajectory.every=1",
            "output.trajectory.fields=[qpos, observation, reward, terminated]",
            f"output.directory={tmp_path / 'played'}", ranks=ranks, environment=fake())


LEARNERS = {
    "recurrent": ("train", CARTPOLE, "batch.num_envs=128", "learning.iterations=1", "policy.recurrent=gru",
                  "policy.recurrent_units=8"),
    "lstm with a mixture": (*CLONE, "policy.recurrent=lstm", "policy.recurrent_units=12", "policy.recurrent_horizon=5",
                            "learning.loss=gmm", "policy.modes=3"),
    "diffusion": ("imitate", "inputs/imitate/diffusion.yaml", "learning.steps=4", "learning.batch_size=64",
                  "learning.warmup_steps=2", "diffusion.down_dims=[16, 32]", "diffusion.groups=4", "diffusion.kernel_size=3",
                  "diffusion.step_embedding=16"),
    "pictures": ("imitate", "inputs/imitate/bc_image.yaml", "learning.steps=4", "learning.batch_size=16",
                 "image.base_width=4", "image.keypoints=8", "image.features=12", "image.crop=[36, 38]",
                 "data.observations=[position, front]"),
}


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("learner", LEARNERS)
def test_every_learner(maniple, tmp_path, learner, ranks):
    arguments = LEARNERS[learner]
    if arguments[0] == "imitate":
        made = demonstrations.episodes(shortest=9)
        images = demonstrations.pictures(made, {"front": (40, 44, 3)}) if learner == "pictures" else None
        demonstrations.write_robomimic(tmp_path / "demos.hdf5", made, images=images)
        if learner != "pictures":
            arguments = (*arguments, "data.observations=[position, velocity]")
        arguments = (*arguments, f"data.file={tmp_path / 'demos.hdf5'}")
    maniple(*arguments, f"output.directory={tmp_path / 'run'}", ranks=ranks, environment=fake())


def test_what_computes_nothing_needs_no_device(maniple):
    linked = subprocess.run(["readelf", "-d", str(PROGRAM)], capture_output=True, text=True, check=True).stdout
    assert "libcudart" in linked and "libcuda.so" not in linked
    for arguments in (["--version"], ["schema"], ["validate", CARTPOLE]):
        maniple(*arguments, ranks=0)
    for settings in ({}, fake(FAKE_DEVICE_COUNT=0)):  # no driver; a driver without a device
        said = maniple("rollout", HUMANOID, "simulation.steps=1", exit_code=1, environment=settings).stderr
        assert "this build needs a GPU, and there is none that it can use" in said
        assert "validate, inspect and schema need none" in said


def test_another_generation_of_devices_is_refused(maniple):
    said = maniple("rollout", HUMANOID, exit_code=2, environment=fake(FAKE_DEVICE_CAPABILITY="8.0")).stderr
    assert "this build is for GPUs of compute capability 9.0" in said and "has 8.0" in said


def test_a_batch_too_large_for_the_device_is_refused_by_its_key(maniple, tmp_path):
    deck = (HUMANOID, "simulation.steps=1", f"output.directory={tmp_path}")
    settings = fake(FAKE_DEVICE_MEMORY=4 * 10**9)
    maniple("rollout", *deck, "batch.num_envs=1024", environment=settings)
    said = maniple("rollout", *deck, "batch.num_envs=10000000", "output.overwrite=true", exit_code=2,
                   environment=settings).stderr
    assert "batch.num_envs" in said and "(limit of device of rank 0)" in said


def test_scratch_is_that_of_the_batch(maniple, tmp_path):
    maniple("rollout", HUMANOID, "simulation.steps=1", "batch.num_envs=1", f"output.directory={tmp_path / 'run'}",
            environment=fake(tmp_path / "report"))
    (path,) = tmp_path.glob("report.*")
    assert json.loads(path.read_text())["most_bytes"] < 50e6


def test_what_a_control_step_may_cost(cost):
    def rollout(steps):
        return cost("rollout", CARTPOLE, "batch.num_envs=4096", f"simulation.steps={steps}", "initial_state.source=task",
                    "control.source=random")
    found = rollout(30)
    found.subtract(rollout(10))
    assert found["launch"] <= 20 * 5 and found["synchronisations"] <= 20 * 12, found
    assert found["allocation"] == 0 and found["memset bytes"] == 0, found
    assert found["copy device to host, pageable bytes"] + found["copy device to host bytes"] <= 20 * 64, found


def test_what_a_minibatch_may_cost(cost):
    def train(epochs):
        return cost("train", CARTPOLE, "batch.num_envs=512", "learning.iterations=2", f"learning.epochs={epochs}",
                    "learning.minibatches=4")
    found = train(6)
    found.subtract(train(2))
    minibatches = 2 * 4 * 4
    assert found["launch"] <= minibatches * 6 and found["synchronisations"] <= minibatches * 14, found
    assert found["allocation"] <= minibatches, found
    # the sums are one array of doubles, cleared once
    assert found["memset bytes"] <= minibatches * 1e6, found
    assert found["copy device to host, pageable bytes"] <= minibatches * 4096, found
    assert found["ncclAllReduce"] == 0, found
