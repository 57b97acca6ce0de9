"""The comparison of .ci/gpu device_code with its table of resources; the kernels themselves are compiled there."""
# ctest: PROCESSORS 1

import importlib.util

import pytest
from conftest import ROOT

SPEC = importlib.util.spec_from_file_location("resources", ROOT / "tests/device/resources.py")
resources = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(resources)

ROW = {"registers": 200, "stack": 4000, "spills": 0, "instructions": 10000}


@pytest.mark.parametrize("column, number, verdict", [
    ("instructions", 10500, ""), ("instructions", 10501, "fault"), ("instructions", 9499, "gain"),
    ("stack", 4201, "fault"), ("registers", 211, "fault"), ("spills", 64, ""), ("spills", 65, "fault")])
def test_growth_by_a_twentieth_fails_and_shrinking_is_said(column, number, verdict):
    faults, gains = resources.compare({"step": ROW}, {"step": {**ROW, column: number}})
    line = f"step: {number} {column}, {ROW[column]} in the table"
    assert faults == ([line] if verdict == "fault" else [])
    assert gains == ([line] if verdict == "gain" else [])


def test_kernels_that_appear_or_vanish_fail():
    faults, gains = resources.compare({"old": ROW, "kept": ROW}, {"kept": ROW, "new": ROW})
    assert faults == ["new is not in the table", "old is in the table, but no longer compiled"] and not gains


def test_the_table_reads_back_what_it_writes():
    rows = {"single: Act<float, LaneDense>": ROW, "single: all functions": {**ROW, "stack": 7488}}
    assert resources.from_text(resources.as_text(rows, resources.HEADER.format(nvcc="13.0", code="0"))) == rows
    kept = resources.from_text(resources.TABLE.read_text())
    assert {"single: all functions", "double: all functions", "learning: all functions"} <= kept.keys()
    assert {"single: step_by_teams<float>", "single: step_batch<float>", "double: step_batch<double>"} <= kept.keys()


PTXAS = """\
ptxas info    : Function properties for _Z4stepf
    5344 bytes stack frame, 116 bytes spill stores, 120 bytes spill loads
ptxas info    : Compiling entry function '_Z3runPf' for 'sm_90'
ptxas info    : Function properties for _Z3runPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 24 registers, used 0 barriers
"""
NVLINK = """\
nvlink info    : 24 bytes gmem
nvlink info    : Function properties for '_Z3runPf':
nvlink info    : used 44 registers, used 0 barriers, 5344 stack, 0 bytes smem, 536 bytes cmem[0], 0 bytes lmem
"""
READELF = """\
  [17] .nv.constant0._Z3runPf PROGBITS    0000000000000000 000910 000218 00  AI  0  19  4
  [18] .text._Z4stepf    PROGBITS        0000000000000000 000b80 000800 00  AX  3  12 128
"""


def test_reports_of_the_tools_are_read():
    assert resources.spills(PTXAS) == {"_Z4stepf": 236, "_Z3runPf": 0}
    assert resources.linked_resources(NVLINK) == {"_Z3runPf": {"registers": 44, "stack": 5344}}
    assert resources.instructions(READELF) == {"_Z4stepf": 128}


STRING = "RKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"


@pytest.mark.parametrize("symbol, name", [
    ("_ZN6Kokkos4Impl9run_rangeIZN7maniple13for_each_itemIZNS2_13for_each_packIfZNS2_10step_batchIfEEvRKNS2_"
     "12PhysicsBatchIT_EEiiEUlliiE_EEv" + STRING + "liRKT0_EUlliE_EEvSJ_liRKS7_EUliE_EEvS7_ll", "step_batch<float>"),
    ("_ZN6Kokkos4Impl17run_bounded_teamsILj32ELj8EZN7maniple21for_each_item_by_teamIfZNS2_13step_by_teamsIfEEvRKNS2_"
     "12PhysicsBatchIT_EEiiiEUlRKNS2_4TeamIfEEPfliE_EEv" + STRING + "liRKT0_EUlRKNS_14CudaTeamMemberEE_EEvT1_",
     "step_by_teams<float>"),
    ("_ZN6Kokkos4Impl9run_teamsIZN7maniple9for_tilesINS2_3ActIfNS2_9LaneDenseEEEEEv" + STRING +
     "liRKT_EUlRKNS_14CudaTeamMemberEE_EEvSD_", "Act<float, LaneDense>"),
    ("_ZN6Kokkos4Impl9run_rangeIZN7maniple12_GLOBAL__N_16repeatEPKfiEUllE_EEvT_ll", "repeat"),
    ("_ZN6Kokkos4Impl9run_rangeIZN48_INTERNAL_fccf9bf3_12_learning_cpp_f53dd38f_12347maniple6repeatEPKfiEUllE_EEvT_ll",
     "repeat")])
def test_kernels_are_named_after_what_they_run(symbol, name):
    assert resources.short_name(symbol) == name


def test_the_table_is_of_code_without_its_comments(tmp_path):
    (tmp_path / "tests/device").mkdir(parents=True)
    (tmp_path / "build").mkdir()
    flags, other, kernel = tmp_path / "tests/device/CMakeLists.txt", tmp_path / "CMakeLists.txt", tmp_path / "kernel.hpp"
    flags.write_text("set(flags -O3)\n")
    other.write_text("project(maniple)\n")
    (tmp_path / "build/step.files").write_text(f"step.o: \\\n  /usr/include/stdio.h \\\n  {kernel}\n")

    def digest(code):
        kernel.write_text(code)
        return resources.code_digest(tmp_path / "build", tmp_path)

    before = digest("int a = 1;\n")
    assert digest("// one\n\nint a = 1;\n") == before
    assert digest("int a = 2;\n") != before
    assert digest("int a = 1;\n") == before
    flags.write_text("set(flags -O2)\n")
    assert digest("int a = 1;\n") != before
