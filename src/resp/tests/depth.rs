//! Replies that are nested deeper than any stack: nothing may call itself for each level.

use alloc::string::String;
use alloc::vec::Vec;
use std::format;
use std::thread;

use super::*;
use crate::effort::effort;

/// Not enough for a thousand levels of anything.
const STACK_BYTES: usize = 64 << 10;

/// A level of a reply: what is sent, and what is printed, before and behind the value inside it.
struct Shape {
    sent: [&'static str; 2],
    text: [&'static str; 2],
}

const LEVELS: &[Shape] = &[
    Shape {
        sent: ["*1\r\n", ""],
        text: ["Array([", "])"],
    },
    Shape {
        sent: ["*3\r\n_\r\n", ":1\r\n"],
        text: ["Array([Null, ", ", Integer(1)])"],
    },
    Shape {
        sent: ["~2\r\n", "_\r\n"],
        text: ["Set([", ", Null])"],
    },
    Shape {
        sent: ["%1\r\n", "_\r\n"],
        text: ["Map({", ": Null})"],
    },
    Shape {
        sent: ["%2\r\n_\r\n_\r\n_\r\n", ""],
        text: ["Map({Null: Null, Null: ", "})"],
    },
];

/// Attributes that hold the value.
const SAID_ABOUT: &[Shape] = &[
    Shape {
        sent: ["|1\r\n", "_\r\n:1\r\n"],
        text: ["Attributed({", ": Null}, Integer(1))"],
    },
    Shape {
        sent: ["|1\r\n_\r\n", ":1\r\n"],
        text: ["Attributed({Null: ", "}, Integer(1))"],
    },
];

/// What is written for `leaf` inside so many levels of these shapes in turn.
fn written(
    shapes: &[Shape],
    levels: usize,
    leaf: &str,
    around: impl Fn(&Shape) -> [&'static str; 2],
) -> String {
    let turns = || (0..levels).map(|level| around(&shapes[level % shapes.len()]));
    let before = turns().rev().map(|[before, _]| before);
    let behind = turns().map(|[_, behind]| behind);
    before.chain([leaf]).chain(behind).collect()
}

fn sent(shapes: &[Shape], levels: usize, leaf: &str) -> Vec<u8> {
    written(shapes, levels, leaf, |shape| shape.sent).into_bytes()
}

fn printed(shapes: &[Shape], levels: usize) -> String {
    written(shapes, levels, "Integer(7)", |shape| shape.text)
}

fn on_a_stack(bytes: usize, work: impl FnOnce() + Send + 'static) {
    let thread = thread::Builder::new().stack_size(bytes).spawn(work);
    thread.expect("a thread").join().expect("no panic");
}

const fn within(depth: usize) -> Limits {
    Limits {
        depth,
        ..Limits::DEFAULT
    }
}

/// Reads a reply, prints it, and compares it with another that says the same.
fn check(shapes: &[Shape], levels: usize) {
    let bytes = sent(shapes, levels, ":7\r\n");
    let mut decoders = [(); 2].map(|()| Decoder::new(within(levels)));
    let [one, other] = &mut decoders;
    let one = one.decode(&bytes).expect("valid").expect("complete").value;
    let other = other.decode(&bytes).expect("valid").expect("complete");
    assert!(one == other.value);
    assert!(format!("{one:?}") == printed(shapes, levels));
}

#[test]
fn a_reply_of_very_many_levels_of_all_kinds() {
    on_a_stack(STACK_BYTES, || check(LEVELS, effort(100_000, 1_000_000)));
}

#[test]
fn each_kind_inside_itself() {
    on_a_stack(STACK_BYTES, || {
        LEVELS.chunks(1).for_each(|shape| check(shape, 10_000));
    });
}

#[test]
fn replies_that_differ_in_their_depth_are_not_equal() {
    on_a_stack(STACK_BYTES, || {
        for shape in LEVELS.chunks(1) {
            let all = [(10_000, ":7\r\n"), (10_000, ":8\r\n"), (9_999, ":7\r\n")];
            let bytes = all.map(|(levels, leaf)| sent(shape, levels, leaf));
            let mut decoders = [(); 3].map(|()| Decoder::new(within(10_000)));
            let mut frames = decoders.iter_mut().zip(&bytes);
            let [one, leaf, level] = [(); 3].map(|()| {
                let (decoder, bytes) = frames.next().expect("three");
                decoder
                    .decode(bytes)
                    .expect("valid")
                    .expect("complete")
                    .value
            });
            assert!(one != leaf && one != level && leaf != level);
        }
    });
}

/// A decoder reads as many levels as its limits say, attributes among them.
#[test]
fn a_reply_of_ten_thousand_levels() {
    const DEPTH: usize = 10_000;
    let shapes = || LEVELS.chunks(1).chain(SAID_ABOUT.chunks(1));
    on_a_stack(STACK_BYTES, move || {
        for shape in shapes() {
            let (deepest, deeper) = (
                sent(shape, DEPTH, ":7\r\n"),
                sent(shape, DEPTH + 1, ":7\r\n"),
            );
            let mut decoder = Decoder::new(within(DEPTH));
            let frame = decoder.decode(&deepest).expect("valid").expect("complete");
            assert!(frame.value == frame.value);
            let error = decoder.decode(&deeper).expect_err("a level more");
            assert_eq!(error.reason, Reason::TooDeep);
        }
    });
    // A copy, which the library does not make, takes a stack.
    on_a_stack(128 << 20, move || {
        for shape in shapes() {
            let deepest = sent(shape, DEPTH, ":7\r\n");
            let mut decoder = Decoder::new(within(DEPTH));
            let frame = decoder.decode(&deepest).expect("valid").expect("complete");
            assert!(format!("{:?}", frame.to_owned()) == printed(shape, DEPTH));
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
