// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>

namespace lockstep {

/// What this program is made of, for checkpoints: JSON text.
std::string build_info_json();

/// What this program is made of, for people: `lockstep info`.
std::string build_info_text();

}  // namespace lockstep
