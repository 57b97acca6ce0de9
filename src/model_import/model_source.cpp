#include "src/model_import/model_source.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <regex>
#include <sstream>
#include <utility>

#include "src/model_import/mujoco_guard.hpp"

namespace maniple {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxCopies = 4096;  // libmujoco needs minutes for a chain of a thousand bodies

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

// Where the value of an attribute of a tag begins and ends; npos: it has none.
struct Span {
  std::size_t begin = std::string::npos, end = std::string::npos;
};
Span attribute_span(const std::string& text, const Tag& tag, const std::string& attribute) {
  std::size_t at = tag.begin;
  while ((at = text.find(attribute, at + 1)) != std::string::npos && at < tag.end) {
    if (!std::isspace(static_cast<unsigned char>(text[at - 1]))) continue;
    const std::size_t equals = text.find_first_not_of(" \t\r\n", at + attribute.size());
    if (equals == std::string::npos || text[equals] != '=') continue;
    const std::size_t open = text.find_first_of("\"'", equals);
    if (open == std::string::npos || open >= tag.end) return {};
    const std::size_t close = text.find(text[open], open + 1);
    if (close == std::string::npos) return {};
    return {open + 1, close};
  }
  return {};
}

// The value of an attribute of a tag, or "" and false.
bool attribute_value(const std::string& text, const Tag& tag, const std::string& attribute,
                     std::string* value = nullptr) {
  const Span span = attribute_span(text, tag, attribute);
  if (span.begin == std::string::npos) return false;
  if (value != nullptr) *value = text.substr(span.begin, span.end - span.begin);
  return true;
}

// The names of a tag's attributes.
std::vector<std::string> attributes_of(const std::string& text, const Tag& tag) {
  std::vector<std::string> names;
  for (std::size_t at = tag.begin + 1 + tag.name.size(); at < tag.end;) {
    const std::size_t name = text.find_first_not_of(" \t\r\n", at), equals = text.find('=', at);
    if (name >= tag.end || equals >= tag.end) break;
    names.push_back(text.substr(name, text.find_first_of(" \t\r\n=", name) - name));
    const std::size_t open = text.find_first_of("\"'", equals);
    at = open == std::string::npos ? tag.end : text.find(text[open], open + 1);
    if (at != std::string::npos) ++at;
  }
  return names;
}

bool is_closed(const std::string& text, const Tag& tag) {
  return tag.end >= 2 && text[tag.end - 2] == '/';
}

// Behind the closing tag of the element that a tag opens.
std::size_t end_of_element(const std::string& text, const Tag& tag) {
  int depth = is_closed(text, tag) ? 0 : 1;
  Tag inner = tag;
  while (depth > 0 && next_tag(text, inner.end, inner)) {
    if (inner.name == "/" + tag.name)
      --depth;
    else if (inner.name == tag.name && !is_closed(text, inner))
      ++depth;
  }
  return inner.end;
}

// A text without what it has there, but for the line breaks: the lines stay, for messages.
void blank(std::string& text, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i)
    if (text[i] != '\n') text[i] = ' ';
}

int line_of(const std::string& text, std::size_t position) {
  return 1 + static_cast<int>(
                 std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(position), '\n'));
}

// The number behind "line " or "line number=" in libmujoco's text, and the file that annotate() may have
// written behind it; 0: none.
SourceLocation line_in(const std::string& text) {
  for (const char* mark : {"ine number=", "line = ", "line "}) {
    const std::size_t at = text.rfind(mark);
    if (at == std::string::npos) continue;
    const std::size_t number = at + std::strlen(mark), end = text.find_first_not_of("0123456789", number);
    SourceLocation where{"", std::atoi(text.c_str() + number), 0};
    if (end != std::string::npos && text.compare(end, 4, " of ") == 0)
      where.file = text.substr(end + 4, text.find('\n', end) - end - 4);
    return where;
  }
  return {};
}

