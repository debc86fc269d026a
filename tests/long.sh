#!/usr/bin/env bash
# Everything that there is to run, in shards of at most nine minutes. `tests/run.sh` is the short form.
#
#   bash tests/long.sh             every shard that has not passed on the current inputs
#   bash tests/long.sh SHARD...    these shards, even if they have already passed
#   bash tests/long.sh --next      only the next shard that is due
#   bash tests/long.sh --status    which shards are due, and when they last ran
#   bash tests/long.sh --list      their names
#
# The record is tests/long.tsv: shard, key, commit, date, seconds, verdict. The key is a hash of what the
# shard depends on: the files (by `git ls-files -s`), its command with the functions that it calls, rustc, and
# the servers. So a shard is due again when one of these changes, and an interrupted run resumes where it
# stopped. A shard does not run while one of its files differs from what git has. Commit the record together
# with the files it describes.

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

# What a shard depends on. (Git takes what is excluded out of the whole list, whatever comes after it.)
all=(Cargo.toml Cargo.lock src)
library=("${all[@]}" ':!src/**/tests/**' ':!src/**/tests.rs' ':!src/manual')
worlds=("${library[@]}" tests/sim fuzz/corpus/sim ':!tests/sim/heard.rs')
counted=("${library[@]}" benches/instructions)
measured=("${library[@]}" benches/peers benches/reference ':!benches/**/*.md' ':!benches/reference/record.tsv')
units=("${all[@]}" docs cli tests/differential tests/data fuzz/corpus .config)
servers=("${all[@]}" docs README.md CHANGELOG.md SECURITY.md cli tests/it examples .config)
patches=(tests/breakages tests/breakages.sh tests/sim/mutations.rs ':!tests/breakages/*.tsv')
heard=("${library[@]}" tests/sim "${patches[@]}")
told=("${all[@]}" ':!src/manual' "${patches[@]}")
told_by_command=("${told[@]}" docs cli tests/it)
proofs=(proofs ':!proofs/*.md')
checked=("${all[@]}" docs cli tests/it tests/sim tests/differential tests/no_std benches examples fuzz
    ':!benches/reference/record.tsv')

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
    shard worlds worlds simulator --skip kinds_for_one_purpose --skip exclusion_rests \
        --skip without_scripts --skip oracle:: --skip fencing:: --skip search:: --skip fresh_histories
    shard worlds-kinds worlds simulator kinds_for_one_purpose exclusion_rests
    shard worlds-bare worlds simulator without_scripts
    shard worlds-others worlds simulator oracle:: fencing::
    shard search worlds simulator search::
    local number
    for number in 1 2; do
        shard "fresh-$number" worlds fresh "$number"
    done
    shard breakages-worlds heard bash tests/breakages.sh --worlds-anew
    shard breakages-stories told bash tests/breakages.sh --stories-anew library
    shard breakages-command told_by_command bash tests/breakages.sh --stories-anew command
    for number in {1..12}; do
        shard "kills-$number" told bash tests/breakages.sh --kills "$number/12"
    done
    shard proofs proofs bash proofs/check.sh
    shard clippy checked clippy_of_all
    shard packages checked packages
    shard instructions counted instructions
    shard reference measured against_reference
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

# simulator TESTS...: of an ordinary build, without the breakages in it. A name that no test has is a failure.
simulator() {
    SHEARLINE_TEST_LONG=1 cargo test --profile sim --features embedded --test sim -- --nocapture "$@" |
        awk '{ print } /^running [1-9]/ { some = 1 } END { exit !some }'
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
        cargo clippy -p shearline-cli --all-targets --no-default-features -- -D warnings &&
        cargo clippy --lib --no-default-features -- -D warnings &&
        cargo clippy --lib --tests --all-features -- -D warnings --cfg shearline_mutants &&
        cargo clippy --all-targets --manifest-path benches/peers/Cargo.toml -- -D warnings &&
        cargo clippy --all-targets --manifest-path benches/reference/Cargo.toml -- -D warnings &&
        RUSTFLAGS="${RUSTFLAGS-} --cfg fuzzing" CARGO_TARGET_DIR=$CARGO_TARGET_DIR/fuzzing \
            cargo clippy --all-targets --manifest-path fuzz/Cargo.toml -- -D warnings
}

