// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/asynchronous/push_record.hpp"

#include <filesystem>

#include "base/error.hpp"
#include "base/text_file.hpp"
#include "io/replace_file.hpp"

namespace lockstep {

void refuse_other_file(const std::string& record) {
  std::error_code ignored;  // other errors are found when the file is written
  if (!std::filesystem::exists(record, ignored)) return;
  validate(file_begins_with(record, PushOrder::mark), ExitStatus::cannot_create,
           "{}: exists already, and is not a record of the order of gradients, so it is not replaced; give another "
           "name, or move that file away",
           record);
}

void write_record(const std::string& record, const PushOrder& order) {
  refuse_other_file(record);
  replace_text_file(record, order.text());
}

}  // namespace lockstep
