//! hiredis, if it was there when this was built: `hiredis.c` does the work.
//!
//! It is fed 16 KiB at a time, as much as it reads from a socket itself: fed a whole stream at
//! once it moves what is left of it again and again.

use super::Form;
use crate::contest::{Entrant, Family};
use crate::stream::Stream;

#[cfg(hiredis)]
pub(super) fn entrant(stream: &Stream, form: Form) -> Entrant<'_> {
    use shearline_peers::measure::Contestant;
    let mut piece = usize::MAX;
    if form == Form::Torn {
        piece = crate::stream::PIECE_BYTES;
    }
    let contestant = Contestant::new(stream.replies, move || {
        let bytes = std::hint::black_box(&stream.bytes[..]);
        Ok(ffi::decode(bytes, piece, form == Form::Torn)?)
    });
    Entrant {
        family: Family::Hiredis,
        name: format!("hiredis {}", ffi::version()),
        contestant: Ok(contestant),
    }
}

#[cfg(not(hiredis))]
pub(super) fn entrant(_: &Stream, _: Form) -> Entrant<'_> {
    Entrant {
        family: Family::Hiredis,
        name: "hiredis".into(),
        contestant: Err(env!("HIREDIS_ABSENT").into()),
    }
}

#[cfg(hiredis)]
mod ffi {
    #![expect(unsafe_code, reason = "C is called")]

    use std::ffi::{CStr, c_char, c_int, c_longlong};

    unsafe extern "C" {
        fn shearline_peers_hiredis(
            bytes: *const c_char,
            len: usize,
            piece: usize,
            received: c_int,
            sum: *mut c_longlong,
            why: *mut c_char,
            why_len: usize,
        ) -> c_int;
        safe fn shearline_peers_hiredis_version() -> c_int;
    }

    /// The weight of all replies in `bytes`, or why they cannot be read.
    pub(super) fn decode(bytes: &[u8], piece: usize, received: bool) -> Result<u64, String> {
        let mut sum = 0;
        let mut why = [0_u8; 128];
        // SAFETY: the pointers are to memory of the lengths beside them, which nobody else writes
        // during the call; C reads `bytes`, writes `sum` and `why`, and keeps none of them.
        let status = unsafe {
            shearline_peers_hiredis(
                bytes.as_ptr().cast(),
                bytes.len(),
                piece,
                received.into(),
                &raw mut sum,
                why.as_mut_ptr().cast(),
                why.len(),
            )
        };
        if status == 0 {
            return Ok(sum as u64);
        }
        let why = CStr::from_bytes_until_nul(&why).unwrap_or_default();
        Err(why.to_string_lossy().into_owned())
    }

    pub(super) fn version() -> String {
        let version = shearline_peers_hiredis_version();
        let (major, minor, patch) = (version / 10_000, version / 100 % 100, version % 100);
        format!("{major}.{minor}.{patch}")
    }
}
