// Differences of two runs, by the keys of their decks, and
// whether one may read the other's checkpoint.
#include "src/io/checkpoint_identity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <regex>
#include <sstream>
#include <string_view>
#include <utility>

#include "src/base/error.hpp"
#include "src/config/schema.hpp"

namespace maniple {
namespace {

// How these lines differ. The elements of a list that both have count as the same wherever they stand.
std::vector<Difference> differences_between(const std::vector<std::string>& stored,
                                            const std::vector<std::string>& run) {
  std::vector<Difference> found;
  const auto key_of = [](const std::string& line) { return line.substr(0, line.find(": ")); };
  const auto value_of = [](const std::string& line) {
    const auto colon = line.find(": ");
    return colon == std::string::npos ? std::string() : line.substr(colon + 2);
  };
  std::vector<std::string> only_run = run;
  for (const std::string& line : stored) {
    const auto same = std::find(only_run.begin(), only_run.end(), line);
    if (same == only_run.end())
      found.push_back({key_of(line), value_of(line), ""});
    else
      only_run.erase(same);
  }
  for (const std::string& line : only_run) {
    const auto pair = std::find_if(found.begin(), found.end(), [&](const Difference& d) {
      return d.key == key_of(line) && d.run.empty();
    });
    if (pair == found.end())
      found.push_back({key_of(line), "", value_of(line)});
    else
      pair->run = value_of(line);
  }
  for (std::size_t i = 0; found.empty() && i < run.size(); ++i)
    if (stored[i] != run[i]) found.push_back({key_of(run[i]), "", ""});
  // what decides the policy's sizes first
  std::vector<Difference> ordered;
  for (const bool sizes : {true, false})
    for (const Difference& d : found)
      if (sizes ==
          (d.key == "task.actions" || d.key == "task.observations" || d.key == "task.critic_observations"))
        ordered.push_back(d);
  return ordered;
}

// How what a policy sees and does differs, at these keys of lists of terms. What only disturbs it, noise,
// bias and delay, is the same as none.
std::vector<Difference> differences_of_terms(const CheckpointIdentity& stored, const CheckpointIdentity& run,
                                             const std::vector<std::string>& keys) {
  static const std::regex disturbance(R"(, (noise|noise_std|bias|delay): (\[[^\]]*\]|[^,}]*))");
  std::vector<Difference> found;
  if (stored.task_lines.empty() || run.task_lines.empty()) return found;  // as in differences_of()
  for (const std::string& key : keys) {
    const auto terms_of = [&](const std::vector<std::string>& lines) {
      std::vector<std::string> terms;
      for (const std::string& line : lines)
        if (line.starts_with(key + ": ")) terms.push_back(std::regex_replace(line, disturbance, ""));
      return terms;
    };
    for (const Difference& difference :
         differences_between(terms_of(stored.task_lines), terms_of(run.task_lines)))
      found.push_back(difference);
  }
  return found;
}

// Refuses a task that shows a policy something else, or where it acts otherwise. What only disturbs it may be
// another.
void check_policy_task(const std::string& path, const CheckpointIdentity& stored,
                       const CheckpointIdentity& run) {
  if (const std::vector<Difference> found = differences_for_policy(stored, run, false); !found.empty())
    throw InputError(SourceLocation{path}, "", found.front().text(),
                     "allowed: the value of the training; only noise, bias and delay may differ");
}

// "key=value" by lines.
std::vector<std::pair<std::string, std::string>> values_of(const std::string& lines) {
  std::vector<std::pair<std::string, std::string>> values;
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) {
    const auto equals = line.find('=');
    if (equals != std::string::npos) values.emplace_back(line.substr(0, equals), line.substr(equals + 1));
  }
  return values;
}

// Whether the policy is the run's: its parameters alone do not say what they are multiplied with. What only
// limits actions and observations may change while a policy learns, but not before it is evaluated.
void check_policy(const std::string& path, const CheckpointIdentity& stored, const CheckpointIdentity& run,
                  CheckpointPurpose purpose) {
  const auto of_run = values_of(run.policy);
  const std::map<std::string, std::string> mine(of_run.begin(), of_run.end());
  const auto of_file = values_of(stored.policy);
  const auto diffuses = [](const auto& values) {
    return std::any_of(values.begin(), values.end(),
                       [](const auto& value) { return value.first.starts_with("diffusion."); });
  };
  if (!of_file.empty() && diffuses(of_file) != diffuses(mine))
    throw InputError(SourceLocation{path}, "learning.algorithm",
                     diffuses(of_file) ? "the checkpoint has a diffusion policy" : "the checkpoint has none",
                     diffuses(of_file)
                         ? "this run has none; set learning.preset=diffusion_policy and the keys "
                           "diffusion.* of the training"
                         : "this run has diffusion");
  for (const auto& [key, found] : of_file) {
    if (key == kCamerasLine && purpose == CheckpointPurpose::policy)
      throw InputError(SourceLocation{path}, "policy", "the policy needs images: " + found,
                       "allowed: a policy that needs no images, because environments render none "
                       "(tools/export_onnx.py exports this one for use with cameras)");
    const auto wanted = mine.find(key);
    if (wanted == mine.end() || wanted->second == found) continue;
    const bool limits = key.starts_with("policy.clip_") || key == "policy.min_std" || key == "policy.max_std";
    if (limits && purpose != CheckpointPurpose::policy) continue;
    // of a task the number alone does not say which terms came or went
    const std::vector<Difference> terms = differences_of_terms(stored, run, {key});
    const bool brings_keys = purpose == CheckpointPurpose::policy && !key.starts_with("task.");
    throw InputError(
        SourceLocation{path}, key, "the checkpoint has " + found,
        "this run has " + wanted->second + (terms.empty() ? "" : "; " + terms.front().text()) +
            (brings_keys ? "; the run that learned it, in place of control.checkpoint and before "
                           "other decks ('maniple evaluate RUN deck.yaml'), brings its keys along"
                         : ""));
  }
}

// A value of a deck's text, in quotes or not.
bool has_value(const std::string& text, const std::string& value) {
  return text == value || text == '"' + value + '"';
}

// Whether the actor of a run that trains can begin with what `imitate` made: an MLP whose normalization its
// first and last layers take in. One message names all keys to set.
void check_clone(const std::string& path, const CheckpointIdentity& stored, const CheckpointIdentity& run) {
  const auto of_run = values_of(run.policy), of_file = values_of(stored.policy);
  std::map<std::string, std::string> mine(of_run.begin(), of_run.end()),
      theirs(of_file.begin(), of_file.end());
  const bool squashes = theirs["policy.squash_actions"] == "true";
  const bool moves_actions =
      std::any_of(stored.settings.begin(), stored.settings.end(), [](const std::string& line) {
        return line.starts_with("data.normalize_actions: ") && line.find("none") == std::string::npos;
      });
  const char* const found =
      of_file.empty() || theirs.contains("diffusion.down_dims") ? "a diffusion policy of imitate"
      : theirs.contains(kCamerasLine)                           ? "a policy that needs images"
      : theirs["policy.modes"] != "0"                           ? "a mixture (learning.loss gmm)"
      : !has_value(theirs["policy.recurrent"], "none")          ? "a recurrent policy of imitate"
      : theirs["policy.state_dependent_std"] == "true" ? "a policy of imitate with policy.state_dependent_std"
      : squashes && moves_actions
          ? "a policy of imitate with policy.squash_actions and data.normalize_actions"
          : nullptr;
  if (found != nullptr)
    throw InputError(
        SourceLocation{path}, "learning.warm_start", std::string("found ") + found,
        "allowed of imitate: an MLP of vectors with learning.loss l2, l1, smooth_l1 or gaussian, "
        "policy.recurrent none, policy.state_dependent_std false, and policy.squash_actions "
        "false or data.normalize_actions none");
  for (const char* const key : {"task.observations", "task.actions"})
    if (mine[key] != theirs[key])
      throw InputError(SourceLocation{path}, key, "the checkpoint has " + theirs[key],
                       "this run has " + mine[key]);
  // (what the clone's normalization does its layers do from now on)
  for (const char* const key :
       {"policy.normalize_observations", "policy.shared", "policy.state_dependent_std"})
    theirs[key] = "false";
  std::vector<std::string> keys;
  for (const char* const key : {"policy.hidden", "policy.activation", "policy.layer_norm", "policy.recurrent",
                                "policy.squash_actions", "policy.state_dependent_std",
                                "policy.normalize_observations", "policy.shared"})
    if (mine[key] != theirs[key]) {
      keys.push_back(fmt::format("{}={}", key, theirs[key]));
      std::erase_if(keys.back(), [](char c) { return c == ' ' || c == '"'; });
    }
  if (!keys.empty())
    throw InputError(SourceLocation{path}, "learning.warm_start",
                     "found a policy of imitate, whose actor is not this run's",
                     fmt::format("allowed: with {}", fmt::join(keys, " ")));
}

}  // namespace

