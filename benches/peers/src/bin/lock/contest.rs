//! One contest: all contestants lock in turns.

use shearline_peers::Failure;
use shearline_peers::figure::Bound;
use shearline_peers::judgement::{self, Judgement};
use shearline_peers::progress::Progress;
use shearline_peers::table::Table;
use shearline_peers::turns::{Metric, Turns, allocations, take_turns};

use crate::cases::{Case, Rule};
use crate::who::Who;
use crate::world::World;

/// How many cycles of each caller are counted for allocations.
const COUNTED: u64 = 200;

pub(crate) struct Contest {
    pub(crate) case: &'static Case,
    turns: Turns,
    /// The allocations of each cycle, by contestant.
    allocations: Vec<Option<f64>>,
}

impl Contest {
    pub(crate) fn hold(
        world: &World,
        case: &'static Case,
        rounds: usize,
        progress: &Progress,
    ) -> Result<Self, Failure> {
        let mut clients = Vec::new();
        for who in case.who {
            let client = world.client(case.callers, *who);
            clients.push(client.map_err(|error| format!("{who}: {error}"))?);
        }
        let mut counts = Vec::new();
        for client in &mut clients {
            let cycles = COUNTED * case.callers as u64;
            let count = case
                .counts_allocations
                .then(|| allocations(&mut **client, cycles));
            counts.push(count.transpose()?);
        }
        let mut clients: Vec<_> = clients
            .iter_mut()
            .map(|client| &mut **client as _)
            .collect();
        let turns = take_turns(rounds, case.slot, &mut clients, |round| {
            progress.round(round)
        })?;
        Ok(Self {
            case,
            turns,
            allocations: counts,
        })
    }

    fn judge_ratio(
        &self,
        judgement: &mut Judgement,
        metric: Metric,
        over: Who,
        under: Who,
        bound: Bound,
    ) -> (String, Bound, String) {
        let figure = self
            .turns
            .ratio(metric, self.place(over), self.place(under));
        let what = format!("{metric}, {over} ÷ {under}");
        (what, bound, judgement.note(figure, bound))
    }

    fn best(&self, metric: Metric, of: [Who; 2]) -> Who {
        let [one, other] = of.map(|who| self.turns.median(metric, self.place(who)));
        let more_is_better = metric == Metric::Rate;
        of[usize::from((one < other) == more_is_better)]
    }

    fn place(&self, who: Who) -> usize {
        let mut all = self.case.who.iter();
        // The tests check every rule against its case.
        all.position(|one| *one == who).unwrap_or_default()
    }
}

impl judgement::Contest for Contest {
    fn title(&self) -> String {
        self.case.title.into()
    }

    fn judge(&self, judgement: &mut Judgement, table: &mut Table) {
        let mut case = self.case.name;
        for rule in self.case.rules {
            let (what, bound, verdict) = match *rule {
                Rule::Ratio(metric, over, under, bound) => {
                    self.judge_ratio(judgement, metric, over, under, bound)
                }
                Rule::Best(metric, over, under, bound) => {
                    let best = self.best(metric, over);
                    self.judge_ratio(judgement, metric, best, under, bound)
                }
                Rule::Allocations(who, bound) => {
                    let count = self.allocations[self.place(who)].unwrap_or(f64::NAN);
                    let what = format!("allocations for each cycle, {who}");
                    (what, bound, judgement.note_exact(count, bound))
                }
            };
            table.row([case.to_string(), what, bound.to_string(), verdict]);
            case = "";
        }
    }

    fn table(&self) -> Table {
        let names: Vec<String> = self.case.who.iter().map(ToString::to_string).collect();
        let mut table = self.turns.table(&names, self.case.metrics);
        if self.case.counts_allocations {
            let counts = self.allocations.iter().flatten();
            table.column("allocations", counts.map(|count| format!("{count:.2}")));
        }
        table
    }
}
