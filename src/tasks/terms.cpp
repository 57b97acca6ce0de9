#include "src/tasks/terms.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <regex>

#include "src/tasks/message_text.hpp"

namespace maniple {
namespace {

std::string text(double value) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value).ptr;
  return value < 0 ? "(" + std::string(buffer, end) + ")" : std::string(buffer, end);
}

// As it stands in expressions.
std::string text(const TermNumber& number) {
  return number.expression.empty() ? text(number.value) : "(" + number.expression + ")";
}

bool is_plain_zero(const TermNumber& number) {
  return number.expression.empty() && number.value == 0;
}

std::string uniform(const std::vector<TermNumber>& range) {
  return "uniform(" + text(range[0]) + ", " + text(range[1]) + ")";
}

using Expressions = std::vector<TermExpression>;
using Recipe = std::function<Expressions(const TermRequest&)>;

// A recipe that is one expression. "sum(joint_vel%^2)": % stands for the elements of the term, ['a', 'b'].
Recipe formula(const std::string& pattern) {
  return [pattern](const TermRequest& term) {
    std::vector<std::string> quoted;
    for (const std::string& name : term.names) quoted.push_back("'" + name + "'");
    const std::string elements = "[" + list(quoted) + "]";
    std::string result;
    for (std::size_t i = 0; i < pattern.size(); ++i) {
      if (pattern[i] == '%') {
        result += elements;
      } else if (pattern[i] == '{') {  // {name}: a parameter; {name.0}, {name.1}: the ends of a range
        const std::size_t end = pattern.find('}', i);
        std::string name = pattern.substr(i + 1, end - i - 1);
        std::size_t component = 0;
        if (const std::size_t dot = name.find('.'); dot != std::string::npos) {
          component = static_cast<std::size_t>(name[dot + 1] - '0');
          name = name.substr(0, dot);
        }
        result += name == "command" ? term.config.command : text(term.parameters.at(name)[component]);
        i = end;
      } else {
        result += pattern[i];
      }
    }
    return Expressions{{"", result}};
  };
}

// The sum of a formula over the elements of the term: % stands for the name of one of them, in quotes.
Recipe sum_over(const std::string& pattern, const std::string& whole = "#") {
  return [pattern, whole](const TermRequest& term) {
    std::string sum;
    for (const std::string& name : term.names) {
      std::string one = pattern;
      for (std::size_t at = one.find('%'); at != std::string::npos; at = one.find('%'))
        one = one.substr(0, at) + "'" + name + "'" + one.substr(at + 1);
      sum += (sum.empty() ? "(" : " + (") + one + ")";
    }
    std::string text = whole;
    const std::size_t at = text.find('#');
    return formula(text.substr(0, at) + "(" + sum + ")" + text.substr(at + 1))(term);
  };
}

// The values of a formula for the elements of the term, as a vector.
Recipe each(const std::string& pattern) {
  return [pattern](const TermRequest& term) {
    std::string values;
    for (const std::string& name : term.names) {
      std::string one = pattern;
      for (std::size_t at = one.find('%'); at != std::string::npos; at = one.find('%'))
        one = one.substr(0, at) + "'" + name + "'" + one.substr(at + 1);
      values += (values.empty() ? "" : ", ") + one;
    }
    return formula("[" + values + "]")(term);
  };
}

// Height of each body above the ground below a grid around it that turns as it does, seen from above: Isaac
// Lab's and mjlab's height_scan.
Expressions height_scan(const TermRequest& term) {
  const auto number = [&](const char* name) { return text(term.parameters.at(name)[0]); };
  std::string heights;
  for (const std::string& name : term.names) {
    const std::string distance = "ray_distance('" + name + "', grid_pattern(" + number("length") + ", " +
                                 number("width") + ", " + number("resolution") +
                                 "), alignment = yaw, max_distance = " + number("max_distance") + ")";
    heights += (heights.empty() ? "" : ", ") + ("(" + distance + " < 0 ? " + number("max_distance") + " : " +
                                                distance + " - " + number("height_offset") + ")");
  }
  return {{"", "[" + heights + "]"}};
}

