// The robot as kernels see it: sizes, options and raw pointers into device memory, equal for all
// environments. MuJoCo's names, so that its documentation describes every member. Filled by
// src/model_import, which owns the memory.
#pragma once

#include "kernels/base/macros.hpp"
#include "kernels/model/model_fields.hpp"

namespace maniple {

// Robots of at most as many dofs are solved over all of them (dense_dofs.hpp), and stepped by one thread on
// a GPU, whose registers hold much of what they need. A team steps a larger one.
inline constexpr int kDenseDofs = 9;

// Numbers of a row of eq_data. Of a weld, which of them is its torquescale, and which is 1 where the compiler
// has computed the pose that it holds.
inline constexpr int kEqualityData = 12, kTorqueScale = 10, kComputedRelpose = 11;
// Numbers of geom_fluid of one geom.
inline constexpr int kGeomFluid = 12;

// Values of mjtIntegrator, mjtSolver, mjtCone, mjtJacobian, mjtGeom, mjtJoint, mjtEq, mjtObj, mjtWrap and
// mjtDisableBit that the kernels know; src/model_import checks them against mujoco.h.
enum Integrator : int { Euler = 0, RK4 = 1, implicit = 2, implicitfast = 3 };
enum SolverType : int { solver_pgs = 0, solver_cg = 1, solver_newton = 2 };
enum ConeType : int { cone_pyramidal = 0, cone_elliptic = 1 };
enum JacobianType : int { jacobian_dense = 0, jacobian_sparse = 1, jacobian_auto = 2 };
enum GeomType : int {
  geom_plane = 0,
  geom_hfield = 1,
  geom_sphere = 2,
  geom_capsule = 3,
  geom_ellipsoid = 4,
  geom_cylinder = 5,
  geom_box = 6,
  geom_mesh = 7
};
// Numbers of geom_size that a shape has; 0 of one whose size is given otherwise.
MANIPLE_FUNCTION constexpr int number_of_sizes(int type) {
  switch (type) {
    case geom_sphere:
      return 1;
    case geom_capsule:
    case geom_cylinder:
      return 2;
    case geom_ellipsoid:
    case geom_box:
    case geom_mesh:
      return 3;
    default:
      return 0;
  }
}
enum JointType : int { joint_free = 0, joint_ball = 1, joint_slide = 2, joint_hinge = 3 };
enum EqualityType : int { equality_connect = 0, equality_weld = 1, equality_joint = 2, equality_tendon = 3 };
enum ObjectType : int {
  object_unknown = 0,
  object_body = 1,
  object_xbody = 2,
  object_joint = 3,
  object_geom = 5,
  object_site = 6,
  object_camera = 7,
  object_tendon = 18
};
enum WrapType : int { wrap_joint = 1, wrap_pulley = 2, wrap_site = 3, wrap_sphere = 4, wrap_cylinder = 5 };
enum SensorDataType : int { data_real = 0, data_positive = 1, data_axis = 2, data_quaternion = 3 };

// mjtDisableBit.
enum DisableBit : int {
  disable_constraint = 1 << 0,
  disable_equality = 1 << 1,
  disable_frictionloss = 1 << 2,
  disable_limit = 1 << 3,
  disable_contact = 1 << 4,
  disable_spring = 1 << 5,
  disable_damper = 1 << 6,
  disable_gravity = 1 << 7,
  disable_clampctrl = 1 << 8,
  disable_warmstart = 1 << 9,
  disable_filterparent = 1 << 10,
  disable_actuation = 1 << 11,
  disable_refsafe = 1 << 12,
  disable_sensor = 1 << 13,
  disable_midphase = 1 << 14,
  disable_eulerdamp = 1 << 15,
  disable_autoreset = 1 << 16,
  disable_nativeccd = 1 << 17,
  disable_island = 1 << 18,
  disable_multiccd = 1 << 19,
};

// What of a body may be skipped.
enum BodyFlag : int {
  body_pos_zero = 1,        // body_pos is zero
  body_quat_identity = 2,   // body_quat is the identity
  body_ipos_zero = 4,       // center of mass at the origin of the body frame
  body_iquat_identity = 8,  // inertial frame parallel to the body frame
  body_massless = 16,       // neither mass nor inertia
  body_parent_static = 32,  // no dofs between the world and this body's own
  body_leaf = 64,           // has no children, and no fluid or sensor needs its velocity
  body_symmetric = 128,     // two principal inertias are equal
  body_isotropic = 256,     // all three are
  body_ellipsoids = 512,    // a fluid acts on some of its geoms, not on the box of its inertia
};

// What of a joint may be skipped.
enum JointFlag : int {
  joint_pos_zero = 1,  // jnt_pos is zero
  joint_sprung = 2,    // has a spring
  joint_axis_x = 4,    // jnt_axis is +x, +y or +z
  joint_axis_y = 8,
  joint_axis_z = 16,
  joint_spring_poly = 32,  // the spring is not linear
};

// What of a geom's pose the contacts need, and what of it may be skipped.
enum GeomFlag : int {
  geom_collides = 1,       // is in some geom pair
  geom_needs_axis = 2,     // its z axis decides where it touches
  geom_needs_frame = 4,    // all three axes do
  geom_pos_zero = 8,       // geom_pos is zero
  geom_quat_identity = 16  // geom_quat is the identity
};

// Which stages have anything to do for this model.
enum ModelFlag : int {
  model_springs = 1,                // some joint has a spring
  model_dampers = 2,                // some dof has damping
  model_damping_poly = 4,           // some dof has damping of higher order
  model_implicit_damping = 8,       // Euler treats damping implicitly
  model_gravcomp = 16,              // some body has gravity compensation
  model_actgravcomp = 32,           // some joint applies it through its actuators
  model_actfrclimited = 64,         // some joint limits its actuator force
  model_actuation = 128,            // there are actuators and they are not disabled
  model_sensors = 256,              // there are sensors and they are not disabled
  model_actuator_velocity = 512,    // some actuator force depends on velocity
  model_free_alone = 1024,          // some free joint is the only joint of its tree
  model_tendon_armature = 1 << 15,  // some tendon has armature
  model_fluid = 1 << 16,            // a fluid acts on the bodies
  model_tendon_springs = 1 << 17,
  model_tendon_dampers = 1 << 18,
  model_tendon_actfrclimited = 1 << 19,  // some tendon limits the total force of its actuators
  model_subtree_sensors = 1 << 20,       // some sensor reads the motion of a subtree
  model_force_sensors = 1 << 21,         // some sensor reads accelerations or forces of bodies
  model_motion_sensors = 1 << 22,        // some sensor reads velocities of bodies, directly or not
  model_slides_on_balls = 1 << 23,       // some body has a ball joint with slides after it
  model_rows_couple = 1 << 24,     // some tendon with rows joins dofs that are not ancestors of each other
  model_ends_early = 1 << 25,      // the solver may end before it has converged
  model_adhesion = 1 << 26,        // some actuator pulls at what touches its body
  model_sparse_rows = 1 << 27,     // MuJoCo's Jacobians of rows are sparse (mj_isSparse)
  model_ellipsoids = 1 << 28,      // a fluid acts on some geom as an ellipsoid
  model_motor_friction = 1 << 29,  // some DC motor has cogging or friction
};

// Where the list of the dofs after dof i begins that are coupled to it: at most nv - 1 - i of them.
MANIPLE_FUNCTION int below_address(int nv, int i) {
  return i * (nv - 1) - i * (i - 1) / 2;
}

// Where the values of a field begin in State::model_values; -1: the field is the same for all environments.
struct VariedOffsets {
#define MANIPLE_FIELD(name, ...) int name = -1;
  MANIPLE_VARYING_FIELDS(MANIPLE_FIELD)
  MANIPLE_CONSEQUENT_FIELDS(MANIPLE_FIELD)
#undef MANIPLE_FIELD
};

struct ModelSizes {
#define MANIPLE_SIZE(name, meaning) int name = 0;
  MANIPLE_ALL_SIZES(MANIPLE_SIZE)
#undef MANIPLE_SIZE
  VariedOffsets varied;
  bool as_mujoco = false;  // the primal solvers take MuJoCo's own iterations
  bool teams = false;  // a GPU steps each environment by a team of threads, where the model is large enough
};

// Whether environments have sliding friction of their own.
MANIPLE_FUNCTION bool varies_friction(const ModelSizes& sizes) {
  return sizes.varied.geom_friction >= 0 || sizes.varied.pair_friction >= 0;
}

// Whether numbers of the model that differ between environments say where geoms are and what they touch.
MANIPLE_FUNCTION bool varies_places(const ModelSizes& sizes) {
  const VariedOffsets& varied = sizes.varied;
  return varied.qpos0 >= 0 || varied.body_pos >= 0 || varied.body_quat >= 0 || varied.geom_pos >= 0 ||
         varied.geom_quat >= 0 || varied.geom_size >= 0;
}

// Whether a team of threads steps each environment of this model.
MANIPLE_FUNCTION bool is_for_teams(const ModelSizes& sizes) {
  return kScalarLanes && sizes.teams && sizes.nv > kDenseDofs && sizes.nsensorhistory == 0;
}

// T is float or double; integers are int in both.
template <class T>
struct Model : ModelSizes {
#define MANIPLE_INTEGER(name, meaning) int name = 0;
#define MANIPLE_REAL(name, meaning) T name = 0;
#define MANIPLE_VECTOR(name, length, meaning) T name[length] = {};
  MANIPLE_MODEL_OPTIONS(MANIPLE_INTEGER, MANIPLE_REAL, MANIPLE_VECTOR)
  MANIPLE_MODEL_DERIVED_OPTIONS(MANIPLE_INTEGER, MANIPLE_REAL)
#undef MANIPLE_INTEGER
#undef MANIPLE_REAL
#undef MANIPLE_VECTOR
#define MANIPLE_INTEGER(name, extent, meaning) const int* name = nullptr;
#define MANIPLE_REAL(name, extent, meaning) const T* name = nullptr;
  MANIPLE_MODEL_FIELDS(MANIPLE_INTEGER, MANIPLE_REAL)
  MANIPLE_MESH_FIELDS(MANIPLE_INTEGER, MANIPLE_REAL)
  MANIPLE_MODEL_DERIVED_FIELDS(MANIPLE_INTEGER, MANIPLE_REAL)
#undef MANIPLE_INTEGER
#undef MANIPLE_REAL
};

}  // namespace maniple
