"""Policies from images: they learn a task that a blind policy cannot learn; the same bits on any number of ranks,
continued anywhere; onnxruntime computes the same losses of the same crops, and the gradient is that of these losses;
and unsuitable settings are refused."""
# ctest: PROCESSORS 1 COST 60

import functools
import shutil

from maniple import export
import h5py
import numpy as np
import onnx
import onnxruntime
import pytest
from maniple.results import Run

from conftest import of_the_day
from demonstrations import normal, permutation, philox
from trainings import check_kills, check_ranks, digests, metric


SIZE, CROP = (40, 44), (36, 38)
SMALL = ["image.base_width=4", "image.keypoints=8", "image.features=12", "learning.report_every=4",
         "learning.checkpoint_every=1", "learning.keep_checkpoints=2"]
BC = ["inputs/imitate/bc_image.yaml", *SMALL, f"image.crop={list(CROP)}", "policy.hidden=[24]"]
KINDS = {
    "bc": [*BC, "data.observations=[front, clock, wrist]", "learning.batch_size=70", "data.frame_stack=2"],
    "rnn": [*BC, "data.observations=[clock, front]", "learning.batch_size=40", "policy.recurrent=lstm",
            "policy.recurrent_layers=1", "policy.recurrent_units=16", "policy.recurrent_horizon=3", "learning.loss=gmm"],
    "diffusion": ["inputs/imitate/diffusion.yaml", *SMALL, f"image.crop={list(CROP)}", "data.observations=[wrist, front]",
                  "learning.batch_size=40", "diffusion.down_dims=[16, 32]", "diffusion.groups=4", "diffusion.kernel_size=3",
                  "diffusion.step_embedding=16", "learning.warmup_steps=2", "diffusion.prediction_horizon=8",
                  "diffusion.action_horizon=4"],
}


MIXTURE = {"gmm": [*KINDS["bc"], "learning.loss=gmm", "policy.modes=3"]}


def write_pictures(path, count=8, frames=(9, 14), seed=0, wrist=(40, 40, 1)):
    """Demonstrations in robomimic's layout: pictures of a bright blob on a noisy ground, whose place is the action; a second
    camera that sees noise, and a vector that says nothing."""
    rng = np.random.default_rng(seed)
    height, width = SIZE
    rows, columns = np.mgrid[:height, :width]
    with h5py.File(path, "w") as file:
        for number in range(count):
            length = int(rng.integers(*frames))
            action = rng.uniform(-1, 1, (length, 2)).astype(np.float32)
            place = (action / 2 + 0.5) * (height - 13, width - 13) + 6
            away = (rows - place[:, :1, None]) ** 2 + (columns - place[:, 1:, None]) ** 2
            blob = 200 * np.exp(-away / 18)[..., None] * (1, 0.7, 0.4)
            front = np.clip(blob + rng.uniform(0, 40, (length, height, width, 3)), 0, 255).astype(np.uint8)
            demo = file.create_group(f"data/demo_{number}")
            demo.attrs["num_samples"] = length
            demo["actions"] = action
            demo["obs/front"], demo["obs/clock"] = front, rng.normal(size=(length, 3)).astype(np.float32)
            demo["obs/wrist"] = rng.integers(0, 256, (length, *wrist), np.uint8)
    return path


@pytest.fixture(scope="module")
def demos(tmp_path_factory):
    return write_pictures(tmp_path_factory.mktemp("data") / "demos.hdf5")


@pytest.mark.parametrize("kind", of_the_day(KINDS, "diffusion"))
def test_any_number_of_ranks(maniple, tmp_path, demos, kind):
    # (300 samples are more tiles than the denoising network takes at a time)
    size, weight = {"bc": (70, 1), "rnn": (40, 1), "diffusion": (300, 4)}[kind]
    keys = ["imitate", *KINDS[kind], f"data.file={demos}", "learning.steps=4", f"data.weights={weight}"]
    found = check_ranks(maniple, tmp_path, *keys, f"learning.batch_size={size}", counts=(1, 2, 3, 7) if kind == "bc" else (1, 2, 3))
    # and in parts, from a file
    maniple(*keys, "learning.accumulate=2", "data.cache=file", f"learning.batch_size={size // 2}",
            f"output.directory={tmp_path / 'parts'}")
    assert digests(maniple, tmp_path / "parts") == found


