"""output.dataset: whole episodes of rollout and evaluate as demonstrations. They are compared with the steps that the
run also recorded as trajectories; robomimic's and Minari's own readers open the file."""
# ctest: PROCESSORS 1 COST 40

import json
import re
import time

import h5py
import minari
import numpy as np
import pytest

from conftest import of_the_day
from demonstrations import sequence_dataset  # noqa: F401

TASK = "inputs/tasks/isaac_cartpole.yaml"
KEYS = ["joint_pos_rel", "joint_vel_rel"]
SHORT = ["batch.num_envs=70", "control.source=random", "initial_state.source=task", "simulation.steps=130",
         "task.episode_length=0.6", "task.terminations.cart_out_of_bounds.bounds=[-1, 1]"]
FIELDS = "output.trajectory.fields=[observation, final_observation, action, reward, terminated, truncated]"
# a cart in the middle has done its task
SUCCESS = "task.terminations.success={expression: 'abs(qpos[slider_to_cart]) < 0.02'}"


def rollout(maniple, directory, *keys, ranks=1, **rest):
    return maniple("rollout", TASK, *SHORT, "output.dataset=robomimic", f"output.directory={directory}", *keys,
                   ranks=ranks, **rest)


def recorded_episodes(directory):
    """[(observations of T + 1 frames, actions, rewards, (terminated, truncated))] of a rollout's trajectory, by environment."""
    with h5py.File(directory / "results.h5") as file:
        observation, final, action, reward, terminated, truncated = (
            file[f"trajectory/{name}"][()] for name in
            ("observation", "final_observation", "action", "reward", "terminated", "truncated"))
    found = []
    for env in range(len(observation)):
        first = 0
        for step in range(1, observation.shape[1]):
            if not terminated[env, step] and not truncated[env, step]:
                continue
            frames = np.concatenate([observation[env, first:step], final[env, step:step + 1]])
            found.append((frames, action[env, first + 1:step + 1], reward[env, first + 1:step + 1, 0],
                          (bool(terminated[env, step]), bool(truncated[env, step]))))
            first = step
    return found


def read_robomimic(path):
    """As recorded_episodes()."""
    found = []
    with h5py.File(path) as file:
        for number in range(len(file["data"])):
            demo = file[f"data/demo_{number}"]
            obs, following = (np.concatenate([demo[f"{group}/{key}"] for key in KEYS], axis=1)
                              for group in ("obs", "next_obs"))
            np.testing.assert_array_equal(obs[1:], following[:-1])
            assert demo.attrs["num_samples"] == len(obs)
            assert demo["dones"][()].tolist() == [0] * (len(obs) - 1) + [1]
            found.append((np.concatenate([obs, following[-1:]]), demo["actions"][()], demo["rewards"][()], None))
        assert file["data"].attrs["total"] == sum(len(actions) for _, actions, _, _ in found)
    return found


def assert_same(found, expected):
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected):
        for a, b in zip(ours[:3], theirs[:3]):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("precision, counts", of_the_day([("single", (1, 3)), ("double", (1, 2, 3))], ("single", (1, 3))))
def test_robomimic(maniple, tmp_path, sequence_dataset, precision, counts):  # noqa: F811
    """Episodes that fail and that run out of time; a robot that is in the middle of one at the end leaves none."""
    files = {}
    for ranks in counts:
        directory = tmp_path / str(ranks)
        result = rollout(maniple, directory, f"simulation.precision={precision}", "output.trajectory.every=1", FIELDS,
                         ranks=ranks)
        files[ranks] = directory / "demonstrations.hdf5"
        time.sleep(0.4)  # equal files whatever the time
    assert len({file.read_bytes() for file in files.values()}) == 1
    expected = recorded_episodes(tmp_path / "1")
    lengths = [len(rewards) for _, _, rewards, _ in expected]
    assert len({length for length in lengths if length < 36}) > 5 and lengths.count(36) > 5
    assert_same(read_robomimic(files[1]), expected)
    assert f"({len(expected)} episodes, {sum(lengths)} samples)" in result.stdout
    with h5py.File(files[1]) as file:
        environment = json.loads(file["data"].attrs["env_args"])
        assert environment["env_name"] == "isaac_cartpole" and environment["type"] == 2
        assert file["data/demo_0/actions"].dtype == (np.float32 if precision == "single" else np.float64)
        assert "mask" not in file
    # opened as robomimic opens every file of its own
    theirs = sequence_dataset(files[1], KEYS, ["actions", "rewards", "dones"], frame_stack=2, seq_length=3,
                              hdf5_cache_mode=None)
    assert len(theirs) == sum(lengths)
    item = theirs[lengths[0]]  # the first of the second episode, with two of it to come
    np.testing.assert_array_equal(item["obs"]["joint_pos_rel"], expected[1][0][[0, 0, 1, 2], :2])
    np.testing.assert_array_equal(item["next_obs"]["joint_vel_rel"], expected[1][0][[1, 1, 2, 3], 2:])
    np.testing.assert_array_equal(item["rewards"][-1], expected[1][2][2])


