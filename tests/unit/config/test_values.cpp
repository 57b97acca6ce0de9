// Values of a deck: types, ranges, choices, unknown keys, and where messages point.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "src/config/presets.hpp"
#include "tests/unit/config/deck_files.hpp"

namespace maniple {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(Values, DefaultsComeFromTheStruct) {
  const Config config = DeckFiles().load("");
  EXPECT_EQ(config.batch.num_envs, Config().batch.num_envs);
  EXPECT_EQ(config.learning.learning_rate, Config().learning.learning_rate);
  EXPECT_EQ(config.output.trajectory_fields, Config().output.trajectory_fields);
  EXPECT_FALSE(config.task.present);
}

TEST(Values, EveryTypeIsRead) {
  const Config config = DeckFiles().load(R"(
batch: {num_envs: 1e6, seed: 4294967295}
simulation: {precision: "double", timestep: 5.0e-3, decimation: 4, inject_nan_env: -1}
initial_state: {source: keyframe, keyframe: 2}
output: {trajectory: {every: 3, fields: [qpos, xpos]}}
policy: {hidden: [64, 32, 16], shared: false}
learning: {learning_rate: +1e-3, lr_min: 1e-4}
)");
  EXPECT_EQ(config.batch.num_envs, 1000000);
  EXPECT_EQ(config.batch.seed, 4294967295u);
  EXPECT_EQ(config.simulation.precision, Precision::fp64);
  EXPECT_DOUBLE_EQ(config.simulation.timestep, 0.005);
  EXPECT_EQ(config.simulation.decimation, 4);
  EXPECT_EQ(config.initial_state.keyframe, "2");
  EXPECT_EQ(config.output.trajectory_every, 3);
  EXPECT_THAT(config.output.trajectory_fields, ElementsAre("qpos", "xpos"));
  EXPECT_THAT(config.policy.hidden, ElementsAre(64, 32, 16));
  EXPECT_FALSE(config.policy.shared);
  EXPECT_DOUBLE_EQ(config.learning.learning_rate, 0.001);
}

TEST(Values, OneNameStandsForAListOfOne) {
  EXPECT_THAT(DeckFiles().load("output: {trajectory: {fields: qvel}}").output.trajectory_fields,
              ElementsAre("qvel"));
}

TEST(Values, UnknownKeyNamesPlaceAndNearest) {
  const DeckFiles files;
  EXPECT_EQ(files.refusal("batch:\n  seed: 1\n  num_env: 5\n"),
            files.path("deck.yaml") +
                ":3: batch.num_env: found an unknown key; nearest known key: batch.num_envs; 'maniple "
                "schema' lists all keys");
  // a misspelt section, a swap of letters, the right name in the wrong section, a member's name
  EXPECT_THAT(files.refusal("simulaton: {steps: 3}"), HasSubstr("nearest known key: simulation;"));
  EXPECT_THAT(files.refusal("learning: {gmama: 0.9}"), HasSubstr("nearest known key: learning.gamma;"));
  EXPECT_THAT(files.refusal("seed: 3"), HasSubstr("nearest known key: batch.seed;"));
  EXPECT_THAT(files.refusal("output: {trajectory_every: 3}"), HasSubstr("output.trajectory.every;"));
  EXPECT_THAT(files.refusal("task: {reward: {}}"), HasSubstr("nearest known key: task.rewards;"));
  // nothing is near
  EXPECT_THAT(files.refusal("zzzzzzzzzz: 3"), AllOf(HasSubstr("unknown key"), Not(HasSubstr("nearest"))));
  // a path is not a name
  EXPECT_THAT(files.refusal("batch.seed: 3"), AllOf(HasSubstr("unknown key"), HasSubstr("nested keys")));
}

TEST(Values, WrongTypesAreRefused) {
  const DeckFiles files;
  EXPECT_EQ(
      files.refusal("\nbatch:\n  num_envs: many\n"),
      files.path("deck.yaml") + ":3: batch.num_envs: found 'many'; allowed: integer, 1 to 1000000000000");
  for (const char* value : {"1.5", "\"5\"", "5x", "0x10", "", "[5]", "{a: 5}", ".nan", "true", "1e400"})
    EXPECT_THAT(files.refusal("batch: {num_envs: " + std::string(value) + "}"),
                HasSubstr("batch.num_envs: found"))
        << value;
  for (const char* value : {"yes", "1", "\"true\"", "[true]", ""})
    EXPECT_THAT(files.refusal("policy: {shared: " + std::string(value) + "}"),
                HasSubstr("allowed: true or false"))
        << value;
  for (const char* value : {"inf", "nan", "fast", "\"0.1\"", "[0.1]"})
    EXPECT_THAT(files.refusal("learning: {gamma: " + std::string(value) + "}"),
                HasSubstr("allowed: number, 0 to 1"))
        << value;
  for (const char* value : {"[32, 1.5]", "[a]", "[[32]]", "text", "{a: 1}", "[0]", "[]"})
    EXPECT_THAT(files.refusal("policy: {hidden: " + std::string(value) + "}"),
                HasSubstr("allowed: list of integers"))
        << value;
  EXPECT_THAT(files.refusal("batch: 5"),
              HasSubstr("batch: found '5'; allowed: a mapping with num_envs, seed"));
  EXPECT_THAT(files.refusal("- batch"), HasSubstr("deck.yaml:1: found a list"));
}

TEST(Values, RangesAndChoicesAreChecked) {
  const DeckFiles files;
  EXPECT_THAT(files.refusal("batch: {num_envs: 0}"), HasSubstr("found '0'; allowed: integer, 1 to"));
  EXPECT_THAT(files.refusal("batch: {seed: -1}"), HasSubstr("allowed: integer, 0 to 4294967295"));
  EXPECT_THAT(files.refusal("batch: {seed: 4294967296}"), HasSubstr("allowed: integer, 0 to 4294967295"));
  EXPECT_THAT(files.refusal("learning: {gamma: 1.0001}"), HasSubstr("allowed: number, 0 to 1"));
  EXPECT_THAT(files.refusal("learning: {learning_rate: 0}"), HasSubstr("allowed: number, above 0"));
  EXPECT_EQ(files.refusal("learning: {gamma: 1}"), "");
  EXPECT_THAT(files.refusal("simulation: {precision: half}"),
              HasSubstr("found 'half'; allowed: single | double"));
  EXPECT_THAT(files.refusal("simulation: {integrator: rk4}"),
              HasSubstr("allowed: \"\" | Euler | RK4 | implicit | implicitfast"));
}

TEST(Values, NullIsTheDefaultAndNothingIsRefused) {
  const DeckFiles files;
  EXPECT_EQ(files.load("batch: {seed: ~}").batch.seed, 42u);
  EXPECT_EQ(files.load("batch:\n  seed: null # not given\n").batch.seed, 42u);
  EXPECT_THAT(files.refusal("batch:\n  seed:\n  num_envs: 5\n"), HasSubstr("batch.seed: found nothing"));
  // the key after it starts like null
  EXPECT_THAT(files.refusal("batch:\n  seed:\nnull_key: 5\n"), HasSubstr("found"));
  // a section whose keys are all commented out
  EXPECT_EQ(files.load("batch:\n#  seed: 5\n").batch.seed, 42u);
}

TEST(Values, PlacesOfValuesAreKept) {
  const Config config = DeckFiles().load(
      "batch:\n  num_envs: 5\noutput:\n  trajectory:\n    fields: [qpos]\n", {"batch.seed=7"});
  EXPECT_EQ(config.where_of("batch.num_envs").line, 2);
  EXPECT_EQ(config.where_of("batch.num_envs").column, 13);
  EXPECT_THAT(config.where_of("batch.num_envs").text(), testing::EndsWith("deck.yaml:2"));
  EXPECT_EQ(config.where_of("batch.seed").text(), "command line");
  EXPECT_THAT(config.where_of("learning.gamma").text(), testing::EndsWith("deck.yaml"));
  EXPECT_EQ(config.output.where_fields.line, 5);
}

// Every preset is a deck that the schema takes; what the deck says itself wins, wherever it stands.
TEST(Values, PresetsGiveOtherDefaults) {
  const DeckFiles files;
  for (const Preset& preset : presets()) {
    const Config config = files.load("learning: {preset: " + preset.name + "}");
    EXPECT_EQ(config.learning.preset, preset.name);
    EXPECT_TRUE(config.where.count("learning.gamma") == 0);
    // the resolved deck says all of it
    const Config again = files.load(config.resolved_text);
    EXPECT_EQ(again.resolved_text, config.resolved_text);
  }
  EXPECT_EQ(presets().front().name, LearningConfig().preset);
  const Config cleanrl =
      files.load("learning: {gamma: 0.9, preset: cleanrl, epochs: 3}\nbatch: {num_envs: 64}");
  EXPECT_EQ(cleanrl.learning.gamma, 0.9);
  EXPECT_EQ(cleanrl.learning.epochs, 3);
  EXPECT_EQ(cleanrl.batch.num_envs, 64);
  EXPECT_EQ(cleanrl.learning.minibatches, 32);
  EXPECT_EQ(cleanrl.learning.schedule, RateSchedule::linear);
  EXPECT_EQ(
      files.load("learning: {preset: maniple}", {"learning.preset=rsl_rl_cartpole"}).learning.entropy_coef,
      0.005);
  const PolicyConfig brax = files.load("learning: {preset: brax}").policy;
  EXPECT_EQ(brax.activation, ActivationChoice::silu);
  EXPECT_EQ(brax.critic_hidden, std::vector<int>(5, 256));
  EXPECT_TRUE(brax.squash_actions && brax.state_dependent_std);
  // softplus of a network that gives zeros
  EXPECT_DOUBLE_EQ(brax.init_std, std::log(2.0) + brax.min_std);
  EXPECT_THAT(files.refusal("learning:\n  preset: rl_game_cartpole\n"),
              HasSubstr("deck.yaml:2: learning.preset: found 'rl_game_cartpole'; nearest: rl_games_cartpole; "
                        "allowed: maniple | "));
  EXPECT_THAT(files.refusal("learning: {preset: [a]}"), HasSubstr("found a list"));
}

TEST(Values, KeysThatContradictEachOtherAreRefused) {
  const DeckFiles files;
  files.write("data.h5", "");
  EXPECT_THAT(files.refusal("batch: {num_envs: 40}\nlearning:\n  minibatches: 33\n  horizon: 16\n"),
              HasSubstr("deck.yaml:3: learning.minibatches: found 33 with learning.horizon 16 and "
                        "batch.num_envs 40; allowed: integer, 1 to 32"));
  EXPECT_EQ(files.refusal("batch: {num_envs: 40}\nlearning: {minibatches: 32, horizon: 16}"), "");
  EXPECT_THAT(files.refusal("learning: {horizon: 2, minibatches: 4}"),
              HasSubstr("learning.minibatches: found 4"));
  EXPECT_EQ(files.refusal("learning: {horizon: 2}"), "");  // nobody asked for four
  EXPECT_THAT(
      files.refusal("batch: {num_envs: 100}\npolicy: {recurrent: gru}\nlearning: {minibatches: 5}"),
      HasSubstr(
          "found 5 with policy.recurrent gru and batch.num_envs 100; allowed: integer, 1 to 4, blocks"));
  EXPECT_THAT(files.refusal("policy: {state_dependent_std: true, fixed_std: true}"),
              HasSubstr("policy.fixed_std"));
  EXPECT_THAT(
      files.refusal(
          "learning: {preset: robomimic, loss: gaussian}\npolicy: {fixed_std: true, squash_actions: false}"),
      HasSubstr("policy.fixed_std: found true with learning.loss: gaussian"));
  EXPECT_EQ(files.refusal("policy: {min_std: 0.1}"), "");
  EXPECT_THAT(files.refusal("policy: {min_std: 0.1, max_std: 0.05}"),
              HasSubstr("policy.min_std: found 0.1; allowed: at most policy.max_std (0.05)"));
  EXPECT_THAT(files.refusal("policy: {max_std: 2, fixed_std: true}"),
              HasSubstr("policy.max_std: set, but policy.fixed_std is true"));
  EXPECT_THAT(files.refusal("policy: {max_std: 0.5, init_std: 1}"),
              HasSubstr("policy.init_std: found 1; allowed: at least policy.min_std (0), at most"));
  EXPECT_THAT(files.refusal("policy: {std_transform: softplus}"),
              HasSubstr("policy.std_transform: set, but policy.state_dependent_std is false"));
  EXPECT_THAT(files.refusal("learning: {curricula: {horizon: \"3\"}}"),
              HasSubstr("learning.curricula.horizon: found a number that cannot have a curriculum; allowed: "
                        "learning_rate"));
  EXPECT_THAT(files.refusal("learning: {curricula: {learning_rate: \"3\"}}"),
              HasSubstr("set, but learning.schedule is adaptive; allowed: with learning.schedule: fixed"));
  EXPECT_THAT(files.refusal("policy: {state_dependent_std: true, min_std: 0.5, init_std: 0.2}"),
              HasSubstr("policy.init_std: found 0.2; allowed: at least policy.min_std (0.5)"));
  EXPECT_THAT(files.refusal("policy: {shared: true, critic_hidden: [8]}"), HasSubstr("policy.critic_hidden"));
  EXPECT_THAT(files.refusal("learning: {target_kl: 0.1, kl_reference: previous_epoch}"),
              HasSubstr("learning.target_kl"));
  EXPECT_THAT(files.refusal("learning: {lr_min: 0.1, lr_max: 0.01}"), HasSubstr("learning.lr_min"));
  EXPECT_THAT(files.refusal("learning: {learning_rate: 0.1}"),
              HasSubstr("learning.learning_rate: found 0.1"));
  EXPECT_EQ(files.refusal("learning: {learning_rate: 0.1, schedule: fixed}"), "");
  EXPECT_THAT(files.refusal("control: {source: file}"),
              HasSubstr("without control.file; allowed: with control.file, an HDF5 file with /ctrl ["));
  EXPECT_THAT(files.refusal("task: {name: x}\ncontrol: {source: file}"), HasSubstr("with /action ["));
  EXPECT_THAT(files.refusal("control: {source: policy}"), HasSubstr("without control.checkpoint"));
  EXPECT_THAT(files.refusal("control: {source: policy, checkpoint: .}"), HasSubstr("without a task"));
  for (const char* source : {"", ", source: zero", ", source: random"})
    EXPECT_THAT(files.refusal("control: {file: data.h5" + std::string(source) + "}"),
                HasSubstr("found a file that nothing reads with control.source: "));
  EXPECT_EQ(files.refusal("control: {file: data.h5, source: file}"), "");
  EXPECT_THAT(files.refusal("initial_state: {source: file}"), HasSubstr("without initial_state.file"));
  EXPECT_THAT(files.refusal("initial_state: {file: data.h5}"), HasSubstr("that nothing reads"));
  EXPECT_THAT(files.refusal("initial_state: {keyframe: home}"), HasSubstr("that nothing reads"));
  EXPECT_THAT(files.refusal("initial_state: {source: task}"), HasSubstr("without a task"));
  EXPECT_THAT(files.refusal("output: {directory: \"\"}"), HasSubstr("output.directory: found an empty path"));
  EXPECT_THAT(files.refusal("output: {trajectory: {every: 1, fields: []}}"), HasSubstr("at least one field"));
  EXPECT_THAT(files.refusal("simulation: {inject_nan_env: 5}\nbatch: {num_envs: 5}"),
              HasSubstr("simulation.inject_nan_env: found 5 with batch.num_envs 5"));
}

}  // namespace
}  // namespace maniple
