"""A task that is not compiled into the program: a pendulum swing-up, model and deck written here, runs with the program
as built, and its rewards are those of its expressions."""
# ctest: PROCESSORS 1

import re
import subprocess

import h5py
import mujoco
import numpy as np
import pytest
from conftest import of_the_day

MODEL = """
<mujoco model="pendulum">
  <option timestep="0.01"><flag contact="disable"/></option>
  <worldbody>
    <body name="rod" pos="0 0 1">
      <joint name="hinge" type="hinge" axis="0 1 0" damping="0.1"/>
      <geom name="bob" type="capsule" fromto="0 0 0 0 0 -0.6" size="0.04" mass="1"/>
      <site name="tip" pos="0 0 -0.6"/>
    </body>
  </worldbody>
  <actuator><motor name="torque" joint="hinge" ctrlrange="-2 2" ctrllimited="true"/></actuator>
</mujoco>
"""

DECK = """
model:
  file: pendulum.xml
batch:
  num_envs: 512
simulation:
  decimation: 2
task:
  name: Pendulum swing-up
  episode_length: 2
  definitions:
    height: "-cos(qpos[hinge])"
  actions:
    - term: joint_effort
      joints: [hinge]
      scale: 2
  observations:
    - expression: "sin(qpos[hinge])"
    - expression: "cos(qpos[hinge])"
    - expression: "0.1 * qvel[hinge]"
  rewards:
    upright:
      expression: "height"
      weight: 1
    effort:
      expression: "sum(action^2)"
      weight: -0.01
  terminations:
    time_out:
      term: time_out
    too_fast:
      expression: "abs(qvel[hinge]) > 40"
  resets:
    - set: qpos[hinge]
      expression: "uniform(-0.3, 0.3)"
    - set: qvel[hinge]
      expression: "uniform(-0.1, 0.1)"
policy:
  hidden: [32, 32]
  fixed_std: false
  shared: false
learning:
  iterations: 30
  horizon: 24
  epochs: 4
  minibatches: 4
  learning_rate: 1e-3
  desired_kl: 0.01
  value_coef: 1
  normalize_advantage: true
"""


@pytest.fixture
def deck(tmp_path):
    (tmp_path / "pendulum.xml").write_text(MODEL)
    (tmp_path / "swing_up.yaml").write_text(DECK)
    return tmp_path / "swing_up.yaml"


def test_trains_without_a_rebuild(maniple, deck, tmp_path):
    before = maniple.program.stat().st_mtime_ns
    maniple("validate", deck)
    maniple("train", deck, f"output.directory={tmp_path / 'run'}", ranks=2)
    assert maniple.program.stat().st_mtime_ns == before
    with h5py.File(tmp_path / "run/results.h5") as file:
        returns = file["metrics/episode_return"][()]
        names = list(file["metrics"])
    assert any("upright" in name for name in names) and any("effort" in name for name in names)
    finite = returns[np.isfinite(returns) & (returns != 0)]
    assert finite[-5:].mean() > finite[:5].mean() + 0.1, finite


def test_metrics_are_of_whole_episodes(maniple, deck, tmp_path):
    """Where the first episodes begin in their midst, what they return says nothing about an episode."""
    for cut in ("false", "true"):
        run = tmp_path / cut
        maniple("train", deck, "task.rewards={upright: ~, effort: ~, alive: {expression: '1'}}", "task.terminations.too_fast=~",
                "learning.iterations=7", f"learning.random_initial_episode_length={cut}", f"output.directory={run}", ranks=2)
        with h5py.File(run / "results.h5") as file:
            metrics = {name: file["metrics"][name][()] for name in ("episode_return", "episode_length", "reward_alive")}
            assert "random_initial_episode_length" in file["metrics/episode_return"].attrs["description"]
        # 100 control steps of 0.02 s each, 24 in an iteration
        for name, whole in (("episode_length", 100), ("episode_return", 2), ("reward_alive", 2)):
            np.testing.assert_allclose(metrics[name], 4 * [np.nan] + 3 * [whole], rtol=1e-5, err_msg=name)
        assert metrics["episode_length"][-3:].tolist() == [100, 100, 100]


