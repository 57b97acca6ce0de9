// Terms of a task: their values, their lines in the file, and refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/config/deck_files.hpp"

namespace maniple {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Terms, HoldNamesNumbersAndRanges) {
  const Config config = DeckFiles().load(R"(task:
  name: reach
  episode_length: 5.5
  actions:
    - term: joint_effort
      joints: [a, b]
      scale: 100
      clip: [-2, 2]
  terminations:
    late: {term: time_out, time_out: true}
  resets:
    - term: reset_joints
      joints: a
      position: [-1, 1]
      velocity: 0.5
)");
  EXPECT_TRUE(config.task.present);
  EXPECT_EQ(config.task.where.line, 1);
  EXPECT_DOUBLE_EQ(config.task.episode_length, 5.5);
  const TermConfig& action = config.task.actions.at(0);
  EXPECT_EQ(action.name, "joint_effort");
  EXPECT_EQ(action.term, "joint_effort");
  EXPECT_THAT(action.names, ElementsAre("a", "b"));
  EXPECT_EQ(action.names_kind, ElementKind::joints);
  EXPECT_EQ(action.where_names.line, 6);
  EXPECT_EQ(action.scale, 100);
  EXPECT_THAT(action.clip.value(), ElementsAre(-2, 2));
  EXPECT_EQ(action.where.line, 5);
  EXPECT_TRUE(config.task.terminations.at(0).time_out);
  EXPECT_EQ(config.task.terminations.at(0).name, "late");
  const TermConfig& reset = config.task.resets.at(0);
  EXPECT_THAT(reset.names, ElementsAre("a"));
  EXPECT_THAT(reset.parameters.at("position"), ElementsAre(-1, 1));
  EXPECT_THAT(reset.parameters.at("velocity"), ElementsAre(0.5));
  EXPECT_EQ(reset.where_parameters.at("velocity").line, 15);
}

TEST(Terms, ListsAreVectorsOfExpressions) {
  const Config config = DeckFiles().load(
      "task:\n"
      "  definitions: {ahead: [1, 0, 0]}\n"
      "  observations: [{expression: [sin(x), \"cos(x)\"]}]\n"
      "  variables: {goal: {reset: [0.4, -2], update: prev(goal)}}\n");
  EXPECT_EQ(config.task.definitions.at("ahead"), "[1, 0, 0]");
  EXPECT_EQ(config.task.observations[0].expression, "[sin(x), cos(x)]");
  EXPECT_EQ(config.task.variables[0].reset, "[0.4, -2]");
}

// The place of an expression is that of its first character, however it is written.
TEST(Terms, ExpressionsKnowTheirFirstCharacter) {
  const Config config = DeckFiles().load(
      "task:\n"
      "  definitions:\n"
      "    plain: cos(x)\n"
      "    anchored: &e  'sin(x)'\n"
      "  rewards:\n"
      "    quoted: {expression: \"x^2\", weight: 1}\n"
      "    single:\n"
      "      expression:   'x'\n"
      "    bare:\n"
      "      expression: x + 1\n"
      "    block:\n"
      "      expression: |\n"
      "\n"
      "        x + y\n"
      "    folded:\n"
      "      expression: >-\n"
      "          x\n"
      "          + y\n"
      "    number: {expression: 1.5}\n");
  const auto place = [](const SourceLocation& where) {
    return std::to_string(where.line) + ":" + std::to_string(where.column);
  };
  EXPECT_EQ(place(config.task.where_definitions.at("plain")), "3:12");
  EXPECT_EQ(place(config.task.where_definitions.at("anchored")), "4:20");
  EXPECT_EQ(place(config.task.rewards[0].where_expression), "6:27");
  EXPECT_EQ(place(config.task.rewards[1].where_expression), "8:22");
  EXPECT_EQ(place(config.task.rewards[2].where_expression), "10:19");
  EXPECT_EQ(place(config.task.rewards[3].where_expression), "14:9");
  EXPECT_EQ(place(config.task.rewards[4].where_expression), "17:11");
  EXPECT_EQ(config.task.rewards[4].expression, "x + y");
  EXPECT_EQ(config.task.rewards[5].expression, "1.5");
}

