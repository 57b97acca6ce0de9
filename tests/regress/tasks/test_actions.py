"""Actions by expression: controls that a deck computes of the components of an action, and refusals."""
# ctest: PROCESSORS 1

import numpy as np
import pytest
from walker import MODEL, deck, rollout  # noqa: F401


def test_actions_by_expression(maniple, deck, tmp_path):
    """Controls from two components of the action, joint positions and a curriculum; scaled and clipped."""
    path = deck(events="{}\n  curricula: {share: {reset: \"0.5\"}}", observed=["ctrl", "action"])
    path.write_text(path.read_text().replace(
        "{term: actuator_control, actuators: [\".*\"]}",
        "{expression: \"[action[0] + qpos[left_hip], share * action[0] - action[1]]\", actuators: [left_hip, left_knee],"
        " scale: 2, offset: 0.1, clip: [-1, 1]}"))
    (tmp_path / "robot.xml").write_text(MODEL.replace("<position joint=\"left_hip\"", "<position name=\"left_hip\" joint=\"left_hip\"")
                                        .replace("<position joint=\"left_knee\"", "<position name=\"left_knee\" joint=\"left_knee\""))
    run = rollout(maniple, path, tmp_path / "run", steps=20, ranks=1, fields=("qpos", "ctrl", "action", "truncated"))
    q, a = run["qpos"][:, :-1, 7], run["action"][:, 1:]
    assert a.shape[-1] == 2 and np.abs(a).max() <= 1
    expected = np.clip(.1 + 2 * np.stack([a[..., 0] + q, .5 * a[..., 0] - a[..., 1]], axis=-1), -1, 1)
    np.testing.assert_allclose(run["ctrl"][:, 1:, :2], expected, rtol=0, atol=1e-12)
    assert (np.abs(expected) == 1).any() and (run["ctrl"][:, :, 2:] == 0).all()


@pytest.mark.parametrize("action, expected", [
    ("{expression: \"action\"}", ["without actuators"]),
    ("{expression: \"[action[0], 1, 2]\", actuators: [\".*\"]}", ["a vector of 3", "for 4 actuators"]),
    ("{expression: \"xpos[torso].z\", actuators: [\".*\"]}", ["'xpos' is not known"]),
])
def test_refused_actions(maniple, deck, action, expected):
    path = deck(events="{}", observed=["qpos"])
    path.write_text(path.read_text().replace("{term: actuator_control, actuators: [\".*\"]}", action))
    message = maniple("validate", path, ranks=0, exit_code=2).stderr
    for part in [str(path), "actions[0]", *expected]:
        assert part in message, message
