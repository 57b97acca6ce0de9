"""The compiled part of the package: beside it in an installed wheel, in the build folder of a checkout.

MANIPLE_BUILD_DIR names another build folder than `build`, as it does for the tests.
"""

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

PACKAGE = Path(__file__).resolve().parent


def _load() -> ModuleType:
    """The module _maniple. ImportError, with the command that builds it, if there is none."""
    build = Path(os.environ.get("MANIPLE_BUILD_DIR", PACKAGE.parents[1] / "build"))
    folders = [PACKAGE, build / "python"]
    for folder in folders:
        for file in sorted(folder.glob("_maniple.*.so")):
            spec = importlib.util.spec_from_file_location("maniple._maniple", file)
            if spec is None or spec.loader is None:
                continue
            module = importlib.util.module_from_spec(spec)
            sys.modules["maniple._maniple"] = module
            spec.loader.exec_module(module)
            return module
    raise ImportError(f"no module _maniple in {' or '.join(map(str, folders))}: `ninja -C build maniple_python` builds it, "
                      "after bash tools/setup.sh")


_maniple = _load()
VectorEnvironment = _maniple.VectorEnvironment
CallablePolicy = _maniple.CallablePolicy
ModelSimulation = _maniple.ModelSimulation
deck_file = _maniple.deck_file
version: str = _maniple.version
