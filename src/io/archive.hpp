// The list of arrays that a component saves. A component lists them once, in `describe(Archive&)`; saving,
// loading and digests all walk that list, so that no array is written and forgotten in loading.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace maniple {

enum class ElementType { float32, float64, int32, int64, uint8 };
constexpr std::size_t bytes_of(ElementType type) {
  switch (type) {
    case ElementType::uint8:
      return 1;
    case ElementType::float32:
    case ElementType::int32:
      return 4;
    case ElementType::float64:
    case ElementType::int64:
      return 8;
  }
  return 0;
}
template <class T>
constexpr ElementType element_type();
template <>
constexpr ElementType element_type<float>() {
  return ElementType::float32;
}
template <>
constexpr ElementType element_type<double>() {
  return ElementType::float64;
}
template <>
constexpr ElementType element_type<std::int32_t>() {
  return ElementType::int32;
}
template <>
constexpr ElementType element_type<std::int64_t>() {
  return ElementType::int64;
}
template <>
constexpr ElementType element_type<std::uint8_t>() {
  return ElementType::uint8;
}

struct ArchiveEntry {
  std::string name;  // path in the file, e.g. "state/qpos"
  std::string unit;
  std::string description;
  ElementType type;
  bool per_env;           // false: equal on all ranks, written by rank 0
  void* data;             // host-accessible memory; per_env: first tile of this rank
  std::size_t elements;   // replicated: count; per_env: elements per environment (file: [env, elements])
  std::size_t first = 0;  // per_env: element at which the field starts in a tile ...
  std::size_t tile_elements = 0;  // ... of this many elements x 32 lanes
  // Replicated entries whose length is the file's: called on load with that length, returns the memory.
  std::function<void*(std::size_t)> resize = {};
  bool reproducible = true;  // false: wall clock and the like, left out of digests
};

class Archive {
 public:
  // The same values on every rank.
  template <class T>
  void replicated(const std::string& name, T* data, std::size_t count, const std::string& unit,
                  const std::string& description) {
    entries_.push_back({name, unit, description, element_type<T>(), false, data, count});
  }
  // The same values on every rank, as many as there are (a history): loading resizes the vector.
  template <class T>
  void growing(const std::string& name, std::vector<T>& values, const std::string& unit,
               const std::string& description, bool reproducible = true) {
    ArchiveEntry entry{name, unit, description, element_type<T>(), false, values.data(), values.size()};
    entry.reproducible = reproducible;
    entry.resize = [&values](std::size_t count) -> void* {
      values.resize(count);
      return values.data();
    };
    entries_.push_back(std::move(entry));
  }
  // One row per environment out of tiles [tile][tile_elements][32], rows [first, first + count).
  template <class T>
  void per_env(const std::string& name, T* tiles, std::size_t tile_elements, std::size_t first,
               std::size_t count, const std::string& unit, const std::string& description) {
    if (count > 0)
      entries_.push_back(
          {name, unit, description, element_type<T>(), true, tiles, count, first, tile_elements});
  }
  void add(ArchiveEntry entry) { entries_.push_back(std::move(entry)); }
  const std::vector<ArchiveEntry>& entries() const { return entries_; }

 private:
  std::vector<ArchiveEntry> entries_;
};

}  // namespace maniple
