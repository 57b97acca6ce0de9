#include "src/io/demonstration_writer.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <functional>
#include <set>

#include "src/base/json.hpp"
#include "src/base/version.hpp"
#include "src/io/commit.hpp"
#include "src/io/demonstration_layout.hpp"
#include "src/io/hdf5.hpp"
#include "src/io/shared_file.hpp"
#include "src/parallel/failure.hpp"
#include "src/parallel/retry.hpp"

namespace maniple {
namespace {

// A data set of Minari's is a directory, which is one as soon as it has this file.
constexpr const char* kMinariName = "demonstrations-v0";
constexpr const char* kMinariMetadata = "metadata.json";
// The oldest version of Minari that knows all of it.
constexpr const char* kMinariVersion = "0.5.0";

const DemonstrationLayout& layout_of(DatasetLayout layout) {
  return layout == DatasetLayout::minari ? kMinariLayout : kRobomimicLayout;
}

// One dataset of a demonstration.
struct Column {
  std::string path;  // below the demonstration
  ElementType type = ElementType::float64;
  bool truth = false;       // h5py's bool
  std::int64_t frames = 0;  // of the file; 0 in width: a vector
  int width = 0;
  // its numbers, packed
  std::function<std::vector<std::byte>(const Episode&)> pack;

  std::size_t bytes() const { return static_cast<std::size_t>(frames * std::max(1, width)) * bytes_of(type); }
};

template <class T>
std::vector<std::byte> bytes_of_vector(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// A flag of the last step, false before it.
template <class T>
std::vector<std::byte> at_the_end(const Episode& episode, bool flag) {
  std::vector<T> values(static_cast<std::size_t>(episode.steps()), T{0});
  values.back() = flag ? T{1} : T{0};
  return bytes_of_vector(values);
}

// All datasets of a demonstration of this many steps.
std::vector<Column> columns_of(const EpisodesFormat& format, std::int64_t steps) {
  const ElementType number = format.double_precision ? ElementType::float64 : ElementType::float32;
  const std::size_t bytes = bytes_of(number);
  std::size_t row = 0;
  for (const auto& [key, size] : format.observations) row += static_cast<std::size_t>(size) * bytes;
  const bool minari = format.layout == DatasetLayout::minari;
  std::vector<Column> columns;
  const auto add_observations = [&](const std::string& group, std::int64_t first, std::int64_t frames) {
    std::size_t place = 0;
    for (const auto& [key, size] : format.observations) {
      const std::size_t piece = static_cast<std::size_t>(size) * bytes;
      columns.push_back({group + "/" + key, number, false, frames, size,
                         [row, piece, place, first, frames](const Episode& episode) {
                           std::vector<std::byte> packed(static_cast<std::size_t>(frames) * piece);
                           for (std::int64_t frame = 0; frame < frames; ++frame)
                             std::memcpy(packed.data() + static_cast<std::size_t>(frame) * piece,
                                         episode.observations.data() +
                                             static_cast<std::size_t>(first + frame) * row + place,
                                         piece);
                           return packed;
                         }});
      place += piece;
    }
  };
  const std::string observations = layout_of(format.layout).observations;
  add_observations(observations, 0, minari ? steps + 1 : steps);
  if (!minari) add_observations("next_" + observations, 1, steps);
  columns.push_back({"actions", number, false, steps, format.actions,
                     [](const Episode& episode) { return episode.actions; }});
  columns.push_back({"rewards", ElementType::float64, false, steps, 0,
                     [](const Episode& episode) { return bytes_of_vector(episode.rewards); }});
  if (minari) {
    columns.push_back({"terminations", ElementType::uint8, true, steps, 0,
                       [](const Episode& e) { return at_the_end<std::uint8_t>(e, e.terminated); }});
    columns.push_back({"truncations", ElementType::uint8, true, steps, 0,
                       [](const Episode& e) { return at_the_end<std::uint8_t>(e, e.truncated); }});
  } else {
    columns.push_back({"dones", ElementType::int64, false, steps, 0,
                       [](const Episode& e) { return at_the_end<std::int64_t>(e, true); }});
  }
  return columns;
}

// Facts about every episode that all ranks know.
struct Plan {
  std::vector<std::int64_t> steps, success;  // by episode
  std::int64_t first = 0;                    // episode of this rank
  std::int64_t total_steps() const {
    std::int64_t sum = 0;
    for (const std::int64_t count : steps) sum += count;
    return sum;
  }
};

// Collective.
Plan agree(const std::vector<Episode>& episodes, Collectives& collectives) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(collectives.size()), 0);
  const auto rank = static_cast<std::size_t>(collectives.rank());
  counts[rank] = static_cast<std::int64_t>(episodes.size());
  collectives.sum(counts.data(), counts.size());
  Plan plan;
  std::int64_t total = 0;
  for (std::size_t r = 0; r < counts.size(); ++r) {
    if (r == rank) plan.first = total;
    total += counts[r];
  }
  plan.steps.assign(static_cast<std::size_t>(total), 0);
  plan.success = plan.steps;
  for (std::size_t i = 0; i < episodes.size(); ++i) {
    const std::size_t place = static_cast<std::size_t>(plan.first) + i;
    plan.steps[place] = episodes[i].steps();
    plan.success[place] = episodes[i].success ? 1 : 0;
  }
  collectives.sum(plan.steps.data(), plan.steps.size());
  collectives.sum(plan.success.data(), plan.success.size());
  return plan;
}

// Gymnasium's Box without bounds, as Minari writes it.
std::string box_json(int size, bool double_precision) {
  const auto list = [size](const char* value) {
    return fmt::format("[{}]",
                       fmt::join(std::vector<std::string>(static_cast<std::size_t>(size), value), ", "));
  };
  return fmt::format(R"({{"type": "Box", "dtype": "{}", "shape": [{}], "low": {}, "high": {}}})",
                     double_precision ? "float64" : "float32", size, list("-Infinity"), list("Infinity"));
}

std::string minari_metadata(const EpisodesFormat& format, const Plan& plan) {
  std::string spaces;
  for (const auto& [key, size] : format.observations)
    spaces += fmt::format("{}{}: {}", spaces.empty() ? "" : ", ", json_text(key),
                          box_json(size, format.double_precision));
  const std::string observations = R"({"type": "Dict", "subspaces": {)" + spaces + "}}";
  return fmt::format(
      "{{\"total_episodes\": {}, \"total_steps\": {}, \"data_format\": \"hdf5\", \"jpeg_encoding\": false, "
      "\"observation_space\": {}, \"action_space\": {}, \"dataset_id\": \"{}\", \"minari_version\": \"{}\", "
      "\"description\": {}}}\n",
      plan.steps.size(), plan.total_steps(), json_text(observations),
      json_text(box_json(format.actions, format.double_precision)), kMinariName, kMinariVersion,
      json_text(fmt::format("{}, written by maniple {}", format.task, kVersion)));
}

// Rank 0: the file with all that is not numbers of episodes. Where those go: [episode][column].
std::vector<std::int64_t> create(const std::string& path, const EpisodesFormat& format, const Plan& plan) {
  const DemonstrationLayout& layout = layout_of(format.layout);
  std::int64_t bytes = 0;
  std::size_t objects = 4;
  for (const std::int64_t steps : plan.steps) {
    const std::vector<Column> columns = columns_of(format, steps);
    for (const Column& column : columns) bytes += static_cast<std::int64_t>(column.bytes() + 8);
    objects += columns.size() + 3;
  }
  hdf5::File file = hdf5::create_plain_file(path, file_bytes(bytes, objects));
  hdf5::Group root(hdf5::check_id(H5Gopen2(file, "/", H5P_DEFAULT), path)), data;
  const bool minari = format.layout == DatasetLayout::minari;
  if (!minari) {
    data = hdf5::create_group(file, layout.group);
    hdf5::write_attribute(data, "total", plan.total_steps());
    // (2: robomimic's EnvType of Gymnasium's interface)
    hdf5::write_attribute(
        data, "env_args",
        fmt::format(R"({{"env_name": {}, "type": 2, "env_version": "maniple {}", "env_kwargs": {{}}}})",
                    json_text(format.task), kVersion));
  }
  std::vector<std::int64_t> addresses;
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const hdf5::Group group = hdf5::create_group(minari ? root : data, fmt::format("{}{}", layout.prefix, i));
    if (minari) hdf5::write_attribute(group, "id", static_cast<std::int64_t>(i));
    hdf5::write_attribute(group, layout.length, plan.steps[i]);
    std::string above;
    for (const Column& column : columns_of(format, plan.steps[i])) {
      if (const std::size_t slash = column.path.find('/');
          slash != std::string::npos && column.path.substr(0, slash) != above) {
        above = column.path.substr(0, slash);
        hdf5::create_group(group, above);
      }
      hdf5::Shape shape{static_cast<hsize_t>(column.frames)};
      if (column.width > 0) shape.push_back(static_cast<hsize_t>(column.width));
      const hdf5::Dataset dataset =
          hdf5::create_plain_dataset(group, column.path, column.type, shape, column.truth);
      addresses.push_back(hdf5::address_of(dataset, path + ": " + column.path));
    }
  }
  if (!minari && format.has_success) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < plan.steps.size(); ++i)
      if (plan.success[i] != 0) names.push_back(fmt::format("{}{}", layout.prefix, i));
    const hdf5::Group mask = hdf5::create_group(file, "mask");
    hdf5::create_texts(mask, "success", names);
  }
  data.reset();
  root.reset();
  hdf5::close(file, path);
  return addresses;
}

}  // namespace

