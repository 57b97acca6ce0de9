// Transmissions of actuators for length, velocity and force (mj_transmission): joints of any type, tendons,
// sites, slider-cranks, and the contacts of bodies. Each kind of transmission is a type with the four
// functions at the end of this file, and rows of the table, which has all of MuJoCo's.
#pragma once

#include "kernels/math/quaternion.hpp"
#include "kernels/model/data.hpp"
#include "kernels/physics/smooth/adhesion_moment.hpp"
#include "kernels/physics/smooth/site_moment.hpp"
#include "kernels/physics/smooth/tendon.hpp"

namespace maniple {

//  name, mjtTrn and its value, what actuator_trnid names (ObjectType)
#define MANIPLE_TRANSMISSION_TYPES(ROW)       \
  ROW(joint, JOINT, 0, joint)                 \
  ROW(jointinparent, JOINTINPARENT, 1, joint) \
  ROW(slidercrank, SLIDERCRANK, 2, site)      \
  ROW(tendon, TENDON, 3, tendon)              \
  ROW(site, SITE, 4, site)                    \
  ROW(body, BODY, 5, body)

#define MANIPLE_ROW(name, mujoco, value, object) transmission_##name = value,
enum TransmissionType : int { MANIPLE_TRANSMISSION_TYPES(MANIPLE_ROW) };
#undef MANIPLE_ROW

// What actuators of this type act on; object_unknown for types that are not in the table.
MANIPLE_FUNCTION ObjectType transmission_object(int type) {
  switch (type) {
#define MANIPLE_ROW(name, mujoco, value, object) \
  case transmission_##name:                      \
    return object_##object;
    MANIPLE_TRANSMISSION_TYPES(MANIPLE_ROW)
#undef MANIPLE_ROW
  }
  return object_unknown;
}

// Whether actuators on such objects have a row of numbers of their own.
MANIPLE_FUNCTION constexpr bool has_moment_row(ObjectType object) {
  return object == object_site || object == object_body;
}

// Is actuator i on this joint.
template <class T>
MANIPLE_FUNCTION bool is_on_joint(const Model<T>& m, int i, int joint) {
  return transmission_object(m.actuator_trntype[i]) == object_joint && m.actuator_trnid[2 * i] == joint;
}
template <class T>
MANIPLE_FUNCTION bool is_on_tendon(const Model<T>& m, int i, int tendon) {
  return transmission_object(m.actuator_trntype[i]) == object_tendon && m.actuator_trnid[2 * i] == tendon;
}

// Rotational gear of actuator i (gear elements `first`..first+2) in the frame in which the dofs of its
// ball or free joint are; a quaternion in qpos[q..q+3].
template <class V>
MANIPLE_FUNCTION Vec3<V> gear_axis(const Model<ScalarOf<V>>& m, const State<V>& s, int i, int first, int q) {
  const Vec3<V> gear = uniform3<V>(m.actuator_gear + 6 * i + first);
  if (m.actuator_trntype[i] == transmission_joint) return gear;
  return rotate(conjugate(normalize(load4<V>(s.qpos, q))), gear);
}

// Row of the moment matrix of actuator i on a joint: `count` elements from dof `dof` on.
template <class V>
struct Moment {
  int dof, count;
  V value[6];
};
template <class V>
MANIPLE_FUNCTION Moment<V> actuator_moment(const Model<ScalarOf<V>>& m, const State<V>& s, int i) {
  const int joint = m.actuator_trnid[2 * i], type = m.jnt_type[joint], q = m.jnt_qposadr[joint];
  const ScalarOf<V>* gear = m.actuator_gear + 6 * i;
  Moment<V> moment;
  moment.dof = m.jnt_dofadr[joint];
  if (type == joint_ball) {
    const Vec3<V> axis = gear_axis(m, s, i, 0, q);
    moment.count = 3;
    moment.value[0] = axis.x;
    moment.value[1] = axis.y;
    moment.value[2] = axis.z;
  } else if (type == joint_free) {
    const Vec3<V> axis = gear_axis(m, s, i, 3, q + 3);
    moment.count = 6;
    moment.value[0] = V(gear[0]);
    moment.value[1] = V(gear[1]);
    moment.value[2] = V(gear[2]);
    moment.value[3] = axis.x;
    moment.value[4] = axis.y;
    moment.value[5] = axis.z;
  } else {
    moment.count = 1;
    moment.value[0] = V(gear[0]);
  }
  return moment;
}

// Length is gear times position, and zero on a free joint.
struct JointTransmission {
  template <class V>
  MANIPLE_FUNCTION static V length(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>&, int i) {
    const int joint = m.actuator_trnid[2 * i], type = m.jnt_type[joint], q = m.jnt_qposadr[joint];
    if (type == joint_free) return V(0);
    if (type == joint_ball)
      return dot(rotation_vector(normalize(load4<V>(s.qpos, q))), gear_axis(m, s, i, 0, q));
    return V(m.actuator_gear[6 * i]) * s.qpos[q];
  }

