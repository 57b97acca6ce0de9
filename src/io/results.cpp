// Writes results.h5. Arrays that are equal on all ranks wait in rank 0's memory until commit(). Trajectories
// are written in blocks of samples, each rank by itself, into chunks that hold such a block for a range of
// environments. A single sample of [env, sample, size] would be many small scattered pieces, which file
// systems write slowly; the environments of a rank are one contiguous piece of a chunk.
#include "src/io/results.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <future>
#include <optional>

#include "src/base/error.hpp"
#include "src/base/process.hpp"
#include "src/io/checksum.hpp"
#include "src/io/commit.hpp"
#include "src/io/hdf5.hpp"
#include "src/io/seal.hpp"
#include "src/io/shared_file.hpp"
#include "src/parallel/failure.hpp"
#include "src/parallel/retry.hpp"

namespace maniple {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

constexpr std::size_t kBufferBytes = std::size_t{64} << 20;  // per rank, for all fields together

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

// A small dataset that rank 0 writes at the end.
struct Deferred {
  std::string path, unit, description;
  bool reproducible = true;
  std::vector<double> values;
  std::vector<std::int64_t> integers;  // written instead when is_integer
  bool is_integer = false;
};

struct DeferredText {
  std::string path, text, description;
};

// One field of the trajectory and the samples of it that are not in the file yet.
struct Recorder {
  TrajectoryField field;
  std::vector<unsigned char> buffer;  // [env of this rank][block][size]
  std::int64_t first = 0, count = 0;  // samples in the buffer; first is a multiple of block
  std::int64_t chunk_envs = 1;
  std::vector<std::int64_t> addresses;  // of the chunks in the file, [range of environments][block]
  std::int64_t final_blocks = 0;        // in the file as they stay
  std::uint64_t sum = 0;                // of what this rank has written of them

  std::int64_t samples() const { return first + count; }
};

}  // namespace

struct ResultsWriter::Impl {
  Collectives& collectives;
  std::string directory, path, temporary;
  RunRecord record;
  std::vector<Deferred> deferred;
  std::vector<DeferredText> texts;

  SharedFile file;  // open on all ranks while a trajectory is written
  Partition partition;
  std::vector<Recorder> recorders;
  std::int64_t samples = 0, block = 1;
  ElementType type = ElementType::float32;
  std::future<double> syncing;  // the last block is made durable: seconds
  double write_seconds = 0,
         block_seconds = 0;  // of the last block; the most that one took until it was durable
  bool committed = false;

  explicit Impl(Collectives& c) : collectives(c) {}

  // Collective: the file with the run's record.
  void create() {
    run_on_root(collectives, [&] {
      make_directory(directory);
      remove_abandoned(directory);
      unlink(temporary.c_str());
      const std::size_t bytes = record.deck_text.size() + record.resolved_text.size() +
                                record.task_text.size() + record.contract.size() + record.model_xml.size();
      hdf5::File h5 = hdf5::create_file(temporary, file_bytes(static_cast<std::int64_t>(bytes), 4));
      hdf5::Group root(hdf5::check_id(H5Gopen2(h5, "/", H5P_DEFAULT), temporary));
      hdf5::write_attribute(root, "file", std::string("maniple results"));
      hdf5::write_attribute(root, "format", std::int64_t{1});
      hdf5::create_text(h5, "run/deck", record.deck_text, "decks and overrides as given");
      hdf5::create_text(h5, "run/resolved", record.resolved_text, "every key with its value; itself a deck");
      if (!record.task_text.empty()) {
        hdf5::create_text(
            h5, "run/task", record.contract,
            "observations and actions, component by component, servos and default pose, as JSON");
        hdf5::create_text(
            h5, "run/task_table", record.task_text,
            "the parts of observations, actions, rewards and the other sections, in order, for people");
      }
      hdf5::create_text(h5, "run/model_xml", record.model_xml,
                        "the model's text, with included files inserted");
      hdf5::Group run(hdf5::check_id(H5Gopen2(h5, "run", H5P_DEFAULT), temporary));
      hdf5::write_attribute(run, "verb", record.verb);
      hdf5::write_attribute(run, "version", record.version);
      hdf5::write_attribute(run, "build", record.build);
      hdf5::write_attribute(run, "ranks", std::int64_t{record.ranks});
      hdf5::write_attribute(run, "host", host_name());
      hdf5::write_attribute(run, "date", utc_now());
      root.reset();
      run.reset();
      hdf5::close(h5, temporary);
    });
  }

