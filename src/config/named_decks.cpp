#include "src/config/named_decks.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>

#include "src/base/error.hpp"
#include "src/config/paths.hpp"

namespace maniple {
namespace {

namespace fs = std::filesystem;

// In which a name is looked for.
constexpr const char* kFolders[] = {"train", "tasks", "imitate", "rollout", "bench"};

// "# Gymnasium's Ant-v5: walk to the right. Settings of ..." as "Gymnasium's Ant-v5: walk to the right".
std::string summary_of(const fs::path& file) {
  std::ifstream stream(file);
  std::string text;
  for (std::string line; std::getline(stream, line) && line.starts_with("#");) {
    const auto first = line.find_first_not_of("# ");
    if (first == std::string::npos) break;
    text += (text.empty() ? "" : " ") + line.substr(first);
    if (const auto end = text.find(". "); end != std::string::npos) return text.substr(0, end);
  }
  if (text.ends_with('.')) text.pop_back();
  return text;
}

// The last part of a name in the letters and figures that other spellings of it share: halfcheetahv5.
std::string bare(const std::string& name) {
  std::string text;
  for (const char c : name.substr(name.rfind('/') + 1))
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// The name that was meant by another one, or "": by its spelling elsewhere, "HalfCheetah-v5", or its letters.
std::string meant(const std::string& given, const std::vector<std::string>& names) {
  const auto same = std::find_if(names.begin(), names.end(),
                                 [&](const std::string& name) { return bare(name) == bare(given); });
  return same != names.end() ? *same : nearest(given, names);
}

}  // namespace

fs::path inputs_of_program() {
  std::error_code ignored;
  for (const fs::path& folder : folders_above_program())
    for (const char* const place : {"inputs", "share/maniple/inputs"})
      if (fs::is_directory(folder / place / "tasks", ignored)) return folder / place;
  return {};
}

std::vector<NamedDeck> named_decks(const std::string& folder, const fs::path& inputs) {
  std::vector<NamedDeck> decks;
  const fs::path root = inputs / folder;
  std::error_code problem;
  for (fs::recursive_directory_iterator entry(root, problem), end; !problem && entry != end;
       entry.increment(problem)) {
    const fs::path& file = entry->path();
    if (file.extension() != ".yaml") continue;
    decks.push_back(
        {file.lexically_relative(root).replace_extension().string(), file.string(), summary_of(file)});
  }
  std::sort(decks.begin(), decks.end(),
            [](const NamedDeck& one, const NamedDeck& other) { return one.name < other.name; });
  return decks;
}

std::string deck_file(const std::string& given, const fs::path& inputs) {
  std::error_code ignored;
  const std::string extension = fs::path(given).extension().string();
  if (fs::exists(given, ignored) || extension == ".yaml" || extension == ".yml") return given;
  std::vector<std::string> names;
  for (const char* const folder : kFolders)
    for (const NamedDeck& deck : named_decks(folder, inputs)) {
      if (deck.name == given) return deck.file;
      names.push_back(deck.name);
    }
  const std::string near = meant(given, names);
  throw InputError(SourceLocation{}, "", "found no file '" + given + "', and no deck of that name",
                   "allowed: an existing deck, the directory of a run" +
                       (names.empty() ? std::string()
                                      : ", or a name that 'maniple tasks' lists" +
                                            (near.empty() ? std::string() : "; nearest: " + near)));
}

}  // namespace maniple
