#!/usr/bin/env bash
# Breaks the library on purpose, in every known way, and prints which test notices. Each guard of
# `src/guards.rs` is taken out in turn, and each breakage of the patches in `tests/breakages` is switched on
# in turn. Each time an oracle of the simulator or a story of the library has to object.
#
#   bash tests/breakages.sh               replays the recorded history of each breakage, and runs the stories
#                                         of those whose files have changed. The build takes three minutes
#   bash tests/breakages.sh --worlds-anew     the same; searches for a new history where the recorded one no
#                                         longer shows the breakage, and records it (`tests/long.sh`)
#   bash tests/breakages.sh --stories-anew [library|command]    runs all stories, and records them
#   bash tests/breakages.sh BREAKAGE...   only these, searching for as long as needed; records them
#   bash tests/breakages.sh --worlds [TEST..]   the simulator with nothing broken, in the same build
#   bash tests/breakages.sh --kills 1/12  runs a twelfth of the breakages against all unit tests and stories
#   bash tests/breakages.sh --apply       only checks that all patches apply
#   bash tests/breakages.sh --rebase PATCH    renews a patch that no longer applies
#   MUTANT=BREAKAGE SEED=17 bash tests/breakages.sh --play    one history (tests/sim/replay.rs says more)
#
# A patch begins with a line for each breakage in it: `Name [what notices it]: what is broken.` What notices
# it is one of these:
#
#   any, crowded, ..          a kind of world of the simulator (tests/sim/kinds.rs)
#   search                    the search beside the simulator
#   engine::tests::claims     stories of the library
#   command::run, run::tree   stories of the command, in cli/tests or beside its code
#
# The changed code is behind `broken!(Name)`, or `shearline::broken!(Name)` in the command
# (tests/breakages/broken.rs). One build contains all breakages; each is off until it is selected by name. The
# patches are applied to a copy of the tree in the target folder, never to the tree itself. A patch that does
# not apply is a failure.
#
# The record has two files, which are committed. `heard.tsv` has the seed of a history for each breakage
# (tests/sim/heard.rs). `stories.tsv` names the test that noticed a breakage, and a hash of the files involved:
# the patch, what it changes, and the stories. While the hash stays the same, the ordinary run plays no story.
# The ordinary run reports a breakage that it does not hear as OWED; the long run must find it.
#
# To write a patch: put `broken!(Name)` into `src` or `cli/src`, write the line and an empty line into
# tests/breakages/Name.patch, append `git diff -U1 src cli | sed '/^diff --git /d; /^index /d'`, and undo the
# change.

