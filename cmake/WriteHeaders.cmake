# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# For installation: writes the headers below FROM to TO/lockstep, so that Lockstep only adds the folder lockstep/ to a program's
# search path. Includes change accordingly: "core/tensor.hpp" becomes "lockstep/core/tensor.hpp". Headers of api/ are in
# lockstep/ itself: <lockstep/lockstep.hpp>.
file(REMOVE_RECURSE ${TO})
file(GLOB_RECURSE headers RELATIVE ${FROM} ${FROM}/*.hpp)
foreach(header IN LISTS headers)
  file(READ ${FROM}/${header} text)
  string(REGEX REPLACE "#include \"([a-z_]+/[^\"]+)\"" "#include \"lockstep/\\1\"" text "${text}")
  string(REPLACE "#include \"lockstep/api/" "#include \"lockstep/" text "${text}")
  string(REGEX REPLACE "^api/" "" header ${header})
  file(WRITE ${TO}/lockstep/${header} "${text}")
endforeach()
