#!/usr/bin/env bash
# Breaks the library on purpose, in every known way, and prints what notices it: takes out the guards of
# `src/guards.rs` one after the other, and the same with the patches of `tests/breakages`. Each time an
# oracle of the simulator or a story of the library has to object. What is not noticed is a failure.
#
#   bash tests/breakages.sh               all of them, and every oracle alone
#   bash tests/breakages.sh NAME...       only these
#   bash tests/breakages.sh --apply       only whether all patches apply
#   MUTANT=NAME SEED=17 bash tests/breakages.sh --play    one history (tests/sim/replay.rs says more)
#
# A patch begins with a line for each breakage in it: `Name [what notices it]: what is broken.` What
# notices it is a kind of world of the simulator (`any`, mostly), the `search` beside it, or stories of the
# library (`engine::tests::claims`), or of the command (`command::run` in tests/it, `run::tree` beside its
# code). The changed code is behind `broken!(Name)`, or `shearline::broken!(Name)` in the command
# (tests/breakages/broken.rs). So one build has all breakages, and each does nothing until it is chosen by
# its name. The patches are applied to a copy of the tree in the target folder, never to the tree itself.
# One that does not apply is a failure.
#
# To write one, change `src` and put the line in front of `git diff -U1 src`. One that does not apply any
# more is mended by hand: it has little context on purpose.

set -u -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
export CARGO_TERM_COLOR=never
# For the stories of the command; `tests/run.sh` puts it there.
export SHEARLINE_VALKEY_SERVER=${SHEARLINE_VALKEY_SERVER:-$PWD/target/tools/valkey-server}
copy=$CARGO_TARGET_DIR/breakages
patches=(tests/breakages/*.patch)

# Copies the files that a build reads, applies the patches, and updates only the files of the copy that
# differ, so that cargo does not build the others again.
apply() {
    local fresh=$copy/fresh tree=$copy/tree file patch name bad=0
    rm -rf "$fresh" && mkdir -p "$fresh" "$tree" || return 1
    tar --exclude=target -cf - Cargo.toml Cargo.lock README.md CHANGELOG.md src tests benches examples fuzz |
        tar -xf - -C "$fresh" || return 1
    cat tests/breakages/broken.rs >>"$fresh/src/guards.rs"
    touch "$fresh/tests/breakages/applied"
    for patch in "${patches[@]}"; do
        grep -qE '^\w+ \[.*\]: ' "$patch" || { echo "$patch names no breakage" && bad=1; }
        # At any line, but with its whole context, or not at all. (Where it finds a repository, `git
        # apply` skips files that do not belong to it.)
        GIT_CEILING_DIRECTORIES=$copy git -C "$fresh" apply --whitespace=nowarn - <"$patch" ||
            { echo "$patch does not apply" && bad=1; }
    done
    # Each of their names is in the code now.
    for name in $(sed -nE 's/^(\w+) \[.*\]: .*/\1/p' "${patches[@]}"); do
        grep -rqE "broken!\(([A-Za-z| ]*\W)?$name\b" "$fresh/src" || { echo "$name is nowhere" && bad=1; }
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

# Runs a command in the copy, with the switches. Only our own packages get the flag (RUSTFLAGS would
# compile all dependencies again).
in_copy() {
    local wrapper=$copy/with-mutants
    [[ -x $wrapper ]] || printf '#!/bin/sh\nexec "$@" --cfg shearline_mutants\n' >"$wrapper"
    chmod +x "$wrapper" && (cd "$copy/tree" && RUSTC_WORKSPACE_WRAPPER=$wrapper "$@")
}

simulator() {
    in_copy cargo test --profile sim --features embedded --test sim -- --nocapture "$@"
}

# Prints `NAME STORIES` for what no world notices.
told_by_stories() {
    sed -nE 's/^(\w+) \[(\w+::[a-z_:]+)\]: .*/\1 \2/p' "${patches[@]}"
    sed -nE 's/^ +\("(\w+)", "(\w+::[a-z_:]+)"\),$/\1 \2/p' tests/sim/mutations.rs
}

# story_binary ARGUMENTS...: builds tests in the copy, and prints their program.
story_binary() {
    local binary
    binary=$(in_copy cargo test --no-run "$@" 2>&1 | tee "$copy/stories.log" |
        sed -nE 's/^ *Executable .*(src\/lib|src\/bin\/shearline\/main|tests\/it\/main)\.rs \((.*)\)$/\2/p')
    [[ -n $binary ]] || { cat "$copy/stories.log" >&2; return 1; }
    echo "$binary"
}

# The stories have to fail with each, and to pass without it. Those of `command` are about the command, on
# real servers.
stories() {
    local name filter said binary library='' command='' inside=''
    while read -r name filter; do
        asked_for "$name" || continue
        if [[ $filter == command::* ]]; then
            # Elsewhere: the command that it builds would replace the one that other tests run.
            binary=${command:=$(CARGO_TARGET_DIR=$copy/command story_binary --test it --features cli)}
        elif [[ $filter == run::* ]]; then
            binary=${inside:=$(CARGO_TARGET_DIR=$copy/command story_binary --bin shearline --features cli)}
        else
            binary=${library:=$(story_binary --lib --features embedded,tls)}
        fi
        [[ -n $binary ]] || { unnoticed+=("all stories from $name on") && return; }
        said=$(told_with "$name" "$binary" "$filter") || unnoticed+=("$name ($said)")
        printf '%-28s                 %s\n' "$name" "$said"
    done < <(told_by_stories)
}

# told_with NAME BINARY FILTER: prints which story failed with the breakage, or why that is no proof.
told_with() {
    local without with
    if ! without=$("$2" "$3" 2>&1 </dev/null); then
        tail -n 60 <<<"$without" >&2
        echo "FAILED: $3 fails without it" && return 1
    fi
    if with=$(SHEARLINE_MUTANT=$1 "$2" "$3" 2>&1 </dev/null); then
        echo "NOT NOTICED by $3" && return 1
    fi
    with=$(sed -nE 's/^test (.*) \.\.\. FAILED$/\1/p' <<<"$with" | head -n 1)
    echo "${with:-NOT NOTICED: the process ended}"
    [[ -n $with ]]
}

asked_for() {
    ((${#names[@]} == 0)) || [[ " ${names[*]} " == *" $1 "* ]]
}

# What failed, for the last line.
unnoticed=()

verdict() {
    if ((${#unnoticed[@]} == 0)); then
        echo "verdict: good, all are noticed, in $SECONDS s"
    else
        printf 'not noticed: %s\n' "${unnoticed[@]}"
        echo "verdict: FAILED, after $SECONDS s"
        exit 1
    fi
}

names=()

# In a function, so that all of this file is read before anything runs: an edit does not change a run
# that is under way.
main() {
    case ${1-} in
        --apply)
            apply
            return
            ;;
        --play)
            apply && simulator worlds
            return
            ;;
        -*)
            sed -n '2,/^$/p' "${BASH_SOURCE[0]}"
            return 2
            ;;
    esac
    names=("$@")
    apply || { unnoticed+=('a patch that does not apply'); verdict; }
    if ((${#names[@]} == 0)); then
        simulator mutants every_oracle || unnoticed+=('what the simulator said above')
    else
        export ROWS=${names[*]}
        ROWS=${ROWS// /,} simulator mutants_are_noticed mutants_of_tokens ||
            unnoticed+=('what the simulator said above')
    fi
    stories
    verdict
}

main "$@"
exit
