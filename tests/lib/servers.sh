# Servers for examples and benches, and these. For `tests/run.sh` and `tests/long.sh`.

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
    sed -n "/^openssl ecparam/,/^\`\`\`/p" "$root/docs/tls.md" |
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

# example NAME: an example as a user would run it, on three servers whose URLs it finds in SHEARLINE_NODES,
# with TLS for the example of that. It is built already.
example() {
    trap end_servers EXIT
    local files=$logs/certificates binary=$CARGO_TARGET_DIR/debug/examples/$1
    if [[ $1 == tls ]]; then
        mkdir -p "$files" && certificates "$files" && start_servers 3 "$files" || return 1
        export SHEARLINE_CA=$files/ca.pem
    else
        start_servers 3 || return 1
    fi
    # One with dependencies of its own is a package.
    [[ -d examples/$1/src ]] && binary=$CARGO_TARGET_DIR/debug/$1
    with_time 120 "$binary"
}

# examples: all of them.
examples() {
    local file name status=0
    for file in examples/*.rs examples/*/src/main.rs; do
        name=${file#examples/} name=${name%/src/main.rs} name=${name%.rs}
        echo "--- $name"
        (example "$name") || { echo "error: example $name failed" && status=1; }
    done
    return $status
}
