//! What owned values say, attributes aside.

use OwnedValue::{Double, Integer, Null};

use super::*;

#[test]
fn attributes_make_no_difference_to_accessors() {
    let pair = || (OwnedValue::simple("k"), Integer(1));
    let told = |value| OwnedValue::attributed([pair()], OwnedValue::attributed([], value));
    assert_eq!(told(Integer(7)).as_integer(), Some(7));
    assert_eq!(told(Double(0.5)).as_double(), Some(0.5));
    assert_eq!(told(OwnedValue::Boolean(false)).as_boolean(), Some(false));
    assert_eq!(told(OwnedValue::bulk(b"x")).as_bytes(), Some(&b"x"[..]));
    assert_eq!(told(OwnedValue::bulk(b"\xff")).as_str(), None);
    assert_eq!(told(OwnedValue::error("E")).as_error(), Some(&b"E"[..]));
    assert_eq!(told(OwnedValue::error("E")).as_bytes(), None);
    assert!(told(Null).is_null());
    assert!(told(OwnedValue::map([pair()])).as_items().is_none());
    let map = told(OwnedValue::map([
        pair(),
        (told(OwnedValue::bulk(b"l")), Integer(2)),
    ]));
    assert_eq!(map.as_pairs().expect("a map").get(b"l"), Some(&Integer(2)));
    assert_eq!(map.as_pairs().expect("a map").get(b"m"), None);
    let items = told(OwnedValue::set([Null])).as_items().cloned();
    assert_eq!(items.expect("a set").into_vec(), [Null]);
}

/// Only a space or the end of a line ends the first word; a colon is part of it.
#[test]
fn the_code_of_an_error_is_its_first_word_whole() {
    for (text, code) in [
        ("NOSCRIPT No matching script.", "NOSCRIPT"),
        ("ERR", "ERR"),
        ("ERR: no", "ERR:"),
        ("ERR:no", "ERR:no"),
        ("ERR\tno", "ERR\tno"),
        ("ERR\r\nno", "ERR"),
        ("ERR\nno", "ERR"),
        (" ERR", ""),
        ("", ""),
    ] {
        let (text, code) = (text.as_bytes(), Some(code.as_bytes()));
        assert_eq!(Value::Error(text).error_code(), code);
        assert_eq!(Value::BulkError(text).error_code(), code);
        let owned = [OwnedValue::Error, OwnedValue::BulkError];
        for error in owned.map(|kind| kind(text.to_vec().into())) {
            assert_eq!(error.error_code(), code);
            assert_eq!(OwnedValue::attributed([], error).error_code(), code);
        }
    }
    assert_eq!(Value::Bulk(b"ERR no").error_code(), None);
    assert_eq!(OwnedValue::bulk(b"ERR no").error_code(), None);
}
