// The main function of every GoogleTest program: MPI and Kokkos live around all tests. On several ranks
// each rank runs the same tests; a failure on any rank fails the run, and only rank 0 prints the progress,
// the others their failures. A run without any test fails, and where MANIPLE_FORBID_SKIPS is set, as in CI,
// one that leaves any out.
#include <gtest/gtest.h>
#include <mpi.h>

#include <Kokkos_Core.hpp>
#include <cstdio>
#include <cstdlib>

namespace {

// Whether tests that should have run did not; says which.
bool left_tests_out() {
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  if (all.test_to_run_count() == 0) std::fprintf(stderr, "no test has this name\n");
  bool found = all.test_to_run_count() == 0;
  if (std::getenv("MANIPLE_FORBID_SKIPS") == nullptr) return found;
  for (int s = 0; s < all.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *all.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const testing::TestInfo& test = *suite.GetTestInfo(t);
      const bool disabled = test.is_reportable() && !test.should_run();
      if (!test.result()->Skipped() && !disabled) continue;
      std::fprintf(stderr, "%s: %s.%s\n", disabled ? "disabled" : "skipped", suite.name(), test.name());
      found = true;
    }
  }
  return found;
}

// Prints what fails, and where.
class FailurePrinter : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
    std::fprintf(stderr, "%s.%s: %s:%d: %s\n", test ? test->test_suite_name() : "", test ? test->name() : "",
                 result.file_name() ? result.file_name() : "", result.line_number(), result.message());
  }
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank != 0) {
    testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailurePrinter);  // (owned by the listeners)
  }
  Kokkos::initialize(argc, argv);
  int failed = RUN_ALL_TESTS();
  if (!GTEST_FLAG_GET(list_tests) && left_tests_out()) failed = 1;
  Kokkos::finalize();
  MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  return failed;
}
