"""tools/datasets.py: written and omitted steps add up to those of the input, robomimic's reader and ours open the
result, and data sets of others, written here in their layouts, become the episodes that they hold."""
# ctest: PROCESSORS 1

import io
import json
import re
import struct

import h5py
import numpy as np
import PIL.Image
import pytest
import zarr
from conftest import start_tool
from demonstrations import episodes, pictures, write_minari, write_robomimic
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from maniple.results import Run
from numcodecs import Blosc


def tool(*arguments, exit_code=0):
    result = start_tool("datasets.py", *arguments)
    assert result.returncode == exit_code and "Traceback" not in result.stderr, result.stdout + result.stderr
    assert exit_code == 0 or result.stderr.count("\n") == 1
    return result.stdout if exit_code == 0 else result.stderr


def read(path):
    """[(position, velocity, actions)] of either layout, and the lists of robomimic's."""
    with h5py.File(path) as file:
        group, prefix, obs = (file["data"], "demo_", "obs") if "data" in file else (file, "episode_", "observations")
        found = []
        for number in range(sum(name.startswith(prefix) for name in group)):
            episode = group[f"{prefix}{number}"]
            found.append(tuple(episode[name][()] for name in (f"{obs}/position", f"{obs}/velocity", "actions")))
            assert episode.attrs["num_samples" if obs == "obs" else "total_steps"] == len(found[-1][2])
        steps = sum(len(actions) for _, _, actions in found)
        assert group.attrs.get("total", group.attrs.get("total_steps", steps)) == steps
        return found, {name: [int(re.sub(rb"\D", b"", entry)) for entry in values] for name, values in file.get("mask", {}).items()}


def same(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected):
        for a, b in zip(one, other):
            np.testing.assert_array_equal(a, b)


def counted(text):
    """(episodes, steps) of each file that a line tells of, what is left out being the last."""
    return [(int(a), int(b)) for a, b in re.findall(r"(\d+) episodes?, (\d+) steps?", text)]


def check_sum(text):
    before, *after = counted(text)
    assert tuple(np.sum(after, axis=0)) == before, text


@pytest.fixture(params=["robomimic", "minari"])
def data(request, tmp_path):
    made = episodes(10)
    if request.param == "robomimic":
        return write_robomimic(tmp_path / "in.hdf5", made, {"held": [2, 9], "success": [0, 9]})
    return write_minari(tmp_path / "in.hdf5", made)


def test_trim(data, tmp_path):
    whole, masks = read(data)
    text = tool("trim", data, tmp_path / "out.hdf5", "--from", 6, "--to", -7)
    check_sum(text)
    found, kept_masks = read(tmp_path / "out.hdf5")
    kept = [number for number, (_, _, actions) in enumerate(whole) if len(actions) > 13]
    assert 0 < len(kept) < 10 and all(f"{number}" in text for number in set(range(10)) - set(kept))
    extra = len(whole[0][0]) - len(whole[0][2])  # Minari's last observation
    same(found, [(p[6:len(a) - 7 + extra], v[6:len(a) - 7 + extra], a[6:-7]) for p, v, a in (whole[number] for number in kept)])
    assert kept_masks == {name: [kept.index(number) for number in numbers if number in kept] for name, numbers in masks.items()}
    if extra:
        with h5py.File(tmp_path / "out.hdf5") as file:
            assert file["episode_0/truncations"][()].tolist() == [False] * (len(found[0][2]) - 1) + [True]
    assert "no episode has a step at or behind --from 100; the longest" in tool("trim", data, tmp_path / "none.hdf5", "--from", 100, exit_code=2)
    assert not list(tmp_path.glob("none*"))


def test_ends_that_trim_cuts(tmp_path):
    """robomimic's dones are 1 at a cut, and as they were elsewhere."""
    path = write_robomimic(tmp_path / "in.hdf5", episodes(2))
    with h5py.File(path, "r+") as file:
        for demo in file["data"].values():
            demo["dones"] = np.zeros(demo.attrs["num_samples"], np.int64)
    for to, end in (([], 0), (["--to", -1], 1)):
        tool("trim", path, tmp_path / "out.hdf5", "--from", 1, *to, "--overwrite")
        with h5py.File(tmp_path / "out.hdf5") as file:
            assert [demo["dones"][()].tolist() for demo in file["data"].values()] == [
                [0] * (demo.attrs["num_samples"] - 1) + [end] for demo in file["data"].values()]


