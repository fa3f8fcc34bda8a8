# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The large products and the libraries that compute them. A provider that this build lacks is another
# source file (missing.cpp), not a branch.
target_sources(lockstep_ops PRIVATE
  bias.cpp gemm_products.cpp im2col.cpp library_threads.cpp provider.cpp widened_products.cpp portable/attention.cpp portable/gemm.cpp portable/provider.cpp
  portable/window_gradient.cpp)
target_link_libraries(lockstep_ops PRIVATE ${CMAKE_DL_LIBS})

if(LOCKSTEP_WITH_KOKKOS_KERNELS)
  target_sources(lockstep_ops PRIVATE
    kokkos_kernels/gemm.cpp kokkos_kernels/provider.cpp)
  target_link_libraries(lockstep_ops PRIVATE ${LOCKSTEP_KOKKOS_KERNELS_TARGET})
else()
  target_sources(lockstep_ops PRIVATE kokkos_kernels/missing.cpp)
endif()

if(LOCKSTEP_WITH_ONEDNN)
  target_sources(lockstep_ops PRIVATE
    onednn/call.cpp onednn/convolution.cpp onednn/gemm.cpp onednn/inner_product.cpp onednn/provider.cpp)
  target_link_libraries(lockstep_ops PRIVATE DNNL::dnnl)
else()
  target_sources(lockstep_ops PRIVATE onednn/missing.cpp)
endif()

if(LOCKSTEP_WITH_CUBLASLT)
  target_sources(lockstep_ops PRIVATE cuda/cublaslt.cpp)
  target_link_libraries(lockstep_ops PRIVATE CUDA::cublasLt)
else()
  target_sources(lockstep_ops PRIVATE cuda/missing.cpp)
endif()

# cudnn_graph.cpp has no kernel; a test compiles it where there is cuDNN and no device.
if(LOCKSTEP_WITH_CUBLASLT AND LOCKSTEP_WITH_CUDNN)
  target_sources(lockstep_ops PRIVATE cuda/cudnn_attention.cpp cuda/cudnn_convolution.cpp cuda/cudnn_graph.cpp cuda/cudnn_provider.cpp)
  target_link_libraries(lockstep_ops PRIVATE lockstep_cudnn)
else()
  target_sources(lockstep_ops PRIVATE cuda/missing_cudnn.cpp)
endif()
