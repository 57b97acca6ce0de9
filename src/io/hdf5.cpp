// See hdf5.hpp. Locks of HDF5 1.10 fail on some parallel file systems; closing a file does not make it
// durable.
#include "src/io/hdf5.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "src/base/error.hpp"
#include "src/io/commit.hpp"
#include "src/io/hdf5_sources.hpp"
#include "src/io/seal.hpp"
#include "src/parallel/failure.hpp"
#include "src/parallel/partition.hpp"
#include "src/parallel/retry.hpp"

namespace maniple::hdf5 {

namespace {

// Datasets may be larger than their file by what compression can do (deflate: 1032), small ones always.
constexpr double kMostExpansion = 1100, kAlwaysAllowedBytes = 64e6;

// The filter that h5py brings itself.
constexpr H5Z_filter_t kLzf = 32000;

// Of the chunks of a dataset; HDF5 allows them less than 4 GiB.
constexpr hsize_t kSmallChunkBytes = hsize_t{1} << 20, kLargeChunkBytes = hsize_t{1} << 30,
                  kManyChunks = 4096;

// The library prints its error stack to stderr by default; ours goes into exceptions.
void silence() {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

// Locks protect nothing here (names are unique until the rename) and fail on file systems without flock.
Properties file_access() {
  silence();
  Properties access(check_id(H5Pcreate(H5P_FILE_ACCESS), "HDF5 file access properties"));
  check(H5Pset_fclose_degree(access, H5F_CLOSE_STRONG), "HDF5 file access properties");
  // object headers of 1.8 carry checksums, those before do not
  check(H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_V18), "HDF5 file access properties");
  // everything begins at a whole word of the checksum
  check(H5Pset_alignment(access, 1, 8), "HDF5 file access properties");
  // numbers go to the file when they are written: what fails later, in a close, is easily overlooked
  check(H5Pset_sieve_buf_size(access, 0), "HDF5 file access properties");
  H5Pset_file_locking(access, false, true);
  return access;
}

Type text_type(std::size_t size) {
  Type type(check_id(H5Tcopy(H5T_C_S1), "HDF5 text type"));
  check(H5Tset_size(type, size), "HDF5 text type");
  check(H5Tset_cset(type, H5T_CSET_UTF8), "HDF5 text type");
  if (size != H5T_VARIABLE) check(H5Tset_strpad(type, H5T_STR_NULLPAD), "HDF5 text type");
  return type;
}

Space space_of_shape(const Shape& shape) {
  return Space(
      check_id(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr), "HDF5 data space"));
}

void write_scalar_attribute(hid_t object, const std::string& name, hid_t type, const void* value) {
  const Space scalar(check_id(H5Screate(H5S_SCALAR), "HDF5 data space"));
  const Attribute attribute(check_id(H5Acreate2(object, name.c_str(), type, scalar, H5P_DEFAULT, H5P_DEFAULT),
                                     "attribute " + name));
  check(H5Awrite(attribute, type, value), "attribute " + name);
}

template <class T>
T read_scalar_attribute(hid_t object, const std::string& name, hid_t type) {
  const Attribute attribute(check_id(H5Aopen(object, name.c_str(), H5P_DEFAULT), "attribute " + name));
  const Space space(check_id(H5Aget_space(attribute), "attribute " + name));
  if (H5Sget_simple_extent_npoints(space) != 1) throw Error("attribute " + name + ": not a single value");
  T value{};
  check(H5Aread(attribute, type, &value), "attribute " + name);
  return value;
}

// Where an object lies; what went wrong before stays the last error.
std::string path_of(hid_t object) {
  char name[1024] = {};
  const hid_t errors = H5Eget_current_stack();
  H5Iget_name(object, name, sizeof name);
  H5Eset_current_stack(errors);
  return name;
}

Properties creating_groups() {
  Properties links(check_id(H5Pcreate(H5P_LINK_CREATE), "HDF5 link properties"));
  check(H5Pset_create_intermediate_group(links, 1), "HDF5 link properties");
  return links;
}

// The library's innermost reason for the last failure, e.g. "No space left on device".
std::string last_error() {
  // upward: from the innermost function to the interface; the first description says what happened
  std::string reason;
  H5Ewalk2(
      H5E_DEFAULT, H5E_WALK_UPWARD,
      [](unsigned, const H5E_error2_t* entry, void* data) -> herr_t {
        auto& text = *static_cast<std::string*>(data);
        if (text.empty() && entry->desc) text = entry->desc;
        return 0;
      },
      &reason);
  std::erase(reason, '\n');  // asctime's, in the middle of the description of a failed system call
  return reason.empty() ? "HDF5 gives no reason" : reason;
}

// HDF5 writes the errno of a failed system call into its description.
[[noreturn]] void throw_error(const std::string& what, const std::string& reason) {
  const std::size_t number = reason.find("errno = ");
  const int error = number == std::string::npos ? 0 : std::atoi(reason.c_str() + number + 8);
  if (reason.find("version number") != std::string::npos)
    throw Error(what + ": " + reason +
                "; a later version of HDF5 than this program's wrote it, and python -m maniple.datasets trim "
                "OLD NEW writes it so that it can be read");
  if (reason.find("truncated file") != std::string::npos)
    throw Error(what + ": it is cut short, because it was not written or copied completely: " + reason);
  // (its further words are addresses and sizes, some of which are wrong)
  if (error != 0) throw_file_error(what, reason.substr(0, reason.find(": time = ")), error);
  throw Error(what + ": " + reason);
}

}  // namespace

