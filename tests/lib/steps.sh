# Steps of a run: each runs a command, keeps its output, and counts tests. For `tests/run.sh` and
# `tests/long.sh`, which set `root` and `logs` first.

export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}
export CARGO_TERM_COLOR=never RUST_BACKTRACE=${RUST_BACKTRACE:-1} NEXTEST_HIDE_PROGRESS_BAR=1
# In a first build, the data for incremental builds takes a sixth of the time.
[[ -d $CARGO_TARGET_DIR/debug ]] || export CARGO_INCREMENTAL=${CARGO_INCREMENTAL:-0}
tools=$root/target/tools
export SHEARLINE_VALKEY_SERVER=${SHEARLINE_VALKEY_SERVER:-$tools/valkey-server}
mkdir -p "$tools" "$logs"

# step NAME COMMAND...: runs the command with its output in a log, and adds `NAME passed failed skipped
# seconds cpu` to the list of results. Does nothing unless `wanted NAME`, which the caller defines.
step() {
    local name=$1 log=$logs/$1.log status good bad skipped begin=$SECONDS cpu=0 said=ok
    wanted "$name" || return 0
    shift
    printf '%s ...\n' "$name"
    add_cpu -1
    # In a subshell, so that its `cd` and `export` end with it.
    ( "$@" ) >"$log" 2>&1 </dev/null
    status=$?
    add_cpu 1
    cpu=$((cpu / 100))
    read -r good bad skipped < <(tally "$log" "$status")
    if ((status != 0 || bad > 0)); then
        # In one call, so that no line of another step comes in between.
        printf '    end of %s:\n%s\n' "$log" "$( (causes "$log"; tail -n 40 "$log") | sed 's/^/    | /')"
        said=FAILED
    fi
    printf '%s %s, %d s (%d s cpu)\n' "$name" $said $((SECONDS - begin)) "$cpu"
    echo "$name $good $bad $skipped $((SECONDS - begin)) $cpu" >>"$logs/results"
}

# add_cpu SIGN: adds the processor time of the ended children of this shell to `cpu`. (A lane is a shell of
# its own, so the others do not count.)
add_cpu() {
    local stat=()
    [[ ! -r /proc/$BASHPID/stat ]] || read -r -a stat <"/proc/$BASHPID/stat"
    ((cpu += $1 * (${stat[15]:-0} + ${stat[16]:-0}))) || true
}

# tally LOG STATUS: prints how many tests passed, failed and were not run. A step without tests is one check.
# A test that ends with `NOT RUN` has not passed.
tally() {
    awk -v status="$2" '
        /^test result: / { good += $4; bad += $6 }
        /^ +Summary \[/ {
            for (word = 2; word <= NF; word++) {
                if ($word ~ /^passed/) good += $(word - 1)
                if ($word ~ /^(failed|timed)/) bad += $(word - 1)
            }
        }
        /^ *NOT RUN: / && !seen[$0]++ { skipped++; good-- }
        /^ *OWED: / { skipped++ }
        END {
            if (good < 0) good = 0 # a step without tests, which was not run
            if (status != 0 && bad == 0) bad = 1
            if (status == 0 && good + bad + skipped == 0) good = 1
            print good + 0, bad + 0, skipped + 0
        }' "$1"
}

# causes LOG: prints the lines that name what failed.
causes() {
    grep -nE '^(error|warning: unused|test .* FAILED|not noticed: )|^ +(FAIL|TIMEOUT|SIG[A-Z]+) \[|panicked at' "$1" |
        tail -n 20
}

# with_time SECONDS COMMAND...
with_time() {
    if command -v timeout >/dev/null; then timeout --kill-after=5 "$@"; else "${@:2}"; fi
}

# tests PROFILE ARGUMENTS... [-E FILTER]: runs tests of the library and of the command by `cargo nextest`, with the output of all of them, which
# later steps search. Where nextest is missing, libtest runs those that `tests/run.sh` asks for.
tests() {
    local profile=$1
    shift
    if cargo nextest --version >/dev/null 2>&1; then
        with_time 1500 cargo nextest run -p shearline -p shearline-cli --all-features --profile "$profile" \
            --success-output immediate --no-fail-fast "$@"
    else
        local targets=() names=() threads=12
        while (($#)) && [[ $1 != -E ]]; do
            targets+=("$1")
            shift
        done
        case "$profile ${2-}" in
            'default not '*) names=(--skip timed::) ;;
            'default test'*) names=(timed::) threads=1 ;;
            smoke*) names=(contract:: truth_table:: drops::a_guard) ;;
            *) echo "error: cargo nextest is missing, which has the profile $profile" && return 1 ;;
        esac
        with_time 3000 cargo test -p shearline -p shearline-cli --all-features --no-fail-fast "${targets[@]}" -- --show-output \
            --test-threads "$threads" "${names[@]}"
    fi
}

# verdict: prints what failed once more, and the closing line. Returns whether nothing did.
verdict() {
    local name passed failed skipped all='' ran=()
    while read -r name _ failed _; do
        ran+=("$logs/$name.log")
        ((failed == 0)) && continue
        all+="$name; "
        printf '%s FAILED:\n%s\n' "$name" "$(causes "$logs/$name.log" | sed 's/^/    | /')"
    done <"$logs/results"
    grep -hE '^ *(NOT RUN|OWED): ' ${ran[@]+"${ran[@]}"} /dev/null | sed 's/^ *//' | sort -u
    read -r passed failed skipped < <(awk '{ g += $2; b += $3; s += $4 } END { print g + 0, b + 0, s + 0 }' "$logs/results")
    if ((failed == 0)); then
        echo "verdict: good, in $SECONDS s"
    else
        echo "verdict: FAILED in ${all%; }, after $SECONDS s"
    fi
    echo "$passed passed, $failed failed, $skipped skipped"
    ((failed == 0))
}

# flaky LOG: a timed test that failed, and passed when it was run once more, is added to the committed list. A
# name that is there three times is a bug to be mended.
flaky() {
    local list=tests/flaky.tsv name
    [[ -e $1 ]] || return 0
    for name in $(sed -nE 's/^ +FLAKY .*\] +(\([^)]*\) )?//p' "$1" | sed 's/.* //' | sort -u); do
        printf '%s\t%s\t%s\n' "$name" "$(date +%F)" "$(git rev-parse --short HEAD)" >>"$list"
        echo "flaky: $name: its output is in $1; commit $list"
    done
    ! cut -f 1 "$list" 2>/dev/null | sort | uniq -c |
        awk '$1 >= 3 { print "error: flaky three times: " $2; bad = 1 } END { exit !bad }'
}

# --- lanes --------------------------------------------------------------------------------------------

lanes=()

# aside FUNCTION: runs the steps of the function in the background.
aside() {
    "$1" &
    lanes+=($!)
}

# end_tree PID...: ends these processes and their children.
end_tree() {
    local pid children
    for pid in "$@"; do
        children=$(cat "/proc/$pid/task/$pid/children" 2>/dev/null)
        kill "$pid" 2>/dev/null
        # shellcheck disable=SC2086  # a list of ids
        end_tree $children
    done
}

# After an interrupt nothing goes on in the background.
trap 'end_tree ${lanes[@]+"${lanes[@]}"}; exit 130' INT TERM HUP
