// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>

#include "parallel/asynchronous/push_order.hpp"

// The file of the order in which gradients are applied (asynchronous.schedule.record, backup.record).
namespace lockstep {

/// Throws cannot_create where something is there that is no record.
void refuse_other_file(const std::string& record);

/// Of an order that is known from the beginning. Throws what refuse_other_file and replace_text_file throw.
void write_record(const std::string& record, const PushOrder& order);

}  // namespace lockstep
