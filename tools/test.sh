#!/usr/bin/env bash
# Installs what is missing, builds everything and runs the tests; at the end, the ten that took longest.
# Usage: tools/test.sh [--fast | --all] [ctest arguments]     --fast: the tests that take a minute in all
#        --all: also those labelled nightly, which repeat with more sizes, decks and faults, and take hours
# MANIPLE_WERROR=ON makes warnings errors (as .ci/run does).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. tools/common.sh

selection=(-LE nightly)
arguments=()
for argument in "$@"; do
  case "$argument" in
    --fast) selection=(-L fast -LE nightly) ;;
    --all) selection=() ;;
    -LE) selection=(); arguments+=(-LE) ;;
    *) arguments+=("$argument") ;;
  esac
done

bash tools/setup.sh --tests
# a build folder that tools/run.sh configured may know nothing of tests
configure_build build -DMANIPLE_TESTS=ON ${MANIPLE_WERROR:+"-DMANIPLE_WERROR=$MANIPLE_WERROR"}
build_targets build
status=0
# (twice as many as there are cores: half of a test's time goes by in starts of MPI, which wait)
ctest --test-dir build --output-on-failure --no-tests=error -j $((2 * $(usable_cores))) "${selection[@]}" "${arguments[@]}" |
  tee build/tests.log || status=$?
echo "The slowest of them:"
sed -nE 's|^ *[0-9]+/[0-9]+ Test +#[0-9]+: ([^ ]+) \.+ *(.*[^ ]) +([0-9.]+ sec)$|\3  \1|p' build/tests.log | sort -rn | head
exit $status