std::vector<std::string> observation_keys(const TaskConfig& task) {
  std::vector<std::string> keys;
  std::set<std::string> taken;
  for (const TermConfig& term : task.observations) {
    std::string key;
    for (const char c : term.name.empty() ? term.term : term.name)
      key += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' ? c : '_';
    while (key.size() > 1 && key.back() == '_') key.pop_back();
    std::string unique = key;
    for (int number = 2; !taken.insert(unique).second; ++number) unique = fmt::format("{}_{}", key, number);
    keys.push_back(unique);
  }
  return keys;
}

std::string dataset_file(DatasetLayout layout, const std::string& directory) {
  if (layout == DatasetLayout::minari) return directory + "/minari/" + kMinariName + "/data/main_data.hdf5";
  return directory + "/demonstrations.hdf5";
}

bool dataset_exists(DatasetLayout layout, const std::string& directory) {
  std::error_code ignored;
  return std::filesystem::exists(dataset_file(layout, directory), ignored);
}

std::string write_episodes(const std::string& directory, const EpisodesFormat& format,
                           const std::vector<Episode>& episodes, Collectives& collectives) {
  const Plan plan = agree(episodes, collectives);
  const std::string path = dataset_file(format.layout, directory);
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const std::string temporary = broadcast_text(collectives, temporary_name(path));
  const bool minari = format.layout == DatasetLayout::minari;
  std::vector<std::int64_t> addresses;
  try {
    // all of it is in memory: another attempt begins again
    retry_together(collectives, "writing " + path, [&] {
      run_on_root(collectives, [&] {
        make_directory(folder);
        remove_abandoned(folder);
        unlink(temporary.c_str());
        addresses = create(temporary, format, plan);
      });
      auto count = static_cast<std::int64_t>(addresses.size());
      collectives.broadcast(&count, sizeof count, 0);
      addresses.resize(static_cast<std::size_t>(count));
      collectives.broadcast(addresses.data(), addresses.size() * sizeof(std::int64_t), 0);
      run_together(collectives, [&] {
        const SharedFile file(temporary, true);
        for (std::size_t i = 0; i < episodes.size(); ++i) {
          const std::vector<Column> columns = columns_of(format, episodes[i].steps());
          for (std::size_t c = 0; c < columns.size(); ++c) {
            const std::vector<std::byte> numbers = columns[c].pack(episodes[i]);
            file.write(numbers.data(), numbers.size(),
                       addresses[(static_cast<std::size_t>(plan.first) + i) * columns.size() + c]);
          }
        }
        file.sync();
      });
      run_on_root(collectives, [&] {
        const std::string metadata = folder + "/" + kMinariMetadata;
        if (minari) unlink(metadata.c_str());  // of a data set that is replaced
        commit_file(temporary, path);
        if (minari) write_text_file(metadata, minari_metadata(format, plan));
      });
    });
  } catch (...) {
    if (collectives.rank() == 0) unlink(temporary.c_str());
    throw;
  }
  return path;
}

}  // namespace maniple
