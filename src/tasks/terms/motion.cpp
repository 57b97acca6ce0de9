#include "src/tasks/terms/motion.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "kernels/tasks/task_fields.hpp"
#include "src/tasks/language/expression_compiler.hpp"
#include "src/tasks/language/names.hpp"
#include "src/tasks/terms/term_expressions.hpp"

namespace maniple {
namespace {

using Node = ExpressionGraph::Node;

// A random frame.
Node drawn_frame(ExpressionCompiler& compiler, const Motion& motion, int first_cumulative) {
  ExpressionGraph& graph = compiler.graph();
  const auto number = [&](double value) { return graph.constant(value); };
  if (motion.sampling_mode == SamplingMode::start) return number(0);
  const auto apply = [&](Operation operation, Node a, Node b) { return graph.apply(operation, a, b); };
  if (motion.sampling_mode == SamplingMode::uniform) {
    const Node frame =
        graph.apply(Operation::floor, apply(Operation::multiply, compiler.draw(), number(motion.frames)));
    return apply(Operation::minimum, frame, number(motion.frames - 1));
  }
  const Node drawn = compiler.draw();
  Node place = compiler.draw();  // bins before this one, and how far in it
  for (int k = 0; k + 1 < motion.bins; ++k) {
    const Node behind =
        apply(Operation::less_equal, graph.operand(Bank::constants, first_cumulative + k), drawn);
    place = apply(Operation::add, place, behind);
  }
  const double frames_of_bin = static_cast<double>(motion.frames - 1) / motion.bins;
  return graph.apply(Operation::floor, apply(Operation::multiply, place, number(frames_of_bin)));
}

// Gives the environments of the mask, or all that are being reset, the state of the robot in its frame.
void assign_state(ExpressionCompiler& compiler, const TaskConfig& config, const TaskModel& model,
                  Node mask = -1) {
  const std::size_t place = motion_command_of(config);
  const TermConfig& command = config.commands[place];
  const std::string key = key_of(TermKind::command, command, place);
  for (const TermExpression& part : expressions_of(command, TermKind::command, model, key))
    compiler.assign({part.target, command.where, key}, source_of(command, part.text, key), mask);
}

}  // namespace

std::size_t motion_command_of(const TaskConfig& config) {
  std::size_t found = config.commands.size();
  for (std::size_t i = 0; i < config.commands.size(); ++i) {
    if (config.commands[i].term != kMotionTerm) continue;
    if (found < config.commands.size())
      throw InputError(config.commands[i].where, key_of(TermKind::command, config.commands[i], i),
                       "found a second motion", "allowed: one");
    found = i;
  }
  return found;
}

void refuse_keys_of_motions(const TermConfig& command, const std::string& key) {
  for (const char* const name : {"file", "anchor_body", "sampling_mode"})
    if (command.where_keys.contains(name))
      throw InputError(command.where_of(name), key + "." + name, "set without a motion",
                       std::string("allowed: with term: ") + kMotionTerm);
}

std::vector<Quantity> motion_quantities(const TaskModel& model) {
  if (!model.motion) return {};
  const Motion& motion = *model.motion;
  std::vector<Quantity> quantities;
  const auto add = [&](Quantity quantity) { quantities.push_back(std::move(quantity)); };
  const auto frame_of = [](ExpressionCompiler& compiler) {
    return compiler.read(Bank::task, compiler.context().motion_frame());
  };
  const auto names = [](const std::vector<std::string>& elements, int size) {
    std::vector<Quantity::Element> rows;
    for (std::size_t i = 0; i < elements.size(); ++i)
      rows.push_back({elements[i], static_cast<int>(i) * size, size});
    return rows;
  };
  for (const MotionField& field : motion.fields) {
    const std::vector<std::string>& elements = field.of_bodies ? motion.bodies : motion.joints;
    const bool from_origin = model.terrain != nullptr && std::string(field.name) == "body_pos_w";
    add({.name = motion.command + "_" + field.name,
         .unit = field.unit,
         .description = std::string(field.description) + ", in the reference motion",
         .size = field.size * static_cast<int>(elements.size()),
         .row = field.size,
         .element_kind = field.of_bodies ? "tracked body" : "joint",
         .elements = names(elements, field.size),
         .in_reset = true,
         .in_act = true,
         .component = [frame_of, first = field.first, from_origin](ExpressionCompiler& compiler, int i) {
           ExpressionGraph& graph = compiler.graph();
           const Node now = frame_of(compiler);
           const Node value = graph.apply(Operation::look_up, now, graph.operand(Bank::motion, first + i));
           if (!from_origin) return value;
           const Quantity& origin = *compiler.context().quantity("terrain_origin");
           return graph.apply(Operation::add, value, origin.component(compiler, i % 3));
         }});
  }
  add({.name = motion.command + "_frame",
       .unit = "1",
       .description = "frame of the reference motion that the environment is at, from 0",
       .in_reset = true,
       .in_act = true,
       .component = [frame_of](ExpressionCompiler& compiler, int) { return frame_of(compiler); }});
  add({.name = motion.command + "_frames",
       .unit = "1",
       .description = "number of frames of the reference motion",
       .in_reset = true,
       .in_act = true,
       .component = [frames = motion.frames](ExpressionCompiler& compiler, int) {
         return compiler.graph().constant(frames);
       }});
  return quantities;
}

void add_motion_variables(const Motion& motion, const TermConfig& command, const std::string& key,
                          std::map<std::string, TaskVariable>& variables) {
  const std::string& name = motion.command;
  const auto add = [&](const std::string& variable, const std::string& text) {
    const ExpressionSource source{text, command.where, key};
    variables[variable] = {
        .reset = source, .update = source, .update_at = UpdateTime::observation, .steps = {}};
  };
  add(name, "[" + name + "_joint_pos, " + name + "_joint_vel]");
  const std::string anchor = "['" + motion.anchor + "']";
  const std::string turn = "quat_from_euler(0, 0, euler_from_quat(quat_mul(xquat" + anchor +
                           ", quat_conjugate(" + name + "_body_quat_w" + anchor + ")))[2])";
  std::string quaternions;
  for (const std::string& body : motion.bodies)
    quaternions += (quaternions.empty() ? "quat_mul(" : ", quat_mul(") + turn + ", " + name +
                   "_body_quat_w['" + body + "'])";
  const std::string of_anchor = name + "_body_pos_w" + anchor, n = std::to_string(motion.bodies.size());
  add(name + kRelativePoses[0], "repeat([xpos" + anchor + "[0:2], " + of_anchor + ".z], " + n +
                                    ") + rotate(" + turn + ", " + name + "_body_pos_w - repeat(" + of_anchor +
                                    ", " + n + "))");
  add(name + kRelativePoses[1], "[" + quaternions + "]");
  if (!motion.is_adaptive()) return;
  // failures by bin, counted in each environment for good
  TaskVariable& failures = variables[motion_failures(motion)];
  failures = {
      .reset = {fmt::format("repeat(0, {})", motion.bins), command.where, key},
      .update = {},
      .once = true,
      .steps = {},
      .formula = [name, motion_bins = motion.bins, frames = motion.frames, where = command.where, key](
                     ExpressionCompiler& compiler, const std::vector<Node>& last) {
        ExpressionGraph& graph = compiler.graph();
        const Node failed = compiler.compile_number({"terminated", where, key}, "a flag");
        const Node bin = compiler.compile_number(
            {fmt::format("min(floor({}_frame * {} / {}), {})", name, motion_bins, frames, motion_bins - 1),
             where, key},
            "a number");
        std::vector<Node> now;
        for (std::size_t k = 0; k < last.size(); ++k) {
          const Node here = graph.apply(Operation::equal, bin, graph.constant(static_cast<double>(k)));
          const Node one = graph.apply(Operation::logical_and, failed, here);
          now.push_back(graph.apply(Operation::add, last[k], one));
        }
        return now;
      }};
}

std::string motion_failures(const Motion& motion) {
  return kOwnVariable + motion.command + "_failures";
}

void reset_to_motion(ExpressionCompiler& reset, const TaskConfig& config, const TaskModel& model,
                     int first_cumulative) {
  const Node frame = drawn_frame(reset, *model.motion, first_cumulative);
  reset.assign_in_task(reset.context().motion_frame(), frame);
  assign_state(reset, config, model);
}

Node advance_motion(ExpressionCompiler& interval, const TaskConfig& config, const TaskModel& model,
                    int first_cumulative) {
  const Motion& motion = *model.motion;
  ExpressionGraph& graph = interval.graph();
  const int element = interval.context().motion_frame();
  const Node next = graph.apply(Operation::add, interval.read(Bank::task, element), graph.constant(1));
  const Node over = graph.apply(Operation::less_equal, graph.constant(motion.frames), next);
  const Node frame =
      graph.apply(Operation::select, over, drawn_frame(interval, motion, first_cumulative), next);
  interval.assign_in_task(element, frame);
  assign_state(interval, config, model, over);
  return over;
}

}  // namespace maniple
