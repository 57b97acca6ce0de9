#include "src/io/demonstrations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <sstream>

#include "src/base/fnv.hpp"
#include "src/io/checksum.hpp"
#include "src/io/demonstration_layout.hpp"
#include "src/io/hdf5.hpp"

namespace maniple {
namespace {

constexpr DemonstrationLayout kLayouts[] = {kRobomimicLayout, kMinariLayout};

// What messages begin with.
constexpr const char* kKey = "data.file";

// The number at the end of a demonstration's name; -1: it has another form.
std::int64_t number_of(const std::string& name, const std::string& prefix) {
  std::int64_t number = -1;
  if (name.rfind(prefix, 0) != 0 || name.size() == prefix.size()) return -1;
  const auto parsed = std::from_chars(name.data() + prefix.size(), name.data() + name.size(), number);
  return parsed.ec == std::errc() && parsed.ptr == name.data() + name.size() ? number : -1;
}

std::string list_of(const std::vector<std::string>& names) {
  constexpr std::size_t most = 20;
  if (names.empty()) return "nothing";
  const std::vector<std::string> first(
      names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(most, names.size())));
  return fmt::format("{}{}", fmt::join(first, ", "), names.size() > most ? " ..." : "");
}

// One file, open, in the child process.
class OpenFile {
 public:
  OpenFile(const Config& config, const std::string& path)
      : config_(config), path_(path), file_(hdf5::open_file(path, false)), layout_(find_layout()) {}

  const DemonstrationLayout& layout() const { return layout_; }
  hid_t id() const { return file_; }
  std::string path_of(const std::string& demonstration) const {
    return *layout_.group == '\0' ? demonstration : std::string(layout_.group) + "/" + demonstration;
  }
  // Of one observation of a demonstration. Minari's space without keys is a dataset by itself.
  std::string observation(const std::string& demonstration, const std::string& key) const {
    const std::string whole = path_of(demonstration) + "/" + layout_.observations;
    return key == layout_.observations && hdf5::has_path(file_, whole) && is_dataset(whole)
               ? whole
               : whole + "/" + key;
  }

  // Names in the order of their numbers, those of data.filter_key where there is one.
  std::vector<std::string> demonstrations() const {
    const std::vector<std::string> all = numbered();
    if (config_.data.filter_key.empty()) return all;
    if (layout_.final_observation)
      refuse("data.filter_key", path_, "found '" + config_.data.filter_key + "' with Minari's layout",
             "allowed: \"\"; filter keys are robomimic's /mask");
    const std::string path = "mask/" + config_.data.filter_key;
    if (!hdf5::has_path(file_, path)) {
      std::vector<std::string> keys;
      if (hdf5::has_path(file_, "mask"))
        keys = hdf5::names_in(hdf5::Group(hdf5::check_id(H5Gopen2(file_, "mask", H5P_DEFAULT), path_)));
      refuse("data.filter_key", path_, "found no /" + path, "allowed: \"\" or one of: " + list_of(keys));
    }
    std::vector<std::string> chosen = hdf5::read_texts(hdf5::open_dataset(file_, path), path_ + ": /" + path);
    for (const std::string& name : chosen)
      if (!std::binary_search(all.begin(), all.end(), name, by_number()))
        refuse("data.filter_key", path_, "/" + path + " names '" + name + "', which is not in /data",
               "allowed: names of demonstrations");
    if (chosen.empty())
      refuse("data.filter_key", path_, "/" + path + " has no demonstrations",
             "allowed: a list of at least one");
    std::sort(chosen.begin(), chosen.end(), by_number());
    return chosen;
  }

