"""Data sets whose numbers are not in the file, or not yet: virtual and external datasets whose sources are missing,
files that another program is writing, and forms that our HDF5 does not read."""
# ctest: PROCESSORS 1

import shutil

import h5py
import numpy as np
import pytest

from conftest import start_tool
from demonstrations import episodes, write_robomimic

KEYS = ["data.observations=[position, velocity]"]


def validated(maniple, path, *keys, exit_code=0):
    result = maniple("validate", "bc", f"data.file={path}", *(keys or KEYS), exit_code=exit_code)
    return result.stderr if exit_code else result.stdout


def virtual(path, source, missing=None, libver="earliest"):
    """A file like the source, whose numbers all are the source's, by relative paths. `missing`: another name of one dataset."""
    with h5py.File(source) as file, h5py.File(path, "w", libver=libver) as made:
        for name, demo in file["data"].items():
            group = made.create_group(f"data/{name}")
            group.attrs["num_samples"] = len(demo["actions"])
            for key in ("actions", "obs/position", "obs/velocity"):
                layout = h5py.VirtualLayout(demo[key].shape, demo[key].dtype)
                place = missing if missing and (name, key) == ("demo_1", "actions") else demo[key].name
                layout[:] = h5py.VirtualSource(source.name, place, demo[key].shape)
                group.create_virtual_dataset(key, layout)
    return path


def test_virtual_datasets(maniple, tmp_path):
    source = write_robomimic(tmp_path / "source.hdf5", episodes(4))
    path = virtual(tmp_path / "virtual.hdf5", source)
    assert "all good" in validated(maniple, path)
    said = validated(maniple, virtual(tmp_path / "other.hdf5", source, "/data/demo_1/deeds"), exit_code=2)
    assert "dataset data/demo_1/actions: it is virtual, and its source /data/demo_1/deeds of source.hdf5 is missing: the file has no " in said
    source.rename(tmp_path / "renamed.hdf5")
    said = validated(maniple, path, exit_code=2)
    assert "it is virtual, and its source /data/demo_0/actions of source.hdf5 is missing: there is no such file; fill values" in said


def test_external_datasets(maniple, tmp_path, monkeypatch):
    path = write_robomimic(tmp_path / "demos.hdf5", episodes(4))
    with h5py.File(path, "r+") as file:
        actions = file["data/demo_1/actions"][()]
        del file["data/demo_1/actions"]
        (tmp_path / "plain").write_bytes(actions.tobytes())
        file.create_dataset("data/demo_1/actions", actions.shape, actions.dtype, external=[(str(tmp_path / "plain"), 0, actions.nbytes)])
    assert "all good" in validated(maniple, path)
    (tmp_path / "plain").write_bytes(actions.tobytes()[:-8])
    assert "dataset data/demo_1/actions: its numbers are in the file " in (said := validated(maniple, path, exit_code=2))
    assert "plain, which is too short" in said
    (tmp_path / "plain").unlink()
    assert "plain, which is missing" in validated(maniple, path, exit_code=2)


def test_a_file_that_another_program_writes(maniple, tmp_path):
    path = write_robomimic(tmp_path / "demos.hdf5", episodes(4))
    for libver in ("earliest", "latest"):
        shutil.copy(path, tmp_path / f"{libver}.hdf5")
        with h5py.File(tmp_path / f"{libver}.hdf5", "r+", libver=libver, locking=True):
            assert "another program has it open for writing" in validated(maniple, tmp_path / f"{libver}.hdf5", exit_code=2)
            assert "another program has it open for writing" in maniple("inspect", tmp_path / f"{libver}.hdf5", exit_code=2).stderr
        assert "all good" in validated(maniple, tmp_path / f"{libver}.hdf5")
    with h5py.File(path, locking=True):  # readers do not mind each other
        assert "all good" in validated(maniple, path)


