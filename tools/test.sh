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
# a build folder that tools/run.sh configured may know nothing of tests
configure_build build -DMANIPLE_TESTS=ON ${MANIPLE_WERROR:+"-DMANIPLE_WERROR=$MANIPLE_WERROR"}
build_targets build
ctest --test-dir build --output-on-failure --no-tests=error -j "$(nproc)" "${arguments[@]}"
