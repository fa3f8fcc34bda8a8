// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/run_state.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

/// Those that optimizers keep states of.
std::vector<Parameter> trained_ones(const std::vector<Parameter>& parameters) {
  std::vector<Parameter> trained;
  std::copy_if(parameters.begin(), parameters.end(), std::back_inserter(trained),
               [](const Parameter& parameter) { return parameter.kind == ParameterSpec::Kind::trained; });
  return trained;
}

/// `flat` holds `layout`. Its numbers are copied to `memory`; or, where there is none and the host can read them, not
/// at all.
void append_arrays(const ExecSpace& space, const std::string& prefix, const std::vector<Parameter>& layout,
                   const Tensor& flat, std::byte* memory, std::vector<NamedArray>& arrays) {
  std::shared_ptr<const std::byte[]> all;
  if (memory) {
    copy_to_host(space, flat, memory);
    all = {std::shared_ptr<void>(), memory};
  } else if (kernels_run_on_host) {
    space.fence("lockstep::checkpoint");
    all = {std::shared_ptr<void>(), static_cast<const std::byte*>(flat.data)};
  } else {
    const std::shared_ptr<std::byte[]> copy(new std::byte[flat.bytes()]);
    copy_to_host(space, flat, copy.get());
    all = copy;
  }
  for (const auto& parameter : layout) {
    const std::byte* first = all.get() + static_cast<std::size_t>(parameter.range.first) * size_of(flat.dtype);
    arrays.push_back({prefix + "/" + parameter.name, flat.dtype, parameter.shape, {all, first}});
  }
}

template <class From, class To>
void convert(const std::byte* from, std::byte* to, std::int64_t count) {
  const auto* source = reinterpret_cast<const From*>(from);
  auto* target = reinterpret_cast<To*>(to);
  std::transform(source, source + count, target, [](From value) { return static_cast<To>(value); });
}

void convert(const NamedArray& array, DType dtype, std::byte* to) {
  const std::int64_t count = array.shape.count();
  if (array.dtype == dtype) std::memcpy(to, array.data.get(), array.bytes());
  else if (dtype == DType::f32) convert<double, float>(array.data.get(), to, count);
  else convert<float, double>(array.data.get(), to, count);
}

const NamedArray* find(const std::vector<NamedArray>& arrays, const std::string& name) {
  const auto found = std::find_if(arrays.begin(), arrays.end(), [&](const NamedArray& a) { return a.name == name; });
  return found == arrays.end() ? nullptr : &*found;
}

/// `flat` holds `layout`, of which `arrays` may have a part.
void set(const ExecSpace& space, const std::vector<NamedArray>& arrays, const std::string& prefix,
         const std::vector<Parameter>& layout, const Tensor& flat) {
  std::vector<std::byte> host(flat.bytes());
  copy_to_host(space, flat, host.data());
  for (const auto& parameter : layout)
    if (const NamedArray* array = find(arrays, prefix + "/" + parameter.name))
      convert(*array, flat.dtype, host.data() + static_cast<std::size_t>(parameter.range.first) * size_of(flat.dtype));
  copy_from_host(space, host.data(), flat);
}

/// Throws KeyError where other layers are frozen than when the checkpoint was written.
void check_frozen(const Checkpoint& checkpoint, const std::string& file, const std::vector<std::string>& states,
                  const std::vector<Parameter>& parameters) {
  if (states.empty()) return;
  const std::string prefix = "/optimizer/" + states[0] + "/";
  if (std::ranges::none_of(checkpoint.arrays, [&](const NamedArray& array) { return array.name.starts_with(prefix); }))
    return;
  for (const auto& parameter : parameters) {
    if (parameter.kind == ParameterSpec::Kind::statistic) continue;
    const bool is_frozen = parameter.kind == ParameterSpec::Kind::frozen;
    const bool was_trained = find(checkpoint.arrays, prefix + parameter.name) != nullptr;
    if (is_frozen && !was_trained) continue;
    validate_key(
        is_frozen != was_trained, "model.weights.freeze",
        "{} was {} in the run of {} (which layers are frozen cannot change in mid-run); keep the list, or start another "
        "run with model.weights: {}",
        parameter.name, was_trained ? "trained" : "frozen", file, file);
  }
}

/// JSON has no word for what is not finite.
Json json_of(double value) { return std::isfinite(value) ? Json(value) : Json(fmt::format("{}", value)); }
double number_of(const Json& json) {
  return json.is_string() ? std::stod(json.get<std::string>()) : json.get<double>();
}

Json json_of(const StepRecord& record) {
  return {{"step", record.step},
          {"loss", json_of(record.metrics.loss)},
          {"accuracy", record.metrics.accuracy ? Json(*record.metrics.accuracy) : Json()},
          {"grad_norm", json_of(record.gradient_norm)},
          {"left_out", record.left_out},
          {"logged", record.logged}};
}

