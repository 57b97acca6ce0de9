// Against the examples of FIPS 180-4 (published with the standard by NIST).
#include <gtest/gtest.h>

#include "src/io/sha256.hpp"

namespace maniple {
namespace {

std::string digest_of(const std::string& text, std::size_t piece) {
  Sha256 sha;
  for (std::size_t i = 0; i < text.size(); i += piece)
    sha.add(text.data() + i, std::min(piece, text.size() - i));
  return sha.finish();
}

TEST(Sha256, PublishedExamples) {
  EXPECT_EQ(digest_of("", 1), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(digest_of("abc", 3), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(digest_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(Sha256, MillionLettersInPiecesOfAnySize) {
  const std::string text(1000000, 'a');
  for (std::size_t piece : {1, 63, 64, 65, 999, 1000000})
    EXPECT_EQ(digest_of(text, piece), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

}  // namespace
}  // namespace maniple
