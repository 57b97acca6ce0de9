#!/usr/bin/env bash
# Installs what is missing, builds everything and runs the tests.
# Usage: tools/test.sh [--fast] [ctest arguments]     --fast: the tests that take under a minute in all
# MANIPLE_WERROR=ON makes warnings errors (as .ci/run does).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. tools/common.sh

arguments=()
for argument in "$@"; do
  case "$argument" in
    --fast) arguments+=(-L fast) ;;
    *) arguments+=("$argument") ;;
  esac
done

bash tools/setup.sh --tests
if [ -n "${MANIPLE_WERROR:-}" ]; then
  configure_build build "-DMANIPLE_WERROR=$MANIPLE_WERROR"
else
  configure_build build
fi
build_targets build
ctest --test-dir build --output-on-failure --no-tests=error -j "$(nproc)" "${arguments[@]}"
