//! The streams of replies that every decoder reads, and their contents.

use bytes::Bytes;
use shearline_peers::random::Random;

/// Bytes in one stream. Without optimisation, where nothing is measured, a few are enough.
const STREAM_BYTES: usize = if cfg!(debug_assertions) {
    1 << 14
} else {
    1 << 20
};

/// How much a socket gives at once when the network cuts the stream.
pub(crate) const PIECE_BYTES: usize = 1460;

/// A stream of one kind of reply.
#[derive(Debug)]
pub(crate) struct Stream {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// Its name in the table.
    pub(crate) title: &'static str,
    pub(crate) bytes: Bytes,
    pub(crate) replies: u64,
    /// The weight of all replies, which every decoder must find: of a string or an error its
    /// length, of an integer its value, of null one, of anything else the sum of its elements.
    pub(crate) sum: u64,
}

/// A reply and its weight.
type Reply = (Vec<u8>, u64);

impl Stream {
    /// Whether these are replies to lock commands, which the floor can read.
    pub(crate) fn is_lock(&self) -> bool {
        self.name.starts_with("lock")
    }

    /// One kind after the other: a branch predictor soon knows what comes next.
    fn in_turn(name: &'static str, title: &'static str, kinds: &[Reply]) -> Self {
        let mut turn = (0..kinds.len()).cycle();
        Self::new(name, title, kinds, || turn.next().unwrap_or_default())
    }

    /// At random, so that it does not.
    fn at_random(name: &'static str, title: &'static str, kinds: &[Reply]) -> Self {
        let mut random = Random::new(42);
        Self::new(name, title, kinds, || random.below(kinds.len()))
    }

    fn new(
        name: &'static str,
        title: &'static str,
        kinds: &[Reply],
        mut next: impl FnMut() -> usize,
    ) -> Self {
        let mut bytes = Vec::new();
        let (mut replies, mut sum) = (0, 0);
        loop {
            let (reply, weight) = &kinds[next()];
            // A large reply may be alone.
            if replies > 0 && bytes.len() + reply.len() > STREAM_BYTES {
                break;
            }
            bytes.extend_from_slice(reply);
            replies += 1;
            sum += weight;
        }
        Self {
            name,
            title,
            bytes: bytes.into(),
            replies,
            sum,
        }
    }
}

/// All of them.
pub(crate) fn streams() -> Vec<Stream> {
    let small = bulk(20);
    let array = aggregate(b"*5\r\n", &vec![small.clone(); 5]);
    let error = b"NOSCRIPT No matching script. Please use EVAL.";
    let error = ([b"-", &error[..], b"\r\n"].concat(), error.len() as u64);
    let [granted, null_2, deleted, null_3] = lock_replies();
    let two = [granted.clone(), null_2.clone(), deleted.clone()];
    let three = [granted.clone(), null_3.clone(), deleted.clone()];
    let both = [granted, null_2, deleted, null_3];
    let (turn, random) = (Stream::in_turn, Stream::at_random);
    let one = |name, title, kind| turn(name, title, &[kind]);
    vec![
        turn("lock-2", "`+OK` `$-1` `:1` in turn", &two),
        random("lock-2-random", "`+OK` `$-1` `:1` at random", &two),
        turn("lock-3", "`+OK` `_` `:1` in turn", &three),
        random("lock-3-random", "`+OK` `_` `:1` at random", &three),
        turn("lock-both", "`+OK` `$-1` `:1` `_` in turn", &both),
        random("lock-both-random", "`+OK` `$-1` `:1` `_` at random", &both),
        one("bulk-20", "bulk of 20 bytes", small),
        one("array-5", "array of five bulks of 20 bytes", array),
        one("bulk-300", "bulk of 300 bytes", bulk(300)),
        one("bulk-64k", "bulk of 64 KiB", bulk(64 << 10)),
        one("deep-map", "16 maps inside each other", deep_map()),
        one("error", "error line of 45 bytes", error),
        one("queued", "`+QUEUED`", (b"+QUEUED\r\n".to_vec(), 6)),
        one("integer", "`:12345`", (b":12345\r\n".to_vec(), 12_345)),
        one("bulk-5000", "bulk of 5,000 bytes", bulk(5_000)),
        one("message", "`message` array with 60 bytes", message(60)),
        one(
            "message-300",
            "`message` array with 300 bytes",
            message(300),
        ),
    ]
}

/// What a server says to a lock command: granted; null as RESP2 spells it; deleted; null as RESP3
/// spells it.
fn lock_replies() -> [Reply; 4] {
    [
        (b"+OK\r\n".to_vec(), 2),
        (b"$-1\r\n".to_vec(), 1),
        (b":1\r\n".to_vec(), 1),
        (b"_\r\n".to_vec(), 1),
    ]
}

fn bulk(len: usize) -> Reply {
    let text: Vec<u8> = (b'0'..=b'z').cycle().take(len).collect();
    let header = format!("${len}\r\n");
    ([header.as_bytes(), &text, b"\r\n"].concat(), len as u64)
}

fn aggregate(header: &[u8], elements: &[Reply]) -> Reply {
    let mut bytes = header.to_vec();
    for (element, _) in elements {
        bytes.extend_from_slice(element);
    }
    (bytes, elements.iter().map(|(_, weight)| weight).sum())
}

/// What a subscriber is sent: a channel, and a text of so many bytes.
fn message(len: usize) -> Reply {
    let kind = (b"$7\r\nmessage\r\n".to_vec(), 7);
    aggregate(b"*3\r\n", &[kind, bulk(12), bulk(len)])
}

/// Sixteen maps inside each other, each with a text beside the next.
fn deep_map() -> Reply {
    let mut value = (b":1\r\n".to_vec(), 1);
    for _ in 0..16 {
        let text = [bulk(4), bulk(9)];
        let next = [bulk(5), value];
        value = aggregate(b"%2\r\n", &[text, next].concat());
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_fill_their_size_and_hold_the_stated_replies() {
        for Stream { bytes, replies, .. } in streams() {
            let (len, mean) = (bytes.len(), bytes.len() / replies as usize);
            assert!(len <= STREAM_BYTES || replies == 1, "{len}");
            assert!(len + 2 * mean > STREAM_BYTES, "{len}");
        }
        let find = |name| streams().into_iter().find(|stream| stream.name == name);
        let bulks = find("bulk-20").unwrap();
        assert_eq!(bulks.replies, (STREAM_BYTES / 27) as u64);
        assert_eq!(bulks.sum, bulks.replies * 20);
        let maps = find("deep-map").unwrap();
        assert_eq!(maps.sum, maps.replies * (16 * (4 + 9 + 5) + 1));
        let locks = find("lock-both").unwrap();
        assert_eq!(locks.bytes[..18], *b"+OK\r\n$-1\r\n:1\r\n_\r\n+");
    }
}
