// Checkpoints on one rank: round trip, identity, every kind of damage, full disks and kills.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "src/base/error.hpp"
#include "src/io/checkpoint_reader.hpp"
#include "src/io/checkpoint_writer.hpp"
#include "src/io/commit.hpp"
#include "src/io/digest.hpp"
#include "src/io/hdf5.hpp"
#include "src/parallel/mpi_access.hpp"
#include "tests/unit/io/batch_fixture.hpp"
#include "tests/unit/io/temporary_directory.hpp"

namespace maniple {
namespace {

namespace fs = std::filesystem;

class Checkpoint : public testing::Test {
 protected:
  std::unique_ptr<Collectives> collectives = make_mpi_collectives(MPI_COMM_SELF);
  TemporaryDirectory directory{*collectives};

  std::string write(std::int64_t step, std::int64_t envs = 75, std::int64_t keep = 3) {
    CheckpointWriter writer(directory, keep, false, *collectives);
    const std::string path = write(writer, step, envs);
    writer.settle();
    return path;
  }
  std::string write(CheckpointWriter& writer, std::int64_t step, std::int64_t envs = 75) {
    TestBatch batch(envs, 0, 1);
    batch.fill();
    return writer.write(step, batch.identity(), batch.archive(), batch.partition);
  }
  std::optional<std::int64_t> read(TestBatch& batch) {
    return read_newest_checkpoint(directory, batch.identity(), batch.archive(), batch.partition,
                                  *collectives);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& entry : fs::directory_iterator(directory.path() + "/checkpoints"))
      all.push_back(entry.path().filename());
    std::sort(all.begin(), all.end());
    return all;
  }
};

void flip_bit(const std::string& path, std::uint64_t position, int bit) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(position));
  char byte = 0;
  file.get(byte);
  file.seekp(static_cast<std::streamoff>(position));
  file.put(static_cast<char>(byte ^ (1 << bit)));
}

