"""Every header compiles alone: it includes all that it uses and does not rely on the includes of others.

Each is parsed as the only line of a source, with the compiler and the flags of this build. Where a header brings
Kokkos in anyway, Kokkos' own header comes precompiled: parsing it a hundred times would take minutes, and as
every header of ours is parsed alone, none can lean on it unseen.
"""
# ctest: COST 90

import json
import os
import re
import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import pytest
from conftest import BUILD, ROOT

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]', re.M)
KOKKOS = "Kokkos_Core.hpp"


@cache
def includes(name):
    return INCLUDE.findall((ROOT / name).read_text())


def closure(name):
    """Whatever a header includes, itself or through others of ours."""
    found, todo = set(), [name]
    while todo:
        for kind, header in includes(todo.pop()):
            if header not in found:
                found.add(header)
                if kind == '"':
                    todo.append(header)
    return found


@cache
def compiler():
    """The command that compiles a test, without the source and what belongs to its output."""
    entries = json.loads((BUILD / "compile_commands.json").read_text())
    entry = next(entry for entry in entries if re.search("test_guard.cpp$|unity_reference_cxx.cxx$", entry["file"]))
    words = shlex.split(entry["command"])
    first = next(i for i, word in enumerate(words) if re.search(r"(\+\+|nvcc_wrapper)[-\d.]*$", word))
    kept, skip = [words[first]], False
    for word in words[first + 1:]:
        if skip or word in ("-c", "-o", "-include", "-Winvalid-pch", "-MD", "-MT", "-MF", "-Xclang"):
            skip = word in ("-o", "-include", "-MT", "-MF")
        elif word != "-include-pch" and not word.endswith((".pch", ".cpp", ".cxx", "cmake_pch.hxx")):
            kept.append(word)
    return kept


@cache
def of_the_module():
    """Where the headers of Python and nanobind are, as arguments; None where the module of the package is not built."""
    entries = json.loads((BUILD / "compile_commands.json").read_text())
    command = next((entry["command"] for entry in entries if entry["file"].endswith("/src/python/module.cpp")), None)
    return command and [word for option in re.findall(r"-isystem \S+|-I\S+", command) for word in option.split()]


def failure(header, folder, precompiled):
    """What the compiler says of a source that includes this header alone; empty where it is content."""
    binds = any(name.startswith("nanobind/") for name in closure(header))
    if binds and of_the_module() is None:
        return ""
    source = folder / (header.replace("/", "_") + ".cpp")
    source.write_text(f'#include "{header}"\n')
    first = ["-include", str(precompiled)] if KOKKOS in closure(header) else []
    result = subprocess.run([*compiler(), *(of_the_module() if binds else []), *first, "-fsyntax-only", str(source)], cwd=ROOT, capture_output=True, text=True)
    return f"{header}:\n{result.stderr[:2000]}" if result.returncode else ""


@pytest.fixture(scope="module")
def precompiled(tmp_path_factory):
    header = tmp_path_factory.mktemp("precompiled") / "first.hpp"
    header.write_text(f"#include <{KOKKOS}>\n")
    # (instantiating its templates once takes half of the time off each that follows)
    clang = "clang" in compiler()[0]
    suffix, flags = (".pch", ["-fpch-instantiate-templates"]) if clang else (".gch", [])
    subprocess.run([*compiler(), *flags, "-x", "c++-header", str(header), "-o", f"{header}{suffix}"], check=True, cwd=ROOT)
    return header


# (a stand-in for Kokkos is for nvcc alone)
HEADERS = sorted(str(path.relative_to(ROOT)) for tree in ("kernels", "src", "tests") for path in (ROOT / tree).rglob("*.hpp")
                 if path.parent.name != "kokkos")


def changed_lately(files):
    """Those that differ from what they were four hours before the last commit; all where git does not know that."""
    def git(*arguments):
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True).stdout

    newest = git("log", "-1", "--format=%ct").strip()
    before = newest and git("rev-list", "-1", f"--before={int(newest) - 4 * 3600}", "HEAD").strip()
    changed = git("diff", "--name-only", before).splitlines() if before else files
    return [file for file in files if file in changed]


def check_headers(headers, folder, precompiled):
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        failures = list(filter(None, pool.map(lambda header: failure(header, folder, precompiled), headers)))
    assert not failures, "\n".join(failures)


def test_headers_that_changed_compile_alone(tmp_path, precompiled):
    check_headers(changed_lately(HEADERS), tmp_path, precompiled)


@pytest.mark.nightly
def test_every_header_compiles_alone(tmp_path, precompiled):
    assert len(HEADERS) > 100
    check_headers(HEADERS, tmp_path, precompiled)


@pytest.mark.parametrize("body, ok", [
    ("inline std::int64_t one() { return 1; }", False),
    ("#include <cstdint>\ninline std::int64_t one() { return 1; }", True),
])
def test_a_header_that_leans_on_others_is_seen(tmp_path, precompiled, body, ok):
    header = tmp_path / "lonely.hpp"
    header.write_text(f"#pragma once\n{body}\n")
    assert (not failure(str(header), tmp_path, precompiled)) == ok
