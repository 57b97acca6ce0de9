// One pass over the objects of a file, which are gathered by key over all episodes. Nothing is refused here:
// a file that `imitate` would not take can be looked at.
#include "src/io/demonstration_overview.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>

#include "src/base/counted.hpp"
#include "src/base/error.hpp"
#include "src/config/document.hpp"
#include "src/io/demonstration_layout.hpp"
#include "src/io/hdf5.hpp"
#include "src/io/isolated.hpp"

namespace maniple {
namespace {

constexpr std::size_t kMostKeys = 40;        // that have a line each
constexpr std::size_t kMostComponents = 12;  // of an action, that have a range each
constexpr std::size_t kPieceNumbers = std::size_t{1} << 20;

// The least, the largest and the mean of numbers; those that are not finite are only counted.
struct NumberRange {
  double low = std::numeric_limits<double>::infinity(), high = -low, sum = 0;
  std::int64_t count = 0, not_finite = 0;

  void add(double value) {
    if (!std::isfinite(value)) {
      ++not_finite;
      return;
    }
    low = std::min(low, value);
    high = std::max(high, value);
    sum += value;
    ++count;
  }
  std::string text() const { return count == 0 ? "" : fmt::format("{:.4g} to {:.4g}", low, high); }
  std::string with_mean() const {
    return fmt::format("min {:.4g}, mean {:.4g}, max {:.4g}", low, sum / static_cast<double>(count), high);
  }
};

// A dataset that episodes have under the same name.
struct KeyFacts {
  std::string type;
  std::vector<std::int64_t> frame;  // shape of a frame, of the first episode
  bool varies = false;              // types or shapes of frames differ
  std::int64_t episodes = 0;
  NumberRange all;
  std::vector<NumberRange> components;  // of actions

  bool images() const { return type == "uint8" && frame.size() == 3; }
  std::string shape() const {
    if (images())
      return fmt::format("images of {} x {}, {}", frame[0], frame[1], counted(frame[2], "channel"));
    return frame.empty() ? "number" : fmt::format("[{}]", fmt::join(frame, ", "));
  }
};

struct EpisodeFacts {
  std::int64_t samples = -1;  // of its actions; -1: none
  std::int64_t said = -1;     // by its attribute
  double reward_sum = 0;
  bool has_rewards = false, terminated = false, truncated = false, has_ends = false;
  bool success = false, says_success = false;
};

// A path in the file, as episode and the path below it.
struct EpisodePlace {
  std::string episode, key;
};

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

// Nothing where a path is not in an episode.
std::optional<EpisodePlace> place_of(const DemonstrationLayout& layout, const std::string& path) {
  std::string rest = path.substr(1);
  if (*layout.prefix == '\0') return rest.empty() ? std::nullopt : std::optional<EpisodePlace>({"", rest});
  const std::string group = *layout.group == '\0' ? "" : std::string(layout.group) + "/";
  if (!rest.starts_with(group + layout.prefix)) return std::nullopt;
  rest = rest.substr(group.size());
  const std::string episode = rest.substr(0, rest.find('/'));
  if (!is_number(episode.substr(std::string(layout.prefix).size()))) return std::nullopt;
  return EpisodePlace{episode, episode.size() < rest.size() ? rest.substr(episode.size() + 1) : ""};
}

const DemonstrationLayout* layout_among(const std::vector<ObjectSummary>& objects) {
  const auto has = [&](const std::string& path) {
    return std::any_of(objects.begin(), objects.end(),
                       [&](const ObjectSummary& object) { return object.path == path; });
  };
  for (const DemonstrationLayout* layout : {&kRobomimicLayout, &kMinariLayout})
    for (const ObjectSummary& object : objects)
      if (const auto place = place_of(*layout, object.path); place && !object.is_dataset) return layout;
  const DemonstrationLayout& droid = kDroidLayout;
  return has(std::string("/") + droid.actions) && has(std::string("/") + droid.observations) ? &droid
                                                                                             : nullptr;
}

DeckValue text_value(const std::string& text) {
  DeckValue value;
  value.kind = DeckValue::Kind::scalar;
  value.text = text;
  return value;
}

// A text of JSON as a deck has it, nothing where it is none. (JSON is YAML.)
DeckValue json_value(const std::string& text) {
  DeckValue root;
  root.kind = DeckValue::Kind::map;
  try {
    apply_override(root, "json=" + text);
  } catch (const InputError&) {
    return {};
  }
  const DeckValue* const found = root.find("json");
  return found && found->kind == DeckValue::Kind::map ? *found : DeckValue();
}

// "name value, name value" of the members that are there and are texts or numbers.
std::string members_text(const DeckValue& value, const std::vector<const char*>& names) {
  std::vector<std::string> said;
  for (const char* const name : names)
    if (const DeckValue* const member = value.find(name);
        member && member->kind == DeckValue::Kind::scalar && !member->text.empty())
      said.push_back(fmt::format("{} {}", name, member->text));
  return fmt::format("{}", fmt::join(said, ", "));
}

// robomimic says it in an attribute of /data, Minari in attributes of the file and a file beside it.
std::string origin_of(const std::string& path, const DemonstrationLayout& layout,
                      const std::vector<ObjectSummary>& objects) {
  DeckValue said;
  if (layout.name == std::string(kMinariLayout.name)) {
    std::ifstream file(std::filesystem::path(path).parent_path() / "metadata.json");
    std::ostringstream text;
    text << file.rdbuf();
    if (!text.str().empty()) said = json_value(text.str());
  }
  const std::string group = std::string("/") + layout.group;
  for (const ObjectSummary& object : objects) {
    if (object.path != group) continue;
    for (const auto& [name, value] : object.attributes) {
      if (name == "env_args")
        if (const std::string env = members_text(json_value(value), {"env_name", "env_version"});
            !env.empty())
          return env;
      if (said.kind != DeckValue::Kind::map) said.kind = DeckValue::Kind::map;
      if (!said.find(name)) said.map.push_back({name, {}, {text_value(value)}});
    }
  }
  std::string origin = members_text(said, {"dataset_id", "algorithm_name", "author", "description"});
  if (const DeckValue* const spec = said.find("env_spec"))
    if (const std::string id = members_text(json_value(spec->text), {"id"}); !id.empty())
      origin += (origin.empty() ? "environment " : ", environment ") + id.substr(3);
  return origin;
}

// All numbers of a dataset of at least one dimension, in pieces of some frames.
template <class Use>
void read_numbers(hid_t dataset, const hdf5::Shape& shape, const std::string& what, const Use& use) {
  std::size_t frame = 1;
  for (std::size_t d = 1; d < shape.size(); ++d) frame *= shape[d];
  hdf5::Shape first(shape.size(), 0), count(shape);
  std::vector<double> values;
  const hsize_t step = std::max<hsize_t>(1, kPieceNumbers / std::max<std::size_t>(1, frame));
  for (first[0] = 0; first[0] < shape[0]; first[0] += step) {
    count[0] = std::min<hsize_t>(step, shape[0] - first[0]);
    values.resize(count[0] * frame);
    hdf5::read_box(dataset, H5T_NATIVE_DOUBLE, first, count, values.data(), what);
    for (std::size_t i = 0; i < values.size(); ++i) use(values[i], i % frame);
    note_reading();
  }
}

class Overview {
 public:
  Overview(const std::string& path, const DemonstrationLayout& layout,
           const std::vector<ObjectSummary>& objects)
      : path_(path), layout_(layout), file_(hdf5::open_file(path, false)) {
    for (const ObjectSummary& object : objects)
      if (const auto place = place_of(layout, object.path))
        add(object, *place);
      else if (object.is_dataset && object.path.starts_with("/mask/") && object.shape.size() == 1)
        masks_.emplace_back(object.path.substr(6), object.shape[0]);
    origin_ = origin_of(path, layout, objects);
  }

