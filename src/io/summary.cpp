// Reads names, shapes and attributes; no numbers.
#include "src/io/summary.hpp"

#include <fmt/format.h>

#include "src/io/hdf5.hpp"

namespace maniple {

namespace {

std::string attribute_text(hid_t object, const std::string& name) {
  const hdf5::Attribute attribute(
      hdf5::check_id(H5Aopen(object, name.c_str(), H5P_DEFAULT), "attribute " + name));
  const hdf5::Type type(hdf5::check_id(H5Aget_type(attribute), "attribute " + name));
  const hdf5::Space space(hdf5::check_id(H5Aget_space(attribute), "attribute " + name));
  const std::string kind = hdf5::type_name(type);
  if (H5Sget_simple_extent_npoints(space) != 1 || kind == "other") return "(" + kind + ")";
  if (kind == "string") return hdf5::read_text_attribute(object, name);
  if (kind == "uint64") return fmt::format("{:016x}", hdf5::read_unsigned_attribute(object, name));
  if (kind.rfind("float", 0) == 0) {
    double value = 0;
    hdf5::check(H5Aread(attribute, H5T_NATIVE_DOUBLE, &value), "attribute " + name);
    return fmt::format("{}", value);
  }
  return std::to_string(hdf5::read_integer_attribute(object, name));
}

void read_attributes(hid_t object, ObjectSummary& summary) {
  std::vector<std::string> names;
  hsize_t position = 0;
  H5Aiterate2(
      object, H5_INDEX_NAME, H5_ITER_INC, &position,
      [](hid_t, const char* name, const H5A_info_t*, void* data) -> herr_t {
        static_cast<std::vector<std::string>*>(data)->push_back(name);
        return 0;
      },
      &names);
  for (const std::string& name : names) {
    const std::string text = attribute_text(object, name);
    if (name == "unit")
      summary.unit = text;
    else if (name == "description")
      summary.description = text;
    else
      summary.attributes.emplace_back(name, text);
  }
}

}  // namespace

std::vector<ObjectSummary> summarize_file(const std::string& path) {
  const hdf5::File file = hdf5::open_file(path, false);
  std::vector<ObjectSummary> objects;
  auto add = [&](const std::string& name, bool is_dataset) {
    ObjectSummary summary;
    summary.path = name;
    summary.is_dataset = is_dataset;
    const hdf5::Object object(hdf5::check_id(H5Oopen(file, name.c_str(), H5P_DEFAULT), path + ": " + name));
    if (is_dataset) {
      summary.type = hdf5::type_of(object);
      for (const hsize_t extent : hdf5::shape_of(object))
        summary.shape.push_back(static_cast<std::int64_t>(extent));
    }
    read_attributes(object, summary);
    objects.push_back(std::move(summary));
  };
  add("/", false);
  for (const hdf5::Member& member : hdf5::members(file)) add("/" + member.path, member.is_dataset);
  return objects;
}

std::string hdf5_version() {
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return fmt::format("{}.{}.{}", major, minor, release);
}

}  // namespace maniple
