// The types of sensors that the kernels read, one row each. The import refuses the others and asks libmujoco
// whether it agrees with the row, the kernels have a function for the row, and what a row needs
// becomes flags of the models that have such a sensor.
#pragma once

#include "kernels/model/model.hpp"

namespace maniple {

// Values of mjtStage: the stage that computes what a sensor reads.
enum class SensorStage : int { position = 1, velocity = 2, acceleration = 3 };

// Numbers of the parameters of a sensor: mjNSENS.
inline constexpr int kSensorParameters = 3;

// Results beyond those of every time step, as ModelFlag bits.
enum SensorNeeds : int {
  needs_nothing = 0,
  needs_velocities = model_motion_sensors,  // of bodies
  needs_accelerations = model_force_sensors | model_motion_sensors,
  needs_subtrees = model_subtree_sensors | model_motion_sensors
};

// The function gets model, state, data and the sensor's number and returns a reading of that size
// (kernels/physics/sensor/sensor.hpp). Size 0: it writes as many as sensor_dim says.
//  name in MJCF, mjtSensor and its value, stage, size, needs
#define MANIPLE_SENSOR_TYPES(ROW)                                            \
  ROW(touch, TOUCH, 0, acceleration, 1, needs_nothing)                       \
  ROW(accelerometer, ACCELEROMETER, 1, acceleration, 3, needs_accelerations) \
  ROW(velocimeter, VELOCIMETER, 2, velocity, 3, needs_velocities)            \
  ROW(gyro, GYRO, 3, velocity, 3, needs_velocities)                          \
  ROW(force, FORCE, 4, acceleration, 3, needs_accelerations)                 \
  ROW(torque, TORQUE, 5, acceleration, 3, needs_accelerations)               \
  ROW(magnetometer, MAGNETOMETER, 6, position, 3, needs_nothing)             \
  ROW(rangefinder, RANGEFINDER, 7, position, 0, needs_nothing)               \
  ROW(camprojection, CAMPROJECTION, 8, position, 0, needs_nothing)           \
  ROW(jointpos, JOINTPOS, 9, position, 1, needs_nothing)                     \
  ROW(jointvel, JOINTVEL, 10, velocity, 1, needs_nothing)                    \
  ROW(tendonpos, TENDONPOS, 11, position, 1, needs_nothing)                  \
  ROW(tendonvel, TENDONVEL, 12, velocity, 1, needs_nothing)                  \
  ROW(actuatorpos, ACTUATORPOS, 13, position, 1, needs_nothing)              \
  ROW(actuatorvel, ACTUATORVEL, 14, velocity, 1, needs_nothing)              \
  ROW(actuatorfrc, ACTUATORFRC, 15, acceleration, 1, needs_nothing)          \
  ROW(jointactuatorfrc, JOINTACTFRC, 16, acceleration, 1, needs_nothing)     \
  ROW(tendonactuatorfrc, TENDONACTFRC, 17, acceleration, 1, needs_nothing)   \
  ROW(ballquat, BALLQUAT, 18, position, 4, needs_nothing)                    \
  ROW(ballangvel, BALLANGVEL, 19, velocity, 3, needs_nothing)                \
  ROW(jointlimitpos, JOINTLIMITPOS, 20, position, 1, needs_nothing)          \
  ROW(jointlimitvel, JOINTLIMITVEL, 21, velocity, 1, needs_nothing)          \
  ROW(jointlimitfrc, JOINTLIMITFRC, 22, acceleration, 1, needs_nothing)      \
  ROW(tendonlimitpos, TENDONLIMITPOS, 23, position, 1, needs_nothing)        \
  ROW(tendonlimitvel, TENDONLIMITVEL, 24, velocity, 1, needs_nothing)        \
  ROW(tendonlimitfrc, TENDONLIMITFRC, 25, acceleration, 1, needs_nothing)    \
  ROW(framepos, FRAMEPOS, 26, position, 3, needs_nothing)                    \
  ROW(framequat, FRAMEQUAT, 27, position, 4, needs_nothing)                  \
  ROW(framexaxis, FRAMEXAXIS, 28, position, 3, needs_nothing)                \
  ROW(frameyaxis, FRAMEYAXIS, 29, position, 3, needs_nothing)                \
  ROW(framezaxis, FRAMEZAXIS, 30, position, 3, needs_nothing)                \
  ROW(framelinvel, FRAMELINVEL, 31, velocity, 3, needs_velocities)           \
  ROW(frameangvel, FRAMEANGVEL, 32, velocity, 3, needs_velocities)           \
  ROW(framelinacc, FRAMELINACC, 33, acceleration, 3, needs_accelerations)    \
  ROW(frameangacc, FRAMEANGACC, 34, acceleration, 3, needs_accelerations)    \
  ROW(subtreecom, SUBTREECOM, 35, position, 3, needs_subtrees)               \
  ROW(subtreelinvel, SUBTREELINVEL, 36, velocity, 3, needs_subtrees)         \
  ROW(subtreeangmom, SUBTREEANGMOM, 37, velocity, 3, needs_subtrees)         \
  ROW(insidesite, INSIDESITE, 38, position, 1, needs_nothing)                \
  ROW(distance, GEOMDIST, 39, position, 1, needs_nothing)                    \
  ROW(normal, GEOMNORMAL, 40, position, 3, needs_nothing)                    \
  ROW(fromto, GEOMFROMTO, 41, position, 0, needs_nothing)                    \
  ROW(contact, CONTACT, 42, acceleration, 0, needs_nothing)                  \
  ROW(e_potential, E_POTENTIAL, 43, position, 1, needs_nothing)              \
  ROW(e_kinetic, E_KINETIC, 44, position, 1, needs_velocities)               \
  ROW(clock, CLOCK, 45, position, 1, needs_nothing)

// libmujoco's others, which the import refuses by name.
//  name in MJCF, mjtSensor
#define MANIPLE_OTHER_SENSOR_TYPES(ROW) \
  ROW(tactile, TACTILE)                 \
  ROW(plugin, PLUGIN)                   \
  ROW(user, USER)

// mjtSensor, as far as it is in the table: sensor_touch and so on.
#define MANIPLE_ROW(name, mujoco, value, stage, size, needs) sensor_##name = value,
enum SensorType : int { MANIPLE_SENSOR_TYPES(MANIPLE_ROW) };
#undef MANIPLE_ROW

// A row as host code reads it.
struct SensorTypeInfo {
  const char* name;
  int type;
  SensorStage stage;
  int size;
  int needs;
};
#define MANIPLE_ROW(name, mujoco, value, stage, size, needs) \
  {#name, sensor_##name, SensorStage::stage, size, needs},
inline constexpr SensorTypeInfo kSensorTypes[] = {MANIPLE_SENSOR_TYPES(MANIPLE_ROW)};
#undef MANIPLE_ROW

// The row of a type; null: the kernels do not read it.
constexpr const SensorTypeInfo* sensor_type_info(int type) {
  for (const SensorTypeInfo& row : kSensorTypes)
    if (row.type == type) return &row;
  return nullptr;
}

// Whether a sensor measures the distance between geoms.
constexpr bool is_of_distance(int type) {
  return type == sensor_distance || type == sensor_normal || type == sensor_fromto;
}

// The stage of a type in the table.
MANIPLE_FUNCTION constexpr SensorStage sensor_stage(int type) {
  switch (type) {
#define MANIPLE_ROW(name, mujoco, value, stage, size, needs) \
  case sensor_##name:                                        \
    return SensorStage::stage;
    MANIPLE_SENSOR_TYPES(MANIPLE_ROW)
#undef MANIPLE_ROW
  }
  return SensorStage::position;
}

}  // namespace maniple
