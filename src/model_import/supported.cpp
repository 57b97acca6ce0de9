// Features that the kernels do not simulate, and the elements of a model that need them. A model is refused
// as a whole and with all causes at once: a silent approximation would be worse, one cause at a time tedious.
#include <fmt/format.h>
#include <mujoco/mujoco.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/model/geom_pair_types.hpp"
#include "kernels/model/sensor_types.hpp"
#include "kernels/physics/sensor/rangefinder.hpp"
#include "kernels/physics/smooth/dcmotor.hpp"
#include "kernels/physics/smooth/pid.hpp"
#include "kernels/physics/smooth/transmission.hpp"
#include "src/model_import/geom_pairs.hpp"
#include "src/model_import/import.hpp"
#include "src/model_import/meshes.hpp"
#include "src/model_import/mujoco_model.hpp"
#include "src/model_import/refusals.hpp"
#include "src/model_import/urdf_words.hpp"

namespace maniple {
namespace {

// The kernels' own enumerations are MuJoCo's.
constexpr bool same(int ours, int theirs) {
  return ours == theirs;
}
static_assert(same(Euler, mjINT_EULER) && same(RK4, mjINT_RK4) && same(implicit, mjINT_IMPLICIT) &&
              same(implicitfast, mjINT_IMPLICITFAST));
static_assert(same(solver_pgs, mjSOL_PGS) && same(solver_cg, mjSOL_CG) && same(solver_newton, mjSOL_NEWTON));
static_assert(same(cone_pyramidal, mjCONE_PYRAMIDAL) && same(cone_elliptic, mjCONE_ELLIPTIC));
static_assert(same(jacobian_dense, mjJAC_DENSE) && same(jacobian_sparse, mjJAC_SPARSE) &&
              same(jacobian_auto, mjJAC_AUTO));
static_assert(same(geom_plane, mjGEOM_PLANE) && same(geom_hfield, mjGEOM_HFIELD) &&
              same(geom_sphere, mjGEOM_SPHERE) && same(geom_capsule, mjGEOM_CAPSULE) &&
              same(geom_ellipsoid, mjGEOM_ELLIPSOID) && same(geom_cylinder, mjGEOM_CYLINDER) &&
              same(geom_box, mjGEOM_BOX) && same(geom_mesh, mjGEOM_MESH));
static_assert(same(joint_free, mjJNT_FREE) && same(joint_ball, mjJNT_BALL) &&
              same(joint_slide, mjJNT_SLIDE) && same(joint_hinge, mjJNT_HINGE));
static_assert(same(equality_connect, mjEQ_CONNECT) && same(equality_weld, mjEQ_WELD) &&
              same(equality_joint, mjEQ_JOINT) && same(equality_tendon, mjEQ_TENDON) &&
              same(kEqualityData, mjNEQDATA));
static_assert(same(object_unknown, mjOBJ_UNKNOWN) && same(object_body, mjOBJ_BODY) &&
              same(object_xbody, mjOBJ_XBODY) && same(object_joint, mjOBJ_JOINT) &&
              same(object_geom, mjOBJ_GEOM) && same(object_site, mjOBJ_SITE) &&
              same(object_camera, mjOBJ_CAMERA) && same(object_tendon, mjOBJ_TENDON));
static_assert(same(wrap_joint, mjWRAP_JOINT) && same(wrap_pulley, mjWRAP_PULLEY) &&
              same(wrap_site, mjWRAP_SITE) && same(wrap_sphere, mjWRAP_SPHERE) &&
              same(wrap_cylinder, mjWRAP_CYLINDER));
#define MANIPLE_ROW(name, mujoco, value, object) static_assert(same(value, mjTRN_##mujoco));
MANIPLE_TRANSMISSION_TYPES(MANIPLE_ROW)
#undef MANIPLE_ROW
#define MANIPLE_ROW(name, mujoco, value) static_assert(same(value, mjDYN_##mujoco));
MANIPLE_DYNAMICS_TYPES(MANIPLE_ROW)
#undef MANIPLE_ROW
#define MANIPLE_ROW(name, mujoco, value, velocity) static_assert(same(value, mjGAIN_##mujoco));
MANIPLE_GAIN_TYPES(MANIPLE_ROW)
#undef MANIPLE_ROW
#define MANIPLE_ROW(name, mujoco, value, velocity) static_assert(same(value, mjBIAS_##mujoco));
MANIPLE_BIAS_TYPES(MANIPLE_ROW)
#undef MANIPLE_ROW
#define MANIPLE_ROW(name, mujoco, value, stage, size, needs) static_assert(same(value, mjSENS_##mujoco));
MANIPLE_SENSOR_TYPES(MANIPLE_ROW)
#undef MANIPLE_ROW
static_assert(same(static_cast<int>(SensorStage::position), mjSTAGE_POS) &&
              same(static_cast<int>(SensorStage::velocity), mjSTAGE_VEL) &&
              same(static_cast<int>(SensorStage::acceleration), mjSTAGE_ACC));
static_assert(same(ray_data_dist, 1 << mjRAYDATA_DIST) && same(ray_data_dir, 1 << mjRAYDATA_DIR) &&
              same(ray_data_origin, 1 << mjRAYDATA_ORIGIN) && same(ray_data_point, 1 << mjRAYDATA_POINT) &&
              same(ray_data_normal, 1 << mjRAYDATA_NORMAL) && same(ray_data_depth, 1 << mjRAYDATA_DEPTH) &&
              same(kSensorParameters, mjNSENS));
static_assert(same(data_real, mjDATATYPE_REAL) && same(data_positive, mjDATATYPE_POSITIVE) &&
              same(data_axis, mjDATATYPE_AXIS) && same(data_quaternion, mjDATATYPE_QUATERNION));
static_assert(same(disable_spring, mjDSBL_SPRING) && same(disable_damper, mjDSBL_DAMPER) &&
              same(disable_gravity, mjDSBL_GRAVITY) && same(disable_clampctrl, mjDSBL_CLAMPCTRL) &&
              same(disable_actuation, mjDSBL_ACTUATION) && same(disable_sensor, mjDSBL_SENSOR) &&
              same(disable_eulerdamp, mjDSBL_EULERDAMP) && same(disable_autoreset, mjDSBL_AUTORESET) &&
              same(disable_island, mjDSBL_ISLAND) && same(disable_constraint, mjDSBL_CONSTRAINT) &&
              same(disable_equality, mjDSBL_EQUALITY) && same(disable_limit, mjDSBL_LIMIT) &&
              same(disable_contact, mjDSBL_CONTACT) && same(disable_filterparent, mjDSBL_FILTERPARENT) &&
              same(disable_midphase, mjDSBL_MIDPHASE) && same(disable_frictionloss, mjDSBL_FRICTIONLOSS) &&
              same(disable_refsafe, mjDSBL_REFSAFE) && same(disable_warmstart, mjDSBL_WARMSTART));

// Name in MJCF of a sensor type that the kernels do not read.
const char* other_sensor_name(int type) {
  switch (type) {
#define MANIPLE_ROW(name, mujoco) \
  case mjSENS_##mujoco:           \
    return #name;
    MANIPLE_OTHER_SENSOR_TYPES(MANIPLE_ROW)
#undef MANIPLE_ROW
    default:
      return "unknown";
  }
}

std::string supported_sensors() {
  std::string names;
  for (const SensorTypeInfo& row : kSensorTypes) names += (names.empty() ? "" : ", ") + std::string(row.name);
  return "supported sensors: " + names +
         "; frames are those of bodies, geoms, sites and cameras that are fixed on bodies";
}

// Whether the kernels have a transmission.
bool has_transmission(int type) {
  switch (type) {
#define MANIPLE_ROW(name, mujoco, value, object) case mjTRN_##mujoco:
    MANIPLE_TRANSMISSION_TYPES(MANIPLE_ROW)
#undef MANIPLE_ROW
    return true;
    default:
      return false;
  }
}

// "" for dynamics that the kernels have, else what an actuator has that they lack.
const char* missing_dynamics(int type) {
  switch (type) {
#define MANIPLE_ROW(name, mujoco, value) case mjDYN_##mujoco:
    MANIPLE_DYNAMICS_TYPES(MANIPLE_ROW)
#undef MANIPLE_ROW
    return "";
#define MANIPLE_ROW(name, mujoco, gain, dynamics, velocity) case mjDYN_##mujoco:
    MANIPLE_CONTROLLER_TYPES(MANIPLE_ROW)
#undef MANIPLE_ROW
    return "";
#define MANIPLE_ROW(mujoco, what) \
  case mjDYN_##mujoco:            \
    return what;
    MANIPLE_OTHER_DYNAMICS_TYPES(MANIPLE_ROW)
#undef MANIPLE_ROW
    default:
      return "dynamics of another kind";
  }
}

// Gains and biases that the kernels have.
struct TypeName {
  int type;
  const char* name;
};
#define MANIPLE_ROW(name, mujoco, value, velocity) {value, #name},
#define MANIPLE_CONTROLLER(name, mujoco, gain, dynamics, velocity) {gain, #name},
constexpr TypeName kGains[] = {MANIPLE_GAIN_TYPES(MANIPLE_ROW) MANIPLE_CONTROLLER_TYPES(MANIPLE_CONTROLLER)};
constexpr TypeName kBiases[] = {MANIPLE_BIAS_TYPES(MANIPLE_ROW){bias_dcmotor, "dcmotor"}};
#undef MANIPLE_CONTROLLER
#undef MANIPLE_ROW

template <std::size_t kRows>
bool has(const TypeName (&rows)[kRows], int type) {
  return std::any_of(rows, rows + kRows, [&](const TypeName& row) { return row.type == type; });
}
template <std::size_t kRows>
std::string names(const TypeName (&rows)[kRows]) {
  std::string text;
  for (const TypeName& row : rows) text += (text.empty() ? "" : ", ") + std::string(row.name);
  return text;
}

bool any_nonzero(const mjtNum* values, int count) {
  return std::any_of(values, values + count, [](mjtNum value) { return value != 0; });
}

// A noun with its article.
std::string one(const std::string& noun) {
  return (std::string_view("aeiou").find(noun.front()) == std::string_view::npos ? "a " : "an ") + noun;
}

// Pairs of shapes that the kernels let touch, with `type` as one of them.
int supported_pairs_with(int type) {
  int count = 0;
  for (int other = 0; other < mjNGEOMTYPES; ++other)
    count += geom_pair_types(std::min(type, other), std::max(type, other)) >= 0 ? 1 : 0;
  return count;
}

// "a plane, a sphere and a box".
std::string list_of(const std::set<int>& types) {
  std::string text;
  for (auto type = types.begin(); type != types.end(); ++type) {
    if (type != types.begin()) text += std::next(type) == types.end() ? " and " : ", ";
    text += one(shape_name(*type));
  }
  return text;
}

constexpr const char* kRemoved = "remove=\"true\"";

// Collects the causes of one model.
class Inspection {
 public:
  explicit Inspection(MujocoModel& loaded)
      : loaded_(loaded),
        m_(*loaded.model),
        geom_pairs_(geom_pairs(m_, m_.opt.disableflags)),
        refusals_(loaded.source) {}

