// Model and task of a deck, compiled once when a run starts and handed to all that need them: estimates of
// memory, the simulations of a run and of its evaluations, and the descriptions in results.
#pragma once

#include "src/config/config.hpp"
#include "src/model_import/import.hpp"
#include "src/tasks/compile/task.hpp"

namespace maniple {

struct Prepared {
  ImportedModel model;
  CompiledTask task;  // without programs where the deck has no task
};

// The model of a deck, as its task needs it: fields that its events set have values for each environment,
// and states have room for the forces that it names.
ImportedModel import_model_of(const Config& config);
// InputError: a model that is not simulated, or a task that does not fit it.
Prepared prepare(const Config& config);
void check_model_and_task(const Config& config);  // the same, for its errors alone

}  // namespace maniple
