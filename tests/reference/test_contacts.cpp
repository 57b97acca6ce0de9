// Contacts and constraint rows against libmujoco, at states that random controls lead to: contact points and
// rows one to one in MuJoCo's order, the solution of the solver, and its cost at the model's own tolerance.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/reference/batch_under_test.hpp"

namespace maniple {
namespace {

constexpr int kStates = 7 * kEnvs;

const std::vector<ModelCase>& contact_cases() {
  static const std::vector<ModelCase> cases = {
      {"contacts", "", "contacts.xml"},
      {"limits", "", "limits.xml"},
      {"hopper", "gymnasium", "envs/mujoco/assets/hopper.xml"},
      {"walker2d", "gymnasium", "envs/mujoco/assets/walker2d.xml"},
      {"walker2d_v5", "gymnasium", "envs/mujoco/assets/walker2d_v5.xml"},
      {"half_cheetah", "gymnasium", "envs/mujoco/assets/half_cheetah.xml"},
      {"ant", "gymnasium", "envs/mujoco/assets/ant.xml"},
      {"point", "gymnasium", "envs/mujoco/assets/point.xml"},
      {"reacher", "gymnasium", "envs/mujoco/assets/reacher.xml"},
      {"dm_cartpole", "dm_control", "suite/cartpole.xml"},
      {"dm_pendulum", "dm_control", "suite/pendulum.xml"},
      {"dm_cheetah", "dm_control", "suite/cheetah.xml", ModelCase::nothing, true},
      {"dm_hopper", "dm_control", "suite/hopper.xml", ModelCase::nothing, true},
      {"dm_walker", "dm_control", "suite/walker.xml", ModelCase::nothing, true},
      {"dm_humanoid", "dm_control", "suite/humanoid.xml", ModelCase::nothing, true},
      {"humanoid", "gymnasium", "envs/mujoco/assets/humanoid.xml"},
      {"humanoidstandup", "gymnasium", "envs/mujoco/assets/humanoidstandup.xml"},
      {"walker2d_pgs", "gymnasium", "envs/mujoco/assets/walker2d.xml", ModelCase::nothing, false, 1.5, true},
      {"contacts_pgs", "", "contacts.xml", ModelCase::nothing, false, 1.5, true},
      {"limits_pgs", "", "limits.xml", ModelCase::nothing, false, 1.5, true},
  };
  return cases;
}

// The contacts and rows of one environment, as MuJoCo lists them.
struct Rows {
  std::vector<int> geom1, geom2;  // [ncon]
  Numbers dist, pos, frame;       // [ncon], [ncon, 3], [ncon, 9]
  Numbers D, aref, J, force;      // [nefc], [nefc], [nefc, nv], [nefc]
};

template <class V>
Rows rows_of(const Model<ScalarOf<V>>& m, const ImportedModel& imported, const Data<V>& d,
             const Numbers& qvel, int lane) {
  const auto at = [lane](const V& value) { return static_cast<double>(get_lane(value, lane)); };
  Rows rows;
  const auto add = [&](const Numbers& jacobian, double D, double aref, double force) {
    rows.D.push_back(D);
    rows.aref.push_back(aref);
    rows.force.push_back(force);
    rows.J.insert(rows.J.end(), jacobian.begin(), jacobian.end());
  };
  const Numbers zero(static_cast<std::size_t>(m.nv), 0.0);
  for (int r = 0; r < m.nfriction; ++r) {
    const auto dof = static_cast<std::size_t>(m.friction_dofid[r]);
    Numbers jacobian = zero;
    jacobian[dof] = 1;
    const double D = imported.friction_D[static_cast<std::size_t>(r)];
    const double loss = imported.friction_loss[static_cast<std::size_t>(r)];
    const double aref = -imported.friction_B[static_cast<std::size_t>(r)] * qvel[dof];
    const double jar = at(d.qacc[static_cast<int>(dof)]) - aref;
    add(jacobian, D, aref, m.solver == solver_pgs ? at(d.row_force[r]) : std::clamp(-D * jar, -loss, loss));
  }
  const int nlimit = static_cast<int>(at(d.nefc[0])) > 0 ? m.nlimit : 0;
  for (int r = 0; r < nlimit; ++r) {
    // rows that act in no lane are not even written
    const double D = at(d.limit_D[r]);
    if (!(D > 0)) continue;
    Numbers jacobian = zero;
    const auto dof = static_cast<std::size_t>(m.jnt_dofadr[m.limit_jntid[r]]);
    if (m.limit_ballid[r] < 0) {
      jacobian[dof] = m.limit_side[r];
    } else {
      for (std::size_t k = 0; k < 3; ++k)
        jacobian[dof + k] = -at(d.limit_axis[3 * m.limit_ballid[r] + static_cast<int>(k)]);
    }
    add(jacobian, D, at(d.limit_aref[r]), at(limit_force(m, d, r)));
  }
  const int ncon = static_cast<int>(at(d.ncon[0]));
  for (int slot = 0; slot < ncon; ++slot) {
    const auto candidate = static_cast<int>(at(d.contact_candidate[slot]));
    rows.geom1.push_back(m.candidate_geom1[candidate]);
    rows.geom2.push_back(m.candidate_geom2[candidate]);
    rows.dist.push_back(at(d.contact_dist[slot]));
    for (int k = 0; k < 3; ++k) rows.pos.push_back(at(d.contact_pos[3 * slot + k]));
    const Vec3<V> normal = load3<V>(d.contact_frame, 6 * slot);
    Vec3<V> tangent = load3<V>(d.contact_frame, 6 * slot + 3), other;
    contact_tangents(normal, tangent, other);
    for (const Vec3<V>& axis : {normal, tangent, other})
      for (const V& component : {axis.x, axis.y, axis.z}) rows.frame.push_back(at(component));
    const double D = at(d.contact_D[slot]);
    if (D == 0) continue;
    Numbers base[3] = {zero, zero, zero};
    double aref[3];
    const Edges<V> force = edge_forces(m, d, slot);
    for (int k = 0; k < d.slot_dofnum[slot]; ++k)
      for (int row = 0; row < d.slot_rows[slot]; ++row)
        base[row][static_cast<std::size_t>(d.slot_dof[slot * m.nv + k])] =
            at(d.contact_J[3 * (slot * m.nv + k) + row]);
    for (int row = 0; row < 3; ++row) aref[row] = at(d.contact_aref[3 * slot + row]);
    const bool frictionless = m.contactclass_condim[m.candidate_class[candidate]] == 1;
    if (frictionless) {
      add(base[0], 4 * D, aref[0], 4 * at(force.value[0]));
      continue;
    }
    for (int edge = 0; edge < 4; ++edge) {
      const int row = edge < 2 ? 1 : 2, sign = edge % 2 == 0 ? 1 : -1;
      Numbers jacobian = base[0];
      for (std::size_t k = 0; k < jacobian.size(); ++k)
        jacobian[k] += sign * base[static_cast<std::size_t>(row)][k];
      add(jacobian, D, aref[0] + sign * aref[row], at(force.value[edge]));
    }
  }
  return rows;
}

Rows rows_of(const mjModel& m, mjData* d) {
  Rows rows;
  for (int i = 0; i < d->ncon; ++i) {
    const mjContact& contact = d->contact[i];
    rows.geom1.push_back(contact.geom[0]);
    rows.geom2.push_back(contact.geom[1]);
    rows.dist.push_back(contact.dist);
    rows.pos.insert(rows.pos.end(), contact.pos, contact.pos + 3);
    rows.frame.insert(rows.frame.end(), contact.frame, contact.frame + 9);
  }
  rows.D.assign(d->efc_D, d->efc_D + d->nefc);
  rows.aref.assign(d->efc_aref, d->efc_aref + d->nefc);
  rows.force.assign(d->efc_force, d->efc_force + d->nefc);
  Numbers unit(static_cast<std::size_t>(m.nv)), column(static_cast<std::size_t>(d->nefc));
  rows.J.resize(static_cast<std::size_t>(m.nv) * column.size());
  for (std::size_t j = 0; j < unit.size(); ++j) {
    std::fill(unit.begin(), unit.end(), 0.0);
    unit[j] = 1;
    mj_mulJacVec(&m, d, column.data(), unit.data());
    for (std::size_t i = 0; i < column.size(); ++i) rows.J[i * unit.size() + j] = column[i];
  }
  return rows;
}

class Contacts : public ::testing::TestWithParam<ModelCase> {
 protected:
  void SetUp() override {
    config_ = oracle::config_of(GetParam());
    if (config_.path.empty()) GTEST_SKIP() << "package " << GetParam().package << " is not installed";
    mujoco_ = load_mujoco_model(config_, {});
    imported_ = import_model(config_, {});
    if (GetParam().name == "point") {
      // its sphere touches the floor at a distance of zero give or take a rounding, which decides about
      // friction
      for (double* const pos : {mujoco_.model->geom_pos, imported_.geom_pos.data()}) pos[5] -= 1e-3;
    }
    static std::map<std::string, std::vector<RandomState>> visited;
    std::vector<RandomState>& states = visited[GetParam().name];
    if (states.empty()) states = oracle::visited_states(*mujoco_.model, kStates);
    states_ = states;
  }
  void TearDown() override {
    if ((GetParam().without_sensors || GetParam().dual) && !config_.path.empty())
      std::filesystem::remove(config_.path);
  }
  // Both solvers run to convergence, not to where their stopping rules happen to differ.
  void converge() {
    mujoco_.model->opt.tolerance = imported_.tolerance = 1e-15;
    mujoco_.model->opt.ls_tolerance = imported_.ls_tolerance = 1e-10;
    if (imported_.solver == solver_pgs) {
      mujoco_.model->opt.tolerance = imported_.tolerance = 0;
      mujoco_.model->opt.iterations = imported_.iterations = 4000;
    }
  }
  // Runs forward() on all states and calls check(data of libmujoco, pack's data, lane, state).
  template <class V, class Check>
  void for_each_state(const Check& check) {
    const mjModel& m = *mujoco_.model;
    const oracle::DataPointer d = oracle::make_data(m);
    Batch<V> batch(imported_);
    for (int first = 0; first < kStates; first += kEnvs) {
      batch.set({states_.begin() + first, states_.begin() + first + kEnvs});
      batch.run_forward();
      batch.for_each_data([&](const Data<V>& data, int pack) {
        for (int lane = 0; lane < lane_width<V> && !HasFatalFailure(); ++lane) {
          const int i = first + pack * lane_width<V> + lane;
          SCOPED_TRACE("state " + std::to_string(i));
          oracle::set_state(m, d.get(), states_[static_cast<std::size_t>(i)]);
          mj_forward(&m, d.get());
          check(d.get(), data, lane, states_[static_cast<std::size_t>(i)]);
        }
      });
    }
  }

