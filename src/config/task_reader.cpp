// Reading of terms: as a mapping from names or as a list,
// with one error message for each way to get one wrong.
#include "src/config/task_reader.hpp"

#include <algorithm>
#include <cctype>
#include <set>
#include <string>
#include <utility>

namespace maniple {
namespace {

using Kind = DeckValue::Kind;

}  // namespace

bool is_identifier(const std::string& name) {
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0]))) return false;
  return std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

namespace {

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

}  // namespace

bool is_taken_out(const DeckEntry& entry, const DeckValue& section, const std::string& path) {
  const DeckValue& given = entry.value[0];
  if (given.kind != Kind::null) return false;
  if (!given.takes_out) {
    std::vector<std::string> names;
    for (const DeckEntry& other : section.map)
      if (other.value[0].kind != Kind::null) names.push_back(other.key);
    const std::string near = nearest(entry.key, names);
    throw InputError(entry.where, path + "." + entry.key, "found ~ where there is nothing to take out",
                     (near.empty() ? "" : "nearest: " + near + "; ") + "allowed: the name of an entry");
  }
  return true;
}

namespace {

class TaskReader {
 public:
  TaskReader(const SectionKey& section, Mistakes& mistakes) : section_(section), mistakes_(mistakes) {}

  std::vector<TermConfig> read(const DeckValue& value) const {
    std::vector<TermConfig> terms;
    const std::string path = "task." + section_.name;
    if (value.kind == Kind::nothing || value.kind == Kind::null) return terms;
    if (section_.named) {
      if (value.kind != Kind::map)
        throw InputError(value.where, path, "found " + value.description(),
                         "allowed: a mapping from names to terms");
      for (const DeckEntry& entry : value.map) {
        mistakes_.gather([&] {
          if (is_taken_out(entry, value, path)) return;
          if (!is_identifier(entry.key))
            throw InputError(entry.where, path, "found the name '" + entry.key + "'",
                             "allowed: letters, digits and _, not starting with a digit");
          terms.push_back(
              read_term(entry.value[0], path + "." + entry.key, entry.where, others(value, entry)));
          terms.back().name = entry.key;
        });
      }
    } else {
      if (value.kind != Kind::list)
        throw InputError(value.where, path, "found " + value.description(), "allowed: a list of terms");
      for (std::size_t i = 0; i < value.list.size(); ++i) {
        const std::string place = path + "[" + std::to_string(i) + "]";
        mistakes_.gather([&] {
          terms.push_back(read_term(value.list[i], place, value.list[i].where));
          TermConfig& term = terms.back();
          if (term.name.empty()) term.name = term.term.empty() ? place.substr(5) : term.term;
        });
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
    if (section_.kind == TermKind::metric && value.kind == Kind::scalar) {
      DeckValue whole;
      whole.kind = Kind::map;
      whole.where = value.where;
      whole.map.push_back({"expression", value.where, {value}});
      return read_term(whole, path, where, others);
    }
    if (value.kind != Kind::map)
      throw InputError(
          value.where, path, "found " + value.description(),
          section_.kind == TermKind::metric
              ? "allowed: an expression, or a mapping with 'expression: \"<text>\"' and 'statistic'"
          : is_variable() ? "allowed: a mapping with 'reset: \"<expression>\"', and what else it needs"
                          : "allowed: a mapping with 'term: <name>' or 'expression: \"<text>\"'");
    TermConfig term;
    term.where = where;
    Mistakes of_keys;
    for (const DeckEntry& entry : value.map)
      if (entry.value[0].kind != Kind::null) of_keys.gather([&] { read_key(term, entry, path); });
    // only terms of the library have parameters
    const DeckValue* const library = value.find("term");
    if (library == nullptr || library->kind == Kind::null)
      for (const auto& [name, place] : term.where_parameters)
        of_keys.gather([&, of = name, at = place] { refuse_key(of, at, path + "." + of); });
    of_keys.throw_any();
    check_term(term, path, where, others);
    return term;
  }

  void read_key(TermConfig& term, const DeckEntry& entry, const std::string& path) const {
    const DeckValue& given = entry.value[0];
    const std::string key = path + "." + entry.key;
    if (const TermKey* row = find_row(entry.key)) {
      if (!row->stands_in(section_.kind))
        throw InputError(entry.where, key, "found a key that " + section_.name + " do not take",
                         "allowed: " + allowed_keys());
      if (const auto kind = choice_of<ElementKind>(entry.key)) {
        if (term.names_kind != ElementKind::none)
          throw InputError(entry.where, key,
                           "found a second list of names, after '" + text_of(term.names_kind) + "'",
                           "allowed: one of joints, bodies, geoms, pairs, sites, actuators, sensors");
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

  // Keys of a term that must fit each other.
  void check_term(const TermConfig& term, const std::string& path, const SourceLocation& where,
                  const std::string& others) const {
    if (is_variable()) {
      check_variable(term, path);
      return;
    }
    if (section_.kind == TermKind::metric) {
      if (term.expression.empty())
        throw InputError(where, path, "found no expression",
                         "allowed: expression: \"<text>\", with or without statistic");
      return;
    }
    if (section_.kind == TermKind::action && (!term.components.empty() || !term.target.empty())) {
      check_without_actuators(term, path);
      return;
    }
    if (!term.term.empty() + !term.expression.empty() + !term.field.empty() != 1) {
      const bool none = term.term.empty() && term.expression.empty();
      const bool field = !term.field.empty();
      throw InputError(where, path,
                       field  ? "found field together with term or expression"
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
          (term.every.empty() ? "not set, but mode is " : "set, but mode is ") + text_of(term.mode),
          "allowed: every: <seconds> or [low, high] with mode interval");
    if (!term.target.empty() && term.expression.empty())
      throw InputError(where, path + ".set", "set together with a term of the library",
                       "allowed: with an expression");
  }

  // Actions that belong to no actuator: components that others read, or an assignment, which has none.
  void check_without_actuators(const TermConfig& term, const std::string& path) const {
    const bool assigns = term.components.empty();
    const std::set<std::string> allowed = assigns ? std::set<std::string>{"name", "set", "expression"}
                                                  : std::set<std::string>{"name", "components"};
    for (const auto& [key, where] : term.where_keys)
      if (!allowed.contains(key))
        throw InputError(where, path + "." + key,
                         assigns ? "set together with set" : "set together with components",
                         assigns ? "allowed: set, expression and name" : "allowed: components and name");
    if (assigns && term.expression.empty())
      throw InputError(term.where_of("set"), path + ".set", "set without an expression",
                       "allowed: with expression: \"<text>\"");
    for (const std::string& name : term.components)
      if (!is_identifier(name))
        throw InputError(term.where_of("components"), path + ".components", "found the name '" + name + "'",
                         "allowed: letters, digits and _, not starting with a digit");
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
        refuse(key, "set in an event without field", "allowed: with field: <name of a model field>");
    if (term.field.empty()) return;
    if (term.operation == FieldOperation::none)
      refuse("operation", "found a field without an operation", "allowed: scale | add | abs");
    if (term.ranges == Ranges{})
      refuse("ranges", "found a field without ranges",
             "allowed: [low, high], or a mapping from components or names to them");
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
    if (!variable.term.empty()) {
      if (!variable.reset.empty() || !variable.update.empty())
        throw InputError(variable.where, path, "found a term together with reset or update",
                         "allowed: one of them; a term has its own");
      return;
    }
    if (!variable.names.empty())
      throw InputError(variable.where_names, path + "." + text_of(variable.names_kind), "set without a term",
                       "allowed: with term; an expression names what it reads");
    if (variable.reset.empty())
      throw InputError(variable.where, path, "found no reset",
                       section_.kind == TermKind::variable
                           ? "allowed: reset: \"<expression>\", with update, every or neither"
                           : "allowed: reset: \"<expression>\", with or without update, or term: <name>");
  }

  [[noreturn]] void refuse_key(const std::string& name, const SourceLocation& where,
                               const std::string& key) const {
    std::vector<std::string> names;
    for (const TermKey& row : term_schema())
      if (row.stands_in(section_.kind)) names.push_back(row.name);
    const std::string near = nearest(name, names);
    throw InputError(where, key, "found an unknown key",
                     "allowed: " + keys() + (near.empty() ? "" : "; nearest: " + near) +
                         (is_variable() || section_.kind == TermKind::metric
                              ? ""
                              : "; an expression takes no parameters: its numbers stand in it, or in "
                                "definitions"));
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
      if (is_variable() || section_.kind == TermKind::metric) refuse_key(entry.key, entry.where, key);
      throw InputError(given.where, key, "found " + given.description() + " for a parameter of the term",
                       "allowed: a number or [low, high], where the term takes it ('maniple schema " +
                           (term.term.empty() ? "terms" : term.term) + "')" +
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
  Mistakes& mistakes_;
};

}  // namespace

std::vector<TermConfig> read_terms(const SectionKey& section, const DeckValue& value, Mistakes& mistakes) {
  return TaskReader(section, mistakes).read(value);
}

std::map<std::string, DeckValue> read_expressions(const DeckValue& value, const std::string& path,
                                                  Mistakes& mistakes) {
  std::map<std::string, DeckValue> expressions;
  if (value.kind == Kind::nothing || value.kind == Kind::null) return expressions;
  if (value.kind != Kind::map)
    throw InputError(value.where, path, "found " + value.description(),
                     "allowed: a mapping from names to expressions");
  for (const DeckEntry& entry : value.map) {
    const DeckValue& given = entry.value[0];
    mistakes.gather([&] {
      if (is_taken_out(entry, value, path)) return;
      const std::string key = path + "." + entry.key;
      if (!is_identifier(entry.key))
        throw InputError(entry.where, key, "found the name '" + entry.key + "'",
                         "allowed: letters, digits and _, not starting with a digit");
      const DeckValue expression = expression_of(given);
      if (expression.kind != Kind::scalar)
        throw InputError(given.where, key, "found " + given.description(), "allowed: an expression");
      expressions[entry.key] = expression;
      expressions[entry.key].where = given.where;
    });
  }
  return expressions;
}

}  // namespace maniple
