//! Runs a program under `callgrind`, and counts only chosen parts of it.
//!
//! [`counted`] runs the code that is counted; [`end_of_sum`] closes one sum and opens the next. `callgrind` knows both
//! by their names, so the program is the same with and without it.

use std::ffi::OsString;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};

/// The reason why nothing was counted.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The C library selects its copy functions by the features of the processor. This setting makes the selection the same
/// on all machines.
const TUNABLES: &str = "glibc.cpu.hwcaps=-AVX512VL,-AVX512F,-AVX2,-AVX,-ERMS,-FSRM,\
                        -AVX_Fast_Unaligned_Load,-Fast_Unaligned_Copy,-SSSE3,-SSE4_2";

/// Runs `work` and counts its instructions.
// Never inlined, and with this name: `callgrind` turns its counter on and off by it.
#[inline(never)]
pub fn counted<T>(work: impl FnOnce() -> T) -> T {
    black_box(work())
}

/// Ends a sum: later instructions belong to the next one.
#[inline(never)]
pub fn end_of_sum() {
    black_box(());
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Run {
    /// The instructions of each sum, in the order in which the program closed them.
    pub sums: Vec<u64>,
    /// The output of the program.
    pub output: String,
}

/// Runs `program` under the counter, whose file is made in `place`.
///
/// # Errors
///
/// If there is no `valgrind`, or the program failed; its output has been shown then.
pub fn run(program: &Path, arguments: &[&str], place: &Path) -> Result<Run, Failure> {
    fs::create_dir_all(place)?;
    let file = place.join("callgrind.out");
    let mut option = OsString::from("--callgrind-out-file=");
    option.push(&file);
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet", "--combine-dumps=yes"])
        .args(["--toggle-collect=*callgrind::counted*"])
        .args(["--dump-after=*callgrind::end_of_sum*"])
        .arg(option)
        .arg(program)
        .args(arguments)
        .env("GLIBC_TUNABLES", TUNABLES)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("valgrind cannot be run ({error}): apt-get install valgrind"))?;
    if !output.status.success() {
        return Err(format!("{} under valgrind: {}", program.display(), output.status).into());
    }
    let sums = fs::read_to_string(&file)?
        .lines()
        .filter_map(|line| line.strip_prefix("totals: "))
        .map(|sum| sum.trim().parse())
        .collect::<Result<Vec<_>, _>>()?;
    fs::remove_file(&file)?;
    let output = String::from_utf8(output.stdout)?;
    Ok(Run { sums, output })
}