def test_rewards_are_what_the_expressions_say(maniple, deck, tmp_path):
    run, rollout = tmp_path / "run", tmp_path / "rollout"
    maniple("train", deck, "learning.iterations=2", f"output.directory={run}")
    maniple("rollout", deck, "batch.num_envs=33", "simulation.steps=30", "simulation.precision=double",
            "control.source=policy", f"control.checkpoint={run}", "initial_state.source=task",
            "learning.iterations=2", "output.trajectory.every=1",
            "output.trajectory.fields=[qpos, qvel, action, observation, reward]", f"output.directory={rollout}", ranks=2)
    with h5py.File(rollout / "results.h5") as file:
        t = {k: v[()] for k, v in file["trajectory"].items()}
    dt = 0.02
    angle, action = t["qpos"][:, 1:, 0], t["action"][:, 1:, 0]
    expected = dt * (-np.cos(angle) - 0.01 * action**2)
    np.testing.assert_allclose(t["reward"][:, 1:, 0], expected, atol=2e-6)
    angle, speed = t["qpos"][..., 0], t["qvel"][..., 0]
    observation = np.stack([np.sin(angle), np.cos(angle), 0.1 * speed], -1)
    np.testing.assert_allclose(t["observation"], observation, atol=2e-6)
    assert np.all(np.abs(t["qpos"][:, 0, 0]) <= 0.3) and np.ptp(t["qpos"][:, 0, 0]) > 0.3


@pytest.mark.parametrize("source", of_the_day(["zero", "random", "file"], "random", "file"))
def test_rollouts_without_a_policy_step_the_task(maniple, deck, tmp_path, source):
    envs, steps, rollout = 33, 230, tmp_path / "rollout"  # episodes of 100 steps
    actions = np.random.default_rng(3).uniform(-1.5, 1.5, (envs, steps, 1))
    with h5py.File(tmp_path / "actions.h5", "w") as file:
        file["action"] = actions
    fields = ["qpos", "qvel", "ctrl", "action", "observation", "final_observation", "reward", "terminated", "truncated",
              "invalid", "reward_term", "episode_return", "episode_length", "episode_reward_term"]
    arguments = ["rollout", deck, f"batch.num_envs={envs}", f"simulation.steps={steps}", "simulation.precision=double",
                 "initial_state.source=task", f"control.source={source}", "output.trajectory.every=1",
                 f"output.trajectory.fields=[{','.join(fields)}]", f"output.directory={rollout}"]
    if source == "file":
        arguments.append(f"control.file={tmp_path}/actions.h5")
    maniple("validate", *arguments[1:])
    maniple(*arguments, ranks=2)
    with h5py.File(rollout / "results.h5") as file:
        t = {name: file["trajectory"][name][()] for name in fields}
    # actions: those of the file, none, or such that the controls fill their range of +-2
    np.testing.assert_array_equal(t["ctrl"][:, 1:][~ends(t)[:, 1:]], 2.0 * t["action"][:, 1:][~ends(t)[:, 1:]])
    drawn = t["action"][:, 1:]
    if source == "file":
        np.testing.assert_array_equal(drawn, actions)
    if source == "zero":
        assert not drawn.any()
    if source == "random":
        assert drawn.min() >= -1 and drawn.max() < 1 and abs(drawn.mean()) < 0.05 and abs(drawn.std() - 3**-0.5) < 0.02
        assert len(np.unique(drawn)) > 0.99 * drawn.size
    # what each step led to, by MuJoCo, also where an episode ended in it
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "pendulum.xml"))
    data = mujoco.MjData(model)
    led_to = np.empty((envs, steps, 2))
    for env in range(envs):
        for step in range(steps):
            data.qpos[:], data.qvel[:] = t["qpos"][env, step], t["qvel"][env, step]
            data.ctrl[:] = 2.0 * t["action"][env, step + 1]
            mujoco.mj_step(model, data, 2)
            led_to[env, step] = data.qpos[0], data.qvel[0]
    angle, speed = led_to[..., 0], led_to[..., 1]
    np.testing.assert_allclose(t["final_observation"][:, 1:], np.stack([np.sin(angle), np.cos(angle), 0.1 * speed], -1),
                               atol=1e-11)
    np.testing.assert_allclose(t["reward"][:, 1:, 0], 0.02 * (-np.cos(angle) - 0.01 * drawn[..., 0] ** 2), atol=1e-11)
    # its terms, and the sums of the episodes, which begin in steps 1, 101 and 201
    np.testing.assert_allclose(t["reward_term"].sum(-1), t["reward"][..., 0], atol=1e-6)
    starts = np.split(np.arange(1, steps + 1), [100, 200])
    np.testing.assert_array_equal(t["episode_length"][0, 1:, 0], np.concatenate([s - s[0] + 1 for s in starts]))
    for episode in starts:
        sums = t["reward_term"][:, episode].cumsum(1)
        np.testing.assert_allclose(t["episode_reward_term"][:, episode], sums, atol=2e-5)
        np.testing.assert_allclose(t["episode_return"][:, episode, 0], sums.sum(-1), atol=2e-5)
    # ends: of time, in steps 100 and 200; the observation then is the first one of the next episode
    assert not t["terminated"].any() and not t["invalid"].any()
    np.testing.assert_array_equal(np.flatnonzero(t["truncated"][0, :, 0]), [100, 200])
    np.testing.assert_array_equal(t["truncated"], np.broadcast_to(t["truncated"][:1], t["truncated"].shape))
    going = ~ends(t)
    np.testing.assert_array_equal(t["observation"][going], t["final_observation"][going])
    angle, speed = t["qpos"][..., 0], t["qvel"][..., 0]
    np.testing.assert_allclose(t["observation"], np.stack([np.sin(angle), np.cos(angle), 0.1 * speed], -1), atol=1e-11)
    assert np.all(np.abs(angle[:, [100, 200]]) <= 0.3) and np.all(np.abs(speed[:, [100, 200]]) <= 0.1)
    assert len(np.unique(angle[:, [0, 100, 200]])) == 3 * envs


