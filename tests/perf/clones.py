"""Imitation of a trained half-cheetah from 50 of its episodes: a diffusion policy, and behaviour cloning here and by
robomimic's own code on the same file, with the same settings, for as many updates. Writes a table.

    python tests/perf/clones.py --runs runs/clones
    python tests/perf/clones.py --runs runs/clones --torch-python /usr/bin/python3     # and robomimic's

Every step has a directory below --runs, and what is there is not done again. Rates are those of one core: both programs
are bound to one, threads and all. robomimic needs torch, which may be that of another Python (Debian: python3-torch).
"""

import argparse
import json
import os
import subprocess
import sys
import time
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("MANIPLE_BUILD_DIR", ROOT / "build"))
TASK = "inputs/tasks/gymnasium/half_cheetah_v5.yaml"
EXPERT = "inputs/train/gymnasium/half_cheetah_v5.yaml"
KEYS = ["observations_0", "observations_1"]
# small, and with a new plan in each step: open loops of 8 steps are too long for an animal that runs
DIFFUSION = ["learning.preset=diffusion_policy", "diffusion.down_dims=[64,128]", "diffusion.kernel_size=3",
             "diffusion.prediction_horizon=4", "diffusion.action_horizon=1", "diffusion.sampler=ddim",
             "diffusion.inference_steps=10"]
