// Settings for Open MPI of a process without a launcher, and that none of them remain.
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "src/parallel/launch.hpp"

namespace maniple {
namespace {

std::optional<std::string> variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

// The variables as they were, whatever a test does with them.
class LaunchedAloneTest : public ::testing::Test {
 protected:
  static constexpr const char* kNames[] = {"OMPI_COMM_WORLD_SIZE",
                                           "PMI_SIZE",
                                           "PALS_LOCAL_SIZE",
                                           "SLURM_STEP_NUM_TASKS",
                                           "PMIX_RANK",
                                           "OMPI_MCA_pml",
                                           "OMPI_MCA_ess_singleton_isolated",
                                           "OMPI_MCA_orte_create_session_dirs"};
  void SetUp() override {
    for (const char* const name : kNames) {
      kept_.push_back(variable(name));
      unsetenv(name);
    }
  }
  void TearDown() override {
    for (std::size_t i = 0; i < kept_.size(); ++i)
      if (kept_[i])
        setenv(kNames[i], kept_[i]->c_str(), 1);
      else
        unsetenv(kNames[i]);
  }
  std::vector<std::optional<std::string>> kept_;
};

TEST_F(LaunchedAloneTest, NeedsNoNetworkAndLeavesTheEnvironment) {
  {
    const LaunchedAlone alone;
    EXPECT_EQ(variable("OMPI_MCA_pml"), "ob1");
    EXPECT_EQ(variable("OMPI_MCA_ess_singleton_isolated"), "1");
    EXPECT_EQ(variable("OMPI_MCA_orte_create_session_dirs"), "0");
  }
  EXPECT_FALSE(variable("OMPI_MCA_pml"));
  EXPECT_FALSE(variable("OMPI_MCA_ess_singleton_isolated"));
}

TEST_F(LaunchedAloneTest, WhatTheUserHasSetStays) {
  setenv("OMPI_MCA_pml", "ucx", 1);
  { const LaunchedAlone alone; }
  EXPECT_EQ(variable("OMPI_MCA_pml"), "ucx");
}

TEST_F(LaunchedAloneTest, AsksForNothingUnderALauncher) {
  for (const char* const name : {"OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "PMIX_RANK"}) {
    setenv(name, "1", 1);
    const LaunchedAlone alone;
    EXPECT_FALSE(variable("OMPI_MCA_pml")) << name;
    unsetenv(name);
  }
}

}  // namespace
}  // namespace maniple
