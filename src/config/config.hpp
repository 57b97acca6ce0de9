// The resolved configuration of a run: plain values, every default filled in, every value checked.
// src/config/schema.cpp binds each member to its deck key; nothing outside src/config parses a deck.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/error.hpp"

namespace maniple {

// ---- choices: the key takes one of these ----
enum class Precision { fp32, fp64 };
enum class ThreadsChoice { automatic, one, team };
enum class IntegratorChoice { of_model, Euler, RK4, implicit, implicitfast };
enum class SolverChoice { of_model, Newton, CG, PGS };
// How the primal solvers come to the acceleration: to the minimum of the cost, or by MuJoCo's own iterations
// to where the model ends them.
enum class SolverPath { of_model, converged, mujoco };
enum class ConeChoice { of_model, pyramidal, elliptic };
// What a task reads of derived quantities. fresh: those of the state after the control step; as_stepped: as
// mj_step leaves them, one physics step old; stepped_forces: that old only what follows from accelerations
// and forces, contacts included; stepped_rewards: that old in rewards and terminations, fresh in
// observations.
enum class DerivedChoice { fresh, as_stepped, stepped_forces, stepped_rewards };
enum class ControlInput { zero, random, keyframe, file, policy };
enum class StartState { of_model, keyframe, file, task };
enum class ActivationChoice { elu, relu, tanh, leaky_relu, silu, gelu, identity };
// adaptive: by the KL divergence; linear and cosine: down to 0
enum class RateSchedule { fixed, adaptive, linear, cosine };
// Where learning.weight_decay acts: on the gradient, or on the parameters themselves.
enum class OptimizerChoice { adam, adamw };
enum class Initialization { uniform, orthogonal, lecun_uniform };
enum class Recurrence { none, gru, lstm };
enum class StdTransform { exp, softplus };
enum class BootstrapChoice { none, value, final_observation };  // what follows a time-out
enum class KlReference { rollout, previous_epoch };             // as rsl_rl, as rl_games
enum class Reduction { exact, fast };
enum class ImitationLoss { l2, l1, smooth_l1, gaussian, gmm };
enum class MixedPrecision { none, bf16 };  // what the factors of products are rounded to
enum class DataNormalizer { none, min_max, mean_std };
enum class RateScaling { none, linear, sqrt };               // of the learning rate, with the batch
enum class Determinism { automatic, deterministic, drawn };  // of actions, while nothing is learned
enum class DataCache { automatic, memory, file };
enum class DatasetLayout { none, robomimic, minari };
enum class NoiseSampler { ddpm, ddim };
enum class PredictionChoice { epsilon, sample };  // what a denoising network predicts
enum class Resume { never, automatic };
enum class BenchActions { random, zero };
enum class Scaling { none, strong, weak };  // the same work for all ranks together, or for each
enum class ProgressStyle { automatic, bar, plain, none };
enum class SelfTestTime { automatic, always, never };
enum class StatisticChoice { mean, sum, last, min, max };  // of the control steps of an episode
enum class UpdateTime { step, observation };               // of a variable: before rewards, or after them
enum class EventMode { reset, interval, startup };
enum class SamplingMode { adaptive, uniform, start };  // of the frames that episodes begin with
// Generators of sub-terrains, by the names of Isaac Lab's configurations; bowl: dm_control's quadruped
// escape.
enum class SubTerrainType {
  flat,
  random_uniform,
  pyramid_sloped,
  inverted_pyramid_sloped,
  pyramid_stairs,
  inverted_pyramid_stairs,
  random_grid,
  wave,
  stepping_stones,
  discrete_obstacles,
  bowl
};
enum class ObstacleHeightMode { choice, fixed };
// What an event makes of a model field: what it draws times or plus the model's number, or alone.
enum class FieldOperation { none, scale, add, abs };
enum class Distribution { uniform, log_uniform, gaussian };
// The kind of elements that the names of a term refer to.
enum class ElementKind { none, joints, bodies, geoms, pairs, sites, actuators, sensors };

// How decks write them, in the order of the enumerators.
template <class Choice>
inline constexpr auto kTextsOf = std::array<const char*, 0>{};
template <>
inline constexpr std::array kTextsOf<Precision>{"single", "double"};
template <>
inline constexpr std::array kTextsOf<ThreadsChoice>{"auto", "1", "32"};
template <>
inline constexpr std::array kTextsOf<IntegratorChoice>{"", "Euler", "RK4", "implicit", "implicitfast"};
template <>
inline constexpr std::array kTextsOf<SolverChoice>{"", "Newton", "CG", "PGS"};
template <>
inline constexpr std::array kTextsOf<SolverPath>{"", "converged", "mujoco"};
template <>
inline constexpr std::array kTextsOf<ConeChoice>{"", "pyramidal", "elliptic"};
template <>
inline constexpr std::array kTextsOf<DerivedChoice>{"fresh", "as_stepped", "stepped_forces",
                                                    "stepped_rewards"};
template <>
inline constexpr std::array kTextsOf<ControlInput>{"zero", "random", "keyframe", "file", "policy"};
template <>
inline constexpr std::array kTextsOf<StartState>{"default", "keyframe", "file", "task"};
template <>
inline constexpr std::array kTextsOf<ActivationChoice>{"elu",  "relu", "tanh",    "leaky_relu",
                                                       "silu", "gelu", "identity"};
template <>
inline constexpr std::array kTextsOf<Recurrence>{"none", "gru", "lstm"};
template <>
inline constexpr std::array kTextsOf<StdTransform>{"exp", "softplus"};
template <>
inline constexpr std::array kTextsOf<RateSchedule>{"fixed", "adaptive", "linear", "cosine"};
template <>
inline constexpr std::array kTextsOf<OptimizerChoice>{"adam", "adamw"};
template <>
inline constexpr std::array kTextsOf<Initialization>{"uniform", "orthogonal", "lecun_uniform"};
template <>
inline constexpr std::array kTextsOf<BootstrapChoice>{"none", "value", "final_observation"};
template <>
inline constexpr std::array kTextsOf<KlReference>{"rollout", "previous_epoch"};
template <>
inline constexpr std::array kTextsOf<Reduction>{"exact", "fast"};
template <>
inline constexpr std::array kTextsOf<ImitationLoss>{"l2", "l1", "smooth_l1", "gaussian", "gmm"};
template <>
inline constexpr std::array kTextsOf<MixedPrecision>{"none", "bf16"};
template <>
inline constexpr std::array kTextsOf<DataNormalizer>{"none", "min_max", "mean_std"};
template <>
inline constexpr std::array kTextsOf<RateScaling>{"none", "linear", "sqrt"};
template <>
inline constexpr std::array kTextsOf<DataCache>{"auto", "memory", "file"};
template <>
inline constexpr std::array kTextsOf<DatasetLayout>{"none", "robomimic", "minari"};
template <>
inline constexpr std::array kTextsOf<Determinism>{"auto", "true", "false"};
template <>
inline constexpr std::array kTextsOf<NoiseSampler>{"ddpm", "ddim"};
template <>
inline constexpr std::array kTextsOf<PredictionChoice>{"epsilon", "sample"};
template <>
inline constexpr std::array kTextsOf<Resume>{"never", "auto"};
template <>
inline constexpr std::array kTextsOf<BenchActions>{"random", "zero"};
template <>
inline constexpr std::array kTextsOf<Scaling>{"none", "strong", "weak"};
template <>
inline constexpr std::array kTextsOf<ProgressStyle>{"auto", "bar", "plain", "none"};
template <>
inline constexpr std::array kTextsOf<SelfTestTime>{"auto", "always", "never"};
template <>
inline constexpr std::array kTextsOf<UpdateTime>{"step", "observation"};
template <>
inline constexpr std::array kTextsOf<StatisticChoice>{"mean", "sum", "last", "min", "max"};
template <>
inline constexpr std::array kTextsOf<SubTerrainType>{"flat",
                                                     "random_uniform",
                                                     "pyramid_sloped",
                                                     "inverted_pyramid_sloped",
                                                     "pyramid_stairs",
                                                     "inverted_pyramid_stairs",
                                                     "random_grid",
                                                     "wave",
                                                     "stepping_stones",
                                                     "discrete_obstacles",
                                                     "bowl"};
template <>
inline constexpr std::array kTextsOf<ObstacleHeightMode>{"choice", "fixed"};
template <>
inline constexpr std::array kTextsOf<EventMode>{"reset", "interval", "startup"};
template <>
inline constexpr std::array kTextsOf<SamplingMode>{"adaptive", "uniform", "start"};
template <>
inline constexpr std::array kTextsOf<FieldOperation>{"", "scale", "add", "abs"};
template <>
inline constexpr std::array kTextsOf<Distribution>{"uniform", "log_uniform", "gaussian"};
template <>
inline constexpr std::array kTextsOf<ElementKind>{"",      "joints", "bodies",    "geoms",
                                                  "pairs", "sites",  "actuators", "sensors"};

template <class Choice>
std::string text_of(Choice choice) {
  return kTextsOf<Choice>[static_cast<std::size_t>(choice)];
}
// Nothing: no choice is written so.
template <class Choice>
std::optional<Choice> choice_of(std::string_view text) {
  const auto found = std::find(kTextsOf<Choice>.begin(), kTextsOf<Choice>.end(), text);
  if (found == kTextsOf<Choice>.end()) return std::nullopt;
  return static_cast<Choice>(found - kTextsOf<Choice>.begin());
}

// One kind of ground in a terrain. Which members a type reads, and which it must have, is in
// src/config/terrain_schema.cpp. Lengths in metres; a range is what it is at difficulty 0 and at
// difficulty 1.
struct SubTerrainConfig {
  std::string name;
  SourceLocation where;
  SubTerrainType type = SubTerrainType::flat;
  double proportion = 1;
  double border_width = 0;    // flat, at the edge of the cell
  double platform_width = 1;  // flat, in its middle
  double noise_step = 0, downsampled_scale = 0, step_width = 0, grid_width = 0, stone_height_max = 0,
         holes_depth = -10, terrain_smoothness = 0.15, terrain_bump_scale = 2;
  int num_waves = 1, num_obstacles = 0;
  ObstacleHeightMode obstacle_height_mode = ObstacleHeightMode::choice;
  std::optional<std::vector<double>> noise_range, slope_range, step_height_range, grid_height_range,
      amplitude_range, stone_width_range, stone_distance_range, obstacle_width_range, obstacle_height_range,
      bowl_height_range;
  std::map<std::string, SourceLocation> where_keys;
};

// Rough ground in place of a plane: a grid of cells, rows along x by difficulty, columns along y.
struct TerrainConfig {
  std::string geom;                  // plane or height field that it replaces; "": the model's only plane
  std::array<double, 2> size{8, 8};  // of a cell, along x and y [m]
  double border_width = 0;           // flat, around all cells [m]
  int num_rows = 10, num_cols = 20;
  double horizontal_scale = 0.1, vertical_scale = 0.005;  // m
  std::optional<std::vector<double>> difficulty_range{{0, 1}};
  bool curriculum = true;  // difficulty by row and sub-terrains by column; false: both drawn for each cell
  bool randomize = false;  // each episode begins in a random cell; false: environments keep their column
  std::int64_t seed = -1;  // -1: batch.seed, which stands here once the deck is read
  int min_init_terrain_level = 0, max_init_terrain_level = -1;  // rows, of the first episode; -1: the last
  std::vector<SubTerrainConfig> sub_terrains;                   // empty: no terrain
  SourceLocation where;                                         // of terrain.sub_terrains