std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const InputError& error) {
    return std::string("input: ") + error.what();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST_F(Checkpoint, RoundTripGivesEveryNumberBack) {
  const std::string path = write(50);
  EXPECT_EQ(path, directory.path() + "/checkpoints/50.h5");
  TestBatch batch(75, 0, 1);
  EXPECT_FALSE(batch.is_filled());
  EXPECT_EQ(read(batch), 50);
  EXPECT_TRUE(batch.is_filled());
  EXPECT_EQ(batch.state.back(), -1) << "padding lanes and unsaved elements stay as they are";
}

TEST_F(Checkpoint, FileIsDescribedForOtherReaders) {
  const hdf5::File file = hdf5::open_file(write(3), false);
  const hdf5::Dataset qpos = hdf5::open_dataset(file, "state/qpos");
  EXPECT_EQ(hdf5::shape_of(qpos), (hdf5::Shape{75, 3}));
  EXPECT_EQ(hdf5::type_of(qpos), "float32");
  EXPECT_EQ(hdf5::read_text_attribute(qpos, "unit"), "m");
  EXPECT_EQ(hdf5::read_text_attribute(qpos, "description"), "position");
  std::vector<float> rows(75 * 3);
  hdf5::read_box(qpos, H5T_NATIVE_FLOAT, {0, 0}, {75, 3}, rows.data(), "qpos");
  EXPECT_EQ(rows[70 * 3 + 2], static_cast<float>(TestBatch::value(70, 2)));
}

TEST_F(Checkpoint, NoDirectoryMeansNoCheckpoint) {
  TestBatch batch(75, 0, 1);
  EXPECT_EQ(read(batch), std::nullopt);
}

TEST_F(Checkpoint, KeepsTheLastAndNamesThemInTheManifest) {
  for (std::int64_t step : {10, 20, 30, 40}) write(step, 75, 2);
  EXPECT_EQ(names(), (std::vector<std::string>{"30.h5", "40.h5", "manifest.json"}));
  std::ifstream manifest(directory.path() + "/checkpoints/manifest.json");
  const std::string text{std::istreambuf_iterator<char>(manifest), {}};
  EXPECT_NE(text.find("\"newest\": 40"), std::string::npos) << text;
  EXPECT_NE(text.find("\"30.h5\""), std::string::npos) << text;
  EXPECT_EQ(text.find("\"20.h5\""), std::string::npos) << text;
}

TEST_F(Checkpoint, StepsOfAnAbandonedFutureStepAside) {
  write(100);
  write(50);
  EXPECT_EQ(names(), (std::vector<std::string>{"100.h5.superseded", "50.h5", "manifest.json"}));
  TestBatch batch(75, 0, 1);
  EXPECT_EQ(read(batch), 50);
}

TEST_F(Checkpoint, OnlyTheLastSupersededStay) {
  write(1);
  for (const char* step : {"101", "102", "103", "104"})
    std::ofstream(directory.path() + "/checkpoints/" + step + ".h5.superseded") << "old";
  write(2, 75, 2);
  EXPECT_EQ(names(), (std::vector<std::string>{"1.h5", "103.h5.superseded", "104.h5.superseded", "2.h5",
                                               "manifest.json"}));
}

TEST_F(Checkpoint, NothingIsRemovedBeforeTheNewOneHasBeenReadBack) {
  write(10);
  const std::vector<std::string> both{"10.h5", "20.h5", "manifest.json"};
  {
    CheckpointWriter writer(directory, 1, false, *collectives);
    const std::string path = write(writer, 20);
    EXPECT_EQ(names(), both);
    fs::resize_file(path, 1000);
    EXPECT_NE(message_of([&] { writer.settle(); }).find(path), std::string::npos);
    EXPECT_EQ(names(), both);
  }
  CheckpointWriter writer(directory, 1, false, *collectives);
  write(writer, 20);
  writer.settle();
  write(writer, 30);  // waits for the removal of the ones before
  EXPECT_EQ(names(), (std::vector<std::string>{"20.h5", "30.h5", "manifest.json"}));
}

// (a step of more digits than any run has is not listed)
TEST_F(Checkpoint, WhenPruningFindsNoneTheRunGoesOn) {
  CheckpointWriter writer(directory, 1, false, *collectives);
  write(writer, 1000000000000000000);
  EXPECT_NO_THROW(writer.settle());
  EXPECT_NO_THROW(write(writer, 7));
  writer.settle();
}

TEST_F(Checkpoint, WhatReplacesAnEarlierRunStandsAlone) {
  for (const std::int64_t step : {10, 20, 100}) write(step);
  {
    CheckpointWriter writer(directory, 3, true, *collectives);
    write(writer, 50);
    EXPECT_EQ(names(),
              (std::vector<std::string>{"10.h5", "100.h5.superseded", "20.h5", "50.h5", "manifest.json"}));
    write(writer, 60);
    writer.settle();
  }
  EXPECT_EQ(names(), (std::vector<std::string>{"50.h5", "60.h5", "manifest.json"}));
}

TEST_F(Checkpoint, AnotherRunIsRefusedByKey) {
  write(50);
  TestBatch batch(75, 0, 1);
  const auto refusal = [&](const std::function<void(CheckpointIdentity&)>& change) {
    CheckpointIdentity identity = batch.identity();
    change(identity);
    return message_of(
        [&] { read_newest_checkpoint(directory, identity, batch.archive(), batch.partition, *collectives); });
  };
  const auto expect = [](const std::string& message, const std::string& key) {
    EXPECT_EQ(message.rfind("input: ", 0), 0u) << message;
    EXPECT_NE(message.find("50.h5: " + key), std::string::npos) << message;
  };
  expect(refusal([](auto& i) { i.seed = 43; }),
         "batch.seed: the checkpoint has 42; this run has 43; learning.warm_start begins a new run");
  expect(refusal([](auto& i) { i.num_envs = 76; }), "batch.num_envs");
  expect(refusal([](auto& i) { i.precision = "double"; }), "simulation.precision");
  expect(refusal([](auto& i) { i.model_digest = "model 2"; }), "model.file");
  expect(refusal([](auto& i) { i.task_digest = "task 2"; }), "task");
  const auto of_task = [&](std::vector<std::string> lines) {
    return refusal([&](auto& i) {
      i.task_digest = "task 2";
      i.task_lines = std::move(lines);
    });
  };
  const std::string velocity = "task.observations: {term: base_lin_vel}",
                    last = "task.observations: {term: last_action}",
                    alive = "task.rewards.alive: {term: is_alive}";
  expect(of_task({velocity, last, alive + " twice"}),
         "task.rewards.alive: the checkpoint has {term: is_alive}, this run {term: is_alive} twice; "
         "allowed: the same task, or learning.warm_start");
  expect(of_task({velocity, last}), "task.rewards.alive: the checkpoint has {term: is_alive}, this run none");
  expect(of_task({"task.observations: {term: more}", velocity, last, alive}),
         "task.observations: the checkpoint has none, this run {term: more}");
  expect(of_task({velocity, "task.observations: {term: joint_vel}"}),
         "task.observations: the checkpoint has {term: last_action}, this run {term: joint_vel}; "
         "other differences: task.rewards.alive");
  expect(of_task({last, velocity, alive}), "task.observations: in another order in this run");
  expect(of_task({velocity, last, alive}), "task: the checkpoint is of");
  expect(refusal([](auto& i) { i.kind = "imitate"; }), "kind");
}

TEST_F(Checkpoint, OtherArraysAreRefusedByName) {
  write(50);
  TestBatch batch(75, 0, 1);
  Archive larger = batch.archive();
  std::vector<float> more(2000);
  Archive other;
  other.replicated("learning/parameters", more.data(), more.size(), "1", "of a wider policy");
  EXPECT_NE(message_of([&] {
              read_newest_checkpoint(directory, batch.identity(), other, batch.partition, *collectives);
            }).find("learning/parameters: the checkpoint has float32 [1000]; this run has float32 [2000]"),
            std::string::npos);
  Archive missing;
  missing.replicated("learning/moments", more.data(), more.size(), "1", "of Adam");
  EXPECT_NE(message_of([&] {
              read_newest_checkpoint(directory, batch.identity(), missing, batch.partition, *collectives);
            }).find("learning/moments: not in the checkpoint"),
            std::string::npos);
}

// Wherever a bit flips, also in the library's own structures, which can crash it: the load falls back.
TEST_F(Checkpoint, AnyFlippedBitIsNoticed) {
  write(40);
  const std::string path = write(50);
  const auto size = fs::file_size(path);
  std::vector<std::uint64_t> places;
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  for (const char* structure :
       {"maniple seal", "\x89HDF", "OHDR", "OCHK", "FRHP", "FHDB", "BTHD", "BTLF", "GCOL"})
    for (std::size_t at = bytes.find(structure); at != std::string::npos; at = bytes.find(structure, at + 1))
      for (std::uint64_t offset = 0; offset < 64; offset += 3)
        if (at + offset < size) places.push_back(at + offset);
  EXPECT_GT(places.size(), 200u);
  const int kTrials =
      std::getenv("MANIPLE_FLIP_TRIALS") ? std::atoi(std::getenv("MANIPLE_FLIP_TRIALS")) : 200;
  std::uint64_t random = 12345;
  for (int trial = 0; trial < kTrials; ++trial) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    places.push_back((random >> 20) % size);
  }
  for (const std::uint64_t place : places) {
    flip_bit(path, place, static_cast<int>(place * 5 % 8));
    TestBatch batch(75, 0, 1);
    EXPECT_EQ(read(batch), 40) << "byte " << place;
    flip_bit(path, place, static_cast<int>(place * 5 % 8));
  }
  TestBatch batch(75, 0, 1);
  EXPECT_EQ(read(batch), 50);
  EXPECT_TRUE(batch.is_filled());
}

