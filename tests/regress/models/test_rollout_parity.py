"""`maniple rollout` of the suites' robots against MuJoCo's own stepping, with recorded starts and controls; and that an
environment's numbers depend neither on the number of ranks nor on its place in the batch."""
# ctest: PROCESSORS 1

import sys

import h5py
import mujoco
import numpy as np
import pytest
from conftest import ROOT, of_the_day

sys.path.insert(0, str(ROOT / "tests/perf"))
from physics_vs_mujoco_batch import file_of, package_file  # noqa: E402

GYMNASIUM, CONTROL = "package:gymnasium/envs/mujoco/assets", "package:dm_control/suite"
MODELS = {
    "half_cheetah": f"{GYMNASIUM}/half_cheetah.xml",
    "hopper": f"{GYMNASIUM}/hopper.xml",
    "walker2d": f"{GYMNASIUM}/walker2d.xml",
    "ant": f"{GYMNASIUM}/ant.xml",
    "dm_walker": f"{CONTROL}/walker.xml",
    "dm_cheetah": f"{CONTROL}/cheetah.xml",
    "walker2d_v5": f"{GYMNASIUM}/walker2d_v5.xml",
    "humanoid": f"{GYMNASIUM}/humanoid.xml",
    "humanoidstandup": f"{GYMNASIUM}/humanoidstandup.xml",
    "swimmer": f"{GYMNASIUM}/swimmer.xml",
    "reacher": f"{GYMNASIUM}/reacher.xml",
    "inverted_pendulum": f"{GYMNASIUM}/inverted_pendulum.xml",
    "inverted_double_pendulum": f"{GYMNASIUM}/inverted_double_pendulum.xml",
    "point": f"{GYMNASIUM}/point.xml",
    "dm_acrobot": f"{CONTROL}/acrobot.xml",
    "dm_cartpole": f"{CONTROL}/cartpole.xml",
    "dm_hopper": f"{CONTROL}/hopper.xml",
    "dm_humanoid": f"{CONTROL}/humanoid.xml",
    "dm_pendulum": f"{CONTROL}/pendulum.xml",
    "dm_point_mass": f"{CONTROL}/point_mass.xml",
}
# and mjlab's g1 on the capsules of its feet, as tests/perf writes it
ROBOTS = [*MODELS, "g1_feet"]
# touch nothing, or hardly ever
UNTOUCHED = {"swimmer", "reacher", "inverted_pendulum", "inverted_double_pendulum", "dm_acrobot", "dm_cartpole",
             "dm_pendulum", "dm_point_mass"}
# its sphere touches the floor or not by a rounding, which decides about friction
CHAOTIC = {"point"}
# here MuJoCo ends its iterations before they have converged, at its tolerance; Maniple's line search has met
# the minimum then
ENDED_EARLY = {"reacher", "inverted_pendulum", "g1_feet"}
ENVS, STEPS, COMPARED, PERTURBED = 8, 1000, 100, 4


def load(file):
    path = package_file(file.removeprefix("package:")) if file.startswith("package:") else file
    return mujoco.MjModel.from_xml_path(str(path))


def starts(model, envs, seed):
    random = np.random.default_rng(seed)
    qpos = np.tile(model.qpos0, (envs, 1))
    for joint in range(model.njnt):
        if model.jnt_type[joint] >= int(mujoco.mjtJoint.mjJNT_SLIDE):  # slides and hinges
            qpos[:, model.jnt_qposadr[joint]] += random.uniform(-0.05, 0.05, envs)
    return qpos, random.uniform(-0.1, 0.1, (envs, model.nv))


