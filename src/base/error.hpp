// Errors of the whole program. All below main throws one of these two, or a kind of them; run_guarded()
// (src/parallel/failure.hpp) turns them into a message and an exit code that is the same on every rank.
#pragma once

#include <stdexcept>
#include <string>

namespace maniple {

// Exit codes that job scripts rely on.
enum class ExitCode : int { done = 0, error = 1, bad_input = 2, stopped_early = 75 };

// Something failed that the user's input is not to blame for: exit code 1.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Where a value stands: a file and line, or the command line.
struct SourceLocation {
  std::string file;
  int line = 0;    // from 1; 0: unknown or not a file
  int column = 0;  // from 1; 0: unknown

  // "file:line", "file" or "command line".
  std::string text() const {
    if (file.empty()) return "command line";
    return line > 0 ? file + ":" + std::to_string(line) : file;
  }
};

// Bad input: exit code 2. The message reads "<where>: <key>: <what was found>; <what is allowed>".
class InputError : public Error {
 public:
  using Error::Error;
  InputError(const SourceLocation& where, const std::string& key, const std::string& found,
             const std::string& allowed)
      : Error(where.text() + ": " + (key.empty() ? "" : key + ": ") + found +
              (allowed.empty() ? "" : "; " + allowed)),
        where_(where) {}

  // Empty where the message alone says it.
  const SourceLocation& where() const { return where_; }

 private:
  SourceLocation where_;
};

// An error's message without the path that it opens with, for a message that has named the path.
inline std::string reason_of(const std::exception& error, const std::string& path) {
  const std::string message = error.what(), opening = path + ": ";
  return message.rfind(opening, 0) == 0 ? message.substr(opening.size()) : message;
}

}  // namespace maniple
