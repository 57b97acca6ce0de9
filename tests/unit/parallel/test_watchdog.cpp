// The rank to blame when a job hangs: a decision from the answers of ranks, or their silence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "src/parallel/watchdog.hpp"

namespace maniple {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr double kLimit = 600;

RankRecord answering(const char* stage, std::int64_t collectives, bool waiting, double still) {
  RankRecord rank;
  rank.host = "node1";
  rank.pid = 11;
  rank.answers = rank.heard = true;
  std::snprintf(rank.state.stage, sizeof rank.state.stage, "%s", stage);
  std::snprintf(rank.state.counted, sizeof rank.state.counted, "iteration");
  rank.state.done = 4;
  rank.state.collectives = collectives;
  rank.state.waiting = waiting;
  rank.state.still = still;
  rank.state.remaining = kLimit - still;
  return rank;
}

RankRecord silent(double heard_ago) {
  RankRecord rank = answering("physics", 5, false, 0);
  rank.answers = false;
  rank.host = "node2";
  rank.pid = 22;
  rank.heard_ago = heard_ago;
  return rank;
}

TEST(WatchdogVerdict, WaitsWhileAnyRankMoves) {
  EXPECT_FALSE(seconds_to_hang({answering("a", 5, true, 601), answering("b", 4, false, 700)}, kLimit));
  // rank 1 works alone and the other waits for it
  EXPECT_EQ(seconds_to_hang({answering("a", 5, true, 601), answering("b", 4, false, 100)}, kLimit), 500);
  EXPECT_FALSE(seconds_to_hang({answering("a", 5, true, 601), silent(590)}, kLimit));
  EXPECT_EQ(seconds_to_hang({answering("a", 5, true, 601), silent(100)}, kLimit), 200)
      << "heard a short while ago: its answers may be late";
}

TEST(WatchdogVerdict, NamesTheSilentRank) {
  const std::string text = describe_hang(
      {answering("communication", 6, true, 601), silent(602), answering("communication", 6, true, 601)},
      kLimit);
  EXPECT_THAT(text, HasSubstr("run.hang_timeout: no rank moved for 600 s: rank 1 (host node2, pid 22) is "
                              "silent, last heard 602 s ago in stage 'physics' after iteration 4; "
                              "ranks 0, 2 waiting for others in stage 'communication' after iteration 4"));
}

TEST(WatchdogVerdict, ComparesRanksOfOnePartOnly) {
  // ranks 0 and 1 are done with their part; of the other one, rank 2 is behind
  std::vector<RankRecord> ranks{
      answering("waiting for members", 900, true, 650), answering("waiting for members", 900, true, 650),
      answering("physics", 5, false, 601), answering("communication", 6, true, 601)};
  ranks[2].state.part = ranks[3].state.part = 1;
  const std::string text = describe_hang(ranks, kLimit);
  EXPECT_THAT(text, HasSubstr(": rank 2 (host node1, pid 11) has been in stage 'physics'"));
  EXPECT_THAT(text, HasSubstr("ranks 0, 1 waiting for others in stage 'waiting for members'"));
  EXPECT_THAT(text, HasSubstr("rank 3 waiting for others in stage 'communication'"));
  // a part of more collective operations is not behind one of fewer
  ranks[0].state.part = ranks[1].state.part = 0;
  ranks[0].state.collectives = 10;
  EXPECT_THAT(describe_hang(ranks, kLimit), HasSubstr(": rank 0 (host node1"));
}

TEST(WatchdogVerdict, NamesTheRankThatIsBehindAndNotThoseThatWait) {
  const std::string text =
      describe_hang({answering("communication", 6, true, 601), answering("communication", 6, true, 601),
                     answering("update", 5, false, 650)},
                    kLimit);
  EXPECT_THAT(
      text, HasSubstr("rank 2 (host node1, pid 11) has been in stage 'update' after iteration 4 for 650 s;"));
  EXPECT_THAT(text, Not(HasSubstr("rank 0 (host")));
  // abreast, but one of them outside: inside a file system's call
  const std::string output =
      describe_hang({answering("output", 6, false, 700), answering("output", 6, true, 601),
                     answering("output", 6, true, 601)},
                    kLimit);
  EXPECT_THAT(output, HasSubstr("rank 0 (host node1, pid 11) has been in stage 'output'"));
  EXPECT_THAT(output, Not(HasSubstr("rank 1 (host")));
}

TEST(WatchdogVerdict, SaysSoWhenNobodyIsSpecial) {
  const std::string text = describe_hang(
      {answering("communication", 6, true, 601), answering("communication", 6, true, 601)}, kLimit);
  EXPECT_THAT(text, HasSubstr("rank 0 (host node1, pid 11) has been waiting for others"));
  EXPECT_THAT(text, HasSubstr("; rank 1 (host node1, pid 11) has been waiting for others"));
}

TEST(WatchdogVerdict, StaysShortForManyRanks) {
  std::vector<RankRecord> ranks(1000, answering("communication", 6, true, 601));
  for (std::size_t rank = 500; rank < 900; ++rank) ranks[rank] = silent(700);
  const std::string text = describe_hang(ranks, kLimit);
  EXPECT_THAT(text, HasSubstr("rank 503 (host"));
  EXPECT_THAT(text, HasSubstr("the same of ranks 504, 505"));
  EXPECT_LT(text.size(), 1500u);
}

}  // namespace
}  // namespace maniple
