#!/usr/bin/env bash
# Everything that there is to run, in shards of at most nine minutes. `tests/run.sh` is the short form.
#
#   bash tests/long.sh             every shard whose record is not of these inputs
#   bash tests/long.sh SHARD...    these, whatever the record says
#   bash tests/long.sh --next      the first of those that the first form would run
#   bash tests/long.sh --status    what is on record, and how old it is
#
# The record is tests/long.tsv: shard, key, commit, date, seconds, verdict. The key is a hash of what the
# shard depends on: the files (by `git ls-files -s`), rustc, and the servers. So a shard is run again when
# one of these changes, and an interrupted run goes on where it was. A run needs a clean checkout: the key is
# of files that are committed or staged. Commit the record with what it is a record of.

set -u -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
root=$PWD
logs=$root/target/long
record=tests/long.tsv
source tests/lib/steps.sh
source tests/lib/install.sh
source tests/lib/servers.sh
source tests/lib/checks.sh

# --- the shards -----------------------------------------------------------------------------------------

# What a shard depends on.
build=(Cargo.toml Cargo.lock)
library=("${build[@]}" src ':!src/**/tests/**' ':!src/**/tests.rs' ':!src/manual' ':!src/bin')
units=("${build[@]}" src .config)
servers=("${library[@]}" src/bin src/manual README.md CHANGELOG.md SECURITY.md tests/it .config)
worlds=("${library[@]}" tests/sim fuzz/corpus)
broken=("${worlds[@]}" src tests/breakages tests/breakages.sh)

# shards: calls `shard NAME FILES COMMAND...` for each, where FILES names one of these lists.
shards() {
    local redis=$tools/servers/redis valkey=$tools/servers/valkey
    shard units units long_tests default --lib --bins --test differential
    shard units-default-features units cargo test --lib
    shard servers servers long_tests default --test it
    shard servers-acl servers long_tests acl --test it SHEARLINE_TEST_ACL=1
    shard servers-tls servers long_tests tls --test it SHEARLINE_TEST_TLS=1
    shard servers-no-scripts servers long_tests no-scripts --test it SHEARLINE_TEST_USER=no-scripts
    shard servers-no-scripts-8.1 servers long_tests no-scripts --test it \
        SHEARLINE_TEST_USER=found-no-scripts SHEARLINE_{REDIS,VALKEY}_SERVER="$valkey-8.1"
    shard command-no-scripts-9.1 servers long_tests command --test it \
        SHEARLINE_TEST_USER=no-scripts SHEARLINE_REDIS_SERVER="$SHEARLINE_VALKEY_SERVER"
    shard command-no-scripts-8.1 servers long_tests command --test it \
        SHEARLINE_TEST_USER=found-no-scripts SHEARLINE_{REDIS,VALKEY}_SERVER="$valkey-8.1"
    shard servers-6.2-9.0 servers long_tests core --test it \
        SHEARLINE_REDIS_SERVER="$redis-6.2" SHEARLINE_VALKEY_SERVER="$valkey-9.0"
    shard servers-8.0-8.1 servers long_tests core --test it \
        SHEARLINE_REDIS_SERVER="$redis-8.0" SHEARLINE_VALKEY_SERVER="$valkey-8.1"
    shard tls-8.0 servers long_tests only-tls --test it SHEARLINE_REDIS_SERVER="$redis-8.0"
    shard tls-8.1 servers long_tests only-tls --test it SHEARLINE_REDIS_SERVER="$valkey-8.1"
    shard worlds worlds simulator worlds_keep_their_promises recorded equal a_world fuzz_corpus
    shard worlds-kinds worlds simulator kinds_for_one_purpose exclusion_rests
    shard worlds-bare worlds simulator without_scripts
    shard worlds-others worlds simulator oracle:: fencing::
    shard search worlds simulator search::
    local number
    for number in 1 2; do
        shard "fresh-$number" worlds fresh "$number"
    done
    shard breakages-worlds broken bash tests/breakages.sh --worlds-anew
    shard breakages-stories broken bash tests/breakages.sh --stories-anew
    shard kills-1 broken bash tests/breakages.sh --kills 1/4
    shard kills-2 broken bash tests/breakages.sh --kills 2/4
    shard kills-3 broken bash tests/breakages.sh --kills 3/4
    shard kills-4 broken bash tests/breakages.sh --kills 4/4
    shard clippy units clippy_of_all
    shard packages units packages
    shard instructions library instructions
}

# long_tests PROFILE ARGUMENTS... [NAME=VALUE...]: tests with all their repetitions.
long_tests() {
    export SHEARLINE_TEST_LONG=1
    local word words=()
    for word in "$@"; do
        if [[ $word == SHEARLINE_*=* ]]; then export "${word?}"; else words+=("$word"); fi
    done
    tests "${words[@]}"
}

# simulator TESTS...: of an ordinary build, without the breakages in it.
simulator() {
    SHEARLINE_TEST_LONG=1 cargo test --profile sim --features embedded --test sim -- --nocapture "$@"
}