def test_what_our_hdf5_does_not_read_is_written_anew(maniple, tmp_path):
    """Virtual datasets of the newest format, and h5py's own compression."""
    source = write_robomimic(tmp_path / "source.hdf5", episodes(4))
    newest = virtual(tmp_path / "newest.hdf5", source, libver="latest")
    packed = tmp_path / "packed.hdf5"
    shutil.copy(source, packed)
    with h5py.File(packed, "r+") as file:
        for demo in file["data"].values():
            values = np.round(demo["obs/velocity"][()])  # (of random numbers lzf makes nothing)
            del demo["obs/velocity"]
            demo.create_dataset("obs/velocity", data=values, compression="lzf")
    for path, said in ((newest, "a later version of HDF5 than this program's wrote it"), (packed, "lzf (HDF5's filter 32000)")):
        text = validated(maniple, path, exit_code=2)
        assert said in text and "python -m maniple.datasets trim OLD NEW writes" in text
        start_tool("datasets.py", "trim", path, tmp_path / f"new_{path.name}").check_returncode()
        assert "all good" in validated(maniple, tmp_path / f"new_{path.name}")
        with h5py.File(tmp_path / f"new_{path.name}") as file, h5py.File(path) as original:
            np.testing.assert_array_equal(file["data/demo_2/obs/velocity"], original["data/demo_2/obs/velocity"])


def test_a_truncated_file(maniple, tmp_path):
    path = write_robomimic(tmp_path / "demos.hdf5", episodes(4))
    path.write_bytes(path.read_bytes()[:-1000])
    assert "it is cut short, because it was not written or copied completely" in validated(maniple, path, exit_code=2)


def test_what_no_key_asks_for_is_named(maniple, tmp_path):
    """Flags, matrices and pictures, and what only a second file has."""
    def add(path, **more):
        with h5py.File(path, "r+") as file:
            for demo in file["data"].values():
                for key, values in more.items():
                    demo[f"obs/{key}"] = np.repeat(values[None], len(demo["actions"]), axis=0)
        return path

    one = add(write_robomimic(tmp_path / "one.hdf5", episodes(3)), flag=np.array(True), mat=np.eye(3, dtype=np.float32))
    two = add(write_robomimic(tmp_path / "two.hdf5", episodes(3)), flag=np.array(True), force=np.zeros(2))
    expected = "data.observations is empty; used: position, velocity; left out: flag (bool), image (uint8 [4, 4, 3]), mat (float32 [3, 3])"
    assert expected + "\n" in validated(maniple, one, "data.observations=[]")
    assert "left out" not in validated(maniple, one)
    both = [f"data.file=[{one}, {two}]", "learning.steps=2", "policy.hidden=[4]", "learning.batch_size=4"]
    result = maniple("imitate", "bc", *both, f"output.directory={tmp_path / 'run'}")
    assert f"{expected}, force (float64 [2]) of {two}" in result.stdout + result.stderr
    # the resolved deck, and so the policy that is exported, have them in order
    with h5py.File(tmp_path / "run/results.h5") as file:
        assert "observations: [position, velocity]" in file["run/resolved"][()].decode().replace('"', "")


