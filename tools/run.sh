#!/usr/bin/env bash
# From a fresh clone to a trained policy: installs what is missing, builds, trains the cartpole of
# inputs/train/isaac_cartpole.yaml on two ranks, draws its learning curve and makes a page on which it moves.
# Usage: tools/run.sh [deck.yaml] [key.path=value ...]     MANIPLE_RANKS=4 tools/run.sh
# Each call starts a run of its own under runs/, unless output.directory is given.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. tools/common.sh

bash tools/setup.sh
configure_build build
targets=(maniple)
if ninja -C build -t query maniple_python > /dev/null 2>&1; then targets+=(maniple_python); fi  # import maniple
build_targets build "${targets[@]}"

deck=inputs/train/isaac_cartpole.yaml
if [ $# -gt 0 ] && [[ $1 != *=* ]]; then
  deck=$1
  shift
fi
directory=runs/$(basename "$deck" .yaml)-$(date +%Y%m%d-%H%M%S)
for argument in "$@"; do
  case "$argument" in output.directory=*) directory=${argument#*=} ;; esac
done

ranks=${MANIPLE_RANKS:-2}
read -ra place <<< "$(placement "$ranks")"
train=(mpirun -n "$ranks" "${place[@]}" build/maniple train "$deck" "output.directory=$directory" "$@")
echo "Training: ${train[*]}"
status=0
stoppable "${train[@]}" || status=$?
[ $status -eq 0 ] || [ $status -eq 75 ] || exit $status

ceiling=()
case "$(basename "$deck" .yaml)" in
  isaac_cartpole | isaac_cartpole_rl_games) ceiling=(--ceiling 5) ;;
  isaac_cartpole_direct) ceiling=(--ceiling 300) ;;
esac
.venv/bin/python tools/plot_learning_curve.py "$directory" "${ceiling[@]}"
.venv/bin/python tools/replay.py "$directory" || echo "no replay: the reason is above"
exit $status