# fresh NUMBER: histories that nothing has played, for seven minutes of two cores.
fresh() {
    local tree
    tree=$(git rev-parse 'HEAD^{tree}') || return 1
    FRESH_SEED=$((16#${tree:$1:8})) FRESH_SECONDS=${FRESH_SECONDS:-840} simulator fresh_histories
}

# clippy_of_all: of what `tests/run.sh` does not look at.
clippy_of_all() {
    cargo clippy --all-targets -- -D warnings &&
        cargo clippy --lib --no-default-features -- -D warnings &&
        cargo clippy --lib --tests --all-features -- -D warnings --cfg shearline_mutants &&
        cargo clippy --all-targets --manifest-path benches/peers/Cargo.toml -- -D warnings &&
        RUSTFLAGS="${RUSTFLAGS-} --cfg fuzzing" CARGO_TARGET_DIR=$CARGO_TARGET_DIR/fuzzing \
            cargo clippy --all-targets --manifest-path fuzz/Cargo.toml -- -D warnings
}

# packages: our other packages, the core without std, and what a user builds from the package.
packages() {
    no_std_objects &&
        cargo test --manifest-path benches/peers/Cargo.toml &&
        RUSTDOCFLAGS='-D warnings' cargo doc --no-deps --no-default-features &&
        cargo package --allow-dirty --offline
}

# instructions: of the hot paths, against the stored ones. The package has flags and a target folder of its
# own.
instructions() {
    command -v valgrind || apt valgrind || return 1
    cd benches/instructions || return 1
    unset RUSTFLAGS
    export CARGO_TARGET_DIR=$CARGO_TARGET_DIR/instructions
    cargo run --release && cargo test --release && cargo clippy --all-targets -- -D warnings
}

# --- the record -----------------------------------------------------------------------------------------

# key_of FILES: a hash of the inputs.
key_of() {
    local -n paths=$1
    { git ls-files -s -- "${paths[@]}"; echo "$machine"; } | git hash-object --stdin | cut -c 1-16
}

# versions: prints what is part of every key besides files.
versions() {
    rustc --version
    local binary
    for binary in "${SHEARLINE_REDIS_SERVER:-redis-server}" "$SHEARLINE_VALKEY_SERVER" "$tools"/servers/*-*; do
        [[ ! -x $(command -v "$binary") ]] || "$binary" --version | grep -oE 'v=[0-9.]+'
    done
}

# row_of SHARD: its line in the record.
row_of() {
    grep -E "^$1"$'\t' "$record" 2>/dev/null
}

# state_of SHARD KEY: prints `good`, `stale`, `failed`, or `never` if it is not on record.
state_of() {
    local key verdict
    IFS=$'\t' read -r _ key _ _ _ verdict < <(row_of "$1") || { echo never && return; }
    if [[ $key != "$2" ]]; then echo stale
    elif [[ $verdict == good ]]; then echo good
    else echo failed
    fi
}

# note SHARD KEY SECONDS VERDICT: replaces its line in the record.
note() {
    {
        echo '# shard, key of its inputs, commit, date, seconds, verdict: written by tests/long.sh'
        {
            grep -vE "^(#|$1"$'\t)' "$record" 2>/dev/null
            printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$1" "$2" "$(git rev-parse --short=12 HEAD)" "$(date +%F)" "$3" "$4"
        } | sort
    } >"$record.new" && mv "$record.new" "$record"
}

# --- the run --------------------------------------------------------------------------------------------

mode=all
asked=()
ran=0

wanted() {
    return 0
}

# shard NAME FILES COMMAND...: runs it, or says how it stands.
shard() {
    local name=$1 files=$2 key state begin=$SECONDS said=good
    shift 2
    key=$(key_of "$files")
    state=$(state_of "$name" "$key")
    case $mode in
        --list) echo "$name" && return ;;
        --status) status "$name" "$state" && return ;;
        --next) ((ran == 0)) && [[ $state != good ]] || return ;;
        all) [[ $state != good ]] || return ;;
        some) [[ " ${asked[*]} " == *" $name "* ]] || return ;;
    esac
    ran=$((ran + 1))
    step "$name" "$@"
    awk -v name="$name" '$1 == name { bad = $3 } END { exit bad > 0 }' "$logs/results" || said=FAILED
    note "$name" "$key" $((SECONDS - begin)) "$said"
}

# status SHARD STATE: prints how old the record of the shard is, unless it is of these inputs.
status() {
    local commit date age=''
    total=$((total + 1))
    [[ $2 != good ]] || { good=$((good + 1)) && return; }
    IFS=$'\t' read -r _ _ commit date _ < <(row_of "$1") &&
        age=", last run at $commit, $((($(date +%s) - $(date -d "$date" +%s)) / 86400)) days ago"
    echo "long run: $1: ${2/never/never run}$age"
}

main() {
    local total=0 good=0 machine
    case ${1-} in
        --next | --status | --list) mode=$1 ;;
        --*) sed -n '2,/^$/p' "${BASH_SOURCE[0]}" && return 2 ;;
        ?*) mode=some ;;
    esac
    asked=("$@")
    machine=$(versions)
    [[ $mode == --status || $mode == --list ]] || : >"$logs/results"
    if [[ $mode != --* || $mode == --next ]]; then
        step toolchain toolchain
        step servers servers
        machine=$(versions)
    fi
    shards
    case $mode in
        --status) echo "long run: $good of $total shards are of these inputs; bash tests/long.sh runs the others" ;;
        --list) ;;
        *) verdict ;;
    esac
}

main "$@"
exit
