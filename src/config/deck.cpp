// From located trees to a checked Config: every key meets its row of the schema, presets stand in for
// defaults, and the other files of this folder read terms, resolve paths and compare keys.
#include "src/config/deck.hpp"

#include <algorithm>
#include <filesystem>
#include <set>

#include "src/config/checks.hpp"
#include "src/config/dump.hpp"
#include "src/config/members.hpp"
#include "src/config/paths.hpp"
#include "src/config/presets.hpp"
#include "src/config/schema.hpp"
#include "src/config/task_reader.hpp"
#include "src/config/terrain_schema.hpp"

namespace maniple {
namespace {

using Kind = DeckValue::Kind;

// The names right below a section.
std::string children(const std::string& section) {
  std::string names;
  for (const std::string& path : known_paths())
    if (path.size() > section.size() && path.compare(0, section.size() + 1, section + ".") == 0 &&
        path.find('.', section.size() + 1) == std::string::npos)
      names += (names.empty() ? "" : ", ") + path.substr(section.size() + 1);
  return names;
}

[[noreturn]] void refuse_unknown(const SourceLocation& where, const std::string& path,
                                 const std::vector<std::string>& candidates) {
  const std::string near = nearest(path, candidates);
  std::string allowed = near.empty() ? "" : "nearest known key: " + near + "; ";
  if (path.find('.') != std::string::npos && near == path)
    allowed = "allowed: nested keys, one name on each level; ";
  throw InputError(where, path, "found an unknown key", allowed + "'maniple schema' lists all keys");
}

// Terms that nothing else of a deck needs.
bool stands_alone(const std::string& path) {
  static const std::set<std::string> sections{"task.rewards", "task.observations", "task.critic_observations",
                                              "task.resets",  "task.events",       "task.metrics"};
  return sections.contains(path);
}

// A configuration while it is read, with the keys that could not be.
struct Reading {
  Config& config;
  Mistakes& mistakes;
  const std::vector<std::string> known = known_paths();
  std::set<std::string> failed = {};  // paths

