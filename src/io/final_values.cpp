// Reads one number of each dataset, whatever else the file holds.
#include "src/io/final_values.hpp"

#include "src/io/hdf5.hpp"

namespace maniple {

std::vector<std::pair<std::string, double>> final_values(const std::string& path) {
  const hdf5::File file = hdf5::open_file(path, false);
  std::vector<std::pair<std::string, double>> values;
  for (const hdf5::Member& member : hdf5::members(file)) {
    const bool is_metric = member.path.rfind("metrics/", 0) == 0;
    if (!member.is_dataset || (!is_metric && member.path.rfind("evaluation/", 0) != 0)) continue;
    const hdf5::Dataset dataset = hdf5::open_dataset(file, member.path);
    const hdf5::Shape shape = hdf5::shape_of(dataset);
    if (shape.size() != 1 || shape[0] == 0 || (!is_metric && shape[0] != 1)) continue;
    double value = 0;
    hdf5::read_box(dataset, H5T_NATIVE_DOUBLE, {shape[0] - 1}, {1}, &value, path + ": " + member.path);
    values.emplace_back(member.path.substr(member.path.find('/') + 1), value);
  }
  return values;
}

std::string text_in_results(const std::string& path, const std::string& name) {
  const hdf5::File file = hdf5::open_file(path, false);
  for (const hdf5::Member& member : hdf5::members(file))
    if (member.is_dataset && member.path == name) return hdf5::read_text(file, name);
  return "";
}

}  // namespace maniple
