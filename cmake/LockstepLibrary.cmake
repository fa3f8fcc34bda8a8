# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# lockstep_library(<folder> [COLD] [SOURCES …] [KERNELS …] [USES …] [PRIVATE_USES …]): makes the target lockstep_<folder>,
# with the alias Lockstep::<folder>. USES appear in its headers, PRIVATE_USES only in its sources. COLD: no step waits for
# its code, which is compiled quickly instead of optimized. KERNELS are sources that compute. Each is compiled alone: code
# before a kernel in the same translation unit could change how the compiler rounds its sums, hence the last bits of
# results. Those of gelu, for example, depend on which products are fused with sums (GCC fuses unless -ffp-contract=off),
# which may depend on inlining. The target's property LOCKSTEP_KERNELS has the names of these sources.

include(CheckCXXCompilerFlag)
add_library(lockstep_flags INTERFACE)
target_compile_features(lockstep_flags INTERFACE cxx_std_20)
target_compile_options(lockstep_flags INTERFACE
  $<BUILD_INTERFACE:$<$<COMPILE_LANG_AND_ID:CXX,GNU,Clang>:-Wall -Wextra -Wno-unknown-pragmas -Wno-missing-field-initializers>>)
if(Kokkos_ENABLE_CUDA) # nvcc cannot evaluate fmt's consteval format strings
  target_compile_definitions(lockstep_flags INTERFACE FMT_USE_CONSTEXPR=1)
endif()
# (On POWER, compilers call the option -mcpu.)
if(LOCKSTEP_MARCH)
  foreach(option IN ITEMS march mcpu)
    string(MAKE_C_IDENTIFIER "LOCKSTEP_TAKES_${option}_${LOCKSTEP_MARCH}" taken)
    check_cxx_compiler_flag(-${option}=${LOCKSTEP_MARCH} ${taken})
    if(${taken})
      target_compile_options(lockstep_flags INTERFACE $<BUILD_INTERFACE:-${option}=${LOCKSTEP_MARCH}>)
      break()
    endif()
  endforeach()
  if(NOT ${taken})
    message(FATAL_ERROR "LOCKSTEP_MARCH is ${LOCKSTEP_MARCH}, but ${CMAKE_CXX_COMPILER} accepts neither -march=${LOCKSTEP_MARCH} nor -mcpu=${LOCKSTEP_MARCH}; "
      "name a CPU that it supports, or leave LOCKSTEP_MARCH empty for its default.")
  endif()
endif()
if(LOCKSTEP_FUZZ)
  target_compile_options(lockstep_flags INTERFACE -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined)
  target_link_options(lockstep_flags INTERFACE -fsanitize=address,undefined)
endif()

# Several files of a target are compiled as one, so that headers that nearly all of them include (Kokkos, fmt) are read
# once (perf/results/build.md). Therefore names outside of classes must differ within a target. OFF: each file alone, which
# is faster while one file is changed repeatedly.
option(LOCKSTEP_UNITY_BUILD "Compile several files as one" ON)
set(CMAKE_UNITY_BUILD ${LOCKSTEP_UNITY_BUILD})
set(CMAKE_UNITY_BUILD_BATCH_SIZE 12)

# The headers that nearly all files include are compiled once for each set of flags (perf/results/build.md). This is for an
# empty compiler cache (.ci/run): a cache finds nothing of it in another folder.
option(LOCKSTEP_PRECOMPILE_HEADERS "Compile common headers once" OFF)
set(lockstep_common_headers <Kokkos_Core.hpp> <fmt/format.h> <algorithm> <array> <chrono> <cmath> <filesystem> <functional> <map>
  <memory> <mutex> <numeric> <optional> <span> <string> <thread> <utility> <variant> <vector>)

# lockstep_precompile(<target> <flags> [HEADERS …]): precompiles common headers, and HEADERS, for the first target that is
# compiled with flags of this name; the others take them from there.
function(lockstep_precompile target flags)
  if(NOT LOCKSTEP_PRECOMPILE_HEADERS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "HEADERS")
  get_property(first GLOBAL PROPERTY LOCKSTEP_PRECOMPILED_${flags})
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    target_precompile_headers(${target} PRIVATE ${lockstep_common_headers} ${arg_HEADERS})
    set_property(GLOBAL PROPERTY LOCKSTEP_PRECOMPILED_${flags} ${target})
  endif()
  target_compile_options(${target} PRIVATE $<BUILD_INTERFACE:$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>>)  # for ccache
endfunction()

set_property(GLOBAL PROPERTY LOCKSTEP_TARGETS lockstep_flags)

function(lockstep_library folder)
  cmake_parse_arguments(PARSE_ARGV 1 arg "COLD" "" "SOURCES;KERNELS;USES;PRIVATE_USES")
  set(target lockstep_${folder})
  add_library(${target} STATIC ${arg_SOURCES} ${arg_KERNELS})
  set_source_files_properties(${arg_KERNELS} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  add_library(Lockstep::${folder} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${folder} POSITION_INDEPENDENT_CODE ON LOCKSTEP_KERNELS "${arg_KERNELS}")
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/lib> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${target} PUBLIC lockstep_flags ${arg_USES} PRIVATE ${arg_PRIVATE_USES})
  if(arg_COLD)
    lockstep_compile_quickly(${target})
  endif()
  if(arg_COLD AND NOT folder STREQUAL config)
    lockstep_precompile(${target} cold)
  elseif(folder STREQUAL ops)
    lockstep_precompile(${target} kernels)
  elseif(NOT folder MATCHES "^(base|config)$")  # which do not know Kokkos
    lockstep_precompile(${target} library)
  endif()
  set_property(GLOBAL APPEND PROPERTY LOCKSTEP_TARGETS ${target})
endfunction()

# Compiles a target with -O1, except with nvcc_wrapper, which warns of a second -O.
function(lockstep_compile_quickly target)
  if(NOT Kokkos_ENABLE_CUDA)
    target_compile_options(${target} PRIVATE $<BUILD_INTERFACE:$<$<AND:$<CONFIG:Release>,$<COMPILE_LANG_AND_ID:CXX,GNU,Clang>>:-O1>>)
  endif()
endfunction()

# lockstep_require_listed_sources(): stops if a library's folder has a .cpp that no target compiles; otherwise, the linker
# would complain of a missing symbol. In a folder with a missing.cpp (a provider that a build may lack), either that file
# or the others are listed.
function(lockstep_require_listed_sources)
  get_property(targets GLOBAL PROPERTY LOCKSTEP_TARGETS)
  list(REMOVE_ITEM targets lockstep_flags)
  foreach(target IN LISTS targets)
    get_target_property(folder ${target} SOURCE_DIR)
    get_target_property(listed ${target} SOURCES)
    list(TRANSFORM listed REPLACE "^\\$<.*:(.+)>$" "\\1") # generator expressions of files that only some builds compile
    list(TRANSFORM listed REPLACE "^([^/].*)$" "${folder}/\\1")
    file(GLOB_RECURSE found CONFIGURE_DEPENDS ${folder}/*.cpp)
    foreach(source IN LISTS found)
      cmake_path(GET source PARENT_PATH source_folder)
      if(NOT source IN_LIST listed AND NOT EXISTS ${source_folder}/missing.cpp)
        file(RELATIVE_PATH name ${folder} ${source})
        file(RELATIVE_PATH list ${PROJECT_SOURCE_DIR} ${folder}/CMakeLists.txt)
        message(SEND_ERROR "${source} is not compiled by any target; add ${name} to SOURCES or KERNELS in ${list}, or remove the file")
      endif()
    endforeach()
  endforeach()
endfunction()
