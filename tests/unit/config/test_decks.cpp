// Whole decks: includes, merging, overrides, files, and the resolved deck.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <sstream>

#include "src/config/dump.hpp"
#include "src/config/paths.hpp"
#include "src/config/schema.hpp"
#include "tests/unit/config/deck_files.hpp"

namespace maniple {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string refusal_of(const std::vector<std::string>& decks,
                       const std::vector<std::string>& overrides = {}) {
  try {
    load_config(decks, overrides, false);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

std::vector<std::string> names(const std::vector<TermConfig>& terms) {
  std::vector<std::string> list;
  for (const TermConfig& term : terms) list.push_back(term.name);
  return list;
}

TEST(Include, IsReadFirstAndRelativeToItsDeck) {
  const DeckFiles files;
  files.write("common/base.yaml", "include: deeper/model.yaml\nbatch: {num_envs: 10, seed: 1}\n");
  files.write("common/deeper/model.yaml", "model: {file: ../../robot.xml}\nbatch: {seed: 9}\n");
  const std::string top = files.write("run/top.yaml", "batch: {seed: 2}\ninclude: [../common/base.yaml]\n");
  const Config config = load_config({top}, {});
  EXPECT_EQ(config.batch.num_envs, 10);
  EXPECT_EQ(config.batch.seed, 2u);
  EXPECT_EQ(config.model.path, std::filesystem::path(files.path("robot.xml")).lexically_normal());
  EXPECT_THAT(config.model.where.text(), EndsWith("common/deeper/model.yaml:1"));
}

TEST(Include, LaterDecksOverrideEarlierOnes) {
  const DeckFiles files;
  const std::string a = files.write("a.yaml", "batch: {seed: 1, num_envs: 3}");
  const std::string b = files.write("b.yaml", "batch: {seed: 2}");
  const std::string both = files.write("both.yaml", "include: [a.yaml, b.yaml]");
  EXPECT_EQ(load_config({a, b}, {}, false).batch.seed, 2u);
  EXPECT_EQ(load_config({b, a}, {}, false).batch.seed, 1u);
  EXPECT_EQ(load_config({both}, {}, false).batch.seed, 2u);
  EXPECT_EQ(load_config({both}, {}, false).batch.num_envs, 3);
}

TEST(Include, CyclesAndMissingDecksAreRefusedWhereTheyAreIncluded) {
  const DeckFiles files;
  files.write("a.yaml", "\ninclude: b.yaml\n");
  files.write("b.yaml", "include:\n  - c.yaml\n  - a.yaml\n");
  files.write("c.yaml", "");
  EXPECT_THAT(refusal_of({files.path("a.yaml")}),
              AllOf(HasSubstr("b.yaml:3: include: found a deck that includes itself"),
                    HasSubstr("a.yaml -> b.yaml -> a.yaml")));
  files.write("d.yaml", "include: none.yaml");
  EXPECT_THAT(refusal_of({files.path("d.yaml")}), HasSubstr("d.yaml:1: include: found no file"));
  EXPECT_THAT(refusal_of({files.path("nothing.yaml")}), StartsWith("command line: found no file"));
  EXPECT_THAT(refusal_of({files.path("")}), HasSubstr("which cannot be read"));
  // the same deck twice, side by side, is no cycle
  files.write("e.yaml", "include: [c.yaml, c.yaml]");
  EXPECT_EQ(refusal_of({files.path("e.yaml")}), "");
}

TEST(Merge, MappingsMergeListsAndScalarsReplace) {
  const DeckFiles files;
  files.write("base.yaml", R"(
policy: {hidden: [64, 64], activation: tanh}
task:
  actions: [{term: joint_effort, joints: [a]}]
  rewards:
    alive: {term: alive, weight: 2}
    speed: {expression: "qvel[a]", weight: -1}
)");
  const Config config = files.load(R"(
include: base.yaml
policy: {hidden: [16]}
task:
  actions: [{term: joint_effort, joints: [b]}]
  rewards:
    alive: {weight: 3}
    extra: {expression: "1"}
)");
  EXPECT_THAT(config.policy.hidden, ElementsAre(16));
  EXPECT_EQ(config.policy.activation, ActivationChoice::tanh);
  ASSERT_EQ(config.task.actions.size(), 1u);
  EXPECT_THAT(config.task.actions[0].names, ElementsAre("b"));
  EXPECT_THAT(names(config.task.rewards), ElementsAre("alive", "speed", "extra"));
  EXPECT_EQ(config.task.rewards[0].weight, 3);
  EXPECT_EQ(config.task.rewards[0].term, "alive");
  // null takes a setting or a term away
  EXPECT_EQ(files.load("include: base.yaml\ntask: {rewards: {alive: {weight: ~}}}").task.rewards[0].weight,
            1);
  EXPECT_THAT(names(files.load("include: base.yaml\ntask: {rewards: {alive: ~}}").task.rewards),
              ElementsAre("speed"));
}

TEST(Yaml, DuplicateKeysAreRefused) {
  const DeckFiles files;
  EXPECT_THAT(files.refusal("batch:\n  seed: 1\n  num_envs: 2\n  seed: 3\n"),
              HasSubstr("deck.yaml:4: batch.seed: found the key a second time (first on line 2)"));
  EXPECT_THAT(files.refusal("task: {rewards: {a: {expression: 1}, a: {expression: 2}}}"),
              HasSubstr("task.rewards.a: found the key a second time"));
}

TEST(Yaml, BrokenDecksAreRefusedWithTheirLine) {
  const DeckFiles files;
  EXPECT_THAT(files.refusal("batch:\n  seed: [1, 2\nmodel: {}\n"), HasSubstr("not YAML"));
  EXPECT_THAT(files.refusal("batch:\n  seed: 1\n num_envs: 3\n"),
              HasSubstr("deck.yaml:3: found text that is not YAML"));
  EXPECT_THAT(files.refusal("a: 1\n---\nb: 2\n"), HasSubstr("second YAML document"));
  EXPECT_THAT(files.refusal("task: &loop\n  definitions: *loop\n"), HasSubstr("nested more than"));
  EXPECT_THAT(files.refusal("? [a, b]\n: 1\n"), HasSubstr("a key that is not plain text"));
}

// The parser itself would take all that follows for the text.
TEST(Yaml, QuotesThatStayOpenAreRefused) {
  const DeckFiles files;
  EXPECT_THAT(files.refusal("task:\n  name: \"x\nbatch:\n  num_envs: 7\n"),
              HasSubstr("deck.yaml:2: task.name: found a quotation mark without a closing one"));
  EXPECT_THAT(files.refusal("task:\n  name: 'it''s\nbatch:\n  num_envs: 7\n"), HasSubstr("deck.yaml:2"));
  EXPECT_THAT(files.refusal("output:\n  directory: \"a\\\"\n"), HasSubstr("without a closing one"));
  EXPECT_EQ(files.refusal("output:\n  directory: 'it''s \"\n    b'\nbatch: {num_envs: 2}\n"), "");
}

TEST(Yaml, NothingIsTakenOutWhereNothingIs) {
  const DeckFiles files;
  files.write("base.yaml", "task: {events: {push: {term: x, mode: reset}}, definitions: {up: '1'}}\n");
  EXPECT_THAT(
      files.refusal("include: base.yaml\ntask:\n  events:\n    pusch: ~\n"),
      HasSubstr("deck.yaml:4: task.events.pusch: found ~ where there is nothing to take out; nearest: push; "
                "allowed: the name of an entry"));
  EXPECT_THAT(files.refusal("include: base.yaml\ntask: {rewards: {slip: ~}}\n"),
              HasSubstr("task.rewards.slip: found ~ where"));
  EXPECT_THAT(files.refusal("include: base.yaml\ntask: {definitions: {upp: ~}}\n"), HasSubstr("nearest: up"));
  EXPECT_EQ(
      files.refusal("include: base.yaml\ntask: {events: {push: ~}, definitions: {up: ~}, rewards: ~}\n"), "");
}

TEST(Override, ValuesAreYamlAndWinOverDecks) {
  const DeckFiles files;
  const Config config =
      files.load("batch: {num_envs: 5}\ntask: {actions: [{term: joint_effort, scale: 1}]}",
                 {"batch.num_envs=7", "batch.num_envs=8", "policy.hidden=[8, 8]", "task.actions.0.scale=4",
                  "task.rewards.up={expression: 'cos(qpos[a])', weight: 2}", "output.directory=a=b",
                  "simulation.integrator=''"});
  EXPECT_EQ(config.batch.num_envs, 8);
  EXPECT_THAT(config.policy.hidden, ElementsAre(8, 8));
  EXPECT_EQ(config.task.actions[0].scale, 4);
  EXPECT_EQ(config.task.actions[0].term, "joint_effort");
  EXPECT_EQ(config.task.rewards.at(0).expression, "cos(qpos[a])");
  EXPECT_EQ(config.output.directory, "a=b");
  EXPECT_EQ(config.where_of("batch.num_envs").text(), "command line");
  // keys alone are enough
  EXPECT_EQ(load_config({}, {"model.file=" + files.path("robot.xml")}).model.path, files.path("robot.xml"));
}

TEST(Override, NullAsksForTheDefault) {
  const DeckFiles files;
  EXPECT_EQ(files.load("batch: {seed: 5}", {"batch.seed=~"}).batch.seed, 42u);
  EXPECT_FALSE(files.load("task: {name: x}", {"task=~"}).task.present);
}

TEST(Override, BadOnesAreRefused) {
  const DeckFiles files;
  for (const char* text : {"=3", "batch..seed=3", ".seed=3", "batch.=3"})
    EXPECT_THAT(files.refusal("", {text}), AllOf(StartsWith("command line: "), HasSubstr("key.path=value")))
        << text;
  EXPECT_THAT(
      files.refusal("", {"batch.num_env=3"}),
      StartsWith("command line: batch.num_env: found an unknown key; nearest known key: batch.num_envs"));
  EXPECT_THAT(files.refusal("", {"batch.seed="}), StartsWith("command line: batch.seed: found nothing"));
  EXPECT_THAT(files.refusal("", {"batch.seed=[1"}),
              StartsWith("command line: batch.seed: found text that is not YAML"));
  EXPECT_THAT(files.refusal("batch: {seed: 1}", {"batch.seed.x=1"}),
              HasSubstr("batch.seed: found a mapping"));
  EXPECT_THAT(files.refusal("task: {actions: [{term: a}]}", {"task.actions.1.scale=2"}),
              HasSubstr("found '1' as an entry of task.actions; allowed: 0 to 0"));
  EXPECT_THAT(files.refusal("", {"include=x.yaml"}), HasSubstr("include: found an unknown key"));
}

TEST(Files, AreRelativeToTheirDeckOrTheWorkingDirectory) {
  const DeckFiles files;
  files.write("data/ctrl.h5", "");
  files.write("data/start.h5", "");
  files.write("data/part.yaml",
              "control: {source: file, file: ctrl.h5}\ninitial_state: {source: file, file: start.h5}");
  const Config config = files.load("include: data/part.yaml\nmodel: {file: robot.xml}");
  EXPECT_EQ(config.control.file, files.path("data/ctrl.h5"));
  EXPECT_THAT(config.control.where.text(), EndsWith("data/part.yaml:1"));
  EXPECT_EQ(config.initial_state.file, files.path("data/start.h5"));
  EXPECT_EQ(config.model.file, "robot.xml");
  EXPECT_EQ(config.model.path, files.path("robot.xml"));

  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(files.path("data"));
  const std::string refusal = files.refusal("", {"model.file=robot.xml"});
  const Config from_here = files.load("", {"model.file=../robot.xml"});
  std::filesystem::current_path(before);
  EXPECT_THAT(refusal, AllOf(StartsWith("command line: model.file: found 'robot.xml', that is "),
                             HasSubstr("which does not exist")));
  EXPECT_EQ(from_here.model.path, files.path("robot.xml"));
}

TEST(Files, MissingOnesAreRefused) {
  const DeckFiles files;
  EXPECT_THAT(
      files.refusal("\nmodel:\n  file: none.xml\n"),
      AllOf(HasSubstr("deck.yaml:3: model.file: found 'none.xml'"), HasSubstr(files.path("none.xml"))));
  EXPECT_THAT(files.refusal("model: {file: .}"), HasSubstr("which is no file"));
  EXPECT_THAT(files.refusal("control: {source: file, file: none.h5}"),
              AllOf(HasSubstr("control.file: found 'none.h5'"), HasSubstr("an HDF5 file with /ctrl [")));
  EXPECT_THAT(files.refusal("task: {name: x}\ncontrol: {source: file, file: none.h5}"),
              HasSubstr("an HDF5 file with /action [env or 1, step, actions]"));
  EXPECT_THAT(files.refusal("task: {name: x}\ncontrol: {source: policy, checkpoint: none}"),
              HasSubstr("control.checkpoint: found 'none'"));
  EXPECT_EQ(files.refusal("task: {name: x}\ncontrol: {source: policy, checkpoint: .}"), "");
  try {
    load_config({}, {"batch.seed=3"});
    ADD_FAILURE() << "accepted without a model";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), StartsWith("command line: model.file: found nothing"));
  }
}

// VIRTUAL_ENV for the length of a test.
class ActiveEnvironment {
 public:
  explicit ActiveEnvironment(const std::string& directory) {
    if (const char* before = std::getenv("VIRTUAL_ENV")) before_ = before;
    ::setenv("VIRTUAL_ENV", directory.c_str(), 1);
  }
  ~ActiveEnvironment() {
    if (before_.empty())
      ::unsetenv("VIRTUAL_ENV");
    else
      ::setenv("VIRTUAL_ENV", before_.c_str(), 1);
  }