TEST(Terms, BadOnesAreRefused) {
  const DeckFiles files;
  const auto refusal = [&](const std::string& section) {
    return files.refusal("task:\n  " + section + "\n");
  };
  EXPECT_THAT(refusal("rewards: {a: {weight: 1}}"),
              HasSubstr("deck.yaml:2: task.rewards.a: found neither term nor expression"));
  EXPECT_THAT(refusal("rewards: {a: {term: alive, expression: \"1\"}}"),
              HasSubstr("found both term and expression"));
  EXPECT_THAT(refusal("rewards: {a: 5}"),
              HasSubstr("task.rewards.a: found '5'; allowed: a mapping with 'term:"));
  EXPECT_THAT(refusal("rewards: [{term: alive}]"), HasSubstr("allowed: a mapping from names to terms"));
  EXPECT_THAT(refusal("actions: {a: {term: x}}"),
              HasSubstr("task.actions: found a mapping; allowed: a list of terms"));
  EXPECT_THAT(refusal("rewards: {\"a b\": {term: alive}}"), HasSubstr("found the name 'a b'"));
  EXPECT_THAT(refusal("rewards: {a: {term: alive, weight: heavy}}"),
              HasSubstr("task.rewards.a.weight: found 'heavy'; allowed: number"));
  EXPECT_THAT(
      refusal("rewards: {a: {term: alive, clip: [0, 1]}}"),
      AllOf(HasSubstr("task.rewards.a.clip: found a key that rewards do not take"), HasSubstr("weight")));
  EXPECT_THAT(refusal("actions: [{term: x, clip: [1, 0]}]"),
              HasSubstr("task.actions[0].clip: found [1, 0]; allowed: [low, high] with low <= high"));
  EXPECT_THAT(refusal("actions: [{term: x, clip: 3}]"), HasSubstr("allowed: [low, high]"));
  EXPECT_THAT(
      refusal("actions: [{term: x, joint: slider}]"),
      HasSubstr(
          "task.actions[0].joint: found 'slider' for a parameter of the term; allowed: a number or [low, "
          "high], where the term takes it ('maniple schema x'), or the known key nearest to it: joints"));
  EXPECT_THAT(refusal("resets: [{term: x, range: [1, 2, 3]}]"),
              HasSubstr("allowed: a number or [low, high]"));
  EXPECT_THAT(refusal("resets: [{term: x, range: [2, 1]}]"), HasSubstr("low <= high"));
  EXPECT_THAT(refusal("actions: [{term: x, joints: [a], actuators: [b]}]"),
              HasSubstr("found a second list of names"));
  EXPECT_THAT(refusal("actions: [{term: x, joints: {a: b}}]"), HasSubstr("allowed: list of names"));
  EXPECT_THAT(refusal("actions: [{term: x, joints: []}]"),
              HasSubstr("task.actions[0].joints: found a list of 0; allowed: list of names"));
  EXPECT_THAT(refusal("observations: [{term: x, bodies: []}]"), HasSubstr("found a list of 0"));
  for (const char* key : {"noise", "bias"})
    EXPECT_THAT(refusal("observations: [{term: x, " + std::string(key) + ": -0.1}]"),
                HasSubstr("task.observations[0]." + std::string(key) +
                          ": found -0.1; allowed: a number of at "
                          "least 0, for +- that much, or [low, high]"));
  EXPECT_EQ(refusal("observations: [{term: x, noise: [-0.2, -0.1]}]"), "");
  // one end of a range from the command line: the range is no longer the deck's
  EXPECT_THAT(
      files.refusal("task:\n  commands:\n    c: {term: x, speed: [-1, 1]}\n", {"task.commands.c.speed.0=2"}),
      StartsWith("command line: task.commands.c.speed: found [2, 1]"));
  EXPECT_THAT(refusal("resets: [{term: x, set: \"qpos[a]\"}]"), HasSubstr("allowed: with an expression"));
  EXPECT_THAT(refusal("definitions: {2x: \"1\"}"), HasSubstr("found the name '2x'"));
  EXPECT_THAT(refusal("definitions: {x: {y: 1}}"),
              HasSubstr("task.definitions.x: found a mapping; allowed: an expression"));
  EXPECT_THAT(refusal("episode_length: -1"),
              HasSubstr("task.episode_length: found '-1'; allowed: number, at least 0"));
}

}  // namespace
}  // namespace maniple
