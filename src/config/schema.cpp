// The table of deck keys, and what is derived from a row: checks, texts and dumps.
#include "src/config/schema.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <string_view>
#include <type_traits>

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

constexpr double kMost = 9e15;  // integers up to here are exact in a double
constexpr double kInt = 2147483647;

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : presets()) names.push_back(preset.name);
  return names;
}

// A row whose key path is the member's path in Config, and one whose path differs from it.
#define KEY(member, allowed, unit, meaning) KEY_AS(#member, member, allowed, unit, meaning)
#define KEY_AS(path, member, allowed, unit, meaning)                                                 \
  {                                                                                                  \
    path, [](Config& config) -> Target { return target_of(&config.member); }, allowed, unit, meaning \
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
      KEY(model.file, anything(), "", "MJCF, URDF or MJB; relative to the deck, or package:<python package>/<path>"),
      KEY(model.overlay, anything(), "", "MJCF that is laid over the model: its sections are added, and its section <edit> sets attributes of the elements whose names match: <joint name=\".*_knee\" armature=\"0.1\"/>; relative to the deck"),
      KEY(model.contacts, anything(), "", "false: contacts off, whatever the model says"),
      KEY(model.limits, anything(), "", "false: joint limits off"),
      KEY(model.equality, anything(), "", "false: equality constraints off"),
      KEY(model.frictionloss, anything(), "", "false: dry friction off"),
      KEY(model.tendons, anything(), "", "false: tendons off, and what acts on them"),

      KEY(batch.num_envs, between(1, 1e12), "environments", "environments of the whole run, whatever the number of ranks"),
      KEY(batch.seed, between(0, 4294967295.0), "1", "seed of everything random"),

      KEY(simulation.precision, anything(), "", "of physics and trajectories"),
      KEY(simulation.timestep, at_least(0), "s", "of one physics step; 0: the model's"),
      KEY(simulation.integrator, anything(), "", "\"\": the model's"),
      KEY(simulation.solver, anything(), "", "of contacts, limits and dry friction; \"\": the model's, with Newton in place of CG"),
      KEY(simulation.iterations, between(0, 1e6), "iterations", "of the solver, at most; 0: the model's"),
      KEY(simulation.ls_iterations, between(0, 1e6), "iterations", "of the line search of the solver Newton, at most; 0: the model's"),
      KEY(simulation.tolerance, at_least(0), "1", "of the solver: improvement, and gradient, below which it stops, scaled; ~: the model's"),
      KEY(simulation.ls_tolerance, at_least(0), "1", "of the line search of the solver Newton; ~: the model's"),
      KEY(simulation.cone, anything(), "", "of the friction of contacts; pyramidal: also where the model asks for elliptic ones, which are not supported; \"\": the model's"),
      KEY(simulation.impratio, above(0), "1", "ratio of friction to normal impedance of contacts; ~: the model's"),
      KEY(simulation.noslip_iterations, between(-1, 1e6), "iterations", "0: none, also where the model asks for them, which are not supported; -1: the model's"),
      KEY(simulation.gravity, anything(), "m/s^2", "[x, y, z]; ~: the model's"),
      KEY(simulation.wind, anything(), "m/s", "[x, y, z], velocity of the fluid; ~: the model's"),
      KEY(simulation.density, at_least(0), "kg/m^3", "of the fluid; ~: the model's"),
      KEY(simulation.viscosity, at_least(0), "kg/(m s)", "of the fluid; ~: the model's"),
      KEY(simulation.disable, anything(), "", "flags of MuJoCo's <flag> that are off, whatever the model says: [warmstart, eulerdamp]; a name that is none is answered with the list"),
      KEY(simulation.enable, anything(), "", "the same of those that are on"),
      KEY(simulation.decimation, between(1, 1e6), "physics steps", "physics steps in one control step"),
      KEY(simulation.derived, anything(), "", "poses, velocities, forces ... that a task reads; fresh: of the state that it sees; as_stepped: as mj_step leaves them, one physics step old (as in Gymnasium); stepped_forces: only accelerations, forces, contacts and sensors of them are that old (as in dm_control); stepped_rewards: rewards, terminations and what variables become with them see all of that age but rays, observations and prev(x) fresh (as in mjlab)"),
      KEY(simulation.max_contacts, between(0, 100000), "contacts", "of one environment at a time; more are left out, counted and named; 0: what shapes at rest can have"),
      KEY(simulation.threads_per_environment, anything(), "", "Threads of a GPU that step one environment together; auto: 1, which was the faster on an H100; 32 for models of more than 9 dofs alone"),
      KEY(simulation.steps, at_least(0), "control steps", "length of a rollout"),
      KEY(simulation.inject_nan_env, between(-1, 1e12), "environment", "test hook: qpos of this environment becomes NaN; -1: none"),
      KEY(simulation.inject_nan_step, at_least(0), "control step", "test hook: before this control step"),

      KEY(control.source, anything(), "", "of controls, with a task of actions; random: such that controls are uniform in their range, one draw per control step (unlimited: in [-1, 1]); keyframe: the controls of initial_state.keyframe, without a task, and the default there where initial_state.source is keyframe"),
      KEY(control.file, anything(), "", "HDF5 with /ctrl [env or 1, step, nu], with a task /action [env or 1, step, size]; relative to the deck"),
      KEY(control.checkpoint, anything(), "", "policy: a checkpoint file or a run's directory; relative to the deck"),

      KEY(initial_state.source, anything(), "", "task: the task's reset terms"),
      KEY(initial_state.keyframe, anything(), "", "name or number of the model's keyframe"),
      KEY(initial_state.file, anything(), "", "HDF5 with /qpos [env or 1, nq], /qvel [env or 1, nv], optional /act; relative to the deck"),

      KEY(output.directory, anything(), "", "the run's directory; relative to the working directory"),
      KEY(output.overwrite, anything(), "", "true: results of an earlier run in the directory are replaced, which otherwise is refused"),
      KEY(output.tensorboard, anything(), "", "true: train writes its metrics for TensorBoard as well, row by row, beside the results"),
      KEY_AS("output.trajectory.every", output.trajectory_every, at_least(0), "control steps", "control steps from sample to sample; 0: no trajectory"),
      KEY_AS("output.trajectory.fields", output.trajectory_fields, anything(), "", "fields of state and data and, of a task, action, reward, observation and all else of its control steps, variables/<name> and commands/<name>; a name that is none is answered with the list"),

      KEY(output.dataset, anything(), "", "rollout and evaluate write whole episodes of a task as demonstrations, in order of environment and start, with the task's observations by name: robomimic: <directory>/demonstrations.hdf5; minari: the data set demonstrations-v0 of MINARI_DATASETS_PATH=<directory>/minari"),
      KEY(output.dataset_episodes, at_least(0), "episodes", "the first of those that the other keys let pass; 0: all"),
      KEY(output.dataset_min_return, anything(), "reward", "episodes with a smaller sum of rewards are left out"),
      KEY(output.dataset_success, anything(), "", "true: only episodes in which the task's termination success held"),
      KEY(output.dataset_unfinished, anything(), "", "true: rollout also writes the episodes that its end cuts off, as truncated ones; without them long episodes are rarer in the data set than in the task"),

      KEY(task.name, anything(), "", "for people and reports"),
      KEY(task.episode_length, at_least(0), "s", "after which the term time_out truncates an episode; 0: endless"),
      KEY(task.episode_steps, between(0, 16777216), "control steps", "the same in control steps, instead of task.episode_length"),
      KEY(task.keyframe, anything(), "", "name or number of the model's keyframe that resets start from, with its time, positions, velocities, activations and controls: those of actuators without an action hold; its positions and velocities are also the default ones, of joint_pos_rel, of position actions; \"\": qpos0 at rest, controls of 0"),
      KEY(task.reset_until, anything(), "", "expression over derived quantities, too: a fresh state for which it is false is drawn again, at most 1000 times; \"\": none is"),
      KEY(task.settle_steps, between(0, 1e6), "physics steps", "of a fresh state without actions, with the controls that it has, before its episode begins"),
      KEY(task.reward_times_dt, anything(), "", "each reward is its value x weight x duration of a control step"),

      KEY(data.file, anything(), "", "demonstrations in robomimic's, Minari's or DROID's HDF5 layout, read as they are: a file or a list of files; relative to the deck. A JSON file is a manifest of DROID's, [{path: ...}, ...]: a file of each demonstration, relative to the manifest"),
      KEY(data.weights, anything(), "1", "of the files, a number each or one for all: how often an epoch has each sample"),
      KEY(data.observations, anything(), "", "keys of the observations (robomimic: under obs/, Minari: under observations/, or observations itself), in the policy's order: vectors, and pictures, uint8 [frame, height, width, channels]; one in a group by its path, camera/depth; []: those that the deck's task names, where the file has all of them, else all vectors in alphabetical order (DROID: to be named)"),
      KEY(data.actions, anything(), "", "datasets that make up the action, in this order, below each demonstration (DROID: below action/, where there is no default); []: [actions]"),
      KEY(data.cache, anything(), "", "where each rank keeps the data; file: in a file without a name in TMPDIR, or, where there is none or it is tmpfs, in the run's directory, that the system reads and forgets as it has memory; auto: in memory, where there is room for twice the data, else in a file"),
      KEY(data.filter_key, anything(), "", "robomimic: the list of demonstrations /mask/<key>; \"\": all demonstrations"),
      KEY(data.validation_filter, anything(), "", "robomimic: the list of demonstrations /mask/<key> that the policy does not learn from; after each epoch, the loss over them is reported (validation_loss), with crops in the middle; \"\": none"),
      KEY(data.frame_stack, between(1, 1000), "frames", "observations that the policy sees, of each key the oldest first"),
      KEY(data.pad_frame_stack, anything(), "", "the first frame of a demonstration stands in for those before it; false: samples begin with a full stack"),
      KEY(data.pad_sequence, anything(), "", "policy.recurrent: the last frame of a demonstration stands in for those after it; false: samples have a full sequence"),
      KEY(data.normalize_observations, anything(), "", "by numbers of the data, each component; min_max: to [-1, 1]; mean_std: (x - mean) / (deviation + 0.001), as robomimic"),
      KEY(data.normalize_actions, anything(), "", "the same of actions; none: they are to be in [-1, 1]"),
      KEY(data.not_normalized, anything(), "", "keys of observations that are left as they are"),
      KEY(data.actions_not_normalized, between(0, 65535), "component", "components of the action that are left as they are, from 0"),
      KEY(data.drop_last, anything(), "", "true: the samples at the end of an epoch that fill no batch are left out of it"),
      KEY(data.prefetch, between(1, 1000), "batches", "that a thread of each rank makes ahead of the trainer, at most"),

      KEY(policy.hidden, between(1, 65536), "units", "width of each hidden layer"),
      KEY(policy.critic_hidden, between(1, 65536), "units", "the same of the critic, where it has layers of its own; []: as policy.hidden"),
      KEY(policy.activation, anything(), "", "of the hidden layers"),
      KEY(policy.layer_norm, anything(), "", "layer normalization after the activation of each hidden layer"),
      KEY(policy.shared, anything(), "", "actor and critic share their hidden layers; a preset does not ask for it where a task has critic_observations"),
      KEY(policy.recurrent, anything(), "", "gru: gated recurrent units, lstm: long short-term memory, in front of the hidden layers; they learn over learning.horizon (imitate: over policy.recurrent_horizon), and begin each episode anew"),
      KEY(policy.recurrent_units, between(1, 65536), "units", "of each layer of policy.recurrent; of actor and critic each, unless shared"),
      KEY(policy.recurrent_layers, between(1, 16), "layers", "of policy.recurrent, one upon the other"),
      KEY(policy.recurrent_horizon, between(0, 1e4), "control steps", "imitate: length of the sequences that policy.recurrent learns from; while the policy acts, its memory begins anew after as many steps, as in robomimic; 0: with each episode"),
      KEY(policy.initialization, anything(), "", "of weights; uniform: in +-1/sqrt(inputs); lecun_uniform: in +-sqrt(3/inputs); orthogonal: with the gains below"),
      KEY(policy.hidden_gain, at_least(0), "1", "orthogonal: of the hidden layers"),
      KEY(policy.actor_gain, at_least(0), "1", "orthogonal: of the layer that gives mean actions"),
      KEY(policy.critic_gain, at_least(0), "1", "orthogonal: of the layer that gives the value"),
      KEY(policy.init_std, above_up_to(0, 1e3), "action", "standard deviation of the first policy"),
      KEY(policy.fixed_std, anything(), "", "true: the standard deviation stays; false: it is learned"),
      KEY(policy.state_dependent_std, anything(), "", "the network gives the standard deviation with each mean action, instead of one for all observations"),
      KEY(policy.std_transform, anything(), "", "state_dependent_std, or learning.loss gmm: what makes a deviation of the network's number; softplus: ln(1 + e^x) + min_std"),
      KEY(policy.min_std, at_least(0), "action", "Smallest standard deviation where one is learned (in environments, by learning.loss: gaussian, or with state_dependent_std); 0: no bound. With learning.loss: gmm it is added to all"),
      KEY(policy.max_std, at_least(0), "action", "Largest standard deviation, likewise; 0: no bound"),
      KEY(policy.modes, between(2, 100), "Gaussians", "learning.loss gmm: of the mixture that the policy gives"),
      KEY(policy.squash_actions, anything(), "", "actions go through tanh, into (-1, 1); the standard deviation is that before it"),
      KEY(policy.clip_observations, at_least(0), "observation", "observations are clipped to +- this; 0: off"),
      KEY(policy.clip_actions, at_least(0), "action", "actions are clipped to +- this before they act; 0: off"),
      KEY(policy.normalize_observations, anything(), "", "by their running mean and variance"),
      KEY(policy.clip_normalized, above(0), "1", "normalized observations are clipped to +- this"),

      KEY(image.crop, between(1, 16384), "pixels", "height and width of what a policy from demonstrations sees of its pictures: a random part of each while it learns, the middle when it acts; []: all of it"),
      KEY(image.base_width, between(1, 4096), "channels", "of the first stage of the encoder of each camera, a ResNet-18 with group normalization; each of the other three has twice as many as the one before"),
      KEY(image.keypoints, between(1, 4096), "1", "maps that the encoder ends with, of which it takes the mean places (spatial softmax)"),
      KEY(image.features, between(1, 65536), "1", "numbers that a picture becomes, beside the vectors of the observation"),

      KEY(diffusion.observation_horizon, between(1, 1000), "control steps", "learning.algorithm diffusion: observations that the policy sees, the latest last; before an episode's first one that stands in"),
      KEY(diffusion.action_horizon, between(1, 1e4), "control steps", "actions of a plan that are done before the next one, from that of the latest observation on"),
      KEY(diffusion.prediction_horizon, between(1, 1e4), "control steps", "actions of a plan, from that of the first observation on; divisible by 2 once for each but one of diffusion.down_dims"),
      KEY(diffusion.pad_after, between(0, 1e4), "frames", "of a sample that may lie behind the last frame of a demonstration, which stands in for them; diffusion_policy: action_horizon - 1; robomimic: prediction_horizon - observation_horizon"),
      KEY(diffusion.down_dims, between(1, 65536), "channels", "of each level of the denoising network"),
      KEY(diffusion.kernel_size, between(1, 101), "frames", "of its convolutions; odd"),
      KEY(diffusion.groups, between(1, 65536), "groups", "of its group normalization; a divisor of each of diffusion.down_dims"),
      KEY(diffusion.step_embedding, between(4, 65536), "units", "of its embedding of the diffusion step; even"),
      KEY(diffusion.film_scale, anything(), "", "observations multiply what they condition (cond_predict_scale), too; false: they are added alone"),
      KEY(diffusion.train_steps, between(1, 1e5), "steps", "of the noise schedule (squaredcos_cap_v2) that the network learns"),
      KEY(diffusion.inference_steps, between(1, 1e5), "steps", "in which a plan is made, at most diffusion.train_steps; evaluate and rollout may take others than the training"),
      KEY(diffusion.sampler, anything(), "", "of these steps; ddpm: with noise of its own, of the small fixed variance; ddim: without, for fewer steps"),
      KEY(diffusion.prediction, anything(), "", "of the network: the noise, or the sequence without it"),
      KEY(diffusion.clip_sample, anything(), "", "predicted sequences without noise are clipped to [-1, 1], the range of data.normalize_actions min_max"),

      KEY(learning.algorithm, one_of({"ppo", "bc", "diffusion"}), "", "what learns: ppo with maniple train, bc (behaviour cloning) or diffusion (diffusion policy) with maniple imitate"),
      KEY(learning.preset, one_of(preset_names()), "", "other defaults, as the program of that name has them: see maniple schema presets"),
      KEY(learning.iterations, at_least(1), "iterations", "one iteration: a batch of steps and its updates"),
      KEY(learning.horizon, between(1, 1e6), "control steps", "steps of each environment in one iteration"),
      KEY(learning.epochs, between(1, 1e4), "epochs", "passes over the batch in one iteration"),
      KEY(learning.minibatches, between(1, 1e6), "minibatches", "per epoch; parts of learning.horizon x blocks of 32 environments"),
      KEY(learning.gamma, between(0, 1), "1", "discount of one control step"),
      KEY(learning.lambda, between(0, 1), "1", "of the generalized advantage estimate"),
      KEY(learning.steps, at_least(1), "updates", "imitate: of the whole run"),
      KEY(learning.batch_size, between(1, 1e9), "samples", "imitate: of an update, over all ranks"),
      KEY(learning.batch_per_rank, anything(), "", "imitate: learning.batch_size is of each rank: the batch, and with it what is learned, depends on the number of ranks"),
      KEY(learning.accumulate, between(1, 1e6), "batches", "imitate: so many batches of learning.batch_size make one update, gone through one after the other: the bits of a batch so many times larger, in the memory of one"),
      KEY(learning.report_every, between(1, 1e9), "updates", "imitate: of one iteration, after which metrics are written; a run can be left and checkpointed there"),
      KEY(learning.loss, anything(), "", "bc: of mean actions, as the network gives them: squared, absolute, or Huber's error; gaussian: negative log likelihood, with policy.squash_actions: false; gmm: that of a mixture of policy.modes Gaussians, which the policy then gives, and whose means go through tanh with policy.squash_actions"),
      KEY(learning.mixed_precision, anything(), "", "imitate: bf16: while a network learns, the factors of its products of matrices are rounded to bfloat16 and the terms summed in single precision, in which all else stays; on CPUs with AVX512_BF16, elsewhere refused"),
      KEY(learning.optimizer, anything(), "", "Adam; with learning.weight_decay, adamw: the parameters themselves decay (Loshchilov and Hutter 2019); adam: the decay is part of the gradient (torch.optim.Adam, an L2 penalty)"),
      KEY(learning.weight_decay, at_least(0), "1", "of all parameters; adamw: times the learning rate"),
      KEY(learning.learning_rate, above_up_to(0, 1e3), "1", "of Adam, at the start"),
      KEY(learning.lr_scaling, anything(), "", "the learning rate times (samples of an update / learning.lr_base_batch), or the square root of that"),
      KEY(learning.lr_base_batch, between(0, 1e12), "samples", "lr_scaling: the batch for which learning.learning_rate was found"),
      KEY(learning.schedule, anything(), "", "adaptive: the learning rate follows the KL divergence; linear: it falls to 0 at learning.iterations; cosine (imitate): after learning.warmup_steps, along half a cosine to 0 at learning.steps"),
      KEY(learning.warmup_steps, between(0, 1e9), "updates", "fixed and cosine, imitate: the learning rate of the n-th update, counted from 0, is n / this of it until then"),
      KEY(learning.ema, anything(), "", "diffusion: what acts are running averages of the parameters"),
      KEY(learning.ema_power, above(0), "1", "ema: the n-th step of the optimizer, counted from 0, leaves 1 - (1 + (n - 1) / ema_inv_gamma)^-ema_power of the averages, of the first two nothing"),
      KEY(learning.ema_inv_gamma, above(0), "steps", "ema: see learning.ema_power"),
      KEY(learning.ema_min, between(0, 1), "1", "ema: but at least this"),
      KEY(learning.ema_max, between(0, 1), "1", "ema: and at most this"),
      KEY(learning.adam_beta1, between(0, 0.999999), "1", "of Adam: decay of the first moment"),
      KEY(learning.adam_beta2, between(0, 0.999999), "1", "of Adam: decay of the second moment"),
      KEY(learning.adam_epsilon, above(0), "1", "of Adam"),
      KEY(learning.desired_kl, above(0), "nat", "adaptive: KL divergence between updates to aim at"),
      KEY(learning.kl_factor, at_least(1), "1", "adaptive: change outside [desired_kl / this, desired_kl x this]"),
      KEY(learning.lr_factor, at_least(1), "1", "adaptive: by this factor"),
      KEY(learning.lr_min, above(0), "1", "adaptive: smallest learning rate"),
      KEY(learning.lr_max, above(0), "1", "adaptive: largest learning rate"),
      KEY(learning.lr_per_minibatch, anything(), "", "adaptive: after each minibatch (rsl_rl, rl_games), else after each epoch"),
      KEY(learning.target_kl, at_least(0), "nat", "an iteration's updates end once the KL divergence passes 1.5 x this; 0: off"),
      KEY(learning.kl_reference, anything(), "", "adaptive: KL from the policy that acted (rsl_rl), or from the one that last learned from a sample (rl_games)"),
      KEY(learning.clip_ratio, above(0), "1", "of the probability ratio, 1 +- this"),
      KEY(learning.value_coef, at_least(0), "1", "multiplies the value loss"),
      KEY(learning.clip_value, anything(), "", "clip the value's change by clip_ratio"),
      KEY(learning.entropy_coef, at_least(0), "1", "multiplies the entropy bonus"),
      KEY(learning.bounds_coef, at_least(0), "1", "multiplies the soft bound of mean actions beyond +-1.1"),
      KEY(learning.kl_coef, at_least(0), "1", "multiplies the KL divergence, as a part of the loss"),
      KEY(learning.max_grad_norm, at_least(0), "1", "gradients are scaled to at most this norm; 0: off"),
      KEY(learning.normalize_advantage, anything(), "", "to mean 0 and variance 1 over the batch"),
      KEY(learning.normalize_advantage_per_minibatch, anything(), "", "over each minibatch instead, as CleanRL, SB3 and Brax do"),
      KEY(learning.normalize_value, anything(), "", "the critic learns values of mean 0 and variance 1; its last layer follows their running moments (PopArt)"),
      KEY(learning.normalize_reward, anything(), "", "rewards are divided by the running deviation of their discounted sum before learning"),
      KEY(learning.reward_scale, anything(), "1", "multiplies rewards before learning, not in reports"),
      KEY(learning.clip_reward, at_least(0), "1", "rewards are clipped to +- this after all scaling; 0: off"),
      KEY(learning.value_bootstrap, anything(), "", "time-outs add gamma x value to the reward: of the observation that the last step led to, or (value) of the one before it, as rsl_rl and rl_games"),
      KEY(learning.random_initial_episode_length, anything(), "", "spread the first time-outs over an episode"),
      KEY(learning.reduction, anything(), "", "exact: the same bits on any number of ranks"),
      KEY(learning.check_ranks_every, at_least(0), "updates", "between comparisons of what is equal on all ranks, by checksums; a rank out of step is named and ends the run. Checkpoints compare as well; the steps of a rollout count as updates; 0: at checkpoints only"),
      KEY(learning.checkpoint_every, at_least(0), "iterations", "0: at the end only"),
      KEY(learning.keep_checkpoints, between(1, 1e6), "files", "older checkpoints are removed"),
      KEY(learning.resume, anything(), "", "auto: continue from the newest good checkpoint of the directory, or start"),
      KEY(learning.warm_start, anything(), "", "a checkpoint file or a run's directory whose policy, critic, normalizers and moments of the optimizer this run begins with; they come from the same observations and actions, whatever else of the task, batch and settings; relative to the deck"),
      KEY(learning.blas_width, at_least(1), "units", "layers at least this wide use CBLAS"),

      KEY(evaluation.episodes, at_least(0), "episodes", "0: one per environment, while training at most 100"),
      KEY(evaluation.deterministic, anything(), "", "true: the mean action, of a mixture (learning.loss gmm) that of its likeliest mode; false: sampled; auto: the mean action, of a mixture drawn with a standard deviation of 0.0001 about the mean of a drawn mode (robomimic's low_noise_eval)"),
      KEY(evaluation.every, at_least(0), "iterations", "of a training, after which its policy is evaluated; the best one is kept in <directory>/best; 0: never"),

      KEY(bench.steps, at_least(1), "control steps", "per repeat"),
      KEY(bench.repeats, between(1, 1e4), "repeats", "median, minimum and maximum are reported"),
      KEY(bench.actions, anything(), "", "of a task, in its environment steps; as control.source"),
      KEY(bench.iterations, between(0, 1e6), "iterations", "of learning, measured after the environment steps; 0: none, with bench.scaling 5"),
      KEY(bench.scaling, anything(), "", "learning on 1, 2, 4, ... of the ranks, the others waiting: strong: the deck's batch is divided among them; weak: each has a batch as large as the deck's"),

      KEY(run.wall_time, at_least(0), "s", "until a clean stop: of train with exit 75, of rollout, which has no checkpoint, with exit 1; 0: none"),
      KEY(run.retries, between(0, 10000), "attempts", "further attempts at writing or reading checkpoints and results after an error of the file system that may pass (EIO, ESTALE, ETIMEDOUT ...), 1, 2, 4 ... at most 60 s later"),
      KEY(run.hang_timeout, at_least(0), "s", "in which no rank moves (a pause of the job itself does not count); then the rank that hangs is named and the run ends with exit 1; three times as long until the first iteration is done; 0: never"),
      KEY(run.progress, anything(), "", "auto: a bar on a terminal, else plain lines"),
      KEY(run.status_file, anything(), "", "the exit code is written here when the run has come to its end, 0 or 75: launchers may lose it"),
  };
  return keys;
}

