// Self-tests before a run: on which devices they are done, which results are kept, and which stop the run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/error.hpp"
#include "src/driver/new_device.hpp"
#include "tests/unit/io/temporary_directory.hpp"

namespace maniple {
namespace {

class NewDevice : public ::testing::Test {
 protected:
  // How often the tests ran, for a run on this device.
  int runs_on(const std::string& device, bool always = false) {
    int count = 0;
    test_new_device(
        device, always, tested_,
        [&] {
          ++count;
          return std::vector<SelfTest>{{"sum", difference_}, {"step", ""}};
        },
        session_);
    return count;
  }

  int argc_ = 0;
  char** argv_ = nullptr;
  Session session_{argc_, argv_};
  TemporaryDirectory directory_{session_.collectives()};
  const TestedDevices tested_{std::filesystem::path(directory_.path()) / "cache" / "tested_devices"};
  std::string difference_;
};

TEST_F(NewDevice, IsTestedOnce) {
  EXPECT_EQ(runs_on("H100 of driver 12"), 1);
  EXPECT_EQ(runs_on("H100 of driver 12"), 0);
  EXPECT_EQ(runs_on("H100 of driver 13"), 1);
  EXPECT_EQ(runs_on("H100 of driver 12", true), 1);
}

TEST_F(NewDevice, IsNoHost) {
  EXPECT_EQ(runs_on(""), 0);
  EXPECT_EQ(runs_on("", true), 1);
}

TEST_F(NewDevice, ThatDiffersStopsEachRun) {
  difference_ = "qpos[3] of environment 2";
  for (int run = 0; run < 2; ++run) try {
      runs_on("H100");
      FAIL() << "went on";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("rank 0: sum: qpos[3] of environment 2"));
    }
}

TEST_F(NewDevice, IsTestedEachTimeWhereNothingCanBeKept) {
  const TestedDevices nowhere{"/proc/nowhere/tested_devices"};
  nowhere.add("H100");
  EXPECT_FALSE(nowhere.has("H100"));
  EXPECT_FALSE(TestedDevices{""}.has("H100"));
}

}  // namespace
}  // namespace maniple