// The info of an element, which libmujoco has for these types; else null.
mjString* info_of_element(mjsElement* e, mjtObj type) {
  switch (type) {
    case mjOBJ_BODY:
      return mjs_asBody(e)->info;
    case mjOBJ_JOINT:
      return mjs_asJoint(e)->info;
    case mjOBJ_GEOM:
      return mjs_asGeom(e)->info;
    case mjOBJ_ACTUATOR:
      return mjs_asActuator(e)->info;
    case mjOBJ_SENSOR:
      return mjs_asSensor(e)->info;
    case mjOBJ_TENDON:
      return mjs_asTendon(e)->info;
    case mjOBJ_EQUALITY:
      return mjs_asEquality(e)->info;
    case mjOBJ_PAIR:
      return mjs_asPair(e)->info;
    case mjOBJ_FLEX:
      return mjs_asFlex(e)->info;
    case mjOBJ_PLUGIN:
      return mjs_asPlugin(e)->info;
    default:
      return nullptr;
  }
}
constexpr mjtObj kTypesWithInfo[] = {mjOBJ_BODY,   mjOBJ_JOINT,    mjOBJ_GEOM, mjOBJ_ACTUATOR, mjOBJ_SENSOR,
                                     mjOBJ_TENDON, mjOBJ_EQUALITY, mjOBJ_PAIR, mjOBJ_FLEX,     mjOBJ_PLUGIN};

constexpr int kDeepest = 20;  // files within files

}  // namespace

ModelSource::ModelSource(const std::string& path) : ModelSource(path, 0) {}

ModelSource::ModelSource(const std::string& path, int depth) : path_(path) {
  text_ = expand(path, fs::path(path).parent_path().string(), depth);
  check_copies();
}

ModelSource::ModelSource(const std::string& path, const std::string& overlay) : ModelSource(path) {
  Tag root;
  if (!next_tag(text_, 0, root) || root.name != "mujoco")
    throw InputError({path}, "model.overlay", "found " + overlay + " merged into a model that is not MJCF",
                     "allowed: with MJCF");
  if (!attached_.empty())
    throw InputError({path}, "model.overlay", "found " + overlay + " merged into a model with <attach>",
                     "allowed: with a model without");
  lay_over(overlay);
  check_copies();
}

void ModelSource::lay_over(const std::string& overlay) {
  overlay_ = overlay;
  const std::string text = read_file(overlay);
  Tag tag;
  if (!next_tag(text, 0, tag) || tag.name != "mujoco")
    throw InputError({overlay}, "model.overlay", "found a file without <mujoco>", "allowed: MJCF");
  const std::size_t begin = tag.end, end = std::max(begin, std::min(text.size(), text.rfind("</")));
  std::string added = text.substr(begin, end - begin);
  bool editing = false;
  for (std::size_t at = begin; next_tag(text, at, tag) && tag.begin < end; at = tag.end) {
    const bool marks = tag.name == "edit" || tag.name == "/edit";
    if (marks) editing = tag.name == "edit" && !is_closed(text, tag);
    if (!marks && !editing) continue;
    if (!marks && tag.name[0] != '/')
      edit(overlay, text.substr(tag.begin, tag.end - tag.begin), line_of(text, tag.begin));
    blank(added, tag.begin - begin, tag.end - begin);
  }
  const std::size_t place = std::min(text_.size(), text_.rfind("</"));
  const auto line = static_cast<std::size_t>(line_of(text_, place));
  std::vector<SourceLocation> lines;
  for (int i = line_of(text, begin); i <= line_of(text, end); ++i) lines.push_back({overlay, i, 0});
  lines.push_back(lines_[line - 1]);
  lines_.insert(lines_.begin() + static_cast<std::ptrdiff_t>(line), lines.begin(), lines.end());
  text_ = text_.substr(0, place) + "\n" + added + "\n" + text_.substr(place);
  has_includes_ = true;
}

