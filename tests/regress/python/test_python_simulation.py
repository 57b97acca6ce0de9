"""maniple.Simulation and maniple.rollout(): batches of models in Python, against MuJoCo's own steps and rollouts."""
# ctest: PROCESSORS 1 COST 20

from pathlib import Path

import gymnasium
import mujoco
import mujoco.rollout
import numpy as np
import pytest

from conftest import ROOT

pytest.importorskip("maniple.native", reason="MANIPLE_PYTHON_PACKAGE is off", exc_type=ImportError)
import maniple  # noqa: E402

ASSETS = Path(gymnasium.__file__).parent / "envs/mujoco/assets"
MODELS = {"hopper": ASSETS / "hopper.xml", "ant": ASSETS / "ant.xml", "humanoid": ASSETS / "humanoid.xml",
          "sensors": ROOT / "tests/reference/models/sensors.xml", "actuators": ROOT / "tests/reference/models/actuators.xml"}
FULL = int(mujoco.mjtState.mjSTATE_FULLPHYSICS)


def load(name):
    """With a solver that goes on until it has converged."""
    model = mujoco.MjModel.from_xml_path(str(MODELS[name]))
    model.opt.tolerance = 1e-15
    return model


def starts(model, count, seed=0):
    data, random = mujoco.MjData(model), np.random.default_rng(seed)
    state = np.empty(mujoco.mj_stateSize(model, FULL))
    mujoco.mj_getState(model, data, state, FULL)
    states = np.tile(state, (count, 1))
    states[:, 0] = random.uniform(0, 1, count)
    velocities = slice(1 + model.nq, 1 + model.nq + model.nv)
    states[:, velocities] += random.uniform(-0.1, 0.1, (count, model.nv))
    states[:, velocities.stop:] += random.uniform(-0.1, 0.1, (count, model.na))
    return states


def controls(model, count, steps, seed=1):
    return np.random.default_rng(seed).uniform(-1, 1, (count, steps, model.nu))


def assert_close(got, want):
    """To 1e-9 of the largest number of each component."""
    for found, wanted in zip(got, want, strict=True):
        assert found.shape == wanted.shape and found.dtype == np.float64
        scale = 1 + np.abs(wanted).max(axis=(0, 1), initial=0)
        np.testing.assert_allclose(found / scale, wanted / scale, rtol=0, atol=1e-9)


# ---- rollout ----

@pytest.mark.parametrize("damping, value", [(0.1, 0.5), (0.1, np.nan), (0.1, 1e11), (400, 0.5)],
                         ids=["good", "nan", "huge", "diverging"])
def test_rollouts_end_as_mujocos(damping, value):
    """A bad control or state ends a rollout, whose last state is repeated; the others go on."""
    model = mujoco.MjModel.from_xml_string(f"""<mujoco><option timestep=".05"><flag eulerdamp="disable"/></option><worldbody><body>
        <joint name="hinge" axis="0 1 0" damping="{damping}"/><geom size=".1" pos="0 0 -.5" mass="1"/></body></worldbody>
        <actuator><motor joint="hinge"/></actuator></mujoco>""")
    control = np.full((3, 200, 1), 0.5)
    control[1, 7] = value
    start = np.zeros((3, 3))
    start[:, 1] = [0.3, 0.4, 0.0]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir("/tmp")  # (MuJoCo writes its warnings into a file)
        want, _ = mujoco.rollout.rollout(model, mujoco.MjData(model), start, control)
    for _ in range(2):  # the simulation is kept, with what it knows of bad states
        found, _ = maniple.rollout(model, start, control)
        np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-9)
    ended = [np.all(rows[-1] == rows[-2]) for rows in found]
    assert ended == ([True] * 3 if damping > 1 else [False, not abs(value) < 1e10, False])


