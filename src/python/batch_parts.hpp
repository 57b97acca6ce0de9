// The part of a batch in one process of Python: whether it
// fits into memory, and among how many threads it is divided.
#pragma once

#include "src/config/config.hpp"
#include "src/model_import/import.hpp"
#include "src/simulation/simulation.hpp"

namespace maniple {

// InputError where there is not enough memory for the environments of `partition`. `given`: the deck's
// configuration, whose places the message has; `config`: what is built of it.
void refuse_what_does_not_fit(const Config& given, const Config& config, const Prepared& prepared,
                              const Partition& partition);
// One for each of `threads`, as far as there are blocks of environments; one where kernels have threads of
// their own.
int parts_of(const Partition& partition, int threads);

}  // namespace maniple
