# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
import os

from spack_repo.builtin.build_systems.cmake import CMakePackage, generator
from spack_repo.builtin.build_systems.cuda import CudaPackage
from spack_repo.builtin.build_systems.rocm import ROCmPackage

from spack.package import *


class Lockstep(CMakePackage, CudaPackage, ROCmPackage):
    """Trains neural networks by synchronous data parallelism: a YAML deck in, HDF5 data in,
    every core and accelerator in step, through MPI and Kokkos."""

    license("Apache-2.0 WITH LLVM-exception")

    # From a source tree, by `develop` (spack.yaml).
    version("main")

    variant("openmp", default=False, description="Threads inside a rank (Kokkos' OpenMP)")
    variant(
        "onednn",
        default=True,
        when="~cuda~rocm",
        description="Products and convolutions by oneDNN, on CPUs",
    )
    variant("kokkos_kernels", default=True, description="Matrix products by Kokkos Kernels")

    variant(
        "cudnn",
        default=True,
        when="+cuda",
        description="Convolutions and attention by cuDNN",
    )
    variant("miopen", default=True, when="+rocm", description="Convolutions by MIOpen")
    variant("nccl", default=True, when="+cuda", description="Sums between devices by NCCL")
    variant("rccl", default=True, when="+rocm", description="Sums between devices by RCCL")

    generator("ninja")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("pkgconfig", type="build")

    depends_on("mpi")
    depends_on("hdf5@1.10.7:")
    depends_on("yaml-cpp@0.7:")
    depends_on("cli11@2.1:")
    depends_on("fmt@8:")
    depends_on("spdlog@1.9:")
    depends_on("nlohmann-json@3.10:")
    depends_on("xxhash@0.8:")
    depends_on("zlib-api")
    depends_on("onednn@3:", when="+onednn")
    depends_on("googletest@1.12: +gmock", type="test")
    depends_on("python", type="test")
    depends_on("py-numpy", type="test")
    depends_on("py-h5py", type="test")
    depends_on("py-jsonschema", type="test")
    depends_on("py-pyyaml", type="test")

    depends_on("kokkos@4.5:5")
    depends_on("kokkos+serial", when="~openmp")
    depends_on("kokkos+openmp", when="+openmp")
    # C++20 is Kokkos 5's default, not Kokkos 4's.
    depends_on("kokkos cxxstd=20", when="^kokkos@4")

    with when("+kokkos_kernels"):
        # Without a BLAS (or its vendor's counterpart) its matrix products are slow.
        depends_on("kokkos-kernels@4.5:5")
        depends_on("kokkos-kernels+blas", when="~cuda~rocm")
        depends_on("kokkos-kernels+cuda+cublas", when="+cuda")
        depends_on("kokkos-kernels+rocblas", when="+rocm")

    with when("+cuda"):
        depends_on("kokkos+cuda")
        # GCC cannot compile CUDA: nvcc_wrapper puts nvcc in front of it.
        depends_on("kokkos+wrapper", when="%cxx=gcc")
        depends_on("kokkos+cuda_lambda", when="^kokkos@4")
        for _arch in CudaPackage.cuda_arch_values:
            depends_on(f"kokkos cuda_arch={_arch}", when=f"cuda_arch={_arch}")
            depends_on(
                f"kokkos-kernels cuda_arch={_arch}", when=f"+kokkos_kernels cuda_arch={_arch}"
            )

    with when("+cudnn"):
        depends_on("cudnn@9.8:")
        depends_on("cudnn-frontend@1.11:")

    depends_on("miopen-hip", when="+miopen")
    depends_on("nccl@2.14:", when="+nccl")
    depends_on("rccl", when="+rccl")

    with when("+rocm"):
        depends_on("kokkos+rocm")
        depends_on("hipblas+rocm")
        depends_on("hipblaslt")
        for _target in ROCmPackage.amdgpu_targets:
            depends_on(f"hipblaslt amdgpu_target={_target}", when=f"amdgpu_target={_target}")
            depends_on(f"kokkos amdgpu_target={_target}", when=f"amdgpu_target={_target}")

    conflicts("+cuda", when="+rocm", msg="Kokkos takes one kind of accelerator a build")
    conflicts("+cuda", when="cuda_arch=none", msg="name the GPU: cuda_arch=90, say")
    conflicts("%gcc@:11", msg="Lockstep is C++20 and needs GCC 12 or newer")

    def cmake_args(self):
        spec = self.spec
        args = [
            self.define("LOCKSTEP_BUILD_TESTS", self.run_tests),
            self.define("LOCKSTEP_ENABLE_ONEDNN", spec.satisfies("+onednn")),
            self.define_from_variant("LOCKSTEP_ENABLE_KOKKOS_KERNELS", "kokkos_kernels"),
            self.define("LOCKSTEP_ENABLE_CUDNN", spec.satisfies("+cudnn")),
            self.define("LOCKSTEP_ENABLE_MIOPEN", spec.satisfies("+miopen")),
            self.define("LOCKSTEP_ENABLE_NCCL", spec.satisfies("+nccl") or spec.satisfies("+rccl")),
            self.define("Kokkos_ROOT", spec["kokkos"].prefix),
            self.define("LOCKSTEP_SPACK_HASH", spec.dag_hash()),
        ]
        if spec.satisfies("+kokkos_kernels"):
            args.append(self.define("KokkosKernels_ROOT", spec["kokkos-kernels"].prefix))
        if spec.satisfies("+rocm"):
            args.append(self.define("CMAKE_CXX_COMPILER", spec["hip"].hipcc))
        elif spec.satisfies("+cuda"):
            args.append(self.define("CMAKE_CXX_COMPILER", self["kokkos"].kokkos_cxx))
        return args

    @property
    def _lockstep(self):
        return Executable(self.prefix.bin.lockstep)

    def test_version(self):
        """the program starts and names its version"""
        out = self._lockstep("--version", output=str, error=str)
        assert "lockstep" in out.lower(), out

    def test_info(self):
        """the program names how it was built"""
        out = self._lockstep("info", output=str, error=str)
        check_outputs(["kokkos", "mpi", "hdf5"], out)

    def test_train(self):
        """the smallest example trains and leaves its curve"""
        deck = join_path(self.prefix.share.lockstep.inputs, "linear_regression.yaml")
        self._lockstep("train", deck, "run.output_dir=run")
        assert os.path.getsize(join_path("run", "metrics.csv")) > 0
