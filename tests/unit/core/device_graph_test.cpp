// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/device_graph.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "core/tensor.hpp"

namespace lockstep {
namespace {

void add(const ExecSpace& space, double number, StepNumber step, const Tensor& sum) {
  auto* const to = sum.as<double>();
  Kokkos::parallel_for(
      "lockstep::test::add", RangePolicy(space, 0, 1),
      KOKKOS_LAMBDA(const std::int64_t) { *to += number + 1000 * static_cast<double>(step()); });
}

double on_host(const ExecSpace& space, const Tensor& number) {
  double value = 0;
  copy_to_host(space, number, &value);
  return value;
}

class DeviceGraphs : public testing::Test {
 protected:
  void SetUp() override {
    if (!DeviceGraph::exist) GTEST_SKIP() << "kernels run on the host";
  }
};

TEST_F(DeviceGraphs, KernelsKeepTheArgumentsThatTheyWereRecordedWith) {
  const ExecSpace space;
  const OwnedTensor sum("lockstep::test::sum", DType::f64, {1});
  double number = 1;
  const auto work = [&] { add(space, number, 0, sum.get()); };
  work();
  number = 10;
  const DeviceGraph graph(space, work);
  ASSERT_EQ(graph.failure(), "");
  EXPECT_EQ(on_host(space, sum.get()), 11) << "recorded, and not begun";
  number = 100;
  graph.launch(space);
  graph.launch(space);
  EXPECT_EQ(on_host(space, sum.get()), 31);
}

TEST_F(DeviceGraphs, KernelsReadMemoryAsItIs) {
  const ExecSpace space;
  const OwnedTensor sum("lockstep::test::sum", DType::f64, {1});
  Buffer memory("lockstep::test::step", sizeof(std::int64_t));
  const auto set = [&](std::int64_t step) { copy_from_host(space, &step, memory.tensor(0, DType::u8, {sizeof step})); };
  const auto work = [&] { add(space, 0, StepNumber(reinterpret_cast<const std::int64_t*>(memory.data())), sum.get()); };
  set(1);
  work();
  const DeviceGraph graph(space, work);
  set(5);
  graph.launch(space);
  EXPECT_EQ(on_host(space, sum.get()), 7000);
}

}  // namespace
}  // namespace lockstep