// Isaac Lab's UniformVelocityCommand, with mjlab's fraction of draws that go straight ahead: first what is
// drawn, then the command that becomes of it; % is the name of what was drawn: velocities, heading, whether
// the heading is followed, whether the robot is to stand, whether it goes ahead.
Expressions velocity_command(const TermRequest& term) {
  const auto range = [&](const char* name) { return uniform(term.parameters.at(name)); };
  const std::string body = "'" + term.names[0] + "'";
  const auto number = [&](const char* name) { return term.parameters.at(name)[0]; };
  const std::vector<TermNumber>& turn = term.parameters.at("ang_vel_z");
  const TermNumber ahead = number("rel_forward_envs");
  const bool has_ahead = !is_plain_zero(ahead);
  const std::string drawn =
      "[" + range("lin_vel_x") + ", " + range("lin_vel_y") + ", " + range("ang_vel_z") + ", " +
      range("heading") + ", uniform(0, 1) < " + text(number("rel_heading_envs")) + ", uniform(0, 1) < " +
      text(number("rel_standing_envs")) + (has_ahead ? ", uniform(0, 1) < " + text(ahead) : "") + "]";
  const std::string heading = "atan2(xmat[" + body + "][3], xmat[" + body + "][0])";
  const std::string follow = "clamp(" + text(number("heading_control_stiffness")) + " * wrap_to_pi(%[3] - " +
                             heading + "), " + text(turn[0]) + ", " + text(turn[1]) + ")";
  const std::string forward = has_ahead ? "%[6] ? max(abs(%[0]), 0.3) : %[0]" : "%[0]",
                    left = has_ahead ? "%[6] ? 0 : %[1]" : "%[1]",
                    turning = has_ahead ? "%[6] ? 0 : %[2]" : "%[2]";
  const std::string rate =
      !is_plain_zero(number("rel_heading_envs")) ? "%[4] ? " + follow + " : " + turning : turning;
  return {{"", drawn}, {"", "%[5] ? 0 : [" + forward + ", " + left + ", " + rate + "]"}};
}

// A number from the range of a parameter, and a vector of such numbers.
std::string drawn(const TermRequest& term, const char* parameter) {
  const std::vector<TermNumber>& range = term.parameters.at(parameter);
  return range[0] == range[1] ? text(range[0]) : uniform(range);
}
std::string drawn(const TermRequest& term, std::initializer_list<const char*> parameters) {
  std::string vector;
  for (const char* parameter : parameters) vector += (vector.empty() ? "[" : ", ") + drawn(term, parameter);
  return vector + "]";
}

// Isaac Lab's push_by_setting_velocity: draws are added to the velocity of the free joint.
Expressions push(const TermRequest& term) {
  const auto free = std::find_if(term.model.joints.begin(), term.model.joints.end(),
                                 [](const TaskJoint& joint) { return joint.type == joint_free; });
  const std::string v = "qvel['" + free->name + "']", q = "qpos['" + free->name + "'][3:7]";
  return {{v + "[0:3]", v + "[0:3] + " + drawn(term, {"vx", "vy", "vz"})},
          {v + "[3:6]", v + "[3:6] + rotate_inverse(" + q + ", " + drawn(term, {"wx", "wy", "wz"}) + ")"}};
}

// Amount by which joints are beyond the ranges of the model, or a fraction of them about their middles, one
// summand per limited joint.
Expressions beyond_limits(const TermRequest& term) {
  const char* const factor = "soft_joint_pos_limit_factor";
  const double rest = term.parameters.contains(factor) ? (1 - term.number(factor)) / 2 : 0;
  std::string sum;
  for (const int element : term.elements) {
    const TaskJoint& joint = term.model.joints[static_cast<std::size_t>(element)];
    if (!joint.limited) continue;
    const std::string position = "joint_pos['" + joint.name + "']";
    const double cut = rest * (joint.high - joint.low);
    sum += (sum.empty() ? "" : " + ") + ("max(" + text(joint.low + cut) + " - " + position + ", 0) + max(" +
                                         position + " - " + text(joint.high - cut) + ", 0)");
  }
  return {{"", sum.empty() ? "0" : sum}};
}

Expressions out_of_limits(const TermRequest& term) {
  return {{"", "(" + beyond_limits(term)[0].text + ") > 0"}};
}

// Isaac Lab: position = clamp(base + draws, joint range), velocity = draws; `scale`: base * draws.
Recipe reset_joints(bool scale) {
  return [scale](const TermRequest& term) {
    Expressions result;
    for (const int element : term.elements) {
      const TaskJoint& joint = term.model.joints[static_cast<std::size_t>(element)];
      const std::string base = "default_joint_pos['" + joint.name + "']";
      std::string position = base + (scale ? " * " : " + ") + uniform(term.parameters.at("position_range"));
      if (joint.limited)
        position = "clamp(" + position + ", " + text(joint.low) + ", " + text(joint.high) + ")";
      result.push_back({"joint_pos['" + joint.name + "']", position});
    }
    // Default velocities are zero, hence stay zero when scaled.
    for (const std::string& name : term.names)
      result.push_back({"joint_vel['" + name + "']",
                        (scale ? "0 * " : "") + uniform(term.parameters.at("velocity_range"))});
    return result;
  };
}

