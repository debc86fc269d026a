//! Looks for hiredis and passes the versions of the others.
//!
//! Sets `cfg(hiredis)` if the C that calls it compiles. A machine without it builds all the rest.

use std::error::Error;
use std::fs;
use std::path::Path;

const SHIM: &str = "src/bin/resp/hiredis.c";
const HEADER: &str = "/usr/include/hiredis/hiredis.h";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(hiredis)");
    hiredis();
    versions()
}

fn hiredis() {
    println!("cargo::rerun-if-changed={SHIM}");
    // While it is missing, cargo asks again at every build.
    println!("cargo::rerun-if-changed={HEADER}");
    let compiled = cc::Build::new()
        .file(SHIM)
        .warnings(true)
        .cargo_warnings(false)
        .try_compile("shearline_peers_hiredis");
    match compiled {
        Ok(()) => {
            println!("cargo::rustc-cfg=hiredis");
            println!("cargo::rustc-link-lib=hiredis");
        }
        Err(error) if Path::new(HEADER).exists() => {
            println!("cargo::warning=hiredis is installed, but: {error}");
            println!("cargo::rustc-env=HIREDIS_ABSENT=installed, but {SHIM} does not compile");
        }
        Err(_) => {
            let advice = "not installed (apt-get install libhiredis-dev)";
            println!("cargo::rustc-env=HIREDIS_ABSENT={advice}");
        }
    }
}

/// The version in the lock file, for the table.
fn versions() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=Cargo.lock");
    let lock = fs::read_to_string("Cargo.lock")?;
    for (name, variable) in [
        ("redis", "REDIS_VERSION"),
        ("redis-protocol", "REDIS_PROTOCOL_VERSION"),
        ("rslock", "RSLOCK_VERSION"),
    ] {
        let version = lock
            .split_once(&format!("name = \"{name}\"\nversion = \""))
            .and_then(|(_, rest)| rest.split_once('"'))
            .ok_or_else(|| format!("{name} does not stand in Cargo.lock"))?
            .0;
        println!("cargo::rustc-env={variable}={version}");
    }
    Ok(())
}
