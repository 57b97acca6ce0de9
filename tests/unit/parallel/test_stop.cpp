// Early stops: signals, trigger files, wall time, and that all ranks learn the same.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "src/driver/stop.hpp"
#include "src/parallel/mpi_access.hpp"
#include "tests/unit/io/temporary_directory.hpp"

namespace maniple {
namespace {

using Clock = std::chrono::steady_clock;

class StopMpi : public testing::Test {
 protected:
  std::unique_ptr<Collectives> world = make_mpi_collectives(MPI_COMM_WORLD);
  TemporaryDirectory directory{*world};
  Config config;
  std::map<int, void (*)(int)> inherited;  // handlers that the tests were started with

  // Whoever starts the tests in the background of a script has them ignore SIGINT.
  void SetUp() override {
    config.output.directory = directory.path();
    for (const int number : {SIGTERM, SIGINT, SIGUSR1, SIGHUP, SIGCONT})
      inherited[number] = signal(number, SIG_DFL);
  }
  void TearDown() override {
    for (const auto& [number, handler] : inherited) signal(number, handler);
  }
  bool is_last() const { return world->rank() == world->size() - 1; }
};

TEST_F(StopMpi, NothingAskedNothingDone) {
  StopRequest stop(config, Clock::now());
  for (int i = 0; i < 3; ++i) {
    const StopRequest::Decision decision = stop.agree(*world);
    EXPECT_FALSE(decision.stop);
    EXPECT_FALSE(decision.checkpoint);
    EXPECT_EQ(decision.reason, "");
  }
}

TEST_F(StopMpi, SignalOfOneRankStopsAll) {
  for (const auto& [number, name] : std::vector<std::pair<int, std::string>>{
           {SIGTERM, "SIGTERM"}, {SIGINT, "SIGINT"}, {SIGUSR1, "SIGUSR1"}, {SIGHUP, "SIGHUP"}}) {
    StopRequest stop(config, Clock::now());
    EXPECT_FALSE(stop.agree(*world).stop);
    if (is_last()) raise(number);
    const StopRequest::Decision decision = stop.agree(*world);
    EXPECT_TRUE(decision.stop);
    EXPECT_TRUE(decision.checkpoint) << "nothing may be lost";
    EXPECT_EQ(decision.reason, name);
  }
  StopRequest fresh(config, Clock::now());
  EXPECT_FALSE(fresh.agree(*world).stop) << "a signal counts once";
}

// mpirun, told to end a job, sends SIGCONT first and SIGTERM only after odls_base_sigkill_timeout seconds.
TEST_F(StopMpi, ContinueAsksForACheckpointAndNoStop) {
  StopRequest stop(config, Clock::now());
  if (is_last()) raise(SIGCONT);
  StopRequest::Decision decision = stop.agree(*world);
  EXPECT_TRUE(decision.checkpoint);
  EXPECT_FALSE(decision.stop);
  EXPECT_FALSE(stop.agree(*world).checkpoint) << "once";
}

TEST_F(StopMpi, SignalsBeforeTheRunCount) {
  const StopSignals early;
  if (is_last()) raise(SIGTERM);
  StopRequest stop(config, Clock::now());
  EXPECT_TRUE(stop.agree(*world).stop);
}

TEST_F(StopMpi, IgnoredSignalsStayIgnored) {  // as nohup leaves them
  signal(SIGHUP, SIG_IGN);
  {
    StopRequest stop(config, Clock::now());
    if (is_last()) raise(SIGHUP);
    EXPECT_FALSE(stop.agree(*world).stop);
  }
  signal(SIGHUP, SIG_DFL);
}

// All ranks call poll() equally often, and learn within a fraction of a second what one of them was told.
TEST_F(StopMpi, PollsWithinAnIterationAgree) {
  StopRequest stop(config, Clock::now());
  const auto calls_until_stop = [&](std::int64_t most) {
    for (std::int64_t call = 1; call <= most; ++call) {
      std::this_thread::sleep_for(std::chrono::milliseconds(is_last() ? 1 : 2));
      if (stop.poll(*world).stop) return call;
    }
    return std::int64_t{0};
  };
  EXPECT_EQ(calls_until_stop(300), 0);
  if (is_last()) raise(SIGUSR1);
  std::int64_t calls = calls_until_stop(10000);
  EXPECT_GT(calls, 0);
  std::int64_t least = calls;
  world->min(&least, 1);
  EXPECT_EQ(calls, least);
}

TEST_F(StopMpi, HandlersAreGivenBack) {
  struct sigaction before {
  }, after{};
  sigaction(SIGUSR1, nullptr, &before);
  { StopRequest stop(config, Clock::now()); }
  sigaction(SIGUSR1, nullptr, &after);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
}

TEST_F(StopMpi, TriggerFilesWorkOnceAndDisappear) {
  StopRequest stop(config, Clock::now());
  const auto trigger = [&](const std::string& name) {
    if (is_last()) std::ofstream(directory.path() + "/" + name) << "";
    world->barrier();
  };
  trigger("checkpoint_now");
  StopRequest::Decision decision = stop.agree(*world);
  EXPECT_TRUE(decision.checkpoint);
  EXPECT_FALSE(decision.stop);
  EXPECT_EQ(decision.reason, "checkpoint_now");
  EXPECT_FALSE(stop.agree(*world).checkpoint);

  trigger("stop_now");
  // looked for at most once a second; a request that came just after a look is seen at the next one
  for (int i = 0; i < 40 && !decision.stop; ++i) {
    decision = stop.agree(*world);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_TRUE(decision.stop);
  EXPECT_TRUE(decision.checkpoint);
  EXPECT_EQ(decision.reason, "stop_now");
  world->barrier();
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
  world->barrier();
}

TEST_F(StopMpi, WallTimeEndsBeforeTheLimitWithRoomForOneMoreIteration) {
  config.run.wall_time = 1000;
  const auto started = [](double seconds_ago) {
    return Clock::now() -
           std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds_ago));
  };
  EXPECT_FALSE(StopRequest(config, started(900)).agree(*world).stop);
  // within the margin for leaving (2%, at most 5 s)
  const StopRequest::Decision decision = StopRequest(config, started(996)).agree(*world);
  EXPECT_TRUE(decision.stop);
  EXPECT_EQ(decision.reason, "run.wall_time");
  // only the last rank's clock says so
  EXPECT_TRUE(StopRequest(config, started(is_last() ? 2000 : 1)).agree(*world).stop);
  config.run.wall_time = 0;
  EXPECT_FALSE(StopRequest(config, started(1e6)).agree(*world).stop);

  // what is noted as output is no part of the iteration
  config.run.wall_time = 0.8;
  StopRequest outputs(config, Clock::now());
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  outputs.note_output(0.05);
  EXPECT_FALSE(outputs.agree(*world).stop);
  // but twice as long an output has to fit, also in the middle of an iteration
  outputs.note_output(0.4);
  EXPECT_TRUE(outputs.poll(*world).stop);
  EXPECT_EQ(outputs.agree(*world).reason, "run.wall_time");
  // an iteration of 0.4 s does not fit once more into the 0.4 s that are left of this limit
  StopRequest slow(config, Clock::now());
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  EXPECT_TRUE(slow.agree(*world).stop);
}

}  // namespace
}  // namespace maniple
