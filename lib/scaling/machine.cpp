// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "scaling/machine.hpp"

#include <algorithm>
#include <cmath>

#include "run/deck/file_kind.hpp"

namespace lockstep {

void LinkSpeed::describe(Fields& fields) {
  fields.number("latency_us", latency_us, not_negative, "latency of the shortest message, in microseconds",
                Presence::required);
  fields.number("bandwidth_gbps", bandwidth_gbps, positive, "bandwidth of a long message, in 10^9 bytes per second",
                Presence::required);
}

void ProductSpeed::describe(Fields& fields) {
  fields.choice("precision", precision, precision_names, "type of the numbers that are multiplied");
  fields.number("mflop", mflop, positive,
                "operations of the product, in 10^6 (a multiplication and an addition count as two)",
                Presence::required);
  fields.number("gflops", gflops, positive, "speed in 10^9 operations per second", Presence::required);
}

void MeasuredStep::describe(Fields& fields) {
  fields.integer("parameters", parameters, at_least_one, "number of parameters of the network that was measured",
                 Presence::required);
  fields.number("mflop_per_example", mflop_per_example, not_negative,
                "operations of the network's large products for an example, forward and backward, in 10^6",
                Presence::required);
  fields.choice("precision", precision, precision_names, "type that the network computes with");
  fields.text("optimizer", optimizer, "optimizer.type of the network's deck", Presence::required);
  fields.integer("examples", examples, at_least_one, "number of examples of the rank in the step", Presence::required);
  fields.number("forward_ms", forward_ms, not_negative, "median time of the forward pass, in milliseconds",
                Presence::required);
  fields.number("backward_ms", backward_ms, not_negative, "median time of the backward pass, in milliseconds",
                Presence::required);
  fields.number("optimizer_ms", optimizer_ms, not_negative, "median time of the optimizer step, in milliseconds",
                Presence::required);
  fields.number("other_ms", other_ms, not_negative, "median time of the rest of the step, in milliseconds",
                Presence::required);
}

void NoisePoint::describe(Fields& fields) {
  fields.number("share", share, fraction, "share of all steps of a rank, from the fastest on", Presence::required);
  fields.number("factor", factor, positive, "time of the slowest of these steps, as a multiple of the median",
                Presence::required);
}

void Machine::describe(Fields& fields) {
  fields.text("name", name, "name of the machine, for people", Presence::required);
  fields.integer("ranks_per_node", ranks_per_node, {1, 1e6}, "number of ranks that share the memory of a node",
                 Presence::required);
  fields.number("memory_gb", memory_gb, positive,
                "memory that a rank may take, in 10^9 bytes (when not given: no limit)");
  fields.number("node_hour_price", node_hour_price, not_negative,
                "price of a node for an hour (when not given: predictions have no price)");
  fields.section(
      "compute",
      [this](Fields& f) {
        f.sections("products", products, "Speeds that a rank reaches in large products, by rising size");
        f.check(!products.empty(), "products", "has no entry; give at least the speed of large products");
        f.check(
            std::ranges::is_sorted(products, {}, [](const ProductSpeed& p) { return std::pair(p.precision, p.mflop); }),
            "products", "must be sorted by precision (fp32, bf16, fp16, fp64), then by rising mflop; sort them");
        f.number("memory_gbps", memory_gbps, positive,
                 "speed of memory in 10^9 bytes per second that a rank reads and writes while all ranks of its node do",
                 Presence::required);
        f.number("step_us", step_us, not_negative,
                 "time that a step takes besides products and memory, in microseconds");
        f.sections("noise", noise, "How times of the same work vary: a point for each share of the steps, rising");
        f.check(noise.size() != 1, "noise", "has a single point; give at least two, or leave it out");
        f.check(std::ranges::is_sorted(noise, {}, &NoisePoint::share) &&
                    std::ranges::is_sorted(noise, {}, &NoisePoint::factor),
                "noise", "must rise in both share and factor; sort its points");
        f.sections("measured", measured, "Measured steps, which are used for the networks they were measured with");
      },
      "Speed of one rank by itself", Presence::required);
  fields.section(
      "node", [this](Fields& f) { node.describe(f); }, "Messages between two ranks of a node", Presence::required);
  fields.section(
      "sum", [this](Fields& f) { sum.describe(f); },
      "Sums of the ranks of a node in their shared memory, by the bytes of one rank", Presence::required);
  fields.section(
      "network",
      [this](Fields& f) {
        network.describe(f);
        f.number(
            "node_gbps", node_gbps, positive,
            "speed in 10^9 bytes per second at which all ranks of a node send together (when not given: no limit)");
      },
      "Messages between two ranks of different nodes", Presence::required);
  fields.number("reduce_gbps", reduce_gbps, positive,
                "speed in 10^9 bytes per second at which a rank adds what it receives to its own numbers",
                Presence::required);
  fields.number("host_copy_gbps", host_copy_gbps, positive,
                "speed of copies from a device to its host and back, in 10^9 bytes per second (when not given: kernels "
                "run on hosts)");
  fields.number(
      "disk_gbps", disk_gbps, positive,
      "speed at which one rank reads or writes files, in 10^9 bytes per second (when not given: files take no time)");
}

Machine read_machine(const std::string& file) {
  Machine machine;
  const DeckNode node = parse_deck(read_deck_file(file), file);
  require_kind(node, FileKind::machine);
  read_config(node, machine);
  machine.position.file = file;
  return machine;
}

/// The maximum of P draws is below x with probability F(x)^P, so its mean is the integral of Q(u^(1/P)) over u, where Q
/// is the quantile function. On each line of Q that integral is elementary, as with s = u^(1/P),
/// ∫ s P s^(P−1) ds = P / (P + 1) · s^(P+1).
double slowest_of(std::span<const NoisePoint> noise, std::int64_t ranks) {
  if (noise.empty()) return 1;
  const auto n = static_cast<double>(ranks);
  double mean = noise.front().factor * std::pow(noise.front().share, n) +
                noise.back().factor * (1 - std::pow(noise.back().share, n));
  for (std::size_t i = 1; i < noise.size(); ++i) {
    const NoisePoint &a = noise[i - 1], &b = noise[i];
    if (a.share == b.share) continue;
    const double slope = (b.factor - a.factor) / (b.share - a.share);
    mean += (a.factor - slope * a.share) * (std::pow(b.share, n) - std::pow(a.share, n)) +
            slope * n / (n + 1) * (std::pow(b.share, n + 1) - std::pow(a.share, n + 1));
  }
  return mean;
}

std::vector<NoisePoint> noise_of(std::vector<double> seconds) {
  std::ranges::sort(seconds);
  const auto last = static_cast<double>(seconds.size() - 1);
  const double median = seconds[seconds.size() / 2];
  std::vector<NoisePoint> noise;
  for (const double share : {0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 1.0})
    if (share == 1 || (1 - share) * last >= 1)
      noise.push_back({share, seconds[static_cast<std::size_t>(std::lround(share * last))] / median});
  return noise;
}

}  // namespace lockstep