def test_folders_of_minari(tmp_path):
    """IN is found below the folder of a data set; what needs no conversion is said."""
    folder = tmp_path / "puck/test-v0"
    (folder / "data").mkdir(parents=True)
    made = episodes(4)
    write_minari(folder / "data/main_data.hdf5", made)
    check_sum(tool("trim", folder, tmp_path / "out.hdf5", "--to", 3))
    tool("merge", tmp_path / "twice.hdf5", folder, folder)
    assert len(read(tmp_path / "twice.hdf5")[0]) == 8
    for path, layout in ((folder, "minari"), (write_robomimic(tmp_path / "in.hdf5", made), "robomimic")):
        said = tool("convert", path, tmp_path / "x", exit_code=2)
        assert f"is in {layout}'s layout already and needs no conversion" in said
    said = tool("trim", folder, folder / "data/main_data.hdf5", "--to", 3, "--overwrite", exit_code=2)
    assert "the same file as input and output" in said


def test_outputs_that_are_there(data, tmp_path):
    """They are replaced where --overwrite says so; of several none is written if one would be."""
    there = tmp_path / "there.hdf5"
    there.write_text("text")
    for arguments in (["trim", data, there, "--from", 1], ["filter", data, there], ["merge", there, data, data],
                      ["split", data, f"{tmp_path}/new.hdf5=0.5", f"{there}=0.5"], ["convert", tmp_path, there]):
        assert f"{there}: found a file already; allowed: another name, or --overwrite" in tool(*arguments, exit_code=2)
        assert there.read_text() == "text" and not (tmp_path / "new.hdf5").exists()
    assert "found a file of the input" in tool("convert", tmp_path, there, "--overwrite", exit_code=2)
    said = tool("split", data, f"{there}=0.5", f"{there}=0.5", "--overwrite", exit_code=2)
    assert "found the same file as output twice" in said
    tool("filter", data, there, "--overwrite")
    same(read(there)[0], read(data)[0])


def test_folders_of_other_layouts_name_the_tool_that_reads_them(tmp_path):
    """Wherever a run or a file of demonstrations is asked for."""
    marks = {"lerobot": "meta/info.json", "zarr": "zarr.json", "old_zarr": ".zgroup", "aloha": "episode_0.hdf5", "rlds": "x-train.tfrecord-00000-of-00001",
             "minari": "data/main_data.hdf5"}
    for name, mark in marks.items():
        folder, file = tmp_path / name, tmp_path / name / mark
        file.parent.mkdir(parents=True)
        file.write_text("{}")
        converts = {"lerobot": f"maniple.from_lerobot {folder} OUT.hdf5", "minari": f"a data set of Minari, whose file is {file}"}.get(
            name, f"maniple.datasets convert {folder} OUT.hdf5")
        with pytest.raises(FileNotFoundError) as caught:
            Run(folder)
        assert converts in str(caught.value) and "is no run" in str(caught.value)
        if name != "minari":  # (which both take by its folder)
            assert converts in tool("trim", folder, tmp_path / "x", "--from", 1, exit_code=2)
            shown = start_tool("replay.py", folder)
            assert shown.returncode == 2 and converts in shown.stderr and shown.stderr.count("\n") == 1


def test_files_that_are_not_there(data, tmp_path):
    assert f"{tmp_path}/nope.hdf5 is not there" in tool("filter", tmp_path / "nope.hdf5", tmp_path / "x", exit_code=2)
    assert f"{tmp_path}: found a folder; allowed: an HDF5 file" in tool("filter", tmp_path, tmp_path / "x", exit_code=2)
    said = tool("filter", data, tmp_path / "nowhere/x.hdf5", exit_code=2)
    assert f"nowhere/x.hdf5: found no folder {tmp_path}/nowhere; allowed" in said
    assert f"{tmp_path}: found a folder; allowed: a file" in tool("filter", data, tmp_path, exit_code=2)
    said = tool("filter", data, tmp_path / ("x" * 250), exit_code=2)
    assert "x cannot be written: File name too long" in said and ".tmp." not in said


