#include "src/learning/data_units.hpp"

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
std::vector<Affine> row_units(const Config& config, const Demonstrations& demonstrations) {
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

DataUnits units_of(const Config& config, const Demonstrations& demonstrations) {
  const DemonstrationContents& contents = demonstrations.contents();
  const std::vector<Affine> rows = row_units(config, demonstrations);
  DataUnits units(contents.observation_width * config.data.frame_stack, contents.action_width);
  std::size_t input = 0;
  for (const auto& key : contents.observations)
    for (int frame = 0; frame < config.data.frame_stack; ++frame)
      for (int i = key.first; i < key.first + key.width; ++i, ++input) {
        units.observation_mean[input] = static_cast<float>(rows[static_cast<std::size_t>(i)].mean);
        units.observation_scale[input] = static_cast<float>(rows[static_cast<std::size_t>(i)].scale);
      }
  for (std::size_t k = 0; k < units.action_mean.size(); ++k) {
    const Affine& own = rows[static_cast<std::size_t>(contents.observation_width) + k];
    units.action_mean[k] = static_cast<float>(own.mean);
    units.action_scale[k] = static_cast<float>(1 / own.scale);
  }
  return units;
}

void DataUnits::describe(Archive& archive) {
  const auto unit = [&](const std::string& name, std::vector<float>& values, const std::string& unit_name,
                        const std::string& description) {
    if (values.empty()) return;  // a policy may see pictures alone
    archive.replicated("policy/" + name, values.data(), values.size(), unit_name, description);
  };
  unit("observation_mean", observation_mean, "observation", "taken from each observation");
  unit("observation_scale", observation_scale, "1/observation", "which is then multiplied by this");
  unit("action_mean", action_mean, "action", "added to what the network gives");
  unit("action_scale", action_scale, "action", "by which that is multiplied before");
}

}  // namespace maniple
