# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Describes this build for `lockstep info`, checkpoints and summaries: version.cpp is made at build time, so that its git
# hash is that of the compiled sources. Without git, the hash is "unknown".
find_package(Git QUIET)
set(LOCKSTEP_VERSION_SOURCE ${PROJECT_BINARY_DIR}/generated/version.cpp)
add_custom_target(lockstep_version
  COMMAND ${CMAKE_COMMAND} -D "GIT=${GIT_EXECUTABLE}" -D "SOURCE=${PROJECT_SOURCE_DIR}" -D "OUTPUT=${LOCKSTEP_VERSION_SOURCE}"
    -D "PROJECT_VERSION=${PROJECT_VERSION}" -D "COMPILER=${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}"
    -D "BUILD_TYPE=${CMAKE_BUILD_TYPE}" -D "SPACK_HASH=${LOCKSTEP_SPACK_HASH}" -P ${PROJECT_SOURCE_DIR}/cmake/WriteVersion.cmake
  BYPRODUCTS ${LOCKSTEP_VERSION_SOURCE}
  COMMENT "" VERBATIM)
