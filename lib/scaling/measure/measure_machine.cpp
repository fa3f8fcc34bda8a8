// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "scaling/measure/measure_machine.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/process.hpp"
#include "base/text.hpp"
#include "comm/topology.hpp"
#include "comm/transport.hpp"
#include "io/output_file.hpp"

namespace lockstep {

void measure_machine(const Communicator& comm, const std::optional<RunConfig>& deck, const MachineBench& options,
                     const std::function<void(const std::string&)>& print) {
  if (comm.size() < 2)
    throw SharedError(ExitStatus::bad_usage,
                      "bench machine: needs at least two ranks; start it on all ranks of one or two nodes, as "
                      "mpirun -n 2");
  std::optional<NetworkToMeasure> steps;
  comm.run_collectively([&] {
    if (comm.is_root() && !options.save.empty())
      check_output(options.save, options.overwrite, {deck ? deck->source.position.file : ""});
    if (deck) steps.emplace(*deck, options);
  });
  const Topology topology(comm);
  Machine machine;
  machine.name = fmt::format("{}, {} ranks on {}{}", host_name(), comm.size(), counted(topology.nodes, "node"),
                             comm.network() ? fmt::format(" ({})", comm.network()->description()) : "");
  print(machine.name);
  measure_exchange(comm, options.save, machine);
  const auto link = [](const LinkSpeed& speed) {
    return fmt::format("{:.3g} µs, {:.3g} GB/s", speed.latency_us, speed.bandwidth_gbps);
  };
  print(fmt::format("messages within a node {}{}", link(machine.node), topology.smallest > 1 ? "" : " (not measured)"));
  print(fmt::format("messages between nodes {}{}", link(machine.network),
                    topology.nodes > 1 ? "" : " (not measured, assumed as within a node; enter the network's)"));
  print(fmt::format("sums in a node's memory {}; adding {:.3g} GB/s; disk {}", link(machine.sum), machine.reduce_gbps,
                    machine.disk_gbps ? fmt::format("{:.3g} GB/s", *machine.disk_gbps)
                                      : "not measured (--save measures the disk of its file)"));
  std::vector<Precision> precisions{Precision::fp32, Precision::bf16};
  if (deck && std::ranges::find(precisions, deck->precision.compute) == precisions.end())
    precisions.push_back(deck->precision.compute);
  measure_compute(comm, precisions, machine);
  for (const ProductSpeed& product : machine.products)
    print(fmt::format("products of {:.3g} MFLOP in {}: {:.3g} GFLOP/s", product.mflop,
                      precision_names[static_cast<std::size_t>(product.precision)], product.gflops));
  print(fmt::format("memory {:.3g} GB/s; fixed time of a step {:.3g} µs{}", machine.memory_gbps, machine.step_us,
                    machine.host_copy_gbps
                        ? fmt::format("; copies between device and host {:.3g} GB/s", *machine.host_copy_gbps)
                        : ""));
  if (!steps) print("steps of a network and their noise not measured (give its deck)");
  if (steps) measure_steps(comm, *deck, *steps, options.seconds, machine);
  for (const MeasuredStep& step : machine.measured)
    print(fmt::format("{} examples: forward {:.4g}, backward {:.4g}, optimizer {:.4g}, rest {:.4g} ms", step.examples,
                      step.forward_ms, step.backward_ms, step.optimizer_ms, step.other_ms));
  comm.run_collectively([&] {
    if (comm.is_root() && !options.save.empty()) replace_text_file(options.save, write_config(machine));
  });
}

}  // namespace lockstep
