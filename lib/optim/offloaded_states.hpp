// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.hpp"
#include "io/passing_blocks.hpp"
#include "nn/parameters/owned_value_store.hpp"
#include "optim/parameter_groups.hpp"

namespace lockstep {

/// Where an optimizer keeps its states.
struct StateOffload {
  enum class To { nowhere, host_memory, file } to = To::nowhere;  ///< nowhere: in the step's memory
  std::string folder;                                             ///< of the file
  double block_mb = 16;  ///< that are read and written at once, of all states together
  bool values = false;   ///< whether the parameters' values are there as well, after the states
};

/// Blocks of parameters whose states are in memory together.
struct StateWindow {
  const ParameterBlock* blocks = nullptr;  ///< in the step's memory
  std::int64_t count = 0;
  std::span<const Tensor> states;  ///< in which ParameterBlock::state counts
  Tensor values = {};  ///< of the parameters, in which ParameterBlock::first counts; no data: OwnedParameters has them
  ParameterRange range{};  ///< of the flat buffer, in which they stand, where not all are in memory

  const Tensor& values_or(const OwnedParameters& owned) const { return values ? values : owned.values(); }
};

/// States of an optimizer, laid out like the parameters that a rank owns, of which a step has three blocks in its
/// memory (io/passing_blocks.hpp), and the rest in a file, or in the host's memory where steps have a device's: kernels
/// run once for each block. A block has the same stretch of all states, one after the other, so that it comes and goes
/// at once. The values of the parameters may come and go with them, as one more.
class OffloadedStates {
 public:
  /// Stretches of `elements` of each state are a block; there are so many blocks.
  struct Division {
    std::int64_t elements = 0;
    std::size_t blocks = 0, block_bytes = 0;

    std::size_t bytes_in_memory() const { return PassingBlocks::slots(blocks) * block_bytes; }
  };
  /// Of `states` of `count` numbers each, the values included if they are among them.
  static Division divide(double block_mb, DType dtype, std::size_t states, std::int64_t count);

  /// Of the parameters that a rank owns (ParameterLayout::owned), which `blocks` are, in the order of their states;
  /// they count in windows from here on. `states`: without the values. `in_step`: where kernels will find them. Throws
  /// what BlockFile and HostBlocks throw.
  OffloadedStates(const StateOffload& offload, DType dtype, std::size_t states, std::span<const ParameterRange> owned,
                  std::span<ParameterBlock> blocks, const ParameterBlock* in_step);

  // A pass of the blocks', window by window:
  const ParameterRange& next() const { return windows_[blocks_.next()].range; }
  /// Where, in the flat buffer, those end that are left.
  std::int64_t end_of_left() const { return windows_[blocks_.last_left()].range.end(); }
  /// Calls `work` for the next one, which gives its kernels to `space`, after its arrival.
  void work(const ExecSpace& space, const std::function<void(const StateWindow&)>& work);

  std::size_t number_of_values() const { return states_.size() - 1; }  ///< among the states

  using Version = PassingBlocks::Version;
  // Elements [first, first + count) of a state, on the host, as PassingBlocks does.
  void read(Version version, std::size_t state, std::int64_t first, std::int64_t count, std::byte* to);
  void write(std::size_t state, std::int64_t first, std::int64_t count, const std::byte* from);
  /// As PassingBlocks does it.
  void start_fetch(std::size_t state, std::int64_t first, std::int64_t count, std::byte* to);
  PassingBlocks& blocks() { return blocks_; }

 private:
  template <class Visit>
  void for_pieces(std::size_t state, std::int64_t first, std::int64_t count, const Visit& visit) const;

  DType dtype_;
  bool has_values_;
  Division division_;
  PassingBlocks blocks_;
  std::vector<StateWindow> windows_;  ///< but for their states
  std::vector<Tensor> states_;        ///< of the window that is in memory, and its values, if it has such
};

/// One of them; or none.
struct OffloadedState {
  OffloadedStates* all = nullptr;
  std::size_t number = 0;

  explicit operator bool() const { return all != nullptr; }
  void read(PassingBlocks::Version version, std::int64_t first, std::int64_t count, std::byte* to) const {
    all->read(version, number, first, count, to);
  }
  void write(std::int64_t first, std::int64_t count, const std::byte* from) const {
    all->write(number, first, count, from);
  }
};

/// The values among them.
class OffloadedValues final : public OwnedValueStore {
 public:
  explicit OffloadedValues(OffloadedStates& all) : values_{&all, all.number_of_values()} {}

  const OffloadedState& as_state() const { return values_; }
  void start_fetch(std::int64_t first, std::int64_t count, std::byte* to) override {
    values_.all->start_fetch(values_.number, first, count, to);
  }
  bool has_fetched() override { return values_.all->blocks().has_fetched(); }
  void read(std::int64_t first, std::int64_t count, std::byte* to) const override {
    values_.read(PassingBlocks::Version::present, first, count, to);
  }
  void write(std::int64_t first, std::int64_t count, const std::byte* from) const override {
    values_.write(first, count, from);
  }

 private:
  OffloadedState values_;
};

}  // namespace lockstep
