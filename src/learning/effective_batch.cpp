#include "src/learning/effective_batch.hpp"

#include <fmt/format.h>

#include <cmath>

#include "src/base/counted.hpp"

namespace maniple {

std::int64_t effective_batch(const Config& config, int ranks) {
  const LearningConfig& learning = config.learning;
  if (!learning.imitates()) return config.batch.num_envs * learning.horizon / learning.minibatches;
  return learning.batch_size * learning.accumulate * (learning.batch_per_rank ? ranks : 1);
}

Config for_ranks(const Config& given, int ranks) {
  Config config = given;
  LearningConfig& learning = config.learning;
  const std::int64_t batch = effective_batch(given, ranks);
  if (learning.imitates()) learning.batch_size = batch;
  const double ratio = static_cast<double>(batch) / static_cast<double>(learning.lr_base_batch);
  if (learning.lr_scaling == RateScaling::linear) learning.learning_rate *= ratio;
  if (learning.lr_scaling == RateScaling::sqrt) learning.learning_rate *= std::sqrt(ratio);
  return config;
}

std::string effective_batch_text(const Config& given, int ranks) {
  const LearningConfig& learning = given.learning;
  const bool per_rank = learning.batch_per_rank, accumulates = learning.accumulate > 1;
  std::string text;
  if (per_rank || accumulates) {
    text =
        fmt::format("effective batch: {}, {}{}{}", counted(effective_batch(given, ranks), "sample"),
                    learning.batch_size, accumulates ? fmt::format(" x {} parts", learning.accumulate) : "",
                    per_rank ? " x " + counted(ranks, "rank") : "");
    if (per_rank) text += " (learning.batch_per_rank: the result depends on the number of ranks)";
  }
  if (learning.lr_scaling != RateScaling::none)
    text += fmt::format("{}learning rate: {:.6g}, {:.6g} for {} scaled to {} ({})", text.empty() ? "" : "; ",
                        for_ranks(given, ranks).learning.learning_rate, learning.learning_rate,
                        counted(learning.lr_base_batch, "sample"), effective_batch(given, ranks),
                        text_of(learning.lr_scaling));
  return text;
}

}  // namespace maniple
