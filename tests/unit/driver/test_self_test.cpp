// The self-tests of maniple doctor: both sides are equal, and a difference in the last bit of one is found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "src/driver/self_test.hpp"

namespace maniple {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(SelfTest, FindsNoDifference) {
  const std::vector<SelfTest> tests = run_self_tests();
  EXPECT_GE(tests.size(), 9u);  // three models in two precisions, and three more
  for (const SelfTest& test : tests) EXPECT_EQ(test.difference, "") << test.what;
}

TEST(SelfTest, ItsModelsTouchTheGround) {
  for (const std::string& name : self_test_models()) {
    if (name == "cartpole") continue;
    const ImportedModel model = self_test_model(name);
    ImportedModel softer = model;
    for (double& weight : softer.geompair_invweight) weight *= 2;
    EXPECT_NE(step_difference<double>(model, softer), "") << name;
  }
}

TEST(SelfTest, SeesTheLastBitOfAModel) {
  const ImportedModel model = self_test_model("isaac_humanoid");
  ImportedModel heavier = model;
  heavier.body_mass[1] = std::nextafter(heavier.body_mass[1], 1e3);
  EXPECT_THAT(step_difference<double>(model, heavier),
              AllOf(HasSubstr(" of environment "), HasSubstr(" after step "), HasSubstr(", on the host ")));
  ImportedModel heavier_single = model;
  heavier_single.body_mass[1] = std::nextafterf(static_cast<float>(heavier.body_mass[1]), 1e3f);
  EXPECT_THAT(step_difference<float>(model, heavier_single), StartsWith("q"));
}

TEST(SelfTest, SeesAQuantumOfASum) {
  std::vector<double> numbers(5000, 0.25), other = numbers;
  EXPECT_EQ(sum_difference(numbers, other), "");
  other[4999] += std::ldexp(1.0, -39);
  EXPECT_THAT(sum_difference(numbers, other), StartsWith("1250, on the host 1250.0000000000"));
}

TEST(SelfTest, SeesTheLastBitOfAParameter) {
  const std::vector<float> parameters = self_test_parameters();
  std::vector<float> other = parameters;
  other[3] = std::nextafter(other[3], 1.0f);
  EXPECT_THAT(act_difference(parameters, other), StartsWith("with draws, number "));
  EXPECT_THAT(minibatch_difference(parameters, other), StartsWith("total "));
}

}  // namespace
}  // namespace maniple
