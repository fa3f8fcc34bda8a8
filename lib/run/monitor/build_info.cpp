// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/monitor/build_info.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/version.hpp"
#include "comm/communicator.hpp"
#include "comm/device_all_reduce.hpp"
#include "core/execution.hpp"
#include "io/hdf5.hpp"
#include "ops/products/provider.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

Json build_info() {
  Json info;
  info["lockstep"] = version();
  info["git"] = git_hash();
  info["compiler"] = compiler();
  info["build_type"] = build_type();
  if (!spack_hash().empty()) info["spack"] = spack_hash();
  info["kokkos"] = fmt::format("{}.{}.{}", KOKKOS_VERSION_MAJOR, KOKKOS_VERSION_MINOR, KOKKOS_VERSION_PATCH);
  info["backend"] = ExecSpace::name();
  info["mpi"] = mpi_version();
  info["nccl"] = nccl_version().empty() ? "none" : nccl_version();
  info["hdf5"] = hdf5_version();
  Json names = Json::array();
  for (const Provider* provider : providers())
    names.push_back(fmt::format("{} {}", provider->name(), provider->version()));
  info["providers"] = names;
  return info;
}

}  // namespace

std::string build_info_json() { return build_info().dump(); }

std::string build_info_text() {
  std::string text;
  const Json info = build_info();
  for (const auto& [key, value] : info.items()) {
    std::string shown;
    if (value.is_array())
      for (const auto& item : value) shown += (shown.empty() ? "" : ", ") + item.get<std::string>();
    else shown = value.get<std::string>();
    text += fmt::format("{:<11} {}\n", key, shown);
  }
  return text;
}

}  // namespace lockstep