def test_lists_that_split_replaces(tmp_path):
    path = write_robomimic(tmp_path / "in.hdf5", episodes(10), {"train": [0, 1, 2], "valid": [3], "best": [4]})
    said = tool("split", path, tmp_path / "out.hdf5", "--mask", 0.2)
    assert f"; in place of those of {path}: mask/train of 3 episodes, mask/valid of 1 episode\n" in said
    lengths = {name: len(numbers) for name, numbers in read(tmp_path / "out.hdf5")[1].items()}
    assert lengths == {"train": 8, "valid": 2, "best": 1}


def test_merge_and_split(data, tmp_path):
    whole, masks = read(data)
    text = tool("split", data, f"{tmp_path}/a.hdf5=0.6", f"{tmp_path}/b.hdf5=0.3", "--seed", 3)
    check_sum(text)
    assert [episodes for episodes, _ in counted(text)] == [10, 6, 3, 1]
    tool("merge", tmp_path / "both.hdf5", tmp_path / "a.hdf5", tmp_path / "b.hdf5")
    found, found_masks = read(tmp_path / "both.hdf5")
    same(found, read(tmp_path / "a.hdf5")[0] + read(tmp_path / "b.hdf5")[0])
    at = [next(k for k, episode in enumerate(whole) if np.array_equal(episode[2], actions)) for _, _, actions in found]
    assert len(set(at)) == 9
    for name, numbers in masks.items():
        assert sorted(at[number] for number in found_masks[name]) == sorted(set(numbers) & set(at))
    for shares, said in (((0.6, 0.6), "add up to 1.2"), ((0, 1), "each above 0"), ((0.01, 0.5), "a share of 0.01 of 10 episodes is none")):
        parts = [f"{tmp_path}/{name}.hdf5={share}" for name, share in zip("cd", shares)]
        assert said in tool("split", data, *parts, exit_code=2)
    assert "found no share" in tool("split", data, "train.hdf5", exit_code=2)


def test_inputs_stay(data, tmp_path):
    path, before = data, data.read_bytes()
    for arguments in (["trim", path, path, "--from", 1], ["merge", path, path, path], ["split", path, f"{path}=0.5"],
                      ["filter", path, path, "--min-length", 2]):
        said = tool(*arguments, "--overwrite", exit_code=2)
        assert "found the same file as input and output; allowed: another name" in said
        assert path.read_bytes() == before and not list(path.parent.glob("*.tmp.*"))


def test_merge_of_what_differs(tmp_path):
    one = write_robomimic(tmp_path / "one.hdf5", episodes(3))
    assert "minari's layout; allowed: that of" in tool("merge", tmp_path / "x", one, write_minari(tmp_path / "m", episodes(2)), exit_code=2)
    other = write_robomimic(tmp_path / "other.hdf5", [(p[:, :2], v, a) for p, v, a in episodes(3)])
    assert "obs/position: found frames (2,) of kind f; allowed: as in" in tool("merge", tmp_path / "x", one, other, exit_code=2)
    with h5py.File(one, "r+") as file:
        file["data/demo_0/states"] = np.zeros(3)
    lone = write_robomimic(tmp_path / "lone.hdf5", episodes(2))
    for paths in ((one, lone), (lone, one)):
        said = tool("merge", tmp_path / "x", *paths, exit_code=2)
        assert f"{lone}: states is missing; allowed: the keys of {one}. imitate reads both" in said
        assert f"data.file=[{paths[0]}, {paths[1]}]" in said
    assert not (tmp_path / "x").exists()


