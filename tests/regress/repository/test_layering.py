"""The dependency direction of the layers, read off every #include line, and the hygiene of the repository.

kernels/ never includes src/; inside a tree only lower layers; mpi.h and nccl.h only in src/parallel, hdf5.h
only in src/io, mujoco.h only in src/model_import. Tests may look at everything.
"""
# ctest: PROCESSORS 1

import json
import re
import subprocess
from pathlib import Path

import pytest
from conftest import BUILD, ROOT

SELF = str(Path(__file__).resolve().relative_to(ROOT))

# layer -> the layers it may include (its own is always allowed)
KERNELS = {
    "base": set(),
    "math": {"base"},
    "model": {"base", "math"},
    "physics": {"base", "math", "model"},
    "tasks": {"base", "math", "model", "physics"},
    "nn": {"base", "math"},
}
# the same within a layer; the files above its folders may include all of them
INSIDE = {
    ("kernels", "physics"): {
        "smooth": set(),
        "collision": set(),
        "constraint": {"smooth", "collision"},
        "solver": {"smooth", "constraint"},
        "integration": {"smooth"},
        "sensor": {"smooth", "collision", "constraint"},
    },
    ("src", "tasks"): {
        "language": set(),
        "terms": {"language"},
        "compile": {"language", "terms"},
    },
}
# files above the folders that these may include
BELOW_FOLDERS = {"stage_times.hpp", "contact_queries.hpp"}
SOURCES = {
    "base": set(),
    "config": {"base"},
    "parallel": {"base"},
    "io": {"base", "config", "parallel"},
    "model_import": {"base", "config"},
    "tasks": {"base", "config", "model_import"},
    "simulation": {"base", "config", "parallel", "io", "model_import", "tasks"},
    "learning": {"base", "config", "parallel", "io", "simulation"},
    "driver": {"base", "config", "parallel", "io", "model_import", "tasks", "simulation", "learning"},
    # beside the driver, and nothing includes it
    "python": {"base", "config", "io", "model_import", "tasks", "simulation", "learning"},
}
# which kernels/ layers a layer of src/ may include
KERNELS_FOR_SOURCES = {
    "base": set(),
    "config": set(),
    "parallel": {"base"},
    "io": {"base"},
    "model_import": {"base", "math", "model", "physics"},
    "tasks": {"base", "math", "model", "physics", "tasks"},
    "simulation": {"base", "model", "physics", "tasks"},
    "learning": {"base", "math", "nn"},
    "driver": {"base", "model", "physics", "tasks", "nn"},
    "python": set(),
}
# header -> folders whose files may include it
CONFINED = {
    r"mpi\.h": ("src/parallel/", "tests/"),
    r"nccl\.h": ("src/parallel/", "tests/device/"),
    r"cuda_runtime(_api)?\.h": ("src/parallel/", "kernels/base/", "tests/device/"),
    r"cuda\.h": ("src/parallel/cuda/",),
    r"hdf5\.h": ("src/io/", "tests/unit/io/"),
    r"mujoco/.*": ("src/model_import/", "tests/"),
    r"yaml-cpp/.*": ("src/config/", "tests/unit/config/"),
    r"CLI/.*": ("src/driver/",),
    r"nanobind/.*": ("src/python/",),
}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')


