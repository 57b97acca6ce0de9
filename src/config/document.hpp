// A deck as read, before its keys are interpreted: a tree of values, each with its file and line. Includes,
// merging and command-line overrides happen here, on trees.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/error.hpp"

namespace maniple {

struct DeckValue;

// One entry of a mapping.
struct DeckEntry {
  std::string key;
  SourceLocation where;          // of the key
  std::vector<DeckValue> value;  // exactly one; a vector because DeckValue is incomplete here
};

struct DeckValue {
  // `null` is a written ~ or null ("as if never given"), `nothing` a key without any value.
  enum class Kind { nothing, null, scalar, list, map };
  Kind kind = Kind::nothing;
  std::string text;             // scalar
  bool quoted = false;          // scalar: given in quotes or as a block, so never a number
  bool takes_out = false;       // null: what a deck before had
  SourceLocation where;         // of the value's first character (of a scalar: after the quote)
  std::vector<DeckValue> list;  // list
  std::vector<DeckEntry> map;   // map, in the order of the deck

  const DeckValue* find(std::string_view key) const;
  const DeckEntry* entry(std::string_view key) const;
  // The value in words, for messages: "'5'", "a list", "nothing".
  std::string description() const;
};

// Reads one deck and all that it includes (paths relative to the including deck; a cycle is refused),
// merged. `text` collects the decks as given. Throws InputError for unreadable files, bad YAML,
// duplicate keys and anything that is not a mapping.
DeckValue read_deck(const std::string& file, const SourceLocation& from, std::string& text);

// The same of a deck that includes nothing, read from elsewhere already.
DeckValue read_deck_text(const std::string& file, const std::string& content, std::string& text);

// `over` wins: mappings merge key by key, everything else replaces.
void merge(DeckValue& base, const DeckValue& over);

// Whether a text can be a path of keys: names, with a dot between two.
bool is_key_path(const std::string& path);
// Puts a value where `path` leads, "key.path". A number in the path picks an entry of a list that is there.
void apply_value(DeckValue& root, const std::string& path, const DeckValue& value);
// Applies one "key.path=value" from the command line; the value is YAML, but for a ? b : c without quotes,
// which is text.
void apply_override(DeckValue& root, const std::string& assignment);

// A value as YAML on one line.
std::string flow_text(const DeckValue& value);

}  // namespace maniple
