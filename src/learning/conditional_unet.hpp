// The denoising network of diffusion policies, `ConditionalUnet1D` of the diffusion_policy reference (Chi et
// al. 2023; Janner et al. 2022): a U-Net of 1-D convolutions over the frames of an action sequence. Each
// residual block is modulated (FiLM, Perez et al. 2018) by the condition of a sample: an embedding of its
// diffusion step and its observations.
//
// It works on tiles of 32 samples. What a sample's prediction is depends on that sample and the parameters
// alone, and what a tile adds to the gradient on that tile alone, to the last bit: neither on the other
// tiles, nor on the place of a sample in its tile, nor on how many workers share the work.
//
// Where this departs from the reference: nothing is conditioned frame by frame (local_cond_dim).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/nn/tile_team.hpp"
#include "src/learning/parameter_tensors.hpp"
#include "src/learning/tile_run.hpp"
#include "src/learning/totals.hpp"

namespace maniple {

struct UnetShape {
  int actions = 0;           // components of an action
  int horizon = 16;          // frames of a sample; halved between two widths
  int condition = 0;         // numbers that condition a sample (global_cond_dim); may be 0
  int step_embedding = 256;  // units of the embedding of the diffusion step (diffusion_step_embed_dim)
  std::vector<int> widths = {256, 512, 1024};  // channels of each level (down_dims)
  int kernel_size = 5;                         // of the convolutions; odd
  int groups = 8;                              // of group normalization; the last block always has 8
  bool predict_scale = true;                   // FiLM with a scale (cond_predict_scale), or bias only
};

// The first thing that makes a shape impossible, if anything.
std::optional<ShapeFault> fault_of(const UnetShape& shape);

template <class T>
struct UnetInput {
  int tiles = 0;
  TileRun<const T> noisy;      // [horizon][actions][32]
  TileRun<const T> step;       // [32]: diffusion step, a whole number
  TileRun<const T> condition;  // [condition][32]
  TileSamples samples = {};    // of these tiles
};

template <class T>
class ConditionalUnet {
 public:
  // For runs of at most `most_tiles` tiles. `learns`: with memory for backward(). `mixed`: factors of
  // products are rounded to bfloat16, where kMultipliesBfloat16 (kernels/nn/bfloat16.hpp) and T is float. The
  // shape has no fault.
  ConditionalUnet(const UnetShape& shape, int most_tiles, bool learns, bool mixed = false);
  ~ConditionalUnet();
  ConditionalUnet(const ConditionalUnet&) = delete;
  ConditionalUnet& operator=(const ConditionalUnet&) = delete;

  // Bytes that such a network takes on the device, without its parameters, which are the caller's.
  static std::size_t bytes(const UnetShape& shape, int most_tiles, bool learns, bool mixed = false);
  // As many tiles as are worth working on at once: more of them cost memory and gain nothing.
  static int good_run(const UnetShape& shape);

  const UnetShape& shape() const;
  int most_tiles() const;
  // Length of the flat buffer of parameters.
  std::int64_t parameters() const;
  static std::int64_t parameters(const UnetShape& shape);
  const std::vector<ParameterTensor>& tensors() const;
  // torch's initial values.
  std::vector<T> initial_parameters(std::uint32_t seed) const;

  // Predicts for a run of tiles: prediction [horizon][actions][32] of each tile.
  void forward(const Numbers<T>& parameters, const UnetInput<T>& input, const TileRun<T>& prediction);
  // After forward() with the same arguments: given the derivatives of a loss by the prediction, the gradient
  // of each block of samples, summed over them, is rounded (kernels/nn/exact_totals.hpp; not with `exact`
  // false) and added to gradient[parameters()]; the number of terms that are too large for that, or not
  // finite, is added to *inexact. Lanes whose delta is zero contribute nothing, as long as their inputs are
  // finite. Both pointers are device memory; only one set of totals is needed, whatever the number of
  // workers. Where `condition_delta` is given, the derivatives by the condition go there; it may be the
  // condition's own place.
  void backward(const Numbers<T>& parameters, const UnetInput<T>& input, const TileRun<const T>& delta,
                bool exact, double* gradient, double* inexact, const TileRun<T>& condition_delta = {});

 private:
  struct Memory;
  std::unique_ptr<Memory> memory_;
};

}  // namespace maniple
