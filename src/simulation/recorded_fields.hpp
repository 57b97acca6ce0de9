// Which fields of its environments a run records, for trajectories and data sets: known from the deck. The
// simulation keeps them, the estimate of memory counts them.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "kernels/model/field_info.hpp"
#include "src/config/config.hpp"
#include "src/model_import/import.hpp"
#include "src/tasks/compile/task.hpp"

namespace maniple {

// The fields of control steps that make up the episodes of a data set (output.dataset), which a run with one
// records.
inline constexpr std::array kDatasetFields{"observation", "final_observation", "action",
                                           "reward",      "episode_return",    "terminated",
                                           "truncated",   "success",           "invalid"};

// The fields that files of the run are made of.
std::vector<std::string> recorded_names(const OutputConfig& output);
bool records(const OutputConfig& output, const std::string& field);

// Is a field of a task's transitions kept in this run.
template <class Field>
bool keeps(const OutputConfig& output, const TransitionField<Field>& field) {
  return field.use != TransitionUse::on_request || records(output, field.name);
}

// Elements of Data that the asked-for trajectory fields take.
int exported_elements(const OutputConfig& output, const ModelSizes& sizes);

// A field of the model of which each environment has its own numbers, in State::model_values: what is
// recorded, and the first of them.
struct EnvironmentField {
  std::string name, unit, description;
  int size = 0, first = 0;
};
std::vector<EnvironmentField> environment_fields(const ImportedModel& model);

// Refuses trajectory fields that neither the model nor a task has and, when the run samples trajectories at
// all, fields that are empty or named twice.
void check_trajectory_fields(const Config& config, const ImportedModel& model);

}  // namespace maniple
