// The names are looked for in the text of the deck, as terms are compiled for a model that has the room
// already.
#include "src/tasks/terms/applied_forces.hpp"

#include <algorithm>
#include <string>

namespace maniple {
namespace {

bool has_name(const TaskConfig& task, const std::string& name) {
  const auto in = [&](const std::string& text) { return text.find(name) != std::string::npos; };
  for (const auto* terms :
       {&task.actions, &task.observations, &task.critic_observations, &task.rewards, &task.terminations,
        &task.resets, &task.variables, &task.commands, &task.events, &task.metrics})
    for (const TermConfig& term : *terms)
      if (term.term == name || in(term.target) || in(term.expression) || in(term.reset) || in(term.update))
        return true;
  return in(task.reset_until) || std::any_of(task.definitions.begin(), task.definitions.end(),
                                             [&](const auto& definition) { return in(definition.second); });
}

}  // namespace

void make_room_for_forces(ModelSizes& sizes, const TaskConfig& task) {
  if (has_name(task, "xfrc_applied") || has_name(task, kForceTerm)) sizes.nxfrc = sizes.nbody;
  if (has_name(task, "qfrc_applied")) sizes.nqfrc = sizes.nv;
}

void make_room_for_forces(ModelSizes& sizes) {
  sizes.nxfrc = sizes.nbody;
  sizes.nqfrc = sizes.nv;
}

}  // namespace maniple
