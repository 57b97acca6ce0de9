#include "src/model_import/model_source.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

namespace maniple {
namespace {

namespace fs = std::filesystem;

std::string read_file(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// An XML tag: text[begin, end) from '<' to '>'.
struct Tag {
  std::size_t begin = 0, end = 0;
  std::string name;
};

// The next tag from `position` on, skipping comments, CDATA, declarations; false at the end.
bool next_tag(const std::string& text, std::size_t position, Tag& tag) {
  auto skip_to = [&](std::size_t from, const char* end) {
    const std::size_t at = text.find(end, from);
    return at == std::string::npos ? text.size() : at + std::strlen(end);
  };
  while ((position = text.find('<', position)) != std::string::npos) {
    if (text.compare(position, 4, "<!--") == 0) {
      position = skip_to(position, "-->");
    } else if (text.compare(position, 9, "<![CDATA[") == 0) {
      position = skip_to(position, "]]>");
    } else if (text.compare(position, 2, "<?") == 0) {
      position = skip_to(position, "?>");
    } else if (text.compare(position, 2, "<!") == 0) {
      position = skip_to(position, ">");
    } else {
      tag.begin = position;
      std::size_t at = position + 1;
      for (char quote = 0; at < text.size() && (quote != 0 || text[at] != '>'); ++at) {
        if (quote != 0) {
          if (text[at] == quote) quote = 0;
        } else if (text[at] == '"' || text[at] == '\'') {
          quote = text[at];
        }
      }
      tag.end = std::min(at + 1, text.size());
      const std::size_t name_end = text.find_first_of(" \t\r\n/>", position + 2);
      tag.name = text.substr(position + 1, std::min(name_end, tag.end) - position - 1);
      return true;
    }
  }
  return false;
}

// The value of an attribute of a tag, or "" and false.
bool attribute_value(const std::string& text, const Tag& tag, const std::string& attribute,
                     std::string* value = nullptr) {
  std::size_t at = tag.begin;
  while ((at = text.find(attribute, at + 1)) != std::string::npos && at < tag.end) {
    if (!std::isspace(static_cast<unsigned char>(text[at - 1]))) continue;
    const std::size_t equals = text.find_first_not_of(" \t\r\n", at + attribute.size());
    if (equals == std::string::npos || text[equals] != '=') continue;
    const std::size_t open = text.find_first_of("\"'", equals);
    if (open == std::string::npos || open >= tag.end) return false;
    const std::size_t close = text.find(text[open], open + 1);
    if (close == std::string::npos) return false;
    if (value != nullptr) *value = text.substr(open + 1, close - open - 1);
    return true;
  }
  return false;
}

int line_of(const std::string& text, std::size_t position) {
  return 1 + static_cast<int>(
                 std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(position), '\n'));
}

// The number behind "line " or "line number=" in libmujoco's text; 0: none.
int line_number(const std::string& text) {
  for (const char* mark : {"ine number=", "line = ", "line "}) {
    const std::size_t at = text.rfind(mark);
    if (at != std::string::npos) return std::atoi(text.c_str() + at + std::strlen(mark));
  }
  return 0;
}

}  // namespace

ModelSource::ModelSource(const std::string& path) : path_(path) {
  text_ = expand(path, fs::path(path).parent_path().string(), 0);
}

ModelSource ModelSource::of_binary(const std::string& path) {
  ModelSource source;
  source.path_ = path;
  return source;
}

// Appends one location per line, in step with the text that it returns.
std::string ModelSource::expand(const std::string& path, const std::string& directory, int depth) {
  const std::string text = read_file(path);
  std::size_t begin = 0, end = text.size();
  Tag tag;
  if (depth > 0) {  // of an included file: what is between the root's tags
    if (!next_tag(text, 0, tag)) return "";
    begin = tag.end;
    end = std::max(begin, std::min(text.size(), text.rfind("</")));
  }
  std::string result;
  int line = line_of(text, begin);
  if (lines_.empty()) lines_.push_back({path, line, 0});
  auto copy = [&](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i) {
      result += text[i];
      if (text[i] == '\n') lines_.push_back({path, ++line, 0});
    }
  };
  std::size_t copied = begin;
  for (std::size_t at = begin; next_tag(text, at, tag) && tag.begin < end; at = tag.end) {
    std::string file;
    if (tag.name != "include" || !attribute_value(text, tag, "file", &file) || depth > 20) continue;
    // libmujoco looks beside the main file first, then beside the including one.
    fs::path target = fs::path(path_).parent_path() / file;
    if (!fs::exists(target)) target = fs::path(directory) / file;
    if (!fs::exists(target)) continue;
    has_includes_ = true;
    copy(copied, tag.begin);
    result += '\n';
    lines_.push_back({target.string(), 1, 0});
    {
      // The included text starts in the middle of a line of its file.
      const std::string included_text = read_file(target.string());
      Tag root;
      if (next_tag(included_text, 0, root)) lines_.back().line = line_of(included_text, root.end);
    }
    result += expand(target.string(), target.parent_path().string(), depth + 1);
    result += '\n';
    line += line_of(text, tag.end) - line_of(text, tag.begin);
    lines_.push_back({path, line, 0});
    copied = tag.end;
  }
  copy(copied, end);
  return result;
}

