"""`maniple rollout` against MuJoCo's own rollout in Python: recorded controls, recorded initial states, and the
random controls that it draws itself (Philox4x32-10, computed again here in numpy)."""
# ctest: PROCESSORS 1

import h5py
import mujoco
import numpy as np
import pytest

# An arm without contacts: three hinges, a slide, damping, springs, a position and three torque actuators.
MODEL = """
<mujoco model="arm">
  <option timestep="0.004" integrator="implicitfast"><flag contact="disable" constraint="disable"/></option>
  <worldbody>
    <body name="base" pos="0 0 0.5">
      <joint name="pan" type="hinge" axis="0 0 1" damping="0.3" armature="0.02"/>
      <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.05"/>
      <body name="upper" pos="0.3 0 0">
        <joint name="lift" type="hinge" axis="0 1 0" damping="0.2" stiffness="3" springref="0.4"/>
        <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.04"/>
        <body name="fore" pos="0.3 0 0">
          <joint name="elbow" type="hinge" axis="0 1 0" damping="0.1"/>
          <geom type="capsule" fromto="0 0 0 0.2 0 0.1" size="0.03"/>
          <body name="tool" pos="0.2 0 0.1">
            <joint name="reach" type="slide" axis="1 0 0" damping="5" stiffness="40"/>
            <geom type="sphere" size="0.05"/>
          </body>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <motor name="pan" joint="pan" ctrlrange="-2 2" ctrllimited="true"/>
    <position name="lift" joint="lift" kp="20" ctrlrange="-1 1" ctrllimited="true"/>
    <motor name="elbow" joint="elbow" gear="2" ctrlrange="-1 3" ctrllimited="true"/>
    <motor name="reach" joint="reach" ctrlrange="-10 10" ctrllimited="true"/>
  </actuator>
</mujoco>
"""
STEPS, DECIMATION = 25, 2


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "arm.xml"
    path.write_text(MODEL)
    return path, mujoco.MjModel.from_xml_path(str(path))


def reference(model, qpos, qvel, controls):
    """MuJoCo's own trajectories: [env, sample, n] of qpos and qvel, sample 0 before the first step."""
    positions, velocities = [], []
    for row in range(len(controls)):
        data = mujoco.MjData(model)
        data.qpos[:], data.qvel[:] = qpos[row], qvel[row]
        p, v = [data.qpos.copy()], [data.qvel.copy()]
        for control in controls[row]:
            data.ctrl[:] = control
            for _ in range(DECIMATION):
                mujoco.mj_step(model, data)
            p.append(data.qpos.copy())
            v.append(data.qvel.copy())
        positions.append(p)
        velocities.append(v)
    return np.array(positions), np.array(velocities)


@pytest.mark.parametrize("ranks, precision, tolerance", [(1, "double", 1e-10), (3, "double", 1e-10), (2, "single", 2e-4)])
def test_recorded_controls_and_states(maniple, tmp_path, model, ranks, precision, tolerance):
    path, reference_model = model
    envs, random = 101, np.random.default_rng(5)
    qpos = random.uniform(-0.5, 0.5, (envs, reference_model.nq))
    qvel = random.uniform(-1, 1, (envs, reference_model.nv))
    # beyond the control range, so that clamping is compared as well
    controls = random.uniform(-3, 3, (envs, STEPS, reference_model.nu))
    with h5py.File(tmp_path / "controls.h5", "w") as file:
        file["ctrl"] = controls
    with h5py.File(tmp_path / "states.h5", "w") as file:
        file["qpos"], file["qvel"] = qpos, qvel
    maniple("rollout", f"model.file={path}", f"batch.num_envs={envs}", f"simulation.precision={precision}",
            f"simulation.decimation={DECIMATION}", f"simulation.steps={STEPS}", "control.source=file",
            f"control.file={tmp_path}/controls.h5", "initial_state.source=file",
            f"initial_state.file={tmp_path}/states.h5", "output.trajectory.every=1",
            "output.trajectory.fields=[qpos, qvel]", f"output.directory={tmp_path}/run", ranks=ranks)
    with h5py.File(tmp_path / "run/results.h5") as file:
        trajectory = file["trajectory"]
        assert trajectory["qpos"].dtype == (np.float64 if precision == "double" else np.float32)
        assert {"unit", "description"} <= set(trajectory["qpos"].attrs)
        np.testing.assert_array_equal(trajectory["step"], np.arange(STEPS + 1))
        ours = trajectory["qpos"][()], trajectory["qvel"][()]
    for mine, theirs in zip(ours, reference(reference_model, qpos, qvel, controls)):
        scale = np.maximum(1, np.abs(theirs))
        assert np.max(np.abs(mine - theirs) / scale) < tolerance


