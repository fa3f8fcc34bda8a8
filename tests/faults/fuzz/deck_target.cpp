// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads decks: the text, the typed configuration, the resolved deck, and the network that it describes.
#include "nn/graph.hpp"
#include "run/deck/run_config.hpp"
#include "support.hpp"

namespace lockstep::fuzz {

void read(Bytes bytes) {
  may_refuse([&] {
    RunConfig config = read_run_config(parse_deck(std::string(bytes.begin(), bytes.end()), "deck.yaml"));
    const std::string resolved = write_config(config);
    std::string again;
    try {
      RunConfig same = read_run_config(parse_deck(resolved, "resolved.yaml"));
      again = write_config(same);
    } catch (const Error& error) {
      again = error.what();
    }
    require(resolved == again, "the resolved deck reads back to itself", resolved + "\n---\n" + again);
    const Shape images{28, 28, 1};
    const Graph graph(config.model.resolved_layers(),
                      config.model.input.empty() ? images : Shape(std::span(config.model.input)));
  });
}

void mend(std::span<std::uint8_t>) {}

}  // namespace lockstep::fuzz