StepRecord record_of(const Json& json) {
  StepRecord record{.step = json.at("step"),
                    .metrics = {.loss = number_of(json.at("loss"))},
                    .gradient_norm = number_of(json.at("grad_norm")),
                    .left_out = json.at("left_out"),
                    .logged = json.at("logged")};
  if (const Json& accuracy = json.at("accuracy"); !accuracy.is_null()) record.metrics.accuracy = accuracy.get<double>();
  return record;
}

}  // namespace

RunState first_state(const RunConfig& config, std::int64_t dataset_size) {
  RunState state;
  state.scales_loss = config.precision.scales_loss();
  state.loss_scaler = LossScaler(config.precision.loss_scale).state();
  state.seed = config.run.seed;
  state.global_batch = config.batch.global;
  state.dataset_size = dataset_size;
  state.shuffle = config.data.shuffle;
  state.drop_last = config.data.drop_last;
  return state;
}

std::string state_text(const RunState& state) {
  const Json json = {{"step", state.step},
                     {"epoch", state.position.epoch},
                     {"next_example", state.position.next},
                     {"evaluated_step", state.evaluated_step},
                     {"metrics_rows", state.metrics_rows},
                     {"selection", Json::parse(state.selection.text())},
                     {"scales_loss", state.scales_loss},
                     {"loss_scale",
                      {{"scale", state.loss_scaler.scale},
                       {"good_steps", state.loss_scaler.good_steps},
                       {"hysteresis_left", state.loss_scaler.hysteresis_left}}},
                     {"skipped_steps", state.skipped_steps},
                     {"noise", {state.noise.trace, state.noise.square, state.noise.weight}},
                     {"anomalies", state.loss_watch.anomalies},
                     {"losses", state.loss_watch.losses},
                     {"validation_losses", state.loss_watch.validation_losses},
                     {"loss_was_nonfinite", state.loss_was_nonfinite},
                     {"rollbacks", state.rollbacks},
                     {"record", state.record ? json_of(*state.record) : Json()},
                     {"order", state.order},
                     {"seed", state.seed},
                     {"global_batch", state.global_batch},
                     {"dataset_size", state.dataset_size},
                     {"shuffle", state.shuffle},
                     {"drop_last", state.drop_last}};
  return json.dump();
}

RunState parse_state(const std::string& text) {
  const Json json = Json::parse(text);
  RunState state;
  state.step = json.at("step");
  state.position = {json.at("epoch"), json.at("next_example")};
  state.evaluated_step = json.at("evaluated_step");
  state.metrics_rows = json.at("metrics_rows");
  if (json.contains("selection")) {
    state.selection = Selection::State::parse(json.at("selection").dump());
  } else {  // before version 0.2
    state.selection.target_reached = json.at("target_reached");
    state.selection.target = json.at("target");
  }
  state.skipped_steps = json.at("skipped_steps");
  state.noise = {json.at("noise").at(0), json.at("noise").at(1), json.at("noise").at(2)};
  state.loss_watch = {json.at("anomalies"), json.at("losses"), json.value("validation_losses", std::vector<double>())};
  state.loss_was_nonfinite = json.value("loss_was_nonfinite", false);
  state.rollbacks = json.at("rollbacks");
  if (const Json record = json.value("record", Json()); !record.is_null()) state.record = record_of(record);
  state.scales_loss = json.at("scales_loss");
  const Json& scaler = json.at("loss_scale");
  state.loss_scaler = {scaler.at("scale"), scaler.at("good_steps"), scaler.at("hysteresis_left")};
  state.order = json.value("order", 1);
  state.seed = json.at("seed");
  state.global_batch = json.at("global_batch");
  state.dataset_size = json.at("dataset_size");
  state.shuffle = json.at("shuffle");
  state.drop_last = json.at("drop_last");
  return state;
}

Checkpoint make_checkpoint(const ExecSpace& space, const RunState& state, std::map<std::string, std::string> texts,
                           const ParameterBuffer& parameters, const Optimizer& optimizer, std::span<std::byte> memory) {
  Checkpoint checkpoint{.texts = std::move(texts)};
  std::size_t used = 0;
  const auto append = [&](const std::string& prefix, const std::vector<Parameter>& layout, const Tensor& flat) {
    append_arrays(space, prefix, layout, flat, memory.empty() ? nullptr : memory.data() + used, checkpoint.arrays);
    used += flat.bytes();
  };
  append("/model", parameters.parameters(), parameters.values());
  const auto trained = trained_ones(parameters.parameters());
  for (const auto& optimizer_state : optimizer.states())
    append("/optimizer/" + optimizer_state.name, trained, optimizer_state.values);
  checkpoint.texts["state"] = state_text(state);
  return checkpoint;
}

