// A diffusion policy (Chi et al. 2023): from the last observations it plans a sequence of actions, out of
// noise, does some of them and plans anew.
#pragma once

#include <memory>
#include <vector>

#include "src/config/config.hpp"
#include "src/learning/acting_policy.hpp"
#include "src/learning/conditional_unet.hpp"
#include "src/learning/noise_schedule.hpp"
#include "src/learning/policy.hpp"

namespace maniple {

// The denoising network of a configuration, with so many observations of a frame and actions. InputError,
// which names the key, where there is no such network.
UnetShape unet_shape(const Config& config, int observations, int actions);

class DiffusionPolicy : public ActingPolicy {
 public:
  // It plans for at most 32 x `tiles` environments at a time.
  DiffusionPolicy(const Config& config, int observations, int actions, std::int64_t tiles);
  // Bytes on a rank.
  static std::size_t bytes(const Config& config, int observations, int actions, std::int64_t tiles);

  std::unique_ptr<PolicyRunner> act_in(Environment& environment) override;
  // Tensors by torch's names, in its order, and the units of the data.
  void describe(Archive& archive) override;
  void restored() override;

  const DiffusionConfig& config() const { return config_; }
  const NoiseSchedule& schedule() const { return schedule_; }
  const UnetShape& shape() const { return unet_.shape(); }
  ConditionalUnet<float>& network() { return unet_; }
  const Numbers<float>& parameters() const { return parameters_; }
  const DataUnits& units() const { return units_; }
  void set_units(const DataUnits& units) { units_ = units; }

 private:
  const DiffusionConfig config_;
  const NoiseSchedule schedule_;
  ConditionalUnet<float> unet_;
  Numbers<float> parameters_;
  std::vector<float> tensors_;  // of the parameters, one tensor after the other, as files have them
  DataUnits units_;             // of a frame
};

}  // namespace maniple
