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
constexpr const char* kG1 = "asset_zoo/robots/unitree_g1/xmls/g1.xml";

const std::vector<ModelCase>& contact_cases() {
  static const std::vector<ModelCase> cases = {
      {"contacts", "", "contacts.xml"},
      {"limits", "", "limits.xml"},
      {"tendon_limits", "", "tendon_limits.xml"},
      {"hopper", "gymnasium", "envs/mujoco/assets/hopper.xml"},
      {"walker2d", "gymnasium", "envs/mujoco/assets/walker2d.xml"},
      {"walker2d_v5", "gymnasium", "envs/mujoco/assets/walker2d_v5.xml"},
      {"half_cheetah", "gymnasium", "envs/mujoco/assets/half_cheetah.xml"},
      {"ant", "gymnasium", "envs/mujoco/assets/ant.xml"},
      {"point", "gymnasium", "envs/mujoco/assets/point.xml"},
      {"reacher", "gymnasium", "envs/mujoco/assets/reacher.xml"},
      {"dm_cartpole", "dm_control", "suite/cartpole.xml"},
      {"dm_pendulum", "dm_control", "suite/pendulum.xml"},
      {"dm_cheetah", "dm_control", "suite/cheetah.xml"},
      {"dm_hopper", "dm_control", "suite/hopper.xml"},
      {"dm_walker", "dm_control", "suite/walker.xml"},
      {"dm_humanoid", "dm_control", "suite/humanoid.xml"},
      {"g1", "mjlab", kG1, ModelCase::nothing, ModelCase::under_all},
      {"g1_feet", "mjlab", kG1, ModelCase::nothing, ModelCase::under_feet},
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
  const auto add_tendon = [&](Numbers& jacobian, int t, double factor) {
    for (int k = t < 0 ? 0 : m.ten_J_rowadr[t], end = t < 0 ? 0 : k + m.ten_J_rownnz[t]; k < end; ++k)
      jacobian[static_cast<std::size_t>(m.ten_J_colind[k])] +=
          factor * imported.ten_J[static_cast<std::size_t>(k)];
  };
  for (int r = 0; r < m.nfriction; ++r) {
    Numbers jacobian = zero;
    if (m.friction_dofid[r] >= 0) jacobian[static_cast<std::size_t>(m.friction_dofid[r])] = 1;
    add_tendon(jacobian, m.friction_tendonid[r], 1);
    const double D = imported.friction_D[static_cast<std::size_t>(r)];
    const double loss = imported.friction_loss[static_cast<std::size_t>(r)];
    double jar = 0, velocity = 0;
    for (std::size_t i = 0; i < jacobian.size(); ++i) {
      jar += jacobian[i] * at(d.qacc[static_cast<int>(i)]);
      velocity += jacobian[i] * qvel[i];
    }
    const double aref = -imported.friction_B[static_cast<std::size_t>(r)] * velocity;
    add(jacobian, D, aref, std::clamp(-D * (jar - aref), -loss, loss));
  }
  const int nlimit = static_cast<int>(at(d.nefc[0])) > 0 ? m.nlimit : 0;
  for (int r = 0; r < nlimit; ++r) {
    // rows that act in no lane are not even written
    const double D = at(d.limit_D[r]);
    if (!(D > 0)) continue;
    Numbers jacobian = zero;
    const auto dof = static_cast<std::size_t>(m.limit_dofid[r]);
    if (m.limit_tendonid[r] >= 0) {
      add_tendon(jacobian, m.limit_tendonid[r], m.limit_side[r]);
    } else if (m.limit_ballid[r] < 0) {
      jacobian[dof] = m.limit_side[r];
    } else {
      for (std::size_t k = 0; k < 3; ++k)
        jacobian[dof + k] = -at(d.limit_axis[3 * m.limit_ballid[r] + static_cast<int>(k)]);
    }
    add(jacobian, D, at(d.limit_aref[r]), std::max(0.0, -D * at(d.limit_jar[r])));
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
    double jar[3], aref[3];
    for (int k = 0; k < d.slot_dofnum[slot]; ++k)
      for (int row = 0; row < d.slot_rows[slot]; ++row)
        base[row][static_cast<std::size_t>(d.slot_dof[slot * m.nv + k])] =
            at(d.contact_J[3 * (slot * m.nv + k) + row]);
    for (int row = 0; row < 3; ++row) {
      jar[row] = at(d.contact_jar[3 * slot + row]);
      aref[row] = at(d.contact_aref[3 * slot + row]);
    }
    const bool frictionless = m.contactclass_condim[m.candidate_class[candidate]] == 1;
    if (frictionless) {
      add(base[0], 4 * D, aref[0], std::max(0.0, -4 * D * jar[0]));
      continue;
    }
    for (int edge = 0; edge < 4; ++edge) {
      const int row = edge < 2 ? 1 : 2, sign = edge % 2 == 0 ? 1 : -1;
      Numbers jacobian = base[0];
      for (std::size_t k = 0; k < jacobian.size(); ++k)
        jacobian[k] += sign * base[static_cast<std::size_t>(row)][k];
      add(jacobian, D, aref[0] + sign * aref[row], std::max(0.0, -D * (jar[0] + sign * jar[row])));
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
  void TearDown() override { oracle::remove_copy(GetParam(), config_); }
  // Both solvers run to convergence, not to where their stopping rules happen to differ.
  void converge() {
    mujoco_.model->opt.tolerance = imported_.tolerance = 1e-15;
    mujoco_.model->opt.ls_tolerance = imported_.ls_tolerance = 1e-10;
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
  if (mujoco_.model->ngeom > 3 && GetParam().name.find("limits") == std::string::npos &&
      GetParam().name != "reacher" && GetParam().name != "dm_cartpole" && GetParam().name != "dm_pendulum") {
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

// What the forces do to bodies and sensors.
TEST_P(Contacts, ForcesOnBodiesAndSensors) {
  using V = Lanes<double>;
  converge();
  const mjModel& m = *mujoco_.model;
  for_each_state<V>([&](mjData* d, const Data<V>& data, int lane, const RandomState&) {
    mj_rnePostConstraint(&m, d);
    const auto check = [&](const char* name, const DataField<V>& ours, const mjtNum* theirs,
                           std::int64_t count) {
      const double scale = 1 + largest({theirs, theirs + count}) + oracle::conditioning(m, d).acceleration;
      for (int i = 0; i < count; ++i)
        ASSERT_NEAR(get_lane(V(ours[i]), lane), theirs[i], 1e-9 * scale) << name << " " << i;
    };
    check("cfrc_ext", data.cfrc_ext, d->cfrc_ext, 6 * m.nbody);
    check("cfrc_int", data.cfrc_int, d->cfrc_int, 6 * m.nbody);
    check("sensordata", data.sensordata, d->sensordata, m.nsensordata);
  });
}

// At the model's own tolerance the cost is no worse than MuJoCo's.
TEST_P(Contacts, CostIsNoWorseThanMujocos) {
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

// One evaluation in single precision: the same rows act, and qacc is within 1e-4 in 99 of 100 states.
TEST_P(Contacts, SinglePrecision) {
  using V = Lanes<float>;
  converge();
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
  EXPECT_LT(errors[errors.size() * 99 / 100], 1e-4);
  EXPECT_LE(other_rows, kStates / 100);
  RecordProperty("median", std::to_string(errors[errors.size() / 2]));
}

INSTANTIATE_TEST_SUITE_P(Models, Contacts, ::testing::ValuesIn(contact_cases()),
                         [](const auto& model) { return model.param.name; });

}  // namespace
}  // namespace maniple
