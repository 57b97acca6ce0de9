// Writing and reading checkpoints. Rank 0 creates the file and writes the entries that are equal on all
// ranks; then every rank writes its rows into the space reserved for them, computing the checksum as it goes;
// then the checksum seals the file. A thread reads the file back and verifies it while the run goes on.
#include "src/io/checkpoint.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <sstream>
#include <string_view>

#include "src/base/error.hpp"
#include "src/base/log.hpp"
#include "src/io/checkpoint_folder.hpp"
#include "src/io/checksum.hpp"
#include "src/io/commit.hpp"
#include "src/io/hdf5.hpp"
#include "src/io/rank_check.hpp"
#include "src/io/seal.hpp"
#include "src/io/shared_file.hpp"
#include "src/parallel/failure.hpp"
#include "src/parallel/retry.hpp"

namespace maniple {

namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kFormat = 2;
// Texts of a checkpoint, a line of each key.
struct StoredLines {
  const char *name, *description;
  std::vector<std::string> CheckpointIdentity::*lines;
};
constexpr StoredLines kStoredLines[] = {
    {"run/task", "the task's keys and values", &CheckpointIdentity::task_lines},
    {"run/settings", "keys and values of how it learns", &CheckpointIdentity::settings},
};

struct StoredDataset {
  std::string name, type;
  hdf5::Shape shape;
};

// The description in a file: everything but the numbers.
struct Contents {
  std::int64_t format = kFormat, step = 0;
  CheckpointIdentity identity;
  std::vector<StoredDataset> datasets;

  const StoredDataset* find(const std::string& name) const {
    for (const StoredDataset& dataset : datasets)
      if (dataset.name == name) return &dataset;
    return nullptr;
  }

  // One value a line: the form that ranks exchange. Text is length-prefixed, because a digest or name
  // could hold anything.
  std::string to_text() const {
    std::ostringstream out;
    auto text = [&](const std::string& s) { out << s.size() << ' ' << s << '\n'; };
    out << format << '\n' << step << '\n' << identity.num_envs << '\n' << identity.seed << '\n';
    for (const std::string* s : {&identity.kind, &identity.model, &identity.task, &identity.model_digest,
                                 &identity.task_digest, &identity.precision, &identity.policy})
      text(*s);
    for (const StoredLines& stored : kStoredLines) {
      out << (identity.*stored.lines).size() << '\n';
      for (const std::string& line : identity.*stored.lines) text(line);
    }
    out << datasets.size() << '\n';
    for (const StoredDataset& d : datasets) {
      text(d.name);
      text(d.type);
      out << d.shape.size();
      for (hsize_t extent : d.shape) out << ' ' << extent;
      out << '\n';
    }
    return out.str();
  }
  static Contents from_text(const std::string& source) {
    Contents c;
    std::istringstream in(source);
    auto text = [&] {
      std::size_t size = 0;
      in >> size;
      in.get();
      std::string s(size, '\0');
      in.read(s.data(), static_cast<std::streamsize>(size));
      return s;
    };
    in >> c.format >> c.step >> c.identity.num_envs >> c.identity.seed;
    for (std::string* s : {&c.identity.kind, &c.identity.model, &c.identity.task, &c.identity.model_digest,
                           &c.identity.task_digest, &c.identity.precision, &c.identity.policy})
      *s = text();
    std::size_t count = 0;
    for (const StoredLines& stored : kStoredLines) {
      in >> count;
      (c.identity.*stored.lines).resize(count);
      for (std::string& line : c.identity.*stored.lines) line = text();
    }
    in >> count;
    c.datasets.resize(count);
    for (StoredDataset& d : c.datasets) {
      d.name = text();
      d.type = text();
      std::size_t rank = 0;
      in >> rank;
      d.shape.resize(rank);
      for (hsize_t& extent : d.shape) in >> extent;
    }
    return c;
  }
};

std::string stored_type(ElementType type) {
  return hdf5::type_name(hdf5::native_type(type));
}

std::size_t row_bytes(const ArchiveEntry& entry) {
  return entry.elements * bytes_of(entry.type);
}

// Rows [env][elements] of the environments [first, first + count) of this rank, of which the first begins a
// tile, out of tiles [tile][tile_elements][32], or back into them.
template <bool to_rows>
void convert(const ArchiveEntry& entry, std::int64_t first, std::int64_t count, unsigned char* rows) {
  const std::size_t bytes = bytes_of(entry.type);
  auto move = [&]<class T>(T*) {
    T* row = reinterpret_cast<T*>(rows);
    for (std::int64_t env = first; env < first + count; env += kTileWidth) {
      T* tile = static_cast<T*>(entry.data) +
                (static_cast<std::size_t>(env / kTileWidth) * entry.tile_elements + entry.first) * kTileWidth;
      const auto lanes = static_cast<std::size_t>(std::min<std::int64_t>(kTileWidth, first + count - env));
      // lanes inside: three times as fast as rows one after the other
      for (std::size_t e = 0; e < entry.elements; ++e)
        for (std::size_t lane = 0; lane < lanes; ++lane)
          if constexpr (to_rows) {
            row[lane * entry.elements + e] = tile[e * kTileWidth + lane];
          } else {
            tile[e * kTileWidth + lane] = row[lane * entry.elements + e];
          }
      row += lanes * entry.elements;
    }
  };
  if (bytes == 8) move(static_cast<std::uint64_t*>(nullptr));
  if (bytes == 4) move(static_cast<std::uint32_t*>(nullptr));
  if (bytes == 1) move(static_cast<std::uint8_t*>(nullptr));
}

// Memory for rows, kept from entry to entry: fresh pages cost as much as writing them.
class RowBuffer {
 public:
  unsigned char* of(std::size_t bytes) {
    if (bytes > size_) {
      memory_.reset();
      memory_ = std::make_unique_for_overwrite<unsigned char[]>(bytes);
      size_ = bytes;
    }
    return memory_.get();
  }