 private:
  std::string before_;
};

TEST(Package, IsFoundInTheActiveEnvironment) {
  const DeckFiles files;
  const std::string model =
      files.write("env/lib/python3.99/site-packages/robots_of_test/arm/arm.xml", "<mujoco/>");
  const ActiveEnvironment active(files.path("env"));
  EXPECT_EQ(python_package_directory("robots_of_test"),
            files.path("env/lib/python3.99/site-packages/robots_of_test"));
  EXPECT_EQ(python_package_directory("robots_of_tests"), "");
  EXPECT_EQ(python_package_directory(""), "");
  EXPECT_EQ(python_package_directory("../robots_of_test"), "");
  EXPECT_EQ(python_package_directory("robots_of_test/arm"), "") << "a name, not a path";
  EXPECT_EQ(files.load("model: {file: package:robots_of_test/arm/arm.xml}").model.path, model);
  EXPECT_THAT(files.refusal("model: {file: package:robots_of_test/leg.xml}"),
              HasSubstr("which does not exist"));
  EXPECT_THAT(files.refusal("model: {file: package:nothing_here/leg.xml}"),
              HasSubstr("model.file: found no Python package 'nothing_here'"));
  EXPECT_THAT(files.refusal("model: {file: package:robots_of_test}"),
              HasSubstr("package:<python package>/<path>"));
}

constexpr const char* kFullDeck = R"deck(
model: {file: robot.xml, limits: false}
batch: {num_envs: 123456789, seed: 7}
simulation: {precision: double, timestep: 0.00123456789012345, integrator: RK4}
initial_state: {source: task}
output: {directory: "runs/a b", trajectory: {every: 4, fields: [qpos, reward]}}
task:
  name: "swing \"up\""
  episode_length: 5
  reward_times_dt: false
  definitions: {height: "-cos(qpos[hinge])", big: "1e3"}
  actions:
    - {term: joint_effort, joints: [slider, hinge], scale: {slider: 100, ".*": 2}, offset: [0.5, 1], clip: [-1, 1]}
  observations:
    - term: joint_pos_rel
    - {name: up, expression: "height", scale: 2, clip: [-5, 5], noise: 0.1, bias: [-1, 2], delay: 3, history: 2}
    - {expression: "qvel[hinge] * 0.1"}
  critic_observations:
    - {expression: "qpos", noise_std: 0.5, delay: [0, 2]}
  commands:
    velocity: {term: uniform_velocity_command, lin_vel_x: [-1, 1], every: [2, 3]}
  events:
    push: {set: "qvel[root][0]", expression: "uniform(-1, 1)", every: 4}
    jump: {term: reset_joints, mode: reset}
    feet: {field: geom_friction, geoms: [left, right], mode: startup, operation: abs, ranges: [0.3, 1.2], shared_random: true}
    com: {field: body_ipos, bodies: [torso], mode: reset, operation: add, distribution: gaussian,
          ranges: {0: [0, 0.1], ".*": [0, 1e-5]}}
  variables:
    target: {reset: "uniform(0, 1)", every: [1, 2]}
    count: {reset: "0", update: "prev(count) + 1", update_at: observation}
    own: {reset: "1", once: true, every: 3}
  curricula:
    level: {reset: "0", update: "episode_return > 10 ? 1 : level"}
  metrics:
    upright: "height"
    fastest: {expression: "abs(qvel[slider])", statistic: max}
  rewards:
    alive: {term: alive, curriculum: level}
    pole: {expression: "height^2", weight: -0.3, command: velocity}
  terminations:
    late: {term: time_out, time_out: true}
    far: {term: out_of_bounds, joints: slider, bounds: [-3, 3]}
  resets:
    - {term: reset_joints, joints: [slider], position: [-1, 1], velocity: 0.25}
    - {set: "qpos[hinge]", expression: "uniform(-1, 1)"}
policy: {hidden: [8], init_std: 0.3}
learning: {lambda: 0.90000000000000002, learning_rate: 1e-5, horizon: 32}
)deck";

