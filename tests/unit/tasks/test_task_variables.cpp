// State of a task between steps: variables, draws outside resets, noise, delays and histories, each against a
// plain loop over numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <set>

#include "kernels/base/philox.hpp"
#include "tests/unit/tasks/task_rig.hpp"

namespace maniple {
namespace {

using maniple::testing::empty_task;
using maniple::testing::expression_term;
using maniple::testing::kAll;
using maniple::testing::kHip;
using maniple::testing::TaskRig;
using maniple::testing::zoo;
using ::testing::AllOf;
using ::testing::HasSubstr;

using V = Lanes<float>;

TermConfig variable(const std::string& name, const std::string& reset, const std::string& update = "") {
  TermConfig term;
  term.name = name;
  term.reset = reset;
  term.update = update;
  term.where = {"task.yaml", 5, 0};
  return term;
}

TaskConfig task_observing(const std::string& text, std::vector<TermConfig> variables) {
  TaskConfig config = empty_task(zoo());
  config.observations = {expression_term(text)};
  config.variables = std::move(variables);
  config.reward_times_dt = false;
  return config;
}

// A rig that sets the hip angle, steps and resets as a batch does.
template <class Lane>
struct Episodes : TaskRig<Lane> {
  using Rig = TaskRig<Lane>;
  Episodes(const TaskConfig& config, std::uint64_t first_env = 0) : Rig(config, zoo(), 0.02, first_env, 7) {
    Rig::reset(kAll);
    Rig::observe(kAll);
  }
  // hip angle of environment `env` in this step.
  static double hip(int step, int env) { return 0.5 * step + 0.125 * env; }

