//! Values that are nested deeper than any stack: nothing may call itself for each level.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use std::format;
use std::thread;

use OwnedValue::{Integer, Null};

use super::*;
use crate::effort::effort;

/// Not enough for a thousand levels of anything.
const STACK_BYTES: usize = 64 << 10;

/// A way to put a value inside another, and what is then written before and behind it.
struct Shape {
    wrap: fn(OwnedValue) -> OwnedValue,
    resp3: [&'static str; 2],
    resp2: [&'static str; 2],
    text: [&'static str; 2],
}

/// Each is a level of a reply.
const LEVELS: &[Shape] = &[
    Shape {
        wrap: |value| OwnedValue::array([value]),
        resp3: ["*1\r\n", ""],
        resp2: ["*1\r\n", ""],
        text: ["Array([", "])"],
    },
    Shape {
        wrap: |value| OwnedValue::array([Null, value, Integer(1)]),
        resp3: ["*3\r\n_\r\n", ":1\r\n"],
        resp2: ["*3\r\n$-1\r\n", ":1\r\n"],
        text: ["Array([Null, ", ", Integer(1)])"],
    },
    Shape {
        wrap: |value| OwnedValue::set([value, Null]),
        resp3: ["~2\r\n", "_\r\n"],
        resp2: ["*2\r\n", "$-1\r\n"],
        text: ["Set([", ", Null])"],
    },
    Shape {
        wrap: |value| OwnedValue::map([(value, Null)]),
        resp3: ["%1\r\n", "_\r\n"],
        resp2: ["*2\r\n", "$-1\r\n"],
        text: ["Map({", ": Null})"],
    },
    Shape {
        wrap: |value| OwnedValue::map([(Null, Null), (Null, value)]),
        resp3: ["%2\r\n_\r\n_\r\n_\r\n", ""],
        resp2: ["*4\r\n$-1\r\n$-1\r\n$-1\r\n", ""],
        text: ["Map({Null: Null, Null: ", "})"],
    },
];

/// In a reply a push stands only outside, and attributes in a row are one.
const BY_HAND: &[Shape] = &[
    Shape {
        wrap: |value| OwnedValue::push([OwnedValue::simple("k"), value]),
        resp3: [">2\r\n+k\r\n", ""],
        resp2: ["*2\r\n+k\r\n", ""],
        text: ["Push([Simple(b\"k\"), ", "])"],
    },
    Shape {
        wrap: |value| OwnedValue::attributed([], value),
        resp3: ["|0\r\n", ""],
        resp2: ["", ""],
        text: ["Attributed({}, ", ")"],
    },
    Shape {
        wrap: |value| OwnedValue::attributed([(Integer(1), Null)], value),
        resp3: ["|1\r\n:1\r\n_\r\n", ""],
        resp2: ["", ""],
        text: ["Attributed({Integer(1): Null}, ", ")"],
    },
];

/// Attributes that hold the value: in RESP2 it goes with them.
const SAID_ABOUT: &[Shape] = &[
    Shape {
        wrap: |value| OwnedValue::attributed([(value, Null)], Integer(1)),
        resp3: ["|1\r\n", "_\r\n:1\r\n"],
        resp2: ["", ""],
        text: ["Attributed({", ": Null}, Integer(1))"],
    },
    Shape {
        wrap: |value| OwnedValue::attributed([(Null, value)], Integer(1)),
        resp3: ["|1\r\n_\r\n", ":1\r\n"],
        resp2: ["", ""],
        text: ["Attributed({Null: ", "}, Integer(1))"],
    },
];

/// `leaf` inside so many values of these shapes in turn.
fn nest(shapes: &[&Shape], levels: usize, leaf: OwnedValue) -> OwnedValue {
    let turns = shapes.iter().cycle().take(levels);
    turns.fold(leaf, |value, shape| (shape.wrap)(value))
}

/// What is written for such a value.
fn written(
    shapes: &[&Shape],
    levels: usize,
    leaf: &str,
    around: impl Fn(&Shape) -> [&'static str; 2],
) -> String {
    let turns = || (0..levels).map(|level| around(shapes[level % shapes.len()]));
    let before = turns().rev().map(|[before, _]| before);
    let behind = turns().map(|[_, behind]| behind);
    before.chain([leaf]).chain(behind).collect()
}

fn on_a_small_stack(work: impl FnOnce() + Send + 'static) {
    let thread = thread::Builder::new().stack_size(STACK_BYTES).spawn(work);
    thread.expect("a thread").join().expect("no panic");
}

/// Everything that can be done to a value.
fn check(shapes: Vec<&'static Shape>, levels: usize, leaf_in_resp2: &'static str) {
    on_a_small_stack(move || {
        let value = nest(&shapes, levels, Integer(7));
        let mut out = Vec::new();
        encode(&mut out, &value);
        let resp3 = written(&shapes, levels, ":7\r\n", |shape| shape.resp3);
        assert!(out == resp3.into_bytes());
        out.clear();
        encode_resp2(&mut out, &value);
        let resp2 = written(&shapes, levels, leaf_in_resp2, |shape| shape.resp2);
        assert!(out == resp2.into_bytes());
        let text = written(&shapes, levels, "Integer(7)", |shape| shape.text);
        assert!(format!("{value:?}") == text);
        let copy = value.clone();
        assert!(copy == value);
    });
}

#[test]
fn a_value_of_very_many_levels_of_all_kinds() {
    let shapes = LEVELS.iter().chain(BY_HAND).collect();
    check(shapes, effort(100_000, 1_000_000), ":7\r\n");
}

#[test]
fn values_that_differ_in_their_depth_are_not_equal() {
    for shape in LEVELS.iter().chain(BY_HAND).chain(SAID_ABOUT) {
        let value = nest(&[shape], 10_000, Integer(7));
        assert!(value != nest(&[shape], 10_000, Integer(8)));
        assert!(value != nest(&[shape], 9_999, Integer(7)));
    }
}

#[test]
fn each_kind_inside_itself() {
    for shape in LEVELS.iter().chain(BY_HAND) {
        check(vec![shape], 10_000, ":7\r\n");
    }
    for shape in SAID_ABOUT {
        check(vec![shape], 10_000, ":1\r\n");
    }
}

/// A decoder reads as many levels as its limits say, and so do those who copy, print and compare.
#[test]
fn a_reply_of_ten_thousand_levels() {
    const DEPTH: usize = 10_000;
    let limits = Limits {
        depth: DEPTH,
        ..Limits::default()
    };
    on_a_small_stack(move || {
        for shape in LEVELS.iter().chain(SAID_ABOUT) {
            let shapes = [shape];
            let bytes = |levels| written(&shapes, levels, ":7\r\n", |shape| shape.resp3);
            let text = written(&shapes, DEPTH, "Integer(7)", |shape| shape.text);
            let deepest = bytes(DEPTH).into_bytes();
            let mut decoder = Decoder::new(limits);
            let frame = decoder.decode(&deepest).expect("valid").expect("complete");
            assert!(format!("{:?}", frame.element().to_owned()) == text);
            assert!(frame.value == frame.value);
            if frame.attributes().is_none() {
                assert!(format!("{:?}", frame.value) == text);
            }
            let deeper = bytes(DEPTH + 1).into_bytes();
            let error = decoder.decode(&deeper).expect_err("a level more");
            assert_eq!(error.reason, Reason::TooDeep);
        }
    });
}

#[test]
fn the_memory_of_many_levels_is_given_back() {
    let limits = Limits {
        depth: usize::MAX,
        ..Limits::default()
    };
    let deep = ["*1\r\n".repeat(100_000).as_bytes(), b":1\r\n"].concat();
    let mut decoder = Decoder::new(limits);
    assert!(decoder.decode(&deep).expect("valid").is_some());
    assert!(decoder.memory() > 1 << 20, "{}", decoder.memory());
    assert!(decoder.decode(b"*1\r\n*0\r\n").expect("valid").is_some());
    assert!(decoder.memory() < 64 << 10, "{}", decoder.memory());
}
