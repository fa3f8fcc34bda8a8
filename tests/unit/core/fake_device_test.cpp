// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/fake_device.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "core/tensor.hpp"

namespace lockstep {
namespace {

std::vector<float> on_host(const Tensor& tensor) {
  std::vector<float> numbers(static_cast<std::size_t>(tensor.count()));
  copy_to_host(ExecSpace(), tensor, numbers.data());
  return numbers;
}

TEST(FakeDevice, KernelsAndCopiesMayTouchItsMemory) {
  const OwnedTensor tensor("lockstep::test", DType::f32, {4});
  auto* numbers = tensor.get().as<float>();
  Kokkos::parallel_for(
      "lockstep::test", RangePolicy(0, 4),
      KOKKOS_LAMBDA(const std::int64_t i) { numbers[i] += static_cast<float>(i); });
  EXPECT_EQ(on_host(tensor.get()), (std::vector<float>{0, 1, 2, 3}));
}

TEST(FakeDeviceDeathTest, TheHostMayNot) {
  const OwnedTensor tensor("lockstep::test", DType::f32, {4});
  volatile float* numbers = tensor.get().as<float>();
  EXPECT_DEATH(static_cast<void>(numbers[2]), "the host touches device memory: byte 8 of lockstep::test");
  EXPECT_DEATH(numbers[0] = 1, "the host touches device memory: byte 0 of lockstep::test");
}

TEST(FakeDeviceDeathTest, NorAfterACopyThatMayStartAKernel) {
  const OwnedTensor tensor("lockstep::test", DType::f32, {4});
  fill_zero(ExecSpace(), tensor.get());
  volatile float* numbers = tensor.get().as<float>();
  EXPECT_DEATH(static_cast<void>(numbers[0]), "the host touches device memory");
}

TEST(FakeDeviceDeathTest, MemoryOfTheHostIsNoTensor) {
  std::vector<float> numbers(4);
  const Tensor tensor{numbers.data(), DType::f32, {4}};
  const OwnedTensor other("lockstep::test", DType::f32, {4});
  EXPECT_DEATH(tensor.as<float>(), "is_step_memory");
  EXPECT_DEATH(copy_to_host(ExecSpace(), tensor, numbers.data()), "is_step_memory");
  EXPECT_DEATH(copy_to_host(ExecSpace(), other.get(), other.get().data), "is_host_memory");
}

TEST(FakeDevice, AMissingFenceShows) {
  const ExecSpace space;
  const OwnedTensor tensor("lockstep::test", DType::f32, {2});
  std::vector<float> numbers{1, 2};
  start_copy_from_host(space, numbers.data(), tensor.get());
  numbers = {3, 4};  // too early
  EXPECT_EQ(on_host(tensor.get()), (std::vector<float>{3, 4}));

  start_copy_from_host(space, numbers.data(), tensor.get());
  space.fence();
  numbers = {5, 6};
  EXPECT_EQ(on_host(tensor.get()), (std::vector<float>{3, 4}));
}

TEST(FakeDevice, CopiesComeBeforeTheKernelsThatFollow) {
  const ExecSpace space;
  const OwnedTensor tensor("lockstep::test", DType::f32, {2});
  auto* device = tensor.get().as<float>();
  const std::vector<float> numbers{1, 2};
  start_copy_from_host(space, numbers.data(), tensor.get());
  Kokkos::parallel_for(
      "lockstep::test", RangePolicy(space, 0, 2), KOKKOS_LAMBDA(const std::int64_t i) { device[i] *= 10; });
  EXPECT_EQ(on_host(tensor.get()), (std::vector<float>{10, 20}));
}

}  // namespace
}  // namespace lockstep