def test_filter(data, tmp_path):
    whole, masks = read(data)
    lengths = [len(actions) for _, _, actions in whole]
    with h5py.File(data, "r+") as file:
        for number in range(10):
            path = f"data/demo_{number}/rewards" if "data" in file else f"episode_{number}/rewards"
            if path in file:
                del file[path]
            file[path] = np.full(lengths[number], number / lengths[number])
    out = tmp_path / "out.hdf5"
    cases = [(["--episodes", "0,3,7-9"], [0, 3, 7, 8, 9]),
             (["--min-length", 15], [k for k in range(10) if lengths[k] >= 15]),
             (["--max-length", 15], [k for k in range(10) if lengths[k] <= 15]), (["--min-return", 5.5], [6, 7, 8, 9])]
    if masks:
        cases.append((["--mask", "held"], [2, 9]))
    for arguments, expected in cases:
        check_sum(tool("filter", data, out, *arguments, "--overwrite"))
        same(read(out)[0], [whole[number] for number in expected])
    assert re.search(r"(demo|episode)_0: return 0,", tool("filter", data, out, "--min-return", 8, "--overwrite"))
    for option, value, said in (("--min-return", 100, "no episode of 10 passes"),
                                ("--mask", "nobody", "/mask/nobody; there are: "),
                                ("--episodes", "1,a", "found 'a'; allowed"), ("--episodes", "", "found ''; allowed"),
                                ("--episodes", "0,3,70", ": found 70; allowed: the file's 10 episodes, from 0 to 9"),
                                ("--episodes", "7-999999999999", "found 10; allowed"),
                                ("--episodes", "9-3", "found 9-3, which runs backwards; allowed: 3-9")):
        assert said in tool("filter", data, tmp_path / "x", option, value, exit_code=2)


def test_results_are_read_by_the_program(maniple, tmp_path):
    one = write_robomimic(tmp_path / "one.hdf5", episodes(6))
    tool("merge", tmp_path / "two.hdf5", one, one)
    tool("trim", tmp_path / "two.hdf5", tmp_path / "three.hdf5", "--from", 1)
    text = maniple("validate", "bc", f"data.file={tmp_path / 'three.hdf5'}", "data.observations=[position, velocity]").stdout
    assert "12 demonstrations" in text


# ---- data of others ----
CAMERA = {"front": (8, 10, 3)}


def check_converted(path, made, state, camera=None, filmed=None):
    with h5py.File(path) as file:
        assert len(file["data"]) == len(made) and file["data"].attrs["total"] == sum(len(action) for _, _, action in made)
        for number, (position, velocity, action) in enumerate(made):
            demo = file[f"data/demo_{number}"]
            np.testing.assert_array_equal(demo["actions"], action)
            np.testing.assert_array_equal(demo[f"obs/{state}"], position[:-1])
            assert demo["dones"][()].tolist() == [0] * (len(action) - 1) + [1]
            if camera:
                assert demo[f"obs/{camera}"].dtype == np.uint8
                np.testing.assert_array_equal(demo[f"obs/{camera}"], filmed[number]["front"][:-1])


def check_without_rewards(maniple, path, state):
    """No returns where the source has none: of all that reads the file nothing asks for them, but a filter by return."""
    with h5py.File(path) as file:
        assert not any("rewards" in demo for demo in file["data"].values())
    overview = maniple.inspect(path)
    assert "returns" not in overview and "masks" not in overview
    folder = path.parent
    tool("merge", folder / "twice.hdf5", path, path)
    tool("trim", folder / "twice.hdf5", folder / "trimmed.hdf5", "--from", 1)
    assert "has no rewards, for --min-return" in tool("filter", path, folder / "x", "--min-return", 0, exit_code=2)
    maniple("imitate", "learning.preset=robomimic", "policy.hidden=[8]", "learning.steps=2", "learning.batch_size=4", "learning.report_every=1",
            f"data.file={folder / 'trimmed.hdf5'}", f"data.observations=[{state}]", f"output.directory={folder / 'clone'}")


