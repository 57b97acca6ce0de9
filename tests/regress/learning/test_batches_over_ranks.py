"""The batch of an update on several ranks: small batches of samples and of environments, accumulated batches, batches
of each rank, scaled learning rates."""
# ctest: PROCESSORS 1 COST 30

import re
from pathlib import Path

import h5py
import pytest

from conftest import of_the_day
from demonstrations import episodes, pictures, write_robomimic
from trainings import check_ranks, digests

CARTPOLE = "inputs/train/isaac_cartpole.yaml"


@pytest.fixture(scope="module")
def demos(tmp_path_factory):
    return write_robomimic(tmp_path_factory.mktemp("data") / "demos.hdf5", episodes(24))


@pytest.fixture
def imitate(maniple, tmp_path, demos):
    """Runs it, and returns its output with the digests of all that it wrote."""
    count = iter(range(100))

    def run(*keys, ranks=1, **rest):
        own = [key.partition("=")[2] for key in keys if key.startswith("output.directory=")]
        directory = Path(own[0]) if own else tmp_path / str(next(count))
        result = maniple("imitate", "inputs/imitate/bc.yaml", f"data.file={demos}", "data.observations=[position, velocity]",
                         "policy.hidden=[32, 32]", "learning.steps=20", "learning.report_every=10",
                         "learning.checkpoint_every=1", f"output.directory={directory}", *keys, ranks=ranks, **rest)
        return result, [maniple.digest(f) for f in (directory / "results.h5", *maniple.checkpoints(directory))]

    return run


CLONING = ["inputs/imitate/bc.yaml", "policy.hidden=[32, 300]"]  # more units than learning.blas_width
PICTURES = ["inputs/imitate/bc_image.yaml", "policy.hidden=[24]", "data.observations=[front]", "image.crop=[36, 36]",
            "image.base_width=4", "image.keypoints=8", "image.features=12"]
DIFFUSION = ["inputs/imitate/diffusion.yaml", "diffusion.down_dims=[16, 32]", "diffusion.groups=4", "diffusion.kernel_size=3",
             "diffusion.step_embedding=16", "learning.warmup_steps=2", "diffusion.prediction_horizon=8",
             "diffusion.action_horizon=4"]
SMALL = {
    "16": ([*CLONING, "learning.batch_size=16"], 4, [4, 4, 4, 4]),
    "24": ([*CLONING, "policy.layer_norm=true", "learning.batch_size=24"], 3, [8, 8, 8]),
    "100": ([*CLONING, "learning.batch_size=100"], 3, [32, 32, 36]),
    "sequences": ([*CLONING, "policy.recurrent=lstm", "policy.recurrent_units=20", "learning.loss=gmm", "policy.modes=3",
                   "policy.recurrent_horizon=4", "learning.batch_size=20"], 2, [10, 10]),
    "pictures": ([*PICTURES, "data.frame_stack=2", "learning.batch_size=16"], 2, [8, 8]),
    "diffusion": ([*DIFFUSION, "learning.batch_size=40"], 3, [12, 14, 14]),
    "held out": ([*CLONING, "learning.batch_size=16", "data.filter_key=train", "data.validation_filter=valid"], 3, [4, 6, 6]),
}


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """Demonstrations with images, of which the last are held out."""
    made = episodes(12)
    return write_robomimic(tmp_path_factory.mktemp("seen") / "demos.hdf5", made,
                           {"train": range(8), "valid": range(8, 12)}, pictures(made, {"front": (40, 40, 3)}))


@pytest.mark.parametrize("kind, counts", of_the_day([(kind, counts) for kind in SMALL for counts in ((1,), (1, 2, 3, 4, 5, 6))],
                                                    *[(kind, (1,)) for kind in SMALL]))
def test_small_batches_are_shared_evenly(maniple, tmp_path, seen, kind, counts):
    """Every rank has samples, and what is learned has the bits of one rank."""
    deck, ranks, shares = SMALL[kind]
    check_ranks(maniple, tmp_path, "imitate", *deck, f"data.file={seen}", "learning.steps=6", "learning.report_every=3",
                "learning.checkpoint_every=1", *([] if "data.observations=[front]" in deck else ["data.observations=[position, velocity]"]),
                counts=sorted({*counts, ranks}))
    with h5py.File(tmp_path / str(ranks) / "results.h5") as file:
        assert list(file["ranks/share"]) == shares


def test_a_small_batch_is_continued_on_other_ranks(imitate, tmp_path):
    keys = ["learning.batch_size=24", "learning.checkpoint_every=1", "learning.resume=auto"]
    _, whole = imitate(*keys, f"output.directory={tmp_path / 'whole'}")
    for steps, ranks in ((10, 3), (20, 2)):
        _, found = imitate(*keys, f"learning.steps={steps}", f"output.directory={tmp_path / 'cut'}", ranks=ranks)
    assert len(whole) > 1 and found[1:] == whole[1:]  # all checkpoints


def test_ranks_without_samples_are_named(imitate):
    result, _ = imitate("learning.batch_size=5", ranks=4)
    assert "1 of 4 ranks have no samples: ranks share the batch in blocks of 2" in result.stderr + result.stdout


