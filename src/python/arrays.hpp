// Arrays of Python as the bindings take them: in C's order, in host memory, read or written where they lie.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <optional>
#include <string>

namespace maniple {

template <class T>
using Rows = nanobind::ndarray<T, nanobind::c_contig, nanobind::device::cpu>;

// ValueError where an array has not as many numbers.
inline void check_count(std::size_t found, std::int64_t count, const std::string& name) {
  if (static_cast<std::int64_t>(found) != count)
    throw nanobind::value_error(
        (name + ": found " + std::to_string(found) + " numbers; allowed: " + std::to_string(count)).c_str());
}

// The first number of an array that has this many; null for none. ValueError for another size.
template <class T>
T* numbers_of(const std::optional<Rows<T>>& rows, std::int64_t count, const std::string& name) {
  if (!rows) return nullptr;
  check_count(rows->size(), count, name);
  return rows->data();
}

}  // namespace maniple
