// Noise schedules of diffusion, and the steps that remove the noise: the schedule squaredcos_cap_v2 (Nichol
// and Dhariwal 2021), DDPM's step with the small fixed variance (Ho et al. 2020) and DDIM's without any (Song
// et al. 2021), as diffusers' DDPMScheduler and DDIMScheduler compute them.
#pragma once

#include <vector>

#include "kernels/nn/diffusion.hpp"
#include "src/config/config.hpp"

namespace maniple {

class NoiseSchedule {
 public:
  explicit NoiseSchedule(const DiffusionConfig& config);

  int steps() const { return static_cast<int>(alphas_cumprod_.size()); }
  // At a step a sequence x with the noise z is sqrt_alphas_cumprod x + sqrt_one_minus_alphas_cumprod z:
  // [steps], single precision as in torch.
  std::vector<float> sqrt_alphas_cumprod() const;
  std::vector<float> sqrt_one_minus_alphas_cumprod() const;
  // From noise to an action sequence: diffusion.inference_steps of them, in the order in which they are done.
  std::vector<DenoisingStep> denoising() const;

 private:
  const DiffusionConfig config_;
  std::vector<double> alphas_cumprod_;  // by step: the share of the signal's variance that is left
};

}  // namespace maniple
