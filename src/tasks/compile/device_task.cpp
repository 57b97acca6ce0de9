#include "src/tasks/compile/device_task.hpp"

#include "src/base/to_device.hpp"
#include "src/model_import/terrain.hpp"
#include "src/tasks/terms/motion.hpp"

namespace maniple {
template <class T, class Space>
DeviceTask<T, Space>::DeviceTask(const CompiledTask& task) {
  std::vector<Instruction> instructions;
  for (const Program* program : task.programs())
    instructions.insert(instructions.end(), program->instructions.begin(), program->instructions.end());
  instructions_ = to_device<Space>("maniple::tasks::instructions", instructions);

  // Interpreters read a constant like any other lane value.
  constexpr int width = lane_width<Lanes<T>>;
  std::vector<T> constants;
  for (const double value : task.constants) constants.insert(constants.end(), width, static_cast<T>(value));
  constants_ = to_device<Space>("maniple::tasks::constants", constants);

  std::vector<ActionTarget<T>> actions;
  for (const CompiledAction& action : task.actions)
    actions.push_back({.element = action.by_program ? -1 : action.element,
                       .clipped = action.clipped,
                       .scale = static_cast<T>(action.scale),
                       .offset = static_cast<T>(action.offset),
                       .low = static_cast<T>(action.low),
                       .high = static_cast<T>(action.high),
                       .random_low = static_cast<float>(action.random_low),
                       .random_high = static_cast<float>(action.random_high)});
  actions_ = to_device<Space>("maniple::tasks::actions", actions);

  metrics_ = to_device<Space>("maniple::tasks::metrics", task.metric_statistics);
  contact_sides_ = to_device<Space>("maniple::tasks::contact_sides", task.contact_sides);

  std::vector<RayQuery<T>> ray_queries;
  std::vector<T> rays;
  std::vector<int> ray_geoms;
  for (const RayRequest& request : task.ray_queries) {
    ray_queries.push_back({.frame = request.frame,
                           .id = request.id,
                           .alignment = request.alignment,
                           .first_ray = static_cast<int>(rays.size()) / kRayElements,
                           .num_rays = request.num_rays(),
                           .first_geom = static_cast<int>(ray_geoms.size()),
                           .num_geoms = static_cast<int>(request.geoms.size()),
                           .max_distance = static_cast<T>(request.max_distance)});
    for (const double number : request.rays) rays.push_back(static_cast<T>(number));
    ray_geoms.insert(ray_geoms.end(), request.geoms.begin(), request.geoms.end());
  }
  ray_queries_ = to_device<Space>("maniple::tasks::ray_queries", ray_queries);
  rays_ = to_device<Space>("maniple::tasks::rays", rays);
  ray_geoms_ = to_device<Space>("maniple::tasks::ray_geoms", ray_geoms);

  if (task.terrain) {
    std::vector<T> cells;
    for (const TerrainCell& cell : task.terrain->cells) {
      cells.push_back(static_cast<T>(cell.type));
      for (const double coordinate : cell.origin) cells.push_back(static_cast<T>(coordinate));
    }
    terrain_cells_ = to_device<Space>("maniple::tasks::terrain_cells", cells);
    task_.terrain = {.cells = terrain_cells_.data(),
                     .num_rows = task.terrain->num_rows,
                     .num_cols = task.terrain->num_cols,
                     .first_init_level = task.terrain->first_init_level,
                     .last_init_level = task.terrain->last_init_level,
                     .num_envs = 1,
                     .holds = false,
                     .randomizes = task.terrain->randomize};
  }

  if (task.motion) {
    const std::vector<T> numbers(task.motion->numbers.begin(), task.motion->numbers.end());
    motion_ = to_device<Space>("maniple::tasks::motion", numbers);
    task_.motion = {.numbers = motion_.data(),
                    .numbers_of_frame = task.motion->numbers_of_frame,
                    .frames = task.motion->frames};
  }

  static_cast<TaskSizes&>(task_) = task;
  const Instruction* next = instructions_.data();
  const auto view = [&](const Program& program) {
    const ProgramView result{next, static_cast<int>(program.instructions.size()), program.num_random};
    next += program.instructions.size();
    return result;
  };
  task_.act = view(task.act);
  task_.evaluate = view(task.evaluate);
  task_.vary = view(task.vary);
  task_.reset = view(task.reset);
  task_.interval = view(task.interval);
  task_.observe = view(task.observe);
  task_.accept = view(task.accept);
  task_.varies_at_resets = task.varies_at_resets;
  task_.varies_in_intervals = task.varies_in_intervals;
  task_.settle_steps = task.settle_steps;
  task_.reset_raise = static_cast<T>(task.reset_raise);
  task_.constants = constants_.data();
  task_.actions = actions_.data();
  task_.metrics = metrics_.data();
  task_.contact_queries = {contact_sides_.data(), task.num_contact_queries};
  task_.ray_queries = ray_queries_.data();
  task_.num_ray_queries = static_cast<int>(ray_queries.size());
  task_.rays = rays_.data();
  task_.num_rays = static_cast<int>(rays.size()) / kRayElements;
  task_.ray_geoms = ray_geoms_.data();
  for (const Program* program : task.programs()) {
    task_.num_registers = std::max(task_.num_registers, program->num_registers);
    task_.num_random = std::max(task_.num_random, program->num_random);
  }
}

template <class T, class Space>
void DeviceTask<T, Space>::set_changing(const std::vector<double>& values) const {
  if (values.empty()) return;
  constexpr int width = lane_width<Lanes<T>>;
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), constants_);
  for (std::size_t i = 0; i < values.size(); ++i)
    std::fill_n(host.data() + i * width, width, static_cast<T>(values[i]));
  Kokkos::deep_copy(constants_, host);
}

template class DeviceTask<float>;
template class DeviceTask<double>;
#ifdef MANIPLE_SEPARATE_MEMORY
template class DeviceTask<float, Kokkos::HostSpace>;
template class DeviceTask<double, Kokkos::HostSpace>;
#endif

}  // namespace maniple
