// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/monitor/chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep {
namespace {

// Pixels: the size of the picture, and the edges of the field that the axes enclose.
constexpr double width = 760, height = 480, left = 80, right = 480, top = 40, bottom = 420;
// Colours of Okabe & Ito, which colour-blind people can tell apart.
constexpr const char* colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"};

/// A logarithmic axis from pixel `from` to pixel `to`.
struct Axis {
  double low = std::numeric_limits<double>::infinity(), high = 0;
  double from = 0, to = 0;

  void include(double value) { low = std::min(low, value), high = std::max(high, value); }
  void widen() { low /= 1.3, high *= 1.3; }
  double pixel(double value) const { return from + (to - from) * std::log(value / low) / std::log(high / low); }
  /// Ticks at 1, 2 and 5 times powers of 10, or only at powers of 10 if there are many of these.
  std::vector<double> ticks() const {
    std::vector<double> ticks;
    const bool is_long = high / low > 3000;
    for (int power = -12; power < 18; ++power)
      for (const double digit : {1.0, 2.0, 5.0}) {
        const double value = digit * std::pow(10.0, power);
        if (value >= low && value <= high && (digit == 1.0 || !is_long)) ticks.push_back(value);
      }
    return ticks;
  }
};

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) safe += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
  return safe;
}

std::string text_at(double x, double y, const std::string& text, const char* more) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, more, escaped(text));
}

std::string segment(double x1, double y1, double x2, double y2, const char* more) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, y1, x2, y2, more);
}

const char* dashes(Chart::Stroke stroke) {
  if (stroke == Chart::Stroke::dashed) return "stroke-dasharray=\"7 4\"";
  return stroke == Chart::Stroke::dotted ? "stroke-dasharray=\"2 3\"" : "";
}

std::string axes_svg(const Axis& x, const Axis& y) {
  std::string svg;
  for (const double tick : x.ticks()) {
    svg += segment(x.pixel(tick), top, x.pixel(tick), bottom, "stroke=\"#e0e0e0\"");
    svg += text_at(x.pixel(tick), bottom + 18, fmt::format("{:g}", tick), "text-anchor=\"middle\"");
  }
  for (const double tick : y.ticks()) {
    svg += segment(left, y.pixel(tick), right, y.pixel(tick), "stroke=\"#e0e0e0\"");
    svg += text_at(left - 6, y.pixel(tick) + 4, fmt::format("{:g}", tick), "text-anchor=\"end\"");
  }
  return svg + fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#404040\"/>\n",
                           left, top, right - left, bottom - top);
}

}  // namespace

std::vector<Chart::Point> Chart::on_axes(std::vector<Point> points) {
  std::erase_if(points, [](const Point& point) { return !(point.x > 0 && point.y > 0); });
  return points;
}

void Chart::add_points(const std::string& name, const std::vector<Point>& points) {
  series_.push_back({name, on_axes(points)});
}

void Chart::add_line(const std::string& name, const std::vector<Point>& points, Stroke stroke) {
  series_.push_back({name, on_axes(points), true, stroke});
}

std::string Chart::svg() const {
  Axis x{.from = left, .to = right}, y{.from = bottom, .to = top};
  for (const Series& series : series_)
    for (const Point& point : series.points) x.include(point.x), y.include(point.y);
  x.widen(), y.widen();
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"{}\" height=\"{}\" fill=\"white\"/>\n",
      width, height, width, height);
  svg += axes_svg(x, y);
  svg += text_at((left + right) / 2, top - 14, title_, "text-anchor=\"middle\" font-size=\"15\"");
  svg += text_at((left + right) / 2, bottom + 42, x_name_, "text-anchor=\"middle\"");
  svg += fmt::format("<g transform=\"translate(22 {}) rotate(-90)\">{}</g>\n", (top + bottom) / 2,
                     text_at(0, 0, y_name_, "text-anchor=\"middle\""));
  for (std::size_t i = 0; i < series_.size(); ++i) {
    const Series& series = series_[i];
    const char* colour = colours[i % std::size(colours)];
    const double legend = top + 16 + 22 * static_cast<double>(i);
    if (series.is_line) {
      std::string path;
      for (const Point& point : series.points)
        path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : " L", x.pixel(point.x), y.pixel(point.y));
      svg += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\" {}/>\n", path, colour,
                         dashes(series.stroke));
      svg += segment(right + 14, legend - 4, right + 38, legend - 4,
                     fmt::format("stroke=\"{}\" stroke-width=\"1.5\" {}", colour, dashes(series.stroke)).c_str());
    } else {
      for (const Point& point : series.points)
        svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"/>\n", x.pixel(point.x),
                           y.pixel(point.y), colour);
      svg += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"4\" fill=\"{}\"/>\n", right + 26, legend - 4, colour);
    }
    svg += text_at(right + 46, legend, series.name, "");
  }
  return svg + "</svg>\n";
}

}  // namespace lockstep
