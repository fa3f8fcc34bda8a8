// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/inference/inference.hpp"

#include <algorithm>
#include <limits>

#include "core/finite.hpp"
#include "ops/convert.hpp"
#include "train/guard/nonfinite_report.hpp"

namespace lockstep {
namespace {

template <class T>
void flag_nonfinite_inputs(const ExecSpace& space, const T* inputs, std::int64_t examples, std::int64_t of_each,
                           std::int32_t* flags) {
  Kokkos::parallel_for(
      "lockstep::predict::flag", RangePolicy(space, 0, examples * of_each), KOKKOS_LAMBDA(const std::int64_t i) {
        if (is_nonfinite(inputs[i])) Kokkos::atomic_store(flags + i / of_each, 1);
      });
}

template <class T>
void spoil_flagged_outputs(const ExecSpace& space, std::int64_t examples, std::int64_t of_each,
                           const std::int32_t* flags, T* outputs) {
  const T nan = std::numeric_limits<T>::quiet_NaN();
  Kokkos::parallel_for(
      "lockstep::predict::spoil", RangePolicy(space, 0, examples * of_each), KOKKOS_LAMBDA(const std::int64_t i) {
        if (flags[i / of_each] != 0) outputs[i] = nan;
      });
}

}  // namespace

Inference::Inference(const RunConfig& config, Graph graph, const ExampleFormat& format, std::int64_t max_batch)
    : format_(format),
      model_(make_model(config, std::move(graph), max_batch, Purpose::inference)),
      uploader_(format, config.data.normalize, config.dtype(), max_batch, config.data.augment.for_evaluation()),
      flags_("lockstep::predict::flags", DType::i32, {max_batch}),
      flags_on_host_(static_cast<std::size_t>(max_batch)) {}

void Inference::compute(const ExecSpace& space, const HostBatch& batch, std::int64_t first, std::int64_t count,
                        const Tensor& outputs) {
  const StepContext context{.space = space, .training = false, .same_parameters = has_computed_};
  convert(space, model_.forward(context, uploader_.upload(space, batch, first, count).inputs), outputs);
  has_computed_ = true;
  // Vendors' libraries turn NaN into 0 in relu, which hides inputs that are not finite.
  if (flag_nonfinite(space, batch, first, count))
    dispatch_master(outputs.dtype, [&]<class T>(T) {
      spoil_flagged_outputs(space, count, outputs.count() / count, flags_.get().as<const std::int32_t>(),
                            outputs.as<T>());
    });
}

/// Sets flags_. Returns false, and may leave them as they are, if all inputs are known to be finite.
bool Inference::flag_nonfinite(const ExecSpace& space, const HostBatch& batch, std::int64_t first, std::int64_t count) {
  if (format_.input_dtype != DType::f32 && format_.input_dtype != DType::f64) return false;
  const std::int64_t of_each = format_.input_shape.count();
  const std::byte* const inputs = batch.inputs.data() + static_cast<std::size_t>(first) * format_.input_bytes();
  if (batch.inputs_on_device) {
    fill_zero(space, flags_.get());
    dispatch_master(format_.input_dtype, [&]<class T>(T) {
      flag_nonfinite_inputs(space, reinterpret_cast<const T*>(inputs), count, of_each, flags_.get().as<std::int32_t>());
    });
    return true;
  }
  bool any = false;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::byte* const own = inputs + static_cast<std::size_t>(i) * format_.input_bytes();
    const bool is_bad = count_nonfinite(own, format_.input_dtype, of_each) > 0;
    flags_on_host_[static_cast<std::size_t>(i)] = is_bad ? 1 : 0;
    any = any || is_bad;
  }
  if (any) copy_from_host(space, flags_on_host_.data(), flags_.get());
  return any;
}

std::int64_t inference_batch(const RunConfig& config, const Graph& graph) {
  constexpr std::int64_t most = 128, most_numbers = 1 << 18;
  return std::min({most, std::max<std::int64_t>(1, most_numbers / graph.output_shape().count()),
                   config.batch.micro.value_or(most)});
}

}  // namespace lockstep
