//! The same choices in every run.

/// xorshift64*, whose cost is negligible compared with what is counted.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// Returns the generator at its beginning.
    pub(crate) const fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    /// Returns a number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d);
        ((u128::from(number) * u128::from(bound)) >> 64) as u64
    }
}
