#include "src/simulation/terms.hpp"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <regex>

#include "src/config/schema.hpp"

namespace maniple {
namespace {

std::string text(double value) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value).ptr;
  return value < 0 ? "(" + std::string(buffer, end) + ")" : std::string(buffer, end);
}

std::string list(const std::vector<std::string>& names) {
  std::string result;
  for (const std::string& name : names) result += (result.empty() ? "" : ", ") + name;
  return result;
}

// The elements of a quantity that belong to the term: quantity['a', 'b'].
std::string of(const std::string& quantity, const TermRequest& term) {
  std::string result = quantity + "[";
  for (std::size_t i = 0; i < term.names.size(); ++i) result += (i > 0 ? ", '" : "'") + term.names[i] + "'";
  return result + "]";
}

using Expressions = std::vector<TermExpression>;
using Recipe = std::function<Expressions(const TermRequest&)>;

// A recipe that is one expression with % in place of the element list: "sum(joint_vel%^2)".
Recipe formula(const std::string& pattern) {
  return [pattern](const TermRequest& term) {
    const std::string elements = of("", term);
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
        result += text(term.parameters.at(name)[component]);
        i = end;
      } else {
        result += pattern[i];
      }
    }
    return Expressions{{"", result}};
  };
}

// Amount by which joints are beyond the ranges of the model, one summand per limited joint.
Expressions beyond_limits(const TermRequest& term) {
  std::string sum;
  for (const int element : term.elements) {
    const TaskJoint& joint = term.model.joints[static_cast<std::size_t>(element)];
    if (!joint.limited) continue;
    const std::string position = "joint_pos['" + joint.name + "']";
    sum += (sum.empty() ? "" : " + ") + ("max(" + text(joint.low) + " - " + position + ", 0) + max(" +
                                         position + " - " + text(joint.high) + ", 0)");
  }
  return {{"", sum.empty() ? "0" : sum}};
}

Expressions out_of_limits(const TermRequest& term) {
  return {{"", "(" + beyond_limits(term)[0].text + ") > 0"}};
}

// Isaac Lab: position = clamp(base + draws, joint range), velocity = draws; `scale`: base * draws.
Recipe reset_joints(bool scale) {
  return [scale](const TermRequest& term) {
    const auto draws = [&](const std::string& parameter) {
      const std::vector<double>& range = term.parameters.at(parameter);
      return "uniform(" + text(range[0]) + ", " + text(range[1]) + ")";
    };
    Expressions result;
    for (const int element : term.elements) {
      const TaskJoint& joint = term.model.joints[static_cast<std::size_t>(element)];
      const std::string base = "default_joint_pos['" + joint.name + "']";
      std::string position = base + (scale ? " * " : " + ") + draws("position_range");
      if (joint.limited)
        position = "clamp(" + position + ", " + text(joint.low) + ", " + text(joint.high) + ")";
      result.push_back({"joint_pos['" + joint.name + "']", position});
    }
    // Default velocities are zero, hence stay zero when scaled.
    for (const std::string& name : term.names)
      result.push_back({"joint_vel['" + name + "']", (scale ? "0 * " : "") + draws("velocity_range")});
    return result;
  };
}

// The free joint of the model: position and orientation offsets in the world, velocities drawn.
Expressions reset_root(const TermRequest& term) {
  const auto free = std::find_if(term.model.joints.begin(), term.model.joints.end(),
                                 [](const TaskJoint& joint) { return joint.type == joint_free; });
  const std::string q = "qpos['" + free->name + "']", base = "default_qpos['" + free->name + "']";
  const auto draw = [&](const char* parameter) {
    const std::vector<double>& range = term.parameters.at(parameter);
    return range[0] == range[1] ? text(range[0]) : "uniform(" + text(range[0]) + ", " + text(range[1]) + ")";
  };
  Expressions result;
  const char* axes[3] = {"x", "y", "z"};
  for (int k = 0; k < 3; ++k) {
    const std::string element = "[" + std::to_string(k) + "]";
    result.push_back({q + element, base + element + " + " + draw(axes[k])});
  }
  result.push_back({q + "[3:7]", "quat_mul(" + base + "[3:7], quat_from_euler(" + draw("roll") + ", " +
                                     draw("pitch") + ", " + draw("yaw") + "))"});
  const std::string v = "qvel['" + free->name + "']";
  const char* rates[6] = {"vx", "vy", "vz", "wx", "wy", "wz"};
  for (int k = 0; k < 6; ++k) result.push_back({v + "[" + std::to_string(k) + "]", draw(rates[k])});
  return result;
}

