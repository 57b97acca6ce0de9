// A directory of decks for one test, and the text of a refusal.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "src/config/deck.hpp"

namespace maniple {

class DeckFiles {
 public:
  DeckFiles() {
    std::string pattern = (std::filesystem::temp_directory_path() / "maniple_decks_XXXXXX").string();
    directory_ = ::mkdtemp(pattern.data());
    write("robot.xml", "<mujoco/>");
  }
  ~DeckFiles() { std::filesystem::remove_all(directory_); }
  DeckFiles(const DeckFiles&) = delete;
  DeckFiles& operator=(const DeckFiles&) = delete;

  std::string write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = directory_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path.string();
  }
  std::string path(const std::string& name) const { return (directory_ / name).string(); }

  // A deck of one file; the model is there already.
  Config load(const std::string& text, const std::vector<std::string>& overrides = {}) const {
    return load_config({write("deck.yaml", text)}, overrides, false);
  }
  // The message of the refusal; "" when the deck is accepted.
  std::string refusal(const std::string& text, const std::vector<std::string>& overrides = {}) const {
    try {
      load(text, overrides);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  }

 private:
  std::filesystem::path directory_;
};

}  // namespace maniple