const std::vector<TermKey>& term_schema() {
  static const std::vector<TermKey> keys{
      TERM_KEY("name", name, kActions | kObservations | kResets, anything(), "", "for reports; default: the term's"),
      TERM_KEY("term", term, kTerms, anything(), "", "a term of the library; this or expression"),
      TERM_KEY("expression", expression, kTerms, anything(), "", "an expression over named quantities"),
      TERM_KEY("set", target, kResets | kEvents, anything(), "", "what the expression is assigned to, e.g. qpos[slider]"),
      TERM_KEY("joints", names, kTerms, anything(), "", "joints that the term acts on, in this order"),
      TERM_KEY("bodies", names, kTerms, anything(), "", "bodies that the term acts on"),
      TERM_KEY("geoms", names, kTerms, anything(), "", "geoms that the term acts on"),
      TERM_KEY("pairs", names, kEvents, anything(), "", "explicit contact pairs that the term acts on; one without a name is called pair and its number, pair0, in the order of MuJoCo's model"),
      TERM_KEY("actuators", names, kTerms, anything(), "", "actuators that the term acts on"),
      TERM_KEY("sensors", names, kTerms, anything(), "", "sensors that the term acts on"),
      TERM_KEY("weight", weight, kRewards, anything(), "1", "multiplies the reward"),
      TERM_KEY("scale", scale, kActions | kObservations, anything(), "1", "multiplies the value; a mapping takes patterns of names, later ones first"),
      TERM_KEY("offset", offset, kActions, or_expression(), "1", "added after scaling; an expression has one component, or one for each element"),
      TERM_KEY("clip", clip, kActions | kObservations, anything(), "1", "[low, high] limits of the value"),
      TERM_KEY("bias", bias, kObservations, anything(), "1", "added first; drawn at each reset, for each component: a number +-, or [low, high]"),
      TERM_KEY("noise", noise, kObservations, anything(), "1", "added next, before clip and scale; drawn at each step: a number +-, or [low, high]"),
      TERM_KEY("noise_std", noise_std, kObservations, at_least(0), "1", "the same with a normal distribution of this deviation"),
      TERM_KEY("delay", delay, kActions | kObservations, between(0, 1000), "control steps", "a number, or [low, high] drawn at each reset; the first value stands in for earlier ones"),
      TERM_KEY("history", history, kObservations, between(1, 1000), "control steps", "the last values, the oldest first; the first one stands in for earlier ones"),
      TERM_KEY("reset", reset, kVariables | kCurricula, anything(), "", "expression of the value at a reset, after the resets of the state; of a curriculum: at the beginning"),
      TERM_KEY("update", update, kVariables | kCurricula, anything(), "", "expression of the next value; prev(name) is the last one; of a curriculum: after each iteration, of metrics, mean_<variable> over the environments (of a vector mean_<variable>_0 ...), curricula and its last value, which is its name"),
      TERM_KEY("curriculum", curriculum, kRewards, anything(), "", "the curriculum that multiplies the weight"),
      TERM_KEY("update_at", update_at, kVariables, anything(), "", "step: after the physics, before terminations and rewards; observation: after them, and after resets"),
      TERM_KEY("every", every, kVariables | kCommands | kEvents, above(0), "s", "between further evaluations of reset, commands or events, after the rewards: a number, or [low, high] drawn each time"),
      TERM_KEY("once", once, kVariables, anything(), "", "true: kept over all episodes, reset at the first reset alone"),
      TERM_KEY("mode", mode, kEvents, anything(), "", "reset: at each reset, after the resets, model fields before them; interval: after a step and before its observations, each time that every is over; startup: model fields, once at the beginning of a run"),
      TERM_KEY("field", field, kEvents, anything(), "", "of the model, which gets other values in each environment; in place of term or expression"),
      TERM_KEY("operation", operation, kEvents, anything(), "", "scale, add: what is drawn times, or plus, the number in the model; abs: what is drawn"),
      TERM_KEY("distribution", distribution, kEvents, anything(), "", "of the draws; gaussian: ranges are [mean, standard deviation]"),
      TERM_KEY("ranges", ranges, kEvents, anything(), "field", "of the draws, [low, high], of a Gaussian [mean, deviation], numbers or expressions of curricula; for all, or a mapping from components (0, 1 ...) or patterns of names. What cannot be negative, masses, damping or friction, is 0 where it would be"),
      TERM_KEY("shared_random", shared_random, kEvents, anything(), "", "true: one draw for all elements"),
      TERM_KEY("command", command, kObservations | kRewards | kTerminations, anything(), "", "the command that the term is about; default: the only one"),
      TERM_KEY("time_out", time_out, kTerminations, anything(), "", "true: the episode is truncated, not failed"),
  };
  return keys;
}

