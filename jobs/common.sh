# Functions that the job scripts share; they source this file. $jobs is its folder.
jobs=$(cd "$jobs" && pwd)
. "$jobs/notices.sh"

say() {
  echo "$(date -Is) $*"
}

# refuse WORDS...: ends the job, which was asked for what cannot be
refuse() {
  say "$*" >&2
  exit 2
}

# whole VARIABLE: refuses a value that is no whole number
whole() {
  [[ ${!1} =~ ^(0|[1-9][0-9]*)$ ]] || refuse "$1: found '${!1}'; allowed: a whole number"
}
MANIPLE_RESTARTS=${MANIPLE_RESTARTS:-3}
whole MANIPLE_RESTARTS

# what this cluster needs (modules, network interfaces); see jobs/machines/
if [ -n "${MANIPLE_MACHINE:-}" ]; then
  [ -f "$jobs/machines/$MANIPLE_MACHINE.sh" ] ||
    refuse "MANIPLE_MACHINE: found '$MANIPLE_MACHINE'; allowed, of $jobs/machines:$(cd "$jobs/machines" && printf ' %s' *.sh | sed 's/\.sh//g')"
  . "$jobs/machines/$MANIPLE_MACHINE.sh" || exit 2
fi
# file systems without flock refuse HDF5's own locks; a run locks its directory by itself
export HDF5_USE_FILE_LOCKING=${HDF5_USE_FILE_LOCKING:-FALSE}

# the program: the one that is named, that of the build folder, that of an installation, or the first in PATH
program=${MANIPLE_PROGRAM:-}
for place in "$jobs/../build/maniple" "$jobs/../../../bin/maniple"; do
  [ -n "$program" ] || [ ! -x "$place" ] || program=$place
done
program=${program:-maniple}
if ! type -P "$program" > /dev/null; then
  [ -z "${MANIPLE_PROGRAM:-}" ] || refuse "MANIPLE_PROGRAM: found '$MANIPLE_PROGRAM', which is no program on $HOSTNAME"
  refuse "found no program maniple, neither beside $jobs nor in PATH: MANIPLE_PROGRAM names it"
fi

# take_verb ARGUMENTS...: sets $verb, and whether runs of it continue ($continues). Returns 1 where the first argument is a deck or a
# key of a training. Ends the job with 2 where it is neither, nor a verb.
verbs="train imitate rollout evaluate bench validate doctor inspect tasks schema"
take_verb() {
  local code=0 found
  case " $verbs " in
    *" ${1:--} "*) verb=$1 ;;
    *) verb=train code=1 ;;
  esac
  # a word that is neither a file nor key=value is the name of a deck, which the program knows
  if [ $code -eq 1 ] && [[ ${1:-=} != *[=./]* ]] && [ ! -e "$1" ]; then
    found=0
    "$program" tasks "$1" > /dev/null 2>&1 || found=$?
    [ $found -ne 2 ] || refuse "found '$1'; allowed: a verb ($verbs), or for train a deck or key=value"
  fi
  case $verb in train | imitate) continues=yes ;; *) continues=no ;; esac
  return $code
}

# replace_task NUMBER: puts the number of a task of an array into $arguments; it is empty in other jobs.
replace_task() {
  if [ -z "$1" ] && [[ "${arguments[*]}" == *"{task}"* ]]; then
    refuse "found {task} in '${arguments[*]}'; allowed: in the tasks of an array"
  fi
  arguments=("${arguments[@]//\{task\}/$1}")
}

# take_keys: sets $keys, what the next start gets of $arguments, and whether a training begins anew ($anew): in the first start
# of a job learning.resume and output.overwrite are as they were given. Later ones ($later=yes), and trainings that were
# given neither, continue.
take_keys() {
  local argument auto=no
  keys=() anew=no
  for argument in "${arguments[@]}"; do
    case $continues,$argument in
      yes,learning.resume=auto) auto=yes && continue ;;
      yes,learning.resume=* | yes,output.overwrite=true) [ $later = no ] && anew=yes || continue ;;
    esac
    keys+=("$argument")
  done
  [ $auto = no ] || anew=no
  # (a later start could not tell whether what is there is of this job)
  case "$anew ${arguments[*]}" in
    yes*" ensemble."*) refuse "found output.overwrite or learning.resume with an ensemble; allowed: a directory of its own for a new one" ;;
    yes*" output.directory="* | no*) ;;
    *) refuse "found output.overwrite or learning.resume without output.directory=; allowed: all of them among the arguments" ;;
  esac
  [ $continues = no ] || [ $anew = yes ] || keys+=(learning.resume=auto)
}

