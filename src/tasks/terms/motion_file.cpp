// Reads the file of a motion_command and takes what the task needs of it: one robot's joints and bodies, in
// the order of the model, which the poses themselves must bear out.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "kernels/math/quaternion.hpp"
#include "src/base/npz.hpp"
#include "src/tasks/language/names.hpp"
#include "src/tasks/terms/motion.hpp"
#include "src/tasks/terms/term_expressions.hpp"
#include "src/tasks/terms/terms.hpp"

namespace maniple {
namespace {

// mjlab's file: arrays [frame, joint] and [frame, body, size].
constexpr MotionField kFields[]{
    {"joint_pos", "m or rad", "position of each hinge and slide joint", 1, false},
    {"joint_vel", "m/s or rad/s", "velocity of each hinge and slide joint", 1, false},
    {"body_pos_w", "m", "position of each tracked body, world axes", 3},
    {"body_quat_w", "1", "orientation (w, x, y, z) of each tracked body", 4},
    {"body_lin_vel_w", "m/s", "velocity of each tracked body's origin, world axes", 3},
    {"body_ang_vel_w", "rad/s", "angular velocity of each tracked body, world axes", 3}};
constexpr double kUnitLength = 1e-3;       // by which the length of a quaternion may be off
constexpr double kSameRate = 1e-3;         // by which frames and control steps may drift apart
constexpr double kSamePlace = 0.01;        // m, between bodies and where the joints put them
constexpr double kLongestPart = 1;         // s, of the motion whose failures are counted together
constexpr int kMostParts = 64;             // of a motion; those of longer ones are longer
constexpr std::size_t kCheckedFrames = 3;  // first, middle and last

// The robot of a motion in the model: the tree of the first tracked body.
struct Robot {
  int root = 0;                     // body
  std::vector<int> bodies;          // in the order of the model, as the file has them
  std::vector<std::size_t> joints;  // hinges and slides, of TaskModel::joints
  std::optional<std::size_t> free;  // its free joint
};

class Loader {
 public:
  Loader(const TermConfig& term, const std::string& key, const TaskModel& model,
         const ImportedModel& imported)
      : term_(term), key_(key), model_(model), imported_(imported) {}

  Motion load(double step_dt) {
    if (!term_.every.empty())
      throw InputError(term_.where_of("every"), key_ + ".every", "set for a motion",
                       "allowed: without; resets and the end of the motion draw a frame");
    if (term_.file.empty())
      throw InputError(term_.where, key_, "found no file", "file: a motion in mjlab's format (.npz)");
    const LibraryTerm& library = find_term(term_, TermKind::command, key_);
    const TermRequest request = resolve_term(library, term_, model_, key_, TermKind::command);
    find_robot(request);
    Motion motion;
    motion.command = term_.name;
    for (const std::size_t joint : robot_.joints) motion.joints.push_back(model_.joints[joint].name);
    if (robot_.free) motion.free_joint = model_.joints[*robot_.free].name;
    motion.bodies = tracked_;
    motion.anchor = term_.anchor_body.empty() ? motion.bodies[0] : term_.anchor_body;
    if (std::find(motion.bodies.begin(), motion.bodies.end(), motion.anchor) == motion.bodies.end())
      throw InputError(term_.where_of("anchor_body"), key_ + ".anchor_body",
                       "'" + motion.anchor + "' is no tracked body", "bodies: " + list(motion.bodies));
    motion.sampling_mode = term_.sampling_mode;
    const double bins = request.number("adaptive_kernel_size");
    if (bins != std::floor(bins))
      throw InputError(term_.where_of("adaptive_kernel_size"), key_ + ".adaptive_kernel_size",
                       fmt::format("found {}", bins), "allowed: whole numbers");
    motion.adaptive = {.kernel_size = static_cast<int>(bins),
                       .lambda = request.number("adaptive_lambda"),
                       .uniform_ratio = request.number("adaptive_uniform_ratio"),
                       .alpha = request.number("adaptive_alpha")};
    read_arrays(motion, step_dt);
    motion.bins =
        std::min(kMostParts, static_cast<int>(std::floor(motion.frames * step_dt / kLongestPart)) + 1);
    return motion;
  }

 private:
  [[noreturn]] void refuse(const std::string& found, const std::string& allowed) const {
    throw InputError(term_.where_of("file"), key_ + ".file", term_.file + " " + found, allowed);
  }
  [[noreturn]] void refuse_bodies(const std::string& found, const std::string& allowed) const {
    throw InputError(term_.where_names, key_ + ".bodies", found, allowed);
  }

