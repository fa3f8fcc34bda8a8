// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <fmt/ranges.h>
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <sstream>

#include "base/duration.hpp"
#include "base/text.hpp"
#include "core/random.hpp"
#include "ops/elementwise/copies.hpp"
#include "run/experiment/experiment.hpp"
#include "run/inference/inference.hpp"
#include "run/inference/predictor.hpp"

namespace lockstep {
namespace {

/// Names of tokens: characters or, if the data did not say which, numbers.
class Vocabulary {
 public:
  explicit Vocabulary(const std::string& characters) : characters_(decode_utf8(characters).points) {}

  /// Number of characters; 0: tokens are numbers.
  std::int64_t size() const { return static_cast<std::int64_t>(characters_.size()); }

  /// Throws bad_usage if the text has something that is no token below `tokens`.
  std::vector<std::int32_t> tokens_of(const std::string& text, std::int64_t tokens) const {
    std::vector<std::int32_t> found;
    if (!characters_.empty()) {
      const CodePoints decoded = decode_utf8(text);
      validate(decoded.bytes == text.size(), ExitStatus::bad_usage, "--prompt is not UTF-8 from byte {} on; correct it",
               decoded.bytes);
      for (const std::uint32_t point : decoded.points) {
        const auto place = std::ranges::find(characters_, point);
        validate(place - characters_.begin() < std::min(tokens, size()), ExitStatus::bad_usage,
                 "--prompt: '{}' is not one of the {} characters that the network was trained on; leave it out",
                 encode_utf8({point}), std::min(tokens, size()));
        found.push_back(static_cast<std::int32_t>(place - characters_.begin()));
      }
      return found;
    }
    std::istringstream words(text);
    for (std::string word; words >> word;) {
      const std::optional<double> number = number_of(word);
      validate(
          number && *number < static_cast<double>(tokens) && std::floor(*number) == *number, ExitStatus::bad_usage,
          "--prompt: '{}' is not a token from 0 to {} (the network's data did not say which characters tokens stand "
          "for); give numbers",
          word, tokens - 1);
      found.push_back(static_cast<std::int32_t>(*number));
    }
    return found;
  }

  std::string text_of(const std::vector<std::int32_t>& tokens) const {
    if (characters_.empty()) return fmt::format("{}", fmt::join(tokens, " "));
    std::vector<std::uint32_t> points;
    for (const std::int32_t token : tokens) points.push_back(characters_.at(static_cast<std::size_t>(token)));
    return encode_utf8(points);
  }

 private:
  std::vector<std::uint32_t> characters_;
};

/// A network that reads T tokens and returns, for each of them, a vector of scores of the next token.
class LanguageModel {
 public:
  LanguageModel(const TrainedModel& trained, const Vocabulary& vocabulary) : name_(trained.name) {
    const RunConfig& config = trained.config;
    const ExampleFormat format = known_format(config.data).value_or(ExampleFormat{});
    validate(format.has_tokens(), ExitStatus::bad_usage,
             "{}: is not a language model (its network was not trained on tokens); give --data for predictions", name_);
    const std::int64_t length = format.input_shape[0];
    Graph graph = make_graph(config, format);
    const Shape& output = graph.output_shape();
    validate(output.rank() == 2 && output[0] == length, ExitStatus::bad_usage,
             "{}: is not a language model (for {} tokens it outputs {}); give --data for predictions", name_, length,
             to_string(output));
    tokens_ = vocabulary.size() > 0 ? std::min(output[1], vocabulary.size()) : output[1];
    if (const std::int64_t known = vocabulary_of(graph); known > 0) tokens_ = std::min(tokens_, known);
    model_.emplace(make_model(config, std::move(graph), 1, Purpose::inference));
    trained.load(*model_);
    input_ = OwnedTensor("lockstep::tokens", DType::i32, {1, length});
    output_ = OwnedTensor("lockstep::outputs", DType::f64, {1, length, model_->graph().output_shape()[1]});
  }

  std::int64_t length() const { return input_.get().shape[1]; }
  std::int64_t tokens() const { return tokens_; }

