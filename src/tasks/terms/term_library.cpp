// The table of the library's terms: their names, elements, parameters and meanings, with a recipe for each.
// Their expressions are written by src/tasks/terms/term_recipes.cpp.
#include <algorithm>
#include <initializer_list>
#include <numbers>
#include <utility>

#include "src/tasks/terms/applied_forces.hpp"
#include "src/tasks/terms/motion.hpp"
#include "src/tasks/terms/term_recipes.hpp"
#include "src/tasks/terms/terms.hpp"

namespace maniple {
namespace {

using namespace recipes;

// The elements of the model that terms take: joints and so on, and which ones when the deck names none.
struct TermNames {
  ElementKind kind = ElementKind::none;
  DefaultNames defaults = DefaultNames::none;
  bool one = false;
};

constexpr TermNames kNoNames, kJoints{ElementKind::joints},
    kAllJoints{ElementKind::joints, DefaultNames::scalar_joints},
    kEveryJoint{ElementKind::joints, DefaultNames::every_joint}, kBodies{ElementKind::bodies},
    kRootBody{ElementKind::bodies, DefaultNames::root_body, true},
    kRootBodies{ElementKind::bodies, DefaultNames::root_body},
    kTrackedBodies{ElementKind::bodies, DefaultNames::tracked_bodies}, kActuators{ElementKind::actuators},
    kSensors{ElementKind::sensors};

// Allowed numbers of terms. Angles beyond a turn are taken for degrees and refused.
constexpr double kTurn = 2 * std::numbers::pi;
const Allowed kFraction{0, 1}, kNotNegative{.low = 0}, kPositive{.low = 0, .above_low = true},
    kAngle{-kTurn, kTurn}, kTilt{.low = 0, .high = std::numbers::pi, .above_low = true};

TermParameter kernel_width(const char* unit) {
  return {"std", 1, unit, "width of the kernel exp(-(error / std)^2)", {}, kPositive};
}

LibraryTerm term(TermKind kind, const char* name, TermNames names, const char* meaning, Recipe recipe = {},
                 std::vector<TermParameter> parameters = {}) {
  LibraryTerm term{name, kind, names.kind, names.defaults, std::move(parameters), meaning, std::move(recipe)};
  term.of_one = names.one;
  return term;
}

LibraryTerm needing(ModelNeed need, LibraryTerm term) {
  term.need = std::move(need);
  return term;
}

LibraryTerm of_command(LibraryTerm term) {
  term.takes_command = true;
  return term;
}

LibraryTerm with_components(std::vector<std::string> parameters, LibraryTerm term) {
  term.components = std::move(parameters);
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
  const auto ranges = [&](std::initializer_list<const char*> names, const char* unit, const char* meaning,
                          const Allowed& allowed = {}) {
    for (const char* name : names) parameters.push_back({name, 2, unit, meaning, {0, 0}, allowed});
  };
  ranges({"x", "y", "z"}, "m", "offset of the position, world axes");
  ranges({"roll", "pitch", "yaw"}, "rad", "turn of the orientation", kAngle);
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

bool has_terrain(const TaskModel& model) {
  return model.terrain != nullptr;
}

bool has_motion(const TaskModel& model) {
  return model.motion != nullptr;
}

std::vector<TermParameter> motion_parameters() {
  std::vector<TermParameter> parameters = root_parameters();
  parameters.push_back(
      {"joint_position_range", 2, "m or rad", "offset of each joint position", {-0.52, 0.52}});
  parameters.push_back({"soft_joint_pos_limit_factor",
                        1,
                        "1",
                        "fraction of the joints' ranges, about their middles, that positions stay in",
                        {1},
                        kPositive});
  parameters.push_back({"adaptive_kernel_size",
                        1,
                        "parts",
                        "parts of the motion that share a failure: its own and those before it",
                        {1},
                        {1, 1000}});
  parameters.push_back({"adaptive_lambda",
                        1,
                        "1",
                        "share of each further one of these parts, of that of the one behind it",
                        {0.8},
                        kFraction});
  parameters.push_back({"adaptive_uniform_ratio",
                        1,
                        "failures",
                        "failures in a control step, of all environments, that are spread over all parts",
                        {0.1},
                        kPositive});
  parameters.push_back({"adaptive_alpha",
                        1,
                        "1",
                        "weight of a control step in the running mean of failures",
                        {0.001},
                        kFraction});
  return parameters;
}

// mjlab's terms of motion tracking.
void add_motion_terms(std::vector<LibraryTerm>& library) {
  using Kind = TermKind;
  const ModelNeed need{has_motion, "without a motion", std::string("a command with term: ") + kMotionTerm};
  const std::vector<TermParameter> distance{kernel_width("m")}, angle{kernel_width("rad")},
      speed{kernel_width("m/s")}, rate{kernel_width("rad/s")},
      farthest{{"threshold", 1, "m", "largest allowed distance", {}, kNotNegative}};
  const auto add = [&](LibraryTerm added) { library.push_back(needing(need, std::move(added))); };
  add(term(Kind::observation, "motion_anchor_pos_b", kNoNames,
           "position of the motion's anchor body, in the axes of the robot's [m]",
           of_motion("to_frame(xpos@, xquat@, &_body_pos_w@)")));
  add(term(
      Kind::observation, "motion_anchor_ori_b", kNoNames,
      "first two columns, row by row, of the rotation matrix of the motion's anchor body in the robot's [1]",
      of_motion("matrix_from_quat(quat_mul(quat_conjugate(xquat@), &_body_quat_w@))[0:2, 3:5, 6:8]")));
  add(term(Kind::observation, "robot_body_pos_b", kTrackedBodies,
           "positions of bodies in the axes of the anchor body [m]",
           of_motion("to_frame(xpos@, xquat@, xpos%)")));
  add(term(Kind::observation, "robot_body_ori_b", kTrackedBodies,
           "first two columns, row by row, of the rotation matrix of each body in the anchor body [1]",
           each_tracked_body("matrix_from_quat(quat_mul(quat_conjugate(xquat@), xquat%))[0:2, 3:5, 6:8]")));
  add(term(Kind::reward, "motion_global_anchor_position_error_exp", kNoNames,
           "kernel of the distance of the anchor body from the motion's",
           of_motion("exp(-sum(square(&_body_pos_w@ - xpos@)) / {std}^2)"), distance));
  add(term(Kind::reward, "motion_global_anchor_orientation_error_exp", kNoNames,
           "kernel of the angle between the anchor body and the motion's",
           of_motion("exp(-square(quat_error_magnitude(&_body_quat_w@, xquat@)) / {std}^2)"), angle));
  add(term(Kind::reward, "motion_relative_body_position_error_exp", kTrackedBodies,
           "kernel of the distances of bodies from the motion's, placed and headed as the robot's anchor",
           of_motion("exp(-sum(square(~ - xpos%)) / # / {std}^2)"), distance));
  add(term(Kind::reward, "motion_relative_body_orientation_error_exp", kTrackedBodies,
           "kernel of the angles between bodies and the motion's, headed as the robot's anchor",
           of_tracked_bodies("square(quat_error_magnitude($, xquat%))", "exp(-# / {std}^2)"), angle));
  add(term(Kind::reward, "motion_global_body_linear_velocity_error_exp", kTrackedBodies,
           "kernel of the errors of the bodies' velocities, world axes",
           of_motion("exp(-sum(square(&_body_lin_vel_w% - body_lin_vel%)) / # / {std}^2)"), speed));
  add(term(Kind::reward, "motion_global_body_angular_velocity_error_exp", kTrackedBodies,
           "kernel of the errors of the bodies' angular velocities, world axes",
           of_motion("exp(-sum(square(&_body_ang_vel_w% - body_ang_vel%)) / # / {std}^2)"), rate));
  add(term(Kind::termination, "bad_anchor_pos", kNoNames, "the anchor body is too far from the motion's",
           of_motion("norm(&_body_pos_w@ - xpos@) > {threshold}"), farthest));
  add(term(Kind::termination, "bad_anchor_pos_z_only", kNoNames,
           "the anchor body is too far above or below the motion's",
           of_motion("abs(&_body_pos_w@.z - xpos@.z) > {threshold}"), farthest));
  add(term(
      Kind::termination, "bad_anchor_ori", kNoNames,
      "the anchor body is tilted unlike the motion's: the vertical component of its z axis differs too much",
      of_motion("abs(rotate_inverse(&_body_quat_w@, [0, 0, -1]).z - rotate_inverse(xquat@, [0, 0, -1]).z) "
                "> {threshold}"),
      {{"threshold", 1, "1", "largest allowed difference", {}, kNotNegative}}));
  add(term(Kind::termination, "bad_motion_body_pos", kTrackedBodies,
           "a body is too far from the motion's, placed and headed as the robot's anchor",
           of_motion("max(square(~ - xpos%)[::3] + square(~ - xpos%)[1::3] + square(~ - xpos%)[2::3]) > "
                     "{threshold}^2"),
           farthest));
  add(term(Kind::termination, "bad_motion_body_pos_z_only", kTrackedBodies,
           "a body is too far above or below the motion's, placed as the robot's anchor",
           of_motion("max(abs(~ - xpos%)[2::3]) > {threshold}"), farthest));
}

std::vector<LibraryTerm> make_library() {
  const ModelNeed kTerrainNeed{has_terrain, "without a terrain", "a deck with terrain.sub_terrains"};
  using Kind = TermKind;
  const std::vector<TermParameter> ranges{
      {"position_range", 2, "m or rad", "range of the draw for positions"},
      {"velocity_range", 2, "m/s or rad/s", "range of the draw for velocities"}};
  std::vector<LibraryTerm> library{
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
           "joint velocities minus the default ones [m/s or rad/s]",
           formula("joint_vel% - default_joint_vel%")),
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
      term(Kind::observation, "root_pos_w", kRootBody,
           "position in the world, on a terrain from the origin of the cell [m]",
           from_origin("xpos%", "xpos% - terrain_origin")),
      term(Kind::observation, "root_quat_w", kRootBody, "orientation (w, x, y, z) in the world [1]",
           formula("xquat%")),
      term(Kind::observation, "root_lin_vel_w", kRootBody, "linear velocity in the world's axes [m/s]",
           formula("body_lin_vel%")),
      term(Kind::observation, "root_ang_vel_w", kRootBody, "angular velocity in the world's axes [rad/s]",
           formula("body_ang_vel%")),
      term(Kind::observation, "body_pos_w", kBodies,
           "positions of bodies in the world, on a terrain from the origin of the cell [m]",
           from_origin("xpos%", "xpos% - repeat(terrain_origin, size(xpos%) / 3)")),
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
      term(Kind::observation, "height_scan", kRootBodies,
           "height of the body above fixed geoms, measured below the points of a grid around it that "
           "turns with it about z, minus height_offset; max_distance - ray_offset where a ray meets nothing. "
           "Rays start at the body, or ray_offset above it, from where they see ground that is higher [m]",
           height_scan,
           {{"length", 1, "m", "length of the grid along the body's x", {1}},
            {"width", 1, "m", "width of the grid along the body's y", {1}},
            {"resolution", 1, "m", "spacing of its points", {0.1}},
            {"max_distance", 1, "m", "length of the rays; must exceed ray_offset", {10}},
            {"height_offset", 1, "m", "height at which the observation is 0", {0}},
            {"ray_offset", 1, "m", "height above the body at which rays start", {0}, kNotNegative}}),
      // ---- rewards ----
      of_command(term(Kind::reward, "track_lin_vel_xy_exp", kRootBody,
                      "kernel of the error of the planar velocity in the body's axes",
                      formula("exp(-sum(square({command}[0:2] - body_lin_vel_b%[0:2])) / {std}^2)"),
                      {kernel_width("m/s")})),
      of_command(term(Kind::reward, "track_ang_vel_z_exp", kRootBody,
                      "kernel of the error of the turning rate in the body's axes",
                      formula("exp(-square({command}[2] - body_ang_vel_b%.z) / {std}^2)"),
                      {kernel_width("rad/s")})),
      of_command(term(
          Kind::reward, "track_lin_vel_xy_yaw_frame_exp", kRootBody,
          "kernel of the error of the planar velocity in the world's axes, turned as the body is about z",
          formula("exp(-sum(square({command}[0:2] - rotate_inverse(quat_from_euler(0, 0, atan2(xmat%[3], "
                  "xmat%[0])), body_lin_vel%)[0:2])) / {std}^2)"),
          {kernel_width("m/s")})),
      of_command(term(Kind::reward, "track_ang_vel_z_world_exp", kRootBody,
                      "kernel of the error of the turning rate about the world's z",
                      formula("exp(-square({command}[2] - body_ang_vel%.z) / {std}^2)"),
                      {kernel_width("rad/s")})),
      of_command(term(
          Kind::reward, "feet_air_time", kBodies,
          "time in the air beyond a threshold, at touchdown, while the command is to walk",
          sum_over("(last_air_time(%) - {threshold}) * first_contact(%)", "(norm({command}[0:2]) > 0.1) * #"),
          {{"threshold", 1, "s", "of a step", {}, kNotNegative}})),
      of_command(term(Kind::reward, "feet_air_time_positive_biped", kBodies,
                      "in single stance the shorter time of the feet in contact or in the air, up to a "
                      "threshold, while the command is to walk",
                      biped_air_time, {{"threshold", 1, "s", "of a step", {}, kNotNegative}})),
      term(Kind::reward, "feet_slide", kBodies, "speed over ground of bodies in contact",
           sum_over("norm(body_lin_vel[%][0:2]) * (norm(contact_force(%)) > 1)")),
      term(Kind::reward, "undesired_contacts", kBodies, "number of bodies whose contact force is too large",
           sum_over("norm(contact_force(%)) > {threshold}"),
           {{"threshold", 1, "N", "largest allowed force", {}, kNotNegative}}),
      of_command(term(Kind::reward, "stand_still_joint_deviation_l1", kAllJoints,
                      "absolute deviations from the default positions where the command is to stand",
                      formula("(norm({command}[0:2]) < {command_threshold}) * sum(abs(joint_pos% - "
                              "default_joint_pos%))"),
                      {{"command_threshold",
                        1,
                        "m/s",
                        "speed below which the command is to stand",
                        {0.06},
                        kNotNegative}})),
      term(Kind::reward, "is_alive", kNoNames, "1 unless the episode was terminated in this step",
           formula("!terminated")),
      term(Kind::reward, "is_terminated", kNoNames,
           "1 if the episode was terminated in this step, by a failure or by success", formula("terminated")),
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
           {{"soft_joint_pos_limit_factor",
             1,
             "1",
             "fraction of the ranges that counts as within",
             {1},
             kPositive}}),
      term(Kind::reward, "action_rate_l2", kNoNames,
           "squares of the action's change since the control step before",
           formula("sum((action - last_action)^2)")),
      term(Kind::reward, "action_l2", kNoNames, "squares of the action", formula("sum(action^2)")),
      // ---- terminations ----
      term(Kind::termination, "time_out", kNoNames,
           "the episode has reached episode_length (a truncation, not a failure)",
           formula("episode_step >= max_episode_steps")),
      term(Kind::termination, "joint_pos_out_of_limit", kAllJoints,
           "a joint is beyond its range in the model", out_of_limits),
      term(Kind::termination, "joint_pos_out_of_manual_limit", kAllJoints,
           "a joint position is out of bounds",
           formula("any(joint_pos% > {bounds.1} || joint_pos% < {bounds.0})"),
           {{"bounds", 2, "m or rad", "range of the positions"}}),
      term(Kind::termination, "joint_vel_out_of_manual_limit", kAllJoints, "a joint is too fast",
           formula("any(abs(joint_vel%) > {max_velocity})"),
           {{"max_velocity", 1, "m/s or rad/s", "largest allowed velocity", {}, kNotNegative}}),
      term(Kind::termination, "bad_orientation", kRootBody, "the body is tilted",
           formula("-projected_gravity%.z < cos({limit_angle})"),
           {{"limit_angle", 1, "rad", "largest tilt of the body's z axis against gravity", {}, kTilt}}),
      term(Kind::termination, "root_height_below_minimum", kRootBody, "the body is too low",
           formula("xpos%.z < {minimum_height}"), {{"minimum_height", 1, "m", "lowest allowed height"}}),
      term(Kind::termination, "illegal_contact", kBodies, "the contact force on a body is too large",
           sum_over("norm(contact_force(%)) > {threshold}", "# > 0"),
           {{"threshold", 1, "N", "largest allowed force", {}, kNotNegative}}),
      needing(kTerrainNeed,
              term(Kind::termination, "terrain_out_of_bounds", kRootBody,
                   "the body is near the edge of the terrain, which includes the border, or beyond it",
                   out_of_terrain,
                   {{"distance_buffer", 1, "m", "least distance to the edge", {3}, kNotNegative}})),
      // ---- curricula ----
      needing(
          kTerrainNeed,
          of_command(term(Kind::curriculum, "terrain_levels_vel", kRootBody,
                          "level of each environment on the terrain: a row further after an episode in which "
                          "the body walked farther than half a cell, a row back after less than half of what "
                          "the command at its end asks in a whole episode, and beyond the last row a random "
                          "one. The curriculum is the mean level, <its name>_<sub-terrain> that of each kind",
                          terrain_levels))),
      // ---- commands ----
      with_components(
          {"lin_vel_x", "lin_vel_y", "ang_vel_z"},
          term(Kind::command, "uniform_velocity_command", kRootBody,
               "velocity (x, y) [m/s] and turning rate [rad/s] in the body's axes, drawn at resets and after "
               "every",
               velocity_command,
               {{"lin_vel_x", 2, "m/s", "forward velocity"},
                {"lin_vel_y", 2, "m/s", "velocity to the left"},
                {"ang_vel_z", 2, "rad/s", "turning rate, also the limit of heading control"},
                {"heading", 2, "rad", "heading to turn to", {-3.141592653589793, 3.141592653589793}, kAngle},
                {"heading_control_stiffness", 1, "1/s", "turning rate for an error of 1 rad", {1}},
                {"rel_heading_envs", 1, "1", "fraction of draws that follow the heading", {0}, kFraction},
                {"rel_standing_envs", 1, "1", "fraction of draws that stand still", {0}, kFraction},
                {"rel_forward_envs",
                 1,
                 "1",
                 "fraction of draws that go straight ahead, at 0.3 m/s at least",
                 {0},
                 kFraction}})),
      term(
          Kind::command, kMotionTerm, kBodies,
          "joint positions and velocities of a reference motion, a frame in each control step. Resets, and "
          "the end of the motion, put the robot into a frame, with random offsets. bodies are those that are "
          "tracked, the root of the robot first. Quantities <command>_body_pos_w and others tell of the "
          "frame",
          motion_state, motion_parameters()),
      // ---- resets ----
      term(Kind::reset, "reset_scene_to_default", kNoNames,
           "the default state, of the model or of task.keyframe, which every reset starts from",
           [](const TermRequest&) { return Expressions{}; }),
      term(Kind::reset, "reset_joints_by_offset", kAllJoints,
           "default position + draw, within the joint's range; default velocity + draw", reset_joints(false),
           ranges),
      term(Kind::reset, "reset_joints_by_scale", kAllJoints,
           "default position * draw, within the joint's range; default velocity * draw", reset_joints(true),
           ranges),
      needing(
          {has_no_limited_ball_joint, "on a model with a ball joint that has a range", "an expression"},
          term(
              Kind::reset, "randomize_limited_and_rotational_joints", kEveryJoint,
              "dm_control's: joints uniform in their range, hinges without one in [-pi, pi), orientations of "
              "ball and free joints drawn",
              randomize_joints)),
      needing({has_free_joint, "on a model without a free joint",
               kFreeBase + std::string("; or an expression with set: qvel[joint]")},
              term(Kind::reset, "push_by_setting_velocity", kNoNames,
                   "free joint: draws are added to the velocities", push, push_parameters())),
      term(
          Kind::reset, kForceTerm, kBodies,
          "bodies: force and torque from outside at the centre of mass, world axes, held until the next draw",
          draw_forces,
          {{"force_range", 2, "N", "range of the draw for each component of the force", {0, 0}},
           {"torque_range", 2, "N m", "range of the draw for each component of the torque", {0, 0}}}),
      needing({has_free_joint, "on a model without a free joint",
               kFreeBase + std::string("; or reset_joints_by_offset for joints")},
              term(Kind::reset, "reset_root_state_uniform", kNoNames,
                   "free joint: default position + draws, default orientation turned by draws, default "
                   "velocities + draws",
                   reset_root, root_parameters())),
  };
  add_motion_terms(library);
  return library;
}

}  // namespace

const std::vector<LibraryTerm>& term_library() {
  static const std::vector<LibraryTerm> library = make_library();
  return library;
}

}  // namespace maniple
