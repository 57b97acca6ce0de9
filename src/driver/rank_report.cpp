#include "src/driver/rank_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "src/base/counted.hpp"

namespace maniple {
namespace {

constexpr double kGoal = 0.1;  // of the time, for what is no work

struct Column {
  std::string name;
  std::vector<double> seconds;  // by rank
  bool works = true;            // what ranks are there for
};

// The stages, with the time that ranks wait for each other taken out of communication, and with what no stage
// has.
std::vector<Column> columns_of(const std::vector<RankUse>& ranks) {
  std::vector<Column> columns;
  Column rest{"rest", {}, false};
  for (const RankUse& rank : ranks) rest.seconds.push_back(rank.total);
  for (std::size_t stage = 0; stage < ranks.front().seconds.size(); ++stage) {
    Column column{ranks.front().seconds[stage].first, {}};
    column.works = column.name != "loader" && column.name != "communication" && column.name != "output";
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      column.seconds.push_back(ranks[rank].seconds[stage].second);
      rest.seconds[rank] -= column.seconds.back();
    }
    columns.push_back(column);
    if (column.name != "communication") continue;
    const double least = *std::min_element(column.seconds.begin(), column.seconds.end());
    Column waiting{"waiting", {}, false};
    for (double& seconds : columns.back().seconds) {
      waiting.seconds.push_back(seconds - least);
      seconds = least;
    }
    columns.push_back(waiting);
  }
  for (double& seconds : rest.seconds) seconds = std::max(0.0, seconds);
  columns.push_back(rest);
  return columns;
}

std::string percent(double part) {
  return fmt::format("{:.1f}%", 100 * part);
}

// The largest part of a rank's time that a stage takes, and the rank; of no such stage nothing.
std::pair<double, std::size_t> largest(const RankReport& report, const std::vector<Column>& columns,
                                       const std::string& name) {
  std::pair<double, std::size_t> found{0.0, 0};
  for (const Column& column : columns)
    for (std::size_t rank = 0; column.name == name && rank < column.seconds.size(); ++rank)
      if (const double part = column.seconds[rank] / report.ranks[rank].total; part > found.first)
        found = {part, rank};
  return found;
}

// Rows of cells, each column as wide as its widest; the first ones are words, the others numbers.
std::vector<std::string> table(const std::vector<std::vector<std::string>>& rows, std::size_t words) {
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::vector<std::string> lines;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i)
      line += i < words ? fmt::format("{:<{}}  ", row[i], widths[i])
                        : fmt::format("{:>{}}{}", row[i], widths[i], i + 1 < row.size() ? "  " : "");
    lines.push_back(line);
  }
  return lines;
}

// The largest part of a rank's time in which it could have run and no core ran it, and the rank. Ranks sleep
// while they write or wait for data, and may where a device works for them.
std::pair<double, std::size_t> least_run(const RankReport& report) {
  std::pair<double, std::size_t> found{0.0, 0};
  for (std::size_t rank = 0; rank < report.ranks.size(); ++rank) {
    const RankUse& use = report.ranks[rank];
    double asleep = 0;
    for (const auto& [stage, seconds] : use.seconds)
      if (stage == "output" || stage == "loader") asleep += seconds;
    if (const double part = (use.total - use.running - asleep) / use.total;
        use.device == "-" && part > found.first)
      found = {part, rank};
  }
  return found;
}

}  // namespace

