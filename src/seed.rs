//! Gets random bytes from the operating system. The only module that does this.

use std::io;

/// Returns random bytes, at most 256.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn fresh<const N: usize>() -> io::Result<[u8; N]> {
    use rustix::io::retry_on_intr;
    use rustix::rand::{GetRandomFlags, getrandom};
    let mut seed = [0; N];
    // The kernel splits only longer requests.
    retry_on_intr(|| getrandom(&mut seed, GetRandomFlags::empty()))?;
    Ok(seed)
}

/// Returns random bytes, at most 256.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn fresh<const N: usize>() -> io::Result<[u8; N]> {
    use std::io::Read;
    let mut seed = [0; N];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut seed)?;
    Ok(seed)
}
