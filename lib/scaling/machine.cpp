// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "scaling/machine.hpp"

#include <algorithm>

#include "run/deck/file_kind.hpp"

namespace lockstep {

void LinkSpeed::describe(Fields& fields) {
  fields.number("latency_us", latency_us, not_negative, "of the shortest message, in microseconds", Presence::required);
  fields.number("bandwidth_gbps", bandwidth_gbps, positive, "10^9 bytes a second of a long one", Presence::required);
}

void ProductSpeed::describe(Fields& fields) {
  fields.choice("precision", precision, precision_names, "of the numbers that are multiplied");
  fields.number("mflop", mflop, positive, "operations of the product (a multiplication and an addition are two), 10^6",
                Presence::required);
  fields.number("gflops", gflops, positive, "10^9 of them a second", Presence::required);
}

void MeasuredStep::describe(Fields& fields) {
  fields.integer("parameters", parameters, at_least_one, "of the network that was measured", Presence::required);
  fields.number("mflop_per_example", mflop_per_example, not_negative,
                "operations of its large products for an example, forward and backward, 10^6", Presence::required);
  fields.choice("precision", precision, precision_names, "of its numbers");
  fields.text("optimizer", optimizer, "optimizer.type of its deck", Presence::required);
  fields.integer("examples", examples, at_least_one, "of the rank in the step", Presence::required);
  fields.number("forward_ms", forward_ms, not_negative, "medians of many steps, in milliseconds", Presence::required);
  fields.number("backward_ms", backward_ms, not_negative, "likewise", Presence::required);
  fields.number("optimizer_ms", optimizer_ms, not_negative, "likewise", Presence::required);
  fields.number("other_ms", other_ms, not_negative, "the rest of the step", Presence::required);
}

void NoisePoint::describe(Fields& fields) {
  fields.number("share", share, fraction, "of all steps of a rank, from the fastest on", Presence::required);
  fields.number("factor", factor, positive, "times the median that the slowest of them takes", Presence::required);
}

void Machine::describe(Fields& fields) {
  fields.text("name", name, "of the machine, for people", Presence::required);
  fields.integer("ranks_per_node", ranks_per_node, {1, 1e6}, "that share memory", Presence::required);
  fields.number("memory_gb", memory_gb, positive, "10^9 bytes that a rank may take (when not given: no limit)");
  fields.number("node_hour_price", node_hour_price, not_negative,
                "of a node for an hour (when not given: none is said)");
  fields.section(
      "compute",
      [this](Fields& f) {
        f.sections("products", products, "what a rank reaches in large products, by rising size");
        f.check(!products.empty(), "products", "there is none; give at least the speed of large products");
        f.check(
            std::ranges::is_sorted(products, {}, [](const ProductSpeed& p) { return std::pair(p.precision, p.mflop); }),
            "products", "are not by rising mflop of each precision; sort them");
        f.number("memory_gbps", memory_gbps, positive,
                 "10^9 bytes a second that a rank reads and writes while all ranks of its node do", Presence::required);
        f.number("step_us", step_us, not_negative, "microseconds of a step beside products and memory");
        f.sections("noise", noise, "how times of the same work differ: a point for each share of the steps, rising");
        f.check(noise.size() != 1, "noise", "has a single point; give at least two, or leave it out");
        f.check(std::ranges::is_sorted(noise, {}, &NoisePoint::share) &&
                    std::ranges::is_sorted(noise, {}, &NoisePoint::factor),
                "noise", "does not rise; sort its points");
        f.sections("measured", measured, "steps that were measured, which count for the networks they are of");
      },
      "One rank by itself", Presence::required);
  fields.section(
      "node", [this](Fields& f) { node.describe(f); }, "Messages between two ranks of a node", Presence::required);
  fields.section(
      "sum", [this](Fields& f) { sum.describe(f); },
      "Sums of the ranks of a node in their shared memory, by the bytes of one rank", Presence::required);
  fields.section(
      "network",
      [this](Fields& f) {
        network.describe(f);
        f.number("node_gbps", node_gbps, positive,
                 "10^9 bytes a second that all ranks of a node send together (when not given: no limit)");
      },
      "Messages between two ranks of different nodes", Presence::required);
  fields.number("reduce_gbps", reduce_gbps, positive, "10^9 bytes a second of what a rank receives and adds to its own",
                Presence::required);
  fields.number("host_copy_gbps", host_copy_gbps, positive,
                "10^9 bytes a second from a device to its host and back (when not given: kernels run on hosts)");
  fields.number("disk_gbps", disk_gbps, positive,
                "10^9 bytes a second that one rank reads or writes (when not given: files take no time)");
}

Machine read_machine(const std::string& file) {
  Machine machine;
  const DeckNode node = parse_deck(read_deck_file(file), file);
  require_kind(node, FileKind::machine);
  read_config(node, machine);
  machine.position.file = file;
  return machine;
}

}  // namespace lockstep
