// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compares compressed sums with plain loops, and tests what no scheme may lose.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <utility>

#include "compression_setting.hpp"
#include "counting_network.hpp"
#include "parallel/compression/compression.hpp"
#include "support/layer_harness.hpp"
#include "train/gradient_noise_scale.hpp"

namespace lockstep {
namespace {

using test::compress;
using test::CompressionSetting;
using test::Numbers;
using test::small_buckets;
using Method = CompressConfig::Method;

class Compressed : public testing::TestWithParam<Method> {
 protected:
  const Communicator ranks = Communicator::world();
};

/// What is sent and what is left as errors add up to the gradients, also for batches of different sizes.
TEST_P(Compressed, WhatIsSentAndWhatIsLeftAreTheGradients) {
  CompressionSetting<double> setting(ranks, compress(GetParam()), small_buckets());
  Numbers expected(setting.numbers.size(), 0.0), sent(expected);
  for (int step = 0; step < 12; ++step) {
    const double examples = step < 6 ? 12 : 40;
    setting.run(step, examples);
    EXPECT_TRUE(setting.all_have_the_same()) << "step " << step;
    for (std::size_t i = 0; i < sent.size(); ++i) sent[i] += setting.numbers[i] / examples;
    for (int rank = 0; rank < ranks.size(); ++rank) {
      const Numbers gradient = setting.gradient(step, rank);
      for (std::size_t i = 0; i < sent.size(); ++i) expected[i] += gradient[i] / examples;
    }
  }
  Numbers left(setting.errors.begin(), setting.errors.end());
  ranks.all_reduce_sum(left);
  EXPECT_GT(*std::ranges::max_element(left), 1e-4) << "nothing was left";
  for (std::size_t i = 0; i < sent.size(); ++i) ASSERT_NEAR(sent[i] + left[i], expected[i], 1e-12) << "element " << i;
}

TEST_P(Compressed, GapsStayZero) {
  CompressionSetting<float> setting(ranks, compress(GetParam()), small_buckets());
  for (int step = 0; step < 3; ++step) setting.run(step, 5);
  for (const ElementRange gap : {ElementRange{583, 17}, {1120, 80}, {1245, 5}})
    for (std::int64_t i = gap.first; i < gap.end(); ++i) EXPECT_EQ(setting.numbers[static_cast<std::size_t>(i)], 0);
}

/// Gradients that are not finite make the sum not finite on all ranks.
TEST_P(Compressed, WhatIsNoNumberShowsEverywhere) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    CompressionSetting<float> setting(ranks, compress(GetParam()), small_buckets());
    setting.run(1, 5);
    if (ranks.rank() == ranks.size() - 1) setting.numbers[77] = bad;
    setting.sum->start(0, 1200);
    wait_until([&] { return setting.sum->advance(); });
    EXPECT_TRUE(std::ranges::any_of(setting.numbers, [](float x) { return !std::isfinite(x); }));
  }
}

/// Without error feedback, nothing of a step with a NaN is left in later steps.
TEST_P(Compressed, WhatIsNoNumberGoesWithItsStep) {
  const auto without_errors = compress(GetParam(), [](CompressConfig& c) { c.error_feedback = false; });
  CompressionSetting<float> setting(ranks, without_errors, small_buckets());
  setting.run(1, 5);
  if (ranks.is_root()) setting.numbers[77] = std::numeric_limits<float>::quiet_NaN();
  setting.sum->start(0, 1200);
  wait_until([&] { return setting.sum->advance(); });
  setting.run(2, 5);
  EXPECT_TRUE(std::ranges::all_of(setting.numbers, [](float x) { return std::isfinite(x); }));
  EXPECT_TRUE(setting.all_have_the_same());
}

INSTANTIATE_TEST_SUITE_P(Methods, Compressed,
                         testing::Values(Method::int8, Method::sign, Method::topk, Method::powersgd),
                         [](const auto& info) {
                           return std::string(compression_names[static_cast<std::size_t>(info.param)]);
                         });

/// C(p) of a rank, by a scheme in which all ranks send to all, in plain loops.
using Encode = std::function<Numbers(const Numbers& p, const CompressedBucket& bucket)>;