// dm_control's randomizers: joints with a range uniform in it, other hinges anywhere, orientations anywhere.
// What it draws for a free joint, four numbers in [0, 1) made one long, is not uniform; this draws the same.
Expressions randomize_joints(const TermRequest& term) {
  Expressions result;
  for (const int element : term.elements) {
    const TaskJoint& joint = term.model.joints[static_cast<std::size_t>(element)];
    const std::string q = "qpos['" + joint.name + "']";
    if (joint.type == joint_free)
      result.push_back({q + "[3:7]", "normalize(uniform(0, 1, 4))"});
    else if (joint.type == joint_ball)
      result.push_back({q, "normalize(normal(0, 1, 4))"});
    else if (joint.limited)
      result.push_back({q, uniform({joint.low, joint.high})});
    else if (joint.type == joint_hinge)
      result.push_back({q, "uniform(-pi, pi)"});
  }
  return result;
}

// The free joint of the model: position and orientation offsets in the world, velocities drawn.
Expressions reset_root(const TermRequest& term) {
  const auto free = std::find_if(term.model.joints.begin(), term.model.joints.end(),
                                 [](const TaskJoint& joint) { return joint.type == joint_free; });
  const std::string q = "qpos['" + free->name + "']", base = "default_qpos['" + free->name + "']";
  Expressions result;
  const char* axes[3] = {"x", "y", "z"};
  for (int k = 0; k < 3; ++k) {
    const std::string element = "[" + std::to_string(k) + "]";
    result.push_back({q + element, base + element + " + " + drawn(term, axes[k])});
  }
  result.push_back({q + "[3:7]", "quat_mul(" + base + "[3:7], quat_from_euler(" + drawn(term, "roll") + ", " +
                                     drawn(term, "pitch") + ", " + drawn(term, "yaw") + "))"});
  const std::string v = "qvel['" + free->name + "']";
  result.push_back({v + "[0:3]", drawn(term, {"vx", "vy", "vz"})});
  result.push_back({v + "[3:6]", "rotate_inverse(" + q + "[3:7], " + drawn(term, {"wx", "wy", "wz"}) + ")"});
  return result;
}

// The elements of the model that terms take: joints and so on, and which ones when the deck names none.
struct TermNames {
  ElementKind kind = ElementKind::none;
  DefaultNames defaults = DefaultNames::none;
};
constexpr TermNames kNoNames, kJoints{ElementKind::joints},
    kAllJoints{ElementKind::joints, DefaultNames::scalar_joints},
    kEveryJoint{ElementKind::joints, DefaultNames::every_joint}, kBodies{ElementKind::bodies},
    kRootBody{ElementKind::bodies, DefaultNames::root_body}, kActuators{ElementKind::actuators},
    kSensors{ElementKind::sensors};

LibraryTerm term(TermKind kind, const char* name, TermNames names, const char* meaning, Recipe recipe = {},
                 std::vector<TermParameter> parameters = {}) {
  return {name, kind, names.kind, names.defaults, std::move(parameters), meaning, std::move(recipe)};
}

LibraryTerm needing(ModelNeed need, LibraryTerm term) {
  term.need = std::move(need);
  return term;
}

LibraryTerm of_command(LibraryTerm term) {
  term.takes_command = true;
  return term;
}

LibraryTerm relative(LibraryTerm term) {
  term.relative = true;
  return term;
}

LibraryTerm joint_action(const char* name, const char* meaning, JointDrive drive,
                         std::vector<TermParameter> parameters = {}) {
  LibraryTerm action = term(TermKind::action, name, kJoints, meaning, {}, std::move(parameters));
  action.drive = std::move(drive);
  return action;
}

// ---- the kinds of actuators, and what the model must have ----

bool is_motor(const TaskActuator& a) {
  return a.stateless && a.fixed_gain && a.gain != 0 && a.gear != 0 && a.bias[0] == 0 && a.bias[1] == 0 &&
         a.bias[2] == 0;
}

bool is_position_servo(const TaskActuator& a) {
  return a.fixed_gain && a.gain != 0 && a.bias[1] == -a.gain && a.bias[0] == 0;
}

bool is_velocity_servo(const TaskActuator& a) {
  return a.fixed_gain && a.gain != 0 && a.bias[2] == -a.gain && a.bias[0] == 0 && a.bias[1] == 0;
}

double gear_of(const TaskActuator& a) {
  return a.gear;
}

double default_position(const TermRequest& term, const TaskJoint& joint) {
  return term.number("use_default_offset") != 0 ? term.model.qpos0[static_cast<std::size_t>(joint.qposadr)]
                                                : 0;
}

bool has_no_limited_ball_joint(const TaskModel& model) {
  return std::none_of(model.joints.begin(), model.joints.end(),
                      [](const TaskJoint& joint) { return joint.type == joint_ball && joint.limited; });
}

bool has_free_joint(const TaskModel& model) {
  return std::any_of(model.joints.begin(), model.joints.end(),
                     [](const TaskJoint& joint) { return joint.type == joint_free; });
}

