// Segments of shared memory that killed runs left behind, as opposed to those in use.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "src/base/process.hpp"
#include "src/parallel/shared_memory.hpp"

namespace maniple {
namespace {

TEST(SharedMemory, OnlyOldSegmentsOfThisUserThatNobodyMapsGo) {
  char directory[] = "/tmp/manipleXXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  const std::string user = std::to_string(geteuid()), host = host_name().substr(0, host_name().find('.'));
  const auto create = [&](const std::string& on, const std::string& owner, const std::string& rank,
                          bool old) {
    const std::string path =
        std::string(directory) + "/vader_segment." + on + "." + owner + ".51b30001." + rank;
    std::ofstream(path) << "segment";
    const struct timeval hour_ago[2] = {{time(nullptr) - 3600, 0}, {time(nullptr) - 3600, 0}};
    if (old) utimes(path.c_str(), hour_ago);
    return path;
  };
  const std::string left = create(host, user, "0", true), used = create(host, user, "1", true),
                    young = create(host, user, "2", false), other = create("another", user, "3", true),
                    somebody = create(host, "1" + user, "4", true);
  const int fd = open(used.c_str(), O_RDONLY);
  void* memory = mmap(nullptr, 7, PROT_READ, MAP_SHARED, fd, 0);
  ASSERT_NE(memory, MAP_FAILED);
  close(fd);
  remove_abandoned_segments(directory);
  EXPECT_FALSE(std::filesystem::exists(left));
  for (const std::string& path : {used, young, other, somebody})
    EXPECT_TRUE(std::filesystem::exists(path)) << path;
  munmap(memory, 7);
  remove_abandoned_segments(directory);
  EXPECT_FALSE(std::filesystem::exists(used));
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace maniple
