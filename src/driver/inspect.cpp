// One line per object, so that grep works on it; no numbers are read except for the digest.
#include "src/driver/inspect.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "src/base/error.hpp"
#include "src/io/digest.hpp"
#include "src/io/summary.hpp"

namespace maniple {

int inspect_file(const std::string& path, std::ostream& out) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored))
    throw InputError(SourceLocation{path}, "", "no such file", "a results, checkpoint or dataset file");
  std::vector<ObjectSummary> objects;
  std::string digest;
  try {
    objects = summarize_file(path);
    digest = file_digest(path);
  } catch (const Error& error) {
    throw InputError(SourceLocation{path}, "", "cannot be read", error.what());
  }

  out << fmt::format("{}  {} bytes\n", path, std::filesystem::file_size(path, ignored));
  for (const ObjectSummary& object : objects) {
    if (object.is_dataset) {
      std::string shape;
      for (const std::int64_t extent : object.shape)
        shape += fmt::format("{}{}", shape.empty() ? "" : ", ", extent);
      out << fmt::format("{:<40} {:<8} [{}]{}{}\n", object.path, object.type, shape,
                         object.unit.empty() ? "" : "  " + object.unit,
                         object.description.empty() ? "" : "  " + object.description);
      continue;
    }
    if (object.path != "/") out << object.path << "/\n";
    for (const auto& [name, value] : object.attributes) out << fmt::format("  {:<14} {}\n", name, value);
  }
  out << "digest " << digest << "\n";
  return 0;
}

}  // namespace maniple
