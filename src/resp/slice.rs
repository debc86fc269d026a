//! Values and commands written to a buffer of a fixed size, or not at all.
//!
//! Not here: buffers that grow, for which writing cannot fail (`encode`).

use super::encode::{command, command_len, encode, encode_resp2, encoded_len, encoded_len_resp2};
use super::error::NoRoom;
use super::owned::OwnedValue;

/// Writes a value as [`encode`] does to the front of `out`. Returns how many bytes it took.
///
/// The value is walked twice: first for its length, then to write it.
///
/// # Errors
///
/// [`NoRoom`] if `out` is too small. Then nothing was written to it.
///
/// ```
/// use shearline::resp::{OwnedValue, encode_to_slice};
///
/// let mut out = [0; 8];
/// assert_eq!(encode_to_slice(&mut out, &OwnedValue::simple("PONG")), Ok(7));
/// assert_eq!(&out[..7], b"+PONG\r\n");
/// let error = encode_to_slice(&mut out, &OwnedValue::bulk(b"longer")).unwrap_err();
/// assert_eq!(error.needed, 12);
/// ```
pub fn encode_to_slice(out: &mut [u8], value: &OwnedValue) -> Result<usize, NoRoom> {
    written(out, encoded_len(value), |mut out| encode(&mut out, value))
}

/// Writes a value as [`encode_resp2`] does to the front of `out`. Returns how many bytes it took.
///
/// # Errors
///
/// [`NoRoom`] if `out` is too small. Then nothing was written to it.
pub fn encode_resp2_to_slice(out: &mut [u8], value: &OwnedValue) -> Result<usize, NoRoom> {
    written(out, encoded_len_resp2(value), |mut out| {
        encode_resp2(&mut out, value)
    })
}

/// Writes a command as [`command`] does to the front of `out`. Returns how many bytes it took.
///
/// # Errors
///
/// [`NoRoom`] if `out` is too small. Then nothing was written to it.
///
/// ```
/// use shearline::resp::command_to_slice;
///
/// let mut out = [0; 64];
/// let len = command_to_slice(&mut out, &[b"GET", b"invoice:42"])?;
/// assert_eq!(&out[..len], b"*2\r\n$3\r\nGET\r\n$10\r\ninvoice:42\r\n");
/// # Ok::<(), shearline::resp::NoRoom>(())
/// ```
pub fn command_to_slice(out: &mut [u8], arguments: &[&[u8]]) -> Result<usize, NoRoom> {
    written(out, command_len(arguments), |mut out| {
        command(&mut out, arguments)
    })
}

fn written(out: &mut [u8], needed: usize, write: impl FnOnce(&mut [u8])) -> Result<usize, NoRoom> {
    let out = out.get_mut(..needed).ok_or(NoRoom { needed })?;
    write(out);
    Ok(needed)
}
