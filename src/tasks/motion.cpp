#include "src/tasks/motion.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "kernels/tasks/task_fields.hpp"
#include "src/base/npz.hpp"
#include "src/tasks/expression_compiler.hpp"
#include "src/tasks/names.hpp"
#include "src/tasks/term_expressions.hpp"
#include "src/tasks/term_recipes.hpp"

namespace maniple {
namespace {

using Node = ExpressionGraph::Node;

// mjlab's file: arrays [frame, joint] and [frame, body, size].
constexpr MotionField kFields[]{
    {"joint_pos", "m or rad", "position of each hinge and slide joint", 1, false},
    {"joint_vel", "m/s or rad/s", "velocity of each hinge and slide joint", 1, false},
    {"body_pos_w", "m", "position of each tracked body, world axes", 3},
    {"body_quat_w", "1", "orientation (w, x, y, z) of each tracked body", 4},
    {"body_lin_vel_w", "m/s", "velocity of each tracked body's origin, world axes", 3},
    {"body_ang_vel_w", "rad/s", "angular velocity of each tracked body, world axes", 3}};
constexpr double kUnit = 1e-3;  // by which the length of a quaternion may be off

// Reads the arrays of a motion and copies those of the model's joints and of the tracked bodies.
class Loader {
 public:
  Loader(const TermConfig& term, const std::string& key, const TaskModel& model)
      : term_(term), key_(key), model_(model) {}

  Motion load() {
    Motion motion;
    motion.command = term_.name;
    for (const TaskJoint& joint : model_.joints)
      if (joint.is_scalar()) motion.joints.push_back(joint.name);
    const LibraryTerm& library = find_term(term_, TermKind::command, key_);
    const TermRequest request = resolve_term(library, term_, model_, key_, TermKind::command);
    motion.bodies = request.names;
    find_bodies(request);
    if (term_.file.empty())
      throw InputError(term_.where, key_, "found no file", "file: a motion in mjlab's format (.npz)");
    motion.anchor = term_.anchor_body.empty() ? motion.bodies[0] : term_.anchor_body;
    if (std::find(motion.bodies.begin(), motion.bodies.end(), motion.anchor) == motion.bodies.end())
      throw InputError(term_.where_of("anchor_body"), key_ + ".anchor_body",
                       "'" + motion.anchor + "' is no tracked body", "bodies: " + list(motion.bodies));
    motion.sampling_mode = term_.sampling_mode;
    motion.adaptive = {.kernel_size = static_cast<int>(request.number("adaptive_kernel_size")),
                       .lambda = request.number("adaptive_lambda"),
                       .uniform_ratio = request.number("adaptive_uniform_ratio"),
                       .alpha = request.number("adaptive_alpha")};
    read_arrays(motion);
    return motion;
  }

  // Frames per second of the file, if it says so; else 0.
  double rate() const { return rate_; }

 private:
  [[noreturn]] void refuse(const std::string& found, const std::string& allowed) const {
    throw InputError(term_.where_of("file"), key_ + ".file", term_.file + " " + found, allowed);
  }

  // The numbers of the tracked bodies in the file, which has those of one robot.
  void find_bodies(const TermRequest& request) {
    const auto root_of = [&](int body) { return model_.body_root[static_cast<std::size_t>(body)]; };
    if (request.elements[0] == 0)
      throw InputError(term_.where_names, key_ + ".bodies", "the world cannot be tracked",
                       "bodies of a robot");
    const int root = root_of(request.elements[0]);
    if (model_.has_free_root && root == 1 && request.elements[0] != 1)
      throw InputError(term_.where_names, key_ + ".bodies",
                       "'" + request.names[0] + "' comes first and is not the root of the robot",
                       "'" + model_.bodies[1] + "' first, whose state a reset sets");
    std::map<int, std::size_t> place;
    for (int body = 1; body < std::ssize(model_.bodies); ++body)
      if (root_of(body) == root) place.emplace(body, place.size());
    file_bodies_ = place.size();
    for (const int body : request.elements) {
      if (!place.contains(body))
        throw InputError(term_.where_names, key_ + ".bodies",
                         fmt::format("'{}' does not belong to the robot of '{}'",
                                     model_.bodies[static_cast<std::size_t>(body)], request.names[0]),
                         "bodies of one robot");
      places_.push_back(place.at(body));
    }
  }

