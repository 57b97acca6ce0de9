// The text of a model as its author sees it: which file and line an element of the compiled model comes
// from, through <include> and <attach>. Needed because libmujoco forgets the lines of included files, the
// files of attached models, and both in a URDF.
#pragma once

#include <mujoco/mujoco.h>

#include <string>
#include <vector>

#include "src/base/error.hpp"

namespace maniple {

class ModelSource {
 public:
  ModelSource() = default;
  // Reads an MJCF or URDF file, expands its includes, and reads the models that it attaches. Never throws for
  // bad XML: libmujoco reports it. But it would compile for hours what a <replicate>, <composite> or
  // <flexcomp> of many copies asks for: InputError.
  explicit ModelSource(const std::string& path);
  // The same with an MJCF file laid over an MJCF model: its sections are added, but for <edit>, whose
  // elements set their attributes in those of the model that have their tag and a name that matches theirs, a
  // regular expression, or no name where theirs is "", or remove these (remove="true"). InputError for
  // elements that match nothing.
  ModelSource(const std::string& path, const std::string& overlay);

  // A model without text: every location is the file alone.
  static ModelSource of_binary(const std::string& path);

  // The file with included ones in place, and what is laid over it.
  const std::string& text() const { return text_; }
  // Writes to each element of a spec that has just been parsed from this source where it stands, as its info:
  // "line N" of the file, or "line N of FILE". libmujoco passes it on to copies and quotes it in its
  // messages.
  void annotate(mjSpec* spec) const;
  // Where element number `id` of its type stands, of an annotated and compiled spec; for those that libmujoco
  // has made up, the first element of that name, or the file without a line.
  SourceLocation element(const mjSpec* spec, mjtObj type, int id, const std::string& name) const;
  // The first element <tag ... attribute=...>, or the file without a line.
  SourceLocation attribute(const std::string& tag, const std::string& attribute) const;
  bool is_urdf() const;
  // The <link> of a URDF that a line (from 1) stands in, or "".
  std::string link_at(int line) const;
  // Whether the <edit> of an overlay can change the element of that tag and name.
  bool can_edit(const std::string& tag, const std::string& name) const;
  // Where libmujoco's error message points to: what annotate() wrote or "line N" in it, else, for a message
  // about an included file, the line that holds most of the words which the message quotes.
  SourceLocation of_message(const std::string& message) const;

 private:
  struct AttachedModel;

  ModelSource(const std::string& path, int depth);
  std::string expand(const std::string& path, const std::string& directory, int depth);
  void add_attached_model(const std::string& file, const std::string& path, const std::string& name,
                          int depth);
  void check_copies() const;
  void lay_over(const std::string& overlay);
  void edit(const std::string& overlay, const std::string& element, int line);
  bool any_includes() const;
  // The file and line of a line (from 1) of text().
  SourceLocation location(int expanded_line) const;
  SourceLocation of_info(const std::string& info) const;
  std::string info_of(const SourceLocation& where) const;
  void annotate_urdf(mjSpec* spec) const;

  std::string path_;
  std::string overlay_;  // laid over it; "": none
  std::string text_;
  std::vector<SourceLocation> lines_;  // of each line of text_
  bool has_includes_ = false;
  std::vector<AttachedModel> attached_;  // and those that they attach
};

struct ModelSource::AttachedModel {
  std::string name;  // in the attaching model's assets
  std::string file;  // as libmujoco looks for it, seen from the main model
  ModelSource source;
};

}  // namespace maniple
