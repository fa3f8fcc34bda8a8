// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/reports/reports.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <vector>

#include "base/text.hpp"
#include "run/experiment/experiment.hpp"
#include "train/guard/nonfinite_report.hpp"

namespace lockstep {
namespace {

/// The numbers of the first bad examples, and a count of all bad ones.
class Numbers {
 public:
  void add(std::int64_t example) {
    if (count_++ < most_named) named_ += fmt::format("{}{}", named_.empty() ? "" : ", ", example);
  }
  std::int64_t count() const { return count_; }
  std::string text(const std::string& what) const {
    if (count_ == 0) return "";
    return fmt::format("; {} of {}: {}{}", what, counted(count_, "example"), named_, count_ > most_named ? ", …" : "");
  }

 private:
  static constexpr std::int64_t most_named = 10;
  std::int64_t count_ = 0;
  std::string named_;
};

}  // namespace

DataScan scan(const Dataset& data, const Loss& loss, std::int64_t classes, std::span<const std::int64_t> tables) {
  const std::int64_t ignored = loss.ignored_class();
  const std::optional<Range> range = loss.target_range();
  constexpr std::size_t piece_bytes = std::size_t{16} << 20;
  const ExampleFormat& format = data.format();
  const std::size_t inputs = format.input_bytes(), targets = format.target_bytes();
  const auto piece = static_cast<std::int64_t>(std::max<std::size_t>(1, piece_bytes / (inputs + targets)));
  std::vector<std::byte> input(static_cast<std::size_t>(piece) * inputs),
      target(static_cast<std::size_t>(piece) * targets);
  std::vector<std::int64_t> examples;
  Numbers bad_inputs, bad_rows, bad_targets, bad_values, bad_classes, missing;
  std::optional<double> fill_value;
  const std::vector<double> fill_values = data.fill_values();
  for (std::int64_t first = 0; first < data.size(); first += piece) {
    examples.resize(static_cast<std::size_t>(std::min(piece, data.size() - first)));
    std::iota(examples.begin(), examples.end(), first);
    data.read(examples, input.data(), target.data());
    for (std::size_t i = 0; i < examples.size(); ++i) {
      const std::int64_t number = data.number_in_file(examples[i]);
      if (count_nonfinite(input.data() + i * inputs, format.input_dtype, format.input_shape.count()) > 0)
        bad_inputs.add(number);
      if (has_unknown_row(input.data() + i * inputs, format.input_dtype, tables)) bad_rows.add(number);
      const std::byte* values = target.data() + i * targets;
      std::optional<double> fill = first_fill_value(input.data() + i * inputs, format.input_dtype,
                                                    format.input_shape.count(), fill_values);
      if (!fill) fill = first_fill_value(values, format.target_dtype, format.target_shape.count(), fill_values);
      if (fill) missing.add(number), fill_value = fill_value.value_or(*fill);
      if (count_nonfinite(values, format.target_dtype, format.target_shape.count()) > 0) bad_targets.add(number);
      else if (range && !format.has_classes() &&
               first_outside(values, format.target_dtype, format.target_shape.count(), range->min, range->max))
        bad_values.add(number);
      for (std::int64_t k = 0; classes > 0 && format.has_classes() && k < format.target_shape.count(); ++k) {
        std::int32_t value = 0;
        std::memcpy(&value, values + static_cast<std::size_t>(k) * sizeof value, sizeof value);
        if (value >= 0 && (value < classes || value == ignored)) continue;
        bad_classes.add(number);
        break;
      }
    }
  }
  const std::string outside = range ? fmt::format("targets outside {:g} to {:g}", range->min, range->max) : "";
  const std::string found = bad_inputs.text("inputs that are not finite") +
                            bad_rows.text("row numbers outside their tables") +
                            bad_targets.text("targets that are not finite") + bad_values.text(outside) +
                            bad_classes.text(fmt::format("classes outside 0 to {}", classes - 1)) +
                            missing.text(
                                fmt::format("numbers that stand for missing ones, as {:g}", fill_value.value_or(0)));
  DataScan result;
  result.is_bad = !found.empty();
  result.text = fmt::format("{}: {} examples{}\n", data.description(), data.size(),
                            result.is_bad ? found : ", all usable");
  return result;
}

DataScan scan_data(const RunConfig& config) {
  return with_positions(config.source, [&] {
    const Datasets data = open_datasets(config.data, static_cast<std::uint64_t>(config.run.seed));
    const Graph graph = make_graph(config, data.train->format());
    const std::unique_ptr<Loss> loss = config.loss.make();
    const std::int64_t classes = loss->wants_classes() ? graph.output_shape()[-1] : 0;
    DataScan all;
    for (const Dataset* split : {data.train.get(), data.validation.get(), data.test.get()}) {
      if (!split) continue;
      const DataScan one = scan(*split, *loss, classes, graph.tables_of_data());
      all.text += one.text;
      all.is_bad = all.is_bad || one.is_bad;
    }
    return all;
  });
}

}  // namespace lockstep