// `element`: a tag of the overlay.
void ModelSource::edit(const std::string& overlay, const std::string& element, int line) {
  Tag change;
  next_tag(element, 0, change);
  std::string pattern;
  if (!attribute_value(element, change, "name", &pattern))
    throw InputError(
        {overlay, line, 0}, "model.overlay", "found <" + change.name + "> without a name in <edit>",
        "allowed: name=\"...\", a name of the model or a pattern, or \"\" for those without a name");
  std::regex names;
  try {
    names = std::regex(pattern);
  } catch (const std::regex_error&) {
    throw InputError({overlay, line, 0}, "model.overlay", "'" + pattern + "' is not a regular expression",
                     "allowed: a name, or a pattern such as '.*_knee'");
  }
  std::string remove;
  const bool removes = attribute_value(element, change, "remove", &remove);
  if (removes && (remove != "true" || attributes_of(element, change).size() != 2))
    throw InputError({overlay, line, 0}, "model.overlay", "found " + element + " in <edit>",
                     "allowed: remove=\"true\", with the name alone");
  int matches = 0, open_defaults = 0;
  std::string known;
  Tag tag;
  for (std::size_t at = 0; next_tag(text_, at, tag); at = tag.end) {
    if (tag.name == "default" && !is_closed(text_, tag)) ++open_defaults;
    if (tag.name == "/default") --open_defaults;
    if (tag.name != change.name) continue;
    std::string name;
    if (attribute_value(text_, tag, "name", &name)) {
      known += (known.empty() ? "" : ", ") + name;
      if (!std::regex_match(name, names)) continue;
    } else if (!pattern.empty() || open_defaults > 0) {
      continue;
    }
    ++matches;
    if (removes) {
      blank(text_, tag.begin, end_of_element(text_, tag));
      continue;
    }
    for (const std::string& attribute : attributes_of(element, change)) {
      if (attribute == "name") continue;
      std::string value;
      attribute_value(element, change, attribute, &value);
      const Span old = attribute_span(text_, tag, attribute);
      if (old.begin != std::string::npos)
        text_.replace(old.begin, old.end - old.begin, value);
      else
        text_.insert(tag.begin + 1 + tag.name.size(), " " + attribute + "=\"" + value + "\"");
      next_tag(text_, tag.begin, tag);  // it may be longer now
    }
  }
  if (matches == 0)
    throw InputError({overlay, line, 0}, "model.overlay",
                     "the model has no <" + change.name + "> whose name matches '" + pattern + "'",
                     known.empty() ? "it has none with a name" : "allowed: " + known);
}

bool ModelSource::can_edit(const std::string& tag_name, const std::string& name) const {
  Tag tag;
  if (name.empty() || !attached_.empty() || !next_tag(text_, 0, tag) || tag.name != "mujoco") return false;
  for (std::size_t at = 0; next_tag(text_, at, tag); at = tag.end) {
    std::string value;
    if (tag.name == tag_name && attribute_value(text_, tag, "name", &value) && value == name &&
        (overlay_.empty() || location(line_of(text_, tag.begin)).file != overlay_))
      return true;
  }
  return false;
}

// Replicates stand in each other, and around the other two.
void ModelSource::check_copies() const {
  std::vector<double> around{1};  // copies that the open replicates make
  Tag tag;
  for (std::size_t at = 0; next_tag(text_, at, tag); at = tag.end) {
    if (tag.name == "/replicate" && around.size() > 1) around.pop_back();
    if (tag.name != "replicate" && tag.name != "composite" && tag.name != "flexcomp") continue;
    std::string counts;
    attribute_value(text_, tag, "count", &counts);
    double copies = around.back();
    std::istringstream numbers(counts);
    for (double count; numbers >> count;) copies *= std::max(1.0, count);
    if (copies > kMaxCopies) {
      std::string found = "found <" + tag.name + " count=\"" + counts + "\">";
      if (around.back() > 1) found += " in <replicate>";
      char total[32];
      std::snprintf(total, sizeof total, "%.15g", copies);
      throw InputError(location(line_of(text_, tag.begin)), "", found + ", " + total + " copies in all",
                       "allowed: at most " + std::to_string(kMaxCopies));
    }
    if (tag.name == "replicate" && !is_closed(text_, tag)) around.push_back(copies);
  }
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
  if (path != path_) {  // of an included file: what is between the root's tags
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
    const bool attached = tag.name == "model";
    if ((tag.name != "include" && !attached) || !attribute_value(text, tag, "file", &file) ||
        depth > kDeepest)
      continue;
    // libmujoco looks beside the main file first, then beside the including one.
    fs::path target = fs::path(path_).parent_path() / file;
    std::error_code ignored;
    if (!fs::is_regular_file(target, ignored)) target = fs::path(directory) / file;
    if (!fs::is_regular_file(target, ignored)) continue;  // libmujoco says so
    if (attached) {
      std::string name;
      attribute_value(text, tag, "name", &name);
      add_attached_model(file, target.string(), name, depth + 1);
      continue;
    }
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
    copied = end_of_element(text, tag);
    line += line_of(text, copied) - line_of(text, tag.begin);
    lines_.push_back({path, line, 0});
  }
  copy(copied, end);
  return result;
}

