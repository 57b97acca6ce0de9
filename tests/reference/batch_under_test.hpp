// One tile of environments of a model in the kernels' hands, for the comparisons with libmujoco: states go
// in, everything else is poisoned with NaN, one stage or step runs, numbers come out.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "kernels/model/field_info.hpp"
#include "kernels/physics/constraint/row_families.hpp"
#include "src/model_import/import.hpp"
#include "src/tasks/compile/device_model.hpp"
#include "tests/reference/mujoco_oracle.hpp"

namespace maniple {

using oracle::ModelCase;
using oracle::Numbers;
using oracle::RandomState;

inline constexpr int kEnvs = kTileWidth;  // one tile: several packs of each lane width

// The launches of Batch on the states and the scratch of its tile, compiled once for all tests, in
// batch_launches.cpp: on a GPU each brings the whole physics along.
template <class V>
void launch_forward(const Model<ScalarOf<V>>& model, ScalarOf<V>* states, ScalarOf<V>* scratch, bool inverse);
template <class V>
void launch_kinematics(const Model<ScalarOf<V>>& model, ScalarOf<V>* states, ScalarOf<V>* scratch);
template <class V>
void launch_set_const(const Model<ScalarOf<V>>& model, ScalarOf<V>* states, ScalarOf<V>* scratch);
// bad: one flag for each environment
template <class V>
void launch_step(const Model<ScalarOf<V>>& model, ScalarOf<V>* states, ScalarOf<V>* scratch, bool all_fields,
                 int* bad);

// One tile of environments of one model in lanes V, in device memory.
template <class V>
class Batch {
 public:
  using S = ScalarOf<V>;
  static constexpr int kPacks = kEnvs / lane_width<V>;

  explicit Batch(const ImportedModel& imported)
      : device_(imported),
        model_(device_.model()),
        elements_(data_elements(model_)),
        state_("state", static_cast<std::size_t>(state_elements(model_)) * kEnvs),
        scratch_("scratch", static_cast<std::size_t>(elements_) * kEnvs) {
    defaults_[0].assign(imported.eq_active0.begin(), imported.eq_active0.end());
    defaults_[3] = imported.sensordata_history0;
    for (std::size_t i = 0; i < imported.body_mocapid.size(); ++i) {
      if (imported.body_mocapid[i] < 0) continue;
      const double *const pos = imported.body_pos.data() + 3 * i, *const quat =
                                                                      imported.body_quat.data() + 4 * i;
      defaults_[1].insert(defaults_[1].end(), pos, pos + 3);
      defaults_[2].insert(defaults_[2].end(), quat, quat + 4);
    }
  }

  // Inputs of all environments; whatever else the state holds becomes NaN, as does the scratch.
  void set(const std::vector<RandomState>& states) {
    poison();
    auto host = Kokkos::create_mirror_view(state_);
    Kokkos::deep_copy(host, std::numeric_limits<S>::quiet_NaN());
    for (const FieldInfo& field : state_fields(model_))
      for (int env = 0; env < kEnvs; ++env) {
        const RandomState& state = states[static_cast<std::size_t>(env)];
        const std::map<std::string, Numbers> inputs = {
            {"qpos", state.qpos},
            {"qvel", state.qvel},
            {"act", state.act},
            {"ctrl", state.ctrl},
            {"qacc_warmstart", state.qacc_warmstart},
            {"eq_active", or_default(state.eq_active, 0)},
            {"mocap_pos", or_default(state.mocap_pos, 1)},
            {"mocap_quat", or_default(state.mocap_quat, 2)},
            {"ctrl_history", Numbers(static_cast<std::size_t>(model_.nhistory), 0.0)},
            {"sensordata_history", defaults_[3]},
            {"time", {state.time}},
            {"time_residual", {0}}};
        const auto input = inputs.find(field.name);
        if (input == inputs.end() || input->second.empty()) continue;
        for (int i = 0; i < field.size; ++i)
          host(static_cast<std::size_t>((field.first + i) * kEnvs + env)) =
              static_cast<S>(input->second[static_cast<std::size_t>(i)]);
      }
    Kokkos::deep_copy(state_, host);
  }
  void poison() { Kokkos::deep_copy(scratch_, std::numeric_limits<S>::quiet_NaN()); }