  // Rank 0.
  const Deflated& model_mjb() const {
    static const Deflated none;
    return record.model_mjb.valid() ? record.model_mjb.get() : none;
  }

  // Rank 0: room for this many bytes behind what the file has.
  void reserve(std::int64_t bytes) {
    reserve_bytes(temporary, static_cast<std::int64_t>(std::filesystem::file_size(temporary)) + bytes);
  }

  // Collective. Waits until the last block is durable.
  void settle() {
    run_together(collectives, [&] {
      if (syncing.valid()) block_seconds = std::max(block_seconds, write_seconds + syncing.get());
    });
  }

  // Collective. Writes the block of all fields, which is made durable while the run goes on. The last one of
  // a run that stops early goes out whole; the dataset is cut to what was recorded. Returns
  // the checksums of this rank's rows, by field.
  std::vector<std::uint64_t> write_block() {
    settle();
    const Clock::time_point begun = Clock::now();
    std::vector<std::uint64_t> sums;
    retry_together(collectives, "writing a trajectory", [&] {
      run_together(collectives, [&] {
        sums.clear();
        for (const Recorder& recorder : recorders) sums.push_back(write_rows(recorder));
      });
    });
    write_seconds = seconds_since(begun);
    syncing = std::async([this] {
      const Clock::time_point start = Clock::now();
      file.sync();
      return seconds_since(start);
    });
    return sums;
  }

  void flush() {
    if (recorders.empty() || recorders.front().count == 0) return;
    const std::vector<std::uint64_t> sums = write_block();
    for (std::size_t i = 0; i < recorders.size(); ++i) {
      Recorder& recorder = recorders[i];
      recorder.first += recorder.count;
      // HDF5 has its own way with a block that is cut
      if (recorder.count == block || recorder.first == samples) {
        ++recorder.final_blocks;
        recorder.sum += sums[i];
      }
      recorder.count = 0;
    }
  }

  std::int64_t blocks() const { return (samples + block - 1) / block; }
  std::int64_t row_bytes(const Recorder& recorder) const {
    return block * recorder.field.size * static_cast<std::int64_t>(bytes_of(type));
  }

  // Of each chunk the rows of this rank's environments are contiguous, in memory as in the file. Returns the
  // checksum of their whole words: only the last environment of all may end within one.
  std::uint64_t write_rows(const Recorder& recorder) const {
    const std::int64_t row = row_bytes(recorder);
    const std::int64_t begin = partition.first_env(), end = begin + partition.envs();
    std::uint64_t sum = 0;
    for (std::int64_t env = begin; row > 0 && env < end;) {
      const std::int64_t range = env / recorder.chunk_envs, range_start = range * recorder.chunk_envs;
      const std::int64_t count = std::min(end, range_start + recorder.chunk_envs) - env;
      const std::int64_t position =
          recorder.addresses[static_cast<std::size_t>(range * blocks() + recorder.first / block)] +
          (env - range_start) * row;
      const unsigned char* rows = recorder.buffer.data() + (env - begin) * row;
      file.write(rows, static_cast<std::size_t>(count * row), position);
      sum += words_checksum(rows, static_cast<std::size_t>(count * row / 8 * 8), position);
      env += count;
    }
    return sum;
  }

