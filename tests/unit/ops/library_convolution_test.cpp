// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/products/library_products.hpp"

#include "ops/elementwise/copies.hpp"
#include "products_support.hpp"
#include "reference/convolution.hpp"

// The parts of a convolution that a library leaves out; the portable provider computes the library's products here.

namespace lockstep::test {
namespace {

constexpr ConvolutionShape shape{.n = 3,
                                 .h = 4,
                                 .w = 6,
                                 .c = 8,
                                 .filters = 16,
                                 .kernel_h = 3,
                                 .kernel_w = 3,
                                 .pad_top = 1,
                                 .pad_left = 1,
                                 .pad_bottom = 1,
                                 .pad_right = 1,
                                 .activation = Activation::relu};

enum class Part { forward, data_gradient, weight_gradient };

class PlainProduct final : public ConvolutionProduct {
 public:
  PlainProduct(const ConvolutionShape& of, Part part) : shape_(of), part_(part) {
    shape_.bias = false, shape_.activation = Activation::none;
    product_ = portable_provider()->convolution(shape_);
  }

  std::size_t workspace_bytes() const override { return product_->workspace_bytes(); }
  void run(const ExecSpace& space, std::span<void* const> tensors, void* workspace) const override {
    ASSERT_EQ(tensors.size(), 3U);
    const Tensor x{tensors[0], shape_.dtype, {shape_.n, shape_.h, shape_.w, shape_.c}};
    const Shape weight{shape_.filters, shape_.c, shape_.kernel_h, shape_.kernel_w};
    const Shape y{shape_.n, shape_.out_h(), shape_.out_w(), shape_.filters};
    const Tensor scratch{workspace, DType::f64, {static_cast<std::int64_t>(workspace_bytes() / sizeof(double))}};
    // Libraries take weights in channels-last order.
    const std::int64_t taps = shape_.kernel_h * shape_.kernel_w;
    const Shape rows{shape_.filters, taps, shape_.c}, columns{shape_.filters, shape_.c, taps};
    if (part_ != Part::weight_gradient) {
      const OwnedTensor ours("lockstep::test::weight", shape_.dtype, columns);
      transpose(space, {tensors[1], shape_.dtype, rows}, ours.get());
      product_->set_weight(ours.get().reshaped(weight));
      if (part_ == Part::forward) product_->forward(space, x, {}, {tensors[2], shape_.dtype, y}, scratch);
      else product_->backward_data(space, {tensors[0], shape_.dtype, y}, {tensors[2], shape_.dtype, x.shape}, scratch);
      space.fence();
    } else {
      const OwnedTensor wide("lockstep::test::dweight", master_dtype(shape_.dtype), weight),
          narrow("lockstep::test::dweight", shape_.dtype, columns);
      product_->backward_weight(space, x, {tensors[1], shape_.dtype, y}, wide.get(), Store::replace, scratch);
      convert(space, wide.get(), narrow.get().reshaped(weight));
      transpose(space, narrow.get(), {tensors[2], shape_.dtype, rows});
      space.fence();
    }
  }

 private:
  static const Provider* portable_provider() { return find_provider("portable"); }