void expect_gathered(const CompressConfig& config, const Encode& encode) {
  const Communicator ranks = Communicator::world();
  CompressionSetting<double> setting(ranks, config, small_buckets());
  std::vector<Numbers> errors(static_cast<std::size_t>(ranks.size()), Numbers(setting.numbers.size(), 0.0));
  for (int step = 0; step < 20; ++step) {
    setting.run(step, 8);
    Numbers sum(setting.numbers.size(), 0.0);
    for (int rank = 0; rank < ranks.size(); ++rank) {
      Numbers& error = errors[static_cast<std::size_t>(rank)];
      Numbers p = setting.gradient(step, rank);
      for (std::size_t i = 0; i < p.size(); ++i) p[i] += 8 * error[i];
      for (const CompressedBucket& bucket : setting.buckets) {
        const Numbers sent = encode(p, bucket);
        for (std::int64_t at = bucket.place.first; at < bucket.place.end(); ++at) {
          const auto i = static_cast<std::size_t>(at);
          sum[i] += sent[i];
          if (config.error_feedback) error[i] = (p[i] - sent[i]) / 8;
        }
      }
    }
    for (std::size_t i = 0; i < sum.size(); ++i)
      ASSERT_NEAR(setting.numbers[i], sum[i], 1e-12) << "step " << step << ", element " << i;
  }
}

TEST(CompressedSums, SendSignsAndMeanSizes) {
  expect_gathered(compress(Method::sign), [](const Numbers& p, const CompressedBucket& bucket) {
    Numbers sent(p.size(), 0.0);
    for (const CompressedTensor& tensor : bucket.tensors) {
      double size = 0;
      for (auto i = tensor.place.first; i < tensor.place.end(); ++i) size += std::abs(p[static_cast<std::size_t>(i)]);
      size /= static_cast<double>(tensor.place.count);
      for (auto i = static_cast<std::size_t>(tensor.place.first); i < static_cast<std::size_t>(tensor.place.end()); ++i)
        sent[i] = p[i] < 0 ? -size : size;
    }
    return sent;
  });
}

/// Places of the tensor's numbers, the largest number first.
std::vector<std::size_t> by_size(const Numbers& p, const CompressedTensor& tensor) {
  std::vector<std::size_t> order(static_cast<std::size_t>(tensor.place.count));
  std::iota(order.begin(), order.end(), static_cast<std::size_t>(tensor.place.first));
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return std::abs(p[a]) > std::abs(p[b]); });
  return order;
}

TEST(CompressedSums, SendTheLargestNumbers) {
  expect_gathered(compress(Method::topk), [](const Numbers& p, const CompressedBucket& bucket) {
    Numbers sent(p.size(), 0.0);
    for (const CompressedTensor& tensor : bucket.tensors) {
      std::vector<std::size_t> order = by_size(p, tensor);
      order.resize((order.size() + 9) / 10);
      for (const std::size_t i : order) sent[i] = p[i];
    }
    return sent;
  });
}

/// The first two steps are exact. Then a quarter of the numbers is sent in three steps, a 16th in three, and 0.05 from
/// there on: 2, 1 and 1 numbers of a tensor of 7.
TEST(CompressedSums, SendFewerNumbersFromStageToStage) {
  const Communicator ranks = Communicator::world();
  const auto config = compress(Method::topk,
                               [](CompressConfig& c) { c.keep = 0.05, c.ramp_steps = 3, c.from_step = 2; });
  CompressionSetting<double> setting(ranks, config, small_buckets());
  std::vector<Numbers> error(static_cast<std::size_t>(ranks.size()), Numbers(setting.numbers.size(), 0.0));
  for (int step = 1; step <= 12; ++step) {
    const double part = step <= 5 ? 0.25 : step <= 8 ? 0.0625 : 0.05;
    setting.run(step, 8);
    EXPECT_TRUE(setting.all_have_the_same()) << "step " << step;
    Numbers sum(setting.numbers.size(), 0.0);
    for (std::size_t rank = 0; rank < error.size(); ++rank) {
      Numbers& p = error[rank];
      std::ranges::transform(p, setting.gradient(step, static_cast<int>(rank)), p.begin(), std::plus<>());
      for (const CompressedBucket& bucket : setting.buckets)
        for (const CompressedTensor& tensor : bucket.tensors) {
          std::vector<std::size_t> order = by_size(p, tensor);
          if (step > 2) order.resize(static_cast<std::size_t>(std::ceil(part * static_cast<double>(order.size()))));
          for (const std::size_t i : order) sum[i] += std::exchange(p[i], 0);
        }
    }
    for (std::size_t i = 0; i < sum.size(); ++i)
      ASSERT_NEAR(setting.numbers[i], sum[i], 1e-12) << "step " << step << ", element " << i;
  }
}

