"""maniple.sb3 and maniple.rsl_rl with their libraries, in .venv-torch (tools/setup.sh --tests), whose Python has torch:
their VecEnvs return the same numbers as maniple.make_vec(), and their PPOs learn on it."""
# ctest: PROCESSORS 1 COST 45

import json
import re
import subprocess

import pytest

from conftest import ENVIRONMENT, ROOT

pytest.importorskip("maniple.native", reason="MANIPLE_PYTHON_PACKAGE is off", exc_type=ImportError)

PENDULUM = "gymnasium/inverted_pendulum_v5"
# one whose critic sees more
ASYMMETRIC = {"include": PENDULUM, "task": {"critic_observations": [{"expression": "qpos"}], "episode_steps": 13}}


def in_python(script, *arguments):
    """What a script of the other Python prints in its last line, as JSON."""
    environment = {name: value for name, value in ENVIRONMENT.items() if name != "VIRTUAL_ENV"}
    text = f"import json, sys\nsys.path.insert(0, {str(ROOT / 'tools')!r})\n{script}"
    result = subprocess.run([ROOT / ".venv-torch/bin/python", "-c", text, *map(json.dumps, arguments)], env=environment,
                            capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


def test_sb3_steps():
    """Observations, rewards, ends and what Monitor tells of them; dictionaries where a critic sees more."""
    ended = in_python("""
import numpy as np
import maniple
from stable_baselines3.common.vec_env import VecEnv
from maniple.sb3 import make_vec_env
ended = 0
for deck, steps in ((json.loads(sys.argv[1]), 60), (json.loads(sys.argv[2]), 30)):
    ours, theirs = maniple.make_vec(deck, 40, 3, autoreset_mode="SameStep"), make_vec_env(deck, 40, 3)
    assert isinstance(theirs, VecEnv) and theirs.num_envs == 40 and theirs.action_space == ours.single_action_space
    assert theirs.observation_space == ours.single_observation_space
    assert theirs.get_attr("step_dt", [1, 2]) == [ours.step_dt] * 2
    def same(found, wanted):
        if isinstance(wanted, dict):
            assert found.keys() == wanted.keys()
            for name in wanted:
                np.testing.assert_array_equal(found[name], wanted[name])
        else:
            np.testing.assert_array_equal(found, wanted)
    same(theirs.reset(), ours.reset()[0])
    random = np.random.default_rng(0)
    for step in range(steps):
        action = random.uniform(-1, 1, (40, 1)).astype(np.float32)
        observations, rewards, terminated, truncated, infos = ours.step(action)
        found = theirs.step(action)
        same(found[0], observations)
        same(found[1], rewards)
        same(found[2], terminated | truncated)
        for env, info in enumerate(found[3]):
            assert bool(info) == (terminated | truncated)[env]
            if info:
                ended += 1
                assert info["episode"]["r"] == infos["episode"]["r"][env] and info["episode"]["l"] == infos["episode"]["l"][env]
                assert info["TimeLimit.truncated"] == (truncated[env] and not terminated[env])
                same(info["terminal_observation"], infos["final_obs"][env])
    theirs.seed(3)
    same(theirs.reset(), maniple.make_vec(deck, 40, 3).reset()[0])
    for refused in (lambda: theirs.set_attr("x", 1), lambda: theirs.env_method("x")):
        try:
            refused()
        except ValueError as error:
            assert "of their own" in str(error)
        else:
            raise SystemExit("not refused")
    theirs.close()
print(json.dumps(ended))
""", PENDULUM, ASYMMETRIC)
    assert ended > 100


def test_sb3_learns():
    first, last = in_python("""
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from maniple.sb3 import make_vec_env
class Lengths(BaseCallback):
    found = []
    def _on_step(self):
        return True
    def _on_rollout_end(self):
        self.found.append(sum(entry["l"] for entry in self.model.ep_info_buffer) / len(self.model.ep_info_buffer))
model = PPO("MlpPolicy", make_vec_env(json.loads(sys.argv[1]), 64, 1), n_steps=32, batch_size=512, learning_rate=3e-3, seed=0)
model.learn(64 * 32 * 12, callback=Lengths())
print(json.dumps([Lengths.found[0], Lengths.found[-1]]))
""", PENDULUM)
    assert last > 4 * first


RSL_RL = """
import torch
from maniple.rsl_rl import ManipleVecEnv
"""


def test_rsl_rl_logs_what_episodes_tell():
    """As Isaac Lab's environments do: rewards in units of the longest episode, ends, metrics and curricula."""
    deck = {"include": PENDULUM, "task": {"episode_steps": 10, "metrics": {"speed": {"expression": "abs(qvel[0])"}},
                                          "curricula": {"level": {"reset": "0.5", "update": "level + 1"}}}}
    log, again, plain = in_python(RSL_RL + """
import warnings
warnings.simplefilter("ignore")
import maniple
deck = json.loads(sys.argv[1])
ours, theirs = maniple.make_vec(deck, 40, 3, autoreset_mode="SameStep"), ManipleVecEnv(deck, 40, 3)
ours.reset()
theirs.set_curriculum("level", 0.75)
for step in range(10):
    _, _, _, extras = theirs.step(torch.zeros(40, 1))
    infos = ours.step(torch.zeros(40, 1).numpy())[-1]
log, own, seconds = extras["log"], infos["_episode"], ours.max_episode_steps * ours.step_dt
want = {}
for name, values in infos["metrics"].items():
    kind, _, short = name.partition("_")
    if kind:  # (_name: masks)
        group = {"reward": "Episode_Reward", "termination": "Episode_Termination", "metric": "Metrics"}[kind]
        want[f"{group}/{short}"] = float(values[own].mean()) / (seconds if kind == "reward" else 1)
print(json.dumps([log, want, [float(infos["episode"]["r"][own].mean()), seconds]]))
""", deck)
    assert log["Curriculum/level"] == 0.75
    assert {name: value for name, value in log.items() if "/" in name and name[0] in "EM"} == pytest.approx(again)
    assert log["Episode_Termination/time_out"] == 1 and log["Metrics/speed"] > 0
    rewards = sum(value for name, value in log.items() if name.startswith("Episode_Reward/"))
    assert rewards * plain[1] == pytest.approx(plain[0], rel=1e-5) and log["episode/return"] == pytest.approx(plain[0])


def test_rsl_rl_steps():
    ended = in_python(RSL_RL + """
import numpy as np
import maniple
from rsl_rl.env import VecEnv
ended = 0
for deck, steps in ((json.loads(sys.argv[1]), 60), (json.loads(sys.argv[2]), 30)):
    ours, theirs = maniple.make_vec(deck, 40, 3, autoreset_mode="SameStep"), ManipleVecEnv(deck, 40, 3)
    assert isinstance(theirs, VecEnv) and (theirs.num_envs, theirs.num_actions) == (40, 1)
    assert theirs.max_episode_length == ours.max_episode_steps > 0
    def same(found, wanted):
        wanted = wanted if isinstance(wanted, dict) else {"policy": wanted}
        assert set(found.keys()) == set(wanted) and found.batch_size == torch.Size([40])
        for name in wanted:
            np.testing.assert_array_equal(found[name].numpy(), wanted[name])
    same(theirs.get_observations(), ours.reset()[0])
    random, lengths = np.random.default_rng(0), np.zeros(40, int)
    for step in range(steps):
        action = random.uniform(-1, 1, (40, 1)).astype(np.float32)
        observations, rewards, terminated, truncated, infos = ours.step(action)
        found, gained, dones, extras = theirs.step(torch.from_numpy(action))
        same(found, observations)
        same(theirs.get_observations(), observations)
        np.testing.assert_array_equal(gained.numpy(), rewards)
        np.testing.assert_array_equal(dones.numpy(), terminated | truncated)
        np.testing.assert_array_equal(extras["time_outs"].numpy(), truncated & ~terminated)
        lengths = np.where(terminated | truncated, 0, lengths + 1)
        np.testing.assert_array_equal(theirs.episode_length_buf.numpy(), lengths)
        if "episode" in infos:
            own = infos["_episode"]
            ended += int(own.sum())
            assert extras["log"]["episode/length"] == infos["episode"]["l"][own].mean()
    try:
        theirs.episode_length_buf = torch.zeros(40)
    except ValueError as error:
        assert "init_at_random_ep_len" in str(error)
    else:
        raise SystemExit("not refused")
print(json.dumps(ended))
""", PENDULUM, ASYMMETRIC)
    assert ended > 100


def test_rsl_rl_learns():
    first, last = in_python(RSL_RL + """
from rsl_rl.runners import OnPolicyRunner
torch.manual_seed(0)
lengths = []
class Watched(ManipleVecEnv):
    def step(self, actions):
        result = super().step(actions)
        lengths[-1] += [result[3]["log"]["episode/length"]] if "log" in result[3] else []
        return result
network = {"class_name": "rsl_rl.models.MLPModel", "hidden_dims": [32, 32], "activation": "elu"}
gaussian = {"class_name": "rsl_rl.modules.distribution.GaussianDistribution", "init_std": 1.0}
settings = {
    "num_steps_per_env": 32, "save_interval": 1000, "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
    "actor": {**network, "distribution_cfg": gaussian}, "critic": network,
    "algorithm": {"class_name": "rsl_rl.algorithms.PPO", "num_learning_epochs": 5, "num_mini_batches": 4, "learning_rate": 3e-3,
                  "schedule": "fixed", "gamma": 0.99, "lam": 0.95, "rnd_cfg": None, "symmetry_cfg": None}}
runner = OnPolicyRunner(Watched(json.loads(sys.argv[1]), 128, 1), settings)
for iteration in range(12):
    lengths.append([])
    runner.learn(1)
mean = lambda numbers: sum(numbers) / len(numbers)
print(json.dumps([mean(lengths[0]), mean(lengths[-1])]))
""", PENDULUM)
    assert last > 2 * first


def test_torch_takes_arrays_where_they_are():
    """By DLPack, without a copy: what a step gives (of flags, which torch 1.13 takes from no one, as bytes), and what torch has
    written into an action. Observations stay what they were when the environments go on."""
    shared = in_python("""
import maniple, numpy as np, torch
shared = []
for deck in map(json.loads, sys.argv[1:]):
    envs, others = (maniple.make_vec(deck, 40, 1) for _ in range(2))
    observations, _ = envs.reset()
    others.reset()
    action = torch.full((40, 1), 0.3)
    arrays = lambda observed: list(observed.values()) if isinstance(observed, dict) else [observed]
    results = envs.step(action)
    for array in (*arrays(observations), *arrays(results[0]), results[1], results[2].view(np.uint8)):
        tensor = torch.from_dlpack(array)
        shared.append(tensor.data_ptr() == array.ctypes.data and tensor.shape == array.shape)
    wanted = others.step(action.numpy())
    kept = torch.from_dlpack(arrays(wanted[0])[0])
    before = kept.clone()
    others.step(action)
    others.step(action)
    assert torch.equal(kept, before) and np.array_equal(arrays(results[0])[0], arrays(wanted[0])[0])
print(json.dumps(shared))
""", PENDULUM, ASYMMETRIC)
    assert shared == [True] * 10


def test_ppo_in_one_file():
    """tools/ppo_in_torch.py learns to keep the pole up: episodes that end at first after a fraction of their 300 steps reach
    nearly all of them, with a larger return."""
    environment = {name: value for name, value in ENVIRONMENT.items() if name != "VIRTUAL_ENV"}
    result = subprocess.run([ROOT / ".venv-torch/bin/python", ROOT / "tools/ppo_in_torch.py", "isaac_cartpole"], env=environment,
                            capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    told = [(float(value), float(length)) for value, length in re.findall(r"return (\S+) length (\S+),", result.stdout)]
    assert len(result.stdout.splitlines()) == 60 and len(told) > 50
    assert told[0][1] < 100 and told[-1][1] > 250 and told[-1][0] > told[0][0] + 2, result.stdout
