"""render() of maniple.make_vec(): pictures of environments, pixel by pixel those of MuJoCo's renderer, and what is said where
there can be none."""
# ctest: PROCESSORS 1 COST 10

import subprocess
import sys

import pytest

from conftest import ENVIRONMENT, ROOT

pytest.importorskip("maniple.native", reason="MANIPLE_PYTHON_PACKAGE is off", exc_type=ImportError)
import maniple  # noqa: E402

HOPPER = "gymnasium/hopper_v5"
PICTURES = """
import mujoco, numpy as np, maniple
deck = {deck!r}
with_mocap = "<mujoco><worldbody><light pos='0 0 3'/><geom type='plane' size='3 3 .1' rgba='.4 .6 .4 1'/><body name='cart' pos='0 0 .5'>\\
<joint name='slide' type='slide' axis='1 0 0'/><geom name='cart' type='box' size='.2 .1 .1' rgba='1 0 0 1'/></body><body name='goal' mocap='true' pos='0 .5 .5'>\\
<geom size='.1' rgba='0 0 1 1' contype='0' conaffinity='0'/></body><camera name='side' pos='0 -3 1' xyaxes='1 0 0 0 0.3 1'/></worldbody>\\
<actuator><motor joint='slide'/></actuator></mujoco>"
open("cart.xml", "w").write(with_mocap)
for precision in ("single", "double"):
    envs = maniple.make_vec(deck, 3, precision=precision, render_mode="rgb_array", width=120, height=80, camera="side")
    assert envs.render_mode == "rgb_array" and envs.metadata["render_modes"] == ["rgb_array"]
    try:
        envs.render()
        raise SystemExit("a picture before the first reset")
    except RuntimeError as error:
        assert "reset()" in str(error)
    envs.reset(seed=1)
    for _ in range(3):
        observations, *_ = envs.step(np.ones((3, 1), envs.action_space.dtype))
    pictures = envs.render()
    assert isinstance(pictures, tuple) and len(pictures) == 3
    model = mujoco.MjModel.from_xml_path("cart.xml")
    data, renderer = mujoco.MjData(model), mujoco.Renderer(model, 80, 120)
    for picture, (position, *goal) in zip(pictures, observations):
        data.qpos[0], data.mocap_pos[0] = position, goal
        mujoco.mj_forward(model, data)
        renderer.update_scene(data, "side")
        assert picture.shape == (80, 120, 3) and picture.dtype == np.uint8 and picture.std() > 5
        assert (picture == renderer.render()).all()
    assert (pictures[0] != pictures[1]).any()
    renderer.close()
    envs.close()
varied = dict(deck, task=dict(deck["task"], events=dict(
    long=dict(field="geom_size", geoms=["cart"], mode="reset", operation="scale", ranges=[.5, 2]),
    high=dict(field="body_pos", bodies=["cart"], mode="reset", operation="add", ranges=[-.2, .2]),
    painted=dict(field="geom_rgba", geoms=["cart"], mode="reset", operation="abs", ranges=[0, 1]))))
varied["task"]["observations"] = [dict(expression="[qpos[slide], mocap_pos[goal], geom_size[cart], body_pos[cart], geom_rgba[cart]]")]
envs = maniple.make_vec(varied, 3, precision="double", render_mode="rgb_array", width=120, height=80, camera="side")
observations, _ = envs.reset(seed=1)
for picture, numbers in zip(envs.render(), observations):
    model = mujoco.MjModel.from_xml_path("cart.xml")
    model.geom("cart").size[:], model.body("cart").pos[:] = numbers[4:7], numbers[7:10]
    model.geom("cart").rgba[:3] = numbers[10:]
    assert abs(model.geom("cart").size / [.2, .1, .1] - 1).max() > .05
    data, renderer = mujoco.MjData(model), mujoco.Renderer(model, 80, 120)
    data.qpos[0], data.mocap_pos[0] = numbers[0], numbers[1:4]
    mujoco.mj_forward(model, data)
    renderer.update_scene(data, "side")
    assert (picture == renderer.render()).all()
    renderer.close()
envs.close()
free = maniple.make_vec({hopper!r}, 1, render_mode="rgb_array")
free.reset()
assert free.render()[0].shape == (480, 480, 3) and free.render()[0].std() > 5
free.close()
print("drawn")
"""
CART = {
    "model": {"file": "cart.xml"},
    "task": {"name": "Cart", "episode_steps": 50, "actions": [{"term": "joint_effort", "joints": ["slide"]}],
             "observations": [{"expression": "[qpos[slide], mocap_pos[goal]]"}],
             "rewards": {"near": {"expression": "-abs(qpos[slide])", "weight": 1}}, "terminations": {"time_out": {"term": "time_out"}},
             "resets": [{"set": "mocap_pos[goal]", "expression": "[uniform(-1, 1), .5, .5]"}]},
}


def drawing(code, gl, folder):
    environment = {name: value for name, value in ENVIRONMENT.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
    return subprocess.run([sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT / 'tools')!r})\n{code}"], capture_output=True,
                          text=True, cwd=folder, env=environment | {"MUJOCO_GL": gl}, check=False)


def test_pictures_are_mujocos(tmp_path):
    if drawing("import mujoco; mujoco.Renderer(mujoco.MjModel.from_xml_string('<mujoco/>'), 8, 8).close()", "egl", tmp_path).returncode:
        pytest.skip("MuJoCo's renderer finds no OpenGL (packages libegl1 and libgl1-mesa-dri)")
    (tmp_path / "cart.xml").touch()
    deck = CART | {"model": {"file": str(tmp_path / "cart.xml")}}
    result = drawing(PICTURES.format(deck=deck, hopper=HOPPER), "egl", tmp_path)
    assert result.stdout == "drawn\n", result.stderr


def test_pictures_without_opengl_are_refused(tmp_path):
    result = drawing(f"import maniple; maniple.make_vec({HOPPER!r}, 1, render_mode='rgb_array')", "glfw", tmp_path)
    assert "RuntimeError: render_mode: no OpenGL context can be made here" in result.stderr and "MUJOCO_GL=egl" in result.stderr
    assert "Exception ignored" not in result.stderr


def test_pictures_have_sizes_and_modes(tmp_path):
    with pytest.raises(ValueError, match="render_mode: found 'human'; allowed: None, 'rgb_array'"):
        maniple.make_vec(HOPPER, 1, render_mode="human")
    for keys, message in (({"width": 0}, "width: found 0; allowed: pixels"), ({"camera": "top"}, "camera: found 'top'; allowed: None, 'track'"),
                          ({"camera": 7}, "camera: found 7; allowed: None, 'track', 0 to 0")):
        with pytest.raises(ValueError, match=message):
            maniple.make_vec(HOPPER, 1, render_mode="rgb_array", **keys)
    envs = maniple.make_vec(HOPPER, 1)
    assert envs.render() is None and envs.render_mode is None