  // Where all ranks have written and summed it already, the file need not be read again for its seal.
  std::vector<Extent> summed() const {
    std::vector<Extent> extents;
    for (const Recorder& recorder : recorders)
      for (std::size_t i = 0; i < recorder.addresses.size(); ++i) {
        const std::int64_t range = static_cast<std::int64_t>(i) / blocks(), address = recorder.addresses[i];
        if (static_cast<std::int64_t>(i) % blocks() >= recorder.final_blocks) continue;
        const std::int64_t envs =
            std::min(recorder.chunk_envs, partition.num_envs - range * recorder.chunk_envs);
        extents.push_back({address, address + envs * row_bytes(recorder) / 8 * 8});
      }
    return extents;
  }

  // (the end of the file, because deflating goes on while the run begins)
  void write_deferred(hid_t h5) {
    hdf5::create_deflated(h5, "run/model_mjb", model_mjb(), "1",
                          "the model as it runs: an MJB file, for mj_loadModel() of the MuJoCo of the build");
    for (const DeferredText& text : texts) hdf5::create_text(h5, text.path, text.text, text.description);
    for (const Deferred& d : deferred) {
      if (d.is_integer)
        hdf5::create_and_write(h5, d.path, ElementType::int64, {d.integers.size()}, d.integers.data(), d.unit,
                               d.description, d.reproducible);
      else
        hdf5::create_and_write(h5, d.path, ElementType::float64, {d.values.size()}, d.values.data(), d.unit,
                               d.description, d.reproducible);
    }
  }

  // Rank 0: what a reader will find is what was meant.
  void verify() {
    const hdf5::File h5 = hdf5::open_file(temporary, false);
    for (const Deferred& d : deferred) {
      const hdf5::Dataset dataset = hdf5::open_dataset(h5, d.path);
      const std::size_t count = d.is_integer ? d.integers.size() : d.values.size();
      std::vector<double> values(count);
      std::vector<std::int64_t> integers(count);
      void* memory = d.is_integer ? static_cast<void*>(integers.data()) : values.data();
      hdf5::read_box(dataset, d.is_integer ? H5T_NATIVE_INT64 : H5T_NATIVE_DOUBLE, {0}, {count}, memory,
                     temporary);
      const void* meant = d.is_integer ? static_cast<const void*>(d.integers.data()) : d.values.data();
      if (hdf5::shape_of(dataset) != hdf5::Shape{count} ||
          (count > 0 && std::memcmp(memory, meant, 8 * count) != 0))
        throw Error(temporary + ": " + d.path + " reads back differently");
    }
    for (const Recorder& r : recorders) {
      const hdf5::Dataset dataset = hdf5::open_dataset(h5, "trajectory/" + r.field.name);
      const hdf5::Shape shape{static_cast<hsize_t>(partition.num_envs), static_cast<hsize_t>(r.samples()),
                              static_cast<hsize_t>(r.field.size)};
      if (hdf5::shape_of(dataset) != shape)
        throw Error(temporary + ": trajectory/" + r.field.name + " has another shape than was written");
    }
  }

  // Collective: all but the trajectory, the seal and the name.
  void finish() {
    run_on_root(collectives, [&] {
      std::size_t values = 0;
      for (const Deferred& d : deferred) values += d.values.size() + d.integers.size();
      std::size_t characters = 0;
      for (const DeferredText& text : texts) characters += text.text.size();
      reserve(file_bytes(static_cast<std::int64_t>(8 * values + characters + model_mjb().stored_bytes()),
                         deferred.size() + texts.size() + 1));
      {
        hdf5::File h5 = hdf5::open_file(temporary, true);
        // a run that stopped early recorded fewer samples than were planned
        for (const Recorder& recorder : recorders) {
          if (recorder.samples() == samples) continue;
          const hdf5::Dataset dataset = hdf5::open_dataset(h5, "trajectory/" + recorder.field.name);
          const hdf5::Shape shape{static_cast<hsize_t>(partition.num_envs),
                                  static_cast<hsize_t>(recorder.samples()),
                                  static_cast<hsize_t>(recorder.field.size)};
          hdf5::check(H5Dset_extent(dataset, shape.data()),
                      temporary + ": trajectory/" + recorder.field.name);
        }
        write_deferred(h5);
        hdf5::close(h5, temporary);
      }
      verify();
    });
    std::uint64_t sum = 0;
    for (const Recorder& recorder : recorders) sum += recorder.sum;
    write_seal(temporary, summed(), sum, collectives);
    run_on_root(collectives, [&] { commit_file(temporary, path); });
  }
};

