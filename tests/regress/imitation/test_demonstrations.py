"""Demonstrations read in place: frames and windows are robomimic's
own, sample by sample; messages name the faults of a file."""
# ctest: PROCESSORS 1 COST 50

import itertools
import json
import re
import subprocess

import h5py
import numpy as np
import pytest

from conftest import BUILD, ENVIRONMENT, of_the_day
from demonstrations import episodes, pictures, sequence_dataset, write_minari, write_robomimic  # noqa: F401

KEYS = "data.observations=[position, velocity]"


def windows(stack, sequence, pad_stack, pad_sequence, *keys, width=7, cameras=()):
    """[sample, frame, number], of the program; with cameras also [sample, frame, height, width, channels] of each."""
    result = subprocess.run([BUILD / "maniple_window_tool", *map(str, (stack, sequence, int(pad_stack), int(pad_sequence))),
                             *keys], capture_output=True, env=ENVIRONMENT)
    assert result.returncode == 0, result.stderr.decode()
    sizes = [4 * width, *map(int, map(np.prod, cameras))]
    frames = len(result.stdout) // sum(sizes)
    parts, first = [], 0
    for size, shape, kind in zip(sizes, [(width,), *cameras], [np.float32] + [np.uint8] * len(cameras)):
        part = np.frombuffer(result.stdout, kind, frames * size // kind().itemsize, first)
        parts.append(part.reshape(-1, stack - 1 + sequence, *shape))
        first += frames * size
    return parts if cameras else parts[0]


@pytest.mark.parametrize("filter_key", of_the_day([None, "train"], "train"))
def test_windows_are_robomimics(tmp_path, sequence_dataset, filter_key):
    path = write_robomimic(tmp_path / "demos.hdf5", episodes(12, shortest=6), {"train": [11, 2, 10, 0]})
    for stack, sequence, pad_stack, pad_sequence in itertools.product((1, 3), (1, 4), (True, False), (True, False)):
        theirs = sequence_dataset(path, ["position", "velocity"], ["actions"], frame_stack=stack, seq_length=sequence,
                                  pad_frame_stack=pad_stack, pad_seq_length=pad_sequence, hdf5_cache_mode=None,
                                  hdf5_use_swmr=False, load_next_obs=False, filter_by_attribute=filter_key)
        ours = windows(stack, sequence, pad_stack, pad_sequence, f"data.file={path}", KEYS,
                       *([f"data.filter_key={filter_key}"] if filter_key else []))
        assert len(ours) == len(theirs)
        for index, sample in enumerate(ours):
            item = theirs[index]
            parts = [item["obs"]["position"], item["obs"]["velocity"], np.float32(item["actions"])]
            np.testing.assert_array_equal(sample, np.concatenate(parts, axis=1), err_msg=f"sample {index}")


CAMERAS = {"agentview_image": (6, 8, 3), "wrist": (5, 5, 1)}
PICTURES = "data.observations=[agentview_image, position, wrist, velocity]"


def test_the_tool_reads_from_a_file(tmp_path):
    """(So that what follows is about a file where it says so.)"""
    path = write_robomimic(tmp_path / "demos.hdf5", episodes(3))
    result = subprocess.run([BUILD / "maniple_window_tool", "1", "1", "1", "1", f"data.file={path}", KEYS, "data.cache=file",
                             f"output.directory={tmp_path / 'missing'}"], capture_output=True, text=True, env=ENVIRONMENT)
    assert result.returncode == 2 and "No such file or directory" in result.stderr


@pytest.mark.parametrize("cache", ["memory", "file"])
def test_pictures_are_robomimics(tmp_path, sequence_dataset, cache):
    made = episodes(7, shortest=6)
    path = write_robomimic(tmp_path / "demos.hdf5", made, images=pictures(made, CAMERAS))
    keys = [f"data.file={path}", PICTURES, f"data.cache={cache}", f"output.directory={tmp_path}"]
    for stack, sequence, pad in ((1, 1, True), (3, 1, True), (2, 4, False)):
        theirs = sequence_dataset(path, ["position", "velocity", *CAMERAS], ["actions"], frame_stack=stack,
                                  seq_length=sequence, pad_frame_stack=pad, pad_seq_length=pad, hdf5_cache_mode=None,
                                  hdf5_use_swmr=False, load_next_obs=False)
        rows, *ours = windows(stack, sequence, pad, pad, *keys, cameras=CAMERAS.values())
        assert len(rows) == len(theirs)
        for index in range(len(rows)):
            item = theirs[index]["obs"]
            np.testing.assert_array_equal(rows[index, :, :5], np.concatenate([item["position"], item["velocity"]], axis=1))
            for name, found in zip(CAMERAS, ours):
                np.testing.assert_array_equal(found[index], item[name], err_msg=f"{name} of sample {index}")


def test_large_pictures(tmp_path):
    """Of more than are read at a time."""
    made = episodes(2, shortest=30)
    seen = pictures(made, {"front": (480, 640, 3)})
    assert len(made[0][2]) * 480 * 640 * 3 > 2**24
    path = write_minari(tmp_path / "minari.hdf5", made, images=seen)
    _, found = windows(1, 1, True, True, f"data.file={path}", "data.observations=[position, front]", width=5,
                       cameras=[(480, 640, 3)])
    assert np.array_equal(found[:, 0], np.concatenate([frames["front"][:-1] for frames in seen]))


def test_pictures_in_minaris_and_droids_layouts(tmp_path):
    made = episodes(4)
    seen = pictures(made, CAMERAS)
    path = write_minari(tmp_path / "minari.hdf5", made, images=seen)
    rows, *ours = windows(1, 1, True, True, f"data.file={path}", PICTURES, cameras=CAMERAS.values())
    for name, found in zip(CAMERAS, ours):
        np.testing.assert_array_equal(found[:, 0], np.concatenate([frames[name][:-1] for frames in seen]))
    write_droid(tmp_path)
    with h5py.File(tmp_path / "lab 2/trajectory.h5", "r+") as file:
        frames = len(file["action/abs_pos"])
        hand = np.random.default_rng(1).integers(0, 256, (frames, 4, 6, 3), np.uint8)
        file["observation/camera/image/hand_camera_left_image"] = hand
    rows, found = windows(1, 1, True, True, f"data.file={tmp_path / 'lab 2/trajectory.h5'}", DROID[0],
                          "data.observations=[camera/image/hand_camera_left_image]", width=10, cameras=[(4, 6, 3)])
    np.testing.assert_array_equal(found[:, 0], hand)


@pytest.mark.parametrize("box", [False, True])
def test_minari_holds_the_same(tmp_path, box):
    made = episodes(11)
    theirs = windows(1, 1, True, True, f"data.file={write_robomimic(tmp_path / 'a.hdf5', made)}", KEYS)
    ours = windows(1, 1, True, True, f"data.file={write_minari(tmp_path / 'b.hdf5', made, box)}",
                   *([] if box else [KEYS]))
    np.testing.assert_array_equal(ours, theirs)


def test_all_vectors_where_no_keys_are_given(tmp_path):
    path = write_robomimic(tmp_path / "a.hdf5", episodes(3))
    np.testing.assert_array_equal(windows(1, 1, True, True, f"data.file={path}"),
                                  windows(1, 1, True, True, f"data.file={path}", KEYS))


def test_vectors_in_groups(tmp_path):
    """Of a dictionary in a dictionary, as Minari writes them; named by their path."""
    path = write_minari(tmp_path / "a.hdf5", episodes(3))
    expected = windows(1, 1, True, True, f"data.file={path}", "data.observations=[velocity, position]")

    def edit(file):
        for episode in file.values():
            episode.move("observations/velocity", "observations/arm/hand/velocity")
            episode["observations/arm/language"] = ["go on"] * len(episode["observations/position"])

    change(path, edit)
    for keys in ("[]", "[arm/hand/velocity, position]"):
        np.testing.assert_array_equal(windows(1, 1, True, True, f"data.file={path}", f"data.observations={keys}"), expected)


@pytest.mark.parametrize("left, policy", [("[0, 1]", "policy.squash_actions=false"), ("[0]", "policy.squash_actions=true")])
def test_actions_are_left_alone(maniple, tmp_path, left, policy):
    """Beyond [-1, 1], too, by a policy that can follow; others are normalized into what it can."""
    path = write_robomimic(tmp_path / "demos.hdf5", episodes(4, shortest=12))
    change(path, set_frame("data/demo_1/actions", (2, 1), 1.5))
    maniple("imitate", f"data.file={path}", KEYS, "learning.steps=1", "policy.hidden=[8]", "data.normalize_actions=min_max",
            f"data.actions_not_normalized={left}", policy, f"output.directory={tmp_path / 'run'}")


@pytest.mark.parametrize("signature", of_the_day([b"SNOD", b"TREE", b"HEAP"], b"SNOD"))
def test_damaged_groups_are_not_missing(maniple, tmp_path, signature):
    """Some of what a group is made of; the first ones are the root's, those of /data and of the first demonstration."""
    bytes_of = write_robomimic(tmp_path / "whole.hdf5", episodes(4, shortest=12), {"train": [0]}).read_bytes()
    places = [match.start() for match in re.finditer(signature, bytes_of)]
    assert len(places) > 5
    named = set()
    for place in places[:5]:
        path = tmp_path / "damaged.hdf5"
        path.write_bytes(bytes_of[:place] + b"none" + bytes_of[place + 4:])
        text = maniple("imitate", f"data.file={path}", KEYS, "learning.steps=1", "policy.hidden=[8]",
                       f"output.directory={tmp_path / 'run'}", ranks=0, exit_code=2, timeout=60).stderr
        assert "data.file: cannot be read as HDF5" in text and " signature" in text and "found no" not in text
        named.add(re.search(r"damaged\.hdf5: (/\S*?)[: ]", text)[1])
    assert {"/", "/data", "/data/demo_0"} <= named


def test_texts_are_no_vectors(tmp_path):
    """Without keys: a text or a flag for each frame is not what a policy sees."""
    path = write_robomimic(tmp_path / "a.hdf5", episodes(3))
    expected = windows(1, 1, True, True, f"data.file={path}", KEYS)

    def edit(file):
        for demo in file["data"].values():
            demo["obs/language"] = ["go on"] * len(demo["actions"])
            demo["obs/is_first"] = np.arange(len(demo["actions"])) == 0

    change(path, edit)
    np.testing.assert_array_equal(windows(1, 1, True, True, f"data.file={path}"), expected)


def test_flags_are_numbers_where_they_are_asked_for(tmp_path):
    made = episodes(3)
    path = write_robomimic(tmp_path / "a.hdf5", made)

    def edit(file):
        for demo in file["data"].values():
            demo["obs/is_first"] = np.arange(len(demo["actions"])) == 0

    change(path, edit)
    found = windows(1, 1, True, True, f"data.file={path}", "data.observations=[is_first, velocity]", width=5)[:, 0]
    first = np.concatenate([np.arange(len(action)) == 0 for _, _, action in made])
    np.testing.assert_array_equal(found[:, 0], first)
    np.testing.assert_array_equal(found[:, 1:3], np.concatenate([velocity[:-1] for _, velocity, _ in made]))


def change(path, edit):
    with h5py.File(path, "r+") as file:
        edit(file)


def set_frame(dataset, frame, value):
    def edit(file):
        file[dataset][frame] = value

    return edit


def put(dataset, values):
    def edit(file):
        del file[dataset]
        file[dataset] = values

    return edit


def list_of(values):
    def edit(file):
        file["mask/odd"] = values

    return edit


def count_in_words(file):
    file["data/demo_1"].attrs["num_samples"] = "twelve"


def dangling(file):
    del file["data/demo_1/obs/velocity"]
    file["data/demo_1/obs/velocity"] = h5py.SoftLink("/nowhere")


def everywhere(name, values):
    """Another dataset of each demonstration."""
    def edit(file):
        for demo in file["data"].values():
            demo[name] = values(len(demo["actions"]))

    return edit


def compressed(**filter):
    def edit(file):
        del file["data/demo_1/obs/velocity"]
        frames = len(file["data/demo_1/actions"])
        file.create_dataset("data/demo_1/obs/velocity", (frames, 2), np.float32, np.zeros((frames, 2), np.float32), **filter)

    return edit


def twice(file):
    file["data/demo_01"] = file["data/demo_1"]


def renamed(file):
    file["data/demo_3x"] = file["data/demo_3"]


BAD = {
    "missing key": (None, ["data.observations=[position, vel]"],
                    ["data.observations", "found no /data/demo_0/obs/vel", "there are: image, position, velocity"]),
    "pictures of floats": (put("data/demo_0/obs/image", np.zeros((12, 4, 4, 3), np.float32)), ["data.observations=[image]"],
                           ["data.observations: ", "/data/demo_0/obs/image is float32 [12, 4, 4, 3]",
                            "allowed: images, uint8 [frame, height, width, channels], or numbers"]),
    "pictures of 3 axes": (put("data/demo_0/obs/image", np.zeros((12, 4, 4), np.uint8)), ["data.observations=[image]"],
                           ["/data/demo_0/obs/image is uint8 [12, 4, 4]", "allowed: images, uint8 [frame, height"]),
    "channels first": (put("data/demo_0/obs/image", np.zeros((12, 3, 84, 84), np.uint8)), ["data.observations=[image]"],
                       ["/data/demo_0/obs/image has the shape [12, 3, 84, 84]", "with at most 4 channels"]),
    "pictures as actions": (None, ["data.actions=[obs/image]"], ["/data/demo_0/obs/image is uint8 [", "allowed: numbers"]),
    "nan": (set_frame("data/demo_2/obs/velocity", (3, 1), np.nan), [], ["/data/demo_2/obs/velocity has NaN in frame 3"]),
    "infinity": (set_frame("data/demo_2/obs/velocity", (3, 1), -np.inf), [], ["/data/demo_2/obs/velocity has infinity in frame 3"]),
    "action": (set_frame("data/demo_1/actions", (2, 0), 1.5), [],
               ["/data/demo_1/actions has 1.5 in frame 2", "data.normalize_actions"]),
    "width": (put("data/demo_1/obs/velocity", np.zeros((9, 3), np.float32)), [],
              ["/data/demo_1/obs/velocity has 9 frames"]),
    "action left alone": (set_frame("data/demo_1/actions", (2, 1), 1.5),
                          ["data.normalize_actions=min_max", "data.actions_not_normalized=[1]"],
                          ["/data/demo_1/actions has 1.5 in frame 2", "or 1 not among data.actions_not_normalized"]),
    "line feed": (everywhere("obs/two\nlines", np.zeros), ["data.observations=[]"],
                  ["data.observations: ", "an observation that is called 'two\\x0alines'", "without control characters"]),
    "line feed beside": (everywhere("obs/two\nlines", np.zeros), ["data.observations=[vel]"],
                         ["there are: image, position, two\\x0alines, velocity"]),
    "group": (everywhere("obs/camera/depth", np.zeros), ["data.observations=[camera]"],
              ["found no /data/demo_0/obs/camera", "there are: camera/depth, image, position, velocity"]),
    "lzf": (compressed(compression="lzf"), [],
            ["/data/demo_1/obs/velocity: compressed by a filter that is not installed here, lzf (HDF5's filter 32000)",
             "python -m maniple.datasets trim OLD NEW"]),
    "filter": (None, ["data.filter_key=test"], ["data.filter_key", "found no /mask/test", "empty, train"]),
    "empty filter": (None, ["data.filter_key=empty"], ["data.filter_key", "/mask/empty has no demonstrations"]),
    "held out": (None, ["data.validation_filter=test"], ["data.validation_filter: ", "found no /mask/test", "empty, train"]),
    "none held out": (None, ["data.validation_filter=empty"], ["data.validation_filter: ", "/mask/empty has no demonstrations"]),
    "held out and learned from": (
        list_of([b"demo_1", b"demo_3"]), ["data.filter_key=train", "data.validation_filter=odd"],
        ["data.validation_filter: ", "/mask/odd and /mask/train have 1 demonstration in common"]),
    "all held out": (list_of([f"demo_{n}".encode() for n in range(4)]), ["data.validation_filter=odd"],
                     ["data.validation_filter: ", "/mask/odd has all demonstrations, 4", "leaves some for training"]),
    "short ones held out": (list_of([b"demo_2"]), ["data.validation_filter=odd", "policy.recurrent=gru", "data.pad_sequence=false",
                                                   "policy.recurrent_horizon=100"], ["allowed: at least 100 without padding"]),
    "list of others": (list_of([b"demo_00"]), ["data.filter_key=odd"],
                       ["data.filter_key: ", "/mask/odd names 'demo_00', which is not in /data",
                        "there: demo_0, demo_1, demo_2, demo_3"]),
    "list of numbers": (list_of([0, 1]), ["data.filter_key=odd"],
                        ["data.filter_key: ", "/mask/odd is int64 [2]", "allowed: a list of texts"]),
    "list in a table": (list_of([[b"demo_0"], [b"demo_1"]]), ["data.filter_key=odd"], ["/mask/odd is string [2, 1]"]),
    "list that is none": (None, ["data.filter_key=/"], ["data.filter_key: ", "/mask// is no dataset"]),
    "count": (count_in_words, [], ["data.file: ", "/data/demo_1: attribute num_samples", "allowed: an integer"]),
    "dangling link": (dangling, [], ["data.file: ", "/data/demo_1/obs/velocity"]),
    "data without groups": (put("data", np.zeros(3)), [], ["data.file: ", "/data: not a group"]),
    "observations twice": (None, ["data.observations=[position, position]"], ["data.observations: found 'position' twice"]),
    "actions twice": (None, ["data.actions=[actions, actions]"], ["data.actions: found 'actions' twice"]),
    "weight too small": (None, ["data.weights=1e-6"], ["data.weights: found 1e-06 for the ", "one sample of each file"]),
    "weight too large": (None, ["data.weights=1e18"], ["data.weights: found 1e+18 for the ", "1e+12 in all at most"]),
    "one number": (twice, [], ["data.file: ", "found /data/demo_", "numbers of their own"]),
    "name": (renamed, [], ["found /data/demo_3x", "demo_<number>"]),
    "batch": (None, ["learning.batch_size=100000"], ["learning.batch_size: found 100000", "allowed: at most"]),
    "huge batch": (None, ["learning.batch_size=1000000000"], ["learning.batch_size: found 1000000000", "allowed: at most"]),
    "ranks": (None, ["learning.batch_size=1"], ["learning.batch_size: 1 sample on 2 ranks"]),
    "weights": (None, ["data.weights=[1, 2]"], ["data.weights: found a list of 2", "a list of 1"]),
    "clipped": (None, ["policy.clip_observations=5"],
                ["policy.clip_observations: found 5 with learning.algorithm: bc", "allowed: 0"]),
    "gaussian": (None, ["learning.loss=gaussian"], ["learning.loss", "policy.squash_actions"]),
    "beyond tanh": (None, ["data.normalize_actions=mean_std"],
                    ["data.normalize_actions: found mean_std with policy.squash_actions: true", "allowed: min_max, or"]),
    "beyond clipped samples": (None, ["learning.preset=diffusion_policy", "data.normalize_actions=mean_std"],
                               ["data.normalize_actions: found mean_std with diffusion.clip_sample: true"]),
    "shared": (None, ["policy.shared=true"], ["policy.shared: found true with learning.algorithm: bc"]),
    "critic": (None, ["policy.critic_hidden=[8]"], ["policy.critic_hidden: found layers with learning.algorithm: bc"]),
    "horizon": (None, ["policy.recurrent=lstm", "policy.recurrent_horizon=0"],
                ["policy.recurrent_horizon: found 0 with policy.recurrent: lstm", "the length of sequences"]),
    "no layers": (None, ["policy.hidden=[]"], ["policy.hidden: found a list of 0", "[] with policy.recurrent"]),
    "mixture": (None, ["learning.loss=gmm", "policy.state_dependent_std=true"],
                ["policy.state_dependent_std: found true with learning.loss: gmm"]),
    "mixture's deviation": (None, ["learning.loss=gmm", "policy.std_transform=exp", "policy.init_std=1e-4"],
                            ["policy.init_std: found 1e-04", "allowed: above policy.min_std (1e-04)"]),
    "modes": (None, ["learning.loss=gmm", "policy.modes=1"], ["policy.modes: found '1'; allowed: integer, 2 to 100"]),
    "short": (None, ["policy.recurrent=gru", "policy.recurrent_horizon=100", "data.pad_sequence=false"],
              ["data.file: demo_", "allowed: at least 100 without padding, or less with data.pad_sequence: true"]),
    "ppo": (None, ["learning.algorithm=ppo"], ["learning.algorithm: found ppo with learning.preset: robomimic"]),
    "ppo's preset": (None, ["learning.preset=maniple"], ["learning.algorithm: found ppo", "imitate learns from data"]),
    "evaluation": (None, ["evaluation.every=1"], ["evaluation.every", "without a task"]),
}


# one on two ranks of each way in which they come to know: of what rank 0 reads, of the deck, of the samples of all
ON_RANKS = [(case, 2) for case in ("nan", "filter", "ranks", "batch")]
ALONE = [(case, 0) for case in BAD if case != "ranks"]


@pytest.mark.parametrize("case, ranks", [*ALONE, *of_the_day([(case, 2) for case in BAD], *ON_RANKS)])
def test_what_is_wrong_is_named(maniple, tmp_path, case, ranks):
    edit, keys, expected = BAD[case]
    path = write_robomimic(tmp_path / "demos.hdf5", episodes(4, shortest=12), {"train": [0, 1], "empty": []})
    if edit:
        change(path, edit)
    result = maniple("imitate", f"data.file={path}", KEYS, "learning.steps=1", "policy.hidden=[8]",
                     f"output.directory={tmp_path / 'run'}", *keys, ranks=ranks, exit_code=2, timeout=60)
    assert result.stderr.count("maniple: error:") == 1
    for text in expected:
        assert text in result.stderr
    assert not (tmp_path / "run" / "results.h5").exists()


def test_validate_knows_demonstrations(maniple, tmp_path):
    """What imitate would say and refuse, without a model; with one, whether they fit its task."""
    made = episodes(4, shortest=12)
    path, frames = write_robomimic(tmp_path / "demos.hdf5", made), sum(len(action) for _, _, action in made)
    keys = [f"data.file={path}", KEYS, "learning.batch_size=20"]
    text = maniple("validate", "inputs/imitate/bc_rnn.yaml", *keys, ranks=2).stdout
    assert f"  {path}: robomimic\n  observations position 3, velocity 2; actions 2\n" in text
    assert f"  4 demonstrations, {frames} samples, {-(-frames // 20)} batches of 20 per epoch; a sample has 10 frames\n" in text
    assert "preset robomimic_rnn: " in text and "MB of the policy per rank" in text and text.endswith("all good\n")
    result = maniple("validate", "inputs/tasks/isaac_cartpole.yaml", *keys, exit_code=2)
    assert "4 observations and 1 action; the demonstrations have 5 (data.frame_stack 1) and 2" in result.stderr
    change(path, set_frame("data/demo_2/obs/velocity", (3, 1), np.nan))
    assert "/data/demo_2/obs/velocity has NaN in frame 3" in maniple("validate", *keys, ranks=2, exit_code=2).stderr
    assert "model.file: found nothing" in maniple("validate", "batch.num_envs=2", exit_code=2).stderr


def test_unequal_widths(maniple, tmp_path):
    made = episodes(3)
    narrow = [(position[:, :2], velocity, action) for position, velocity, action in made]
    a, b = write_robomimic(tmp_path / "a.hdf5", made), write_robomimic(tmp_path / "b.hdf5", narrow)
    frames = len(made[1][2])
    change(a, put("data/demo_1/obs/velocity", np.zeros((frames, 3), np.float32)))
    result = maniple("imitate", f"data.file={a}", KEYS, f"output.directory={tmp_path / 'run'}", exit_code=2)
    assert "/data/demo_1/obs/velocity has 3 numbers per frame; that of demo_0 has 2" in result.stderr
    result = maniple("imitate", f"data.file=[{write_robomimic(a, made)}, {b}]", KEYS,
                     f"output.directory={tmp_path / 'run'}", exit_code=2)
    assert "observations position of 2 numbers; those of" in result.stderr


def test_unequal_pictures(maniple, tmp_path):
    def refusal(*paths):
        return maniple("imitate", f"data.file=[{', '.join(map(str, paths))}]", "data.observations=[position, agentview_image]",
                       f"output.directory={tmp_path / 'run'}", ranks=2, exit_code=2, timeout=60).stderr

    made = episodes(3)
    small, large = (pictures(made, {"agentview_image": (size, size, 3)}) for size in (6, 8))
    a = write_robomimic(tmp_path / "a.hdf5", made, images=[small[0], large[1], small[2]])
    assert "/data/demo_1/obs/agentview_image has images of 8 x 8 x 3; that of demo_0 has images of 6 x 6 x 3" in refusal(a)
    a, b = (write_robomimic(tmp_path / f"{name}.hdf5", made, images=images) for name, images in (("a", small), ("b", large)))
    text = refusal(a, b)
    assert "b.hdf5: images agentview_image of 8 x 8 x 3; those of" in text and "have 6 x 6 x 3" in text
    for number in range(3):
        change(b, put(f"data/demo_{number}/obs/agentview_image", np.zeros((len(made[number][2]), 2), np.float32)))
    assert "b.hdf5: 0 of the observations are images; those of" in refusal(a, b)


def test_pictures_of_a_task_in_many_files(maniple, tmp_path):
    """The task's keys are asked of all files, whether they hold vectors or pictures."""
    made = episodes(2)
    paths = [write_robomimic(tmp_path / f"{name}.hdf5", made, images=pictures(made, {"joint_pos_rel": (6, 6, 3)})) for name in "ab"]
    for path in paths:
        with h5py.File(path, "r+") as file:
            for demo in file["data"].values():
                demo["obs/joint_vel_rel"] = np.zeros((len(demo["actions"]), 2))
    text = maniple("imitate", "inputs/tasks/isaac_cartpole.yaml", "learning.preset=robomimic",
                   f"data.file=[{paths[0]}, {paths[1]}]", f"output.directory={tmp_path / 'run'}", exit_code=2).stderr
    assert "found images (joint_pos_rel) among data.observations" in text


def test_other_files(maniple, tmp_path):
    def refusal(path):
        return maniple("imitate", f"data.file={path}", f"output.directory={tmp_path / 'run'}", ranks=2,
                       exit_code=2, timeout=60).stderr

    assert "data.file: found" in refusal(tmp_path / "none.hdf5") and "which does not exist" in refusal(tmp_path / "none")
    other = tmp_path / "other.hdf5"
    with h5py.File(other, "w") as file:
        file["data/steps"] = np.zeros(3)
    text = refusal(other)
    assert "found none of the layouts; at its root are: data" in text
    assert "robomimic has groups /data/demo_<number>, minari has groups /episode_<number>, " \
        "droid has groups /action and /observation" in text
    whole = write_robomimic(tmp_path / "whole.hdf5", episodes(4)).read_bytes()
    cut = tmp_path / "cut.hdf5"
    cut.write_bytes(whole[: len(whole) // 2])
    assert "cannot be read as HDF5" in refusal(cut)
    cut.write_text("no HDF5 at all")
    assert "cannot be read as HDF5" in refusal(cut)


DROID = ["data.actions=[abs_pos, abs_rot_6d, gripper_position]",
         "data.observations=[robot_state/cartesian_position, robot_state/gripper_position]"]


def write_droid(folder, count=5, seed=4):
    """A trajectory.h5 for each demonstration, as DROID's tools leave them, and the manifest. [frame, number] of each."""
    rng = np.random.default_rng(seed)
    rows, entries = [], []
    for number in range(count):
        frames = int(rng.integers(6, 15))
        parts = {"observation/robot_state/cartesian_position": rng.uniform(-1, 1, (frames, 6)),
                 "observation/robot_state/gripper_position": rng.uniform(0, 1, frames),
                 "action/abs_pos": rng.uniform(-1, 1, (frames, 3)), "action/abs_rot_6d": rng.uniform(-1, 1, (frames, 6)),
                 "action/gripper_position": rng.uniform(0, 1, (frames, 1))}
        place = folder / f"lab {number}"
        place.mkdir(parents=True)
        with h5py.File(place / "trajectory.h5", "w") as file:
            for name, values in parts.items():
                file[name] = values
            file["action/joint_velocity"] = np.zeros((frames, 7))
            file["observation/timestamp/control"] = np.arange(frames)
        rows.append(np.concatenate([values.reshape(frames, -1) for values in parts.values()], axis=1).astype(np.float32))
        entries.append({"path": f"lab {number}/trajectory.h5", "lang": "put the \"cup\" away: now"})
    (folder / "manifest.json").write_text(json.dumps(entries, indent=1))
    return rows


def test_droid(tmp_path):
    rows = write_droid(tmp_path)
    ours = windows(1, 3, True, True, f"data.file={tmp_path / 'manifest.json'}", *DROID, width=17)
    expected = [rows[demo][np.minimum(np.arange(first, first + 3), len(rows[demo]) - 1)]
                for demo in range(len(rows)) for first in range(len(rows[demo]))]
    np.testing.assert_array_equal(ours, expected)
    alone = windows(1, 1, True, True, f"data.file={tmp_path / 'lab 2/trajectory.h5'}", *DROID, width=17)
    np.testing.assert_array_equal(alone[:, 0], rows[2])


def test_droid_what_is_wrong_is_named(maniple, tmp_path):
    write_droid(tmp_path)
    manifest = tmp_path / "manifest.json"

    def refusal(*keys, ranks=0):
        result = maniple("imitate", f"data.file={manifest}", *DROID, "learning.batch_size=20",
                         f"output.directory={tmp_path / 'run'}", *keys, ranks=ranks, exit_code=2, timeout=60)
        assert result.stderr.count("maniple: error:") == 1
        return result.stderr

    assert "data.actions: " in refusal("data.actions=[]")
    assert "datasets below /observation: robot_state/cartesian_position, robot_state/gripper_position, timestamp/control" \
        in refusal("data.observations=[]")
    assert "below /action: abs_pos, abs_rot_6d, gripper_position, joint_velocity" in refusal("data.actions=[]")
    assert "found no dataset /action/abs_position" in refusal("data.actions=[abs_position]")
    assert "found 'train' with the layout of droid" in refusal("data.filter_key=train")
    assert "data.validation_filter: " in refusal("data.validation_filter=train")
    change(tmp_path / "lab 3/trajectory.h5", set_frame("action/abs_rot_6d", (2, 0), np.nan))
    text = refusal(ranks=2)
    assert "lab 3/trajectory.h5" in text and "/action/abs_rot_6d has NaN in frame 2" in text
    change(tmp_path / "lab 1/trajectory.h5", put("observation/robot_state/gripper_position", np.zeros(3)))
    text = refusal()
    assert "lab 1/trajectory.h5" in text and "gripper_position has 3 frames" in text
    (tmp_path / "lab 4/trajectory.h5").unlink()
    assert "entry 4: " in refusal() and "does not exist" in refusal()
    manifest.write_text('[{"file": "a"}]')
    assert "found no path in entry 0" in refusal()
    manifest.write_text("[{")
    assert "is no JSON" in refusal()