  void find_robot(const TermRequest& request) {
    const auto root_of = [&](int body) { return model_.body_root[static_cast<std::size_t>(body)]; };
    std::vector<int> tracked = request.elements;
    std::erase(tracked, 0);  // the world, which patterns match
    if (tracked.empty()) refuse_bodies("the world cannot be tracked", "bodies of a robot");
    robot_.root = root_of(tracked[0]);
    for (int body = 1; body < std::ssize(model_.bodies); ++body)
      if (root_of(body) == robot_.root) robot_.bodies.push_back(body);
    for (std::size_t j = 0; j < model_.joints.size(); ++j) {
      const TaskJoint& joint = model_.joints[j];
      if (root_of(joint.body) != robot_.root) continue;
      if (joint.type == joint_free)
        robot_.free = j;
      else if (joint.is_scalar())
        robot_.joints.push_back(j);
      else
        refuse_bodies("the robot has the ball joint '" + joint.name + "'",
                      "a robot with a free joint or none, then hinges and slides");
    }
    if (robot_.free && tracked[0] != robot_.root)
      refuse_bodies("'" + name_of(tracked[0]) + "' comes first and is not the root of the robot",
                    "'" + name_of(robot_.root) + "' first, whose state a reset sets");
    for (const int body : tracked) {
      const auto found = std::find(robot_.bodies.begin(), robot_.bodies.end(), body);
      if (found == robot_.bodies.end())
        refuse_bodies("'" + name_of(body) + "' does not belong to the robot of '" + name_of(tracked[0]) + "'",
                      "bodies of one robot");
      places_.push_back(static_cast<std::size_t>(found - robot_.bodies.begin()));
      tracked_.push_back(name_of(body));
    }
  }

  std::string name_of(int body) const { return model_.bodies[static_cast<std::size_t>(body)]; }

