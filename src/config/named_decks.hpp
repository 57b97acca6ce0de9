// The decks that come with the program, by their names: "gymnasium/ant_v5" for
// inputs/train/gymnasium/ant_v5.yaml. They lie in the folder inputs beside the program or above it, or where
// an installation put them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace maniple {

struct NamedDeck {
  std::string name, file;
  std::string summary;  // the first sentence of its first comment
};

// The folder `inputs` beside the program, above it, or where an installation put it; empty: there is none.
std::filesystem::path inputs_of_program();

// Of one folder of inputs, "tasks", "train" and so on, by name. Empty where that folder is not there.
std::vector<NamedDeck> named_decks(const std::string& folder,
                                   const std::filesystem::path& inputs = inputs_of_program());

// The file of a deck that is given by its file or its name; for a name that is both a task and a training of
// it, the training. Throws InputError, with the nearest name, for what is neither.
std::string deck_file(const std::string& given, const std::filesystem::path& inputs = inputs_of_program());

}  // namespace maniple
