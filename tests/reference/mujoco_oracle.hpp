// The oracle of the parity tests, libmujoco: random states of a model, and every field of MANIPLE_DATA_FIELDS
// after mj_forward. Nothing of the kernels' mathematics is used here.
#pragma once

#include <mujoco/mujoco.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "src/config/paths.hpp"
#include "src/model_import/mujoco_model.hpp"

namespace maniple::oracle {

using Numbers = std::vector<double>;
using DataPointer = std::unique_ptr<mjData, void (*)(mjData*)>;

inline DataPointer make_data(const mjModel& m) {
  return {mj_makeData(&m), mj_deleteData};
}

// A model under test and what of it is switched off.
struct ModelCase {
  std::string name;
  std::string package;  // "": the file is in tests/reference/models
  std::string file;     // inside the folder or the package
  enum Off { nothing, contacts, contacts_and_limits, constraints };
  Off off = nothing;  // constraints: contacts, limits, equality, friction loss, tendons
  // mjlab's g1 comes without a floor and motors: stands on all of its capsules, or on those of its feet alone
  enum Floor { as_it_is, under_all, under_feet };
  Floor floor = as_it_is;
  double speed = 1.5;       // scale of the random velocities
  bool dual = false;        // solver="PGS" whatever the file says
  std::string option = {};  // attributes of <option> that go before the file's
};

// For GoogleTest's messages.
inline void PrintTo(const ModelCase& model, std::ostream* stream) {
  *stream << model.name;
}

// Whether the model runs from a changed copy of its file.
inline bool is_changed(const ModelCase& model) {
  return model.floor != ModelCase::as_it_is || model.dual || !model.option.empty();
}

// The model's configuration; an empty path if its package is not installed.
inline ModelConfig config_of(const ModelCase& model) {
  namespace fs = std::filesystem;
  ModelConfig config;
  config.file = model.file;
  config.where = {"test", 0, 0};
  config.contacts = model.off == ModelCase::nothing;
  config.equality = config.frictionloss = config.tendons = model.off != ModelCase::constraints;
  config.limits = config.tendons && model.off != ModelCase::contacts_and_limits;
  fs::path folder = fs::path(MANIPLE_SOURCE_DIR) / "tests/reference/models";
  if (!model.package.empty()) {
    const std::string package = python_package_directory(model.package);
    if (package.empty()) return config;
    folder = package;
  }
  const fs::path path = folder / model.file;
  config.path = path.string();
  if (is_changed(model)) {
    std::ifstream stream(path);
    std::string text{std::istreambuf_iterator<char>(stream), {}};
    const auto insert = [&](const std::string& mark, bool after, const std::string& added) {
      text.insert(text.find(mark) + (after ? mark.size() : 0), added);
    };
    if (!model.option.empty()) text.insert(text.rfind("</mujoco>"), "<option " + model.option + "/>");
    if (model.dual) text.insert(text.rfind("</mujoco>"), "<option solver=\"PGS\"/>");
    if (model.floor != ModelCase::as_it_is) {
      insert("meshdir=\"", true, path.parent_path().string() + "/");
      insert("<worldbody>", true, "<geom type=\"plane\" size=\"0 0 1\"/>");
      if (model.floor == ModelCase::under_feet) {
        const std::string collide = "contype=\"1\" conaffinity=\"1\"";
        text.replace(text.find(collide), collide.size(), "contype=\"0\" conaffinity=\"0\"");
        insert("<geom type=\"capsule\" size=\"0.01\"", true,
               " conaffinity=\"1\" condim=\"3\" priority=\"1\" friction=\"0.6\"");
      }
      std::string motors = "<actuator>";
      for (std::size_t at = 0; (at = text.find("<joint name=\"", at)) != std::string::npos; ++at) {
        const std::size_t begin = at + 13;
        motors += "<motor gear=\"3\" joint=\"" + text.substr(begin, text.find('"', begin) - begin) + "\"/>";
      }
      insert("</mujoco>", false, motors + "</actuator>");
    }
    const fs::path copy =
        fs::temp_directory_path() / ("maniple_" + std::to_string(getpid()) + "_" + model.name + ".xml");
    std::ofstream(copy) << text;
    config.path = copy.string();
  }
  return config;
}

// Removes the file that config_of has written for a model that needs changes.
inline void remove_copy(const ModelCase& model, const ModelConfig& config) {
  if (is_changed(model) && !config.path.empty()) std::filesystem::remove(config.path);
}

// One environment's inputs: controls well beyond their ranges, quaternions not always of unit length.
struct RandomState {
  Numbers qpos, qvel, act, ctrl;
  Numbers qacc_warmstart;  // empty: none
  double time = 0;
  // empty: as the model begins
  Numbers eq_active = {}, mocap_pos = {}, mocap_quat = {};
};

// All numbers fit into a float, so that both precisions start from the same state.
inline RandomState random_state(const mjModel& m, unsigned seed, double speed) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal;
  auto number = [&](double scale) {
    return static_cast<double>(static_cast<float>(scale * normal(generator)));
  };
  RandomState state;
  state.qpos.assign(m.qpos0, m.qpos0 + m.nq);
  for (int j = 0; j < m.njnt; ++j) {
    double* q = state.qpos.data() + m.jnt_qposadr[j];
    if (m.jnt_type[j] == mjJNT_FREE)
      for (int k = 0; k < 3; ++k) q[k] += number(1);
    if (m.jnt_type[j] == mjJNT_FREE) q += 3;
    if (m.jnt_type[j] == mjJNT_FREE || m.jnt_type[j] == mjJNT_BALL) {
      double norm = 0;
      for (int k = 0; k < 4; ++k) {
        q[k] = number(1);
        norm += q[k] * q[k];
      }
      // MuJoCo normalizes where it reads, so states need not be normalized; most of these are.
      const double length = std::sqrt(norm) / (seed % 3 == 0 ? 1 + 0.2 * number(1) : 1);
      for (int k = 0; k < 4; ++k) q[k] /= length;
    } else {
      q[0] += number(m.jnt_type[j] == mjJNT_SLIDE ? 0.3 : 1.5);
    }
  }
  for (double& q : state.qpos) q = static_cast<double>(static_cast<float>(q));
  for (int i = 0; i < m.nv; ++i) state.qvel.push_back(number(speed));
  for (int i = 0; i < m.na; ++i) state.act.push_back(number(0.5));
  for (int i = 0; i < m.nu; ++i) state.ctrl.push_back(number(1));
  for (int i = 0; i < m.neq; ++i) state.eq_active.push_back(number(1) > -0.7 ? 1 : 0);
  for (int i = 0; i < 3 * m.nmocap; ++i) state.mocap_pos.push_back(number(0.5));
  for (int i = 0; i < 4 * m.nmocap; ++i) state.mocap_quat.push_back(number(1));
  state.time = static_cast<double>(static_cast<float>(0.01 * (seed % 100)));
  return state;
}

