"""PPO in PyTorch in the manner of CleanRL's ppo_continuous_action.py, in one file, on environments of maniple.make_vec():
a starting point for algorithms of one's own. `maniple train` is PPO without Python.

    python tools/ppo_in_torch.py isaac_cartpole --iterations 60

After every iteration comes a line: environment steps, mean return and length of the episodes that ended in it, steps per second.
"""

import argparse
import time

import maniple
import numpy as np
import torch
from torch import nn
from torch.distributions import Normal

GAMMA, LAMBDA, CLIP, VALUE_WEIGHT, MOST_GRADIENT = 0.99, 0.95, 0.2, 2.0, 1.0


def layer(inputs, outputs, gain=np.sqrt(2)):
    made = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(made.weight, gain)
    nn.init.zeros_(made.bias)
    return made


class Agent(nn.Module):
    """A Gaussian over actions, and the value of an observation."""

    def __init__(self, observations, actions, units=64):
        super().__init__()
        self.actor = nn.Sequential(layer(observations, units), nn.Tanh(), layer(units, units), nn.Tanh(), layer(units, actions, 0.01))
        self.critic = nn.Sequential(layer(observations, units), nn.Tanh(), layer(units, units), nn.Tanh(), layer(units, 1, 1))
        self.log_std = nn.Parameter(torch.zeros(actions))

    def policy(self, observation):
        return Normal(self.actor(observation), self.log_std.exp())

    def value(self, observation):
        return self.critic(observation)[..., 0]


def collect(envs, agent, observation, steps):
    """Steps of all environments, [step, env, ...]; the observation after the last one; returns and lengths of the episodes that ended."""
    keys = ("observation", "action", "log_prob", "reward", "over", "value", "next_value")
    data, ended = {key: [] for key in keys}, []
    for _ in range(steps):
        policy = agent.policy(observation)
        action = policy.sample()
        following, reward, terminated, truncated, infos = envs.step(action.numpy())
        over = terminated | truncated
        following = torch.as_tensor(following)
        # an episode that ran out of time would have gone on: its last observation has a value, that of a failure has none
        last = following.clone()
        if over.any():
            last[torch.as_tensor(over)] = torch.as_tensor(np.stack(infos["final_obs"][over]))
            ended += list(zip(infos["episode"]["r"][over], infos["episode"]["l"][over]))
        row = (observation, action, policy.log_prob(action).sum(-1), torch.as_tensor(reward, dtype=torch.float32), torch.as_tensor(over),
               agent.value(observation), agent.value(last) * torch.as_tensor(~terminated))
        for key, value in zip(keys, row):
            data[key].append(value)
        observation = following
    return {key: torch.stack(values) for key, values in data.items()}, observation, ended


def advantages_of(data):
    """Generalized advantage estimation (Schulman et al. 2016)."""
    delta = data["reward"] + GAMMA * data["next_value"] - data["value"]
    found, after = torch.zeros_like(delta), torch.zeros(delta.shape[1])
    for step in reversed(range(len(delta))):
        after = delta[step] + GAMMA * LAMBDA * ~data["over"][step] * after
        found[step] = after
    return found


def update(agent, optimizer, data, epochs, minibatches):
    """PPO's clipped loss (Schulman et al. 2017), over shuffled minibatches."""
    advantage = advantages_of(data)
    batch = {key: data[key].flatten(0, 1) for key in ("observation", "action", "log_prob")}
    batch["return"], batch["advantage"] = (advantage + data["value"]).flatten(), advantage.flatten()
    for _ in range(epochs):
        for part in torch.randperm(len(batch["return"])).chunk(minibatches):
            of = {key: values[part] for key, values in batch.items()}
            ratio = (agent.policy(of["observation"]).log_prob(of["action"]).sum(-1) - of["log_prob"]).exp()
            gain = (of["advantage"] - of["advantage"].mean()) / (of["advantage"].std() + 1e-8)
            policy_loss = -torch.min(ratio * gain, ratio.clamp(1 - CLIP, 1 + CLIP) * gain).mean()
            value_loss = (agent.value(of["observation"]) - of["return"]).square().mean()
            optimizer.zero_grad()
            (policy_loss + VALUE_WEIGHT * value_loss).backward()
            nn.utils.clip_grad_norm_(agent.parameters(), MOST_GRADIENT)
            optimizer.step()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", nargs="?", default="isaac_cartpole", help="a deck or its name (default isaac_cartpole)")
    parser.add_argument("--envs", type=int, default=512)
    parser.add_argument("--steps", type=int, default=16, help="steps of each environment in an iteration (default 16)")
    parser.add_argument("--iterations", type=int, default=60)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--minibatches", type=int, default=4)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    torch.manual_seed(given.seed)
    envs = maniple.make_vec(given.task, num_envs=given.envs, seed=given.seed, autoreset_mode="SameStep")
    agent = Agent(envs.single_observation_space.shape[0], envs.single_action_space.shape[0])
    optimizer = torch.optim.Adam(agent.parameters(), lr=given.learning_rate, eps=1e-5)
    observation, begin = torch.as_tensor(envs.reset()[0]), time.perf_counter()
    for iteration in range(1, given.iterations + 1):
        with torch.no_grad():
            data, observation, ended = collect(envs, agent, observation, given.steps)
        update(agent, optimizer, data, given.epochs, given.minibatches)
        env_steps = iteration * given.steps * given.envs
        told = ("return {:.4f} length {:.1f}".format(*np.mean(ended, axis=0)) if ended else
                f"no episode ended after {iteration * given.steps} steps of each environment (--iterations)")
        print(f"{env_steps} steps: {told}, {env_steps / (time.perf_counter() - begin):.0f} steps/s", flush=True)


if __name__ == "__main__":
    main()
