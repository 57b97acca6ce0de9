"""Forces from outside on bodies and dofs: what a task draws and sets, steps with them against libmujoco's, the same bits
on any number of ranks and over a restart, and no room for them where no task names them."""
# ctest: PROCESSORS 1 COST 15

import subprocess

import h5py
import mujoco
import numpy as np
import pytest

MODEL = """
<mujoco>
  <option timestep="0.005" integrator="Euler"/>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 .1"/>
    <body name="torso" pos="0 0 .42">
      <freejoint name="root"/>
      <geom type="box" size=".2 .1 .05" mass="4"/>
      <body name="arm" pos=".2 .15 0">
        <joint name="shoulder" axis="0 1 0" damping=".3" armature=".03"/>
        <geom type="capsule" fromto="0 0 0 0 .1 .3" size=".03" mass=".8"/>
        <body name="hand" pos="0 .1 .3"><joint name="wrist" type="ball" damping=".3" armature=".03"/><geom type="box" size=".05 .03 .1" mass=".3" pos=".03 0 .1"/></body>
      </body>
    </body>
  </worldbody>
  <actuator><motor joint="shoulder"/></actuator>
</mujoco>
"""
EVENTS = """
    payload: {term: apply_external_force_torque, bodies: [torso, hand], mode: reset, force_range: [-3, 9], torque_range: [-1, 1]}
    gust: {term: apply_external_force_torque, bodies: [arm], mode: interval, every: .1, force_range: [-5, 5]}
    friction: {set: "qfrc_applied[shoulder]", expression: "uniform(.1, .2)", mode: interval, every: .06}
"""
TASK = """
model: {{file: {model}}}
batch: {{num_envs: {num_envs}}}
simulation: {{precision: {precision}, decimation: 4, timestep: .005}}
task:
  name: pushed
  episode_steps: 12
  actions:
    - {{term: actuator_control, actuators: [".*"]}}
    {actions}
  observations:
    - {{expression: "{observed}"}}
  rewards:
    up: {{expression: "xpos[torso].z", weight: 1}}
  terminations:
    time_out: {{term: time_out}}
  resets:
    - {{set: "qvel[root]", expression: "uniform(-.3, .3, 6)"}}
  events: {events}
learning: {{iterations: 4, horizon: 8, checkpoint_every: 2}}
"""


@pytest.fixture
def deck(tmp_path):
    """Writes the deck and its model; returns the deck's path."""

    def write(events=EVENTS, precision="double", num_envs=40, observed="[qpos, xfrc_applied[torso], qfrc_applied]", actions=""):
        (tmp_path / "robot.xml").write_text(MODEL)
        path = tmp_path / "task.yaml"
        path.write_text(TASK.format(model=tmp_path / "robot.xml", events=events, precision=precision, num_envs=num_envs,
                                    observed=observed, actions=actions))
        return path

    return write


def rollout(maniple, deck, directory, fields="xfrc_applied,qfrc_applied,", ranks=2):
    maniple("rollout", deck, "simulation.steps=30", "control.source=random", "initial_state.source=task", "output.trajectory.every=1",
            f"output.trajectory.fields=[{fields}qpos,qvel,ctrl,qacc_warmstart,truncated]", f"output.directory={directory}", ranks=ranks)
    with h5py.File(directory / "results.h5") as file:
        return {name: values[()] for name, values in file["trajectory"].items()}