  /// Returns the score of each token after the last one of `text`, of which only the last T tokens are used.
  std::vector<double> next(std::span<const std::int32_t> text) {
    const auto seen = text.last(std::min(text.size(), static_cast<std::size_t>(length())));
    const std::vector<double> outputs = outputs_of(seen, 0);
    const auto row = outputs.begin() + static_cast<std::ptrdiff_t>(seen.size() - 1) * output_.get().shape[2];
    return {row, row + tokens_};
  }

  /// Throws bad_usage for a network whose outputs depend on tokens that come later.
  void require_causal() {
    const std::vector<std::int32_t> first{0};
    const auto row = output_.get().shape[2];
    const std::vector<double> a = outputs_of(first, 0), b = outputs_of(first, static_cast<std::int32_t>(tokens_ - 1));
    validate(length() == 1 || std::equal(a.begin(), a.begin() + row, b.begin()), ExitStatus::bad_usage,
             "{}: its network reads the tokens that follow (attention that is not causal), and cannot generate them; "
             "train one with causal attention",
             name_);
  }

 private:
  /// Returns the outputs of all T positions, with `padding` after the text.
  std::vector<double> outputs_of(std::span<const std::int32_t> text, std::int32_t padding) {
    std::vector<std::int32_t> all(static_cast<std::size_t>(length()), padding);
    std::ranges::copy(text, all.begin());
    const ExecSpace space;
    copy_from_host(space, all.data(), input_.get());
    const PassContext context{.space = space, .training = false, .same_parameters = ran_++ > 0};
    convert(space, model_->forward(context, input_.get()), output_.get());
    std::vector<double> outputs(static_cast<std::size_t>(output_.get().count()));
    copy_to_host(space, output_.get(), outputs.data());
    return outputs;
  }

  std::string name_;
  std::optional<Model> model_;
  OwnedTensor input_, output_;
  std::int64_t tokens_ = 0;
  std::int64_t ran_ = 0;
};

/// Draws one of the `top_k` likeliest tokens by the probabilities softmax(outputs / temperature). `chance`: in [0, 1).
std::int32_t choose(const std::vector<double>& outputs, double temperature, std::int64_t top_k, double chance) {
  std::vector<std::int32_t> order(outputs.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](std::int32_t a, std::int32_t b) {
    return outputs[static_cast<std::size_t>(a)] > outputs[static_cast<std::size_t>(b)];
  });
  if (temperature == 0) return order.front();
  if (top_k > 0) order.resize(std::min(order.size(), static_cast<std::size_t>(top_k)));
  const double largest = outputs[static_cast<std::size_t>(order.front())];
  std::vector<double> until;  // cumulative sums of the weights
  double sum = 0;
  for (const std::int32_t token : order)
    until.push_back(sum += std::exp((outputs[static_cast<std::size_t>(token)] - largest) / temperature));
  const auto place = std::ranges::upper_bound(until, chance * sum);
  return order[std::min(static_cast<std::size_t>(place - until.begin()), order.size() - 1)];
}

}  // namespace

std::string generate(const GenerateOptions& options) {
  const TrainedModel trained = TrainedModel::read(options.checkpoint);
  const Vocabulary vocabulary(trained.file.vocabulary());
  LanguageModel model(trained, vocabulary);
  model.require_causal();
  std::vector<std::int32_t> text = vocabulary.tokens_of(options.prompt, model.tokens());
  validate(!text.empty(), ExitStatus::bad_usage, "--prompt is empty; give at least one token to begin with");
  const RandomStream random(static_cast<std::uint64_t>(options.seed), RandomPurpose::generation);
  for (std::int64_t i = 0; i < options.count; ++i) {
    const std::vector<double> outputs = model.next(text);
    validate(std::ranges::all_of(outputs, [](double value) { return std::isfinite(value); }), ExitStatus::bad_data,
             "{}: its network's outputs are not finite; use another checkpoint", options.checkpoint);
    text.push_back(choose(outputs, options.temperature, options.top_k, random.uniform(static_cast<std::uint64_t>(i))));
  }
  return vocabulary.text_of(text);
}

}  // namespace lockstep