def controls(model, envs, steps, seed):
    """Random, each held for five steps."""
    low, high = np.where(model.actuator_ctrllimited[:, None], model.actuator_ctrlrange, [-1, 1]).T
    drawn = np.random.default_rng(seed).uniform(low, high, (envs, steps // 5, model.nu))
    return np.repeat(drawn, 5, axis=1)


def mujoco_steps(model, qpos, qvel, ctrl):
    """[step, nq + nv] of one environment, the start first; also the number of contacts after each step."""
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = qpos, qvel
    states, contacts = [np.r_[data.qpos, data.qvel]], []
    for control in ctrl:
        data.ctrl[:] = control
        mujoco.mj_step(model, data)
        states.append(np.r_[data.qpos, data.qvel])
        contacts.append(data.ncon)
    return np.array(states), np.array(contacts)


def rollout(maniple, folder, model_file, qpos, qvel, ctrl, *keys, fields="[qpos, qvel]", every=1, ranks=1):
    folder.mkdir(parents=True, exist_ok=True)
    with h5py.File(folder / "inputs.h5", "w") as file:
        file["ctrl"], file["qpos"], file["qvel"] = ctrl, qpos, qvel
    maniple("rollout", f"model.file={model_file}", f"batch.num_envs={len(qpos)}", f"simulation.steps={ctrl.shape[1]}",
            "control.source=file", f"control.file={folder}/inputs.h5", "initial_state.source=file",
            f"initial_state.file={folder}/inputs.h5", f"output.trajectory.every={every}",
            f"output.trajectory.fields={fields}", f"output.directory={folder}/run", *keys, ranks=ranks)
    return folder / "run/results.h5"


# both solvers, limits alone, and where MuJoCo ends early
@pytest.mark.parametrize("name", of_the_day(ROBOTS, "ant", "humanoid", "dm_walker", "reacher"))
def test_stays_with_mujoco(maniple, tmp_path, name):
    model_file = MODELS[name] if name in MODELS else file_of(name, tmp_path)
    model = load(model_file)
    if name in ENDED_EARLY:
        model.opt.tolerance = 1e-15
    (qpos, qvel), ctrl = starts(model, ENVS, 1), controls(model, ENVS, STEPS, 2)
    results = rollout(maniple, tmp_path, model_file, qpos, qvel, ctrl, "simulation.precision=double",
                      fields="[qpos, qvel, ctrl, ncon]")
    with h5py.File(results) as file:
        trajectory = file["trajectory"]
        for field, size in (("qpos", model.nq), ("qvel", model.nv), ("ctrl", model.nu), ("ncon", 1)):
            assert trajectory[field].shape == (ENVS, STEPS + 1, size)
            assert trajectory[field].dtype == np.float64
            assert {"unit", "description"} <= set(trajectory[field].attrs)
            assert np.all(np.isfinite(trajectory[field]))
        np.testing.assert_array_equal(trajectory["step"], np.arange(STEPS + 1))
        # g1's states go bad later on, in MuJoCo as well, and are put back with controls of zero
        given = COMPARED if name == "g1_feet" else STEPS
        np.testing.assert_array_equal(trajectory["ctrl"][:, 1 : given + 1], ctrl[:, :given])
        ours = np.concatenate([trajectory["qpos"], trajectory["qvel"]], axis=2)
        assert name in UNTOUCHED or np.mean(trajectory["ncon"][:, 1:] > 0) > 0.2, "hardly any contacts"

    # what MuJoCo itself makes of a difference in the last digits; the floor is a few roundings a step
    difference, spread = np.zeros(COMPARED + 1), 4 * np.finfo(float).eps * np.arange(1, COMPARED + 2)
    random, contacts = np.random.default_rng(3), 0
    for env in range(ENVS):
        theirs, touching = mujoco_steps(model, qpos[env], qvel[env], ctrl[env, :COMPARED])
        contacts += np.count_nonzero(touching)
        scale = 1 + np.abs(theirs).max(axis=0)
        difference = np.maximum(difference, np.max(np.abs(ours[env, : COMPARED + 1] - theirs) / scale, axis=1))
        for _ in range(PERTURBED):
            noise = [1e-15 * random.choice([-1, 1], size) for size in (model.nq, model.nv)]
            other, _ = mujoco_steps(model, qpos[env] + noise[0], qvel[env] + noise[1], ctrl[env, :COMPARED])
            spread = np.maximum(spread, np.max(np.abs(other - theirs) / scale, axis=1))
    assert name in UNTOUCHED or contacts > ENVS * COMPARED / 10, "hardly any contacts in the steps that are compared"
    assert np.all(difference <= 10 * np.maximum.accumulate(spread)), (difference, spread)
    assert name in CHAOTIC or difference[-1] < 1e-8


def test_frames_that_mujoco_takes_for_the_same(maniple, tmp_path):
    """Geoms and sites that differ by less than 1e-6 from the frame of their body or of its inertia lie in that one."""
    (tmp_path / "bone.xml").write_text("""<mujoco>
      <worldbody>
        <body name="bone" pos="0 0 1" quat="0.9 0.1 0.2 0.3">
          <freejoint/>
          <inertial pos="0.1 0.02 -0.03" quat="0.56918 0.17822 0.080004 0.79867" mass="1" diaginertia="0.03 0.02 0.01"/>
          <geom type="capsule" size="0.02 0.08" pos="0.1000004 0.02 -0.03" quat="0.5691803 0.1782197 0.080004 0.79867"/>
          <geom type="box" size="0.02 0.03 0.04" pos="0.1 0.1 0" quat="0.5691803 0.1782197 0.080004 0.79867"/>
          <site pos="0 4e-7 0" quat="1 3e-7 0 0"/>
          <site pos="0 0.1 0" quat="1 3e-7 0 0"/>
        </body>
      </worldbody>
    </mujoco>""")
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "bone.xml"))
    assert [*model.geom_sameframe, *model.site_sameframe] == [2, 4, 1, 3]
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    fields = ["geom_xpos", "geom_xmat", "site_xpos", "site_xmat"]
    maniple("rollout", f"model.file={tmp_path}/bone.xml", "simulation.precision=double", "simulation.steps=0",
            "output.trajectory.every=1", f"output.trajectory.fields=[{','.join(fields)}]", f"output.directory={tmp_path}/run")
    with h5py.File(tmp_path / "run/results.h5") as file:
        for field in fields:
            np.testing.assert_allclose(file["trajectory"][field][0, 0], getattr(data, field).ravel(), atol=1e-14, err_msg=field)