// The control of actuator i that lies this far, from 0 to 1, inside its range; [-1, 1] where it has none.
inline double control_at(const mjModel& m, int i, double share) {
  const double low = m.actuator_ctrllimited[i] ? m.actuator_ctrlrange[2 * i] : -1;
  const double high = m.actuator_ctrllimited[i] ? m.actuator_ctrlrange[2 * i + 1] : 1;
  return low + share * (high - low);
}

// States that random controls, held for five steps each, lead to: several of each of some rollouts that start
// near the model's default pose. All numbers fit into a float.
inline std::vector<RandomState> visited_states(const mjModel& m, int count) {
  constexpr int kPerRollout = 8;
  std::vector<RandomState> states;
  const DataPointer d = make_data(m);
  std::mt19937_64 generator(7);
  std::uniform_real_distribution<double> uniform(-1, 1);
  const auto rounded = [](const mjtNum* values, std::int64_t size) {
    Numbers result;
    for (std::int64_t i = 0; i < size; ++i)
      result.push_back(static_cast<double>(static_cast<float>(values[i])));
    return result;
  };
  while (static_cast<int>(states.size()) < count) {
    mj_resetData(&m, d.get());
    for (int j = 0; j < m.njnt; ++j)
      if (m.jnt_type[j] == mjJNT_SLIDE || m.jnt_type[j] == mjJNT_HINGE)
        d->qpos[m.jnt_qposadr[j]] += 0.05 * uniform(generator);
    for (int i = 0; i < m.nv; ++i) d->qvel[i] = 0.1 * uniform(generator);
    for (int sample = 0; sample < kPerRollout; ++sample) {
      for (int step = 0, steps = static_cast<int>(generator() % 120); step <= steps; ++step) {
        if (step % 5 == 0)
          for (int i = 0; i < m.nu; ++i)
            d->ctrl[i] =
                static_cast<double>(static_cast<float>(control_at(m, i, 0.5 * (1 + uniform(generator)))));
        mj_step(&m, d.get());
      }
      states.push_back({rounded(d->qpos, m.nq), rounded(d->qvel, m.nv), rounded(d->act, m.na),
                        rounded(d->ctrl, m.nu), rounded(d->qacc_warmstart, m.nv), 0});
      states.back().mocap_pos = rounded(d->mocap_pos, 3 * m.nmocap);
      states.back().mocap_quat = rounded(d->mocap_quat, 4 * m.nmocap);
    }
  }
  states.resize(static_cast<std::size_t>(count));
  return states;
}

