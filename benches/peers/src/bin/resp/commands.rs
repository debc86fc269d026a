//! The commands of a lock, written by each library as its users have them written.
//!
//! Every encoder begins with the key, the token and the ttl as a number, and ends with the bytes of
//! the command in a buffer, which must be the same for all. The buffer is kept if the library
//! allows it. Only our template gets key and token encoded, as the client has them; so the others
//! are not compared with it.

use std::hint::black_box;

use bytes::{Bytes, BytesMut};
use redis::Cmd;
use redis_protocol::resp3::encode::complete::{extend_encode, extend_encode_borrowed};
use redis_protocol::resp3::types::{BorrowedFrame, BytesFrame};
use shearline::resp::{Decimal, Template, Word, argument, command};
use shearline_peers::measure::{Contestant, Failure};

use crate::contest::{Entrant, Family};

/// Commands in one pass.
const COMMANDS: u64 = 1000;

const RELEASE: &str = "4453c08d4b7260dfec522c1d9be6140ee00157cb";
const EXTEND: &str = "20e6e4505b7e6e25b7c6801967c3885864dca680";

// As the client has them. Key and token come encoded, side by side: it encodes them once for each
// attempt, and every command about the lock copies them.
static ACQUIRE_TEMPLATE: Template<2, 32> = Template::new(&[
    Word::Text(b"SET"),
    Word::Encoded(2),
    Word::Text(b"NX"),
    Word::Text(b"PX"),
    Word::Hole,
]);
static RELEASE_TEMPLATE: Template<1, 128> = Template::new(&[
    Word::Text(b"EVALSHA"),
    Word::Text(RELEASE.as_bytes()),
    Word::Text(b"1"),
    Word::Encoded(2),
]);
static EXTEND_TEMPLATE: Template<2, 128> = Template::new(&[
    Word::Text(b"EVALSHA"),
    Word::Text(EXTEND.as_bytes()),
    Word::Text(b"1"),
    Word::Encoded(2),
    Word::Hole,
]);

/// What is written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Command {
    Acquire,
    Release,
    Extend,
}

/// What it is about.
#[derive(Debug)]
pub(crate) struct Lock {
    key: Bytes,
    token: Bytes,
    ttl: u64,
}

impl Lock {
    pub(crate) const EXAMPLE: Self = Self {
        key: Bytes::from_static(b"invoice:42"),
        token: Bytes::from_static(&[0x5a; 20]),
        ttl: 30_000,
    };
}

impl Command {
    pub(crate) const ALL: [Self; 3] = [Self::Acquire, Self::Release, Self::Extend];

    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Acquire => "`SET key token NX PX ttl`",
            Self::Release => "`EVALSHA` to release",
            Self::Extend => "`EVALSHA` to extend",
        }
    }
}

/// Returns all encoders of this command, and their common sum.
pub(crate) fn entrants(what: Command, lock: &Lock) -> Result<(Vec<Entrant<'_>>, u64), Failure> {
    let entrant = |family, name: String, contestant| Entrant {
        family,
        name,
        contestant: Ok(contestant),
    };
    let ours = || {
        entrant(
            Family::Shearline,
            "shearline, `command`".into(),
            arguments(what, lock),
        )
    };
    let template = entrant(
        Family::ShearlineOther,
        "shearline, `Template`".into(),
        template(what, lock),
    );
    let (sum, _) = arguments(what, lock).rehearse()?;
    let redis = |way| format!("redis {}, {way}", env!("REDIS_VERSION"));
    let protocol = |way| format!("redis-protocol {}, {way}", env!("REDIS_PROTOCOL_VERSION"));
    let all = vec![
        ours(),
        ours().again(),
        template,
        entrant(
            Family::Redis,
            redis("`get_packed_command`"),
            packed(what, lock),
        ),
        entrant(
            Family::Redis,
            redis("`Cmd` and buffer kept"),
            written(what, lock),
        ),
        entrant(
            Family::RedisProtocolBytes,
            protocol("`extend_encode`"),
            frames(what, lock),
        ),
        entrant(
            Family::RedisProtocolBytes,
            protocol("`extend_encode_borrowed`"),
            borrowed(what, lock),
        ),
    ];
    Ok((all, sum))
}

/// `encode` replaces the contents of the buffer. The last command of a pass is checked as a whole.
fn repeated<'a, B: Default + AsRef<[u8]> + 'a>(
    lock: &'a Lock,
    mut encode: impl FnMut(&Lock, &mut B) -> Result<(), Failure> + 'a,
) -> Contestant<'a> {
    let mut out = B::default();
    Contestant::new(COMMANDS, move || {
        let mut len = 0;
        for _ in 0..COMMANDS {
            encode(black_box(lock), &mut out)?;
            len += black_box(out.as_ref()).len() as u64;
        }
        let mix = |sum: u64, byte: &u8| sum.wrapping_mul(31).wrapping_add(u64::from(*byte));
        Ok(out.as_ref().iter().fold(len, mix))
    })
}

/// Ours, from a template.
fn template(what: Command, lock: &Lock) -> Contestant<'_> {
    let mut entry = Vec::new();
    argument(&mut entry, &lock.key);
    argument(&mut entry, &lock.token);
    match what {
        Command::Acquire => repeated(lock, move |lock, out: &mut Vec<u8>| {
            out.clear();
            ACQUIRE_TEMPLATE.write(out, [black_box(&entry), Decimal::new(lock.ttl).as_bytes()]);
            Ok(())
        }),
        Command::Release => repeated(lock, move |_, out: &mut Vec<u8>| {
            out.clear();
            RELEASE_TEMPLATE.write(out, [black_box(&entry)]);
            Ok(())
        }),
        Command::Extend => repeated(lock, move |lock, out: &mut Vec<u8>| {
            out.clear();
            EXTEND_TEMPLATE.write(out, [black_box(&entry), Decimal::new(lock.ttl).as_bytes()]);
            Ok(())
        }),
    }
}