set -u -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
root=$PWD
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}
export CARGO_TERM_COLOR=never
# For the stories of the command; `tests/run.sh` puts it there.
export SHEARLINE_VALKEY_SERVER=${SHEARLINE_VALKEY_SERVER:-$root/target/tools/valkey-server}
copy=$CARGO_TARGET_DIR/breakages
patches=(tests/breakages/*.patch)
record=tests/breakages/stories.tsv

# --- the copy of the tree -------------------------------------------------------------------------------

# apply_to DIRECTORY PATCH: at any line, but with its whole context, or not at all. (Where it finds a
# repository, `git apply` skips files that do not belong to it.)
apply_to() {
    GIT_CEILING_DIRECTORIES=$(dirname "$1") git -C "$1" apply --whitespace=nowarn - <"$2"
}

# Copies the files that a build reads, applies the patches, and updates only the files of the copy that
# differ, so that cargo does not build the others again.
apply() {
    local fresh=$copy/fresh tree=$copy/tree file patch name bad=0
    rm -rf "$fresh" && mkdir -p "$fresh" "$tree" || return 1
    tar --exclude=target -cf - Cargo.toml Cargo.lock README.md CHANGELOG.md .config docs src cli tests benches examples \
        fuzz | tar -xf - -C "$fresh" || return 1
    cat tests/breakages/broken.rs >>"$fresh/src/guards.rs"
    touch "$fresh/tests/breakages/applied"
    for patch in "${patches[@]}"; do
        sed '/^--- /,$d' "$patch" | grep -vqE '^(\w+ \[.*\]: .*|)$' &&
            { echo "$patch has more than lines \`Name [what notices it]: ..\` before its first file" && bad=1; }
        grep -qE '^\w+ \[.*\]: ' "$patch" || { echo "$patch names no breakage" && bad=1; }
        apply_to "$fresh" "$patch" || {
            name=$(basename "$patch" .patch)
            echo "$patch does not apply: bash tests/breakages.sh --rebase $name" && bad=1
        }
    done
    # Each of their names is in the code now.
    for name in $(sed -nE 's/^(\w+) \[.*\]: .*/\1/p' "${patches[@]}"); do
        grep -rqE "broken!\(([A-Za-z| ]*\W)?$name\b" "$fresh/src" "$fresh/cli/src" || { echo "$name is nowhere" && bad=1; }
    done
    (cd "$tree" && find . -type f) | while read -r file; do
        [[ -e $fresh/$file ]] || rm -f "$tree/$file"
    done
    (cd "$fresh" && find . -type f) | while read -r file; do
        cmp -s "$fresh/$file" "$tree/$file" ||
            { mkdir -p "$(dirname "$tree/$file")" && cp "$fresh/$file" "$tree/$file"; }
    done
    rm -rf "$fresh"
    ((bad)) || echo "${#patches[@]} patches apply"
    return $bad
}

