//! The only source of choices: a seed, the bytes of a fuzzer, or the tape of an earlier run.
//!
//! Zero is always the calmest choice: no fault, the shortest delay, the longest pause. So a tape that is cut, or partly
//! overwritten with zeros, is a calmer history. Minimising a history uses this property. Each chooser has its own
//! strand of the tape, so that removing choices from one strand does not shift another strand. A chooser whose strand
//! has ended begins nothing more.

use crate::clock::Time;

/// The source of choices. It can record them as a tape.
#[derive(Debug)]
pub(crate) struct Entropy {
    source: Source,
    recorded: Option<Recorded>,
    /// The current chooser, and the time.
    strand: usize,
    now: Time,
}

/// All choices of a history, by strand.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Tape(pub(crate) Vec<Vec<u32>>);

/// A tape, and when each of its choices was made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorded {
    pub(crate) tape: Tape,
    pub(crate) times: Vec<Vec<Time>>,
}

/// The kind of world is chosen first.
pub(crate) const PLAN: usize = 0;

/// Faults, and the behaviour of the network.
pub(crate) const FATE: usize = 1;

/// The strand of a client or a stranger.
pub(crate) const fn peer_strand(peer: usize) -> usize {
    2 + 2 * peer
}

pub(crate) const fn server_strand(server: usize) -> usize {
    3 + 2 * server
}

#[derive(Debug)]
enum Source {
    Seed(Generator),
    /// Earlier choices, how many of each strand were repeated so far, and the source of later choices. Without a source
    /// every later choice is zero.
    Tape {
        tape: Tape,
        next: Vec<usize>,
        then: Option<Generator>,
    },
    /// The bytes of a fuzzer: two for each choice, whichever chooser makes it.
    Bytes {
        bytes: Vec<u8>,
        next: usize,
    },
}

/// The generator of Steele, Lea and Flood (2014).
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
        ((((word ^ (word >> 31)) >> 32) * u64::from(bound)) >> 32) as u32
    }
}

impl Tape {
    /// Returns how many choices the tape holds, how large they are, and how high the numbers of their choosers are.
    pub(crate) fn size(&self) -> (usize, u64, usize) {
        let all = || self.0.iter().flatten();
        let strands = self.0.iter().enumerate();
        (
            all().count(),
            all().copied().map(u64::from).sum(),
            strands
                .map(|(strand, choices)| strand * choices.len())
                .sum(),
        )
    }

    fn get(&self, strand: usize, at: usize) -> Option<u32> {
        self.0.get(strand)?.get(at).copied()
    }
}

impl Recorded {
    fn push(&mut self, strand: usize, choice: u32, now: Time) {
        if self.tape.0.len() <= strand {
            self.tape.0.resize(strand + 1, Vec::new());
            self.times.resize(strand + 1, Vec::new());
        }
        self.tape.0[strand].push(choice);
        self.times[strand].push(now);
    }
}

impl Entropy {
    fn of(source: Source) -> Self {
        Self {
            source,
            recorded: None,
            strand: PLAN,
            now: 0,
        }
    }

    pub(crate) fn of_seed(seed: u64) -> Self {
        Self::of(Source::Seed(Generator::of_seed(seed)))
    }