void ModelSource::add_attached_model(const std::string& file, const std::string& path,
                                     const std::string& name, int depth) {
  AttachedModel model{name, file, ModelSource(path, depth)};
  Tag root;
  // without a name it has that of its root
  if (name.empty() && next_tag(model.source.text_, 0, root))
    attribute_value(model.source.text_, root, "model", &model.name);
  const fs::path directory = fs::path(file).parent_path();
  std::vector<AttachedModel> deeper = std::move(model.source.attached_);
  model.source.attached_.clear();
  attached_.push_back(std::move(model));
  for (AttachedModel& other : deeper) {
    other.file = (directory / other.file).string();
    attached_.push_back(std::move(other));
  }
}

bool ModelSource::any_includes() const {
  return has_includes_ || std::any_of(attached_.begin(), attached_.end(),
                                      [](const AttachedModel& model) { return model.source.has_includes_; });
}

SourceLocation ModelSource::location(int expanded_line) const {
  if (expanded_line >= 1 && expanded_line <= static_cast<int>(lines_.size()))
    return lines_[static_cast<std::size_t>(expanded_line - 1)];
  return {path_, 0, 0};
}

std::string ModelSource::info_of(const SourceLocation& where) const {
  return "line " + std::to_string(where.line) + (where.file == path_ ? "" : " of " + where.file);
}

SourceLocation ModelSource::of_info(const std::string& info) const {
  SourceLocation where = line_in(info);
  if (where.file.empty()) where.file = path_;
  return where;
}

void ModelSource::annotate(mjSpec* spec) const {
  if (is_urdf()) return annotate_urdf(spec);
  // libmujoco keeps the lines of whole files only; so it parses the expanded texts for the others
  std::unique_ptr<mjSpec, void (*)(mjSpec*)> expanded(nullptr, mj_deleteSpec);
  if (any_includes()) {
    mjVFS files;
    mj_defaultVFS(&files);
    for (const AttachedModel& model : attached_)
      mj_addBufferVFS(&files, model.file.c_str(), model.source.text_.data(),
                      static_cast<int>(model.source.text_.size()));
    char error[1000] = "";
    std::vector<std::string> ignored;  // they have been told once
    try {
      guarded([&] { expanded.reset(mj_parseXMLString(text_.c_str(), &files, error, sizeof(error))); },
              ignored);
    } catch (const Error&) {
    }
    mj_deleteVFS(&files);
    if (!expanded) return;
  }
  const mjSpec* const listed = expanded ? expanded.get() : spec;
  const auto source_of = [&](const mjSpec* origin) -> const ModelSource* {
    if (origin == nullptr || origin == listed) return this;
    const std::string name = mjs_getString(origin->modelname);
    for (const AttachedModel& model : attached_)
      if (model.name == name) return &model.source;
    return nullptr;
  };
  for (const mjtObj type : kTypesWithInfo) {
    mjsElement* known = mjs_firstElement(listed, type);
    for (mjsElement* e = mjs_firstElement(spec, type); e != nullptr && known != nullptr;
         e = mjs_nextElement(spec, e), known = mjs_nextElement(listed, known)) {
      const int line = line_in(mjs_getString(info_of_element(known, type))).line;
      const ModelSource* const source = source_of(mjs_getOriginSpec(known));
      if (line > 0 && source != nullptr)
        mjs_setString(info_of_element(e, type), info_of(source->location(line)).c_str());
    }
  }
}

