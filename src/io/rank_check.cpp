#include "src/io/rank_check.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "src/base/error.hpp"
#include "src/base/process.hpp"
#include "src/io/checksum.hpp"
#include "src/io/hdf5.hpp"

namespace maniple {
namespace {

constexpr std::size_t kNamedRanks = 8, kNamedValues = 4;

struct RankValues {
  std::string place;  // "3 (host n2, pid 123)"
  std::vector<std::uint64_t> values;
};

RankValues read_values(const std::string& text) {
  RankValues result;
  std::istringstream in(text);
  std::getline(in, result.place);
  for (std::uint64_t value = 0; in >> value;) result.values.push_back(value);
  return result;
}

// The rank whose values most ranks share; of equally large groups the one with the lowest rank.
std::size_t reference_of(const std::vector<RankValues>& ranks) {
  std::map<std::vector<std::uint64_t>, std::pair<int, std::size_t>> groups;  // ranks, and the first of them
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    ++groups.try_emplace(ranks[rank].values, 0, rank).first->second.first;
  const auto best = std::max_element(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second.first, b.second.second) < std::pair(b.second.first, a.second.second);
  });
  return best->second.second;
}

// Names of the values that differ: "policy/layer0/weight, policy/layer0/bias and 3 more".
std::string differences(const std::vector<RankValue>& names, const std::vector<std::uint64_t>& a,
                        const std::vector<std::uint64_t>& b) {
  std::vector<std::string> found;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (i >= a.size() || i >= b.size() || a[i] != b[i]) found.push_back(names[i].name);
  const std::size_t more = found.size() > kNamedValues ? found.size() - kNamedValues : 0;
  found.resize(found.size() - more);
  return fmt::format("{}{}", fmt::join(found, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

}  // namespace

void check_ranks(Collectives& collectives, const std::function<std::vector<RankValue>()>& values,
                 const std::string& when) {
  if (collectives.size() == 1) return;
  const std::vector<RankValue> mine = values();
  // the largest of each, and of its complement: the least
  std::vector<std::int64_t> extremes;
  for (const RankValue& value : mine) extremes.push_back(static_cast<std::int64_t>(value.value));
  for (const RankValue& value : mine) extremes.push_back(~static_cast<std::int64_t>(value.value));
  collectives.max(extremes.data(), extremes.size());
  bool equal = true;
  for (std::size_t i = 0; i < mine.size(); ++i) equal &= extremes[i] == ~extremes[mine.size() + i];
  if (equal) return;

  std::string text = fmt::format("{} (host {}, pid {})\n", collectives.rank(), host_name(), getpid());
  for (const RankValue& value : mine) text += fmt::format("{} ", value.value);
  std::vector<RankValues> ranks;
  for (const std::string& each : collectives.gather_text(text)) ranks.push_back(read_values(each));
  const std::size_t reference = reference_of(ranks);
  std::vector<std::string> others;
  std::size_t equals = 0;
  for (const RankValues& rank : ranks) {
    if (rank.values == ranks[reference].values)
      ++equals;
    else
      others.push_back(fmt::format("rank {} differs in {}", rank.place,
                                   differences(mine, rank.values, ranks[reference].values)));
  }
  const std::size_t more = others.size() > kNamedRanks ? others.size() - kNamedRanks : 0;
  others.resize(others.size() - more);
  throw Error(fmt::format("ranks out of step {}: {}{}; from rank {}{}", when, fmt::join(others, "; "),
                          more > 0 ? fmt::format("; and {} more ranks", more) : "", ranks[reference].place,
                          equals == 1 ? "" : fmt::format(" and {} more, which are equal", equals - 1)));
}

std::vector<RankValue> values_of(const Archive& archive) {
  std::vector<RankValue> values;
  for (const ArchiveEntry& entry : archive.entries()) {
    if (entry.per_env) continue;
    values.push_back({entry.name, words_checksum(entry.data, entry.elements * bytes_of(entry.type), 0)});
  }
  return values;
}

std::uint64_t checksum_of(const std::string& text) {
  return words_checksum(text.data(), text.size(), 0) + mix_bits(text.size());
}

std::uint64_t program_checksum() {
  // (the file that was started, even where another one has its name by now)
  std::ifstream program("/proc/self/exe", std::ios::binary);
  std::vector<char> piece(std::size_t{1} << 20);
  std::uint64_t sum = 0;
  for (std::int64_t position = 0; program; position += program.gcount()) {
    program.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    sum += words_checksum(piece.data(), static_cast<std::size_t>(program.gcount()), position);
  }
  return sum;
}

}  // namespace maniple
