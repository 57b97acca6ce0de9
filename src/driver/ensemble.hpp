// Runs of one deck with several values of some keys, in one job: seeds, or a grid of settings. The ranks are
// divided among the members; where there are fewer ranks than members, each rank takes several, one after the
// other. A member is a run as it would be alone: its own directory, lock, log, checkpoints and bits.
#pragma once

#include <vector>

#include "src/config/members.hpp"
#include "src/driver/verbs.hpp"

namespace maniple {

// Collective. Runs all members, prints a table of how they ended and, for a verb with results, writes it to
// <output.directory>/ensemble_<results>.csv. A member that fails is named, and the others go on; at the end
// comes an Error that says which (InputError where they all were refused). stopped_early where members did
// not come to their end, all with good checkpoints.
ExitCode run_ensemble(const Verb& verb, std::vector<Member> members, Session& session);

}  // namespace maniple
