#include "src/io/demonstrations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "src/base/activity.hpp"
#include "src/base/counted.hpp"
#include "src/base/fnv.hpp"
#include "src/config/document.hpp"
#include "src/io/checksum.hpp"
#include "src/io/demonstration_layout.hpp"
#include "src/io/hdf5.hpp"

namespace maniple {
namespace {

constexpr DemonstrationLayout kLayouts[] = {kRobomimicLayout, kMinariLayout, kDroidLayout};

// The key with which messages begin.
constexpr const char* kKey = "data.file";

// The number at the end of a demonstration's name; -1: it has another form.
std::int64_t number_of(const std::string& name, const std::string& prefix) {
  std::int64_t number = -1;
  if (name.rfind(prefix, 0) != 0 || name.size() == prefix.size()) return -1;
  const auto parsed = std::from_chars(name.data() + prefix.size(), name.data() + name.size(), number);
  return parsed.ec == std::errc() && parsed.ptr == name.data() + name.size() ? number : -1;
}

// A line of it: a name in a file may have any characters.
std::string in_a_line(std::string text) {
  for (std::size_t i = 0; i < text.size(); ++i)
    if (const auto code = static_cast<unsigned char>(text[i]); code < 0x20 || code == 0x7f)
      text.replace(i, 1, fmt::format("\\x{:02x}", code));
  return text;
}

std::string list_of(const std::vector<std::string>& names) {
  constexpr std::size_t most = 20;
  if (names.empty()) return "nothing";
  const std::vector<std::string> first(
      names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(most, names.size())));
  return fmt::format("{}{}", fmt::join(first, ", "), names.size() > most ? " ..." : "");
}

// What a frame of a dataset is: a number, a vector, or a image [height, width, channels].
std::string frame_text(const std::vector<int>& frame) {
  return frame.size() == 3 ? fmt::format("images of {}", fmt::join(frame, " x "))
                           : counted(frame.front(), "number") + " per frame";
}

// Of the types that hdf5::type_of() names; what is true or false is 1 or 0.
bool reads_as_number(const std::string& type) {
  return type != "string" && type != "other";
}

// One file, open, in the child process.
class OpenFile {
 public:
  OpenFile(const Config& config, const std::string& path)
      : config_(config), path_(path), file_(hdf5::open_file(path, false)), layout_(find_layout()) {}

  const DemonstrationLayout& layout() const { return layout_; }
  hid_t id() const { return file_; }
  // A path below a demonstration.
  std::string path_of(const std::string& demonstration, const std::string& below = "") const {
    std::string path = layout_.group;
    for (const std::string& part : {demonstration, below})
      if (!part.empty()) path += (path.empty() ? "" : "/") + part;
    return path;
  }
  // Datasets of a demonstration's action.
  std::vector<std::string> actions(const std::string& demonstration) const {
    const std::vector<std::string>& keys = config_.data.actions;
    const bool has_group = *layout_.actions != '\0';
    if (has_group && keys.empty())
      refuse("data.actions", path_, "found none with DROID's layout",
             "allowed: datasets below /" + path_of(demonstration, layout_.actions) + ": " +
                 list_of(names_below(path_of(demonstration, layout_.actions))));
    std::vector<std::string> paths;
    if (keys.empty()) paths.push_back(path_of(demonstration, "actions"));
    for (const std::string& key : keys)
      paths.push_back(path_of(demonstration, has_group ? layout_.actions + ("/" + key) : key));
    return paths;
  }
  // The path of one observation of a demonstration. Minari's space without keys is a single dataset.
  std::string observation(const std::string& demonstration, const std::string& key) const {
    const std::string whole = path_of(demonstration, layout_.observations);
    return key == layout_.observations && hdf5::has_path(file_, whole) && is_dataset(whole)
               ? whole
               : whole + "/" + key;
  }