@pytest.mark.parametrize("kind", ["bc", "diffusion"])
@pytest.mark.nightly
def test_killed_and_continued_on_other_ranks(maniple, tmp_path, demos, kind):
    check_kills(maniple, tmp_path, "imitate", *KINDS[kind], f"data.file={demos}", "learning.steps=40", "learning.report_every=2",
                counts=(3, 1), most=6)


def test_pictures_that_are_encoded_twice(maniple, tmp_path, demos):
    """More than half a GB of maps, which are made once more for the backward pass; on two ranks they fit."""
    check_ranks(maniple, tmp_path, "imitate", *KINDS["bc"], f"data.file={demos}", "data.observations=[clock, front]",
                "data.weights=20", "data.prefetch=1", "learning.batch_size=1500", "learning.steps=1", "image.crop=[]", counts=(1, 2))


def samples_of(demos, sequence, before, keys, numbers=None):
    """[sample, frame, ...] of each key, the first frame `before` the sample's own; of some demonstrations, or all."""
    found = {key: [] for key in keys}
    with h5py.File(demos) as file:
        for number in range(len(file["data"])) if numbers is None else numbers:
            demo = file[f"data/demo_{number}"]
            length = len(demo["actions"])
            rows = np.clip(np.arange(length)[:, None] - before + np.arange(sequence), 0, length - 1)
            for key in keys:
                found[key].append(demo[key][()][rows])
    return {key: np.concatenate(values) for key, values in found.items()}


