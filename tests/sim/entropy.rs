//! The one source of all choices: a seed, the bytes of a fuzzer, or the tape of a run before.
//!
//! Zero is always the tamest choice: no fault, the shortest delay. So a tape that is cut short or
//! has zeros written over it is a calmer history, and that is how one is made smaller.

/// Where choices come from. What was chosen can be kept as a tape.
#[derive(Debug)]
pub(crate) struct Entropy {
    source: Source,
    tape: Option<Vec<u32>>,
}

#[derive(Debug)]
enum Source {
    /// Steele, Lea and Flood's generator (2014).
    Seed(u64),
    /// Choices made before; when they have run out, every choice is zero.
    Tape { choices: Vec<u32>, next: usize },
}

impl Entropy {
    pub(crate) fn of_seed(seed: u64) -> Self {
        Self {
            source: Source::Seed(seed.wrapping_mul(0xd134_2543_de82_ef95)),
            tape: None,
        }
    }

    pub(crate) fn of_tape(choices: Vec<u32>) -> Self {
        Self {
            source: Source::Tape { choices, next: 0 },
            tape: None,
        }
    }

    /// Two bytes for each choice.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        let choices = bytes.chunks(2).map(|pair| {
            pair.iter()
                .fold(0, |word, byte| word << 8 | u32::from(*byte))
        });
        Self::of_tape(choices.collect())
    }

    /// Keeps what is chosen from now on.
    pub(crate) fn recording(mut self) -> Self {
        self.tape = Some(Vec::new());
        self
    }

    /// What was chosen since the recording began.
    pub(crate) fn into_tape(self) -> Vec<u32> {
        self.tape.unwrap_or_default()
    }

    /// A number below `bound`, which is not zero.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        let choice = match &mut self.source {
            Source::Seed(state) => {
                *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mut word = *state;
                word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                (((word ^ (word >> 31)) >> 32) * u64::from(bound) >> 32) as u32
            }
            Source::Tape { choices, next } => {
                let choice = choices.get(*next).copied().unwrap_or(0);
                *next += 1;
                choice % bound
            }
        };
        if let Some(tape) = &mut self.tape {
            tape.push(choice);
        }
        choice
    }

    /// Whether something happens that does so `rate` times in a million. Nothing is drawn for what
    /// never happens.
    pub(crate) fn chance(&mut self, rate: u32) -> bool {
        rate > 0 && self.below(1_000_000) >= 1_000_000 - rate
    }

    /// One of `options`.
    pub(crate) fn pick<T: Copy>(&mut self, options: &[T]) -> T {
        options[self.below(options.len() as u32) as usize]
    }

    /// A span up to `longest`, of which every order of magnitude is as likely as every other.
    pub(crate) fn span(&mut self, longest: u64) -> u64 {
        let bits = u64::BITS - longest.leading_zeros();
        if bits == 0 {
            return 0;
        }
        let order = self.below(bits);
        let fraction = u128::from(self.below(1 << 16));
        let span = (fraction << (order + 1)) >> 16;
        (span as u64).min(longest)
    }
}