    /// Makes the choices of a tape, and then those of a seed if there is one.
    pub(crate) fn of_tape(tape: Tape, then: Option<u64>) -> Self {
        Self::of(Source::Tape {
            next: vec![0; tape.0.len()],
            tape,
            then: then.map(Generator::of_seed),
        })
    }

    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        Self::of(Source::Bytes {
            bytes: bytes.to_vec(),
            next: 0,
        })
    }

    /// Draws the next choices from another strand, from `now` on.
    pub(crate) fn turn_to(&mut self, strand: usize, now: Time) {
        self.strand = strand;
        self.now = now;
    }

    /// Returns `true` if every further choice of this strand is zero.
    pub(crate) fn is_spent(&self) -> bool {
        self.is_strand_spent(self.strand)
    }

    /// Returns `true` if every further choice of all strands is zero.
    pub(crate) fn is_all_spent(&self) -> bool {
        match &self.source {
            Source::Seed(_) => false,
            Source::Tape { tape, then, .. } => {
                let mut strands = 0..tape.0.len();
                then.is_none() && strands.all(|strand| self.is_strand_spent(strand))
            }

            Source::Bytes { .. } => self.is_spent(),
        }
    }

    fn is_strand_spent(&self, strand: usize) -> bool {
        match &self.source {
            Source::Seed(_) => false,
            Source::Tape { tape, next, then } => {
                let at = next.get(strand).copied().unwrap_or(0);
                then.is_none() && tape.get(strand, at).is_none()
            }
            Source::Bytes { bytes, next } => bytes.len() <= *next,
        }
    }

    /// Records the choices from now on.
    pub(crate) fn recording(mut self) -> Self {
        self.recorded = Some(Recorded::default());
        self
    }

    /// Returns the choices since the recording began. Each strand that was not spent has one more
    /// choice at its end: so it is not spent before the end of the history.
    pub(crate) fn into_recorded(mut self) -> Recorded {
        let mut recorded = self.recorded.take().unwrap_or_default();
        for strand in 0..recorded.tape.0.len() {
            if !recorded.tape.0[strand].is_empty() && !self.is_strand_spent(strand) {
                recorded.push(strand, 0, self.now);
            }
        }
        recorded
    }

    /// Returns a number below `bound`, which is not zero.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        let Some(choice) = self.choose(bound) else {
            return 0;
        };
        if let Some(recorded) = &mut self.recorded {
            recorded.push(self.strand, choice, self.now);
        }
        choice
    }

    fn choose(&mut self, bound: u32) -> Option<u32> {
        match &mut self.source {
            Source::Seed(generator) => Some(generator.below(bound)),
            Source::Tape { tape, next, then } => {
                let next = next.get_mut(self.strand);
                let told = next.and_then(|next| {
                    let choice = tape.get(self.strand, *next)?;
                    *next += 1;
                    Some(choice.min(bound - 1))
                });
                told.or_else(|| Some(then.as_mut()?.below(bound)))
            }
            Source::Bytes { bytes, next } => {
                let high = *bytes.get(*next)?;
                let low = bytes.get(*next + 1).copied().unwrap_or(0);
                *next += 2;
                let word = u16::from_be_bytes([high, low]);
                Some(((u64::from(word) * u64::from(bound)) >> 16) as u32)
            }
        }
    }

    /// Returns `true` `rate` times in a million. Draws nothing for a rate of zero.
    pub(crate) fn chance(&mut self, rate: u32) -> bool {
        rate > 0 && self.below(1_000_000) >= 1_000_000 - rate
    }

    /// Returns one of `options`.
    pub(crate) fn pick<T: Copy>(&mut self, options: &[T]) -> T {
        options[self.below(options.len() as u32) as usize]
    }

    /// Returns a span up to `longest`. All orders of magnitude are equally likely.
    pub(crate) fn span(&mut self, longest: u64) -> u64 {
        let bits = u64::BITS - longest.leading_zeros();
        if bits == 0 {
            return 0;
        }
        let order = self.below(bits);
        let fraction = self.below(1 << 16);
        span_of(order, fraction).min(longest)
    }

    /// Returns a span up to `longest`. The longest span is the calmest choice.
    pub(crate) fn rest(&mut self, longest: u64) -> u64 {
        let bits = u64::BITS - longest.leading_zeros();
        if bits == 0 {
            return 0;
        }
        let order = bits - 1 - self.below(bits);
        let fraction = (1 << 16) - 1 - self.below(1 << 16);
        span_of(order, fraction).min(longest)
    }

    /// Returns a number between `-most` and `most`.
    pub(crate) fn around_zero(&mut self, most: u32) -> i64 {
        let drawn = i64::from(self.below(2 * most + 1));
        match drawn % 2 == 0 {
            true => -drawn / 2,
            false => (drawn + 1) / 2,
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
    assert_eq!(entropy.into_recorded().tape.0[PLAN][..4], drawn);
}

#[test]
fn a_tape_repeats_the_choices() {
    let choose = |entropy: &mut Entropy| {
        entropy.turn_to(PLAN, 0);
        let spans = [entropy.span(1 << 40), entropy.rest(1_000)];
        entropy.turn_to(peer_strand(3), 5);
        (spans, entropy.around_zero(9), entropy.chance(500_000))
    };
    let mut entropy = Entropy::of_seed(2).recording();
    let drawn = choose(&mut entropy);
    let mut again = Entropy::of_tape(entropy.into_recorded().tape, None);
    assert_eq!(choose(&mut again), drawn);
    assert!(!again.is_spent());
    assert!(!again.chance(999_999));
    assert!(again.is_spent());
    assert!(!again.is_all_spent());
    again.turn_to(PLAN, 0);
    assert!(!again.chance(999_999));
    assert!(again.is_all_spent());
}

#[test]
fn an_empty_tape_makes_the_calmest_choices() {
    let mut spent = Entropy::of_tape(Tape::default(), None);
    assert!(spent.is_all_spent());
    assert_eq!(spent.span(1_000_000), 0);
    assert_eq!(spent.rest(1_000_000), 1_000_000);
    assert_eq!(spent.around_zero(5), 0);
    assert!(!spent.chance(999_999));
    assert_eq!(spent.pick(&["calm", "wild"]), "calm");
}
