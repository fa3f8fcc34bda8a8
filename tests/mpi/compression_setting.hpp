// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <functional>
#include <string>

#include "comm/collective/make_all_reduce.hpp"
#include "parallel/compression/compressed_sum.hpp"
#include "support/fixtures.hpp"

namespace lockstep::test {

using Method = CompressConfig::Method;
using Numbers = std::vector<double>;

/// Two buckets with gaps.
inline std::vector<CompressedBucket> small_buckets() {
  return {{{0, 1200}, {{{0, 576}, 24, 24}, {{576, 7}, 7, 1}, {{600, 520}, 20, 26}}},
          {{1200, 50}, {{{1200, 45}, 5, 9}}}};
}

/// A rank's side of compressed sums by messages.
template <class T>
struct CompressionSetting {
  static constexpr DType dtype = std::is_same_v<T, double> ? DType::f64 : DType::f32;

  Communicator ranks;
  CompressConfig config;
  std::vector<CompressedBucket> buckets;
  SumFacts step{.seed = 7};
  std::vector<T> numbers, errors, thin;
  std::unique_ptr<Collective> sum;

  CompressionSetting(const Communicator& all, const CompressConfig& chosen, std::vector<CompressedBucket> cut)
      : ranks(all), config(chosen), buckets(std::move(cut)) {
    numbers.resize(static_cast<std::size_t>(size()));
    if (config.error_feedback) errors.resize(numbers.size());
    std::int64_t q = 0;
    for (const CompressedBucket& bucket : buckets)
      for (const CompressedTensor& tensor : bucket.tensors) q += thin_columns(config, tensor) * tensor.columns;
    thin.resize(static_cast<std::size_t>(q));
    const CompressedNumbers<T> own{.config = config,
                                   .step = step,
                                   .buckets = buckets,
                                   .numbers = numbers.data(),
                                   .errors = errors.empty() ? nullptr : errors.data()};
    const auto exact_sum = [&](const ReduceBuffer& buffer) {
      return all_reduce(*find_algorithm("ring"), make_transport(ranks), buffer);
    };
    switch (config.method) {
      case Method::int8: sum = int8_sum<T>(own, make_transport(ranks)); break;
      case Method::sign: sum = gathered(own, sign_code<T>(own)); break;
      case Method::topk: sum = gathered(own, top_k_code<T>(own)); break;
      case Method::powersgd: sum = power_sum<T>(own, thin.data(), ranks.size(), exact_sum); break;
    }
    if (config.from_step > 0) sum = sum_by_step<T>(own, exact_sum({dtype, numbers.data()}), std::move(sum));
  }
  std::unique_ptr<Collective> gathered(const CompressedNumbers<T>& own, std::unique_ptr<Code<T>> code) {
    return gathered_sum<T>(own, std::move(code), make_transport(ranks));
  }

  std::int64_t size() const { return buckets.back().place.end(); }
  /// The gradient of a rank in a step, 0 in the gaps.
  Numbers gradient(std::int64_t number, int rank) const {
    const Numbers all = filling(static_cast<std::uint64_t>(1000 + 10 * number + rank), size());
    Numbers own(all.size(), 0.0);
    for (const CompressedBucket& bucket : buckets)
      for (const CompressedTensor& tensor : bucket.tensors)
        std::copy(all.begin() + tensor.place.first, all.begin() + tensor.place.end(), own.begin() + tensor.place.first);
    return own;
  }
  /// Sums the gradients of step `number` over a batch of `examples`. Collective.
  void run(std::int64_t number, double examples) {
    step.number = number;
    step.examples = examples;
    const Numbers own = gradient(number, ranks.rank());
    std::copy(own.begin(), own.end(), numbers.begin());
    for (const CompressedBucket& bucket : buckets) {
      sum->start(bucket.place.first, bucket.place.count);
      wait_until([&] { return sum->advance(); });
    }
  }
  bool all_have_the_same() const {
    std::string own(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)), first = own;
    ranks.broadcast(first, 0);
    return ranks.every_rank(own == first);
  }
};

inline CompressConfig compress(
    Method method, const std::function<void(CompressConfig&)>& change = [](CompressConfig&) {}) {
  CompressConfig config;
  config.present = true;
  config.method = method;
  config.block = 16;
  config.keep = 0.1;
  change(config);
  return config;
}

}  // namespace lockstep::test
