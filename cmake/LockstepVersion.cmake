# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# What this build is, for `lockstep info`, checkpoints and summaries. The git hash is read at
# configure time; a tree without git says "unknown".
find_package(Git QUIET)
set(LOCKSTEP_GIT_HASH unknown)
if(Git_FOUND)
  execute_process(COMMAND ${GIT_EXECUTABLE} describe --always --dirty --abbrev=12 --exclude=*
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE git_hash OUTPUT_STRIP_TRAILING_WHITESPACE
    ERROR_QUIET RESULT_VARIABLE git_result)
  if(git_result EQUAL 0)
    set(LOCKSTEP_GIT_HASH ${git_hash})
  endif()
endif()
configure_file(${PROJECT_SOURCE_DIR}/cmake/version.cpp.in ${PROJECT_BINARY_DIR}/generated/version.cpp @ONLY)