hid_t check_id(hid_t id, const std::string& what) {
  if (id < 0) throw_error(what, last_error());
  return id;
}

void check(herr_t status, const std::string& what) {
  if (status < 0) throw_error(what, last_error());
}

herr_t close_file(hid_t file) {
  const herr_t status = H5Fclose(file);
  if (status < 0) leave_without_finalize();
  return status;
}

namespace {

File create_with(const std::string& path, std::int64_t bytes, std::int64_t user_block) {
  reserve_bytes(path, bytes);
  const Properties access = file_access();
  const Properties creation(check_id(H5Pcreate(H5P_FILE_CREATE), path));
  check(H5Pset_userblock(creation, static_cast<hsize_t>(user_block)), path);
  check(H5Pset_obj_track_times(creation, false), path);
  File file(check_id(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation, access), path));
  reserve_bytes(path, bytes);  // truncating gave the blocks back
  return file;
}

}  // namespace

File create_file(const std::string& path, std::int64_t bytes) {
  return create_with(path, bytes, kSealBytes);
}

File create_plain_file(const std::string& path, std::int64_t bytes) {
  return create_with(path, bytes, 0);
}

namespace {

// Data that a program has not flushed is not in the file. A file system without locks does not show that.
void refuse_writer(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return;  // which the library says better
  const bool locked = ::flock(file, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(file);
  if (locked)
    throw Error(path +
                ": another program has it open for writing (it holds a lock), and unwritten data would "
                "be missing; close it there first");
}

}  // namespace

File open_file(const std::string& path, bool writable) {
  if (!writable) refuse_writer(path);
  const Properties access = file_access();
  // files of others may be of any version
  if (!writable) check(H5Pset_libver_bounds(access, H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST), path);
  return File(check_id(H5Fopen(path.c_str(), writable ? H5F_ACC_RDWR : H5F_ACC_RDONLY, access), path));
}

void close(File& file, const std::string& path) {
  check(H5Fflush(file, H5F_SCOPE_GLOBAL), path);
  check(file.reset(), path);
}

hid_t native_type(ElementType type) {
  switch (type) {
    case ElementType::float32:
      return H5T_NATIVE_FLOAT;
    case ElementType::float64:
      return H5T_NATIVE_DOUBLE;
    case ElementType::int32:
      return H5T_NATIVE_INT32;
    case ElementType::int64:
      return H5T_NATIVE_INT64;
    case ElementType::uint8:
      return H5T_NATIVE_UINT8;
  }
  throw Error("unknown element type");
}

namespace {

// As h5py writes them: an enumeration of FALSE and TRUE.
bool is_bool(hid_t type) {
  std::int8_t no = 1, yes = 0;
  return H5Tget_size(type) == 1 && H5Tget_nmembers(type) == 2 && H5Tenum_valueof(type, "FALSE", &no) >= 0 &&
         H5Tenum_valueof(type, "TRUE", &yes) >= 0 && no == 0 && yes == 1;
}

}  // namespace

std::string type_name(hid_t type) {
  const std::string bits = std::to_string(8 * H5Tget_size(type));
  switch (H5Tget_class(type)) {
    case H5T_FLOAT:
      return "float" + bits;
    case H5T_INTEGER:
      return (H5Tget_sign(type) == H5T_SGN_NONE ? "uint" : "int") + bits;
    case H5T_STRING:
      return "string";
    case H5T_ENUM:
      return is_bool(type) ? "bool" : "other";
    default:
      return "other";
  }
}

void write_attribute(hid_t object, const std::string& name, const std::string& text) {
  const Type type = text_type(H5T_VARIABLE);
  const char* characters = text.c_str();
  write_scalar_attribute(object, name, type, &characters);
}
void write_fixed_attribute(hid_t object, const std::string& name, const std::string& text) {
  const Type type = text_type(std::max<std::size_t>(1, text.size()));
  write_scalar_attribute(object, name, type, text.c_str());
}
void write_attribute(hid_t object, const std::string& name, std::int64_t value) {
  write_scalar_attribute(object, name, H5T_NATIVE_INT64, &value);
}

bool has_attribute(hid_t object, const std::string& name) {
  return H5Aexists(object, name.c_str()) > 0;
}

std::string read_text_attribute(hid_t object, const std::string& name) {
  const Attribute attribute(check_id(H5Aopen(object, name.c_str(), H5P_DEFAULT), "attribute " + name));
  const Type stored(check_id(H5Aget_type(attribute), "attribute " + name));
  if (H5Tget_class(stored) != H5T_STRING) throw Error("attribute " + name + ": not text");
  const Space space(check_id(H5Aget_space(attribute), "attribute " + name));
  if (H5Sget_simple_extent_npoints(space) != 1) throw Error("attribute " + name + ": not a single value");
  if (H5Tis_variable_str(stored) > 0) {
    char* characters = nullptr;
    Type memory(check_id(H5Tcopy(stored), "attribute " + name));
    check(H5Aread(attribute, memory, &characters), "attribute " + name);
    const std::string text = characters ? characters : "";
    H5free_memory(characters);
    return text;
  }
  std::string text(H5Tget_size(stored), '\0');
  check(H5Aread(attribute, stored, text.data()), "attribute " + name);
  text.resize(std::strlen(text.c_str()));  // c_str() ends behind the last byte at the latest
  return text;
}
std::int64_t read_integer_attribute(hid_t object, const std::string& name) {
  return read_scalar_attribute<std::int64_t>(object, name, H5T_NATIVE_INT64);
}
std::uint64_t read_unsigned_attribute(hid_t object, const std::string& name) {
  return read_scalar_attribute<std::uint64_t>(object, name, H5T_NATIVE_UINT64);
}

namespace {

// Space allocated at once and no fill, no time of creation: equal runs give equal files.
Dataset create_numbers(hid_t place, const std::string& name, hid_t type, const Shape& shape,
                       const Shape& chunk) {
  const Properties creation(check_id(H5Pcreate(H5P_DATASET_CREATE), name));
  check(H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER), name);
  check(H5Pset_obj_track_times(creation, false), name);
  if (chunk.empty()) {
    check(H5Pset_layout(creation, H5D_CONTIGUOUS), name);
  } else {
    check(H5Pset_chunk(creation, static_cast<int>(chunk.size()), chunk.data()), name);
  }
  check(H5Pset_alloc_time(creation, H5D_ALLOC_TIME_EARLY), name);
  const Space space = space_of_shape(shape);
  const Properties links = creating_groups();
  return Dataset(check_id(H5Dcreate2(place, name.c_str(), type, space, links, creation, H5P_DEFAULT), name));
}

}  // namespace

