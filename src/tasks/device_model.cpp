#include "src/tasks/device_model.hpp"

namespace maniple {
namespace {

// What is done with each of the tables' many arrays is not inlined, which would take minutes to compile.
// All arrays of one type share one allocation; each starts at a multiple of 64 bytes.
std::size_t padded(std::size_t count) {
  constexpr std::size_t alignment = 16;
  return (count + alignment - 1) / alignment * alignment;
}
// Copies an array to `next` of the mirror of an allocation, and returns its place on the device.
template <class Device, class Mirror, class From>
[[gnu::noinline]] auto* placed(const Device& device, const Mirror& mirror, std::size_t& next,
                               const std::vector<From>& from) {
  auto* const place = device.data() + next;
  for (std::size_t i = 0; i < from.size(); ++i)
    mirror(next + i) = static_cast<typename Mirror::value_type>(from[i]);
  next += padded(from.size());
  return place;
}

}  // namespace

template <class T>
DeviceModel<T>::DeviceModel(const ImportedModel& imported) {
  static_cast<ModelSizes&>(model_) = imported.sizes;
#define MANIPLE_INTEGER(name, meaning) model_.name = imported.name;
#define MANIPLE_REAL(name, meaning) model_.name = static_cast<T>(imported.name);
#define MANIPLE_VECTOR(name, length, meaning) \
  for (int i = 0; i < (length); ++i)          \
    model_.name[i] = static_cast<T>(imported.name[static_cast<std::size_t>(i)]);
  MANIPLE_MODEL_OPTIONS(MANIPLE_INTEGER, MANIPLE_REAL, MANIPLE_VECTOR)
  MANIPLE_MODEL_DERIVED_OPTIONS(MANIPLE_INTEGER, MANIPLE_REAL)
#undef MANIPLE_INTEGER
#undef MANIPLE_REAL
#undef MANIPLE_VECTOR

  std::size_t integer_count = 0, real_count = 0;
#define MANIPLE_INTEGER(name, extent, meaning) integer_count += padded(imported.name.size());
#define MANIPLE_REAL(name, extent, meaning) real_count += padded(imported.name.size());
  MANIPLE_MODEL_FIELDS(MANIPLE_INTEGER, MANIPLE_REAL)
  MANIPLE_MODEL_DERIVED_FIELDS(MANIPLE_INTEGER, MANIPLE_REAL)
#undef MANIPLE_INTEGER
#undef MANIPLE_REAL
  integers_ = Kokkos::View<int*, MemorySpace>("maniple::model::integers", integer_count);
  reals_ = Kokkos::View<T*, MemorySpace>("maniple::model::reals", real_count);
  auto host_integers = Kokkos::create_mirror_view(integers_);
  auto host_reals = Kokkos::create_mirror_view(reals_);
  std::size_t next_integer = 0, next_real = 0;
#define MANIPLE_INTEGER(name, extent, meaning) \
  model_.name = placed(integers_, host_integers, next_integer, imported.name);
#define MANIPLE_REAL(name, extent, meaning) \
  model_.name = placed(reals_, host_reals, next_real, imported.name);
  MANIPLE_MODEL_FIELDS(MANIPLE_INTEGER, MANIPLE_REAL)
  MANIPLE_MODEL_DERIVED_FIELDS(MANIPLE_INTEGER, MANIPLE_REAL)
#undef MANIPLE_INTEGER
#undef MANIPLE_REAL
  Kokkos::deep_copy(integers_, host_integers);
  Kokkos::deep_copy(reals_, host_reals);
}

template class DeviceModel<float>;
template class DeviceModel<double>;

}  // namespace maniple
