// The configuration that a caller of the Python package asks for: decks, a run in place of one, and
// assignments over them.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/config/members.hpp"
#include "src/tasks/compile/prepared.hpp"

namespace maniple {

// `run`: the file of its results, for messages, and every key of its deck, of which what belongs to that run
// alone does not hold here. Throws InputError as load_config() does.
inline Config given_config(const std::vector<std::string>& decks, const std::vector<std::string>& overrides,
                           const std::optional<std::pair<std::string, std::string>>& run) {
  std::optional<EarlierRun> earlier;
  if (run) {
    earlier = EarlierRun{.results = run->first, .deck = run->second};
    earlier->without = {
        "learning.resume", "learning.warm_start", "control", "initial_state", "output", "run", "data"};
  }
  return load_members(decks, overrides, true, earlier, check_model_and_task).front().config;
}

}  // namespace maniple
