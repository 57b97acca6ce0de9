// Draws of start-up and reset events for the models of single environments, number by number: which
// environments, when, from which random numbers.
#include <gtest/gtest.h>

#include "kernels/base/philox.hpp"
#include "src/model_import/vary.hpp"
#include "tests/unit/tasks/task_rig.hpp"

namespace maniple::of_model_draws {
namespace {

using maniple::testing::empty_task;
using maniple::testing::expression_term;
using maniple::testing::TaskRig;
using maniple::testing::zoo;

using Rig = TaskRig<Lanes<double>>;
using Mask = std::vector<bool>;
const Mask kAll(kTileWidth, true);

TermConfig event(const std::string& name, EventMode mode, const std::string& field, ElementKind kind,
                 const std::string& element, TermNumber low, TermNumber high) {
  TermConfig term;
  term.name = name;
  term.mode = mode;
  term.field = field;
  term.names = {element};
  term.names_kind = kind;
  term.operation = FieldOperation::abs;
  term.ranges.all = {std::move(low), std::move(high)};
  term.where = {"task.yaml", 5, 0};
  return term;
}

const TermConfig kMass = event("mass", EventMode::startup, "body_mass", ElementKind::bodies, "shin", 1, 3),
                 kDamping =
                     event("damping", EventMode::reset, "dof_damping", ElementKind::joints, "knee", 0, 2);

// The zoo, whose environments have masses and dampings of their own; where those of the shin and knee are.
struct Varied {
  ImportedModel model = zoo();
  int mass = 0, damping = 0;

  Varied() {
    vary_model(model, {"body_mass", "dof_damping"}, {});
    mass = model.sizes.varied.body_mass + 3;
    damping = model.sizes.varied.dof_damping + 7;
  }
  Rig rig(const std::vector<TermConfig>& events) const {
    TaskConfig config = empty_task(model);
    config.events = events;
    Rig result(config, model);
    for (int env = 0; env < kTileWidth; ++env)
      for (std::size_t i = 0; i < model.model_values.size(); ++i)
        result.set("model_values", static_cast<int>(i), env, model.model_values[i]);
    return result;
  }
};

// Draw k of the model at reset number `reset` of an environment, in [0, 1).
double drawn(int env, int reset, int k) {
  const PhiloxBlock block =
      random_block(42, RandomPurpose::task_model, static_cast<std::uint64_t>(env),
                   static_cast<std::uint32_t>(reset), static_cast<std::uint32_t>(k / 4));
  return uniform01<double>(block.word[k % 4]);
}

Mask every_third() {
  Mask mask(kTileWidth);
  for (std::size_t env = 0; env < mask.size(); env += 3) mask[env] = true;
  return mask;
}

TEST(ModelDraws, StartupComesOnceAndResetsEachTime) {
  const Varied varied;
  const Mask some = every_third();
  for (const bool startup_first : {true, false}) {
    Rig rig = varied.rig(startup_first ? std::vector{kMass, kDamping} : std::vector{kDamping, kMass});
    const int of_mass = startup_first ? 0 : 1;
    std::vector<int> resets(kTileWidth);
    for (const Mask& which : {some, kAll, some}) {
      EXPECT_EQ(rig.vary_model(which), which);
      rig.reset(which);
      for (int env = 0; env < kTileWidth; ++env) {
        int& count = resets[static_cast<std::size_t>(env)];
        count += which[static_cast<std::size_t>(env)];
        const double mass = count > 0 ? 1 + 2 * drawn(env, 0, of_mass) : 1,
                     damping = count > 0 ? 2 * drawn(env, count - 1, 1 - of_mass) : 0;
        EXPECT_NEAR(rig.get("model_values", varied.mass, env), mass, 1e-12) << env << " after " << count;
        EXPECT_NEAR(rig.get("model_values", varied.damping, env), damping, 1e-12)
            << env << " after " << count;
        // nothing else
        for (std::size_t i = 0; i < varied.model.model_values.size(); ++i)
          if (static_cast<int>(i) != varied.mass && static_cast<int>(i) != varied.damping) {
            EXPECT_EQ(rig.get("model_values", static_cast<int>(i), env), varied.model.model_values[i]);
          }
      }
    }
  }
}

TEST(ModelDraws, NothingIsDueAfterStartup) {
  const Varied varied;
  Rig rig = varied.rig({kMass});
  const Mask some = every_third();
  EXPECT_EQ(rig.vary_model(some), some);
  rig.reset(some);
  Mask others(kTileWidth);
  for (std::size_t env = 0; env < others.size(); ++env) others[env] = !some[env];
  EXPECT_EQ(rig.vary_model(kAll), others);
  rig.reset(kAll);
  EXPECT_EQ(rig.vary_model(kAll), Mask(kTileWidth));
  for (int env = 0; env < kTileWidth; ++env)
    EXPECT_NEAR(rig.get("model_values", varied.mass, env), 1 + 2 * drawn(env, 0, 0), 1e-12);
  EXPECT_EQ(varied.rig({}).vary_model(kAll), Mask(kTileWidth));
}

// However a target is written, it is of the model if all that it names is.
TEST(ModelDraws, AVectorOfFieldsIsOfTheModel) {
  const Varied varied;
  for (const std::string target :
       {"[body_mass[shin], dof_damping[knee]]", " [ body_mass[shin],dof_damping[knee]]", " body_mass[shin]",
        "body_mass[shin]"}) {
    TermConfig term = expression_term(target.find(',') == std::string::npos ? "2" : "[2, 0.5]", "both");
    term.mode = EventMode::reset;
    term.target = target;
    Rig rig = varied.rig({term});
    EXPECT_EQ(rig.vary_model(kAll), kAll) << target;
    rig.reset(kAll);
    EXPECT_EQ(rig.get("model_values", varied.mass, 3), 2) << target;
  }
}

TEST(ModelDraws, RangesFollowCurricula) {
  const Varied varied;
  TermConfig level;
  level.name = "level";
  level.reset = "0.5";
  TaskConfig config = empty_task(varied.model);
  config.events = {event("damping", EventMode::reset, "dof_damping", ElementKind::joints, "knee",
                         TermNumber("level - 0.25"), TermNumber("3 * level"))};
  config.curricula = {level};
  Rig rig(config, varied.model);
  for (int reset = 0; reset < 2; ++reset) {
    const double value = reset == 0 ? 0.5 : 2;
    if (reset == 1) rig.device.set_changing({value});
    rig.vary_model(kAll);
    rig.reset(kAll);
    for (int env = 0; env < kTileWidth; ++env)
      EXPECT_NEAR(rig.get("model_values", varied.damping, env),
                  value - 0.25 + (2 * value + 0.25) * drawn(env, reset, 0), 1e-12);
  }
}

}  // namespace
}  // namespace maniple::of_model_draws
