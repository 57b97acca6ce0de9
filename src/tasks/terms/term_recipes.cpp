// Recipes write text: their results can be read, and written in a deck, as any other expression.
#include "src/tasks/terms/term_recipes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <initializer_list>

#include "src/tasks/language/names.hpp"
#include "src/tasks/terms/motion.hpp"

namespace maniple::recipes {
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

}  // namespace

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

Recipe sum_over(const std::string& pattern, const std::string& whole) {
  return [pattern, whole](const TermRequest& term) {
    std::string sum;
    for (const std::string& name : term.names) {
      std::string one = pattern;
      for (std::size_t at = one.find('%'); at != std::string::npos; at = one.find('%'))
        one = one.substr(0, at) + "'" + name + "'" + one.substr(at + 1);
      sum += (sum.empty() ? "(" : " + (") + one + ")";
    }
    const std::size_t at = whole.find('#');
    return formula(whole.substr(0, at) + "(" + sum + ")" + whole.substr(at + 1))(term);
  };
}

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

Expressions height_scan(const TermRequest& term) {
  const auto number = [&](const char* name) { return text(term.parameters.at(name)[0]); };
  const double above = term.number("ray_offset");
  if (const TermNumber& longest = term.parameters.at("max_distance")[0];
      above > 0 && longest.expression.empty() && longest.value <= above)
    throw InputError(term.config.where_of("max_distance"), term.key + ".max_distance",
                     fmt::format("rays of {} m that start {} m above the body", longest.value, above),
                     fmt::format("above ray_offset, {} m", above));
  const std::string grid =
      "grid_pattern(" + number("length") + ", " + number("width") + ", " + number("resolution") + ")";
  const std::string points =
      above == 0 ? grid : grid + " + repeat([0, 0, " + text(above) + "], size(" + grid + ") / 3)";
  const std::string below_body = above == 0 ? "" : " - " + text(above);
  std::string heights;
  for (const std::string& name : term.names) {
    const std::string distance = "ray_distance('" + name + "', " + points +
                                 ", alignment = yaw, max_distance = " + number("max_distance") + ")";
    heights += (heights.empty() ? "" : ", ") +
               ("(" + distance + " < 0 ? " + number("max_distance") + below_body + " : " + distance +
                below_body + " - " + number("height_offset") + ")");
  }
  return {{"", "[" + heights + "]"}};
}

Recipe from_origin(const std::string& pattern, const std::string& on_terrain) {
  return [pattern, on_terrain](const TermRequest& term) {
    return formula(term.model.terrain ? on_terrain : pattern)(term);
  };
}

Expressions terrain_levels(const TermRequest& term) {
  const std::string walked = "norm(xpos['" + term.names[0] + "'][0:2] - terrain_origin[0:2])";
  return {{"", walked + " > terrain_size[0] / 2 ? 1 : " + walked + " < norm(" + term.config.command +
                   "[0:2]) * episode_length * 0.5 ? -1 : 0"}};
}

Expressions out_of_terrain(const TermRequest& term) {
  std::string beyond;
  for (std::size_t k = 0; k < 2; ++k) {
    const double most = std::max(0.0, term.model.terrain->extent[k] - term.number("distance_buffer"));
    beyond += (k == 0 ? "abs(xpos['" : " || abs(xpos['") + term.names[0] + "'][" + std::to_string(k) +
              "] - " + text(term.model.terrain->middle[k]) + ") > " + text(most);
  }
  return {{"", beyond}};
}

