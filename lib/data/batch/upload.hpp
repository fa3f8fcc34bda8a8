// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/tensor.hpp"
#include "data/batch/data_loader.hpp"
#include "data/data_config.hpp"
#include "ops/loss/loss.hpp"

namespace lockstep {

/// A batch or a part of one, as the model reads it.
struct DeviceBatch {
  Tensor inputs;   // [n, input_shape…] compute type, or tokens [n, T] i32
  Tensor targets;  // [n] or [n, T] i32, or [n, K] of the compute type's master_dtype
  std::int64_t n = 0;
  MixedTargets mixed{};  // class targets of mixed images
};

/// Brings batches from the loader to the step: one copy of the raw numbers, then one kernel that normalises them. On
/// hosts, what needs no change is not copied; the result then lies in the HostBatch and lives as long as that. The same
/// kernel applies changes of images (HostBatch::changes), for which `augment` and the run's `seed` are needed; of
/// images without changes that are larger than what the network reads (AugmentConfig::input_shape) it takes the middle.
/// Allocates only in its constructor.
class BatchUploader {
 public:
  /// `max_batch`: the most examples of one upload. `normalization` must suit the format (normalization_of).
  BatchUploader(const ExampleFormat& format, const Normalization& normalization, DType compute, std::int64_t max_batch,
                const AugmentConfig& augment = {}, std::uint64_t seed = 0);

  /// Uploads examples first … first + count − 1 of `batch`. The result is valid until the next call. The host does not
  /// wait; HostBatch::copied says when the numbers are copied.
  DeviceBatch upload(const ExecSpace& space, const HostBatch& batch, std::int64_t first, std::int64_t count);

 private:
  /// Memory on a device for the numbers of one upload.
  struct Room {
    OwnedTensor inputs, targets;      ///< raw numbers
    OwnedTensor changes, shares;      ///< for images that are changed, or mixed
    std::optional<StreamEvent> read;  ///< the end of the step's kernels that read it
  };
  Room& next_room(const ExecSpace& space);
  Tensor raw_on_device(std::byte* raw, bool is_there, const OwnedTensor& room, DType dtype, const Shape& shape);

  void change(const ExecSpace& space, const Tensor& changes, double noise, std::int64_t count, DeviceBatch& result);
  void mix_targets(const ExecSpace& space, const Room& room, std::int64_t count, DeviceBatch& result);

  ExampleFormat format_;
  Shape shape_;  // shape of an example that the network reads
  DType compute_;
  AugmentConfig augment_;
  std::uint64_t seed_;
  double unit_ = 1;                  // what inputs are divided by
  bool identity_ = false;            // inputs are used as they are
  std::vector<Room> rooms_;          // two if memory is separate: one is filled while kernels read the other
  std::size_t room_ = 0;             // room of the last upload
  std::optional<ExecSpace> copies_;  // the stream of copies from the host, if memory is separate
  OwnedTensor inputs_, targets_;     // as in DeviceBatch
  OwnedTensor scale_, shift_;        // [C] or [1]
  OwnedTensor middles_, means_, mixed_targets_;  // for images that are changed, or mixed
};

}  // namespace lockstep
