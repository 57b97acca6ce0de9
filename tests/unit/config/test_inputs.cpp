// The decks that come with the program: each loads, and each setting says its unit and meaning.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "src/config/deck.hpp"

namespace maniple {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> decks() {
  std::vector<fs::path> found;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(MANIPLE_SOURCE_DIR) / "inputs"))
    if (entry.path().extension() == ".yaml") found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

TEST(Inputs, EveryDeckLoads) {
  ASSERT_GE(decks().size(), 12u);
  for (const fs::path& deck : decks()) {
    // the user brings the file of this one
    std::vector<std::string> overrides;
    if (deck.filename() == "open_loop.yaml") overrides = {"control.source=zero"};
    // a policy from demonstrations needs no model
    const bool needs_model = deck.parent_path().filename() != "imitate";
    EXPECT_NO_THROW(load_config({deck.string()}, overrides, needs_model)) << deck;
  }
}

TEST(Inputs, EverySettingIsExplained) {
  for (const fs::path& deck : decks()) {
    const std::string folder = deck.parent_path().filename();
    if (folder != "train" && folder != "rollout" && folder != "bench") continue;
    std::ifstream file(deck);
    int number = 0;
    for (std::string line; std::getline(file, line);) {
      ++number;
      const auto colon = line.find(": ");
      if (line.empty() || line[line.find_first_not_of(' ')] == '#' || colon == std::string::npos) continue;
      EXPECT_NE(line.find(" # "), std::string::npos) << deck << ":" << number << ": " << line;
    }
  }
}

}  // namespace
}  // namespace maniple