const std::vector<SectionKey>& section_schema() {
  static const std::vector<SectionKey> sections{
      {"actions", TermKind::action, &TaskConfig::actions, false, "how actions act; a list of terms"},
      {"observations", TermKind::observation, &TaskConfig::observations, false, "what the policy sees, in this order; a list of terms"},
      {"critic_observations", TermKind::critic_observation, &TaskConfig::critic_observations, false, "what the critic sees in their place; a list of terms"},
      {"rewards", TermKind::reward, &TaskConfig::rewards, true, "a mapping from a name to a term"},
      {"terminations", TermKind::termination, &TaskConfig::terminations, true, "a mapping from a name to a term"},
      {"resets", TermKind::reset, &TaskConfig::resets, false, "first states of an episode; a list of terms"},
      {"commands", TermKind::command, &TaskConfig::commands, true, "what the policy is asked for; a mapping from a name, known in every expression, to a term"},
      {"events", TermKind::event, &TaskConfig::events, true, "pushes and other changes of the state, and of the model; a mapping from a name to a term of resets, an expression with set, or a field"},
      {"variables", TermKind::variable, &TaskConfig::variables, true, "what a task remembers; a mapping from a name, known in every expression, to a variable"},
      {"curricula", TermKind::curriculum, &TaskConfig::curricula, true, "numbers that change between iterations of a training with its metrics; a mapping from a name, known in every expression, to reset and update"},
  };
  return sections;
}
// clang-format on

