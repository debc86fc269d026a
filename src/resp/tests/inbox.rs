//! Replies in pieces.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::effort::effort;

#[test]
fn a_whole_reply_is_not_copied_and_a_torn_one_given_back() {
    let mut inbox = Inbox::default();
    let place = |frame: &Frame<'_>| frame.value.as_bytes().map(<[u8]>::as_ptr);
    let stream = b"$5\r\nhello\r\n$5\r\nwor";
    let mut piece = &stream[..];
    let frame = inbox.next(&mut piece).unwrap().expect("complete");
    assert_eq!(place(&frame), Some(stream[4..].as_ptr()));
    assert!(inbox.next(&mut piece).unwrap().is_none());
    let next = b"ld\r\n+a\r\n";
    let mut piece = &next[..];
    let frame = inbox.next(&mut piece).unwrap().expect("complete");
    assert_eq!(frame.value.as_bytes(), Some(&b"world"[..]));
    assert_eq!(piece, b"+a\r\n");
    let frame = inbox.next(&mut piece).unwrap().expect("complete");
    assert_eq!(place(&frame), Some(next[5..].as_ptr()));

    let large = [&b"$1000000\r\n"[..], &vec![b'x'; 1_000_000], b"\r\n"].concat();
    for piece in large.chunks(1460) {
        let mut piece = piece;
        while !piece.is_empty() {
            let _ = inbox.next(&mut piece).unwrap();
        }
    }
    let memory = inbox.memory();
    assert!((1_000_000..4_000_000).contains(&memory), "{memory}");
    assert!(inbox.next(&mut &b"+a\r\n"[..]).unwrap().is_some());
    assert!(inbox.memory() < 16 << 10, "given back");
}

#[test]
fn clearing_an_inbox_begins_a_new_stream() {
    let mut inbox = Inbox::default();
    assert!(inbox.next(&mut &b"$5\r\nhel"[..]).unwrap().is_none());
    inbox.clear();
    assert!(inbox.next(&mut &b"+OK\r\n"[..]).unwrap().is_some());
    assert!(inbox.next(&mut &b"x"[..]).is_err());
    assert!(inbox.next(&mut &b"+OK\r\n"[..]).is_err());
    inbox.clear();
    assert!(inbox.next(&mut &b"+OK\r\n"[..]).unwrap().is_some());
}

/// Holds for any reply, in any pieces, and however many bytes follow it.
#[test]
fn memory_is_bounded_by_the_longest_reply() {
    let limits = Limits {
        reply_bytes: 64 << 10,
        ..Limits::default()
    };
    let bulk = [&b"$65526\r\n"[..], &vec![b'x'; 65_526], b"\r\n"].concat();
    let line = [&b"+"[..], &vec![b'x'; 65_533], b"\r\n"].concat();
    let small = [&b"*9361\r\n"[..], &b"*1\r\n_\r\n".repeat(9361)].concat();
    let behind = effort(16_000, 100_000);
    for (reply, structure) in [(bulk, 0), (line, 0), (small, 256)] {
        assert!((65_530..=64 << 10).contains(&reply.len()));
        let stream = [&reply[..], &reply, &b"+OK\r\n".repeat(behind)].concat();
        for pieces in [1, 7, 1000, 65_535, 1 << 20] {
            let mut inbox = Inbox::new(limits);
            let mut most = 0;
            let (first, rest) = stream.split_at(1);
            for mut piece in [first].into_iter().chain(rest.chunks(pieces)) {
                let mut is_reply = true;
                while is_reply {
                    is_reply = inbox.next(&mut piece).unwrap().is_some();
                    most = most.max(inbox.memory());
                }
            }
            assert!(most <= limits.reply_bytes + structure, "{most}");
            assert!(inbox.memory() < 16 << 10, "given back");
        }
    }
}

/// A caller that reads until there is no more sometimes passes an empty piece.
#[test]
fn nothing_is_no_beginning_of_a_reply() {
    let mut decoder = Decoder::new(Limits::default());
    let mut inbox = Inbox::default();
    for _ in 0..3 {
        assert!(decoder.decode(b"").unwrap().is_none());
        assert_eq!(decoder.measure(b""), Ok(None));
        assert!(decoder.decode(b"+OK\r\n").unwrap().is_some());
        assert!(inbox.next(&mut &b""[..]).unwrap().is_none());
        assert!(inbox.next(&mut &b":1\r\n"[..]).unwrap().is_some());
    }
    assert_eq!(decoder.looked(), 0, "they were taken directly");
}

