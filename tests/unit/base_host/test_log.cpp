// The log of a run: which rank writes, the contents of the file, and that text cannot break its lines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "src/base/error.hpp"
#include "src/base/log.hpp"

namespace maniple {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class LogTest : public ::testing::Test {
 protected:
  LogTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "maniple_log_XXXXXX").string();
    directory_ = ::mkdtemp(pattern.data());
  }
  ~LogTest() override {
    open_log(0, "");
    std::filesystem::remove_all(directory_);
  }
  std::vector<std::string> lines() const {
    std::ifstream file(directory_ / "run" / "log.jsonl");
    std::vector<std::string> result;
    for (std::string line; std::getline(file, line);) result.push_back(line);
    return result;
  }
  std::string run() const { return (directory_ / "run").string(); }
  std::filesystem::path directory_;
};

TEST_F(LogTest, FirstRankWritesLinesForPeopleAndMachines) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  open_log(0, run());
  info("started {} \"x\"");
  warn("careful\nnext");
  record(
      "iteration",
      {{"iteration", std::int64_t{3}}, {"reward", 0.1}, {"loss", std::nan("")}, {"note", std::string("a")}});
  close_log();
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "started {} \"x\"\n");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "warning: careful\nnext\n");
  const auto written = lines();
  ASSERT_EQ(written.size(), 3u);
  EXPECT_THAT(written[0], HasSubstr("\"level\": \"info\", \"text\": \"started {} \\\"x\\\"\"}"));
  EXPECT_THAT(written[1], HasSubstr("\"level\": \"warning\", \"text\": \"careful\\u000anext\"}"));
  EXPECT_THAT(written[2], AllOf(HasSubstr("\"time\": "),
                                HasSubstr("\"event\": \"iteration\", \"iteration\": 3, "
                                          "\"reward\": 0.1, \"loss\": \"nan\", \"note\": \"a\"}")));
}

TEST_F(LogTest, OtherRanksAreSilent) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  open_log(3, run());
  info("one");
  warn("two");
  record("three", {});
  live_line("four");
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_FALSE(std::filesystem::exists(directory_ / "run"));
}

TEST_F(LogTest, ARestartContinuesTheFile) {
  for (const char* text : {"first", "second"}) {
    open_log(0, run(), false);
    info(text);
  }
  ASSERT_EQ(lines().size(), 2u);
  EXPECT_THAT(lines()[1], HasSubstr("second"));
}

TEST_F(LogTest, TheLiveLineStaysBelowOtherLines) {
  ::testing::internal::CaptureStdout();
  open_log(0, "");
  live_line("50 %");
  info("checkpoint");
  live_line("");
  EXPECT_EQ(::testing::internal::GetCapturedStdout(),
            "\r\033[K50 %"
            "\r\033[Kcheckpoint\n50 %"
            "\r\033[K");
}

TEST_F(LogTest, ADirectoryThatCannotBeMadeIsAnError) {
  std::ofstream(directory_ / "file") << "x";
  EXPECT_THROW(open_log(0, (directory_ / "file" / "run").string()), Error);
}

}  // namespace
}  // namespace maniple