TEST_F(Checkpoint, DamageFallsBackToTheNewestGoodOne) {
  const std::string flipped = write(20), truncated = write(30), empty = write(40);
  haddr_t offset = 0;
  {
    const hdf5::File file = hdf5::open_file(flipped, false);
    offset = H5Dget_offset(hdf5::open_dataset(file, "learning/parameters"));
  }
  flip_bit(flipped, offset + 1234, 3);
  fs::resize_file(truncated, fs::file_size(truncated) / 2);
  fs::resize_file(empty, 0);
  TestBatch batch(75, 0, 1);
  const std::string message = message_of([&] { read(batch); });
  for (const char* name : {"20.h5", "30.h5", "40.h5"})
    EXPECT_NE(message.find(name), std::string::npos) << message;
  EXPECT_EQ(message.rfind("input: ", 0), 0u);
  flip_bit(flipped, offset + 1234, 3);
  EXPECT_EQ(read(batch), 20);
  EXPECT_TRUE(batch.is_filled());
}

TEST_F(Checkpoint, PolicyAloneIsReadFromFileOrDirectoryForAnyBatch) {
  const std::string path = write(50);
  TestBatch batch(75, 0, 1);
  CheckpointIdentity identity = batch.identity();
  identity.num_envs = 4;
  identity.seed = 1;
  identity.precision = "double";
  for (const std::string& place : {path, directory.path()}) {
    std::vector<float> parameters(1000);
    Archive archive;
    archive.replicated("learning/parameters", parameters.data(), parameters.size(), "1", "");
    EXPECT_EQ(read_replicated(place, identity, archive, *collectives), 50);
    EXPECT_EQ(parameters[7], 1.0f);
  }
  Archive nothing;
  EXPECT_NE(message_of([&] {
              read_replicated(directory.path() + "/none", identity, nothing, *collectives);
            }).find("none found"),
            std::string::npos);
  identity.task_digest = "other";
  EXPECT_NE(message_of([&] { read_replicated(path, identity, nothing, *collectives); }).find("task"),
            std::string::npos);
  fs::resize_file(path, 1000);
  identity.task_digest = "task 1";
  EXPECT_EQ(message_of([&] { read_replicated(path, identity, nothing, *collectives); }).rfind("input: ", 0),
            0u);
}

