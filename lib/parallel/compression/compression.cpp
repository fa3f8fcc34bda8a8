// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/compression/compression.hpp"

#include "base/log.hpp"
#include "comm/collective/algorithm.hpp"
#include "comm/collective/make_all_reduce.hpp"
#include "parallel/compression/compressed_sum.hpp"

namespace lockstep {
namespace {

template <class T>
class SumByStep final : public Collective {
 public:
  SumByStep(const CompressedNumbers<T>& numbers, std::unique_ptr<Collective> exact,
            std::unique_ptr<Collective> compressed)
      : own_(numbers), exact_(std::move(exact)), compressed_(std::move(compressed)) {}

  void start(std::int64_t first, std::int64_t count) override {
    running_ = own_.step.number > own_.config.from_step ? compressed_.get() : exact_.get();
    running_->start(first, count);
  }
  bool advance() override { return running_->advance(); }

 private:
  CompressedNumbers<T> own_;
  std::unique_ptr<Collective> exact_, compressed_;
  Collective* running_ = nullptr;
};

CompressedTensor as_matrix(const Parameter& parameter) {
  const std::int64_t rows = parameter.shape.rank() > 0 ? parameter.shape[0] : 1;
  return {parameter.range, rows, parameter.range.count / std::max<std::int64_t>(1, rows)};
}

/// Makes buckets of consecutive tensors up to `end`. A tensor above the limit gets a bucket of its own.
std::vector<CompressedBucket> buckets_of(const std::vector<Parameter>& trained, std::int64_t end, double megabytes,
                                         std::size_t element_bytes) {
  const auto most = static_cast<std::int64_t>(megabytes * 1e6) / static_cast<std::int64_t>(element_bytes);
  std::vector<CompressedBucket> buckets;
  for (const Parameter& parameter : trained) {
    if (buckets.empty() || parameter.range.end() - buckets.back().place.first > most) {
      if (!buckets.empty())
        buckets.back().place = ElementRange::between(buckets.back().place.first, parameter.range.first);
      buckets.push_back({ElementRange::between(parameter.range.first, end), {}});
    }
    buckets.back().tensors.push_back(as_matrix(parameter));
  }
  return buckets;
}

/// Returns the places of each tensor's Q among all, in the order of the flat buffer.
SharedLayout thin_layout(const CompressConfig& config, const std::vector<Parameter>& trained) {
  std::vector<Parameter> layout;
  std::int64_t next = 0;
  for (const Parameter& parameter : trained)
    if (const CompressedTensor tensor = as_matrix(parameter);
        const std::int64_t columns = thin_columns(config, tensor)) {
      layout.push_back(parameter);
      layout.back().shape = {columns, tensor.columns};
      layout.back().range = {next, columns * tensor.columns};
      next += columns * tensor.columns;
    }
  return layout;
}

/// Checks that the places that travel with numbers fit into 32 bits.
void require_short_places(const std::vector<Parameter>& trained) {
  constexpr std::int64_t most = std::int64_t{1} << 32;
  for (const Parameter& parameter : trained)
    validate_key(parameter.range.count <= most, "parallel.compress.method",
                 "topk sends indices in 32 bits ({} has {} elements, more than {}); use another method", parameter.name,
                 parameter.range.count, most);
}

std::size_t buffer_bytes(const CompressConfig& config, const std::vector<CompressedBucket>& buckets, int places,
                         std::size_t element_bytes) {
  using Method = CompressConfig::Method;
  if (config.method == Method::int8) return int8_buffer_bytes(config, buckets, places, element_bytes);
  if (config.method == Method::powersgd) return power_buffer_bytes(config, buckets, element_bytes);
  return gathered_buffer_bytes(config, buckets, places, element_bytes);
}

}  // namespace

template <class T>
std::unique_ptr<Collective> sum_by_step(const CompressedNumbers<T>& numbers, std::unique_ptr<Collective> exact,
                                        std::unique_ptr<Collective> compressed) {
  return std::make_unique<SumByStep<T>>(numbers, std::move(exact), std::move(compressed));
}

template std::unique_ptr<Collective> sum_by_step(const CompressedNumbers<float>&, std::unique_ptr<Collective>,
                                                 std::unique_ptr<Collective>);
template std::unique_ptr<Collective> sum_by_step(const CompressedNumbers<double>&, std::unique_ptr<Collective>,
                                                 std::unique_ptr<Collective>);

CompressionMemory compression_memory(const ParallelConfig& config, const ParameterLayout& layout, int places) {
  const CompressConfig& compress = config.compress;
  if (!compress.present || places < 2) return {};
  const std::vector<Parameter> trained = trained_parameters(layout.parameters());
  const std::size_t element_bytes = size_of(layout.master());
  const auto buckets = buckets_of(trained, layout.trained_size(), config.sums.bucket_mb, element_bytes);
  std::int64_t left_over = compress.error_feedback ? layout.trained_size() : 0;
  if (compress.method == CompressConfig::Method::powersgd) left_over += thin_layout(compress, trained).elements();
  return {.left_over = static_cast<double>(left_over) * static_cast<double>(element_bytes),
          .buffers = static_cast<double>(buffer_bytes(compress, buckets, places, element_bytes))};
}

std::unique_ptr<Compression> Compression::make(const ParallelConfig& config, const Topology& ranks,
                                               const std::optional<NodeMemory>& memory, const ParameterLayout& layout,
                                               std::uint64_t seed) {
  const int places = memory ? ranks.nodes : ranks.all.size();
  if (places > 1) return std::unique_ptr<Compression>(new Compression(config, ranks, memory, layout, seed, places));
  log("parallel.compress: nothing is compressed: all ranks are on one node");
  return nullptr;
}

Compression::Compression(const ParallelConfig& config, const Topology& ranks, const std::optional<NodeMemory>& memory,
                         const ParameterLayout& layout, std::uint64_t seed, int places)
    : config_(config.compress),
      between_nodes_(config.sums.between_nodes),
      ranks_(ranks),
      memory_(memory),
      step_{.seed = seed},
      trained_(trained_parameters(layout.parameters())),
      places_(places) {
  buckets_ = buckets_of(trained_, layout.trained_size(), config.sums.bucket_mb, size_of(layout.master()));
  using Method = CompressConfig::Method;
  if (!memory) place_ = ranks.all.rank();
  else if (ranks.node.is_root()) place_ = ranks.node_of[static_cast<std::size_t>(ranks.all.rank())];
  const Shape trained{place_ >= 0 ? layout.trained_size() : 0};
  ranks.all.run_collectively([&] {
    if (config.compress.method == Method::topk) require_short_places(trained_);
    if (config.compress.error_feedback)
      errors_ = OwnedTensor("lockstep::compression::errors", layout.master(), trained);
    if (config.compress.method != Method::powersgd) return;
    thin_layout_ = thin_layout(config.compress, trained_);
    thin_ = OwnedTensor("lockstep::compression::q", layout.master(), {thin_layout_.elements()});
  });
}

std::vector<ElementRange> Compression::buckets() const {
  std::vector<ElementRange> places;
  for (const CompressedBucket& bucket : buckets_) places.push_back(bucket.place);
  return places;
}

template <class T>
std::unique_ptr<Collective> Compression::between_places(const Communicator& places, const ReduceBuffer& gradients) {
  using Method = CompressConfig::Method;
  const CompressedNumbers<T> numbers{.config = config_,
                                     .step = step_,
                                     .buckets = buckets_,
                                     .numbers = static_cast<T*>(gradients.data),
                                     .errors = static_cast<T*>(errors_.get().data)};
  const Topology topology = ranks_.of(places);
  const auto exact_sum = [&](const ReduceBuffer& buffer) {
    return make_all_reduce({.all_reduce = between_nodes_}, {}, topology, std::nullopt, buffer);
  };
  const auto gathered = [&](std::unique_ptr<Code<T>> code) {
    return gathered_sum<T>(numbers, std::move(code), make_transport(places));
  };
  std::unique_ptr<Collective> compressed;
  switch (config_.method) {
    case Method::int8: compressed = int8_sum<T>(numbers, make_transport(places)); break;
    case Method::sign: compressed = gathered(sign_code<T>(numbers)); break;
    case Method::topk: compressed = gathered(top_k_code<T>(numbers)); break;
    case Method::powersgd:
      compressed = power_sum<T>(numbers, static_cast<T*>(thin_.get().data), places.size(), exact_sum);
      break;
  }
  return sum_by_step<T>(numbers, exact_sum(gradients), std::move(compressed));
}

std::unique_ptr<Collective> Compression::make_sum(const ReduceBuffer& gradients) {
  return hierarchical_sum(ranks_, memory_, gradients.dtype, [&](const Communicator& places) {
    return gradients.dtype == DType::f64 ? between_places<double>(places, gradients)
                                         : between_places<float>(places, gradients);
  });
}

void Compression::forget(const ExecSpace& space) const {
  for (const Tensor& numbers : {errors_.get(), thin_.get()})
    if (numbers) fill_zero(space, numbers);
}

void Compression::add_sharded_states(std::vector<ShardedState>& numbers) const {
  const auto add = [&](const char* state, const SharedLayout& layout, const Tensor& values, ShardedState::Part part,
                       bool holds) {
    ShardedState& left = numbers.emplace_back(state_of_one_rank(state, layout, values, holds));
    left.kind = ShardedState::Kind::compression;
    left.is_optional = true;
    left.part = part;
  };
  for (int place = 0; config_.error_feedback && place < places_; ++place)
    add("error", trained_, errors_.get(), {place, places_}, place == place_);
  if (thin_layout_.elements() > 0) add("q", thin_layout_, thin_.get(), {0, 1}, ranks_.all.is_root());
}

void Compression::share(const ExecSpace& space) const {
  if (thin_layout_.elements() > 0) ranks_.all.broadcast(space, thin_.get());
}

}  // namespace lockstep
