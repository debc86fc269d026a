# Checks of the source and of the packages, without a test of the library. For `tests/run.sh` and
# `tests/long.sh`.

# Our other packages, as far as they exist.
other_packages() {
    local manifest
    for manifest in benches cli tests/no_std fuzz benches/peers benches/instructions benches/reference; do
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

# filters: each test that `.config/nextest.toml` names is there. Nextest takes a name that no test has.
filters() {
    local name file status=0
    for name in $(sed -nE 's/.*test\(=([a-z0-9_:]+)\).*/\1/p' .config/nextest.toml); do
        file=${name%::*}
        grep -qsw "fn ${name##*::}" {tests,cli/tests}/it/"${file//:://}"{,/mod}.rs ||
            { echo "error: there is no test $name" && status=1; }
    done
    return $status
}

# no_std_objects: the check of the core with its own panic handler would notice std.
no_std_objects() {
    local said
    if said=$(cargo check --manifest-path tests/no_std/Cargo.toml --features std 2>&1); then
        echo "the proof let std pass: it proves nothing"
        return 1
    fi
    echo "$said"
    grep -q 'E0152' <<<"$said"
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

# pictures: those of the manual are what their script draws.
pictures() {
    if ! command -v python3 >/dev/null; then
        echo "NOT RUN: pictures: python3 is missing"
        return 0
    fi
    python3 docs/pictures.py --check
}

# package_list: what `cargo publish` would upload has no files that only tests need, and each package its licences.
package_list() {
    local files package
    for package in shearline shearline-cli; do
        files=$(cargo package --list --allow-dirty -p $package) || return 1
        echo "$files"
        ! grep -E '^(tests|benches|fuzz|proofs|\.ci)/' <<<"$files" || return 1
        [[ $(grep -cE '^LICENSE-(MIT|APACHE)$' <<<"$files") == 2 ]] ||
            { echo "error: $package has no licences" && return 1; }
    done
}

# static_command: the command as one file that needs no library of the system, where rustup has the target. TLS also
# needs a C compiler for it.
static_command() {
    local target=x86_64-unknown-linux-musl tls=() binary
    if [[ ! -d $(rustc --print target-libdir --target $target) ]]; then
        echo "NOT RUN: static: rustup target add $target"
        return 0
    fi
    command -v musl-gcc >/dev/null || tls=(--no-default-features)
    cargo build -p shearline-cli --target $target ${tls[@]+"${tls[@]}"} || return 1
    binary=$CARGO_TARGET_DIR/$target/debug/shearline
    # The linker of a program is named in it, unless it is static.
    ! grep -aqF 'ld-linux' "$binary" && ! grep -aqF 'ld-musl' "$binary" && "$binary" demo --seconds 1
}

# image: the container file, where there is a daemon that has its base image.
image() {
    local file=examples/docker/Dockerfile base
    base=$(sed -n 's/^FROM \(.*\) AS build$/\1/p' $file)
    if ! docker image inspect "$base" >/dev/null 2>&1; then
        echo "NOT RUN: image: no Docker daemon that has $base"
        return 0
    fi
    docker build -f $file -t shearline-test . && docker run --rm shearline-test demo --seconds 1
}

# linked ARGUMENTS...: how many crates besides ours `cargo tree` lists.
linked() {
    cargo tree --prefix none --format '{p}' "$@" |
        sed 's/ (\*)$//' | sort -u | grep -vcE '^shearline(-cli)? '
}

# dependencies: no more crates than we have promised, in an example too (those of the tests, none of the
# benches).
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
15 -e normal,no-proc-macro --features serde
80 -e normal,build,dev
62 -p shearline-cli -e normal,no-proc-macro
75 -p shearline-cli -e normal,build
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
        bad=$(cargo tree --locked -p shearline -p shearline-cli --all-features --target "$target" -e normal,no-proc-macro \
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

