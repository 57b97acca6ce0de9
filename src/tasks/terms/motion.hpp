// The reference motion of a task: the file of a motion_command, what expressions can name of it, and how an
// environment gets its place in it. Isaac Lab's and mjlab's MotionCommand (BeyondMimic), by their names.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/config/config.hpp"
#include "src/tasks/language/expression_context.hpp"
#include "src/tasks/terms/motion_sampling.hpp"

namespace maniple {

// The term of task.commands that is a motion.
inline constexpr const char* kMotionTerm = "motion_command";

// Behind the command's name: variables of add_motion_variables().
inline constexpr const char* kRelativePoses[] = {"_body_pos_relative_w", "_body_quat_relative_w"};

// What a frame has of something: `size` numbers of each of its elements from `first` on.
struct MotionField {
  const char* name;  // in the file, and behind the command's name in expressions
  const char* unit;
  const char* description;
  int size = 1;           // of a joint or body
  bool of_bodies = true;  // tracked bodies; false: hinge and slide joints
  int first = 0;          // number of a frame
};

struct Motion {
  std::string command;  // its name in the deck
  int frames = 0;       // one for each control step
  int numbers_of_frame = 0;
  std::vector<double> numbers;      // [frame][numbers_of_frame]
  std::vector<MotionField> fields;  // in the order of a frame
  std::vector<std::string> joints;  // hinges and slides of the model
  std::vector<std::string> bodies;  // that are tracked, the root first
  std::string free_joint;           // of the root; "": it has none
  std::string anchor;               // one of them
  SamplingMode sampling_mode = SamplingMode::adaptive;
  AdaptiveSampling adaptive;
  int bins = 1;  // parts of the motion whose failures are counted together, about a second each

  bool is_adaptive() const { return sampling_mode == SamplingMode::adaptive; }
};

// Gives the motion the fields of a frame, for its joints and bodies.
void lay_out(Motion& motion);

// The number of the motion_command in task.commands, or their count where there is none. InputError: two.
std::size_t motion_command_of(const TaskConfig& config);

// InputError where another command has the keys of a motion.
void refuse_keys_of_motions(const TermConfig& command, const std::string& key);

// The motion of a task; empty: it has none. InputError: a file that is no motion, or that of another robot or
// rate, or bodies that it cannot be of.
std::shared_ptr<const Motion> load_motion(const TaskConfig& config, const TaskModel& model,
                                          const ImportedModel& imported, double step_dt);

// What expressions can name of the model's motion: <command>_joint_pos and so on, at the environment's frame.
// Empty: it has none.
std::vector<Quantity> motion_quantities(const TaskModel& model);

// The command itself, joint positions and velocities; where the tracked bodies should be if the robot's
// anchor were where it is and headed as it is, as of the last observation (mjlab's body_pos_relative_w); and,
// with adaptive sampling, the failures in each part of the motion.
void add_motion_variables(const Motion& motion, const TermConfig& command, const std::string& key,
                          std::map<std::string, TaskVariable>& variables);
// The name of the last of these.
std::string motion_failures(const Motion& motion);

// Gives environments that are being reset a frame of the motion, and the robot its state there.
// `first_cumulative`: of Bank::constants, where MotionSampling::cumulative() stands.
void reset_to_motion(ExpressionCompiler& reset, const TaskConfig& config, const TaskModel& model,
                     int first_cumulative);

// Between control steps: the next frame, or, behind the last one, another one with the robot's state there.
// Returns where that was so.
ExpressionGraph::Node advance_motion(ExpressionCompiler& interval, const TaskConfig& config,
                                     const TaskModel& model, int first_cumulative);

}  // namespace maniple