  // With `inverse` qacc and qfrc_inverse are of the accelerations in qacc_warmstart.
  void run_forward(bool inverse = false) {
    launch_forward<V>(model_, state_.data(), scratch_.data(), inverse);
  }
  void run_kinematics() { launch_kinematics<V>(model_, state_.data(), scratch_.data()); }
  void run_set_const() { launch_set_const<V>(model_, state_.data(), scratch_.data()); }
  // Environments whose state was bad.
  std::vector<bool> run_step(bool all_fields = false) {
    const Kokkos::View<int*, MemorySpace> bad("bad", kEnvs);
    launch_step<V>(model_, state_.data(), scratch_.data(), all_fields, bad.data());
    const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), bad);
    return std::vector<bool>(host.data(), host.data() + kEnvs);
  }

  Numbers state(const std::string& name, int env) const {
    const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), state_);
    for (const FieldInfo& field : state_fields(model_))
      if (field.name == name) {
        Numbers values;
        for (int i = 0; i < field.size; ++i)
          values.push_back(
              static_cast<double>(host(static_cast<std::size_t>((field.first + i) * kEnvs + env))));
        return values;
      }
    ADD_FAILURE() << "no state field " << name;
    return {};
  }
  void set_state_value(const std::string& name, int index, int env, double value) {
    const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), state_);
    for (const FieldInfo& field : state_fields(model_))
      if (field.name == name)
        host(static_cast<std::size_t>((field.first + index) * kEnvs + env)) = static_cast<S>(value);
    Kokkos::deep_copy(state_, host);
  }
  // One field of every environment.
  void set_field(const std::string& name, const std::vector<Numbers>& rows) {
    const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), state_);
    for (const FieldInfo& field : state_fields(model_))
      for (int env = 0; env < kEnvs && field.name == name; ++env)
        for (int i = 0; i < field.size; ++i)
          host(static_cast<std::size_t>((field.first + i) * kEnvs + env)) =
              static_cast<S>(rows[static_cast<std::size_t>(env)][static_cast<std::size_t>(i)]);
    Kokkos::deep_copy(state_, host);
  }
  // All data fields of one environment.
  std::map<std::string, Numbers> data(int env) const {
    const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), scratch_);
    const int pack = env / lane_width<V>, lane = env % lane_width<V>;
    std::map<std::string, Numbers> fields;
    for (const FieldInfo& field : data_fields(model_)) {
      Numbers& values = fields[field.name];
      for (int i = 0; i < field.size; ++i)
        values.push_back(static_cast<double>(
            host(static_cast<std::size_t>((pack * elements_ + field.first + i) * lane_width<V> + lane))));
    }
    return fields;
  }
  // Calls visit(data, pack) with the fields of each pack, the kernels' own scratch included.
  template <class Visit>
  void for_each_data(const Visit& visit) const {
    const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), scratch_);
    for (int pack = 0; pack < kPacks; ++pack)
      visit(data_of_scratch<V>(model_, reinterpret_cast<V*>(host.data()) + pack * elements_, 1), pack);
  }
  // The bytes of all states, to compare runs bit by bit.
  std::vector<S> state_bits() const {
    const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), state_);
    return {host.data(), host.data() + host.extent(0)};
  }

 private:
  const Numbers& or_default(const Numbers& given, int field) const {
    return given.empty() ? defaults_[field] : given;
  }

  DeviceModel<S> device_;
  const Model<S>& model_;
  int elements_;
  Numbers defaults_[4];  // of eq_active, mocap_pos, mocap_quat and sensordata_history
  Kokkos::View<S*, MemorySpace> state_, scratch_;
};

// The largest difference in units of `scale`; NaN counts as infinite.
inline double difference(const Numbers& ours, const Numbers& theirs, double scale) {
  if (ours.size() != theirs.size()) return std::numeric_limits<double>::infinity();
  double worst = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const double error = std::abs(ours[i] - theirs[i]);
    worst = std::max(worst, error == error ? error : std::numeric_limits<double>::infinity());
  }
  return worst == 0 ? 0 : worst / scale;
}

inline double largest(const Numbers& values) {
  double result = 0;
  for (const double value : values) result = std::max(result, std::abs(value));
  return result;
}

inline std::string numbers_text(const Numbers& ours, const Numbers& theirs) {
  std::string text;
  for (std::size_t i = 0; i < std::min(ours.size(), theirs.size()) && i < 40; ++i)
    text += "\n  [" + std::to_string(i) + "] " + std::to_string(ours[i]) + " | " + std::to_string(theirs[i]);
  return text;
}

}  // namespace maniple
