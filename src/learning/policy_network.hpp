// The network of a policy: its layers and units, and where its parameters lie, as the deck asks for them. The
// class Policy acts with it (policy.hpp); estimates of memory need no more than it.
#pragma once

#include <cstdint>

#include "kernels/nn/network.hpp"
#include "src/base/error.hpp"
#include "src/config/config.hpp"
#include "src/simulation/environment.hpp"

namespace maniple {

// Layers, units and parameters of the network that a configuration asks for. Layers with a side of at
// least `blas_width` units are marked for the library. Too many layers, or layers shared with a critic that
// sees something else, are an InputError that names the place.
Network make_network(const PolicyConfig& config, const PolicySizes& sizes, std::int64_t blas_width,
                     const SourceLocation& where_hidden = {}, const SourceLocation& where_shared = {});
// The same, with places from the deck.
Network make_network(const Config& config, const PolicySizes& sizes);
PolicySizes policy_sizes(const Environment& environment);
// The first parameter of a critic with layers of its own; its parameters end where log_std begins.
std::int64_t first_of_critic(const Network& network);

}  // namespace maniple