WALKER = ["inputs/train/gymnasium/walker2d_v5.yaml", "policy.hidden=[24, 300]", "learning.horizon=40", "learning.minibatches=2",
          "learning.normalize_reward=true", "learning.normalize_value=false", "learning.value_bootstrap=final_observation",
          "learning.normalize_advantage_per_minibatch=true", "evaluation.every=1", "evaluation.episodes=50"]
FEW = {  # environments: a wide layer, contacts, moments of all kinds; squashed actions, whose entropy is drawn
    "cartpole": ([CARTPOLE, "batch.num_envs=40"], 3, [12, 14, 14]),
    "walker": ([*WALKER, "batch.num_envs=128"], 6, [16, 24, 24, 16, 24, 24]),
    "squashed": ([CARTPOLE, "batch.num_envs=21", "policy.squash_actions=true", "learning.entropy_coef=0.01"], 2, [10, 11]),
    "recurrent": ([CARTPOLE, "batch.num_envs=64", "policy.recurrent=gru"], 2, [32, 32]),
}


@pytest.mark.parametrize("kind, counts", of_the_day([(kind, counts) for kind in FEW for counts in ((1,), (1, 2, 3, 4, 5, 6))],
                                                    ("cartpole", (1,)), ("walker", (1,)), ("squashed", (1,))))
def test_few_environments_are_shared_evenly(maniple, tmp_path, kind, counts):
    deck, ranks, shares = FEW[kind]
    check_ranks(maniple, tmp_path, "train", *deck, "learning.iterations=3", "learning.checkpoint_every=1",
                counts=sorted({*counts, ranks}))
    with h5py.File(tmp_path / str(ranks) / "results.h5") as file:
        assert list(file["ranks/share"]) == shares


@pytest.mark.parametrize("verb", ["validate", "rollout"])
def test_ranks_without_environments_are_named(maniple, tmp_path, verb):
    result = maniple(verb, CARTPOLE, "batch.num_envs=5", f"output.directory={tmp_path / 'run'}",
                     ranks=4)
    assert "warning: 1 of 4 ranks have no environments: ranks share the batch in blocks of 2" in result.stdout + result.stderr


def test_few_environments_are_continued_on_other_ranks(maniple, tmp_path):
    keys = [CARTPOLE, "batch.num_envs=37", "learning.checkpoint_every=1", "learning.resume=auto"]
    maniple("train", *keys, "learning.iterations=4", f"output.directory={tmp_path / 'whole'}")
    for iterations, ranks in ((2, 5), (4, 3)):
        maniple("train", *keys, f"learning.iterations={iterations}", f"output.directory={tmp_path / 'cut'}", ranks=ranks)
    found, whole = (digests(maniple, tmp_path / name)[1:] for name in ("cut", "whole"))  # of the checkpoints
    assert whole and found == whole


def test_few_environments_are_recorded_by_all_ranks(maniple, tmp_path):
    """Trajectories and a data set, from ranks that begin in the midst of a tile."""
    found = []
    for ranks in (1, 3, 5):
        directory = tmp_path / str(ranks)
        maniple("rollout", "inputs/tasks/gymnasium/walker2d_v5.yaml", "batch.num_envs=41", "control.source=random",
                "initial_state.source=task", "simulation.steps=60", "output.trajectory.every=4", "output.dataset=robomimic",
                "output.trajectory.fields=[qpos, qvel, ncon, observation, reward, terminated]",
                f"output.directory={directory}", ranks=ranks)
        found.append([maniple.digest(directory / name) for name in ("results.h5", "demonstrations.hdf5")])
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("size, parts", [(60, 3), (7, 40)])
def test_accumulated_batches_have_the_bits_of_one(imitate, size, parts):
    """Also where parts are no whole blocks of samples, or there are more parts than blocks."""
    _, whole = imitate(f"learning.batch_size={size * parts}")
    for ranks in (1, 2, 3):
        result, found = imitate(f"learning.batch_size={size}", f"learning.accumulate={parts}", ranks=ranks)
        assert found == whole
        assert f"effective batch: {size * parts} samples, {size} x {parts} parts" in result.stdout