  Refusals run() {
    options();
    if (!off(mjDSBL_CONTACT)) contacts();
    height_fields();
    solver();
    equality();
    tendons();
    actuators();
    sensors();
    bodies();
    return std::move(refusals_);
  }

 private:
  bool off(int flag) const { return (m_.opt.disableflags & (flag | mjDSBL_CONSTRAINT)) != 0; }

  std::string name(mjtObj type, int id) const {
    const char* text = mj_id2name(&m_, type, id);
    return text == nullptr ? "" : text;
  }
  SourceLocation place(mjtObj type, int id) const {
    return loaded_.source.element(loaded_.spec.get(), type, id, name(type, id));
  }
  // "joint \"knee\"", or "joint number 3 (no name)" counted from 0 as MuJoCo does; of a URDF in its tags.
  std::string label(mjtObj type, int id) const {
    const std::string text = name(type, id);
    const std::string kind = mju_type2Str(type);
    if (const std::string tag = urdf_tag(kind); loaded_.source.is_urdf() && !tag.empty())
      return urdf_label(tag, text, loaded_.source.link_at(place(type, id).line));
    return text.empty() ? kind + " number " + std::to_string(id) + " (no name)" : kind + " \"" + text + "\"";
  }
  // "FILE:LINE: joint \"knee\"".
  std::string located(mjtObj type, int id) const { return place(type, id).text() + ": " + label(type, id); }
  // The name of elements of a type in the text of the model.
  std::string noun(mjtObj type) const {
    const std::string kind = mju_type2Str(type), tag = loaded_.source.is_urdf() ? urdf_tag(kind) : "";
    return tag.empty() ? kind : "<" + tag + ">";
  }
  // `key`: the deck key that switches such elements off, if there is one.
  Refusals::Group& element(mjtObj type, int id, const std::string& what, const char* key = nullptr) {
    Refusals::Group& group = refusals_.group(noun(type), what);
    group.elements.push_back(located(type, id));
    if (key != nullptr) group.key = std::string(key) + ": false";
    return group;
  }
  // The same, and an overlay settles it with `attributes` in the element of that tag.
  Refusals::Group& edited(mjtObj type, int id, const std::string& what, const std::string& tag,
                          const std::string& attributes, const char* key = nullptr) {
    Refusals::Group& group = element(type, id, what, key);
    refusals_.settled_by_edit(group, tag, attributes, name(type, id));
    return group;
  }
  void option(const char* tag, const char* attribute, const std::string& what) {
    refusals_.group("", what).elements.push_back(loaded_.source.attribute(tag, attribute).text() + ":");
  }