ONE_CORE = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def run(*arguments):
    core = str(sorted(os.sched_getaffinity(0))[-1])
    result = subprocess.run(["taskset", "-c", core, *map(str, arguments)], cwd=ROOT, env={**os.environ, **ONE_CORE},
                            capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(result.stdout + result.stderr)
    return result.stdout


def maniple(verb, directory, done, *keys):
    if not (directory / done).exists():
        run(BUILD / "maniple", verb, *keys, f"output.directory={directory}", "output.overwrite=true", "run.progress=none")


def mean_return(directory):
    import h5py

    with h5py.File(directory / "evaluation.h5") as file:
        return tuple(float(file[f"evaluation/{name}"][0]) for name in ("mean_return", "mean_return_confidence"))


def samples_per_second(directory):
    """Samples per second over all iterations but the first."""
    import h5py

    with h5py.File(directory / "results.h5") as file:
        seconds = file["metrics/wall_seconds"][()]
        text = file["run/resolved"][()].decode()
    value = {line.split(":")[0].strip(): line.split(":")[1].strip() for line in text.splitlines() if ":" in line}
    updates = float(value["report_every"]) * (len(seconds) - 1)
    return updates * float(value["batch_size"]) / (seconds[-1] - seconds[0])


def robomimic_clone(path, hidden, steps, batch, rate, output):
    """Trains robomimic's BC as its train.py does, in this process, and saves its layers."""

    class StandIn(types.ModuleType):
        """A stand-in for modules that robomimic imports and BC of vectors does not need."""

        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return type(name, (), {})

    import torch

    sys.path.append(str(next((ROOT / ".venv/lib").glob("python3*")) / "site-packages"))
    for name in ("termcolor", "torchvision", "torchvision.transforms", "torchvision.transforms.functional",
                 "torchvision.models", "matplotlib", "matplotlib.pyplot", "matplotlib.cm"):
        module = sys.modules[name] = StandIn(name)
        module.__path__ = []
        if "." in name:
            setattr(sys.modules[name.rpartition(".")[0]], name.rpartition(".")[2], module)
    sys.modules["termcolor"].colored = lambda text, *rest, **others: text
    import h5py
    import numpy as np
    import robomimic.utils.obs_utils as ObsUtils
    from robomimic.algo import algo_factory
    from robomimic.config import config_factory
    from robomimic.utils.dataset import SequenceDataset

    torch.set_num_threads(1)
    torch.manual_seed(1)
    config = config_factory("bc")
    with config.values_unlocked():
        config.observation.modalities.obs.low_dim = KEYS
        config.algo.actor_layer_dims = tuple(hidden)
        config.algo.optim_params.policy.learning_rate.initial = rate
        config.train.batch_size = batch
        config.train.num_data_workers = 0
    ObsUtils.initialize_obs_utils_with_config(config)
    data = SequenceDataset(path, KEYS, ["actions", "rewards", "dones"], hdf5_cache_mode="all", load_next_obs=False,
                           hdf5_normalize_obs=True)
    normalizer = data.get_obs_normalization_stats()
    with h5py.File(path) as file:
        shapes = {key: list(file[f"data/demo_0/obs/{key}"].shape[1:]) for key in KEYS}
        actions = file["data/demo_0/actions"].shape[1]
    model = algo_factory("bc", config, shapes, actions, torch.device("cpu"))
    model.set_train()
    loader = torch.utils.data.DataLoader(data, batch_size=batch, shuffle=True, num_workers=0, drop_last=True)
    batches, started, first = iter(loader), time.perf_counter(), 100
    for step in range(steps):
        if step == first:
            started = time.perf_counter()
        try:
            samples = next(batches)
        except StopIteration:
            batches = iter(loader)
            samples = next(batches)
        samples = model.process_batch_for_training(samples)
        samples = model.postprocess_batch_for_training(samples, obs_normalization_stats=None)  # (the data set did that)
        for group in model.optimizers["policy"].param_groups:
            group["lr"] = rate * (1 - step // 100 * 100 / steps)
        model.train_on_batch(samples, epoch=1, validate=False)
    seconds = time.perf_counter() - started
    layers = [(name, value.detach().numpy()) for name, value in model.nets["policy"].state_dict().items()]
    mean, std = (np.concatenate([normalizer[key][name][0] for key in KEYS]) for name in ("mean", "std"))
    np.savez(output, mean=mean, std=std, rate=(steps - first) * batch / seconds,
             **{f"layer{number}": value for number, (_, value) in enumerate(layers)})


def gymnasium_return(layers, mean, std, episodes):
    """Mean return, and half its 95 % interval, of a tanh layer over relu ones in Gymnasium's own half-cheetah."""
    import gymnasium
    import numpy as np

    returns = []
    environment = gymnasium.make("HalfCheetah-v5")
    for seed in range(episodes):
        observation, over, total = environment.reset(seed=seed)[0], False, 0.0
        while not over:
            x = ((observation - mean) / std).astype(np.float32)
            for number in range(0, len(layers), 2):
                x = layers[number] @ x + layers[number + 1]
                x = np.tanh(x) if number + 2 == len(layers) else np.maximum(x, 0)
            observation, reward, terminated, truncated, _ = environment.step(x)
            total, over = total + reward, terminated or truncated
        returns.append(total)
    return float(np.mean(returns)), float(1.96 * np.std(returns, ddof=1) / len(returns) ** 0.5)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("runs/clones"))
    parser.add_argument("--steps", type=int, default=10000)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--hidden", type=int, nargs="+", default=[256, 256])
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--episodes", type=int, default=50, help="episodes of an evaluation")
    parser.add_argument("--torch-python", help="a Python that has torch: trains robomimic's BC, too")
    parser.add_argument("--robomimic", nargs=2, metavar=("FILE", "OUTPUT"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.robomimic:
        return robomimic_clone(given.robomimic[0], given.hidden, given.steps, given.batch, given.learning_rate,
                               given.robomimic[1])
    runs = given.runs.resolve()
    expert, clone, diffusion = runs / "expert", runs / "clone", runs / "diffusion"
    maniple("train", expert, "results.h5", EXPERT)
    maniple("evaluate", expert, "demonstrations.hdf5", EXPERT, f"control.checkpoint={expert}", "batch.num_envs=50",
            "output.dataset=robomimic")
    demonstrations = expert / "demonstrations.hdf5"
    policy = ["learning.preset=robomimic", f"policy.hidden={given.hidden}"]
    maniple("imitate", clone, "results.h5", TASK, *policy, f"data.file={demonstrations}", f"learning.steps={given.steps}",
            f"learning.batch_size={given.batch}", f"learning.learning_rate={given.learning_rate}", "learning.schedule=linear",
            "data.normalize_observations=mean_std", "data.drop_last=true")
    maniple("evaluate", clone, "evaluation.h5", TASK, *policy, f"control.checkpoint={clone}", "batch.seed=1000",
            f"batch.num_envs={given.episodes}")
    maniple("imitate", diffusion, "results.h5", TASK, *DIFFUSION, f"data.file={demonstrations}",
            f"learning.steps={given.steps}", "learning.batch_size=128", "learning.learning_rate=1e-3",
            "learning.report_every=500")
    maniple("evaluate", diffusion, "evaluation.h5", TASK, *DIFFUSION, f"control.checkpoint={diffusion}", "batch.seed=1000",
            f"batch.num_envs={given.episodes}")
    expert_return = mean_return(expert)
    rows = [("the expert (PPO)", *expert_return, None), ("BC", *mean_return(clone), samples_per_second(clone)),
            ("diffusion policy", *mean_return(diffusion), samples_per_second(diffusion))]
    if given.torch_python:
        import numpy as np

        saved = runs / "robomimic.npz"
        if not saved.exists():
            run(given.torch_python, __file__, "--robomimic", demonstrations, saved, "--steps", given.steps, "--batch",
                given.batch, "--hidden", *given.hidden, "--learning-rate", given.learning_rate)
        with np.load(saved) as file:
            layers = [file[f"layer{number}"] for number in range(len(file.files) - 3)]
            rate, mean, std = float(file["rate"]), file["mean"], file["std"]
        rows.append(("robomimic's BC", *gymnasium_return(layers, mean, std, given.episodes), rate))
    print(f"50 demonstrations, {given.steps} updates of {given.batch} samples (diffusion: 128), layers {given.hidden}")
    print("| policy | return | of the expert's | samples/s on one core |\n|---|---|---|---|")
    for name, value, confidence, rate in rows:
        print(f"| {name} | {value:.0f} ± {confidence:.0f} | {100 * value / expert_return[0]:.1f} % | "
              f"{'' if rate is None else f'{rate:,.0f}'} |")
    (runs / "clones.json").write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
