// A walk over the rows of the schema for each of the three texts; the terms of a task are on one line each.
#include "src/config/dump.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>
#include <variant>

#include "src/config/learning_numbers.hpp"
#include "src/config/schema.hpp"
#include "src/config/terrain_schema.hpp"

namespace maniple {
namespace {

// Numbers with a dot before their exponent, 1.0e-06: 1e-06 is a text for YAML 1.1, and so for PyYAML. What
// stands in quotes stays.
std::string with_dots(const std::string& deck) {
  std::string text;
  bool quoted = false;
  std::size_t begin = 0;  // of the word, in text
  for (std::size_t i = 0; i < deck.size(); ++i) {
    const char c = deck[i];
    if (c == '"') quoted = !quoted;
    if (quoted && c == '\\') text += deck[i++];
    const bool is_exponent =
        c == 'e' && text.size() > begin && i + 1 < deck.size() && std::strchr("+-", deck[i + 1]) != nullptr;
    if (!quoted && is_exponent && text.find_first_not_of("-0123456789", begin) == std::string::npos)
      text += ".0";
    text += deck[i];
    if (std::strchr(" [{,\n", c) != nullptr) begin = text.size();
  }
  return text;
}

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
  std::string text() const { return with_dots(text_); }

 private:
  std::vector<std::string> open_;
  std::string text_ = "# Every key of the run with its value; itself a deck.\n";
};

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
  for (const auto& [name, numbers] : term.parameters) add(name, yaml_text(numbers));
  return "{" + text + "}";
}

// The terms of a section's lists and mappings, with their names: "rewards", "alive", "{...}".
template <class Use>
void for_each_term(const Config& config, Use&& use) {
  for (const SectionKey& section : section_schema())
    for (const TermConfig& term : config.task.*(section.terms)) use(section, term, term_text(term, section));
}

// Absolute, because what is written is read from another place; packages stay packages.
void find_from_anywhere(ModelConfig& model) {
  if (model.file.rfind("package:", 0) != 0) model.file = model.path;
}

// Outside of the task an empty text is one that was not given.
std::string value_text(Config& config, const Key& key) {
  const std::string text = yaml_text(key.target(config));
  return text == "\"\"" && !key.path.starts_with("task.") ? "~" : text;
}

}  // namespace

