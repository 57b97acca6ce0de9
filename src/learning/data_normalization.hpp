// The normalization of observations and actions of a policy that imitates.
#pragma once

#include <vector>

#include "kernels/nn/network.hpp"
#include "src/config/config.hpp"
#include "src/io/archive.hpp"
#include "src/io/demonstrations.hpp"

namespace maniple {

// What observations and actions are to a policy from demonstrations, whose data are normalized once and for
// all: it sees (observation - mean) * scale, and acts mean + scale * output.
struct DataNormalization {
  std::vector<float> observation_mean, observation_scale, action_mean, action_scale;

  DataNormalization() = default;
  // Everything is left as it is.
  DataNormalization(int observations, int actions)
      : observation_mean(static_cast<std::size_t>(observations), 0.0f),
        observation_scale(static_cast<std::size_t>(observations), 1.0f),
        action_mean(static_cast<std::size_t>(actions), 0.0f),
        action_scale(static_cast<std::size_t>(actions), 1.0f) {}

  // As entries policy/observation_mean and so on.
  void describe(Archive& archive);
};

// Numbers by which the data are normalized, as data.normalize_observations and data.normalize_actions say, of
// the policy's inputs: of each key the frames of the stack, the oldest first.
DataNormalization normalization_of(const Config& config, const Demonstrations& demonstrations);

// Weights and biases of a network over normalized observations and actions, turned into those of the network
// that gives the same actions without normalization.
void fold_normalization(const DataNormalization& normalization, const Network& network, float* parameters);

}  // namespace maniple