std::string ranges(const std::vector<int>& cores) {
  std::string text;
  for (std::size_t i = 0; i < cores.size();) {
    std::size_t last = i;
    while (last + 1 < cores.size() && cores[last + 1] == cores[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", cores[i]);
    if (last > i) text += fmt::format("-{}", cores[last]);
    i = last + 1;
  }
  return text;
}

std::vector<RankUse> gather_use(Collectives& collectives, const RankPlace& place, RankUse mine) {
  std::string text =
      fmt::format("{}\n{}\n{}\n{} {} {}", place.host, ranges(place.cores),
                  place.device_index < 0 ? "-" : fmt::format("{} {}", place.device_index, place.device.name),
                  mine.share, mine.total, mine.running);
  for (const auto& stage : mine.seconds) text += fmt::format(" {}", stage.second);
  std::vector<RankUse> ranks;
  for (const std::string& each : collectives.gather_text(text)) {
    std::istringstream in(each);
    RankUse rank = mine;
    std::getline(in, rank.host);
    std::getline(in, rank.cores);
    std::getline(in, rank.device);
    in >> rank.share >> rank.total >> rank.running;
    for (auto& stage : rank.seconds) in >> stage.second;
    ranks.push_back(rank);
  }
  return ranks;
}

std::vector<std::string> report_lines(const RankReport& report, std::size_t rows) {
  const std::vector<Column> columns = columns_of(report.ranks);
  std::vector<std::vector<std::string>> cells{{"rank", "host", "cores", "device", "share"}};
  for (const Column& column : columns) cells[0].push_back(column.name);
  cells[0].emplace_back("busy");
  std::int64_t all = 0;
  std::set<std::string> hosts;
  for (std::size_t rank = 0; rank < report.ranks.size(); ++rank) {
    const RankUse& use = report.ranks[rank];
    all += use.share;
    hosts.insert(use.host);
    if (rank >= rows) continue;
    cells.push_back({std::to_string(rank), use.host, use.cores, use.device, std::to_string(use.share)});
    double busy = 0;
    for (const Column& column : columns) {
      const double part = column.seconds[rank] / use.total;
      cells.back().push_back(percent(part));
      busy += column.works ? part : 0;
    }
    cells.back().push_back(percent(busy));
  }
  const std::size_t count = report.ranks.size();
  std::vector<std::string> lines{fmt::format("{} on {}, {} {}, {:.1f} s:", counted(count, "rank"),
                                             counted(hosts.size(), "host"), all, report.shared,
                                             report.ranks[0].total)};
  for (std::string& line : table(cells, 4)) lines.push_back(std::move(line));
  if (count > rows) lines.push_back(fmt::format("and {} more: maniple doctor RUN", count - rows));
  if (count > 1 && report.checks > 0)
    lines.push_back(fmt::format(
        "in step: parameters and counters of all ranks compared {}, always equal ({:.2g}% of the time)",
        counted(report.checks, "time"), 100 * report.check_seconds / report.ranks[0].total));
  const auto [communication, talker] = largest(report, columns, "communication");
  if (count > 1)
    lines.push_back(fmt::format("communication: {} of the time, {}", percent(communication),
                                communication <= kGoal
                                    ? fmt::format("within the goal of {:.0f}%", 100 * kGoal)
                                    : fmt::format("above the goal of {:.0f}%: larger batches or "
                                                  "fewer ranks make it less",
                                                  100 * kGoal)));
  if (const auto [waiting, rank] = largest(report, columns, "waiting"); waiting > kGoal)
    lines.push_back(fmt::format(
        "waiting: rank {} waits for others {} of the time: shares are uneven, or a rank's cores are "
        "busy with other work",
        rank, percent(waiting)));
  if (const auto [missed, rank] = least_run(report); missed > kGoal)
    lines.push_back(fmt::format(
        "cores: no core ran rank {} for {} of the time: other programs use its cores ({}), or a limit on "
        "the job's processor time holds it back",
        rank, percent(missed), report.ranks[rank].cores));
  if (const auto [loader, rank] = largest(report, columns, "loader"); loader > kGoal)
    lines.push_back(fmt::format(
        "loader: rank {} waited for data during {} of the time. Give the loading thread a core of "
        "its own or use more ranks. If the waits are occasional, raise data.prefetch; if files are "
        "read again from disk, set data.cache: memory.",
        rank, percent(loader)));
  return lines;
}

void write_report(const RankReport& report, ResultsWriter& results) {
  const auto write = [&](const std::string& name, const std::string& unit, const std::string& description,
                         const auto& value) {
    std::vector<double> values;
    for (std::size_t rank = 0; rank < report.ranks.size(); ++rank)
      values.push_back(static_cast<double>(value(rank)));
    results.write_series("ranks/" + name, values, unit, description, false);
  };
  write("share", "1", "of the " + report.shared + ", by rank",
        [&](std::size_t rank) { return report.ranks[rank].share; });
  write("total", "s", "of training since the last start, by rank",
        [&](std::size_t rank) { return report.ranks[rank].total; });
  write("running", "s", "of total, for which a core ran the rank",
        [&](std::size_t rank) { return report.ranks[rank].running; });
  for (const Column& column : columns_of(report.ranks))
    write(column.name, "s", "of total", [&](std::size_t rank) { return column.seconds[rank]; });
  results.write_text(kRankReport,
                     fmt::format("{}\n", fmt::join(report_lines(report, report.ranks.size()), "\n")),
                     "how the ranks were used");
}

}  // namespace maniple
