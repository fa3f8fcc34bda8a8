// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/batch/upload.hpp"

#include <vector>

#include "ops/elementwise/copies.hpp"
#include "ops/image/image_changes.hpp"

namespace lockstep {
namespace {

template <class T>
OwnedTensor constants(const std::vector<double>& values, const char* label) {
  const std::vector<T> converted(values.begin(), values.end());
  OwnedTensor tensor(label, dtype_of<T>(), {static_cast<std::int64_t>(values.size())});
  copy_from_host(ExecSpace(), converted.data(), tensor.get());
  return tensor;
}

OwnedTensor constants(DType dtype, const std::vector<double>& values, const char* label) {
  return dispatch_master(dtype, [&]<class T>(T) { return constants<T>(values, label); });
}

constexpr std::int64_t change_bytes = sizeof(ImageChange);

/// The first `bytes` bytes of `room`.
Tensor tensor_of(const OwnedTensor& room, std::int64_t bytes) { return {room.get().data, DType::u8, {bytes}}; }

}  // namespace

BatchUploader::BatchUploader(const ExampleFormat& format, const Normalization& normalization, DType compute,
                             std::int64_t max_batch, const AugmentConfig& augment, std::uint64_t seed)
    : format_(format),
      shape_(augment.input_shape(format)),
      compute_(compute),
      augment_(augment),
      seed_(seed),
      unit_(normalization.unit) {
  const std::size_t entries = normalization.mean.size();
  std::vector<double> scale{1 / unit_}, shift{0};
  if (entries > 0) {
    scale.resize(entries);
    shift.resize(entries);
    for (std::size_t c = 0; c < entries; ++c) {
      scale[c] = 1 / (unit_ * normalization.std[c]);
      shift[c] = -normalization.mean[c] / normalization.std[c];
    }
  }
  const bool crops = shape_ != format.input_shape;
  identity_ = format.has_tokens() || (entries == 0 && format.input_dtype == compute && !crops);

  const std::int64_t most = max_batch + (augment.mixes() ? 1 : 0);
  const Shape inputs = format.input_shape.with_batch(most), targets = format.target_shape.with_batch(most);
  rooms_.resize(memory_is_separate ? 2 : 1);
  if (memory_is_separate) copies_ = space_beside(ExecSpace());
  for (Room& room : rooms_) {
    if (memory_is_separate) {
      room.inputs = OwnedTensor("lockstep::upload::raw_inputs", format.input_dtype, inputs);
      room.targets = OwnedTensor("lockstep::upload::raw_targets", format.target_dtype, targets);
    }
    if (augment.does_something())
      room.changes = OwnedTensor("lockstep::upload::changes", DType::u8, {most * change_bytes});
    if (augment.mixes()) room.shares = OwnedTensor("lockstep::upload::shares", DType::f64, {most});
  }
  if (crops) {
    const std::vector<ImageChange> middles(static_cast<std::size_t>(most), middle_of(format.input_shape, shape_));
    middles_ = OwnedTensor("lockstep::upload::middles", DType::u8, {most * change_bytes});
    copy_from_host(ExecSpace(), middles.data(), middles_.get());
  }
  if (augment.does_something() || crops) means_ = OwnedTensor("lockstep::upload::means", DType::f64, {most});
  if (!identity_ || augment.does_something()) {
    inputs_ = OwnedTensor("lockstep::upload::inputs", compute, shape_.with_batch(most));
    scale_ = constants(master_dtype(compute), scale, "lockstep::upload::scale");
    shift_ = constants(master_dtype(compute), shift, "lockstep::upload::shift");
  }
  if (!format.has_classes() && augment.mixes())
    mixed_targets_ = OwnedTensor("lockstep::upload::mixed_targets", master_dtype(compute), targets);
  if (!format.has_classes() && format.target_dtype != master_dtype(compute))
    targets_ = OwnedTensor("lockstep::upload::targets", master_dtype(compute), targets);
}

/// Returns the room that no kernel given to `space` so far reads, or whose kernels copies will wait for.
BatchUploader::Room& BatchUploader::next_room(const ExecSpace& space) {
  if constexpr (memory_is_separate) {
    rooms_[room_].read.emplace(space);
    room_ = 1 - room_;
    if (rooms_[room_].read) wait_for(*copies_, *rooms_[room_].read);
  }
  return rooms_[room_];
}

/// Returns the raw numbers where kernels can read them. `is_there`: they are on the device already.
Tensor BatchUploader::raw_on_device(std::byte* raw, bool is_there, const OwnedTensor& room, DType dtype,
                                    const Shape& shape) {
  if (!memory_is_separate || is_there) return {raw, dtype, shape};
  const Tensor tensor{room.get().data, dtype, shape};
  start_copy_from_host(*copies_, raw, tensor);
  return tensor;
}

DeviceBatch BatchUploader::upload(const ExecSpace& space, const HostBatch& batch, std::int64_t first,
                                  std::int64_t count) {
  assert(first >= 0 && first + count <= batch.size());
  const bool changes = !batch.changes.empty() && count > 0;
  const std::int64_t raw = count + (changes && augment_.mixes() ? 1 : 0);
  const auto offset = static_cast<std::size_t>(first);
  const Room& room = next_room(space);
  DeviceBatch result;
  result.n = count;
  result.inputs = raw_on_device(batch.inputs.data() + offset * format_.input_bytes(), batch.inputs_on_device,
                                room.inputs, format_.input_dtype, format_.input_shape.with_batch(raw));
  result.targets = raw_on_device(batch.targets.data() + offset * format_.target_bytes(), batch.targets_on_device,
                                 room.targets, format_.target_dtype, format_.target_shape.with_batch(raw));
  if (changes)
    start_copy_from_host(copies_.value_or(space), batch.changes.data() + offset,
                         tensor_of(room.changes, raw * change_bytes));
  if (copies_) {
    batch.copied.emplace(*copies_);
    wait_for(space, *batch.copied);
  }
  if (changes) {
    change(space, room.changes.get(), augment_.noise, count, result);
  } else if (middles_.get()) {
    change(space, middles_.get(), 0, count, result);
  } else if (!identity_) {
    const Tensor inputs{inputs_.get().data, compute_, format_.input_shape.with_batch(count)};
    if (count > 0) normalize(space, result.inputs, scale_.get(), shift_.get(), inputs);
    result.inputs = inputs;
  }
  if (targets_.get() && format_.target_dtype != master_dtype(compute_)) {
    const Tensor targets{targets_.get().data, master_dtype(compute_), result.targets.shape};
    if (count > 0) convert(space, result.targets, targets);
    result.targets = targets;
  }
  if (changes && augment_.mixes()) mix_targets(space, room, count, result);
  return result;
}

/// Applies the changes of images and normalises them.
void BatchUploader::change(const ExecSpace& space, const Tensor& changes, double noise, std::int64_t count,
                           DeviceBatch& result) {
  const Tensor images{inputs_.get().data, compute_, shape_.with_batch(count)};
  change_images(space, result.inputs, changes, scale_.get(), shift_.get(), unit_, noise, seed_, means_.get(), images);
  result.inputs = images;
}

/// Mixes targets with those of the next example: values are added up; classes get the next ones as a second set.
void BatchUploader::mix_targets(const ExecSpace& space, const Room& room, std::int64_t count, DeviceBatch& result) {
  const Tensor all = result.targets;
  const Shape shape = format_.target_shape.with_batch(count);
  if (!format_.has_classes()) {
    const Tensor mixed{mixed_targets_.get().data, all.dtype, shape};
    mix_values(space, room.changes.get(), all, mixed);
    result.targets = mixed;
    return;
  }
  const Tensor shares{room.shares.get().data, DType::f64, {count}};
  own_shares(space, room.changes.get(), shares);
  result.targets = {all.data, all.dtype, shape};
  result.mixed = {.others = {static_cast<std::byte*>(all.data) + format_.target_bytes(), all.dtype, shape},
                  .shares = shares};
}

}  // namespace lockstep