  ModelConfig config_;
  MujocoModel mujoco_;
  ImportedModel imported_;
  std::vector<RandomState> states_;
};

TEST_P(Contacts, AreMujocosInOrder) {
  using V = Lanes<double>;
  converge();
  const Model<double> model = host_model(imported_);
  int contacts = 0;
  for_each_state<V>([&](mjData* d, const Data<V>& data, int lane, const RandomState& state) {
    const Rows ours = rows_of<V>(model, imported_, data, state.qvel, lane),
               theirs = rows_of(*mujoco_.model, d);
    ASSERT_EQ(ours.geom1, theirs.geom1);
    ASSERT_EQ(ours.geom2, theirs.geom2);
    for (std::size_t i = 0; i < ours.dist.size(); ++i)
      ASSERT_NEAR(ours.dist[i], theirs.dist[i], 1e-11)
          << "contact " << i << " of geoms " << ours.geom1[i] << " and " << ours.geom2[i];
    ASSERT_LE(difference(ours.pos, theirs.pos, 1 + largest(theirs.pos)), 1e-11);
    ASSERT_LE(difference(ours.frame, theirs.frame, 1), 1e-10);
    ASSERT_EQ(ours.D.size(), theirs.D.size());
    EXPECT_EQ(get_lane(V(data.nefc[0]), lane), d->nefc);
    EXPECT_EQ(get_lane(V(data.ncon[0]), lane), d->ncon);
    ASSERT_LE(difference(ours.J, theirs.J, 1 + largest(theirs.J)), 1e-11);
    for (std::size_t i = 0; i < ours.D.size(); ++i)
      ASSERT_NEAR(ours.D[i], theirs.D[i], 1e-9 * theirs.D[i]) << "D of row " << i;
    ASSERT_LE(difference(ours.aref, theirs.aref, 1 + largest(theirs.aref)), 1e-10);
    ASSERT_LE(difference(ours.force, theirs.force, 1 + largest(theirs.force)), 1e-8);
    contacts += d->ncon;
  });
  if (mujoco_.model->ngeom > 3 && GetParam().name.find("limits") != 0 && GetParam().name != "reacher" &&
      GetParam().name != "dm_cartpole" && GetParam().name != "dm_pendulum") {
    EXPECT_GT(contacts, kStates / 4) << "hardly any contacts in these states";
  }
}

TEST_P(Contacts, SolutionOfTheSolver) {
  using V = Lanes<double>;
  converge();
  for_each_state<V>([&](mjData* d, const Data<V>& data, int lane, const RandomState&) {
    const double scale = 1 + std::max(oracle::conditioning(*mujoco_.model, d).acceleration, 1.0);
    for (int i = 0; i < mujoco_.model->nv; ++i) {
      ASSERT_NEAR(get_lane(V(data.qacc[i]), lane), d->qacc[i], 1e-9 * scale) << "qacc " << i;
      ASSERT_NEAR(get_lane(V(data.qfrc_constraint[i]), lane), d->qfrc_constraint[i],
                  1e-9 * (1 + largest({d->qfrc_constraint, d->qfrc_constraint + mujoco_.model->nv})))
          << "qfrc_constraint " << i;
    }
  });
}

// At the model's own tolerance the cost is no worse than MuJoCo's.
TEST_P(Contacts, CostIsNoWorseThanMujocos) {
  if (imported_.solver == solver_pgs) GTEST_SKIP() << "its iterates are compared";
  using V = Lanes<double>;
  const mjModel& m = *mujoco_.model;
  for_each_state<V>([&](mjData* d, const Data<V>& data, int lane, const RandomState&) {
    const auto cost = [&](const Numbers& qacc) {
      Numbers jar(static_cast<std::size_t>(d->nefc)), Ma(qacc.size());
      mj_mulJacVec(&m, d, jar.data(), qacc.data());
      for (std::size_t i = 0; i < jar.size(); ++i) jar[i] -= d->efc_aref[i];
      mjtNum result;
      mj_constraintUpdate(&m, d, jar.data(), &result, 0);
      mj_mulM(&m, d, Ma.data(), qacc.data());
      for (std::size_t i = 0; i < qacc.size(); ++i)
        result += 0.5 * (Ma[i] - d->qfrc_smooth[i]) * (qacc[i] - d->qacc_smooth[i]);
      return result;
    };
    if (d->nefc == 0) return;
    const Numbers theirs(d->qacc, d->qacc + m.nv);
    Numbers ours;
    for (int i = 0; i < m.nv; ++i) ours.push_back(get_lane(V(data.qacc[i]), lane));
    const double best = cost(theirs);
    ASSERT_LE(cost(ours) - best,
              m.opt.tolerance * m.stat.meaninertia * static_cast<double>(m.nv) + 1e-12 * std::abs(best));
  });
}

// MuJoCo's dual solver mostly ends before it has converged, so that its results are those of every one of its
// steps: row by row, sweep by sweep, at the model's own settings in the end.
TEST_P(Contacts, IteratesOfTheDualSolver) {
  if (imported_.solver != solver_pgs) GTEST_SKIP() << "the model asks for another solver";
  using V = Lanes<double>;
  const mjModel& m = *mujoco_.model;
  const Model<double> model = host_model(imported_);
  // islands are solved one by one, which ours are not
  if (m.ntree > 1) mujoco_.model->opt.disableflags |= mjDSBL_ISLAND;
  const int own = m.opt.iterations, listed = imported_.sizes.ndualorder;
  const double tolerance = m.opt.tolerance;
  int sweeps = 0;
  // at last: beyond the orders that the model lists, and without them
  for (const int iterations : {1, 2, 7, own, imported_.sizes.ndualsweep + 8, 9}) {
    SCOPED_TRACE(std::to_string(iterations) + " sweeps");
    const bool beyond = iterations > own;
    imported_.sizes.ndualorder = iterations == 9 ? 0 : listed;
    mujoco_.model->opt.iterations = imported_.iterations = iterations;
    mujoco_.model->opt.tolerance = imported_.tolerance = beyond ? 0 : tolerance;
    for_each_state<V>([&](mjData* d, const Data<V>& data, int lane, const RandomState& state) {
      const Rows ours = rows_of<V>(model, imported_, data, state.qvel, lane), theirs = rows_of(m, d);
      ASSERT_LE(difference(ours.force, theirs.force, 1 + largest(theirs.force)), 1e-10);
      Numbers qacc;
      for (int i = 0; i < m.nv; ++i) qacc.push_back(get_lane(V(data.qacc[i]), lane));
      const Numbers expected(d->qacc, d->qacc + m.nv);
      ASSERT_LE(difference(qacc, expected, 1e-3 + largest(expected)), 1e-10);
      sweeps = std::max(sweeps, static_cast<int>(d->solver_niter[0]));
    });
  }
  EXPECT_GT(sweeps, 10);
}

// What is in the other lanes of a pack, and in which of them an environment is, changes no bit of it.
template <class V>
void check_neighbours(const ImportedModel& imported, std::vector<RandomState> states) {
  Batch<V> batch(imported), turned(imported);
  batch.set(states);
  batch.run_forward();
  std::reverse(states.begin(), states.end());
  turned.set(states);
  turned.run_forward();
  for (int env = 0; env < kEnvs; ++env) {
    const auto ours = batch.data(env), other = turned.data(kEnvs - 1 - env);
    for (const char* name : {"qacc", "qfrc_constraint", "nefc"})
      EXPECT_EQ(difference(ours.at(name), other.at(name), 1), 0) << name << " of environment " << env;
  }
}
TEST_P(Contacts, NeighboursChangeNothing) {
  for (int first = 0; first < kStates; first += 3 * kEnvs) {
    const std::vector<RandomState> states(states_.begin() + first, states_.begin() + first + kEnvs);
    check_neighbours<Lanes<double>>(imported_, states);
    check_neighbours<Lanes<float>>(imported_, states);
  }
}

// One evaluation in single precision: the same rows act, and qacc is within 1e-4 in 99 of 100 states.
// Newton's method runs to convergence, the dual solver at the model's own settings.
TEST_P(Contacts, SinglePrecision) {
  using V = Lanes<float>;
  if (imported_.solver != solver_pgs) converge();
  if (mujoco_.model->ntree > 1) mujoco_.model->opt.disableflags |= mjDSBL_ISLAND;
  std::vector<double> errors;
  int other_rows = 0;
  for_each_state<V>([&](mjData* d, const Data<V>& data, int lane, const RandomState&) {
    const double scale = 1e-3 + largest({d->qacc, d->qacc + mujoco_.model->nv});
    double error = 0;
    for (int i = 0; i < mujoco_.model->nv; ++i)
      error = std::max(error,
                       std::abs(static_cast<double>(get_lane(V(data.qacc[i]), lane)) - d->qacc[i]) / scale);
    errors.push_back(std::isfinite(error) ? error : 1e30);
    other_rows += static_cast<int>(get_lane(V(data.nefc[0]), lane)) != d->nefc;
  });
  std::sort(errors.begin(), errors.end());
  // a heap that the dual solver leaves far from converged keeps more of the roundings on its way
  EXPECT_LT(errors[errors.size() * 99 / 100], GetParam().dual && mujoco_.model->ntree > 1 ? 4e-4 : 1e-4);
  EXPECT_LE(other_rows, kStates / 100);
  RecordProperty("median", std::to_string(errors[errors.size() / 2]));
}

// Whole trajectories of models that are stepped with the dual solver, with controls that change every few
// steps. Contacts make them chaotic: MuJoCo itself says how far apart two of them may be, by starts that
// differ in the last bit.
class DualTrajectory : public Contacts {};
TEST_P(DualTrajectory, StaysWithMujocos) {
  const mjModel& m = *mujoco_.model;
  using V = Lanes<double>;
  const std::vector<RandomState> starts(states_.begin(), states_.begin() + kEnvs);
  Batch<V> batch(imported_);
  batch.set(starts);
  std::vector<oracle::DataPointer> data, moved[3];
  std::mt19937_64 generator(11);
  std::uniform_real_distribution<double> uniform(-1, 1);
  for (const RandomState& start : starts) {
    data.push_back(oracle::make_data(m));
    oracle::set_state(m, data.back().get(), start);
    for (auto& others : moved) {
      others.push_back(oracle::make_data(m));
      oracle::set_state(m, others.back().get(), start);
      for (int i = 0; i < m.nq; ++i) others.back()->qpos[i] *= 1 + 1e-15 * uniform(generator);
      for (int i = 0; i < m.nv; ++i) others.back()->qvel[i] *= 1 + 1e-15 * uniform(generator);
    }
  }
  for (int step = 0; step < 100; ++step) {
    for (std::size_t env = 0; env < starts.size() && step % 5 == 0; ++env)
      for (int i = 0; i < m.nu; ++i) {
        const double low = m.actuator_ctrlrange[2 * i], high = m.actuator_ctrlrange[2 * i + 1];
        const double control = low + 0.5 * (1 + uniform(generator)) * (high - low);
        data[env]->ctrl[i] = control;
        for (auto& others : moved) others[env]->ctrl[i] = control;
        batch.set_state_value("ctrl", i, static_cast<int>(env), control);
      }
    batch.poison();
    batch.run_step();
    for (std::size_t env = 0; env < starts.size(); ++env) {
      mj_step(&m, data[env].get());
      for (auto& others : moved) mj_step(&m, others[env].get());
    }
  }
  Numbers errors, spreads;
  for (std::size_t env = 0; env < starts.size(); ++env) {
    const Numbers qpos(data[env]->qpos, data[env]->qpos + m.nq);
    errors.push_back(difference(batch.state("qpos", static_cast<int>(env)), qpos, 1));
    double spread = 1e-13;
    for (auto& others : moved)
      spread = std::max(spread, difference({others[env]->qpos, others[env]->qpos + m.nq}, qpos, 1));
    spreads.push_back(spread);
    EXPECT_LE(errors.back(), 10 * spread) << "environment " << env;
  }
}
INSTANTIATE_TEST_SUITE_P(
    Models, DualTrajectory,
    ::testing::Values(ModelCase{"humanoid", "gymnasium", "envs/mujoco/assets/humanoid.xml"},
                      ModelCase{"humanoidstandup", "gymnasium", "envs/mujoco/assets/humanoidstandup.xml"}),
    [](const auto& model) { return model.param.name; });

INSTANTIATE_TEST_SUITE_P(Models, Contacts, ::testing::ValuesIn(contact_cases()),
                         [](const auto& model) { return model.param.name; });

}  // namespace
}  // namespace maniple
