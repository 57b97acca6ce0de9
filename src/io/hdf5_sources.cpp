#include "src/io/hdf5_sources.hpp"

#include <fmt/format.h>
#include <sys/types.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <vector>

#include "src/base/error.hpp"
#include "src/io/hdf5.hpp"

namespace maniple::hdf5 {

namespace fs = std::filesystem;

namespace {

constexpr int kMostLevels = 8;  // of virtual datasets of virtual datasets

std::string name_of(hid_t file) {
  std::string name(static_cast<std::size_t>(std::max<ssize_t>(0, H5Fget_name(file, nullptr, 0))), '\0');
  H5Fget_name(file, name.data(), name.size() + 1);
  return name;
}

// Where the library looks for a file that another one names.
std::string beside(const std::string& file, const std::string& named, const char* prefix_variable) {
  const fs::path own = fs::path(file).parent_path(), path(named);
  std::vector<fs::path> places;
  if (path.is_absolute()) places.push_back(path);
  const fs::path below = path.is_absolute() ? path.filename() : path;
  if (const char* const prefix = std::getenv(prefix_variable); prefix && *prefix != '\0')
    places.push_back(fs::path(prefix) / below);
  places.push_back(own / below);
  places.push_back(below);
  std::error_code ignored;
  for (const fs::path& place : places)
    if (fs::is_regular_file(place, ignored)) return place.string();
  return "";
}

// Bytes of the files in which the numbers of a virtual dataset are. Error where one of its sources is
// missing.
double bytes_of_sources(hid_t file, hid_t creation, const std::string& name, int level) {
  std::size_t count = 0;
  check(H5Pget_virtual_count(creation, &count), name);
  const auto text = [&](auto get, std::size_t mapping) {
    std::string found(static_cast<std::size_t>(std::max<ssize_t>(0, get(creation, mapping, nullptr, 0))),
                      '\0');
    get(creation, mapping, found.data(), found.size() + 1);
    // (a series of files or datasets: its first one)
    for (auto at = found.find("%b"); at != std::string::npos; at = found.find("%b"))
      found.replace(at, 2, "0");
    return found;
  };
  double bytes = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string named = text(H5Pget_virtual_filename, i), source = text(H5Pget_virtual_dsetname, i);
    const auto refuse = [&](const std::string& why) {
      throw Error(
          fmt::format("dataset {}: it is virtual, and its source {} of {} {}; fill values would stand "
                      "in its place",
                      name, source, named == "." ? "this file" : named, why));
    };
    if (level >= kMostLevels) refuse("is virtual itself, too many levels deep");
    File other;
    if (named != ".") {
      const std::string path = beside(name_of(file), named, "HDF5_VDS_PREFIX");
      if (path.empty()) refuse("is missing: there is no such file");
      other = open_file(path, false);
    }
    const hid_t there = named == "." ? file : static_cast<hid_t>(other);
    if (!has_path(there, source)) refuse("is missing: the file has no such dataset");
    const Dataset opened = open_dataset(there, source, level + 1);
    hsize_t stored = 0;
    check(H5Fget_filesize(there, &stored), name);
    bytes += static_cast<double>(stored);
  }
  return bytes;
}

// Bytes of the plain files in which the numbers of an external dataset are. Error where one is missing or
// too short.
double bytes_of_external(hid_t file, hid_t creation, const std::string& name) {
  double bytes = 0;
  for (int i = 0; i < H5Pget_external_count(creation); ++i) {
    char named[4096] = {};
    off_t first = 0;
    hsize_t size = 0;
    check(H5Pget_external(creation, static_cast<unsigned>(i), sizeof named - 1, named, &first, &size), name);
    const char* const prefix = std::getenv("HDF5_EXTFILE_PREFIX");
    fs::path path(named);
    if (!path.is_absolute() && prefix && *prefix != '\0')
      path = std::string_view(prefix).starts_with("${ORIGIN}") ? fs::path(name_of(file)).parent_path() / path
                                                               : fs::path(prefix) / path;
    std::error_code missing;
    const std::uintmax_t there = fs::file_size(path, missing);
    const double wanted = size == H5F_UNLIMITED ? 0 : static_cast<double>(first) + static_cast<double>(size);
    if (missing || static_cast<double>(there) < wanted)
      throw Error(fmt::format("dataset {}: its numbers are in the file {}, which {}", name, named,
                              missing ? "is missing" : "is too short"));
    bytes += static_cast<double>(there);
  }
  return bytes;
}

}  // namespace

double bytes_elsewhere(hid_t file, hid_t creation, const std::string& name, int level) {
  double bytes = 0;
  if (H5Pget_layout(creation) == H5D_VIRTUAL) bytes += bytes_of_sources(file, creation, name, level);
  if (H5Pget_external_count(creation) > 0) bytes += bytes_of_external(file, creation, name);
  return bytes;
}

}  // namespace maniple::hdf5