SourceLocation ModelSource::location(int expanded_line) const {
  if (expanded_line >= 1 && expanded_line <= static_cast<int>(lines_.size()))
    return lines_[static_cast<std::size_t>(expanded_line - 1)];
  return {path_, 0, 0};
}

const std::vector<ModelSource::ElementLine>& ModelSource::elements(const mjSpec* spec, mjtObj type) {
  auto [entry, is_new] = elements_.try_emplace(type);
  if (!is_new) return entry->second;
  // libmujoco keeps the lines of the main file only; so parse the expanded text for the others.
  char error[1000] = "";
  std::unique_ptr<mjSpec, void (*)(mjSpec*)> expanded(
      has_includes_ ? mj_parseXMLString(text_.c_str(), nullptr, error, sizeof(error)) : nullptr,
      mj_deleteSpec);
  const mjSpec* listed = expanded ? expanded.get() : spec;
  if (listed == nullptr || (has_includes_ && !expanded)) return entry->second;
  for (mjsElement* e = mjs_firstElement(listed, type); e != nullptr; e = mjs_nextElement(listed, e)) {
    const mjString* info = nullptr;
    switch (type) {
      case mjOBJ_BODY:
        info = mjs_asBody(e)->info;
        break;
      case mjOBJ_JOINT:
        info = mjs_asJoint(e)->info;
        break;
      case mjOBJ_GEOM:
        info = mjs_asGeom(e)->info;
        break;
      case mjOBJ_ACTUATOR:
        info = mjs_asActuator(e)->info;
        break;
      case mjOBJ_SENSOR:
        info = mjs_asSensor(e)->info;
        break;
      case mjOBJ_TENDON:
        info = mjs_asTendon(e)->info;
        break;
      case mjOBJ_EQUALITY:
        info = mjs_asEquality(e)->info;
        break;
      case mjOBJ_PAIR:
        info = mjs_asPair(e)->info;
        break;
      case mjOBJ_FLEX:
        info = mjs_asFlex(e)->info;
        break;
      case mjOBJ_PLUGIN:
        info = mjs_asPlugin(e)->info;
        break;
      default:
        break;
    }
    entry->second.push_back(
        {mjs_getString(mjs_getName(e)), info == nullptr ? 0 : line_number(mjs_getString(info))});
  }
  return entry->second;
}

SourceLocation ModelSource::element(const mjSpec* spec, mjtObj type, int id, const std::string& name) {
  const std::vector<ElementLine>& list = elements(spec, type);
  int line = 0;
  if (id >= 0 && id < static_cast<int>(list.size()) && list[static_cast<std::size_t>(id)].name == name)
    line = list[static_cast<std::size_t>(id)].line;
  if (line == 0 && !name.empty())
    for (const ElementLine& e : list)
      if (e.name == name) line = e.line;
  if (line > 0) return location(line);
  // URDF, or generated elements: the first tag of that name, preferably of that kind.
  const std::string kind = mju_type2Str(type) != nullptr ? mju_type2Str(type) : "";
  for (const bool same_kind : {true, false}) {
    Tag tag;
    for (std::size_t at = 0; !name.empty() && next_tag(text_, at, tag); at = tag.end) {
      std::string value;
      if (attribute_value(text_, tag, "name", &value) && value == name && (!same_kind || tag.name == kind))
        return location(line_of(text_, tag.begin));
    }
  }
  return {path_, 0, 0};
}

SourceLocation ModelSource::attribute(const std::string& tag_name, const std::string& attribute) const {
  Tag tag;
  for (std::size_t at = 0; next_tag(text_, at, tag); at = tag.end)
    if (tag.name == tag_name && attribute_value(text_, tag, attribute))
      return location(line_of(text_, tag.begin));
  return {path_, 0, 0};
}

SourceLocation ModelSource::of_message(const std::string& message) const {
  const int line = line_number(message);
  // Lines of the main file count from its start; "line 0" is a line of an included file.
  if (line > 0) return {path_, line, 0};
  if (!has_includes_) return {path_, 0, 0};
  std::vector<std::string> words;
  for (std::size_t open = message.find('\''); open != std::string::npos;) {
    const std::size_t close = message.find('\'', open + 1);
    if (close == std::string::npos) break;
    if (close > open + 1) words.push_back(message.substr(open + 1, close - open - 1));
    open = message.find('\'', close + 1);
  }
  SourceLocation best{path_, 0, 0};
  std::size_t best_count = 0, begin = 0;
  for (std::size_t i = 0; i < lines_.size() && begin <= text_.size(); ++i) {
    const std::size_t end = std::min(text_.find('\n', begin), text_.size());
    const std::string content = text_.substr(begin, end - begin);
    std::size_t count = 0;
    for (const std::string& word : words) count += content.find(word) != std::string::npos ? 1 : 0;
    if (count > best_count) {
      best_count = count;
      best = lines_[i];
    }
    begin = end + 1;
  }
  return best;
}

}  // namespace maniple