Dataset create_dataset(hid_t file, const std::string& name, ElementType type, const Shape& shape,
                       const std::string& unit, const std::string& description, const Shape& chunk) {
  Dataset dataset = create_numbers(file, name, native_type(type), shape, chunk);
  write_attribute(dataset, "unit", unit);
  write_attribute(dataset, "description", description);
  return dataset;
}

Group create_group(hid_t place, const std::string& name) {
  const Properties creation(check_id(H5Pcreate(H5P_GROUP_CREATE), name));
  check(H5Pset_obj_track_times(creation, false), name);
  return Group(check_id(H5Gcreate2(place, name.c_str(), H5P_DEFAULT, creation, H5P_DEFAULT), name));
}

Dataset create_plain_dataset(hid_t place, const std::string& name, ElementType type, const Shape& shape,
                             bool truth) {
  if (!truth) return create_numbers(place, name, native_type(type), shape, {});
  const Type choice(check_id(H5Tenum_create(H5T_NATIVE_INT8), name));
  const std::int8_t no = 0, yes = 1;
  check(H5Tenum_insert(choice, "FALSE", &no), name);
  check(H5Tenum_insert(choice, "TRUE", &yes), name);
  return create_numbers(place, name, choice, shape, {});
}

void create_texts(hid_t place, const std::string& name, const std::vector<std::string>& texts) {
  std::size_t length = 1;
  for (const std::string& text : texts) length = std::max(length, text.size());
  std::string all;
  for (std::string text : texts) {
    text.resize(length, '\0');
    all += text;
  }
  Type type(check_id(H5Tcopy(H5T_C_S1), "HDF5 text type"));
  check(H5Tset_size(type, length), "HDF5 text type");
  check(H5Tset_strpad(type, H5T_STR_NULLPAD), "HDF5 text type");
  Dataset dataset = create_numbers(place, name, type, {static_cast<hsize_t>(texts.size())}, {});
  if (!texts.empty()) check(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, all.data()), name);
  check(dataset.reset(), name);
}

