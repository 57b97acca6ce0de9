// Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers:
// as easy as 1, 2, 3", SC11). No generator has state: a number is a function of seed, purpose,
// global environment (or sample) index, step and draw, so equal for any number of ranks and lanes.
#pragma once

#include <cstdint>

#include "kernels/base/pack.hpp"

namespace maniple {

// What a stream of random numbers is for; part of the key, so that streams never meet.
enum class RandomPurpose : std::uint32_t {
  reset = 1,
  control = 2,
  action = 3,
  minibatch = 4,
  parameters = 5,
  episode_offset = 6,
  evaluation = 7,
  task_step = 8,
  task_observation = 9,
  task_action = 10,
  task_model = 11,
  diffusion_step = 12,
  diffusion_noise = 13,
  denoising = 14,
  image_crop = 15,
  task_interval = 16,
  terrain = 17,
  terrain_level = 18,
};

struct PhiloxBlock {
  std::uint32_t word[4];
};

// The ten rounds; counter and key as in the reference implementation's test vectors.
MANIPLE_FUNCTION PhiloxBlock philox4x32_10(PhiloxBlock counter, std::uint32_t key0, std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53u} * counter.word[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57u} * counter.word[2];
    counter = {{static_cast<std::uint32_t>(product1 >> 32) ^ counter.word[1] ^ key0,
                static_cast<std::uint32_t>(product1),
                static_cast<std::uint32_t>(product0 >> 32) ^ counter.word[3] ^ key1,
                static_cast<std::uint32_t>(product0)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

// Four words for (seed, purpose; index, step, draw). Seeds are 32 bits wide.
MANIPLE_FUNCTION PhiloxBlock random_block(std::uint32_t seed, RandomPurpose purpose, std::uint64_t index,
                                          std::uint32_t step, std::uint32_t draw) {
  return philox4x32_10(
      {{static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), step, draw}}, seed,
      static_cast<std::uint32_t>(purpose));
}

// Uniform in [0, 1) with 24 bits: exact in single and double precision, so both see equal numbers.
template <class T>
MANIPLE_FUNCTION T uniform01(std::uint32_t word) {
  return static_cast<T>(word >> 8) * static_cast<T>(1.0 / 16777216.0);
}
// Uniform in (0, 1], for logarithms.
template <class T>
MANIPLE_FUNCTION T uniform01_open_zero(std::uint32_t word) {
  return static_cast<T>((word >> 8) + 1) * static_cast<T>(1.0 / 16777216.0);
}

}  // namespace maniple
