#include "src/tasks/compile/prepared.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "src/base/counted.hpp"
#include "src/model_import/vary.hpp"
#include "src/tasks/language/names.hpp"
#include "src/tasks/language/task_model.hpp"
#include "src/tasks/terms/applied_forces.hpp"
#include "src/tasks/terms/model_events.hpp"

namespace maniple {

namespace {

// Joint positions of the keyframes that a run begins with, beyond the joints' ranges: degrees in place of
// radians.
void warn_of_keyframes(ImportedModel& model, const Config& config) {
  std::set<std::string> keyframes;
  if (config.task.present && !config.task.keyframe.empty()) keyframes.insert(config.task.keyframe);
  if (config.initial_state.source == StartState::keyframe) keyframes.insert(config.initial_state.keyframe);
  if (keyframes.empty()) return;
  const std::vector<TaskJoint> joints = task_model(model).joints;
  for (const std::string& name : keyframes) {
    const auto found = std::find(model.key_names.begin(), model.key_names.end(), name);
    if (found == model.key_names.end()) continue;  // (by number, or a mistake that is named later)
    const auto key = static_cast<std::size_t>(found - model.key_names.begin());
    std::vector<std::string> beyond;
    for (const TaskJoint& joint : joints) {
      if (!joint.limited || !joint.is_scalar()) continue;
      const double position = model.key_qpos[key * static_cast<std::size_t>(model.sizes.nq) +
                                             static_cast<std::size_t>(joint.qposadr)],
                   slack = 0.01 * (joint.high - joint.low);
      if (position < joint.low - slack || position > joint.high + slack)
        beyond.push_back(
            fmt::format("{} at {:.4g}, range [{:.4g}, {:.4g}]", joint.name, position, joint.low, joint.high));
    }
    if (!beyond.empty())
      model.warnings.push_back(
          fmt::format("the keyframe {} is beyond the ranges of {} (in radians or metres): {}", name,
                      counted(beyond.size(), "joint"), list(beyond, 3)));
  }
}

}  // namespace

ImportedModel import_model_of(const Config& config) {
  ImportedModel model = import_model(config.model, config.simulation);
  warn_of_keyframes(model, config);
  if (!config.task.present) return model;
  vary_model(model, varied_fields(config.task, task_model(model)), config.model.where);
  make_room_for_forces(model.sizes, config.task);
  return model;
}

Prepared prepare(const Config& config) {
  Prepared prepared{.model = import_model_of(config), .task = {}};
  if (config.task.present) prepared.task = compile_task(config, prepared.model);
  return prepared;
}

void check_model_and_task(const Config& config) {
  prepare(config);
}

}  // namespace maniple