  void options() {
    if (m_.opt.integrator > mjINT_IMPLICITFAST)
      option("option", "integrator",
             "option integrator=\"discrete\" (simulation.integrator: Euler, RK4, implicit or implicitfast "
             "chooses another)");
    if (m_.opt.enableflags & mjENBL_SLEEP)
      option("flag", "sleep", "flag sleep=\"enable\" (simulation.disable: [sleep] switches it off)");
    if (m_.opt.enableflags & mjENBL_IPC)
      option("flag", "ipc", "flag ipc=\"enable\" (simulation.disable: [ipc] switches it off)");
  }

  void contacts() {
    if (geom_pairs_.empty()) return;
    bool convex = false;
    std::set<int> wide_meshes;
    for (const GeomPair& pair : geom_pairs_) {
      const int g1 = pair.geom1, g2 = pair.geom2, type1 = m_.geom_type[g1], type2 = m_.geom_type[g2];
      if (type2 >= mjNGEOMTYPES || mjCOLLISIONFUNC[type1][type2] == nullptr) continue;  // libmujoco has none
      if (geom_pair_types(type1, type2) < 0) {
        // the one whose shape touches fewer others is the cause
        const bool first = supported_pairs_with(type1) < supported_pairs_with(type2);
        shapes_[first ? type1 : type2].add(pair, first ? g1 : g2, first ? g2 : g1);
        continue;
      }
      convex = convex || geom_pair_types(type1, type2) >= kFirstConvexPairTypes;
      for (const int g : {g1, g2})
        if (m_.geom_type[g] == mjGEOM_MESH && most_face_corners(m_, m_.geom_dataid[g]) > kMostMeshFaceCorners)
          wide_meshes.insert(g);
      const int condim = condim_of(m_, pair);
      if (condim > 3 && m_.opt.solver == mjSOL_PGS) condims_[condim].add(pair, g1, g2);
    }
    for (const auto& [type, touching] : shapes_) {
      std::set<int> others;
      for (const auto& [geom, touched] : touching.geoms)
        for (const int other : touched) others.insert(m_.geom_type[other]);
      contact(touching, ": contacts of " + one(shape_name(type)) + " with " + list_of(others),
              [&](Refusals::Group& group, int geom, int) {
                refusals_.settled_by_edit(group, "geom", "contype=\"0\" conaffinity=\"0\"",
                                          name(mjOBJ_GEOM, geom));
              });
    }
    for (const auto& [condim, touching] : condims_)
      contact(touching,
              fmt::format(": contacts with condim {} in solver=\"PGS\"; supported: 1 and 3 "
                          "(simulation.solver: Newton has them all)",
                          condim),
              [&](Refusals::Group& group, int geom, int other) {
                for (const int of : {geom, other})
                  if (m_.geom_condim[of] > 3)
                    refusals_.settled_by_edit(group, "geom", "condim=\"3\"", name(mjOBJ_GEOM, of));
              });
    for (const int g : wide_meshes) {
      const int mesh = m_.geom_dataid[g];
      Refusals::Group& group =
          element(mjOBJ_GEOM, g,
                  fmt::format("has a mesh whose convex hull has a face of {} corners; supported: at most {}",
                              most_face_corners(m_, mesh), kMostMeshFaceCorners),
                  "model.contacts");
      refusals_.settled_by_edit(group, "mesh", fmt::format("maxhullvert=\"{}\"", kMostMeshFaceCorners),
                                name(mjOBJ_MESH, mesh));
    }
    if (convex && (m_.opt.disableflags & mjDSBL_NATIVECCD))
      option("flag", "nativeccd",
             "flag nativeccd=\"disable\" (simulation.enable: [nativeccd] switches it on)");
    if (convex && m_.opt.ccd_iterations > kMostEpaIterations)
      loaded_.warnings.push_back(fmt::format(
          "option ccd_iterations=\"{}\": the depth of overlapping shapes is found in {} iterations",
          m_.opt.ccd_iterations, kMostEpaIterations));
    if (m_.opt.cone == mjCONE_ELLIPTIC && m_.opt.solver == mjSOL_PGS)
      option("option", "cone",
             "option cone=\"elliptic\" with solver=\"PGS\" (simulation.solver: Newton has elliptic cones, "
             "simulation.cone: pyramidal replaces them)");
    if (m_.opt.enableflags & mjENBL_OVERRIDE)
      option("flag", "override", "flag override=\"enable\" (simulation.disable: [override] switches it off)");
    for (int i = 0; i < m_.ngeom; ++i) {
      if (m_.geom_adhesion[i] != 0) edited(mjOBJ_GEOM, i, "has adhesion", "geom", "adhesion=\"0\"");
      if (any_nonzero(m_.geom_surfacevel + 6 * i, 6))
        edited(mjOBJ_GEOM, i, "has a surface velocity", "geom", "surfacevel=\"0 0 0\"");
    }
    for (int i = 0; i < m_.npair; ++i)
      if (m_.pair_adhesion[i] != 0) edited(mjOBJ_PAIR, i, "has adhesion", "pair", "adhesion=\"0\"");
  }

