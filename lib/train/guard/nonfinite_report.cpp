// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/guard/nonfinite_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/text.hpp"
#include "core/dtype.hpp"
#include "core/element_range.hpp"
#include "ops/reduction.hpp"

namespace lockstep {
namespace {

/// Largest number of examples that a message names.
constexpr std::size_t most_named = 10;

template <class T>
std::int64_t count_of(const std::byte* numbers, std::int64_t count) {
  std::int64_t found = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, numbers + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
    found += is_nonfinite(value) ? 1 : 0;
  }
  return found;
}

template <class T>
bool has_unknown(const std::byte* numbers, std::span<const std::int64_t> tables) {
  for (std::size_t i = 0; i < tables.size(); ++i) {
    T value;
    std::memcpy(&value, numbers + i * sizeof(T), sizeof(T));
    const auto row = std::round(static_cast<double>(value));
    if (tables[i] > 0 && !(row >= 0 && row < static_cast<double>(tables[i]))) return true;
  }
  return false;
}

/// Says which target of an example is the first that is not finite, and what it is, as in "target 3 is nan".
std::string first_nonfinite(const std::byte* target, const ExampleFormat& format) {
  const std::int64_t count = format.target_shape.count();
  for (std::int64_t i = 0; i < count; ++i) {
    const std::byte* const at = target + static_cast<std::size_t>(i) * size_of(format.target_dtype);
    if (count_nonfinite(at, format.target_dtype, 1) == 0) continue;
    const double value = value_at(at, format.target_dtype, 0);
    return fmt::format("target {} is {}", i, std::isnan(value) ? std::abs(value) : value);
  }
  return "";
}

/// The first examples that something is wrong with, and a count of all of them.
class Named {
 public:
  void add(const std::string& example) {
    if (count_++ < static_cast<std::int64_t>(most_named)) names_.push_back(example);
  }
  std::int64_t count() const { return count_; }
  /// Adds those of the other ranks: any rank may be the one whose message is shown. Collective.
  void share(const Communicator& ranks) {
    std::string all;
    for (const std::string& text : ranks.gather_to_root(fmt::format("{}\n", fmt::join(names_, "\n"))))
      all += text == "\n" ? "" : text;
    ranks.broadcast(all);
    auto total = static_cast<double>(count_);
    ranks.all_reduce_sum({&total, 1});
    count_ = static_cast<std::int64_t>(total);
    names_.clear();
    for (std::size_t begin = 0, end = 0; begin < all.size() && names_.size() < most_named; begin = end + 1) {
      end = all.find('\n', begin);
      names_.push_back(all.substr(begin, end - begin));
    }
  }
  /// Returns "examples 17, 2045 and 3 more".
  std::string text() const {
    const std::int64_t more = count_ - static_cast<std::int64_t>(names_.size());
    return fmt::format("example{} {}{}", count_ == 1 ? "" : "s", fmt::join(names_, ", "),
                       more > 0 ? fmt::format(" and {} more", more) : "");
  }

 private:
  std::vector<std::string> names_;
  std::int64_t count_ = 0;
};

/// Counts with a team for each tensor; does nothing if the loss is finite.
template <class T>
void count_where_lost(const ExecSpace& space, const SummedLoss& loss, const StepDecision* decision,
                      const ElementRange* tensors, std::int64_t count, const T* gradients, double* counts) {
  using Team = Kokkos::TeamPolicy<ExecSpace>;
  Kokkos::parallel_for(
      "lockstep::nonfinite_report::gradients", Team(space, static_cast<int>(count), team_threads(256), 1),
      KOKKOS_LAMBDA(const Team::member_type& team) {
        if (decision->halted != 0 || !is_nonfinite(loss.mean())) return;
        const ElementRange range = tensors[team.league_rank()];
        double bad = 0;
        Kokkos::parallel_reduce(
            Kokkos::TeamThreadRange(team, range.count),
            [&](const std::int64_t i, double& sum) { sum += is_nonfinite(gradients[range.first + i]) ? 1 : 0; }, bad);
        Kokkos::single(Kokkos::PerTeam(team), [&] { counts[team.league_rank()] = bad; });
      });
}

}  // namespace

