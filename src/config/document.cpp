// The parser of decks: YAML into located trees, by yaml-cpp.
#include "src/config/document.hpp"

#include <yaml-cpp/yaml.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <unordered_map>

namespace maniple {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxDepth = 32;               // of nested values, and of includes
constexpr std::size_t kMaxValues = 100000;  // of one deck, anchors counted wherever they are used

// The text of a deck by lines, to find out what the parser does not tell: where a value's first
// character is behind quotes, anchors and block indicators.
class Source {
 public:
  Source(std::string file, const std::string& text) : file_(std::move(file)) {
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines_.push_back(line);
  }
  const std::string& file() const { return file_; }

  // A parser's mark (counted from 0) as a location; on the command line columns mean nothing.
  SourceLocation location(const YAML::Mark& mark) const {
    if (file_.empty()) return {};
    return {file_, mark.line + 1, mark.column + 1};
  }
  // Where the text of a scalar starts: behind anchors, tags and the opening quote, or, for a block,
  // at the first character of the lines below its indicator.
  SourceLocation text_location(const YAML::Mark& mark) const {
    if (file_.empty() || mark.line < 0) return {};
    auto line = static_cast<std::size_t>(mark.line);
    auto column = static_cast<std::size_t>(mark.column);
    while (column < length(line) && (at(line, column) == '&' || at(line, column) == '!')) {
      while (column < length(line) && at(line, column) != ' ') ++column;
      while (column < length(line) && at(line, column) == ' ') ++column;
    }
    const char first = at(line, column);
    if (first == '"' || first == '\'') ++column;
    if (first == '|' || first == '>') {
      const auto below = line + 1;
      for (line = below; line < lines_.size(); ++line) {
        column = lines_[line].find_first_not_of(" \t\r");
        if (column != std::string::npos) break;
      }
      if (line >= lines_.size()) line = below, column = 0;
    }
    return {file_, static_cast<int>(line) + 1, static_cast<int>(column) + 1};
  }
  // Whether the scalar there begins with a quote that nothing closes; the parser then takes all that follows.
  bool quote_stays_open(const YAML::Mark& mark) const {
    if (mark.line < 0) return false;
    auto line = static_cast<std::size_t>(mark.line);
    auto column = static_cast<std::size_t>(mark.column);
    const char quote = at(line, column);
    if (quote != '"' && quote != '\'') return false;
    for (++column; line < lines_.size(); ++line, column = 0)
      for (; column < length(line); ++column)
        if (quote == '"' && at(line, column) == '\\')
          ++column;
        else if (at(line, column) == quote) {
          if (quote == '"' || at(line, column + 1) != quote) return false;
          ++column;
        }
    return true;
  }
  // Whether a null value was written as such; the parser does not tell it from no value at all.
  bool written_null(const YAML::Mark& mark) const {
    if (mark.line < 0 || static_cast<std::size_t>(mark.line) >= lines_.size()) return false;
    const std::string_view rest =
        std::string_view(lines_[static_cast<std::size_t>(mark.line)])
            .substr(std::min<std::size_t>(static_cast<std::size_t>(mark.column),
                                          length(static_cast<std::size_t>(mark.line))));
    for (const std::string_view word : {"~", "null", "Null", "NULL"})
      if (rest.substr(0, word.size()) == word &&
          (rest.size() == word.size() ||
           std::string_view(" \t\r,]}#").find(rest[word.size()]) != std::string_view::npos))
        return true;
    return false;
  }

