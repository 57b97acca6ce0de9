// Checkpoints written by one number of ranks and read by another. Groups of ranks are cut out of the
// world, so that one start covers every pair of sizes up to it.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <functional>

#include "src/base/error.hpp"
#include "src/io/checkpoint_reader.hpp"
#include "src/io/checkpoint_writer.hpp"
#include "src/io/digest.hpp"
#include "src/io/hdf5.hpp"
#include "src/parallel/failure.hpp"
#include "src/parallel/mpi_access.hpp"
#include "tests/unit/io/batch_fixture.hpp"
#include "tests/unit/io/temporary_directory.hpp"

namespace maniple {
namespace {

namespace fs = std::filesystem;

class CheckpointMpi : public testing::Test {
 protected:
  std::unique_ptr<Collectives> world = make_mpi_collectives(MPI_COMM_WORLD);
  TemporaryDirectory directory{*world};

  // Runs `work` on the first `ranks` ranks of the world; all wait for its end.
  void on_ranks(int ranks, const std::function<void(Collectives&)>& work) {
    MPI_Comm group = MPI_COMM_NULL;
    const bool takes_part = world->rank() < ranks;
    MPI_Comm_split(MPI_COMM_WORLD, takes_part ? 0 : MPI_UNDEFINED, world->rank(), &group);
    if (takes_part) {
      const std::unique_ptr<Collectives> collectives = make_mpi_collectives(group);
      work(*collectives);
      MPI_Comm_free(&group);
    }
    world->barrier();
  }
  std::string write(Collectives& collectives, const std::string& name, std::int64_t envs,
                    std::int64_t step = 8) {
    TestBatch batch(envs, collectives.rank(), collectives.size());
    batch.fill();
    CheckpointWriter writer(directory.path() + "/" + name, 3, false, collectives);
    const std::string path = writer.write(step, batch.identity(), batch.archive(), batch.partition);
    writer.settle();
    return path;
  }
};

TEST_F(CheckpointMpi, AnyNumberOfRanksReadsWhatAnyOtherWrote) {
  for (const std::int64_t envs : {3, 33, 203, 5000})  // fewer tiles than ranks, too
    for (int writers = 1; writers <= world->size(); ++writers) {
      const std::string name = std::to_string(envs) + "_" + std::to_string(writers);
      on_ranks(writers, [&](Collectives& collectives) { write(collectives, name, envs); });
      for (int readers = 1; readers <= world->size(); ++readers)
        on_ranks(readers, [&](Collectives& collectives) {
          TestBatch batch(envs, collectives.rank(), collectives.size());
          EXPECT_EQ(read_newest_checkpoint(directory.path() + "/" + name, batch.identity(), batch.archive(),
                                           batch.partition, collectives),
                    8);
          EXPECT_TRUE(batch.is_filled()) << envs << " environments, " << writers << " -> " << readers;
        });
    }
}

TEST_F(CheckpointMpi, FilesOfAnyNumberOfRanksAreEqual) {
  std::string first;
  for (int writers = 1; writers <= world->size(); ++writers) {
    on_ranks(writers, [&](Collectives& collectives) { write(collectives, std::to_string(writers), 203); });
    const std::string digest =
        file_digest(directory.path() + "/" + std::to_string(writers) + "/checkpoints/8.h5");
    if (first.empty()) first = digest;
    EXPECT_EQ(digest, first) << writers << " ranks";
  }
  world->barrier();
}

TEST_F(CheckpointMpi, DamageSeenByOneRankMakesAllFallBack) {
  write(*world, "run", 5000, 1);
  const std::string newest = write(*world, "run", 5000, 2);
  if (world->rank() == 0) {
    haddr_t offset = 0;
    {
      const hdf5::File file = hdf5::open_file(newest, false);
      offset = H5Dget_offset(hdf5::open_dataset(file, "state/qpos"));
    }
    std::FILE* file = std::fopen(newest.c_str(), "r+b");  // a row of the last rank
    std::fseek(file, static_cast<long>(offset + 4999 * 12), SEEK_SET);
    std::fputc(0x5a, file);
    std::fclose(file);
  }
  world->barrier();
  TestBatch batch(5000, world->rank(), world->size());
  EXPECT_EQ(read_newest_checkpoint(directory.path() + "/run", batch.identity(), batch.archive(),
                                   batch.partition, *world),
            1);
  EXPECT_TRUE(batch.is_filled());
}

TEST_F(CheckpointMpi, DamageFoundByOneRankWhenItReadsBackIsTheSameErrorOnAll) {
  TestBatch batch(60000, world->rank(), world->size());
  batch.fill();
  CheckpointWriter writer(directory, 1, false, *world);
  writer.write(1, batch.identity(), batch.archive(), batch.partition);
  const std::string path = writer.write(2, batch.identity(), batch.archive(), batch.partition);
  run_on_root(*world, [&] { fs::resize_file(path, 1 << 20); });
  EXPECT_THROW(writer.settle(), Error);
  EXPECT_TRUE(fs::exists(directory.path() + "/checkpoints/1.h5"));
  world->barrier();
}

TEST_F(CheckpointMpi, RanksThatDisagreeAboutSharedNumbersAreAnError) {
  TestBatch batch(100, world->rank(), world->size());
  batch.fill();
  if (world->rank() == world->size() - 1) batch.parameters[17] += 1;
  const bool disagree = world->size() > 1;
  try {
    CheckpointWriter(directory, 3, false, *world)
        .write(1, batch.identity(), batch.archive(), batch.partition);
    EXPECT_FALSE(disagree);
  } catch (const Error& error) {
    EXPECT_TRUE(disagree);
    const std::string text = error.what();
    EXPECT_NE(text.find("ranks out of step at a checkpoint: rank "), std::string::npos) << text;
    EXPECT_NE(text.find(" differs in learning/parameters; from rank 0"), std::string::npos) << text;
  }
  world->barrier();
  EXPECT_NE(fs::exists(directory.path() + "/checkpoints/1.h5"), disagree);
  world->barrier();
}

TEST_F(CheckpointMpi, FailureToCreateIsTheSameErrorOnEveryRank) {
  TestBatch batch(100, world->rank(), world->size());
  batch.fill();
  EXPECT_THROW(CheckpointWriter("/proc/nowhere", 3, false, *world)
                   .write(1, batch.identity(), batch.archive(), batch.partition),
               Error);
  std::int64_t one = 1;
  world->sum(&one, 1);
  EXPECT_EQ(one, world->size());
}

}  // namespace
}  // namespace maniple
