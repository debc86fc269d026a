//! Counting: a program runs under `callgrind`, and only chosen parts of it are counted.
//!
//! [`counted`] runs what is counted; [`end_of_sum`] closes one sum and opens the next. `callgrind`
//! knows both by their names, so the program is the same with and without it.

use std::ffi::OsString;
use std::fs;
use std::hint::black_box;
use std::num::ParseIntError;
use std::path::Path;
use std::process::{Command, Stdio};

/// Why nothing was counted.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The C library chooses how it copies by the features of the processor. Here it chooses the same
/// everywhere.
const TUNABLES: &str = "glibc.cpu.hwcaps=-AVX512VL,-AVX512F,-AVX2,-AVX,-ERMS,-FSRM,\
                        -AVX_Fast_Unaligned_Load,-Fast_Unaligned_Copy,-SSSE3,-SSE4_2";

/// Runs `work` and counts it.
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

/// The counts from one end of a sum to the next.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Sum {
    /// Instructions.
    pub instructions: u64,
    /// Reads and writes that were not in the first cache.
    pub missed_first: u64,
    /// Those that were in no cache.
    pub missed_last: u64,
}

/// The simulated caches: 32 KiB and 1 MiB, like the first two of many processors. The third is
/// shared with other programs.
const CACHES: [&str; 4] = [
    "--cache-sim=yes",
    "--I1=32768,8,64",
    "--D1=32768,8,64",
    "--LL=1048576,16,64",
];

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Run {
    /// In the order in which the program closed them: instructions, and with a simulated cache its
    /// misses.
    pub sums: Vec<Sum>,
    /// The output of the program.
    pub output: String,
}

/// Runs `program` under the counter, whose file is made in `place`; `with_caches` simulates these
/// too.
///
/// # Errors
///
/// If there is no `valgrind`, or the program failed; then its output has been shown.
pub fn run(
    program: &Path,
    arguments: &[&str],
    place: &Path,
    with_caches: bool,
) -> Result<Run, Failure> {
    fs::create_dir_all(place)?;
    let file = place.join("callgrind.out");
    let mut option = OsString::from("--callgrind-out-file=");
    option.push(&file);
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet", "--combine-dumps=yes"])
        .args(["--toggle-collect=*callgrind::counted*"])
        .args(["--dump-after=*callgrind::end_of_sum*"])
        .args(with_caches.then_some(CACHES).into_iter().flatten())
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
        .map(Sum::parse)
        .collect::<Result<Vec<_>, _>>()?;
    fs::remove_file(&file)?;
    let output = String::from_utf8(output.stdout)?;
    Ok(Run { sums, output })
}

impl Sum {
    /// Ir, and with caches Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw. Zeros at the end are left out.
    fn parse(line: &str) -> Result<Self, ParseIntError> {
        let numbers = line.split_whitespace().map(str::parse);
        let numbers = numbers.collect::<Result<Vec<u64>, _>>()?;
        let event = |index: usize| numbers.get(index).copied().unwrap_or_default();
        Ok(Self {
            instructions: event(0),
            missed_first: event(4) + event(5),
            missed_last: event(7) + event(8),
        })
    }
}
