"""Tasks of models whose actuators have several controls and activations: PID servos and DC motors. Names of controls in
actions and expressions, random controls within their ranges, recorded names, and refusals."""
# ctest: PROCESSORS 1

import h5py
import mujoco
import numpy as np
import pytest
from walker import MODEL, deck, rollout  # noqa: F401

ACTUATORS = """<actuator>
    <motor joint="right_knee"/>
    <pid name="hip" joint="left_hip" kp="20" kv="2" ki="3" slewmax="5" input="pos vel ff" posrange="-.5 .6" ffrange="-.1 .2"/>
    <dcmotor name="knee" joint="left_knee" motorconst=".5" resistance=".8" controller="9 2 .3" input="pos voltage"
             ctrlrange="-.7 .8" inductance="0 .02"/>
    <dcmotor name="idle" joint="right_hip" motorconst=".1" resistance="2" input="none"/>
  </actuator>"""
CONTROLLED = MODEL[:MODEL.index("<actuator>")] + ACTUATORS + MODEL[MODEL.index("</actuator>") + len("</actuator>"):]
NAMES = ["", "hip/pos", "hip/vel", "hip/ff", "knee/pos", "knee/voltage"]


@pytest.mark.parametrize("names", [NAMES[1:], ["hip/pos", "knee/.*"]])
def test_controls_by_name(maniple, deck, tmp_path, names):
    """Actions set the controls that they name and others stay zero; the steps are libmujoco's."""
    model = mujoco.MjModel.from_xml_string(CONTROLLED)
    assert (model.nu, model.nactuator, model.na) == (6, 4, 4)
    path = deck(events="{}", model=CONTROLLED, observed=["ctrl[hip/vel]", "ctrl[knee/voltage]", "act[hip]", "act[knee]"])
    path.write_text(path.read_text().replace('actuators: [".*"]', f'actuators: {names}'))
    run = rollout(maniple, path, tmp_path / "run", ranks=1,
                  fields=("qpos", "qvel", "act", "ctrl", "action", "qacc_warmstart", "observation", "truncated"))
    driven = [i for i, name in enumerate(NAMES) if name in names or (name.startswith("knee") and "knee/.*" in names)]
    within = ~run["truncated"][:, 1:].astype(bool).reshape(40, -1)  # (where an episode ends, the next one's state is seen)
    assert within.sum() > 2000
    np.testing.assert_array_equal(run["ctrl"][:, 1:][..., driven][within], run["action"][:, 1:][within])
    assert (np.delete(run["ctrl"], driven, axis=-1) == 0).all()
    np.testing.assert_array_equal(run["observation"], np.concatenate([run["ctrl"][..., [2, 5]], run["act"]], axis=-1))
    low = np.where(model.actuator_ctrllimited, model.actuator_ctrlrange[:, 0], -1)[driven]
    high = np.where(model.actuator_ctrllimited, model.actuator_ctrlrange[:, 1], 1)[driven]
    actions = run["action"][:, 1:].reshape(-1, len(driven))
    assert (actions.min(axis=0) >= low).all() and (actions.max(axis=0) <= high).all()
    assert (actions.min(axis=0) < low + .1 * (high - low)).all() and (actions.max(axis=0) > high - .1 * (high - low)).all()
    model.opt.timestep, model.opt.tolerance, model.opt.ls_tolerance = .005, 1e-15, 1e-10
    data, compared = mujoco.MjData(model), 0
    for env in range(0, 40, 7):
        for step in range(1, 60, 5):
            if run["truncated"][env, step]:
                continue
            mujoco.mj_resetData(model, data)
            for name in ("qpos", "qvel", "act", "qacc_warmstart"):
                getattr(data, name)[:] = run[name][env, step - 1]
            data.ctrl[:] = run["ctrl"][env, step]
            for _ in range(4):
                mujoco.mj_step(model, data)
            np.testing.assert_allclose(run["act"][env, step], data.act, rtol=0, atol=1e-7)
            compared += 1
    assert compared > 50
    with h5py.File(tmp_path / "run/results.h5") as file:
        assert file["trajectory/ctrl"].attrs["names"].split("\n") == NAMES


@pytest.mark.parametrize("actions, expected", [
    ("{term: actuator_control, actuators: [hip]}", ["no actuator 'hip'", "hip/pos"]),
    ("{term: actuator_control, actuators: [idle]}", ["no actuator 'idle'"]),
    ("{term: joint_position, joints: [left_hip]}", ["actuator 'hip' of joint 'left_hip' is not a position servo", "actuator_control"]),
    ("{expression: \"1\", actuators: [hip]}", ["no actuator 'hip'", "hip/pos"]),
])
def test_refused_actions(maniple, deck, actions, expected):
    path = deck(events="{}", model=CONTROLLED, observed=["qpos"])
    path.write_text(path.read_text().replace('{term: actuator_control, actuators: [".*"]}', actions))
    message = maniple("validate", path, ranks=0, exit_code=2).stderr
    for part in expected:
        assert part in message, message


@pytest.mark.parametrize("event, expected", [
    ("{field: actuator_gainprm, actuators: [hip], mode: startup, operation: scale, ranges: [1, 2]}", "'hip' is one for the whole model: it is a PID servo"),
    ("{field: actuator_gainprm, actuators: [\".*\"], mode: startup, operation: scale, ranges: [1, 2]}", "it is a PID servo"),
    ("{field: actuator_biasprm, actuators: [knee], mode: startup, operation: scale, ranges: [1, 2]}", "'knee' is one for the whole model: it is a DC motor"),
    ("{set: \"actuator_gainprm[knee][0]\", expression: \"3\", mode: startup}", "'knee' is one for the whole model: it is a DC motor"),
    ("{field: actuator_kp, actuators: [hip], mode: startup, operation: scale, ranges: [1, 2]}", "'hip' is not a position servo"),
])
def test_refused_events(maniple, deck, event, expected):
    message = maniple("validate", deck(events=f"\n    push: {event}", model=CONTROLLED, observed=["qpos"]), ranks=0, exit_code=2).stderr
    assert expected in message, message


def test_gains_of_a_servo_vary(maniple, deck):
    for field in ("actuator_biasprm", "actuator_forcerange"):
        event = f"{{field: {field}, actuators: [hip], mode: startup, operation: scale, ranges: [1, 2]}}"
        maniple("validate", deck(events=f"\n    push: {event}", model=CONTROLLED.replace('kp="20"', 'kp="20" forcerange="-9 9"'),
                                 observed=["qpos"]), ranks=0)
