//! When two values are equal.

use alloc::vec::Vec;

use OwnedValue::{Double, Integer, Null};

use super::*;

/// Values that all differ, each only a little from its neighbours.
fn values() -> [OwnedValue; 22] {
    let one = || OwnedValue::array([Integer(1)]);
    let one_and_two = || OwnedValue::array([Integer(1), Integer(2)]);
    let pair = || (Integer(1), Integer(2));
    [
        Null,
        Integer(1),
        OwnedValue::Boolean(true),
        Double(0.0),
        Double(-0.0),
        Double(f64::NAN),
        OwnedValue::simple("1"),
        OwnedValue::error("1"),
        OwnedValue::bulk(b"1"),
        OwnedValue::bulk(b"12"),
        OwnedValue::array([]),
        one(),
        OwnedValue::array([one()]),
        one_and_two(),
        OwnedValue::array([one(), Integer(2)]),
        OwnedValue::array([one_and_two()]),
        OwnedValue::set([Integer(1), Integer(2)]),
        OwnedValue::push([Integer(1), Integer(2)]),
        OwnedValue::map([pair()]),
        OwnedValue::map([pair(), pair()]),
        OwnedValue::attributed([], Integer(2)),
        OwnedValue::attributed([pair()], Integer(2)),
    ]
}

#[test]
fn a_value_is_equal_to_itself_and_to_no_other() {
    for (place, one) in values().iter().enumerate() {
        for (other_place, other) in values().iter().enumerate() {
            assert_eq!(one == other, place == other_place, "{one:?} and {other:?}");
            let (one, other) = ([one.clone(), Null], [other.clone(), Null]);
            let both = (OwnedValue::array(one), OwnedValue::array(other));
            assert_eq!(both.0 == both.1, place == other_place, "{both:?}");
        }
    }
}

#[test]
fn a_not_a_number_is_one_whatever_its_bits() {
    assert_eq!(Double(f64::NAN), Double(-f64::NAN));
    assert_eq!(Value::Double(f64::NAN), Value::Double(-f64::NAN));
}

/// Values of replies are equal exactly if the owned values with the same content are equal.
#[test]
fn replies_are_equal_by_the_same_rules() {
    for one in values() {
        for other in values() {
            let nested = |value: &OwnedValue| {
                let mut bytes = Vec::new();
                // A push is never inside another value.
                if let OwnedValue::Push(_) = value {
                    encode(&mut bytes, &OwnedValue::push([OwnedValue::simple("k")]));
                } else {
                    encode(&mut bytes, &OwnedValue::array([value.clone(), Null]));
                }
                bytes
            };
            let (one_bytes, other_bytes) = (nested(&one), nested(&other));
            let (mut one, mut other) =
                (Decoder::new(Limits::DEFAULT), Decoder::new(Limits::DEFAULT));
            let one = one.decode(&one_bytes).unwrap().expect("complete").value;
            let other = other.decode(&other_bytes).unwrap().expect("complete").value;
            assert_eq!(
                one == other,
                OwnedValue::from(one) == OwnedValue::from(other),
                "{one:?} and {other:?}"
            );
        }
    }
}
