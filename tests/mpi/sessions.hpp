// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "api/session.hpp"
#include "data/batch/batch_partition.hpp"
#include "support/fixtures.hpp"
#include "support/whole_checkpoint.hpp"

// Sessions of a small network on generated examples.
namespace lockstep::test::sessions {

inline constexpr std::int64_t batch = 36, inputs_each = 5, classes = 3;

/// The deck of a small network for vectors and classes.
inline std::string deck(const std::string& more = "") {
  return "run: {steps: 50}\ndata: {memory: {inputs: [5]}}\nmodel: {layers: [{linear: {features: 16}}, relu, {linear: "
         "{features: 3}}]}\noptimizer: {type: sgd, learning_rate: 0.5, momentum: 0.9}\nbatch: {global: 36}\n" +
         more;
}

/// The examples first … first+count−1 of batch number `step`.
struct Examples {
  std::vector<float> inputs;
  std::vector<std::int32_t> targets;

  Examples(std::int64_t step, std::int64_t first, std::int64_t count) {
    for (std::int64_t i = first; i < first + count; ++i) {
      double sum = 0;
      for (std::int64_t k = 0; k < inputs_each; ++k) {
        inputs.push_back(static_cast<float>(
            filled(static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(i * inputs_each + k))));
        sum += inputs.back();
      }
      targets.push_back(sum < -0.5 ? 0 : sum < 0.5 ? 1 : 2);
    }
  }
  std::int64_t count() const { return static_cast<std::int64_t>(targets.size()); }
  Array x() const { return {inputs.data(), count()}; }
  Array y() const { return {targets.data(), count()}; }
};

/// A rank's share of a batch.
inline Examples share(std::int64_t step, const Communicator& comm) {
  const RankShare own = share_of(batch, comm.rank(), comm.size());
  return {step, own.first, own.count};
}

inline StepResult step(Session& session, const Examples& examples) { return session.step(examples.x(), examples.y()); }

/// All arrays of a checkpoint. By one rank.
inline std::map<std::string, std::vector<std::byte>> arrays_of(const Checkpoint& checkpoint) {
  std::map<std::string, std::vector<std::byte>> arrays;
  for (const NamedArray& array : checkpoint.arrays)
    arrays[array.name].assign(array.data.get(), array.data.get() + array.bytes());
  return arrays;
}

class SessionTest : public testing::Test {
 protected:
  std::string file(const std::string& name) const { return folder_.path() / name; }

  /// The message of the error of a session with this deck; empty if there is none. Collective.
  static std::string complaint(const std::string& text) {
    try {
      const Session session(text, MPI_COMM_WORLD);
    } catch (const SharedError& error) {
      return error.what();
    }
    return "";
  }
  /// Expects two checkpoints to have the same arrays and (`state`) the same trainer state.
  void expect_same(const std::string& one, const std::string& other, bool state = true) const {
    if (!comm_.is_root()) return;
    const Checkpoint first = read_checkpoint(one), second = read_checkpoint(other);
    EXPECT_FALSE(first.arrays.empty());
    EXPECT_EQ(arrays_of(first), arrays_of(second));
    if (state) {
      EXPECT_EQ(first.texts.at("state"), second.texts.at("state"));
    }
  }

  TemporaryFolder folder_;
  Communicator comm_ = Communicator::world();
};

}  // namespace lockstep::test::sessions
