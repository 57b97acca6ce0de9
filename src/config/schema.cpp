// The tables of deck keys and of the keys of terms: what they set, what is allowed, and what they mean.
#include "src/config/schema.hpp"

#include <algorithm>
#include <string_view>

#include "src/config/presets.hpp"

namespace maniple {
namespace {

// ---- how rows say what is allowed ----
Allowed anything() {
  return {};
}
Allowed between(double low, double high) {
  return {.low = low, .high = high};
}
Allowed at_least(double low) {
  return {.low = low};
}
Allowed above(double low) {
  return {.low = low, .above_low = true};
}
Allowed above_up_to(double low, double high) {
  return {.low = low, .high = high, .above_low = true};
}
Allowed or_expression() {
  return {.expressions = true};
}
Allowed one_of(std::vector<std::string> choices) {
  return {.choices = std::move(choices)};
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : presets()) names.push_back(preset.name);
  return names;
}

// A row whose key path is the member's path in Config, and one whose path differs from it.
// (behind the meaning: flags)
#define KEY(member, allowed, unit, ...) KEY_AS(#member, member, allowed, unit, __VA_ARGS__)
#define KEY_AS(path, member, allowed, unit, ...)                                                         \
  {                                                                                                      \
    path, [](Config& config) -> Target { return target_of(&config.member); }, allowed, unit, __VA_ARGS__ \
  }
#define TERM_KEY(name, member, sections, allowed, unit, meaning)                                       \
  {                                                                                                    \
    name, [](TermConfig& term) -> Target { return target_of(&term.member); }, sections, allowed, unit, \
        meaning                                                                                        \
  }

}  // namespace

