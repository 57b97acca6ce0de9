// The compiled task in device memory and in one precision, as DeviceModel is the model.
#pragma once

#include "kernels/tasks/program.hpp"
#include "src/tasks/compile/task.hpp"

namespace maniple {

template <class T, class Space = MemorySpace>
class DeviceTask {
 public:
  DeviceTask() = default;
  explicit DeviceTask(const CompiledTask& task);
  // Points into memory that this object owns.
  const Task<T>& task() const { return task_; }
  // Changes the first numbers of the constants: those of curricula, then MotionSampling::cumulative().
  void set_changing(const std::vector<double>& values) const;

 private:
  Kokkos::View<Instruction*, Space> instructions_;  // the programs, one after the other
  Kokkos::View<T*, Space> constants_;               // [constant][lane_width<Lanes<T>>]
  Kokkos::View<ActionTarget<T>*, Space> actions_;
  Kokkos::View<EpisodeStatistic*, Space> metrics_;
  Kokkos::View<int*, Space> contact_sides_;  // [geom pair][query]
  Kokkos::View<RayQuery<T>*, Space> ray_queries_;
  Kokkos::View<T*, Space> rays_;  // [ray][kRayElements]
  Kokkos::View<int*, Space> ray_geoms_;
  Kokkos::View<T*, Space> terrain_cells_;  // [row][column][kTerrainCellElements]
  Kokkos::View<T*, Space> motion_;         // [frame][number]
  Task<T> task_;
};

extern template class DeviceTask<float>;
extern template class DeviceTask<double>;

}  // namespace maniple
