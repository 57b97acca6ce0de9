// maniple schema: deck keys, presets of learning, and the terms, functions and quantities of tasks.
#include "src/config/schema.hpp"

#include <ostream>

#include "src/config/deck.hpp"
#include "src/config/dump.hpp"
#include "src/config/presets.hpp"
#include "src/driver/command_line.hpp"
#include "src/driver/verbs.hpp"
#include "src/tasks/compile/listing.hpp"
#include "src/tasks/compile/prepared.hpp"
#include "src/tasks/compile/task.hpp"

namespace maniple {

void schema(const std::vector<std::string>& arguments, std::ostream& out) {
  if (arguments.empty()) {
    out << schema_text();
    return;
  }
  if (arguments.back() == "--markdown") {
    const std::string asked = arguments.size() > 1 ? arguments[0] : "", text = schema_markdown(asked);
    if (arguments.size() > 2 || text.empty())
      throw InputError(SourceLocation{}, "schema",
                       "found '" + arguments[arguments.size() > 2 ? 1 : 0] + "' with --markdown",
                       "allowed: nothing, or a key or section of decks");
    out << text;
    return;
  }
  const std::string& what = arguments[0];
  std::vector<std::string> decks, overrides;
  for (auto argument = arguments.begin() + 1; argument != arguments.end(); ++argument)
    (is_override(*argument) ? overrides : decks).push_back(*argument);
  if (what == "quantities" && arguments.size() > 1) {
    const Config config = load_config(decks, overrides, true, check_model_and_task);
    const Prepared prepared = prepare(config);
    out << quantities_text(prepared, config.task);
  } else if (what == "quantities") {
    out << quantities_text();
  } else if (arguments.size() > 1) {
    throw InputError(SourceLocation{}, "schema", "found '" + arguments[1] + "' after '" + what + "'",
                     "allowed: '" + what + "' alone; decks and key.path=value with quantities");
  } else if (what == "terms") {
    out << terms_text();
  } else if (what == "functions") {
    out << functions_text();
  } else if (what == "metrics") {
    out << metrics_text();
  } else if (what == "presets") {
    out << presets_text();
  } else if (const std::string text = schema_text(what) + listed_as(what); !text.empty()) {
    out << text;
  } else if (const std::string of_task = schema_text("task." + what) + listed_as("task." + what);
             !of_task.empty()) {
    out << of_task;
  } else {
    std::string near = nearest(what, {"presets", "terms", "functions", "metrics", "quantities"});
    if (near.empty()) near = nearest_key(what);
    throw InputError(SourceLocation{}, "schema", "found '" + what + "'",
                     (near.empty() || near == what ? "" : "nearest: " + near + "; ") +
                         "allowed: nothing, a key or section of decks, presets, terms, functions, metrics, "
                         "quantities with or without a deck, or the name of one of these");
  }
}

}  // namespace maniple
