// Reading users' datasets. Each rank opens the file by itself, in a child process, because HDF5 may crash on
// a bad file: reading needs no agreement, and a file of one row is read the same way as one of a million.
#include "src/io/dataset.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <sstream>

#include "kernels/base/pack.hpp"
#include "src/io/hdf5.hpp"
#include "src/io/isolated.hpp"
#include "src/io/seal.hpp"

namespace maniple {

namespace {

constexpr std::int64_t kBlockValues = std::int64_t{4} << 20;  // 32 MiB of doubles

std::string allowed_text(const std::vector<AllowedExtent>& allowed) {
  std::string text = "[";
  for (std::size_t i = 0; i < allowed.size(); ++i) {
    text += (i ? ", " : "") + allowed[i].name + " = ";
    for (std::size_t v = 0; v < allowed[i].values.size(); ++v)
      text += (v ? " or " : "") + std::to_string(allowed[i].values[v]);
    if (allowed[i].at_least >= 0) text += "at least " + std::to_string(allowed[i].at_least);
  }
  return text + "]";
}

bool fits(const hdf5::Shape& shape, const std::vector<AllowedExtent>& allowed) {
  if (shape.size() != allowed.size()) return false;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const auto extent = static_cast<std::int64_t>(shape[i]);
    const auto& values = allowed[i].values;
    const bool listed = std::find(values.begin(), values.end(), extent) != values.end();
    if (!listed && (allowed[i].at_least < 0 || extent < allowed[i].at_least)) return false;
  }
  return true;
}

hdf5::File open_input(const std::string& file, const SourceLocation& where, const std::string& key) {
  const std::string place = (key.empty() ? "" : key + ": ") + file;
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) throw InputError(where, place, "no such file", "an HDF5 file");
  try {
    return hdf5::open_file(file, false);
  } catch (const Error& error) {
    throw InputError(where, place, "cannot be read as HDF5", reason_of(error, file));
  }
}

// run_isolated() whose errors are about the user's input.
std::string read_isolated(const std::string& file, const SourceLocation& where, const std::string& place,
                          const std::function<std::string()>& work) {
  try {
    return run_isolated(file, work);
  } catch (const InputError&) {
    throw;
  } catch (const MachineFault&) {
    throw;
  } catch (const Error& error) {
    throw InputError(where, place, "cannot be read", reason_of(error, file));
  }
}

bool has_dataset(hid_t file, const std::string& name) {
  return H5Lexists(file, name.c_str(), H5P_DEFAULT) > 0;
}

}  // namespace

void check_input(const std::string& file, const SourceLocation& where, const std::string& key,
                 Collectives& collectives) {
  std::int64_t exists = 0;
  std::error_code ignored;
  if (collectives.rank() == 0) exists = std::filesystem::is_regular_file(file, ignored);
  collectives.broadcast(&exists, sizeof exists, 0);
  if (!exists) return;
  try {
    check_seal(file, collectives);
  } catch (const Error& error) {
    throw InputError(where, key, "cannot be used", error.what());
  }
}

struct InputDataset::Impl {
  std::string place;  // for messages: deck key, file and dataset
  SourceLocation where;
  std::string file, dataset;
  hdf5::Shape shape;
};

InputDataset::InputDataset(const std::string& file, const SourceLocation& where, const std::string& dataset,
                           const std::vector<AllowedExtent>& allowed, const std::string& key)
    : impl_(std::make_unique<Impl>()) {
  const std::string place = (key.empty() ? "" : key + ": ") + file + ": /" + dataset;
  impl_->place = place;
  impl_->where = where;
  impl_->file = file;
  impl_->dataset = dataset;
  std::istringstream extents(read_isolated(file, where, place, [&] {
    const hdf5::File handle = open_input(file, where, key);
    if (!has_dataset(handle, dataset))
      throw InputError(where, place, "no such dataset", "a dataset of numbers " + allowed_text(allowed));
    hdf5::Dataset opened;
    try {
      opened = hdf5::open_dataset(handle, dataset);
    } catch (const Error& error) {
      throw InputError(where, place, std::string("not a dataset that can be read: ") + reason_of(error, file),
                       "a dataset of numbers " + allowed_text(allowed));
    }
    const std::string type = hdf5::type_of(opened);
    if (type == "string" || type == "other")
      throw InputError(where, place, "elements of type " + type, "floating-point or integer numbers");
    const hdf5::Shape shape = hdf5::shape_of(opened);
    if (!fits(shape, allowed))
      throw InputError(where, place, "shape " + hdf5::shape_text(shape),
                       "allowed is " + allowed_text(allowed));
    return fmt::format("{}", fmt::join(shape, " "));
  }));
  for (hsize_t extent = 0; extents >> extent;) impl_->shape.push_back(extent);
}

InputDataset::~InputDataset() = default;
InputDataset::InputDataset(InputDataset&&) noexcept = default;
InputDataset& InputDataset::operator=(InputDataset&&) noexcept = default;

std::int64_t InputDataset::extent(std::size_t dimension) const {
  return static_cast<std::int64_t>(impl_->shape.at(dimension));
}

