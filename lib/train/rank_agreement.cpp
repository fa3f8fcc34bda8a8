// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/rank_agreement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <sstream>
#include <vector>

#include "base/heartbeat.hpp"
#include "io/checksum.hpp"
#include "train/build_info.hpp"

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

/// What all ranks must have alike.
struct Agreement {
  std::string what;    ///< "the deck"
  std::string value;   ///< of this rank; compared whole
  std::string advice;  ///< "start all ranks with the same deck"
  ExitStatus status = ExitStatus::internal;
};

void expect_agreement(const Communicator& comm, const Agreement& agreement) {
  const std::uint64_t hash = hash_of(agreement.value.data(), agreement.value.size());
  std::int64_t of_this_rank = 0;
  std::memcpy(&of_this_rank, &hash, sizeof(hash));
  const std::vector<std::int64_t> hashes = comm.gather(of_this_rank);
  const auto other = std::ranges::find_if(hashes, [&](std::int64_t found) { return found != hashes[0]; });
  if (other == hashes.end()) return;
  const int rank = static_cast<int>(other - hashes.begin());
  std::string hosts[2] = {host_name(), host_name()}, values[2] = {agreement.value, agreement.value};
  for (const int side : {0, 1}) {
    comm.broadcast(hosts[side], side == 0 ? 0 : rank);
    comm.broadcast(values[side], side == 0 ? 0 : rank);
  }
  const auto [first, second] = first_difference(values[0], values[1]);
  throw SharedError(
      agreement.status,
      fmt::format("{} of rank {} on {} is another than that of rank 0 on {} ('{}' instead of '{}'); {}", agreement.what,
                  rank, hosts[1], hosts[0], trimmed(second), trimmed(first), agreement.advice));
}

/// Of what a dataset holds, as text.
std::string fingerprint(const Dataset& dataset) {
  constexpr std::size_t most_bytes = std::size_t{64} << 20;
  const ExampleFormat& format = dataset.format();
  const std::size_t inputs = format.input_bytes(), targets = format.target_bytes();
  const std::int64_t size = dataset.size();
  const std::int64_t samples = std::clamp<std::int64_t>(static_cast<std::int64_t>(most_bytes / (inputs + targets)), 2,
                                                        std::max<std::int64_t>(2, size));
  std::vector<std::byte> example(inputs + targets);
  std::vector<std::uint64_t> hashes;
  for (std::int64_t i = 0; i < samples && size > 0; ++i) {
    const std::int64_t number = i * (size - 1) / (samples - 1);
    dataset.read({&number, 1}, example.data(), example.data() + inputs);
    hashes.push_back(hash_of(example.data(), example.size()));
    heartbeat().beat();
  }
  return fmt::format("{} examples of {} bytes, {:016x}", size, example.size(),
                     hash_of(hashes.data(), hashes.size() * sizeof(hashes[0])));
}

}  // namespace

std::string agreed_deck(const Communicator& comm, const std::string& deck) {
  if (comm.size() == 1) return deck;
  expect_agreement(comm,
                   {"the program", build_info_text(), "start the same lockstep on all ranks", ExitStatus::bad_usage});
  expect_agreement(comm, {"the number of threads", std::to_string(ExecSpace().concurrency()),
                          "give all ranks as many (OMP_NUM_THREADS)", ExitStatus::bad_usage});
  expect_agreement(comm,
                   {"the deck", deck, "give all ranks the same deck and the same changes to it", ExitStatus::bad_deck});
  return deck;
}

std::string agreed_data(const Communicator& comm, const Dataset* dataset) {
  std::string print = "no examples";
  comm.together([&] {
    if (dataset) print = fingerprint(*dataset);
  });
  if (comm.size() == 1) return print;
  const std::string value = dataset ? fmt::format("{}: {}", dataset->description(), print) : print;
  expect_agreement(comm, {"the data", value, "give all ranks the same files", ExitStatus::bad_data});
  return print;
}

}  // namespace lockstep
