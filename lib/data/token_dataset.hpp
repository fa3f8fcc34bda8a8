// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "data/dataset.hpp"
#include "data/hdf5_dataset.hpp"

namespace lockstep {

/// Windows of one long row of tokens: example i reads tokens i·T … i·T+T−1 and predicts i·T+1 … i·T+T.
/// A rest too short for a window is left out.
class TokenDataset : public Dataset {
 public:
  std::int64_t size() const override { return (count_ - 1) / sequence_length_; }
  const ExampleFormat& format() const override { return format_; }
  std::string description() const override { return description_; }
  void read(std::span<const std::int64_t> examples, void* inputs, void* targets) const override;
  /// Both look at all tokens, those of the rest too.
  void check_classes(std::int64_t classes) const override;
  void check_tokens(std::int64_t vocabulary) const override;

 protected:
  /// `count` tokens, at least one window of them.
  TokenDataset(std::string description, std::int64_t count, std::int64_t sequence_length)
      : description_(std::move(description)),
        count_(count),
        sequence_length_(sequence_length),
        format_{{sequence_length}, DType::i32, {sequence_length}, DType::i32} {}

  std::int64_t count() const { return count_; }

 private:
  struct Found {
    std::int64_t position, token;
  };

  virtual void read_tokens(std::int64_t first, std::int64_t count, std::int64_t* tokens) const = 0;
  /// All tokens are known to be in [0, limit).
  virtual bool all_below(std::int64_t /*limit*/) const { return false; }
  std::optional<Found> first_outside(std::int64_t limit) const;

  std::string description_;
  std::int64_t count_;
  std::int64_t sequence_length_;
  ExampleFormat format_;
};

/// /train/tokens or /validation/tokens; null when the file has none. Tokens that take more than
/// `memory_limit` stay in the file. Throws bad_data.
std::unique_ptr<Dataset> open_token_dataset(std::shared_ptr<const Hdf5File> file, const std::string& split,
                                            std::int64_t sequence_length,
                                            std::size_t memory_limit = default_memory_limit);

}  // namespace lockstep
