// Collectives over MPI, agreement about errors, on any number of ranks.
#include <gtest/gtest.h>

#include "kernels/base/exact_sum.hpp"
#include "kernels/base/philox.hpp"
#include "src/parallel/failure.hpp"
#include "src/parallel/measure.hpp"
#include "src/parallel/mpi_access.hpp"
#include "src/parallel/partition.hpp"

namespace maniple {
namespace {

// (nvcc takes no lambdas of a test's body)
void fill_on_device(const Kokkos::View<double*, MemorySpace>& doubles,
                    const Kokkos::View<float*, MemorySpace>& floats, int rank) {
  Kokkos::parallel_for(
      Kokkos::RangePolicy<ExecutionSpace>(0, doubles.extent_int(0)), MANIPLE_LAMBDA(int i) {
        doubles(i) = i + rank;
        floats(i) = static_cast<float>(i - rank);
      });
}

class CollectivesMpi : public testing::Test {
 protected:
  std::unique_ptr<Collectives> world = make_mpi_collectives(MPI_COMM_WORLD);
  int rank = world->rank(), size = world->size();
};

TEST_F(CollectivesMpi, SumsMaximaMinimaAndTexts) {
  double values[3] = {1.0, static_cast<double>(rank), -0.5};
  world->sum(values, 3);
  EXPECT_EQ(values[0], size);
  EXPECT_EQ(values[1], size * (size - 1) / 2);
  EXPECT_EQ(values[2], -0.5 * size);
  std::int64_t integer = (std::int64_t{1} << 60) + rank, low = rank - 5, total = std::int64_t{1} << 40;
  world->max(&integer, 1);
  world->min(&low, 1);
  world->sum(&total, 1);
  EXPECT_EQ(integer, (std::int64_t{1} << 60) + size - 1);
  EXPECT_EQ(low, -5);
  EXPECT_EQ(total, size * (std::int64_t{1} << 40));

  const std::vector<std::string> texts = world->gather_text(std::string(static_cast<std::size_t>(rank), 'x'));
  ASSERT_EQ(texts.size(), static_cast<std::size_t>(size));
  for (int r = 0; r < size; ++r)
    EXPECT_EQ(texts[static_cast<std::size_t>(r)].size(), static_cast<std::size_t>(r));

  std::vector<int> sent(1000, rank == size - 1 ? 77 : 0);
  world->broadcast(sent.data(), sent.size() * sizeof(int), size - 1);
  EXPECT_EQ(sent.back(), 77);
  EXPECT_EQ(broadcast_text(*world, rank == 0 ? "of rank 0" : "another, longer text"), "of rank 0");
}

TEST_F(CollectivesMpi, DeviceSumsSeeWhatKernelsWrote) {
  Kokkos::View<double*, MemorySpace> doubles("doubles", 5000);
  Kokkos::View<float*, MemorySpace> floats("floats", 5000);
  fill_on_device(doubles, floats, rank);
  world->device_sum(doubles.data(), 5000);
  world->device_sum(floats.data(), 5000);
  world->device_sum(static_cast<double*>(nullptr), 0);
  const auto host_doubles = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), doubles);
  const auto host_floats = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), floats);
  const int offsets = size * (size - 1) / 2;
  for (int i = 0; i < 5000; ++i) {
    EXPECT_EQ(host_doubles(i), static_cast<double>(i) * size + offsets);
    EXPECT_EQ(host_floats(i), static_cast<float>(i * size - offsets));
  }
}

// The promise behind equal bits on any number of ranks: terms rounded to the quantum add up exactly.
TEST_F(CollectivesMpi, ExactSumsDoNotDependOnTheNumberOfRanks) {
  const std::int64_t terms = 10000;
  const auto term = [](std::int64_t i) {
    const PhiloxBlock block = random_block(1, RandomPurpose::reset, static_cast<std::uint64_t>(i), 0, 0);
    return exact_round((uniform01<double>(block.word[0]) - 0.3) * 0.1);
  };
  double alone = 0, shared = 0, backwards = 0;
  for (std::int64_t i = 0; i < terms; ++i) alone += term(i);
  for (std::int64_t i = terms; i-- > 0;) backwards += term(i);
  for (std::int64_t i = rank; i < terms; i += size) shared += term(i);
  world->sum(&shared, 1);
  EXPECT_EQ(shared, alone);
  EXPECT_EQ(backwards, alone);
}

TEST_F(CollectivesMpi, AnErrorOfOneRankBecomesTheErrorOfAll) {
  for (int failing = 0; failing < size; ++failing) {
    std::string message;
    bool input = false;
    try {
      run_together(*world, [&] {
        if (rank >= failing) throw InputError("bad deck seen by rank " + std::to_string(rank));
      });
    } catch (const InputError& error) {
      message = error.what();
      input = true;
    }
    EXPECT_TRUE(input);
    EXPECT_EQ(message, "bad deck seen by rank " + std::to_string(failing)) << "the lowest rank's words";
  }
  EXPECT_NO_THROW(run_together(*world, [] {}));
  EXPECT_THROW(run_on_root(*world, [] { throw Error("root"); }), Error);
  try {
    run_on_root(*world, [] { throw std::runtime_error(""); });
    ADD_FAILURE();
  } catch (const InputError&) {
    ADD_FAILURE() << "not the user's fault";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "");
  }
  std::int64_t still_in_step = 1;
  world->sum(&still_in_step, 1);
  EXPECT_EQ(still_in_step, size);
}

TEST_F(CollectivesMpi, MpiErrorsAreExceptions) {
  double value = 0;
  EXPECT_THROW(world->broadcast(&value, sizeof value, size + 3), Error);
}

TEST_F(CollectivesMpi, LinksAreMeasured) {
  const std::vector<LinkTimes> links = measure_links(*world);
  EXPECT_EQ(links.size(), rank == 0 ? static_cast<std::size_t>(size - 1) : 0u);
  for (const LinkTimes& link : links) {
    EXPECT_TRUE(link.intact);
    EXPECT_GT(link.latency, 0);
    EXPECT_GT(link.bandwidth, 0);
  }
  EXPECT_GE(measure_sum(*world, 1 << 16), 0);
}

// Whole blocks, every environment once, as even as blocks allow, in as few tiles as these take.
TEST(PartitionOfBatch, CoversEveryEnvironmentOnce) {
  for (const int block : {2, 8, kTileWidth})
    for (const std::int64_t envs : {1, 31, 32, 33, 64, 100, 4096, 1000003})
      for (const int ranks : {1, 2, 3, 4, 7, 64}) {
        std::int64_t next_env = 0, next_block = 0, fewest = envs, most = 0, most_of_tiles = 0;
        for (int r = 0; r < ranks; ++r) {
          const Partition part(envs, r, ranks, block);
          EXPECT_EQ(part.first_block, next_block);
          if (part.envs() > 0) {
            EXPECT_EQ(part.first_env(), next_env);
          }
          EXPECT_EQ(part.tiles, (part.blocks * block + kTileWidth - 1) / kTileWidth);
          next_env += part.envs();
          next_block += part.blocks;
          fewest = std::min(fewest, part.blocks);
          most = std::max(most, part.blocks);
          most_of_tiles = std::max(most_of_tiles, part.tiles);
        }
        EXPECT_EQ(next_env, envs);
        EXPECT_EQ(next_block, (envs + block - 1) / block);
        EXPECT_EQ(most_of_tiles, most_tiles(Partition(envs, 0, 1, block), ranks));
        EXPECT_LE(most - fewest, 1);
      }
}

}  // namespace
}  // namespace maniple
