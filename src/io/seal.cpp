#include "src/io/seal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "src/base/error.hpp"
#include "src/io/checksum.hpp"
#include "src/parallel/failure.hpp"
#include "src/parallel/retry.hpp"

namespace maniple {

namespace {

constexpr std::int64_t kBlockBytes = std::int64_t{1} << 20;  // stays in the cache between read and sum
constexpr std::int64_t kLeastBlocks = 4;                     // of a rank: small files are for few ranks
constexpr const char* kMark = "maniple seal 1\n";

struct Seal {
  std::int64_t bytes = 0;
  std::uint64_t checksum = 0;

  std::string text() const {
    std::string block = fmt::format("{}bytes {:020d}\nchecksum {:016x}\n", kMark, bytes, checksum);
    block.resize(static_cast<std::size_t>(kSealBytes), '\0');
    return block;
  }
};

// Nothing where there is no seal; Error where it or the length of the file is not as written.
std::optional<Seal> read_seal(const SharedFile& file) {
  const std::int64_t bytes = file.size();
  std::string block(static_cast<std::size_t>(std::min(kSealBytes, bytes)), '\0');
  file.read(block.data(), block.size(), 0);
  if (block.compare(0, std::strlen(kMark), kMark) != 0) return std::nullopt;
  Seal seal;
  unsigned long long length = 0, checksum = 0;
  if (std::sscanf(block.c_str() + std::strlen(kMark), "bytes %llu checksum %llx", &length, &checksum) == 2)
    seal = {static_cast<std::int64_t>(length), checksum};
  if (seal.text() != block) throw Error(file.path() + ": damaged: its first bytes differ from those written");
  if (seal.bytes != bytes)
    throw Error(fmt::format("{}: {} bytes long and was written with {}: {}", file.path(), bytes, seal.bytes,
                            bytes < seal.bytes ? "truncated" : "changed"));
  return seal;
}

// The range of a rank among the bytes behind the seal.
std::pair<std::int64_t, std::int64_t> range_of(std::int64_t bytes, int rank, int ranks) {
  const std::int64_t blocks = (bytes - kSealBytes + kBlockBytes - 1) / kBlockBytes;
  const std::int64_t length = std::max(kLeastBlocks, (blocks + ranks - 1) / ranks);
  const auto start_of = [&](std::int64_t r) {
    return std::min(bytes, kSealBytes + r * length * kBlockBytes);
  };
  return {start_of(rank), start_of(rank + 1)};
}

void compare(const SharedFile& file, const Seal& seal, std::uint64_t found) {
  if (found != seal.checksum)
    throw Error(file.path() + ": the checksum does not match: the file is damaged, or was changed later");
}

// The sum over the range of a rank in a file of `bytes` bytes, but for what is in `known`, in order.
std::uint64_t checksum_of_range(const std::string& path, std::int64_t bytes, int rank, int ranks,
                                const std::vector<Extent>& known = {}) {
  const auto [first, last] = range_of(bytes, rank, ranks);
  if (first >= last) return 0;
  const SharedFile file(path, false);
  std::uint64_t sum = 0;
  std::int64_t at = first;
  for (const Extent& extent : known) {
    if (extent.last <= at) continue;
    if (extent.first >= last) break;
    sum += file_checksum(file, at, extent.first);
    at = extent.last;
  }
  return sum + file_checksum(file, at, last);
}

// Collective; `bytes` of rank 0 is the length of the file, `sum` what this rank knows of `known`.
std::uint64_t checksum_of_all(const std::string& path, std::int64_t bytes, Collectives& collectives,
                              const std::vector<Extent>& known = {}, std::uint64_t sum = 0) {
  collectives.broadcast(&bytes, sizeof bytes, 0);
  run_together(collectives,
               [&] { sum += checksum_of_range(path, bytes, collectives.rank(), collectives.size(), known); });
  return sum_over_ranks(sum, collectives);
}

}  // namespace

std::uint64_t file_checksum(const SharedFile& file, std::int64_t first, std::int64_t last) {
  std::vector<unsigned char> block(
      static_cast<std::size_t>(std::min(kBlockBytes, std::max<std::int64_t>(0, last - first))));
  std::uint64_t sum = 0;
  for (std::int64_t at = first; at < last; at += kBlockBytes) {
    const auto bytes = static_cast<std::size_t>(std::min(kBlockBytes, last - at));
    file.read(block.data(), bytes, at);
    sum += words_checksum(block.data(), bytes, at);
  }
  return sum;
}

std::uint64_t sum_over_ranks(std::uint64_t local, Collectives& collectives) {
  std::int64_t value;
  std::memcpy(&value, &local, sizeof value);  // two's complement addition wraps the same way
  collectives.sum(&value, 1);
  std::memcpy(&local, &value, sizeof local);
  return local;
}

void write_seal(const SharedFile& file, std::uint64_t checksum) {
  const std::string text = Seal{file.size(), checksum}.text();
  file.write(text.data(), text.size(), 0);
}

void write_seal(const std::string& path, std::vector<Extent> known, std::uint64_t sum,
                Collectives& collectives) {
  std::sort(known.begin(), known.end(), [](const Extent& a, const Extent& b) { return a.first < b.first; });
  SharedFile file;
  std::int64_t bytes = 0;
  run_on_root(collectives, [&] {
    file = SharedFile(path, true);
    bytes = file.size();
  });
  const std::uint64_t checksum = checksum_of_all(path, bytes, collectives, known, sum);
  run_on_root(collectives, [&] { write_seal(file, checksum); });
}

Sealed check_seal(const std::string& path) {
  const SharedFile file(path, false);
  const std::optional<Seal> seal = read_seal(file);
  if (!seal) return Sealed::no;
  compare(file, *seal, file_checksum(file, kSealBytes, seal->bytes));
  return Sealed::yes;
}

Sealed check_seal(const std::string& path, Collectives& collectives) {
  // rank 0 says whether there is a seal, and which: all compare with the same
  SharedFile file;
  std::optional<Seal> seal;
  run_on_root(collectives, [&] {
    file = SharedFile(path, false);
    seal = read_seal(file);
  });
  std::int64_t found = seal.has_value();
  collectives.broadcast(&found, sizeof found, 0);
  if (!found) return Sealed::no;
  const std::uint64_t sum = checksum_of_all(path, seal ? seal->bytes : 0, collectives);
  run_on_root(collectives, [&] { compare(file, *seal, sum); });
  return Sealed::yes;
}

ReadBack::ReadBack(const std::string& path, std::int64_t bytes, const Collectives& collectives)
    : path_(path),
      bytes_(bytes),
      // the default policy: where the system gives no thread, finish() does the work
      sum_(std::async([path, bytes, rank = collectives.rank(), ranks = collectives.size()] {
        return checksum_of_range(path, bytes, rank, ranks);
      })) {}

void ReadBack::finish(Collectives& collectives) {
  const std::string what = "reading " + path_ + " back";
  retry_together(collectives, what, [&] {
    std::uint64_t sum = 0;
    run_together(collectives, [&] {  // a second attempt has no thread
      sum = sum_.valid() ? sum_.get()
                         : checksum_of_range(path_, bytes_, collectives.rank(), collectives.size());
    });
    sum = sum_over_ranks(sum, collectives);
    run_on_root(collectives, [&] {
      const SharedFile file(path_, false);
      const std::optional<Seal> seal = read_seal(file);
      if (!seal) throw Error(path_ + ": its checksum is missing: another program has changed the file");
      compare(file, *seal, sum);
    });
  });
}

}  // namespace maniple
