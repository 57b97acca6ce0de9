"""A task with all ingredients of legged locomotion: a velocity command, pushes, noise, delays and histories, air times
of the feet, separate observations for the critic. It has the same bits on any number of ranks and over a restart, and
its random draws have the stated distributions."""
# ctest: PROCESSORS 1

import re
import subprocess

import h5py
import numpy as np
import pytest

MODEL = """
<mujoco model="biped">
  <compiler angle="radian"/>
  <option timestep="0.005"/>
  <worldbody>
    <geom name="floor" type="plane" size="0 0 1"/>
    <body name="torso" pos="0 0 0.62"><freejoint name="root"/>
      <geom type="sphere" size="0.15" mass="3"/>
      <body name="left" pos="0 0.12 -0.1"><joint name="left_hip" axis="0 1 0" range="-1 1" damping="1"/>
        <geom type="capsule" size="0.04" fromto="0 0 0 0 0 -0.45"/></body>
      <body name="right" pos="0 -0.12 -0.1"><joint name="right_hip" axis="0 1 0" range="-1 1" damping="1"/>
        <geom type="capsule" size="0.04" fromto="0 0 0 0 0 -0.45"/></body>
    </body>
  </worldbody>
  <actuator>
    <position name="left_servo" joint="left_hip" kp="30"/><position name="right_servo" joint="right_hip" kp="30"/>
  </actuator>
</mujoco>
"""
DECK = """
model: {file: biped.xml}
batch: {num_envs: 99}
simulation: {decimation: 4, steps: 120}
initial_state: {source: task}
control: {source: random}
task:
  episode_steps: 60
  actions:
    - {term: joint_position, joints: [left_hip], scale: {".*": 0.5}}
    - {term: relative_joint_position, joints: [right_hip], scale: 0.25, clip: [-1, 1], delay: [0, 2]}
  commands:
    velocity: {term: uniform_velocity_command, lin_vel_x: [-1, 1], lin_vel_y: [0, 0], ang_vel_z: [-1, 1],
               rel_heading_envs: 0.5, rel_standing_envs: 0.25, every: [0.2, 0.6]}
  variables:
    steps: {reset: "0", update: "prev(steps) + (in_contact(left, floor) || in_contact(right, floor))"}
    encoder: {reset: "normal(0, 0.02, 2)", once: true}
  observations:
    - {term: base_ang_vel, noise: 0.2, history: 3}
    - {term: projected_gravity, noise: [-0.05, 0.05]}
    - {expression: "joint_pos + encoder", name: joint_pos, noise_std: 0.01, delay: 1}
    - {term: last_action}
    - {term: generated_commands}
  critic_observations:
    - {term: base_lin_vel}
    - {expression: "[steps, velocity]", name: privileged}
  rewards:
    track: {term: track_lin_vel_xy_exp, std: 0.5, weight: 1}
    air: {term: feet_air_time, bodies: [left, right], threshold: 0.1, weight: 2}
    slide: {term: feet_slide, bodies: [left, right], weight: -0.1}
    alive: {term: is_alive}
  terminations:
    time_out: {term: time_out}
    fallen: {term: illegal_contact, bodies: [torso], threshold: 1}
  resets:
    - {term: reset_root_state_uniform, yaw: [-3.14, 3.14], vx: [-0.5, 0.5]}
  events:
    push: {term: push_by_setting_velocity, vx: [-1, 1], vy: [-1, 1], every: [0.3, 0.5]}
policy: {hidden: [16]}
learning: {iterations: 4, horizon: 16, minibatches: 4, epochs: 2, checkpoint_every: 2}
"""


@pytest.fixture(scope="module")
def deck(tmp_path_factory):
    directory = tmp_path_factory.mktemp("locomotion")
    (directory / "biped.xml").write_text(MODEL)
    (directory / "deck.yaml").write_text(DECK)
    return directory / "deck.yaml"


