# What make asks before it does anything. Plain sh, for there may be no Python environment yet.
#
#   sh lib/runs/make.sh help OUT MAKEFILE ...    targets and variables, for people
#   sh lib/runs/make.sh check NAME=VALUE ...     a line if the value of one of make's variables is no good
#   sh lib/runs/make.sh cores [FOLDER]    how many this process may use
set -u
LC_ALL=C
# Make splits at blanks and cannot quote, and these signs mean something to it or to the shell;
# letters of any language do not.
NOT_IN_PATHS='][:blank:][:cntrl:]!"#$%&'"'"'()*:;<=>?[\\^`{|}~'
NOT_IN_WORDS=';&|<>()`$#\\'

help() { # OUT MAKEFILE ...
  bold= plain=
  [ ! -t 1 ] || [ -n "${NO_COLOR-}" ] || { bold=$(printf '\033[1m') plain=$(printf '\033[0m'); }
  echo "usage: make TARGET [VARIABLE=value ...]"
  echo "start: ${bold}make all$plain, then open $1/report.html"
  shift
  awk -v bold="$bold" -v plain="$plain" '
    /^##@ / { printf "\n%s%s%s\n", bold, substr($0, 5), plain }
    /^[a-z-]+:.*## / { name = $0; sub(/:.*/, "", name); sub(/.*## /, ""); printf "  %-13s%s\n", name, $0 }
  ' "$@"
  printf "\n${bold}variables$plain\n"
  cat <<'END'
  COLLECTION=layout-xla-default    layout-{xla,nlp}-{random,default}, tile-xla, programs-cpu
  FOLDS=5  JOBS=2                  how many folds to train (of 5, programs 4, official data 20), and how many at a time
  MODEL=tgraph-plus                tgraph-plus, tgraph (the paper's), gst, pooling, partitioning, gat (layout); tile (docs/explanation/networks.md);
                                   cdmpp-plus, cdmpp (the paper's) of programs-cpu (docs/explanation/latencies.md)
  ALSO=all                         other layout collections that tgraph and tgraph-plus learn from, between commas; none
  EPOCHS= SEED= TTA= HOPS=         epochs, seed, permutations at inference, radius of pruning (of layouts) or all
  DATA=path  OUTPUTS=outputs       where the raw graphs are, where results go
  SETTINGS=file                    a TOML file of settings (docs/how-to/tune.md); the other variables and ARGS beat it
  EXPERIMENT=name                  results in a folder of their own, with +name, beside the others
  KEEP_GOING=1                     stage 1 leaves bad files out and says so
  ON="srun -c2 --gres=gpu:1"       before every stage's command: on a cluster (docs/how-to/cluster.md)
  ARGS="--channels 256"            any other setting (docs/reference/settings.md has them)
  WANDB_MODE=disabled  NO_COLOR=1  no W&B (offline without a key, online with one); no colour
END
}

check() { # KIND before CORES
  kind=
  for given; do
    value=${given#*=}
    case $given in
      FOLDS= | KIND= | CORES= | ROUNDS= | DATA= | DATABASE= | SETTINGS= | TRIALS= | BATCH= | TASKS= | SOURCES= | TOP= | MEASURE=) ;;
      KEEP_GOING= | KEEP_GOING=1 | KEEP_GOING=yes | PARTIAL= | PARTIAL=1 | PARTIAL=yes) ;;
      KEEP_GOING=* | PARTIAL=*) fail "$given: must be 1; leave it out for no" ;;
      EXPERIMENT=*[!A-Za-z0-9_.-]*) fail "$given: must be letters, digits and _ . -" ;;
      KIND=layouts | KIND=programs) kind=$value ;;
      KIND=*) fail "$given: must be one of layouts programs" ;;
      CORES=*) core_list "$value" ;;
      FOLDS=* | JOBS=* | ROUNDS=* | TRIALS=* | BATCH=* | TASKS=* | TOP=* | MEASURE=*)
        case $value in
          '' | 0* | *[!0-9]* | ?????*) fail "$given: must be a whole number from 1 to 9999" ;;
        esac ;;
      OUTPUTS=* | VENV=* | DATA=* | DATABASE=* | SETTINGS=*)
        case $value in
          '' | [-+@]* | *[$NOT_IN_PATHS]*)
            fail "$given: make can only have paths of letters, digits and _ . / , + - @" ;;
        esac ;;
      ARGS=* | ON=* | SUBMISSION=* | PYTHON=* | SUBMAKE=*) # words as in a shell, quoted where they have blanks
        case $value in *[$NOT_IN_WORDS]*) fail "$given: must have none of ; & | < > ( ) \` \$ # \\" ;; esac
        (eval "set -- $value") 2>/dev/null || fail "$given: a quote is not closed"
        [ "${given%%=*}" != ARGS ] || flags "$value" ;;
      *)
        case $value in
          *[!A-Za-z0-9_.,+-]*) fail "$given: must be one word of letters, digits and _ . , + -" ;;
        esac ;;
    esac
  done
}

core_list() { # LIST, which programs have one of
  case $1 in
    ,* | *, | *,,* | *[!0-9,]*) fail "CORES=$1: must be numbers of cores, such as 1 or 0,1" ;;
    *,*) [ "$kind" != programs ] || fail "CORES=$1: programs are measured on one core" ;;
  esac
}

# What decides a path has a variable: make and the stage must expect the same files.
flags() { # WORDS
  set -f
  eval "set -- $1"
  for word; do
    case ${word%%=*} in
      --also | --collection | --data | --experiment | --folds | --hops | --keep-going | --model | --outputs | --settings)
        name=$(echo "${word%%=*}" | sed 's/--//' | tr a-z- A-Z_)
        fail "$name: say it by this variable, not by ${word%%=*} in ARGS, for files go by it" ;;
      --fold) fail "FOLDS: say by it how many there are, not by --fold in ARGS, for files go by it" ;;
    esac
  done
}

# By affinity (which nproc tells, unless OMP_NUM_THREADS tells it otherwise) and by the quotas of the
# control groups that this process is in; FOLDER stands for the innermost.
cores() {
  count=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)
  group=${1-/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)}
  while [ "$group" ]; do
    { read -r quota period <"$group/cpu.max"; } 2>/dev/null || quota=max
    [ "$quota" = max ] || quota=$(((quota + period - 1) / period))
    [ "$quota" = max ] || [ "$quota" -ge "$count" ] || count=$quota
    group=${group%/*}
  done
  echo "$count"
}

fail() {
  printf '%s\n' "$*"
  exit
}

"$@"
