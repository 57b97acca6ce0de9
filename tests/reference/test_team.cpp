// Environments that a team of threads steps, as on a GPU, here with fibers in place of threads: the bits are
// those of one thread alone, whatever the team's size and whichever of its members runs first.
#include "kernels/base/team.hpp"

#ifndef MANIPLE_SCALAR_LANES
#include <gtest/gtest.h>
#include <ucontext.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/physics/step.hpp"
#include "src/tasks/terms/applied_forces.hpp"
#include "tests/reference/batch_under_test.hpp"

namespace maniple {
namespace {

// Members of a team that take turns on one thread: each runs until it waits at a barrier, the first to the
// last or the last to the first. What one of them writes and another reads without a barrier in between
// differs between the two orders.
class FiberTeam {
 public:
  enum class Order { ascending, descending };
  using Work = std::function<void(const TeamMember&)>;

  FiberTeam(int size, Order order) : order_(order) {
    for (int rank = 0; rank < size; ++rank) members_.push_back(std::make_unique<Member>(*this, rank));
  }

  // Runs work(member) for every member. All of them meet at the same barriers, or it is an error.
  void run(const Work& work) {
    work_ = &work;
    for (auto& member : members_) member->begin();
    for (bool over = false; !over;) {
      for (std::size_t i = 0; i < members_.size(); ++i)
        members_[order_ == Order::ascending ? i : members_.size() - 1 - i]->go_on(scheduler_);
      over = members_.front()->barrier == nullptr;
      for (const auto& member : members_)
        if (member->barrier != members_.front()->barrier) {
          ADD_FAILURE() << "member " << member->team_rank() << " of " << members_.size()
                        << " is at another barrier than the first";
          return;
        }
    }
  }

 private:
  struct Member final : TeamMember {
    FiberTeam& team;
    const int rank;
    std::vector<char> stack = std::vector<char>(std::size_t{1} << 20);
    ucontext_t context{};
    const void* barrier = nullptr;  // where it waits; nullptr: it has ended

    Member(FiberTeam& its_team, int its_rank) : team(its_team), rank(its_rank) {}
    int team_rank() const override { return rank; }
    int team_size() const override { return static_cast<int>(team.members_.size()); }
    void team_barrier() const override {
      Member& self = *team.members_[static_cast<std::size_t>(rank)];
      self.barrier = __builtin_return_address(0);  // in the code into which the barrier is inlined
      swapcontext(&self.context, &team.scheduler_);
    }
    void begin() {
      getcontext(&context);
      context.uc_stack.ss_sp = stack.data();
      context.uc_stack.ss_size = stack.size();
      context.uc_link = &team.scheduler_;
      // makecontext passes integers
      const auto address = reinterpret_cast<std::uintptr_t>(this);
      makecontext(&context, reinterpret_cast<void (*)()>(&Member::main), 2,
                  static_cast<unsigned>(address >> 32), static_cast<unsigned>(address));
    }
    void go_on(ucontext_t& scheduler) {
      barrier = nullptr;
      swapcontext(&scheduler, &context);
    }
    static void main(unsigned high, unsigned low) {
      const auto* const self = reinterpret_cast<const Member*>((std::uintptr_t{high} << 32) | low);
      (*self->team.work_)(*self);
    }
  };

