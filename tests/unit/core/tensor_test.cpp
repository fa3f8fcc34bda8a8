// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/tensor.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.hpp"
#include "support/fixtures.hpp"

namespace lockstep {
namespace {

TEST(Shape, Extents) {
  const Shape shape{28, 14, 3};
  EXPECT_EQ(shape.rank(), 3);
  EXPECT_EQ(shape.count(), 28 * 14 * 3);
  EXPECT_EQ(shape[-1], 3);
  EXPECT_EQ(shape[-3], shape[0]);
  EXPECT_EQ(to_string(shape), "28×14×3");
  EXPECT_EQ(shape.rows(), 28 * 14);
  EXPECT_EQ(shape.with_batch(5), (Shape{5, 28, 14, 3}));
  EXPECT_EQ(shape.with_batch(0).of_example(), shape);
  EXPECT_NE(shape, (Shape{28, 14}));
}

TEST(Shape, AScalarHasOneElement) {
  EXPECT_EQ(Shape().count(), 1);
  EXPECT_EQ(Shape().rows(), 1);
  EXPECT_EQ(to_string(Shape()), "scalar");
  EXPECT_EQ(Shape().with_batch(4), Shape{4});
}

TEST(Shape, CountsBeyondInt) { EXPECT_EQ((Shape{100000, 100000}).count(), std::int64_t{10000000000}); }

TEST(DType, SizesAndNames) {
  EXPECT_EQ(size_of(DType::f32), 4u);
  EXPECT_EQ(size_of(DType::f64), 8u);
  EXPECT_EQ(size_of(DType::u8), 1u);
  EXPECT_EQ(size_of(DType::i32), 4u);
  EXPECT_EQ(size_of(DType::i64), 8u);
  EXPECT_EQ(name_of(dtype_of<std::int32_t>()), "i32");
  EXPECT_THROW(dispatch_float(DType::i32, [](auto) {}), Error);
}

TEST(Tensor, CopiesThereAndBack) {
  const OwnedTensor a = test::make_filled(DType::f32, {3, 5}, 1), b("b", DType::f32, {3, 5});
  EXPECT_EQ(test::values_of(b.get()), std::vector<double>(15, 0.0)) << "memory begins zeroed";
  copy(ExecSpace(), a.get(), b.get());
  ExecSpace().fence();
  EXPECT_EQ(test::values_of(b.get()), test::filling(1, 15));
  fill_zero(ExecSpace(), b.get());
  ExecSpace().fence();
  EXPECT_EQ(test::values_of(b.get()), std::vector<double>(15, 0.0));
}

TEST(Tensor, BuffersHoldSeveral) {
  const Buffer buffer("buffer", 256);
  const Tensor low = buffer.tensor(0, DType::f64, {8}), high = buffer.tensor(64, DType::f32, {4, 4});
  test::set_values(high, test::filling(2, 16));
  test::set_values(low, test::filling(3, 8));
  EXPECT_EQ(test::values_of(high.reshaped({16})), test::filling(2, 16));
  EXPECT_FALSE(Tensor{});
  EXPECT_TRUE(high);
}

/// The message of the error that `work` throws when it finds too little memory.
template <class Work>
std::string no_room(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::internal);
    return error.what();
  }
  return "there was room";
}

TEST(Tensor, NoRoomIsSaid) {
  constexpr std::size_t much = std::size_t{1} << 60;
  EXPECT_EQ(no_room([] { Buffer("lockstep::much", much); }),
            std::string("out of memory (1152921504606846976 bytes for lockstep::much); ") + memory_advice);
  EXPECT_EQ(no_room([] { staging_memory("lockstep::much", much); }),
            std::string("out of memory (1152921504606846976 bytes for lockstep::much); ") + memory_advice);
  EXPECT_EQ(no_room([] { staging_memory("lockstep::much", much, "use less"); }),
            "out of memory (1152921504606846976 bytes for lockstep::much); use less");
  EXPECT_EQ(staging_memory("lockstep::little", 3)(2), std::byte{0});
}

}  // namespace
}  // namespace lockstep
