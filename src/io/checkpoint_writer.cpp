// Rank 0 creates the file and writes the entries that are equal on all ranks; then every rank writes its rows
// into the space reserved for them, computing the checksum as it goes; then the checksum seals the file. A
// thread reads the file back and verifies it while the run goes on.
#include "src/io/checkpoint_writer.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "src/base/error.hpp"
#include "src/io/checkpoint_folder.hpp"
#include "src/io/checkpoint_format.hpp"
#include "src/io/checksum.hpp"
#include "src/io/commit.hpp"
#include "src/io/hdf5.hpp"
#include "src/io/rank_check.hpp"
#include "src/io/shared_file.hpp"
#include "src/parallel/failure.hpp"
#include "src/parallel/retry.hpp"

namespace maniple {

namespace fs = std::filesystem;

namespace {

// Facts about the file that rank 0 created, for the other ranks.
struct Layout {
  std::int64_t bytes = 0;               // of the whole file
  std::vector<std::int64_t> addresses;  // by entry: where its rows begin; unused for replicated ones
  std::uint64_t checksum = 0;           // of everything but the rows
};

// The bytes of the words that this many bytes take part in.
std::int64_t whole_words(std::int64_t bytes) {
  return (bytes + 7) / 8 * 8;
}

// Rank 0: the file with everything but the rows of the environments, for which it has space.
Layout create(const std::string& path, std::int64_t step, const CheckpointIdentity& identity,
              const Archive& archive) {
  std::int64_t numbers = 0;
  for (const ArchiveEntry& entry : archive.entries())
    numbers += static_cast<std::int64_t>(row_bytes(entry)) * (entry.per_env ? identity.num_envs : 1);
  for (const StoredLines& stored : kStoredLines)
    for (const std::string& line : identity.*stored.lines)
      numbers += static_cast<std::int64_t>(line.size()) + 1;
  Layout layout;
  {
    hdf5::File file = hdf5::create_file(path, file_bytes(numbers, archive.entries().size()));
    write_checkpoint_description(file, path, step, identity);
    for (const ArchiveEntry& entry : archive.entries()) {
      const hdf5::Shape shape = entry.per_env
                                    ? hdf5::Shape{static_cast<hsize_t>(identity.num_envs), entry.elements}
                                    : hdf5::Shape{entry.elements};
      const hdf5::Dataset dataset =
          hdf5::create_dataset(file, entry.name, entry.type, shape, entry.unit, entry.description);
      if (!entry.reproducible) hdf5::write_attribute(dataset, "reproducible", std::int64_t{0});
      if (!entry.per_env && entry.elements > 0)
        hdf5::check(
            H5Dwrite(dataset, hdf5::native_type(entry.type), H5S_ALL, H5S_ALL, H5P_DEFAULT, entry.data),
            path + ": " + entry.name);
      layout.addresses.push_back(entry.per_env ? hdf5::address_of(dataset, path + ": " + entry.name) : 0);
    }
    hdf5::close(file, path);
  }
  // the checksum of what lies between the rows
  std::vector<std::pair<std::int64_t, std::int64_t>> rows;
  const SharedFile file(path, false);
  layout.bytes = file.size();
  for (std::size_t i = 0; i < archive.entries().size(); ++i) {
    const ArchiveEntry& entry = archive.entries()[i];
    if (!entry.per_env) continue;
    const std::int64_t first = layout.addresses[i];
    const std::int64_t last = first + static_cast<std::int64_t>(row_bytes(entry)) * identity.num_envs;
    rows.emplace_back(first, first + whole_words(last - first));
    char rest[8] = {};
    if (last < layout.bytes)
      file.read(rest, static_cast<std::size_t>(std::min(rows.back().second, layout.bytes) - last), last);
    if (first % 8 != 0 || std::any_of(rest, rest + 8, [](char c) { return c != 0; }))
      throw Error(path + ": " + entry.name + " does not occupy whole 8-byte words of the file");
  }
  std::sort(rows.begin(), rows.end());
  rows.emplace_back(layout.bytes, layout.bytes);
  std::int64_t at = kSealBytes;
  for (const auto& [first, last] : rows) {
    layout.checksum += file_checksum(file, at, first);
    at = last;
  }
  return layout;
}

// Writes the rows of this rank's environments where they belong and returns their checksum.
std::uint64_t write_rows(const SharedFile& file, const ArchiveEntry& entry, std::int64_t address,
                         const Partition& partition, RowBuffer& buffer) {
  std::uint64_t sum = 0;
  const std::int64_t block = block_of(entry);
  for (std::int64_t first = 0; first < partition.envs(); first += block) {
    const std::int64_t count = std::min(block, partition.envs() - first);
    const std::size_t bytes = static_cast<std::size_t>(count) * row_bytes(entry);
    unsigned char* rows = buffer.of(bytes);
    convert_rows<true>(entry, first, count, rows);
    // tiles of 32 environments begin at whole words, whatever a row takes
    const std::int64_t position =
        address + (partition.first_env() + first) * static_cast<std::int64_t>(row_bytes(entry));
    sum += words_checksum(rows, bytes, position);
    file.write(rows, bytes, position);
  }
  return sum;
}

// One attempt at writing. Returns the length of the file.
std::int64_t write_once(const std::string& path, std::int64_t step, const CheckpointIdentity& identity,
                        const Archive& archive, const Partition& partition, Collectives& collectives) {
  const std::string folder = fs::path(path).parent_path();
  const std::string temporary = broadcast_text(collectives, temporary_name(path));
  Layout layout;
  try {
    check_ranks(
        collectives, [&] { return values_of(archive); }, "at a checkpoint");
    run_on_root(collectives, [&] {
      make_directory(folder);
      remove_abandoned(folder);
      unlink(temporary.c_str());
      layout = create(temporary, step, identity, archive);
    });
    layout.addresses.resize(archive.entries().size());
    collectives.broadcast(layout.addresses.data(), layout.addresses.size() * sizeof(std::int64_t), 0);
    collectives.broadcast(&layout.bytes, sizeof layout.bytes, 0);
    std::uint64_t sum = layout.checksum;  // of rank 0; the others have rows alone
    SharedFile file;
    run_together(collectives, [&] {
      if (partition.envs() == 0) return;
      file = SharedFile(temporary, true);
      RowBuffer buffer;
      for (std::size_t i = 0; i < archive.entries().size(); ++i)
        if (archive.entries()[i].per_env)
          sum += write_rows(file, archive.entries()[i], layout.addresses[i], partition, buffer);
    });
    sum = sum_over_ranks(sum, collectives);
    run_together(collectives, [&] {
      if (collectives.rank() == 0) {
        write_seal(SharedFile(temporary, true), sum);
        read_checkpoint_contents(temporary);
      }
      if (file.is_open()) file.sync();
    });
    run_on_root(collectives, [&] { commit_file(temporary, path); });
  } catch (...) {
    if (collectives.rank() == 0) unlink(temporary.c_str());
    throw;
  }
  return layout.bytes;
}

}  // namespace

CheckpointWriter::CheckpointWriter(const std::string& directory, std::int64_t keep, bool replaces,
                                   Collectives& collectives)
    : folder_(directory + "/checkpoints"),
      keep_(std::max<std::int64_t>(1, keep)),
      replaces_(replaces),
      collectives_(collectives) {}

CheckpointWriter::~CheckpointWriter() {
  finish_pruning();
}

std::string CheckpointWriter::write(std::int64_t step, const CheckpointIdentity& identity,
                                    const Archive& archive, const Partition& partition) {
  settle();
  finish_pruning();  // the new file may need the space
  const std::string path = checkpoint_file(folder_, step);
  std::int64_t bytes = 0;
  retry_together(collectives_, "writing a checkpoint",
                 [&] { bytes = write_once(path, step, identity, archive, partition, collectives_); });
  read_back_ = ReadBack(path, bytes, collectives_);
  if (collectives_.rank() == 0) tidy_checkpoints(folder_, [&] { set_newer_aside(folder_, step); });
  return path;
}

void CheckpointWriter::settle() {
  if (!read_back_.pending()) return;
  read_back_.finish(collectives_);
  const std::int64_t keep = replaces_ ? 1 : keep_, keep_superseded = replaces_ ? 0 : keep_;
  replaces_ = false;
  finish_pruning();
  if (collectives_.rank() == 0)
    pruning_ = std::async(
        [folder = folder_, keep, keep_superseded] { prune_checkpoints(folder, keep, keep_superseded); });
}

void CheckpointWriter::stay_at(std::int64_t step) {
  if (collectives_.rank() != 0) return;
  tidy_checkpoints(folder_, [&] {
    set_newer_aside(folder_, step);
    prune_checkpoints(folder_, keep_, keep_);
  });
}

void CheckpointWriter::leave_earlier() {
  if (!replaces_ || collectives_.rank() != 0) return;
  tidy_checkpoints(folder_, [&] {
    for (const char* ending : {kCheckpointEnding, kSupersededEnding})
      for (const std::int64_t step : checkpoint_steps_in(folder_, ending))
        fs::remove(checkpoint_file(folder_, step, ending));
    fs::remove(folder_ + "/manifest.json");
  });
}

void CheckpointWriter::finish_pruning() {
  if (pruning_.valid()) tidy_checkpoints(folder_, [&] { pruning_.get(); });
}

}  // namespace maniple