def test_minari(maniple, tmp_path, monkeypatch):
    directory = tmp_path / "run"
    rollout(maniple, directory, "output.dataset=minari", "output.trajectory.every=1", FIELDS, ranks=2)
    rollout(maniple, tmp_path / "one", "output.dataset=minari")
    part = "minari/demonstrations-v0/data"
    for name in ("main_data.hdf5", "metadata.json"):
        assert (directory / part / name).read_bytes() == (tmp_path / "one" / part / name).read_bytes()
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(directory / "minari"))
    dataset = minari.load_dataset("demonstrations-v0")
    expected = recorded_episodes(directory)
    assert dataset.total_episodes == len(expected) and "demonstrations-v0" in minari.list_local_datasets()
    assert dataset.total_steps == sum(len(actions) for _, actions, _, _ in expected)
    found = list(dataset.iterate_episodes())
    with h5py.File(directory / part / "main_data.hdf5") as file:
        assert all(file[f"episode_{number}"].attrs["id"] == number for number in range(len(expected)))
    assert_same([(np.concatenate([e.observations[key] for key in KEYS], axis=1), e.actions, e.rewards) for e in found],
                expected)
    for episode, (_, _, rewards, (terminated, truncated)) in zip(found, expected):
        assert episode.terminations.dtype == bool
        assert episode.terminations.tolist() == [False] * (len(rewards) - 1) + [terminated]
        assert episode.truncations.tolist() == [False] * (len(rewards) - 1) + [truncated]
    for key, space in dataset.observation_space.spaces.items():
        assert key in KEYS and space.shape == (2,) and space.dtype == np.float32


def samples_left_out(text):
    """Of the line about a data set, the samples left out, and by reason."""
    total, of, rest = re.search(r"left out of the data set: (\d+) samples? of (\d+): (.*)", text).groups()
    parts = {reason: int(samples) for samples, reason in
             re.findall(r"\((\d+) samples?\) ([^,\n]+)", rest) + re.findall(r"(?:, |^)(\d+) samples? (of episodes beyond[^,\n]+)", rest)}
    assert sum(parts.values()) == int(total), text
    return int(of), parts


TWO_KINDS = """model: {file: model.xml}
batch: {num_envs: 64}
simulation: {steps: 130}
initial_state: {source: task}
task:
  name: two kinds
  reward_times_dt: false
  episode_steps: 100
  actions: [{term: actuator_control, actuators: [m]}]
  observations: [{name: kind, expression: "kind"}]
  rewards: {r: {expression: "1"}}
  variables: {kind: {reset: "uniform(0, 1) < 0.5"}}
  terminations: {time_out: {term: time_out}, short: {expression: "kind == 1 && episode_step >= 10"}}
"""


def test_every_sample_is_written_or_named(maniple, tmp_path):
    """Half of the episodes are long, half short. Without those that the end of the rollout cuts off the long ones are few."""
    (tmp_path / "model.xml").write_text('<mujoco><worldbody><body><joint name="j"/><geom size=".1"/></body></worldbody>'
                                        '<actuator><motor name="m" joint="j"/></actuator></mujoco>')
    (tmp_path / "deck.yaml").write_text(TWO_KINDS)
    files = {}
    for name, keys in {"whole": [], "all": ["output.dataset_unfinished=true"], "few": ["output.dataset_episodes=20"],
                       "good": ["output.dataset_unfinished=true", "output.dataset_min_return=20"]}.items():
        for ranks in (1, 2):
            result = maniple("rollout", tmp_path / "deck.yaml", "output.dataset=robomimic", *keys,
                             f"output.directory={tmp_path}/{name}{ranks}", ranks=ranks)
            text = result.stdout + result.stderr
            written = int(re.search(r"episodes?, (\d+) samples?\)", text)[1])
            if name == "all":
                assert "left out" not in text and written == 64 * 130
            else:
                of, parts = samples_left_out(text)
                assert of == 64 * 130 and written == of - sum(parts.values())
            cut = re.search(r"(\d+) of (\d+) episodes left out because the rollout ends in them", text)
            assert (cut is not None) == (name in ("whole", "few"))
            if name == "whole":
                assert 0 < int(cut[1]) <= 64 and list(parts) == ["that the end of the rollout cuts off"]
        paths = [tmp_path / f"{name}{ranks}/demonstrations.hdf5" for ranks in (1, 2)]
        assert paths[0].read_bytes() == paths[1].read_bytes()
        with h5py.File(paths[0]) as file:
            files[name] = [(len(demo["actions"]), demo["obs/kind"][0, 0]) for demo in file["data"].values()]
            assert all(demo["dones"][-1] == 1 for demo in file["data"].values())
    first = [kind for _, kind in files["all"]]
    assert sum(length for length, _ in files["all"]) == 64 * 130
    assert np.mean(np.array(first) == 0) > np.mean([length > 10 for length, _ in files["whole"]]) + 0.05
    assert all(length >= 20 for length, _ in files["good"]) and len(files["few"]) == 20


