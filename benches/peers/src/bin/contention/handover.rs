//! Measures the time from a release to the lock of the only waiting client, between processes and inside one process.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use shearline_peers::Failure;
use shearline_peers::figure::{Bound, Figure, median};
use shearline_peers::mate::Mate;
use shearline_peers::progress::{Progress, load};
use shearline_peers::random::Random;
use shearline_peers::servers::Server;
use shearline_peers::table::Table;

use crate::hands::{Hands, LIBRARIES, Who, stamp};
use crate::mate;
use crate::play::Part;
use crate::raw::Raw;
use crate::{Report, addresses};

/// How often each pair hands over in a round.
const EACH: usize = 5;

/// How long the waiter sleeps at least before the release.
const REST: Duration = Duration::from_millis(10);

/// How many microseconds more it may sleep, so that it follows no rhythm.
const MORE: usize = 20_000;

/// Where the waiter is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Place {
    Between,
    Inside,
}

impl Place {
    const fn title(self) -> &'static str {
        match self {
            Self::Between => "in another process",
            Self::Inside => "in the same process",
        }
    }

    /// Returns how many round trips and microseconds are allowed.
    const fn bound(self) -> (f64, f64) {
        match self {
            Self::Between => (2.0, 100.0),
            Self::Inside => (1.0, 50.0),
        }
    }
}

/// One client that holds and one that waits.
struct Pair {
    place: Place,
    who: Who,
    holder: Box<dyn Hands>,
    mate: Mate,
    /// The median of each round, in microseconds.
    times: Vec<f64>,
    /// The longest time of all, in milliseconds.
    longest: f64,
}

impl Pair {
    fn connect(place: Place, who: Who, nodes: &[SocketAddr]) -> Result<Self, Failure> {
        let holder = who.connect(nodes)?;
        let mate = match place {
            Place::Between => mate::process(Part::Waiter, who, nodes)?,
            Place::Inside => mate::thread(holder.twin()?)?,
        };
        Ok(Self {
            place,
            who,
            holder,
            mate,
            times: Vec::new(),
            longest: 0.0,
        })
    }

    fn name(&self) -> String {
        format!("{:?} {:?}", self.who, self.place)
    }

    /// Hands the lock over. Returns the microseconds since the beginning of the release.
    fn hand_over(&mut self, rest: Duration) -> Result<f64, Failure> {
        let name = self.name();
        self.holder.lock(&name)?;
        self.mate.tell(&format!("wait {name}"))?;
        self.mate.hear("waiting")?;
        thread::sleep(rest);
        let released = stamp();
        self.holder.release()?;
        let granted: u64 = self.mate.hear("got")?.parse()?;
        let time = granted.saturating_sub(released);
        self.longest = self.longest.max(time as f64 / 1e6);
        Ok(time as f64 / 1e3)
    }

    fn round(&mut self, random: &mut Random) -> Result<(), Failure> {
        let median = several(|| self.hand_over(rest(random)))?;
        self.times.push(median);
        Ok(())
    }
}

/// All pairs, and the floors with which they are compared.
struct Contest {
    pairs: Vec<Pair>,
    /// Round trips after a rest like that of the waiters,
    trips: Vec<f64>,
    /// and round trips one after the other.
    busy: Vec<f64>,
    /// Both steps on the same connections, which is the floor inside a process.
    inside: Vec<f64>,
}

impl Contest {
    fn hold(nodes: &[SocketAddr], rounds: usize, progress: &Progress) -> Result<Self, Failure> {
        let mut raw = Raw::connect(nodes)?;
        let mut random = Random::new(15);
        let mut contest = Self::connect(nodes)?;
        // The first ones do not count.
        for pair in &mut contest.pairs {
            pair.hand_over(REST)?;
        }
        for round in 0..rounds {
            contest
                .busy
                .push(several(|| raw.round_trip(Duration::ZERO))?);
            contest
                .trips
                .push(several(|| raw.round_trip(rest(&mut random)))?);
            let inside = several(|| raw.inside("inside", rest(&mut random)));
            contest.inside.push(inside?);
            let count = contest.pairs.len();
            for place in 0..count {
                let reversed = count - 1 - place;
                let index = if round % 2 == 0 { place } else { reversed };
                contest.pairs[index].round(&mut random)?;
            }
            progress.round(round + 1);
        }
        Ok(contest)
    }

    fn connect(nodes: &[SocketAddr]) -> Result<Self, Failure> {
        let between = [Who::Floor, Who::Redlock, Who::Rslock].map(|who| (Place::Between, who));
        let inside = LIBRARIES.map(|who| (Place::Inside, who));
        let pairs = between.into_iter().chain(inside);
        Ok(Self {
            pairs: pairs
                .map(|(place, who)| Pair::connect(place, who, nodes))
                .collect::<Result<_, _>>()?,
            trips: Vec::new(),
            busy: Vec::new(),
            inside: Vec::new(),
        })
    }

    fn times(&self, place: Place, who: Who) -> &[f64] {
        let of = |pair: &&Pair| pair.place == place && pair.who == who;
        self.pairs
            .iter()
            .find(of)
            .map_or(&self.inside, |pair| &pair.times)
    }

    /// Returns the longest time of each library, in milliseconds.
    fn longest(&self, place: Place) -> String {
        let of = |who| {
            let mut pairs = self.pairs.iter();
            pairs.find(|pair| pair.place == place && pair.who == who)
        };
        let said = LIBRARIES.map(|who| of(who).map_or(0.0, |pair| pair.longest));
        format!("{:.1} and {:.0}", said[0], said[1])
    }

    fn report(&self, count: usize, report: &mut Report) {
        for place in [Place::Between, Place::Inside] {
            let (trips, most) = place.bound();
            let own = self.times(place, Who::Redlock);
            let pairs = own.iter().zip(&self.trips);
            let beyond = pairs.map(|(time, trip)| time - trips * trip);
            let bound = Bound::AtMost(most);
            report.hand_over.row([
                count.to_string(),
                place.title().to_owned(),
                Figure::of(&self.busy).to_string(),
                Figure::of(&self.trips).to_string(),
                Figure::of(self.times(place, Who::Floor)).to_string(),
                Figure::of(own).to_string(),
                format!(
                    "{}: beyond {trips} trips {bound}",
                    report.judgement.note(Figure::of(beyond), bound)
                ),
                Figure::of(self.times(place, Who::Rslock)).to_string(),
                self.longest(place),
                load(),
            ]);
        }
    }
}

fn rest(random: &mut Random) -> Duration {
    REST + Duration::from_micros(random.below(MORE) as u64)
}

/// Returns the median of a round.
fn several(mut measure: impl FnMut() -> Result<f64, Failure>) -> Result<f64, Failure> {
    let times: Result<Vec<f64>, Failure> = (0..EACH).map(|_| measure()).collect();
    Ok(median(&mut times?))
}

pub(crate) fn measure(
    servers: &[Server],
    rounds: usize,
    report: &mut Report,
) -> Result<(), Failure> {
    let contest = Contest::hold(&addresses(servers), rounds, &report.progress)?;
    contest.report(servers.len(), report);
    Ok(())
}

pub(crate) fn table() -> Table {
    Table::new(&[
        "nodes",
        "the waiter is",
        "round trips in a row, µs",
        "one after a rest, µs",
        "floor, µs",
        "`Redlock`, µs",
        "beyond the trips, µs",
        "`rslock`, µs",
        "longest of these two, ms",
        "load",
    ])
}
