// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/experiment/provenance.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/heartbeat.hpp"
#include "base/log.hpp"
#include "base/process.hpp"
#include "comm/communicator.hpp"
#include "core/execution.hpp"
#include "io/checksum.hpp"
#include "run/monitor/build_info.hpp"

namespace lockstep {
namespace {

/// Text that identifies what a dataset holds, by examples that are spread over it: at most a few thousand places, as
/// each may be a seek on a disk, with several examples each if they are small.
std::string fingerprint(const Dataset& dataset) {
  constexpr std::int64_t most_places = 4096;
  constexpr std::size_t most_bytes = std::size_t{64} << 20;
  constexpr std::size_t most_unpacked = 32 * most_bytes;
  constexpr std::int64_t most_computed = 1000;  // the deck and the program determine computed examples
  const ExampleFormat& format = dataset.format();
  const std::size_t inputs = format.input_bytes(), targets = format.target_bytes();
  const std::int64_t size = dataset.size();
  const std::size_t most_read = std::min(most_bytes / (inputs + targets), most_unpacked / dataset.unpacked_bytes());
  const std::int64_t most = dataset.is_computed() ? most_computed : static_cast<std::int64_t>(most_read);
  const std::int64_t samples = std::clamp<std::int64_t>(most, 2, std::max<std::int64_t>(2, size));
  const std::int64_t places = std::min(samples, most_places), together = (samples + places - 1) / places;
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(std::min(together, size)));
  std::vector<std::byte> examples(numbers.size() * (inputs + targets));
  std::vector<std::uint64_t> hashes;
  for (std::int64_t place = 0; place < places && size > 0; ++place) {
    std::iota(numbers.begin(), numbers.end(), place * (size - std::ssize(numbers)) / (places - 1));
    dataset.read(numbers, examples.data(), examples.data() + numbers.size() * inputs);
    hashes.push_back(hash_of(examples.data(), examples.size()));
    heartbeat().beat();
  }
  if (const std::vector<double> weights = dataset.sampling_weights(); !weights.empty())
    hashes.push_back(hash_of(weights.data(), weights.size() * sizeof(weights[0])));
  return fmt::format("{} examples of {} bytes, {:016x}", size, inputs + targets,
                     hash_of(hashes.data(), hashes.size() * sizeof(hashes[0])));
}

}  // namespace

std::string agreed_deck(const Communicator& comm, const std::string& deck) {
  if (comm.size() == 1) return deck;
  expect_agreement(comm,
                   {"the program", build_info_text(), "start the same lockstep on all ranks", ExitStatus::bad_usage});
  expect_agreement(comm, {"the number of threads", std::to_string(ExecSpace().concurrency()),
                          "give all ranks the same number (OMP_NUM_THREADS)", ExitStatus::bad_usage});
  expect_agreement(comm, {"the deck", deck, "give all ranks the same deck and overrides", ExitStatus::bad_deck});
  return deck;
}

std::string agreed_data(const Communicator& comm, const Dataset* dataset, const SharedReading& reading) {
  std::string print = "no examples";
  reading.run_collectively([&] {
    if (dataset && reading.reads()) print = fingerprint(*dataset);
  });
  print = reading.from_reader(print);
  if (comm.size() == 1) return print;
  const std::string value = dataset ? fmt::format("{}: {}", dataset->description(), print) : print;
  expect_agreement(comm, {"the data", value, "give all ranks the same files", ExitStatus::bad_data});
  return print;
}

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