def test_lists_that_imitate_takes(maniple, tmp_path):
    path = write_robomimic(tmp_path / "demos.hdf5", episodes(10))
    assert "data.validation_filter: " in (said := validated(maniple, path, *KEYS, "data.validation_filter=valid", exit_code=2))
    assert "the file has no lists of demonstrations below /mask; tools/datasets.py split --mask makes them" in said
    start_tool("datasets.py", "split", path, tmp_path / "listed.hdf5", "--mask", "0.3").check_returncode()
    both = [*KEYS, "data.filter_key=train", "data.validation_filter=valid", "policy.hidden=[4]", "learning.batch_size=8"]
    text = validated(maniple, tmp_path / "listed.hdf5", *both, "learning.steps=3")
    assert "7 demonstrations, " in text and "3 demonstrations held out" in text
    assert "no validation_loss, since learning.steps (3) end before the first epoch does" in text
    assert "validation_loss" not in validated(maniple, tmp_path / "listed.hdf5", *both, "learning.steps=1000")
    with h5py.File(tmp_path / "listed.hdf5") as file, h5py.File(path) as original:
        names = [{name.decode() for name in file[f"mask/{mask}"]} for mask in ("train", "valid")]
        assert not names[0] & names[1] and names[0] | names[1] == set(original["data"])
        np.testing.assert_array_equal(file["data/demo_3/actions"], original["data/demo_3/actions"])
    for arguments, said in ((["0"], "found 0 of 10 episodes to hold out"), (["0.99"], "found 10 of 10")):
        result = start_tool("datasets.py", "split", path, tmp_path / "x.hdf5", "--mask", *arguments)
        assert result.returncode == 2 and said in result.stderr
    result = start_tool("datasets.py", "split", path, "a=0.5", "b=0.5", "--mask", "0.5")
    assert result.returncode == 2 and "allowed with --mask: the name of one file" in result.stderr


@pytest.mark.parametrize("keys, least", [(["data.frame_stack=16", "data.pad_frame_stack=false"], 16),
                                         (["policy.recurrent=gru", "policy.recurrent_units=4", "policy.recurrent_horizon=16",
                                           "data.pad_sequence=false"], 16)])
def test_short_demonstrations_are_left_out_and_counted(maniple, tmp_path, keys, least):
    made = episodes(12)
    short = [len(action) for _, _, action in made if len(action) < least]
    assert 0 < len(short) < 12
    text = validated(maniple, write_robomimic(tmp_path / "demos.hdf5", made), *KEYS, *keys, "learning.batch_size=4", "policy.hidden=[4]")
    plural = "s" * (len(short) != 1)
    assert f"; {len(short)} demonstration{plural} ({sum(short)} frames) of these too short, left out" in text


def test_episodes_that_a_rollout_cuts_off(maniple, tmp_path):
    said = maniple("rollout", "inputs/tasks/pendulum_swingup.yaml", "batch.num_envs=2", "simulation.steps=5", "initial_state.source=task",
                   "output.dataset=robomimic", f"output.directory={tmp_path}", exit_code=1).stderr
    assert "output.dataset_unfinished=true writes these as truncated ones, simulation.steps=500 lets an episode of each environment end" in said


def test_what_a_task_makes_of_demonstrations(maniple, tmp_path):
    """A task without histories takes no stacks of frames; nothing bounds actions that a policy sees again."""
    task = "inputs/tasks/pendulum_swingup.yaml"
    maniple("rollout", task, "batch.num_envs=4", "simulation.steps=20", "initial_state.source=task", "control.source=random",
            "output.dataset=robomimic", "output.dataset_unfinished=true", f"output.directory={tmp_path}")
    deck = ["validate", task, "learning.preset=robomimic", "policy.hidden=[4]", "learning.batch_size=8",
            f"data.file={tmp_path / 'demonstrations.hdf5'}"]
    said = maniple(*deck, "data.frame_stack=3", exit_code=2).stderr
    assert "data.frame_stack: found 3 with a task of 4 observations; the demonstrations have 4; allowed: 1, with a task whose " in said
    assert "(history: 3 at each)" in said
    warning = "task.observations: action shows the policy its own last action, which nothing bounds"
    free = ["policy.squash_actions=false", "data.normalize_actions=mean_std"]
    result = maniple(*deck, *free)
    assert warning in result.stdout and "policy.clip_actions=X" in result.stdout
    assert warning not in maniple(*deck).stdout and warning not in maniple(*deck, *free, "policy.clip_actions=1").stdout
    run = maniple("imitate", *deck[1:], *free, "learning.steps=2", f"output.directory={tmp_path / 'run'}")
    assert warning in run.stdout + run.stderr
    evaluated = maniple("evaluate", tmp_path / "run", "evaluation.episodes=2", "task.episode_steps=5", "task.episode_length=0")
    assert warning in evaluated.stdout + evaluated.stderr