const SectionKey& section_of(TermKind kind) {
  return *std::find_if(section_schema().begin(), section_schema().end(),
                       [&](const SectionKey& section) { return section.kind == kind; });
}

namespace {

template <class T>
inline constexpr bool is_number = std::is_same_v<T, int> || std::is_same_v<T, std::int64_t> ||
                                  std::is_same_v<T, std::uint32_t> || std::is_same_v<T, double>;

std::string range_text(const Allowed& allowed) {
  const bool low = std::isfinite(allowed.low), high = std::isfinite(allowed.high);
  if (low && high && !allowed.above_low)
    return ", " + yaml_number(allowed.low) + " to " + yaml_number(allowed.high);
  std::string text;
  if (low) text += std::string(allowed.above_low ? ", above " : ", at least ") + yaml_number(allowed.low);
  if (high) text += ", at most " + yaml_number(allowed.high);
  return text;
}

bool contains(const std::vector<std::string>& texts, const std::string& text) {
  return std::find(texts.begin(), texts.end(), text) != texts.end();
}

std::string choices_text(const std::vector<std::string>& choices) {
  std::string text;
  for (const std::string& choice : choices)
    text += (text.empty() ? "" : " | ") + (choice.empty() ? "\"\"" : choice);
  return text;
}

[[noreturn]] void refuse(const Target& target, const Allowed& allowed, const std::string& key,
                         const DeckValue& value) {
  std::string text = allowed_text(target, allowed);
  const std::string range = "[low, high]";
  if (const auto at = text.find(range); value.kind == DeckValue::Kind::list && at != std::string::npos)
    text.insert(at + range.size(), " with low <= high");
  if (text == "text" && value.kind == DeckValue::Kind::list)
    text = "text; a vector stands in quotes: \"[1, 2]\"";
  throw InputError(value.where, key, "found " + value.description(), "allowed: " + text);
}

// Restricted Damerau-Levenshtein distance: insertions, deletions, changes and swaps of neighbours.
int edit_distance(const std::string& a, const std::string& b) {
  const std::size_t n = a.size(), m = b.size();
  std::vector<std::vector<int>> d(n + 1, std::vector<int>(m + 1));
  for (std::size_t i = 0; i <= n; ++i) d[i][0] = static_cast<int>(i);
  for (std::size_t j = 0; j <= m; ++j) d[0][j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= n; ++i)
    for (std::size_t j = 1; j <= m; ++j) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[n][m];
}

std::string last_part(const std::string& path) {
  return path.substr(path.rfind('.') + 1);
}

template <class T>
std::string joined(const std::vector<T>& values) {
  std::string text;
  for (const T& value : values) {
    text += text.empty() ? "" : ", ";
    if constexpr (std::is_same_v<T, std::string>)
      text += yaml_quoted(value);
    else if constexpr (std::is_same_v<T, TermNumber>)
      text += yaml_number(value);
    else
      text += yaml_number(static_cast<double>(value));
  }
  return "[" + text + "]";
}

std::string per_element_text(const PerElement& elements) {
  if (!elements.expression.empty()) return yaml_quoted(elements.expression);
  if (elements.named.empty())
    return elements.numbers.size() == 1 ? yaml_number(elements.numbers[0]) : joined(elements.numbers);
  std::string text;
  for (const auto& [name, number] : elements.named)
    text += (text.empty() ? "{" : ", ") + yaml_quoted(name) + ": " + yaml_number(number);
  return text + "}";
}

std::string ranges_text(const Ranges& ranges) {
  if (ranges.keyed.empty()) return ranges.all.empty() ? "~" : joined(ranges.all);
  std::string text;
  for (const auto& [key, range] : ranges.keyed)
    text += (text.empty() ? "{" : ", ") + yaml_quoted(key) + ": " + joined(range);
  return text + "}";
}

}  // namespace

