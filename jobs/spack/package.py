# The recipe of Maniple for Spack: put it into packages/maniple/package.py of a repository of recipes of your own
# (`spack repo create`), and `spack install maniple`, or `spack install maniple +cuda cuda_arch=90`.
# jobs/README.md says what was tried.
from spack_repo.builtin.build_systems.cmake import CMakePackage
from spack_repo.builtin.build_systems.cuda import CudaPackage

from spack.package import *


class Maniple(CMakePackage, CudaPackage):
    """Batched robot simulation with MuJoCo's semantics, and policy training, as an MPI program."""

    license("Apache-2.0")

    # a checkout, as long as there is no release: `spack develop maniple@main` or `spack dev-build maniple@main`
    version("main")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("mpi")
    depends_on("hdf5+mpi")
    depends_on("kokkos@3.4:5+serial")
    depends_on("kokkos+cuda+cuda_constexpr", when="+cuda")
    for _arch in CudaPackage.cuda_arch_values:
        depends_on(f"kokkos+cuda cuda_arch={_arch}", when=f"+cuda cuda_arch={_arch}")
    depends_on("nccl", when="+cuda")
    depends_on("yaml-cpp")
    depends_on("cli11")
    depends_on("spdlog")
    depends_on("openblas threads=pthreads")
    depends_on("openssl")
    depends_on("zlib-api")
    # MuJoCo's library comes with its Python package
    depends_on("python@3.11:", type="build")
    depends_on("py-pip", type="build")

    generator("ninja")

    @property
    def mujoco_directory(self):
        return join_path(self.stage.path, "mujoco-wheel")

    @run_before("cmake")
    def bring_mujoco(self):
        python("-m", "pip", "install", "--no-deps", f"--target={self.mujoco_directory}", "mujoco==3.17.0")

    def cmake_args(self):
        arguments = [
            self.define("MANIPLE_MUJOCO_DIR", join_path(self.mujoco_directory, "mujoco")),
            self.define("MANIPLE_PYTHON_PACKAGE", "OFF"),
            self.define("MANIPLE_TESTS", "OFF"),
        ]
        if "+cuda" in self.spec:
            # Kokkos' launcher hands nvcc what has kernels
            arguments.append(self.define("CMAKE_CXX_COMPILER", "g++"))
        return arguments
