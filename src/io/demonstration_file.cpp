#include "src/io/demonstration_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "src/base/counted.hpp"
#include "src/base/error.hpp"
#include "src/io/isolated.hpp"

namespace maniple {
namespace {

constexpr DemonstrationLayout kLayouts[] = {kRobomimicLayout, kMinariLayout, kDroidLayout};

// The number at the end of a demonstration's name; -1: it has another form.
std::int64_t number_of(const std::string& name, const std::string& prefix) {
  std::int64_t number = -1;
  if (name.rfind(prefix, 0) != 0 || name.size() == prefix.size()) return -1;
  const auto parsed = std::from_chars(name.data() + prefix.size(), name.data() + name.size(), number);
  return parsed.ec == std::errc() && parsed.ptr == name.data() + name.size() ? number : -1;
}

// Of the types that hdf5::type_of() names; what is true or false is 1 or 0.
bool reads_as_number(const std::string& type) {
  return type != "string" && type != "other";
}

}  // namespace

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

DemonstrationFile::DemonstrationFile(const Config& config, const std::string& path)
    : config_(config), path_(path), file_(hdf5::open_file(path, false)), layout_(find_layout()) {}

const DemonstrationLayout& DemonstrationFile::find_layout() const {
  std::string tried;
  for (const DemonstrationLayout& layout : kLayouts) {
    if (*layout.prefix == '\0') {
      if (hdf5::has_path(file_, layout.actions) && hdf5::has_path(file_, layout.observations)) return layout;
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
  refuse(kKey, "found none of the layouts; at its root are: " + list_of(names_below("/")),
         tried + "; tools/datasets.py convert writes robomimic's layout from others");
}

std::string DemonstrationFile::path_of(const std::string& demonstration, const std::string& below) const {
  std::string path = layout_.group;
  for (const std::string& part : {demonstration, below})
    if (!part.empty()) path += (path.empty() ? "" : "/") + part;
  return path;
}

std::vector<std::string> DemonstrationFile::actions(const std::string& demonstration) const {
  const std::vector<std::string>& keys = config_.data.actions;
  const bool has_group = *layout_.actions != '\0';
  if (has_group && keys.empty())
    refuse("data.actions", "found none with DROID's layout",
           "allowed: datasets below /" + path_of(demonstration, layout_.actions) + ": " +
               list_of(names_below(path_of(demonstration, layout_.actions))));
  std::vector<std::string> paths;
  if (keys.empty()) paths.push_back(path_of(demonstration, "actions"));
  for (const std::string& key : keys)
    paths.push_back(path_of(demonstration, has_group ? layout_.actions + ("/" + key) : key));
  return paths;
}

std::string DemonstrationFile::observation(const std::string& demonstration, const std::string& key) const {
  const std::string whole = path_of(demonstration, layout_.observations);
  return key == layout_.observations && hdf5::has_path(file_, whole) && is_dataset(whole) ? whole
                                                                                          : whole + "/" + key;
}

std::vector<std::string> DemonstrationFile::names_below(const std::string& path) const {
  return hdf5::names_in(
      hdf5::Group(hdf5::check_id(H5Gopen2(file_, path.c_str(), H5P_DEFAULT), path_ + ": /" + path)));
}

std::vector<std::string> DemonstrationFile::names_of(const DemonstrationLayout& layout) const {
  return names_below(*layout.group == '\0' ? "/" : layout.group);
}

std::function<bool(const std::string&, const std::string&)> DemonstrationFile::by_number() const {
  return [prefix = std::string(layout_.prefix)](const std::string& a, const std::string& b) {
    return number_of(a, prefix) < number_of(b, prefix);
  };
}

std::vector<std::string> DemonstrationFile::numbered() const {
  std::vector<std::string> names = names_of(layout_);
  if (*layout_.group == '\0')
    std::erase_if(names, [&](const std::string& name) { return number_of(name, layout_.prefix) < 0; });
  for (const std::string& name : names)
    if (number_of(name, layout_.prefix) < 0)
      refuse(kKey, fmt::format("found /{}", path_of(name)),
             fmt::format("allowed: demonstrations that are called {}<number>", layout_.prefix));
  std::sort(names.begin(), names.end(), by_number());
  const auto twice =
      std::adjacent_find(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
        return number_of(a, layout_.prefix) == number_of(b, layout_.prefix);
      });
  if (twice != names.end())
    refuse(kKey, fmt::format("found /{} and /{}", path_of(*twice), path_of(*(twice + 1))),
           "allowed: demonstrations with numbers of their own");
  return names;
}

std::vector<std::string> DemonstrationFile::filtered(const char* key, const std::string& filter,
                                                     const std::vector<std::string>& all) const {
  if (filter.empty()) return all;
  if (*layout_.group == '\0')
    refuse(key, fmt::format("found '{}' with the layout of {}", filter, layout_.name),
           "allowed: \"\"; filter keys are robomimic's /mask");
  const std::string path = "mask/" + filter;
  if (!hdf5::has_path(file_, path)) {
    std::vector<std::string> keys;
    if (hdf5::has_path(file_, "mask")) keys = names_below("mask");
    refuse(key, "found no /" + path,
           keys.empty() ? "the file has no lists of demonstrations below /mask; tools/datasets.py split "
                          "--mask makes them"
                        : "allowed: \"\" or one of: " + list_of(keys));
  }
  const auto refuse_list = [&](const std::string& found) {
    refuse(key, "/" + path + " is " + found, "allowed: a list of texts, names of demonstrations");
  };
  if (!is_dataset(path)) refuse_list("no dataset");
  if (const hdf5::Dataset list = hdf5::open_dataset(file_, path);
      hdf5::type_of(list) != "string" || hdf5::shape_of(list).size() != 1)
    refuse_list(hdf5::type_of(list) + " " + hdf5::shape_text(hdf5::shape_of(list)));
  std::vector<std::string> chosen = hdf5::read_texts(hdf5::open_dataset(file_, path), path_ + ": /" + path);
  for (const std::string& name : chosen) {
    const auto place = std::lower_bound(all.begin(), all.end(), name, by_number());
    if (place == all.end() || *place != name)  // (demo_00 has the number of demo_0)
      refuse(key, "/" + path + " names '" + name + "', which is not in /data",
             "allowed: demonstrations that are there: " + list_of(all));
  }
  if (chosen.empty()) refuse(key, "/" + path + " has no demonstrations", "allowed: a list of at least one");
  std::sort(chosen.begin(), chosen.end(), by_number());
  return chosen;
}

DemonstrationFile::Division DemonstrationFile::demonstrations() const {
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
    refuse("data.validation_filter",
           fmt::format("/mask/{} and /mask/{} have {} in common", held_out, filter,
                       counted(common, "demonstration")),
           "allowed: demonstrations that are not in data.filter_key");
  std::erase_if(names.learned, is_held_out);
  if (names.learned.empty())
    refuse("data.validation_filter", fmt::format("/mask/{} has all demonstrations, {}", held_out, all.size()),
           "allowed: a list that leaves some for training");
  names.unused = all.size() - names.learned.size() - names.held_out.size();
  return names;
}

std::vector<std::string> DemonstrationFile::keys(const std::string& demonstration) const {
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

std::vector<std::string> DemonstrationFile::of_task(const std::string& demonstration) const {
  const std::vector<std::string> there = keys(demonstration), wanted = observation_keys(config_.task);
  const bool all = std::all_of(wanted.begin(), wanted.end(), [&](const std::string& key) {
    return std::find(there.begin(), there.end(), key) != there.end();
  });
  return all ? wanted : std::vector<std::string>();
}

std::vector<std::string> DemonstrationFile::vectors(const std::string& demonstration) const {
  std::vector<std::string> found;
  if (*layout_.prefix == '\0')
    refuse("data.observations", "found none with DROID's layout",
           "allowed: datasets below /" + path_of(demonstration, layout_.observations) + ": " +
               list_of(keys(demonstration)));
  for (const std::string& key : keys(demonstration)) {
    const std::string path = observation(demonstration, key);
    const hdf5::Dataset dataset = hdf5::open_dataset(file_, path);
    const std::string type = hdf5::type_of(dataset);
    if (reads_as_number(type) && type != "bool" && hdf5::shape_of(dataset).size() <= 2) found.push_back(key);
  }
  return found;
}

std::vector<std::string> DemonstrationFile::others(const std::string& demonstration,
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

std::pair<std::int64_t, std::vector<int>> DemonstrationFile::extents(const std::string& path, const char* key,
                                                                     bool images) const {
  const hdf5::Dataset dataset = hdf5::open_dataset(file_, path);
  const std::string type = hdf5::type_of(dataset);
  const hdf5::Shape shape = hdf5::shape_of(dataset);
  const bool many = images && shape.size() > 2;
  const bool fits = many ? type == "uint8" && shape.size() == 4 : !shape.empty() && shape.size() <= 2;
  if (!reads_as_number(type) || !fits)
    refuse(key, "/" + path + " is " + type + " " + hdf5::shape_text(shape),
           many ? "allowed: images, uint8 [frame, height, width, channels], or numbers, [frame] or "
                  "[frame, size]"
                : "allowed: numbers, [frame] or [frame, size]");
  constexpr hsize_t most_width = 1000000, most_side = 16384, most_channels = 4;
  const auto within = [&](std::size_t axis, hsize_t most) { return shape[axis] > 0 && shape[axis] <= most; };
  if (many && !(within(1, most_side) && within(2, most_side) && within(3, most_channels)))
    refuse(key, "/" + path + " has the shape " + hdf5::shape_text(shape),
           fmt::format("allowed: [frame, height, width, channels] with at most {} channels", most_channels));
  if (shape.size() == 2 && !within(1, most_width))
    refuse(key, "/" + path + " has the shape " + hdf5::shape_text(shape), "allowed: [frame, size]");
  std::vector<int> frame(shape.begin() + 1, shape.end());
  if (frame.empty()) frame.push_back(1);
  return {static_cast<std::int64_t>(shape[0]), frame};
}

bool DemonstrationFile::is_dataset(const std::string& path) const {
  const hdf5::Object object(hdf5::check_id(H5Oopen(file_, path.c_str(), H5P_DEFAULT), path_ + ": /" + path));
  return H5Iget_type(object) == H5I_DATASET;
}

void DemonstrationFile::refuse(const std::string& key, const std::string& found,
                               const std::string& allowed) const {
  throw InputError(config_.where_of(key), key + ": " + path_, in_a_line(found), in_a_line(allowed));
}

std::vector<std::string> read_demonstration_files(const Config& config, const std::vector<std::string>& paths,
                                                  const std::function<std::string(std::size_t file)>& work) {
  try {
    return run_isolated(paths, work);
  } catch (const InputError&) {
    throw;
  } catch (const MachineFault&) {
    throw;
  } catch (const Error& error) {
    throw InputError(config.where_of(DemonstrationFile::kKey), DemonstrationFile::kKey,
                     std::string("cannot be read as HDF5: ") + error.what(), "");
  }
}

}  // namespace maniple
