// Paths as decks write them, made absolute. Where an installed Python package lies is found from paths alone:
// starting Python on every rank of a large job would load a parallel file system with thousands of small
// reads.
#include "src/config/paths.hpp"

#include <fmt/format.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <vector>

namespace maniple {
namespace {

namespace fs = std::filesystem;

// Virtual environments in the order of preference: the active one, then .venv.
std::vector<fs::path> environments() {
  std::vector<fs::path> roots;
  if (const char* active = std::getenv("VIRTUAL_ENV"); active && *active) roots.emplace_back(active);
  for (const fs::path& folder : folders_above_program()) roots.push_back(folder / ".venv");
  return roots;
}

// An absolute path to what `text` names, seen from the place where it was given.
std::string resolve_path(const std::string& text, const SourceLocation& where, const std::string& key) {
  const std::string scheme = "package:";
  if (text.rfind(scheme, 0) != 0)
    return fs::absolute(where.file.empty() ? fs::path(text) : fs::path(where.file).parent_path() / text)
        .lexically_normal()
        .string();
  const auto slash = text.find('/');
  if (slash == std::string::npos || slash + 1 == text.size())
    throw InputError(where, key, "found '" + text + "'", "allowed: package:<python package>/<path>");
  const std::string package = text.substr(scheme.size(), slash - scheme.size());
  const std::string directory = python_package_directory(package);
  if (directory.empty())
    throw InputError(
        where, key, "found no Python package '" + package + "'",
        "allowed: a package (by its import name) that is installed in $VIRTUAL_ENV, or in .venv next to "
        "the program or in the working directory");
  return (fs::path(directory) / text.substr(slash + 1)).lexically_normal().string();
}

std::string existing_file(const std::string& text, const SourceLocation& where, const std::string& key,
                          bool or_directory, const std::string& allowed) {
  const std::string path = resolve_path(text, where, key);
  std::error_code problem;
  if (fs::is_regular_file(path, problem) || (or_directory && fs::is_directory(path, problem))) return path;
  throw InputError(
      where, key,
      "found '" + text + "'" + (path == text ? "" : ", that is " + path) +
          (fs::exists(path, problem) ? ", which is no file" : ", which does not exist"),
      "allowed: " + allowed + ", relative to the " + (where.file.empty() ? "working directory" : "deck"));
}
}  // namespace

std::vector<fs::path> folders_above_program() {
  std::vector<fs::path> folders;
  std::error_code problem;
  fs::path folder = fs::read_symlink("/proc/self/exe", problem).parent_path();
  // (build/maniple, and test programs deeper in the build folder)
  for (int level = 0; level < 4 && folder.has_relative_path(); ++level, folder = folder.parent_path())
    folders.push_back(folder);
  folders.push_back(fs::current_path(problem));
  return folders;
}

std::string python_package_directory(const std::string& package) {
  if (package.empty()) return "";
  for (const char c : package)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') return "";
  std::error_code problem;
  for (const fs::path& root : environments())
    for (const char* library : {"lib", "lib64"})
      for (fs::directory_iterator entry(root / library, problem), end; !problem && entry != end;
           entry.increment(problem)) {
        if (entry->path().filename().string().rfind("python", 0) != 0) continue;
        const fs::path directory = entry->path() / "site-packages" / package;
        std::error_code missing;
        if (fs::is_directory(directory, missing)) return directory.string();
      }
  return "";
}

std::string control_file_text(const Config& config) {
  return std::string("an HDF5 file with ") +
         (config.task.present ? "/action [env or 1, step, actions]" : "/ctrl [env or 1, step, nu]");
}

InputError no_model_file(const Config& config) {
  return {config.model.where, "model.file", "found nothing",
          "allowed: a model file, or package:<python package>/<path>"};
}

void resolve_files(Config& config, const std::string& member, bool needs_model, Mistakes& mistakes) {
  const auto find = [&](std::string& file, const char* key, bool or_directory, const std::string& allowed) {
    mistakes.gather([&] { file = existing_file(file, config.where_of(key), key, or_directory, allowed); });
  };
  config.model.where = config.where_of("model.file");
  config.model.path = config.model.file;
  if (!config.model.file.empty())
    find(config.model.path, "model.file", false, "a model file (MJCF, URDF or MJB)");
  else if (needs_model)
    mistakes.add(no_model_file(config));

  if (!config.model.overlay.empty()) find(config.model.overlay, "model.overlay", false, "an MJCF file");

  ControlConfig& control = config.control;
  control.where = config.where_of(
      control.source == ControlInput::policy || control.file.empty() ? "control.checkpoint" : "control.file");
  if (!control.file.empty()) find(control.file, "control.file", false, control_file_text(config));
  if (!control.checkpoint.empty())
    find(control.checkpoint, "control.checkpoint", true, "a checkpoint file or the directory of a run");
  // the directory of an ensemble: each member has its own policy
  if (std::error_code none; !member.empty() && fs::is_directory(control.checkpoint + "/" + member, none))
    control.checkpoint += "/" + member;

  for (std::string& file : config.data.file)
    mistakes.gather([&] {
      const SourceLocation& where = config.where_of("data.file");
      std::error_code none;
      const fs::path folder = resolve_path(file, where, "data.file");
      const fs::path of_minari = folder / "data/main_data.hdf5";
      const std::string found =
          fs::is_regular_file(folder / "meta/info.json", none)
              ? "tools/from_lerobot.py FOLDER FILE.hdf5 writes one of a LeRobot data set"
          : fs::is_regular_file(of_minari, none) ? "that of this Minari data set is " + of_minari.string()
                                                 : "tools/datasets.py convert writes one of other layouts";
      file = existing_file(file, where, "data.file", false,
                           fmt::format("an HDF5 file of demonstrations ({})", found));
    });

  for (TermConfig& command : config.task.commands)
    if (!command.file.empty())
      mistakes.gather([&] {
        command.file =
            existing_file(command.file, command.where_of("file"), "task.commands." + command.name + ".file",
                          false, "a motion in mjlab's format (.npz)");
      });

  if (std::string& file = config.learning.warm_start; !file.empty())
    find(file, "learning.warm_start", true, "a checkpoint file or the directory of a run");

  InitialStateConfig& initial = config.initial_state;
  const bool from_keyframe =
      initial.source == StartState::keyframe || control.source == ControlInput::keyframe;
  initial.where = config.where_of(initial.source == StartState::file ? "initial_state.file"
                                  : from_keyframe                    ? "initial_state.keyframe"
                                                                     : "initial_state.source");
  if (!initial.file.empty())
    find(initial.file, "initial_state.file", false, "an HDF5 file with /qpos [env or 1, nq]");
  config.simulation.where_disable = config.where_of("simulation.disable");
  config.simulation.where_enable = config.where_of("simulation.enable");
  config.output.where_fields = config.where_of("output.trajectory.fields");
  config.task.where_keyframe = config.where_of("task.keyframe");
  config.task.where_reset_until = config.where_of("task.reset_until");
  config.task.where_reset_raise = config.where_of("task.reset_raise");
}

}  // namespace maniple