ResultsWriter::ResultsWriter(const std::string& directory, const RunRecord& record, Collectives& collectives,
                             const std::string& name)
    : impl_(std::make_unique<Impl>(collectives)) {
  impl_->directory = directory;
  impl_->record = record;
  impl_->path = directory + "/" + name;
  try {
    impl_->temporary = broadcast_text(collectives, temporary_name(impl_->path));
    retry_together(collectives, "writing results", [&] { impl_->create(); });
  } catch (...) {
    if (collectives.rank() == 0) unlink(impl_->temporary.c_str());
    throw;
  }
}

ResultsWriter::~ResultsWriter() {
  // without commit there is no file
  if (!impl_->committed && impl_->collectives.rank() == 0) unlink(impl_->temporary.c_str());
}

void ResultsWriter::write_metrics(const Metrics& metrics) {
  for (const Metrics::Series& series : metrics.series)
    impl_->deferred.push_back({"metrics/" + series.name,
                               series.unit,
                               series.description,
                               series.reproducible,
                               series.values,
                               {},
                               false});
}

void ResultsWriter::write_steps(const std::vector<std::int64_t>& steps) {
  impl_->deferred.push_back(
      {"trajectory/step", "1", "control steps before each sample", true, {}, steps, true});
}

void ResultsWriter::write_series(const std::string& path, const std::vector<double>& values,
                                 const std::string& unit, const std::string& description, bool reproducible) {
  const std::string relative = !path.empty() && path[0] == '/' ? path.substr(1) : path;
  impl_->deferred.push_back({relative, unit, description, reproducible, values, {}, false});
}

void ResultsWriter::write_text(const std::string& path, const std::string& text,
                               const std::string& description) {
  impl_->texts.push_back({path, text, description});
}

void ResultsWriter::create_trajectory(const std::vector<TrajectoryField>& fields, std::int64_t samples,
                                      bool double_precision, const Partition& partition) {
  Impl& impl = *impl_;
  impl.partition = partition;
  impl.samples = samples;
  impl.type = double_precision ? ElementType::float64 : ElementType::float32;
  const std::size_t bytes = bytes_of(impl.type);

  // samples per block: as many as the buffer holds on the rank with most environments
  std::int64_t most_envs = partition.envs();
  impl.collectives.max(&most_envs, 1);
  std::size_t sample_bytes = 0;
  for (const TrajectoryField& field : fields)
    sample_bytes += static_cast<std::size_t>(most_envs) * static_cast<std::size_t>(field.size) * bytes;
  impl.block = std::clamp<std::int64_t>(
      static_cast<std::int64_t>(kBufferBytes / std::max<std::size_t>(1, sample_bytes)), 1,
      std::max<std::int64_t>(1, samples));

  for (const TrajectoryField& field : fields) {
    Recorder recorder;
    recorder.field = field;
    recorder.buffer.resize(static_cast<std::size_t>(partition.envs() * impl.block * field.size) * bytes);
    impl.recorders.push_back(std::move(recorder));
  }
  run_on_root(impl.collectives, [&] {
    const auto up = [](hsize_t x, hsize_t multiple) { return (x + multiple - 1) / multiple * multiple; };
    std::vector<hdf5::Shape> shapes, chunks;
    std::int64_t numbers = 0;
    for (const TrajectoryField& field : fields) {
      const auto envs = static_cast<hsize_t>(partition.num_envs), size = static_cast<hsize_t>(field.size);
      for (const std::string& element : field.names) numbers += static_cast<std::int64_t>(element.size()) + 1;
      shapes.push_back({envs, static_cast<hsize_t>(samples), size});
      chunks.emplace_back();
      if (envs == 0 || samples == 0 || size == 0) continue;
      const hdf5::Shape chunk =
          hdf5::trajectory_chunk(shapes.back(), static_cast<hsize_t>(impl.block), bytes);
      chunks.back() = chunk;
      numbers +=
          static_cast<std::int64_t>(up(envs, chunk[0]) * up(shapes.back()[1], chunk[1]) * size * bytes);
    }
    impl.reserve(file_bytes(numbers, fields.size()));
    hdf5::File file = hdf5::open_file(impl.temporary, true);
    for (std::size_t f = 0; f < fields.size(); ++f) {
      const std::string name = "trajectory/" + fields[f].name;
      const hdf5::Shape &shape = shapes[f], &chunk = chunks[f];
      const hdf5::Dataset dataset =
          hdf5::create_dataset(file, name, impl.type, shape, fields[f].unit, fields[f].description, chunk);
      if (!fields[f].names.empty())
        hdf5::write_attribute(dataset, "names", fmt::format("{}", fmt::join(fields[f].names, "\n")));
      if (chunk.empty()) continue;
      impl.recorders[f].chunk_envs = static_cast<std::int64_t>(chunk[0]);
      for (hsize_t env = 0; env < shape[0]; env += chunk[0])
        for (hsize_t sample = 0; sample < shape[1]; sample += chunk[1])
          impl.recorders[f].addresses.push_back(
              hdf5::address_of_chunk(dataset, {env, sample, 0}, impl.temporary + ": " + name));
    }
    hdf5::close(file, impl.temporary);
  });
  for (Recorder& recorder : impl.recorders) {
    std::int64_t counts[2] = {recorder.chunk_envs, static_cast<std::int64_t>(recorder.addresses.size())};
    impl.collectives.broadcast(counts, sizeof counts, 0);
    recorder.chunk_envs = counts[0];
    recorder.addresses.resize(static_cast<std::size_t>(counts[1]));
    impl.collectives.broadcast(recorder.addresses.data(), recorder.addresses.size() * sizeof(std::int64_t),
                               0);
  }
  run_together(impl.collectives, [&] { impl.file = SharedFile(impl.temporary, true); });
}

