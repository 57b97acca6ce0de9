#include "src/simulation/initial_state.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/error.hpp"
#include "src/base/log.hpp"
#include "src/io/dataset.hpp"

namespace maniple {
namespace {

// Refuses quaternions of zeros, which MuJoCo would take for the identity in silence.
void check_quaternions(const std::vector<std::pair<std::string, std::vector<double>>>& fields,
                       const ImportedModel& model, const InitialStateConfig& initial) {
  const auto check = [&](const std::string& field, const std::vector<double>& rows, int width, int first) {
    for (std::size_t at = static_cast<std::size_t>(first); at < rows.size();
         at += static_cast<std::size_t>(width))
      if (std::all_of(&rows[at], &rows[at] + 4, [](double value) { return value == 0; }))
        throw InputError(initial.where, "initial_state.file",
                         fmt::format("{}: /{}: a quaternion of zeros in columns {} to {}", initial.file,
                                     field, first, first + 3),
                         "allowed: orientations; the identity is 1, 0, 0, 0");
  };
  for (const auto& [field, rows] : fields) {
    if (field == "mocap_quat")
      for (int mocap = 0; mocap < model.sizes.nmocap; ++mocap)
        check(field, rows, 4 * model.sizes.nmocap, 4 * mocap);
    if (field != "qpos") continue;
    for (std::size_t joint = 0; joint < model.jnt_type.size(); ++joint)
      if (const int type = model.jnt_type[joint]; type == joint_free || type == joint_ball)
        check(field, rows, model.sizes.nq, model.jnt_qposadr[joint] + (type == joint_free ? 3 : 0));
  }
}

}  // namespace

std::vector<std::pair<std::string, std::vector<double>>> read_initial_state(const InitialStateConfig& initial,
                                                                            const ImportedModel& model,
                                                                            const Partition& partition) {
  const ModelSizes& sizes = model.sizes;
  std::vector<std::pair<std::string, std::vector<double>>> fields;
  std::vector<std::string> unread = state_members(initial.file, initial.where);
  const auto read = [&](const std::string& field, const std::string& size_name, int size) {
    fields.emplace_back(field,
                        read_state_rows(initial.file, initial.where, field, size_name, size, partition));
  };
  const auto read_if_there = [&](const std::string& field, const std::string& size_name, int size) {
    if (size > 0 && std::find(unread.begin(), unread.end(), field) != unread.end())
      read(field, size_name, size);
  };
  read("qpos", "nq", sizes.nq);
  read("qvel", "nv", sizes.nv);
  read_if_there("act", "na", sizes.na);
  read_if_there("mocap_pos", "3 nmocap", 3 * sizes.nmocap);
  read_if_there("mocap_quat", "4 nmocap", 4 * sizes.nmocap);
  read_if_there("qfrc_applied", "nv", sizes.nqfrc);
  read_if_there("xfrc_applied", "6 nbody", 6 * sizes.nxfrc);
  check_quaternions(fields, model, initial);
  std::erase_if(unread, [&](const std::string& name) {
    const bool of_control = name == "ctrl" || name == "action";  // (control.file may be the same file)
    return of_control ||
           std::any_of(fields.begin(), fields.end(), [&](const auto& field) { return field.first == name; });
  });
  if (!unread.empty())
    warn(fmt::format(
        "initial_state.file: {}: nothing reads {}; read are qpos, qvel and, where the model has them, "
        "act, mocap_pos and mocap_quat, and qfrc_applied and xfrc_applied, where the task names them",
        initial.file, fmt::join(unread, ", ")));
  return fields;
}

}  // namespace maniple
