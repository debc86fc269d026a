#!/usr/bin/env bash
# Everything that is broken on purpose, and who notices it: the guards of `src/guards.rs`, taken out one
# after the other, and the patches of `tests/breakages`. For each, an oracle of the simulator or a story of
# the library has to object, and the table says which.
#
#   bash tests/breakages.sh               all of them, and every oracle alone
#   bash tests/breakages.sh NAME...       only these
#   bash tests/breakages.sh --apply       only whether all patches apply
#   MUTANT=NAME SEED=17 bash tests/breakages.sh --see     one history (tests/sim/replay.rs says more)
#
# A patch begins with a line for each breakage in it: `Name [who notices it]: what is broken.` Who
# notices it is a kind of world of the simulator (`any`, mostly), or stories of the library
# (`engine::tests::claims`). What it breaks stands behind `broken!(Name)`, so that one build has all of
# them, and each does nothing until it is chosen by its name. They are applied to a copy of the tree
# in the target folder, never to the tree itself. One that does not apply is a failure.
#
# To write one: change `src`, `git diff -U1 src`, the line in front. To mend one that does not apply:
# edit its text, which has little context on purpose.

set -u -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
export CARGO_TERM_COLOR=never
copy=$CARGO_TARGET_DIR/breakages
patches=(tests/breakages/*.patch)

# Copies what a build reads, applies the patches, and puts what is new or different into the copy (so
# that what has not changed is not built again).
apply() {
    local fresh=$copy/fresh tree=$copy/tree file patch name bad=0
    rm -rf "$fresh" && mkdir -p "$fresh" "$tree" || return 1
    tar --exclude=target -cf - Cargo.toml Cargo.lock README.md CHANGELOG.md src tests benches examples fuzz |
        tar -xf - -C "$fresh" || return 1
    cat tests/breakages/broken.rs >>"$fresh/src/guards.rs"
    touch "$fresh/tests/breakages/applied"
    for patch in "${patches[@]}"; do
        # At any line, but with its whole context, or not at all. (In a repository `git apply` would
        # skip what lies outside of it.)
        GIT_CEILING_DIRECTORIES=$copy git -C "$fresh" apply --whitespace=nowarn - <"$patch" ||
            { echo "$patch does not apply" && bad=1; }
    done
    # That it was done: each of their names stands in the code now.
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

# In the copy, with the switches; only our own packages are told of them (RUSTFLAGS would compile
# those of others once more).
in_copy() {
    local wrapper=$copy/with-mutants
    [[ -x $wrapper ]] || printf '#!/bin/sh\nexec "$@" --cfg shearline_mutants\n' >"$wrapper"
    chmod +x "$wrapper" && (cd "$copy/tree" && RUSTC_WORKSPACE_WRAPPER=$wrapper "$@")
}

simulator() {
    in_copy cargo test --profile sim --features embedded --test sim -- --nocapture "$@"
}

# `NAME STORIES` of what no world sees.
told_by_stories() {
    sed -nE 's/^(\w+) \[(\w+::[a-z_:]+)\]: .*/\1 \2/p' "${patches[@]}"
    sed -nE 's/^ +\("(\w+)", "(\w+::[a-z_:]+)"\),$/\1 \2/p' tests/sim/mutations.rs
}

# The stories have to fail with it, and to pass without.
stories() {
    local name filter said status=0 binary
    binary=$(in_copy cargo test --no-run --lib --features embedded 2>&1 | tee "$copy/stories.log" |
        sed -nE 's/^ *Executable unittests src\/lib.rs \((.*)\)$/\1/p')
    [[ -n $binary ]] || { cat "$copy/stories.log"; return 1; }
    while read -r name filter; do
        asked_for "$name" || continue
        if ! "$binary" "$filter" >/dev/null 2>&1; then
            said="NOTHING: $filter fails without it" status=1
        elif said=$(SHEARLINE_MUTANT=$name "$binary" "$filter" 2>&1); then
            said="NOBODY of $filter" status=1
        else
            said=$(sed -nE 's/^test (.*) \.\.\. FAILED$/\1/p' <<<"$said" | head -n 1)
            [[ -n $said ]] || said="NOBODY: the process ended" status=1
        fi
        printf '%-28s                 %s\n' "$name" "$said"
    done < <(told_by_stories)
    return $status
}

asked_for() {
    ((${#names[@]} == 0)) || [[ " ${names[*]} " == *" $1 "* ]]
}

verdict() {
    if (($1 == 0)); then
        echo "verdict: good, all are noticed, in $SECONDS s"
    else
        echo "verdict: FAILED, after $SECONDS s"
    fi
    exit "$1"
}

names=()
status=0
case ${1-} in
    --apply)
        apply
        exit
        ;;
    --see)
        apply && simulator worlds
        exit
        ;;
    -*)
        sed -n '2,/^$/p' "${BASH_SOURCE[0]}"
        exit 2
        ;;
esac
names=("$@")
apply || verdict 1
if ((${#names[@]} == 0)); then
    simulator mutants every_oracle narrow || status=1
else
    export ROWS=${names[*]}
    ROWS=${ROWS// /,} simulator mutants_are_noticed || status=1
fi
stories || status=1
verdict $status
