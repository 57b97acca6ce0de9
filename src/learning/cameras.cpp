#include "src/learning/cameras.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "kernels/base/philox.hpp"
#include "src/base/error.hpp"

namespace maniple {
namespace {

// Tiles of images, 32 of one frame, that an encoder has at a time. What does not fit into this much memory
// is gone through twice, as the backward pass needs what the forward pass leaves.
std::int64_t run_of(const ImageEncoderShape& shape, std::int64_t tiles) {
  constexpr std::size_t kKeptBytes = std::size_t{1} << 29;
  const auto kept = static_cast<std::int64_t>(kKeptBytes / ImageEncoder<float>::bytes(shape, 1, true));
  return std::clamp<std::int64_t>(tiles, 1,
                                  std::max<std::int64_t>(kept, ImageEncoder<float>::good_run(shape)));
}

}  // namespace

std::vector<Camera> cameras_of(const Config& config, const DemonstrationContents& contents) {
  const ImageConfig& image = config.image;
  std::vector<Camera> cameras;
  for (const DemonstrationContents::Camera& images : contents.cameras) {
    const auto refuse = [&](const std::string& key, const std::string& found, const std::string& allowed) {
      throw InputError(config.where_of(key), key, found, allowed);
    };
    Camera camera{images, {}};
    ImageEncoderShape& shape = camera.encoder;
    shape.height = image.crop.empty() ? images.height : image.crop[0];
    shape.width = image.crop.empty() ? images.width : image.crop[1];
    shape.channels = images.channels;
    shape.base_width = image.base_width;
    shape.keypoints = image.keypoints;
    shape.features = image.features;
    if (shape.height > images.height || shape.width > images.width)
      refuse("image.crop", fmt::format("found [{}, {}]", shape.height, shape.width),
             fmt::format("allowed: at most [{}, {}], the size of the images of {}", images.height,
                         images.width, images.name));
    if (const auto fault = fault_of(shape)) {
      static const std::map<std::string, std::string> keys{{"base_width", "image.base_width"},
                                                           {"keypoints", "image.keypoints"},
                                                           {"features", "image.features"}};
      const auto key = keys.find(fault->member);
      refuse(key == keys.end() ? "image.crop" : key->second,
             fmt::format("found {} with images of {}", fault->found, images.name),
             "allowed: " + fault->allowed);
    }
    cameras.push_back(camera);
  }
  return cameras;
}

std::string text_of(const std::vector<Camera>& cameras) {
  std::vector<std::string> texts;
  for (const auto& [images, encoder] : cameras)
    texts.push_back(fmt::format("{} {}x{}x{}", images.name, images.height, images.width, images.channels));
  return fmt::format("{}", fmt::join(texts, ", "));
}

int features_of(const std::vector<Camera>& cameras) {
  int count = 0;
  for (const Camera& camera : cameras) count += camera.encoder.features;
  return count;
}

int pixels_of(const std::vector<Camera>& cameras) {
  int count = 0;
  for (const Camera& camera : cameras) count += camera.pixels();
  return count;
}

CropPlace middle_crop(const Camera& camera) {
  return {(camera.images.height - camera.encoder.height) / 2,
          (camera.images.width - camera.encoder.width) / 2};
}

CropPlace random_crop(const Camera& camera, std::uint32_t seed, std::int64_t update, std::int64_t place,
                      int image) {
  const PhiloxBlock random =
      random_block(seed, RandomPurpose::image_crop, static_cast<std::uint64_t>(place),
                   static_cast<std::uint32_t>(update), static_cast<std::uint32_t>(image));
  const auto below = [](std::uint32_t word, int count) {
    return static_cast<int>(std::uint64_t{word} * static_cast<std::uint64_t>(count) >> 32);
  };
  return {below(random.word[0], camera.images.height - camera.encoder.height + 1),
          below(random.word[1], camera.images.width - camera.encoder.width + 1)};
}

void lay_images(const std::vector<Camera>& cameras, const Demonstrations& demonstrations,
                const std::vector<std::int64_t>& rows, std::uint32_t seed, std::int64_t update,
                std::int64_t place, std::uint8_t* first) {
  int image = 0;
  for (const std::int64_t row : rows)
    for (const Camera& camera : cameras) {
      const CropPlace crop =
          update == kHeldOut ? middle_crop(camera) : random_crop(camera, seed, update, place, image++);
      const std::uint8_t* const pixels = demonstrations.image(row, camera.images);
      const int line = camera.encoder.width * camera.encoder.channels;
      for (int y = 0; y < camera.encoder.height; ++y) {
        const std::uint8_t* const from =
            pixels + (static_cast<std::int64_t>(crop.row + y) * camera.images.width + crop.column) *
                         camera.images.channels;
        for (int i = 0; i < line; ++i, first += kTileWidth) *first = from[i];
      }
    }
}

CameraEncoders::CameraEncoders(const std::vector<Camera>& cameras, int frames, std::int64_t tiles, bool mixed)
    : cameras_(cameras), frames_(frames), elements_(cameras.size()) {
  for (const Camera& camera : cameras_) {
    encoders_.push_back(std::make_unique<ImageEncoder<float>>(
        camera.encoder, static_cast<int>(run_of(camera.encoder, tiles * frames)), true, mixed));
    first_.push_back(first_.back() + encoders_.back()->parameters());
    features_.emplace_back("maniple::image_features", static_cast<std::size_t>(tiles * frames) *
                                                          static_cast<std::size_t>(camera.encoder.features) *
                                                          kTileWidth);
    again_.emplace_back("maniple::image_features_again",
                        static_cast<std::size_t>(encoders_.back()->most_tiles()) *
                            static_cast<std::size_t>(camera.encoder.features) * kTileWidth);
  }
}

std::size_t CameraEncoders::bytes(const std::vector<Camera>& cameras, int frames, std::int64_t tiles,
                                  bool mixed) {
  std::size_t count = 0;
  for (const Camera& camera : cameras)
    count += ImageEncoder<float>::bytes(
                 camera.encoder, static_cast<int>(run_of(camera.encoder, tiles * frames)), true, mixed) +
             sizeof(float) * static_cast<std::size_t>(tiles * frames) *
                 static_cast<std::size_t>(camera.encoder.features) * kTileWidth;
  return count;
}

std::int64_t CameraEncoders::parameters(const std::vector<Camera>& cameras) {
  std::int64_t count = 0;
  for (const Camera& camera : cameras) count += ImageEncoder<float>::parameters(camera.encoder);
  return count;
}

std::vector<float> CameraEncoders::initial_parameters(std::uint32_t seed) const {
  std::vector<float> all;
  for (std::size_t c = 0; c < encoders_.size(); ++c) {
    const std::vector<float> own = encoders_[c]->initial_parameters(seed, static_cast<int>(c));
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

void CameraEncoders::describe(Archive& archive, const float* parameters) {
  for (std::size_t c = 0; c < encoders_.size(); ++c) {
    elements_[c] = in_torch_order(encoders_[c]->tensors(),
                                  std::vector<float>(parameters + first_[c], parameters + first_[c + 1]));
    describe_tensors(encoders_[c]->tensors(), "policy/cameras/" + cameras_[c].images.name + "/",
                     elements_[c].data(), archive);
  }
}

void CameraEncoders::restored(float* parameters) const {
  for (std::size_t c = 0; c < encoders_.size(); ++c) {
    const std::vector<float> flat = from_torch_order(encoders_[c]->tensors(), elements_[c]);
    std::copy(flat.begin(), flat.end(), parameters + first_[c]);
  }
}

TileRun<const std::uint8_t> CameraEncoders::pixels_of_run(std::size_t camera, const std::uint8_t* pixels,
                                                          std::int64_t first) const {
  const std::int64_t tile_stride = std::int64_t{pixels_of(cameras_)} * kTileWidth;
  std::int64_t before = 0;
  for (std::size_t c = 0; c < camera; ++c) before += std::int64_t{cameras_[c].pixels()} * kTileWidth;
  return {pixels + first * tile_stride + before, tile_stride};
}

TileRun<float> CameraEncoders::features_of_run(std::size_t camera, std::int64_t first) const {
  const std::int64_t tile_stride = std::int64_t{cameras_[camera].encoder.features} * kTileWidth;
  return {features_[camera].data() + first * tile_stride, tile_stride};
}

TileSamples CameraEncoders::samples_of_run(const TileSamples& samples, std::int64_t first) const {
  return {.block = samples.block,
          .samples = samples.samples,
          .first = samples.first * frames_ + first,
          .maps = frames_};
}

void CameraEncoders::encode(const float* parameters, const std::uint8_t* pixels, std::int64_t tiles,
                            const TileSamples& samples) {
  for (std::size_t c = 0; c < encoders_.size(); ++c) {
    const std::int64_t most = encoders_[c]->most_tiles();
    for (std::int64_t first = 0; first < tiles * frames_; first += most)
      encoders_[c]->forward(parameters + first_[c], static_cast<int>(std::min(most, tiles * frames_ - first)),
                            pixels_of_run(c, pixels, first), features_of_run(c, first),
                            samples_of_run(samples, first));
  }
}

FeatureMap<float> CameraEncoders::features(std::size_t camera, int frame) const {
  const TileRun<float> run = features_of_run(camera, frame);
  const int count = cameras_[camera].encoder.features;
  return {run.first, run.tile_stride * frames_, 1, count, count};
}

void CameraEncoders::backward(const float* parameters, const std::uint8_t* pixels, std::int64_t tiles,
                              const TileSamples& samples, bool exact, double* gradient, double* inexact) {
  for (std::size_t c = 0; c < encoders_.size(); ++c) {
    ImageEncoder<float>& encoder = *encoders_[c];
    const std::int64_t most = encoder.most_tiles(), runs = (tiles * frames_ + most - 1) / most;
    for (std::int64_t run = runs - 1; run >= 0; --run) {
      const std::int64_t first = run * most;
      const int count = static_cast<int>(std::min(most, tiles * frames_ - first));
      const TileRun<float> delta = features_of_run(c, first);
      // what encode() left is that of the last run; others are gone through once more
      if (run + 1 < runs)
        encoder.forward(parameters + first_[c], count, pixels_of_run(c, pixels, first),
                        {again_[c].data(), delta.tile_stride}, samples_of_run(samples, first));
      encoder.backward(parameters + first_[c], count, {delta.first, delta.tile_stride}, exact,
                       gradient + first_[c], inexact, samples_of_run(samples, first));
    }
  }
}

}  // namespace maniple
