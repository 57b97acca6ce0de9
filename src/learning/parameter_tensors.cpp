#include "src/learning/parameter_tensors.hpp"

#include <fmt/format.h>

#include <cmath>

#include "kernels/nn/gaussian.hpp"
#include "kernels/nn/network.hpp"

namespace maniple {
namespace {

// body(place in the flat buffer) for the elements of a tensor in torch's order.
template <class Body>
void for_elements(const ParameterTensor& tensor, const Body& body) {
  const std::size_t axes = tensor.shape.size();
  std::vector<std::int64_t> steps(axes, 1), index(axes, 0);
  std::int64_t step = 1;
  for (std::size_t i = axes; i-- > 0;) {
    const auto axis = static_cast<std::size_t>(tensor.order[i]);
    steps[axis] = step;
    step *= tensor.shape[axis];
  }
  for (std::int64_t count = tensor.size(); count > 0; --count) {
    std::int64_t place = tensor.first;
    for (std::size_t axis = 0; axis < axes; ++axis) place += index[axis] * steps[axis];
    body(place);
    for (std::size_t axis = axes; axis-- > 0;) {
      if (++index[axis] < tensor.shape[axis]) break;
      index[axis] = 0;
    }
  }
}

// The numbers that a tensor begins with, one after the other.
template <class T>
class Draws {
 public:
  Draws(const ParameterTensor& tensor, std::uint32_t seed, std::uint32_t number)
      : tensor_(tensor), seed_(seed), number_(number) {}

  T next() {
    using Start = ParameterTensor::Start;
    if (tensor_.start == Start::zero) return T(0);
    if (tensor_.start == Start::one) return T(1);
    const std::uint64_t block = drawn_ / 4;
    const auto place = static_cast<int>(drawn_++ % 4);
    if (tensor_.start == Start::normal)
      return static_cast<T>(std::sqrt(2.0 / tensor_.fan) * normal_noise<double>(
                                                               seed_, RandomPurpose::parameters,
                                                               [&](int) { return block; }, number_, place));
    if (place == 0) random_ = random_block(seed_, RandomPurpose::parameters, block, 0, number_);
    return (T(2) * uniform01<T>(random_.word[place]) - T(1)) *
           (T(1) / std::sqrt(static_cast<T>(tensor_.fan)));
  }

 private:
  const ParameterTensor& tensor_;
  const std::uint32_t seed_, number_;
  std::uint64_t drawn_ = 0;
  PhiloxBlock random_{};
};

}  // namespace

std::int64_t ParameterTensor::size() const {
  std::int64_t count = 1;
  for (const int axis : shape) count *= axis;
  return count;
}

std::int64_t ParameterTensors::add(const std::string& name, const std::vector<int>& shape,
                                   const std::vector<int>& order, ParameterTensor::Start start, int fan) {
  ParameterTensor tensor{name, shape, order, parameters, start, fan};
  parameters += padded_parameters(tensor.size());
  list.push_back(std::move(tensor));
  return list.back().first;
}

template <class T>
std::vector<T> in_torch_order(const std::vector<ParameterTensor>& tensors, const std::vector<T>& flat) {
  std::vector<T> elements;
  elements.reserve(flat.size());
  for (const ParameterTensor& tensor : tensors)
    for_elements(tensor,
                 [&](std::int64_t place) { elements.push_back(flat[static_cast<std::size_t>(place)]); });
  return elements;
}

template <class T>
std::vector<T> from_torch_order(const std::vector<ParameterTensor>& tensors, const std::vector<T>& elements) {
  const ParameterTensor& last = tensors.back();
  std::vector<T> flat(static_cast<std::size_t>(last.first + padded_parameters(last.size())), T(0));
  std::size_t next = 0;
  for (const ParameterTensor& tensor : tensors)
    for_elements(tensor,
                 [&](std::int64_t place) { flat[static_cast<std::size_t>(place)] = elements[next++]; });
  return flat;
}

void describe_tensors(const std::vector<ParameterTensor>& tensors, const std::string& prefix, float* elements,
                      Archive& archive) {
  for (const ParameterTensor& tensor : tensors) {
    const auto size = static_cast<std::size_t>(tensor.size());
    archive.replicated(prefix + tensor.name, elements, size, "1",
                       fmt::format("[{}], as torch has it", fmt::join(tensor.shape, ", ")));
    elements += size;
  }
}

template <class T>
std::vector<T> initial_values(const ParameterTensors& tensors, std::uint32_t seed, std::uint32_t stream) {
  std::vector<T> values(static_cast<std::size_t>(tensors.parameters), T(0));
  std::uint32_t number = stream << 16;
  for (const ParameterTensor& tensor : tensors.list) {
    Draws<T> draws(tensor, seed, number++);
    for_elements(tensor, [&](std::int64_t place) { values[static_cast<std::size_t>(place)] = draws.next(); });
  }
  return values;
}

template std::vector<float> in_torch_order(const std::vector<ParameterTensor>&, const std::vector<float>&);
template std::vector<double> in_torch_order(const std::vector<ParameterTensor>&, const std::vector<double>&);
template std::vector<float> from_torch_order(const std::vector<ParameterTensor>&, const std::vector<float>&);
template std::vector<double> from_torch_order(const std::vector<ParameterTensor>&,
                                              const std::vector<double>&);
template std::vector<float> initial_values(const ParameterTensors&, std::uint32_t, std::uint32_t);
template std::vector<double> initial_values(const ParameterTensors&, std::uint32_t, std::uint32_t);

}  // namespace maniple
