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