  void read_arrays(Motion& motion) {
    std::map<std::string, NpyArray> arrays;
    try {
      arrays = read_npz(term_.file);
    } catch (const InputError&) {
      throw;
    } catch (const Error& error) {
      throw InputError(term_.where_of("file"), key_ + ".file", error.what(),
                       "an .npz file of numpy.savez; tools/motion.py writes one from CSV or from a run");
    }
    std::vector<std::string> missing;
    for (const MotionField& field : kFields)
      if (!arrays.contains(field.name)) missing.emplace_back(field.name);
    if (!missing.empty())
      refuse(
          "lacks " + list(missing),
          "an .npz file with joint_pos, joint_vel [frame, joint], body_pos_w, body_quat_w, body_lin_vel_w, "
          "body_ang_vel_w [frame, body, 3 or 4]");
    const NpyArray& first = arrays.at(kFields[0].name);
    const std::size_t frames = first.shape.empty() ? 0 : first.shape[0];
    if (frames < 2) refuse(fmt::format("has {} frames", frames), "at least 2");
    if (const auto fps = arrays.find("fps"); fps != arrays.end() && fps->second.values.size() == 1)
      rate_ = fps->second.values[0];

    lay_out(motion);
    const int numbers = motion.numbers_of_frame;
    if (frames > static_cast<std::size_t>(std::numeric_limits<int>::max() / std::max(1, numbers)))
      refuse(fmt::format("has {} frames of {} numbers", frames, numbers), "at most 2147483647 numbers");
    motion.frames = static_cast<int>(frames);
    motion.numbers.resize(frames * static_cast<std::size_t>(numbers));
    for (const MotionField& field : motion.fields) copy(arrays.at(field.name), field, motion);
  }

  void copy(const NpyArray& array, const MotionField& field, Motion& motion) const {
    const auto size = static_cast<std::size_t>(field.size);
    const std::size_t elements = field.of_bodies ? file_bodies_ : motion.joints.size();
    std::vector<std::size_t> expected{static_cast<std::size_t>(motion.frames), elements};
    if (field.of_bodies) expected.push_back(size);
    if (array.shape != expected)
      refuse(fmt::format("has {} [{}]", field.name, fmt::join(array.shape, ", ")),
             fmt::format("[{}] for this robot: {} frames, {}", fmt::join(expected, ", "), motion.frames,
                         field.of_bodies ? fmt::format("the {} bodies of '{}'", elements, motion.bodies[0])
                                         : fmt::format("{} hinge and slide joints", elements)));
    const std::size_t taken = field.of_bodies ? places_.size() : elements;
    for (std::size_t frame = 0; frame < expected[0]; ++frame)
      for (std::size_t i = 0; i < taken; ++i) {
        const double* const from =
            array.values.data() + (frame * elements + (field.of_bodies ? places_[i] : i)) * size;
        double* const to = motion.numbers.data() + frame * static_cast<std::size_t>(motion.numbers_of_frame) +
                           static_cast<std::size_t>(field.first) + i * size;
        std::copy_n(from, size, to);
        if (!std::all_of(from, from + size, [](double value) { return std::isfinite(value); }))
          refuse(fmt::format("has a {} that is not finite, in frame {}", field.name, frame), "numbers");
        if (size != 4) continue;
        const double length = std::hypot(std::hypot(from[0], from[1]), std::hypot(from[2], from[3]));
        if (std::abs(length - 1) > kUnit)
          refuse(fmt::format("has a quaternion of length {:.4g}, in frame {}", length, frame),
                 "unit quaternions (w, x, y, z)");
        std::for_each(to, to + size, [length](double& component) { component /= length; });
      }
  }

