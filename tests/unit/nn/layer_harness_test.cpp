// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support/layer_harness.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ops/elementwise/elementwise.hpp"
#include "support/fixtures.hpp"

namespace lockstep {
namespace {

using test::LayerHarness;

/// y = max(x, 0), whose backward pass reads x or y, and declares it only if `says_so`. Its gradient hides a NaN there.
class Secretive final : public Layer {
 public:
  enum class Reads { input, output };
  Secretive(Reads reads, bool says_so) : reads_(reads), says_so_(says_so) {}
  std::string_view type() const override { return "secretive"; }
  Shape output_shape(std::span<const Shape> inputs) const override { return inputs[0]; }
  LayerTraits traits() const override {
    return {
        .backward_reads_inputs = says_so_ && reads_ == Reads::input ? LayerTraits::all_inputs : LayerTraits::Inputs(),
        .backward_reads_output = says_so_ && reads_ == Reads::output};
  }
  void forward(const PassContext& context, const LayerTensors& t) override {
    activation_forward(context.space, Activation::relu, t.x[0], t.y);
  }
  void backward(const PassContext& context, const LayerTensors& t) override {
    const Tensor& kept = reads_ == Reads::input ? t.x[0] : t.y;
    if (t.dx[0]) activation_backward(context.space, Activation::relu, kept, t.dy, t.dx[0]);
  }

 private:
  Reads reads_;
  bool says_so_;
};

TEST(LayerHarness, NamesWhatABackwardPassReadsInSecret) {
  using Reads = Secretive::Reads;
  for (const bool says_so : {false, true})
    for (const auto& [reads, name] :
         {std::pair(Reads::input, "backward_reads_inputs[0]"), std::pair(Reads::output, "backward_reads_output")}) {
      LayerHarness harness(std::make_unique<Secretive>(reads, says_so), {{7}}, 3, {});
      const auto weight = test::filling(7, harness.output_shape().count());
      EXPECT_EQ(harness.undeclared_reads(weight), says_so ? "" : name);
      harness.forward();
      const auto dx = harness.backward(weight).x[0];
      EXPECT_TRUE(std::ranges::none_of(dx, [](double value) { return std::isnan(value); }))
          << "NaN would not have told";
    }
}

}  // namespace
}  // namespace lockstep