def tracked(*suffixes):
    """Files of the repository (tracked or new), as paths relative to its root."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return [n for n in names if n and (not suffixes or n.endswith(suffixes)) and (ROOT / n).is_file()]


def includes(name):
    text = (ROOT / name).read_text()
    return [(i + 1, m.group(1), m.group(2)) for i, line in enumerate(text.splitlines()) if (m := INCLUDE.match(line))]


def layer_violations(name, lines):
    """What is wrong with the includes `lines` of file `name`."""
    found = []
    parts = name.split("/")
    for line, kind, header in lines:
        where = f"{name}:{line}: {header}"
        target = header.split("/")
        for pattern, folders in CONFINED.items():
            if re.fullmatch(pattern, header) and not name.startswith(folders):
                found.append(f"{where}: only allowed in {', '.join(folders)}")
        if target[0] in ("src", "kernels") and kind == "<":
            found.append(f"{where}: own headers take quotes")
        if kind == '"' and target[0] not in ("src", "kernels", "tests"):
            found.append(f"{where}: own headers are named from the root of the repository")
        if parts[0] == "kernels":
            if target[0] == "src":
                found.append(f"{where}: kernels never include src")
            if target[0] == "kernels" and target[1] != parts[1] and target[1] not in KERNELS[parts[1]]:
                found.append(f"{where}: kernels/{parts[1]} may include {sorted(KERNELS[parts[1]])}")
        if parts[0] == "src" and len(parts) > 2:
            if target[0] == "src" and target[1] != parts[1] and target[1] not in SOURCES[parts[1]]:
                found.append(f"{where}: src/{parts[1]} may include {sorted(SOURCES[parts[1]])}")
            if target[0] == "kernels" and target[1] not in KERNELS_FOR_SOURCES[parts[1]]:
                found.append(f"{where}: src/{parts[1]} may include kernels {sorted(KERNELS_FOR_SOURCES[parts[1]])}")
        inside = INSIDE.get(tuple(parts[:2]))
        if inside and len(parts) > 3 and target[:2] == parts[:2]:
            allowed = inside[parts[2]] | {parts[2]} if len(target) > 3 else BELOW_FOLDERS
            if target[2] not in allowed:
                found.append(f"{where}: {'/'.join(parts[:3])} may include {sorted(allowed)}")
        if parts[0] in ("src", "kernels") and target[0] == "tests":
            found.append(f"{where}: the program never includes tests")
    return found


def test_layers():
    violations = []
    for name in tracked(".cpp", ".hpp"):
        violations += layer_violations(name, includes(name))
    assert not violations, "\n" + "\n".join(violations)


@pytest.mark.parametrize(
    "name, header, kind",
    [
        ("kernels/base/x.hpp", "src/base/log.hpp", '"'),
        ("kernels/math/x.hpp", "kernels/physics/step.hpp", '"'),
        ("kernels/physics/x.hpp", "mpi.h", "<"),
        ("kernels/physics/smooth/x.hpp", "kernels/physics/constraint/contact_force.hpp", '"'),
        ("kernels/physics/sensor/x.hpp", "kernels/physics/solver/solver.hpp", '"'),
        ("kernels/physics/solver/x.hpp", "kernels/physics/step.hpp", '"'),
        ("src/base/x.cpp", "src/io/results.hpp", '"'),
        ("src/simulation/x.cpp", "src/learning/ppo.hpp", '"'),
        ("src/tasks/x.cpp", "src/simulation/simulation.hpp", '"'),
        ("src/model_import/x.cpp", "src/tasks/compile/task.hpp", '"'),
        ("src/tasks/language/x.cpp", "src/tasks/terms/terms.hpp", '"'),
        ("src/tasks/terms/x.cpp", "src/tasks/compile/task.hpp", '"'),
        ("src/driver/x.cpp", "hdf5.h", "<"),
        ("src/simulation/x.cpp", "mujoco/mujoco.h", "<"),
        ("src/io/x.cpp", "nccl.h", "<"),
        ("src/driver/x.cpp", "src/python/vector_environment.hpp", '"'),
        ("src/python/x.cpp", "src/driver/setup.hpp", '"'),
        ("src/simulation/x.cpp", "nanobind/nanobind.h", "<"),
        ("src/io/x.cpp", "archive.hpp", '"'),
    ],
)
def test_layers_are_seen_when_broken(name, header, kind):
    assert layer_violations(name, [(1, kind, header)])


def test_every_layer_folder_is_known():
    for tree, layers in (("kernels", KERNELS), ("src", SOURCES)):
        folders = {n.split("/")[1] for n in tracked(".cpp", ".hpp") if n.startswith(tree + "/") and n.count("/") > 1}
        assert folders <= set(layers), f"{tree}: {folders - set(layers)}"


def test_kernels_own_no_strings_files_or_exceptions():
    # labels of Views and launches, and host-only tables of names are the exceptions
    allowed = {"kernels/base/tiles.hpp", "kernels/base/scratch.hpp", "kernels/model/field_info.hpp",
               "kernels/nn/tile_team.hpp"}
    pattern = re.compile(r"#\s*include\s*<(string|fstream|iostream|sstream|stdexcept|filesystem|thread)>|\bthrow\b")
    violations = []
    for name in tracked(".cpp", ".hpp"):
        if not name.startswith("kernels/") or name in allowed:
            continue
        for number, line in enumerate((ROOT / name).read_text().splitlines(), 1):
            if pattern.search(line.split("//")[0]):
                violations.append(f"{name}:{number}: {line.strip()}")
    assert not violations, "\n" + "\n".join(violations)


def test_headers_are_guarded():
    missing = [n for n in tracked(".hpp") if "#pragma once" not in (ROOT / n).read_text()]
    assert not missing, missing


def test_top_level_is_what_the_design_says():
    allowed = {"CMakeLists.txt", "README.md", "CHANGELOG.md", "CITATION.cff", "LICENSE", "pyproject.toml", "src", "kernels", "inputs", "jobs", "tests", "tools"}
    found = {n.split("/")[0] for n in tracked()}
    assert {n for n in found if not n.startswith(".")} <= allowed


def test_no_paths_of_one_machine():
    # absolute paths of somebody's checkout, home or scratch space have no place in a repository
    pattern = re.compile(r"(?<![\w.}~])/(work|home|root|Users|mnt|scratch)/\w")
    violations = []
    for name in tracked():
        if name == SELF or name.endswith((".png", ".h5", ".stl")):
            continue
        for number, line in enumerate((ROOT / name).read_text(errors="replace").splitlines(), 1):
            if pattern.search(line):
                violations.append(f"{name}:{number}: {line.strip()[:120]}")
    assert not violations, "\n" + "\n".join(violations)


def test_no_unfinished_work():
    pattern = re.compile(r"\b(TODO|FIXME|XXX|not implemented|stub)\b")
    violations = []
    for name in tracked(".cpp", ".hpp", ".py", ".sh", ".cmake", ".yaml", ".md"):
        if name == SELF:
            continue
        for number, line in enumerate((ROOT / name).read_text().splitlines(), 1):
            if pattern.search(line):
                violations.append(f"{name}:{number}: {line.strip()[:120]}")
    assert not violations, "\n" + "\n".join(violations)


def test_no_file_is_large():
    large = [f"{n}: {(ROOT / n).stat().st_size}" for n in tracked() if (ROOT / n).stat().st_size > 300_000]
    assert not large, large


def test_no_flag_that_changes_the_bits():
    for name in ["CMakeLists.txt", *[n for n in tracked(".cmake")]]:
        for line in (ROOT / name).read_text().splitlines():
            code = line.split("#")[0]
            assert not re.search(r"-ffast-math|-fassociative-math|-ffinite-math-only|-Ofast", code), f"{name}: {line}"


def test_files_that_launch_kernels_are_optimised():
    """The linker takes any one of the copies of a kernel: one that was compiled without -O3 would slow all of the program."""
    launches = re.compile(r"\b(parallel_for|for_tiles)\b")
    found = 0
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        if "maniple_core.dir" not in entry["command"]:
            continue
        file = Path(entry["file"])
        texts = [file.read_text()] if file.is_file() else []
        texts += [Path(name).read_text() for name in re.findall(r'#include "(.*\.cpp)"', "".join(texts)) if Path(name).is_file()]
        if any(launches.search(text) for text in texts):
            found += 1
            assert entry["command"].rfind(" -O3") > entry["command"].rfind(" -O1"), file
    assert found >= 3