@pytest.mark.parametrize("name", MODELS)
def test_rollouts_are_mujocos(name):
    model = load(name)
    states, control = starts(model, 40), controls(model, 40, 30)
    want = mujoco.rollout.rollout(model, mujoco.MjData(model), states, control)
    assert np.ptp(want[0], axis=0).max() > 0.1
    got = maniple.rollout(model, states, control)
    assert_close(got, want)
    np.testing.assert_array_equal(got[0][..., 0], want[0][..., 0])  # time
    # the same bits on one thread, and from arrays that lie elsewhere
    filled = np.empty_like(want[0]), np.empty_like(want[1])
    again = maniple.rollout(model, np.asfortranarray(states), np.asfortranarray(control), threads=1, state=filled[0],
                            sensordata=filled[1])
    assert again[0] is filled[0] and again[1] is filled[1]
    for first, second in zip(got, again, strict=True):
        np.testing.assert_array_equal(first, second)


def test_calls_in_a_row_do_not_know_each_other():
    """Simulations are kept between calls: what one has left, controls, bad states, warm starts, is gone in the next, and
    a model that has changed is another."""
    from maniple import simulation as kept

    model = load("actuators")
    states, control = starts(model, 12), controls(model, 12, 20)
    bad = control.copy()
    bad[3, 5] = np.nan

    def calls():
        yield maniple.rollout(model, states, control)
        yield maniple.rollout(model, states, bad)
        yield maniple.rollout(model, states, nstep=20)
        yield maniple.rollout(model, states, control, initial_warmstart=np.ones(model.nv))
        model.opt.gravity[2] -= 1
        yield maniple.rollout(model, states, control)
        model.opt.gravity[2] += 1
        yield maniple.rollout(model, states, control)

    kept._kept.clear()
    together = list(calls())
    assert len(kept._kept) == 2
    for first, last in zip(together[0], together[-1], strict=True):
        np.testing.assert_array_equal(first, last)
    assert np.abs(together[0][0] - together[4][0]).max() > 1e-3
    apart = calls()
    for found in together:
        kept._kept.clear()
        for values, fresh in zip(found, next(apart), strict=True):
            np.testing.assert_array_equal(values, fresh)


@pytest.mark.parametrize("arguments", [
    lambda model: {"initial_state": starts(model, 5)},
    lambda model: {"initial_state": starts(model, 5), "nstep": 4},
    lambda model: {"initial_state": starts(model, 1)[0], "control": controls(model, 5, 4)},
    lambda model: {"initial_state": starts(model, 5), "control": controls(model, 1, 4)[0]},
    lambda model: {"initial_state": starts(model, 5), "control": controls(model, 1, 1)[0, 0], "nstep": 4},
    lambda model: {"initial_state": starts(model, 5), "control": controls(model, 5, 1), "nstep": 4},
    lambda model: {"initial_state": starts(model, 5), "initial_warmstart": np.ones(model.nv), "nstep": 4},
    lambda model: {"initial_state": starts(model, 1), "state": np.empty((5, 4, 1 + model.nq + model.nv))},
], ids=["one step", "nstep", "one state", "one control", "held control", "held controls", "warm start", "by the output"])
def test_arguments_are_mujocos(arguments):
    model = load("ant")
    given = arguments(model)
    want = mujoco.rollout.rollout(model, mujoco.MjData(model), **{**given, **{name: given[name].copy() for name in given
                                                                             if name == "state"}})
    assert_close(maniple.rollout(model, **given), want)


def test_warm_starts_are_used():
    """One iteration shows what the solver begins with: here with what it ends with."""
    model = load("ant")
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER  # (which solves once a step)
    model.opt.solver, model.opt.iterations = mujoco.mjtSolver.mjSOL_PGS, 1000
    states, control = starts(model, 8), controls(model, 8, 1)
    states[:, 3] = 0.3  # legs in the ground
    data, warm = mujoco.MjData(model), []
    for state, ctrl in zip(states, control[:, 0], strict=True):
        mujoco.mj_setState(model, data, state, FULL)
        data.ctrl[:] = ctrl
        mujoco.mj_forward(model, data)
        warm.append(data.qacc.copy())
    converged = maniple.rollout(model, states, control)[0]
    model.opt.iterations = 1
    cold, zeros, warmed = (maniple.rollout(model, states, control, initial_warmstart=start)[0]
                           for start in (None, np.zeros(model.nv), np.array(warm)))
    np.testing.assert_array_equal(cold, zeros)
    np.testing.assert_allclose(warmed, converged, rtol=0, atol=1e-6)
    assert np.abs(cold - converged).max() > 1e-3


