// Every key that a deck may hold, in one table: where it lands in Config, its range or choices, its
// unit and its meaning. Checks, `maniple schema` and the dump of the resolved deck all walk it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "src/config/config.hpp"
#include "src/config/document.hpp"

namespace maniple {

// A member that is one of the choices of config.hpp, whichever.
struct ChoiceMember {
  std::vector<std::string> texts;  // of all choices
  std::function<std::string()> text;
  std::function<void(const std::string&)> set;  // one of the texts
};

// The member that a key sets. A vector of doubles is a number or a range [low, high], empty where not given;
// an optional one is a range, an array a vector [x, y], an optional array a vector of three.
using Target =
    std::variant<bool*, int*, std::int64_t*, std::uint32_t*, double*, std::string*, std::vector<int>*,
                 std::vector<std::string>*, std::optional<std::vector<double>>*, std::optional<double>*,
                 std::array<double, 2>*, std::optional<std::array<double, 3>>*, std::vector<double>*,
                 PerElement*, Ranges*, ChoiceMember>;

template <class Member>
Target target_of(Member* member) {
  if constexpr (std::is_enum_v<Member>)
    return ChoiceMember{{kTextsOf<Member>.begin(), kTextsOf<Member>.end()},
                        [member] { return text_of(*member); },
                        [member](const std::string& text) { *member = choice_of<Member>(text).value(); }};
  else
    return member;
}

// Allowed values of a key, beyond its type.
struct Allowed {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool above_low = false;                 // low itself is not allowed
  std::vector<std::string> choices = {};  // of texts; empty: any text
  bool expressions = false;               // in place of numbers
};

// What a key is to the runs that come after: those that resume, and those that use what was learned.
enum KeyFlag : unsigned {
  kOfImitation = 1,    // says nothing to what learns in environments
  kOfFirstPolicy = 2,  // of the policy that a run begins with
  kLasting = 4,  // a run that resumes keeps it: it acts at the beginning alone, or random numbers, counts
                 // of steps, the order of samples or sizes of arrays depend on it
  kOfUse = 8,    // of how a policy acts, not of what it has learned
  kOfRun = 16,   // of how a run is kept, or which data it reads; no setting of learning
};

struct Key {
  std::string path;
  Target (*target)(Config&);
  Allowed allowed;
  std::string unit;  // "1": a plain number; "": no number
  std::string meaning;
  unsigned flags = 0;

  bool is(KeyFlag flag) const { return (flags & flag) != 0; }
};

// A key of a sub-terrain: the same table for what stands inside `terrain.sub_terrains.<name>`.
struct SubTerrainKey {
  std::string name;
  Target (*target)(SubTerrainConfig&);
  unsigned types;         // bits of SubTerrainType: those that read it
  bool required = false;  // by all of them
  Allowed allowed;
  std::string unit;
  std::string meaning;

  bool stands_in(SubTerrainType type) const { return (types & (1u << static_cast<unsigned>(type))) != 0; }
};

// What a term of a task is, each kind in a section of its own; as bits, because a term key may serve several.
enum class TermKind {
  action,
  observation,
  critic_observation,
  reward,
  termination,
  reset,
  variable,
  command,
  event,
  curriculum,
  metric
};
constexpr unsigned bit_of(TermKind kind) {
  return 1u << static_cast<unsigned>(kind);
}
inline constexpr unsigned kActions = bit_of(TermKind::action),
                          kObservations =
                              bit_of(TermKind::observation) | bit_of(TermKind::critic_observation),
                          kRewards = bit_of(TermKind::reward), kTerminations = bit_of(TermKind::termination),
                          kResets = bit_of(TermKind::reset), kVariables = bit_of(TermKind::variable),
                          kCommands = bit_of(TermKind::command), kEvents = bit_of(TermKind::event),
                          kCurricula = bit_of(TermKind::curriculum), kMetrics = bit_of(TermKind::metric),
                          kTerms = ~(kVariables | kCurricula | kMetrics), kAllSections = ~0u;

// A key of a term: the same table for what stands inside `task.rewards.<name>` and its like.
struct TermKey {
  std::string name;
  Target (*target)(TermConfig&);
  unsigned sections;
  Allowed allowed;
  std::string unit;
  std::string meaning;

  bool stands_in(TermKind kind) const { return (sections & bit_of(kind)) != 0; }
};

struct SectionKey {
  std::string name;  // below `task`
  TermKind kind;
  std::vector<TermConfig> TaskConfig::*terms;
  bool named;  // a mapping name -> term, not a list of terms
  std::string meaning;
};

const std::vector<Key>& schema();
// Null: no such key.
const Key* key_named(std::string_view path);
const std::vector<TermKey>& term_schema();
const std::vector<SectionKey>& section_schema();
const std::vector<SubTerrainKey>& sub_terrain_schema();
const SectionKey& section_of(TermKind kind);

// Checks a value against a key's type, range and choices, and stores it. `key` is for the message.
void assign(const Target& target, const Allowed& allowed, const std::string& key, const DeckValue& value);

// "integer, 1 to 10", "text: zero | random", ...
std::string allowed_text(const Target& target, const Allowed& allowed);
bool in_range(double value, const Allowed& allowed);
// The value that a target holds, as YAML.
std::string yaml_text(const Target& target);
std::string yaml_quoted(const std::string& text);
// The shortest text that reads back as the same number.
std::string yaml_number(double value);
// Reads a number; false when the value is none (text in quotes, trailing letters, not finite).
bool read_number(const DeckValue& value, double& number);
// The same, or a text, which is an expression; false when the value is neither.
bool read_number(const DeckValue& value, TermNumber& number);
std::string yaml_number(const TermNumber& number);
// A parameter of a term: a number, or [low, high].
std::string yaml_text(const std::vector<TermNumber>& numbers);

// The candidate nearest to an unknown key: by edit distance, or with the same last part in another
// section. Empty when nothing is near.
std::string nearest(const std::string& unknown, const std::vector<std::string>& candidates);

}  // namespace maniple