  // The observations of the deck's task, in its order, where a demonstration has them all.
  std::vector<std::string> of_task(const std::string& demonstration) const {
    const std::vector<std::string> there = keys(demonstration), wanted = observation_keys(config_.task);
    const bool all = std::all_of(wanted.begin(), wanted.end(), [&](const std::string& key) {
      return std::find(there.begin(), there.end(), key) != there.end();
    });
    return all ? wanted : std::vector<std::string>();
  }
  // Keys of the first demonstration's observations that hold vectors.
  std::vector<std::string> vectors(const std::string& demonstration) const {
    std::vector<std::string> found;
    for (const std::string& key : keys(demonstration)) {
      const std::string path = observation(demonstration, key);
      if (is_dataset(path) && hdf5::shape_of(hdf5::open_dataset(file_, path)).size() <= 2)
        found.push_back(key);
    }
    return found;
  }
  std::vector<std::string> keys(const std::string& demonstration) const {
    const std::string path = path_of(demonstration) + "/" + layout_.observations;
    if (!hdf5::has_path(file_, path)) return {};
    if (is_dataset(path)) return {layout_.observations};
    return hdf5::names_in(hdf5::Group(hdf5::check_id(H5Gopen2(file_, path.c_str(), H5P_DEFAULT), path_)));
  }

  // Frames and numbers per frame of a dataset.
  std::pair<std::int64_t, int> extents(const std::string& path, const char* key) const {
    const hdf5::Dataset dataset = hdf5::open_dataset(file_, path);
    const std::string type = hdf5::type_of(dataset);
    const hdf5::Shape shape = hdf5::shape_of(dataset);
    if (type == "string" || type == "other" || shape.empty() || shape.size() > 2)
      refuse(key, path_, "/" + path + " is " + type + " " + hdf5::shape_text(shape),
             "allowed: numbers, [frame] or [frame, size]");
    const hsize_t width = shape.size() == 1 ? 1 : shape[1];
    if (width == 0 || width > 1000000)
      refuse(key, path_, "/" + path + " has the shape " + hdf5::shape_text(shape), "allowed: [frame, size]");
    return {static_cast<std::int64_t>(shape[0]), static_cast<int>(width)};
  }

  bool is_dataset(const std::string& path) const {
    const hdf5::Object object(hdf5::check_id(H5Oopen(file_, path.c_str(), H5P_DEFAULT), path_));
    return H5Iget_type(object) == H5I_DATASET;
  }

  [[noreturn]] void refuse(const std::string& key, const std::string& path, const std::string& found,
                           const std::string& allowed) const {
    throw InputError(config_.where_of(key), key + ": " + path, found, allowed);
  }