Expressions velocity_command(const TermRequest& term) {
  const auto range = [&](const char* name) { return uniform(term.parameters.at(name)); };
  const std::string body = "'" + term.names[0] + "'";
  const auto number = [&](const char* name) { return term.parameters.at(name)[0]; };
  if (is_plain_zero(number("rel_heading_envs")))
    for (const char* of_headings : {"heading", "heading_control_stiffness"})
      if (const auto given = term.config.where_parameters.find(of_headings);
          given != term.config.where_parameters.end())
        throw InputError(given->second, term.key + "." + of_headings, "set without rel_heading_envs",
                         "allowed: with the fraction of draws that follow headings, 1 for all");
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

Expressions motion_state(const TermRequest& term) {
  const std::string& name = term.config.name;
  const Motion& motion = *term.model.motion;
  const std::string root = "['" + motion.bodies[0] + "']";
  Expressions result;
  if (!motion.free_joint.empty()) {
    const std::string joint = "['" + motion.free_joint + "']", q = "qpos" + joint, v = "qvel" + joint;
    result.push_back({q + "[0:3]", name + "_body_pos_w" + root + " + " + drawn(term, {"x", "y", "z"})});
    result.push_back({q + "[3:7]", "quat_mul(quat_from_euler(" + drawn(term, "roll") + ", " +
                                       drawn(term, "pitch") + ", " + drawn(term, "yaw") + "), " + name +
                                       "_body_quat_w" + root + ")"});
    result.push_back(
        {v + "[0:3]", name + "_body_lin_vel_w" + root + " + " + drawn(term, {"vx", "vy", "vz"})});
    // rates are in the axes of the body, those of the motion and the draws in the world's
    result.push_back({v + "[3:6]", "rotate_inverse(" + q + "[3:7], " + name + "_body_ang_vel_w" + root +
                                       " + " + drawn(term, {"wx", "wy", "wz"}) + ")"});
  }
  const double rest = (1 - term.number("soft_joint_pos_limit_factor")) / 2;
  for (const TaskJoint& joint : term.model.joints) {
    if (std::find(motion.joints.begin(), motion.joints.end(), joint.name) == motion.joints.end()) continue;
    const std::string of_joint = "['" + joint.name + "']", cut = text(rest * (joint.high - joint.low));
    const std::string position = name + "_joint_pos" + of_joint + " + " + drawn(term, "joint_position_range");
    result.push_back({"joint_pos" + of_joint, joint.limited
                                                  ? "clamp(" + position + ", " + text(joint.low) + " + " +
                                                        cut + ", " + text(joint.high) + " - " + cut + ")"
                                                  : position});
    result.push_back({"joint_vel" + of_joint, name + "_joint_vel" + of_joint});
  }
  return result;
}

namespace {

const Motion& motion_of(const TermRequest& term) {
  const Motion& motion = *term.model.motion;
  if (!term.config.command.empty() && term.config.command != motion.command)
    throw InputError(term.config.where_of("command"), term.key + ".command",
                     "'" + term.config.command + "' is no motion", "allowed: " + motion.command);
  return motion;
}

// The number of each body of the term among the tracked ones.
std::vector<std::size_t> tracked_places(const TermRequest& term, const Motion& motion) {
  std::vector<std::size_t> places;
  for (const std::string& name : term.names) {
    const auto found = std::find(motion.bodies.begin(), motion.bodies.end(), name);
    if (found == motion.bodies.end())
      throw InputError(term.config.where_names, term.key + ".bodies", "'" + name + "' is no tracked body",
                       "bodies of the command " + motion.command + ": " + list(motion.bodies));
    places.push_back(static_cast<std::size_t>(found - motion.bodies.begin()));
  }
  return places;
}

// Each sign of the pattern that stands for something, by that.
std::string filled(const std::string& pattern, const std::map<char, std::string>& signs) {
  std::string result;
  for (const char c : pattern) {
    const auto found = signs.find(c);
    if (found == signs.end())
      result += c;
    else
      result += found->second;
  }
  return result;
}

std::vector<std::string> of_each_tracked_body(const std::string& pattern, const TermRequest& term) {
  const Motion& motion = motion_of(term);
  const std::vector<std::size_t> places = tracked_places(term, motion);
  std::vector<std::string> values;
  for (std::size_t i = 0; i < places.size(); ++i)
    values.push_back(filled(pattern, {{'&', motion.command},
                                      {'@', "['" + motion.anchor + "']"},
                                      {'%', "['" + term.names[i] + "']"},
                                      {'$', fmt::format("{}_body_quat_relative_w[{}:{}]", motion.command,
                                                        4 * places[i], 4 * places[i] + 4)}}));
  return values;
}

}  // namespace

Recipe of_motion(const std::string& pattern) {
  return [pattern](const TermRequest& term) {
    const Motion& motion = motion_of(term);
    std::string names, relative;
    for (const std::size_t place : tracked_places(term, motion)) {
      names += (names.empty() ? "'" : ", '") + motion.bodies[place] + "'";
      relative += fmt::format("{}{}:{}", relative.empty() ? "" : ", ", 3 * place, 3 * place + 3);
    }
    return formula(filled(pattern, {{'&', motion.command},
                                    {'@', "['" + motion.anchor + "']"},
                                    {'%', "[" + names + "]"},
                                    {'#', std::to_string(term.names.size())},
                                    {'~', motion.command + "_body_pos_relative_w[" + relative + "]"}}))(term);
  };
}

Recipe of_tracked_bodies(const std::string& pattern, const std::string& whole) {
  return [pattern, whole](const TermRequest& term) {
    return formula(filled(whole, {{'#', "mean([" + list(of_each_tracked_body(pattern, term)) + "])"}}))(term);
  };
}

Recipe each_tracked_body(const std::string& pattern) {
  return [pattern](const TermRequest& term) {
    return Expressions{{"", "[" + list(of_each_tracked_body(pattern, term)) + "]"}};
  };
}

Expressions push(const TermRequest& term) {
  const auto free = std::find_if(term.model.joints.begin(), term.model.joints.end(),
                                 [](const TaskJoint& joint) { return joint.type == joint_free; });
  const std::string v = "qvel['" + free->name + "']", q = "qpos['" + free->name + "'][3:7]";
  return {{v + "[0:3]", v + "[0:3] + " + drawn(term, {"vx", "vy", "vz"})},
          {v + "[3:6]", v + "[3:6] + rotate_inverse(" + q + ", " + drawn(term, {"wx", "wy", "wz"}) + ")"}};
}

Expressions draw_forces(const TermRequest& term) {
  const auto three = [&](const char* range) { return drawn(term, {range, range, range}); };
  Expressions result;
  for (const std::string& name : term.names)
    result.push_back(
        {"xfrc_applied['" + name + "']", "[" + three("force_range") + ", " + three("torque_range") + "]"});
  return result;
}

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
    for (const std::string& name : term.names)
      result.push_back({"joint_vel['" + name + "']", "default_joint_vel['" + name + "']" +
                                                         (scale ? " * " : " + ") +
                                                         uniform(term.parameters.at("velocity_range"))});
    return result;
  };
}

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

