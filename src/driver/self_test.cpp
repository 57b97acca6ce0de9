// The list of self-tests, their models and the sum; physics and learning have files of their own.
#include "src/driver/self_test.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <map>

#include "kernels/base/philox.hpp"
#include "kernels/nn/exact_totals.hpp"
#include "kernels/nn/tile_team.hpp"
#include "src/base/error.hpp"
#include "src/base/to_device.hpp"

namespace maniple {

// Written by CMakeLists.txt: the files of inputs/models by name.
extern const std::map<std::string, std::string> kSelfTestModels;

namespace {

constexpr std::int64_t kNumbers = 1'000'000, kNumbersOfTile = 1024;

// Every tile's numbers into the total of its worker, or into the one that all workers share.
struct AddNumbers {
  const double* numbers = nullptr;
  std::int64_t count = 0;
  double* totals = nullptr;  // [totals_workers()]

  MANIPLE_FUNCTION void operator()(const TileTeam& team, std::int64_t tile, int worker) const {
    const std::int64_t first = tile * kNumbersOfTile;
    const std::int64_t here = count - first < kNumbersOfTile ? count - first : kNumbersOfTile;
    double* const total = totals_of_worker(totals, 1, worker);
    team.items(here, [&](std::int64_t i) {
      if constexpr (kSharedTotals)
        add_shared(numbers[first + i], total);
      else
        add_exactly(numbers + first + i, 1, total);
    });
  }
};

std::vector<double> random_numbers() {
  std::vector<double> numbers(static_cast<std::size_t>(kNumbers));
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = 2 * uniform01<double>(random_block(1, RandomPurpose::control, i, 0, 0).word[0]) - 1;
  return numbers;
}

}  // namespace

std::vector<std::string> self_test_models() {
  std::vector<std::string> names;
  for (const auto& [name, text] : kSelfTestModels) names.push_back(name);
  return names;
}

ImportedModel self_test_model(const std::string& name, ThreadsChoice threads) {
  const std::string& text = kSelfTestModels.at(name);
  // a file without a directory, which is gone when it is closed
  const int file = ::memfd_create(name.c_str(), MFD_CLOEXEC);
  if (file < 0 || ::write(file, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    throw Error("no memory for the model of a self-test");
  ModelConfig config;
  config.file = config.path = fmt::format("/proc/self/fd/{}", file);
  SimulationConfig simulation;
  simulation.threads_per_environment = threads;
  ImportedModel model = import_model(config, simulation);
  ::close(file);
  return model;
}

std::string sum_difference(const std::vector<double>& launched, const std::vector<double>& host) {
  const std::int64_t tiles =
      (static_cast<std::int64_t>(launched.size()) + kNumbersOfTile - 1) / kNumbersOfTile;
  const int workers = tile_workers(tiles);
  const auto numbers = to_device("maniple::self_test::numbers", launched);
  const Kokkos::View<double*, MemorySpace> totals("maniple::self_test::totals",
                                                  static_cast<std::size_t>(totals_workers(workers)));
  AddNumbers add;
  add.numbers = numbers.data();
  add.count = static_cast<std::int64_t>(launched.size());
  add.totals = totals.data();
  for_tiles("maniple::self_test::add", tiles, workers, add);
  const auto parts = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), totals);
  double sum = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) sum += parts(i);
  std::int64_t quanta = 0;
  for (const double number : host) quanta += std::llrint(std::ldexp(number, kExactBits));
  const double expected = std::ldexp(static_cast<double>(quanta), -kExactBits);
  return sum == expected ? "" : fmt::format("{:.17g}, on the host {:.17g}", sum, expected);
}

std::vector<SelfTest> run_self_tests() {
  std::vector<SelfTest> tests;
  for (const std::string& name : self_test_models())
    for (const ThreadsChoice threads : {ThreadsChoice::one, ThreadsChoice::team}) {
      if (threads == ThreadsChoice::team && !kScalarLanes) continue;
      const ImportedModel model = self_test_model(name, threads);
      const bool teams = is_for_teams(model.sizes);
      if (threads == ThreadsChoice::team && !teams) continue;
      const std::string what =
          fmt::format("{} steps of {}{}, ", kSelfTestSteps, name, teams ? " by teams" : "");
      tests.push_back({what + "single precision", step_difference<float>(model, model)});
      tests.push_back({what + "double precision", step_difference<double>(model, model)});
    }
  const std::vector<double> numbers = random_numbers();
  tests.push_back({fmt::format("exact sum of {} numbers", numbers.size()), sum_difference(numbers, numbers)});
  const std::vector<float> parameters = self_test_parameters();
  tests.push_back({"actions and values of a policy", act_difference(parameters, parameters)});
  tests.push_back({"gradient of a minibatch", minibatch_difference(parameters, parameters)});
  return tests;
}

}  // namespace maniple