 private:
  std::unique_ptr<unsigned char[]> memory_;
  std::size_t size_ = 0;
};

// Environments whose rows are handled at a time where the whole need not be in memory: about 1 MiB.
std::int64_t block_of(const ArchiveEntry& entry) {
  return kTileWidth *
         std::max<std::int64_t>(1, (1 << 20) / static_cast<std::int64_t>(row_bytes(entry) * kTileWidth));
}

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
    hdf5::Group root(hdf5::check_id(H5Gopen2(file, "/", H5P_DEFAULT), path));
    hdf5::write_fixed_attribute(root, "file", "maniple checkpoint");
    hdf5::write_attribute(root, "format", kFormat);
    hdf5::write_attribute(root, "step", step);
    hdf5::write_fixed_attribute(root, "kind", identity.kind);
    hdf5::write_fixed_attribute(root, "model", identity.model);
    hdf5::write_fixed_attribute(root, "task", identity.task);
    hdf5::write_fixed_attribute(root, "model_digest", identity.model_digest);
    hdf5::write_fixed_attribute(root, "task_digest", identity.task_digest);
    hdf5::write_fixed_attribute(root, "precision", identity.precision);
    hdf5::write_fixed_attribute(root, "policy", identity.policy);
    hdf5::write_attribute(root, "num_envs", identity.num_envs);
    hdf5::write_attribute(root, "seed", static_cast<std::int64_t>(identity.seed));
    root.reset();
    for (const StoredLines& stored : kStoredLines)
      if (const std::vector<std::string>& lines = identity.*stored.lines; !lines.empty())
        hdf5::create_text(file, stored.name, fmt::format("{}", fmt::join(lines, "\n")), stored.description);
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
    convert<true>(entry, first, count, rows);
    // tiles of 32 environments begin at whole words, whatever a row takes
    const std::int64_t position =
        address + (partition.first_env() + first) * static_cast<std::int64_t>(row_bytes(entry));
    sum += words_checksum(rows, bytes, position);
    file.write(rows, bytes, position);
  }
  return sum;
}

