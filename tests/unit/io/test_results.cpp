// results.h5 and its digest, on any number of ranks (suites that end in Mpi are run on several).
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "src/base/error.hpp"
#include "src/driver/verbs.hpp"
#include "src/io/digest.hpp"
#include "src/io/hdf5.hpp"
#include "src/io/results.hpp"
#include "src/io/seal.hpp"
#include "src/io/summary.hpp"
#include "src/parallel/mpi_access.hpp"
#include "tests/unit/io/temporary_directory.hpp"

namespace maniple {
namespace {

namespace fs = std::filesystem;

// Integers, so that no two compilations of this function round differently.
float sample_value(std::int64_t env, std::int64_t sample, int element) {
  return static_cast<float>((env * 8191 + sample * 127 + element) % 16777213);
}

class ResultsMpi : public testing::Test {
 protected:
  std::unique_ptr<Collectives> world = make_mpi_collectives(MPI_COMM_WORLD);
  TemporaryDirectory directory{*world};

  // A run of `envs` environments that recorded `recorded` of `planned` samples.
  std::string write(Collectives& collectives, const std::string& name, std::int64_t envs,
                    std::int64_t planned, std::int64_t recorded, double wall = 1) {
    RunRecord record{"rollout", "model:\n  file: x.xml\n", "resolved: yes\n", "<mujoco/>", "0.1.0", "g++", 3};
    ResultsWriter writer(directory.path() + "/" + name, record, collectives);
    Metrics metrics;
    metrics.series.push_back({"iteration", "1", "iteration", true, {1, 2, 3}});
    metrics.series.push_back({"wall_seconds", "s", "wall clock", false, {wall, 2 * wall, 3 * wall}});
    writer.write_metrics(metrics);
    const Partition partition(envs, collectives.rank(), collectives.size());
    const std::vector<TrajectoryField> fields{{"qpos", "m", "position", 3}, {"qvel", "m/s", "velocity", 2}};
    writer.create_trajectory(fields, planned, false, partition);
    std::vector<std::int64_t> steps;
    for (std::int64_t sample = 0; sample < recorded; ++sample) {
      steps.push_back(10 * sample);
      for (const TrajectoryField& field : fields) {
        std::vector<float> rows;
        for (std::int64_t env = 0; env < partition.envs(); ++env)
          for (int e = 0; e < field.size; ++e)
            rows.push_back(sample_value(partition.first_env() + env, sample, e));
        writer.write_sample(field.name, sample, rows.data());
      }
    }
    writer.write_steps(steps);
    writer.write_series("/evaluation/episode_return", {5, 6}, "1", "return");
    return writer.commit();
  }
  std::vector<float> read_trajectory(const std::string& path, const std::string& field, hdf5::Shape& shape) {
    const hdf5::File file = hdf5::open_file(path, false);
    const hdf5::Dataset dataset = hdf5::open_dataset(file, "trajectory/" + field);
    shape = hdf5::shape_of(dataset);
    std::vector<float> values(shape[0] * shape[1] * shape[2]);
    hdf5::read_box(dataset, H5T_NATIVE_FLOAT, {0, 0, 0}, shape, values.data(), path);
    return values;
  }
};

TEST_F(ResultsMpi, TrajectoryOfUnevenRanksComesBack) {
  const std::string path = write(*world, "a", 203, 17, 17);
  EXPECT_EQ(check_seal(path), Sealed::yes);
  for (const auto& [field, size] : std::vector<std::pair<std::string, int>>{{"qpos", 3}, {"qvel", 2}}) {
    hdf5::Shape shape;
    const std::vector<float> values = read_trajectory(path, field, shape);
    ASSERT_EQ(shape, (hdf5::Shape{203, 17, static_cast<hsize_t>(size)}));
    std::size_t i = 0, wrong = 0;
    for (std::int64_t env = 0; env < 203; ++env)
      for (std::int64_t sample = 0; sample < 17; ++sample)
        for (int e = 0; e < size; ++e) wrong += values[i++] != sample_value(env, sample, e);
    EXPECT_EQ(wrong, 0u) << field;
  }
  world->barrier();
}

TEST_F(ResultsMpi, StoppedEarlyKeepsOnlyWhatWasRecorded) {
  const std::string path = write(*world, "a", 70, 100, 7);
  EXPECT_EQ(check_seal(path), Sealed::yes);
  hdf5::Shape shape;
  const std::vector<float> values = read_trajectory(path, "qpos", shape);
  ASSERT_EQ(shape, (hdf5::Shape{70, 7, 3}));
  EXPECT_EQ(values[(69 * 7 + 6) * 3 + 2], sample_value(69, 6, 2));
  world->barrier();
}

// One block of the buffer holds only a few samples of so large a batch.
TEST_F(ResultsMpi, LongTrajectoriesAreWrittenInBlocks) {
  const std::int64_t envs = 60003, samples = 41;  // 197 MB: several blocks on one rank
  RunRecord record;
  ResultsWriter writer(directory.path(), record, *world);
  const Partition partition(envs, world->rank(), world->size());
  writer.create_trajectory({{"x", "m", "x", 20}}, samples + 60, false, partition);  // it stops early
  std::vector<float> rows(static_cast<std::size_t>(partition.envs() * 20));
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    for (std::int64_t env = 0; env < partition.envs(); ++env)
      for (int e = 0; e < 20; ++e)
        rows[static_cast<std::size_t>(env * 20 + e)] = sample_value(partition.first_env() + env, sample, e);
    writer.write_sample("x", sample, rows.data());
    if (sample == 0) writer.rehearse();
  }
  EXPECT_GT(writer.commit_seconds(), 0);
  const std::string path = writer.commit();
  EXPECT_EQ(check_seal(path, *world), Sealed::yes);
  if (world->rank() != 0) return;  // one reader is enough for so much
  hdf5::Shape shape;
  const std::vector<float> values = read_trajectory(path, "x", shape);
  std::size_t i = 0, wrong = 0;
  for (std::int64_t env = 0; env < envs; ++env)
    for (std::int64_t sample = 0; sample < samples; ++sample)
      for (int e = 0; e < 20; ++e) wrong += values[i++] != sample_value(env, sample, e);
  EXPECT_EQ(wrong, 0u);
}

// HDF5 looks at all chunks to find one, so that their number must not grow with the dataset; each has less
// than the 4 GiB that HDF5 allows.
TEST(TrajectoryChunk, FewWholeTilesHoweverLargeTheDataset) {
  for (const auto& [shape, block] :
       std::vector<std::pair<hdf5::Shape, hsize_t>>{{{40, 5, 3}, 5},
                                                    {{1000, 1, 1}, 1},
                                                    {{100000, 2001, 30}, 10},
                                                    {{1 << 20, 10001, 60}, 1},
                                                    {{1, 1 << 30, 7}, 1 << 21}}) {
    const hdf5::Shape chunk = hdf5::trajectory_chunk(shape, block, 4);
    EXPECT_TRUE(chunk[0] == shape[0] || chunk[0] % kTileWidth == 0);
    EXPECT_EQ(chunk[1], block);
    EXPECT_EQ(chunk[2], shape[2]);
    EXPECT_LT(chunk[0] * chunk[1] * chunk[2] * 4, hsize_t{1} << 32);
    const hsize_t count = ((shape[0] + chunk[0] - 1) / chunk[0]) * ((shape[1] + chunk[1] - 1) / chunk[1]);
    EXPECT_LT(count * chunk[0] * chunk[1], (shape[0] + 40 * 32) * (shape[1] + block)) << "little is wasted";
    EXPECT_LE(count, std::max<hsize_t>(5000, shape[1] / block + 1)) << hdf5::shape_text(shape);
  }
}

TEST_F(ResultsMpi, DigestIsEqualOnAnyNumberOfRanksAndIgnoresTheClock) {
  const std::string all = file_digest(write(*world, "all", 203, 17, 17, 1.0));
  // each rank by itself, as a job of one rank
  const std::unique_ptr<Collectives> self = make_mpi_collectives(MPI_COMM_SELF);
  const std::string name = "alone" + std::to_string(world->rank());
  EXPECT_EQ(file_digest(write(*self, name, 203, 17, 17, 2.0)), all);
  EXPECT_NE(file_digest(write(*self, name, 204, 17, 17)), all);
  EXPECT_NE(file_digest(write(*self, name, 203, 17, 16)), all);
  world->barrier();
}

TEST_F(ResultsMpi, WithoutCommitThereIsNoFile) {
  {
    RunRecord record;
    ResultsWriter writer(directory.path() + "/run", record, *world);
    writer.create_trajectory({{"x", "m", "x", 1}}, 5, true, Partition(100, world->rank(), world->size()));
  }
  world->barrier();
  EXPECT_TRUE(fs::is_empty(directory.path() + "/run"));
  world->barrier();
}

TEST_F(ResultsMpi, ReplacesAnOlderFileAtOnce) {
  const std::string first = file_digest(write(*world, "a", 64, 3, 3));
  world->barrier();
  const std::string path = write(*world, "a", 64, 4, 4);
  EXPECT_NE(file_digest(path), first);
  EXPECT_EQ(std::distance(fs::directory_iterator(directory.path() + "/a"), fs::directory_iterator()), 1);
  world->barrier();
}

TEST_F(ResultsMpi, EveryDatasetHasUnitAndDescription) {
  const std::string path = write(*world, "a", 64, 3, 3);
  int datasets = 0;
  for (const ObjectSummary& object : summarize_file(path)) {
    if (!object.is_dataset) continue;
    ++datasets;
    EXPECT_FALSE(object.description.empty()) << object.path;
    const hdf5::File file = hdf5::open_file(path, false);
    EXPECT_TRUE(hdf5::has_attribute(hdf5::open_dataset(file, object.path), "unit")) << object.path;
  }
  EXPECT_EQ(datasets, 3 + 2 + 2 + 1 + 1 + 1);
  world->barrier();
}

TEST_F(ResultsMpi, InspectPrintsShapesUnitsAndTheDigest) {
  const std::string path = write(*world, "a", 64, 3, 3);
  std::ostringstream out;
  inspect({path}, out);
  const std::string text = out.str();
  for (const std::string& part :
       {std::string("/trajectory/qpos"), std::string("[64, 3, 3]"), std::string("m/s"), std::string("ranks"),
        std::string("rollout"), "digest " + file_digest(path) + "\n"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  EXPECT_THROW(inspect({directory.path() + "/none.h5"}, out), InputError);
  EXPECT_THROW(inspect({directory.path()}, out), InputError);
  if (world->rank() == 0) std::ofstream(directory.path() + "/text.h5") << "not HDF5";
  world->barrier();
  EXPECT_THROW(inspect({directory.path() + "/text.h5"}, out), InputError);
  world->barrier();
}

// The digest by hand: header text and little-endian numbers, hashed by the published algorithm. The
// expected value comes from Python's hashlib over the same bytes.
TEST(Digest, IsSha256OverNameTypeShapeAndNumbers) {
  const std::unique_ptr<Collectives> self = make_mpi_collectives(MPI_COMM_SELF);
  const TemporaryDirectory directory(*self);
  const std::string path = directory.path() + "/x.h5";
  {
    const hdf5::File file = hdf5::create_file(path, 0);
    const float a[6] = {0, 1, 2, 3, 4, 5};
    const std::int64_t b[2] = {7, -8};
    hdf5::create_and_write(file, "trajectory/a", ElementType::float32, {2, 3}, a, "m", "a");
    hdf5::create_and_write(file, "b", ElementType::int64, {2}, b, "1", "b");
    hdf5::create_and_write(file, "clock", ElementType::float32, {6}, a, "s", "left out", false);
    hdf5::create_text(file, "run/deck", "left out", "deck");
  }
  // sha256(b"b int64 [2 ]\n" + int64([7,-8]) + b"trajectory/a float32 [2 3 ]\n" + float32([0..5]))
  EXPECT_EQ(file_digest(path), "93a2977482be620d0828331497b95381da5bf106692a3265e4937d7f689065d8");
}

}  // namespace
}  // namespace maniple
