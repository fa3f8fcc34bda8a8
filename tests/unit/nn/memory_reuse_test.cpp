// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include "core/memory_plan.hpp"
#include "core/random.hpp"
#include "nn/model.hpp"
#include "support/fixtures.hpp"
#include "support/layer_harness.hpp"
#include "support/plain_model.hpp"

namespace lockstep {
namespace {

/// Builds random networks of chains, branches and sums, also of a layer with itself; every layer has a reader.
class RandomNetwork {
 public:
  explicit RandomNetwork(std::uint64_t seed) : random_(seed, RandomPurpose::dataset) {
    add("{conv2d: {filters: 3, kernel: 3, padding: same}}", {});
    static const char* const image_layers[] = {"{conv2d: {filters: 3, kernel: 3, padding: same}}",
                                               "{batch_norm: {}}",
                                               "{dropout: {rate: 0.3}}",
                                               "{max_pool: {kernel: 3, stride: 1, padding: 1}}",
                                               "{avg_pool: {kernel: 3, stride: 1, padding: 1}}",
                                               "{relu: {}}",
                                               "{batch_norm: {}}",
                                               "{batch_norm: {}}",
                                               "{batch_norm: {}}",
                                               "{layer_norm: {}}",
                                               "{gelu: {}}"};
    stage(image_layers);
    add("{flatten: {}}", {last()});
    begin_ = names_.size() - 1;
    add("{linear: {features: 4}}", {last()});
    begin_ = names_.size() - 1;
    static const char* const vector_layers[] = {
        "{linear: {features: 4}}", "{relu: {}}", "{dropout: {rate: 0.3}}",
        "{flatten: {}}",           "{relu: {}}", "{linear: {features: 4, bias: false}}",
        "{batch_norm: {}}",        "{gelu: {}}", "{tanh: {}}"};
    stage(vector_layers);
  }

  std::string list() const { return "[" + text_ + "]"; }

 private:
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_.below(n, draws_++)); }
  std::size_t last() const { return names_.size() - 1; }

  void add(const std::string& layer, const std::vector<std::size_t>& from) {
    std::string entry = layer.substr(0, layer.size() - 1) + ", name: n" + std::to_string(names_.size());
    if (!from.empty()) {
      entry += ", from: [";
      for (const auto i : from) entry += (entry.back() == '[' ? "" : ", ") + names_[i], ++readers_[i];
      entry += "]";
    }
    text_ += (text_.empty() ? "" : ", ") + entry + "}";
    names_.push_back("n" + std::to_string(names_.size()));
    readers_.push_back(0);
  }

  std::size_t any() { return begin_ + below(names_.size() - begin_); }

  template <std::size_t count>
  void stage(const char* const (&layers)[count]) {
    const std::size_t steps = 2 + below(7);
    for (std::size_t i = 0; i < steps; ++i) {
      if (below(3) == 0) {
        std::vector<std::size_t> from{any(), any()};
        while (below(3) == 0) from.push_back(any());
        add("{add: {}}", from);
      } else {
        add(layers[below(count)], {below(2) ? last() : any()});
      }
    }
    std::vector<std::size_t> unread;
    for (std::size_t i = begin_; i < names_.size(); ++i)
      if (readers_[i] == 0) unread.push_back(i);
    if (unread.size() > 1) add("{add: {}}", unread);
  }

  RandomStream random_;
  std::uint64_t draws_ = 0;
  std::size_t begin_ = 0;  ///< the first layer of this stage, whose layers all have one shape
  std::string text_;
  std::vector<std::string> names_;
  std::vector<int> readers_;
};

std::vector<std::vector<double>> gradients_of(ParameterBuffer& parameters) {
  std::vector<std::vector<double>> all;
  for (const auto& parameter : parameters.parameters()) all.push_back(test::values_of(parameters.gradients(parameter)));
  return all;
}

