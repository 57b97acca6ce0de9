// Files that a process which no longer lives left behind; the writing and renaming itself is tested with
// the files that use it.
#include <gtest/gtest.h>
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
    create(temporary_name(path) + ".locktest.0");  // as MPI-IO does
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  const std::string alive = temporary_name(path);
  const std::string elsewhere = path + ".tmp.0." + std::to_string(child) + ".another.host";
  for (const std::string& name : {path, alive, elsewhere}) create(name);
  remove_abandoned(directory);
  int left = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory)) ++left;
  EXPECT_EQ(left, 3);
  for (const std::string& name : {path, alive, elsewhere}) EXPECT_TRUE(std::filesystem::exists(name)) << name;
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace maniple
