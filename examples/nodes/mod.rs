//! The nodes of the examples. The environment variable `SHEARLINE_NODES` names them, as URLs separated by commas.
//! Without this variable, the examples start nodes in their own process, if the build includes the embedded node.

#[cfg(feature = "embedded")]
use shearline::embedded::EmbeddedNode;

/// The nodes of one example.
pub(crate) struct Nodes {
    /// The URLs of the nodes.
    pub(crate) urls: Vec<String>,
    /// Nodes in this process, which live as long as this value.
    #[cfg(feature = "embedded")]
    _embedded: Vec<EmbeddedNode>,
}

/// Returns the nodes to use. Ends the process with a hint if no nodes are available.
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
    Nodes {
        urls,
        #[cfg(feature = "embedded")]
        _embedded: Vec::new(),
    }
}

/// Starts three nodes in this process, for a first look and not for production.
#[cfg(feature = "embedded")]
fn embedded() -> Nodes {
    let nodes: Vec<_> = (0..3)
        .map(|_| EmbeddedNode::spawn().expect("a free loopback port"))
        .collect();
    Nodes {
        urls: nodes.iter().map(|node| node.url()).collect(),
        _embedded: nodes,
    }
}

#[cfg(not(feature = "embedded"))]
fn embedded() -> Nodes {
    eprintln!(
        "no nodes: add `--features embedded`, or start some (`redis-server --port 7001 &`, and so \
         on) and set SHEARLINE_NODES=redis://127.0.0.1:7001,redis://127.0.0.1:7002,..."
    );
    std::process::exit(2);
}
