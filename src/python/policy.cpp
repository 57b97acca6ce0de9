#include "src/python/policy.hpp"

#include <algorithm>

#include "src/config/members.hpp"
#include "src/learning/learners.hpp"
#include "src/python/kokkos.hpp"
#include "src/python/rows.hpp"

namespace maniple {

// Environments whose observations a caller gives, and whose steps the caller does.
class GivenEnvironment final : public Environment {
 public:
  GivenEnvironment(std::int64_t envs, int observations, int critic_observations, int actions)
      : partition_(envs, 0, 1) {
    const auto allocate = [&](TiledView<float>& view, const char* name, int elements) {
      view = TiledView<float>(name, partition_.tiles, elements);
    };
    allocate(transition_.observation, "maniple::given_observation", observations);
    allocate(transition_.critic_observation, "maniple::given_critic_observation", critic_observations);
    allocate(transition_.action, "maniple::given_action", actions);
    allocate(transition_.terminated, "maniple::given_terminated", 1);
    allocate(transition_.truncated, "maniple::given_truncated", 1);
    allocate(transition_.invalid, "maniple::given_invalid", 1);
  }

  const Partition& partition() const override { return partition_; }
  int num_observations() const override { return transition_.observation.elements; }
  int num_actions() const override { return transition_.action.elements; }
  std::int64_t max_episode_steps() const override { return 0; }
  const std::vector<std::string>& reward_terms() const override { return none_; }
  const std::vector<std::string>& metrics() const override { return none_; }
  void reset() override {}
  void randomize_episode_steps() override {}
  void step() override {}
  const Transition<TiledView<float>>& transition() const override { return transition_; }
  void keep_final_observation() override {}
  std::int64_t bad_states() const override { return 0; }
  void describe(Archive&) override {}
  std::vector<std::pair<std::string, double>> stage_seconds() const override { return {}; }

 private:
  const Partition partition_;
  const std::vector<std::string> none_;
  Transition<TiledView<float>> transition_;
};

namespace {

// The configuration of a run, as its results have it. What a policy does needs neither the model nor what
// belongs to one run alone, and files that have moved are not missed.
Config config_of_run(const std::string& results, const std::string& deck) {
  EarlierRun run{.results = results, .deck = deck};
  run.without = {
      "learning.resume", "learning.warm_start", "control", "initial_state", "output", "run", "data"};
  return load_members({}, {}, false, run)[0].config;
}

}  // namespace

CallablePolicy::CallablePolicy(const std::string& results, const std::string& deck, int observations,
                               int critic_observations, int actions)
    : observations_(observations),
      critic_observations_(critic_observations),
      actions_(actions),
      config_(config_of_run(results, deck)) {
  start_kokkos_once();
  policy_ = learner_of(config_).make_policy(config_, {.observations = observations,
                                                      .critic_observations = critic_observations,
                                                      .actions = actions,
                                                      .tiles = 1});
  policy_->describe(archive_);
}

CallablePolicy::~CallablePolicy() = default;

void CallablePolicy::loaded() {
  policy_->restored();
}

std::int64_t CallablePolicy::envs() const {
  return environment_ ? environment_->partition().envs() : 0;
}

void CallablePolicy::begin(std::int64_t envs) {
  const std::lock_guard lock(in_use_);
  runner_.reset();
  environment_.reset();
  control_step_ = 0;
  if (envs == 0) return;
  environment_ = std::make_unique<GivenEnvironment>(envs, observations_, critic_observations_, actions_);
  runner_ = policy_->act_in(*environment_);
}

void CallablePolicy::forget(const bool* mask) {
  const std::lock_guard lock(in_use_);
  const HostTiles<float> ended(environment_->terminated());
  for (std::int64_t env = 0; env < environment_->partition().envs(); ++env)
    if (mask[env]) *ended.env(env) = 1.0f;
  ended.to_device();
}

void CallablePolicy::act(const float* observation, float* action, Determinism determinism,
                         std::uint32_t seed) {
  const std::lock_guard lock(in_use_);
  // what ended since the last step is forgotten here, as after a step of environments that know it
  if (control_step_ > 0) runner_->forget_ended();
  Kokkos::deep_copy(environment_->terminated().data, 0.0f);
  const HostTiles<float> observed(environment_->observation());
  tiles_from_rows(observation, observations_, environment_->partition().envs(), observed.data());
  observed.to_device();
  runner_->act(determinism, seed, control_step_++);
  rows_from_tiles(HostTiles<float>(environment_->action()).data(), actions_, environment_->partition().envs(),
                  action);
}

}  // namespace maniple
