// The common start of every verb: model, memory estimate, simulation, header, identity.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "src/config/config.hpp"
#include "src/io/checkpoint_identity.hpp"
#include "src/io/results.hpp"
#include "src/learning/acting_policy.hpp"
#include "src/learning/evaluation.hpp"
#include "src/learning/learner.hpp"
#include "src/learning/policy.hpp"
#include "src/parallel/session.hpp"
#include "src/simulation/simulation.hpp"

namespace maniple {

// What a verb keeps in memory on each rank: environments alone, with one of these (`evaluation`: a policy and
// what its episodes returned), or only those of the evaluations of a policy that learns from data.
enum class Holds { environments, policy, evaluation, learner, periodic_evaluation };

// The evaluations of a policy while it is trained: environments of their own, each time the same episodes.
class PeriodicEvaluation {
 public:
  // Of the model of `simulation`; all of it outlives this.
  PeriodicEvaluation(const Config& config, const Simulation& simulation, Session& session);
  // Collective; the same on every rank.
  EvaluationMeans evaluate(ActingPolicy& policy) const;

 private:
  Config config_;
  const Simulation& simulation_;
  Session& session_;
};
// Refuses what no training does: control.checkpoint, and evaluation.every with a task whose episodes need not
// end.
void check_training(const Config& config);

// The warning about more ranks than blocks of a batch of these; empty if each rank has some.
std::string idle_ranks_text(const Partition& batch, int ranks, const std::string& of_what);

// Prints the header and the memory estimate, refuses what cannot fit, then builds the simulation; of
// Holds::periodic_evaluation as small a one as there can be, which stands for the task.
std::unique_ptr<Simulation> set_up_simulation(const Config& config, Session& session, const std::string& verb,
                                              Holds holds);
// What that takes.
struct RankMemory {
  struct Part {
    std::string key;         // of the deck, that says how much
    std::string what;        // for people
    std::size_t bytes = 0;   // where kernels work
    std::size_t copies = 0;  // that the host keeps of it, whatever kernels work on
    std::size_t sum() const { return bytes + copies; }
  };
  std::vector<Part> parts;
  std::size_t bytes_per_env = 0;

  void add(const Part& part) { parts.push_back(part); }
  std::size_t total() const;
  // What a device takes of it, and what its host does.
  std::size_t on_device() const;
  std::size_t beside_device() const;
  std::size_t of(const std::string& key) const;
};
// A learner's, or a policy's, but for what it keeps of its batch.
void add_network(RankMemory& memory, const Config& config, const LearnerMemory& learner);
// "1234 B per environment, 5.6 MB per rank"
std::string memory_text(const RankMemory& memory);
RankMemory rank_memory(const Config& config, const Prepared& prepared, const Session& session, Holds holds);
// Refuses, with the same words on every rank and the key of the largest part, what does not fit into a host
// or a control group together with what its other ranks need, or into a rank's device.
void check_memory(const RankMemory& memory, Session& session, const Config& config);
// Whether it does not refuse. Collective; the same on all ranks.
bool fits(const RankMemory& memory, Session& session);
// Refuses files of initial states and controls that are not as this program wrote them. Collective.
void check_input_files(const Config& config, Session& session);
// What a policy reads, is and gives, for CheckpointIdentity; not how it begins and learns, nor keys that
// nothing reads. `cameras`: whose images it sees beside the observations.
std::string policy_lines(Config config, const PolicySizes& sizes, const std::vector<Camera>& cameras = {});
// Keys that decide how a policy comes about, as "key: value".
std::vector<std::string> settings_lines(Config config);
// Of these, those of the first policy that nobody gave.
std::set<std::string> unset_beginnings(const Config& config);
// The identity that checkpoints of this run must match.
CheckpointIdentity checkpoint_identity(const Config& config, const Simulation& simulation);
// Of the simulation's task, as learners see it.
EnvironmentSizes environment_sizes(const Simulation& simulation);
// The policy of control.checkpoint, and its iteration; the simulation gets the task's curricula as they stood
// there. Collective.
struct LoadedPolicy {
  std::unique_ptr<ActingPolicy> policy;
  std::int64_t iteration = 0;
  std::string curricula;  // those that the checkpoint set, with their values; "": none
};
LoadedPolicy load_policy(const Config& config, Simulation& simulation, Session& session);
// The /run group of results.h5.
RunRecord run_record(const Config& config, const Session& session, const Simulation& simulation,
                     const std::string& verb);
RunRecord run_record(const Config& config, const Session& session,
                     const std::string& verb);  // without a model
// The lines of all ranks, in their order. Collective.
std::vector<std::string> gather_lines(const std::vector<std::string>& mine, Session& session);
// Names events whose draws at start-up changed nothing, in environments that have been reset.
void report_idle_draws(const Simulation& simulation, const Session& session);
// What a run did not pass on as it came: bad states that were reset, rewards and observations that were not
// finite, clipped actions. Counted over all ranks, with the first environments named, once per run.
void report_incidents(const Simulation& simulation, Session& session);
// Rewards and observations that became 0, of all steps so far. Collective.
void report_bad_values(const Simulation& simulation, Session& session);
// What an iteration of this many control steps left out of learning, with the environments whose state was
// bad. Error when that is all there was. Collective.
void report_invalid_samples(const Simulation& simulation, Session& session, std::int64_t iteration,
                            std::int64_t samples, std::int64_t horizon);
// Compiler, lane width and options of this build.
std::string build_description();

}  // namespace maniple
