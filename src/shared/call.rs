//! Wakes the I/O thread while it rests.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

/// A pair of connected sockets: any thread writes to one socket, and only the I/O thread reads from the other.
#[derive(Debug)]
pub(super) struct Call {
    sender: UnixStream,
    /// The socket that the I/O thread reads.
    pub(super) receiver: UnixStream,
}

impl Call {
    pub(super) fn new() -> io::Result<Self> {
        let (sender, receiver) = UnixStream::pair()?;
        sender.set_nonblocking(true)?;
        receiver.set_nonblocking(true)?;
        Ok(Self { sender, receiver })
    }

    /// Wakes the I/O thread.
    pub(super) fn send(&self) {
        // If the socket is full, the write fails. A failed write does no harm, because the I/O thread still has an
        // earlier call to read.
        let _ = (&self.sender).write(&[0]);
    }

    /// Removes all wake-ups that have arrived. The I/O thread calls this function when it wakes.
    pub(super) fn take(&self) {
        // Ignores an error: the read fails if no call has arrived.
        let _ = (&self.receiver).read(&mut [0; 64]);
    }
}
