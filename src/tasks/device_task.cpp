#include "src/tasks/device_task.hpp"

#include <algorithm>

namespace maniple {
namespace {

template <class Element>
Kokkos::View<Element*, MemorySpace> to_device(const std::string& label,
                                              const std::vector<Element>& elements) {
  Kokkos::View<Element*, MemorySpace> device(label, elements.size());
  const auto host = Kokkos::create_mirror_view(device);
  std::copy(elements.begin(), elements.end(), host.data());
  Kokkos::deep_copy(device, host);
  return device;
}

}  // namespace

template <class T>
DeviceTask<T>::DeviceTask(const CompiledTask& task) {
  std::vector<Instruction> instructions;
  for (const Program* program : task.programs())
    instructions.insert(instructions.end(), program->instructions.begin(), program->instructions.end());
  instructions_ = to_device("maniple::tasks::instructions", instructions);

  // Interpreters read a constant like any other lane value.
  constexpr int width = lane_width<Lanes<T>>;
  std::vector<T> constants;
  for (const double value : task.constants) constants.insert(constants.end(), width, static_cast<T>(value));
  constants_ = to_device("maniple::tasks::constants", constants);

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
  actions_ = to_device("maniple::tasks::actions", actions);

  contact_sides_ = to_device("maniple::tasks::contact_sides", task.contact_sides);

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
  task_.observe = view(task.observe);
  task_.accept = view(task.accept);
  task_.varies_at_resets = task.varies_at_resets;
  task_.varies_in_act = task.varies_in_act;
  task_.settle_steps = task.settle_steps;
  task_.constants = constants_.data();
  task_.actions = actions_.data();
  task_.contact_sides = contact_sides_.data();
  task_.num_contact_queries = task.num_contact_queries;
  for (const Program* program : task.programs()) {
    task_.num_registers = std::max(task_.num_registers, program->num_registers);
    task_.num_random = std::max(task_.num_random, program->num_random);
  }
}

template <class T>
void DeviceTask<T>::set_curricula(const std::vector<double>& values) const {
  if (values.empty()) return;
  constexpr int width = lane_width<Lanes<T>>;
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), constants_);
  for (std::size_t i = 0; i < values.size(); ++i)
    std::fill_n(host.data() + i * width, width, static_cast<T>(values[i]));
  Kokkos::deep_copy(constants_, host);
}

template class DeviceTask<float>;
template class DeviceTask<double>;

}  // namespace maniple
