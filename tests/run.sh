#!/usr/bin/env bash
# The one test command: `bash tests/run.sh` on a machine that has the Rust toolchain and no more. It installs
# what is missing, such as servers of six versions. It touches every layer, every server, and every way to take
# and release a lock. `tests/long.sh` runs what needs many repetitions. `tests/README.md` explains both.
#
#   bash tests/run.sh            all steps
#   bash tests/run.sh STEP...    only these
#   bash tests/run.sh --list     the names of the steps
#
#   SHEARLINE_REDIS_SERVER, SHEARLINE_VALKEY_SERVER   binaries to use instead of installing any
#
# Each step prints a line when it begins, and its time and processor time when it ends. Its output goes to
# target/run/last/STEP.log; the logs of the last five runs stay. A failure does not stop the run. The last
# line is `N passed, N failed, N skipped`; a step that runs no tests counts as one test. A test that cannot run
# here is skipped, and named with its reason.

set -u -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
root=$PWD
logs=$root/target/run/$(date +%Y%m%d-%H%M%S)-$$
source tests/lib/steps.sh
source tests/lib/install.sh
source tests/lib/servers.sh
source tests/lib/checks.sh

# The functions of this part are lists of steps. Bash reads them before the first step runs, so editing this
# file does not affect a run.

prepare() {
    step toolchain toolchain
    step servers servers
    step format formatting
    step filters filters
    step dependencies dependencies
    step licences supply
    step build build
}

# After Clippy the processor is idle for most of the time: tests wait for servers, networks and clocks.
what_waits() {
    step clippy cargo clippy --workspace --all-targets --all-features -- -D warnings
    step tests tests default --lib --bins --test it --test differential --example setnx_getset \
        -E 'not test(/(^|::)timed::/)'
    step ignored ignored
    step smoke-acl smoke SHEARLINE_TEST_ACL=1
    step smoke-tls smoke SHEARLINE_TEST_TLS=1
    step smoke-no-scripts smoke SHEARLINE_TEST_USER=no-scripts
    step smoke-no-scripts-8.1 smoke SHEARLINE_TEST_USER=found-no-scripts \
        SHEARLINE_{REDIS,VALKEY}_SERVER="$tools/servers/valkey-8.1"
    step smoke-6.2-9.0 smoke SHEARLINE_REDIS_SERVER="$tools/servers/redis-6.2" \
        SHEARLINE_VALKEY_SERVER="$tools/servers/valkey-9.0"
    step smoke-8.0-8.1 smoke SHEARLINE_REDIS_SERVER="$tools/servers/redis-8.0" \
        SHEARLINE_VALKEY_SERVER="$tools/servers/valkey-8.1"
    step examples examples
    step demo with_time 60 "$CARGO_TARGET_DIR/debug/shearline" demo --seconds 3
    step benches with_time 600 cargo test --workspace --all-features --bench '*'
    step docs docs
    step doctests cargo test --doc --workspace --all-features
    step no-std cargo check --manifest-path tests/no_std/Cargo.toml
    step pictures pictures
    step package package_list
    step static static_command
    step image image
}

# The simulator is optimised, and built once, with all breakages in it. Its build has a folder of its own in
# the target folder, so that no step waits for the lock of another build.
what_computes() {
    export FRESH_SEED=${FRESH_SEED:-$(fresh_seed)}
    step breakages with_time 1500 bash tests/breakages.sh
    said breakages 'patches|are heard|OWED|not the one on record|noticed'
    step simulator with_time 1500 bash tests/breakages.sh --worlds
    said simulator 'histories in|fresh histories'
}

main() {
    prepare
    aside what_waits
    aside what_computes
    wait "${lanes[@]}"
    lanes=()
    step timed tests default --lib --test it -E 'test(/(^|::)timed::/)'
    step flaky flaky "$logs/timed.log"
    step secrets no_credential_in_any_log
    if ((${#asked[@]} == 0)); then
        bash tests/long.sh --status
    fi
    has_all_steps
    verdict
}

# --- what the steps do ----------------------------------------------------------------------------------

# build: everything of the development profile, so that the steps that run it need not compile.
build() {
    cargo test --no-run --workspace --all-features --lib --bins --examples --test it --test differential \
        --bench '*' && cargo build --workspace --all-features --bins --examples
}

# smoke NAME=VALUE...: some tests of tests/it in another variant.
smoke() {
    export "$@"
    tests smoke --test it
}

# fresh_seed: prints a number that the tree of this commit decides.
fresh_seed() {
    local tree
    tree=$(git rev-parse 'HEAD^{tree}' 2>/dev/null) || tree=$RANDOM$RANDOM
    echo $((16#${tree:0:8}))
}

# ignored: a test is ignored only if another test plays it in a process of its own, or if it asserts nothing.
ignored() {
    local all
    all=$(grep -rnE '#\[ignore' --include='*.rs' src cli tests examples benches) || return 1
    ! grep -vE '"(a part of another test|prints figures and asserts nothing)"\]' <<<"$all"
}

# has_all_steps: a lane that has died has left steps out, which is a failure of each.
has_all_steps() {
    local name
    for name in $(step_names); do
        ! wanted "$name" || grep -q "^$name " "$logs/results" || step "$name" false
    done
}

# The word in every credential of these tests is in no log. Only names of files are printed: the lines
# would be one more log with it.
no_credential_in_any_log() {
    local word
    word=$(sed -n 's/^pub(crate) const CANARY: &str = "\(..*\)";$/\1/p' tests/it/canary.rs)
    if [[ -z $word ]] || ! grep -qE '(PASS.*| |^test )secrets::' "$logs/tests.log"; then
        echo "there is no word to search for, or no test has used it"
        return 1
    fi
    grep -rilaF -- "$word" "$logs"
    (($? == 1)) # Not 2: a log that could not be read.
}

# said STEP PATTERN: prints the lines of a log that say what was done.
said() {
    [[ ! -e $logs/$1.log ]] || grep -aE "$2" "$logs/$1.log" | grep -v 'to go$' | sed 's/^/    | /'
}

# --- the run --------------------------------------------------------------------------------------------

asked=()

# wanted STEP: whether the step is to run.
wanted() {
    ((${#asked[@]} == 0)) || [[ " ${asked[*]} " == *" $1 "* ]]
}

step_names() {
    sed -nE 's/^ +step ([a-z0-9][a-z0-9.-]*) .*/\1/p' "${BASH_SOURCE[0]}"
}

if [[ ${1-} == --list ]]; then
    step_names
    rm -rf "$logs"
    exit
fi
for name in "$@"; do
    grep -qxF -- "$name" <(step_names) || { echo "there is no step $name; --list names them"; exit 2; }
done
asked=("$@")
: >"$logs/results"
ln -sfn "$(basename "$logs")" target/run/last
find target/run -mindepth 1 -maxdepth 1 -type d | sort | head -n -5 | xargs -r rm -rf
main; exit
