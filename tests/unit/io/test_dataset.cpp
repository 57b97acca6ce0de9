// Users' files: shapes, refusals with their texts, rows of a rank, controls in blocks.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <limits>

#include "src/io/dataset.hpp"
#include "src/io/hdf5.hpp"
#include "src/parallel/mpi_access.hpp"
#include "tests/unit/io/temporary_directory.hpp"

namespace maniple {
namespace {

class Dataset : public testing::Test {
 protected:
  std::unique_ptr<Collectives> collectives = make_mpi_collectives(MPI_COMM_SELF);
  TemporaryDirectory directory{*collectives};
  const SourceLocation where{"deck.yaml", 7, 3};

  std::string write(const std::string& name, const hdf5::Shape& shape, std::vector<double> values = {}) {
    const std::string path = directory.path() + "/input.h5";
    std::size_t count = 1;
    for (const hsize_t extent : shape) count *= extent;
    if (values.empty())
      for (std::size_t i = 0; i < count; ++i) values.push_back(static_cast<double>(i));
    unlink(path.c_str());
    const hdf5::File file = hdf5::create_file(path, 0);
    hdf5::create_and_write(file, name, ElementType::float64, shape, values.data(), "m", "input");
    return path;
  }
  static std::string refusal(const std::function<void()>& work) {
    try {
      work();
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(Dataset, RowsOfTheRankOrOneForAll) {
  const Partition second(100, 1, 3);  // tiles 1 of 4: environments 32..63
  ASSERT_EQ(second.first_env(), 32);
  const std::string per_env = write("qpos", {100, 5});
  const std::vector<double> rows = read_state_rows(per_env, where, "qpos", "nq", 5, second);
  ASSERT_EQ(rows.size(), 32u * 5);
  EXPECT_EQ(rows[0], 32 * 5);
  EXPECT_EQ(rows.back(), 63 * 5 + 4);
  EXPECT_EQ(read_state_rows(write("qpos", {1, 5}), where, "qpos", "nq", 5, second),
            (std::vector<double>{0, 1, 2, 3, 4}));
  EXPECT_EQ(state_members(per_env, where), std::vector<std::string>{"qpos"});
  EXPECT_EQ(state_members(write("act/inner", {1, 5}), where), std::vector<std::string>{"act"});
}

TEST_F(Dataset, RefusalsNamePlaceFileDatasetFoundAndAllowed) {
  const Partition partition(100, 0, 1);
  const auto read = [&](const std::string& path) {
    return refusal([&] { read_state_rows(path, where, "qpos", "nq", 5, partition); });
  };
  const std::string path = write("qpos", {99, 5});
  EXPECT_EQ(read(path), "deck.yaml:7: initial_state.file: " + path +
                            ": /qpos: shape [99, 5]; allowed is [env = 100 or 1, nq = 5]");
  EXPECT_NE(read(write("qpos", {100, 6})).find("shape [100, 6]"), std::string::npos);
  EXPECT_NE(read(write("qpos", {500})).find("shape [500]"), std::string::npos);
  EXPECT_NE(read(write("position", {100, 5})).find("/qpos: no such dataset"), std::string::npos);
  EXPECT_NE(read(write("qpos/inner", {100, 5})).find("/qpos: not a dataset"), std::string::npos);
  EXPECT_NE(read("/nowhere/x.h5").find("/nowhere/x.h5: no such file"), std::string::npos);
  std::ofstream(directory.path() + "/text.h5") << "hello";
  EXPECT_NE(read(directory.path() + "/text.h5").find("cannot be read as HDF5"), std::string::npos);
  EXPECT_NE(read(directory.path()).find("cannot be read as HDF5"), std::string::npos);
}

TEST_F(Dataset, NumbersThatAreNoneAreRefusedWithTheirPlace) {
  std::vector<double> values(40, 1.0);
  values[2 * 10 + 3] = std::nan("");
  EXPECT_NE(refusal([&] {
              read_state_rows(write("qpos", {4, 10}, values), where, "qpos", "nq", 10, Partition(4, 0, 1));
            }).find("/qpos: NaN at [2, 3]"),
            std::string::npos);
  values[23] = -std::numeric_limits<double>::infinity();
  EXPECT_NE(refusal([&] {
              read_state_rows(write("qpos", {4, 10}, values), where, "qpos", "nq", 10, Partition(4, 0, 1));
            }).find("infinity at [2, 3]"),
            std::string::npos);
  values[23] = -1.1e10;
  EXPECT_NE(refusal([&] {
              read_state_rows(write("qpos", {4, 10}, values), where, "qpos", "nq", 10, Partition(4, 0, 1));
            }).find("-11000000000 at [2, 3]; finite numbers within"),
            std::string::npos);
}

TEST_F(Dataset, ControlsOfEachStep) {
  const Partition second(70, 1, 2);
  ControlRows controls = read_control_rows(write("ctrl", {70, 9, 2}), where, 2, 8, second);
  for (const std::int64_t step : {0, 1, 7, 3}) {
    const std::vector<double>& rows = controls.rows(step);
    ASSERT_EQ(rows.size(), static_cast<std::size_t>(2 * second.envs()));
    for (std::int64_t env = 0; env < second.envs(); ++env)
      for (int u = 0; u < 2; ++u)
        EXPECT_EQ(rows[static_cast<std::size_t>(2 * env + u)],
                  static_cast<double>(((second.first_env() + env) * 9 + step) * 2 + u));
  }
  ControlRows shared = read_control_rows(write("ctrl", {1, 9, 2}), where, 2, 9, second);
  EXPECT_EQ(shared.rows(8), (std::vector<double>{16, 17}));
  EXPECT_THROW(shared.rows(9), Error);
  EXPECT_NE(refusal([&] {
              read_control_rows(write("ctrl", {1, 9, 2}), where, 2, 10, second);
            }).find("shape [1, 9, 2]; allowed is [env = 70 or 1, step = at least 10, nu = 2]"),
            std::string::npos);
}

// More than one block of the reader.
TEST_F(Dataset, ControlsLongerThanABlock) {
  const std::int64_t envs = 1000, steps = 1100, nu = 5;
  ControlRows controls =
      read_control_rows(write("ctrl", {1000, 1100, 5}), where, 5, steps, Partition(envs, 0, 1));
  for (std::int64_t step = 0; step < steps; step += 99)
    EXPECT_EQ(controls.rows(step)[static_cast<std::size_t>(999 * nu + 4)],
              static_cast<double>((999 * steps + step) * nu + 4));
}

}  // namespace
}  // namespace maniple
