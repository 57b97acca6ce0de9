// Values of deck keys: how they are read and checked by what a row of the schema allows, and how they are
// written, in messages and in resolved decks.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <type_traits>

#include "src/config/schema.hpp"

namespace maniple {
namespace {

constexpr double kMost = 9e15;  // integers up to here are exact in a double
constexpr double kInt = 2147483647;

template <class T>
inline constexpr bool is_number = std::is_same_v<T, int> || std::is_same_v<T, std::int64_t> ||
                                  std::is_same_v<T, std::uint32_t> || std::is_same_v<T, double>;

std::string range_text(const Allowed& allowed) {
  const bool low = std::isfinite(allowed.low), high = std::isfinite(allowed.high);
  if (low && high && !allowed.above_low)
    return ", " + yaml_number(allowed.low) + " to " + yaml_number(allowed.high);
  std::string text;
  if (low) text += std::string(allowed.above_low ? ", above " : ", at least ") + yaml_number(allowed.low);
  if (high) text += ", at most " + yaml_number(allowed.high);
  return text;
}

bool contains(const std::vector<std::string>& texts, const std::string& text) {
  return std::find(texts.begin(), texts.end(), text) != texts.end();
}

std::string choices_text(const std::vector<std::string>& choices) {
  std::string text;
  for (const std::string& choice : choices)
    text += (text.empty() ? "" : " | ") + (choice.empty() ? "\"\"" : choice);
  return text;
}

[[noreturn]] void refuse(const Target& target, const Allowed& allowed, const std::string& key,
                         const DeckValue& value) {
  std::string text = allowed_text(target, allowed);
  const std::string range = "[low, high]";
  if (const auto at = text.find(range); value.kind == DeckValue::Kind::list && at != std::string::npos)
    text.insert(at + range.size(), " with low <= high");
  if (text == "text" && value.kind == DeckValue::Kind::list)
    text = "text; a vector stands in quotes: \"[1, 2]\"";
  throw InputError(value.where, key, "found " + value.description(), "allowed: " + text);
}

// Restricted Damerau-Levenshtein distance: insertions, deletions, changes and swaps of neighbours.
int edit_distance(const std::string& a, const std::string& b) {
  const std::size_t n = a.size(), m = b.size();
  std::vector<std::vector<int>> d(n + 1, std::vector<int>(m + 1));
  for (std::size_t i = 0; i <= n; ++i) d[i][0] = static_cast<int>(i);
  for (std::size_t j = 0; j <= m; ++j) d[0][j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= n; ++i)
    for (std::size_t j = 1; j <= m; ++j) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[n][m];
}

std::string last_part(const std::string& path) {
  return path.substr(path.rfind('.') + 1);
}

template <class T>
std::string joined(const std::vector<T>& values) {
  std::string text;
  for (const T& value : values) {
    text += text.empty() ? "" : ", ";
    if constexpr (std::is_same_v<T, std::string>)
      text += yaml_quoted(value);
    else if constexpr (std::is_same_v<T, TermNumber>)
      text += yaml_number(value);
    else
      text += yaml_number(static_cast<double>(value));
  }
  return "[" + text + "]";
}

std::string per_element_text(const PerElement& elements) {
  if (!elements.expression.empty()) return yaml_quoted(elements.expression);
  if (elements.named.empty())
    return elements.numbers.size() == 1 ? yaml_number(elements.numbers[0]) : joined(elements.numbers);
  std::string text;
  for (const auto& [name, number] : elements.named)
    text += (text.empty() ? "{" : ", ") + yaml_quoted(name) + ": " + yaml_number(number);
  return text + "}";
}

std::string ranges_text(const Ranges& ranges) {
  if (ranges.keyed.empty()) return ranges.all.empty() ? "~" : joined(ranges.all);
  std::string text;
  for (const auto& [key, range] : ranges.keyed)
    text += (text.empty() ? "{" : ", ") + yaml_quoted(key) + ": " + joined(range);
  return text + "}";
}

}  // namespace

bool read_number(const DeckValue& value, double& number) {
  if (value.kind != DeckValue::Kind::scalar || value.quoted) return false;
  std::string_view text = value.text;
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  if (text.empty() || text.front() == '+') return false;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() && std::isfinite(number);
}

bool read_number(const DeckValue& value, TermNumber& number) {
  if (read_number(value, number.value)) return true;
  if (value.kind != DeckValue::Kind::scalar || value.text.empty() || std::isnan(number.value)) return false;
  number = TermNumber(value.text);
  return true;
}

std::string yaml_number(const TermNumber& number) {
  return number.expression.empty() ? yaml_number(number.value) : yaml_quoted(number.expression);
}

std::string yaml_text(const std::vector<TermNumber>& numbers) {
  return numbers.size() == 1 ? yaml_number(numbers[0])
                             : "[" + yaml_number(numbers[0]) + ", " + yaml_number(numbers[1]) + "]";
}

bool in_range(double value, const Allowed& allowed) {
  return (allowed.above_low ? value > allowed.low : value >= allowed.low) && value <= allowed.high;
}

std::string allowed_text(const Target& target, const Allowed& allowed) {
  return std::visit(
      [&](const auto& member) -> std::string {
        using T = std::remove_pointer_t<std::decay_t<decltype(member)>>;
        if constexpr (std::is_same_v<T, ChoiceMember>) return choices_text(member.texts);
        if constexpr (std::is_same_v<T, bool>) return "true or false";
        if constexpr (std::is_same_v<T, double> || std::is_same_v<T, std::optional<double>>)
          return "number" + range_text(allowed);
        if constexpr (std::is_same_v<T, std::array<double, 2>>) return "[x, y]" + range_text(allowed);
        if constexpr (std::is_same_v<T, std::optional<std::array<double, 3>>>) return "[x, y, z]";
        if constexpr (is_number<T>) return "integer" + range_text(allowed);
        if constexpr (std::is_same_v<T, std::vector<int>>)
          return "list of integers" + range_text(allowed) + ", for instance [64, 64]";
        if constexpr (std::is_same_v<T, std::vector<std::string>>)
          return "list of names, for instance [a, b]";
        if constexpr (std::is_same_v<T, std::optional<std::vector<double>>>) return "[low, high]";
        if constexpr (std::is_same_v<T, PerElement>)
          return std::string("number, list of numbers or mapping from names to numbers") +
                 (allowed.expressions ? ", or an expression" : "");
        if constexpr (std::is_same_v<T, Ranges>)
          return "[low, high], or a mapping from components or names to them";
        if constexpr (std::is_same_v<T, std::vector<double>>)
          return "number or [low, high]" + range_text(allowed);
        return allowed.choices.empty() ? "text" : choices_text(allowed.choices);
      },
      target);
}

namespace {

// Reads a deck's value into the member that its key sets, whatever the member's type.
struct Assignment {
  const Target& target;
  const Allowed& allowed;
  const std::string& key;
  const DeckValue& value;

