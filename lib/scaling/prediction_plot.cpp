// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "scaling/prediction_plot.hpp"

#include <functional>
#include <vector>

#include "io/replace_file.hpp"
#include "monitor/chart.hpp"

namespace lockstep {

void write_prediction_plot(const std::string& file, const std::string& machine,
                           std::span<const Prediction> predictions) {
  Chart chart(machine, "ranks", "milliseconds per step");
  const auto points = [&](const std::function<double(const Prediction&)>& seconds) {
    std::vector<Chart::Point> all;
    for (const Prediction& point : predictions) all.push_back({static_cast<double>(point.ranks), 1e3 * seconds(point)});
    return all;
  };
  chart.add_points("step", points([](const Prediction& p) { return p.step(); }));
  chart.add_line("computing", points([](const Prediction& p) { return p.computing; }), Chart::Stroke::dashed);
  chart.add_line("perfect strong scaling", points([](const Prediction& p) { return p.strong * p.step(); }),
                 Chart::Stroke::dotted);
  replace_text_file(file, chart.svg());
}

}  // namespace lockstep
