// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "parallel/sync_batch_norm_exchange.hpp"
#include "support/fixtures.hpp"
#include "support/layer_harness.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::json;
using Numbers = std::vector<double>;

/// The results of one process for the whole batch.
struct Joined {
  Numbers y, dx;
  std::vector<Numbers> parameters;  ///< gradients, and the increments of running values
};

/// Number of examples of each rank, n in all; some ranks have none.
std::vector<std::int64_t> dealt_out(std::int64_t n, int ranks) {
  constexpr std::int64_t wanted[] = {5, 0, 3, 1};
  std::vector<std::int64_t> counts(static_cast<std::size_t>(ranks), 0);
  for (int rank = ranks - 1; rank > 0; --rank) {
    auto& count = counts[static_cast<std::size_t>(rank)];
    count = std::min(n, wanted[rank % 4]);
    n -= count;
  }
  counts[0] = n;
  return counts;
}

/// A batch_norm whose examples are dealt out to the ranks of a group.
class Split {
 public:
  Split(const Communicator& group, const std::string& entry, const Shape& shape, std::int64_t n, DType dtype)
      : group_(group),
        layer_(dynamic_cast<const LayerConfig&>(*test::parse_layer(entry).config).make_layer()),
        shape_(shape),
        dtype_(dtype),
        statistics_(Topology(group), master_dtype(dtype), shape[-1]) {
    const auto counts = dealt_out(n, group.size());
    count_ = counts[static_cast<std::size_t>(group.rank())];
    first_ = std::accumulate(counts.begin(), counts.begin() + group.rank(), std::int64_t{0});
    layer_->plan({{shape}, shape, dtype, {}, 3});
    layer_->allocate();
  }

  void expect(const Joined& joined, double tolerance) {
    // The same numbers as in test::LayerHarness.
    const OwnedTensor x = own_part(100), dy = own_part(7), y("y", dtype_, x.get().shape),
                      dx("dx", dtype_, x.get().shape);
    std::vector<Tensor> values, gradients;
    std::vector<OwnedTensor> owners;
    const auto specs = layer_->parameters(std::array{shape_});
    for (std::size_t i = 0; i < specs.size(); ++i) {
      Numbers start = test::filling(200 + i, specs[i].shape.count(), 0.5);
      if (specs[i].kind == ParameterSpec::Kind::statistic)
        for (double& value : start) value += 1;
      owners.push_back(test::make_tensor(master_dtype(dtype_), specs[i].shape, start));
      values.push_back(owners.back().get());
      owners.emplace_back("gradient", master_dtype(dtype_), specs[i].shape);
      gradients.push_back(owners.back().get());
    }
    const OwnedTensor workspace("workspace", DType::u8,
                                {static_cast<std::int64_t>(layer_->prepare(std::max<std::int64_t>(1, count_)))});
    const Tensor inputs[] = {x.get()}, dinputs[] = {dx.get()};
    const LayerTensors tensors{.x = inputs,
                               .y = y.get(),
                               .dx = dinputs,
                               .dy = dy.get(),
                               .parameters = values,
                               .gradients = gradients,
                               .workspace = workspace.get()};

    const PassContext step{.training = true};
    BatchStatistics& statistics = *layer_->batch_statistics();
    BatchStatistics* const all[] = {&statistics};
    if (count_ > 0) layer_->accumulate_statistics(step, tensors, true);
    else empty(statistics);
    statistics_.start_moments(step.space, all);
    statistics_.finish(step.space);
    layer_->finalize_statistics(step, count_);
    if (count_ > 0) {
      layer_->forward(step, tensors);
      layer_->accumulate_gradient_statistics(step, tensors, true);
      layer_->finalize_gradient_statistics(step, tensors, count_);
    } else {
      fill_zero(step.space, statistics.sums);
    }
    statistics_.start_sums(step.space, all);
    statistics_.finish(step.space);
    if (count_ > 0) layer_->backward(step, tensors);

    EXPECT_LT(test::largest_difference(test::values_of(y.get()), part_of(joined.y)), tolerance) << "y";
    EXPECT_LT(test::largest_difference(test::values_of(dx.get()), part_of(joined.dx)), tolerance) << "dx";
    for (std::size_t i = 0; i < specs.size(); ++i) {
      Numbers sum = test::values_of(gradients[i]);
      group_.all_reduce_sum(sum);
      EXPECT_LT(test::largest_difference(sum, joined.parameters[i]), tolerance) << specs[i].name;
    }
  }