def test_filters(maniple, tmp_path):
    rollout(maniple, tmp_path / "all", SUCCESS)
    every = read_robomimic(tmp_path / "all/demonstrations.hdf5")
    with h5py.File(tmp_path / "all/demonstrations.hdf5") as file:
        reached = [int(name.decode()[5:]) for name in file["mask/success"]]
    assert 5 < len(reached) < len(every) - 5
    # (the cart is in the middle in the last frame of these and in no frame before)
    for number, (frames, _, _, _) in enumerate(every):
        middle = np.abs(frames[1:, 0]) < 0.02
        assert not middle[:-1].any() and middle[-1] == (number in reached)
    rollout(maniple, tmp_path / "success", SUCCESS, "output.dataset_success=true", ranks=2)
    assert_same(read_robomimic(tmp_path / "success/demonstrations.hdf5"), [every[number] for number in reached])
    returns = np.array([rewards.sum() for _, _, rewards, _ in every])
    least = np.median(returns)
    result = rollout(maniple, tmp_path / "good", SUCCESS, f"output.dataset_min_return={least}", "output.dataset_episodes=7",
                     ranks=3)
    good = [episode for episode, value in zip(every, returns) if value >= least]
    assert_same(read_robomimic(tmp_path / "good/demonstrations.hdf5"), good[:7])
    assert re.search(rf"{len(every) - len(good)} episodes \(\d+ samples\) with a return below output.dataset_min_return, "
                     rf"{len(good) - 7} episodes \(\d+ samples\) beyond output.dataset_episodes, 64 episodes \(\d+ samples\) that the end",
                     result.stdout), result.stdout
    of, parts = samples_left_out(result.stdout)
    assert of == 70 * 130 and of - sum(parts.values()) == sum(len(rewards) for _, _, rewards, _ in good[:7])


def test_bad_states_are_left_out(maniple, tmp_path):
    rollout(maniple, tmp_path / "whole")
    result = rollout(maniple, tmp_path / "bad", "simulation.inject_nan_env=0", "simulation.inject_nan_step=3")
    whole, others = (read_robomimic(tmp_path / name / "demonstrations.hdf5") for name in ("whole", "bad"))
    assert re.search(r"1 episode \(\d+ samples?\) with bad states", result.stdout)
    assert np.isfinite(np.concatenate([frames for frames, _, _, _ in others])).all()
    # the other environments' episodes are as they were
    assert_same(others[-100:], whole[-100:])


def test_evaluate_writes_what_it_counts(maniple, tmp_path):
    maniple("train", TASK, "batch.num_envs=64", "learning.iterations=1", f"output.directory={tmp_path / 'run'}")
    keys = ["task.episode_length=0.5", "batch.num_envs=40", "evaluation.episodes=50", "output.dataset=robomimic",
            f"control.checkpoint={tmp_path / 'run'}", SUCCESS]
    for ranks in (1, 2):
        out = maniple("evaluate", TASK, *keys, f"output.directory={tmp_path / str(ranks)}", ranks=ranks).stdout
    assert (tmp_path / "1/demonstrations.hdf5").read_bytes() == (tmp_path / "2/demonstrations.hdf5").read_bytes()
    with h5py.File(tmp_path / "1/evaluation.h5") as file:
        returns, success = file["evaluation/episode_return"][()], file["evaluation/success"][()]
        assert file["evaluation/success_rate"][0] == success.mean()
    of, parts = samples_left_out(out)
    with h5py.File(tmp_path / "1/demonstrations.hdf5") as file:
        assert file["data"].attrs["total"] == of - sum(parts.values()) and of % 40 == 0
    assert f"success {100 * success.mean():.1f}%" in out and 0 < success.sum() < 50
    # by round there, by environment and start here
    order = [index for env in range(40) for index in (env, env + 40) if index < 50]
    found = read_robomimic(tmp_path / "1/demonstrations.hdf5")
    np.testing.assert_allclose([rewards.sum() for _, _, rewards, _ in found], returns[order], rtol=1e-5)
    with h5py.File(tmp_path / "1/demonstrations.hdf5") as file:
        assert sorted(int(name.decode()[5:]) for name in file["mask/success"]) == np.flatnonzero(success[order]).tolist()