bool ModelSource::is_urdf() const {
  Tag root;
  return next_tag(text_, 0, root) && root.name == "robot";
}

std::string ModelSource::link_at(int line) const {
  std::string link;
  Tag tag;
  for (std::size_t at = 0; next_tag(text_, at, tag) && line_of(text_, tag.begin) <= line; at = tag.end)
    if (tag.name == "link") attribute_value(text_, tag, "name", &link);
  return link;
}

// Links, joints and geoms of a URDF. A link's geoms are in the order of its <visual> and <collision>, or of
// the latter alone.
void ModelSource::annotate_urdf(mjSpec* spec) const {
  struct Link {
    int line = 0;
    std::vector<int> collisions, shapes;
  };
  std::map<std::string, Link> links;
  std::map<std::string, int> joints;
  Link* link = nullptr;
  Tag tag;
  for (std::size_t at = 0; next_tag(text_, at, tag); at = tag.end) {
    const int line = line_of(text_, tag.begin);
    std::string name;
    attribute_value(text_, tag, "name", &name);
    if (tag.name == "link") {
      link = &links[name];
      link->line = line;
    } else if (tag.name == "joint") {
      joints[name] = line;
    } else if (link != nullptr && (tag.name == "visual" || tag.name == "collision")) {
      link->shapes.push_back(line);
      if (tag.name == "collision") link->collisions.push_back(line);
    }
  }
  const auto annotate_element = [&](mjsElement* e, mjtObj type, int line) {
    if (line > 0) mjs_setString(info_of_element(e, type), info_of({path_, line, 0}).c_str());
  };
  for (mjsElement* e = mjs_firstElement(spec, mjOBJ_BODY); e != nullptr; e = mjs_nextElement(spec, e)) {
    const auto found = links.find(mjs_getString(mjs_getName(e)));
    if (found == links.end()) continue;
    const Link& described = found->second;
    annotate_element(e, mjOBJ_BODY, described.line);
    mjsBody* const body = mjs_asBody(e);
    std::vector<mjsElement*> geoms;
    for (mjsElement* g = mjs_firstChild(body, mjOBJ_GEOM, 0); g != nullptr; g = mjs_nextChild(body, g, 0))
      geoms.push_back(g);
    const std::vector<int>& lines =
        geoms.size() == described.shapes.size() ? described.shapes : described.collisions;
    for (std::size_t i = 0; i < geoms.size(); ++i)
      annotate_element(geoms[i], mjOBJ_GEOM, geoms.size() == lines.size() ? lines[i] : described.line);
  }
  for (mjsElement* e = mjs_firstElement(spec, mjOBJ_JOINT); e != nullptr; e = mjs_nextElement(spec, e)) {
    const auto found = joints.find(mjs_getString(mjs_getName(e)));
    if (found != joints.end()) annotate_element(e, mjOBJ_JOINT, found->second);
  }
}

SourceLocation ModelSource::element(const mjSpec* spec, mjtObj type, int id, const std::string& name) const {
  for (mjsElement* e = spec == nullptr ? nullptr : mjs_firstElement(spec, type); e != nullptr;
       e = mjs_nextElement(spec, e)) {
    const mjString* const info = mjs_getId(e) == id ? info_of_element(e, type) : nullptr;
    if (info == nullptr) continue;
    const SourceLocation where = of_info(mjs_getString(info));
    if (where.line > 0) return where;
  }
  // generated elements: the first tag of that name, preferably of that kind
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
  // lines of the main file count from its start; "line 0" is a line of an included file
  const SourceLocation stated = of_info(message);
  if (stated.line > 0) return stated;
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