  bool present() const { return !sub_terrains.empty(); }
  int last_init_level() const { return max_init_terrain_level < 0 ? num_rows - 1 : max_init_terrain_level; }
};

// The quantity that is the row of an environment's cell, and the metric of tasks on a terrain that tells of
// it.
inline constexpr const char* kTerrainLevel = "terrain_level";

struct ModelConfig {
  std::string file;          // as given in the deck
  std::string path;          // resolved: relative to the deck, or inside an installed package
  SourceLocation where;      // of model.file
  std::string overlay;       // MJCF that is laid over the model; resolved like path; "": none
  bool contacts = true;      // false: the model's contacts are off by the user's decision
  bool limits = true;        // joint limits
  bool equality = true;      // equality constraints
  bool frictionloss = true;  // dry friction
  bool tendons = true;       // tendons (and what acts on them)
  TerrainConfig terrain;     // laid in place of a plane
};

struct BatchConfig {
  std::int64_t num_envs = 1;  // global
  std::uint32_t seed = 42;
};

struct SimulationConfig {
  Precision precision = Precision::fp32;
  double timestep = 0;  // s; 0: the model's
  IntegratorChoice integrator = IntegratorChoice::of_model;
  SolverChoice solver = SolverChoice::of_model;
  SolverPath solver_path = SolverPath::of_model;
  int iterations = 0;     // of the solver, at most; 0: the model's
  int ls_iterations = 0;  // of its line search, at most; 0: the model's
  // what follows: where it is given, over the options of the model
  ConeChoice cone = ConeChoice::of_model;
  std::optional<double> tolerance, ls_tolerance, noslip_tolerance, impratio, density, viscosity;
  int noslip_iterations = -1;  // -1: the model's
  std::optional<std::array<double, 3>> gravity, wind;
  std::vector<std::string> disable, enable;  // flags, in this order
  SourceLocation where_disable, where_enable;
  int decimation = 1;  // physics steps per control step
  DerivedChoice derived = DerivedChoice::fresh;
  int max_contacts = 0;  // of one environment; 0: from the model
  ThreadsChoice threads_per_environment = ThreadsChoice::automatic;
  std::int64_t steps = 1000;         // control steps of a rollout
  std::int64_t inject_nan_env = -1;  // test hook: this environment's qpos becomes NaN ...
  std::int64_t inject_nan_step = 0;  // ... before this control step
};

struct ControlConfig {
  ControlInput source = ControlInput::zero;  // a keyframe's where the state is one and no key says so
  std::string file;                          // HDF5 with /ctrl [env or 1, step, nu]; absolute path
  std::string checkpoint;                    // policy: checkpoint file, or a run directory; absolute path
  SourceLocation where;                      // of control.file or control.checkpoint
};

struct InitialStateConfig {
  StartState source = StartState::of_model;
  std::string keyframe = "0";  // name or index
  std::string file;      // HDF5 with /qpos [env or 1, nq], /qvel [env or 1, nv], optional /act; absolute path
  SourceLocation where;  // of the file or the keyframe
};

struct OutputConfig {
  std::string directory = "runs/maniple";
  bool overwrite = false;             // results of an earlier run may be replaced
  bool tensorboard = false;           // event files beside the results
  std::int64_t trajectory_every = 0;  // control steps between samples; 0: no trajectory
  std::vector<std::string> trajectory_fields{"qpos", "qvel"};
  DatasetLayout dataset = DatasetLayout::none;  // episodes as demonstrations, beside the results
  std::int64_t dataset_episodes = 0;            // at most; 0: all
  double dataset_min_return = -1e30;
  bool dataset_success = false;     // only episodes in which the termination success held
  bool dataset_unfinished = false;  // also those that the end of a rollout cuts off, as truncated ones
  SourceLocation where_fields;
};

// Numbers of the elements that a term acts on: one for all of them, one each, or by name.
struct PerElement {
  std::vector<double> numbers;
  std::vector<std::pair<std::string, double>> named;  // names or patterns; the others keep the default
  std::string expression = {};                        // in place of numbers, for keys that allow it