  // Names in the order of their numbers: those to learn from, and those that are held out.
  struct Division {
    std::vector<std::string> learned, held_out;
    std::size_t unused = 0;  // demonstrations in neither
  };
  Division demonstrations() const {
    const std::string &filter = config_.data.filter_key, &held_out = config_.data.validation_filter;
    if (*layout_.prefix == '\0') {
      filtered("data.filter_key", filter, {});
      filtered("data.validation_filter", held_out, {});
      return {{""}, {}, 0};
    }
    const std::vector<std::string> all = numbered();
    Division names{filtered("data.filter_key", filter, all), {}, 0};
    names.unused = all.size() - names.learned.size();
    if (held_out.empty()) return names;
    names.held_out = filtered("data.validation_filter", held_out, all);
    const auto is_held_out = [&](const std::string& name) {
      return std::binary_search(names.held_out.begin(), names.held_out.end(), name, by_number());
    };
    const auto common = std::count_if(names.learned.begin(), names.learned.end(), is_held_out);
    if (!filter.empty() && common > 0)
      refuse("data.validation_filter", path_,
             fmt::format("/mask/{} and /mask/{} have {} in common", held_out, filter,
                         counted(common, "demonstration")),
             "allowed: demonstrations that are not in data.filter_key");
    std::erase_if(names.learned, is_held_out);
    if (names.learned.empty())
      refuse("data.validation_filter", path_,
             fmt::format("/mask/{} has all demonstrations, {}", held_out, all.size()),
             "allowed: a list that leaves some for training");
    names.unused = all.size() - names.learned.size() - names.held_out.size();
    return names;
  }

  // The observations of the deck's task, in its order, where a demonstration has them all.
  std::vector<std::string> of_task(const std::string& demonstration) const {
    const std::vector<std::string> there = keys(demonstration), wanted = observation_keys(config_.task);
    const bool all = std::all_of(wanted.begin(), wanted.end(), [&](const std::string& key) {
      return std::find(there.begin(), there.end(), key) != there.end();
    });
    return all ? wanted : std::vector<std::string>();
  }
  // Keys of a demonstration's observations that hold vectors of numbers; flags are only seen where they are
  // asked for, and DROID's files hold much that no policy is to see.
  std::vector<std::string> vectors(const std::string& demonstration) const {
    std::vector<std::string> found;
    if (*layout_.prefix == '\0')
      refuse("data.observations", path_, "found none with DROID's layout",
             "allowed: datasets below /" + path_of(demonstration, layout_.observations) + ": " +
                 list_of(keys(demonstration)));
    for (const std::string& key : keys(demonstration)) {
      const std::string path = observation(demonstration, key);
      const hdf5::Dataset dataset = hdf5::open_dataset(file_, path);
      const std::string type = hdf5::type_of(dataset);
      if (reads_as_number(type) && type != "bool" && hdf5::shape_of(dataset).size() <= 2)
        found.push_back(key);
    }
    return found;
  }
  // Observations that are not among `taken`, with their types and shapes.
  std::vector<std::string> others(const std::string& demonstration,
                                  const std::vector<std::string>& taken) const {
    std::vector<std::string> found;
    for (const std::string& key : keys(demonstration)) {
      if (std::find(taken.begin(), taken.end(), key) != taken.end()) continue;
      const hdf5::Dataset dataset = hdf5::open_dataset(file_, observation(demonstration, key));
      const hdf5::Shape shape = hdf5::shape_of(dataset);
      const hdf5::Shape frame(shape.begin() + (shape.empty() ? 0 : 1), shape.end());
      found.push_back(fmt::format("{} ({}{})", key, hdf5::type_of(dataset),
                                  frame.empty() ? "" : " " + hdf5::shape_text(frame)));
    }
    return found;
  }
  // Of the datasets; "camera/depth" lies in a group of its own.
  std::vector<std::string> keys(const std::string& demonstration) const {
    const std::string path = path_of(demonstration, layout_.observations);
    if (!hdf5::has_path(file_, path)) return {};
    if (is_dataset(path)) return {layout_.observations};
    std::vector<std::string> found;
    for (const std::string& name : names_below(path)) {
      const std::string below = path + "/" + name;
      if (is_dataset(below)) {
        found.push_back(name);
        continue;
      }
      const hdf5::Group group(
          hdf5::check_id(H5Gopen2(file_, below.c_str(), H5P_DEFAULT), path_ + ": /" + below));
      for (const hdf5::Member& member : hdf5::members(group))
        if (member.is_dataset) found.push_back(name + "/" + member.path);
    }
    return found;
  }

