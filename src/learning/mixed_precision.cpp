#include "src/learning/mixed_precision.hpp"

#include "kernels/base/tiles.hpp"
#include "kernels/nn/bfloat16.hpp"
#include "src/base/error.hpp"

namespace maniple {

std::string lacks_bfloat16() {
  if (kScalarLanes)
    return std::string("the ") + ExecutionSpace::name() + " back end, which takes samples one by one";
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx512bf16")) return "a CPU without AVX512_BF16";
  if (!kMultipliesBfloat16) return "a build without AVX512_BF16, which this CPU has (MANIPLE_ARCH=native)";
  return "";
#else
  return "a CPU that is no x86-64";
#endif
}

void check_mixed_precision(const Config& config, const std::string& lacking) {
  if (!config.learning.mixed() || lacking.empty()) return;
  const std::string key = "learning.mixed_precision";
  throw InputError(config.where_of(key), key,
                   "found " + text_of(config.learning.mixed_precision) + " on " + lacking,
                   "allowed: none; bf16 on CPUs with AVX512_BF16");
}

}  // namespace maniple
