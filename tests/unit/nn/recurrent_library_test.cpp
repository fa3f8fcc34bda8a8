// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <algorithm>

#include "nn/layers/recurrent.hpp"
#include "ops/elementwise/copies.hpp"
#include "ops/products/library_products.hpp"
#include "support/fixtures.hpp"
#include "support/layer_harness.hpp"

// Compares recurrent layers by a library with our own steps. A stand-in, made of our steps with its weights in another
// order, tests the code around a library in every build; libraries themselves are tested where they exist.

namespace lockstep {
namespace {

using test::LayerHarness;

ProvidersConfig step_by_step() {
  ProvidersConfig providers;
  providers.recurrent = ProviderKind::portable;
  return providers;
}

RecurrentConfig config_of(RecurrentCell cell, std::int64_t units, std::int64_t directions) {
  RecurrentConfig config(cell);
  config.units = units;
  config.bidirectional = directions == 2;
  return config;
}

/// Our own layer as a library that stores the last gate's matrices first, and all biases after all matrices, with gaps.
class StandIn final : public RecurrentProducts {
 public:
  static inline int runs = 0;                 // forward passes since a test has set it to 0
  static inline std::size_t bytes_for_n = 0;  // bytes saved in addition for n > 1

  explicit StandIn(const RecurrentShape& s) : shape_(s), layer_(config_of(s.cell, s.units, s.directions)) {
    const Shape x{s.length, s.in}, y{s.length, s.outputs()};
    layer_.plan({{x}, y, s.dtype, step_by_step(), 0});
    workspace_bytes_ = layer_.prepare(s.n);
    saved_bytes_ = layer_.saved_bytes(s.n, y);
    const auto specs = layer_.parameters({&x, 1});
    for (const ParameterSpec& spec : specs) {
      weight_.emplace_back("weight", s.dtype, spec.shape);
      value_.emplace_back("value", master_dtype(s.dtype), spec.shape);
      gradient_.emplace_back("gradient", master_dtype(s.dtype), spec.shape);
      weights_.push_back(weight_.back().get());
      values_.push_back(value_.back().get());
      gradients_.push_back(gradient_.back().get());
    }
    for (const bool biases : {false, true})
      for (std::size_t i = 0; i < specs.size(); ++i)
        for (std::int64_t gate = gates_of(s.cell) - 1; gate >= 0 && biases == (specs[i].shape.rank() == 1); --gate) {
          const std::int64_t part = specs[i].shape.count() / gates_of(s.cell);
          pieces_.push_back({i, gate * part, part, weight_count_});
          weight_count_ += part + 4;
        }
  }

  std::span<const WeightPiece> pieces() const override { return pieces_; }
  std::int64_t weight_count() const override { return weight_count_; }
  std::size_t saved_bytes() const override { return saved_bytes_ + (shape_.n > 1 ? bytes_for_n : 0); }
  std::size_t workspace_bytes() const override { return workspace_bytes_; }

  void forward(const ExecSpace& space, const void* weights, const void* x, void* y, void* saved,
               void* workspace) const override {
    ++runs;
    const Tensor packed{const_cast<void*>(weights), shape_.dtype, {weight_count_}};
    for (const WeightPiece& piece : pieces_)
      copy(space, piece.in_library(packed), piece.in_parameter(weights_[piece.parameter]));
    for (std::size_t i = 0; i < weights_.size(); ++i) convert(space, weights_[i], values_[i]);
    layer_.set_weights(weights_);
    x_ = x_of(x);
    layer_.forward({.space = space}, tensors(y, saved, workspace));
  }
  void backward_data(const ExecSpace& space, const void*, const void* y, const void* dy, void* dx, void* saved,
                     void* workspace) const override {
    const Tensor dx_tensor = x_of(dx);
    LayerTensors t = tensors(const_cast<void*>(y), saved, workspace);
    t.dx = {&dx_tensor, 1};
    t.dy = y_of(const_cast<void*>(dy));
    t.gradients = gradients_;
    layer_.backward({.space = space}, t);
    test::poison({saved, DType::u8, {static_cast<std::int64_t>(saved_bytes_)}});  // as libraries may overwrite it
  }
  void backward_weights(const ExecSpace& space, const void* x, const void*, void* dweights, void*,
                        void*) const override {
    EXPECT_EQ(x, x_.data);
    const Tensor packed{dweights, shape_.dtype, {weight_count_}};
    for (const WeightPiece& piece : pieces_)
      add_converted(space, piece.in_parameter(gradients_[piece.parameter]), piece.in_library(packed));
  }

