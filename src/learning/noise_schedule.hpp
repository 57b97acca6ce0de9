// How much noise a diffusion step has, and how it is taken away again: the schedule squaredcos_cap_v2 (Nichol
// and Dhariwal 2021), DDPM's step with the small fixed variance (Ho et al. 2020) and DDIM's without any
// (Song et al. 2021), as diffusers' DDPMScheduler and DDIMScheduler compute them.
#pragma once

#include <vector>

#include "kernels/nn/diffusion.hpp"
#include "src/config/config.hpp"

namespace maniple {

class NoiseSchedule {
 public:
  explicit NoiseSchedule(const DiffusionConfig& config);

  int steps() const { return static_cast<int>(remaining_.size()); }
  // At a step a sequence x with the noise z is signal x + noise z: [steps], single precision as in torch.
  std::vector<float> signal() const;
  std::vector<float> noise() const;
  // From noise to an action sequence: diffusion.inference_steps of them, in the order in which they are done.
  std::vector<DenoisingStep> denoising() const;

 private:
  const DiffusionConfig config_;
  std::vector<double> remaining_;  // alphas_cumprod: share of the signal's variance that a step leaves
};

}  // namespace maniple
