// The memory left according to the files of a made-up host: control groups of both versions, nested limits, a
// container that sees its own group as the top.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "src/base/memory.hpp"

namespace maniple {
namespace {

constexpr std::size_t kMega = std::size_t{1} << 20;

class MemoryLimits : public testing::Test {
 protected:
  std::string root;
  void SetUp() override {
    root = (std::filesystem::temp_directory_path() / "manipleXXXXXX").string();
    ASSERT_NE(mkdtemp(root.data()), nullptr);
    write("/proc/meminfo",
          "MemTotal:       16000000 kB\nMemFree:         100000 kB\nMemAvailable:    8192 kB\n");
  }
  void TearDown() override { std::filesystem::remove_all(root); }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root + path).parent_path());
    std::ofstream(root + path) << text;
  }
  // Without this process' own limit of address space.
  std::vector<MemoryLimit> limits() {
    std::vector<MemoryLimit> found = memory_limits(root);
    found.erase(
        std::remove_if(found.begin(), found.end(), [](const auto& limit) { return limit.of_process; }),
        found.end());
    return found;
  }
  static void expect(const MemoryLimit& limit, const std::string& name, std::size_t available) {
    EXPECT_EQ(limit.name, name);
    EXPECT_EQ(limit.available, available) << name;
  }
};

TEST_F(MemoryLimits, AreTheHostsWithoutGroups) {
  ASSERT_EQ(limits().size(), 1u);
  expect(limits()[0], "host", 8 * kMega);
}

TEST_F(MemoryLimits, CountEveryGroupAboveAndNotTheCache) {
  write("/proc/self/cgroup", "0::/system.slice/job_7/step_0\n");
  write("/proc/self/mountinfo",
        "31 23 0:28 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n");
  const std::string slice = "/sys/fs/cgroup/system.slice";
  write(slice + "/memory.max", "max\n");
  write(slice + "/memory.current", "1000\n");
  write(slice + "/job_7/memory.max", "6291456\n");
  write(slice + "/job_7/memory.current", "4194304\n");
  write(slice + "/job_7/memory.stat",
        "anon 1048576\nfile 3145728\ninactive_file 1048576\nactive_file 2097152\n");
  write(slice + "/job_7/step_0/memory.max", "4194304\n");
  write(slice + "/job_7/step_0/memory.current", "1048576\n");
  write(slice + "/job_7/step_0/memory.stat", "anon 1048576\n");
  const auto found = limits();
  ASSERT_EQ(found.size(), 3u);
  expect(found[0], "host", 8 * kMega);
  expect(found[1], slice + "/job_7/step_0", 3 * kMega);
  expect(found[2], slice + "/job_7", 5 * kMega);
}

TEST_F(MemoryLimits, OfVersionOneStandBesideOtherControllers) {
  write("/proc/self/cgroup",
        "9:name=systemd:/\n8:cpu,cpuacct:/other\n4:hugetlb,memory:/slurm/uid_1/job_2\n0::/\n");
  write("/proc/self/mountinfo",
        "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
        "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,hugetlb,memory\n"
        "38 31 0:41 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  const std::string job = "/sys/fs/cgroup/memory/slurm/uid_1/job_2";
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1048576\n");
  write(job + "/memory.limit_in_bytes", "2097152\n");
  write(job + "/memory.usage_in_bytes", "2097152\n");
  write(job + "/memory.stat",
        "inactive_file 5\nactive_file 5\ntotal_inactive_file 524288\ntotal_active_file 0\n");
  const auto found = limits();
  ASSERT_EQ(found.size(), 2u) << "a group without a limit is none";
  expect(found[1], job, kMega / 2);
}

TEST_F(MemoryLimits, OfAContainerLieAtTheTopOfWhatItSees) {
  // the group is named by a path of the host's, and mounted as the top
  for (const char* top : {"/docker/0ab1", "/"}) {
    write("/proc/self/cgroup", "4:memory:/docker/0ab1\n");
    write("/proc/self/mountinfo",
          "35 31 0:32 " + std::string(top) + " /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
    write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1048576\n");
    write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "2097152\n");
    const auto found = limits();
    ASSERT_EQ(found.size(), 2u) << top;
    expect(found[1], "/sys/fs/cgroup/memory", 0);
  }
}

TEST_F(MemoryLimits, IncludeTheAddressSpaceOfTheProcess) {
  struct rlimit before {};
  getrlimit(RLIMIT_AS, &before);
  struct rlimit small = before;
  small.rlim_cur = std::size_t{1} << 46;  // more than the shadow memory of a sanitizer takes
  if (before.rlim_max != RLIM_INFINITY) small.rlim_cur = std::min(small.rlim_cur, before.rlim_max);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &small), 0);
  const auto found = memory_limits();
  setrlimit(RLIMIT_AS, &before);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].name, "host");
  EXPECT_GT(found[0].available, kMega);
  EXPECT_EQ(found.back().name, "ulimit -v");
  EXPECT_TRUE(found.back().of_process);
  EXPECT_LT(found.back().available, small.rlim_cur);
  EXPECT_GT(found.back().available, 0u);
}

}  // namespace
}  // namespace maniple