std::vector<LibraryTerm> make_library() {
  using Kind = TermKind;
  const std::vector<TermParameter> ranges{
      {"position_range", 2, true, {}, "m or rad", "range of the draw for positions"},
      {"velocity_range", 2, true, {}, "m/s or rad/s", "range of the draw for velocities"}};
  const auto offset_parameter = [](const char* meaning) {
    return std::vector<TermParameter>{{"use_default_offset", 1, false, {1}, "1", meaning}};
  };
  std::vector<LibraryTerm> library{
      // ---- actions ----
      {"joint_effort",
       Kind::action,
       "joints",
       "",
       {},
       "force or torque of motors: action * scale + offset [N or Nm]",
       {}},
      {"joint_position",
       Kind::action,
       "joints",
       "",
       offset_parameter("1: add the default positions to offset"),
       "target of position servos: action * scale + offset [m or rad]",
       {}},
      {"joint_velocity",
       Kind::action,
       "joints",
       "",
       {},
       "target of velocity servos: action * scale + offset [m/s or rad/s]",
       {}},
      {"actuator_control",
       Kind::action,
       "actuators",
       "",
       {},
       "control of any actuator: action * scale + offset",
       {}},
      // ---- observations ----
      {"joint_pos",
       Kind::observation,
       "joints",
       "all",
       {},
       "joint positions [m or rad]",
       formula("joint_pos%")},
      {"joint_pos_rel",
       Kind::observation,
       "joints",
       "all",
       {},
       "joint positions minus the default ones [m or rad]",
       formula("joint_pos% - default_joint_pos%")},
      {"joint_vel",
       Kind::observation,
       "joints",
       "all",
       {},
       "joint velocities [m/s or rad/s]",
       formula("joint_vel%")},
      {"joint_vel_rel",
       Kind::observation,
       "joints",
       "all",
       {},
       "joint velocities; default ones are 0 [m/s or rad/s]",
       formula("joint_vel%")},
      {"joint_effort",
       Kind::observation,
       "joints",
       "all",
       {},
       "actuator forces on the joints [N or Nm]",
       formula("qfrc_actuator%")},
      {"last_action",
       Kind::observation,
       "",
       "",
       {},
       "action of the control step that just ended; 0 after a reset",
       formula("action")},
      {"sensor", Kind::observation, "sensors", "", {}, "sensor readings", formula("sensordata%")},
      {"base_pos_z", Kind::observation, "bodies", "root", {}, "height of the body [m]", formula("xpos%.z")},
      {"base_lin_vel",
       Kind::observation,
       "bodies",
       "root",
       {},
       "linear velocity in the body's axes [m/s]",
       formula("body_lin_vel_b%")},
      {"base_ang_vel",
       Kind::observation,
       "bodies",
       "root",
       {},
       "angular velocity in the body's axes [rad/s]",
       formula("body_ang_vel_b%")},
      {"projected_gravity",
       Kind::observation,
       "bodies",
       "root",
       {},
       "direction of gravity in the body's axes [1]",
       formula("projected_gravity%")},
      {"root_pos_w", Kind::observation, "bodies", "root", {}, "position in the world [m]", formula("xpos%")},
      {"root_quat_w",
       Kind::observation,
       "bodies",
       "root",
       {},
       "orientation (w, x, y, z) in the world [1]",
       formula("xquat%")},
      {"root_lin_vel_w",
       Kind::observation,
       "bodies",
       "root",
       {},
       "linear velocity in the world's axes [m/s]",
       formula("body_lin_vel%")},
      {"root_ang_vel_w",
       Kind::observation,
       "bodies",
       "root",
       {},
       "angular velocity in the world's axes [rad/s]",
       formula("body_ang_vel%")},
      {"body_pos_w",
       Kind::observation,
       "bodies",
       "",
       {},
       "positions of bodies in the world [m]",
       formula("xpos%")},
      // ---- rewards ----
      {"is_alive",
       Kind::reward,
       "",
       "",
       {},
       "1 unless the episode failed in this step",
       formula("!terminated")},
      {"is_terminated",
       Kind::reward,
       "",
       "",
       {},
       "1 if the episode failed in this step",
       formula("terminated")},
      {"lin_vel_z_l2",
       Kind::reward,
       "bodies",
       "root",
       {},
       "square of the vertical velocity in the body's axes",
       formula("body_lin_vel_b%.z^2")},
      {"ang_vel_xy_l2",
       Kind::reward,
       "bodies",
       "root",
       {},
       "squares of roll and pitch rates",
       formula("sum(body_ang_vel_b%[0:2]^2)")},
      {"flat_orientation_l2",
       Kind::reward,
       "bodies",
       "root",
       {},
       "squares of gravity's horizontal components in the body",
       formula("sum(projected_gravity%[0:2]^2)")},
      {"base_height_l2",
       Kind::reward,
       "bodies",
       "root",
       {{"target_height", 1, true, {}, "m", "height to keep"}},
       "square of the height's error",
       formula("(xpos%.z - {target_height})^2")},
      {"joint_torques_l2",
       Kind::reward,
       "joints",
       "all",
       {},
       "squares of the actuator forces on the joints",
       formula("sum(qfrc_actuator%^2)")},
      {"joint_vel_l1",
       Kind::reward,
       "joints",
       "all",
       {},
       "absolute joint velocities",
       formula("sum(abs(joint_vel%))")},
      {"joint_vel_l2",
       Kind::reward,
       "joints",
       "all",
       {},
       "squares of joint velocities",
       formula("sum(joint_vel%^2)")},
      {"joint_acc_l2",
       Kind::reward,
       "joints",
       "all",
       {},
       "squares of joint accelerations",
       formula("sum(qacc%^2)")},
      {"joint_deviation_l1",
       Kind::reward,
       "joints",
       "all",
       {},
       "absolute deviations from the default positions",
       formula("sum(abs(joint_pos% - default_joint_pos%))")},
      {"joint_pos_target_l2",
       Kind::reward,
       "joints",
       "",
       {{"target", 1, true, {}, "m or rad", "position to keep"}},
       "squares of the deviations of joint angles, brought to [-pi, pi), from a target",
       formula("sum((wrap_to_pi(joint_pos%) - {target})^2)")},
      {"joint_pos_limits",
       Kind::reward,
       "joints",
       "all",
       {},
       "distance of joint positions beyond the model's ranges",
       beyond_limits},
      {"action_rate_l2",
       Kind::reward,
       "",
       "",
       {},
       "squares of the action's change since the control step before",
       formula("sum((action - last_action)^2)")},
      {"action_l2", Kind::reward, "", "", {}, "squares of the action", formula("sum(action^2)")},
      // ---- terminations ----
      {"time_out",
       Kind::termination,
       "",
       "",
       {},
       "the episode is as long as episode_length (a truncation, no failure)",
       formula("episode_step >= max_episode_steps")},
      {"joint_pos_out_of_limit",
       Kind::termination,
       "joints",
       "all",
       {},
       "a joint is beyond its range in the model",
       out_of_limits},
      {"joint_pos_out_of_manual_limit",
       Kind::termination,
       "joints",
       "all",
       {{"bounds", 2, true, {}, "m or rad", "range of the positions"}},
       "a joint position is out of bounds",
       formula("any(joint_pos% > {bounds.1} || joint_pos% < {bounds.0})")},
      {"joint_vel_out_of_manual_limit",
       Kind::termination,
       "joints",
       "all",
       {{"max_velocity", 1, true, {}, "m/s or rad/s", "largest allowed velocity"}},
       "a joint is too fast",
       formula("any(abs(joint_vel%) > {max_velocity})")},
      {"bad_orientation",
       Kind::termination,
       "bodies",
       "root",
       {{"limit_angle", 1, true, {}, "rad", "largest tilt of the body's z axis against gravity"}},
       "the body is tilted",
       formula("-projected_gravity%.z < cos({limit_angle})")},
      {"root_height_below_minimum",
       Kind::termination,
       "bodies",
       "root",
       {{"minimum_height", 1, true, {}, "m", "lowest allowed height"}},
       "the body is too low",
       formula("xpos%.z < {minimum_height}")},
      // ---- resets ----
      {"reset_scene_to_default",
       Kind::reset,
       "",
       "",
       {},
       "the model's default state, which every reset starts from",
       [](const TermRequest&) { return Expressions{}; }},
      {"reset_joints_by_offset", Kind::reset, "joints", "all", ranges,
       "default position + draw, within the joint's range; velocity = draw", reset_joints(false)},
      {"reset_joints_by_scale", Kind::reset, "joints", "all", ranges,
       "default position * draw, within the joint's range; velocity = default velocity (0) * draw",
       reset_joints(true)},
      {"reset_root_state_uniform",
       Kind::reset,
       "",
       "",
       {},
       "free joint: default position + draws, default orientation turned by draws, velocities = draws",
       reset_root},
  };
  for (LibraryTerm& term : library) {
    if (term.name != "reset_root_state_uniform") continue;
    for (const char* name : {"x", "y", "z"})
      term.parameters.push_back({name, 2, false, {0, 0}, "m", "offset of the position, world axes"});
    for (const char* name : {"roll", "pitch", "yaw"})
      term.parameters.push_back({name, 2, false, {0, 0}, "rad", "turn of the orientation"});
    for (const char* name : {"vx", "vy", "vz"})
      term.parameters.push_back({name, 2, false, {0, 0}, "m/s", "linear velocity, world axes"});
    for (const char* name : {"wx", "wy", "wz"})
      term.parameters.push_back({name, 2, false, {0, 0}, "rad/s", "angular velocity, body axes"});
  }
  return library;
}