def test_one_row_serves_every_environment(maniple, tmp_path, model):
    path, reference_model = model
    random = np.random.default_rng(6)
    controls = random.uniform(-1, 1, (1, STEPS, reference_model.nu))
    qpos = random.uniform(-0.5, 0.5, (1, reference_model.nq))
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["ctrl"], file["qpos"], file["qvel"] = controls, qpos, np.zeros((1, reference_model.nv))
        file["qacc"], file["mocap_pso"] = np.zeros((1, reference_model.nv)), np.zeros((1, 3))
    result = maniple("rollout", f"model.file={path}", "batch.num_envs=40", "simulation.precision=double",
            f"simulation.decimation={DECIMATION}", f"simulation.steps={STEPS}", "control.source=file",
            f"control.file={tmp_path}/data.h5", "initial_state.source=file", f"initial_state.file={tmp_path}/data.h5",
            "output.trajectory.every=5", "output.trajectory.fields=[qpos]", f"output.directory={tmp_path}/run", ranks=2)
    # what nothing reads is named; /ctrl is for control.file
    assert (result.stdout + result.stderr).count("data.h5: nothing reads mocap_pso, qacc; read are qpos, qvel and") == 1
    with h5py.File(tmp_path / "run/results.h5") as file:
        ours = file["trajectory/qpos"][()]
    theirs, _ = reference(reference_model, qpos, np.zeros((1, reference_model.nv)), controls)
    assert ours.shape == (40, STEPS // 5 + 1, reference_model.nq)
    np.testing.assert_array_equal(ours, np.broadcast_to(ours[:1], ours.shape))
    np.testing.assert_allclose(ours[0], theirs[0, ::5], rtol=0, atol=1e-10)


def philox4x32(counter, key):
    """Philox4x32-10 on arrays of 32-bit words: Salmon et al., SC11. counter [..., 4], key (2 words)."""
    word = [counter[..., i].astype(np.uint64) for i in range(4)]
    k0, k1 = key
    mask = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * word[0], np.uint64(0xCD9E8D57) * word[2]
        word = [(p1 >> np.uint64(32)) ^ word[1] ^ np.uint64(k0), p1 & mask,
                (p0 >> np.uint64(32)) ^ word[3] ^ np.uint64(k1), p0 & mask]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack(word, -1).astype(np.uint32)


def test_numpy_philox_agrees_with_the_published_vectors():
    pi = np.array([0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], np.uint32)
    assert [hex(w) for w in philox4x32(pi, (0xA4093822, 0x299F31D0))] == [
        "0xd16cfe09", "0x94fdcceb", "0x5001e420", "0x24126ea1"]


def test_random_controls_are_philox_numbers(maniple, tmp_path, model):
    path, reference_model = model
    envs, seed, purpose = 70, 9, 2  # RandomPurpose::control
    maniple("rollout", f"model.file={path}", f"batch.num_envs={envs}", f"batch.seed={seed}", "control.source=random",
            "simulation.precision=double", "simulation.steps=6", "output.trajectory.every=1",
            "output.trajectory.fields=[ctrl]", f"output.directory={tmp_path}/run", ranks=2)
    with h5py.File(tmp_path / "run/results.h5") as file:
        ours = file["trajectory/ctrl"][:, 1:]
    low, high = reference_model.actuator_ctrlrange.T
    # counter: environment (two words), control step, draw; four words of a draw serve four actuators
    env, step = np.meshgrid(np.arange(envs), np.arange(6), indexing="ij")
    counter = np.stack([env, 0 * env, step, 0 * env], -1).astype(np.uint32)
    uniform = (philox4x32(counter, (seed, purpose)) >> np.uint32(8)) * 2.0**-24
    np.testing.assert_allclose(ours, low + (high - low) * uniform, rtol=0, atol=1e-6)
    assert ours.min() < -5 and ours.max() > 5


@pytest.mark.parametrize("precision", ["single", "double"])
def test_the_clock_keeps_time(maniple, tmp_path, precision):
    """Over steps whose time single precision cannot add up."""
    maniple("rollout", "model.file=inputs/models/cartpole.xml", "batch.num_envs=2", "simulation.steps=40", "simulation.decimation=5000",
            "simulation.timestep=0.002", f"simulation.precision={precision}", f"output.directory={tmp_path}",
            "output.trajectory.every=1", "output.trajectory.fields=[time]")
    with h5py.File(tmp_path / "results.h5") as file:
        time = file["trajectory/time"][()].astype(float)
    np.testing.assert_allclose(time[:, :, 0], np.tile(10.0 * np.arange(41), (2, 1)), rtol=2e-7)