std::vector<Difference> differences_of(const std::vector<std::string>& stored,
                                       const std::vector<std::string>& run) {
  if (stored.empty() || run.empty()) return {};
  return differences_between(stored, run);
}

std::vector<Difference> differences_of_settings(const CheckpointIdentity& stored,
                                                const CheckpointIdentity& run) {
  std::vector<Difference> found = differences_of(stored.settings, run.settings);
  std::erase_if(found, [&](const Difference& difference) { return run.unset.contains(difference.key); });
  return found;
}

std::vector<Difference> differences_for_policy(const CheckpointIdentity& stored,
                                               const CheckpointIdentity& run, bool critic) {
  std::vector<std::string> keys{"task.observations", "task.actions"};
  if (critic) keys.insert(keys.begin() + 1, "task.critic_observations");
  return differences_of_terms(stored, run, keys);
}

std::vector<std::string> keys_of(const std::vector<Difference>& differences) {
  std::vector<std::string> keys;
  for (const Difference& difference : differences)
    if (std::find(keys.begin(), keys.end(), difference.key) == keys.end()) keys.push_back(difference.key);
  return keys;
}

std::string text_of(const std::vector<Difference>& differences) {
  std::vector<std::string> others = keys_of(differences);
  others.erase(others.begin());
  return differences.front().text() +
         (others.empty() ? "" : fmt::format("; other differences: {}", fmt::join(others, ", ")));
}