void ResultsWriter::write_sample(const std::string& field, std::int64_t sample, const void* rows) {
  Impl& impl = *impl_;
  const auto found = std::find_if(impl.recorders.begin(), impl.recorders.end(),
                                  [&](const Recorder& r) { return r.field.name == field; });
  if (found == impl.recorders.end()) throw Error("trajectory: no field " + field);
  Recorder& recorder = *found;
  if (sample != recorder.samples() || sample >= impl.samples || recorder.count == impl.block)
    throw Error("trajectory: sample " + std::to_string(sample) + " of " + field + " after " +
                std::to_string(recorder.samples()) + " of " + std::to_string(impl.samples));
  const std::size_t row = static_cast<std::size_t>(recorder.field.size) * bytes_of(impl.type);
  const auto* source = static_cast<const unsigned char*>(rows);
  for (std::int64_t env = 0; env < impl.partition.envs(); ++env)
    std::memcpy(recorder.buffer.data() + static_cast<std::size_t>(env * impl.block + recorder.count) * row,
                source + static_cast<std::size_t>(env) * row, row);
  ++recorder.count;
  if (std::all_of(impl.recorders.begin(), impl.recorders.end(),
                  [&](const Recorder& r) { return r.count == impl.block; }))
    impl.flush();
}

void ResultsWriter::rehearse() {
  impl_->write_block();
  impl_->settle();
}

double ResultsWriter::commit_seconds() const {
  // made durable are the last block, the file and its name
  return 3 * impl_->block_seconds;
}

std::string ResultsWriter::commit() {
  Impl& impl = *impl_;
  impl.flush();
  impl.settle();
  impl.file.close();
  if (impl.recorders.empty()) {
    // all that goes into the file is in memory: another attempt begins again
    bool first = true;
    retry_together(impl.collectives, "writing results", [&] {
      if (!std::exchange(first, false)) impl.create();
      impl.finish();
    });
  } else {
    impl.finish();
  }
  impl.committed = true;
  return impl.path;
}

}  // namespace maniple
