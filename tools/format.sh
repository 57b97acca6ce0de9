#!/usr/bin/env bash
# Formats all C++ files with .clang-format; with --check only says which ones differ, and fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
files=$(git ls-files --cached --others --exclude-standard -- '*.cpp' '*.hpp' | while read -r f; do [ -f "$f" ] && echo "$f"; done)
if [ "${1:-}" = --check ]; then
  clang-format --dry-run -Werror $files
  echo "format: $(wc -w <<< "$files") files are as .clang-format wants them"
else
  clang-format -i $files
fi