  const TermConfig& term_;
  const std::string key_;
  const TaskModel& model_;
  std::vector<std::size_t> places_;  // of the tracked bodies in the file
  std::size_t file_bodies_ = 0;
  double rate_ = 0;
};

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
void assign_state(ExpressionCompiler& compiler, const TermConfig& command, const TaskModel& model,
                  const std::string& key, Node mask = -1) {
  const LibraryTerm& library = find_term(command, TermKind::command, key);
  const TermRequest request = resolve_term(library, command, model, key, TermKind::command);
  for (const TermExpression& part : recipes::motion_state(request))
    compiler.assign({part.target, command.where, key}, {part.text, command.where, key}, mask);
}

}  // namespace

void lay_out(Motion& motion) {
  for (MotionField field : kFields) {
    field.first = motion.numbers_of_frame;
    motion.numbers_of_frame +=
        field.size * static_cast<int>(field.of_bodies ? motion.bodies.size() : motion.joints.size());
    motion.fields.push_back(field);
  }
}

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

std::shared_ptr<const Motion> load_motion(const TaskConfig& config, const TaskModel& model, double step_dt) {
  const std::size_t place = motion_command_of(config);
  if (place == config.commands.size()) return nullptr;
  const TermConfig& term = config.commands[place];
  const std::string key = key_of(TermKind::command, term, place);
  Loader loader(term, key, model);
  auto motion = std::make_shared<Motion>(loader.load());
  if (const double rate = loader.rate(); rate > 0 && std::abs(rate * step_dt - 1) > kUnit)
    throw InputError(term.where_of("file"), key + ".file",
                     fmt::format("{} has {:g} frames per second, and the task {:g} control steps", term.file,
                                 rate, 1 / step_dt),
                     "as many; tools/motion.py resamples");
  motion->bins = static_cast<int>(std::floor(motion->frames * step_dt)) + 1;
  return motion;
}

void add_motion_quantities(const Motion& motion, int frame, bool on_terrain,
                           const std::function<void(Quantity)>& add) {
  const auto names = [](const std::vector<std::string>& elements, int size) {
    std::vector<Quantity::Element> rows;
    for (std::size_t i = 0; i < elements.size(); ++i)
      rows.push_back({elements[i], static_cast<int>(i) * size, size});
    return rows;
  };
  for (const MotionField& field : motion.fields) {
    const std::vector<std::string>& elements = field.of_bodies ? motion.bodies : motion.joints;
    const bool from_origin = on_terrain && std::string(field.name) == "body_pos_w";
    add({.name = motion.command + "_" + field.name,
         .unit = field.unit,
         .description = std::string(field.description) + ", in the reference motion",
         .size = field.size * static_cast<int>(elements.size()),
         .row = field.size,
         .element_kind = field.of_bodies ? "tracked body" : "joint",
         .elements = names(elements, field.size),
         .in_reset = true,
         .in_act = true,
         .component = [frame, first = field.first, from_origin](ExpressionCompiler& compiler, int i) {
           ExpressionGraph& graph = compiler.graph();
           const Node now = compiler.read(Bank::task, frame);
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
       .component = [frame](ExpressionCompiler& compiler, int) { return compiler.read(Bank::task, frame); }});
  add({.name = motion.command + "_frames",
       .unit = "1",
       .description = "number of frames of the reference motion",
       .in_reset = true,
       .in_act = true,
       .component = [frames = motion.frames](ExpressionCompiler& compiler, int) {
         return compiler.graph().constant(frames);
       }});
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
  if (motion.sampling_mode != SamplingMode::adaptive) return;
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

void reset_to_motion(ExpressionCompiler& reset, const Motion& motion, const TermConfig& command,
                     const TaskModel& model, const std::string& key, int first_cumulative) {
  const Node frame = drawn_frame(reset, motion, first_cumulative);
  reset.assign_in_task(reset.context().motion_frame(), frame);
  assign_state(reset, command, model, key);
}

Node advance_motion(ExpressionCompiler& interval, const Motion& motion, const TermConfig& command,
                    const TaskModel& model, const std::string& key, int first_cumulative) {
  ExpressionGraph& graph = interval.graph();
  const int element = interval.context().motion_frame();
  const Node next = graph.apply(Operation::add, interval.read(Bank::task, element), graph.constant(1));
  const Node over = graph.apply(Operation::less_equal, graph.constant(motion.frames), next);
  const Node frame =
      graph.apply(Operation::select, over, drawn_frame(interval, motion, first_cumulative), next);
  interval.assign_in_task(element, frame);
  assign_state(interval, command, model, key, over);
  return over;
}

}  // namespace maniple
