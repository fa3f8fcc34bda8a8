# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Finds the dependencies of the libraries; docs/developer/dependencies.md says why each is needed. This file is installed beside
# LockstepConfig.cmake, which includes it, so that a program that links Lockstep finds the same ones. A missing dependency sets
# Lockstep_FOUND to OFF, which must be checked after including this file.
include(CMakeFindDependencyMacro)

# lockstep_is_not_found(<why> <what to do>) ends this file, as find_dependency does.
macro(lockstep_is_not_found problem advice)
  set(Lockstep_FOUND OFF)
  set(Lockstep_NOT_FOUND_MESSAGE "${problem}; ${advice}")
  return()
endmacro()

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  lockstep_is_not_found("${CMAKE_CXX_COMPILER} is GCC ${CMAKE_CXX_COMPILER_VERSION}, but Lockstep is C++20 and needs GCC 12 or newer"
    "name another compiler with the environment variable CXX or with -DCMAKE_CXX_COMPILER, in an empty build folder.")
endif()

# The versions are the oldest supported ones. scripts/toolchain/native reads these lines.
find_dependency(Kokkos 4.5)
if(LOCKSTEP_BACKEND AND NOT LOCKSTEP_BACKEND IN_LIST Kokkos_DEVICES)
  lockstep_is_not_found("The Kokkos in ${Kokkos_DIR} is built for ${Kokkos_DEVICES}, not ${LOCKSTEP_BACKEND}"
    "name another one with Kokkos_ROOT, or choose another preset.")
endif()
find_dependency(MPI COMPONENTS C)
# FindHDF5 stops where the library is not called hdf5 (Debian's HDF5 2: hdf5_openmpi), unless it is told the place.
find_library(LOCKSTEP_HDF5_LIBRARY NAMES hdf5 hdf5_openmpi hdf5_mpich)
mark_as_advanced(LOCKSTEP_HDF5_LIBRARY)
if(LOCKSTEP_HDF5_LIBRARY AND NOT DEFINED HDF5_hdf5_LIBRARY)
  set(HDF5_hdf5_LIBRARY "${LOCKSTEP_HDF5_LIBRARY}")
endif()
find_dependency(HDF5 1.10.7 COMPONENTS C)
find_dependency(yaml-cpp 0.7)
find_dependency(fmt 8)
find_dependency(spdlog 1.9)
find_dependency(nlohmann_json 3.10)
find_dependency(ZLIB)
find_dependency(Threads)

# xxHash has a CMake file only if it was built by CMake.
find_package(xxHash QUIET CONFIG)
if(NOT TARGET xxHash::xxhash)
  find_path(XXHASH_INCLUDE_DIR xxhash.h)
  find_library(XXHASH_LIBRARY xxhash)
  if(NOT XXHASH_INCLUDE_DIR OR NOT XXHASH_LIBRARY)
    lockstep_is_not_found("xxhash.h (${XXHASH_INCLUDE_DIR}) or libxxhash (${XXHASH_LIBRARY}) was not found"
      "add their folders to CMAKE_PREFIX_PATH.")
  endif()
  add_library(xxHash::xxhash UNKNOWN IMPORTED)
  set_target_properties(xxHash::xxhash PROPERTIES
    IMPORTED_LOCATION "${XXHASH_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${XXHASH_INCLUDE_DIR}")
endif()
if(NOT TARGET yaml-cpp::yaml-cpp) # 0.7
  add_library(yaml-cpp::yaml-cpp ALIAS yaml-cpp)
endif()

# A parallel HDF5 also needs MPI; the target hides the difference between its builds.
if(NOT TARGET Lockstep::hdf5)
  add_library(Lockstep::hdf5 INTERFACE IMPORTED)
  set_target_properties(Lockstep::hdf5 PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${HDF5_C_INCLUDE_DIRS}"
    INTERFACE_COMPILE_DEFINITIONS "${HDF5_C_DEFINITIONS}")
  target_link_libraries(Lockstep::hdf5 INTERFACE ${HDF5_C_LIBRARIES})
  if(HDF5_IS_PARALLEL)
    target_link_libraries(Lockstep::hdf5 INTERFACE MPI::MPI_C)
  endif()
endif()

