// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string_view>

namespace lockstep {

std::string_view version();   ///< "0.1.0"
std::string_view git_hash();  ///< of the source tree at configure time; "-dirty" if changed, "unknown" without git
std::string_view compiler();  ///< "GNU 14.2.0"
std::string_view build_type();
std::string_view spack_hash();  ///< hash of the Spack package; empty if Spack did not build this program

}  // namespace lockstep
