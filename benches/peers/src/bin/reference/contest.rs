//! One contest: all contestants lock in turns.

use std::net::SocketAddr;
use std::time::Duration;

use shearline_peers::Failure;
use shearline_peers::clients::crowd::{Threads, names};
use shearline_peers::cycle::{Client, Log};
use shearline_peers::figure::Figure;
use shearline_peers::floor::batch::{Batch, Outstanding};
use shearline_peers::floor::threads::Post;
use shearline_peers::judgement::{self, Judgement};
use shearline_peers::progress::Progress;
use shearline_peers::servers::Server;
use shearline_peers::table::Table;
use shearline_peers::turns::{Metric, Sample, Turns, interleave, turn};

use crate::cases::{Case, METRICS, RULES, Under, Way};
use crate::player::Player;
use crate::trees::Tree;

/// The length of a turn.
const SLOT: Duration = Duration::from_millis(150);

/// The places of the first two contestants.
const REFERENCE: usize = 0;
const OURS: usize = 1;

/// The name of the floor that waits for all answers.
const FLOOR_ALL: &str = "floor, batched, waiting for all";

#[derive(Debug)]
pub(crate) struct Contest {
    pub(crate) case: Case,
    who: Vec<String>,
    turns: Turns,
}

/// A tree is in another process, a floor in this one.
enum Contestant {
    Tree(Player),
    Floor(Box<dyn Client>),
}

impl Contest {
    pub(crate) fn hold(
        case: Case,
        trees: &[Tree],
        servers: &[Server],
        rounds: usize,
        progress: &Progress,
    ) -> Result<Self, Failure> {
        let mut named = Vec::new();
        for tree in trees {
            let urls = servers.iter().map(|server| server.url().into());
            let arguments = [case.way.to_string().into(), case.callers.to_string().into()];
            let arguments = arguments.into_iter().chain(urls).collect();
            let player = Player::start(&tree.player, arguments)?;
            named.push((tree.name.clone(), Contestant::Tree(player)));
        }
        let addresses: Vec<_> = servers.iter().map(Server::address).collect();
        named.extend(floors(case, &addresses)?);
        let (who, mut all): (Vec<_>, Vec<_>) = named.into_iter().unzip();
        let mut log = Log::default();
        let turns = interleave(
            rounds,
            all.len(),
            |index| all[index].turn(&mut log),
            |round| progress.round(round),
        )?;
        Ok(Self { case, who, turns })
    }

    /// Returns the figures to record: this tree ÷ the reference tree, and ÷ the floor.
    pub(crate) fn figures(&self) -> Vec<(String, Figure)> {
        let ours = |metric, under| self.turns.ratio(metric, OURS, under);
        let mut figures: Vec<_> = METRICS
            .iter()
            .map(|metric| (metric.to_string(), ours(*metric, REFERENCE)))
            .collect();
        if let Some(floor) = self.floor() {
            let what = format!("{} ÷ {FLOOR_ALL}", Metric::Rate);
            figures.push((what, ours(Metric::Rate, floor)));
        }
        figures
    }

    /// Returns the place of the floor that waits for all.
    fn floor(&self) -> Option<usize> {
        self.who.iter().position(|name| name == FLOOR_ALL)
    }
}

impl judgement::Contest for Contest {
    fn title(&self) -> String {
        self.case.to_string()
    }

    fn judge(&self, judgement: &mut Judgement, table: &mut Table) {
        for rule in RULES.iter().filter(|rule| rule.case == self.case) {
            let under = match rule.under {
                Under::Reference => Some(REFERENCE),
                Under::Floor => self.floor(),
            };
            // The tests check every rule against its case.
            let under = under.unwrap_or(REFERENCE);
            let figure = self.turns.ratio(rule.metric, OURS, under);
            table.row([
                self.case.to_string(),
                format!("{}, {} ÷ {}", rule.metric, self.who[OURS], self.who[under]),
                rule.bound.to_string(),
                judgement.note(figure, rule.bound),
            ]);
        }
    }

    fn table(&self) -> Table {
        let mut table = self.turns.table(&self.who, &METRICS);
        if let Some(floor) = self.floor() {
            let ratio = |index| match index {
                index if index == floor => "1".into(),
                _ => self.turns.ratio(Metric::Rate, index, floor).to_string(),
            };
            let head = format!("{} ÷ {FLOOR_ALL}", Metric::Rate);
            table.column(&head, (0..self.who.len()).map(ratio));
        }
        table
    }
}

impl Contestant {
    fn turn(&mut self, log: &mut Log) -> Result<Sample, Failure> {
        match self {
            Self::Tree(player) => player.turn(SLOT),
            Self::Floor(client) => turn(SLOT, &mut **client, log),
        }
    }
}

/// Makes the floors of a case, with their names.
fn floors(case: Case, addresses: &[SocketAddr]) -> Result<Vec<(String, Contestant)>, Failure> {
    let callers = case.callers;
    // These are as long as the names that the players lock.
    let locks = |prefix| names(prefix, usize::from(callers));
    let batched = |name: &str, prefix, needed| {
        let batch = Batch::connect(addresses, &locks(prefix), needed)?;
        let floor = Contestant::Floor(Box::new(Outstanding::new(batch)));
        Ok::<_, Failure>((name.to_string(), floor))
    };
    Ok(match case.way {
        Way::Joined => vec![
            batched("floor, batched", "floor:batched", None)?,
            batched(FLOOR_ALL, "floor:for-all", Some(addresses.len()))?,
        ],
        Way::Threads if callers > 1 => {
            let post = Post::open(addresses, &locks("floor:threads"))?;
            let threads = Threads {
                callers: (0..callers).map(|lock| post.caller(lock)).collect(),
                keep: Some(post),
            };
            let floor = Contestant::Floor(Box::new(threads));
            vec![("floor, threads".into(), floor)]
        }
        Way::Local | Way::Threads | Way::Contention => Vec::new(),
    })
}
