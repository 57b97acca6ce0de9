// The one table of presets.
#include "src/config/presets.hpp"

namespace maniple {

// clang-format off
const std::vector<Preset>& presets() {
  static const std::vector<Preset> table{
      {"maniple", "ours: settings for any task and number of environments; these are the defaults", {}},

      {"locomotion",
       "ours: the best score per second of wall time on CPU cores for legged locomotion. Few environments and epochs, a "
       "high learning rate that falls to 0 and a loss of the KL divergence are those of Sample Factory "
       "(sf_examples/mujoco/mujoco_params.py); an initial noise that robots survive (policy.init_std) is ours",
       {{"batch.num_envs", "64"},
        {"policy.hidden", "[64, 64]"}, {"policy.activation", "tanh"}, {"policy.shared", "true"},
        {"policy.initialization", "orthogonal"}, {"policy.hidden_gain", "1.4142135623730951"},
        {"policy.actor_gain", "0.01"}, {"policy.critic_gain", "1"}, {"policy.init_std", "0.3"},
        {"policy.fixed_std", "false"}, {"policy.normalize_observations", "true"}, {"policy.clip_normalized", "5"},
        {"learning.horizon", "64"}, {"learning.epochs", "2"}, {"learning.minibatches", "4"},
        {"learning.gamma", "0.99"}, {"learning.lambda", "0.95"},
        {"learning.learning_rate", "2.95e-3"}, {"learning.schedule", "linear"}, {"learning.adam_epsilon", "1.0e-6"},
        {"learning.clip_ratio", "0.2"}, {"learning.value_coef", "2.6"}, {"learning.clip_value", "false"},
        {"learning.entropy_coef", "0"}, {"learning.bounds_coef", "0"}, {"learning.kl_coef", "0.1"},
        {"learning.max_grad_norm", "3.5"}, {"learning.normalize_advantage", "true"},
        {"learning.normalize_value", "true"}, {"learning.normalize_reward", "false"}, {"learning.clip_reward", "0"},
        {"learning.value_bootstrap", "final_observation"}, {"learning.random_initial_episode_length", "true"}}},

      {"cleanrl",
       "CleanRL, ppo_continuous_action.py: 2048 samples an iteration, there 1 environment for 2048 steps, here "
       "batch.num_envs 32 for 64; minibatches take 32 environments at a time. Actions are clipped where the model's "
       "controls are, at +-1 in most tasks: where they are not, set policy.clip_actions in the deck",
       {{"batch.num_envs", "32"},
        {"policy.hidden", "[64, 64]"}, {"policy.activation", "tanh"}, {"policy.shared", "false"},
        {"policy.initialization", "orthogonal"}, {"policy.hidden_gain", "1.4142135623730951"},
        {"policy.actor_gain", "0.01"}, {"policy.critic_gain", "1"}, {"policy.init_std", "1"},
        {"policy.fixed_std", "false"}, {"policy.normalize_observations", "true"}, {"policy.clip_normalized", "10"},
        {"policy.clip_actions", "1"},
        {"learning.horizon", "64"}, {"learning.epochs", "10"}, {"learning.minibatches", "32"},
        {"learning.gamma", "0.99"}, {"learning.lambda", "0.95"},
        {"learning.learning_rate", "3.0e-4"}, {"learning.schedule", "linear"}, {"learning.adam_epsilon", "1.0e-5"},
        {"learning.clip_ratio", "0.2"}, {"learning.value_coef", "0.5"}, {"learning.clip_value", "true"},
        {"learning.entropy_coef", "0"}, {"learning.bounds_coef", "0"}, {"learning.kl_coef", "0"},
        {"learning.max_grad_norm", "0.5"}, {"learning.normalize_advantage", "true"},
        {"learning.normalize_advantage_per_minibatch", "true"},
        {"learning.normalize_value", "false"}, {"learning.normalize_reward", "true"}, {"learning.clip_reward", "10"},
        {"learning.value_bootstrap", "none"}, {"learning.random_initial_episode_length", "false"}}},

      {"sb3_zoo",
       "rl-baselines3-zoo, hyperparams/ppo.yml, HalfCheetah (tuned): 512 samples an iteration, there 1 environment "
       "for 512 steps, here batch.num_envs 32 for 16; minibatches take 32 environments at a time. Actions are clipped "
       "as in cleanrl",
       {{"batch.num_envs", "32"},
        {"policy.hidden", "[256, 256]"}, {"policy.activation", "relu"}, {"policy.shared", "false"},
        {"policy.initialization", "uniform"}, {"policy.init_std", "0.1353352832366127"},
        {"policy.fixed_std", "false"}, {"policy.normalize_observations", "true"}, {"policy.clip_normalized", "10"},
        {"policy.clip_actions", "1"},
        {"learning.horizon", "16"}, {"learning.epochs", "20"}, {"learning.minibatches", "8"},
        {"learning.gamma", "0.98"}, {"learning.lambda", "0.92"},
        {"learning.learning_rate", "2.0633e-5"}, {"learning.schedule", "fixed"}, {"learning.adam_epsilon", "1.0e-5"},
        {"learning.clip_ratio", "0.1"}, {"learning.value_coef", "1.16192"}, {"learning.clip_value", "false"},
        {"learning.entropy_coef", "0.000401762"}, {"learning.bounds_coef", "0"}, {"learning.kl_coef", "0"},
        {"learning.max_grad_norm", "0.8"}, {"learning.normalize_advantage", "true"},
        {"learning.normalize_advantage_per_minibatch", "true"},
        {"learning.normalize_value", "false"}, {"learning.normalize_reward", "true"}, {"learning.clip_reward", "10"},
        {"learning.value_bootstrap", "final_observation"}, {"learning.random_initial_episode_length", "false"}}},

      {"rl_games_locomotion",
       "rl_games, configs/mujoco/ant_envpool.yaml; decks set its reward scale; its smooth clamp of the ratio is a "
       "hard one here",
       {{"batch.num_envs", "64"},
        {"policy.hidden", "[256, 128, 64]"}, {"policy.activation", "elu"}, {"policy.shared", "true"},
        {"policy.initialization", "uniform"}, {"policy.init_std", "1"},
        {"policy.fixed_std", "false"}, {"policy.normalize_observations", "true"}, {"policy.clip_normalized", "5"},
        {"policy.clip_actions", "1"},
        {"learning.horizon", "64"}, {"learning.epochs", "4"}, {"learning.minibatches", "2"},
        {"learning.gamma", "0.99"}, {"learning.lambda", "0.95"},
        {"learning.learning_rate", "3.0e-4"}, {"learning.schedule", "adaptive"}, {"learning.desired_kl", "0.008"},
        {"learning.kl_factor", "2"}, {"learning.lr_factor", "1.5"}, {"learning.lr_min", "1.0e-6"},
        {"learning.lr_max", "1.0e-2"}, {"learning.lr_per_minibatch", "true"},
        {"learning.kl_reference", "previous_epoch"}, {"learning.adam_epsilon", "1.0e-8"},
        {"learning.clip_ratio", "0.2"}, {"learning.value_coef", "2"}, {"learning.clip_value", "true"},
        {"learning.entropy_coef", "0"}, {"learning.bounds_coef", "0"}, {"learning.kl_coef", "0"},
        {"learning.max_grad_norm", "1"}, {"learning.normalize_advantage", "true"},
        {"learning.normalize_value", "true"}, {"learning.normalize_reward", "false"}, {"learning.clip_reward", "0"},
        {"learning.value_bootstrap", "value"}, {"learning.random_initial_episode_length", "false"}}},

      {"rl_games_cartpole",
       "rl_games with Isaac Lab's manager_based/classic/cartpole/agents/rl_games_ppo_cfg.yaml, in the 4096 environments of "
       "its task: minibatches of 8192 samples",
       {{"batch.num_envs", "4096"},
        {"policy.hidden", "[32, 32]"}, {"policy.activation", "elu"}, {"policy.shared", "true"},
        {"policy.initialization", "uniform"}, {"policy.init_std", "1"},
        {"policy.fixed_std", "false"}, {"policy.normalize_observations", "false"}, {"policy.clip_observations", "5"},
        {"policy.clip_actions", "1"},
        {"learning.horizon", "16"}, {"learning.epochs", "8"}, {"learning.minibatches", "8"},
        {"learning.gamma", "0.99"}, {"learning.lambda", "0.95"},
        {"learning.learning_rate", "3.0e-4"}, {"learning.schedule", "adaptive"}, {"learning.desired_kl", "0.008"},
        {"learning.kl_factor", "2"}, {"learning.lr_factor", "1.5"}, {"learning.lr_min", "1.0e-6"},
        {"learning.lr_max", "1.0e-2"}, {"learning.lr_per_minibatch", "true"},
        {"learning.kl_reference", "previous_epoch"}, {"learning.adam_epsilon", "1.0e-8"},
        {"learning.clip_ratio", "0.2"}, {"learning.value_coef", "4"}, {"learning.clip_value", "true"},
        {"learning.entropy_coef", "0"}, {"learning.bounds_coef", "1.0e-4"}, {"learning.kl_coef", "0"},
        {"learning.max_grad_norm", "1"}, {"learning.normalize_advantage", "false"},
        {"learning.normalize_value", "false"}, {"learning.normalize_reward", "false"}, {"learning.clip_reward", "0"},
        {"learning.value_bootstrap", "none"}, {"learning.random_initial_episode_length", "false"}}},

      {"rsl_rl_locomotion",
       "rsl_rl with mjlab's tasks/velocity/config/g1/rl_cfg.py and go1/rl_cfg.py, in 4096 environments; Isaac Lab's "
       "locomotion/velocity/config/anymal_d/agents/rsl_rl_ppo_cfg.py is the same without policy.normalize_observations and with "
       "learning.entropy_coef=0.005",
       {{"batch.num_envs", "4096"},
        {"policy.hidden", "[512, 256, 128]"}, {"policy.activation", "elu"}, {"policy.shared", "false"},
        {"policy.initialization", "uniform"}, {"policy.init_std", "1"},
        {"policy.fixed_std", "false"}, {"policy.normalize_observations", "true"},
        {"learning.horizon", "24"}, {"learning.epochs", "5"}, {"learning.minibatches", "4"},
        {"learning.gamma", "0.99"}, {"learning.lambda", "0.95"},
        {"learning.learning_rate", "1.0e-3"}, {"learning.schedule", "adaptive"}, {"learning.desired_kl", "0.01"},
        {"learning.kl_factor", "2"}, {"learning.lr_factor", "1.5"}, {"learning.lr_min", "1.0e-5"},
        {"learning.lr_max", "1.0e-2"}, {"learning.lr_per_minibatch", "true"},
        {"learning.kl_reference", "rollout"}, {"learning.adam_epsilon", "1.0e-8"},
        {"learning.clip_ratio", "0.2"}, {"learning.value_coef", "2"}, {"learning.clip_value", "true"},
        {"learning.entropy_coef", "0.01"}, {"learning.bounds_coef", "0"}, {"learning.kl_coef", "0"},
        {"learning.max_grad_norm", "1"}, {"learning.normalize_advantage", "true"},
        {"learning.normalize_value", "false"}, {"learning.normalize_reward", "false"}, {"learning.clip_reward", "0"},
        {"learning.value_bootstrap", "value"}, {"learning.random_initial_episode_length", "true"}}},

      {"rsl_rl_cartpole",
       "rsl_rl with Isaac Lab's manager_based/classic/cartpole/agents/rsl_rl_ppo_cfg.py, in the 4096 environments of its task",
       {{"batch.num_envs", "4096"},
        {"policy.hidden", "[32, 32]"}, {"policy.activation", "elu"}, {"policy.shared", "false"},
        {"policy.initialization", "uniform"}, {"policy.init_std", "1"},
        {"policy.fixed_std", "false"}, {"policy.normalize_observations", "false"},
        {"learning.horizon", "16"}, {"learning.epochs", "5"}, {"learning.minibatches", "4"},
        {"learning.gamma", "0.99"}, {"learning.lambda", "0.95"},
        {"learning.learning_rate", "1.0e-3"}, {"learning.schedule", "adaptive"}, {"learning.desired_kl", "0.01"},
        {"learning.kl_factor", "2"}, {"learning.lr_factor", "1.5"}, {"learning.lr_min", "1.0e-5"},
        {"learning.lr_max", "1.0e-2"}, {"learning.lr_per_minibatch", "true"},
        {"learning.kl_reference", "rollout"}, {"learning.adam_epsilon", "1.0e-8"},
        {"learning.clip_ratio", "0.2"}, {"learning.value_coef", "2"}, {"learning.clip_value", "true"},
        {"learning.entropy_coef", "0.005"}, {"learning.bounds_coef", "0"}, {"learning.kl_coef", "0"},
        {"learning.max_grad_norm", "1"}, {"learning.normalize_advantage", "true"},
        {"learning.normalize_value", "false"}, {"learning.normalize_reward", "false"}, {"learning.clip_reward", "0"},
        {"learning.value_bootstrap", "value"}, {"learning.random_initial_episode_length", "true"}}},

      {"brax",
       "Brax's PPO with mujoco_playground's config/dm_control_suite_params.py: there 16 rollouts make a batch (983040 "
       "samples), here one; advantages are estimated once, not for each minibatch; time-outs are bootstrapped, not left out",
       {{"batch.num_envs", "2048"},
        {"policy.hidden", "[32, 32, 32, 32]"}, {"policy.critic_hidden", "[256, 256, 256, 256, 256]"},
        {"policy.activation", "silu"}, {"policy.shared", "false"}, {"policy.initialization", "lecun_uniform"},
        {"policy.fixed_std", "false"}, {"policy.state_dependent_std", "true"}, {"policy.std_transform", "softplus"},
        {"policy.min_std", "0.001"}, {"policy.init_std", "0.6941471805599453"}, {"policy.squash_actions", "true"},
        {"policy.normalize_observations", "true"}, {"policy.clip_normalized", "1.0e+6"},
        {"learning.horizon", "30"}, {"learning.epochs", "16"}, {"learning.minibatches", "32"},
        {"learning.gamma", "0.995"}, {"learning.lambda", "0.95"},
        {"learning.learning_rate", "1.0e-3"}, {"learning.schedule", "fixed"}, {"learning.adam_epsilon", "1.0e-8"},
        {"learning.clip_ratio", "0.3"}, {"learning.value_coef", "0.5"}, {"learning.clip_value", "false"},
        {"learning.entropy_coef", "0.01"}, {"learning.bounds_coef", "0"}, {"learning.kl_coef", "0"},
        {"learning.max_grad_norm", "0"}, {"learning.normalize_advantage", "true"},
        {"learning.normalize_advantage_per_minibatch", "true"},
        {"learning.normalize_value", "false"}, {"learning.normalize_reward", "false"},
        {"learning.reward_scale", "10"}, {"learning.clip_reward", "0"},
        {"learning.value_bootstrap", "final_observation"}, {"learning.random_initial_episode_length", "false"}}},

      {"robomimic",
       "robomimic, exps/templates/bc.json: the default preset of decks with data.file",
       {{"learning.algorithm", "bc"},
        {"policy.hidden", "[1024, 1024]"}, {"policy.activation", "relu"}, {"policy.initialization", "uniform"},
        {"policy.squash_actions", "true"}, {"policy.init_std", "0.3"}, {"policy.std_transform", "softplus"},
        {"policy.min_std", "1.0e-4"}, {"policy.modes", "5"},
        {"policy.recurrent_layers", "2"}, {"policy.recurrent_units", "400"}, {"policy.recurrent_horizon", "10"},
        {"learning.batch_size", "100"}, {"learning.report_every", "100"}, {"learning.steps", "200000"},
        {"learning.checkpoint_every", "5000"},
        {"learning.loss", "l2"}, {"learning.learning_rate", "1.0e-4"}, {"learning.schedule", "fixed"},
        {"learning.optimizer", "adam"}, {"learning.adam_epsilon", "1.0e-8"}, {"learning.weight_decay", "0"},
        {"learning.max_grad_norm", "0"}}},

      {"robomimic_rnn",
       "robomimic's BC-RNN of its study (scripts/generate_paper_configs.py, low-dimensional observations): an "
       "LSTM without hidden layers, with a mixture of Gaussians",
       {{"learning.algorithm", "bc"},
        {"policy.recurrent", "lstm"}, {"policy.recurrent_layers", "2"}, {"policy.recurrent_units", "400"},
        {"policy.recurrent_horizon", "10"}, {"policy.hidden", "[]"}, {"policy.activation", "relu"},
        {"policy.initialization", "uniform"}, {"policy.squash_actions", "true"}, {"policy.init_std", "0.6932471805599453"},
        {"policy.std_transform", "softplus"}, {"policy.min_std", "1.0e-4"}, {"policy.modes", "5"},
        {"learning.batch_size", "100"}, {"learning.report_every", "100"}, {"learning.steps", "200000"},
        {"learning.checkpoint_every", "5000"},
        {"learning.loss", "gmm"}, {"learning.learning_rate", "1.0e-4"}, {"learning.schedule", "fixed"},
        {"learning.optimizer", "adam"}, {"learning.adam_epsilon", "1.0e-8"}, {"learning.weight_decay", "0"},
        {"learning.max_grad_norm", "0"}}},

      {"diffusion_policy",
       "diffusion_policy (Chi et al. 2023), config/train_diffusion_unet_lowdim_workspace.yaml: low-dimensional "
       "observations as global condition",
       {{"learning.algorithm", "diffusion"},
        {"diffusion.observation_horizon", "2"}, {"diffusion.action_horizon", "8"}, {"diffusion.prediction_horizon", "16"},
        {"diffusion.pad_after", "7"}, {"diffusion.down_dims", "[256, 512, 1024]"}, {"diffusion.kernel_size", "5"},
        {"diffusion.groups", "8"}, {"diffusion.step_embedding", "256"}, {"diffusion.film_scale", "true"},
        {"diffusion.train_steps", "100"}, {"diffusion.inference_steps", "100"}, {"diffusion.sampler", "ddpm"},
        {"diffusion.prediction", "epsilon"}, {"diffusion.clip_sample", "true"},
        {"data.normalize_observations", "min_max"}, {"data.normalize_actions", "min_max"},
        {"learning.batch_size", "256"}, {"learning.report_every", "100"}, {"learning.steps", "200000"},
        {"learning.checkpoint_every", "5000"},
        {"learning.learning_rate", "1.0e-4"}, {"learning.schedule", "cosine"}, {"learning.warmup_steps", "500"},
        {"learning.optimizer", "adamw"}, {"learning.weight_decay", "1.0e-6"}, {"learning.adam_beta1", "0.95"},
        {"learning.adam_beta2", "0.999"}, {"learning.adam_epsilon", "1.0e-8"}, {"learning.max_grad_norm", "0"},
        {"learning.ema", "true"}, {"learning.ema_power", "0.75"}, {"learning.ema_inv_gamma", "1"},
        {"learning.ema_min", "0"}, {"learning.ema_max", "0.9999"}}},
  };
  return table;
}
// clang-format on

std::string presets_text() {
  constexpr std::size_t kIndent = 21, kWidth = 105;
  std::string text = "# learning.preset: other defaults by name\n";
  for (const Preset& preset : presets()) {
    text += preset.name + std::string(kIndent - preset.name.size(), ' ') + preset.source + "\n";
    std::string line;
    const auto end_line = [&] {
      if (!line.empty()) text += std::string(kIndent, ' ') + line + "\n";
      line.clear();
    };
    for (const auto& [key, value] : preset.values) {
      const std::string entry = key + "=" + value;
      if (line.size() + 1 + entry.size() > kWidth) end_line();
      line += (line.empty() ? "" : " ") + entry;
    }
    end_line();
  }
  return text;
}

}  // namespace maniple