// One rank: what the file says about itself; Error when it cannot be read or contradicts itself.
Contents read_contents(const std::string& path) {
  const hdf5::File file = hdf5::open_file(path, false);
  const hdf5::Group root(hdf5::check_id(H5Gopen2(file, "/", H5P_DEFAULT), path));
  if (!hdf5::has_attribute(root, "step"))
    throw Error(path +
                ": not a checkpoint but another file of this program; the checkpoints of a run are in "
                "<run>/checkpoints/");
  Contents contents;
  contents.format = hdf5::read_integer_attribute(root, "format");
  contents.step = hdf5::read_integer_attribute(root, "step");
  contents.identity.kind = hdf5::read_text_attribute(root, "kind");
  // (which checkpoints of earlier versions do not have)
  if (hdf5::has_attribute(root, "model")) contents.identity.model = hdf5::read_text_attribute(root, "model");
  if (hdf5::has_attribute(root, "task")) contents.identity.task = hdf5::read_text_attribute(root, "task");
  contents.identity.model_digest = hdf5::read_text_attribute(root, "model_digest");
  contents.identity.task_digest = hdf5::read_text_attribute(root, "task_digest");
  contents.identity.precision = hdf5::read_text_attribute(root, "precision");
  if (hdf5::has_attribute(root, "policy"))
    contents.identity.policy = hdf5::read_text_attribute(root, "policy");
  contents.identity.num_envs = hdf5::read_integer_attribute(root, "num_envs");
  contents.identity.seed = static_cast<std::uint32_t>(hdf5::read_integer_attribute(root, "seed"));
  for (const hdf5::Member& member : hdf5::members(file)) {
    if (!member.is_dataset) continue;
    const auto* const stored = std::find_if(std::begin(kStoredLines), std::end(kStoredLines),
                                            [&](const StoredLines& row) { return member.path == row.name; });
    if (stored != std::end(kStoredLines)) {
      std::istringstream lines(hdf5::read_text(file, stored->name));
      for (std::string line; std::getline(lines, line);) (contents.identity.*stored->lines).push_back(line);
      continue;
    }
    const hdf5::Dataset dataset = hdf5::open_dataset(file, member.path);
    contents.datasets.push_back({member.path, hdf5::type_of(dataset), hdf5::shape_of(dataset)});
  }
  return contents;
}

// Collective. The numbers of a good file go into the archive's arrays: after an Error these hold anything.
void read_numbers(const std::string& path, const Contents& contents, const Archive& archive,
                  const Partition& partition, Collectives& collectives) {
  // what is equal on all ranks: rank 0 reads, the others receive
  for (const ArchiveEntry& entry : archive.entries()) {
    if (entry.per_env) continue;
    const StoredDataset& stored = *contents.find(entry.name);
    const std::size_t count = static_cast<std::size_t>(stored.shape.at(0));
    const std::size_t bytes = count * bytes_of(entry.type);
    void* target = entry.resize ? entry.resize(count) : entry.data;
    run_on_root(collectives, [&] {
      const hdf5::File file = hdf5::open_file(path, false);
      const hdf5::Dataset dataset = hdf5::open_dataset(file, entry.name);
      hdf5::read_box(dataset, hdf5::native_type(entry.type), {0}, stored.shape, target, path);
    });
    collectives.broadcast(target, bytes, 0);
  }
  // the environments of this rank
  run_together(collectives, [&] {
    if (partition.envs() == 0) return;
    RowBuffer buffer;
    const hdf5::File file = hdf5::open_file(path, false);
    for (const ArchiveEntry& entry : archive.entries()) {
      if (!entry.per_env) continue;
      const hdf5::Dataset dataset = hdf5::open_dataset(file, entry.name);
      const std::int64_t block = block_of(entry);
      for (std::int64_t first = 0; first < partition.envs(); first += block) {
        const std::int64_t count = std::min(block, partition.envs() - first);
        unsigned char* rows = buffer.of(static_cast<std::size_t>(count) * row_bytes(entry));
        hdf5::read_box(dataset, hdf5::native_type(entry.type),
                       {static_cast<hsize_t>(partition.first_env() + first), 0},
                       {static_cast<hsize_t>(count), entry.elements}, rows, path);
        convert<false>(entry, first, count, rows);
      }
    }
  });
}

// A good file of this run has exactly these arrays; another program version or deck may have others.
void check_entries(const std::string& path, const Contents& contents, const Archive& archive,
                   const Partition& partition) {
  for (const ArchiveEntry& entry : archive.entries()) {
    const StoredDataset* stored = contents.find(entry.name);
    if (!stored)
      throw InputError(SourceLocation{path}, entry.name, "not in the checkpoint", "this run needs it");
    hdf5::Shape wanted = entry.per_env ? hdf5::Shape{static_cast<hsize_t>(partition.num_envs), entry.elements}
                                       : hdf5::Shape{entry.elements};
    if (entry.resize && stored->shape.size() == 1) wanted = stored->shape;
    const std::string type = stored_type(entry.type);
    if (stored->shape != wanted || stored->type != type)
      throw InputError(
          SourceLocation{path}, entry.name,
          "the checkpoint has " + stored->type + " " + hdf5::shape_text(stored->shape),
          "this run has " + type + " " + hdf5::shape_text(wanted) +
              (entry.name.rfind("policy/", 0) == 0 ? "; the keys policy.* are to be those of the training run"
                                                   : ""));
  }
}

