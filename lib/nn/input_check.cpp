// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/input_check.hpp"

#include "ops/reduction.hpp"

namespace lockstep {

InputCheck::InputCheck(const Graph& graph, std::int64_t max_batch)
    : rows_of_example_(graph.output_shape().rows()), flags_("lockstep::bad_examples", DType::i32, {max_batch}) {
  const std::vector<std::int64_t> tables = graph.tables_of_data();
  if (tables.empty()) return;
  tables_ = OwnedTensor("lockstep::tables_of_data", DType::i64, {static_cast<std::int64_t>(tables.size())});
  copy_from_host(ExecSpace(), tables.data(), tables_.get());
}

void InputCheck::look(const ExecSpace& space, const Tensor& input) {
  looks_ = input.dtype != DType::i32 && input.shape[0] > 0;
  if (looks_) flag_nonfinite_examples(space, input, tables_.get(), flags_.get());
}

void InputCheck::mark(const ExecSpace& space, std::int64_t first, const Tensor& outputs) const {
  if (looks_) spoil_flagged_examples(space, flags_.get(), first, rows_of_example_, outputs);
}

}  // namespace lockstep
