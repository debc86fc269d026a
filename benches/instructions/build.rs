//! Passes the version of the compiler to the program.

use std::env;
use std::error::Error;
use std::process::Command;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let rustc = env::var("RUSTC")?;
    let version = Command::new(rustc).arg("--version").output()?.stdout;
    let version = String::from_utf8(version)?;
    let target = env::var("TARGET")?;
    println!("cargo::rustc-env=MADE_BY={} {target}", version.trim());
    Ok(())
}
