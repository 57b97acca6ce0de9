// maniple inspect: what a results, checkpoint or dataset file holds, or the task of a deck. One line per
// object, so that grep works on it; of demonstrations an overview in about twenty lines.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <sstream>

#include "src/base/error.hpp"
#include "src/config/deck.hpp"
#include "src/driver/earlier_run.hpp"
#include "src/driver/verbs.hpp"
#include "src/io/demonstration_overview.hpp"
#include "src/io/digest.hpp"
#include "src/io/isolated.hpp"
#include "src/io/results.hpp"
#include "src/io/seal.hpp"
#include "src/io/summary.hpp"
#include "src/tasks/compile/prepared.hpp"
#include "src/tasks/compile/task.hpp"
#include "src/tasks/compile/task_table.hpp"

namespace maniple {

namespace {

constexpr const char* kAll = "--all";

void list_objects(const std::vector<ObjectSummary>& objects, std::ostream& out) {
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
}

// `all`: every object also of a file of demonstrations.
std::string description_of(const std::string& path, bool all) {
  std::ostringstream out;
  std::error_code ignored;
  out << fmt::format("{}  {} bytes\n", path, std::filesystem::file_size(path, ignored));
  const std::vector<ObjectSummary> objects = summarize_file(path);
  const std::optional<std::string> overview = all ? std::nullopt : demonstration_overview(path, objects);
  if (overview)
    out << *overview << "every object: maniple inspect " << kAll << "\n";
  else
    list_objects(objects, out);
  out << "digest " << file_digest(path) << "\n";
  return out.str();
}

// The task of a deck, as `validate` prints it.
std::string task_of_deck(const std::string& path, const std::vector<std::string>& overrides) {
  const Config config = load_config({path}, overrides, true, check_model_and_task);
  if (!config.task.present)
    throw InputError(config.where_deck, "task", "found none",
                     "a deck with a task; maniple validate summarizes the model of a deck");
  return task_table(config.task, prepare(config).task);
}

// The file of a directory that is meant: results of a run, of an evaluation, or the only HDF5 file.
std::string results_in(const std::string& directory) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (const std::string results = results_of(directory); fs::is_regular_file(results, ignored))
    return results;
  std::vector<std::string> others;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, ignored))
    if (const std::string extension = entry.path().extension().string();
        extension == ".h5" || extension == ".hdf5")
      others.push_back(entry.path().string());
  std::sort(others.begin(), others.end());
  if (others.size() == 1) return others.front();
  throw InputError(SourceLocation{directory}, "",
                   fmt::format("found a folder without {} or {}", kResultsFile, kEvaluationFile),
                   others.empty() ? "allowed: the directory of a run, or an HDF5 file"
                                  : fmt::format("allowed: one of its files, {}", fmt::join(others, ", ")));
}

}  // namespace

void inspect(const std::vector<std::string>& given, std::ostream& out) {
  std::vector<std::string> arguments = given;
  const bool all = arguments.back() == kAll;
  if (all) arguments.pop_back();
  const std::string& file_or_directory = arguments[0];
  std::error_code ignored;
  const bool directory = std::filesystem::is_directory(file_or_directory, ignored);
  const std::string path = directory ? results_in(file_or_directory) : file_or_directory;
  if (!std::filesystem::is_regular_file(path, ignored))
    throw InputError(SourceLocation{path}, "", "no such file",
                     "a results, checkpoint or dataset file, the directory of a run with results, or a deck");
  if (const std::string extension = std::filesystem::path(path).extension();
      extension == ".yaml" || extension == ".yml") {
    if (all)
      throw InputError(SourceLocation{path}, "", fmt::format("found {} with a deck", kAll),
                       fmt::format("allowed: {} with an HDF5 file", kAll));
    out << task_of_deck(path, {arguments.begin() + 1, arguments.end()});
    return;
  }
  if (arguments.size() > 1)
    throw InputError(SourceLocation{path}, "", "found '" + arguments[1] + "' after a file that is not a deck",
                     "allowed: one file; key.path=value with a deck");
  try {
    check_seal(path);
    out << run_isolated(path, [&] { return description_of(path, all); });
  } catch (const MachineFault&) {
    throw;
  } catch (const Error& error) {
    throw InputError(SourceLocation{path}, "", "cannot be read", reason_of(error, path));
  }
}

}  // namespace maniple
