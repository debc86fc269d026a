//! Passes the versions of the other libraries, from the lock file, to the tables.

use std::error::Error;
use std::fs;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=Cargo.lock");
    let lock = fs::read_to_string("Cargo.lock")?;
    for (name, variable) in [("redis", "REDIS_VERSION"), ("rslock", "RSLOCK_VERSION")] {
        let version = lock
            .split_once(&format!("name = \"{name}\"\nversion = \""))
            .and_then(|(_, rest)| rest.split_once('"'))
            .ok_or_else(|| format!("{name} does not stand in Cargo.lock"))?
            .0;
        println!("cargo::rustc-env={variable}={version}");
    }
    Ok(())
}