OverflowWatch::OverflowWatch(const ParameterBuffer& parameters, const Graph& graph, std::int64_t sums) : sums_(sums) {
  for (std::size_t node = graph.nodes().size(); node-- > 0;)
    if (const ElementRange range = parameters.of_layer(node).own; range.count > 0)
      layers_.push_back({graph.nodes()[node].name, range, 0});
  for (const Parameter& parameter : parameters.parameters())
    for (Layer& layer : layers_)
      if (layer.name == graph.nodes()[parameter.node].name && parameter.kind == ParameterSpec::Kind::trained)
        layer.numbers += parameter.range.count;
  for (OwnedTensor* counts : {&own_, &counts_[0], &counts_[1]})
    *counts = OwnedTensor("lockstep::overflow_counts", DType::f64, {sums, static_cast<std::int64_t>(layers_.size())});
}

void OverflowWatch::begin(const ExecSpace& space) {
  fill_zero(space, own_.get());
  sum_ = 0;
}

void OverflowWatch::end(const ExecSpace& space, std::int64_t step) const {
  copy(space, own_.get(), counts_[step % 2].get());
}

void OverflowWatch::inspect(const ExecSpace& space, const ParameterBuffer& parameters, ElementRange range) {
  const auto found = std::ranges::lower_bound(layers_, range.first, {},
                                              [](const Layer& layer) { return layer.range.first; });
  if (found == layers_.end() || found->range.first != range.first) return;  // statistics, which have no gradients
  count_nonfinite(space, parameters.gradients(range),
                  {own_.get().as<double>() + sum_ * own_.get().shape[1] + (found - layers_.begin()), DType::f64, {1}});
}

std::string OverflowWatch::describe(const ExecSpace& space, const Communicator& comm,
                                    std::span<const std::int64_t> numbers, std::int64_t step) const {
  std::vector<double> counts(static_cast<std::size_t>(sums_) * layers_.size());
  copy_to_host(space, counts_[step % 2].get(), counts.data());
  for (std::size_t i = layers_.size(); i < counts.size(); ++i) counts[i % layers_.size()] += counts[i];
  counts.resize(layers_.size());
  const auto first = std::find_if(counts.begin(), counts.end(), [](double count) { return count > 0; });
  // For each rank: the number of its first layer with overflows, from 1 on, and how many that layer has.
  std::vector<double> ranks(2 * static_cast<std::size_t>(comm.size()), 0.0);
  if (first != counts.end()) {
    ranks[2 * static_cast<std::size_t>(comm.rank())] = static_cast<double>(first - counts.begin()) + 1;
    ranks[2 * static_cast<std::size_t>(comm.rank()) + 1] = *first;
  }
  comm.all_reduce_sum(ranks);
  for (std::size_t rank = 0; rank < ranks.size() / 2; ++rank) {
    if (ranks[2 * rank] == 0) continue;
    const Layer& layer = layers_[static_cast<std::size_t>(ranks[2 * rank]) - 1];
    return fmt::format("{:.3g} % of the gradient of layer '{}' is not finite on rank {}",
                       100 * ranks[2 * rank + 1] / static_cast<double>(layer.numbers * sums_), layer.name,
                       numbers.empty() ? static_cast<std::int64_t>(rank) : numbers[rank]);
  }
  return "the sum of the gradients over the ranks is not finite";
}

bool has_unknown_row(const std::byte* input, DType dtype, std::span<const std::int64_t> tables) {
  if (dtype == DType::f32) return has_unknown<float>(input, tables);
  if (dtype == DType::f64) return has_unknown<double>(input, tables);
  if (dtype == DType::u8) return has_unknown<std::uint8_t>(input, tables);
  return false;
}

std::int64_t count_nonfinite(const std::byte* numbers, DType dtype, std::int64_t count) {
  if (dtype == DType::f32) return count_of<float>(numbers, count);
  if (dtype == DType::f64) return count_of<double>(numbers, count);
  return 0;
}

std::optional<double> first_fill_value(const std::byte* numbers, DType dtype, std::int64_t count,
                                       std::span<const double> fill_values) {
  if (dtype != DType::f32 && dtype != DType::f64) return std::nullopt;
  constexpr double usual = -9999, large = 1e18;
  for (std::int64_t i = 0; i < count; ++i) {
    const double value = value_at(numbers, dtype, i);
    if (value == usual || (std::abs(value) > large && std::isfinite(value)) ||
        std::ranges::find(fill_values, value) != fill_values.end())
      return value;
  }
  return std::nullopt;
}

