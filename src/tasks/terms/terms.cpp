// Resolution of a deck's term: its entry in the library, its elements in the model, and its parameters.
#include "src/tasks/terms/terms.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "src/tasks/language/names.hpp"
#include "src/tasks/terms/motion.hpp"

namespace maniple {
namespace {

std::vector<std::string> element_names(const TaskModel& model, ElementKind kind) {
  switch (kind) {
    case ElementKind::none:
      return {};
    case ElementKind::joints:
      return names_of(model.joints);
    case ElementKind::bodies:
      return model.bodies;
    case ElementKind::geoms:
      return model.geoms;
    case ElementKind::pairs:
      return model.pairs;
    case ElementKind::sites:
      return model.sites;
    case ElementKind::actuators:
      return names_of(model.controls);
    case ElementKind::sensors:
      return names_of(model.sensors);
  }
  return {};
}

// Elements that the term acts on.
void resolve_names(TermRequest& request, const LibraryTerm& term, const TermConfig& config,
                   const std::string& key) {
  const TaskModel& model = request.model;
  const std::string kind = text_of(term.names_kind);
  const std::vector<std::string> known = element_names(model, term.names_kind);
  if (config.names_kind != ElementKind::none && config.names_kind != term.names_kind)
    throw InputError(config.where_names, key + "." + text_of(config.names_kind),
                     "'" + term.name + "' takes no " + text_of(config.names_kind),
                     kind.empty() ? "it acts on the whole robot" : "it takes " + kind);
  const bool scalar_joints =
      term.names_kind == ElementKind::joints && term.names_default != DefaultNames::every_joint;
  for (const std::string& entry : config.names) {
    const std::vector<std::size_t> found = matching_names(entry, known, config.where_names, key + "." + kind,
                                                          "the model has no " + singular(kind));
    for (const std::size_t index : found) {
      const int element = static_cast<int>(index);
      // a pattern means the joints that the term takes, ".*" all of them
      if (scalar_joints && known[index] != entry && !model.joints[index].is_scalar()) continue;
      if (std::find(request.elements.begin(), request.elements.end(), element) == request.elements.end())
        request.elements.push_back(element);
    }
    if (request.elements.empty())
      throw InputError(config.where_names, key + "." + kind,
                       "'" + entry + "' matches ball and free joints alone", "hinge and slide joints");
  }
  if (config.names.empty() && term.names_kind != ElementKind::none) {
    if (term.names_default == DefaultNames::root_body) {
      if (known.size() < 2)
        throw InputError(config.where, key, "'" + term.name + "' needs a body", "a model with bodies");
      request.elements.push_back(1);
    } else if (term.names_default == DefaultNames::tracked_bodies && model.motion) {
      for (const std::string& body : model.motion->bodies)
        request.elements.push_back(
            static_cast<int>(std::find(known.begin(), known.end(), body) - known.begin()));
    } else if (term.names_default == DefaultNames::scalar_joints ||
               term.names_default == DefaultNames::every_joint) {
      for (std::size_t j = 0; j < model.joints.size(); ++j)
        if (model.joints[j].is_scalar() || term.names_default == DefaultNames::every_joint)
          request.elements.push_back(static_cast<int>(j));
    }
    const bool lacks_motion = term.names_default == DefaultNames::tracked_bodies && !model.motion;
    if (request.elements.empty() && !lacks_motion)  // (which is said next)
      throw InputError(config.where, key, "'" + term.name + "' without " + kind,
                       kind + ": [names], of " + (known.empty() ? "which the model has none" : list(known)));
  }
  for (const int element : request.elements) {
    const std::string& name = known[static_cast<std::size_t>(element)];
    if (scalar_joints && !model.joints[static_cast<std::size_t>(element)].is_scalar())
      throw InputError(config.where_names, key + ".joints", "'" + name + "' is a ball or free joint",
                       "hinge and slide joints");
    request.names.push_back(name);
  }
  if (term.of_one && request.names.size() > 1)
    throw InputError(
        config.where_names, key + "." + kind,
        fmt::format("'{}' of {} {}: {}", term.name, request.names.size(), kind, list(request.names)),
        "one of them");
}

void resolve_parameters(TermRequest& request, const LibraryTerm& term, const TermConfig& config,
                        const std::string& key, TermKind kind) {
  std::vector<std::string> taken;
  for (const TermParameter& parameter : term.parameters) taken.push_back(parameter.name);
  for (const auto& [name, numbers] : config.parameters) {
    const auto found = std::find(taken.begin(), taken.end(), name);
    const SourceLocation& where = config.where_of(name);
    if (found == taken.end()) {
      // a key that every term takes may be meant as well
      const std::vector<std::string> keys = term_keys(kind);
      std::vector<std::string> known = taken;
      known.insert(known.end(), keys.begin(), keys.end());
      throw InputError(where, key + "." + name,
                       "'" + term.name + "' takes no '" + name + "'" + did_you_mean(name, known),
                       (taken.empty() ? "it takes no parameters" : "it takes " + list(taken)) +
                           (keys.empty() ? "" : "; keys of " + section_of(kind).name + ": " + list(keys)));
    }
    const TermParameter& parameter = term.parameters[static_cast<std::size_t>(found - taken.begin())];
    if (static_cast<int>(numbers.size()) != parameter.size)
      throw InputError(where, key + "." + name, std::to_string(numbers.size()) + " numbers",
                       (parameter.size == 1 ? "a number: " : "a range [low, high]: ") + parameter.meaning +
                           " [" + parameter.unit + "]");
    for (const TermNumber& number : numbers) {
      double value = number.value;
      if (number.expression.empty() && !in_range(value, parameter.allowed))
        throw InputError(where, key + "." + name, fmt::format("found {}", value),
                         "allowed: " + allowed_text(&value, parameter.allowed) + ": " + parameter.meaning +
                             " [" + parameter.unit + "]");
    }
  }
  for (const TermParameter& parameter : term.parameters) {
    const auto given = config.parameters.find(parameter.name);
    if (given == config.parameters.end() && parameter.default_value.empty())
      throw InputError(config.where, key, "'" + term.name + "' without '" + parameter.name + "'",
                       parameter.name + (parameter.size == 1 ? ": number, " : ": [low, high], ") +
                           parameter.meaning + " [" + parameter.unit + "]");
    request.parameters[parameter.name] =
        given == config.parameters.end()
            ? std::vector<TermNumber>(parameter.default_value.begin(), parameter.default_value.end())
            : given->second;
  }
}

// The kind of terms that stand in a section.
TermKind library_kind(TermKind kind) {
  if (kind == TermKind::critic_observation) return TermKind::observation;
  return kind == TermKind::event ? TermKind::reset : kind;
}

}  // namespace

double TermRequest::number(const std::string& parameter) const {
  const TermNumber& number = parameters.at(parameter)[0];
  if (number.expression.empty()) return number.value;
  throw InputError(config.where_of(parameter), key + "." + parameter,
                   "the expression '" + number.expression + "'", "a number");
}

bool is_time_out(const TermConfig& termination) {
  return termination.time_out || termination.term == "time_out";
}

std::vector<std::string> term_names(TermKind kind) {
  std::vector<std::string> names;
  for (const LibraryTerm& term : term_library())
    if (term.kind == library_kind(kind)) names.push_back(term.name);
  return names;
}

const LibraryTerm& find_term(const TermConfig& config, TermKind kind, const std::string& key) {
  const std::vector<std::string> known = term_names(kind);
  std::string elsewhere;
  for (const LibraryTerm& term : term_library()) {
    if (term.name == config.term && term.kind == library_kind(kind)) return term;
    if (term.name == config.term) elsewhere = section_of(term.kind).name;
  }
  const std::string found = elsewhere.empty()
                                ? "unknown term '" + config.term + "'" + did_you_mean(config.term, known)
                                : "'" + config.term + "' is a term of " + elsewhere;
  throw InputError(config.where, key, found,
                   "terms of " + section_of(kind).name + ": " + list(known) +
                       (kind == TermKind::event ? "; or field: the name of a model field" : ""));
}

std::vector<std::string> term_keys(TermKind kind) {
  std::vector<std::string> keys;
  for (const TermKey& row : term_schema())
    if (row.stands_in(kind) && row.name != "term" && row.name != "expression" && row.name != "set" &&
        !choice_of<ElementKind>(row.name))
      keys.push_back(row.name);
  return keys;
}

TermRequest resolve_term(const LibraryTerm& term, const TermConfig& config, const TaskModel& model,
                         const std::string& key, TermKind kind) {
  TermRequest request{model, {}, {}, {}, config, key};
  if (term.takes_command && config.command.empty())
    throw InputError(config.where, key, "'" + term.name + "' without 'command'",
                     "command: the name of a command of task.commands");
  resolve_names(request, term, config, key);
  resolve_parameters(request, term, config, key, kind);
  if (term.need && !term.need->met(model))
    throw InputError(config.where, key, "'" + term.name + "' " + term.need->missing, term.need->instead);
  if (term.names_default == DefaultNames::root_body && config.names.empty() && !model.has_free_root)
    throw InputError(
        config.where, key,
        fmt::format("'{}' of the root body '{}', which has no free joint", term.name, request.names[0]),
        fmt::format("{}; or bodies: [name], which may be any of {}", kFreeBase,
                    list(element_names(model, ElementKind::bodies))));
  return request;
}

}  // namespace maniple