def test_models_of_their_own():
    models = [load("ant") for _ in range(3)]
    models[1].geom_friction[:, 0] = 0.1
    models[2].opt.gravity[2] = -3
    several = [models[number] for number in (0, 1, 2, 1, 0)]
    states, control = starts(models[0], 5), controls(models[0], 5, 30)
    data = mujoco.MjData(models[0])
    want = mujoco.rollout.rollout(several, data, states, control)
    assert_close(maniple.rollout(several, states, control), want)
    assert np.abs(want[0][3] - mujoco.rollout.rollout(models[0], data, states[3], control[3])[0]).max() > 1e-3


@pytest.mark.parametrize("change, message", [
    ({"initial_state": np.zeros((5, 3))}, "initial_state: found rows of 3 numbers; allowed: 30"),
    ({"initial_state": np.zeros((1, 5, 30))}, "initial_state: found 3 dimensions; allowed: at most 2"),
    ({"initial_state": None}, "initial_state: found nothing"),
    ({"control": np.zeros((4, 6, 8))}, "nbatch: found 5 of initial_state, 4 of control, 1 of model"),
    ({"control": np.zeros((5, 6, 7))}, "control: found rows of 7 numbers; allowed: 8"),
    ({"nstep": 7}, "nstep: found 6 of control, 7 of nstep"),
    ({"initial_warmstart": np.zeros(3)}, "initial_warmstart: found rows of 3 numbers; allowed: 14"),
    ({"state": np.zeros((5, 6, 30), np.float32)}, "state: allowed: an array of float64 in C's order, of the shape"),
    ({"control_spec": 64 + 128}, "control_spec: found 192; allowed: 64"),
    ({"control": "none"}, "control: allowed: numbers"),
    ({"overrides": {"simulation.cone": "flat"}}, "simulation.cone"),
], ids=str)
def test_rollouts_are_refused(change, message):
    model = load("ant")
    given = {"initial_state": starts(model, 5), "control": controls(model, 5, 6)} | change
    with pytest.raises(ValueError) as error:
        maniple.rollout(model, **given)
    assert message in str(error.value)


def test_models_are_refused():
    with pytest.raises(ValueError, match="found models of other sizes"):
        maniple.rollout([load("ant"), load("hopper")], np.zeros((2, 30)))
    elliptic = load("ant")
    elliptic.opt.cone, elliptic.opt.solver = mujoco.mjtCone.mjCONE_ELLIPTIC, mujoco.mjtSolver.mjSOL_PGS
    with pytest.raises(ValueError, match="elliptic"):
        maniple.rollout(elliptic, starts(elliptic, 1))
    delayed = mujoco.MjModel.from_xml_string(DELAYED)
    with pytest.raises(ValueError, match="found a history of controls"):
        maniple.rollout(delayed, np.zeros(mujoco.mj_stateSize(delayed, int(mujoco.mjtState.mjSTATE_FULLPHYSICS))))


# ---- Simulation ----

DELAYED = """<mujoco><option timestep="0.01"/><worldbody><body><joint name="hinge" damping=".1"/><geom size=".1" pos=".2 0 0"/>
</body></worldbody><actuator><motor joint="hinge" delay="0.03" nsample="6"/>
<position joint="hinge" delay="0.025" nsample="4" interp="linear"/></actuator></mujoco>"""


