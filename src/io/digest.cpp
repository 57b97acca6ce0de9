// Numbers are read in pieces of bounded size and hashed in row-major order as little-endian values.
#include "src/io/digest.hpp"

#include <openssl/evp.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <vector>

#include "src/base/error.hpp"
#include "src/io/hdf5.hpp"

namespace maniple {

namespace {

static_assert(std::endian::native == std::endian::little, "digests are defined over little-endian numbers");

constexpr std::size_t kPieceBytes = std::size_t{16} << 20;

// SHA-256 in pieces.
class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    check(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
  }
  void add(const void* data, std::size_t bytes) { check(EVP_DigestUpdate(context_.get(), data, bytes) == 1); }
  // 64 hexadecimal digits; the object is used up.
  std::string finish() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int bytes = 0;
    check(EVP_DigestFinal_ex(context_.get(), digest, &bytes) == 1);
    std::string text;
    for (unsigned int i = 0; i < bytes; ++i)
      for (const int shift : {4, 0}) text += "0123456789abcdef"[(digest[i] >> shift) & 15];
    return text;
  }

 private:
  static void check(bool success) {
    if (!success) throw Error("libcrypto: SHA-256 is not available");
  }
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context_;
};

// All numbers of a dataset, by ranges of the first dimension (and, where one row is too long, by
// ranges of the second).
void add_numbers(Sha256& sha, hid_t dataset, hid_t type, const hdf5::Shape& shape, const std::string& what) {
  const std::size_t bytes = H5Tget_size(type);
  if (shape.empty()) {
    std::vector<unsigned char> value(bytes);
    hdf5::read_box(dataset, type, {}, {}, value.data(), what);
    sha.add(value.data(), bytes);
    return;
  }
  hdf5::Shape first(shape.size(), 0), count(shape);
  auto walk = [&](auto& self, std::size_t dimension) -> void {
    std::size_t slice = bytes;  // of one index of this dimension
    for (std::size_t d = dimension + 1; d < shape.size(); ++d) slice *= shape[d];
    if (slice > kPieceBytes && dimension + 1 < shape.size()) {
      count[dimension] = 1;
      for (first[dimension] = 0; first[dimension] < shape[dimension]; ++first[dimension])
        self(self, dimension + 1);
      first[dimension] = 0;
      count[dimension] = shape[dimension];
      return;
    }
    const hsize_t step = std::max<hsize_t>(1, kPieceBytes / std::max<std::size_t>(1, slice));
    std::vector<unsigned char> piece;
    for (first[dimension] = 0; first[dimension] < shape[dimension]; first[dimension] += step) {
      count[dimension] = std::min<hsize_t>(step, shape[dimension] - first[dimension]);
      piece.resize(count[dimension] * slice);
      hdf5::read_box(dataset, type, first, count, piece.data(), what);
      sha.add(piece.data(), piece.size());
    }
    first[dimension] = 0;
    count[dimension] = shape[dimension];
  };
  if (std::find(shape.begin(), shape.end(), hsize_t{0}) == shape.end()) walk(walk, 0);
}

}  // namespace

std::string file_digest(const std::string& path) {
  const hdf5::File file = hdf5::open_file(path, false);
  Sha256 sha;
  for (const hdf5::Member& member : hdf5::members(file)) {
    if (!member.is_dataset || member.path.rfind("run/", 0) == 0) continue;
    const hdf5::Dataset dataset = hdf5::open_dataset(file, member.path);
    if (hdf5::has_attribute(dataset, "reproducible") &&
        hdf5::read_integer_attribute(dataset, "reproducible") == 0)
      continue;
    const std::string type = hdf5::type_of(dataset);
    if (type == "string" || type == "other") continue;
    const hdf5::Type stored(hdf5::check_id(H5Dget_type(dataset), path));
    const hdf5::Type memory(hdf5::check_id(H5Tget_native_type(stored, H5T_DIR_DEFAULT), path));
    const hdf5::Shape shape = hdf5::shape_of(dataset);
    std::string header = member.path + " " + type + " [";
    for (const hsize_t extent : shape) header += std::to_string(extent) + " ";
    header += "]\n";
    sha.add(header.data(), header.size());
    add_numbers(sha, dataset, memory, shape, path + ": " + member.path);
  }
  return sha.finish();
}

}  // namespace maniple
