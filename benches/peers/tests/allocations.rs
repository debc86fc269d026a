//! The counting allocator. One test alone in its binary: another would allocate beside it.

use std::hint::black_box;

use shearline_peers::allocations::{counted, kept, uncounted};

#[test]
fn exactly_the_allocations_in_between_are_counted() {
    drop(black_box(vec![1_u8; 100]));
    let work = || {
        let mut grown = black_box(Vec::<u8>::with_capacity(1));
        grown.extend_from_slice(&[0; 50]);
        uncounted(|| drop(black_box(vec![2_u8; 100])));
        drop(black_box(Box::new(3_u64)));
        grown.len()
    };
    assert_eq!(counted(work), (50, 3));
    assert_eq!(counted(|| black_box(4)), (4, 0));
    let kept_block = || {
        drop(black_box(vec![1_u8; 70]));
        black_box(Vec::<u8>::with_capacity(100))
    };
    assert_eq!(kept(kept_block).1, 100);
}