  // Geoms with contacts of one cause, whatever the number of pairs: whom each may touch.
  struct Touching {
    std::map<int, std::vector<int>> geoms;
    std::vector<int> pairs;  // explicit ones among them

    void add(const GeomPair& pair, int geom, int other) {
      geoms[geom].push_back(other);
      if (pair.pair >= 0) pairs.push_back(pair.pair);
    }
  };
  template <class Settle>
  void contact(const Touching& touching, const std::string& what, const Settle& settle) {
    Refusals::Group& group = refusals_.group(noun(mjOBJ_GEOM), what);
    group.key = "model.contacts: false";
    group.edit_note = "for geoms whose contacts the task does not need";
    for (const auto& [geom, others] : touching.geoms) {
      std::string text = located(mjOBJ_GEOM, geom) + " may touch " + label(mjOBJ_GEOM, others[0]);
      if (others.size() > 1) text += " and " + std::to_string(others.size() - 1) + " more";
      group.elements.push_back(text);
      for (const int other : others) settle(group, geom, other);
    }
    for (const int pair : touching.pairs)
      refusals_.settled_by_edit(group, "pair", kRemoved, name(mjOBJ_PAIR, pair));
  }

  // Newton's method and CG have all rows, PGS has not.
  void solver() {
    const auto any_limited = [](const auto* limited, std::int64_t count) {
      return std::any_of(limited, limited + count, [](auto is_limited) { return is_limited != 0; });
    };
    const bool limits = !off(mjDSBL_LIMIT) &&
                        (any_limited(m_.jnt_limited, m_.njnt) || any_limited(m_.tendon_limited, m_.ntendon));
    const bool friction = !off(mjDSBL_FRICTIONLOSS) && (any_nonzero(m_.dof_frictionloss, m_.nv) ||
                                                        any_nonzero(m_.tendon_frictionloss, m_.ntendon));
    const bool contacts = !geom_pairs_.empty(), equality = !off(mjDSBL_EQUALITY) && m_.neq > 0;
    if (m_.opt.noslip_iterations > 0 && (friction || contacts) && m_.opt.solver == mjSOL_PGS)
      option("option", "noslip_iterations",
             "option noslip_iterations with solver=\"PGS\" (simulation.solver: Newton has them, "
             "simulation.noslip_iterations: 0 leaves them out)");
    if ((m_.opt.enableflags & mjENBL_DIAGEXACT) && (equality || limits || friction || contacts))
      option("flag", "diagexact",
             "flag diagexact=\"enable\" (simulation.disable: [diagexact] switches it off)");
  }

