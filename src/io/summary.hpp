// A summary of the contents of an HDF5 file, for people.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace maniple {

struct ObjectSummary {
  std::string path;  // with leading '/'
  bool is_dataset = false;
  std::string type;                                             // datasets: "float32", "string", ...
  std::vector<std::int64_t> shape;                              // datasets
  std::string unit, description;                                // datasets; "" where the file has none
  std::vector<std::pair<std::string, std::string>> attributes;  // others, as text
};

// Root first, then everything below in order of names. Throws Error when the file cannot be read.
std::vector<ObjectSummary> summarize_file(const std::string& path);

// "1.10.8"
std::string hdf5_version();

}  // namespace maniple
