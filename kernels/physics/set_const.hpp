// Constants of the model that follow from varied fields, for each environment: masses of subtrees, inertia in
// the axes of the body, spheres around geoms, what sensors and equality constraints have of geoms and sites,
// and the inverse weights at qpos0 by which constraints are scaled (mj_setConst, set0 of engine_setconst.c;
// and the numbers that src/model_import/derive.cpp makes of them where they are the same for all). By one
// thread; Data is working memory.
#pragma once

#include "kernels/model/lane_model.hpp"
#include "kernels/physics/collision/alone.hpp"
#include "kernels/physics/constraint/constraint.hpp"
#include "kernels/physics/smooth/inertia.hpp"
#include "kernels/physics/smooth/transmission.hpp"
#include "kernels/physics/smooth/velocities.hpp"
#include "kernels/physics/step.hpp"

namespace maniple {

// Damping and armature of each dof with those of its joint's actuators, dry friction of dofs, and the ends of
// the ranges of joints.
template <class V>
MANIPLE_FUNCTION void set_dof_constants(const Model<ScalarOf<V>>& m, const State<V>& s) {
  const LaneModel<V> lanes(m, s);
  const auto total = [&](int offset, const LaneField<V, 1, 1>& own, const ScalarOf<V>* of_actuator) {
    for (int i = 0; i < m.nv && offset >= 0; ++i) {
      V sum = own(i);
      for (int k = 0; k < m.nactuator; ++k)
        if (is_on_joint(m, k, m.dof_jntid[i]))
          sum += V(of_actuator[k] * (m.actuator_gear[6 * k] * m.actuator_gear[6 * k]));
      s.model_values[offset + i] = sum;
    }
  };
  total(m.varied.dof_totaldamping, lanes.dof_damping(), m.actuator_damping);
  total(m.varied.dof_totalarmature, lanes.dof_armature(), m.actuator_armature);
  for (int r = 0; r < m.nfriction && m.varied.friction_loss >= 0; ++r) {
    const int dof = m.friction_dofid[r];
    s.model_values[m.varied.friction_loss + r] =
        dof < 0 ? V(m.friction_loss[r]) : V(max(lanes.dof_frictionloss(dof), V(0)));
  }
  for (int r = 0; r < m.nlimit && m.varied.limit_bound >= 0; ++r) {
    V bound(m.limit_bound[r]);
    if (m.limit_tendonid[r] < 0) {
      const int joint = m.dof_jntid[m.limit_dofid[r]];
      const V low = lanes.jnt_range(joint, 0), high = lanes.jnt_range(joint, 1);
      bound = m.limit_ballid[r] >= 0 ? max(low, high) : m.limit_side[r] > 0 ? low : high;
    }
    s.model_values[m.varied.limit_bound + r] = bound;
  }
}

// Masses of subtrees and what they are divided by.
template <class V>
MANIPLE_FUNCTION void set_subtree_masses(const Model<ScalarOf<V>>& m, const State<V>& s) {
  if (m.varied.body_subtreemass < 0) return;
  const LaneModel<V> lanes(m, s);
  const StateField<V> mass = s.model_values.from(m.varied.body_subtreemass),
                      inverse = s.model_values.from(m.varied.body_inversesubtreemass);
  for (int i = 0; i < m.nbody; ++i) mass[i] = lanes.body_mass(i);
  for (int i = m.nbody - 1; i > 0; --i) mass[m.body_parentid[i]] += mass[i];
  for (int i = 0; i < m.nbody; ++i) {
    const MaskOf<V> none = mass[i] < V(kMinimumValue);
    inverse[i] = select(none, V(0), V(1) / select(none, V(1), V(mass[i])));
  }
}

// Inertia in the axes of each body, and the box of that inertia in a fluid (mj_inertiaBoxFluidModel).
template <class V>
MANIPLE_FUNCTION void set_body_inertias(const Model<ScalarOf<V>>& m, const State<V>& s) {
  const LaneModel<V> lanes(m, s);
  for (int i = 0; i < m.nbody && m.varied.body_inertialocal >= 0; ++i) {
    const ScalarOf<V>* const mat = m.body_imat + 9 * i;
    const int rows[6][2] = {{0, 0}, {1, 1}, {2, 2}, {0, 1}, {0, 2}, {1, 2}};
    for (int k = 0; k < 6; ++k) {
      V sum(0);
      for (int c = 0; c < 3; ++c)
        sum += V(mat[3 * rows[k][0] + c]) * lanes.body_inertia(i, c) * V(mat[3 * rows[k][1] + c]);
      s.model_values[m.varied.body_inertialocal + 6 * i + k] = sum;
    }
  }
  for (int i = 0; i < m.nbody && m.varied.body_fluid >= 0; ++i) {
    const V pi(ScalarOf<V>(3.14159265358979323846)), density(max(m.density, ScalarOf<V>(0))),
        viscosity(max(m.viscosity, ScalarOf<V>(0)));
    const MaskOf<V> none = lanes.body_mass(i) < V(kMinimumValue);
    V box[3];
    for (int k = 0; k < 3; ++k) {
      const V square =
          lanes.body_inertia(i, (k + 1) % 3) + lanes.body_inertia(i, (k + 2) % 3) - lanes.body_inertia(i, k);
      box[k] = sqrt(max(V(kMinimumValue), square) / select(none, V(1), lanes.body_mass(i)) * V(6));
    }
    const V diameter = (box[0] + box[1] + box[2]) / V(3);
    const StateField<V> fluid = s.model_values.from(m.varied.body_fluid + 8 * i);
    fluid[0] = select(none, V(0), pi * diameter * diameter * diameter * viscosity);
    fluid[1] = select(none, V(0), V(3) * pi * diameter * viscosity);
    for (int k = 0; k < 3; ++k) {
      const V a = box[(k + 1) % 3], b = box[(k + 2) % 3];
      fluid[2 + k] = select(none, V(0), density * box[k] * (a * a * a * a + b * b * b * b) / V(64));
      fluid[5 + k] = select(none, V(0), V(ScalarOf<V>(0.5)) * density * a * b);
    }
  }
}

// Radii of the spheres around geoms, as MuJoCo's compiler computes them. (mj_setConst leaves them as they
// are.)
template <class V>
MANIPLE_FUNCTION void set_bounding_spheres(const Model<ScalarOf<V>>& m, const State<V>& s) {
  for (int g = 0; g < m.ngeom && m.varied.geom_rbound >= 0; ++g) {
    V size[3];
    put_sizes(LaneModel<V>(m, s), g, size);
    V radius(m.geom_rbound[g]);
    if (const auto* const of_model = sizes_of_meshes(m, g))
      radius =
          radius * max(size[0] / V(of_model[0]), max(size[1] / V(of_model[1]), size[2] / V(of_model[2])));
    else if (number_of_sizes(m.geom_type[g]) > 0)
      radius = shape_radius(m.geom_type[g], size);
    s.model_values[m.varied.geom_rbound + g] = radius;
  }
}

// Where a sensor reads, or refers to, an object, in its body: the center of mass of a body, and a geom or
// site, may vary; `otherwise` for all else.
template <class V>
MANIPLE_FUNCTION Vec3<V> sensed_position(const LaneModel<V>& lanes, int type, int id,
                                         const Vec3<V>& otherwise) {
  if (id < 0) return otherwise;
  if (type == object_body) return lanes.body_ipos().vector(id);
  if (type == object_geom) return lanes.geom_pos().vector(id);
  return type == object_site ? lanes.site_pos().vector(id) : otherwise;
}

// Frames that sensors read and refer to, in their bodies, and the points of sites that equality constraints
// hold.
template <class V>
MANIPLE_FUNCTION void set_held_frames(const Model<ScalarOf<V>>& m, const State<V>& s) {
  const LaneModel<V> lanes(m, s);
  const auto set = [&](int i, int type, int id, const ScalarOf<V>* pos, int to_pos, const ScalarOf<V>* quat,
                       int to_quat) {
    if (to_pos >= 0)
      store3(s.model_values, to_pos + 3 * i, sensed_position(lanes, type, id, uniform3<V>(pos + 3 * i)));
    if (to_quat >= 0)
      store4(s.model_values, to_quat + 4 * i,
             id >= 0 && type == object_geom ? lanes.geom_quat().quaternion(id) : uniform4<V>(quat + 4 * i));
  };
  for (int i = 0; i < m.nsensor; ++i) {
    set(i, m.sensor_objtype[i], m.sensor_objid[i], m.sensor_pos, m.varied.sensor_pos, m.sensor_quat,
        m.varied.sensor_quat);
    set(i, m.sensor_reftype[i], m.sensor_refid[i], m.sensor_refpos, m.varied.sensor_refpos, m.sensor_refquat,
        m.varied.sensor_refquat);
  }
  for (int i = 0; i < 2 * m.neq && m.varied.eq_pos >= 0; ++i) {
    const int object = i % 2 == 0 ? m.eq_obj1id[i / 2] : m.eq_obj2id[i / 2];
    store3(
        s.model_values, m.varied.eq_pos + 3 * i,
        m.eq_objtype[i / 2] == object_site ? lanes.site_pos().vector(object) : uniform3<V>(m.eq_pos + 3 * i));
  }
  for (int i = 0; i < 2 * m.neq && m.varied.eq_quat >= 0; ++i)
    store4(s.model_values, m.varied.eq_quat + 4 * i, uniform4<V>(m.eq_quat + 4 * i));
}

// Center of mass and inertia of the trees of single free joints, in the axes of their roots, from the pose in
// Data: what is welded to such a body does not move against it.
template <class V>
MANIPLE_FUNCTION void set_free_bodies(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  if (m.varied.body_freecom < 0) return;
  for (int root = 0; root < m.nbody; ++root) {
    if (m.body_freealone[root] == 0) continue;
    const Mat3<V> inverse = transpose(load9<V>(d.xmat, 9 * root));
    store3(s.model_values, m.varied.body_freecom + 3 * root,
           inverse * (load3<V>(d.subtree_com, 3 * root) - load3<V>(d.xpos, 3 * root)));
    const Inertia<V> whole = load10<V>(d.crb, 10 * root);
    const Mat3<V> inertia{whole.xx, whole.xy, whole.xz, whole.xy, whole.yy,
                          whole.yz, whole.xz, whole.yz, whole.zz};
    store9(s.model_values, m.varied.body_freeinertia + 9 * root, inverse * inertia * transpose(inverse));
  }
}

// What connects and welds of bodies hold in the pose in Data: a connect gives the point of body 1, and a weld
// that of body 2, with which the other body's point coincides; a weld without a relpose of its own also keeps
// the orientation of body 2 as seen from body 1.
template <class V>
MANIPLE_FUNCTION void set_connected_points(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  for (int e = 0; e < m.neq && m.varied.eq_quat >= 0; ++e) {
    const ScalarOf<V>* const data = m.eq_data + kEqualityData * e;
    const bool welds = m.eq_type[e] == equality_weld && data[kComputedRelpose] != 0;
    if (m.eq_objtype[e] == object_site || !(welds || m.eq_type[e] == equality_connect)) continue;
    const int given = welds ? m.eq_obj2id[e] : m.eq_obj1id[e],
              other = welds ? m.eq_obj1id[e] : m.eq_obj2id[e];
    const Vec3<V> point = load3<V>(d.xpos, 3 * given) + load9<V>(d.xmat, 9 * given) * uniform3<V>(data) -
                          load3<V>(d.xpos, 3 * other);
    store3(s.model_values, m.varied.eq_pos + 3 * (2 * e + (welds ? 0 : 1)),
           transpose(load9<V>(d.xmat, 9 * other)) * point);
    if (welds)
      store4(s.model_values, m.varied.eq_quat + 8 * e,
             conjugate(load4<V>(d.xquat, 4 * other)) * load4<V>(d.xquat, 4 * given));
  }
}

// J M^-1 J' of the row J in qfrc_smooth.
template <class V>
MANIPLE_FUNCTION V inverse_weight(const Model<ScalarOf<V>>& m, const Data<V>& d) {
  for (int k = 0; k < m.nv; ++k) d.qacc_smooth[k] = d.qfrc_smooth[k];
  solve_inertia(m, d, d.qM_factor, d.qLDiagInv, d.qacc_smooth);
  V sum(0);
  for (int k = 0; k < m.nv; ++k) sum = multiply_add(V(d.qfrc_smooth[k]), V(d.qacc_smooth[k]), sum);
  return sum;
}

// A body whose only joints are slides along its axes, and whose rows of the inertia matrix are diagonal
// (body_simple == 2): its inertia is its mass.
template <class T>
MANIPLE_FUNCTION bool only_slides_simply(const Model<T>& m, int body) {
  const int first = m.body_dofadr[body];
  if (first < 0 || m.dof_simplenum[first] == 0) return false;
  bool slides = true;
  for (int j = m.body_jntadr[body], end = j + m.body_jntnum[body]; j < end; ++j)
    slides = slides && m.jnt_type[j] == joint_slide;
  return slides;
}

// Mean inverse weight of body i, moved and turned.
template <class V>
MANIPLE_FUNCTION void set_body_weight(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d, int i,
                                      V& moved, V& turned) {
  const int last = m.body_lastdof[i];
  moved = turned = V(0);
  if (last < 0) return;
  if (only_slides_simply(m, i)) {
    moved = V(1) / max(V(kMinimumValue), LaneModel<V>(m, s).body_mass(i));
    return;
  }
  const Vec3<V> arm = load3<V>(d.xipos, 3 * i) - load3<V>(d.subtree_com, 3 * m.body_rootid[i]);
  for (int row = 0; row < 6; ++row) {
    for (int k = 0; k < m.nv; ++k) d.qfrc_smooth[k] = V(0);
    for (int k = last; k >= 0; k = m.dof_parentid[k]) {
      const Spatial<V> axis = load6<V>(d.cdof, 6 * k);
      const Vec3<V> motion = row < 3 ? axis.lin + cross(axis.rot, arm) : axis.rot;
      d.qfrc_smooth[k] = row % 3 == 0 ? motion.x : row % 3 == 1 ? motion.y : motion.z;
    }
    (row < 3 ? moved : turned) += inverse_weight(m, d);
  }
  moved = moved / V(3);
  turned = turned / V(3);
}

// Mean inverse weight of the dofs of joint j, to qacc_sum: of both kinds of a free joint's.
template <class V>
MANIPLE_FUNCTION void set_dof_weights(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                      int j) {
  const int first = m.jnt_dofadr[j], type = m.jnt_type[j];
  const int together = type == joint_free || type == joint_ball ? 3 : 1;
  for (int begin = first; begin < first + (type == joint_free ? 6 : together); begin += together) {
    V sum(0);
    for (int dof = begin; dof < begin + together; ++dof) {
      for (int k = 0; k < m.nv; ++k) d.qfrc_smooth[k] = V(k == dof ? 1 : 0);
      sum += inverse_weight(m, d);
    }
    if (only_slides_simply(m, m.dof_bodyid[first]))
      sum = V(1) / max(V(kMinimumValue), LaneModel<V>(m, s).body_mass(m.dof_bodyid[first]));
    for (int dof = begin; dof < begin + together; ++dof) d.qacc_sum[dof] = together == 1 ? sum : sum / V(3);
  }
}

template <class V>
MANIPLE_FUNCTION V tendon_weight(const Model<ScalarOf<V>>& m, const Data<V>& d, int t) {
  for (int k = 0; k < m.nv; ++k) d.qfrc_smooth[k] = V(0);
  tendon_jacobian(m, d, t).add_force(V(1), d.qfrc_smooth);
  return inverse_weight(m, d);
}

// Of row k of equality constraint e: the sum over both of its objects.
template <class V>
MANIPLE_FUNCTION V equality_weight(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d, int e,
                                   int k) {
  V sum(0);
  for (int side = 0; side < 2; ++side) {
    const int object = side == 0 ? m.eq_obj1id[e] : m.eq_obj2id[e];
    if (m.eq_bodyid[2 * e] >= 0)
      sum += LaneModel<V>(m, s).body_invweight0(m.eq_bodyid[2 * e + side], k < 3 ? 0 : 1);
    else if (object >= 0)
      sum +=
          m.eq_type[e] == equality_tendon ? tendon_weight(m, d, object) : V(d.qacc_sum[m.jnt_dofadr[object]]);
  }
  return sum;
}

// Size of the acceleration by a unit of force of actuator i.
template <class V>
MANIPLE_FUNCTION V actuator_acceleration(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                         int i) {
  if (m.actuator_trntype[i] == transmission_body) return V(0);  // without contacts
  for (int k = 0; k < m.nv; ++k) d.qfrc_actuator[k] = V(0);
  transmission_length(m, s, d, i);  // writes its moment, if that depends on the pose
  add_transmitted_force(m, s, d, i, V(1));
  for (int k = 0; k < m.nv; ++k) d.qacc_smooth[k] = d.qfrc_actuator[k];
  solve_inertia(m, d, d.qM_factor, d.qLDiagInv, d.qacc_smooth);
  V sum(0);
  for (int k = 0; k < m.nv; ++k) sum = multiply_add(V(d.qacc_smooth[k]), V(d.qacc_smooth[k]), sum);
  return sqrt(sum);
}

// What is computed at qpos0, with State and Data in that pose: the diagonal of M, and weights of bodies,
// dofs, tendons and actuators.
template <class V>
MANIPLE_FUNCTION void set_weights(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  const LaneModel<V> lanes(m, s);
  set_free_bodies(m, s, d);
  if (m.varied.dof_M0 < 0) return;
  for (int i = 0; i < m.nv; ++i) {
    const Spatial<V> axis = load6<V>(d.cdof, 6 * i);
    const V diagonal = lanes.dof_totalarmature(i) + dot(axis, load10<V>(d.crb, 10 * m.dof_bodyid[i]) * axis);
    s.model_values[m.varied.dof_M0 + i] = diagonal;
  }
  inertia_and_bias(m, s, d);
  tendon_lengths(m, s, d);
  for (int t = 0; t < m.ntendon && m.varied.tendon_length0 >= 0; ++t)
    s.model_values[m.varied.tendon_length0 + t] = d.ten_length[t];
  if (m.flags & model_tendon_armature) add_tendon_inertia(m, d);
  for (int k = 0; k < m.nM; ++k) d.qM_factor[k] = d.qM[k];
  factor_inertia(m, d, d.qM_factor, d.qLDiagInv);
  for (int i = 0; i < m.nbody && m.varied.body_invweight0 >= 0; ++i) {
    V moved, turned;
    set_body_weight(m, s, d, i, moved, turned);
    s.model_values[m.varied.body_invweight0 + 2 * i] = moved;
    s.model_values[m.varied.body_invweight0 + 2 * i + 1] = turned;
  }
  for (int i = 0; i < m.nactuator && m.varied.actuator_acc0 >= 0; ++i)
    s.model_values[m.varied.actuator_acc0 + i] = actuator_acceleration(m, s, d, i);
  if (m.nequality + m.nfriction + m.nlimit == 0) return;
  for (int j = 0; j < m.njnt; ++j) set_dof_weights(m, s, d, j);
  for (int e = 0; e < m.neq && m.nequality > 0; ++e)
    for (int k = 0; k < m.eq_rownum[e]; ++k)
      s.model_values[m.varied.equality_invweight + m.eq_rowadr[e] + k] = equality_weight(m, s, d, e, k);
  for (int r = 0; r < m.nlimit; ++r) {
    const int dof = m.limit_dofid[r];
    s.model_values[m.varied.limit_invweight + r] =
        dof >= 0 ? V(d.qacc_sum[dof]) : tendon_weight(m, d, m.limit_tendonid[r]);
  }
  for (int r = 0; r < m.nfriction; ++r) {
    const int dof = m.friction_dofid[r];
    const V weight = dof >= 0 ? V(d.qacc_sum[dof]) : tendon_weight(m, d, m.friction_tendonid[r]);
    s.model_values[m.varied.friction_D + r] = V(1) / regularization(V(m.friction_impedance[r]), weight);
  }
}

// Calls visit(x, kept, reference) for all numbers x of the state that say where bodies are: where one is
// kept, and what it is at qpos0, with mocap bodies where a fresh mjData has them.
template <class V, class Visit>
MANIPLE_FUNCTION void for_each_position(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                                        const Visit& visit) {
  const LaneModel<V> lanes(m, s);
  for (int i = 0; i < m.nq; ++i) visit(s.qpos[i], d.qpos_start[i], lanes.qpos0(i));
  for (int i = 0; i < m.nbody && m.nmocap > 0; ++i) {
    const int mocap = m.body_mocapid[i];
    if (mocap < 0) continue;
    for (int k = 0; k < 3; ++k)
      visit(s.mocap_pos[3 * mocap + k], d.mocap_start[7 * mocap + k], lanes.body_pos()(i, k));
    for (int k = 0; k < 4; ++k)
      visit(s.mocap_quat[4 * mocap + k], d.mocap_start[7 * mocap + 3 + k], lanes.body_quat()(i, k));
  }
}

template <class V>
MANIPLE_STAGE void set_const(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  set_dof_constants(m, s);
  set_subtree_masses(m, s);
  set_body_inertias(m, s);
  set_bounding_spheres(m, s);
  set_held_frames(m, s);
  if (m.varied.dof_M0 < 0 && m.varied.body_freecom < 0) return;
  for_each_position(m, s, d, [](V& x, V& kept, V reference) {
    kept = x;
    x = reference;
  });
  kinematics(m, s, d, false);
  velocities<VelocityOutputs::dynamics>(m, s, d);
  sum_over_subtrees(m, d);
  complete_body_poses(m, s, d);
  set_connected_points(m, s, d);
  set_weights(m, s, d);
  for_each_position(m, s, d, [](V& x, V& kept, V) { x = kept; });
}

}  // namespace maniple
