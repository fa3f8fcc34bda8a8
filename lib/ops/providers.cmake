# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The large products and the libraries that compute them. For a provider that this build lacks, another source file
# (missing.cpp) is compiled; there are no branches in the code.
target_sources(lockstep_ops PRIVATE
  products/device_description.cpp products/gemm.cpp products/im2col.cpp products/library_products.cpp products/library_threads.cpp
  products/provider.cpp products/widened_products.cpp portable/provider.cpp)
target_link_libraries(lockstep_ops PRIVATE ${CMAKE_DL_LIBS})

if(LOCKSTEP_WITH_KOKKOS_KERNELS)
  target_sources(lockstep_ops PRIVATE kokkos_kernels/provider.cpp)
  target_link_libraries(lockstep_ops PRIVATE ${LOCKSTEP_KOKKOS_KERNELS_TARGET})
else()
  target_sources(lockstep_ops PRIVATE kokkos_kernels/missing.cpp)
endif()

if(LOCKSTEP_WITH_ONEDNN)
  target_sources(lockstep_ops PRIVATE
    onednn/call.cpp onednn/convolution.cpp onednn/inner_product.cpp onednn/provider.cpp)
  target_link_libraries(lockstep_ops PRIVATE DNNL::dnnl)
else()
  target_sources(lockstep_ops PRIVATE onednn/missing.cpp)
endif()

if(LOCKSTEP_WITH_BLASLT)
  target_sources(lockstep_ops PRIVATE blaslt/provider.cpp)
  target_link_libraries(lockstep_ops PRIVATE ${LOCKSTEP_BLASLT_TARGETS})
else()
  target_sources(lockstep_ops PRIVATE blaslt/missing.cpp)
endif()

# A test also compiles graph.cpp if there is cuDNN but no device.
if(LOCKSTEP_WITH_CUDNN AND lockstep_has_device)
  target_sources(lockstep_ops PRIVATE cudnn/graph.cpp cudnn/provider.cpp cudnn/recurrent.cpp)
  # The names of the cuDNN front end must not mix with ours in a unity build.
  set_source_files_properties(cudnn/graph.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  target_link_libraries(lockstep_ops PRIVATE Lockstep::cudnn)
else()
  target_sources(lockstep_ops PRIVATE cudnn/missing.cpp)
endif()

if(LOCKSTEP_WITH_MIOPEN)
  target_sources(lockstep_ops PRIVATE miopen/provider.cpp)
  target_link_libraries(lockstep_ops PRIVATE MIOpen)
else()
  target_sources(lockstep_ops PRIVATE miopen/missing.cpp)
endif()
