// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compares compressed sums with PyTorch's communication hooks.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "compression_setting.hpp"

namespace lockstep {
namespace {

using test::compress;
using test::CompressionSetting;
using test::Numbers;
using Method = CompressConfig::Method;

TEST(CompressedSums, ArePyTorchsPowerSgd) {
  const Communicator ranks = Communicator::world();
  if (ranks.size() != 2) GTEST_SKIP() << "power_sgd.json is of 2 ranks";
  const auto golden = nlohmann::json::parse(test::read_golden("power_sgd.json"));
  const std::vector<CompressedBucket> bucket{
      {{0, 1148}, {{{0, 576}, 24, 24}, {{576, 7}, 7, 1}, {{583, 520}, 20, 26}, {{1103, 45}, 5, 9}}}};
  for (const auto& golden_case : golden.at("cases")) {
    const auto columns = golden_case.at("columns").get<std::int64_t>();
    CompressionSetting<double> setting(ranks, compress(Method::powersgd, [&](CompressConfig& c) { c.rank = columns; }),
                                       bucket);
    auto thin = setting.thin.begin();
    for (std::size_t tensor = 0; tensor < bucket[0].tensors.size(); ++tensor) {
      const CompressedTensor& of = bucket[0].tensors[tensor];
      thin = std::ranges::copy(test::filling(900 + tensor, thin_columns(setting.config, of) * of.columns), thin).out;
    }
    Numbers means;
    for (int step = 0; step < 20; ++step) {
      setting.run(step, 8);
      means.assign(setting.numbers.begin(), setting.numbers.end());
      double squares = 0;
      for (double& mean : means) {
        mean /= 2;
        squares += mean * mean;
      }
      const double norm = golden_case.at("norms").at(static_cast<std::size_t>(step));
      ASSERT_NEAR(std::sqrt(squares), norm, 1e-5 * norm) << columns << " columns, step " << step;
    }
    std::size_t at = 0;
    for (const double expected : golden_case.at("means")) {
      ASSERT_NEAR(means[at], expected, 1e-5) << columns << " columns, element " << at;
      at += golden.at("every").get<std::size_t>();
    }
  }
}

/// PyTorch's hooks send all numbers to all ranks, as bytes on a grid from the least to the largest number of a block,
/// without error feedback. Here, the grid of a block is symmetric, and sums are sent as bytes once more. So the means
/// differ by up to a step of each of these grids.
TEST(CompressedSums, ArePyTorchsQuantizationHooksToTheirRounding) {
  const Communicator ranks = Communicator::world();
  if (ranks.size() != 2) GTEST_SKIP() << "quantization_hooks.json is of 2 ranks";
  const auto golden = nlohmann::json::parse(test::read_golden("quantization_hooks.json"));
  for (const auto& golden_case : golden.at("cases")) {
    const auto block = golden_case.at("block").get<std::int64_t>();
    const auto config = compress(Method::int8, [&](CompressConfig& c) { c.block = block, c.error_feedback = false; });
    CompressionSetting<double> setting(ranks, config, {{{0, 1148}, {{{0, 1148}, 1148, 1}}}});
    for (int step = 0; step < 20; ++step) {
      setting.run(step, 1);
      const std::vector<Numbers> parts{setting.gradient(step, 0), setting.gradient(step, 1)};
      std::int64_t at = 0;
      for (const double mean : golden_case.at("means").at(static_cast<std::size_t>(step))) {
        const std::int64_t first = at / block * block;
        double theirs = 0, ours = 0, largest_sum = 0;
        for (const Numbers& part : parts) {
          const auto begin = part.begin() + first, end = part.begin() + std::min<std::int64_t>(1148, first + block);
          const auto [least, most] = std::minmax_element(begin, end);
          const double size = std::max(-*least, *most);
          theirs += (std::max(0.0, *most) - std::min(0.0, *least)) / 255 / 2;
          ours += size / 127 / 2;
          largest_sum += size;
        }
        ours += (largest_sum + ours) / 127 / 2;
        ASSERT_NEAR(setting.numbers[static_cast<std::size_t>(at)] / 2, mean, (theirs + ours) / 2 + 1e-6)
            << "blocks of " << block << ", step " << step << ", element " << at;
        at += golden.at("every").get<std::int64_t>();
      }
    }
  }
}

}  // namespace
}  // namespace lockstep