# Providers: ON requires one, AUTO takes it if it is found. Kokkos Kernels is searched without a version, since Debian's
# has the number of Trilinos. oneDNN computes on CPUs only.
set(lockstep_has_device OFF)
foreach(device IN ITEMS CUDA HIP SYCL)
  if(device IN_LIST Kokkos_DEVICES)
    set(lockstep_has_device ON)
  endif()
endforeach()

set(LOCKSTEP_WITH_ONEDNN OFF)
if(LOCKSTEP_ENABLE_ONEDNN STREQUAL "ON" AND lockstep_has_device)
  lockstep_is_not_found("LOCKSTEP_ENABLE_ONEDNN is ON, but oneDNN runs on CPUs and this Kokkos (${Kokkos_DEVICES}) on a device"
    "set it to AUTO, or use another Kokkos.")
endif()
if(LOCKSTEP_ENABLE_ONEDNN STREQUAL "ON")
  find_dependency(dnnl 3)
elseif(LOCKSTEP_ENABLE_ONEDNN STREQUAL "AUTO" AND NOT lockstep_has_device)
  find_package(dnnl 3 QUIET)
endif()
if(TARGET DNNL::dnnl AND NOT LOCKSTEP_ENABLE_ONEDNN STREQUAL "OFF")
  set(LOCKSTEP_WITH_ONEDNN ON)
endif()

set(LOCKSTEP_WITH_KOKKOS_KERNELS OFF)
if(LOCKSTEP_ENABLE_KOKKOS_KERNELS STREQUAL "ON")
  find_dependency(KokkosKernels)
elseif(LOCKSTEP_ENABLE_KOKKOS_KERNELS STREQUAL "AUTO")
  find_package(KokkosKernels QUIET)
endif()
foreach(candidate IN ITEMS Kokkos::kokkoskernels KokkosKernels::all_libs)
  if(TARGET ${candidate} AND NOT LOCKSTEP_WITH_KOKKOS_KERNELS AND NOT LOCKSTEP_ENABLE_KOKKOS_KERNELS STREQUAL "OFF")
    set(LOCKSTEP_WITH_KOKKOS_KERNELS ON)
    set(LOCKSTEP_KOKKOS_KERNELS_TARGET ${candidate})
  endif()
endforeach()

# cuBLASLt comes with CUDA; hipBLASLt is taken if it is found.
set(LOCKSTEP_WITH_BLASLT OFF)
if("CUDA" IN_LIST Kokkos_DEVICES)
  find_dependency(CUDAToolkit)
  set(LOCKSTEP_WITH_BLASLT ON)
  set(LOCKSTEP_BLASLT_TARGETS CUDA::cublasLt)
elseif("HIP" IN_LIST Kokkos_DEVICES)
  find_package(hipblas QUIET)
  find_package(hipblaslt QUIET)
  if(TARGET roc::hipblaslt AND TARGET roc::hipblas)
    set(LOCKSTEP_WITH_BLASLT ON)
    set(LOCKSTEP_BLASLT_TARGETS roc::hipblaslt roc::hipblas)
  endif()
endif()

# Not all packages of cuDNN and of its front end (headers only) have a CMake file. Without a device they serve a test, which plans
# what a device would run (LOCKSTEP_ENABLE_CUDNN=ON; docs/developer/devices.md).
set(LOCKSTEP_WITH_CUDNN OFF)
if(LOCKSTEP_ENABLE_CUDNN STREQUAL "ON" OR (LOCKSTEP_ENABLE_CUDNN STREQUAL "AUTO" AND "CUDA" IN_LIST Kokkos_DEVICES))
  find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_path(CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h)
  find_path(CUDART_INCLUDE_DIR cuda_runtime_api.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${CUDAToolkit_LIBRARY_DIR})
  if(CUDNN_INCLUDE_DIR AND CUDNN_FRONTEND_INCLUDE_DIR AND CUDART_INCLUDE_DIR AND CUDNN_LIBRARY)
    set(LOCKSTEP_WITH_CUDNN ON)
    if(NOT TARGET Lockstep::cudnn)
      add_library(Lockstep::cudnn INTERFACE IMPORTED)
      set_target_properties(Lockstep::cudnn PROPERTIES
        INTERFACE_INCLUDE_DIRECTORIES "${CUDNN_INCLUDE_DIR};${CUDNN_FRONTEND_INCLUDE_DIR};${CUDART_INCLUDE_DIR}"
        INTERFACE_COMPILE_DEFINITIONS NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
        INTERFACE_LINK_LIBRARIES "${CUDNN_LIBRARY};${CMAKE_DL_LIBS}")
    endif()
  elseif(LOCKSTEP_ENABLE_CUDNN STREQUAL "ON")
    string(CONCAT wanted "cudnn.h (${CUDNN_INCLUDE_DIR}), cudnn_frontend.h (${CUDNN_FRONTEND_INCLUDE_DIR}), "
      "cuda_runtime_api.h (${CUDART_INCLUDE_DIR}) and libcudnn (${CUDNN_LIBRARY})")
    lockstep_is_not_found("LOCKSTEP_ENABLE_CUDNN is ON, but some of ${wanted} were not found"
      "add their folders to CMAKE_PREFIX_PATH.")
  endif()