  ConvolutionShape shape_;
  Part part_;
  std::unique_ptr<Convolution> product_;
};

int plans_made = 0;

struct PlainProducts : ConvolutionProducts {
  explicit PlainProducts(const ConvolutionShape& of) {
    if (of.groups > 1) throw PlanError("no groups");
    forward = std::make_unique<PlainProduct>(of, Part::forward);
    data_gradient = std::make_unique<PlainProduct>(of, Part::data_gradient);
    weight_gradient = std::make_unique<PlainProduct>(of, Part::weight_gradient);
    adds_bias = false;
    ++plans_made;
  }
};

std::shared_ptr<const ConvolutionProducts> plan_plainly(const ConvolutionShape& of) {
  return plans_for<PlainProducts>(of);
}

TEST(LibraryConvolutionTest, adds_what_the_products_leave_out) {
  const auto product = library_convolution(shape, plan_plainly);
  ASSERT_NE(product, nullptr);
  const ExecSpace space;
  const Shape x_shape{shape.n, shape.h, shape.w, shape.c}, y_shape{shape.n, shape.h, shape.w, shape.filters};
  const Shape weight_shape{shape.filters, shape.c, 3, 3};
  const std::int64_t taps = weight_shape.count() / shape.filters;
  const Values x = random_values(DType::f32, x_shape, 1), weight = random_values(DType::f32, weight_shape, 2);
  const Values bias = random_values(DType::f32, {shape.filters}, 3), dy = random_values(DType::f32, y_shape, 4);
  const OwnedTensor tx = upload(DType::f32, x_shape, x), tweight = upload(DType::f32, weight_shape, weight);
  const OwnedTensor tbias = upload(DType::f32, {shape.filters}, bias), tdy = upload(DType::f32, y_shape, dy);
  const OwnedTensor ty = not_a_number(DType::f32, y_shape), tdx = not_a_number(DType::f32, x_shape);
  const OwnedTensor tdweight = not_a_number(DType::f32, weight_shape);
  const auto workspace = GuardedTensor::workspace(product->workspace_bytes());

  product->set_weight(tweight.get());
  product->forward(space, tx.get(), tbias.get(), ty.get(), workspace.get());
  expect_near(download(ty.get()), reference::convolution_forward(shape, x, weight, bias), tolerance(DType::f32, taps));
  product->backward_data(space, tdy.get(), tdx.get(), workspace.get());
  expect_near(download(tdx.get()), reference::convolution_backward_data(shape, dy, weight),
              tolerance(DType::f32, 9 * shape.filters));

  Values expected(weight.size());
  reference::convolution_backward_weight(shape, x, dy, expected);
  const double allowed = tolerance(DType::f32, shape.n * shape.h * shape.w);
  product->backward_weight(space, tx.get(), tdy.get(), tdweight.get(), Store::replace, workspace.get());
  expect_near(download(tdweight.get()), expected, allowed);
  product->backward_weight(space, tx.get(), tdy.get(), tdweight.get(), Store::add, workspace.get());
  for (double& value : expected) value *= 2;
  expect_near(download(tdweight.get()), expected, 2 * allowed);
}

TEST(LibraryConvolutionTest, gradients_of_16_bits_become_those_of_the_parameters) {
  ConvolutionShape narrow = shape;
  narrow.dtype = DType::bf16;
  const auto product = library_convolution(narrow, plan_plainly);
  ASSERT_NE(product, nullptr);
  const ExecSpace space;
  const Shape x_shape{shape.n, shape.h, shape.w, shape.c}, y_shape{shape.n, shape.h, shape.w, shape.filters};
  const Shape weight_shape{shape.filters, shape.c, 3, 3};
  const OwnedTensor x = upload(DType::bf16, x_shape, random_values(DType::bf16, x_shape, 1));
  const OwnedTensor dy = upload(DType::bf16, y_shape, random_values(DType::bf16, y_shape, 4));
  const OwnedTensor dweight = not_a_number(DType::f32, weight_shape);
  const auto workspace = GuardedTensor::workspace(product->workspace_bytes());
  Values expected(static_cast<std::size_t>(weight_shape.count()));
  reference::convolution_backward_weight(narrow, download(x.get()), download(dy.get()), expected);
  product->backward_weight(space, x.get(), dy.get(), dweight.get(), Store::replace, workspace.get());
  const Values once = download(dweight.get());
  double largest = 0;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  expect_near(once, expected, largest / 256);  // products are rounded to the 8 bits of bf16's mantissa
  product->backward_weight(space, x.get(), dy.get(), dweight.get(), Store::add, workspace.get());
  Values twice = once;
  for (double& value : twice) value *= 2;
  expect_near(download(dweight.get()), twice, 0);
}

TEST(LibraryConvolutionTest, plans_a_shape_once_and_shares_the_weight) {
  ConvolutionShape own = shape;
  own.kernel_w = 1, own.pad_left = own.pad_right = 0;
  const int before = plans_made;
  const auto first = library_convolution(own, plan_plainly), second = library_convolution(own, plan_plainly);
  EXPECT_EQ(plans_made, before + 1);
  const auto smaller = first->resized(2);
  EXPECT_EQ(plans_made, before + 2);
  const Shape weight_shape{own.filters, own.c, own.kernel_h, own.kernel_w}, x_shape{2, own.h, own.w, own.c};
  const Values x = random_values(DType::f32, x_shape, 1), weight = random_values(DType::f32, weight_shape, 2);
  const OwnedTensor tx = upload(DType::f32, x_shape, x), tweight = upload(DType::f32, weight_shape, weight);
  const OwnedTensor ty = not_a_number(DType::f32, {2, own.h, own.w, own.filters});
  const auto workspace = GuardedTensor::workspace(smaller->workspace_bytes());
  first->set_weight(tweight.get());
  smaller->forward(ExecSpace(), tx.get(), {}, ty.get(), workspace.get());
  own.n = 2, own.bias = false;
  expect_near(download(ty.get()), reference::convolution_forward(own, x, weight, {}),
              tolerance(DType::f32, own.c * own.kernel_h));
}

TEST(LibraryConvolutionTest, no_images_need_no_plan) {
  ConvolutionShape none = shape;
  none.n = 0;
  const auto product = library_convolution(none, plan_plainly);
  ASSERT_NE(product, nullptr);
  EXPECT_EQ(product->workspace_bytes(), 0U);
  const OwnedTensor dweight = not_a_number(DType::f32, {shape.filters, shape.c, 3, 3});
  product->backward_weight(ExecSpace(), {}, {}, dweight.get(), Store::replace, {});
  expect_near(download(dweight.get()), Values(static_cast<std::size_t>(dweight.get().count())), 0);
}

TEST(LibraryConvolutionTest, what_is_declined_is_null) {
  ConvolutionShape grouped = shape, odd = shape;
  grouped.groups = 2;
  EXPECT_EQ(library_convolution(grouped, plan_plainly), nullptr);
  odd.h = odd.w = 3, odd.c = 3;  // the size of an image is no multiple of 16 bytes
  EXPECT_EQ(library_convolution(odd, plan_plainly), nullptr);
}

TEST(TransposeTest, swaps_the_last_two_of_three_extents) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    const OwnedTensor x = upload(dtype, {2, 3, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
    const OwnedTensor y = not_a_number(dtype, {2, 2, 3});
    transpose(ExecSpace(), x.get(), y.get());
    EXPECT_EQ(download(y.get()), (Values{0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11}));
  }
}

}  // namespace
}  // namespace lockstep::test
