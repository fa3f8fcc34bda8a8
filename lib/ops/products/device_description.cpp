// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/products/device_description.hpp"

#include <charconv>
#include <optional>

#include "config/deck.hpp"
#include "core/execution.hpp"
#include "ops/products/provider.hpp"

namespace lockstep {
namespace {

std::optional<DeviceDescription>& chosen() {
  static std::optional<DeviceDescription> device;
  return device;
}

const DeckNode& value_of(const DeckNode& properties, const char* key) {
  const DeckNode* value = properties.find(key);
  if (value == nullptr || value->kind != DeckNode::Kind::scalar || value->text.empty())
    throw DeckError(
        properties.position, key,
        "is missing (this is not a device description); `lockstep info --device` prints one on a machine with the "
        "device");
  return *value;
}

std::int64_t number_of(const DeckNode& properties, const char* key) {
  const DeckNode& value = value_of(properties, key);
  std::int64_t number = 0;
  const char* end = value.text.data() + value.text.size();
  const auto [last, error] = std::from_chars(value.text.data(), end, number);
  if (error != std::errc() || last != end || number <= 0)
    throw DeckError(
        value.position, key,
        fmt::format("'{}' is not a whole number above 0; give the output of `lockstep info --device`", value.text));
  return number;
}

}  // namespace

void plan_for_described_device(const std::string& file) {
  validate(runs_on_device, ExitStatus::bad_usage,
           "--device: the kernels of this build run on the host, and are planned for it; use a GPU build");
  const std::string text = read_deck_file(file);
  const DeckNode properties = parse_deck(text, file);  // JSON is valid YAML
  chosen() = {.name = value_of(properties, "deviceName").text,
              .memory_bytes = number_of(properties, "totalGlobalMem"),
              .capability = static_cast<int>(number_of(properties, "deviceVer") / 10),
              .properties = text};
}

const DeviceDescription* described_device() { return chosen() ? &*chosen() : nullptr; }

std::string describe_device() { return cudnn_device_properties(); }

}  // namespace lockstep
