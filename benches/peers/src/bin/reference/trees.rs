//! The trees of the library, each with a player that was built with it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use shearline_peers::Failure;

/// A tree of the library.
#[derive(Debug)]
pub(crate) struct Tree {
    /// Its name in the tables.
    pub(crate) name: String,
    /// The program that locks with it.
    pub(crate) player: PathBuf,
}

/// Returns the reference tree, this one, and these others, each with its player. A player is only built again if the
/// tree or the player changes.
pub(crate) fn contestants(others: &[PathBuf]) -> Result<Vec<Tree>, Failure> {
    let commit = reference()?;
    let short = commit.get(..8).unwrap_or(&commit);
    let mut named = vec![
        (format!("reference, {short}"), checkout(&commit)?),
        ("this tree".into(), root()),
    ];
    for other in others {
        named.push((format!("`{}`", other.display()), other.clone()));
    }
    let trees = named.into_iter().map(|(name, path)| {
        let player = build(&path.canonicalize()?)?;
        Ok(Tree { name, player })
    });
    trees.collect()
}

/// Returns the commit of the reference tree.
pub(crate) fn reference() -> Result<String, Failure> {
    let commit = fs::read_to_string(root().join("benches/reference/commit"))?;
    Ok(commit.trim().into())
}

/// Returns the commit of this tree, with a `+` if the library differs from it.
pub(crate) fn commit() -> Result<String, Failure> {
    let mut commit = said(git().args(["rev-parse", "--short=12", "HEAD"]))?;
    let library = ["--", "src", "Cargo.toml", "Cargo.lock"];
    if !said(git().args(["status", "--porcelain"]).args(library))?.is_empty() {
        commit.push('+');
    }
    Ok(commit)
}

/// Runs a command to its end, and returns its output.
pub(crate) fn said(command: &mut Command) -> Result<String, Failure> {
    let output = command
        .output()
        .map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{command:?}: {}", complaint.trim_end()).into());
    }
    Ok(String::from_utf8(output.stdout)?.trim_end().into())
}

/// Returns the path of this tree.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn git() -> Command {
    let mut git = Command::new("git");
    git.arg("-C").arg(root());
    git
}

/// Returns the folder of the reference tree and the players, which is in the target folder.
fn store() -> Result<PathBuf, Failure> {
    let program = env::current_exe()?;
    let target = program.ancestors().nth(2).ok_or("no target folder")?;
    Ok(target.join("reference"))
}

/// Returns the tree of this commit, unpacked from the repository if it is not there yet.
fn checkout(commit: &str) -> Result<PathBuf, Failure> {
    let tree = store()?.join(commit);
    if !tree.exists() {
        let (archive, new) = (tree.with_extension("tar"), tree.with_extension("new"));
        fs::create_dir_all(&new)?;
        said(git().args(["archive", commit, "-o"]).arg(&archive))?;
        said(
            Command::new("tar")
                .arg("-xf")
                .arg(&archive)
                .arg("-C")
                .arg(&new),
        )?;
        fs::remove_file(&archive)?;
        // Rename last: a tree that has its name is complete.
        fs::rename(&new, &tree)?;
    }
    Ok(tree)
}

/// Builds the player with this tree of the library, in a copy of its package.
fn build(tree: &Path) -> Result<PathBuf, Failure> {
    const OUR_PATH: &str = r#"path = "../..""#;
    const FILES: [&str; 3] = ["Cargo.toml", "Cargo.lock", "player.rs"];
    let package = root().join("benches/reference");
    let name = tree.display().to_string().replace('/', "+");
    let copy = store()?.join("players").join(name);
    let mut texts = FILES.map(|file| fs::read_to_string(package.join(file)));
    if let Ok(manifest) = &mut texts[0] {
        *manifest = manifest.replace(OUR_PATH, &format!("path = {tree:?}"));
    }
    let [manifest, lock, player] = texts;
    let texts = [manifest?, lock?, player?];
    let whole = texts.concat();
    // Cargo may have changed the lock file of the copy, and rebuilds whatever was written.
    let last = copy.join("last");
    if fs::read_to_string(&last).ok().as_ref() != Some(&whole) {
        fs::create_dir_all(&copy)?;
        for (file, text) in FILES.iter().zip(&texts) {
            fs::write(copy.join(file), text)?;
        }
        fs::write(last, whole)?;
    }
    let target = copy.join("target");
    eprintln!("building the player of {}", tree.display());
    said(
        Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(["build", "--release", "--target-dir"])
            .arg(&target)
            .current_dir(&copy),
    )?;
    Ok(target.join("release/shearline-player"))
}