std::vector<double> InputDataset::read(const std::vector<std::int64_t>& first,
                                       const std::vector<std::int64_t>& count) const {
  std::size_t total = 1;
  for (const std::int64_t c : count) total *= static_cast<std::size_t>(c);
  const std::string& place = impl_->place;
  const SharedMemory memory(total * sizeof(double));
  read_isolated(impl_->file, impl_->where, place, [&] {
    const hdf5::File file = hdf5::open_file(impl_->file, false);
    hdf5::read_box(hdf5::open_dataset(file, impl_->dataset), H5T_NATIVE_DOUBLE,
                   hdf5::Shape(first.begin(), first.end()), hdf5::Shape(count.begin(), count.end()),
                   memory.data(), place);
    return std::string();
  });
  const auto* numbers = static_cast<const double*>(memory.data());
  std::vector<double> values(numbers, numbers + total);
  for (std::size_t i = 0; i < total; ++i) {
    if (std::abs(values[i]) <= kLargestValue) continue;
    std::string position;
    std::size_t rest = i;
    for (std::size_t d = count.size(); d-- > 0;) {
      const auto c = static_cast<std::size_t>(count[d]);
      position = std::to_string(first[d] + static_cast<std::int64_t>(rest % c)) +
                 (position.empty() ? "" : ", ") + position;
      rest /= c;
    }
    const double value = values[i];
    const std::string found = std::isnan(value)   ? "NaN"
                              : std::isinf(value) ? "infinity"
                                                  : fmt::format("{}", value);
    throw InputError(
        impl_->where, place, found + " at [" + position + "]",
        fmt::format("finite numbers within +-{:g}: MuJoCo resets states beyond these bounds, and sets all "
                    "controls to 0 where one is beyond",
                    kLargestValue));
  }
  return values;
}

bool InputDataset::exists(const std::string& file, const SourceLocation& where, const std::string& dataset,
                          const std::string& key) {
  const std::string place = (key.empty() ? "" : key + ": ") + file;
  return read_isolated(file, where, place, [&] {
           return std::string(has_dataset(open_input(file, where, key), dataset) ? "yes" : "no");
         }) == "yes";
}

std::vector<double> read_state_rows(const std::string& file, const SourceLocation& where,
                                    const std::string& dataset, const std::string& size_name, int size,
                                    const Partition& partition) {
  const InputDataset input(file, where, dataset, {{"env", {partition.num_envs, 1}}, {size_name, {size}}},
                           "initial_state.file");
  if (input.extent(0) == 1 && partition.num_envs != 1) return input.read({0, 0}, {1, size});
  return input.read({partition.first_env(), 0}, {partition.envs(), size});
}

std::vector<std::string> state_members(const std::string& file, const SourceLocation& where) {
  std::istringstream names(read_isolated(file, where, "initial_state.file: " + file, [&] {
    std::string text;
    for (const std::string& name : hdf5::names_in(open_input(file, where, "initial_state.file")))
      text += name + "\n";
    return text;
  }));
  std::vector<std::string> result;
  for (std::string name; std::getline(names, name);) result.push_back(name);
  return result;
}

ControlRows::ControlRows(InputDataset dataset, int size, std::int64_t steps, const Partition& partition)
    : dataset_(std::make_shared<InputDataset>(std::move(dataset))), size_(size), steps_(steps) {
  const bool shared = dataset_->extent(0) == 1 && partition.num_envs != 1;
  first_env_ = shared ? 0 : partition.first_env();
  envs_ = shared ? 1 : partition.envs();
}

const std::vector<double>& ControlRows::rows(std::int64_t step) {
  if (step < 0 || step >= steps_)
    throw Error("controls of step " + std::to_string(step) + " asked, there are " + std::to_string(steps_));
  if (step < block_first_ || step >= block_first_ + block_steps_) {
    block_first_ = step;
    block_steps_ =
        std::clamp<std::int64_t>(kBlockValues / std::max<std::int64_t>(1, envs_ * size_), 1, steps_ - step);
    block_ = dataset_->read({first_env_, step, 0}, {envs_, block_steps_, size_});
  }
  rows_.resize(static_cast<std::size_t>(envs_ * size_));
  for (std::int64_t env = 0; env < envs_; ++env)
    std::copy_n(block_.begin() + (env * block_steps_ + step - block_first_) * size_, size_,
                rows_.begin() + env * size_);
  return rows_;
}

ControlRows read_control_rows(const std::string& file, const SourceLocation& where, int nu,
                              std::int64_t steps, const Partition& partition) {
  InputDataset dataset(file, where, "ctrl",
                       {{"env", {partition.num_envs, 1}}, {"step", {}, steps}, {"nu", {nu}}}, "control.file");
  return ControlRows(std::move(dataset), nu, steps, partition);
}

ControlRows read_action_rows(const std::string& file, const SourceLocation& where, int size,
                             std::int64_t steps, const Partition& partition) {
  const auto has = [&](const char* dataset) {
    return InputDataset::exists(file, where, dataset, "control.file");
  };
  if (!has("action") && has("ctrl"))
    throw InputError(where, "control.file: " + file, "/ctrl and no /action, in a deck with a task",
                     "/action [env or 1, step, " + std::to_string(size) +
                         "]: a task acts through its actions; a deck without a task steps /ctrl");
  InputDataset dataset(file, where, "action",
                       {{"env", {partition.num_envs, 1}}, {"step", {}, steps}, {"size", {size}}},
                       "control.file");
  return ControlRows(std::move(dataset), size, steps, partition);
}

}  // namespace maniple
