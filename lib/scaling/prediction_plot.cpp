// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "scaling/prediction_plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "io/replace_file.hpp"

namespace lockstep {
namespace {

constexpr double width = 420, height = 300, margin = 60;

/// Text as XML has it.
std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    if (c == '<') safe += "&lt;";
    else if (c == '&') safe += "&amp;";
    else safe += c;
  }
  return safe;
}

/// A panel with ranks along its logarithmic lower edge.
class Panel {
 public:
  Panel(double left, std::span<const Prediction> points, double low, double high, bool is_logarithmic)
      : left_(left),
        points_(points),
        low_(is_logarithmic ? std::log10(low) : low),
        high_(is_logarithmic ? std::log10(high) : high),
        is_logarithmic_(is_logarithmic) {}

  std::string frame(std::string_view title, std::span<const double> ticks) const {
    std::string svg = fmt::format(
        R"(<rect x="{}" y="{}" width="{}" height="{}" fill="none" stroke="#888"/><text x="{}" y="{}" font-weight="bold">{}</text>)"
        "\n",
        left_, margin, width, height, left_, margin - 12, title);
    for (const Prediction& point : points_)
      svg += fmt::format(R"(<text x="{:.1f}" y="{}" text-anchor="middle">{}</text>)"
                         "\n",
                         x(point), margin + height + 18, point.ranks);
    for (const double tick : ticks)
      svg += fmt::format(
          R"(<line x1="{0}" x2="{1}" y1="{2:.1f}" y2="{2:.1f}" stroke="#ddd"/><text x="{3}" y="{4:.1f}" text-anchor="end">{5:g}</text>)"
          "\n",
          left_, left_ + width, y(tick), left_ - 6, y(tick) + 4, tick);
    return svg + fmt::format(R"(<text x="{}" y="{}" text-anchor="middle">ranks</text>)"
                             "\n",
                             left_ + width / 2, margin + height + 38);
  }

  std::string curve(std::string_view name, std::string_view colour, int number,
                    const std::function<double(const Prediction&)>& value) const {
    std::string path, marks;
    for (const Prediction& point : points_) {
      path += fmt::format("{:.1f},{:.1f} ", x(point), y(value(point)));
      marks += fmt::format(R"(<circle cx="{:.1f}" cy="{:.1f}" r="3" fill="{}"/>)", x(point), y(value(point)), colour);
    }
    return fmt::format(
        R"(<polyline points="{}" fill="none" stroke="{}" stroke-width="2"/>{}<text x="{}" y="{}" fill="{}">{}</text>)"
        "\n",
        path, colour, marks, left_ + 10, margin + 18 + 16 * number, colour, name);
  }

 private:
  double x(const Prediction& point) const {
    const auto log = [](std::int64_t ranks) { return std::log2(static_cast<double>(ranks)); };
    const double first = log(points_.front().ranks), last = log(points_.back().ranks);
    return left_ + 20 + (width - 40) * (last > first ? (log(point.ranks) - first) / (last - first) : 0.5);
  }
  double y(double value) const {
    const double at = is_logarithmic_ ? std::log10(value) : value;
    return margin + height * (high_ - at) / (high_ - low_);
  }

  double left_;
  std::span<const Prediction> points_;
  double low_, high_;
  bool is_logarithmic_;
};

}  // namespace

void write_prediction_plot(const std::string& file, const std::string& machine,
                           std::span<const Prediction> predictions) {
  double shortest = 1e30, longest = 0;
  for (const Prediction& point : predictions) {
    shortest = std::min(shortest, 1e3 * point.computing);
    longest = std::max(longest, 1e3 * point.step());
  }
  const double low = std::pow(10, std::floor(std::log10(shortest))),
               high = std::pow(10, std::ceil(std::log10(longest * 1.01)));
  std::vector<double> decades;
  for (double tick = low; tick <= high * 1.01; tick *= 10) decades.push_back(tick);
  const Panel times(margin, predictions, low, high, true), shares(width + 2.5 * margin, predictions, 0, 110, false);
  const double percents[] = {0, 25, 50, 75, 100};
  std::string svg = fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" width="{}" height="{}" font-family="sans-serif" font-size="12">)"
      "\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"{}\" y=\"24\" font-size=\"14\">{}</text>\n",
      2 * width + 3.5 * margin, height + 2 * margin, margin, escaped(machine));
  svg += times.frame("a step, ms", decades);
  svg += times.curve("step", "#c0392b", 0, [](const Prediction& p) { return 1e3 * p.step(); });
  svg += times.curve("of it, computing", "#2471a3", 1, [](const Prediction& p) { return 1e3 * p.computing; });
  svg += shares.frame("efficiency, %", percents);
  svg += shares.curve("weak", "#1e8449", 0, [](const Prediction& p) { return 100 * p.weak; });
  svg += shares.curve("strong", "#7d3c98", 1, [](const Prediction& p) { return 100 * p.strong; });
  svg += "</svg>\n";
  replace_text_file(file, svg);
}

}  // namespace lockstep
