// The model as the environments of a pack have it: the fields of MANIPLE_VARYING_FIELDS and what follows from
// them (MANIPLE_CONSEQUENT_FIELDS), which each environment may have for itself. Where a field is the same for
// all, which is known before the first step, this is the number of the model.
#pragma once

#include "kernels/math/quaternion.hpp"
#include "kernels/math/vector.hpp"
#include "kernels/model/data.hpp"

namespace maniple {

// Number k of row i of a field is field(i, k).
template <class V, int kRow, int kModelRow>
struct LaneField {
  const ScalarOf<V>* uniform;
  StateField<V> own;
  bool varied;

  MANIPLE_FUNCTION V operator()(int i, int k = 0) const {
    return varied ? V(own[kRow * i + k]) : V(uniform[kModelRow * i + k]);
  }
  // The row i of a field of quaternions; rows that vary are normalized here.
  MANIPLE_FUNCTION Quat<V> quaternion(int i) const {
    if (!varied) return uniform4<V>(uniform + kModelRow * i);
    return normalize(Quat<V>{(*this)(i, 0), (*this)(i, 1), (*this)(i, 2), (*this)(i, 3)});
  }
  // Numbers first, first + 1 and first + 2 of row i.
  MANIPLE_FUNCTION Vec3<V> vector(int i, int first = 0) const {
    if (!varied) return uniform3<V>(uniform + kModelRow * i + first);
    return {(*this)(i, first), (*this)(i, first + 1), (*this)(i, first + 2)};
  }
};

template <class V>
struct LaneModel {
  const Model<ScalarOf<V>>& m;
  const State<V>& s;

  MANIPLE_FUNCTION LaneModel(const Model<ScalarOf<V>>& model, const State<V>& state) : m(model), s(state) {}

#define MANIPLE_FIELD(name, rows, row, model_row, ...)                       \
  MANIPLE_FUNCTION LaneField<V, row, model_row> name() const {               \
    return {m.name, s.model_values.from(m.varied.name), m.varied.name >= 0}; \
  }                                                                          \
  MANIPLE_FUNCTION V name(int i, int k = 0) const {                          \
    return name()(i, k);                                                     \
  }
  MANIPLE_VARYING_FIELDS(MANIPLE_FIELD)
  MANIPLE_CONSEQUENT_FIELDS(MANIPLE_FIELD)
#undef MANIPLE_FIELD
};

// The sizes of geom g.
template <class V>
MANIPLE_FUNCTION void put_sizes(const LaneModel<V>& lanes, int g, V (&size)[3]) {
  const Vec3<V> sizes = lanes.geom_size().vector(g);
  size[0] = sizes.x;
  size[1] = sizes.y;
  size[2] = sizes.z;
}

// The model's sizes of geom g if it is a mesh and sizes vary, else null; see GeomPose.
template <class T>
MANIPLE_FUNCTION const T* sizes_of_meshes(const Model<T>& m, int g) {
  return m.varied.geom_size >= 0 && m.geom_type[g] == geom_mesh ? m.geom_size + 3 * g : nullptr;
}

// Number k of each lane's own row `index` of a field that varies.
template <class V, int kRow, int kModelRow>
MANIPLE_FUNCTION V gather_own(const LaneField<V, kRow, kModelRow>& field, V index, int k) {
  ScalarOf<V> values[lane_width<V>];
  for (int lane = 0; lane < lane_width<V>; ++lane)
    values[lane] = get_lane(V(field.own[kRow * static_cast<int>(get_lane(index, lane)) + k]), lane);
  V result;
  memcpy(&result, values, sizeof(V));
  return result;
}

}  // namespace maniple
