// Launches that sort their environments by contacts (kernels/physics/regroup.hpp): every environment gets the
// bits that it gets in a pack of its neighbours, with its own resets and dropped contacts on record.
#include <gtest/gtest.h>

#include <random>

#include "kernels/physics/batch.hpp"
#include "kernels/physics/regroup.hpp"
#include "tests/unit/physics/simulated_model.hpp"

// (a GPU regroups nothing)
#ifndef MANIPLE_SCALAR_LANES

namespace maniple {
namespace {

// A capsule with two limbs and a loose ball over a floor: 8 dofs without the ball, 14 with it.
std::string robot(bool ball) {
  return std::string(R"(<mujoco><option timestep="0.005"/><worldbody><geom type="plane" size="0 0 1"/>
    <body pos="0 0 0.25"><freejoint/><geom type="capsule" size="0.05" fromto="-0.15 0 0 0.15 0 0"/>
      <body pos="0.2 0 0"><joint axis="0 1 0" range="-60 60"/>
        <geom type="capsule" size="0.04" fromto="0 0 0 0.1 0 -0.2"/></body>
      <body pos="-0.2 0 0"><joint axis="0 1 0" range="-60 60"/>
        <geom type="capsule" size="0.04" fromto="0 0 0 -0.1 0 -0.2"/></body></body>)") +
         (ball ? R"(<body pos="0 0.1 0.4"><freejoint/><geom size="0.06"/></body>)" : "") +
         "</worldbody></mujoco>";
}

// Environments on a floor, in the air, falling; one of them far out of bounds. Tiles that fill no whole turn.
template <class T>
class Regrouped {
 public:
  static constexpr std::int64_t kTiles = 2 * kRegroupTiles * 4 + 3;
  static constexpr std::int64_t kEnvs = kTiles * kTileWidth - 17;  // the last tile is padded

  explicit Regrouped(const ImportedModel& imported) : device_(imported) {
    const ModelSizes& sizes = imported.sizes;
    batch.model = device_.model();
    batch.envs = kEnvs;
    batch.state = TiledView<T>("state", kTiles, state_elements(sizes));
    batch.scratch = Scratch<Lanes<T>>("scratch", data_elements(sizes), thread_count());
    batch.bad_states = TiledView<std::int32_t>("bad_states", kTiles, 2);
    batch.dropped_contacts = TiledView<std::int32_t>("dropped_contacts", kTiles, 2);
    batch.regroup_scratch = Scratch<Lanes<T>>("regroup", regroup_elements<Lanes<T>>(sizes), thread_count());
    std::mt19937 generator(7);
    std::uniform_real_distribution<double> uniform(-1, 1);
    for (std::int64_t env = 0; env < kTiles * kTileWidth; ++env) {
      for (int i = 0; i < sizes.nq; ++i)
        batch.state.at(env, i) = static_cast<T>(imported.qpos0[static_cast<std::size_t>(i)]);
      batch.state.at(env, 2) += static_cast<T>(0.2 * uniform(generator));
      for (int i = 7; i < 9; ++i) batch.state.at(env, i) = static_cast<T>(1.2 * uniform(generator));
      for (int i = 0; i < sizes.nv; ++i)
        batch.state.at(env, sizes.nq + i) = static_cast<T>(2 * uniform(generator));
    }
    batch.state.at(kBad, sizes.nq + 3) = T(1e20);
  }
  std::vector<T> state(std::int64_t env) const {
    std::vector<T> values;
    for (int i = 0; i < batch.state.elements; ++i) values.push_back(batch.state.at(env, i));
    return values;
  }

  static constexpr std::int64_t kBad = 77;
  PhysicsBatch<T> batch;

 private:
  DeviceModel<T> device_;
};

template <class T>
class PhysicsRegroup : public ::testing::Test {};
using Precisions = ::testing::Types<float, double>;
TYPED_TEST_SUITE(PhysicsRegroup, Precisions);

TYPED_TEST(PhysicsRegroup, EnvironmentsGetTheBitsOfAPackInOrder) {
  using T = TypeParam;
  using V = Lanes<T>;
  for (const bool ball : {false, true}) {
    const ImportedModel imported = model_of_text(robot(ball), "", 0, 3);
    ASSERT_TRUE(regroups(imported.sizes));
    Regrouped<T> regrouped(imported);
    std::vector<std::vector<T>> states;
    for (std::int64_t env = 0; env < whole_packs<V>(Regrouped<T>::kEnvs); ++env)
      states.push_back(regrouped.state(env));
    const std::vector<T> padding = regrouped.state(Regrouped<T>::kTiles * kTileWidth - 1);
    constexpr int steps = 20;
    step_batch(regrouped.batch, steps - 5, 0);
    step_batch(regrouped.batch, 5, 1);

    std::int64_t dropped = 0, resets = 0;
    SimulatedModel<V> pack(imported);
    for (std::size_t first = 0; first < states.size(); first += lane_width<V>) {
      std::vector<int> left_out(lane_width<V>), bad(lane_width<V>);
      for (int lane = 0; lane < lane_width<V>; ++lane)
        pack.set_lane_state(lane, states[first + static_cast<std::size_t>(lane)]);
      for (int step = 0; step < steps; ++step) {
        const MaskOf<V> reset = pack.step();
        for (int lane = 0; lane < lane_width<V>; ++lane) {
          left_out[static_cast<std::size_t>(lane)] +=
              static_cast<int>(get_lane(V(pack.data.contact_dropped[0]), lane));
          bad[static_cast<std::size_t>(lane)] += get_lane(reset, lane);
        }
      }
      for (int lane = 0; lane < lane_width<V>; ++lane) {
        const auto env = static_cast<std::int64_t>(first) + lane;
        const std::vector<T> ours = regrouped.state(env), expected = pack.lane(lane);
        ASSERT_EQ(std::memcmp(ours.data(), expected.data(), ours.size() * sizeof(T)), 0) << env;
        const int count = left_out[static_cast<std::size_t>(lane)];
        ASSERT_EQ(regrouped.batch.dropped_contacts.at(env, 0), count) << env;
        ASSERT_EQ(regrouped.batch.bad_states.at(env, 0), bad[static_cast<std::size_t>(lane)]) << env;
        dropped += count;
        resets += bad[static_cast<std::size_t>(lane)];
      }
    }
    EXPECT_EQ(regrouped.state(Regrouped<T>::kTiles * kTileWidth - 1), padding) << "no pack that is stepped";
    EXPECT_GT(dropped, 50) << "or the capacity is never reached";
    EXPECT_EQ(resets, 1);
  }
}

}  // namespace
}  // namespace maniple

#endif
