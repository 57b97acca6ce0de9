// Names, order and pruning of the checkpoints in a run's directory.
#include "src/io/checkpoint_folder.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <sstream>

#include "src/base/error.hpp"
#include "src/base/log.hpp"
#include "src/io/commit.hpp"

namespace maniple {

namespace fs = std::filesystem;

std::vector<std::int64_t> checkpoint_steps_in(const std::string& directory, const std::string& ending) {
  std::vector<std::int64_t> steps;
  std::error_code error;
  fs::directory_iterator entry(directory, error);
  if (error == std::errc::no_such_file_or_directory) return steps;
  for (const fs::directory_iterator end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.size() <= ending.size() || !name.ends_with(ending)) continue;
    const std::string stem = name.substr(0, name.size() - ending.size());
    if (stem.size() > 18) continue;
    std::error_code ignored;
    if (std::all_of(stem.begin(), stem.end(), [](unsigned char c) { return std::isdigit(c); }) &&
        !entry->is_directory(ignored))
      steps.push_back(std::stoll(stem));
  }
  if (error) throw Error(directory + ": cannot be listed: " + error.message());
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

std::vector<std::int64_t> checkpoint_steps(const std::string& directory) {
  return checkpoint_steps_in(directory + "/checkpoints");
}

std::string checkpoint_file(const std::string& directory, std::int64_t step, const std::string& ending) {
  return directory + "/" + std::to_string(step) + ending;
}

void set_newer_aside(const std::string& directory, std::int64_t step) {
  for (const std::int64_t other : checkpoint_steps_in(directory)) {
    if (other <= step) break;  // the newest come first
    const std::string path = checkpoint_file(directory, other),
                      aside = checkpoint_file(directory, other, kSupersededEnding);
    std::error_code error;
    fs::rename(path, aside, error);
    warn(path + ": belongs to an earlier run; " +
         (error ? "cannot be renamed: " + error.message() : "renamed to " + aside));
  }
}

void tidy_checkpoints(const std::string& directory, const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& error) {
    warn(directory + ": the newest checkpoint is good, but the folder is not in order: " + error.what());
  }
}

void prune_checkpoints(const std::string& directory, std::int64_t keep, std::int64_t keep_superseded) {
  std::error_code ignored;
  std::int64_t kept = 0;
  std::ostringstream list;
  const std::vector<std::int64_t> steps = checkpoint_steps_in(directory);
  if (steps.empty()) throw Error("no checkpoint is listed any more");
  for (const std::int64_t step : steps) {
    const std::string path = checkpoint_file(directory, step);
    if (kept < keep) {
      ++kept;
      const auto bytes = fs::file_size(path, ignored);
      list << (kept > 1 ? ",\n" : "\n") << "    {\"step\": " << step << ", \"file\": \"" << step
           << ".h5\", \"bytes\": " << bytes << "}";
    } else {
      fs::remove(path, ignored);
    }
  }
  const std::vector<std::int64_t> left = checkpoint_steps_in(directory, kSupersededEnding);
  for (std::size_t i = static_cast<std::size_t>(keep_superseded); i < left.size(); ++i)
    fs::remove(checkpoint_file(directory, left[i], kSupersededEnding), ignored);
  write_text_file(directory + "/manifest.json", "{\n  \"newest\": " + std::to_string(steps.front()) +
                                                    ",\n  \"checkpoints\": [" + list.str() + "\n  ]\n}\n");
}

}  // namespace maniple