# rebase NAME: makes a patch anew that does not apply any more. It is applied to the newest commit to
# which it applies, and what it changes there is merged into the tree of today. Where that is in conflict,
# a person mends the files that are named, and calls this again.
rebase() {
    local name=$1 patch=tests/breakages/$1.patch work=$copy/rebase/$1 commit file conflicts=0
    [[ -f $patch ]] || { echo "there is no $patch" && return 1; }
    # What was begun for other files is begun anew.
    for file in $(files_of "$patch"); do
        cmp -s "$file" "$work/ours/$file" || rm -rf "$work"
    done
    if [[ ! -d $work/mended ]]; then
        for commit in $(git log --format=%H -- "$patch" $(files_of "$patch")); do
            rm -rf "$work" && mkdir -p "$work/base" "$work/broken"
            git archive "$commit" $(git ls-tree --name-only "$commit" src cli) | tar -xf - -C "$work/base" &&
                cp -r "$work"/base/* "$work/broken/" &&
                apply_to "$work/broken" "$root/$patch" 2>/dev/null && break
            commit=
        done
        [[ -n ${commit:-} ]] || { echo "it applies to no commit: mend it by hand" && return 1; }
        echo "it applies to $(git log -1 --format='%h %s' "$commit")"
        for file in $(files_of "$patch"); do
            mkdir -p "$work/mended/$(dirname "$file")" && cp "$file" "$work/mended/$file" || return 1
            mkdir -p "$work/ours/$(dirname "$file")" && cp "$file" "$work/ours/$file"
            git merge-file -q "$work/mended/$file" "$work/base/$file" "$work/broken/$file"
        done
    fi
    for file in $(files_of "$patch"); do
        ! grep -nE '^(<<<<<<<|>>>>>>>) ' "$work/mended/$file" /dev/null || conflicts=1
    done
    ((conflicts == 0)) || { echo "mend these, and call this again" && return 1; }
    {
        sed '/^--- /,$d' "$patch"
        for file in $(files_of "$patch"); do
            diff -U1 --label "a/$file" --label "b/$file" "$file" "$work/mended/$file"
        done
    } >"$work/new.patch"
    cp "$work/new.patch" "$patch" && rm -rf "$work" && git diff --stat -- "$patch"
}

# files_of PATCH: prints the names of the files that it changes.
files_of() {
    sed -nE 's|^\+\+\+ b/([^\t]*).*|\1|p' "$1"
}

# --- what is built from it --------------------------------------------------------------------------------

# Runs a command in the copy, with the switches. Only our own packages get the flag (RUSTFLAGS would
# compile all dependencies again).
in_copy() {
    local wrapper=$copy/with-mutants
    [[ -x $wrapper ]] || printf '#!/bin/sh\nexec "$@" --cfg shearline_mutants\n' >"$wrapper"
    chmod +x "$wrapper" && (cd "$copy/tree" && RUSTC_WORKSPACE_WRAPPER=$wrapper "$@")
}

# simulator TESTS...: the tests of `tests/sim` whose names contain one of these words. One after the other:
# each uses all cores, and two of them write the record. Words that no test has are a failure.
simulator() {
    in_copy cargo test --profile sim --features embedded --test sim -- --nocapture --test-threads 1 "$@" |
        tee "$copy/simulator.log" && grep -q '^running [1-9]' "$copy/simulator.log"
}

# story_binary ARGUMENTS...: builds tests in the copy, and prints their program.
story_binary() {
    local binary
    binary=$(in_copy cargo test --no-run "$@" 2>&1 | tee "$copy/stories.log" |
        sed -nE 's/^ *Executable .*(src\/lib|src\/main|tests\/it\/main)\.rs \((.*)\)$/\2/p')
    [[ -n $binary ]] || { cat "$copy/stories.log" >&2; return 1; }
    echo "$binary"
}

# command_binary ARGUMENTS...: the same for the command, in a target folder of its own: the command that it builds
# would replace the one that other tests run. What is built of other packages is linked there, not built again.
command_binary() {
    local own=$copy/command/debug
    mkdir -p "$own" && cp -rlu "$CARGO_TARGET_DIR"/debug/{.fingerprint,build,deps} "$own" 2>/dev/null
    CARGO_TARGET_DIR=$copy/command story_binary -p shearline-cli "$@"
}

# --- stories ----------------------------------------------------------------------------------------------

# Prints `NAME STORIES` for what no world notices.
told_by_stories() {
    sed -nE 's/^(\w+) \[(\w+::[a-z_:]+)\]: .*/\1 \2/p' "${patches[@]}"
    sed -nE 's/^ +\("(\w+)", "(\w+::[a-z_:]+)"\),$/\1 \2/p' tests/sim/mutations.rs
}

