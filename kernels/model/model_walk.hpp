// Walks over the tables of Model (model_fields.hpp), for code that does the same to all rows of a table. A
// walk takes structs whose members a table names, and calls visit with their member pointers: of
//   for_each_option<Model<double>, mjOption>([&](auto to, auto from) { assign(m.*to, opt.*from); })
// the first call is about Model<double>::integrator and mjOption::integrator. Host only.
#pragma once

#include <cstdint>

#include "kernels/model/model.hpp"

namespace maniple {

// The sizes that are mjModel's.
template <class... Structs, class Visit>
void for_each_size(const Visit& visit) {
#define MANIPLE_VISIT(name, meaning) visit(&Structs::name...);
  MANIPLE_MODEL_SIZES(MANIPLE_VISIT)
#undef MANIPLE_VISIT
}

// Options, vectors included: mjOption's, and those that the import computes.
template <class... Structs, class Visit>
void for_each_option(const Visit& visit) {
#define MANIPLE_VISIT(name, ...) visit(&Structs::name...);
  MANIPLE_MODEL_OPTIONS(MANIPLE_VISIT, MANIPLE_VISIT, MANIPLE_VISIT)
#undef MANIPLE_VISIT
}
template <class... Structs, class Visit>
void for_each_derived_option(const Visit& visit) {
#define MANIPLE_VISIT(name, ...) visit(&Structs::name...);
  MANIPLE_MODEL_DERIVED_OPTIONS(MANIPLE_VISIT, MANIPLE_VISIT)
#undef MANIPLE_VISIT
}

// Arrays with their extents, visit(extent, members...): those that mjModel has alike; these and the meshes';
// and those that the import computes.
template <class... Structs, class Visit>
void for_each_mujoco_array(const ModelSizes& sizes, const Visit& visit) {
#define MANIPLE_SIZE(name, meaning) [[maybe_unused]] const int name = sizes.name;
#define MANIPLE_VISIT(name, extent, meaning) visit(static_cast<std::int64_t>(extent), &Structs::name...);
  MANIPLE_ALL_SIZES(MANIPLE_SIZE)
  MANIPLE_MODEL_FIELDS(MANIPLE_VISIT, MANIPLE_VISIT)
}
template <class... Structs, class Visit>
void for_each_mesh_array(const ModelSizes& sizes, const Visit& visit) {
  MANIPLE_ALL_SIZES(MANIPLE_SIZE)
  MANIPLE_MESH_FIELDS(MANIPLE_VISIT, MANIPLE_VISIT)
}
template <class... Structs, class Visit>
void for_each_array(const ModelSizes& sizes, const Visit& visit) {
  for_each_mujoco_array<Structs...>(sizes, visit);
  for_each_mesh_array<Structs...>(sizes, visit);
}
template <class... Structs, class Visit>
void for_each_derived_array(const ModelSizes& sizes, const Visit& visit) {
  MANIPLE_ALL_SIZES(MANIPLE_SIZE)
  MANIPLE_MODEL_DERIVED_FIELDS(MANIPLE_VISIT, MANIPLE_VISIT)
#undef MANIPLE_SIZE
#undef MANIPLE_VISIT
}

// to = from, for numbers and for vectors of either kind: T[n] or std::array.
template <class To, class From>
void assign(To& to, const From& from) {
  if constexpr (requires { to[0]; }) {
    for (std::size_t i = 0; i < std::size(to); ++i)
      to[i] = static_cast<std::remove_cvref_t<decltype(to[0])>>(from[i]);
  } else {
    to = static_cast<To>(from);
  }
}

}  // namespace maniple
