//! Replies in pieces.

use alloc::vec;
use alloc::vec::Vec;

use super::*;

#[test]
fn a_whole_reply_is_not_copied_and_a_torn_one_given_back() {
    let mut inbox = Inbox::new(Limits::default());
    let stream = b"$5\r\nhello\r\n$5\r\nwor";
    let mut piece = &stream[..];
    let frame = inbox.next(&mut piece).unwrap().expect("complete");
    assert_eq!(
        frame.value.as_bytes().map(<[u8]>::as_ptr),
        Some(stream[4..].as_ptr())
    );
    assert!(inbox.next(&mut piece).unwrap().is_none());
    let next = b"ld\r\n+a\r\n";
    let mut piece = &next[..];
    let frame = inbox.next(&mut piece).unwrap().expect("complete");
    assert_eq!(frame.value.as_bytes(), Some(&b"world"[..]));
    assert_eq!(piece, b"+a\r\n");
    let frame = inbox.next(&mut piece).unwrap().expect("complete");
    assert_eq!(
        frame.value.as_bytes().map(<[u8]>::as_ptr),
        Some(next[5..].as_ptr())
    );

    let large = [&b"$1000000\r\n"[..], &vec![b'x'; 1_000_000], b"\r\n"].concat();
    for piece in large.chunks(1460) {
        let mut piece = piece;
        while !piece.is_empty() {
            let _ = inbox.next(&mut piece).unwrap();
        }
    }
    assert!(
        (1_000_000..4_000_000).contains(&inbox.memory()),
        "{}",
        inbox.memory()
    );
    assert!(inbox.next(&mut &b"+a\r\n"[..]).unwrap().is_some());
    assert!(inbox.memory() < 16 << 10, "given back");
}

#[test]
fn clearing_an_inbox_begins_a_new_stream() {
    let mut inbox = Inbox::new(Limits::default());
    assert!(inbox.next(&mut &b"$5\r\nhel"[..]).unwrap().is_none());
    inbox.clear();
    assert!(inbox.next(&mut &b"+OK\r\n"[..]).unwrap().is_some());
    assert!(inbox.next(&mut &b"x"[..]).is_err());
    assert!(inbox.next(&mut &b"+OK\r\n"[..]).is_err());
    inbox.clear();
    assert!(inbox.next(&mut &b"+OK\r\n"[..]).unwrap().is_some());
}

/// Whatever is sent, in whatever pieces, and however much lies behind it.
#[test]
fn memory_is_bounded_by_the_longest_reply() {
    let limits = Limits {
        reply_bytes: 64 << 10,
        ..Limits::default()
    };
    let bulk = [&b"$65526\r\n"[..], &vec![b'x'; 65_526], b"\r\n"].concat();
    let line = [&b"+"[..], &vec![b'x'; 65_533], b"\r\n"].concat();
    let small = [&b"*9361\r\n"[..], &b"*1\r\n_\r\n".repeat(9361)].concat();
    for (reply, structure) in [(bulk, 0), (line, 0), (small, (64 << 10) * 5 / 2)] {
        assert!(
            (65_530..=64 << 10).contains(&reply.len()),
            "{}",
            reply.len()
        );
        let stream = [&reply[..], &reply, &b"+OK\r\n".repeat(100_000)].concat();
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

#[test]
fn a_frame_is_as_long_as_it_was_sent_however_it_was_cut() {
    let stream = b"|1\r\n+ttl\r\n:9\r\n+OK\r\n$5\r\nhello\r\n";
    for cut in 0..=stream.len() {
        let mut inbox = Inbox::new(Limits::default());
        let mut lengths = Vec::new();
        let (before, behind) = stream.split_at(cut);
        for mut piece in [before, behind] {
            while let Some(frame) = inbox.next(&mut piece).unwrap() {
                lengths.push(frame.len);
            }
        }
        assert_eq!(lengths, [19, 11], "cut at {cut}");
    }
}
