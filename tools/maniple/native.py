"""The compiled part of the package: beside it in an installed wheel, in the build folder of a checkout.

MANIPLE_BUILD_DIR names another build folder than `build`, as it does for the tests.
"""

import importlib.util
import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType

PACKAGE = Path(__file__).resolve().parent


def _load() -> ModuleType:
    """The module _maniple. ImportError, with the command that builds it, if there is none."""
    build = Path(os.environ.get("MANIPLE_BUILD_DIR", PACKAGE.parents[1] / "build"))
    folders = [PACKAGE, build / "python"]
    others = []
    for folder in folders:
        for file in sorted(folder.glob("_maniple.*.so")):
            if not any(file.name == f"_maniple{suffix}" for suffix in EXTENSION_SUFFIXES):
                others.append(str(file))
                continue
            spec = importlib.util.spec_from_file_location("maniple._maniple", file)
            if spec is None or spec.loader is None:
                continue
            module = importlib.util.module_from_spec(spec)
            sys.modules["maniple._maniple"] = module
            spec.loader.exec_module(module)
            return module
    found = f"{', '.join(others)}, of another Python than {sys.executable} ({sys.version.split()[0]})" if others else (
        f"no module _maniple in {' or '.join(map(str, folders))}")
    raise ImportError(f"found {found}; {_remedy(build)}")


def _remedy(build: Path) -> str:
    """How the module comes to be, by what the build folder is."""
    if not (PACKAGE.parents[1] / "CMakeLists.txt").is_file():  # (of an installation)
        return "`pip install .` in a checkout of Maniple installs it"
    if not (build / "CMakeCache.txt").is_file():
        return f"{build} is no build folder of CMake; tools/run.sh builds program and module, and MANIPLE_BUILD_DIR names another folder"
    rules = [file for file in (build / "build.ninja", build / "Makefile") if file.is_file()]
    if not any("maniple_python" in file.read_text(errors="replace") for file in rules):
        return (f"{build} was configured without it; `cmake -S {PACKAGE.parents[1]} -B {build} -DMANIPLE_PYTHON_PACKAGE=ON` adds it, or says "
                f"what is missing, and `cmake --build {build} --target maniple_python` builds it; builds for GPUs have none")
    return f"`cmake --build {build} --target maniple_python` builds it, with the packages that tools/setup.sh installs"


_maniple = _load()
VectorEnvironment = _maniple.VectorEnvironment
CallablePolicy = _maniple.CallablePolicy
ModelSimulation = _maniple.ModelSimulation
deck_file = _maniple.deck_file
version: str = _maniple.version
