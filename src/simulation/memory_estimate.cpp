#include "src/simulation/memory_estimate.hpp"

#include "kernels/base/scratch.hpp"
#include "kernels/physics/batch.hpp"
#include "kernels/physics/regroup.hpp"
#include "kernels/tasks/batch.hpp"
#include "src/simulation/recorded_fields.hpp"

namespace maniple {

MemoryEstimate estimate_memory(const Config& config, const Prepared& prepared, std::int64_t envs) {
  const ImportedModel& model = prepared.model;
  const bool single = config.simulation.precision == Precision::fp32;
  const std::size_t real = single ? sizeof(float) : sizeof(double);
  std::size_t reals =
      static_cast<std::size_t>(state_elements(model.sizes) + exported_elements(config.output, model.sizes));
  std::size_t bytes = 4 * sizeof(std::int32_t);  // records of incidents
  MemoryEstimate memory;
  using Single = Scratch<Lanes<float>>;
  using Double = Scratch<Lanes<double>>;
  const int data = data_elements(model.sizes);
  const int workers = single ? Single::workers_for(data, envs) : Double::workers_for(data, envs);
  const auto bytes_for = [&](int elements, int count) {
    return single ? Single::bytes(elements, count) : Double::bytes(elements, count);
  };
  const auto bytes_of_scratch = [&](int elements) { return bytes_for(elements, workers); };
  std::size_t scratch = bytes_of_scratch(data);
  if (regroups(model.sizes)) {
    scratch += bytes_of_scratch(single ? regroup_elements<Lanes<float>>(model.sizes)
                                       : regroup_elements<Lanes<double>>(model.sizes));
  }
  if (config.task.present) {
    const CompiledTask& task = prepared.task;
    if (task.settle_steps > 0)
      scratch += bytes_for(single ? settle_elements<Lanes<float>>(state_elements(model.sizes))
                                  : settle_elements<Lanes<double>>(state_elements(model.sizes)),
                           settle_workers(workers));
    const int answers = kContactAnswers * task.num_contact_queries;
    reals +=
        static_cast<std::size_t>(task_elements(task) + task.contact_steps * answers) + task.stepped.size();
    if (task.contact_steps > 0) scratch += bytes_of_scratch(answers);
    bytes += sizeof(std::int32_t) * kTaskCounters;
    for (const auto& field : transition_fields(task)) {
      if (!keeps(config.output, field)) continue;
      reals += static_cast<std::size_t>(field.size);
      if (!single) bytes += sizeof(float) * static_cast<std::size_t>(field.size);  // learning's copy
    }
    memory.num_observations = task.num_observations;
    memory.num_critic_observations = task.num_critic_observations;
    memory.num_actions = task.num_actions;
    memory.num_reward_terms = task.num_reward_terms;
    memory.num_metrics = task.num_metrics;
  }
  memory.bytes_per_env = reals * real + bytes;
  memory.scratch_bytes = scratch;
  memory.rank_bytes = memory.bytes_per_env * static_cast<std::size_t>(envs) + scratch;
  return memory;
}

}  // namespace maniple