  void operator()(const ChoiceMember& member) const {
    if (!is_scalar() || !contains(member.texts, value.text)) refuse_value(value);
    member.set(value.text);
  }
  void operator()(bool* member) const {
    if (!is_scalar() || value.quoted || (value.text != "true" && value.text != "false")) refuse_value(value);
    *member = value.text == "true";
  }
  void operator()(std::string* member) const {
    if (!is_scalar() || (!allowed.choices.empty() && !contains(allowed.choices, value.text)))
      refuse_value(value);
    *member = value.text;
  }
  void operator()(std::optional<double>* member) const { *member = number_in_range(value); }
  void operator()(std::array<double, 2>* member) const {
    if (value.list.size() != 2) refuse_value(value);
    const std::vector<double> numbers = numbers_in_range(value.list);
    std::copy(numbers.begin(), numbers.end(), member->begin());
  }
  void operator()(std::optional<std::array<double, 3>>* member) const {
    if (value.list.size() != 3) refuse_value(value);
    const std::vector<double> numbers = numbers_in_range(value.list);
    member->emplace();
    std::copy(numbers.begin(), numbers.end(), (*member)->begin());
  }
  template <class Number>
  void operator()(Number* member) const {
    const double number = number_in_range(value);
    // what the type itself can hold, for rows that do not say it
    if constexpr (!std::is_same_v<Number, double>)
      if (number != std::floor(number) ||
          number < std::max(static_cast<double>(std::numeric_limits<Number>::min()), -kMost) ||
          number > std::min(static_cast<double>(std::numeric_limits<Number>::max()), kMost))
        refuse_value(value);
    *member = static_cast<Number>(number);
  }
  void operator()(PerElement* member) const {
    const auto read = [&](const DeckValue& entry) {
      double number = 0;
      if (!read_number(entry, number)) refuse_value(entry);
      return number;
    };
    std::vector<double> numbers;
    std::vector<std::pair<std::string, double>> named;
    double number = 0;
    const bool expression =
        allowed.expressions && is_scalar() && !value.text.empty() && !read_number(value, number);
    member->expression = expression ? value.text : "";
    if (expression)
      numbers.push_back(0);
    else if (is_scalar())
      numbers.push_back(read(value));
    for (const DeckValue& entry : value.list) numbers.push_back(read(entry));
    for (const DeckEntry& entry : value.map) named.emplace_back(entry.key, read(entry.value[0]));
    if (numbers.empty() && named.empty()) refuse_value(value);
    member->numbers = numbers;
    member->named = named;
  }
  void operator()(Ranges* member) const {
    const auto read = [&](const DeckValue& entry) {
      std::vector<TermNumber> range;
      for (const DeckValue& end : entry.list) {
        range.emplace_back(0);
        if (!read_number(end, range.back())) refuse_value(end);
      }
      if (range.size() != 2) refuse_value(entry);
      return range;
    };
    *member = {};
    for (const DeckEntry& entry : value.map) member->keyed.emplace_back(entry.key, read(entry.value[0]));
    if (value.map.empty()) member->all = read(value);
  }
  // A number, or [low, high].
  void operator()(std::vector<double>* member) const {
    const std::vector<double> numbers = numbers_in_range(is_scalar() ? std::vector{value} : value.list);
    if (numbers.empty() || numbers.size() > 2) refuse_value(value);
    check_order(numbers);
    *member = numbers;
  }
  // [low, high]
  void operator()(std::optional<std::vector<double>>* member) const {
    if (value.list.size() != 2) refuse_value(value);
    const std::vector<double> numbers = numbers_in_range(value.list);
    check_order(numbers);
    *member = numbers;
  }
  void operator()(std::vector<int>* member) const {
    const std::vector<DeckValue> entries = list();
    const std::vector<double> numbers = numbers_in_range(entries);
    for (std::size_t i = 0; i < numbers.size(); ++i)
      if (numbers[i] != std::floor(numbers[i]) || std::abs(numbers[i]) > kInt) refuse_value(entries[i]);
    member->assign(numbers.begin(), numbers.end());
  }
  void operator()(std::vector<std::string>* member) const {
    std::vector<std::string> texts;
    for (const DeckValue& entry : list()) {
      if (entry.kind != DeckValue::Kind::scalar) refuse_value(entry);
      texts.push_back(entry.text);
    }
    *member = texts;
  }