@pytest.mark.parametrize("zipped", [False, True])
def test_zarr_of_diffusion_policy(maniple, tmp_path, zipped):
    """As diffusion_policy/common/replay_buffer.py writes it: format 2, Blosc; pictures of pusht as float32."""
    made = episodes(5)
    filmed = pictures(made, CAMERA)
    path = tmp_path / ("pusht.zarr.zip" if zipped else "pusht.zarr")
    store = zarr.storage.ZipStore(path, mode="w") if zipped else path
    group = zarr.open_group(store, mode="w", zarr_format=2)
    ends = np.cumsum([len(action) for _, _, action in made])
    arrays = {"data/state": np.concatenate([position[:-1] for position, _, _ in made]), "meta/episode_ends": ends,
              "data/action": np.concatenate([action for _, _, action in made]),
              "data/keypoint": np.concatenate([np.stack([p[:-1], -p[:-1]], 2) for p, _, _ in made]),
              "data/img": np.concatenate([each["front"][:-1] for each in filmed]).astype(np.float32)}
    for name, values in arrays.items():
        array = group.create_array(name, shape=values.shape, chunks=(min(7, len(values)), *values.shape[1:]), dtype=values.dtype,
                                   compressors=Blosc(cname="lz4", clevel=5, shuffle=Blosc.NOSHUFFLE))
        array[:] = values
    if zipped:
        store.close()
    said = tool("convert", path, tmp_path / "out.hdf5")
    assert "5 demonstrations" in said and "without rewards: 5 of 5" in said and "task" not in said
    assert "; flattened: keypoint [3, 2] to [6];" in said and "left out" not in said
    check_converted(tmp_path / "out.hdf5", made, "state", "img", filmed)
    with h5py.File(tmp_path / "out.hdf5") as file:
        np.testing.assert_array_equal(file["data/demo_1/obs/keypoint"][:, 2:4], made[1][0][:-1, 1:2] * [1, -1])
    check_without_rewards(maniple, tmp_path / "out.hdf5", "state")
    refused = maniple("imitate", "bc", f"data.file={path}", f"output.directory={tmp_path / 'run'}", exit_code=2).stderr
    assert ("cannot be read as HDF5" if zipped else "tools/datasets.py convert") in refused
    maniple("validate", "bc", f"data.file={tmp_path / 'out.hdf5'}", "data.observations=[state, keypoint]")
    if not zipped:
        assert "found the same file as input and output" in tool("convert", path, path, exit_code=2)
        group["meta/episode_ends"].resize(4)
        said = tool("convert", path, tmp_path / "short.hdf5")
        assert f"4 demonstrations, {ends[3]} samples" in said
        rest = f"{ends[4] - ends[3]} of {ends[4]} frames"
        assert said.endswith(f"; left out: {rest}, behind the last of meta/episode_ends ({ends[3]})\n")
        group["meta/episode_ends"].resize(5)
        group["meta/episode_ends"][-1] = ends[-1] + 1
        assert "meta/episode_ends: found" in tool("convert", path, tmp_path / "bad.hdf5", exit_code=2)
        group["data/state"].resize((ends[-1] + 3, 3))
        assert f"data/state: found the shape [{ends[-1] + 3}, 3]; allowed: {ends[-1]} frames" in tool(
            "convert", path, tmp_path / "bad.hdf5", exit_code=2)
        assert not (tmp_path / "bad.hdf5").exists()


@pytest.mark.parametrize("compressed", [False, True])
def test_aloha(maniple, tmp_path, compressed):
    """As act/record_sim_episodes.py writes it; aloha/record_episodes.py pads JPEG to the longest."""
    made = episodes(3)
    filmed = pictures(made, CAMERA)
    (tmp_path / "aloha").mkdir()
    for number, (position, velocity, action) in enumerate(made):
        with h5py.File(tmp_path / f"aloha/episode_{number}.hdf5", "w") as file:
            file.attrs.update({"sim": True, "compress": compressed})
            file["action"], file["observations/qpos"], file["observations/qvel"] = action, position[:-1], velocity[:-1]
            frames = filmed[number]["front"][:-1]
            if compressed:
                coded = [np.frombuffer(image_file(frame, "jpeg"), np.uint8) for frame in frames]
                longest = max(map(len, coded))
                file["observations/images/front"] = np.stack([np.pad(row, (0, longest - len(row))) for row in coded])
            else:
                file.create_dataset("observations/images/front", data=frames, chunks=(1, *frames.shape[1:]))
            if number == 1:
                file["base_action"], file["observations/touch/left"] = action, action
    (tmp_path / "aloha/eval.hdf5").write_bytes(b"")
    said = tool("convert", tmp_path / "aloha", tmp_path / "out.hdf5")
    assert "3 demonstrations" in said and said.endswith("; left out: eval.hdf5, /base_action, /observations/touch\n")
    check_converted(tmp_path / "out.hdf5", made, "qpos", None if compressed else "front", filmed)
    check_without_rewards(maniple, tmp_path / "out.hdf5", "qpos")
    if compressed:
        with h5py.File(tmp_path / "out.hdf5") as file:
            expected = PIL.Image.open(io.BytesIO(image_file(filmed[0]["front"][0], "jpeg")))
            np.testing.assert_array_equal(file["data/demo_0/obs/front"][0], np.asarray(expected))
    one = tmp_path / "aloha/episode_0.hdf5"
    refused = maniple("imitate", "bc", f"data.file={one}", f"output.directory={tmp_path / 'run'}", exit_code=2).stderr
    assert "tools/datasets.py convert" in refused
    assert "found neither /data/demo_0" in tool("trim", one, tmp_path / "x", "--from", 1, exit_code=2)


