// From located trees to a checked Config: every key meets its row of the schema, terms of a task are
// read one by one, paths are resolved, and keys that must fit each other are compared.
#include "src/config/deck.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string_view>

#include "src/config/document.hpp"
#include "src/config/presets.hpp"
#include "src/config/schema.hpp"

namespace maniple {
namespace {

namespace fs = std::filesystem;
using Kind = DeckValue::Kind;

bool is_identifier(const std::string& name) {
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0]))) return false;
  return std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

// Every path that may stand in a deck, sections included.
std::vector<std::string> known_paths() {
  std::vector<std::string> paths{"include", "ensemble", "task.definitions"};
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

// ---- tasks ----
// An expression; a list of numbers and texts is a vector, with or without quotes around it.
DeckValue expression_of(const DeckValue& given) {
  const auto is_scalar = [](const DeckValue& entry) { return entry.kind == Kind::scalar; };
  if (given.kind != Kind::list || given.list.empty() ||
      !std::all_of(given.list.begin(), given.list.end(), is_scalar))
    return given;
  DeckValue vector = given.list[0];
  vector.where = given.where;
  for (std::size_t i = 1; i < given.list.size(); ++i) vector.text += ", " + given.list[i].text;
  vector.text = "[" + vector.text + "]";
  return vector;
}

class TaskReader {
 public:
  TaskReader(const SectionKey& section) : section_(section) {}

  std::vector<TermConfig> read(const DeckValue& value) const {
    std::vector<TermConfig> terms;
    const std::string path = "task." + section_.name;
    if (value.kind == Kind::nothing || value.kind == Kind::null) return terms;
    if (section_.named) {
      if (value.kind != Kind::map)
        throw InputError(value.where, path, "found " + value.description(),
                         "allowed: a mapping from names to terms");
      for (const DeckEntry& entry : value.map) {
        if (entry.value[0].kind == Kind::null) continue;  // removed by a later deck
        if (!is_identifier(entry.key))
          throw InputError(entry.where, path, "found the name '" + entry.key + "'",
                           "allowed: letters, digits and _, not starting with a digit");
        terms.push_back(read_term(entry.value[0], path + "." + entry.key, entry.where, others(value, entry)));
        terms.back().name = entry.key;
      }
    } else {
      if (value.kind != Kind::list)
        throw InputError(value.where, path, "found " + value.description(), "allowed: a list of terms");
      for (std::size_t i = 0; i < value.list.size(); ++i) {
        const std::string place = path + "[" + std::to_string(i) + "]";
        terms.push_back(read_term(value.list[i], place, value.list[i].where));
        TermConfig& term = terms.back();
        if (term.name.empty()) term.name = term.term.empty() ? place.substr(5) : term.term;
      }
    }
    return terms;
  }

 private:
  // The names beside one of a section, for the message that one is incomplete: it may be misspelt.
  static std::string others(const DeckValue& section, const DeckEntry& one) {
    std::string names;
    for (const DeckEntry& entry : section.map)
      if (entry.key != one.key) names += (names.empty() ? "" : ", ") + entry.key;
    return names;
  }

  bool is_variable() const {
    return section_.kind == TermKind::variable || section_.kind == TermKind::curriculum;
  }

  TermConfig read_term(const DeckValue& value, const std::string& path, const SourceLocation& where,
                       const std::string& others = "") const {
    if (value.kind != Kind::map)
      throw InputError(value.where, path, "found " + value.description(),
                       is_variable()
                           ? "allowed: a mapping with 'reset: \"<expression>\"', and what else it needs"
                           : "allowed: a mapping with 'term: <name>' or 'expression: \"<text>\"'");
    TermConfig term;
    term.where = where;
    for (const DeckEntry& entry : value.map) {
      const DeckValue& given = entry.value[0];
      if (given.kind == Kind::null) continue;
      const std::string key = path + "." + entry.key;
      if (const TermKey* row = find_row(entry.key)) {
        if (!row->stands_in(section_.kind))
          throw InputError(entry.where, key, "found a key that " + section_.name + " do not take",
                           "allowed: " + allowed_keys());
        if (const auto kind = choice_of<ElementKind>(entry.key)) {
          if (term.names_kind != ElementKind::none)
            throw InputError(entry.where, key,
                             "found a second list of names, after '" + text_of(term.names_kind) + "'",
                             "allowed: one of joints, bodies, geoms, actuators, sensors");
          term.names_kind = *kind;
          term.where_names = given.where;
        }
        if (entry.key == "expression") term.where_expression = given.where;
        term.where_keys[entry.key] = given.where;
        const bool is_expression = entry.key == "expression" || entry.key == "reset" || entry.key == "update";
        assign(row->target(term), row->allowed, key, is_expression ? expression_of(given) : given);
        if (text_of(term.names_kind) == entry.key && term.names.empty())
          throw InputError(given.where, key, "found a list of 0",
                           "allowed: list of names, for instance [a, b]; without the key what the term takes "
                           "by default");
      } else {
        read_parameter(term, entry, key);
      }
    }
    if (is_variable()) {
      check_variable(term, path);
      return term;
    }
    if (!term.term.empty() + !term.expression.empty() + !term.field.empty() != 1) {
      const bool none = term.term.empty() && term.expression.empty();
      const bool field = !term.field.empty();
      throw InputError(where, path,
                       field  ? "found field beside term or expression"
                       : none ? "found neither term nor expression"
                              : "found both term and expression",
                       std::string("allowed: either 'term: <name>' or 'expression: \"<text>\"'") +
                           (section_.kind == TermKind::event ? ", or 'field: <name>'" : "") +
                           (none && !others.empty() ? "; other " + section_.name + ": " + others : ""));
    }
    for (const auto& [name, numbers] : {std::pair{"bias", &term.bias}, std::pair{"noise", &term.noise}})
      if (numbers->size() == 1 && numbers->front() < 0)
        throw InputError(term.where_of(name), path + "." + name, "found " + yaml_number(numbers->front()),
                         "allowed: a number of at least 0, for +- that much, or [low, high]");
    if (section_.kind == TermKind::event) check_field(term, path);
    if (section_.kind == TermKind::event && (term.mode == EventMode::interval) == term.every.empty())
      throw InputError(
          where, path + ".every",
          term.every.empty() ? "found an event without it" : "found it with mode " + text_of(term.mode),
          "allowed: every: <seconds> or [low, high] with mode interval");
    if (!term.target.empty() && term.expression.empty())
      throw InputError(where, path + ".set", "found it beside a term of the library",
                       "allowed: with an expression");
    return term;
  }

  // Known before the curricula are: of two numbers.
  static bool is_reversed(const std::vector<TermNumber>& range) {
    return range[0].expression.empty() && range[1].expression.empty() && range[0].value > range[1].value;
  }

  // Keys of events that set a field of the model.
  static void check_field(const TermConfig& term, const std::string& path) {
    const auto refuse = [&](const std::string& key, const std::string& found, const std::string& allowed) {
      throw InputError(term.where_of(key), path + "." + key, found, allowed);
    };
    for (const char* key : {"operation", "distribution", "ranges", "shared_random"})
      if (term.field.empty() && term.where_keys.contains(key))
        refuse(key, "found it in an event without field", "allowed: with field: <name of a model field>");
    if (term.field.empty()) return;
    if (term.operation == FieldOperation::none)
      refuse("operation", "found a field without it", "allowed: scale | add | abs");
    if (term.ranges == Ranges{})
      refuse("ranges", "found a field without it",
             "allowed: [low, high], or a mapping from components or names to them");
    if (!term.parameters.empty())
      refuse(term.parameters.begin()->first, "found an unknown key",
             "allowed: field, operation, distribution, ranges, shared_random, mode, every and names");
    const auto check = [&](const std::vector<TermNumber>& range) {
      if (range.empty()) return;
      const std::string found = "found [" + yaml_number(range[0]) + ", " + yaml_number(range[1]) + "]";
      if (term.distribution == Distribution::gaussian) {
        if (range[1].value < 0)
          refuse("ranges", found, "allowed: [mean, standard deviation], which is not negative");
        return;
      }
      if (is_reversed(range)) refuse("ranges", found, "allowed: [low, high] with low <= high");
      const bool number = range[0].expression.empty();
      if (term.distribution == Distribution::log_uniform && number && range[0].value <= 0)
        refuse("ranges", found, "allowed: above 0 with distribution log_uniform");
    };
    check(term.ranges.all);
    for (const auto& [key, range] : term.ranges.keyed) check(range);
  }

  void check_variable(const TermConfig& variable, const std::string& path) const {
    if (variable.reset.empty())
      throw InputError(variable.where, path, "found no reset",
                       section_.kind == TermKind::variable
                           ? "allowed: reset: \"<expression>\", with update, every or neither"
                           : "allowed: reset: \"<expression>\", with or without update");
    if (!variable.parameters.empty()) {
      const auto& [name, where] = *variable.where_parameters.begin();
      refuse_key(name, where, path + "." + name);
    }
  }

  // Variables and curricula have no parameters.
  [[noreturn]] void refuse_key(const std::string& name, const SourceLocation& where,
                               const std::string& key) const {
    std::vector<std::string> names;
    for (const TermKey& row : term_schema())
      if (row.stands_in(section_.kind)) names.push_back(row.name);
    const std::string near = nearest(name, names);
    throw InputError(where, key, "found an unknown key",
                     "allowed: " + keys() + (near.empty() ? "" : "; nearest: " + near));
  }

  // A key outside the table is a parameter of the term: a number or a range, or expressions for them. A text
  // by itself whose key is nearly one of the table is meant for that.
  void read_parameter(TermConfig& term, const DeckEntry& entry, const std::string& key) const {
    const DeckValue& given = entry.value[0];
    const bool list = given.kind == Kind::list && given.list.size() == 2;
    std::vector<TermNumber> numbers;
    for (const DeckValue& value : list ? given.list : std::vector{given}) {
      TermNumber number = 0;
      if (read_number(value, number)) numbers.push_back(std::move(number));
    }
    std::vector<std::string> names;
    for (const TermKey& row : term_schema())
      if (row.stands_in(section_.kind)) names.push_back(row.name);
    const std::string near = nearest(entry.key, names);
    if (numbers.size() != (list ? 2 : 1) || (!list && !numbers[0].expression.empty() && !near.empty())) {
      if (is_variable()) refuse_key(entry.key, entry.where, key);
      throw InputError(given.where, key, "found " + given.description() + " for a parameter of the term",
                       "allowed: a number or [low, high]" +
                           (near.empty() ? "" : ", or the known key nearest to it: " + near));
    }
    if (list && is_reversed(numbers))
      throw InputError(given.where, key,
                       "found [" + yaml_number(numbers[0]) + ", " + yaml_number(numbers[1]) + "]",
                       "allowed: [low, high] with low <= high");
    term.parameters[entry.key] = numbers;
    term.where_parameters[entry.key] = entry.where;
  }

  static const TermKey* find_row(const std::string& name) {
    for (const TermKey& row : term_schema())
      if (row.name == name) return &row;
    return nullptr;
  }
  std::string keys() const {
    std::string names;
    for (const TermKey& row : term_schema())
      if (row.stands_in(section_.kind)) names += (names.empty() ? "" : ", ") + row.name;
    return names;
  }
  std::string allowed_keys() const { return keys() + (is_variable() ? "" : ", and parameters of the term"); }

  const SectionKey& section_;
};

void read_definitions(TaskConfig& task, const DeckValue& value) {
  if (value.kind == Kind::nothing || value.kind == Kind::null) return;
  if (value.kind != Kind::map)
    throw InputError(value.where, "task.definitions", "found " + value.description(),
                     "allowed: a mapping from names to expressions");
  for (const DeckEntry& entry : value.map) {
    const DeckValue& given = entry.value[0];
    if (given.kind == Kind::null) continue;
    const std::string key = "task.definitions." + entry.key;
    if (!is_identifier(entry.key))
      throw InputError(entry.where, key, "found the name '" + entry.key + "'",
                       "allowed: letters, digits and _, not starting with a digit");
    const DeckValue expression = expression_of(given);
    if (expression.kind != Kind::scalar)
      throw InputError(given.where, key, "found " + given.description(), "allowed: an expression");
    task.definitions[entry.key] = expression.text;
    task.where_definitions[entry.key] = given.where;
  }
}

// ---- the walk over a deck ----
void read_section(Config& config, const DeckValue& section, const std::string& prefix,
                  const std::vector<std::string>& known) {
  for (const DeckEntry& entry : section.map) {
    const DeckValue& value = entry.value[0];
    const std::string path = prefix.empty() ? entry.key : prefix + "." + entry.key;
    // a name with dots is no path here: 'a.b: 1' would not merge with 'a: {b: 1}'
    if (entry.key.find('.') != std::string::npos) refuse_unknown(entry.where, path, known);
    const auto key =
        std::find_if(schema().begin(), schema().end(), [&](const Key& row) { return row.path == path; });
    if (key != schema().end()) {
      if (value.kind == Kind::null) continue;
      assign(key->target(config), key->allowed, path, value);
      config.where[path] = value.where;
      continue;
    }
    if (path == "task.definitions") {
      read_definitions(config.task, value);
      continue;
    }
    const auto terms = std::find_if(section_schema().begin(), section_schema().end(),
                                    [&](const SectionKey& row) { return path == "task." + row.name; });
    if (terms != section_schema().end()) {
      config.task.*(terms->terms) = TaskReader(*terms).read(value);
      config.where[path] = entry.where;
      continue;
    }
    if (path == "ensemble") continue;  // load_members() has read it
    if (path == "include" || std::find(known.begin(), known.end(), path) == known.end())
      refuse_unknown(entry.where, path, known);
    if (value.kind == Kind::null || value.kind == Kind::nothing) continue;
    if (value.kind != Kind::map)
      throw InputError(value.where, path, "found " + value.description(),
                       "allowed: a mapping with " + children(path));
    if (path == "task") {
      config.task.present = true;
      config.task.where = entry.where;
    }
    read_section(config, value, path, known);
  }
}

// The values of the preset that a deck asks for, in place of the defaults.
void apply_preset(Config& config, const DeckValue& root, const std::vector<std::string>& known) {
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
  read_section(config, values, "", known);
  config.where.clear();  // nobody gave them
}

// ---- paths ----
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
        "allowed: a package (by its import name) that is installed in $VIRTUAL_ENV, or in .venv beside "
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

// What control.file is to be; with a task it has actions.
std::string control_file_text(const Config& config) {
  return std::string("an HDF5 file with ") +
         (config.task.present ? "/action [env or 1, step, actions]" : "/ctrl [env or 1, step, nu]");
}

// `member`: of an ensemble, or "".
void resolve_files(Config& config, const std::string& member, bool needs_model) {
  config.model.where = config.where_of("model.file");
  if (!config.model.file.empty())
    config.model.path = existing_file(config.model.file, config.model.where, "model.file", false,
                                      "a model file (MJCF, URDF or MJB)");
  else if (needs_model)
    throw InputError(config.model.where, "model.file", "found nothing",
                     "allowed: a model file, or package:<python package>/<path>");

  if (!config.model.overlay.empty())
    config.model.overlay = existing_file(config.model.overlay, config.where_of("model.overlay"),
                                         "model.overlay", false, "an MJCF file");

  ControlConfig& control = config.control;
  control.where = config.where_of(
      control.source == ControlInput::policy || control.file.empty() ? "control.checkpoint" : "control.file");
  if (!control.file.empty())
    control.file = existing_file(control.file, config.where_of("control.file"), "control.file", false,
                                 control_file_text(config));
  if (!control.checkpoint.empty())
    control.checkpoint =
        existing_file(control.checkpoint, config.where_of("control.checkpoint"), "control.checkpoint", true,
                      "a checkpoint file or the directory of a run");
  // the directory of an ensemble: each member has its own policy
  if (std::error_code none; !member.empty() && fs::is_directory(control.checkpoint + "/" + member, none))
    control.checkpoint += "/" + member;

  for (std::string& file : config.data.file)
    file = existing_file(file, config.where_of("data.file"), "data.file", false,
                         "an HDF5 file of demonstrations");

  if (std::string& file = config.learning.warm_start; !file.empty())
    file = existing_file(file, config.where_of("learning.warm_start"), "learning.warm_start", true,
                         "a checkpoint file or the directory of a run");

  InitialStateConfig& initial = config.initial_state;
  initial.where = config.where_of(initial.source == StartState::keyframe ? "initial_state.keyframe"
                                                                         : "initial_state.file");
  if (!initial.file.empty())
    initial.file = existing_file(initial.file, config.where_of("initial_state.file"), "initial_state.file",
                                 false, "an HDF5 file with /qpos [env or 1, nq]");
  config.output.where_fields = config.where_of("output.trajectory.fields");
  config.task.where_keyframe = config.where_of("task.keyframe");
  config.task.where_reset_until = config.where_of("task.reset_until");
}

// ---- keys that must fit each other ----
// Whether a preset is one of what learns from data.
bool preset_imitates(const std::string& name) {
  for (const Preset& preset : presets())
    for (const auto& [key, value] : preset.values) {
      LearningConfig learning;
      learning.algorithm = value;
      if (preset.name == name && key == "learning.algorithm") return learning.imitates();
    }
  return false;
}

using Refuse =
    std::function<void(const std::string& key, const std::string& found, const std::string& allowed)>;

// What of a denoising network is no network is found with the data (src/learning/diffusion_policy.cpp).
void check_diffusion(const Config& config, const Refuse& refuse) {
  const DiffusionConfig& diffusion = config.diffusion;
  const auto number = [](std::int64_t value) { return std::to_string(value); };
  if (config.data.frame_stack != 1)
    refuse("data.frame_stack",
           "found " + number(config.data.frame_stack) + " with learning.algorithm: diffusion",
           "allowed: 1; diffusion.observation_horizon says how many observations a policy sees");
  if (diffusion.observation_horizon > diffusion.prediction_horizon)
    refuse("diffusion.observation_horizon", "found " + number(diffusion.observation_horizon),
           "allowed: at most diffusion.prediction_horizon (" + number(diffusion.prediction_horizon) + ")");
  const int left = diffusion.prediction_horizon - diffusion.observation_horizon + 1;
  if (diffusion.action_horizon > left)
    refuse("diffusion.action_horizon", "found " + number(diffusion.action_horizon),
           "allowed: at most " + number(left) +
               ", diffusion.prediction_horizon - diffusion.observation_horizon + 1");
  if (diffusion.inference_steps > diffusion.train_steps)
    refuse("diffusion.inference_steps", "found " + number(diffusion.inference_steps),
           "allowed: at most diffusion.train_steps (" + number(diffusion.train_steps) + ")");
  if (config.learning.ema_min > config.learning.ema_max)
    refuse("learning.ema_min", "found " + yaml_number(config.learning.ema_min),
           "allowed: at most learning.ema_max (" + yaml_number(config.learning.ema_max) + ")");
}

void check_together(const Config& config) {
  const auto refuse = [&](const std::string& key, const std::string& found, const std::string& allowed) {
    throw InputError(config.where_of(key), key, found, allowed);
  };
  const LearningConfig& learning = config.learning;
  const PolicyConfig& policy = config.policy;
  if (const std::size_t sides = config.image.crop.size(); sides != 0 && sides != 2)
    refuse("image.crop", "found a list of " + std::to_string(sides), "allowed: [height, width], or []");
  if (const ImageConfig& image = config.image, whole; !learning.imitates())
    for (const auto& [key, given] : {std::pair{"image.crop", image.crop != whole.crop},
                                     std::pair{"image.base_width", image.base_width != whole.base_width},
                                     std::pair{"image.keypoints", image.keypoints != whole.keypoints},
                                     std::pair{"image.features", image.features != whole.features}})
      if (given)
        refuse(key, "found it with learning.algorithm: " + learning.algorithm,
               "allowed: with imitate, of pictures that data.observations names");
  if (!learning.imitates() && preset_imitates(learning.preset))
    refuse("learning.algorithm", "found " + learning.algorithm + " with learning.preset: " + learning.preset,
           "allowed: what imitate learns with, or another preset");
  // blocks of 32 environments are not divided, nor are the steps that a recurrent policy learns from
  const bool recurrent = policy.recurrent != Recurrence::none;
  const std::int64_t parts = (config.batch.num_envs + 31) / 32 * (recurrent ? 1 : learning.horizon);
  if (!learning.imitates() && learning.minibatches > parts)
    refuse("learning.minibatches",
           "found " + std::to_string(learning.minibatches) + " with " +
               (recurrent ? "policy.recurrent " + text_of(policy.recurrent)
                          : "learning.horizon " + std::to_string(learning.horizon)) +
               " and batch.num_envs " + std::to_string(config.batch.num_envs),
           "allowed: integer, 1 to " + std::to_string(parts) + ", " +
               (recurrent ? "" : "learning.horizon x ") + "blocks of 32 environments");
  if (learning.target_kl > 0 && learning.kl_reference != KlReference::rollout)
    refuse("learning.target_kl", "found it with learning.kl_reference: previous_epoch",
           "allowed: 0, or with learning.kl_reference: rollout");
  if (learning.lr_min > learning.lr_max)
    refuse("learning.lr_min",
           "found " + yaml_number(learning.lr_min) + " with learning.lr_max " + yaml_number(learning.lr_max),
           "allowed: at most learning.lr_max");
  if (learning.schedule == RateSchedule::adaptive &&
      (learning.learning_rate < learning.lr_min || learning.learning_rate > learning.lr_max))
    refuse("learning.learning_rate", "found " + yaml_number(learning.learning_rate),
           "allowed: learning.lr_min (" + yaml_number(learning.lr_min) + ") to learning.lr_max (" +
               yaml_number(learning.lr_max) + ") with the adaptive schedule");
  if (learning.lr_scaling != RateScaling::none) {
    if (learning.schedule == RateSchedule::adaptive)
      refuse("learning.lr_scaling",
             "found " + text_of(learning.lr_scaling) + " with learning.schedule: adaptive",
             "allowed: none; there the KL divergence sets the learning rate");
    if (learning.lr_base_batch == 0)
      refuse("learning.lr_base_batch", "found 0 with learning.lr_scaling: " + text_of(learning.lr_scaling),
             "allowed: integer, at least 1: the samples that learning.learning_rate was found for");
  } else if (learning.lr_base_batch > 0) {
    refuse("learning.lr_base_batch", "found it with learning.lr_scaling: none",
           "allowed: 0, or with learning.lr_scaling: linear | sqrt");
  }
  if (!learning.imitates()) {
    if (learning.batch_per_rank)
      refuse("learning.batch_per_rank", "found true with learning.algorithm: " + learning.algorithm,
             "allowed: false; environments are counted over all ranks (batch.num_envs)");
    if (learning.mixed())
      refuse("learning.mixed_precision",
             "found " + text_of(learning.mixed_precision) + " with learning.algorithm: " + learning.algorithm,
             "allowed: none; what learns in environments does so in single precision");
    if (learning.accumulate > 1)
      refuse(
          "learning.accumulate",
          "found " + std::to_string(learning.accumulate) + " with learning.algorithm: " + learning.algorithm,
          "allowed: 1; minibatches take no memory of their own: fewer learning.minibatches make larger ones");
  }
  if (learning.imitates()) {
    const std::string with = " with learning.algorithm: " + learning.algorithm;
    if (policy.shared)
      refuse("policy.shared", "found true" + with, "allowed: false; what imitates has no critic");
    if (!policy.critic_hidden.empty())
      refuse("policy.critic_hidden", "found layers" + with, "allowed: []; what imitates has no critic");
    if (policy.clip_observations > 0)
      refuse("policy.clip_observations", "found " + yaml_number(policy.clip_observations) + with,
             "allowed: 0; what imitates sees the observations that were demonstrated");
    if (recurrent && policy.recurrent_horizon == 0)
      refuse("policy.recurrent_horizon",
             "found 0 with policy.recurrent: " + text_of(policy.recurrent) + " and" + with.substr(5),
             "allowed: integer, 1 to 10000, the length of sequences");
    if (learning.schedule == RateSchedule::adaptive)
      refuse("learning.schedule", "found adaptive with learning.algorithm: " + learning.algorithm,
             "allowed: fixed | linear | cosine; what is demonstrated has no KL divergence");
    if (learning.warmup_steps > 0 && learning.schedule == RateSchedule::linear)
      refuse("learning.warmup_steps", "found it with learning.schedule: linear",
             "allowed: 0, or with learning.schedule: fixed | cosine");
    if (learning.loss == ImitationLoss::gaussian && policy.squash_actions)
      refuse("learning.loss", "found gaussian with policy.squash_actions: true",
             "allowed: with policy.squash_actions: false");
    if (config.data.normalize_actions == DataNormalizer::mean_std) {
      const bool squashes = policy.squash_actions && !learning.diffuses();
      if (squashes || (learning.diffuses() && config.diffusion.clip_sample))
        refuse("data.normalize_actions",
               std::string("found mean_std with ") +
                   (squashes ? "policy.squash_actions" : "diffusion.clip_sample") +
                   ": true, which ends actions at one standard deviation from their mean",
               std::string("allowed: min_max, or mean_std with ") +
                   (squashes ? "policy.squash_actions" : "diffusion.clip_sample") + ": false");
    }
    const PerElement& weights = config.data.weights;
    const std::size_t files = config.data.file.size();
    if (!weights.named.empty() || (weights.numbers.size() != 1 && weights.numbers.size() != files))
      refuse("data.weights",
             !weights.named.empty() ? "found a mapping"
                                    : "found a list of " + std::to_string(weights.numbers.size()),
             "allowed: a number, or a list of " + std::to_string(files) + ", one for each file");
    const auto refuse_twice = [&](const std::string& key, std::vector<std::string> names) {
      std::sort(names.begin(), names.end());
      if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
        refuse(key, "found '" + *twice + "' twice", "allowed: each once");
    };
    refuse_twice("data.observations", config.data.observations);
    refuse_twice("data.actions", config.data.actions);
    for (const double weight : weights.numbers)
      if (!(weight > 0)) refuse("data.weights", "found " + yaml_number(weight), "allowed: numbers above 0");
  } else {
    if (learning.schedule == RateSchedule::cosine)
      refuse("learning.schedule", "found cosine with learning.algorithm: " + learning.algorithm,
             "allowed: fixed | adaptive | linear");
    if (learning.warmup_steps > 0)
      refuse("learning.warmup_steps", "found it with learning.algorithm: " + learning.algorithm,
             "allowed: 0, or with a policy that imitates");
  }
  if (learning.diffuses()) check_diffusion(config, refuse);
  if (learning.ema && !learning.diffuses())
    refuse("learning.ema", "found true with learning.algorithm: " + learning.algorithm,
           "allowed: false, or with learning.algorithm: diffusion");
  if (!learning.imitates() && policy.recurrent_horizon > 0)
    refuse("policy.recurrent_horizon",
           "found " + std::to_string(policy.recurrent_horizon) +
               " with learning.algorithm: " + learning.algorithm,
           "allowed: 0; what learns in environments remembers whole episodes");
  if (policy.hidden.empty() && !recurrent)
    refuse("policy.hidden", "found a list of 0",
           "allowed: list of integers, for instance [64, 64]; [] with policy.recurrent");
  if (policy.shared && !policy.critic_hidden.empty())
    refuse("policy.critic_hidden", "found layers with policy.shared: true",
           "allowed: [], or with policy.shared: false");
  if (learning.imitates() && learning.loss == ImitationLoss::gaussian && policy.fixed_std)
    refuse("policy.fixed_std", "found true with learning.loss: gaussian",
           "allowed: false; with learning.loss: l2 only the means are learned");
  if (learning.mixes() && policy.state_dependent_std)
    refuse("policy.state_dependent_std", "found true with learning.loss: gmm",
           "allowed: false; a mixture gives its deviations anyway");
  if (policy.state_dependent_std || learning.mixes()) {
    if (policy.fixed_std)
      refuse("policy.fixed_std",
             "found true with " +
                 std::string(learning.mixes() ? "learning.loss: gmm" : "policy.state_dependent_std"),
             "allowed: false");
    const bool softplus = policy.std_transform == StdTransform::softplus;
    // (softplus comes above min_std and never meets it)
    if (policy.init_std < policy.min_std ||
        ((softplus || learning.mixes()) && policy.init_std == policy.min_std) ||
        (policy.max_std > 0 && policy.init_std > policy.max_std))
      refuse(
          "policy.init_std", "found " + yaml_number(policy.init_std),
          "allowed: " + std::string(softplus || learning.mixes() ? "above " : "at least ") +
              "policy.min_std (" + yaml_number(policy.min_std) + ")" +
              (policy.max_std > 0 ? ", at most policy.max_std (" + yaml_number(policy.max_std) + ")" : ""));
  } else if (!learning.imitates() &&  // (where a preset has them for whoever asks for a mixture)
             (policy.min_std > 0 || policy.max_std > 0 || policy.std_transform != StdTransform::exp)) {
    const char* const key = policy.min_std > 0   ? "policy.min_std"
                            : policy.max_std > 0 ? "policy.max_std"
                                                 : "policy.std_transform";
    refuse(key, "found it without policy.state_dependent_std",
           "allowed: with policy.state_dependent_std: true");
  }

  const ControlConfig& control = config.control;
  if (control.source == ControlInput::file && control.file.empty())
    refuse("control.source", "found 'file' without control.file",
           "allowed: with control.file, " + control_file_text(config));
  if (control.source == ControlInput::policy && control.checkpoint.empty())
    refuse("control.source", "found 'policy' without control.checkpoint",
           "allowed: with control.checkpoint, a checkpoint file or the directory of a run");
  if (control.source == ControlInput::policy && !config.task.present)
    refuse("control.source", "found 'policy' without a task",
           "allowed: with the task the policy was trained on");
  if (!control.file.empty() && control.source != ControlInput::file)
    refuse("control.file", "found a file that nothing reads with control.source: " + text_of(control.source),
           "allowed: with control.source: file; control.file=~ leaves it out");

  const InitialStateConfig& initial = config.initial_state;
  if (initial.source == StartState::file && initial.file.empty())
    refuse("initial_state.source", "found 'file' without initial_state.file",
           "allowed: with initial_state.file, an HDF5 file with /qpos");
  if (initial.source == StartState::task && !config.task.present)
    refuse("initial_state.source", "found 'task' without a task",
           "allowed: with a task, whose reset terms it uses");
  if (!config.where.count("initial_state.source")) {
    if (!initial.file.empty())
      refuse("initial_state.file", "found a file that nothing reads",
             "allowed: with initial_state.source: file");
    if (config.where.count("initial_state.keyframe"))
      refuse("initial_state.keyframe", "found a keyframe that nothing reads",
             "allowed: with initial_state.source: keyframe");
  }

  if (config.task.episode_length > 0 && config.task.episode_steps > 0)
    refuse("task.episode_steps",
           "found " + std::to_string(config.task.episode_steps) + " with task.episode_length " +
               yaml_number(config.task.episode_length) + " s",
           "allowed: one of them; the other 0");

  if (config.output.directory.empty())
    refuse("output.directory", "found an empty path", "allowed: the path of a directory");
  if (config.output.trajectory_every > 0 && config.output.trajectory_fields.empty())
    refuse("output.trajectory.fields", "found a list of 0",
           "allowed: at least one field, or output.trajectory.every: 0");
  const OutputConfig& output = config.output;
  if (output.dataset == DatasetLayout::none) {
    const OutputConfig none;
    const auto no_use = [&](const char* key, bool is_set) {
      if (is_set)
        refuse(key, "found it without output.dataset", "allowed: with output.dataset: robomimic | minari");
    };
    no_use("output.dataset_episodes", output.dataset_episodes != none.dataset_episodes);
    no_use("output.dataset_min_return", output.dataset_min_return != none.dataset_min_return);
    no_use("output.dataset_success", output.dataset_success != none.dataset_success);
  } else {
    if (!config.task.present)
      refuse("output.dataset", "found " + text_of(output.dataset) + " without a task in the deck",
             "allowed: with a task, whose episodes are written");
    const auto& ends = config.task.terminations;
    if (output.dataset_success &&
        std::none_of(ends.begin(), ends.end(), [](const TermConfig& term) { return term.name == "success"; }))
      refuse("output.dataset_success", "found true with a task that does not say what success is",
             "allowed: false, or with a termination of the name success in task.terminations");
  }
  if (config.simulation.inject_nan_env >= config.batch.num_envs)
    refuse("simulation.inject_nan_env",
           "found " + std::to_string(config.simulation.inject_nan_env) + " with batch.num_envs " +
               std::to_string(config.batch.num_envs),
           "allowed: an environment of the batch, or -1");
}

// ---- the resolved deck ----
class DeckWriter {
 public:
  // A key by its full path; opens the sections that it stands in.
  void key(const std::string& path, const std::string& value) {
    std::vector<std::string> parts;
    for (std::size_t first = 0; first <= path.size();) {
      const auto dot = std::min(path.find('.', first), path.size());
      parts.push_back(path.substr(first, dot - first));
      first = dot + 1;
    }
    std::size_t common = 0;
    while (common < open_.size() && common + 1 < parts.size() && open_[common] == parts[common]) ++common;
    open_.assign(parts.begin(), parts.end() - 1);
    for (; common + 1 < parts.size(); ++common) line(common, parts[common] + ":");
    line(parts.size() - 1, parts.back() + ": " + value);
  }
  void line(std::size_t level, const std::string& text) {
    text_ += std::string(2 * level, ' ') + text + "\n";
  }
  const std::string& text() const { return text_; }

 private:
  std::vector<std::string> open_;
  std::string text_ = "# Every key of the run with its value; itself a deck.\n";
};

std::string range_text(const std::vector<TermNumber>& numbers) {
  return numbers.size() == 1 ? yaml_number(numbers[0])
                             : "[" + yaml_number(numbers[0]) + ", " + yaml_number(numbers[1]) + "]";
}

// A term as a flow mapping on one line; only what differs from the defaults.
std::string term_text(TermConfig term, const SectionKey& section) {
  TermConfig defaults;
  defaults.name = term.term;
  if (section.named) defaults.name = term.name;
  std::string text;
  const auto add = [&](const std::string& key, const std::string& value) {
    text += (text.empty() ? "" : ", ") + key + ": " + value;
  };
  for (const TermKey& row : term_schema()) {
    if (!row.stands_in(section.kind)) continue;
    const Target target = row.target(term);
    if (std::get_if<std::vector<std::string>*>(&target) != nullptr) {
      if (row.name == text_of(term.names_kind)) add(row.name, yaml_text(target));
    } else if (yaml_text(target) != yaml_text(row.target(defaults))) {
      add(row.name, yaml_text(target));
    }
  }
  for (const auto& [name, numbers] : term.parameters) add(name, range_text(numbers));
  return "{" + text + "}";
}

// The terms of a section's lists and mappings, with their names: "rewards", "alive", "{...}".
template <class Use>
void for_each_term(const Config& config, Use&& use) {
  for (const SectionKey& section : section_schema())
    for (const TermConfig& term : config.task.*(section.terms)) use(section, term, term_text(term, section));
}

std::string resolved_deck(Config config) {
  DeckWriter deck;
  // absolute paths, because the dump is read from another place; packages stay packages
  if (config.model.file.rfind("package:", 0) != 0) config.model.file = config.model.path;
  for (const Key& key : schema())
    if (key.path.rfind("task.", 0) != 0) {
      // an empty text is one that was not given
      const std::string text = yaml_text(key.target(config));
      deck.key(key.path, text == "\"\"" ? "~" : text);
    }
  if (!config.task.present) return deck.text();
  for (const Key& key : schema())
    if (key.path.rfind("task.", 0) == 0) deck.key(key.path, yaml_text(key.target(config)));
  if (!config.task.definitions.empty()) {
    deck.line(1, "definitions:");
    for (const auto& [name, expression] : config.task.definitions)
      deck.line(2, name + ": " + yaml_quoted(expression));
  }
  const SectionKey* open = nullptr;
  for_each_term(config, [&](const SectionKey& section, const TermConfig& term, const std::string& text) {
    if (open != &section) deck.line(1, section.name + ":");
    open = &section;
    deck.line(2, (section.named ? term.name + ": " : "- ") + text);
  });
  return deck.text();
}

}  // namespace

