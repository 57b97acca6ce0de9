// What a results file ends with: for summaries of many runs.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace maniple {

// By name, the last value of each series in /metrics, and what is a single number in /evaluation. Throws
// Error when the file cannot be read.
std::vector<std::pair<std::string, double>> final_values(const std::string& path);

}  // namespace maniple
