#include <gmock/gmock.h>

#include "src/base/error.hpp"
#include "src/learning/mixed_precision.hpp"

namespace maniple {
namespace {

TEST(MixedPrecision, IsRefusedWhereTheDeviceLacksIt) {
  Config config;
  EXPECT_NO_THROW(check_mixed_precision(config, "a CPU without AVX512_BF16"));
  config.learning.mixed_precision = MixedPrecision::bf16;
  EXPECT_NO_THROW(check_mixed_precision(config, ""));
  try {
    check_mixed_precision(config, "a CPU without AVX512_BF16");
    FAIL() << "nothing was thrown";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(),
                ::testing::HasSubstr("learning.mixed_precision: found bf16 on a CPU without AVX512_BF16; "
                                     "allowed: none; bf16 on CPUs with AVX512_BF16"));
  }
}

}  // namespace
}  // namespace maniple