std::vector<std::string> task_lines(Config config) {
  std::vector<std::string> lines;
  if (!config.task.present) return lines;
  const std::set<std::string> others{"simulation.timestep", "simulation.decimation", "simulation.derived"};
  for (const Key& key : schema())
    if (others.contains(key.path) || (key.path.rfind("task.", 0) == 0 && key.path != "task.name"))
      lines.push_back(key.path + ": " + yaml_text(key.target(config)));
  for (const auto& [name, expression] : config.task.definitions)
    lines.push_back("task.definitions." + name + ": " + yaml_quoted(expression));
  for_each_term(config, [&](const SectionKey& section, const TermConfig& term, const std::string& text) {
    lines.push_back("task." + section.name + (section.named ? "." + term.name : "") + ": " + text);
  });
  return lines;
}

namespace {

// ---- ensembles ----
constexpr std::size_t kMostMembers = 1000, kLongestName = 255;  // of a directory

// A key that an ensemble varies, and its values.
struct Variation {
  std::string key;
  SourceLocation where;
  std::vector<DeckValue> values;
};

// "a/b c" as "a_b_c": a part of the name of a directory.
std::string name_part(const std::string& key, const DeckValue& value) {
  std::string text = flow_text(value);
  if (value.kind == Kind::scalar) text = value.text;
  if (value.kind == Kind::list && text.size() > 2) text = text.substr(1, text.size() - 2);
  std::string part;
  for (const char c : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) ||
                       std::string_view(".+-").find(c) != std::string_view::npos;
    if (plain || part.empty() || part.back() != '_') part += plain ? c : '_';
  }
  return key + "=" + part;
}

