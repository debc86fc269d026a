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
