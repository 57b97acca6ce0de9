#include "src/io/snapshot.hpp"

#include <cstring>

#include "src/io/hdf5.hpp"
#include "src/parallel/partition.hpp"

namespace maniple {

void Snapshot::take(const Archive& archive, std::int64_t tiles) {
  archive_ = Archive();
  arrays_.resize(archive.entries().size());
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    ArchiveEntry entry = archive.entries()[i];
    // of a tile the rows of one field lie together
    const std::size_t lane_bytes = kTileWidth * bytes_of(entry.type);
    const std::size_t piece = entry.elements * (entry.per_env ? lane_bytes : bytes_of(entry.type));
    const std::size_t pieces = entry.per_env ? static_cast<std::size_t>(tiles) : 1;
    arrays_[i].resize(pieces * piece);
    const auto* source = static_cast<const unsigned char*>(entry.data) + entry.first * lane_bytes;
    for (std::size_t p = 0; p < pieces && piece > 0; ++p)
      std::memcpy(arrays_[i].data() + p * piece, source + p * entry.tile_elements * lane_bytes, piece);
    entry.data = arrays_[i].data();
    entry.first = 0;
    entry.tile_elements = entry.elements;
    entry.resize = {};
    archive_.add(std::move(entry));
  }
}

}  // namespace maniple
