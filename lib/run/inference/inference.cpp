// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/inference/inference.hpp"

#include <algorithm>

#include "ops/convert.hpp"

namespace lockstep {

Inference::Inference(const RunConfig& config, Graph graph, const ExampleFormat& format, std::int64_t max_batch)
    : model_(make_model(config, std::move(graph), max_batch, Purpose::inference)),
      uploader_(format, config.data.normalize, config.dtype(), max_batch, config.data.augment.for_evaluation()) {}

void Inference::compute(const ExecSpace& space, const HostBatch& batch, std::int64_t first, std::int64_t count,
                        const Tensor& outputs) {
  const PassContext context{.space = space, .training = false, .same_parameters = has_computed_};
  convert(space, model_.forward(context, uploader_.upload(space, batch, first, count).inputs), outputs);
  has_computed_ = true;
}

std::int64_t inference_batch(const RunConfig& config, const Graph& graph) {
  constexpr std::int64_t most = 128, most_numbers = 1 << 18;
  return std::min({most, std::max<std::int64_t>(1, most_numbers / graph.output_shape().count()),
                   config.batch.micro.value_or(most)});
}

}  // namespace lockstep