std::vector<TermParameter> root_parameters() {
  std::vector<TermParameter> parameters;
  const auto ranges = [&](std::initializer_list<const char*> names, const char* unit, const char* meaning) {
    for (const char* name : names) parameters.push_back({name, 2, unit, meaning, {0, 0}});
  };
  ranges({"x", "y", "z"}, "m", "offset of the position, world axes");
  ranges({"roll", "pitch", "yaw"}, "rad", "turn of the orientation");
  ranges({"vx", "vy", "vz"}, "m/s", "linear velocity, world axes");
  ranges({"wx", "wy", "wz"}, "rad/s", "angular velocity, world axes");
  return parameters;
}

std::vector<TermParameter> push_parameters() {
  std::vector<TermParameter> parameters;
  for (const char* name : {"vx", "vy", "vz"})
    parameters.push_back({name, 2, "m/s", "change of the linear velocity, world axes", {0, 0}});
  for (const char* name : {"wx", "wy", "wz"})
    parameters.push_back({name, 2, "rad/s", "change of the angular velocity, world axes", {0, 0}});
  return parameters;
}

// Isaac Lab's feet_air_time_positive_biped.
Expressions biped_air_time(const TermRequest& term) {
  std::string feet, standing;
  for (const std::string& name : term.names) {
    const std::string foot = "'" + name + "'";
    standing += (standing.empty() ? "" : " + ") + ("in_contact(" + foot + ")");
    feet += (feet.empty() ? "" : ", ") +
            ("in_contact(" + foot + ") ? contact_time(" + foot + ") : air_time(" + foot + ")");
  }
  return {{"", "(norm(" + term.config.command + "[0:2]) > 0.1) * (" + standing + " == 1) * min(min([" + feet +
                   "]), " + text(term.parameters.at("threshold")[0]) + ")"}};
}

