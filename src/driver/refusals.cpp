#include "src/driver/refusals.hpp"

#include <fmt/format.h>

#include <regex>
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
        std::string("trajectories requested from ") + verb,
        "rollout records trajectories (control.source=policy control.checkpoint=<run directory>)");
}

std::string echoed_actions_text(const Config& config) {
  static const std::regex action(R"(\b(last_)?action\b)"), bounds(R"(\b(clamp|min|max|tanh)\b)");
  const bool bounded = config.learning.diffuses()
                           ? config.diffusion.clip_sample
                           : config.policy.squash_actions || config.policy.clip_actions > 0;
  if (!config.learning.imitates() || bounded) return "";
  for (const TermConfig& term : config.task.observations) {
    const std::string& text = term.expression;
    const bool echoes =
        term.term == "last_action" || (std::regex_search(text, action) && !std::regex_search(text, bounds));
    if (!echoes || term.clip) continue;
    return fmt::format(
        "task.observations: {} shows the policy its own last action, which nothing bounds: a clone that errs "
        "may act further and further away; {} or a clip at the observation bounds it",
        term.term.empty() ? text : term.term,
        config.learning.diffuses()
            ? "diffusion.clip_sample=true"
            : "policy.clip_actions=X, X the largest action of the data, policy.squash_actions=true with "
              "data.normalize_actions=min_max,");
  }
  return "";
}

}  // namespace maniple
