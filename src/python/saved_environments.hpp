// A saved copy of some environments of a batch, which keeps them unchanged while the others go on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "src/io/archive.hpp"
#include "src/simulation/simulation.hpp"

namespace maniple {

// The state of some environments, saved while all of a batch step or reset, and restored.
class SavedEnvironments {
 public:
  SavedEnvironments(Simulation& simulation, std::vector<std::int64_t> envs)
      : simulation_(simulation), envs_(std::move(envs)) {
    if (!envs_.empty())
      walk([this](std::byte* number, std::size_t bytes) {
        saved_.insert(saved_.end(), number, number + bytes);
      });
  }
  // Writes the saved state back.
  void restore() {
    if (envs_.empty()) return;
    const std::byte* next = saved_.data();
    walk([&next](std::byte* number, std::size_t bytes) {
      std::memcpy(number, next, bytes);
      next += bytes;
    });
    simulation_.restored();
  }

 private:
  template <class Visit>
  void walk(const Visit& visit) {
    Archive archive;
    simulation_.describe(archive);
    for (const ArchiveEntry& entry : archive.entries()) {
      if (!entry.per_env) continue;
      const std::size_t bytes = bytes_of(entry.type);
      for (const std::int64_t env : envs_) {
        const auto tile = static_cast<std::size_t>(env / kTileWidth);
        const auto lane = static_cast<std::size_t>(env % kTileWidth);
        auto* const lanes = static_cast<std::byte*>(entry.data) +
                            ((tile * entry.tile_elements + entry.first) * kTileWidth + lane) * bytes;
        for (std::size_t i = 0; i < entry.elements; ++i) visit(lanes + i * kTileWidth * bytes, bytes);
      }
    }
  }

  Simulation& simulation_;
  const std::vector<std::int64_t> envs_;
  std::vector<std::byte> saved_;
};

}  // namespace maniple