// `ensemble: {batch.seed: [1, 2]}`, or nested as keys are elsewhere; what comes later wins.
void read_ensemble(const DeckValue& section, const std::string& prefix, std::vector<Variation>& variations) {
  for (const DeckEntry& entry : section.map) {
    const DeckValue& given = entry.value[0];
    const std::string key = prefix + entry.key, path = "ensemble." + key;
    if (!is_key_path(entry.key))
      throw InputError(entry.where, path, "found the name '" + entry.key + "'", "allowed: a key of the deck");
    if (given.kind == Kind::map) {
      read_ensemble(given, key + ".", variations);
      continue;
    }
    std::erase_if(variations, [&](const Variation& earlier) { return earlier.key == key; });
    if (given.kind == Kind::null) continue;
    if (given.kind != Kind::list || given.list.empty())
      throw InputError(
          given.where, path, "found " + given.description(),
          "allowed: a list of values of " + key + ", one for each member, for instance [1, 2, 3]");
    if (key == "ensemble" || key == "output.directory" || key == "run.status_file")
      throw InputError(entry.where, path, "found a key that members have in common",
                       "allowed: keys of a run; each member writes into <output.directory>/<its values>");
    std::map<std::string, const DeckValue*> names;
    for (const DeckValue& value : given.list) {
      if (value.kind == Kind::nothing)
        throw InputError(value.where, path, "found nothing in the list", "allowed: values of " + key);
      const auto [earlier, is_new] = names.emplace(name_part(key, value), &value);
      if (!is_new)
        throw InputError(value.where, path,
                         "found " + value.description() + " after " + earlier->second->description() +
                             ", with the same directory " + earlier->first,
                         "allowed: values that give each member a directory of its own");
    }
    variations.push_back({key, entry.where, given.list});
  }
}

