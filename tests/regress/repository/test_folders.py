"""The files of a folder compile together, as a CUDA build compiles them: names with internal linkage do not clash
within a folder. By day the folders of src with a recently changed file are tried, at night all.

The build writes the joined files (tools/cmake/ManipleCuda.cmake). Each is parsed by g++, the host compiler of nvcc,
one environment in a lane as on a GPU, and with the flags of this build. So are the kernels of
physics and tasks each day, in single precision.
"""
# ctest: PROCESSORS 1

import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import BUILD, ROOT
from test_headers import changed_lately, compiler

JOINED = BUILD / "joined_folders"


def gcc():
    """The command that parses a test with g++."""
    kept, skip = ["g++", "-DMANIPLE_SCALAR_LANES", "-Werror", "-Wno-subobject-linkage"], False
    for word in compiler()[1:]:
        if not skip and word != "-mllvm":
            kept.append(word)
        skip = word == "-mllvm"
    return [*kept, "-fsyntax-only"]


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """Options with which the headers that nearly every file includes come precompiled."""
    header = tmp_path_factory.mktemp("precompiled") / "first.hpp"
    header.write_text("#include <Kokkos_Core.hpp>\n#include <gtest/gtest.h>\n#include <spdlog/fmt/fmt.h>\n"
                      "typedef struct __half half;\n")  # (of cuda_fp16.h, which a Kokkos with CUDA includes)
    command = [word for word in gcc() if word != "-fsyntax-only"]
    subprocess.run([*command, "-x", "c++-header", str(header), "-o", f"{header}.gch"], check=True, cwd=ROOT)
    return ["-include", str(header)]


def failure(source, first=()):
    """What g++ says of a file; empty where it is content."""
    result = subprocess.run([*gcc(), *first, str(source)], cwd=ROOT, capture_output=True, text=True)
    return f"{source.name}:\n{result.stderr[:3000]}" if result.returncode else ""


# the longest first
FOLDERS = sorted(JOINED.glob("*.cpp"), key=lambda path: -len(path.read_text()))


def check_folders(folders, first):
    with ThreadPoolExecutor(2) as pool:
        failures = list(filter(None, pool.map(lambda folder: failure(folder, first), folders)))
    assert not failures, "\n".join(failures)


def test_folders_that_changed_compile_as_one_file(first):
    sources = [str(path.relative_to(ROOT)) for path in (ROOT / "src").rglob("*.?pp")]
    changed = {(ROOT / file).parent for file in changed_lately(sources)}
    check_folders([joined for joined in FOLDERS if any(f'"{folder}/' in joined.read_text() for folder in changed)], first)


def test_kernels_compile_without_warnings(first):
    check_folders([ROOT / "tests/device/single.cpp"], first)


@pytest.mark.nightly
def test_every_folder_compiles_as_one_file(first):
    assert len(FOLDERS) > 20
    check_folders(FOLDERS, first)


def test_every_source_that_is_joined_is_there():
    joined = "".join(path.read_text() for path in JOINED.glob("*.cpp"))
    alone = ("src/main.cpp", "src/driver/self_test.cpp", "src/driver/self_test_learning.cpp", "src/driver/self_test_physics.cpp",
             "src/parallel/session.cpp", "src/driver/doctor.cpp", "src/learning/conditional_unet.cpp",
             "src/learning/image_encoder.cpp")
    for tree in ("src", "tests/unit"):
        for path in (ROOT / tree).rglob("*.cpp" if tree == "src" else "test_*.cpp"):
            name = str(path.relative_to(ROOT))
            apart = name in alone or path.parent.name in ("cuda", "nccl", "python")
            assert (f'"{path}"' in joined) != apart, name


@pytest.mark.parametrize("other, ok", [("kOthers", True), ("kMine", False)])
def test_names_that_clash_are_seen(tmp_path, other, ok):
    for file, name in (("one", "kMine"), ("two", other)):
        (tmp_path / f"{file}.cpp").write_text(f"namespace {{\nconstexpr int {name} = 1;\n}}\nint {file}() {{ return {name}; }}\n")
    joined = tmp_path / "joined.cpp"
    joined.write_text('#include "one.cpp"\n#include "two.cpp"\n')
    assert (not failure(joined)) == ok
