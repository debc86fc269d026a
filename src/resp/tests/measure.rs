//! A reply that is measured first and read afterwards.

use super::*;

#[test]
fn there_is_no_frame_of_what_was_not_measured() {
    let no_frame = |decoder: &Decoder, bytes: &[u8], reason| {
        let error = decoder.frame(bytes).expect_err("an error");
        assert_eq!((error.at, error.reason), (0, reason));
    };
    let array = b"*2\r\n*1\r\n:1\r\n:2\r\n";
    let mut decoder = Decoder::new(Limits::default());
    no_frame(&decoder, array, Reason::NotMeasured);
    assert_eq!(decoder.measure(b""), Ok(None));
    no_frame(&decoder, array, Reason::NotMeasured);
    assert_eq!(decoder.measure(array), Ok(Some(array.len())));
    for end in 0..array.len() {
        no_frame(&decoder, &array[..end], Reason::Changed);
    }
    assert!(decoder.frame(array).is_ok());

    assert_eq!(decoder.measure(&array[..9]), Ok(None));
    no_frame(&decoder, array, Reason::NotMeasured);
    decoder.reset();
    no_frame(&decoder, array, Reason::NotMeasured);
    assert!(decoder.measure(b"*1\r\nx").is_err());
    no_frame(&decoder, array, Reason::NotMeasured);
    decoder.reset();
    no_frame(&decoder, array, Reason::NotMeasured);
}

/// The need is a payload and the CR LF after it, and three bytes for each further element.
#[test]
fn a_torn_reply_says_how_many_bytes_it_needs() {
    let mut decoder = Decoder::new(Limits::default());
    assert_eq!(decoder.need(), 0);
    for (torn, need) in [
        (&b"$"[..], 2),
        (b"+a long text", 1),
        (b"$1000\r\n", 1002),
        (b"$1000\r\nab", 1000),
        (b"$1000\r\nabcd", 998),
        (b"*3\r\n", 9),
        (b"*3\r\n:1\r\n", 6),
        (b"*3\r\n:1\r\n$10\r\n", 15),
        (b"*3\r\n:1\r\n$10\r\nabc", 12),
        (b"%2\r\n", 12),
        (b"|1\r\n", 9),
        (b"=10\r\n", 12),
    ] {
        let shown = torn.escape_ascii();
        decoder.reset();
        for end in 1..=torn.len() {
            assert_eq!(decoder.measure(&torn[..end]), Ok(None), "{shown}");
        }
        assert_eq!(decoder.need(), need, "{shown} byte by byte");
        decoder.reset();
        assert_eq!(decoder.measure(torn), Ok(None), "{shown}");
        assert_eq!(decoder.need(), need, "{shown}");
        let mut inbox = Inbox::default();
        assert!(inbox.next(&mut &torn[..]).unwrap().is_none());
        assert_eq!(inbox.need(), need, "{shown}");
        inbox.clear();
        assert_eq!(inbox.need(), 0, "{shown}");
    }
}

#[test]
fn nothing_is_needed_between_replies_or_after_an_error() {
    let mut decoder = Decoder::new(Limits::default());
    let mut inbox = Inbox::default();
    for (torn, rest) in [(&b"+"[..], &b"OK\r\n"[..]), (b"*1\r\n*1\r\n", b":1\r\n")] {
        assert_eq!(decoder.measure(torn), Ok(None));
        assert!(inbox.next(&mut { torn }).unwrap().is_none());
        assert!(decoder.need() > 0 && inbox.need() > 0);
        assert!(decoder.measure(&[torn, rest].concat()).unwrap().is_some());
        assert!(inbox.next(&mut { rest }).unwrap().is_some());
        assert_eq!((decoder.need(), inbox.need()), (0, 0));
    }
    assert!(inbox.next(&mut &b":"[..]).unwrap().is_none());
    assert!(inbox.next(&mut &b"x\r\n"[..]).is_err());
    assert_eq!(inbox.need(), 0);
}
