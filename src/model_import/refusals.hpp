// The message about features of a model that the kernels do not simulate: grouped by cause, each with the
// first of its elements and its remedy, a deck key or the text of an overlay. supported.cpp fills it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/model_import/model_source.hpp"

namespace maniple {

class Refusals {
 public:
  // A cause, and the elements of a model that have it.
  struct Group {
    std::string noun;                   // one of the elements: "geom"; "": an option, which is in `what`
    std::string what;                   // what each of them does or has, or ": " and what is common to them
    std::vector<std::string> elements;  // "FILE:LINE: geom \"shin\""
    std::string hint;                   // what is supported instead, in a line of its own
    std::string key = "";               // deck key that switches them off; "": none
    std::string edit_note = "";         // of the overlay: for which elements
    struct Edit {
      std::string tag, attributes;
      std::vector<std::string> names;
    };
    std::vector<Edit> edits = {};
  };

  explicit Refusals(const ModelSource& source) : source_(source) {}
  // The group of a cause, empty at first. (References stay until another group is made.)
  Group& group(const std::string& noun, const std::string& what);
  // An overlay that sets `attributes` in the element of that tag and name settles it. Without effect where no
  // overlay can: an element without a name, or one that <replicate> or <attach> has made.
  void settled_by_edit(Group& group, const std::string& tag, const std::string& attributes,
                       const std::string& name) const;

  bool empty() const { return groups_.empty(); }
  // Lines that begin with a line break.
  std::string text() const;

 private:
  const ModelSource& source_;
  std::vector<Group> groups_;
};

}  // namespace maniple