 private:
  std::size_t length(std::size_t line) const { return line < lines_.size() ? lines_[line].size() : 0; }
  char at(std::size_t line, std::size_t column) const {
    return column < length(line) ? lines_[line][column] : '\0';
  }
  std::string file_;
  std::vector<std::string> lines_;
};

// `values` counts: a few anchors of anchors can stand for more values than any memory holds.
DeckValue convert(const YAML::Node& node, const Source& source, const std::string& path, int depth,
                  std::size_t& values) {
  DeckValue value;
  value.where = source.location(node.Mark());
  if (++values > kMaxValues)
    throw InputError(value.where, path, "found more than " + std::to_string(kMaxValues) + " values",
                     "allowed: fewer, where each use of an anchor counts again");
  if (depth > kMaxDepth)
    throw InputError(value.where, path,
                     "found values nested more than " + std::to_string(kMaxDepth) + " deep",
                     "allowed: fewer levels, no anchor inside itself");
  switch (node.Type()) {
    case YAML::NodeType::Undefined:
    case YAML::NodeType::Null:
      value.kind = source.written_null(node.Mark()) ? DeckValue::Kind::null : DeckValue::Kind::nothing;
      break;
    case YAML::NodeType::Scalar:
      if (source.quote_stays_open(node.Mark()))
        throw InputError(value.where, path, "found a quotation mark without a closing one",
                         "allowed: text between two of them");
      value.kind = DeckValue::Kind::scalar;
      value.text = node.Scalar();
      value.quoted = node.Tag() == "!";
      value.where = source.text_location(node.Mark());
      break;
    case YAML::NodeType::Sequence:
      value.kind = DeckValue::Kind::list;
      for (std::size_t i = 0; i < node.size(); ++i)
        value.list.push_back(
            convert(node[i], source, path + "[" + std::to_string(i) + "]", depth + 1, values));
      break;
    case YAML::NodeType::Map: {
      value.kind = DeckValue::Kind::map;
      std::unordered_map<std::string, int> lines;
      for (const auto& pair : node) {
        const SourceLocation where = source.location(pair.first.Mark());
        if (!pair.first.IsScalar())
          throw InputError(where, path, "found a key that is not plain text", "allowed: names as keys");
        const std::string& key = pair.first.Scalar();
        const std::string key_path = path.empty() ? key : path + "." + key;
        if (const auto [first, is_new] = lines.emplace(key, where.line); !is_new)
          throw InputError(
              where, key_path,
              "found the key a second time (first on line " + std::to_string(first->second) + ")",
              "allowed: each key once");
        value.map.push_back({key, where, {convert(pair.second, source, key_path, depth + 1, values)}});
      }
      break;
    }
  }
  return value;
}

DeckValue parse(const std::string& text, const Source& source, const std::string& path) {
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(text);
    if (documents.size() > 1)
      throw InputError(source.location(documents[1].Mark()), path, "found a second YAML document",
                       "allowed: one document in a file");
    std::size_t values = 0;
    return documents.empty() ? DeckValue{} : convert(documents[0], source, path, 0, values);
  } catch (const YAML::Exception& problem) {
    throw InputError(
        source.location(problem.mark), path, "found text that is not YAML: " + problem.msg,
        "allowed: YAML, 'key: value' on each line, expressions within {} or with ': ' in quotes");
  }
}

// Files that a user may confuse with a deck: XML, or a compiled model.
bool is_model(const std::string& file, const std::string& content) {
  const std::size_t first = content.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  return fs::path(file).extension() == ".mjb" || (first != std::string::npos && content[first] == '<');
}