std::vector<std::string> element_names(const TaskModel& model, const std::string& kind) {
  if (kind == "joints") return names_of(model.joints);
  if (kind == "actuators") return names_of(model.actuators);
  if (kind == "sensors") return names_of(model.sensors);
  if (kind == "bodies") return model.bodies;
  return {};
}

// joints -> joint, bodies -> body.
std::string singular(const std::string& kind) {
  return kind == "bodies" ? "body" : kind.substr(0, kind.size() - 1);
}

bool is_pattern(const std::string& name) {
  return name.find_first_of("*+?|()[]\\^$.") != std::string::npos;
}

std::string did_you_mean(const std::string& unknown, const std::vector<std::string>& known) {
  const std::string near = nearest(unknown, known);
  return near.empty() ? "" : ", did you mean '" + near + "'?";
}

// The elements of the model that one entry of a deck's list names.
std::vector<int> matching(const std::string& entry, const std::vector<std::string>& known,
                          const TermConfig& config, const std::string& key, const std::string& kind) {
  std::vector<int> result;
  const auto exact = std::find(known.begin(), known.end(), entry);
  if (exact != known.end()) return {static_cast<int>(exact - known.begin())};
  if (is_pattern(entry)) {
    try {
      const std::regex pattern(entry);
      for (std::size_t i = 0; i < known.size(); ++i)
        if (std::regex_match(known[i], pattern)) result.push_back(static_cast<int>(i));
    } catch (const std::regex_error&) {
      throw InputError(config.where_names, key + "." + kind, "'" + entry + "' is not a regular expression",
                       "a name or a pattern such as '.*_hip'");
    }
  }
  if (result.empty())
    throw InputError(config.where_names, key + "." + kind,
                     "the model has no " + singular(kind) + " '" + entry + "'" + did_you_mean(entry, known),
                     "allowed: " + list(known));
  return result;
}

}  // namespace

