// Terms of robots that walk: commands, contacts of the feet and their times, pushes, and actions that need
// more than a table, each against plain loops over numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "kernels/base/philox.hpp"
#include "tests/unit/tasks/task_rig.hpp"

namespace maniple::of_locomotion_terms {
namespace {

using maniple::testing::empty_task;
using maniple::testing::expression_term;
using maniple::testing::import_text;
using maniple::testing::library_term;
using maniple::testing::TaskRig;
using ::testing::HasSubstr;

using Rig = TaskRig<Lanes<double>>;
const std::vector<bool> kAll(kTileWidth, true);
constexpr double kDt = 0.02, kPhysicsDt = 0.002;
constexpr int kPhysicsSteps = 10;
constexpr int kTorso = 1, kLeft = 2;

// A torso with two feet that may touch the floor; the model's element 0 of qpos is the torso's.
const ImportedModel& walker() {
  static const ImportedModel model = import_text(R"(
    <mujoco>
      <compiler angle="radian"/>
      <worldbody>
        <geom name="floor" type="plane" size="0 0 1"/>
        <body name="torso" pos="0 0 1"><freejoint name="root"/><geom type="sphere" size="0.1"/>
          <body name="left" pos="0 0.2 -0.4"><joint name="left_hip" axis="0 1 0" range="-1 3" limited="true"/>
            <geom type="sphere" size="0.1"/></body>
          <body name="right" pos="0 -0.2 -0.4"><joint name="right_hip" axis="0 1 0"/>
            <geom type="sphere" size="0.1"/></body>
        </body>
      </worldbody>
      <actuator>
        <position name="left_servo" joint="left_hip" kp="20"/>
        <position name="right_servo" joint="right_hip" kp="20" gear="2"/>
      </actuator>
    </mujoco>)");
  return model;
}

TermConfig of_feet(const std::string& term,
                   const std::map<std::string, std::vector<double>>& parameters = {}) {
  TermConfig config = library_term(term, {"left", "right"}, "bodies", parameters);
  return config;
}

double uniform_word(RandomPurpose purpose, int env, int step, int draw) {
  const PhiloxBlock block =
      random_block(42, purpose, static_cast<std::uint64_t>(env), static_cast<std::uint32_t>(step),
                   static_cast<std::uint32_t>(draw / 4));
  return uniform01<double>(block.word[draw % 4]);
}

// Rewards, observations and an end that read contacts, over steps with random contacts and forces. Times
// count the physics steps; forces are those at the end of a control step.
TEST(LocomotionTerms, OfContactsFollowTheirFormulas) {
  TaskConfig config = empty_task(walker());
  config.reward_times_dt = false;
  TermConfig command = expression_term("[0.5 * (episode_step < 20), 0, 0]", "velocity");
  command.every = {kDt};
  config.commands = {command};
  config.observations = {of_feet("feet_contact"), of_feet("feet_air_time"), of_feet("feet_contact_forces"),
                         expression_term("[last_contact_time(left), last_contact_time(right)]")};
  config.rewards = {of_feet("feet_air_time", {{"threshold", {0.03}}}),
                    of_feet("feet_air_time_positive_biped", {{"threshold", {0.05}}}), of_feet("feet_slide"),
                    of_feet("undesired_contacts", {{"threshold", {1.5}}})};
  config.terminations = {of_feet("illegal_contact", {{"threshold", {2.7}}})};
  Rig rig(config, walker(), kDt);
  rig.fill_randomly(4);
  rig.reset(kAll);
  rig.observe(kAll);
  std::mt19937 generator(5);
  std::uniform_real_distribution<double> number(-2, 2);
  struct Foot {
    double air = 0, contact = 0, last_air = 0, last_contact = 0, force[3] = {};
    bool touches = false;
  };
  std::vector<std::array<Foot, 2>> envs(kTileWidth);
  std::vector<int> age(kTileWidth, 0);
  int ends = 0, touchdowns = 0, single = 0;
  for (int step = 1; step <= 60; ++step) {
    for (int env = 0; env < kTileWidth; ++env)
      for (std::size_t foot = 0; foot < 2; ++foot) {
        Foot& f = envs[static_cast<std::size_t>(env)][foot];
        for (int physics_step = kPhysicsSteps - 1; physics_step >= 0; --physics_step) {
          if (number(generator) > 1.9) f.touches = !f.touches;
          rig.set_contact(static_cast<int>(foot), physics_step, contact_found, env, f.touches);
          if (f.touches && f.air > 0) f.last_air = f.air + kPhysicsDt;
          if (!f.touches && f.contact > 0) f.last_contact = f.contact + kPhysicsDt;
          f.air = f.touches ? 0 : f.air + kPhysicsDt;
          f.contact = f.touches ? f.contact + kPhysicsDt : 0;
        }
        for (int k = 0; k < 3; ++k) f.force[k] = f.touches * number(generator);
        for (int k = 0; k < 3; ++k)
          rig.set_contact(kContactAnswers * static_cast<int>(foot) + k, env, f.force[k]);
        rig.set_contact(kContactAnswers * static_cast<int>(foot) + contact_found, env, f.touches);
      }
    const std::vector<bool> done = rig.evaluate();
    for (int env = 0; env < kTileWidth; ++env) {
      const auto e = static_cast<std::size_t>(env);
      const bool moves = age[e]++ < 20;  // as of the last observation
      double air_time = 0, slide = 0, undesired = 0, shortest = 1e9, standing = 0, worst = 0;
      for (std::size_t foot = 0; foot < 2; ++foot) {
        Foot& f = envs[e][foot];
        const double force = std::hypot(f.force[0], f.force[1], f.force[2]);
        const bool first = f.contact > 0 && f.contact < kDt + 1e-6;
        air_time += (f.last_air - 0.03) * first;
        touchdowns += first;
        double v[3];
        const int body = kLeft + static_cast<int>(foot);
        for (int k = 0; k < 3; ++k) {
          const int j = (k + 1) % 3, l = (k + 2) % 3;
          const auto arm = [&](int i) {
            return rig.get("xpos", 3 * body + i, env) - rig.get("subtree_com", 3 * kTorso + i, env);
          };
          v[k] = rig.get("cvel", 6 * body + 3 + k, env) + rig.get("cvel", 6 * body + j, env) * arm(l) -
                 rig.get("cvel", 6 * body + l, env) * arm(j);
        }
        slide += std::hypot(v[0], v[1]) * (force > 1);
        undesired += force > 1.5;
        worst = std::max(worst, force);
        standing += f.touches;
        shortest = std::min(shortest, f.touches ? f.contact : f.air);
      }
      single += standing == 1 && moves;
      EXPECT_NEAR(rig.at(rig.reward_term, 0, env), moves * air_time, 1e-6) << step;
      EXPECT_NEAR(rig.at(rig.reward_term, 1, env), moves * (standing == 1) * std::min(shortest, 0.05), 1e-6);
      EXPECT_NEAR(rig.at(rig.reward_term, 2, env), slide, 1e-5);
      EXPECT_EQ(rig.at(rig.reward_term, 3, env), static_cast<float>(undesired));
      ASSERT_EQ(done[e], worst > 2.7);
      ends += done[e];
    }
    rig.reset(done);
    rig.observe(done);
    for (int env = 0; env < kTileWidth; ++env) {
      const auto e = static_cast<std::size_t>(env);
      if (done[e]) {
        age[e] = 0;
        for (Foot& f : envs[e]) f.air = f.contact = f.last_air = f.last_contact = 0;
      }
      for (std::size_t foot = 0; foot < 2; ++foot) {
        const Foot& f = envs[e][foot];
        const int place = static_cast<int>(foot);
        EXPECT_EQ(rig.at(rig.observation, place, env), static_cast<float>(f.touches));
        EXPECT_NEAR(rig.at(rig.observation, 2 + place, env), f.air, 1e-6);
        for (int k = 0; k < 3; ++k)
          EXPECT_NEAR(rig.at(rig.observation, 4 + 3 * place + k, env), f.force[k], 1e-6);
        EXPECT_NEAR(rig.at(rig.observation, 10 + place, env), f.last_contact, 1e-6);
      }
    }
  }
  EXPECT_TRUE(ends > 3 && touchdowns > 100 && single > 100) << ends << " " << touchdowns << " " << single;
}

TermConfig velocity_command() {
  TermConfig term = library_term("uniform_velocity_command", {"torso"}, "bodies",
                                 {{"lin_vel_x", {-1, 1}},
                                  {"lin_vel_y", {0, 0.5}},
                                  {"ang_vel_z", {-0.4, 0.3}},
                                  {"heading_control_stiffness", {0.5}},
                                  {"rel_heading_envs", {0.6}},
                                  {"rel_standing_envs", {0.2}}});
  term.name = "velocity";
  term.every = {0.06};
  return term;
}

// Drawn at resets and every three steps; the turning rate follows the heading of each step.
TEST(LocomotionTerms, CommandsAreDrawnAndFollowTheHeading) {
  TaskConfig config = empty_task(walker());
  config.commands = {velocity_command()};
  config.observations = {library_term("generated_commands")};
  config.reward_times_dt = false;
  config.rewards = {library_term("track_lin_vel_xy_exp", {}, "", {{"std", {0.5}}}),
                    library_term("track_ang_vel_z_exp", {}, "", {{"std", {0.7}}}),
                    library_term("stand_still_joint_deviation_l1", {}, "", {{"command_threshold", {0.1}}}),
                    library_term("track_lin_vel_xy_yaw_frame_exp", {}, "", {{"std", {0.6}}}),
                    library_term("track_ang_vel_z_world_exp", {}, "", {{"std", {0.8}}})};
  Rig rig(config, walker(), kDt);
  rig.fill_randomly(9);
  rig.reset(kAll);
  rig.observe(kAll);
  const auto in_world = [&](int env, int k, bool turning) {
    const int j = (k + 1) % 3, l = (k + 2) % 3;
    const auto w = [&](int i) { return rig.get("cvel", 6 * kTorso + i, env); };
    const auto arm = [&](int i) {
      return rig.get("xpos", 3 * kTorso + i, env) - rig.get("subtree_com", 3 * kTorso + i, env);
    };
    const double linear = rig.get("cvel", 6 * kTorso + 3 + k, env) + w(j) * arm(l) - w(l) * arm(j);
    return turning ? w(k) : linear;
  };
  const auto in_torso = [&](int env, int axis, bool turning) {
    double sum = 0;
    for (int k = 0; k < 3; ++k)
      sum += rig.get("xmat", 9 * kTorso + 3 * k + axis, env) * in_world(env, k, turning);
    return sum;
  };
  int standing = 0, following = 0, limited = 0, tilted = 0;
  for (int step = 0; step <= 10; ++step) {
    std::vector<std::array<double, 3>> before;
    for (int env = 0; env < kTileWidth; ++env)
      before.push_back({rig.at(rig.observation, 0, env), rig.at(rig.observation, 1, env),
                        rig.at(rig.observation, 2, env)});
    if (step > 0) {
      rig.fill_randomly(9 + static_cast<unsigned>(step));
      rig.evaluate();
      for (int env = 0; env < kTileWidth; ++env) {  // rewards are of the command that the policy saw
        const auto& c = before[static_cast<std::size_t>(env)];
        const double x = c[0] - in_torso(env, 0, false), y = c[1] - in_torso(env, 1, false),
                     turn = c[2] - in_torso(env, 2, true);
        EXPECT_NEAR(rig.at(rig.reward_term, 0, env), std::exp(-(x * x + y * y) / 0.25), 1e-5);
        EXPECT_NEAR(rig.at(rig.reward_term, 1, env), std::exp(-turn * turn / 0.49), 1e-5);
        const double deviation = std::abs(rig.get("qpos", 7, env)) + std::abs(rig.get("qpos", 8, env));
        EXPECT_NEAR(rig.at(rig.reward_term, 2, env), (std::hypot(c[0], c[1]) < 0.1) * deviation, 1e-5);
        // Isaac Lab's: yaw_quat() keeps the heading of the x axis
        const double cosine = rig.get("xmat", 9 * kTorso, env), sine = rig.get("xmat", 9 * kTorso + 3, env),
                     length = std::hypot(cosine, sine), vx = in_world(env, 0, false),
                     vy = in_world(env, 1, false);
        const double ahead = c[0] - (cosine * vx + sine * vy) / length,
                     left = c[1] - (cosine * vy - sine * vx) / length, spin = c[2] - in_world(env, 2, true);
        EXPECT_NEAR(rig.at(rig.reward_term, 3, env), std::exp(-(ahead * ahead + left * left) / 0.36), 1e-5);
        EXPECT_NEAR(rig.at(rig.reward_term, 4, env), std::exp(-spin * spin / 0.64), 1e-5);
        tilted += std::abs(ahead - x) > 0.05 && std::abs(spin - turn) > 0.05;
      }
      rig.observe();
    }
    for (int env = 0; env < kTileWidth; ++env) {
      const auto draw = [&](int k) {
        return uniform_word(RandomPurpose::task_observation, env, step - step % 3, k);
      };
      const double heading = -M_PI + 2 * M_PI * draw(3);
      const double now = std::atan2(rig.get("xmat", 9 * kTorso + 3, env), rig.get("xmat", 9 * kTorso, env));
      const double error = 0.5 * std::remainder(heading - now, 2 * M_PI);
      const bool follows = draw(4) < 0.6, stands = draw(5) < 0.2;
      const double rate = follows ? std::clamp(error, -0.4, 0.3) : -0.4 + 0.7 * draw(2);
      const std::array<double, 3> expected{-1 + 2 * draw(0), 0.5 * draw(1), rate};
      for (int k = 0; k < 3; ++k)
        EXPECT_NEAR(rig.at(rig.observation, k, env), stands ? 0 : expected[static_cast<std::size_t>(k)], 1e-5)
            << step << " " << env << " " << k;
      standing += stands;
      following += follows;
      limited += follows && error != rate;
    }
  }
  EXPECT_GT(tilted, 100);
  EXPECT_TRUE(standing > 20 && following > 100 && limited > 20) << standing << following << limited;
}

// Pushes come at the end of a step, when their time is over since the reset or the last push.
TEST(LocomotionTerms, PushesComeInIntervals) {
  TaskConfig config = empty_task(walker());
  TermConfig push =
      library_term("push_by_setting_velocity", {}, "", {{"vx", {-1, 1}}, {"vz", {2, 3}}, {"wz", {0.5, 1}}});
  push.name = "push";
  push.every = {0.04, 0.08};
  TermConfig jump = expression_term("qpos[left_hip] + 1", "jump");
  jump.target = "qpos[left_hip]";
  jump.every = {0.1};
  TermConfig drop = expression_term("uniform(3, 4)", "drop");
  drop.target = "qpos[root][2]";
  drop.mode = EventMode::reset;
  config.events = {push, jump, drop};
  config.terminations = {expression_term("episode_step >= 12", "enough")};
  Rig rig(config, walker(), kDt);
  rig.reset(kAll);
  rig.disturb();
  rig.observe(kAll);
  std::vector<int> since(kTileWidth, 0);
  std::set<int> ages;
  int episode = 0;
  for (int step = 1; step <= 40; ++step) {
    rig.apply_actions();
    const std::vector<bool> done = rig.evaluate();
    rig.reset(done);
    if (done[0]) {
      EXPECT_GE(rig.get("qpos", 2, 0), 3);
    }
    episode = done[0] ? 0 : episode + 1;
    // a turn of pi/2 about x: the world's z is the body's y
    for (int env = 0; env < kTileWidth; ++env)
      for (int k = 0; k < 4; ++k) rig.set("qpos", 3 + k, env, k < 2 ? std::sqrt(0.5) : 0);
    for (int env = 0; env < kTileWidth; ++env)
      for (int k = 0; k < 6; ++k) rig.set("qvel", k, env, 10 + k);
    const double hip = rig.get("qpos", 7, 0);
    rig.disturb();
    rig.observe(done);
    EXPECT_EQ(rig.get("qpos", 7, 0), hip + (episode == 5 || episode == 10)) << step;
    for (int env = 0; env < kTileWidth; ++env) {
      const auto e = static_cast<std::size_t>(env);
      const double change[6] = {rig.get("qvel", 0, env) - 10, rig.get("qvel", 1, env) - 11,
                                rig.get("qvel", 2, env) - 12, rig.get("qvel", 3, env) - 13,
                                rig.get("qvel", 4, env) - 14, rig.get("qvel", 5, env) - 15};
      since[e] = done[e] ? 0 : since[e] + 1;
      if (change[2] == 0) {
        for (const double c : change) EXPECT_EQ(c, 0);
        continue;
      }
      ages.insert(since[e]);
      since[e] = 0;
      EXPECT_TRUE(std::abs(change[0]) <= 1 && change[1] == 0 && change[2] >= 2 && change[2] < 3);
      EXPECT_NEAR(change[3], 0, 1e-12);
      EXPECT_TRUE(change[4] >= 0.5 - 1e-9 && change[4] < 1) << change[4];
      EXPECT_NEAR(change[5], 0, 1e-12);
    }
  }
  EXPECT_EQ(ages, (std::set<int>{3, 4}));  // (2, 4] steps, rounded up
}

// Servo targets relative to the joints, delays and numbers by name.
TEST(LocomotionTerms, ActionsAreRelativeDelayedAndScaledByName) {
  TaskConfig config = empty_task(walker());
  TermConfig left = library_term("relative_joint_position", {"left_hip"});
  left.scale = 0.5;
  left.clip = {{-1, 1}};
  TermConfig right = library_term("joint_position", {"right_hip"});
  right.scale = 3;
  right.scale.numbers.clear();
  right.scale.named = {{".*", 2}, {"right_.*", 4}};
  right.offset = 0.25;
  right.delay = {2};
  config.actions = {left, right};
  config.terminations = {expression_term("episode_step >= 5", "enough")};
  Rig rig(config, walker(), kDt);
  EXPECT_EQ(rig.compiled.actions[1].scale, 8);  // times the gear
  rig.reset(kAll);
  rig.observe(kAll);
  std::vector<float> given;
  int clipped = 0;
  for (int step = 0; step < 14; ++step) {
    const int age = step % 5;
    for (int env = 0; env < kTileWidth; ++env) {
      rig.set("qpos", 7, env, 0.1 * step);
      rig.action[static_cast<std::size_t>(env)] = static_cast<float>(std::cos(step + env));
      rig.action[static_cast<std::size_t>(kTileWidth + env)] = static_cast<float>(std::sin(step + env));
    }
    given.push_back(rig.action[kTileWidth + 3]);
    rig.apply_actions();
    const double target = 0.5 * std::cos(step + 3) + 0.1 * step;
    EXPECT_NEAR(rig.get("ctrl", 0, 3), std::clamp(target, -1.0, 1.0), 1e-6);
    clipped += std::abs(target) > 1;
    EXPECT_EQ(rig.counter(counter_clipped_actions, 3), clipped);
    const auto late = static_cast<std::size_t>(step - std::min(age, 2));
    EXPECT_NEAR(rig.get("ctrl", 1, 3), 2 * (4 * given[late] + 0.25), 1e-5) << step;
    const std::vector<bool> done = rig.evaluate();
    rig.reset(done);
    rig.observe(done);
  }
  EXPECT_GT(clipped, 0);
}

TEST(LocomotionTerms, PositionsAreNormalizedByTheirLimits) {
  TaskConfig config = empty_task(walker());
  config.observations = {library_term("joint_pos_limit_normalized", {"left_hip", "right_hip"}),
                         expression_term("joint_pos_limit_normalized['left_.*']")};
  Rig rig(config, walker(), kDt);
  rig.fill_randomly(2);
  rig.observe();
  for (int env = 0; env < kTileWidth; ++env) {
    EXPECT_NEAR(rig.at(rig.observation, 0, env), (rig.get("qpos", 7, env) - 1) / 2, 1e-6);
    EXPECT_NEAR(rig.at(rig.observation, 1, env), rig.get("qpos", 8, env), 1e-6);
    EXPECT_EQ(rig.at(rig.observation, 2, env), rig.at(rig.observation, 0, env));
  }
}

std::string refusal(const TaskConfig& config) {
  try {
    compile_task(config, walker(), kDt);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

TEST(LocomotionTerms, SayWhatIsWrong) {
  const auto with_reward = [](const TermConfig& reward) {
    TaskConfig config = empty_task(walker());
    config.rewards = {reward};
    return config;
  };
  const TermConfig track = library_term("track_lin_vel_xy_exp", {}, "", {{"std", {1}}});
  EXPECT_THAT(refusal(with_reward(track)), HasSubstr("'track_lin_vel_xy_exp' without 'command'"));
  TaskConfig config = with_reward(track);
  config.commands = {velocity_command()};
  EXPECT_EQ(refusal(config), "no error");
  config.rewards[0].command = "velocty";
  EXPECT_THAT(refusal(config), HasSubstr("no command 'velocty', did you mean 'velocity'?"));
  EXPECT_THAT(refusal(with_reward(expression_term("in_contact(lfet)"))),
              HasSubstr("the model has no body or geom 'lfet', did you mean 'left'?"));
  EXPECT_THAT(refusal(with_reward(expression_term("in_contact('subtree:lfet')"))),
              HasSubstr("the model has no body 'subtree:lfet'"));
  EXPECT_THAT(refusal(with_reward(expression_term("norm(contact_force(left, torso))"))),
              HasSubstr("contacts between geoms that cannot collide"));
  EXPECT_THAT(refusal(with_reward(expression_term("in_contact(1)"))),
              HasSubstr("not the name of a geom or body"));
  config = empty_task(walker());
  TermConfig reset = expression_term("in_contact(left)");
  reset.target = "qpos[left_hip]";
  config.resets = {reset};
  EXPECT_THAT(refusal(config), HasSubstr("contacts while an environment is being reset"));
  config = empty_task(walker());
  TermConfig event = expression_term("xpos[torso].z", "lift");
  event.target = "qpos[left_hip]";
  event.every = {1};
  config.events = {event};
  EXPECT_THAT(refusal(config),
              HasSubstr("task.events.lift: 'xpos' is not known in an event between control steps"));
  config.events[0].target = "";
  EXPECT_THAT(refusal(config), HasSubstr("an expression that sets nothing"));
  config = empty_task(walker());
  config.actions[0].scale.numbers = {1, 2};
  EXPECT_THAT(refusal(config), HasSubstr("2 numbers for 1 elements"));
  config.actions[0].scale.numbers = {};
  config.actions[0].scale.named = {{"left_serv", 1}};
  EXPECT_THAT(refusal(config), HasSubstr("no element 'left_serv', did you mean 'left_servo'?"));
}

}  // namespace
}  // namespace maniple::of_locomotion_terms