/// The owner of a slice receives the other ranks' numbers in 8 bits, and sends the sum in 8 bits.
TEST(CompressedSums, SendBytesAndScales) {
  const Communicator ranks = Communicator::world();
  const auto config = compress(Method::int8);
  CompressionSetting<double> setting(ranks, config, small_buckets());
  const auto rounded = [](const Numbers& all, std::size_t first, std::size_t end) {
    double scale = 0;
    for (auto i = first; i < end; ++i) scale = std::max(scale, std::abs(all[i]) / 127);
    Numbers block;
    for (auto i = first; i < end; ++i) block.push_back(scale > 0 ? scale * std::nearbyint(all[i] / scale) : 0);
    return block;
  };
  std::vector<Numbers> errors(static_cast<std::size_t>(ranks.size()), Numbers(setting.numbers.size(), 0.0));
  for (int step = 0; step < 20; ++step) {
    setting.run(step, 8);
    std::vector<Numbers> p;
    for (int rank = 0; rank < ranks.size(); ++rank) {
      p.push_back(setting.gradient(step, rank));
      for (std::size_t i = 0; i < p.back().size(); ++i) p.back()[i] += 8 * errors[static_cast<std::size_t>(rank)][i];
    }
    for (const CompressedBucket& bucket : setting.buckets) {
      const std::int64_t blocks = (bucket.place.count + 15) / 16;
      for (int owner = 0; owner < ranks.size(); ++owner)
        for (auto block = slice_of(blocks, owner, ranks.size()).first;
             block < slice_of(blocks, owner, ranks.size()).end(); ++block) {
          const auto first = static_cast<std::size_t>(bucket.place.first + 16 * block);
          const auto end = std::min(first + 16, static_cast<std::size_t>(bucket.place.end()));
          Numbers sum = p[static_cast<std::size_t>(owner)];
          for (std::size_t rank = 0; rank < p.size(); ++rank) {
            if (static_cast<int>(rank) == owner) continue;
            const Numbers sent = rounded(p[rank], first, end);
            for (std::size_t i = first; i < end; ++i) {
              sum[i] += sent[i - first];
              errors[rank][i] = (p[rank][i] - sent[i - first]) / 8;
            }
          }
          const Numbers sent = rounded(sum, first, end);
          for (std::size_t i = first; i < end; ++i) {
            errors[static_cast<std::size_t>(owner)][i] = (sum[i] - sent[i - first]) / 8;
            ASSERT_NEAR(setting.numbers[i], sent[i - first], 1e-9) << "step " << step << ", element " << i;
          }
        }
    }
  }
}

/// A scheme that keeps everything gives the exact sum.
TEST(CompressedSums, AreExactWhereAllTravels) {
  const Communicator ranks = Communicator::world();
  for (const CompressConfig& config :
       {compress(Method::topk, [](CompressConfig& c) { c.keep = 1; }),
        compress(Method::powersgd, [](CompressConfig& c) { c.rank = 100, c.min_ratio = 0.01; })}) {
    CompressionSetting<float> setting(ranks, config, small_buckets());
    for (int step = 0; step < 5; ++step) {
      setting.run(step, 8);
      Numbers sum(setting.numbers.size(), 0.0);
      for (int rank = 0; rank < ranks.size(); ++rank)
        std::ranges::transform(sum, setting.gradient(step, rank), sum.begin(), std::plus<>());
      for (std::size_t i = 0; i < sum.size(); ++i)
        ASSERT_NEAR(setting.numbers[i] / static_cast<float>(ranks.size()), sum[i] / ranks.size(), 1e-6)
            << compression_names[static_cast<std::size_t>(config.method)] << ", step " << step;
    }
  }
}

/// Gradients that are 0, or of a smaller matrix rank (after a relu that passes nothing), do not stop later training.
TEST(CompressedSums, OutlastMatricesWithoutDirections) {
  const Communicator ranks = Communicator::world();
  CompressionSetting<float> setting(ranks, compress(Method::powersgd), {{{0, 576}, {{{0, 576}, 24, 24}}}});
  const auto run = [&](float filling) {
    ++setting.step.number;
    std::ranges::fill(setting.numbers, filling);
    setting.sum->start(0, 576);
    wait_until([&] { return setting.sum->advance(); });
  };
  run(0);
  EXPECT_EQ(std::ranges::count(setting.numbers, 0.0f), 576);
  for (const float filling : {1.0f, 2.0f, 3.0f}) {
    run(filling);
    for (const float number : setting.numbers)
      ASSERT_NEAR(number, filling * static_cast<float>(ranks.size()), 1e-4f * filling);
  }
}

