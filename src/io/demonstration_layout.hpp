// Layouts of demonstrations in HDF5, in one table for reader and writer: robomimic's layout
// (docs/datasets/overview.md of robomimic 0.3), Minari's (Minari 0.5, dataset/_storages/hdf5_storage.py), and
// DROID's, a file for each demonstration (trajectory.h5 of droid 1.0; droid_policy_learning, README.md).
#pragma once

#include <string>
#include <vector>

#include "src/config/config.hpp"

namespace maniple {

struct DemonstrationLayout {
  const char* name;
  const char* group;         // that has the demonstrations
  const char* prefix;        // of their names, before a number
  const char* observations;  // below each of them
  const char* actions;       // group of the actions, below each of them
  const char* length;        // attribute: frames
  bool final_observation;    // observations have one frame more than actions
};
inline constexpr DemonstrationLayout kRobomimicLayout{"robomimic", "data",        "demo_", "obs",
                                                      "",          "num_samples", false};
inline constexpr DemonstrationLayout kMinariLayout{"minari",      "",  "episode_", "observations", "",
                                                   "total_steps", true};
inline constexpr DemonstrationLayout kDroidLayout{"droid", "", "", "observation", "action", "", false};

// The key of each term of task.observations in a data set: its name, of which letters, digits, dots and
// dashes stay and all else is _, and a number where another term has it before.
std::vector<std::string> observation_keys(const TaskConfig& task);

}  // namespace maniple
