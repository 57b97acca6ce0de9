#include "src/tasks/compile/device_model.hpp"

#include "kernels/model/model_walk.hpp"

namespace maniple {
namespace {

// What is done with each of the tables' many arrays is not inlined, which would take minutes to compile.
// All arrays of one type share one allocation; each starts at a multiple of 64 bytes.
std::size_t padded(std::size_t count) {
  constexpr std::size_t alignment = 16;
  return (count + alignment - 1) / alignment * alignment;
}
// Copies an array to `next` of the mirror of an allocation, and returns its address on the device.
template <class Device, class Mirror, class From>
[[gnu::noinline]] auto* copy_next(const Device& device, const Mirror& mirror, std::size_t& next,
                                  const std::vector<From>& from) {
  auto* const address = device.data() + next;
  for (std::size_t i = 0; i < from.size(); ++i)
    mirror(next + i) = static_cast<typename Mirror::value_type>(from[i]);
  next += padded(from.size());
  return address;
}

}  // namespace

template <class T, class Space>
DeviceModel<T, Space>::DeviceModel(const ImportedModel& imported) {
  static_cast<ModelSizes&>(model_) = imported.sizes;
  const auto set = [&](auto to, auto from) { assign(model_.*to, imported.*from); };
  for_each_option<Model<T>, ModelNumbers>(set);
  for_each_derived_option<Model<T>, ModelNumbers>(set);

  std::size_t integer_count = 0, real_count = 0;
  const auto count = [&](std::int64_t, auto array) {
    const auto& values = imported.*array;
    constexpr bool integer = std::is_same_v<decltype(values), const std::vector<int>&>;
    (integer ? integer_count : real_count) += padded(values.size());
  };
  for_each_array<ModelNumbers>(imported.sizes, count);
  for_each_derived_array<ModelNumbers>(imported.sizes, count);
  integers_ = Kokkos::View<int*, Space>("maniple::model::integers", integer_count);
  reals_ = Kokkos::View<T*, Space>("maniple::model::reals", real_count);
  auto host_integers = Kokkos::create_mirror_view(integers_);
  auto host_reals = Kokkos::create_mirror_view(reals_);
  std::size_t next_integer = 0, next_real = 0;
  const auto copy = [&](std::int64_t, auto to, auto array) {
    const auto& values = imported.*array;
    if constexpr (std::is_same_v<decltype(values), const std::vector<int>&>)
      model_.*to = copy_next(integers_, host_integers, next_integer, values);
    else
      model_.*to = copy_next(reals_, host_reals, next_real, values);
  };
  for_each_array<Model<T>, ModelNumbers>(imported.sizes, copy);
  for_each_derived_array<Model<T>, ModelNumbers>(imported.sizes, copy);
  Kokkos::deep_copy(integers_, host_integers);
  Kokkos::deep_copy(reals_, host_reals);
}

template class DeviceModel<float>;
template class DeviceModel<double>;
#ifdef MANIPLE_SEPARATE_MEMORY
template class DeviceModel<float, Kokkos::HostSpace>;
template class DeviceModel<double, Kokkos::HostSpace>;
#endif

}  // namespace maniple
