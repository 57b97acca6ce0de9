// The training loop with a learner that has a data set and no environments: least squares by gradient
// descent, the samples dealt out over ranks. It learns, its results hold a row per iteration, and after a
// stop of any kind it continues with the bits of the run that nobody stopped.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <thread>

#include "src/driver/training_loop.hpp"
#include "src/io/checkpoint_folder.hpp"
#include "src/io/checkpoint_reader.hpp"
#include "src/io/summary.hpp"
#include "src/parallel/mpi_access.hpp"
#include "tests/unit/io/temporary_directory.hpp"

namespace maniple {
namespace {

using Clock = std::chrono::steady_clock;

// y = slope x + offset, fitted to 50 samples.
class LeastSquares : public Learner {
 public:
  explicit LeastSquares(Collectives& collectives) : collectives_(collectives) {}

  static constexpr int kSamples = 50, kSteps = 3;
  static double x(int sample) { return 0.1 * sample - 2.5; }
  static double y(int sample) { return 0.75 * x(sample) - 0.5 + 0.1 * std::sin(3.0 * sample); }

  // called in the middle of an iteration, with its number and what may leave it
  using Within = std::function<void(std::int64_t, const std::function<void()>&)>;
  Within within = [](std::int64_t, const std::function<void()>&) {};

  void start() override { weights_ = {0.1, 0.2}; }
  IterationReport iterate(const std::function<void()>& between_steps) override {
    double loss = 0;
    for (int step = 0; step < kSteps; ++step) {
      double sums[3] = {};  // derivatives by slope and offset, squared error
      for (int i = collectives_.rank(); i < kSamples; i += collectives_.size()) {
        const double error = weights_[0] * x(i) + weights_[1] - y(i);
        sums[0] += error * x(i) / kSamples;
        sums[1] += error / kSamples;
        sums[2] += 0.5 * error * error / kSamples;
      }
      collectives_.sum(sums, 3);
      weights_[0] -= 0.45 * sums[0];
      weights_[1] -= 0.45 * sums[1];
      loss = sums[2];
      if (step == 1) within(iteration_ + 1, between_steps);
      between_steps();
    }
    ++iteration_;
    IterationReport report = report_names();
    report.values[0].value = loss;
    report.summary = "loss";
    return report;
  }
  IterationReport report_names() const override {
    return {{{"loss", "1", "half the squared error", 0}}, "", 0};
  }
  void describe(Archive& archive) override {
    archive.replicated("least_squares/weights", weights_.data(), weights_.size(), "1", "slope and offset");
    archive.replicated("least_squares/iteration", &iteration_, 1, "1", "iterations done");
  }
  void restored() override { ++times_restored; }
  void describe_policy(Archive& archive) override {
    archive.replicated("least_squares/weights", weights_.data(), weights_.size(), "1", "slope and offset");
  }
  void describe_warm_start(Archive& archive) override {
    describe_policy(archive);
    archive.replicated("least_squares/momentum", &momentum_, 1, "1", "not in any checkpoint");
  }
  void warm_started(const WarmStart& start) override { warm_entries = start.entries; }
  Work work_per_iteration() const override { return {kSamples * kSteps, "samples"}; }
  std::vector<std::pair<std::string, double>> stage_seconds() const override { return {{"update", 0.0}}; }

  const std::vector<double>& weights() const { return weights_; }
  int times_restored = 0;
  std::vector<std::string> warm_entries;

 private:
  Collectives& collectives_;
  std::vector<double> weights_ = {0, 0};
  double momentum_ = 0;
  std::int64_t iteration_ = 0;
};

class TrainingLoopMpi : public testing::Test {
 protected:
  std::unique_ptr<Collectives> world = make_mpi_collectives(MPI_COMM_WORLD);
  TemporaryDirectory directory{*world};
  Config config;
  CheckpointIdentity identity;
  int directories = 0;
  std::function<void(std::int64_t)> after = [](std::int64_t) {};
  std::function<EvaluationMeans()> evaluate;