// Those of an archive's entries that are read from a file: for a warm start what it has, else all but
// histories that its run did not keep.
Archive entries_to_read(const Contents& contents, const Archive& archive, CheckpointPurpose purpose) {
  Archive wanted;
  for (const ArchiveEntry& entry : archive.entries()) {
    const bool may_lack = purpose == CheckpointPurpose::warm_start || entry.resize;
    if (!may_lack || contents.find(entry.name)) wanted.add(entry);
  }
  return wanted;
}

// The result of loading a file: its step, and the entries of the archive that it has.
struct Loaded {
  std::int64_t step = 0;
  Archive entries;
  CheckpointIdentity identity;
};

// Collective. Loads one file or throws: InputError when it is good but of another run, Error when bad.
Loaded load(const std::string& path, const CheckpointIdentity& identity, const Archive& archive,
            const Partition& partition, Collectives& collectives, CheckpointPurpose purpose) {
  if (check_seal(path, collectives) == Sealed::no)
    throw Error(path + ": has no checksum: not a checkpoint of this version, or damaged");
  std::string text;
  run_on_root(collectives, [&] {
    try {
      text = read_contents(path).to_text();
    } catch (const Error& error) {
      throw Error(path + ": " + reason_of(error, path));
    }
  });
  const Contents contents = Contents::from_text(broadcast_text(collectives, text));
  if (contents.format != kFormat)
    throw InputError(SourceLocation{path}, "format", std::to_string(contents.format),
                     "this program reads " + std::to_string(kFormat));
  check_identity(path, contents.identity, identity, purpose);
  Archive entries = entries_to_read(contents, archive, purpose);
  check_entries(path, contents, entries, partition);
  read_numbers(path, contents, entries, partition, collectives);
  return {contents.step, std::move(entries), contents.identity};
}

