// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/layers/plan_cache.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep {
namespace {

/// A product of a library that declines odd sizes, or (`of_all_sizes`) of one that accepts every size.
struct Product {
  std::int64_t n;
  bool of_all_sizes = false;
  const void* weight = nullptr;

  std::unique_ptr<Product> resized(std::int64_t other) const {
    return of_all_sizes || other % 2 == 0 ? std::make_unique<Product>(other, of_all_sizes) : nullptr;
  }
  void set_weight(const Tensor& given) { weight = given.data; }
};

TEST(PlanCache, AnotherLibraryDoesTheSizesThatTheFirstDeclines) {
  PlanCache<Product> cache;
  std::vector<std::int64_t> planned;
  const auto plan = [&](std::int64_t n) {
    planned.push_back(n);
    return std::make_unique<Product>(n, n % 2 != 0);
  };
  float numbers[2] = {};
  cache.prepare(8, plan);
  cache.prepare(3, plan);
  cache.set_weight({&numbers[0], DType::f32, {1}});
  EXPECT_EQ(cache.at(8).weight, &numbers[0]);
  EXPECT_EQ(cache.at(3).weight, &numbers[0]);
  EXPECT_EQ(cache.prepare(4, plan).weight, &numbers[0]) << "made in the middle of a step";
  EXPECT_FALSE(cache.at(4).of_all_sizes) << "the first library does what it can";
  EXPECT_EQ(cache.prepare(5, plan).weight, &numbers[0]);
  EXPECT_EQ(&cache.prepare(4, plan), &cache.at(4));
  EXPECT_EQ(planned, (std::vector<std::int64_t>{8, 3, 5}));
  cache.set_weight({&numbers[1], DType::f32, {1}});
  for (const std::int64_t n : {3, 4, 5, 8}) EXPECT_EQ(cache.at(n).weight, &numbers[1]) << n;
}

}  // namespace
}  // namespace lockstep
