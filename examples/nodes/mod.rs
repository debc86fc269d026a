//! Where the examples find their nodes: in the environment variable `SHEARLINE_NODES`, as URLs
//! separated by commas. Without it they start nodes of their own, if this build can.

/// The nodes of one example.
pub(crate) struct Nodes {
    /// How to reach them.
    pub(crate) urls: Vec<String>,
}

/// The nodes to use. Ends the process with a hint if there are none.
pub(crate) fn nodes() -> Nodes {
    let named = std::env::var("SHEARLINE_NODES").unwrap_or_default();
    let urls: Vec<String> = named
        .split(',')
        .map(str::trim)
        .filter(|url| !url.is_empty())
        .map(String::from)
        .collect();
    if urls.is_empty() {
        return embedded();
    }
    Nodes { urls }
}

fn embedded() -> Nodes {
    eprintln!(
        "no nodes: add `--features embedded`, or start some (`redis-server --port 7001 &`, and so \
         on) and set SHEARLINE_NODES=redis://127.0.0.1:7001,redis://127.0.0.1:7002,..."
    );
    std::process::exit(2);
}