  std::vector<bool> step(int step) {
    for (int env = 0; env < kTileWidth; ++env) this->set("qpos", kHip, env, hip(step, env));
    const std::vector<bool> done = this->evaluate();
    Rig::reset(done);
    this->observe(done);
    return done;
  }
  float seen(int element, int env) const { return Rig::at(this->observation, element, env); }
};

// Updated after the physics, read by terminations and rewards of the same step, and back at the reset's value
// in a new episode.
TEST(TaskVariables, AreUpdatedBeforeTerminationsAndRewards) {
  TaskConfig config = task_observing(
      "[steps, twice, furthest]",
      {variable("twice", "-1", "2 * steps"), variable("steps", "0", "prev(steps) + 1"),
       variable("furthest", "[qpos[hip], 0]", "max(prev(furthest), [qpos[hip], -qpos[hip]])")});
  config.rewards = {expression_term("steps + 10 * prev(steps)", "count"),
                    expression_term("sum(furthest) - prev(furthest)[0]", "further")};
  config.terminations = {expression_term("steps >= 3 + (qpos[hip] > 3)", "enough")};
  Episodes<V> rig(config);
  EXPECT_EQ(rig.compiled.num_kept, 4);
  std::vector<int> count(kTileWidth, 0);
  std::vector<double> most(kTileWidth, 0.25), opposite(kTileWidth, 0);
  for (int step = 1; step <= 12; ++step) {
    const std::vector<bool> done = rig.step(step);
    for (int env = 0; env < kTileWidth; ++env) {
      const auto e = static_cast<std::size_t>(env);
      const double hip = rig.hip(step, env), before = most[e];
      const int expected = ++count[e];
      most[e] = std::max(before, hip);
      opposite[e] = std::max(opposite[e], -hip);
      EXPECT_EQ(rig.at(rig.reward_term, 0, env), static_cast<float>(expected + 10 * (expected - 1)));
      EXPECT_NEAR(rig.at(rig.reward_term, 1, env), most[e] + opposite[e] - before, 1e-5);
      ASSERT_EQ(done[e], expected >= 3 + (hip > 3)) << step << " " << env;
      if (done[e]) {
        count[e] = 0;
        most[e] = hip;  // the rig's reset leaves the state
        opposite[e] = 0;
      }
      EXPECT_EQ(rig.seen(0, env), static_cast<float>(count[e]));
      EXPECT_EQ(rig.seen(1, env), done[e] ? -1.0f : 2.0f * static_cast<float>(count[e]));
      EXPECT_NEAR(rig.seen(2, env), most[e], 1e-6);
    }
  }
}

// The uniform number that stands at a place of a stream.
double uniform_word(RandomPurpose purpose, std::uint64_t env, int step, int draw) {
  const PhiloxBlock block =
      random_block(7, purpose, env, static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(draw / 4));
  return uniform01<double>(block.word[draw % 4]);
}

template <class Lane>
class TaskDraws : public ::testing::Test {};
using VariableLanes = ::testing::Types<Lanes<float>, Lanes<double>, float>;
TYPED_TEST_SUITE(TaskDraws, VariableLanes);

// Numbers of the stream of (seed, purpose; environment, observation so far, draw), for any width of lanes and
// any first environment of a rank.
TYPED_TEST(TaskDraws, AreThoseOfTheStream) {
  TaskConfig config = task_observing(
      "[walk, uniform(-1, 3)]", {variable("walk", "0", "prev(walk) + uniform(0, 1) + 8 * uniform(0, 1)")});
  config.terminations = {expression_term("episode_step >= 4", "enough")};
  Episodes<TypeParam> rig(config, 1000);
  std::vector<double> walk(kTileWidth, 0);
  for (int step = 1; step <= 9; ++step) {
    const std::vector<bool> done = rig.step(step);
    for (int env = 0; env < kTileWidth; ++env) {
      const auto e = static_cast<std::size_t>(env);
      const std::uint64_t global = 1000 + e;
      walk[e] += uniform_word(RandomPurpose::task_step, global, step, 0) +
                 8 * uniform_word(RandomPurpose::task_step, global, step, 1);
      if (done[e]) walk[e] = 0;
      ASSERT_NEAR(rig.seen(0, env), walk[e], 1e-5) << step;
      ASSERT_NEAR(rig.seen(1, env), -1 + 4 * uniform_word(RandomPurpose::task_observation, global, step, 0),
                  1e-6);
    }
  }
}

// Redrawn after the rewards, this many steps after the reset or the last draw.
TEST(TaskVariables, AreDrawnAgainWhenTheirTimeIsUp) {
  TaskConfig config = task_observing("[fixed, ranged, prev(fixed)]", {variable("fixed", "uniform(0, 1)"),
                                                                      variable("ranged", "uniform(0, 1)")});
  config.variables[0].every = {0.06};
  config.variables[1].every = {0.04, 0.1};
  config.rewards = {expression_term("fixed", "fixed")};
  config.terminations = {expression_term("episode_step >= 41 + (qpos[hip] > 12)", "enough")};
  Episodes<V> rig(config);
  std::vector<int> fixed_age(kTileWidth, 0), ranged_age(kTileWidth, 0);
  std::set<int> ages;
  for (int step = 1; step <= 120; ++step) {
    std::vector<std::array<float, 2>> before;
    for (int env = 0; env < kTileWidth; ++env) before.push_back({rig.seen(0, env), rig.seen(1, env)});
    const std::vector<bool> done = rig.step(step);
    for (int env = 0; env < kTileWidth; ++env) {
      const auto e = static_cast<std::size_t>(env);
      EXPECT_EQ(rig.at(rig.reward, 0, env), before[e][0]);  // what the policy saw
      const bool fixed_changed = rig.seen(0, env) != before[e][0],
                 ranged_changed = rig.seen(1, env) != before[e][1];
      ASSERT_EQ(fixed_changed, ++fixed_age[e] == 3 || done[e]) << step << " " << env;
      EXPECT_EQ(rig.seen(2, env), done[e] ? rig.seen(0, env) : before[e][0]);
      ++ranged_age[e];
      if (ranged_changed && !done[e]) ages.insert(ranged_age[e]);
      if (fixed_changed) fixed_age[e] = 0;
      if (ranged_changed) ranged_age[e] = 0;
    }
  }
  EXPECT_EQ(ages, (std::set<int>{3, 4, 5}));  // (2, 5] steps, rounded up
}

TEST(TaskVariables, CanFollowTheObservation) {
  TaskConfig config = task_observing(
      "[error, prev(error)]",
      {variable("error", "0", "[target - qpos[hip], 1]"), variable("target", "uniform(0, 1)")});
  config.variables[0].reset = "[0, 0]";
  config.variables[0].update_at = UpdateTime::observation;
  config.rewards = {expression_term("error[0]", "error")};
  config.terminations = {expression_term("episode_step >= 3", "enough")};
  Episodes<V> rig(config);
  for (int step = 1; step <= 8; ++step) {
    const float before = rig.seen(0, 11);
    const std::vector<bool> done = rig.step(step);
    EXPECT_EQ(rig.at(rig.reward, 0, 11), before);  // updated after the rewards
    const double target = uniform_word(RandomPurpose::task_observation, 11, step - step % 3, 0);
    EXPECT_NEAR(rig.seen(0, 11), target - rig.hip(step, 11), 1e-6) << step;
    EXPECT_EQ(rig.seen(1, 11), 1.0f);
    EXPECT_EQ(rig.seen(2, 11), done[11] ? rig.seen(0, 11) : before);
  }
}

TEST(TaskVariables, OfOnceOutliveEpisodes) {
  TaskConfig config =
      task_observing("[own, each]", {variable("own", "uniform(0, 1)"), variable("each", "uniform(0, 1)")});
  config.variables[0].once = true;
  config.terminations = {expression_term("episode_step >= 2", "enough")};
  Episodes<V> rig(config);
  std::set<float> own, each;
  for (int step = 1; step <= 8; ++step) {
    rig.step(step);
    own.insert(rig.seen(0, 3));
    each.insert(rig.seen(1, 3));
  }
  EXPECT_EQ(own.size(), 1u);
  EXPECT_EQ(each.size(), 5u);
  EXPECT_NE(rig.seen(0, 4), rig.seen(0, 3));
}

// Bias, noise, clip, scale, delay and history of one observation, against queues of numbers.
TEST(TaskObservations, AreModifiedInOrder) {
  TaskConfig config = task_observing("[qpos[hip], 2 * qpos[hip]]", {});
  TermConfig& term = config.observations[0];
  term.bias = {1, 2};
  term.noise = {0.5};
  term.clip = {{-1, 8}};
  term.scale = 10;
  term.delay = {2};
  term.history = 3;
  config.terminations = {expression_term("episode_step >= 7", "enough")};
  Episodes<V> rig(config);
  EXPECT_EQ(rig.compiled.num_observations, 6);
  EXPECT_EQ(rig.compiled.num_kept, 2 + 2 * 2 + 2 * 2);
  constexpr int kEnv = 13;
  std::array<double, 2> bias{};
  std::deque<std::array<double, 2>> past;  // newest first
  const auto observe = [&](int step, double hip, bool fresh) {
    std::array<double, 2> now{hip, 2 * hip};
    for (std::size_t k = 0; k < 2; ++k) {
      const auto draw = [&](int which) {
        return uniform_word(RandomPurpose::task_observation, kEnv, step, which);
      };
      if (fresh) bias[k] = 1 + draw(static_cast<int>(k));
      now[k] = 10 * std::clamp(now[k] + bias[k] - 0.5 + draw(2 + static_cast<int>(k)), -1.0, 8.0);
    }
    if (fresh) past.assign(5, now);
    past.push_front(now);
    past.resize(5);
    for (std::size_t age = 0; age < 3; ++age)
      for (std::size_t k = 0; k < 2; ++k)
        ASSERT_NEAR(rig.seen(static_cast<int>(2 * (2 - age) + k), kEnv), past[2 + age][k], 2e-5)
            << step << " " << age << " " << k;
  };
  observe(0, 0.25, true);
  for (int step = 1; step <= 20; ++step) {
    const std::vector<bool> done = rig.step(step);
    observe(step, rig.hip(step, kEnv), done[kEnv]);
  }
}

// Each environment draws its own delay, and keeps it for an episode.
TEST(TaskObservations, AreDelayedByWhatEachResetDraws) {
  TaskConfig config = task_observing("qpos[hip]", {});
  config.observations[0].delay = {0, 3};
  config.terminations = {expression_term("episode_step >= 10", "enough")};
  Episodes<V> rig(config);
  std::set<int> delays;
  for (int step = 1; step <= 39; ++step) {
    rig.step(step);
    if (step % 10 < 4) continue;  // the first value of an episode stands in for earlier ones
    for (int env = 0; env < kTileWidth; ++env) {
      const double late = (rig.hip(step, env) - rig.seen(0, env)) / 0.5;
      EXPECT_EQ(late, std::round(late));
      const double drawn =
          uniform_word(RandomPurpose::task_observation, static_cast<std::uint64_t>(env), step - step % 10, 0);
      EXPECT_EQ(late, std::floor(4 * drawn));
      delays.insert(static_cast<int>(late));
    }
  }
  EXPECT_EQ(delays, (std::set<int>{0, 1, 2, 3}));
}

TEST(TaskObservations, OfTheCriticAreItsOwn) {
  TaskConfig config = task_observing("qpos[hip]", {});
  config.observations[0].noise = {1};
  config.critic_observations = {expression_term("[qpos[hip], 3]"), expression_term("episode_step")};
  config.terminations = {expression_term("episode_step >= 3", "enough")};
  Episodes<V> rig(config);
  EXPECT_EQ(rig.compiled.num_observations, 1);
  EXPECT_EQ(rig.compiled.num_critic_observations, 3);
  EXPECT_EQ(rig.compiled.critic_observation_names, (std::vector<std::string>{"x[0]", "x[1]", "x"}));
  for (int step = 1; step <= 7; ++step) {
    for (int env = 0; env < kTileWidth; ++env) rig.set("qpos", kHip, env, rig.hip(step, env));
    rig.evaluate();
    rig.observe_final();
    EXPECT_EQ(rig.at(rig.final_critic_observation, 2, 9), static_cast<float>((step - 1) % 3 + 1));
    const float final_noise = rig.at(rig.final_observation, 0, 9);
    rig.observe();
    EXPECT_EQ(rig.seen(0, 9), final_noise);  // one observation of the state, with one noise
    EXPECT_EQ(rig.at(rig.critic_observation, 0, 9), static_cast<float>(rig.hip(step, 9)));
    EXPECT_NE(rig.seen(0, 9), rig.at(rig.critic_observation, 0, 9));
    EXPECT_EQ(rig.at(rig.critic_observation, 1, 9), 3.0f);
    if (step % 3 == 0) {
      rig.reset(kAll);
      rig.observe(kAll);
    }
  }
}

std::string refusal(const TaskConfig& config) {
  try {
    compile_task(config, zoo(), 0.02);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

TEST(TaskVariables, SayWhatIsWrong) {
  EXPECT_THAT(refusal(task_observing("a", {variable("a", "0", "a + 1")})),
              HasSubstr("task.yaml:5: task.variables.a.update: variable 'a' uses itself"));
  EXPECT_THAT(refusal(task_observing("1", {variable("a", "0", "b"), variable("b", "0", "a")})),
              HasSubstr("uses itself"));
  EXPECT_THAT(refusal(task_observing("1", {variable("a", "[0, 0]", "[1, 2, 3]")})),
              HasSubstr("an update of a vector of 3 for a variable whose reset is a vector of 2"));
  EXPECT_THAT(refusal(task_observing("1", {variable("qpos", "0")})),
              HasSubstr("'qpos' is already the name of a quantity"));
  EXPECT_THAT(refusal(task_observing("comand", {variable("command", "0")})),
              HasSubstr("did you mean 'command'?"));
  EXPECT_THAT(refusal(task_observing("prev(uniform(0, 1))", {})),
              HasSubstr("random numbers inside prev(...)"));
  TaskConfig config = task_observing("1", {variable("a", "0")});
  config.definitions = {{"a", "1"}};
  EXPECT_THAT(refusal(config), HasSubstr("already the name of a variable"));
  config = task_observing("1", {variable("a", "0")});
  config.variables[0].every = {1e7};
  EXPECT_THAT(refusal(config), HasSubstr("task.variables.a.every: 10000000 s of 0.02 s steps"));
  config.variables[0].every = {1};
  config.variables[0].once = true;
  EXPECT_THAT(refusal(config), HasSubstr("once together with every"));
  config = task_observing("1", {});
  config.observations[0].delay = {0.5};
  config.observations[0].where_keys["delay"] = {"command.yaml", 9, 0};
  EXPECT_THAT(refusal(config),
              HasSubstr("command.yaml:9: task.observations[0].delay: 0.5 control steps; whole numbers"));
  config.observations[0].delay = {};
  config.observations[0].noise = {1};
  config.observations[0].noise_std = 1;
  EXPECT_THAT(refusal(config), HasSubstr("noise_std together with noise"));
}

TEST(TaskVariables, SayWhereNothingIsDrawn) {
  for (const char* update : {"", "level + uniform(0, 1)"}) {
    TaskConfig config = task_observing("1", {});
    config.curricula = {variable("level", *update == 0 ? "uniform(0, 1)" : "0", update)};
    EXPECT_THAT(refusal(config), HasSubstr("random numbers in a number that all environments have in common; "
                                           "metrics, and functions of them"));
  }
  TaskConfig config = task_observing("1", {});
  config.reset_until = "uniform(0, 1) > 0.5";
  EXPECT_THAT(refusal(config), HasSubstr("task.reset_until: random numbers in a condition"));
}

TEST(TaskVariables, SayWhatIsNeverANumber) {
  for (const char* text : {"1 / 0", "log(-1)", "[qpos[0], 0 / 0]"})
    EXPECT_THAT(refusal(task_observing(text, {})),
                AllOf(HasSubstr("task.observations[0]: always "), HasSubstr("a finite number")));
  // (a variable may begin so)
  EXPECT_EQ(refusal(task_observing("min(a, 1)", {variable("a", "inf", "min(prev(a), qpos[0])")})),
            "no error");
  TaskConfig config = task_observing("1", {});
  config.rewards = {expression_term("1 / 0")};
  config.rewards[0].name = "all";
  EXPECT_THAT(refusal(config), HasSubstr("task.rewards.all: always inf"));
  config.rewards = {};
  config.resets = {expression_term("-1 / 0")};
  config.resets[0].target = "qpos[7]";
  EXPECT_THAT(refusal(config), HasSubstr("task.resets[0]: always -inf for 'qpos[7]'"));
  config.resets[0].expression = "[1, 2]";
  EXPECT_THAT(refusal(config), HasSubstr("a vector of 2 is assigned to a number ('qpos[7]'); a number\n"));
}

}  // namespace
}  // namespace maniple
