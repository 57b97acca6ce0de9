#include "src/model_import/urdf_words.hpp"

#include <regex>
#include <utility>

namespace maniple {

std::string in_urdf_words(const std::string& message) {
  static const std::pair<std::regex, const char*> words[]{
      {std::regex("equality constraint( \\d+)?"), "<mimic>"},
      {std::regex("\\bbodies\\b"), "links"},
      {std::regex("\\b(body|Body)\\b"), "link"},
      {std::regex("\\bgeoms?\\b"), "<collision> or <visual>"},
      {std::regex("Element name '', id \\d+"), "of an element without a name"},
      {std::regex("Element name ('[^']*'), id \\d+"), "of $1"},
      {std::regex("Element '([^']*)'"), "<$1>"}};
  std::string text = message;
  for (const auto& [word, ours] : words) text = std::regex_replace(text, word, ours);
  return text;
}

std::string urdf_tag(const std::string& kind) {
  if (kind == "body" || kind == "xbody") return "link";
  if (kind == "geom") return "collision";
  if (kind == "equality") return "mimic";
  return kind == "joint" ? kind : "";
}

std::string urdf_label(const std::string& tag, const std::string& name, const std::string& link) {
  const std::string element = "<" + tag + (name.empty() ? "" : " name=\"" + name + "\"") + ">";
  return tag == "collision" && !link.empty() ? element + " of <link name=\"" + link + "\">" : element;
}

}  // namespace maniple
