// Distances between geoms and bodies, their normals and segments, against libmujoco: every pair of shapes,
// apart and overlapping, in either order, within and beyond the cutoff.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/reference/batch_under_test.hpp"
#include "tests/reference/model_in_file.hpp"

namespace maniple {
namespace {

const char* const kShapes[] = {"type='plane' size='1 1 .1'",    "type='sphere' size='.2'",
                               "type='capsule' size='.1 .2'",   "type='ellipsoid' size='.1 .2 .3'",
                               "type='cylinder' size='.15 .2'", "type='box' size='.1 .2 .15'",
                               "type='mesh' mesh='wedge'"};
constexpr int kNumShapes = 7;

// Two of each shape, the second one's body with a ball beside it, and sensors of all pairs.
std::string model_of_all_pairs() {
  std::string bodies, sensors;
  for (int i = 0; i < 2 * kNumShapes; ++i) {
    const std::string name = std::to_string(i), shape = kShapes[i % kNumShapes];
    const bool plane = i % kNumShapes == 0;
    bodies += "<body name='b" + name + "'" + (plane ? " mocap='true'" : "") + ">" +
              (plane ? "" : "<freejoint/>") + "<geom name='g" + name + "' " + shape + "/>" +
              (i < kNumShapes ? "" : "<geom size='.05' pos='.3 0 0'/>") + "</body>";
  }
  const char* const cutoffs[] = {"10", ".4", "0"};
  int count = 0;
  for (int a = 0; a < 2 * kNumShapes; ++a)
    for (int b = 0; b < 2 * kNumShapes; ++b) {
      if (a == b || a / kNumShapes == b / kNumShapes) continue;
      const std::string one = std::to_string(a), other = std::to_string(b),
                        cutoff = cutoffs[count++ % 5 < 3 ? 0 : count % 3];
      const std::string of = " geom1='g" + one + "' geom2='g" + other + "' cutoff='" + cutoff + "'/>";
      sensors += "<distance" + of + "<normal" + of + "<fromto" + of;
      sensors += "<distance body1='b" + one + "' geom2='g" + other + "' cutoff='10'/>";
    }
  return "<mujoco><option><flag contact='disable'/></option><asset><mesh name='wedge' vertex='0 0 0  .4 0 0  "
         "0 .3 0  0 0 .3  .1 .1 .35'/></asset><worldbody>" +
         bodies + "</worldbody><sensor>" + sensors + "</sensor></mujoco>";
}

class Distances : public ModelInFile {
 protected:
  // Readings of libmujoco.
  Numbers theirs(const RandomState& state) const {
    const mjModel& m = *mujoco_.model;
    const oracle::DataPointer d = oracle::make_data(m);
    oracle::set_state(m, d.get(), state);
    mj_forward(&m, d.get());
    return {d->sensordata, d->sensordata + m.nsensordata};
  }
  template <class V>
  void check();
};

// Near enough to each other that a third of the pairs overlap.
std::vector<RandomState> states_of(const mjModel& m) {
  std::mt19937_64 generator(3);
  std::normal_distribution<double> normal;
  const auto number = [&](double scale) {
    return static_cast<double>(static_cast<float>(scale * normal(generator)));
  };
  std::vector<RandomState> states(kEnvs);
  for (RandomState& state : states) {
    for (int j = 0; j < m.njnt; ++j) {
      for (int k = 0; k < 3; ++k) state.qpos.push_back(number(0.35));
      for (int k = 0; k < 4; ++k) state.qpos.push_back(number(1));
    }
    state.qvel.assign(static_cast<std::size_t>(m.nv), 0.0);
    state.qacc_warmstart = state.qvel;
    for (int i = 0; i < m.nmocap; ++i) {
      for (int k = 0; k < 3; ++k) state.mocap_pos.push_back(number(0.35));
      double quat[4], length = 0;
      for (double& q : quat) {
        q = number(1);
        length += q * q;
      }
      for (const double q : quat)
        state.mocap_quat.push_back(static_cast<double>(static_cast<float>(q / std::sqrt(length))));
    }
  }
  return states;
}

template <class V>
void Distances::check() {
  SCOPED_TRACE(std::to_string(sizeof(ScalarOf<V>)) + " bytes, " + std::to_string(lane_width<V>) + " lanes");
  const mjModel& m = *mujoco_.model;
  const std::vector<RandomState> states = states_of(m);
  Batch<V> batch(imported_);
  batch.set(states);
  batch.run_forward();
  int steady = 0, all = 0, overlaps = 0;
  for (int env = 0; env < kEnvs; ++env) {
    const RandomState& state = states[static_cast<std::size_t>(env)];
    const Numbers ours = batch.data(env).at("sensordata"), expected = theirs(state);
    RandomState near = state;
    for (double& q : near.qpos) q *= 1 + 1e-8;
    const Numbers moved = theirs(near);
    for (int i = 0; i < m.nsensor; ++i) {
      const int adr = m.sensor_adr[i], dim = m.sensor_dim[i];
      const auto slice = [&](const Numbers& from) {
        return Numbers(from.begin() + adr, from.begin() + adr + dim);
      };
      ++all;
      // parallel sides, and shapes that just touch, have several answers
      if (difference(slice(moved), slice(expected), 1) > 1e-5) continue;
      ++steady;
      if (m.sensor_type[i] == mjSENS_GEOMDIST && expected[static_cast<std::size_t>(adr)] < 0) ++overlaps;
      // GJK and EPA end when the distance is known to ccd_tolerance; the points are known to its root, at
      // worst
      ASSERT_LE(difference(slice(ours), slice(expected), 1),
                m.sensor_type[i] == mjSENS_GEOMDIST ? 1e-6 : 1e-4)
          << "environment " << env << ", sensor " << i << " of type " << m.sensor_type[i]
          << numbers_text(slice(ours), slice(expected));
    }
  }
  EXPECT_GT(steady, 0.9 * all);
  EXPECT_GT(overlaps, 300);
}

TEST_F(Distances, AreThoseOfMujoco) {
  load_text(model_of_all_pairs());
  check<double>();
  check<Lanes<double>>();
}

// Roundings of the poses turn short segments.
TEST_F(Distances, AreThoseOfMujocoInSinglePrecision) {
  load_text(model_of_all_pairs());
  const mjModel& m = *mujoco_.model;
  const std::vector<RandomState> states = states_of(m);
  Batch<Lanes<float>> batch(imported_);
  batch.set(states);
  batch.run_forward();
  for (int env = 0; env < kEnvs; ++env) {
    const Numbers ours = batch.data(env).at("sensordata"),
                  expected = theirs(states[static_cast<std::size_t>(env)]);
    for (int i = 0; i < m.nsensor; ++i) {
      const auto adr = static_cast<std::size_t>(m.sensor_adr[i]);
      if (m.sensor_type[i] == mjSENS_GEOMDIST) {
        ASSERT_NEAR(ours[adr], expected[adr], 2e-5) << env << " " << i;
      }
    }
  }
}

}  // namespace
}  // namespace maniple
