// The list of learners, from which a deck chooses one.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "src/config/schema.hpp"
#include "src/learning/learners.hpp"

namespace maniple {
namespace {

// What a deck may ask for and what there is are two lists, of the configuration's layer and of this one.
TEST(Learners, AreTheChoicesOfTheDeck) {
  std::vector<std::string> names;
  for (const LearnerKind& kind : learners()) names.push_back(kind.name);
  const auto key = std::find_if(schema().begin(), schema().end(),
                                [](const Key& k) { return k.path == "learning.algorithm"; });
  ASSERT_NE(key, schema().end());
  EXPECT_EQ(names, key->allowed.choices);
  EXPECT_EQ(names.front(), LearningConfig().algorithm);
}

}  // namespace
}  // namespace maniple
