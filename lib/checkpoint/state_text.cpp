// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "checkpoint/checkpoint.hpp"

#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "base/error.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

class StateWriter final : public StateFields {
 public:
  void integer(std::string_view key, std::int64_t& value) override { put(key, value); }
  void real(std::string_view key, double& value) override {
    put(key, std::isfinite(value) ? Json(value) : Json(fmt::format("{}", value)));  // not numbers in JSON
  }
  void flag(std::string_view key, bool& value) override { put(key, value); }
  void text(std::string_view key, std::string& value) override { put(key, value); }
  void reals(std::string_view key, std::vector<double>& values) override { put(key, values); }
  void section(std::string_view key, const Describe& describe) override { nest(key, Json::object(), describe); }
  void array(std::string_view key, const Describe& describe) override { nest(key, Json::array(), describe); }
  std::int64_t length(std::int64_t count) override { return count; }
  bool has(std::string_view key, bool wanted) override {
    if (!wanted) put(key, Json());
    return wanted;
  }
  bool restores() const override { return false; }

  std::string dump() const { return json_.dump(); }

 private:
  void put(std::string_view key, Json value) {
    if (json_.is_array()) json_.push_back(std::move(value));
    else json_[std::string(key)] = std::move(value);
  }
  void nest(std::string_view key, Json kind, const Describe& describe) {
    Json outer = std::exchange(json_, std::move(kind));
    describe(*this);
    Json inner = std::exchange(json_, std::move(outer));
    put(key, std::move(inner));
  }

  Json json_ = Json::object();
};

class StateReader final : public StateFields {
 public:
  explicit StateReader(const std::string& text) : json_(Json::parse(text)), at_(&json_) {}

  void integer(std::string_view key, std::int64_t& value) override { next(key).get_to(value); }
  void real(std::string_view key, double& value) override {
    const Json& json = next(key);
    value = json.is_string() ? std::stod(json.get<std::string>()) : json.get<double>();
  }
  void flag(std::string_view key, bool& value) override { next(key).get_to(value); }
  void text(std::string_view key, std::string& value) override { next(key).get_to(value); }
  void reals(std::string_view key, std::vector<double>& values) override { next(key).get_to(values); }
  void section(std::string_view key, const Describe& describe) override { nest(key, describe); }
  void array(std::string_view key, const Describe& describe) override { nest(key, describe); }
  std::int64_t length(std::int64_t) override { return static_cast<std::int64_t>(at_->size()); }
  bool has(std::string_view key, bool) override {
    const auto found = at_->find(std::string(key));
    return found != at_->end() && !found->is_null();
  }
  bool restores() const override { return true; }

 private:
  const Json& next(std::string_view key) { return at_->is_array() ? at_->at(entry_++) : at_->at(std::string(key)); }
  void nest(std::string_view key, const Describe& describe) {
    const Json* outer = std::exchange(at_, &next(key));
    const std::size_t entry = std::exchange(entry_, 0);
    describe(*this);
    at_ = outer;
    entry_ = entry;
  }

  const Json json_;
  const Json* at_;
  std::size_t entry_ = 0;  ///< next entry, in an array
};

}  // namespace

std::string state_text(const StateFields::Describe& describe) {
  StateWriter writer;
  describe(writer);
  return writer.dump();
}

void restore_state(const std::string& text, const StateFields::Describe& describe) {
  try {
    StateReader reader(text);
    describe(reader);
  } catch (const Json::exception& error) {
    throw Error(ExitStatus::bad_data, error.what());
  } catch (const std::logic_error&) {  // of std::stod: of a text that is no number, or of one beyond double's
    throw Error(ExitStatus::bad_data, "a value is not a number, or is too large");
  }
}

}  // namespace lockstep