std::vector<LibraryTerm> make_library() {
  using Kind = TermKind;
  const std::vector<TermParameter> ranges{
      {"position_range", 2, "m or rad", "range of the draw for positions"},
      {"velocity_range", 2, "m/s or rad/s", "range of the draw for velocities"}};
  return {
      // ---- actions ----
      joint_action("joint_effort", "force or torque of motors: action * scale + offset [N or Nm]",
                   {.needed = "a motor (fixed gain, no bias, no dynamics)",
                    .fits = is_motor,
                    .per_unit = [](const TaskActuator& motor) { return 1 / (motor.gain * motor.gear); }}),
      joint_action("joint_position", "target of position servos: action * scale + offset [m or rad]",
                   {.needed = "a position servo (bias -kp * length)",
                    .fits = is_position_servo,
                    .per_unit = gear_of,
                    .offset = default_position},
                   {{"use_default_offset", 1, "1", "1: add the default positions to offset", {1}}}),
      relative(joint_action("relative_joint_position",
                            "target of position servos: the position at the beginning of the control step + "
                            "action * scale + offset [m or rad]",
                            {.needed = "a position servo (bias -kp * length)",
                             .fits = is_position_servo,
                             .per_unit = gear_of})),
      joint_action("joint_velocity", "target of velocity servos: action * scale + offset [m/s or rad/s]",
                   {.needed = "a velocity servo (bias -kv * velocity)",
                    .fits = is_velocity_servo,
                    .per_unit = gear_of}),
      term(Kind::action, "actuator_control", kActuators, "control of any actuator: action * scale + offset"),
      // ---- observations ----
      term(Kind::observation, "joint_pos", kAllJoints, "joint positions [m or rad]", formula("joint_pos%")),
      term(Kind::observation, "joint_pos_rel", kAllJoints,
           "joint positions minus the default ones [m or rad]", formula("joint_pos% - default_joint_pos%")),
      term(Kind::observation, "joint_vel", kAllJoints, "joint velocities [m/s or rad/s]",
           formula("joint_vel%")),
      term(Kind::observation, "joint_vel_rel", kAllJoints,
           "joint velocities; default ones are 0 [m/s or rad/s]", formula("joint_vel%")),
      term(Kind::observation, "joint_effort", kAllJoints, "actuator forces on the joints [N or Nm]",
           formula("qfrc_actuator%")),
      term(Kind::observation, "last_action", kNoNames,
           "action of the control step that just ended; 0 after a reset", formula("action")),
      term(Kind::observation, "sensor", kSensors, "sensor readings", formula("sensordata%")),
      term(Kind::observation, "base_pos_z", kRootBody, "height of the body [m]", formula("xpos%.z")),
      term(Kind::observation, "base_lin_vel", kRootBody, "linear velocity in the body's axes [m/s]",
           formula("body_lin_vel_b%")),
      term(Kind::observation, "base_ang_vel", kRootBody, "angular velocity in the body's axes [rad/s]",
           formula("body_ang_vel_b%")),
      term(Kind::observation, "projected_gravity", kRootBody, "direction of gravity in the body's axes [1]",
           formula("projected_gravity%")),
      term(Kind::observation, "root_pos_w", kRootBody, "position in the world [m]", formula("xpos%")),
      term(Kind::observation, "root_quat_w", kRootBody, "orientation (w, x, y, z) in the world [1]",
           formula("xquat%")),
      term(Kind::observation, "root_lin_vel_w", kRootBody, "linear velocity in the world's axes [m/s]",
           formula("body_lin_vel%")),
      term(Kind::observation, "root_ang_vel_w", kRootBody, "angular velocity in the world's axes [rad/s]",
           formula("body_ang_vel%")),
      term(Kind::observation, "body_pos_w", kBodies, "positions of bodies in the world [m]",
           formula("xpos%")),
      of_command(
          term(Kind::observation, "generated_commands", kNoNames, "the command", formula("{command}"))),
      term(Kind::observation, "joint_pos_limit_normalized", kJoints,
           "joint positions, -1 and 1 at the ends of their ranges", formula("joint_pos_limit_normalized%")),
      term(Kind::observation, "feet_contact", kBodies, "1 for each body that is in contact",
           each("in_contact(%)")),
      term(Kind::observation, "feet_air_time", kBodies, "time of each body since its last contact [s]",
           each("air_time(%)")),
      term(Kind::observation, "feet_contact_forces", kBodies, "contact force on each body, world axes [N]",
           each("contact_force(%)")),
      term(Kind::observation, "height_scan", kRootBody,
           "height of the body above the geoms that stand still, below the points of a grid around it that "
           "turns as it does about z, minus height_offset; max_distance where there is none [m]",
           height_scan,
           {{"length", 1, "m", "of the grid, along the body's x", {1}},
            {"width", 1, "m", "of the grid, along its y", {1}},
            {"resolution", 1, "m", "distance of its points", {0.1}},
            {"max_distance", 1, "m", "how far down the rays look", {10}},
            {"height_offset", 1, "m", "height that counts as 0: the originals' offset", {0}}}),
      // ---- rewards ----
      of_command(term(Kind::reward, "track_lin_vel_xy_exp", kRootBody,
                      "kernel of the error of the planar velocity in the body's axes",
                      formula("exp(-sum(square({command}[0:2] - body_lin_vel_b%[0:2])) / {std}^2)"),
                      {{"std", 1, "m/s", "width of the kernel exp(-(error / std)^2)"}})),
      of_command(term(Kind::reward, "track_ang_vel_z_exp", kRootBody,
                      "kernel of the error of the turning rate in the body's axes",
                      formula("exp(-square({command}[2] - body_ang_vel_b%.z) / {std}^2)"),
                      {{"std", 1, "rad/s", "width of the kernel exp(-(error / std)^2)"}})),
      of_command(term(Kind::reward, "feet_air_time", kBodies,
                      "time in the air beyond a threshold, at touchdown, where the command moves",
                      sum_over("(last_air_time(%) - {threshold}) * (contact_time(%) > 0 && contact_time(%) < "
                               "1.5 * dt)",
                               "(norm({command}[0:2]) > 0.1) * #"),
                      {{"threshold", 1, "s", "of a step"}})),
      of_command(
          term(Kind::reward, "feet_air_time_positive_biped", kBodies,
               "shortest time of the feet in their mode, in single stance, up to a threshold, where the "
               "command moves",
               biped_air_time, {{"threshold", 1, "s", "of a step"}})),
      term(Kind::reward, "feet_slide", kBodies, "speed over ground of bodies in contact",
           sum_over("norm(body_lin_vel[%][0:2]) * (norm(contact_force(%)) > 1)")),
      term(Kind::reward, "undesired_contacts", kBodies, "number of bodies whose contact force is too large",
           sum_over("norm(contact_force(%)) > {threshold}"),
           {{"threshold", 1, "N", "largest allowed force"}}),
      of_command(term(Kind::reward, "stand_still_joint_deviation_l1", kAllJoints,
                      "absolute deviations from the default positions where the command is to stand",
                      formula("(norm({command}[0:2]) < {command_threshold}) * sum(abs(joint_pos% - "
                              "default_joint_pos%))"),
                      {{"command_threshold", 1, "m/s", "smallest command that moves", {0.06}}})),
      term(Kind::reward, "is_alive", kNoNames, "1 unless the episode failed in this step",
           formula("!terminated")),
      term(Kind::reward, "is_terminated", kNoNames, "1 if the episode failed in this step",
           formula("terminated")),
      term(Kind::reward, "lin_vel_z_l2", kRootBody, "square of the vertical velocity in the body's axes",
           formula("body_lin_vel_b%.z^2")),
      term(Kind::reward, "ang_vel_xy_l2", kRootBody, "squares of roll and pitch rates",
           formula("sum(body_ang_vel_b%[0:2]^2)")),
      term(Kind::reward, "flat_orientation_l2", kRootBody,
           "squares of gravity's horizontal components in the body",
           formula("sum(projected_gravity%[0:2]^2)")),
      term(Kind::reward, "base_height_l2", kRootBody, "square of the height's error",
           formula("(xpos%.z - {target_height})^2"), {{"target_height", 1, "m", "height to keep"}}),
      term(Kind::reward, "joint_torques_l2", kAllJoints, "squares of the actuator forces on the joints",
           formula("sum(qfrc_actuator%^2)")),
      term(Kind::reward, "joint_vel_l1", kAllJoints, "absolute joint velocities",
           formula("sum(abs(joint_vel%))")),
      term(Kind::reward, "joint_vel_l2", kAllJoints, "squares of joint velocities",
           formula("sum(joint_vel%^2)")),
      term(Kind::reward, "joint_acc_l2", kAllJoints, "squares of joint accelerations",
           formula("sum(qacc%^2)")),
      term(Kind::reward, "joint_deviation_l1", kAllJoints, "absolute deviations from the default positions",
           formula("sum(abs(joint_pos% - default_joint_pos%))")),
      term(Kind::reward, "joint_pos_target_l2", kJoints,
           "squares of the deviations of joint angles, brought to [-pi, pi), from a target",
           formula("sum((wrap_to_pi(joint_pos%) - {target})^2)"),
           {{"target", 1, "m or rad", "position to keep"}}),
      term(Kind::reward, "joint_pos_limits", kAllJoints,
           "distance of joint positions beyond the model's ranges", beyond_limits,
           {{"soft_joint_pos_limit_factor", 1, "1", "fraction of the ranges that counts as within", {1}}}),
      term(Kind::reward, "action_rate_l2", kNoNames,
           "squares of the action's change since the control step before",
           formula("sum((action - last_action)^2)")),
      term(Kind::reward, "action_l2", kNoNames, "squares of the action", formula("sum(action^2)")),
      // ---- terminations ----
      term(Kind::termination, "time_out", kNoNames,
           "the episode is as long as episode_length (a truncation, no failure)",
           formula("episode_step >= max_episode_steps")),
      term(Kind::termination, "joint_pos_out_of_limit", kAllJoints,
           "a joint is beyond its range in the model", out_of_limits),
      term(Kind::termination, "joint_pos_out_of_manual_limit", kAllJoints,
           "a joint position is out of bounds",
           formula("any(joint_pos% > {bounds.1} || joint_pos% < {bounds.0})"),
           {{"bounds", 2, "m or rad", "range of the positions"}}),
      term(Kind::termination, "joint_vel_out_of_manual_limit", kAllJoints, "a joint is too fast",
           formula("any(abs(joint_vel%) > {max_velocity})"),
           {{"max_velocity", 1, "m/s or rad/s", "largest allowed velocity"}}),
      term(Kind::termination, "bad_orientation", kRootBody, "the body is tilted",
           formula("-projected_gravity%.z < cos({limit_angle})"),
           {{"limit_angle", 1, "rad", "largest tilt of the body's z axis against gravity"}}),
      term(Kind::termination, "root_height_below_minimum", kRootBody, "the body is too low",
           formula("xpos%.z < {minimum_height}"), {{"minimum_height", 1, "m", "lowest allowed height"}}),
      term(Kind::termination, "illegal_contact", kBodies, "the contact force on a body is too large",
           sum_over("norm(contact_force(%)) > {threshold}", "# > 0"),
           {{"threshold", 1, "N", "largest allowed force"}}),
      // ---- commands ----
      term(Kind::command, "uniform_velocity_command", kRootBody,
           "velocity (x, y) [m/s] and turning rate [rad/s] in the body's axes, drawn at resets and after "
           "every",
           velocity_command,
           {{"lin_vel_x", 2, "m/s", "forward velocity"},
            {"lin_vel_y", 2, "m/s", "velocity to the left"},
            {"ang_vel_z", 2, "rad/s", "turning rate, also the limit of heading control"},
            {"heading", 2, "rad", "heading to turn to", {-3.141592653589793, 3.141592653589793}},
            {"heading_control_stiffness", 1, "1/s", "turning rate for an error of 1 rad", {1}},
            {"rel_heading_envs", 1, "1", "fraction of draws that follow the heading", {0}, true},
            {"rel_standing_envs", 1, "1", "fraction of draws that stand still", {0}, true},
            {"rel_forward_envs",
             1,
             "1",
             "fraction of draws that go straight ahead, at 0.3 m/s at least",
             {0},
             true}}),
      // ---- resets ----
      term(Kind::reset, "reset_scene_to_default", kNoNames,
           "the model's default state, which every reset starts from",
           [](const TermRequest&) { return Expressions{}; }),
      term(Kind::reset, "reset_joints_by_offset", kAllJoints,
           "default position + draw, within the joint's range; velocity = draw", reset_joints(false), ranges),
      term(Kind::reset, "reset_joints_by_scale", kAllJoints,
           "default position * draw, within the joint's range; velocity = default velocity (0) * draw",
           reset_joints(true), ranges),
      needing(
          {has_no_limited_ball_joint, "on a model with a ball joint that has a range", "an expression"},
          term(
              Kind::reset, "randomize_limited_and_rotational_joints", kEveryJoint,
              "dm_control's: joints uniform in their range, hinges without one in [-pi, pi), orientations of "
              "ball and free joints drawn",
              randomize_joints)),
      needing({has_free_joint, "on a model without a free joint", "an expression with set: qvel[joint]"},
              term(Kind::reset, "push_by_setting_velocity", kNoNames,
                   "free joint: draws are added to the velocities", push, push_parameters())),
      needing({has_free_joint, "on a model without a free joint", "reset_joints_by_offset for joints"},
              term(Kind::reset, "reset_root_state_uniform", kNoNames,
                   "free joint: default position + draws, default orientation turned by draws, velocities = "
                   "draws",
                   reset_root, root_parameters())),
  };
}