def image_file(frame, kind):
    file = io.BytesIO()
    PIL.Image.fromarray(frame).save(file, kind)
    return file.getvalue()


def example():
    """The class of tf.train.Example, from the text of feature.proto."""
    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="tensorflow", syntax="proto3")
    field = descriptor_pb2.FieldDescriptorProto

    def message(name, *entries, parent=None):
        made = (parent.nested_type if parent else file.message_type).add(name=name)
        for number, (label, kind, of, key) in entries:
            made.field.add(name=key, number=number, label=label, type=kind, type_name=of or None)
        return made

    for name, kind in (("BytesList", field.TYPE_BYTES), ("FloatList", field.TYPE_FLOAT), ("Int64List", field.TYPE_INT64)):
        message(name, (1, (field.LABEL_REPEATED, kind, "", "value")))
    one, of = field.LABEL_OPTIONAL, field.TYPE_MESSAGE
    message("Feature", *((number, (one, of, f".tensorflow.{name}", key)) for number, name, key in (
        (1, "BytesList", "bytes_list"), (2, "FloatList", "float_list"), (3, "Int64List", "int64_list"))))
    features = message("Features", (1, (field.LABEL_REPEATED, of, ".tensorflow.Features.FeatureEntry", "feature")))
    entry = message("FeatureEntry", (1, (one, field.TYPE_STRING, "", "key")), (2, (one, of, ".tensorflow.Feature", "value")), parent=features)
    entry.options.map_entry = True
    message("Example", (1, (one, of, ".tensorflow.Features", "features")))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tensorflow.Example"))


