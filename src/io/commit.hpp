// Files that appear complete or not at all: written under a temporary name that carries job, process and
// host, made durable, then renamed. What a killed job left behind is recognised by that name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace maniple {

// "<path>.tmp.<job>.<pid>.<host>", unique to this process.
std::string temporary_name(const std::string& path);

// Reserves blocks for the first `bytes` bytes of a file, which is made when missing and keeps its size:
// a full disk is an error now and not in the middle of a parallel write. Where the file
// system cannot reserve, its free space is asked (quotas are not seen). Throws Error with path and bytes.
void reserve_bytes(const std::string& path, std::int64_t bytes);

// What a file of `datasets` datasets with `numbers` bytes of numbers takes at most, headers included.
std::int64_t file_bytes(std::int64_t numbers, std::size_t datasets);

// Gives back blocks reserved behind the end, fsync(temporary), rename, fsync of the directory. Throws Error.
void commit_file(const std::string& temporary, const std::string& path);

// Writes a small text file through a temporary name. Throws Error.
void write_text_file(const std::string& path, const std::string& text);

// Removes temporary files in `directory`, except those of live processes of this host. For whoever holds the
// directory's lock (run_directory.hpp): other hosts do not write there. Never throws.
void remove_abandoned(const std::string& directory);

// Throws Error with path and reason when the directory cannot be made.
void make_directory(const std::string& directory);

}  // namespace maniple
