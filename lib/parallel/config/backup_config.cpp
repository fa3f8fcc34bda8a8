// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/config/backup_config.hpp"

namespace lockstep {

void BackupConfig::describe(Fields& fields) {
  static constexpr std::string_view modes[] = {"duplicate", "drop"};
  fields.integer("ranks", ranks, at_least_one, "ranks that each step can do without", Presence::required);
  fields.choice(
      "mode", mode, modes,
      "duplicate: they compute parts of the batch that other ranks compute, too, and who comes first counts: "
      "a step is what the other ranks alone would make of it; drop: all ranks compute parts of their own, and "
      "those that come last are left out of the mean");
  fields.path(
      "record", record,
      "of drop, a file to write which parts have counted in each step, which asynchronous.schedule.replay reads");
  fields.check(record.empty() || mode == Mode::drop, "record",
               "is of no use to duplicates, which leave the same bits whoever comes first; leave it out");
}

}  // namespace lockstep