/// Expects a model whose layers reuse each other's memory in the arena to compute what separate memory gives.
void expect_same(const std::string& layers, const Shape& input, Purpose purpose, std::int64_t max_batch = 3) {
  SCOPED_TRACE(layers);
  const auto items = test::parse_layers(layers);
  const ProvidersConfig portable = test::using_provider(ProviderKind::portable);
  Model model(Graph(items, input),
              {.dtype = DType::f64, .providers = portable, .max_batch = max_batch, .purpose = purpose});
  PassContext context{.training = purpose == Purpose::training, .seed = 3, .step = 4, .first_example = 1};
  // After the first round, the arena is full of old numbers.
  for (const std::int64_t n : {max_batch, max_batch, std::int64_t{1}, max_batch - 1}) {  // with a ragged last chunk
    context.step = context.step() + 1;
    test::PlainModel plain(Graph(items, input), DType::f64, n, portable);
    plain.parameters().initialize(context.space, 8);
    model.parameters().initialize(context.space, 8);
    const OwnedTensor x = test::make_filled(DType::f64, input.with_batch(n),
                                            static_cast<std::uint64_t>(50 + context.step()));
    const Tensor y = model.forward(context, x.get());
    // Equal bit for bit, unless there are chunks: norms combine their statistics.
    const auto outputs = test::values_of(y), wanted = test::values_of(plain.forward(context, x.get()));
    if (max_batch <= 3) ASSERT_EQ(outputs, wanted);
    else ASSERT_LT(test::largest_difference(outputs, wanted), 1e-11);
    if (purpose == Purpose::inference) continue;
    const auto dy = test::filling(60, y.count());
    test::set_values(model.output_gradient(), dy);
    test::poison(model.parameters().gradients());
    std::int64_t ready = 0;
    model.backward(context, x.get(), [&](ElementRange range) {
      EXPECT_EQ(range.first, ready) << "ranges come in the buffer's order";
      ready += range.count;
    });
    EXPECT_EQ(ready, model.parameters().size());
    plain.backward(context, x.get(), dy);
    // Not bit for bit: gradients that reach one layer through views are added in another order.
    const auto got = gradients_of(model.parameters()), expected = gradients_of(plain.parameters());
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_LT(test::largest_difference(got[i], expected[i]), 1e-10);
  }
}

/// Number of tasks of the plan that recompute.
int computed_again(const std::string& layers, const Shape& input, std::int64_t n, Checkpointing checkpointing) {
  const ExecutionPlan plan = plan_step(Graph(test::parse_layers(layers), input), DType::f64, n, Purpose::training,
                                       checkpointing);
  int tasks = 0;
  for (const Segment& segment : plan.backward)
    for (const Task& task : segment.tasks) tasks += task.kind == Task::Kind::recompute;
  return tasks;
}

TEST(MemoryReuse, RandomNetworks) {
  for (std::uint64_t seed = 0; seed < 150 && !testing::Test::HasFatalFailure(); ++seed)
    expect_same(RandomNetwork(seed).list(), {5, 4, 2}, Purpose::training);
}

/// The norm b reads its gradient a second time once its sums over all examples are done. Until then no layer may change
/// the memory of that gradient, which b shares with the sum t, and t with a layer before it: neither the relu, with the
/// gradient of l, nor another layer that adds to the gradient (l to that of n).
TEST(MemoryReuse, SharedGradientsStayUntilAllHaveReadThem) {
  const std::string begin =
      "[{linear: {features: 4}, name: x}, {linear: {features: 4}}, {batch_norm: {}, name: n}, {linear: {features: 4}, name: l},"
      " {relu: {}, name: r}, {linear: {features: 4}, name: c, from: x}, {batch_norm: {}, name: b}, ";
  for (const char* end : {"{add: {}, from: [r, c], name: t}, {add: {}, from: [b, t]}, {linear: {features: 3}}]",
                          "{add: {}, from: [n, c], name: t}, {add: {}, from: [b, t], name: u}, {add: {}, from: [u, r]},"
                          " {linear: {features: 3}}]"})
    expect_same(begin + end, {5}, Purpose::training);
}

TEST(MemoryReuse, RandomNetworksInEvaluation) {
  for (std::uint64_t seed = 0; seed < 40 && !testing::Test::HasFatalFailure(); ++seed)
    expect_same(RandomNetwork(seed).list(), {5, 4, 2}, Purpose::inference);
}

/// Batches so large that they are cut into chunks, which must not change results.
TEST(MemoryReuse, RandomNetworksInChunks) {
  if (runs_on_device) GTEST_SKIP() << "plans for devices cut nothing";
  int cut = 0, again = 0;
  const int threads = planned_threads();  // with several, chunks are four times as large per thread
  const std::int64_t n = 130 * (threads == 1 ? 1 : 4 * threads);
  for (std::uint64_t seed = 0; seed < 30 && !testing::Test::HasFatalFailure(); ++seed) {
    const std::string layers = RandomNetwork(seed).list();
    const Shape input{15, 16, 2};
    const ExecutionPlan plan = plan_step(Graph(test::parse_layers(layers), input), DType::f64, n, Purpose::training);
    for (const Segment& segment : plan.forward) cut += segment.chunk < n;
    again += computed_again(layers, input, n, Checkpointing::none);
    expect_same(layers, input, Purpose::training, n);
  }
  EXPECT_GE(cut, 30);
  EXPECT_GE(again, 3);
}

