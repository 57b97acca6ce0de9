// The fence around libmujoco: a fatal error becomes an exception and the process goes on, a warning text.
#include <gtest/gtest.h>
#include <mujoco/mujoco.h>

#include <string>
#include <vector>

#include "src/base/error.hpp"
#include "src/model_import/mujoco_guard.hpp"

namespace maniple {
namespace {

TEST(MujocoGuard, FatalErrorsBecomeExceptions) {
  void (*const before)(const char*) = mju_user_error;
  std::vector<std::string> warnings;
  for (int attempt = 0; attempt < 2; ++attempt) {
    try {
      guarded([] { mju_error("out of luck: %d", 7); }, warnings);
      FAIL() << "returned from a fatal error";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("out of luck: 7"), std::string::npos) << error.what();
    }
    EXPECT_EQ(mju_user_error, before);
  }
}

TEST(MujocoGuard, WarningsAreCollected) {
  std::vector<std::string> warnings;
  int result = 0;
  guarded(
      [&] {
        mju_warning("careful: %s", "now");
        result = 5;
      },
      warnings);
  EXPECT_EQ(result, 5);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("careful: now"), std::string::npos) << warnings[0];
}

TEST(MujocoGuard, OtherExceptionsPass) {
  std::vector<std::string> warnings;
  EXPECT_THROW(guarded([] { throw InputError("mine"); }, warnings), InputError);
  EXPECT_EQ(mju_user_warning, nullptr);
}

}  // namespace
}  // namespace maniple
