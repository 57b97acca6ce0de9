// The formats: PKWARE's APPNOTE.TXT (ZIP, of which NumPy uses "stored" and "deflated", with ZIP64 fields in
// local headers), and numpy.lib.format for the arrays in it.
#include "src/base/npz.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>

#include "src/base/error.hpp"

namespace maniple {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::uint32_t kEntrySignature = 0x02014b50, kLocalSignature = 0x04034b50,
                        kEndSignature = 0x06054b50;
constexpr std::size_t kEndBytes = 22, kEntryBytes = 46, kLocalBytes = 30;
constexpr std::size_t kElsewhere = 0xffffffff;  // a number that ZIP64 has in another place
constexpr std::size_t kMostDeflated = 1040;     // bytes that deflate makes one of

// A part of a file; reading beyond its end is an Error.
class Bytes {
 public:
  Bytes(const char* data, std::size_t size) : data_(data), size_(size) {}

  std::size_t size() const { return size_; }
  const char* at(std::size_t first, std::size_t count) const {
    if (first > size_ || count > size_ - first) throw Error("is cut off");
    return data_ + first;
  }
  template <class Number>
  Number number(std::size_t first) const {
    Number value;
    std::memcpy(&value, at(first, sizeof(Number)), sizeof(Number));
    return value;
  }
  Bytes part(std::size_t first, std::size_t count) const { return {at(first, count), count}; }

 private:
  const char* data_;
  std::size_t size_;
};

// A file in the archive, as the directory at the end of the archive has it.
struct Entry {
  std::string name;
  unsigned flags = 0, method = 0;
  std::uint32_t checksum = 0;  // CRC-32 of what is in it
  std::size_t packed = 0, size = 0, local = 0;
};

std::vector<Entry> entries_of(const Bytes& file) {
  if (file.size() < kEndBytes) throw Error("is no ZIP archive");
  std::size_t end = file.size() - kEndBytes;
  // (a comment of any text may follow the end)
  const auto is_end = [&](std::size_t at) {
    return file.number<std::uint32_t>(at) == kEndSignature &&
           at + kEndBytes + file.number<std::uint16_t>(at + 20) == file.size();
  };
  while (!is_end(end))
    if (end-- == 0) throw Error("is no ZIP archive, or is cut off");
  const std::size_t count = file.number<std::uint16_t>(end + 10);
  std::size_t at = file.number<std::uint32_t>(end + 16);
  if (count == 0xffff || at == kElsewhere) throw Error("is larger than 4 GB");
  std::vector<Entry> entries;
  for (std::size_t i = 0; i < count; ++i) {
    if (file.number<std::uint32_t>(at) != kEntrySignature) throw Error("has a damaged directory");
    const std::size_t name = file.number<std::uint16_t>(at + 28), extra = file.number<std::uint16_t>(at + 30),
                      comment = file.number<std::uint16_t>(at + 32);
    entries.push_back({.name = {file.at(at + kEntryBytes, name), name},
                       .flags = file.number<std::uint16_t>(at + 8),
                       .method = file.number<std::uint16_t>(at + 10),
                       .checksum = file.number<std::uint32_t>(at + 16),
                       .packed = file.number<std::uint32_t>(at + 20),
                       .size = file.number<std::uint32_t>(at + 24),
                       .local = file.number<std::uint32_t>(at + 42)});
    at += kEntryBytes + name + extra + comment;
  }
  return entries;
}

std::vector<char> inflated(const char* packed, const Entry& entry) {
  if (entry.size / kMostDeflated > entry.packed) throw Error("is damaged");
  std::vector<char> result(entry.size);
  z_stream stream{};
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed));
  stream.avail_in = static_cast<uInt>(entry.packed);
  stream.next_out = reinterpret_cast<Bytef*>(result.data());
  stream.avail_out = static_cast<uInt>(result.size());
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw Error("cannot be unpacked: zlib has no memory");
  const int ended = inflate(&stream, Z_FINISH);
  inflateEnd(&stream);
  if (ended != Z_STREAM_END || stream.avail_out != 0) throw Error("is damaged");
  return result;
}

std::vector<char> unpacked(const Bytes& file, const Entry& entry) {
  for (const std::size_t number : {entry.packed, entry.size, entry.local})
    if (number == kElsewhere) throw Error("has an array of more than 4 GB");
  if (file.number<std::uint32_t>(entry.local) != kLocalSignature) throw Error("has a damaged entry");
  if (entry.flags & 1u) throw Error("is encrypted");
  const std::size_t first = entry.local + kLocalBytes + file.number<std::uint16_t>(entry.local + 26) +
                            file.number<std::uint16_t>(entry.local + 28);
  const char* const packed = file.at(first, entry.packed);
  if (entry.method != 0 && entry.method != 8)
    throw Error(fmt::format("is compressed by method {}, not by deflate", entry.method));
  std::vector<char> result =
      entry.method == 0 ? std::vector<char>(packed, packed + entry.packed) : inflated(packed, entry);
  const uLong checksum =
      crc32(0, reinterpret_cast<const Bytef*>(result.data()), static_cast<uInt>(result.size()));
  if (checksum != entry.checksum) throw Error("is damaged");
  return result;
}