std::optional<Loaded> load_newest(const std::string& directory, const CheckpointIdentity& identity,
                                  const Archive& archive, const Partition& partition,
                                  Collectives& collectives, CheckpointPurpose purpose) {
  // rank 0 decides what there is: directories of a network file system may look different elsewhere
  std::vector<std::int64_t> steps;
  run_on_root(collectives, [&] { steps = checkpoint_steps_in(directory); });
  std::int64_t count = static_cast<std::int64_t>(steps.size());
  collectives.broadcast(&count, sizeof count, 0);
  steps.resize(static_cast<std::size_t>(count));
  collectives.broadcast(steps.data(), steps.size() * sizeof(std::int64_t), 0);
  if (steps.empty()) return std::nullopt;

  std::string reasons;
  for (const std::int64_t step : steps) {
    const std::string path = checkpoint_file(directory, step);
    try {
      Loaded loaded;
      retry_together(collectives, "reading a checkpoint",
                     [&] { loaded = load(path, identity, archive, partition, collectives, purpose); });
      return loaded;
    } catch (const InputError&) {
      throw;
    } catch (const FileError&) {
      throw;  // it may be good: nothing goes on without it
    } catch (const Error& error) {
      // the same on every rank: all of load()'s errors are agreed
      reasons += std::string("\n  ") + error.what();
      if (collectives.rank() == 0) warn(std::string("bad checkpoint: ") + error.what());
    }
  }
  const std::string found = "no good checkpoint among " + std::to_string(count);
  if (purpose == CheckpointPurpose::resume)
    throw InputError(SourceLocation{directory}, "learning.resume", found,
                     "restore one, or remove them to start again:" + reasons);
  throw InputError(SourceLocation{directory},
                   purpose == CheckpointPurpose::policy ? "control.checkpoint" : "learning.warm_start", found,
                   "allowed: a good one:" + reasons);
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
        read_contents(temporary);
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

std::optional<std::int64_t> read_newest_checkpoint(const std::string& directory,
                                                   const CheckpointIdentity& identity, const Archive& archive,
                                                   const Partition& partition, Collectives& collectives) {
  const std::optional<Loaded> loaded = load_newest(directory + "/checkpoints", identity, archive, partition,
                                                   collectives, CheckpointPurpose::resume);
  if (!loaded) return std::nullopt;
  if (const std::vector<Difference> found = differences_of_settings(loaded->identity, identity);
      !found.empty())
    info(directory + " resumes with changed settings: " + text_of(found));
  return loaded->step;
}

std::vector<std::int64_t> checkpoint_steps(const std::string& directory) {
  return checkpoint_steps_in(directory + "/checkpoints");
}

namespace {

// Reads a file, or the newest good one of a run's directory.
Loaded load_replicated(const std::string& file_or_directory, const CheckpointIdentity& identity,
                       const Archive& archive, Collectives& collectives, CheckpointPurpose purpose) {
  for (const ArchiveEntry& entry : archive.entries())
    if (entry.per_env) throw Error("read_replicated: " + entry.name + " belongs to environments");
  // 0 nothing there, 1 file, 2 run directory
  std::int64_t found = 0;
  if (collectives.rank() == 0) {
    std::error_code ignored;
    if (fs::is_directory(file_or_directory, ignored))
      found = 2;
    else if (fs::exists(file_or_directory, ignored))
      found = 1;
  }
  collectives.broadcast(&found, sizeof found, 0);
  const Partition nothing;
  if (found == 1) {
    try {
      return load(file_or_directory, identity, archive, nothing, collectives, purpose);
    } catch (const InputError&) {
      throw;
    } catch (const Error& error) {
      throw InputError(SourceLocation{file_or_directory}, "checkpoint", "cannot be used",
                       reason_of(error, file_or_directory));
    }
  }
  std::optional<Loaded> loaded;
  if (found == 2)
    loaded =
        load_newest(file_or_directory + "/checkpoints", identity, archive, nothing, collectives, purpose);
  if (!loaded)
    throw InputError(SourceLocation{file_or_directory}, "checkpoint", "none found",
                     "a checkpoint file, or a run directory with checkpoints/");
  return *std::move(loaded);
}

}  // namespace

std::int64_t read_replicated(const std::string& file_or_directory, const CheckpointIdentity& identity,
                             const Archive& archive, Collectives& collectives) {
  const Loaded loaded =
      load_replicated(file_or_directory, identity, archive, collectives, CheckpointPurpose::policy);
  if (loaded.identity.task_digest.empty()) return loaded.step;  // of data alone
  const bool other_model = loaded.identity.model_digest != identity.model_digest;
  const bool other_task = loaded.identity.task_digest != identity.task_digest;
  const std::vector<std::string> others =
      keys_of(differences_of(loaded.identity.task_lines, identity.task_lines));
  if (other_model || other_task)
    warn(file_or_directory + ": the policy was trained with other values of the " +
         (!other_task    ? "model, " + loaded.identity.model
          : !other_model ? "task, " + loaded.identity.task
                         : "model and the task, " + loaded.identity.model + ", " + loaded.identity.task) +
         (others.empty() ? "" : fmt::format("; different: {}", fmt::join(others, ", "))));
  return loaded.step;
}

WarmStart read_warm_start(const std::string& file_or_directory, const CheckpointIdentity& identity,
                          const Archive& archive, Collectives& collectives) {
  const Loaded loaded =
      load_replicated(file_or_directory, identity, archive, collectives, CheckpointPurpose::warm_start);
  WarmStart result;
  result.step = loaded.step;
  result.cloned = loaded.identity.kind == "imitate" && identity.kind == "train";
  result.same_task = loaded.identity.model_digest == identity.model_digest &&
                     loaded.identity.task_digest == identity.task_digest;
  if (!result.same_task)
    result.differences = keys_of(differences_of(loaded.identity.task_lines, identity.task_lines));
  if (const auto found = differences_for_policy(loaded.identity, identity, identity.kind == "train");
      !found.empty())
    warn(file_or_directory + ": the policy learned with other observations or actions of the same sizes; " +
         text_of(found));
  for (const ArchiveEntry& entry : loaded.entries.entries()) result.entries.push_back(entry.name);
  return result;
}

}  // namespace maniple
