// The numbers with which the network of a policy begins. Encoders of images and denoising networks draw their
// own (image_encoder.hpp, conditional_unet.hpp).
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/nn/network.hpp"
#include "src/config/config.hpp"

namespace maniple {

// Weights uniform in +-1/sqrt(inputs) (as torch does) or +-sqrt(3/inputs) (flax), or a
// random orthogonal matrix (Saxe, McClelland, Ganguli 2014) times the layer's gain; zero biases, the
// configured standard deviation. Gates of recurrent cells are uniform in +-1/sqrt(state), or orthogonal with
// gain 1. Drawn per weight from (seed, layer, output, input). Of a mixture, the biases of the means are
// drawn, too.
std::vector<float> initial_parameters(const Network& network, const PolicyConfig& config, std::uint32_t seed);

}  // namespace maniple
