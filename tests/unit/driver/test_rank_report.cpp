// What the report on the ranks of a training says of their time.
#include <gmock/gmock.h>

#include "src/driver/rank_report.hpp"

namespace maniple {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

RankReport of_two_ranks(double running, double output, const std::string& device = "-") {
  const RankUse first{.host = "a",
                      .cores = "0",
                      .device = "-",
                      .share = 1,
                      .total = 10,
                      .running = 9.9,
                      .seconds = {{"physics", 9.0}, {"output", 0.5}}};
  RankUse second = first;
  second.cores = "1";
  second.device = device;
  second.running = running;
  second.seconds[1].second = output;
  return {.ranks = {first, second}, .shared = "environments", .checks = 0, .check_seconds = 0};
}

TEST(RankReport, NamesRanksWhoseCoresOtherProgramsUse) {
  EXPECT_THAT(report_lines(of_two_ranks(5, 0.5), 9),
              Contains(HasSubstr("cores: no core ran rank 1 for 45.0% of the time: other programs use its "
                                 "cores (1)")));
  EXPECT_THAT(report_lines(of_two_ranks(9.2, 0.5), 9), Not(Contains(HasSubstr("no core ran"))));
  // who writes files, or waits for a device, sleeps
  EXPECT_THAT(report_lines(of_two_ranks(5, 4.5), 9), Not(Contains(HasSubstr("no core ran"))));
  EXPECT_THAT(report_lines(of_two_ranks(5, 0.5, "0 H200"), 9), Not(Contains(HasSubstr("no core ran"))));
}

}  // namespace
}  // namespace maniple
