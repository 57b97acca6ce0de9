"""A training that begins with a policy of imitate: its actor acts as the clone did, however the data were normalized,
and learns on, with the same bits on any number of ranks. One message refuses unsuitable policies."""
# ctest: PROCESSORS 1 COST 10

import h5py
import numpy as np
import pytest

from conftest import Maniple

TASK = "inputs/tasks/two_roads.yaml"
CLONE = ["learning.preset=robomimic", "policy.hidden=[16, 8]", "learning.steps=60", "learning.report_every=30",
         "learning.batch_size=16", "learning.learning_rate=1e-2"]
NORMALIZED = ["data.normalize_observations=mean_std", "data.normalize_actions=mean_std", "policy.squash_actions=false"]
TRAIN = ["batch.num_envs=70", "learning.horizon=8", "learning.minibatches=2", "learning.epochs=1", "policy.hidden=[16, 8]",
         "policy.critic_hidden=[12]", "policy.activation=relu", "policy.normalize_observations=false", "policy.clip_observations=0",
         "policy.clip_actions=0", "policy.init_std=0.25"]
KINDS = {"normalized": (NORMALIZED, []), "by range": ([*NORMALIZED, "data.normalize_observations=min_max"], []),
         "squashed": (["data.normalize_observations=mean_std"], ["policy.squash_actions=true"]),
         "gaussian": ([*NORMALIZED, "learning.loss=gaussian"], []), "alone": (NORMALIZED, [])}


@pytest.fixture(scope="module")
def demonstrations(tmp_path_factory):
    folder = tmp_path_factory.mktemp("roads")
    Maniple()("rollout", TASK, "batch.num_envs=8", "simulation.steps=100", "initial_state.source=task", "control.source=random",
              "output.dataset=robomimic", f"output.directory={folder}")
    return folder / "demonstrations.hdf5"


def cloned(maniple, demonstrations, directory, *keys, deck=TASK):
    maniple("imitate", *([deck] if deck else []), *CLONE, f"data.file={demonstrations}", f"output.directory={directory}", *keys)
    return directory


def first_actions(maniple, run, directory):
    """Of 70 environments in 3 steps of the task, by the mean of the policy."""
    maniple("rollout", run, "batch.num_envs=70", "batch.seed=5", "simulation.steps=3",
            "initial_state.source=task", "output.trajectory.every=1", "output.trajectory.fields=[observation, action]",
            f"output.directory={directory}")
    with h5py.File(directory / "results.h5") as file:
        return file["trajectory/observation"][:, :-1], file["trajectory/action"][:, 1:]


def layers_of(directory, maniple):
    with h5py.File(maniple.checkpoints(directory)[-1]) as file:
        return {name: file[f"policy/{name}"][()] for name in file["policy"] if not isinstance(file[f"policy/{name}"], h5py.Group)}


@pytest.mark.parametrize("kind", KINDS)
def test_the_actor_acts_as_the_clone_did(maniple, tmp_path, demonstrations, kind):
    keys, also = KINDS[kind]
    clone = cloned(maniple, demonstrations, tmp_path / "clone", *keys)
    start = clone
    if kind == "alone":  # of data without a task
        start = cloned(maniple, demonstrations, tmp_path / "alone", *keys, deck=None)
    # (steps too small to change a number)
    said = maniple("train", TASK, *TRAIN, *also, f"learning.warm_start={start}", "learning.iterations=1", "learning.learning_rate=1e-30",
                   "learning.schedule=fixed", f"output.directory={tmp_path / 'still'}").stdout
    assert "update 2 of imitate: the actor begins with its weights" in said
    assert "critic, standard deviation (policy.init_std) and optimizer start fresh" in said and "missing there" not in said
    seen, wanted = first_actions(maniple, clone, tmp_path / "a")
    again, found = first_actions(maniple, tmp_path / "still", tmp_path / "b")
    np.testing.assert_array_equal(seen[:, 0], again[:, 0])
    assert np.abs(wanted[:, 0]).max() > 0.05 and np.ptp(wanted[:, 0], axis=0).max() > 2e-3
    np.testing.assert_allclose(found[:, 0], wanted[:, 0], atol=2e-6)
    np.testing.assert_allclose(layers_of(tmp_path / "still", maniple)["log_std"], np.log(0.25), rtol=1e-5)