endif()

set(LOCKSTEP_WITH_MIOPEN OFF)
if(LOCKSTEP_ENABLE_MIOPEN STREQUAL "ON" AND NOT "HIP" IN_LIST Kokkos_DEVICES)
  lockstep_is_not_found("LOCKSTEP_ENABLE_MIOPEN is ON, but MIOpen runs on AMD GPUs and this Kokkos is built for ${Kokkos_DEVICES}"
    "set it to AUTO, or use a Kokkos with HIP.")
endif()
if(LOCKSTEP_ENABLE_MIOPEN STREQUAL "ON")
  find_dependency(miopen)
elseif(LOCKSTEP_ENABLE_MIOPEN STREQUAL "AUTO" AND "HIP" IN_LIST Kokkos_DEVICES)
  find_package(miopen QUIET)
endif()
if(TARGET MIOpen AND NOT LOCKSTEP_ENABLE_MIOPEN STREQUAL "OFF")
  set(LOCKSTEP_WITH_MIOPEN ON)
endif()

# NCCL, which has no CMake file, and RCCL, its counterpart for AMD's devices.
set(LOCKSTEP_WITH_NCCL OFF)
if(LOCKSTEP_ENABLE_NCCL STREQUAL "ON" AND NOT "CUDA" IN_LIST Kokkos_DEVICES AND NOT "HIP" IN_LIST Kokkos_DEVICES)
  lockstep_is_not_found("LOCKSTEP_ENABLE_NCCL is ON, but NCCL and RCCL run between GPUs and this Kokkos is built for ${Kokkos_DEVICES}"
    "set it to AUTO, or use a Kokkos with CUDA or HIP.")
endif()
if(NOT LOCKSTEP_ENABLE_NCCL STREQUAL "OFF" AND "CUDA" IN_LIST Kokkos_DEVICES)
  find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${CUDAToolkit_LIBRARY_DIR})
  if(NCCL_INCLUDE_DIR AND NCCL_LIBRARY)
    set(LOCKSTEP_WITH_NCCL ON)
    if(NOT TARGET Lockstep::nccl)
      add_library(Lockstep::nccl INTERFACE IMPORTED)
      set_target_properties(Lockstep::nccl PROPERTIES
        INTERFACE_INCLUDE_DIRECTORIES "${NCCL_INCLUDE_DIR}" INTERFACE_LINK_LIBRARIES "${NCCL_LIBRARY}")
    endif()
  elseif(LOCKSTEP_ENABLE_NCCL STREQUAL "ON")
    lockstep_is_not_found("LOCKSTEP_ENABLE_NCCL is ON, but nccl.h (${NCCL_INCLUDE_DIR}) or libnccl (${NCCL_LIBRARY}) was not found"
      "add their folders to CMAKE_PREFIX_PATH.")
  endif()
elseif(NOT LOCKSTEP_ENABLE_NCCL STREQUAL "OFF" AND "HIP" IN_LIST Kokkos_DEVICES)
  if(LOCKSTEP_ENABLE_NCCL STREQUAL "ON")
    find_dependency(rccl)
  else()
    find_package(rccl QUIET)
  endif()
  if(TARGET roc::rccl)
    set(LOCKSTEP_WITH_NCCL ON)
    if(NOT TARGET Lockstep::nccl)
      add_library(Lockstep::nccl INTERFACE IMPORTED)
      set_target_properties(Lockstep::nccl PROPERTIES INTERFACE_LINK_LIBRARIES roc::rccl)
    endif()
  endif()
endif()
