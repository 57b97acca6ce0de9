"""Configuration of a build for GPUs, without a GPU and without Kokkos' sources: packages that say they are a Kokkos
with CUDA stand in for it."""
# ctest: PROCESSORS 1

import shutil
import subprocess

import pytest
from conftest import ENVIRONMENT, ROOT

PACKAGE = """
set(Kokkos_VERSION 4.7.1)
set(Kokkos_DEVICES SERIAL;CUDA)
set(Kokkos_ARCH {architectures})
add_library(Kokkos::kokkos INTERFACE IMPORTED)
"""
# stands in for the sources that would be downloaded; ends the configuration with what it was told
SOURCES = """
get_cmake_property(variables CACHE_VARIABLES)
list(FILTER variables INCLUDE REGEX "^Kokkos_ARCH_")
message(FATAL_ERROR "Kokkos is built with: ${variables}")
"""


def configure(tmp_path, *options, capabilities="", compiler="g++"):
    """What a failing configuration says, its lines joined; nvidia-smi reports these compute capabilities."""
    smi = tmp_path / "nvidia-smi"
    smi.write_text(f"#!/bin/sh\nprintf '{capabilities}'\n")
    smi.chmod(0o755)
    environment = {name: value for name, value in ENVIRONMENT.items() if name != "CXX"}
    environment["PATH"] = f"{tmp_path}:{environment['PATH']}"
    command = ["cmake", "-S", ROOT, "-B", tmp_path / "build", f"-DCMAKE_CXX_COMPILER={compiler}", *options]
    result = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, timeout=120)
    assert result.returncode != 0, result.stdout
    return " ".join(result.stderr.split())


def installed(tmp_path, architectures):
    folder = tmp_path / "kokkos"
    folder.mkdir()
    (folder / "KokkosConfig.cmake").write_text(PACKAGE.format(architectures=architectures))
    (folder / "KokkosConfigVersion.cmake").write_text("set(PACKAGE_VERSION 4.7.1)\nset(PACKAGE_VERSION_COMPATIBLE ON)\n")
    return f"-DKokkos_DIR={folder}"


def downloaded(tmp_path):
    folder = tmp_path / "kokkos_sources"
    folder.mkdir()
    (folder / "CMakeLists.txt").write_text(SOURCES)
    return ["-DMANIPLE_FETCH_KOKKOS=ON", "-DKokkos_ENABLE_CUDA=ON", f"-DFETCHCONTENT_SOURCE_DIR_KOKKOS={folder}"]


@pytest.mark.parametrize("source", ["installed", "downloaded"])
def test_clang_is_refused_as_cuda_compiler(tmp_path, source):
    options = [installed(tmp_path, "HOPPER90")] if source == "installed" else downloaded(tmp_path)
    clang = shutil.which("clang++-19") or shutil.which("clang++")
    message = configure(tmp_path, *options, compiler=clang, capabilities="9.0\\n")
    assert f"{clang} is clang. Name no compiler (unset CXX), or g++" in message


def test_a_kokkos_for_no_gpu_is_refused(tmp_path):
    message = configure(tmp_path, installed(tmp_path, "SKX"))
    assert "was built with CUDA for no architecture of a GPU (Kokkos_ARCH: 'SKX')" in message


@pytest.mark.parametrize("capabilities, says", [
    ("9.0\\n9.0\\n", "Kokkos is built with: Kokkos_ARCH_HOPPER90"),
    ("8.0\\n", "Kokkos is built with: Kokkos_ARCH_AMPERE80"),
    ("", "Which GPU is this build for? This machine's nvidia-smi says ''. Name one architecture"),
    ("9.0\\n8.0\\n", "Which GPU is this build for? This machine's nvidia-smi says '9.0;8.0'."),
])
def test_the_architecture_is_that_of_the_device_or_asked_for(tmp_path, capabilities, says):
    assert says in configure(tmp_path, *downloaded(tmp_path), capabilities=capabilities)


def test_an_architecture_that_is_named_is_kept(tmp_path):
    options = [*downloaded(tmp_path), "-DKokkos_ARCH_AMPERE80=ON"]
    assert "Kokkos is built with: Kokkos_ARCH_AMPERE80" in configure(tmp_path, *options, capabilities="9.0\\n")
