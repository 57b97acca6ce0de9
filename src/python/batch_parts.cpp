#include "src/python/batch_parts.hpp"

#include <fmt/format.h>

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <type_traits>

#include "src/base/memory.hpp"
#include "src/simulation/memory_estimate.hpp"

namespace maniple {

void refuse_what_does_not_fit(const Config& given, const Config& config, const Prepared& prepared,
                              const Partition& partition) {
  const MemoryEstimate memory = estimate_memory(config, prepared, partition.tiles * kTileWidth);
  for (const MemoryLimit& limit : memory_limits())
    if (memory.rank_bytes >= limit.available)
      throw InputError(given.where_of("batch.num_envs"), "batch.num_envs",
                       fmt::format("{:.1f} MB for {} environments",
                                   static_cast<double>(memory.rank_bytes) / 1e6, partition.envs()),
                       fmt::format("{:.1f} MB are available (limit of {})",
                                   static_cast<double>(limit.available) / 1e6, limit.name));
}

int parts_of([[maybe_unused]] const Partition& partition, [[maybe_unused]] int threads) {
  int parts = 1;
#ifdef KOKKOS_ENABLE_SERIAL
  if constexpr (std::is_same_v<ExecutionSpace, Kokkos::Serial>)
    parts =
        static_cast<int>(std::clamp<std::int64_t>(threads, 1, std::max<std::int64_t>(1, partition.blocks)));
#endif
  return parts;
}

}  // namespace maniple