// In a child, because limits and signals belong to the process. MPI_COMM_SELF's files need no peer, so
// the child may use them after fork.
int in_child(const std::function<int()>& work) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) _exit(work());
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

TEST_F(Checkpoint, FileSizeLimitIsAnErrorThatKeepsTheOlderOnes) {
  write(50);
  const int status = in_child([&] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{256 * 1024, 256 * 1024};
    setrlimit(RLIMIT_FSIZE, &limit);
    const std::string message = message_of([&] { write(60, 20000); });
    if (message.find("60.h5") == std::string::npos || message.rfind("input", 0) == 0) {
      std::printf("unexpected: %s\n", message.c_str());
      return 1;
    }
    return 0;
  });
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(names(), (std::vector<std::string>{"50.h5", "manifest.json"}));
  TestBatch batch(75, 0, 1);
  EXPECT_EQ(read(batch), 50);
}

// Killed at a random moment, again and again: what is there loads, and the newest is never older than
// the last that was reported written.
TEST_F(Checkpoint, KillAtAnyMomentLosesOnlyTheOneBeingWritten) {
  std::int64_t reported = 0;
  std::uint64_t random = 42, longest = 60000;  // us that a child lives; more where writing takes longer
  for (int trial = 0; trial < 25; ++trial) {
    int pipe_ends[2];
    ASSERT_EQ(pipe(pipe_ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      CheckpointWriter writer(directory, 2, false, *collectives);
      for (std::int64_t step = reported + 1;; ++step) {
        write(writer, step, 5000);
        if (::write(pipe_ends[1], &step, sizeof step) != sizeof step) _exit(1);
      }
    }
    close(pipe_ends[1]);
    random = random * 6364136223846793005u + 1442695040888963407u;
    usleep(static_cast<useconds_t>(5000 + (random >> 40) % longest));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself";
    for (std::int64_t step; ::read(pipe_ends[0], &step, sizeof step) == sizeof step;) reported = step;
    close(pipe_ends[0]);
    if (reported == 0) longest = std::min<std::uint64_t>(2 * longest, 5'000'000);
    TestBatch batch(5000, 0, 1);
    const auto step = read(batch);
    if (reported > 0) {
      ASSERT_TRUE(step.has_value());
      EXPECT_GE(*step, reported);
      EXPECT_LE(*step, reported + 1);
    }
    if (step) {
      EXPECT_TRUE(batch.is_filled());
      reported = *step;
    }
  }
  EXPECT_GT(reported, 0) << "no child lived long enough to write one";
  write(reported + 1, 5000);
  for (const std::string& name : names())
    EXPECT_EQ(name.find(".tmp."), std::string::npos) << name << " was left";
}

TEST_F(Checkpoint, UnwritableDirectoryIsAnErrorWithItsPath) {
  std::ofstream(directory.path() + "/checkpoints") << "a file where the directory should be";
  const std::string message = message_of([&] { write(1); });
  EXPECT_NE(message.find(directory.path() + "/checkpoints"), std::string::npos) << message;
}

}  // namespace
}  // namespace maniple
