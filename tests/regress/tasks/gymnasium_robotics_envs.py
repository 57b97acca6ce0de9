"""The environments of Gymnasium-Robotics without the multi-agent ones that its start imports, and with MuJoCo's
enumerators as numbers, which NumPy's integers no longer equal by themselves."""

import importlib
import sys
import types
from importlib.util import find_spec

import mujoco


class _Numbers:
    """The enumerators of a type as integers."""

    def __init__(self, kind):
        self._kind = kind

    def __getattr__(self, name):
        return int(getattr(self._kind, name))


def _load_package():
    package = types.ModuleType("gymnasium_robotics")
    package.__path__ = list(find_spec("gymnasium_robotics").submodule_search_locations)
    sys.modules["gymnasium_robotics"] = package
    package.GoalEnv = importlib.import_module("gymnasium_robotics.core").GoalEnv
    utilities = importlib.import_module("gymnasium_robotics.utils.mujoco_utils")
    utilities.mujoco = types.SimpleNamespace(
        **{name: getattr(mujoco, name) for name in dir(mujoco) if not name.startswith("_")}
        | {"mjtJoint": _Numbers(mujoco.mjtJoint), "mjtEq": _Numbers(mujoco.mjtEq)})


def make_fetch(name):
    """The environment of a Fetch task: reach, push, slide or pick_and_place."""
    if "gymnasium_robotics" not in sys.modules:
        _load_package()
    module = importlib.import_module(f"gymnasium_robotics.envs.fetch.{name}")
    title = "".join(part.title() for part in name.split("_"))
    return getattr(module, f"MujocoFetch{title}Env")()


def make_adroit(name):
    """The environment of an Adroit task, with the dense reward: door, hammer, pen or relocate."""
    if "gymnasium_robotics" not in sys.modules:
        _load_package()
    module = importlib.import_module(f"gymnasium_robotics.envs.adroit_hand.adroit_{name}")
    return getattr(module, f"AdroitHand{name.title()}Env")()
