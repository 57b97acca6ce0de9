"""The published models that run, and inputs/README.md's table of them, which `maniple validate` writes: with
MANIPLE_WRITE_TABLE=1 this test rewrites the table, otherwise it compares."""
# ctest: PROCESSORS 1 COST 60

import os
import re
from pathlib import Path

import pytest
from conftest import ROOT

MODELS = {
    "gymnasium": ("envs/mujoco/assets", "ant half_cheetah hopper humanoid humanoidstandup inverted_double_pendulum "
                  "inverted_pendulum point pusher reacher swimmer walker2d walker2d_v5"),
    "dm_control": ("suite", "acrobot ball_in_cup cartpole cheetah dog finger fish hopper humanoid humanoid_CMU lqr "
                   "manipulator pendulum point_mass quadruped reacher stacker swimmer walker"),
    "mjlab": ("asset_zoo/robots", "unitree_g1/xmls/g1 unitree_go1/xmls/go1 i2rt_yam/xmls/yam"),
}
TABLE = re.compile(r"^\| package \|.*\n(?:\|.*\n)+", re.M)


def reasons(message):
    """The causes that a refusal names, without the names of elements."""
    found = []
    for line in message.splitlines():
        if not re.match(r"  \S", line):  # what is indented further lists elements of a cause
            continue
        text = re.sub(r"^\S+?(?::\d+)?: ", "", line.strip())
        text = re.sub(r'^(\w+) (?:"[^"]*"|number \d+ \(no name\)) (?:is )?', r"\1 ", text)
        text = re.sub(r"^\d+ (\w+)s, each of which (?:is )?", r"\1 ", text)
        text = re.sub(r"^.*may touch .*: ", "", text)  # who touches whom
        found.append(re.sub(r"[;,(].*", "", text).strip(" :"))
    assert found, message
    return found


def outcome(maniple, path):
    """("works" | "off" | "not yet", what stands in parentheses)."""
    result = maniple("validate", f"model.file=package:{path}", ranks=0, exit_code=None)
    if result.returncode == 0:
        return "works", ""
    assert result.returncode == 2, result.stdout + result.stderr
    message = result.stdout + result.stderr
    why = reasons(message)
    keys = re.findall(r"(model\.\w+): false", message)
    if keys:
        off = [f"{key}=false" for key in dict.fromkeys(keys)]
        result = maniple("validate", f"model.file=package:{path}", *off, ranks=0, exit_code=None)
        if result.returncode == 0:
            return "off", ", ".join(f"`{key}`" for key in off)
        # what no key switches off is the reason
        why = reasons(result.stdout + result.stderr)
    return "not yet", why[0]


def table(maniple):
    rows = ["| package | as they are | with deck keys | not yet |", "|---|---|---|---|"]
    for package, (folder, names) in MODELS.items():
        cells = {"works": {}, "off": {}, "not yet": {}}
        for name in names.split():
            kind, why = outcome(maniple, f"{package}/{folder}/{name}.xml")
            cells[kind].setdefault(why, []).append(Path(name).name)
        texts = ["; ".join(", ".join(models) + (f": {why}" if why else "") for why, models in cell.items())
                 for cell in cells.values()]
        rows.append(f"| {package} | " + " | ".join(texts) + " |")
    return "\n".join(rows) + "\n"


def test_the_table_says_what_validate_says(maniple):
    readme = ROOT / "inputs/README.md"
    text, wanted = readme.read_text(), table(maniple)
    print(wanted)
    if os.environ.get("MANIPLE_WRITE_TABLE"):
        text = TABLE.sub(lambda _: wanted, text)
        readme.write_text(text)
    shown = TABLE.findall(text)
    assert shown == [wanted], "MANIPLE_WRITE_TABLE=1 pytest tests/regress/models/test_supported_models.py rewrites it"


# ---- the table of MJCF elements ----

MODEL = """<mujoco>{sections}<worldbody><geom name="floor" type="plane" size="5 5 .1"/>
<body name="body" pos="0 0 1"{attributes}><joint name="joint"/><geom name="ball" size=".1"/><site name="site"/>{inside}
<body name="tip" pos=".5 0 0"><joint name="slide" type="slide"/><geom name="tip" size=".1"/></body></body>{world}</worldbody>
</mujoco>"""


def mjcf(sections="", inside="", world="", attributes=""):
    return MODEL.format(sections=sections, inside=inside, world=world, attributes=attributes)


def sections(*texts):
    return [mjcf(sections=text) for text in texts]


def bodies(*texts):
    return [mjcf(world=f'<body pos="2 0 {2 + i}">{text}</body>') for i, text in enumerate(texts)]


def actuators(*texts):
    return sections(*(f"<actuator>{text}</actuator>" for text in texts))


