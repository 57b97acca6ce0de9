# What the job scripts share; sourced from the directory of submission.

# what this cluster needs (modules, network interfaces); see jobs/machines/
if [ -n "${MANIPLE_MACHINE:-}" ]; then
  . "jobs/machines/$MANIPLE_MACHINE.sh" || exit 2
fi
# file systems without flock refuse HDF5's own locks; a run locks its directory by itself
export HDF5_USE_FILE_LOCKING=${HDF5_USE_FILE_LOCKING:-FALSE}
program=${MANIPLE_PROGRAM:-build/maniple}

say() {
  echo "$(date -Is) $*"
}

# launch COMMAND...: starts a run and returns its exit code. What counts is the code that the run itself leaves
# at its end: srun returns 0 also where a step could not start on any node, and a launcher that is told to stop
# may return a code of its own.
launch() {
  local file code reached
  file=$(mktemp -u "$PWD/.maniple-XXXXXXXX.status")
  trap "rm -f '$file'" EXIT
  # the lock that an earlier start of this job left on another node is none
  export MANIPLE_JOB_START
  MANIPLE_JOB_START=$(date +%s%N)
  "$@" "run.status_file=$file"
  code=$?
  reached=$(cat "$file" 2> /dev/null)
  rm -f "$file"
  if [ "$reached" = 75 ]; then
    return 75
  fi
  if [ $code -eq 0 ] && [ "$reached" != 0 ]; then
    say "$1 reports success, but the run did not come to its end" >&2
    return 1
  fi
  return $code
}
