// The last values of the series in a results file, for summaries of runs.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace maniple {

// By name, the last value of each series in /metrics, and what is a single number in /evaluation. Throws
// Error when the file cannot be read.
std::vector<std::pair<std::string, double>> final_values(const std::string& path);
// A text of a results file; empty where it has none of that name. Throws Error when the file cannot be read.
std::string text_in_results(const std::string& path, const std::string& name);

}  // namespace maniple