  template <class V>
  MANIPLE_FUNCTION static V velocity(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>&, int i) {
    const int joint = m.actuator_trnid[2 * i];
    if (is_scalar(m, joint)) return V(m.actuator_gear[6 * i]) * s.qvel[m.jnt_dofadr[joint]];
    const Moment<V> moment = actuator_moment(m, s, i);
    V velocity(0);
    for (int k = 0; k < moment.count; ++k) velocity += moment.value[k] * s.qvel[moment.dof + k];
    return velocity;
  }

  template <class V>
  MANIPLE_FUNCTION static void add_force(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                         int i, V force) {
    const int joint = m.actuator_trnid[2 * i];
    if (is_scalar(m, joint)) {
      d.qfrc_actuator[m.jnt_dofadr[joint]] += V(m.actuator_gear[6 * i]) * force;
      return;
    }
    const Moment<V> moment = actuator_moment(m, s, i);
    for (int k = 0; k < moment.count; ++k) d.qfrc_actuator[moment.dof + k] += moment.value[k] * force;
  }

  template <class V>
  MANIPLE_FUNCTION static void subtract_product(const Model<ScalarOf<V>>& m, const State<V>& s,
                                                const Data<V>&, int i, V scale, const DataField<V>& matrix) {
    const Moment<V> moment = actuator_moment(m, s, i);
    for (int k = 0; k < moment.count; ++k) {
      const int dof = moment.dof + k;
      const int first = keeps_diagonal(m, dof) ? k : 0;
      for (int l = first; l <= k; ++l)
        matrix[m.dof_Madr[dof] + k - l] -= scale * moment.value[k] * moment.value[l];
    }
  }

