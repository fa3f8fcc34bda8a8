// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/experiment/provenance.hpp"

#include <nlohmann/json.hpp>

#include "base/log.hpp"
#include "base/process.hpp"
#include "core/execution.hpp"
#include "monitor/build_info.hpp"
#include "run/experiment/rank_agreement.hpp"

namespace lockstep {

using Json = nlohmann::ordered_json;

std::string provenance(const Communicator& comm, const Datasets& data, const SharedReading& reading) {
  Json json = Json::parse(build_info_json());
  json["ranks"] = comm.size();
  json["threads"] = ExecSpace().concurrency();
  std::map<std::string, int> ranks_of;
  for (const std::string& host : comm.gather_to_root(host_name())) ++ranks_of[host];
  json["hosts"] = ranks_of;
  json["data"] = Json::object();
  for (const auto& [name, split] :
       {std::pair("train", data.train.get()), {"validation", data.validation.get()}, {"test", data.test.get()}}) {
    const std::string fingerprint = agreed_data(comm, split, reading);
    if (!split) continue;
    const std::span<const std::int64_t> shape = split->format().input_shape.extents();
    json["data"][name] = {{"from", split->description()},
                          {"fingerprint", fingerprint},
                          {"inputs", std::vector(shape.begin(), shape.end())},
                          {"input_type", name_of(split->format().input_dtype)}};
  }
  return json.dump();
}

std::map<std::string, std::string> data_fingerprints(const std::string& provenance) {
  std::map<std::string, std::string> found;
  const Json json = Json::parse(provenance, nullptr, false);
  if (json.is_object() && json.contains("data"))
    for (const auto& [name, split] : json["data"].items()) found[name] = split.value("fingerprint", "");
  return found;
}

std::optional<ExampleFormat> stored_inputs(const std::string& provenance) {
  try {
    const Json train = Json::parse(provenance).at("data").at("train");
    const auto extents = train.at("inputs").get<std::vector<std::int64_t>>();
    for (const DType dtype : {DType::f32, DType::f64, DType::u8, DType::i32})
      if (train.at("input_type") == name_of(dtype))
        return ExampleFormat{.input_shape = Shape(std::span(extents)), .input_dtype = dtype};
  } catch (const Json::exception&) {  // not written by a run
  }
  return std::nullopt;
}

void warn_of_other_input_type(const Dataset& data, const std::string& provenance, const std::string& file) {
  const std::optional<ExampleFormat> trained = stored_inputs(provenance);
  const DType type = data.format().input_dtype;
  if (!trained || (trained->input_dtype == DType::u8) == (type == DType::u8)) return;
  const auto words = [](DType of) {
    return fmt::format("{} ({})", name_of(of), of == DType::u8 ? "divided by 255 when read" : "read as they are");
  };
  warn("{}: has inputs in {}, but {} was trained on inputs in {}; give inputs of the same range", data.description(),
       words(type), file, words(trained->input_dtype));
}

}  // namespace lockstep
