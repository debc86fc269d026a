//! The counting allocator. One test in its own binary: another would allocate at the same time.

use std::hint::black_box;

use shearline_peers::allocations::{
    counted, forget_highest, keep_counting, kept, totals, uncounted,
};

#[test]
fn exactly_the_allocations_of_the_closure_are_counted() {
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

    keep_counting();
    let (before, _) = (totals(), forget_highest());
    let block = kept_block();
    let after = totals();
    assert_eq!(after.allocations - before.allocations, 2);
    assert_eq!(after.frees - before.frees, 1);
    assert_eq!(after.live - before.live, 100);
    assert_eq!(after.highest - before.live, 100);
    drop(block);
    assert_eq!(totals().live, before.live);
    assert_eq!(totals().highest, after.highest);
    forget_highest();
    assert_eq!(totals().highest, before.live);
}
