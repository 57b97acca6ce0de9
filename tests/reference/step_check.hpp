// Steps in single precision against libmujoco's from the same states. Where a contact or limit is just about
// to begin or to end, rounding decides whether it does: there the step has to be one of those that MuJoCo
// makes from states as near as single precision tells apart.
#pragma once

#include <algorithm>
#include <cstdio>
#include <random>
#include <string>

#include "tests/reference/batch_under_test.hpp"

namespace maniple {

// How far a step may be from libmujoco's, as a part of the change that it makes: further is a leap.
inline constexpr double kLeap = 0.05;

class StepCheck {
 public:
  explicit StepCheck(const mjModel& m) : m_(m), d_(oracle::make_data(m)) {}

  // A step of libmujoco's from there; false where its state became bad.
  bool step(const RandomState& state) {
    oracle::set_state(m_, d_.get(), state);
    d_->time = 1;  // a bad state starts the clock again
    mj_step(&m_, d_.get());
    return d_->time >= 1;
  }
  // Velocities after it.
  Numbers qvel() const { return {d_->qvel, d_->qvel + m_.nv}; }

  // How far velocities `found` after a step are from libmujoco's, as a part of the change; of steps that
  // leap, from those of its steps from neighbouring states that come nearest. Changes below `floor` count as
  // that.
  double error(const RandomState& state, const Numbers& found, double floor) {
    const auto error_of_step = [&] {
      const Numbers theirs = qvel();
      return difference(found, theirs, floor + difference(theirs, state.qvel, 1));
    };
    step(state);
    double result = error_of_step();
    for (int attempt = 0; attempt < kNeighbours && result > kLeap; ++attempt) {
      RandomState near = state;
      for (double& q : near.qpos) q += kSpread * std::max(1.0, std::abs(q)) * normal_(generator_);
      if (step(near)) result = std::min(result, error_of_step());
    }
    return result;
  }

 private:
  static constexpr int kNeighbours = 200;
  static constexpr double kSpread = 1e-6;  // m or rad, or of the number itself

  const mjModel& m_;
  const oracle::DataPointer d_;
  std::mt19937_64 generator_{17};
  std::normal_distribution<double> normal_;
};

// To reproduce a step: the inputs of an environment, which a float holds, a line each.
inline std::string state_text(const RandomState& state) {
  std::string text = "\nfrom qpos, qvel, act, ctrl, qacc_warmstart";
  for (const Numbers* values : {&state.qpos, &state.qvel, &state.act, &state.ctrl, &state.qacc_warmstart}) {
    text += "\n";
    for (const double value : *values) {
      char number[32];
      std::snprintf(number, sizeof(number), " %.9g", value);
      text += number;
    }
  }
  return text;
}

}  // namespace maniple
