//! When two values are equal.

use OwnedValue::{Double, Integer, Null};

use super::*;

/// All different from each other, and each from its neighbours by little.
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
}
