// One function for each part of a deck whose keys are compared. It refuses the first contradiction only,
// because later ones would often follow from it.
#include "src/config/checks.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/config/learning_numbers.hpp"
#include "src/config/paths.hpp"
#include "src/config/presets.hpp"
#include "src/config/schema.hpp"

namespace maniple {
namespace {

using Refuse =
    std::function<void(const std::string& key, const std::string& found, const std::string& allowed)>;

void check_image(const Config& config, const Refuse& refuse) {
  const LearningConfig& learning = config.learning;
  if (const std::size_t sides = config.image.crop.size(); sides != 0 && sides != 2)
    refuse("image.crop", "found a list of " + std::to_string(sides), "allowed: [height, width], or []");
  if (const ImageConfig& image = config.image, whole; !learning.imitates())
    for (const auto& [key, given] : {std::pair{"image.crop", image.crop != whole.crop},
                                     std::pair{"image.base_width", image.base_width != whole.base_width},
                                     std::pair{"image.keypoints", image.keypoints != whole.keypoints},
                                     std::pair{"image.features", image.features != whole.features}})
      if (given)
        refuse(key, "set, but learning.algorithm is " + learning.algorithm,
               "allowed: with imitate and images in data.observations");
}

// Whether a preset is for learning from data.
bool preset_imitates(const std::string& name) {
  for (const Preset& preset : presets())
    for (const auto& [key, value] : preset.values) {
      LearningConfig learning;
      learning.algorithm = value;
      if (preset.name == name && key == "learning.algorithm") return learning.imitates();
    }
  return false;
}

void check_algorithm(const Config& config, const Refuse& refuse) {
  const LearningConfig& learning = config.learning;
  if (!learning.imitates() && preset_imitates(learning.preset))
    refuse("learning.algorithm", "found " + learning.algorithm + " with learning.preset: " + learning.preset,
           "allowed: bc | diffusion (imitate), or another preset");
}

// Blocks of 32 environments are not divided, nor are the steps that a recurrent policy learns from.
std::int64_t most_minibatches(const Config& config) {
  const bool recurrent = config.policy.recurrent != Recurrence::none;
  return (config.batch.num_envs + 31) / 32 * (recurrent ? 1 : config.learning.horizon);
}

// Checks of the updates: batch, minibatches, and keys that fit the learner.
void check_updates(const Config& config, const Refuse& refuse) {
  const LearningConfig& learning = config.learning;
  const PolicyConfig& policy = config.policy;
  const bool recurrent = policy.recurrent != Recurrence::none;
  const std::int64_t parts = most_minibatches(config);
  // (a run with a checkpoint only tries its policy)
  if (!learning.imitates() && config.control.checkpoint.empty() && learning.minibatches > parts)
    refuse("learning.minibatches",
           "found " + std::to_string(learning.minibatches) + " with " +
               (recurrent ? "policy.recurrent " + text_of(policy.recurrent)
                          : "learning.horizon " + std::to_string(learning.horizon)) +
               " and batch.num_envs " + std::to_string(config.batch.num_envs),
           "allowed: integer, 1 to " + std::to_string(parts) + ", " +
               (recurrent ? "" : "learning.horizon x ") + "blocks of 32 environments");
  if (learning.critic_warmup > 0 && config.policy.shared)
    refuse("learning.critic_warmup", "set, but policy.shared is true",
           "allowed: with policy.shared: false, where the critic has layers of its own");
  if (learning.target_kl > 0 && learning.kl_reference != KlReference::rollout)
    refuse("learning.target_kl", "set, but learning.kl_reference is previous_epoch",
           "allowed: 0, or with learning.kl_reference: rollout");
}

void check_learning_rate(const Config& config, const Refuse& refuse) {
  const LearningConfig& learning = config.learning;
  if (learning.ema && !learning.diffuses())
    refuse("learning.ema", "found true with learning.algorithm: " + learning.algorithm,
           "allowed: false, or with learning.algorithm: diffusion");
  if (learning.lr_min > learning.lr_max)
    refuse("learning.lr_min",
           "found " + yaml_number(learning.lr_min) + " with learning.lr_max " + yaml_number(learning.lr_max),
           "allowed: at most learning.lr_max");
  if (learning.schedule == RateSchedule::adaptive &&
      (learning.learning_rate < learning.lr_min || learning.learning_rate > learning.lr_max))
    refuse("learning.learning_rate", "found " + yaml_number(learning.learning_rate),
           "allowed: learning.lr_min (" + yaml_number(learning.lr_min) + ") to learning.lr_max (" +
               yaml_number(learning.lr_max) + ") with the adaptive schedule");
  if (learning.lr_scaling != RateScaling::none) {
    if (learning.schedule == RateSchedule::adaptive)
      refuse("learning.lr_scaling",
             "found " + text_of(learning.lr_scaling) + " with learning.schedule: adaptive",
             "allowed: none; the adaptive schedule sets the learning rate by the KL divergence");
    if (learning.lr_base_batch == 0)
      refuse("learning.lr_base_batch", "found 0 with learning.lr_scaling: " + text_of(learning.lr_scaling),
             "allowed: integer, at least 1: the batch size for which learning.learning_rate was chosen");
  } else if (learning.lr_base_batch > 0) {
    refuse("learning.lr_base_batch", "set, but learning.lr_scaling is none",
           "allowed: 0, or with learning.lr_scaling: linear | sqrt");
  }
}

// Keys of what learns in environments.
void check_environment_learning(const Config& config, const Refuse& refuse) {
  const LearningConfig& learning = config.learning;
  if (learning.batch_per_rank)
    refuse("learning.batch_per_rank", "found true with learning.algorithm: " + learning.algorithm,
           "allowed: false; environments are counted over all ranks (batch.num_envs)");
  if (learning.mixed())
    refuse("learning.mixed_precision",
           "found " + text_of(learning.mixed_precision) + " with learning.algorithm: " + learning.algorithm,
           "allowed: none; learning from environments is in single precision");
  if (learning.accumulate > 1)
    refuse("learning.accumulate",
           "found " + std::to_string(learning.accumulate) + " with learning.algorithm: " + learning.algorithm,
           "allowed: 1; fewer learning.minibatches make larger ones, without more memory");
  if (learning.schedule == RateSchedule::cosine)
    refuse("learning.schedule", "found cosine with learning.algorithm: " + learning.algorithm,
           "allowed: fixed | adaptive | linear");
  if (learning.warmup_steps > 0)
    refuse("learning.warmup_steps", "set, but learning.algorithm is " + learning.algorithm,
           "allowed: 0, or with imitate");
  if (!config.data.file.empty()) return;  // it is learning.algorithm that is wrong
  Config given = config, whole;
  for (const Key& key : schema())
    if (key.is(kOfImitation) && config.where.contains(key.path) &&
        yaml_text(key.target(given)) != yaml_text(key.target(whole)))
      refuse(key.path, "set, but learning.algorithm is " + learning.algorithm,
             key.path == "learning.steps"
                 ? "allowed: with imitate; learning.iterations is the length of a training"
             : key.path == "learning.batch_size"
                 ? "allowed: with imitate; batch.num_envs, learning.horizon and learning.minibatches decide "
                   "how many samples a minibatch has"
                 : "allowed: with imitate");
}

// How what imitates reads its demonstrations.
void check_data(const Config& config, const Refuse& refuse) {
  const LearningConfig& learning = config.learning;
  const PolicyConfig& policy = config.policy;
  if (config.data.normalize_actions == DataNormalizer::mean_std) {
    const bool squashes = policy.squash_actions && !learning.diffuses();
    if (squashes || (learning.diffuses() && config.diffusion.clip_sample))
      refuse("data.normalize_actions",
             std::string("found mean_std with ") +
                 (squashes ? "policy.squash_actions" : "diffusion.clip_sample") +
                 ": true, which ends actions at one standard deviation from their mean",
             std::string("allowed: min_max, or mean_std with ") +
                 (squashes ? "policy.squash_actions" : "diffusion.clip_sample") + ": false");
  }
  const PerElement& weights = config.data.weights;
  const std::size_t files = config.data.file.size();
  if (!weights.named.empty() || (weights.numbers.size() != 1 && weights.numbers.size() != files))
    refuse("data.weights",
           !weights.named.empty() ? "found a mapping"
                                  : "found a list of " + std::to_string(weights.numbers.size()),
           "allowed: a number, or a list of " + std::to_string(files) + ", one for each file");
  const auto refuse_twice = [&](const std::string& key, std::vector<std::string> names) {
    std::sort(names.begin(), names.end());
    if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
      refuse(key, "found '" + *twice + "' twice", "allowed: each once");
  };
  refuse_twice("data.observations", config.data.observations);
  refuse_twice("data.actions", config.data.actions);
  for (const double weight : weights.numbers)
    if (!(weight > 0)) refuse("data.weights", "found " + yaml_number(weight), "allowed: numbers above 0");
}

void check_imitation(const Config& config, const Refuse& refuse) {
  const LearningConfig& learning = config.learning;
  const PolicyConfig& policy = config.policy;
  const std::string with = " with learning.algorithm: " + learning.algorithm;
  if (policy.shared)
    refuse("policy.shared", "found true" + with, "allowed: false; a policy of imitate has no critic");
  if (!policy.critic_hidden.empty())
    refuse("policy.critic_hidden", "found layers" + with, "allowed: []; a policy of imitate has no critic");
  if (policy.clip_observations > 0)
    refuse("policy.clip_observations", "found " + yaml_number(policy.clip_observations) + with,
           "allowed: 0; imitate uses the observations of the data as they are");
  if (policy.recurrent != Recurrence::none && policy.recurrent_horizon == 0)
    refuse("policy.recurrent_horizon",
           "found 0 with policy.recurrent: " + text_of(policy.recurrent) + " and" + with.substr(5),
           "allowed: integer, 1 to 10000, the length of sequences");
  if (learning.schedule == RateSchedule::adaptive)
    refuse("learning.schedule", "found adaptive with learning.algorithm: " + learning.algorithm,
           "allowed: fixed | linear | cosine; imitate has no KL divergence");
  if (learning.warmup_steps > 0 && learning.schedule == RateSchedule::linear)
    refuse("learning.warmup_steps", "set, but learning.schedule is linear",
           "allowed: 0, or with learning.schedule: fixed | cosine");
  if (learning.loss == ImitationLoss::gaussian && policy.squash_actions)
    refuse("learning.loss", "found gaussian with policy.squash_actions: true",
           "allowed: with policy.squash_actions: false");
  check_data(config, refuse);
}

// The shape of the denoising network is checked once the data are known (diffusion_policy.cpp).
void check_diffusion(const Config& config, const Refuse& refuse) {
  const DiffusionConfig& diffusion = config.diffusion;
  const auto number = [](std::int64_t value) { return std::to_string(value); };
  if (config.data.frame_stack != 1)
    refuse("data.frame_stack",
           "found " + number(config.data.frame_stack) + " with learning.algorithm: diffusion",
           "allowed: 1; diffusion.observation_horizon says how many observations a policy sees");
  if (diffusion.observation_horizon > diffusion.prediction_horizon)
    refuse("diffusion.observation_horizon", "found " + number(diffusion.observation_horizon),
           "allowed: at most diffusion.prediction_horizon (" + number(diffusion.prediction_horizon) + ")");
  const int left = diffusion.prediction_horizon - diffusion.observation_horizon + 1;
  if (diffusion.action_horizon > left)
    refuse("diffusion.action_horizon", "found " + number(diffusion.action_horizon),
           "allowed: at most " + number(left) +
               ", diffusion.prediction_horizon - diffusion.observation_horizon + 1");
  if (diffusion.inference_steps > diffusion.train_steps)
    refuse("diffusion.inference_steps", "found " + number(diffusion.inference_steps),
           "allowed: at most diffusion.train_steps (" + number(diffusion.train_steps) + ")");
  if (config.learning.ema_min > config.learning.ema_max)
    refuse("learning.ema_min", "found " + yaml_number(config.learning.ema_min),
           "allowed: at most learning.ema_max (" + yaml_number(config.learning.ema_max) + ")");
}

void check_network(const Config& config, const Refuse& refuse) {
  const LearningConfig& learning = config.learning;
  const PolicyConfig& policy = config.policy;
  if (!learning.imitates() && policy.recurrent_horizon > 0)
    refuse("policy.recurrent_horizon",
           "found " + std::to_string(policy.recurrent_horizon) +
               " with learning.algorithm: " + learning.algorithm,
           "allowed: 0; with train a recurrent policy remembers whole episodes");
  if (policy.hidden.empty() && policy.recurrent == Recurrence::none)
    refuse("policy.hidden", "found a list of 0",
           "allowed: list of integers, for instance [64, 64]; [] with policy.recurrent");
  if (policy.shared && !policy.critic_hidden.empty())
    refuse("policy.critic_hidden", "found layers with policy.shared: true",
           "allowed: [], or with policy.shared: false");
}

// Checks of the distribution from which actions are drawn.
void check_deviations(const Config& config, const Refuse& refuse) {
  const LearningConfig& learning = config.learning;
  const PolicyConfig& policy = config.policy;
  if (learning.imitates() && learning.loss == ImitationLoss::gaussian && policy.fixed_std)
    refuse("policy.fixed_std", "found true with learning.loss: gaussian",
           "allowed: false; with learning.loss: l2 only the means are learned");
  if (learning.mixes() && policy.state_dependent_std)
    refuse("policy.state_dependent_std", "found true with learning.loss: gmm",
           "allowed: false; the network of a mixture always gives its deviations");
  if (policy.max_std > 0 && policy.min_std > policy.max_std)
    refuse("policy.min_std", "found " + yaml_number(policy.min_std),
           "allowed: at most policy.max_std (" + yaml_number(policy.max_std) + ")");
  const bool of_network = policy.state_dependent_std || learning.mixes();
  const bool bounded = policy.min_std > 0 || policy.max_std > 0;
  const bool learned = !learning.imitates() || learning.loss == ImitationLoss::gaussian;
  if (of_network && policy.fixed_std)
    refuse("policy.fixed_std",
           "found true with " +
               std::string(learning.mixes() ? "learning.loss: gmm" : "policy.state_dependent_std"),
           "allowed: false");
  if (of_network || (learned && bounded)) {
    if (!of_network && policy.fixed_std)
      refuse(policy.max_std > 0 ? "policy.max_std" : "policy.min_std", "set, but policy.fixed_std is true",
             "allowed: 0; a deviation that is not learned needs no bounds");
    const bool softplus = policy.state_dependent_std && policy.std_transform == StdTransform::softplus;
    // (softplus comes above min_std and never meets it)
    if (policy.init_std < policy.min_std ||
        ((softplus || learning.mixes()) && policy.init_std == policy.min_std) ||
        (policy.max_std > 0 && policy.init_std > policy.max_std))
      refuse(
          "policy.init_std", "found " + yaml_number(policy.init_std),
          "allowed: " + std::string(softplus || learning.mixes() ? "above " : "at least ") +
              "policy.min_std (" + yaml_number(policy.min_std) + ")" +
              (policy.max_std > 0 ? ", at most policy.max_std (" + yaml_number(policy.max_std) + ")" : ""));
  }
  // (where a preset has it for whoever asks for a mixture)
  if (!of_network && !learning.imitates() && policy.std_transform != StdTransform::exp)
    refuse("policy.std_transform", "set, but policy.state_dependent_std is false",
           "allowed: with policy.state_dependent_std: true");
}

// Numbers of learning that follow what a training measures.
void check_learning_numbers(const Config& config, const Refuse& refuse) {
  const LearningConfig& learning = config.learning;
  for (const auto& [name, expression] : learning.curricula) {
    const std::string key = "learning.curricula." + name;
    std::string allowed;
    for (const LearningNumber& number : kLearningNumbers)
      allowed += (allowed.empty() ? "" : ", ") + std::string(number.name);
    if (std::none_of(kLearningNumbers.begin(), kLearningNumbers.end(),
                     [&, of = name](const LearningNumber& number) { return of == number.name; }))
      refuse(key, "found a number that cannot have a curriculum", "allowed: " + allowed);
    if (learning.imitates())
      refuse(key, "set, but learning.algorithm is " + learning.algorithm,
             "allowed: with train (learning.algorithm: ppo)");
    if (name == "learning_rate" && learning.schedule != RateSchedule::fixed)
      refuse(key, "set, but learning.schedule is " + text_of(learning.schedule),
             "allowed: with learning.schedule: fixed");
  }
}

void check_control(const Config& config, const Refuse& refuse) {
  const ControlConfig& control = config.control;
  if (control.source == ControlInput::file && control.file.empty())
    refuse("control.source", "found 'file' without control.file",
           "allowed: with control.file, " + control_file_text(config));
  if (control.source == ControlInput::policy && control.checkpoint.empty())
    refuse("control.source", "found 'policy' without control.checkpoint",
           "allowed: with control.checkpoint, a checkpoint file or the directory of a run");
  if (control.source == ControlInput::policy && !config.task.present)
    refuse("control.source", "found 'policy' without a task",
           "allowed: with the task the policy was trained on");
  if (control.source == ControlInput::keyframe && config.task.present)
    refuse("control.source", "found 'keyframe' with a task, whose actions set the controls",
           "allowed: without a task; actuators without an action hold the controls of task.keyframe");
  if (!control.file.empty() && control.source != ControlInput::file)
    refuse("control.file", "found a file that nothing reads with control.source: " + text_of(control.source),
           "allowed: with control.source: file; control.file=~ leaves it out");
}

void check_initial_state(const Config& config, const Refuse& refuse) {
  const InitialStateConfig& initial = config.initial_state;
  if (initial.source == StartState::file && initial.file.empty())
    refuse("initial_state.source", "found 'file' without initial_state.file",
           "allowed: with initial_state.file, an HDF5 file with /qpos");
  if (initial.source == StartState::task && !config.task.present)
    refuse("initial_state.source", "found 'task' without a task",
           "allowed: with a task, whose reset terms it uses");
  if (!config.where.count("initial_state.source")) {
    if (!initial.file.empty())
      refuse("initial_state.file", "found a file that nothing reads",
             "allowed: with initial_state.source: file");
    if (config.where.count("initial_state.keyframe") && config.control.source != ControlInput::keyframe)
      refuse("initial_state.keyframe", "found a keyframe that nothing reads",
             "allowed: with initial_state.source: keyframe or control.source: keyframe");
  }
}

void check_output(const Config& config, const Refuse& refuse) {
  if (config.output.directory.empty())
    refuse("output.directory", "found an empty path", "allowed: the path of a directory");
  if (config.output.trajectory_every > 0 && config.output.trajectory_fields.empty())
    refuse("output.trajectory.fields", "found a list of 0",
           "allowed: at least one field, or output.trajectory.every: 0");
}

void check_dataset(const Config& config, const Refuse& refuse) {
  const OutputConfig& output = config.output;
  if (output.dataset == DatasetLayout::none) {
    const OutputConfig none;
    const auto no_use = [&](const char* key, bool is_set) {
      if (is_set)
        refuse(key, "set, but output.dataset is none", "allowed: with output.dataset: robomimic | minari");
    };
    no_use("output.dataset_episodes", output.dataset_episodes != none.dataset_episodes);
    no_use("output.dataset_min_return", output.dataset_min_return != none.dataset_min_return);
    no_use("output.dataset_success", output.dataset_success != none.dataset_success);
    no_use("output.dataset_unfinished", output.dataset_unfinished != none.dataset_unfinished);
  } else {
    if (!config.task.present)
      refuse("output.dataset", "found " + text_of(output.dataset) + " without a task in the deck",
             "allowed: with a task, whose episodes are written");
    const auto& ends = config.task.terminations;
    if (output.dataset_success &&
        std::none_of(ends.begin(), ends.end(), [](const TermConfig& term) { return term.name == "success"; }))
      refuse("output.dataset_success", "found true with a task that does not define success",
             "allowed: false, or with a termination named success in task.terminations");
  }
}

void check_episodes(const Config& config, const Refuse& refuse) {
  if (config.task.episode_length > 0 && config.task.episode_steps > 0)
    refuse("task.episode_steps",
           "found " + std::to_string(config.task.episode_steps) + " with task.episode_length " +
               yaml_number(config.task.episode_length) + " s",
           "allowed: one of them; the other 0");
}

// Whether a length is a whole number of steps, up to rounding of the deck's decimals.
bool is_multiple(double length, double step) {
  const double steps = std::round(length / step);
  return steps >= 1 && std::abs(steps * step - length) < 1e-6 * length;
}

void check_sub_terrain(const SubTerrainConfig& sub, const TerrainConfig& terrain) {
  const auto refuse = [&](const std::string& key, const std::string& found, const std::string& allowed) {
    const auto given = sub.where_keys.find(key);
    throw InputError(given == sub.where_keys.end() ? sub.where : given->second,
                     "terrain.sub_terrains." + sub.name + "." + key, found, allowed);
  };
  const double scale = terrain.horizontal_scale, side = std::min(terrain.size[0], terrain.size[1]);
  const std::string cell = " in a cell of [" + yaml_number(terrain.size[0]) + ", " +
                           yaml_number(terrain.size[1]) + "] m (terrain.size)";
  const bool platform = sub.type != SubTerrainType::flat && sub.type != SubTerrainType::wave &&
                        sub.type != SubTerrainType::random_uniform && sub.type != SubTerrainType::bowl;
  const double left =
      side - 2 * sub.border_width - 2 * scale;  // between the borders, with ground on both sides
  if (!(left > 0))
    refuse("border_width", "found " + yaml_number(sub.border_width) + cell,
           "allowed: less than " + yaml_number(side / 2 - scale) + ", so that ground is left");
  if (platform && !(sub.platform_width < left))
    refuse("platform_width", "found " + yaml_number(sub.platform_width) + cell,
           "allowed: less than " + yaml_number(left) + ", so that ground is left around it");
  const auto check_width = [&](const char* key, double width) {
    if (width > 0 && width < scale * (1 - 1e-9))
      refuse(key, "found " + yaml_number(width),
             "allowed: at least terrain.horizontal_scale (" + yaml_number(scale) + ")");
  };
  check_width("step_width", sub.step_width);
  check_width("grid_width", sub.grid_width);
  check_width("downsampled_scale", sub.downsampled_scale);
  if (sub.type == SubTerrainType::bowl) check_width("terrain_bump_scale", sub.terrain_bump_scale);
  for (const auto& [key, range] : {std::pair{"stone_width_range", &sub.stone_width_range},
                                   std::pair{"obstacle_width_range", &sub.obstacle_width_range}})
    if (*range) check_width(key, (**range)[0]);
  if (sub.obstacle_width_range && (*sub.obstacle_width_range)[1] > left)
    refuse("obstacle_width_range",
           "found obstacles of " + yaml_number((*sub.obstacle_width_range)[1]) + " m" + cell,
           "allowed: at most " + yaml_number(left));
  if (sub.type == SubTerrainType::bowl &&
      side - 2 * sub.border_width < 2 * sub.terrain_bump_scale * (1 - 1e-9))
    refuse("terrain_bump_scale", "found " + yaml_number(sub.terrain_bump_scale) + cell,
           "allowed: at most " + yaml_number(side / 2 - sub.border_width) +
               ", half of the ground within the border");
  if (sub.noise_step > 0 && sub.noise_step < terrain.vertical_scale * (1 - 1e-9))
    refuse("noise_step", "found " + yaml_number(sub.noise_step),
           "allowed: at least terrain.vertical_scale (" + yaml_number(terrain.vertical_scale) + ")");
}

void check_terrain(const Config& config, const Refuse& refuse) {
  const TerrainConfig& terrain = config.model.terrain;
  if (!terrain.present()) {
    Config given = config, whole;
    for (const Key& key : schema())
      if (key.path.starts_with("terrain.") && config.where.contains(key.path) &&
          yaml_text(key.target(given)) != yaml_text(key.target(whole)))
        refuse(key.path, "set without terrain.sub_terrains", "allowed: with {name: {type: ...}, ...} there");
    return;
  }
  const std::string of_scale = " with terrain.horizontal_scale " + yaml_number(terrain.horizontal_scale);
  for (const double length : terrain.size) {
    const std::string found = "found " + yaml_number(length) + " m" + of_scale;
    if (!is_multiple(length, terrain.horizontal_scale))
      refuse("terrain.size", found, "allowed: multiples of terrain.horizontal_scale");
    if (!(length > 2 * terrain.horizontal_scale))
      refuse("terrain.size", found,
             "allowed: more than two of terrain.horizontal_scale, so that ground is left between borders");
  }
  if (terrain.border_width > 0 && !is_multiple(terrain.border_width, terrain.horizontal_scale))
    refuse("terrain.border_width", "found " + yaml_number(terrain.border_width) + of_scale,
           "allowed: 0, or a multiple of terrain.horizontal_scale");
  if (terrain.max_init_terrain_level >= terrain.num_rows)
    refuse("terrain.max_init_terrain_level", "found " + std::to_string(terrain.max_init_terrain_level),
           "allowed: less than terrain.num_rows (" + std::to_string(terrain.num_rows) + ")");
  if (terrain.min_init_terrain_level > terrain.last_init_level())
    refuse("terrain.min_init_terrain_level", "found " + std::to_string(terrain.min_init_terrain_level),
           "allowed: at most " +
               std::string(terrain.max_init_terrain_level < 0 ? "the last row"
                                                              : "terrain.max_init_terrain_level") +
               " (" + std::to_string(terrain.last_init_level()) + ")");
  double shares = 0;
  Mistakes mistakes;
  for (const SubTerrainConfig& sub : terrain.sub_terrains) {
    shares += sub.proportion;
    mistakes.gather([&] { check_sub_terrain(sub, terrain); });
  }
  mistakes.throw_any();
  if (!(shares > 0)) refuse("terrain.sub_terrains", "found proportions of 0 alone", "allowed: one above 0");
}

// Keys with which the tests of the program break it.
void check_tests(const Config& config, const Refuse& refuse) {
  if (config.simulation.inject_nan_env >= config.batch.num_envs)
    refuse("simulation.inject_nan_env",
           "found " + std::to_string(config.simulation.inject_nan_env) + " with batch.num_envs " +
               std::to_string(config.batch.num_envs),
           "allowed: an environment of the batch, or -1");
}

// Within the bounds of deviations, which some heads come near to and never meet.
double deviation_within(const Config& config) {
  const PolicyConfig& policy = config.policy;
  const bool open = config.learning.mixes() ||
                    (policy.state_dependent_std && policy.std_transform == StdTransform::softplus);
  double fitting = policy.init_std;
  if (policy.max_std > 0) fitting = std::min(fitting, policy.max_std);
  if (fitting < policy.min_std || (open && fitting == policy.min_std))
    fitting = !open                ? policy.min_std
              : policy.max_std > 0 ? (policy.min_std + policy.max_std) / 2
                                   : 2 * policy.min_std;
  return fitting;
}

}  // namespace

void fit_defaults(Config& config) {
  const auto fit = [&](const std::string& key, auto& value, auto fitting, const std::string& why) {
    if (config.where.contains(key) || value == fitting) return;
    config.notes.push_back(key + ": using " + yaml_number(static_cast<double>(fitting)) +
                           " instead of the default " + yaml_number(static_cast<double>(value)) +
                           ", because " + why);
    value = fitting;
  };
  LearningConfig& learning = config.learning;
  PolicyConfig& policy = config.policy;
  if (!learning.imitates())
    fit("learning.minibatches", learning.minibatches,
        static_cast<int>(std::min<std::int64_t>(learning.minibatches, most_minibatches(config))),
        "batch.num_envs " + std::to_string(config.batch.num_envs) +
            (policy.recurrent != Recurrence::none ? " with policy.recurrent " + text_of(policy.recurrent)
                                                  : "") +
            " cannot be divided further");
  const std::string bounds =
      "policy.min_std is " + yaml_number(policy.min_std) +
      (policy.max_std > 0 ? ", policy.max_std " + yaml_number(policy.max_std) : std::string());
  fit("policy.init_std", policy.init_std, deviation_within(config), bounds);
}

void check_together(const Config& config, const std::set<std::string>& without, Mistakes& mistakes) {
  const Refuse refuse = [&](const std::string& key, const std::string& found, const std::string& allowed) {
    throw InputError(config.where_of(key), key, found, allowed);
  };
  const auto check = [&](void (*part)(const Config&, const Refuse&),
                         std::initializer_list<const char*> sections) {
    const bool whole = std::none_of(sections.begin(), sections.end(),
                                    [&](const char* section) { return without.contains(section); });
    return !whole || mistakes.gather([&] { part(config, refuse); });
  };
  const LearningConfig& learning = config.learning;
  // what a deck learns with decides what all its other keys of learning may be
  if (check(check_algorithm, {"learning"})) {
    check(check_image, {"learning", "image", "data"});
    check(check_updates, {"learning", "policy", "batch", "control"});
    check(check_learning_rate, {"learning"});
    check(learning.imitates() ? check_imitation : check_environment_learning, {"learning", "policy", "data"});
    if (learning.diffuses()) check(check_diffusion, {"learning", "diffusion", "data"});
    check(check_network, {"learning", "policy"});
    check(check_deviations, {"learning", "policy"});
    check(check_learning_numbers, {"learning"});
  }
  check(check_control, {"control", "task"});
  check(check_initial_state, {"initial_state", "control", "task"});
  check(check_episodes, {"task"});
  check(check_output, {"output"});
  check(check_dataset, {"output", "task"});
  check(check_terrain, {"terrain"});
  check(check_tests, {"simulation", "batch"});
}

}  // namespace maniple
