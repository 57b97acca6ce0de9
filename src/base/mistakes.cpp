#include "src/base/mistakes.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <tuple>
#include <utility>

namespace maniple {
namespace {

// By file, as these come up, and by place in it; what has no file stands behind.
std::vector<const InputError*> in_order(const std::vector<InputError>& mistakes) {
  std::vector<std::string> files;
  using Place = std::tuple<bool, std::ptrdiff_t, int, int, std::size_t>;
  std::vector<std::pair<Place, const InputError*>> placed;
  for (const InputError& error : mistakes) {
    const SourceLocation& where = error.where();
    auto file = std::find(files.begin(), files.end(), where.file);
    if (file == files.end()) file = files.insert(file, where.file);
    placed.push_back(
        {{where.file.empty(), file - files.begin(), where.line, where.column, placed.size()}, &error});
  }
  std::sort(placed.begin(), placed.end());
  std::vector<const InputError*> ordered;
  for (const auto& [place, error] : placed) ordered.push_back(error);
  return ordered;
}

std::string text_of(const std::vector<InputError>& mistakes, std::size_t most) {
  const std::vector<const InputError*> ordered = in_order(mistakes);
  std::string text = std::to_string(ordered.size()) + " mistakes:";
  for (std::size_t i = 0; i < std::min(ordered.size(), most); ++i)
    text += std::string("\n") + ordered[i]->what();
  if (ordered.size() > most) text += "\nand " + std::to_string(ordered.size() - most) + " more";
  return text;
}

}  // namespace

InputErrors::InputErrors(std::vector<InputError> mistakes)
    : InputError(text_of(mistakes, Mistakes::kTold)), mistakes_(std::move(mistakes)) {}

void Mistakes::add(const InputError& error) {
  // what is allowed depends on who asks
  const std::string text = error.what();
  const std::string found = text.substr(0, text.find("; "));
  const std::string place = std::to_string(error.where().column) + found;
  if (known_.insert(place).second) mistakes_.push_back(error);
}

void Mistakes::throw_any() const {
  if (mistakes_.size() == 1) throw mistakes_.front();
  if (!mistakes_.empty()) throw InputErrors(mistakes_);
}

}  // namespace maniple
