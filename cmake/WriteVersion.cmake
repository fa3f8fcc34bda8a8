# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Called by the target lockstep_version. Leaves the file unchanged if its content would be the same.
set(LOCKSTEP_GIT_HASH unknown)
if(GIT) # unless the sources lie inside another repository
  execute_process(COMMAND ${GIT} rev-parse --show-prefix
    WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE prefix OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(GIT AND "${prefix}" STREQUAL "")
  execute_process(COMMAND ${GIT} describe --always --dirty --abbrev=12 --exclude=*
    WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE hash OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE result)
  if(result EQUAL 0)
    set(LOCKSTEP_GIT_HASH ${hash})
  endif()
endif()
configure_file(${SOURCE}/cmake/version.cpp.in ${OUTPUT} @ONLY)
