// Curricula by themselves: their next values, and where these reach the task.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "src/tasks/terms/curriculum.hpp"
#include "tests/unit/tasks/task_rig.hpp"

namespace maniple::of_curriculum {
namespace {

using maniple::testing::empty_task;
using maniple::testing::expression_term;
using maniple::testing::TaskRig;
using maniple::testing::zoo;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ExpressionSource source(const std::string& text) {
  return {text, {"task.yaml", 3, 0}, "task.curricula.x"};
}

TermConfig curriculum(const std::string& name, const std::string& reset, const std::string& update = "") {
  TermConfig term;
  term.name = name;
  term.reset = reset;
  term.update = update;
  term.where = {"task.yaml", 3, 0};
  return term;
}

TEST(Curricula, AdvanceTogetherFromTheLastValues) {
  const std::vector<CompiledCurriculum> curricula{{"a", 0, source("b + iteration")},
                                                  {"b", 0, source("a / 2")},
                                                  {"fixed", 0, {}},
                                                  {"own", 0, source("min(own + 1, a)")}};
  EXPECT_THAT(advance(curricula, {4, 10, 3, 7}, {{"iteration", 5}}, {}).values, ElementsAre(15, 2, 3, 4));
}

TEST(Curricula, StayWhereTheyAreWithoutANumber) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<CompiledCurriculum> curricula{{"a", 0, source("episode_return")},
                                                  {"b", 0, source("1 / (a - 1)")},
                                                  {"c", 0, source("episode_return > 2 ? 1 : 5")}};
  AdvancedCurricula next = advance(curricula, {1, 2, 3}, {{"episode_return", nan}}, {});
  EXPECT_THAT(next.values, ElementsAre(1, 2, 5));
  EXPECT_THAT(next.stuck, ElementsAre(1));  // b knows a; a waits for the first episode
  next = advance(curricula, {2, 2, 3}, {{"episode_return", 3}}, {});
  EXPECT_THAT(next.values, ElementsAre(3, 1, 1));
  EXPECT_TRUE(next.stuck.empty());
}

// Metrics of episodes are those of an earlier iteration where none ended: what reads them waits.
TEST(Curricula, WaitForEpisodes) {
  TaskNumbers task;
  task.definitions = {{"good", {"metric_error < 0.3", {"task.yaml", 1, 0}, "task.definitions.good"}}};
  const std::vector<CompiledCurriculum> curricula{
      {"by_return", 0, source("by_return + (episode_return > 1)")},
      {"by_steps", 0, source("by_steps + (mean_episode_steps > 1)")},
      {"by_definition", 0, source("by_definition + good")},
      {"by_term", 0, source("by_term + reward_alive + termination_fell")},
      {"counts", 0, source("counts + episodes")},
      {"by_time", 0, source("by_time + (iteration > 1) + mean_air_time")},
      {"reward_scale", 0, source("reward_scale + 1")},  // no metric
      {"follows", 0, source("follows + reward_scale")}};
  std::map<std::string, double> metrics{{"iteration", 5},          {"episodes", 0},     {"episode_return", 2},
                                        {"mean_episode_steps", 9}, {"reward_alive", 1}, {"metric_error", 0},
                                        {"termination_fell", 1},   {"mean_air_time", 3}};
  const std::vector<double> values(8, 1);
  AdvancedCurricula next = advance(curricula, values, metrics, task);
  EXPECT_THAT(next.values, ElementsAre(1, 1, 1, 1, 1, 5, 2, 2));
  EXPECT_TRUE(next.stuck.empty());
  metrics["episodes"] = 4;
  next = advance(curricula, values, metrics, task);
  EXPECT_THAT(next.values, ElementsAre(2, 2, 2, 3, 5, 5, 2, 2));
}

TEST(Curricula, KnowTheNumbersOfTheTask) {
  TaskConfig config = empty_task(zoo());
  config.episode_length = 4;  // s, of 0.02 s a step
  config.terminations = {maniple::testing::library_term("time_out")};
  config.definitions = {
      {"longest", "max_episode_steps * dt"}, {"half", "longest / 2"}, {"height", "qpos[0]"}};
  config.curricula = {
      curriculum("level", "half + dt", "mean_episode_steps * dt > half ? level + longest : level"),
      curriculum("slow", "1", "mean_episode_steps")};
  TermConfig reset = maniple::testing::library_term("reset_joints_by_offset", {"hip"}, "joints",
                                                    {{"position_range", {0, 1}}, {"velocity_range", {0, 0}}});
  reset.parameters["position_range"] = {0, TermNumber("level * dt + half")};
  config.resets = {reset};
  const CompiledTask task = compile_task(config, zoo(), 0.02);
  EXPECT_DOUBLE_EQ(task.curricula[0].initial, 2.02);
  EXPECT_EQ(task.numbers.max_episode_steps, 200);
  EXPECT_THAT(advance(task.curricula, {1, 1}, {{"mean_episode_steps", 100}}, task.numbers).values,
              ElementsAre(1, 100));
  EXPECT_THAT(advance(task.curricula, {1, 1}, {{"mean_episode_steps", 101}}, task.numbers).values,
              ElementsAre(5, 101));
  // an unknown mean is waited for
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(advance(task.curricula, {1, 1}, {{"mean_episode_steps", nan}}, task.numbers).stuck.empty());
}

TEST(Curricula, KnowEveryMetric) {
  TaskConfig task;
  task.rewards = {expression_term("1", "up"), expression_term("1", "alive")};
  task.terminations = {expression_term("0", "fell")};
  task.metrics = {expression_term("2", "speed")};
  EXPECT_THAT(curriculum_metrics(task),
              ElementsAre("iteration", "env_steps", "control_steps", "episodes", "episode_return",
                          "mean_episode_steps", "episode_return_100", "reward_up", "reward_alive",
                          "termination_fell", "metric_speed"));
}

// Of the numbers of a task's programs, those of curricula change, and no other one, in every lane.
TEST(Curricula, ReachExpressionsAndWeights) {
  TaskConfig config = empty_task(zoo());
  config.reward_times_dt = false;
  config.curricula = {curriculum("a", "2"), curriculum("b", "2 * 5", "b + 1")};
  config.observations = {expression_term("[a, b, a * b + 2, 10]")};
  config.rewards = {expression_term("3", "plain"), expression_term("3", "weighted")};
  config.rewards[0].weight = 0.5;
  config.rewards[1].weight = -2;
  config.rewards[1].curriculum = "b";
  TaskRig<Lanes<double>> rig(config, zoo());
  const auto check = [&](double a, double b) {
    rig.evaluate();
    rig.observe();
    for (int env = 0; env < kTileWidth; ++env) {
      const double expected[]{a, b, a * b + 2, 10};
      for (int k = 0; k < 4; ++k) EXPECT_EQ(rig.at(rig.observation, k, env), expected[k]);
      EXPECT_EQ(rig.at(rig.reward_term, 0, env), 1.5);
      EXPECT_EQ(rig.at(rig.reward_term, 1, env), -6 * b);
      EXPECT_EQ(rig.at(rig.reward, 0, env), 1.5 - 6 * b);
    }
  };
  check(2, 10);
  rig.device.set_changing({7, -1});
  check(7, -1);
  rig.device.set_changing({2, 0});
  check(2, 0);
}

TEST(Curricula, ReadMeansOfVariables) {
  TaskConfig config = empty_task(zoo());
  TermConfig clock, pair;
  clock.name = "clock";
  clock.reset = "0";
  clock.update = "prev(clock) + dt";
  pair.name = "pair";
  pair.reset = "[1, 2]";
  config.variables = {clock, pair};
  config.curricula = {curriculum("a", "0", "mean_pair_1 > 1 ? mean_clock : 0")};
  const CompiledTask task = compile_task(config, zoo(), 0.02);
  ASSERT_EQ(task.variable_means.size(), 2U);
  TaskRig<Lanes<double>> rig(config, zoo());
  rig.reset(std::vector<bool>(kTileWidth, true));
  rig.observe(std::vector<bool>(kTileWidth, true));
  rig.evaluate();
  rig.observe();
  for (const VariableMean& mean : task.variable_means)
    EXPECT_NEAR(rig.field("kept", mean.element, 3), mean.name == "mean_clock" ? 0.02 : 2, 1e-12) << mean.name;
}

std::string refusal(const TaskConfig& config) {
  try {
    compile_task(config, zoo(), 0.02);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Curricula, SayWhatIsWrong) {
  TaskConfig config = empty_task(zoo());
  TermConfig clock;
  clock.name = "clock";
  clock.reset = "[0, 1]";
  config.variables = {clock};
  config.definitions = {{"late", "episode_length / 2"}, {"high", "qpos[0] > 1 ? 1 : 0"}, {"iteration", "3"}};
  for (const auto& [update, message] : std::vector<std::pair<std::string, std::string>>{
           {"mean_clock", "unknown metric 'mean_clock', did you mean 'mean_clock_0'?"},
           {"mean_cloc_1", "did you mean 'mean_clock_1'?"},
           {"episode_length > 5", "unknown metric 'episode_length'; mean_episode_steps"},
           {"late", "unknown metric 'episode_length'"},
           {"high", "unknown metric 'qpos'"},
           {"iteration + 1", "'iteration', which an update of curricula reads, is the name of a metric, too"},
           {"level", "unknown metric 'level'"}}) {
    config.curricula = {curriculum("a", "0", update)};
    EXPECT_THAT(refusal(config), HasSubstr(message));
  }
  config.definitions.clear();
  config.curricula = {curriculum("mean_clock_0", "0")};
  EXPECT_THAT(refusal(config), HasSubstr("'mean_clock_0' is the name of a metric, too"));
  config.curricula = {curriculum("a", "1")};
  TermConfig reset = maniple::testing::library_term("reset_joints_by_offset", {"hip"}, "joints",
                                                    {{"position_range", {0, 1}}, {"velocity_range", {0, 0}}});
  reset.parameters["position_range"] = {0, TermNumber("b")};
  config.resets = {reset};
  EXPECT_THAT(refusal(config), HasSubstr("position_range: unknown curriculum 'b'"));
  config.resets[0].parameters["position_range"] = {TermNumber("2 * a"), 1};
  EXPECT_THAT(refusal(config), HasSubstr("a range that begins as [2, 1]"));
  config.resets[0].parameters["position_range"] = {TermNumber("a / 2"), 1};
  EXPECT_EQ(refusal(config), "no error");
}

}  // namespace
}  // namespace maniple::of_curriculum
