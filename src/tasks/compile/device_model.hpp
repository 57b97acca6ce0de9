// The imported model in device memory and in one precision, as DeviceTask is the task.
#pragma once

#include "src/model_import/import.hpp"

namespace maniple {

// The model in device memory (or the host's, for tests that run kernels there) and precision T; owns the
// memory that model() points into.
template <class T, class Space = MemorySpace>
class DeviceModel {
 public:
  explicit DeviceModel(const ImportedModel& imported);
  const Model<T>& model() const { return model_; }

 private:
  Kokkos::View<int*, Space> integers_;
  Kokkos::View<T*, Space> reals_;
  Model<T> model_;
};

extern template class DeviceModel<float>;
extern template class DeviceModel<double>;

}  // namespace maniple