# (test_restart_task.py has more of a task in its own)
@pytest.mark.nightly
def test_training_has_the_same_bits_on_any_number_of_ranks_and_over_a_restart(maniple, deck, tmp_path):
    digests = []
    for ranks in (1, 2, 3):
        directory = tmp_path / str(ranks)
        maniple("train", deck, f"output.directory={directory}", ranks=ranks)
        checkpoints = maniple.checkpoints(directory)
        digests.append([maniple.digest(file) for file in (directory / "results.h5", *checkpoints)])
    assert digests[0] == digests[1] == digests[2]
    directory = tmp_path / "restarted"
    for iterations, ranks in ((2, 3), (4, 2)):
        maniple("train", deck, f"output.directory={directory}", f"learning.iterations={iterations}",
                "learning.resume=auto", ranks=ranks)
    assert maniple.digest(maniple.checkpoints(directory)[-1]) == digests[0][-1]


def test_variables_and_commands_are_recorded(maniple, deck, tmp_path):
    """They are what the critic, which is shown them, sees in the same sample."""
    fields = ["variables/steps", "critic_observation", "commands/velocity", "qpos", "variables/encoder"]
    runs = []
    for ranks, precision in ((1, "single"), (3, "single"), (2, "double")):
        directory = tmp_path / f"{precision}{ranks}"
        maniple("rollout", deck, f"simulation.precision={precision}", "output.trajectory.every=2",
                f"output.trajectory.fields=[{', '.join(fields)}]", f"output.directory={directory}", ranks=ranks)
        with h5py.File(directory / "results.h5") as file:
            runs.append({name: file[f"trajectory/{name}"][()] for name in fields})
            assert file["trajectory/commands/velocity"].attrs["description"] == "command of the task"
            assert file["trajectory/variables/steps"].attrs["unit"] == "task"
    for run in runs:
        assert run["variables/steps"].shape == (99, 61, 1) and run["commands/velocity"].shape == (99, 61, 3)
        shown = run["critic_observation"][..., -4:]
        np.testing.assert_array_equal(np.concatenate([run["variables/steps"], run["commands/velocity"]], axis=2), shown)
        assert shown[..., 0].max() > 5 and 0.015 < run["variables/encoder"].std() < 0.025
        assert (run["variables/encoder"] == run["variables/encoder"][:, :1]).all()
    for name in fields:
        np.testing.assert_array_equal(runs[0][name], runs[1][name], err_msg=name)
    listed = maniple("inspect", tmp_path / "single1").stdout
    assert "trajectory/variables/encoder" in listed and "trajectory/commands/velocity" in listed
    table = subprocess.run([maniple.root / ".venv/bin/python", maniple.root / "tools/export_csv.py", tmp_path / "single1",
                            "variables/steps", "--output", tmp_path / "tables"], capture_output=True, text=True)
    assert table.returncode == 0, table.stderr
    rows = np.loadtxt(tmp_path / "tables/variables/steps.csv", delimiter=",", skiprows=1)
    np.testing.assert_array_equal(rows[:, 2].reshape(99, 61), runs[0]["variables/steps"][..., 0])
    quantities = maniple("schema", "quantities", deck).stdout
    assert re.search(r"^velocity +3 +task +command of the task, in trajectories commands/velocity$", quantities, re.M)
    assert re.search(r"^encoder +2 +task +variable of the task, in trajectories variables/encoder$", quantities, re.M)
    for verb in ("validate", "rollout"):
        result = maniple(verb, deck, "output.trajectory.every=1", "output.trajectory.fields=[variables/velocity]",
                         f"output.directory={tmp_path / 'none'}", exit_code=2)
        assert 'no field "variables/velocity"; nearest field: ' in result.stderr and "commands/velocity" in result.stderr