/// A residual sum is fused into the norm after it, and the norm adds to the sum's gradient, with and without chunks.
TEST(MemoryReuse, SumsJoinTheNormsThatReadThem) {
  const std::string layers =
      "[{linear: {features: 64}, name: a}, {layer_norm: {}}, {linear: {features: 64}, name: b}, {add: {}, from: [a, b], name: s},"
      " {layer_norm: {}, name: n}, {linear: {features: 64}, name: c}, {add: {}, from: [s, c], name: u}, {layer_norm: {}, name: m}]";
  for (const std::int64_t n : {4, 4000}) {
    const Graph graph(test::parse_layers(layers), {64});
    const ExecutionPlan plan = plan_step(graph, DType::f32, n, Purpose::training);
    std::vector<int> sums;
    for (const Segment& segment : plan.forward)
      for (const Task& task : segment.tasks) {
        EXPECT_NE(graph.nodes()[static_cast<std::size_t>(task.node)].name, "s") << "has no task of its own";
        if (task.sum < 0) continue;
        sums.push_back(task.sum);
        EXPECT_EQ(task.node, task.sum + 1);
      }
    EXPECT_EQ(sums, (std::vector<int>{3, 6}));
    EXPECT_TRUE(plan.adds_gradient[4]) << "after the sum's other reader";
    EXPECT_FALSE(plan.adds_gradient[7]) << "it alone reads its sum";
    for (const auto& detours : plan.staging)
      for (const Allocation& staging : detours) EXPECT_FALSE(staging);
    expect_same(layers, {64}, Purpose::training, n);
  }
}

/// Expects recomputed activations to equal the discarded ones bit for bit: gradients are the same.
void expect_same_with_blocks(const std::string& layers, const Shape& input, std::int64_t n) {
  SCOPED_TRACE(layers);
  const auto items = test::parse_layers(layers);
  std::vector<std::vector<std::vector<double>>> gradients;
  for (const Checkpointing checkpointing : {Checkpointing::none, Checkpointing::blocks}) {
    Model model(Graph(items, input), {.dtype = DType::f64,
                                      .providers = test::using_provider(ProviderKind::portable),
                                      .max_batch = n,
                                      .checkpointing = checkpointing});
    PassContext context{.seed = 3, .step = 4};
    model.parameters().initialize(context.space, 8);
    const OwnedTensor x = test::make_filled(DType::f64, input.with_batch(n), 50);
    for (int round = 0; round < 2; ++round) {  // the second round meets an arena full of old numbers
      const Tensor y = model.forward(context, x.get());
      test::set_values(model.output_gradient(), test::filling(60, y.count()));
      model.backward(context, x.get(), [](ElementRange) {});
    }
    context.space.fence();
    gradients.push_back(gradients_of(model.parameters()));
  }
  EXPECT_EQ(gradients[0], gradients[1]);
}

TEST(MemoryReuse, BlocksComputedAgain) {
  int again = 0;
  for (std::uint64_t seed = 0; seed < 100 && !testing::Test::HasFailure(); ++seed) {
    again += computed_again(RandomNetwork(seed).list(), {5, 4, 2}, 3, Checkpointing::blocks) > 0;
    expect_same_with_blocks(RandomNetwork(seed).list(), {5, 4, 2}, 3);
  }
  EXPECT_GT(again, 20);
  for (std::uint64_t seed = 0; seed < 20 && !testing::Test::HasFailure(); ++seed)
    expect_same_with_blocks(RandomNetwork(seed).list(), {15, 16, 2}, 130);
}

TEST(MemoryReuse, BlocksNeedLessMemory) {
  std::string list = "[{linear: {features: 100}}";
  for (int i = 0; i < 35; ++i) list += ", {linear: {features: 100}}, relu";
  const Graph graph(test::parse_layers(list + "]"), {100});
  const std::size_t all = plan_step(graph, DType::f64, 8, Purpose::training).bytes;
  EXPECT_LE(plan_step(graph, DType::f64, 8, Purpose::training, Checkpointing::blocks).bytes,
            all * 14 / 36);  // 2·√36 layers, and some room
}

TEST(MemoryReuse, LayersThatReadTheData) {
  for (const char* layers :
       {"[flatten, relu, {linear: {features: 2}}]", "[flatten, flatten, {linear: {features: 2}}, flatten]",
        "[relu, flatten]", "[{dropout: {rate: 0.5}}, flatten, {linear: {features: 3}}, relu, relu]",
        "[{flatten: {}, name: a}, {add: {}, from: [a, a]}, {linear: {features: 2}}]",
        "[{flatten: {}, name: a}, {linear: {features: 40}, name: b}, {add: {}, from: [b, a, b]}]",
        "[{max_pool: {kernel: 2}}, flatten, {linear: {features: 2}}]", "[flatten, {linear: {features: 2}}]"})
    expect_same(layers, {5, 4, 2}, Purpose::training);
}

TEST(MemoryReuse, DeepChainsNeedLittleMoreInEvaluation) {
  std::string list = "[{linear: {features: 100}}";
  for (int i = 0; i < 20; ++i) list += ", {linear: {features: 100}}, relu";
  const Graph graph(test::parse_layers(list + "]"), {100});
  const std::size_t one = 8 * 100 * sizeof(double);
  EXPECT_LE(plan_step(graph, DType::f64, 8, Purpose::inference).bytes, 2 * align_up(one));
  EXPECT_LE(plan_step(graph, DType::f64, 8, Purpose::training).bytes, 24 * align_up(one));
}

}  // namespace
}  // namespace lockstep