 private:
  template <class T>
  MANIPLE_FUNCTION static bool is_scalar(const Model<T>& m, int joint) {
    return m.jnt_type[joint] == joint_slide || m.jnt_type[joint] == joint_hinge;
  }
};

// Length is gear times the tendon's.
struct TendonTransmission {
  template <class V>
  MANIPLE_FUNCTION static V length(const Model<ScalarOf<V>>& m, const State<V>&, const Data<V>& d, int i) {
    return V(m.actuator_gear[6 * i]) * d.ten_length[m.actuator_trnid[2 * i]];
  }
  template <class V>
  MANIPLE_FUNCTION static V velocity(const Model<ScalarOf<V>>& m, const State<V>&, const Data<V>& d, int i) {
    return V(m.actuator_gear[6 * i]) * d.ten_velocity[m.actuator_trnid[2 * i]];
  }
  template <class V>
  MANIPLE_FUNCTION static void add_force(const Model<ScalarOf<V>>& m, const State<V>&, const Data<V>& d,
                                         int i, V force) {
    tendon_jacobian(m, d, m.actuator_trnid[2 * i])
        .add_force(V(m.actuator_gear[6 * i]) * force, d.qfrc_actuator);
  }
  template <class V>
  MANIPLE_FUNCTION static void subtract_product(const Model<ScalarOf<V>>& m, const State<V>&,
                                                const Data<V>& d, int i, V scale,
                                                const DataField<V>& matrix) {
    const ScalarOf<V> gear = m.actuator_gear[6 * i];
    add_product(m, tendon_jacobian(m, d, m.actuator_trnid[2 * i]), -V(gear * gear) * scale, matrix);
  }
};

// By a moment that depends on the pose, or on contacts: length() writes it.
struct MomentTransmission {
  template <class V>
  MANIPLE_FUNCTION static V length(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d, int i) {
    const DofRow<V> row = moment_row(m, d, i);
    for (int k = 0; k < row.count; ++k) row.own[k] = V(0);
    if (m.actuator_trntype[i] == transmission_body) {
      adhesion_moment(m, d, i, row);
      return V(0);
    }
    return m.actuator_trntype[i] == transmission_site ? site_moment(m, s, d, i, row)
                                                      : slider_crank_moment(m, s, d, i, row);
  }
  template <class V>
  MANIPLE_FUNCTION static V velocity(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                     int i) {
    return moment_row(m, d, i).times(s.qvel);
  }
  template <class V>
  MANIPLE_FUNCTION static void add_force(const Model<ScalarOf<V>>& m, const State<V>&, const Data<V>& d,
                                         int i, V force) {
    moment_row(m, d, i).add_force(force, d.qfrc_actuator);
  }
  template <class V>
  MANIPLE_FUNCTION static void subtract_product(const Model<ScalarOf<V>>& m, const State<V>&,
                                                const Data<V>& d, int i, V scale,
                                                const DataField<V>& matrix) {
    add_product(m, moment_row(m, d, i), V(-scale), matrix);
  }
};

#define MANIPLE_ROW(name, mujoco, value, object)                                       \
  static_assert(object_##object == object_joint || object_##object == object_tendon || \
                    has_moment_row(object_##object),                                   \
                "with_transmission needs a type for " #name);
MANIPLE_TRANSMISSION_TYPES(MANIPLE_ROW)
#undef MANIPLE_ROW

// Calls visit(transmission) with the type for actuator i.
template <class T, class Visit>
MANIPLE_FUNCTION auto with_transmission(const Model<T>& m, int i, const Visit& visit) {
  const ObjectType object = transmission_object(m.actuator_trntype[i]);
  if (object == object_tendon) return visit(TendonTransmission());
  if (has_moment_row(object)) return visit(MomentTransmission());
  return visit(JointTransmission());
}

// Length of actuator i, m or rad.
template <class V>
MANIPLE_FUNCTION V transmission_length(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                       int i) {
  return with_transmission(
      m, i, [&](auto transmission) MANIPLE_INLINE_LAMBDA { return transmission.length(m, s, d, i); });
}
// Its rate, m/s or rad/s.
template <class V>
MANIPLE_FUNCTION V transmission_velocity(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                         int i) {
  return with_transmission(
      m, i, [&](auto transmission) MANIPLE_INLINE_LAMBDA { return transmission.velocity(m, s, d, i); });
}
// Adds the moment row times a force to qfrc_actuator.
template <class V>
MANIPLE_FUNCTION void add_transmitted_force(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                            int i, V force) {
  with_transmission(
      m, i, [&](auto transmission) MANIPLE_INLINE_LAMBDA { transmission.add_force(m, s, d, i, force); });
}
// Subtracts scale times the product of the moment row with itself from a matrix packed as qM.
template <class V>
MANIPLE_FUNCTION void subtract_moment_product(const Model<ScalarOf<V>>& m, const State<V>& s,
                                              const Data<V>& d, int i, V scale, const DataField<V>& matrix) {
  with_transmission(m, i, [&](auto transmission) MANIPLE_INLINE_LAMBDA {
    transmission.subtract_product(m, s, d, i, scale, matrix);
  });
}

// The moment of actuator i over actuator_row_scale, unless it is on a joint: then it has no dofs here.
template <class V>
MANIPLE_FUNCTION DofRow<V> actuator_row(const Model<ScalarOf<V>>& m, const Data<V>& d, int i) {
  const ObjectType object = transmission_object(m.actuator_trntype[i]);
  if (object == object_tendon) return tendon_jacobian(m, d, m.actuator_trnid[2 * i]);
  if (has_moment_row(object)) return moment_row(m, d, i);
  return {0, nullptr, nullptr, DataField<V>()};
}
template <class T>
MANIPLE_FUNCTION T actuator_row_scale(const Model<T>& m, int i) {
  return transmission_object(m.actuator_trntype[i]) == object_tendon ? m.actuator_gear[6 * i] : T(1);
}

}  // namespace maniple