  std::string text() const {
    std::string out =
        line("layout", fmt::format("{}{}", layout_.name, origin_.empty() ? "" : ": " + origin_));
    NumberRange lengths, returns;
    std::int64_t samples = 0, without_actions = 0, terminated = 0, truncated = 0, with_ends = 0, success = 0,
                 with_success = 0, otherwise = 0;
    for (const auto& [name, episode] : episodes_) {
      const std::int64_t length = episode.samples >= 0 ? episode.samples : episode.said;
      without_actions += episode.samples < 0;
      otherwise += episode.samples >= 0 && episode.said >= 0 && episode.samples != episode.said;
      samples += std::max<std::int64_t>(0, length);
      if (length >= 0) lengths.add(static_cast<double>(length));
      if (episode.has_rewards) returns.add(episode.reward_sum);
      terminated += episode.terminated;
      truncated += episode.truncated;
      with_ends += episode.has_ends;
      success += episode.success;
      with_success += episode.says_success;
    }
    const auto total = static_cast<std::int64_t>(episodes_.size());
    out += line("episodes", fmt::format("{}, {}", total, counted(samples, "sample")));
    if (lengths.count > 0) out += line("lengths", lengths.with_mean() + " samples");
    if (without_actions > 0) out += line("no actions", counted(without_actions, "episode"));
    if (otherwise > 0)
      out += line("unlike " + std::string(layout_.length),
                  counted(otherwise, "episode") + " with another number of actions");
    if (returns.count > 0) out += line("returns", returns.with_mean());
    if (with_ends > 0)
      out += line("ends", fmt::format("{} terminated, {} truncated, {} neither", terminated, truncated,
                                      with_ends - std::min(with_ends, terminated + truncated)));
    const auto mask =
        std::find_if(masks_.begin(), masks_.end(), [](const auto& m) { return m.first == "success"; });
    if (mask != masks_.end())
      out += success_line(mask->second, total, "/mask/success");
    else if (with_success > 0)
      out += success_line(success, with_success, "infos/success");
    if (!masks_.empty()) {
      std::vector<std::string> said;
      for (const auto& [name, count] : masks_) said.push_back(fmt::format("{} {}", name, count));
      out += line("masks", fmt::format("{}", fmt::join(said, ", ")));
    }
    return out + keys_text(total);
  }

