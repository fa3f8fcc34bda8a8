// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/agreement.hpp"

#include <fmt/format.h>

#include "base/process.hpp"
#include "base/text.hpp"

namespace lockstep {

void expect_agreement(const Communicator& comm, const Agreement& agreement) {
  std::string first = agreement.value, host = host_name();
  comm.broadcast(first);
  // Lowest rank with a different value.
  const std::int64_t differs_at = agreement.value == first ? comm.size() : comm.rank();
  const auto other = static_cast<int>(comm.all_reduce_min(differs_at));
  if (other == comm.size()) return;
  comm.broadcast(host);
  std::string others_host = host_name(), others_value = agreement.value;
  comm.broadcast(others_host, other);
  comm.broadcast(others_value, other);
  const auto [was, is] = first_difference(first, others_value);
  throw SharedError(agreement.status,
                    fmt::format("{} of rank {} on {} differs from that of rank 0 on {} ('{}' instead of '{}'); {}",
                                agreement.what, other, others_host, host, is, was, agreement.advice));
}

}  // namespace lockstep
