// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/reports/reports.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "base/log.hpp"
#include "base/text.hpp"
#include "nn/metrics/metric.hpp"
#include "run/folder/run_results.hpp"

namespace lockstep {
namespace {

/// A number that runs may have.
struct Quantity {
  std::string key;               ///< name in CSV and of --sort
  std::string title;             ///< in Markdown
  const char* format;            ///< in Markdown
  std::optional<Better> better;  ///< none: runs cannot be sorted by it
  bool always;                   ///< whether CSV has a column of it even where no run has a value
  std::function<std::optional<double>(const RunResults& run)> of;
};

using Split = RunResults::Split RunResults::*;

Quantity metric_of(Split split, std::string_view split_name, std::string_view metric) {
  const bool is_test = split == &RunResults::test;
  const auto of = [split, name = std::string(metric)](const RunResults& run) {
    const auto found = (run.*split).find(name);
    return found == (run.*split).end() ? std::nullopt : std::optional(found->second);
  };
  return {.key = fmt::format("{}_{}", split_name, metric),
          .title = fmt::format("{} {}", split_name, metric),
          .format = metric == "loss" ? "{:.6g}" : "{:.4f}",
          .better = is_test ? std::nullopt : std::optional(better_of(metric)),
          .always = find_metric(metric) == nullptr,
          .of = of};
}

const std::vector<Quantity>& quantities() {
  static const std::vector<Quantity> table = [] {
    std::vector<Quantity> all = {
        {"steps", "steps", "{:.0f}", {}, true, [](const RunResults& run) { return std::optional<double>(run.steps); }},
        {"steps_to_target", "steps to target", "{:.0f}", Better::less, false,
         [](const RunResults& run) { return std::optional<double>(run.steps_to_target); }}};
    for (const auto& [split, name] : {std::pair(&RunResults::train, "train"),
                                      {&RunResults::validation, "validation"},
                                      {&RunResults::test, "test"}}) {
      for (const std::string_view metric : evaluation_names())
        if (split != &RunResults::train || !find_metric(metric)) all.push_back(metric_of(split, name, metric));
    }
    all.push_back({"lost_ranks", "lost ranks", "{:.0f}", Better::less, false,
                   [](const RunResults& run) { return run.lost_ranks; }});
    all.push_back(
        {"staleness", "mean staleness", "{:.2f}", {}, false, [](const RunResults& run) { return run.staleness; }});
    all.push_back({"discarded_examples", "examples too late", "{:.0f}", Better::less, false,
                   [](const RunResults& run) { return run.discarded_examples; }});
    all.push_back({"examples_per_s", "examples/s", "{:.1f}", Better::more, true,
                   [](const RunResults& run) { return run.examples_per_s; }});
    all.push_back({"step_ms", "step, ms", "{:.3f}", {}, true, [](const RunResults& run) { return run.step_ms; }});
    return all;
  }();
  return table;
}

/// Speed per rank, compared with that of another run.
struct Efficiency {
  double percent;
  const char* scaling;  ///< strong: with the same batch; weak: with the same share of it
};

/// A run of the table, with what follows from comparing it with the others.
struct Entry {
  RunResults run;
  std::optional<Efficiency> efficiency;
};

/// Returns the keys that decide how much there is to compute for an example. Options of the optimizer are left out:
/// with more ranks, the learning rate usually differs.
DeckValues work(const DeckValues& deck) {
  DeckValues values;
  std::ranges::copy_if(deck, std::back_inserter(values), [](const auto& value) {
    return std::ranges::any_of(
        std::initializer_list<const char*>{"data", "model", "optimizer.type", "precision", "providers"},
        [&](const char* section) { return is_below(value.first, section); });
  });
  return values;
}

bool do_like_work(const RunResults& a, const RunResults& b) {
  return a.threads == b.threads && work(a.deck) == work(b.deck);
}

/// Compares the run with the first of `entries` that has done like work, which may be the run itself.
std::optional<Efficiency> efficiency_of(const RunResults& run, const std::vector<Entry>& entries) {
  if (!run.examples_per_s) return std::nullopt;
  const auto base = std::ranges::find_if(
      entries, [&](const Entry& entry) { return entry.run.examples_per_s && do_like_work(entry.run, run); });
  const RunResults& first = base->run;
  const auto per_rank = [](const RunResults& of) { return *of.examples_per_s / static_cast<double>(*of.ranks); };
  const double percent = 100 * (per_rank(run) / per_rank(first));
  if (run.examples_per_step == first.examples_per_step) return Efficiency{percent, "strong"};
  if (*run.examples_per_step * *first.ranks == *first.examples_per_step * *run.ranks)
    return Efficiency{percent, "weak"};
  return std::nullopt;
}

/// Sorts the best run first, and runs without the value last.
void sort_entries(std::vector<Entry>& entries, const std::string& key) {
  const Quantity& quantity = *std::ranges::find(quantities(), key, &Quantity::key);
  std::ranges::stable_sort(entries, [&](const Entry& a, const Entry& b) {
    const auto x = quantity.of(a.run), y = quantity.of(b.run);
    if (!x || !y) return x.has_value() && !y;
    return quantity.better == Better::more ? *x > *y : *x < *y;
  });
}

std::string deck_value(const Entry& entry, const std::string& key, const char* without) {
  const std::string* value = find_value(entry.run.deck, key);
  return value ? *value : without;
}

/// Returns the keys in which the runs' decks differ, in the decks' order.
std::vector<std::string> differing_keys(const std::vector<Entry>& entries) {
  std::vector<std::string> keys;
  for (const Entry& entry : entries)
    for (const auto& [key, value] : entry.run.deck)
      if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
  std::erase_if(keys, [&](const std::string& key) {
    const auto is_as_in_the_first = [&](const Entry& entry) {
      const std::string *value = find_value(entry.run.deck, key), *first = find_value(entries[0].run.deck, key);
      return value && first ? *value == *first : value == first;
    };
    return key == "run.name" || key == "run.output_dir" || std::ranges::all_of(entries, is_as_in_the_first);
  });
  return keys;
}

using Row = std::vector<std::string>;

std::string markdown_row(const Row& row) { return fmt::format("| {} |\n", fmt::join(row, " | ")); }

std::string markdown_head(const Row& titles, std::size_t words) {
  std::string line = "|";
  for (std::size_t i = 0; i < titles.size(); ++i) line += i < words ? "---|" : "--:|";
  return markdown_row(titles) + line + "\n";
}

/// The quantities that have a column in tables of these runs.
std::vector<Quantity> shown(const std::vector<Entry>& entries, bool in_csv) {
  std::vector<Quantity> columns;
  std::ranges::copy_if(quantities(), std::back_inserter(columns), [&](const Quantity& quantity) {
    return (quantity.always && (in_csv || !quantity.key.starts_with("test_"))) ||
           std::ranges::any_of(entries, [&](const Entry& entry) { return quantity.of(entry.run).has_value(); });
  });
  return columns;
}

std::string markdown(const std::vector<Entry>& entries, const std::vector<std::string>& keys) {
  const auto whole = [](const std::optional<std::int64_t>& number) { return number ? std::to_string(*number) : "–"; };
  const std::vector<Quantity> columns = shown(entries, false);
  Row titles{"run", "ranks × threads", "batch", "status"};
  for (const Quantity& quantity : columns) titles.push_back(quantity.title);
  titles.push_back("efficiency");
  std::string text = markdown_head(titles, 1);
  for (const auto& [run, efficiency] : entries) {
    Row row{run.name, run.ranks ? fmt::format("{} × {}", *run.ranks, *run.threads) : "–", whole(run.examples_per_step),
            run.status};
    for (const Quantity& quantity : columns) {
      const auto value = quantity.of(run);
      row.push_back(value ? fmt::format(fmt::runtime(quantity.format), *value) : "–");
    }
    row.push_back(efficiency ? fmt::format("{:.1f} % {}", efficiency->percent, efficiency->scaling) : "–");
    text += markdown_row(row);
  }
  if (!keys.empty()) {
    Row head{"run"};
    head.insert(head.end(), keys.begin(), keys.end());
    text += "\nWhere their decks differ:\n\n" + markdown_head(head, head.size());
    for (const Entry& entry : entries) {
      Row row{entry.run.name};
      for (const std::string& key : keys) row.push_back(deck_value(entry, key, "–"));
      text += markdown_row(row);
    }
  }
  for (const auto& [run, ignored] : entries)
    if (!run.spreads.empty()) text += fmt::format("\n{}\n\n{}", run.name, spread_text(run.spreads));
  return text;
}

std::string csv_row(Row row) {
  for (std::string& cell : row) cell = csv_cell(cell);
  return fmt::format("{}\n", fmt::join(row, ","));
}

std::string csv(const std::vector<Entry>& entries, const std::vector<std::string>& keys) {
  const auto plain = [](const auto& number) { return number ? fmt::format("{}", *number) : ""; };
  Row head{"run", "status", "ranks", "threads", "batch"};
  const std::vector<Quantity> columns = shown(entries, true);
  for (const Quantity& quantity : columns) head.push_back(quantity.key);
  head.insert(head.end(), {"efficiency_percent", "scaling"});
  head.insert(head.end(), keys.begin(), keys.end());
  std::string text = csv_row(head);
  for (const Entry& entry : entries) {
    const auto& [run, efficiency] = entry;
    Row row{run.name, run.status, plain(run.ranks), plain(run.threads), plain(run.examples_per_step)};
    for (const Quantity& quantity : columns) row.push_back(plain(quantity.of(run)));
    row.push_back(efficiency ? fmt::format("{}", efficiency->percent) : "");
    row.push_back(efficiency ? efficiency->scaling : "");
    for (const std::string& key : keys) row.push_back(deck_value(entry, key, ""));
    text += csv_row(row);
  }
  return text;
}

}  // namespace

std::vector<std::string> report_sort_keys() {
  std::vector<std::string> keys;
  for (const Quantity& quantity : quantities())
    if (quantity.better) keys.push_back(quantity.key);
  return keys;
}

std::string scaling_report(const ReportOptions& options) {
  std::vector<Entry> entries;
  std::vector<std::string> others;
  for (const auto& folder : options.runs) {
    try {
      entries.push_back({read_run_results(folder), std::nullopt});
    } catch (const Error& error) {
      if (error.status() != ExitStatus::missing_file) throw;
      others.push_back(error.what());
    }
  }
  if (entries.empty()) throw Error(ExitStatus::missing_file, others.front());
  for (const std::string& other : others) warn("{}; it is left out", other);
  for (Entry& entry : entries) entry.efficiency = efficiency_of(entry.run, entries);
  const std::vector<std::string> keys = differing_keys(entries);
  if (!options.sort.empty()) sort_entries(entries, options.sort);
  return options.csv ? csv(entries, keys) : markdown(entries, keys);
}

}  // namespace lockstep