 private:
  const DemonstrationLayout& find_layout() const {
    std::string tried;
    for (const DemonstrationLayout& layout : kLayouts) {
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
    const hdf5::Group root(hdf5::check_id(H5Gopen2(file_, "/", H5P_DEFAULT), path_));
    refuse(kKey, path_, "found neither layout; at its root are: " + list_of(hdf5::names_in(root)), tried);
  }
  std::vector<std::string> names_of(const DemonstrationLayout& layout) const {
    const std::string path = *layout.group == '\0' ? "/" : layout.group;
    return hdf5::names_in(hdf5::Group(hdf5::check_id(H5Gopen2(file_, path.c_str(), H5P_DEFAULT), path_)));
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

// run_isolated() whose errors are about the user's input.
std::string read_isolated(const Config& config, const std::string& path,
                          const std::function<std::string()>& work) {
  try {
    return run_isolated(path, work);
  } catch (const InputError&) {
    throw;
  } catch (const Error& error) {
    throw InputError(config.where_of(kKey), std::string(kKey) + ": " + path, "cannot be read as HDF5",
                     reason_of(error, path));
  }
}

// The child's answer about one file, a line each: layout; number of keys, then names and widths; width of
// actions; then for each demonstration name and frames.
std::string describe_file(const Config& config, const std::string& path,
                          const std::vector<std::string>& wanted) {
  const OpenFile file(config, path);
  const DemonstrationLayout& layout = file.layout();
  const std::vector<std::string> names = file.demonstrations();
  std::vector<std::string> keys = wanted;
  if (keys.empty()) keys = file.of_task(names.front());
  if (keys.empty()) keys = file.vectors(names.front());
  if (keys.empty())
    file.refuse("data.observations", path, "found no observations that are vectors",
                "there are: " + list_of(file.keys(names.front())));
  std::vector<int> widths(keys.size() + 1, 0);  // the last: of actions
  std::string demonstrations;
  for (const std::string& name : names) {
    const std::string root = file.path_of(name), actions = root + "/actions";
    if (!hdf5::has_path(file.id(), actions) || !file.is_dataset(actions))
      file.refuse(kKey, path, "found no dataset /" + actions, "allowed: actions [frame, size]");
    const auto [frames, action_width] = file.extents(actions, kKey);
    if (frames < 1) file.refuse(kKey, path, "/" + actions + " has no frames", "allowed: at least one");
    const hdf5::Object group(hdf5::check_id(H5Oopen(file.id(), root.c_str(), H5P_DEFAULT), path));
    if (hdf5::has_attribute(group, layout.length)) {
      const std::int64_t said = hdf5::read_integer_attribute(group, layout.length);
      if (said != frames)
        file.refuse(kKey, path, fmt::format("/{} has {} frames", actions, frames),
                    fmt::format("its attribute {} says {}", layout.length, said));
    }
    const auto check_width = [&](int& width, int found, const std::string& what) {
      if (width == 0) width = found;
      if (width != found)
        file.refuse(kKey, path, fmt::format("/{} has {} numbers per frame", what, found),
                    fmt::format("that of {} has {}", names.front(), width));
    };
    check_width(widths.back(), action_width, actions);
    for (std::size_t k = 0; k < keys.size(); ++k) {
      const std::string observation = file.observation(name, keys[k]);
      if (!hdf5::has_path(file.id(), observation) || !file.is_dataset(observation))
        file.refuse("data.observations", path, "found no /" + observation,
                    "there are: " + list_of(file.keys(name)));
      const auto [rows, width] = file.extents(observation, "data.observations");
      const std::int64_t expected = frames + (layout.final_observation ? 1 : 0);
      if (rows != expected)
        file.refuse(kKey, path, fmt::format("/{} has {} frames", observation, rows),
                    fmt::format("/{} has {}: allowed is {}", actions, frames, expected));
      check_width(widths[k], width, observation);
    }
    demonstrations += fmt::format("{} {}\n", name, frames);
  }
  std::string text = fmt::format("{}\n{}\n", layout.name, keys.size());
  for (std::size_t k = 0; k < keys.size(); ++k) text += fmt::format("{}\n{}\n", keys[k], widths[k]);
  return text + fmt::format("{}\n{}\n{}", widths.back(), names.size(), demonstrations);
}

}  // namespace

DemonstrationContents look_at_demonstrations(const Config& config) {
  DemonstrationContents all;
  std::vector<std::string> wanted = config.data.observations;
  for (std::size_t f = 0; f < config.data.file.size(); ++f) {
    const std::string& path = config.data.file[f];
    std::istringstream text(read_isolated(config, path, [&] { return describe_file(config, path, wanted); }));
    std::string line;
    const auto next = [&] {
      std::getline(text, line);
      return line;
    };
    all.layouts.push_back(next());
    const std::size_t keys = std::stoul(next());
    std::vector<DemonstrationContents::Key> observations;
    int width = 0;
    for (std::size_t k = 0; k < keys; ++k) {
      const std::string name = next();
      observations.push_back({name, width, std::stoi(next())});
      width += observations.back().width;
    }
    const int actions = std::stoi(next());
    if (f == 0) {
      all.observations = observations;
      all.observation_width = width;
      all.action_width = actions;
      for (const auto& key : observations)
        if (config.data.observations.empty()) wanted.push_back(key.name);
    }
    const auto refuse = [&](const std::string& what, int found, int first) {
      throw InputError(config.where_of(kKey), std::string(kKey) + ": " + path,
                       fmt::format("{} of {} numbers", what, found),
                       fmt::format("those of {} have {}", config.data.file[0], first));
    };
    for (std::size_t k = 0; k < keys; ++k)
      if (observations[k].width != all.observations[k].width)
        refuse("observations " + observations[k].name, observations[k].width, all.observations[k].width);
    if (actions != all.action_width) refuse("actions", actions, all.action_width);
    for (std::size_t count = std::stoul(next()); count > 0; --count) {
      Demonstration demonstration;
      demonstration.file = static_cast<int>(f);
      demonstration.first = all.frames;
      text >> demonstration.name >> demonstration.frames;
      all.frames += demonstration.frames;
      all.demonstrations.push_back(std::move(demonstration));
    }
  }
  for (const std::string& key : config.data.not_normalized)
    if (std::none_of(all.observations.begin(), all.observations.end(),
                     [&](const auto& row) { return row.name == key; }))
      throw InputError(config.where_of("data.not_normalized"), "data.not_normalized", "found '" + key + "'",
                       "allowed: keys of the observations");
  for (const int component : config.data.actions_not_normalized)
    if (component >= all.action_width)
      throw InputError(config.where_of("data.actions_not_normalized"), "data.actions_not_normalized",
                       fmt::format("found {}", component),
                       fmt::format("allowed: components of the action, 0 to {}", all.action_width - 1));
  return all;
}

Demonstrations::Demonstrations(const Config& config, DemonstrationContents contents)
    : contents_(std::move(contents)), memory_(std::make_unique<SharedMemory>(contents_.bytes())) {
  const int width = contents_.row_width();
  auto* const rows = static_cast<float*>(memory_->data());
  for (std::size_t f = 0; f < config.data.file.size(); ++f) {
    const std::string& path = config.data.file[f];
    read_isolated(config, path, [&] {
      const OpenFile file(config, path);
      std::vector<float> values;
      for (const Demonstration& demonstration : contents_.demonstrations) {
        if (demonstration.file != static_cast<int>(f)) continue;
        const auto read = [&](const std::string& dataset, int first, int size) {
          const hdf5::Dataset opened = hdf5::open_dataset(file.id(), dataset);
          const auto frames = static_cast<hsize_t>(demonstration.frames);
          hdf5::Shape origin{0}, count{frames};
          if (hdf5::shape_of(opened).size() == 2) {
            origin.push_back(0);
            count.push_back(static_cast<hsize_t>(size));
          }
          values.resize(static_cast<std::size_t>(demonstration.frames * size));
          hdf5::read_box(opened, H5T_NATIVE_FLOAT, origin, count, values.data(), path + ": /" + dataset);
          for (std::int64_t frame = 0; frame < demonstration.frames; ++frame)
            for (int i = 0; i < size; ++i) {
              const float value = values[static_cast<std::size_t>(frame * size + i)];
              if (!std::isfinite(value))
                file.refuse(kKey, path,
                            fmt::format("/{} has {} in frame {}", dataset,
                                        std::isnan(value) ? "NaN" : "infinity", frame),
                            "allowed: finite numbers");
              if (first == contents_.observation_width && std::abs(value) > 1.0f + 1e-6f &&
                  config.data.normalize_actions == DataNormalizer::none)
                file.refuse(kKey, path, fmt::format("/{} has {} in frame {}", dataset, value, frame),
                            "allowed: [-1, 1], or data.normalize_actions: min_max | mean_std");
              rows[(demonstration.first + frame) * width + first + i] = value;
            }
        };
        for (const DemonstrationContents::Key& key : contents_.observations)
          read(file.observation(demonstration.name, key.name), key.first, key.width);
        read(file.path_of(demonstration.name) + "/actions", contents_.observation_width,
             contents_.action_width);
      }
      return std::string();
    });
  }
  Fnv shape;
  for (const Demonstration& demonstration : contents_.demonstrations)
    shape.add(&demonstration.frames, sizeof demonstration.frames);
  for (const DemonstrationContents::Key& key : contents_.observations) {
    shape.add(key.name.data(), key.name.size());
    shape.add(&key.width, sizeof key.width);
  }
  const std::uint64_t sum =
      words_checksum(rows, contents_.bytes(), 0) + std::stoull(shape.text(), nullptr, 16);
  checksum_ = static_cast<std::int64_t>(sum);
}

}  // namespace maniple
