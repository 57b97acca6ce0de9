// The text of a model as its author sees it: which file and line an element of the compiled model comes
// from, through <include>. Needed because libmujoco forgets the lines of included files.
#pragma once

#include <mujoco/mujoco.h>

#include <map>
#include <string>
#include <vector>

#include "src/base/error.hpp"

namespace maniple {

class ModelSource {
 public:
  ModelSource() = default;
  // Reads an MJCF or URDF file and expands its includes. Never throws for bad XML: libmujoco reports it.
  explicit ModelSource(const std::string& path);

  // A model without text: every location is the file alone.
  static ModelSource of_binary(const std::string& path);

  const std::string& text() const { return text_; }
  bool has_includes() const { return has_includes_; }
  // The file and line of a line (from 1) of text().
  SourceLocation location(int expanded_line) const;
  // Where the element stands that `spec` (parsed from this source) lists as number `id` of its type.
  SourceLocation element(const mjSpec* spec, mjtObj type, int id, const std::string& name);
  // The first element <tag ... attribute=...>, or the file without a line.
  SourceLocation attribute(const std::string& tag, const std::string& attribute) const;
  // Where libmujoco's error message points to: "line N" in it, else, for a message about an included
  // file, the line that holds most of the words which the message quotes.
  SourceLocation of_message(const std::string& message) const;

 private:
  struct ElementLine {
    std::string name;
    int line;
  };

  std::string expand(const std::string& path, const std::string& directory, int depth);
  const std::vector<ElementLine>& elements(const mjSpec* spec, mjtObj type);

  std::string path_;
  std::string text_;
  std::vector<SourceLocation> lines_;  // of each line of text_
  bool has_includes_ = false;
  std::map<int, std::vector<ElementLine>> elements_;  // by mjtObj
};

}  // namespace maniple
