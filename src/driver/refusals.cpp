#include "src/driver/refusals.hpp"

#include <string>

#include "src/base/counted.hpp"
#include "src/base/error.hpp"
#include "src/config/paths.hpp"

namespace maniple {

void require_model(const Config& config) {
  if (config.model.file.empty()) throw no_model_file(config);
}

void require_demonstrations(const Config& config) {
  if (config.data.file.empty())
    throw InputError(config.where_of("data.file"), "data.file", "found nothing",
                     "allowed: an HDF5 file of demonstrations, or a list of them");
}

void require_environments_for_ranks(const Config& config, const Session& session) {
  if (session.size() > config.batch.num_envs)
    throw InputError(config.where_of("batch.num_envs"), "batch.num_envs",
                     counted(config.batch.num_envs, "environment") + " on " + counted(session.size(), "rank"),
                     "at least one environment per rank");
}

void refuse_trajectories(const Config& config, const char* verb) {
  if (config.output.trajectory_every > 0)
    throw InputError(
        config.where_of("output.trajectory.every"), "output.trajectory.every",
        std::string("trajectories asked of ") + verb,
        "rollout records trajectories (control.source=policy control.checkpoint=<run directory>)");
}

}  // namespace maniple