def test_delayed_controls_are_a_state():
    """Controls act 3 and 2.5 time steps later, also after the state has been put back, and reset() forgets them."""
    model = mujoco.MjModel.from_xml_string(DELAYED)
    data, ctrl = mujoco.MjData(model), controls(model, 1, 20)[0]
    simulation = maniple.Simulation(model, 2, fields=["ctrl_history"])
    names = ("time", "qpos", "qvel", "ctrl_history")
    for step, control in enumerate(ctrl):
        data.time = 0.01 * step  # without the roundings of a sum, which may decide which control MuJoCo takes
        data.ctrl[:] = control
        mujoco.mj_step(model, data)
        simulation.step(ctrl=np.tile(control, (2, 1)))
        np.testing.assert_allclose(simulation["qvel"][1], data.qvel, rtol=0, atol=1e-7)
        if step == 10:
            kept = {name: simulation[name].copy() for name in names}
    last = simulation["qvel"].copy()
    assert kept["ctrl_history"].shape == (2, 10) and np.array_equal(kept["ctrl_history"][0, :6], ctrl[5:11, 0])
    for name, values in kept.items():
        simulation[name] = values
    for control in ctrl[11:]:
        simulation.step(ctrl=np.tile(control, (2, 1)))
    assert np.array_equal(simulation["qvel"], last)
    simulation.reset()
    assert not simulation["ctrl_history"].any()


def stepped(model, rows, ctrl, steps, forward=False):
    """mjData after each of these states, as it stands after steps of MuJoCo."""
    for qpos, qvel, control in zip(*rows, ctrl, strict=True):
        data = mujoco.MjData(model)
        data.qpos[:], data.qvel[:], data.ctrl[:] = qpos, qvel, control
        for _ in range(steps):
            mujoco.mj_step(model, data)
        if forward:
            mujoco.mj_forward(model, data)
        yield data


@pytest.mark.parametrize("given", ["file", "model"])
def test_steps_are_mujocos(given):
    model, count = load("sensors"), 37
    fields = ("sensordata", "xpos", "qacc", "ncon")
    simulation = maniple.Simulation(model if given == "model" else MODELS["sensors"], count, fields=fields,
                                    overrides={"simulation.tolerance": 1e-15})
    assert simulation.num_envs == count and simulation.step_dt == model.opt.timestep
    np.testing.assert_array_equal(simulation["qpos"], np.tile(model.qpos0, (count, 1)))
    states, ctrl = starts(model, count), controls(model, count, 1)[:, 0]
    qpos, qvel = states[:, 1:1 + model.nq], states[:, 1 + model.nq:1 + model.nq + model.nv]
    simulation["qpos"], simulation["qvel"] = qpos, qvel
    np.testing.assert_array_equal(simulation["qvel"], qvel)
    simulation.step(20, ctrl)
    np.testing.assert_array_equal(simulation["ctrl"], ctrl)
    np.testing.assert_allclose(simulation["time"], 20 * model.opt.timestep)
    # what follows from the state is of the last step's beginning, as in MuJoCo, until forward()
    for forward in (False, True):
        if forward:
            simulation.forward()
        for env, data in enumerate(stepped(model, (qpos, qvel), ctrl, 20, forward)):
            for field in ("qpos", "qvel", *fields):
                np.testing.assert_allclose(simulation[field][env], np.atleast_1d(getattr(data, field)), rtol=1e-8, atol=1e-8, err_msg=field)
                assert simulation[field][env].shape == np.atleast_1d(getattr(data, field)).shape, field
    assert simulation.bad_states == simulation.dropped_contacts == 0


def test_inverse_dynamics_is_mujocos():
    """Of accelerations that are given, and after forward() of the solver's; states and their warm starts stay as they are."""
    for name in ("ant", "sensors"):
        model, count = load(name), 37
        simulation = maniple.Simulation(model, count, fields=["qfrc_inverse", "qacc"])
        states, random = starts(model, count), np.random.default_rng(4)
        qpos, qvel = states[:, 1:1 + model.nq], states[:, 1 + model.nq:1 + model.nq + model.nv]
        qacc, warmstart = random.normal(size=(2, count, model.nv)) * 10
        simulation["qpos"], simulation["qvel"], simulation["qacc_warmstart"] = qpos, qvel, warmstart
        found = simulation.inverse(qacc)
        np.testing.assert_array_equal(found, simulation["qfrc_inverse"])
        np.testing.assert_array_equal(simulation["qacc"], qacc)
        np.testing.assert_array_equal(simulation["qacc_warmstart"], warmstart)
        data = mujoco.MjData(model)

        def of_mujoco(env, acceleration):
            data.qpos[:], data.qvel[:], data.qacc[:] = qpos[env], qvel[env], acceleration
            mujoco.mj_inverse(model, data)
            return data.qfrc_inverse

        for env in range(count):
            want = of_mujoco(env, qacc[env])
            np.testing.assert_allclose(found[env], want, rtol=0, atol=1e-10 * (1 + np.abs(want).max()), err_msg=name)
        simulation.forward()
        for env in range(count):
            want = of_mujoco(env, simulation["qacc"][env])
            np.testing.assert_allclose(simulation["qfrc_inverse"][env], want, rtol=0, atol=1e-9 * (1 + np.abs(data.qfrc_constraint).max()), err_msg=name)
    with pytest.raises(ValueError, match="qfrc_inverse is not kept"):
        maniple.Simulation(load("ant"), 2).inverse(0)