# packages: our other packages, the core without std, and what a user builds from the package.
packages() {
    # Cargo takes a package that has changed under the same version for the one that it has unpacked and built.
    rm -rf "${CARGO_HOME:-$HOME/.cargo}"/registry/src/-*/shearline-[0-9]* "$CARGO_TARGET_DIR/packages"
    no_std_objects &&
        cargo test --manifest-path benches/peers/Cargo.toml &&
        RUSTDOCFLAGS='-D warnings' cargo doc --no-deps --no-default-features &&
        cargo package --allow-dirty --offline --target-dir "$CARGO_TARGET_DIR/packages" -p shearline -p shearline-cli
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

# against_reference: this library beside an older tree of itself. Commit the record that it adds to.
against_reference() {
    cargo run --release --manifest-path benches/peers/Cargo.toml --bin reference -- \
        --check --record benches/reference/record.tsv
}

# --- the record -----------------------------------------------------------------------------------------

# key_of FILES COMMAND...: a hash of the inputs, and of what the command does with them.
key_of() {
    local -n paths=$1
    { git ls-files -s -- "${paths[@]}"; echo "$machine" "${@:2}"; functions_of "$2"; } |
        sed "s|$root|.|g" | git hash-object --stdin | cut -c 1-16
}

# functions_of COMMAND: if it is a function, prints it, the functions that it names, and those that these name.
functions_of() {
    local names=$1 more
    # shellcheck disable=SC2086  # a list of names
    while more=$(declare -f $names | grep -owFf <(compgen -A function) | sort -u) && [[ $more != "$names" ]]; do
        names=$more
    done
    # shellcheck disable=SC2086
    declare -f $names
}

# is_clean FILES: whether git has these files as they are.
is_clean() {
    local -n paths=$1
    [[ -z $(git diff --name-only -- "${paths[@]}"; git ls-files -o --exclude-standard -- "${paths[@]}") ]]
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
    [[ $mode != --list ]] || { echo "$name" && return; }
    key=$(key_of "$files" "$@")
    state=$(state_of "$name" "$key")
    case $mode in
        --status) status "$name" "$state" && return ;;
        --next) ((ran == 0)) && [[ $state == [sn]* ]] || return 0 ;;
        failed) ((ran == 0)) && [[ $state == failed ]] || return 0 ;;
        all) [[ $state != good ]] || return 0 ;;
        some) [[ " ${asked[*]} " == *" $name "* ]] || return 0 ;;
    esac
    ran=$((ran + 1))
    if ! is_clean "$files"; then
        step "$name" echo_and_fail "error: commit or stage the files of $name first"
        return
    fi
    step "$name" "$@"
    flaky "$logs/$name.log" || said=FAILED
    awk -v name="$name" '$1 == name { bad = $3 } END { exit bad > 0 }' "$logs/results" || said=FAILED
    note "$name" "$key" $((SECONDS - begin)) "$said"
}

echo_and_fail() {
    echo "$1"
    return 1
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
    if [[ $mode == some ]]; then
        local name known
        known=" $(mode=--list; shards | tr '\n' ' ')"
        for name in "$@"; do
            [[ $known == *" $name "* ]] || { echo "there is no shard $name; --list names them" && return 2; }
        done
    fi
    machine=$(versions)
    [[ $mode == --status || $mode == --list ]] || : >"$logs/results"
    if [[ $mode != --* || $mode == --next ]]; then
        step toolchain toolchain
        step servers servers
        machine=$(versions)
    fi
    shards
    # What failed before is tried again when there is nothing else.
    if [[ $mode == --next ]] && ((ran == 0)); then
        mode=failed
        shards
    fi
    case $mode in
        --status) echo "long run: $good of $total shards are of these inputs; bash tests/long.sh runs the others" ;;
        --list) ;;
        *) verdict ;;
    esac
}

main "$@"; exit
