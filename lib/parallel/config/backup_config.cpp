// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/config/backup_config.hpp"

namespace lockstep {

void BackupConfig::describe(Fields& fields) {
  static constexpr std::string_view modes[] = {"duplicate", "drop"};
  fields.integer("ranks", ranks, at_least_one, "number of ranks that each step can do without", Presence::required);
  fields.choice("mode", mode, modes,
                "duplicate: these ranks compute parts of the batch that others compute too, and the first result "
                "counts, so that a step is what the other ranks alone would make of it; drop: all ranks compute parts "
                "of their own, and those that come last are left out of the mean");
  fields.path("record", record,
              "with mode: drop, file to which the parts that have counted in each step are written, for "
              "asynchronous.schedule.replay");
  fields.check(record.empty() || mode == Mode::drop, "record",
               "has no effect with mode: duplicate, which gives the same bits whichever rank is first; leave it out");
}

}  // namespace lockstep
