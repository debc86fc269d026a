//! The socketpair between two processes of one run. A message may carry a descriptor.
//!
//! A child process gets its socket as standard input, because it cannot inherit any other descriptor without unsafe
//! code. So a message carries the descriptor of the command's standard input.
//!
//! # Guarantees
//!
//! * The channel preserves the boundaries and the order of messages (`SOCK_SEQPACKET`).
//! * The channel does not close before the other process has ended. Both sockets are close-on-exec, so the command
//!   inherits neither of them.
//! * Sending never waits for the other process. If the channel is full, sending fails.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};

use rustix::cmsg_space;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use shearline::Instant;

/// The messages between the supervisor and the watchdog, and between the watchdog and the trampoline.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Message {
    /// All processes must be dead by this time. The first message of this kind carries the standard input of the
    /// command, and starts the command.
    Until(Instant),
    /// Pass this signal on to the command, or to the processes that it left behind.
    Signal(i32),
    /// The lock is at risk, so ask every process to end.
    Risk,
    /// The command runs from now on, unless [`NotStarted`](Self::NotStarted) follows.
    Started,
    /// The command could not run, because of this system error (`errno`).
    NotStarted(i32),
    /// The command ended with this status. Processes that the command left behind may still be running.
    Exited(ExitStatus),
}

impl Message {
    const BYTES: usize = 9;

    fn to_bytes(self) -> [u8; Self::BYTES] {
        let number = |value: i32| u64::from(value.cast_unsigned());
        let (kind, value) = match self {
            Self::Until(until) => (0, until.as_nanos()),
            Self::Signal(signal) => (1, number(signal)),
            Self::Risk => (2, 0),
            Self::Started => (3, 0),
            Self::NotStarted(error) => (4, number(error)),
            Self::Exited(status) => (5, number(status.into_raw())),
        };
        let mut bytes = [kind; Self::BYTES];
        bytes[1..].copy_from_slice(&value.to_le_bytes());
        bytes
    }

    fn from_bytes([kind, value @ ..]: [u8; Self::BYTES]) -> Option<Self> {
        let value = u64::from_le_bytes(value);
        let number = || u32::try_from(value).ok().map(u32::cast_signed);
        Some(match kind {
            0 => Self::Until(Instant::from_nanos(value)),
            1 => Self::Signal(number()?),
            2 => Self::Risk,
            3 => Self::Started,
            4 => Self::NotStarted(number()?),
            5 => Self::Exited(ExitStatus::from_raw(number()?)),
            _ => return None,
        })
    }
}

/// One socket of the socketpair.
#[derive(Debug)]
pub(super) struct Channel(OwnedFd);

impl Channel {
    /// Returns both sockets. The caller must pass the second socket to the other process as its standard input.
    pub(super) fn pair() -> io::Result<(Self, Stdio)> {
        let (near, far) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        Ok((Self(near), far.into()))
    }

    /// Returns the socket that is the standard input of this process.
    pub(super) fn from_stdin() -> io::Result<Self> {
        Ok(Self(io::stdin().as_fd().try_clone_to_owned()?))
    }

    /// Sends a message.
    pub(super) fn send(&self, message: Message) -> io::Result<()> {
        self.send_buffer(message, &mut SendAncillaryBuffer::default())
    }

    /// Sends a message with a descriptor. Succeeds even if the other process has ended. In that case, the next receive
    /// returns [`Received::Closed`].
    pub(super) fn send_with(&self, message: Message, fd: BorrowedFd<'_>) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds = [fd];
        assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
        match self.send_buffer(message, &mut control) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            sent => sent,
        }
    }

    fn send_buffer(
        &self,
        message: Message,
        control: &mut SendAncillaryBuffer<'_, '_, '_>,
    ) -> io::Result<()> {
        let bytes = message.to_bytes();
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        sendmsg(&self.0, &[IoSlice::new(&bytes)], control, flags)?;
        Ok(())
    }

    /// Returns the next message, if one has arrived.
    pub(super) fn try_receive(&self) -> io::Result<Received> {
        self.receive_with(RecvFlags::DONTWAIT)
    }

    /// Waits for the next message.
    pub(super) fn receive(&self) -> io::Result<Received> {
        self.receive_with(RecvFlags::empty())
    }

    fn receive_with(&self, flags: RecvFlags) -> io::Result<Received> {
        let mut bytes = [0; Message::BYTES];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let mut parts = [IoSliceMut::new(&mut bytes)];
            let flags = flags | RecvFlags::CMSG_CLOEXEC;
            match recvmsg(&self.0, &mut parts, &mut control, flags) {
                // After `CONNRESET`, tries again. The other process has ended without reading all messages, but its own
                // messages can still be read.
                Err(Errno::CONNRESET | Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(Received::Nothing),
                result => break result?,
            }
        };
        if received.bytes == 0 {
            return Ok(Received::Closed);
        }
        let message = Message::from_bytes(bytes).filter(|_| received.bytes == bytes.len());
        let message = message.ok_or(io::ErrorKind::InvalidData)?;
        let fd = control.drain().find_map(|part| match part {
            RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
            _ => None,
        });
        Ok(Received::Message(message, fd))
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The result of receiving a message.
#[derive(Debug)]
pub(super) enum Received {
    /// No message has arrived yet.
    Nothing,
    /// A message, and the descriptor that came with it.
    Message(Message, Option<OwnedFd>),
    /// The other process has ended, and all of its messages have been read.
    Closed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_travel_unchanged() {
        for message in [
            Message::Until(Instant::from_nanos(u64::MAX)),
            Message::Signal(15),
            Message::Risk,
            Message::Started,
            Message::NotStarted(2),
            Message::Exited(ExitStatus::from_raw(0x0300)),
        ] {
            assert_eq!(Message::from_bytes(message.to_bytes()), Some(message));
        }
        assert_eq!(Message::from_bytes([6; Message::BYTES]), None);
    }
}
