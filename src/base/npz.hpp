// NumPy's archives of arrays (numpy.savez, numpy.savez_compressed): a ZIP file of .npy files. Read whole, for
// tables that tasks need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace maniple {

// An array of numbers, row by row, also where the file has it column by column.
struct NpyArray {
  std::vector<std::size_t> shape;
  std::vector<double> values;  // of <f4, <f8, <i4 and <i8
  std::string unread_type;     // NumPy's name of another type, whose values are not read; else ""
};

// Reads the arrays of an .npz file by their names. Throws Error: no such archive, a damaged one, or one that
// is encrypted, larger than 4 GB, or compressed by other means than NumPy's.
std::map<std::string, NpyArray> read_npz(const std::string& path);

}  // namespace maniple