MESH = '<asset><mesh name="mesh" vertex="0 0 0  1 0 0  0 1 0  0 0 1"/></asset>'
WIDE_MESH = '<asset><mesh name="mesh" builtin="cone" params="129 1" scale=".1 .1 .1"/></asset>'
FIELD = '<asset><hfield name="field" nrow="2" ncol="2" size="1 1 .1 .1"/></asset>'
# of each row: models that are stepped, and models that are refused, each with the keys that let it be stepped
ELEMENTS = {
    "option": (sections(*(f'<option integrator="{name}"/>' for name in ("Euler", "RK4", "implicit", "implicitfast")),
                        '<option solver="PGS"/>', '<option cone="elliptic"/>', '<option solver="CG" timestep="0.001" gravity="0 0 -1" impratio="10"/>',
                        '<option wind="1 0 0" density="1.2" viscosity="2e-5" tolerance="1e-6"/>',
                        '<option noslip_iterations="3" noslip_tolerance="1e-5"/>'),
               {mjcf('<option integrator="discrete"/>'): "simulation.integrator=Euler",
                mjcf('<option cone="elliptic" solver="PGS"/>'): "simulation.solver=Newton",
                mjcf('<option noslip_iterations="3" solver="PGS"/>'): "simulation.solver=Newton"}),
    "flag": (sections('<option><flag gravity="disable" warmstart="disable" eulerdamp="disable"/></option>'),
             {mjcf(f'<option><flag {name}="enable"/></option>'): f"simulation.disable=[{name}]"
              for name in ("sleep", "override", "diagexact")}
             | {mjcf('<option integrator="discrete" solver="CG"><flag ipc="enable"/></option>'): None}),
    "body": ([mjcf(attributes=' gravcomp="0.5"'),
              mjcf(world='<body name="target" mocap="true"/>'),
              *bodies('<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/><joint/>')], {}),
    "joint, freejoint": (bodies('<freejoint/><geom size=".1"/>', '<joint type="ball" damping="1"/><geom size=".1"/>',
                                '<joint type="slide" range="-1 1" limited="true" stiffness="1" armature=".1" frictionloss=".1"/>'
                                '<geom size=".1"/>'), {}),
    "geom": (bodies(*(f'<freejoint/><geom type="{shape}" size=".1 .1 .1" contype="0" conaffinity="0"/>'
                      for shape in ("sphere", "capsule", "box", "cylinder", "ellipsoid")),
                    *(f'<freejoint/><geom type="capsule" size=".1 .1" condim="{condim}"/>' for condim in (1, 3, 4, 6)),
                    *(f'<freejoint/><geom type="{shape}" size=".1 .1 .1"/>' for shape in ("box", "cylinder", "ellipsoid")))
             + [mjcf(sections=MESH, inside='<geom type="mesh" mesh="mesh" contype="0" conaffinity="0"/>'),
                mjcf(sections=MESH, inside='<geom type="mesh" mesh="mesh"/>'),
                mjcf(sections=FIELD, world='<geom type="hfield" hfield="field"/>'),
                mjcf(sections='<option density="1"/>', inside='<geom size=".1" fluidshape="ellipsoid"/>')],
             {mjcf('<option solver="PGS"/>', world='<body pos="2 0 2"><freejoint/><geom size=".1" condim="4"/></body>'):
              "simulation.solver=Newton",
              mjcf(sections=WIDE_MESH, inside='<geom type="mesh" mesh="mesh"/>'): "model.contacts=false",
              mjcf(sections=FIELD.replace('nrow="2"', 'nrow="1"'), world='<geom type="hfield" hfield="field"/>'): None}),
    "site, camera, light": ([mjcf(inside='<camera/><light/><site type="box" size=".1 .1 .1"/>')], {}),
    "contact": (sections('<contact><pair geom1="floor" geom2="ball"/><exclude body1="body" body2="tip"/></contact>'), {}),
    "equality": ([mjcf(f'<tendon><fixed name="tendon"><joint joint="joint" coef="1"/></fixed></tendon><equality>{text}</equality>',
                       world='<site name="end"/>') for text in
                  ('<joint joint1="joint" joint2="slide" active="false"/>', '<joint joint1="joint" polycoef="0 1 0 0 0"/>',
                   '<connect body1="body" body2="tip" anchor="0 0 0"/>', '<weld body1="body" body2="tip"/>',
                   '<connect site1="site" site2="end"/>', '<weld site1="site" site2="end"/>',
                   '<tendon tendon1="tendon" polycoef=".1 0 0 0 0"/>')], {}),
    "tendon": (sections('<tendon><fixed stiffness="1" damping="1" limited="true" range="-1 1" frictionloss=".1" armature="1">'
                        '<joint joint="joint" coef="1"/><joint joint="slide" coef="2"/></fixed></tendon>')
               + [mjcf(f'<tendon><spatial stiffness="1" {more}><site site="end"/>{path}<site site="site"/></spatial></tendon>',
                       world='<site name="end"/><geom name="drum" type="cylinder" size=".1 .1"/>')
                  for more, path in (("", ""), ("", '<geom geom="ball" sidesite="end"/>'), ("", '<geom geom="drum"/>'),
                                     ('armature="1"', '<site site="site"/><pulley divisor="2"/><site site="end"/>'))],
               {}),
    "actuator": (actuators('<motor joint="joint"/><position joint="joint" kp="2"/><velocity joint="joint" kv="2"/>'
                           '<intvelocity joint="joint" actrange="-1 1"/><damper joint="joint" kv="1" ctrlrange="0 1"/>'
                           '<cylinder joint="slide" timeconst=".1"/><general joint="joint" gaintype="affine" biastype="affine"/>'
                           '<general joint="joint" dyntype="filterexact" dynprm=".1"/>',
                           '<muscle joint="joint" lengthrange="0 1"/>', '<motor site="site"/>',
                           '<motor joint="joint" delay=".1" nsample="20"/>',
                           '<motor site="site" refsite="site" gear="1 0 0 0 0 0"/>',
                           '<pid joint="joint" kp="2" ki="1" slewmax="3" input="pos vel ff"/>',
                           '<dcmotor joint="joint" motorconst=".1" resistance="1" inductance=".01" cogging=".1 6 0" '
                           'lugre="10 .1 .1 .2 .1" thermal="1 1 0 .004 25 25" controller="1 1 1 2 1 5" input="pos voltage"/>',
                           '<motor cranksite="site" slidersite="site" cranklength="1"/>', '<adhesion body="tip" ctrlrange="0 1"/>')
                 + sections('<tendon><fixed name="t"><joint joint="joint" coef="1"/></fixed></tendon>'
                            '<actuator><motor tendon="t"/></actuator>'),
                 {model: None for model in actuators('<general joint="joint" dyntype="user"/>',
                                                  '<orientation site="site" refsite="site" kp="1"/>',
                                                  '<pid joint="joint" delay=".1" nsample="20"/>')}),
    "sensor": (sections('<sensor><gyro site="site"/><framepos objtype="body" objname="tip"/><jointpos joint="joint"/>'
                        '<subtreecom body="body"/><touch site="site"/><clock/>'
                        '<rangefinder site="site" data="dist point"/><e_kinetic/><e_potential/>'
                        '<distance geom1="floor" geom2="ball"/></sensor>'),
               {mjcf(f"<sensor>{sensor}</sensor>"): "simulation.disable=[sensor]"
                for sensor in ('<rangefinder site="site" data="normal"/>', '<user dim="1"/>')}),
    "keyframe": (sections('<keyframe><key name="up" qpos="1 0"/></keyframe>'), {}),
    "deformable": ([], {mjcf('<option solver="Newton"/>', world='<flexcomp name="rope" type="grid" count="4 1 1" '
                             'spacing=".1 .1 .1" dim="1" radius=".01" mass="1"><contact contype="0" conaffinity="0"/>'
                             '<edge equality="false"/></flexcomp>'): None}),
}
ROWS = re.compile(r"<!-- table: MJCF -->\n\|.*\n\|[-|]+\n((?:\|.*\n)+)")