std::string resolved_deck(Config config) {
  DeckWriter deck;
  find_from_anywhere(config.model);
  bool learning = false, terrain = false;
  for (const Key& key : schema())
    if (key.path.rfind("task.", 0) != 0) {
      const bool of_terrain = key.path.starts_with("terrain.");
      if (terrain && !of_terrain && config.model.terrain.present()) {
        deck.line(1, "sub_terrains:");
        for (const SubTerrainConfig& sub : config.model.terrain.sub_terrains)
          deck.line(2, sub.name + ": " + sub_terrain_text(sub));
      }
      terrain = of_terrain;
      const bool of_learning = key.path.starts_with("learning.");
      if (learning && !of_learning)
        for (const auto& [name, expression] : config.learning.curricula)
          deck.key("learning.curricula." + name, yaml_quoted(expression));
      learning = of_learning;
      deck.key(key.path, value_text(config, key));
    }
  if (!config.task.present) return deck.text();
  for (const Key& key : schema())
    if (key.path.rfind("task.", 0) == 0) deck.key(key.path, value_text(config, key));
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

std::vector<std::pair<std::string, std::string>> given_settings(Config config) {
  find_from_anywhere(config.model);
  std::vector<std::pair<std::string, std::string>> settings;
  for (const Key& key : schema())
    if (config.where.contains(key.path) && !key.path.starts_with("output.") && !key.path.starts_with("run."))
      settings.emplace_back(key.path, value_text(config, key));
  return settings;
}

std::vector<std::string> task_lines(Config config) {
  std::vector<std::string> lines;
  if (!config.task.present) return lines;
  const std::set<std::string> others{"simulation.timestep", "simulation.decimation", "simulation.derived"};
  for (const Key& key : schema())
    if (others.contains(key.path) || (key.path.rfind("task.", 0) == 0 && key.path != "task.name"))
      lines.push_back(key.path + ": " + yaml_text(key.target(config)));
  if (const TerrainConfig& terrain = config.model.terrain; terrain.present()) {
    for (const Key& key : schema())
      if (key.path.starts_with("terrain.")) lines.push_back(key.path + ": " + yaml_text(key.target(config)));
    for (const SubTerrainConfig& sub : terrain.sub_terrains)
      lines.push_back("terrain.sub_terrains." + sub.name + ": " + sub_terrain_text(sub));
  }
  for (const auto& [name, expression] : config.task.definitions)
    lines.push_back("task.definitions." + name + ": " + yaml_quoted(expression));
  for_each_term(config, [&](const SectionKey& section, const TermConfig& term, const std::string& text) {
    lines.push_back("task." + section.name + (section.named ? "." + term.name : "") + ": " + text);
  });
  return lines;
}

namespace {

struct SchemaRow {
  std::string path, allowed, initial, unit, meaning;
};

// Every key; or only those that `asked` names.
std::vector<SchemaRow> schema_rows(const std::string& asked) {
  std::vector<SchemaRow> rows{
      {"include", "path or list of paths", "~", "",
       "Other decks, which are read first; later keys take precedence"},
      {"ensemble.<key>", "list of values of the key", "~", "",
       "Values of a key, each in a run of its own, or each combination of the values of several keys, in "
       "<output.directory>/<its values>; as many run at the same time as there are ranks for"}};
  Config defaults;
  for (const Key& key : schema())
    rows.push_back({key.path, allowed_text(key.target(defaults), key.allowed),
                    yaml_text(key.target(defaults)), key.unit, key.meaning});
  rows.push_back(
      {"terrain.sub_terrains.<name>", "sub-terrain", "", "",
       "Kind of ground, with its type and the keys of that type. A range gives the number at difficulty "
       "0 and at difficulty 1"});
  SubTerrainConfig sub;
  for (const SubTerrainKey& key : sub_terrain_schema()) {
    std::string types;
    for (std::size_t i = 0; i < kTextsOf<SubTerrainType>.size(); ++i)
      if (key.stands_in(static_cast<SubTerrainType>(i)))
        types += (types.empty() ? "" : ", ") + std::string(kTextsOf<SubTerrainType>[i]);
    rows.push_back({"terrain.<sub_terrain>." + key.name, allowed_text(key.target(sub), key.allowed),
                    key.required ? "" : yaml_text(key.target(sub)), key.unit,
                    key.meaning + (key.types == ~0u ? "" : " (" + types + ")")});
  }
  rows.push_back(
      {"task.definitions.<name>", "expression", "", "", "Expression that others refer to by its name"});
  rows.push_back({"learning.curricula.<name>", "expression", "", "",
                  "Expression in place of the number learning.<name>, evaluated after each iteration as "
                  "updates of task.curricula are, from the iteration and metrics of the training: " +
                      [] {
                        std::string names;
                        for (const LearningNumber& number : kLearningNumbers)
                          names += (names.empty() ? "" : ", ") + std::string(number.name);
                        return names;
                      }()});
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
      {"task.<term>.<parameter>", "number or [low, high]", "", "", "Parameter of the library's term"});

  // a key, a section, or the last part of a key: the keys of a task's terms are known by that
  if (!asked.empty())
    std::erase_if(rows, [&](const SchemaRow& row) {
      const bool below =
          row.path.starts_with(asked) &&
          (row.path.size() == asked.size() || row.path[asked.size()] == '.' || row.path[asked.size()] == '[');
      return !below && !row.path.ends_with("." + asked);
    });
  return rows;
}

// A cell of a table in Markdown, as it reads.
std::string cell(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|' || c == '*') escaped += '\\';
    escaped += c == '<' ? "&lt;" : std::string(1, c);
  }
  return escaped;
}
std::string code_cell(const std::string& text) {
  std::string escaped;
  for (const char c : text) escaped += c == '|' ? "\\|" : std::string(1, c);
  return text.empty() ? "" : "`" + escaped + "`";
}

// Where a key stands in the page of all keys.
std::string section_title(const std::string& path) {
  const std::string term = "task.<term>";
  if (path.starts_with(term)) return "Terms of a task";
  if (path == "include" || path.starts_with("ensemble.")) return "The deck itself";
  return path.substr(0, path.find('.'));
}

}  // namespace

std::string schema_text(const std::string& asked) {
  const std::vector<SchemaRow> rows = schema_rows(asked);
  if (rows.empty()) return "";
  // columns as wide as their widest entry, long ones excepted
  const auto padded = [](const std::string& text, std::size_t width) {
    return text + std::string(text.size() < width ? width - text.size() : 0, ' ') + "  ";
  };
  std::string text = padded("# key", 40) + padded("type and range", 44) + padded("default", 18) +
                     padded("unit", 14) + "meaning\n";
  for (const SchemaRow& row : rows)
    text += padded(row.path, 40) + padded(row.allowed, 44) +
            padded(row.initial.empty() ? "-" : row.initial, 18) +
            padded(row.unit.empty() ? "-" : row.unit, 14) + row.meaning + "\n";
  return text;
}

std::string schema_markdown(const std::string& asked) {
  std::vector<std::pair<std::string, std::string>> sections;  // title, rows
  for (const SchemaRow& row : schema_rows(asked)) {
    const std::string title = section_title(row.path);
    auto section =
        std::find_if(sections.begin(), sections.end(), [&](const auto& s) { return s.first == title; });
    if (section == sections.end()) section = sections.insert(sections.end(), {title, ""});
    section->second += "| " + code_cell(row.path) + " | " + cell(row.allowed) + " | " +
                       code_cell(row.initial) + " | " + cell(row.unit) + " | " + cell(row.meaning) + " |\n";
  }
  std::string text;
  for (const auto& [title, rows] : sections)
    text += "\n## " + title +
            "\n\n| key | type and range | default | unit | meaning |\n|---|---|---|---|---|\n" + rows;
  return text.empty()
             ? ""
             : "# Deck keys\n\nPrinted by `maniple schema --markdown`. How decks are written is in "
               "[README.md](README.md#decks). `~`: not given. A path in a deck is relative to that deck.\n" +
                   text;
}

}  // namespace maniple
