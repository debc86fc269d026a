//! Values as views of a reply: nested ones, attributes.

use std::format;

use super::*;

/// The views read nested aggregates and attributes.
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
}

#[test]
fn attributes_are_passed_over() {
    let reply = b"|1\r\n+ttl\r\n:9\r\n|1\r\n:1\r\n:2\r\n*1\r\n|1\r\n+a\r\n*1\r\n:1\r\n$2\r\nok\r\n";
    let mut decoder = Decoder::new(Limits::default());
    let frame = decoder.decode(reply).unwrap().expect("complete");
    assert_eq!(frame.len, reply.len());
    assert_eq!(shown(&frame), r#"Array([Bulk(b"ok")])"#);
}
