// The parameters of a network as the tensors of torch's state dict, and the flat buffer that kernels see, in
// which each tensor may have its axes in another order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/io/archive.hpp"

namespace maniple {

// One tensor of the parameters, by its name and shape in the state dict of the reference.
struct ParameterTensor {
  // uniform: +-1 / sqrt(fan), torch's default; normal: deviation sqrt(2 / fan) (He et al. 2015)
  enum class Start { uniform, normal, one, zero };

  std::string name;        // "down_modules.0.1.blocks.0.block.0.weight"
  std::vector<int> shape;  // as torch has it
  std::vector<int> order;  // in which its axes lie in the flat buffer, the slowest first
  std::int64_t first = 0;  // place of its first element there
  Start start = Start::uniform;
  int fan = 1;  // what a unit sums over, or goes into: as torch counts them

  std::int64_t size() const;
};

// Tensors one after the other. They begin at multiples of kParameterPadding; what lies between them is zero
// and stays so, as its gradient is.
struct ParameterTensors {
  std::vector<ParameterTensor> list;
  std::int64_t parameters = 0;  // of the flat buffer

  // Place of its first element.
  std::int64_t add(const std::string& name, const std::vector<int>& shape, const std::vector<int>& order,
                   ParameterTensor::Start start, int fan);
};

// Elements of all tensors one after the other, each in torch's order (row-major), from or to the flat buffer.
template <class T>
std::vector<T> in_torch_order(const std::vector<ParameterTensor>& tensors, const std::vector<T>& flat);
template <class T>
std::vector<T> from_torch_order(const std::vector<ParameterTensor>& tensors, const std::vector<T>& elements);

// Each tensor as an entry <prefix><name> of an archive; `elements` as in_torch_order() gives them.
void describe_tensors(const std::vector<ParameterTensor>& tensors, const std::string& prefix, float* elements,
                      Archive& archive);

// Initial values of the flat buffer, drawn per element from (seed, stream, tensor, element). Networks of one
// training that are to differ have streams of their own, below 2^16.
template <class T>
std::vector<T> initial_values(const ParameterTensors& tensors, std::uint32_t seed, std::uint32_t stream = 0);

// The first thing that makes the shape of a network impossible: which member, what it is, what it could be.
struct ShapeFault {
  std::string member, found, allowed;
};

}  // namespace maniple