// The text of a key in the header of an array, a literal of Python: {'descr': '<f4', 'shape': (3, 2), ...}.
std::string literal_of(const std::string& header, const std::string& key, char open, char close) {
  const std::size_t at = header.find("'" + key + "'");
  const std::size_t first = at == std::string::npos ? at : header.find(open, at + key.size() + 2);
  const std::size_t last = first == std::string::npos ? first : header.find(close, first + 1);
  if (last == std::string::npos) throw Error("has an array whose header lacks " + key);
  return header.substr(first + 1, last - first - 1);
}

template <class Number>
void read_numbers(const Bytes& bytes, std::vector<double>& values) {
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<double>(bytes.number<Number>(i * sizeof(Number)));
}

// "3, 2" as extents, whose product must not exceed `most`.
std::vector<std::size_t> shape_of(const std::string& text, std::size_t most) {
  std::vector<std::size_t> shape;
  std::size_t count = 1;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    if (*at == ' ' || *at == ',') {
      ++at;
      continue;
    }
    std::size_t extent = 0;
    const auto [behind, problem] = std::from_chars(at, end, extent);
    if (problem == std::errc::result_out_of_range || (problem == std::errc{} && extent > most / count))
      throw Error("has an array that is cut off");
    if (problem != std::errc{}) throw Error("has an array whose shape is (" + text + ")");
    shape.push_back(extent);
    count *= std::max<std::size_t>(extent, 1);
    at = behind;
  }
  return shape;
}

// Row by row what is given column by column.
std::vector<double> transposed(const std::vector<double>& values, const std::vector<std::size_t>& shape) {
  std::vector<double> result(values.size());
  std::vector<std::size_t> index(shape.size(), 0);
  for (double& value : result) {
    std::size_t from = 0;
    for (std::size_t axis = shape.size(); axis-- > 0;) from = from * shape[axis] + index[axis];
    value = values[from];
    for (std::size_t axis = shape.size(); axis > 0; --axis) {
      if (++index[axis - 1] < shape[axis - 1]) break;
      index[axis - 1] = 0;
    }
  }
  return result;
}

NpyArray array_of(const Bytes& bytes) {
  if (std::string(bytes.at(0, 6), 6) != "\x93NUMPY") throw Error("has a member that is no array");
  const bool long_header = bytes.number<std::uint8_t>(6) > 1;
  const std::size_t start = long_header ? 12 : 10;
  const std::size_t length = long_header ? bytes.number<std::uint32_t>(8) : bytes.number<std::uint16_t>(8);
  const std::string header(bytes.at(start, length), length);
  const std::string type = literal_of(header, "descr", '\'', '\'');
  const bool is_read = type == "<f4" || type == "<f8" || type == "<i4" || type == "<i8";
  NpyArray array;
  if (!is_read) {
    array.unread_type = type;
    return array;
  }
  array.shape = shape_of(literal_of(header, "shape", '(', ')'), bytes.size());
  std::size_t count = 1;
  for (const std::size_t extent : array.shape) count *= extent;
  const Bytes numbers = bytes.part(start + length, bytes.size() - start - length);
  array.values.resize(count);
  if (type == "<f4")
    read_numbers<float>(numbers, array.values);
  else if (type == "<f8")
    read_numbers<double>(numbers, array.values);
  else if (type == "<i8")
    read_numbers<std::int64_t>(numbers, array.values);
  else
    read_numbers<std::int32_t>(numbers, array.values);
  if (header.find("'fortran_order': True") != std::string::npos)
    array.values = transposed(array.values, array.shape);
  return array;
}

}  // namespace

std::map<std::string, NpyArray> read_npz(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw Error(path + ": cannot be opened");
  const std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  const Bytes file(text.data(), text.size());
  try {
    std::map<std::string, NpyArray> arrays;
    for (const Entry& entry : entries_of(file)) {
      const std::vector<char> bytes = unpacked(file, entry);
      const std::size_t suffix = entry.name.rfind(".npy");
      if (suffix != std::string::npos)
        arrays[entry.name.substr(0, suffix)] = array_of({bytes.data(), bytes.size()});
    }
    return arrays;
  } catch (const Error& error) {
    throw Error(path + " " + error.what());
  }
}

}  // namespace maniple