 private:
  Tensor x_of(const void* data) const {
    return {const_cast<void*>(data), shape_.dtype, {shape_.n, shape_.length, shape_.in}};
  }
  Tensor y_of(void* data) const { return {data, shape_.dtype, {shape_.n, shape_.length, shape_.outputs()}}; }
  LayerTensors tensors(void* y, void* saved, void* workspace) const {
    return {.x = {&x_, 1},
            .y = y_of(y),
            .parameters = values_,
            .saved = {saved, DType::u8, {saved ? static_cast<std::int64_t>(saved_bytes_) : 0}},
            .workspace = {workspace, DType::u8, {static_cast<std::int64_t>(workspace_bytes_)}}};
  }

  RecurrentShape shape_;
  mutable Recurrent layer_;
  mutable Tensor x_;
  std::vector<OwnedTensor> weight_, value_, gradient_;
  std::vector<Tensor> weights_, values_, gradients_;
  std::vector<WeightPiece> pieces_;
  std::int64_t weight_count_ = 4;
  std::size_t workspace_bytes_ = 0, saved_bytes_ = 0;
};

class ByStandIn final : public Recurrent {
 public:
  using Recurrent::Recurrent;

 protected:
  std::unique_ptr<RecurrentSequence> plan_sequence(const RecurrentShape& shape) const override {
    return library_recurrent(shape, [](const RecurrentShape& of) -> std::shared_ptr<const RecurrentProducts> {
      return std::make_shared<StandIn>(of);
    });
  }
};

constexpr std::int64_t sequences = 3;
const Shape positions{5, 8};

LayerHarness by_stand_in(RecurrentCell cell, std::int64_t directions, DType dtype) {
  return {std::make_unique<ByStandIn>(config_of(cell, 8, directions)), {positions}, sequences, {.dtype = dtype}};
}
LayerHarness by_provider(RecurrentCell cell, std::int64_t directions, DType dtype, const ProvidersConfig& providers) {
  return {std::make_unique<Recurrent>(config_of(cell, 8, directions)),
          {positions},
          sequences,
          {.dtype = dtype, .providers = providers}};
}

template <class Check>
void for_each_layer(Check check) {
  for (const RecurrentCell cell : {RecurrentCell::lstm, RecurrentCell::gru})
    for (const std::int64_t directions : {1, 2})
      for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
        SCOPED_TRACE(fmt::format("{}, directions: {}, {}", cell == RecurrentCell::lstm ? "lstm" : "gru", directions,
                                 name_of(dtype)));
        check(cell, directions, dtype);
      }
}

/// Expects two layers to compute the same from the same numbers. Libraries round gradients to the dtype, hence a
/// tolerance of their own.
void expect_same(LayerHarness& one, LayerHarness& other, double tolerance, double gradient_tolerance) {
  const auto dy = test::filling(7, one.output_shape().count());
  EXPECT_LE(test::largest_difference(one.forward(false), other.forward(false)), tolerance);
  for (const Store store : {Store::replace, Store::add})
    for (const bool wants_dx : {true, false}) {
      EXPECT_LE(test::largest_difference(one.forward(), other.forward()), tolerance);
      const auto a = one.backward(dy, store, wants_dx), b = other.backward(dy, store, wants_dx);
      ASSERT_EQ(a.x.size(), b.x.size());
      for (std::size_t i = 0; i < a.x.size(); ++i) EXPECT_LE(test::largest_difference(a.x[i], b.x[i]), tolerance);
      for (std::size_t i = 0; i < a.parameters.size(); ++i)
        EXPECT_LE(test::largest_difference(a.parameters[i], b.parameters[i]), gradient_tolerance)
            << one.specs()[i].name;
    }
}

/// Tolerances: libraries round biases to the dtype, and gradients, which are of several units in size, a few times.
double of_values(DType dtype) { return dtype == DType::bf16 ? 0.05 : dtype == DType::f16 ? 0.008 : 0; }
double of_gradients(DType dtype) { return dtype == DType::bf16 ? 0.2 : dtype == DType::f16 ? 0.03 : 0; }

TEST(LibraryRecurrent, GivesWeightsAndTakesGradientsWhereTheLibraryHasThem) {
  for_each_layer([](RecurrentCell cell, std::int64_t directions, DType dtype) {
    LayerHarness library = by_stand_in(cell, directions, dtype),
                 own = by_provider(cell, directions, dtype, step_by_step());
    StandIn::runs = 0;
    expect_same(library, own, of_values(dtype), of_gradients(dtype));
    EXPECT_EQ(StandIn::runs, 5);
  });
}

TEST(LibraryRecurrent, StepsAreOursWhereTheLibraryWouldSaveMoreThanThereIsRoomFor) {
  StandIn::bytes_for_n = std::size_t{1} << 20;
  LayerHarness library = by_stand_in(RecurrentCell::lstm, 2, DType::f32),
               own = by_provider(RecurrentCell::lstm, 2, DType::f32, step_by_step());
  StandIn::bytes_for_n = 0;
  StandIn::runs = 0;
  expect_same(library, own, 0, 0);
  EXPECT_EQ(StandIn::runs, 0);
}

TEST(LibraryRecurrent, SequencesThatMayNotBeginAnywhereAreDeclined) {
  const auto plan = [](const RecurrentShape& of) -> std::shared_ptr<const RecurrentProducts> {
    return std::make_shared<StandIn>(of);
  };
  RecurrentShape shape{.n = 2, .length = 3, .in = 4, .units = 8, .dtype = DType::bf16};
  EXPECT_FALSE(library_recurrent(shape, plan));  // x has 24 bytes an example, no multiple of 16
  shape.in = 8;
  EXPECT_TRUE(library_recurrent(shape, plan));
}

TEST(LibraryRecurrent, NeighboursAreOnePiece) {
  const std::vector<WeightPiece> apart{{1, 0, 6, 40}, {0, 4, 4, 14}, {0, 8, 4, 18}, {0, 0, 4, 10}, {1, 6, 6, 50}};
  const std::vector<WeightPiece> together{{0, 0, 12, 10}, {1, 0, 6, 40}, {1, 6, 6, 50}};
  EXPECT_EQ(merged(apart), together);
}

TEST(RecurrentProviders, ComputeWhatOurStepsCompute) {
  int tried = 0;
  for (const ProviderKind kind : test::provider_kinds()) {
    const auto name = provider_names[static_cast<std::size_t>(kind)];
    const auto* provider = [&]() -> const Provider* {
      for (const Provider* present : providers())
        if (present->name() == name) return present;
      return nullptr;
    }();
    if (!provider) continue;
    for_each_layer([&](RecurrentCell cell, std::int64_t directions, DType dtype) {
      if (!provider->recurrent({cell, sequences, positions[0], positions[1], 8, directions, dtype, {}})) return;
      ++tried;
      SCOPED_TRACE(name);
      ProvidersConfig providers;
      providers.recurrent = kind;
      LayerHarness library = by_provider(cell, directions, dtype, providers),
                   again = by_provider(cell, directions, dtype, providers),
                   own = by_provider(cell, directions, dtype, step_by_step());
      expect_same(library, own, std::max(of_values(dtype), 1e-5), std::max(of_gradients(dtype), 1e-4));
      expect_same(library, again, 0, 0);
    });
  }
  if (tried == 0) GTEST_SKIP() << "no library of this build does recurrent layers as a whole on this machine";
}

}  // namespace
}  // namespace lockstep
