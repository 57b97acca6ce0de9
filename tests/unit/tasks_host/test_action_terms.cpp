// The terms of actions, each against its formula: the control from an action with scale, offset, clip and
// delay, for actuators of any gain and gear, and the actuators that it accepts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/unit/tasks/task_rig.hpp"

namespace maniple::of_action_terms {
namespace {

using maniple::testing::empty_task;
using maniple::testing::expression_term;
using maniple::testing::import_text;
using maniple::testing::library_term;
using maniple::testing::TaskRig;
using ::testing::HasSubstr;

using Rig = TaskRig<Lanes<double>>;

// Five joints on a carrier whose positions are 7 to 11 in qpos, behind a free joint.
const ImportedModel& machine() {
  static const ImportedModel model = import_text(R"(
    <mujoco><compiler angle="radian" autolimits="true"/>
      <default><geom contype="0" conaffinity="0" size="0.1"/></default>
      <worldbody><body><freejoint/><geom/>
        <body><joint name="a" axis="0 1 0" ref="0.1"/><geom/></body>
        <body><joint name="b" axis="0 1 0" ref="0.2"/><geom/></body>
        <body><joint name="c" axis="0 1 0" ref="0.3"/><geom/></body>
        <body><joint name="d" axis="0 1 0" ref="0.4"/><geom/></body>
        <body><joint name="e" axis="0 1 0" ref="0.5"/><geom/></body>
      </body></worldbody>
      <actuator>
        <general name="torque" joint="a" gainprm="2.5" gear="-4" ctrlrange="-0.3 0.2"/>
        <general name="place" joint="b" gainprm="7" biastype="affine" biasprm="0 -7 -1" gear="-0.5"
          ctrlrange="-1 0.5"/>
        <general name="near" joint="c" gainprm="7" biastype="affine" biasprm="0 -7 0" gear="-3"/>
        <general name="speed" joint="d" gainprm="3" biastype="affine" biasprm="0 0 -3" gear="-2"/>
        <general name="raw" joint="e" gainprm="5" gear="6" ctrlrange="-2 1.5"/>
      </actuator></mujoco>)");
  return model;
}

// A term of actions, its joint or actuator, and a control per unit of what it asks for; and what is added to
// that.
struct Kind {
  std::string term, element, names_kind;
  double scale, offset, low, high, per_unit;
  std::function<double(double position)> beside;
  double control_low = 0, control_high = 0;  // of the actuator; equal: no limits