  Order order_;
  std::vector<std::unique_ptr<Member>> members_;
  ucontext_t scheduler_{};
  const Work* work_ = nullptr;
};

TEST(FiberTeam, SeesAMissingBarrier) {
  const auto last_writer = [](FiberTeam::Order order) {
    int value = -1;
    FiberTeam(4, order).run([&](const TeamMember& member) { value = member.team_rank(); });
    return value;
  };
  EXPECT_EQ(last_writer(FiberTeam::Order::ascending), 3);
  EXPECT_EQ(last_writer(FiberTeam::Order::descending), 0);
}

TEST(ScalarTeam, SharesAndReserves) {
  constexpr int kMembers = 5, kCount = 23;
  std::vector<int> visits(kCount, 0), list(3 * kMembers, -1);
  int exchange[kTeamThreads], leaders = 0;
  FiberTeam(kMembers, FiberTeam::Order::descending).run([&](const TeamMember& member) {
    const Team<float> team(member, exchange);
    for (const int i : team.share(kCount)) ++visits[static_cast<std::size_t>(i)];
    // ranks add 0, 1, 2, 0, 1 numbers
    int length = 0;
    const int own = team.rank() % 3, first = team.reserve(own, length);
    for (int i = 0; i < own; ++i) list[static_cast<std::size_t>(first + i)] = team.rank();
    EXPECT_EQ(length, 4);
    EXPECT_EQ(team.once([&] { return ++leaders; }), 1);
    EXPECT_EQ(team.total(static_cast<float>(team.rank())), 10);
  });
  EXPECT_EQ(visits, std::vector<int>(kCount, 1));
  EXPECT_EQ(std::vector<int>(list.begin(), list.begin() + 5), (std::vector<int>{1, 2, 2, 4, -1}));
}

// What the environments of a rank are stepped in: the state of one environment and its scratch.
template <class T>
class Environment {
 public:
  explicit Environment(const Model<T>& model)
      : model_(model),
        state_(static_cast<std::size_t>(state_elements(model)) * kTileWidth, T(0)),
        scratch_(static_cast<std::size_t>(data_elements(model))),
        shared_(kShared) {}

  void set(const RandomState& state) {
    std::fill(scratch_.begin(), scratch_.end(), std::numeric_limits<T>::quiet_NaN());
    std::fill(shared_.begin(), shared_.end(), std::numeric_limits<T>::quiet_NaN());
    std::fill(state_.begin(), state_.end(), T(0));
    const State<T> s = state_of_tile<T>(model_, state_.data(), 0);
    const auto copy = [](const Numbers& from, const StateField<T>& to) {
      for (std::size_t i = 0; i < from.size(); ++i) to[static_cast<int>(i)] = static_cast<T>(from[i]);
    };
    copy(state.qpos, s.qpos);
    copy(state.qvel, s.qvel);
    copy(state.act, s.act);
    copy(state.ctrl, s.ctrl);
    copy(state.qacc_warmstart, s.qacc_warmstart);
    for (int i = 0; i < model_.nqfrc; ++i) s.qfrc_applied[i] = T(0.1) * static_cast<T>(i % 5 - 2);
    for (int i = 0; i < 6 * model_.nxfrc; ++i) s.xfrc_applied[i] = T(0.3) * static_cast<T>(i % 7 - 3);
  }
  // `steps` of mj_step by one thread, and by a team with fast memory.
  void step_alone(int steps) {
    data_ = data_of_scratch<T>(model_, scratch_.data(), 1);
    step_by(Team<T>(), steps);
  }
  void step_together(FiberTeam& team, int steps) {
    data_ = data_of_scratch<T>(model_, scratch_.data(), 1);
    place_in_shared(model_, data_, shared_.data(), kShared);
    int exchange[kTeamThreads];
    std::fill_n(exchange, kTeamThreads, -1);
    team.run([&](const TeamMember& member) { step_by(Team<T>(member, exchange), steps); });
  }
  // State and results of the last step, as bytes.
  std::string bytes() const {
    std::string result(reinterpret_cast<const char*>(state_.data()), state_.size() * sizeof(T));
    const auto append = [&](const DataField<T>& field, int size) {
      result.append(reinterpret_cast<const char*>(field.base), static_cast<std::size_t>(size) * sizeof(T));
    };
    append(data_.qacc, model_.nv);
    append(data_.qfrc_constraint, model_.nv);
    append(data_.qfrc_actuator, model_.nv);
    append(data_.ncon, 1);
    append(data_.nefc, 1);
    append(data_.contact_dropped, 1);
    return result;
  }
  T contacts() const { return data_.ncon[0]; }
  T dropped() const { return data_.contact_dropped[0]; }
  int resets() const { return resets_; }

