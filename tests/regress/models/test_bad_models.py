"""Models that cannot be read, are not supported or ask for too much: one message that says where and what is allowed."""
# ctest: PROCESSORS 1

import re

import pytest
from conftest import of_the_day
from refusals import deck, refusing, short  # noqa: F401

refused = refusing(of_the_day([1, 2], 1))


def test_missing_model(refused, deck, tmp_path):
    message = refused("train", deck("model:\n  file: none.xml\n"), *short(tmp_path), ranks=2)
    assert re.search(r"bad\.yaml:3: model\.file: found 'none\.xml', that is .*/none\.xml, which does not exist; allowed: ",
                     message)
    assert re.search(r"bad\.yaml:2: model\.file: found no Python package 'no_such_package'; allowed: ",
                     refused("train", deck("model: {file: package:no_such_package/robot.xml}\n"), *short(tmp_path)))


def test_broken_model(refused, deck, tmp_path):
    model = tmp_path / "broken.xml"
    model.write_text("<mujoco>\n  <worldbody>\n    <body>\n      <joint type='hinge' axs='0 0 1'/>\n    </body>\n"
                     "  </worldbody>\n</mujoco>\n")
    message = refused("train", deck("model:\n  file: broken.xml\n"), *short(tmp_path), ranks=2)
    assert "broken.xml" in message and "axs" in message and "4" in message
    model.write_text("<mujoco>\n  <worldbody>\n")
    assert "broken.xml" in refused("rollout", f"model.file={model}", "batch.num_envs=64", *short(tmp_path))


def test_unsupported_model(refused, tmp_path):
    (tmp_path / "ball.xml").write_text("""<mujoco>
  <option solver="PGS"/>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 1"/>
    <body name="ball" pos="0 0 1">
      <freejoint/>
      <geom name="ball" size="0.1" condim="6"/>
    </body>
  </worldbody>
</mujoco>
""")
    message = refused("rollout", f"model.file={tmp_path / 'ball.xml'}", "batch.num_envs=64", *short(tmp_path))
    assert "ball.xml:4: geom \"floor\" may touch geom \"ball\": contacts with condim 6" in message


def test_a_negative_delay(refused, tmp_path):
    model = tmp_path / "early.xml"
    model.write_text("<mujoco><worldbody><body><joint name='j'/><geom size='.1'/></body></worldbody>\n"
                     "<actuator><motor joint='j' delay='-1' nsample='3'/></actuator></mujoco>")
    assert re.search(r"early\.xml:2: .*has a negative delay", refused("validate", f"model.file={model}", ranks=1))


@pytest.mark.parametrize("element, found", [
    ('<composite type="cable" count="100000 1 1" size="1"><geom size="0.1"/></composite>',
     r'found <composite count="100000 1 1">, 100000 copies in all; allowed: at most 4096'),
    ('<replicate count="100"><replicate count="100"><geom size="0.1"/></replicate></replicate>',
     r'found <replicate count="100"> in <replicate>, 10000 copies in all; allowed: at most 4096'),
], ids=["composite", "replicate"])
def test_too_many_copies(refused, tmp_path, element, found):
    (tmp_path / "many.xml").write_text(f"<mujoco>\n  <worldbody>\n    {element}\n  </worldbody>\n</mujoco>\n")
    message = refused("validate", f"model.file={tmp_path / 'many.xml'}", ranks=1)
    assert re.search(r"many\.xml:3: " + found, message), message


def test_a_folder_is_not_included(refused, tmp_path):
    (tmp_path / "folder.xml").write_text('<mujoco>\n  <include file="."/>\n</mujoco>\n')
    message = refused("validate", f"model.file={tmp_path / 'folder.xml'}", ranks=1)
    assert "folder.xml" in message and "model.file" in message and "underflow" not in message, message


def test_a_model_whose_time_does_not_pass(refused, deck, tmp_path):
    for step in ("-0.01", "0", "nan"):
        (tmp_path / "overlay.xml").write_text(f'<mujoco><option timestep="{step}"/></mujoco>')
        message = refused("validate", deck(f"model:\n  overlay: {tmp_path}/overlay.xml\nsimulation: {{timestep: ~}}\n"), ranks=1)
        assert re.search(r"model\.file: the timestep \S+ of the model's <option>; allowed: more than 0 seconds", message)
