//! The name and the token of a lock, as nodes store them: the key (the resource) and its value (the
//! token).
//!
//! Both stand side by side in one buffer, in wire form, as arguments of a command: encoded once
//! when the token is made, and copied in one piece into every command about the lock. The buffer
//! comes from the engine's pool and goes back there, so that steady locking allocates nothing. Beside it
//! stands the lock delay, which goes wherever they go.

use alloc::vec::Vec;
use core::fmt;

use crate::delay::Delay;
use crate::limits::RESOURCE_BYTES_MAX;
use crate::resource::Token;
use crate::resp::{argument, argument_len};

/// See the [module](self).
#[derive(Clone, Eq, PartialEq)]
pub(crate) struct Entry {
    arguments: Vec<u8>,
    /// How many bytes of the buffer are the key in wire form.
    key_len: u16,
    /// How many bytes come before the text of the key, and before that of the token.
    key_header_len: u8,
    token_header_len: u8,
    /// For how much longer than the lock is valid nodes keep them.
    delay: Delay,
}

impl Entry {
    /// Writes `resource` and `token` into `buffer`, whose contents are lost.
    ///
    /// The caller has checked the resource. If it is too long for its length field it is cut, never
    /// read beyond its end.
    pub(crate) fn new(mut buffer: Vec<u8>, resource: &[u8], token: &[u8]) -> Self {
        let resource = &resource[..resource.len().min(RESOURCE_BYTES_MAX)];
        buffer.clear();
        buffer.reserve(argument_len(resource.len()) + argument_len(token.len()));
        argument(&mut buffer, resource);
        let key_len = buffer.len();
        argument(&mut buffer, token);
        Self {
            key_len: key_len as u16,
            key_header_len: header_len(key_len, resource),
            token_header_len: header_len(buffer.len() - key_len, token),
            delay: Delay::default(),
            arguments: buffer,
        }
    }

    /// Returns it with this lock delay.
    #[inline]
    pub(crate) fn delayed(mut self, delay: Delay) -> Self {
        self.delay = delay;
        self
    }

    /// Returns its lock delay; none if it was not set.
    #[inline]
    pub(crate) fn delay(&self) -> Delay {
        self.delay
    }

    /// Copies both into another buffer, whose contents are lost.
    pub(crate) fn copy_into(&self, mut buffer: Vec<u8>) -> Self {
        buffer.clear();
        buffer.extend_from_slice(&self.arguments);
        Self {
            arguments: buffer,
            ..*self
        }
    }

    pub(crate) fn resource(&self) -> &[u8] {
        text(self.key_argument(), self.key_header_len)
    }

    pub(crate) fn token(&self) -> Token<'_> {
        Token::new(text(self.token_argument(), self.token_header_len))
    }

    /// Returns key and token as two arguments in wire form, side by side.
    pub(crate) fn arguments(&self) -> &[u8] {
        &self.arguments
    }

    /// Returns the key as an argument in wire form.
    pub(crate) fn key_argument(&self) -> &[u8] {
        &self.arguments[..usize::from(self.key_len)]
    }

    /// Returns the token as an argument in wire form.
    pub(crate) fn token_argument(&self) -> &[u8] {
        &self.arguments[usize::from(self.key_len)..]
    }

    /// Takes the buffer, for the pool. The rest has to be dropped, and must not be read.
    pub(crate) fn take_buffer(&mut self) -> Vec<u8> {
        self.key_len = 0;
        core::mem::take(&mut self.arguments)
    }

    /// Returns the buffer, for the pool.
    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.arguments
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Entry({} {:?})",
            self.resource().escape_ascii(),
            self.token()
        )
    }
}

/// Returns how many bytes follow the text of an argument.
const LINE_END_BYTES: usize = 2;

const _: () = assert!(argument_len(RESOURCE_BYTES_MAX) <= u16::MAX as usize);

/// Returns how many bytes come before `text` in an argument of `len` bytes.
fn header_len(len: usize, text: &[u8]) -> u8 {
    (len - LINE_END_BYTES - text.len()) as u8
}

/// Returns the text of an argument that has so many bytes before it.
fn text(argument: &[u8], header_len: u8) -> &[u8] {
    &argument[usize::from(header_len)..argument.len() - LINE_END_BYTES]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::TOKEN_BYTES_MAX;
    use alloc::vec;

    /// Lengths on both sides of every change in the length of a header.
    #[test]
    fn the_name_and_the_token_are_read_back_and_stored_in_wire_form() {
        for resource_len in [0, 1, 9, 10, 99, 100, 999, 1000, RESOURCE_BYTES_MAX] {
            for token_len in [0, 1, 9, 10, 20, TOKEN_BYTES_MAX, 100] {
                let (resource, token) = (vec![b'\n'; resource_len], vec![b'$'; token_len]);
                let entry = Entry::new(vec![1, 2, 3], &resource, &token);
                let (mut key, mut value) = (Vec::new(), Vec::new());
                argument(&mut key, &resource);
                argument(&mut value, &token);
                for entry in [&entry, &entry.copy_into(vec![4])] {
                    assert_eq!(entry.resource(), resource);
                    assert_eq!(entry.token().as_bytes(), token);
                    assert_eq!(entry.key_argument(), key);
                    assert_eq!(entry.token_argument(), value);
                    assert_eq!(entry.arguments(), [&key[..], &value].concat());
                }
            }
        }
    }

    #[test]
    fn a_name_that_is_too_long_is_cut() {
        let long = [b'k'; RESOURCE_BYTES_MAX + 1];
        let entry = Entry::new(Vec::new(), &long, b"token");
        assert_eq!(entry.resource(), &long[1..]);
        assert_eq!(entry.token().as_bytes(), b"token");
    }
}
