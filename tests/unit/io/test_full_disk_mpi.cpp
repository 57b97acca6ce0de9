// A disk that fills up, on several ranks: a small tmpfs where the system lets us mount one.
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "src/base/error.hpp"
#include "src/io/checkpoint_reader.hpp"
#include "src/io/checkpoint_writer.hpp"
#include "src/io/measure.hpp"
#include "src/io/results.hpp"
#include "src/parallel/failure.hpp"
#include "src/parallel/mpi_access.hpp"
#include "tests/unit/io/batch_fixture.hpp"
#include "tests/unit/io/temporary_directory.hpp"

namespace maniple {
namespace {

namespace fs = std::filesystem;

class FullDiskMpi : public testing::Test {
 protected:
  std::unique_ptr<Collectives> world = make_mpi_collectives(MPI_COMM_WORLD);
  TemporaryDirectory directory{*world};
  bool mounted = false;

  void SetUp() override {
    std::int64_t works = 1;
    if (world->rank() == 0) works = mount("tmpfs", directory.path().c_str(), "tmpfs", 0, "size=1m") == 0;
    world->min(&works, 1);
    if (!works) GTEST_SKIP() << "cannot mount a tmpfs";
    mounted = true;
  }
  void TearDown() override {
    world->barrier();
    if (mounted && world->rank() == 0) {
      EXPECT_EQ(umount2(directory.path().c_str(), MNT_DETACH), 0);
    }
  }
  std::string write(std::int64_t step, std::int64_t envs) {
    TestBatch batch(envs, world->rank(), world->size());
    batch.fill();
    CheckpointWriter writer(directory, 3, false, *world);
    const std::string path = writer.write(step, batch.identity(), batch.archive(), batch.partition);
    writer.settle();
    return path;
  }
  // Every rank gets an Error with the path; nothing temporary stays.
  void expect_error(const std::function<void()>& work, const std::string& path) {
    try {
      work();
      ADD_FAILURE() << "no error";
    } catch (const InputError& error) {
      ADD_FAILURE() << "not the user's input: " << error.what();
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("No space left on device"), std::string::npos) << error.what();
    }
    world->barrier();
    for (const auto& entry : fs::recursive_directory_iterator(directory.path()))
      EXPECT_EQ(entry.path().string().find(".tmp."), std::string::npos) << entry.path();
    world->barrier();
  }
};

TEST_F(FullDiskMpi, CheckpointsOfBeforeStay) {
  write(1, 2000);
  expect_error([&] { write(2, 60000); }, "2.h5");
  TestBatch batch(2000, world->rank(), world->size());
  EXPECT_EQ(read_newest_checkpoint(directory, batch.identity(), batch.archive(), batch.partition, *world), 1);
  EXPECT_TRUE(batch.is_filled());
  world->barrier();
  write(3, 2000);  // and the run can go on
}

TEST_F(FullDiskMpi, NoRoomEvenForTheFirstBytes) {
  run_on_root(*world, [&] {
    std::ofstream filler(directory.path() + "/filler", std::ios::binary);
    const std::string block(4096, 'x');
    while (filler.write(block.data(), 4096) && filler.flush()) {
    }
  });
  expect_error([&] { write(1, 100); }, directory.path());
}

TEST_F(FullDiskMpi, ResultsWithTrajectory) {
  expect_error(
      [&] {
        ResultsWriter writer(directory, RunRecord{}, *world);
        const Partition partition(1000, world->rank(), world->size());
        writer.create_trajectory({{"x", "m", "x", 8}}, 100, true, partition);
      },
      "results.h5");
  expect_error(
      [&] {
        ResultsWriter writer(directory, RunRecord{}, *world);
        Metrics metrics;
        metrics.series.push_back({"long", "1", "too long", true, std::vector<double>(300000, 1.0)});
        writer.write_metrics(metrics);
        writer.commit();
      },
      "results.h5");
}

TEST_F(FullDiskMpi, DoctorSaysSo) {
  expect_error([&] { measure_file_system(directory, 8 << 20, *world); }, "doctor.h5");
}

}  // namespace
}  // namespace maniple
