// Environments with a model of their own each: steps in one batch against libmujoco's with one mjModel for
// each environment, whose fields are set to the same numbers before mj_setConst.
#include <gtest/gtest.h>

#include <cstddef>
#include <random>

#include "src/model_import/vary.hpp"
#include "tests/reference/batch_under_test.hpp"

namespace maniple {
namespace {

using ModelPointer = std::unique_ptr<mjModel, void (*)(mjModel*)>;

// The numbers of a field in mjModel, and how many of them a row has.
struct FieldOfMujoco {
  mjtNum* values;
  int row;
};
FieldOfMujoco field_of(mjModel& m, const std::string& name) {
  return std::map<std::string, FieldOfMujoco>{{"gravity", {m.opt.gravity, 3}},
                                              {"qpos0", {m.qpos0, 1}},
                                              {"body_pos", {m.body_pos, 3}},
                                              {"body_quat", {m.body_quat, 4}},
                                              {"body_mass", {m.body_mass, 1}},
                                              {"body_ipos", {m.body_ipos, 3}},
                                              {"body_inertia", {m.body_inertia, 3}},
                                              {"jnt_range", {m.jnt_range, 2}},
                                              {"jnt_stiffness", {m.jnt_stiffness, 1}},
                                              {"dof_damping", {m.dof_damping, 1}},
                                              {"dof_armature", {m.dof_armature, 1}},
                                              {"dof_frictionloss", {m.dof_frictionloss, 1}},
                                              {"geom_pos", {m.geom_pos, 3}},
                                              {"geom_quat", {m.geom_quat, 4}},
                                              {"geom_size", {m.geom_size, 3}},
                                              {"geom_friction", {m.geom_friction, 3}},
                                              {"site_pos", {m.site_pos, 3}},
                                              {"pair_friction", {m.pair_friction, 5}},
                                              {"actuator_gainprm", {m.actuator_gainprm, mjNGAIN}},
                                              {"actuator_biasprm", {m.actuator_biasprm, mjNBIAS}},
                                              {"actuator_forcerange", {m.actuator_forcerange, 2}}}
      .at(name);
}

// The radius of the sphere around a geom of these sizes, as the compiler computes it; 0: its sizes do not
// say.
double radius_of(int type, const mjtNum* size) {
  switch (type) {
    case mjGEOM_SPHERE:
      return size[0];
    case mjGEOM_CAPSULE:
      return size[0] + size[1];
    case mjGEOM_CYLINDER:
      return std::hypot(size[0], size[1]);
    case mjGEOM_ELLIPSOID:
      return std::max({size[0], size[1], size[2]});
    case mjGEOM_BOX:
      return std::hypot(size[0], size[1], size[2]);
    default:
      return 0;
  }
}

// Scales the meshes of a model to the sizes of their geoms; `m`: as they were compiled.
void scale_meshes(mjModel& own, const mjModel& m) {
  for (int g = 0; g < m.ngeom; ++g) {
    if (m.geom_type[g] != mjGEOM_MESH) continue;
    const int mesh = m.geom_dataid[g];
    const mjtNum *const size = own.geom_size + 3 * g, *const before = m.geom_size + 3 * g;
    const auto scale = [&](int k) { return size[k] / before[k]; };
    for (int k = 0; k < 3; ++k) {
      const auto scaled = [&](auto* to, const auto* from, int row, std::int64_t first, std::int64_t rows) {
        for (std::int64_t i = first; i < first + rows; ++i)
          to[row * i + k] = static_cast<std::remove_reference_t<decltype(*to)>>(from[row * i + k] * scale(k));
      };
      scaled(own.mesh_vert, m.mesh_vert, 3, m.mesh_vertadr[mesh], m.mesh_vertnum[mesh]);
      for (int half = 0; half < 2; ++half) {
        scaled(own.bvh_aabb + 3 * half, m.bvh_aabb + 3 * half, 6, m.mesh_bvhadr[mesh], m.mesh_bvhnum[mesh]);
        scaled(own.geom_aabb + 3 * half, m.geom_aabb + 3 * half, 6, g, 1);
      }
    }
    for (int i = m.mesh_polyadr[mesh]; i < m.mesh_polyadr[mesh] + m.mesh_polynum[mesh]; ++i) {
      mjtNum* const normal = own.mesh_polynormal + 3 * i;
      for (int k = 0; k < 3; ++k) normal[k] = m.mesh_polynormal[3 * i + k] / scale(k);
      mju_normalize3(normal);
    }
    own.geom_rbound[g] = m.geom_rbound[g] * std::max({scale(0), scale(1), scale(2)});
  }
}

// What libmujoco has computed from poses and sizes of geoms and sites and mj_setConst leaves as it is: which
// frames are those of bodies, and the spheres and boxes by which it finds pairs, boxes here so large that
// they hide none.
void forget_places(mjModel& m) {
  for (int g = 0; g < m.ngeom; ++g) {
    m.geom_sameframe[g] = mjSAMEFRAME_NONE;
    const double radius = radius_of(m.geom_type[g], m.geom_size + 3 * g);
    if (radius == 0) continue;
    m.geom_rbound[g] = radius;
    mju_zero(m.geom_aabb + 6 * g, 3);
    for (int k = 3; k < 6; ++k) m.geom_aabb[6 * g + k] = radius;
  }
  for (int i = 0; i < m.nsite; ++i) m.site_sameframe[i] = mjSAMEFRAME_NONE;
  for (int i = 0; i < m.nbvhstatic; ++i)
    for (int k = 3; k < 6; ++k) m.bvh_aabb[6 * i + k] += 1;
}

// Other values for a field of an environment: numbers of a row that vary, row by row.
Numbers drawn(const VaryingField& field, const mjModel& m, std::mt19937_64& generator) {
  const auto seed = static_cast<unsigned>(generator());
  std::uniform_real_distribution<double> uniform(0, 1);
  Numbers values = field.values;
  const auto scaled = [&](double x) { return x * (0.7 + 0.6 * uniform(generator)); };
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t row = i / static_cast<std::size_t>(field.row),
                      k = i % static_cast<std::size_t>(field.row);
    double& x = values[i];
    const auto scalar = [&](int joint) {
      return m.jnt_type[joint] == mjJNT_HINGE || m.jnt_type[joint] == mjJNT_SLIDE;
    };
    if (field.name == "gravity") {
      x += uniform(generator) - 0.5;
    } else if (field.name == "qpos0") {
      for (int j = 0; j < m.njnt; ++j)
        if (m.jnt_qposadr[j] == static_cast<int>(row) && scalar(j)) x += 0.2 * uniform(generator) - 0.1;
    } else if (field.name == "body_ipos") {
      // libmujoco refuses it where a body's rows of the inertia matrix are kept
      if (m.body_mass[row] > 0 && m.body_simple[row] == 0) x += 0.04 * uniform(generator) - 0.02;
    } else if (field.name == "geom_size") {
      const mjtNum *const size = field.values.data() + i - k,
                          other[3] = {k == 0 ? 1.0 : 0, k == 1 ? 1.0 : 0, k == 2 ? 1.0 : 0};
      // (halves, because libmujoco's vertices are floats; geoms of the same mesh alike)
      if (m.geom_type[row] == mjGEOM_MESH) {
        std::mt19937 of_mesh(static_cast<unsigned>(3 * m.geom_dataid[row]) + static_cast<unsigned>(k) + seed);
        if (of_mesh() % 3 == 0) x *= 0.5;
      }
      // where the shape has such a size
      if (size[k] > 0 && radius_of(m.geom_type[row], other) > 0) x *= 0.85 + 0.3 * uniform(generator);
    } else if (field.name == "body_pos" || field.name == "geom_pos" || field.name == "site_pos") {
      x += 0.04 * uniform(generator) - 0.02;
    } else if (field.name == "body_quat" || field.name == "geom_quat") {
      x += 0.2 * uniform(generator) - 0.1;
      if (k == 3) mju_normalize4(values.data() + i - k);
    } else if (field.name == "dof_frictionloss") {
      x = scaled(x) + (scalar(m.dof_jntid[row]) ? 0.05 * uniform(generator) : 0);
    } else if (field.name == "jnt_stiffness") {
      x = scaled(x) + 0.5 * uniform(generator);
    } else if (field.name == "dof_damping" || field.name == "dof_armature") {
      x = scaled(x) + 0.02 * uniform(generator);
    } else if (field.name == "geom_friction" || field.name == "pair_friction") {
      x = 0.2 + 1.2 * uniform(generator);
    } else if (field.name == "body_inertia") {
      x = k == 0 ? scaled(x) : x * values[i - k] / field.values[i - k];  // one factor for a body
      if (!(x == x)) x = field.values[i];
    } else {
      x = scaled(x);
    }
  }
  return values;
}

struct VariedCase {
  ModelCase model;
  std::vector<std::string> fields;  // none: all
};
void PrintTo(const VariedCase& varied, std::ostream* stream) {
  *stream << varied.model.name;
}

std::vector<VariedCase> varied_cases() {
  const ModelCase contacts{"contacts", "", "contacts.xml"}, tree{"tree", "", "tree.xml"};
  std::vector<VariedCase> cases = {
      {{"cartpole", "", "cartpole.xml"}, {}},
      {tree, {}},
      {{"free_bodies", "", "free_bodies.xml"}, {}},
      {{"actuators", "", "actuators.xml"}, {}},
      {{"flags", "", "flags.xml"}, {}},
      {{"more_flags", "", "more_flags.xml"}, {}},
      {{"limits", "", "limits.xml"}, {}},
      {{"tendons", "", "tendons.xml"}, {}},
      {{"tendon_limits", "", "tendon_limits.xml"}, {}},
      {{"spatial_tendons", "", "spatial_tendons.xml"}, {}},
      {{"muscles", "", "muscles.xml"}, {}},
      {{"pid", "", "pid.xml"}, {"body_mass", "dof_damping", "actuator_biasprm", "actuator_forcerange"}},
      {{"dcmotors", "", "dcmotors.xml"}, {"body_mass", "dof_damping", "actuator_forcerange"}},
      {{"site_actuators", "", "site_actuators.xml"}, {}},
      {{"fluid", "", "fluid.xml"}, {}},
      {{"ellipsoids", "", "ellipsoids.xml"},
       {"gravity", "body_pos", "body_mass", "body_inertia", "geom_pos", "geom_quat"}},
      {{"sensors", "", "sensors.xml"}, {}},
      {{"hand", "", "hand.xml"}, {}},
      {contacts, {}},
      {{"contacts_pgs", "", "contacts.xml", ModelCase::nothing, ModelCase::as_it_is, 1.5, true}, {}},
      {{"limits_pgs", "", "limits.xml", ModelCase::nothing, ModelCase::as_it_is, 1.5, true}, {}},
      {{"patches", "", "patches.xml"}, {}},
      {{"hopper", "gymnasium", "envs/mujoco/assets/hopper.xml"}, {}},
      {{"ant", "gymnasium", "envs/mujoco/assets/ant.xml"}, {}},
      {{"connects", "", "connects.xml"}, {"body_pos", "body_quat", "site_pos"}},
      {{"equality", "", "equality.xml"}, {}},
      {{"planar", "", "planar.xml"}, {}},
      {{"rangefinders", "", "rangefinders.xml"}, {}},
      {{"measures", "", "measures.xml"}, {}},
      {{"boxes", "", "boxes.xml"}, {}},
      {{"meshes", "", "meshes.xml"}, {"geom_size"}},
      {{"cones", "", "cones.xml"}, {}},
      {{"dm_humanoid", "dm_control", "suite/humanoid.xml"}, {}},
      {{"g1_feet", "mjlab", "asset_zoo/robots/unitree_g1/xmls/g1.xml", ModelCase::nothing,
        ModelCase::under_feet},
       {}},
  };
  // what says where geoms and sites are without poses of bodies that vary
  for (const char* const file : {"spatial_tendons", "site_actuators", "sensors", "equality", "measures"}) {
    cases.push_back({{std::string(file) + "_places", "", std::string(file) + ".xml"},
                     {"geom_pos", "geom_quat", "geom_size", "site_pos"}});
  }
  // each field alone, so that every combination with fields that do not vary is met
#define MANIPLE_FIELD(field, ...)            \
  for (ModelCase model : {contacts, tree}) { \
    model.name += std::string("_") + #field; \
    cases.push_back({model, {#field}});      \
  }
  MANIPLE_VARYING_FIELDS(MANIPLE_FIELD)
#undef MANIPLE_FIELD
  return cases;
}

class VariedModels : public ::testing::TestWithParam<VariedCase> {
 protected:
  void SetUp() override {
    mju_user_warning = [](const char*) {};
    config_ = oracle::config_of(GetParam().model);
    ASSERT_FALSE(config_.path.empty()) << "package " << GetParam().model.package << " is not installed";
  }
  void TearDown() override {
    mju_user_warning = nullptr;
    oracle::remove_copy(GetParam().model, config_);
  }

  void load(const std::string& integrator) {
    SimulationConfig simulation;
    simulation.integrator = choice_of<IntegratorChoice>(integrator).value();
    mujoco_ = load_mujoco_model(config_, simulation);
    imported_ = import_model(config_, simulation);
    mjModel& m = *mujoco_.model;
    m.opt.tolerance = imported_.tolerance = 1e-15;
    m.opt.ls_tolerance = imported_.ls_tolerance = 1e-10;
    // (MuJoCo judges by its cost, where rounding is all that is left long before a curved cone has converged)
    if (imported_.sizes.ncone > 0) m.opt.tolerance = 0;
    if (imported_.solver == solver_pgs) {
      m.opt.tolerance = imported_.tolerance = 0;
      m.opt.iterations = imported_.iterations = 4000;
    }
    static std::map<std::string, std::vector<RandomState>> visited;  // by file, whatever varies
    states_ = visited[GetParam().model.file];
    if (states_.empty()) {
      states_ = oracle::visited_states(m, kEnvs);
      for (unsigned env = 0; env < kEnvs; env += 3)
        if (imported_.sizes.ngeompair == 0) {
          states_[env] = oracle::random_state(m, 500 + env, GetParam().model.speed);
          // as mj_resetData leaves it; PGS begins there
          states_[env].qacc_warmstart.assign(static_cast<std::size_t>(m.nv), 0.0);
        }
      visited[GetParam().model.file] = states_;
    }

    std::vector<std::string> names = GetParam().fields;
    std::vector<VaryingField> all = varying_fields(imported_);
    std::erase_if(all, [](const VaryingField& field) { return field.name == "geom_rgba"; });  // no physics
    for (const VaryingField& field : all)
      if (GetParam().fields.empty()) names.push_back(field.name);
    vary_model(imported_, names, {});
    const ModelSizes& sizes = imported_.sizes;
    rows_.assign(kEnvs, imported_.model_values);
    models_.clear();
    std::mt19937_64 generator(5);
    for (std::size_t env = 0; env < kEnvs; ++env) {
      models_.emplace_back(mj_copyModel(nullptr, &m), mj_deleteModel);
      mjModel& own = *models_.back();
      for (const VaryingField& field : all) {
        const int offset = sizes.varied.*(field.offset);
        if (offset < 0) continue;
        const Numbers values = drawn(field, m, generator);
        const FieldOfMujoco to = field_of(own, field.name);
        for (std::size_t i = 0; i < values.size(); ++i) {
          const std::size_t row = static_cast<std::size_t>(field.row);
          to.values[i / row * static_cast<std::size_t>(to.row) + i % row] = values[i];
          rows_[env][static_cast<std::size_t>(offset) + i] = values[i];
        }
      }
      // what follows from them is written by set_const, wherever it is read
      for (std::size_t i = static_cast<std::size_t>(varied_elements(sizes)); i < rows_[env].size(); ++i)
        rows_[env][i] = std::numeric_limits<double>::quiet_NaN();
      if (varies_places(sizes) || sizes.varied.site_pos >= 0) forget_places(own);
      scale_meshes(own, m);
      mj_setConst(&own, oracle::make_data(own).get());
    }
    data_.reset(mj_makeData(&m));  // all of them have the same sizes
  }

  template <class V>
  Batch<V> batch() {
    Batch<V> result(imported_);
    result.set(states_);
    result.set_field("model_values", rows_);
    result.run_set_const();
    result.poison();
    return result;
  }
  // The numbers of a field of an environment.
  template <class V>
  Numbers own(const Batch<V>& batch, int offset, std::int64_t count, int env) const {
    const Numbers values = batch.state("model_values", env);
    return {values.begin() + offset, values.begin() + offset + count};
  }

  ModelConfig config_;
  MujocoModel mujoco_;
  ImportedModel imported_;
  std::vector<RandomState> states_;
  std::vector<Numbers> rows_;
  std::vector<ModelPointer> models_;
  oracle::DataPointer data_{nullptr, mj_deleteData};
};

TEST_P(VariedModels, HaveMujocosConstants) {
  load("implicitfast");
  const auto checked = batch<Lanes<double>>();
  const VariedOffsets& varied = imported_.sizes.varied;
  const mjModel& compiled = *mujoco_.model;
  for (int g = 0; g < compiled.ngeom; ++g)
    if (const double radius = radius_of(compiled.geom_type[g], compiled.geom_size + 3 * g); radius > 0)
      EXPECT_NEAR(radius, compiled.geom_rbound[g], 1e-14);
  for (int env = 0; env < kEnvs; ++env) {
    const mjModel& m = *models_[static_cast<std::size_t>(env)];
    EXPECT_EQ(checked.state("qpos", env), states_[static_cast<std::size_t>(env)].qpos);
    const auto check = [&](const char* name, int offset, const mjtNum* values, std::int64_t count) {
      if (offset < 0) return;
      const Numbers theirs(values, values + count), ours = own(checked, offset, count, env);
      for (std::size_t i = 0; i < ours.size(); ++i)
        ASSERT_NEAR(ours[i], theirs[i], 1e-10 * (std::abs(theirs[i]) + 1e-9 * largest(theirs)))
            << name << " " << i << " of environment " << env;
    };
    check("body_subtreemass", varied.body_subtreemass, m.body_subtreemass, m.nbody);
    check("body_invweight0", varied.body_invweight0, m.body_invweight0, 2 * m.nbody);
    check("dof_M0", varied.dof_M0, m.dof_M0, m.nv);
    check("geom_rbound", varied.geom_rbound, m.geom_rbound, m.ngeom);
    check("tendon_length0", varied.tendon_length0, m.tendon_length0, m.ntendon);
    if (varied.limit_invweight < 0) continue;
    for (int r = 0; r < imported_.sizes.nlimit; ++r) {
      const auto at = static_cast<std::size_t>(r);
      const int dof = imported_.limit_dofid[at];
      const double theirs =
          dof >= 0 ? m.dof_invweight0[dof] : m.tendon_invweight0[imported_.limit_tendonid[at]];
      EXPECT_NEAR(own(checked, varied.limit_invweight + r, 1, env)[0], theirs, 1e-10 * theirs);
    }
  }
}

TEST_P(VariedModels, Forward) {
  load("");
  const auto check = [&]<class V>(V) {
    auto ours = batch<V>();
    ours.run_forward();
    for (int env = 0; env < kEnvs && !HasFatalFailure(); ++env) {
      const mjModel& m = *models_[static_cast<std::size_t>(env)];
      mjData* const d = data_.get();
      oracle::set_state(m, d, states_[static_cast<std::size_t>(env)]);
      mj_forward(&m, d);
      const double acceleration = std::max(1.0, oracle::conditioning(m, d).acceleration);
      const auto theirs = oracle::fields_of(m, *d);
      for (const auto& [name, values] : ours.data(env)) {
        double scale = 1e-3 + largest(theirs.at(name));
        const bool of_forces = name == "qacc" || name == "qacc_smooth" || name == "qfrc_constraint" ||
                               name == "qfrc_inverse" || name.starts_with("cacc") ||
                               name.starts_with("cfrc") || name == "sensordata";
        if (of_forces) scale += acceleration * (1 + largest(theirs.at("crb")));
        if (name == "qM_factor" || name == "qLDiagInv") scale *= 1e3;  // by the pivots' conditioning
        ASSERT_LE(difference(values, theirs.at(name), scale), of_forces ? 1e-9 : 1e-11)
            << name << " of environment " << env << numbers_text(values, theirs.at(name));
      }
    }
  };
  check(double());
  check(Lanes<double>());
}

TEST_P(VariedModels, Step) {
  for (const char* integrator : {"Euler", "RK4", "implicit", "implicitfast"}) {
    SCOPED_TRACE(integrator);
    load(integrator);
    auto ours = batch<Lanes<double>>();
    for (const bool bad : ours.run_step()) EXPECT_FALSE(bad);
    for (int env = 0; env < kEnvs; ++env) {
      const mjModel& m = *models_[static_cast<std::size_t>(env)];
      mjData* const d = data_.get();
      oracle::set_state(m, d, states_[static_cast<std::size_t>(env)]);
      mj_forward(&m, d);
      const double acceleration = std::max(1.0, oracle::conditioning(m, d).acceleration);
      mj_step(&m, d);
      const Numbers qpos(d->qpos, d->qpos + m.nq), qvel(d->qvel, d->qvel + m.nv);
      const double velocity = 1 + largest(qvel) + 4 * m.opt.timestep * acceleration;
      ASSERT_LE(difference(ours.state("qvel", env), qvel, velocity), 1e-9)
          << "environment " << env << numbers_text(ours.state("qvel", env), qvel);
      ASSERT_LE(difference(ours.state("qpos", env), qpos, 1 + m.opt.timestep * velocity), 1e-10)
          << "environment " << env << numbers_text(ours.state("qpos", env), qpos);
      const Numbers values = ours.state("model_values", env);
      const Numbers& given = rows_[static_cast<std::size_t>(env)];
      for (int i = 0; i < varied_elements(imported_.sizes); ++i)
        ASSERT_EQ(values[static_cast<std::size_t>(i)], given[static_cast<std::size_t>(i)]);
    }
  }
}

// In single precision, as far as contacts and limits that are about to begin allow.
TEST_P(VariedModels, StepInSinglePrecision) {
  load("");
  auto ours = batch<Lanes<float>>();
  ours.run_step();
  double squares = 0, sum = 0;
  for (int env = 0; env < kEnvs; ++env) {
    const mjModel& m = *models_[static_cast<std::size_t>(env)];
    mjData* const d = data_.get();
    const RandomState& from = states_[static_cast<std::size_t>(env)];
    oracle::set_state(m, d, from);
    mj_step(&m, d);
    const Numbers qvel = ours.state("qvel", env);
    for (std::size_t i = 0; i < qvel.size(); ++i) {
      squares += (qvel[i] - d->qvel[i]) * (qvel[i] - d->qvel[i]);
      sum += (d->qvel[i] - from.qvel[i]) * (d->qvel[i] - from.qvel[i]);
    }
  }
  EXPECT_LE(std::sqrt(squares / sum), 0.02);
}

INSTANTIATE_TEST_SUITE_P(All, VariedModels, ::testing::ValuesIn(varied_cases()),
                         [](const auto& at) { return at.param.model.name; });

// A model of which nothing varies has no number more in its state, and the values of the model follow from
// nothing else: varying them without changing them gives the steps of before.
TEST(VariedModel, NothingIsAddedWhereNothingVaries) {
  const ModelConfig config = oracle::config_of({"contacts", "", "contacts.xml"});
  ImportedModel model = import_model(config, {});
  const int elements = state_elements(model.sizes);
  const std::int64_t scratch = data_elements(model.sizes);
  vary_model(model, {}, {});
  EXPECT_EQ(state_elements(model.sizes), elements);
  EXPECT_EQ(data_elements(model.sizes), scratch);
  EXPECT_EQ(model.sizes.nmodelvalue, 0);
}

}  // namespace
}  // namespace maniple
