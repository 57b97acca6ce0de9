#include "src/model_import/control_names.hpp"

#include <utility>

#include "kernels/physics/smooth/actuator_law.hpp"

namespace maniple {

std::vector<std::string> control_names(const ImportedModel& model) {
  static constexpr std::pair<int, const char*> kInputs[] = {
      {input_pos, "/pos"}, {input_vel, "/vel"}, {input_ff, "/ff"}, {input_voltage, "/voltage"}};
  std::vector<std::string> names;
  for (std::size_t i = 0; i < model.actuator_names.size(); ++i) {
    const std::string& name = model.actuator_names[i];
    if (model.actuator_ctrlnum[i] == 1) names.push_back(name);
    if (model.actuator_ctrlnum[i] < 2) continue;
    for (const auto& [input, suffix] : kInputs)
      if (model.actuator_ctrlspec[i] & input)
        names.push_back((name.empty() ? "actuator" + std::to_string(i) : name) + suffix);
  }
  return names;
}

}  // namespace maniple