@pytest.mark.parametrize("name", of_the_day(["ant", "half_cheetah"], "ant"))
def test_same_bits_on_any_number_of_ranks(maniple, tmp_path, name):
    digests = {}
    for ranks in (1, 2, 3, 7):
        maniple("rollout", f"model.file={MODELS[name]}", "batch.num_envs=101", "control.source=random",
                "simulation.steps=200", "simulation.precision=single", "output.trajectory.every=20",
                "output.trajectory.fields=[qpos, qvel, qacc, ncon, nefc, qfrc_constraint]",
                f"output.directory={tmp_path}/{ranks}", ranks=ranks)
        digests[ranks] = maniple.digest(tmp_path / f"{ranks}/results.h5")
    assert len(set(digests.values())) == 1, digests
    with h5py.File(tmp_path / "1/results.h5") as file:
        assert len(np.unique(file["trajectory/qpos"][:, -1], axis=0)) == 101
        # contacts come and go, and differ from lane to lane
        assert np.mean(np.ptp(file["trajectory/ncon"][:, 1:, 0], axis=0)) > 1


# Other neighbours, other lanes, other ranks: every environment keeps its bits.
@pytest.mark.parametrize("name, precision", of_the_day([("ant", "single"), ("half_cheetah", "single"), ("dm_walker", "double")],
                                                      ("ant", "single")))
def test_place_in_the_batch_does_not_matter(maniple, tmp_path, name, precision):
    model, envs, steps = load(MODELS[name]), 70, 200
    (qpos, qvel), ctrl = starts(model, envs, 4), controls(model, envs, steps, 5)
    order = np.random.default_rng(6).permutation(envs)
    some = order[:11]
    trajectories = []
    for number, (rows, ranks) in enumerate(((np.arange(envs), 1), (order, 1), (some, 2))):
        results = rollout(maniple, tmp_path / str(number), MODELS[name], qpos[rows], qvel[rows], ctrl[rows],
                          f"simulation.precision={precision}", every=10, ranks=ranks,
                          fields="[qpos, qvel, qacc, qfrc_constraint, ncon, nefc]")
        with h5py.File(results) as file:
            trajectories.append({field: file["trajectory"][field][()] for field in file["trajectory"]})
    assert np.mean(trajectories[0]["ncon"] > 0) > 0.2, "hardly any contacts"
    for field in ("qpos", "qvel", "qacc", "qfrc_constraint", "ncon", "nefc"):
        np.testing.assert_array_equal(trajectories[1][field], trajectories[0][field][order], err_msg=field)
        np.testing.assert_array_equal(trajectories[2][field], trajectories[0][field][some], err_msg=field)