FORMULAS = {"qpos[hinge]": lambda q: q, "site_xpos[tip].x": lambda q: -0.6 * np.sin(q),
            "site_xpos[tip].z": lambda q: 1 - 0.6 * np.cos(q), "qfrc_bias[hinge]": lambda q: 9.81 * 0.3 * np.sin(q)}


@pytest.mark.parametrize("observed, rewarded", of_the_day([
    ("site_xpos[tip].x", "qpos[hinge]"), ("qfrc_bias[hinge]", "site_xpos[tip].z"), ("qpos[hinge]", "qfrc_bias[hinge]"),
    ("site_xpos[tip].x", "site_xpos[tip].z")], ("qfrc_bias[hinge]", "site_xpos[tip].z"), ("qpos[hinge]", "qfrc_bias[hinge]")))
def test_what_the_state_implies_is_that_of_the_step(maniple, deck, tmp_path, observed, rewarded):
    """Derived quantities are computed only where something reads them and the state has changed: after a step, and
    again after a reset, here of one environment beside others that go on."""
    text = DECK
    for before, now in {'"sin(qpos[hinge])"': '"qpos[hinge]"', '"cos(qpos[hinge])"': f'"{observed}"',
                        'expression: "height"': f'expression: "{rewarded}"',
                        "abs(qvel[hinge]) > 40": "abs(qpos[hinge]) > 0.28"}.items():
        assert before in text
        text = text.replace(before, now)
    deck.write_text(text)
    maniple("rollout", deck, "batch.num_envs=40", "simulation.steps=40", "simulation.precision=double",
            "initial_state.source=task", "control.source=random", "output.trajectory.every=1",
            "output.trajectory.fields=[action,observation,final_observation,reward,terminated,truncated]",
            f"output.directory={tmp_path / 'run'}", ranks=2)
    with h5py.File(tmp_path / "run/results.h5") as file:
        t = {name: values[()] for name, values in file["trajectory"].items()}
    ended = ends(t)[:, 1:]
    assert ended.any() and not ended.all(axis=0).any()
    for name in ("observation", "final_observation"):
        seen = t[name][:, 1:]
        np.testing.assert_allclose(seen[..., 1], FORMULAS[observed](seen[..., 0]), atol=1e-11)
    led_to = t["final_observation"][:, 1:, 0]
    np.testing.assert_allclose(t["reward"][:, 1:, 0],
                               0.02 * (FORMULAS[rewarded](led_to) - 0.01 * t["action"][:, 1:, 0] ** 2), atol=1e-11)


def ends(trajectory):
    """Where the sample is the first one of the next episode."""
    return (trajectory["terminated"] + trajectory["truncated"])[..., 0] > 0


def test_a_file_of_controls_is_no_file_of_actions(maniple, deck, tmp_path):
    with h5py.File(tmp_path / "controls.h5", "w") as file:
        file["ctrl"] = np.zeros((1, 5, 1))
    messages = []
    for verb in ("validate", "rollout"):
        result = subprocess.run([str(maniple.program), verb, str(deck), "simulation.steps=5", "control.source=file",
                                 f"control.file={tmp_path}/controls.h5", f"output.directory={tmp_path}"],
                                capture_output=True, text=True, timeout=60)
        assert result.returncode == 2
        messages.append(re.search(r"^maniple: error: (.*)", result.stderr, re.M).group(1))
    assert messages[0] == messages[1]
    assert re.search(r"control\.file: .*controls\.h5: /ctrl and no /action, in a deck with a task; /action \[env or 1, step, 1\]",
                     messages[0])