  PerElement(double number) : numbers{number} {}
  bool operator==(const PerElement&) const = default;
};

// A number, or an expression of curricula that stands for it.
struct TermNumber {
  double value = 0;
  std::string expression;  // "": the number

  TermNumber(double number) : value(number) {}
  explicit TermNumber(std::string text) : expression(std::move(text)) {}
  bool operator==(const TermNumber&) const = default;
};

// Ranges of draws: one for all, or by component or name.
struct Ranges {
  std::vector<TermNumber> all;
  std::vector<std::pair<std::string, std::vector<TermNumber>>> keyed;

  bool operator==(const Ranges&) const = default;
};

// One named or expressed quantity of a task: either a term of the library with its parameters or an
// expression. Unused members keep their defaults; the term library refuses parameters it does not take.
struct TermConfig {
  std::string name;                 // the deck's name of this term (rewards, terminations), or the term's
  std::string term;                 // library term, or ""
  std::string expression;           // expression, or ""
  SourceLocation where;             // of the term
  SourceLocation where_expression;  // of the expression's first character
  std::vector<std::string> names;   // elements of the model that the term acts on
  ElementKind names_kind = ElementKind::none;
  SourceLocation where_names;
  std::map<std::string, std::vector<TermNumber>> parameters;  // scalars (size 1) and ranges (size 2)
  std::map<std::string, SourceLocation> where_parameters;
  double weight = 1;                        // rewards
  PerElement scale{1};                      // actions, observations
  PerElement offset{0};                     // actions
  std::optional<std::vector<double>> clip;  // [low, high]: actions, observations
  bool time_out = false;                    // terminations: truncation, not failure
  std::string target;  // actions, resets and events by expression: what is assigned, e.g. "qpos[slider]"
  std::vector<std::string> components;  // actions: names of components that expressions read
  // observations, what happens to the value in this order
  std::vector<double> bias;   // drawn at each reset: a number +-, or [low, high]
  std::vector<double> noise;  // drawn at each step: a number +-, or [low, high]
  double noise_std = 0;       // of normal noise
  std::vector<double> delay;  // control steps: a number, or [low, high] drawn at each reset; actions, too
  int history = 1;            // the last values, the oldest first
  // variables: expressions, and when they are evaluated
  std::string reset, update;
  std::vector<double> every;  // s between draws of `reset`, of a command or event: a number, or [low, high]
  UpdateTime update_at = UpdateTime::step;
  bool once = false;                     // reset at the first reset alone
  EventMode mode = EventMode::interval;  // events
  std::string field;                     // of the model, that an event draws; or ""
  FieldOperation operation = FieldOperation::none;
  Distribution distribution = Distribution::uniform;
  Ranges ranges;
  bool shared_random = false;                         // one draw for all elements
  StatisticChoice statistic = StatisticChoice::mean;  // metrics
  std::string command;                                // the command that a term is about
  std::string file;                                   // commands: of a motion
  std::string anchor_body;                            // commands: of a motion; "": the first body
  SamplingMode sampling_mode = SamplingMode::adaptive;
  std::string curriculum;                            // rewards: which curriculum multiplies the weight
  std::map<std::string, SourceLocation> where_keys;  // of the values of the keys above