Expressions reset_root(const TermRequest& term) {
  const auto free = std::find_if(term.model.joints.begin(), term.model.joints.end(),
                                 [](const TaskJoint& joint) { return joint.type == joint_free; });
  const std::string q = "qpos['" + free->name + "']", base = "default_qpos['" + free->name + "']";
  Expressions result;
  const char* axes[3] = {"x", "y", "z"};
  for (int k = 0; k < 3; ++k) {
    const std::string element = "[" + std::to_string(k) + "]";
    result.push_back({q + element, base + element +
                                       (term.model.terrain ? " + terrain_origin" + element : "") + " + " +
                                       drawn(term, axes[k])});
  }
  result.push_back({q + "[3:7]", "quat_mul(" + base + "[3:7], quat_from_euler(" + drawn(term, "roll") + ", " +
                                     drawn(term, "pitch") + ", " + drawn(term, "yaw") + "))"});
  const std::string v = "qvel['" + free->name + "']", still = "default_qvel['" + free->name + "']";
  const auto first = term.model.qvel0.begin() + free->dofadr;
  const bool spins = std::any_of(first + 3, first + 6, [](double rate) { return rate != 0; });
  result.push_back({v + "[0:3]", still + "[0:3] + " + drawn(term, {"vx", "vy", "vz"})});
  // rates are in the axes of the body, draws in those of the world
  const std::string rates = spins ? "rotate(" + base + "[3:7], " + still + "[3:6]) + " : "";
  result.push_back(
      {v + "[3:6]", "rotate_inverse(" + q + "[3:7], " + rates + drawn(term, {"wx", "wy", "wz"}) + ")"});
  return result;
}

Expressions biped_air_time(const TermRequest& term) {
  std::string feet, standing;
  for (const std::string& name : term.names) {
    const std::string foot = "'" + name + "'";
    standing += (standing.empty() ? "" : " + ") + ("(contact_time(" + foot + ") > 0)");
    feet += (feet.empty() ? "" : ", ") +
            ("contact_time(" + foot + ") > 0 ? contact_time(" + foot + ") : air_time(" + foot + ")");
  }
  return {{"", "(norm(" + term.config.command + "[0:2]) > 0.1) * (" + standing + " == 1) * min(min([" + feet +
                   "]), " + text(term.parameters.at("threshold")[0]) + ")"}};
}

}  // namespace maniple::recipes
