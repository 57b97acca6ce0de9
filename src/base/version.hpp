// The program's version, as it stands in files and in the header of a run.
#pragma once

namespace maniple {

inline constexpr const char* kVersion = "0.1.0";

}  // namespace maniple
