// The device form of a task: bytecode compiled by src/tasks from the deck's terms and expressions.
// Every instruction is one lane operation whose operands may lie in any bank (registers, constants,
// State, Data, the task's own state, random numbers, outputs), so that no separate loads or stores are
// needed. Programs have no branches; the only control flow is the loop of the interpreter.
#pragma once

#include <cstdint>

#include "kernels/base/varying.hpp"
#include "kernels/physics/contact_queries.hpp"
#include "kernels/tasks/task_fields.hpp"

namespace maniple {

// What an instruction does: on lanes of type V (kernels/tasks/interpreter.hpp), and on numbers, which the
// host computes once. Truth values are the numbers 1 and 0; anything but 0 is true.
//          name  operands  of lanes  of numbers  meaning
#define MANIPLE_OPERATIONS(OPERATION)                                                                   \
  OPERATION(copy, 1, a, a, "a")                                                                         \
  OPERATION(negate, 1, -a, -a, "-a")                                                                    \
  OPERATION(add, 2, a + b, a + b, "a + b")                                                              \
  OPERATION(subtract, 2, a - b, a - b, "a - b")                                                         \
  OPERATION(multiply, 2, (a * b), (a * b), "a * b")                                                     \
  OPERATION(divide, 2, a / b, a / b, "a / b")                                                           \
  OPERATION(multiply_add, 3, (a * b) + c, (a * b) + c, "a * b + c")                                     \
  OPERATION(less, 2, truth<V>(a < b), a < b, "a < b")                                                   \
  OPERATION(less_equal, 2, truth<V>(a <= b), a <= b, "a <= b")                                          \
  OPERATION(equal, 2, truth<V>(a == b), a == b, "a == b")                                               \
  OPERATION(not_equal, 2, truth<V>(a != b), a != b, "a != b")                                           \
  OPERATION(logical_and, 2, truth<V>(a != V(0) && b != V(0)), a != 0 && b != 0, "a and b")              \
  OPERATION(logical_or, 2, truth<V>(a != V(0) || b != V(0)), a != 0 || b != 0, "a or b")                \
  OPERATION(logical_not, 1, truth<V>(a == V(0)), a == 0, "not a")                                       \
  OPERATION(select, 3, select(a != V(0), V(b), V(c)), a != 0 ? b : c, "b where a is true, c elsewhere") \
  OPERATION(minimum, 2, min(a, V(b)), b < a ? b : a, "the smaller of a and b")                          \
  OPERATION(maximum, 2, max(a, V(b)), a < b ? b : a, "the larger of a and b")                           \
  OPERATION(absolute, 1, abs(a), std::abs(a), "|a|")                                                    \
  OPERATION(sign, 1, truth<V>(a > V(0)) - truth<V>(a < V(0)), (a > 0) - (a < 0), "-1, 0 or 1")          \
  OPERATION(floor, 1, floor(a), std::floor(a), "largest integer not above a")                           \
  OPERATION(square_root, 1, sqrt(a), std::sqrt(a), "square root")                                       \
  OPERATION(exponential, 1, exp(a), std::exp(a), "e to the a")                                          \
  OPERATION(logarithm, 1, log(a), std::log(a), "natural logarithm")                                     \
  OPERATION(sine, 1, sin(a), std::sin(a), "sine of a [rad]")                                            \
  OPERATION(cosine, 1, cos(a), std::cos(a), "cosine of a [rad]")                                        \
  OPERATION(tangent, 1, sin(a) / cos(a), std::tan(a), "tangent of a [rad]")                             \
  OPERATION(hyperbolic_tangent, 1, tanh(a), std::tanh(a), "hyperbolic tangent")                         \
  OPERATION(arc_sine, 1, asin(a), std::asin(a), "arc sine [rad]")                                       \
  OPERATION(arc_cosine, 1, acos(a), std::acos(a), "arc cosine [rad]")                                   \
  OPERATION(arc_tangent2, 2, atan2(a, V(b)), std::atan2(a, b), "angle of the point (b, a) [rad]")       \
  OPERATION(power, 2, pow(a, V(b)), std::pow(a, b), "a to the b")                                       \
  OPERATION(look_up, 2, look_up<V>(banks.motion, a, i.b), a, "number b of frame a of the motion")

enum class Operation : std::uint8_t {
#define MANIPLE_OPERATION(name, operands, of_lanes, of_numbers, meaning) name,
  MANIPLE_OPERATIONS(MANIPLE_OPERATION)
#undef MANIPLE_OPERATION
};

// Where an operand lies.
enum class Bank : std::uint8_t {
  registers,        // intermediate results; the first kReservedRegisters are set before a program runs
  constants,        // numbers of the deck, the same for all environments
  state,            // MANIPLE_STATE_FIELDS
  data,             // MANIPLE_DATA_FIELDS, of the current state
  stepped,          // some of them, as the last physics step left them
  task,             // MANIPLE_TASK_FIELDS
  kept,             // their field `kept`, whose size is known last
  random,           // draws of the program, uniform in [0, 1)
  contact,          // answers to the task's contact queries, kContactAnswers each, of the current state
  output,           // what the program computes
  ray,              // answers to the task's ray queries, one for each ray
  stepped_contact,  // answers to contact queries as each physics step left them: PhysicsBatch's
  motion,           // numbers of a frame of the reference motion, which look_up alone reads
  count
};
inline constexpr int kBanks = static_cast<int>(Bank::count);

// Rays whose lengths the programs read: from points of a frame, to the nearest of some geoms.
enum class RayFrame : int { body, site, geom };
// The axes in which points and directions are given: the frame's own, those of the world, or those of the
// world turned about its z as the frame is.
enum class RayAlignment : int { base, yaw, world };
template <class T>
struct RayQuery {
  RayFrame frame = RayFrame::body;
  int id = 0;  // of the body, site or geom
  RayAlignment alignment = RayAlignment::base;
  int first_ray = 0, num_rays = 0;    // rows of Task::rays, elements of Bank::ray
  int first_geom = 0, num_geoms = 0;  // of Task::ray_geoms
  T max_distance = 0;
};
inline constexpr int kRayElements = 6;  // of a ray: the point, then the unit vector of its direction

// Registers that hold inputs of a program.
enum ReservedRegister : int {
  register_episode_step = 0,  // control steps since the reset
  register_flag =
      1,  // evaluate: bad state; vary, reset and observe: being reset; act, interval: was just reset
  register_first = 2,  // vary and observe: being reset for the first time
  kReservedRegisters = 3,
};

// Operand indices are elements of their bank.
struct Instruction {
  std::uint16_t target = 0, a = 0, b = 0, c = 0;
  Operation operation = Operation::copy;
  Bank bank_target = Bank::registers, bank_a = Bank::registers, bank_b = Bank::registers,
       bank_c = Bank::registers;
};

// How much of Data must belong to the current state before a program runs.
enum class Derived : int { none, kinematics, forward };

// The motion that robots are to follow, the same for all environments: frames one after the other.
template <class T>
struct MotionView {
  const T* numbers = nullptr;  // [frame][number of a frame]
  int numbers_of_frame = 0;
  int frames = 0;
};

// Instructions in device memory.
struct ProgramView {
  const Instruction* instructions = nullptr;
  int count = 0;
  int num_random = 0;  // draws of one run
};

// One component of the action: state[element] = clip(action * scale + offset). Element -1: the program `act`
// sets the control.
template <class T>
struct ActionTarget {
  int element = 0;  // of State: a control
  bool clipped = false;
  T scale = 1, offset = 0;
  T low = 0, high = 0;
  float random_low = -1, random_high = 1;  // range of actions drawn without a policy
};

// Draws of a fresh state that task.reset_until may refuse, or heights of one, before it stays as it is.
inline constexpr int kMostDraws = 1000;

// The terrain that robots stand on: rows of cells by difficulty, of which an environment keeps its column
// unless each episode draws its cell.
template <class T>
struct TerrainView {
  const T* cells = nullptr;  // [row][column][kTerrainCellElements]
  int num_rows = 0, num_cols = 0;
  int first_init_level = 0, last_init_level = 0;  // rows of first episodes
  std::int64_t num_envs = 0;                      // of the whole run, which are dealt to the columns
  bool holds = false;                             // environments stay in their rows
  bool randomizes = false;                        // each episode draws its cell
};
inline constexpr int kTerrainCellElements = 4;  // of a cell: its sub-terrain, and where robots stand [m]

// Outputs of the evaluation: terminated, truncated, one weighted reward per term, success where the task has
// it, the metrics, then by how many rows an episode that ends moves its environment, where there is a
// terrain.
inline constexpr int kFirstRewardOutput = 2;

// What a metric says of an episode: of its values in the control steps of the episode.
enum class EpisodeStatistic : int { mean, sum, last, min, max };

// A compiled task in device memory, the same for all environments. T is the precision.
template <class T>
struct Task : TaskSizes {
  ProgramView act;       // assigns controls; output: how many were clipped
  ProgramView evaluate;  // outputs as above
  ProgramView vary;      // of an environment that is being reset: assigns what it has of the model for itself
  ProgramView reset;     // assigns fields of State where the environment is being reset
  ProgramView
      interval;  // assigns what events in intervals change; outputs: was one due, did one change the model
  ProgramView observe;           // outputs: both observations; assigns what prev() and the task keep
  ProgramView accept;            // of a fresh state; output: whether it stays; empty: always
  const T* constants = nullptr;  // [constant][lane_width<Lanes<T>>], each constant repeated
  const ActionTarget<T>* actions = nullptr;
  const EpisodeStatistic* metrics = nullptr;  // [num_metrics]
  int num_registers = 0;                      // including the reserved ones
  int num_random = 0;                         // draws of the program that has most
  bool varies_at_resets = false;     // `vary` changes something at each reset, not only at the first one
  bool varies_in_intervals = false;  // `interval` changes the model
  int settle_steps = 0;              // physics steps of a fresh state without actions
  T reset_raise = 0;  // m: how far a state that `accept` refuses moves up; 0: it is drawn again
  ContactQueries contact_queries;
  const RayQuery<T>* ray_queries = nullptr;
  int num_ray_queries = 0;
  const T* rays = nullptr;  // [ray][kRayElements]
  int num_rays = 0;
  const int* ray_geoms = nullptr;  // of one query after the other
  TerrainView<T> terrain;
  MotionView<T> motion;

  // Lane values that one pack needs: registers, outputs, random numbers, answers about contacts and rays, a
  // copy of the task's state.
  MANIPLE_FUNCTION int first_random() const { return num_registers + num_outputs(); }
  MANIPLE_FUNCTION int first_contact() const { return first_random() + num_random; }
  MANIPLE_FUNCTION int first_ray() const { return first_contact() + contact_queries.answers(); }
  MANIPLE_FUNCTION int first_copy() const { return first_ray() + num_rays; }
  MANIPLE_FUNCTION int scratch_elements() const { return first_copy() + task_elements(*this); }
  MANIPLE_FUNCTION int first_metric_output() const {
    return kFirstRewardOutput + num_reward_terms + num_success;
  }
  MANIPLE_FUNCTION int first_terrain_output() const { return first_metric_output() + num_metrics; }
  MANIPLE_FUNCTION int num_outputs() const {
    const int evaluated = first_terrain_output() + num_terrains;
    const int observed = num_observations + num_critic_observations;
    return evaluated > observed ? evaluated : observed;
  }
};

}  // namespace maniple
