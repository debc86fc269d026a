//! The counting allocator. This is the only test of its binary: another would allocate at the same time.

use std::hint::black_box;

use shearline_peers::allocations::{counted, keep_counting, live};

#[test]
fn exactly_the_allocations_of_the_closure_are_counted() {
    drop(black_box(vec![1_u8; 100]));
    let work = || {
        let mut grown = black_box(Vec::<u8>::with_capacity(1));
        grown.extend_from_slice(&[0; 50]);
        drop(black_box(Box::new(3_u64)));
        grown.len()
    };
    assert_eq!(counted(work), (50, 3));
    assert_eq!(counted(|| black_box(4)), (4, 0));

    keep_counting();
    let before = live();
    let block = black_box(Vec::<u8>::with_capacity(100));
    assert_eq!(live() - before, 100);
    drop(block);
    assert_eq!(live(), before);
}
