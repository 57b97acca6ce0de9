#include "src/simulation/recorded_fields.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/error.hpp"
#include "src/config/schema.hpp"
#include "src/model_import/vary.hpp"
#include "src/tasks/terms/motion.hpp"

namespace maniple {

std::vector<std::string> recorded_names(const OutputConfig& output) {
  std::vector<std::string> names;
  if (output.trajectory_every > 0) names = output.trajectory_fields;
  if (output.dataset != DatasetLayout::none)
    for (const char* const field : kDatasetFields)
      if (std::find(names.begin(), names.end(), field) == names.end()) names.emplace_back(field);
  return names;
}

bool records(const OutputConfig& output, const std::string& field) {
  const std::vector<std::string> names = recorded_names(output);
  return std::find(names.begin(), names.end(), field) != names.end();
}

int exported_elements(const OutputConfig& output, const ModelSizes& sizes) {
  if (output.trajectory_every == 0) return 0;
  int count = 0;
  for (const FieldInfo& field : data_fields(sizes))
    count += static_cast<int>(
                 std::count(output.trajectory_fields.begin(), output.trajectory_fields.end(), field.name)) *
             field.size;
  return count;
}

std::vector<EnvironmentField> environment_fields(const ImportedModel& model) {
  std::vector<EnvironmentField> fields;
  for (const VaryingField& field : varying_fields(model))
    if (const int first = model.sizes.varied.*(field.offset); first >= 0)
      fields.push_back(
          {field.name, field.unit, field.description, static_cast<int>(field.values.size()), first});
  return fields;
}

void check_trajectory_fields(const Config& config, const ImportedModel& model) {
  const OutputConfig& output = config.output;
  const ModelSizes& sizes = model.sizes;
  std::vector<FieldInfo> fields = state_fields(sizes);
  for (const FieldInfo& field : data_fields(sizes)) fields.push_back(field);
  std::vector<std::string> allowed;
  for (const FieldInfo& field : fields)
    if (field.size > 0) allowed.emplace_back(field.name);
  for (const EnvironmentField& field : environment_fields(model)) allowed.push_back(field.name);
  const std::vector<VaryingField> varying = varying_fields(model);
  if (config.task.present) {
    for (const auto& field : transition_fields({})) allowed.emplace_back(field.name);
    for (const TermConfig& term : config.task.variables)
      allowed.push_back(CompiledVariable{.name = term.name}.field());
    const bool has_motion = motion_command_of(config.task) < config.task.commands.size();
    for (const FieldInfo& field : place_fields(
             {.num_terrains = config.model.terrain.present() ? 1 : 0, .num_motions = has_motion ? 1 : 0}))
      allowed.emplace_back(field.name);
    for (const TermConfig& term : config.task.commands) {
      allowed.push_back(CompiledVariable{.name = term.name, .is_command = true}.field());
      if (term.term == kMotionTerm)
        for (const char* const relative : kRelativePoses)
          allowed.push_back(CompiledVariable{.name = term.name + relative}.field());
    }
  }
  const bool recorded = output.trajectory_every > 0;
  for (auto asked = output.trajectory_fields.begin(); asked != output.trajectory_fields.end(); ++asked) {
    const std::string& name = *asked;
    if (recorded && std::find(output.trajectory_fields.begin(), asked, name) != asked)
      throw InputError(output.where_fields, "output.trajectory.fields",
                       "the field \"" + name + "\" a second time", "each field once");
    if (std::find(allowed.begin(), allowed.end(), name) != allowed.end()) continue;
    const bool empty =
        std::any_of(fields.begin(), fields.end(), [&](const FieldInfo& field) { return field.name == name; });
    if (empty && !recorded) continue;
    if (std::any_of(varying.begin(), varying.end(), [&](const VaryingField& f) { return f.name == name; }))
      throw InputError(output.where_fields, "output.trajectory.fields",
                       "\"" + name + "\" is the same in all environments, as no event of the task sets it",
                       "fields of the model that events set; the model itself is in the results, too");
    const std::string near = empty ? "" : nearest(name, allowed);
    throw InputError(output.where_fields, "output.trajectory.fields",
                     empty ? "\"" + name + "\" is empty for this model" : "no field \"" + name + "\"",
                     (near.empty() ? "" : "nearest field: " + near + "; ") +
                         fmt::format("one of {}", fmt::join(allowed, " ")));
  }
}

}  // namespace maniple
