// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/fake_device.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/device.hpp"
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
  EXPECT_DEATH(tensor.as<float>(), "is_device_memory");
  EXPECT_DEATH(copy_to_host(ExecSpace(), tensor, numbers.data()), "is_device_memory");
  EXPECT_DEATH(copy_to_host(ExecSpace(), other.get(), other.get().data), "is_host_memory");
}

TEST(FakeDevice, AMissingFenceShows) {
  const ExecSpace space;
  const OwnedTensor tensor("lockstep::test", DType::f32, {2});
  std::vector<float> numbers{1, 2};
  start_copy_from_host(space, numbers.data(), tensor.get());
  numbers = {3, 4};  // before the copy is done
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

/// The tensor {1, 2}, written by a kernel.
OwnedTensor counted(const ExecSpace& space) {
  const OwnedTensor tensor("lockstep::test", DType::f32, {2});
  auto* device = tensor.get().as<float>();
  Kokkos::parallel_for(
      "lockstep::test", RangePolicy(space, 0, 2),
      KOKKOS_LAMBDA(const std::int64_t i) { device[i] = static_cast<float>(i + 1); });
  return tensor;
}

TEST(FakeDevice, CopiesToTheHostArriveWhenTheyAreWaitedFor) {
  const ExecSpace space, beside = space_beside(space);
  const OwnedTensor tensor = counted(space), other = counted(space);
  std::vector<float> numbers(2);
  wait_for(beside, StreamEvent(space));
  start_copy_to_host(beside, tensor.get(), numbers.data());
  const StreamEvent arrived(beside);
  EXPECT_EQ(numbers, (std::vector<float>{0, 0})) << "too early";
  fill_zero(space, other.get());  // a kernel of another stream does not complete the copy
  EXPECT_EQ(numbers, (std::vector<float>{0, 0}));
  EXPECT_FALSE(arrived.has_happened()) << "when it is first asked for";
  EXPECT_TRUE(arrived.has_happened());
  EXPECT_EQ(numbers, (std::vector<float>{1, 2}));

  numbers = {0, 0};
  start_copy_to_host(space, tensor.get(), numbers.data());
  EXPECT_EQ(numbers, (std::vector<float>{0, 0}));
  space.fence();
  EXPECT_EQ(numbers, (std::vector<float>{1, 2}));
}

TEST(FakeDevice, ACopyThatIsNotOrderedBehindKernelsShows) {
  const ExecSpace space, beside = space_beside(space);
  const StreamEvent before(space);
  const OwnedTensor tensor = counted(space);
  std::vector<float> numbers(2);
  wait_for(beside, before);
  start_copy_to_host(beside, tensor.get(), numbers.data());
  beside.fence();
  EXPECT_TRUE(std::isnan(numbers[0]) && std::isnan(numbers[1]));
}

TEST(FakeDevice, KernelsThatDoNotWaitForACopyBesideThemShow) {
  const ExecSpace space, beside = space_beside(space);
  const OwnedTensor tensor = counted(space), sum = counted(space);
  const auto* device = tensor.get().as<const float>();
  auto* total = sum.get().as<float>();
  const auto add = [&] {
    Kokkos::parallel_for(
        "lockstep::test", RangePolicy(space, 0, 2), KOKKOS_LAMBDA(const std::int64_t i) { total[i] += device[i]; });
  };
  const std::vector<float> numbers{10, 20};
  start_copy_from_host(beside, numbers.data(), tensor.get());
  add();  // without waiting for the copy
  wait_for(space, StreamEvent(beside));
  add();
  EXPECT_EQ(on_host(sum.get()), (std::vector<float>{1 + 1 + 10, 2 + 2 + 20}));
}

}  // namespace
}  // namespace lockstep