NonfiniteReport::NonfiniteReport(const Communicator& comm, const Dataset& data, const Model& model)
    : comm_(comm), data_(data), model_(model), count_("lockstep::nonfinite_count", DType::f64, {1}) {
  const ParameterBuffer& parameters = model_.parameters();
  std::vector<ElementRange>& ranges = gradient_ranges_;
  for (std::size_t node = 0; node < model_.graph().nodes().size(); ++node)
    for (std::size_t i = 0; i < parameters.of_layer(node).ranges.size(); ++i)
      if (parameters.of_layer(node).gradients[i]) ranges.push_back(parameters.of_layer(node).ranges[i]);  // else frozen
  const std::size_t bytes = ranges.size() * sizeof(ElementRange);
  gradient_tensors_ = Buffer("lockstep::gradient_tensors", bytes);
  copy_from_host(ExecSpace(), ranges.data(),
                 gradient_tensors_.tensor(0, DType::u8, {static_cast<std::int64_t>(bytes)}));
  gradient_counts_ = OwnedTensor("lockstep::gradient_counts", DType::f64, {static_cast<std::int64_t>(ranges.size())});
}

void NonfiniteReport::begin_step(std::int64_t step, std::span<const std::int64_t> examples) {
  examples_[static_cast<std::size_t>(step % 3)].assign(examples.begin(), examples.end());
}

void NonfiniteReport::count_gradients(const ExecSpace& space, const SummedLoss& loss, const StepDecision* decision,
                                      bool are_divided) const {
  const ParameterBuffer& parameters = model_.parameters();
  if (are_divided && comm_.size() > 1) {
    if (!is_nonfinite(loss.mean())) return;
    const std::vector<double> counts = count_divided(
        gradient_ranges_, [&](ElementRange range) { return count_in(space, parameters.owned().gradients(range)); });
    copy_from_host(space, counts.data(), gradient_counts_.get());
    return;
  }
  const auto* const tensors = reinterpret_cast<const ElementRange*>(gradient_tensors_.data());
  const Tensor gradients = parameters.gradients();
  dispatch_master(gradients.dtype, [&]<class T>(T) {
    count_where_lost(space, loss, decision, tensors, gradient_counts_.get().count(), gradients.as<const T>(),
                     gradient_counts_.get().as<double>());
  });
}

double NonfiniteReport::count_in(const ExecSpace& space, const Tensor& numbers) const {
  count_nonfinite(space, numbers, count_.get());
  double count = 0;
  copy_to_host(space, count_.get(), &count);
  return count;
}

/// Counts in values that are not in memory, piece by piece.
double NonfiniteReport::count_in_store(const ExecSpace& space, ElementRange range) const {
  const ParameterShard& owned = model_.parameters().owned();
  const OwnedTensor piece("lockstep::values_of_store", owned.values().dtype, {std::min(range.count, array_block)});
  std::vector<std::byte> host(piece.get().bytes());
  double count = 0;
  for (std::int64_t done = 0; done < range.count; done += array_block) {
    const std::int64_t here = std::min(range.count - done, array_block);
    owned.store()->read(owned.value_at(range.first + done), here, host.data());
    const Tensor values = piece.buffer().tensor(0, owned.values().dtype, {here});
    copy_from_host(space, host.data(), values);
    count += count_in(space, values);
  }
  return count;
}