inline void set_state(const mjModel& m, mjData* d, const RandomState& state) {
  mj_resetData(&m, d);
  std::copy(state.qpos.begin(), state.qpos.end(), d->qpos);
  std::copy(state.qvel.begin(), state.qvel.end(), d->qvel);
  std::copy(state.act.begin(), state.act.end(), d->act);
  std::copy(state.ctrl.begin(), state.ctrl.end(), d->ctrl);
  std::copy(state.qacc_warmstart.begin(), state.qacc_warmstart.end(), d->qacc_warmstart);
  std::copy(state.eq_active.begin(), state.eq_active.end(), d->eq_active);
  std::copy(state.mocap_pos.begin(), state.mocap_pos.end(), d->mocap_pos);
  std::copy(state.mocap_quat.begin(), state.mocap_quat.end(), d->mocap_quat);
  d->time = state.time;
}

// Rows of MuJoCo's sparse matrices of the dof tree, ancestor-packed: diagonal first, then the ancestors.
inline Numbers ancestor_packed(const mjModel& m, const mjtNum* sparse) {
  Numbers packed(static_cast<std::size_t>(m.nM), 0.0);
  for (int i = 0; i < m.nv; ++i) {
    int at = m.dof_Madr[i];
    for (int j = i; j >= 0; j = m.dof_parentid[j], ++at)
      for (int k = 0; k < m.M_rownnz[i]; ++k)
        if (m.M_colind[m.M_rowadr[i] + k] == j)
          packed[static_cast<std::size_t>(at)] = sparse[m.M_rowadr[i] + k];
  }
  return packed;
}

