// The version that files and headers carry.
#pragma once

namespace maniple {

inline constexpr const char* kVersion = "0.1.0";

}  // namespace maniple
