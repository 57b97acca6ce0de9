# A filter for mpirun's notices after an error of the run. jobs/common.sh and tools/common.sh source it.

# without_notices: copies its input, the errors of an mpirun, but for two notices between dashed lines: that a rank's exit
# code is not 0, and which rank's it was, which stand below each error message. Others stay, for instance that a signal
# ended a rank, that a program is not there, or that there are too few slots. (mpirun -q leaves out all of them.)
# Fails if it let no notice through.
without_notices() {
  local line notice= inside=no silent=yes
  while IFS= read -r line || [ -n "$line" ]; do
    case $inside,$line in
      no,-----*-----) inside=yes notice=$line ;;
      no,*) printf '%s\n' "$line" ;;
      yes,-----*-----)
        inside=no
        case $notice in
          *"Primary job  terminated normally"* | *"exited with non-zero status, thus causing"*) ;;
          *) silent=no && printf '%s\n' "$notice" "$line" ;;
        esac
        ;;
      yes,*) notice+=$'\n'$line ;;
    esac
  done
  [ $inside = no ] || printf '%s\n' "$notice"
  [ $silent = no ]
}