  // Of a key's value or a parameter; of the term where that is not given.
  const SourceLocation& where_of(const std::string& key) const {
    for (const auto* places : {&where_keys, &where_parameters})
      if (const auto place = places->find(key); place != places->end()) return place->second;
    return where;
  }
};

struct TaskConfig {
  bool present = false;
  std::string name;
  double episode_length = 0;       // s; 0: endless, or episode_steps
  std::int64_t episode_steps = 0;  // control steps; 0: endless, or episode_length
  std::string keyframe;            // of the model, the state that resets start from; "": the model's own
  SourceLocation where_keyframe;
  std::string reset_until;  // expression that a fresh state must fulfil; "": any state
  SourceLocation where_reset_until;
  SourceLocation where_reset_raise;
  double reset_raise = 0;       // m: how far a state that reset_until refuses moves up; 0: it is drawn again
  int settle_steps = 0;         // physics steps of a fresh state, without actions
  bool reward_times_dt = true;  // Isaac Lab's manager-based tasks: each reward x weight x step dt
  std::vector<TermConfig> actions, observations, critic_observations, rewards, terminations, resets,
      variables, commands, events, curricula, metrics;
  std::map<std::string, std::string> definitions;  // name -> expression, usable in every expression
  std::map<std::string, SourceLocation> where_definitions;
  SourceLocation where;
};

// Demonstrations that a policy is to imitate.
struct DataConfig {
  std::vector<std::string> file;          // absolute paths
  PerElement weights{1};                  // one for all files, or one each: how often an epoch has a sample
  std::vector<std::string> observations;  // keys, in the policy's order; empty: all that are vectors
  std::vector<std::string> actions;       // datasets that make up the action; empty: "actions"
  DataCache cache = DataCache::automatic;
  std::string filter_key;         // a list of demonstrations under /mask; "": all
  std::string validation_filter;  // another, of those that are held out; "": none
  int frame_stack = 1;            // observations that the policy sees, the latest last
  bool pad_frame_stack = true;    // also before a demonstration's first frame, by repeating that
  bool pad_sequence = true;       // likewise after its last frame, of the sequences of a recurrent policy
  DataNormalizer normalize_observations = DataNormalizer::none, normalize_actions = DataNormalizer::none;
  std::vector<std::string> not_normalized;  // keys of observations
  std::vector<int> actions_not_normalized;  // components
  bool drop_last = false;                   // a last batch of an epoch that is not full
  int prefetch = 4;                         // batches that wait for the trainer
};

struct PolicyConfig {
  std::vector<int> hidden{64, 64};
  std::vector<int> critic_hidden;  // of a critic with layers of its own; empty: as hidden
  ActivationChoice activation = ActivationChoice::tanh;
  bool layer_norm = false;                  // after each hidden layer's activation
  bool shared = false;                      // actor and critic share their hidden layers
  Recurrence recurrent = Recurrence::none;  // in front of the hidden layers
  int recurrent_units = 64, recurrent_layers = 1;
  int recurrent_horizon = 0;  // control steps; 0: episodes
  Initialization initialization = Initialization::orthogonal;
  double hidden_gain = 1.4142135623730951, actor_gain = 0.01, critic_gain = 1;  // orthogonal: of the layers
  double init_std = 1;
  bool fixed_std = false;            // the log standard deviation is a constant; false: it is learned
  bool state_dependent_std = false;  // the network gives it, through std_transform, within these bounds
  StdTransform std_transform = StdTransform::exp;
  double min_std = 0, max_std = 0;  // 0: no bound
  int modes = 5;                    // of a mixture (LearningConfig::mixes)
  bool squash_actions = false;      // by tanh, into (-1, 1)
  double clip_observations = 0;     // 0: off
  double clip_actions = 0;          // 0: off
  bool normalize_observations = true;
  double clip_normalized = 10;
};

// Encoders of images, of a policy that imitates.
struct ImageConfig {
  std::vector<int> crop;  // height and width; empty: whole images
  int base_width = 64, keypoints = 32, features = 64;
};

// Diffusion policies (Chi et al. 2023).
struct DiffusionConfig {
  int observation_horizon = 2;  // control steps: observations that the policy sees, the latest last
  int action_horizon = 8;       // actions of a plan that are done before the next plan
  int prediction_horizon = 16;  // actions of a plan; the first is that of the first observation
  int pad_after = 7;            // frames of a sample that may lie beyond the end of its demonstration
  std::vector<int> down_dims{256, 512, 1024};
  int kernel_size = 5, groups = 8, step_embedding = 256;
  bool film_scale = true;
  int train_steps = 100, inference_steps = 100;
  NoiseSampler sampler = NoiseSampler::ddpm;
  PredictionChoice prediction = PredictionChoice::epsilon;
  bool clip_sample = true;  // to [-1, 1], of the sequences without noise that are predicted
};

struct LearningConfig {
  std::string algorithm = "ppo";   // a learner of src/learning/learners.cpp
  std::string preset = "maniple";  // a row of src/config/presets.cpp
  std::int64_t iterations = 150;
  int horizon = 64;     // control steps per iteration
  int epochs = 4;       // passes over the batch per iteration
  int minibatches = 4;  // per epoch
  double gamma = 0.99, lambda = 0.95;
  std::int64_t steps = 200000;      // imitation: updates
  std::int64_t batch_size = 100;    // imitation: samples of an update, global; see effective_batch.hpp
  bool batch_per_rank = false;      // imitation: batch_size is of each rank
  std::int64_t accumulate = 1;      // imitation: batches of batch_size per update, one after the other
  std::int64_t report_every = 100;  // imitation: updates of an iteration
  ImitationLoss loss = ImitationLoss::l2;
  MixedPrecision mixed_precision = MixedPrecision::none;  // imitation
  OptimizerChoice optimizer = OptimizerChoice::adamw;
  double weight_decay = 0;
  double learning_rate = 3e-4;
  RateSchedule schedule = RateSchedule::adaptive;
  RateScaling lr_scaling = RateScaling::none;
  std::int64_t lr_base_batch = 0;  // samples that lr_scaling scales from
  std::int64_t warmup_steps = 0;   // imitation: updates in which the learning rate rises from 0
  bool ema = false;                // imitation: what acts are averages of the parameters
  double ema_power = 0.75, ema_inv_gamma = 1, ema_min = 0, ema_max = 0.9999;
  double adam_beta1 = 0.9, adam_beta2 = 0.999, adam_epsilon = 1e-5;
  double desired_kl = 0.01;
  double kl_factor = 2;    // adaptive: change when kl leaves [desired/factor, desired*factor]
  double lr_factor = 1.5;  // adaptive: by this factor
  double lr_min = 1e-6, lr_max = 1e-2;
  bool lr_per_minibatch = true;    // adaptive after each minibatch (rsl_rl, rl_games) or each epoch
  std::int64_t critic_warmup = 0;  // iterations in which the critic alone learns
  double target_kl = 0;            // 0: off; the iteration's updates end at 1.5 times this
  KlReference kl_reference = KlReference::rollout;
  double clip_ratio = 0.2;
  double value_coef = 1;  // multiplies the value loss
  bool clip_value = false;
  double entropy_coef = 0;
  double bounds_coef = 0;    // rl_games' soft bound of the mean action at +-1.1
  double kl_coef = 0;        // of the divergence from the policy that acted
  double max_grad_norm = 1;  // 0: off
  bool normalize_advantage = true;
  bool normalize_advantage_per_minibatch = false;  // instead of over the whole batch
  bool normalize_value = true;                     // the critic learns values of mean 0 and variance 1
  bool normalize_reward = false;                   // rewards over the deviation of their discounted sum
  double reward_scale = 1;
  double clip_reward = 0;  // after scaling; 0: off
  BootstrapChoice value_bootstrap = BootstrapChoice::final_observation;
  bool random_initial_episode_length = true;
  Reduction reduction = Reduction::exact;
  std::int64_t check_ranks_every = 500;  // updates; 0: at checkpoints only
  std::int64_t checkpoint_every = 50;    // iterations; 0: at the end only
  std::int64_t keep_checkpoints = 3;
  Resume resume = Resume::never;
  std::string warm_start;         // checkpoint file, or a run directory; absolute path
  std::int64_t blas_width = 256;  // layers at least this wide use CBLAS
  // Numbers of kLearningNumbers that follow what a training measures: name -> expression.
  std::map<std::string, std::string> curricula;

