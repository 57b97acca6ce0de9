# Shared by the scripts of this folder; sourced from the repository root, not run.

# MPI on a workstation or in a container: root may start it, and one thread per rank.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 OMP_PROC_BIND=false

# Cores that this shell may use. (nproc by itself would count OMP_NUM_THREADS.)
usable_cores() { env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc; }

. "$(dirname "${BASH_SOURCE[0]:-$0}")/../jobs/notices.sh"

# stoppable mpirun ARGUMENTS...: on Ctrl-C or SIGTERM the run writes a checkpoint, however long that takes, and ends
# with 75; at the second one mpirun ends it. By itself mpirun kills its ranks after two seconds; a longer patience
# (odls_base_sigkill_timeout) would follow every error, too. What mpirun says below an error of the run is left out.
stoppable() {
  # (not in a subshell of its own where it already has one, as with `stoppable mpirun ... &`: signals go to that one)
  if [ "${BASHPID:-$$}" = $$ ]; then (run_stoppable "$@"); else run_stoppable "$@"; fi
}

run_stoppable() {
  local errors reader run signal=USR1 interrupted code traps
  traps=$(trap -p INT TERM)
  exec {errors}> >(trap '' INT TERM; without_notices >&2)
  reader=$!
  set -m  # a process group of its own, which the terminal's Ctrl-C does not reach
  "$@" < /dev/null 2>&$errors {errors}>&- &
  run=$!
  exec {errors}>&-
  set +m
  trap 'interrupted=yes; kill -$signal $run; signal=TERM' INT TERM
  while :; do
    interrupted=no code=0
    wait "$run" || code=$?
    [ $interrupted = no ] || continue
    # mpirun does not always say that a signal ended a rank
    wait "$reader" || [ $code -le 128 ] || echo "mpirun: a process was ended by SIG$(kill -l $((code - 128)))" >&2
    trap - INT TERM
    eval "$traps"
    return $code
  done
}

maniple_progress=$(cd "$(dirname "${BASH_SOURCE[0]:-$0}")" && pwd)/progress.sh

# with_progress LOG WHAT COMMAND...: runs a command, whose output goes to the file LOG, and tells how far it is; see
# tools/progress.sh. Returns what the command does.
with_progress() {
  local log=$1 what=$2
  shift 2
  (set -o pipefail; "$@" 2>&1 | bash "$maniple_progress" "$log" "$what")
}

# configure_build DIRECTORY [cmake arguments]: configures once; later changes of CMakeLists.txt are
# seen by the build itself. CXX names the compiler; without it, the clang of tools/packages.txt is taken.
configure_build() {
  local directory=$1
  shift
  if [ ! -f "$directory/build.ninja" ] || [ $# -gt 0 ]; then
    mkdir -p "$directory"
    echo "Configuring $directory (log: $directory/configure.log)"
    CXX=${CXX:-$(command -v clang++-19 || true)} with_progress "$directory/configure.log" cmake cmake -S . -B "$directory" -G Ninja "$@" ||
      { cat "$directory/configure.log" >&2; return 1; }
  fi
}

# build_targets DIRECTORY TARGET...: says how long a first build takes, and then how far it is: one moving line on a terminal, a
# line every half a minute elsewhere.
build_targets() {
  local directory=$1
  shift
  [ -f "$directory/.ninja_log" ] || echo "Building ${*:-everything} in $directory: ten minutes or so on two cores (log: $directory/build.log)"
  NINJA_STATUS="[%f/%t] " with_progress "$directory/build.log" "" ninja -C "$directory" "$@"
}

# Arguments that place N ranks on this machine: a core each where there are enough, else hardware
# threads, else wherever the system puts them.
placement() {
  local ranks=$1 threads cores
  threads=$(usable_cores)
  cores=$(lscpu -p=CORE,SOCKET 2> /dev/null | grep -v '^#' | sort -u | wc -l)
  if [ "$(lscpu -p=CPU 2> /dev/null | grep -vc '^#')" -ne "$threads" ]; then
    cores=0  # this shell may use only some of the machine; leave the choice to the system
  fi
  if [ "$cores" -ge "$ranks" ]; then
    echo "--bind-to core"
  elif [ "$threads" -ge "$ranks" ] && [ "$cores" -gt 0 ]; then
    echo "--use-hwthread-cpus --bind-to hwthread"
  else
    echo "--oversubscribe --bind-to none"
  fi
}