TEST(GradientSketch, HasTheSquareOfTheSum) {
  if (memory_is_separate) GTEST_SKIP() << "it is of gradients on hosts";
  const Communicator ranks = Communicator::world();
  const std::int64_t count = 20000, half = 7000;
  const auto numbers = [&](int rank) { return test::filling(static_cast<std::uint64_t>(40 + rank), count); };
  Numbers sum(static_cast<std::size_t>(count), 0.0);
  for (int rank = 0; rank < ranks.size(); ++rank)
    std::ranges::transform(sum, numbers(rank), sum.begin(), std::plus<>());
  const double expected = std::inner_product(sum.begin(), sum.end(), sum.begin(), 0.0);
  const OwnedTensor own = test::make_tensor(DType::f64, {count}, numbers(ranks.rank()));
  GradientSketch sketch(5);
  double mean = 0;
  for (int step = 0; step < 20; ++step) {
    double* const first = own.get().as<double>();
    sketch.add(ExecSpace(), step, {first, DType::f64, {half}}, 0);
    sketch.add(ExecSpace(), step, {first + half, DType::f64, {count - half}}, half);
    mean += sketch.take_square(ranks) / 20;
  }
  EXPECT_NEAR(mean, expected, 0.02 * expected);  // one sketch has a deviation of 0.022
}

/// The bytes that all ranks together send in a step of 65536 numbers.
TEST(CompressedSums, SendTheBytesOfTheFormulae) {
  const Communicator world = Communicator::world();
  const auto network = std::make_shared<test::CountingNetwork>(1);
  const Communicator ranks = world.over(network);
  const double others = world.size() - 1;
  const auto sent = [&](const CompressConfig& config, int step = 1) {
    CompressionSetting<float> setting(ranks, config, {{{0, 65536}, {{{0, 65536}, 256, 256}}}});
    setting.run(step, 1);
    return network->take_bytes(world);
  };
  const auto blocks = [](CompressConfig& c) { c.block = 256; };
  EXPECT_EQ(sent(compress(Method::int8, blocks)), 2 * others * (65536 + 4 * 256));
  EXPECT_EQ(sent(compress(Method::sign)), world.size() * others * (65536 / 8 + 4));
  EXPECT_EQ(sent(compress(Method::topk)), world.size() * others * 6554 * 8);
  const auto ramp = compress(Method::topk, [](CompressConfig& c) { c.keep = 0.003, c.ramp_steps = 10; });
  for (int step = 1, travelling = 65536 / 4; step <= 40; step += 10, travelling /= 4)
    for (const int in_stage : {step, step + 9})
      EXPECT_EQ(sent(ramp, in_stage), world.size() * others * travelling * 8) << "step " << in_stage;
  EXPECT_EQ(sent(ramp, 41), world.size() * others * 197 * 8);
  EXPECT_EQ(sent(compress(Method::powersgd, [](CompressConfig& c) { c.rank = 16; })), 2 * others * 2 * 256 * 16 * 4);
}

/// Places are sent in 32 bits, which limits the size of tensors. The test makes layouts only, and allocates nothing.
TEST(CompressedSums, LargestNumbersAreOfTensorsWhosePlacesFit) {
  const Topology ranks(Communicator::world());
  const auto make = [&](std::int64_t features, Method method) {
    const Graph graph(test::parse_layers(fmt::format("[{{linear: {}}}]", features)), {65536});
    ParallelConfig config;
    config.compress = compress(method, [](CompressConfig& c) { c.error_feedback = false; });
    EXPECT_NE(Compression::make(config, ranks, std::nullopt, ParameterLayout(graph.layer_specs(), DType::f32), 0),
              nullptr);
  };
  try {
    make(65537, Method::topk);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const SharedError& error) {
    EXPECT_NE(std::string(error.what()).find("/weight has 4295032832 elements"), std::string::npos) << error.what();
  }
  make(65536, Method::topk);
  make(65537, Method::sign);
}

}  // namespace
}  // namespace lockstep