# checkpoints FORMAT: those in the run's directory, as far as $arguments name it; FORMAT is that of find
checkpoints() {
  local argument directory=
  for argument in "${arguments[@]}"; do
    case $argument in output.directory=*) directory=${argument#*=} ;; esac
  done
  [ -z "$directory" ] || find "$directory" -path '*/checkpoints/*.h5' -printf "$1\n" 2> /dev/null | sort
}

# tell ARGUMENTS...: inspect, tasks and schema are no runs, whose keys they do not take: one process answers, and the job
# ends. Other verbs go on.
tell() {
  case $verb in inspect | tasks | schema) exec "$program" "$verb" "$@" ;; esac
}

hosts=  # a file that `start` made and that goes with the job
# launch COMMAND...: starts a run and returns its exit code. What counts is the code that the run itself leaves
# at its end: srun returns 0 also where a step could not start on any node, and a launcher that is told to stop
# may return a code of its own.
launch() {
  local file code reached
  file=$(mktemp -u "$PWD/.maniple-XXXXXXXX.status")
  trap "rm -f '$file' '$file.errors' ${hosts:+'$hosts'}" EXIT
  # the lock that an earlier start of this job left on another node is none
  export MANIPLE_JOB_START
  MANIPLE_JOB_START=$(date +%s%N)
  "$@" "run.status_file=$file" 2> >(tee "$file.errors" | without_notices >&2)
  code=$?
  # hosts whose ranks the run's watchdog blames, without their domain
  [ $code -eq 0 ] || sleep 1  # for the last lines
  hung=$(grep 'run.hang_timeout: no rank moved' "$file.errors" | grep -o '(host [^,.]*' | cut -c 7- | sort -u)
  rm -f "$file.errors"
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

# on_good_nodes NODE...: starts the run on these nodes by `start NODE...`, which the caller defines, and once more
# after a crash, from its newest checkpoint, on the nodes that are left: those that start a process (`probe NODE`)
# and whose ranks did not hang. A run that has no checkpoints, or ended by itself (done, bad input, stopped early), is not started again.
on_good_nodes() {
  local nodes=("$@") good restarts=0 code node found
  while :; do
    take_keys
    found=$(checkpoints '%p %T@')
    start "${nodes[@]}"
    code=$?
    # (as long as it left the checkpoints of a run before untouched, there is nothing else to continue)
    [ $anew = yes ] && [ -n "$found" ] && [ "$found" = "$(checkpoints '%p %T@')" ] || later=yes
    case $code in 0 | 2 | 75) return $code ;; esac
    # (what does not continue would begin anew, with the same end in sight)
    if [ $continues = no ] || [ $restarts -ge "$MANIPLE_RESTARTS" ]; then
      return $code
    fi
    restarts=$((restarts + 1))
    good=()
    for node in "${nodes[@]}"; do
      if ! timeout 60 bash -c 'probe "$@"' probe "$node" > /dev/null 2>&1; then
        say "node $node does not start a process: left out" >&2
      elif [ "${#nodes[@]}" -gt 1 ] && grep -qxF "${node%%.*}" <<< "$hung"; then
        say "a rank on node $node hung: left out" >&2
      else
        good+=("$node")
      fi
    done
    if [ ${#good[@]} -eq 0 ]; then
      say "no node is left" >&2
      return $code
    fi
    nodes=("${good[@]}")
    say "the run ended with $code: start $restarts of $MANIPLE_RESTARTS more, on ${nodes[*]}" >&2
  done
}
