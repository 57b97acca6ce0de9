// Numbers and texts as JSON, for the files that other programs read.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

namespace maniple {

inline std::string json_text(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += std::string("\\") + c;
    else if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<int>(c));
    else
      out += c;
  }
  return out + "\"";
}

// The shortest text that reads back as the same number; null where there is none in JSON.
inline std::string json_number(double number) {
  return std::isfinite(number) ? fmt::format("{}", number) : "null";
}

// As json_number(), but a text where JSON has no number: "nan", "inf" or "-inf", so that a reader sees which.
inline std::string json_number_or_text(double number) {
  if (std::isnan(number)) return "\"nan\"";
  if (std::isinf(number)) return number > 0 ? "\"inf\"" : "\"-inf\"";
  return json_number(number);
}

// One member of an object, whose value is JSON already.
inline std::string json_entry(const std::string& key, const std::string& json) {
  return json_text(key) + ": " + json;
}

// An object of such members on one line.
inline std::string json_object(const std::vector<std::string>& entries) {
  return fmt::format("{{{}}}", fmt::join(entries, ", "));
}

// Rows of an object or list, one a line at this depth.
inline std::string json_rows(const std::vector<std::string>& rows, char open, char close, int depth) {
  if (rows.empty()) return {open, close};
  const std::string indent(static_cast<std::size_t>(2 * depth), ' ');
  return fmt::format("{}\n{}  {}\n{}{}", open, indent, fmt::join(rows, ",\n" + indent + "  "), indent, close);
}

template <class Numbers>
std::string json_list(const Numbers& numbers) {
  std::vector<std::string> texts;
  for (const double number : numbers) texts.push_back(json_number(number));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

}  // namespace maniple