def rows_of_elements():
    cells = [[cell.strip() for cell in row.strip("|").split("|")]
             for row in ROWS.search((ROOT / "inputs/README.md").read_text())[1].splitlines()]
    return {row[0].replace("`", ""): row[1:] for row in cells}


def test_the_table_of_elements_has_them_all():
    assert {name for name in rows_of_elements() if name != "extension"} == set(ELEMENTS)  # (there is no plugin to try)


@pytest.mark.parametrize("element", ELEMENTS)
def test_the_table_of_elements(maniple, tmp_path, element):
    """Of each row: what is said to be supported is, and the rest is refused; where keys let a model be stepped, the row
    or the refusal names them."""
    stepped, refused = ELEMENTS[element]
    supported, others = rows_of_elements()[element]
    assert bool(stepped) == bool(supported) and bool(refused) <= bool(others)
    file = tmp_path / "model.xml"
    for model in stepped:
        file.write_text(model)
        maniple("validate", f"model.file={file}", ranks=0)
    for model, keys in refused.items():
        file.write_text(model)
        result = maniple("validate", f"model.file={file}", ranks=0, exit_code=2)
        assert "needs what this version does not simulate" in result.stdout + result.stderr
        if keys:
            assert keys.split("=")[0] in others
            maniple("validate", f"model.file={file}", keys, ranks=0)


def test_the_table_of_elements_has_all_sensors(maniple, tmp_path):
    (tmp_path / "model.xml").write_text(mjcf('<sensor><user dim="1"/></sensor>'))
    result = maniple("validate", f"model.file={tmp_path / 'model.xml'}", ranks=0, exit_code=2)
    listed = re.search(r"supported sensors: ([^;]*);", result.stdout + result.stderr)[1].split(", ")
    shown = rows_of_elements()["sensor"][0].split(", ")
    expanded = [name for entry in shown for name in listed
                if name == entry or (entry.endswith("...") and name.startswith(entry[:-3]))]
    assert sorted(expanded) == sorted(listed)