bool read_number(const DeckValue& value, double& number) {
  if (value.kind != DeckValue::Kind::scalar || value.quoted) return false;
  std::string_view text = value.text;
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  if (text.empty() || text.front() == '+') return false;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() && std::isfinite(number);
}

bool read_number(const DeckValue& value, TermNumber& number) {
  if (read_number(value, number.value)) return true;
  if (value.kind != DeckValue::Kind::scalar || value.text.empty()) return false;
  number = TermNumber(value.text);
  return true;
}

std::string yaml_number(const TermNumber& number) {
  return number.expression.empty() ? yaml_number(number.value) : yaml_quoted(number.expression);
}

std::string yaml_text(const std::vector<TermNumber>& numbers) {
  return numbers.size() == 1 ? yaml_number(numbers[0])
                             : "[" + yaml_number(numbers[0]) + ", " + yaml_number(numbers[1]) + "]";
}

bool in_range(double value, const Allowed& allowed) {
  return (allowed.above_low ? value > allowed.low : value >= allowed.low) && value <= allowed.high;
}

bool Key::of_data() const {
  static const std::set<std::string_view> of_learning{
      "steps",         "batch_size",      "batch_per_rank", "accumulate", "report_every",
      "loss",          "mixed_precision", "warmup_steps",   "ema",        "ema_power",
      "ema_inv_gamma", "ema_min",         "ema_max"};
  const std::string section = "learning.";
  return path.starts_with("diffusion.") || path == "policy.modes" ||
         (path.starts_with(section) && of_learning.contains(path.substr(section.size())));
}