@pytest.mark.parametrize("layout", of_the_day(["robomimic", "minari"], "minari"))
def test_read_back(maniple, tmp_path, layout):
    """The task's observations come in its order, though another one is that of the alphabet."""
    task = ["task.observations=[{name: speed, term: joint_vel_rel}, {name: place, term: joint_pos_rel}]"]
    rollout(maniple, tmp_path / "run", f"output.dataset={layout}", *task)
    path = {"robomimic": "demonstrations.hdf5", "minari": "minari/demonstrations-v0/data/main_data.hdf5"}[layout]
    keys = [f"data.file={tmp_path / 'run' / path}", "learning.preset=robomimic", "policy.hidden=[8]",
            "learning.steps=2", "data.normalize_actions=min_max"]
    out = maniple("imitate", TASK, *task, *keys, f"output.directory={tmp_path / 'clone'}").stdout
    assert "observations speed 2, place 2; actions 1" in out
    out = maniple("imitate", *keys, f"output.directory={tmp_path / 'free'}").stdout
    assert "observations place 2, speed 2; actions 1" in out


@pytest.mark.parametrize("layout", of_the_day(["robomimic", "minari"], "minari"))
def test_full_disk_leaves_no_file(maniple, preload, tmp_path, layout):
    environment = {"LD_PRELOAD": preload("quota"), "MANIPLE_QUOTA": 1 << 18, "MANIPLE_QUOTA_DIRECTORY": tmp_path}
    result = rollout(maniple, tmp_path / "run", f"output.dataset={layout}", "batch.num_envs=700", ranks=2, exit_code=1,
                     timeout=60, environment=environment)
    assert result.stderr.count("maniple: error:") == 1 and "quota" in result.stderr
    names = [path.name for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert not {"demonstrations.hdf5", "main_data.hdf5", "metadata.json"} & set(names), names


def test_killed_while_writing(maniple, preload, tmp_path):
    """Storage is so slow that the kill comes between the file's bytes and its name."""
    directory = tmp_path / "run"
    process = maniple.start("rollout", TASK, *SHORT, "output.dataset=robomimic", f"output.directory={directory}", ranks=2,
                            log=tmp_path / "log", environment={"LD_PRELOAD": preload("slow_fsync")})
    maniple.wait_for(lambda: list(directory.glob("demonstrations.hdf5.tmp.*")), "the temporary file", process=process)
    maniple.kill_all(process)
    assert not (directory / "demonstrations.hdf5").exists() and (directory / "results.h5").exists()
    rollout(maniple, directory, "output.overwrite=true")
    assert not list(directory.glob("*.tmp.*"))
    read_robomimic(directory / "demonstrations.hdf5")


BAD = {
    "layout": (["output.dataset=lerobot"], "output.dataset: found 'lerobot'; allowed: none | robomimic | minari"),
    "no task": (["task=~", "initial_state.source=default"], "output.dataset: found robomimic without a task"),
    "success": (["output.dataset_success=true"], "output.dataset_success: found true with a task that does not define"),
    "none": (["output.dataset=none", "output.dataset_episodes=3"], "output.dataset_episodes: set, but output.dataset is none"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_keys(maniple, tmp_path, case):
    keys, text = BAD[case]
    result = rollout(maniple, tmp_path / "run", *keys, ranks=0, exit_code=2, timeout=60)
    assert result.stderr.count("maniple: error:") == 1 and text in result.stderr, result.stderr


def test_what_is_there_stays(maniple, tmp_path):
    result = maniple("train", TASK, "output.dataset=robomimic", f"output.directory={tmp_path / 'run'}", exit_code=2)
    assert "a data set requested from train" in result.stderr
    result = rollout(maniple, tmp_path / "run", "output.dataset_min_return=1000", ranks=2, exit_code=1)
    assert "output.dataset: no episode to write" in result.stderr
    (tmp_path / "old").mkdir()
    (tmp_path / "old/demonstrations.hdf5").write_text("years of work")
    result = rollout(maniple, tmp_path / "old", exit_code=2)
    assert "which is there already" in result.stderr
    assert (tmp_path / "old/demonstrations.hdf5").read_text() == "years of work"
