// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// A picture with two logarithmic axes, as SVG. Points are left out unless both of their values are above 0.
class Chart {
 public:
  struct Point {
    double x, y;
  };
  enum class Stroke { solid, dashed, dotted };

  Chart(std::string title, std::string x_name, std::string y_name)
      : title_(std::move(title)), x_name_(std::move(x_name)), y_name_(std::move(y_name)) {}

  void add_points(const std::string& name, const std::vector<Point>& points);
  void add_line(const std::string& name, const std::vector<Point>& points, Stroke stroke);
  std::string svg() const;

 private:
  static std::vector<Point> on_axes(std::vector<Point> points);

  struct Series {
    std::string name;
    std::vector<Point> points;
    bool is_line = false;
    Stroke stroke = Stroke::solid;
  };
  std::string title_, x_name_, y_name_;
  std::vector<Series> series_;
};

}  // namespace lockstep
