// NumPy's archives of arrays (numpy.savez, numpy.savez_compressed): a ZIP file of .npy files. Read whole, for
// tables that tasks need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace maniple {

// An array of numbers, row by row.
struct NpyArray {
  std::vector<std::size_t> shape;
  std::vector<double> values;
};

// Reads the arrays of an .npz file by their names, those of real numbers (float16 is none, objects and texts
// are left out).
// Throws Error: no such archive, a damaged one, or one that is encrypted or compressed by other means than
// NumPy's.
std::map<std::string, NpyArray> read_npz(const std::string& path);

}  // namespace maniple