// One configuration from a tree of values.
Config configure(const DeckValue& root, const Config& as_given, const std::string& member, bool needs_model) {
  Config config = as_given;
  const std::vector<std::string> known = known_paths();
  apply_preset(config, root, known);
  read_section(config, root, "", known);
  resolve_files(config, member, needs_model);
  check_together(config);
  if (!member.empty()) config.output.directory = (fs::path(config.output.directory) / member).string();
  config.resolved_text = resolved_deck(config);
  return config;
}

}  // namespace

std::vector<Member> load_members(const std::vector<std::string>& decks,
                                 const std::vector<std::string>& overrides, bool needs_model) {
  Config config;
  if (needs_model && decks.empty() && overrides.empty())
    throw InputError(SourceLocation{}, "", "found no deck",
                     "allowed: decks, for instance inputs/train/isaac_cartpole.yaml, and keys, for instance "
                     "model.file=robot.xml");
  DeckValue root;
  root.kind = Kind::map;
  for (const std::string& deck : decks) {
    const std::vector<std::string> known = known_paths();
    if (std::error_code none;
        !fs::exists(deck, none) && std::find(known.begin(), known.end(), deck) != known.end())
      throw InputError(SourceLocation{}, deck, "found no value",
                       "allowed: " + deck + "=<value>, without spaces around '='");
    merge(root, read_deck(deck, {}, config.deck_text));
    config.where_deck = {deck, 0, 0};
  }
  if (!overrides.empty()) config.deck_text += "# ---- command line\n";
  for (const std::string& assignment : overrides) {
    apply_override(root, assignment);
    config.deck_text += "# " + assignment + "\n";
  }

  std::vector<Variation> variations;
  const DeckEntry* const ensemble = root.entry("ensemble");
  if (ensemble != nullptr) {
    const DeckValue& section = ensemble->value[0];
    if (section.kind != Kind::map && section.kind != Kind::null)
      throw InputError(
          section.where, "ensemble", "found " + section.description(),
          "allowed: a mapping from keys to lists of values, for instance {batch.seed: [1, 2, 3]}");
    read_ensemble(section, "", variations);
  }
  std::vector<Member> members(1);
  if (ensemble != nullptr) members[0].where = ensemble->where;
  std::vector<DeckValue> trees{root};
  for (const Variation& variation : variations) {
    const std::size_t count = members.size() * variation.values.size();
    if (count > kMostMembers)
      throw InputError(variation.where, "ensemble." + variation.key,
                       "found " + std::to_string(count) + " members",
                       "allowed: at most " + std::to_string(kMostMembers));
    std::vector<Member> longer;
    std::vector<DeckValue> longer_trees;
    for (std::size_t i = 0; i < members.size(); ++i)
      for (const DeckValue& value : variation.values) {
        Member& member = longer.emplace_back(members[i]);
        member.name += (member.name.empty() ? "" : ",") + name_part(variation.key, value);
        member.values.emplace_back(variation.key, flow_text(value));
        if (member.name.size() > kLongestName)
          throw InputError(
              variation.where, "ensemble." + variation.key,
              "found a member whose directory has a name of " + std::to_string(member.name.size()) +
                  " characters: " + member.name,
              "allowed: at most " + std::to_string(kLongestName) + ", by fewer keys or shorter values");
        apply_value(longer_trees.emplace_back(trees[i]), variation.key, value);
      }
    members = std::move(longer);
    trees = std::move(longer_trees);
  }
  for (std::size_t i = 0; i < members.size(); ++i) {
    Config as_given = config;
    if (!members[i].name.empty()) as_given.deck_text += "# ---- member of the ensemble\n";
    for (const auto& [key, value] : members[i].values) as_given.deck_text += "# " + key + "=" + value + "\n";
    members[i].config = configure(trees[i], as_given, members[i].name, needs_model);
  }
  return members;
}

