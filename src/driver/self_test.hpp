// Self-tests of the kernels of this build, for `maniple doctor`: whether launches on the device give the bits
// that the same sources give on the host, one environment after the other. On a CPU the launches have
// registers of environments.
#pragma once

#include <string>
#include <vector>

#include "src/model_import/import.hpp"

namespace maniple {

inline constexpr int kSelfTestSteps = 20;

// One comparison.
struct SelfTest {
  std::string what;
  std::string difference;  // the first one found; empty: none
};

// All of them, a second on a CPU. Not collective: each rank tests its own device.
std::vector<SelfTest> run_self_tests();

// The models of the comparisons of the physics, which the program brings along: "cartpole", "isaac_ant",
// "isaac_humanoid".
std::vector<std::string> self_test_models();
ImportedModel self_test_model(const std::string& name, ThreadsChoice threads = ThreadsChoice::automatic);

// ---- the comparisons; empty: no difference ----
// They are given what is launched and what runs on the host, which are equal but in tests of these.

// kSelfTestSteps physics steps of random states of a model, in precision T: the first element of the state
// that differs.
template <class T>
std::string step_difference(const ImportedModel& launched, const ImportedModel& host);
extern template std::string step_difference<float>(const ImportedModel&, const ImportedModel&);
extern template std::string step_difference<double>(const ImportedModel&, const ImportedModel&);

// Exact sum of numbers below 1, against a sum of whole numbers.
std::string sum_difference(const std::vector<double>& launched, const std::vector<double>& host);

// Parameters of the network of the next two, and how many there are.
std::vector<float> self_test_parameters();
// Actions and values of the network for random observations, with draws, and without.
std::string act_difference(const std::vector<float>& launched, const std::vector<float>& host);
// Gradient and metrics of a minibatch of proximal policy optimisation.
std::string minibatch_difference(const std::vector<float>& launched, const std::vector<float>& host);

}  // namespace maniple
