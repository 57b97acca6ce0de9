// One file of demonstrations in the layout of robomimic, Minari or DROID: where in it the data are that the
// deck asks for, and what to say where they are not. Inspection (demonstration_contents.cpp) and reading
// (demonstrations.cpp) open files with it, in a child process, because HDF5 may crash on a bad one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "src/config/config.hpp"
#include "src/io/demonstration_layout.hpp"
#include "src/io/hdf5.hpp"

namespace maniple {

class DemonstrationFile {
 public:
  // The key of the deck with which messages begin.
  static constexpr const char* kKey = "data.file";

  // InputError where it has none of the layouts.
  DemonstrationFile(const Config& config, const std::string& path);

  const DemonstrationLayout& layout() const { return layout_; }
  hid_t id() const { return file_; }
  // A path below a demonstration.
  std::string path_of(const std::string& demonstration, const std::string& below = "") const;
  // Datasets of a demonstration's action.
  std::vector<std::string> actions(const std::string& demonstration) const;
  // The path of one observation of a demonstration. Minari's space without keys is a single dataset.
  std::string observation(const std::string& demonstration, const std::string& key) const;

  // Names in the order of their numbers: those to learn from, and those that are held out.
  struct Division {
    std::vector<std::string> learned, held_out;
    std::size_t unused = 0;  // demonstrations in neither
  };
  Division demonstrations() const;

  // The observations of the deck's task, in its order, where a demonstration has them all.
  std::vector<std::string> of_task(const std::string& demonstration) const;
  // Keys of a demonstration's observations that hold vectors of numbers; flags are only seen where they are
  // asked for, and DROID's files hold much that no policy is to see.
  std::vector<std::string> vectors(const std::string& demonstration) const;
  // Observations that are not among `taken`, with their types and shapes.
  std::vector<std::string> others(const std::string& demonstration,
                                  const std::vector<std::string>& taken) const;
  // Of the datasets; "camera/depth" lies in a group of its own.
  std::vector<std::string> keys(const std::string& demonstration) const;

  // Frames of a dataset, and the shape of one: [size], or [height, width, channels] where images are
  // allowed.
  std::pair<std::int64_t, std::vector<int>> extents(const std::string& path, const char* key,
                                                    bool images = false) const;
  bool is_dataset(const std::string& path) const;

  // InputError about this file, with the place of a key of the deck.
  [[noreturn]] void refuse(const std::string& key, const std::string& found,
                           const std::string& allowed) const;

 private:
  const DemonstrationLayout& find_layout() const;
  std::vector<std::string> names_below(const std::string& path) const;
  std::vector<std::string> names_of(const DemonstrationLayout& layout) const;
  // Those of `all`, in that order, that a filter key lists; "": all of them.
  std::vector<std::string> filtered(const char* key, const std::string& filter,
                                    const std::vector<std::string>& all) const;
  std::vector<std::string> numbered() const;
  std::function<bool(const std::string&, const std::string&)> by_number() const;

  const Config& config_;
  const std::string path_;
  const hdf5::File file_;
  const DemonstrationLayout& layout_;
};

// run_isolated() whose errors are about the user's input, but for those of the machine.
std::vector<std::string> read_demonstration_files(const Config& config, const std::vector<std::string>& paths,
                                                  const std::function<std::string(std::size_t file)>& work);

// A text in one line of a message: a name in a file may have any characters.
std::string in_a_line(std::string text);
// Some of these names, for messages; "nothing" where there are none.
std::string list_of(const std::vector<std::string>& names);

}  // namespace maniple