std::vector<std::string> element_names(const TaskModel& model, ElementKind kind) {
  switch (kind) {
    case ElementKind::none:
      return {};
    case ElementKind::joints:
      return names_of(model.joints);
    case ElementKind::bodies:
      return model.bodies;
    case ElementKind::geoms:
      return model.geoms;
    case ElementKind::actuators:
      return names_of(model.actuators);
    case ElementKind::sensors:
      return names_of(model.sensors);
  }
  return {};
}

// joints -> joint, bodies -> body.
std::string singular(const std::string& kind) {
  return kind.ends_with("ies") ? kind.substr(0, kind.size() - 3) + "y" : kind.substr(0, kind.size() - 1);
}

bool is_pattern(const std::string& name) {
  return name.find_first_of("*+?|()[]\\^$.") != std::string::npos;
}

// Elements that the term acts on.
void resolve_names(TermRequest& request, const LibraryTerm& term, const TermConfig& config,
                   const std::string& key) {
  const TaskModel& model = request.model;
  const std::string kind = text_of(term.names_kind);
  const std::vector<std::string> known = element_names(model, term.names_kind);
  if (config.names_kind != ElementKind::none && config.names_kind != term.names_kind)
    throw InputError(config.where_names, key + "." + text_of(config.names_kind),
                     "'" + term.name + "' takes no " + text_of(config.names_kind),
                     kind.empty() ? "it acts on the whole robot" : "it takes " + kind);
  for (const std::string& entry : config.names)
    for (const std::size_t index : matching_names(entry, known, config.where_names, key + "." + kind,
                                                  "the model has no " + singular(kind))) {
      const int element = static_cast<int>(index);
      if (std::find(request.elements.begin(), request.elements.end(), element) == request.elements.end())
        request.elements.push_back(element);
    }
  if (config.names.empty() && term.names_kind != ElementKind::none) {
    if (term.names_default == DefaultNames::root_body) {
      if (known.size() < 2)
        throw InputError(config.where, key, "'" + term.name + "' needs a body", "a model with bodies");
      request.elements.push_back(1);
    } else if (term.names_default != DefaultNames::none) {
      for (std::size_t j = 0; j < model.joints.size(); ++j)
        if (model.joints[j].is_scalar() || term.names_default == DefaultNames::every_joint)
          request.elements.push_back(static_cast<int>(j));
    }
    if (request.elements.empty())
      throw InputError(config.where, key, "'" + term.name + "' without " + kind,
                       kind + ": [names], of " + (known.empty() ? "which the model has none" : list(known)));
  }
  for (const int element : request.elements) {
    const std::string& name = known[static_cast<std::size_t>(element)];
    if (term.names_kind == ElementKind::joints && term.names_default != DefaultNames::every_joint &&
        !model.joints[static_cast<std::size_t>(element)].is_scalar())
      throw InputError(config.where_names, key + ".joints", "'" + name + "' is a ball or free joint",
                       "hinge and slide joints");
    request.names.push_back(name);
  }
}