def test_accumulated_batches_take_the_memory_of_one(maniple, demos, tmp_path):
    """Of the blocks that wait for the trainer: 32 samples instead of 416. What is said is what is held."""
    said, held = [], []
    for size, parts in ((32, 13), (416, 1)):
        directory, log = tmp_path / str(size), tmp_path / f"log{size}"
        process = maniple.start("imitate", "inputs/imitate/bc.yaml", f"data.file={demos}", "policy.hidden=[32, 32]",
                                "data.observations=[position, velocity]", "data.frame_stack=10", "data.prefetch=1000",
                                f"learning.batch_size={size}", f"learning.accumulate={parts}", "learning.steps=1000000",
                                "learning.report_every=1", "learning.checkpoint_every=1", f"output.directory={directory}",
                                log=log)
        maniple.wait_for(lambda: maniple.checkpoints(directory), "a checkpoint", process=process)
        (rank,) = maniple.ranks_of(process)
        with open(f"/proc/{rank}/status") as status:
            held.append(next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM")))
        maniple.kill_all(process)
        said.append(1e6 * float(re.search(r"memory: ([\d.]+) MB of data", log.read_text())[1]))
    assert 12 < said[1] / said[0] < 13.1 and said[1] - said[0] > 60e6
    assert held[1] - held[0] == pytest.approx(said[1] - said[0], rel=0.1)


def test_a_batch_of_each_rank(imitate):
    _, whole = imitate("learning.batch_size=120")
    for ranks in (2, 3):
        result, found = imitate(f"learning.batch_size={120 // ranks}", "learning.batch_per_rank=true", ranks=ranks)
        assert found == whole
        assert f"effective batch: 120 samples, {120 // ranks} x {ranks} ranks" in result.stdout
        assert "the result depends on the number of ranks" in result.stdout
    result, found = imitate("learning.batch_size=20", "learning.batch_per_rank=true", "learning.accumulate=3", ranks=2)
    assert found == whole
    assert "effective batch: 120 samples, 20 x 3 parts x 2 ranks" in result.stdout


def test_a_batch_of_each_rank_is_continued_with_an_equal_batch_alone(imitate, tmp_path):
    keys = ["learning.batch_size=30", "learning.batch_per_rank=true", "learning.resume=auto",
            f"output.directory={tmp_path / '0'}"]
    imitate(*keys, ranks=2)
    result, _ = imitate(*keys, ranks=3, exit_code=2, timeout=60)
    assert "learning.batch_size: an effective batch of 90; the checkpoint to continue from has 60" in result.stderr
    imitate(*keys, "learning.batch_per_rank=false", "learning.batch_size=60", "learning.steps=30", ranks=3)


@pytest.mark.parametrize("rule, base", [("linear", 60), ("sqrt", 30)])
def test_the_learning_rate_follows_the_batch(imitate, rule, base):
    _, twice = imitate("learning.batch_size=120", "learning.learning_rate=2e-3", "learning.schedule=linear")
    result, found = imitate("learning.batch_size=60", "learning.batch_per_rank=true", "learning.learning_rate=1e-3",
                            "learning.schedule=linear", f"learning.lr_scaling={rule}", f"learning.lr_base_batch={base}",
                            ranks=2)
    assert found == twice
    assert f"learning rate: 0.002, 0.001 for {base} samples scaled to 120 ({rule})" in result.stdout


def test_the_learning_rate_of_ppo_follows_its_minibatches(maniple, tmp_path):
    """64 environments x 16 steps in 4 minibatches: 256 samples."""
    result = maniple("train", CARTPOLE, "batch.num_envs=64", "learning.horizon=16", "learning.minibatches=4",
                     "learning.iterations=1", "learning.schedule=fixed", "learning.learning_rate=1e-3",
                     "learning.lr_scaling=linear", "learning.lr_base_batch=128", f"output.directory={tmp_path / 'run'}",
                     ranks=2)
    assert "learning rate: 0.002, 0.001 for 128 samples scaled to 256 (linear)" in result.stdout
    with h5py.File(tmp_path / "run/results.h5") as file:
        assert file["metrics/learning_rate"][0] == 2e-3


def test_evaluations_have_a_column_of_their_own(maniple, tmp_path):
    """In the table of ranks, and in the shares of the time."""
    result = maniple("train", CARTPOLE, "batch.num_envs=64", "learning.iterations=3", "evaluation.every=1",
                     "learning.checkpoint_every=0", "task.episode_length=2", f"output.directory={tmp_path}", ranks=2)
    assert re.search(r"share of the time: .* evaluation [\d.]+%, output [\d.]+%, rest", result.stdout)
    with h5py.File(tmp_path / "results.h5") as file:
        evaluation, rest, total = (file[f"ranks/{name}"][:] for name in ("evaluation", "rest", "total"))
    assert all(evaluation > 0) and all(evaluation + rest < total)


@pytest.mark.parametrize("verb, deck, keys, message", [
    ("train", CARTPOLE, ["learning.accumulate=2"], "learning.accumulate: found 2 with learning.algorithm: ppo"),
    ("train", CARTPOLE, ["learning.batch_per_rank=true"], "learning.batch_per_rank: found true with learning.algorithm: ppo"),
    ("train", CARTPOLE, ["learning.schedule=adaptive", "learning.lr_scaling=sqrt", "learning.lr_base_batch=1"],
     "learning.lr_scaling: found sqrt with learning.schedule: adaptive"),
    ("train", CARTPOLE, ["learning.schedule=fixed", "learning.lr_scaling=sqrt"],
     "learning.lr_base_batch: found 0 with learning.lr_scaling: sqrt"),
    ("train", CARTPOLE, ["learning.lr_base_batch=100"], "learning.lr_base_batch: set, but learning.lr_scaling is none"),
])
def test_what_does_not_fit_is_refused(maniple, tmp_path, verb, deck, keys, message):
    result = maniple(verb, deck, *keys, f"output.directory={tmp_path / 'run'}", ranks=2, exit_code=2, timeout=60)
    assert result.stderr.count("maniple: error:") == 1 and message in result.stderr, result.stderr
