#include "src/io/checkpoint_reader.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "src/base/error.hpp"
#include "src/base/log.hpp"
#include "src/io/checkpoint_folder.hpp"
#include "src/io/checkpoint_format.hpp"
#include "src/io/hdf5.hpp"
#include "src/io/seal.hpp"
#include "src/parallel/failure.hpp"
#include "src/parallel/retry.hpp"

namespace maniple {

namespace fs = std::filesystem;

namespace {

std::string stored_type(ElementType type) {
  return hdf5::type_name(hdf5::native_type(type));
}

// Collective. The numbers of a good file go into the archive's arrays: after an Error these hold anything.
void read_numbers(const std::string& path, const CheckpointContents& contents, const Archive& archive,
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
        convert_rows<false>(entry, first, count, rows);
      }
    }
  });
}

// A good file of this run has exactly these arrays; another program version or deck may have others.
void check_entries(const std::string& path, const CheckpointContents& contents, const Archive& archive,
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
Archive entries_to_read(const CheckpointContents& contents, const Archive& archive,
                        CheckpointPurpose purpose) {
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
      text = read_checkpoint_contents(path).to_text();
    } catch (const Error& error) {
      throw Error(path + ": " + reason_of(error, path));
    }
  });
  const CheckpointContents contents = CheckpointContents::from_text(broadcast_text(collectives, text));
  if (contents.format != kCheckpointFormat)
    throw InputError(SourceLocation{path}, "format", std::to_string(contents.format),
                     "this program reads " + std::to_string(kCheckpointFormat));
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