  void read_arrays(Motion& motion, double step_dt) {
    std::map<std::string, NpyArray> arrays;
    try {
      arrays = read_npz(term_.file);
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
    for (const MotionField& field : kFields)
      if (const std::string& type = arrays.at(field.name).unread_type; !type.empty())
        refuse(fmt::format("has {} of NumPy's type '{}'", field.name, type), "float32 or float64");
    const NpyArray& first = arrays.at(kFields[0].name);
    const std::size_t frames = first.shape.empty() ? 0 : first.shape[0];
    if (frames < 2) refuse(fmt::format("has {} frames", frames), "at least 2");
    if (const auto fps = arrays.find("fps"); fps != arrays.end()) check_rate(fps->second, step_dt);

    lay_out(motion);
    const int numbers = motion.numbers_of_frame;
    if (frames > static_cast<std::size_t>(std::numeric_limits<int>::max() / std::max(1, numbers)))
      refuse(fmt::format("has {} frames of {} numbers", frames, numbers), "at most 2147483647 numbers");
    motion.frames = static_cast<int>(frames);
    motion.numbers.resize(frames * static_cast<std::size_t>(numbers));
    for (const MotionField& field : motion.fields) check(arrays.at(field.name), field, motion);
    for (std::size_t i = 0; i < kCheckedFrames; ++i)
      check_order(arrays, (frames - 1) * i / (kCheckedFrames - 1));
    for (const MotionField& field : motion.fields) copy(arrays.at(field.name), field, motion);
  }

  void check_rate(const NpyArray& fps, double step_dt) const {
    const double rate = fps.values.size() == 1 ? fps.values[0] : 0;
    if (!(rate > 0) || !std::isfinite(rate))
      refuse("has fps that are not a number", "one positive number, frames per second, or none");
    if (std::abs(rate * step_dt - 1) > kSameRate)
      refuse(fmt::format("has {:g} frames per second, and the task {:g} control steps", rate, 1 / step_dt),
             "as many; tools/motion.py resamples");
  }

  void check(const NpyArray& array, const MotionField& field, const Motion& motion) const {
    const auto size = static_cast<std::size_t>(field.size);
    const std::size_t elements = field.of_bodies ? robot_.bodies.size() : robot_.joints.size();
    std::vector<std::size_t> expected{static_cast<std::size_t>(motion.frames), elements};
    if (field.of_bodies) expected.push_back(size);
    if (array.shape != expected)
      refuse(
          fmt::format("has {} [{}]", field.name, fmt::join(array.shape, ", ")),
          fmt::format("[{}] for this robot: {} frames, {}", fmt::join(expected, ", "), motion.frames,
                      field.of_bodies ? fmt::format("the {} bodies of '{}'", elements, name_of(robot_.root))
                                      : fmt::format("{} hinge and slide joints", elements)));
    for (std::size_t i = 0; i < array.values.size(); ++i)
      if (!std::isfinite(array.values[i]))
        refuse(fmt::format("has a {} that is not finite, in frame {}", field.name, i / (elements * size)),
               "numbers");
    for (std::size_t i = 0; size == 4 && i < array.values.size(); i += size)
      if (const double length = length_of(array.values.data() + i); std::abs(length - 1) > kUnitLength)
        refuse(fmt::format("has a quaternion of length {:.4g}, in frame {}", length, i / (elements * size)),
               "unit quaternions (w, x, y, z)");
  }

  static double length_of(const double* q) {
    return std::hypot(std::hypot(q[0], q[1]), std::hypot(q[2], q[3]));
  }

  // Isaac Lab and MuJoCo number the joints and bodies of a robot differently: the joint positions must put
  // the bodies where the file has them.
  void check_order(const std::map<std::string, NpyArray>& arrays, std::size_t frame) const {
    const std::size_t bodies = robot_.bodies.size(), scalars = robot_.joints.size();
    const double* const joint_pos = arrays.at("joint_pos").values.data() + frame * scalars;
    const double* const body_pos = arrays.at("body_pos_w").values.data() + frame * bodies * 3;
    const double* const body_quat = arrays.at("body_quat_w").values.data() + frame * bodies * 4;
    struct Pose {
      Vec3<double> pos{0, 0, 0};
      Quat<double> quat{1, 0, 0, 0};
    };
    std::map<int, Pose> poses{{0, {}}};
    for (std::size_t i = 0; i < bodies; ++i) {
      const int body = robot_.bodies[i];
      const auto b = static_cast<std::size_t>(body);
      if (robot_.free && body == robot_.root) {
        poses[body] = {uniform3<double>(body_pos), uniform4<double>(body_quat)};
        continue;
      }
      const Pose& parent = poses.at(model_.body_parent[b]);
      Pose pose{parent.pos + rotate(parent.quat, uniform3<double>(imported_.body_pos.data() + 3 * b)),
                parent.quat * uniform4<double>(imported_.body_quat.data() + 4 * b)};
      for (std::size_t k = 0; k < scalars; ++k) {
        const std::size_t j = robot_.joints[k];
        const TaskJoint& joint = model_.joints[j];
        if (joint.body != body) continue;
        const double moved = joint_pos[k] - imported_.qpos0[static_cast<std::size_t>(joint.qposadr)];
        const Vec3<double> axis = uniform3<double>(imported_.jnt_axis.data() + 3 * j),
                           anchor = uniform3<double>(imported_.jnt_pos.data() + 3 * j);
        if (joint.type == joint_slide) {
          pose.pos = pose.pos + moved * rotate(pose.quat, axis);
          continue;
        }
        const Vec3<double> fixed = pose.pos + rotate(pose.quat, anchor);
        const double s = std::sin(moved / 2);
        pose.quat = pose.quat * Quat<double>{std::cos(moved / 2), s * axis.x, s * axis.y, s * axis.z};
        pose.pos = fixed - rotate(pose.quat, anchor);
      }
      poses[body] = pose;
      const Vec3<double> away = pose.pos - uniform3<double>(body_pos + 3 * i);
      if (const double distance = std::sqrt(dot(away, away)); distance > kSamePlace)
        refuse(fmt::format("has '{}' {:.3g} m from where the joint positions put it, in frame {}",
                           name_of(body), distance, frame),
               "joints and bodies of this robot in the order of MuJoCo's model, which is not Isaac Lab's");
    }
  }

  void copy(const NpyArray& array, const MotionField& field, Motion& motion) const {
    const auto size = static_cast<std::size_t>(field.size);
    const std::size_t elements = field.of_bodies ? robot_.bodies.size() : robot_.joints.size();
    const std::size_t taken = field.of_bodies ? places_.size() : elements;
    for (std::size_t frame = 0; frame < static_cast<std::size_t>(motion.frames); ++frame)
      for (std::size_t i = 0; i < taken; ++i) {
        const double* const from =
            array.values.data() + (frame * elements + (field.of_bodies ? places_[i] : i)) * size;
        double* const to = motion.numbers.data() + frame * static_cast<std::size_t>(motion.numbers_of_frame) +
                           static_cast<std::size_t>(field.first) + i * size;
        std::copy_n(from, size, to);
        if (size != 4) continue;
        const double length = length_of(from);
        std::for_each(to, to + size, [length](double& component) { component /= length; });
      }
  }

  const TermConfig& term_;
  const std::string key_;
  const TaskModel& model_;
  const ImportedModel& imported_;
  Robot robot_;
  std::vector<std::size_t> places_;   // of the tracked bodies among those of the robot
  std::vector<std::string> tracked_;  // their names
};

}  // namespace

void lay_out(Motion& motion) {
  for (MotionField field : kFields) {
    field.first = motion.numbers_of_frame;
    motion.numbers_of_frame +=
        field.size * static_cast<int>(field.of_bodies ? motion.bodies.size() : motion.joints.size());
    motion.fields.push_back(field);
  }
}

std::shared_ptr<const Motion> load_motion(const TaskConfig& config, const TaskModel& model,
                                          const ImportedModel& imported, double step_dt) {
  const std::size_t place = motion_command_of(config);
  if (place == config.commands.size()) return nullptr;
  const TermConfig& term = config.commands[place];
  if (config.settle_steps > 0)
    throw InputError(
        config.where, "task.settle_steps",
        fmt::format("found {} with a motion, whose frame robots would leave", config.settle_steps),
        "allowed: 0");
  return std::make_shared<Motion>(
      Loader(term, key_of(TermKind::command, term, place), model, imported).load(step_dt));
}

}  // namespace maniple
