"""model.overlay: MJCF that is merged into another author's model, and the messages about one that does not fit."""
# ctest: PROCESSORS 1

import re

import h5py
import mujoco
import numpy as np
import pytest

from maniple.results import Run

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


REFUSED = """<mujoco>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 .1"/>
    <body name="a" pos="0 0 1"><freejoint/>
      {geoms}
      <site name="s"/>
      <body name="tool"><body name="tip"><geom name="tip" size=".1"/></body><joint name="bend"/></body></body>
  </worldbody>
  <sensor><user name="sonar.1" dim="1"/><user name="sonar2" dim="1"/></sensor>
  <actuator><motor name="turn" joint="bend"/><general name="grip" joint="bend" dyntype="user"/></actuator>
</mujoco>
"""


def test_refusals_are_grouped_and_the_overlay_that_they_show_settles_them(maniple, tmp_path):
    geoms = "\n      ".join(f'<geom name="g{i}" size=".1" surfacevel="0 0 0 1 0 0"/>' for i in range(7))
    (tmp_path / "model.xml").write_text(REFUSED.format(geoms=geoms))
    result = maniple("validate", f"model.file={tmp_path}/model.xml", exit_code=2, ranks=0)
    lines = result.stderr.splitlines()
    first = lines.index("  7 geoms, each of which has a surface velocity:")
    assert re.search(r'^    \S*model.xml:5: geom "g0"$', lines[first + 1])
    assert lines[first + 6] == "    and 2 more"
    assert "  2 sensors, each of which is of type user:" in lines
    assert any(re.search(r'^  \S*model.xml:\d+: actuator "grip" has user-defined dynamics', line) for line in lines), lines
    edits = re.findall(r"<edit>.*</edit>", result.stderr)
    assert len(edits) == 3 and edits[0] == \
        '<edit> <geom name="g0|g1|g2|g3|g4|g5|g6" surfacevel="0 0 0"/> </edit>', edits
    assert any(r'<user name="sonar\.1|sonar2" remove="true"/>' in edit for edit in edits), edits
    (tmp_path / "over.xml").write_text("<mujoco>" + "\n".join(edits) + "</mujoco>")
    result = maniple("validate", f"model.file={tmp_path}/model.xml", f"model.overlay={tmp_path}/over.xml", ranks=0)
    assert "nu 1, " in result.stdout and "sensors 0 " in result.stdout


def test_elements_are_removed_with_what_is_in_them(maniple, tmp_path):
    (tmp_path / "model.xml").write_text(REFUSED.format(geoms='<geom name="g" size=".1"/>'))
    sensors = '<user name="sonar.*" remove="true"/><general name="grip" remove="true"/>'

    def validate(edits, exit_code=0):
        (tmp_path / "over.xml").write_text(f"<mujoco>\n<edit>{sensors}\n{edits}</edit></mujoco>")
        result = maniple("validate", f"model.file={tmp_path}/model.xml", f"model.overlay={tmp_path}/over.xml",
                         exit_code=exit_code, ranks=0)
        return result.stdout + result.stderr

    assert "bodies 4, joints 2" in validate("")
    assert "bodies 2, joints 1" in validate('<motor name="turn" remove="true"/><body name="tool" remove="true"/>')
    # what the removed element is needed for is said where it stands
    assert re.search(r"model\.xml:10: .*bend", validate('<body name="tool" remove="true"/>', 2))
    for edit, message in [
            ('<body name="tol" remove="true"/>', r"over\.xml:3: model\.overlay: the model has no <body> whose name matches 'tol'; "
                                                 r"allowed: a, tool, tip"),
            ('<body name="tool" remove="yes"/>', r'over\.xml:3: .*found <body name="tool" remove="yes"/> in <edit>; allowed: '
                                                 r'remove="true", with the name alone'),
            ('<body name="tool" pos="0 0 0" remove="true"/>', r"over\.xml:3: .*in <edit>; allowed: remove")]:
        assert re.search(message, validate(edit, 2)), validate(edit, 2)


def test_elements_without_a_name(maniple, tmp_path):
    """name="" stands for them, but not for those of <default>; the model includes a file by a tag of its own end."""
    (tmp_path / "part.xml").write_text('<mujoco>\n<default><geom friction="1"/></default></mujoco>')
    (tmp_path / "model.xml").write_text("""<mujoco><include file="part.xml"></include>
<worldbody><body name="a"><joint/><geom name="g" size=".1"/><geom size=".2" mass="1"/></body>
<body name="b" pos="1 0 0"><joint/><geom size=".1"/></body></worldbody>
<equality><connect body1="a" body2="b" anchor="0 0 0"/></equality></mujoco>""")
    (tmp_path / "over.xml").write_text("""<mujoco>
<edit><geom name="" type="box" size=".1 .1 .3"/><connect name="" remove="true"/></edit></mujoco>""")
    maniple("rollout", f"model.file={tmp_path}/model.xml", f"model.overlay={tmp_path}/over.xml", "simulation.steps=0",
            f"output.directory={tmp_path}/run", ranks=0)
    model = Run(tmp_path / "run").model
    assert model.neq == 0
    np.testing.assert_array_equal(model.geom_type, [mujoco.mjtGeom.mjGEOM_SPHERE] + 2 * [mujoco.mjtGeom.mjGEOM_BOX])
    (tmp_path / "over.xml").write_text('<mujoco><edit><weld name="" remove="true"/></edit></mujoco>')
    result = maniple("validate", f"model.file={tmp_path}/model.xml", f"model.overlay={tmp_path}/over.xml", exit_code=2, ranks=0)
    assert "over.xml:1: model.overlay: the model has no <weld> whose name matches ''" in result.stderr


def test_refusals_of_keys(maniple, folder):
    for key, message in (("model.overlay=none.xml", r"model\.overlay: found 'none\.xml'"),
                         ("task.keyframe=straight", r'task\.keyframe: no keyframe "straight"; .*bent')):
        result = maniple("validate", folder / "deck.yaml", key, "model.contacts=false", exit_code=2, ranks=0)
        assert re.search(message, result.stderr), result.stderr
