# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
include(CMakePackageConfigHelpers)

get_property(targets GLOBAL PROPERTY LOCKSTEP_TARGETS)
# A build that has made the program alone, as scripts/quickstart's, lacks most libraries: they are made before anything
# is installed.
add_custom_target(installed DEPENDS ${targets} lockstep headers_to_install)
install(CODE "
  execute_process(COMMAND \"${CMAKE_COMMAND}\" --build \"${PROJECT_BINARY_DIR}\" --target installed RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR \"The build is not complete, and nothing was installed: see above, or run cmake --build ${PROJECT_BINARY_DIR}\")
  endif()")
install(TARGETS ${targets} EXPORT LockstepTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS lockstep RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
# The build writes the headers to install, since an installation may run as root, or at the same time as another one.
file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/lib/*.hpp)
set(writer ${PROJECT_SOURCE_DIR}/cmake/WriteHeaders.cmake)
add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/headers_written
  COMMAND ${CMAKE_COMMAND} -DFROM=${PROJECT_SOURCE_DIR}/lib -DTO=${PROJECT_BINARY_DIR}/include -P ${writer}
  COMMAND ${CMAKE_COMMAND} -E touch ${PROJECT_BINARY_DIR}/headers_written
  DEPENDS ${headers} ${writer})
add_custom_target(headers_to_install ALL DEPENDS ${PROJECT_BINARY_DIR}/headers_written)
install(DIRECTORY ${PROJECT_BINARY_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(PROGRAMS scripts/batch/slurm.sh scripts/batch/pbs.sh scripts/batch/flux.sh DESTINATION ${CMAKE_INSTALL_DATADIR}/lockstep/batch)
install(DIRECTORY inputs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/lockstep/inputs FILES_MATCHING PATTERN "*.yaml")

set(LOCKSTEP_LINKS_CUDNN OFF) # only a test needs it, which is not installed
if(LOCKSTEP_WITH_CUDNN AND lockstep_has_device)
  set(LOCKSTEP_LINKS_CUDNN ON)
endif()
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Lockstep)
install(EXPORT LockstepTargets NAMESPACE Lockstep:: DESTINATION ${package_dir})
configure_package_config_file(cmake/LockstepConfig.cmake.in ${PROJECT_BINARY_DIR}/LockstepConfig.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/LockstepConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/LockstepConfig.cmake ${PROJECT_BINARY_DIR}/LockstepConfigVersion.cmake
  cmake/LockstepDependencies.cmake DESTINATION ${package_dir})
