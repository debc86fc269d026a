//! Pseudo-random numbers that are the same in every run.

/// `SplitMix64`: the streams, and which rounds the bootstrap draws, depend on the seed alone.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Returns the sequence that belongs to `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number below `bound`, which is not zero. The numbers are slightly uneven if `bound` is huge.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        // The upper half of the product, so that no division is needed and every bit counts.
        ((u128::from(bits) * bound as u128) >> 64) as usize
    }
}
