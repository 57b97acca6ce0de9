// The facts of the model that a task needs: names, addresses,
// defaults. Everything is in double precision and in MuJoCo's order.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "kernels/model/field_info.hpp"
#include "src/model_import/import.hpp"
#include "src/model_import/terrain.hpp"
#include "src/model_import/vary.hpp"

namespace maniple {

struct TaskJoint {
  std::string name;
  int type = joint_hinge;
  int body = 0;
  int qposadr = 0, dofadr = 0;
  int qpos_size = 1, dof_size = 1;
  bool limited = false;
  double low = 0, high = 0;                // m or rad
  bool force_limited = false;              // the sum of what actuators do to it
  double least_force = 0, most_force = 0;  // N or N m
  std::vector<int> actuators;              // those with joint transmission

  bool is_scalar() const { return type == joint_hinge || type == joint_slide; }
};

struct TaskActuator {
  std::string name;
  double gear = 1;
  bool stateless = true;  // no activation dynamics
  bool fixed_gain = true;
  double gain = 1;              // gainprm[0]
  double bias[3] = {0, 0, 0};   // force = gain * ctrl + bias[0] + bias[1] * length + bias[2] * velocity
  int actadr = -1, actnum = 0;  // its activations; -1: none
  int control = -1;             // its first control; -1: none
  bool is_pid = false, is_dcmotor = false;
  bool force_limited = false;
  double least_force = 0, most_force = 0;  // N or N m
};

struct TaskControl {
  std::string name;      // the actuator's, or of several <actuator>/pos, /vel, /ff, /voltage
  int actuator = 0;      // whose control it is
  bool limited = false;  // it has a range
  double low = 0, high = 0;
};

struct TaskSensor {
  std::string name;
  int adr = 0, dim = 1;
  bool of_forces = false;  // needs accelerations or forces, not only positions and velocities
};

struct Motion;  // src/tasks/terms/motion.hpp

struct TaskModel {
  ModelSizes sizes;
  std::vector<TaskJoint> joints;
  std::vector<TaskActuator> actuators;
  std::vector<TaskControl> controls;
  std::vector<TaskSensor> sensors;
  std::vector<std::string> bodies, geoms, sites, tendons, pairs, equalities, mocap_bodies;
  // Geoms, and explicit pairs, whose friction some contact between moving bodies has.
  std::vector<bool> geom_rubs, pair_rubs;
  int disableflags = 0;        // DisableBit
  std::vector<int> body_root;  // root of each body's tree
  std::vector<int> body_parent;
  bool has_free_root = false;  // body 1, which terms of the base are of, has a free joint
  std::vector<int> geom_body;
  std::vector<int> geom_type;       // mjtGeom
  std::vector<bool> geom_in_fluid;  // a fluid acts on it as an ellipsoid
  std::vector<bool> geom_static;    // no joint moves it
  std::vector<bool> geom_visible;   // its color is not fully transparent
  std::vector<std::array<int, 2>>
      geom_pairs;  // geoms that may touch, the numbers of the pairs in the kernels
  // The state that a reset starts from: the model's default one, or that of task.keyframe.
  double reset_time = 0;      // s
  std::vector<double> qpos0;  // default positions
  std::vector<double> qvel0, act0, ctrl0, mocap_pos0, mocap_quat0;
  std::vector<VaryingField> fields;        // that events may set
  double gravity[3] = {0, 0, -9.81};       // m/s^2
  std::shared_ptr<const Terrain> terrain;  // empty: none
  std::shared_ptr<const Motion> motion;    // of the task; empty: none
};

TaskModel task_model(const ImportedModel& model);

// The same with the state of the task's keyframe for that of resets, with all that mj_resetDataKeyframe sets.
TaskModel task_model(const ImportedModel& model, const TaskConfig& config);

// The field of this name, which must be there.
inline const FieldInfo& field_named(const std::vector<FieldInfo>& fields, const std::string& name) {
  return *std::find_if(fields.begin(), fields.end(),
                       [&](const FieldInfo& field) { return field.name == name; });
}

// Names of a list of model elements, in order.
template <class Element>
std::vector<std::string> names_of(const std::vector<Element>& elements) {
  std::vector<std::string> names;
  for (const Element& element : elements) names.push_back(element.name);
  return names;
}

}  // namespace maniple
