#!/usr/bin/env bash
# Installs what the program needs: Debian packages and a Python virtual environment in .venv.
# Quick when everything is there already. Usage: tools/setup.sh [--tests]   (also what the tests need)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tests=no
for argument in "$@"; do
  case "$argument" in
    --tests) tests=yes ;;
    *) echo "tools/setup.sh: unknown argument '$argument'; known: --tests" >&2; exit 2 ;;
  esac
done

package_lists=(tools/packages.txt)
requirements=(tools/requirements.txt)
if [ $tests = yes ]; then
  package_lists+=(tools/packages-tests.txt)
  requirements+=(tools/requirements-tests.txt tools/requirements-models.txt)
fi

# ---- Debian packages ----
if command -v dpkg-query > /dev/null; then
  missing=()
  for package in $(grep -hv '^#' "${package_lists[@]}"); do
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2> /dev/null || true)
    [ "$status" = installed ] || missing+=("$package")
  done
  if [ ${#missing[@]} -gt 0 ]; then
    echo "Installing Debian packages: ${missing[*]}"
    as_root=()
    if [ "$(id -u)" -ne 0 ]; then
      if ! command -v sudo > /dev/null; then
        echo "tools/setup.sh: not root and no sudo; ask an administrator to run: apt-get install ${missing[*]}" >&2
        exit 1
      fi
      as_root=(sudo)
    fi
    "${as_root[@]}" apt-get -qq update
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install \
      "${missing[@]}" > /dev/null
  fi
else
  echo "No dpkg here: taking it that compilers, MPI, parallel HDF5, Kokkos and the libraries of README.md are there"
fi

# ---- Python ----
# The stamp holds the lists that were installed last, so a changed list installs again.
hash_of() { cat "$@" | sha256sum | cut -d' ' -f1; }
stamp=.venv/.maniple-packages
wanted="base $(hash_of tools/requirements.txt)"
[ $tests = no ] || wanted_tests="tests $(hash_of "${requirements[@]}")"
if ! grep -qsxF "$wanted" $stamp || { [ $tests = yes ] && ! grep -qsxF "$wanted_tests" $stamp; }; then
  python=python3
  if ! "$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2> /dev/null; then
    python=/usr/bin/python3
  fi
  if ! "$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))'; then
    echo "tools/setup.sh: needs Python 3.11 or newer with its venv module" >&2
    exit 1
  fi
  [ -x .venv/bin/python ] || "$python" -m venv .venv
  echo "Installing Python packages into .venv"
  # (uv takes a tenth of pip's time, but does not know the package index that a site may have configured for pip)
  install() {
    .venv/bin/python -m uv pip install --quiet --python .venv/bin/python "$@" 2> /dev/null ||
      .venv/bin/python -m pip install --quiet --disable-pip-version-check "$@"
  }
  .venv/bin/python -m pip install --quiet --disable-pip-version-check uv
  install -r tools/requirements.txt
  if [ $tests = yes ]; then
    install -r tools/requirements-tests.txt
    install --no-deps -r tools/requirements-models.txt
  fi
  { grep -s '' $stamp || true; echo "$wanted"; [ $tests = no ] || echo "$wanted_tests"; } | sort -u > $stamp.new
  mv $stamp.new $stamp
fi

# Learners that need torch run over the system's Python, whose torch tools/packages-tests.txt names: PyPI's is ten times as
# large and takes CUDA with it.
stamp=.venv-torch/.maniple-packages
if [ $tests = yes ] && ! grep -qsxF "$(hash_of tools/requirements-torch.txt)" $stamp; then
  echo "Installing Python packages into .venv-torch"
  /usr/bin/python3 -m venv --system-site-packages --without-pip .venv-torch
  .venv/bin/python -m uv pip install --quiet --python .venv-torch/bin/python --no-deps -r tools/requirements-torch.txt \
    2> /dev/null || .venv/bin/python -m pip --python .venv-torch/bin/python install --quiet --disable-pip-version-check \
    --no-deps -r tools/requirements-torch.txt
  hash_of tools/requirements-torch.txt > $stamp
fi

# `import maniple` finds the package of this checkout, whose compiled part the build puts into build/python
for packages in .venv/lib/python3*/site-packages; do
  printf '%s\n' "$PWD/tools" | cmp -s - "$packages/maniple.pth" || printf '%s\n' "$PWD/tools" > "$packages/maniple.pth"
done