void expect_equal(const std::vector<TermConfig>& a, const std::vector<TermConfig>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].name, b[i].name);
    EXPECT_EQ(a[i].term, b[i].term);
    EXPECT_EQ(a[i].expression, b[i].expression);
    EXPECT_EQ(a[i].names, b[i].names);
    EXPECT_EQ(a[i].names_kind, b[i].names_kind);
    EXPECT_EQ(a[i].parameters, b[i].parameters);
    EXPECT_EQ(a[i].weight, b[i].weight);
    EXPECT_EQ(a[i].scale, b[i].scale);
    EXPECT_EQ(a[i].offset, b[i].offset);
    EXPECT_EQ(a[i].clip, b[i].clip);
    EXPECT_EQ(a[i].time_out, b[i].time_out);
    EXPECT_EQ(a[i].target, b[i].target);
    EXPECT_EQ(a[i].bias, b[i].bias);
    EXPECT_EQ(a[i].noise, b[i].noise);
    EXPECT_EQ(a[i].noise_std, b[i].noise_std);
    EXPECT_EQ(a[i].delay, b[i].delay);
    EXPECT_EQ(a[i].history, b[i].history);
    EXPECT_EQ(a[i].reset, b[i].reset);
    EXPECT_EQ(a[i].update, b[i].update);
    EXPECT_EQ(a[i].update_at, b[i].update_at);
    EXPECT_EQ(a[i].every, b[i].every);
    EXPECT_EQ(a[i].once, b[i].once);
    EXPECT_EQ(a[i].mode, b[i].mode);
    EXPECT_EQ(a[i].command, b[i].command);
    EXPECT_EQ(a[i].field, b[i].field);
    EXPECT_EQ(a[i].operation, b[i].operation);
    EXPECT_EQ(a[i].distribution, b[i].distribution);
    EXPECT_EQ(a[i].ranges, b[i].ranges);
    EXPECT_EQ(a[i].shared_random, b[i].shared_random);
    EXPECT_EQ(a[i].curriculum, b[i].curriculum);
  }
}

