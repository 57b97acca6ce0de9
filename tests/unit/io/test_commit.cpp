// Temporary files of processes that no longer live; the writing
// and renaming itself is tested with the files that use it.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "src/io/commit.hpp"

namespace maniple {
namespace {

TEST(Commit, RemovesWhatDeadProcessesLeft) {
  char directory[] = "/tmp/manipleXXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  const std::string path = std::string(directory) + "/7.h5";
  const auto create = [](const std::string& name) { std::ofstream(name) << "x"; };
  const pid_t child = fork();
  if (child == 0) {
    create(temporary_name(path));
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  const std::string alive = temporary_name(path);
  const std::string elsewhere = path + ".tmp.0." + std::to_string(getpid()) + ".another.host";
  for (const std::string& name : {path, alive, elsewhere}) create(name);
  // who removes holds the lock of the directory, so nobody writes there from another host
  remove_abandoned(directory);
  int left = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory)) ++left;
  EXPECT_EQ(left, 2);
  for (const std::string& name : {path, alive}) EXPECT_TRUE(std::filesystem::exists(name)) << name;
  std::filesystem::remove_all(directory);
}

TEST(Commit, ReservedBlocksBehindTheEndGoBack) {
  char directory[] = "/tmp/manipleXXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  const std::string path = std::string(directory) + "/7.h5", temporary = temporary_name(path);
  std::ofstream(temporary) << "seven";
  reserve_bytes(temporary, 1 << 20);
  commit_file(temporary, path);
  struct stat status {};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_size, 5);
  EXPECT_LT(status.st_blocks * 512, 1 << 16);
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace maniple