/// Ours, from slices.
fn arguments(what: Command, lock: &Lock) -> Contestant<'_> {
    match what {
        Command::Acquire => repeated(lock, |lock, out: &mut Vec<u8>| {
            let Lock { key, token, ttl } = lock;
            out.clear();
            let ttl = Decimal::new(*ttl);
            command(out, &[b"SET", key, token, b"NX", b"PX", ttl.as_bytes()]);
            Ok(())
        }),
        Command::Release => repeated(lock, |lock, out: &mut Vec<u8>| {
            let Lock { key, token, .. } = lock;
            out.clear();
            command(out, &[b"EVALSHA", RELEASE.as_bytes(), b"1", key, token]);
            Ok(())
        }),
        Command::Extend => repeated(lock, |lock, out: &mut Vec<u8>| {
            let Lock { key, token, ttl } = lock;
            out.clear();
            let (script, ttl) = (EXTEND.as_bytes(), Decimal::new(*ttl));
            command(out, &[b"EVALSHA", script, b"1", key, token, ttl.as_bytes()]);
            Ok(())
        }),
    }
}

/// The arguments of a `Cmd` without any.
fn arg(cmd: &mut Cmd, what: Command, lock: &Lock) {
    let (key, token) = (&lock.key[..], &lock.token[..]);
    match what {
        Command::Acquire => {
            cmd.arg("SET")
                .arg(key)
                .arg(token)
                .arg("NX")
                .arg("PX")
                .arg(lock.ttl);
        }
        Command::Release => {
            cmd.arg("EVALSHA").arg(RELEASE).arg(1).arg(key).arg(token);
        }
        Command::Extend => {
            cmd.arg("EVALSHA")
                .arg(EXTEND)
                .arg(1)
                .arg(key)
                .arg(token)
                .arg(lock.ttl);
        }
    }
}

/// As a connection of `redis` does it: a `Cmd` for each command, and a buffer of its own.
fn packed(what: Command, lock: &Lock) -> Contestant<'_> {
    repeated(lock, move |lock, out: &mut Vec<u8>| {
        let mut cmd = Cmd::new();
        arg(&mut cmd, what, lock);
        *out = cmd.get_packed_command();
        Ok(())
    })
}

/// The least that `redis` allows for each command.
fn written(what: Command, lock: &Lock) -> Contestant<'_> {
    let mut cmd = Cmd::new();
    repeated(lock, move |lock, out: &mut Vec<u8>| {
        cmd.clear();
        arg(&mut cmd, what, lock);
        out.clear();
        cmd.write_packed_command(out);
        Ok(())
    })
}

/// As fred does it: a frame of reference-counted slices.
fn frames(what: Command, lock: &Lock) -> Contestant<'_> {
    let text = |data: &Bytes| BytesFrame::BlobString {
        data: data.clone(),
        attributes: None,
    };
    let word = |word: &'static str| BytesFrame::BlobString {
        data: Bytes::from_static(word.as_bytes()),
        attributes: None,
    };
    let number = |number: u64| BytesFrame::Number {
        data: number as i64,
        attributes: None,
    };
    repeated(lock, move |lock, out: &mut BytesMut| {
        let (key, token) = (text(&lock.key), text(&lock.token));
        let data = match what {
            Command::Acquire => {
                vec![
                    word("SET"),
                    key,
                    token,
                    word("NX"),
                    word("PX"),
                    number(lock.ttl),
                ]
            }
            Command::Release => vec![word("EVALSHA"), word(RELEASE), number(1), key, token],
            Command::Extend => {
                let ttl = number(lock.ttl);
                vec![word("EVALSHA"), word(EXTEND), number(1), key, token, ttl]
            }
        };
        let frame = BytesFrame::Array {
            data,
            attributes: None,
        };
        out.clear();
        extend_encode(out, &frame, true)?;
        Ok(())
    })
}

/// A frame of borrowed slices, on the stack.
fn borrowed(what: Command, lock: &Lock) -> Contestant<'_> {
    fn text(data: &[u8]) -> BorrowedFrame<'_> {
        BorrowedFrame::BlobString {
            data,
            attributes: None,
        }
    }
    fn number<'a>(number: u64) -> BorrowedFrame<'a> {
        BorrowedFrame::Number {
            data: number as i64,
            attributes: None,
        }
    }
    fn encode(out: &mut BytesMut, data: &[BorrowedFrame<'_>]) -> Result<(), Failure> {
        let frame = BorrowedFrame::Array {
            data,
            attributes: None,
        };
        out.clear();
        extend_encode_borrowed(out, &frame, true)?;
        Ok(())
    }
    repeated(lock, move |lock, out: &mut BytesMut| {
        let (key, token, ttl) = (text(&lock.key), text(&lock.token), number(lock.ttl));
        match what {
            Command::Acquire => encode(
                out,
                &[text(b"SET"), key, token, text(b"NX"), text(b"PX"), ttl],
            ),
            Command::Release => {
                let script = text(RELEASE.as_bytes());
                encode(out, &[text(b"EVALSHA"), script, number(1), key, token])
            }
            Command::Extend => {
                let script = text(EXTEND.as_bytes());
                encode(out, &[text(b"EVALSHA"), script, number(1), key, token, ttl])
            }
        }
    })
}
