// The environments of a deck's task as Python steps them: rows in, rows out, and resets at the moments that
// Gymnasium prescribes. It needs neither MPI nor a run's directory: a process has its part of the batch.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "src/config/config.hpp"
#include "src/model_import/import.hpp"
#include "src/python/workers.hpp"
#include "src/simulation/simulation.hpp"

namespace maniple {

// When an environment whose episode has ended begins the next one (gymnasium.vector.AutoresetMode).
enum class Autoreset { next_step, same_step, disabled };

// Arrays of the caller, row-major, of this process's environments; null where a task has no such numbers.
template <class T>
struct StepRows {
  T* observation = nullptr;         // [envs, num_observations]
  T* critic_observation = nullptr;  // [envs, num_critic_observations]
  T* reward = nullptr;              // [envs]
  bool* terminated = nullptr;       // [envs]
  bool* truncated = nullptr;        // [envs]
};

// The same of the episodes of the last step, which may have ended in it.
template <class T>
struct EpisodeRows {
  T* final_observation = nullptr;          // [envs, num_observations], of the state that the step led to
  T* final_critic_observation = nullptr;   // [envs, num_critic_observations]
  T* episode_return = nullptr;             // [envs]
  std::int64_t* episode_length = nullptr;  // [envs], control steps
  bool* success = nullptr;                 // [envs]
  bool* invalid = nullptr;                 // [envs]: a state or reward was not finite or too large
  T* reward_term = nullptr;                // [envs, reward_terms()]: of each term the sum
  T* metric = nullptr;                     // [envs, metrics()]
};

class VectorEnvironment {
 public:
  // The part of rank `rank` of `ranks`, divided among `threads` threads. Throws InputError for a deck without
  // a task, and for what does not fit into memory. Starts Kokkos, which lasts as long as the process.
  // `for_pictures`: with mjb() and read_state().
  VectorEnvironment(const Config& config, Autoreset autoreset, int rank, int ranks, int threads,
                    bool for_pictures);

  std::int64_t envs() const { return envs_; }
  std::int64_t first_env() const { return first_env_; }
  std::int64_t num_envs() const { return config_.batch.num_envs; }  // of all ranks
  int num_observations() const { return num_observations_; }
  int num_critic_observations() const { return num_critic_observations_; }
  int num_actions() const { return static_cast<int>(action_low_.size()); }
  bool has_success() const { return has_success_; }
  bool is_double() const { return config_.simulation.precision == Precision::fp64; }
  int threads() const { return static_cast<int>(parts_.size()); }
  double step_dt() const { return step_dt_; }  // s
  std::int64_t max_episode_steps() const { return max_episode_steps_; }
  std::uint32_t seed() const { return config_.batch.seed; }
  const Config& config() const { return config_; }
  // Between which the controls of random actions fill their ranges.
  const std::vector<double>& action_low() const { return action_low_; }
  const std::vector<double>& action_high() const { return action_high_; }
  const std::vector<std::string>& observation_names() const { return observation_names_; }
  const std::vector<std::string>& action_names() const { return action_names_; }
  // The task's rewards, and its further numbers of an episode: "termination_time_out", "metric_speed".
  const std::vector<std::string>& reward_terms() const { return prepared_.task.reward_names; }
  const std::vector<std::string>& metrics() const { return prepared_.task.metric_names; }
  // Warnings about the model, one line each.
  const std::vector<std::string>& warnings() const { return prepared_.model.warnings; }

  // Contacts that an environment has room for, and those left out so far because it had more.
  int max_contacts() const { return prepared_.model.sizes.ncontact; }
  std::int64_t dropped_contacts() const;

  // The model as an MJB file, and the parts of the state, and fields of the model that differ between
  // environments, on which pictures depend: their names and numbers of an environment.
  const std::vector<std::uint8_t>& mjb() const { return *prepared_.model.mjb; }
  const std::vector<std::pair<std::string, int>>& picture_fields() const { return picture_fields_; }

  // The task's curricula that are expressions, as they are: updates belong to trainings, nothing changes them
  // here. (Terms tell of levels on a terrain, which move by themselves.)
  struct Curriculum {
    std::string name;
    double value = 0;
    std::size_t place = 0;    // among all of the task
    bool is_updated = false;  // in a training
  };
  std::vector<Curriculum> curricula() const;
  // Sets one for good. InputError: no such curriculum, or numbers that the task does not take.
  void set_curriculum(const std::string& name, double value);

  // The random numbers of this seed from their beginning; the next reset is the first one.
  void reseed(std::uint32_t seed);
  // Begins new episodes: in all environments, or in those of `mask` [envs].
  template <class T>
  void reset(const bool* mask, const StepRows<T>& rows);
  // One control step; whether an episode ended in it. Throws Error, with Autoreset::disabled, where an ended
  // episode was not reset. `actions`: [envs, num_actions].
  template <class T>
  bool step(const T* actions, const StepRows<T>& rows);
  // Fills the rows of the last step.
  template <class T>
  void episodes(const EpisodeRows<T>& rows);
  // Such a part of the states as they are: rows [envs][numbers] of T, which is the precision's.
  template <class T>
  void read_state(const std::string& field, T* rows);

 private:
  struct Part;

  void build();
  // Gives the curricula's values to a part, whose thread this is.
  void show_curricula(const Part& part) const;
  template <class T>
  void read_numbers(const Part& part, const char* field, const TiledView<float>& tiles, T* rows) const;
  template <class T>
  void read_observations(const Part& part, const StepRows<T>& rows) const;

  Config config_;
  const Autoreset autoreset_;
  const int rank_, ranks_;
  Prepared prepared_;
  std::int64_t envs_ = 0, first_env_ = 0;
  int num_observations_ = 0, num_critic_observations_ = 0;
  bool has_success_ = false;
  double step_dt_ = 0;
  std::int64_t max_episode_steps_ = 0;
  std::vector<double> action_low_, action_high_;
  std::vector<std::string> observation_names_, action_names_;
  std::vector<std::pair<std::string, int>> picture_fields_;

  std::mutex in_use_;
  std::vector<double> curricula_;  // values of the task's
  bool begun_ = false;             // a reset came first
  std::unique_ptr<bool[]> ended_;  // [envs]: its episode did, and its next one was not shown yet
  std::vector<std::shared_ptr<Part>> parts_;
  std::unique_ptr<Workers> workers_;
};

}  // namespace maniple