# hash_of NAME STORIES: of the files that say whether these stories notice this breakage: the patch, what it
# changes, and the stories. A guard has no patch; the files that name it stand for it.
hash_of() {
    local files=() file=src/${2//:://}
    [[ $2 == command::* ]] && file=cli/tests/it/${2//:://}
    [[ $2 == run::* ]] && file=cli/src/${2//:://}
    # A story may be a function in a file, or a module in one.
    while [[ ! -e $file.rs && ! -d $file ]]; do file=${file%/*}; done
    mapfile -t files < <(
        find "$file.rs" "$file" "${file%/*}/mod.rs" -name '*.rs' 2>/dev/null
        patch=$(grep -lE "^$1 \[" "${patches[@]}") && echo "$patch" && files_of "$patch" ||
            grep -rlE "guard!\($1\b" src
    )
    sort <<<"$(printf '%s\n' "${files[@]}")" | git hash-object --stdin-paths | git hash-object --stdin |
        cut -c 1-16
}

# The stories have to fail with each, and to pass without it. Those of `command` are about the command, on
# real servers.
stories() {
    local name filter hash said binary library='' command='' inside='' passes='' known=0 lines=()
    while read -r name filter; do
        hash=$(hash_of "$name" "$filter")
        if ((!searching)) && grep -qE "^$name"$'\t'".*"$'\t'"$hash\$" "$record" 2>/dev/null; then
            known=$((known + 1))
            continue
        fi
        if ! asked_for "$name" "$filter"; then
            lines+=("$(grep -E "^$name"$'\t' "$record" 2>/dev/null)")
            continue
        fi
        if [[ $filter == command::* ]]; then
            binary=${command:=$(command_binary --test it)}
        elif [[ $filter == run::* ]]; then
            binary=${inside:=$(command_binary --bin shearline)}
        else
            binary=${library:=$(story_binary --lib --features embedded,tls)}
        fi
        [[ -n $binary ]] || { unnoticed+=("all stories from $name on") && return; }
        if [[ $passes != *" $filter "* ]]; then
            said=$("$binary" "$filter" 2>&1 </dev/null) && passes+=" $filter " || {
                tail -n 60 <<<"$said" >&2
                unnoticed+=("$name: $filter fails without it") && continue
            }
        fi
        said=$(told_with "$name" "$binary" "$filter") || { unnoticed+=("$name ($said)") && continue; }
        printf '%-28s %s\n' "$name" "$said"
        lines+=("$name"$'\t'"$said"$'\t'"$hash")
    done < <(told_by_stories)
    echo "$known breakages skipped: neither they nor their stories have changed since a story noticed them"
    if ((searching)); then
        printf '%s\n' '# breakage, test, hash of the files: written by `bash tests/breakages.sh --stories-anew`' >"$record"
        printf '%s\n' "${lines[@]}" | sed '/^$/d' | sort >>"$record"
    fi
}

# told_by_all: prints the names of all breakages: the guards, the patches, and what a driver does wrong.
told_by_all() {
    sed -nE 's/^    ([A-Z][A-Za-z]+),$/\1/p' src/guards.rs
    sed -nE 's/^(\w+) \[.*\]: .*/\1/p' "${patches[@]}"
    sed -nE 's/^    kind\("([a-z-]+)", .*/\1/p' tests/sim/mutations.rs
}

# kills PART/PARTS: plays every unit test and story with each breakage of this part, and prints which tests
# notice nothing, and which are never the only one to notice something: these can be merged. (Tests of rooms
# in which nothing is broken are left out.) The tests that notice a breakage are in target/breakages/kills;
# parts that ran before are counted too.
kills() {
    local binary name number=0 part=${1%/*} parts=${1#*/} out=$copy/kills skip='' room
    binary=$(story_binary --profile sim --lib --features embedded,tls) || return 1
    for room in resp timer manual shared::tests::interleavings; do
        skip+=" --skip $room::"
    done
    mkdir -p "$out"
    # shellcheck disable=SC2086  # a list of arguments
    "$binary" --list $skip 2>/dev/null | sed -n 's/: test$//p' >"$out/tests"
    for name in $(told_by_all | grep -v -); do
        number=$((number + 1))
        ((number % parts == part - 1)) || continue
        # Random cases of one promise: few will do. One that hangs ends after twenty seconds.
        # shellcheck disable=SC2086
        PROPTEST_CASES=16 SHEARLINE_MUTANT=$name timeout --kill-after=2 20 "$binary" --test-threads 16 $skip 2>/dev/null </dev/null |
            sed -nE 's/^test (.*) \.\.\. FAILED$/\1/p' | sort >"$out/$name.killed"
        printf '%-28s %4d tests notice it\n' "$name" "$(wc -l <"$out/$name.killed")"
    done
    awk -v tests="$out/tests" '
        { of[FILENAME]++; last[FILENAME] = $0; noticed[$0]++ }
        END {
            for (file in of) if (of[file] == 1) alone[last[file]]++
            while ((getline name < tests) > 0) {
                all++
                if (!noticed[name]) { nothing++; print "notices nothing: " name }
                else if (!alone[name]) { never++; print "never alone, " noticed[name] " breakages: " name }
            }
            printf "%d breakages; of %d tests %d notice none of them, %d are never the only one\n", \
                ARGC - 1, all, nothing, never
        }' "$out"/*.killed | sort
}

# told_with NAME BINARY FILTER: prints which story failed with the breakage, or why that is no proof. The
# first failure is enough; but stories with servers end by themselves, and their servers with them. One that
# hangs is ended, and proves nothing.
told_with() {
    local said=$copy/said pid with status stop='q'
    [[ $3 == command::* ]] && stop=''
    rm -f "$said" && mkfifo "$said" || return 1
    SHEARLINE_MUTANT=$1 timeout --kill-after=5 "${STORY_SECONDS:-120}" "$2" "$3" >"$said" 2>/dev/null </dev/null &
    pid=$!
    with=$(sed -nE "/^test (.*) \.\.\. FAILED$/ { s//\1/p; $stop }" "$said")
    [[ -z $with || -z $stop ]] || kill "$pid" 2>/dev/null
    wait "$pid"
    status=$?
    ((status != 0)) || { echo "NOT NOTICED by $3" && return 1; }
    with=${with%%$'\n'*}
    echo "${with:-NOT NOTICED: the process ended with status $status}"
    [[ -n $with ]]
}

# asked_for NAME STORIES
asked_for() {
    case $part:$2 in
        library:command::* | library:run::*) return 1 ;;
        command:command::* | command:run::*) return 0 ;;
        command:*) return 1 ;;
    esac
    ((${#names[@]} == 0)) || [[ " ${names[*]} " == *" $1 "* ]]
}

# --- the run ----------------------------------------------------------------------------------------------

# prepare: the copy of the tree, with all breakages.
prepare() {
    apply || { unnoticed+=('a patch that does not apply') && return 1; }
}

# worlds_anew [TESTS...]: what the worlds hear, and the record of it from the copy.
worlds_anew() {
    (($#)) || set -- mutants every_oracle
    prepare || return
    SHEARLINE_TEST_LONG=1 simulator "$@" || unnoticed+=('what the simulator said above')
    cp "$copy/tree/tests/breakages/heard.tsv" tests/breakages/
}

# What failed, for the last line.
unnoticed=()
names=()
part=all
searching=0

verdict() {
    if ((${#unnoticed[@]} == 0)); then
        echo "verdict: good, in $SECONDS s"
    else
        printf 'not noticed: %s\n' "${unnoticed[@]}"
        echo "verdict: FAILED, after $SECONDS s"
        exit 1
    fi
}

# In a function, so that all of this file is read before anything runs: an edit does not change a run
# that is under way.
main() {
    case ${1-} in
        --kills)
            apply && kills "${2:-1/1}"
            return
            ;;
        --apply | --rebase)
            "${1#--}" "${@:2}"
            return
            ;;
        --play)
            apply && simulator --exact worlds_keep_their_promises
            return
            ;;
        --worlds)
            shift
            apply && simulator --skip mutants --skip every_oracle "$@"
            return
            ;;
        --worlds-anew)
            worlds_anew
            verdict
            return
            ;;
        --stories-anew)
            searching=1
            part=${2-all}
            prepare && stories
            verdict
            return
            ;;
        -*)
            sed -n '2,/^$/p' "${BASH_SOURCE[0]}"
            return 2
            ;;
    esac
    names=("$@")
    local name
    for name in "$@"; do
        grep -qxF -- "$name" <(told_by_all) || { echo "there is no breakage $name" && return 2; }
    done
    ((${#names[@]})) && searching=1
    if ((searching)); then
        # The simulator is built only for those that are not left to stories.
        ROWS=$(printf '%s\n' "$@" | grep -vxFf <(told_by_stories | cut -d ' ' -f 1) | paste -sd ,)
        if [[ -n $ROWS ]]; then
            export ROWS
            worlds_anew mutants_are_noticed mutants_of_tokens
        else
            prepare || verdict
        fi
    elif prepare; then
        simulator mutants every_oracle || unnoticed+=('what the simulator said above')
    fi
    stories
    verdict
}

main "$@"; exit
