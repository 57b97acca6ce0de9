// maniple tasks: the decks that come with the program, by the names under which verbs take them.
#include <fmt/format.h>

#include <algorithm>

#include "src/config/named_decks.hpp"
#include "src/driver/verbs.hpp"

namespace maniple {

void tasks(const std::vector<std::string>& arguments, std::ostream& out) {
  const std::string part = arguments.empty() ? "" : arguments[0];
  std::vector<std::string> names;
  for (const auto& [folder, title] :
       {std::pair{"train", "trainings of tasks: maniple train NAME, evaluate, rollout, bench"},
        {"tasks", "tasks without a training deck: the same verbs, with settings of your own"},
        {"imitate", "learning from demonstrations: maniple imitate NAME data.file=..."}}) {
    std::string lines;
    for (const NamedDeck& deck : named_decks(folder)) {
      const bool known = std::find(names.begin(), names.end(), deck.name) != names.end();
      names.push_back(deck.name);
      if (!known && deck.name.find(part) != std::string::npos)
        lines += fmt::format("  {:<40} {}\n", deck.name, deck.summary);
    }
    if (!lines.empty()) out << title << "\n" << lines;
  }
  if (names.empty())
    throw Error(
        "no decks come with this program: the folder inputs is not next to it, above it or in share/maniple");
  if (std::none_of(names.begin(), names.end(),
                   [&](const std::string& name) { return name.find(part) != std::string::npos; }))
    throw InputError(SourceLocation{}, "tasks", "found no deck whose name contains '" + part + "'",
                     "allowed: a part of a name; without one, all are listed");
}

}  // namespace maniple