void create_and_write(hid_t file, const std::string& name, ElementType type, const Shape& shape,
                      const void* data, const std::string& unit, const std::string& description,
                      bool reproducible) {
  Dataset dataset = create_dataset(file, name, type, shape, unit, description);
  if (!reproducible) write_attribute(dataset, "reproducible", std::int64_t{0});
  if (std::find(shape.begin(), shape.end(), hsize_t{0}) == shape.end())
    check(H5Dwrite(dataset, native_type(type), H5S_ALL, H5S_ALL, H5P_DEFAULT, data), name);
  check(dataset.reset(), name);
}

void create_deflated(hid_t file, const std::string& name, const Deflated& bytes, const std::string& unit,
                     const std::string& description) {
  // (a chunk may not be larger than its dataset)
  if (bytes.bytes == 0)
    return create_and_write(file, name, ElementType::uint8, {0}, nullptr, unit, description);
  const Space space = space_of_shape({bytes.bytes});
  const Properties creation(check_id(H5Pcreate(H5P_DATASET_CREATE), name));
  check(H5Pset_obj_track_times(creation, false), name);
  const hsize_t chunk = bytes.chunk_bytes;
  check(H5Pset_chunk(creation, 1, &chunk), name);
  check(H5Pset_deflate(creation, 1), name);
  const Properties links = creating_groups();
  Dataset dataset(
      check_id(H5Dcreate2(file, name.c_str(), H5T_NATIVE_UINT8, space, links, creation, H5P_DEFAULT), name));
  write_attribute(dataset, "unit", unit);
  write_attribute(dataset, "description", description);
  hsize_t place = 0;
  for (const std::vector<std::uint8_t>& data : bytes.chunks) {
    check(H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, &place, data.size(), data.data()), name);
    place += chunk;
  }
  check(dataset.reset(), name);
}

void create_text(hid_t file, const std::string& name, const std::string& text,
                 const std::string& description) {
  const Type type = text_type(std::max<std::size_t>(1, text.size()));
  const Space scalar(check_id(H5Screate(H5S_SCALAR), name));
  const Properties creation(check_id(H5Pcreate(H5P_DATASET_CREATE), name));
  check(H5Pset_obj_track_times(creation, false), name);
  const Properties links = creating_groups();
  Dataset dataset(check_id(H5Dcreate2(file, name.c_str(), type, scalar, links, creation, H5P_DEFAULT), name));
  write_attribute(dataset, "unit", "");
  write_attribute(dataset, "description", description);
  const std::string padded = text.empty() ? std::string(1, '\0') : text;
  check(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, padded.data()), name);
  check(dataset.reset(), name);
}

std::string read_text(hid_t file, const std::string& name) {
  const Dataset dataset = open_dataset(file, name);
  const Type type(check_id(H5Dget_type(dataset), name));
  if (H5Tget_class(type) != H5T_STRING || H5Tis_variable_str(type) != 0 || !shape_of(dataset).empty())
    throw Error("dataset " + name + ": not one text of fixed length");
  std::string text(H5Tget_size(type), '\0');
  read_box(dataset, type, {}, {}, text.data(), name);
  text.resize(std::strlen(text.c_str()));
  return text;
}

