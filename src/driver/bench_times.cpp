#include "src/driver/bench_times.hpp"

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <chrono>

#include "src/base/json.hpp"
#include "src/learning/learner.hpp"

namespace maniple {

Spread spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values[values.size() / 2], values.front(), values.back()};
}

std::string json(const Spread& s) {
  return json({{"median", s.median}, {"min", s.min}, {"max", s.max}});
}

std::string json(const std::vector<std::pair<std::string, double>>& values) {
  std::vector<std::string> entries;
  for (const auto& [name, value] : values) entries.push_back(json_entry(name, json_number(value)));
  return json_object(entries);
}

double time_on_all_ranks(Session& session, const std::function<void()>& body) {
  session.collectives().barrier();
  const auto begun = std::chrono::steady_clock::now();
  body();
  Kokkos::fence();
  const std::chrono::nanoseconds elapsed = std::chrono::steady_clock::now() - begun;
  std::int64_t nanoseconds = elapsed.count();
  session.collectives().max(&nanoseconds, 1);
  return static_cast<double>(nanoseconds) * 1e-9;
}

LearningTimes time_learning(Learner& learner, int iterations, int epochs, Session& session) {
  const Learner::Work work = learner.work_per_iteration();
  learner.start();
  learner.iterate([] {});
  const auto before = learner.stage_seconds();
  std::vector<double> rates;
  double seconds_in_all = 0;
  for (int i = 0; i < iterations; ++i) {
    const double seconds = time_on_all_ranks(session, [&] { learner.iterate([] {}); });
    rates.push_back(work.amount / seconds);
    seconds_in_all += seconds;
  }
  LearningTimes times{.rate = spread(rates),
                      .unit = work.unit,
                      .stage_seconds = learner.stage_seconds(),
                      .seconds = seconds_in_all / iterations};
  for (auto& [stage, seconds] : times.stage_seconds) {
    for (const auto& [earlier_stage, earlier_seconds] : before)
      if (earlier_stage == stage) seconds -= earlier_seconds;
    seconds /= iterations;
    if (stage == "update")
      times.update_seconds_per_sample = seconds * session.size() / (work.amount * epochs);
  }
  return times;
}

}  // namespace maniple
