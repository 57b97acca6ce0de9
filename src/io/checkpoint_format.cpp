#include "src/io/checkpoint_format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <sstream>

#include "src/base/error.hpp"
#include "src/parallel/partition.hpp"

namespace maniple {

const StoredDataset* CheckpointContents::find(const std::string& name) const {
  for (const StoredDataset& dataset : datasets)
    if (dataset.name == name) return &dataset;
  return nullptr;
}

std::string CheckpointContents::to_text() const {
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

CheckpointContents CheckpointContents::from_text(const std::string& source) {
  CheckpointContents c;
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

void write_checkpoint_description(const hdf5::File& file, const std::string& path, std::int64_t step,
                                  const CheckpointIdentity& identity) {
  hdf5::Group root(hdf5::check_id(H5Gopen2(file, "/", H5P_DEFAULT), path));
  hdf5::write_fixed_attribute(root, "file", "maniple checkpoint");
  hdf5::write_attribute(root, "format", kCheckpointFormat);
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
}

CheckpointContents read_checkpoint_contents(const std::string& path) {
  const hdf5::File file = hdf5::open_file(path, false);
  const hdf5::Group root(hdf5::check_id(H5Gopen2(file, "/", H5P_DEFAULT), path));
  if (!hdf5::has_attribute(root, "step"))
    throw Error(path +
                ": not a checkpoint but another file of this program; the checkpoints of a run are in "
                "<run>/checkpoints/");
  CheckpointContents contents;
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

std::size_t row_bytes(const ArchiveEntry& entry) {
  return entry.elements * bytes_of(entry.type);
}

template <bool to_rows>
void convert_rows(const ArchiveEntry& entry, std::int64_t first, std::int64_t count, unsigned char* rows) {
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

template void convert_rows<true>(const ArchiveEntry&, std::int64_t, std::int64_t, unsigned char*);
template void convert_rows<false>(const ArchiveEntry&, std::int64_t, std::int64_t, unsigned char*);

std::int64_t block_of(const ArchiveEntry& entry) {
  return kTileWidth *
         std::max<std::int64_t>(1, (1 << 20) / static_cast<std::int64_t>(row_bytes(entry) * kTileWidth));
}

}  // namespace maniple
