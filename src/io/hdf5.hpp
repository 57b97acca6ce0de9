// HDF5 for the rest of src/io: handles that close themselves, calls that throw, and the
// few operations that our files need. Files are created, described and closed by one
// rank; where all ranks then write, they use only the addresses of the numbers
// (SharedFile). Metadata is thus written once, and no call of the library is collective.
#pragma once

#include <hdf5.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "src/io/archive.hpp"
#include "src/io/deflated.hpp"

namespace maniple::hdf5 {

// Owns an identifier and closes it with its own function.
template <herr_t (*close)(hid_t)>
class Handle {
 public:
  Handle() = default;
  explicit Handle(hid_t id) : id_(id) {}
  ~Handle() { reset(); }
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)) {}
  Handle& operator=(Handle&& other) noexcept {
    if (this != &other) {
      reset();
      id_ = std::exchange(other.id_, -1);
    }
    return *this;
  }
  operator hid_t() const { return id_; }
  // Closes now; negative when the library reports an error.
  herr_t reset() { return id_ >= 0 ? close(std::exchange(id_, -1)) : 0; }

 private:
  hid_t id_ = -1;
};
// H5Fclose; remembers a failure, after which the library does not survive its own end.
herr_t close_file(hid_t file);
using File = Handle<close_file>;
using Group = Handle<H5Gclose>;
using Object = Handle<H5Oclose>;
using Dataset = Handle<H5Dclose>;
using Space = Handle<H5Sclose>;
using Type = Handle<H5Tclose>;
using Attribute = Handle<H5Aclose>;
using Properties = Handle<H5Pclose>;

// Throw Error (FileError or TransientError where errno says so) "<what>: <the library's innermost reason>"
// for negative results; what names the path.
hid_t check_id(hid_t id, const std::string& what);
void check(herr_t status, const std::string& what);

// ---- files ----
// Replaces a file; with room for a seal. Blocks for `bytes` are reserved first, so that a full disk is an
// Error before the library has anything to lose.
File create_file(const std::string& path, std::int64_t bytes);
// The same without the seal's room, for files that other programs go on with.
File create_plain_file(const std::string& path, std::int64_t bytes);
// Takes no lock of its own. For reading, Error where another program has the file open for writing, as far as
// its lock (flock, as h5py takes it) or the file itself says so.
File open_file(const std::string& path, bool writable);
// Writes what is left to write and closes; the destructor of File would keep an error to itself.
void close(File& file, const std::string& path);

// ---- types ----
hid_t native_type(ElementType type);  // not owned
// "float64" etc. (numpy's name), "bool", "string", or "other". All but the last two can be read as numbers.
std::string type_name(hid_t type);

// ---- attributes (variable-length UTF-8 text, which h5py reads as str; and integers) ----
void write_attribute(hid_t object, const std::string& name, const std::string& text);
// The same with fixed length: lies in the object's checksummed header, where a flipped bit is an error
// (in the heap of variable-length text it can crash the library). h5py reads bytes.
void write_fixed_attribute(hid_t object, const std::string& name, const std::string& text);
void write_attribute(hid_t object, const std::string& name, std::int64_t value);
bool has_attribute(hid_t object, const std::string& name);
std::string read_text_attribute(hid_t object, const std::string& name);
std::int64_t read_integer_attribute(hid_t object, const std::string& name);
std::uint64_t read_unsigned_attribute(hid_t object, const std::string& name);

// ---- datasets ----
using Shape = std::vector<hsize_t>;

// Creates a dataset and the groups above it, with space allocated at once and no fill. `chunk` empty:
// contiguous.
Dataset create_dataset(hid_t file, const std::string& name, ElementType type, const Shape& shape,
                       const std::string& unit, const std::string& description, const Shape& chunk = {});
// Groups and datasets without a word of their own, as other programs know them; `place`: a file or group.
// `truth`: of bytes, h5py's bool.
Group create_group(hid_t place, const std::string& name);
Dataset create_plain_dataset(hid_t place, const std::string& name, ElementType type, const Shape& shape,
                             bool truth = false);
void create_texts(hid_t place, const std::string& name, const std::vector<std::string>& texts);
// A whole dataset from one rank's memory.
void create_and_write(hid_t file, const std::string& name, ElementType type, const Shape& shape,
                      const void* data, const std::string& unit, const std::string& description,
                      bool reproducible = true);
// Bytes, deflated already.
void create_deflated(hid_t file, const std::string& name, const Deflated& bytes, const std::string& unit,
                     const std::string& description);
// A scalar dataset of fixed-length text.
void create_text(hid_t file, const std::string& name, const std::string& text,
                 const std::string& description);
std::string read_text(hid_t file, const std::string& name);
// Refuses datasets whose numbers cannot all be there (2^60 elements of which none was written): those of a
// virtual one are in other datasets, and of an external one in plain files, in whose place the library gives
// fill values where they are missing (see hdf5_sources.hpp, for which `level` is).
Dataset open_dataset(hid_t file, const std::string& name, int level = 0);
Shape shape_of(hid_t dataset);
std::string shape_text(const Shape& shape);  // "[2, 3]"
std::string type_of(hid_t dataset);
// A box of a dataset, converted to `memory_type`, packed.
void read_box(hid_t dataset, hid_t memory_type, const Shape& first, const Shape& count, void* data,
              const std::string& what);

// Chunks of a dataset [env, sample, size] whose elements take this many bytes: `block` samples of whole tiles
// of environments, so that few chunks belong to two ranks; a mebibyte, or more where the dataset is so large
// that it would have too many of them for address_of_chunk(), which looks at all to find one.
Shape trajectory_chunk(const Shape& shape, hsize_t block, std::size_t bytes);

// Where in the file the numbers of a contiguous dataset begin.
std::int64_t address_of(hid_t dataset, const std::string& what);
// Where the chunk begins that holds the element `first`.
std::int64_t address_of_chunk(hid_t dataset, const Shape& first, const std::string& what);

// Every object below the root in alphabetical order: path without leading '/', and whether it is a
// dataset (otherwise a group).
struct Member {
  std::string path;
  bool is_dataset;
};
std::vector<Member> members(hid_t file);
// Names of what lies right below a group, in alphabetical order.
std::vector<std::string> names_in(hid_t group);
// Whether each part of a path is there. Error where a group on the way cannot be read.
bool has_path(hid_t file, const std::string& path);
// The texts of a dataset of one dimension, of fixed or variable length.
std::vector<std::string> read_texts(hid_t dataset, const std::string& what);

}  // namespace maniple::hdf5