def assert_steps_are_mujocos(run, envs=(0, 17, 39), integrator="Euler"):
    """Each control step within an episode, from the state before it: four steps of MuJoCo under the forces of then."""
    model = mujoco.MjModel.from_xml_string(MODEL.replace("Euler", integrator))
    data = mujoco.MjData(model)
    for env in envs:
        for step in range(30):
            if run["truncated"][env, step, 0]:
                continue  # the next one begins an episode
            mujoco.mj_resetData(model, data)
            for name in ("qpos", "qvel", "qacc_warmstart"):
                getattr(data, name)[:] = run[name][env, step]
            data.ctrl[:] = run["ctrl"][env, step + 1]
            data.xfrc_applied[:] = run["xfrc_applied"][env, step].reshape(-1, 6)
            data.qfrc_applied[:] = run["qfrc_applied"][env, step]
            mujoco.mj_step(model, data, 4)
            if run["truncated"][env, step + 1, 0]:
                continue
            np.testing.assert_allclose(run["qpos"][env, step + 1], data.qpos, rtol=0, atol=1e-8, err_msg=f"{env}, {step}")


@pytest.mark.parametrize("integrator", ["RK4", "implicitfast"])
def test_every_integrator_sees_them(maniple, deck, tmp_path, integrator):
    path = deck()
    (tmp_path / "robot.xml").write_text(MODEL.replace("Euler", integrator))
    assert_steps_are_mujocos(rollout(maniple, path, tmp_path / "run"), integrator=integrator)


def test_draws_and_steps(maniple, deck, tmp_path):
    run = rollout(maniple, deck(), tmp_path / "run")
    assert_steps_are_mujocos(run)
    forces = run["xfrc_applied"].reshape(40, 31, 4, 6)
    assert not forces[:, :, 0].any()  # the world
    ends = run["truncated"][0, :, 0].astype(bool)
    assert ends.sum() == 2
    for body in (1, 3):  # drawn at resets alone, and held
        changes = (forces[:, 1:, body] != forces[:, :-1, body]).all(axis=2)
        np.testing.assert_array_equal(changes, np.repeat(ends[None, 1:], 40, axis=0))
    assert forces[:, :, 1:4:2, :3].min() < -2.5 and forces[:, :, 1:4:2, :3].max() > 8.5 and abs(forces[:, 0, 1:4:2, :3].mean() - 3) < .7
    assert -1 <= forces[..., 1:4:2, 3:].min() < -.95 and .95 < forces[..., 1:4:2, 3:].max() <= 1
    # every fifth control step of an episode, and zero from its begin to then
    gust = forces[:, :, 2]
    assert not gust[..., 3:].any() and not gust[:, [0, 4, 12, 16]].any() and gust[:, [5, 9, 17]].all(axis=(0, 1))[:3].all()
    changed = (gust[0, 1:] != gust[0, :-1]).any(axis=1)
    np.testing.assert_array_equal(np.flatnonzero(changed) + 1, [5, 10, 12, 17, 22, 24, 29])
    friction = run["qfrc_applied"]
    np.testing.assert_array_equal(np.flatnonzero(friction.any(axis=(0, 1))), [6])
    assert .1 <= friction[:, 4, 6].min() < .11 and .19 < friction[:, 4, 6].max() <= .2


def test_actions_and_expressions(maniple, deck, tmp_path):
    """A thrust in the body's frame, which an action sets anew in each step, as Isaac Lab's quadcopter does."""
    path = deck(events="{}", observed="qpos",
                actions="""- {components: [thrust]}
    - {set: "xfrc_applied[torso][0:3]", expression: "rotate(qpos[root][3:7], [0, 0, 30 + 20 * action[1]])"}
    - {set: "qfrc_applied[shoulder]", expression: "-0.2 * qvel[shoulder]"}""")
    run = rollout(maniple, path, tmp_path / "run")
    shown = {name: run[name].copy() for name in ("xfrc_applied", "qfrc_applied")}
    for name, rows in shown.items():  # (a step's forces are set as it begins, like its controls)
        run[name] = np.roll(rows, -1, axis=1)
    assert_steps_are_mujocos(run)
    sizes = np.linalg.norm(shown["xfrc_applied"][:, 1:11, 6:9], axis=2)
    assert 10 <= sizes.min() < 12 and 48 < sizes.max() <= 50