def test_some_environments_are_set_and_reset():
    model, count = load("ant"), 70
    simulation = maniple.Simulation(model, count)
    mask = np.arange(count) % 3 == 0
    simulation.step(5, ctrl=0.5)
    before = simulation["qpos"]
    simulation.set("qpos", model.qpos0, mask)
    np.testing.assert_array_equal(simulation["qpos"], np.where(mask[:, None], model.qpos0, before))
    simulation.step(5)
    before = {name: simulation[name] for name in ("qpos", "qvel", "ctrl", "time", "qacc_warmstart")}
    simulation.reset(mask)
    for name, rows in before.items():
        np.testing.assert_array_equal(simulation[name][~mask], rows[~mask])
        np.testing.assert_array_equal(simulation[name][mask], np.tile(model.qpos0 if name == "qpos" else 0, (mask.sum(), 1)) *
                                      np.ones_like(rows[mask]))
    simulation.reset()
    assert not simulation["time"].any()


def test_environments_have_models_of_their_own():
    model, count = load("ant"), 40
    simulation = maniple.Simulation(model, count, model_fields=["geom_friction", "gravity", "body_mass"])
    assert simulation["body_mass"].shape == (count, model.nbody)
    np.testing.assert_array_equal(simulation["geom_friction"][5], model.geom_friction[:, 0])
    friction = np.random.default_rng(0).uniform(0.1, 2, (count, model.ngeom))
    simulation["geom_friction"] = friction
    simulation.set("gravity", [0, 0, -3], np.arange(count) == 7)
    ctrl = controls(model, count, 1)[:, 0]
    simulation.step(60, ctrl)
    for env in (0, 7, 39):
        own = load("ant")
        own.geom_friction[:, 0] = friction[env]
        if env == 7:
            own.opt.gravity[2] = -3
        data = mujoco.MjData(own)
        data.ctrl[:] = ctrl[env]
        for _ in range(60):
            mujoco.mj_step(own, data)
        np.testing.assert_allclose(simulation["qpos"][env], data.qpos, rtol=0, atol=1e-9)
    simulation.reset()
    np.testing.assert_array_equal(simulation["geom_friction"], friction)
    with pytest.raises(ValueError, match="body_mass: other numbers of the model follow from it"):
        simulation["body_mass"] = 1


@pytest.mark.parametrize("name", ["pid", "dcmotors"])
def test_actuators_with_several_controls(name):
    """Controls and actuators are counted apart; rollouts are MuJoCo's; gains that decide which activations there are do not vary."""
    path = ROOT / f"tests/reference/models/{name}.xml"
    model = mujoco.MjModel.from_xml_path(str(path))
    assert model.nu > model.nactuator and model.na > 0
    start, control = starts(model, 6), controls(model, 6, 40)
    assert_close(maniple.rollout(model, start, control), mujoco.rollout.rollout(model, mujoco.MjData(model), start, control))
    simulation = maniple.Simulation(model, 5, fields=["actuator_force", "actuator_length"], model_fields=["actuator_forcerange"])
    assert simulation["ctrl"].shape == (5, model.nu) and simulation["act"].shape == (5, model.na)
    assert simulation["actuator_force"].shape == simulation["actuator_length"].shape == (5, model.nactuator)
    assert simulation["actuator_forcerange"].shape == (5, model.nactuator, 2)
    simulation.step(3, control[:5, 0])
    for field in ["actuator_gainprm"] + ["actuator_biasprm"] * (name == "dcmotors"):
        with pytest.raises(ValueError, match=f"{field} of a model with the {'PID servo' if name == 'pid' else 'DC motor'}"):
            maniple.Simulation(model, 5, model_fields=[field])