TEST(Resolved, DeckLoadsToTheSameConfig) {
  const DeckFiles files;
  Config first = files.load(kFullDeck);
  // from another directory
  Config second = load_config({files.write("elsewhere/resolved.yaml", first.resolved_text)}, {});
  EXPECT_EQ(second.resolved_text, first.resolved_text);
  EXPECT_EQ(second.model.path, first.model.path);
  for (const Key& key : schema())
    if (key.path != "model.file") {
      EXPECT_EQ(yaml_text(key.target(first)), yaml_text(key.target(second))) << key.path;
    }
  EXPECT_EQ(first.simulation.timestep, second.simulation.timestep);
  EXPECT_EQ(first.task.name, second.task.name);
  EXPECT_EQ(first.task.definitions, second.task.definitions);
  EXPECT_EQ(first.task.definitions.size(), 2u);
  for (const SectionKey& section : section_schema()) {
    EXPECT_FALSE((first.task.*(section.terms)).empty());
    expect_equal(first.task.*(section.terms), second.task.*(section.terms));
  }
}

TEST(Resolved, HoldsEveryKeyOfTheSchema) {
  const DeckFiles files;
  const std::string text = files.load(kFullDeck).resolved_text;
  for (const Key& key : schema())
    EXPECT_THAT(text,
                HasSubstr("\n" + std::string(2 * (std::count(key.path.begin(), key.path.end(), '.')), ' ') +
                          key.path.substr(key.path.rfind('.') + 1) + ": "))
        << key.path;
}