@pytest.mark.parametrize("precision", ["single", "double"])
def test_ranks_and_restarts(maniple, deck, tmp_path, precision):
    path = deck(precision=precision, num_envs=70)
    digests = {}
    for ranks in (1, 3):
        maniple("train", path, f"output.directory={tmp_path / str(ranks)}", ranks=ranks)
        digests[ranks] = maniple.digest(maniple.checkpoints(tmp_path / str(ranks))[-1])
    assert len(set(digests.values())) == 1, digests
    directory = tmp_path / "resumed"
    maniple("train", path, "learning.iterations=2", f"output.directory={directory}", ranks=2)
    with h5py.File(maniple.checkpoints(directory)[-1]) as file:
        assert len(np.unique(file["state/xfrc_applied"][:, 6:12])) == 70 * 6
    maniple("train", path, "learning.resume=auto", f"output.directory={directory}", ranks=5)
    assert maniple.digest(maniple.checkpoints(directory)[-1]) == digests[1]


def test_a_recorded_state_goes_on_with_its_forces(maniple, deck, tmp_path):
    path, first = deck(), tmp_path / "first"
    run = rollout(maniple, path, first, fields="xfrc_applied,qfrc_applied,")
    with h5py.File(tmp_path / "state.h5", "w") as file:
        for name in ("qpos", "qvel", "xfrc_applied", "qfrc_applied"):
            file[name] = run[name][:, 8]
    result = maniple("rollout", deck(events="{}"), "simulation.steps=1", "initial_state.source=file", f"initial_state.file={tmp_path / 'state.h5'}",
                     "output.trajectory.every=1", "output.trajectory.fields=[xfrc_applied,qfrc_applied]", f"output.directory={tmp_path / 'second'}")
    assert "nothing reads" not in result.stdout + result.stderr
    with h5py.File(tmp_path / "second/results.h5") as file:
        for name in ("xfrc_applied", "qfrc_applied"):
            assert run[name][:, 8].any()
            np.testing.assert_array_equal(file[f"trajectory/{name}"][:, 1], run[name][:, 8])


def test_a_task_without_them_has_no_room_for_them(maniple, deck, tmp_path):
    path = deck(events="{}", observed="qpos", precision="single")
    maniple("train", path, "learning.iterations=1", f"output.directory={tmp_path / 'run'}")
    with h5py.File(maniple.checkpoints(tmp_path / "run")[-1]) as file:
        assert not {"xfrc_applied", "qfrc_applied"} & set(file["state"])
    # observed where nothing sets them, they are zero
    run = rollout(maniple, deck(events="{}"), tmp_path / "observed")
    assert not run["xfrc_applied"].any() and not run["qfrc_applied"].any()


@pytest.mark.parametrize("event, expected", [
    ("{term: apply_external_force_torque, bodies: [leg], mode: reset, force_range: [0, 1]}", ["leg", "torso"]),
    ("{term: apply_external_force_torque, mode: reset, force_range: [0, 1]}", ["bodies"]),
    ("{term: apply_external_force_torque, bodies: [torso], mode: reset, force_range: [1, 0]}", ["force_range"]),
    ('{set: "xfrc_applied[torso]", mode: reset, expression: "[1, 2, 3]"}', ["a vector of 3", "a vector of 6"]),
    ('{set: "qacc_warmstart", mode: reset, expression: "1"}', ["xfrc_applied or qfrc_applied"]),
])
def test_refused(maniple, deck, event, expected):
    result = maniple("validate", deck(events=f"{{force: {event}}}"), ranks=0, exit_code=2)
    assert "task.events.force" in result.stderr
    for part in expected:
        assert part in result.stderr


def test_listed(maniple):
    listed = subprocess.run([maniple.program, "schema", "apply_external_force_torque"], capture_output=True, text=True, check=True).stdout
    assert "force_range" in listed and "held until the next draw" in listed
    assert "center of mass" in subprocess.run([maniple.program, "schema", "xfrc_applied"], capture_output=True, text=True, check=True).stdout