  // Frames of a dataset, and the shape of one: [size], or [height, width, channels] where images are
  // allowed.
  std::pair<std::int64_t, std::vector<int>> extents(const std::string& path, const char* key,
                                                    bool images = false) const {
    const hdf5::Dataset dataset = hdf5::open_dataset(file_, path);
    const std::string type = hdf5::type_of(dataset);
    const hdf5::Shape shape = hdf5::shape_of(dataset);
    const bool many = images && shape.size() > 2;
    const bool fits = many ? type == "uint8" && shape.size() == 4 : !shape.empty() && shape.size() <= 2;
    if (!reads_as_number(type) || !fits)
      refuse(key, path_, "/" + path + " is " + type + " " + hdf5::shape_text(shape),
             many ? "allowed: images, uint8 [frame, height, width, channels], or numbers, [frame] or "
                    "[frame, size]"
                  : "allowed: numbers, [frame] or [frame, size]");
    constexpr hsize_t most_width = 1000000, most_side = 16384, most_channels = 4;
    const auto within = [&](std::size_t axis, hsize_t most) {
      return shape[axis] > 0 && shape[axis] <= most;
    };
    if (many && !(within(1, most_side) && within(2, most_side) && within(3, most_channels)))
      refuse(
          key, path_, "/" + path + " has the shape " + hdf5::shape_text(shape),
          fmt::format("allowed: [frame, height, width, channels] with at most {} channels", most_channels));
    if (shape.size() == 2 && !within(1, most_width))
      refuse(key, path_, "/" + path + " has the shape " + hdf5::shape_text(shape), "allowed: [frame, size]");
    std::vector<int> frame(shape.begin() + 1, shape.end());
    if (frame.empty()) frame.push_back(1);
    return {static_cast<std::int64_t>(shape[0]), frame};
  }

  bool is_dataset(const std::string& path) const {
    const hdf5::Object object(
        hdf5::check_id(H5Oopen(file_, path.c_str(), H5P_DEFAULT), path_ + ": /" + path));
    return H5Iget_type(object) == H5I_DATASET;
  }

  [[noreturn]] void refuse(const std::string& key, const std::string& path, const std::string& found,
                           const std::string& allowed) const {
    throw InputError(config_.where_of(key), key + ": " + path, in_a_line(found), in_a_line(allowed));
  }

