// Exact names come before patterns: a name with a dot in it stands for itself where it is known.
#include "src/tasks/language/names.hpp"

#include <algorithm>
#include <regex>

#include "src/config/schema.hpp"

namespace maniple {
namespace {

bool is_pattern(const std::string& name) {
  return name.find_first_of("*+?|()[]\\^$.") != std::string::npos;
}

}  // namespace

std::string list(const std::vector<std::string>& names, std::size_t limit) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < limit; ++i) text += (i > 0 ? ", " : "") + names[i];
  return names.size() > limit ? text + ", ..." : text;
}

std::string did_you_mean(const std::string& unknown, const std::vector<std::string>& known) {
  const std::string near = nearest(unknown, known);
  return near.empty() ? "" : ", did you mean '" + near + "'?";
}

std::string singular(const std::string& kind) {
  return kind.ends_with("ies") ? kind.substr(0, kind.size() - 3) + "y" : kind.substr(0, kind.size() - 1);
}

std::vector<std::size_t> indices_of_name(const std::string& name, const std::vector<std::string>& known) {
  const auto exact = std::find(known.begin(), known.end(), name);
  if (exact != known.end()) return {static_cast<std::size_t>(exact - known.begin())};
  std::vector<std::size_t> result;
  if (!is_pattern(name)) return result;
  const std::regex pattern(name);
  for (std::size_t i = 0; i < known.size(); ++i)
    if (std::regex_match(known[i], pattern)) result.push_back(i);
  return result;
}

std::vector<std::size_t> matching_names(const std::string& entry, const std::vector<std::string>& known,
                                        const SourceLocation& where, const std::string& key,
                                        const std::string& what) {
  std::vector<std::size_t> result;
  try {
    result = indices_of_name(entry, known);
  } catch (const std::regex_error&) {
    throw InputError(where, key, "'" + entry + "' is not a regular expression",
                     "a name or a pattern such as '.*_hip'");
  }
  if (result.empty())
    throw InputError(where, key,
                     (what.empty() ? "no element" : what) + " '" + entry + "'" + did_you_mean(entry, known),
                     known.empty() ? "a number: the term has no named elements" : "allowed: " + list(known));
  return result;
}

}  // namespace maniple
