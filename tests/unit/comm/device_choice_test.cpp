// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "comm/device_all_reduce.hpp"
#include "core/device.hpp"

namespace lockstep {
namespace {

TEST(DeviceChoice, RanksOfANodeTakeTurns) {
  EXPECT_EQ(device_for(0, 4), 0);
  EXPECT_EQ(device_for(3, 4), 3);
  EXPECT_EQ(device_for(5, 4), 1);
}

TEST(DeviceChoice, OneVisibleDeviceIsNoChoice) {
  EXPECT_EQ(device_for(3, 1), std::nullopt);
  EXPECT_EQ(device_for(0, 0), std::nullopt);
}

TEST(DeviceChoice, TheEnvironmentGoesFirst) {
  for (const char* variable : {"KOKKOS_DEVICE_ID", "KOKKOS_VISIBLE_DEVICES", "KOKKOS_MAP_DEVICE_ID_BY"}) {
    ::setenv(variable, "0", 1);
    EXPECT_EQ(device_for(3, 4), std::nullopt) << variable;
    ::unsetenv(variable);
  }
}

TEST(DeviceChoice, SharedDevicesAreNamed) {
  EXPECT_TRUE(shared_devices({"a 00", "a 01", "b 00", "b 01"}).empty());
  EXPECT_TRUE(shared_devices({"", "", ""}).empty()) << "hosts compute";
  EXPECT_THAT(shared_devices({"a 00", "b 00", "a 00", "a 01", "b 00"}),
              testing::ElementsAre(testing::HasSubstr("ranks 0, 2 share one device (a 00)"),
                                   testing::HasSubstr("ranks 1, 4 share one device (b 00)")));
}

}  // namespace
}  // namespace lockstep