def test_rlds(maniple, tmp_path):
    """As TensorFlow Datasets writes RLDS: a record for each episode, its steps flattened; shapes in features.json."""
    made = episodes(4)
    filmed = pictures(made, CAMERA)
    folder = tmp_path / "bridge/0.1.0"
    folder.mkdir(parents=True)
    tensor = lambda *shape: {"tensor": {"shape": {"dimensions": list(map(str, shape))}, "dtype": "float32"}}  # noqa: E731
    steps = {"action": tensor(2), "is_first": tensor(), "reward": tensor(), "language_instruction": {"text": {}},
             "observation": {"featuresDict": {"features": {"state": tensor(3), "image": {"image": {"shape": {"dimensions": ["8", "10", "3"]}}}}}}}
    (folder / "features.json").write_text(json.dumps({"featuresDict": {"features": {
        "steps": {"sequence": {"feature": {"featuresDict": {"features": steps}}}}}}}))
    Example = example()
    with open(folder / "bridge-train.tfrecord-00000-of-00003", "wb") as file:
        words = ["open the door", "close/lock it", "open the door", ""]
        for (position, velocity, action), film, said in zip(made, filmed, words):
            episode = Example()
            feature = episode.features.feature
            feature["steps/language_instruction"].bytes_list.value.extend([said.encode()] * len(action))
            feature["steps/action"].float_list.value.extend(action.ravel())
            feature["steps/observation/state"].float_list.value.extend(position[:-1].ravel())
            feature["steps/observation/count"].int64_list.value.extend(np.arange(len(action)) * 1000 - 3)
            feature["steps/observation/image"].bytes_list.value.extend(image_file(frame, "png") for frame in film["front"][:-1])
            feature["steps/observation/name"].bytes_list.value.extend([b"arm"] * len(action))
            feature["steps/effort"].float_list.value.extend(np.arange(len(action)))
            feature["steps/is_first"].int64_list.value.extend([1] + [0] * (len(action) - 1))
            feature["steps/reward"].float_list.value.extend(np.arange(len(action)))
            record = episode.SerializeToString()
            file.write(struct.pack("<QI", len(record), 0) + record + struct.pack("<I", 0))
    said = tool("convert", folder, tmp_path / "out.hdf5")
    assert "4 demonstrations" in said and "; 2 tasks, a list in /mask of each;" in said and "rewards" not in said
    assert said.endswith("; left out: 2 of 3 files of bridge-train.tfrecord, which are not there, steps/effort, "
                         "steps/observation/name, which is text\n")
    check_converted(tmp_path / "out.hdf5", made, "state", "image", filmed)
    with h5py.File(tmp_path / "out.hdf5") as file:
        demo = file["data/demo_1"]
        assert demo["rewards"][()].tolist() == list(range(len(made[1][2])))
        assert demo["obs/count"][:, 0].tolist() == [1000 * k - 3 for k in range(len(made[1][2]))]
        assert sorted(demo["obs"]) == ["count", "image", "state"]
        assert [demo.attrs.get("task") for demo in file["data"].values()] == ["open the door", "close/lock it", "open the door", None]
    assert re.search(r"^masks +close_lock it 1, open the door 2$", maniple.inspect(tmp_path / "out.hdf5"), re.M)
    tool("filter", tmp_path / "out.hdf5", tmp_path / "doors.hdf5", "--mask", "open the door")
    with h5py.File(tmp_path / "doors.hdf5") as file:
        assert [demo.attrs["task"] for demo in file["data"].values()] == ["open the door"] * 2
    log = maniple("imitate", "learning.preset=robomimic", "policy.hidden=[8]", "learning.steps=2", "learning.batch_size=4", "learning.report_every=1",
                  f"data.file={tmp_path / 'out.hdf5'}", "data.observations=[state]", "data.filter_key=open the door",
                  f"output.directory={tmp_path / 'doors'}").stdout
    assert re.search(r"\b2 demonstrations\b", log)
    refused = maniple("imitate", "bc", f"data.file={folder}", f"output.directory={tmp_path / 'run'}", exit_code=2).stderr
    assert "tools/datasets.py convert" in refused
    del episode.features.feature["steps/reward"].float_list.value[-1]
    record, short = episode.SerializeToString(), folder / "bridge-train.tfrecord-00001-of-00003"
    short.write_bytes(struct.pack("<QI", len(record), 0) + record + struct.pack("<I", 0))
    steps = len(made[3][2])
    said = tool("convert", folder, tmp_path / "bad.hdf5", exit_code=2)
    assert f"episode 4: reward has {steps - 1} frames, action {steps}" in said
    short.unlink()
    record = next(folder.glob("*.tfrecord*"))
    record.write_bytes(record.read_bytes()[:-9])
    assert "the file ends within a record" in tool("convert", folder, tmp_path / "bad.hdf5", exit_code=2)


def test_what_is_no_data_set(maniple, tmp_path):
    (tmp_path / "lerobot/meta").mkdir(parents=True)
    (tmp_path / "lerobot/meta/info.json").write_text("{}")
    assert "which another tool converts: python -m maniple.from_lerobot " in tool("convert", tmp_path / "lerobot", tmp_path / "x", exit_code=2)
    refused = maniple("imitate", "bc", f"data.file={tmp_path / 'lerobot'}", f"output.directory={tmp_path / 'run'}", exit_code=2).stderr
    assert "tools/from_lerobot.py FOLDER FILE.hdf5 writes one of a LeRobot data set" in refused
    (tmp_path / "minari/data").mkdir(parents=True)
    (tmp_path / "minari/data/main_data.hdf5").write_bytes(b"")
    refused = maniple("imitate", "bc", f"data.file={tmp_path / 'minari'}", f"output.directory={tmp_path / 'run'}", exit_code=2).stderr
    assert f"that of this Minari data set is {tmp_path}/minari/data/main_data.hdf5" in refused
    assert "found no layout that is known" in tool("convert", tmp_path, tmp_path / "x", exit_code=2)
    assert "is not there" in tool("convert", tmp_path / "nothing", tmp_path / "x", exit_code=2)
    (tmp_path / "records/a.tfrecord").mkdir(parents=True)
    said = tool("convert", tmp_path / "records", tmp_path / "x", exit_code=2)
    assert said == f"datasets.py: error: {tmp_path}/records/a.tfrecord: Is a directory\n"
    (tmp_path / "text").write_text("text")
    assert "cannot be read as HDF5" in tool("trim", tmp_path / "text", tmp_path / "x", exit_code=2)
