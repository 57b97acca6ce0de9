// What PPO keeps of a run: a restart continues with the same bits, and a warm start begins with what another
// run has learned.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "src/io/checkpoint_reader.hpp"
#include "tests/unit/learning/ppo_runs.hpp"

namespace maniple {
namespace {

using testing_learning::append;
using testing_learning::configs_of_networks;
using testing_learning::on_ranks;
using testing_learning::scaled_config;
using testing_learning::toy_config;
using testing_learning::ToyEnvironment;

std::size_t bytes_of(const ArchiveEntry& entry) {
  const std::size_t size = entry.type == ElementType::float64 || entry.type == ElementType::int64 ? 8 : 4;
  return entry.per_env ? 3 * 32 * entry.tile_elements * size : entry.elements * size;
}

std::vector<std::vector<char>> contents_of(const Archive& archive) {
  std::vector<std::vector<char>> contents;
  for (const ArchiveEntry& entry : archive.entries()) {
    const char* data = static_cast<const char*>(entry.data);
    contents.emplace_back(data, data + bytes_of(entry));
  }
  return contents;
}

void fill(const Archive& archive, const std::vector<std::vector<char>>& contents) {
  ASSERT_EQ(archive.entries().size(), contents.size());
  for (std::size_t i = 0; i < contents.size(); ++i)
    std::memcpy(archive.entries()[i].data, contents[i].data(), bytes_of(archive.entries()[i]));
}

Archive whole_of(Ppo& ppo) {
  Archive archive;
  ppo.describe(archive);
  return archive;
}

Archive learned_of(Ppo& ppo) {
  Archive archive;
  ppo.describe_warm_start(archive);
  return archive;
}

void expect_equal_bits_over_a_restart(const Config& config) {
  std::vector<double> straight, restarted;
  on_ranks(1, [&](int, Collectives& collectives) {
    ToyEnvironment environment(config);
    Ppo ppo(environment, config, collectives);
    ppo.start();
    for (int i = 0; i < 3; ++i) ppo.iterate();
    const auto saved = contents_of(whole_of(ppo));
    for (int i = 0; i < 2; ++i) append(straight, ppo.iterate());

    ToyEnvironment other_environment(config);
    Ppo other(other_environment, config, collectives);
    fill(whole_of(other), saved);
    other.restored();
    for (int i = 0; i < 2; ++i) append(restarted, other.iterate());
  });
  EXPECT_EQ(straight, restarted);
}

TEST(Ppo, RestartContinuesWithTheSameBits) {
  expect_equal_bits_over_a_restart(scaled_config(70));
  // a learning rate that follows from the iterations before, and not from their number
  Config adaptive = scaled_config(70);
  adaptive.learning.schedule = RateSchedule::adaptive;
  adaptive.learning.desired_kl = 1e-5;
  expect_equal_bits_over_a_restart(adaptive);
  for (const Config& config : configs_of_networks(70)) expect_equal_bits_over_a_restart(config);
}

// What another run learned goes into this one, but the moments of values begin with the rewards of this one.
TEST(Ppo, AWarmStartGathersTheMomentsOfValuesAnew) {
  const Config config = scaled_config(70);
  on_ranks(1, [&](int, Collectives& collectives) {
    const auto samples = [](Ppo& ppo) {
      const Archive archive = learned_of(ppo);
      for (const ArchiveEntry& entry : archive.entries())
        if (entry.name == "ppo/value_count") return *static_cast<const double*>(entry.data);
      return std::nan("");
    };
    ToyEnvironment environment(config);
    Ppo ppo(environment, config, collectives);
    ppo.start();
    ppo.iterate();
    const double of_one_iteration = samples(ppo);
    EXPECT_GT(of_one_iteration, 0);
    ppo.start();
    WarmStart start;
    start.entries = {"ppo/value_mean"};
    ppo.warm_started(start);
    ppo.iterate();
    EXPECT_EQ(samples(ppo), of_one_iteration);
  });
}

// With what has been learned comes the state of the optimizer, to the device, too; its first step is not that
// of a new optimizer.
TEST(Ppo, AWarmStartKeepsTheStateOfTheOptimizer) {
  const Config config = toy_config(70);
  on_ranks(1, [&](int, Collectives& collectives) {
    ToyEnvironment environment(config);
    Ppo first(environment, config, collectives);
    first.start();
    for (int i = 0; i < 3; ++i) first.iterate();
    const auto learned = contents_of(learned_of(first));
    const auto is_of_optimizer = [](const ArchiveEntry& entry) {
      return entry.name.starts_with("ppo/adam_moment") || entry.name == "ppo/optimizer_steps";
    };
    const auto optimizer_of = [&](Ppo& ppo) {
      const Archive archive = learned_of(ppo);
      Archive optimizer;
      for (const ArchiveEntry& entry : archive.entries())
        if (is_of_optimizer(entry)) optimizer.add(entry);
      return contents_of(optimizer);
    };
    EXPECT_EQ(optimizer_of(first).size(), 3u);

    const auto parameters_after = [&](bool keeps_moments) {
      ToyEnvironment other_environment(config);
      Ppo ppo(other_environment, config, collectives);
      ppo.start();
      const Archive archive = learned_of(ppo);
      fill(archive, learned);
      if (!keeps_moments)
        for (const ArchiveEntry& entry : archive.entries())
          if (is_of_optimizer(entry)) std::memset(entry.data, 0, bytes_of(entry));
      ppo.warm_started(WarmStart{});
      EXPECT_EQ(optimizer_of(ppo) == optimizer_of(first), keeps_moments);
      ppo.iterate();
      const auto after = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), ppo.policy()->parameters());
      return std::vector<float>(after.data(), after.data() + after.extent(0));
    };
    EXPECT_NE(parameters_after(true), parameters_after(false));
  });
}

}  // namespace
}  // namespace maniple