  // Reads what stands at a path.
  template <class Step>
  void at(const std::string& path, const Step& step) {
    const std::size_t count = mistakes.count(), names = failed.size();
    const bool done = mistakes.gather(step);
    // (of a section, the keys in it say more)
    if (!done || (mistakes.count() > count && failed.size() == names)) failed.insert(path);
  }
  // Sections that have not been read as they stand; of a name that no section has, any could be meant.
  std::set<std::string> sections() const {
    std::set<std::string> result;
    for (const std::string& path : failed) {
      if (stands_alone(path)) continue;
      const std::string section = path.substr(0, path.find('.'));
      result.insert(section);
      if (std::find(known.begin(), known.end(), section) != known.end()) continue;
      for (const std::string& any : known) result.insert(any.substr(0, any.find('.')));
    }
    return result;
  }
};

void read_section(Reading& reading, const DeckValue& section, const std::string& prefix);

void read_entry(Reading& reading, const DeckEntry& entry, const std::string& path) {
  Config& config = reading.config;
  const std::vector<std::string>& known = reading.known;
  const auto refuse_key = [&] {  // (the nearest of all keys takes a while)
    refuse_unknown(entry.where, path, reading.mistakes.are_many() ? std::vector<std::string>{} : known);
  };
  const DeckValue& value = entry.value[0];
  // a name with dots is no path here: 'a.b: 1' would not merge with 'a: {b: 1}'
  if (entry.key.find('.') != std::string::npos) refuse_key();
  if (const Key* const key = key_named(path)) {
    if (value.kind == Kind::null) return;
    assign(key->target(config), key->allowed, path, value);
    config.where[path] = value.where;
    return;
  }
  if (path == "task.definitions") {
    for (const auto& [name, expression] : read_expressions(value, path, reading.mistakes)) {
      config.task.definitions[name] = expression.text;
      config.task.where_definitions[name] = expression.where;
    }
    return;
  }
  if (path == "learning.curricula") {
    for (const auto& [name, expression] : read_expressions(value, path, reading.mistakes)) {
      config.learning.curricula[name] = expression.text;
      config.where[path + "." + name] = expression.where;
    }
    return;
  }
  if (path == "terrain.sub_terrains") {
    config.model.terrain.sub_terrains = read_sub_terrains(value, reading.mistakes);
    config.model.terrain.where = entry.where;
    config.where[path] = entry.where;
    return;
  }
  const auto terms = std::find_if(section_schema().begin(), section_schema().end(),
                                  [&](const SectionKey& row) { return path == "task." + row.name; });
  if (terms != section_schema().end()) {
    config.task.*(terms->terms) = read_terms(*terms, value, reading.mistakes);
    config.where[path] = entry.where;
    return;
  }
  if (path == "ensemble") return;  // load_members() has read it
  if (path == "include" || std::find(known.begin(), known.end(), path) == known.end()) refuse_key();
  if (value.kind == Kind::null || value.kind == Kind::nothing) return;
  if (value.kind != Kind::map)
    throw InputError(value.where, path, "found " + value.description(),
                     "allowed: a mapping with " + children(path));
  if (path == "task") {
    config.task.present = true;
    config.task.where = entry.where;
  }
  read_section(reading, value, path);
}

void read_section(Reading& reading, const DeckValue& section, const std::string& prefix) {
  for (const DeckEntry& entry : section.map) {
    const std::string path = prefix.empty() ? entry.key : prefix + "." + entry.key;
    reading.at(path, [&] { read_entry(reading, entry, path); });
  }
}

// The values of the preset that a deck asks for, in place of the defaults.
void apply_preset(Reading& reading, const DeckValue& root) {
  Config& config = reading.config;
  const DeckValue* const learning = root.find("learning");
  const DeckValue* given = learning != nullptr ? learning->find("preset") : nullptr;
  const auto is_given = [](const DeckValue* value) { return value != nullptr && value->kind != Kind::null; };
  const DeckValue* const data = root.find("data");
  DeckValue robomimic;  // of a deck with demonstrations
  if (!is_given(given) && data != nullptr && is_given(data->find("file"))) {
    robomimic.kind = Kind::scalar;
    robomimic.text = config.learning.preset = "robomimic";
    given = &robomimic;
  }
  if (!is_given(given)) return;
  std::vector<std::string> names;
  std::string list;
  for (const Preset& preset : presets()) {
    names.push_back(preset.name);
    list += (list.empty() ? "" : " | ") + preset.name;
  }
  const auto preset = std::find_if(presets().begin(), presets().end(),
                                   [&](const Preset& row) { return row.name == given->text; });
  if (given->kind != Kind::scalar || preset == presets().end()) {
    const std::string near = given->kind == Kind::scalar ? nearest(given->text, names) : "";
    throw InputError(given->where, "learning.preset", "found " + given->description(),
                     (near.empty() ? "" : "nearest: " + near + "; ") + "allowed: " + list);
  }
  DeckValue values;
  values.kind = Kind::map;
  // a critic that is shown something else cannot share layers, whatever others do without such a task
  const DeckValue* const task = root.find("task");
  const DeckValue* const critic = task != nullptr ? task->find("critic_observations") : nullptr;
  const bool own_critic = is_given(critic) && !critic->list.empty();
  for (const auto& [key, value] : preset->values)
    if (!own_critic || key != "policy.shared") apply_override(values, key + "=" + value);
  read_section(reading, values, "");
  config.where.clear();  // they are not the user's
}

// A terrain without a seed of its own has that of the batch, and a task on it tells of its levels.
void complete_terrain(Config& config) {
  TerrainConfig& terrain = config.model.terrain;
  if (!terrain.present()) return;
  if (terrain.seed < 0) terrain.seed = config.batch.seed;
  std::vector<TermConfig>& metrics = config.task.metrics;
  if (!config.task.present || std::any_of(metrics.begin(), metrics.end(), [](const TermConfig& metric) {
        return metric.name == kTerrainLevel;
      }))
    return;
  TermConfig level;
  level.name = level.expression = kTerrainLevel;
  level.where = level.where_expression = terrain.where;
  level.statistic = StatisticChoice::last;
  metrics.push_back(level);
}

// Whether the model and the task could be read, but for terms that no other one needs.
bool can_compile(const Reading& reading) {
  const TaskConfig& task = reading.config.task;
  if (reading.config.model.path.empty() || task.observations.empty()) return false;
  const std::vector<std::string>& known = reading.known;
  return std::none_of(reading.failed.begin(), reading.failed.end(), [&](const std::string& path) {
    const std::string section = path.substr(0, path.find('.'));
    if (section == "task") return !stands_alone(path) || !task.curricula.empty();
    return section == "model" || section == "terrain" || section == "simulation" ||
           std::find(known.begin(), known.end(), section) == known.end();
  });
}

}  // namespace

std::vector<std::string> known_paths() {
  std::vector<std::string> paths{"include", "ensemble", "task.definitions", "learning.curricula",
                                 "terrain.sub_terrains"};
  for (const SectionKey& section : section_schema()) paths.push_back("task." + section.name);
  for (const Key& key : schema()) {
    for (auto dot = key.path.find('.'); dot != std::string::npos; dot = key.path.find('.', dot + 1))
      if (const std::string part = key.path.substr(0, dot);
          std::find(paths.begin(), paths.end(), part) == paths.end())
        paths.push_back(part);
    paths.push_back(key.path);
  }
  return paths;
}

Config configure(const DeckValue& root, const Config& as_given, const std::string& member, bool needs_model,
                 const FurtherChecks& further) {
  Config config = as_given;
  Mistakes mistakes;
  Reading reading{config, mistakes};
  reading.at("learning.preset", [&] { apply_preset(reading, root); });
  read_section(reading, root, "");
  const std::set<std::string> unread = reading.sections();
  if (!config.earlier_results.empty())  // what stands there is not what somebody asks for now
    std::erase_if(config.where,
                  [&](const auto& entry) { return entry.second.file == config.earlier_results; });
  // a keyframe is a state with its controls, which nothing else sets without a task
  if (!config.where.contains("control.source") && !config.task.present &&
      config.initial_state.source == StartState::keyframe)
    config.control.source = ControlInput::keyframe;
  fit_defaults(config);
  complete_terrain(config);
  const std::size_t before = mistakes.count();
  resolve_files(config, member, needs_model && !unread.contains("model"), mistakes);
  const bool has_files = mistakes.count() == before;
  check_together(config, unread, mistakes);
  if (mistakes.count() > 0 && further && has_files && can_compile(reading))
    mistakes.gather([&] { further(config); });
  mistakes.throw_any();
  if (!member.empty())
    config.output.directory = (std::filesystem::path(config.output.directory) / member).string();
  config.resolved_text = resolved_deck(config);
  return config;
}

Config load_config(const std::vector<std::string>& decks, const std::vector<std::string>& overrides,
                   bool needs_model, const FurtherChecks& further) {
  return load_members(decks, overrides, needs_model, {}, further).front().config;
}

std::string nearest_key(const std::string& unknown) {
  std::vector<std::string> keys = known_paths();
  for (const TermKey& key : term_schema()) keys.push_back(key.name);
  return nearest(unknown, keys);
}

}  // namespace maniple
