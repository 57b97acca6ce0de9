#include "src/learning/data_normalization.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace maniple {
namespace {

// x -> (x - mean) * scale
struct Affine {
  double mean = 0, scale = 1;
};

// The unit of each number of a row, over all frames to learn from: robomimic's mean and standard deviation,
// to which 0.001 is added; diffusion policy's [-1, 1] (model/common/normalizer.py), where a number that does
// not change goes to 0.
std::vector<Affine> row_normalization(const Config& config, const Demonstrations& demonstrations) {
  constexpr double kFloor = 1e-3, kLeastRange = 1e-4;
  const DemonstrationContents& contents = demonstrations.contents();
  const auto width = static_cast<std::size_t>(contents.row_width());
  std::vector<DataNormalizer> kinds(width, config.data.normalize_actions);
  const auto has = [](const auto& list, const auto& value) {
    return std::find(list.begin(), list.end(), value) != list.end();
  };
  for (const auto& key : contents.observations)
    std::fill_n(kinds.begin() + key.first, key.width,
                has(config.data.not_normalized, key.name) ? DataNormalizer::none
                                                          : config.data.normalize_observations);
  for (const int component : config.data.actions_not_normalized)
    kinds[static_cast<std::size_t>(contents.observation_width + component)] = DataNormalizer::none;
  std::vector<double> mean(width, 0.0), squares(width, 0.0), low(width, std::numeric_limits<double>::max()),
      high(width, std::numeric_limits<double>::lowest());
  const auto frames = static_cast<double>(contents.learned_frames);
  for (std::int64_t frame = 0; frame < contents.learned_frames; ++frame)
    for (std::size_t i = 0; i < width; ++i) {
      const auto x = static_cast<double>(demonstrations.row(frame)[i]);
      mean[i] += x / frames;
      low[i] = std::min(low[i], x);
      high[i] = std::max(high[i], x);
    }
  for (std::int64_t frame = 0; frame < contents.learned_frames; ++frame)
    for (std::size_t i = 0; i < width; ++i) {
      const double away = static_cast<double>(demonstrations.row(frame)[i]) - mean[i];
      squares[i] += away * away / frames;
    }
  std::vector<Affine> units(width);
  for (std::size_t i = 0; i < width; ++i) {
    if (kinds[i] == DataNormalizer::mean_std) units[i] = {mean[i], 1 / (std::sqrt(squares[i]) + kFloor)};
    if (kinds[i] == DataNormalizer::min_max)
      units[i] = {(low[i] + high[i]) / 2, high[i] - low[i] < kLeastRange ? 1 : 2 / (high[i] - low[i])};
  }
  return units;
}

}  // namespace

DataNormalization normalization_of(const Config& config, const Demonstrations& demonstrations) {
  const DemonstrationContents& contents = demonstrations.contents();
  const std::vector<Affine> rows = row_normalization(config, demonstrations);
  DataNormalization normalization(contents.observation_width * config.data.frame_stack,
                                  contents.action_width);
  std::size_t input = 0;
  for (const auto& key : contents.observations)
    for (int frame = 0; frame < config.data.frame_stack; ++frame)
      for (int i = key.first; i < key.first + key.width; ++i, ++input) {
        normalization.observation_mean[input] = static_cast<float>(rows[static_cast<std::size_t>(i)].mean);
        normalization.observation_scale[input] = static_cast<float>(rows[static_cast<std::size_t>(i)].scale);
      }
  for (std::size_t k = 0; k < normalization.action_mean.size(); ++k) {
    const Affine& own = rows[static_cast<std::size_t>(contents.observation_width) + k];
    normalization.action_mean[k] = static_cast<float>(own.mean);
    normalization.action_scale[k] = static_cast<float>(1 / own.scale);
  }
  return normalization;
}

void DataNormalization::describe(Archive& archive) {
  const auto unit = [&](const std::string& name, std::vector<float>& values, const std::string& unit_name,
                        const std::string& description) {
    if (values.empty()) return;  // a policy may see images alone
    archive.replicated("policy/" + name, values.data(), values.size(), unit_name, description);
  };
  unit("observation_mean", observation_mean, "observation", "taken from each observation");
  unit("observation_scale", observation_scale, "1/observation", "which is then multiplied by this");
  unit("action_mean", action_mean, "action", "added to what the network gives");
  unit("action_scale", action_scale, "action", "by which that is multiplied before");
}

// W ((x - mean) * scale) + b = (W scale) x + (b - W scale mean) below, and likewise above.
void fold_normalization(const DataNormalization& normalization, const Network& network, float* parameters) {
  const Layer& first = network.layers[0];
  for (int o = 0; o < first.outputs; ++o) {
    double bias = parameters[first.bias + o];
    for (int i = 0; i < first.inputs; ++i) {
      const auto input = static_cast<std::size_t>(i);
      float& weight = parameters[first.weight + o * first.stride() + i];
      const double scaled = static_cast<double>(weight) * normalization.observation_scale[input];
      bias -= scaled * normalization.observation_mean[input];
      weight = static_cast<float>(scaled);
    }
    parameters[first.bias + o] = static_cast<float>(bias);
  }
  for (int l = 0; l < network.num_layers; ++l) {
    const Layer& last = network.layers[l];
    const int row = network.actor.first - last.target;
    if (!last.is_dense() || row < 0 || row >= last.outputs) continue;
    for (int k = 0; k < network.sizes.actions; ++k) {
      const auto action = static_cast<std::size_t>(k);
      for (int i = 0; i < last.inputs; ++i)
        parameters[last.weight + (row + k) * last.stride() + i] *= normalization.action_scale[action];
      float& bias = parameters[last.bias + row + k];
      bias = bias * normalization.action_scale[action] + normalization.action_mean[action];
    }
  }
}

}  // namespace maniple