const std::vector<LibraryTerm>& term_library() {
  static const std::vector<LibraryTerm> library = make_library();
  return library;
}

std::string section_of(TermKind kind) {
  switch (kind) {
    case TermKind::action:
      return "actions";
    case TermKind::observation:
      return "observations";
    case TermKind::reward:
      return "rewards";
    case TermKind::termination:
      return "terminations";
    case TermKind::reset:
      return "resets";
  }
  return "";
}

const LibraryTerm& find_term(const TermConfig& config, TermKind kind, const std::string& key) {
  std::vector<std::string> known;
  std::string elsewhere;
  for (const LibraryTerm& term : term_library()) {
    if (term.name == config.term && term.kind == kind) return term;
    if (term.name == config.term) elsewhere = section_of(term.kind);
    if (term.kind == kind) known.push_back(term.name);
  }
  const std::string found = elsewhere.empty()
                                ? "unknown term '" + config.term + "'" + did_you_mean(config.term, known)
                                : "'" + config.term + "' is a term of " + elsewhere;
  throw InputError(config.where, key, found, "terms of " + section_of(kind) + ": " + list(known));
}

TermRequest resolve_term(const LibraryTerm& term, const TermConfig& config, const TaskModel& model,
                         const std::string& key) {
  TermRequest request{model, {}, {}, {}};

  // Elements that the term acts on.
  const std::vector<std::string> known = element_names(model, term.names_kind);
  if (!config.names_kind.empty() && config.names_kind != term.names_kind)
    throw InputError(config.where_names, key + "." + config.names_kind,
                     "'" + term.name + "' takes no " + config.names_kind,
                     term.names_kind.empty() ? "it acts on the whole robot" : "it takes " + term.names_kind);
  for (const std::string& entry : config.names)
    for (const int element : matching(entry, known, config, key, term.names_kind))
      if (std::find(request.elements.begin(), request.elements.end(), element) == request.elements.end())
        request.elements.push_back(element);
  if (config.names.empty() && !term.names_kind.empty()) {
    if (term.names_default == "root") {
      if (known.size() < 2)
        throw InputError(config.where, key, "'" + term.name + "' needs a body", "a model with bodies");
      request.elements.push_back(1);
    } else if (term.names_default == "all") {
      for (std::size_t j = 0; j < model.joints.size(); ++j)
        if (model.joints[j].is_scalar()) request.elements.push_back(static_cast<int>(j));
    }
    if (request.elements.empty())
      throw InputError(
          config.where, key, "'" + term.name + "' without " + term.names_kind,
          term.names_kind + ": [names], of " + (known.empty() ? "which the model has none" : list(known)));
  }
  for (const int element : request.elements) {
    const std::string& name = known[static_cast<std::size_t>(element)];
    if (term.names_kind == "joints" && !model.joints[static_cast<std::size_t>(element)].is_scalar())
      throw InputError(config.where_names, key + ".joints", "'" + name + "' is a ball or free joint",
                       "hinge and slide joints");
    request.names.push_back(name);
  }

  // Parameters.
  std::vector<std::string> taken;
  for (const TermParameter& parameter : term.parameters) taken.push_back(parameter.name);
  for (const auto& [name, numbers] : config.parameters) {
    const auto found = std::find(taken.begin(), taken.end(), name);
    const auto where = config.where_parameters.find(name);
    const SourceLocation& place = where == config.where_parameters.end() ? config.where : where->second;
    if (found == taken.end())
      throw InputError(place, key + "." + name,
                       "'" + term.name + "' takes no '" + name + "'" + did_you_mean(name, taken),
                       taken.empty() ? "it takes no parameters" : "it takes " + list(taken));
    const TermParameter& parameter = term.parameters[static_cast<std::size_t>(found - taken.begin())];
    if (static_cast<int>(numbers.size()) != parameter.size)
      throw InputError(place, key + "." + name, std::to_string(numbers.size()) + " numbers",
                       (parameter.size == 1 ? "a number: " : "a range [low, high]: ") + parameter.meaning +
                           " [" + parameter.unit + "]");
  }
  for (const TermParameter& parameter : term.parameters) {
    const auto given = config.parameters.find(parameter.name);
    if (given == config.parameters.end() && parameter.required)
      throw InputError(config.where, key, "'" + term.name + "' without '" + parameter.name + "'",
                       parameter.name + (parameter.size == 1 ? ": number, " : ": [low, high], ") +
                           parameter.meaning + " [" + parameter.unit + "]");
    request.parameters[parameter.name] =
        given == config.parameters.end() ? parameter.otherwise : given->second;
  }
  if (term.name == "reset_root_state_uniform" &&
      std::none_of(model.joints.begin(), model.joints.end(),
                   [](const TaskJoint& j) { return j.type == joint_free; }))
    throw InputError(config.where, key, "'" + term.name + "' on a model without a free joint",
                     "reset_joints_by_offset for joints");
  return request;
}

}  // namespace maniple