 private:
  const DemonstrationLayout& find_layout() const {
    std::string tried;
    for (const DemonstrationLayout& layout : kLayouts) {
      if (*layout.prefix == '\0') {
        if (hdf5::has_path(file_, layout.actions) && hdf5::has_path(file_, layout.observations))
          return layout;
        tried += fmt::format("{}{} has groups /{} and /{}", tried.empty() ? "" : ", ", layout.name,
                             layout.actions, layout.observations);
        continue;
      }
      const bool root = *layout.group == '\0';
      if (!root && !hdf5::has_path(file_, layout.group)) {
        tried += fmt::format("{}{} has a group /{}", tried.empty() ? "" : ", ", layout.name, layout.group);
        continue;
      }
      const std::vector<std::string> names = names_of(layout);
      if (std::any_of(names.begin(), names.end(),
                      [&](const std::string& name) { return number_of(name, layout.prefix) >= 0; }))
        return layout;
      tried += fmt::format("{}{} has groups {}/{}<number>", tried.empty() ? "" : ", ", layout.name,
                           root ? "" : std::string("/") + layout.group, layout.prefix);
    }
    refuse(kKey, path_, "found none of the layouts; at its root are: " + list_of(names_below("/")),
           tried + "; tools/datasets.py convert writes robomimic's layout from others");
  }
  std::vector<std::string> names_below(const std::string& path) const {
    return hdf5::names_in(
        hdf5::Group(hdf5::check_id(H5Gopen2(file_, path.c_str(), H5P_DEFAULT), path_ + ": /" + path)));
  }
  std::vector<std::string> names_of(const DemonstrationLayout& layout) const {
    return names_below(*layout.group == '\0' ? "/" : layout.group);
  }
  // Those of `all`, in that order, that a filter key lists; "": all of them.
  std::vector<std::string> filtered(const char* key, const std::string& filter,
                                    const std::vector<std::string>& all) const {
    if (filter.empty()) return all;
    if (*layout_.group == '\0')
      refuse(key, path_, fmt::format("found '{}' with the layout of {}", filter, layout_.name),
             "allowed: \"\"; filter keys are robomimic's /mask");
    const std::string path = "mask/" + filter;
    if (!hdf5::has_path(file_, path)) {
      std::vector<std::string> keys;
      if (hdf5::has_path(file_, "mask")) keys = names_below("mask");
      refuse(key, path_, "found no /" + path,
             keys.empty() ? "the file has no lists of demonstrations below /mask; tools/datasets.py split "
                            "--mask makes them"
                          : "allowed: \"\" or one of: " + list_of(keys));
    }
    const auto refuse_list = [&](const std::string& found) {
      refuse(key, path_, "/" + path + " is " + found, "allowed: a list of texts, names of demonstrations");
    };
    if (!is_dataset(path)) refuse_list("no dataset");
    if (const hdf5::Dataset list = hdf5::open_dataset(file_, path);
        hdf5::type_of(list) != "string" || hdf5::shape_of(list).size() != 1)
      refuse_list(hdf5::type_of(list) + " " + hdf5::shape_text(hdf5::shape_of(list)));
    std::vector<std::string> chosen = hdf5::read_texts(hdf5::open_dataset(file_, path), path_ + ": /" + path);
    for (const std::string& name : chosen) {
      const auto place = std::lower_bound(all.begin(), all.end(), name, by_number());
      if (place == all.end() || *place != name)  // (demo_00 has the number of demo_0)
        refuse(key, path_, "/" + path + " names '" + name + "', which is not in /data",
               "allowed: demonstrations that are there: " + list_of(all));
    }
    if (chosen.empty())
      refuse(key, path_, "/" + path + " has no demonstrations", "allowed: a list of at least one");
    std::sort(chosen.begin(), chosen.end(), by_number());
    return chosen;
  }
  std::vector<std::string> numbered() const {
    std::vector<std::string> names = names_of(layout_);
    if (*layout_.group == '\0')
      std::erase_if(names, [&](const std::string& name) { return number_of(name, layout_.prefix) < 0; });
    for (const std::string& name : names)
      if (number_of(name, layout_.prefix) < 0)
        refuse(kKey, path_, fmt::format("found /{}", path_of(name)),
               fmt::format("allowed: demonstrations that are called {}<number>", layout_.prefix));
    std::sort(names.begin(), names.end(), by_number());
    const auto twice =
        std::adjacent_find(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
          return number_of(a, layout_.prefix) == number_of(b, layout_.prefix);
        });
    if (twice != names.end())
      refuse(kKey, path_, fmt::format("found /{} and /{}", path_of(*twice), path_of(*(twice + 1))),
             "allowed: demonstrations with numbers of their own");
    return names;
  }
  std::function<bool(const std::string&, const std::string&)> by_number() const {
    return [prefix = std::string(layout_.prefix)](const std::string& a, const std::string& b) {
      return number_of(a, prefix) < number_of(b, prefix);
    };
  }

  const Config& config_;
  const std::string path_;
  const hdf5::File file_;
  const DemonstrationLayout& layout_;
};

