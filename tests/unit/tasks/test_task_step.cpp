// The control step around the physics: counters, ends of episodes, sums, prev(), resets and their masks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "src/config/deck.hpp"
#include "src/tasks/compile/task_digest.hpp"
#include "tests/unit/physics/simulated_model.hpp"
#include "tests/unit/tasks/task_rig.hpp"

namespace maniple {
namespace {

using maniple::testing::empty_task;
using maniple::testing::expression_term;
using maniple::testing::import_file;
using maniple::testing::kAll;
using maniple::testing::kHip;
using maniple::testing::library_term;
using maniple::testing::TaskRig;
using maniple::testing::zoo;
using ::testing::HasSubstr;

constexpr int kKnee = 8, kKneeDof = 7;

TermConfig reset_term(const std::string& target, const std::string& text) {
  TermConfig term = expression_term(text);
  term.target = target;
  return term;
}

// The element of Data at which xpos begins: data of these tests lie one element after the other.
int xpos_first(const ImportedModel& model) {
  for (const FieldInfo& field : data_fields(model.sizes))
    if (std::string(field.name) == "xpos") return field.first;
  return 0;
}

template <class V>
class TaskStep : public ::testing::Test {};
using StepLanes = ::testing::Types<Lanes<float>, Lanes<double>, double>;
TYPED_TEST_SUITE(TaskStep, StepLanes);

// 0.06 s of 0.02 s steps: three of them, though 0.06 / 0.02 is not 3 in floating point.
TYPED_TEST(TaskStep, EpisodesEndInTime) {
  TaskConfig config = empty_task(zoo());
  config.episode_length = 0.06;
  config.terminations = {library_term("time_out"), expression_term("qpos[hip] > 5", "high")};
  config.rewards = {expression_term("1", "one"), expression_term("time_out", "late"),
                    expression_term("terminated", "failed")};
  config.observations = {expression_term("episode_step")};
  config.reward_times_dt = false;
  TaskRig<TypeParam> rig(config, zoo());
  EXPECT_EQ(rig.compiled.max_episode_steps, 3);
  rig.reset(kAll);
  for (int step = 1; step <= 3; ++step) {
    if (step == 3) rig.set("qpos", kHip, 4, 6);  // fails in the very step in which time is over
    const std::vector<bool> done = rig.evaluate();
    for (int env = 0; env < kTileWidth; ++env) {
      const bool failed = step == 3 && env == 4, late = step == 3;
      EXPECT_EQ(rig.at(rig.truncated, 0, env), late);
      EXPECT_EQ(rig.at(rig.terminated, 0, env), failed);
      EXPECT_EQ(done[static_cast<std::size_t>(env)], failed || late);
      EXPECT_EQ(rig.at(rig.reward, 0, env), 1.0f + static_cast<float>(late) + static_cast<float>(failed));
      EXPECT_EQ(rig.at(rig.episode_length, 0, env), static_cast<float>(step));
      EXPECT_EQ(rig.at(rig.episode_return, 0, env), static_cast<float>(step + late + failed));
      EXPECT_EQ(rig.at(rig.episode_reward_term, 0, env), static_cast<float>(step));
    }
    if (step < 3) {
      rig.observe();
      EXPECT_EQ(rig.at(rig.observation, 0, 0), static_cast<float>(step));
    } else {
      rig.reset(done);
      rig.observe(done);
      EXPECT_EQ(rig.at(rig.observation, 0, 0), 0.0f);
    }
  }
  rig.evaluate();
  EXPECT_EQ(rig.at(rig.episode_return, 0, 0), 1.0f);
  EXPECT_EQ(rig.counter(counter_reset_count, 9), 2);
}

TYPED_TEST(TaskStep, BadStatesFail) {
  TaskConfig config = empty_task(zoo());
  config.rewards = {library_term("is_alive"), library_term("is_terminated")};
  config.rewards[0].name = "alive";
  config.rewards[1].name = "failed";
  TaskRig<TypeParam> rig(config, zoo());
  std::vector<bool> bad(kTileWidth);
  bad[11] = true;
  const std::vector<bool> done = rig.evaluate(bad);
  for (int env = 0; env < kTileWidth; ++env) {
    EXPECT_EQ(rig.at(rig.terminated, 0, env), env == 11 ? 1.0f : 0.0f);
    EXPECT_EQ(done[static_cast<std::size_t>(env)], env == 11);
    EXPECT_EQ(rig.at(rig.invalid, 0, env), env == 11 ? 1.0f : 0.0f);
    EXPECT_EQ(rig.at(rig.reward, 0, env), static_cast<ScalarOf<TypeParam>>(env == 11 ? 0 : 0.02));
    EXPECT_EQ(rig.at(rig.reward_term, 1, env), 0.0f);
    EXPECT_EQ(rig.counter(counter_bad_values, env), 0);
  }
}

// What no state can have becomes zero and is counted, the first one named; of the rewards, it makes the step
// invalid.
TYPED_TEST(TaskStep, ValuesThatAreNotFiniteOrTooLargeBecomeZero) {
  TaskConfig config = empty_task(zoo());
  config.rewards = {expression_term("log(qpos[hip])", "bad"), expression_term("1", "good")};
  config.observations = {expression_term("1 / qpos[hip]"), expression_term("2")};
  TaskRig<TypeParam> rig(config, zoo());
  for (int env = 0; env < kTileWidth; ++env) rig.set("qpos", kHip, env, env == 5 ? 0 : 2);
  rig.evaluate();
  rig.observe();
  for (int env = 0; env < kTileWidth; ++env) {
    EXPECT_FLOAT_EQ(rig.at(rig.reward, 0, env), env == 5 ? 0.02f : 0.02f * (1 + std::log(2.0f)));
    EXPECT_EQ(rig.at(rig.observation, 0, env), env == 5 ? 0.0f : 0.5f);
    EXPECT_EQ(rig.at(rig.observation, 1, env), 2.0f);
    EXPECT_EQ(rig.counter(counter_bad_values, env), env == 5 ? 2 : 0);
    EXPECT_EQ(rig.counter(counter_first_bad_value, env), env == 5 ? 1 : 0);
    EXPECT_EQ(rig.at(rig.invalid, 0, env), env == 5);
    EXPECT_EQ(rig.at(rig.terminated, 0, env), 0);
  }
  for (const double size : {9e9, 2e10, 1e30}) {
    config.reward_times_dt = false;
    config.rewards = {expression_term("qpos[hip]", "large")};
    config.observations = {expression_term("-qpos[hip]")};
    TaskRig<TypeParam> large(config, zoo());
    large.set("qpos", kHip, 3, size);
    large.evaluate();
    large.observe();
    const auto kept = static_cast<ScalarOf<TypeParam>>(size < 1e10 ? size : 0);
    EXPECT_EQ(large.at(large.reward, 0, 3), kept);
    EXPECT_EQ(large.at(large.observation, 0, 3), -kept);
    EXPECT_EQ(large.at(large.invalid, 0, 3), kept == 0);
    EXPECT_EQ(large.counter(counter_bad_values, 3), kept == 0 ? 2 : 0);
  }
}

// What the step led to, seen before the reset; neither the reset's observation nor prev() notice it.
TYPED_TEST(TaskStep, FinalObservationsAreThoseBeforeTheReset) {
  TaskConfig config = empty_task(zoo());
  config.episode_length = 0.04;
  config.terminations = {library_term("time_out")};
  config.observations = {expression_term(
      "[qpos[hip], prev(qpos[hip]), prev(prev(qpos[hip])), episode_step, 1 / (time - time)]")};
  config.resets = {reset_term("qpos[hip]", "uniform(5, 6)")};
  TaskRig<TypeParam> rig(config, zoo()), plain(config, zoo());
  rig.reset(kAll);
  rig.observe(kAll);
  plain.reset(kAll);
  plain.observe(kAll);
  for (int step = 1; step <= 4; ++step) {
    const auto start = rig.at(rig.observation, 0, 9), before = rig.at(rig.observation, 1, 9);
    for (int env = 0; env < kTileWidth; ++env) {
      rig.set("qpos", kHip, env, step + 0.125 * env);
      plain.set("qpos", kHip, env, step + 0.125 * env);
    }
    const std::vector<bool> done = rig.evaluate();
    plain.evaluate();
    EXPECT_EQ(done[9], step % 2 == 0);
    rig.observe_final();
    EXPECT_EQ(rig.at(rig.final_observation, 0, 9), static_cast<float>(step) + 0.125f * 9);
    EXPECT_EQ(rig.at(rig.final_observation, 1, 9), start);
    EXPECT_EQ(rig.at(rig.final_observation, 2, 9), before);
    EXPECT_EQ(rig.at(rig.final_observation, 3, 9), step % 2 == 0 ? 2 : 1);
    EXPECT_EQ(rig.at(rig.final_observation, 4, 9), 0);
    rig.reset(done);
    rig.observe(done);
    plain.reset(done);
    plain.observe(done);
    EXPECT_EQ(rig.observation, plain.observation);
    EXPECT_EQ(rig.counter(counter_bad_values, 9), plain.counter(counter_bad_values, 9));
  }
}

TYPED_TEST(TaskStep, ObservationsAreClippedThenScaled) {
  TaskConfig config = empty_task(zoo());
  config.observations = {expression_term("qpos[hip]")};
  config.observations[0].clip = {{-1, 1.5}};
  config.observations[0].scale = 10;
  TaskRig<TypeParam> rig(config, zoo());
  rig.fill_randomly(2);
  rig.observe();
  for (int env = 0; env < kTileWidth; ++env)
    EXPECT_FLOAT_EQ(rig.at(rig.observation, 0, env),
                    10 * std::clamp(static_cast<float>(rig.get("qpos", kHip, env)), -1.0f, 1.5f));
}

// prev(x) is x one control step earlier, for rewards and observations alike; right after a reset it is x.
TYPED_TEST(TaskStep, PreviousValues) {
  TaskConfig config = empty_task(zoo());
  config.reward_times_dt = false;
  config.rewards = {expression_term("qpos[hip] - prev(qpos[hip])", "progress"),
                    expression_term("prev(prev(qpos[hip]))", "two_steps")};
  config.observations = {expression_term("[qpos[hip], prev(qpos[hip]), prev(2 * qpos[hip])]"),
                         expression_term("prev(prev(qpos[hip]))")};
  TaskRig<TypeParam> rig(config, zoo());
  EXPECT_EQ(rig.compiled.num_memory, 3);  // qpos, prev(qpos), 2 qpos
  const auto value = [](int step, int env) { return step * step + 0.25 * env; };
  const auto set = [&](int step) {
    for (int env = 0; env < kTileWidth; ++env) rig.set("qpos", kHip, env, value(step, env));
  };
  rig.reset(kAll);
  set(1);
  rig.observe(kAll);
  for (int env = 0; env < kTileWidth; ++env)
    for (int k = 0; k < 4; ++k)
      EXPECT_FLOAT_EQ(rig.at(rig.observation, k, env), static_cast<float>(value(1, env) * (k == 2 ? 2 : 1)));
  for (int step = 2; step <= 5; ++step) {
    set(step);
    rig.evaluate();
    // Environment 3 is reset in step 4, to a position of its own.
    std::vector<bool> done(kTileWidth);
    if (step == 4) {
      done[3] = true;
      rig.reset(done);
      rig.set("qpos", kHip, 3, 100);
    }
    rig.observe(done);
    for (int env = 0; env < kTileWidth; ++env) {
      const auto past = [&](int back) {
        const int then = std::max(1, step - back);
        if (env == 3 && step == 5 && then <= 4) return 100.0;
        return value(then, env);
      };
      EXPECT_FLOAT_EQ(rig.at(rig.reward_term, 0, env), static_cast<float>(value(step, env) - past(1)));
      EXPECT_FLOAT_EQ(rig.at(rig.reward_term, 1, env), static_cast<float>(past(2)));
      const bool fresh = env == 3 && step == 4;
      EXPECT_FLOAT_EQ(rig.at(rig.observation, 0, env), static_cast<float>(fresh ? 100 : value(step, env)));
      EXPECT_FLOAT_EQ(rig.at(rig.observation, 1, env), static_cast<float>(fresh ? 100 : past(1)));
      EXPECT_FLOAT_EQ(rig.at(rig.observation, 2, env), static_cast<float>(2 * (fresh ? 100 : past(1))));
      EXPECT_FLOAT_EQ(rig.at(rig.observation, 3, env), static_cast<float>(fresh ? 100 : past(2)));
    }
  }
}

// A reset touches the environments of the mask and leaves the others' bits.
TYPED_TEST(TaskStep, ResetsLeaveOtherEnvironmentsAlone) {
  TaskConfig config = empty_task(zoo());
  config.rewards = {expression_term("qpos[hip]", "reward")};
  config.observations = {expression_term("prev(qvel)")};
  config.resets = {reset_term("qpos[hip]", "3"), reset_term("qvel", "uniform(1, 2, 12)"),
                   reset_term("joint_pos[knee]", "qpos[hip] + qvel[0]")};
  TaskRig<TypeParam> rig(config, zoo());
  rig.fill_randomly(9);
  rig.apply_actions();
  rig.evaluate();
  rig.observe(kAll);
  TaskRig<TypeParam> before = rig;
  std::vector<bool> which(kTileWidth);
  for (const int env : {0, 6, 7, 31}) which[static_cast<std::size_t>(env)] = true;
  rig.reset(which);
  const auto same_bits = [](auto a, auto b) { return std::memcmp(&a, &b, sizeof(a)) == 0; };
  for (int env = 0; env < kTileWidth; ++env) {
    const bool reset = which[static_cast<std::size_t>(env)];
    for (const FieldInfo& field : state_fields(rig.sizes))
      for (int i = 0; i < field.size; ++i) {
        const bool assigned = (std::string(field.name) == "qpos" && (i == kHip || i == kKnee)) ||
                              std::string(field.name) == "qvel";
        EXPECT_EQ(same_bits(rig.get(field.name, i, env), before.get(field.name, i, env)),
                  !(reset && assigned))
            << field.name << i;
      }
    for (const FieldInfo& field : task_fields(rig.compiled))
      for (int i = 0; i < field.size; ++i)
        if (reset && std::string(field.name) != "memory")
          EXPECT_EQ(rig.field(field.name, i, env), 0);
        else
          EXPECT_TRUE(same_bits(rig.field(field.name, i, env), before.field(field.name, i, env)));
    EXPECT_EQ(rig.counter(counter_episode_step, env), reset ? 0 : 1);
    EXPECT_EQ(rig.counter(counter_reset_count, env), reset ? 1 : 0);
    if (reset) {
      EXPECT_EQ(rig.get("qpos", kHip, env), 3);
      // Later assignments see earlier ones.
      EXPECT_NEAR(rig.get("qpos", kKnee, env), 3 + rig.get("qvel", 0, env), 1e-6);
    }
  }
}

// All elements of one assignment are read before any of them is written.
TYPED_TEST(TaskStep, AssignmentsMaySwap) {
  TaskConfig config = empty_task(zoo());
  config.resets = {reset_term("qpos[hip, knee]", "qpos[knee, hip]")};
  TaskRig<TypeParam> rig(config, zoo());
  for (int env = 0; env < kTileWidth; ++env) {
    rig.set("qpos", kHip, env, 1);
    rig.set("qpos", kKnee, env, 2);
  }
  rig.reset(kAll);
  EXPECT_EQ(rig.get("qpos", kHip, 3), 2);
  EXPECT_EQ(rig.get("qpos", kKnee, 3), 1);
}

// Bounds, moments, and independence of the draws over many resets.
TYPED_TEST(TaskStep, ResetsDrawFromTheirDistributions) {
  TaskConfig config = empty_task(zoo());
  config.resets = {library_term("reset_joints_by_offset", {"hip", "knee"}, "joints",
                                {{"position_range", {-1, 0.5}}, {"velocity_range", {2, 3}}}),
                   reset_term("qvel[left-rail]", "normal(-1, 0.5)")};
  TaskRig<TypeParam> rig(config, zoo());
  double mean[3] = {}, square[3] = {}, product = 0;
  const int rounds = 200, count = rounds * kTileWidth;
  double lowest = 9, highest = -9;
  for (int round = 0; round < rounds; ++round) {
    rig.reset(kAll);
    for (int env = 0; env < kTileWidth; ++env) {
      const double hip = static_cast<double>(rig.get("qpos", kHip, env)) - 0.25,
                   knee = rig.get("qpos", kKnee, env);
      const double rate = rig.get("qvel", kKneeDof, env), rail = rig.get("qvel", 11, env);
      ASSERT_TRUE(hip >= -1 && hip < 0.5 && knee >= -1 && knee < 0.5 && rate >= 2 && rate < 3);
      const double values[3] = {hip, rate, rail};
      for (int k = 0; k < 3; ++k) {
        mean[k] += values[k] / count;
        square[k] += values[k] * values[k] / count;
      }
      product += (hip + 0.25) * (knee + 0.25) / count;
      lowest = std::min(lowest, hip);
      highest = std::max(highest, hip);
    }
  }
  // Five standard errors.
  EXPECT_NEAR(mean[0], -0.25, 5 * 1.5 / std::sqrt(12.0 * count));
  EXPECT_NEAR(mean[1], 2.5, 5 * 1 / std::sqrt(12.0 * count));
  EXPECT_NEAR(mean[2], -1, 5 * 0.5 / std::sqrt(count));
  EXPECT_NEAR(square[0] - mean[0] * mean[0], 1.5 * 1.5 / 12, 0.01);
  EXPECT_NEAR(square[2] - mean[2] * mean[2], 0.25, 5 * 0.25 * std::sqrt(2.0 / count));
  EXPECT_NEAR(product, 0, 5 * 1.5 * 1.5 / 12 / std::sqrt(count));
  EXPECT_LT(lowest, -0.995);
  EXPECT_GT(highest, 0.495);
}

// A definition is evaluated once in a reset, where it is used first: its draws are the same in all uses, also
// behind another definition, and a later assignment does not change it.
TYPED_TEST(TaskStep, DefinitionsAreDrawnOnce) {
  TaskConfig config = empty_task(zoo());
  config.definitions = {{"turn", "uniform(-pi, pi)"}, {"twice", "2 * turn"}, {"start", "qpos[hip] + turn"}};
  config.resets = {reset_term("qvel[0]", "cos(turn)"),     reset_term("qvel[1]", "sin(turn)"),
                   reset_term("qvel[2]", "twice - turn"),  reset_term("qvel[3]", "turn"),
                   reset_term("qpos[hip]", "start"),       reset_term("qvel[4]", "start"),
                   reset_term("qvel[5]", "uniform(0, 1)"), reset_term("qvel[6]", "uniform(0, 1)")};
  TaskRig<TypeParam> rig(config, zoo());
  EXPECT_EQ(rig.compiled.reset.num_random, 3);  // without a name each draw is its own
  rig.reset(kAll);
  for (int env = 0; env < kTileWidth; ++env) {
    const double c = rig.get("qvel", 0, env), s = rig.get("qvel", 1, env), turn = rig.get("qvel", 3, env);
    EXPECT_NEAR(c * c + s * s, 1, 1e-6);
    EXPECT_NEAR(std::atan2(s, c), turn, 1e-6);
    EXPECT_NEAR(rig.get("qvel", 2, env), turn, 2e-6);
    EXPECT_EQ(rig.get("qpos", kHip, env), rig.get("qvel", 4, env));
    EXPECT_NE(rig.get("qvel", 5, env), rig.get("qvel", 6, env));
  }
}

// The numbers of an environment are those of its global index, wherever it lies, whatever was reset with it.
TYPED_TEST(TaskStep, DrawsBelongToTheEnvironment) {
  TaskConfig config = empty_task(zoo());
  config.resets = {reset_term("qvel[0:5]", "uniform(0, 1, 5)"), reset_term("qvel[5]", "normal(0, 1)")};
  TaskRig<TypeParam> whole(config, zoo(), 0.02, 1000, 7), shifted(config, zoo(), 0.02, 1013, 7),
      other_seed(config, zoo(), 0.02, 1000, 8);
  whole.reset(kAll);
  std::vector<bool> one(kTileWidth);
  one[2] = true;  // environment 1015: number 15 of the first rig
  shifted.reset(one);
  other_seed.reset(kAll);
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(whole.get("qvel", i, 15), shifted.get("qvel", i, 2));
    EXPECT_NE(whole.get("qvel", i, 15), whole.get("qvel", i, 16));
    EXPECT_NE(whole.get("qvel", i, 15), other_seed.get("qvel", i, 15));
  }
  // Draw k: word k % 4 of block k / 4, of the environment's first reset.
  for (int k = 0; k < 5; ++k) {
    const PhiloxBlock block =
        random_block(7, RandomPurpose::reset, 1015, 0, static_cast<std::uint32_t>(k / 4));
    EXPECT_EQ(whole.get("qvel", k, 15), uniform01<typename TaskRig<TypeParam>::T>(block.word[k % 4]));
  }
  const auto first = whole.get("qvel", 0, 15);
  whole.reset(kAll);
  EXPECT_NE(whole.get("qvel", 0, 15), first);
  const PhiloxBlock second = random_block(7, RandomPurpose::reset, 1015, 1, 0);
  EXPECT_EQ(whole.get("qvel", 0, 15), uniform01<typename TaskRig<TypeParam>::T>(second.word[0]));
}

TYPED_TEST(TaskStep, EpisodeStepsAreSpread) {
  TaskRig<TypeParam> rig(empty_task(zoo()), zoo(), 0.02, 64, 3);
  rig.randomize_episode_steps(300);
  int low = 0;
  for (int env = 0; env < kTileWidth; ++env) {
    const int step = rig.counter(counter_episode_step, env);
    EXPECT_TRUE(step >= 0 && step < 300);
    low += step < 150;
  }
  EXPECT_TRUE(low > 4 && low < 28) << low;
}

TYPED_TEST(TaskStep, RootsAreReset) {
  TaskConfig config = empty_task(zoo());
  config.resets = {
      library_term("reset_root_state_uniform", {}, "", {{"x", {-1, 1}}, {"yaw", {-3, 3}}, {"vz", {2, 2}}})};
  TaskRig<TypeParam> rig(config, zoo());
  rig.reset(kAll);
  for (int env = 0; env < kTileWidth; ++env) {
    EXPECT_NEAR(rig.get("qpos", 0, env), 0.1, 1);
    EXPECT_FLOAT_EQ(static_cast<float>(rig.get("qpos", 1, env)), 0.2f);
    EXPECT_FLOAT_EQ(static_cast<float>(rig.get("qvel", 2, env)), 2.0f);
    // default * (c, 0, 0, s) with default = (0.6, 0, 0.8, 0)
    double q[4];
    for (int k = 0; k < 4; ++k) q[k] = rig.get("qpos", 3 + k, env);
    const double c = q[0] / 0.6, s = q[3] / 0.6;
    EXPECT_NEAR(c * c + s * s, 1, 1e-5);
    EXPECT_NEAR(q[1], 0.8 * s, 1e-6);
    EXPECT_NEAR(q[2], 0.8 * c, 1e-6);
  }
}

TEST(TaskResets, RefuseWhatIsNotKnownThen) {
  const auto refusal = [](const TermConfig& term) -> std::string {
    TaskConfig config = empty_task(zoo());
    config.resets = {term};
    try {
      compile_task(config, zoo(), 0.02);
    } catch (const InputError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(refusal(reset_term("qpos[hip]", "xpos[torso].x")), HasSubstr("'xpos' is not known while"));
  EXPECT_THAT(refusal(reset_term("qpos[hip]", "prev(qpos[hip])")),
              HasSubstr("'prev' while an environment is being reset"));
  EXPECT_THAT(refusal(reset_term("qpos", "[1, 2]")),
              HasSubstr("a vector of 2 is assigned to a vector of 14 ('qpos')"));
  EXPECT_THAT(refusal(reset_term("ctrl[0]", "1")), HasSubstr("'ctrl[0]' cannot be assigned"));
  EXPECT_THAT(refusal(reset_term("qpos[hip] + 1", "1")), HasSubstr("cannot be assigned"));
  EXPECT_THAT(refusal(reset_term("qpos[hipp]", "1")), HasSubstr("did you mean 'hip'?"));
  EXPECT_THAT(refusal(expression_term("1")), HasSubstr("an expression that sets nothing"));
  EXPECT_THAT(refusal(reset_term("qvel", "uniform(0, 1, 3.5)")), HasSubstr("not a number of random numbers"));
}

// A length that nothing reads would let episodes run forever, silently; a time-out without a length, too.
TEST(TaskEnds, LengthAndTimeOutBelongTogether) {
  TaskConfig config = empty_task(zoo());
  config.episode_length = 5;
  const auto refusal = [&]() -> std::string {
    try {
      compile_task(config, zoo(), 0.02);
    } catch (const InputError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(
      refusal(),
      HasSubstr("task.yaml:1: task.episode_length: 250 control steps, but no termination is a time-out"));
  config.terminations = {expression_term("time > 4", "late")};
  config.terminations[0].time_out = true;
  EXPECT_EQ(refusal(), "no error");
  config.terminations = {library_term("time_out")};
  EXPECT_EQ(refusal(), "no error");
  config.episode_length = 0;
  EXPECT_THAT(refusal(), HasSubstr("a time-out without an episode length"));
}

TEST(TaskNeeds, FieldsOfDataThatMustBeFresh) {
  const auto needs = [](const std::string& reward, const std::string& observation) {
    TaskConfig config = empty_task(zoo());
    config.rewards = {expression_term(reward, "r")};
    config.observations = {expression_term(observation)};
    const CompiledTask task = compile_task(config, zoo(), 0.02);
    return std::pair{task.evaluate_needs, task.observe_needs};
  };
  EXPECT_EQ(needs("qpos[hip]", "qvel"), std::pair(Derived::none, Derived::none));
  EXPECT_EQ(needs("xpos[torso].z", "qvel"), std::pair(Derived::kinematics, Derived::none));
  // the zoo's sensors are of positions and velocities
  EXPECT_EQ(needs("1", "sensordata"), std::pair(Derived::none, Derived::kinematics));
  EXPECT_EQ(needs("sum(qfrc_actuator^2)", "qacc"), std::pair(Derived::forward, Derived::forward));
  // what nothing depends on is not needed
  EXPECT_EQ(needs("0 * qpos[hip]", "select(1, qvel[0], qacc[0])"), std::pair(Derived::none, Derived::none));
  EXPECT_EQ(needs("com_z - prev(com_z)", "1"), std::pair(Derived::kinematics, Derived::kinematics));
}

TEST(TaskDigest, ChangesWithTheTask) {
  TaskConfig config = empty_task(zoo());
  const std::string digest = task_digest(compile_task(config, zoo(), 0.02));
  EXPECT_EQ(task_digest(compile_task(config, zoo(), 0.02)), digest);
  EXPECT_NE(task_digest(compile_task(config, zoo(), 0.04)), digest);
  config.actions[0].scale = 2;
  EXPECT_NE(task_digest(compile_task(config, zoo(), 0.02)), digest);
  config.actions[0].scale = 1;
  config.observations = {expression_term("0.5")};
  EXPECT_NE(task_digest(compile_task(config, zoo(), 0.02)), digest);
}

// The decks that come with the program.
CompiledTask deck_task(const std::string& name, Config& config, ImportedModel& model) {
  config = load_config({std::string(MANIPLE_SOURCE_DIR) + "/inputs/tasks/" + name + ".yaml"}, {});
  model = import_model(config.model, config.simulation);
  return compile_task(config.task, model, model.timestep * config.simulation.decimation);
}

// One pass serves all programs of a control step, and which one it is depends on the lanes beside an
// environment: what forward_kinematics fills, forward fills with the same bits.
TYPED_TEST(TaskStep, BothPassesAgreeOnKinematicFields) {
  using V = TypeParam;
  const ImportedModel& imported = zoo();
  SimulatedModel<V> whole(imported), part(imported);
  std::mt19937 generator(4);
  std::normal_distribution<double> noise(0, 0.3);
  for (SimulatedModel<V>* model : {&whole, &part}) {
    generator.seed(4);
    for (int i = 0; i < imported.sizes.nq; ++i)
      model->state.qpos[i] += V(static_cast<ScalarOf<V>>(noise(generator)));
    for (int i = 0; i < imported.sizes.nv; ++i)
      model->state.qvel[i] = V(static_cast<ScalarOf<V>>(noise(generator)));
  }
  whole.forward();
  forward_kinematics<V>(part.model(), part.state, part.data);
  int compared = 0;
  for (const FieldInfo& field : data_fields(imported.sizes)) {
    if (field.size == 0) continue;
    TaskConfig config = empty_task(imported);
    config.observations = {expression_term(field.name)};
    if (compile_task(config, imported, 0.02).observe_needs != Derived::kinematics) continue;
    ++compared;
    const V* const a = &whole.data.xpos[0] - xpos_first(imported) + field.first;
    const V* const b = &part.data.xpos[0] - xpos_first(imported) + field.first;
    EXPECT_EQ(std::memcmp(a, b, sizeof(V) * static_cast<std::size_t>(field.size)), 0) << field.name;
  }
  EXPECT_GE(compared, 15);
}

// Isaac-Cartpole-v0: observations, rewards and ends of an episode against the formulas of its definition.
TEST(TaskDecks, IsaacCartpole) {
  Config config;
  ImportedModel model;
  const CompiledTask task = deck_task("isaac_cartpole", config, model);
  EXPECT_EQ(task.num_actions, 1);
  EXPECT_EQ(task.num_observations, 4);
  EXPECT_EQ(task.max_episode_steps, 300);
  EXPECT_EQ(task.reward_names,
            (std::vector<std::string>{"alive", "terminating", "pole_pos", "cart_vel", "pole_vel"}));
  EXPECT_EQ(task.evaluate_needs, Derived::none);
  EXPECT_EQ(task.observe_needs, Derived::none);
  TaskRig<Lanes<float>> rig(config.task, model, task.step_dt);
  rig.reset(kAll);
  for (int env = 0; env < kTileWidth; ++env) {
    EXPECT_LE(std::abs(rig.get("qpos", 0, env)), 1.0f);
    EXPECT_LE(std::abs(rig.get("qvel", 0, env)), 0.5f);
    EXPECT_LE(std::abs(rig.get("qpos", 1, env)), 0.7853982f);
    EXPECT_LE(std::abs(rig.get("qvel", 1, env)), 0.7853982f);
  }
  rig.fill_randomly(1);
  for (int env = 0; env < kTileWidth; ++env) rig.set("qpos", 0, env, 2 * rig.get("qpos", 0, env));
  rig.apply_actions();
  rig.evaluate();
  rig.observe();
  for (int env = 0; env < kTileWidth; ++env) {
    const double x = rig.get("qpos", 0, env), angle = rig.get("qpos", 1, env), v = rig.get("qvel", 0, env),
                 w = rig.get("qvel", 1, env);
    EXPECT_FLOAT_EQ(rig.get("ctrl", 0, env), 100 * rig.at(rig.action, 0, env));
    const double out = std::abs(x) > 3;
    EXPECT_EQ(rig.at(rig.terminated, 0, env), out);
    const double reward = (1 - out) - 2 * out - angle * angle - 0.01 * std::abs(v) - 0.005 * std::abs(w);
    EXPECT_NEAR(rig.at(rig.reward, 0, env), reward / 60, 1e-6);
    const double seen[4] = {x, angle, v, w};
    for (int k = 0; k < 4; ++k) EXPECT_FLOAT_EQ(rig.at(rig.observation, k, env), static_cast<float>(seen[k]));
  }
}

TEST(TaskDecks, IsaacCartpoleDirect) {
  Config config;
  ImportedModel model;
  const CompiledTask task = deck_task("isaac_cartpole_direct", config, model);
  TaskRig<Lanes<float>> rig(config.task, model, task.step_dt);
  rig.reset(kAll);
  for (int env = 0; env < kTileWidth; ++env) {
    EXPECT_EQ(rig.get("qpos", 0, env), 0.0f);
    EXPECT_LE(std::abs(rig.get("qpos", 1, env)), 0.7853982f);
    EXPECT_EQ(rig.get("qvel", 1, env), 0.0f);
  }
  rig.fill_randomly(1);
  for (int env = 0; env < kTileWidth; ++env) rig.set("qpos", 0, env, 2 * rig.get("qpos", 0, env));
  rig.evaluate();
  rig.observe();
  for (int env = 0; env < kTileWidth; ++env) {
    const double x = rig.get("qpos", 0, env), angle = rig.get("qpos", 1, env), v = rig.get("qvel", 0, env),
                 w = rig.get("qvel", 1, env);
    const double out = std::abs(x) > 3 || std::abs(angle) > std::acos(-1.0) / 2;
    EXPECT_EQ(rig.at(rig.terminated, 0, env), out);
    EXPECT_NEAR(rig.at(rig.reward, 0, env),
                (1 - out) - 2 * out - angle * angle - 0.01 * std::abs(v) - 0.005 * std::abs(w), 1e-5);
    const double seen[4] = {angle, w, x, v};
    for (int k = 0; k < 4; ++k) EXPECT_FLOAT_EQ(rig.at(rig.observation, k, env), static_cast<float>(seen[k]));
  }
}

TEST(TaskDecks, PendulumSwingup) {
  Config config;
  ImportedModel model;
  const CompiledTask task = deck_task("pendulum_swingup", config, model);
  EXPECT_EQ(task.num_observations, 4);
  EXPECT_EQ(task.max_episode_steps, 500);
  EXPECT_EQ(task.num_memory, 1);
  EXPECT_EQ(task.evaluate_needs, Derived::kinematics);
}

}  // namespace
}  // namespace maniple