void resolve_parameters(TermRequest& request, const LibraryTerm& term, const TermConfig& config,
                        const std::string& key) {
  std::vector<std::string> taken;
  for (const TermParameter& parameter : term.parameters) taken.push_back(parameter.name);
  for (const auto& [name, numbers] : config.parameters) {
    const auto found = std::find(taken.begin(), taken.end(), name);
    const SourceLocation& where = config.where_of(name);
    if (found == taken.end()) {
      // a key that every term takes may be meant as well
      std::vector<std::string> known = taken;
      for (const TermKey& row : term_schema())
        if (row.stands_in(term.kind)) known.push_back(row.name);
      throw InputError(where, key + "." + name,
                       "'" + term.name + "' takes no '" + name + "'" + did_you_mean(name, known),
                       taken.empty() ? "it takes no parameters" : "it takes " + list(taken));
    }
    const TermParameter& parameter = term.parameters[static_cast<std::size_t>(found - taken.begin())];
    if (static_cast<int>(numbers.size()) != parameter.size)
      throw InputError(where, key + "." + name, std::to_string(numbers.size()) + " numbers",
                       (parameter.size == 1 ? "a number: " : "a range [low, high]: ") + parameter.meaning +
                           " [" + parameter.unit + "]");
    if (parameter.is_fraction && numbers[0].expression.empty() &&
        (numbers[0].value < 0 || numbers[0].value > 1))
      throw InputError(where, key + "." + name, fmt::format("found {}", numbers[0].value),
                       "allowed: number, 0 to 1: " + parameter.meaning);
  }
  for (const TermParameter& parameter : term.parameters) {
    const auto given = config.parameters.find(parameter.name);
    if (given == config.parameters.end() && parameter.default_value.empty())
      throw InputError(config.where, key, "'" + term.name + "' without '" + parameter.name + "'",
                       parameter.name + (parameter.size == 1 ? ": number, " : ": [low, high], ") +
                           parameter.meaning + " [" + parameter.unit + "]");
    request.parameters[parameter.name] =
        given == config.parameters.end()
            ? std::vector<TermNumber>(parameter.default_value.begin(), parameter.default_value.end())
            : given->second;
  }
}

}  // namespace