// clang-format off
const std::vector<Key>& schema() {
  static const std::vector<Key> keys{
      KEY(model.file, anything(), "", "Model file: MJCF, URDF or MJB. A path relative to the deck, or package:<python package>/<path>"),
      KEY(model.overlay, anything(), "", "MJCF file that is merged into the model, relative to the deck. Its sections are added; its section <edit> sets attributes of the elements whose names match, <joint name=\".*_knee\" armature=\"0.1\"/>, or removes them, <rangefinder name=\"sonar\" remove=\"true\"/>"),
      KEY(model.contacts, anything(), "", "Contacts; false switches them off, overriding the model"),
      KEY(model.limits, anything(), "", "Joint limits; false switches them off"),
      KEY(model.equality, anything(), "", "Equality constraints; false switches them off"),
      KEY(model.frictionloss, anything(), "", "Dry friction; false switches it off"),
      KEY(model.tendons, anything(), "", "Tendons; false switches off tendons and everything attached to them"),

      KEY(batch.num_envs, between(1, 1e12), "environments", "Number of environments of the whole run, over all ranks"),
      KEY(batch.seed, between(0, 4294967295.0), "1", "Seed of all random numbers"),

      KEY(simulation.precision, anything(), "", "Precision of physics and trajectories"),
      KEY(simulation.timestep, between(0, 1000), "s", "Duration of a physics step; 0: as in the model"),
      KEY(simulation.integrator, anything(), "", "Integrator; \"\": the model's"),
      KEY(simulation.solver, anything(), "", "Constraint solver for contacts, limits and dry friction; \"\": the model's"),
      KEY(simulation.solver_path, anything(), "", "How Newton and CG solve: converged: to the minimum of the cost, by Newton's method for CG, too; mujoco: by MuJoCo's own iterations, and to where these end; \"\": converged where the model lets its solver converge, else mujoco"),
      KEY(simulation.iterations, between(0, 1e6), "iterations", "Largest number of solver iterations; 0: the model's"),
      KEY(simulation.ls_iterations, between(0, 1e6), "iterations", "Largest number of line search iterations of Newton and CG; 0: the model's"),
      KEY(simulation.tolerance, at_least(0), "1", "Solver tolerance: scaled improvement, and scaled gradient, below which it stops; ~: the model's"),
      KEY(simulation.ls_tolerance, at_least(0), "1", "Line search tolerance of Newton and CG; ~: the model's"),
      KEY(simulation.cone, anything(), "", "Friction cone of contacts; \"\": the model's"),
      KEY(simulation.impratio, above(0), "1", "Ratio of frictional to normal impedance of contacts; ~: the model's"),
      KEY(simulation.noslip_iterations, between(-1, 1e6), "iterations", "Largest number of noslip iterations after the solver, which keep contacts from creeping; 0: none; -1: the model's"),
      KEY(simulation.noslip_tolerance, at_least(0), "1", "Noslip tolerance: scaled improvement below which its iterations stop; ~: the model's"),
      KEY(simulation.gravity, anything(), "m/s^2", "Gravity [x, y, z]; ~: the model's"),
      KEY(simulation.wind, anything(), "m/s", "Velocity of the fluid [x, y, z]; ~: the model's"),
      KEY(simulation.density, at_least(0), "kg/m^3", "Density of the fluid; ~: the model's"),
      KEY(simulation.viscosity, at_least(0), "kg/(m s)", "Viscosity of the fluid; ~: the model's"),
      KEY(simulation.disable, anything(), "", "Flags of MuJoCo's <flag> to switch off, overriding the model: [warmstart, eulerdamp]. An unknown name is refused with the list of names"),
      KEY(simulation.enable, anything(), "", "Flags of MuJoCo's <flag> to switch on, overriding the model"),
      KEY(simulation.decimation, between(1, 1e6), "physics steps", "Number of physics steps in a control step"),
      KEY(simulation.derived, anything(), "", "Age of the poses, velocities, forces and sensors that a task reads. fresh: of the state that the task sees. as_stepped: as mj_step leaves them, one physics step old (Gymnasium). stepped_forces: only accelerations, forces, contacts and their sensors are one step old, and where an episode begins they are those without actuators (dm_control). stepped_rewards: rewards, terminations and the variables updated with them read everything but rays one step old; observations and prev(x) read it fresh (mjlab)"),
      KEY(simulation.max_contacts, between(0, 100000), "contacts", "Contact capacity of one environment. Contacts beyond it are dropped, counted and reported with their environment. 0: estimated from the shapes at rest and from 1.5 times the contacts of the initial state"),
      KEY(simulation.threads_per_environment, anything(), "", "GPU threads that step one environment together; auto: 1, which was faster on an H100; 32 needs a model of more than 9 dofs, and its results differ by rounding"),
      KEY(simulation.steps, at_least(0), "control steps", "Length of a rollout"),
      KEY(simulation.inject_nan_env, between(-1, 1e12), "environment", "Test hook: environment whose qpos becomes NaN; -1: none"),
      KEY(simulation.inject_nan_step, at_least(0), "control step", "Test hook: control step before which qpos becomes NaN"),

      KEY_AS("terrain.geom", model.terrain.geom, anything(), "", "Plane or height field of the model that the terrain replaces, as a height field with the friction, contact numbers and name of that geom; \"\": the only plane"),
      KEY_AS("terrain.size", model.terrain.size, above_up_to(0, 1e4), "m", "Size of a cell along x and y; a multiple of terrain.horizontal_scale"),
      KEY_AS("terrain.border_width", model.terrain.border_width, between(0, 1e4), "m", "Width of the flat border around all cells"),
      KEY_AS("terrain.num_rows", model.terrain.num_rows, between(1, 1e4), "cells", "Rows of cells along x: the levels"),
      KEY_AS("terrain.num_cols", model.terrain.num_cols, between(1, 1e4), "cells", "Columns of cells along y; each gets an equal share of the environments, by their numbers"),
      KEY_AS("terrain.horizontal_scale", model.terrain.horizontal_scale, above_up_to(0, 1e3), "m", "Spacing of the height field's points; a step of stairs rises over one spacing"),
      KEY_AS("terrain.vertical_scale", model.terrain.vertical_scale, above_up_to(0, 1e2), "m", "Unit of the heights of all types but flat, pyramid_stairs, inverted_pyramid_stairs, random_grid and bowl"),
      KEY_AS("terrain.difficulty_range", model.terrain.difficulty_range, between(0, 1), "1", "Lowest and highest difficulty: of the first and the last row or, with terrain.curriculum: false, of the uniform draw for each cell"),
      KEY_AS("terrain.curriculum", model.terrain.curriculum, anything(), "", "Difficulty by row, (row + draw) / num_rows, and sub-terrains by column, in their proportions; false: both are drawn for each cell"),
      KEY_AS("terrain.randomize", model.terrain.randomize, anything(), "", "Each episode begins in a cell that is drawn, of all columns and the rows min_init_terrain_level to max_init_terrain_level (mjlab's randomize_terrain); false: environments keep their column"),
      KEY_AS("terrain.seed", model.terrain.seed, between(-1, 4294967295.0), "1", "Seed of the terrain; -1: batch.seed"),
      KEY_AS("terrain.min_init_terrain_level", model.terrain.min_init_terrain_level, between(0, 1e4), "row", "Lowest row of first episodes, which begin in a random one"),
      KEY_AS("terrain.max_init_terrain_level", model.terrain.max_init_terrain_level, between(-1, 1e4), "row", "Highest row of first episodes; -1: the last one"),

      KEY(control.source, anything(), "", "Source of controls, or of actions where there is a task. random: controls uniform in their range, drawn in each control step (unlimited controls in [-1, 1]). keyframe: controls of initial_state.keyframe, without a task; the default with initial_state.source: keyframe"),
      KEY(control.file, anything(), "", "HDF5 file with /ctrl [env or 1, step, nu], or with a task /action [env or 1, step, size]; relative to the deck"),
      KEY(control.checkpoint, anything(), "", "Checkpoint file or directory of a run whose policy acts; relative to the deck"),

      KEY(initial_state.source, anything(), "", "Source of the first states; task: the resets of the task"),
      KEY(initial_state.keyframe, anything(), "", "Name or number of a keyframe of the model"),
      KEY(initial_state.file, anything(), "", "HDF5 file with /qpos [env or 1, nq], /qvel [env or 1, nv] and, if they are there, /act, /mocap_pos [env or 1, 3 nmocap], /mocap_quat [env or 1, 4 nmocap], /qfrc_applied [env or 1, nv] and /xfrc_applied [env or 1, 6 nbody]; relative to the deck"),

      KEY(output.directory, anything(), "", "Directory of the run, relative to the working directory"),
      KEY(output.overwrite, anything(), "", "Permission to replace results of an earlier run in the directory"),
      KEY(output.tensorboard, anything(), "", "Event files for TensorBoard, written by train and imitate next to the results"),
      KEY_AS("output.trajectory.every", output.trajectory_every, at_least(0), "control steps", "Control steps between two samples of the trajectory; 0: no trajectory"),
      KEY_AS("output.trajectory.fields", output.trajectory_fields, anything(), "", "Recorded fields: those of the state, those that follow from it (as mj_step leaves them, one physics step older) and, with a task, action, reward, observation and the other values of its control steps, variables/<name>, commands/<name> and fields of the model that events set. An unknown name is refused with the list of names"),

      KEY(output.dataset, anything(), "", "Layout in which rollout and evaluate write the episodes of a task as demonstrations, ordered by environment and start, with the observations under their names. robomimic: <directory>/demonstrations.hdf5. minari: the data set demonstrations-v0 in MINARI_DATASETS_PATH=<directory>/minari"),
      KEY(output.dataset_episodes, at_least(0), "episodes", "Largest number of episodes in the data set, taken from the first; 0: all"),
      KEY(output.dataset_min_return, anything(), "reward", "Smallest sum of rewards of an episode in the data set; episodes below it are left out"),
      KEY(output.dataset_success, anything(), "", "Restriction to episodes in which the termination success held"),
      KEY(output.dataset_unfinished, anything(), "", "Episodes that the end of a rollout cuts off, written as truncated ones. Without them long episodes are rarer in the data set than in the task"),

      KEY(task.name, anything(), "", "Name of the task in reports"),
      KEY(task.episode_length, at_least(0), "s", "Duration of an episode, after which the term time_out truncates it; 0: no end"),
      KEY(task.episode_steps, between(0, 16777216), "control steps", "Duration of an episode in control steps, in place of task.episode_length"),
      KEY(task.keyframe, anything(), "", "Name or number of the keyframe that resets start from, with its time, positions, velocities, activations and controls; actuators without an action hold its controls. Its positions and velocities are also the default ones of joint_pos_rel and of position actions. \"\": qpos0 at rest, controls of 0"),
      KEY(task.reset_until, anything(), "", "Expression that a fresh state must meet, derived quantities included; a state for which it is false is drawn again, or moves up by task.reset_raise, at most 1000 times; \"\": no condition"),
      KEY(task.reset_raise, between(0, 1e3), "m", "How far a fresh state that task.reset_until refuses moves up, all free joints of the model together, before it is tried again; 0: another state is drawn"),
      KEY(task.settle_steps, between(0, 1e6), "physics steps", "Physics steps of a fresh state before its episode begins, without actions and with the controls that it has"),
      KEY(task.reward_times_dt, anything(), "", "Multiplication of each reward by the duration of a control step: value x weight x duration"),

      KEY(data.file, anything(), "", "Demonstrations in the HDF5 layout of robomimic, Minari or DROID: a file or a list of files, relative to the deck. A JSON file is a manifest of DROID, [{path: ...}, ...], with a file for each demonstration, relative to the manifest", kOfRun),
      KEY(data.weights, anything(), "1", "Weights of the files, one number for each or one for all: how often each sample occurs in an epoch", kLasting),
      KEY(data.observations, anything(), "", "Observation keys in the policy's order (robomimic: below obs/; Minari: below observations/, or observations itself): vectors, and images, uint8 [frame, height, width, channels]. A key in a group is named by its path, camera/depth. []: the observations of the deck's task, if the file has all of them, otherwise all vectors in alphabetical order (DROID: must be named)", kOfRun),
      KEY(data.actions, anything(), "", "Datasets below each demonstration that make up the action, in this order (DROID: below action/, must be named); []: [actions]", kOfRun),
      KEY(data.cache, anything(), "", "Storage of the data on each rank. file: an unnamed file in TMPDIR, or in the run's directory where TMPDIR is missing or in memory (tmpfs). auto: memory, where twice the data fit, otherwise a file", kOfRun),
      KEY(data.filter_key, anything(), "", "Training demonstrations, the list /mask/<key> of robomimic; \"\": all", kOfRun),
      KEY(data.validation_filter, anything(), "", "Validation demonstrations, the list /mask/<key> of robomimic. Their loss is reported after each epoch (validation_loss), with center crops; \"\": none", kLasting),
      KEY(data.frame_stack, between(1, 1000), "frames", "Number of successive observations that the policy sees; the oldest of each key comes first", kLasting),
      KEY(data.pad_frame_stack, anything(), "", "Padding before a demonstration: its first frame stands in for earlier ones; false: samples begin with a full stack", kLasting),
      KEY(data.pad_sequence, anything(), "", "Padding after a demonstration, with policy.recurrent: its last frame stands in for later ones; false: samples have a full sequence", kLasting),
      KEY(data.normalize_observations, anything(), "", "Normalization of each observation component by statistics of the data. min_max: to [-1, 1]. mean_std: (x - mean) / (deviation + 0.001), as in robomimic", kLasting),
      KEY(data.normalize_actions, anything(), "", "Normalization of each action component by statistics of the data; none: actions must be in [-1, 1]", kLasting),
      KEY(data.not_normalized, anything(), "", "Observation keys that are not normalized", kLasting),
      KEY(data.actions_not_normalized, between(0, 65535), "component", "Action components that are not normalized, counted from 0", kLasting),
      KEY(data.drop_last, anything(), "", "Omission of the samples at the end of an epoch that do not fill a batch", kLasting),
      KEY(data.prefetch, between(1, 1000), "batches", "Largest number of batches that a thread of each rank prepares in advance", kOfRun),

      KEY(policy.hidden, between(1, 65536), "units", "Width of each hidden layer"),
      KEY(policy.critic_hidden, between(1, 65536), "units", "Width of each hidden layer of a critic with its own layers; []: as policy.hidden"),
      KEY(policy.activation, anything(), "", "Activation function of the hidden layers"),
      KEY(policy.layer_norm, anything(), "", "Layer normalization after the activation of each hidden layer"),
      KEY(policy.shared, anything(), "", "Hidden layers that actor and critic share; presets set false where a task has critic_observations"),
      KEY(policy.recurrent, anything(), "", "Recurrent layers before the hidden ones. gru: gated recurrent units; lstm: long short-term memory. They learn over learning.horizon (imitate: over policy.recurrent_horizon), and their state is zero at the start of an episode"),
      KEY(policy.recurrent_units, between(1, 65536), "units", "Width of each recurrent layer; actor and critic have recurrent layers of their own unless policy.shared is true"),
      KEY(policy.recurrent_layers, between(1, 16), "layers", "Number of recurrent layers"),
      KEY(policy.recurrent_horizon, between(0, 1e4), "control steps", "Length of the sequences that recurrent layers learn from (imitate). While the policy acts, their state returns to zero after as many steps, as in robomimic; 0: only at the start of an episode"),
      KEY(policy.initialization, anything(), "", "Initialization of weights. uniform: in +-1/sqrt(inputs). lecun_uniform: in +-sqrt(3/inputs). orthogonal: with the gains policy.hidden_gain, actor_gain and critic_gain", kOfFirstPolicy | kLasting),
      KEY(policy.hidden_gain, at_least(0), "1", "Gain of the hidden layers, for orthogonal initialization", kOfFirstPolicy | kLasting),
      KEY(policy.actor_gain, at_least(0), "1", "Gain of the layer that gives the mean actions, for orthogonal initialization", kOfFirstPolicy | kLasting),
      KEY(policy.critic_gain, at_least(0), "1", "Gain of the layer that gives the value, for orthogonal initialization", kOfFirstPolicy | kLasting),
      KEY(policy.init_std, above_up_to(0, 1e3), "action", "Standard deviation of actions at the start", kOfFirstPolicy | kLasting),
      KEY(policy.fixed_std, anything(), "", "Constant standard deviation of actions; false: it is learned", kOfUse),
      KEY(policy.state_dependent_std, anything(), "", "Standard deviation given by the network with each mean action; false: one for all observations"),
      KEY(policy.std_transform, anything(), "", "Transformation of the network's output to a standard deviation, with state_dependent_std or learning.loss: gmm. softplus: ln(1 + e^x) + min_std"),
      KEY(policy.min_std, at_least(0), "action", "Smallest standard deviation where one is learned: in environments, by learning.loss: gaussian, or with state_dependent_std; 0: no bound. With learning.loss: gmm it is added to all"),
      KEY(policy.max_std, at_least(0), "action", "Largest standard deviation where one is learned; 0: no bound"),
      KEY(policy.modes, between(2, 100), "Gaussians", "Number of Gaussians in the mixture of learning.loss: gmm", kOfImitation),
      KEY(policy.squash_actions, anything(), "", "Squashing of actions by tanh, into (-1, 1); the standard deviation is that before it"),
      KEY(policy.clip_observations, at_least(0), "observation", "Limit to which observations are clipped, on both sides; 0: none"),
      KEY(policy.clip_actions, at_least(0), "action", "Limit to which actions are clipped before they act, on both sides; 0: none"),
      KEY(policy.normalize_observations, anything(), "", "Normalization of observations by their running mean and deviation, the root of variance + 1e-5 (rl_games)"),
      KEY(policy.clip_normalized, above(0), "1", "Limit to which normalized observations are clipped, on both sides"),

      KEY(image.crop, between(1, 16384), "pixels", "Height and width of the crop of an image that the policy sees: a random crop while it learns, the center crop when it acts; []: the whole image"),
      KEY(image.base_width, between(1, 4096), "channels", "Channels of the first stage of a camera's encoder, a ResNet-18 with group normalization; each of the three later stages has twice as many as the one before"),
      KEY(image.keypoints, between(1, 4096), "1", "Number of final feature maps of the encoder, each reduced to its mean position (spatial softmax)"),
      KEY(image.features, between(1, 65536), "1", "Number of features that the encoder computes from an image"),

      KEY(diffusion.observation_horizon, between(1, 1000), "control steps", "Number of successive observations that the policy sees, the latest last; the first one of an episode stands in for earlier ones", kOfImitation),
      KEY(diffusion.action_horizon, between(1, 1e4), "control steps", "Number of predicted actions that are executed before the next prediction, beginning at the latest observation", kOfImitation | kOfUse),
      KEY(diffusion.prediction_horizon, between(1, 1e4), "control steps", "Number of predicted actions, beginning at the oldest observation that the policy sees; must be divisible by 2 for each level of diffusion.down_dims but one", kOfImitation),
      KEY(diffusion.pad_after, between(0, 1e4), "frames", "Frames of a sample that may lie beyond the end of a demonstration, filled with its last frame. diffusion_policy uses action_horizon - 1, robomimic prediction_horizon - observation_horizon", kOfImitation | kLasting | kOfUse),
      KEY(diffusion.down_dims, between(1, 65536), "channels", "Channels of each level of the denoising network", kOfImitation),
      KEY(diffusion.kernel_size, between(1, 101), "frames", "Convolution kernel size; must be odd", kOfImitation),
      KEY(diffusion.groups, between(1, 65536), "groups", "Number of groups of the group normalization; must divide each of diffusion.down_dims", kOfImitation),
      KEY(diffusion.step_embedding, between(4, 65536), "units", "Width of the embedding of the diffusion step; must be even", kOfImitation),
      KEY(diffusion.film_scale, anything(), "", "Conditioning by a scale and a shift of the features, both computed from the observations (cond_predict_scale); false: by a shift only", kOfImitation),
      KEY(diffusion.train_steps, between(1, 1e5), "steps", "Length of the noise schedule (squaredcos_cap_v2) that the network learns", kOfImitation),
      KEY(diffusion.inference_steps, between(1, 1e5), "steps", "Denoising steps of one prediction, at most diffusion.train_steps; evaluate and rollout may use another number than the training", kOfImitation | kOfUse),
      KEY(diffusion.sampler, anything(), "", "Sampler of the denoising steps. ddpm: with added noise of the small fixed variance. ddim: without noise, for fewer steps", kOfImitation | kOfUse),
      KEY(diffusion.prediction, anything(), "", "Quantity that the network predicts: the noise, or the sequence without noise", kOfImitation),
      KEY(diffusion.clip_sample, anything(), "", "Clipping of predicted sequences without noise to [-1, 1], the range of data.normalize_actions: min_max", kOfImitation | kOfUse),

      KEY(learning.algorithm, one_of({"ppo", "bc", "diffusion"}), "", "Learning algorithm: ppo for maniple train, bc (behaviour cloning) or diffusion (diffusion policy) for maniple imitate", kLasting),
      KEY(learning.preset, one_of(preset_names()), "", "Set of defaults named after the program that they come from; 'maniple schema presets' lists them", kOfRun),
      KEY(learning.iterations, at_least(1), "iterations", "Number of iterations; an iteration is a batch of steps and the updates on it"),
      KEY(learning.horizon, between(1, 1e6), "control steps", "Steps of each environment in one iteration", kLasting),
      KEY(learning.epochs, between(1, 1e4), "epochs", "Passes over the batch in one iteration"),
      KEY(learning.minibatches, between(1, 1e6), "minibatches", "Minibatches in an epoch; they share the learning.horizon x blocks of 32 environments"),
      KEY(learning.gamma, between(0, 1), "1", "Discount factor of one control step"),
      KEY(learning.lambda, between(0, 1), "1", "Lambda of the generalized advantage estimate"),
      KEY(learning.steps, at_least(1), "updates", "Updates of the whole run (imitate)", kOfImitation),
      KEY(learning.batch_size, between(1, 1e9), "samples", "Samples of an update, over all ranks (imitate)", kOfImitation),
      KEY(learning.batch_per_rank, anything(), "", "learning.batch_size per rank (imitate): batch and result then depend on the number of ranks", kOfImitation),
      KEY(learning.accumulate, between(1, 1e6), "batches", "Number of batches of learning.batch_size that make one update (imitate). They are processed one after the other, with the bits of one larger batch and the memory of one batch", kOfImitation),
      KEY(learning.report_every, between(1, 1e9), "updates", "Updates of one iteration (imitate), after which metrics are written; a run can end and be checkpointed there", kOfImitation | kLasting),
      KEY(learning.loss, anything(), "", "Loss of behaviour cloning. l2, l1, smooth_l1: squared, absolute and Huber's error of the mean action, as the network gives it. gaussian: negative log likelihood; needs policy.squash_actions: false. gmm: negative log likelihood of a mixture of policy.modes Gaussians, whose means go through tanh with policy.squash_actions", kOfImitation),
      KEY(learning.mixed_precision, anything(), "", "Precision of matrix products while a network learns (imitate). bf16: factors are rounded to bfloat16 and summed in single precision, everything else stays in single precision; needs a CPU with AVX512_BF16", kOfImitation),
      KEY(learning.optimizer, anything(), "", "Optimizer. adamw: weight decay acts on the parameters (Loshchilov and Hutter 2019). adam: weight decay is a part of the gradient, an L2 penalty (torch.optim.Adam)"),
      KEY(learning.weight_decay, at_least(0), "1", "Weight decay of all parameters; adamw multiplies it by the learning rate"),
      KEY(learning.learning_rate, above_up_to(0, 1e3), "1", "Learning rate at the start"),
      KEY(learning.lr_scaling, anything(), "", "Scaling of the learning rate by the ratio of the samples of an update to learning.lr_base_batch, or by its square root"),
      KEY(learning.lr_base_batch, between(0, 1e12), "samples", "Batch size for which learning.learning_rate was chosen, for learning.lr_scaling"),
      KEY(learning.schedule, anything(), "", "Schedule of the learning rate. adaptive: it follows the KL divergence. linear: it falls to 0 at learning.iterations. cosine (imitate): it falls to 0 at learning.steps along half a cosine, after learning.warmup_steps"),
      KEY(learning.warmup_steps, between(0, 1e9), "updates", "Updates over which the learning rate rises from 0 in equal steps, for the schedules fixed and cosine (imitate)", kOfImitation),
      KEY(learning.ema, anything(), "", "Running averages of the parameters (EMA), with which a diffusion policy acts", kOfImitation | kLasting),
      KEY(learning.ema_power, above(0), "1", "Power of the running averages: step n, counted from 0, keeps 1 - (1 + (n - 1) / ema_inv_gamma)^-ema_power of them; the first two steps keep nothing", kOfImitation),
      KEY(learning.ema_inv_gamma, above(0), "steps", "Time scale of the running averages; see learning.ema_power", kOfImitation),
      KEY(learning.ema_min, between(0, 1), "1", "Smallest share of the running averages that a step keeps", kOfImitation),
      KEY(learning.ema_max, between(0, 1), "1", "Largest share of the running averages that a step keeps", kOfImitation),
      KEY(learning.adam_beta1, between(0, 0.999999), "1", "Decay of Adam's first moment"),
      KEY(learning.adam_beta2, between(0, 0.999999), "1", "Decay of Adam's second moment"),
      KEY(learning.adam_epsilon, above(0), "1", "Adam's epsilon"),
      KEY(learning.desired_kl, above(0), "nat", "KL divergence between updates that the adaptive schedule aims at"),
      KEY(learning.kl_factor, at_least(1), "1", "Width of the band around desired_kl in which the adaptive schedule keeps the learning rate: [desired_kl / kl_factor, desired_kl x kl_factor]"),
      KEY(learning.lr_factor, at_least(1), "1", "Factor by which the adaptive schedule changes the learning rate"),
      KEY(learning.lr_min, above(0), "1", "Smallest learning rate of the adaptive schedule"),
      KEY(learning.lr_max, above(0), "1", "Largest learning rate of the adaptive schedule"),
      KEY(learning.lr_per_minibatch, anything(), "", "Adaptive schedule after each minibatch (rsl_rl, rl_games); false: after each epoch"),
      KEY(learning.critic_warmup, at_least(0), "iterations", "Iterations at the start of the run in which only the critic learns, for policies pre-trained on demonstrations (learning.warm_start); the learning rate does not follow the KL divergence in them"),
      KEY(learning.target_kl, at_least(0), "nat", "KL divergence for early stopping: the updates of an iteration end when it exceeds 1.5 times this value; 0: never"),
      KEY(learning.kl_reference, anything(), "", "Policy from which the adaptive schedule measures the KL divergence: the one that acted (rsl_rl), or the one that last learned from a sample (rl_games)"),
      KEY(learning.clip_ratio, above(0), "1", "Clipping range of the probability ratio: 1 +- clip_ratio"),
      KEY(learning.value_coef, at_least(0), "1", "Coefficient of the value loss"),
      KEY(learning.clip_value, anything(), "", "Clipping of the value's change by clip_ratio"),
      KEY(learning.entropy_coef, at_least(0), "1", "Coefficient of the entropy bonus"),
      KEY(learning.bounds_coef, at_least(0), "1", "Coefficient of the penalty for mean actions beyond +-1.1"),
      KEY(learning.kl_coef, at_least(0), "1", "Coefficient of the KL divergence in the loss"),
      KEY(learning.max_grad_norm, at_least(0), "1", "Largest norm of the gradient; larger ones are scaled down; 0: none"),
      KEY(learning.normalize_advantage, anything(), "", "Normalization of advantages to mean 0 and variance 1 over the batch"),
      KEY(learning.normalize_advantage_per_minibatch, anything(), "", "Normalization of advantages over each minibatch in place of the batch, as in CleanRL, SB3 and Brax"),
      KEY(learning.normalize_value, anything(), "", "Normalization of the values that the critic learns to mean 0 and variance 1; its last layer follows their running moments (PopArt)", kLasting),
      KEY(learning.normalize_reward, anything(), "", "Division of rewards by the running deviation of their discounted sum before learning, the root of variance + 1e-8 (Gymnasium)", kLasting),
      KEY(learning.reward_scale, anything(), "1", "Factor of rewards before learning; reports have rewards without it"),
      KEY(learning.clip_reward, at_least(0), "1", "Limit to which rewards are clipped after all scaling, on both sides; 0: none"),
      KEY(learning.value_bootstrap, anything(), "", "Value that a time-out adds to the reward, times gamma. final_observation: value of the observation after the last step. value: of the observation before it, as in rsl_rl and rl_games"),
      KEY(learning.random_initial_episode_length, anything(), "", "Random first time-outs, spread over an episode", kLasting),
      KEY(learning.reduction, anything(), "", "Order of sums; exact: the same bits on any number of ranks"),
      KEY(learning.check_ranks_every, at_least(0), "updates", "Updates between two checksum comparisons of everything that must be equal on all ranks; a rank that differs is named, and the run ends. Steps of a rollout count as updates; 0: at checkpoints only, which always compare"),
      KEY(learning.checkpoint_every, at_least(0), "iterations", "Iterations (of imitate updates) between two checkpoints; 0: at the end only", kOfRun),
      KEY(learning.keep_checkpoints, between(1, 1e6), "files", "Number of checkpoints to keep; older ones are removed", kOfRun),
      KEY(learning.resume, anything(), "", "Resumption of a run. auto: from the newest good checkpoint of the directory, or from the start where there is none", kOfRun),
      KEY(learning.warm_start, anything(), "", "Checkpoint file or directory of a run from which this run takes policy, critic, normalizers and optimizer moments at its start. Observations and actions must be the same; the rest of the task, batch and settings may differ. Relative to the deck", kOfRun),
      KEY(learning.blas_width, at_least(1), "units", "Width from which layers are computed by CBLAS"),

      KEY(evaluation.episodes, at_least(0), "episodes", "Number of episodes; 0: one for each environment, at most 100 while training"),
      KEY(evaluation.deterministic, anything(), "", "Actions of an evaluation. true: the mean action, of a mixture (learning.loss: gmm) that of its likeliest mode. false: sampled. auto: the mean action; of a mixture a sample with a standard deviation of 0.0001 around the mean of a random mode (robomimic's low_noise_eval)"),
      KEY(evaluation.every, at_least(0), "iterations", "Iterations (of imitate updates) between two evaluations of a training; the best policy is kept in <directory>/best; 0: never"),

      KEY(bench.steps, at_least(1), "control steps", "Control steps of one repeat"),
      KEY(bench.repeats, between(1, 1e4), "repeats", "Number of repeats, of which median, minimum and maximum are reported"),
      KEY(bench.actions, anything(), "", "Actions of a task in its environment steps; choices as for control.source"),
      KEY(bench.iterations, between(0, 1e6), "iterations", "Iterations of learning that are measured after the environment steps; 0: none, with bench.scaling 5"),
      KEY(bench.scaling, anything(), "", "Measurement of learning on 1, 2, 4, ... of the ranks while the others wait. strong: the deck's batch is divided among them. weak: each has a batch as large as the deck's"),

      KEY(run.wall_time, at_least(0), "s", "Time until a clean stop; train then ends with exit code 75, rollout and evaluate, which have no checkpoint, with 1; 0: no limit"),
      KEY(run.retries, between(0, 10000), "attempts", "Further attempts at reading or writing checkpoints and results after an error of the file system that may pass (EIO, ESTALE, ETIMEDOUT, ...), after 1, 2, 4, ... and at most 60 s"),
      KEY(run.hang_timeout, at_least(0), "s", "Time without progress on any rank after which the rank that hangs is named and the run ends with exit code 1; pauses of the whole job do not count, and the limit is three times as long until the first iteration is done; 0: never"),
      KEY(run.progress, anything(), "", "Progress display; auto: a bar on a terminal, otherwise plain lines"),
      KEY(run.self_test, anything(), "", "Bitwise comparison of the kernels on the device with the same kernels on the host, before the run; auto: on a GPU on which this build and driver have not passed it yet"),
      KEY(run.status_file, anything(), "", "File for the exit code of a run that ended in order, 0 or 75, because some launchers do not pass it on"),
  };
  return keys;
}