std::string allowed_text(const Target& target, const Allowed& allowed) {
  return std::visit(
      [&](const auto& member) -> std::string {
        using T = std::remove_pointer_t<std::decay_t<decltype(member)>>;
        if constexpr (std::is_same_v<T, ChoiceMember>) return choices_text(member.texts);
        if constexpr (std::is_same_v<T, bool>) return "true or false";
        if constexpr (std::is_same_v<T, double> || std::is_same_v<T, std::optional<double>>)
          return "number" + range_text(allowed);
        if constexpr (std::is_same_v<T, std::optional<std::array<double, 3>>>) return "[x, y, z]";
        if constexpr (is_number<T>) return "integer" + range_text(allowed);
        if constexpr (std::is_same_v<T, std::vector<int>>)
          return "list of integers" + range_text(allowed) + ", for instance [64, 64]";
        if constexpr (std::is_same_v<T, std::vector<std::string>>)
          return "list of names, for instance [a, b]";
        if constexpr (std::is_same_v<T, std::optional<std::vector<double>>>) return "[low, high]";
        if constexpr (std::is_same_v<T, PerElement>)
          return std::string("number, list of numbers or mapping from names to numbers") +
                 (allowed.expressions ? ", or an expression" : "");
        if constexpr (std::is_same_v<T, Ranges>)
          return "[low, high], or a mapping from components or names to them";
        if constexpr (std::is_same_v<T, std::vector<double>>)
          return "number or [low, high]" + range_text(allowed);
        return allowed.choices.empty() ? "text" : choices_text(allowed.choices);
      },
      target);
}

