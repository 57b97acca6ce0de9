// The identity of a checkpoint: model, task, policy and settings, and which of them a reader must share.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace maniple {

inline constexpr const char* kCamerasLine = "data.cameras";  // whose images a policy sees

// What must agree before a checkpoint is loaded; a difference is an InputError that names the key.
struct CheckpointIdentity {
  std::string kind = "train";
  std::string model, task;              // what the digests are of, for people: names and sizes
  std::string model_digest;             // of the compiled model's numbers; "": learned without one
  std::string task_digest;              // of the resolved task; "": without one
  std::vector<std::string> task_lines;  // what its deck says, "key: value", for messages about differences
  std::string precision;
  // What a policy reads, is and gives: a line "key=value" for each number and key that its parameters do not
  // say. Of a policy that needs images the line of kCamerasLine is the first.
  std::string policy;
  // How it learns, "key: value" of each key: a run that goes on may have others, some of them.
  std::vector<std::string> settings;
  // Of these, keys that act at the beginning of a run alone and that nobody gave to this one, in which they
  // so are what they were; not written.
  std::set<std::string> unset = {};
  std::int64_t num_envs = 0;
  std::uint32_t seed = 0;
};

// The purpose of reading a checkpoint, which decides what must agree.
enum class CheckpointPurpose {
  resume,      // everything
  policy,      // model and task
  warm_start,  // what a policy is, and the sizes of what it sees and does
};

// A key of a task's deck with what a checkpoint and what this run has for it; "": nothing.
struct Difference {
  std::string key, stored, run;
  std::string text() const {
    if (stored == run) return key + ": in another order in this run";
    return key + ": the checkpoint has " + (stored.empty() ? "none" : stored) + ", this run " +
           (run.empty() ? "none" : run);
  }
};

// How two decks differ, line by line. Of a checkpoint of an earlier version, which has none, nothing is
// known.
std::vector<Difference> differences_of(const std::vector<std::string>& stored,
                                       const std::vector<std::string>& run);

// How the settings of a run that goes on differ from those of its checkpoint.
std::vector<Difference> differences_of_settings(const CheckpointIdentity& stored,
                                                const CheckpointIdentity& run);

// How what a policy sees and does differs, but for noise, bias and delay. `critic`: what is kept has one,
// too.
std::vector<Difference> differences_for_policy(const CheckpointIdentity& stored,
                                               const CheckpointIdentity& run, bool critic);

// Their keys, each once.
std::vector<std::string> keys_of(const std::vector<Difference>& differences);

// The first of them, and the keys of the others.
std::string text_of(const std::vector<Difference>& differences);

// Throws InputError for the first thing that must agree and does not.
void check_identity(const std::string& path, const CheckpointIdentity& stored, const CheckpointIdentity& run,
                    CheckpointPurpose purpose);

}  // namespace maniple