 private:
  static std::string line(const std::string& name, const std::string& text) {
    return fmt::format("{:<14} {}\n", name, text);
  }
  static std::string success_line(std::int64_t successes, std::int64_t of, const std::string& where) {
    return line("success",
                fmt::format("{} of {} episodes, {:.1f} % ({})", successes, of,
                            100.0 * static_cast<double>(successes) / static_cast<double>(of), where));
  }

  void add(const ObjectSummary& object, const EpisodePlace& place) {
    EpisodeFacts& episode = episodes_[place.episode];
    if (!object.is_dataset) {
      if (place.key.empty())
        for (const auto& [name, value] : object.attributes)
          if (name == layout_.length && is_number(value)) episode.said = std::stoll(value);
      return;
    }
    const auto [entry, is_new] = keys_.try_emplace(place.key);
    KeyFacts& key = entry->second;
    const bool has_frames = !object.shape.empty();
    const std::vector<std::int64_t> frame(object.shape.begin() + (has_frames ? 1 : 0), object.shape.end());
    if (is_new) {
      key.type = object.type;
      key.frame = frame;
    }
    key.varies = key.varies || key.type != object.type || key.frame != frame;
    ++key.episodes;
    const std::string actions = *layout_.actions == '\0' ? "actions" : layout_.actions;
    const bool is_action = place.key == actions || place.key.starts_with(actions + "/");
    if (is_action && has_frames)
      episode.samples = episode.samples < 0 ? object.shape[0] : std::min(episode.samples, object.shape[0]);
    if (!has_frames || key.type == "string" || key.type == "other" || key.images() || key.varies) return;

    const bool rewards = place.key == "rewards", success = place.key == "infos/success",
               terminations = place.key == "terminations", truncations = place.key == "truncations";
    const std::size_t width = key.frame.size() == 1 ? static_cast<std::size_t>(key.frame[0]) : 1;
    if (is_action && width > 1 && width <= kMostComponents) key.components.resize(width);
    episode.has_rewards |= rewards;
    episode.says_success |= success;
    episode.has_ends |= terminations || truncations;
    const hdf5::Dataset dataset = hdf5::open_dataset(file_, object.path);
    read_numbers(dataset, hdf5::shape_of(dataset), path_ + ": " + object.path,
                 [&](double value, std::size_t component) {
                   key.all.add(value);
                   if (!key.components.empty()) key.components[component].add(value);
                   if (rewards) episode.reward_sum += value;
                   episode.success |= success && value > 0;
                   episode.terminated |= terminations && value > 0;
                   episode.truncated |= truncations && value > 0;
                 });
  }

  // "next_obs/..." repeats "obs/...", a sample later.
  bool repeats(const std::string& name) const {
    return name.starts_with("next_") && keys_.contains(name.substr(5));
  }
  std::string keys_text(std::int64_t total) const {
    std::string out;
    std::size_t width = 14, shown = 0, repeated = 0;
    for (const auto& [name, key] : keys_)
      if (!repeats(name)) width = std::max(width, std::min<std::size_t>(40, name.size()));
    for (const auto& [name, key] : keys_) {
      if (repeats(name)) {
        ++repeated;
        continue;
      }
      if (++shown > kMostKeys) continue;
      std::string said =
          fmt::format("{:<{}} {:<8} {:<8} {}", name, width, key.type, key.shape(), key.all.text());
      if (key.varies) said += "  types or shapes differ among episodes";
      if (key.episodes < total) said += fmt::format("  in {}", counted(key.episodes, "episode"));
      if (key.all.not_finite > 0)
        said += fmt::format("  {} not finite", counted(key.all.not_finite, "number"));
      said.erase(said.find_last_not_of(' ') + 1);
      out += said + "\n";
      if (key.components.empty()) continue;
      std::vector<std::string> ranges;
      for (const NumberRange& component : key.components) ranges.push_back(component.text());
      out += fmt::format("{:<{}} each of them: {}\n", "", width, fmt::join(ranges, ", "));
    }
    if (shown > kMostKeys) out += fmt::format("and {}\n", counted(shown - kMostKeys, "other key"));
    if (repeated > 0)
      out += fmt::format("and {} of next_{}, as {} a sample later\n", counted(repeated, "key"),
                         layout_.observations, layout_.observations);
    return out;
  }

  const std::string& path_;
  const DemonstrationLayout& layout_;
  const hdf5::File file_;
  std::string origin_;
  std::map<std::string, EpisodeFacts> episodes_;
  std::map<std::string, KeyFacts> keys_;
  std::vector<std::pair<std::string, std::int64_t>> masks_;  // names and how many episodes each has
};

}  // namespace

std::optional<std::string> demonstration_overview(const std::string& path,
                                                  const std::vector<ObjectSummary>& objects) {
  const DemonstrationLayout* const layout = layout_among(objects);
  if (!layout) return std::nullopt;
  return Overview(path, *layout, objects).text();
}

}  // namespace maniple
