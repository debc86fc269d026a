//! A baseline for when the stored one does not apply: the library of an earlier commit, counted by
//! the present program in the same run.
//!
//! The earlier commit is where this branch left `main`, or on `main` itself the parent of the
//! checked out commit.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::baseline::Costs;
use crate::callgrind::Failure;

/// The costs of an ancestor.
#[derive(Clone, Debug)]
pub struct Ancestor {
    /// Which commit.
    pub commit: String,
    /// The costs of its paths.
    pub costs: Costs,
}

/// Counts the costs of the paths in an ancestor of the repository at `root`. Everything is built in
/// `place`, which is emptied first.
///
/// # Errors
///
/// Why that failed: there is no history, or the present program does not compile with the earlier
/// library.
pub fn count(root: &Path, place: &Path) -> Result<Ancestor, Failure> {
    let commit = commit(root)?;
    if place.exists() {
        fs::remove_dir_all(place)?;
    }
    let tree = place.join("tree");
    fs::create_dir_all(&tree)?;
    let archive = place.join("tree.tar");
    said(
        git(root)
            .arg("archive")
            .arg("--output")
            .arg(&archive)
            .arg(&commit),
    )?;
    said(
        Command::new("tar")
            .arg("-xf")
            .arg(&archive)
            .arg("-C")
            .arg(&tree),
    )?;
    let package = put_program(root, &tree)?;
    let costs = said(
        Command::new(env!("CARGO"))
            .args(["run", "--release", "--quiet", "--", "counts"])
            .current_dir(&package)
            .env("CARGO_TARGET_DIR", place.join("target")),
    )?;
    let costs = Costs::parse(&costs)?;
    Ok(Ancestor { commit, costs })
}

/// The commit to compare with.
fn commit(root: &Path) -> Result<String, Failure> {
    let head = said(git(root).args(["rev-parse", "HEAD"]))?;
    for main in ["origin/main", "main"] {
        if let Ok(base) = said(git(root).args(["merge-base", "HEAD", main]))
            && base != head
        {
            return Ok(base);
        }
    }
    said(git(root).args(["rev-parse", "--verify", "--quiet", "HEAD^"]))
}

/// Puts the present program beside the earlier library.
fn put_program(root: &Path, tree: &Path) -> Result<PathBuf, Failure> {
    const PACKAGE: &str = "benches/instructions";
    let package = tree.join(PACKAGE);
    if package.exists() {
        fs::remove_dir_all(&package)?;
    }
    fs::create_dir_all(&package)?;
    for part in ["Cargo.toml", "Cargo.lock", "build.rs", ".cargo", "src"] {
        let from = root.join(PACKAGE).join(part);
        said(Command::new("cp").arg("-R").arg(from).arg(&package))?;
    }
    Ok(package)
}

fn git(root: &Path) -> Command {
    let mut git = Command::new("git");
    git.arg("-C").arg(root);
    git
}

/// Returns the output of a command, without the end of its last line.
fn said(command: &mut Command) -> Result<String, Failure> {
    let output = command.output()?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{command:?}: {} {}", output.status, error.trim()).into());
    }
    Ok(String::from_utf8(output.stdout)?.trim_end().into())
}
