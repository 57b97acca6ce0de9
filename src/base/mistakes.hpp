// Mistakes of the user, collected so that one message reports all of them: a step that meets one is abandoned
// and the next one runs. The caller runs no step that needs the result of a failed one.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "src/base/error.hpp"

namespace maniple {

// Several mistakes as one error: a line for each, of a file in its order.
class InputErrors : public InputError {
 public:
  explicit InputErrors(std::vector<InputError> mistakes);
  const std::vector<InputError>& mistakes() const { return mistakes_; }

 private:
  std::vector<InputError> mistakes_;
};

class Mistakes {
 public:
  // Runs a step. False where it met a mistake, which is kept.
  template <class Step>
  bool gather(const Step& step) {
    try {
      step();
      return true;
    } catch (const InputErrors& errors) {
      for (const InputError& error : errors.mistakes()) add(error);
    } catch (const InputError& error) {
      add(error);
    }
    return false;
  }
  // The same mistake at the same place (in a definition that several terms use) is kept once.
  void add(const InputError& error);

  std::size_t count() const { return mistakes_.size(); }
  // Whether there are more mistakes than are reported.
  bool are_many() const { return count() > kTold; }
  // Throws what has been gathered: a single InputError as it was.
  void throw_any() const;

 private:
  static constexpr std::size_t kTold = 20;
  friend class InputErrors;
  std::vector<InputError> mistakes_;
  std::set<std::string> known_;
};

}  // namespace maniple