  void equality() {
    if (off(mjDSBL_EQUALITY)) return;
    for (int i = 0; i < m_.neq; ++i)
      if (m_.eq_type[i] > mjEQ_TENDON)
        element(mjOBJ_EQUALITY, i, "is a constraint of a flex", "model.equality");
  }

  // A cell of a height field takes two rows and two columns.
  void height_fields() {
    for (int i = 0; i < m_.ngeom; ++i) {
      if (m_.geom_type[i] != mjGEOM_HFIELD) continue;
      const int rows = m_.hfield_nrow[m_.geom_dataid[i]], columns = m_.hfield_ncol[m_.geom_dataid[i]];
      if (rows < 2 || columns < 2)
        element(
            mjOBJ_GEOM, i,
            fmt::format("has a height field with nrow=\"{}\" and ncol=\"{}\"; supported: at least 2 of each",
                        rows, columns));
    }
  }

  // All of tendons is supported.
  void tendons() {
    for (int i = 0; i < m_.ntendon; ++i)
      if (m_.wrap_type[m_.tendon_adr[i]] == mjWRAP_JOINT) warn_of_joints_listed_again(i);
  }

  // MuJoCo's lengths and forces have the sum of the coefficients of a joint that tendon i lists several
  // times; of several numbers for one dof, what it writes out densely (mju_sparse2dense) keeps the last, a
  // zero.
  void warn_of_joints_listed_again(int i) {
    const bool rows = (m_.tendon_limited[i] && !off(mjDSBL_LIMIT)) ||
                      (m_.tendon_frictionloss[i] != 0 && !off(mjDSBL_FRICTIONLOSS));
    if (!rows) return;
    std::map<int, std::vector<mjtNum>> coefs;  // by joint
    for (int w = m_.tendon_adr[i]; w < m_.tendon_adr[i] + m_.tendon_num[i]; ++w)
      coefs[m_.wrap_objid[w]].push_back(m_.wrap_prm[w]);
    std::string again, once;
    int count = 0;
    for (const auto& [joint, of_joint] : coefs) {
      if (of_joint.size() < 2) continue;
      const char* const separator = count++ == 0 ? "" : ", ";
      again += separator + label(mjOBJ_JOINT, joint);
      once += fmt::format("{}coef=\"{:.9g}\"", separator,
                          std::accumulate(of_joint.begin(), of_joint.end(), mjtNum{0}));
    }
    if (count == 0) return;
    const std::string them = count == 1 ? "it" : "them";
    const std::string effect =
        mj_isSparse(&m_)
            ? fmt::format(
                  "as in MuJoCo with sparse rows, tendon_invweight0 leaves {} out and is {:.3g}, so that "
                  "the tendon's limits and dry friction are too stiff",
                  them, m_.tendon_invweight0[i])
            : fmt::format("as in MuJoCo, the tendon's limits and dry friction leave {} out", them);
    loaded_.warnings.push_back(fmt::format("{} lists {} more than once: {}; write {} once, with {}",
                                           located(mjOBJ_TENDON, i), again, effect,
                                           count == 1 ? "it" : "each", once));
  }

