//! A lock over TLS, with your own certificate authority and a client certificate.
//!
//! ```text
//! SHEARLINE_NODES=rediss://10.0.0.1:6380,rediss://10.0.0.2:6380,rediss://10.0.0.3:6380 \
//! SHEARLINE_CA=/etc/locks/ca.pem SHEARLINE_CERT=/etc/locks/client.pem SHEARLINE_KEY=/etc/locks/client.key \
//!     cargo run --features tls --example tls
//! ```
//!
//! The client certificate and its key are needed only if the servers require them (`tls-auth-clients yes`). Without
//! `SHEARLINE_CA`, the program trusts the system's certificate authorities.

use std::env::{VarError, var};
use std::error::Error;
use std::time::Duration;

use shearline::{BuildError, NodeState, Redlock, TlsOptions, Unusable};

const TTL: Duration = Duration::from_secs(10);

fn main() -> Result<(), Box<dyn Error>> {
    let nodes = var("SHEARLINE_NODES")?;
    let redlock = Redlock::builder()
        .nodes(nodes.split(','))
        .tls(options()?)
        .build();
    let redlock = match redlock {
        Ok(redlock) => redlock,
        // `build` finds a wrong URL, a missing file or a wrong key before anything is sent.
        Err(BuildError::Config(error)) => {
            eprintln!("correct this setting: {error}");
            return Err(error.into());
        }
        Err(other) => return Err(other.into()),
    };
    for node in redlock.nodes() {
        // The certificate of this node has expired, or its authority is unknown, but the other nodes still work.
        if let NodeState::Unusable(Unusable::Tls(failure)) = node.state {
            eprintln!("{}: {failure}", node.address);
        }
    }
    let lock = redlock.lock("tls:example", TTL)?;
    println!("taken, valid for {:?}", lock.validity());
    lock.unlock()?;
    Ok(())
}

fn options() -> Result<TlsOptions, VarError> {
    let mut options = TlsOptions::new();
    if let Ok(ca) = var("SHEARLINE_CA") {
        options = options.authorities_file(ca);
    }
    if let Ok(certificate) = var("SHEARLINE_CERT") {
        options = options.identity_files(certificate, var("SHEARLINE_KEY")?);
    }
    Ok(options)
}
