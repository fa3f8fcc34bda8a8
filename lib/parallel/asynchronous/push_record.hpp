// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>

#include "parallel/asynchronous/push_order.hpp"

// The record file: the order in which gradients are applied (asynchronous.schedule.record, backup.record).
namespace lockstep {

/// Throws cannot_create if there is a file of this name that is no record.
void refuse_other_file(const std::string& record);

/// Writes the record of an order that is known from the beginning. Throws what refuse_other_file and replace_text_file
/// throw.
void write_record(const std::string& record, const PushOrder& order);

}  // namespace lockstep