  void actuators() {
    for (int i = 0; i < m_.nactuator; ++i) {
      auto bad = [&](const std::string& what) {
        Refusals::Group& group = element(mjOBJ_ACTUATOR, i, what);
        group.edit_note = "where the task does not need them";
        for (const char* tag : kActuatorTags)
          refusals_.settled_by_edit(group, tag, kRemoved, name(mjOBJ_ACTUATOR, i));
      };
      if (!has_transmission(m_.actuator_trntype[i])) bad("has a transmission of another kind");
      if (m_.actuator_plugin[i] >= 0) {
        bad("is a plugin");
        continue;
      }
      if (const std::string missing = missing_dynamics(m_.actuator_dyntype[i]); !missing.empty()) {
        bad("has " + missing);
      } else if (!has(kGains, m_.actuator_gaintype[i])) {
        bad("has a gain of another type; supported: " + names(kGains));
      } else if (!has(kBiases, m_.actuator_biastype[i])) {
        bad("has a bias of another type; supported: " + names(kBiases));
      } else if (const std::string mixed = mixed_types(i); !mixed.empty()) {
        bad(mixed);
      } else if (m_.actuator_outnum[i] != 1 || (!is_controller(i) && m_.actuator_ctrlnum[i] != 1) ||
                 m_.actuator_actnum[i] != activations(i)) {
        bad("has more controls, outputs or activations than its kind");
      } else if (m_.actuator_delay[i] < 0) {
        bad("has a negative delay");
      } else if (m_.actuator_ctrlnum[i] > 1 && m_.actuator_delay[i] > 0) {
        bad("has a delay and several controls; supported: delays of actuators with one control");
      }
    }
  }
  bool is_controller(int i) const {
    return m_.actuator_gaintype[i] == mjGAIN_PID || m_.actuator_gaintype[i] == mjGAIN_DCMOTOR;
  }
  // Dynamics, gain or bias of a PID servo or DC motor beside those of another kind; "": none.
  std::string mixed_types(int i) const {
    const int dynamics = m_.actuator_dyntype[i], gain = m_.actuator_gaintype[i],
              bias = m_.actuator_biastype[i];
    const bool motor = gain == mjGAIN_DCMOTOR, servo = gain == mjGAIN_PID;
    if ((dynamics == mjDYN_DCMOTOR) != motor || (bias == mjBIAS_DCMOTOR) != motor)
      return "mixes a DC motor's dynamics, gain and bias with others; supported: all three dcmotor, or none";
    if ((dynamics == mjDYN_PID && !servo) ||
        (servo && ((dynamics != mjDYN_PID && dynamics != mjDYN_NONE) || bias != mjBIAS_AFFINE)))
      return "mixes a PID servo's dynamics and gain with others; "
             "supported: dyntype pid or none, gaintype pid, biastype affine";
    return "";
  }
  // How many activations actuator i has by its parameters.
  int activations(int i) const {
    const mjtNum *dynprm = m_.actuator_dynprm + mjNDYN * i, *gainprm = m_.actuator_gainprm + mjNGAIN * i;
    if (m_.actuator_dyntype[i] == mjDYN_PID) return (dynprm[pid_slewmax] > 0) + (gainprm[pid_ki] > 0);
    if (m_.actuator_dyntype[i] == mjDYN_DCMOTOR)
      return (dynprm[motor_slewmax] > 0) + (gainprm[motor_ki] > 0) + (dynprm[motor_thermal_resistance] > 0) +
             (dynprm[motor_stiffness] > 0) + (dynprm[motor_timeconst] > 0);
    return m_.actuator_dyntype[i] != mjDYN_NONE;
  }
  static constexpr const char* kActuatorTags[] = {
      "general", "motor",    "position", "velocity", "intvelocity", "damper", "cylinder",
      "muscle",  "adhesion", "dcmotor",  "pid",      "orientation", "plugin"};