const std::vector<TermKey>& term_schema() {
  static const std::vector<TermKey> keys{
      TERM_KEY("name", name, kActions | kObservations | kResets, anything(), "", "Name in reports; default: the term's"),
      TERM_KEY("term", term, kTerms | kCurricula, anything(), "", "Term of the library, in place of an expression; of a curriculum, in place of reset and update"),
      TERM_KEY("expression", expression, kTerms | kMetrics, anything(), "", "Expression over named quantities, in place of a term"),
      TERM_KEY("set", target, kActions | kResets | kEvents, anything(), "", "Quantity that the expression is assigned to, for instance qpos[slider]"),
      TERM_KEY("components", components, kActions, anything(), "", "Names of components of the action that drive no actuator themselves; other actions read them, action[0]"),
      TERM_KEY("joints", names, kTerms, anything(), "", "Joints that the term acts on, in this order"),
      TERM_KEY("bodies", names, kTerms | kCurricula, anything(), "", "Bodies that the term acts on"),
      TERM_KEY("geoms", names, kTerms, anything(), "", "Geoms that the term acts on"),
      TERM_KEY("pairs", names, kEvents, anything(), "", "Explicit contact pairs that the term acts on; a pair without a name is called pair and its number in MuJoCo's model, pair0"),
      TERM_KEY("sites", names, kEvents, anything(), "", "Sites that the term acts on"),
      TERM_KEY("actuators", names, kTerms, anything(), "", "Actuators that the term acts on"),
      TERM_KEY("sensors", names, kTerms, anything(), "", "Sensors that the term acts on"),
      TERM_KEY("weight", weight, kRewards, anything(), "1", "Factor of the reward"),
      TERM_KEY("scale", scale, kActions | kObservations, anything(), "1", "Factor of the value; in a mapping of name patterns later ones take precedence"),
      TERM_KEY("offset", offset, kActions, or_expression(), "1", "Summand after scaling; an expression has one component, or one for each element"),
      TERM_KEY("clip", clip, kActions | kObservations, anything(), "1", "Limits of the value, [low, high]"),
      TERM_KEY("bias", bias, kObservations, anything(), "1", "Random summand, drawn at each reset for each component: a number (+-), or [low, high]; applied first"),
      TERM_KEY("noise", noise, kObservations, anything(), "1", "Random summand, drawn in each step: a number (+-), or [low, high]; applied after bias, before clip and scale"),
      TERM_KEY("noise_std", noise_std, kObservations, at_least(0), "1", "Standard deviation of normally distributed noise, in place of noise"),
      TERM_KEY("delay", delay, kActions | kObservations, between(0, 1000), "control steps", "Delay: a number, or [low, high] drawn at each reset; the first value stands in for earlier ones"),
      TERM_KEY("history", history, kObservations, between(1, 1000), "control steps", "Number of latest values, the oldest first; the first one stands in for earlier ones"),
      TERM_KEY("reset", reset, kVariables | kCurricula, anything(), "", "Expression of the value at a reset, after the resets of the state; of a curriculum, at the start of the training"),
      TERM_KEY("update", update, kVariables | kCurricula, anything(), "", "Expression of the next value, in which prev(name) is the last one. That of a curriculum is evaluated after each iteration, from metrics, mean_<variable> over the environments (of a vector mean_<variable>_0, ...), curricula and its last value, under its own name; one that reads metrics of episodes keeps its value in iterations in which no episode ended"),
      TERM_KEY("curriculum", curriculum, kRewards, anything(), "", "Curriculum that multiplies the weight"),
      TERM_KEY("update_at", update_at, kVariables, anything(), "", "Time of the update in a control step. step: after the physics, before terminations and rewards. observation: after them and after resets"),
      TERM_KEY("every", every, kVariables | kCommands | kEvents, above(0), "s", "Time between further evaluations of reset, commands or events, after the rewards: a number, or [low, high] drawn each time"),
      TERM_KEY("once", once, kVariables, anything(), "", "Reset at the first reset only; the value is then kept over all episodes"),
      TERM_KEY("mode", mode, kEvents, anything(), "", "Time of the event. reset: at each reset, after the resets; model fields before them. interval: after a step and before its observations, each time that every has passed. startup: at the start of a run, for model fields"),
      TERM_KEY("field", field, kEvents, anything(), "", "Model field that gets other values in each environment, in place of term or expression"),
      TERM_KEY("operation", operation, kEvents, anything(), "", "Use of the random value. scale, add: factor or summand of the model's number. abs: in place of it"),
      TERM_KEY("distribution", distribution, kEvents, anything(), "", "Distribution of the random values; gaussian: ranges are [mean, standard deviation]"),
      TERM_KEY("ranges", ranges, kEvents, anything(), "field", "Range of the random values, [low, high], of a Gaussian [mean, deviation]: numbers or expressions of curricula, for all elements, or a mapping from components (0, 1, ...) or name patterns. Masses, damping, friction and other nonnegative fields are clipped at 0"),
      TERM_KEY("shared_random", shared_random, kEvents, anything(), "", "One random value for all elements"),
      TERM_KEY("command", command, kObservations | kRewards | kTerminations | kCurricula, anything(), "", "Command that the term uses; default: the only one"),
      TERM_KEY("file", file, kCommands, anything(), "", "Motion of the term motion_command, an .npz file in mjlab's format, relative to the deck"),
      TERM_KEY("anchor_body", anchor_body, kCommands, anything(), "", "Tracked body of a motion_command at whose place and heading the motion is compared with the robot; default: the first of bodies"),
      TERM_KEY("sampling_mode", sampling_mode, kCommands, anything(), "", "First frames of a motion_command. adaptive: more often where episodes fail; uniform: any; start: the first one"),
      TERM_KEY("statistic", statistic, kMetrics, anything(), "", "Statistic of the values in the control steps of an episode"),
      TERM_KEY("time_out", time_out, kTerminations, anything(), "", "Truncation of the episode in place of failure"),
  };
  return keys;
}