/// Counts in tensors whose numbers ranks have divided among them, and in those that are not trained, which all ranks
/// have. If several groups of ranks have divided them alike, each number counts once. Collective.
std::vector<double> NonfiniteReport::count_divided(std::span<const ElementRange> tensors,
                                                   const std::function<double(ElementRange)>& count_in_range) const {
  std::vector<ElementRange> owned = model_.parameters().layout().owned();
  if (comm_.is_root()) owned.push_back(model_.parameters().layout().others());
  std::vector<double> counts(2 * tensors.size());  // of each tensor: numbers that are not finite, and numbers looked at
  for (std::size_t i = 0; i < tensors.size(); ++i)
    for (const ElementRange& range : owned)
      if (const ElementRange part = range.within(tensors[i]); part.count > 0) {
        counts[2 * i] += count_in_range(part);
        counts[2 * i + 1] += static_cast<double>(part.count);
      }
  comm_.all_reduce_sum(counts);
  std::vector<double> found(tensors.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    if (counts[2 * i] > 0) found[i] = counts[2 * i] * static_cast<double>(tensors[i].count) / counts[2 * i + 1];
  return found;
}

bool NonfiniteReport::parameters_are_finite(const ExecSpace& space, const Optimizer& optimizer) const {
  if (optimizer.left_nonfinite(space)) return false;
  const ElementRange statistics = model_.parameters().layout().statistics();
  return statistics.count == 0 || count_in(space, model_.parameters().values(statistics)) == 0;
}

std::string NonfiniteReport::gradients(const ExecSpace& space) const {
  std::vector<double> counts(static_cast<std::size_t>(gradient_counts_.get().count()));
  copy_to_host(space, gradient_counts_.get(), counts.data());
  return layers("gradient", [&, next = counts.begin()](std::size_t node) mutable {
    Share share;
    for (const Tensor& tensor : model_.parameters().of_layer(node).gradients)
      if (tensor) share.add(*next++, tensor.count());
    return share;
  });
}

std::string NonfiniteReport::parameters(const ExecSpace& space) const {
  const ParameterBuffer& parameters = model_.parameters();
  return layers("parameters", [&](std::size_t node) {
    Share share;
    if (parameters.windows().division.values) {
      const std::vector<ElementRange>& tensors = parameters.of_layer(node).ranges;
      const std::vector<double> counts = count_divided(tensors, [&](ElementRange range) {
        if (range.first >= parameters.trained_size()) return count_in(space, parameters.values(range));
        return parameters.owned().store() ? count_in_store(space, range)
                                          : count_in(space, parameters.owned().values(range));
      });
      for (std::size_t i = 0; i < counts.size(); ++i) share.add(counts[i], tensors[i].count);
      return share;
    }
    for (const Tensor& tensor : parameters.of_layer(node).values) share.add(count_in(space, tensor), tensor.count());
    return share;
  });
}

/// Names the first layer whose share_of(node) is not finite, and says how many others there are.
std::string NonfiniteReport::layers(const char* numbers, const std::function<Share(std::size_t)>& share_of) const {
  std::string first;
  int others = 0;
  for (std::size_t node = 0; node < model_.graph().nodes().size(); ++node) {
    const Share share = share_of(node);
    if (share.bad == 0) continue;
    if (!first.empty()) ++others;
    else
      first = fmt::format("the {} of layer '{}' ({:.3g} %)", numbers, model_.graph().nodes()[node].name,
                          100 * share.bad / share.all);
  }
  return others > 0 ? fmt::format("{} and of {}", first, counted(others, "other")) : first;
}

std::string NonfiniteReport::inputs(const Communicator& ranks, std::int64_t step) const {
  if (!data_.can_be_read_again()) return "its batch, which the program supplied, was not checked";
  const std::vector<std::int64_t>& examples = examples_[static_cast<std::size_t>(step % 3)];
  const ExampleFormat& format = data_.format();
  std::vector<std::byte> input(format.input_bytes()), target(format.target_bytes());
  const std::vector<std::int64_t> tables = model_.graph().tables_of_data();
  Named inputs, targets, missing;
  const std::vector<double> fill_values = data_.fill_values();
  for (const std::int64_t example : examples) {
    data_.read({&example, 1}, input.data(), target.data());
    const std::int64_t number = data_.number_in_file(example);
    if (count_nonfinite(input.data(), format.input_dtype, format.input_shape.count()) > 0 ||
        has_unknown_row(input.data(), format.input_dtype, tables))
      inputs.add(fmt::format("{}", number));
    if (count_nonfinite(target.data(), format.target_dtype, format.target_shape.count()) > 0)
      targets.add(fmt::format("{} ({})", number, first_nonfinite(target.data(), format)));
    const auto fill = [&](const std::vector<std::byte>& numbers, DType dtype, const Shape& shape) {
      return first_fill_value(numbers.data(), dtype, shape.count(), fill_values);
    };
    std::optional<double> found = fill(input, format.input_dtype, format.input_shape);
    if (!found) found = fill(target, format.target_dtype, format.target_shape);
    if (found) missing.add(fmt::format("{} ({:g})", number, *found));
  }
  inputs.share(ranks);
  targets.share(ranks);
  missing.share(ranks);
  const auto text = [&](const char* what, const Named& named) {
    return fmt::format("the {} of {} of {} are not finite", what, named.text(), data_.description());
  };
  if (inputs.count() + targets.count() == 0 && missing.count() > 0)
    return fmt::format(
        "in its batch, {} of {} hold numbers that stand for missing ones (`lockstep check --data` finds all of these; "
        "replace them, or leave these examples out)",
        missing.text(), data_.description());
  if (inputs.count() + targets.count() == 0)
    return format.has_classes() ? "all inputs of its batch are finite"
                                : "all inputs and targets of its batch are finite";
  std::string found = "in its batch, ";
  if (inputs.count() > 0)
    found += text("inputs", inputs) + (tables.empty() ? "" : ", or name rows that the tables do not have");
  if (targets.count() > 0) found += (inputs.count() > 0 ? ", and " : "") + text("targets", targets);
  return found + " (`lockstep check --data` finds all of these; correct them, or leave these examples out)";
}

}  // namespace lockstep