  bool moves_by_itself(int type, int id) const {
    return type == mjOBJ_CAMERA && id >= 0 && m_.cam_mode[id] != mjCAMLIGHT_FIXED;
  }

  // Shapes between which distances are known: those that touch, but for height fields.
  template <class Bad>
  void distance(int i, const Bad& bad) {
    std::set<int> types;
    for (const GeomRange& geoms : {geoms_of(m_, m_.sensor_objtype[i], m_.sensor_objid[i]),
                                   geoms_of(m_, m_.sensor_reftype[i], m_.sensor_refid[i])})
      types.insert(m_.geom_type + geoms.first, m_.geom_type + geoms.end);
    if (types.contains(mjGEOM_HFIELD) || types.contains(mjGEOM_SDF))
      bad("measures the distance of a height field or a signed distance field; supported: other shapes");
    else if (m_.opt.disableflags & mjDSBL_NATIVECCD)
      bad("measures a distance with flag nativeccd=\"disable\" (simulation.enable: [nativeccd] switches it "
          "on)");
  }

  // Shapes of sites that touch sensors read; libmujoco stops at any other.
  static bool is_touch_shape(int type) {
    return type == mjGEOM_SPHERE || type == mjGEOM_CAPSULE || type == mjGEOM_ELLIPSOID ||
           type == mjGEOM_CYLINDER || type == mjGEOM_BOX;
  }
  void sensors() {
    if (m_.opt.disableflags & mjDSBL_SENSOR) return;
    for (int i = 0; i < m_.nsensor; ++i) {
      const SensorTypeInfo* const row = sensor_type_info(m_.sensor_type[i]);
      auto bad = [&](const std::string& what) -> Refusals::Group& {
        const std::string tag = row == nullptr ? other_sensor_name(m_.sensor_type[i]) : row->name;
        Refusals::Group& group = edited(mjOBJ_SENSOR, i, what, tag, kRemoved);
        group.edit_note = "where the task does not need them";
        return group;
      };
      if (row == nullptr) {
        bad(std::string("is of type ") + other_sensor_name(m_.sensor_type[i])).hint = supported_sensors();
      } else if (row->size > 0 &&
                 (row->size != m_.sensor_dim[i] || static_cast<int>(row->stage) != m_.sensor_needstage[i])) {
        throw Error(std::string("libmujoco has another size or stage for sensors of type ") + row->name);
      } else if (moves_by_itself(m_.sensor_objtype[i], m_.sensor_objid[i]) ||
                 moves_by_itself(m_.sensor_reftype[i], m_.sensor_refid[i])) {
        bad("is of a camera that follows or aims at a body; supported: cameras with mode=\"fixed\"");
      } else if (m_.sensor_objtype[i] == mjOBJ_TENDON && m_.ntendon == 0) {
        bad("is of a tendon, and the deck says model.tendons: false");
      }
      if (row != nullptr && is_of_distance(row->type)) distance(i, bad);
      if (m_.sensor_type[i] == mjSENS_RANGEFINDER) {
        if (m_.sensor_objtype[i] == mjOBJ_CAMERA) bad("looks through a camera; supported: sites");
        if (m_.sensor_intprm[mjNSENS * i] & ~kRayData)
          bad("tells the normal where its ray ends; supported: dist, dir, origin, point and depth");
        for (int g = 0; g < m_.ngeom; ++g)
          if (m_.geom_type[g] == mjGEOM_SDF) {
            bad("would look at signed distance fields; supported: geoms of other shapes");
            break;
          }
      }
      if (m_.sensor_type[i] == mjSENS_TOUCH && !is_touch_shape(m_.site_type[m_.sensor_objid[i]]))
        bad("measures contacts of a site of type " + shape_name(m_.site_type[m_.sensor_objid[i]]) +
            "; supported: sphere, capsule, ellipsoid, cylinder and box");
      if (m_.sensor_delay[i] < 0) bad("has a negative delay");
    }
  }

  void bodies() {
    for (int i = 0; i < m_.nbody; ++i) {
      if (m_.body_plugin[i] >= 0) element(mjOBJ_BODY, i, "has a plugin");
    }
    for (int i = 0; i < m_.nflex; ++i) {
      Refusals::Group& group = edited(mjOBJ_FLEX, i, "is deformable", "flex", kRemoved);
      refusals_.settled_by_edit(group, "flexcomp", kRemoved, name(mjOBJ_FLEX, i));
    }
  }

  MujocoModel& loaded_;
  const mjModel& m_;
  const std::vector<GeomPair> geom_pairs_;
  std::map<int, Touching> shapes_, condims_;  // by the shape or condim that is the cause
  Refusals refusals_;
};

}  // namespace

void check_supported(MujocoModel& loaded, const ModelConfig& config) {
  const Refusals refusals = Inspection(loaded).run();
  if (refusals.empty()) return;
  throw InputError(config.where.text() + ": model.file: \"" + config.file +
                   "\" needs what this version does not simulate:" + refusals.text());
}

}  // namespace maniple
