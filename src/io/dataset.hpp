// Numbers that users hand in as HDF5: initial states and controls. Shapes are checked when the file is
// opened, before anything else runs; each rank then reads the rows of its own environments.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/base/error.hpp"
#include "src/parallel/collectives.hpp"
#include "src/parallel/partition.hpp"

namespace maniple {

// Collective. Compares a file that this program wrote with its checksum, InputError when they differ; files
// of others, or that are not there, pass.
void check_input(const std::string& file, const SourceLocation& where, const std::string& key,
                 Collectives& collectives);

// The allowed sizes of one dimension of a dataset.
struct AllowedExtent {
  std::string name;                  // for messages: "env", "step", "nq"
  std::vector<std::int64_t> values;  // any of these ...
  std::int64_t at_least = -1;        // ... or at least this many, when not negative
};

// One dataset of a user's file. Every failure is an InputError that names the place in the deck, the key
// (when given), the file, the dataset, the shape found and the shapes allowed.
class InputDataset {
 public:
  InputDataset(const std::string& file, const SourceLocation& where, const std::string& dataset,
               const std::vector<AllowedExtent>& allowed, const std::string& key = "");
  ~InputDataset();
  InputDataset(InputDataset&&) noexcept;
  InputDataset& operator=(InputDataset&&) noexcept;

  std::int64_t extent(std::size_t dimension) const;
  // The box [first, first + count), converted to double, packed. Refuses NaN and infinity.
  std::vector<double> read(const std::vector<std::int64_t>& first,
                           const std::vector<std::int64_t>& count) const;

  // Whether the file has such a dataset.
  static bool exists(const std::string& file, const SourceLocation& where, const std::string& dataset,
                     const std::string& key = "");

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Rows [env, size] (or [1, size]: for all environments) of an initial state's dataset "qpos", "qvel" or
// "act": `size` values, or as many per environment of this rank. `size_name` is nq, nv or na.
std::vector<double> read_state_rows(const std::string& file, const SourceLocation& where,
                                    const std::string& dataset, const std::string& size_name, int size,
                                    const Partition& partition);
// Names of what lies at the root of such a file.
std::vector<std::string> state_members(const std::string& file, const SourceLocation& where);

// Controls or actions of a rollout, read in blocks of control steps.
class ControlRows {
 public:
  ControlRows() = default;
  ControlRows(InputDataset dataset, int size, std::int64_t steps, const Partition& partition);
  // Rows of `size` values for one control step: one for all environments, or one per environment of this
  // rank.
  const std::vector<double>& rows(std::int64_t step);

 private:
  std::shared_ptr<InputDataset> dataset_;
  std::int64_t size_ = 0, steps_ = 0, first_env_ = 0, envs_ = 0;
  std::int64_t block_first_ = 0, block_steps_ = 0;
  std::vector<double> block_;  // [env][step of the block][size]
  std::vector<double> rows_;
};

// /ctrl [env or 1, step, nu] with at least `steps` steps.
ControlRows read_control_rows(const std::string& file, const SourceLocation& where, int nu,
                              std::int64_t steps, const Partition& partition);
// The same of /action [env or 1, step, size], of a task with `size` actions.
ControlRows read_action_rows(const std::string& file, const SourceLocation& where, int size,
                             std::int64_t steps, const Partition& partition);

}  // namespace maniple
