// Counted nouns of messages: "1 sample", "2 samples".
#pragma once

#include <fmt/format.h>

#include <string>

namespace maniple {

template <class Integer>
std::string counted(Integer count, const std::string& noun, const std::string& plural = "") {
  return fmt::format("{} {}", count, count == 1 ? noun : plural.empty() ? noun + "s" : plural);
}

}  // namespace maniple
