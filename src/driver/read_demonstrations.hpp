// The demonstrations of a run, for every verb that learns from them or inspects them: their location, whether
// they and the learner fit into memory, and the numbers themselves.
#pragma once

#include <memory>
#include <string>

#include "src/driver/setup.hpp"
#include "src/io/demonstrations.hpp"

namespace maniple {

// Facts about demonstrations before their numbers are read.
struct DemonstrationPlan {
  DemonstrationContents contents;
  std::string directory;  // of a file without a name that will hold them; "": memory will
  std::string memory;     // what a rank will take, as a line for people
};

// Looks into the files. Collective, since a file, or an instruction of learning.mixed_precision, may be
// missing on one host alone.
DemonstrationContents look_together(const Config& config, Session& session);

// Decides where the data will lie, as data.cache says, and refuses, with the key of the largest part, what a
// rank has no memory for. `config`: for this number of ranks (effective_batch.hpp). `beside`: what else the
// rank will take. Collective.
DemonstrationPlan plan_demonstrations(const Config& config, DemonstrationContents contents, Session& session,
                                      const RankMemory& beside = {});

// Reads them. Collective; the same numbers on all ranks.
std::unique_ptr<Demonstrations> read_demonstrations(const Config& config, DemonstrationPlan plan,
                                                    Session& session);

}  // namespace maniple