// The recursion that mj_rne keeps to itself, written out from its definition: cacc and cfrc_body for
// zero joint accelerations, in coordinates about the subtree's center of mass.
inline void newton_euler(const mjModel& m, const mjData& d, Numbers& cacc, Numbers& cfrc_body) {
  cacc.assign(static_cast<std::size_t>(6 * m.nbody), 0.0);
  cfrc_body = cacc;
  if (!(m.opt.disableflags & mjDSBL_GRAVITY))
    for (int k = 0; k < 3; ++k) cacc[static_cast<std::size_t>(3 + k)] = -m.opt.gravity[k];
  auto momentum = [](const double* inertia, const double* v, double* result) {
    // 10 numbers: symmetric inertia (xx yy zz xy xz yz), mass times offset, mass
    const double* h = inertia + 6;
    const double mass = inertia[9];
    const double rotation[9] = {inertia[0], inertia[3], inertia[4], inertia[3], inertia[1],
                                inertia[5], inertia[4], inertia[5], inertia[2]};
    double cross[3];
    mju_cross(cross, h, v + 3);
    for (int k = 0; k < 3; ++k)
      result[k] = rotation[3 * k] * v[0] + rotation[3 * k + 1] * v[1] + rotation[3 * k + 2] * v[2] + cross[k];
    mju_cross(cross, h, v);
    for (int k = 0; k < 3; ++k) result[3 + k] = mass * v[3 + k] - cross[k];
  };
  for (int i = 1; i < m.nbody; ++i) {
    double* a = cacc.data() + 6 * i;
    std::copy_n(cacc.data() + 6 * m.body_parentid[i], 6, a);
    for (int j = m.body_dofadr[i]; j < m.body_dofadr[i] + m.body_dofnum[i]; ++j)
      for (int k = 0; k < 6; ++k) a[k] += d.cdof_dot[6 * j + k] * d.qvel[j];
    double* f = cfrc_body.data() + 6 * i;
    const double* v = d.cvel + 6 * i;
    momentum(d.cinert + 10 * i, a, f);
    double p[6], cross[3];
    momentum(d.cinert + 10 * i, v, p);
    mju_cross(cross, v, p);
    for (int k = 0; k < 3; ++k) f[k] += cross[k];
    mju_cross(cross, v + 3, p + 3);
    for (int k = 0; k < 3; ++k) f[k] += cross[k];
    mju_cross(cross, v, p + 3);
    for (int k = 0; k < 3; ++k) f[3 + k] += cross[k];
  }
  for (int i = static_cast<int>(m.nbody) - 1; i > 0; --i)
    if (const int parent = m.body_parentid[i]; parent > 0)
      for (int k = 0; k < 6; ++k)
        cfrc_body[static_cast<std::size_t>(6 * parent + k)] += cfrc_body[static_cast<std::size_t>(6 * i + k)];
}

// Every field of MANIPLE_DATA_FIELDS by name, in Maniple's layout, of data after mj_forward. Has those
// computed that MuJoCo computes only when asked.
inline std::map<std::string, Numbers> fields_of(const mjModel& m, mjData& d) {
  std::map<std::string, Numbers> fields;
  const DataPointer inverse = make_data(m);  // (mj_inverse changes what it is given)
  mj_copyData(inverse.get(), &m, &d);
  mj_inverse(&m, inverse.get());
  fields["qfrc_inverse"].assign(inverse->qfrc_inverse, inverse->qfrc_inverse + m.nv);
  mj_subtreeVel(&m, &d);
  mj_rnePostConstraint(&m, &d);
  auto copy = [&](const char* name, const mjtNum* values, std::int64_t count) {
    fields[name].assign(values, values + count);
  };
#define MANIPLE_COPY(name, count) copy(#name, d.name, count)
  MANIPLE_COPY(xpos, 3 * m.nbody);
  MANIPLE_COPY(xquat, 4 * m.nbody);
  MANIPLE_COPY(xmat, 9 * m.nbody);
  MANIPLE_COPY(xipos, 3 * m.nbody);
  MANIPLE_COPY(ximat, 9 * m.nbody);
  MANIPLE_COPY(xanchor, 3 * m.njnt);
  MANIPLE_COPY(xaxis, 3 * m.njnt);
  MANIPLE_COPY(geom_xpos, 3 * m.ngeom);
  MANIPLE_COPY(geom_xmat, 9 * m.ngeom);
  MANIPLE_COPY(site_xpos, 3 * m.nsite);
  MANIPLE_COPY(site_xmat, 9 * m.nsite);
  MANIPLE_COPY(subtree_com, 3 * m.nbody);
  MANIPLE_COPY(cinert, 10 * m.nbody);
  MANIPLE_COPY(crb, 10 * m.nbody);
  MANIPLE_COPY(cdof, 6 * m.nv);
  MANIPLE_COPY(cvel, 6 * m.nbody);
  MANIPLE_COPY(cdof_dot, 6 * m.nv);
  MANIPLE_COPY(qLDiagInv, m.nv);
  MANIPLE_COPY(qfrc_spring, m.nv);
  MANIPLE_COPY(qfrc_damper, m.nv);
  MANIPLE_COPY(qfrc_gravcomp, m.nv);
  MANIPLE_COPY(qfrc_fluid, m.nv);
  MANIPLE_COPY(qfrc_passive, m.nv);
  MANIPLE_COPY(qfrc_bias, m.nv);
  MANIPLE_COPY(ten_length, m.ntendon);
  MANIPLE_COPY(ten_velocity, m.ntendon);
  MANIPLE_COPY(actuator_length, m.nout);
  MANIPLE_COPY(actuator_velocity, m.nout);
  MANIPLE_COPY(actuator_force, m.nout);
  MANIPLE_COPY(act_dot, m.na);
  MANIPLE_COPY(qfrc_actuator, m.nv);
  MANIPLE_COPY(qfrc_smooth, m.nv);
  MANIPLE_COPY(qacc_smooth, m.nv);
  MANIPLE_COPY(qfrc_constraint, m.nv);
  MANIPLE_COPY(qacc, m.nv);
  MANIPLE_COPY(subtree_linvel, 3 * m.nbody);
  MANIPLE_COPY(subtree_angmom, 3 * m.nbody);
  MANIPLE_COPY(cacc, 6 * m.nbody);
  MANIPLE_COPY(cfrc_int, 6 * m.nbody);
  MANIPLE_COPY(cfrc_ext, 6 * m.nbody);
  MANIPLE_COPY(sensordata, m.nsensordata);
#undef MANIPLE_COPY
  fields["ncon"] = {static_cast<double>(d.ncon)};
  fields["nefc"] = {static_cast<double>(d.nefc)};
  fields["qM"] = ancestor_packed(m, d.M);
  fields["qM_factor"] = ancestor_packed(m, d.qLD);
  newton_euler(m, d, fields["cacc_bias"], fields["cfrc_body"]);
  return fields;
}

