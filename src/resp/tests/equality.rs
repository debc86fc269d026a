//! When two values are equal.

use super::*;

/// Values that all differ, each only a little from its neighbours.
const VALUES: [&str; 21] = [
    "_\r\n",
    ":1\r\n",
    "#t\r\n",
    ",0\r\n",
    ",-0\r\n",
    ",nan\r\n",
    "+1\r\n",
    "-1\r\n",
    "$1\r\n1\r\n",
    "$2\r\n12\r\n",
    "*0\r\n",
    "*1\r\n:1\r\n",
    "*1\r\n*1\r\n:1\r\n",
    "*2\r\n:1\r\n:2\r\n",
    "*2\r\n*1\r\n:1\r\n:2\r\n",
    "*1\r\n*2\r\n:1\r\n:2\r\n",
    "~2\r\n:1\r\n:2\r\n",
    ">2\r\n+1\r\n:2\r\n",
    "%1\r\n:1\r\n:2\r\n",
    "%2\r\n:1\r\n:2\r\n:1\r\n:2\r\n",
    "|1\r\n:1\r\n:2\r\n:2\r\n",
];

fn are_equal(one: &str, other: &str) -> bool {
    let [mut first, mut second] = [(); 2].map(|()| Decoder::new(Limits::DEFAULT));
    let one = first.decode(one.as_bytes()).unwrap().expect("complete");
    let other = second.decode(other.as_bytes()).unwrap().expect("complete");
    one.value == other.value
}

#[test]
fn a_value_is_equal_to_itself_and_to_no_other() {
    for one in VALUES {
        for other in VALUES {
            assert_eq!(are_equal(one, other), one == other, "{one:?} and {other:?}");
            // A push is never inside another value.
            if !one.starts_with('>') && !other.starts_with('>') {
                let [nested, others] = [one, other].map(|value| format!("*2\r\n{value}_\r\n"));
                assert_eq!(
                    are_equal(&nested, &others),
                    one == other,
                    "{nested:?} and {others:?}"
                );
            }
        }
    }
}

#[test]
fn attributes_and_the_bits_of_a_not_a_number_make_no_difference() {
    assert!(are_equal("|1\r\n:1\r\n:2\r\n:2\r\n", ":2\r\n"));
    assert!(are_equal(",nan\r\n", ",-nan\r\n"));
    assert_eq!(Value::Double(f64::NAN), Value::Double(-f64::NAN));
}