 private:
  void empty(BatchStatistics& statistics) const {
    statistics.rows = 0;
    fill_zero(ExecSpace(), statistics.moments);
  }
  Numbers part_of(const Numbers& all) const {
    const std::int64_t each = shape_.count();
    return {all.begin() + first_ * each, all.begin() + (first_ + count_) * each};
  }
  OwnedTensor own_part(std::uint64_t tag) const {
    return test::make_tensor(dtype_, shape_.with_batch(count_),
                             part_of(test::filling(tag, (first_ + count_) * shape_.count())));
  }

  Communicator group_;
  std::unique_ptr<Layer> layer_;
  Shape shape_;
  DType dtype_;
  SyncBatchNormExchange statistics_;
  std::int64_t first_ = 0, count_ = 0;
};

TEST(SyncBatchNorm, IsPyTorchsOfTheJoinedBatch) {
  int cases = 0;
  for (const Json& golden : Json::parse(test::read_golden("layers.json"))) {
    const std::string entry = golden.at("entry");
    if (entry.find("batch_norm") == std::string::npos || golden.at("relu") || golden.value("addition", false)) continue;
    ++cases;
    const auto extents = golden.at("inputs")[0].get<std::vector<std::int64_t>>();
    for (const DType dtype : {DType::f32, DType::f64}) {
      SCOPED_TRACE(fmt::format("{} {}", entry, name_of(dtype)));
      Split split(Communicator::world(), entry, Shape(std::span(extents).subspan(1)), extents[0], dtype);
      split.expect({golden.at("y"), golden.at("dx")[0], golden.at("parameters")}, dtype == DType::f64 ? 1e-13 : 1e-5);
    }
  }
  EXPECT_GT(cases, 0);
}

TEST(SyncBatchNorm, IsOneRanksWithTheJoinedBatch) {
  for (const std::int64_t n : {9, 2, 23})
    for (const Shape& shape : {Shape{5, 4, 7}, Shape{33}})
      for (const DType dtype : {DType::f32, DType::f64}) {
        SCOPED_TRACE(fmt::format("{} examples {} {}", n, to_string(shape), name_of(dtype)));
        test::LayerHarness harness("{batch_norm: {}}", {shape}, n, {.dtype = dtype});
        Joined joined{.y = harness.forward()};
        auto gradients = harness.backward(test::filling(7, harness.output_shape().count()));
        joined.dx = gradients.x[0];
        joined.parameters = gradients.parameters;
        // Shares of 5, 0, 3 and 1 agree to 1e-6. Other shares add hundreds of rows up in other orders, which agree to
        // 1.3e-6 in fp32. Two vectors may have a tiny variance, whose inverse root is large.
        const bool as_promised = n == 9 && Communicator::world().size() == 4;
        const double tolerance = (n == 2 ? 20 : 1) * (dtype == DType::f64 ? 4e-13 : as_promised ? 1e-6 : 2e-6);
        Split(Communicator::world(), "{batch_norm: {}}", shape, n, dtype).expect(joined, tolerance);
      }
}

TEST(SyncBatchNorm, OfGroupsLooksAtTheGroupAlone) {
  const Communicator world = Communicator::world();
  const Communicator group = world.split(world.rank() / 2);
  constexpr std::int64_t n = 7;
  const Shape shape{5, 4, 7};
  test::LayerHarness harness("{batch_norm: {}}", {shape}, n, {.dtype = DType::f64});
  Joined joined{.y = harness.forward()};
  auto gradients = harness.backward(test::filling(7, harness.output_shape().count()));
  joined.dx = gradients.x[0];
  joined.parameters = gradients.parameters;
  Split(group, "{batch_norm: {}}", shape, n, DType::f64).expect(joined, 1e-12);
}

}  // namespace
}  // namespace lockstep