def test_rollout_says_what_it_draws(maniple, deck, tmp_path):
    """Commands, pushes and noise of 99 environments over 120 steps: the same on 1 and 3 ranks, within their bounds."""
    fields = "qpos, qvel, observation, reward_term, terminated, truncated"
    runs = {}
    for ranks, changes in ((1, []), (3, []), (2, ["task.events.push.every=[100, 101]"])):
        maniple("rollout", deck, "simulation.precision=double", "output.trajectory.every=1",
                f"output.trajectory.fields=[{fields}]", f"output.directory={tmp_path}/{ranks}", *changes, ranks=ranks)
        with h5py.File(tmp_path / str(ranks) / "results.h5") as file:
            names = file["trajectory/observation"].attrs["names"].split("\n")
            assert len(names) == 19 and "last_action[1]" in names and names[0].startswith("base_ang_vel")
            runs[ranks] = {name: file["trajectory"][name][:].astype(float) for name in file["trajectory"]}
    for name in runs[1]:
        np.testing.assert_array_equal(runs[1][name], runs[3][name], err_msg=name)
    observation, qpos, qvel = (runs[1][name] for name in ("observation", "qpos", "qvel"))
    command = observation[..., -3:]
    assert np.abs(command[..., 0]).max() <= 1 and np.abs(command[..., 2]).max() <= 1
    assert np.ptp(command[..., 0]) > 1.8 and not command[..., 1].any()
    standing = (command == 0).all(axis=2)
    assert 0.15 < standing.mean() < 0.35
    ended = (runs[1]["terminated"] + runs[1]["truncated"])[..., 0] > 0
    assert 20 < ended.sum()
    # the forward command stays for 10 to 30 steps of 0.02 s unless the episode ends
    ages, age = [], np.zeros(99, int)
    for step in range(1, 121):
        age += 1
        changed = command[:, step, 0] != command[:, step - 1, 0]
        moving = ~standing[:, step] & ~standing[:, step - 1]
        ages += list(age[changed & ~ended[:, step] & moving])
        age[changed | ended[:, step]] = 0
    assert min(ages) >= 10 and 25 <= max(ages) <= 30 * 3, (min(ages), max(ages))
    # noise of gyroscope and gravity: uniform, the gravity's within its bounds around a unit vector
    gravity = np.linalg.norm(observation[..., 9:12], axis=2)
    assert np.abs(gravity - 1).max() < 0.05 * 3**0.5 + 1e-6 and gravity.std() > 0.02
    # three angular velocities, the oldest first: what was the newest one step ago is the second now
    angular = observation[..., :9].reshape(99, -1, 3, 3)
    going = ~ended[:, 1:]
    np.testing.assert_array_equal(angular[:, 1:, 1][going], angular[:, :-1, 2][going])
    np.testing.assert_array_equal(angular[:, 1:, 0][going], angular[:, :-1, 1][going])
    # without pushes, though with their draws, the robots go other ways from the step after the first push on: 15 to 25 steps
    apart = np.abs(runs[2]["qvel"] - qvel).max(axis=2) > 0
    first = np.where(ended.cumsum(axis=1) > 0, 999, np.where(apart, np.arange(121), 999)).min(axis=1)
    assert first.min() >= 16 and first[first < 999].max() <= 26 and (first < 999).sum() > 30, first
    assert qpos.shape == (99, 121, 9)