const std::vector<SectionKey>& section_schema() {
  static const std::vector<SectionKey> sections{
      {"actions", TermKind::action, &TaskConfig::actions, false, "Controls of the actuators from the policy's actions; a list of terms"},
      {"observations", TermKind::observation, &TaskConfig::observations, false, "Observations of the policy, in this order; a list of terms"},
      {"critic_observations", TermKind::critic_observation, &TaskConfig::critic_observations, false, "Observations of the critic, in place of the policy's; a list of terms"},
      {"rewards", TermKind::reward, &TaskConfig::rewards, true, "Rewards; a mapping from a name to a term"},
      {"terminations", TermKind::termination, &TaskConfig::terminations, true, "Ends of an episode; a mapping from a name to a term"},
      {"resets", TermKind::reset, &TaskConfig::resets, false, "First states of an episode; a list of terms"},
      {"commands", TermKind::command, &TaskConfig::commands, true, "Commands for the policy to follow; a mapping from a name, known in every expression, to a term"},
      {"events", TermKind::event, &TaskConfig::events, true, "Pushes and other changes of the state or the model; a mapping from a name to a term of resets, an expression with set, or a field"},
      {"variables", TermKind::variable, &TaskConfig::variables, true, "State of a task between steps; a mapping from a name, known in every expression, to a variable"},
      {"curricula", TermKind::curriculum, &TaskConfig::curricula, true, "Numbers that change between iterations of a training with its metrics; a mapping from a name, known in every expression, to reset and update"},
      {"metrics", TermKind::metric, &TaskConfig::metrics, true, "Numbers about the episodes for reports, evaluations and curricula; a mapping from a name to an expression, whose mean over the episode is reported, or to an expression and a statistic"},
  };
  return sections;
}
// clang-format on

const SectionKey& section_of(TermKind kind) {
  return *std::find_if(section_schema().begin(), section_schema().end(),
                       [&](const SectionKey& section) { return section.kind == kind; });
}

const Key* key_named(std::string_view path) {
  const auto found = std::ranges::find(schema(), path, &Key::path);
  return found == schema().end() ? nullptr : &*found;
}

}  // namespace maniple
