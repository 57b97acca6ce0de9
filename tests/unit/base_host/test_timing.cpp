// Stage clocks add up what happens inside their regions, in order of first use.
#include <gtest/gtest.h>

#include "src/base/timing.hpp"

namespace maniple {
namespace {

void wait(double seconds) {
  for (const double start = wall_seconds(); wall_seconds() - start < seconds;) {
  }
}

TEST(StageClock, AddsUpRegions) {
  StageClock clock;
  for (int i = 0; i < 2; ++i) {
    StageClock::Region region(clock, "physics");
    wait(1e-3);
  }
  clock.add("task", 5);
  clock.add("task", 2);
  ASSERT_EQ(clock.seconds().size(), 2u);
  EXPECT_EQ(clock.seconds()[0].first, "physics");
  EXPECT_GE(clock.seconds("physics"), 2e-3);
  EXPECT_EQ(clock.seconds("task"), 7);
  EXPECT_EQ(clock.seconds("none"), 0);
}

TEST(StageClock, RegionsNest) {
  StageClock clock;
  {
    StageClock::Region outer(clock, "outer");
    StageClock::Region inner(clock, "inner");
    wait(1e-3);
  }
  EXPECT_GE(clock.seconds("outer"), clock.seconds("inner"));
  EXPECT_GE(clock.seconds("inner"), 1e-3);
}

}  // namespace
}  // namespace maniple