namespace {

// Reads a deck's value into the member that its key sets, whatever the member's type.
struct Assignment {
  const Target& target;
  const Allowed& allowed;
  const std::string& key;
  const DeckValue& value;

  void operator()(const ChoiceMember& member) const {
    if (!is_scalar() || !contains(member.texts, value.text)) refuse_value(value);
    member.set(value.text);
  }
  void operator()(bool* member) const {
    if (!is_scalar() || value.quoted || (value.text != "true" && value.text != "false")) refuse_value(value);
    *member = value.text == "true";
  }
  void operator()(std::string* member) const {
    if (!is_scalar() || (!allowed.choices.empty() && !contains(allowed.choices, value.text)))
      refuse_value(value);
    *member = value.text;
  }
  void operator()(std::optional<double>* member) const { *member = number_in_range(value); }
  void operator()(std::optional<std::array<double, 3>>* member) const {
    if (value.list.size() != 3) refuse_value(value);
    const std::vector<double> numbers = numbers_in_range(value.list);
    member->emplace();
    std::copy(numbers.begin(), numbers.end(), (*member)->begin());
  }
  template <class Number>
  void operator()(Number* member) const {
    const double number = number_in_range(value);
    // what the type itself can hold, for rows that do not say it
    if constexpr (!std::is_same_v<Number, double>)
      if (number != std::floor(number) ||
          number < std::max(static_cast<double>(std::numeric_limits<Number>::min()), -kMost) ||
          number > std::min(static_cast<double>(std::numeric_limits<Number>::max()), kMost))
        refuse_value(value);
    *member = static_cast<Number>(number);
  }
  void operator()(PerElement* member) const {
    const auto read = [&](const DeckValue& entry) {
      double number = 0;
      if (!read_number(entry, number)) refuse_value(entry);
      return number;
    };
    std::vector<double> numbers;
    std::vector<std::pair<std::string, double>> named;
    double number = 0;
    const bool expression =
        allowed.expressions && is_scalar() && !value.text.empty() && !read_number(value, number);
    member->expression = expression ? value.text : "";
    if (expression)
      numbers.push_back(0);
    else if (is_scalar())
      numbers.push_back(read(value));
    for (const DeckValue& entry : value.list) numbers.push_back(read(entry));
    for (const DeckEntry& entry : value.map) named.emplace_back(entry.key, read(entry.value[0]));
    if (numbers.empty() && named.empty()) refuse_value(value);
    member->numbers = numbers;
    member->named = named;
  }
  void operator()(Ranges* member) const {
    const auto read = [&](const DeckValue& entry) {
      std::vector<TermNumber> range;
      for (const DeckValue& end : entry.list) {
        range.emplace_back(0);
        if (!read_number(end, range.back())) refuse_value(end);
      }
      if (range.size() != 2) refuse_value(entry);
      return range;
    };
    *member = {};
    for (const DeckEntry& entry : value.map) member->keyed.emplace_back(entry.key, read(entry.value[0]));
    if (value.map.empty()) member->all = read(value);
  }
  // A number, or [low, high].
  void operator()(std::vector<double>* member) const {
    const std::vector<double> numbers = numbers_in_range(is_scalar() ? std::vector{value} : value.list);
    if (numbers.empty() || numbers.size() > 2) refuse_value(value);
    check_order(numbers);
    *member = numbers;
  }
  // [low, high]
  void operator()(std::optional<std::vector<double>>* member) const {
    if (value.list.size() != 2) refuse_value(value);
    const std::vector<double> numbers = numbers_in_range(value.list);
    check_order(numbers);
    *member = numbers;
  }
  void operator()(std::vector<int>* member) const {
    const std::vector<DeckValue> entries = list();
    const std::vector<double> numbers = numbers_in_range(entries);
    for (std::size_t i = 0; i < numbers.size(); ++i)
      if (numbers[i] != std::floor(numbers[i]) || std::abs(numbers[i]) > kInt) refuse_value(entries[i]);
    member->assign(numbers.begin(), numbers.end());
  }
  void operator()(std::vector<std::string>* member) const {
    std::vector<std::string> texts;
    for (const DeckValue& entry : list()) {
      if (entry.kind != DeckValue::Kind::scalar) refuse_value(entry);
      texts.push_back(entry.text);
    }
    *member = texts;
  }

