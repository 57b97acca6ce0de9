// The recipes of the library's terms: how a term becomes expressions for the elements and parameters that a
// deck gives it. src/tasks/terms/term_library.cpp says which term has which.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/tasks/terms/terms.hpp"

namespace maniple::recipes {

using Expressions = std::vector<TermExpression>;
using Recipe = std::function<Expressions(const TermRequest&)>;

// A recipe that is one expression. "sum(joint_vel%^2)": % stands for the elements of the term, ['a', 'b'].
Recipe formula(const std::string& pattern);

// The sum of a formula over the elements of the term: % stands for the name of one of them, in quotes.
Recipe sum_over(const std::string& pattern, const std::string& whole = "#");

// The values of a formula for the elements of the term, as a vector.
Recipe each(const std::string& pattern);

// Height of each body above the ground below a grid around it that turns as it does, seen from above: Isaac
// Lab's and mjlab's height_scan.
Expressions height_scan(const TermRequest& term);

// A formula, of positions in the world, with another one where the model has a terrain: seen from the origin
// of the environment's cell, as Isaac Lab's env_origins.
Recipe from_origin(const std::string& pattern, const std::string& on_terrain);

// Isaac Lab's and mjlab's terrain_levels_vel: by how many rows an episode that ends moves its environment.
Expressions terrain_levels(const TermRequest& term);

// Isaac Lab's terrain_out_of_bounds: the body is beyond the terrain, or nearer than distance_buffer to its
// end.
Expressions out_of_terrain(const TermRequest& term);

// Isaac Lab's UniformVelocityCommand, with mjlab's fraction of draws that go straight ahead: first what is
// drawn, then the command that becomes of it; % is the name of what was drawn: velocities, heading, whether
// the heading is followed, whether the robot is to stand, whether it goes ahead.
Expressions velocity_command(const TermRequest& term);

// The state of the robot in the motion's frame, with mjlab's random offsets, as assignments.
Expressions motion_state(const TermRequest& term);

// A formula about the motion of the task: & stands for its name, @ for ['anchor body'], % for the bodies of
// the term, # for their number, and ~ for their elements of body_pos_relative_w.
Recipe of_motion(const std::string& pattern);
// The mean over the bodies of the term of a formula: % stands for one of them, ['name'], & and @ as above,
// and $ for its quaternion in body_quat_relative_w. Put in the place of # in `whole`.
Recipe of_tracked_bodies(const std::string& pattern, const std::string& whole);
// The values of such a formula one after the other.
Recipe each_tracked_body(const std::string& pattern);

// Isaac Lab's push_by_setting_velocity: draws are added to the velocity of the free joint.
Expressions push(const TermRequest& term);

// Isaac Lab's and mjlab's apply_external_force_torque: draws for each component, of each body by itself.
Expressions draw_forces(const TermRequest& term);

// Amount by which joints are beyond the ranges of the model, or a fraction of them about their middles, one
// summand per limited joint.
Expressions beyond_limits(const TermRequest& term);

Expressions out_of_limits(const TermRequest& term);

// Isaac Lab: position = clamp(base + draws, joint range), velocity = draws; `scale`: base * draws.
Recipe reset_joints(bool scale);

// dm_control's randomizers: joints with a range uniform in it, other hinges anywhere, orientations anywhere.
// What it draws for a free joint, four numbers in [0, 1) made one long, is not uniform; this draws the same.
Expressions randomize_joints(const TermRequest& term);

// The free joint of the model: position and orientation offsets in the world, velocities drawn.
Expressions reset_root(const TermRequest& term);

// Isaac Lab's feet_air_time_positive_biped.
Expressions biped_air_time(const TermRequest& term);

}  // namespace maniple::recipes
