# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from spack_repo.builtin.build_systems.generic import Package

from spack.package import *


class CudnnFrontend(Package):
    """C++ headers over cuDNN's graph interface. Here because Spack's own packages lack it."""

    homepage = "https://github.com/NVIDIA/cudnn-frontend"
    git = "https://github.com/NVIDIA/cudnn-frontend.git"

    license("MIT")

    version("1.23.0", tag="v1.23.0", commit="fb682ce761a2705e40f9b5d528737a3e0eb33cec")

    depends_on("cudnn@9.8:", type="run")

    def install(self, spec, prefix):
        install_tree("include", prefix.include)