Dataset open_dataset(hid_t file, const std::string& name, int level) {
  Dataset dataset(check_id(H5Dopen2(file, name.c_str(), H5P_DEFAULT), "dataset " + name));
  const Type type(check_id(H5Dget_type(dataset), name));
  double bytes = static_cast<double>(H5Tget_size(type));
  for (const hsize_t extent : shape_of(dataset)) bytes *= static_cast<double>(extent);
  hsize_t own = 0;
  check(H5Fget_filesize(file, &own), name);
  double stored = static_cast<double>(own);
  const Properties creation(check_id(H5Dget_create_plist(dataset), name));
  stored += bytes_elsewhere(file, creation, name, level);
  if (bytes > kMostExpansion * stored + kAlwaysAllowedBytes)
    throw Error(
        fmt::format("dataset {}: {:.3g} bytes in a file of {:.0f} bytes: sparse datasets are not read", name,
                    bytes, stored));
  return dataset;
}

Shape shape_of(hid_t dataset) {
  const Space space(check_id(H5Dget_space(dataset), path_of(dataset)));
  const int rank = H5Sget_simple_extent_ndims(space);
  check(rank, path_of(dataset));
  Shape shape(static_cast<std::size_t>(rank));
  check(H5Sget_simple_extent_dims(space, shape.data(), nullptr), path_of(dataset));
  return shape;
}

std::string shape_text(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::string type_of(hid_t dataset) {
  const Type type(check_id(H5Dget_type(dataset), path_of(dataset)));
  return type_name(type);
}

namespace {

// check() of what H5Dread() says. A filter is only missing where there are chunks that went through it.
void check_read(herr_t status, hid_t dataset, const std::string& what) {
  if (status >= 0) return;
  const std::string reason = last_error();
  const Properties creation(H5Dget_create_plist(dataset));
  const int filters = creation < 0 ? 0 : H5Pget_nfilters(creation);
  for (int i = 0; i < filters; ++i) {
    unsigned flags = 0, settings = 0;
    std::size_t none = 0;
    char name[256] = {};
    const H5Z_filter_t filter = H5Pget_filter2(creation, static_cast<unsigned>(i), &flags, &none, nullptr,
                                               sizeof name, name, &settings);
    if (filter >= 0 && H5Zfilter_avail(filter) <= 0)
      throw Error(fmt::format(
          "{}: compressed by a filter that is not installed here, {} (HDF5's filter {}); {} OLD "
          "NEW writes a file that can be read anywhere",
          what, *name == '\0' ? "which has no name" : name, filter,
          filter == kLzf ? "python -m maniple.datasets trim" : "where it is, h5repack -f GZIP=4"));
  }
  throw_error(what, reason);
}

}  // namespace

void read_box(hid_t dataset, hid_t memory_type, const Shape& first, const Shape& count, void* data,
              const std::string& what) {
  if (std::find(count.begin(), count.end(), hsize_t{0}) != count.end()) return;
  const Space file_space(check_id(H5Dget_space(dataset), what));
  if (count.empty()) {
    check_read(H5Dread(dataset, memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), dataset, what);
    return;
  }
  check(H5Sselect_hyperslab(file_space, H5S_SELECT_SET, first.data(), nullptr, count.data(), nullptr), what);
  const Space memory_space = space_of_shape(count);
  check_read(H5Dread(dataset, memory_type, memory_space, file_space, H5P_DEFAULT, data), dataset, what);
}

Shape trajectory_chunk(const Shape& shape, hsize_t block, std::size_t bytes) {
  const auto divide = [](hsize_t x, hsize_t y) { return (x + y - 1) / y; };
  const hsize_t blocks = divide(shape[1], block), tile_bytes = block * shape[2] * bytes * kTileWidth;
  const hsize_t tiles = divide(shape[0], kTileWidth);
  const hsize_t small = kSmallChunkBytes / tile_bytes, few = divide(tiles * blocks, kManyChunks);
  const hsize_t most = std::max<hsize_t>(1, std::min(std::max(small, few), kLargeChunkBytes / tile_bytes));
  // alike, so that the last one wastes little
  const hsize_t taken = divide(tiles, divide(tiles, most));
  return {std::min<hsize_t>(shape[0], taken * kTileWidth), block, shape[2]};
}

std::int64_t address_of(hid_t dataset, const std::string& what) {
  const haddr_t address = H5Dget_offset(dataset);  // from the beginning of the file
  if (address == HADDR_UNDEF) throw Error(what + ": no space in the file");
  return static_cast<std::int64_t>(address);
}

std::int64_t address_of_chunk(hid_t dataset, const Shape& first, const std::string& what) {
  unsigned filters = 0;
  haddr_t address = HADDR_UNDEF;
  hsize_t bytes = 0;
  check(H5Dget_chunk_info_by_coord(dataset, first.data(), &filters, &address, &bytes), what);
  if (address == HADDR_UNDEF) throw Error(what + ": no space in the file");
#if !H5_VERSION_GE(1, 14, 2)
  address += static_cast<haddr_t>(kSealBytes);  // counted from behind the user block until then
#endif
  return static_cast<std::int64_t>(address);
}

std::vector<Member> members(hid_t file) {
  std::vector<Member> found;
  // an exception must not cross the library
  const herr_t status = H5Ovisit2(
      file, H5_INDEX_NAME, H5_ITER_INC,
      [](hid_t, const char* name, const H5O_info_t* info, void* data) -> herr_t {
        if (std::strcmp(name, ".") != 0 && (info->type == H5O_TYPE_DATASET || info->type == H5O_TYPE_GROUP))
          static_cast<std::vector<Member>*>(data)->push_back({name, info->type == H5O_TYPE_DATASET});
        return 0;
      },
      &found, H5O_INFO_BASIC);
  check(status, path_of(file));
  std::sort(found.begin(), found.end(), [](const Member& a, const Member& b) { return a.path < b.path; });
  return found;
}

std::vector<std::string> names_in(hid_t group) {
  std::vector<std::string> names;
  // an exception must not cross the library
  check(H5Literate(
            group, H5_INDEX_NAME, H5_ITER_INC, nullptr,
            [](hid_t, const char* name, const H5L_info_t*, void* data) -> herr_t {
              static_cast<std::vector<std::string>*>(data)->emplace_back(name);
              return 0;
            },
            &names),
        path_of(group));
  return names;
}

bool has_path(hid_t file, const std::string& path) {
  const auto has = [&](std::size_t length) {
    const htri_t found = H5Lexists(file, path.substr(0, length).c_str(), H5P_DEFAULT);
    if (found >= 0) return found > 0;
    // a group that cannot be read, or none: a dataset, a link to nothing
    const std::string reason = last_error();
    const auto slash = path.rfind('/', length - 1);
    const std::string group = slash == std::string::npos || slash == 0 ? "/" : path.substr(0, slash);
    const Object above(H5Oopen(file, group.c_str(), H5P_DEFAULT));
    const bool is_group = above >= 0 && H5Iget_type(above) == H5I_GROUP;
    if (!is_group && (above >= 0 || H5Oexists_by_name(file, group.c_str(), H5P_DEFAULT) == 0)) return false;
    throw Error((group == "/" ? "" : "/") + group + " cannot be read (damaged?): " + reason);
  };
  for (auto slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1))
    if (slash > 0 && !has(slash)) return false;
  return !path.empty() && has(path.size());
}