# Speed doubles with each step. One start in fifty is so fast that the first step leaves a bad state (beyond 1e10), as
# many are bad from the start.
UNSTABLE_MODEL = """
<mujoco model="unstable">
  <option timestep="0.01" gravity="0 0 0"><flag contact="disable"/></option>
  <worldbody>
    <body name="cart"><joint name="x" type="slide" axis="1 0 0"/><geom size="0.1" mass="1"/></body>
  </worldbody>
  <actuator>
    <general name="push" joint="x" gainprm="1" biastype="affine" biasprm="0 0 100" ctrlrange="-1 1" ctrllimited="true"/>
  </actuator>
</mujoco>
"""

UNSTABLE_DECK = """
model:
  file: unstable.xml
batch:
  num_envs: 203
task:
  name: Unstable
  episode_length: 0.05
  definitions:
    luck: "uniform(0, 1)"
  actions:
    - {term: actuator_control, actuators: [push]}
  observations:
    - expression: "qvel[x]"
      clip: [-40, 40]
  rewards:
    slow: {expression: "-qvel[x]^2", weight: 1}
    alive: {term: is_alive, weight: 1}
  terminations:
    time_out: {term: time_out}
  resets:
    - set: "qvel[x]"
      expression: "luck < 0.02 ? 9e9 : luck < 0.04 ? 5e10 : uniform(-1, 1)"
policy:
  hidden: [16]
  fixed_std: false
  normalize_observations: true
learning:
  iterations: 4
  horizon: 12
  normalize_advantage: true
"""


def test_bad_states_are_left_out_of_learning(maniple, tmp_path):
    (tmp_path / "unstable.xml").write_text(UNSTABLE_MODEL)
    (tmp_path / "unstable.yaml").write_text(UNSTABLE_DECK)
    def train(run, ranks, *keys):
        return maniple("train", tmp_path / "unstable.yaml", *keys, f"output.directory={run}", ranks=ranks)

    def digests(run):
        return maniple.digest(run / "results.h5"), maniple.digest(maniple.checkpoints(run)[-1])

    run, resumed = tmp_path / "run", tmp_path / "resumed"
    result = train(run, 1)
    train(resumed, 2, "learning.iterations=2")
    train(resumed, 3, "learning.resume=auto")
    assert digests(run) == digests(resumed)
    checkpoint = maniple.checkpoints(run)[-1]
    with h5py.File(run / "results.h5") as file:
        metrics = {name: series[()] for name, series in file["metrics"].items()}
    with h5py.File(checkpoint) as file:
        bad = file["simulation/bad_states"][()]
        mean, variance = file["policy/observation_mean"][0], file["policy/observation_variance"][0]
    # about 4 % of some 2000 episodes
    assert np.all(metrics["invalid_samples"] > 0) and 40 < bad.sum() < 160
    assert metrics["invalid_samples"].sum() == bad.sum()
    # (1 + 4 + ... + 4^5) 0.01 s, and as much again for what controls of 1 N add
    assert np.all(np.abs(metrics["episode_return"]) < 30) and np.all(metrics["value_loss"] < 1e3)
    assert not metrics["skipped_minibatches"].any() and not metrics["inexact_statistics"].any()
    assert abs(mean) < 40 and variance < 40**2
    found = re.findall(r"iteration (\d+): (\d+) control steps left out of learning \(bad state in environment (\d+) at control "
                       r"step (\d+)[,)]", result.stdout + result.stderr)
    assert [int(count) for _, count, _, _ in found] == list(metrics["invalid_samples"])
    for iteration, _, env, step in found:
        assert bad[int(env)] > 0 and int(step) // 12 == int(iteration) - 1


def test_a_misspelt_name_shows_a_caret(maniple, deck, tmp_path):
    deck.write_text(deck.read_text().replace('"-cos(qpos[hinge])"', '"-cos(qpso[hinge])"'))
    result = maniple("validate", deck, exit_code=2)
    message = result.stdout + result.stderr
    assert "swing_up.yaml:" in message and "qpos" in message
    lines = message.splitlines()
    caret = next(i for i, line in enumerate(lines) if re.fullmatch(r"\s*\^\s*", line))
    assert lines[caret - 1][lines[caret].index("^"):].startswith("qpso")
