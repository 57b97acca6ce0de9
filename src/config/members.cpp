// Expansion of decks and overrides into trees of values, one for each combination of what an ensemble varies,
// before any of them is checked.
#include "src/config/members.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <string_view>

#include "src/config/deck.hpp"
#include "src/config/document.hpp"
#include "src/config/named_decks.hpp"
#include "src/config/schema.hpp"

namespace maniple {
namespace {

using Kind = DeckValue::Kind;

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

// Refuses the same value in two spellings, 0.9 and 0.90: the same run twice would count as two.
void check_differences(std::vector<Member>& members) {
  std::map<std::string, const Member*> known;
  for (Member& member : members) {
    std::string values;
    for (const auto& [path, text] : member.values) {
      const Key* const key = key_named(path);
      values += path + "=" + (key == nullptr ? text : yaml_text(key->target(member.config))) + "\n";
    }
    const auto [earlier, is_new] = known.emplace(values, &member);
    if (!is_new)
      throw InputError(
          member.where, "ensemble",
          "found the members " + earlier->second->name + " and " + member.name + ", which are the same run",
          "allowed: values that differ");
  }
}

}  // namespace

std::vector<Member> load_members(const std::vector<std::string>& decks,
                                 const std::vector<std::string>& overrides, bool needs_model,
                                 const std::optional<EarlierRun>& earlier, const FurtherChecks& further) {
  Config config;
  if (needs_model && decks.empty() && overrides.empty() && !earlier)
    throw InputError(SourceLocation{}, "", "found no deck",
                     "allowed: decks, for instance inputs/train/isaac_cartpole.yaml, and keys, for instance "
                     "model.file=robot.xml");
  DeckValue root;
  root.kind = Kind::map;
  if (earlier) {
    root = read_deck_text(earlier->results, earlier->deck, config.deck_text);
    for (const std::string& path : earlier->without) apply_override(root, path + "=~");
    for (const std::string& assignment : earlier->overrides) apply_override(root, assignment);
    config.earlier_results = earlier->results;
    config.where_deck = {earlier->results, 0, 0};
  }
  for (const std::string& given : decks) {
    const std::vector<std::string> known = known_paths();
    if (std::error_code none;
        !std::filesystem::exists(given, none) && std::find(known.begin(), known.end(), given) != known.end())
      throw InputError(SourceLocation{}, given, "found no value",
                       "allowed: " + given + "=<value>, without spaces around '='");
    const std::string deck = deck_file(given);
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
    members[i].config = configure(trees[i], as_given, members[i].name, needs_model, further);
  }
  check_differences(members);
  return members;
}

}  // namespace maniple