def test_forces_from_outside_are_mujocos():
    """On bodies at their centres of mass and on dofs, in the fields that they enter and over steps, and none after a reset."""
    for name in ("ant", "sensors"):
        model, count = load(name), 37
        fields = ("qfrc_smooth", "qacc_smooth", "qacc", "cfrc_ext", "cfrc_int", *["sensordata"] * bool(model.nsensordata))
        simulation = maniple.Simulation(model, count, fields=fields)
        random = np.random.default_rng(2)
        wrench = random.uniform(-2, 2, (count, model.nbody, 6)) * (random.uniform(0, 1, (count, model.nbody, 1)) < 0.5)
        force = random.uniform(-1, 1, (count, model.nv))
        simulation["xfrc_applied"], simulation["qfrc_applied"] = wrench, force
        np.testing.assert_array_equal(simulation["xfrc_applied"], wrench)
        simulation.forward()
        data = mujoco.MjData(model)
        for env in range(count):
            mujoco.mj_resetData(model, data)
            data.xfrc_applied[:], data.qfrc_applied[:] = wrench[env], force[env]
            mujoco.mj_forward(model, data)
            mujoco.mj_rnePostConstraint(model, data)
            for field in fields:
                want = getattr(data, field)
                np.testing.assert_allclose(simulation[field][env], want, rtol=0, atol=1e-12 * (1 + np.abs(want).max()), err_msg=f"{name}, {field}")
        simulation.step(10)
        for _ in range(10):
            mujoco.mj_step(model, data)
        np.testing.assert_allclose(simulation["qpos"][-1], data.qpos, rtol=0, atol=1e-10)
        simulation.set("xfrc_applied", 0, np.arange(count) == 3)
        assert not simulation["xfrc_applied"][3].any() and simulation["xfrc_applied"][4].any()
        simulation.reset()
        assert not simulation["xfrc_applied"].any() and not simulation["qfrc_applied"].any()


def test_arrays_have_mujocos_shapes():
    """What is read, and what is set in these shapes or flat; arrays that are read are copies that refuse to be written to."""
    model, count = load("ant"), 6
    fields = ["xpos", "xmat", "xquat", "cinert", "ncon"]
    varied = ["gravity", "geom_friction", "geom_rgba", "actuator_gainprm", "body_ipos", "jnt_range"]
    simulation, flat = (maniple.Simulation(model, count, fields=fields, model_fields=varied) for _ in range(2))
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    wanted = {"qpos": data.qpos, **{name: np.atleast_1d(getattr(data, name)) for name in fields}, "gravity": model.opt.gravity,
              "geom_friction": model.geom_friction[:, 0], "actuator_gainprm": model.actuator_gainprm[:, :3],
              "geom_rgba": model.geom_rgba[:, :3], "body_ipos": model.body_ipos, "jnt_range": model.jnt_range}
    for name, array in wanted.items():
        assert simulation[name].shape == (count, *array.shape), name
        np.testing.assert_allclose(simulation[name], np.broadcast_to(array, (count, *array.shape)), atol=1e-12, err_msg=name)
        with pytest.raises(ValueError, match="read-only"):
            simulation[name][0, 0] = 5
    gains = np.random.default_rng(0).uniform(0.5, 2, (count, model.nu, 3))
    simulation["actuator_gainprm"], flat["actuator_gainprm"] = gains, gains.reshape(count, -1)
    for one in (simulation, flat):
        np.testing.assert_array_equal(one["actuator_gainprm"], gains)
    simulation["actuator_gainprm"] = gains[0]  # by numpy's rules
    np.testing.assert_array_equal(simulation["actuator_gainprm"], np.tile(gains[0], (count, 1, 1)))
    simulation["actuator_gainprm"] = gains[0, 0]
    np.testing.assert_array_equal(simulation["actuator_gainprm"], np.tile(gains[0, 0], (count, model.nu, 1)))
    with pytest.raises(ValueError, match=r"actuator_gainprm: found the shape \(6, 8, 2\); allowed: \(6, 8, 3\) or \(6, 24\)"):
        simulation["actuator_gainprm"] = gains[..., :2]


