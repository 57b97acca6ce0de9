// The threshold that MuJoCo's formulas share, for kernels and for what is derived on the host.
#pragma once

namespace maniple {

// mjMINVAL: norms and divisors below this count as zero.
inline constexpr double kMinimumValue = 1e-15;

}  // namespace maniple
