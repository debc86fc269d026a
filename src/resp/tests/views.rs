//! Values as views of a reply: nested ones, attributes.

use std::format;

use super::*;

/// Nested aggregates and attributes, read by the views.
#[test]
fn elements_are_reached_in_order_and_stepped_over() {
    let reply = b"*5\r\n*2\r\n:1\r\n~1\r\n:2\r\n*0\r\n|1\r\n+ttl\r\n%1\r\n+a\r\n*1\r\n:9\r\n\
        %2\r\n+k\r\n*1\r\n:3\r\n$1\r\nl\r\n|0\r\n:4\r\n*-1\r\n+end\r\n";
    let mut decoder = Decoder::new(Limits::default());
    let frame = decoder.decode(reply).unwrap().expect("complete");
    assert_eq!(frame.len, reply.len());
    assert_eq!(
        format!("{:?}", frame.value),
        "Array([Array([Integer(1), Set([Integer(2)])]), Array([]), \
         Map({Simple(b\"k\"): Array([Integer(3)]), Bulk(b\"l\"): Integer(4)}), Null, \
         Simple(b\"end\")])"
    );
    let items = frame.value.as_items().expect("an array");
    assert_eq!((items.len(), items.iter().len()), (5, 5));
    let map = items.iter().nth(2).expect("a map");
    let pairs = map.as_pairs().expect("a map");
    assert_eq!(
        pairs.get(b"l").and_then(|value| value.as_integer()),
        Some(4)
    );
    assert!(pairs.get(b"m").is_none());
    assert!(matches!(pairs.iter().nth(1), Some((_, Value::Integer(4)))));
    assert_eq!(
        format!("{:?}", frame.to_owned()),
        "Array([Array([Integer(1), Set([Integer(2)])]), Array([]), \
         Attributed({Simple(b\"ttl\"): Map({Simple(b\"a\"): Array([Integer(9)])})}, \
         Map({Simple(b\"k\"): Array([Integer(3)]), Bulk(b\"l\"): Attributed({}, Integer(4))})), \
         Null, Simple(b\"end\")])"
    );
}

#[test]
fn a_frame_is_kept_with_its_attributes() {
    let buffer = b"|1\r\n+ttl\r\n:9\r\n*1\r\n|1\r\n+a\r\n:1\r\n$2\r\nok\r\n";
    let mut decoder = Decoder::new(Limits::default());
    let frame = decoder.decode(buffer).unwrap().expect("complete");
    let bare = OwnedValue::array([OwnedValue::bulk(b"ok")]);
    let pair = |key: &'static str, number| (OwnedValue::simple(key), OwnedValue::Integer(number));
    let inner = OwnedValue::attributed([pair("a", 1)], OwnedValue::bulk(b"ok"));
    let whole = OwnedValue::attributed([pair("ttl", 9)], OwnedValue::array([inner]));
    assert_eq!(super::bare(frame.value), bare);
    assert_eq!(frame.to_owned(), whole);
}

#[test]
fn attributes_in_a_row_are_kept_as_one() {
    let buffer = b"|1\r\n:1\r\n:2\r\n|1\r\n:3\r\n:4\r\n+OK\r\n";
    let mut decoder = Decoder::new(Limits::default());
    let frame = decoder.decode(buffer).unwrap().expect("complete");
    assert_eq!(
        format!("{:?}", frame.to_owned()),
        "Attributed({Integer(1): Integer(2), Integer(3): Integer(4)}, Simple(b\"OK\"))"
    );
}