// The files of an entry of data.file: itself, or those that it names.
std::vector<std::string> files_of(const Config& config, const std::string& path) {
  if (!path.ends_with(".json")) return {path};
  const auto refuse = [&](const std::string& found) {
    throw InputError(config.where_of(kKey), std::string(kKey) + ": " + path, found,
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

// run_isolated() whose errors are about the user's input, but for those of the machine.
std::vector<std::string> read_isolated(const Config& config, const std::vector<std::string>& paths,
                                       const std::function<std::string(std::size_t file)>& work) {
  try {
    return run_isolated(paths, work);
  } catch (const InputError&) {
    throw;
  } catch (const MachineFault&) {
    throw;
  } catch (const Error& error) {
    throw InputError(config.where_of(kKey), kKey, std::string("cannot be read as HDF5: ") + error.what(), "");
  }
}

// The child's answer about one file, a line each: layout; number of keys, then names and shapes of a frame;
// width of actions; how many observations are left out, and which; how many demonstrations are to learn from,
// held out and unused; of each frames and name.
// `wanted`: keys of the observations; where it is empty, it becomes those that are taken.
std::string describe_file(const Config& config, const std::string& path, std::vector<std::string>& wanted) {
  const OpenFile file(config, path);
  const DemonstrationLayout& layout = file.layout();
  const OpenFile::Division division = file.demonstrations();
  std::vector<std::string> names = division.learned;
  names.insert(names.end(), division.held_out.begin(), division.held_out.end());
  if (wanted.empty()) wanted = file.of_task(names.front());
  if (wanted.empty()) wanted = file.vectors(names.front());
  const std::vector<std::string>& keys = wanted;
  if (keys.empty())
    file.refuse("data.observations", path, "found no observations that are vectors",
                "there are: " + list_of(file.keys(names.front())));
  for (const std::string& key : keys)
    if (in_a_line(key) != key)
      file.refuse("data.observations", path, "found an observation that is called '" + key + "'",
                  "allowed: names without control characters, such as line feeds");
  std::vector<std::vector<int>> shapes(keys.size() + 1);  // of a frame; the last: of actions
  const char* const action_key = config.data.actions.empty() ? kKey : "data.actions";
  std::string demonstrations;
  for (const std::string& name : names) {
    const std::string root = file.path_of(name);
    const std::vector<std::string> actions = file.actions(name);
    std::int64_t frames = 0;
    int action_width = 0;
    for (const std::string& action : actions) {
      if (!hdf5::has_path(file.id(), action) || !file.is_dataset(action))
        file.refuse(action_key, path, "found no dataset /" + action, "allowed: actions [frame, size]");
      const auto [rows, shape] = file.extents(action, action_key);
      if (rows < 1) file.refuse(kKey, path, "/" + action + " has no frames", "allowed: at least one");
      if (frames > 0 && rows != frames)
        file.refuse(kKey, path, fmt::format("/{} has {}", action, counted(rows, "frame")),
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
            file.refuse(kKey, path, fmt::format("/{}: {}", root, error.what()),
                        "allowed: an integer, the number of frames");
          }
        }();
        if (said != frames)
          file.refuse(kKey, path, fmt::format("/{} has {}", actions.front(), counted(frames, "frame")),
                      fmt::format("its attribute {} says {}", layout.length, said));
      }
    }
    const auto check_shape = [&](std::vector<int>& shape, const std::vector<int>& found,
                                 const std::string& what) {
      if (shape.empty()) shape = found;
      if (shape != found)
        file.refuse(kKey, path, fmt::format("/{} has {}", what, frame_text(found)),
                    fmt::format("that of {} has {}", names.front(), frame_text(shape)));
    };
    check_shape(shapes.back(), {action_width}, actions.front());
    for (std::size_t k = 0; k < keys.size(); ++k) {
      const std::string observation = file.observation(name, keys[k]);
      if (!hdf5::has_path(file.id(), observation) || !file.is_dataset(observation))
        file.refuse("data.observations", path, "found no /" + observation,
                    "there are: " + list_of(file.keys(name)));
      const auto [rows, shape] = file.extents(observation, "data.observations", true);
      const std::int64_t expected = frames + (layout.final_observation ? 1 : 0);
      if (rows != expected)
        file.refuse(kKey, path, fmt::format("/{} has {}", observation, counted(rows, "frame")),
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
    throw InputError(config.where_of(kKey), std::string(kKey) + ": " + path, what,
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

// Reads one file into the rows and images of all.
class FrameReader {
 public:
  FrameReader(const Config& config, const DemonstrationContents& contents, const std::string& path,
              float* rows, std::uint8_t* images)
      : config_(config), contents_(contents), path_(path), file_(config, path), rows_(rows), images_(images) {
    const bool none = config.data.normalize_actions == DataNormalizer::none;
    bounded_.assign(static_cast<std::size_t>(contents.action_width), none);
    const bool reaches_beyond = config.learning.algorithm == "diffusion" ? !config.diffusion.clip_sample
                                                                         : !config.policy.squash_actions;
    if (reaches_beyond) return;
    for (const int component : config.data.actions_not_normalized)
      bounded_[static_cast<std::size_t>(component)] = true;
  }

  void read(const Demonstration& demonstration) {
    for (const DemonstrationContents::Key& key : contents_.observations)
      read_numbers(demonstration, file_.observation(demonstration.name, key.name), key.first, key.width);
    for (const DemonstrationContents::Camera& camera : contents_.cameras)
      read_images(demonstration, file_.observation(demonstration.name, camera.name), camera);
    int place = contents_.observation_width;
    for (const std::string& action : file_.actions(demonstration.name)) {
      const int size = file_.extents(action, kKey).second.front();
      read_numbers(demonstration, action, place, size);
      place += size;
    }
  }

 private:
  // `first`: of a row's numbers.
  void read_numbers(const Demonstration& demonstration, const std::string& dataset, int first, int size) {
    const hdf5::Dataset opened = hdf5::open_dataset(file_.id(), dataset);
    hdf5::Shape origin{0}, count{static_cast<hsize_t>(demonstration.frames)};
    if (hdf5::shape_of(opened).size() == 2) {
      origin.push_back(0);
      count.push_back(static_cast<hsize_t>(size));
    }
    values_.resize(static_cast<std::size_t>(demonstration.frames * size));
    hdf5::read_box(opened, H5T_NATIVE_FLOAT, origin, count, values_.data(), path_ + ": /" + dataset);
    const int first_action = first - contents_.observation_width;
    for (std::int64_t frame = 0; frame < demonstration.frames; ++frame)
      for (int i = 0; i < size; ++i) {
        const float value = values_[static_cast<std::size_t>(frame * size + i)];
        if (!std::isfinite(value))
          file_.refuse(
              kKey, path_,
              fmt::format("/{} has {} in frame {}", dataset, std::isnan(value) ? "NaN" : "infinity", frame),
              "allowed: finite numbers");
        if (first_action >= 0 && bounded_[static_cast<std::size_t>(first_action + i)] &&
            std::abs(value) > 1.0f + 1e-6f)
          file_.refuse(kKey, path_, fmt::format("/{} has {} in frame {}", dataset, value, frame),
                       remedy(first_action + i));
        rows_[(demonstration.first + frame) * contents_.row_width() + first + i] = value;
      }
  }

  std::string remedy(int component) const {
    if (config_.data.normalize_actions == DataNormalizer::none)
      return "allowed: [-1, 1], or data.normalize_actions: min_max | mean_std";
    return fmt::format("allowed: [-1, 1], which the policy's actions lie in, or {} not among {}", component,
                       "data.actions_not_normalized");
  }

  // Some frames at a time: a demonstration may have any number.
  void read_images(const Demonstration& demonstration, const std::string& dataset,
                   const DemonstrationContents::Camera& camera) {
    constexpr std::size_t kMostBytes = std::size_t{1} << 24;
    const hdf5::Dataset opened = hdf5::open_dataset(file_.id(), dataset);
    const std::size_t size = camera.bytes();
    const auto most = static_cast<std::int64_t>(std::max<std::size_t>(1, kMostBytes / size));
    for (std::int64_t first = 0; first < demonstration.frames; first += most) {
      const std::int64_t frames = std::min(most, demonstration.frames - first);
      pixels_.resize(static_cast<std::size_t>(frames) * size);
      hdf5::read_box(opened, H5T_NATIVE_UINT8, {static_cast<hsize_t>(first), 0, 0, 0},
                     {static_cast<hsize_t>(frames), static_cast<hsize_t>(camera.height),
                      static_cast<hsize_t>(camera.width), static_cast<hsize_t>(camera.channels)},
                     pixels_.data(), path_ + ": /" + dataset);
      for (std::int64_t frame = 0; frame < frames; ++frame) {
        const auto row = static_cast<std::size_t>(demonstration.first + first + frame);
        std::copy_n(pixels_.data() + static_cast<std::size_t>(frame) * size, size,
                    images_ + row * contents_.image_bytes + camera.first);
      }
      note_reading();
    }
  }

  const Config& config_;
  const DemonstrationContents& contents_;
  const std::string& path_;
  const OpenFile file_;
  float* const rows_;
  std::uint8_t* const images_;
  std::vector<bool> bounded_;  // components of the action that are to lie in [-1, 1]
  std::vector<float> values_;
  std::vector<std::uint8_t> pixels_;
};

// Of the numbers, and of how they are divided.
std::int64_t checksum_of(const DemonstrationContents& contents, const void* numbers) {
  Fnv shape;
  if (contents.held_out > 0) shape.add(&contents.held_out, sizeof contents.held_out);
  for (const Demonstration& demonstration : contents.demonstrations)
    shape.add(&demonstration.frames, sizeof demonstration.frames);
  for (const DemonstrationContents::Key& key : contents.observations) {
    shape.add(key.name.data(), key.name.size());
    shape.add(&key.width, sizeof key.width);
  }
  for (const DemonstrationContents::Camera& camera : contents.cameras) {
    shape.add(camera.name.data(), camera.name.size());
    for (const int size : {camera.height, camera.width, camera.channels}) shape.add(&size, sizeof size);
  }
  std::uint64_t sum = std::stoull(shape.text(), nullptr, 16);
  constexpr std::size_t kPiece = std::size_t{1} << 26;  // bytes; from memory, or from the file of data.cache
  for (std::size_t at = 0; at < contents.bytes(); at += kPiece) {
    sum += words_checksum(static_cast<const char*>(numbers) + at, std::min(kPiece, contents.bytes() - at),
                          static_cast<std::int64_t>(at));
    note_progress();
  }
  return static_cast<std::int64_t>(sum);
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
  const std::vector<std::string> descriptions = read_isolated(
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

Demonstrations::Demonstrations(const Config& config, DemonstrationContents contents,
                               const std::string& directory)
    : contents_(std::move(contents)), memory_(std::make_unique<SharedMemory>(contents_.bytes(), directory)) {
  auto* const rows = static_cast<float*>(memory_->data());
  auto* const images = static_cast<std::uint8_t*>(memory_->data()) + contents_.row_bytes();
  const std::vector<Demonstration>& all = contents_.demonstrations;
  // (a file comes once more where some of it is held out)
  std::vector<std::string> paths;
  std::vector<std::size_t> first;  // demonstration of each, and one more: their number
  for (std::size_t d = 0; d < all.size(); ++d)
    if (d == 0 || all[d].path != all[d - 1].path) {
      paths.push_back(all[d].path);
      first.push_back(d);
    }
  first.push_back(all.size());
  read_isolated(config, paths, [&](std::size_t file) {
    FrameReader reader(config, contents_, paths[file], rows, images);
    for (std::size_t d = first[file]; d < first[file + 1]; ++d) {
      reader.read(all[d]);
      note_reading();
    }
    return std::string();
  });
  checksum_ = checksum_of(contents_, rows);
}

}  // namespace maniple
