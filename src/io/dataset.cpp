// Reading users' datasets. Each rank opens the file by itself with the serial driver: reading needs no
// agreement, and a file of one row is read the same way as one of a million.
#include "src/io/dataset.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "src/io/hdf5.hpp"

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

std::string shape_text(const hdf5::Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
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
    throw InputError(where, place, "cannot be read as HDF5", error.what());
  }
}

bool has_dataset(hid_t file, const std::string& name) {
  return H5Lexists(file, name.c_str(), H5P_DEFAULT) > 0;
}

}  // namespace

struct InputDataset::Impl {
  std::string place;  // for messages: deck key, file and dataset
  SourceLocation where;
  hdf5::File handle;
  hdf5::Dataset dataset;
  hdf5::Shape shape;
};

InputDataset::InputDataset(const std::string& file, const SourceLocation& where, const std::string& dataset,
                           const std::vector<AllowedExtent>& allowed, const std::string& key)
    : impl_(std::make_unique<Impl>()) {
  const std::string place = (key.empty() ? "" : key + ": ") + file + ": /" + dataset;
  impl_->place = place;
  impl_->where = where;
  impl_->handle = open_input(file, where, key);
  if (!has_dataset(impl_->handle, dataset))
    throw InputError(where, place, "no such dataset", "a dataset of numbers " + allowed_text(allowed));
  try {
    impl_->dataset = hdf5::open_dataset(impl_->handle, dataset);
  } catch (const Error&) {
    throw InputError(where, place, "not a dataset", "a dataset of numbers " + allowed_text(allowed));
  }
  const std::string type = hdf5::type_of(impl_->dataset);
  if (type == "string" || type == "other")
    throw InputError(where, place, "elements of type " + type, "floating-point or integer numbers");
  impl_->shape = hdf5::shape_of(impl_->dataset);
  if (!fits(impl_->shape, allowed))
    throw InputError(where, place, "shape " + shape_text(impl_->shape),
                     "allowed is " + allowed_text(allowed));
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
  std::vector<double> values(total);
  const std::string& place = impl_->place;
  try {
    hdf5::read_box(impl_->dataset, H5T_NATIVE_DOUBLE, hdf5::Shape(first.begin(), first.end()),
                   hdf5::Shape(count.begin(), count.end()), values.data(), place);
  } catch (const Error& error) {
    throw InputError(impl_->where, place, "cannot be read", error.what());
  }
  for (std::size_t i = 0; i < total; ++i) {
    if (std::isfinite(values[i])) continue;
    std::string position;
    std::size_t rest = i;
    for (std::size_t d = count.size(); d-- > 0;) {
      const auto c = static_cast<std::size_t>(count[d]);
      position = std::to_string(first[d] + static_cast<std::int64_t>(rest % c)) +
                 (position.empty() ? "" : ", ") + position;
      rest /= c;
    }
    throw InputError(impl_->where, place,
                     std::isnan(values[i]) ? "NaN at [" + position + "]" : "infinity at [" + position + "]",
                     "finite numbers");
  }
  return values;
}

bool InputDataset::exists(const std::string& file, const SourceLocation& where, const std::string& dataset,
                          const std::string& key) {
  return has_dataset(open_input(file, where, key), dataset);
}

std::vector<double> read_state_rows(const std::string& file, const SourceLocation& where,
                                    const std::string& dataset, const std::string& size_name, int size,
                                    const Partition& partition) {
  const InputDataset input(file, where, dataset, {{"env", {partition.num_envs, 1}}, {size_name, {size}}},
                           "initial_state.file");
  if (input.extent(0) == 1 && partition.num_envs != 1) return input.read({0, 0}, {1, size});
  return input.read({partition.first_env(), 0}, {partition.envs(), size});
}

bool has_state_rows(const std::string& file, const SourceLocation& where, const std::string& dataset) {
  return InputDataset::exists(file, where, dataset, "initial_state.file");
}

ControlRows::ControlRows(InputDataset dataset, int nu, std::int64_t steps, const Partition& partition)
    : dataset_(std::make_shared<InputDataset>(std::move(dataset))), nu_(nu), steps_(steps) {
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
        std::clamp<std::int64_t>(kBlockValues / std::max<std::int64_t>(1, envs_ * nu_), 1, steps_ - step);
    block_ = dataset_->read({first_env_, step, 0}, {envs_, block_steps_, nu_});
  }
  rows_.resize(static_cast<std::size_t>(envs_ * nu_));
  for (std::int64_t env = 0; env < envs_; ++env)
    std::copy_n(block_.begin() + (env * block_steps_ + step - block_first_) * nu_, nu_,
                rows_.begin() + env * nu_);
  return rows_;
}

ControlRows read_control_rows(const std::string& file, const SourceLocation& where, int nu,
                              std::int64_t steps, const Partition& partition) {
  InputDataset dataset(file, where, "ctrl",
                       {{"env", {partition.num_envs, 1}}, {"step", {}, steps}, {"nu", {nu}}}, "control.file");
  return ControlRows(std::move(dataset), nu, steps, partition);
}

}  // namespace maniple
