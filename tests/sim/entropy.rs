//! The one source of all choices: a seed, the bytes of a fuzzer, or the tape of a run before.
//!
//! Zero is always the tamest choice: no fault, the shortest delay, the longest rest. So a tape that
//! is cut short or has zeros written over it is a calmer history, and that is how one is made
//! smaller. When a tape has run out nothing more is begun, and what goes wrong ends.

/// Where choices come from. What was chosen can be kept as a tape.
#[derive(Debug)]
pub(crate) struct Entropy {
    source: Source,
    tape: Option<Vec<u32>>,
}

#[derive(Debug)]
enum Source {
    Seed(Generator),
    /// Choices made before, and who chooses when they have run out. Without anybody every choice
    /// is zero.
    Tape {
        choices: Vec<u32>,
        next: usize,
        then: Option<Generator>,
    },
    /// Two of them for each choice.
    Bytes {
        bytes: Vec<u8>,
        next: usize,
    },
}

/// Steele, Lea and Flood's (2014).
#[derive(Debug)]
struct Generator(u64);

impl Generator {
    fn of_seed(seed: u64) -> Self {
        Self(seed.wrapping_mul(0xd134_2543_de82_ef95))
    }

    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((word ^ (word >> 31)) >> 32) * u64::from(bound) >> 32) as u32
    }
}

impl Entropy {
    fn of(source: Source) -> Self {
        Self { source, tape: None }
    }

    pub(crate) fn of_seed(seed: u64) -> Self {
        Self::of(Source::Seed(Generator::of_seed(seed)))
    }

    pub(crate) fn of_tape(choices: Vec<u32>) -> Self {
        Self::of(Source::Tape {
            choices,
            next: 0,
            then: None,
        })
    }

    /// The choices of a tape, and then those of a seed.
    pub(crate) fn of_tape_then_seed(choices: Vec<u32>, seed: u64) -> Self {
        Self::of(Source::Tape {
            choices,
            next: 0,
            then: Some(Generator::of_seed(seed)),
        })
    }

    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        Self::of(Source::Bytes {
            bytes: bytes.to_vec(),
            next: 0,
        })
    }

    /// Whether every further choice is zero.
    pub(crate) fn is_spent(&self) -> bool {
        match &self.source {
            Source::Seed(_) => false,
            Source::Tape {
                choices,
                next,
                then,
            } => then.is_none() && choices.len() <= *next,
            Source::Bytes { bytes, next } => bytes.len() <= *next,
        }
    }

    /// Keeps what is chosen from now on.
    pub(crate) fn recording(mut self) -> Self {
        self.tape = Some(Vec::new());
        self
    }

    /// What was chosen since the recording began. One more choice stands behind it unless all of
    /// them were made: a tape is not spent before the history that it was taken of.
    pub(crate) fn into_tape(self) -> Vec<u32> {
        let spent = self.is_spent();
        let mut tape = self.tape.unwrap_or_default();
        if !spent {
            tape.push(0);
        }
        tape
    }

    /// A number below `bound`, which is not zero.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        let choice = match &mut self.source {
            Source::Seed(generator) => generator.below(bound),
            Source::Tape {
                choices,
                next,
                then,
            } => match (choices.get(*next), then) {
                (Some(choice), _) => {
                    *next += 1;
                    (*choice).min(bound - 1)
                }
                (None, Some(generator)) => generator.below(bound),
                (None, None) => return 0,
            },
            Source::Bytes { bytes, next } => {
                if bytes.len() <= *next {
                    return 0;
                }
                let byte = |at| bytes.get(at).copied().unwrap_or(0);
                let word = u16::from_be_bytes([byte(*next), byte(*next + 1)]);
                *next += 2;
                ((u64::from(word) * u64::from(bound)) >> 16) as u32
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
        let fraction = self.below(1 << 16);
        span_of(order, fraction).min(longest)
    }

    /// The same, where the longest is the tamest.
    pub(crate) fn rest(&mut self, longest: u64) -> u64 {
        let bits = u64::BITS - longest.leading_zeros();
        if bits == 0 {
            return 0;
        }
        let order = bits - 1 - self.below(bits);
        let fraction = (1 << 16) - 1 - self.below(1 << 16);
        span_of(order, fraction).min(longest)
    }

    /// A number between `-most` and `most`.
    pub(crate) fn around_zero(&mut self, most: u32) -> i64 {
        let drawn = i64::from(self.below(2 * most + 1));
        if drawn % 2 == 0 {
            -drawn / 2
        } else {
            (drawn + 1) / 2
        }
    }
}

fn span_of(order: u32, fraction: u32) -> u64 {
    ((u128::from(fraction) << (order + 1)) >> 16) as u64
}

#[test]
fn a_seed_chooses_the_same_on_every_machine() {
    let mut entropy = Entropy::of_seed(1).recording();
    let drawn = [10, 1_000, 1 << 20, u32::MAX].map(|bound| entropy.below(bound));
    assert_eq!(drawn, [9, 748, 868_943, 3_500_020_270]);
    assert_eq!(entropy.into_tape()[..4], drawn);
}

#[test]
fn a_tape_repeats_what_was_chosen() {
    let mut entropy = Entropy::of_seed(2).recording();
    let choose = |entropy: &mut Entropy| {
        let spans = [entropy.span(1 << 40), entropy.rest(1_000)];
        (spans, entropy.around_zero(9), entropy.chance(500_000))
    };
    let drawn = choose(&mut entropy);
    let mut again = Entropy::of_tape(entropy.into_tape());
    assert_eq!(choose(&mut again), drawn);
    assert!(!again.is_spent());
    assert!(!again.chance(999_999));
    assert!(again.is_spent());
}

#[test]
fn nothing_is_tamer_than_zero() {
    let mut spent = Entropy::of_tape(Vec::new());
    assert!(spent.is_spent());
    assert_eq!(spent.span(1_000_000), 0);
    assert_eq!(spent.rest(1_000_000), 1_000_000);
    assert_eq!(spent.around_zero(5), 0);
    assert!(!spent.chance(999_999));
    assert_eq!(spent.pick(&["calm", "wild"]), "calm");
}
