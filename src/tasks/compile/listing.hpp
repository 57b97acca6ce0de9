// Lists for people of the terms, functions and quantities that tasks may use, driven by their tables.
#pragma once

#include <string>

#include "src/config/config.hpp"
#include "src/model_import/import.hpp"
#include "src/tasks/compile/prepared.hpp"

namespace maniple {

// Every term by section: elements that it takes, parameters with unit and default, meaning, an example.
std::string terms_text();
// Every function: parameters, components and value of an example, meaning.
std::string functions_text();
// The metrics that updates of curricula read: name, unit, meaning.
std::string metrics_text();
// Every quantity: components, unit, where it is known, meaning, an example. With a model, its own numbers and
// names, and those of the task if there is one.
std::string quantities_text();
std::string quantities_text(const Prepared& prepared, const TaskConfig& config);
// What these lists say of a term, function, metric or quantity of this name, under their headings; empty
// where there is none.
std::string listed_as(const std::string& name);

}  // namespace maniple