#[test]
fn an_error_is_repeated_and_costs_nothing() {
    let mut inbox = Inbox::default();
    assert!(inbox.next(&mut &b":1"[..]).unwrap().is_none());
    let error = inbox.next(&mut &b"x\r\n"[..]).unwrap_err();
    let memory = inbox.memory();
    for mut piece in [&b""[..], b"+OK\r\n", &[b'x'; 100_000], b""] {
        assert_eq!(inbox.next(&mut piece).unwrap_err(), error);
        assert_eq!(inbox.memory(), memory);
    }
}

/// A reset forgets everything that was open: an aggregate, a line that was read in part, an error.
#[test]
fn nothing_of_a_torn_reply_outlives_a_reset() {
    let mut decoder = Decoder::new(Limits::default());
    for torn in [
        &b"*2\r\n*1\r\n"[..],
        b"+a long line without",
        b"$100\r\nabc",
        b"x",
    ] {
        let seen = decoder.decode(torn).map(|frame| frame.is_some());
        assert_ne!(seen, Ok(true));
        if let Err(error) = seen {
            assert_eq!(decoder.decode(b"+OK\r\n").unwrap_err(), error, "it stays");
        }
        decoder.reset();
        for whole in [&b"+a\r\n"[..], b"*1\r\n*1\r\n#t\r\n", b"-E\r\n"] {
            let frame = decoder.decode(whole).unwrap().expect("complete");
            assert_eq!(frame.len, whole.len());
        }
    }
}

/// Returns the replies of `stream` as text, read in pieces of `len` bytes.
fn replies(inbox: &mut Inbox, stream: &[u8], len: usize) -> Result<Vec<String>, DecodeError> {
    let mut replies = Vec::new();
    for mut piece in stream.chunks(len) {
        while let Some(frame) = inbox.next(&mut piece)? {
            replies.push(format!("{:?}", frame.value));
        }
    }
    Ok(replies)
}

/// Returns `text` with at most eight `x` in a row.
fn at_most_eight(text: &str) -> String {
    let mut cut = String::new();
    for letter in text.chars() {
        if letter != 'x' || !cut.ends_with("xxxxxxxx") {
            cut.push(letter);
        }
    }
    cut
}

#[test]
fn a_string_that_is_too_long_is_cut_and_what_follows_is_read() {
    let bulk = |len: usize| [format!("${len}\r\n").as_bytes(), &vec![b'x'; len], b"\r\n"].concat();
    let long = bulk(70_000);
    let streams = [
        [&long[..], b"+OK\r\n"].concat(),
        [b":1\r\n", &bulk(9)[..], b":2\r\n", &bulk(8), &bulk(10)].concat(),
        [
            b"*3\r\n",
            &long[..],
            b":7\r\n",
            &long,
            b"*1\r\n",
            &bulk(9),
            &bulk(1),
        ]
        .concat(),
        [b">2\r\n+a\r\n", &long[..], b"%1\r\n+k\r\n", &bulk(9)].concat(),
        [b"|1\r\n+a\r\n", &long[..], b"+OK\r\n"].concat(),
    ];
    for stream in streams {
        let whole = replies(&mut Inbox::new(Limits::default()), &stream, stream.len()).unwrap();
        let cut: Vec<_> = whole.iter().map(|text| at_most_eight(text)).collect();
        for len in [1, 2, 3, 5, 7, 11, 64, 1000, 4096, stream.len()] {
            let mut inbox = Inbox::new(Limits::default());
            inbox.cut_strings(8);
            let replies = replies(&mut inbox, &stream, len).unwrap();
            assert_eq!(replies, cut, "pieces of {len}");
            assert!(inbox.memory() < 8 << 10);
        }
    }
}

#[test]
fn what_is_no_string_or_wrong_is_not_cut() {
    for stream in [
        "$99999999999999999999\r\n",
        "$999999999\r\n",
        "$100\n+OK\r\n+OK\r\n+OK\r\n",
        "!100\r\n",
        "=100\r\n",
        "$?\r\n",
        "$20\r\nxxxxxxxxxxxxxxxxxxxx\rx", // The end is still read.
    ] {
        for len in [1, 3, 4, 100] {
            let mut inbox = Inbox::new(Limits::default());
            inbox.cut_strings(8);
            replies(&mut inbox, stream.as_bytes(), len).expect_err("refused");
        }
    }
}
