#include "src/io/demonstration_contents.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "src/base/counted.hpp"
#include "src/base/error.hpp"
#include "src/config/document.hpp"
#include "src/io/demonstration_file.hpp"
#include "src/io/hdf5.hpp"

namespace maniple {
namespace {

// What a frame of a dataset is: a number, a vector, or an image [height, width, channels].
std::string frame_text(const std::vector<int>& frame) {
  return frame.size() == 3 ? fmt::format("images of {}", fmt::join(frame, " x "))
                           : counted(frame.front(), "number") + " per frame";
}

// The files of an entry of data.file: itself, or those that it names.
std::vector<std::string> files_of(const Config& config, const std::string& path) {
  if (!path.ends_with(".json")) return {path};
  const auto refuse = [&](const std::string& found) {
    throw InputError(config.where_of(DemonstrationFile::kKey),
                     std::string(DemonstrationFile::kKey) + ": " + path, found,
                     "allowed in a manifest: [{\"path\": \"<file of a demonstration>\"}, ...]");
  };
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  DeckValue root;
  root.kind = DeckValue::Kind::map;
  try {
    apply_override(root, "manifest=" + text.str());  // (JSON is YAML)
  } catch (const InputError&) {
    refuse("is no JSON");
  }
  const DeckValue* const list = root.find("manifest");
  if (!list || list->kind != DeckValue::Kind::list || list->list.empty()) refuse("found no list");
  std::vector<std::string> files;
  for (const DeckValue& entry : list->list) {
    const DeckValue* const name = entry.find("path");
    if (!name || name->kind != DeckValue::Kind::scalar)
      refuse(fmt::format("found no path in entry {}", files.size()));
    files.push_back((std::filesystem::path(path).parent_path() / name->text).string());
    if (!std::filesystem::is_regular_file(files.back()))
      refuse(fmt::format("entry {}: {} does not exist", files.size() - 1, files.back()));
  }
  return files;
}

// The child's answer about one file, a line each: layout; number of keys, then names and shapes of a frame;
// width of actions; how many observations are left out, and which; how many demonstrations are to learn from,
// held out and unused; of each frames and name.
// `wanted`: keys of the observations; where it is empty, it becomes those that are taken.
std::string describe_file(const Config& config, const std::string& path, std::vector<std::string>& wanted) {
  const DemonstrationFile file(config, path);
  const DemonstrationLayout& layout = file.layout();
  const DemonstrationFile::Division division = file.demonstrations();
  std::vector<std::string> names = division.learned;
  names.insert(names.end(), division.held_out.begin(), division.held_out.end());
  if (wanted.empty()) wanted = file.of_task(names.front());
  if (wanted.empty()) wanted = file.vectors(names.front());
  const std::vector<std::string>& keys = wanted;
  if (keys.empty())
    file.refuse("data.observations", "found no observations that are vectors",
                "there are: " + list_of(file.keys(names.front())));
  for (const std::string& key : keys)
    if (in_a_line(key) != key)
      file.refuse("data.observations", "found an observation that is called '" + key + "'",
                  "allowed: names without control characters, such as line feeds");
  std::vector<std::vector<int>> shapes(keys.size() + 1);  // of a frame; the last: of actions
  const char* const action_key = config.data.actions.empty() ? DemonstrationFile::kKey : "data.actions";
  std::string demonstrations;
  for (const std::string& name : names) {
    const std::string root = file.path_of(name);
    const std::vector<std::string> actions = file.actions(name);
    std::int64_t frames = 0;
    int action_width = 0;
    for (const std::string& action : actions) {
      if (!hdf5::has_path(file.id(), action) || !file.is_dataset(action))
        file.refuse(action_key, "found no dataset /" + action, "allowed: actions [frame, size]");
      const auto [rows, shape] = file.extents(action, action_key);
      if (rows < 1)
        file.refuse(DemonstrationFile::kKey, "/" + action + " has no frames", "allowed: at least one");
      if (frames > 0 && rows != frames)
        file.refuse(DemonstrationFile::kKey, fmt::format("/{} has {}", action, counted(rows, "frame")),
                    fmt::format("/{} has {}", actions.front(), frames));
      frames = rows;
      action_width += shape.front();
    }
    if (*layout.length != '\0') {
      const hdf5::Object group(hdf5::check_id(H5Oopen(file.id(), root.c_str(), H5P_DEFAULT), path));
      if (hdf5::has_attribute(group, layout.length)) {
        const std::int64_t said = [&] {
          try {
            return hdf5::read_integer_attribute(group, layout.length);
          } catch (const Error& error) {
            file.refuse(DemonstrationFile::kKey, fmt::format("/{}: {}", root, error.what()),
                        "allowed: an integer, the number of frames");
          }
        }();
        if (said != frames)
          file.refuse(DemonstrationFile::kKey,
                      fmt::format("/{} has {}", actions.front(), counted(frames, "frame")),
                      fmt::format("its attribute {} says {}", layout.length, said));
      }
    }
    const auto check_shape = [&](std::vector<int>& shape, const std::vector<int>& found,
                                 const std::string& what) {
      if (shape.empty()) shape = found;
      if (shape != found)
        file.refuse(DemonstrationFile::kKey, fmt::format("/{} has {}", what, frame_text(found)),
                    fmt::format("that of {} has {}", names.front(), frame_text(shape)));
    };
    check_shape(shapes.back(), {action_width}, actions.front());
    for (std::size_t k = 0; k < keys.size(); ++k) {
      const std::string observation = file.observation(name, keys[k]);
      if (!hdf5::has_path(file.id(), observation) || !file.is_dataset(observation))
        file.refuse("data.observations", "found no /" + observation,
                    "there are: " + list_of(file.keys(name)));
      const auto [rows, shape] = file.extents(observation, "data.observations", true);
      const std::int64_t expected = frames + (layout.final_observation ? 1 : 0);
      if (rows != expected)
        file.refuse(DemonstrationFile::kKey, fmt::format("/{} has {}", observation, counted(rows, "frame")),
                    fmt::format("/{} has {}: allowed is {}", actions.front(), frames, expected));
      check_shape(shapes[k], shape, observation);
    }
    demonstrations += fmt::format("{} {}\n", frames, name);
  }
  std::string text = fmt::format("{}\n{}\n", layout.name, keys.size());
  for (std::size_t k = 0; k < keys.size(); ++k)
    text += fmt::format("{}\n{}\n", keys[k], fmt::join(shapes[k], " "));
  std::vector<std::string> left_out;
  if (config.data.observations.empty()) left_out = file.others(names.front(), keys);
  text += fmt::format("{}\n{}\n", shapes.back().front(), left_out.size());
  for (const std::string& other : left_out) text += in_a_line(other) + "\n";
  return text + fmt::format("{} {} {}\n{}", division.learned.size(), division.held_out.size(),
                            division.unused, demonstrations);
}

// What describe_file() says.
DemonstrationContents contents_of(const std::string& description) {
  std::istringstream text(description);
  std::string line;
  const auto check = [&](bool understood) {
    if (!understood) throw Error("the process that reads it answered '" + in_a_line(line) + "'");
  };
  const auto next = [&] {
    check(static_cast<bool>(std::getline(text, line)));
    return line;
  };
  const auto numbers = [&](std::size_t count) {
    std::istringstream words(next());
    std::vector<std::int64_t> values;
    for (std::int64_t value = 0; words >> value;) values.push_back(value);
    check(words.eof() && (count == 0 || values.size() == count));
    return values;
  };
  DemonstrationContents found;
  found.layouts.push_back(next());
  for (std::int64_t keys = numbers(1).front(); keys > 0; --keys) {
    const std::string name = next();
    std::vector<int> frame;
    for (const std::int64_t size : numbers(0)) frame.push_back(static_cast<int>(size));
    check(frame.size() == 1 || frame.size() == 3);
    if (frame.size() == 3) {
      found.cameras.push_back({name, frame[0], frame[1], frame[2], found.image_bytes});
      found.image_bytes += found.cameras.back().bytes();
    } else {
      found.observations.push_back({name, found.observation_width, frame.front()});
      found.observation_width += frame.front();
    }
  }
  found.action_width = static_cast<int>(numbers(1).front());
  for (std::int64_t left = numbers(1).front(); left > 0; --left) found.left_out.push_back(next());
  const std::vector<std::int64_t> counts = numbers(3);
  found.held_out = static_cast<std::size_t>(counts[1]);
  found.unused = static_cast<std::size_t>(counts[2]);
  for (std::int64_t i = 0; i < counts[0] + counts[1]; ++i) {
    Demonstration demonstration;
    check(text >> demonstration.frames && text.get() == ' ');
    check(static_cast<bool>(std::getline(text, demonstration.name)));
    found.demonstrations.push_back(std::move(demonstration));
  }
  return found;
}

// Refuses a file whose frames differ in shape from those of the first one.
void check_alike(const Config& config, const std::string& path, const DemonstrationContents& found,
                 const std::string& first_path, const DemonstrationContents& first) {
  const auto refuse = [&](const std::string& what, const std::string& there) {
    throw InputError(config.where_of(DemonstrationFile::kKey),
                     std::string(DemonstrationFile::kKey) + ": " + path, what,
                     fmt::format("those of {} have {}", first_path, there));
  };
  if (found.cameras.size() != first.cameras.size())
    refuse(fmt::format("{} of the observations are images", found.cameras.size()),
           std::to_string(first.cameras.size()));
  for (std::size_t k = 0; k < first.observations.size(); ++k) {
    const auto &own = found.observations[k], &other = first.observations[k];
    if (own.name != other.name) refuse("observations " + own.name + " that are vectors", "images there");
    if (own.width != other.width)
      refuse(fmt::format("observations {} of {}", own.name, counted(own.width, "number")),
             std::to_string(other.width));
  }
  const auto size_of = [](const DemonstrationContents::Camera& camera) {
    return fmt::format("{} x {} x {}", camera.height, camera.width, camera.channels);
  };
  for (std::size_t k = 0; k < first.cameras.size(); ++k)
    if (size_of(found.cameras[k]) != size_of(first.cameras[k]))
      refuse(fmt::format("images {} of {}", found.cameras[k].name, size_of(found.cameras[k])),
             size_of(first.cameras[k]));
  if (found.action_width != first.action_width)
    refuse("actions of " + counted(found.action_width, "number"), std::to_string(first.action_width));
}

// Checks of keys that name parts of the data.
void check_names(const Config& config, const DemonstrationContents& contents) {
  for (const std::string& key : config.data.not_normalized) {
    const auto has_name = [&](const auto& row) { return row.name == key; };
    if (std::none_of(contents.observations.begin(), contents.observations.end(), has_name) &&
        std::none_of(contents.cameras.begin(), contents.cameras.end(), has_name))
      throw InputError(config.where_of("data.not_normalized"), "data.not_normalized", "found '" + key + "'",
                       "allowed: keys of the observations");
  }
  for (const int component : config.data.actions_not_normalized)
    if (component >= contents.action_width)
      throw InputError(config.where_of("data.actions_not_normalized"), "data.actions_not_normalized",
                       fmt::format("found {}", component),
                       fmt::format("allowed: components of the action, 0 to {}", contents.action_width - 1));
}

}  // namespace

DemonstrationContents inspect_demonstrations(const Config& config) {
  std::vector<std::string> paths;
  std::vector<int> entries;  // of data.file, by path
  for (std::size_t entry = 0; entry < config.data.file.size(); ++entry)
    for (std::string& path : files_of(config, config.data.file[entry])) {
      paths.push_back(std::move(path));
      entries.push_back(static_cast<int>(entry));
    }
  // (the child's: what the first file has is asked of all)
  std::vector<std::string> wanted = config.data.observations;
  const std::vector<std::string> descriptions = read_demonstration_files(
      config, paths, [&](std::size_t file) { return describe_file(config, paths[file], wanted); });
  DemonstrationContents all = contents_of(descriptions.front());
  all.unused = 0;
  std::set<std::string> seen(all.left_out.begin(), all.left_out.end());
  std::vector<Demonstration> learned, held_out;
  for (std::size_t file = 0; file < paths.size(); ++file) {
    DemonstrationContents found = contents_of(descriptions[file]);
    check_alike(config, paths[file], found, paths.front(), all);
    all.layouts.resize(static_cast<std::size_t>(entries[file]) + 1, found.layouts.front());
    all.unused += found.unused;
    for (const std::string& other : found.left_out)
      if (seen.insert(other).second) all.left_out.push_back(other + " of " + paths[file]);
    const std::size_t first_held_out = found.demonstrations.size() - found.held_out;
    for (std::size_t i = 0; i < found.demonstrations.size(); ++i) {
      Demonstration& demonstration = found.demonstrations[i];
      demonstration.file = entries[file];
      demonstration.path = paths[file];
      (i < first_held_out ? learned : held_out).push_back(std::move(demonstration));
    }
  }
  for (const Demonstration& demonstration : learned) all.learned_frames += demonstration.frames;
  all.held_out = held_out.size();
  all.demonstrations = std::move(learned);
  std::move(held_out.begin(), held_out.end(), std::back_inserter(all.demonstrations));
  for (Demonstration& demonstration : all.demonstrations) {
    demonstration.first = all.frames;
    all.frames += demonstration.frames;
  }
  check_names(config, all);
  return all;
}

}  // namespace maniple