def test_it_learns_on_with_the_same_bits_on_any_number_of_ranks(maniple, tmp_path, demonstrations):
    clone = cloned(maniple, demonstrations, tmp_path / "clone", *NORMALIZED)
    digests = set()
    for ranks in (1, 3):
        run = tmp_path / str(ranks)
        maniple("train", TASK, *TRAIN, f"learning.warm_start={clone}", "learning.iterations=2", f"output.directory={run}", ranks=ranks)
        digests.add((maniple.digest(run / "results.h5"), maniple.digest(maniple.checkpoints(run)[-1])))
    assert len(digests) == 1


def test_the_critic_learns_alone_first(maniple, tmp_path, demonstrations):
    """For learning.critic_warmup iterations no number of the actor changes, and each of the critic's layers does; on any
    number of ranks, and over a restart."""
    clone = cloned(maniple, demonstrations, tmp_path / "clone", *NORMALIZED)
    keys = [*TRAIN, f"learning.warm_start={clone}", "learning.critic_warmup=2", "learning.checkpoint_every=1", "learning.weight_decay=0.01"]
    digests = set()
    for ranks in (1, 3):
        run = tmp_path / str(ranks)
        if ranks == 3:
            said = maniple("train", TASK, *keys, "learning.iterations=1", f"output.directory={run}")
            assert "the critic alone learns in the first 2 iterations" in said.stdout
        maniple("train", TASK, *keys, "learning.iterations=3", "learning.resume=auto", f"output.directory={run}", ranks=ranks)
        digests.add(maniple.digest(maniple.checkpoints(run)[-1]))
    assert len(digests) == 1
    parts = []
    for checkpoint in maniple.checkpoints(tmp_path / "1"):
        with h5py.File(checkpoint) as file:
            found = {}
            file["policy"].visititems(lambda name, item, into=found: into.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None)
        parts.append(found)
    layers = sorted({name.split("/")[0] for name in parts[0] if name.startswith("layer")})
    assert layers == [f"layer{i}" for i in range(5)]  # three of the actor, two of the critic
    actor = [name for name in parts[0] if name.split("/")[0] in layers[:3] or name == "log_std"]
    critic = [name for name in parts[0] if name.split("/")[0] in layers[3:]]
    for name in actor:
        np.testing.assert_array_equal(parts[0][name], parts[1][name])
    assert all(np.any(parts[0][name] != parts[1][name]) for name in critic)
    assert all(np.any(parts[1][name] != parts[2][name]) for name in [*actor, *critic])


def test_one_message_names_every_key(maniple, tmp_path, demonstrations):
    clone = cloned(maniple, demonstrations, tmp_path / "clone", *NORMALIZED)
    begin = ("train", TASK, "batch.num_envs=70", "learning.iterations=2", f"learning.warm_start={clone}",
             f"output.directory={tmp_path / 'run'}")
    said = maniple(*begin, "policy.normalize_observations=true", "policy.hidden=[4]", "policy.activation=elu", "policy.squash_actions=true",
                   exit_code=2).stderr
    assert ("learning.warm_start: found a policy of imitate, whose actor is not this run's; allowed: with policy.hidden=[16,8] "
            "policy.activation=relu policy.squash_actions=false policy.normalize_observations=false") in said
    # and with these it begins
    maniple(*begin, *said[said.index("allowed: with ") + 14:].split())


@pytest.mark.parametrize("keys, found", [
    (["learning.loss=gmm", "policy.modes=2"], "a mixture (learning.loss gmm)"),
    (["policy.recurrent=gru", "policy.recurrent_units=6"], "a recurrent policy of imitate"),
    (["data.normalize_actions=min_max"], "a policy of imitate with policy.squash_actions and data.normalize_actions"),
    (["learning.preset=diffusion_policy", "diffusion.down_dims=[16]", "diffusion.step_embedding=16", "learning.steps=2"],
     "a diffusion policy of imitate")])
def test_what_is_no_actor(maniple, tmp_path, demonstrations, keys, found):
    clone = cloned(maniple, demonstrations, tmp_path / "clone", *keys)
    said = maniple("train", TASK, *TRAIN, f"learning.warm_start={clone}", f"output.directory={tmp_path / 'run'}", exit_code=2).stderr
    assert f"learning.warm_start: found {found}; allowed of imitate: an MLP of vectors with learning.loss l2" in said
