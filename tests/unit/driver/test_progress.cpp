// The progress line: its text at the start of a run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "src/driver/progress.hpp"

namespace maniple {
namespace {

using testing::HasSubstr;

TEST(Progress, SaysNothingOfTheFirstMoment) {
  const auto started = std::chrono::steady_clock::now();
  testing::internal::CaptureStdout();
  Progress progress(1000, ProgressStyle::plain, true);
  progress.update(1, "first");
  const auto elapsed = std::chrono::steady_clock::now() - started;
  const std::string at_once = testing::internal::GetCapturedStdout();
  if (elapsed < std::chrono::seconds(1)) {
    EXPECT_EQ(at_once, "");
  }
  testing::internal::CaptureStdout();
  progress.update(1000, "last");
  EXPECT_THAT(testing::internal::GetCapturedStdout(), HasSubstr("1000/1000  last  eta 0:00"));
}

}  // namespace
}  // namespace maniple
