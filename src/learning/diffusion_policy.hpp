// A diffusion policy (Chi et al. 2023): from the last observations it generates a sequence of actions out of
// noise, executes the first ones and generates again.
#pragma once

#include <memory>
#include <vector>

#include "src/config/config.hpp"
#include "src/learning/acting_policy.hpp"
#include "src/learning/conditional_unet.hpp"
#include "src/learning/noise_schedule.hpp"
#include "src/learning/policy.hpp"

namespace maniple {

// The denoising network of a configuration, with this many observations of a frame and actions. InputError,
// which names the key, where there is no such network.
UnetShape unet_shape(const Config& config, int observations, int actions);

// Tiles that such a network works on at a time, of `tiles` in all.
int tiles_of_run(const UnetShape& shape, std::int64_t tiles);

class DiffusionPolicy : public ActingPolicy {
 public:
  // Samples the actions of at most 32 x `tiles` environments at a time. `cameras`: encoders whose features
  // stand behind the observations of each frame, and whose parameters are the first of the policy; they
  // outlive it. Null: it sees no images.
  DiffusionPolicy(const Config& config, int observations, int actions, std::int64_t tiles,
                  CameraEncoders* cameras = nullptr);
  // Bytes on a rank.
  static std::size_t bytes(const Config& config, int observations, int actions, std::int64_t tiles);

  bool remembers() const override { return true; }
  std::unique_ptr<PolicyRunner> act_in(Environment& environment) override;
  // Tensors by torch's names, in its order, and the units of the data.
  void describe(Archive& archive) override;
  void restored() override;

  const DiffusionConfig& config() const { return config_; }
  const NoiseSchedule& schedule() const { return schedule_; }
  const UnetShape& shape() const { return unet_.shape(); }
  ConditionalUnet<float>& network() { return unet_; }
  // The parameters of the encoders of cameras, and then those of the network.
  const Numbers<float>& parameters() const { return parameters_; }
  std::int64_t first_of_network() const { return cameras_ ? cameras_->parameters() : 0; }
  const DataNormalization& normalization() const { return normalization_; }
  void set_normalization(const DataNormalization& normalization) { normalization_ = normalization; }

 private:
  const DiffusionConfig config_;
  const NoiseSchedule schedule_;
  CameraEncoders* const cameras_;
  ConditionalUnet<float> unet_;
  Numbers<float> parameters_;
  Numbers<float>::HostMirror parameters_host_;
  std::vector<float> tensors_;       // of the network's, one tensor after the other, as files have them
  DataNormalization normalization_;  // of a frame
};

}  // namespace maniple