std::string read_text(const std::string& file, const SourceLocation& from, const std::string& key) {
  std::error_code problem;
  if (!fs::exists(file, problem))
    throw InputError(from, key, "found no file '" + file + "'", "allowed: an existing deck");
  std::ifstream stream(file, std::ios::binary);
  if (!fs::is_regular_file(file, problem) || !stream)
    throw InputError(from, key, "found '" + file + "', which cannot be read", "allowed: a readable deck");
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

// The tree of a deck's own text.
DeckValue mapping_of(const std::string& file, const std::string& content) {
  DeckValue deck = parse(content, Source(file, content), "");
  if (deck.kind == DeckValue::Kind::nothing || deck.kind == DeckValue::Kind::null) {
    deck.kind = DeckValue::Kind::map;
    deck.where = {file, 1, 1};
  }
  if (deck.kind != DeckValue::Kind::map)
    throw InputError({file, 1, 1}, "", "found " + deck.description(),
                     "allowed: a deck, 'key: value' on each line");
  return deck;
}

std::string as_given(const std::string& file, const std::string& content) {
  return "# ---- " + file + "\n" + content + (content.empty() || content.back() == '\n' ? "" : "\n");
}

DeckValue read_deck(const std::string& file, const SourceLocation& from, std::string& text,
                    std::vector<std::string>& open) {
  const std::string identity = fs::weakly_canonical(file).string();
  for (std::size_t i = 0; i < open.size(); ++i)
    if (open[i] == identity) {
      std::string chain;
      for (std::size_t j = i; j < open.size(); ++j) chain += fs::path(open[j]).filename().string() + " -> ";
      throw InputError(from, "include",
                       "found a deck that includes itself: " + chain + fs::path(file).filename().string(),
                       "allowed: includes without cycles");
    }
  if (open.size() > static_cast<std::size_t>(kMaxDepth))
    throw InputError(from, "include", "found includes nested too deep",
                     "allowed: " + std::to_string(kMaxDepth) + " levels");

  const std::string content = read_text(file, from, open.empty() ? "" : "include");
  if (is_model(file, content))
    throw InputError(from, open.empty() ? "" : "include", "found the model '" + file + "' in place of a deck",
                     "allowed: a deck (YAML), which names its model, or model.file=" + file);
  DeckValue deck = mapping_of(file, content);

  // included decks first, in their order; then this deck over them
  DeckValue merged;
  merged.kind = DeckValue::Kind::map;
  merged.where = deck.where;
  open.push_back(identity);
  for (auto entry = deck.map.begin(); entry != deck.map.end(); ++entry) {
    if (entry->key != "include") continue;
    const DeckValue& include = entry->value[0];
    const std::vector<DeckValue> files =
        include.kind == DeckValue::Kind::list ? include.list : std::vector<DeckValue>{include};
    for (const DeckValue& other : files) {
      if (other.kind != DeckValue::Kind::scalar)
        throw InputError(other.where, "include", "found " + other.description(),
                         "allowed: the path of a deck, or a list of paths");
      merge(merged, read_deck((fs::path(file).parent_path() / other.text).lexically_normal().string(),
                              other.where, text, open));
    }
    deck.map.erase(entry);
    break;
  }
  open.pop_back();
  text += as_given(file, content);
  merge(merged, deck);
  return merged;
}

}  // namespace

const DeckEntry* DeckValue::entry(std::string_view key) const {
  for (const DeckEntry& candidate : map)
    if (candidate.key == key) return &candidate;
  return nullptr;
}

const DeckValue* DeckValue::find(std::string_view key) const {
  const DeckEntry* found = entry(key);
  return found ? &found->value[0] : nullptr;
}

std::string DeckValue::description() const {
  switch (kind) {
    case Kind::nothing:
      return "nothing";
    case Kind::null:
      return "null";
    case Kind::scalar:
      return quoted ? "the text \"" + text + "\"" : "'" + text + "'";
    case Kind::list:
      // a range as it stands there, so that the two ends of one that is upside down can be seen
      if (list.size() == 2 && list[0].kind == Kind::scalar && list[1].kind == Kind::scalar)
        return "[" + list[0].text + ", " + list[1].text + "]";
      return "a list of " + std::to_string(list.size());
    case Kind::map:
      return "a mapping";
  }
  return "";
}

DeckValue read_deck(const std::string& file, const SourceLocation& from, std::string& text) {
  std::vector<std::string> open;
  return read_deck(file, from, text, open);
}

DeckValue read_deck_text(const std::string& file, const std::string& content, std::string& text) {
  text += as_given(file, content);
  return mapping_of(file, content);
}

void merge(DeckValue& base, const DeckValue& over) {
  if (over.kind == DeckValue::Kind::nothing && base.kind == DeckValue::Kind::map) return;  // an empty section
  if (base.kind != DeckValue::Kind::map || over.kind != DeckValue::Kind::map) {
    const bool stands =
        base.takes_out || (base.kind != DeckValue::Kind::nothing && base.kind != DeckValue::Kind::null);
    base = over;
    base.takes_out = base.kind == DeckValue::Kind::null && (over.takes_out || stands);
    return;
  }
  std::unordered_map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < base.map.size(); ++i) places.emplace(base.map[i].key, i);
  for (const DeckEntry& entry : over.map) {
    const auto [place, is_new] = places.emplace(entry.key, base.map.size());
    if (is_new) {
      base.map.push_back(entry);
    } else {
      DeckEntry& mine = base.map[place->second];
      mine.where = entry.where;
      merge(mine.value[0], entry.value[0]);
    }
  }
}