 private:
  static constexpr int kShared = 2000;  // numbers: less than the working set of some models

  void step_by(const Team<T>& team, int steps) {
    Data<T> d = data_;
    d.team = team;
    const State<T> s = state_of_tile<T>(model_, state_.data(), 0);
    for (int i = 0; i < steps; ++i)
      if (step(model_, s, d) && team.leads()) ++resets_;
  }

  const Model<T>& model_;
  std::vector<T> state_, scratch_, shared_;
  Data<T> data_;
  int resets_ = 0;
};

struct TeamCase {
  ModelCase model;
  std::string integrator;  // "": the model's
  int max_contacts = 0;    // 0: from the model
  bool forces = false;     // from outside, on every body and dof
};

class Teams : public ::testing::TestWithParam<TeamCase> {
 protected:
  // Steps some visited states alone and by teams.
  template <class T>
  void compare() {
    const ModelConfig config = oracle::config_of(GetParam().model);
    if (config.path.empty()) GTEST_SKIP() << "package " << GetParam().model.package << " is not installed";
    SimulationConfig simulation;
    simulation.max_contacts = GetParam().max_contacts;
    simulation.integrator = choice_of<IntegratorChoice>(GetParam().integrator).value();
    const MujocoModel mujoco = load_mujoco_model(config, simulation);
    ImportedModel imported = import_model(config, simulation);
    oracle::remove_copy(GetParam().model, config);
    if (GetParam().forces) make_room_for_forces(imported.sizes);
    const DeviceModel<T> device(imported);
    Model<T> model = device.model();
    ASSERT_GT(model.nv, kDenseDofs) << "no model for a team";
    model.nspaceblock = 0;  // as on a device
    constexpr int kCount = 5, kSteps = 2;
    Environment<T> environment(model);
    std::string expected, found;
    T contacts = 0, dropped = 0;
    std::vector<RandomState> states = oracle::visited_states(*mujoco.model, kCount);
    // two more are reset: one before the step, and one within it, whose acceleration is bad
    states.insert(states.end(), states.begin(), states.begin() + 2);
    states[kCount].qvel[2] = std::nan("");
    states[kCount + 1].qvel.back() = 9e9;
    for (const RandomState& state : states) {
      environment.set(state);
      environment.step_alone(kSteps);
      expected = environment.bytes();
      contacts += environment.contacts();
      dropped += environment.dropped();
      const bool first = &state == &states.front();
      for (const int size : first ? std::vector{1, 3, 8, 16, kTeamThreads} : std::vector{3, kTeamThreads})
        for (const auto order : {FiberTeam::Order::ascending, FiberTeam::Order::descending}) {
          FiberTeam team(size, order);
          environment.set(state);
          environment.step_together(team, kSteps);
          found = environment.bytes();
          ASSERT_EQ(found.size(), expected.size());
          ASSERT_EQ(std::memcmp(found.data(), expected.data(), found.size()), 0)
              << "team of " << size << (order == FiberTeam::Order::ascending ? "" : ", last member first");
        }
    }
    EXPECT_EQ(contacts > 0, model.ngeompair > 0);
    EXPECT_EQ(dropped > 0, GetParam().max_contacts > 0);
    // both bad states, alone and by four teams each
    EXPECT_GE(environment.resets(), 2 * 5);
  }
};
TEST_P(Teams, StepWithTheBitsOfOneThreadInSinglePrecision) {
  compare<float>();
}
TEST_P(Teams, StepWithTheBitsOfOneThreadInDoublePrecision) {
  compare<double>();
}

constexpr const char* kUnitreeG1 = "asset_zoo/robots/unitree_g1/xmls/g1.xml";
constexpr const char *kFew = "iterations=\"3\" ls_iterations=\"6\"",
                     *kFewOfCG = "solver=\"CG\" iterations=\"5\" ls_iterations=\"8\"";
const std::vector<TeamCase> kCases = {
    {{"free_bodies", "", "free_bodies.xml"}, ""},
    {{"free_bodies", "", "free_bodies.xml"}, "implicitfast"},
    {{"tree", "", "tree.xml"}, ""},
    {{"actuators", "", "actuators.xml"}, ""},
    {{"actuators", "", "actuators.xml"}, "implicitfast"},
    {{"hand", "", "hand.xml"}, ""},
    {{"hand", "", "hand.xml"}, "RK4"},
    {{"hand_pushed", "", "hand.xml"}, "implicitfast", 0, true},
    {{"fluid", "", "fluid.xml"}, "implicitfast"},
    {{"fluid", "", "fluid.xml"}, "implicit"},
    {{"ellipsoids", "", "ellipsoids.xml"}, "implicit"},
    {{"tree", "", "tree.xml"}, "implicit"},
    {{"contacts", "", "contacts.xml"}, ""},
    {{"contacts_overflow", "", "contacts.xml"}, "", 3},
    {{"patches", "", "patches.xml"}, ""},
    {{"boxes", "", "boxes.xml"}, ""},
    {{"solids", "", "solids.xml"}, ""},
    {{"meshes", "", "meshes.xml"}, ""},
    {{"terrain", "", "terrain.xml"}, ""},
    {{"slippery", "", "slippery.xml"}, ""},
    {{"cones", "", "cones.xml"}, ""},
    {{"pyramids", "", "pyramids.xml"}, "implicitfast"},
    {{"noslip", "", "noslip.xml"}, ""},
    {{"noslip_pyramids", "", "noslip_pyramids.xml"}, ""},
    {{"equality", "", "equality.xml"}, ""},
    {{"spatial_tendons", "", "spatial_tendons.xml"}, ""},
    {{"spatial_tendons", "", "spatial_tendons.xml"}, "RK4"},
    {{"site_actuators", "", "site_actuators.xml"}, ""},
    {{"pid", "", "pid.xml"}, ""},
    {{"dcmotors", "", "dcmotors.xml"}, "RK4"},
    {{"limits", "", "limits.xml"}, ""},
    {{"ant", "gymnasium", "envs/mujoco/assets/ant.xml"}, ""},
    {{"dm_humanoid", "dm_control", "suite/humanoid.xml"}, ""},
    {{"g1", "mjlab", kUnitreeG1, ModelCase::nothing, ModelCase::under_all}, ""},
    {{"g1_feet", "mjlab", kUnitreeG1, ModelCase::nothing, ModelCase::under_feet}, ""},
    {{"humanoid", "gymnasium", "envs/mujoco/assets/humanoid.xml"}, ""},
    {{"humanoidstandup", "gymnasium", "envs/mujoco/assets/humanoidstandup.xml"}, ""},
    {{"contacts_pgs", "", "contacts.xml", ModelCase::nothing, ModelCase::as_it_is, 1.5, true}, ""},
    {{"limits_pgs", "", "limits.xml", ModelCase::nothing, ModelCase::as_it_is, 1.5, true}, ""},
    {{"hand_pgs", "", "hand.xml", ModelCase::nothing, ModelCase::as_it_is, 1.5, true}, ""},
    {{"contacts_cg", "", "contacts.xml", ModelCase::nothing, ModelCase::as_it_is, 1.5, false, kFewOfCG}, ""},
    {{"hand_few", "", "hand.xml", ModelCase::nothing, ModelCase::as_it_is, 1.5, false, kFew}, "RK4"},
    {{"cones_few", "", "cones.xml", ModelCase::nothing, ModelCase::as_it_is, 1.5, false, kFew}, ""},
};
INSTANTIATE_TEST_SUITE_P(Models, Teams, ::testing::ValuesIn(kCases), [](const auto& model) {
  return model.param.model.name + (model.param.integrator.empty() ? "" : "_" + model.param.integrator);
});

}  // namespace
}  // namespace maniple
#endif