TEST(DeckText, KeepsDecksAndOverridesAsGiven) {
  const DeckFiles files;
  files.write("base.yaml", "# base\nbatch: {seed: 3}");
  const Config config = files.load("include: base.yaml # first\n", {"batch.seed=4"});
  EXPECT_THAT(config.deck_text,
              AllOf(HasSubstr("# base\nbatch: {seed: 3}\n"), HasSubstr("include: base.yaml # first\n"),
                    HasSubstr("# batch.seed=4\n")));
}

TEST(Schema, ListsEveryKeyOnceOnALine) {
  std::istringstream lines(schema_text());
  std::set<std::string> seen;
  for (std::string line; std::getline(lines, line);) {
    const std::string key = line.substr(0, line.find(' '));
    EXPECT_TRUE(seen.insert(key).second) << key;
  }
  for (const Key& key : schema()) {
    EXPECT_TRUE(seen.count(key.path)) << key.path;
    EXPECT_FALSE(key.meaning.empty()) << key.path;
  }
  EXPECT_TRUE(seen.count("include") && seen.count("task.rewards.<name>") && seen.count("task.<term>.weight"));
  EXPECT_THAT(schema_text(), testing::ContainsRegex("learning.gamma +number, 0 to 1 +0.99 +1 +Discount"));
}

TEST(Schema, DefaultsPassTheirOwnChecks) {
  Config config;
  for (const Key& key : schema()) {
    DeckValue value;
    const Target target = key.target(config);
    const std::string before = yaml_text(target);
    value.kind = DeckValue::Kind::scalar;
    if (std::holds_alternative<std::vector<int>*>(target) ||
        std::holds_alternative<std::vector<std::string>*>(target) ||
        before == "~")  // (what no deck gives: the reader of decks knows it)
      continue;
    value.text = before;
    if (before.front() == '[') {
      value.kind = DeckValue::Kind::list;
      std::istringstream numbers(before.substr(1, before.size() - 2));
      for (std::string number; std::getline(numbers >> std::ws, number, ',');) {
        value.list.emplace_back().kind = DeckValue::Kind::scalar;
        value.list.back().text = number;
      }
    }
    if (before.front() == '"') value.text = before.substr(1, before.size() - 2), value.quoted = true;
    EXPECT_NO_THROW(assign(target, key.allowed, key.path, value)) << key.path;
    EXPECT_EQ(yaml_text(target), before) << key.path;
  }
}

}  // namespace
}  // namespace maniple
