// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "config/fields.hpp"

namespace lockstep {

/// The deck's `parallel.backup` section: there are more ranks than a step waits for (Chen et al. 2016).
struct BackupConfig : Config {
  /// What the extra ranks do, for which a step does not wait.
  enum class Mode {
    duplicate,  ///< they compute parts of the batch that others compute too: the first to come counts
    drop,       ///< they compute parts of their own: the parts that come last do not count
  };

  bool present = false;
  std::int64_t ranks = 1;  ///< number of ranks that a step can do without
  Mode mode = Mode::duplicate;
  std::string record;  ///< path; empty: none

  void describe(Fields& fields) override;
  std::string_view short_form() const override { return "ranks"; }
};

}  // namespace lockstep
