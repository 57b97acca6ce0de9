#include "src/model_import/derive.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/math/quaternion.hpp"
#include "kernels/model/data.hpp"
#include "kernels/model/sensor_types.hpp"
#include "kernels/physics/constraint/row_families.hpp"
#include "kernels/physics/smooth/dcmotor.hpp"
#include "kernels/physics/smooth/pid.hpp"
#include "kernels/physics/smooth/transmission.hpp"
#include "src/model_import/actuator_totals.hpp"
#include "src/model_import/derive_contacts.hpp"
#include "src/model_import/derive_equality.hpp"
#include "src/model_import/derive_sensors.hpp"
#include "src/model_import/derive_tendons.hpp"
#include "src/model_import/row_parameters.hpp"

namespace maniple {
namespace {

// Models rarely have more rows or sweeps; the kernels compute the orders beyond themselves.
constexpr int kOrderedRows = 64, kOrderedSweeps = 100;

bool zero3(const double* v) {
  return v[0] == 0 && v[1] == 0 && v[2] == 0;
}
bool identity4(const double* q) {
  return q[0] == 1 && q[1] == 0 && q[2] == 0 && q[3] == 0;
}

// Bodies that are symmetric about a principal axis (capsules, cylinders, spheres, cubes) need far fewer
// operations to turn. Returns the flags.
int derive_symmetry(const double* inertia, const double* mat, double* symmetry) {
  for (int axis = 0; axis < 3; ++axis) {
    const double a = inertia[(axis + 1) % 3], b = inertia[(axis + 2) % 3], along = inertia[axis];
    if (std::abs(a - b) > 1e-13 * (a + b)) continue;
    const double across = 0.5 * (a + b);
    symmetry[0] = across;
    symmetry[1] = along - across;
    for (int k = 0; k < 3; ++k) symmetry[2 + k] = mat[3 * k + axis];
    return body_symmetric | (std::abs(along - across) <= 1e-13 * (a + b) ? body_isotropic : 0);
  }
  for (int k = 0; k < 5; ++k) symmetry[k] = 0;
  return 0;
}

// Free bodies whose trees have no other dofs: what is welded to them counts as one with them.
void derive_free_bodies(const Model<double>& m, const DerivedFields& derived) {
  const int nbody = m.nbody;
  std::vector<Vec3<double>> pos(static_cast<std::size_t>(nbody), Vec3<double>{0, 0, 0});
  std::vector<Quat<double>> quat(static_cast<std::size_t>(nbody), Quat<double>{1, 0, 0, 0});
  for (int root = 0; root < nbody; ++root) {
    double *const center = derived.body_freecom + 3 * root, *const inertia =
                                                                derived.body_freeinertia + 9 * root;
    std::fill_n(center, 3, 0.0);
    std::fill_n(inertia, 9, 0.0);
    bool alone = m.body_jntnum[root] == 1 && m.jnt_type[m.body_jntadr[root]] == joint_free;
    // a tree's bodies follow each other
    int end = root + 1;
    for (; alone && end < nbody && m.body_rootid[end] == root; ++end) alone = m.body_dofnum[end] == 0;
    derived.body_freealone[root] = alone ? end - root : 0;
    if (!alone) continue;
    std::vector<Vec3<double>> com;
    Vec3<double> sum{0, 0, 0};
    for (int i = root; i < end; ++i) {
      const auto at = static_cast<std::size_t>(i), parent = static_cast<std::size_t>(m.body_parentid[i]);
      if (i > root) {
        pos[at] = pos[parent] + rotate(quat[parent], uniform3<double>(m.body_pos + 3 * i));
        quat[at] = normalize(quat[parent] * uniform4<double>(m.body_quat + 4 * i));
      }
      com.push_back(pos[at] + rotate(quat[at], uniform3<double>(m.body_ipos + 3 * i)));
      sum = sum + m.body_mass[i] * com.back();
    }
    const Vec3<double> whole = derived.body_inversesubtreemass[root] * sum;
    store3(center, 0, whole);
    for (int i = root; i < end; ++i) {
      const Mat3<double> turn =
          matrix(normalize(quat[static_cast<std::size_t>(i)] * uniform4<double>(m.body_iquat + 4 * i)));
      const Vec3<double> principal = uniform3<double>(m.body_inertia + 3 * i);
      const Mat3<double> scale{principal.x, 0, 0, 0, principal.y, 0, 0, 0, principal.z};
      // the parallel axis theorem
      const Mat3<double> arm = cross_matrix(com[static_cast<std::size_t>(i - root)] - whole);
      double own[9], shift[9];
      store9(&own[0], 0, turn * scale * transpose(turn));
      store9(&shift[0], 0, arm * transpose(arm));
      for (int k = 0; k < 9; ++k) inertia[k] += own[k] + m.body_mass[i] * shift[k];
    }
  }
}

void derive_bodies(const Model<double>& m, const DerivedFields& derived) {
  for (int i = 0; i < m.nbody; ++i) {
    matrix_of_quaternion(m.body_iquat + 4 * i, derived.body_imat + 9 * i);
    derived.body_inversesubtreemass[i] =
        m.body_subtreemass[i] < kMinimumValue ? 0 : 1 / m.body_subtreemass[i];
    const int parent = m.body_parentid[i];
    derived.body_lastdof[i] = m.body_dofnum[i] > 0 ? m.body_dofadr[i] + m.body_dofnum[i] - 1
                              : i == 0             ? -1
                                                   : derived.body_lastdof[parent];
    int flags = 0;
    if (zero3(m.body_pos + 3 * i) && m.varied.body_pos < 0) flags |= body_pos_zero;
    if (identity4(m.body_quat + 4 * i) && m.varied.body_quat < 0) flags |= body_quat_identity;
    if (zero3(m.body_ipos + 3 * i) && m.varied.body_ipos < 0) flags |= body_ipos_zero;
    if (identity4(m.body_iquat + 4 * i)) flags |= body_iquat_identity;
    const bool varied = m.varied.body_mass >= 0 || m.varied.body_inertia >= 0;
    if (m.body_mass[i] == 0 && zero3(m.body_inertia + 3 * i) && !varied) flags |= body_massless;
    if (i == 0 || derived.body_lastdof[parent] < 0) flags |= body_parent_static;
    for (int g = m.body_geomadr[i], end = g + m.body_geomnum[i]; g < end; ++g)
      if (m.geom_fluid[kGeomFluid * g] > 0) flags |= body_ellipsoids;
    bool leaf = true;
    for (int j = i + 1; j < m.nbody; ++j) leaf = leaf && m.body_parentid[j] != i;
    if (leaf) flags |= body_leaf;
    const double* mat = derived.body_imat + 9 * i;
    const int symmetry = derive_symmetry(m.body_inertia + 3 * i, mat, derived.body_symmetry + 5 * i);
    if (m.varied.body_inertia < 0) flags |= symmetry;
    derived.body_flags[i] = flags;
    const int rows[6][2] = {{0, 0}, {1, 1}, {2, 2}, {0, 1}, {0, 2}, {1, 2}};
    for (int k = 0; k < 6; ++k) {
      double sum = 0;
      for (int c = 0; c < 3; ++c)
        sum += mat[3 * rows[k][0] + c] * m.body_inertia[3 * i + c] * mat[3 * rows[k][1] + c];
      derived.body_inertialocal[6 * i + k] = sum;
    }
  }
  derive_free_bodies(m, derived);
}

// The lists by which bodies are visited: children of each, and levels of the trees. Returns the number of
// these.
int derive_levels(const Model<double>& m, const DerivedFields& derived) {
  int children = 0, levels = 0, bodies = 0;
  std::vector<int> depth(static_cast<std::size_t>(m.nbody), 0);
  for (int i = 0; i < m.nbody; ++i) {
    derived.body_childadr[i] = children;
    for (int j = m.nbody - 1; j > i; --j)
      if (m.body_parentid[j] == i && !(derived.body_flags[j] & body_parent_static))
        derived.body_child[children++] = j;
    derived.body_childnum[i] = children - derived.body_childadr[i];
    if (i == 0) continue;
    const auto at = static_cast<std::size_t>(i);
    depth[at] = depth[static_cast<std::size_t>(m.body_parentid[i])] + 1;
    levels = std::max(levels, depth[at]);
  }
  std::fill(derived.body_child + children, derived.body_child + m.nbody, 0);
  for (int level = 0; level < m.nbody; ++level) {
    derived.level_bodyadr[level] = bodies;
    for (int i = 1; i < m.nbody; ++i)
      if (depth[static_cast<std::size_t>(i)] == level + 1) derived.level_body[bodies++] = i;
    derived.level_bodynum[level] = bodies - derived.level_bodyadr[level];
  }
  derived.level_body[bodies] = 0;  // the world's place
  return levels;
}

void derive_joints(const Model<double>& m, const DerivedFields& derived) {
  for (int j = 0; j < m.njnt; ++j) {
    const double* axis = m.jnt_axis + 3 * j;
    int flags = 0;
    if (zero3(m.jnt_pos + 3 * j)) flags |= joint_pos_zero;
    const bool poly = m.jnt_stiffnesspoly[2 * j] != 0 || m.jnt_stiffnesspoly[2 * j + 1] != 0;
    if (m.jnt_stiffness[j] != 0 || poly || m.varied.jnt_stiffness >= 0) flags |= joint_sprung;
    if (poly) flags |= joint_spring_poly;
    if (axis[0] == 1 && axis[1] == 0 && axis[2] == 0) flags |= joint_axis_x;
    if (axis[0] == 0 && axis[1] == 1 && axis[2] == 0) flags |= joint_axis_y;
    if (axis[0] == 0 && axis[1] == 0 && axis[2] == 1) flags |= joint_axis_z;
    derived.jnt_flags[j] = flags;
  }
}

void derive_dofs(const Model<double>& m, const DerivedFields& derived) {
  for (int i = 0; i < m.nv; ++i) {
    const int joint = m.dof_jntid[i], type = m.jnt_type[joint];
    derived.dof_ancestors[i] = m.dof_parentid[i] < 0 ? 0 : derived.dof_ancestors[m.dof_parentid[i]] + 1;
    // (a center of mass that varies leaves the body's origin)
    derived.dof_simple[i] = m.dof_simplenum[i] > 0 && m.varied.body_ipos < 0;
    derived.dof_rootid[i] = m.body_rootid[m.dof_bodyid[i]];
    int* const ancestors = derived.dof_coupledset + i * m.ndofword;
    for (int k = 0; k < m.ndofword; ++k) ancestors[k] = 0;
    int count = 0;
    for (int k = m.dof_parentid[i]; k >= 0; k = m.dof_parentid[k]) {
      insert_dof(ancestors, 0, k);
      derived.dof_ancestorlist[i * (i - 1) / 2 + count++] = k;
      // libmujoco numbers dofs depth first
      derived.dof_descendantlist[below_address(m.nv, k) + i - k - 1] = i;
      derived.dof_descendants[k] = i - k;
    }
    derived.dof_descendants[i] = 0;
    derived.dof_Mrootadr[i] = m.dof_Madr[i] + derived.dof_ancestors[i];
    derived.dof_translation[i] = type == joint_slide || (type == joint_free && i < m.jnt_dofadr[joint] + 3);
    ActuatorTotals total{
        m.dof_armature[i], m.dof_damping[i], {m.dof_dampingpoly[2 * i], m.dof_dampingpoly[2 * i + 1]}};
    total.add_actuators(m, [&](int k) { return is_on_joint(m, k, joint); });
    derived.dof_totalarmature[i] = total.armature;
    derived.dof_totaldamping[i] = total.damping;
    std::copy_n(total.dampingpoly, 2, derived.dof_totaldampingpoly + 2 * i);
  }
}

int remembered_controls(const Model<double>& m, int actuator) {
  return m.actuator_delay[actuator] > 0 ? m.actuator_history[2 * actuator] : 0;
}

// Where the activations of actuator i are whose parameters ask for them, in the order of slots
// (mj_dcmotorSlots).
void derive_slots(const Model<double>& m, const DerivedFields& derived, int i) {
  const double *dynprm = m.actuator_dynprm + 10 * i, *gainprm = m.actuator_gainprm + 10 * i;
  const bool pid = m.actuator_dyntype[i] == dynamics_pid, motor = m.actuator_dyntype[i] == dynamics_dcmotor;
  const bool has[] = {(pid && dynprm[pid_slewmax] > 0) || (motor && dynprm[motor_slewmax] > 0),
                      (pid && gainprm[pid_ki] > 0) || (motor && gainprm[motor_ki] > 0),
                      motor && dynprm[motor_thermal_resistance] > 0, motor && dynprm[motor_stiffness] > 0,
                      motor && dynprm[motor_timeconst] > 0};
  int adr = m.actuator_actadr[i];
  for (int slot = 0; slot < 5; ++slot) derived.actuator_slotadr[5 * i + slot] = has[slot] ? adr++ : -1;
}

void derive_actuators(const Model<double>& m, const DerivedFields& derived) {
  int history = 0;  // controls that actuators before remember
  for (int i = 0; i < m.nactuator; ++i) {
    const int group = m.actuator_group[i];
    derived.actuator_disabled[i] = group >= 0 && group <= 30 && (m.disableactuator >> group & 1);
    derived.actuator_delaysteps[i] = in_time_steps(m.actuator_delay[i] / m.timestep);
    const int own = remembered_controls(m, i);
    derived.actuator_historyadr[i] = own > 0 ? history : -1;
    history += own;
    const double tau = std::fmax(kMinimumValue, m.actuator_dynprm[10 * i]);
    derived.actuator_inversetau[i] = 1 / tau;
    // exact integration of the filter over one step: act += act_dot * tau * (1 - exp(-h/tau))
    // so is that of the current of a DC motor, whose other activations have the model's time step
    const bool exact = m.actuator_dyntype[i] == dynamics_filterexact ||
                       (m.actuator_dyntype[i] == dynamics_dcmotor && m.actuator_dynprm[10 * i] > 0);
    derived.actuator_step[i] = exact ? tau * (1 - std::exp(-m.timestep / tau)) : m.timestep;
    derive_slots(m, derived, i);
    // position servos on ball joints, and of an orientation against that of another site, track the setpoint
    // nearest to the current length (wrapPeriod)
    const bool on_ball = transmission_object(m.actuator_trntype[i]) == object_joint &&
                         m.jnt_type[m.actuator_trnid[2 * i]] == joint_ball;
    const bool servo =
        m.actuator_gaintype[i] == gain_pid ||
        (m.actuator_gaintype[i] == gain_fixed && m.actuator_biastype[i] == bias_affine &&
         m.actuator_gainprm[10 * i] == -m.actuator_biasprm[10 * i + 1] &&
         (m.actuator_dyntype[i] == dynamics_none || m.actuator_dyntype[i] == dynamics_integrator));
    const double* gear = m.actuator_gear + 6 * i;
    const bool of_orientation =
        m.actuator_trntype[i] == transmission_site && m.actuator_trnid[2 * i + 1] >= 0 && zero3(gear);
    const double* const turns = gear + (of_orientation ? 3 : 0);
    derived.actuator_period[i] =
        servo && (on_ball || of_orientation)
            ? 2 * M_PI * std::sqrt(turns[0] * turns[0] + turns[1] * turns[1] + turns[2] * turns[2])
            : 0;
  }
}

// The box with the inertia of each body, and what a fluid does to it (mj_inertiaBoxFluidModel).
void derive_fluid(const Model<double>& m, const DerivedFields& derived) {
  const double density = std::fmax(0.0, m.density), viscosity = std::fmax(0.0, m.viscosity);
  for (int i = 0; i < m.nbody; ++i) {
    double* fluid = derived.body_fluid + 8 * i;
    for (int k = 0; k < 8; ++k) fluid[k] = 0;
    if (m.body_mass[i] < kMinimumValue) continue;
    const double* inertia = m.body_inertia + 3 * i;
    double box[3];
    for (int k = 0; k < 3; ++k) {
      const double square = inertia[(k + 1) % 3] + inertia[(k + 2) % 3] - inertia[k];
      box[k] = std::sqrt(std::fmax(kMinimumValue, square) / m.body_mass[i] * 6);
    }
    const double diameter = (box[0] + box[1] + box[2]) / 3;
    fluid[0] = M_PI * diameter * diameter * diameter * viscosity;
    fluid[1] = 3 * M_PI * diameter * viscosity;
    for (int k = 0; k < 3; ++k) {
      const double a = box[(k + 1) % 3], b = box[(k + 2) % 3];
      fluid[2 + k] = density * box[k] * (a * a * a * a + b * b * b * b) / 64;
      fluid[5 + k] = 0.5 * density * a * b;
    }
  }
}

bool has_friction(const Model<double>& m, int dof) {
  return (m.dof_frictionloss[dof] != 0 || m.varied.dof_frictionloss >= 0) &&
         !(m.disableflags & (disable_constraint | disable_frictionloss));
}
bool has_limit(const Model<double>& m, int joint) {
  return m.jnt_limited[joint] && !(m.disableflags & (disable_constraint | disable_limit));
}

// (What nothing moves has no rows.)
bool has_friction_of_tendon(const Model<double>& m, int tendon) {
  return m.tendon_frictionloss[tendon] != 0 && m.ten_J_rownnz[tendon] > 0 &&
         !(m.disableflags & (disable_constraint | disable_frictionloss));
}
bool has_limit_of_tendon(const Model<double>& m, int tendon) {
  return m.tendon_limited[tendon] && m.ten_J_rownnz[tendon] > 0 &&
         !(m.disableflags & (disable_constraint | disable_limit));
}

void derive_friction(const Model<double>& m, const DerivedFields& derived) {
  int r = 0;
  const auto add = [&](int dof, int tendon, const double* solref, const double* solimp, double invweight,
                       double loss) {
    const RowParameters row = row_parameters(m, solref, solimp);
    // the position of such a row is always zero, and so its impedance constant
    const bool flat = row.solimp[0] == row.solimp[1] || row.solimp[2] <= kMinimumValue;
    const double impedance = flat ? 0.5 * (row.solimp[0] + row.solimp[1]) : row.solimp[0];
    derived.friction_dofid[r] = dof;
    derived.friction_tendonid[r] = tendon;
    derived.friction_D[r] = 1 / std::fmax(kMinimumValue, (1 - impedance) * invweight / impedance);
    derived.friction_impedance[r] = impedance;
    derived.friction_B[r] = row.B;
    derived.friction_loss[r] = loss;
    ++r;
  };
  for (int i = 0; i < m.nv; ++i)
    if (has_friction(m, i))
      add(i, -1, m.dof_solref + 2 * i, m.dof_solimp + 5 * i, m.dof_invweight0[i], m.dof_frictionloss[i]);
  for (int i = 0; i < m.ntendon; ++i)
    if (has_friction_of_tendon(m, i))
      add(-1, i, m.tendon_solref_fri + 2 * i, m.tendon_solimp_fri + 5 * i, m.tendon_invweight0[i],
          m.tendon_frictionloss[i]);
}

void derive_limits(const Model<double>& m, const DerivedFields& derived) {
  int r = 0, ball = 0;
  const auto add = [&](const double* solref, const double* solimp, int side, double bound, double margin,
                       double invweight) {
    const RowParameters row = row_parameters(m, solref, solimp);
    derived.limit_side[r] = side;
    derived.limit_ballid[r] = derived.limit_dofid[r] = derived.limit_qposadr[r] = -1;
    derived.limit_tendonid[r] = -1;
    derived.limit_bound[r] = bound;
    derived.limit_margin[r] = margin;
    derived.limit_invweight[r] = invweight;
    derived.limit_K[r] = row.K;
    derived.limit_B[r] = row.B;
    for (int k = 0; k < 5; ++k) derived.limit_solimp[5 * r + k] = row.solimp[k];
    return r++;
  };
  for (int j = 0; j < m.njnt; ++j) {
    if (!has_limit(m, j)) continue;
    const double low = m.jnt_range[2 * j], high = m.jnt_range[2 * j + 1];
    const bool is_ball = m.jnt_type[j] == joint_ball;
    const int dof = m.jnt_dofadr[j];
    for (int upper = 0; upper < (is_ball ? 1 : 2); ++upper) {
      const int row =
          add(m.jnt_solref + 2 * j, m.jnt_solimp + 5 * j, is_ball ? 0 : (upper ? -1 : 1),
              is_ball ? std::fmax(low, high) : (upper ? high : low), m.jnt_margin[j], m.dof_invweight0[dof]);
      derived.limit_dofid[row] = dof;
      derived.limit_qposadr[row] = m.jnt_qposadr[j];
      if (is_ball) derived.limit_ballid[row] = ball++;
    }
    // a row couples the dofs of a ball, which then need their whole block of the inertia matrix
    for (int k = 0; k < 3 && is_ball; ++k) derived.dof_simple[dof + k] = 0;
  }
  for (int i = 0; i < m.ntendon; ++i) {
    if (!has_limit_of_tendon(m, i)) continue;
    for (int upper = 0; upper < 2; ++upper) {
      const int row = add(m.tendon_solref_lim + 2 * i, m.tendon_solimp_lim + 5 * i, upper ? -1 : 1,
                          m.tendon_range[2 * i + upper], m.tendon_margin[i], m.tendon_invweight0[i]);
      derived.limit_tendonid[row] = i;
    }
  }
}

// Adds to dof_coupledset what rows of tendons and of equality constraints couple. True if that is more than
// ancestors.
bool couple_dofs_of_rows(const Model<double>& m, const DerivedFields& derived) {
  bool more = false;
  // dofs in ascending order
  const auto couple = [&](const int* dofs, int count) {
    for (int k = 0; k < count; ++k)
      for (int l = 0; l < k; ++l) {
        const int i = dofs[k], j = dofs[l];
        int* const set = derived.dof_coupledset + i * m.ndofword;
        if (i == j || (static_cast<unsigned>(set[j / 32]) >> j % 32 & 1u)) continue;
        insert_dof(set, 0, j);
        more = true;
      }
  };
  for (int t = 0; t < m.ntendon; ++t)
    if (has_friction_of_tendon(m, t) || has_limit_of_tendon(m, t))
      couple(m.ten_J_colind + m.ten_J_rowadr[t], m.ten_J_rownnz[t]);
  for (int r = 0; r < m.nequality; ++r)
    couple(derived.equality_J_colind + derived.equality_J_rowadr[r], derived.equality_J_rownnz[r]);
  return more;
}

// The orders of the dual solver's first sweeps, for each number of rows.
void derive_orders(const Model<double>& m, const DerivedFields& derived) {
  auto* const table = reinterpret_cast<unsigned char*>(derived.dual_order);
  for (int count = 1; count <= m.ndualorder; ++count) {
    unsigned char order[kOrderedRows];
    for (int i = 0; i < count; ++i) order[i] = static_cast<unsigned char>(i);
    ShuffleGenerator generator;
    for (int sweep = 0; sweep < m.ndualsweep; ++sweep) {
      shuffle(order, count, generator);
      unsigned char* const to = table + order_address(m.ndualsweep, count) + sweep * order_length(count);
      std::fill_n(std::copy_n(order, count, to), order_length(count) - count,
                  static_cast<unsigned char>(count));
    }
  }
}

// The results of other stages that the sensors read.
int sensor_flags(const Model<double>& m, const DerivedFields& derived) {
  int flags = model_sensors;
  for (int i = 0; i < m.nsensor; ++i) {
    const int needs = sensor_type_info(m.sensor_type[i])->needs;
    flags |= needs;
    // about the center of mass of the whole world
    if ((needs & model_force_sensors) && derived.sensor_bodyid[i] == 0) flags |= model_subtree_sensors;
  }
  return flags;
}

int model_flags(const Model<double>& m, const DerivedFields& derived) {
  int flags = tendon_flags(m, derived);
  if (m.solver == solver_pgs || m.nsolvertree > 0 || has_few_iterations(m) || has_few_line_iterations(m))
    flags |= model_ends_early;
  if (has_sparse_rows(m)) flags |= model_sparse_rows;
  const bool no_spring = m.disableflags & disable_spring, no_damper = m.disableflags & disable_damper;
  const auto body_of = [&](int j) { return m.dof_bodyid[m.jnt_dofadr[j]]; };
  for (int j = 0; j < m.njnt; ++j) {
    if ((derived.jnt_flags[j] & joint_sprung) && !no_spring) flags |= model_springs;
    if (m.jnt_actfrclimited[j]) flags |= model_actfrclimited;
    const int end = m.body_jntadr[body_of(j)] + m.body_jntnum[body_of(j)];
    for (int after = j + 1; m.jnt_type[j] == joint_ball && after < end; ++after)
      if (m.jnt_type[after] == joint_slide) flags |= model_slides_on_balls;
  }
  for (int i = 0; i < m.nv && !no_damper; ++i) {
    const double* poly = derived.dof_totaldampingpoly + 2 * i;
    const bool has_poly = poly[0] != 0 || poly[1] != 0;
    const bool varied = m.varied.dof_damping >= 0;
    if (derived.dof_totaldamping[i] != 0 || has_poly || varied) flags |= model_dampers;
    if (has_poly) flags |= model_damping_poly;
    // mj_Euler: joint damping of the right sign, or any that is nonlinear or comes from an actuator
    const bool from_actuator = derived.dof_totaldamping[i] != m.dof_damping[i];
    if (!(m.disableflags & disable_eulerdamp) &&
        (m.dof_damping[i] > 0 || has_poly || from_actuator || varied))
      flags |= model_implicit_damping;
  }
  // mj_passive does nothing at all when springs and dampers are both off
  const bool weightless = zero3(m.gravity) && m.varied.gravity < 0;
  const bool gravity = !(m.disableflags & disable_gravity) && !weightless && !(no_spring && no_damper);
  for (int i = 0; i < m.nbody; ++i) {
    if (m.body_gravcomp[i] != 0 && gravity) flags |= model_gravcomp;
    if (derived.body_freealone[i]) flags |= model_free_alone;
  }
  for (int j = 0; j < m.njnt; ++j)
    if (m.jnt_actgravcomp[j] && (flags & model_gravcomp)) flags |= model_actgravcomp;
  if (m.nactuator > 0 && !(m.disableflags & disable_actuation)) flags |= model_actuation;
  if (m.nsensor > 0 && !(m.disableflags & disable_sensor)) flags |= sensor_flags(m, derived);
  if ((m.density != 0 || m.viscosity != 0) && !(no_spring && no_damper)) {
    flags |= model_fluid;
    for (int i = 0; i < m.nbody; ++i)
      if (derived.body_flags[i] & body_ellipsoids) flags |= model_ellipsoids;
  }
  for (int i = 0; i < m.nactuator; ++i) {
    if (m.actuator_trntype[i] == transmission_body) flags |= model_adhesion;
    if ((flags & model_actuation) && force_depends_on_velocity(m, i)) flags |= model_actuator_velocity;
    if (m.actuator_gaintype[i] == gain_dcmotor && (m.actuator_biasprm[10 * i + motor_cogging] != 0 ||
                                                   derived.actuator_slotadr[5 * i + slot_bristle] >= 0))
      flags |= model_motor_friction;
  }
  return flags;
}

// Trees that make islands of rows; 1: all rows are one.
int trees_of_islands(const Model<double>& m, const ModelSizes& sizes) {
  return m.disableflags & disable_island ? 1 : sizes.ntree;
}

}  // namespace

double in_time_steps(double steps) {
  const double whole = std::round(steps);
  return std::abs(steps - whole) <= 1e-9 * std::fmax(1, std::abs(steps)) ? whole : steps;
}

void count_rows(const Model<double>& m, ModelSizes& sizes) {
  count_equality(m, sizes);
  sizes.nfriction = sizes.nlimit = sizes.nlimitball = 0;
  for (int i = 0; i < m.nv; ++i) sizes.nfriction += has_friction(m, i);
  for (int i = 0; i < m.ntendon; ++i) {
    sizes.nfriction += has_friction_of_tendon(m, i);
    sizes.nlimit += 2 * has_limit_of_tendon(m, i);
  }
  for (int j = 0; j < m.njnt; ++j) {
    if (!has_limit(m, j)) continue;
    const bool ball = m.jnt_type[j] == joint_ball;
    sizes.nlimit += ball ? 1 : 2;
    sizes.nlimitball += ball;
  }
  count_tendons(m, sizes);
  count_contacts(m, sizes);
  count_sensors(m, sizes);
  sizes.nhistory = 0;
  for (int i = 0; i < m.nactuator; ++i) sizes.nhistory += remembered_controls(m, i);
  sizes.nunsymmetric = m.integrator == implicit ? m.nM : 0;
  sizes.nbiasbody = m.integrator == implicit ? 6 * m.nbody : 0;
  sizes.nvariedfriction = m.varied.friction_D >= 0 || m.varied.friction_loss >= 0 ? sizes.nfriction : 0;
  sizes.nvariedcontact = varies_friction(m) || m.varied.body_invweight0 >= 0 ? sizes.ncontact : 0;
  sizes.nrowdof = RowFamilies::any_rows(sizes) ? m.nv : 0;
  sizes.nnosliprow = m.noslip_iterations > 0 ? sizes.nfriction + (sizes.contactdim - 1) * sizes.ncontact : 0;
  const bool as_mujoco = sizes.as_mujoco && sizes.nrowdof > 0 && m.solver != solver_pgs;
  sizes.nsolvertree = as_mujoco ? trees_of_islands(m, sizes) : 0;
  sizes.ncgdof = as_mujoco && m.solver == solver_cg ? m.nv : 0;
  sizes.nnosliptree = sizes.nnosliprow == 0 ? 0 : trees_of_islands(m, sizes);
  // where rows that always act are many, the space of the dofs is the smaller one; and what there is to share
  // for a team is the dofs: row_solver.hpp knows nothing of teams
  if (m.solver != solver_newton || as_mujoco ||
      2 * (RowFamilies::rows_in_every_lane(sizes) + sizes.nequality) > m.nv || is_for_teams(m))
    sizes.nrowcontact = -1;
  size_solvers(m, sizes);
}

void size_solvers(const Model<double>& m, ModelSizes& sizes) {
  sizes.nrowblock = sizes.nspaceblock = sizes.ndualrow = 0;
  sizes.ndualtree = sizes.ndualorder = sizes.ndualsweep = 0;
  if (sizes.nrowdof == 0) return;
  if (sizes.nwide > 0)
    sizes.nwide = m.solver == solver_newton && sizes.nsolvertree == 0 ? wide_elements(sizes) : 0;
  const int single = (RowFamilies::most_single_rows(sizes) + 2) / 3;
  if (sizes.nrowcontact >= 0) sizes.nrowblock = sizes.nspaceblock = single + sizes.nrowcontact;
  if (m.solver != solver_pgs) return;
  sizes.nrowblock = single + sizes.ncontact;
  // whole registers, whatever the lane width
  sizes.ndualrow = (RowFamilies::most_rows(sizes) + 15) / 16 * 16;
  sizes.ndualtree = trees_of_islands(m, sizes);
  sizes.ndualorder = std::min(sizes.ndualrow, kOrderedRows);
  sizes.ndualsweep = std::min(m.iterations, kOrderedSweeps);
}

void derive_model(Model<double>& m, const DerivedFields& derived) {
  derive_bodies(m, derived);
  m.nlevel = derive_levels(m, derived);
  derive_joints(m, derived);
  derive_dofs(m, derived);
  derive_friction(m, derived);
  derive_limits(m, derived);
  derive_contacts(m, derived);
  derive_orders(m, derived);
  derive_actuators(m, derived);
  derive_tendons(m, derived);
  derive_equality(m, derived);
  derive_fluid(m, derived);
  derive_sensors(m, derived);
  for (int i = 0; i < m.nsite; ++i) matrix_of_quaternion(m.site_quat + 4 * i, derived.site_mat + 9 * i);
  m.flags = model_flags(m, derived);
  if (couple_dofs_of_rows(m, derived)) m.flags |= model_rows_couple;
  const bool holds = std::any_of(m.eq_type, m.eq_type + (m.nequality > 0 ? m.neq : 0),
                                 [](int type) { return type == equality_connect || type == equality_weld; });
  if (holds || (m.flags & (model_fluid | model_motion_sensors | model_tendon_armature)))
    for (int i = 0; i < m.nbody; ++i) derived.body_flags[i] &= ~body_leaf;
  m.meaninertia = 0;
  for (int i = 0; i < m.nv; ++i) m.meaninertia += m.dof_M0[i] / m.nv;
}

}  // namespace maniple
