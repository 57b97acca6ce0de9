"""The CUDA runtime without a device detects the faults of programs: each fault ends a small program, or is an error of
CUDA's, and the same program without the fault runs."""
# ctest: PROCESSORS 1

import json
import os
import shutil
import subprocess

import pytest
from conftest import BUILD

LIBRARY = BUILD / "libmaniple_fake_device.so"
SOURCE = r"""
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
__global__ void set(int* x) { x[threadIdx.x] = 3; }
int main(int, char** arguments) {
  const std::string fault = arguments[1];
  int *device = nullptr, *pinned = nullptr, host[64] = {};
  cudaMallocHost(&pinned, 256);
  for (int i = 0; i < 64; ++i) pinned[i] = i;
  const cudaError_t code = cudaMalloc(&device, fault == "memory" ? size_t{1} << 20 : 256);
  if (code != cudaSuccess) return std::printf("%s\n", cudaGetErrorString(code)), 3;
  cudaMemcpy(device, pinned, 256, cudaMemcpyHostToDevice);
  if (fault == "kind") cudaMemcpy(host, device, 256, cudaMemcpyHostToDevice);
  if (fault == "beyond") cudaMemcpy(host, device + 1, 256, cudaMemcpyDeviceToHost);
  if (fault == "write") device[3] = 1;
  if (fault == "read") return device[3];
  if (fault == "threads") set<<<1, 2048>>>(device);
  if (fault == "empty") set<<<0, 32>>>(device);
  if (fault == "shared") set<<<1, 32, 100000>>>(device);
  set<<<1, 32>>>(device);
  if (cudaGetLastError() != cudaSuccess) return 4;
  cudaMemcpy(host, device, 256, cudaMemcpyDeviceToHost);
  cudaFree(device);
  if (fault == "twice") cudaFree(device);
  cudaFreeHost(pinned);
  return std::memcmp(host + 1, "\1\0\0\0\2", 5) == 0 ? 0 : 5;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("program")
    (folder / "program.cu").write_text(SOURCE)
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    subprocess.run([nvcc, "-ccbin", "g++", "-arch=sm_90", "-cudart", "shared", "program.cu", "-o", "program"],
                   cwd=folder, check=True)

    def run(fault, **settings):
        report = folder / f"report_{fault}"
        environment = {**os.environ, "LD_PRELOAD": str(LIBRARY), "FAKE_DEVICE_REPORT": str(report), **settings}
        result = subprocess.run([folder / "program", fault], env=environment, capture_output=True, text=True)
        reports = [json.loads(path.read_text()) for path in folder.glob(f"report_{fault}.*")]
        return result, reports
    return run


def test_what_is_right_runs_and_is_counted(program):
    result, (report,) = program("none")
    assert result.returncode == 0, result.stderr
    assert report["most_bytes"] == 256
    assert list(report["launches"].values()) == [1]
    assert report["calls"]["copy host to device"] == {"count": 1, "bytes": 256}
    assert report["calls"]["copy device to host, pageable"] == {"count": 1, "bytes": 256}


@pytest.mark.parametrize("fault, says", [
    ("read", "the host touched memory of the device"),
    ("write", "the host touched memory of the device"),
    ("kind", "a copy whose kind says something else"),
    ("beyond", "the source of a copy of 256 B reaches beyond what is allocated"),
    ("threads", "a launch of more threads"),
    ("empty", "an empty launch"),
    ("shared", "a launch with more shared memory than was asked for"),
    ("twice", "memory was given back that is not allocated"),
])
def test_what_is_wrong_ends_the_program(program, fault, says):
    result, _ = program(fault)
    assert result.returncode == 134 and f"fake device: {says}" in result.stderr, result.stderr


def test_memory_has_an_end(program):
    result, _ = program("memory", FAKE_DEVICE_MEMORY="1000000")
    assert (result.returncode, result.stdout) == (3, "out of memory\n")
    assert program("memory", FAKE_DEVICE_MEMORY="2000000")[0].returncode == 0


def test_kernels_for_another_device_do_not_start(program):
    assert program("none", FAKE_DEVICE_CAPABILITY="8.0")[0].returncode == 4