std::vector<std::string> read_texts(hid_t dataset, const std::string& what) {
  const Type stored(check_id(H5Dget_type(dataset), what));
  const Shape shape = shape_of(dataset);
  if (H5Tget_class(stored) != H5T_STRING || shape.size() != 1) throw Error(what + ": not a list of texts");
  const auto count = static_cast<std::size_t>(shape[0]);
  std::vector<std::string> texts(count);
  if (count == 0) return texts;
  if (H5Tis_variable_str(stored) > 0) {
    std::vector<char*> characters(count, nullptr);
    const Type memory(check_id(H5Tcopy(stored), what));
    check_read(H5Dread(dataset, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, characters.data()), dataset, what);
    for (std::size_t i = 0; i < count; ++i) {
      texts[i] = characters[i] ? characters[i] : "";
      H5free_memory(characters[i]);
    }
    return texts;
  }
  const std::size_t length = H5Tget_size(stored);
  std::string all(count * length, '\0');
  check_read(H5Dread(dataset, stored, H5S_ALL, H5S_ALL, H5P_DEFAULT, all.data()), dataset, what);
  for (std::size_t i = 0; i < count; ++i) {
    texts[i] = all.substr(i * length, length);
    texts[i].resize(std::strlen(texts[i].c_str()));
  }
  return texts;
}

}  // namespace maniple::hdf5
