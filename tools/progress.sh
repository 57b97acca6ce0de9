#!/usr/bin/env bash
# Tells how far a build is. Usage: COMMAND 2>&1 | tools/progress.sh LOG [WHAT]     LOG: file that gets all of it
# What ninja counts ([3/120] Building ...) is one moving line on a terminal, and elsewhere a line every
# MANIPLE_PROGRESS_EVERY seconds (default 30). Everything else, such as messages of compilers, is printed at once. WHAT: the
# command counts nothing (cmake): its newest line is the progress, and nothing is printed at once.
set -u
log=$1 what=${2:-}
every=${MANIPLE_PROGRESS_EVERY:-30}
terminal=no newest='' said=0 shown=no
[ ! -t 1 ] || terminal=yes
trap '' INT # (the command ends, and with it this)

# told TEXT: one line of it in place, or every so many seconds
told() {
  if [ $terminal = yes ]; then
    local width
    width=$(stty size < /dev/tty 2> /dev/null | cut -d' ' -f2)
    [[ ${width:-0} -gt 1 ]] || width=80
    printf '\r\033[K%s' "${1:0:width - 1}"
    shown=yes
  elif [ $((SECONDS - said)) -ge "$every" ]; then
    printf '%s (%d s)\n' "${what:+$what: }$1" $SECONDS
    said=$SECONDS
  fi
}

# printed LINE: above the moving one
printed() {
  [ $shown = no ] || printf '\r\033[K'
  shown=no
  printf '%s\n' "$1"
}

exec 3> "$log"
while :; do
  code=0
  IFS= read -r -t 1 line || code=$?
  if [ $code -gt 128 ]; then # nothing came within a second
    [ -z "$newest" ] || [ $terminal = yes ] || told "$newest"
    continue
  fi
  [ $code -eq 0 ] || [ -n "$line" ] || break
  printf '%s\n' "$line" >&3
  case $line in
    '['[0-9]*/[0-9]*']'*) newest=$line; told "$newest" ;;
    '' | 'ninja: Entering directory'* | 'ninja: no work to do.') ;;
    *) if [ -n "$what" ]; then newest=$line; told "$newest"; else printed "$line"; fi ;;
  esac
  [ $code -eq 0 ] || break
done
[ $shown = no ] || printf '\r\033[K'
