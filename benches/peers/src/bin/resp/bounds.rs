//! The bounds of shearline, and whether they are met.

use shearline_peers::figure::{Bound, Figure};
use shearline_peers::judgement::Judgement;
use shearline_peers::table::Table;

use crate::contest::{Contest, Family, Refusal};
use crate::table::Comparison;

/// A bound on the ratio of the times of two families, the fastest of each.
struct Rule {
    ratio: &'static str,
    over: Family,
    under: Family,
    bound: Bound,
}

/// Of lock replies.
const LOCK: [Rule; 5] = [
    Rule {
        ratio: "shearline ÷ floor",
        over: Family::Shearline,
        under: Family::Floor,
        bound: Bound::AtMost(3.0),
    },
    ours("redis ÷ shearline", Family::Redis, 10.0),
    ours(
        "redis-protocol `Bytes` ÷ shearline",
        Family::RedisProtocolBytes,
        5.0,
    ),
    ours(
        "redis-protocol range ÷ shearline",
        Family::RedisProtocolRange,
        2.0,
    ),
    ours("hiredis ÷ shearline", Family::Hiredis, 2.0),
];

/// Of short bulks, and of arrays of them.
const BULK: [Rule; 4] = [
    ours("redis ÷ shearline", Family::Redis, 3.0),
    ours(
        "redis-protocol `Bytes` ÷ shearline",
        Family::RedisProtocolBytes,
        3.0,
    ),
    ours(
        "redis-protocol range ÷ shearline",
        Family::RedisProtocolRange,
        3.0,
    ),
    ours("hiredis ÷ shearline", Family::Hiredis, 1.5),
];

/// Other frequent replies of any length.
const OFTEN: [Rule; 1] = [ours(
    "redis-protocol range ÷ shearline",
    Family::RedisProtocolRange,
    2.0,
)];

/// A payload is not read: a bulk of 64 KiB may cost as much as two of 300 bytes, for the two more
/// digits of its header and for the cache lines of its ends.
const HEADER: Bound = Bound::AtMost(2.0);

const fn ours(ratio: &'static str, over: Family, times: f64) -> Rule {
    Rule {
        ratio,
        over,
        under: Family::Shearline,
        bound: Bound::AtLeast(times),
    }
}

/// Compares all ratios, and the one of headers, with their bounds: a line for each.
pub(crate) fn judge(comparisons: &[Comparison], header: Option<&Figure>) -> (Table, Judgement) {
    let mut table = Table::new(&["replies", "time", "bound", "in one piece", "torn"]);
    let mut judgement = Judgement::default();
    for comparison in comparisons {
        let mut title = comparison.title.to_string();
        for [ratio, bound, whole, torn] in lines(&mut judgement, comparison) {
            table.row([title, ratio, bound, whole, torn]);
            title = String::new();
        }
    }
    if let Some(figure) = header {
        let cell = judgement.note(*figure, HEADER);
        let ratio = "shearline ÷ shearline on bulks of 300 bytes";
        let cells = ["bulk of 64 KiB", ratio, &HEADER.to_string(), &cell, ""];
        table.row(cells.map(Into::into));
    }
    (table, judgement)
}

fn rules(name: &str) -> &'static [Rule] {
    match name {
        "bulk-20" | "array-5" => &BULK,
        name if name.starts_with("lock") => &LOCK,
        "error" | "queued" | "integer" | "bulk-300" | "bulk-5000" | "bulk-64k" | "message"
        | "message-300" => &OFTEN,
        _ => &[],
    }
}

/// All but the title. Left out is what neither form of can be read.
fn lines(judgement: &mut Judgement, comparison: &Comparison) -> Vec<[String; 4]> {
    let both = [&comparison.whole, &comparison.torn];
    let mut lines = Vec::new();
    for Rule {
        ratio,
        over,
        under,
        bound,
    } in rules(comparison.name)
    {
        let results = both.map(|contest| contest.ratio(*over, *under));
        if results
            .iter()
            .all(|result| result == &Err(Refusal::CannotRead))
        {
            continue;
        }
        let [whole, torn] = results.map(|result| cell(judgement, result, *bound));
        lines.push([(*ratio).into(), bound.to_string(), whole, torn]);
    }
    if comparison.name.starts_with("lock") {
        let [whole, torn] = both.map(|contest| allocations(judgement, contest));
        lines.push(["allocations of shearline".into(), "0".into(), whole, torn]);
    }
    lines
}

fn cell(judgement: &mut Judgement, result: Result<Figure, Refusal>, bound: Bound) -> String {
    match result {
        Ok(figure) => judgement.note(figure, bound),
        Err(Refusal::CannotRead) => "cannot read it".into(),
        Err(Refusal::Absent(advice)) => {
            judgement.unjudged += 1;
            advice
        }
    }
}

fn allocations(judgement: &mut Judgement, contest: &Contest) -> String {
    match contest.fastest(Family::Shearline) {
        Ok((_, measured)) => judgement.note_exact(measured.allocations, Bound::AtMost(0.0)),
        Err(_) => String::new(),
    }
}
