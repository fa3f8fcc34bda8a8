# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
include(CMakePackageConfigHelpers)

get_property(targets GLOBAL PROPERTY LOCKSTEP_TARGETS)
install(TARGETS ${targets} lockstep EXPORT LockstepTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(CODE "set(FROM \"${PROJECT_SOURCE_DIR}/lib\")\nset(TO \"${PROJECT_BINARY_DIR}/include\")")
install(SCRIPT cmake/InstallHeaders.cmake)
install(DIRECTORY ${PROJECT_BINARY_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY inputs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/lockstep/inputs FILES_MATCHING PATTERN "*.yaml")

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Lockstep)
install(EXPORT LockstepTargets NAMESPACE Lockstep:: DESTINATION ${package_dir})
configure_package_config_file(cmake/LockstepConfig.cmake.in ${PROJECT_BINARY_DIR}/LockstepConfig.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/LockstepConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/LockstepConfig.cmake ${PROJECT_BINARY_DIR}/LockstepConfigVersion.cmake
  cmake/LockstepDependencies.cmake DESTINATION ${package_dir})