 private:
  bool is_scalar() const { return value.kind == DeckValue::Kind::scalar; }
  [[noreturn]] void refuse_value(const DeckValue& found) const { refuse(target, allowed, key, found); }
  void check_order(const std::vector<double>& range) const {
    if (range.front() > range.back())
      throw InputError(value.where, key, "found " + joined(range), "allowed: [low, high] with low <= high");
  }
  double number_in_range(const DeckValue& entry) const {
    double number = 0;
    if (!read_number(entry, number) || !in_range(number, allowed)) refuse_value(entry);
    return number;
  }
  std::vector<double> numbers_in_range(const std::vector<DeckValue>& entries) const {
    std::vector<double> numbers;
    for (const DeckValue& entry : entries) numbers.push_back(number_in_range(entry));
    return numbers;
  }
  // A single value stands for a list of one.
  std::vector<DeckValue> list() const {
    if (is_scalar()) return {value};
    if (value.kind != DeckValue::Kind::list) refuse_value(value);
    return value.list;
  }
};

}  // namespace

void assign(const Target& target, const Allowed& allowed, const std::string& key, const DeckValue& value) {
  std::visit(Assignment{target, allowed, key, value}, target);
}

std::string yaml_number(double value) {
  char buffer[40];
  // integers in full: 4096, not 4.096e+03
  const auto end = value == std::floor(value) && std::abs(value) < kMost
                       ? std::to_chars(buffer, buffer + sizeof buffer, static_cast<std::int64_t>(value))
                       : std::to_chars(buffer, buffer + sizeof buffer, value);
  return std::string(buffer, end.ptr);
}

std::string yaml_quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (c == '\n')
      quoted += "\\n";
    else if (c == '\t')
      quoted += "\\t";
    else if (c == '\r')
      quoted += "\\r";
    else
      quoted += c;
  }
  return quoted + "\"";
}

std::string yaml_text(const Target& target) {
  return std::visit(
      [](const auto& member) -> std::string {
        using T = std::remove_pointer_t<std::decay_t<decltype(member)>>;
        if constexpr (std::is_same_v<T, ChoiceMember>)
          return yaml_quoted(member.text());
        else if constexpr (std::is_same_v<T, bool>)
          return *member ? "true" : "false";
        else if constexpr (is_number<T>)
          return yaml_number(static_cast<double>(*member));
        else if constexpr (std::is_same_v<T, std::string>)
          return yaml_quoted(*member);
        else if constexpr (std::is_same_v<T, std::optional<std::vector<double>>>)
          return *member ? joined(**member) : "~";
        else if constexpr (std::is_same_v<T, std::optional<double>>)
          return *member ? yaml_number(**member) : "~";
        else if constexpr (std::is_same_v<T, std::optional<std::array<double, 3>>>)
          return *member ? joined(std::vector<double>((*member)->begin(), (*member)->end())) : "~";
        else if constexpr (std::is_same_v<T, std::array<double, 2>>)
          return joined(std::vector<double>(member->begin(), member->end()));
        else if constexpr (std::is_same_v<T, PerElement>)
          return per_element_text(*member);
        else if constexpr (std::is_same_v<T, Ranges>)
          return ranges_text(*member);
        else if constexpr (std::is_same_v<T, std::vector<double>>)
          return member->empty() ? "~" : member->size() == 1 ? yaml_number((*member)[0]) : joined(*member);
        else
          return joined(*member);
      },
      target);
}

std::string nearest(const std::string& unknown, const std::vector<std::string>& candidates) {
  std::string best;
  // more than half of it wrong is not a misspelling
  int best_cost = std::max(2, static_cast<int>(last_part(unknown).size()) / 2 + 1);
  for (const std::string& candidate : candidates) {
    const std::string& tail = last_part(candidate);
    const int cost = std::min(edit_distance(unknown, candidate), 1 + edit_distance(last_part(unknown), tail));
    if (cost < best_cost) {
      best_cost = cost;
      best = candidate;
    }
  }
  return best;
}

}  // namespace maniple