std::size_t checkpoint_bytes(const ParameterBuffer& parameters, const Optimizer& optimizer) {
  std::size_t bytes = parameters.values().bytes();
  for (const auto& state : optimizer.states()) bytes += state.values.bytes();
  return bytes;
}

RunState state_of(const Checkpoint& checkpoint, const std::string& file) {
  try {
    return parse_state(checkpoint.texts.at("state"));
  } catch (const std::exception& error) {
    throw Error(ExitStatus::bad_data,
                fmt::format("{}: holds no state of a run ({}); use a checkpoint that Lockstep wrote "
                            "(for parameters alone: model.weights)",
                            file, error.what()));
  }
}

void check_arrays(const std::vector<NamedArray>& arrays, const std::string& prefix, const std::string& file,
                  const std::vector<Parameter>& parameters) {
  for (const auto& parameter : parameters) {
    const std::string name = prefix + "/" + parameter.name;
    const NamedArray* found = find(arrays, name);
    validate(found != nullptr, ExitStatus::bad_data,
             "{}: has no {} (the network of the deck needs it); use a file of the same network", file, name);
    validate(found->shape == parameter.shape, ExitStatus::bad_data,
             "{}:{}: its shape is {}, but the network of the deck needs {}; use a file of the same network", file, name,
             to_string(found->shape), to_string(parameter.shape));
    validate(found->dtype == DType::f32 || found->dtype == DType::f64, ExitStatus::bad_data,
             "{}:{}: its numbers are {} (f32 or f64 is needed); convert them", file, name, name_of(found->dtype));
  }
  for (const auto& array : arrays)
    validate(array.name.rfind(prefix + "/", 0) != 0 ||
                 std::any_of(parameters.begin(), parameters.end(),
                             [&](const Parameter& p) { return array.name == prefix + "/" + p.name; }),
             ExitStatus::bad_data, "{}: holds {}, which the network of the deck lacks; use a file of the same network",
             file, array.name);
}

void check_resume(const Checkpoint& checkpoint, const std::string& file, const RunConfig& config,
                  std::int64_t dataset_size, const std::vector<Parameter>& parameters) {
  const RunState saved = state_of(checkpoint, file), wanted = first_state(config, dataset_size);
  const auto same = [&](const char* key, std::string_view what, auto was, auto is) {
    validate_key(was == is, key,
                 "{} {} in {} and is {} in this deck (the order of the examples would change in mid-run); "
                 "keep it, or start anew with run.resume=never run.overwrite=true",
                 what, was, file, is);
  };
  same("run.seed", "was", saved.seed, wanted.seed);
  same("batch.global", "was", saved.global_batch, wanted.global_batch);
  same("data.shuffle", "was", saved.shuffle, wanted.shuffle);
  same("data.drop_last", "was", saved.drop_last, wanted.drop_last);
  same("data", "the number of training examples was", saved.dataset_size, wanted.dataset_size);
  check_arrays(checkpoint.arrays, "/model", file, parameters);
  const auto states = config.optimizer.state_names();
  check_frozen(checkpoint, file, states, parameters);
  for (const auto& state : states)
    check_arrays(checkpoint.arrays, "/optimizer/" + state, file, trained_ones(parameters));
  for (const auto& array : checkpoint.arrays)
    validate(array.name.rfind("/optimizer/", 0) != 0 ||
                 std::any_of(states.begin(), states.end(),
                             [&](const auto& state) { return array.name.rfind("/optimizer/" + state + "/", 0) == 0; }),
             ExitStatus::bad_data,
             "{}: holds {}, which the optimizer of the deck does not use; keep the optimizer's options, "
             "or start from the parameters alone with model.weights",
             file, array.name);
}

void restore_parameters(const ExecSpace& space, const std::vector<NamedArray>& arrays, const std::string& file,
                        ParameterBuffer& parameters) {
  check_arrays(arrays, "/model", file, parameters.parameters());
  set_parameters(space, arrays, parameters);
}

void set_parameters(const ExecSpace& space, const std::vector<NamedArray>& arrays, ParameterBuffer& parameters) {
  set(space, arrays, "/model", parameters.parameters(), parameters.values());
  parameters.round(space);
}

void restore_optimizer(const ExecSpace& space, const std::vector<NamedArray>& arrays, const std::string& file,
                       const ParameterBuffer& parameters, const Optimizer& optimizer) {
  const auto trained = trained_ones(parameters.parameters());
  for (const auto& state : optimizer.states()) {
    const std::string prefix = "/optimizer/" + state.name;
    check_arrays(arrays, prefix, file, trained);
    set(space, arrays, prefix, trained, state.values);
  }
}

}  // namespace lockstep