void check_identity(const std::string& path, const CheckpointIdentity& stored, const CheckpointIdentity& run,
                    CheckpointPurpose purpose) {
  // (a policy may go on with other terms of the same sizes: read_warm_start() says so)
  if (purpose == CheckpointPurpose::warm_start)
    return stored.kind == "imitate" && run.kind == "train" ? check_clone(path, stored, run)
                                                           : check_policy(path, stored, run, purpose);
  // names and sizes say most of what differs; a number within says nothing but that it does
  auto compare_digests = [&](const char* key, const std::string& found, const std::string& wanted,
                             const std::string& stored_digest, const std::string& run_digest) {
    if (stored_digest == run_digest) return;
    // a policy may be tried where some numbers are others: read_replicated() warns
    const bool tried = purpose == CheckpointPurpose::policy && !stored.policy.empty();
    if (tried && (found == wanted || std::string_view(key) == "task")) return;
    if (found == wanted)
      throw InputError(SourceLocation{path}, key, "the checkpoint is of " + found + " with other values",
                       "this run has the digest " + run_digest + ", the checkpoint " + stored_digest +
                           "; learning.warm_start begins a new run with what a policy has learned");
    throw InputError(SourceLocation{path}, key,
                     "the checkpoint is of " + (found.empty() ? "digest " + stored_digest : found),
                     "this run has " + (wanted.empty() ? "none" : wanted));
  };
  // a policy from demonstrations alone fits where its shapes do
  if (purpose == CheckpointPurpose::policy && stored.task_digest.empty())
    return check_policy(path, stored, run, purpose);
  compare_digests("model.file", stored.model, run.model, stored.model_digest, run.model_digest);
  if (purpose == CheckpointPurpose::resume && stored.task_digest != run.task_digest)
    if (const std::vector<Difference> found = differences_of(stored.task_lines, run.task_lines);
        !found.empty())
      throw InputError(SourceLocation{path}, "", text_of(found),
                       "allowed: the same task, or learning.warm_start for a new run with this policy");
  compare_digests("task", stored.task, run.task, stored.task_digest, run.task_digest);
  check_policy(path, stored, run, purpose);
  if (purpose == CheckpointPurpose::policy) return check_policy_task(path, stored, run);
  if (stored.kind != run.kind)
    throw InputError(SourceLocation{path}, "kind of run", "the checkpoint has " + stored.kind,
                     "this run has " + run.kind);
  const bool rate_lasts = std::find(run.settings.begin(), run.settings.end(),
                                    "learning.schedule: \"adaptive\"") != run.settings.end();
  for (const Difference& difference : differences_of_settings(stored, run)) {
    if (difference.stored.empty()) continue;  // a checkpoint of an earlier version
    const Key* const key = key_named(difference.key);
    if ((key != nullptr && key->is(kLasting)) || (rate_lasts && difference.key == "learning.learning_rate"))
      throw InputError(SourceLocation{path}, "", difference.text(),
                       "allowed: the value that the run began with, or learning.warm_start for a new run "
                       "with this policy");
  }
  auto compare_setting = [&](const char* key, const std::string& found, const std::string& wanted) {
    if (found != wanted)
      throw InputError(SourceLocation{path}, key, "the checkpoint has " + found,
                       "this run has " + wanted + "; learning.warm_start begins a new run with this policy");
  };
  compare_setting("simulation.precision", stored.precision, run.precision);
  compare_setting("batch.num_envs", std::to_string(stored.num_envs), std::to_string(run.num_envs));
  compare_setting("batch.seed", std::to_string(stored.seed), std::to_string(run.seed));
}

}  // namespace maniple
