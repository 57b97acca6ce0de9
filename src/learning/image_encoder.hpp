// The encoder of camera images: ResNet-18 (He et al. 2016) with group normalization (Wu and He 2018) in place
// of batch normalization, the expected coordinates of its maps (spatial softmax, Finn et al. 2016) and a
// linear layer. Its parts are robomimic's VisualCore; its normalization, of 16 channels a group, is that of
// the diffusion_policy reference, where running statistics would not fit averages of parameters.
//
// It works on tiles of 32 images, as src/learning/conditional_unet.hpp does on samples, with the same
// promise: what an image gives depends on that image and the parameters alone, and what a tile adds to the
// gradient on that tile alone, to the last bit.
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

struct ImageEncoderShape {
  int height = 0, width = 0;  // of the images, cropped; one of them above 32, of which the maps have a pixel
  int channels = 3;
  int base_width = 64;  // channels of the first of four stages; each has twice as many as the one before
  int keypoints = 32;   // maps of which coordinates are taken
  int features = 64;    // numbers that an image becomes
};

// The first thing that makes a shape impossible, if anything.
std::optional<ShapeFault> fault_of(const ImageEncoderShape& shape);

template <class T>
class ImageEncoder {
 public:
  // For runs of at most `most_tiles` tiles. `learns`: with memory for backward(). The shape has no fault.
  ImageEncoder(const ImageEncoderShape& shape, int most_tiles, bool learns, bool mixed = false);
  ~ImageEncoder();
  ImageEncoder(const ImageEncoder&) = delete;
  ImageEncoder& operator=(const ImageEncoder&) = delete;

  // Bytes that such an encoder takes on the device, without its parameters, which are the caller's. With
  // `learns`: what the forward pass leaves for the backward pass, some 100 MB per tile of 76 x 76 pixels.
  static std::size_t bytes(const ImageEncoderShape& shape, int most_tiles, bool learns, bool mixed = false);
  // As many tiles as are worth working on at once: more of them cost memory and gain nothing.
  static int good_run(const ImageEncoderShape& shape);

  const ImageEncoderShape& shape() const;
  int most_tiles() const;
  // Length of the flat buffer of parameters, a multiple of kParameterPadding.
  std::int64_t parameters() const;
  static std::int64_t parameters(const ImageEncoderShape& shape);
  // Named as in robomimic's VisualCore: "backbone.nets.4.0.conv1.weight", "pool.nets.bias", "nets.3.weight".
  const std::vector<ParameterTensor>& tensors() const;
  // torchvision's initial values of a ResNet (He et al. 2015), torch's of what follows it. Encoders of
  // several cameras are numbered, so that they differ.
  std::vector<T> initial_parameters(std::uint32_t seed, int camera) const;

  // Encodes `tiles` tiles of images: pixels [height][width][channels][32] (as files have them, samples last),
  // features [features][32] of each tile. A pixel p becomes p / 127.5 - 1, as the diffusion_policy reference
  // normalizes images. parameters: [parameters()], in the memory of the device.
  // `samples`: of these tiles.
  void forward(const T* parameters, int tiles, const TileRun<const std::uint8_t>& pixels,
               const TileRun<T>& features, const TileSamples& samples = {});
  // After forward() with the same parameters and tiles, and no other forward() in between: given the
  // derivatives of a loss by the features, the gradient of each block of images, summed over them, is rounded
  // (kernels/nn/exact_totals.hpp; not with `exact` false) and added to gradient[parameters()]; the number of
  // terms that are too large for that, or not finite, is added to *inexact. Lanes whose delta is zero
  // contribute nothing, whatever their pixels. Both pointers are device memory.
  void backward(const T* parameters, int tiles, const TileRun<const T>& delta, bool exact, double* gradient,
                double* inexact, const TileSamples& samples = {});

 private:
  struct Memory;
  std::unique_ptr<Memory> memory_;
};

}  // namespace maniple