std::vector<std::size_t> indices_of_name(const std::string& name, const std::vector<std::string>& known) {
  const auto exact = std::find(known.begin(), known.end(), name);
  if (exact != known.end()) return {static_cast<std::size_t>(exact - known.begin())};
  std::vector<std::size_t> result;
  if (!is_pattern(name)) return result;
  const std::regex pattern(name);
  for (std::size_t i = 0; i < known.size(); ++i)
    if (std::regex_match(known[i], pattern)) result.push_back(i);
  return result;
}

std::vector<std::size_t> matching_names(const std::string& entry, const std::vector<std::string>& known,
                                        const SourceLocation& where, const std::string& key,
                                        const std::string& what) {
  std::vector<std::size_t> result;
  try {
    result = indices_of_name(entry, known);
  } catch (const std::regex_error&) {
    throw InputError(where, key, "'" + entry + "' is not a regular expression",
                     "a name or a pattern such as '.*_hip'");
  }
  if (result.empty())
    throw InputError(where, key,
                     (what.empty() ? "no element" : what) + " '" + entry + "'" + did_you_mean(entry, known),
                     known.empty() ? "a number: the term has no named elements" : "allowed: " + list(known));
  return result;
}

double TermRequest::number(const std::string& parameter) const {
  const TermNumber& number = parameters.at(parameter)[0];
  if (number.expression.empty()) return number.value;
  throw InputError(config.where_of(parameter), key + "." + parameter,
                   "the expression '" + number.expression + "'", "a number");
}

const std::vector<LibraryTerm>& term_library() {
  static const std::vector<LibraryTerm> library = make_library();
  return library;
}

namespace {

// The kind of terms that stand in a section.
TermKind library_kind(TermKind kind) {
  if (kind == TermKind::critic_observation) return TermKind::observation;
  return kind == TermKind::event ? TermKind::reset : kind;
}

}  // namespace

bool is_time_out(const TermConfig& termination) {
  return termination.time_out || termination.term == "time_out";
}

std::vector<std::string> term_names(TermKind kind) {
  std::vector<std::string> names;
  for (const LibraryTerm& term : term_library())
    if (term.kind == library_kind(kind)) names.push_back(term.name);
  return names;
}

const LibraryTerm& find_term(const TermConfig& config, TermKind kind, const std::string& key) {
  const std::vector<std::string> known = term_names(kind);
  std::string elsewhere;
  for (const LibraryTerm& term : term_library()) {
    if (term.name == config.term && term.kind == library_kind(kind)) return term;
    if (term.name == config.term) elsewhere = section_of(term.kind).name;
  }
  const std::string found = elsewhere.empty()
                                ? "unknown term '" + config.term + "'" + did_you_mean(config.term, known)
                                : "'" + config.term + "' is a term of " + elsewhere;
  throw InputError(config.where, key, found, "terms of " + section_of(kind).name + ": " + list(known));
}

TermRequest resolve_term(const LibraryTerm& term, const TermConfig& config, const TaskModel& model,
                         const std::string& key) {
  TermRequest request{model, {}, {}, {}, config, key};
  if (term.takes_command && config.command.empty())
    throw InputError(config.where, key, "'" + term.name + "' without 'command'",
                     "command: the name of a command of task.commands");
  resolve_names(request, term, config, key);
  resolve_parameters(request, term, config, key);
  if (term.need && !term.need->met(model))
    throw InputError(config.where, key, "'" + term.name + "' " + term.need->missing, term.need->instead);
  return request;
}

}  // namespace maniple
