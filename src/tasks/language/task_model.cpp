#include "src/tasks/language/task_model.hpp"

#include <algorithm>

#include "kernels/model/sensor_types.hpp"
#include "kernels/physics/smooth/actuator_law.hpp"
#include "kernels/physics/smooth/transmission.hpp"
#include "src/model_import/control_names.hpp"

namespace maniple {
namespace {

// Elements without a name of their own are called by kind and number: joint3.
std::vector<std::string> complete_names(const std::vector<std::string>& given, const std::string& kind) {
  std::vector<std::string> names = given;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i].empty()) names[i] = kind + std::to_string(i);
  return names;
}

}  // namespace

TaskModel task_model(const ImportedModel& model) {
  TaskModel result;
  result.sizes = model.sizes;
  result.terrain = model.terrain;
  result.qpos0 = model.qpos0;
  result.qvel0.resize(static_cast<std::size_t>(model.sizes.nv));
  result.act0.resize(static_cast<std::size_t>(model.sizes.na));
  result.ctrl0.resize(static_cast<std::size_t>(model.sizes.nu));
  result.fields = varying_fields(model);
  std::copy(model.gravity.begin(), model.gravity.end(), result.gravity);
  result.bodies = complete_names(model.body_names, "body");
  result.geoms = complete_names(model.geom_names, "geom");
  result.sites = complete_names(model.site_names, "site");
  result.tendons = complete_names(model.tendon_names, "tendon");
  result.pairs = complete_names(model.pair_names, "pair");
  result.equalities = complete_names(model.equality_names, "equality");
  result.mocap_bodies.resize(static_cast<std::size_t>(model.sizes.nmocap));
  result.mocap_pos0.resize(3 * result.mocap_bodies.size());
  result.mocap_quat0.resize(4 * result.mocap_bodies.size());
  for (std::size_t i = 0; i < model.body_mocapid.size(); ++i)
    if (const int mocap = model.body_mocapid[i]; mocap >= 0)
      result.mocap_bodies[static_cast<std::size_t>(mocap)] = result.bodies[i];
  result.disableflags = model.disableflags;
  result.geom_rubs.resize(result.geoms.size());
  result.pair_rubs.resize(result.pairs.size());
  for (std::size_t c = 0; c < model.geompair_class.size(); ++c) {
    const int kind = model.geompair_class[c];
    if (kind < 0 || model.geompair_types[c] < 0 ||
        model.contactclass_condim[static_cast<std::size_t>(kind)] == 1)
      continue;
    for (std::size_t k = 2 * c; k < 2 * c + 2; ++k) {
      const int of = model.geompair_frictiongeom[k];
      if (of >= 0)
        result.geom_rubs[static_cast<std::size_t>(of)] = true;
      else
        result.pair_rubs[static_cast<std::size_t>(-1 - of)] = true;
    }
  }
  result.body_root = model.body_rootid;
  result.body_parent = model.body_parentid;
  if (model.sizes.nbody > 1 && model.body_jntnum[1] > 0)
    result.has_free_root = model.jnt_type[static_cast<std::size_t>(model.body_jntadr[1])] == joint_free;
  result.geom_body = model.geom_bodyid;
  result.geom_type = model.geom_type;
  const bool fluid = model.density != 0 || model.viscosity != 0;
  for (std::size_t g = 0; g < model.geom_type.size(); ++g)
    result.geom_in_fluid.push_back(fluid && model.geom_fluid[kGeomFluid * g] > 0);
  for (const int body : model.geom_bodyid)
    result.geom_static.push_back(
        model.body_weldid[static_cast<std::size_t>(body)] == 0 &&
        model.body_mocapid[static_cast<std::size_t>(model.body_rootid[static_cast<std::size_t>(body)])] < 0);
  result.geom_visible.assign(model.geom_visible.begin(), model.geom_visible.end());
  for (std::size_t i = 0; i < model.geompair_geom1.size(); ++i)
    result.geom_pairs.push_back({model.geompair_geom1[i], model.geompair_geom2[i]});

  const std::vector<std::string> joint_names = complete_names(model.joint_names, "joint");
  for (std::size_t j = 0; j < joint_names.size(); ++j) {
    TaskJoint joint;
    joint.name = joint_names[j];
    joint.type = model.jnt_type[j];
    joint.qposadr = model.jnt_qposadr[j];
    joint.dofadr = model.jnt_dofadr[j];
    joint.qpos_size = joint.type == joint_free ? 7 : joint.type == joint_ball ? 4 : 1;
    joint.dof_size = joint.type == joint_free ? 6 : joint.type == joint_ball ? 3 : 1;
    joint.limited = model.jnt_limited[j] != 0;
    joint.low = model.jnt_range[2 * j];
    joint.high = model.jnt_range[2 * j + 1];
    joint.force_limited = model.jnt_actfrclimited[j] != 0;
    joint.least_force = model.jnt_actfrcrange[2 * j];
    joint.most_force = model.jnt_actfrcrange[2 * j + 1];
    result.joints.push_back(joint);
  }

  for (std::size_t body = 0; body < model.body_jntadr.size(); ++body)
    for (int k = 0; k < model.body_jntnum[body]; ++k)
      result.joints[static_cast<std::size_t>(model.body_jntadr[body] + k)].body = static_cast<int>(body);

  const std::vector<std::string> actuator_names = complete_names(model.actuator_names, "actuator");
  for (std::size_t i = 0; i < actuator_names.size(); ++i) {
    TaskActuator actuator;
    actuator.name = actuator_names[i];
    if (transmission_object(model.actuator_trntype[i]) == object_joint)
      result.joints[static_cast<std::size_t>(model.actuator_trnid[2 * i])].actuators.push_back(
          static_cast<int>(i));
    actuator.gear = model.actuator_gear[6 * i];
    actuator.stateless = model.actuator_dyntype[i] == dynamics_none;
    actuator.fixed_gain = model.actuator_gaintype[i] == gain_fixed;
    actuator.gain = model.actuator_gainprm[10 * i];
    if (model.actuator_biastype[i] == bias_affine)
      for (std::size_t k = 0; k < 3; ++k) actuator.bias[k] = model.actuator_biasprm[10 * i + k];
    actuator.actadr = model.actuator_actadr[i];
    actuator.actnum = model.actuator_actnum[i];
    actuator.control = model.actuator_ctrlnum[i] > 0 ? model.actuator_ctrladr[i] : -1;
    actuator.is_pid = model.actuator_gaintype[i] == gain_pid;
    actuator.is_dcmotor = model.actuator_gaintype[i] == gain_dcmotor;
    actuator.force_limited = model.actuator_forcelimited[i] != 0;
    actuator.least_force = model.actuator_forcerange[2 * i];
    actuator.most_force = model.actuator_forcerange[2 * i + 1];
    result.actuators.push_back(actuator);
  }
  const std::vector<std::string> names_of_controls = control_names(model);
  for (std::size_t i = 0; i < actuator_names.size(); ++i)
    for (int k = 0; k < model.actuator_ctrlnum[i]; ++k) {
      const auto u = static_cast<std::size_t>(model.actuator_ctrladr[i] + k);
      const std::string& name = names_of_controls[u];
      result.controls.push_back({.name = name.empty() ? actuator_names[i] : name,
                                 .actuator = static_cast<int>(i),
                                 .limited = model.actuator_ctrllimited[u] != 0,
                                 .low = model.actuator_ctrlrange[2 * u],
                                 .high = model.actuator_ctrlrange[2 * u + 1]});
    }

  const std::vector<std::string> sensor_names = complete_names(model.sensor_names, "sensor");
  for (std::size_t i = 0; i < sensor_names.size(); ++i)
    result.sensors.push_back({sensor_names[i], model.sensor_adr[i], model.sensor_dim[i],
                              sensor_stage(model.sensor_type[i]) == SensorStage::acceleration});
  return result;
}

TaskModel task_model(const ImportedModel& imported, const TaskConfig& config) {
  TaskModel model = task_model(imported);
  if (config.keyframe.empty()) return model;
  const std::size_t key = keyframe_of(imported, config.keyframe, config.where_keyframe, "task.keyframe");
  const auto copy = [key](std::vector<double>& to, const std::vector<double>& of_keys) {
    std::copy_n(of_keys.begin() + static_cast<std::ptrdiff_t>(key * to.size()), to.size(), to.begin());
  };
  model.reset_time = imported.key_time[key];
  copy(model.qpos0, imported.key_qpos);
  copy(model.qvel0, imported.key_qvel);
  copy(model.act0, imported.key_act);
  copy(model.ctrl0, imported.key_ctrl);
  copy(model.mocap_pos0, imported.key_mpos);
  copy(model.mocap_quat0, imported.key_mquat);
  return model;
}

}  // namespace maniple