  bool mixed() const { return mixed_precision != MixedPrecision::none; }
  bool diffuses() const { return algorithm == "diffusion"; }
  bool imitates() const { return algorithm == "bc" || diffuses(); }  // learns from data, not environments
  // Its policy gives a mixture of Gaussians.
  bool mixes() const { return algorithm == "bc" && loss == ImitationLoss::gmm; }
};

struct EvaluationConfig {
  std::int64_t episodes = 0;  // 0: one per environment; while training at most 100
  Determinism deterministic = Determinism::automatic;
  std::int64_t every = 0;  // iterations of a training; 0: never
};

struct BenchConfig {
  std::int64_t steps = 200;  // control steps per repeat
  int repeats = 5;
  BenchActions actions = BenchActions::random;
  int iterations = 0;  // of learning, after the environment steps; 0: none
  Scaling scaling = Scaling::none;
};

struct RunConfig {
  double wall_time = 0;       // s until a clean stop with exit 75; 0: none
  int retries = 4;            // further attempts after an error of the file system that may pass
  double hang_timeout = 600;  // s without a step forward on any rank until the run ends; 0: none
  ProgressStyle progress = ProgressStyle::automatic;
  SelfTestTime self_test = SelfTestTime::automatic;
  std::string status_file;  // gets the exit code at the end of a run that came to its end
};

struct Config {
  ModelConfig model;
  BatchConfig batch;
  SimulationConfig simulation;
  ControlConfig control;
  InitialStateConfig initial_state;
  OutputConfig output;
  TaskConfig task;
  DataConfig data;
  PolicyConfig policy;
  ImageConfig image;
  DiffusionConfig diffusion;
  LearningConfig learning;
  EvaluationConfig evaluation;
  BenchConfig bench;
  RunConfig run;
  std::vector<std::string> notes;               // what unset keys became, where their defaults do not fit
  std::string deck_text;                        // the decks and overrides as given
  std::string resolved_text;                    // every key with its value, as YAML: itself a deck
  std::map<std::string, SourceLocation> where;  // of every key that was given
  std::string earlier_results;                  // of a run that stands in place of a deck; "": none does
  SourceLocation where_deck;                    // of the last deck; without decks: the command line

  // Where a key was given, or the deck that could have given it: for messages about its value.
  SourceLocation where_of(const std::string& key) const {
    const auto found = where.find(key);
    return found == where.end() ? where_deck : found->second;
  }
};

}  // namespace maniple
