// Adam (Kingma and Ba 2015, algorithm 1) and clipping by the norm of the whole gradient. Every rank
// applies the same step to the same numbers, so parameters never need to be exchanged.
#pragma once

#include "kernels/base/pack.hpp"

namespace maniple {

// Parameters that steps leave within bounds.
struct ParameterBounds {
  std::int64_t first = 0, count = 0;
  double lowest = 0, highest = 0;
};

struct AdamSettings {
  double learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double correction1 = 1, correction2 = 1;  // 1 - beta^step
  double gradient_scale = 1;                // from norm clipping
  double weight_decay = 0;                  // decoupled from the gradient (AdamW: Loshchilov and Hutter 2019)
  double l2_penalty = 0;  // or a part of it, after clipping (torch.optim.Adam's weight_decay)
  ParameterBounds bounds = {};
};

// One parameter's step; the moments are updated in place.
template <class T>
MANIPLE_FUNCTION void adam_step(const AdamSettings& s, double gradient, T& parameter, T& moment1,
                                T& moment2) {
  T g = static_cast<T>(gradient * s.gradient_scale);
  if (s.l2_penalty > 0) g += static_cast<T>(s.l2_penalty) * parameter;
  moment1 = static_cast<T>(s.beta1) * moment1 + static_cast<T>(1 - s.beta1) * g;
  moment2 = static_cast<T>(s.beta2) * moment2 + static_cast<T>(1 - s.beta2) * (g * g);
  const T size = sqrt(moment2) / static_cast<T>(::sqrt(s.correction2)) + static_cast<T>(s.epsilon);
  if (s.weight_decay > 0) parameter -= static_cast<T>(s.learning_rate * s.weight_decay) * parameter;
  parameter -= static_cast<T>(s.learning_rate / s.correction1) * moment1 / size;
}

// Sum of squares in a fixed order: blocks of this size, each in so many columns that no addition waits for
// the one before it, then the columns, then the blocks.
inline constexpr int kNormBlock = 256, kNormColumns = 16;

template <class GradientView>
MANIPLE_FUNCTION double sum_of_squares(const GradientView& gradient, std::int64_t first, std::int64_t after) {
  double column[kNormColumns] = {};
  std::int64_t i = first;
  for (; i + kNormColumns <= after; i += kNormColumns)
    for (int k = 0; k < kNormColumns; ++k) column[k] += gradient(i + k) * gradient(i + k);
  for (int k = 0; i + k < after; ++k) column[k] += gradient(i + k) * gradient(i + k);
  double sum = 0;
  for (int k = 0; k < kNormColumns; ++k) sum += column[k];
  return sum;
}

template <class GradientView, class BlockView>
double gradient_norm(const GradientView& gradient, std::int64_t count, const BlockView& blocks) {
  const std::int64_t num_blocks = (count + kNormBlock - 1) / kNormBlock;
  Kokkos::parallel_for(
      "maniple::gradient_norm", Kokkos::RangePolicy<ExecutionSpace>(0, num_blocks),
      MANIPLE_LAMBDA(std::int64_t block) {
        const std::int64_t first = block * kNormBlock, after = first + kNormBlock;
        blocks(block) = sum_of_squares(gradient, first, after < count ? after : count);
      });
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), blocks);
  double sum = 0;
  for (std::int64_t block = 0; block < num_blocks; ++block) sum += host(block);
  return ::sqrt(sum);
}

template <class T, class GradientView, class ParameterView>
void apply_adam(const AdamSettings& settings, const GradientView& gradient, std::int64_t count,
                const ParameterView& parameters, const ParameterView& moment1, const ParameterView& moment2) {
  Kokkos::parallel_for(
      "maniple::apply_adam", Kokkos::RangePolicy<ExecutionSpace>(0, count), MANIPLE_LAMBDA(std::int64_t i) {
        adam_step<T>(settings, gradient(i), parameters(i), moment1(i), moment2(i));
        const ParameterBounds& bounds = settings.bounds;
        if (i < bounds.first || i >= bounds.first + bounds.count) return;
        const T low = static_cast<T>(bounds.lowest), high = static_cast<T>(bounds.highest);
        parameters(i) = parameters(i) < low ? low : high < parameters(i) ? high : parameters(i);
      });
}

}  // namespace maniple