def test_decks():
    """A task's deck: its model and time steps, events that give environments models of their own, and another precision."""
    deck = {"include": "gymnasium/hopper_v5", "task": {"events": {
        "mass": {"field": "body_mass", "bodies": ["torso"], "mode": "startup", "operation": "abs", "ranges": [1, 5]}}}}
    simulation = maniple.Simulation(deck, 33, precision="single")
    assert simulation.step_dt == pytest.approx(0.008) and simulation["qpos"].dtype == np.float32
    assert "decimation: 4" in simulation.deck
    simulation.step(2)
    np.testing.assert_allclose(simulation["time"], 0.016, rtol=1e-6)
    mass = simulation["body_mass"]
    assert len(np.unique(mass[:, 1])) == 33 and len(np.unique(mass[:, 2])) == 1
    assert (1 <= mass[:, 1]).all() and (mass[:, 1] <= 5).all()
    with pytest.raises(ValueError, match="model_fields: found gravity beside those"):
        maniple.Simulation(deck, 33, model_fields=["gravity"])


def test_simulations_are_refused():
    simulation = maniple.Simulation(MODELS["hopper"], 4)
    with pytest.raises(KeyError, match="'xpos' is not kept"):
        simulation["xpos"]
    with pytest.raises(ValueError, match=r"qpos: found the shape \(4, 5\); allowed: \(4, 6\)"):
        simulation["qpos"] = np.zeros((4, 5))
    with pytest.raises(ValueError, match="xpos: found no state; allowed: act, ctrl, ctrl_history, eq_active, mocap_pos, .* time"):
        simulation["xpos"] = 0
    with pytest.raises(ValueError, match="mask: found 3 numbers; allowed: 4"):
        simulation.reset(np.ones(3, bool))
    with pytest.raises(ValueError, match="mask: found an array of int64; allowed: bool"):
        simulation.reset(np.ones(4, int))
    for steps in (-1, 1.5, True, None):
        with pytest.raises(ValueError, match=f"steps: found {steps}; allowed: an integer, at least 0"):
            simulation.step(steps)
    for threads in (0, -2):
        with pytest.raises(ValueError, match=f"threads: found {threads}; allowed: an integer of at least 1"):
            maniple.Simulation(MODELS["hopper"], 4, threads=threads)
    with pytest.raises(ValueError, match='no field "xpoz"; nearest field: xpos'):
        maniple.Simulation(MODELS["hopper"], 4, fields=["xpoz"])
    with pytest.raises(ValueError, match="model_fields: found 'geom_margin'; allowed: gravity, "):
        maniple.Simulation(MODELS["hopper"], 4, model_fields=["geom_margin"])
    with pytest.raises(ValueError, match="nowhere.xml"):
        maniple.Simulation("nowhere.xml", 4)


HEAP = """<mujoco><worldbody><geom type='plane' size='9 9 1'/>{}</worldbody></mujoco>""".format(
    "".join(f"<body pos='{0.15 * (i % 3)} {0.15 * (i // 3)} .1'><freejoint/><geom type='box' size='.1 .1 .1'/></body>" for i in range(9)))


def test_contacts_that_are_left_out_are_warned_of_once():
    model = mujoco.MjModel.from_xml_string(HEAP)
    few = {"simulation.max_contacts": 5}
    simulation = maniple.Simulation(model, 3, overrides=few)
    with pytest.warns(UserWarning, match=r"contacts beyond the 5 that an environment has room for .*simulation\.max_contacts") as told:
        simulation.step(2)
        simulation.step(2)
    assert len(told) == 1 and told[0].filename == __file__ and simulation.dropped_contacts > 0
    state = np.tile(np.concatenate(([0], model.qpos0, np.zeros(model.nv))), (2, 1))
    with pytest.warns(UserWarning, match="contacts beyond the 5"):
        maniple.rollout(model, state, nstep=2, overrides=few)
