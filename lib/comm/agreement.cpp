// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/agreement.hpp"

#include <fmt/format.h>

#include <sstream>
#include <utility>

namespace lockstep {
namespace {

/// The first line of each that the other has not at the same place.
std::pair<std::string, std::string> first_difference(const std::string& a, const std::string& b) {
  std::istringstream of_a(a), of_b(b);
  for (;;) {
    std::string x, y;
    const bool more_a = static_cast<bool>(std::getline(of_a, x)), more_b = static_cast<bool>(std::getline(of_b, y));
    if (x != y || !more_a || !more_b) return {more_a ? x : "nothing", more_b ? y : "nothing"};
  }
}

std::string trimmed(const std::string& line) {
  const std::size_t first = line.find_first_not_of(' ');
  return first == std::string::npos ? line : line.substr(first);
}

}  // namespace

void expect_agreement(const Communicator& comm, const Agreement& agreement) {
  std::string first = agreement.value, host = host_name();
  comm.broadcast(first);
  // The lowest rank that has something else.
  const auto other = static_cast<int>(-comm.all_reduce_max(-(agreement.value == first ? comm.size() : comm.rank())));
  if (other == comm.size()) return;
  comm.broadcast(host);
  std::string others_host = host_name(), others_value = agreement.value;
  comm.broadcast(others_host, other);
  comm.broadcast(others_value, other);
  const auto [was, is] = first_difference(first, others_value);
  throw SharedError(agreement.status,
                    fmt::format("{} of rank {} on {} is another than that of rank 0 on {} ('{}' instead of '{}'); {}",
                                agreement.what, other, others_host, host, trimmed(is), trimmed(was), agreement.advice));
}

}  // namespace lockstep
