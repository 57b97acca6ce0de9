#include "src/model_import/refusals.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace maniple {
namespace {

constexpr std::size_t kShown = 5;  // elements of a cause

// A pattern that only this name matches.
std::string pattern_of(const std::string& name) {
  std::string pattern;
  for (const char c : name) {
    if (std::string("^$\\.*+?()[]{}|").find(c) != std::string::npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

std::string listed(const Refusals::Group& group) {
  const std::size_t count = group.elements.size();
  const bool common = group.what.starts_with(": ");
  if (count == 1) return "\n  " + group.elements[0] + (common ? "" : " ") + group.what;
  const std::string elements =
      fmt::format("{} {}{}", count, group.noun, group.noun.starts_with('<') ? "" : "s");
  std::string text = common ? fmt::format("\n  {}, of {}:", group.what.substr(2), elements)
                            : fmt::format("\n  {}, each of which {}:", elements, group.what);
  for (std::size_t i = 0; i < std::min(count, kShown); ++i) text += "\n    " + group.elements[i];
  if (count > kShown) text += fmt::format("\n    and {} more", count - kShown);
  return text;
}

std::string overlay(const Refusals::Group& group) {
  std::string text = "\n    an overlay (model.overlay) settles it";
  text += (group.edit_note.empty() ? "" : " " + group.edit_note) + ": <edit>";
  for (const Refusals::Group::Edit& edit : group.edits) {
    std::string names;
    for (const std::string& name : edit.names) names += (names.empty() ? "" : "|") + pattern_of(name);
    text += fmt::format(" <{} name=\"{}\" {}/>", edit.tag, names, edit.attributes);
  }
  return text + " </edit>";
}

}  // namespace

Refusals::Group& Refusals::group(const std::string& noun, const std::string& what) {
  const auto found = std::find_if(groups_.begin(), groups_.end(), [&](const Group& known) {
    return known.noun == noun && known.what == what;
  });
  if (found != groups_.end()) return *found;
  groups_.push_back({noun, what, {}, ""});
  return groups_.back();
}

void Refusals::settled_by_edit(Group& group, const std::string& tag, const std::string& attributes,
                               const std::string& name) const {
  if (!source_.can_edit(tag, name)) return;
  auto edit = std::find_if(group.edits.begin(), group.edits.end(), [&](const Group::Edit& known) {
    return known.tag == tag && known.attributes == attributes;
  });
  if (edit == group.edits.end()) edit = group.edits.insert(edit, {tag, attributes, {}});
  if (std::find(edit->names.begin(), edit->names.end(), name) == edit->names.end())
    edit->names.push_back(name);
}

std::string Refusals::text() const {
  std::string text;
  for (const Group& group : groups_) {
    text += listed(group);
    if (!group.hint.empty()) text += "\n    " + group.hint;
    if (!group.key.empty()) text += "\n    the deck can switch these off: " + group.key;
    if (!group.edits.empty()) text += overlay(group);
  }
  return text;
}

}  // namespace maniple