// Rounding moves the results of solving M qacc = forces by more than a rounding of the results, however well
// they are computed. These are the sizes that a relative error of one in the inputs would have.
struct Conditioning {
  double acceleration = 0;  // rows of |M^-1| (|passive| + |bias| + |actuator| + |M| |qacc|)
  double pivot = 0;         // of 1/D: D is M's diagonal less what the descendants take, so M/D^2
  double factor = 0;        // of L: its rows are divided by D, so |L| M/D
};

// Of data after mj_forward.
inline Conditioning conditioning(const mjModel& m, mjData* d) {
  const int nv = static_cast<int>(m.nv);
  Conditioning result;
  Numbers forces(static_cast<std::size_t>(nv), 0.0);
  for (int i = 0; i < nv; ++i) {
    forces[static_cast<std::size_t>(i)] +=
        std::abs(d->qfrc_passive[i]) + std::abs(d->qfrc_bias[i]) + std::abs(d->qfrc_actuator[i]);
    const int first = m.M_rowadr[i], last = first + m.M_rownnz[i] - 1;
    const double growth = d->M[last] * d->qLDiagInv[i];
    result.pivot = std::max(result.pivot, growth * d->qLDiagInv[i]);
    for (int k = first; k <= last; ++k) {
      const int j = m.M_colind[k];
      forces[static_cast<std::size_t>(i)] += std::abs(d->M[k] * d->qacc[j]);
      if (k == last) continue;
      forces[static_cast<std::size_t>(j)] += std::abs(d->M[k] * d->qacc[i]);
      result.factor = std::max(result.factor, growth * std::abs(d->qLD[k]));
    }
  }
  Numbers unit(static_cast<std::size_t>(nv)), row(static_cast<std::size_t>(nv));
  for (int i = 0; i < nv; ++i) {
    std::fill(unit.begin(), unit.end(), 0.0);
    unit[static_cast<std::size_t>(i)] = 1;
    mj_solveM(&m, d, row.data(), unit.data(), 1);
    double sum = 0;
    for (std::size_t j = 0; j < row.size(); ++j) sum += std::abs(row[j]) * forces[j];
    result.acceleration = std::max(result.acceleration, sum);
  }
  return result;
}

}  // namespace maniple::oracle
