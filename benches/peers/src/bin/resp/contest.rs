//! One contest: all contestants do the same work in turns, and must get the same result.

use shearline_peers::figure::Figure;
use shearline_peers::measure::{Contestant, Failure, Plan, Rounds, measure};

/// The kind of a contestant, for the bounds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Family {
    Floor,
    Shearline,
    /// Ours, but not compared: values that outlive the buffer, commands that were encoded in part
    /// before.
    ShearlineOther,
    /// The floor again, or shearline without one, beside its twin: shows the noise.
    Again,
    RedisProtocolRange,
    RedisProtocolBytes,
    Redis,
    Hiredis,
}

/// A contestant.
#[derive(Debug)]
pub(crate) struct Entrant<'a> {
    pub(crate) family: Family,
    pub(crate) name: String,
    /// Or why it cannot take part.
    pub(crate) contestant: Result<Contestant<'a>, String>,
}

impl Entrant<'_> {
    /// The same once more, to be compared with itself.
    pub(crate) fn again(self) -> Self {
        Self {
            family: Family::Again,
            name: format!("{} against itself", self.name),
            ..self
        }
    }
}

/// The result of a contestant.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) family: Family,
    pub(crate) name: String,
    pub(crate) result: Result<Measured, Refusal>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    /// Its place among the contestants.
    index: usize,
    /// For each unit.
    pub(crate) allocations: f64,
}

/// Why there is no figure.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Refusal {
    /// It is not there; with advice.
    Absent(String),
    /// It cannot read the stream.
    CannotRead,
}

#[derive(Debug)]
pub(crate) struct Contest {
    pub(crate) entries: Vec<Entry>,
    rounds: Rounds,
}

impl Contest {
    /// Lets them rehearse, compares their results with `sum`, and measures. Reports to `progress`
    /// how many rounds are over.
    pub(crate) fn hold(
        plan: &Plan,
        sum: u64,
        entrants: Vec<Entrant<'_>>,
        progress: impl FnMut(usize),
    ) -> Result<Self, Failure> {
        let mut entries = Vec::new();
        let mut contestants = Vec::new();
        for Entrant {
            family,
            name,
            contestant,
        } in entrants
        {
            let result = match contestant {
                Err(advice) => Err(Refusal::Absent(advice)),
                Ok(mut contestant) => match contestant.rehearse() {
                    Err(error) if matches!(family, Family::Floor | Family::Shearline) => {
                        return Err(error);
                    }
                    Err(_) => Err(Refusal::CannotRead),
                    Ok((found, _)) if found != sum => {
                        return Err(format!("{name} found {found}, but there is {sum}").into());
                    }
                    Ok((_, allocations)) => {
                        contestants.push(contestant);
                        let index = contestants.len() - 1;
                        Ok(Measured { index, allocations })
                    }
                },
            };
            entries.push(Entry {
                family,
                name,
                result,
            });
        }
        let rounds = measure(plan, &mut contestants, progress)?;
        Ok(Self { entries, rounds })
    }

    /// How many times as long this entry took as the fastest of shearline; of one that takes part
    /// once more, as its twin.
    pub(crate) fn figure(&self, entry: &Entry, measured: Measured) -> Option<Figure> {
        let other = if entry.family == Family::Again {
            measured.index.checked_sub(1)?
        } else {
            self.fastest(Family::Shearline).ok()?.1.index
        };
        Some(self.rounds.ratio(measured.index, other))
    }

    /// The median nanoseconds for each unit.
    pub(crate) fn nanos(&self, measured: Measured) -> f64 {
        self.rounds.nanos(measured.index)
    }

    /// How many times as long the fastest of one family took as the fastest of the other.
    pub(crate) fn ratio(&self, family: Family, other: Family) -> Result<Figure, Refusal> {
        let (_, measured) = self.fastest(family)?;
        let (_, other) = self.fastest(other)?;
        Ok(self.rounds.ratio(measured.index, other.index))
    }

    /// The fastest of a family, or why there is none.
    pub(crate) fn fastest(&self, family: Family) -> Result<(&Entry, Measured), Refusal> {
        let mut refusal = Refusal::CannotRead;
        let mut fastest: Option<(&Entry, Measured)> = None;
        for entry in self.entries.iter().filter(|entry| entry.family == family) {
            match &entry.result {
                Err(why) => refusal = why.clone(),
                Ok(measured) => {
                    let nanos = self.nanos(*measured);
                    if fastest.is_none_or(|(_, best)| nanos < self.nanos(best)) {
                        fastest = Some((entry, *measured));
                    }
                }
            }
        }
        fastest.ok_or(refusal)
    }
}