 private:
  bool is_scalar() const { return value.kind == DeckValue::Kind::scalar; }
  [[noreturn]] void refuse_value(const DeckValue& found) const { refuse(target, allowed, key, found); }
  void check_order(const std::vector<double>& range) const {
    if (range.front() > range.back())
      throw InputError(value.where, key, "found " + joined(range), "allowed: [low, high] with low <= high");
  }
  double number_in_range(const DeckValue& entry) const {
    double number = 0;
    if (!read_number(entry, number) || !in_range(number, allowed)) refuse_value(entry);
    return number;
  }
  std::vector<double> numbers_in_range(const std::vector<DeckValue>& entries) const {
    std::vector<double> numbers;
    for (const DeckValue& entry : entries) numbers.push_back(number_in_range(entry));
    return numbers;
  }
  // A single value stands for a list of one.
  std::vector<DeckValue> list() const {
    if (is_scalar()) return {value};
    if (value.kind != DeckValue::Kind::list) refuse_value(value);
    return value.list;
  }
};

}  // namespace

void assign(const Target& target, const Allowed& allowed, const std::string& key, const DeckValue& value) {
  std::visit(Assignment{target, allowed, key, value}, target);
}

std::string yaml_number(double value) {
  char buffer[40];
  // integers in full: 4096, not 4.096e+03
  const auto end = value == std::floor(value) && std::abs(value) < kMost
                       ? std::to_chars(buffer, buffer + sizeof buffer, static_cast<std::int64_t>(value))
                       : std::to_chars(buffer, buffer + sizeof buffer, value);
  return std::string(buffer, end.ptr);
}

std::string yaml_quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (c == '\n')
      quoted += "\\n";
    else if (c == '\t')
      quoted += "\\t";
    else if (c == '\r')
      quoted += "\\r";
    else
      quoted += c;
  }
  return quoted + "\"";
}

std::string yaml_text(const Target& target) {
  return std::visit(
      [](const auto& member) -> std::string {
        using T = std::remove_pointer_t<std::decay_t<decltype(member)>>;
        if constexpr (std::is_same_v<T, ChoiceMember>)
          return yaml_quoted(member.text());
        else if constexpr (std::is_same_v<T, bool>)
          return *member ? "true" : "false";
        else if constexpr (is_number<T>)
          return yaml_number(static_cast<double>(*member));
        else if constexpr (std::is_same_v<T, std::string>)
          return yaml_quoted(*member);
        else if constexpr (std::is_same_v<T, std::optional<std::vector<double>>>)
          return *member ? joined(**member) : "~";
        else if constexpr (std::is_same_v<T, std::optional<double>>)
          return *member ? yaml_number(**member) : "~";
        else if constexpr (std::is_same_v<T, std::optional<std::array<double, 3>>>)
          return *member ? joined(std::vector<double>((*member)->begin(), (*member)->end())) : "~";
        else if constexpr (std::is_same_v<T, PerElement>)
          return per_element_text(*member);
        else if constexpr (std::is_same_v<T, Ranges>)
          return ranges_text(*member);
        else if constexpr (std::is_same_v<T, std::vector<double>>)
          return member->empty() ? "~" : member->size() == 1 ? yaml_number((*member)[0]) : joined(*member);
        else
          return joined(*member);
      },
      target);
}

std::string nearest(const std::string& unknown, const std::vector<std::string>& candidates) {
  std::string best;
  // more than half of it wrong is not a misspelling
  int best_cost = std::max(2, static_cast<int>(last_part(unknown).size()) / 2 + 1);
  for (const std::string& candidate : candidates) {
    const std::string& tail = last_part(candidate);
    const int cost = std::min(edit_distance(unknown, candidate), 1 + edit_distance(last_part(unknown), tail));
    if (cost < best_cost) {
      best_cost = cost;
      best = candidate;
    }
  }
  return best;
}

}  // namespace maniple