@pytest.mark.parametrize("change, message", [
    ("task.commands.velocity.lin_vel_x=[1, -1]", r"lin_vel_x: found \[1, -1\]; allowed: \[low, high\] with low <= high"),
    ("task.commands.velocity.rel_heading_envs=1.5", r"rel_heading_envs: found 1\.5; allowed: number, 0 to 1"),
    ("task.commands.velocity={heading: [-1, 1], rel_heading_envs: 0}",
     r"velocity\.heading: set without rel_heading_envs; allowed: with the fraction of draws that follow headings, 1 for all"),
    ("task.commands.velocity.every=[0.6, 0.2]", r"every: found \[0\.6, 0\.2\]; allowed: .*\[low, high\] with low <= high"),
    ("task.observations.1.noise=[0.05, -0.05]", r"noise: found \[0\.05, -0\.05\]; allowed: .*low <= high"),
    ("task.observations.2.expression=clip(joint_pos, 0, 1)", r"unknown function 'clip', did you mean 'clamp'\?"),
    ("task.rewards.air.bodies=[lefft]", r"task\.rewards\.air\.bodies: the model has no body 'lefft', did you mean 'left'\?"),
    ("task.events.push.every=~", r"task\.events\.push\.every: not set, but mode is interval; allowed: every: <seconds>"),
    ("task.events.push.mode=startup", r"task\.events\.push\.every: set, but mode is startup; allowed: every: .* with mode interval"),
    ("task.events.push.mode=always", r"task\.events\.push\.mode: found 'always'; allowed: reset \| interval \| startup"),
    ("task.variables.steps.reset=~", r"task\.variables\.steps: found no reset; allowed: reset"),
    ("task.variables.steps.updtae=1", r"task\.variables\.steps\.updtae: found an unknown key; .*nearest: update"),
    ("task.observations.0.history=0", r"task\.observations\[0\]\.history: found '0'; allowed: integer, 1 to 1000"),
    ("task.observations.2.expression=repeat(dt, 70) task.observations.2.history=1000",
     r"task\.observations\[2\]: 70 numbers with a history of 1000, after 12 of other observations; at most 65536"),
    ("task.observations.2.expression=repeat(dt, 700) task.observations.2.delay=1000",
     r"task\.observations\[2\]: history and delay keep 7\d{5} numbers, with those of other terms; at most 65536"),
    ("task.rewards.track.command=speed", r"task\.rewards\.track\.command: no command 'speed'"),
    ("task.episode_length=2", r"task\.episode_steps: found 60 with task\.episode_length 2 s; allowed: one of them"),
    ("task.actions.0.scale={left_hipp: 1}", r"task\.actions\[0\]\.scale: no element 'left_hipp', did you mean 'left_hip'\?"),
])
def test_refusals(maniple, deck, change, message):
    result = maniple("validate", deck, *re.split(r" (?=task\.)", change), exit_code=2, ranks=0)
    assert re.search(message, result.stderr), result.stderr


def test_validate_prints_the_task(maniple, deck):
    table = maniple("validate", deck, ranks=0).stdout
    for line in ("actions (2)", "observations (19)", "critic observations (7)", "joint_position/left_hip", "0 to 8",
                 "projected_gravity", "track ", "truncation: time_out", "termination: illegal_contact",
                 "reset: normal(0, 0.02, 2)", "ends, of 60 control steps at most"):
        assert line in table, line
    # terms with what they were given
    assert re.search(r"push_by_setting_velocity \(vx \[.*\]\) every 0\.3 to 0\.5 s\n", table)
    assert re.search(r"uniform_velocity_command \(ang_vel_z \[.*lin_vel_y \[.*\) every 0\.2 to 0\.6 s\n", table)


def test_schema_lists_what_tasks_are_written_with(maniple, deck):
    terms = maniple("schema", "terms", ranks=0).stdout
    assert "uniform_velocity_command" in terms and "lin_vel_x: [low, high] [m/s], forward velocity" in terms
    functions = maniple("schema", "functions", ranks=0).stdout
    assert "norm([3, 4]) -> 5" in functions and "air_time(foot) -> 1 component\n" in functions and "contact_force(foot, floor) -> 3 components" in functions
    quantities = maniple("schema", "quantities", ranks=0).stdout
    assert "xpos" in quantities and "3 per body" in quantities and "joint_pos['hinge']" in quantities
    own = maniple("schema", "quantities", deck, ranks=0).stdout
    assert "12 (4 bodies)" in own and "velocity" in own and "encoder" in own
