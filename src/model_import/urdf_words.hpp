// URDF's words for elements that MJCF and libmujoco name otherwise: a body is a <link> there, a geom a
// <collision> or <visual>, an equality constraint between joints a <mimic>. For messages about URDF files.
#pragma once

#include <string>

namespace maniple {

// A message of libmujoco in these words.
std::string in_urdf_words(const std::string& message);

// "<collision> of <link name=\"arm\">", "<joint name=\"knee\">". `tag` "": no tag of URDF.
std::string urdf_label(const std::string& tag, const std::string& name, const std::string& link);

// The tag of an element that MJCF calls `kind`; "" for what URDF does not have.
std::string urdf_tag(const std::string& kind);

}  // namespace maniple