  void SetUp() override {
    identity.kind = "test";
    config.run.progress = ProgressStyle::none;
    config.learning.checkpoint_every = 4;
    in_new_directory();
  }
  void in_new_directory() {
    config.output.directory = directory.path() + "/" + std::to_string(directories++);
    run_on_root(*world, [&] { std::filesystem::create_directory(config.output.directory); });
  }
  // Returns once no rank changes files any more.
  ExitCode train(LeastSquares& learner, std::int64_t iterations) {
    const ExitCode code = run_training(
        learner,
        {.config = config,
         .collectives = *world,
         .record = {},
         .identity = identity,
         .iterations = iterations,
         .length = "steps=" + std::to_string(iterations),
         .started = Clock::now(),
         .after_iteration = [&](const IterationReport&, std::int64_t iteration) { after(iteration); },
         .evaluate = evaluate,
         .evaluate_every = config.evaluation.every});
    world->barrier();
    return code;
  }
  std::int64_t rows() const {
    std::int64_t found = -1;
    for (const ObjectSummary& object : summarize_file(config.output.directory + "/results.h5"))
      if (object.path == "/metrics/loss") found = object.shape.at(0);
    return found;
  }
  bool is_last() const { return world->rank() == world->size() - 1; }
};

TEST_F(TrainingLoopMpi, RunsALearnerWithoutEnvironments) {
  LeastSquares learner(*world);
  std::vector<std::int64_t> seen;
  after = [&](std::int64_t iteration) { seen.push_back(iteration); };
  EXPECT_EQ(train(learner, 10), ExitCode::done);
  EXPECT_EQ(seen, (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  // the normal equations
  double n = LeastSquares::kSamples, sx = 0, sy = 0, sxx = 0, sxy = 0;
  for (int i = 0; i < LeastSquares::kSamples; ++i) {
    const double x = LeastSquares::x(i), y = LeastSquares::y(i);
    sx += x, sy += y, sxx += x * x, sxy += x * y;
  }
  const double slope = (n * sxy - sx * sy) / (n * sxx - sx * sx);
  EXPECT_NEAR(learner.weights()[0], slope, 1e-6);
  EXPECT_NEAR(learner.weights()[1], (sy - slope * sx) / n, 1e-6);
  EXPECT_EQ(rows(), 10);
  EXPECT_EQ(checkpoint_steps(config.output.directory), (std::vector<std::int64_t>{10, 8, 4}));
}

// What was learned goes into another run, whatever that is; what is not there stays as it starts.
TEST_F(TrainingLoopMpi, BeginsWithWhatAnotherRunLearned) {
  LeastSquares first(*world);
  EXPECT_EQ(train(first, 5), ExitCode::done);
  config.learning.warm_start = config.output.directory;
  identity.task_digest = "another";
  identity.num_envs = 7;
  in_new_directory();
  LeastSquares second(*world), straight(*world);
  EXPECT_EQ(train(second, 2), ExitCode::done);
  EXPECT_EQ(second.warm_entries, std::vector<std::string>{"least_squares/weights"});
  EXPECT_EQ(rows(), 2);
  config.learning.warm_start.clear();
  in_new_directory();
  EXPECT_EQ(train(straight, 7), ExitCode::done);
  EXPECT_EQ(second.weights(), straight.weights());
}

// The best of the evaluated policies is kept, over a restart too.
TEST_F(TrainingLoopMpi, KeepsTheBestPolicy) {
  const std::vector<double> returns{std::nan(""), 8, 5, 7, 9, 2};
  std::size_t evaluated = 0;
  evaluate = [&] { return EvaluationMeans{.episode_return = returns.at(evaluated++), .success_rate = {}}; };
  config.evaluation.every = 2;
  LeastSquares begun(*world);
  EXPECT_EQ(train(begun, 3), ExitCode::done);
  const std::string best = config.output.directory + "/best";
  EXPECT_TRUE(checkpoint_steps(best).empty());  // what has no return is no best
  config.learning.resume = Resume::automatic;
  LeastSquares learner(*world);
  EXPECT_EQ(train(learner, 8), ExitCode::done);
  EXPECT_EQ(checkpoint_steps(best), (std::vector<std::int64_t>{4}));
  config.learning.resume = Resume::automatic;
  LeastSquares again(*world);
  EXPECT_EQ(train(again, 9), ExitCode::done);
  EXPECT_EQ(checkpoint_steps(best), (std::vector<std::int64_t>{4}));
  LeastSquares further(*world);
  EXPECT_EQ(train(further, 12), ExitCode::done);
  EXPECT_EQ(checkpoint_steps(best), (std::vector<std::int64_t>{10}));
  EXPECT_EQ(evaluated, 6u);
  // only what a policy needs
  std::vector<std::string> names;
  for (const ObjectSummary& object : summarize_file(best + "/checkpoints/10.h5"))
    names.push_back(object.path);
  EXPECT_NE(std::find(names.begin(), names.end(), "/least_squares/weights"), names.end());
  EXPECT_EQ(std::find(names.begin(), names.end(), "/least_squares/iteration"), names.end());
}

TEST_F(TrainingLoopMpi, ContinuesAfterAStopWithTheSameBits) {
  LeastSquares straight(*world);
  EXPECT_EQ(train(straight, 5), ExitCode::done);
  config.learning.resume = Resume::automatic;
  for (const bool within : {false, true}) {
    in_new_directory();
    LeastSquares first(*world);
    after = [&](std::int64_t iteration) {
      if (!within && iteration == 3 && is_last()) raise(SIGTERM);
    };
    first.within = [&](std::int64_t iteration, const std::function<void()>& between_steps) {
      if (!within) return;
      // where iterations are short a stop waits for their end
      if (iteration == 2) std::this_thread::sleep_for(std::chrono::milliseconds(1100));
      if (iteration != 3) return;
      if (is_last()) raise(SIGTERM);
      // most calls do not ask the other ranks
      for (int call = 0; call < 10000; ++call) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        between_steps();
      }
      FAIL() << "nobody has met the signal";
    };
    EXPECT_EQ(train(first, 5), ExitCode::stopped_early);
    EXPECT_EQ(first.times_restored, 0);
    // half of an iteration is not kept
    const std::int64_t stopped = checkpoint_steps(config.output.directory).front();
    EXPECT_EQ(stopped, within ? 2 : 3);
    EXPECT_EQ(rows(), stopped);
    LeastSquares second(*world);
    EXPECT_EQ(train(second, 5), ExitCode::done);
    EXPECT_EQ(second.times_restored, 1);
    EXPECT_EQ(second.weights(), straight.weights());
    EXPECT_EQ(rows(), 5);
  }
}

TEST_F(TrainingLoopMpi, LeavesACheckpointOfSomethingElseAlone) {
  LeastSquares first(*world);
  EXPECT_EQ(train(first, 2), ExitCode::done);
  config.learning.resume = Resume::automatic;
  identity.model_digest = "another";
  LeastSquares second(*world);
  EXPECT_THROW(train(second, 3), InputError);
}

}  // namespace
}  // namespace maniple