  double control(double action, double position, bool clipped) const {
    const double asked = scale * action + offset + beside(position);
    return per_unit * (clipped ? std::clamp(asked, low, high) : asked);
  }
  TermConfig config() const {
    TermConfig term_config = library_term(term, {element}, names_kind);
    term_config.scale = scale;
    term_config.offset = offset;
    return term_config;
  }
};
const std::vector<Kind>& kinds() {
  const auto nothing = [](double) { return 0.0; };
  static const std::vector<Kind> all{
      {"joint_effort", "a", "joints", 1.5, 0.25, -1, 0.75, 1 / (2.5 * -4), nothing, -0.3, 0.2},
      {"joint_position", "b", "joints", 0.75, -0.5, -0.9, 0.4, -0.5, [](double) { return 0.2; }, -1, 0.5},
      {"relative_joint_position", "c", "joints", -0.5, 0.125, -1.2, 0.8, -3, [](double q) { return q; }},
      {"joint_velocity", "d", "joints", 2, 0.5, -0.75, 1.25, -2, nothing},
      {"actuator_control", "raw", "actuators", -1.25, 0.375, -1.1, 0.7, 1, nothing, -2, 1.5}};
  return all;
}

class ActionTerms : public ::testing::TestWithParam<std::tuple<bool, int, bool>> {};

TEST_P(ActionTerms, FollowTheirFormulas) {
  const auto [clipped, delay, offset] = GetParam();
  TaskConfig config = empty_task(machine());
  config.actions.clear();
  for (const Kind& kind : kinds()) {
    TermConfig term = kind.config();
    if (clipped) term.clip = {{kind.low, kind.high}};
    if (delay > 0) term.delay = {static_cast<double>(delay)};
    config.actions.push_back(term);
  }
  Rig rig(config, machine());
  const std::vector<bool> all(kTileWidth, true);
  rig.reset(all);
  rig.observe(all);
  if (offset)
    rig.randomize_episode_steps(1000);  // as PPO does: the first episode still begins with this step
  const int count = static_cast<int>(kinds().size());
  const auto action = [&](int step, int k, int env) {
    return static_cast<float>(2 * std::cos(3.0 * step + 5 * k + env));
  };
  std::vector<int> cuts(kTileWidth);
  for (int step = 0; step < 5; ++step) {
    for (int env = 0; env < kTileWidth; ++env) {
      for (int k = 0; k < count; ++k) {
        rig.action[static_cast<std::size_t>(k * kTileWidth + env)] = action(step, k, env);
        rig.set("qpos", 7 + k, env, std::sin(step + 2 * k + 0.1 * env));
      }
    }
    rig.apply_actions();
    for (int env = 0; env < kTileWidth; ++env) {
      for (int k = 0; k < count; ++k) {
        const Kind& kind = kinds()[static_cast<std::size_t>(k)];
        const double given = action(std::max(step - delay, 0), k, env), q = rig.get("qpos", 7 + k, env);
        EXPECT_NEAR(rig.get("ctrl", k, env), kind.control(given, q, clipped), 1e-12)
            << kind.term << ", step " << step;
        if (kind.control(given, q, true) != kind.control(given, q, false) && clipped)
          ++cuts[static_cast<std::size_t>(env)];
      }
      EXPECT_EQ(rig.counter(counter_clipped_actions, env), cuts[static_cast<std::size_t>(env)]);
    }
    rig.evaluate();
    rig.observe();
  }
  EXPECT_EQ(*std::max_element(cuts.begin(), cuts.end()) > 5, clipped);
}
INSTANTIATE_TEST_SUITE_P(All, ActionTerms,
                         ::testing::Combine(::testing::Bool(), ::testing::Values(0, 1, 2),
                                            ::testing::Bool()));

// A vector's components go through scale, offset, delay and clip like an action's.
TEST(ActionTerms, ExpressionsAreScaledDelayedAndClipped) {
  for (const bool clipped : {false, true}) {
    TaskConfig config = empty_task(machine());
    TermConfig term = expression_term("[action[0] + action[1], 3 * action[1]]");
    term.names = {"speed", "torque"};
    term.names_kind = ElementKind::actuators;
    term.scale = 0.5;
    term.offset = 0.125;
    term.delay = {1};
    if (clipped) term.clip = {{-0.75, 0.5}};
    config.actions = {term};
    Rig rig(config, machine());
    const std::vector<bool> all(kTileWidth, true);
    rig.reset(all);
    rig.observe(all);
    double first = 0, second = 0;
    for (int step = 0; step < 4; ++step) {
      const auto action = [](int at, int k) { return static_cast<float>(2 * std::cos(3.0 * at + 5 * k)); };
      for (int k = 0; k < 2; ++k) rig.action[static_cast<std::size_t>(k * kTileWidth)] = action(step, k);
      const int late = std::max(step - 1, 0);
      first = 0.5 * (static_cast<double>(action(late, 0)) + action(late, 1)) + 0.125;
      second = 0.5 * 3 * action(late, 1) + 0.125;
      rig.apply_actions();
      if (clipped) {
        first = std::clamp(first, -0.75, 0.5);
        second = std::clamp(second, -0.75, 0.5);
      }
      EXPECT_NEAR(rig.get("ctrl", 3, 0), first, 1e-12) << step << clipped;
      EXPECT_NEAR(rig.get("ctrl", 0, 0), second, 1e-12) << step << clipped;
      rig.evaluate();
      rig.observe();
    }
  }
}

// ... as a number is that stands in its place, for each kind of actuator.
TEST(ActionTerms, ExpressionsAreAddedToTheirControls) {
  for (const Kind& kind : kinds()) {
    std::vector<double> controls;
    for (const bool expression : {false, true}) {
      TaskConfig config = empty_task(machine());
      config.actions = {kind.config()};
      config.actions[0].offset = kind.offset + 0.25;
      if (expression) {
        config.actions[0].offset = 0;
        config.actions[0].offset.expression = std::to_string(kind.offset) + " + 0.25 * (episode_step == 0)";
      }
      Rig rig(config, machine());
      rig.action[0] = 0.5f;
      rig.reset(std::vector<bool>(kTileWidth, true));
      rig.observe(std::vector<bool>(kTileWidth, true));
      rig.apply_actions();
      controls.push_back(rig.get("ctrl", rig.compiled.actions[0].actuator, 0));
    }
    EXPECT_NEAR(controls[1], controls[0], 1e-6 * std::abs(kind.per_unit)) << kind.term;
  }
  TaskConfig config = empty_task(machine());
  config.actions = {kinds()[0].config()};
  config.actions[0].offset.expression = "[1, 2]";
  try {
    compile_task(config, machine(), 0.02);
    ADD_FAILURE() << "two numbers for one actuator";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("task.actions[0].offset: a vector of 2 for 1 actuators"));
  }
}

// An action that acts on nothing has no range to fill.
TEST(ActionTerms, RandomOnesWithoutAScaleStayWithinOne) {
  TaskConfig config = empty_task(machine());
  config.actions = {kinds()[0].config()};
  config.actions[0].scale = 0;
  const CompiledTask task = compile_task(config, machine(), 0.02);
  EXPECT_EQ(task.actions[0].random_low, -1);
  EXPECT_EQ(task.actions[0].random_high, 1);
}

// Random actions fill the range of the control that actuator and clip leave; without one they are in [-1, 1].
TEST(ActionTerms, RandomOnesFillTheRangeOfTheControl) {
  for (const bool clipped : {false, true}) {
    TaskConfig config = empty_task(machine());
    config.actions.clear();
    for (const Kind& kind : kinds()) {
      config.actions.push_back(kind.config());
      if (clipped) config.actions.back().clip = {{kind.low, kind.high}};
    }
    const CompiledTask task = compile_task(config, machine(), 0.02);
    for (std::size_t k = 0; k < kinds().size(); ++k) {
      const Kind& kind = kinds()[k];
      const bool limited = kind.control_low < kind.control_high;
      double low = -1, high = 1;
      if (kind.term != "relative_joint_position" && (limited || clipped)) {
        double control_low = limited ? kind.control_low : -1e9,
               control_high = limited ? kind.control_high : 1e9;
        if (clipped) {
          const double at_low = kind.per_unit * kind.low, at_high = kind.per_unit * kind.high;
          control_low = std::max(control_low, std::min(at_low, at_high));
          control_high = std::min(control_high, std::max(at_low, at_high));
        }
        const auto action_of = [&](double control) {
          return (control / kind.per_unit - kind.beside(0) - kind.offset) / kind.scale;
        };
        low = std::min(action_of(control_low), action_of(control_high));
        high = std::max(action_of(control_low), action_of(control_high));
      }
      EXPECT_NEAR(task.actions[k].random_low, low, 1e-12) << kind.term << clipped;
      EXPECT_NEAR(task.actions[k].random_high, high, 1e-12) << kind.term << clipped;
    }
  }
}

TEST(ActionTerms, TakeTheirActuatorsAlone) {
  using Names = std::vector<std::string>;
  const Names effort{"joint_effort"}, velocity{"joint_velocity"}, none,
      position{"joint_position", "relative_joint_position"};
  const std::vector<std::pair<std::string, Names>> actuators{
      {R"(gainprm="2")", effort},
      {R"(gainprm="-2" gear="3")", effort},
      {R"(gainprm="0")", none},
      {R"(gainprm="2" gear="0")", none},
      {R"(gainprm="2" dyntype="filter" dynprm="0.1")", none},
      {R"(gaintype="affine" gainprm="2 1 0")", none},
      {R"(gainprm="2" biastype="affine" biasprm="1 0 0")", none},
      {R"(gainprm="2" biastype="affine" biasprm="0 -1 0")", none},
      {R"(gainprm="2" biastype="affine" biasprm="0 0 -1")", none},
      {R"(gainprm="2" biastype="affine" biasprm="0 2 0")", none},
      {R"(gainprm="2" biastype="affine" biasprm="0 -2 0")", position},
      {R"(gainprm="2" biastype="affine" biasprm="0 -2 -0.5")", position},
      {R"(gainprm="2" biastype="affine" biasprm="0 -2 0" dyntype="filter" dynprm="0.1")", position},
      {R"(gainprm="2" biastype="affine" biasprm="0.3 -2 0")", none},
      {R"(gaintype="affine" gainprm="2 1 0" biastype="affine" biasprm="0 -2 0")", none},
      {R"(gainprm="2" biastype="affine" biasprm="0 0 -2")", velocity},
      {R"(gainprm="2" biastype="affine" biasprm="0.3 0 -2")", none},
      {R"(gainprm="2" biastype="affine" biasprm="0 -1 -2")", none},
      {R"(gaintype="affine" gainprm="2 1 0" biastype="affine" biasprm="0 0 -2")", none}};
  for (const auto& [attributes, takers] : actuators) {
    const ImportedModel model =
        import_text(R"(<mujoco><worldbody><body><joint name="a"/><geom size="0.1"/></body></worldbody>
          <actuator><general name="drive" joint="a" )" +
                    attributes + "/></actuator></mujoco>");
    for (const std::string term :
         {"joint_effort", "joint_position", "relative_joint_position", "joint_velocity"}) {
      TaskConfig config = empty_task(model);
      config.actions = {library_term(term, {"a"})};
      std::string message;
      try {
        compile_task(config, model, 0.02);
      } catch (const InputError& error) {
        message = error.what();
      }
      if (std::find(takers.begin(), takers.end(), term) != takers.end())
        EXPECT_EQ(message, "") << attributes;
      else
        EXPECT_THAT(message, HasSubstr("actuator 'drive' of joint 'a' is not a ")) << term << attributes;
    }
  }
}

}  // namespace
}  // namespace maniple::of_action_terms
