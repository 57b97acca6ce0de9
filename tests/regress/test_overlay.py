"""model.overlay: MJCF that is laid over a model of others, and what is said of one that does not fit."""
# ctest: PROCESSORS 1

import re

import h5py
import mujoco
import numpy as np
import pytest

ARM = """<mujoco model="arm">
  <compiler angle="radian"/>
  <default> <default class="limb"> <joint armature="0.5" damping="1"/> </default> </default>
  <worldbody>
    <body name="upper" childclass="limb"><joint name="shoulder" axis="0 1 0"/><geom name="upper" size="0.1"/>
      <body name="lower" pos="0 0 -1"><joint name="elbow" axis="0 1 0" damping='3'/><geom name="lower" type="mesh"
        mesh="tetrahedron"/></body></body>
  </worldbody>
  <asset> <mesh name="tetrahedron" file="parts/tetrahedron.stl"/> </asset>
</mujoco>
"""
OVERLAY = """<!-- more of it -->
<mujoco>
  <option timestep="0.005"/>
  <edit>
    <joint name="sh.*|elbow" armature="0.25"/>  <!-- kg m^2 -->
    <joint name="elbow"
           damping="4" range="-1 2" limited="true"/>
    <geom name="upper" size="0.2"/>
  </edit>
  <worldbody> <geom name="floor" type="plane" size="0 0 1" pos="0 0 -5"/> </worldbody>
  <actuator> <motor name="elbow" joint="elbow"/> </actuator>
  <keyframe> <key name="bent" qpos="0.3 0.7"/> </keyframe>
</mujoco>
"""
DECK = """model: {file: arm.xml, overlay: over.xml}
task:
  keyframe: bent
  actions: [{term: joint_effort, joints: [elbow]}]
  observations: [{term: joint_pos_rel}, {expression: "default_qpos"}]
  resets: [{term: reset_joints_by_offset, joints: [elbow], position_range: [0.1, 0.1], velocity_range: [0, 0]}]
initial_state: {source: task}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "parts").mkdir()
    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], "<f4") * 0.1
    faces = [(0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3)]
    body = b"".join(np.zeros(3, "<f4").tobytes() + corners[list(face)].tobytes() + b"\0\0" for face in faces)
    (tmp_path / "parts/tetrahedron.stl").write_bytes(b"\0" * 80 + np.uint32(4).tobytes() + body)
    (tmp_path / "arm.xml").write_text(ARM)
    (tmp_path / "over.xml").write_text(OVERLAY)
    (tmp_path / "deck.yaml").write_text(DECK)
    return tmp_path


def test_model_and_default_positions(maniple, folder):
    maniple("rollout", folder / "deck.yaml", "simulation.steps=0", "output.trajectory.every=1", "model.contacts=false", "batch.num_envs=2",
            "output.trajectory.fields=[qpos,observation]", f"output.directory={folder}/run", ranks=2)
    with h5py.File(folder / "run/results.h5") as file:
        model = mujoco.MjModel.from_binary_path("model.mjb", {"model.mjb": file["run/model_mjb"][()].tobytes()})
        np.testing.assert_allclose(file["trajectory/qpos"][0, 0], [0.3, 0.8], rtol=1e-6)
        np.testing.assert_allclose(file["trajectory/observation"][0, 0], [0, 0.1, 0.3, 0.7], atol=1e-6)
    assert model.opt.timestep == 0.005 and model.nmesh == 1 and model.ngeom == 3
    np.testing.assert_array_equal(model.dof_armature, 0.25)
    np.testing.assert_array_equal(model.dof_damping, [1, 4])
    np.testing.assert_array_equal(model.joint("elbow").range, [-1, 2])
    assert model.geom("upper").size[0] == 0.2 and model.actuator("elbow").trnid[0] == 1


@pytest.mark.parametrize("text, change, message", [
    ("<joint name=\"sh.*|elbow\"", "<joint name=\"knee\"",
     r"over\.xml:5: model\.overlay: the model has no <joint> whose name matches 'knee'; allowed: shoulder, elbow"),
    ("<joint name=\"sh.*|elbow\"", "<joint name=\"(knee\"", r"over\.xml:5: model\.overlay: '\(knee' is not a regular expr"),
    ("<geom name=\"upper\"", "<geom class=\"upper\"", r"over\.xml:8: model\.overlay: found <geom> without a name in <edit>"),
    ("armature=\"0.25\"", "armatur=\"0.25\"", r"armatur"),
    ("<motor name=\"elbow\" joint=\"elbow\"/>", "<motor joint=\"elbo\"/>", r"over\.xml:11: .*elbo"),
    ("<mujoco>", "<robot>", r"over\.xml: model\.overlay: found a file without <mujoco>"),
])
def test_refusals(maniple, folder, text, change, message):
    assert text in OVERLAY
    (folder / "over.xml").write_text(OVERLAY.replace(text, change))
    result = maniple("validate", folder / "deck.yaml", "model.contacts=false", exit_code=2, ranks=0)
    assert re.search(message, result.stderr), result.stderr


def test_refusals_of_keys(maniple, folder):
    for key, message in (("model.overlay=none.xml", r"model\.overlay: found 'none\.xml'"),
                         ("task.keyframe=straight", r'task\.keyframe: no keyframe "straight"; .*bent')):
        result = maniple("validate", folder / "deck.yaml", key, "model.contacts=false", exit_code=2, ranks=0)
        assert re.search(message, result.stderr), result.stderr
