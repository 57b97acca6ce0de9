"""maniple inspect of data sets: an overview whose numbers are numpy's, of robomimic's, Minari's, DROID's and its own files."""
# ctest: PROCESSORS 1

import json
import re

import h5py
import numpy as np
import pytest

from demonstrations import episodes, pictures, write_minari, write_robomimic


def overview(maniple, file):
    """Its lines by their first words; a name at the beginning of a line is followed by two spaces or its text."""
    text = maniple.inspect(file)
    assert len(text.splitlines()) <= 20
    return {line.split(None, 1)[0]: line.split(None, 1)[1] for line in text.splitlines()}


def range_of(values):
    return f"{np.min(values):.4g} to {np.max(values):.4g}"


def test_overview_of_robomimic(maniple, tmp_path):
    made = episodes(30)
    file = write_robomimic(tmp_path / "demos.hdf5", made, {"train": range(20), "success": [1, 2, 3]},
                           images=pictures(made, {"agentview_image": (84, 60, 3)}))
    with h5py.File(file, "a") as opened:
        opened["data"].attrs["env_args"] = json.dumps({"env_name": "Lift", "env_version": "1.4", "env_kwargs": {"a": [1, {"b": None}]}})
        rewards = [np.linspace(-1, i, len(action)) for i, (_, _, action) in enumerate(made)]
        for i, values in enumerate(rewards):
            opened[f"data/demo_{i}/rewards"] = values
            opened[f"data/demo_{i}/next_obs/position"] = made[i][0][1:]
    found = overview(maniple, file)
    lengths = np.array([len(action) for _, _, action in made])
    assert found["layout"] == "robomimic: env_name Lift, env_version 1.4"
    assert found["episodes"] == f"30, {lengths.sum()} samples"
    assert found["lengths"] == f"min {lengths.min()}, mean {lengths.mean():.4g}, max {lengths.max()} samples"
    returns = np.array([values.sum() for values in rewards])
    assert found["returns"] == f"min {returns.min():.4g}, mean {returns.mean():.4g}, max {returns.max():.4g}"
    assert found["success"] == "3 of 30 episodes, 10.0 % (/mask/success)"
    assert found["masks"] == "success 3, train 20"
    actions = np.concatenate([action for _, _, action in made]).astype(np.float64)
    assert found["actions"].split() == ["float64", "[2]", *range_of(actions).split()]
    assert found["each"] == "of them: " + ", ".join(range_of(actions[:, i]) for i in range(2))
    position = np.concatenate([position[:-1] for position, _, _ in made])
    assert found["obs/position"].split() == ["float32", "[3]", *range_of(position).split()]
    assert "images of 84 x 60, 3 channels" in found["obs/agentview_image"]
    assert found["and"] == "1 key of next_obs, as obs a sample later"
    assert re.fullmatch(r"[0-9a-f]{64}", found["digest"])


def test_overview_of_minari(maniple, tmp_path):
    made = episodes(5)
    file = write_minari(tmp_path / "main_data.hdf5", made, box=True)
    (tmp_path / "metadata.json").write_text(json.dumps({
        "dataset_id": "mujoco/ant/expert-v0", "author": "someone", "env_spec": json.dumps({"id": "Ant-v5", "kwargs": {}})}))
    with h5py.File(file, "a") as opened:
        for i in range(4):
            opened[f"episode_{i}/terminations"][-1] = i < 3
            opened[f"episode_{i}/truncations"][-1] = i == 3
            opened[f"episode_{i}/infos/success"] = np.arange(len(made[i][2])) == 2 if i < 1 else np.zeros(len(made[i][2]), bool)
        opened["episode_1/observations"][0, 1] = np.nan
        del opened["episode_4/rewards"]
    found = overview(maniple, file)
    assert found["layout"] == "minari: dataset_id mujoco/ant/expert-v0, author someone, environment Ant-v5"
    assert found["ends"] == "3 terminated, 1 truncated, 1 neither"
    assert found["success"] == "1 of 4 episodes, 25.0 % (infos/success)"
    rest = np.concatenate([np.concatenate(parts[:2], axis=1).ravel() for parts in made])
    rest = np.delete(rest, np.concatenate(made[0][:2], axis=1).size + 1)
    assert found["observations"].split("  ")[-1] == "1 number not finite" and range_of(rest) in found["observations"]
    assert found["rewards"].endswith("in 4 episodes")


def test_files_that_imitate_would_refuse(maniple, tmp_path):
    """They can be looked at: what is odd about them is named."""
    file = write_robomimic(tmp_path / "demos.hdf5", episodes(4))
    with h5py.File(file, "a") as opened:
        del opened["data/demo_0/actions"]
        opened["data/demo_1"].attrs["num_samples"] = 3
        del opened["data/demo_2/obs/velocity"]
        opened["data/demo_2/obs/velocity"] = np.zeros((4, 7))
        opened["data"].attrs["env_args"] = "{no JSON"
    text = maniple.inspect(file)
    assert re.search(r"^no actions +1 episode$", text, re.M) and re.search(r"^unlike num_samples +1 episode with another", text, re.M)
    assert re.search(r"^obs/velocity .*types or shapes differ among episodes$", text, re.M)


def test_overview_of_droid(maniple, tmp_path):
    with h5py.File(tmp_path / "trajectory.h5", "w") as file:
        file["action/joint_position"], file["action/gripper_position"] = np.ones((9, 7)), np.zeros(9)
        file["observation/robot_state/joint_positions"] = np.full((9, 7), 0.5)
    found = overview(maniple, tmp_path / "trajectory.h5")
    assert (found["layout"], found["episodes"]) == ("droid", "1, 9 samples")
    assert found["action/joint_position"].split() == ["float64", "[7]", "1", "to", "1"]


@pytest.mark.parametrize("layout", ["robomimic", "minari"])
def test_own_data_sets(maniple, tmp_path, layout):
    """What the program has written; --all lists every object, with the same digest."""
    said = maniple("rollout", "inputs/tasks/two_roads.yaml", "batch.num_envs=4", "initial_state.source=task", "control.source=random",
                   "simulation.steps=250", f"output.dataset={layout}", f"output.directory={tmp_path}").stdout
    file, count, samples = re.search(r"data set: (\S+) \((\d+) episodes, (\d+) samples\)", said).groups()
    found = overview(maniple, file)
    assert found["episodes"] == f"{count}, {samples} samples" and "two roads" in found["layout"]
    everything = maniple("inspect", file, "--all", ranks=0).stdout
    with h5py.File(file) as opened:
        names = []
        opened.visititems(lambda name, item: names.append(name))
    assert all(re.search(rf"^/{re.escape(name)}\b", everything, re.M) for name in names)
    assert everything.endswith(f"digest {found['digest']}\n") and maniple.digest(file) == found["digest"]
    assert "found --all with a deck" in maniple("inspect", "inputs/tasks/two_roads.yaml", "--all", ranks=0, exit_code=2).stderr