def cropped(pictures, update, seed, number, cameras):
    """Pictures [sample, frame, height, width, channels] of a batch, with the crops that the program draws in the middle,
    where an exported policy looks. `number`: of the camera, of this many."""
    top, left = ((whole - part) // 2 for whole, part in zip(pictures.shape[2:], CROP))
    result = np.zeros_like(pictures)
    for place, frames in enumerate(pictures):
        for frame, picture in enumerate(frames):
            word = philox([np.array([x], np.uint64) for x in (place, 0, update, frame * cameras + number)], [seed, 15])
            y, x = (int(word[i][0]) * (picture.shape[i] - CROP[i] + 1) >> 32 for i in (0, 1))
            result[place, frame, top:top + CROP[0], left:left + CROP[1]] = picture[y:y + CROP[0], x:x + CROP[1]]
    return result


@functools.lru_cache
def first_batch(kind, demos):
    """Seed and samples, and what the exported policy is given of them."""
    seed, batch, stack = 3, 40, 2
    cameras = {"rnn": ["front"], "diffusion": ["wrist", "front"]}.get(kind, ["front", "wrist"])
    frames = {"rnn": stack - 1 + 3, "diffusion": 8}.get(kind, stack)
    data = samples_of(demos, frames, stack - 1, ["actions", "obs/clock", *(f"obs/{name}" for name in cameras)])
    chosen = permutation(len(data["actions"]), seed, 0)[:batch]
    data = {key: values[chosen] for key, values in data.items()}
    seen = frames if kind == "rnn" else stack
    return seed, data, {name: cropped(data[f"obs/{name}"][:, :seen], 0, seed, number, len(cameras))
                        for number, name in enumerate(cameras)}


def mixture_loss(model, checkpoint, feed, actions):
    """Of actions in [-1, 1], from what the exported policy gives its last layer."""
    gives = {name: node for node in model.graph.node for name in node.output}
    last = gives[gives["mode_probabilities"].input[0]].input[0]
    model.graph.output.append(onnx.helper.make_tensor_value_info(last, onnx.TensorProto.FLOAT, None))
    matrix, bias = export.weights(checkpoint["policy"], "layer1")
    y = onnxruntime.InferenceSession(model.SerializeToString()).run([last], feed)[0].astype(float) @ matrix.T + bias
    mean, raw = (part.reshape(len(y), 3, -1) for part in (np.tanh(y[:, :6]), y[:, 6:12]))
    std, weight = np.log1p(np.exp(raw)) + 1e-4, np.exp(y[:, 12:])
    density = np.exp(-(((mean - actions[:, None]) / std) ** 2) / 2) / (std * np.sqrt(2 * np.pi))
    return -np.log((density.prod(axis=2) * weight).sum(axis=1) / weight.sum(axis=1)).mean()


def first_loss(kind, demos, run, checkpoint):
    """Of the first batch, by the exported policy of a checkpoint."""
    seed, data, feed = first_batch(kind, demos)
    batch, feed = len(data["actions"]), dict(feed)
    model = (export.model_of if kind != "diffusion" else export.diffusion_model_of)(run, checkpoint)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    if kind in ("bc", "gmm"):
        feed["observation"] = data["obs/clock"].reshape(batch, -1)
        if kind == "gmm":
            return mixture_loss(model, checkpoint, feed, data["actions"][:, -1])
        return ((session.run(["action"], feed)[0].astype(float) - data["actions"][:, -1]) ** 2).mean()
    if kind == "rnn":  # a frame is in the stacks of two steps
        errors, state = [], np.zeros((batch, 32), np.float32)
        for first in range(3):
            stacks = slice(first, first + 2)
            action, state = session.run(["action", "next_state"], {
                "front": feed["front"][:, stacks], "observation": data["obs/clock"][:, stacks].reshape(batch, -1), "state": state})
            errors.append((action.astype(float) - data["actions"][:, first + 1]) ** 2)
        return np.mean(errors)
    policy, place = checkpoint["policy"], np.arange(batch, dtype=np.uint64)
    action = (data["actions"] - policy["action_mean"][()]) / policy["action_scale"][()]
    step = (philox([place, 0 * place, 0 * place, 0 * place], [seed, 12])[0] * np.uint64(100) >> np.uint64(32)).astype(int)
    noise = normal(13, seed, place, 0, action[0].size).reshape(action.shape)
    kept = np.array({p.key: p.value for p in model.metadata_props}["alphas_cumprod"].split(","), float)[step, None, None]
    feed.update(noisy=(np.sqrt(kept) * action + np.sqrt(1 - kept) * noise).astype(np.float32), step=step)
    return ((session.run(["prediction"], feed)[0].astype(float) - noise) ** 2).mean()


@pytest.mark.parametrize("kind", of_the_day([*KINDS, *MIXTURE], "rnn", "diffusion"))
def test_losses_and_gradients_are_those_of_the_exported_policy(maniple, tmp_path, demos, kind):
    """Adam with a huge epsilon makes steps of learning rate / epsilon times the gradient."""
    keys = [*{**KINDS, **MIXTURE}[kind], f"data.file={demos}", "batch.seed=3", "learning.batch_size=40", "learning.steps=1",
            "learning.schedule=fixed", "learning.warmup_steps=0", "learning.weight_decay=0", "learning.ema=false",
            "learning.report_every=1", "image.base_width=8"]
    keys += ["learning.loss=l2", "data.frame_stack=2"] if kind == "rnn" else []
    for name, rate, epsilon in (("begin", 1e-30, 1), ("step", 1000, 1000)):
        maniple("imitate", *keys, f"learning.learning_rate={rate:.0e}", f"learning.adam_epsilon={epsilon}",
                f"output.directory={tmp_path / name}")
    begin, step = (maniple.checkpoints(tmp_path / name)[-1] for name in ("begin", "step"))
    changed = tmp_path / "changed.h5"
    shutil.copy(begin, changed)
    rng = np.random.default_rng(0)
    network = "down_modules.0.0.cond_encoder.1.weight" if kind == "diffusion" else "layer0/weight"
    cameras = ["front"] if kind == "rnn" else ["front", "wrist"]
    with Run(tmp_path / "begin") as run, h5py.File(begin) as old, h5py.File(step) as new, h5py.File(changed, "r+") as file:
        loss = metric(tmp_path / "begin", "loss" if kind in ("diffusion", "gmm") else "squared_error")[0]
        assert first_loss(kind, demos, run, old) == pytest.approx(loss, rel=1e-5)
        for name in (network, *(f"cameras/{camera}/{tensor}" for camera in cameras for tensor in (
                "backbone.nets.0.weight", "backbone.nets.7.1.bn1.bias", "nets.3.weight"))):
            tensor, slope = file[f"policy/{name}"], old[f"policy/{name}"][()].astype(float) - new[f"policy/{name}"][()]
            values = tensor[()]
            # along the gradient itself, and that in half of its places
            for along in (slope, slope * (rng.random(slope.shape) < 0.5)):
                along = along / np.abs(along).max() * (1e-4 * np.abs(values).max() or 2e-3)
                sides = []
                for sign in (1, -1):
                    tensor[...] = values + sign * along
                    sides.append(first_loss(kind, demos, run, file))
                tensor[...] = values
                assert (sides[0] - sides[1]) / 2 == pytest.approx((slope * along).sum(), rel=0.05), name


def test_other_pictures_are_not_continued_with(maniple, tmp_path, demos):
    keys = [*KINDS["bc"], "learning.report_every=1", "learning.resume=auto", f"output.directory={tmp_path / 'run'}"]
    maniple("imitate", *keys, f"data.file={demos}", "learning.steps=1")
    shutil.copy(demos, tmp_path / "other.hdf5")
    with h5py.File(tmp_path / "other.hdf5", "r+") as file:
        file["data/demo_4/obs/wrist"][5, 3, 7, 0] ^= 1
    result = maniple("imitate", *keys, f"data.file={tmp_path / 'other.hdf5'}", "learning.steps=2", ranks=2, exit_code=2)
    assert "data.file: demonstrations with the checksum" in result.stderr


def test_losses_of_held_out_pictures(maniple, tmp_path, demos):
    """Cropped in the middle, as the exported policy crops them."""
    data = tmp_path / "demos.hdf5"
    shutil.copy(demos, data)
    with h5py.File(data, "r+") as file:
        file["mask/valid"] = [b"demo_6", b"demo_1", b"demo_3"]
    keys = [*KINDS["bc"], f"data.file={data}", "data.validation_filter=valid", "learning.batch_size=40", "learning.report_every=2"]
    for ranks in (1, 2):
        maniple("imitate", *keys, "learning.steps=4", f"output.directory={tmp_path / str(ranks)}", ranks=ranks)
    assert digests(maniple, tmp_path / "1") == digests(maniple, tmp_path / "2")
    assert list(metric(tmp_path / "1", "epoch")) == [1, 2]
    feed, actions = [], []
    for number in (1, 3, 6):
        found = samples_of(data, 2, 1, ["actions", "obs/clock", "obs/front", "obs/wrist"], [number])
        actions.append(found["actions"][:, -1])
        feed.append({"front": found["obs/front"], "wrist": found["obs/wrist"],
                     "observation": found["obs/clock"].reshape(len(actions[-1]), -1)})
    feed = {name: np.concatenate([part[name] for part in feed]) for name in feed[0]}
    checkpoint = maniple.checkpoints(tmp_path / "1")[-1]
    with Run(tmp_path / "1") as run, h5py.File(checkpoint) as file:
        session = onnxruntime.InferenceSession(export.model_of(run, file).SerializeToString())
    error = session.run(["action"], feed)[0].astype(float) - np.concatenate(actions)
    assert metric(tmp_path / "1", "validation_loss")[-1] == pytest.approx((error**2).mean(), rel=1e-5)


@pytest.mark.nightly
def test_pictures_are_learned(maniple, tmp_path):
    """A blind policy can do no better than the mean action, whose squared error is 1/3."""
    data = write_pictures(tmp_path / "demos.hdf5", count=40, frames=(10, 11))
    maniple("imitate", *BC, f"data.file={data}", "data.observations=[front, clock]", "image.crop=[]", "learning.batch_size=64",
            "learning.steps=240", "learning.report_every=20", "learning.learning_rate=1e-3",
            f"output.directory={tmp_path / 'run'}", ranks=2)
    loss = metric(tmp_path / "run", "squared_error")
    assert loss[0] > 0.15 and loss[-1] < 0.02


BAD = {
    "crop": (["image.crop=[36, 45]"], ["image.crop: found [36, 45]", "allowed: at most [40, 44], the size of the images of front"]),
    "crop's list": (["image.crop=[36]"], ["image.crop: found a list of 1", "allowed: [height, width], or []"]),
    "small": (["image.crop=[32, 30]"], ["image.crop: found 32 x 30 pixels with images of front", "allowed: more than 32 in height or width"]),
    "width": (["image.base_width=24"], ["image.base_width: found 24 with images of front"]),
    "unknown": (["data.observations=[side]"], ["data.observations: ", "found no /data/demo_0/obs/side", "clock, front, wrist"]),
    "evaluation": (["inputs/tasks/isaac_cartpole.yaml", "evaluation.every=1"],
                   ["evaluation.every: found images (front)", "because environments render no images"]),
    "task": (["inputs/tasks/isaac_cartpole.yaml"], ["task: found images (front)"]),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_named(maniple, tmp_path, demos, case):
    keys, expected = BAD[case]
    for verb in ("imitate", "validate"):
        decks = [key for key in keys if key.endswith(".yaml")]
        result = maniple(verb, *BC[:1], *decks, *BC[1:], f"data.file={demos}", "data.observations=[front, clock]",
                         "learning.batch_size=40", "batch.num_envs=2", f"output.directory={tmp_path / 'run'}",
                         *(key for key in keys if key not in decks), ranks=2, exit_code=2, timeout=60)
        assert result.stderr.count("maniple: error:") == 1
        for text in expected:
            assert text in result.stderr
    assert not (tmp_path / "run" / "results.h5").exists()


def test_where_no_pictures_are(maniple, tmp_path, demos):
    """Neither training in environments nor acting in them has any."""
    result = maniple("train", "inputs/tasks/isaac_cartpole.yaml", "image.features=8", f"output.directory={tmp_path / 'no'}",
                     ranks=2, exit_code=2)
    assert "image.features: set, but learning.algorithm is ppo" in result.stderr
    keys = [*KINDS["bc"], f"data.file={demos}"]
    maniple("imitate", *keys, "learning.steps=1", f"output.directory={tmp_path / 'run'}")
    task = ["inputs/tasks/isaac_cartpole.yaml", *KINDS["bc"][1:], "learning.preset=robomimic", "batch.num_envs=2",
            f"control.checkpoint={tmp_path / 'run'}", f"output.directory={tmp_path / 'out'}"]
    for verb in (["evaluate"], ["rollout", "control.source=policy", "initial_state.source=task", "simulation.steps=2"]):
        text = maniple(verb[0], *task, *verb[1:], ranks=2, exit_code=2).stderr
        assert text.count("maniple: error:") == 1 and "policy: the policy needs images: front 40x44x3, wrist 40x40x1" in text
    text = maniple("validate", *keys, ranks=2).stdout
    assert "observations clock 3, front 40x44x3, wrist 40x40x1; actions 2" in text
