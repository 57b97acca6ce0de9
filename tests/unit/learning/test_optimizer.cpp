// Gradients that are too large to be summed exactly: their scale, and its effect on a step.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "kernels/base/exact_sum.hpp"
#include "src/learning/optimizer.hpp"
#include "tests/unit/learning/toy_environment.hpp"

namespace maniple {
namespace {

using testing_learning::on_ranks;

// Two parameters, and a metric of 3.
struct Rig {
  LearningConfig config;
  Collectives& collectives;
  StageClock clock;
  Numbers<float> parameters{"parameters", 2};
  std::optional<Optimizer> optimizer;

  explicit Rig(Collectives& ranks, Reduction reduction = Reduction::exact) : collectives(ranks) {
    config.learning_rate = 0.125;
    config.max_grad_norm = 0;
    config.reduction = reduction;
    optimizer.emplace(config, 2, 1, 1);
  }

  // With the gradient (g, 0), summed as kernels do it.
  std::optional<double> step(double g) {
    const double summed = g * optimizer->scale();
    double* const totals = optimizer->clear_totals();
    const bool inexact = config.reduction == Reduction::exact && !(std::abs(summed) <= kExactLimit / 2);
    const double sums[] = {summed, 0, 3 * optimizer->scale(), inexact ? 1.0 : 0.0};
    using Unmanaged = Kokkos::MemoryTraits<Kokkos::Unmanaged>;
    Kokkos::deep_copy(Kokkos::View<double*, MemorySpace, Unmanaged>(totals, 4),
                      Kokkos::View<const double*, Kokkos::HostSpace, Unmanaged>(sums, 4));
    EXPECT_EQ(optimizer->sum_totals(TotalsSum(collectives, 1, clock)), std::vector<double>{3});
    return optimizer->step(parameters);
  }
};

TEST(Optimizer, ScalesWhatIsTooLargeUntilItIsExact) {
  on_ranks(1, [](int, Collectives& collectives) {
    Rig rig(collectives);
    EXPECT_EQ(rig.step(2), 2.0);
    EXPECT_EQ(rig.step(0x1p17), std::nullopt);
    EXPECT_EQ(rig.step(0x1p17), std::nullopt);
    EXPECT_EQ(rig.optimizer->scale(), 0x1p-8);
    EXPECT_EQ(rig.step(0x1p17), 0x1p17);  // the norm before scale
    // Adam's first moments are of gradients before scale, too: 0.9 (0.1 * 2) + 0.1 * 2^17 is next to all of
    // it
    const std::vector<float> parameters = testing::host_of(rig.parameters);
    const float moved = parameters[0];
    EXPECT_NEAR(moved, -0.125 * (1 + 0.1 / std::sqrt(0.001) * std::sqrt(1 - 0.999 * 0.999) / (1 - 0.81)),
                1e-3);
    EXPECT_EQ(parameters[1], 0);
    for (int i = 0; i < 998; ++i) EXPECT_EQ(rig.step(2), 2.0);
    EXPECT_EQ(rig.optimizer->scale(), 0x1p-8);
    EXPECT_EQ(rig.step(2), 2.0);
    EXPECT_EQ(rig.optimizer->scale(), 0x1p-7);
    for (int i = 0; i < 8000; ++i) rig.step(2);
    EXPECT_EQ(rig.optimizer->scale(), 1);
  });
}

TEST(Optimizer, NoScaleHelpsWhatIsNoNumber) {
  on_ranks(1, [](int, Collectives& collectives) {
    Rig rig(collectives);
    for (int i = 0; i < 20; ++i) EXPECT_EQ(rig.step(std::nan("")), std::nullopt);
    EXPECT_EQ(rig.optimizer->scale(), 0x1p-40);
    EXPECT_EQ(rig.step(2), 2.0);
  });
}

TEST(Optimizer, FastSumsNeedNoScale) {
  on_ranks(1, [](int, Collectives& collectives) {
    Rig rig(collectives, Reduction::fast);
    EXPECT_EQ(rig.step(0x1p17), 0x1p17);
    EXPECT_EQ(rig.optimizer->scale(), 1);
  });
}

// Of a deviation that is fixed, or of an actor whose critic learns alone: neither gradients nor decay move
// them, and their gradients do not count in the norm.
TEST(Optimizer, WhatIsNotLearnedStays) {
  on_ranks(1, [](int, Collectives& collectives) {
    Rig rig(collectives);
    rig.config.weight_decay = 0.5;
    for (const OptimizerChoice choice : {OptimizerChoice::adam, OptimizerChoice::adamw}) {
      rig.config.optimizer = choice;
      for (const std::int64_t moved : {0, 1}) {
        rig.optimizer.emplace(rig.config, 2, 1, 1);
        rig.optimizer->move_only(moved, moved + 1);
        Kokkos::deep_copy(rig.parameters, 3.0f);
        EXPECT_EQ(rig.step(2), moved == 0 ? 2.0 : 0.0);
        EXPECT_NE(testing::host_of(rig.parameters)[static_cast<std::size_t>(moved)], 3);
        EXPECT_EQ(testing::host_of(rig.parameters)[static_cast<std::size_t>(1 - moved)], 3);
      }
    }
  });
}

}  // namespace
}  // namespace maniple
