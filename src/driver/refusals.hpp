// Refusals that several verbs share, in the same words, before they set up anything.
#pragma once

#include <string>

#include "src/config/config.hpp"
#include "src/parallel/session.hpp"

namespace maniple {

// Each throws an InputError at the key that it names.

// Refuses a deck without model.file, for verbs that also read decks without one.
void require_model(const Config& config);
// Refuses a deck without data.file.
void require_demonstrations(const Config& config);
// Refuses a batch.num_envs below the number of ranks.
void require_environments_for_ranks(const Config& config, const Session& session);
// Refuses output.trajectory.every with a verb that records no trajectories.
void refuse_trajectories(const Config& config, const char* verb);

// A warning where a policy from demonstrations sees its own actions and nothing bounds them, so that a small
// error may grow from step to step; "": it does not.
std::string echoed_actions_text(const Config& config);

}  // namespace maniple
