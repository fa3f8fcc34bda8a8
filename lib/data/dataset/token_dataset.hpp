// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "data/dataset/dataset.hpp"
#include "data/dataset/hdf5_dataset.hpp"

namespace lockstep {

/// Windows of one long row of tokens: example i reads tokens i·T … i·T+T−1 and predicts i·T+1 … i·T+T. A rest that is
/// too short for a window is left out.
class TokenDataset : public Dataset {
 public:
  std::int64_t size() const override { return (count_ - 1) / sequence_length_; }
  const ExampleFormat& format() const override { return format_; }
  std::string description() const override { return description_; }
  std::string vocabulary() const override { return vocabulary_; }
  void read(std::span<const std::int64_t> examples, void* inputs, void* targets) const override;
  /// Both checks cover all tokens, including the rest.
  void check_classes(std::int64_t classes, std::int64_t ignored) const override;
  void check_tokens(std::int64_t vocabulary) const override;

 protected:
  /// `count`: number of tokens, which make at least one window. `largest`: the largest token; the smallest is at least
  /// 0.
  TokenDataset(std::string description, std::int64_t count, std::int64_t sequence_length, std::int64_t largest,
               std::string vocabulary = "")
      : description_(std::move(description)),
        count_(count),
        sequence_length_(sequence_length),
        largest_(largest),
        format_{{sequence_length}, DType::i32, {sequence_length}, DType::i32},
        vocabulary_(std::move(vocabulary)) {}

 private:
  struct Found {
    std::int64_t position, token;
  };

  virtual void read_tokens(std::int64_t first, std::int64_t count, std::int32_t* tokens) const = 0;
  Found first_not_below(std::int64_t limit) const;
  void require_below(std::int64_t limit, std::string_view what, std::string_view remedy) const;

  std::string description_;
  std::int64_t count_;
  std::int64_t sequence_length_;
  std::int64_t largest_;
  ExampleFormat format_;
  std::string vocabulary_;
};

/// Opens a group's dataset of tokens, such as "/train/tokens". Null if there is none. Tokens that take more than
/// `memory_limit` bytes stay in the file. Throws bad_data. Collective over the ranks of `reading`.
std::unique_ptr<Dataset> open_token_dataset(std::shared_ptr<const Hdf5File> file, const std::string& group,
                                            std::int64_t sequence_length, const SharedReading& reading = {},
                                            std::size_t memory_limit = default_memory_limit);

}  // namespace lockstep
