// Configurations as text: the resolved deck that results carry, the lines by which two tasks are compared,
// and the table of all keys. It reads the schema in the opposite direction: from members to keys.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/config/config.hpp"

namespace maniple {

// Every key with its value, as YAML: itself a deck, which gives the same run from any directory.
std::string resolved_deck(Config config);

// The keys that somebody gave, with their values as the resolved deck has them. Where a run writes, and how
// it is watched, are no settings.
std::vector<std::pair<std::string, std::string>> given_settings(Config config);

// What the deck says about its task and the control step, as "key: value", one for each element of a list:
// for messages about two tasks that differ. Empty without a task.
std::vector<std::string> task_lines(Config config);

// Every key, one a line: name, type, default, unit or choices, meaning (`maniple schema`); or only those that
// `asked` names: a key, a section, the last part of keys. "" where there is none.
std::string schema_text(const std::string& asked = "");
// The same as a page of Markdown, a table for each section (`maniple schema --markdown`): inputs/KEYS.md.
std::string schema_markdown(const std::string& asked = "");

}  // namespace maniple