Config load_config(const std::vector<std::string>& decks, const std::vector<std::string>& overrides,
                   bool needs_model) {
  return load_members(decks, overrides, needs_model).front().config;
}

std::string schema_text(const std::string& asked) {
  struct Row {
    std::string path, allowed, initial, unit, meaning;
  };
  std::vector<Row> rows{
      {"include", "path or list of paths", "~", "", "other decks, read first; later keys override"},
      {"ensemble.<key>", "list of values of the key", "~", "",
       "a run for each value, for several keys for each combination, in <output.directory>/<its values>, at "
       "the same time where there are ranks for it"}};
  Config defaults;
  for (const Key& key : schema())
    rows.push_back({key.path, allowed_text(key.target(defaults), key.allowed),
                    yaml_text(key.target(defaults)), key.unit, key.meaning});
  rows.push_back(
      {"task.definitions.<name>", "expression", "", "", "a named expression, for use in every expression"});
  for (const SectionKey& section : section_schema())
    rows.push_back(
        {"task." + section.name + (section.named ? ".<name>" : "[]"), "term", "", "", section.meaning});
  TermConfig term;
  for (const TermKey& key : term_schema()) {
    std::string sections;
    for (const SectionKey& section : section_schema())
      if (key.stands_in(section.kind)) sections += (sections.empty() ? "" : ", ") + section.name;
    rows.push_back({"task.<term>." + key.name, allowed_text(key.target(term), key.allowed),
                    yaml_text(key.target(term)), key.unit,
                    key.meaning + (key.sections == kAllSections ? "" : " (" + sections + ")")});
  }
  rows.push_back(
      {"task.<term>.<parameter>", "number or [low, high]", "", "", "what the term of the library takes"});

  if (!asked.empty()) {
    // a key, a section, or the last part of a key: the keys of a task's terms are known by that
    std::erase_if(rows, [&](const Row& row) {
      const bool below =
          row.path.starts_with(asked) &&
          (row.path.size() == asked.size() || row.path[asked.size()] == '.' || row.path[asked.size()] == '[');
      return !below && !row.path.ends_with("." + asked);
    });
    if (rows.empty()) return "";
  }
  // columns as wide as their widest entry, long ones excepted
  const auto padded = [](const std::string& text, std::size_t width) {
    return text + std::string(text.size() < width ? width - text.size() : 0, ' ') + "  ";
  };
  std::string text = padded("# key", 40) + padded("type and range", 44) + padded("default", 18) +
                     padded("unit", 14) + "meaning\n";
  for (const Row& row : rows)
    text += padded(row.path, 40) + padded(row.allowed, 44) +
            padded(row.initial.empty() ? "-" : row.initial, 18) +
            padded(row.unit.empty() ? "-" : row.unit, 14) + row.meaning + "\n";
  return text;
}

std::string nearest_key(const std::string& unknown) {
  std::vector<std::string> keys = known_paths();
  for (const TermKey& key : term_schema()) keys.push_back(key.name);
  return nearest(unknown, keys);
}

}  // namespace maniple