bool is_key_path(const std::string& path) {
  return !path.empty() && path.front() != '.' && path.back() != '.' && path.find("..") == std::string::npos;
}

namespace {

// Whether a value of the command line is an expression with ? and : that stands there without quotes, of
// which YAML would make a mapping.
bool is_plain_choice(const std::string& text) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == std::string::npos ||
      std::string_view("{[\"'|>&*!~?").find(text[first]) != std::string_view::npos)
    return false;
  const std::size_t asks = std::min(text.find(" ?"), text.find("? "));
  return asks != std::string::npos && text.find(':', asks) != std::string::npos;
}

}  // namespace

void apply_override(DeckValue& root, const std::string& assignment) {
  const auto equals = assignment.find('=');
  std::string path = assignment.substr(0, equals);
  // an entry of a list is written with a dot here, and with brackets in messages
  for (std::size_t open = path.find('['); open != std::string::npos; open = path.find('[', open + 1))
    if (const std::size_t close = path.find(']', open); close != std::string::npos)
      path = path.substr(0, open) + "." + path.substr(open + 1, close - open - 1) + path.substr(close + 1);
  if (equals == std::string::npos || !is_key_path(path))
    throw InputError(SourceLocation{}, path, "found '" + assignment + "'",
                     "allowed: key.path=value, for instance batch.num_envs=4096");
  const std::string text = assignment.substr(equals + 1);
  DeckValue value;
  if (is_plain_choice(text)) {
    value.kind = DeckValue::Kind::scalar;
    value.text = text;
  } else {
    value = parse(text, Source("", text), path);
  }
  if (value.kind == DeckValue::Kind::nothing)
    throw InputError(SourceLocation{}, path, "found nothing after '='",
                     "allowed: a value, or ~ for the default");
  apply_value(root, path, value);
}

void apply_value(DeckValue& root, const std::string& path, const DeckValue& value) {
  DeckValue* place = &root;
  DeckEntry* holder = nullptr;  // of the place, or of the list that it is in
  std::string walked;
  for (std::size_t first = 0; first <= path.size();) {
    const auto dot = std::min(path.find('.', first), path.size());
    const std::string key = path.substr(first, dot - first);
    first = dot + 1;
    if (place->kind == DeckValue::Kind::list) {
      std::size_t index = 0;
      const auto parsed = std::from_chars(key.data(), key.data() + key.size(), index);
      if (parsed.ec != std::errc() || parsed.ptr != key.data() + key.size() || index >= place->list.size())
        throw InputError(value.where, path, "found '" + key + "' as an entry of " + walked,
                         "allowed: 0 to " + std::to_string(place->list.size() - 1) + ", or the whole list");
      // a number of a range: what is wrong with the range has been given with it
      if (first > path.size() && value.kind == DeckValue::Kind::scalar)
        place->where = holder->where = value.where;
      place = &place->list[index];
    } else {
      if (place->kind != DeckValue::Kind::map) {
        *place = DeckValue{};
        place->kind = DeckValue::Kind::map;
      }
      DeckEntry* entry = nullptr;
      for (DeckEntry& candidate : place->map)
        if (candidate.key == key) entry = &candidate;
      if (!entry) entry = &place->map.emplace_back(DeckEntry{key, {}, {DeckValue{}}});
      if (first > path.size()) entry->where = value.where;
      place = &entry->value[0];
      holder = entry;
    }
    walked += (walked.empty() ? "" : ".") + key;
  }
  merge(*place, value);
}

std::string flow_text(const DeckValue& value) {
  std::string text;
  switch (value.kind) {
    case DeckValue::Kind::nothing:
      break;
    case DeckValue::Kind::null:
      return "~";
    case DeckValue::Kind::scalar:
      return value.quoted ? "'" + value.text + "'" : value.text;
    case DeckValue::Kind::list:
      for (const DeckValue& entry : value.list) text += (text.empty() ? "" : ", ") + flow_text(entry);
      return "[" + text + "]";
    case DeckValue::Kind::map:
      for (const DeckEntry& entry : value.map)
        text += (text.empty() ? "" : ", ") + entry.key + ": " + flow_text(entry.value[0]);
      return "{" + text + "}";
  }
  return text;
}

}  // namespace maniple
