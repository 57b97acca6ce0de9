// Reading in a child process: faults of the file, faults of the machine, and the file to blame.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <chrono>
#include <ctime>
#include <fstream>
#include <new>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "src/base/activity.hpp"
#include "src/io/isolated.hpp"
#include "src/parallel/retry.hpp"

namespace maniple {
namespace {

using testing::HasSubstr;

const std::string kFile = "some.h5";

// What is thrown: "machine: ...", "file: ..." or "user: ...".
std::string thrown_by(const std::function<void()>& work) {
  try {
    work();
  } catch (const InputError& error) {
    return std::string("user: ") + error.what();
  } catch (const MachineFault& error) {
    return std::string("machine: ") + error.what();
  } catch (const Error& error) {
    return std::string("file: ") + error.what();
  }
  return "nothing";
}

std::string thrown_in_child(const std::function<void()>& work) {
  return thrown_by([&] {
    run_isolated(kFile, [&] {
      work();
      return std::string();
    });
  });
}

TEST(Isolated, CrashesOfTheLibraryAreTheFiles) {
  for (const int number : {SIGSEGV, SIGABRT, SIGFPE, SIGILL})
    EXPECT_EQ(thrown_in_child([&] { raise(number); }),
              "file: some.h5: damaged: the HDF5 library crashes on it");
  EXPECT_EQ(thrown_in_child([] { raise(SIGXCPU); }),
            "file: some.h5: damaged: the HDF5 library does not finish reading it");
  EXPECT_EQ(thrown_in_child([] { throw Error("no such object"); }), "file: some.h5: no such object");
  EXPECT_EQ(thrown_in_child([] { throw InputError("as it is"); }), "user: as it is");
}

// A file that takes long, but gets on, has its time again with each piece.
TEST(Isolated, TimeIsThatOfAPiece) {
  const auto compute = [](int pieces) {
    return [pieces] {
      rlimit time{};
      getrlimit(RLIMIT_CPU, &time);
      std::string limits = std::to_string(time.rlim_cur);
      for (int piece = 0; piece < pieces; ++piece) {
        const std::clock_t begun = std::clock();
        while (std::clock() - begun < CLOCKS_PER_SEC * 21 / 20) {
        }
        note_reading();
        getrlimit(RLIMIT_CPU, &time);
        limits += " " + std::to_string(time.rlim_cur);
      }
      return limits;
    };
  };
  std::istringstream limits(run_isolated(kFile, compute(2)));
  rlim_t first = 0, last = 0, next = 0;
  limits >> first;
  while (limits >> next) {
    EXPECT_GE(next, last);
    last = next;
  }
  EXPECT_GT(last, first);
}

// The watchdog sees that the parent of a child that gets on is not hanging.
TEST(Isolated, TheParentNotesTheProgressOfItsChild) {
  const auto steps = [](int pieces) {
    const std::uint64_t before = activity.progress;
    run_isolated(kFile, [pieces] {
      for (int piece = 0; piece < pieces; ++piece) {
        std::this_thread::sleep_for(std::chrono::milliseconds(150));
        note_reading();
      }
      return std::string();
    });
    return activity.progress - before;
  };
  EXPECT_LE(steps(0), 2u);  // its answer
  EXPECT_GE(steps(8), 4u);
}

TEST(Isolated, WhatEndsTheChildOtherwiseIsTheMachines) {
  EXPECT_EQ(thrown_in_child([] { raise(SIGKILL); }),
            "machine: some.h5: the process that reads it was ended by a signal (Killed): is there too little "
            "memory?");
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGBUS})
    EXPECT_THAT(thrown_in_child([&] { raise(number); }),
                HasSubstr("machine: some.h5: the process that reads"));
  EXPECT_EQ(thrown_in_child([] { _exit(3); }),
            "machine: some.h5: the process that reads it ended without an answer");
  EXPECT_EQ(thrown_in_child([] { throw TransientError("some.h5: Stale file handle"); }),
            "machine: some.h5: Stale file handle");
}

// The address sanitizer's allocator ends the process where others throw.
#ifndef MANIPLE_SANITIZED
// Touched, so that no compiler leaves it out.
void allocate(std::size_t bytes) {
  std::vector<char> memory(bytes, 'x');
  ASSERT_EQ(memory[bytes / 2], 'x');
}

TEST(Isolated, MemoryIsTheFilesFaultOnlyWithinALimitOfOurs) {
  EXPECT_THAT(thrown_in_child([] { allocate(std::size_t{1} << 36); }),
              HasSubstr("file: some.h5: damaged: it asks for more memory"));
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit low = before;
  low.rlim_cur = pages * 4096 + (std::size_t{256} << 20);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &low), 0);
  const std::string own = thrown_in_child([] { allocate(std::size_t{1} << 30); });
  const std::string of_hdf5 =
      thrown_in_child([] { throw Error("memory allocation failed for raw data chunk"); });
  const std::string other = thrown_in_child([] { throw Error("wrong version number"); });
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_THAT(own, HasSubstr("machine: some.h5: no memory to read it with (ulimit -v"));
  EXPECT_EQ(of_hdf5, own);
  EXPECT_EQ(other, "file: some.h5: wrong version number");
}
#endif

TEST(Isolated, ManyFilesInOneChild) {
  const std::vector<std::string> files{"a.h5", "b.h5", "c.h5"};
  int calls = 0;  // of the child, which keeps what it knows
  const auto read = [&](std::size_t file) {
    return std::to_string(++calls) + std::string(file * 100000, '.');
  };
  EXPECT_EQ(run_isolated(files, read),
            (std::vector<std::string>{"1", "2" + std::string(100000, '.'), "3" + std::string(200000, '.')}));
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(thrown_by([&] {
              run_isolated(files, [](std::size_t file) {
                if (file == 1) raise(SIGSEGV);
                return std::string("fine");
              });
            }),
            "file: b.h5: damaged: the HDF5 library crashes on it");
  EXPECT_EQ(thrown_by([&] {
              run_isolated(files, [](std::size_t file) {
                if (file == 2) throw Error("c.h5: not a group");
                return std::string("fine");
              });
            }),
            "file: c.h5: not a group");
}

}  // namespace
}  // namespace maniple
