#include "src/tasks/prepared.hpp"

#include "src/model_import/vary.hpp"
#include "src/tasks/applied_forces.hpp"
#include "src/tasks/model_events.hpp"

namespace maniple {

ImportedModel import_model_of(const Config& config) {
  ImportedModel model = import_model(config.model, config.simulation);
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
