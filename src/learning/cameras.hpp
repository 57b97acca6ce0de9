// The images of a policy: each camera has an encoder of its own (src/learning/image_encoder.hpp), whose
// features stand beside the vectors in the policy's input, and whose parameters lie before the policy's in
// one flat buffer. Crops are drawn while a policy learns, as robomimic's CropRandomizer draws one for each
// image; but over all places, where robomimic's leave out the last row and column.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/nn/feature_map.hpp"
#include "src/config/config.hpp"
#include "src/io/archive.hpp"
#include "src/io/demonstrations.hpp"
#include "src/learning/image_encoder.hpp"
#include "src/learning/totals.hpp"

namespace maniple {

// The images of one camera, and what they are encoded by.
struct Camera {
  DemonstrationContents::Camera images;
  ImageEncoderShape encoder;  // of the crops

  // Numbers of a crop.
  int pixels() const { return encoder.height * encoder.width * encoder.channels; }
};

// The cameras of the data, with crops as image.crop says. InputError, which names the key, where a crop is
// larger than a image or too small for an encoder.
std::vector<Camera> cameras_of(const Config& config, const DemonstrationContents& contents);
// "agentview_image 84x84x3, wrist 32x32x3"
std::string text_of(const std::vector<Camera>& cameras);
// Numbers that the images of one frame become, and pixels of their crops.
int features_of(const std::vector<Camera>& cameras);
int pixels_of(const std::vector<Camera>& cameras);

// The crop that a camera's image is cut to: its upper left corner.
struct CropPlace {
  int row = 0, column = 0;
};
CropPlace middle_crop(const Camera& camera);
// Uniform over all places, by (seed, update, place of the sample in the batch of all ranks, image of the
// sample).
CropPlace random_crop(const Camera& camera, std::uint32_t seed, std::int64_t update, std::int64_t place,
                      int image);

// In the place of the number of an update: held out samples are looked at.
constexpr std::int64_t kHeldOut = -1;

// Lays the images of a sample among those of its tile, [frame][camera][height][width][channels][32], with
// random crops, or, where the sample is held out, crops of the middle. `rows`: the rows of the sample's
// frames, the oldest first. `first`: the first number of the sample's lane.
void lay_images(const std::vector<Camera>& cameras, const Demonstrations& demonstrations,
                const std::vector<std::int64_t>& rows, std::uint32_t seed, std::int64_t update,
                std::int64_t place, std::uint8_t* first);

class CameraEncoders {
 public:
  // For samples with `frames` images of each camera, at most `tiles` tiles of them at a time.
  // `mixed`: see ImageEncoder.
  CameraEncoders(const std::vector<Camera>& cameras, int frames, std::int64_t tiles, bool mixed);
  // Bytes on the device, without the parameters.
  static std::size_t bytes(const std::vector<Camera>& cameras, int frames, std::int64_t tiles, bool mixed);
  static std::int64_t parameters(const std::vector<Camera>& cameras);

  const std::vector<Camera>& cameras() const { return cameras_; }
  int frames() const { return frames_; }
  // How many the encoders of all cameras have, one after the other; a multiple of kParameterPadding.
  std::int64_t parameters() const { return first_.back(); }
  std::vector<float> initial_parameters(std::uint32_t seed) const;

  // Entries policy/cameras/<camera>/<tensor>, of the parameters on the host, and back.
  void describe(Archive& archive, const float* parameters);
  void restored(float* parameters) const;

  // Encodes all frames of `tiles` tiles of samples, whose images lie as lay_images() lays them.
  void encode(const float* parameters, const std::uint8_t* pixels, std::int64_t tiles,
              const TileSamples& samples);
  // Features of a camera's images of one frame of the samples, and later their derivatives.
  FeatureMap<float> features(std::size_t camera, int frame) const;
  // After encode() with the same arguments: adds the gradient, given the derivatives by the features. Both
  // pointers as in ImageEncoder::backward().
  void backward(const float* parameters, const std::uint8_t* pixels, std::int64_t tiles,
                const TileSamples& samples, bool exact, double* gradient, double* inexact);

 private:
  TileRun<const std::uint8_t> pixels_of_run(std::size_t camera, const std::uint8_t* pixels,
                                            std::int64_t first) const;
  TileRun<float> features_of_run(std::size_t camera, std::int64_t first) const;
  TileSamples samples_of_run(const TileSamples& samples, std::int64_t first) const;

  const std::vector<Camera> cameras_;
  const int frames_;
  std::vector<std::unique_ptr<ImageEncoder<float>>> encoders_;
  std::vector<std::int64_t> first_{0};        // parameter of each camera, and their number
  std::vector<Numbers<float>> features_;      // [tile][frame][features][32] of each camera
  std::vector<Numbers<float>> again_;         // features of a run that is encoded once more
  std::vector<std::vector<float>> elements_;  // of each camera's tensors, as files have them
};

}  // namespace maniple
